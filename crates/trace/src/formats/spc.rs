//! SPC traces (Storage Performance Council trace file format 1.0.1, as the `UMass` repository
//! publishes it), comma-separated, without a header:
//!
//! | column | unit |
//! |---|---|
//! | ASU | the application's storage unit: the volume, a number |
//! | LBA | sectors of 512 B from the start of the ASU |
//! | size | bytes |
//! | opcode | `r`, `R`, `w` or `W` |
//! | time stamp | seconds, decimal |
//!
//! Optional further fields are passed over.

use destage_plan::{Op, SECTOR_BYTES};

use crate::fields::{FieldFault, LineFields, ParsedLine, TimeUnit};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TableUnits, TextFormat, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::sink::RequestSink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spc;

impl TextFormat for Spc {
    const INFO: FormatInfo = FormatInfo {
        name: "spc",
        aliases: &["umass"],
        what: "Storage Performance Council, as in the UMass repository (Financial, WebSearch)",
        columns: "ASU,LBA (512 B),size (B),r|w,time (s)[,...]",
        options: &[],
        finding: FormatFinding::Certain,
        examples: &[],
        samples: &[FormatSample::lines("", b',', |n| {
            let op = ["W", "r", "r"][n as usize % 3];
            format!("{},{},1536,{op},{}.{:06}", n % 3, scattered(n), n / 9, n * 20_011)
        })],
    };

    const TABLE: Option<TableUnits> = Some(TableUnits {
        time: TimeUnit::Seconds,
        offset: SECTOR_BYTES,
        length: 1,
        columns: "dev,off=OFFSET,len=LENGTH,op,ts=TIME",
        counts_from_boot: false,
    });

    type BlkparseLines = Self;

    fn lines(&self) -> Self {
        *self
    }
}

impl LineFormat for Spc {
    #[inline]
    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let mut fields = LineFields::<b','>::new(line);
        let asu = fields.number("the ASU")?;
        let offset = fields.sectors("the LBA")?;
        let len = fields.number("the size")?;
        let op = match fields.text("the opcode")? {
            b"r" | b"R" => Op::Read,
            b"w" | b"W" => Op::Write,
            text => return Err(FieldFault::field("the opcode", text, "r or w")),
        };
        let time = fields.time("the time stamp", TimeUnit::Seconds)?;
        let volume = sink.volumes.number(asu)?;
        sink.push(time, volume, op, false, offset, len)?;
        Ok(LineKind::Data)
    }
}
