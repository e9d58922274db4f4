//! Event files of the `WiscSee` SSD simulator, made from blktrace, separated by blanks:
//!
//! | column | unit |
//! |---|---|
//! | process | a number; passed over |
//! | action | `D` issued to the device, `C` completed |
//! | operation | `read`, `write`, `discard` or `flush` |
//! | offset | bytes |
//! | size | bytes |
//! | time | seconds, decimal |
//! | wait, sync | passed over |
//!
//! Only issues (`D`) are requests. There is one volume.

use destage_plan::Op;

use crate::fields::{BLANKS, FieldFault, LineFields, ParsedLine, TimeUnit};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TextFormat, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::sink::RequestSink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wiscsee;

impl TextFormat for Wiscsee {
    const INFO: FormatInfo = FormatInfo {
        name: "wiscsee",
        aliases: &[],
        what: "WiscSee event files; only issues (D) are requests",
        columns: "process D|C read|write|discard|flush offset (B) size (B) time (s) wait sync",
        options: &[],
        finding: FormatFinding::Certain,
        examples: &[],
        samples: &[FormatSample::lines("", b' ', |n| {
            let action = if n % 4 == 3 { "C" } else { "D" };
            let op = ["read", "write"][n as usize % 2];
            format!("100 {action} {op} {} 4096 {}.25 0.1 True", scattered(n) * 4096, n / 4)
        })],
    };

    type BlkparseLines = WiscseeLines;

    fn lines(&self) -> WiscseeLines {
        WiscseeLines::default()
    }
}

#[derive(Default)]
pub(crate) struct WiscseeLines {
    completions: u64,
}

impl LineFormat for WiscseeLines {
    #[inline]
    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let mut fields = LineFields::<BLANKS>::new(line);
        fields.number("the process")?;
        let issue = match fields.text("the action")? {
            b"D" => true,
            b"C" => false,
            text => return Err(FieldFault::field("the action", text, "D or C")),
        };
        let op = match fields.text("the operation")? {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"discard" => Op::Discard,
            b"flush" => Op::Flush,
            text => return Err(FieldFault::field("the operation", text, "read, write, discard or flush")),
        };
        let offset = fields.number("the offset")?;
        let len = fields.number("the size")?;
        let time = fields.time("the time", TimeUnit::Seconds)?;
        fields.skip("the wait")?;
        fields.skip("the sync flag")?;
        fields.end()?;
        if issue {
            let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, len) };
            sink.push(time, 0, op, false, offset, len)?;
        } else {
            self.completions += 1;
        }
        Ok(LineKind::Data)
    }

    fn why_none(&self) -> Option<String> {
        (self.completions > 0)
            .then(|| format!("holds no issue (D), only {} completions (C); only issues are requests", self.completions))
    }
}
