//! Finds the place of the NVRAM: a file or block device of its own, or a cache's device, which is then its
//! home. It also makes the place when the NVRAM is made.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::identify::{
    FileIdentities, check_size, is_made, is_place_of_files, is_unfinished, lock, make_file, open_file, there,
    why_unread,
};
use super::label::{self, LabelStamp};
use super::prepare::make_anew;
use super::vacancy::{check_blocks, check_ends, check_nothing_but};
use crate::files::config::{ExistingFiles, FilesConfig};
use crate::files::error::FilesError;
use crate::files::io::file::{FileIdentity, OsFile, SyncPoint};
use crate::files::io::metadata::{OPEN, capacity, identity, length};
use crate::files::io::os::{OsInterface, PathPresence};
use crate::files::layout::journal;
use crate::files::nvram::intents;
use crate::files::nvram::region::FileRegion;

/// Identifies the file that is to hold the NVRAM.
pub(crate) struct NvramAt {
    pub(crate) file: Arc<dyn OsFile>,
    pub(crate) identity: FileIdentity,
    /// The same if it lies on a device.
    pub(crate) home: Option<Arc<FileRegion>>,
}

/// The place of the NVRAM on its device.
pub(crate) fn at_home(
    os: &dyn OsInterface,
    config: &FilesConfig,
    devices: &[io::Result<Arc<dyn OsFile>>],
) -> Result<NvramAt, FilesError> {
    let path = config.nvram_path();
    let away = |why: String| FilesError::NvramAway { path: path.to_owned(), why };
    let dev = config.home().expect("the NVRAM that has no file of its own lies on a device");
    let device = devices[dev].as_ref().map_err(|error| away(error.to_string()))?;
    let place = config.region(dev).expect("the device is its home");
    let region = FileRegion::behind(os, config, place, &**device)?;
    let identity = identity(&*region, path)?;
    Ok(NvramAt { file: Arc::clone(&region) as Arc<dyn OsFile>, identity, home: Some(region) })
}

/// Has there be no NVRAM, durably.
pub(crate) fn empty_nvram(file: &dyn OsFile, path: &Path) -> Result<(), FilesError> {
    // A region has no length to set, so it makes zeros of its first sector instead
    // (`region.rs`).
    let emptied = file.set_len(0).and_then(|()| file.sync_all(SyncPoint::CreateEmptied));
    emptied.map_err(FilesError::io(path, "empty it"))
}

/// Returns true if the NVRAM is there. If it lies on a device, that has to be the array's.
pub(crate) fn nvram_is_there(os: &dyn OsInterface, config: &FilesConfig) -> Result<bool, FilesError> {
    let path = config.nvram_path();
    let (Some(dev), Some(place)) = (config.home(), config.home().and_then(|dev| config.region(dev))) else {
        let Some(file) = there(os, path)? else { return Ok(false) };
        return is_made(&*FileRegion::whole(file, config, path)?, path);
    };
    let Ok(file) = open_file(os, path)? else { return Ok(false) };
    // A device without this array's label may be anybody's.
    if label::drawn_of(&*file, config, dev).is_none() {
        return Ok(false);
    }
    label::check_version(&*file, config, dev)?;
    if capacity(&*file, path)?.is_none() && length(&*file, path)? == config.own_end(dev) {
        // It was somewhere else when the device was made.
        return Ok(false);
    }
    check_size(&*file, config, dev, path)?;
    // The roster may have given the device up: then the NVRAM on it is out of date,
    // though it is there.
    if let Some(intents_file) = there(os, &config.intents)?
        && why_unread(os, config)?.is_none()
    {
        let length = length(&*intents_file, &config.intents)?;
        let roster = intents::roster(&*intents_file, &config.intents, length, config.array, config.rows)?;
        if let Some(roster) = roster
            && label::check(&*file, config, roster.origin(), dev, roster.generation(dev))?.is_err()
        {
            return Ok(false);
        }
    }
    is_made(&*FileRegion::behind(os, config, place, &*file)?, path)
}

/// Opens a block device that is to have an NVRAM anew: the one that it had before, or an empty one.
pub(crate) fn open_nvram_device(
    os: &dyn OsInterface,
    config: &FilesConfig,
    path: &Path,
) -> Result<Arc<dyn OsFile>, FilesError> {
    let file = os.open(path, PathPresence::There).map_err(FilesError::io(path, OPEN))?;
    lock(&*file, path)?;
    let mut magic = [0; 8];
    file.read_exact_at(&mut magic, 0).map_err(FilesError::io(path, "read the header"))?;
    // An NVRAM of whatever array may be overwritten here; data of others may not.
    if magic != journal::MAGIC {
        check_ends(&*file, path)?;
    }
    FileRegion::whole(file, config, path)
}

/// Opens the device that is to have an NVRAM anew: the array's, whatever it holds, or an empty one. The inner error if it
/// is not there and can be made.
pub(crate) fn open_home(
    os: &dyn OsInterface,
    config: &FilesConfig,
    dev: usize,
    files: &mut FileIdentities,
) -> Result<io::Result<Arc<dyn OsFile>>, FilesError> {
    let path = &config.devices[dev].path;
    let file = match open_file(os, path)? {
        Ok(file) => file,
        // A device that does not answer is not the same as one that is not there:
        // making a file would hide it.
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_place_of_files(path) => return Ok(Err(error)),
        Err(error) => return Err(FilesError::NvramAway { path: path.clone(), why: error.to_string() }),
    };
    files.add(&*file, path)?;
    lock(&*file, path)?;
    let is_own = label::drawn_of(&*file, config, dev).is_some();
    // A file of the array's is made anew, however long it is.
    // Of a device that is not the array's nothing may be lost: it must hold zeros,
    // or a label that was being written.
    if capacity(&*file, path)?.is_some() || !is_own && !is_unfinished(&*file, path)? {
        check_size(&*file, config, dev, path)?;
        check_blocks(&*file, config, dev, path)?;
        if !is_own {
            // A label that is not whole was being written when an earlier start was cut short.
            let torn = config.label_offset(dev)..config.own_end(dev);
            let torn = if label::is_whole(&*file, config, dev) { 0..0 } else { torn };
            check_nothing_but(&*file, config, dev, path, torn)?;
        }
    }
    Ok(Ok(file))
}

/// Makes the device anew that is to have an NVRAM anew.
pub(crate) fn make_home(
    os: &dyn OsInterface,
    config: &FilesConfig,
    dev: usize,
    device: &mut io::Result<Arc<dyn OsFile>>,
    files: &mut FileIdentities,
    stamp: LabelStamp,
) -> Result<(), FilesError> {
    let path = &config.devices[dev].path;
    if device.is_err() {
        let file = make_file(os, path, ExistingFiles::Refuse)?;
        files.add(&*file, path)?;
        lock(&*file, path)?;
        *device = Ok(file);
    }
    let Ok(file) = device else { return Ok(()) };
    // The cache's log is void with the NVRAM that says whether it is valid, so the
    // device is made anew.
    make_anew(os, &**file, config, dev, stamp).map_err(FilesError::io(path, "make it anew"))
}
