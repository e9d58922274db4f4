//! SYSTOR '17 traces (virtual desktops), comma-separated, usually with the header line
//! `Timestamp,Response,IOType,LUN,Offset,Size`:
//!
//! | column | unit |
//! |---|---|
//! | time stamp | seconds, decimal |
//! | response time | seconds; passed over, and empty in some lines of the originals |
//! | type | `R` or `W` |
//! | LUN | the volume |
//! | offset | bytes |
//! | size | bytes |

use destage_plan::Op;

use crate::fields::{Fault, Fields, Parsed, TimeUnit};
use crate::format::{Finding, FormatInfo, Sample, TableUnits, TextFormat, scattered};
use crate::lines::{Line, LineFormat};
use crate::sink::Sink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Systor;

impl TextFormat for Systor {
    const INFO: FormatInfo = FormatInfo {
        name: "systor",
        aliases: &["systor17"],
        what: "SYSTOR '17 virtual desktops, CSV, with or without its header",
        columns: "time (s),response,R|W,LUN,offset (B),size (B)",
        options: &[],
        finding: Finding::Certain,
        examples: &[],
        samples: &[Sample::titled("Timestamp,Response,IOType,LUN,Offset,Size", b',', |n| {
            let op = ["W", "R", "R"][n as usize % 3];
            format!("145{n:07}.5,0.001,{op},{},{},8192", n % 4, scattered(n) * 4096)
        })],
    };

    const TABLE: Option<TableUnits> = Some(TableUnits {
        time: TimeUnit::Seconds,
        offset: 1,
        length: 1,
        columns: "ts=TIME,_,op,dev,off=OFFSET,len=LENGTH",
    });

    type Lines = Self;

    fn lines(&self) -> Self {
        *self
    }
}

impl LineFormat for Systor {
    fn header(&mut self, line: &[u8]) -> Parsed<bool> {
        Ok(line.len() >= 9 && line[..9].eq_ignore_ascii_case(b"timestamp"))
    }

    #[inline]
    fn parse_line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Parsed<Line> {
        let mut fields = Fields::<b','>::new(line);
        let time = fields.time("the time stamp", TimeUnit::Seconds)?;
        fields.skip("the response time")?;
        let op = match fields.text("the type")? {
            b"R" => Op::Read,
            b"W" => Op::Write,
            text => return Err(Fault::field("the type", text, "R or W")),
        };
        let lun = fields.number("the LUN")?;
        let offset = fields.number("the offset")?;
        let len = fields.number("the size")?;
        fields.end()?;
        let volume = sink.volumes.number(lun)?;
        sink.push(time, volume, op, false, offset, len)?;
        Ok(Line::Data)
    }
}
