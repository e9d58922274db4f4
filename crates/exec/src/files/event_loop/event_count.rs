//! Raises an array's event count at a start and at a clean shutdown.

use std::io;
use std::sync::Arc;

use destage_plan::{Controller, Dev};

use super::device::FileDevice;
use super::executor::FileExecutor;
use super::nvram_move::MoveReason;
use crate::files::error::FilesError;
use crate::files::io::backend::CommandBackend;
use crate::files::io::device::DeviceBackend;
use crate::files::io::file::SyncPoint;
use crate::files::io::patience::patiently;
use crate::files::layout::event_count::EventCount;
use crate::files::nvram::store::{NvramChange, NvramCommand};
use crate::files::open::label;

impl<C: Controller> FileExecutor<C> {
    /// Gives all files the event count that was announced when they were opened.
    pub(super) fn settle_event_count(&mut self) -> Result<(), FilesError> {
        let count = self.roster.event_count();
        if !count.is_changing() {
            return Ok(());
        }
        // No step begins before all files have the count. Otherwise a file that
        // missed it could be newer than one that has it.
        self.is_counting = true;
        self.count_in_nvram(count.to)?;
        let failed = self.write_event_count(EventCount::settled(count.to))?;
        for (dev, source) in failed {
            let path = self.config.devices[dev.index()].path.clone();
            let is_full = source.kind() == io::ErrorKind::StorageFull;
            let error = FilesError::Io { path, what: "write the event count", source };
            if is_full {
                // Nothing is lost by that, as for any other write.
                return Err(self.stop(error));
            }
            // With the device the NVRAM would be lost; it moves first.
            if self.config.home() == Some(dev.index()) {
                self.leave_home(MoveReason::Failed, error)?;
                self.await_nvram()?;
                continue;
            }
            self.devices[dev.index()].error.get_or_insert(error);
            self.fail(dev)?;
        }
        self.is_counting = false;
        Ok(())
    }

    /// Raises the event count for a clean shutdown, when no device that answers is busy any more, with its list of bad pages
    /// either. If one of them cannot be written the count stays as it is: no file falls behind.
    pub(super) fn count_shutdown(&mut self) -> Result<(), FilesError> {
        let is_at_work =
            |device: &FileDevice| !device.failed && device.backend.as_ref().is_some_and(DeviceBackend::is_busy);
        // A list of bad pages that is being written lies beside the count and would
        // be overwritten by it.
        self.until(|files| !files.store.is_busy() && !files.devices.iter().any(is_at_work))?;
        let EventCount { to: last, .. } = self.roster.event_count();
        let next = last + 1;
        // Two steps: announced on all files first, settled afterwards. A crash in
        // between leaves files that all have one of two known counts.
        if self.write_event_count(EventCount { from: last, to: next })?.is_empty() {
            self.count_in_nvram(next)?;
            // A file that still has the count before it is not behind.
            self.write_event_count(EventCount::settled(next))?;
        }
        Ok(())
    }

    fn count_in_nvram(&mut self, number: u64) -> Result<(), FilesError> {
        // Where it goes it has the count from the beginning.
        self.await_nvram()?;
        // An NVRAM that has just moved has the number from the beginning.
        if self.counted != number {
            let (lists, bytes) = (self.spare_lists.pop().unwrap_or_default(), self.bytes.lend(0));
            self.note_stored(None);
            let change = NvramChange::EventCount(number);
            self.store.send(NvramCommand { issue: None, change, bytes, lists, is_covered: false });
        }
        self.until(|files| files.counted == number)
    }

    /// Writes an event count to the intents and all devices that answer, durably; returns the devices that failed.
    fn write_event_count(&mut self, count: EventCount) -> Result<Vec<(Dev, io::Error)>, FilesError> {
        self.roster.set_event_count(count);
        // The roster is written before the files, since it is what a start compares
        // them with.
        self.sync_roster(SyncPoint::EventCountTold)?;
        let (config, origin, mut failed) = (Arc::new(self.config.clone()), self.roster.origin(), Vec::new());
        for dev in 0..self.devices.len() {
            let Some(file) = self.devices[dev].handle.clone() else { continue };
            let (config, path) = (Arc::clone(&config), self.config.devices[dev].path.clone());
            // A file that hangs must not stop the others, and is left after the
            // patience.
            let told = patiently(&self.os, &path, self.config.patience, move |_| {
                let told = label::write_count(&*file, &config, origin, dev, count);
                Ok(told.and_then(|()| file.sync_data(SyncPoint::EventCountTold)))
            });
            match told {
                Ok(Ok(())) => {}
                Ok(Err(error)) => failed.push((Dev(dev as u8), error)),
                Err(error) => return Err(self.stop(error)),
            }
        }
        Ok(failed)
    }
}
