//! Makes arrays as they are described, and writes their descriptions.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use destage_cache::ServedTier;
use destage_exec::{ExistingFiles, FileExecutor, OsInterface, PathPresence, RealOs, SyncPoint, ZeroingWatch};
use destage_plan::DevSet;
use destage_raid::MAX_DEVICES;
use uuid::Uuid;

use crate::description::folder;
use crate::{ArrayDescription, DescribedArray, DescriptionError};

/// Describes the array that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeArray {
    /// Counts the bytes of data.
    pub bytes: u64,
    /// Names the cache, with all parameters.
    pub policy: String,
}

/// Tells what there is before an array is made.
#[derive(Clone, Copy, Debug)]
pub enum ArrayMaking<'a> {
    /// Stands for nothing.
    New,
    /// Stands for members that hold its data and parity: only labels are written to them.
    Adopted,
    /// Names the array that is described there, which is given up.
    Over(&'a ArrayDescription),
}

impl ArrayDescription {
    /// Makes the array: its files, and then the description, without which there is none. Nothing that is
    /// there is overwritten. `watch` is told how far block devices read as zeros.
    ///
    /// # Errors
    /// If there can be no such array, something is there already, or it cannot be made; if `watch` breaks off. Nothing is left then.
    pub fn create(&self, path: &Path, watch: ZeroingWatch) -> Result<MadeArray, DescriptionError> {
        self.make(path, ArrayMaking::New, watch)
    }

    /// Makes the array over members that are there, and hold its data and parity: only labels are written to them.
    ///
    /// # Errors
    /// As [`create`](Self::create); if a member is not there, or has something where its label goes.
    pub fn adopt(&self, path: &Path, watch: ZeroingWatch) -> Result<MadeArray, DescriptionError> {
        self.make(path, ArrayMaking::Adopted, watch)
    }

    /// Makes the array in the place of the one that is described there, whose number is named: that is given up, with all that it
    /// held, and be it on its cache alone. Its files are removed; of its block devices those that this array has are made anew, and
    /// others are left as they are. Everything else is as in [`create`](Self::create).
    ///
    /// # Errors
    /// As [`create`](Self::create); if another array is described there, it is served, or something of it is another's. What is refused
    /// changes nothing.
    pub fn create_over(&self, path: &Path, named: Uuid, watch: ZeroingWatch) -> Result<MadeArray, DescriptionError> {
        let old = Self::read(path).map_err(|error| match error {
            DescriptionError::Io { path, source } if source.kind() == ErrorKind::NotFound => {
                DescriptionError::NoneThere(path)
            }
            error => error,
        })?;
        if old.uuid != named {
            return Err(DescriptionError::Other { path: path.to_owned(), found: old.uuid, named });
        }
        self.make(path, ArrayMaking::Over(&old), watch)
    }

    fn make(&self, path: &Path, how: ArrayMaking<'_>, watch: ZeroingWatch) -> Result<MadeArray, DescriptionError> {
        // Only folders that this call makes are removed again if it fails.
        let missing: Vec<&Path> = folder(path).ancestors().take_while(|folder| !folder.exists()).collect();
        std::fs::create_dir_all(folder(path)).map_err(DescriptionError::io(path))?;
        let made = self.make_watched_on(&(Arc::new(RealOs) as Arc<dyn OsInterface>), path, how, watch);
        if made.is_err() {
            // Folders are removed from the innermost on, as far as they are empty.
            missing.into_iter().take_while(|folder| std::fs::remove_dir(folder).is_ok()).for_each(drop);
        }
        made
    }

    /// Makes the array on an operating system, where the description's folder is there.
    ///
    /// # Errors
    /// As [`create`](Self::create), [`adopt`](Self::adopt) and [`create_over`](Self::create_over).
    pub fn make_on(
        &self,
        os: &Arc<dyn OsInterface>,
        path: &Path,
        how: ArrayMaking<'_>,
    ) -> Result<MadeArray, DescriptionError> {
        self.make_watched_on(os, path, how, Box::new(|_| ControlFlow::Continue(())))
    }

    fn make_watched_on(
        &self,
        os: &Arc<dyn OsInterface>,
        path: &Path,
        how: ArrayMaking<'_>,
        watch: ZeroingWatch,
    ) -> Result<MadeArray, DescriptionError> {
        let existing = match how {
            ArrayMaking::New => ExistingFiles::Refuse,
            ArrayMaking::Adopted => {
                ExistingFiles::Adopt(DevSet::first(self.array.members.len().min(MAX_DEVICES) as u32))
            }
            ArrayMaking::Over(old) => self.give_up(&**os, path, old)?,
        };
        if os.exists(path).map_err(DescriptionError::io(path))? {
            return Err(DescriptionError::Exists(path.to_owned()));
        }
        let DescribedArray { policy, controller, mut files, .. } = self.described(folder(path))?;
        // Data that went through the page cache is synced at the end, which may take hours on a large array.
        (files.patience, files.device_timeout) = (Duration::from_hours(24 * 7), None);
        let made = MadeArray { bytes: files.shape.bytes(), policy: format!("{policy:?}") };
        let config = files.clone();
        let mut files = FileExecutor::create_watched_on(Arc::clone(os), controller, files, existing, watch)?;
        // A clean stop leaves no intents, so the first start has nothing to recover.
        let stopped = files.wait_ready().and_then(|()| files.stop_clean());
        // The description comes last: until it is there, a crash leaves files that are no array's.
        let described = stopped.map_err(DescriptionError::from).and_then(|_| self.save(&**os, path));
        if described.is_err() {
            FileExecutor::<Box<dyn ServedTier>>::unmake(&**os, &config, existing);
        }
        described.map(|()| made)
    }

    /// Removes an array that is described there, as far as it is files; returns what of it the new one has.
    fn give_up(&self, os: &dyn OsInterface, path: &Path, old: &Self) -> Result<ExistingFiles, DescriptionError> {
        let of_folder = folder(path);
        let (old, new) = (old.described(of_folder)?.files, self.described(of_folder)?.files);
        // All files of both arrays are checked before the first is removed, so a refusal changes nothing.
        let existing = FileExecutor::<Box<dyn ServedTier>>::check_given_up(os, &old, &new)?;
        let spare = FileExecutor::<Box<dyn ServedTier>>::find_spare_nvram(os, &old)?;
        // The description goes first: without it nobody takes what a crash leaves for an array.
        os.remove(path).map_err(DescriptionError::io(path))?;
        os.sync_folder(of_folder, SyncPoint::DescriptionFolder).map_err(DescriptionError::io(of_folder))?;
        for path in old.devices.iter().map(|device| &*device.path).chain([old.nvram_path(), &old.intents]).chain(spare)
        {
            let io = DescriptionError::io(path);
            // A block device cannot be removed; the new array's label overwrites the old one.
            if !os.is_block_device(path) && os.exists(path).map_err(DescriptionError::io(path))? {
                os.remove(path).map_err(io)?;
            }
        }
        Ok(existing)
    }

    /// Writes the description.
    ///
    /// # Errors
    /// If it cannot be written; what was there is there then.
    pub(crate) fn save(&self, os: &dyn OsInterface, path: &Path) -> Result<(), DescriptionError> {
        self.put(os, path)?;
        Self::sync_name(os, path)
    }

    /// Writes the description as it is, if there is no error; it may not outlive the power before its
    /// [name is synced](Self::sync_name).
    pub(crate) fn put(&self, os: &dyn OsInterface, path: &Path) -> Result<(), DescriptionError> {
        // Written beside its place and then renamed, so a crash leaves the old description or the new one.
        let new = path.with_extension("toml.new");
        let written = os.open(&new, PathPresence::Either).and_then(|file| {
            file.set_len(0)?;
            file.write_all_at(self.text().as_bytes(), 0)?;
            file.sync_all(SyncPoint::Description)
        });
        written.and_then(|()| os.rename(&new, path)).map_err(DescriptionError::io(path))
    }

    /// Makes it durable that the file is the description.
    pub(crate) fn sync_name(os: &dyn OsInterface, path: &Path) -> Result<(), DescriptionError> {
        os.sync_folder(folder(path), SyncPoint::DescriptionFolder).map_err(DescriptionError::io(path))
    }
}
