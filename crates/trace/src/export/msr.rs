//! MSR Cambridge CSV: `time (100 ns),host,disk,Read|Write,offset (B),size (B),response`. The host
//! is `destage`, the disk the volume's number, the response time, which is not known, 0; times
//! begin at 0.

use std::io::Write;

use destage_plan::{Op, Request};

use super::exporter::FormatWriter;
use super::fit::{FormatLimits, UserLosses};
use super::spec::{ExportFormat, ExportInfo};
use crate::formats::FormatId;
use crate::options::{FormatError, FormatOptions};

/// Nanoseconds in a tick of Windows' file time.
const TICK: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Msr;

impl ExportFormat for Msr {
    const INFO: ExportInfo = ExportInfo {
        id: FormatId::Msr,
        cannot: "flushes, discards, FUA, times finer than 100 ns, names of volumes",
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

impl FormatWriter for Msr {
    fn holds(&self) -> FormatLimits {
        FormatLimits {
            flushes: false,
            discards: false,
            fua: false,
            empty: true,
            offset_unit: 1,
            len_unit: 1,
            tick: TICK,
            ordered: false,
            volumes: true,
            max_len: u64::MAX,
            max_pages: None,
            piece: u64::MAX,
        }
    }

    fn put(&mut self, request: &Request, _name: Option<&str>, out: &mut Vec<u8>) -> Result<u64, String> {
        let Request { time, offset, len, volume, op, .. } = *request;
        let op = if op == Op::Read { "Read" } else { "Write" };
        writeln!(out, "{},destage,{volume},{op},{offset},{len},0", time.0 / TICK).expect("memory takes it");
        Ok(1)
    }
}
