//! libCacheSim's `lcs` traces (`traceReader/customizedReader/lcs.h`): little-endian, a header and records of one length.
//!
//! | byte of the header | bytes | field |
//! |---|---|---|
//! | 0 | 8 | mark, `0x123456789abcdef0` |
//! | 8 | 8 | version, which says what the records are |
//! | 16 | | statistics of the trace; passed over |
//! | 1016 or 8184 | 8 | the mark again, at the end: files of before 2025 have the short header |
//!
//! | byte of a record | version 1 | version 2 | versions 3 to 8 |
//! |---|---|---|---|
//! | 0 | time, 4 B: seconds | the same | the same |
//! | 4 | object, 8 B | the same | the same |
//! | 12 | size, 4 B | size, 4 B | size, 8 B |
//! | 16 | next access, 8 B | operation, 1 B; tenant, 3 B | |
//! | 20 | | next access, 8 B | operation, 1 B; tenant, 3 B |
//! | 24 | | | time to live, 4 B; next access, 8 B |
//! | 36 | | | 1, 2, 4, 8 or 16 features of 4 B from version 4 on |
//!
//! The tenant is the volume, called by its number. Sizes are bytes; time to live, next access and features are passed over.
//! Object *n* begins at byte *n* times `unit=` (4096 unless told otherwise), as in `oracle-general`. Operations: get, gets
//! and read are reads; set, add, compare-and-swap, replace, append, prepend, increment, decrement, write and update are
//! writes; delete is a discard. Where the version or the record has no operation, `op=` must say what it is.

use destage_plan::Op;

use crate::error::TraceError;
use crate::fields::{FieldFault, ParsedLine};
use crate::format::{
    FormatFinding, FormatInfo, FormatSample, FormatSign, MarkedBytes, TraceFormat, TraceOpening, scattered,
};
use crate::options::{FormatError, FormatOptions};
use crate::records::{ByteReader, RecordFormat, RecordSource};
use crate::sink::RequestSink;
use crate::source::TraceSource;

/// Begins and ends a header.
const MAGIC: [u8; 8] = 0x1234_5678_9abc_def0_u64.to_le_bytes();
/// Lists the bytes that a header may have.
const HEADERS: [usize; 2] = [1024, 8192];
/// Lists the bytes of a record by version, from 1 on.
const RECORD_BYTES: [usize; 8] = [24, 28, 36, 40, 44, 52, 68, 100];
/// Gives where a header of 1024 B has the unit of times, which no other has.
const TIME_UNIT: usize = 124;
/// Bytes per object unless told otherwise: a page.
const DEFAULT_OBJECT_BYTES: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lcs {
    /// Tells what accesses are that do not say it: reads or writes.
    op: Option<Op>,
    unit: u32,
}

impl TraceFormat for Lcs {
    const INFO: FormatInfo = FormatInfo {
        name: "lcs",
        aliases: &["libcachesim"],
        what: "libCacheSim's lcs records, versions 1 to 8, binary; the tenant is the volume",
        columns: "time (s), object, size (B), [operation, tenant,] next access",
        options: &[
            "op=R|W: what the accesses are that do not say it (required for version 1)",
            "unit=BYTES: object n begins at byte n times this (default 4096)",
        ],
        finding: FormatFinding::Certain,
        examples: &["lcs:op=R", "lcs:op=W,unit=512"],
        samples: &[
            FormatSample::records("", &[4, 8, 4, 1, 3, 8], |n| sample(HEADERS[0], n)),
            FormatSample::records("8192 B of header", &[4, 8, 4, 1, 3, 8], |n| sample(HEADERS[1], n)),
        ],
    };

    const SIGN: FormatSign = FormatSign::Mark(|head, whole| head.starts_with(&MAGIC).then(|| held(head, whole)));

    fn plain() -> Option<Self> {
        Some(Self { op: None, unit: DEFAULT_OBJECT_BYTES })
    }

    fn take(options: &mut FormatOptions<'_>) -> Result<Self, FormatError> {
        let op = options.choose("op", None, &[("R", Some(Op::Read)), ("W", Some(Op::Write))])?;
        Ok(Self { op, unit: options.bytes("unit")?.unwrap_or(DEFAULT_OBJECT_BYTES) })
    }

    fn options(&self) -> Vec<String> {
        let op = self.op.map(|op| format!("op={}", if op == Op::Read { 'R' } else { 'W' }));
        let unit = (self.unit != DEFAULT_OBJECT_BYTES).then(|| format!("unit={}", self.unit));
        op.into_iter().chain(unit).collect()
    }

    fn open(&self, opening: TraceOpening<'_>) -> Result<Box<dyn TraceSource>, TraceError> {
        let records = LcsRecords { op: self.op, unit: u64::from(self.unit), version: 0 };
        Ok(Box::new(RecordSource::new(records, opening.input, opening.lenient)))
    }
}

/// Makes a header of version 2 with so many bytes, and `n` records.
fn sample(header_bytes: usize, n: u64) -> Vec<Vec<u8>> {
    let mut header = vec![0; header_bytes];
    header[..8].copy_from_slice(&MAGIC);
    header[8..16].copy_from_slice(&2_u64.to_le_bytes());
    header[header_bytes - 8..].copy_from_slice(&MAGIC);
    let record = |n: u64| {
        let start = [&(n as u32).to_le_bytes()[..], &scattered(n).to_le_bytes(), &4096_u32.to_le_bytes()].concat();
        let operation = [READ_OP, WRITE_OP][n as usize % 2];
        [&start[..], &[operation, (n % 3) as u8, 0, 0], &(-1_i64).to_le_bytes()].concat()
    };
    [header].into_iter().chain((0..n).map(record)).collect()
}

/// Returns how much of the beginning of a file with the mark is of the format: all of it, if the header ends in the mark too
/// and nine records in ten could be records; else no more than the header, which may stand in front of another file.
fn held(head: &[u8], whole: bool) -> MarkedBytes {
    /// Counts the records behind which a file may be cut off.
    const FEW: usize = 3;
    let Some(bytes) = header_bytes(head) else { return MarkedBytes { bytes: MAGIC.len(), proven: false } };
    let (version, records) = (u64_at(head, 8), &head[bytes..]);
    let Some(version) = usize::try_from(version).ok().filter(|version| (1..=RECORD_BYTES.len()).contains(version))
    else {
        // The reader says so, unless the rest is of another format.
        return MarkedBytes { bytes, proven: true };
    };
    let records = records.chunks_exact(RECORD_BYTES[version - 1]);
    let is_cut = whole && !records.remainder().is_empty();
    let (all, good) = (records.len(), records.filter(|record| LcsAccess::of(version, record).is_plausible()).count());
    if head.len() == bytes || (good > 0 && good >= 9 * (all - good) && (all >= FEW || !is_cut)) {
        return MarkedBytes::all(head);
    }
    MarkedBytes { bytes, proven: false }
}

/// Gives the fields of a record.
struct LcsAccess {
    time: u32,
    object: u64,
    size: u64,
    operation: u8,
    tenant: u32,
    next: i64,
}

impl LcsAccess {
    /// Reads a record of a version, from 1 to 8.
    #[inline]
    fn of(version: usize, record: &[u8]) -> Self {
        let narrow = || u64::from(u32_at(record, 12));
        let (size, operation_and_tenant, next) = match version {
            1 => (narrow(), 0, u64_at(record, 16)),
            2 => (narrow(), u32_at(record, 16), u64_at(record, 20)),
            _ => (u64_at(record, 12), u32_at(record, 20), u64_at(record, 28)),
        };
        Self {
            time: u32_at(record, 0),
            object: u64_at(record, 4),
            size,
            operation: operation_and_tenant as u8,
            tenant: operation_and_tenant >> 8,
            next: next.cast_signed(),
        }
    }

    /// Returns true if the fields could be those of an access: its size less than 1 GiB, and the next one within 2^48
    /// accesses, or none.
    fn is_plausible(&self) -> bool {
        let has_next = (-1..1 << 48).contains(&self.next) || self.next == i64::MAX;
        self.size < 1 << 30 && operation(self.operation).is_ok() && has_next
    }
}

/// Returns the bytes of the header that a file begins with.
fn header_bytes(head: &[u8]) -> Option<usize> {
    HEADERS.into_iter().find(|&bytes| head.get(bytes - 8..bytes) == Some(&MAGIC[..]))
}

const READ_OP: u8 = 12;
const WRITE_OP: u8 = 13;

/// Returns what an operation of libCacheSim's (`enum.h`, `req_op_e`) asks; `None` for none or an invalid one.
fn operation(code: u8) -> ParsedLine<Option<Op>> {
    match code {
        0 | 15 | 255 => Ok(None),
        1 | 2 | READ_OP => Ok(Some(Op::Read)),
        3..=8 | 10 | 11 | WRITE_OP | 14 => Ok(Some(Op::Write)),
        9 => Ok(Some(Op::Discard)),
        _ => Err(FieldFault::new(format!("the operation is {code}, expected one of libCacheSim's, 0 to 15"))),
    }
}

struct LcsRecords {
    op: Option<Op>,
    unit: u64,
    /// Gives the version; 0 until known.
    version: usize,
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
}

impl RecordFormat for LcsRecords {
    const PREFIX: usize = RECORD_BYTES[0];

    fn header(&mut self, bytes: &mut ByteReader) -> Result<(), TraceError> {
        let head = bytes.available(HEADERS[1])?;
        if !head.starts_with(&MAGIC) {
            return Err(bytes.error("does not begin with lcs's mark, 0x123456789abcdef0 in little-endian order"));
        }
        let Some(header) = header_bytes(head) else {
            return Err(bytes.error("the header does not end in lcs's mark, at byte 1016 or 8184"));
        };
        let (version, unit) = (u64_at(head, 8), u32_at(head, TIME_UNIT));
        if !(1..=RECORD_BYTES.len() as u64).contains(&version) {
            return Err(bytes.error(format!("the version is {version}, expected 1 to 8")));
        }
        if header == HEADERS[0] && unit > 1 {
            return Err(bytes.error(format!("the header's unit of times is {unit}, expected 0 or 1 (seconds)")));
        }
        self.version = version as usize;
        if self.version == 1 && self.op.is_none() {
            return Err(bytes.error(
                "lcs of version 1 does not say whether its accesses read or write: give --format lcs:op=R or --format \
                 lcs:op=W",
            ));
        }
        bytes.consume(header);
        Ok(())
    }

    #[inline]
    fn length(&self, _prefix: &[u8]) -> ParsedLine<usize> {
        Ok(RECORD_BYTES[self.version - 1])
    }

    #[inline]
    fn parse_record(&mut self, record: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<()> {
        let LcsAccess { time, object, size, operation: code, tenant, .. } = LcsAccess::of(self.version, record);
        if size.cast_signed() < 0 {
            return Err(FieldFault::new(format!("the size is {}, expected none below 0", size.cast_signed())));
        }
        let op = operation(code)?.or(self.op).ok_or_else(|| {
            FieldFault::new(
                "the access does not say whether it reads or writes: give --format lcs:op=R or --format lcs:op=W for \
                 such accesses",
            )
        })?;
        let offset = object.checked_mul(self.unit).ok_or_else(|| {
            FieldFault::new(format!("object {object} times {} B is beyond 2^64; give a smaller unit=", self.unit))
        })?;
        let volume = if self.version == 1 { 0 } else { sink.volumes.number(u64::from(tenant))? };
        sink.push(u64::from(time) * 1_000_000_000, volume, op, false, offset, size)
    }
}
