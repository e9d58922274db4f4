//! The rows with an open intent, in a file.
//!
//! A bit for each row, in sectors with a checksum each ([`sectors`]); a change rewrites the sectors
//! in which bits change, and is durable after one fdatasync. A bitmap rather than a log: a row that
//! is written again while its intent is open costs nothing, the file never grows, and nothing must
//! be told from a torn tail. A change of several sectors may be torn between them, which leaves
//! some of its rows as they were: nobody was told yet that it is done, and rows do not depend on
//! each other. A sector that does not match its checksum is damaged, and an error: rows that should
//! be made consistent might be among its own.
//!
//! ```text
//! sector 0                                  sector 1 + i
//!   0   8  "dstgINTS"                         0    8  i
//!   8   4  version, 3                         8  496  bits of the rows 3968·i .. 3968·(i + 1): of row r, bit r mod 8 of
//!  12   4  bytes of a sector, 512                     byte (r mod 3968) / 8; those behind the last row are 0
//!  16   8  number of the array              504    4  0
//!  24   8  rows                             508    4  CRC-32C of bytes 0 .. 508
//!  32  16  drawn when the array was made
//!  48 256  of each of 64 devices the generation of its file: the roster (`label.rs`)
//! 304   4  epoch: how often NVRAM and intents were made anew after a loss
//! 308 200  0
//! 508   4  CRC-32C of bytes 0 .. 508
//! ```
//!
//! Version 1, which has no roster, and version 2, which has no epoch, are refused.

use std::io;
use std::path::Path;
use std::sync::Arc;

use destage_plan::{Row, Rows};

use super::label::{Origin, ROSTER_END, Roster};
use super::sectors::{self, Reader, SECTOR, Sector, put, seal};
use crate::RowSet;
use crate::files::config::MAX_DEVICES;
use crate::files::error::FilesError;
use crate::files::io::file::{OsFile, SyncPoint};

pub(crate) const MAGIC: [u8; 8] = *b"dstgINTS";
const VERSION: u32 = 3;
/// Where the epoch is.
const EPOCH: usize = ROSTER_END;
/// Where the bits of a sector begin.
const BITS: usize = 8;
/// Where they end.
const BITS_END: usize = 504;
/// Rows of a sector.
const ROWS: u64 = ((BITS_END - BITS) * 8) as u64;

/// The file.
pub(crate) struct IntentsFile {
    file: Arc<dyn OsFile>,
    rows: u64,
    /// The bitmap's sectors, as they are in the file or will be after [`sync`](Self::sync).
    sectors: Vec<Sector>,
    /// Sectors to be written.
    dirty: Vec<u64>,
}

/// Bytes of the file for so many rows.
pub(crate) const fn bytes(rows: u64) -> u64 {
    (1 + rows.div_ceil(ROWS)) * SECTOR as u64
}

fn header(array: u64, rows: u64, epoch: u32) -> Sector {
    let mut sector = [0; SECTOR];
    put(&mut sector, 0, &MAGIC);
    put(&mut sector, 8, &VERSION.to_le_bytes());
    put(&mut sector, 12, &(SECTOR as u32).to_le_bytes());
    put(&mut sector, 16, &array.to_le_bytes());
    put(&mut sector, 24, &rows.to_le_bytes());
    put(&mut sector, EPOCH, &epoch.to_le_bytes());
    sector
}

impl IntentsFile {
    /// Fills a new file: intents of these rows are open, and all files are of these generations. The header is written
    /// last; not durable yet.
    pub(crate) fn create(
        file: Arc<dyn OsFile>,
        origin: Origin,
        rows: u64,
        open: &RowSet,
        (epoch, generations): (u32, &[u32; MAX_DEVICES]),
    ) -> io::Result<(Self, Roster)> {
        let roster = Roster::new(Arc::clone(&file), &header(origin.array, rows, epoch), origin, generations);
        let count = rows.div_ceil(ROWS);
        let mut sectors = vec![[0; SECTOR]; count as usize];
        for (sector, index) in sectors.iter_mut().zip(0_u64..) {
            put(sector, 0, &index.to_le_bytes());
        }
        let mut made = Self { file, rows, sectors, dirty: Vec::new() };
        open.ranges().into_iter().for_each(|rows| made.set(rows, true));
        made.dirty.clear();
        made.sectors.iter_mut().for_each(seal);
        made.file.write_all_at(made.sectors.as_flattened(), SECTOR as u64)?;
        made.file.write_all_at(roster.sector(), 0)?;
        Ok((made, roster))
    }

    /// The roster of a file that is so long; none if it is too short for one.
    pub(crate) fn roster(
        file: &Arc<dyn OsFile>,
        path: &Path,
        length: u64,
        array: u64,
        rows: u64,
    ) -> Result<Option<Roster>, FilesError> {
        let Some(sector) = sectors::first(&**file, path, length)? else { return Ok(None) };
        let reader = Reader::new(path, 0, &sector);
        reader.magic(MAGIC)?;
        reader.exactly("the version", 8, reader.u32(8), VERSION)?;
        reader.crc("the header's CRC-32C")?;
        reader.exactly("the sector's size", 12, reader.u32(12), SECTOR as u32)?;
        reader.setting("array", "the array's number", 16, reader.u64(16), array)?;
        reader.setting("rows", "the number of rows", 24, reader.u64(24), rows)?;
        reader.zeros(EPOCH + 4)?;
        Ok(Some(Roster::read(Arc::clone(file), &sector, array)))
    }

    /// Reads a file that is so long, and makes durable what it says; the rows whose intent is open,
    /// and the roster.
    pub(crate) fn open(
        file: Arc<dyn OsFile>,
        path: &Path,
        length: u64,
        array: u64,
        rows: u64,
    ) -> Result<(Self, RowSet, Roster), FilesError> {
        // Before the size is looked at: the header knows which setting is another.
        let roster = Self::roster(&file, path, length, array, rows)?;
        let Some(roster) = roster.filter(|_| length == bytes(rows)) else {
            let (path, settings) = (path.to_owned(), format!("rows = {rows}"));
            return Err(FilesError::Size { path, found: length, expected: bytes(rows), settings });
        };
        let mut sectors = vec![[0; SECTOR]; rows.div_ceil(ROWS) as usize];
        let read = file.read_exact_at(sectors.as_flattened_mut(), SECTOR as u64);
        read.map_err(FilesError::io(path, "read the bitmap"))?;
        let mut open = RowSet::default();
        for (sector, index) in sectors.iter().zip(0_u64..) {
            let reader = Reader::new(path, (1 + index) * SECTOR as u64, sector);
            reader.crc("the CRC-32C of a bitmap's sector")?;
            reader.exactly("the number of a bitmap's sector", 0, reader.u64(0), index)?;
            reader.zeros(BITS_END)?;
            for (at, byte) in sector[BITS..BITS_END].iter().enumerate().filter(|(_, byte)| **byte != 0) {
                for bit in (0..8).filter(|bit| byte >> bit & 1 != 0) {
                    let row = index * ROWS + at as u64 * 8 + bit;
                    if row >= rows {
                        return Err(reader.wrong("the bit of a row", BITS + at, row, format!("below {rows}")));
                    }
                    open.set(Rows::new(Row(row), 1), true);
                }
            }
        }
        // Written anew for the same reason as the NVRAM.
        let written = file.write_all_at(roster.sector(), 0);
        let written = written.and_then(|()| file.write_all_at(sectors.as_flattened(), SECTOR as u64));
        let durable = written.and_then(|()| file.sync_all(SyncPoint::OpenIntents));
        durable.map_err(FilesError::io(path, "make it durable"))?;
        Ok((Self { file, rows, sectors, dirty: Vec::new() }, open, roster))
    }

    /// Sets or clears intents; durable after [`sync`](Self::sync).
    pub(crate) fn set(&mut self, rows: Rows, to: bool) {
        debug_assert!(rows.end().0 <= self.rows, "{rows:?} is beyond the last row");
        for row in rows.iter() {
            let (index, at) = (row.0 / ROWS, row.0 % ROWS);
            let byte = &mut self.sectors[index as usize][BITS + (at / 8) as usize];
            let bit = 1 << (at % 8);
            if (*byte & bit != 0) != to {
                *byte ^= bit;
                if self.dirty.last() != Some(&index) {
                    self.dirty.push(index);
                }
            }
        }
    }

    /// Bytes that the next [`sync`](Self::sync) writes.
    pub(crate) fn unwritten(&mut self) -> u64 {
        self.dirty.sort_unstable();
        self.dirty.dedup();
        (self.dirty.len() * SECTOR) as u64
    }

    /// Makes what was set and cleared durable; nothing is written if no bit has changed.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if self.unwritten() == 0 {
            return Ok(());
        }
        for index in &self.dirty {
            let sector = &mut self.sectors[*index as usize];
            seal(sector);
            self.file.write_all_at(sector, (1 + index) * SECTOR as u64)?;
        }
        self.file.sync_data(SyncPoint::Intents)?;
        self.dirty.clear();
        Ok(())
    }

    /// Makes the file durable as a whole, its size too.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all(SyncPoint::CreateIntents)
    }
}
