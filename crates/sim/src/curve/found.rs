//! Finds cache sizes from one pass over a trace.

use std::ops::AddAssign;

use crate::measure::{InputResult, RunFinding};

/// Page accesses by their kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCounts {
    /// Those of reads.
    pub reads: u64,
    /// Those of writes.
    pub writes: u64,
}

impl AccessCounts {
    /// Both together.
    pub fn all(self) -> u64 {
        self.reads + self.writes
    }

    /// Counts one.
    pub(super) fn count(&mut self, write: bool) {
        *(if write { &mut self.writes } else { &mut self.reads }) += 1;
    }
}

impl AddAssign for AccessCounts {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
    }
}

/// Counts the different pages that take part, those of a warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFootprint {
    /// Pages that are read or written.
    pub pages: u64,
    /// Pages that are written.
    pub written_pages: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
}

impl PageFootprint {
    /// Bytes of all pages that are read or written.
    pub fn bytes(&self) -> u64 {
        self.pages * self.page_bytes
    }
}

/// The hits of LRU at all sizes, exactly those of a run of `lru` without a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LruCurve {
    accesses: AccessCounts,
    /// By pages held; larger buffers have no more hits than the last.
    hits: Vec<AccessCounts>,
}

impl LruCurve {
    /// Of so many accesses of which so many hit with a buffer of item + 1 pages and none smaller.
    pub(super) fn new(accesses: AccessCounts, first_hits: Vec<AccessCounts>) -> Self {
        let mut hits = Vec::with_capacity(first_hits.len() + 1);
        let mut sum = AccessCounts::default();
        hits.push(sum);
        for more in first_hits {
            sum += more;
            hits.push(sum);
        }
        Self { accesses, hits }
    }

    /// Page accesses that count.
    pub fn accesses(&self) -> AccessCounts {
        self.accesses
    }

    /// Those that hit in a buffer of so many pages.
    pub fn hits(&self, pages: u64) -> AccessCounts {
        let last = self.hits.len().saturating_sub(1);
        let at = usize::try_from(pages).map_or(last, |pages| pages.min(last));
        self.hits.get(at).copied().unwrap_or_default()
    }

    /// The share of the page accesses that hit in a buffer of so many pages; `None` of none.
    pub fn hit_ratio(&self, pages: u64) -> Option<f64> {
        let accesses = self.accesses.all();
        (accesses > 0).then(|| self.hits(pages).all() as f64 / accesses as f64)
    }

    /// The least pages with which a buffer has as many hits as any.
    pub fn full(&self) -> u64 {
        let most = self.hits(u64::MAX).all();
        self.hits.partition_point(|hits| hits.all() < most) as u64
    }

    /// Returns the knee of the curve in pages: where the curve lies highest above the straight line from
    /// nothing to a buffer of the whole footprint. The least of several such sizes counts; `None` means that
    /// nothing ever hits.
    pub fn knee(&self, footprint: &PageFootprint) -> Option<u64> {
        let most = self.hits(u64::MAX).all();
        if most == 0 {
            return None;
        }
        // The height above the line, times the footprint.
        let height = |pages: u64| {
            let line = i128::from(most) * i128::from(pages);
            i128::from(self.hits(pages).all()) * i128::from(footprint.pages) - line
        };
        // No more hits come from there on, while the line rises.
        (1..=self.full()).max_by_key(|&pages| (height(pages), std::cmp::Reverse(pages)))
    }
}

/// Holds the findings of one pass over a trace.
#[derive(Clone, Debug, Default)]
pub struct PassFindings {
    /// Counts the different pages that take part.
    pub footprint: PageFootprint,
    /// LRU at all sizes.
    pub lru: LruCurve,
    /// Requests that do not count.
    pub warmup_requests: u64,
    /// Counts the requests that were left out or changed.
    pub input: InputResult,
    /// Lists warnings for the user.
    pub findings: Vec<RunFinding>,
}

impl PassFindings {
    /// The pages at which LRU's curve bends; see [`LruCurve::knee`].
    pub fn knee(&self) -> Option<u64> {
        self.lru.knee(&self.footprint)
    }
}
