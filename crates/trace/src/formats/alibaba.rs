//! Alibaba Cloud block traces (2020), comma-separated, without a header:
//!
//! | column | unit |
//! |---|---|
//! | device | the volume, a number |
//! | opcode | `R` or `W` |
//! | offset | bytes |
//! | length | bytes |
//! | time stamp | microseconds since 1970 |

use destage_plan::Op;

use crate::fields::{FieldFault, LineFields, ParsedLine, TimeUnit};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TableUnits, TextFormat, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::sink::RequestSink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alibaba;

impl TextFormat for Alibaba {
    const INFO: FormatInfo = FormatInfo {
        name: "alibaba",
        aliases: &[],
        what: "Alibaba Cloud block traces of 2020, CSV",
        columns: "device,R|W,offset (B),length (B),time (us)",
        options: &[],
        finding: FormatFinding::Certain,
        examples: &[],
        samples: &[FormatSample::lines("", b',', |n| {
            let op = ["W", "R", "R"][n as usize % 3];
            format!("{},{op},{},16384,{}", n % 5, scattered(n) * 4096, 1_580_000_000_000_000 + n * 350)
        })],
    };

    const TABLE: Option<TableUnits> = Some(TableUnits {
        time: TimeUnit::Micros,
        offset: 1,
        length: 1,
        columns: "dev,op,off=OFFSET,len=LENGTH,ts=TIME",
        counts_from_boot: false,
    });

    type BlkparseLines = Self;

    fn lines(&self) -> Self {
        *self
    }
}

impl LineFormat for Alibaba {
    #[inline]
    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let mut fields = LineFields::<b','>::new(line);
        let device = fields.number("the device")?;
        let op = match fields.text("the opcode")? {
            b"R" => Op::Read,
            b"W" => Op::Write,
            text => return Err(FieldFault::field("the opcode", text, "R or W")),
        };
        let offset = fields.number("the offset")?;
        let len = fields.number("the length")?;
        let time = fields.time("the time stamp", TimeUnit::Micros)?;
        fields.end()?;
        let volume = sink.volumes.number(device)?;
        sink.push(time, volume, op, false, offset, len)?;
        Ok(LineKind::Data)
    }
}
