//! The main loop: results of the threads are fetched, steps that may begin are handed out.

use std::time::{Duration, Instant};

use destage_plan::{
    Buf, Controller, Dev, DevSet, DeviceChange, Ext, HostNotice, HostOp, Issue, Nanos, Status, Step, StepOutcome,
};

use super::executor::{Clock, Completion, Device, Files};
use crate::Buffer;
use crate::files::error::FilesError;

use crate::files::io::backend::Backend;
use crate::files::io::command::{self, Failure, Work};
use crate::files::io::device::Serves;
use crate::files::io::patience::patiently;
use crate::files::io::uring::shared::Wheel;
use crate::files::nvram::intents::sync_roster;
use crate::files::nvram::store;
use crate::files::nvram::store::Change;

impl<C: Controller> Files<C> {
    pub(super) fn is_busy(&self) -> bool {
        self.store.is_busy()
            || self.marks.is_busy()
            || self.devices.iter().any(|device| device.lane.as_ref().is_some_and(Serves::is_busy))
    }

    /// Without threads: a lane that chance chooses goes on with some of its commands; if there is
    /// none, it becomes the time of the next timer. Whether something happened.
    pub(super) fn turn(&mut self) -> bool {
        if self.stirs() {
            return false;
        }
        let Clock::Virtual(now) = &mut self.clock else { return false };
        let ready = |lane: &Option<Serves>| lane.as_ref().is_some_and(|lane| lane.ready() > 0);
        let devices = self.devices.iter().filter(|device| ready(&device.lane)).count();
        let store = self.store.ready();
        let ring = self.wheel.as_ref().map_or(0, |wheel| wheel.ring().ready());
        if devices == 0 && store == 0 && ring == 0 {
            let next = self.engine.next_timer().into_iter().chain(self.ahead.due()).min();
            *now = next.map_or(*now, |next| next.max(*now));
            return next.is_some();
        }
        *now += Nanos(1_000);
        let chosen = self.os.choose(devices + usize::from(store > 0) + usize::from(ring > 0));
        let choose = |among| self.os.choose(among);
        if let Some(wheel) = self.wheel.as_mut().filter(|_| ring > 0 && chosen == devices) {
            for _ in 0..=choose(ring) {
                wheel.turn(&choose);
            }
            return true;
        }
        match self.devices.iter_mut().filter(|device| ready(&device.lane)).nth(chosen) {
            // Threads, too, are ahead of the main loop by more than one operation.
            Some(Device { lane: Some(lane), .. }) => {
                for _ in 0..=choose(2 * lane.ready()) {
                    lane.turn(choose);
                }
            }
            _ => self.store.turn(choose),
        }
        true
    }

    /// Waits until this is so, or a device or the NVRAM hangs.
    pub(super) fn until(&mut self, done: impl Fn(&Self) -> bool) -> Result<(), FilesError> {
        let patience = self.config.patience;
        self.advance()?;
        while !done(self) {
            self.rest(Some(patience))?;
            self.advance()?;
            let mut stuck = self
                .devices
                .iter()
                .zip(&self.config.devices)
                .map(|(device, config)| (device.lane.as_ref().map_or(Duration::ZERO, Serves::stuck), &config.path));
            let hangs = stuck.find(|(stuck, _)| *stuck >= patience).map(|(_, path)| path.clone());
            let hangs = hangs.or_else(|| (self.store.stuck() >= patience).then(|| self.config.nvram_path().to_owned()));
            if let Some(path) = hangs {
                return Err(self.stop(FilesError::Hangs(path)));
            }
        }
        Ok(())
    }

    /// Waits until a thread has something to say or a timer is due, or as long as `most`.
    pub(super) fn rest(&mut self, most: Option<Duration>) -> Result<(), FilesError> {
        if let Status::Refused(why) = self.engine.status() {
            return Err(self.stop(FilesError::Refused(Box::new(why))));
        }
        if self.turn() || self.os.is_in_line() && self.stirs() {
            return Ok(());
        }
        let limit = self.next_timer().map(|at| Duration::from_nanos(at.since(self.now()).0));
        if limit.is_none() && (!self.is_busy() || self.os.is_in_line()) {
            let what = format!("{:?}", self.engine.out());
            return Err(self.stop(FilesError::Stalled(what)));
        }
        self.pause(limit.into_iter().chain(most).min());
        Ok(())
    }

    /// Waits until a thread or the ring has something to say, or as long as `most`.
    pub(super) fn pause(&self, most: Option<Duration>) {
        match &self.wheel {
            None => self.bell.wait(most),
            // The system had no room for it, and does not say when it has.
            Some(wheel) if self.stirs() => wheel.wait(&self.bell, Some(Duration::from_millis(1))),
            Some(wheel) => wheel.wait(&self.bell, most),
        }
    }

    /// Whether there is something for the ring, or for the main loop, that nobody tells of.
    pub(super) fn stirs(&self) -> bool {
        self.wheel.as_ref().is_some_and(Wheel::is_behind)
            || self.devices.iter().any(|device| device.lane.as_ref().is_some_and(Serves::stirs))
            || self.marks.can_begin()
    }

    /// Takes from the ring what has ended.
    pub(super) fn reap(&mut self) {
        let Some(wheel) = &mut self.wheel else { return };
        wheel.reap(&mut self.ended);
        for ended in self.ended.drain(..) {
            let tag = ended.0.tag;
            let lane = self.devices[usize::from(tag.dev)].lane.as_mut();
            // Of a file that was left behind nobody asks.
            if let Some(pilot) = lane.and_then(|lane| lane.pilot(tag.life)) {
                pilot.ended(ended);
            }
        }
    }

    /// Gives the ring all that was begun for it, in one call.
    fn submit_all(&mut self) -> Result<(), FilesError> {
        let Some(wheel) = &mut self.wheel else { return Ok(()) };
        for device in &mut self.devices {
            if let Some(outgoing) = device.lane.as_mut().and_then(Serves::outgoing) {
                wheel.outgoing().append(outgoing);
            }
        }
        wheel.submit().map_err(|error| self.stop(FilesError::Ring(error)))
    }

    /// Takes in what threads have done and lets timers go off; does not wait.
    pub(super) fn advance(&mut self) -> Result<(), FilesError> {
        self.check()?;
        self.take_in()?;
        self.submit_all()?;
        // What is in the system's memory has been done at once.
        if self.wheel.as_ref().is_some_and(|wheel| wheel.ring().under_way() > 0) {
            self.take_in()?;
            self.submit_all()?;
        }
        Ok(())
    }

    fn take_in(&mut self) -> Result<(), FilesError> {
        self.reap();
        self.store.results(&mut self.store_results);
        while let Some((command, done)) = self.store_results.pop_front() {
            if let Err(source) = done {
                let path = if matches!(command.change, Change::Intent { .. }) {
                    &self.config.intents
                } else {
                    self.config.nvram_path()
                };
                let error = FilesError::Io { path: path.to_owned(), what: "carry out a step of the NVRAM", source };
                let spoiled = self.home.as_ref().is_some_and(|home| home.is_spoiled());
                return Err(self.leave_home(spoiled, error));
            }
            let Some(issue) = command.issue else {
                self.bytes.give_back(command.bytes);
                self.spare_lists.push(command.lists);
                self.ahead.synced();
                self.covered()?;
                continue;
            };
            self.bytes.change_nvram(&self.engine, issue);
            if !self.config.every_write && matches!(command.change, Change::Commit { .. }) {
                self.ahead.commit(self.now());
            }
            if command.is_covered && self.ahead.is_open() {
                self.covered()?;
            }
            if let Change::Intent { set } = command.change {
                let rows = &command.lists.rows;
                if set {
                    for rows in rows {
                        self.marks.opened(*rows);
                    }
                } else {
                    self.marks.closed(rows, &self.bytes.nvram().intents);
                }
            }
            self.bytes.give_back(command.bytes);
            self.spare_lists.push(command.lists);
            self.complete(issue, StepOutcome::Ok);
            self.go_on()?;
        }
        self.send_backlog();
        self.send_sync();
        for dev in 0..self.devices.len() {
            // Most have nothing to say: of a hit all members.
            if !self.devices[dev].is_quiet() {
                self.finish_device(Dev(dev as u8))?;
                self.go_on()?;
            }
        }
        if self.engine.next_timer().is_some_and(|at| at <= self.now()) {
            let now = self.now();
            self.engine.timers(now);
            self.go_on()?;
        }
        self.send_backlog();
        Ok(())
    }

    /// Takes in what a device's thread has done, and gives it more.
    pub(super) fn finish_device(&mut self, dev: Dev) -> Result<(), FilesError> {
        let Some(lane) = &mut self.devices[dev.index()].lane else { return Ok(()) };
        let mut results = std::mem::take(&mut self.device_results);
        lane.results(&mut results);
        for (command::Command { issue, work, bytes, .. }, done) in results.drain(..) {
            self.devices[dev.index()].forget(issue);
            let failed = match done {
                Ok(()) => self.devices[dev.index()].failed,
                Err(Failure { source, no_room }) => {
                    let path = self.config.devices[dev.index()].path.clone();
                    // A full file system is not a broken member: with room again nothing is lost.
                    if no_room && !self.devices[dev.index()].failed {
                        return Err(self.stop(FilesError::Io { path, what: "find room for a step", source }));
                    }
                    if self.config.home() == Some(dev.index()) {
                        let what = "use the device that the NVRAM lies on";
                        let spoiled = matches!(work, Work::Flush | Work::Write { fua: true, .. });
                        return Err(self.leave_home(spoiled, FilesError::Io { path, what, source }));
                    }
                    let error = FilesError::Io { path, what: work.what(), source };
                    self.devices[dev.index()].error.get_or_insert(error);
                    true
                }
            };
            if failed {
                if let Some(issue) = issue {
                    self.bytes.give_back(bytes);
                    self.complete(issue, StepOutcome::Failed(dev));
                }
                self.fail(dev)?;
                continue;
            }
            let Some(issue) = issue else {
                self.marks.ended(dev);
                continue;
            };
            match *self.engine.step(issue) {
                Step::Read { dst, .. } => self.bytes.fetched(&self.engine, issue.op, dst, bytes),
                Step::MetaRead { .. } => {
                    self.engine.read(issue, &bytes);
                    self.bytes.give_back(bytes);
                }
                _ => self.bytes.give_back(bytes),
            }
            self.complete(issue, StepOutcome::Ok);
        }
        self.device_results = results;
        let device = &mut self.devices[dev.index()];
        if device.failed && device.lane.as_ref().is_some_and(|lane| !lane.is_busy()) {
            device.file = None;
            if let Some(mut lane) = device.lane.take() {
                lane.end(Instant::now() + self.config.patience, None);
            }
        }
        while self.devices[dev.index()].lane.as_ref().is_some_and(Serves::has_room) {
            let Some(issue) = self.devices[dev.index()].backlog.pop_front() else { break };
            self.send_device(dev, issue);
        }
        Ok(())
    }

    /// Nothing goes on without the device on which the NVRAM lies. If it was `spoiled` by a sync that failed, what it has
    /// is not what the next start would read, and so not the array's any more.
    fn leave_home(&mut self, spoiled: bool, error: FilesError) -> FilesError {
        if let Some(dev) = self.config.home().filter(|_| spoiled)
            && let Err(not_noted) = self.distrust(DevSet::one(Dev(dev as u8)))
        {
            return not_noted;
        }
        self.stop(error)
    }

    /// A device answers no more: what it was to do has failed, and the controller is told.
    pub(super) fn fail(&mut self, dev: Dev) -> Result<(), FilesError> {
        let device = &mut self.devices[dev.index()];
        if std::mem::replace(&mut device.failed, true) {
            return Ok(());
        }
        let held = std::mem::take(&mut device.held).into_iter().map(|(_, issue)| issue);
        let backlog = std::mem::take(&mut device.backlog).into_iter().chain(held);
        let unbegun = device.lane.as_mut().map(Serves::close).unwrap_or_default();
        for command::Command { issue, bytes, .. } in unbegun {
            self.devices[dev.index()].forget(issue);
            if let Some(issue) = issue {
                self.bytes.give_back(bytes);
                self.complete(issue, StepOutcome::Failed(dev));
            }
        }
        for issue in backlog {
            self.complete(issue, StepOutcome::Failed(dev));
        }
        self.marks.ended(dev);
        let now = self.now();
        self.engine.device(now, dev, DeviceChange::Failed);
        self.distrust(DevSet::one(dev))
    }

    /// The files that these devices had are theirs no more, whether they answer again or not.
    pub(super) fn distrust(&mut self, devs: DevSet) -> Result<(), FilesError> {
        self.standing_in -= devs;
        devs.iter().for_each(|dev| self.roster.leave(dev.index()));
        self.sync_roster()
    }

    /// Makes it durable which files are the devices'.
    pub(super) fn sync_roster(&mut self) -> Result<(), FilesError> {
        self.marks.name(self.roster.generations());
        let (sync, path) = (sync_roster(&self.roster_file, &self.roster), self.config.intents.clone());
        let noted = patiently(&self.os, &self.config.intents, self.config.patience, move |_| {
            sync().map_err(FilesError::io(&path, "note which files are the devices'"))
        });
        noted.map_err(|error| self.stop(error))
    }

    pub(super) fn complete(&mut self, issue: Issue, outcome: StepOutcome) {
        let now = self.now();
        self.engine.complete(now, issue, outcome);
    }

    /// Begins the steps that may begin, and takes in what became of requests.
    pub(super) fn go_on(&mut self) -> Result<(), FilesError> {
        while let Some(issue) = self.engine.next_issue() {
            self.begin(issue)?;
        }
        let mut answered = std::mem::take(&mut self.answered);
        while let Some(notice) = self.engine.next_notice() {
            match notice {
                HostNotice::Acked { tag, ok } => answered.push((tag, ok)),
                HostNotice::Released { tag } => {
                    let bytes = self.bytes.release_buffer(tag);
                    // One that was answered before has had a copy.
                    if let Some(at) = answered.iter().position(|(other, _)| *other == tag) {
                        let (_, ok) = answered.remove(at);
                        self.answer(tag, ok, bytes);
                    }
                    self.free.push(tag);
                }
                HostNotice::Clean if self.ahead.is_open() => self.ahead.stop(),
                HostNotice::Clean => self.clean = true,
                HostNotice::Drained => self.draining = false,
            }
        }
        // Their bytes are still in use, though not for them.
        for (tag, ok) in answered.drain(..) {
            let read = self.requests[tag as usize].as_ref().is_some_and(|request| request.op == HostOp::Read);
            let bytes = if ok && read { self.bytes.copy_host(tag) } else { Buffer::new() };
            self.answer(tag, ok, bytes);
        }
        self.answered = answered;
        if !self.standing_in.is_empty() {
            self.name_noted()?;
        }
        self.send_sync();
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
            // Whoever asks was told at the start that files collect nothing.
            Step::Collect { dev, .. } => return Err(self.stop(FilesError::NoCollector(dev))),
            Step::NvCommit { .. } | Step::Intent { .. } => {
                self.check_nvram(issue)?;
                if let Step::Intent { rows, set: true } = *self.engine.step(issue) {
                    self.engine.rows(issue.op, rows).iter().for_each(|rows| self.marks.open(*rows));
                }
                // Not ahead of what waits: they take effect in the order of issue.
                self.store_backlog.push_back(issue);
                self.send_backlog();
            }
            Step::Join | Step::Ack { .. } => unreachable!("the engine does these itself"),
            _ => {
                let outcome = self.bytes.compute(&self.engine, issue).expect("all others compute");
                self.complete(issue, outcome);
            }
        }
        Ok(())
    }

    /// Gives the store what waits for it, as far as members have marked its rows, and has them mark more. Before any
    /// step they know all else that a start without the NVRAM has to know.
    pub(super) fn send_backlog(&mut self) {
        self.marks.note(self.engine.controller().condition());
        while self.store.has_room()
            && let Some(&issue) = self.store_backlog.front()
        {
            let marked = match *self.engine.step(issue) {
                Step::Intent { rows, set: true } => self.marks.cover(self.engine.rows(issue.op, rows)),
                _ => true,
            };
            if !marked || !self.marks.is_noted() {
                break;
            }
            self.store_backlog.pop_front();
            self.send_store(issue);
        }
        self.send_marks();
    }

    /// Gives members the marks that are to be written, if there are any.
    fn send_marks(&mut self) {
        let answering = self.devices.iter().zip(0..).filter(|(device, _)| !device.failed).map(|(_, dev)| Dev(dev));
        if self.marks.is_busy() {
            self.marks.begin(answering.collect());
        }
        for dev in self.marks.waiting().iter() {
            let device = &mut self.devices[dev.index()];
            let Some(lane) = device.lane.as_mut().filter(|lane| lane.has_room()) else { continue };
            let offset = self.config.marks_offset(dev.index()) + self.marks.place();
            let bytes = self.marks.give(dev);
            device.traffic.marks += 1;
            device.traffic.mark_bytes += bytes.len() as u64;
            device.under_way.push_back(None);
            let range = 0..bytes.len();
            lane.send(command::Command { issue: None, work: Work::Mark { offset }, bytes, range });
        }
    }

    fn begin_device(&mut self, dev: Dev, issue: Issue) -> Result<(), FilesError> {
        let Some(device) = self.devices.get_mut(dev.index()) else { return Err(self.stop(FilesError::NoDevice(dev))) };
        if device.failed {
            self.complete(issue, StepOutcome::Failed(dev));
        } else if !self.holds_back(dev, issue) {
            self.begin_held(dev, issue);
        }
        Ok(())
    }

    pub(super) fn send_device(&mut self, dev: Dev, issue: Issue) {
        let page = self.engine.shape().page_bytes();
        let before = self.config.devices[dev.index()].offset;
        let place = |ext: Ext| (before + ext.first() * page, u64::from(ext.pages()) * page);
        let step = *self.engine.step(issue);
        let traffic = &mut self.devices[dev.index()].traffic;
        let (work, (bytes, range)) = match step {
            Step::Read { ext, .. } | Step::MetaRead { ext } => {
                let (offset, len) = place(ext);
                traffic.reads += 1;
                traffic.read_bytes += len;
                (Work::Read { offset }, (self.bytes.lend(len as usize), 0..len as usize))
            }
            Step::Write { ext, .. } | Step::WriteList { ext, .. } | Step::MetaWrite { ext, .. } => {
                let (offset, len) = place(ext);
                traffic.writes += 1;
                traffic.fua += u64::from(step.is_fua());
                traffic.written_bytes += len;
                (Work::Write { offset, fua: step.is_fua() }, self.bytes.handed(&self.engine, issue.op, &step))
            }
            Step::Trim { ext } => {
                let (offset, len) = place(ext);
                traffic.trims += 1;
                (Work::Trim { offset, len }, (self.bytes.lend(0), 0..0))
            }
            Step::FlushDev { .. } => {
                traffic.flushes += 1;
                (Work::Flush, (self.bytes.lend(0), 0..0))
            }
            ref other => unreachable!("{other:?} is no step of a device"),
        };
        let (bytes, range) = match self.devices[dev.index()].direct {
            Some(Ok(align)) => self.bytes.aligned(bytes, range, align as usize),
            _ => (bytes, range),
        };
        self.devices[dev.index()].under_way.push_back(Some(issue));
        let lane = self.devices[dev.index()].lane.as_mut().expect("a device that answers has a lane");
        lane.send(command::Command { issue: Some(issue), work, bytes, range });
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
        let mut lists = self.spare_lists.pop().unwrap_or_default();
        lists.rows.clear();
        lists.puts.clear();
        lists.frees.clear();
        let (change, bytes) = match *self.engine.step(issue) {
            Step::NvCommit { puts, frees } => {
                let puts = self.engine.puts(issue.op, puts);
                lists.puts.extend_from_slice(puts);
                lists.frees.extend(self.engine.bufs(issue.op, frees).iter().map(|buf| match buf {
                    Buf::Nv(slot) => *slot,
                    other => panic!("{other:?} is no slot of the NVRAM"),
                }));
                let durable = self.config.every_write || self.ahead.commits_at_once();
                (Change::Commit { durable }, self.bytes.puts(&self.engine, issue.op, puts))
            }
            Step::Intent { rows, set } => {
                lists.rows.extend_from_slice(self.engine.rows(issue.op, rows));
                (Change::Intent { set }, self.bytes.lend(0))
            }
            ref other => unreachable!("{other:?} is no step of the NVRAM"),
        };
        self.store.send(store::Command { issue: Some(issue), change, bytes, lists, is_covered: false });
    }

    fn answer(&mut self, id: u64, ok: bool, mut bytes: Buffer) {
        let request = self.requests[id as usize].take().expect("a request is answered once");
        if !ok || request.op != HostOp::Read {
            bytes.clear();
        }
        let completion = Completion { tag: request.tag, ok, bytes };
        self.tell(&request, completion);
    }
}
