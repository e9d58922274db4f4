//! Carries a controller's steps out on device models, in virtual time and without bytes.
//!
//! * Time goes from event to event. Of events at the same time completions come first, in the order
//!   of the devices, then of the NVRAM, then of the processor; then what devices say of their
//!   collections, in the order of the devices; then timers. What the owner does (requests, failures)
//!   comes when it does it.
//! * What FUA and flushes cost is the device's affair: nothing but the order where it has no
//!   volatile cache.
//! * Steps that become ready at the same moment and are neighbours on a device go to it as one
//!   command, as behind a plug.

use std::collections::VecDeque;

use destage_plan::{
    Buf, Control, Controller, Dev, DevSet, DeviceChange, Engine, HostNotice, HostRequest, Issue, Nanos, OpId,
    PlacementStream, RangeError, Shape, Start, Status, Step, StepOutcome,
};

use super::collections::CollectionNotice;
use super::contents::{DeltaDraws, DeltaLengths, DeviceMetadata};
use super::device::{DeviceOp, ModelCounts, VirtualDevice};
use super::journal::{IntentJournal, JournalAppend};
use super::lane::{AskedStep, DeviceCounters, DeviceLane};
use super::serial::{AfterTurn, SerialServer};
use super::times::StepTimes;

/// Names the kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextEvent {
    /// A step completes.
    Completion,
    /// A device says something of its collections.
    Collection,
    /// A timer of the controller is due.
    Timer,
}

/// A device collects from now on, or does so no longer; it may be in several parts at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectionNote {
    /// Since when.
    pub at: Nanos,
    /// Names the device.
    pub dev: Dev,
    /// Is true if the device begins to collect, false if it ends.
    pub on: bool,
}

/// A request of which a step waited for a device that collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayNote {
    /// The request's tag.
    pub tag: u64,
    /// Holds the time at which the step was done.
    pub at: Nanos,
    /// Holds the time for which the step waited.
    pub waited: Nanos,
}

/// No completion is to come.
const NEVER: u64 = u64::MAX;

/// Holds notes about collections that nobody has fetched.
#[derive(Debug, Default)]
struct CollectionNotes {
    collections: VecDeque<CollectionNote>,
    delays: VecDeque<DelayNote>,
}

/// A controller at work in virtual time.
pub struct VirtualExecutor<C> {
    engine: Engine<C>,
    lanes: Vec<DeviceLane>,
    nvram: SerialServer,
    /// Replaces the NVRAM, where there is none.
    journal: Option<Box<IntentJournal>>,
    processor: SerialServer,
    times: StepTimes,
    deltas: DeltaDraws,
    metadata: DeviceMetadata,
    /// Holds the time of the next completion of each device, then of the NVRAM and of the processor, in ns.
    due: Vec<u64>,
    /// The least of them, and whose it is.
    next_due: (u64, usize),
    /// Holds the time of each device's next notice about collections, in ns.
    announced: Vec<u64>,
    /// The least of them, and whose it is.
    next_announced: (u64, usize),
    /// Parts of each device that collect.
    collecting: Vec<u32>,
    /// Holds notes that the owner of the run has not fetched; none if the owner wants none.
    notes: Option<CollectionNotes>,
    /// Devices that took or completed something since `due` was true, a bit each.
    touched: u64,
    now: Nanos,
    issued: u64,
    completed: Vec<Issue>,
}

impl<C: Controller> VirtualExecutor<C> {
    /// Begins the life of an array just made, with at most `depth` fragments of requests at a time.
    /// Devices are numbered as in `devices`.
    ///
    /// # Panics
    /// With more than 62 devices.
    pub fn new(controller: C, shape: Shape, depth: usize, devices: Vec<VirtualDevice>, times: StepTimes) -> Self {
        assert!(devices.len() <= 62, "an array has at most 33 devices");
        let mut executor = Self {
            engine: Engine::new(controller, shape, depth),
            due: vec![NEVER; devices.len() + 2],
            next_due: (NEVER, 0),
            announced: vec![NEVER; devices.len()],
            next_announced: (NEVER, 0),
            collecting: vec![0; devices.len()],
            notes: None,
            lanes: devices.into_iter().map(DeviceLane::new).collect(),
            nvram: SerialServer::default(),
            journal: times.journal.map(|place| Box::new(IntentJournal::new(place, shape.page_bytes()))),
            processor: SerialServer::default(),
            times,
            deltas: DeltaDraws::default(),
            metadata: DeviceMetadata::default(),
            touched: 0,
            now: Nanos::ZERO,
            issued: 0,
            completed: Vec::new(),
        };
        let collectors = (0..).map(Dev).zip(&executor.lanes).filter(|(_, lane)| lane.device().is_collector());
        let collectors = collectors.map(|(dev, _)| dev).collect();
        executor
            .engine
            .start(Nanos::ZERO, Start { nv: &[], intents: &[], missing: DevSet::EMPTY, collectors, unwritable: &[] });
        executor.carry_out();
        executor
    }

    /// Sets the function that gives the length of a delta. Its arguments are the page of the array and how
    /// often that page was encoded before. The default is a quarter of a page.
    pub fn set_delta_lengths(&mut self, lengths: DeltaLengths) {
        self.deltas.lengths = Some(lengths);
    }

    /// Pages written to the journal so far that stands in for the NVRAM.
    pub fn journal_writes(&self) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.written())
    }

    /// Has it keep notes of collections from now on, for whoever fetches them.
    pub fn note_collections(&mut self) {
        self.notes = Some(CollectionNotes::default());
    }

    /// Is true if there are notes to fetch.
    #[inline]
    pub fn has_notes(&self) -> bool {
        self.notes.as_ref().is_some_and(|notes| !notes.collections.is_empty() || !notes.delays.is_empty())
    }

    /// The next note of a device that begins or ends to collect, in order of time.
    #[inline]
    pub fn next_collection_note(&mut self) -> Option<CollectionNote> {
        self.notes.as_mut()?.collections.pop_front()
    }

    /// The next note of a request that was delayed by a collection. Fetch them before the notices: the tag may
    /// be given to another request then.
    #[inline]
    pub fn next_delay_note(&mut self) -> Option<DelayNote> {
        self.notes.as_mut()?.delays.pop_front()
    }

    /// The time of the latest event.
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// The policy.
    pub const fn controller(&self) -> &C {
        self.engine.controller()
    }

    /// The engine: its steps, claims and shape.
    pub const fn engine(&self) -> &Engine<C> {
        &self.engine
    }

    /// Returns the status of the controller: how far the start has come.
    pub fn status(&self) -> Status {
        self.engine.status()
    }

    /// Returns the number of devices.
    pub fn devices(&self) -> usize {
        self.lanes.len()
    }

    /// A device as it is.
    pub fn device(&self, dev: Dev) -> &VirtualDevice {
        self.lanes[dev.index()].device()
    }

    /// Is true if the device answers.
    pub fn is_alive(&self, dev: Dev) -> bool {
        self.lanes[dev.index()].is_alive()
    }

    /// Returns the counts of the device's commands.
    pub fn device_counters(&self, dev: Dev) -> &DeviceCounters {
        self.lanes[dev.index()].counters()
    }

    /// Returns the counts of the device's model, those of its predecessors in the same place included. A disk
    /// is busy up to now; an SSD's commands count when they complete.
    pub fn model_counts(&self, dev: Dev) -> ModelCounts {
        self.lanes[dev.index()].model(self.now)
    }

    /// The integral of a device's outstanding commands over time up to now, in ns.
    pub fn queue_area(&self, dev: Dev) -> u128 {
        self.lanes[dev.index()].area(self.now)
    }

    /// The most commands that a device had at a time.
    pub fn longest_queue(&self, dev: Dev) -> u64 {
        self.lanes[dev.index()].most_outstanding()
    }

    /// Forgets the longest queues, as between warm-up and measurement.
    pub fn restart_longest_queues(&mut self) {
        self.lanes.iter_mut().for_each(DeviceLane::restart_most);
    }

    /// Time of all NVRAM steps so far, and of all computing.
    pub const fn busy(&self) -> (Nanos, Nanos) {
        (self.nvram.busy(), self.processor.busy())
    }

    /// Is true if any step is in flight. Timers do not count.
    pub fn is_busy(&self) -> bool {
        self.next_due.0 != NEVER
    }

    /// The time of the next event and what it is.
    #[inline]
    pub fn next_event(&self) -> Option<(Nanos, NextEvent)> {
        let completion = self.next_due.0;
        let next = completion.min(self.next_announced.0);
        match self.engine.next_timer() {
            // The strict comparison puts timers last among events of the same time, as the head of this
            // file promises.
            Some(at) if at.0 < next => Some((at.max(self.now), NextEvent::Timer)),
            _ if next == NEVER => None,
            _ if completion <= next => Some((Nanos(completion), NextEvent::Completion)),
            _ => Some((Nanos(next), NextEvent::Collection)),
        }
    }

    /// Lets the next event happen; whether there was one.
    pub fn step(&mut self) -> bool {
        let next = self.next_event();
        if let Some((at, event)) = next {
            self.happen(at, event);
        }
        next.is_some()
    }

    /// Lets the [next event](Self::next_event) happen.
    pub(super) fn happen(&mut self, at: Nanos, event: NextEvent) {
        self.now = at;
        match event {
            NextEvent::Timer => self.engine.timers(at),
            NextEvent::Completion => self.complete(self.next_due.1),
            NextEvent::Collection => self.announce(Dev(self.next_announced.1 as u8)),
        }
        self.carry_out();
    }

    /// Lets time pass in which nothing happens.
    ///
    /// # Panics
    /// If an event was due before `now`.
    pub fn wait_until(&mut self, now: Nanos) {
        self.advance(now);
    }

    /// Takes a request of the host. Its range must be on the array.
    ///
    /// # Panics
    /// If an event was due before `now`.
    pub fn submit(&mut self, now: Nanos, request: HostRequest) -> Result<(), RangeError> {
        self.advance(now);
        self.engine.submit(now, request)?;
        self.carry_out();
        Ok(())
    }

    /// Gives an order.
    ///
    /// # Panics
    /// If an event was due before `now`.
    pub fn control(&mut self, now: Nanos, control: Control) {
        self.advance(now);
        self.engine.control(now, control);
        self.carry_out();
    }

    /// A device fails: what it was asked for fails now, and so does everything that it will be
    /// asked for.
    ///
    /// # Panics
    /// If an event was due before `now`.
    pub fn fail(&mut self, now: Nanos, dev: Dev) {
        self.advance(now);
        if !self.lanes[dev.index()].is_alive() {
            return;
        }
        // The vector is reused, so that completions allocate nothing.
        let mut lost = std::mem::take(&mut self.completed);
        self.lanes[dev.index()].fail(now, &mut lost);
        self.touched |= 1 << dev.0;
        self.collects_in(dev, 0);
        // The controller hears of the failure before its steps fail, and so counts the device as lost when
        // they do.
        self.engine.device(now, dev, DeviceChange::Failed);
        for issue in lost.drain(..) {
            self.metadata.end(&mut self.engine, issue, false);
            self.engine.complete(now, issue, StepOutcome::Failed(dev));
        }
        self.completed = lost;
        self.carry_out();
    }

    /// Another device takes the place of one, which fails if it has not already.
    ///
    /// # Panics
    /// If an event was due before `now`, or it cannot be told to collect while the first could.
    pub fn replace(&mut self, now: Nanos, dev: Dev, device: VirtualDevice) {
        self.fail(now, dev);
        let could = self.device(dev).is_collector();
        // The controller was told once, at the start, which devices can be told to collect.
        assert!(!could || device.is_collector(), "what takes the place of a collector is one");
        self.lanes[dev.index()].replace(device);
        self.metadata.forget(dev);
        self.engine.device(now, dev, DeviceChange::Replaced);
        self.carry_out();
    }

    /// Returns the next notice for the host, in order.
    #[inline]
    pub fn next_notice(&mut self) -> Option<HostNotice> {
        self.engine.next_notice()
    }

    fn advance(&mut self, now: Nanos) {
        if now == self.now {
            // Nothing was due before.
            return;
        }
        assert!(now >= self.now, "{now} is before {}, the time of an earlier event", self.now);
        assert!(self.next_event().is_none_or(|(at, _)| at >= now), "an event was due before {now}");
        self.now = now;
    }

    /// A device says something of its collections.
    fn announce(&mut self, dev: Dev) {
        self.touched |= 1 << dev.0;
        let parts = self.collecting[dev.index()];
        match self.lanes[dev.index()].announce(self.now) {
            Some(CollectionNotice::Begins(unit, blocks)) => {
                self.collects_in(dev, parts + 1);
                self.engine.device_gc(self.now, dev, unit, true, blocks);
            }
            Some(CollectionNotice::Ends(unit, blocks)) => {
                self.collects_in(dev, parts - 1);
                self.engine.device_gc(self.now, dev, unit, false, blocks);
            }
            Some(CollectionNotice::Near) => self.engine.device_near_gc(self.now, dev),
            // What a drive paces by itself is no pause that a controller could make use of.
            Some(CollectionNotice::SliceBegins) => self.collects_in(dev, parts + 1),
            Some(CollectionNotice::SliceEnds) => self.collects_in(dev, parts - 1),
            None => {}
        }
    }

    /// So many parts of a device collect from now on.
    fn collects_in(&mut self, dev: Dev, parts: u32) {
        let before = std::mem::replace(&mut self.collecting[dev.index()], parts);
        // Several parts may collect at once; only the first begin and the last end change the device's
        // state.
        if let Some(notes) = self.notes.as_mut().filter(|_| (before > 0) != (parts > 0)) {
            notes.collections.push_back(CollectionNote { at: self.now, dev, on: parts > 0 });
        }
    }

    /// Notes which requests waited for a device that collected, if steps of theirs were just done on it.
    fn note_delays(&mut self, place: usize, done: &[Issue]) {
        let waited = self.lanes[place].waited();
        if waited == Nanos::ZERO {
            return;
        }
        let Some(notes) = &mut self.notes else { return };
        for tag in done.iter().filter_map(|issue| self.engine.request_of(issue.op)) {
            notes.delays.push_back(DelayNote { tag, at: self.now, waited });
        }
    }

    /// Takes the next completion of a device, of the NVRAM or of the processor.
    fn complete(&mut self, place: usize) {
        let lanes = self.lanes.len();
        if place < lanes {
            let mut completed = std::mem::take(&mut self.completed);
            self.lanes[place].complete(&mut completed);
            self.touched |= 1 << place;
            self.note_delays(place, &completed);
            for issue in completed.drain(..) {
                if self.journal.is_some() && self.engine.step(issue).dev().is_none() {
                    self.journaled(issue);
                    continue;
                }
                self.metadata.end(&mut self.engine, issue, true);
                self.engine.complete(self.now, issue, StepOutcome::Ok);
            }
            self.completed = completed;
            return;
        }
        // Each of these serves in order, so one next completion each is enough and no event heap is needed.
        let server = if place == lanes { &mut self.nvram } else { &mut self.processor };
        let taken = server.complete();
        self.due[place] = server.next_completion().map_or(NEVER, |at| at.0);
        match taken {
            Some((_, issue, AfterTurn::Done)) => self.computed(issue),
            Some((_, issue, AfterTurn::CarryOut)) => self.begin(issue, *self.engine.step(issue)),
            None => {}
        }
    }

    /// Begins every step that may begin.
    fn carry_out(&mut self) {
        while let Some(issue) = self.engine.next_issue() {
            let step = *self.engine.step(issue);
            // A step whose source is in the NVRAM waits for that read first; the step itself begins
            // afterwards.
            let begins = match self.nv_reads(issue.op, &step) {
                None => true,
                Some(time) => self.nvram.take(self.now, time, issue, AfterTurn::CarryOut),
            };
            if begins {
                self.begin(issue, step);
            }
        }
        while self.touched != 0 {
            let place = self.touched.trailing_zeros() as usize;
            self.touched &= self.touched - 1;
            // Steps of one moment are all issued by now, so neighbours among them have been joined.
            self.lanes[place].unplug(self.now);
            self.due[place] = self.lanes[place].next_completion().map_or(NEVER, |at| at.0);
            let announced = self.lanes[place].next_announcement().map_or(NEVER, |at| at.0);
            // Notices are rare, and a scan over all devices at each event would show in the run's time.
            if std::mem::replace(&mut self.announced[place], announced) != announced {
                self.next_announced = least(&self.announced);
            }
        }
        let lanes = self.lanes.len();
        self.due[lanes] = self.nvram.next_completion().map_or(NEVER, |at| at.0);
        self.due[lanes + 1] = self.processor.next_completion().map_or(NEVER, |at| at.0);
        self.next_due = least(&self.due);
    }

    /// The time that it takes to fetch what a step takes from the NVRAM; none if it takes nothing
    /// from there.
    #[inline]
    fn nv_reads(&self, op: OpId, step: &Step) -> Option<Nanos> {
        // Slots of the row cache are ordinary memory and cost no NVRAM read.
        let is_nv = |buf: &Buf| u64::from(matches!(buf, Buf::Nv(slot) if !slot.is_in_memory()));
        let bytes = |buf: Buf, len: u32| is_nv(&buf) * u64::from(len);
        let mut part = 0;
        let pages = match step {
            Step::Write { src, .. } | Step::Slice { src, .. } => is_nv(src),
            Step::WriteList { srcs, .. } | Step::Xor { srcs, .. } | Step::Pq { srcs, .. } => {
                self.engine.bufs(op, *srcs).iter().map(is_nv).sum()
            }
            Step::Merge { old, new, .. } => is_nv(old) + is_nv(new),
            Step::Gf { x: a, y: b, .. } | Step::Compare { a, b, .. } => is_nv(a) + is_nv(b),
            Step::Encode { base, new, .. } => is_nv(base) + is_nv(new),
            Step::Decode { base, delta, .. } => {
                part = bytes(delta.buf, delta.len);
                is_nv(base)
            }
            Step::Pack { parts, .. } => {
                part = self.engine.spans(op, *parts).iter().map(|part| bytes(part.buf, part.len)).sum();
                0
            }
            Step::NvCommit { puts, .. } | Step::Hold { puts, .. } => {
                part = self.engine.puts(op, *puts).iter().map(|put| bytes(put.src, put.len)).sum();
                0
            }
            Step::Read { .. }
            | Step::MetaRead { .. }
            | Step::MetaWrite { .. }
            | Step::Duplicate { .. }
            | Step::FlushDev { .. }
            | Step::Trim { .. }
            | Step::Collect { .. }
            | Step::Intent { .. }
            | Step::Join
            | Step::Ack { .. } => return None,
        };
        (pages + part > 0).then(|| self.times.read(pages, part, self.engine.shape().page_bytes()))
    }

    /// Begins a step whose sources are there.
    fn begin(&mut self, issue: Issue, step: Step) {
        let times = &self.times;
        match step {
            // There is no successor: what it would be given is read.
            Step::Read { ext, .. } | Step::Duplicate { ext, .. } => {
                self.take(issue, ext.dev(), DeviceOp::Read, ext.first(), ext.pages());
            }
            Step::Write { ext, fua, .. } | Step::WriteList { ext, fua, .. } => {
                let op = if fua { DeviceOp::WriteFua } else { DeviceOp::Write };
                self.take(issue, ext.dev(), op, ext.first(), ext.pages());
            }
            Step::MetaWrite { ext, fua, .. } => {
                self.metadata.begin();
                let op = if fua { DeviceOp::WriteFua } else { DeviceOp::Write };
                self.take(issue, ext.dev(), op, ext.first(), ext.pages());
            }
            Step::MetaRead { ext } => {
                self.metadata.begin();
                self.take(issue, ext.dev(), DeviceOp::Read, ext.first(), ext.pages());
            }
            Step::Trim { ext } => self.take(issue, ext.dev(), DeviceOp::Trim, ext.first(), ext.pages()),
            Step::FlushDev { dev } => self.take(issue, dev, DeviceOp::Flush, 0, 0),
            Step::Collect { dev, quota } => self.take(issue, dev, DeviceOp::Collect(quota), 0, 0),
            Step::NvCommit { .. } | Step::Intent { .. } if self.journal.is_some() => {
                // Without an NVRAM its changes are durable only on the cache device, so they take that
                // device's time.
                let journal = self.journal.as_mut().expect("there is one");
                let append = journal.take(&self.engine, issue);
                self.append(append);
            }
            Step::NvCommit { puts, frees } => {
                let page = self.engine.shape().page_bytes();
                let puts = self.engine.puts(issue.op, puts).iter().map(|put| times.put(put.len, page).0);
                let time = puts.sum::<u64>() + times.nv_note.0 * frees.len() as u64;
                self.take_nv(issue, Nanos(time));
            }
            Step::Intent { rows, .. } => self.take_nv(issue, Nanos(times.nv_note.0 * rows.len() as u64)),
            Step::Xor { pages, .. } | Step::Pq { pages, .. } | Step::Gf { pages, .. } | Step::Compare { pages, .. } => {
                self.compute(issue, pages);
            }
            Step::Merge { .. } | Step::Slice { .. } | Step::Encode { .. } | Step::Decode { .. } | Step::Pack { .. } => {
                self.compute(issue, 1);
            }
            // A copy in memory costs no time in this model.
            Step::Hold { .. } => self.compute(issue, 0),
            // The engine does these itself.
            Step::Join | Step::Ack { .. } => {}
        }
    }

    fn take(&mut self, issue: Issue, dev: Dev, op: DeviceOp, first: u64, pages: u16) {
        let lane = &mut self.lanes[dev.index()];
        if !lane.is_alive() {
            // The step fails at once: a failed device takes no time, and the plan must not wait for it.
            lane.refuse();
            self.metadata.end(&mut self.engine, issue, false);
            self.engine.complete(self.now, issue, StepOutcome::Failed(dev));
            return;
        }
        self.issued += 1;
        let stream = self.engine.stream(issue);
        let asked = AskedStep { issue, order: self.issued, op, first, pages: u32::from(pages), stream };
        lane.take(self.now, asked, self.times.merge_pages);
        self.touched |= 1 << dev.0;
    }

    /// Has the journal write what it has to.
    fn append(&mut self, append: Option<JournalAppend>) {
        let (Some(journal), Some(JournalAppend { head, first, pages })) = (&self.journal, append) else { return };
        let dev = journal.dev();
        self.issued += 1;
        let (op, stream) = (DeviceOp::WriteFua, PlacementStream::Journal);
        let asked = AskedStep { issue: head, order: self.issued, op, first, pages, stream };
        let lane = &mut self.lanes[dev.index()];
        assert!(lane.is_alive(), "the device of the journal does not fail");
        lane.take(self.now, asked, self.times.merge_pages);
        self.touched |= 1 << dev.0;
    }

    /// Completes the steps whose changes the journal has written.
    fn journaled(&mut self, head: Issue) {
        let mut done = Vec::new();
        let append = self.journal.as_mut().and_then(|journal| journal.done(head, &mut done));
        self.append(append);
        for issue in done {
            self.engine.complete(self.now, issue, StepOutcome::Ok);
        }
    }

    fn take_nv(&mut self, issue: Issue, time: Nanos) {
        if self.nvram.take(self.now, time, issue, AfterTurn::Done) {
            self.engine.complete(self.now, issue, StepOutcome::Ok);
        }
    }

    fn compute(&mut self, issue: Issue, pages: u16) {
        let time = Nanos(self.times.compute.0 * u64::from(pages));
        if self.processor.take(self.now, time, issue, AfterTurn::Done) {
            self.computed(issue);
        }
    }

    /// Ends a step that computes, and one of the NVRAM.
    fn computed(&mut self, issue: Issue) {
        let outcome = match *self.engine.step(issue) {
            Step::Encode { page, .. } => StepOutcome::Length(self.deltas.next(page, self.engine.shape().page_bytes())),
            _ => StepOutcome::Ok,
        };
        self.engine.complete(self.now, issue, outcome);
    }
}

/// The least of these times and the first place where it is.
#[inline]
fn least(times: &[u64]) -> (u64, usize) {
    let mut least = (NEVER, 0);
    for (place, time) in times.iter().enumerate() {
        if *time < least.0 {
            least = (*time, place);
        }
    }
    least
}
