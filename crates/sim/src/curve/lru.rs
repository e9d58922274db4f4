//! LRU at all sizes in one pass.

use destage_trace::{RECENCY_MOST, RecencyStack, TraceError};

use super::walk::{PageVisitor, TraceWalk};
use super::{AccessCounts, CurveScope, LruCurve, PageFootprint, PassFindings};
use crate::experiment::{self, ConsumeFeeds, ExperimentError, OpenedInput, RunProgress, RunResources, StopSignal};
use crate::input::{LbaOverflow, PageSpace, RequestFeed};

/// Bytes that a page takes: its moment, two bits for it twice over with their tree, what hits at a size of its own (a read
/// and a write), and two bits of the footprint; a little more than that while vectors grow.
const BYTES_PER_PAGE: u64 = 32;

/// The LRU stack of the pages, and what it found.
#[derive(Default)]
struct LruStack {
    recency: RecencyStack,
    measuring: bool,
    accesses: AccessCounts,
    /// Item i: hits of a buffer of i + 1 pages and of none smaller.
    first_hits: Vec<AccessCounts>,
    touched: SeenPages,
    written: SeenPages,
}

impl PageVisitor for LruStack {
    fn grow(&mut self, pages: u32) {
        self.touched.grow(pages);
        self.written.grow(pages);
    }

    fn measure(&mut self) {
        self.measuring = true;
    }

    #[inline]
    fn access(&mut self, page: u32, write: bool) {
        self.touched.add(page);
        if write {
            self.written.add(page);
        }
        // A buffer larger than the stack distance hits, so one distance counts for all sizes.
        let above = self.recency.touch(page as usize);
        if !self.measuring {
            return;
        }
        self.accesses.count(write);
        if let Some(above) = above {
            let at = above as usize;
            if at >= self.first_hits.len() {
                // The list is as long as the largest distance, not as the largest size asked for.
                self.first_hits.resize(at + 1, AccessCounts::default());
            }
            self.first_hits[at].count(write);
        }
    }

    fn write_past(&mut self, page: u32) {
        self.touched.add(page);
        self.written.add(page);
        // A write past the buffer removes the page, as in a run.
        self.recency.forget(page as usize);
        if self.measuring {
            self.accesses.count(true);
        }
    }

    fn trim(&mut self, page: u32) {
        self.recency.forget(page as usize);
    }

    /// Keeps the pages: a flush evicts none.
    fn flush(&mut self) {}
}

/// A set of pages that is counted.
#[derive(Default)]
struct SeenPages {
    bits: Vec<u64>,
    pages: u64,
}

impl SeenPages {
    fn grow(&mut self, pages: u32) {
        let words = pages.div_ceil(64) as usize;
        self.bits.resize(self.bits.len().max(words), 0);
    }

    #[inline]
    fn add(&mut self, page: u32) {
        let (word, bit) = (&mut self.bits[page as usize / 64], 1 << (page % 64));
        self.pages += u64::from(*word & bit == 0);
        *word |= bit;
    }
}

/// Takes requests for the stack.
struct StackPass {
    walk: TraceWalk,
    stack: LruStack,
}

impl ConsumeFeeds for StackPass {
    type Outcomes = ();

    fn feed(&mut self, feed: &RequestFeed, _: Option<&StopSignal>) {
        self.walk.feed(feed, &mut self.stack);
    }

    fn finish(&mut self, _: Option<&StopSignal>, _: &(dyn Fn(f64) + Sync)) {}
}

/// Finds the footprint of a trace, and the hits of LRU at all sizes. The hits are exactly those of runs of
/// `lru` without a device (with `admission = page`). `open` opens the trace, which is read once.
///
/// # Errors
/// The trace cannot be read, touches more pages than memory has room for, or ends within the warm-up.
pub fn lru(
    scope: &CurveScope,
    resources: RunResources<'_>,
    open: &mut dyn FnMut() -> Result<OpenedInput, TraceError>,
    progress: &(dyn Fn(RunProgress) + Sync),
) -> Result<PassFindings, ExperimentError> {
    let mut pass = StackPass { walk: TraceWalk::new(scope), stack: LruStack::default() };
    // The memory bounds the pages: a trace may have more of them than fit.
    let room = (resources.memory_bytes / BYTES_PER_PAGE).min(RECENCY_MOST as u64) as u32;
    let space = PageSpace::unbounded(scope.replay.geometry, room);
    let feeder = scope.replay.feeder(space);
    let input = open()?;
    let mut show = |share, requests| progress(RunProgress { share, requests, ..RunProgress::default() });
    let end = experiment::look(&mut pass, input, feeder, &scope.replay.reading(), &mut show)?;
    let StackPass { walk, stack } = pass;
    if !walk.measured() {
        return Err(ExperimentError::Warmup { requests: end.counts.read });
    }
    let page_bytes = scope.replay.geometry.page_bytes();
    Ok(PassFindings {
        footprint: PageFootprint { pages: stack.touched.pages, written_pages: stack.written.pages, page_bytes },
        lru: LruCurve::new(stack.accesses, stack.first_hits),
        warmup_requests: walk.warmup_requests,
        input: end.input(&scope.replay.trace),
        findings: end.findings(LbaOverflow::default(), "", false),
    })
}
