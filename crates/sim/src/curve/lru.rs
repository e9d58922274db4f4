//! LRU at all sizes in one pass.

use destage_trace::{RECENCY_MOST, RecencyStack, TraceError};

use super::walk::{Pages, Walk};
use super::{Footprint, Found, Hits, LruCurve, Scope};
use crate::experiment::{self, Consume, ExperimentError, Input, Progress, Resources, Stop};
use crate::input::{Feed, LbaOverflow, PageSpace};

/// Bytes that a page takes: its moment, two bits for it twice over with their tree, what hits at a size of its own (a read
/// and a write), and two bits of the footprint; a little more than that while vectors grow.
const BYTES_PER_PAGE: u64 = 32;

/// The LRU stack of the pages, and what it found.
#[derive(Default)]
struct Stack {
    recency: RecencyStack,
    measuring: bool,
    accesses: Hits,
    /// Item i: hits of a buffer of i + 1 pages and of none smaller.
    first_hits: Vec<Hits>,
    touched: Seen,
    written: Seen,
}

impl Pages for Stack {
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
        let above = self.recency.touch(page as usize);
        if !self.measuring {
            return;
        }
        self.accesses.count(write);
        if let Some(above) = above {
            let at = above as usize;
            if at >= self.first_hits.len() {
                self.first_hits.resize(at + 1, Hits::default());
            }
            self.first_hits[at].count(write);
        }
    }

    fn write_past(&mut self, page: u32) {
        self.touched.add(page);
        self.written.add(page);
        self.recency.forget(page as usize);
        if self.measuring {
            self.accesses.count(true);
        }
    }

    fn trim(&mut self, page: u32) {
        self.recency.forget(page as usize);
    }

    /// Its pages stay.
    fn flush(&mut self) {}
}

/// A set of pages that is counted.
#[derive(Default)]
struct Seen {
    bits: Vec<u64>,
    pages: u64,
}

impl Seen {
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
struct Pass {
    walk: Walk,
    stack: Stack,
}

impl Consume for Pass {
    type Outcomes = ();

    fn feed(&mut self, feed: &Feed, _: Option<&Stop>) {
        self.walk.feed(feed, &mut self.stack);
    }

    fn finish(&mut self, _: Option<&Stop>, _: &(dyn Fn(f64) + Sync)) {}
}

/// What takes part of a trace, and the hits of LRU at all sizes, exactly as runs of `lru` without a device count them
/// (with `admission = page`). `open` opens the trace, which is read once.
///
/// # Errors
/// The trace cannot be read, touches more pages than memory has room for, or ends within the warm-up.
pub fn lru(
    scope: &Scope,
    resources: Resources<'_>,
    open: &mut dyn FnMut() -> Result<Input, TraceError>,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Found, ExperimentError> {
    let mut pass = Pass { walk: Walk::new(scope), stack: Stack::default() };
    let room = (resources.memory_bytes / BYTES_PER_PAGE).min(RECENCY_MOST as u64) as u32;
    let space = PageSpace::unbounded(scope.replay.geometry, room);
    let feeder = scope.replay.feeder(space);
    let input = open()?;
    let mut show = |share, requests| progress(Progress { share, requests, ..Progress::default() });
    let end = experiment::look(&mut pass, input, feeder, &scope.replay.reading(), &mut show)?;
    let Pass { walk, stack } = pass;
    if !walk.measured() {
        return Err(ExperimentError::Warmup { requests: end.counts.read });
    }
    let page_bytes = scope.replay.geometry.page_bytes();
    Ok(Found {
        footprint: Footprint { pages: stack.touched.pages, written_pages: stack.written.pages, page_bytes },
        lru: LruCurve::new(stack.accesses, stack.first_hits),
        warmup_requests: walk.warmup_requests,
        input: end.input(&scope.replay.trace),
        findings: end.findings(LbaOverflow::default(), "", false),
    })
}
