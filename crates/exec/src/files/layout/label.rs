//! Which file is which: a label behind the pages of each device's file, and the roster that says
//! which label each must have.
//!
//! A file is written into the array's place by its label once, when the array is made or the file
//! replaces another; it never changes. The roster, in the header of the intents, has a generation
//! for each device: an odd one names a file, an even one says that there is none. It becomes even when
//! the device fails and when its file is not there at a start, so that a file that has missed writes is
//! told from the one that has not, though both answer. A file that takes a device's place is named once
//! something durable says that what the device held is lost: until then a start must not find the file,
//! and take what is in it for that.
//!
//! ```text
//! label, at the next multiple of 512 behind the pages
//!   0   8  "dstgMEMB"
//!   8   4  version, 3
//!  12   4  number of the device
//!  16   8  number of the array
//!  24  16  drawn when the array was made
//!  40   4  generation
//!  44   4  bytes of what the array is, n
//!  48   4  CRC-32C of these
//!  52 456  0
//! 508   4  CRC-32C of bytes 0 .. 508
//! 512   n  what the array is, as text in lines
//!          0 up to the next multiple of 512
//! ```
//!
//! Version 1, which does not say what the array is, and version 2, behind which a member has no marks
//! (`bitmap.rs`), are refused.

use std::io;
use std::path::Path;
use std::sync::Arc;

use destage_plan::Dev;

use super::sectors::{self, Reader, SECTOR, Sector, is_sealed, put, seal};
use crate::Buffer;
use crate::files::config::{FilesConfig, MAX_ABOUT_BYTES, MAX_DEVICES};
use crate::files::error::FilesError;
use crate::files::io::file::{OsFile, SyncPoint};

const MAGIC: [u8; 8] = *b"dstgMEMB";
const VERSION: u32 = 3;

/// What the files of an array have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The caller's number of the array.
    pub(crate) array: u64,
    /// Drawn when the array was made.
    pub(crate) drawn: [u8; 16],
}

/// Where a file whose pages end there has its label.
pub(crate) const fn offset(pages_end: u64) -> u64 {
    pages_end.next_multiple_of(SECTOR as u64)
}

/// Bytes of a label that says this.
pub(crate) const fn bytes(about: &str) -> u64 {
    SECTOR as u64 + (about.len() as u64).next_multiple_of(SECTOR as u64)
}

/// Labels a file; not durable yet.
pub(crate) fn write(
    file: &dyn OsFile,
    config: &FilesConfig,
    origin: Origin,
    dev: usize,
    generation: u32,
) -> io::Result<()> {
    let about = config.about.as_bytes();
    let mut sector: Sector = [0; SECTOR];
    put(&mut sector, 0, &MAGIC);
    put(&mut sector, 8, &VERSION.to_le_bytes());
    put(&mut sector, 12, &(dev as u32).to_le_bytes());
    put(&mut sector, 16, &origin.array.to_le_bytes());
    put(&mut sector, 24, &origin.drawn);
    put(&mut sector, 40, &generation.to_le_bytes());
    put(&mut sector, 44, &(about.len() as u32).to_le_bytes());
    put(&mut sector, 48, &crc32c::crc32c(about).to_le_bytes());
    seal(&mut sector);
    let mut label = vec![0; bytes(&config.about) as usize];
    label[..SECTOR].copy_from_slice(&sector);
    label[SECTOR..SECTOR + about.len()].copy_from_slice(about);
    file.write_all_at(&label, config.label_offset(dev))?;
    if dev < config.members {
        // Of marks that may be there nobody must believe any.
        let from = config.marks_offset(dev);
        file.write_all_at(&Buffer::zeroed((config.file_bytes(dev) - from) as usize), from)?;
    }
    Ok(())
}

/// What is wrong with a file that is of another size than a device's must be, if its label tells: it is of another version.
pub(crate) fn check_version(file: &dyn OsFile, config: &FilesConfig, dev: usize) -> Result<(), FilesError> {
    let (path, at) = (config.devices[dev].path.as_path(), config.label_offset(dev));
    let mut sector: Sector = [0; SECTOR];
    let read = file.read_exact_at(&mut sector, at);
    if read.is_err() || sector[..8] != MAGIC || !is_sealed(&sector) {
        return Ok(());
    }
    let reader = Reader::new(path, at, &sector);
    reader.exactly("the label's version", 8, reader.u32(8), VERSION)
}

/// What the array has that the label of a file says it to be of, if it is one of this number and device.
pub(crate) fn drawn_of(file: &dyn OsFile, config: &FilesConfig, dev: usize) -> Option<[u8; 16]> {
    let mut sector: Sector = [0; SECTOR];
    file.read_exact_at(&mut sector, config.label_offset(dev)).ok()?;
    let is_own = sector[..8] == MAGIC
        && is_sealed(&sector)
        && sector[16..24] == config.array.to_le_bytes()
        && sector[12..16] == (dev as u32).to_le_bytes();
    is_own.then(|| sector[24..40].try_into().expect("sixteen bytes"))
}

/// Whether a file has been a device of whatever array: its label is whole.
pub(crate) fn is_whole(file: &dyn OsFile, config: &FilesConfig, dev: usize) -> bool {
    let mut sector: Sector = [0; SECTOR];
    let read = file.read_exact_at(&mut sector, config.label_offset(dev));
    read.is_ok() && sector[..8] == MAGIC && is_sealed(&sector)
}

/// Whether a file has been a device of this array, so that nobody else needs what it holds.
pub(crate) fn is_of(file: &dyn OsFile, config: &FilesConfig, dev: usize) -> bool {
    sectors::is_of(file, config.label_offset(dev), MAGIC, config.array)
}

/// Bytes of the label that a file has there, of whatever array; 0 if it has none.
pub(crate) fn bytes_at(file: &dyn OsFile, at: u64) -> u64 {
    let mut sector: Sector = [0; SECTOR];
    let read = file.read_exact_at(&mut sector, at);
    if read.is_err() || sector[..8] != MAGIC || !is_sealed(&sector) {
        return 0;
    }
    let about = u32::from_le_bytes(sector[44..48].try_into().expect("four bytes"));
    SECTOR as u64 + u64::from(about).min(MAX_ABOUT_BYTES).next_multiple_of(SECTOR as u64)
}

/// Whether a file is the device's; the inner error if it is not that any more, or was never made to
/// an end. A file of another array or device is in the wrong place, which nobody meant; one of another version,
/// or of an array that is something else, is not understood.
pub(crate) fn check(
    file: &dyn OsFile,
    config: &FilesConfig,
    origin: Origin,
    dev: usize,
    generation: u32,
) -> Result<io::Result<()>, FilesError> {
    let (path, at) = (config.devices[dev].path.as_path(), config.label_offset(dev));
    let mut sector: Sector = [0; SECTOR];
    if let Err(error) = file.read_exact_at(&mut sector, at) {
        return Ok(Err(error));
    }
    let reader = Reader::new(path, at, &sector);
    let none = |error: String| Ok(Err(io::Error::other(format!("it has no label: {error}"))));
    if let Err(error) = reader.magic(MAGIC).and_then(|()| reader.crc("the label's CRC-32C")) {
        return none(error.to_string());
    }
    reader.exactly("the label's version", 8, reader.u32(8), VERSION)?;
    let other = |found: String| FilesError::Stranger {
        path: path.to_owned(),
        found,
        expected: format!("{} of array {}", Dev(dev as u8), origin.array),
    };
    let (its_dev, array) = (Dev(reader.u32(12).min(255) as u8), reader.u64(16));
    if array != origin.array {
        return Err(other(format!("{its_dev} of array {array}")));
    }
    if sector[24..40] != origin.drawn {
        return Err(other(format!("{its_dev} of another array with the number {array}")));
    }
    if its_dev.index() != dev {
        return Err(other(format!("{its_dev} of this array")));
    }
    let mut about = vec![0; u64::from(reader.u32(44)).min(MAX_ABOUT_BYTES) as usize];
    if let Err(error) = file.read_exact_at(&mut about, at + SECTOR as u64) {
        return Ok(Err(error));
    }
    if crc32c::crc32c(&about) != reader.u32(48) {
        return none("what it says the array to be does not fit its CRC-32C".to_owned());
    }
    if about != config.about.as_bytes() {
        return Err(another(path, &String::from_utf8_lossy(&about), &config.about));
    }
    let found = reader.u32(40);
    if found == generation {
        return Ok(Ok(()));
    }
    let why = if found > generation { "it was never named" } else { "it has missed writes" };
    let text = format!("{why}: its generation is {found}, that of {its_dev} is {generation}");
    Ok(Err(io::Error::other(text)))
}

/// The error that an array is which is something else than it is opened as: the first line that tells them apart.
fn another(path: &Path, found: &str, expected: &str) -> FilesError {
    let (mut found, mut expected) = (found.lines(), expected.lines());
    loop {
        let (one, other) = (found.next(), expected.next());
        if one != other || one.is_none() {
            let line = |line: Option<&str>| line.unwrap_or("nothing").to_owned();
            return FilesError::Described { path: path.to_owned(), found: line(one), expected: line(other) };
        }
    }
}

/// The roster, and the file that it is in.
pub(crate) struct Roster {
    file: Arc<dyn OsFile>,
    /// The sector that it is a part of.
    header: Sector,
    origin: Origin,
    generations: [u32; MAX_DEVICES],
}

/// Where the roster begins in its sector.
const AT: usize = 32;
/// Where it ends.
pub(crate) const ROSTER_END: usize = AT + 16 + 4 * MAX_DEVICES;

impl Roster {
    /// The roster of a new array, or of one whose roster is made anew.
    pub(crate) fn new(
        file: Arc<dyn OsFile>,
        header: &Sector,
        origin: Origin,
        generations: &[u32; MAX_DEVICES],
    ) -> Self {
        let mut roster = Self { file, header: *header, origin, generations: *generations };
        roster.fill();
        roster
    }

    /// The roster that a sector has.
    pub(crate) fn read(file: Arc<dyn OsFile>, header: &Sector, array: u64) -> Self {
        let drawn = header[AT..AT + 16].try_into().expect("sixteen bytes");
        let numbers = header[AT + 16..ROSTER_END].as_chunks().0;
        let generations = std::array::from_fn(|dev| u32::from_le_bytes(numbers[dev]));
        Self { file, header: *header, origin: Origin { array, drawn }, generations }
    }

    /// What the files have in common.
    pub(crate) const fn origin(&self) -> Origin {
        self.origin
    }

    /// The generations of all devices' files.
    pub(crate) const fn generations(&self) -> &[u32; MAX_DEVICES] {
        &self.generations
    }

    /// How often NVRAM and intents were made anew.
    pub(crate) fn epoch(&self) -> u32 {
        u32::from_le_bytes(self.header[ROSTER_END..ROSTER_END + 4].try_into().expect("four bytes"))
    }

    /// The generation that a device's file must have.
    pub(crate) const fn generation(&self, dev: usize) -> u32 {
        self.generations[dev]
    }

    /// The sector with the roster in it.
    pub(crate) const fn sector(&self) -> &Sector {
        &self.header
    }

    /// No file is the device's from now on, not one with the generation that the next would have had
    /// either; durable after [`sync`](Self::sync).
    pub(crate) fn leave(&mut self, dev: usize) {
        self.generations[dev] = (self.generations[dev] | 1).wrapping_add(1);
        self.fill();
    }

    /// The generation of the file that is named next.
    pub(crate) const fn next(&self, dev: usize) -> u32 {
        self.generations[dev] | 1
    }

    /// The file with the [next](Self::next) generation is the device's; durable after
    /// [`sync`](Self::sync).
    pub(crate) fn name(&mut self, dev: usize) {
        self.generations[dev] = self.next(dev);
        self.fill();
    }

    fn fill(&mut self) {
        put(&mut self.header, AT, &self.origin.drawn);
        for (dev, generation) in self.generations.iter().enumerate() {
            put(&mut self.header, AT + 16 + 4 * dev, &generation.to_le_bytes());
        }
        seal(&mut self.header);
    }

    /// What makes the roster durable as it is now.
    pub(crate) fn sync(&self) -> impl FnOnce() -> io::Result<()> + Send + 'static {
        let (file, header) = (Arc::clone(&self.file), self.header);
        move || {
            file.write_all_at(&header, 0)?;
            file.sync_data(SyncPoint::Roster)
        }
    }
}
