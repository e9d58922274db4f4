//! Keeps the roster, which names the files of the devices.

use destage_plan::{Controller, DevSet};

use super::executor::FileExecutor;
use crate::files::error::FilesError;
use crate::files::io::file::SyncPoint;
use crate::files::io::patience::patiently;
use crate::files::nvram::intents::sync_roster;

impl<C: Controller> FileExecutor<C> {
    /// The files that these devices had are theirs no more, whether they answer again or not.
    pub(super) fn distrust(&mut self, devs: DevSet) -> Result<(), FilesError> {
        // A file that just took a device's place loses it again with the device.
        self.standing_in -= devs;
        devs.iter().for_each(|dev| self.roster.leave(dev.index()));
        self.name_files()
    }

    /// Makes it durable which files are the devices'.
    pub(super) fn name_files(&mut self) -> Result<(), FilesError> {
        // The members' marks name the same generations, for a start without the
        // NVRAM.
        self.marks.name(self.roster.generations());
        self.sync_roster(SyncPoint::Roster)
    }

    /// Makes it durable which files are the devices', and which event count the array has.
    pub(super) fn sync_roster(&mut self, at: SyncPoint) -> Result<(), FilesError> {
        let (sync, path) = (sync_roster(&self.roster_file, &self.roster, at), self.config.intents.clone());
        let noted = patiently(&self.os, &self.config.intents, self.config.patience, move |_| {
            sync().map_err(FilesError::io(&path, "note which files are the devices'"))
        });
        noted.map_err(|error| self.stop(error))
    }

    /// Names files that took a device's place and of which that can be known by now.
    pub(super) fn name_noted(&mut self) -> Result<(), FilesError> {
        // The controller tells which losses a start would not know of. Naming the
        // file before that would let zeros pass for data.
        let noted = self.standing_in - self.engine.controller().unnoted();
        if noted.is_empty() {
            return Ok(());
        }
        // The note of the loss is a commit. It must be durable before the name that
        // relies on it.
        if self.group_commit.is_open() {
            self.group_commit.want_sync(SyncPoint::Ahead);
            return Ok(());
        }
        self.standing_in -= noted;
        noted.iter().for_each(|dev| self.roster.name(dev.index()));
        self.name_files()
    }
}
