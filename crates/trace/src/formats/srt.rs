//! HP's SRT traces (Cello, Snake, hplajw; `disksim_hptrace.h`): an ASCII header that begins
//! `$$TR_IOREC` and ends with a form feed (0x0C), then records of big-endian 32-bit numbers:
//!
//! | byte | field |
//! |---|---|
//! | 0 | length of the record in bytes: 52, 56 with the queue's length, 60 with suspicion flags too |
//! | 4 | id: the layout's version (1 to 4) in the upper half, 1 in the lower half, or 4 for a suspect record |
//! | 8, 12 | time of enqueueing: seconds, microseconds |
//! | 16, 20 | start and stop of the service, microseconds; passed over |
//! | 24 | bytes |
//! | 28 | block: sectors from the start of the disk |
//! | 32 | device number: the disk's unit in bits 8 to 15, the section in bits 0 to 7 |
//! | 36, 40 | driver type, cylinder; passed over |
//! | 44 | flags; bit 0 set means a read |
//! | 48 ... | information, queue length; passed over |
//!
//! Blocks count from the start of the disk, whatever section (or raw device) they were reached
//! through, as the cylinder field shows; so the volume is the disk, called `disk` and its unit.
//! A block's size is the disks' `sectorsize` in the header (256 B on the disks of that time), which
//! must be the same for all; else `unit=` must give it.

use destage_plan::Op;

use crate::error::TraceError;
use crate::fields::{FieldFault, ParsedLine, shown};
use crate::format::{FormatFinding, FormatInfo, FormatSample, FormatSign, MarkedBytes, TraceFormat, TraceOpening};
use crate::options::{FormatError, FormatOptions};
use crate::records::{ByteReader, RecordFormat, RecordSource};
use crate::sink::RequestSink;
use crate::source::TraceSource;

/// Marks the beginning of such a file.
const MAGIC: &[u8] = b"$$TR_IOREC";
/// Limits the size of the header in bytes.
const MAX_HEADER: usize = 1 << 20;
const FORM_FEED: u8 = 0x0c;
const SUSPECT: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Srt {
    unit: Option<u32>,
}

impl TraceFormat for Srt {
    const INFO: FormatInfo = FormatInfo {
        name: "srt",
        aliases: &["hp-srt"],
        what: "HP SRT records (Cello, Snake, hplajw), binary",
        columns: "size id sec usec start stop bytes block device driver cylinder flags info queue",
        options: &["unit=BYTES: size of a block (default: the sectorsize in the header)"],
        finding: FormatFinding::Certain,
        examples: &["srt:unit=1024"],
        samples: &[FormatSample::records("", &[4, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4], sample)],
    };

    const SIGN: FormatSign = FormatSign::Mark(|head, whole| head.starts_with(MAGIC).then(|| held(head, whole)));

    fn plain() -> Option<Self> {
        Some(Self { unit: None })
    }

    fn take(options: &mut FormatOptions<'_>) -> Result<Self, FormatError> {
        Ok(Self { unit: options.bytes("unit")? })
    }

    fn options(&self) -> Vec<String> {
        self.unit.map(|unit| format!("unit={unit}")).into_iter().collect()
    }

    fn open(&self, opening: TraceOpening<'_>) -> Result<Box<dyn TraceSource>, TraceError> {
        let records = SrtRecords { unit: u64::from(self.unit.unwrap_or(0)) };
        Ok(Box::new(RecordSource::new(records, opening.input, opening.lenient)))
    }
}

/// The lines of a header, and `n` records.
fn sample(n: u64) -> Vec<Vec<u8>> {
    let header = ["$$TR_IOREC-1.3\n", "disks = { 0 -> { sectorsize = 256 } };\n", "\u{c}"];
    let record = |n: u32| {
        let fields = [56, 0x40001, 10 + n, 500, 174, 19687, 4096, 1056 + n * 16, 0x0800_0107, 4, 1, 27, 0, 1];
        fields.into_iter().flat_map(u32::to_be_bytes).collect()
    };
    header.map(|line| line.as_bytes().to_vec()).into_iter().chain((0..n as u32).map(record)).collect()
}

struct SrtRecords {
    /// Bytes of a block; 0 until known.
    unit: u64,
}

/// Measures how much of a file that begins with [`MAGIC`] is of this format: a header of ASCII and the
/// records after it. The last record may go on after `head`. Where the header does not end in `head`, only
/// the first line counts.
fn held(head: &[u8], whole: bool) -> MarkedBytes {
    let header = memchr::memchr(FORM_FEED, head).map(|end| end + 1).filter(|&end| head[..end].is_ascii());
    let Some(mut bytes) = header else {
        return match memchr::memchr(b'\n', head) {
            Some(end) => MarkedBytes { bytes: end + 1, proven: !whole },
            None => MarkedBytes::all(head),
        };
    };
    let records = SrtRecords { unit: 0 };
    while let Some(prefix) = head.get(bytes..bytes + SrtRecords::PREFIX) {
        match records.length(prefix) {
            Ok(length) => bytes += length,
            Err(_) => return MarkedBytes { bytes, proven: true },
        }
    }
    MarkedBytes::all(head)
}

fn at(record: &[u8], byte: usize) -> u32 {
    u32::from_be_bytes(record[byte..byte + 4].try_into().expect("four bytes"))
}

/// The one `sectorsize` of all disks in the header.
fn sector_size(header: &[u8]) -> Result<u64, String> {
    const KEY: &[u8] = b"sectorsize";
    let mut found = None;
    for at in memchr::memmem::find_iter(header, KEY) {
        let value = header[at + KEY.len()..].iter().skip_while(|b| matches!(b, b' ' | b'\t' | b'='));
        let digits: Vec<u8> = value.copied().take_while(u8::is_ascii_digit).take(6).collect();
        let size = String::from_utf8_lossy(&digits).parse::<u64>().ok().filter(|&n| n > 0);
        let size = size.ok_or("the header's sectorsize is not a number; give --format srt:unit=BYTES")?;
        if *found.get_or_insert(size) != size {
            return Err("the header's disks have different sector sizes; give --format srt:unit=BYTES".to_owned());
        }
    }
    found.ok_or_else(|| "the header has no sectorsize; give the size of a block, --format srt:unit=BYTES".to_owned())
}

impl RecordFormat for SrtRecords {
    const PREFIX: usize = 8;

    fn header(&mut self, bytes: &mut ByteReader) -> Result<(), TraceError> {
        let start = bytes.available(MAX_HEADER)?;
        if !start.starts_with(MAGIC) {
            let reason = format!("begins with {}, expected \"$$TR_IOREC\"", shown(&start[..start.len().min(41)]));
            return Err(bytes.error(reason));
        }
        let Some(end) = memchr::memchr(FORM_FEED, &start[..start.len().min(MAX_HEADER)]) else {
            return Err(bytes.error("the header's end, a form feed, is not within the first 1 MiB"));
        };
        if self.unit == 0 {
            let unit = sector_size(&start[..end]);
            self.unit = unit.map_err(|reason| bytes.error(reason))?;
        }
        bytes.consume(end + 1);
        Ok(())
    }

    #[inline]
    fn length(&self, prefix: &[u8]) -> ParsedLine<usize> {
        let (size, id) = (at(prefix, 0), at(prefix, 4));
        let (version, kind) = (id >> 16, id & 0xffff);
        if !(1..=4).contains(&version) || (kind != 1 && kind != SUSPECT) {
            return Err(FieldFault::new(format!(
                "the record's id is {id:#x}, expected version 1 to 4 and kind 1 or 4"
            )));
        }
        let expected = 52 + 4 * u32::from(version == 4) + 4 * u32::from(kind == SUSPECT);
        if size != expected {
            return Err(FieldFault::new(format!("the record's length is {size}, expected {expected} for id {id:#x}")));
        }
        Ok(size as usize)
    }

    #[inline]
    fn parse_record(&mut self, record: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<()> {
        if at(record, 4) & 0xffff == SUSPECT {
            return Err(FieldFault::new("the recorder marked the record as suspect"));
        }
        let (seconds, micros) = (u64::from(at(record, 8)), u64::from(at(record, 12)));
        if micros >= 1_000_000 {
            return Err(FieldFault::new(format!("the time's microseconds are {micros}, expected less than 1000000")));
        }
        let len = u64::from(at(record, 24));
        let offset = u64::from(at(record, 28)) * self.unit;
        let unit = u64::from(at(record, 32) >> 8 & 0xff);
        let op = if at(record, 44) & 1 == 1 { Op::Read } else { Op::Write };
        let volume = sink.volumes.number_named(unit, |n| format!("disk{n}"))?;
        sink.push(seconds * 1_000_000_000 + micros * 1000, volume, op, false, offset, len)
    }
}
