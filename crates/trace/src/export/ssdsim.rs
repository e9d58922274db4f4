//! `MQSim` and `SSDsim`: `time (ns) device sector sectors 1 read|0 write`, separated by one blank
//! each, as `MQSim` splits lines (`ASCII_Trace_Definition.h`); its times must not run backwards.

use std::io::Write;

use destage_plan::{Op, Request, SECTOR_BYTES};

use super::exporter::FormatWriter;
use super::fit::{FormatLimits, UserLosses};
use super::spec::{ExportFormat, ExportInfo};
use crate::formats::FormatId;
use crate::options::{FormatError, FormatOptions};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ssdsim;

impl ExportFormat for Ssdsim {
    const INFO: ExportInfo = ExportInfo {
        id: FormatId::Ssdsim,
        cannot: "flushes, discards, FUA, no bytes, parts of sectors, times that run backwards, names of volumes; \
                 MQSim does not look at the volume",
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

impl FormatWriter for Ssdsim {
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
            max_len: u64::from(u32::MAX) * SECTOR_BYTES,
            max_pages: None,
            piece: u64::MAX,
        }
    }

    fn put(&mut self, request: &Request, _name: Option<&str>, out: &mut Vec<u8>) -> Result<u64, String> {
        let (sector, sectors) = (request.offset / SECTOR_BYTES, request.len / SECTOR_BYTES);
        let read = u8::from(request.op == Op::Read);
        writeln!(out, "{} {} {sector} {sectors} {read}", request.time.0, request.volume).expect("memory takes it");
        Ok(1)
    }
}
