//! Identifies files: whether each is there, belongs to this array alone, is complete, and has the right length.

use std::collections::BTreeMap;
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::files::config::{ExistingFiles, FilesConfig};
use crate::files::error::FilesError;
use crate::files::io::file::{FileIdentity, OsFile};
use crate::files::io::metadata::{OPEN, capacity, identity, length};
use crate::files::io::os::{OsInterface, PathPresence};
use crate::files::io::sectors;
use crate::files::layout::intents::{self, is_bitmap, read_roster};
use crate::files::layout::sectors::is_sealed;

/// Opens a file if there is one.
pub(crate) fn there(os: &dyn OsInterface, path: &Path) -> Result<Option<Arc<dyn OsFile>>, FilesError> {
    match os.open(path, PathPresence::There) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FilesError::io(path, OPEN)(error)),
    }
}

/// Returns true if this file, of the NVRAM or the intents, has a header, which is written last.
pub(crate) fn is_made(file: &dyn OsFile, path: &Path) -> Result<bool, FilesError> {
    let mut magic = [0; 8];
    if length(file, path)? < magic.len() as u64 {
        return Ok(false);
    }
    file.read_exact_at(&mut magic, 0).map_err(FilesError::io(path, "read the header"))?;
    // A file that was being made when the power failed has zeros here.
    Ok(magic != [0; 8])
}

/// Reports why the intents cannot be read: they are missing, or their header is damaged. None if neither is so.
pub(super) fn why_unread(os: &dyn OsInterface, config: &FilesConfig) -> Result<Option<FilesError>, FilesError> {
    let path = &*config.intents;
    let missing = || Ok(Some(FilesError::Missing(path.to_owned())));
    let Some(file) = there(os, path)? else { return missing() };
    if !is_made(&*file, path)? {
        return missing();
    }
    let length = length(&*file, path)?;
    let Some(header) = sectors::first(&*file, path, length)? else { return Ok(None) };
    if is_sealed(&header) || length != intents::bytes(config.rows) {
        return Ok(None);
    }
    // Of a file that has nothing of the kind nobody knows whose it is.
    let second = sectors::read(&*file, header.len() as u64).map_err(FilesError::io(path, "read the bitmap"))?;
    let is_its_own = header[..8] == intents::MAGIC || is_bitmap(&second, 0);
    Ok(read_roster(path, &header, config.array, config.rows).err().filter(|_| is_its_own))
}

pub(crate) fn make_file(
    os: &dyn OsInterface,
    path: &Path,
    existing: ExistingFiles,
) -> Result<Arc<dyn OsFile>, FilesError> {
    if !is_place_of_files(path) {
        // Under `/dev` a missing device must not be replaced by a regular file of
        // the same name.
        return Err(FilesError::NoSuchDevice(path.to_owned()));
    }
    let presence = match existing {
        ExistingFiles::Refuse | ExistingFiles::Adopt(_) | ExistingFiles::GiveUp { .. } => PathPresence::New,
        // Only with this may a file be there: what is in it will be lost.
        ExistingFiles::Overwrite => PathPresence::Either,
    };
    match os.open(path, presence) {
        Ok(file) => Ok(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(FilesError::Exists(path.to_owned())),
        Err(source) => Err(FilesError::Io { path: path.to_owned(), what: "make it", source }),
    }
}

/// Returns true if a file may be made there: a device that is away must not become one.
pub(crate) fn is_place_of_files(path: &Path) -> bool {
    !path.starts_with("/dev") || path.starts_with("/dev/shm")
}

/// Opens a file; the inner error if it is not there or its device does not answer. Whatever else
/// goes wrong is for the caller to put right: an array must not lose a member over a permission.
pub(crate) fn open_file(os: &dyn OsInterface, path: &Path) -> Result<io::Result<Arc<dyn OsFile>>, FilesError> {
    match os.open(path, PathPresence::There) {
        Ok(file) => Ok(Ok(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound || does_not_answer(&error) => Ok(Err(error)),
        Err(error) => Err(FilesError::io(path, OPEN)(error)),
    }
}

fn does_not_answer(error: &io::Error) -> bool {
    // These say that the device is gone or broken. All others are for the user to
    // mend.
    matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::NXIO | Errno::NODEV))
}

/// Takes a file for this executor alone.
pub(crate) fn lock(file: &dyn OsFile, path: &Path) -> Result<(), FilesError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(FilesError::InUse(path.to_owned())),
        Err(TryLockError::Error(source)) => Err(FilesError::Io { path: path.to_owned(), what: "lock it", source }),
    }
}

/// Returns true if a device's file is empty. It was being made, holds nothing that could be lost, and counts as
/// missing.
pub(crate) fn is_unfinished(file: &dyn OsFile, path: &Path) -> Result<bool, FilesError> {
    // A block device is never empty, whatever it holds.
    Ok(capacity(file, path)?.is_none() && length(file, path)? == 0)
}

/// Checks that a file is as long as a device's must be, or that a block device has room for it. Returns its
/// length.
///
/// # Errors
///
/// If it has another length, or cannot be asked.
pub(crate) fn check_size(file: &dyn OsFile, config: &FilesConfig, dev: usize, path: &Path) -> Result<u64, FilesError> {
    let (capacity, wanted) = (capacity(file, path)?, config.file_bytes(dev));
    let found = capacity.map_or_else(|| length(file, path), Ok)?;
    // A file that had the NVRAM behind its label may be as long as it was.
    let fine = if capacity.is_some() { found >= wanted } else { found == wanted || config.had_nvram(dev, found) };
    if fine { Ok(found) } else { Err(config.wrong_size(dev, path, found)) }
}

/// Identifies files, so that none is used twice.
#[derive(Default)]
pub(crate) struct FileIdentities {
    seen: BTreeMap<FileIdentity, PathBuf>,
}

impl FileIdentities {
    pub(crate) fn add(&mut self, file: &dyn OsFile, path: &Path) -> Result<FileIdentity, FilesError> {
        let identity = identity(file, path)?;
        // By identity and not by path: two paths may be one file.
        match self.seen.insert(identity, path.to_owned()) {
            None => Ok(identity),
            Some(other) => Err(FilesError::Same(other, path.to_owned())),
        }
    }

    /// Forgets a file: another may be the same one.
    pub(super) fn forget(&mut self, path: &Path) {
        self.seen.retain(|_, seen| seen != path);
    }
}
