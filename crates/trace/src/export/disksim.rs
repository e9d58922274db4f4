//! `DiskSim` ASCII: `time (ms) device sector sectors flags`, separated by blanks; flags 1 is a
//! read, 0 a write. `DiskSim` 4.0 reads numbers of 32 bits with a sign
//! (`iotrace_ascii_get_ioreq_event`), and its times must not run backwards.

use std::io::Write;

use destage_plan::{Op, Request, SECTOR_BYTES};

use super::exporter::FormatWriter;
use super::fit::{FormatLimits, UserLosses};
use super::spec::{ExportFormat, ExportInfo};
use crate::formats::FormatId;
use crate::options::{FormatError, FormatOptions};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Disksim;

impl ExportFormat for Disksim {
    const INFO: ExportInfo = ExportInfo {
        id: FormatId::Disksim,
        cannot: "flushes, discards, FUA, no bytes, parts of sectors, times that run backwards, names of volumes, sectors \
                 from 2^31 on",
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

impl FormatWriter for Disksim {
    fn holds(&self) -> FormatLimits {
        FormatLimits {
            flushes: false,
            discards: false,
            fua: false,
            empty: false,
            offset_unit: SECTOR_BYTES,
            len_unit: SECTOR_BYTES,
            tick: 1,
            ordered: true,
            volumes: true,
            max_len: u64::from(i32::MAX.unsigned_abs()) * SECTOR_BYTES,
            max_pages: None,
            piece: u64::MAX,
        }
    }

    fn put(&mut self, request: &Request, _name: Option<&str>, out: &mut Vec<u8>) -> Result<u64, String> {
        let (sector, sectors) = (request.offset / SECTOR_BYTES, request.len / SECTOR_BYTES);
        for number in [sector, u64::from(request.volume)] {
            if i32::try_from(number).is_err() {
                return Err(format!(
                    "begins at sector {sector} of volume {}, and DiskSim reads no number from 2^31 on",
                    request.volume
                ));
            }
        }
        let (whole, nanos) = (request.time.0 / 1_000_000, request.time.0 % 1_000_000);
        let read = u8::from(request.op == Op::Read);
        writeln!(out, "{whole}.{nanos:06} {} {sector} {sectors} {read}", request.volume).expect("memory takes it");
        Ok(1)
    }
}
