//! Prepares the file that takes a lost device's place.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::folders::{folder, sync_folder};
use super::identify::{check_size, is_unfinished, lock, make_file, open_file};
use super::label::{self, LabelStamp};
use super::prepare::clear;
use super::vacancy::{check_blocks, check_nothing};
use crate::buffer::AlignedBuffer;
use crate::files::config::{ExistingFiles, FilesConfig};
use crate::files::error::FilesError;
use crate::files::io::file::{FileIdentity, OsFile, SyncPoint};
use crate::files::io::metadata::{OPEN, capacity, identity};
use crate::files::io::os::{OsInterface, PathPresence};
use crate::files::io::patience::patiently;
use crate::files::io::state_file::StateFile;
use crate::files::layout::label::{ArrayOrigin, UNFILLED};

/// Names a device whose place another file takes.
pub(crate) struct ReplacedPlace {
    pub(crate) origin: ArrayOrigin,
    pub(crate) dev: usize,
    /// Lists the array's files, but for the device's own.
    pub(crate) used: Vec<(FileIdentity, PathBuf)>,
}

/// Says what the label of a device's successor says.
pub(crate) enum SuccessorLabel {
    /// Reports that it was not filled, or not to the end: it is no device's, and can be given again.
    Unfilled(ArrayOrigin),
    /// Reports that it holds what the file with this generation holds, whose place it takes.
    Whole {
        stamp: LabelStamp,
        heir_of: u32,
        /// Holds the marks of rows, and where their copy goes.
        marks: (AlignedBuffer, u64),
    },
}

/// Labels a device's successor, durably, with all that it was given before.
pub(crate) fn label_successor(
    os: &dyn OsInterface,
    file: &dyn OsFile,
    config: &FilesConfig,
    label: &SuccessorLabel,
    dev: usize,
    path: &Path,
) -> Result<(), FilesError> {
    let (labelled, at) = match label {
        SuccessorLabel::Unfilled(origin) => {
            // Alone first: what a cut leaves is a file that holds nothing, or says whose it is.
            let headed = label::rename(file, config, *origin, dev, UNFILLED);
            let headed = headed.and_then(|()| file.sync_all(SyncPoint::ReplaceDevice));
            let labelled = headed.and_then(|()| label::write_unfilled(file, config, dev, *origin));
            (labelled, SyncPoint::ReplaceDevice)
        }
        SuccessorLabel::Whole { stamp, heir_of, marks: (marks, place) } => {
            let labelled = label::write_heir(file, config, dev, *stamp, *heir_of);
            let marked = labelled.and_then(|()| file.write_all_at(marks, config.marks_offset(dev) + place));
            (marked, SyncPoint::Successor)
        }
    };
    // One sync makes the label durable together with all pages that were written
    // before.
    labelled.and_then(|()| file.sync_all(at)).map_err(FilesError::io(path, "make it durable"))?;
    sync_folder(os, folder(path), SyncPoint::ReplaceFolder)
}

/// Opens a file once more that is open and locked, to write between its pages what need not be aligned.
pub(crate) fn open_beside(
    os: &dyn OsInterface,
    path: &Path,
    known: Option<FileIdentity>,
) -> Result<Arc<dyn OsFile>, FilesError> {
    let file = os.open(path, PathPresence::Beside).map_err(FilesError::io(path, OPEN))?;
    // The path may name another file by now, whose pages must not be written.
    if Some(identity(&*file, path)?) == known {
        return Ok(file);
    }
    let source = io::Error::other("it is another file than before");
    Err(FilesError::Io { path: path.to_owned(), what: OPEN, source })
}

/// Opens what stands in a lost device's place: a file of the right size that nobody needs, or a new one, with room for
/// all that the device will hold. One that was there is not locked yet.
pub(crate) fn open_replacement(
    os: &dyn OsInterface,
    config: &FilesConfig,
    place: &ReplacedPlace,
    path: &Path,
    existing: ExistingFiles,
) -> Result<Arc<dyn OsFile>, FilesError> {
    let dev = place.dev;
    let bytes = config.file_bytes(dev);
    let no_room = FilesError::io(path, "find room for all that it will hold");
    let (file, is_new) = match open_file(os, path)? {
        // An empty file is a new one whose making was interrupted.
        Ok(file) if is_unfinished(&*file, path)? => (file, false),
        Ok(file) => {
            let identity = identity(&*file, path)?;
            if let Some((_, other)) = place.used.iter().find(|used| used.0 == identity) {
                return Err(FilesError::Same(other.clone(), path.to_owned()));
            }
            check_others_places(os, &*file, config, place, path)?;
            check_size(&*file, config, dev, path)?;
            check_blocks(&*file, config, dev, path)?;
            if !existing.loses(dev) {
                check_unneeded(&*file, config, place, path)?;
            }
            // Room is reserved now, so that filling does not fail near its end.
            if capacity(&*file, path)?.is_none() {
                file.reserve(bytes).map_err(no_room)?;
            }
            return Ok(file);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => (make_file(os, path, ExistingFiles::Refuse)?, true),
        Err(error) => return Err(FilesError::io(path, OPEN)(error)),
    };
    lock(&*file, path)?;
    let made = check_others_places(os, &*file, config, place, path).and_then(|()| clear(&*file, path, bytes));
    let made = made.and_then(|()| file.reserve(bytes).map_err(no_room));
    // Before it is labelled: if its making is cut short it is empty or whole, and no start takes it for a file of
    // another size.
    let made = made
        .and_then(|()| file.sync_all(SyncPoint::ReplaceDevice).map_err(FilesError::io(path, "make its size durable")));
    if let Err(error) = made {
        // The room that there was is given back; nobody asks whether that went well.
        // A file that was there keeps existing, empty as it was found or
        // unfinished.
        drop(if is_new { os.remove(path) } else { file.set_len(0) });
        return Err(error);
    }
    Ok(file)
}

/// Checks that a file does not lie where another device has its own that is not open: the description would name it twice, and
/// no start would go on.
fn check_others_places(
    os: &dyn OsInterface,
    file: &dyn OsFile,
    config: &FilesConfig,
    place: &ReplacedPlace,
    path: &Path,
) -> Result<(), FilesError> {
    let own = identity(file, path)?;
    for (other, device) in config.devices.iter().enumerate().filter(|(other, _)| *other != place.dev) {
        let is_open = place.used.iter().any(|(_, used)| *used == device.path);
        // Whatever else is lost is not asked for: it may hang.
        if is_open || device.path.file_name() != path.file_name() {
            continue;
        }
        let there = os.open(&device.path, PathPresence::Beside);
        if there.and_then(|there| there.identity()).is_ok_and(|there| there == own) {
            let owner = device_words(config, other);
            return Err(FilesError::OthersPlace { path: path.to_owned(), owner });
        }
    }
    Ok(())
}

/// Names a device of an array.
fn device_words(config: &FilesConfig, number: usize) -> String {
    if number < config.members { format!("member {number}") } else { "the cache's device".to_owned() }
}

/// Checks that nobody needs what a file holds: it has been this device before, or holds nothing.
fn check_unneeded(
    file: &dyn OsFile,
    config: &FilesConfig,
    place: &ReplacedPlace,
    path: &Path,
) -> Result<(), FilesError> {
    // Without a label it must hold nothing at all.
    let Some((owner, number)) = label::owner_of(file, config, place.dev) else {
        return check_nothing(file, config, place.dev, path);
    };
    // The device's own earlier content may be overwritten; it is filled anew.
    if owner == place.origin && number as usize == place.dev {
        return Ok(());
    }
    let found = if owner == place.origin {
        format!("{} of this array", device_words(config, number as usize))
    } else {
        format!("device {number} of another array")
    };
    Err(FilesError::Stranger { path: path.to_owned(), found, expected: "a file that holds nothing".to_owned() })
}

/// Has a device's file read and written directly if that is wanted: how memory must be aligned then, or why it cannot be.
pub(crate) fn go_direct(
    os: &Arc<dyn OsInterface>,
    config: &FilesConfig,
    dev: usize,
    path: &Path,
    file: &Arc<dyn OsFile>,
) -> Result<Option<io::Result<u64>>, FilesError> {
    if !config.devices[dev].options.direct {
        return Ok(None);
    }
    let (file, page, first) = (Arc::clone(file), config.shape.page_bytes(), config.devices[dev].offset);
    // Asking for direct I/O may hang with the device, so it has the patience of all
    // such calls.
    patiently(os, path, config.patience, move |_| Ok(Some(file.set_direct(page, first))))
}

/// Has a file of the state read and written past the page cache; returns why it is not.
pub(crate) fn state_goes_direct(
    os: &Arc<dyn OsInterface>,
    path: &Path,
    patience: Duration,
    file: Arc<StateFile>,
) -> Result<Option<io::Error>, FilesError> {
    patiently(os, path, patience, move |_| Ok(file.set_direct(0, 0).err()))
}

/// Makes a file the device's, durably.
pub(crate) fn label_replacement(
    os: &dyn OsInterface,
    file: &dyn OsFile,
    config: &FilesConfig,
    stamp: LabelStamp,
    dev: usize,
    path: &Path,
) -> Result<(), FilesError> {
    // Label and content are durable before the name is.
    let labelled = label::write(file, config, dev, stamp);
    let durable = labelled.and_then(|()| file.sync_all(SyncPoint::ReplaceDevice));
    durable.map_err(FilesError::io(path, "make it durable"))?;
    sync_folder(os, folder(path), SyncPoint::ReplaceFolder)
}
