//! Devices' files as a start opens them.

use std::io;
use std::sync::Arc;

use super::identify::{Identities, check_size, is_unfinished, lock, open_file};
use super::label;
use crate::files::config::FilesConfig;
use crate::files::error::FilesError;
use crate::files::io::file::{OsFile, SyncPoint};
use crate::files::io::metadata::capacity;
use crate::files::io::os::Os;

pub(super) const SYNC: &str = "make it durable";

/// Opens a device's file, which has to be as long as this array's, unless it is the array's and is to be `made_anew`; the
/// inner error if it does not answer. What can be read of it is durable: content that may be gone though it can be read is
/// none.
pub(super) fn open_device(
    os: &dyn Os,
    config: &FilesConfig,
    dev: usize,
    files: &mut Identities,
    made_anew: bool,
) -> Result<io::Result<Arc<dyn OsFile>>, FilesError> {
    let path = &config.devices[dev].path;
    let file = match open_file(os, path)? {
        Ok(file) => file,
        missing => return Ok(missing),
    };
    files.add(&*file, path)?;
    lock(&*file, path)?;
    if is_unfinished(&*file, path)? {
        return Ok(Err(io::Error::new(io::ErrorKind::NotFound, "it is empty: its making was cut short")));
    }
    label::check_version(&*file, config, dev)?;
    if !made_anew || capacity(&*file, path)?.is_some() || label::drawn_of(&*file, config, dev).is_none() {
        check_size(&*file, config, dev, path)?;
    }
    match file.sync_all(SyncPoint::OpenDevice) {
        // Whether it was away, or what it shows is not what it holds, makes a difference where the NVRAM lies on it.
        Err(error) if config.home() == Some(dev) => Err(FilesError::io(path, SYNC)(error)),
        synced => Ok(synced.map(|()| file)),
    }
}
