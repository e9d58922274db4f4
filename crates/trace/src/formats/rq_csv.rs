//! Recordings of the kernel's `block_rq_issue` tracepoint, comma-separated, without a header:
//!
//! | column | unit |
//! |---|---|
//! | time | microseconds |
//! | kind | `R` read, `W` write, `WF` write with FUA, `F` flush, `D` discard |
//! | address | sectors of 512 B |
//! | length | sectors of 512 B |
//!
//! A flush's address and length mean nothing. There is one volume.

use destage_plan::{Op, SECTOR_BYTES};

use crate::fields::{Fault, Fields, Parsed, TimeUnit};
use crate::format::{Finding, FormatInfo, Sample, TableUnits, TextFormat, scattered};
use crate::lines::{Line, LineFormat};
use crate::sink::Sink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RqCsv;

impl TextFormat for RqCsv {
    const INFO: FormatInfo = FormatInfo {
        name: "rq-csv",
        aliases: &[],
        what: "recordings of the kernel's block_rq_issue tracepoint, CSV",
        columns: "time (us),R|W|WF|F|D,address (512 B),length (512 B)",
        options: &[],
        finding: Finding::Certain,
        examples: &[],
        samples: &[Sample::lines("", b',', |n| {
            format!("{},{},{},8", n * 700, ["R", "W", "WF", "D"][n as usize % 4], scattered(n) * 8)
        })],
    };

    const TABLE: Option<TableUnits> = Some(TableUnits {
        time: TimeUnit::Micros,
        offset: SECTOR_BYTES,
        length: SECTOR_BYTES,
        columns: "ts=TIME,op,off=OFFSET,len=LENGTH",
    });

    type Lines = Self;

    fn lines(&self) -> Self {
        *self
    }
}

impl LineFormat for RqCsv {
    #[inline]
    fn parse_line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Parsed<Line> {
        let mut fields = Fields::<b','>::new(line);
        let time = fields.time("the time", TimeUnit::Micros)?;
        let (op, fua) = match fields.text("the kind")? {
            b"R" => (Op::Read, false),
            b"W" => (Op::Write, false),
            b"WF" => (Op::Write, true),
            b"F" => (Op::Flush, false),
            b"D" => (Op::Discard, false),
            text => return Err(Fault::field("the kind", text, "R, W, WF, F or D")),
        };
        let offset = fields.sectors("the address")?;
        let len = fields.sectors("the length")?;
        fields.end()?;
        let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, len) };
        sink.push(time, 0, op, fua, offset, len)?;
        Ok(Line::Data)
    }
}
