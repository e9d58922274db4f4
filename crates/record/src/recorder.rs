//! A recording from its beginning to its end.

use std::io;
use std::time::{Duration, Instant};

use destage_plan::{Nanos, Op};

use crate::RecordError;
use crate::device::RecordedDevice;
use crate::event::{EventLayouts, RequestStep};
use crate::instance::{KernelLosses, TracingInstance, tracefs};
use crate::merge::{CpuRings, EventMerge};
use crate::page::{PageLayout, PageParser};
use crate::pairing::{EventPairing, PairingCounts, RecordedMoments, RecordedRequest};

/// Sets how often the buffers are emptied. At 4 MiB per CPU a CPU can have 60,000 events in between.
const POLL: Duration = Duration::from_millis(20);
/// The same while so many come that a CPU's buffer may be an eighth full by then.
const QUICK_POLL: Duration = Duration::from_millis(2);
/// Estimates the bytes of an event in the kernel's buffer.
const EVENT_BYTES: u64 = 64;
/// Filters the completions that tell a caller to ask again (`EAGAIN`), for which the device was not asked.
const RETRACTED: &str = "error == -11";
/// Requests that are handed over at a time.
const BATCH: usize = 4096;

/// Selects how to record.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// Selects the moments of a request.
    pub at: RecordedMoments,
    /// Bytes of the kernel's buffer per CPU.
    pub buffer_bytes: u64,
    /// Requests to record at most.
    pub requests: Option<u64>,
    /// Limits how long to wait, after the end, for incomplete requests.
    pub patience: Duration,
}

impl Default for RecordOptions {
    fn default() -> Self {
        Self { at: RecordedMoments::Issue, buffer_bytes: 4 << 20, requests: None, patience: Duration::from_secs(5) }
    }
}

/// Reports the progress of a recording.
#[derive(Clone, Copy, Debug)]
pub struct RecordProgress {
    /// Since its beginning.
    pub elapsed: Duration,
    /// Requests recorded.
    pub requests: u64,
    /// Requests begun and not complete.
    pub outstanding: usize,
    /// Events lost.
    pub lost: u64,
    /// Is true if as many requests have been recorded as were wanted.
    pub full: bool,
}

/// Summarises a recording.
#[derive(Clone, Copy, Debug)]
pub struct RecordSummary {
    /// Requests and what was special about them.
    pub counts: PairingCounts,
    /// Events that the kernel lost.
    pub losses: KernelLosses,
    /// Gaps that the buffers' pages told of.
    pub gaps: u64,
    /// Events that came later than a younger one; their requests are out of order.
    pub late: u64,
    /// Events of a kind that was not asked for, or too short.
    pub strange: u64,
    /// From the first request's time to the last one's.
    pub span: Nanos,
    /// Sum of the known latencies, nanoseconds.
    pub latency_sum: u128,
    /// Counts the known latencies.
    pub latencies: u64,
    /// Holds the duration of the recording.
    pub elapsed: Duration,
}

/// A recording that is going on. Dropping it ends it and leaves nothing behind in the kernel.
pub struct TraceRecorder {
    instance: TracingInstance,
    merge: EventMerge,
    pairing: EventPairing,
    /// The event by which requests begin.
    begins: &'static str,
    patience: Duration,
    /// Events in a poll beyond which the next comes soon.
    many: u64,
    quick: bool,
    started: Instant,
    losses: KernelLosses,
    out: Vec<RecordedRequest>,
    /// Time of the first request, which is the trace's zero, and of the last.
    zero: Option<u64>,
    last: u64,
    latency_sum: u128,
    latencies: u64,
}

impl TraceRecorder {
    /// Begins to record a device.
    pub fn start(device: &RecordedDevice, options: &RecordOptions) -> Result<Self, RecordError> {
        // Pages have the processor's order of bytes, and this crate reads little-endian ones alone.
        if cfg!(target_endian = "big") {
            return Err(RecordError::BigEndian);
        }
        // md and device mapper issue no requests of their own: only what they are asked can be recorded.
        if options.at == RecordedMoments::Issue && !device.has_requests() {
            return Err(RecordError::NoRequests { device: device.name.clone() });
        }
        let mut instance = TracingInstance::create(tracefs()?, options.buffer_bytes)?;
        let layout = PageLayout::parse(&instance.page_header()?)?;
        instance.expect_pages(layout.page_bytes);
        let (issued, asked) = device.event_devs();
        // Completions are enabled first: a request that begins before its completion can be seen would stay
        // incomplete.
        let events: &[(&'static str, RequestStep, &[u32])] = match (options.at, device.has_requests()) {
            (RecordedMoments::Issue, _) => &[
                ("block_rq_complete", RequestStep::Complete, &issued),
                ("block_rq_requeue", RequestStep::Requeue, &issued),
                ("block_rq_issue", RequestStep::Begin, &issued),
            ],
            (RecordedMoments::Queue, true) => &[
                ("block_rq_complete", RequestStep::Complete, &issued),
                ("block_bio_complete", RequestStep::Retract, &asked),
                ("block_bio_queue", RequestStep::Begin, &asked),
            ],
            (RecordedMoments::Queue, false) => &[
                ("block_bio_complete", RequestStep::Complete, &asked),
                ("block_bio_queue", RequestStep::Begin, &asked),
            ],
        };
        let mut layouts = vec![];
        for &(event, step, devs) in events {
            layouts.push((instance.event(event)?, step));
            instance.enable(event, devs, (step == RequestStep::Retract).then_some(RETRACTED))?;
        }
        let merge = EventMerge::new(PageParser::new(layout), EventLayouts::new(&layouts)?, instance.cpus());
        let now = Instant::now();
        // All events are enabled by now, so none of a pair is missed.
        instance.switch(true)?;
        Ok(Self {
            instance,
            merge,
            pairing: EventPairing::new(device.view(options.at), options.requests),
            begins: if options.at == RecordedMoments::Issue { "block_rq_issue" } else { "block_bio_queue" },
            patience: options.patience,
            // An eighth of a buffer in one poll leaves time to poll faster before the buffer is full.
            many: options.buffer_bytes / 8 / EVENT_BYTES,
            quick: false,
            started: now,
            losses: KernelLosses::default(),
            out: Vec::with_capacity(BATCH),
            zero: None,
            last: 0,
            latency_sum: 0,
            latencies: 0,
        })
    }

    /// Records until `go_on`, which is asked many times a second, says no, or enough requests are
    /// recorded; then waits for what is not complete. `sink` gets the requests in the order of
    /// their beginnings, with times from the first one on.
    ///
    /// # Errors
    /// Whatever `sink` says, and what goes wrong with the kernel's buffers. What was recorded
    /// before has been handed over then.
    pub fn run(
        mut self,
        go_on: &mut dyn FnMut(&RecordProgress) -> bool,
        sink: &mut dyn FnMut(&[RecordedRequest]) -> io::Result<()>,
    ) -> Result<RecordSummary, RecordError> {
        let mut full: Option<Instant> = None;
        // Not at once when there are enough: the last ones may yet be retracted and repeated.
        while go_on(&self.progress()) && full.is_none_or(|since| since.elapsed() < POLL) {
            std::thread::sleep(if self.quick { QUICK_POLL } else { POLL });
            self.poll(false, sink)?;
            full = if self.pairing.is_full() { full.or_else(|| Some(Instant::now())) } else { None };
        }
        self.pairing.close(self.instance.now());
        // Only beginnings end here: completions of the requests in flight still count.
        self.instance.disable(self.begins)?;
        let stopped = Instant::now();
        loop {
            // At least one more poll, since the latest events are still in the buffers.
            std::thread::sleep(POLL);
            self.poll(false, sink)?;
            self.pairing.cut_surplus();
            if self.pairing.outstanding() == 0 || stopped.elapsed() >= self.patience {
                break;
            }
        }
        // Switched off before the last poll, so this poll takes all events that there are.
        self.instance.switch(false)?;
        self.poll(true, sink)?;
        self.pairing.give_up_all(&mut self.out);
        self.hand_over(sink)?;
        Ok(RecordSummary {
            counts: *self.pairing.counts(),
            losses: self.losses,
            gaps: self.merge.gaps,
            late: self.merge.late,
            strange: self.merge.strange,
            span: Nanos(self.last.saturating_sub(self.zero.unwrap_or(0))),
            latency_sum: self.latency_sum,
            latencies: self.latencies,
            elapsed: self.started.elapsed(),
        })
    }

    fn progress(&self) -> RecordProgress {
        RecordProgress {
            elapsed: self.started.elapsed(),
            requests: self.pairing.taken(),
            outstanding: self.pairing.outstanding(),
            lost: self.losses.total(),
            full: self.pairing.is_full(),
        }
    }

    fn poll(
        &mut self,
        all: bool,
        sink: &mut dyn FnMut(&[RecordedRequest]) -> io::Result<()>,
    ) -> Result<(), RecordError> {
        // Events are taken up to a moment before the losses are read, so a loss is known before its events are
        // paired.
        let bound = if all { u64::MAX } else { self.instance.now() };
        let losses = self.instance.losses()?;
        if losses != self.losses {
            self.losses = losses;
            self.pairing.lost(self.instance.now(), &mut self.out);
        }
        let Self { instance, merge, pairing, out, .. } = self;
        let (zero, last) = (&mut self.zero, &mut self.last);
        let (sum, known) = (&mut self.latency_sum, &mut self.latencies);
        let mut hand_over = |out: &mut Vec<RecordedRequest>| finish(out, zero, last, sum, known, sink);
        let mut events = 0;
        merge.drain_until(instance, all, bound, &mut |event| {
            events += 1;
            pairing.take(&event, out);
            if out.len() >= BATCH { hand_over(out) } else { Ok(()) }
        })?;
        hand_over(out)?;
        // A quick poll sees a tenth of what a slow one would have.
        let polls = if self.quick { POLL.as_millis() / QUICK_POLL.as_millis() } else { 1 } as u64;
        self.quick = events * polls > self.many;
        Ok(())
    }

    fn hand_over(&mut self, sink: &mut dyn FnMut(&[RecordedRequest]) -> io::Result<()>) -> Result<(), RecordError> {
        let Self { out, zero, last, latency_sum, latencies, .. } = self;
        finish(out, zero, last, latency_sum, latencies, sink)
    }
}

/// Makes times count from the first request's, and hands the requests over.
fn finish(
    out: &mut Vec<RecordedRequest>,
    zero: &mut Option<u64>,
    last: &mut u64,
    sum: &mut u128,
    known: &mut u64,
    sink: &mut dyn FnMut(&[RecordedRequest]) -> io::Result<()>,
) -> Result<(), RecordError> {
    for recorded in out.iter_mut() {
        let time = recorded.request.time.0;
        *last = (*last).max(time);
        recorded.request.time = Nanos(time.saturating_sub(*zero.get_or_insert(time)));
        if let Some(latency) = recorded.latency {
            *sum += u128::from(latency.0);
            *known += 1;
        }
    }
    let result = if out.is_empty() { Ok(()) } else { sink(out) };
    out.clear();
    result.map_err(RecordError::Sink)
}

impl RecordSummary {
    /// Requests of a kind.
    #[must_use]
    pub const fn of(&self, op: Op) -> u64 {
        self.counts.requests[op as usize]
    }
}
