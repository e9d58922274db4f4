//! Encodes the NVRAM's file: a header, a ring of [records](super::record), and the header once more.
//!
//! A record is a commit, or puts of earlier ones once more, in whole sectors; it follows the one before it at once. Its
//! place is the number of its first sector, counted from the first record ever: place p is the sector p mod n of a ring
//! of n. So a place comes once, and what an earlier round of the ring left is told from what belongs there.
//!
//! ```text
//! sector 0, and the last sector
//!   0   8  "dstgNVRM"
//!   8   4  version, 7
//!  12   4  bytes of a sector, 512
//!  16   8  number of the array
//!  24   4  bytes of a page
//!  28   4  slots
//!  32   4  devices
//!  36  16  drawn, as in the intents
//!  52   4  epoch, likewise
//!  56   8  place of the first record
//!  64   8  place before which all is there
//!  72   8  number of the opening
//!  80   8  event count (`event_count.rs`)
//!  88   8  place of a record that says nothing of slots and ended what was there, all ones if there is none
//!  96 412  0
//! 508   4  CRC-32C of bytes 0 .. 508
//! ```
//!
//! Both headers are written at a time. No number in them ever becomes smaller, so of two that differ the one with the
//! larger numbers was written last. The first one says whether there is an NVRAM at all.
//!
//! Versions 1 to 4, whose slots had a place each, 5, which has no event count, and 6, which has one checksum for all of a
//! record, are refused.

use std::path::Path;

use super::event_count::COUNT_END;
use super::record::{SlotLimits, sectors, table_bytes};
use super::sectors::{SECTOR, SectorBuffer, SectorReader, is_sealed, put, seal};
use crate::files::error::FilesError;

/// Begins the file.
pub(crate) const MAGIC: [u8; 8] = *b"dstgNVRM";
const VERSION: u32 = 7;
/// Sectors for what is not needed any more, at most: 64 MiB.
// Room for dead records lets cleaning wait until much is dead.
const MOST_ROOM: u64 = 131_072;

/// No ring comes so far.
// Far enough that arithmetic on places never overflows.
const MOST_PLACES: u64 = 1 << 62;

/// Describes the file by the settings of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalLayout {
    /// Number of the array.
    pub(crate) array: u64,
    /// Bytes of a page.
    pub(crate) page_bytes: u32,
    /// Slots.
    pub(crate) slots: u32,
    /// Devices of the array.
    pub(crate) devices: u32,
}

/// Tells of which array it is, and after which loss of the NVRAM or the intents it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrayEpoch {
    /// As in the intents.
    pub(crate) drawn: [u8; 16],
    /// As in the intents.
    pub(crate) epoch: u32,
}

/// Reports which records count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordBounds {
    /// Place of the first one.
    pub(crate) tail: u64,
    /// Place before which all is there, whenever it was written. From there on records of this opening count, up to the
    /// first that is not whole.
    pub(crate) sealed: u64,
    /// Number of the opening.
    pub(crate) opening: u64,
    /// Gives the event count, which the other files of the array have as well.
    pub(crate) event_count: u64,
    /// Gives the place of a [seal](super::record#seals), [`NO_SEAL`] if there is none.
    pub(crate) seal: u64,
}

// No number in the headers ever becomes smaller, so any smaller one means the older
// header.
impl RecordBounds {
    /// Returns true if these were written before others of the same file.
    const fn is_before(&self, other: &Self) -> bool {
        self.opening < other.opening
            || self.event_count < other.event_count
            || self.tail < other.tail
            || self.sealed < other.sealed
    }
}

/// Stands for the place of a seal where there is none.
pub(crate) const NO_SEAL: u64 = u64::MAX;

/// Holds what the headers of a file say.
#[derive(Debug)]
pub(crate) struct FoundHeader {
    pub(crate) epoch: ArrayEpoch,
    pub(crate) bounds: RecordBounds,
    /// Says what is wrong with the one that is damaged.
    pub(crate) damaged: Option<FilesError>,
}

impl JournalLayout {
    /// Returns what a record can say of slots.
    pub(crate) const fn limits(&self) -> SlotLimits {
        SlotLimits { slots: self.slots, page_bytes: self.page_bytes }
    }

    /// Sectors of the longest record: one that puts all slots, whole pages, and frees as many, behind one that did.
    pub(crate) const fn longest(&self) -> u64 {
        let slots = self.slots as u64;
        sectors(table_bytes(slots, slots), slots * self.page_bytes as u64, self.longest_table())
    }

    /// Counts the bytes that the longest record says of slots.
    pub(crate) const fn longest_table(&self) -> u64 {
        table_bytes(self.slots as u64, self.slots as u64)
    }

    /// Sectors that all slots take if each is in a record of its own, with one more for what that says of the record
    /// before it.
    const fn all(&self) -> u64 {
        self.slots as u64 * (self.each() + 1)
    }

    /// Counts the sectors that a slot takes in a record of its own.
    const fn each(&self) -> u64 {
        sectors(table_bytes(1, 0), self.page_bytes as u64, 0)
    }

    /// Sectors that may be taken by what is not needed any more.
    pub(crate) const fn room(&self) -> u64 {
        let wanted = 2 * self.slots as u64 * self.each();
        if wanted < MOST_ROOM { wanted } else { MOST_ROOM }
    }

    /// Sectors of the ring: for what all slots hold; for the longest record, as often as there may be one to write and
    /// one to copy; and for what is not needed any more.
    pub(crate) const fn ring(&self) -> u64 {
        self.all() + 2 * self.longest() + self.room()
    }

    /// Bytes of the file.
    pub(crate) const fn bytes(&self) -> u64 {
        (2 + self.ring()) * SECTOR as u64
    }

    /// Returns where the second header is in the file.
    pub(crate) const fn second_header(&self) -> u64 {
        (1 + self.ring()) * SECTOR as u64
    }

    /// Returns the offset in the file of the sector at this place.
    pub(crate) const fn offset(&self, place: u64) -> u64 {
        // A place never comes twice, so it is sequence number and check at once;
        // only its remainder is a position.
        (1 + place % self.ring()) * SECTOR as u64
    }

    /// The first sector.
    pub(crate) fn header(&self, ArrayEpoch { drawn, epoch }: ArrayEpoch, bounds: RecordBounds) -> SectorBuffer {
        let mut sector = [0; SECTOR];
        put(&mut sector, 0, &MAGIC);
        put(&mut sector, 8, &VERSION.to_le_bytes());
        put(&mut sector, 12, &(SECTOR as u32).to_le_bytes());
        put(&mut sector, 16, &self.array.to_le_bytes());
        put(&mut sector, 24, &self.page_bytes.to_le_bytes());
        put(&mut sector, 28, &self.slots.to_le_bytes());
        put(&mut sector, 32, &self.devices.to_le_bytes());
        put(&mut sector, 36, &drawn);
        put(&mut sector, 52, &epoch.to_le_bytes());
        put(&mut sector, 56, &bounds.tail.to_le_bytes());
        put(&mut sector, 64, &bounds.sealed.to_le_bytes());
        put(&mut sector, 72, &bounds.opening.to_le_bytes());
        put(&mut sector, 80, &bounds.event_count.to_le_bytes());
        put(&mut sector, 88, &bounds.seal.to_le_bytes());
        seal(&mut sector);
        sector
    }

    /// Returns what both headers say. One that is damaged is none.
    pub(crate) fn decode_both(
        &self,
        path: &Path,
        first: &SectorBuffer,
        second: &SectorBuffer,
    ) -> Result<FoundHeader, FilesError> {
        let second_offset = self.second_header();
        let found = match (self.decode(path, 0, first), self.decode(path, second_offset, second)) {
            (Ok(one), Ok(other)) if one.0 == other.0 && one.1.is_before(&other.1) => other.into(),
            // Of two whole headers the newer counts. A crash between their writes
            // leaves the first one old.
            (Ok(one), Ok(_)) => one.into(),
            // A file of which nothing but the first was durable when the power failed has zeros there.
            (Ok(one), Err(damaged)) => {
                FoundHeader { damaged: Some(damaged).filter(|_| *second != [0; SECTOR]), ..one.into() }
            }
            // The first header says whether there is an NVRAM at all. Only damage
            // of it lets the second one speak.
            (Err(damaged), Ok(other)) if !is_sealed(first) => FoundHeader { damaged: Some(damaged), ..other.into() },
            (Err(error), _) => return Err(error),
        };
        Ok(found)
    }

    /// Returns what a header at this place of the file says.
    pub(crate) fn decode(
        &self,
        path: &Path,
        offset: u64,
        sector: &SectorBuffer,
    ) -> Result<(ArrayEpoch, RecordBounds), FilesError> {
        let reader = SectorReader::new(path, offset, sector);
        reader.magic(MAGIC)?;
        // An older format is named as such, since the user can act on that.
        if is_sealed(sector) && reader.u32(8) < VERSION {
            return Err(FilesError::OlderNvram { path: path.to_owned(), found: reader.u32(8), expected: VERSION });
        }
        reader.exactly("the version", 8, reader.u32(8), VERSION)?;
        reader.crc("the header's CRC-32C")?;
        reader.exactly("the sector's size", 12, reader.u32(12), SECTOR as u32)?;
        // Settings are compared one by one, so that the error names the one that
        // differs.
        reader.setting("array", "the array's number", 16, reader.u64(16), self.array)?;
        reader.setting("page-bytes", "the page's size", 24, reader.u32(24), self.page_bytes)?;
        reader.setting("nv-slots", "the number of slots", 28, reader.u32(28), self.slots)?;
        reader.setting("devices", "the number of devices", 32, reader.u32(32), self.devices)?;
        reader.zeros(96)?;
        let drawn = sector[36..52].try_into().expect("sixteen bytes");
        let bounds = RecordBounds {
            tail: reader.u64(56),
            sealed: reader.u64(64),
            opening: reader.u64(72),
            event_count: reader.u64(80),
            seal: reader.u64(88),
        };
        if bounds.event_count >= COUNT_END {
            return Err(reader.wrong("the event count", 80, bounds.event_count, format_args!("below {COUNT_END}")));
        }
        if bounds.tail > MOST_PLACES {
            return Err(reader.wrong(
                "the place of the first record",
                56,
                bounds.tail,
                format_args!("at most {MOST_PLACES}"),
            ));
        }
        // More than one round after the first record would overwrite it.
        let furthest = bounds.tail + self.ring();
        if !(bounds.tail..=furthest).contains(&bounds.sealed) {
            let expected = format_args!("{} to {furthest}", bounds.tail);
            return Err(reader.wrong("the place before which all is there", 64, bounds.sealed, expected));
        }
        Ok((ArrayEpoch { drawn, epoch: reader.u32(52) }, bounds))
    }
}

impl From<(ArrayEpoch, RecordBounds)> for FoundHeader {
    fn from((epoch, bounds): (ArrayEpoch, RecordBounds)) -> Self {
        Self { epoch, bounds, damaged: None }
    }
}
