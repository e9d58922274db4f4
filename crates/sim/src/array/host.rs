//! One run: a host that plays requests against an [`VirtualExecutor`], and what it measures.

use destage_cache::ServedTier;
use destage_plan::{Control, Dev, HostNotice, HostOp, HostRequest, Nanos, Op, SECTOR_BYTES};

use super::bars::CollectionBars;
use super::debt::StaleRowDebt;
use super::executor::{DelayNote, NextEvent, VirtualExecutor};
use super::failures::{DeviceFailures, RedundancyPhase, is_rebuilding};
use super::outcomes::{ArrayOutcomes, RunTotals, totals};
use super::overlap::CollectionOverlap;
use super::request_log::AnswerLog;
use super::result::HostCounters;
use crate::experiment::{StopSignal, is_told};
use crate::input::{FeedRequest, HostModel, PageSpan, RequestFeed, RequestOrigin, SubpageWrites, TrimMode, WarmupPart};
use crate::measure::{
    LatencyHistogram, LoggedRequest, PerVolume, RequestLog, SaturationCause, TimeSeries, VolumeSlot, WearClass, growing,
};

/// Events of a rebuild after which it tells how far it is.
const UNTIL_SHOWN: u32 = 1 << 12;

/// Says how requests reach the array, and which of them are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayHost {
    /// Arrivals.
    pub host: HostModel,
    /// Discards.
    pub trim: TrimMode,
    /// Writes of a part of a page: whole pages, or only their sectors.
    pub subpage: SubpageWrites,
    /// Excludes a warm-up from the measurements.
    pub warmup: WarmupPart,
    /// Outstanding requests at which an open-loop run is saturated. From then on requests wait with
    /// the host until fewer are outstanding, so that memory does not grow.
    pub max_backlog: u64,
    /// Drains the cache at the end: it writes dirty data to the members and updates stale parity.
    pub drain: bool,
    /// Adds figures of each volume.
    pub per_volume: bool,
}

/// A request that is outstanding.
#[derive(Clone, Copy)]
struct OutstandingRequest {
    arrival: Nanos,
    op: Op,
    phase: RedundancyPhase,
    measured: bool,
    ok: bool,
    /// The place of its volume, if there are figures of volumes.
    volume: VolumeSlot,
    /// Parts without an answer: a request that wraps at the array's end has two.
    parts: u32,
    /// Time for which steps of it waited for devices that collected, and up to when that is counted.
    delayed: Nanos,
    counted: Nanos,
    /// Counts the requests that had this slot before.
    generation: u32,
}

/// A run in progress.
pub(super) struct ArrayRun {
    executor: VirtualExecutor<Box<dyn ServedTier>>,
    config: ArrayHost,
    page_bytes: u64,
    slots: Vec<OutstandingRequest>,
    free: Vec<u32>,
    outstanding: u64,
    /// Those of them that are measured.
    measured_outstanding: u64,
    area: u128,
    changed: Nanos,
    failures: DeviceFailures,
    fed: u64,
    warmup_requests: u64,
    measuring: bool,
    start: Nanos,
    /// Counts how long the trace's clock has stood still, and had when the measured part began.
    held: Nanos,
    held_before: Nanos,
    served: Nanos,
    exceeded_at: Option<Nanos>,
    stalled: bool,
    drained: bool,
    counters: HostCounters,
    responses: [LatencyHistogram; 4],
    phases: [LatencyHistogram; 3],
    series: TimeSeries,
    overlap: CollectionOverlap,
    bars: CollectionBars,
    /// Of a cache that leaves parity behind.
    debt: Option<StaleRowDebt>,
    /// Holds the figures of each volume, if they are wanted.
    volumes: Option<PerVolume>,
    log: Option<AnswerLog>,
    delayed_requests: u64,
    delayed_time: Nanos,
    before: RunTotals,
    parts: Vec<PageSpan>,
}

impl ArrayRun {
    /// A run.
    pub(super) fn new(
        mut executor: VirtualExecutor<Box<dyn ServedTier>>,
        config: ArrayHost,
        page_bytes: u64,
        failures: DeviceFailures,
        delays_parity: bool,
    ) -> Self {
        let before = totals(&executor, 0);
        executor.note_collections();
        let members = executor.controller().array().config().geometry.members();
        Self {
            overlap: CollectionOverlap::new(members),
            bars: CollectionBars::new(executor.devices()),
            debt: delays_parity.then(StaleRowDebt::new),
            volumes: config.per_volume.then(PerVolume::new),
            log: None,
            delayed_requests: 0,
            delayed_time: Nanos::ZERO,
            executor,
            config,
            page_bytes,
            slots: Vec::new(),
            free: Vec::new(),
            outstanding: 0,
            measured_outstanding: 0,
            area: 0,
            changed: Nanos::ZERO,
            failures,
            fed: 0,
            warmup_requests: 0,
            measuring: false,
            start: Nanos::ZERO,
            held: Nanos::ZERO,
            held_before: Nanos::ZERO,
            served: Nanos::ZERO,
            exceeded_at: None,
            stalled: false,
            drained: false,
            counters: HostCounters::default(),
            responses: Default::default(),
            phases: Default::default(),
            series: TimeSeries::new(Nanos::ZERO),
            before,
            parts: Vec::new(),
        }
    }

    /// Has all measured requests written to a log.
    pub(super) fn log_to(&mut self, log: Box<dyn RequestLog>) {
        self.log = Some(AnswerLog::new(log));
    }

    /// Returns true if it needs to know where requests come from.
    pub(super) fn is_watched(&self) -> bool {
        self.log.is_some() || self.volumes.is_some()
    }

    /// Lets the next event happen, if there is one until `until`; whether there was.
    fn event(&mut self, until: Nanos) -> bool {
        let injection = self.failures.next().filter(|injection| injection.at <= until);
        let next = self.executor.next_event().filter(|(at, _)| *at <= until);
        let injected = match (injection, next) {
            (None, None) => return false,
            // The order at equal times is fixed: completions, collections, failures, timers.
            (Some(injection), Some((at, NextEvent::Completion | NextEvent::Collection))) => injection.at < at,
            (Some(injection), Some((at, NextEvent::Timer))) => injection.at <= at,
            (Some(_), None) => true,
            (None, Some(_)) => false,
        };
        match next {
            Some((at, event)) if !injected => self.executor.happen(at, event),
            _ => self.failures.inject(&mut self.executor),
        }
        self.take_notices();
        self.failures.see(&self.executor);
        true
    }

    /// Takes in what there is to know of collections, before places of requests are given to others.
    #[cold]
    fn take_notes(&mut self) {
        let members = self.executor.controller().array().config().geometry.members();
        while let Some(note) = self.executor.next_collection_note() {
            if note.dev.0 < members {
                self.overlap.note(note);
            }
            self.bars.note(note);
        }
        while let Some(DelayNote { tag, at, waited }) = self.executor.next_delay_note() {
            let slot = &mut self.slots[tag as u32 as usize];
            // What a cache does after the answer delays nobody.
            if slot.parts > 0 && slot.generation == (tag >> 32) as u32 {
                slot.delayed += at.since(slot.counted.max(Nanos(at.0 - waited.0)));
                slot.counted = at;
            }
        }
    }

    fn take_notices(&mut self) {
        if let Some(debt) = &mut self.debt {
            debt.see(self.executor.now(), self.executor.controller().stale_rows() as u64);
        }
        if self.executor.has_notes() {
            self.take_notes();
        }
        while let Some(notice) = self.executor.next_notice() {
            let HostNotice::Acked { tag, ok } = notice else {
                self.drained |= notice == HostNotice::Drained;
                continue;
            };
            let tag = tag as u32;
            let slot = &mut self.slots[tag as usize];
            slot.parts -= 1;
            slot.ok &= ok;
            if slot.parts == 0 {
                let slot = *slot;
                self.free.push(tag);
                if let Some(log) = &mut self.log {
                    let time = self.executor.now().since(slot.arrival);
                    log.answered(tag, slot.ok.then_some(time), slot.delayed > Nanos::ZERO);
                }
                self.answer(slot);
            }
        }
    }

    /// A request is answered now.
    fn answer(&mut self, slot: OutstandingRequest) {
        let now = self.executor.now();
        self.count_outstanding(now);
        self.outstanding -= 1;
        if !slot.measured {
            return;
        }
        self.measured_outstanding -= 1;
        self.served = self.served.max(now);
        if !slot.ok {
            // An error is quickly answered; it is no service.
            self.counters.failed_requests += 1;
            return;
        }
        let time = now.since(slot.arrival);
        self.delayed_requests += u64::from(slot.delayed > Nanos::ZERO);
        self.delayed_time += slot.delayed;
        self.responses[slot.op as usize].record(time);
        if matches!(slot.op, Op::Read | Op::Write) {
            self.phases[slot.phase as usize].record(time);
            if let Some(volumes) = &mut self.volumes {
                volumes.of(slot.volume).responded(time);
            }
            let bin = self.series.at(slot.arrival);
            bin.response(slot.op == Op::Write, time);
            bin.gc_delayed += u64::from(slot.delayed > Nanos::ZERO);
        }
    }

    fn count_outstanding(&mut self, now: Nanos) {
        self.area += u128::from(self.outstanding) * u128::from(now.since(self.changed).0);
        self.changed = now;
    }

    /// Lets events happen until fewer than `limit` requests are outstanding, and then those of the
    /// same time, which come before an arrival.
    fn wait_below(&mut self, limit: u64) {
        while self.outstanding >= limit {
            if !self.event(Nanos(u64::MAX)) {
                self.stalled = true;
                return;
            }
        }
        let now = self.executor.now();
        while self.event(now) {}
    }

    /// At the first measured request: what was counted so far does not count. The trace's times
    /// mean nothing in a closed loop, and a bounded host holds them up, so a warm-up lasts until a
    /// simulated time, as failures happen at one.
    fn end_warmup_if_due(&mut self) {
        let now = self.executor.now();
        let due = match self.config.warmup {
            WarmupPart::None => true,
            WarmupPart::Requests(requests) => self.fed >= requests,
            WarmupPart::Time(time) => now >= time,
        };
        if self.measuring || !due {
            return;
        }
        self.measuring = true;
        self.warmup_requests = self.fed;
        // Overload during the warm-up says nothing about the measured part.
        self.exceeded_at = None;
        self.start = now;
        self.held_before = self.held;
        self.served = now;
        self.failures.restart(now);
        self.series = TimeSeries::new(now);
        self.overlap.restart(now);
        self.bars.restart(now);
        if let Some(debt) = &mut self.debt {
            debt.restart(now);
        }
        (self.delayed_requests, self.delayed_time) = (0, Nanos::ZERO);
        self.count_outstanding(now);
        self.before = totals(&self.executor, self.area);
        self.executor.restart_longest_queues();
    }

    fn request(&mut self, request: &FeedRequest, spans: &[PageSpan], head: u32, origin: Option<RequestOrigin>) {
        if self.stalled {
            return;
        }
        let now = match self.config.host {
            HostModel::Open => {
                while self.event(request.time) {}
                if self.outstanding >= self.config.max_backlog {
                    // Requests wait with the host from here on, or memory would grow with the overload.
                    self.exceeded_at.get_or_insert(request.time);
                    self.wait_below(self.config.max_backlog);
                }
                request.time.max(self.executor.now())
            }
            HostModel::Closed { depth } => {
                self.wait_below(u64::from(depth));
                self.executor.now()
            }
            HostModel::Bounded { depth } => {
                let due = request.time + self.held;
                while self.event(due) {}
                self.wait_below(u64::from(depth));
                let now = due.max(self.executor.now());
                // Later arrivals shift by the same delay, so that the trace's intervals stay as they were
                // recorded.
                self.held += now.since(due);
                now
            }
        };
        if self.stalled {
            return;
        }
        // Nothing is due before: the time may go on to the arrival.
        self.executor.wait_until(now);
        self.end_warmup_if_due();
        self.fed += 1;
        let volume = self.count(request, origin);
        if self.measuring {
            let bin = self.series.at(now);
            bin.arrival(self.outstanding);
            match request.op {
                Op::Read => bin.host_bytes_read += request.bytes,
                Op::Write => bin.host_bytes_written += request.bytes,
                Op::Flush | Op::Discard => {}
            }
        }
        self.count_outstanding(now);
        self.outstanding += 1;
        self.measured_outstanding += u64::from(self.measuring);
        let logged = self.to_log(now, request, spans, origin);
        self.submit(now, request, spans, head, volume, logged);
        self.take_notices();
    }

    /// Returns what is to be logged of it once it is answered, if that is wanted.
    fn to_log(
        &self,
        now: Nanos,
        request: &FeedRequest,
        spans: &[PageSpan],
        origin: Option<RequestOrigin>,
    ) -> Option<LoggedRequest> {
        let origin = origin.filter(|_| self.measuring && self.log.is_some())?;
        Some(LoggedRequest {
            request: origin.request,
            arrival: now,
            volume: origin.volume,
            offset: origin.offset,
            bytes: request.bytes,
            op: request.op,
            response: Some(Nanos::ZERO),
            pages: spans.iter().map(|span| u64::from(span.pages)).sum(),
            hit_pages: None,
            gc_delayed: false,
        })
    }

    /// Counts it; returns the place of its volume.
    fn count(&mut self, request: &FeedRequest, origin: Option<RequestOrigin>) -> VolumeSlot {
        if !self.measuring {
            return VolumeSlot::default();
        }
        let volume = match (&mut self.volumes, origin) {
            (Some(volumes), Some(origin)) => {
                let slot = volumes.slot(origin.volume);
                volumes.of(slot).requested(request.op, request.bytes);
                slot
            }
            _ => VolumeSlot::default(),
        };
        let c = &mut self.counters;
        c.requests += 1;
        match request.op {
            Op::Read => {
                c.read_requests += 1;
                c.host_bytes_read += request.bytes;
                c.zero_length_requests += u64::from(request.bytes == 0);
            }
            Op::Write => {
                c.write_requests += 1;
                c.host_bytes_written += request.bytes;
                c.zero_length_requests += u64::from(request.bytes == 0);
            }
            Op::Flush => c.flush_requests += 1,
            Op::Discard => c.discard_requests += 1,
        }
        volume
    }

    /// Gives the request's parts to the array.
    fn submit(
        &mut self,
        now: Nanos,
        request: &FeedRequest,
        spans: &[PageSpan],
        head: u32,
        volume: VolumeSlot,
        logged: Option<LoggedRequest>,
    ) {
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        if request.op != Op::Discard || self.config.trim == TrimMode::Honour {
            for span in spans {
                match parts.last_mut() {
                    // Spans that adjoin become one request again, as the host sent it.
                    Some(last) if last.page + last.pages == span.page => last.pages += span.pages,
                    _ => parts.push(*span),
                }
            }
        }
        let flush = request.op == Op::Flush;
        let count = if flush { 1 } else { parts.len() as u32 };
        let mut slot = OutstandingRequest {
            arrival: now,
            op: request.op,
            phase: self.failures.phase(),
            measured: self.measuring,
            ok: true,
            volume,
            parts: count,
            delayed: Nanos::ZERO,
            counted: now,
            generation: 0,
        };
        if count == 0 {
            self.parts = parts;
            if let (Some(log), Some(logged)) = (&mut self.log, logged) {
                log.answered_at_once(logged);
            }
            return self.answer(slot);
        }
        let tag = if let Some(tag) = self.free.pop() {
            // A cache may still work for an answered request; the generation keeps its delays from the next
            // request.
            slot.generation = self.slots[tag as usize].generation.wrapping_add(1);
            self.slots[tag as usize] = slot;
            tag
        } else {
            self.slots.push(slot);
            self.slots.len() as u32 - 1
        };
        if let (Some(log), Some(logged)) = (&mut self.log, logged) {
            log.begin(tag, logged);
        }
        let mut host = HostRequest {
            tag: u64::from(tag) | u64::from(slot.generation) << 32,
            op: match request.op {
                Op::Read => HostOp::Read,
                Op::Write => HostOp::Write,
                Op::Flush => HostOp::Flush,
                Op::Discard => HostOp::Discard,
            },
            offset: 0,
            len: 0,
            fua: request.fua,
        };
        if flush {
            self.executor.submit(now, host).expect("a flush has no range");
        }
        // Only sectors that a write names are written; reads and promoted writes take whole pages.
        let exact = request.op == Op::Write && self.config.subpage == SubpageWrites::Rmw;
        let last = parts.len().saturating_sub(1);
        for (i, part) in parts.iter().enumerate() {
            let mut from = u64::from(part.page) * self.page_bytes;
            let mut to = from + u64::from(part.pages) * self.page_bytes;
            if exact && i == 0 {
                from += u64::from(head) / SECTOR_BYTES * SECTOR_BYTES;
            }
            if exact && i == last {
                let tail = (u64::from(head) + request.bytes) % self.page_bytes;
                if tail > 0 {
                    to = to - self.page_bytes + tail.next_multiple_of(SECTOR_BYTES);
                }
            }
            (host.offset, host.len) = (from, to - from);
            self.executor.submit(now, host).expect("the page space is as large as the array");
        }
        self.parts = parts;
    }
}

impl ArrayRun {
    /// Simulates a batch, or as much of it as there is time for until it is told to end.
    pub(super) fn feed(&mut self, feed: &RequestFeed, stop: Option<&StopSignal>) {
        let mut spans_begin = 0;
        for (at, (request, head)) in feed.requests.iter().zip(&feed.heads).enumerate() {
            if is_told(stop) || self.log.as_ref().is_some_and(AnswerLog::has_given_up) {
                return;
            }
            let spans = &feed.spans[spans_begin..request.spans_end as usize];
            spans_begin = request.spans_end as usize;
            self.request(request, spans, *head, feed.origins.get(at).copied());
        }
        self.hand_over();
    }

    /// Gives the log what was answered.
    fn hand_over(&mut self) {
        if let Some(log) = &mut self.log {
            log.hand_over();
        }
    }

    /// Lets everything end that is under way, unless it is told to end, and reports.
    /// `show` hears now and then how far a rebuild is.
    pub(super) fn finish(&mut self, stop: Option<&StopSignal>, show: &(dyn Fn(f64) + Sync)) -> ArrayOutcomes {
        let goes_on = |run: &mut Self| !is_told(stop) && run.event(Nanos(u64::MAX));
        // `answered` holds the figures up to here; a rebuild or a drain goes on afterwards.
        while self.measured_outstanding > 0 && goes_on(self) {}
        self.hand_over();
        self.count_outstanding(self.executor.now());
        let answered = totals(&self.executor, self.area);
        let overlap = self.overlap.clone();
        // Timers alone keep nothing going; a rebuild or a failure to come does.
        let mut events = 0_u32;
        while self.outstanding > 0
            || self.executor.is_busy()
            || self.failures.next().is_some()
            || is_rebuilding(&self.executor)
        {
            if !goes_on(self) {
                break;
            }
            events = events.wrapping_add(1);
            if events.is_multiple_of(UNTIL_SHOWN)
                && let Some(share) = self.executor.controller().array().filled_share()
            {
                show(share);
            }
        }
        if self.config.drain {
            self.executor.control(self.executor.now(), Control::Drain);
            self.take_notices();
            while (!self.drained || self.executor.is_busy()) && goes_on(self) {}
        }
        let end = self.executor.now();
        if let Some(debt) = &mut self.debt {
            debt.count(end);
        }
        let (failures, degraded_time, rebuild_time) = self.failures.end(end);
        let saturated = match self.exceeded_at {
            Some(at) => Some(SaturationCause::Backlog { max_backlog: self.config.max_backlog, at: at.0 }),
            // A closed loop cannot be saturated: it sends only when an answer has come.
            None if self.config.host.keeps_arrivals() => {
                growing(self.series.bins()).map(|backlog| SaturationCause::Growing { backlog })
            }
            None => None,
        };
        if saturated.is_some() {
            // Response times of an overloaded run depend on its length, so they are no result.
            self.series.forget_responses();
        }
        let devices = (0..self.executor.devices() as u8).map(Dev);
        ArrayOutcomes {
            counters: self.counters,
            warmup_requests: self.warmup_requests,
            measured: self.measuring || self.fed == 0,
            stalled: self.outstanding,
            start: self.start,
            replay_delay: matches!(self.config.host, HostModel::Bounded { .. })
                .then(|| self.held.since(self.held_before)),
            served: self.served,
            end,
            saturated,
            responses: std::mem::take(&mut self.responses),
            phases: std::mem::take(&mut self.phases),
            degraded_time,
            rebuild_time,
            failures,
            series: self.series.clone(),
            overlap,
            bars: std::mem::take(&mut self.bars),
            debt: self.debt.take(),
            volumes: self.volumes.take(),
            delayed_requests: self.delayed_requests,
            delayed_time: self.delayed_time,
            before: self.before.clone(),
            answered,
            after: totals(&self.executor, self.area),
            longest_queues: devices.clone().map(|dev| self.executor.longest_queue(dev)).collect(),
            wear: devices
                .clone()
                .map(|dev| self.executor.device(dev).as_ssd().map(|ssd| WearClass::of(|| ssd.erases())))
                .collect(),
            placed: devices
                .clone()
                .map(|dev| self.executor.device(dev).as_ssd().filter(|ssd| ssd.has_placement()))
                .map(|ssd| ssd.map(|ssd| ssd.streams().collect()))
                .collect(),
            parallelism: devices.map(|dev| self.executor.device(dev).parallelism()).collect(),
            open_rows: self.executor.controller().array().open_rows() as u64,
        }
    }
}
