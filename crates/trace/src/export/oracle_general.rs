//! libCacheSim's `oracleGeneral`: little-endian records of 24 bytes, `time (s)`, `object`, `size`, `next access`. Each page
//! that a request touches is one access of an object of a page's size: libCacheSim does not split requests itself.
//!
//! The next access is the number, from 1, of the record that accesses the object next, or -1. It is not known while the
//! trace is read: the records wait in a temporary file, through which a second pass goes backwards, with one entry of
//! memory for each different page.

use std::io::{self, Write};

use destage_plan::{PageGeometry, Request};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::Format;
use super::fit::Holds;
use super::spool::Spool;

const RECORD_BYTES: usize = 24;
/// Nanoseconds in a second.
const TICK: u64 = 1_000_000_000;
/// Each volume has this many pages of its own, if volumes are kept apart.
const VOLUME_PAGES_LOG2: u32 = 40;
/// Pages that a request touches at most: a longer one is a misread trace, as for the simulator.
const MAX_PAGES: u64 = 1 << 22;
/// Pages that are written at once.
const PIECE_PAGES: u64 = 1 << 12;
/// Records in a piece of the second pass.
const PIECE_RECORDS: u64 = 8192;

/// Where volumes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// There is one, or they lie over each other.
    One,
    /// Each begins at a multiple of 2^40 pages.
    Apart,
}

pub(super) struct OracleGeneral {
    geometry: PageGeometry,
    place: Place,
}

impl OracleGeneral {
    /// `page_bytes` is a power of two from 512 to 2^20.
    pub(super) fn new(page_bytes: u32, place: Place) -> Self {
        let geometry = PageGeometry::new(u64::from(page_bytes), 1).expect("a page size that was checked");
        Self { geometry, place }
    }
}

impl Format for OracleGeneral {
    fn holds(&self) -> Holds {
        Holds {
            flushes: false,
            discards: false,
            fua: false,
            empty: false,
            offset_unit: 1,
            len_unit: 1,
            tick: TICK,
            ordered: true,
            volumes: self.place == Place::Apart,
            max_len: u64::MAX,
            max_pages: Some((self.geometry.page_bytes(), MAX_PAGES)),
            piece: PIECE_PAGES * self.geometry.page_bytes(),
        }
    }

    fn put(&mut self, request: &Request, _name: Option<&str>, out: &mut Vec<u8>) -> Result<u64, String> {
        let seconds = request.time.0 / TICK;
        let time = u32::try_from(seconds)
            .map_err(|_| format!("comes {seconds} s after the first, more than the format's 2^32 - 1 s"))?;
        let split = self.geometry.split(request.offset, request.len);
        let end = split.first + split.pages;
        let base = match self.place {
            Place::One => 0,
            Place::Apart if end >> VOLUME_PAGES_LOG2 == 0 && request.volume >> (64 - VOLUME_PAGES_LOG2) == 0 => {
                u64::from(request.volume) << VOLUME_PAGES_LOG2
            }
            Place::Apart => {
                return Err(format!(
                    "reaches page {end} of volume {}, and volumes=apart has room for 2^40 pages on each of 2^24",
                    request.volume
                ));
            }
        };
        let size = (self.geometry.page_bytes() as u32).to_le_bytes();
        for page in split.first..end {
            out.extend_from_slice(&time.to_le_bytes());
            out.extend_from_slice(&(base + page).to_le_bytes());
            out.extend_from_slice(&size);
            out.extend_from_slice(&(-1_i64).to_le_bytes());
        }
        Ok(split.pages)
    }
}

/// Fills in the next accesses of the records in `spool` and writes them to `out`.
pub(super) fn complete(mut spool: Spool, out: &mut impl Write) -> io::Result<()> {
    let record_bytes = RECORD_BYTES as u64;
    let records = spool.bytes() / record_bytes;
    let mut next: HashMap<u64, i64, FixedState> = HashMap::default();
    let mut piece = Vec::new();
    let mut end = records;
    while end > 0 {
        let start = end.saturating_sub(PIECE_RECORDS);
        piece.resize((end - start) as usize * RECORD_BYTES, 0);
        spool.read_at(start * record_bytes, &mut piece)?;
        for (number, record) in (start + 1..=end).rev().zip(piece.chunks_exact_mut(RECORD_BYTES).rev()) {
            let object = u64::from_le_bytes(record[4..12].try_into().expect("eight bytes"));
            let access = next.insert(object, number.cast_signed()).unwrap_or(-1);
            record[16..].copy_from_slice(&access.to_le_bytes());
        }
        spool.write_at(start * record_bytes, &piece)?;
        end = start;
    }
    drop(next);
    let (mut at, bytes) = (0, spool.bytes());
    while at < bytes {
        let n = (bytes - at).min(PIECE_RECORDS * record_bytes);
        piece.resize(n as usize, 0);
        spool.read_at(at, &mut piece)?;
        out.write_all(&piece)?;
        at += n;
    }
    Ok(())
}
