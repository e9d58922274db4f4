//! Holds the registry entries that the write caches share, whichever layers they have.

use destage_raid::RaidLevel;
use destage_raid::array::{ArrayConfig, RaidArray};

use super::{WriteCache, figures, options};
use crate::none::NoCache;
use crate::{BuildCache, CacheMedium, CacheTier, HostCacheError, HostCacheInfo, ServedTier};

/// The most pages: their slots are numbered in 32 bits.
const MAX_PAGES: u64 = 1 << 30;

/// Returns the registry entry that every cache of this kind shares.
pub(super) const fn info(
    name: &'static str,
    title: &'static str,
    paper: &'static str,
    build: BuildCache,
) -> HostCacheInfo {
    HostCacheInfo {
        medium: CacheMedium::Nvram,
        // Strips of members that hold the same pages would have to be written twice, from one slot.
        serves: |level| level != RaidLevel::Raid1,
        max_pages: MAX_PAGES,
        bytes_per_page: |_| 200,
        nv_slots: |pages, array, _| options::slots(pages, array.geometry.members()),
        figures: const { &figures::names(&figures::ALL) },
        build,
        ..HostCacheInfo::new::<NoCache>(name, title, paper)
    }
}

/// Puts a cache of so many pages over an array.
pub(super) fn serve(
    pages: u64,
    array: &ArrayConfig,
    mut cache: WriteCache,
) -> Result<Box<dyn ServedTier>, HostCacheError> {
    let members = array.geometry.members();
    let share = options::slots(pages, members);
    // Some are kept for what goes into the lower layer; a row has less than a page for each member.
    cache.most_at_once = options::spare(pages, members) - u64::from(members);
    Ok(Box::new(CacheTier::new(RaidArray::new(array.clone(), share)?, cache)))
}
