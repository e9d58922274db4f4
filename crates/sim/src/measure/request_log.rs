//! A log of what became of each request of a run.

use destage_plan::{Nanos, Op};

/// Holds what became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    /// Numbers the request among those that were read, from 1; those in front of a window do not count.
    pub request: u64,
    /// Tells when it arrived; in a closed loop, when it was issued.
    pub arrival: Nanos,
    /// Names its volume as the trace has it, numbered in order of first appearance.
    pub volume: u32,
    /// Gives the first byte on that volume.
    pub offset: u64,
    /// Counts the bytes asked for.
    pub bytes: u64,
    /// Names the operation.
    pub op: Op,
    /// Measures from its arrival to its answer; none where the device takes no time, where it failed, and inside an SSD of what is
    /// neither a read nor a write of some bytes.
    pub response: Option<Nanos>,
    /// Counts the pages that it touched.
    pub pages: u64,
    /// Counts those of them that were in the buffer. None before an array, whose caches do not tell requests apart.
    pub hit_pages: Option<u64>,
    /// Tells whether its last page waited for a collection, or for a frame that did; of an array, whether a step of it waited
    /// for a device that collected.
    pub gc_delayed: bool,
}

/// Takes the requests of a run.
pub trait RequestLog: Send {
    /// Hears that the run begins: its policy with its layers, and the size of its buffer or cache unless it holds nothing.
    fn begin(&mut self, policy: &str, cache_bytes: Option<u64>);

    /// Takes the next requests of the measured part: in order, and of an array in the order of their answers. Returns
    /// `false` if it can take no more: then the rest is not simulated, and results mean nothing.
    fn take(&mut self, requests: &[LoggedRequest]) -> bool;
}

/// Holds a log with the requests that it has not taken yet.
pub(crate) struct PendingLog {
    to: Box<dyn RequestLog>,
    next: Vec<LoggedRequest>,
    has_given_up: bool,
}

impl PendingLog {
    /// Begins with nothing.
    pub(crate) fn new(to: Box<dyn RequestLog>) -> Self {
        Self { to, next: Vec::new(), has_given_up: false }
    }

    /// Adds the next requests.
    pub(crate) fn extend(&mut self, requests: impl IntoIterator<Item = LoggedRequest>) {
        self.next.extend(requests);
    }

    /// Gives the log what was added.
    pub(crate) fn hand_over(&mut self) {
        self.has_given_up |= !self.to.take(&self.next);
        self.next.clear();
    }

    /// Returns true if the log takes no more.
    pub(crate) fn has_given_up(&self) -> bool {
        self.has_given_up
    }
}
