//! SYSTOR '17 traces (virtual desktops), comma-separated, usually with the header line
//! `Timestamp,Response,IOType,LUN,Offset,Size`:
//!
//! | column | unit |
//! |---|---|
//! | time stamp | seconds, decimal |
//! | response time | seconds; passed over, and empty in some lines of the originals |
//! | type | `R` or `W`; empty where no response was seen: such a row is passed over, and counted |
//! | LUN | the volume |
//! | offset | bytes |
//! | size | bytes |

use destage_plan::Op;

use crate::fields::{FieldFault, LineFields, ParsedLine, TimeUnit};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TableUnits, TextFormat, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::sink::RequestSink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Systor;

#[derive(Default)]
pub(crate) struct SystorLines {
    /// Counts the rows whose request had no response, and so has no type.
    without_type: u64,
}

impl TextFormat for Systor {
    const INFO: FormatInfo = FormatInfo {
        name: "systor",
        aliases: &["systor17"],
        what: "SYSTOR '17 virtual desktops, CSV, with or without its header",
        columns: "time (s),response,R|W or nothing,LUN,offset (B),size (B)",
        options: &[],
        finding: FormatFinding::Certain,
        examples: &[],
        samples: &[FormatSample::titled("Timestamp,Response,IOType,LUN,Offset,Size", b',', |n| {
            let op = ["W", "R", "R"][n as usize % 3];
            format!("145{n:07}.5,0.001,{op},{},{},8192", n % 4, scattered(n) * 4096)
        })],
    };

    const TABLE: Option<TableUnits> = Some(TableUnits {
        time: TimeUnit::Seconds,
        offset: 1,
        length: 1,
        columns: "ts=TIME,_,op,dev,off=OFFSET,len=LENGTH",
        counts_from_boot: false,
    });

    type BlkparseLines = SystorLines;

    fn lines(&self) -> SystorLines {
        SystorLines::default()
    }
}

impl LineFormat for SystorLines {
    fn header(&mut self, line: &[u8]) -> ParsedLine<bool> {
        Ok(line.len() >= 9 && line[..9].eq_ignore_ascii_case(b"timestamp"))
    }

    fn passed_over(&self) -> u64 {
        self.without_type
    }

    #[inline]
    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let mut fields = LineFields::<b','>::new(line);
        let time = fields.time("the time stamp", TimeUnit::Seconds)?;
        fields.skip("the response time")?;
        let op = match fields.next() {
            Some(b"R") => Some(Op::Read),
            Some(b"W") => Some(Op::Write),
            Some(b"") => None,
            text => return Err(FieldFault::field("the type", text.unwrap_or_default(), "R, W, or nothing")),
        };
        let lun = fields.number("the LUN")?;
        let offset = fields.number("the offset")?;
        let len = fields.number("the size")?;
        fields.end()?;
        let Some(op) = op else {
            self.without_type += 1;
            return Ok(LineKind::Data);
        };
        let volume = sink.volumes.number(lun)?;
        sink.push(time, volume, op, false, offset, len)?;
        Ok(LineKind::Data)
    }
}
