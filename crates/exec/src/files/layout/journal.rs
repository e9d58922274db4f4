//! What the NVRAM's file consists of: a header, and a ring of records.
//!
//! A record is a commit, or puts of earlier ones once more, in whole sectors; it follows the one before it at once. Its
//! place is the number of its first sector, counted from the first record ever: place p is the sector p mod n of a ring
//! of n. So a place comes once, and what an earlier round of the ring left is told from what belongs there. A record
//! says its place, and the number of the opening of the file after which it was written: what is left of records that
//! an opening did not find whole is never taken for what was written after it, wherever it lies. It also has the number
//! that was drawn for the array, which who writes data does not know: no data that is put can be taken for a record.
//!
//! ```text
//! sector 0                                  a record, at 512 · (1 + place mod n)
//!   0   8  "dstgNVRM"                         0   4  "jrnl"
//!   8   4  version, 6                         4   4  CRC-32C of all from byte 8 to the end of the record
//!  12   4  bytes of a sector, 512             8   8  its place
//!  16   8  number of the array               16  16  drawn, as in the header
//!  24   4  bytes of a page                   32   8  number of the opening after which it was written
//!  28   4  slots                             40   8  place before which all was durable when it was written
//!  32   4  devices                           48   8  its sectors
//!  36  16  drawn, as in the intents          56   4  slots that it puts, p
//!  52   4  epoch, likewise                   60   4  slots that it frees, f
//!  56   8  place of the first record         64      p times: slot, 4; generation, 4; bytes, 4; tag, 24
//!  64   8  place before which all is there           f times: slot, 4; generation, 4
//!  72   8  number of the opening                     the bytes of the p slots, one after the other
//!  80   8  event count (`event_count.rs`)            zeros to the end of the sector
//!  88 420  0
//! 508   4  CRC-32C of bytes 0 .. 508
//! ```
//!
//! Versions 1 to 4, whose slots had a place each, and 5, which has no event count, are refused.

use std::path::Path;

use destage_plan::{Buf, NvPut, NvSlot, Tag};

use super::event_count::COUNT_END;
use super::sectors::{Reader, SECTOR, Sector, put, seal};
use crate::files::error::FilesError;

/// What the file begins with.
pub(crate) const MAGIC: [u8; 8] = *b"dstgNVRM";
const VERSION: u32 = 6;
const RECORD: [u8; 4] = *b"jrnl";
/// Bytes of a record before what it says of slots.
const HEAD: usize = 64;
/// Bytes that it says of a slot that is put.
const PUT: usize = 36;
/// Of one that is freed.
const FREE: usize = 8;
/// Sectors for what is not needed any more, at most: 64 MiB.
const MOST_ROOM: u64 = 131_072;

/// No ring comes so far.
const MOST_PLACES: u64 = 1 << 62;

/// What the settings of an array say of the file.
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

/// Which records count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Place of the first one.
    pub(crate) tail: u64,
    /// Place before which all is there, whenever it was written. From there on records of this opening count, up to the
    /// first that is not whole.
    pub(crate) sealed: u64,
    /// Number of the opening.
    pub(crate) opening: u64,
    /// Gives the event count, which the other files of the array have as well.
    pub(crate) event_count: u64,
}

/// Sectors of a record that puts and frees so many slots, with so many bytes.
const fn sectors(puts: u64, frees: u64, bytes: u64) -> u64 {
    (HEAD as u64 + puts * PUT as u64 + frees * FREE as u64 + bytes).div_ceil(SECTOR as u64)
}

impl JournalLayout {
    /// Sectors of the longest record: one that puts all slots, whole pages, and frees as many.
    pub(crate) const fn longest(&self) -> u64 {
        let slots = self.slots as u64;
        sectors(slots, slots, slots * self.page_bytes as u64)
    }

    /// Sectors that all slots take if each is in a record of its own.
    const fn all(&self) -> u64 {
        self.slots as u64 * sectors(1, 0, self.page_bytes as u64)
    }

    /// Sectors that may be taken by what is not needed any more.
    pub(crate) const fn room(&self) -> u64 {
        let wanted = 2 * self.all();
        if wanted < MOST_ROOM { wanted } else { MOST_ROOM }
    }

    /// Sectors of the ring: for what all slots hold; for the longest record, as often as there may be one to write and
    /// one to copy; and for what is not needed any more.
    pub(crate) const fn ring(&self) -> u64 {
        self.all() + 2 * self.longest() + self.room()
    }

    /// Bytes of the file.
    pub(crate) const fn bytes(&self) -> u64 {
        (1 + self.ring()) * SECTOR as u64
    }

    /// Where the sector at this place is in the file.
    pub(crate) const fn offset(&self, place: u64) -> u64 {
        (1 + place % self.ring()) * SECTOR as u64
    }

    /// The first sector.
    pub(crate) fn header(&self, ArrayEpoch { drawn, epoch }: ArrayEpoch, bounds: Bounds) -> Sector {
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
        seal(&mut sector);
        sector
    }

    /// What the first sector says.
    pub(crate) fn decode(&self, path: &Path, sector: &Sector) -> Result<(ArrayEpoch, Bounds), FilesError> {
        let reader = Reader::new(path, 0, sector);
        reader.magic(MAGIC)?;
        reader.exactly("the version", 8, reader.u32(8), VERSION)?;
        reader.crc("the header's CRC-32C")?;
        reader.exactly("the sector's size", 12, reader.u32(12), SECTOR as u32)?;
        reader.setting("array", "the array's number", 16, reader.u64(16), self.array)?;
        reader.setting("page-bytes", "the page's size", 24, reader.u32(24), self.page_bytes)?;
        reader.setting("nv-slots", "the number of slots", 28, reader.u32(28), self.slots)?;
        reader.setting("devices", "the number of devices", 32, reader.u32(32), self.devices)?;
        reader.zeros(88)?;
        let drawn = sector[36..52].try_into().expect("sixteen bytes");
        let bounds = Bounds {
            tail: reader.u64(56),
            sealed: reader.u64(64),
            opening: reader.u64(72),
            event_count: reader.u64(80),
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
        let furthest = bounds.tail + self.ring();
        if !(bounds.tail..=furthest).contains(&bounds.sealed) {
            let expected = format_args!("{} to {furthest}", bounds.tail);
            return Err(reader.wrong("the place before which all is there", 64, bounds.sealed, expected));
        }
        Ok((ArrayEpoch { drawn, epoch: reader.u32(52) }, bounds))
    }
}

/// What a step puts and frees.
#[derive(Clone, Copy)]
pub(crate) struct Commit<'a> {
    /// Slots that it puts, which are free.
    pub(crate) puts: &'a [NvPut],
    /// Their bytes, one after the other.
    pub(crate) bytes: &'a [u8],
    /// Slots that it frees, which are in use.
    pub(crate) frees: &'a [NvSlot],
}

/// What a record says beside that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) place: u64,
    pub(crate) drawn: [u8; 16],
    pub(crate) opening: u64,
    /// Place before which all is durable.
    pub(crate) durable: u64,
}

impl Commit<'_> {
    /// Sectors of its record.
    pub(crate) fn sectors(&self) -> u64 {
        let bytes = self.puts.iter().map(|put| u64::from(put.len)).sum();
        sectors(self.puts.len() as u64, self.frees.len() as u64, bytes)
    }

    /// Its record.
    pub(crate) fn encode(&self, stamp: Stamp, image: &mut Vec<u8>) {
        let sectors = self.sectors();
        image.clear();
        image.extend_from_slice(&RECORD);
        image.extend_from_slice(&[0; 4]);
        image.extend_from_slice(&stamp.place.to_le_bytes());
        image.extend_from_slice(&stamp.drawn);
        image.extend_from_slice(&stamp.opening.to_le_bytes());
        image.extend_from_slice(&stamp.durable.to_le_bytes());
        image.extend_from_slice(&sectors.to_le_bytes());
        image.extend_from_slice(&(self.puts.len() as u32).to_le_bytes());
        image.extend_from_slice(&(self.frees.len() as u32).to_le_bytes());
        for NvPut { slot, tag, len, .. } in self.puts {
            image.extend_from_slice(&slot.index.to_le_bytes());
            image.extend_from_slice(&slot.generation.to_le_bytes());
            image.extend_from_slice(&len.to_le_bytes());
            image.extend_from_slice(tag);
        }
        for slot in self.frees {
            image.extend_from_slice(&slot.index.to_le_bytes());
            image.extend_from_slice(&slot.generation.to_le_bytes());
        }
        image.extend_from_slice(self.bytes);
        image.resize(sectors as usize * SECTOR, 0);
        let crc = crc32c::crc32c(&image[8..]);
        image[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Why there is no whole record.
#[derive(Debug)]
pub(crate) struct Wrong {
    field: &'static str,
    /// Byte of the record.
    at: u64,
    found: String,
    expected: String,
}

impl Wrong {
    fn new(field: &'static str, at: usize, found: &impl ToString, expected: &impl ToString) -> Self {
        Self { field, at: at as u64, found: found.to_string(), expected: expected.to_string() }
    }

    /// The error that it is where the record must be whole.
    pub(crate) fn at(self, path: &Path, offset: u64) -> FilesError {
        let Self { field, at, found, expected } = self;
        FilesError::Field { path: path.to_owned(), field, offset: offset + at, found, expected }
    }
}

/// What is wanted of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) place: u64,
    pub(crate) drawn: [u8; 16],
    /// After which opening it must have been written, if that matters.
    pub(crate) opening: Option<u64>,
    /// The longest that it can be.
    pub(crate) most: u64,
}

/// What the first sector of a record says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    durable: u64,
    pub(crate) sectors: u64,
    puts: u32,
    frees: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Head {
    /// Whether a sector is the first one of the record that is wanted.
    pub(crate) fn read(sector: &[u8], wanted: Wanted) -> Result<Self, Wrong> {
        let exactly = |field, at, expected: u64| match u64_at(sector, at) {
            found if found == expected => Ok(()),
            found => Err(Wrong::new(field, at, &found, &expected)),
        };
        if sector[..4] != RECORD {
            return Err(Wrong::new("the mark of a record", 0, &sector[..4].escape_ascii(), &RECORD.escape_ascii()));
        }
        exactly("the place of a record", 8, wanted.place)?;
        if sector[16..32] != wanted.drawn {
            let found = sector[16..32].escape_ascii();
            return Err(Wrong::new("what was drawn for the array", 16, &found, &wanted.drawn.escape_ascii()));
        }
        wanted.opening.map_or(Ok(()), |opening| exactly("the opening of a record", 32, opening))?;
        let sectors = u64_at(sector, 48);
        if !(1..=wanted.most).contains(&sectors) {
            return Err(Wrong::new("the sectors of a record", 48, &sectors, &format_args!("1 to {}", wanted.most)));
        }
        Ok(Self { durable: u64_at(sector, 40), sectors, puts: u32_at(sector, 56), frees: u32_at(sector, 60) })
    }
}

/// A record that is whole.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    head: Head,
    /// What it says of slots that it puts.
    puts: &'a [u8],
    frees: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// What was read as a record.
    pub(crate) fn read(record: &'a [u8], wanted: Wanted, layout: &JournalLayout) -> Result<Self, Wrong> {
        Self::whole(&Head::read(record, wanted)?, record, layout, false)
    }

    /// Looks at all of a record with this head. One that is torn is none, unless it is to be believed.
    pub(crate) fn whole(head: &Head, record: &'a [u8], layout: &JournalLayout, believed: bool) -> Result<Self, Wrong> {
        let (found, expected) = (u32_at(record, 4), crc32c::crc32c(&record[8..]));
        if found != expected && !believed {
            return Err(Wrong::new("the CRC-32C of a record", 4, &found, &expected));
        }
        let room = (record.len() - HEAD) as u64;
        let says = u64::from(head.puts) * PUT as u64 + u64::from(head.frees) * FREE as u64;
        if says > room {
            return Err(Wrong::new("the slots of a record", 56, &says, &format_args!("at most {room} bytes")));
        }
        let (puts, rest) = record[HEAD..].split_at(head.puts as usize * PUT);
        let (frees, bytes) = rest.split_at(head.frees as usize * FREE);
        let whole = Self { head: *head, puts, frees, bytes };
        let mut left = bytes.len() as u64;
        for (put, at) in puts.chunks_exact(PUT).zip((HEAD..).step_by(PUT)) {
            let (slot, len) = (u32_at(put, 0), u32_at(put, 8));
            if slot >= layout.slots {
                return Err(Wrong::new("a slot that is put", at, &slot, &format_args!("below {}", layout.slots)));
            }
            let most = left.min(layout.page_bytes.into());
            if u64::from(len) > most {
                return Err(Wrong::new("the bytes in a slot", at + 8, &len, &format_args!("at most {most}")));
            }
            left -= u64::from(len);
        }
        for (free, at) in frees.chunks_exact(FREE).zip((HEAD + puts.len()..).step_by(FREE)) {
            let slot = u32_at(free, 0);
            if slot >= layout.slots {
                return Err(Wrong::new("a slot that is freed", at, &slot, &format_args!("below {}", layout.slots)));
            }
        }
        Ok(whole)
    }

    /// Its sectors.
    pub(crate) const fn sectors(&self) -> u64 {
        self.head.sectors
    }

    /// Place before which all was durable when it was written.
    pub(crate) const fn durable(&self) -> u64 {
        self.head.durable
    }

    /// Slots that it frees. They are free before others are put.
    pub(crate) fn frees(&self) -> impl Iterator<Item = NvSlot> + use<'a> {
        self.frees.chunks_exact(FREE).map(slot_of)
    }

    /// Slots that it puts, with their bytes.
    pub(crate) fn puts(&self) -> impl Iterator<Item = (NvPut, &'a [u8])> + use<'a> {
        let mut rest = self.bytes;
        self.puts.chunks_exact(PUT).map(move |put| {
            let tag: Tag = put[12..].try_into().expect("twenty-four bytes");
            let len = u32_at(put, 8);
            let (bytes, others) = rest.split_at(len as usize);
            rest = others;
            (NvPut { slot: slot_of(put), tag, src: Buf::None, len }, bytes)
        })
    }
}

fn slot_of(bytes: &[u8]) -> NvSlot {
    NvSlot { index: u32_at(bytes, 0), generation: u32_at(bytes, 4) }
}
