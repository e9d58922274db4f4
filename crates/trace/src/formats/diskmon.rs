//! Logs of the Windows tool `DiskMon`, separated by tabs:
//!
//! | column | unit |
//! |---|---|
//! | sequence | a number; passed over |
//! | time | seconds, decimal |
//! | duration | seconds; passed over |
//! | disk | the volume, a number |
//! | request | `Read` or `Write` |
//! | sector | sectors of 512 B |
//! | length | sectors of 512 B |

use destage_plan::{Op, SECTOR_BYTES};

use crate::fields::{BLANKS, FieldFault, LineFields, ParsedLine, TimeUnit};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TableUnits, TextFormat, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::sink::RequestSink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Diskmon;

impl TextFormat for Diskmon {
    const INFO: FormatInfo = FormatInfo {
        name: "diskmon",
        aliases: &[],
        what: "logs of the Windows tool DiskMon",
        columns: "sequence, time (s), duration, disk, Read|Write, sector (512 B), length (512 B); tabs",
        options: &[],
        finding: FormatFinding::Certain,
        examples: &[],
        samples: &[FormatSample::lines("", b'\t', |n| {
            let op = ["Write", "Read", "Read"][n as usize % 3];
            format!("{n}\t{}.5\t0.0001\t{}\t{op}\t{}\t16", n / 3, n % 2, scattered(n) * 8)
        })],
    };

    const TABLE: Option<TableUnits> = Some(TableUnits {
        time: TimeUnit::Seconds,
        offset: SECTOR_BYTES,
        length: SECTOR_BYTES,
        columns: "_,ts=TIME,_,dev,op,off=OFFSET,len=LENGTH,sep=tab",
        counts_from_boot: false,
    });

    type BlkparseLines = Self;

    fn lines(&self) -> Self {
        *self
    }
}

impl LineFormat for Diskmon {
    #[inline]
    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let mut fields = LineFields::<BLANKS>::new(line);
        fields.number("the sequence")?;
        let time = fields.time("the time", TimeUnit::Seconds)?;
        fields.skip("the duration")?;
        let disk = fields.number("the disk")?;
        let op = match fields.text("the request")? {
            b"Read" => Op::Read,
            b"Write" => Op::Write,
            text => return Err(FieldFault::field("the request", text, "Read or Write")),
        };
        let offset = fields.sectors("the sector")?;
        let len = fields.sectors("the length")?;
        fields.end()?;
        let volume = sink.volumes.number(disk)?;
        sink.push(time, volume, op, false, offset, len)?;
        Ok(LineKind::Data)
    }
}
