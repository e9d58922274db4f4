//! Microsoft's server traces (Exchange, MSN, Live Maps, ... in the SNIA repository): text that `xperf` made of events of
//! Windows (ETW), comma-separated and padded with blanks, behind a header between `BeginHeader` and `EndHeader`:
//!
//! | column | unit |
//! |---|---|
//! | event | `DiskRead`, `DiskWrite`; others have other columns, see below |
//! | `TimeStamp` | microseconds |
//! | `Process Name ( PID)`, `ThreadID`, `IrpPtr` | passed over |
//! | `ByteOffset` | bytes from the start of the disk, hexadecimal (`0x...`) or decimal |
//! | `IOSize` | bytes, likewise |
//! | `ElapsedTime` | passed over |
//! | `DiskNum` | the volume, a number |
//!
//! All further columns are passed over. `DiskFlush` has neither offset nor size and is a flush. Every other event, those of the
//! beginnings of disk requests (`DiskReadInit`) among them, is ignored: it has to be a word and a time, whatever follows.

use destage_plan::Op;

use super::row_values::scaled;
use crate::fields::{FieldFault, LineFields, ParsedLine, TimeUnit};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TextFormat, TextTitle, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::sink::RequestSink;

/// Begins and ends the header.
const HEADER: [&[u8]; 2] = [b"BeginHeader", b"EndHeader"];
/// Lists the columns between the event and the disk that are not read, of a read or write.
const BEFORE_OFFSET: [&str; 3] = ["the process", "the thread", "IrpPtr"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Etw;

impl TextFormat for Etw {
    const INFO: FormatInfo = FormatInfo {
        name: "etw",
        aliases: &["exchange", "xperf"],
        what: "Microsoft's server traces (Exchange, MSN, ...): text of Windows events by xperf",
        columns: "DiskRead|DiskWrite,time (us),process,thread,irp,offset (B, 0x),size (B, 0x),elapsed,disk[,...]",
        options: &[],
        finding: FormatFinding::Certain,
        examples: &[],
        samples: &[FormatSample::lines("", b',', |n| {
            let event = ["DiskWrite", " DiskRead", " DiskRead"][n as usize % 3];
            format!(
                "              {event},{},store.exe (2924),5120,0xfffffa801,{:#x},0x00002000,{},{},0x60043",
                1000 + n * 1443,
                scattered(n) * 8192,
                3 + n % 7,
                n % 3
            )
        })],
    };

    const TITLE: Option<TextTitle> = Some(TextTitle {
        begins: |text| text.trim_ascii_start().starts_with(HEADER[0]),
        called: "text of Windows events",
    });

    type BlkparseLines = EtwLines;

    fn lines(&self) -> EtwLines {
        EtwLines::default()
    }
}

#[derive(Default)]
pub(crate) struct EtwLines {
    /// Tells that there is a header.
    has_header: bool,
    /// Tells that it has begun and not ended.
    in_header: bool,
}

impl LineFormat for EtwLines {
    fn header(&mut self, line: &[u8]) -> ParsedLine<bool> {
        self.has_header = line.trim_ascii() == HEADER[0];
        self.in_header = self.has_header;
        Ok(self.has_header)
    }

    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        if self.in_header {
            self.in_header = line.trim_ascii() != HEADER[1];
            return Ok(LineKind::Other);
        }
        let mut fields = LineFields::<b','>::new(line);
        let event = fields.text("the event")?;
        let op = match event {
            b"DiskRead" => Op::Read,
            b"DiskWrite" => Op::Write,
            b"DiskFlush" => Op::Flush,
            // A summary in front of the events, `OS Version: 6.0.6001, Trace Size: ...`.
            [b'O', b'S', b' ', ..] => return Ok(LineKind::Other),
            // Before the first request there may be more events than are looked at to find the format. Without the header
            // they say little: many a table has a word and a number.
            [b'A'..=b'Z', rest @ ..]
                if rest.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'/' | b' ')) =>
            {
                fields.time("TimeStamp", TimeUnit::Micros)?;
                return Ok(if self.has_header { LineKind::Data } else { LineKind::Other });
            }
            text => {
                return Err(FieldFault::field("the event", text, "DiskRead, DiskWrite or the word of another event"));
            }
        };
        let time = fields.time("TimeStamp", TimeUnit::Micros)?;
        BEFORE_OFFSET.iter().try_for_each(|name| fields.skip(name))?;
        let (offset, len) = if op == Op::Flush {
            (0, 0)
        } else {
            let offset = scaled("ByteOffset", fields.text("ByteOffset")?, 1)?;
            (offset, scaled("IOSize", fields.text("IOSize")?, 1)?)
        };
        fields.skip("ElapsedTime")?;
        let disk = fields.number("DiskNum")?;
        let volume = sink.volumes.number(disk)?;
        sink.push(time, volume, op, false, offset, len)?;
        Ok(LineKind::Data)
    }
}
