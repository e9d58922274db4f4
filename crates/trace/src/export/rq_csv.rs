//! Recordings of `block_rq_issue` as CSV: `time (us),R|W|WF|F|D,sector,sectors`, all kinds of requests of one volume.

use std::io::Write;

use destage_plan::{Op, Request, SECTOR_BYTES};

use super::Format;
use super::fit::Holds;

/// Nanoseconds in a microsecond.
const TICK: u64 = 1000;

pub(super) struct RqCsv;

impl Format for RqCsv {
    fn holds(&self) -> Holds {
        Holds {
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
