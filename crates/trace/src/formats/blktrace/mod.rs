//! blktrace's binary records (`blktrace_api.h` of the kernel), as `blktrace` writes them: one file
//! for each CPU, `NAME.blktrace.N`; and as one stream, out of `blktrace -o -` and `blkparse -d`. In
//! the byte order of the machine that recorded; the first number tells which.
//!
//! | version 7 | version 8 | bytes | field |
//! |---|---|---|---|
//! | 0 | 0 | 4 | magic `0x656174` and the version in the lowest byte |
//! | 4 | 4 | 4 | sequence; passed over |
//! | 8 | 8 | 8 | time, nanoseconds |
//! | 16 | 16 | 8 | address, sectors of 512 B |
//! | 24 | 24 | 4 | length in bytes |
//! | 28 | 32 | 4, 8 | action: what happened in the lower 16 bits, categories above |
//! | 32 | 28 | 4 | process; passed over |
//! | 36 | 40 | 4 | device: major in the upper 12 bits, minor below; the volume, called `major,minor` |
//! | 40 | 44 | 4 | CPU; passed over |
//! | 44 | 48 | 2 | error; passed over |
//! | 46 | 50 | 2 | bytes of further data behind the record; passed over |
//! | 48 | 64 | | end |
//!
//! Records of other actions than the chosen event are passed over, and so are notes (category bit
//! 10: processes, clocks, messages). Commands passed through to the device (bit 9) are no requests.
//! A flush before (bit 2) is a request of its own; discards have bit 13, writes bit 1, and FUA bit
//! 15; anything else with a length is a read. Version 8 has categories of its own for zone
//! commands, which are errors, and for the writing of zeroes, which is a write as it is in version
//! 7.

mod parts;
mod source;

use std::path::{Path, PathBuf};

use destage_plan::{Op, SECTOR_BYTES};

use super::block_events::{BlockAction as Chosen, EventRequest, SeenActions};
use crate::error::TraceError;
use crate::fields::{FieldFault, ParsedLine};
use crate::format::{
    FormatFinding, FormatInfo, FormatSample, FormatSign, MarkedBytes, TraceFormat, TraceOpening, scattered,
};
use crate::options::{FormatError, FormatOptions};
use crate::source::TraceSource;
use parts::{other_parts, recording};
use source::BlktraceSource;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blktrace {
    event: Chosen,
    /// One file of a recording is meant alone.
    one_cpu: bool,
}

impl TraceFormat for Blktrace {
    const INFO: FormatInfo = FormatInfo {
        name: "blktrace",
        aliases: &[],
        what: "blktrace's records, versions 7 and 8, binary; NAME reads all of NAME.blktrace.0, NAME.blktrace.1, ...",
        columns: "magic sequence time (ns) sector (512 B) bytes action process device cpu error pdu_len",
        options: &[
            "event=D|Q|G|I|C: the action whose records are requests (default D, issue to the device)",
            "cpus=one: read the one CPU's file NAME.blktrace.N though the recording has others",
        ],
        finding: FormatFinding::Certain,
        examples: &["blktrace:event=Q", "blktrace:event=C"],
        samples: &[FormatSample::records("", &[4, 4, 8, 8, 4, 2, 2, 4, 4, 4, 2, 2], |n| (0..n).map(sample).collect())],
    };

    const SIGN: FormatSign = FormatSign::Mark(|head, whole| begins(head).then(|| held(head, whole)));

    fn plain() -> Option<Self> {
        Some(Self { event: Chosen::default(), one_cpu: false })
    }

    fn take(options: &mut FormatOptions<'_>) -> Result<Self, FormatError> {
        let event = Chosen::take(options)?;
        Ok(Self { event, one_cpu: options.choose("cpus", false, &[("one", true)])? })
    }

    fn options(&self) -> Vec<String> {
        self.event.option().into_iter().chain(self.one_cpu.then(|| "cpus=one".to_owned())).collect()
    }

    fn open(&self, opening: TraceOpening<'_>) -> Result<Box<dyn TraceSource>, TraceError> {
        let parts = [opening.input].into_iter().chain(opening.others).collect();
        Ok(Box::new(BlktraceSource::new(self.event.letter(), parts, opening.lenient)))
    }

    fn files(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
        recording(path)
    }

    fn refuse(&self, path: &Path, recording: Option<&[PathBuf]>) -> Option<String> {
        match recording {
            Some(files) if self.one_cpu => {
                Some(format!("is a whole recording; give one CPU's file, such as {}", files[0].display()))
            }
            None if !self.one_cpu => {
                let (name, others) = other_parts(path)?;
                Some(format!(
                    "is one CPU's file of a recording that has {} more; give {} to read all of them, or --format \
                     blktrace:cpus=one to read this one alone",
                    others.len(),
                    name.display()
                ))
            }
            _ => None,
        }
    }
}

/// Record `n` of a sample: a write, issued to the device.
fn sample(n: u64) -> Vec<u8> {
    let mut record = vec![0; MIN_HEADER];
    let mut put = |at: usize, field: &[u8]| record[at..at + field.len()].copy_from_slice(field);
    put(0, &(MAGIC | 7).to_le_bytes());
    put(4, &(n as u32).to_le_bytes());
    put(8, &(n * 700_000).to_le_bytes());
    put(16, &(scattered(n) * 8).to_le_bytes());
    put(24, &4096_u32.to_le_bytes());
    put(28, &((category::WRITE as u32) << 16 | 7).to_le_bytes());
    put(36, &(8_u32 << 20).to_le_bytes());
    record
}

/// The first number of a record without its lowest byte.
const MAGIC: u32 = 0x6561_7400;

/// Describes the layout of a record, as its header tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecordLayout {
    big_endian: bool,
    /// Version 8 instead of 7.
    wide: bool,
}

/// Bytes of the shortest header, and of the longest.
const MIN_HEADER: usize = 48;
const MAX_HEADER: usize = 64;

/// Is true if a file begins as records of any version.
fn begins(head: &[u8]) -> bool {
    matches!(head, [_, 0x74, 0x61, 0x65, ..] | [0x65, 0x61, 0x74, _, ..])
        && head.first_chunk().is_some_and(|first| RecordLayout::magic(*first).is_some_and(|(_, version)| version <= 8))
}

/// Bytes of a single record that is followed by less than another one, at most: the kernel's messages
/// have 128.
const MOST_ALONE: usize = 512;

/// Measures how much of the beginning of a file is records, one after the other. The last may go on after
/// `head` unless that is the whole file. Stray records before longer other content prove no format.
fn held(head: &[u8], whole: bool) -> MarkedBytes {
    let (mut bytes, mut records) = (0, 0);
    while let Some(first) = head[bytes..].first_chunk() {
        let rest = &head[bytes..];
        // The further data of a single record, which it says itself, may be all that is left of a text.
        let ends = rest.len() < MIN_HEADER && bytes <= MOST_ALONE;
        let proven = records > 1 && bytes >= rest.len() || ends;
        let Ok(layout) = RecordLayout::of(*first) else { return MarkedBytes { bytes, proven } };
        let length = if rest.len() < layout.header_bytes() { usize::MAX } else { layout.record_bytes(rest) };
        if length > rest.len() {
            return if whole { MarkedBytes { bytes, proven } } else { MarkedBytes::all(head) };
        }
        bytes += length;
        records += 1;
    }
    // Nor does one whose further data would be all of a text.
    if records == 1 && bytes > MOST_ALONE {
        return MarkedBytes { bytes: MIN_HEADER, proven: false };
    }
    MarkedBytes::all(head)
}

impl RecordLayout {
    /// Byte order (`true` for big-endian) and version, if the magic is there.
    fn magic(first: [u8; 4]) -> Option<(bool, u8)> {
        [(false, u32::from_le_bytes(first)), (true, u32::from_be_bytes(first))]
            .into_iter()
            .find(|(_, magic)| magic & 0xffff_ff00 == MAGIC)
            .map(|(big, magic)| (big, magic as u8))
    }

    fn of(first: [u8; 4]) -> ParsedLine<Self> {
        match Self::magic(first) {
            Some((big_endian, 7)) => Ok(Self { big_endian, wide: false }),
            Some((big_endian, 8)) => Ok(Self { big_endian, wide: true }),
            Some((_, version)) => Err(FieldFault::fatal(format!(
                "the record's version is {version}, expected 7 (kernels from 2.6.30 on) or 8 (from 6.19 on)"
            ))),
            None => Err(FieldFault::fatal(format!(
                "the record begins with {:02x} {:02x} {:02x} {:02x}, expected blktrace's magic number 0x65617407 or \
                 0x65617408; blkparse's text is --format blkparse",
                first[0], first[1], first[2], first[3]
            ))),
        }
    }

    const fn header_bytes(self) -> usize {
        if self.wide { MAX_HEADER } else { MIN_HEADER }
    }

    fn u16_at(self, record: &[u8], at: usize) -> u16 {
        let bytes = record[at..at + 2].try_into().expect("two bytes");
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    fn u32_at(self, record: &[u8], at: usize) -> u32 {
        let bytes = record[at..at + 4].try_into().expect("four bytes");
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn u64_at(self, record: &[u8], at: usize) -> u64 {
        let bytes = record[at..at + 8].try_into().expect("eight bytes");
        if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    }

    /// Bytes of the record and of what stands behind it, out of its header.
    fn record_bytes(self, header: &[u8]) -> usize {
        self.header_bytes() + usize::from(self.u16_at(header, if self.wide { 50 } else { 46 }))
    }

    fn time(self, header: &[u8]) -> u64 {
        self.u64_at(header, 8)
    }
}

/// Categories, in the action's bits from 16 on.
mod category {
    pub(super) const WRITE: u64 = 1 << 1;
    pub(super) const FLUSH: u64 = 1 << 2;
    pub(super) const PASSED_THROUGH: u64 = 1 << 9;
    pub(super) const NOTE: u64 = 1 << 10;
    pub(super) const DISCARD: u64 = 1 << 13;
    pub(super) const FUA: u64 = 1 << 15;
    /// Zone append, reset, reset all, finish, open and close.
    pub(super) const ZONES: u64 = 0b11_1111 << 16;
    pub(super) const WRITE_ZEROES: u64 = 1 << 22;
    /// Everything that version 8 defines.
    pub(super) const KNOWN: u64 = (1 << 23) - 1;
}

/// blkparse's letter for an action; `?` for one that it has none for.
fn letter(action: u64) -> u8 {
    // Bit 8 says that a control group stands behind the record.
    match action & 0xfeff {
        1 => b'Q',
        2 => b'M',
        3 => b'F',
        4 => b'G',
        5 => b'S',
        6 => b'R',
        7 => b'D',
        8 => b'C',
        9 => b'P',
        10 | 11 => b'U',
        12 => b'I',
        13 => b'X',
        14 => b'B',
        15 => b'A',
        17 => b'm',
        _ => b'?',
    }
}

/// An event that is one request or two.
#[derive(Clone, Copy, Debug)]
struct BlktraceEvent {
    /// As recorded, nanoseconds.
    time: u64,
    device: u32,
    asked: EventRequest,
    /// In bytes.
    range: Option<(u64, u64)>,
}

/// Makes events of records.
struct BlktraceParser {
    event: u8,
    seen: SeenActions,
}

impl BlktraceParser {
    const fn new(event: u8) -> Self {
        Self { event, seen: SeenActions::new() }
    }

    /// The event of a record with this header, if it is of the chosen kind.
    fn event(&mut self, layout: RecordLayout, header: &[u8]) -> ParsedLine<Option<BlktraceEvent>> {
        let action = if layout.wide { layout.u64_at(header, 32) } else { u64::from(layout.u32_at(header, 28)) };
        let categories = action >> 16;
        if categories & category::NOTE != 0 {
            return Ok(None);
        }
        let letter = letter(action);
        self.seen.count(letter);
        if letter != self.event || categories & category::PASSED_THROUGH != 0 {
            return Ok(None);
        }
        if categories & category::ZONES != 0 {
            return Err(FieldFault::new(format!("the action is {action:#x}, a zone command: these are not read")));
        }
        if categories & !category::KNOWN != 0 {
            return Err(FieldFault::new(format!("the action is {action:#x}, whose upper categories are not known")));
        }
        let bytes = u64::from(layout.u32_at(header, 24));
        let op = if categories & category::DISCARD != 0 {
            Some(Op::Discard)
        } else if categories & (category::WRITE | category::WRITE_ZEROES) != 0 {
            Some(Op::Write)
        } else {
            (bytes > 0).then_some(Op::Read)
        };
        let fua = categories & category::FUA != 0 && op == Some(Op::Write);
        let sector = layout.u64_at(header, 16);
        let range = if bytes == 0 {
            None
        } else {
            let offset = sector.checked_mul(SECTOR_BYTES).filter(|offset| offset.checked_add(bytes).is_some());
            let offset = offset
                .ok_or_else(|| FieldFault::new(format!("{bytes} bytes at sector {sector} reach beyond 2^64 bytes")))?;
            Some((offset, bytes))
        };
        let asked = EventRequest { flush_before: categories & category::FLUSH != 0, op, fua };
        let device = layout.u32_at(header, if layout.wide { 40 } else { 36 });
        Ok(Some(BlktraceEvent { time: layout.time(header), device, asked, range }))
    }
}
