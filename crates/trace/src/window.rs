//! A part of a trace: requests at its beginning are left out, and those behind its end are not read.

use std::path::{Path, PathBuf};

use destage_plan::quantity::{show_count, show_time};
use destage_plan::{Nanos, Request};

use crate::clock::ClockWraps;
use crate::error::{FilePlace, TraceError};
use crate::source::{SkippedLines, TraceSource};

/// Selects requests of a trace. The fields apply in this order: the first requests are skipped; the window
/// begins with the first of the others at or after `from`; it ends before the first at or after `to`, or with
/// `limit` requests.
///
/// Times count from the trace's first request. A request that is dated before an earlier one in the trace has
/// the time of that one, as in a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceWindow {
    /// Requests left out at the beginning of the trace.
    pub skip: u64,
    /// Sets the begin of the window.
    pub from: Option<Nanos>,
    /// Sets the end of the window.
    pub to: Option<Nanos>,
    /// Requests in it at most.
    pub limit: Option<u64>,
}

impl TraceWindow {
    /// Is true if the window is the whole trace.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

/// Tracks the reader's place before, within or after the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowStage {
    Before,
    Within,
    /// Nothing more is read, unless nothing was found and the trace's length is to be told.
    Behind,
}

/// The requests of a window. The first of them arrives when the first of the whole trace would:
/// what lies in front of the window takes no time.
pub struct WindowedTrace {
    inner: Box<dyn TraceSource>,
    /// For messages.
    name: PathBuf,
    window: TraceWindow,
    stage: WindowStage,
    /// Holds the arrival of the trace's first request.
    first: Option<Nanos>,
    /// The latest arrival so far.
    latest: Nanos,
    /// Requests seen, and those of them in front of the window and in it.
    seen: u64,
    outside: u64,
    within: u64,
    /// Holds the arrival of the window's first request in the trace.
    begins: Nanos,
    /// Those of the last batch of `inner` that were handed on.
    handed: std::ops::Range<usize>,
}

impl WindowedTrace {
    /// The window of a trace, which messages call `name`.
    pub fn new(inner: Box<dyn TraceSource>, name: &Path, window: TraceWindow) -> Self {
        Self {
            inner,
            name: name.to_owned(),
            window,
            stage: WindowStage::Before,
            first: None,
            latest: Nanos::ZERO,
            seen: 0,
            outside: 0,
            within: 0,
            begins: Nanos::ZERO,
            handed: 0..0,
        }
    }

    /// Returns the arrival of the next request, counted from the trace's first.
    fn elapsed(&mut self, time: Nanos) -> Nanos {
        let first = *self.first.get_or_insert(time);
        // A request out of order arrives together with the latest before it.
        self.latest = self.latest.max(time);
        self.latest.since(first)
    }

    /// Counts requests behind a window in which there is none.
    fn pass_over(&mut self, requests: &[Request]) {
        self.seen += requests.len() as u64;
        for request in requests {
            self.elapsed(request.time);
        }
    }

    /// Those of a batch that lie in the window.
    fn choose(&mut self, batch: &[Request]) -> std::ops::Range<usize> {
        let mut start = 0;
        while self.stage == WindowStage::Before {
            let Some(request) = batch.get(start) else { break };
            let elapsed = self.elapsed(request.time);
            if self.seen >= self.window.skip && self.window.from.is_none_or(|from| elapsed >= from) {
                self.stage = WindowStage::Within;
                self.begins = self.latest;
                break;
            }
            self.seen += 1;
            self.outside += 1;
            start += 1;
        }
        if self.stage != WindowStage::Within {
            self.pass_over(&batch[start..]);
            return start..start;
        }
        let left = self.window.limit.map_or(u64::MAX, |limit| limit - self.within);
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(batch.len() - start);
        let mut end = start + most;
        if let Some(to) = self.window.to {
            let late = batch[start..end].iter().position(|request| self.elapsed(request.time) >= to);
            end = start + late.unwrap_or(most);
        }
        self.within += (end - start) as u64;
        self.seen += (end - start) as u64;
        if end < batch.len() || self.window.limit == Some(self.within) {
            self.stage = WindowStage::Behind;
            // The rest is counted only for the message that nothing lies in the window.
            if self.within == 0 {
                self.pass_over(&batch[end..]);
            }
        }
        start..end
    }

    /// Nothing lies in the window of a trace that was read to its end.
    fn empty(&self) -> TraceError {
        let TraceWindow { skip, from, to, .. } = self.window;
        let time = |key: &str, time: Option<Nanos>| time.map(|time| format!("{key} = {}", show_time(time.0 as f64)));
        let skip = (skip > 0).then(|| format!("skip = {}", show_count(skip)));
        let asked: Vec<_> = [skip, time("from", from), time("to", to)].into_iter().flatten().collect();
        let length = self.latest.since(self.first.unwrap_or(self.latest));
        let reason = format!(
            "no request lies in the window ({}): the trace has {} requests in {}",
            asked.join(", "),
            show_count(self.seen),
            show_time(length.0 as f64)
        );
        TraceError::new(&self.name, FilePlace::File, reason)
    }
}

impl TraceSource for WindowedTrace {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        loop {
            if self.stage == WindowStage::Behind && self.within > 0 {
                out.clear();
                self.handed = 0..0;
                return Ok(());
            }
            self.inner.next_batch(out)?;
            if out.is_empty() {
                self.handed = 0..0;
                return if self.within == 0 && self.seen > 0 { Err(self.empty()) } else { Ok(()) };
            }
            self.handed = self.choose(out);
            if self.handed.is_empty() {
                continue;
            }
            out.truncate(self.handed.end);
            out.drain(..self.handed.start);
            // The time before the window is taken out, or a simulation would begin with a long pause.
            if self.outside > 0 {
                let first = self.first.unwrap_or(self.begins);
                for request in &mut *out {
                    request.time = first + request.time.max(self.begins).since(self.begins);
                }
            }
            return Ok(());
        }
    }

    fn latencies(&mut self, out: &mut Vec<Nanos>) -> Result<bool, TraceError> {
        let any = self.inner.latencies(out)?;
        out.truncate(self.handed.end);
        // Latencies are those of the whole batch below, of which a part was handed on.
        out.drain(..self.handed.start.min(out.len()));
        Ok(any)
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
        self.outside
    }

    fn progress(&self) -> Option<f64> {
        self.inner.progress()
    }
}
