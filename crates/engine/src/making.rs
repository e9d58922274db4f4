//! Makes arrays as they are described, and writes their descriptions.

use std::path::Path;
use std::time::Duration;

use destage_cache::Served;
use destage_exec::{Existing, Files};
use destage_plan::DevSet;
use destage_raid::MAX_DEVICES;
use uuid::Uuid;

use crate::description::folder;
use crate::{Described, Description, DescriptionError};

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Bytes of data.
    pub bytes: u64,
    /// The cache, with all parameters.
    pub policy: String,
}

impl Description {
    /// Makes the array: its files, and then the description, without which there is none. Nothing that is
    /// there is overwritten.
    ///
    /// # Errors
    /// If there can be no such array, something is there already, or it cannot be made.
    pub fn create(&self, path: &Path) -> Result<Made, DescriptionError> {
        self.make(path, Existing::Refuse)
    }

    /// Makes the array over members that are there, and hold its data and parity: only labels are written to them.
    ///
    /// # Errors
    /// As [`create`](Self::create); if a member is not there, or has something where its label goes.
    pub fn adopt(&self, path: &Path) -> Result<Made, DescriptionError> {
        self.make(path, Existing::Adopt(DevSet::first(self.array.members.len().min(MAX_DEVICES) as u32)))
    }

    /// Makes the array in the place of the one that is described there, whose number is named: that is given up, with all that it
    /// held, and be it on its cache alone. Its files are removed; of its block devices those that this array has are made anew, and
    /// others are left as they are. Everything else is as in [`create`](Self::create).
    ///
    /// # Errors
    /// As [`create`](Self::create); if another array is described there, it is served, or something of it is another's. What is refused
    /// changes nothing.
    pub fn create_over(&self, path: &Path, named: Uuid) -> Result<Made, DescriptionError> {
        let old = Self::read(path)?;
        if old.uuid != named {
            return Err(DescriptionError::Other { path: path.to_owned(), found: old.uuid, named });
        }
        let of_folder = folder(path);
        let (old, new) = (old.described(of_folder)?.files, self.described(of_folder)?.files);
        let existing = Files::<Box<dyn Served>>::check_given_up(&old, &new)?;
        // Without its description nobody takes what is left for the array.
        let io = |path: &Path, source| DescriptionError::Io { path: path.to_owned(), source };
        std::fs::remove_file(path).map_err(|source| io(path, source))?;
        std::fs::File::open(of_folder).and_then(|folder| folder.sync_all()).map_err(|source| io(of_folder, source))?;
        let files = old.devices.iter().map(|device| &*device.path).chain([old.nvram_path(), &old.intents]);
        for path in files.filter(|path| path.is_file()) {
            std::fs::remove_file(path).map_err(|source| io(path, source))?;
        }
        self.make(path, existing)
    }

    fn make(&self, path: &Path, existing: Existing) -> Result<Made, DescriptionError> {
        let io = |source| DescriptionError::Io { path: path.to_owned(), source };
        if path.try_exists().map_err(io)? {
            return Err(DescriptionError::Exists(path.to_owned()));
        }
        let missing: Vec<&Path> = folder(path).ancestors().take_while(|folder| !folder.exists()).collect();
        std::fs::create_dir_all(folder(path)).map_err(io)?;
        let made = self.make_files(path, existing);
        if made.is_err() {
            // Those that were made for it, as far as nothing is in them.
            missing.into_iter().take_while(|folder| std::fs::remove_dir(folder).is_ok()).for_each(drop);
        }
        made
    }

    fn make_files(&self, path: &Path, existing: Existing) -> Result<Made, DescriptionError> {
        let Described { policy, controller, mut files, .. } = self.described(folder(path))?;
        // A block device may have to be written from end to end to read as zeros.
        (files.patience, files.device_timeout) = (Duration::from_hours(24 * 7), None);
        let made = Made { bytes: files.shape.bytes(), policy: format!("{policy:?}") };
        let mut files = Files::create(controller, files, existing)?;
        files.wait_ready()?;
        files.stop_clean()?;
        self.save(path)?;
        Ok(made)
    }

    /// Writes the description.
    ///
    /// # Errors
    /// If it cannot be written; what was there is there then.
    pub(crate) fn save(&self, path: &Path) -> Result<(), DescriptionError> {
        let io = |source| DescriptionError::Io { path: path.to_owned(), source };
        // Written beside its place and then given its name: it is there as a whole or not at all.
        let new = path.with_extension("toml.new");
        std::fs::write(&new, self.text()).map_err(io)?;
        std::fs::File::open(&new).and_then(|file| file.sync_all()).map_err(io)?;
        std::fs::rename(&new, path).map_err(io)?;
        std::fs::File::open(folder(path)).and_then(|folder| folder.sync_all()).map_err(io)
    }
}
