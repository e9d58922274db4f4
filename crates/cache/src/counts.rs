//! What caches that keep copies of pages count (specs §0.3).

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
}
