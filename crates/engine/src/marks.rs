//! Reports the state of pages beside their content: the context `destage:state` of block status.

use destage_cache::ServedTier;
use destage_nbd::StatusExtent;
use destage_plan::PageRange;

/// The context's name.
pub const CONTEXT: &str = "destage:state";

/// The newest version is in the cache or in the NVRAM, and its member has an older one.
pub const DIRTY: u32 = 1;
/// The member has the newest version, and the parity covers an older one.
pub const STALE: u32 = 2;
/// Marks a page that is lost for good until it is written anew.
pub const LOST: u32 = 4;

/// Pages that are told of at a time: a client asks on from there, and others have their turn.
const PAGES: u64 = 4096;

/// Returns the state of the first of these bytes of an array, for at most 4,096 pages.
pub fn of(served: &dyn ServedTier, page_bytes: u64, offset: u64, len: u64) -> Vec<StatusExtent> {
    let (array, mut extents) = (served.array(), Vec::<StatusExtent>::new());
    let end = offset + len;
    for page in (offset / page_bytes..end.div_ceil(page_bytes)).take(PAGES as usize) {
        // A lost page cannot be read, wherever its versions are said to be. So the loss is told and nothing else.
        let flags = if is_lost(array.lost(), page) { LOST } else { flags(served, page) };
        let length = end.min((page + 1) * page_bytes) - offset.max(page * page_bytes);
        match extents.last_mut().filter(|last| last.flags == flags) {
            Some(last) => last.length += length,
            None => extents.push(StatusExtent { length, flags }),
        }
    }
    extents
}

fn flags(served: &dyn ServedTier, page: u64) -> u32 {
    let geometry = &served.array().config().geometry;
    let place = geometry.locate(page);
    let sources = served.sources(geometry.row(place.stripe, place.row_in_chunk));
    if sources.is_above(place.column) {
        DIRTY
    } else if sources.stale().contains(place.column) {
        STALE
    } else {
        0
    }
}

/// Returns true if one of these ranges, which are in order, has the page.
fn is_lost(lost: &[PageRange], page: u64) -> bool {
    lost.get(lost.partition_point(|range| range.end() <= page)).is_some_and(|range| range.contains(page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_page_is_in_one_of_the_ranges() {
        let ranges = [PageRange { first: 2, pages: 1 }, PageRange { first: 5, pages: 3 }];
        let lost: Vec<u64> = (0..10).filter(|page| is_lost(&ranges, *page)).collect();
        assert_eq!(lost, [2, 5, 6, 7]);
        assert!((0..10).all(|page| !is_lost(&[], page)));
    }
}
