//! `CloudPhysics` traces of virtual SCSI disks: little-endian records of 32 (version 1) or 40 bytes
//! (version 2).
//!
//! | version 1 | version 2 | bytes | field |
//! |---|---|---|---|
//! | 0 | 4 | 4 | serial number; passed over |
//! | 4 | 8 | 4 | length in bytes |
//! | 8 | 12 | 4 | scatter-gather segments; passed over |
//! | 12 | 0 | 2 | SCSI operation code |
//! | 14 | 2 | 2 | version, in its high byte |
//! | 16 | 16 | 8 | address, sectors of 512 B |
//! | 24 | 24 | 8 | time, microseconds |
//! | | 32 | 8 | response time; passed over |
//!
//! Reads and writes of 6, 10, 12 and 16 bytes and cache synchronisations are requests. Commands
//! that neither read nor change the medium (inquiries, mode pages, reservations, ...) are passed
//! over. Commands that change it in a way that the record does not tell (unmap, write same, ...)
//! are errors. There is one volume.

use destage_plan::{Op, SECTOR_BYTES};

use crate::error::{FilePlace, TraceError};
use crate::fields::{FieldFault, ParsedLine};
use crate::format::{
    FormatFinding, FormatFit, FormatInfo, FormatSample, FormatSign, HEAD, TraceFormat, TraceOpening, scattered,
};
use crate::records::{RecordFormat, RecordSource};
use crate::sink::RequestSink;
use crate::source::TraceSource;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vscsi;

impl TraceFormat for Vscsi {
    const INFO: FormatInfo = FormatInfo {
        name: "vscsi",
        aliases: &["cloudphysics"],
        what: "CloudPhysics virtual SCSI records, versions 1 and 2, binary",
        columns: "serial, length (B), segments, SCSI code, version, address (512 B), time (us)",
        options: &[],
        finding: FormatFinding::Certain,
        examples: &[],
        samples: &[
            FormatSample::records("version 1", &[4, 4, 4, 2, 2, 8, 8], |n| {
                (0..n).map(|n| VscsiLayout::V1.sample(n)).collect()
            }),
            FormatSample::records("version 2", &[2, 2, 4, 4, 4, 8, 8, 8], |n| {
                (0..n).map(|n| VscsiLayout::V2.sample(n)).collect()
            }),
        ],
    };

    const SIGN: FormatSign = FormatSign::Records(|head| Some(VscsiLayout::fitting(head)?.1));

    fn plain() -> Option<Self> {
        Some(Self)
    }

    fn open(&self, opening: TraceOpening<'_>) -> Result<Box<dyn TraceSource>, TraceError> {
        let TraceOpening { mut input, lenient, .. } = opening;
        match VscsiLayout::fitting(input.look_ahead(HEAD)?) {
            Some((layout, _)) => Ok(Box::new(RecordSource::new(layout, input, lenient))),
            None => Err(TraceError::new(
                input.file(),
                FilePlace::File,
                "the first record has no vscsi version, expected 1 (32-byte records) or 2 (40)",
            )),
        }
    }
}

/// The two layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VscsiLayout {
    V1,
    V2,
}

/// A command, by its operation code.
enum ScsiCommand {
    Request(Op),
    /// Neither reads nor changes the medium.
    Harmless,
    /// Changes the medium in a way that the record does not tell.
    Untold(&'static str),
}

fn command(code: u16) -> ScsiCommand {
    match code {
        0x08 | 0x28 | 0xa8 | 0x88 => ScsiCommand::Request(Op::Read),
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => ScsiCommand::Request(Op::Write),
        0x35 | 0x91 => ScsiCommand::Request(Op::Flush),
        0x04 => ScsiCommand::Untold("format unit"),
        0x41 | 0x93 => ScsiCommand::Untold("write same"),
        0x42 => ScsiCommand::Untold("unmap"),
        0x83 | 0x84 => ScsiCommand::Untold("extended copy"),
        0x89 => ScsiCommand::Untold("compare and write"),
        0x7f => ScsiCommand::Untold("a command of variable length"),
        0x48 => ScsiCommand::Untold("sanitize"),
        _ => ScsiCommand::Harmless,
    }
}

fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
}

impl VscsiLayout {
    const fn bytes(self) -> usize {
        match self {
            Self::V1 => 32,
            Self::V2 => 40,
        }
    }

    /// The version byte and the operation code of a record.
    fn version_and_code(self, record: &[u8]) -> (u16, u16) {
        let at = if self == Self::V1 { 12 } else { 0 };
        (u16_at(record, at + 2) >> 8, u16_at(record, at))
    }

    /// The number that the version must be.
    const fn number(self) -> u16 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// The operation code of a record, if it is one byte and the version is the layout's.
    #[inline]
    fn code(self, record: &[u8]) -> ParsedLine<u16> {
        let (version, code) = self.version_and_code(record);
        let expected = self.number();
        if version != expected {
            return Err(FieldFault::new(format!("the record's version is {version}, expected {expected} as before")));
        }
        if code > 0xff {
            return Err(FieldFault::new(format!("the SCSI operation code is {code:#06x}, expected one byte")));
        }
        Ok(code)
    }

    /// Record `n` of a sample.
    fn sample(self, n: u64) -> Vec<u8> {
        let mut record = vec![0; self.bytes()];
        let (command, serial) = if self == Self::V1 { (12, 0) } else { (0, 4) };
        record[command] = [0x28, 0x2a][n as usize % 2];
        record[command + 3] = self.number() as u8;
        record[serial] = n as u8;
        record[serial + 4..serial + 8].copy_from_slice(&4096_u32.to_le_bytes());
        record[16..24].copy_from_slice(&scattered(n).to_le_bytes());
        record[24..32].copy_from_slice(&(5_000_000_000 + n * 900).to_le_bytes());
        record
    }

    /// The layout that more of the whole records of `head` have; `None` if none has either.
    fn fitting(head: &[u8]) -> Option<(Self, FormatFit)> {
        let fit = |layout: Self| {
            let records = head.chunks_exact(layout.bytes());
            let all = records.len();
            let fits = |record: &[u8]| {
                let (version, code) = layout.version_and_code(record);
                version == layout.number() && code <= 0xff
            };
            let good = records.clone().filter(|record| fits(record)).count();
            let fault = records.enumerate().find_map(|(number, record)| {
                let fault = if fits(record) { None } else { layout.code(record).err() };
                fault.map(|fault| (number * layout.bytes(), fault.into_reason()))
            });
            (layout, FormatFit { good, bad: all - good, fault })
        };
        let fits = [fit(Self::V1), fit(Self::V2)];
        fits.into_iter().filter(|(_, fit)| fit.good > 0).max_by_key(|(layout, fit)| fit.good * layout.bytes())
    }
}

impl RecordFormat for VscsiLayout {
    const PREFIX: usize = 32;

    #[inline]
    fn length(&self, _prefix: &[u8]) -> ParsedLine<usize> {
        Ok(self.bytes())
    }

    #[inline]
    fn parse_record(&mut self, record: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<()> {
        let code = self.code(record)?;
        let op = match command(code) {
            ScsiCommand::Request(op) => op,
            ScsiCommand::Harmless => return Ok(()),
            ScsiCommand::Untold(name) => {
                return Err(FieldFault::new(format!(
                    "the SCSI command {code:#04x} ({name}) changes the medium in a way that the trace does not tell"
                )));
            }
        };
        let len = u64::from(u32_at(record, if *self == Self::V1 { 4 } else { 8 }));
        let sector = u64_at(record, 16);
        let micros = u64_at(record, 24);
        let time = micros.checked_mul(1000).ok_or_else(|| {
            FieldFault::new(format!("the time is {micros} µs, expected less than 2^64 ns (584 years)"))
        })?;
        let (offset, len) = if op == Op::Flush {
            (0, 0)
        } else {
            let offset = sector
                .checked_mul(SECTOR_BYTES)
                .ok_or_else(|| FieldFault::new(format!("the address is sector {sector}, more than 2^64 bytes")))?;
            (offset, len)
        };
        sink.push(time, 0, op, false, offset, len)
    }
}
