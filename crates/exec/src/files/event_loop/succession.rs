//! Gives a member that answers a successor: a file that is written like the member, is filled from it, and then takes its
//! place. Whatever goes wrong with the successor costs the successor alone.
//!
//! The plans know that a member is copied ([`Control::Copy`]), and nothing of where its writes go. Their claims keep most
//! writes away from what is being copied. A cache writes some pages without a claim, so the executor itself has copies and
//! writes of the same pages follow one another.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use destage_plan::{BadPage, Buf, Control, Controller, CopyEnd, CopyOutcome, Dev, Issue, Status, Step, StepOutcome};

use super::device::AbandonedFile;
use super::executor::FileExecutor;
use super::replace::lock;
use super::successor::{
    ActiveCopy, DroppedSuccessor, QueuedCommand, SuccessionPhase, SuccessorDevice, SuccessorLabelling, overlap,
};
use super::watch::InFlight;
use crate::bytes::SharedBuffer;
use crate::files::config::{DeviceOptions, ExistingFiles, FilesConfig};
use crate::files::error::FilesError;
use crate::files::io::backend::CommandBackend;
use crate::files::io::command::{CommandFailure, DeviceAction, DeviceCommand};
use crate::files::io::device::start_device;
use crate::files::io::metadata::identity;
use crate::files::io::os::OsInterface;
use crate::files::io::patience::{FileWork, patiently};
use crate::files::open::label::LabelStamp;
use crate::files::open::replacement;
use crate::files::open::replacement::{ReplacedPlace, SuccessorLabel};

impl<C: Controller> FileExecutor<C> {
    /// Gives a member that answers a successor, which must be what a [replacement](Self::replace) must be. The member stays
    /// what it is until the successor [takes its place](Self::begin_hand_over).
    ///
    /// # Errors
    /// If the member does not answer, or the array is not [ready](Self::status); if a member has a successor already; if
    /// the file cannot be opened or made, holds something, or is another of the array's. If the executor has stopped, or
    /// does now.
    pub fn begin_succession(&mut self, dev: Dev, path: &Path) -> Result<(), FilesError> {
        self.give_successor_by(dev, path, ExistingFiles::Refuse)
    }

    /// Does what [`begin_succession`](Self::begin_succession) does with a file that may hold anything: it is overwritten.
    ///
    /// # Errors
    /// As [`begin_succession`](Self::begin_succession).
    pub fn begin_succession_over(&mut self, dev: Dev, path: &Path) -> Result<(), FilesError> {
        self.give_successor_by(dev, path, ExistingFiles::Overwrite)
    }

    fn give_successor_by(&mut self, dev: Dev, path: &Path, existing: ExistingFiles) -> Result<(), FilesError> {
        self.advance()?;
        self.check_replaceable(dev)?;
        if let Some((_, path, _)) = self.succession() {
            return Err(FilesError::Succeeded(path.to_owned()));
        }
        let own = self.config.devices[dev.index()].path.clone();
        let Some(known) = self.devices[dev.index()].file.filter(|_| self.copies(dev)) else {
            return Err(FilesError::NotCopied(own));
        };
        let mut config = self.config.clone();
        let options = config.devices[dev.index()].options;
        config.devices[dev.index()].options =
            DeviceOptions { workers: options.workers, direct: options.direct, ..DeviceOptions::default() };
        path.clone_into(&mut config.devices[dev.index()].path);
        let mut used = self.used_beside(dev);
        // The member's own file is used as well, unlike in a replacement.
        used.push((known, own));
        let device = &self.devices[dev.index()];
        device.check_not_at_work(path)?;
        let abandoned = device.abandoned.as_ref().map(|file| file.identity);
        let (asked, at, origin) = (config.clone(), path.to_owned(), self.roster.origin());
        let opened = patiently(&self.os, path, self.config.patience, move |os| {
            let place = ReplacedPlace { origin, dev: dev.index(), used };
            let file = replacement::open_replacement(os, &asked, &place, &at, existing)?;
            let identity = identity(&*file, &at)?;
            lock(&*file, &at, abandoned == Some(identity))?;
            // Labelled as unfilled before it gets a page: whatever ends this, no
            // start takes it for the member, and it can be given again.
            replacement::label_successor(os, &*file, &asked, &SuccessorLabel::Unfilled(origin), dev.index(), &at)?;
            Ok((file, identity))
        });
        let (file, identity) = opened?;
        let direct = replacement::go_direct(&self.os, &config, dev.index(), path, &file)?;
        let (number, wakeup) = (dev.index(), Arc::clone(&self.wakeup));
        let backend = start_device(&self.os, &config, number, Arc::clone(&file), &wakeup, self.ring.as_mut())?;
        let successor = SuccessorDevice { direct, ..SuccessorDevice::new(path.to_owned(), file, identity, backend) };
        self.devices[number].successor = Some(Box::new(successor));
        let now = self.now();
        // The plans hear of the copy last, when both files can be written.
        self.engine.control(now, Control::Copy(dev));
        self.go_on()
    }

    /// Returns true if a member can have a successor: it answers, is filled, and the array is ready.
    // A member that is being filled has nothing whole to copy, and its writes go
    // elsewhere.
    pub fn copies(&self, dev: Dev) -> bool {
        let is_filled = !self.engine.controller().condition().unfilled.contains(dev);
        let is_member = dev.index() < self.config.members;
        is_member && is_filled && self.answers(dev) && self.engine.status() == Status::Ready
    }

    /// Returns the member that has a successor, the successor's file, and how far it has come.
    pub fn succession(&self) -> Option<(Dev, &Path, SuccessionPhase)> {
        let mut devices = self.devices.iter().zip(0..);
        let (device, successor, dev) =
            devices.find_map(|(device, dev)| Some((device, device.successor.as_ref()?, Dev(dev))))?;
        // Quiet: nothing of the member is in flight, so both files hold the same.
        let is_quiet =
            device.is_held && device.under_way.is_empty() && device.searches.is_empty() && successor.is_idle();
        let phase = match (successor.is_whole, is_quiet) {
            (false, _) => SuccessionPhase::Copying,
            (true, false) => SuccessionPhase::Copied,
            (true, true) => SuccessionPhase::Quiet,
        };
        Some((dev, &successor.path, phase))
    }

    /// Returns what became of a successor that was dropped, once.
    pub const fn take_dropped_successor(&mut self) -> Option<DroppedSuccessor> {
        self.dropped.take()
    }

    /// Drops the successor that there is, as before a stop.
    ///
    /// # Errors
    /// If the executor has stopped, or does now.
    pub fn drop_successors(&mut self) -> Result<(), FilesError> {
        for dev in (0..self.devices.len()).map(|dev| Dev(dev as u8)) {
            self.drop_successor(dev, FilesError::StoppedBefore, false);
        }
        self.go_on()
    }

    /// Begins to have a successor that is [copied](SuccessionPhase::Copied) take its member's place: the member's steps wait,
    /// and those in flight end. Once all is [quiet](SuccessionPhase::Quiet), [`label_successor`](Self::label_successor) and
    /// [`hand_over`](Self::hand_over) have to follow.
    pub fn begin_hand_over(&mut self) {
        // Only the member's own steps wait; clients and the cache go on with the
        // others.
        if let Some((dev, _, SuccessionPhase::Copied)) = self.succession() {
            self.devices[dev.index()].is_held = true;
        }
    }

    /// Makes it durable that a successor, with which all is [quiet](SuccessionPhase::Quiet), can be opened in its member's
    /// place, while other members are given steps. Once that is durable either file is the member's, whichever the next
    /// [`open`](Self::open) is given. Nothing must be done from then on but to note the new path, durably, and to
    /// [hand over](Self::hand_over).
    ///
    /// A file that hangs meanwhile is dropped after the time-out of devices.
    ///
    /// # Errors
    /// If the executor stops.
    pub fn label_successor(&mut self) -> Result<SuccessorLabelling, FilesError> {
        let Some((dev, path, phase)) = self.succession() else { return Ok(SuccessorLabelling::Dropped) };
        let path = path.to_owned();
        let labelling = self.devices[dev.index()].successor.as_mut().and_then(|successor| successor.labelling.as_mut());
        let labelled = match labelling {
            Some(labelling) => labelling.poll(self.config.time_limit()),
            None if phase == SuccessionPhase::Quiet => self.begin_label(dev, &path),
            None => None,
        };
        match labelled {
            None => Ok(SuccessorLabelling::UnderWay),
            Some(Ok(())) => {
                self.devices[dev.index()].successor.iter_mut().for_each(|successor| successor.labelling = None);
                Ok(SuccessorLabelling::Durable)
            }
            Some(Err(why)) => {
                self.drop_successor(dev, why, false);
                self.go_on()?;
                Ok(SuccessorLabelling::Dropped)
            }
        }
    }

    /// Begins to write the label of a successor; returns what came of it where there are no threads.
    fn begin_label(&mut self, dev: Dev, path: &Path) -> Option<Result<(), FilesError>> {
        let (config, at) = (self.successor_config(dev, path), path.to_owned());
        // The label says whose place it takes. With the roster as it was, either
        // file is the member then.
        let heir_of = self.roster.generation(dev.index());
        let stamp = LabelStamp {
            origin: self.roster.origin(),
            generation: heir_of.wrapping_add(2),
            count: self.roster.event_count(),
        };
        // The marks go along: they are the newest that the member has.
        let marks = (self.marks.first_write(), self.marks.place());
        let successor = self.devices[dev.index()].successor.as_mut()?;
        // The thread may be abandoned; without the lock another process could
        // take the file.
        let (known, locked) = (Some(successor.identity), Arc::clone(&successor.file));
        let label = move |os: &dyn OsInterface| {
            let file = replacement::open_beside(os, &at, known)?;
            let label = SuccessorLabel::Whole { stamp, heir_of, marks };
            let labelled = replacement::label_successor(os, &*file, &config, &label, dev.index(), &at);
            drop(locked);
            labelled
        };
        if self.os.is_in_line() {
            return Some(label(&*self.os));
        }
        match FileWork::begin(&self.os, path, label) {
            Ok(labelling) => successor.labelling = Some(labelling),
            Err(why) => return Some(Err(why)),
        }
        None
    }

    /// Returns true if the label of a successor is being written.
    pub fn is_labelling(&self) -> bool {
        self.devices
            .iter()
            .filter_map(|device| device.successor.as_ref())
            .any(|successor| successor.labelling.is_some())
    }

    /// Drops a successor that is [labelled](Self::label_successor), since its path could not be noted, for this reason.
    ///
    /// # Errors
    /// If the executor has stopped, or does now.
    pub fn refuse_successor(&mut self, source: io::Error) -> Result<(), FilesError> {
        let Some((dev, path, _)) = self.succession() else { return Ok(()) };
        let path = path.to_owned();
        let (config, at, origin) = (self.successor_config(dev, &path), path.clone(), self.roster.origin());
        let known = self.devices[dev.index()].successor.as_ref().map(|successor| successor.identity);
        let unlabelled = patiently(&self.os, &path, self.config.patience, move |os| {
            let file = replacement::open_beside(os, &at, known)?;
            replacement::label_successor(os, &*file, &config, &SuccessorLabel::Unfilled(origin), dev.index(), &at)
        });
        // With its label nobody takes it for the member but who names it in its place, and not after the next start.
        drop(unlabelled);
        self.drop_successor(dev, FilesError::Io { path, what: "name it as the member's", source }, false);
        self.go_on()
    }

    /// Has a successor that is [labelled](Self::label_successor) take its member's place.
    ///
    /// # Errors
    /// If the executor stops over it: the next [`open`](Self::open) finds the successor in its place.
    pub fn hand_over(&mut self) -> Result<(), FilesError> {
        let Some((dev, ..)) = self.succession() else { return Ok(()) };
        let Some(successor) = self.devices[dev.index()].successor.take() else { return Ok(()) };
        let SuccessorDevice { path, file, identity, backend, direct, .. } = *successor;
        self.config = self.successor_config(dev, &path);
        let device = &mut self.devices[dev.index()];
        let old = device.backend.replace(backend);
        // The old file is closed with its backend; its content stays as it was, and
        // its label is older from now on.
        (device.file, device.handle, device.direct) = (Some(identity), Some(file), direct);
        (device.is_held, device.hangs, device.abandoned, device.error) = (false, false, None, None);
        if let Some(mut old) = old {
            // It has nothing to do.
            old.end(Instant::now() + self.config.patience, None);
        }
        // Its own list is empty: it can keep what its predecessor could not.
        self.bad_pages.forget(dev);
        self.roster.succeed(dev.index());
        // Named before the plans go on: what they write now is on the new file
        // alone.
        self.name_files()?;
        let now = self.now();
        self.engine.control(now, Control::EndCopy(CopyEnd::Succeeded));
        self.send_queued(dev);
        self.go_on()
    }

    /// Returns the configuration with this file in a member's place.
    fn successor_config(&self, dev: Dev, path: &Path) -> FilesConfig {
        let mut config = self.config.clone();
        let device = &mut config.devices[dev.index()];
        let options = device.options;
        device.options = DeviceOptions { workers: options.workers, direct: options.direct, ..DeviceOptions::default() };
        path.clone_into(&mut device.path);
        config
    }

    /// Notes that a member is copied, or cannot be.
    pub(super) fn note_copied(&mut self, outcome: CopyOutcome) -> Result<(), FilesError> {
        let Some((dev, ..)) = self.succession() else { return Ok(()) };
        match outcome {
            CopyOutcome::Whole => {
                self.devices[dev.index()].successor.iter_mut().for_each(|successor| successor.is_whole = true);
                Ok(())
            }
            CopyOutcome::Unreadable(BadPage { page, .. }) => {
                let device = &self.config.devices[dev.index()];
                let at = device.offset + page * self.engine.shape().page_bytes();
                // The position in the file is told, since the user looks for it
                // there.
                let why = FilesError::UnreadablePage { path: device.path.clone(), at };
                self.drop_successor(dev, why, false);
                self.go_on()
            }
        }
    }

    /// Drops the successor of a member that is lost.
    pub(super) fn lose_successor(&mut self, dev: Dev) {
        let path = self.config.devices[dev.index()].path.clone();
        self.drop_successor(dev, FilesError::LostBefore(path), true);
    }

    /// Drops the successor of a member that takes too long, which costs nothing.
    pub(super) fn time_out_successor(&mut self, dev: Dev, limit: Duration) -> Result<(), FilesError> {
        if let Some((_, path, _)) = self.succession() {
            let why = FilesError::NoAnswer { path: path.to_owned(), limit };
            self.drop_successor(dev, why, false);
        }
        self.go_on()
    }

    /// Goes on without a successor, if there is one: what the member has done is done.
    pub(super) fn drop_successor(&mut self, dev: Dev, why: FilesError, is_fit: bool) {
        // Nothing of the array changes with a successor: an error of it fails no
        // step.
        let Some(mut successor) = self.devices[dev.index()].successor.take() else { return };
        for command in successor.backend.close() {
            self.bytes.give_back(command.bytes);
        }
        if successor.backend.is_busy() || successor.labelling.is_some() {
            // Nobody waits for what it is at work on; it keeps its file, and the lock of it.
            let (identity, path) = (successor.identity, successor.path.clone());
            let file = Arc::downgrade(&successor.file);
            self.devices[dev.index()].abandoned = Some(AbandonedFile { identity, path, file });
        }
        if successor.backend.is_busy() {
            if let (Some(ring), Some((life, operations))) = (&mut self.ring, successor.backend.left_to_ring()) {
                ring.abandon(life, operations);
            }
        } else {
            successor.backend.end(Instant::now() + self.config.patience, None);
        }
        let SuccessorDevice { path, queue, ended, copies, waiting, .. } = *successor;
        for queued in queue {
            self.bytes.give_back(queued.command.bytes);
        }
        self.devices[dev.index()].is_held = false;
        self.dropped = Some(DroppedSuccessor { dev, path, why, is_fit });
        // Copies that the member is still read for end with that.
        let written = copies.into_iter().filter(|copy| copy.is_read).map(|copy| copy.issue);
        let copied = waiting.into_iter().chain(written).map(|issue| (issue, StepOutcome::Ok));
        for (issue, outcome) in ended.into_iter().chain(copied) {
            self.complete(issue, outcome);
        }
        let now = self.now();
        self.engine.control(now, Control::EndCopy(CopyEnd::Dropped));
        // A member that failed has its backlog failed elsewhere.
        if !self.devices[dev.index()].failed {
            self.send_queued(dev);
        }
    }

    /// Begins to copy pages to a successor, once no write of them is in flight.
    pub(super) fn begin_duplicate(&mut self, dev: Dev, issue: Issue) {
        let Step::Duplicate { ext, src } = *self.engine.step(issue) else { unreachable!("it copies pages") };
        let device = &self.devices[dev.index()];
        let Some(successor) = &device.successor else { return self.complete(issue, StepOutcome::Ok) };
        // Writes that are in flight on either file: a copy of an older read would
        // overwrite them on the successor.
        let in_flight =
            device.under_way.iter().filter_map(|command| command.issue).chain(successor.owed.iter().copied());
        let mut written = in_flight.filter_map(|other| self.engine.step(other).changes());
        let is_written = written.any(|written| overlap(written, ext));
        let Some(successor) = &mut self.devices[dev.index()].successor else { return };
        if is_written {
            successor.waiting.push_back(issue);
            return;
        }
        successor.copies.push(ActiveCopy { issue, ext, is_read: false });
        // Without a source the member is read. With one, the page was made up
        // because the member cannot read it.
        if src == Buf::None {
            return self.send_or_queue(dev, issue);
        }
        let (bytes, range) = self.bytes.handed(&self.engine, issue.op, &Step::Write { ext, src, fua: false });
        self.write_copy(dev, issue, bytes, range);
    }

    /// Takes what a member has in pages that are to be copied.
    pub(super) fn copy_read(&mut self, dev: Dev, issue: Issue, bytes: SharedBuffer) {
        let range = 0..bytes.len();
        self.write_copy(dev, issue, bytes, range);
    }

    fn write_copy(&mut self, dev: Dev, issue: Issue, bytes: SharedBuffer, range: Range<usize>) {
        let copies = self.devices[dev.index()].successor.as_mut().map(|successor| &mut successor.copies);
        let Some(copy) = copies.and_then(|copies| copies.iter_mut().find(|copy| copy.issue == issue)) else {
            // The successor that it was read for is dropped.
            self.bytes.give_back(bytes);
            return self.complete(issue, StepOutcome::Ok);
        };
        copy.is_read = true;
        let offset = self.config.devices[dev.index()].offset + copy.ext.first() * self.engine.shape().page_bytes();
        // No FUA: the sync of the label makes the pages durable as well.
        let work = DeviceAction::Write { offset, fua: false };
        self.queue_for_successor(dev, DeviceCommand { issue: Some(issue), work, bytes, range }, None);
    }

    /// Gives the successor of a device, if there is one, what the device is given.
    pub(super) fn give_successor(
        &mut self,
        dev: Dev,
        issue: Issue,
        work: DeviceAction,
        bytes: &SharedBuffer,
        range: Range<usize>,
    ) {
        let Some(successor) = &mut self.devices[dev.index()].successor else { return };
        // The step ends when both files have done it.
        successor.owed.push(issue);
        let command = DeviceCommand { issue: Some(issue), work, bytes: Arc::clone(bytes), range };
        let writes = self.engine.step(issue).changes();
        self.queue_for_successor(dev, command, writes);
    }

    fn queue_for_successor(&mut self, dev: Dev, command: DeviceCommand, writes: Option<destage_plan::Ext>) {
        let Some(successor) = &mut self.devices[dev.index()].successor else { return };
        let DeviceCommand { issue, work, bytes, range } = command;
        let (bytes, range) = match successor.direct {
            Some(Ok(align)) => self.bytes.aligned(bytes, range, align as usize),
            _ => (bytes, range),
        };
        successor.queue.push_back(QueuedCommand { command: DeviceCommand { issue, work, bytes, range }, writes });
        self.send_to_successor(dev);
    }

    /// Sends a successor what waits, as far as there is room and the pages are not being copied.
    fn send_to_successor(&mut self, dev: Dev) {
        let since = self.now();
        let Some(successor) = &mut self.devices[dev.index()].successor else { return };
        let (mut at, mut has_sent) = (0, false);
        while at < successor.queue.len() && successor.backend.has_room() {
            // A write that comes while its page is copied waits for the copy,
            // which has the older bytes.
            if successor.queue[at].writes.is_some_and(|ext| successor.copies_any_of(ext)) {
                at += 1;
                continue;
            }
            let Some(QueuedCommand { command, .. }) = successor.queue.remove(at) else { break };
            successor.under_way.push_back(InFlight { issue: command.issue, since });
            successor.backend.send(command);
            has_sent = true;
        }
        if has_sent {
            self.watch(since);
        }
    }

    /// Ends a step that a device has done, unless its successor has not.
    pub(super) fn end_step(&mut self, dev: Dev, issue: Issue, outcome: StepOutcome) {
        if let Some(successor) = &mut self.devices[dev.index()].successor {
            // The result stays until the successor has done the step too.
            if successor.owed.contains(&issue) {
                successor.ended.push((issue, outcome));
                return;
            }
            // One that could not be read is copied no more.
            successor.copies.retain(|copy| copy.issue != issue);
        }
        self.complete(issue, outcome);
    }

    /// Takes in what a successor has done, and gives it more.
    pub(super) fn finish_successor(&mut self, dev: Dev) {
        let Some(successor) = &mut self.devices[dev.index()].successor else { return };
        let mut results = std::mem::take(&mut self.device_results);
        successor.backend.results(&mut results);
        for (command, done) in results.drain(..) {
            let Some(successor) = &mut self.devices[dev.index()].successor else {
                self.bytes.give_back(command.bytes);
                continue;
            };
            let issue = command.issue.expect("it is given steps alone");
            successor.forget(issue);
            self.bytes.give_back(command.bytes);
            // The successor's error costs the successor alone.
            if let Err(CommandFailure { source, .. }) = done {
                let why = FilesError::Io { path: successor.path.clone(), what: command.work.what(), source };
                self.drop_successor(dev, why, false);
                continue;
            }
            if let Some(at) = successor.copies.iter().position(|copy| copy.issue == issue) {
                successor.copies.swap_remove(at);
                self.complete(issue, StepOutcome::Ok);
                continue;
            }
            successor.owed.retain(|owed| *owed != issue);
            if let Some(at) = successor.ended.iter().position(|(ended, _)| *ended == issue) {
                let (_, outcome) = successor.ended.swap_remove(at);
                self.complete(issue, outcome);
            }
        }
        self.device_results = results;
        // What was in flight may have kept copies back, and copies may have kept writes back.
        let waiting =
            self.devices[dev.index()].successor.as_mut().map(|successor| std::mem::take(&mut successor.waiting));
        for issue in waiting.into_iter().flatten() {
            self.begin_duplicate(dev, issue);
        }
        self.send_to_successor(dev);
    }
}
