//! Finds and makes the spare place of an NVRAM that lies on a cache's device.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::bitmap::newest_marks;
use super::identify::{is_made, is_unfinished, lock, make_file, open_file, there, why_unread};
use super::label;
use super::nvram_place::open_nvram_device;
use super::vacancy::check_nothing_but;
use crate::files::config::{ExistingFiles, FilesConfig};
use crate::files::error::FilesError;
use crate::files::io::file::{FileIdentity, OsFile};
use crate::files::io::metadata::{identity, length};
use crate::files::io::os::{OsInterface, PathPresence};
use crate::files::io::sectors;
use crate::files::layout::journal::MAGIC;
use crate::files::layout::roster::MemberRoster;
use crate::files::layout::sectors::SECTOR;
use crate::files::nvram::intents;
use crate::files::nvram::journal::read_headers;
use crate::files::nvram::region::FileRegion;

/// Opens or makes the file that is to have the NVRAM; it is locked. What is there must be an NVRAM of the array's, or one that
/// was not made to an end.
pub(crate) fn open_spare(
    os: &dyn OsInterface,
    config: &FilesConfig,
    path: &Path,
) -> Result<(Arc<dyn OsFile>, FileIdentity), FilesError> {
    let file = if os.is_block_device(path) {
        open_nvram_device(os, config, path)?
    } else if let Some(file) = there(os, path)? {
        lock(&*file, path)?;
        // Another's file at that path must not be overwritten by a move that nobody
        // watches.
        if !is_own(&*file, config, path)? {
            return Err(FilesError::Exists(path.to_owned()));
        }
        file
    } else {
        let file = make_file(os, path, ExistingFiles::Refuse)?;
        lock(&*file, path)?;
        file
    };
    let identity = identity(&*file, path)?;
    Ok((file, identity))
}

/// Returns true if a file is an NVRAM of the array's, or was to become one.
fn is_own(file: &dyn OsFile, config: &FilesConfig, path: &Path) -> Result<bool, FilesError> {
    let length = length(file, path)?;
    // A move that was interrupted leaves an empty file, or one of zeros of the right
    // length.
    if length == 0 {
        return Ok(true);
    }
    let Some(first) = sectors::first(file, path, length)? else { return Ok(false) };
    let array = u64::from_le_bytes(first[16..24].try_into().expect("eight bytes"));
    let is_unfinished = first == [0; SECTOR] && length == config.journal_layout().bytes();
    Ok(is_unfinished || first[..MAGIC.len()] == MAGIC && array == config.array)
}

/// Returns the file of the spare place if it is an NVRAM of the array's, current or not.
pub(crate) fn spare_file(os: &dyn OsInterface, config: &FilesConfig) -> Result<Option<Arc<dyn OsFile>>, FilesError> {
    let Some(path) = config.spare() else { return Ok(None) };
    let Some(file) = there(os, path)? else { return Ok(None) };
    let file = FileRegion::whole(file, config, path)?;
    let is_nvram = is_made(&*file, path)? && is_own(&*file, config, path)?;
    Ok(Some(file).filter(|_| is_nvram))
}

/// Returns the configuration with the NVRAM in its spare place if it lies there: it has the epoch of the roster, and is of
/// the same time. What an earlier move has left is of another. Without a roster the members' marks tell.
pub(crate) fn in_spare_place(os: &dyn OsInterface, config: &FilesConfig) -> Result<Option<FilesConfig>, FilesError> {
    let (Some(path), Some(file)) = (config.spare(), spare_file(os, config)?) else { return Ok(None) };
    // A damaged file in the spare place is not the current NVRAM; the device is
    // asked then.
    let Ok(header) = read_headers(&*file, path, length(&*file, path)?, &config.journal_layout()) else {
        return Ok(None);
    };
    let drawn = header.epoch.drawn;
    // The roster is the one place that says which epoch counts.
    let is_current = if let Some(roster) = read_roster(os, config)? {
        roster.origin().drawn == drawn
            && roster.epoch() == header.epoch.epoch
            && roster.event_count().is_of(header.bounds.event_count)
    } else {
        // Members are asked by a second opening, since their locks are not taken
        // yet.
        let members = config.devices.iter().take(config.members);
        let mut members: Vec<_> = members.map(|member| os.open(&member.path, PathPresence::Beside)).collect();
        newest_marks(&mut members, config, drawn)?.is_some_and(|marks| marks.head.epoch == header.epoch.epoch)
    };
    Ok(is_current.then(|| config.with_nvram_in(path)))
}

/// Reads the roster; none if the intents are missing, or their header is damaged.
fn read_roster(os: &dyn OsInterface, config: &FilesConfig) -> Result<Option<MemberRoster>, FilesError> {
    let Some(file) = there(os, &config.intents)? else { return Ok(None) };
    if why_unread(os, config)?.is_some() {
        return Ok(None);
    }
    intents::roster(&*file, &config.intents, length(&*file, &config.intents)?, config.array, config.rows)
}

/// Returns why the device on which the NVRAM lies is lost, if it is: it is not there or does not answer, or the
/// array went on without it.
pub(crate) fn why_home_is_lost(os: &dyn OsInterface, config: &FilesConfig) -> Result<Option<io::Error>, FilesError> {
    let Some(dev) = config.home() else { return Ok(None) };
    let path = config.nvram_path();
    let file = match open_file(os, path)? {
        Ok(file) => file,
        Err(error) => return Ok(Some(error)),
    };
    match sectors::read(&*file, config.label_offset(dev)) {
        Err(error) if is_of_device(&error) => return Ok(Some(error)),
        _ => {}
    }
    let Some(drawn) = label::drawn_of(&*file, config, dev) else { return why_no_device(&*file, config, dev, path) };
    let roster = read_roster(os, config)?;
    // The label alone says that it is the array's. Only the roster knows whether
    // the array went on without it.
    let Some(roster) = roster.filter(|roster| roster.origin().drawn == drawn && roster.has_left(dev)) else {
        return Ok(None);
    };
    Ok(label::check(&*file, config, roster.origin(), dev, roster.generation(dev))?.err())
}

/// Returns why a file without a label of the array's is not the device on which the NVRAM lies. None if it is
/// empty, and can become that, or is another's, which is refused.
fn why_no_device(
    file: &dyn OsFile,
    config: &FilesConfig,
    dev: usize,
    path: &Path,
) -> Result<Option<io::Error>, FilesError> {
    // An empty device can become the home; a whole label of another is refused
    // elsewhere.
    if is_unfinished(file, path)? || label::is_whole(file, config, dev) {
        return Ok(None);
    }
    // Its label may have been written in part.
    let label = config.label_offset(dev)..config.own_end(dev);
    match check_nothing_but(file, config, dev, path, label) {
        Ok(()) => Ok(None),
        Err(FilesError::CarriesData { at, .. }) => {
            Ok(Some(io::Error::other(format!("it has no label of the array's, and holds data at byte {at}"))))
        }
        Err(error @ FilesError::Size { .. }) => Ok(Some(io::Error::other(error.to_string()))),
        Err(error) => failed_home(config, error).map(Some),
    }
}

/// Returns what is wrong with the device on which the NVRAM lies, if that is why an array could not be opened.
pub(crate) fn failed_home(config: &FilesConfig, error: FilesError) -> Result<io::Error, FilesError> {
    match error {
        FilesError::Io { path, source, .. } if path == config.nvram_path() && is_of_device(&source) => Ok(source),
        error => Err(error),
    }
}

/// Returns true if an error says that a device, or something on it, cannot be read or written.
fn is_of_device(error: &io::Error) -> bool {
    // Errors of the device, or of the file system on it. Others, such as
    // permissions, are no loss.
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::IO
                | Errno::NXIO
                | Errno::NODEV
                | Errno::NODATA
                | Errno::ILSEQ
                | Errno::BADMSG
                | Errno::UCLEAN
                | Errno::ROFS
        )
    )
}
