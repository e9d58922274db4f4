//! Devices' files as a start opens them.

use std::io;
use std::sync::Arc;

use super::identify::{FileIdentities, check_size, is_unfinished, lock, open_file};
use super::label;
use crate::files::config::FilesConfig;
use crate::files::error::FilesError;
use crate::files::io::file::{OsFile, SyncPoint};
use crate::files::io::metadata::capacity;
use crate::files::io::os::OsInterface;

pub(super) const SYNC: &str = "make it durable";

/// Reports whether the devices' files have the size that the settings say.
#[derive(Debug, Default)]
pub(super) struct FoundSizes {
    has_right: bool,
    /// Keeps the first error of a file of another size.
    wrong: Option<FilesError>,
}

impl FoundSizes {
    /// Checks that a setting is not wrong: then no file has the size.
    pub(super) fn check(self) -> Result<(), FilesError> {
        // One file of the right size proves the setting; then the others are simply
        // wrong files.
        self.wrong.filter(|_| !self.has_right).map_or(Ok(()), Err)
    }
}

/// Opens a device's file; the inner error if it counts as missing: it does not answer, or is not as long as this array's,
/// unless it is the array's and is to be `made_anew`, or has departed from it and is in use. What can be read of it is durable: content that may be gone though
/// it can be read is none.
pub(super) fn open_device(
    os: &dyn OsInterface,
    config: &FilesConfig,
    dev: usize,
    (files, sizes): (&mut FileIdentities, &mut FoundSizes),
    (made_anew, is_departed): (bool, bool),
) -> Result<io::Result<Arc<dyn OsFile>>, FilesError> {
    let path = &config.devices[dev].path;
    // A file that is not there makes a missing device. Any other error stops the
    // start: a permission must not cost a member.
    let file = match open_file(os, path)? {
        Ok(file) => file,
        missing => return Ok(missing),
    };
    files.add(&*file, path)?;
    match lock(&*file, path) {
        // A service that ended may have left commands to a device that hung: nothing else waits for them.
        Err(error @ FilesError::InUse(_)) if is_departed => {
            files.forget(path);
            return Ok(Err(io::Error::other(format!("it has missed writes, and {error}"))));
        }
        locked => locked?,
    }
    if is_unfinished(&*file, path)? {
        return Ok(Err(io::Error::new(io::ErrorKind::NotFound, "it is empty: its making was cut short")));
    }
    // Another version explains another size, so it is told first.
    label::check_version(&*file, config, dev)?;
    // A cache's device that is made anew may have any length, if it is the array's
    // own.
    if !made_anew || capacity(&*file, path)?.is_some() || label::drawn_of(&*file, config, dev).is_none() {
        match check_size(&*file, config, dev, path) {
            Ok(_) => sizes.has_right = true,
            Err(error @ FilesError::Size { .. }) if config.home() != Some(dev) => {
                let why = io::Error::other(error.to_string());
                sizes.wrong.get_or_insert(error);
                return Ok(Err(why));
            }
            Err(error) => return Err(error),
        }
    }
    // Content that an earlier process wrote, and that a crash may still take, must
    // not be relied on.
    match file.sync_all(SyncPoint::OpenDevice) {
        // Whether it was away, or what it shows is not what it holds, makes a difference where the NVRAM lies on it.
        Err(error) if config.home() == Some(dev) => Err(FilesError::io(path, SYNC)(error)),
        synced => Ok(synced.map(|()| file)),
    }
}
