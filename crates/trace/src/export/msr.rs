//! MSR Cambridge CSV: `time (100 ns),host,disk,Read|Write,offset (B),size (B),response`. The host is `destage`, the disk
//! the volume's number, the response time, which is not known, 0; times begin at 0.

use std::io::Write;

use destage_plan::{Op, Request};

use super::Format;
use super::fit::Holds;

/// Nanoseconds in a tick of Windows' file time.
const TICK: u64 = 100;

pub(super) struct Msr;

impl Format for Msr {
    fn holds(&self) -> Holds {
        Holds {
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
