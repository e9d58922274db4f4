//! libCacheSim's `oracleGeneral` traces: little-endian records of 24 bytes, without a header:
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 4 | time, seconds |
//! | 4 | 8 | object |
//! | 12 | 4 | the object's size in bytes |
//! | 16 | 8 | when the object is next accessed; passed over |
//!
//! The format says neither whether an access reads or writes nor where an object lies: `op=` must tell the former, and
//! object *n* is taken to begin at byte *n* times `unit=` (4096 unless told otherwise). There is one volume.

use destage_plan::Op;

use crate::fields::{Fault, Parsed};
use crate::records::RecordFormat;
use crate::sink::Sink;

pub(crate) const RECORD_BYTES: usize = 24;

pub(crate) struct OracleGeneral {
    op: Op,
    unit: u64,
}

impl OracleGeneral {
    pub(crate) fn new(op: Op, unit: u32) -> Self {
        Self { op, unit: u64::from(unit) }
    }

    /// Whether the records could be of this format: times that do not fall, objects of 1 B to 1 GiB, next accesses
    /// that are a position or the mark for none.
    pub(crate) fn plausible(head: &[u8]) -> bool {
        let mut records = head.chunks_exact(RECORD_BYTES).peekable();
        if records.peek().is_none() {
            return false;
        }
        let mut last = 0;
        records.all(|record| {
            let (time, _, size) = parse(record);
            let next = i64::from_le_bytes(record[16..24].try_into().expect("eight bytes"));
            let rising = time >= last;
            last = time;
            rising && (1..=1 << 30).contains(&size) && next >= -1
        })
    }
}

fn parse(record: &[u8]) -> (u32, u64, u32) {
    let u32_at = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"));
    (u32_at(0), u64::from_le_bytes(record[4..12].try_into().expect("eight bytes")), u32_at(12))
}

impl RecordFormat for OracleGeneral {
    const PREFIX: usize = RECORD_BYTES;

    #[inline]
    fn length(&self, _prefix: &[u8]) -> Parsed<usize> {
        Ok(RECORD_BYTES)
    }

    #[inline]
    fn parse_record(&mut self, record: &[u8], sink: &mut Sink<'_>) -> Parsed<()> {
        let (time, object, size) = parse(record);
        let offset = object.checked_mul(self.unit).ok_or_else(|| {
            Fault::new(format!("object {object} times {} B is beyond 2^64; give a smaller unit=", self.unit))
        })?;
        sink.push(u64::from(time) * 1_000_000_000, 0, self.op, false, offset, u64::from(size))
    }
}
