//! Checks which pages of an array belong together, byte by byte, with the plain reference kernels.

use destage_cache::ServedTier;
use destage_exec::{MemoryView, RowCheck};
use destage_plan::{Column, Dev, Row};
use destage_raid::array::{DeltaPlace, VersionDelta, VersionSource};
use destage_raid::kernels::reference;
use destage_raid::{Geometry, MAX_DEVICES, RaidLevel, field};

use crate::PAGE;

/// Checks rows of an array.
#[derive(Debug)]
pub struct ParityCheck {
    geometry: Geometry,
    /// Checks nothing, so that what the host sees is all there is to find a fault by.
    blind: bool,
}

impl ParityCheck {
    /// Of arrays of this geometry.
    pub const fn new(geometry: Geometry) -> Self {
        Self { geometry, blind: false }
    }

    /// Checks nothing.
    pub(crate) const fn blind(geometry: Geometry) -> Self {
        Self { geometry, blind: true }
    }

    /// The geometry.
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }
}

impl RowCheck<Box<dyn ServedTier>> for ParityCheck {
    fn members(&self) -> u8 {
        if self.blind { 0 } else { self.geometry.members() }
    }

    fn counts(&self, controller: &Box<dyn ServedTier>, dev: Dev, row: Row) -> bool {
        let degraded = controller.array().degraded();
        let live = |dev: &Dev| !degraded.contains(*dev);
        // A row with its data alone, or a single copy, has nothing to disagree with.
        let devices = self.geometry.devices(self.geometry.stripe_of(row).0);
        let redundant = match self.geometry.level() {
            RaidLevel::Raid0 => false,
            RaidLevel::Raid1 => devices.iter().filter(|dev| live(dev)).count() > 1,
            RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6 => {
                // With more members lost than the level tolerates nothing is computed any more.
                devices[usize::from(self.geometry.data_columns())..].iter().any(live)
                    && devices.iter().filter(|dev| !live(dev)).count() <= usize::from(self.geometry.parity_columns())
            }
        };
        // If both the covered and the newest version are in the NVRAM, nothing depends on the member's page.
        let column = self.geometry.column(self.geometry.stripe_of(row).0, dev);
        let sources = controller.sources(row);
        let elsewhere = |source| matches!(source, VersionSource::Nv(_));
        redundant && live(&dev) && !(elsewhere(sources.newest(column)) && elsewhere(sources.covered(column)))
    }

    fn row(&self, controller: &Box<dyn ServedTier>, view: &MemoryView<'_>, row: Row) -> Result<(), String> {
        if self.blind {
            return Ok(());
        }
        // The parity may cover other versions than the newest, and neither need be on the members.
        let sources = controller.sources(row);
        if sources.is_torn() {
            return Ok(());
        }
        let degraded = controller.array().degraded();
        let member = |dev: Dev| view.page(dev, row.0).filter(|_| !degraded.contains(dev));
        let mut before: [Option<[u8; PAGE]>; MAX_DEVICES] = [None; MAX_DEVICES];
        let devices = self.geometry.devices(self.geometry.stripe_of(row).0);
        for ((column, page), &dev) in (0..).map(Column).zip(&mut before).zip(devices) {
            if let VersionSource::Before(change) = sources.covered(column)
                && let Some(newest) = member(dev)
            {
                *page = Self::before(newest, change, view)?;
            }
        }
        self.consistent(row, |column, dev| match sources.covered(column) {
            VersionSource::Member => member(dev),
            VersionSource::Before(_) => before[column.index()].as_ref().map(|page| &page[..]),
            // The parity never covers a version that is a delta away from a page of the cache.
            VersionSource::Parity(_) | VersionSource::Lost | VersionSource::Delta(_) => None,
            VersionSource::Page(ext) => view.page(ext.dev(), ext.first()),
            VersionSource::Nv(slot) => Some(view.slot(slot)),
        })
    }
}

impl ParityCheck {
    /// Returns what a page was before a change; none if that cannot be read.
    fn before(newest: &[u8], change: VersionDelta, view: &MemoryView<'_>) -> Result<Option<[u8; PAGE]>, String> {
        let bytes = match change.place {
            DeltaPlace::Nv(slot) => Some(view.slot(slot)),
            DeltaPlace::Page(ext) => view.page(ext.dev(), ext.first()),
        };
        let Some(bytes) = bytes else { return Ok(None) };
        let delta = bytes.get(change.offset as usize..).and_then(|bytes| bytes.get(..change.len as usize));
        let delta = delta.ok_or_else(|| format!("there is no {change:?}"))?;
        let mut page = [0; PAGE];
        if delta.len() == PAGE {
            reference::xor(&mut page, &[newest, delta]);
        } else {
            destage_delta::decode(newest, delta, &mut page).map_err(|error| format!("{change:?}: {error}"))?;
        }
        Ok(Some(page))
    }
}

impl ParityCheck {
    /// Checks that the pages of a row belong together, as far as they are known.
    ///
    /// # Errors
    /// If copies differ, or P or Q is not what the data gives.
    pub(crate) fn consistent<'a>(
        &self,
        row: Row,
        page_of: impl Fn(Column, Dev) -> Option<&'a [u8]>,
    ) -> Result<(), String> {
        let geometry = &self.geometry;
        let level = geometry.level();
        if level == RaidLevel::Raid0 || row.0 >= geometry.member_pages() {
            return Ok(());
        }
        let stripe = geometry.stripe_of(row).0;
        let k = usize::from(geometry.data_columns());
        let mut pages: [Option<&[u8]>; MAX_DEVICES] = [None; MAX_DEVICES];
        for ((column, page), &dev) in (0..).map(Column).zip(&mut pages).zip(geometry.devices(stripe)) {
            *page = page_of(column, dev);
        }
        let pages = &pages[..usize::from(geometry.members())];
        if level == RaidLevel::Raid1 {
            let mut copies = pages.iter().flatten();
            let first = copies.next();
            return if copies.all(|copy| Some(copy) == first) { Ok(()) } else { Err("the copies differ".to_owned()) };
        }
        let lost: Vec<usize> = (0..k).filter(|column| pages[*column].is_none()).collect();
        let data: Vec<&[u8]> = pages[..k].iter().flatten().copied().collect();
        let mut sum = [0; PAGE];
        // The reference kernels are not those of the array, so no bug of the fast ones hides here.
        reference::xor(&mut sum, &data);
        let p = pages[k];
        let Some(&q_column) = pages.get(k + 1) else {
            return match p {
                Some(p) if lost.is_empty() && p != sum => Err("P is not the sum of the data".to_owned()),
                _ => Ok(()),
            };
        };
        let mut all: [Option<&[u8]>; MAX_DEVICES] = [None; MAX_DEVICES];
        for column in 0..k {
            all[geometry.exponent(stripe, Column(column as u8)) as usize] = pages[column];
        }
        let (mut p_sum, mut q_sum) = ([0; PAGE], [0; PAGE]);
        reference::pq(&mut p_sum, &mut q_sum, &all[..usize::from(geometry.slots())]);
        match (&lost[..], p, q_column) {
            ([], Some(p), _) if p != p_sum => Err("P is not the sum of the data".to_owned()),
            ([], _, Some(q)) if q != q_sum => Err("Q is not what the data gives".to_owned()),
            ([x], Some(p), Some(q)) => {
                // The page that P gives must give Q too.
                let mut page = [0; PAGE];
                reference::xor(&mut page, &[p, &p_sum]);
                reference::gf_into(&mut q_sum, field::pow2(geometry.exponent(stripe, Column(*x as u8))), &page);
                if q == q_sum { Ok(()) } else { Err(format!("P and Q disagree about lost data column {x}")) }
            }
            _ => Ok(()),
        }
    }
}
