//! Finds the blocks that a trace touches, before devices that fit them are made.

use std::ops::Range;

use super::{
    ConsumeFeeds, ExperimentError, OpenTrace, PassEnd, RunProgress, RunResources, ShowProgress, StopSignal,
    TraceReplay, look,
};
use crate::input::{FeedBuilder, LbaOverflow, PageSpace, RequestFeed, TouchedExtent};

/// Selects the size of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceCapacity {
    /// As their configuration says.
    #[default]
    Given,
    /// As large as it takes for what the trace touches.
    Fit,
    /// As large as it takes for this, which is what the trace touches.
    Of(TouchedExtent),
}

/// A device may be so many times as large as what is touched for addresses to stay as they are.
const SPARSE: u64 = 2;
/// Bytes that a directory takes for a block that the trace touches, at most: a chunk of its own.
const BYTES_PER_BLOCK: u64 = 300;

/// Takes requests for their addresses alone.
struct ExtentLook;

impl ConsumeFeeds for ExtentLook {
    type Outcomes = ();

    fn feed(&mut self, _: &RequestFeed, _: Option<&StopSignal>) {}

    fn finish(&mut self, _: Option<&StopSignal>, _: &(dyn Fn(f64) + Sync)) {}
}

impl TraceReplay {
    /// Reads the trace for what it touches.
    pub(crate) fn extent(
        &self,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
    ) -> Result<TouchedExtent, ExperimentError> {
        let end = self.look(|feeder| feeder, resources, open, progress)?;
        Ok(end.extent.expect("there is no device"))
    }

    /// Reads the trace for the blocks that it touches, and returns ranges of these in order.
    pub(crate) fn touched(
        &self,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
    ) -> Result<Vec<Range<u64>>, ExperimentError> {
        Ok(self.look(FeedBuilder::keep_touched, resources, open, progress)?.touched)
    }

    fn look(
        &self,
        keep: impl FnOnce(FeedBuilder) -> FeedBuilder,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
    ) -> Result<PassEnd, ExperimentError> {
        let n = u64::from(self.geometry.pages_per_block());
        let room = (resources.memory_bytes / BYTES_PER_BLOCK).saturating_mul(n);
        let space = PageSpace::unbounded(self.geometry, u32::try_from(room).unwrap_or(u32::MAX));
        let feeder = keep(self.feeder(space));
        let input = open().map_err(ExperimentError::Trace)?;
        let mut show = |share, requests| progress(RunProgress { share, requests, ..RunProgress::default() });
        look(&mut ExtentLook, input, feeder, &self.reading(), &mut show)
    }
}

impl TouchedExtent {
    /// Returns the number of blocks of a device that fits this extent, and how addresses are mapped. Blocks
    /// stay at their addresses unless these are far apart.
    pub(crate) fn blocks_to_fit(self) -> (u64, LbaOverflow) {
        let blocks = u64::from(self.blocks).max(1);
        if self.end <= SPARSE * blocks { (self.end.max(1), LbaOverflow::Wrap) } else { (blocks, LbaOverflow::Compact) }
    }
}
