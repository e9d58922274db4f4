//! Prepares files before an array is served for the first time, or after a loss.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::label::{self, LabelStamp};
use crate::buffer::AlignedBuffer;
use crate::files::config::{DeviceConfig, FilesConfig, MAX_DEVICES};
use crate::files::error::FilesError;
use crate::files::io::file::{OsFile, SyncPoint};
use crate::files::io::os::{OsInterface, PathPresence};
use crate::files::io::state_file::StateFile;
use crate::files::io::zeros::make_zeros;
use crate::files::layout::event_count::EventCount;
use crate::files::layout::intents;
use crate::files::layout::journal::ArrayEpoch;
use crate::files::layout::label::ArrayOrigin;
use crate::files::layout::roster::MemberRoster;
use crate::files::layout::sectors::SECTOR;
use crate::files::nvram::intents::IntentsFile;
use crate::files::nvram::journal::NvramFile;
use crate::nvram::RowSet;

/// Has a device be none of an array that is overwritten, durably.
pub(super) fn forget(os: &dyn OsInterface, file: &dyn OsFile, config: &FilesConfig, dev: usize) -> io::Result<()> {
    // A block device cannot be shortened, so its label and all after it are made
    // zeros.
    if os.is_block_device(&config.devices[dev].path) {
        let from = config.label_offset(dev);
        file.write_all_at(&AlignedBuffer::zeroed((config.own_end(dev) - from) as usize), from)?;
        if let Some(nvram) = config.region(dev) {
            forget_nvram(file, config, nvram.start)?;
        }
    } else {
        file.set_len(0)?;
    }
    file.sync_all(SyncPoint::CreateEmptied)
}

/// Has there be no NVRAM on a block device, where it begins there; not durable yet.
pub(super) fn forget_nvram(file: &dyn OsFile, config: &FilesConfig, from: u64) -> io::Result<()> {
    // Both headers: with either of them the NVRAM would still be found.
    file.write_all_at(&[0; SECTOR], from)?;
    file.write_all_at(&[0; SECTOR], from + config.journal_layout().second_header())
}

/// Makes the intents of these rows, with this epoch, this event count and these generations, durably.
pub(super) fn make_intents(
    file: Arc<StateFile>,
    config: &FilesConfig,
    origin: ArrayOrigin,
    open: &RowSet,
    count: (u32, EventCount, &[u32; MAX_DEVICES]),
) -> Result<(IntentsFile, MemberRoster), FilesError> {
    // Emptied first, so that what an earlier array left is not read as intents.
    clear(&*file, &config.intents, intents::bytes(config.rows))?;
    fill(&*file, &config.intents, intents::bytes(config.rows))?;
    let made = IntentsFile::create(file, origin, config.rows, open, count);
    let made = made.and_then(|made| made.0.sync_all().map(|()| made));
    made.map_err(FilesError::io(&config.intents, "write it"))
}

/// Makes an NVRAM without content, durably.
pub(crate) fn make_nvram(
    file: Arc<dyn OsFile>,
    config: &FilesConfig,
    count: (ArrayEpoch, u64),
) -> Result<NvramFile, FilesError> {
    clear(&*file, config.nvram_path(), config.journal_layout().bytes())?;
    fill(&*file, config.nvram_path(), config.journal_layout().bytes())?;
    let made = NvramFile::create(file, config.journal_layout(), count).and_then(|file| file.sync_all().map(|()| file));
    made.map_err(FilesError::io(config.nvram_path(), "write it"))
}

/// Makes a cache's device anew, durably: it holds nothing that counts.
pub(crate) fn make_anew(
    os: &dyn OsInterface,
    file: &dyn OsFile,
    config: &FilesConfig,
    dev: usize,
    stamp: LabelStamp,
) -> io::Result<()> {
    if file.capacity()?.is_some() {
        empty(os, file, config, dev, &mut |_| ControlFlow::Continue(()))?;
    } else {
        // Shortened to nothing, then made long: the file system gives zeros without
        // writing them.
        file.set_len(0)?;
        file.set_len(config.file_bytes(dev))?;
    }
    if config.home() == Some(dev) {
        // If this is cut short the file is empty, or long enough for a label and all behind it.
        file.sync_all(SyncPoint::CreateDevice)?;
    }
    // The label last: with it the device is the array's, whatever is in front of
    // it.
    label::write(file, config, dev, stamp)?;
    file.sync_all(SyncPoint::CreateDevice)
}

/// Makes a file as long as this, of zeros.
pub(super) fn clear(file: &dyn OsFile, path: &Path, bytes: u64) -> Result<(), FilesError> {
    // As above: this way old content cannot be read back.
    let cleared = file.set_len(0).and_then(|()| file.set_len(bytes));
    cleared.map_err(FilesError::io(path, "set its size"))
}

/// Has the state be written in place from the first write on: a file system notes each place that is written for the first
/// time, and makes that durable with it.
fn fill(file: &dyn OsFile, path: &Path, bytes: u64) -> Result<(), FilesError> {
    /// Bounds what is written so: of what is longer the rest is noted place by place.
    const MOST: u64 = 64 << 20;
    match file.fill(0, bytes.min(MOST)) {
        // Whoever made the array is told what room is missing.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => clear(file, path, bytes),
        filled => filled.map_err(FilesError::io(path, "fill it with zeros")),
    }
}

/// Makes all of a block device that is used read as zeros, and tells how many bytes do, again and again.
///
/// # Errors
/// If the device cannot be written, or `told` breaks off, which is [`io::ErrorKind::Interrupted`].
pub(super) fn empty(
    os: &dyn OsInterface,
    file: &dyn OsFile,
    config: &FilesConfig,
    dev: usize,
    told: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> io::Result<()> {
    let DeviceConfig { path, offset, options, .. } = &config.devices[dev];
    let direct = || {
        if !options.direct {
            // Direct I/O keeps the zeros out of the page cache.
            return Ok(None);
        }
        let beside = os.open(path, PathPresence::Beside)?;
        // The path may name another device by now.
        if beside.identity()? != file.identity()? {
            return Err(io::Error::other("there is another device now"));
        }
        Ok(beside.set_direct(config.shape.page_bytes(), *offset).is_ok().then_some(beside))
    };
    make_zeros(file, *offset..config.label_offset(dev), direct, &mut |bytes| {
        os.goes_on(path);
        told(bytes)
    })
}

/// Counts the bytes of a block device that [`empty`] makes read as zeros.
pub(super) fn emptied_bytes(config: &FilesConfig, dev: usize) -> u64 {
    config.label_offset(dev) - config.devices[dev].offset
}
