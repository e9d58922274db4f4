//! Tracks the times of a run: when requests are issued and done, when frames are free, and which programs
//! wait.

use destage_plan::{Element, Nanos, PageNo};
use destage_policy::buffer::{EvictionGroup, EvictionKind, Evictions, FrameWait};

use super::background::{BackgroundPrograms, QueuedProgram};
use super::config::RunConfig;
use super::device::BufferDevice;
use super::done::DoneTime;
use super::frames::FrameTimes;
use super::result::{ResponseClass, ResponseResult};
use crate::input::{HostModel, HostQueue};
use crate::measure::{LatencyHistogram, RequestBacklog, SaturationCause, SeriesBin, distribution};
use crate::ssd::Ssd;

/// The free blocks are sampled at every so many arrivals.
const FREE_BLOCK_SAMPLING: u64 = 64;

/// Holds further findings of a run over a timed device.
pub(super) struct TimedOutcomes {
    pub(super) stall: u128,
    pub(super) saturated: Option<SaturationCause>,
    pub(super) response: ResponseResult,
    pub(super) mean_free_blocks: f64,
    /// Holds the time for which the trace's clock stood still; none if it could not.
    pub(super) replay_delay: Option<Nanos>,
}

/// Reads and writes that were answered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnsweredTimes {
    pub(super) count: u64,
    /// Those of them that waited for a collection.
    pub(super) gc_delayed: u64,
    /// All response times.
    pub(super) time: u128,
}

/// Everything that has to do with time; idle without a timed device.
pub(super) struct RunTiming {
    pub(super) frames: FrameTimes,
    pub(super) background: BackgroundPrograms,
    /// Holds requests until they are issued, if any can wait.
    queue: Option<Box<HostQueue>>,
    /// Issue of the latest request: its arrival, unless it waited.
    pub(super) now: Nanos,
    pub(super) start: Nanos,
    pub(super) last_completion: Nanos,
    /// Completion of the latest program of all.
    pub(super) programmed: Nanos,
    pub(super) stall: u128,
    /// Of requests that did not wait for a collection, and of those that did.
    read: [LatencyHistogram; 2],
    write: [LatencyHistogram; 2],
    backlog: RequestBacklog,
    free_block_samples: u64,
    free_block_sum: u64,
    /// Holds the time for which the trace's clock had stood still when the measured part began.
    held_before: Nanos,
}

/// Pages with the channels that were chosen for them, if they were.
#[derive(Clone, Copy)]
struct ChannelPages<'a> {
    pages: &'a [PageNo],
    channels: Option<&'a [u16]>,
}

impl<'a> ChannelPages<'a> {
    #[inline]
    fn iter(self) -> impl Iterator<Item = (PageNo, Option<u16>)> + 'a {
        let channel = move |i: usize| self.channels.map(|channels| channels[i]);
        self.pages.iter().enumerate().map(move |(i, &page)| (page, channel(i)))
    }
}

impl RunTiming {
    /// Everything is free, and nothing waits.
    pub(super) fn new<D: BufferDevice>(config: &RunConfig, device: &D) -> Self {
        let depth = device.ssd().and_then(|ssd| ssd.shape().config.queue_depth);
        Self {
            frames: FrameTimes::new(config.capacity_pages),
            background: BackgroundPrograms::new(device.elements()),
            queue: if D::TIMED { HostQueue::new(config.host, depth).map(Box::new) } else { None },
            now: Nanos::ZERO,
            start: Nanos::ZERO,
            last_completion: Nanos::ZERO,
            programmed: Nanos::ZERO,
            stall: 0,
            read: Default::default(),
            write: Default::default(),
            backlog: RequestBacklog::new(config.max_backlog),
            free_block_samples: 0,
            free_block_sum: 0,
            held_before: Nanos::ZERO,
        }
    }

    /// Forgets what was measured before `start`, and keeps what is under way.
    pub(super) fn restart(&mut self, start: Nanos) {
        self.start = start;
        self.stall = 0;
        self.read = Default::default();
        self.write = Default::default();
        // A warm-up request may end later than the first measured one; it must not lengthen the measured
        // time.
        self.last_completion = start;
        self.backlog.restart();
        self.free_block_samples = 0;
        self.free_block_sum = 0;
        self.held_before = self.held();
    }

    /// Issues a request that the trace has at `time`. The issue is at the arrival, or at the completion that
    /// makes room in a closed loop or on the device.
    #[inline]
    pub(super) fn issue<D: BufferDevice>(&mut self, time: Nanos) {
        self.now = match &mut self.queue {
            Some(queue) if D::TIMED => queue.issue(time),
            _ => time,
        };
    }

    /// Takes note of when the latest request is done: when it arrived, and how many were
    /// outstanding then.
    #[inline]
    pub(super) fn complete(&mut self, done: Nanos) -> (Nanos, u64) {
        self.last_completion = self.last_completion.max(done);
        match &mut self.queue {
            None => (self.now, self.backlog.arrive(self.now, done)),
            Some(queue) => (queue.arrived(), queue.complete(done, &mut self.backlog)),
        }
    }

    /// Takes note of the response time of a read or write.
    #[inline]
    pub(super) fn respond(&mut self, write: bool, gc: bool, response: Nanos) {
        let latencies = if write { &mut self.write } else { &mut self.read };
        latencies[usize::from(gc)].record(response);
    }

    /// Reads and writes answered so far.
    pub(super) fn answered(&self) -> AnsweredTimes {
        let all = || self.read.iter().chain(&self.write);
        AnsweredTimes {
            count: all().map(LatencyHistogram::count).sum(),
            gc_delayed: self.read[1].count() + self.write[1].count(),
            time: all().map(LatencyHistogram::sum).sum(),
        }
    }

    /// Samples the free blocks upon a request with this number, if it is one of those. The first
    /// is, so that a short run has a figure too.
    #[inline]
    pub(super) fn sample_free_blocks<D: BufferDevice>(&mut self, device: &D, request: u64) {
        // Summing the free blocks of all elements at each request would be costly; samples give the same
        // mean.
        if request % FREE_BLOCK_SAMPLING == 1
            && let Some(ssd) = device.ssd()
        {
            self.free_block_samples += 1;
            self.free_block_sum += ssd.total_free_blocks();
        }
    }

    /// Writes what leaves from `now` on, and frees the frames.
    #[inline]
    pub(super) fn carry_out<D: BufferDevice>(&mut self, device: &mut D, now: Nanos, out: &Evictions) {
        let mut pads = ChannelPages { pages: &[], channels: None };
        for (group, pages) in out.groups() {
            // Victims that wait for a collection leave when the first of those under way has ended.
            let begin = if group.after_collection {
                let end = device.ssd().and_then(Ssd::first_end_under_way);
                end.map_or(DoneTime::undelayed(now), |at| DoneTime { at, gc: true })
            } else {
                DoneTime::undelayed(now)
            };
            let pages = ChannelPages { pages, channels: out.channels(group) };
            match group.kind {
                EvictionKind::Drop => {
                    for &page in pages.pages {
                        let usable = self.frames.leave(now, page);
                        let usable = usable.max(begin).max(self.settle_kept(device, page));
                        self.frames.give_back(now, usable, 1);
                    }
                }
                EvictionKind::Pad => {
                    if !group.background {
                        // An element serves its operations in order, so each program comes after
                        // the reads on its own element; those on other elements are taken to be
                        // done by then.
                        for &page in pages.pages {
                            self.read(device, begin.at, page);
                        }
                    }
                    pads = pages;
                }
                EvictionKind::Flush | EvictionKind::Clean if group.background => {
                    self.put_off(device, now, group, pages, pads);
                    pads = ChannelPages { pages: &[], channels: None };
                }
                EvictionKind::Flush | EvictionKind::Clean => {
                    let frees = group.kind == EvictionKind::Flush;
                    let mut last = begin;
                    let mut padding = pads.iter().peekable();
                    for (page, channel) in pages.iter() {
                        // Pages and padding are programmed in ascending order, as a block is written whole.
                        while let Some((pad, channel)) = padding.next_if(|(pad, _)| *pad < page) {
                            last = last.max(self.program(device, begin.at, pad, channel));
                        }
                        // A page that still waits for its frame cannot be programmed before it is
                        // there.
                        let usable =
                            if frees { self.frames.leave(now, page) } else { self.frames.usable_from(now, page) };
                        let issued = usable.max(begin);
                        let mut done = self.program(device, issued.at, page, channel);
                        done.gc |= issued.gc;
                        last = last.max(done);
                        // A page-level policy frees each frame with its own program; a block leaves as a
                        // whole.
                        if frees && group.wait == FrameWait::Any {
                            self.frames.give_back(now, done, 1);
                        }
                    }
                    for (pad, channel) in padding {
                        last = last.max(self.program(device, begin.at, pad, channel));
                    }
                    pads = ChannelPages { pages: &[], channels: None };
                    if frees && group.wait == FrameWait::All {
                        self.frames.give_back(now, last, group.len());
                    }
                    self.programmed = self.programmed.max(last.at);
                }
            }
        }
    }

    /// The same for one page that is all that leaves.
    #[inline]
    pub(super) fn carry_out_page<D: BufferDevice>(
        &mut self,
        device: &mut D,
        now: Nanos,
        kind: EvictionKind,
        page: PageNo,
    ) {
        let usable = self.frames.leave(now, page).max(DoneTime::undelayed(now));
        let done = if kind == EvictionKind::Flush {
            let mut done = self.program(device, usable.at, page, None);
            done.gc |= usable.gc;
            self.programmed = self.programmed.max(done.at);
            done
        } else {
            usable.max(self.settle_kept(device, page))
        };
        self.frames.give_back(now, done, 1);
    }

    /// Programs a page that the host waits for.
    #[inline]
    pub(super) fn program_past_buffer<D: BufferDevice>(
        &mut self,
        device: &mut D,
        now: Nanos,
        page: PageNo,
    ) -> DoneTime {
        let done = self.program(device, now, page, None);
        self.programmed = self.programmed.max(done.at);
        done
    }

    /// Begins everything that waits in the background.
    pub(super) fn settle_all<D: BufferDevice>(&mut self, device: &mut D) {
        while let Some(program) = self.background.pop_oldest() {
            self.begin(device, &program, self.now);
        }
    }

    /// Returns the findings of a run with these bins.
    pub(super) fn result(&self, host: HostModel, bins: &[SeriesBin]) -> TimedOutcomes {
        let saturated = match host {
            // Nothing ever exceeds the backlog of a bounded host, which is not asked about.
            HostModel::Open | HostModel::Bounded { .. } => self.backlog.verdict(bins),
            HostModel::Closed { .. } => None,
        };
        let replay_delay = matches!(host, HostModel::Bounded { .. }).then(|| self.held().since(self.held_before));
        // Response times of an overloaded run depend on its length, so they are no result.
        let response = if saturated.is_some() { ResponseResult::default() } else { response(&self.read, &self.write) };
        TimedOutcomes {
            stall: self.stall,
            saturated,
            response,
            replay_delay,
            mean_free_blocks: self.free_block_sum as f64 / self.free_block_samples.max(1) as f64,
        }
    }

    /// Returns how long the trace's clock has stood still so far.
    pub(super) fn held(&self) -> Nanos {
        self.queue.as_ref().map_or(Nanos::ZERO, |queue| queue.held())
    }

    /// Arrival of the latest request.
    #[inline]
    pub(super) fn arrived(&self) -> Nanos {
        self.queue.as_ref().map_or(self.now, |queue| queue.arrived())
    }

    /// Takes a frame. If only programs in the background have frames to give, the oldest is no
    /// longer one.
    #[inline]
    pub(super) fn take_frame<D: BufferDevice>(&mut self, device: &mut D) -> DoneTime {
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
    pub(super) fn read<D: BufferDevice>(&mut self, device: &mut D, at: Nanos, page: PageNo) -> DoneTime {
        if !self.background.is_empty() && self.background.holds(page) {
            // The newest content is in the frame; flash still has the old one.
            return DoneTime::undelayed(at);
        }
        let done = device.read(at, page);
        DoneTime { at: done, gc: device.waited_for_gc(page, at, done) }
    }

    /// Programs a page.
    #[inline]
    fn program<D: BufferDevice>(&mut self, device: &mut D, at: Nanos, page: PageNo, channel: Option<u16>) -> DoneTime {
        if !self.background.is_empty() {
            // An older version goes first.
            self.settle(device, page);
            // Programs due before this one begin first, in the order of time.
            if at > self.now {
                self.advance_element(device, device.target(page, channel), at);
            }
        }
        let done = device.program(at, page, channel);
        DoneTime { at: done, gc: device.waited_for_gc(page, at, done) }
    }

    /// Begins the program of a page now if it waits in the background, because something else
    /// happens to it; returns when it is done.
    pub(super) fn settle<D: BufferDevice>(&mut self, device: &mut D, page: PageNo) -> Option<DoneTime> {
        if self.background.is_empty() {
            return None;
        }
        let program = self.background.take(page)?;
        Some(self.begin(device, &program, self.now))
    }

    /// The same for a page whose frame is given up, if it waits in that very frame; returns from
    /// when on the frame is free.
    #[inline]
    pub(super) fn settle_kept<D: BufferDevice>(&mut self, device: &mut D, page: PageNo) -> DoneTime {
        if self.background.is_empty() || !self.background.keeps(page) {
            return DoneTime::default();
        }
        self.settle(device, page).unwrap_or_default()
    }

    /// Has a group's pages, and those that it is padded with, wait until their elements are idle.
    #[cold]
    fn put_off<D: BufferDevice>(
        &mut self,
        device: &mut D,
        now: Nanos,
        group: &EvictionGroup,
        pages: ChannelPages<'_>,
        pads: ChannelPages<'_>,
    ) {
        let frees = group.kind == EvictionKind::Flush;
        for (page, _) in pages.iter().chain(pads.iter()) {
            self.settle(device, page);
        }
        let number = self.background.begin(group.wait, !frees);
        let mut padding = pads.iter().peekable();
        let mut push = |background: &mut BackgroundPrograms, (page, channel): (PageNo, Option<u16>), ready, pad| {
            // The channel is fixed now, since the program waits in that element's queue.
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
    pub(super) fn advance<D: BufferDevice>(&mut self, device: &mut D, until: Nanos) {
        if !self.background.is_empty() {
            for element in self.background.elements() {
                self.advance_element(device, element, until);
            }
        }
    }

    fn advance_element<D: BufferDevice>(&mut self, device: &mut D, element: Element, until: Nanos) {
        while let Some(ready) = self.background.ready(element) {
            let start = ready.max(device.busy_until(element));
            // A program that could begin only later leaves the element to the operation that somebody waits
            // for.
            if start >= until {
                break;
            }
            if let Some(program) = self.background.pop(element) {
                self.begin(device, &program, start);
            }
        }
    }

    /// Begins a program that was taken out of the background at this time, or once its data is
    /// there.
    pub(super) fn begin<D: BufferDevice>(&mut self, device: &mut D, program: &QueuedProgram, at: Nanos) -> DoneTime {
        let at = at.max(program.ready);
        if program.pad {
            device.read(at, program.page);
        }
        let done = device.program(at, program.page, program.channel);
        self.programmed = self.programmed.max(done);
        let done = DoneTime { at: done, gc: device.waited_for_gc(program.page, at, done) };
        if let Some((free_at, frames)) = self.background.end(program, done) {
            self.frames.give_back(self.now, free_at, frames);
        }
        done
    }
}

/// Response times of reads and writes, of those that did not wait for a collection and those that
/// did.
fn response(read: &[LatencyHistogram; 2], write: &[LatencyHistogram; 2]) -> ResponseResult {
    let sum = |a: &LatencyHistogram, b: &LatencyHistogram| {
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
