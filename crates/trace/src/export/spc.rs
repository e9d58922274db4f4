//! SPC traces (Storage Performance Council trace file format 1.0.1, as `UMass` publishes it):
//! `ASU,LBA (512 B),size (B),r|w,time (s)`. A record's time may not be before that of one in front
//! of it.

use std::io::Write;

use destage_plan::{Op, Request, SECTOR_BYTES};

use super::exporter::FormatWriter;
use super::fit::{FormatLimits, UserLosses};
use super::spec::{ExportFormat, ExportInfo};
use crate::formats::FormatId;
use crate::options::{FormatError, FormatOptions};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spc;

impl ExportFormat for Spc {
    const INFO: ExportInfo = ExportInfo {
        id: FormatId::Spc,
        cannot: "flushes, discards, FUA, offsets inside sectors, times that run backwards, names of volumes",
        options: &[],
        timeless: false,
    };

    fn take(_options: &mut FormatOptions<'_>, _losses: &mut UserLosses) -> Result<Self, FormatError> {
        Ok(Self)
    }

    fn writer(&self) -> Box<dyn FormatWriter> {
        Box::new(*self)
    }
}

impl FormatWriter for Spc {
    fn holds(&self) -> FormatLimits {
        FormatLimits {
            flushes: false,
            discards: false,
            fua: false,
            empty: true,
            offset_unit: SECTOR_BYTES,
            len_unit: 1,
            tick: 1,
            ordered: true,
            volumes: true,
            max_len: u64::MAX,
            max_pages: None,
            piece: u64::MAX,
        }
    }

    fn put(&mut self, request: &Request, _name: Option<&str>, out: &mut Vec<u8>) -> Result<u64, String> {
        let lba = request.offset / SECTOR_BYTES;
        let (whole, nanos) = (request.time.0 / 1_000_000_000, request.time.0 % 1_000_000_000);
        let op = if request.op == Op::Read { 'r' } else { 'w' };
        writeln!(out, "{},{lba},{},{op},{whole}.{nanos:09}", request.volume, request.len).expect("memory takes it");
        Ok(1)
    }
}
