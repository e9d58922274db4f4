//! Putting another file in a device's place, be it that its thread hangs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use destage_plan::{Controller, Dev, DevSet, DeviceChange, StepOutcome};

use super::device::AbandonedFile;
use super::executor::FileExecutor;
use crate::files::config::{DeviceOptions, ExistingFiles};
use crate::files::error::FilesError;
use crate::files::io::backend::CommandBackend;
use crate::files::io::device::{DeviceBackend, start_device};
use crate::files::io::file::{FileIdentity, OsFile};
use crate::files::io::metadata::identity;
use crate::files::io::os::PathPresence;
use crate::files::io::patience::{FileWork, patiently};
use crate::files::nvram::region::FileRegion;
use crate::files::open::label::LabelStamp;
use crate::files::open::replacement::ReplacedPlace;
use crate::files::open::{identify, replacement};

/// Asks a file whether it answers at all, on a thread: the main loop is to wait for none that hangs.
pub struct FileProbe {
    work: FileWork<()>,
    patience: Duration,
}

impl FileProbe {
    /// Returns what came of it: none so far, or that the file hangs.
    pub fn poll(&mut self) -> Option<Result<(), FilesError>> {
        self.work.poll(self.patience)
    }
}

impl fmt::Debug for FileProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileProbe").finish_non_exhaustive()
    }
}

impl<C: Controller> FileExecutor<C> {
    /// Begins to ask a file whether it answers, before it is to take a device's place. Whatever else is wrong with it is said
    /// when it does. None where there are no threads.
    ///
    /// # Errors
    /// If it is known to hang: something is at work on it for this device. If no thread can be started.
    pub fn ask_file(&self, dev: Dev, path: &Path) -> Result<Option<FileProbe>, FilesError> {
        // Opening such a file again could write to it beside its old commands.
        self.devices.get(dev.index()).map_or(Ok(()), |device| device.check_not_at_work(path))?;
        if self.os.is_in_line() {
            return Ok(None);
        }
        let at = path.to_owned();
        let work = FileWork::begin(&self.os, path, move |os| {
            if let Ok(file) = os.open(&at, PathPresence::Beside) {
                // A read of one sector suffices: a hanging device hangs with any, and
                // nothing is changed.
                drop(file.read_exact_at(&mut [0; 512], 0));
            }
            Ok(())
        });
        Ok(Some(FileProbe { work: work?, patience: self.config.time_limit() }))
    }

    /// Puts a file in the place of a device, which counts as failed from now on if it did not
    /// before: one that is there, of the right size, and that has been this device before or holds nothing; or else a new one,
    /// for which there must be room.
    /// The next [`open`](Self::open) must be given the path. If the power fails before the loss of what
    /// the device held is noted, the file is not the device's at the next start, and has to be put in its
    /// place again ([`is_named`](Self::is_named)).
    ///
    /// What the device's threads are at work on is not waited for, since it may never end: they are
    /// left to themselves, and their file stays locked until then. Only the device's own file, put
    /// in its place again, must not be written by them any more.
    ///
    /// # Errors
    /// If the file cannot be opened or made, holds something, or is another of the array's; the device stays as it
    /// is then. If the NVRAM lies on the device and has no [spare place](crate::FilesConfig::spare_nvram). If it is the device's own, and a thread is still at work on it after the configured
    /// patience; the device has failed then. If the new file hangs. If the executor has stopped, or does now.
    pub fn replace(&mut self, dev: Dev, path: &Path) -> Result<(), FilesError> {
        self.replace_by(dev, path, ExistingFiles::Refuse)
    }

    /// Does what [`replace`](Self::replace) does with a file that may hold anything: it is overwritten.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub fn replace_over(&mut self, dev: Dev, path: &Path) -> Result<(), FilesError> {
        self.replace_by(dev, path, ExistingFiles::Overwrite)
    }

    /// Takes a device out: it counts as failed from now on, and its file is the array's no more. Nothing takes its place.
    ///
    /// # Errors
    /// If there is no such device, or the NVRAM lies on it and has no [spare place](crate::FilesConfig::spare_nvram). If the executor has stopped, or does now.
    pub fn take_out(&mut self, dev: Dev) -> Result<(), FilesError> {
        // Results that have come are taken in first; a device may have failed by
        // now, which changes the answer.
        self.advance()?;
        self.check_replaceable(dev)?;
        self.clear_home(dev)?;
        let path = self.config.devices[dev.index()].path.clone();
        self.drop_successor(dev, FilesError::TakenOut(path.clone()), false);
        self.devices[dev.index()].error.get_or_insert(FilesError::TakenOut(path));
        self.fail(dev)?;
        // The controller plans the loss before the file is left, so no step goes to
        // a backend that is gone.
        self.go_on()?;
        self.finish_device(dev)?;
        self.go_on()?;
        self.leave_device(dev)
    }

    /// Checks that there is such a device, and that the array can go on without it.
    pub(super) fn check_replaceable(&self, dev: Dev) -> Result<(), FilesError> {
        if dev.index() >= self.devices.len() {
            return Err(FilesError::NoDevice(dev));
        }
        // Taking the device out would take the NVRAM with it.
        if self.config.home() == Some(dev.index()) && self.config.spare().is_none() {
            return Err(FilesError::NvramThere(self.config.nvram_path().to_owned()));
        }
        Ok(())
    }

    fn replace_by(&mut self, dev: Dev, path: &Path, existing: ExistingFiles) -> Result<(), FilesError> {
        self.advance()?;
        self.check_replaceable(dev)?;
        self.clear_home(dev)?;
        // The old store may still write to this file; its gate keeps it from the
        // intents alone.
        let is_left = |(left, region): &(PathBuf, Weak<FileRegion>)| left == path && region.strong_count() > 0;
        if self.left_home.as_ref().is_some_and(is_left) {
            return Err(FilesError::AtWork(path.to_owned()));
        }
        let device = &self.devices[dev.index()];
        device.check_not_at_work(path)?;
        let (known, abandoned) = (device.file, device.abandoned.as_ref().map(|file| file.identity));
        let (config, at, used) = (self.config.clone(), path.to_owned(), self.used_beside(dev));
        let place = ReplacedPlace { origin: self.roster.origin(), dev: dev.index(), used };
        let opened = patiently(&self.os, path, self.config.patience, move |os| {
            let file = replacement::open_replacement(os, &config, &place, &at, existing)?;
            let identity = Some(identity(&*file, &at)?);
            // Before the device fails: whoever is refused keeps it. Its own file is locked until then.
            if identity != known {
                lock(&*file, &at, identity.is_some() && identity == abandoned)?;
            }
            Ok((file, identity))
        });
        let (file, identity) = opened?;
        self.drop_successor(dev, FilesError::TakenOut(self.config.devices[dev.index()].path.clone()), false);
        // From here on the array has lost the device, whatever happens to the new
        // file.
        self.fail(dev)?;
        self.go_on()?;
        self.finish_device(dev)?;
        self.go_on()?;
        // The device's own file must not be written by old commands after its new
        // label.
        if identity == known {
            self.await_device(dev, path)?;
        }
        self.leave_device(dev)?;
        // So that no label that was written before is the next one's.
        self.distrust(DevSet::one(dev))?;
        let (origin, generation) = (self.roster.origin(), self.roster.next(dev.index()));
        let stamp = LabelStamp { origin, generation, count: self.roster.event_count() };
        let (config, at, labelled) = (self.config.clone(), path.to_owned(), Arc::clone(&file));
        let abandoned = self.devices[dev.index()].abandoned.as_ref().map(|file| file.identity);
        let was_abandoned = identity.is_some() && identity == abandoned;
        patiently(&self.os, path, self.config.patience, move |os| {
            // The file may be the same one, which was locked until now.
            lock(&*labelled, &at, was_abandoned)?;
            replacement::label_replacement(os, &*labelled, &config, stamp, dev.index(), &at)
        })?;
        let options = &mut self.config.devices[dev.index()].options;
        *options = DeviceOptions { workers: options.workers, direct: options.direct, ..DeviceOptions::default() };
        let direct = replacement::go_direct(&self.os, &self.config, dev.index(), path, &file)?;
        let handle = Some(Arc::clone(&file));
        let backend = start_device(&self.os, &self.config, dev.index(), file, &self.wakeup, self.ring.as_mut())?;
        let device = &mut self.devices[dev.index()];
        (device.backend, device.failed, device.error, device.file) = (Some(backend), false, None, identity);
        (device.direct, device.handle, device.abandoned) = (direct, handle, None);
        path.clone_into(&mut self.config.devices[dev.index()].path);
        self.standing_in.insert(dev);
        let now = self.now();
        // The controller hears of the replacement last, when its steps can be
        // carried out.
        self.engine.device(now, dev, DeviceChange::Replaced);
        self.go_on()
    }

    /// Waits, but not for ever, until nothing more is written to a device that has failed.
    fn await_device(&mut self, dev: Dev, path: &Path) -> Result<(), FilesError> {
        // Without threads: whoever does not hang comes to an end.
        while let Some(backend) = self.devices[dev.index()].backend.as_mut().filter(|backend| backend.ready() > 0) {
            backend.turn(|among| self.os.choose(among));
            self.finish_device(dev)?;
        }
        while self.os.is_in_line()
            && self.devices[dev.index()].backend.as_ref().is_some_and(DeviceBackend::is_busy)
            && let Some(ring) = self.ring.as_mut().filter(|ring| ring.inner().ready() > 0)
        {
            ring.turn(&|among| self.os.choose(among));
            self.reap();
            self.finish_device(dev)?;
        }
        let begin = Instant::now();
        while self.devices[dev.index()].backend.as_ref().is_some_and(DeviceBackend::is_busy) {
            let left = self.config.patience.saturating_sub(begin.elapsed());
            // Without threads nothing can end by waiting.
            if left.is_zero() || self.os.is_in_line() {
                return Err(FilesError::AtWork(path.to_owned()));
            }
            self.pause(Some(left));
            // Other backends' results are taken in as well: theirs was perhaps the ring.
            self.advance()?;
        }
        Ok(())
    }

    /// Fails what a failed device is still at work on, whatever becomes of it.
    pub(super) fn leave_device(&mut self, dev: Dev) -> Result<(), FilesError> {
        let path = &self.config.devices[dev.index()].path;
        let device = &mut self.devices[dev.index()];
        match device.backend.take() {
            // Nobody waits: the commands keep the file and its lock, their results
            // are never fetched, and their buffers stay with them.
            Some(backend) if backend.is_busy() => {
                let left = device.left.take().zip(device.file);
                let abandoned = left.map(|(file, identity)| AbandonedFile { identity, path: path.clone(), file });
                device.abandoned = abandoned;
                if let (Some(ring), Some((life, operations))) = (&mut self.ring, backend.left_to_ring()) {
                    ring.abandon(life, operations);
                }
                drop(backend);
            }
            // Its threads have nothing to do and end at once.
            Some(mut backend) => backend.end(Instant::now() + self.config.patience, None),
            None => {}
        }
        (device.file, device.hangs) = (None, false);
        // Told as failed, though they may still be done: the content of the device
        // counts for nothing any more.
        for issue in std::mem::take(&mut device.under_way).into_iter().filter_map(|command| command.issue) {
            self.complete(issue, StepOutcome::Failed(dev));
        }
        self.go_on()
    }

    /// Returns the array's files beside that of this device.
    pub(super) fn used_beside(&self, dev: Dev) -> Vec<(FileIdentity, PathBuf)> {
        let devices = self.devices.iter().zip(&self.config.devices).zip(0..);
        let devices = devices.filter(|(_, other)| *other != dev.0);
        let devices = devices.filter_map(|((device, config), _)| Some((device.file?, config.path.clone())));
        let [nvram, intents] = self.state;
        // The state files are listed too, since a replacement must not be one of
        // them by another path.
        let state = [(nvram, self.config.nvram_path().to_owned()), (intents, self.config.intents.clone())];
        let successors = self.devices.iter().filter_map(|device| device.successor.as_ref());
        let successors = successors.map(|successor| (successor.identity, successor.path.clone()));
        devices.chain(state).chain(successors).collect()
    }
}

/// Locks a file. One that was abandoned may still be at work for this executor.
pub(super) fn lock(file: &dyn OsFile, path: &Path, was_abandoned: bool) -> Result<(), FilesError> {
    identify::lock(file, path).map_err(|error| match error {
        FilesError::InUse(path) if was_abandoned => FilesError::AtWork(path),
        error => error,
    })
}
