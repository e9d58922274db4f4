//! Pieces of MSR Cambridge, Alibaba and other traces prepared for replay tools, separated by
//! blanks:
//!
//! | column | unit |
//! |---|---|
//! | time | milliseconds, decimal |
//! | device | the volume, a number |
//! | offset | bytes |
//! | length | bytes |
//! | operation | `1` read, `0` write |
//!
//! Column for column like `DiskSim`'s traces, but in bytes: nothing in such a file tells which of
//! the two it is.

use destage_plan::Op;

use super::disksim::Disksim;
use crate::fields::{BLANKS, FieldFault, LineFields, ParsedLine, TimeUnit};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TableUnits, TextFormat, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::sink::RequestSink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MsrCut;

impl TextFormat for MsrCut {
    const INFO: FormatInfo = FormatInfo {
        name: "msr-cut",
        aliases: &["ms-bytes"],
        what: "pieces of MSR Cambridge and Alibaba traces prepared for replay",
        columns: "time (ms) device offset (B) length (B) 1 read|0 write",
        options: &[],
        finding: FormatFinding::Ambiguous,
        examples: &[],
        samples: &[
            FormatSample::lines("", b' ', |n| format!("{}.5 {} {} 4096 {}", n * 24, n % 2, scattered(n) * 4096, n % 2))
                .not_found(),
            FormatSample::lines("whole times", b' ', |n| {
                format!("{} 0 {} {} {}", n * 24, scattered(n) * 512, 512 * (1 + n % 200), n % 2)
            })
            .not_found(),
        ],
    };

    const COUSIN_OF: Option<&'static str> = Some(Disksim::INFO.name);

    const TABLE: Option<TableUnits> = Some(TableUnits {
        time: TimeUnit::Millis,
        offset: 1,
        length: 1,
        columns: "ts=TIME,dev,off=OFFSET,len=LENGTH,op(1=R)",
        counts_from_boot: false,
    });

    type BlkparseLines = Self;

    fn lines(&self) -> Self {
        *self
    }
}

impl LineFormat for MsrCut {
    #[inline]
    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let mut fields = LineFields::<BLANKS>::new(line);
        let time = fields.time("the time", TimeUnit::Millis)?;
        let device = fields.number("the device")?;
        let offset = fields.number("the offset")?;
        let len = fields.number("the length")?;
        let op = match fields.text("the operation")? {
            b"0" => Op::Write,
            b"1" => Op::Read,
            text => return Err(FieldFault::field("the operation", text, "1 (read) or 0 (write)")),
        };
        fields.end()?;
        let volume = sink.volumes.number(device)?;
        sink.push(time, volume, op, false, offset, len)?;
        Ok(LineKind::Data)
    }
}
