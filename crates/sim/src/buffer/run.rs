//! One run: a buffer over a device, fed with page accesses.

use destage_plan::{Nanos, Op, PageNo};
use destage_policy::buffer::{
    Access, Buffer, DeviceView, EvictionUnit, Evictions, GcCounters, Group, Kind, NoDevice, NoVeto, Notice, Outcome,
    Wait,
};

use super::background::{Background, Program};
use super::done::Done;
use super::frames::Frames;
use super::result::{BufferCounters, ResponseClass, ResponseResult, SeriesResult};
use crate::input::{Feed, FeedRequest, HostModel, HostQueue, Run, Subpage, TrimMode, Warmup};
use crate::measure::{Backlog, Latency, Saturation, Series, distribution};
use crate::ssd::{ElementCounters, Ssd};

/// What a host flush does. FUA follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushMode {
    /// Nothing: the buffer is non-volatile.
    #[default]
    Ignore,
    /// Every dirty page is written to flash; a FUA write goes to flash past the buffer.
    Drain,
}

/// When room is made for the pages of a request that come into the buffer (specs §10.7, E14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Admission {
    /// For each of them when its turn comes, so that a page may push out what came in before it with the same request.
    #[default]
    Page,
    /// For all of them before the first comes in; for as many as the buffer holds where the request has more, and then for
    /// each of the others.
    Request,
}

/// How a run treats its requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunConfig {
    /// Arrivals.
    pub host: HostModel,
    /// Host flushes and FUA.
    pub flush: FlushMode,
    /// Discards.
    pub trim: TrimMode,
    /// Partial pages.
    pub subpage: Subpage,
    /// Room for requests of several pages.
    pub admission: Admission,
    /// What is not measured.
    pub warmup: Warmup,
    /// Outstanding requests at which an open-loop run is saturated.
    pub max_backlog: u64,
    /// Copying a page between host and buffer.
    pub buffer_latency: Nanos,
    /// Whether the buffer is drained at the end.
    pub drain: bool,
    /// Pages the buffer can hold.
    pub capacity_pages: u32,
    /// Pages in a logical block.
    pub pages_per_block: u32,
}

/// A device below the buffer.
pub(crate) trait Device: DeviceView + Send {
    /// Whether operations take time; if not, response times are not computed.
    const TIMED: bool;
    fn set_now(&mut self, now: Nanos);
    fn read(&mut self, now: Nanos, page: PageNo) -> Nanos;
    /// Reads what an operation on this page looks at first, and returns anything made of it: see [`Buffer::prefetch`].
    #[inline]
    fn prefetch(&self, _page: PageNo) -> u32 {
        0
    }
    /// Programs a page, through this channel if one was chosen.
    fn program(&mut self, now: Nanos, page: PageNo, channel: Option<u16>) -> Nanos;
    fn trim(&mut self, page: PageNo);
    fn reset_counters(&mut self);
    /// The element that would program the page.
    fn target(&self, page: PageNo, channel: Option<u16>) -> u32;
    /// Chooses the channel for a page that is programmed later and for which none was chosen.
    fn turn(&mut self) -> Option<u16>;
    /// Until when an element is busy.
    fn busy_until(&self, element: u32) -> Nanos;
    /// Whether the latest operation on this page, issued at `at` and done at `done`, waited for a collection.
    fn waited_for_gc(&self, page: PageNo, at: Nanos, done: Nanos) -> bool;
    /// Remembers collections until they are forgotten by `end_collection`.
    fn watch_collections(&mut self);
    /// The first end of a collection that was not forgotten, with its element.
    fn first_collection_end(&self) -> Option<(Nanos, u32)>;
    /// Forgets the element's first collection.
    fn end_collection(&mut self, element: u32);
    /// The device as an SSD, if it is one.
    fn ssd(&self) -> Option<&Ssd>;
}

impl Device for NoDevice {
    const TIMED: bool = false;
    fn set_now(&mut self, _now: Nanos) {}
    fn read(&mut self, now: Nanos, _page: PageNo) -> Nanos {
        now
    }
    fn program(&mut self, now: Nanos, _page: PageNo, _channel: Option<u16>) -> Nanos {
        now
    }
    fn trim(&mut self, _page: PageNo) {}
    fn reset_counters(&mut self) {}
    fn target(&self, _page: PageNo, _channel: Option<u16>) -> u32 {
        0
    }
    fn turn(&mut self) -> Option<u16> {
        None
    }
    fn busy_until(&self, _element: u32) -> Nanos {
        Nanos::ZERO
    }
    fn waited_for_gc(&self, _page: PageNo, _at: Nanos, _done: Nanos) -> bool {
        false
    }
    fn watch_collections(&mut self) {}
    fn first_collection_end(&self) -> Option<(Nanos, u32)> {
        None
    }
    fn end_collection(&mut self, _element: u32) {}
    fn ssd(&self) -> Option<&Ssd> {
        None
    }
}

impl Device for Ssd {
    const TIMED: bool = true;
    #[inline]
    fn set_now(&mut self, now: Nanos) {
        Self::set_now(self, now);
    }
    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        Self::prefetch(self, page)
    }
    #[inline]
    fn read(&mut self, now: Nanos, page: PageNo) -> Nanos {
        Self::read(self, now, page)
    }
    #[inline]
    fn program(&mut self, now: Nanos, page: PageNo, channel: Option<u16>) -> Nanos {
        match channel {
            None => Self::program(self, now, page),
            Some(channel) => self.program_through(now, page, channel.into()),
        }
    }
    fn trim(&mut self, page: PageNo) {
        Self::trim(self, page);
    }
    fn reset_counters(&mut self) {
        Self::reset_counters(self);
    }
    fn target(&self, page: PageNo, channel: Option<u16>) -> u32 {
        Self::target(self, page, channel)
    }
    fn turn(&mut self) -> Option<u16> {
        Self::turn(self)
    }
    fn busy_until(&self, element: u32) -> Nanos {
        Self::busy_until(self, element)
    }
    #[inline]
    fn waited_for_gc(&self, page: PageNo, at: Nanos, done: Nanos) -> bool {
        Self::waited_for_gc(self, page, at, done)
    }
    fn watch_collections(&mut self) {
        Self::watch_collections(self);
    }
    fn first_collection_end(&self) -> Option<(Nanos, u32)> {
        Self::first_collection_end(self)
    }
    fn end_collection(&mut self, element: u32) {
        Self::end_collection(self, element);
    }
    fn ssd(&self) -> Option<&Ssd> {
        Some(self)
    }
}

/// Which counters an eviction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Run,
    /// After a collection.
    Destage,
    Flush,
    Trim,
    Drain,
}

/// Units that a phase wrote, and what their blocks lacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Victims {
    /// Units that held dirty pages.
    pub(crate) dirty_units: u64,
    /// Pages that these units' blocks lacked.
    pub(crate) missing_pages: u64,
}

/// A run in progress.
pub(crate) struct Simulation<B, D> {
    config: RunConfig,
    pages_per_unit: u32,
    buffer: B,
    device: D,
    /// The buffer hears of collections.
    watches: bool,
    /// Pages that have left of units that have not left altogether, and whether some were dirty.
    open_unit: (u32, bool),
    out: Evictions,
    counters: BufferCounters,
    victims: Victims,
    flush_victims: Victims,
    drain_victims: Victims,
    memory_accesses_before: u64,
    avoidance_before: GcCounters,
    /// Requests fed, and those of them that were not measured.
    fed: u64,
    warmup_requests: u64,
    measuring: bool,
    series: Series,
    series_sample: SeriesSample,
    clock: Clock,
}

/// Everything that has to do with time; idle without a timed device.
struct Clock {
    frames: Frames,
    background: Background,
    /// Where requests wait before they are issued, if they do.
    queue: Option<Box<HostQueue>>,
    /// Issue of the latest request: its arrival, unless it waited.
    now: Nanos,
    start: Nanos,
    last_completion: Nanos,
    /// Completion of the latest program of all.
    programmed: Nanos,
    stall: u128,
    /// Of requests that did not wait for a collection, and of those that did.
    read: [Latency; 2],
    write: [Latency; 2],
    backlog: Backlog,
    free_block_samples: u64,
    free_block_sum: u64,
}

/// What was counted up to the beginning of the series' present bin.
#[derive(Clone, Copy, Debug, Default)]
struct SeriesSample {
    /// Arrival at which the sample was taken, and the end of its bin.
    at: Nanos,
    bin_ends: Nanos,
    /// Requests since then, where nothing else counts them by bin.
    requests: u64,
    host_bytes_read: u64,
    host_bytes_written: u64,
    accesses: u64,
    hits: u64,
    evictions: u64,
    evicted_pages: u64,
    dirty_pages_flushed: u64,
    flash: ElementCounters,
}

/// Requests whose pages are fetched from memory together: about as many as a processor can wait for at a time.
const LOOK_AHEAD: usize = 32;

/// The free blocks are sampled at every so many arrivals.
const FREE_BLOCK_SAMPLING: u64 = 64;

/// What a run found, before it is written down.
pub(crate) struct Outcomes {
    pub(crate) counters: BufferCounters,
    pub(crate) victims: Victims,
    pub(crate) flush_victims: Victims,
    pub(crate) drain_victims: Victims,
    /// Requests that were not measured; all of them where the warm-up outlasts the trace.
    pub(crate) warmup_requests: u64,
    pub(crate) measured: bool,
    pub(crate) simulated_time: Nanos,
    pub(crate) series: SeriesResult,
    pub(crate) avoidance: Option<GcCounters>,
    pub(crate) timed: Option<Timed>,
}

/// What a run over a timed device found beside.
pub(crate) struct Timed {
    pub(crate) stall: u128,
    pub(crate) saturated: Option<Saturation>,
    pub(crate) response: ResponseResult,
    pub(crate) mean_free_blocks: f64,
}

/// Classes of [`BufferCounters::eviction_sizes`]: a block has at most 2^16 pages.
const SIZE_CLASSES: usize = 17;

/// The class of a unit of so many pages: the smallest `i` with `pages <= 2^i`.
#[inline]
fn size_class(pages: u32) -> usize {
    pages.next_power_of_two().trailing_zeros() as usize
}

/// Counters at zero.
fn counters() -> BufferCounters {
    BufferCounters { eviction_sizes: vec![0; SIZE_CLASSES], ..BufferCounters::default() }
}

/// A run whose policy and device are no longer visible.
pub(crate) trait Job: Send {
    /// Simulates a batch.
    fn feed(&mut self, feed: &Feed);
    /// Drains the buffer if so configured, and reports.
    fn finish(&mut self) -> Outcomes;
    /// The SSD, if the device is one.
    fn ssd(&self) -> Option<&Ssd>;
    /// Whether the buffer has to be told which blocks lie beside each other.
    fn compares_addresses(&self) -> bool;
}

impl<B: Buffer + Send, D: Device> Job for Simulation<B, D> {
    fn feed(&mut self, feed: &Feed) {
        self.buffer.grow(feed.pages);
        if let Some(borders) = &feed.borders {
            self.buffer.learn_borders(borders);
        }
        let mut runs_begin = 0;
        for requests in feed.requests.chunks(LOOK_AHEAD) {
            let runs_end = requests.last().map_or(runs_begin, |request| request.runs_end as usize);
            self.look_ahead(requests, &feed.runs[..runs_end], runs_begin);
            for request in requests {
                let runs = &feed.runs[runs_begin..request.runs_end as usize];
                runs_begin = request.runs_end as usize;
                self.end_warmup_if_due(request);
                self.issue(request);
                self.fed += 1;
                self.counters.requests += 1;
                if !D::TIMED {
                    self.clock.now = request.time;
                }
                match request.op {
                    Op::Read | Op::Write => self.read_or_write(request, runs),
                    Op::Flush => self.flush(request),
                    Op::Discard => self.discard(request, runs),
                }
            }
        }
    }

    fn finish(&mut self) -> Outcomes {
        if D::TIMED {
            self.clock.advance(&mut self.device, Nanos(u64::MAX));
        }
        self.sample_series();
        if self.config.drain {
            // The drain is counted, and not charged to the device: the run is over.
            self.buffer.notify(Notice::Flush, &self.device, &mut NoVeto, &mut self.out);
            self.account(Phase::Drain);
            self.out.clear();
        }
        let c = &mut self.counters;
        c.accesses = c.read_pages + c.write_pages;
        c.hits = c.read_hits + c.write_hits;
        c.misses = c.accesses - c.hits;
        c.memory_accesses = self.buffer.memory_accesses() - self.memory_accesses_before;
        let sizes = c.eviction_sizes.iter().rposition(|&units| units > 0).map_or(0, |last| last + 1);
        c.eviction_sizes.truncate(sizes);
        let end = self.clock.now.max(self.clock.last_completion);
        let timed = D::TIMED.then(|| self.timed());
        if timed.as_ref().is_some_and(|timed| timed.saturated.is_some()) {
            self.series.forget_responses();
        }
        Outcomes {
            counters: self.counters.clone(),
            victims: self.victims,
            flush_victims: self.flush_victims,
            drain_victims: self.drain_victims,
            warmup_requests: self.warmup_requests,
            measured: self.measuring || self.fed == 0,
            simulated_time: end.since(self.clock.start),
            series: SeriesResult {
                start: self.clock.start.0,
                width: self.series.width().0,
                bins: self.series.bins().to_vec(),
            },
            avoidance: self.buffer.gc_counters().map(|now| now.since(&self.avoidance_before)),
            timed,
        }
    }

    fn ssd(&self) -> Option<&Ssd> {
        self.device.ssd()
    }

    fn compares_addresses(&self) -> bool {
        self.buffer.compares_addresses()
    }
}

impl<B: Buffer, D: Device> Simulation<B, D> {
    pub(crate) fn new(config: RunConfig, unit: EvictionUnit, buffer: B, mut device: D) -> Self {
        let frames = Frames::new(config.capacity_pages);
        let background = Background::new(device.units());
        let watches = buffer.watches_collection();
        if watches {
            device.watch_collections();
        }
        let depth = device.ssd().and_then(|ssd| ssd.shape().config.queue_depth);
        let queue = if D::TIMED { HostQueue::new(config.host, depth).map(Box::new) } else { None };
        Self {
            config,
            pages_per_unit: if unit == EvictionUnit::Block { config.pages_per_block } else { 1 },
            buffer,
            device,
            watches,
            open_unit: (0, false),
            out: Evictions::default(),
            counters: counters(),
            victims: Victims::default(),
            flush_victims: Victims::default(),
            drain_victims: Victims::default(),
            memory_accesses_before: 0,
            avoidance_before: GcCounters::default(),
            fed: 0,
            warmup_requests: 0,
            measuring: false,
            series: Series::new(Nanos::ZERO),
            series_sample: SeriesSample::default(),
            clock: Clock {
                frames,
                background,
                queue,
                now: Nanos::ZERO,
                start: Nanos::ZERO,
                last_completion: Nanos::ZERO,
                programmed: Nanos::ZERO,
                stall: 0,
                read: Default::default(),
                write: Default::default(),
                backlog: Backlog::new(config.max_backlog),
                free_block_samples: 0,
                free_block_sum: 0,
            },
        }
    }

    /// Has the processor fetch together what the first pages of the requests' runs, which begin at `runs_begin`, will need, and
    /// what leaves for them: it lies all over the memory.
    #[inline]
    fn look_ahead(&self, requests: &[FeedRequest], runs: &[Run], mut runs_begin: usize) {
        let coming = &runs[runs_begin..];
        let mut read = 0;
        for run in coming {
            read ^= self.buffer.prefetch(PageNo(run.page));
        }
        if D::TIMED {
            let mut unnamed = coming.len();
            self.buffer.leaves_next(coming.len(), &mut |page| {
                unnamed -= 1;
                read ^= self.device.prefetch(page);
            });
            // What comes first leaves in the same while where the buffer is so small, or is none.
            let through = runs_begin + unnamed;
            for request in requests {
                if (request.op == Op::Read || runs_begin < through)
                    && let Some(run) = runs.get(runs_begin)
                {
                    read ^= self.device.prefetch(PageNo(run.page));
                }
                runs_begin = request.runs_end as usize;
            }
        }
        std::hint::black_box(read);
    }

    /// At the first measured request: forgets what was counted, and keeps what buffer and device hold.
    #[inline]
    fn end_warmup_if_due(&mut self, request: &FeedRequest) {
        let due = match self.config.warmup {
            Warmup::None => true,
            Warmup::Requests(requests) => self.fed >= requests,
            Warmup::Time(time) => request.time >= time,
        };
        if self.measuring || !due {
            return;
        }
        self.measuring = true;
        self.warmup_requests = self.fed;
        self.counters = counters();
        self.victims = Victims::default();
        self.flush_victims = Victims::default();
        self.memory_accesses_before = self.buffer.memory_accesses();
        self.avoidance_before = self.buffer.gc_counters().unwrap_or_default();
        self.device.reset_counters();
        let clock = &mut self.clock;
        clock.start = match self.config.host {
            HostModel::Closed { .. } if D::TIMED => clock.arrived(),
            HostModel::Open | HostModel::Closed { .. } => request.time,
        };
        clock.stall = 0;
        clock.read = Default::default();
        clock.write = Default::default();
        clock.last_completion = clock.start;
        clock.backlog.restart();
        self.series = Series::new(clock.start);
        self.series_sample =
            SeriesSample { at: clock.start, bin_ends: self.series.end_of_bin(clock.start), ..SeriesSample::default() };
        clock.free_block_samples = 0;
        clock.free_block_sum = 0;
    }

    /// Advances the clock to the time at which the request is issued: its arrival, or the completion that makes room for it
    /// in a closed loop or on the device.
    #[inline]
    fn issue(&mut self, request: &FeedRequest) {
        let clock = &mut self.clock;
        clock.now = match &mut clock.queue {
            Some(queue) if D::TIMED => queue.issue(request.time),
            _ => request.time,
        };
        self.device.set_now(clock.now);
        if D::TIMED && (self.watches || !clock.background.is_empty()) {
            self.catch_up();
        }
        // What is counted belongs to the bin of the arrival, however long the request waited.
        if self.clock.now >= self.series_sample.bin_ends && self.clock.arrived() >= self.series_sample.bin_ends {
            self.sample_series();
        }
        if !D::TIMED {
            self.series_sample.requests += 1;
        }
    }

    /// Does what comes before the present request: programs in the background, and what the buffer writes upon the end of a
    /// collection, in the order of time.
    #[cold]
    fn catch_up(&mut self) {
        let now = self.clock.now;
        loop {
            let end = if self.watches { self.device.first_collection_end() } else { None };
            let until = end.map_or(now, |(end, _)| end.min(now));
            // May begin a collection that ends before that one.
            self.clock.advance(&mut self.device, until);
            let Some((end, unit)) = self.device.first_collection_end().filter(|&(end, _)| self.watches && end <= until)
            else {
                break;
            };
            self.device.end_collection(unit);
            self.device.set_now(end);
            self.buffer.notify(Notice::GcEnd { unit }, &self.device, &mut NoVeto, &mut self.out);
            if !self.out.is_empty() {
                self.account(Phase::Destage);
                self.carry_out(end);
            }
        }
        self.device.set_now(now);
    }

    #[inline]
    fn read_or_write(&mut self, request: &FeedRequest, runs: &[Run]) {
        let write = request.op == Op::Write;
        if write {
            self.counters.write_requests += 1;
            self.counters.host_bytes_written += request.bytes;
        } else {
            self.counters.read_requests += 1;
            self.counters.host_bytes_read += request.bytes;
        }
        self.counters.zero_length_requests += u64::from(request.bytes == 0);
        let past_buffer = write && request.fua && self.config.flush == FlushMode::Drain;
        if self.config.admission == Admission::Request && !past_buffer {
            self.make_room(write, runs);
        }
        if !D::TIMED {
            for run in runs {
                for page in run.page..run.page + run.pages {
                    if past_buffer {
                        self.write_past_buffer(Nanos::ZERO, PageNo(page), false);
                    } else {
                        self.access(Nanos::ZERO, Access { page: PageNo(page), write });
                    }
                }
            }
            return;
        }
        let start = self.clock.now;
        if request.bytes == 0 {
            self.complete(request, Done::undelayed(start));
            return;
        }
        let (mut copied, mut done) = (Done::undelayed(start), Done::undelayed(start));
        for (r, run) in runs.iter().enumerate() {
            for page in run.page..run.page + run.pages {
                let page = PageNo(page);
                let head = request.head_partial && r == 0 && page.0 == run.page;
                let tail = request.tail_partial && r + 1 == runs.len() && page.0 + 1 == run.page + run.pages;
                let reads_old = write && (head || tail) && self.config.subpage == Subpage::Rmw;
                if past_buffer {
                    done = done.max(self.write_past_buffer(start, page, reads_old));
                    continue;
                }
                let outcome = self.access(start, Access { page, write });
                match outcome {
                    Outcome::Hit => {
                        let usable = self.clock.frames.usable_from(start, page);
                        copied = copied.max(usable).later_by(self.config.buffer_latency);
                    }
                    Outcome::Inserted => {
                        let free_at = self.clock.take_frame(&mut self.device);
                        self.clock.stall += u128::from(free_at.at.since(start).0);
                        let mut usable = free_at;
                        if !write || reads_old {
                            let read = self.clock.read(&mut self.device, start, page);
                            done = done.max(read);
                            usable = usable.max(read);
                        }
                        self.clock.frames.let_in(start, usable, page);
                        copied = copied.max(free_at).later_by(self.config.buffer_latency);
                    }
                    Outcome::Bypassed => {
                        if !write || reads_old {
                            done = done.max(self.clock.read(&mut self.device, start, page));
                        }
                        if write {
                            done = done.max(self.program(start, page));
                        }
                    }
                }
            }
        }
        self.complete(request, done.max(copied));
    }

    /// Evicts until those pages of a request that would come in have room, or as many of them as the buffer holds. Pages of
    /// the request that leave meanwhile need room too.
    #[cold]
    fn make_room(&mut self, write: bool, runs: &[Run]) {
        let (now, capacity) = (self.clock.now, self.config.capacity_pages);
        let pages = runs.iter().flat_map(|run| run.page..run.page + run.pages).map(PageNo);
        let coming = pages.filter(|&page| self.buffer.admits(Access { page, write })).count();
        let mut needed = coming.min(capacity as usize) as u32;
        while capacity - self.buffer.len() < needed {
            let left = self.buffer.evict(&self.device, &mut NoVeto, &mut self.out);
            let gone = self.out.groups().filter(|(group, _)| matches!(group.kind, Kind::Flush | Kind::Drop));
            let of_request = |page: PageNo| {
                let asked = runs.iter().any(|run| (run.page..run.page + run.pages).contains(&page.0));
                asked && self.buffer.admits(Access { page, write })
            };
            let again = gone.flat_map(|(_, pages)| pages).filter(|&&page| of_request(page)).count() as u32;
            needed = (needed + again).min(capacity);
            self.account(Phase::Run);
            self.carry_out(now);
            if !left {
                // Everything is vetoed; the pages come in, or do not, one by one.
                break;
            }
        }
    }

    /// One page access through the buffer; what it evicts is written from `now` on.
    #[inline]
    fn access(&mut self, now: Nanos, access: Access) -> Outcome {
        let outcome = self.buffer.access(access, &self.device, &mut NoVeto, &mut self.out);
        let c = &mut self.counters;
        if access.write {
            c.write_pages += 1;
            match outcome {
                Outcome::Hit => c.write_hits += 1,
                Outcome::Inserted => c.write_insertions += 1,
                Outcome::Bypassed => c.bypassed_writes += 1,
            }
        } else {
            c.read_pages += 1;
            match outcome {
                Outcome::Hit => c.read_hits += 1,
                Outcome::Inserted => {}
                Outcome::Bypassed => c.bypassed_reads += 1,
            }
        }
        if !self.out.is_empty() {
            if let Some((kind, page)) = self.out.only_page()
                && self.open_unit == (0, false)
            {
                self.evict_page(now, kind, page);
            } else {
                self.account(Phase::Run);
                self.carry_out(now);
            }
        }
        outcome
    }

    /// The same as [`Self::account`] and [`Self::carry_out`] for the one page that is all that leaves.
    #[inline]
    fn evict_page(&mut self, now: Nanos, kind: Kind, page: PageNo) {
        let c = &mut self.counters;
        c.evictions += 1;
        c.evicted_pages += 1;
        c.eviction_sizes[size_class(1)] += 1;
        if kind == Kind::Flush {
            c.dirty_pages_flushed += 1;
            self.victims.dirty_units += 1;
            self.victims.missing_pages += u64::from(self.pages_per_unit - 1);
        } else {
            c.clean_drops += 1;
        }
        if D::TIMED {
            let (device, clock) = (&mut self.device, &mut self.clock);
            let usable = clock.frames.leave(now, page).max(Done::undelayed(now));
            let done = if kind == Kind::Flush {
                let mut done = clock.program(device, usable.at, page, None);
                done.gc |= usable.gc;
                clock.programmed = clock.programmed.max(done.at);
                done
            } else {
                usable.max(clock.settle_kept(device, page))
            };
            clock.frames.give_back(now, done, 1);
        }
        self.out.clear();
    }

    /// A write that must be on flash when it is acknowledged: the buffer's copy is outdated. `reads_old`: the page is
    /// written in part, so that unless it was buffered its old content is read first.
    fn write_past_buffer(&mut self, now: Nanos, page: PageNo, reads_old: bool) -> Done {
        self.buffer.notify(Notice::Trim { page }, &self.device, &mut NoVeto, &mut self.out);
        let was_buffered = !self.out.is_empty();
        self.account(Phase::Trim);
        self.carry_out(now);
        self.counters.write_pages += 1;
        self.counters.bypassed_writes += 1;
        if reads_old && !was_buffered {
            // The program comes after it on the same element.
            self.clock.read(&mut self.device, now, page);
        }
        self.program(now, page)
    }

    #[inline]
    fn program(&mut self, now: Nanos, page: PageNo) -> Done {
        let done = self.clock.program(&mut self.device, now, page, None);
        self.clock.programmed = self.clock.programmed.max(done.at);
        done
    }

    fn flush(&mut self, request: &FeedRequest) {
        self.counters.flush_requests += 1;
        let now = self.clock.now;
        if self.config.flush == FlushMode::Drain {
            self.buffer.notify(Notice::Flush, &self.device, &mut NoVeto, &mut self.out);
            self.account(Phase::Flush);
            self.carry_out(now);
            // What waits in the background is not durable yet.
            while let Some(program) = self.clock.background.pop_oldest() {
                self.clock.begin(&mut self.device, &program, now);
            }
        }
        if D::TIMED {
            let waits = self.config.flush == FlushMode::Drain;
            let done = if waits { self.clock.programmed.max(now) } else { now };
            self.complete(request, Done::undelayed(done));
        }
    }

    fn discard(&mut self, request: &FeedRequest, runs: &[Run]) {
        self.counters.discard_requests += 1;
        let now = self.clock.now;
        if self.config.trim == TrimMode::Honour {
            for run in runs {
                for page in run.page..run.page + run.pages {
                    self.buffer.notify(Notice::Trim { page: PageNo(page) }, &self.device, &mut NoVeto, &mut self.out);
                    self.account(Phase::Trim);
                    self.carry_out(now);
                    self.clock.settle(&mut self.device, PageNo(page));
                    self.device.trim(PageNo(page));
                }
            }
        }
        if D::TIMED {
            self.complete(request, Done::undelayed(now));
        }
    }

    /// Takes note of a request's completion.
    #[inline]
    fn complete(&mut self, request: &FeedRequest, done: Done) {
        let clock = &mut self.clock;
        let Done { at: done, gc } = done;
        clock.last_completion = clock.last_completion.max(done);
        let (arrived, backlog) = match &mut clock.queue {
            None => (clock.now, clock.backlog.arrive(clock.now, done)),
            Some(queue) => (queue.arrived(), queue.complete(done, &mut clock.backlog)),
        };
        let response = done.since(arrived);
        let bin = self.series.at(arrived);
        bin.arrival(backlog);
        if request.bytes > 0 && matches!(request.op, Op::Read | Op::Write) {
            bin.response(request.op == Op::Write, response);
            bin.gc_delayed += u64::from(gc);
            let latencies = if request.op == Op::Write { &mut clock.write } else { &mut clock.read };
            latencies[usize::from(gc)].record(response);
        }
        // The first measured arrival is sampled, so that a short run has a figure too.
        if self.counters.requests % FREE_BLOCK_SAMPLING == 1
            && let Some(ssd) = self.device.ssd()
        {
            clock.free_block_samples += 1;
            clock.free_block_sum += ssd.total_free_blocks();
        }
    }

    /// Credits what was counted since the last sample to the bin in which that sample was taken, and begins the bin of
    /// the present time.
    #[cold]
    fn sample_series(&mut self) {
        let (c, before, now) = (&self.counters, self.series_sample, self.clock.arrived());
        let flash = self.device.ssd().map(Ssd::total).unwrap_or_default();
        let bin = self.series.at(before.at);
        bin.requests += before.requests;
        bin.host_bytes_read += c.host_bytes_read - before.host_bytes_read;
        bin.host_bytes_written += c.host_bytes_written - before.host_bytes_written;
        bin.accesses += c.read_pages + c.write_pages - before.accesses;
        bin.hits += c.read_hits + c.write_hits - before.hits;
        bin.evictions += c.evictions - before.evictions;
        bin.evicted_pages += c.evicted_pages - before.evicted_pages;
        bin.dirty_pages_flushed += c.dirty_pages_flushed - before.dirty_pages_flushed;
        bin.flash_reads += flash.flash_reads - before.flash.flash_reads;
        bin.host_programs += flash.host_programs - before.flash.host_programs;
        bin.flash_writes += flash.flash_writes() - before.flash.flash_writes();
        bin.erases += flash.erases - before.flash.erases;
        bin.gc_invocations += flash.gc_invocations - before.flash.gc_invocations;
        bin.gc_pages_moved += flash.gc_pages_moved - before.flash.gc_pages_moved;
        bin.gc_time += flash.gc_time.since(before.flash.gc_time).0;
        self.series.at(now);
        self.series_sample = SeriesSample {
            at: now,
            bin_ends: self.series.end_of_bin(now),
            requests: 0,
            host_bytes_read: c.host_bytes_read,
            host_bytes_written: c.host_bytes_written,
            accesses: c.read_pages + c.write_pages,
            hits: c.read_hits + c.write_hits,
            evictions: c.evictions,
            evicted_pages: c.evicted_pages,
            dirty_pages_flushed: c.dirty_pages_flushed,
            flash,
        };
    }

    /// Counts what is in `self.out`.
    #[inline]
    fn account(&mut self, phase: Phase) {
        let c = &mut self.counters;
        let (mut clean, mut ignored) = (0, Victims::default());
        let (units, dirty, pads, drops, victims) = match phase {
            Phase::Run => {
                (&mut c.evictions, &mut c.dirty_pages_flushed, &mut c.pad_reads, &mut c.clean_drops, &mut self.victims)
            }
            Phase::Destage => (
                &mut c.destage_evictions,
                &mut c.destage_pages_flushed,
                &mut c.destage_pad_reads,
                &mut clean,
                &mut ignored,
            ),
            Phase::Flush => (
                &mut c.flush_evictions,
                &mut c.flush_pages_flushed,
                &mut c.flush_pad_reads,
                &mut clean,
                &mut self.flush_victims,
            ),
            Phase::Drain => (
                &mut c.drain_evictions,
                &mut c.drain_pages_flushed,
                &mut c.drain_pad_reads,
                &mut clean,
                &mut self.drain_victims,
            ),
            Phase::Trim => {
                c.trimmed_pages += self.out.groups().map(|(group, _)| u64::from(group.len())).sum::<u64>();
                return;
            }
        };
        // Units that leave page by page, a few of several at a time, end in another call than they begin.
        let (mut unit_pages, mut unit_dirty) =
            if phase == Phase::Run { std::mem::take(&mut self.open_unit) } else { (0, false) };
        let mut all_pages = 0;
        for (group, _) in self.out.groups() {
            let pages = group.len();
            all_pages += if group.kind == Kind::Pad { 0 } else { u64::from(pages) };
            match group.kind {
                Kind::Pad => *pads += u64::from(pages),
                Kind::Drop => {
                    *drops += u64::from(pages);
                    unit_pages += pages;
                }
                Kind::Flush | Kind::Clean => {
                    *dirty += u64::from(pages);
                    unit_pages += pages;
                    unit_dirty = true;
                }
            }
            if group.units > 0 {
                // Several units that end together are taken to be alike.
                let ended = u64::from(group.units);
                *units += ended;
                if phase == Phase::Run {
                    let size = (unit_pages / group.units).min(self.pages_per_unit);
                    c.eviction_sizes[size_class(size)] += ended;
                }
                if unit_dirty {
                    victims.dirty_units += ended;
                    victims.missing_pages += u64::from((self.pages_per_unit * group.units).saturating_sub(unit_pages));
                }
                (unit_pages, unit_dirty) = (0, false);
            }
        }
        if phase == Phase::Run {
            c.evicted_pages += all_pages;
            self.open_unit = (unit_pages, unit_dirty);
        }
    }

    /// Writes what is in `self.out` from `now` on, frees the frames, and empties it.
    #[inline]
    fn carry_out(&mut self, now: Nanos) {
        if D::TIMED {
            let (device, clock) = (&mut self.device, &mut self.clock);
            let mut pads = Pages { pages: &[], channels: None };
            for (group, pages) in self.out.groups() {
                // Victims that wait for a collection leave when the first of those under way has ended.
                let begin = if group.after_collection {
                    let end = device.ssd().and_then(Ssd::first_end_under_way);
                    end.map_or(Done::undelayed(now), |at| Done { at, gc: true })
                } else {
                    Done::undelayed(now)
                };
                let pages = Pages { pages, channels: self.out.channels(group) };
                match group.kind {
                    Kind::Drop => {
                        for &page in pages.pages {
                            let usable = clock.frames.leave(now, page);
                            let usable = usable.max(begin).max(clock.settle_kept(device, page));
                            clock.frames.give_back(now, usable, 1);
                        }
                    }
                    Kind::Pad => {
                        if !group.background {
                            // An element serves its operations in order, so each program comes after the reads on its
                            // own element; those on other elements are taken to be done by then.
                            for &page in pages.pages {
                                clock.read(device, begin.at, page);
                            }
                        }
                        pads = pages;
                    }
                    Kind::Flush | Kind::Clean if group.background => {
                        clock.put_off(device, now, group, pages, pads);
                        pads = Pages { pages: &[], channels: None };
                    }
                    Kind::Flush | Kind::Clean => {
                        let frees = group.kind == Kind::Flush;
                        let mut last = begin;
                        let mut padding = pads.iter().peekable();
                        for (page, channel) in pages.iter() {
                            while let Some((pad, channel)) = padding.next_if(|(pad, _)| *pad < page) {
                                last = last.max(clock.program(device, begin.at, pad, channel));
                            }
                            // A page that still waits for its frame cannot be programmed before it is there.
                            let usable =
                                if frees { clock.frames.leave(now, page) } else { clock.frames.usable_from(now, page) };
                            let issued = usable.max(begin);
                            let mut done = clock.program(device, issued.at, page, channel);
                            done.gc |= issued.gc;
                            last = last.max(done);
                            if frees && group.wait == Wait::Any {
                                clock.frames.give_back(now, done, 1);
                            }
                        }
                        for (pad, channel) in padding {
                            last = last.max(clock.program(device, begin.at, pad, channel));
                        }
                        pads = Pages { pages: &[], channels: None };
                        if frees && group.wait == Wait::All {
                            clock.frames.give_back(now, last, group.len());
                        }
                        clock.programmed = clock.programmed.max(last.at);
                    }
                }
            }
        }
        self.out.clear();
    }

    fn timed(&mut self) -> Timed {
        let clock = &self.clock;
        let saturated = match self.config.host {
            HostModel::Open => clock.backlog.verdict(self.series.bins()),
            HostModel::Closed { .. } => None,
        };
        let response =
            if saturated.is_some() { ResponseResult::default() } else { response(&clock.read, &clock.write) };
        Timed {
            stall: clock.stall,
            saturated,
            response,
            mean_free_blocks: clock.free_block_sum as f64 / clock.free_block_samples.max(1) as f64,
        }
    }
}

/// Response times of reads and writes, of those that did not wait for a collection and those that did.
fn response(read: &[Latency; 2], write: &[Latency; 2]) -> ResponseResult {
    let sum = |a: &Latency, b: &Latency| {
        let mut sum = a.clone();
        sum.add(b);
        sum
    };
    let (reads, writes) = (sum(&read[0], &read[1]), sum(&write[0], &write[1]));
    let (undelayed, delayed) = (sum(&read[0], &write[0]), sum(&read[1], &write[1]));
    ResponseResult {
        all: sum(&reads, &writes).summary(),
        read: reads.summary(),
        write: writes.summary(),
        gc_delayed: delayed.summary(),
        gc_undelayed: undelayed.summary(),
        distribution: distribution([&reads, &writes, &delayed])
            .into_iter()
            .map(|(up_to, [reads, writes, gc_delayed])| ResponseClass { up_to, reads, writes, gc_delayed })
            .collect(),
    }
}

/// Pages with the channels that were chosen for them, if they were.
#[derive(Clone, Copy)]
struct Pages<'a> {
    pages: &'a [PageNo],
    channels: Option<&'a [u16]>,
}

impl<'a> Pages<'a> {
    #[inline]
    fn iter(self) -> impl Iterator<Item = (PageNo, Option<u16>)> + 'a {
        let channel = move |i: usize| self.channels.map(|channels| channels[i]);
        self.pages.iter().enumerate().map(move |(i, &page)| (page, channel(i)))
    }
}

/// What goes to the device, with what waits in the background.
impl Clock {
    /// Arrival of the latest request.
    #[inline]
    fn arrived(&self) -> Nanos {
        self.queue.as_ref().map_or(self.now, |queue| queue.arrived())
    }

    /// Takes a frame. If only programs in the background have frames to give, the oldest is no longer one.
    #[inline]
    fn take_frame<D: Device>(&mut self, device: &mut D) -> Done {
        if !self.background.is_empty() {
            while !self.frames.any()
                && let Some(program) = self.background.pop_oldest()
            {
                self.begin(device, &program, self.now);
            }
        }
        self.frames.take()
    }

    /// Reads a page: one that waits to be programmed from its frame.
    #[inline]
    fn read<D: Device>(&mut self, device: &mut D, at: Nanos, page: PageNo) -> Done {
        if !self.background.is_empty() && self.background.holds(page) {
            return Done::undelayed(at);
        }
        let done = device.read(at, page);
        Done { at: done, gc: device.waited_for_gc(page, at, done) }
    }

    /// Programs a page.
    #[inline]
    fn program<D: Device>(&mut self, device: &mut D, at: Nanos, page: PageNo, channel: Option<u16>) -> Done {
        if !self.background.is_empty() {
            // An older version goes first.
            self.settle(device, page);
            if at > self.now {
                self.advance_element(device, device.target(page, channel), at);
            }
        }
        let done = device.program(at, page, channel);
        Done { at: done, gc: device.waited_for_gc(page, at, done) }
    }

    /// Begins the program of a page now if it waits in the background, because something else happens to it; returns when it
    /// is done.
    fn settle<D: Device>(&mut self, device: &mut D, page: PageNo) -> Option<Done> {
        if self.background.is_empty() {
            return None;
        }
        let program = self.background.take(page)?;
        Some(self.begin(device, &program, self.now))
    }

    /// The same for a page whose frame is given up, if it waits in that very frame; returns from when on the frame is free.
    #[inline]
    fn settle_kept<D: Device>(&mut self, device: &mut D, page: PageNo) -> Done {
        if self.background.is_empty() || !self.background.keeps(page) {
            return Done::default();
        }
        self.settle(device, page).unwrap_or_default()
    }

    /// Has a group's pages, and those that it is padded with, wait until their elements are idle.
    #[cold]
    fn put_off<D: Device>(&mut self, device: &mut D, now: Nanos, group: &Group, pages: Pages<'_>, pads: Pages<'_>) {
        let frees = group.kind == Kind::Flush;
        for (page, _) in pages.iter().chain(pads.iter()) {
            self.settle(device, page);
        }
        let number = self.background.begin(group.wait, !frees);
        let mut padding = pads.iter().peekable();
        let mut push = |background: &mut Background, (page, channel): (PageNo, Option<u16>), ready, pad| {
            let channel = channel.or_else(|| device.turn());
            background.push(number, device.target(page, channel), page, channel, ready, pad);
        };
        for page in pages.iter() {
            while let Some(pad) = padding.next_if(|pad| pad.0 < page.0) {
                push(&mut self.background, pad, now, true);
            }
            let ready = if frees { self.frames.leave(now, page.0) } else { self.frames.usable_from(now, page.0) };
            push(&mut self.background, page, ready.at, false);
        }
        for pad in padding {
            push(&mut self.background, pad, now, true);
        }
    }

    /// Begins the programs in the background that begin before `until`.
    fn advance<D: Device>(&mut self, device: &mut D, until: Nanos) {
        if !self.background.is_empty() {
            for element in 0..self.background.elements() {
                self.advance_element(device, element, until);
            }
        }
    }

    fn advance_element<D: Device>(&mut self, device: &mut D, element: u32, until: Nanos) {
        while let Some(ready) = self.background.ready(element) {
            let start = ready.max(device.busy_until(element));
            if start >= until {
                break;
            }
            if let Some(program) = self.background.pop(element) {
                self.begin(device, &program, start);
            }
        }
    }

    /// Begins a program that was taken out of the background at this time, or once its data is there.
    fn begin<D: Device>(&mut self, device: &mut D, program: &Program, at: Nanos) -> Done {
        let at = at.max(program.ready);
        if program.pad {
            device.read(at, program.page);
        }
        let done = device.program(at, program.page, program.channel);
        self.programmed = self.programmed.max(done);
        let done = Done { at: done, gc: device.waited_for_gc(program.page, at, done) };
        if let Some((free_at, frames)) = self.background.end(program, done) {
            self.frames.give_back(self.now, free_at, frames);
        }
        done
    }
}

#[cfg(test)]
mod tests;
