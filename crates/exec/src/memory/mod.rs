//! Real bytes, virtual time, any order of completion, loss of power and of devices.

mod ahead;
mod check;
mod fault;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use destage_plan::{
    Control, Controller, Dev, DevSet, Engine, HostNotice, HostOp, HostRequest, Issue, Nanos, OpId, RangeError, Shape,
    Start, Status, Step, StepKind, StepOutcome,
};

use crate::device::{Device, Disk};
use crate::{Buffer, Bytes, Handle, Nvram};
use ahead::Ahead;

pub use check::{NoCheck, RowCheck, View, Violation};
pub use fault::{Conduct, Tamper};

/// What survives a loss of power: bytes alone.
#[derive(Clone, Debug)]
pub struct Remains {
    /// The devices.
    pub disks: Vec<Disk>,
    /// The NVRAM.
    pub nvram: Nvram,
}

impl Remains {
    /// An array just made, of devices with so many bytes each.
    pub fn fresh(device_bytes: impl IntoIterator<Item = usize>) -> Self {
        Self { disks: device_bytes.into_iter().map(Disk::zeros).collect(), nvram: Nvram::default() }
    }
}

/// Time that steps take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Reading, per step.
    pub read: Nanos,
    /// Writing and trimming, per step.
    pub write: Nanos,
    /// Flushing a device.
    pub flush: Nanos,
    /// A step of the NVRAM, or one that computes.
    pub quick: Nanos,
    /// Per page, on top.
    pub page: Nanos,
}

impl Default for Latency {
    /// Flash-like figures; nothing depends on them but the order of things.
    fn default() -> Self {
        Self {
            read: Nanos(60_000),
            write: Nanos(20_000),
            flush: Nanos(500_000),
            quick: Nanos(1_000),
            page: Nanos(2_000),
        }
    }
}

impl Latency {
    const fn of(&self, step: &Step) -> Nanos {
        let (base, pages) = match step {
            Step::Read { ext, .. } | Step::MetaRead { ext } => (self.read.0, ext.pages()),
            Step::Write { ext, .. }
            | Step::WriteList { ext, .. }
            | Step::MetaWrite { ext, .. }
            | Step::Trim { ext } => (self.write.0, ext.pages()),
            Step::FlushDev { .. } => (self.flush.0, 0),
            _ => (self.quick.0, 0),
        };
        Nanos(base + self.page.0 * pages as u64)
    }
}

/// Which of the steps in flight ends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The one at this place, below [`Memory::runnable`]. Time advances by a microsecond.
    At(usize),
    /// The one that was issued first. Time advances by a microsecond.
    Oldest,
    /// The one that is done first, as time goes.
    Earliest,
}

/// A step that ended.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// Whose.
    pub op: OpId,
    /// The step.
    pub step: Step,
    /// How.
    pub outcome: StepOutcome,
}

struct InFlight {
    issue: Issue,
    step: Step,
    /// The order of issue.
    number: u64,
    due: Nanos,
    /// For a flush: the writes that it covers.
    covers: u64,
    /// Its device failed since.
    lost: bool,
    conduct: Conduct,
    /// The controller was told already; the bytes that are still to be written.
    early: Option<Handle>,
}

/// What happened, a line each: virtual microseconds, then what.
pub type Log = Arc<Mutex<Vec<String>>>;

/// Carries a controller's steps out in memory.
///
/// Steps on devices and computing steps that were issued end one at a time, in any order that the
/// caller likes; those of the NVRAM in the order of issue. A device keeps what was written but not
/// flushed apart, so that [`cut`](Self::cut) can leave any part of it.
pub struct Memory<C> {
    engine: Engine<C>,
    bytes: Bytes,
    devices: Vec<Device>,
    in_flight: Vec<InFlight>,
    nv_queue: VecDeque<InFlight>,
    ahead: Ahead,
    now: Nanos,
    issued: u64,
    steps: u64,
    latency: Latency,
    compute_at_once: bool,
    /// Devices that can be asked to collect.
    collectors: DevSet,
    /// Devices that failed while the controller does not know.
    unannounced: DevSet,
    tamper: Option<Tamper>,
    log: Option<Log>,
    released: Option<u64>,
}

impl<C: Controller> Memory<C> {
    /// Begins a life with what an earlier one left, and `depth` fragments at a time.
    pub fn start(controller: C, remains: Remains, shape: Shape, depth: usize) -> Self {
        let mut memory = Self::prepare(controller, remains, shape, depth);
        memory.begin();
        memory
    }

    /// As [`start`](Self::start), but the controller hears of nothing before
    /// [`begin`](Self::begin), so that settings can be made.
    pub fn prepare(controller: C, remains: Remains, shape: Shape, depth: usize) -> Self {
        let page_bytes = shape.page_bytes();
        let sectors = (page_bytes / shape.sector_bytes()) as u32;
        Self {
            bytes: Bytes::new(page_bytes, shape.sector_bytes(), remains.nvram),
            engine: Engine::new(controller, shape, depth),
            devices: remains.disks.into_iter().map(|disk| Device::new(disk, page_bytes as usize, sectors)).collect(),
            in_flight: Vec::new(),
            nv_queue: VecDeque::new(),
            ahead: Ahead::default(),
            now: Nanos::ZERO,
            issued: 0,
            steps: 0,
            latency: Latency::default(),
            compute_at_once: true,
            collectors: DevSet::EMPTY,
            unannounced: DevSet::EMPTY,
            tamper: None,
            log: None,
            released: None,
        }
    }

    /// Lets the controller begin.
    pub fn begin(&mut self) {
        let missing: DevSet =
            self.devices.iter().zip(0..).filter(|(device, _)| !device.answers()).map(|(_, dev)| Dev(dev)).collect();
        let nv: Vec<_> = self.bytes.nvram().slots().collect();
        let intents = self.bytes.nvram().intents.ranges();
        self.note(|| format!("start: missing {missing:?}, {} slots, intents {intents:?}", nv.len()));
        let collectors = self.collectors;
        self.engine.start(self.now, Start { nv: &nv, intents: &intents, missing, collectors });
        self.take_issues();
    }

    /// The time that steps take when the [`Earliest`](Pick::Earliest) is picked.
    pub fn set_latency(&mut self, latency: Latency) {
        self.latency = latency;
    }

    /// Whether computing steps are done as soon as they are issued, as they are unless told
    /// otherwise, or end in any order like others.
    pub fn set_compute_at_once(&mut self, at_once: bool) {
        self.compute_at_once = at_once;
    }

    /// These devices collect garbage and can be asked to. It takes a step's time and changes no bytes;
    /// [`device_gc`](Self::device_gc) says when they do so on their own. Unless told before
    /// [`begin`](Self::begin), there are none: bytes in memory need no collecting.
    pub const fn set_collectors(&mut self, collectors: DevSet) {
        self.collectors = collectors;
    }

    /// A part of a device begins or ends a collection of so many blocks.
    ///
    /// # Panics
    /// If the device is no collector.
    pub fn device_gc(&mut self, dev: Dev, unit: u16, on: bool, blocks: u32) {
        assert!(self.collectors.contains(dev), "{dev} does not collect");
        self.note(|| format!("{dev}.{unit} {} {blocks} blocks", if on { "collects" } else { "has collected" }));
        self.engine.device_gc(self.now, dev, unit, on, blocks);
        self.take_issues();
    }

    /// A device has come near to where it has to collect.
    ///
    /// # Panics
    /// If the device is no collector.
    pub fn device_near_gc(&mut self, dev: Dev) {
        assert!(self.collectors.contains(dev), "{dev} does not collect");
        self.note(|| format!("{dev} has to collect soon"));
        self.engine.device_near_gc(self.now, dev);
        self.take_issues();
    }

    /// Writes down what happens from now on, where it is found even after a panic.
    pub fn keep_log(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// Takes a request. `data` is what a write writes.
    ///
    /// # Panics
    /// If a write's data is not as long as the request says.
    pub fn submit(&mut self, request: HostRequest, data: &[u8]) -> Result<(), RangeError> {
        self.engine.shape().check(request.offset, request.len)?;
        match request.op {
            HostOp::Write => {
                assert_eq!(data.len() as u64, request.len, "a write brings its data");
                self.bytes.host(request.tag, data);
            }
            HostOp::Read => self.bytes.host_room(request.tag, request.len as usize),
            HostOp::WriteZeroes | HostOp::Discard | HostOp::Flush => {}
        }
        self.note(|| format!("submit {request:?}"));
        self.ahead.submit(request);
        self.engine.submit(self.now, request)?;
        self.take_issues();
        Ok(())
    }

    /// Gives an order.
    pub fn control(&mut self, control: Control) {
        self.note(|| format!("{control:?}"));
        self.engine.control(self.now, control);
        self.take_issues();
    }

    /// The next thing that became of a request. A request's bytes are there until the call after
    /// the one that says `Released`.
    pub fn next_notice(&mut self) -> Option<HostNotice> {
        if let Some(tag) = self.released.take() {
            self.bytes.release(tag);
        }
        let notice = self.say()?;
        if let HostNotice::Released { tag } = notice {
            self.released = Some(tag);
        } else {
            self.note(|| format!("{notice:?}"));
        }
        Some(notice)
    }

    /// The bytes of a request: of a read that was answered, what it read.
    pub fn request_bytes(&self, tag: u64) -> &[u8] {
        self.bytes.host_bytes(tag)
    }

    /// How many steps [`run`](Self::run) can choose from.
    pub fn runnable(&self) -> usize {
        self.in_flight.len() + usize::from(!self.nv_queue.is_empty()) + usize::from(self.ahead.is_waited_for())
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.runnable() == 0 && self.engine.is_idle() && !self.ahead.is_open()
    }

    /// Steps of a kind that an operation has in flight.
    pub fn in_flight(&self, op: OpId, kind: StepKind) -> usize {
        let held = self.ahead.held.iter().map(|(_, entry)| entry);
        let all = self.in_flight.iter().chain(&self.nv_queue).chain(held);
        all.filter(|entry| entry.issue.op == op && entry.step.kind() == kind).count()
    }

    /// Lets one step end; if none is in flight, the next timer go off; none if there is neither and
    /// nothing is under way.
    pub fn run<R: RowCheck<C>>(&mut self, pick: Pick, check: &R) -> Result<Option<Ran>, Violation> {
        if self.runnable() == 0 {
            // A controller that is not told cannot wait for anything else.
            self.announce_all();
        }
        if self.runnable() == 0 && self.ahead.is_open() || self.ahead.is_waited_for() && self.is_sync(pick) {
            // Nobody waits for it, or it is chosen.
            self.now += Nanos(1_000);
            self.sync();
            return Ok(None);
        }
        if self.runnable() == 0 {
            let Some(at) = self.engine.next_timer() else {
                return if self.engine.is_idle() {
                    Ok(None)
                } else {
                    Err(Violation::Deadlock(format!("{:?}", self.engine.out())))
                };
            };
            self.now = self.now.max(at);
            self.note(|| "timer".to_owned());
            self.engine.timers(self.now);
            self.take_issues();
            return Ok(None);
        }
        let entry = self.choose(pick);
        let ran = self.end(entry, check)?;
        if let StepOutcome::Failed(dev) = ran.outcome
            && self.unannounced.contains(dev)
        {
            self.announce(dev);
        }
        if self.engine.next_timer().is_some_and(|at| at <= self.now) {
            self.engine.timers(self.now);
            self.take_issues();
        }
        Ok(Some(ran))
    }

    /// Whether the sync of the NVRAM is chosen, for which somebody waits. It takes no time.
    fn is_sync(&self, pick: Pick) -> bool {
        match pick {
            Pick::At(at) => at + 1 == self.runnable(),
            Pick::Oldest | Pick::Earliest => true,
        }
    }

    fn choose(&mut self, pick: Pick) -> InFlight {
        let front = self.nv_queue.front();
        let at = match pick {
            Pick::At(at) => at,
            Pick::Oldest => match (self.in_flight.first(), front) {
                (Some(first), Some(front)) if front.number < first.number => self.in_flight.len(),
                _ => 0,
            },
            Pick::Earliest => {
                let all = self.in_flight.iter().chain(front).enumerate();
                all.min_by_key(|(_, entry)| (entry.due, entry.number)).map_or(0, |found| found.0)
            }
        };
        let entry = if at < self.in_flight.len() {
            self.in_flight.remove(at)
        } else {
            self.nv_queue.pop_front().expect("the place is below the number of steps in flight")
        };
        self.now = if pick == Pick::Earliest { self.now.max(entry.due) } else { self.now + Nanos(1_000) };
        entry
    }

    /// Carries a step out and tells the controller.
    fn end<R: RowCheck<C>>(&mut self, mut entry: InFlight, check: &R) -> Result<Ran, Violation> {
        let op = entry.issue.op;
        self.steps += 1;
        let told = entry.early.is_some();
        let outcome = match entry.step.dev() {
            Some(dev) if entry.lost || !self.devices[dev.index()].answers() => StepOutcome::Failed(dev),
            _ => self.carry_out(&mut entry, check)?,
        };
        self.note(|| {
            let more = match outcome {
                StepOutcome::Ok => String::new(),
                StepOutcome::Length(bytes) => format!(": {bytes} B"),
                StepOutcome::Undecodable => ": undecodable".to_owned(),
                StepOutcome::Failed(_) => ": failed".to_owned(),
            };
            format!("{op:?}.{} {:?}{more}{}", entry.issue.step, entry.step, if told { " (late)" } else { "" })
        });
        if let Some(ext) = entry.step.changes()
            && outcome == StepOutcome::Ok
            && ext.dev().0 < check.members()
        {
            self.check_rows(check, ext.rows().iter())?;
        }
        if let Some(bytes) = entry.early.take() {
            self.bytes.give_back(bytes);
        } else {
            self.engine.complete(self.now, entry.issue, outcome);
            self.take_issues();
        }
        Ok(Ran { op, step: entry.step, outcome })
    }

    fn carry_out<R: RowCheck<C>>(&mut self, entry: &mut InFlight, check: &R) -> Result<StepOutcome, Violation> {
        let op = entry.issue.op;
        if entry.conduct == Conduct::Omit {
            if let Step::Read { ext, dst } = entry.step {
                // The buffer is there, with whatever it held before.
                let len = usize::from(ext.pages()) * self.engine.shape().page_bytes() as usize;
                self.bytes.target(&self.engine, op, dst, len);
            }
            return Ok(StepOutcome::Ok);
        }
        match entry.step {
            Step::Read { ext, dst } => {
                let bytes = self.devices[ext.dev().index()].read(ext);
                self.bytes.target(&self.engine, op, dst, bytes.len()).copy_from_slice(bytes);
            }
            Step::Write { ext, src, fua } => {
                let len = usize::from(ext.pages()) * self.engine.shape().page_bytes() as usize;
                let bytes = match &entry.early {
                    Some(bytes) => Some(&***bytes),
                    None => self.bytes.source(&self.engine, op, src, len),
                };
                let fua = fua && entry.conduct != Conduct::Volatile;
                self.devices[ext.dev().index()].write(ext, bytes, fua);
            }
            Step::WriteList { ext, fua, .. } | Step::MetaWrite { ext, fua, .. } => {
                let bytes = match &entry.early {
                    Some(early) => Handle::clone(early),
                    None => self.bytes.written(&self.engine, op, &entry.step),
                };
                let fua = fua && entry.conduct != Conduct::Volatile;
                self.devices[ext.dev().index()].write(ext, Some(&bytes), fua);
                self.bytes.give_back(bytes);
            }
            Step::MetaRead { ext } => self.engine.read(entry.issue, self.devices[ext.dev().index()].read(ext)),
            Step::Trim { ext } => self.devices[ext.dev().index()].write(ext, None, false),
            Step::FlushDev { dev } => self.devices[dev.index()].flush(entry.covers),
            Step::Collect { dev, .. } => assert!(self.collectors.contains(dev), "{dev} cannot be asked to collect"),
            Step::NvCommit { .. } | Step::Intent { .. } => {
                if matches!(entry.step, Step::Intent { .. }) {
                    // They take effect in the order of issue, and what an intent says is durable when it is done.
                    self.sync();
                }
                self.commits(entry.issue);
                self.bytes.change_nvram(&self.engine, entry.issue);
                if let Step::Intent { rows, set: false } = entry.step {
                    for &rows in self.engine.rows(op, rows) {
                        self.check_cleared(check, rows)?;
                        self.check_rows(check, rows.iter())?;
                    }
                }
            }
            Step::Join | Step::Ack { .. } => unreachable!("the engine does these itself"),
            _ => {
                let outcome = self.bytes.compute(&self.engine, entry.issue);
                return Ok(outcome.expect("all others compute"));
            }
        }
        Ok(StepOutcome::Ok)
    }

    /// What a step in flight writes to its device; none if that is zeros.
    fn written(&self, entry: &InFlight) -> Option<Cow<'_, [u8]>> {
        let op = entry.issue.op;
        match entry.step {
            Step::Trim { .. } => None,
            Step::Write { ext, src, .. } => {
                let len = usize::from(ext.pages()) * self.engine.shape().page_bytes() as usize;
                self.bytes.source(&self.engine, op, src, len).map(Cow::Borrowed)
            }
            _ => {
                let mut bytes = Buffer::new();
                self.bytes.append(&self.engine, op, &entry.step, &mut bytes);
                Some(Cow::Owned(bytes.to_vec()))
            }
        }
    }

    fn take_issues(&mut self) {
        while let Some(issue) = self.engine.next_issue() {
            let step = *self.engine.step(issue);
            let conduct = self.tamper.as_mut().map_or(Conduct::Honest, |tamper| tamper(issue, &step));
            self.issued += 1;
            let device = step.dev().map(|dev| &self.devices[dev.index()]);
            let mut entry = InFlight {
                issue,
                step,
                number: self.issued,
                due: self.now + self.latency.of(&step),
                covers: device.map_or(0, Device::written),
                lost: device.is_some_and(|device| !device.answers()),
                conduct,
                early: None,
            };
            match step {
                Step::NvCommit { .. } | Step::Intent { .. } => self.nv_queue.push_back(entry),
                _ if !matches!(conduct, Conduct::Early | Conduct::Ahead) && self.ahead.holds(&step) => {
                    self.ahead.hold(entry);
                }
                Step::Write { .. } | Step::WriteList { .. } | Step::MetaWrite { .. }
                    if conduct == Conduct::Early && !entry.lost =>
                {
                    entry.early = Some(self.bytes.written(&self.engine, issue.op, &step));
                    self.in_flight.push(entry);
                    self.engine.complete(self.now, issue, StepOutcome::Ok);
                }
                _ if step.dev().is_none() && self.compute_at_once => {
                    self.steps += 1;
                    self.note(|| format!("{:?}.{} {step:?}", issue.op, issue.step));
                    let outcome =
                        self.bytes.compute(&self.engine, issue).expect("it is no device's and not the NVRAM's");
                    self.engine.complete(self.now, issue, outcome);
                }
                _ => self.in_flight.push(entry),
            }
        }
    }

    /// How far this life has come.
    pub fn status(&self) -> Status {
        self.engine.status()
    }

    /// Virtual time.
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Steps that ended.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// The engine, for its counters and the controller.
    pub const fn engine(&self) -> &Engine<C> {
        &self.engine
    }

    /// The NVRAM.
    pub const fn nvram(&self) -> &Nvram {
        self.bytes.nvram()
    }

    fn note(&self, what: impl FnOnce() -> String) {
        if let Some(log) = &self.log {
            let line = format!("{:>9} {}", self.now.0 / 1_000, what());
            log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }
}

impl<C> fmt::Debug for Memory<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("now", &self.now)
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}
