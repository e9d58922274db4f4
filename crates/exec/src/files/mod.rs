//! Real files, real time: a thread for each device that reads, writes and flushes its file, one
//! more for the NVRAM and the intents, and a main loop, the caller's own thread, that owns the
//! controller and all bytes.
//!
//! * Bytes of a step are copied into a buffer that leaves with the command and comes back with the
//!   result ([`Bytes`]).
//! * A thread has at most [`FilesConfig::depth`] commands at a time, and does them in order;
//!   further steps wait in the main loop, without bytes. Steps on different devices end in any
//!   order.
//! * A device whose file is not there, or that answers with an error, has failed: its steps fail
//!   from then on, and the controller is told. [`Files::errors`] says why; [`Files::replace`] puts
//!   a file in its place.
//! * The NVRAM does not fail as far as controllers know. If its file does, the executor stops:
//!   nothing is acknowledged any more, and every later call is an error.
//! * A sync that failed is believed: what was written before it may be gone, so the device has
//!   failed, even if there was no room, and nothing of it is asked again. Only a write for which
//!   there is no room stops the executor and costs no member.
//! * A device that hangs is replaced without waiting for it; its thread is left to itself.
//! * Everything that touches the operating system goes through [`Os`], in `os.rs`.
//! * A thread that panics is no device that fails: its panic is the caller's, in the call that
//!   notices it.
//! * Dropping the executor is a crash of the process: what threads are at work on is finished, what
//!   they have not begun never happens. A loss of power leaves what the operating system was told
//!   to make durable.
//!
//! A member's file holds its pages from byte 0 on, as md places them, and behind them a label that
//! says whose they are. Its format and those of the other two files are described byte by byte in
//! `label.rs`, `nvram.rs` and `intents.rs`.

mod config;
mod device;
mod error;
mod intents;
mod label;
mod lane;
mod nvram;
mod opening;
mod os;
mod port;
mod real;
mod recording;
mod sectors;
mod store;
mod sync;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use destage_plan::{
    Buf, Control, Controller, Dev, DevSet, DeviceChange, Engine, Ext, HostNotice, HostOp, HostRequest, Issue, Nanos,
    Start, Status, Step, StepOutcome,
};

use crate::Bytes;
use device::{DeviceFile, Failure, Work};
use label::Roster;
use lane::Lane;
use opening::Opened;
use port::Bell;
use store::{Change, Lists, Store};

pub use config::{DeviceConfig, DeviceOptions, Existing, FilesConfig};
pub use error::FilesError;
pub use os::{Identity, Os, OsFile, Presence, SyncPoint};
pub use real::RealOs;
pub use recording::{Chance, Fault, Moment, Recording, Survival};

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's tag.
    pub tag: u64,
    /// Whether it was served; if not, nothing is known of the range's content beyond its being old
    /// or new sector by sector.
    pub ok: bool,
    /// Of a read that was served: what it read. Else empty. It is the buffer that came with the
    /// request, to be used again.
    pub bytes: Vec<u8>,
}

/// A request that is under way.
struct Request {
    tag: u64,
    op: HostOp,
    /// The caller's buffer.
    buffer: Vec<u8>,
}

struct Device {
    lane: Option<Lane<DeviceFile>>,
    /// Steps that the lane has, in order.
    under_way: VecDeque<Issue>,
    /// Steps for which the thread has no room.
    backlog: VecDeque<Issue>,
    failed: bool,
    /// Why it failed: its first error.
    error: Option<FilesError>,
    /// Its file while it is open.
    file: Option<Identity>,
}

/// Serves an array in files.
pub struct Files<C> {
    os: Arc<dyn Os>,
    engine: Engine<C>,
    bytes: Bytes,
    config: FilesConfig,
    devices: Vec<Device>,
    store: Lane<Store>,
    roster: Roster,
    store_backlog: VecDeque<Issue>,
    /// The NVRAM and the intents.
    state: [Identity; 2],
    bell: Arc<Bell>,
    /// By the number that the engine knows them by: the callers' tags may come twice.
    requests: Vec<Option<Request>>,
    free: Vec<u64>,
    unanswered: usize,
    completions: VecDeque<Completion>,
    clean: bool,
    stopped: bool,
    clock: Clock,
    device_results: VecDeque<device::Done>,
    store_results: VecDeque<store::Done>,
    spare_lists: Vec<Lists>,
    /// Held until every thread has ended, hence the last: nobody else may open the array while
    /// something is still written.
    _lock: Arc<dyn OsFile>,
}

/// Time since the beginning of this life.
enum Clock {
    Real(Instant),
    /// Without threads: a microsecond for each command, and the time of the next timer when
    /// nothing is under way.
    Virtual(Nanos),
}

/// How long a thread may take to finish what it is at work on before its own file is put in its
/// place again.
const PATIENCE: Duration = Duration::from_secs(1);

impl<C: Controller> Files<C> {
    /// Makes the files of a new array, of zeros, and serves it. Their folders must exist.
    ///
    /// # Errors
    /// If a file exists and must not be overwritten, is in use, or cannot be made. If none was to
    /// be overwritten, none is left.
    pub fn create(controller: C, config: FilesConfig, existing: Existing) -> Result<Self, FilesError> {
        Self::create_on(Arc::new(RealOs), controller, config, existing)
    }

    /// As [`create`](Self::create), on another operating system.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_on(
        os: Arc<dyn Os>,
        controller: C,
        config: FilesConfig,
        existing: Existing,
    ) -> Result<Self, FilesError> {
        config.check()?;
        let opened = opening::create(&*os, &config, existing)?;
        Self::start(os, controller, config, opened)
    }

    /// Serves an array that was made before, with what its last life left. A device whose file is
    /// not there is told to the controller as missing.
    ///
    /// # Errors
    /// If the NVRAM or the intents are not there, not this array's, or damaged; if a file has
    /// another size, is in use, or cannot be opened though it is there.
    pub fn open(controller: C, config: FilesConfig) -> Result<Self, FilesError> {
        Self::open_on(Arc::new(RealOs), controller, config)
    }

    /// As [`open`](Self::open), on another operating system.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(os: Arc<dyn Os>, controller: C, config: FilesConfig) -> Result<Self, FilesError> {
        config.check()?;
        let opened = opening::open(&*os, &config)?;
        Self::start(os, controller, config, opened)
    }

    fn start(os: Arc<dyn Os>, controller: C, config: FilesConfig, opened: Opened) -> Result<Self, FilesError> {
        let bell = Arc::new(Bell::default());
        let mut devices = Vec::with_capacity(opened.devices.len());
        for (dev, file) in opened.devices.into_iter().enumerate() {
            let path = &config.devices[dev].path;
            let (file, error) = match file {
                Ok(file) => (Some(file), None),
                Err(error) => (None, Some(FilesError::io(path, opening::OPEN)(error))),
            };
            let identity = file.as_ref().map(|file| opening::identity(&**file, path)).transpose()?;
            let lane = file.map(|file| start_device(&*os, &config, dev, file, &bell)).transpose();
            let lane = lane.map_err(FilesError::io(path, "start its thread"))?;
            let (under_way, backlog) = (VecDeque::new(), VecDeque::new());
            devices.push(Device { failed: lane.is_none(), lane, under_way, backlog, error, file: identity });
        }
        let store = if os.is_in_line() {
            Ok(Lane::in_line(config.depth, opened.store))
        } else {
            Lane::start("destage-nvram".to_owned(), config.depth, &bell, opened.store)
        };
        let store = store.map_err(FilesError::io(&config.nvram, "start its thread"))?;
        let missing = devices.iter().zip(0..).filter(|(device, _)| device.failed).map(|(_, dev)| Dev(dev)).collect();
        let shape = config.shape;
        let mut files = Self {
            engine: Engine::new(controller, shape, config.depth),
            bytes: Bytes::new(shape.page_bytes(), shape.sector_bytes(), opened.nvram),
            config,
            devices,
            store,
            roster: opened.roster,
            store_backlog: VecDeque::new(),
            state: opened.state,
            bell,
            requests: Vec::new(),
            free: Vec::new(),
            unanswered: 0,
            completions: VecDeque::new(),
            clean: false,
            stopped: false,
            clock: if os.is_in_line() { Clock::Virtual(Nanos::ZERO) } else { Clock::Real(Instant::now()) },
            os,
            device_results: VecDeque::new(),
            store_results: VecDeque::new(),
            spare_lists: Vec::new(),
            _lock: opened.lock,
        };
        let nv: Vec<_> = files.bytes.nvram().slots().collect();
        let intents = files.bytes.nvram().intents.ranges();
        files.engine.start(files.now(), Start { nv: &nv, intents: &intents, missing });
        // A start that is refused changes nothing: what is missing may be brought back.
        if !missing.is_empty() && !matches!(files.engine.status(), Status::Refused(_)) {
            files.distrust(missing)?;
        }
        files.go_on()?;
        Ok(files)
    }

    /// Takes a request; it waits if the array is still being recovered. `data` is what a write
    /// writes; of a read its content does not matter, and what was read comes back in it. Requests
    /// may have the same tag.
    ///
    /// # Errors
    /// If the request cannot be served, in which case nothing happens, or the executor has stopped.
    pub fn submit(&mut self, request: HostRequest, data: Vec<u8>) -> Result<(), FilesError> {
        self.check()?;
        if request.op != HostOp::Flush {
            self.engine.shape().check(request.offset, request.len)?;
        }
        if request.op == HostOp::Write && data.len() as u64 != request.len {
            return Err(FilesError::Data { expected: request.len, found: data.len() as u64 });
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len() as u64 - 1
        });
        match request.op {
            HostOp::Write => self.bytes.host(id, &data),
            HostOp::Read => self.bytes.host_room(id, request.len as usize),
            HostOp::WriteZeroes | HostOp::Discard | HostOp::Flush => {}
        }
        self.requests[id as usize] = Some(Request { tag: request.tag, op: request.op, buffer: data });
        self.unanswered += 1;
        let now = self.now();
        self.engine.submit(now, HostRequest { tag: id, ..request })?;
        self.go_on()
    }

    /// The next request that was answered, if there is one. Does not wait; without threads,
    /// some commands of one lane are carried out first, or else the next timer goes off.
    ///
    /// # Errors
    /// If the executor has stopped, or does now.
    pub fn poll(&mut self) -> Result<Option<Completion>, FilesError> {
        self.turn();
        self.advance()?;
        Ok(self.completions.pop_front())
    }

    /// The next request that was answered and not fetched; nothing else happens.
    pub fn next_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// The next request that was answered; waits for one. None if there are no requests.
    ///
    /// # Errors
    /// If the executor has stopped, or does now; if the controller refuses to start.
    pub fn wait(&mut self) -> Result<Option<Completion>, FilesError> {
        loop {
            if let Some(completion) = self.poll()? {
                return Ok(Some(completion));
            }
            if self.unanswered == 0 {
                return Ok(None);
            }
            self.rest()?;
        }
    }

    /// Waits until the array is recovered and requests are served.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_ready(&mut self) -> Result<(), FilesError> {
        self.advance()?;
        while self.engine.status() != Status::Ready {
            self.rest()?;
            self.advance()?;
        }
        Ok(())
    }

    /// Waits until nothing is under way: no request, and nothing that the controller does on its
    /// own, such as filling a member. Timers are not waited for.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn settle(&mut self) -> Result<(), FilesError> {
        self.advance()?;
        while !self.is_idle() {
            self.rest()?;
            self.advance()?;
        }
        Ok(())
    }

    /// Answers all requests, lets the controller leave nothing to be recovered, and ends. The
    /// requests that were answered and not fetched are handed out.
    ///
    /// # Errors
    /// As [`wait`](Self::wait); the next start is an unclean one then.
    pub fn stop_clean(mut self) -> Result<Vec<Completion>, FilesError> {
        self.wait_ready()?;
        while self.unanswered > 0 {
            self.rest()?;
            self.advance()?;
        }
        let now = self.now();
        self.engine.control(now, Control::Clean);
        self.go_on()?;
        while !self.clean {
            self.rest()?;
            self.advance()?;
        }
        Ok(std::mem::take(&mut self.completions).into())
    }

    /// Puts a file in the place of a device, which counts as failed from now on if it did not
    /// before: one that is there, of the right size and with whatever content, or else a new one.
    /// The next [`open`](Self::open) must be given the path.
    ///
    /// What the device's thread is at work on is not waited for, since it may never end: the thread
    /// is left to itself, and its file stays locked until then. Only the device's own file, put in
    /// its place again, must not be written by that thread any more.
    ///
    /// # Errors
    /// If the file cannot be opened or made, or is another of the array's; the device stays as it
    /// is then. If it is the device's own, and a thread is still at work on it after a second; the
    /// device has failed then. If the executor has stopped, or does now.
    pub fn replace(&mut self, dev: Dev, path: &Path) -> Result<(), FilesError> {
        self.advance()?;
        let Some(device) = self.devices.get(dev.index()) else { return Err(FilesError::NoDevice(dev)) };
        let known = device.file;
        let file = opening::open_replacement(&*self.os, &self.config, dev.index(), path)?;
        let identity = Some(opening::identity(&*file, path)?);
        if identity != known {
            self.check_unused(identity, path)?;
        }
        self.fail(dev)?;
        self.go_on()?;
        self.finish_device(dev)?;
        self.go_on()?;
        if identity == known {
            self.await_device(dev, path)?;
        }
        self.leave_device(dev)?;
        // The file may be the same one, which was locked until now.
        opening::lock(&*file, path)?;
        opening::label_replacement(&*self.os, &*file, &self.config, &self.roster, dev.index(), path)?;
        self.distrust(DevSet::one(dev))?;
        self.config.devices[dev.index()].options = DeviceOptions::default();
        let lane = start_device(&*self.os, &self.config, dev.index(), file, &self.bell);
        let lane = lane.map_err(FilesError::io(path, "start its thread"))?;
        let device = &mut self.devices[dev.index()];
        (device.lane, device.failed, device.error, device.file) = (Some(lane), false, None, identity);
        path.clone_into(&mut self.config.devices[dev.index()].path);
        let now = self.now();
        self.engine.device(now, dev, DeviceChange::Replaced);
        self.go_on()
    }

    /// Waits, but not for ever, until nothing more is written to a device that has failed.
    fn await_device(&mut self, dev: Dev, path: &Path) -> Result<(), FilesError> {
        let begin = Instant::now();
        while self.devices[dev.index()].lane.as_ref().is_some_and(Lane::is_busy) {
            let left = PATIENCE.saturating_sub(begin.elapsed());
            if left.is_zero() || self.os.is_in_line() {
                return Err(FilesError::AtWork(path.to_owned()));
            }
            self.bell.wait(Some(left));
            // Other lanes' results are taken in as well: theirs was perhaps the ring.
            self.advance()?;
        }
        Ok(())
    }

    /// What a failed device is still at work on has failed, whatever becomes of it.
    fn leave_device(&mut self, dev: Dev) -> Result<(), FilesError> {
        let device = &mut self.devices[dev.index()];
        device.file = None;
        match device.lane.take() {
            Some(lane) if lane.is_busy() => lane.leave(),
            // Its thread has nothing to do and ends at once.
            lane => drop(lane),
        }
        for issue in std::mem::take(&mut device.under_way) {
            self.complete(issue, StepOutcome::Failed(dev));
        }
        self.go_on()
    }

    fn check_unused(&self, identity: Option<Identity>, path: &Path) -> Result<(), FilesError> {
        let devices = self.devices.iter().zip(&self.config.devices).map(|(device, config)| (device.file, &config.path));
        let [nvram, intents] = self.state;
        let other_files = [(Some(nvram), &self.config.nvram), (Some(intents), &self.config.intents)];
        match devices.chain(other_files).find(|used| used.0 == identity) {
            Some((_, other)) => Err(FilesError::Same(other.clone(), path.to_owned())),
            None => Ok(()),
        }
    }

    /// Whether a device answers.
    pub fn answers(&self, dev: Dev) -> bool {
        self.devices.get(dev.index()).is_some_and(|device| !device.failed)
    }

    /// Why devices do not answer: the first error of each, since it was opened or replaced.
    pub fn errors(&self) -> impl Iterator<Item = (Dev, &FilesError)> {
        let devices = self.devices.iter().zip(0..);
        devices.filter_map(|(device, dev)| device.error.as_ref().map(|error| (Dev(dev), error)))
    }

    /// How far this life has come.
    pub fn status(&self) -> Status {
        self.engine.status()
    }

    /// Requests that were not answered.
    pub const fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// The engine, for its counters and the controller.
    pub const fn engine(&self) -> &Engine<C> {
        &self.engine
    }

    /// The files as they are now: replacements are among them.
    pub const fn config(&self) -> &FilesConfig {
        &self.config
    }

    /// Whether nothing is under way: no request, and nothing that the controller does on its own.
    pub fn is_idle(&self) -> bool {
        !self.is_busy() && self.engine.is_idle()
    }

    /// Time since the beginning of this life.
    fn now(&self) -> Nanos {
        match self.clock {
            Clock::Real(begin) => Nanos(begin.elapsed().as_nanos() as u64),
            Clock::Virtual(now) => now,
        }
    }

    const fn check(&self) -> Result<(), FilesError> {
        if self.stopped { Err(FilesError::Stopped) } else { Ok(()) }
    }

    /// Ends this life with an error.
    fn stop(&mut self, error: FilesError) -> FilesError {
        self.stopped = true;
        self.close();
        error
    }

    fn is_busy(&self) -> bool {
        self.store.is_busy() || self.devices.iter().any(|device| device.lane.as_ref().is_some_and(Lane::is_busy))
    }

    /// Without threads: carries out some commands of a lane that chance chooses; if there is none,
    /// it becomes the time of the next timer. Whether something happened.
    fn turn(&mut self) -> bool {
        let Clock::Virtual(now) = &mut self.clock else { return false };
        let ready = |lane: &Option<Lane<_>>| lane.as_ref().is_some_and(|lane| lane.ready() > 0);
        let devices = self.devices.iter().filter(|device| ready(&device.lane)).count();
        let store = self.store.ready();
        if devices == 0 && store == 0 {
            let next = self.engine.next_timer();
            *now = next.map_or(*now, |next| next.max(*now));
            return next.is_some();
        }
        *now += Nanos(1_000);
        let chosen = self.os.choose(devices + usize::from(store > 0));
        match self.devices.iter_mut().filter(|device| ready(&device.lane)).nth(chosen) {
            // Threads, too, are ahead of the main loop by more than one command.
            Some(Device { lane: Some(lane), .. }) => lane.turn(1 + self.os.choose(lane.ready())),
            _ => self.store.turn(1 + self.os.choose(store)),
        }
        true
    }

    /// Waits until a thread has something to say or a timer is due.
    fn rest(&mut self) -> Result<(), FilesError> {
        if let Status::Refused(why) = self.engine.status() {
            return Err(self.stop(FilesError::Refused(Box::new(why))));
        }
        if self.turn() {
            return Ok(());
        }
        let limit = self.engine.next_timer().map(|at| Duration::from_nanos(at.since(self.now()).0));
        if limit.is_none() && (!self.is_busy() || self.os.is_in_line()) {
            let what = format!("{:?}", self.engine.out());
            return Err(self.stop(FilesError::Stalled(what)));
        }
        self.bell.wait(limit);
        Ok(())
    }

    /// Takes in what threads have done and lets timers go off; does not wait.
    fn advance(&mut self) -> Result<(), FilesError> {
        self.check()?;
        self.store.results(&mut self.store_results);
        while let Some((command, done)) = self.store_results.pop_front() {
            if let Err(source) = done {
                let path = if matches!(command.change, Change::Intent { .. }) {
                    &self.config.intents
                } else {
                    &self.config.nvram
                };
                let error = FilesError::Io { path: path.clone(), what: "carry out a step of the NVRAM", source };
                return Err(self.stop(error));
            }
            self.bytes.change_nvram(&self.engine, command.issue);
            self.bytes.give_back(command.bytes);
            self.spare_lists.push(command.lists);
            self.complete(command.issue, StepOutcome::Ok);
            self.go_on()?;
        }
        while self.store.has_room() {
            let Some(issue) = self.store_backlog.pop_front() else { break };
            self.send_store(issue);
        }
        for dev in (0..self.devices.len()).map(|dev| Dev(dev as u8)) {
            self.finish_device(dev)?;
            self.go_on()?;
        }
        if self.engine.next_timer().is_some_and(|at| at <= self.now()) {
            let now = self.now();
            self.engine.timers(now);
            self.go_on()?;
        }
        Ok(())
    }

    /// Takes in what a device's thread has done, and gives it more.
    fn finish_device(&mut self, dev: Dev) -> Result<(), FilesError> {
        let Some(lane) = &mut self.devices[dev.index()].lane else { return Ok(()) };
        let mut results = std::mem::take(&mut self.device_results);
        lane.results(&mut results);
        for (device::Command { issue, work, bytes }, done) in results.drain(..) {
            self.devices[dev.index()].under_way.pop_front();
            let failed = match done {
                Ok(()) => self.devices[dev.index()].failed,
                Err(Failure { source, no_room }) => {
                    let path = self.config.devices[dev.index()].path.clone();
                    // A full file system is not a broken member: with room again nothing is lost.
                    if no_room && !self.devices[dev.index()].failed {
                        return Err(self.stop(FilesError::Io { path, what: "find room for a step", source }));
                    }
                    let error = FilesError::Io { path, what: work.what(), source };
                    self.devices[dev.index()].error.get_or_insert(error);
                    true
                }
            };
            if failed {
                self.complete(issue, StepOutcome::Failed(dev));
                self.fail(dev)?;
            } else {
                match *self.engine.step(issue) {
                    Step::Read { dst, .. } => {
                        self.bytes.target(&self.engine, issue.op, dst, bytes.len()).copy_from_slice(&bytes);
                    }
                    Step::MetaRead { .. } => self.engine.read(issue, &bytes),
                    _ => {}
                }
                self.complete(issue, StepOutcome::Ok);
            }
            self.bytes.give_back(bytes);
        }
        self.device_results = results;
        let device = &mut self.devices[dev.index()];
        if device.failed && device.lane.as_ref().is_some_and(|lane| !lane.is_busy()) {
            (device.lane, device.file) = (None, None);
        }
        while self.devices[dev.index()].lane.as_ref().is_some_and(Lane::has_room) {
            let Some(issue) = self.devices[dev.index()].backlog.pop_front() else { break };
            self.send_device(dev, issue);
        }
        Ok(())
    }

    /// A device answers no more: what it was to do has failed, and the controller is told.
    fn fail(&mut self, dev: Dev) -> Result<(), FilesError> {
        let device = &mut self.devices[dev.index()];
        if std::mem::replace(&mut device.failed, true) {
            return Ok(());
        }
        let backlog = std::mem::take(&mut device.backlog);
        let unbegun = device.lane.as_mut().map(Lane::close).unwrap_or_default();
        device.under_way.truncate(device.under_way.len() - unbegun.len());
        for device::Command { issue, bytes, .. } in unbegun {
            self.bytes.give_back(bytes);
            self.complete(issue, StepOutcome::Failed(dev));
        }
        for issue in backlog {
            self.complete(issue, StepOutcome::Failed(dev));
        }
        let now = self.now();
        self.engine.device(now, dev, DeviceChange::Failed);
        self.distrust(DevSet::one(dev))
    }

    /// The files that these devices had are theirs no more, whether they answer again or not.
    fn distrust(&mut self, devs: DevSet) -> Result<(), FilesError> {
        devs.iter().for_each(|dev| self.roster.leave(dev.index()));
        let synced = self.roster.sync();
        synced.map_err(|source| {
            let path = self.config.intents.clone();
            self.stop(FilesError::Io { path, what: "note which files are the devices'", source })
        })
    }

    fn complete(&mut self, issue: Issue, outcome: StepOutcome) {
        let now = self.now();
        self.engine.complete(now, issue, outcome);
    }

    /// Begins the steps that may begin, and takes in what became of requests.
    fn go_on(&mut self) -> Result<(), FilesError> {
        while let Some(issue) = self.engine.next_issue() {
            self.begin(issue)?;
        }
        while let Some(notice) = self.engine.next_notice() {
            match notice {
                HostNotice::Acked { tag, ok } => self.answer(tag, ok),
                HostNotice::Released { tag } => {
                    self.bytes.release(tag);
                    self.free.push(tag);
                }
                HostNotice::Clean => self.clean = true,
            }
        }
        Ok(())
    }

    fn begin(&mut self, issue: Issue) -> Result<(), FilesError> {
        match *self.engine.step(issue) {
            Step::Read { ext, .. }
            | Step::Write { ext, .. }
            | Step::WriteList { ext, .. }
            | Step::MetaWrite { ext, .. }
            | Step::MetaRead { ext }
            | Step::Trim { ext } => {
                let end = ext.first() + u64::from(ext.pages());
                let pages = self.config.devices.get(ext.dev().index()).map_or(u64::MAX, |device| device.pages);
                self.within("the page", end - 1, "pages of the device", pages)?;
                self.begin_device(ext.dev(), issue)?;
            }
            Step::FlushDev { dev } => self.begin_device(dev, issue)?,
            Step::NvCommit { .. } | Step::Intent { .. } => {
                self.check_nvram(issue)?;
                // Not ahead of what waits: they take effect in the order of issue.
                if self.store_backlog.is_empty() && self.store.has_room() {
                    self.send_store(issue);
                } else {
                    self.store_backlog.push_back(issue);
                }
            }
            Step::Join | Step::Ack { .. } => unreachable!("the engine does these itself"),
            _ => {
                let outcome = self.bytes.compute(&self.engine, issue).expect("all others compute");
                self.complete(issue, outcome);
            }
        }
        Ok(())
    }

    fn begin_device(&mut self, dev: Dev, issue: Issue) -> Result<(), FilesError> {
        let Some(device) = self.devices.get_mut(dev.index()) else { return Err(self.stop(FilesError::NoDevice(dev))) };
        if device.failed {
            self.complete(issue, StepOutcome::Failed(dev));
        } else if device.lane.as_ref().is_some_and(Lane::has_room) {
            self.send_device(dev, issue);
        } else {
            device.backlog.push_back(issue);
        }
        Ok(())
    }

    fn send_device(&mut self, dev: Dev, issue: Issue) {
        let page = self.engine.shape().page_bytes();
        let place = |ext: Ext| (ext.first() * page, u64::from(ext.pages()) * page);
        let mut bytes = self.bytes.lend();
        let step = *self.engine.step(issue);
        let work = match step {
            Step::Read { ext, .. } | Step::MetaRead { ext } => {
                let (offset, len) = place(ext);
                bytes.resize(len as usize, 0);
                Work::Read { offset }
            }
            Step::Write { ext, .. } | Step::WriteList { ext, .. } | Step::MetaWrite { ext, .. } => {
                self.bytes.written(&self.engine, issue.op, &step, &mut bytes);
                Work::Write { offset: place(ext).0, fua: step.is_fua() }
            }
            Step::Trim { ext } => {
                let (offset, len) = place(ext);
                Work::Trim { offset, len }
            }
            Step::FlushDev { .. } => Work::Flush,
            ref other => unreachable!("{other:?} is no step of a device"),
        };
        self.devices[dev.index()].under_way.push_back(issue);
        let lane = self.devices[dev.index()].lane.as_mut().expect("a device that answers has a lane");
        lane.send(device::Command { issue, work, bytes });
    }

    /// Whether the NVRAM and the intents have room for what the controller wants.
    fn check_nvram(&mut self, issue: Issue) -> Result<(), FilesError> {
        let slots = u64::from(self.config.nv_slots);
        match *self.engine.step(issue) {
            Step::NvCommit { puts, .. } => {
                let puts = self.engine.puts(issue.op, puts);
                let last = puts.iter().map(|put| u64::from(put.slot.index) + 1).max().unwrap_or(0);
                let longest = puts.iter().map(|put| u64::from(put.len)).max().unwrap_or(0);
                let page = self.engine.shape().page_bytes();
                self.within("the slot", last.saturating_sub(1), "nv-slots", slots.max(u64::from(last == 0)))?;
                self.within("the byte of a slot", longest.saturating_sub(1), "page-bytes", page)
            }
            Step::Intent { rows, .. } => {
                let last = self.engine.rows(issue.op, rows).iter().map(|rows| rows.end().0).max().unwrap_or(0);
                self.within("the row", last.saturating_sub(1), "rows", self.config.rows.max(u64::from(last == 0)))
            }
            _ => Ok(()),
        }
    }

    fn within(&mut self, what: &'static str, found: u64, key: &'static str, limit: u64) -> Result<(), FilesError> {
        if found < limit { Ok(()) } else { Err(self.stop(FilesError::Beyond { what, found, key, limit })) }
    }

    fn send_store(&mut self, issue: Issue) {
        let mut bytes = self.bytes.lend();
        let mut lists = self.spare_lists.pop().unwrap_or_default();
        lists.rows.clear();
        lists.puts.clear();
        lists.frees.clear();
        let change = match *self.engine.step(issue) {
            Step::NvCommit { puts, frees } => {
                let puts = self.engine.puts(issue.op, puts);
                for put in puts.iter().filter(|put| put.len > 0) {
                    let end = bytes.len() + put.len as usize;
                    if let Some(source) = self.bytes.source(&self.engine, issue.op, put.src, put.len as usize) {
                        bytes.extend_from_slice(source);
                    }
                    bytes.resize(end, 0);
                }
                lists.puts.extend_from_slice(puts);
                lists.frees.extend(self.engine.bufs(issue.op, frees).iter().map(|buf| match buf {
                    Buf::Nv(slot) => *slot,
                    other => panic!("{other:?} is no slot of the NVRAM"),
                }));
                Change::Commit
            }
            Step::Intent { rows, set } => {
                lists.rows.extend_from_slice(self.engine.rows(issue.op, rows));
                Change::Intent { set }
            }
            ref other => unreachable!("{other:?} is no step of the NVRAM"),
        };
        self.store.send(store::Command { issue, change, bytes, lists });
    }

    fn answer(&mut self, id: u64, ok: bool) {
        let request = self.requests[id as usize].take().expect("a request is answered once");
        let mut bytes = request.buffer;
        bytes.clear();
        if ok && request.op == HostOp::Read {
            bytes.extend_from_slice(self.bytes.host_bytes(id));
        }
        self.unanswered -= 1;
        self.completions.push_back(Completion { tag: request.tag, ok, bytes });
    }
}

impl<C> Files<C> {
    /// Lets all threads end with what they are at work on.
    fn close(&mut self) {
        self.store.close();
        self.devices.iter_mut().filter_map(|device| device.lane.as_mut()).for_each(|lane| drop(lane.close()));
    }
}

impl<C> Drop for Files<C> {
    fn drop(&mut self) {
        // All at once; each is waited for when its lane is dropped.
        self.close();
    }
}

impl<C> fmt::Debug for Files<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files")
            .field("unanswered", &self.unanswered)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}

fn start_device(
    os: &dyn Os,
    config: &FilesConfig,
    dev: usize,
    file: Arc<dyn OsFile>,
    bell: &Arc<Bell>,
) -> io::Result<Lane<DeviceFile>> {
    let worker = DeviceFile::new(file, config.devices[dev].options);
    if os.is_in_line() {
        return Ok(Lane::in_line(config.depth, worker));
    }
    Lane::start(format!("destage-dev{dev}"), config.depth, bell, worker)
}
