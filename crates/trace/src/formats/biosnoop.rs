//! The output of bcc's `biosnoop`, as tool in Python and in C (`tools/biosnoop.py`, `libbpf-tools/biosnoop.c`), separated by
//! blanks:
//!
//! | column | unit |
//! |---|---|
//! | `TIME(s)` | seconds, of the completion |
//! | `COMM` | process; passed over, and may hold blanks |
//! | `PID` | passed over |
//! | `DISK` | the volume |
//! | `T` | `R` or `W` in Python; RWBS in C |
//! | `SECTOR` | sectors of 512 B |
//! | `BYTES` | bytes |
//! | `P` | `S`, `R` or `?`: sequential or random (`-P`); there or not, passed over |
//! | `QUE(ms)` | milliseconds in the queue (`-Q`); there or not, passed over |
//! | `LAT(ms)` | milliseconds from the issue to the completion |
//!
//! A request is dated when it was issued: `TIME(s)` less `LAT(ms)`, as exact as that is printed. The file's order is that of
//! completions. Python calls everything `R` that is no write; a request without bytes is a flush there, as the block
//! layer knows no other. `N` is a command passed through or the writing of zeroes, which the tool does not tell apart: such
//! rows are counted, and no requests.
//!
//! bpftrace's `biosnoop.bt` prints neither sectors nor bytes: it is refused.

use destage_plan::Op;

use super::block_events::{EventRequest, rwbs};
use crate::fields::{FieldFault, LineFields, ParsedLine, TimeUnit, decimal_time, last_field, whole_number};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TextFormat, TextTitle, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::sink::RequestSink;

/// Lies before the zero of the tool's clock, in nanoseconds: a request that completed at 0 was issued earlier.
const BEFORE_ZERO: u64 = 1 << 60;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Biosnoop;

impl TextFormat for Biosnoop {
    const INFO: FormatInfo = FormatInfo {
        name: "biosnoop",
        aliases: &[],
        what: "output of bcc's biosnoop, in Python or C",
        columns: "TIME(s) COMM PID DISK T SECTOR (512 B) BYTES [P] [QUE(ms)] LAT(ms)",
        options: &[],
        finding: FormatFinding::Certain,
        examples: &[],
        samples: &[FormatSample::lines("", b' ', |n| {
            format!(
                "{n}.{:06} fio 2211 sd{} {} {} 4096 0.{n:02}",
                n * 17,
                ["a", "b"][n as usize % 2],
                ["W", "R"][n as usize % 2],
                scattered(n) * 8
            )
        })],
    };

    const TITLE: Option<TextTitle> =
        Some(TextTitle { begins: |text| title(text).is_some(), called: "output of biosnoop" });

    type BlkparseLines = BiosnoopLines;

    fn lines(&self) -> BiosnoopLines {
        BiosnoopLines { passed_over: 0 }
    }
}

/// Returns the names of the columns, which stand in the first lines.
fn title(text: &[u8]) -> Option<&[u8]> {
    let mut lines = text.split(|b| *b == b'\n').take(3).map(<[u8]>::trim_ascii);
    lines.find(|line| line.starts_with(b"TIME(") && line.ends_with(b"LAT(ms)"))
}

pub(crate) struct BiosnoopLines {
    /// Counts the rows that are no requests.
    passed_over: u64,
}

impl LineFormat for BiosnoopLines {
    fn header(&mut self, line: &[u8]) -> ParsedLine<bool> {
        check_title(line)?;
        Ok(title(line).is_some())
    }

    fn passed_over(&self) -> u64 {
        self.passed_over
    }

    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        if line.trim_ascii_start().starts_with(b"TIME(") {
            check_title(line)?;
        }
        if line.starts_with(b"Attach") && memchr::memmem::find(line, b" probe").is_some() {
            return Ok(LineKind::Other);
        }
        let mut columns = BiosnoopColumns { left: line };
        // A process may hold blanks, so the columns behind it are read from the end.
        let latency = columns.last("LAT(ms)")?;
        let mut bytes = columns.last("BYTES")?;
        if bytes.contains(&b'.') {
            bytes = columns.last("BYTES")?;
        }
        if matches!(bytes, b"S" | b"R" | b"?") {
            bytes = columns.last("BYTES")?;
        }
        let (sector, kind) = (columns.last("SECTOR")?, columns.last("T")?);
        let (disk, pid) = (columns.last("DISK")?, columns.last("PID")?);
        whole_number("PID", pid)?;
        let mut start = LineFields::<b' '>::new(columns.left);
        let completed = start.time("TIME(s)", TimeUnit::Seconds)?;
        start.skip("COMM")?;
        if !latency.contains(&b'.') {
            return Err(FieldFault::field("LAT(ms)", latency, "milliseconds with decimals such as 0.74"));
        }
        let latency = decimal_time("LAT(ms)", latency, TimeUnit::Millis)?;
        let issued = completed.checked_add(BEFORE_ZERO).and_then(|time| time.checked_sub(latency));
        let issued = issued
            .ok_or_else(|| FieldFault::new("TIME(s) less LAT(ms) is not within 36 years of the zero of the clock"))?;
        let bytes = whole_number("BYTES", bytes)?;
        let mut asked = rwbs(kind).map_err(|_| FieldFault::field("T", kind, "R, W, or RWBS letters such as WS"))?;
        if asked.op.is_none() && !asked.flush_before {
            self.passed_over += 1;
            return Ok(LineKind::Data);
        }
        let range = if bytes == 0 {
            if asked.op == Some(Op::Discard) {
                return Err(FieldFault::field("BYTES", b"0", "the bytes of a discard"));
            }
            asked = EventRequest { flush_before: true, op: None, fua: false };
            None
        } else {
            Some((LineFields::<b' '>::new(sector).sectors("SECTOR")?, bytes))
        };
        let volume = sink.volumes.text(disk)?;
        asked.requests(range).try_for_each(|(op, fua, offset, len)| sink.push(issued, volume, op, fua, offset, len))?;
        Ok(LineKind::Data)
    }
}

/// Refuses the columns of a tool that tells neither addresses nor lengths.
fn check_title(line: &[u8]) -> ParsedLine<()> {
    match title(line) {
        Some(title) if title.starts_with(b"TIME(ms)") => Err(FieldFault::fatal(
            "bpftrace's biosnoop.bt tells neither sectors nor bytes; record with bcc's biosnoop, or with bpftrace's \
             tracepoint block:block_rq_issue into a table that --format columns describes",
        )),
        _ => Ok(()),
    }
}

/// Gives columns from the end of a line.
struct BiosnoopColumns<'a> {
    left: &'a [u8],
}

impl<'a> BiosnoopColumns<'a> {
    fn last(&mut self, name: &str) -> ParsedLine<&'a [u8]> {
        let (last, left) = last_field(self.left);
        self.left = left;
        if last.is_empty() { Err(FieldFault::new(format!("the line has no column {name}"))) } else { Ok(last) }
    }
}
