//! Moves the NVRAM from the device that it lies on to its spare place, a file, when that device fails, hangs, or is replaced.
//!
//! Memory has all that the NVRAM holds. So nothing is read from the device:
//!
//! 1. The store is given nothing more. Changes that it has begun end first, unless they hang.
//! 2. The file is made, with all slots in use and the next epoch, and is made durable with its name.
//! 3. One write of the roster makes it the array's: the epoch there is that of the file, and larger than that on the device. A
//!    start finds the file by that, whichever place its configuration names.
//! 4. The members' marks say the new epoch. Then changes that had failed are made anew, and what waits for commits goes on.
//! 5. The device counts as lost from step 3 on, and the steps that it has failed fail, unless it hangs and is kept.
//!
//! A crash before step 3 leaves the NVRAM on the device as it was, and a file that is nobody's.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use destage_plan::{Controller, Dev, DevSet, Issue, NvPut, StepOutcome};

use super::executor::FileExecutor;
use super::nvram_move::{MovePhase, MoveReason, NvramMove};
use crate::files::config::NvramPlace;
use crate::files::error::FilesError;
use crate::files::io::backend::CommandBackend;
use crate::files::io::file::{FileIdentity, SyncPoint};
use crate::files::io::patience::patiently;
use crate::files::io::threads::pool::WorkerPool;
use crate::files::layout::journal::ArrayEpoch;
use crate::files::layout::record::JournalCommit;
use crate::files::nvram::intents::IntentsFile;
use crate::files::nvram::journal::NvramFile;
use crate::files::nvram::store::StateStore;
use crate::files::open::folders::{folder, sync_folder};
use crate::files::open::prepare::make_nvram;
use crate::files::open::replacement::state_goes_direct;
use crate::files::open::spare_nvram::open_spare;

/// Bounds the bytes of slots that are copied at a time, and so the time for which a file is waited for at once.
const PORTION: usize = 1 << 20;
/// Bounds the slots of them.
const PORTION_SLOTS: usize = 1 << 12;

impl<C: Controller> FileExecutor<C> {
    /// Returns true while the NVRAM leaves the device that it lies on: the store must be given nothing.
    pub const fn is_moving(&self) -> bool {
        self.moving.is_some()
    }

    /// Has the NVRAM leave its device, for this reason. Without a spare place the executor stops.
    // Without a spare place there is nowhere to go, and a device that failed a sync
    // must not be trusted.
    pub(super) fn leave_home(&mut self, reason: MoveReason, why: FilesError) -> Result<(), FilesError> {
        if self.config.spare().is_none() {
            return Err(self.stop_over_home(reason, why));
        }
        self.begin_move(reason, Some(why));
        Ok(())
    }

    fn begin_move(&mut self, reason: MoveReason, why: Option<FilesError>) {
        let Some(dev) = self.config.home() else { return };
        // Nothing more is sent to the device: its steps would fail one by one, and
        // each would be told as a loss.
        self.devices[dev].is_held = true;
        let Some(moving) = &mut self.moving else {
            let (phase, steps, changes) = (MovePhase::Waiting, Vec::new(), Vec::new());
            self.moving = Some(NvramMove { phase, reason, why, steps, changes });
            return;
        };
        // The worst of all reasons counts: a sync that failed is worse than a hang,
        // whichever came first.
        moving.reason = moving.reason.max(reason);
        moving.why = moving.why.take().or(why);
    }

    /// Keeps a step of the device that failed until the NVRAM lies elsewhere.
    pub(super) fn keep_failed_step(&mut self, issue: Issue) {
        self.moving.as_mut().expect("the NVRAM leaves the device").steps.push(issue);
    }

    /// Keeps a change that the store did not make, to be made anew.
    pub(super) fn keep_change(&mut self, issue: Issue) {
        self.moving.as_mut().expect("the NVRAM leaves the device").changes.push(issue);
    }

    /// Has a store that hangs over the NVRAM write no more intents, and leaves it; returns false if it hangs over these.
    pub(super) fn abandon_store(&mut self) -> bool {
        // The gate keeps the old store, which may wake up later, from the intents'
        // file that the new one writes.
        let is_left = self.store_gate.shut();
        if let Some(moving) = self.moving.as_mut().filter(|moving| is_left && moving.phase == MovePhase::Waiting) {
            moving.phase = MovePhase::Abandoned;
        }
        is_left
    }

    /// Goes on with moving the NVRAM, as far as it can.
    pub(super) fn go_on_moving(&mut self) -> Result<(), FilesError> {
        let Some(moving) = &self.moving else { return Ok(()) };
        match moving.phase {
            // What the store has begun ends first; results that come later could
            // not be told from new ones.
            MovePhase::Waiting if self.store.is_busy() => Ok(()),
            MovePhase::Waiting | MovePhase::Abandoned => self.move_nvram(),
            // Only when the members' marks name the new epoch does the old place
            // count for nothing, whatever a start finds.
            MovePhase::Moved if !self.marks.is_noted() => Ok(()),
            MovePhase::Moved => {
                self.moving = None;
                self.group_commit.synced();
                self.commits_durable()?;
                self.send_backlog();
                self.send_sync();
                Ok(())
            }
        }
    }

    /// Moves the NVRAM, and goes on without the device.
    fn move_nvram(&mut self) -> Result<(), FilesError> {
        let Some((dev, path)) = self.config.home().zip(self.config.spare().map(Path::to_owned)) else { return Ok(()) };
        // A larger epoch than that on the device, so the device's journal is older
        // from the moment the roster names this one.
        let epoch = self.roster.epoch() + 1;
        let made = self.make_spare(&path, epoch);
        let (nvram, identity) = match made {
            Ok(made) => made,
            Err(error) => return Err(self.stop_without_spare(error)),
        };
        let Some(mut moving) = self.moving.take() else { return Ok(()) };
        let loses = match moving.reason {
            MoveReason::Failed | MoveReason::Spoiled => true,
            // A device that hangs may answer again. It is given up only if nothing
            // is lost with it.
            MoveReason::Hangs => self.engine.controller().can_spare(Dev(dev as u8)),
            // Whoever ordered it sees to that.
            MoveReason::Ordered => false,
        };
        self.roster.move_nvram(epoch);
        if loses {
            self.standing_in -= DevSet::one(Dev(dev as u8));
            self.roster.leave(dev);
        }
        // The step by which the file becomes the array's NVRAM: one sector, so it
        // is torn by no crash.
        self.sync_roster(SyncPoint::MovedRoster)?;
        self.marks.begin_epoch(epoch);
        // In the same write as the epoch, so members learn both at once.
        self.marks.name(self.roster.generations());
        self.adopt_nvram(nvram, identity, &path)?;
        // In the order in which they were begun, before those that were not.
        let unmade = std::mem::take(&mut self.store_under_way).into_iter().filter_map(|change| change.issue);
        let changes: Vec<Issue> = moving.changes.drain(..).chain(unmade).collect();
        // In front of what waits, and in their order: commits take effect as they
        // were issued.
        changes.into_iter().rev().for_each(|issue| self.store_backlog.push_front(issue));
        self.counted = self.roster.event_count().to;
        let (why, steps) = (moving.why.take(), std::mem::take(&mut moving.steps));
        self.moving = Some(NvramMove { phase: MovePhase::Moved, ..moving });
        self.lose_home(Dev(dev as u8), why.filter(|_| loses), steps)?;
        self.send_backlog();
        self.go_on()
    }

    /// Goes on without the device on which the NVRAM lay, if there is a reason, or with it.
    fn lose_home(&mut self, dev: Dev, why: Option<FilesError>, steps: Vec<Issue>) -> Result<(), FilesError> {
        self.devices[dev.index()].is_held = false;
        for issue in steps {
            // Failed steps waited for the roster: now the loss of the device is
            // noted, and they may be told.
            self.complete(issue, StepOutcome::Failed(dev));
        }
        let Some(why) = why else {
            self.send_queued(dev);
            return Ok(());
        };
        self.devices[dev.index()].error.get_or_insert(why);
        self.fail(dev)?;
        self.finish_device(dev)?;
        // A device that hangs is left at once; waiting for its commands would be
        // waiting for nothing.
        if self.is_overdue(dev) {
            self.leave_device(dev)?;
        }
        Ok(())
    }

    /// Makes the file of the NVRAM with all that is in it, durably, with its name.
    fn make_spare(&mut self, path: &Path, epoch: u32) -> Result<(NvramFile, FileIdentity), FilesError> {
        let (config, at, patience) = (self.config.with_nvram_in(path), path.to_owned(), self.config.patience);
        let stamp = (ArrayEpoch { drawn: self.roster.origin().drawn, epoch }, self.roster.event_count().to);
        let mut made = patiently(&self.os, path, patience, move |os| {
            let (file, identity) = open_spare(os, &config, &at)?;
            Ok((make_nvram(file, &config, stamp)?, identity))
        })?;
        // In portions, each on the patient thread: one that hangs is noticed after
        // one portion.
        let mut next = Some(0);
        while let Some(first) = next {
            let (mut puts, mut bytes, mut crcs) = (Vec::new(), Vec::new(), Vec::new());
            next = None;
            for held in self.bytes.nvram().held_from(first) {
                if bytes.len() >= PORTION || puts.len() >= PORTION_SLOTS {
                    next = Some(held.slot.index);
                    break;
                }
                puts.push(NvPut { len: held.len(), ..NvPut::tag(held.slot, held.tag) });
                bytes.extend_from_slice(held.bytes);
                // The checksum is falsified on purpose, so that a slot that was
                // damaged before stays known as damaged.
                crcs.push(crc32c::crc32c(held.bytes) ^ u32::from(held.is_damaged));
            }
            let (mut nvram, at) = (made.0, path.to_owned());
            made.0 = patiently(&self.os, path, patience, move |_| {
                let commit = JournalCommit { puts: &puts, bytes: &bytes, frees: &[], crcs: Some(&crcs) };
                nvram.append(&commit).map_err(FilesError::io(&at, "write to it"))?;
                Ok(nvram)
            })?;
        }
        if self.config.is_direct() {
            self.buffered_state[0] = state_goes_direct(&self.os, path, patience, made.0.state_file())?;
        }
        let (mut nvram, at) = (made.0, path.to_owned());
        let nvram = patiently(&self.os, path, patience, move |os| {
            // The data first, the name afterwards: a name without data would be
            // taken for an NVRAM.
            nvram.sync(SyncPoint::MovedNvram).map_err(FilesError::io(&at, "make it durable"))?;
            sync_folder(os, folder(&at), SyncPoint::MovedFolder)?;
            Ok(nvram)
        })?;
        Ok((nvram, made.1))
    }

    /// Has a new store serve the NVRAM in its spare place. The old one writes nothing more but to the device.
    fn adopt_nvram(&mut self, nvram: NvramFile, identity: FileIdentity, path: &Path) -> Result<(), FilesError> {
        // What the file has written so far is part of this life's traffic.
        let (written, syncs) = nvram.borne();
        self.accounts[0].add(0, written, syncs);
        let intents = IntentsFile::resume(Arc::clone(&self.roster_file), self.config.rows, &self.bytes.nvram().intents);
        let store = StateStore::resume(nvram, intents, Arc::clone(&self.accounts));
        self.store_gate = store.gate();
        let new = if self.os.is_in_line() {
            Ok(WorkerPool::in_line(self.config.depth, vec![store]))
        } else {
            WorkerPool::start("destage-nvram", self.config.depth, &self.wakeup, vec![store])
        };
        let new = new.map_err(FilesError::io(path, "start its thread")).map_err(|error| self.stop(error))?;
        let mut old = std::mem::replace(&mut self.store, new);
        // What the old store had not begun is issued anew, by the caller.
        drop(old.close());
        if !old.is_busy() {
            old.end(Instant::now() + self.config.patience, None);
        }
        if let Some(region) = self.home.take() {
            // Weak: as long as the old store holds the region, its device must not
            // be used as a replacement.
            self.left_home = Some((self.config.nvram_path().to_owned(), Arc::downgrade(&region)));
        }
        self.config.nvram = NvramPlace::Own(path.to_owned());
        self.state[0] = identity;
        Ok(())
    }

    /// Ends this life over the device on which the NVRAM lies. If that was spoiled by a sync that failed, what it has is not
    /// what the next start would read, and so not the array's any more.
    fn stop_over_home(&mut self, reason: MoveReason, error: FilesError) -> FilesError {
        // Noted before the stop, so that the next start does not read a journal
        // that the device only seems to have.
        if let Some(dev) = self.config.home().filter(|_| reason == MoveReason::Spoiled)
            && let Err(not_noted) = self.distrust(DevSet::one(Dev(dev as u8)))
        {
            return not_noted;
        }
        self.timeout.is_over |= reason == MoveReason::Hangs;
        self.stop(error)
    }

    /// Ends this life, since the NVRAM can lie nowhere.
    fn stop_without_spare(&mut self, error: FilesError) -> FilesError {
        let Some(NvramMove { reason, why, phase, .. }) = self.moving.take() else { return self.stop(error) };
        self.timeout.is_over |= phase == MovePhase::Abandoned;
        let why = why.map_or_else(String::new, |why| format!("{why}; "));
        self.stop_over_home(reason, FilesError::NoSpareNvram { why, error: Box::new(error) })
    }

    /// Moves the NVRAM away from a device that is to be replaced or taken out, and waits for that.
    pub(super) fn clear_home(&mut self, dev: Dev) -> Result<(), FilesError> {
        if self.config.home() != Some(dev.index()) {
            return Ok(());
        }
        // Each member's marks are to say where the NVRAM lies, and those of one that is handed over wait for that, which is
        // for whoever asks.
        if let Some((member, path, _)) = self.succession().filter(|one| self.devices[one.0.index()].is_held) {
            return Err(FilesError::HandsOver(member, path.to_owned()));
        }
        self.begin_move(MoveReason::Ordered, None);
        // It may hang, and nobody waits for what is replaced.
        self.abandon_store();
        self.await_nvram()
    }

    /// Waits until the NVRAM does not move.
    pub(super) fn await_nvram(&mut self) -> Result<(), FilesError> {
        self.until(|files| !files.is_moving())
    }

    /// Returns true if a command of a device takes longer than it may.
    fn is_overdue(&self, dev: Dev) -> bool {
        // Without a time-out a command may take for ever, so it is never overdue.
        let limit = self.config.device_timeout.unwrap_or(Duration::MAX);
        let waits = |since| Duration::from_nanos(self.now().since(since).0) >= limit;
        self.devices[dev.index()].oldest().is_some_and(waits)
    }
}
