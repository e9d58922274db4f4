//! A device that fits the trace: as large as what the trace touches, so that nothing has to be wrapped and, since
//! it is full, collection is under way.

use destage_trace::TraceError;

use super::experiment::{DeviceConfig, Experiment, SimError};
use crate::experiment::{self, Consume, ExperimentError, Input, Progress, Resources};
use crate::input::{Extent, Feed, Feeder, LbaOverflow, PageSpace};

/// How large an SSD is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capacity {
    /// As its configuration says.
    #[default]
    Given,
    /// With as many blocks in each plane as it takes for what the trace touches.
    Fit,
}

/// A device may be so many times as large as what is touched for addresses to stay as they are.
const SPARSE: u64 = 2;
/// Bytes that a directory takes for a block that the trace touches, at most: a chunk of its own.
const BYTES_PER_BLOCK: u64 = 300;

/// Takes requests for their addresses alone.
struct Look;

impl Consume for Look {
    type Outcomes = ();

    fn feed(&mut self, _: &Feed) {}

    fn finish(&mut self) {}
}

impl Experiment {
    /// The same over a device that fits the trace, which is read for that.
    pub(super) fn fitted(
        &self,
        resources: Resources,
        open: &mut dyn FnMut() -> Result<Input, TraceError>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Self, SimError> {
        let DeviceConfig::Ssd(config, start) = &self.device else {
            return Ok(Self { capacity: Capacity::Given, ..self.clone() });
        };
        let extent = self.extent(resources, open, progress)?;
        let n = u64::from(self.geometry.pages_per_block());
        let dense = extent.end <= SPARSE * u64::from(extent.blocks).max(1);
        let (blocks, lba_overflow) =
            if dense { (extent.end, LbaOverflow::Wrap) } else { (extent.blocks.into(), LbaOverflow::Compact) };
        let config = config.clone().with_pages(blocks * n, self.geometry)?;
        let mut settings = self.settings.clone();
        settings.retain(|(name, _)| name != "ssd.capacity");
        for (_, value) in settings.iter_mut().filter(|(name, _)| name == "lba-overflow") {
            lba_overflow.word().clone_into(value);
        }
        settings.push(("ssd.blocks-per-plane".to_owned(), config.blocks_per_plane.to_string()));
        Ok(Self {
            device: DeviceConfig::Ssd(config, *start),
            capacity: Capacity::Given,
            lba_overflow,
            settings,
            ..self.clone()
        })
    }

    /// What the trace touches.
    fn extent(
        &self,
        resources: Resources,
        open: &mut dyn FnMut() -> Result<Input, TraceError>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Extent, SimError> {
        let n = u64::from(self.geometry.pages_per_block());
        let room = (resources.memory_bytes / BYTES_PER_BLOCK).saturating_mul(n);
        let space = PageSpace::unbounded(self.geometry, u32::try_from(room).unwrap_or(u32::MAX));
        let feeder = Feeder::new(space, self.ops, self.volumes, self.speed);
        let input = open().map_err(ExperimentError::Trace)?;
        let mut show = |share, requests| progress(Progress { share, requests, ..Progress::default() });
        let end = experiment::look(&mut Look, input, feeder, (&self.trace, self.limit), &mut show)?;
        Ok(end.extent.expect("there is no device"))
    }
}
