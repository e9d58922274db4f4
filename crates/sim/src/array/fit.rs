//! An array that fits the trace: as large as what the trace touches, so that nothing has to be wrapped and SSDs,
//! since they are full, collect.

use std::ops::Range;

use destage_plan::{PageGeometry, Row};
use destage_raid::Geometry;

use super::experiment::{ArrayError, ArrayExperiment};
use super::failures::InjectionKind;
use super::setup::{DeviceSetup, SetupError};
use crate::experiment::{DeviceCapacity, OpenTrace, RunResources, ShowProgress};
use crate::input::{LbaOverflow, TouchedExtent};

impl ArrayExperiment {
    /// Returns the blocks that the trace touches, if they decide about the array's size; a pass over the
    /// trace finds them.
    ///
    /// # Errors
    /// Fails if the trace cannot be read.
    pub fn extent(
        &self,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
    ) -> Result<Option<TouchedExtent>, ArrayError> {
        let extent = match self.replay.capacity {
            DeviceCapacity::Given => return Ok(None),
            DeviceCapacity::Of(extent) => extent,
            DeviceCapacity::Fit if self.array.member_bytes.is_some() => return Ok(None),
            DeviceCapacity::Fit => self.replay.extent(resources, open, progress)?,
        };
        Ok(Some(extent))
    }

    /// The same over an array that fits the trace, which is read for that unless the members' size is given.
    pub(super) fn fitted(
        &self,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
    ) -> Result<Self, ArrayError> {
        Ok(match self.extent(resources, open, progress)? {
            Some(extent) => self.of_extent(extent)?,
            None => self.with_ssds_that_fit()?,
        })
    }

    /// Returns the rows of `fitted`, which was made of this experiment, that the trace's data takes: what a rebuild has to
    /// fill. `None` where that is all of them, or where nothing is rebuilt. The trace is read for it.
    pub(super) fn used_rows(
        &self,
        fitted: &Self,
        resources: RunResources<'_>,
        open: &mut OpenTrace<'_>,
        progress: &ShowProgress<'_>,
    ) -> Result<Option<Vec<Range<Row>>>, ArrayError> {
        let is_disk = matches!(self.member, DeviceSetup::Disk { .. });
        let replaces = self.injections.iter().any(|injection| injection.kind == InjectionKind::Replace);
        // Only a disk is larger than the trace's data; other members fit it, so a rebuild fills all their
        // rows.
        if !is_disk || !replaces || self.array.member_bytes.is_some() {
            return Ok(None);
        }
        let mut blocks = self.replay.touched(resources, open, progress)?;
        if fitted.replay.lba_overflow == LbaOverflow::Compact {
            // They lie side by side.
            let count = blocks.iter().map(|range| range.end - range.start).sum();
            blocks = std::iter::once(0..count).collect();
        }
        let per_block = u64::from(self.replay.geometry.pages_per_block());
        Ok(Some(rows_of(
            &fitted.array_geometry()?,
            blocks.iter().map(|range| range.start * per_block..range.end * per_block),
        )))
    }

    /// The same over the smallest array that could fit a trace, or over the one whose members' size is given.
    pub(super) fn smallest(&self) -> Result<Self, SetupError> {
        match self.replay.capacity {
            DeviceCapacity::Given => Ok(self.clone()),
            _ if self.array.member_bytes.is_some() => self.with_ssds_that_fit(),
            DeviceCapacity::Of(extent) => self.of_extent(extent),
            DeviceCapacity::Fit => self.of_extent(TouchedExtent { blocks: 1, end: 1 }),
        }
    }

    /// The same over an array that fits what is touched.
    fn of_extent(&self, extent: TouchedExtent) -> Result<Self, SetupError> {
        let mut fitted = self.clone();
        let page = self.replay.geometry.page_bytes();
        let per_block = u64::from(self.replay.geometry.pages_per_block());
        let (blocks, lba_overflow) = if matches!(self.member, DeviceSetup::Disk { .. }) {
            // A disk is as large as it is, and how far apart addresses lie is what it takes time for.
            let pages = self.array_geometry()?.data_pages();
            let beyond = extent.end.saturating_mul(per_block) > pages;
            (0, if beyond { LbaOverflow::Compact } else { LbaOverflow::Wrap })
        } else {
            extent.blocks_to_fit()
        };
        fitted.replay.place(lba_overflow);
        if blocks == 0 {
            fitted.replay.capacity = DeviceCapacity::Given;
            return Ok(fitted);
        }
        // As many whole stripes as it takes.
        let stripe = self.array.smallest(page, self.member.word())?;
        let rounds = (blocks * per_block).div_ceil(stripe.data_pages());
        let bytes = rounds.saturating_mul(stripe.member_pages()).saturating_mul(page);
        fitted.array.member_bytes = Some(bytes);
        // The result names the size that was chosen, so that the run can be repeated without the trace.
        fitted.replay.settings.push(("member-size".to_owned(), bytes.to_string()));
        fitted.with_ssds_that_fit()
    }

    /// The same with SSDs that hold what is used of a member, or of the cache device.
    fn with_ssds_that_fit(&self) -> Result<Self, SetupError> {
        let mut fitted = self.clone();
        fitted.replay.capacity = DeviceCapacity::Given;
        let page = self.replay.geometry.page_bytes();
        let DeviceSetup::Ssd { .. } = self.member else { return Ok(fitted) };
        fitted.member.fit(self.array.member_bytes.unwrap_or(0).div_ceil(page), self.replay.geometry)?;
        if let Some(cache) = self.caches.iter().max() {
            let bytes = cache.saturating_add(self.service.journal.unwrap_or(0));
            fitted.cache_device.fit(bytes.div_ceil(page), self.replay.geometry)?;
        }
        fitted.replay.settings.retain(|(name, _)| name != "ssd.capacity");
        fitted.replay.settings.push(("ssd.capacity".to_owned(), "fit".to_owned()));
        Ok(fitted)
    }
}

impl DeviceSetup {
    /// Makes an SSD as large as it takes for so many pages; other devices are as they are.
    fn fit(&mut self, pages: u64, geometry: PageGeometry) -> Result<(), SetupError> {
        if let Self::Ssd { config, .. } = self {
            *config = config.clone().with_pages(pages, geometry)?;
        }
        Ok(())
    }
}

/// Returns the rows of all stripes that such ranges of pages lie in, which are in order.
fn rows_of(geometry: &Geometry, pages: impl Iterator<Item = Range<u64>>) -> Vec<Range<Row>> {
    let chunk = u64::from(geometry.chunk_pages());
    let stripe = chunk * u64::from(geometry.data_columns());
    let end = Row(geometry.member_pages());
    let mut rows: Vec<Range<Row>> = Vec::new();
    for range in pages {
        let (from, to) = (Row(range.start / stripe * chunk), Row(range.end.div_ceil(stripe) * chunk).min(end));
        match rows.last_mut() {
            Some(last) if last.end >= from => last.end = last.end.max(to),
            _ => rows.push(from..to),
        }
    }
    // More blocks than the array has are wrapped to its size.
    rows.retain(|rows| rows.start < rows.end);
    rows
}

impl super::setup::ArraySetup {
    /// The array of a single stripe.
    fn smallest(&self, page: u64, device: &'static str) -> Result<Geometry, SetupError> {
        Self { member_bytes: Some(self.chunk_bytes), ..*self }.geometry(page, device, None)
    }
}
