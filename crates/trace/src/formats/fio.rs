//! fio's I/O logs, versions 2 and 3 (`iolog.c` and "Trace file format" in fio's HOWTO), separated
//! by blanks. The first line is `fio version 2 iolog` or `fio version 3 iolog`. Version 3 puts a
//! time in microseconds before each of these lines (`log_io_u` writes `utime_since_now`; the HOWTO
//! names no unit):
//!
//! | line | meaning |
//! |---|---|
//! | `file add`, `file open`, `file close` | passed over |
//! | `file read offset length` | a read; bytes |
//! | `file write offset length` | a write; bytes |
//! | `file trim offset length` | a discard; bytes |
//! | `file sync offset length`, also `datasync` and `syncfs` | a flush; the numbers mean nothing |
//! | `file sync_file_range offset length` | passed over: it makes nothing durable |
//! | `file wait offset length` | version 2 only: the passing of time, see below |
//!
//! The file is the volume. Version 2 has no times but those of `wait`, on whose meaning fio
//! disagrees with itself: the HOWTO says *offset* microseconds after the previous wait (`wait=us`);
//! the code (`read_iolog_get`) sleeps until *offset* milliseconds after the start of the run
//! (`wait=ms`). A log with waits is refused until one is chosen.

use destage_plan::Op;

use crate::fields::{BLANKS, FieldFault, LineFields, ParsedLine, TimeUnit, shown};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TextFormat, TextTitle, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::options::{FormatError, FormatOptions};
use crate::sink::RequestSink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fio {
    wait: Option<FioWait>,
}

impl TextFormat for Fio {
    const INFO: FormatInfo = FormatInfo {
        name: "fio",
        aliases: &["fio-iolog"],
        what: "fio I/O logs, versions 2 and 3; the file is the volume",
        columns: "[time (us)] file action [offset (B) length (B)]",
        options: &["wait=us|ms: what a version 2 wait means; required if the log has any"],
        finding: FormatFinding::Certain,
        examples: &["fio:wait=us", "fio:wait=ms"],
        samples: &[FormatSample::titled("fio version 3 iolog", b' ', |n| match n {
            0 => "0 /dev/sda add".to_owned(),
            _ => format!("{n} /dev/sda write {} 4096", scattered(n) * 4096),
        })],
    };

    const TITLE: Option<TextTitle> = Some(TextTitle { begins: |text| version(text).is_some(), called: "a log of fio" });

    type BlkparseLines = FioLines;

    fn take(options: &mut FormatOptions<'_>) -> Result<Self, FormatError> {
        let waits = [("us", Some(FioWait::RelativeMicros)), ("ms", Some(FioWait::AbsoluteMillis))];
        Ok(Self { wait: options.choose("wait", None, &waits)? })
    }

    fn options(&self) -> Vec<String> {
        let word = self.wait.map(|wait| match wait {
            FioWait::RelativeMicros => "wait=us",
            FioWait::AbsoluteMillis => "wait=ms",
        });
        word.into_iter().map(str::to_owned).collect()
    }

    fn lines(&self) -> FioLines {
        FioLines { wait: self.wait, version: 0, clock: 0 }
    }

    /// Assumes a meaning of `wait`, which does not matter in a trial: without one the lines after it are not
    /// read.
    fn trial(&self) -> FioLines {
        Self { wait: self.wait.or(Some(FioWait::AbsoluteMillis)) }.lines()
    }
}

/// Selects the meaning of a version 2 `wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FioWait {
    /// Microseconds after the previous wait: fio's HOWTO.
    RelativeMicros,
    /// Until milliseconds after the start: fio's code.
    AbsoluteMillis,
}

/// The version that the first line tells. Like fio itself, this does not look at the rest of the
/// line.
fn version(line: &[u8]) -> Option<u8> {
    let rest = line.strip_prefix(b"fio version ")?;
    match rest {
        [b'2', b' ', b'i', b'o', b'l', b'o', b'g', ..] => Some(2),
        [b'3', b' ', b'i', b'o', b'l', b'o', b'g', ..] => Some(3),
        _ => None,
    }
}

pub(crate) struct FioLines {
    wait: Option<FioWait>,
    version: u8,
    /// Version 2: nanoseconds that waits have passed.
    clock: u64,
}

impl FioLines {
    fn pass_time(&mut self, offset: u64) -> ParsedLine<()> {
        let too_long = || FieldFault::new(format!("the wait of {offset} leads beyond 2^64 nanoseconds (584 years)"));
        self.clock = match self.wait {
            Some(FioWait::RelativeMicros) => {
                offset.checked_mul(1000).and_then(|ns| self.clock.checked_add(ns)).ok_or_else(too_long)?
            }
            Some(FioWait::AbsoluteMillis) => self.clock.max(offset.checked_mul(1_000_000).ok_or_else(too_long)?),
            None => {
                return Err(FieldFault::fatal(
                    "fio's documentation and code disagree on what a wait means; choose --format fio:wait=us \
                     (microseconds after the previous wait, as documented) or --format fio:wait=ms (until that many \
                     milliseconds after the start, as fio's replay does)",
                ));
            }
        };
        Ok(())
    }
}

impl LineFormat for FioLines {
    fn header(&mut self, line: &[u8]) -> ParsedLine<bool> {
        self.version = version(line).ok_or_else(|| {
            FieldFault::fatal(format!(
                "the first line is {}, expected \"fio version 2 iolog\" or \"fio version 3 iolog\"",
                shown(line)
            ))
        })?;
        Ok(true)
    }

    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let mut fields = LineFields::<BLANKS>::new(line);
        let time = if self.version == 3 { fields.time("the time", TimeUnit::Micros)? } else { self.clock };
        let file = fields.text("the file")?;
        let action = fields.text("the action")?;
        if matches!(action, b"add" | b"open" | b"close") {
            fields.end()?;
            return Ok(LineKind::Data);
        }
        let op = match action {
            b"read" => Some(Op::Read),
            b"write" => Some(Op::Write),
            b"trim" => Some(Op::Discard),
            b"sync" | b"datasync" | b"syncfs" => Some(Op::Flush),
            b"sync_file_range" => None,
            b"wait" if self.version == 2 => None,
            b"wait" => return Err(FieldFault::new("version 3 has no wait, as its lines have times")),
            _ => {
                return Err(FieldFault::field(
                    "the action",
                    action,
                    "add, open, close, read, write, trim, sync, datasync, syncfs, sync_file_range or wait",
                ));
            }
        };
        let offset = fields.number("the offset")?;
        let len = fields.number("the length")?;
        fields.end()?;
        match op {
            None if action == b"wait" => self.pass_time(offset)?,
            None => {}
            Some(op) => {
                let volume = sink.volumes.text(file)?;
                let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, len) };
                sink.push(time, volume, op, false, offset, len)?;
            }
        }
        Ok(LineKind::Data)
    }
}
