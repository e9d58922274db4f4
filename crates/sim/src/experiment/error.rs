//! Why experiments fail, whatever they simulate.

use destage_trace::TraceError;

use crate::input::SpaceError;

/// Why an experiment failed for a reason that lies in its trace or in the machine.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A request has no place.
    #[error("{trace}, request {request}: {error}")]
    Space {
        /// The trace.
        trace: String,
        /// The request, from 1.
        request: u64,
        /// Why.
        error: SpaceError,
    },
    /// Nothing was measured.
    #[error("warmup: the trace ends within it, after {requests} requests; give a shorter one")]
    Warmup {
        /// Requests in the trace.
        requests: u64,
    },
    /// Reports that the caller told the call to stop.
    #[error("the call was stopped")]
    Stopped,
    /// The operating system refused a thread.
    #[error("cannot start threads: {0}")]
    Threads(String),
}
