//! Tencent Cloud Block Storage traces, comma-separated, without a header:
//!
//! | column | unit |
//! |---|---|
//! | time stamp | seconds since 1970 |
//! | offset | sectors of 512 B |
//! | size | sectors of 512 B |
//! | type | `0` read, `1` write |
//! | volume | a number |

use destage_plan::{Op, SECTOR_BYTES};

use crate::fields::{FieldFault, LineFields, ParsedLine, TimeUnit};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TableUnits, TextFormat, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::sink::RequestSink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tencent;

impl TextFormat for Tencent {
    const INFO: FormatInfo = FormatInfo {
        name: "tencent",
        aliases: &["tencent-cbs"],
        what: "Tencent Cloud Block Storage, CSV",
        columns: "time (s),offset (512 B),size (512 B),0 read|1 write,volume",
        options: &[],
        finding: FormatFinding::Certain,
        examples: &[],
        samples: &[FormatSample::lines("", b',', |n| {
            format!("{},{},64,{},{}", 1_540_000_000 + n / 9, scattered(n) * 8, n % 2, 1000 + n % 7)
        })],
    };

    const TABLE: Option<TableUnits> = Some(TableUnits {
        time: TimeUnit::Seconds,
        offset: SECTOR_BYTES,
        length: SECTOR_BYTES,
        columns: "ts=TIME,off=OFFSET,len=LENGTH,op(0=R,1=W),dev",
        counts_from_boot: false,
    });

    type BlkparseLines = Self;

    fn lines(&self) -> Self {
        *self
    }
}

impl LineFormat for Tencent {
    #[inline]
    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let mut fields = LineFields::<b','>::new(line);
        let time = fields.time("the time stamp", TimeUnit::Seconds)?;
        let offset = fields.sectors("the offset")?;
        let len = fields.sectors("the size")?;
        let op = match fields.text("the type")? {
            b"0" => Op::Read,
            b"1" => Op::Write,
            text => return Err(FieldFault::field("the type", text, "0 (read) or 1 (write)")),
        };
        let id = fields.number("the volume")?;
        fields.end()?;
        let volume = sink.volumes.number(id)?;
        sink.push(time, volume, op, false, offset, len)?;
        Ok(LineKind::Data)
    }
}
