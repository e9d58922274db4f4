//! The interface that every reader and generator of requests has.

use destage_plan::{Nanos, Request};

use crate::clock::ClockWraps;
use crate::error::TraceError;

/// Limits the requests of a batch.
pub const BATCH_REQUESTS: usize = 1 << 14;

/// The latency of a request of which it is not known, in [`TraceSource::latencies`].
pub const LATENCY_UNKNOWN: Nanos = Nanos(u64::MAX);

/// Counts the lines that a lenient reader left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedLines {
    /// Lines or records left out.
    pub count: u64,
    /// Place and reason of the first of them, as an error message.
    pub first: Option<String>,
}

/// A stream of requests in the order of the trace.
pub trait TraceSource: Send {
    /// Replaces the content of `out` by the next requests, at most [`BATCH_REQUESTS`] (a line that
    /// yields two requests may exceed it by one). `out` is empty afterwards only at the end of the
    /// trace. After an error there are no further requests: later calls leave `out` empty or return
    /// an error again.
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError>;

    /// Replaces the content of `out` by the latencies of the last batch, one for each of its
    /// requests: nanoseconds from arrival to completion, [`LATENCY_UNKNOWN`] where that is not
    /// known. `false`, and an empty `out`, if the batch has none. They are decoded here and not
    /// before: a reader that does not ask does not pay.
    ///
    /// # Errors
    /// If the batch has latencies and they are malformed.
    fn latencies(&mut self, out: &mut Vec<Nanos>) -> Result<bool, TraceError> {
        out.clear();
        Ok(false)
    }

    /// The trace's own names for its volumes seen so far; [`Request::volume`] is the index. May be
    /// shorter than the number of volumes where a format has none to give.
    fn volume_names(&self) -> &[String] {
        &[]
    }

    /// Returns the lines left out so far because they could not be read and the reader is lenient.
    fn skipped(&self) -> SkippedLines {
        SkippedLines::default()
    }

    /// Returns how many rows of a table were passed over so far that its format knows to be no requests.
    fn passed_over(&self) -> u64 {
        0
    }

    /// Returns how often the clock of the trace wrapped so far; times go on where it did.
    fn clock_wraps(&self) -> ClockWraps {
        ClockWraps::default()
    }

    /// Requests left out so far because they lie in front of the window that is wanted.
    fn outside(&self) -> u64 {
        0
    }

    /// Requests in the whole trace, where the format says so at its beginning.
    fn len_hint(&self) -> Option<u64> {
        None
    }

    /// Share of the input read so far, 0 to 1, where the input's size is known: for progress.
    fn progress(&self) -> Option<f64> {
        None
    }
}
