//! libCacheSim's `oracleGeneral` traces: little-endian records of 24 bytes, without a header:
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 4 | time, seconds |
//! | 4 | 8 | object |
//! | 12 | 4 | the object's size in bytes |
//! | 16 | 8 | when the object is next accessed; passed over |
//!
//! The format says neither whether an access reads or writes nor where an object lies: `op=` must
//! tell the former, and object *n* is taken to begin at byte *n* times `unit=` (4096 unless told
//! otherwise). There is one volume.

use destage_plan::Op;

use crate::error::TraceError;
use crate::fields::{FieldFault, ParsedLine};
use crate::format::{FormatFinding, FormatInfo, FormatSample, FormatSign, TraceFormat, TraceOpening, scattered};
use crate::options::{FormatError, FormatOptions};
use crate::records::{RecordFormat, RecordSource};
use crate::sink::RequestSink;
use crate::source::TraceSource;

const RECORD_BYTES: usize = 24;

/// Bytes per object unless told otherwise: a page.
const DEFAULT_OBJECT_BYTES: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OracleGeneral {
    /// Selects the operation of the accesses: read or write.
    op: Op,
    unit: u32,
}

impl TraceFormat for OracleGeneral {
    const INFO: FormatInfo = FormatInfo {
        name: "oracle-general",
        aliases: &["oracleGeneral"],
        what: "libCacheSim's oracleGeneral records, binary",
        columns: "time (s), object, size (B), next access",
        options: &[
            "op=R|W: what the accesses are (required: the format does not say)",
            "unit=BYTES: object n begins at byte n times this (default 4096)",
        ],
        finding: FormatFinding::Never,
        examples: &["oracle-general:op=R", "oracle-general:op=W,unit=512"],
        samples: &[FormatSample::records("", &[4, 8, 4, 8], |n| (0..n).map(sample).collect()).not_found()],
    };

    const SIGN: FormatSign = FormatSign::Guess(|head, whole| {
        let cut = whole && !head.len().is_multiple_of(RECORD_BYTES);
        (Self::plausible(head) && !cut).then_some(
            "could be oracle-general records, but nothing in such a file proves it, and whether the accesses \
             read or write it does not say; if it is that, give --format oracle-general:op=R or \
             --format oracle-general:op=W",
        )
    });

    fn plain() -> Option<Self> {
        None
    }

    fn take(options: &mut FormatOptions<'_>) -> Result<Self, FormatError> {
        let op = match options.take("op") {
            Some("R") => Op::Read,
            Some("W") => Op::Write,
            Some(text) => return Err(options.wrong("op", text, "R or W")),
            None => {
                return Err(FormatError::new(
                    "format oracle-general does not say whether its accesses read or write: give \
                     oracle-general:op=R or oracle-general:op=W",
                ));
            }
        };
        Ok(Self { op, unit: options.bytes("unit")?.unwrap_or(DEFAULT_OBJECT_BYTES) })
    }

    fn options(&self) -> Vec<String> {
        let op = format!("op={}", if self.op == Op::Read { 'R' } else { 'W' });
        let unit = (self.unit != DEFAULT_OBJECT_BYTES).then(|| format!("unit={}", self.unit));
        [op].into_iter().chain(unit).collect()
    }

    fn open(&self, opening: TraceOpening<'_>) -> Result<Box<dyn TraceSource>, TraceError> {
        let records = OracleRecords { op: self.op, unit: u64::from(self.unit) };
        Ok(Box::new(RecordSource::new(records, opening.input, opening.lenient)))
    }
}

impl OracleGeneral {
    /// Is true if the records could be of this format: times that do not fall, objects of 1 B to 1 GiB, next
    /// accesses that are a position or the mark for none.
    fn plausible(head: &[u8]) -> bool {
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

/// Record `n` of a sample.
fn sample(n: u64) -> Vec<u8> {
    let time_and_object = [&(n as u32).to_le_bytes()[..], &scattered(n).to_le_bytes()];
    [&time_and_object.concat()[..], &4096_u32.to_le_bytes(), &(-1_i64).to_le_bytes()].concat()
}

struct OracleRecords {
    op: Op,
    unit: u64,
}

impl RecordFormat for OracleRecords {
    const PREFIX: usize = RECORD_BYTES;

    #[inline]
    fn length(&self, _prefix: &[u8]) -> ParsedLine<usize> {
        Ok(RECORD_BYTES)
    }

    #[inline]
    fn parse_record(&mut self, record: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<()> {
        let (time, object, size) = parse(record);
        let offset = object.checked_mul(self.unit).ok_or_else(|| {
            FieldFault::new(format!("object {object} times {} B is beyond 2^64; give a smaller unit=", self.unit))
        })?;
        sink.push(u64::from(time) * 1_000_000_000, 0, self.op, false, offset, u64::from(size))
    }
}
