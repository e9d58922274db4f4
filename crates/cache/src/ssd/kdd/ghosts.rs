//! Pages that were written lately and are not in the cache: how often, so that one comes in that is written again
//! and again, and one that is written once does not wear the SSD.

/// Pages of a bucket.
const WAYS: usize = 8;
/// Bits of a page's number; how often it was written is above them.
const PAGE: u32 = 56;

/// Bytes of memory that a page of the cache takes.
pub(super) const BYTES_PER_PAGE: u64 = 8;

/// Nothing.
const NONE: u64 = u64::MAX;

/// As many pages as there are frames, in buckets. The page that came to a bucket first leaves it first: eight bytes
/// a page, and nothing to be followed.
pub(super) struct GhostList {
    /// The page that came last is the first.
    buckets: Vec<[u64; WAYS]>,
    /// The write at which a page is admitted.
    admit: u32,
}

impl GhostList {
    /// For so many pages, which are admitted when they are written for the so many-th time.
    pub(super) fn new(pages: u32, admit: u32) -> Self {
        Self { buckets: vec![[NONE; WAYS]; (pages as usize).div_ceil(WAYS)], admit }
    }

    /// A page is written that is not in the cache; whether it is admitted. Then it is not known any more, so that it
    /// begins anew when it has left the cache.
    pub(super) fn admits(&mut self, page: u64) -> bool {
        debug_assert!(page < 1 << PAGE, "no array is so large");
        // As pages are spread over sets (specs §9.8.13).
        let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let count = self.buckets.len() as u64;
        let bucket = &mut self.buckets[(hash % count) as usize];
        let known = bucket.iter().position(|ghost| *ghost != NONE && ghost & ((1 << PAGE) - 1) == page);
        let writes = known.map_or(0, |at| (bucket[at] >> PAGE) as u32) + 1;
        match known {
            Some(at) if writes >= self.admit => {
                // An admitted page leaves the list. If it is evicted from the cache
                // it has to earn its place again.
                bucket[at..].rotate_left(1);
                bucket[WAYS - 1] = NONE;
                true
            }
            Some(at) => {
                bucket[at] = u64::from(writes) << PAGE | page;
                false
            }
            None => {
                bucket.rotate_right(1);
                bucket[0] = 1 << PAGE | page;
                false
            }
        }
    }
}
