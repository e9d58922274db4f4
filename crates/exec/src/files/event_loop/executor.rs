//! The executor: what a caller asks of it, and all that it keeps.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use destage_plan::{Control, Controller, Dev, DevSet, Engine, HostOp, HostRequest, Issue, Nanos, Start, Status};

use super::serving::Traffic;
use crate::files::bitmap::Marks;
use crate::files::config::{Accepted, Existing, FilesConfig, Io};
use crate::files::error::FilesError;
use crate::files::io::backend::Backend;
use crate::files::io::command;
use crate::files::io::device::Serves;
use crate::files::io::file::{Identity, OsFile};
use crate::files::io::metadata::{OPEN, identity};
use crate::files::io::os::Os;
use crate::files::io::patience::patiently;
use crate::files::io::port::Bell;
use crate::files::io::real::RealOs;
use crate::files::io::ring::Ended;
use crate::files::io::threads::device::DeviceFile;
use crate::files::io::threads::pool::Lane;
use crate::files::io::uring::device::Pilot;
use crate::files::io::uring::shared::Wheel;
use crate::files::layout::roster::Roster;
use crate::files::nvram::group_commit::Ahead;
use crate::files::nvram::region::Region;
use crate::files::nvram::store::{self, Accounts, Lists, Store};
use crate::files::open::opened::{Opened, Resynchronised};
use crate::files::open::overwrite;
use crate::files::open::{assemble, create, recover, replacement};
use crate::{Buffer, Bytes};

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's tag.
    pub tag: u64,
    /// Whether it was served; if not, nothing is known of the range's content beyond its being old
    /// or new sector by sector.
    pub ok: bool,
    /// Of a read that was served: what it read. Else empty: the buffer that came with the request,
    /// to be used again, unless it is in use for something else that the request led to.
    pub bytes: Buffer,
}

/// A request that is under way.
pub(super) struct Request {
    pub(super) tag: u64,
    pub(super) op: HostOp,
    pub(super) fua: bool,
}

pub(super) struct Device {
    pub(super) lane: Option<Serves>,
    /// Steps that the lane has, and a write of marks; the oldest are mostly first.
    pub(super) under_way: VecDeque<Option<Issue>>,
    /// Steps for which the thread has no room.
    pub(super) backlog: VecDeque<Issue>,
    /// Steps that wait until so many commits of the NVRAM are durable.
    pub(super) held: VecDeque<(u64, Issue)>,
    pub(super) failed: bool,
    /// Why it failed: its first error.
    pub(super) error: Option<FilesError>,
    /// Its file while it is open.
    pub(super) file: Option<Identity>,
    /// If it was to be read and written directly: how memory must be aligned for that, or why it is not.
    pub(super) direct: Option<io::Result<u64>>,
    pub(super) traffic: Traffic,
}

impl Device {
    /// Whether nothing of it has to be taken in, and nothing waits for room there.
    pub(super) fn is_quiet(&self) -> bool {
        !self.failed && self.backlog.is_empty() && self.lane.as_ref().is_none_or(Serves::is_silent)
    }

    /// The lane has done this step, or never will.
    pub(super) fn forget(&mut self, issue: Option<Issue>) {
        let at = self.under_way.iter().position(|other| *other == issue);
        self.under_way.swap_remove_front(at.expect("the lane has it"));
    }
}

/// Serves an array in files.
pub struct Files<C> {
    pub(super) os: Arc<dyn Os>,
    pub(super) engine: Engine<C>,
    pub(super) bytes: Bytes,
    pub(super) config: FilesConfig,
    pub(super) devices: Vec<Device>,
    pub(super) store: Lane<Store>,
    /// What the store has written.
    pub(super) accounts: Accounts,
    pub(super) roster: Roster,
    /// The file that it is in: that of the intents.
    pub(super) roster_file: Arc<dyn OsFile>,
    /// Devices in whose place a file stands that the roster does not name so far.
    pub(super) standing_in: DevSet,
    /// Steps for which the store has no room, or of which members are to know first.
    pub(super) store_backlog: VecDeque<Issue>,
    pub(super) ahead: Ahead,
    pub(super) marks: Marks,
    pub(super) resynchronised: Option<Resynchronised>,
    /// The ring, if one serves devices.
    pub(super) wheel: Option<Wheel>,
    /// Why none does, if nobody asked for threads.
    pub(super) no_ring: Option<io::Error>,
    /// The NVRAM and the intents.
    pub(super) state: [Identity; 2],
    /// The NVRAM if it lies on a device.
    pub(super) home: Option<Arc<Region>>,
    pub(super) bell: Arc<Bell>,
    /// By the number that the engine knows them by: the callers' tags may come twice.
    pub(super) requests: Vec<Option<Request>>,
    pub(super) free: Vec<u64>,
    /// Requests that were acknowledged, and whether they were served, while notices are read.
    pub(super) answered: Vec<(u64, bool)>,
    pub(super) unanswered: usize,
    /// Answers that wait for commits to be durable: for how many.
    pub(super) blocked: VecDeque<(u64, Completion)>,
    pub(super) completions: VecDeque<Completion>,
    pub(super) clean: bool,
    /// Orders to [drain](Self::drain) that are not done.
    pub(super) draining: bool,
    pub(super) stopped: bool,
    pub(super) clock: Clock,
    pub(super) device_results: VecDeque<command::Done>,
    pub(super) ended: VecDeque<Ended>,
    pub(super) store_results: VecDeque<store::Done>,
    pub(super) spare_lists: Vec<Lists>,
    /// Held until every thread has ended, hence the last: nobody else may open the array while
    /// something is still written.
    pub(super) lock: Arc<dyn OsFile>,
}

/// Time since the beginning of this life.
pub(super) enum Clock {
    Real(Instant),
    /// Without threads: a microsecond for each command, and the time of the next timer when
    /// nothing is under way.
    Virtual(Nanos),
}

impl<C: Controller> Files<C> {
    /// Makes the files of a new array, of zeros unless they keep what they hold, and serves it. Their folders must exist.
    ///
    /// # Errors
    /// If a file exists and must not be overwritten, is in use, or cannot be made; if one that keeps what it holds is not
    /// there, or has no room for a label behind it. If none was to be overwritten, none is left that was made.
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
        let asked = config.clone();
        let create = move |os: &dyn Os| create::create(os, &asked, existing);
        let opened = patiently(&os, config.nvram_path(), config.patience, create)?;
        Self::start(os, controller, config, opened)
    }

    /// What [`create`](Self::create) is to be told of what exists for a new array to take the place of an old one, whose files are
    /// removed before that. Nothing is changed.
    ///
    /// # Errors
    /// If there can be no such new array; if a file that the old array names is another's by its number, in use, or cannot be read; if the new one has a file or
    /// block device that holds something and is no part of the old one.
    pub fn check_given_up(old: &FilesConfig, new: &FilesConfig) -> Result<Existing, FilesError> {
        new.check()?;
        overwrite::check(&RealOs, old, new)
    }

    /// Serves an array that was made before, with what its last life left. A device whose file is
    /// not there is told to the controller as missing.
    ///
    /// # Errors
    /// If the NVRAM or the intents are not there, not this array's, or damaged, or the device on which the NVRAM lies is not; if a file has
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
        let asked = config.clone();
        let open = move |os: &dyn Os| assemble::open(os, &asked);
        let opened = patiently(&os, config.nvram_path(), config.patience, open)?;
        Self::start(os, controller, config, opened)
    }

    /// Serves an array whose NVRAM or intents are lost: they are made anew, and the rows that the members have marked are
    /// made consistent. What else is lost with them has to be [accepted](Accepted). What a cache's device holds is none of
    /// the array's any more. One on which the NVRAM lies is made anew, be it another one that is empty or not there. If nothing is lost this is [`open`](Self::open).
    ///
    /// # Errors
    /// As [`open`](Self::open); if something is lost that was not accepted, or no member has marks.
    pub fn resynchronise(controller: C, config: FilesConfig, accepted: Accepted) -> Result<Self, FilesError> {
        Self::resynchronise_on(Arc::new(RealOs), controller, config, accepted)
    }

    /// As [`resynchronise`](Self::resynchronise), on another operating system.
    ///
    /// # Errors
    /// As [`resynchronise`](Self::resynchronise).
    pub fn resynchronise_on(
        os: Arc<dyn Os>,
        controller: C,
        config: FilesConfig,
        accepted: Accepted,
    ) -> Result<Self, FilesError> {
        config.check()?;
        let asked = config.clone();
        let resynchronise = move |os: &dyn Os| recover::resynchronise(os, &asked, accepted);
        let opened = patiently(&os, config.nvram_path(), config.patience, resynchronise)?;
        Self::start(os, controller, config, opened)
    }

    fn start(os: Arc<dyn Os>, controller: C, config: FilesConfig, opened: Opened) -> Result<Self, FilesError> {
        let bell = Arc::new(Bell::default());
        let (mut wheel, no_ring) = start_ring(&*os, &config, &bell)?;
        let mut devices = Vec::with_capacity(opened.devices.len());
        for (dev, file) in opened.devices.into_iter().enumerate() {
            let path = &config.devices[dev].path;
            let (file, error) = match file {
                Ok(file) => (Some(file), None),
                Err(error) => (None, Some(FilesError::io(path, OPEN)(error))),
            };
            let identity = file.as_ref().map(|file| identity(&**file, path)).transpose()?;
            let direct =
                file.as_ref().map(|file| replacement::go_direct(&os, &config, dev, path, file)).transpose()?.flatten();
            let lane = file.map(|file| start_device(&*os, &config, dev, file, &bell, wheel.as_mut())).transpose();
            let lane = lane.map_err(FilesError::io(path, "start its thread"))?;
            let (under_way, backlog, held) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
            devices.push(Device {
                failed: lane.is_none(),
                lane,
                under_way,
                backlog,
                held,
                error,
                file: identity,
                direct,
                traffic: Traffic::default(),
            });
        }
        let accounts = opened.store.accounts();
        let store = if os.is_in_line() {
            Ok(Lane::in_line(config.depth, vec![opened.store]))
        } else {
            Lane::start("destage-nvram", config.depth, &bell, vec![opened.store])
        };
        let store = store.map_err(FilesError::io(config.nvram_path(), "start its thread"))?;
        let missing = devices.iter().zip(0..).filter(|(device, _)| device.failed).map(|(_, dev)| Dev(dev)).collect();
        let shape = config.shape;
        let mut files = Self {
            engine: Engine::new(controller, shape, config.depth),
            bytes: Bytes::new(shape.page_bytes(), shape.sector_bytes(), opened.nvram),
            config,
            devices,
            store,
            accounts,
            roster: opened.roster,
            roster_file: opened.roster_file,
            standing_in: DevSet::EMPTY,
            store_backlog: VecDeque::new(),
            ahead: Ahead::default(),
            marks: opened.marks,
            resynchronised: opened.resynchronised,
            wheel,
            no_ring,
            state: opened.state,
            home: opened.home,
            bell,
            requests: Vec::new(),
            free: Vec::new(),
            answered: Vec::new(),
            unanswered: 0,
            blocked: VecDeque::new(),
            completions: VecDeque::new(),
            clean: false,
            draining: false,
            stopped: false,
            clock: if os.is_in_line() { Clock::Virtual(Nanos::ZERO) } else { Clock::Real(Instant::now()) },
            os,
            device_results: VecDeque::new(),
            ended: VecDeque::new(),
            store_results: VecDeque::new(),
            spare_lists: Vec::new(),
            lock: opened.lock,
        };
        let nv: Vec<_> = files.bytes.nvram().slots().collect();
        let intents = files.bytes.nvram().intents.ranges();
        files.engine.start(files.now(), Start { nv: &nv, intents: &intents, missing, collectors: DevSet::EMPTY });
        // A start that is refused changes nothing: what is missing may be brought back.
        if !missing.is_empty() && !matches!(files.engine.status(), Status::Refused(_)) {
            files.distrust(missing)?;
        }
        files.go_on()?;
        Ok(files)
    }

    /// Takes a request; it waits if the array is still being recovered. `data` is what a write
    /// writes; of a read its content does not matter, and what was read comes back in it or in
    /// another. A [`Buffer`] is handed on as it is, anything else is copied into one. Requests may
    /// have the same tag.
    ///
    /// # Errors
    /// If the request cannot be served, in which case nothing happens, or the executor has stopped.
    pub fn submit(&mut self, request: HostRequest, data: impl Into<Buffer>) -> Result<(), FilesError> {
        self.check()?;
        let mut data: Buffer = data.into();
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
        if request.op != HostOp::Write {
            data.resize(if request.op == HostOp::Read { request.len as usize } else { 0 });
        }
        self.bytes.host_buffer(id, data);
        self.requests[id as usize] = Some(Request { tag: request.tag, op: request.op, fua: request.fua });
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
            self.rest(None)?;
        }
    }

    /// Waits until the array is recovered and requests are served.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_ready(&mut self) -> Result<(), FilesError> {
        self.advance()?;
        while self.engine.status() != Status::Ready {
            self.rest(None)?;
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
            self.rest(None)?;
            self.advance()?;
        }
        Ok(())
    }

    /// Waits until what was acknowledged before this is written back from the cache to the members.
    /// Requests are served meanwhile; nothing is flushed by it.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn drain(&mut self) -> Result<(), FilesError> {
        self.begin_drain()?;
        while self.draining {
            self.rest(None)?;
            self.advance()?;
        }
        Ok(())
    }

    /// Answers all requests, lets the controller leave nothing to be recovered, and ends. The
    /// requests that were answered and not fetched are handed out.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), or if a file hangs; the next start is an unclean one then.
    pub fn stop_clean(mut self) -> Result<Vec<Completion>, FilesError> {
        self.until(|files| files.engine.status() == Status::Ready && files.unanswered == 0)?;
        let now = self.now();
        self.engine.control(now, Control::Clean);
        self.go_on()?;
        self.until(|files| files.clean)?;
        let condition = self.engine.controller().condition();
        self.marks.note(condition);
        self.marks.end(condition.losses);
        self.until(|files| !files.marks.is_busy())?;
        Ok(std::mem::take(&mut self.completions).into())
    }

    /// Whether a device answers.
    pub fn answers(&self, dev: Dev) -> bool {
        self.devices.get(dev.index()).is_some_and(|device| !device.failed)
    }

    /// Whether a device has a file that will be its own at the next start: it answers, and if the file took
    /// another's place, something durable says that what that one held is lost.
    pub fn is_named(&self, dev: Dev) -> bool {
        self.answers(dev) && !self.standing_in.contains(dev)
    }

    /// Members that a start without the NVRAM or the intents would have to fill from the beginning: the marks may say
    /// for a while that they are lost or not filled when they no longer are.
    pub fn marked_unfilled(&self) -> DevSet {
        self.marks.unfilled()
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

    /// Bytes that were copied in this life on their way between host, devices and NVRAM, for want
    /// of a buffer that could be handed on.
    pub const fn copied(&self) -> u64 {
        self.bytes.copied()
    }

    /// The engine, for its counters and the controller.
    pub const fn engine(&self) -> &Engine<C> {
        &self.engine
    }

    /// The files as they are now: replacements are among them.
    pub const fn config(&self) -> &FilesConfig {
        &self.config
    }

    /// What was made anew at the start because it was lost.
    pub const fn resynchronised(&self) -> Option<&Resynchronised> {
        self.resynchronised.as_ref()
    }

    /// Whether nothing is under way: no request, and nothing that the controller does on its own.
    pub fn is_idle(&self) -> bool {
        !self.is_busy() && self.engine.is_idle()
    }

    /// Time since the beginning of this life.
    pub(super) fn now(&self) -> Nanos {
        match self.clock {
            Clock::Real(begin) => Nanos(begin.elapsed().as_nanos() as u64),
            Clock::Virtual(now) => now,
        }
    }

    pub(super) const fn check(&self) -> Result<(), FilesError> {
        if self.stopped { Err(FilesError::Stopped) } else { Ok(()) }
    }

    /// Ends this life with an error.
    pub(super) fn stop(&mut self, error: FilesError) -> FilesError {
        self.stopped = true;
        self.close();
        error
    }
}

impl<C> Files<C> {
    /// Lets all threads end with what they are at work on.
    pub(super) fn close(&mut self) {
        self.store.close();
        self.devices.iter_mut().filter_map(|device| device.lane.as_mut()).for_each(|lane| drop(lane.close()));
    }
}

impl<C> Drop for Files<C> {
    fn drop(&mut self) {
        // All at once; then each is waited for, but not for ever. Who hangs keeps the array's lock.
        self.close();
        let until = Instant::now() + self.config.patience;
        for lane in self.devices.iter_mut().filter_map(|device| device.lane.as_mut()) {
            lane.end(until, Some(&self.lock));
        }
        self.store.end(until, Some(&self.lock));
        if let Some(wheel) = self.wheel.take() {
            wheel.end(&self.bell, until, &self.lock);
        }
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

/// The ring, or why there is none though one was wanted.
fn start_ring(
    os: &dyn Os,
    config: &FilesConfig,
    bell: &Bell,
) -> Result<(Option<Wheel>, Option<io::Error>), FilesError> {
    if config.io == Io::Threads {
        return Ok((None, None));
    }
    let operations = config.depth.saturating_mul(config.devices.len()).min(1 << 15) as u32;
    match (os.ring(operations).and_then(|ring| Wheel::new(ring, bell)), config.io) {
        (Ok(wheel), _) => Ok((Some(wheel), None)),
        (Err(why), Io::Ring) => Err(FilesError::NoRing(why)),
        (Err(why), _) => Ok((None, Some(why))),
    }
}

pub(super) fn start_device(
    os: &dyn Os,
    config: &FilesConfig,
    dev: usize,
    file: Arc<dyn OsFile>,
    bell: &Arc<Bell>,
    wheel: Option<&mut Wheel>,
) -> io::Result<Serves> {
    let options = config.devices[dev].options;
    if let Some(wheel) = wheel.filter(|_| options.delay.is_zero()) {
        let pilot = Pilot::new(file, (dev as u8, wheel.next_life()), options, config.depth);
        return Ok(Serves::Ring(pilot));
    }
    let workers = DeviceFile::all(file, options, config.depth);
    if os.is_in_line() {
        return Ok(Serves::Threads(Lane::in_line(config.depth, workers)));
    }
    Lane::start(&format!("destage-dev{dev}"), config.depth, bell, workers).map(Serves::Threads)
}
