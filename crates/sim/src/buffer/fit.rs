//! A device that fits the trace: as large as what the trace touches, so that nothing has to be wrapped and, since
//! it is full, collection is under way.

use super::experiment::{BufferExperiment, DeviceConfig, SimError};
use crate::experiment::{DeviceCapacity, OpenTrace, RunResources, ShowProgress, TraceReplay};
use crate::input::TouchedExtent;

impl BufferExperiment {
    /// Returns the blocks that the trace touches, if they decide about the device's size; a pass over the
    /// trace finds them.
    ///
    /// # Errors
    /// Fails if the trace cannot be read.
    pub fn extent(
        &self,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
    ) -> Result<Option<TouchedExtent>, SimError> {
        let extent = match (self.replay.capacity, &self.device) {
            (DeviceCapacity::Of(extent), _) => extent,
            (DeviceCapacity::Fit, DeviceConfig::Ssd(..)) => self.replay.extent(resources, open, progress)?,
            _ => return Ok(None),
        };
        Ok(Some(extent))
    }

    /// The same over a device that fits the trace, which is read for that.
    pub(super) fn fitted(
        &self,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
    ) -> Result<Self, SimError> {
        let geometry = self.replay.geometry;
        let extent = self.extent(resources, open, progress)?;
        let mut replay = TraceReplay { capacity: DeviceCapacity::Given, ..self.replay.clone() };
        let (DeviceConfig::Ssd(config, start), Some(extent)) = (&self.device, extent) else {
            return Ok(Self { replay, ..self.clone() });
        };
        let (blocks, lba_overflow) = extent.blocks_to_fit();
        let config = config.clone().with_pages(blocks * u64::from(geometry.pages_per_block()), geometry)?;
        replay.settings.retain(|(name, _)| name != "ssd.capacity");
        replay.place(lba_overflow);
        replay.settings.push(match &config.modern {
            Some(modern) => ("ssd.capacity".to_owned(), (modern.exported_pages * geometry.page_bytes()).to_string()),
            None => ("ssd.blocks-per-plane".to_owned(), config.blocks_per_plane.to_string()),
        });
        Ok(Self { device: DeviceConfig::Ssd(config, *start), replay, ..self.clone() })
    }
}
