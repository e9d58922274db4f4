//! MSR Cambridge traces, comma-separated, without a header:
//!
//! | column | unit |
//! |---|---|
//! | time of issue | Windows file time: 100 ns ticks since 1601 |
//! | host, disk | together the volume, called `host_disk` |
//! | type | `Read` or `Write` |
//! | offset | bytes from the start of the disk |
//! | size | bytes |
//! | response time | 100 ns ticks; passed over |

use destage_plan::Op;

use crate::fields::{FieldFault, LineFields, ParsedLine, TimeUnit};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TableUnits, TextFormat, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::sink::RequestSink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Msr;

impl TextFormat for Msr {
    const INFO: FormatInfo = FormatInfo {
        name: "msr",
        aliases: &["msr-cambridge"],
        what: "MSR Cambridge servers, CSV",
        columns: "filetime (100 ns),host,disk,Read|Write,offset (B),size (B),response",
        options: &[],
        finding: FormatFinding::Certain,
        examples: &[],
        samples: &[FormatSample::lines("", b',', |n| {
            let op = ["Write", "Read", "Read"][n as usize % 3];
            format!("{},web,{},{op},{},4096,{n}", 128_000_000_000_000_000 + n * 20_000, n % 2, scattered(n) * 4096)
        })],
    };

    const TABLE: Option<TableUnits> = Some(TableUnits {
        time: TimeUnit::Filetime,
        offset: 1,
        length: 1,
        columns: "ts=TIME,_,dev,op,off=OFFSET,len=LENGTH",
        counts_from_boot: false,
    });

    type BlkparseLines = Self;

    fn lines(&self) -> Self {
        *self
    }
}

impl LineFormat for Msr {
    #[inline]
    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let mut fields = LineFields::<b','>::new(line);
        let time = fields.time("the time stamp", TimeUnit::Filetime)?;
        let host = fields.text("the host")?;
        let disk = fields.text("the disk")?;
        let op = match fields.text("the type")? {
            b"Read" | b"read" => Op::Read,
            b"Write" | b"write" => Op::Write,
            text => return Err(FieldFault::field("the type", text, "Read or Write")),
        };
        let offset = fields.number("the offset")?;
        let len = fields.number("the size")?;
        fields.skip("the response time")?;
        fields.end()?;
        let volume = sink.volumes.pair(host, disk)?;
        sink.push(time, volume, op, false, offset, len)?;
        Ok(LineKind::Data)
    }
}
