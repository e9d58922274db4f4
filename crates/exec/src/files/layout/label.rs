//! Lays out labels, which identify files. There is a label after the pages of each device's file, and the
//! roster that says which label each file must have.
//!
//! A label is written once, when the array is made or the file replaces another; it never changes. The roster, in
//! the header of the intents, has a generation for each device. An odd one names a file, an even one says that there
//! is none. It becomes even when the device fails, and when its file is not there at a start. So a file that has
//! missed writes is told from one that has not, though both answer.
//!
//! A file that takes a device's place is named once something durable says that the device's content is lost. Until
//! then a start must not find the file and take its content for the device's.
//!
//! ```text
//! label, at the next multiple of 512 behind the pages
//!   0   8  "dstgMEMB"
//!   8   4  version, 4
//!  12   4  number of the device
//!  16   8  number of the array
//!  24  16  drawn when the array was made
//!  40   4  generation
//!  44   4  bytes of what the array is, n
//!  48   4  CRC-32C of these
//!  52   4  generation of the file whose place it takes with all that this one holds, or 0
//!  56 452  0
//! 508   4  CRC-32C of bytes 0 .. 508
//! 512   n  what the array is, as text in lines
//!          0 up to the next multiple of 512
//! ```
//!
//! Version 1, which does not say what the array is, version 2, behind which a member has no marks (`bitmap.rs`), and
//! version 3, behind which a device has no event count (`event_count.rs`), are refused.

use std::io;
use std::path::Path;

use destage_plan::Dev;

use super::sectors::{SECTOR, SectorBuffer, SectorReader, is_sealed, put, seal};
use crate::files::config::MAX_ABOUT_BYTES;
use crate::files::error::FilesError;

/// Begins a label.
pub(crate) const MAGIC: [u8; 8] = *b"dstgMEMB";
const VERSION: u32 = 4;

/// Holds what the files of an array have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrayOrigin {
    /// The caller's number of the array.
    pub(crate) array: u64,
    /// Drawn when the array was made.
    pub(crate) drawn: [u8; 16],
}

/// Returns the offset of the label of a file whose pages end there.
pub(crate) const fn offset(pages_end: u64) -> u64 {
    pages_end.next_multiple_of(SECTOR as u64)
}

/// Bytes of a label that says this.
pub(crate) const fn bytes(about: &str) -> u64 {
    SECTOR as u64 + (about.len() as u64).next_multiple_of(SECTOR as u64)
}

/// Is the generation of a file that is given what a device holds, and is no device's until that is done. No roster has it.
// Even, so that no roster can name it.
pub(crate) const UNFILLED: u32 = 0;
/// Stands in a label for no file whose place was taken.
pub(crate) const NO_HEIR: u32 = 0;

/// Encodes the label of a device of an array that is this.
pub(crate) fn encode(about: &str, origin: ArrayOrigin, dev: usize, generation: u32) -> Vec<u8> {
    encode_heir(about, origin, dev, generation, NO_HEIR)
}

/// As [`encode`], for a file that holds what the one with the generation `heir_of` holds, and takes its place. A roster that
/// has that generation means either of them.
pub(crate) fn encode_heir(about: &str, origin: ArrayOrigin, dev: usize, generation: u32, heir_of: u32) -> Vec<u8> {
    let mut sector: SectorBuffer = [0; SECTOR];
    put(&mut sector, 0, &MAGIC);
    put(&mut sector, 8, &VERSION.to_le_bytes());
    put(&mut sector, 12, &(dev as u32).to_le_bytes());
    put(&mut sector, 16, &origin.array.to_le_bytes());
    put(&mut sector, 24, &origin.drawn);
    put(&mut sector, 40, &generation.to_le_bytes());
    put(&mut sector, 44, &(about.len() as u32).to_le_bytes());
    put(&mut sector, 48, &crc32c::crc32c(about.as_bytes()).to_le_bytes());
    put(&mut sector, 52, &heir_of.to_le_bytes());
    seal(&mut sector);
    let mut label = vec![0; bytes(about) as usize];
    label[..SECTOR].copy_from_slice(&sector);
    label[SECTOR..SECTOR + about.len()].copy_from_slice(about.as_bytes());
    label
}

/// Returns true if this is the first sector of a label, of whatever array.
pub(crate) fn is_whole(sector: &SectorBuffer) -> bool {
    // Whole means sealed: a torn first sector is no label.
    sector[..8] == MAGIC && is_sealed(sector)
}

/// Returns the array and the number of the device whose label this is, if it is one.
pub(crate) fn owner_of(sector: &SectorBuffer) -> Option<(ArrayOrigin, u32)> {
    let array = u64::from_le_bytes(sector[16..24].try_into().expect("eight bytes"));
    let drawn = sector[24..40].try_into().expect("sixteen bytes");
    let dev = u32::from_le_bytes(sector[12..16].try_into().expect("four bytes"));
    is_whole(sector).then_some((ArrayOrigin { array, drawn }, dev))
}

/// Returns what was drawn for the array whose label this is, if it is one of this number and device.
pub(crate) fn drawn_of(sector: &SectorBuffer, array: u64, dev: usize) -> Option<[u8; 16]> {
    let (origin, its_dev) = owner_of(sector)?;
    (origin.array == array && its_dev as usize == dev).then_some(origin.drawn)
}

/// Returns the bytes of the label whose first sector this is, of whatever array; 0 if it is none.
pub(crate) fn bytes_of(sector: &SectorBuffer) -> u64 {
    if !is_whole(sector) {
        return 0;
    }
    let about = u32::from_le_bytes(sector[44..48].try_into().expect("four bytes"));
    // Bounded, so that a damaged length does not ask for gigabytes.
    SECTOR as u64 + u64::from(about).min(MAX_ABOUT_BYTES).next_multiple_of(SECTOR as u64)
}

/// Checks that a sector at this place, if a label begins with it, is one of this version.
pub(crate) fn check_version(path: &Path, offset: u64, sector: &SectorBuffer) -> Result<(), FilesError> {
    if !is_whole(sector) {
        return Ok(());
    }
    let reader = SectorReader::new(path, offset, sector);
    reader.exactly("the label's version", 8, reader.u32(8), VERSION)
}

/// Holds what the label of a device must say.
pub(crate) struct ExpectedLabel<'a> {
    /// The device's file.
    pub(crate) path: &'a Path,
    /// Is the offset of its label.
    pub(crate) offset: u64,
    /// Describes the array, as the label must have it.
    pub(crate) about: &'a str,
    pub(crate) origin: ArrayOrigin,
    pub(crate) dev: usize,
    /// Counts the array's members; the cache's device is behind them.
    pub(crate) members: usize,
    /// As the roster has it.
    pub(crate) generation: u32,
}

/// Holds what the first sector of a label says that the others are checked by.
pub(crate) struct LabelHead {
    /// Bytes behind the first sector that say what the array is.
    pub(crate) about_bytes: usize,
    about_crc: u32,
    generation: u32,
    heir_of: u32,
}

impl ExpectedLabel<'_> {
    /// Checks the first sector of a label. The inner error: it was never made to an end. A file of another array or
    /// device is in the wrong place, which nobody meant; one of another version is not understood.
    pub(crate) fn head(&self, sector: &SectorBuffer) -> Result<io::Result<LabelHead>, FilesError> {
        let reader = SectorReader::new(self.path, self.offset, sector);
        // A label that was never completed makes a device missing, since its file
        // was being made.
        if let Err(error) = reader.magic(MAGIC).and_then(|()| reader.crc("the label's CRC-32C")) {
            return Ok(Err(none(&error.to_string())));
        }
        reader.exactly("the label's version", 8, reader.u32(8), VERSION)?;
        let (origin, dev) = (self.origin, self.dev);
        let name =
            |dev: usize| if dev < self.members { format!("member {dev}") } else { "the cache's device".to_owned() };
        let other = |found: String| FilesError::Stranger {
            path: self.path.to_owned(),
            found,
            expected: format!("{} (put that back, or move this file away: then it counts as missing)", name(dev)),
        };
        let its_dev = reader.u32(12).min(255) as usize;
        // A file of another array in this place is a mistake of the user, not a
        // loss.
        if reader.u64(16) != origin.array || sector[24..40] != origin.drawn {
            return Err(other(format!("device {its_dev} of another array")));
        }
        if its_dev != dev {
            return Err(other(format!("{} of this array, or a copy of it", name(its_dev))));
        }
        let about_bytes = u64::from(reader.u32(44)).min(MAX_ABOUT_BYTES) as usize;
        Ok(Ok(LabelHead {
            about_bytes,
            about_crc: reader.u32(48),
            generation: reader.u32(40),
            heir_of: reader.u32(52),
        }))
    }

    /// Checks what is behind the first sector, and the generation, which is returned. The inner error: the file is not the device's any
    /// more, or the label was never made to an end. An array that is something else is not understood.
    pub(crate) fn check(&self, head: &LabelHead, about: &[u8]) -> Result<io::Result<u32>, FilesError> {
        if crc32c::crc32c(about) != head.about_crc {
            return Ok(Err(none("what it says the array to be does not fit its CRC-32C")));
        }
        if about != self.about.as_bytes() {
            return Err(another(self.path, &String::from_utf8_lossy(about), self.about));
        }
        let (found, generation) = (head.generation, self.generation);
        // A roster that names the predecessor means the heir as well: the crash
        // came between label and roster.
        let is_heir = generation % 2 == 1 && head.heir_of == generation && found == generation.wrapping_add(2);
        if found == generation || is_heir {
            return Ok(Ok(found));
        }
        // A larger generation was written before the roster could name it; a
        // smaller one was named once and left.
        let why = match found {
            UNFILLED => "it was to take a member's place, and was not filled to the end; destage replace begins again",
            _ if found > generation => "it was never named",
            _ => "it has missed writes",
        };
        let dev = Dev(self.dev as u8);
        Ok(Err(io::Error::other(format!("{why}: its generation is {found}, that of {dev} is {generation}"))))
    }
}

/// The error that a file has no label.
fn none(why: &str) -> io::Error {
    io::Error::other(format!("it has no label: {why}"))
}

/// The error that an array is which is something else than it is opened as: the first line that tells them apart.
fn another(path: &Path, found: &str, expected: &str) -> FilesError {
    let (mut found, mut expected) = (found.lines(), expected.lines());
    // The first line that differs is what the user has to look at.
    loop {
        let (one, other) = (found.next(), expected.next());
        if one != other || one.is_none() {
            let line = |line: Option<&str>| line.unwrap_or("nothing").to_owned();
            return FilesError::Described { path: path.to_owned(), found: line(one), expected: line(other) };
        }
    }
}
