//! The rows with an open intent, in a file.
//!
//! A bit for each row, in sectors with a checksum each ([`sectors`](super::sectors)); a change rewrites the sectors
//! in which bits change, and is durable after one fdatasync. A bitmap rather than a log: a row that
//! is written again while its intent is open costs nothing, the file never grows, and nothing must
//! be told from a torn tail. A change of several sectors may be torn between them, which leaves
//! some of its rows as they were: nobody was told yet that it is done, and rows do not depend on
//! each other. All rows of a damaged sector count as having an open intent: resynchronising a
//! consistent row changes nothing.
//!
//! ```text
//! sector 0                                  sector 1 + i
//!   0   8  "dstgINTS"                         0    8  i
//!   8   4  version, 4                         8  496  bits of the rows 3968·i .. 3968·(i + 1): of row r, bit r mod 8 of
//!  12   4  bytes of a sector, 512                     byte (r mod 3968) / 8; those behind the last row are 0
//!  16   8  number of the array              504    4  0
//!  24   8  rows                             508    4  CRC-32C of bytes 0 .. 508
//!  32  16  drawn when the array was made
//!  48 256  of each of 64 devices the generation of its file: the roster (`roster.rs`)
//! 304   4  epoch: how often NVRAM and intents were made anew after a loss, or the NVRAM left its device
//! 308   8  from: the event count that the NVRAM has or had (`event_count.rs`)
//! 316   8  to: the one that it has or is to have
//! 324 184  0
//! 508   4  CRC-32C of bytes 0 .. 508
//! ```
//!
//! Version 1, which has no roster, version 2, which has no epoch, and version 3, which has no event count, are refused.

use std::path::Path;

use destage_plan::{Row, Rows};

use super::event_count::{COUNT_END, EventCount};
use super::label::ArrayOrigin;
use super::roster::{EPOCH, FROM, MemberRoster, ROSTER_END, TO};
use super::sectors::{SECTOR, SectorBuffer, SectorReader, is_sealed, put, seal};
use crate::files::config::MAX_DEVICES;
use crate::files::error::FilesError;
use crate::nvram::RowSet;

pub(crate) const MAGIC: [u8; 8] = *b"dstgINTS";
const VERSION: u32 = 4;
/// Locates the first bit of a sector.
const BITS: usize = 8;
/// Locates the end of the bits.
const BITS_END: usize = 504;
/// Rows of a sector.
const ROWS: u64 = ((BITS_END - BITS) * 8) as u64;

/// Bytes of the file for so many rows.
pub(crate) const fn bytes(rows: u64) -> u64 {
    (1 + rows.div_ceil(ROWS)) * SECTOR as u64
}

fn header(array: u64, rows: u64, epoch: u32) -> SectorBuffer {
    let mut sector = [0; SECTOR];
    put(&mut sector, 0, &MAGIC);
    put(&mut sector, 8, &VERSION.to_le_bytes());
    put(&mut sector, 12, &(SECTOR as u32).to_le_bytes());
    put(&mut sector, 16, &array.to_le_bytes());
    put(&mut sector, 24, &rows.to_le_bytes());
    put(&mut sector, EPOCH, &epoch.to_le_bytes());
    sector
}

/// Makes the roster, with the rest of the header, of a file for so many rows.
pub(crate) fn new_roster(
    origin: ArrayOrigin,
    rows: u64,
    (epoch, count): (u32, EventCount),
    generations: &[u32; MAX_DEVICES],
) -> MemberRoster {
    MemberRoster::new(&header(origin.array, rows, epoch), origin, count, generations)
}

/// Reads the roster from the header of a file that must be for so many rows.
pub(crate) fn read_roster(
    path: &Path,
    sector: &SectorBuffer,
    array: u64,
    rows: u64,
) -> Result<MemberRoster, FilesError> {
    let reader = SectorReader::new(path, 0, sector);
    reader.magic(MAGIC)?;
    reader.exactly("the version", 8, reader.u32(8), VERSION)?;
    reader.crc("the header's CRC-32C")?;
    reader.exactly("the sector's size", 12, reader.u32(12), SECTOR as u32)?;
    reader.setting("array", "the array's number", 16, reader.u64(16), array)?;
    reader.setting("rows", "the number of rows", 24, reader.u64(24), rows)?;
    let roster = MemberRoster::read(sector, array);
    let EventCount { from, to } = roster.event_count();
    if to >= COUNT_END {
        return Err(reader.wrong("the event count", TO, to, format_args!("below {COUNT_END}")));
    }
    if from > to {
        return Err(reader.wrong("the event count before", FROM, from, format_args!("at most {to}")));
    }
    reader.zeros(ROSTER_END)?;
    Ok(roster)
}

/// Returns true if this is a whole sector of a bitmap, with this number.
pub(crate) fn is_bitmap(sector: &SectorBuffer, index: u64) -> bool {
    // The index tells a sector at the wrong place from a right one.
    is_sealed(sector) && sector[..8] == index.to_le_bytes() && sector[BITS_END..BITS_END + 4] == [0; 4]
}

/// The bitmap's sectors.
pub(crate) struct IntentSectors {
    rows: u64,
    /// As they are in the file or will be.
    sectors: Vec<SectorBuffer>,
    /// Those to be written.
    dirty: Vec<u64>,
}

impl IntentSectors {
    /// Is the offset of the first of them in the file.
    pub(crate) const OFFSET: u64 = SECTOR as u64;

    /// Makes the sectors of these rows, of which none has an intent. They have no checksums so far.
    pub(crate) fn zeroed(rows: u64) -> Self {
        // All sectors are in memory, so a change reads nothing.
        Self { rows, sectors: vec![[0; SECTOR]; rows.div_ceil(ROWS) as usize], dirty: Vec::new() }
    }

    /// Makes the sectors of these rows, of which those of `open` have an intent.
    pub(crate) fn new(rows: u64, open: &RowSet) -> Self {
        let mut made = Self::zeroed(rows);
        for (sector, index) in made.sectors.iter_mut().zip(0_u64..) {
            put(sector, 0, &index.to_le_bytes());
        }
        open.ranges().into_iter().for_each(|rows| made.set(rows, true));
        made.dirty.clear();
        made.sectors.iter_mut().for_each(seal);
        made
    }

    /// Returns all of their bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.sectors.as_flattened()
    }

    /// Returns all of their bytes, to be filled with what is in the file.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.sectors.as_flattened_mut()
    }

    /// Checks what was read, and returns the rows that have an intent, with the error of each damaged sector. All rows of a
    /// damaged sector count as having one.
    pub(crate) fn take_up(&mut self, path: &Path) -> (RowSet, Vec<FilesError>) {
        let (mut open, mut damaged) = (RowSet::default(), Vec::new());
        for index in 0..self.sectors.len() as u64 {
            match self.rows_of(index, path) {
                Ok(rows) => rows.into_iter().for_each(|row| open.set(Rows::new(row, 1), true)),
                // Resynchronising a row that is consistent changes nothing, so a
                // damaged sector costs time and no data.
                Err(error) => {
                    damaged.push(error);
                    let (first, end) = (index * ROWS, ((index + 1) * ROWS).min(self.rows));
                    let rows = Rows::new(Row(first), (end - first) as u32);
                    open.set(rows, true);
                    self.sectors[index as usize] = [0; SECTOR];
                    put(&mut self.sectors[index as usize], 0, &index.to_le_bytes());
                    self.set(rows, true);
                    seal(&mut self.sectors[index as usize]);
                }
            }
        }
        self.dirty.clear();
        (open, damaged)
    }

    /// Checks a sector, and returns the rows of it that have an intent.
    fn rows_of(&self, index: u64, path: &Path) -> Result<Vec<Row>, FilesError> {
        let sector = &self.sectors[index as usize];
        let reader = SectorReader::new(path, (1 + index) * SECTOR as u64, sector);
        reader.crc("the CRC-32C of a bitmap's sector")?;
        reader.exactly("the number of a bitmap's sector", 0, reader.u64(0), index)?;
        reader.zeros(BITS_END)?;
        let mut rows = Vec::new();
        // Most bytes are zero, so only others are looked at bit by bit.
        for (at, byte) in sector[BITS..BITS_END].iter().enumerate().filter(|(_, byte)| **byte != 0) {
            for bit in (0..8).filter(|bit| byte >> bit & 1 != 0) {
                let row = index * ROWS + at as u64 * 8 + bit;
                if row >= self.rows {
                    return Err(reader.wrong("the bit of a row", BITS + at, row, format!("below {}", self.rows)));
                }
                rows.push(Row(row));
            }
        }
        Ok(rows)
    }

    /// Sets or clears intents.
    pub(crate) fn set(&mut self, rows: Rows, to: bool) {
        debug_assert!(rows.end().0 <= self.rows, "{rows:?} is beyond the last row");
        for row in rows.iter() {
            let (index, at) = (row.0 / ROWS, row.0 % ROWS);
            let byte = &mut self.sectors[index as usize][BITS + (at / 8) as usize];
            let bit = 1 << (at % 8);
            // A bit that does not change makes no sector dirty: a row that is
            // written again costs no write.
            if (*byte & bit != 0) != to {
                *byte ^= bit;
                // Rows of one change are neighbours, so comparing with the last one
                // removes most duplicates; the rest go when they are written.
                if self.dirty.last() != Some(&index) {
                    self.dirty.push(index);
                }
            }
        }
    }

    /// Returns the bytes of the sectors that are to be written.
    pub(crate) fn unwritten(&mut self) -> u64 {
        self.dirty.sort_unstable();
        self.dirty.dedup();
        (self.dirty.len() * SECTOR) as u64
    }

    /// Returns the sectors that are to be written, neighbours together, with their place in the file.
    pub(crate) fn sealed(&mut self) -> impl Iterator<Item = (u64, &[u8])> {
        self.unwritten();
        self.dirty.iter().for_each(|index| seal(&mut self.sectors[*index as usize]));
        // Neighbouring sectors leave in one write.
        let neighbours = self.dirty.chunk_by(|index, next| index + 1 == *next);
        neighbours.map(|indices| {
            let sectors = &self.sectors[indices[0] as usize..][..indices.len()];
            ((1 + indices[0]) * SECTOR as u64, sectors.as_flattened())
        })
    }

    /// Notes that all sectors are in the file as they are here.
    pub(crate) fn written(&mut self) {
        self.dirty.clear();
    }
}
