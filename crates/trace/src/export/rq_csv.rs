//! Recordings of `block_rq_issue` as CSV: `time (us),R|W|WF|F|D,sector,sectors`, all kinds of
//! requests of one volume.

use std::io::Write;

use destage_plan::{Op, Request, SECTOR_BYTES};

use super::exporter::FormatWriter;
use super::fit::{FormatLimits, UserLosses};
use super::spec::{ExportFormat, ExportInfo};
use crate::formats::FormatId;
use crate::options::{FormatError, FormatOptions};

/// Nanoseconds in a microsecond.
const TICK: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RqCsv {
    merge: bool,
}

impl ExportFormat for RqCsv {
    const INFO: ExportInfo = ExportInfo {
        id: FormatId::RqCsv,
        cannot: "parts of sectors, times finer than 1 us, more than one volume",
        options: &["volumes=merge: lay all volumes over each other"],
        timeless: false,
    };

    fn take(options: &mut FormatOptions<'_>, _losses: &mut UserLosses) -> Result<Self, FormatError> {
        Ok(Self { merge: options.choose("volumes", false, &[("merge", true)])? })
    }

    fn options(&self) -> Vec<String> {
        self.merge.then(|| "volumes=merge".to_owned()).into_iter().collect()
    }

    fn numbers_volumes(&self) -> bool {
        false
    }

    fn merges_volumes(&self) -> bool {
        self.merge
    }

    fn writer(&self) -> Box<dyn FormatWriter> {
        Box::new(*self)
    }
}

impl FormatWriter for RqCsv {
    fn holds(&self) -> FormatLimits {
        FormatLimits {
            flushes: true,
            discards: true,
            fua: true,
            empty: true,
            offset_unit: SECTOR_BYTES,
            len_unit: SECTOR_BYTES,
            tick: TICK,
            ordered: false,
            volumes: false,
            max_len: u64::MAX,
            max_pages: None,
            piece: u64::MAX,
        }
    }

    fn put(&mut self, request: &Request, _name: Option<&str>, out: &mut Vec<u8>) -> Result<u64, String> {
        let Request { time, offset, len, op, fua, .. } = *request;
        let op = match op {
            Op::Read => "R",
            Op::Write if fua => "WF",
            Op::Write => "W",
            Op::Flush => "F",
            Op::Discard => "D",
        };
        writeln!(out, "{},{op},{},{}", time.0 / TICK, offset / SECTOR_BYTES, len / SECTOR_BYTES)
            .expect("memory takes it");
        Ok(1)
    }
}
