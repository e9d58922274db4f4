//! A device with what is under way on it: which steps wait for which command, and how long the
//! queue is.

use destage_plan::{Issue, Nanos, PlacementStream};

use super::collections::CollectionNotice;
use super::counters::counters;
use super::device::{DeviceOp, ModelCounts, VirtualDevice};

counters! {
    /// Work of one device. What it did counts when it is done.
    pub struct DeviceCounters {
        commands ["1"] "commands completed; one may carry out several steps",
        reads ["1"] "read commands",
        writes ["1"] "write commands",
        flushes ["1"] "flush commands",
        trims ["1"] "trim commands",
        collects ["1"] "orders to collect garbage",
        pages_read ["1"] "pages read",
        pages_written ["1"] "pages written",
        pages_trimmed ["1"] "pages trimmed",
        failed_steps ["1"] "steps that the device did not do because it had failed",
        residence_time ["ns"] "time from submission to completion, summed over the commands",
    }
}

const END: u32 = u32::MAX;

/// A step that a command carries out. Those of one command are linked, the command's tag is the
/// place of the first.
#[derive(Clone, Copy)]
struct WaitingStep {
    issue: Issue,
    submitted: Nanos,
    op: DeviceOp,
    pages: u32,
    next: u32,
    /// The order of issue; 0 where the place is free.
    order: u64,
}

/// A step for a device.
#[derive(Clone, Copy)]
pub(super) struct AskedStep {
    pub(super) issue: Issue,
    /// The order of issue, from 1.
    pub(super) order: u64,
    pub(super) op: DeviceOp,
    pub(super) first: u64,
    pub(super) pages: u32,
    /// Stream of what it writes.
    pub(super) stream: PlacementStream,
}

/// A command of which the device does not know yet.
#[derive(Clone, Copy)]
struct PluggedCommand {
    op: DeviceOp,
    first: u64,
    pages: u32,
    /// Stream of what it writes, if the device heeds it.
    stream: PlacementStream,
    head: u32,
    tail: u32,
}

/// One of the executor's devices.
pub(super) struct DeviceLane {
    device: VirtualDevice,
    alive: bool,
    /// Tells that the device heeds the streams of writes.
    heeds_streams: bool,
    waiting: Vec<WaitingStep>,
    free: Vec<u32>,
    plugged: Vec<PluggedCommand>,
    counters: DeviceCounters,
    /// Of devices that stood here before.
    retired: ModelCounts,
    outstanding: u64,
    most_outstanding: u64,
    /// ∫ outstanding dt, up to `changed`.
    area: u128,
    /// Time with something outstanding, up to `changed`.
    occupied: Nanos,
    changed: Nanos,
}

impl DeviceLane {
    pub(super) fn new(device: VirtualDevice) -> Self {
        Self {
            heeds_streams: device.heeds_streams(),
            device,
            alive: true,
            waiting: Vec::new(),
            free: Vec::new(),
            plugged: Vec::new(),
            counters: DeviceCounters::default(),
            retired: ModelCounts::default(),
            outstanding: 0,
            most_outstanding: 0,
            area: 0,
            occupied: Nanos::ZERO,
            changed: Nanos::ZERO,
        }
    }

    pub(super) const fn device(&self) -> &VirtualDevice {
        &self.device
    }

    pub(super) const fn is_alive(&self) -> bool {
        self.alive
    }

    pub(super) const fn counters(&self) -> &DeviceCounters {
        &self.counters
    }

    /// Returns the counts of the models up to now, those of replaced devices included.
    pub(super) fn model(&self, now: Nanos) -> ModelCounts {
        let counts = self.retired.plus(&self.device.counts());
        // What goes to the medium behind the host's back is work as well.
        if self.device.as_ssd().is_some() || self.device.has_cache() {
            return counts;
        }
        // What serves one command after the other is busy as long as it has any, be it in the midst
        // of one.
        ModelCounts { busy: self.occupied(now), ..counts }
    }

    /// ∫ commands outstanding dt since the beginning.
    pub(super) fn area(&self, now: Nanos) -> u128 {
        self.area + u128::from(self.outstanding) * u128::from(now.since(self.changed).0)
    }

    fn occupied(&self, now: Nanos) -> Nanos {
        if self.outstanding > 0 { self.occupied + now.since(self.changed) } else { self.occupied }
    }

    /// Counts what was outstanding until now.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        if now == self.changed {
            return;
        }
        (self.area, self.occupied) = (self.area(now), self.occupied(now));
        self.changed = now;
    }

    pub(super) const fn most_outstanding(&self) -> u64 {
        self.most_outstanding
    }

    /// Forgets how long the longest queue was, but for what is outstanding now.
    pub(super) fn restart_most(&mut self) {
        self.most_outstanding = self.outstanding;
    }

    /// Takes a step. The device hears of it with [`unplug`](Self::unplug): until then it is joined
    /// with a neighbour as long as both together have at most `merge` pages.
    pub(super) fn take(&mut self, now: Nanos, asked: AskedStep, merge: u32) {
        let AskedStep { issue, order, mut op, first, pages, mut stream } = asked;
        if !self.heeds_streams {
            // It makes no difference, and so does not keep neighbours apart.
            stream = PlacementStream::Unlabelled;
        }
        if op == DeviceOp::WriteFua && !self.device.has_cache() {
            // It makes no difference, and so does not keep neighbours apart.
            op = DeviceOp::Write;
        }
        let waiting = WaitingStep { issue, submitted: now, op, pages, next: END, order };
        let place = if let Some(place) = self.free.pop() {
            self.waiting[place as usize] = waiting;
            place
        } else {
            self.waiting.push(waiting);
            self.waiting.len() as u32 - 1
        };
        // Only the latest command can grow, as behind a plug: steps keep their order of issue.
        if let Some(last) = self.plugged.last_mut()
            && !matches!(op, DeviceOp::Flush | DeviceOp::Collect(_))
            && (last.op, last.stream) == (op, stream)
            && last.first + u64::from(last.pages) == first
            && last.pages.saturating_add(pages) <= merge
        {
            self.waiting[last.tail as usize].next = place;
            last.tail = place;
            last.pages += pages;
        } else {
            self.plugged.push(PluggedCommand { op, first, pages, stream, head: place, tail: place });
        }
    }

    /// Hands over what was taken.
    #[inline]
    pub(super) fn unplug(&mut self, now: Nanos) {
        if !self.plugged.is_empty() {
            self.hand_over(now);
        }
    }

    fn hand_over(&mut self, now: Nanos) {
        self.advance(now);
        for plugged in self.plugged.drain(..) {
            let PluggedCommand { op, first, pages, stream, head, .. } = plugged;
            self.device.submit_placed(now, op, first, pages, stream, head);
            self.outstanding += 1;
        }
        self.most_outstanding = self.most_outstanding.max(self.outstanding);
    }

    /// Returns the time of the device's next notice about collections; none if the device does not answer.
    pub(super) fn next_announcement(&self) -> Option<Nanos> {
        if self.alive { self.device.next_announcement() } else { None }
    }

    /// Takes what it says then, at `now`; none if that was delayed.
    pub(super) fn announce(&mut self, now: Nanos) -> Option<CollectionNotice> {
        self.device.announce(now)
    }

    /// Returns the time for which the latest completed command waited for collections.
    pub(super) fn waited(&self) -> Nanos {
        self.device.waited()
    }

    pub(super) fn next_completion(&self) -> Option<Nanos> {
        if self.alive { self.device.next_completion() } else { None }
    }

    /// Takes the next completion: its time, and into `issues` the steps that are done, none if it is
    /// an affair of the device alone.
    pub(super) fn complete(&mut self, issues: &mut Vec<Issue>) -> Option<Nanos> {
        let (at, tag) = self.device.complete()?;
        self.advance(at);
        let Some(tag) = tag else { return Some(at) };
        self.outstanding -= 1;
        let head = self.waiting[tag as usize];
        let counters = &mut self.counters;
        counters.commands += 1;
        counters.residence_time += at.since(head.submitted).0;
        match head.op {
            DeviceOp::Read => counters.reads += 1,
            DeviceOp::Write | DeviceOp::WriteFua => counters.writes += 1,
            DeviceOp::Flush => counters.flushes += 1,
            DeviceOp::Trim => counters.trims += 1,
            DeviceOp::Collect(_) => counters.collects += 1,
        }
        let mut place = tag;
        while place != END {
            let waiting = &mut self.waiting[place as usize];
            let pages = u64::from(waiting.pages);
            match waiting.op {
                DeviceOp::Read => counters.pages_read += pages,
                DeviceOp::Write | DeviceOp::WriteFua => counters.pages_written += pages,
                DeviceOp::Trim => counters.pages_trimmed += pages,
                DeviceOp::Flush | DeviceOp::Collect(_) => {}
            }
            issues.push(waiting.issue);
            waiting.order = 0;
            self.free.push(place);
            place = waiting.next;
        }
        Some(at)
    }

    /// The device answers no more; into `issues` the steps that it will not do, in the order of
    /// issue.
    pub(super) fn fail(&mut self, now: Nanos, issues: &mut Vec<Issue>) {
        self.advance(now);
        self.outstanding = 0;
        self.alive = false;
        // The table's places are reused, so their order is not that of issue; the sort makes runs
        // reproducible.
        let mut lost: Vec<_> = self.waiting.drain(..).filter(|waiting| waiting.order > 0).collect();
        lost.sort_unstable_by_key(|waiting| waiting.order);
        issues.extend(lost.iter().map(|waiting| waiting.issue));
        self.counters.failed_steps += lost.len() as u64;
        self.free.clear();
    }

    /// Counts a step that a failed device was asked for.
    pub(super) fn refuse(&mut self) {
        self.counters.failed_steps += 1;
    }

    /// Another device stands here.
    pub(super) fn replace(&mut self, device: VirtualDevice) {
        // The lane's figures span all devices that stood here.
        self.retired = self.retired.plus(&self.device.counts());
        self.heeds_streams = device.heeds_streams();
        self.device = device;
        self.alive = true;
    }
}
