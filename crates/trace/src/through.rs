//! A source of whose batches somebody takes notice.

use destage_plan::{Nanos, Request};

use crate::TraceError;
use crate::clock::ClockWraps;
use crate::source::{SkippedLines, TraceSource};

/// A source that asks `next` for each batch, which asks the source within it, and says all else as that one does.
pub struct ThroughSource<'a, F> {
    inner: Box<dyn TraceSource + 'a>,
    next: F,
}

impl<'a, F> ThroughSource<'a, F>
where
    F: FnMut(&mut (dyn TraceSource + 'a), &mut Vec<Request>) -> Result<(), TraceError> + Send,
{
    /// Around this source.
    pub fn new(inner: Box<dyn TraceSource + 'a>, next: F) -> Self {
        Self { inner, next }
    }
}

impl<'a, F> TraceSource for ThroughSource<'a, F>
where
    F: FnMut(&mut (dyn TraceSource + 'a), &mut Vec<Request>) -> Result<(), TraceError> + Send,
{
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        (self.next)(&mut *self.inner, out)
    }

    fn latencies(&mut self, out: &mut Vec<Nanos>) -> Result<bool, TraceError> {
        self.inner.latencies(out)
    }

    fn volume_names(&self) -> &[String] {
        self.inner.volume_names()
    }

    fn clock_wraps(&self) -> ClockWraps {
        self.inner.clock_wraps()
    }

    fn passed_over(&self) -> u64 {
        self.inner.passed_over()
    }

    fn skipped(&self) -> SkippedLines {
        self.inner.skipped()
    }

    fn outside(&self) -> u64 {
        self.inner.outside()
    }

    fn len_hint(&self) -> Option<u64> {
        self.inner.len_hint()
    }

    fn progress(&self) -> Option<f64> {
        self.inner.progress()
    }
}
