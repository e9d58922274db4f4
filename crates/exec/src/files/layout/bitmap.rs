//! A copy of the marks, as it is on a member.
//!
//! ```text
//! copy c, behind the label at the next multiple of a page, and c times the bytes of a copy
//!   0   8  "dstgMARK"
//!   8   4  version, 1
//!  12   4  bytes of a copy: the bits' end, rounded up to pages
//!  16  16  drawn when the array was made
//!  32   8  sequence number; that of copy c is c modulo 2
//!  40   8  rows
//!  48   4  rows of a mark, a power of two
//!  52   4  epoch: how often the NVRAM and the intents were made anew after a loss, or the NVRAM left its device
//!  56   4  bit 0: the NVRAM may hold what is nowhere else. Bit 1: it has notes of pages that are lost. Others: 0
//!  60   4  0
//!  64   8  members that are lost or not filled, a bit each
//!  72   8  0
//!  80 256  of each of 64 devices the generation of its file, as in the roster (`label.rs`)
//! 336 172  0
//! 508   4  CRC-32C of bytes 0 .. 508 and of all bytes from 512 to the end of the copy
//! 512   n  a bit for each mark: of mark m, bit m mod 8 of byte m / 8; behind the last one 0
//! ```

use std::ops::Range;
use std::path::Path;

use destage_plan::{Condition, DevSet, Row, Rows};

use super::sectors::{SECTOR, SectorBuffer, SectorReader, put};
use crate::files::config::MAX_DEVICES;
use crate::files::error::FilesError;
use crate::nvram::RowSet;

const MAGIC: [u8; 8] = *b"dstgMARK";
const VERSION: u32 = 1;
/// Locates the generations.
const GENERATIONS: Range<usize> = 80..336;
/// Locates the checksum.
const CRC: usize = 508;
/// Locates the bits.
const BITS: usize = SECTOR;
/// Marks at most: with what is before them they are one page of 4 KiB.
// One write of 4 KiB per copy; with more rows each mark stands for more of them.
const MOST: u64 = (4096 - BITS as u64) * 8;
/// The NVRAM may hold what is nowhere else.
const HOLDS: u32 = 1;
/// The NVRAM has notes of pages that are lost.
const NOTES: u32 = 2;

/// Describes the number of marks and the rows of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitmapLayout {
    rows: u64,
    per_mark: u32,
    /// Bytes of a copy.
    pub(crate) copy: u32,
}

impl BitmapLayout {
    /// For so many rows, with so many to a mark at least, in pages of so many bytes.
    pub(crate) fn new(rows: u64, finest: u32, page_bytes: u64) -> Self {
        let mut per_mark = u64::from(finest.max(1)).next_power_of_two();
        while rows.div_ceil(per_mark) > MOST {
            per_mark *= 2;
        }
        let bits = rows.div_ceil(per_mark).div_ceil(8);
        let copy = (BITS as u64 + bits).next_multiple_of(page_bytes) as u32;
        Self { rows, per_mark: per_mark as u32, copy }
    }

    pub(crate) const fn marks(&self) -> u64 {
        self.rows.div_ceil(self.per_mark as u64)
    }

    /// Bytes of both copies.
    pub(crate) const fn bytes(&self) -> u64 {
        2 * self.copy as u64
    }

    pub(crate) fn of(&self, rows: Rows) -> Range<usize> {
        let per_mark = u64::from(self.per_mark);
        (rows.first.0 / per_mark) as usize..rows.end().0.div_ceil(per_mark) as usize
    }

    pub(crate) fn rows_of(&self, mark: u64) -> Rows {
        let first = mark * u64::from(self.per_mark);
        Rows::new(Row(first), u64::from(self.per_mark).min(self.rows - first) as u32)
    }
}

/// Holds what a copy says beside its marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitmapHead {
    /// Of all arrays.
    pub(crate) drawn: [u8; 16],
    /// Counts how often the NVRAM and the intents were made anew.
    pub(crate) epoch: u32,
    /// Is true if the NVRAM may hold the only copy of something.
    pub(crate) holds: bool,
    /// Holds the condition of the array, as the controller reports it.
    pub(crate) condition: Condition,
    /// The files' generations.
    pub(crate) generations: [u32; MAX_DEVICES],
}

/// A copy that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BitmapCopy {
    /// Is its sequence number.
    pub(crate) sequence: u64,
    /// Holds what it says beside the marks.
    pub(crate) head: BitmapHead,
    /// The rows of its marks.
    pub(crate) rows: RowSet,
    /// Counts these marks.
    pub(crate) marks: u64,
}

impl BitmapCopy {
    /// Returns true if another copy was written later. Of two with one number the one that knows of more losses
    /// counts: different interrupted starts may have written them.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        // Generations only grow, so their sum tells which copy knows of more.
        let known = |found: &Self| found.head.generations.iter().map(|one| u64::from(*one)).sum::<u64>();
        (self.sequence, known(self)) < (other.sequence, known(other))
    }
}

/// Writes a copy with this number to `into`.
pub(crate) fn encode(layout: BitmapLayout, sequence: u64, head: &BitmapHead, bits: &[u8], into: &mut [u8]) {
    // Unused bytes are zero, so that a later version can use them and this one
    // refuses it.
    into.fill(0);
    let flags = if head.holds { HOLDS } else { 0 } | if head.condition.losses { NOTES } else { 0 };
    put(into, 0, &MAGIC);
    put(into, 8, &VERSION.to_le_bytes());
    put(into, 12, &layout.copy.to_le_bytes());
    put(into, 16, &head.drawn);
    put(into, 32, &sequence.to_le_bytes());
    put(into, 40, &layout.rows.to_le_bytes());
    put(into, 48, &layout.per_mark.to_le_bytes());
    put(into, 52, &head.epoch.to_le_bytes());
    put(into, 56, &flags.to_le_bytes());
    put(into, 64, &head.condition.unfilled.bits().to_le_bytes());
    for (at, generation) in GENERATIONS.step_by(4).zip(&head.generations) {
        put(into, at, &generation.to_le_bytes());
    }
    put(into, BITS, bits);
    let crc = checksum(into);
    put(into, CRC, &crc.to_le_bytes());
}

fn checksum(copy: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&copy[..CRC]), &copy[BITS..])
}

/// Reads a copy; none if it is torn or was never written. One that is whole and cannot be this array's is an error.
pub(crate) fn decode(
    layout: BitmapLayout,
    path: &Path,
    offset: u64,
    copy: &[u8],
) -> Result<Option<BitmapCopy>, FilesError> {
    let sector: &SectorBuffer = copy[..SECTOR].try_into().expect("a copy is longer than a sector");
    let reader = SectorReader::new(path, offset, sector);
    // A torn copy is no error: the other one counts. What is whole and wrong is.
    if sector[..8] != MAGIC || reader.u32(CRC) != checksum(copy) {
        return Ok(None);
    }
    reader.exactly("the version of marks", 8, reader.u32(8), VERSION)?;
    reader.exactly("the bytes of a copy of the marks", 12, reader.u32(12), layout.copy)?;
    reader.setting("rows", "the number of rows", 40, reader.u64(40), layout.rows)?;
    reader.exactly("the rows of a mark", 48, reader.u32(48), layout.per_mark)?;
    for (field, at, found, end) in [
        ("the sequence number of the marks", 32, reader.u64(32), 1 << 63),
        ("the epoch of the marks", 52, reader.u32(52).into(), 1 << 31),
    ] {
        if found >= end {
            return Err(reader.wrong(field, at, found, format_args!("below {end}")));
        }
    }
    let flags = reader.u32(56);
    if flags > HOLDS | NOTES {
        return Err(reader.wrong("the flags of the marks", 56, flags, "0 to 3"));
    }
    reader.exactly("a reserved field", 60, reader.u32(60), 0)?;
    reader.exactly("a reserved field", 72, reader.u64(72), 0)?;
    if let Some(at) = (GENERATIONS.end..CRC).find(|at| sector[*at] != 0) {
        return Err(reader.wrong("a reserved byte", at, sector[at], 0));
    }
    let marks = layout.marks();
    let (mut rows, mut count) = (RowSet::default(), 0);
    for (at, byte) in copy[BITS..].iter().enumerate().filter(|(_, byte)| **byte != 0) {
        for mark in (0..8).filter(|bit| byte >> bit & 1 != 0).map(|bit| at as u64 * 8 + bit) {
            // A bit after the last mark cannot have been written by this layout.
            if mark >= marks {
                return Err(reader.wrong("the bit of a mark", BITS + at, mark, format!("below {marks}")));
            }
            rows.set(layout.rows_of(mark), true);
            count += 1;
        }
    }
    let numbers = sector[GENERATIONS].as_chunks().0;
    let head = BitmapHead {
        drawn: sector[16..32].try_into().expect("sixteen bytes"),
        epoch: reader.u32(52),
        holds: flags & HOLDS != 0,
        condition: Condition { unfilled: DevSet::from_bits(reader.u64(64)), losses: flags & NOTES != 0 },
        generations: std::array::from_fn(|dev| u32::from_le_bytes(numbers[dev])),
    };
    Ok(Some(BitmapCopy { sequence: reader.u64(32), head, rows, marks: count }))
}
