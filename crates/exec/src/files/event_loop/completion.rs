//! Takes in the results of backends; errors make devices fail.

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
        // The ring first: its completions are shared memory and cost no system call
        // to take.
        self.reap();
        self.take_store_results()?;
        // Completions of the store may let steps of devices go, so these are sent
        // within the same turn.
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
        // After everything was taken in: a command whose result just came is not
        // late.
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
                // Failures come in the order of changes, so the move sees them
                // before anything that follows.
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
            // The bytes of the NVRAM change when the commit has ended, and never
            // before: that is when the controller hears of it.
            self.bytes.change_nvram(&self.engine, issue);
            // With `every-write` the store itself has synced the commit already.
            if !self.config.every_write && matches!(command.change, NvramChange::Commit { .. }) {
                self.group_commit.commit(self.now());
            }
            // The store has synced this commit together with those before it, so
            // all of them go on.
            if command.is_covered && self.group_commit.is_open() {
                self.commits_durable()?;
            }
            // Marks count rows by intents: a region's mark may be cleared only when
            // no intent of it is open.
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
            // Results carry the life of their file. After a replacement the ring
            // still returns operations of the old one, for which nobody asks.
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
            // The step leaves the list first: a result, even an error, ends the
            // time-out of its command.
            self.devices[dev.index()].forget(command.issue);
            // The common case is decided by two comparisons; the search is only for
            // errors.
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
                    // A full file system is not a broken member: with room again
                    // nothing is lost. A member that is being filled holds nothing
                    // that the others lack, so it may be lost.
                    let is_needed = || !self.engine.controller().condition().unfilled.contains(dev);
                    if no_room && !self.devices[dev.index()].failed && is_needed() {
                        return Err(self.stop(FilesError::Io { path, what: "find room for a step", source }));
                    }
                    // The NVRAM moves before anything is told of the error. The
                    // controller would put the loss into an NVRAM that is not
                    // durable.
                    if self.config.home() == Some(dev.index()) {
                        let what = "use the device that the NVRAM lies on";
                        // After a failed sync the device's pages may differ from
                        // what the next start reads, so they are not trusted any
                        // more.
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
                    // The first error is the one that explains the loss.
                    self.devices[dev.index()].error.get_or_insert(error);
                    true
                }
            };
            if failed {
                if let Some(issue) = issue {
                    self.bytes.give_back(bytes);
                    self.complete(issue, StepOutcome::Failed(dev));
                }
                // Told to the controller after the step: first the failed step,
                // then the lost device, in every run.
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
                    // Only devices after the members have checksums (see
                    // `mismatch`).
                    if dev.index() >= self.config.members
                        && let Some(page) = self.mismatch(ext, &bytes)
                    {
                        self.bytes.give_back(bytes);
                        self.end_step(dev, issue, StepOutcome::Unreadable(page));
                        continue;
                    }
                    // The buffer takes the place of the one that was to be filled,
                    // so nothing is copied.
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
        // The list keeps its capacity: no allocation per result.
        self.device_results = results;
        let device = &mut self.devices[dev.index()];
        // A device that failed keeps its threads until the last command returns;
        // only then is the file closed.
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
        // In the order of commits: an answer waits for a number, so the queue is
        // sorted.
        let durable = self.group_commit.all_durable();
        while let Some((_, completion)) = self.blocked.pop_front_if(|answer| answer.0 <= durable) {
            self.group_commit.acknowledge_blocked();
            self.unanswered -= 1;
            self.completions.push_back(completion);
        }
        // A clean stop ends with the journal's sync, not with the controller's
        // word.
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
        // A successor of a lost member is incomplete and of no use.
        self.lose_successor(dev);
        let device = &mut self.devices[dev.index()];
        // The handle is dropped here so that the file can be closed; a weak one
        // tells whether commands still hold it.
        device.left = device.handle.take().map(|handle| Arc::downgrade(&handle));
        device.searches.clear();
        let blocked = std::mem::take(&mut device.blocked).into_iter().map(|(_, issue)| issue);
        let backlog = std::mem::take(&mut device.backlog).into_iter().chain(blocked);
        // What the backend had not begun fails at once. What it had begun may still
        // be done, and fails when it ends.
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
        // A member that is lost need not have marks, or its list, written.
        self.marks.ended(dev);
        self.bad_pages.forget(dev);
        let now = self.now();
        self.engine.device(now, dev, DeviceChange::Failed);
        // The roster must stop naming the file before anything is acknowledged that
        // it misses.
        self.distrust(DevSet::one(dev))
    }
}
