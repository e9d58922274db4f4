//! Keeps when to look for commands that take too long.

use destage_plan::{Issue, Nanos};

/// Tells when to look for commands that take too long.
#[derive(Debug, Default)]
pub(super) struct TimeoutWatch {
    /// Notes a time before which no command in flight is due.
    pub(super) next: Option<Nanos>,
    /// Is true if the executor is to end: nothing is waited for without a limit.
    pub(super) is_ending: bool,
    /// Is true if the NVRAM or the intents had no answer in time.
    pub(super) is_over: bool,
    /// Counts the requests that have failed while their steps are in flight.
    pub(super) expired: usize,
    /// Counts their bytes.
    pub(super) expired_bytes: u64,
}

/// Holds a change that the store has.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredChange {
    /// Names the step; none if it is the executor's own.
    pub(super) issue: Option<Issue>,
    /// Notes when it was given to the store.
    pub(super) since: Nanos,
}

/// Holds a command that a backend has.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    /// Names the step; none if it writes the bitmap or the list of bad pages.
    pub(super) issue: Option<Issue>,
    /// Notes when it was given to the backend.
    pub(super) since: Nanos,
}
