//! A source of requests in memory.

use destage_trace::{Nanos, Request, TraceError, TraceSource};

/// Requests that are handed out in batches, each with its offset as its latency.
pub struct InMemory {
    requests: Vec<Request>,
    batch: usize,
    next: usize,
    last: usize,
}

impl InMemory {
    /// These requests, `batch` at a time.
    pub fn new(requests: Vec<Request>, batch: usize) -> Self {
        Self { requests, batch, next: 0, last: 0 }
    }
}

impl TraceSource for InMemory {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        out.clear();
        self.last = self.next;
        self.next = (self.next + self.batch).min(self.requests.len());
        out.extend_from_slice(&self.requests[self.last..self.next]);
        Ok(())
    }

    fn latencies(&mut self, out: &mut Vec<Nanos>) -> Result<bool, TraceError> {
        out.clear();
        out.extend(self.requests[self.last..self.next].iter().map(|request| Nanos(request.offset)));
        Ok(true)
    }
}
