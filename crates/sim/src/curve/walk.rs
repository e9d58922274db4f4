//! Applies the requests of a trace to a buffer without a device: as in a run where pages come in one by one.

use destage_plan::Op;

use super::CurveScope;
use crate::buffer::FlushMode;
use crate::input::{RequestFeed, TrimMode, WarmupPart};

/// Receives the events of pages.
pub(super) trait PageVisitor {
    /// Pages below this number are to be named from now on.
    fn grow(&mut self, pages: u32);
    /// From now on everything counts.
    fn measure(&mut self);
    /// A page is read or written.
    fn access(&mut self, page: u32, write: bool);
    /// A page is written past the buffer, which forgets it.
    fn write_past(&mut self, page: u32);
    /// A page's content is no longer needed.
    fn trim(&mut self, page: u32);
    /// Every dirty page is written.
    fn flush(&mut self);
}

/// The way through a trace.
pub(super) struct TraceWalk {
    warmup: WarmupPart,
    flush: FlushMode,
    trim: TrimMode,
    fed: u64,
    /// Requests that do not count.
    pub(super) warmup_requests: u64,
    measuring: bool,
}

impl TraceWalk {
    pub(super) fn new(scope: &CurveScope) -> Self {
        let CurveScope { warmup, flush, trim, .. } = *scope;
        Self { warmup, flush, trim, fed: 0, warmup_requests: 0, measuring: false }
    }

    /// Tells of a batch.
    pub(super) fn feed(&mut self, feed: &RequestFeed, pages: &mut impl PageVisitor) {
        pages.grow(feed.pages);
        let mut begin = 0;
        for request in &feed.requests {
            let due = match self.warmup {
                WarmupPart::None => true,
                WarmupPart::Requests(requests) => self.fed >= requests,
                WarmupPart::Time(time) => request.time >= time,
            };
            if due && !self.measuring {
                self.measuring = true;
                self.warmup_requests = self.fed;
                pages.measure();
            }
            self.fed += 1;
            let spans = &feed.spans[begin..request.spans_end as usize];
            begin = request.spans_end as usize;
            let touched = spans.iter().flat_map(|span| span.page..span.page + span.pages);
            let drains = self.flush == FlushMode::Drain;
            match request.op {
                Op::Write if request.fua && drains => touched.for_each(|page| pages.write_past(page)),
                Op::Read | Op::Write => touched.for_each(|page| pages.access(page, request.op == Op::Write)),
                Op::Discard if self.trim == TrimMode::Honour => touched.for_each(|page| pages.trim(page)),
                Op::Flush if drains => pages.flush(),
                Op::Discard | Op::Flush => {}
            }
        }
    }

    /// Is true if a request counted, or none was fed.
    pub(super) fn measured(&self) -> bool {
        self.measuring || self.fed == 0
    }
}
