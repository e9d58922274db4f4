//! Traces of `SSDsim` and `MQSim`, separated by blanks:
//!
//! | column | unit |
//! |---|---|
//! | time | nanoseconds |
//! | device | the volume, a number |
//! | address | sectors of 512 B |
//! | length | sectors of 512 B |
//! | operation | `1` read, `0` write |

use destage_plan::{Op, SECTOR_BYTES};

use super::disksim::Disksim;
use crate::fields::{BLANKS, FieldFault, LineFields, ParsedLine, TimeUnit};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TableUnits, TextFormat, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::sink::RequestSink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ssdsim;

impl TextFormat for Ssdsim {
    const INFO: FormatInfo = FormatInfo {
        name: "ssdsim",
        aliases: &["mqsim"],
        what: "SSDsim and MQSim",
        columns: "time (ns) device address (512 B) length (512 B) 1 read|0 write",
        options: &[],
        finding: FormatFinding::Ambiguous,
        examples: &[],
        samples: &[
            FormatSample::lines("", b' ', |n| format!("{} 0 {} 7 {}", n * 26_000_000, scattered(n) * 8, n % 2)),
            FormatSample::lines("times compressed", b' ', |n| {
                format!("{} 0 {} 16 {}", n * n * 700, scattered(n) * 8, n % 2)
            }),
            FormatSample::lines("close together", b' ', |n| format!("{} 0 {} 16 {}", n * 26, scattered(n) * 8, n % 2))
                .not_found(),
        ],
    };

    const COUSIN_OF: Option<&'static str> = Some(Disksim::INFO.name);

    const TABLE: Option<TableUnits> = Some(TableUnits {
        time: TimeUnit::Nanos,
        offset: SECTOR_BYTES,
        length: SECTOR_BYTES,
        columns: "ts=TIME,dev,off=OFFSET,len=LENGTH,op(1=R)",
        counts_from_boot: false,
    });

    type BlkparseLines = Self;

    fn lines(&self) -> Self {
        *self
    }
}

impl LineFormat for Ssdsim {
    #[inline]
    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let mut fields = LineFields::<BLANKS>::new(line);
        let time = fields.time("the time", TimeUnit::Nanos)?;
        let device = fields.number("the device")?;
        let offset = fields.sectors("the address")?;
        let len = fields.sectors("the length")?;
        let op = match fields.text("the operation")? {
            b"0" => Op::Write,
            b"1" => Op::Read,
            text => return Err(FieldFault::field("the operation", text, "1 (read) or 0 (write)")),
        };
        fields.end()?;
        let volume = sink.volumes.number(device)?;
        sink.push(time, volume, op, false, offset, len)?;
        Ok(LineKind::Data)
    }
}
