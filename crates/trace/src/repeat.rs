//! A trace again and again.

use destage_plan::{Nanos, Request};

use crate::clock::ClockWraps;
use crate::error::TraceError;
use crate::source::{SkippedLines, TraceSource};

/// Opens the requests anew.
pub type ReopenTrace = Box<dyn FnMut() -> Result<Box<dyn TraceSource>, TraceError> + Send>;

/// Requests several times over. Times go on from where they ended: between the last arrival of a
/// pass and the first of the next one lies the mean time between arrivals.
pub struct RepeatedTrace {
    open: ReopenTrace,
    current: Box<dyn TraceSource>,
    /// The pass, from 0, and how many there are.
    pass: u32,
    passes: u32,
    /// Of the first pass: requests, and when the first and the latest arrived.
    requests: u64,
    first: Option<Nanos>,
    latest: Nanos,
    /// Shifts the times of the present pass.
    shift: Nanos,
    /// Of the passes that are over.
    skipped: SkippedLines,
    outside: u64,
}

impl RepeatedTrace {
    /// Repeats the source that `open` opens, `passes` times.
    ///
    /// # Errors
    /// Returns the errors of opening.
    pub fn new(mut open: ReopenTrace, passes: u32) -> Result<Self, TraceError> {
        Ok(Self {
            current: open()?,
            open,
            pass: 0,
            passes,
            requests: 0,
            first: None,
            latest: Nanos::ZERO,
            shift: Nanos::ZERO,
            skipped: SkippedLines::default(),
            outside: 0,
        })
    }

    /// From the first arrival of a pass to the first of the next one.
    fn period(&self) -> Nanos {
        let span = self.latest.since(self.first.unwrap_or(self.latest)).0;
        // A mean gap lies between two passes, so that the last request and the first do not come together.
        let gap = span.checked_div(self.requests.saturating_sub(1)).unwrap_or(0);
        Nanos(span.saturating_add(gap))
    }
}

impl TraceSource for RepeatedTrace {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        self.current.next_batch(out)?;
        while out.is_empty() && self.pass + 1 < self.passes && self.requests > 0 {
            // What the passes before have counted is kept: each reader counts its own.
            self.skipped = self.skipped();
            self.outside = self.outside();
            self.current = (self.open)()?;
            self.pass += 1;
            self.shift = Nanos(self.shift.0.saturating_add(self.period().0));
            self.current.next_batch(out)?;
        }
        if self.pass == 0 {
            self.requests += out.len() as u64;
            if let Some(request) = out.first() {
                self.first.get_or_insert(request.time);
            }
            self.latest = out.iter().fold(self.latest, |latest, request| latest.max(request.time));
        } else {
            // A time that is too late for a simulation is refused there.
            for request in &mut *out {
                request.time = Nanos(request.time.0.saturating_add(self.shift.0));
            }
        }
        Ok(())
    }

    fn latencies(&mut self, out: &mut Vec<Nanos>) -> Result<bool, TraceError> {
        self.current.latencies(out)
    }

    fn volume_names(&self) -> &[String] {
        self.current.volume_names()
    }

    fn clock_wraps(&self) -> ClockWraps {
        self.current.clock_wraps()
    }

    fn passed_over(&self) -> u64 {
        self.current.passed_over()
    }

    fn skipped(&self) -> SkippedLines {
        let current = self.current.skipped();
        SkippedLines { count: self.skipped.count + current.count, first: self.skipped.first.clone().or(current.first) }
    }

    fn outside(&self) -> u64 {
        self.outside + self.current.outside()
    }

    fn progress(&self) -> Option<f64> {
        self.current.progress().map(|share| (f64::from(self.pass) + share) / f64::from(self.passes))
    }
}
