//! Labels as they are written to devices' files and looked for there.

use std::io;

use crate::buffer::AlignedBuffer;
use crate::files::config::FilesConfig;
use crate::files::error::FilesError;
use crate::files::io::file::OsFile;
use crate::files::io::sectors;
use crate::files::layout::bad_page_list::{self, BadPageList};
use crate::files::layout::event_count::{self, EventCount};
use crate::files::layout::label::{self, ArrayOrigin, ExpectedLabel, NO_HEIR, UNFILLED};
use crate::files::layout::sectors::SECTOR;

/// Says what a label and what is behind it say, beside of which device it is.
#[derive(Clone, Copy)]
pub(crate) struct LabelStamp {
    pub(crate) origin: ArrayOrigin,
    pub(crate) generation: u32,
    pub(crate) count: EventCount,
}

/// Labels a file; not durable yet.
pub(super) fn write(file: &dyn OsFile, config: &FilesConfig, dev: usize, stamp: LabelStamp) -> io::Result<()> {
    write_heir(file, config, dev, stamp, NO_HEIR)
}

/// As [`write`], for a file that holds what the one with this generation holds, and takes its place.
pub(super) fn write_heir(
    file: &dyn OsFile,
    config: &FilesConfig,
    dev: usize,
    stamp: LabelStamp,
    heir_of: u32,
) -> io::Result<()> {
    let LabelStamp { origin, generation, count } = stamp;
    // The label before the count: a count without a label belongs to nobody.
    write_alone(file, config, dev, &label::encode_heir(&config.about, origin, dev, generation, heir_of))?;
    write_count(file, config, origin, dev, count)
}

/// Labels a file that is given what a device holds, and is no device's until that is done; not durable yet.
pub(super) fn write_unfilled(
    file: &dyn OsFile,
    config: &FilesConfig,
    dev: usize,
    origin: ArrayOrigin,
) -> io::Result<()> {
    write_alone(file, config, dev, &label::encode(&config.about, origin, dev, UNFILLED))
}

/// Writes a label, and nothing behind it.
fn write_alone(file: &dyn OsFile, config: &FilesConfig, dev: usize, label: &[u8]) -> io::Result<()> {
    file.write_all_at(label, config.label_offset(dev))?;
    // Counts of an earlier array, at the same place, must not be read as this
    // one's.
    file.write_all_at(&AlignedBuffer::zeroed(2 * config.count_bytes() as usize), config.count_offset(dev))?;
    if dev < config.members {
        // Of marks that may be there nobody must believe any.
        let from = config.marks_offset(dev);
        file.write_all_at(&AlignedBuffer::zeroed((config.file_bytes(dev) - from) as usize), from)?;
    }
    Ok(())
}

/// Gives the label of a file another generation; not durable yet. What is behind it stays, so that a torn write is none.
pub(super) fn rename(
    file: &dyn OsFile,
    config: &FilesConfig,
    origin: ArrayOrigin,
    dev: usize,
    generation: u32,
) -> io::Result<()> {
    // One sector, which is written whole or not at all.
    let label = label::encode(&config.about, origin, dev, generation);
    file.write_all_at(&label[..SECTOR], config.label_offset(dev))
}

/// Writes the event count to a device's file, over the older of both; not durable yet. The list of bad pages beside it stays.
pub(crate) fn write_count(
    file: &dyn OsFile,
    config: &FilesConfig,
    origin: ArrayOrigin,
    dev: usize,
    count: EventCount,
) -> io::Result<()> {
    let places = read_places(file, config, dev)?;
    // Over the older of both, so a torn write leaves the newer one.
    let place = event_count::decode(&places, origin, dev).map_or(0, |(_, newest)| 1 - newest);
    let mut page = event_count::encode(config.shape.page_bytes(), origin.drawn, dev, count);
    let at = place as usize * page.len();
    // The list of bad pages shares the place and must survive.
    page[SECTOR..].copy_from_slice(&places[at + SECTOR..at + config.count_bytes() as usize]);
    file.write_all_at(&page, config.count_offset(dev) + place * config.count_bytes())
}

/// Reads the event count from a device's file; none if it has none that can be read.
pub(super) fn read_count(
    file: &dyn OsFile,
    config: &FilesConfig,
    origin: ArrayOrigin,
    dev: usize,
) -> io::Result<Option<EventCount>> {
    Ok(event_count::decode(&read_places(file, config, dev)?, origin, dev).map(|(count, _)| count))
}

/// Reads the list of pages that a member cannot keep from its file; none if it is damaged.
pub(super) fn read_bad_pages(
    file: &dyn OsFile,
    config: &FilesConfig,
    origin: ArrayOrigin,
    dev: usize,
) -> io::Result<Option<BadPageList>> {
    Ok(bad_page_list::decode(&read_places(file, config, dev)?, origin, dev, config.devices[dev].pages))
}

/// Reads both places of event counts and lists of bad pages.
fn read_places(file: &dyn OsFile, config: &FilesConfig, dev: usize) -> io::Result<AlignedBuffer> {
    // Aligned: the file may be read directly.
    let mut places = AlignedBuffer::zeroed(2 * config.count_bytes() as usize);
    file.read_exact_at(&mut places, config.count_offset(dev))?;
    Ok(places)
}

/// Checks the version of the label of a file of another size than a device's must be: that would explain the
/// size.
///
/// # Errors
///
/// If there is a whole label of another version.
pub(super) fn check_version(file: &dyn OsFile, config: &FilesConfig, dev: usize) -> Result<(), FilesError> {
    let at = config.label_offset(dev);
    // A file that cannot be read says nothing of its version; the size error is
    // told then.
    let Ok(sector) = sectors::read(file, at) else { return Ok(()) };
    label::check_version(&config.devices[dev].path, at, &sector)
}

/// Returns what was drawn for the array whose label a file has, if it is one of this number and device.
pub(super) fn drawn_of(file: &dyn OsFile, config: &FilesConfig, dev: usize) -> Option<[u8; 16]> {
    label::drawn_of(&sectors::read(file, config.label_offset(dev)).ok()?, config.array, dev)
}

/// Returns the array and the number of the device that a file has been, if it has a label where this device has it.
pub(super) fn owner_of(file: &dyn OsFile, config: &FilesConfig, dev: usize) -> Option<(ArrayOrigin, u32)> {
    label::owner_of(&sectors::read(file, config.label_offset(dev)).ok()?)
}

/// Returns true if a file has been a device of whatever array: its label is whole.
pub(super) fn is_whole(file: &dyn OsFile, config: &FilesConfig, dev: usize) -> bool {
    sectors::read(file, config.label_offset(dev)).is_ok_and(|sector| label::is_whole(&sector))
}

/// Returns true if a file has been a device of this array, so that nobody else needs its content.
pub(super) fn is_of(file: &dyn OsFile, config: &FilesConfig, dev: usize) -> bool {
    sectors::is_of(file, config.label_offset(dev), label::MAGIC, config.array)
}

/// Bytes of the label that a file has there, of whatever array; 0 if it has none.
pub(super) fn bytes_at(file: &dyn OsFile, at: u64) -> u64 {
    sectors::read(file, at).map_or(0, |sector| label::bytes_of(&sector))
}

/// Checks whether a file is the device's, and returns its generation, which is a later one if it is the
/// [heir](label::encode_heir) of the file with this one. The inner error: it is not the device's any more, or was never made to
/// an end. A file of another array or device is in the wrong place, which nobody meant; one of another version,
/// or of an array that is something else, is not understood.
pub(super) fn check(
    file: &dyn OsFile,
    config: &FilesConfig,
    origin: ArrayOrigin,
    dev: usize,
    generation: u32,
) -> Result<io::Result<u32>, FilesError> {
    let (path, offset) = (config.devices[dev].path.as_path(), config.label_offset(dev));
    let members = config.members;
    let wanted = ExpectedLabel { path, offset, about: &config.about, origin, dev, members, generation };
    let sector = match sectors::read(file, offset) {
        // An unreadable label makes the device missing. A label of another array is
        // an error that the user has to see.
        Ok(sector) => sector,
        Err(error) => return Ok(Err(error)),
    };
    let head = match wanted.head(&sector)? {
        Ok(head) => head,
        Err(error) => return Ok(Err(error)),
    };
    let mut about = vec![0; head.about_bytes];
    if let Err(error) = file.read_exact_at(&mut about, offset + SECTOR as u64) {
        return Ok(Err(error));
    }
    wanted.check(&head, &about)
}
