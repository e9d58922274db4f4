//! Makes operations fail while an array is served, made, opened or replaced.
//!
//! Whoever asked for the operation must hear of the failure: the executor stops, a device has failed, or the call ends
//! with an error.

use std::sync::Arc;

use destage_exec::{ExistingFiles, FileExecutor, FilesError, IoFault, RecordingOs, SyncPoint};
use destage_plan::{Dev, DevSet};

use super::{FileLife, FilesReport, HistoryScene, KnownArray, LifeOutcome};
use crate::RandomDraws;

/// An array cannot be made, since one of the operations fails; then it can.
pub(super) fn fails_to_be_made(
    scene: &HistoryScene,
    os: &RecordingOs,
    fresh: &KnownArray,
    report: &mut FilesReport,
) -> Result<(), String> {
    let mut dice = RandomDraws::part(scene.seed, u64::MAX / 4);
    // A copy of the system, so the array that is tried afterwards is made on a clean one.
    let os = os.end(false);
    report.faults += 1;
    match dice.below(8) {
        0 => os.fail_sync(SyncPoint::CreateEmptied, IoFault::Broken),
        1 => os.fail_sync(SyncPoint::CreateDevice, IoFault::Broken),
        2 => os.fail_sync(SyncPoint::CreateIntents, IoFault::Broken),
        3 => os.fail_sync(SyncPoint::CreateNvram, IoFault::Broken),
        4 => os.fail_sync(SyncPoint::CreateFolder, IoFault::Broken),
        5 => os.fail_after(dice.below(40), IoFault::Broken),
        _ => os.fail_after(dice.below(40), IoFault::NoRoom),
    }
    let create = || {
        let system = Arc::new(os.clone());
        FileExecutor::create_on(system, scene.controller(), scene.config(&fresh.paths), ExistingFiles::Refuse)
            .map(|_| ())
    };
    let created = create();
    match (created, os.struck()) {
        (Err(FilesError::Io { .. }), Some(_)) => {}
        (Err(error), _) => return Err(format!("it cannot be made: {error}")),
        (Ok(()), Some(path)) => {
            return Err(format!("it is made, though an operation on {} failed", path.display()));
        }
        (Ok(()), None) => return Ok(()),
    }
    // What a failed making leaves must not keep the next one from succeeding: users simply try again.
    create().map_err(|error| format!("what is left of an array that could not be made is in its way: {error}"))
}

impl FileLife<'_> {
    /// Of the members that are noted as lost some answer at the next start: they have missed writes.
    pub(super) fn answer_again(&self, left: &RecordingOs) {
        // From a copy of the dice, so this choice changes no later draw of the life.
        let mut dice = RandomDraws::new(!self.dice.clone().draw());
        let noted = (self.dead - self.window) & self.scene.members();
        for dev in noted.iter().filter(|dev| !self.files.answers(*dev)) {
            if dice.one_in(2) {
                left.set_broken(&self.known.paths[dev.index()], false);
            }
        }
    }

    /// Opening what is left is cut short by an error, to be tried again.
    pub(super) fn fails_to_open(
        &mut self,
        left: &RecordingOs,
        known: &mut KnownArray,
        report: &mut FilesReport,
    ) -> Result<(), String> {
        match self.dice.below(if self.scene.options.errors { 6 } else { 4 }) {
            0 => left.fail_after(self.dice.below(24), IoFault::Broken),
            1 => left.fail_sync(SyncPoint::OpenNvram, IoFault::Broken),
            2 => left.fail_sync(SyncPoint::OpenIntents, IoFault::Broken),
            3 => left.fail_sync(SyncPoint::OpenDevice, IoFault::Broken),
            4 => left.fail_sync(SyncPoint::OpenFolder, IoFault::Broken),
            _ => left.fail_after(self.dice.below(24), IoFault::NoRoom),
        }
        report.faults += 1;
        let opened =
            FileExecutor::open_on(Arc::new(left.clone()), self.scene.controller(), self.scene.config(&known.paths));
        let home = self.scene.home.map(|home| &known.paths[home.index()]);
        known.homeless |= home.is_some() && left.struck().as_ref() == home;
        match opened {
            Err(FilesError::Io { .. }) => {}
            Err(other) => return Err(format!("it cannot be opened: {other}")),
            // Whoever starts the array sees that a device failed. Too many failed devices are the subject of other
            // tests.
            Ok(files) => {
                let down: DevSet = (0..known.paths.len() as u8).map(Dev).filter(|dev| !files.answers(*dev)).collect();
                if let Some(path) = left.struck()
                    && !down.iter().any(|dev| known.paths[dev.index()] == path)
                {
                    return Err(format!("it is opened, though an operation on {} failed", path.display()));
                }
                for dev in down.iter() {
                    known.lost.insert(dev);
                    known.down.insert(dev);
                    known.excused = true;
                    left.take_away(&known.paths[dev.index()]);
                    if self.scene.holder() == Some(dev) {
                        known.doubt_all(self.scene);
                    }
                }
                known.lost = known.lost & self.scene.members();
                known.broken |= self.scene.too_many(known.lost);
            }
        }
        left.take_fault();
        Ok(())
    }

    /// One of the coming operations fails.
    pub(super) fn fault(&mut self, report: &mut FilesReport) {
        let fault = if self.dice.one_in(2) { IoFault::Broken } else { IoFault::NoRoom };
        let lost = self.may_be_lost();
        // One planted fault at a time: two of them could excuse each other.
        if self.faulty || !(lost & self.scene.members()).is_empty() && !self.dice.one_in(10) {
            return;
        }
        // The fault may strike any device, so none may be one whose loss costs data.
        if (0..self.known.paths.len() as u8).any(|dev| self.costs_what_parity_does_not_cover(Dev(dev))) {
            return;
        }
        report.faults += 1;
        self.scene.diary.note(|| format!("an operation is to fail: {fault:?}"));
        self.faulty = true;
        if self.dice.one_in(2) {
            self.os.fail_after(self.dice.below(12), fault);
        } else {
            let points = [SyncPoint::Flush, SyncPoint::Flush, SyncPoint::Fua, SyncPoint::Commit, SyncPoint::Intents];
            let point = self.dice.pick(&points);
            // In histories that lose the intents a start relies on the marks, so their sync fails instead.
            let marks = self.scene.options.bereft && point == SyncPoint::Intents;
            self.os.fail_sync(if marks { SyncPoint::Marks } else { point }, fault);
        }
    }

    /// The note that a device is lost fails.
    pub(super) fn roster_fails(&mut self, report: &mut FilesReport) {
        report.faults += 1;
        self.scene.diary.note(|| "the note of that is to fail".to_owned());
        self.faulty = true;
        self.os.fail_sync(SyncPoint::Roster, IoFault::Broken);
    }

    /// A file is to take a device's place, and that fails.
    pub(super) fn replacing_fails(&mut self, report: &mut FilesReport) {
        report.faults += 1;
        let points = [SyncPoint::ReplaceDevice, SyncPoint::ReplaceFolder, SyncPoint::Roster];
        self.os.fail_sync(self.dice.pick(&points), IoFault::Broken);
    }

    /// Decides how the life goes on if a file that was to take a device's place did not.
    pub(super) fn has_not_replaced(
        &mut self,
        dev: Dev,
        replaced: &Result<(), FilesError>,
        report: &mut FilesReport,
    ) -> Result<Option<LifeOutcome>, String> {
        let Some(struck) = self.os.struck() else {
            self.os.take_fault();
            return Ok(None);
        };
        let intents = self.scene.config(&self.known.paths).intents;
        match replaced {
            Ok(()) => Err(format!("{dev} is replaced, though an operation on {} failed", struck.display())),
            Err(error @ FilesError::Io { path, .. }) if *path == intents => {
                self.faulty = true;
                self.stopped(error, report).map(Some)
            }
            // The device has failed over it, and stays failed.
            Err(FilesError::Io { .. }) => {
                self.watch();
                Ok(Some(LifeOutcome::On))
            }
            Err(error) => Err(format!("{dev} cannot be replaced: {error}")),
        }
    }

    /// Checks, once everything that was begun has ended, that a failed operation was heard of.
    ///
    /// Either a device has failed over it, which may have been before, or the executor has stopped.
    pub(super) fn heard(&mut self) -> Result<(), String> {
        let Some(struck) = self.os.struck().filter(|_| self.faulty && self.files.is_idle()) else { return Ok(()) };
        let dev = self.known.paths.iter().position(|path| *path == struck);
        // A fault on a device that had failed before is no news to anybody.
        if dev.is_some_and(|dev| !self.files.answers(Dev(dev as u8))) || struck.as_os_str().is_empty() {
            self.faulty = false;
            return Ok(());
        }
        Err(format!("an operation on {} failed, and nobody heard of it", struck.display()))
    }
}
