//! What backends have done: results are taken in, and errors make devices fail.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use destage_plan::{Controller, Dev, DevSet, DeviceChange, Step, StepOutcome};

use super::executor::FileExecutor;
use super::nvram_move::MoveReason;
use crate::files::error::FilesError;
use crate::files::io::backend::CommandBackend;
use crate::files::io::command;
use crate::files::io::command::{CommandFailure, DeviceAction};
use crate::files::io::device::DeviceBackend;
use crate::files::nvram::store::{NvramChange, NvramCommand, StoreFailure};

impl<C: Controller> FileExecutor<C> {
    pub(super) fn take_in(&mut self) -> Result<(), FilesError> {
        self.reap();
        self.take_store_results()?;
        self.send_backlog();
        self.send_sync();
        for dev in 0..self.devices.len() {
            // Most have nothing to say: of a hit all members.
            if !self.devices[dev].is_quiet() {
                self.finish_device(Dev(dev as u8))?;
                self.finish_successor(Dev(dev as u8));
                self.go_on()?;
            }
        }
        if self.engine.next_timer().is_some_and(|at| at <= self.now()) {
            let now = self.now();
            self.engine.timers(now);
            self.go_on()?;
        }
        self.check_timeouts()?;
        self.send_backlog();
        self.go_on_moving()
    }

    /// Takes in what the store has done.
    pub(super) fn take_store_results(&mut self) -> Result<(), FilesError> {
        self.store.results(&mut self.store_results);
        while let Some((command, done)) = self.store_results.pop_front() {
            self.note_store_moved();
            if let Err(failure) = done {
                self.note_store_failure(command, failure)?;
                continue;
            }
            let Some(issue) = command.issue else {
                self.bytes.give_back(command.bytes);
                self.spare_lists.push(command.lists.emptied());
                if let NvramChange::EventCount(number) = command.change {
                    self.counted = number;
                } else {
                    self.group_commit.synced();
                    self.commits_durable()?;
                }
                continue;
            };
            self.bytes.change_nvram(&self.engine, issue);
            if !self.config.every_write && matches!(command.change, NvramChange::Commit { .. }) {
                self.group_commit.commit(self.now());
            }
            if command.is_covered && self.group_commit.is_open() {
                self.commits_durable()?;
            }
            if let NvramChange::Intent { set } = command.change {
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
            self.spare_lists.push(command.lists.emptied());
            self.complete(issue, StepOutcome::Ok);
            self.go_on()?;
        }
        Ok(())
    }

    /// Takes in that the store did not make a change. If it failed over the NVRAM on a device that is made anew elsewhere.
    #[cold]
    fn note_store_failure(&mut self, command: NvramCommand, failure: StoreFailure) -> Result<(), FilesError> {
        let NvramCommand { issue, change, bytes, lists, .. } = command;
        let StoreFailure { source, is_of_intents } = failure;
        let path = if is_of_intents { &self.config.intents } else { self.config.nvram_path() };
        let is_full = source.kind() == io::ErrorKind::StorageFull;
        let error = FilesError::Io { path: path.to_owned(), what: "carry out a step of the NVRAM", source };
        let spoiled = self.home.as_ref().is_some_and(|home| home.is_spoiled());
        // A full file system loses nothing: with room again it goes on.
        if is_of_intents || self.home.is_none() || is_full && !spoiled {
            return Err(self.stop(error));
        }
        // Either event count is right, whichever a start reads.
        let is_spoiled = spoiled && !matches!(change, NvramChange::EventCount(_));
        self.leave_home(if is_spoiled { MoveReason::Spoiled } else { MoveReason::Failed }, error)?;
        self.bytes.give_back(bytes);
        self.spare_lists.push(lists.emptied());
        if let Some(issue) = issue {
            self.keep_change(issue);
        }
        Ok(())
    }

    /// Takes from the ring what has ended.
    pub(super) fn reap(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        ring.reap(&mut self.ended);
        for ended in self.ended.drain(..) {
            let tag = ended.0.tag;
            let mut backends = self.devices[usize::from(tag.dev)].backends_mut();
            // Of a file that was left behind nobody asks.
            if let Some(uring) = backends.find_map(|backend| backend.uring(tag.life)) {
                uring.ended(ended);
            }
        }
    }

    /// Takes in what a device's thread has done, and gives it more.
    pub(super) fn finish_device(&mut self, dev: Dev) -> Result<(), FilesError> {
        let Some(backend) = &mut self.devices[dev.index()].backend else { return Ok(()) };
        let mut results = std::mem::take(&mut self.device_results);
        backend.results(&mut results);
        for (command, done) in results.drain(..) {
            self.devices[dev.index()].forget(command.issue);
            let (command, done) = if done.is_ok() && self.devices[dev.index()].searches.is_empty() {
                (command, done)
            } else {
                let Some(ended) = self.search_bad_page(dev, command, done) else { continue };
                ended
            };
            let command::DeviceCommand { issue, work, bytes, .. } = command;
            let failed = match done {
                Ok(()) => self.devices[dev.index()].failed,
                Err(CommandFailure { source, no_room }) => {
                    let path = self.config.devices[dev.index()].path.clone();
                    // A full file system is not a broken member: with room again nothing is lost. One that is being
                    // filled holds nothing that the others do not know.
                    let is_needed = || !self.engine.controller().condition().unfilled.contains(dev);
                    if no_room && !self.devices[dev.index()].failed && is_needed() {
                        return Err(self.stop(FilesError::Io { path, what: "find room for a step", source }));
                    }
                    if self.config.home() == Some(dev.index()) {
                        let what = "use the device that the NVRAM lies on";
                        let spoiled = matches!(work, DeviceAction::Flush | DeviceAction::Write { fua: true, .. });
                        let reason = if spoiled { MoveReason::Spoiled } else { MoveReason::Failed };
                        self.leave_home(reason, FilesError::Io { path, what, source })?;
                        self.bytes.give_back(bytes);
                        if let Some(issue) = issue {
                            self.keep_failed_step(issue);
                        }
                        continue;
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
                if matches!(work, DeviceAction::List { .. }) {
                    self.bad_pages.ended(dev);
                } else {
                    self.marks.ended(dev);
                }
                continue;
            };
            match *self.engine.step(issue) {
                Step::Read { ext, dst } => {
                    if dev.index() >= self.config.members
                        && let Some(page) = self.mismatch(ext, &bytes)
                    {
                        self.bytes.give_back(bytes);
                        self.end_step(dev, issue, StepOutcome::Unreadable(page));
                        continue;
                    }
                    self.bytes.fetched(&self.engine, issue.op, dst, bytes);
                }
                Step::MetaRead { .. } => {
                    self.engine.read(issue, &bytes);
                    self.bytes.give_back(bytes);
                }
                Step::Duplicate { .. } => {
                    self.copy_read(dev, issue, bytes);
                    continue;
                }
                _ => self.bytes.give_back(bytes),
            }
            self.end_step(dev, issue, StepOutcome::Ok);
        }
        self.device_results = results;
        let device = &mut self.devices[dev.index()];
        if device.failed && device.backend.as_ref().is_some_and(|backend| !backend.is_busy()) {
            device.file = None;
            if let Some(mut backend) = device.backend.take() {
                backend.end(Instant::now() + self.config.patience, None);
            }
        }
        self.send_queued(dev);
        Ok(())
    }

    /// Sends a device what has waited for room.
    pub(super) fn send_queued(&mut self, dev: Dev) {
        while !self.devices[dev.index()].is_held
            && self.devices[dev.index()].backend.as_ref().is_some_and(DeviceBackend::has_room)
        {
            let Some(issue) = self.devices[dev.index()].backlog.pop_front() else { break };
            self.send_device(dev, issue);
        }
    }

    /// All commits that are told as done are durable: what waits for that goes on.
    pub(super) fn commits_durable(&mut self) -> Result<(), FilesError> {
        let durable = self.group_commit.all_durable();
        while let Some((_, completion)) = self.blocked.pop_front_if(|answer| answer.0 <= durable) {
            self.group_commit.acknowledge_blocked();
            self.unanswered -= 1;
            self.completions.push_back(completion);
        }
        if self.group_commit.take_clean() {
            self.clean = true;
        }
        for dev in (0..self.devices.len()).map(|dev| Dev(dev as u8)) {
            while let Some((_, issue)) = self.devices[dev.index()].blocked.pop_front_if(|blocked| blocked.0 <= durable)
            {
                self.begin_unblocked(dev, issue);
            }
        }
        self.go_on()
    }

    /// A device answers no more: what it was to do has failed, and the controller is told.
    pub(super) fn fail(&mut self, dev: Dev) -> Result<(), FilesError> {
        let device = &mut self.devices[dev.index()];
        if std::mem::replace(&mut device.failed, true) {
            return Ok(());
        }
        self.lose_successor(dev);
        let device = &mut self.devices[dev.index()];
        device.left = device.handle.take().map(|handle| Arc::downgrade(&handle));
        device.searches.clear();
        let blocked = std::mem::take(&mut device.blocked).into_iter().map(|(_, issue)| issue);
        let backlog = std::mem::take(&mut device.backlog).into_iter().chain(blocked);
        let unbegun = device.backend.as_mut().map(DeviceBackend::close).unwrap_or_default();
        for command::DeviceCommand { issue, bytes, .. } in unbegun {
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
        self.bad_pages.forget(dev);
        let now = self.now();
        self.engine.device(now, dev, DeviceChange::Failed);
        self.distrust(DevSet::one(dev))
    }
}
