//! Recordings of the kernel's `block_rq_issue` tracepoint, comma-separated, without a header:
//!
//! | column | unit |
//! |---|---|
//! | time | microseconds |
//! | kind | `R` read, `W` write, `WF` write with FUA, `F` flush, `D` discard, or the letters of the kernel (RWBS) |
//! | address | sectors of 512 B |
//! | length | sectors of 512 B |
//!
//! The address and length of a flush mean nothing and may be empty. There is one volume.

use destage_plan::{Op, SECTOR_BYTES};

use super::block_events::{EventRequest, rwbs};
use crate::fields::{FieldFault, LineFields, ParsedLine, TimeUnit, whole_number};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TableUnits, TextFormat, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::sink::RequestSink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RqCsv;

impl TextFormat for RqCsv {
    const INFO: FormatInfo = FormatInfo {
        name: "rq-csv",
        aliases: &[],
        what: "recordings of the kernel's block_rq_issue tracepoint, CSV",
        columns: "time (us),R|W|WF|F|D,address (512 B),length (512 B)",
        options: &[],
        finding: FormatFinding::Certain,
        examples: &[],
        samples: &[FormatSample::lines("", b',', |n| {
            format!("{},{},{},8", n * 700, ["R", "W", "WF", "D"][n as usize % 4], scattered(n) * 8)
        })],
    };

    const TABLE: Option<TableUnits> = Some(TableUnits {
        time: TimeUnit::Micros,
        offset: SECTOR_BYTES,
        length: SECTOR_BYTES,
        columns: "ts=TIME,op,off=OFFSET,len=LENGTH",
        counts_from_boot: true,
    });

    type BlkparseLines = Self;

    fn lines(&self) -> Self {
        *self
    }
}

impl LineFormat for RqCsv {
    #[inline]
    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let mut fields = LineFields::<b','>::new(line);
        let time = fields.time("the time", TimeUnit::Micros)?;
        let asked = match fields.text("the kind")? {
            b"R" => asked(Op::Read, false),
            b"W" => asked(Op::Write, false),
            b"WF" => asked(Op::Write, true),
            b"D" => asked(Op::Discard, false),
            // A flush alone has no range: kernels give it the sector -1, and some writers none.
            text => match rwbs(text) {
                Ok(asked) if asked.op.is_none() => {
                    fields.skip("the address")?;
                    fields.skip("the length")?;
                    fields.end()?;
                    asked
                        .requests(None)
                        .try_for_each(|(op, fua, offset, len)| sink.push(time, 0, op, fua, offset, len))?;
                    return Ok(LineKind::Data);
                }
                Ok(asked) => asked,
                Err(_) => {
                    return Err(FieldFault::field("the kind", text, "R, W, WF, F or D, or RWBS letters such as WS"));
                }
            },
        };
        let address = fields.text("the address")?;
        let len = fields.sectors("the length")?;
        fields.end()?;
        let range = if len == 0 && asked.flush_before {
            whole_number("the address", address)?;
            None
        } else {
            Some((LineFields::<b','>::new(address).sectors("the address")?, len))
        };
        asked.requests(range).try_for_each(|(op, fua, offset, len)| sink.push(time, 0, op, fua, offset, len))?;
        Ok(LineKind::Data)
    }
}

/// Reads a request of one kind.
const fn asked(op: Op, fua: bool) -> EventRequest {
    EventRequest { flush_before: false, op: Some(op), fua }
}
