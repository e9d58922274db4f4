//! Checks that existing files have room for what an array puts on them, and hold nothing that must stay.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::identify::{check_size, lock};
use super::label;
use crate::buffer::AlignedBuffer;
use crate::files::config::{ExistingFiles, FilesConfig};
use crate::files::error::FilesError;
use crate::files::io::file::OsFile;
use crate::files::io::metadata::{OPEN, capacity, length};
use crate::files::io::os::{OsInterface, PathPresence};
use crate::files::layout::OWN_MARK;
use crate::files::nvram::region::FileRegion;

/// Checks that the devices that are there, and stay, have room for what a new array has on them, and hold
/// nothing that must stay.
///
/// # Errors
///
/// If one has not, is in use, or cannot be read.
pub(crate) fn check_devices(
    os: &dyn OsInterface,
    config: &FilesConfig,
    existing: ExistingFiles,
) -> Result<(), FilesError> {
    for (dev, device) in config.devices.iter().enumerate() {
        let keeps = existing.keeps(dev);
        // A new regular file holds nothing, so there is nothing to be asked.
        if !keeps && !os.is_block_device(&device.path) {
            continue;
        }
        let file = os.open(&device.path, PathPresence::There).map_err(FilesError::io(&device.path, OPEN))?;
        lock(&*file, &device.path)?;
        check_blocks(&*file, config, dev, &device.path)?;
        if keeps {
            check_room(&*file, config, dev)?;
        } else {
            check_empty(&*file, config, dev, existing)?;
        }
    }
    if let Some(path) = config.own_nvram().filter(|path| os.is_block_device(path)) {
        let file = os.open(path, PathPresence::There).map_err(FilesError::io(path, OPEN))?;
        lock(&*file, path)?;
        FileRegion::whole(Arc::clone(&file), config, path)?;
        if !existing.loses_nvram() {
            check_ends(&*file, path)?;
        }
    }
    Ok(())
}

/// Checks that a device's pages are made of whole logical blocks, if it is a block device: else none could be written
/// directly, or trimmed.
pub(super) fn check_blocks(file: &dyn OsFile, config: &FilesConfig, dev: usize, path: &Path) -> Result<(), FilesError> {
    let block = file.block_bytes().map_err(FilesError::io(path, "ask for its logical block"))?;
    let Some(block) = block.filter(|block| *block > 0) else { return Ok(()) };
    let (page, offset) = (config.shape.page_bytes(), config.devices[dev].offset);
    let found = if !page.is_multiple_of(block) {
        format!("the array's pages have {page} bytes (--page)")
    } else if !offset.is_multiple_of(block) {
        format!("its pages are to begin at byte {offset} (--data-offset)")
    } else {
        return Ok(());
    };
    Err(FilesError::Blocks { path: path.to_owned(), block, found })
}

/// Sets the bytes at the beginning and the end of a device that are looked at.
// One mebibyte covers partition tables and the superblocks of the usual file
// systems at both ends.
const LOOKED_AT: u64 = 1 << 20;
/// Counts the places of a regular file between these that are looked at as well.
const SAMPLES: u64 = 64;
/// Sets the bytes of each.
const SAMPLE: u64 = 4096;

/// Checks that a block device has room for what a device holds, and holds nothing that must stay.
fn check_empty(file: &dyn OsFile, config: &FilesConfig, dev: usize, existing: ExistingFiles) -> Result<(), FilesError> {
    let path = &config.devices[dev].path;
    check_size(file, config, dev, path)?;
    if existing.loses(dev) { Ok(()) } else { check_nothing(file, config, dev, path) }
}

/// Checks that a device's file holds nothing that must stay.
pub(super) fn check_nothing(
    file: &dyn OsFile,
    config: &FilesConfig,
    dev: usize,
    path: &Path,
) -> Result<(), FilesError> {
    check_nothing_but(file, config, dev, path, 0..0)
}

/// Checks that a device of the array's holds nothing that must stay, except within `but`.
pub(crate) fn check_nothing_but(
    file: &dyn OsFile,
    config: &FilesConfig,
    dev: usize,
    path: &Path,
    but: Range<u64>,
) -> Result<(), FilesError> {
    let bytes = check_size(file, config, dev, path)?;
    // A regular file may hold data anywhere, unlike a device with a file system;
    // samples cost 64 small reads.
    if capacity(file, path)?.is_none() {
        let samples = (0..SAMPLES).map(|nth| bytes / SAMPLE * nth / SAMPLES * SAMPLE);
        check_zeros(file, path, (bytes, SAMPLE), samples, but.clone())?;
    }
    check_zeros(file, path, (bytes, LOOKED_AT), places(config, dev, bytes), but)
}

/// Returns where tables of partitions, superblocks and their copies are, and where a label would be, and an NVRAM.
fn places(config: &FilesConfig, dev: usize, bytes: u64) -> [u64; 4] {
    let nvram = config.region(dev).map_or(0, |nvram| nvram.start);
    [0, config.label_offset(dev), nvram, bytes]
}

/// Makes zeros of what an array has on its block device where [`check_nothing`] looks; not durable yet.
pub(super) fn clear_device(file: &dyn OsFile, config: &FilesConfig, dev: usize) -> io::Result<()> {
    let bytes = file.capacity()?.unwrap_or(0);
    clear_places(file, bytes, places(config, dev, bytes), config.devices[dev].offset..config.file_bytes(dev))
}

/// Makes zeros of what an array has on a block device for the NVRAM alone where [`check_ends`] looks; not durable yet.
pub(super) fn clear_ends(file: &dyn OsFile, config: &FilesConfig) -> io::Result<()> {
    let bytes = file.capacity()?.unwrap_or(0);
    clear_places(file, bytes, [0, bytes], 0..config.journal_layout().bytes())
}

fn clear_places(
    file: &dyn OsFile,
    length: u64,
    places: impl IntoIterator<Item = u64>,
    own: Range<u64>,
) -> io::Result<()> {
    let looked_at = LOOKED_AT.min(length);
    // Near the end of a small device the last places overlap; each is kept within
    // it.
    for from in places.into_iter().map(|place| place.min(length - looked_at)) {
        let (from, end) = (from.max(own.start), (from + looked_at).min(own.end));
        if from < end {
            file.write_all_at(&AlignedBuffer::zeroed((end - from) as usize), from)?;
        }
    }
    Ok(())
}

/// Checks that a block device for the NVRAM alone holds nothing that must stay.
pub(crate) fn check_ends(file: &dyn OsFile, path: &Path) -> Result<(), FilesError> {
    let capacity = capacity(file, path)?.unwrap_or(0);
    check_zeros(file, path, (capacity, LOOKED_AT), [0, capacity], 0..0)
}

/// Checks that there are zeros in so many bytes behind these places of a device of this length, or at its end, beside
/// what may be there.
fn check_zeros(
    file: &dyn OsFile,
    path: &Path,
    (length, looked_at): (u64, u64),
    places: impl IntoIterator<Item = u64>,
    but: Range<u64>,
) -> Result<(), FilesError> {
    let looked_at = looked_at.min(length);
    for from in places.into_iter().map(|place| place.min(length - looked_at)) {
        let mut bytes = vec![0; looked_at as usize];
        file.read_exact_at(&mut bytes, from).map_err(FilesError::io(path, "read from it"))?;
        let mut found = (from..).zip(&bytes).filter(|(_, byte)| **byte != 0);
        // The first byte that is not zero is named, so that the user can look at
        // it.
        if let Some((at, _)) = found.find(|(at, _)| !but.contains(at)) {
            let block = capacity(file, path)?.is_some();
            return Err(FilesError::CarriesData { path: path.to_owned(), at, block });
        }
    }
    Ok(())
}

/// Checks that a device that keeps its pages has them all. After them there must be a place for its label:
/// zeros, an earlier label, or the end of its file.
fn check_room(file: &dyn OsFile, config: &FilesConfig, dev: usize) -> Result<(), FilesError> {
    let path = &config.devices[dev].path;
    let capacity = capacity(file, path)?;
    let found = capacity.map_or_else(|| length(file, path), Ok)?;
    let (end, from, most) = (config.pages_end(dev), config.label_offset(dev), config.file_bytes(dev));
    let earlier = from..from + label::bytes_at(file, from);
    let earlier = if earlier.is_empty() { earlier } else { from..config.end_behind(dev, earlier.end) };
    let fits = if capacity.is_some() { found >= most } else { (end..=most.max(earlier.end)).contains(&found) };
    if !fits {
        let (path, settings, block) = (path.clone(), config.size_settings(dev), capacity.is_some());
        return Err(FilesError::Room { path, found, end, most, block, settings });
    }
    let mut bytes = vec![0; (found.min(most) - end) as usize];
    file.read_exact_at(&mut bytes, end).map_err(FilesError::io(path, "read from it"))?;
    let mut places = (end..).zip(&bytes);
    match places.find(|(at, byte)| **byte != 0 && !earlier.contains(at)) {
        None => Ok(()),
        Some((at, _)) => {
            // Only a leftover of destage's own may be removed by the command that
            // the error suggests.
            let is_ours = bytes.windows(OWN_MARK.len()).any(|word| word == OWN_MARK);
            let named = path.display();
            let command = match capacity {
                None => format!("truncate --size {end} {named}"),
                Some(_) => format!("blkdiscard --zeroout --offset {end} --length {} {named}", most - end),
            };
            Err(FilesError::LabelsPlace { path: path.clone(), at, end, removal: is_ours.then_some(command) })
        }
    }
}
