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

use crate::fields::{Fault, Fields, Parsed, TimeUnit};
use crate::format::{Finding, FormatInfo, Sample, TableUnits, TextFormat, scattered};
use crate::lines::{Line, LineFormat};
use crate::sink::Sink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alibaba;

impl TextFormat for Alibaba {
    const INFO: FormatInfo = FormatInfo {
        name: "alibaba",
        aliases: &[],
        what: "Alibaba Cloud block traces of 2020, CSV",
        columns: "device,R|W,offset (B),length (B),time (us)",
        options: &[],
        finding: Finding::Certain,
        examples: &[],
        samples: &[Sample::lines("", b',', |n| {
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

    type Lines = Self;

    fn lines(&self) -> Self {
        *self
    }
}

impl LineFormat for Alibaba {
    #[inline]
    fn parse_line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Parsed<Line> {
        let mut fields = Fields::<b','>::new(line);
        let device = fields.number("the device")?;
        let op = match fields.text("the opcode")? {
            b"R" => Op::Read,
            b"W" => Op::Write,
            text => return Err(Fault::field("the opcode", text, "R or W")),
        };
        let offset = fields.number("the offset")?;
        let len = fields.number("the length")?;
        let time = fields.time("the time stamp", TimeUnit::Micros)?;
        fields.end()?;
        let volume = sink.volumes.number(device)?;
        sink.push(time, volume, op, false, offset, len)?;
        Ok(Line::Data)
    }
}
