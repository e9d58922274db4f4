//! A record of the NVRAM's [journal](super::journal): what one commit has put and freed.
//!
//! A record says its place, and the number of the opening of the file after which it was written: what is left of records
//! that an opening did not find whole is never taken for what was written after it, wherever it lies. It also has the
//! number that was drawn for the array, which who writes data does not know: no data that is put can be taken for a record.
//!
//! Its parts have checksums of their own, so that damage of one part costs nothing of the others:
//!
//! * What it says of slots, its *table*, with all that is before that. The next record has the same table once more.
//! * The bytes of each slot. Bytes that do not match their checksum are damaged, and stay so when they are copied.
//! * The table of the record before it.
//!
//! # Seals
//!
//! The last record has no other behind it that could have its table. A *seal* is a record that puts and frees nothing; it
//! ends what a start and a clean shutdown say to be there, and the header has its place. Damage of a seal costs nothing.
//!
//! ```text
//! a record, at 512 · (1 + place mod n)
//!   0   4  "jrnl"
//!   4   4  CRC-32C of all from byte 8 to the end of the table
//!   8   8  its place
//!  16  16  drawn, as in the header
//!  32   8  number of the opening after which it was written
//!  40   8  place before which all was durable when it was written
//!  48   8  its sectors
//!  56   4  slots that it puts, p
//!  60   4  slots that it frees, f
//!  64   8  place of the record before it; its own if it is the first one
//!  72   4  slots that that one puts, q
//!  76   4  slots that that one frees, g
//!  80   4  CRC-32C of the table of that one
//!  84   4  0
//!  88      p times: slot, 4; generation, 4; bytes, 4; their CRC-32C, 4; tag, 24
//!          f times: slot, 4; generation, 4
//!          the bytes of the p slots, one after the other
//!          the table of the record before it: q times and g times the same
//!          zeros to the end of the sector
//! ```

use std::fmt;
use std::path::Path;

use destage_plan::{Buf, NvPut, NvSlot, Tag};

use super::sectors::{SECTOR, put};
use crate::files::error::FilesError;

const MARK: [u8; 4] = *b"jrnl";
/// Counts the bytes of a record before its table.
const HEAD: usize = 88;
/// Counts the bytes of the table for each put.
const PUT: usize = 40;
/// Counts the bytes of the table for each free.
const FREE: usize = 8;

/// Bounds what a record can say of slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotLimits {
    /// Counts the slots.
    pub(crate) slots: u32,
    /// Gives the bytes of a slot, at most.
    pub(crate) page_bytes: u32,
}

/// Counts the bytes of the table of a record that puts and frees so many slots.
pub(crate) const fn table_bytes(puts: u64, frees: u64) -> u64 {
    puts * PUT as u64 + frees * FREE as u64
}

/// Counts the sectors of a record with so many bytes in its table, in the slots that it puts, and in the table before.
pub(crate) const fn sectors(table: u64, bytes: u64, before: u64) -> u64 {
    (HEAD as u64 + table + bytes + before).div_ceil(SECTOR as u64)
}

/// Holds what a record says of slots, to be said once more by the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordTable {
    /// Gives the place of the record.
    pub(crate) place: u64,
    puts: u32,
    frees: u32,
    bytes: Vec<u8>,
}

impl RecordTable {
    /// Makes the table of a seal.
    pub(crate) fn empty(place: u64) -> Self {
        Self { place, ..Self::default() }
    }

    /// Counts its bytes.
    pub(crate) const fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Counts the bytes of the slots that the record puts.
    pub(crate) fn put_bytes(&self) -> u64 {
        self.bytes[..self.puts as usize * PUT].chunks_exact(PUT).map(|put| u64::from(u32_at(put, 8))).sum()
    }

    /// Fills it with what a commit puts and frees. The checksums of what is put are those of the bytes, unless the bytes
    /// are [copied](JournalCommit::crcs).
    fn fill(&mut self, place: u64, commit: &JournalCommit<'_>) {
        (self.place, self.puts, self.frees) = (place, commit.puts.len() as u32, commit.frees.len() as u32);
        self.bytes.clear();
        let mut rest = commit.bytes;
        // The bytes of all slots lie one after the other, so lengths alone locate
        // them.
        for (at, NvPut { slot, tag, len, .. }) in commit.puts.iter().enumerate() {
            let (bytes, others) = rest.split_at(*len as usize);
            rest = others;
            // Copied bytes keep the checksum that they had, right or wrong: damage
            // must not become valid by copying.
            let crc = commit.crcs.map_or_else(|| crc32c::crc32c(bytes), |crcs| crcs[at]);
            for number in [slot.index, slot.generation, *len, crc] {
                self.bytes.extend_from_slice(&number.to_le_bytes());
            }
            self.bytes.extend_from_slice(tag);
        }
        for slot in commit.frees {
            self.bytes.extend_from_slice(&slot.index.to_le_bytes());
            self.bytes.extend_from_slice(&slot.generation.to_le_bytes());
        }
    }
}

/// Holds what a transaction puts and frees.
#[derive(Clone, Copy)]
pub(crate) struct JournalCommit<'a> {
    /// Lists the slots that it puts, which are free.
    pub(crate) puts: &'a [NvPut],
    /// Holds their bytes, one after the other.
    pub(crate) bytes: &'a [u8],
    /// Lists the slots that it frees, which are in use.
    pub(crate) frees: &'a [NvSlot],
    /// Gives the checksums of the bytes of each slot if they were written before: damaged ones stay damaged.
    pub(crate) crcs: Option<&'a [u32]>,
}

/// Holds the fields of a record beside its table and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordStamp {
    pub(crate) place: u64,
    pub(crate) drawn: [u8; 16],
    pub(crate) opening: u64,
    /// Gives the place before which all records are durable.
    pub(crate) durable: u64,
}

impl JournalCommit<'_> {
    /// Counts the sectors of its record behind one whose table has so many bytes.
    pub(crate) fn sectors(&self, before: u64) -> u64 {
        let table = table_bytes(self.puts.len() as u64, self.frees.len() as u64);
        sectors(table, self.puts.iter().map(|put| u64::from(put.len)).sum(), before)
    }

    /// Encodes its record behind the one with this table, which becomes the table of this one.
    pub(crate) fn encode(
        &self,
        stamp: RecordStamp,
        before: &mut RecordTable,
        table: &mut RecordTable,
        image: &mut Vec<u8>,
    ) {
        table.fill(stamp.place, self);
        let sectors = sectors(table.len(), self.bytes.len() as u64, before.len());
        image.clear();
        image.resize(HEAD + table.bytes.len(), 0);
        image.extend_from_slice(self.bytes);
        image.resize(sectors as usize * SECTOR, 0);
        restore(image, stamp, table, before);
        std::mem::swap(before, table);
    }
}

/// Writes into the image of a record all but the bytes of its slots: of a new one, or of one that is damaged.
pub(crate) fn restore(image: &mut [u8], stamp: RecordStamp, table: &RecordTable, before: &RecordTable) {
    let sectors = (image.len() / SECTOR) as u64;
    image[..HEAD].fill(0);
    put(image, 0, &MARK);
    put(image, 8, &stamp.place.to_le_bytes());
    put(image, 16, &stamp.drawn);
    put(image, 32, &stamp.opening.to_le_bytes());
    put(image, 40, &stamp.durable.to_le_bytes());
    put(image, 48, &sectors.to_le_bytes());
    put(image, 56, &table.puts.to_le_bytes());
    put(image, 60, &table.frees.to_le_bytes());
    put(image, 64, &before.place.to_le_bytes());
    put(image, 72, &before.puts.to_le_bytes());
    put(image, 76, &before.frees.to_le_bytes());
    put(image, 80, &crc32c::crc32c(&before.bytes).to_le_bytes());
    put(image, HEAD, &table.bytes);
    let end = HEAD + table.bytes.len();
    put(image, end + table.put_bytes() as usize, &before.bytes);
    // The table has a checksum of its own, so damaged bytes of a slot cost that
    // slot alone.
    let crc = crc32c::crc32c(&image[8..end]);
    put(image, 4, &crc.to_le_bytes());
}

/// Says why there is no whole record. It is made for each place at which there is none, so that words are found for it only
/// where somebody reads them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordDefect {
    field: &'static str,
    /// Gives the byte of the record.
    at: u64,
    found: DefectValue,
    expected: DefectValue,
}

/// Holds what was found in a field of a record, or is expected there.
#[derive(Clone, Copy, Debug)]
enum DefectValue {
    Number(u64),
    Below(u32),
    From1To(u64),
    BytesAtMost(u64),
    Mark([u8; 4]),
    Drawn([u8; 16]),
}

impl From<u64> for DefectValue {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for DefectValue {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl fmt::Display for DefectValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Below(end) => write!(f, "below {end}"),
            Self::From1To(last) => write!(f, "1 to {last}"),
            Self::BytesAtMost(most) => write!(f, "at most {most} bytes"),
            Self::Mark(bytes) => bytes.escape_ascii().fmt(f),
            Self::Drawn(bytes) => bytes.escape_ascii().fmt(f),
        }
    }
}

impl RecordDefect {
    fn new(field: &'static str, at: usize, found: impl Into<DefectValue>, expected: impl Into<DefectValue>) -> Self {
        Self { field, at: at as u64, found: found.into(), expected: expected.into() }
    }

    /// Returns the error that it is where the record must be whole.
    pub(crate) fn at(self, path: &Path, offset: u64) -> FilesError {
        let Self { field, at, found, expected } = self;
        let (found, expected) = (found.to_string(), expected.to_string());
        FilesError::Field { path: path.to_owned(), field, offset: offset + at, found, expected }
    }
}

/// Names the record that is to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedRecord {
    pub(crate) place: u64,
    pub(crate) drawn: [u8; 16],
    /// Gives the opening after which it must have been written, if that matters.
    pub(crate) opening: Option<u64>,
    /// Limits its sectors.
    pub(crate) most: u64,
}

/// Holds the fields in the first sector of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordHead {
    durable: u64,
    pub(crate) sectors: u64,
    puts: u32,
    frees: u32,
    before: (u64, u32, u32),
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl RecordHead {
    /// Reads the first sector of the wanted record.
    ///
    /// # Errors
    /// If the sector is not that.
    pub(crate) fn read(sector: &[u8], wanted: WantedRecord) -> Result<Self, RecordDefect> {
        let exactly = |field, at, expected: u64| match u64_at(sector, at) {
            found if found == expected => Ok(()),
            found => Err(RecordDefect::new(field, at, found, expected)),
        };
        // The cheapest check comes first: at most places there is no record.
        if sector[..4] != MARK {
            return Err(RecordDefect::new(
                "the mark of a record",
                0,
                DefectValue::Mark(sector[..4].try_into().expect("four bytes")),
                DefectValue::Mark(MARK),
            ));
        }
        exactly("the place of a record", 8, wanted.place)?;
        // A client that writes data does not know this number, so no data can pass for a
        // record.
        if sector[16..32] != wanted.drawn {
            let found = sector[16..32].try_into().map(DefectValue::Drawn).expect("sixteen bytes");
            return Err(RecordDefect::new("what was drawn for the array", 16, found, DefectValue::Drawn(wanted.drawn)));
        }
        wanted.opening.map_or(Ok(()), |opening| exactly("the opening of a record", 32, opening))?;
        let sectors = u64_at(sector, 48);
        if !(1..=wanted.most).contains(&sectors) {
            return Err(RecordDefect::new("the sectors of a record", 48, sectors, DefectValue::From1To(wanted.most)));
        }
        let before = (u64_at(sector, 64), u32_at(sector, 72), u32_at(sector, 76));
        Ok(Self { durable: u64_at(sector, 40), sectors, puts: u32_at(sector, 56), frees: u32_at(sector, 60), before })
    }
}

/// Holds a record whose table is right.
#[derive(Debug)]
pub(crate) struct JournalRecord<'a> {
    head: RecordHead,
    /// Holds the table's entries of puts.
    puts: &'a [u8],
    frees: &'a [u8],
    bytes: &'a [u8],
    /// Holds the table of the record before it, and its checksum.
    before: (&'a [u8], u32),
}

impl<'a> JournalRecord<'a> {
    /// Looks at all of what was read as a record with this head. A table that is torn or damaged is an error, unless it is
    /// to be believed.
    pub(crate) fn read(
        head: &RecordHead,
        record: &'a [u8],
        limits: SlotLimits,
        believed: bool,
    ) -> Result<Self, RecordDefect> {
        // Lengths are checked before they are used, since the record may be
        // damaged.
        let room = (record.len() - HEAD) as u64;
        let says = table_bytes(head.puts.into(), head.frees.into());
        if says > room {
            return Err(RecordDefect::new("the slots of a record", 56, says, DefectValue::BytesAtMost(room)));
        }
        let end = HEAD + says as usize;
        let (found, expected) = (u32_at(record, 4), crc32c::crc32c(&record[8..end]));
        if found != expected && !believed {
            return Err(RecordDefect::new("the CRC-32C of a record's table", 4, found, expected));
        }
        let (puts, frees) = record[HEAD..end].split_at(head.puts as usize * PUT);
        let mut left = record.len() as u64 - end as u64;
        for (put, at) in puts.chunks_exact(PUT).zip((HEAD..).step_by(PUT)) {
            let (slot, len) = (u32_at(put, 0), u32_at(put, 8));
            if slot >= limits.slots {
                return Err(RecordDefect::new("a slot that is put", at, slot, DefectValue::Below(limits.slots)));
            }
            let most = left.min(limits.page_bytes.into());
            if u64::from(len) > most {
                return Err(RecordDefect::new("the bytes in a slot", at + 8, len, DefectValue::BytesAtMost(most)));
            }
            left -= u64::from(len);
        }
        for (free, at) in frees.chunks_exact(FREE).zip((HEAD + puts.len()..).step_by(FREE)) {
            let slot = u32_at(free, 0);
            if slot >= limits.slots {
                return Err(RecordDefect::new("a slot that is freed", at, slot, DefectValue::Below(limits.slots)));
            }
        }
        let before = table_bytes(head.before.1.into(), head.before.2.into());
        // The table of the record before must lie within this one.
        if before > left {
            return Err(RecordDefect::new(
                "the slots of the record before",
                72,
                before,
                DefectValue::BytesAtMost(left),
            ));
        }
        let (bytes, rest) = record[end..].split_at(record.len() - end - left as usize);
        Ok(Self { head: *head, puts, frees, bytes, before: (&rest[..before as usize], u32_at(record, 80)) })
    }

    /// Checks that all of it was written, in whatever order that was done.
    pub(crate) fn check_whole(&self, believed: bool) -> Result<(), RecordDefect> {
        if believed {
            return Ok(());
        }
        // Every part is checked on its own, in whatever order the device wrote the
        // sectors.
        if let Some((number, (_, bytes, _))) = self.puts().enumerate().find(|(_, (.., is_damaged))| *is_damaged) {
            let (found, expected) = (self.crc(number), crc32c::crc32c(bytes));
            return Err(RecordDefect::new(
                "the CRC-32C of the bytes in a slot",
                HEAD + number * PUT + 12,
                found,
                expected,
            ));
        }
        let (found, expected) = (self.before.1, crc32c::crc32c(self.before.0));
        if found == expected {
            Ok(())
        } else {
            Err(RecordDefect::new("the CRC-32C of the table of the record before", 80, found, expected))
        }
    }

    /// Checks that it is a seal behind the record with this table.
    pub(crate) fn check_seal(&self, before: &RecordTable) -> Result<(), RecordDefect> {
        let says = (self.puts.len() + self.frees.len()) as u64;
        if says > 0 {
            return Err(RecordDefect::new("the slots of a seal", 56, says, DefectValue::BytesAtMost(0)));
        }
        if self.before().is_some_and(|table| table == *before) {
            Ok(())
        } else {
            Err(RecordDefect::new("the record before a seal", 64, self.head.before.0, before.place))
        }
    }

    /// Counts its sectors.
    pub(crate) const fn sectors(&self) -> u64 {
        self.head.sectors
    }

    /// Returns the place before which all records were durable when it was written.
    pub(crate) const fn durable(&self) -> u64 {
        self.head.durable
    }

    /// Returns its table.
    pub(crate) fn table(&self, place: u64) -> RecordTable {
        let bytes = [self.puts, self.frees].concat();
        RecordTable { place, puts: self.head.puts, frees: self.head.frees, bytes }
    }

    /// Returns the table of the record before it, unless that is damaged.
    pub(crate) fn before(&self) -> Option<RecordTable> {
        let (place, puts, frees) = self.head.before;
        let (bytes, crc) = self.before;
        // None if it is damaged: then two records in a row are, and nobody knows
        // what the first one said.
        (crc32c::crc32c(bytes) == crc).then(|| RecordTable { place, puts, frees, bytes: bytes.to_vec() })
    }

    /// Returns the checksum of what it puts into a slot, by the number of the put.
    pub(crate) fn crc(&self, number: usize) -> u32 {
        u32_at(&self.puts[number * PUT..], 12)
    }

    /// Returns the slots that it frees. They are free before others are put.
    pub(crate) fn frees(&self) -> impl Iterator<Item = NvSlot> + use<'a> {
        self.frees.chunks_exact(FREE).map(slot_of)
    }

    /// Slots that it puts, with their bytes, and whether these are damaged.
    pub(crate) fn puts(&self) -> impl Iterator<Item = (NvPut, &'a [u8], bool)> + use<'a> {
        let mut rest = self.bytes;
        self.puts.chunks_exact(PUT).map(move |put| {
            let tag: Tag = put[16..].try_into().expect("twenty-four bytes");
            let len = u32_at(put, 8);
            let (bytes, others) = rest.split_at(len as usize);
            rest = others;
            let is_damaged = crc32c::crc32c(bytes) != u32_at(put, 12);
            (NvPut { slot: slot_of(put), tag, src: Buf::None, len }, bytes, is_damaged)
        })
    }
}

fn slot_of(bytes: &[u8]) -> NvSlot {
    NvSlot { index: u32_at(bytes, 0), generation: u32_at(bytes, 4) }
}
