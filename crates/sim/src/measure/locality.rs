//! The locality of a trace as results are written: with names, units and meanings.

use destage_trace::{BlockFill, LOCALITY_LISTS, LocalitySummary, ReuseCounts};

use super::record;

record! {
    /// Holds the figures of `destage trace stat --locality`.
    pub struct TraceLocality {
        pages: ReuseDistances ["-"] "reuse of pages" = ReuseDistances,
        blocks: ReuseDistances ["-"] "reuse of blocks of 64 pages; a request's pages in one block are one touch" = ReuseDistances,
        fills: Vec<StayFill> ["-"] "what is touched of a block while it is in an LRU list of blocks, for each of several lists" = StayFill,
        long_requests: u64 ["1"] "requests of 65,536 pages and more, which are left out",
    }
}

record! {
    /// After how much else things are touched again.
    pub struct ReuseDistances {
        touches: u64 ["1"] "touches",
        first_touches: u64 ["1"] "touches of what was not touched before",
        distances: Vec<u64> ["1"] "touches with as many others between them and the last touch of the same: 0, 1, 2 to 3, 4 to 7, and so on",
        hit_ratio: Vec<f64> ["1"] "touches that an LRU list holds, of all: a list of 1, 2, 4, 8, and so on",
    }
}

record! {
    /// Counts the accesses to blocks between entering an LRU list and leaving it.
    pub struct StayFill {
        list_blocks: u64 ["1"] "length of the list in blocks",
        stays: u64 ["1"] "times that a block left the list, or was in it at the end",
        mean_pages: f64 ["1"] "different pages of the block touched in a stay, mean",
        mean_touches: f64 ["1"] "requests that touched the block in a stay, mean",
        stays_by_pages: Vec<u64> ["1"] "stays with 1, 2, 3 to 4, 5 to 8, 9 to 16, 17 to 32, 33 to 63 and 64 pages",
    }
}

impl From<&LocalitySummary> for TraceLocality {
    fn from(summary: &LocalitySummary) -> Self {
        let fills = LOCALITY_LISTS.iter().zip(&summary.fills);
        Self {
            pages: (&summary.pages).into(),
            blocks: (&summary.blocks).into(),
            fills: fills.map(|(&list, fill)| StayFill::of(list, fill)).collect(),
            long_requests: summary.long_requests,
        }
    }
}

impl From<&ReuseCounts> for ReuseDistances {
    fn from(reuse: &ReuseCounts) -> Self {
        Self {
            touches: reuse.touches,
            first_touches: reuse.first,
            distances: reuse.distances.clone(),
            hit_ratio: (0..reuse.distances.len()).map(|k| reuse.hit_percent(k) / 100.0).collect(),
        }
    }
}

impl StayFill {
    fn of(list: u32, fill: &BlockFill) -> Self {
        Self {
            list_blocks: u64::from(list),
            stays: fill.stays,
            mean_pages: fill.mean_pages(),
            mean_touches: fill.mean_touches(),
            stays_by_pages: fill.classes.to_vec(),
        }
    }
}
