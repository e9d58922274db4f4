//! Ending an experiment that nobody waits for any more.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use destage_trace::{FilePlace, ThroughSource, TraceError, TraceSource};

use super::OpenedInput;

/// Tells, from any thread, that what is under way is to end. It does so within some thousands of requests, programs or events
/// and has no results.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Has it end soon.
    pub fn now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Is true once somebody asked for the stop.
    #[inline]
    pub fn is_now(&self) -> bool {
        // No data depends on the flag, so its order relative to other memory does not matter.
        self.0.load(Ordering::Relaxed)
    }

    /// The source, which fails once it is to end.
    pub fn source<'a>(&self, inner: Box<dyn TraceSource + 'a>) -> Box<dyn TraceSource + 'a> {
        let stop = self.clone();
        Box::new(ThroughSource::new(inner, move |inner, out| {
            if stop.is_now() {
                // The reader must not take old requests for new ones.
                out.clear();
                let what = "is not read any further: the call was stopped";
                return Err(TraceError::new(Path::new("trace"), FilePlace::File, what));
            }
            inner.next_batch(out)
        }))
    }

    /// The same of an input.
    #[must_use]
    pub fn input(&self, input: OpenedInput) -> OpenedInput {
        OpenedInput { source: self.source(input.source), format: input.format }
    }
}

/// Is true if there is a stop signal and somebody set it.
#[inline]
pub(crate) fn is_told(stop: Option<&StopSignal>) -> bool {
    stop.is_some_and(StopSignal::is_now)
}
