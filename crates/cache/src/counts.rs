//! Counts what caches that keep copies of pages do (specs §0.3), and what coordinates collections (specs §8.8).

/// Pages by what the cache had of them. Counted when planned: what is planned anew since a device
/// was lost counts again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Read from the cache.
    pub read_hits: u64,
    /// Read from the array.
    pub read_misses: u64,
    /// Written, and in the cache before.
    pub write_hits: u64,
    /// Written, and not in the cache before.
    pub write_misses: u64,
    /// Pages written to the cache after a read.
    pub read_fills: u64,
    /// Pages written to the cache by a write.
    pub write_fills: u64,
    /// Pages with deltas written to the cache.
    pub delta_writes: u64,
    /// Pages of metadata written to the cache.
    pub meta_writes: u64,
    /// Counts the pages read and written past the cache, as they go on with a long sequential run.
    pub bypassed: u64,
    /// Counts the dirty pages that were overwritten past the cache.
    pub overwritten: u64,
    /// Pages written to the cache again when the parity of their row was made to catch up.
    pub clean_writes: u64,
}

/// Times that devices were told to collect together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionRounds {
    /// Since one had begun.
    pub reactive: u64,
    /// Since several would have had to soon.
    pub soft: u64,
    /// Since one would have had to soon, and nothing was asked.
    pub proactive: u64,
    /// Orders given to devices by that.
    pub asked: u64,
}
