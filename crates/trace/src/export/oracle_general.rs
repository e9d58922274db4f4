//! libCacheSim's `oracleGeneral`: little-endian records of 24 bytes, `time (s)`, `object`, `size`,
//! `next access`. Each page that a request touches is one access of an object of a page's size:
//! libCacheSim does not split requests itself.
//!
//! The next access is the number, from 1, of the record that accesses the object next, or -1. It is
//! not known while the trace is read: the records wait in a temporary file, through which a second
//! pass goes backwards, with one entry of memory for each different page.

use std::io::{self, Write};

use destage_plan::{Op, PageGeometry, Request};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::exporter::{FormatWriter, SecondPass};
use super::fit::{FormatLimits, UserLosses};
use super::spec::{ExportFormat, ExportInfo};
use super::spool::SpoolFile;
use crate::formats::FormatId;
use crate::options::{FormatError, FormatOptions};

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

/// Bytes in a page unless told otherwise.
const DEFAULT_PAGE_BYTES: u32 = 4096;

/// Selects the placement of volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VolumeStart {
    /// There is one.
    One,
    /// They lie over each other.
    Merged,
    /// Each begins at a multiple of 2^40 pages.
    Apart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OracleGeneral {
    /// Selects the requests that are accesses: reads, writes, or both.
    op: Option<Op>,
    /// A power of two from 512 to 2^20.
    page_bytes: u32,
    place: VolumeStart,
}

impl ExportFormat for OracleGeneral {
    const INFO: ExportInfo = ExportInfo {
        id: FormatId::OracleGeneral,
        cannot: "flushes, discards, FUA, no bytes, parts of pages, times finer than 1 s or that run backwards, reads and \
                 writes apart, more than one volume; each page that a request touches is one access",
        options: &[
            "op=R|W|all: which requests are accesses (required: the format does not tell them apart)",
            "unit=BYTES: the page, a power of two from 512 to 1048576 (default 4096)",
            "volumes=merge|apart: lay all volumes over each other, or begin each at another multiple of 2^40 pages",
        ],
        timeless: false,
    };

    fn take(options: &mut FormatOptions<'_>, losses: &mut UserLosses) -> Result<Self, FormatError> {
        let op = options.take("op").ok_or_else(|| {
            FormatError::new(
                "format oracle-general does not tell reads from writes: give oracle-general:op=R, op=W or op=all",
            )
        })?;
        let op = match op {
            "R" => Some(Op::Read),
            "W" => Some(Op::Write),
            "all" => None,
            _ => return Err(options.wrong("op", op, "R, W or all")),
        };
        if let Some(op) = op {
            let other = if op == Op::Read { Op::Write } else { Op::Read };
            losses.kinds[other as usize] = true;
        }
        let page_bytes = match options.take("unit") {
            None => DEFAULT_PAGE_BYTES,
            Some(text) => {
                let page = text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
                let page = page.filter(|n: &u32| n.is_power_of_two() && (512..=1 << 20).contains(n));
                page.ok_or_else(|| options.wrong("unit", text, "a power of two from 512 to 1048576"))?
            }
        };
        let place = options.choose(
            "volumes",
            VolumeStart::One,
            &[("merge", VolumeStart::Merged), ("apart", VolumeStart::Apart)],
        )?;
        Ok(Self { op, page_bytes, place })
    }

    fn options(&self) -> Vec<String> {
        let op = self.op.map_or("all", |op| if op == Op::Read { "R" } else { "W" });
        let unit = (self.page_bytes != DEFAULT_PAGE_BYTES).then(|| format!("unit={}", self.page_bytes));
        let volumes = match self.place {
            VolumeStart::One => None,
            VolumeStart::Merged => Some("volumes=merge".to_owned()),
            VolumeStart::Apart => Some("volumes=apart".to_owned()),
        };
        [format!("op={op}")].into_iter().chain(unit).chain(volumes).collect()
    }

    fn numbers_volumes(&self) -> bool {
        self.place == VolumeStart::Apart
    }

    fn merges_volumes(&self) -> bool {
        self.place == VolumeStart::Merged
    }

    fn writer(&self) -> Box<dyn FormatWriter> {
        let geometry = PageGeometry::new(u64::from(self.page_bytes), 1).expect("a page size that was checked");
        Box::new(NextAccesses { geometry, apart: self.place == VolumeStart::Apart })
    }
}

struct NextAccesses {
    geometry: PageGeometry,
    /// Volumes are kept apart.
    apart: bool,
}

impl FormatWriter for NextAccesses {
    fn holds(&self) -> FormatLimits {
        FormatLimits {
            flushes: false,
            discards: false,
            fua: false,
            empty: false,
            offset_unit: 1,
            len_unit: 1,
            tick: TICK,
            ordered: true,
            volumes: self.apart,
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
        let base = if !self.apart {
            0
        } else if end >> VOLUME_PAGES_LOG2 == 0 && request.volume >> (64 - VOLUME_PAGES_LOG2) == 0 {
            u64::from(request.volume) << VOLUME_PAGES_LOG2
        } else {
            return Err(format!(
                "reaches page {end} of volume {}, and volumes=apart has room for 2^40 pages on each of 2^24",
                request.volume
            ));
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

    fn second_pass(&self) -> Option<SecondPass> {
        Some(complete)
    }
}

/// Fills in the next accesses of the records in `spool` and writes them to `out`.
fn complete(mut spool: SpoolFile, out: &mut dyn Write) -> io::Result<()> {
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
