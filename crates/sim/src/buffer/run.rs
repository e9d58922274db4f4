//! One run: a buffer over a device, fed with page accesses.

use destage_plan::{Nanos, Op, PageNo};
use destage_policy::buffer::{
    AccessOutcome, BufferNotice, BufferPolicy, EvictionKind, EvictionUnit, Evictions, GcCounters, NoVeto, PageAccess,
};

use super::accounting::{EvictionPhase, RunAccounting, WrittenVictims};
use super::config::{AdmissionOrder, FlushMode, RunConfig};
use super::device::BufferDevice;
use super::done::DoneTime;
use super::over_time::OverTime;
use super::result::{BufferCounters, SeriesResult};
use super::timing::{RunTiming, TimedOutcomes};
use super::watch::{CountedPages, RunWatch};
use crate::experiment::{StopSignal, is_told};
use crate::input::{FeedRequest, HostModel, PageSpan, RequestFeed, SubpageWrites, TrimMode, WarmupPart};
use crate::measure::{PerVolume, RequestLog};
use crate::ssd::Ssd;

/// A run in progress.
pub(super) struct BufferRun<B, D> {
    config: RunConfig,
    buffer: B,
    device: D,
    /// The buffer hears of collections.
    watches: bool,
    out: Evictions,
    accounting: RunAccounting,
    memory_accesses_before: u64,
    avoidance_before: GcCounters,
    /// Requests fed, and those of them that were not measured.
    fed: u64,
    warmup_requests: u64,
    measuring: bool,
    over_time: OverTime,
    timing: RunTiming,
    /// Notes each request's effects, if they are wanted.
    watch: Option<Box<RunWatch>>,
}

/// Requests whose pages are fetched from memory together: about as many as a processor can wait for
/// at a time.
const LOOK_AHEAD: usize = 32;

/// Requests that are simulated before it is looked whether the run is to end; many, so that looking costs nothing.
const UNTIL_LOOK: usize = 1 << 10;

/// Holds the findings of a run until they are written down.
pub(super) struct BufferOutcomes {
    pub(super) counters: BufferCounters,
    pub(super) victims: WrittenVictims,
    pub(super) flush_victims: WrittenVictims,
    pub(super) drain_victims: WrittenVictims,
    /// Requests that were not measured; all of them where the warm-up outlasts the trace.
    pub(super) warmup_requests: u64,
    pub(super) measured: bool,
    pub(super) simulated_time: Nanos,
    pub(super) series: SeriesResult,
    pub(super) avoidance: Option<GcCounters>,
    pub(super) timed: Option<TimedOutcomes>,
    /// Holds the figures of each volume, if they are wanted.
    pub(super) volumes: Option<PerVolume>,
}

/// A run whose policy and device are no longer visible.
pub(super) trait RunJob: Send {
    /// Simulates a batch.
    fn feed(&mut self, feed: &RequestFeed, stop: Option<&StopSignal>);
    /// Drains the buffer if so configured, and reports.
    fn finish(&mut self) -> BufferOutcomes;
    /// The SSD, if the device is one.
    fn ssd(&self) -> Option<&Ssd>;
    /// Returns true if the buffer needs to know which blocks are neighbours.
    fn compares_addresses(&self) -> bool;
    /// Has all measured requests written to a log.
    fn log_to(&mut self, log: Box<dyn RequestLog>);
    /// Returns true if the run needs to know where requests come from.
    fn is_watched(&self) -> bool;
}

impl<B: BufferPolicy + Send, D: BufferDevice> RunJob for BufferRun<B, D> {
    fn feed(&mut self, feed: &RequestFeed, stop: Option<&StopSignal>) {
        // Tables grow per feed, so that no access has to check their size.
        self.buffer.grow(feed.pages);
        if let Some(borders) = &feed.borders {
            self.buffer.learn_borders(borders);
        }
        if self.watch.is_some() {
            return self.feed_watched(feed, stop);
        }
        let mut spans_begin = 0;
        for requests in feed.requests.chunks(UNTIL_LOOK) {
            if is_told(stop) {
                return;
            }
            spans_begin = self.serve(requests, &feed.spans, spans_begin);
        }
    }

    fn finish(&mut self) -> BufferOutcomes {
        if D::TIMED {
            // Programs in the background belong to the run: without them its wear would be too low.
            self.timing.advance(&mut self.device, Nanos(u64::MAX));
        }
        self.sample();
        if self.config.drain {
            // The drain is counted, and not charged to the device: the run is over.
            self.buffer.notify(BufferNotice::Flush, &self.device, &mut NoVeto, &mut self.out);
            self.accounting.evicted(EvictionPhase::Drain, &self.out);
            if let Some(watch) = &mut self.watch {
                watch.evicted(EvictionPhase::Drain, &self.out);
            }
            self.out.clear();
        }
        self.accounting.finish(self.buffer.memory_accesses() - self.memory_accesses_before);
        let end = self.timing.now.max(self.timing.last_completion);
        let timed = D::TIMED.then(|| self.timing.result(self.config.host, self.over_time.bins()));
        if timed.as_ref().is_some_and(|timed| timed.saturated.is_some()) {
            self.over_time.forget_responses();
        }
        BufferOutcomes {
            counters: self.accounting.counters.clone(),
            victims: self.accounting.victims,
            flush_victims: self.accounting.flush_victims,
            drain_victims: self.accounting.drain_victims,
            warmup_requests: self.warmup_requests,
            measured: self.measuring || self.fed == 0,
            simulated_time: end.since(self.timing.start),
            series: self.over_time.result(self.timing.start),
            avoidance: self.buffer.gc_counters().map(|now| now.since(&self.avoidance_before)),
            timed,
            volumes: self.watch.take().and_then(|watch| watch.volumes),
        }
    }

    fn ssd(&self) -> Option<&Ssd> {
        self.device.ssd()
    }

    fn compares_addresses(&self) -> bool {
        self.buffer.compares_addresses()
    }

    fn log_to(&mut self, log: Box<dyn RequestLog>) {
        self.watch.get_or_insert_with(|| Box::new(RunWatch::of_nothing())).log_to(log);
    }

    fn is_watched(&self) -> bool {
        self.watch.is_some()
    }
}

impl<B: BufferPolicy, D: BufferDevice> BufferRun<B, D> {
    pub(super) fn new(config: RunConfig, granularity: EvictionUnit, buffer: B, mut device: D) -> Self {
        // Most policies ignore collections; only for others must the SSD remember their ends.
        let watches = buffer.watches_collection();
        if watches {
            device.watch_collections();
        }
        Self {
            config,
            accounting: RunAccounting::new(if granularity == EvictionUnit::Block { config.pages_per_block } else { 1 }),
            timing: RunTiming::new(&config, &device),
            over_time: OverTime::new(Nanos::ZERO),
            buffer,
            device,
            watches,
            out: Evictions::default(),
            memory_accesses_before: 0,
            avoidance_before: GcCounters::default(),
            fed: 0,
            warmup_requests: 0,
            measuring: false,
            watch: config.per_volume.then(|| Box::new(RunWatch::of_volumes(config.pages_per_block))),
        }
    }

    /// Simulates requests whose spans begin at `spans_begin`; returns where those of the next do.
    /// One copy of it is enough: it is large.
    #[inline(never)]
    fn serve(&mut self, requests: &[FeedRequest], spans: &[PageSpan], mut spans_begin: usize) -> usize {
        for requests in requests.chunks(LOOK_AHEAD) {
            let spans_end = requests.last().map_or(spans_begin, |request| request.spans_end as usize);
            self.look_ahead(requests, &spans[..spans_end], spans_begin);
            for request in requests {
                let spans = &spans[spans_begin..request.spans_end as usize];
                spans_begin = request.spans_end as usize;
                self.end_warmup_if_due(request);
                self.issue(request);
                self.fed += 1;
                self.accounting.counters.requests += 1;
                // Without a device a request is issued when it arrives.
                if !D::TIMED {
                    self.timing.now = request.time;
                }
                match request.op {
                    Op::Read | Op::Write => self.read_or_write(request, spans),
                    Op::Flush => self.flush(request),
                    Op::Discard => self.discard(request, spans),
                }
            }
        }
        spans_begin
    }

    /// Simulates a batch request by request, and notes what each brought: what was counted is
    /// compared before and after it, so that nothing else has to know of this.
    #[cold]
    fn feed_watched(&mut self, feed: &RequestFeed, stop: Option<&StopSignal>) {
        if self.watch.as_ref().is_some_and(|watch| watch.has_given_up()) {
            return;
        }
        let mut spans_begin = 0;
        for (request, origin) in feed.requests.iter().zip(&feed.origins) {
            if is_told(stop) {
                return;
            }
            let was_measuring = self.measuring;
            self.end_warmup_if_due(request);
            let restarts = self.measuring && !was_measuring;
            let spans = &feed.spans[spans_begin..request.spans_end as usize];
            if let Some(watch) = &mut self.watch {
                if restarts {
                    watch.restart();
                }
                watch.begin(request, *origin, spans, feed.pages);
            }
            // The watch compares counters instead of being called, so a run without it pays nothing and
            // both give the same results.
            let before = CountedPages::until_now(&self.accounting.counters, &self.timing);
            spans_begin = self.serve(std::slice::from_ref(request), &feed.spans, spans_begin);
            let after = CountedPages::until_now(&self.accounting.counters, &self.timing);
            if let Some(watch) = &mut self.watch {
                watch.end(&before, &after);
                if self.measuring {
                    watch.log(request, *origin, self.timing.arrived(), &before, &after);
                }
            }
        }
        if let Some(watch) = &mut self.watch {
            watch.hand_over();
        }
    }

    /// Has the processor fetch together what the first pages of the requests' spans, which begin at
    /// `spans_begin`, will need, and what leaves for them: it lies all over the memory.
    #[inline]
    fn look_ahead(&self, requests: &[FeedRequest], spans: &[PageSpan], mut spans_begin: usize) {
        let coming = &spans[spans_begin..];
        let mut read = 0;
        for span in coming {
            read ^= self.buffer.prefetch(PageNo(span.page));
        }
        if D::TIMED {
            let mut unnamed = coming.len();
            self.buffer.leaves_next(coming.len(), &mut |page| {
                unnamed -= 1;
                read ^= self.device.prefetch(page);
            });
            // What comes first leaves in the same while where the buffer is so small, or is none.
            let through = spans_begin + unnamed;
            for request in requests {
                if (request.op == Op::Read || spans_begin < through)
                    && let Some(span) = spans.get(spans_begin)
                {
                    read ^= self.device.prefetch(PageNo(span.page));
                }
                spans_begin = request.spans_end as usize;
            }
        }
        // The value is of no use: the reads must only not be optimised away.
        std::hint::black_box(read);
    }

    /// At the first measured request: forgets what was counted, and keeps what buffer and device
    /// hold.
    #[inline]
    fn end_warmup_if_due(&mut self, request: &FeedRequest) {
        if !self.measuring {
            self.end_warmup_if_over(request);
        }
    }

    /// The same during the warm-up; apart, so that later requests have one thing to look at.
    #[cold]
    fn end_warmup_if_over(&mut self, request: &FeedRequest) {
        let due = match self.config.warmup {
            WarmupPart::None => true,
            WarmupPart::Requests(requests) => self.fed >= requests,
            WarmupPart::Time(time) => request.time >= time,
        };
        if !due {
            return;
        }
        self.measuring = true;
        self.warmup_requests = self.fed;
        self.accounting.restart();
        self.memory_accesses_before = self.buffer.memory_accesses();
        self.avoidance_before = self.buffer.gc_counters().unwrap_or_default();
        self.device.reset_counters();
        // A closed or a bounded host has a clock of its own, which the trace's times do not follow.
        let start = match self.config.host {
            HostModel::Closed { .. } if D::TIMED => self.timing.arrived(),
            HostModel::Bounded { .. } => request.time + self.timing.held(),
            HostModel::Open | HostModel::Closed { .. } => request.time,
        };
        self.timing.restart(start);
        self.over_time = OverTime::new(start);
    }

    /// Advances to the time at which the request is issued.
    #[inline]
    fn issue(&mut self, request: &FeedRequest) {
        self.timing.issue::<D>(request.time);
        self.device.set_now(self.timing.now);
        self.device.begin_command();
        if D::TIMED && (self.watches || !self.timing.background.is_empty()) {
            self.catch_up();
        }
        // What is counted belongs to the bin of the arrival, however long the request waited.
        let bin_ends = self.over_time.bin_ends();
        if self.timing.now >= bin_ends && self.timing.arrived() >= bin_ends {
            self.sample();
        }
        if !D::TIMED {
            self.over_time.requested();
        }
    }

    /// Does what comes before the present request: programs in the background, and what the buffer
    /// writes upon the end of a collection, in the order of time.
    #[cold]
    fn catch_up(&mut self) {
        let now = self.timing.now;
        loop {
            let end = if self.watches { self.device.first_collection_end() } else { None };
            let until = end.map_or(now, |(end, _)| end.min(now));
            // May begin a collection that ends before that one.
            self.timing.advance(&mut self.device, until);
            let Some((end, element)) =
                self.device.first_collection_end().filter(|&(end, _)| self.watches && end <= until)
            else {
                break;
            };
            self.device.end_collection(element);
            // The policy must see the device as it was at the end of the collection, not at the present
            // request.
            self.device.set_now(end);
            self.buffer.notify(BufferNotice::GcEnd { element }, &self.device, &mut NoVeto, &mut self.out);
            if !self.out.is_empty() {
                self.evict(EvictionPhase::Destage, end);
            }
            self.device.set_now(now);
        }
    }

    #[inline]
    fn read_or_write(&mut self, request: &FeedRequest, spans: &[PageSpan]) {
        let write = request.op == Op::Write;
        if write {
            self.accounting.counters.write_requests += 1;
            self.accounting.counters.host_bytes_written += request.bytes;
        } else {
            self.accounting.counters.read_requests += 1;
            self.accounting.counters.host_bytes_read += request.bytes;
        }
        self.accounting.counters.zero_length_requests += u64::from(request.bytes == 0);
        let past_buffer = write && request.fua && self.config.flush == FlushMode::Drain;
        // A write past the buffer takes no frame, so it needs no room.
        if self.config.admission == AdmissionOrder::Request && !past_buffer {
            self.make_room(write, spans);
        }
        if !D::TIMED {
            for span in spans {
                for page in span.page..span.page + span.pages {
                    if past_buffer {
                        self.write_past_buffer(Nanos::ZERO, PageNo(page), false);
                    } else {
                        self.access(Nanos::ZERO, PageAccess { page: PageNo(page), write });
                    }
                }
            }
            return;
        }
        let start = self.timing.now;
        if request.bytes == 0 {
            self.complete(request, DoneTime::undelayed(start));
            return;
        }
        let (mut copied, mut done) = (DoneTime::undelayed(start), DoneTime::undelayed(start));
        for (s, span) in spans.iter().enumerate() {
            for page in span.page..span.page + span.pages {
                let page = PageNo(page);
                let head = request.head_partial && s == 0 && page.0 == span.page;
                let tail = request.tail_partial && s + 1 == spans.len() && page.0 + 1 == span.page + span.pages;
                let reads_old = write && (head || tail) && self.config.subpage == SubpageWrites::Rmw;
                if past_buffer {
                    // The host waits for all pages, which are programmed in parallel on different elements.
                    done = done.max(self.write_past_buffer(start, page, reads_old));
                    continue;
                }
                let outcome = self.access(start, PageAccess { page, write });
                match outcome {
                    AccessOutcome::Hit => {
                        let usable = self.timing.frames.usable_from(start, page);
                        copied = copied.max(usable).later_by(self.config.buffer_latency);
                    }
                    AccessOutcome::Inserted => {
                        // A miss takes the frame whose eviction was decided first, so frames never
                        // outnumber the buffer's size.
                        let free_at = self.timing.take_frame(&mut self.device);
                        self.timing.stall += u128::from(free_at.at.since(start).0);
                        let mut usable = free_at;
                        if !write || reads_old {
                            let read = self.timing.read(&mut self.device, start, page);
                            done = done.max(read);
                            usable = usable.max(read);
                        }
                        self.timing.frames.let_in(start, usable, page);
                        copied = copied.max(free_at).later_by(self.config.buffer_latency);
                    }
                    AccessOutcome::Bypassed => {
                        if !write || reads_old {
                            done = done.max(self.timing.read(&mut self.device, start, page));
                        }
                        if write {
                            done = done.max(self.timing.program_past_buffer(&mut self.device, start, page));
                        }
                    }
                }
            }
        }
        self.complete(request, done.max(copied));
    }

    /// Evicts until those pages of a request that would come in have room, or as many of them as
    /// the buffer holds. Pages of the request that leave meanwhile need room too.
    #[cold]
    fn make_room(&mut self, write: bool, spans: &[PageSpan]) {
        let (now, capacity) = (self.timing.now, self.config.capacity_pages);
        let pages = spans.iter().flat_map(|span| span.page..span.page + span.pages).map(PageNo);
        let coming = pages.filter(|&page| self.buffer.admits(PageAccess { page, write })).count();
        let mut needed = coming.min(capacity as usize) as u32;
        while capacity - self.buffer.len() < needed {
            let left = self.buffer.evict(&self.device, &mut NoVeto, &mut self.out);
            let gone =
                self.out.groups().filter(|(group, _)| matches!(group.kind, EvictionKind::Flush | EvictionKind::Drop));
            let of_request = |page: PageNo| {
                let asked = spans.iter().any(|span| (span.page..span.page + span.pages).contains(&page.0));
                asked && self.buffer.admits(PageAccess { page, write })
            };
            // A victim may be a page of this very request, which then needs room a second time.
            let again = gone.flat_map(|(_, pages)| pages).filter(|&&page| of_request(page)).count() as u32;
            needed = (needed + again).min(capacity);
            self.evict(EvictionPhase::Run, now);
            if !left {
                // Everything is vetoed; the pages come in, or do not, one by one.
                break;
            }
        }
    }

    /// One page access through the buffer; what it evicts is written from `now` on.
    #[inline]
    fn access(&mut self, now: Nanos, access: PageAccess) -> AccessOutcome {
        let outcome = self.buffer.access(access, &self.device, &mut NoVeto, &mut self.out);
        self.accounting.accessed(access, outcome);
        if !self.out.is_empty() {
            // Page-level policies evict one page at a time; this path skips the loop over groups.
            if let Some((kind, page)) = self.out.only_page()
                && self.accounting.is_between_victims()
                && self.watch.is_none()
            {
                self.accounting.evicted_page(kind);
                if D::TIMED {
                    self.timing.carry_out_page(&mut self.device, now, kind, page);
                }
                self.out.clear();
            } else {
                self.evict(EvictionPhase::Run, now);
            }
        }
        outcome
    }

    /// Counts what is in `self.out`, writes it from `now` on, frees the frames, and empties it.
    #[inline]
    fn evict(&mut self, phase: EvictionPhase, now: Nanos) {
        self.accounting.evicted(phase, &self.out);
        if let Some(watch) = &mut self.watch {
            watch.evicted(phase, &self.out);
        }
        if D::TIMED {
            self.timing.carry_out(&mut self.device, now, &self.out);
        }
        self.out.clear();
    }

    /// A write that must be on flash when it is acknowledged: the buffer's copy is outdated.
    /// `reads_old`: the page is written in part, so that unless it was buffered its old content is
    /// read first.
    fn write_past_buffer(&mut self, now: Nanos, page: PageNo, reads_old: bool) -> DoneTime {
        // The policy must not keep the outdated copy, or a later eviction would overwrite the newer page.
        self.buffer.notify(BufferNotice::Trim { page }, &self.device, &mut NoVeto, &mut self.out);
        let was_buffered = !self.out.is_empty();
        self.evict(EvictionPhase::Trim, now);
        self.accounting.accessed(PageAccess { page, write: true }, AccessOutcome::Bypassed);
        if reads_old && !was_buffered {
            // The program comes after it on the same element.
            self.timing.read(&mut self.device, now, page);
        }
        self.timing.program_past_buffer(&mut self.device, now, page)
    }

    fn flush(&mut self, request: &FeedRequest) {
        self.accounting.counters.flush_requests += 1;
        let now = self.timing.now;
        if self.config.flush == FlushMode::Drain {
            self.buffer.notify(BufferNotice::Flush, &self.device, &mut NoVeto, &mut self.out);
            self.evict(EvictionPhase::Flush, now);
            // What waits in the background is not durable yet.
            self.timing.settle_all(&mut self.device);
        }
        if D::TIMED {
            let waits = self.config.flush == FlushMode::Drain;
            let done = if waits { self.timing.programmed.max(now) } else { now };
            self.complete(request, DoneTime::undelayed(done));
        }
    }

    fn discard(&mut self, request: &FeedRequest, spans: &[PageSpan]) {
        self.accounting.counters.discard_requests += 1;
        let now = self.timing.now;
        if self.config.trim == TrimMode::Honour {
            for span in spans {
                for page in span.page..span.page + span.pages {
                    self.buffer.notify(
                        BufferNotice::Trim { page: PageNo(page) },
                        &self.device,
                        &mut NoVeto,
                        &mut self.out,
                    );
                    self.evict(EvictionPhase::Trim, now);
                    // A waiting program would bring the discarded page back after the trim.
                    self.timing.settle(&mut self.device, PageNo(page));
                    self.device.trim(PageNo(page));
                }
            }
        }
        if D::TIMED {
            self.complete(request, DoneTime::undelayed(now));
        }
    }

    /// Takes note of a request's completion.
    #[inline]
    fn complete(&mut self, request: &FeedRequest, done: DoneTime) {
        let DoneTime { at: done, gc } = done;
        let (arrived, backlog) = self.timing.complete(done);
        let response = done.since(arrived);
        // Arrival and response share a bin, so that a bin's mean is over the requests that arrived in it.
        let bin = self.over_time.at(arrived);
        bin.arrival(backlog);
        if request.bytes > 0 && matches!(request.op, Op::Read | Op::Write) {
            let write = request.op == Op::Write;
            bin.response(write, response);
            bin.gc_delayed += u64::from(gc);
            self.timing.respond(write, gc, response);
        }
        self.timing.sample_free_blocks(&self.device, self.accounting.counters.requests);
    }

    /// Begins a bin of the series.
    #[cold]
    fn sample(&mut self) {
        let flash = self.device.ssd().map(Ssd::total).unwrap_or_default();
        self.over_time.sample(self.timing.arrived(), &self.accounting.counters, flash);
    }
}

#[cfg(test)]
mod tests;
