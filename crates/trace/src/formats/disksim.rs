//! ASCII traces of `DiskSim` (`iotrace_ascii_get_ioreq_event` of version 4.0), separated by blanks:
//!
//! | column | unit |
//! |---|---|
//! | time | milliseconds, decimal |
//! | device | the volume, a number |
//! | address | sectors of 512 B |
//! | length | sectors of 512 B |
//! | flags | hexadecimal; bit 0 set means a read, else a write |

use destage_plan::{Op, SECTOR_BYTES};

use crate::fields::{BLANKS, FieldFault, LineFields, ParsedLine, TimeUnit};
use crate::format::{FormatFinding, FormatInfo, FormatSample, TableUnits, TextFormat, scattered};
use crate::lines::{LineFormat, LineKind};
use crate::sink::RequestSink;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disksim;

impl TextFormat for Disksim {
    const INFO: FormatInfo = FormatInfo {
        name: "disksim",
        aliases: &["disksim-ascii"],
        what: "DiskSim ASCII",
        columns: "time (ms) device address (512 B) length (512 B) flags (hex, bit 0 = read)",
        options: &[],
        finding: FormatFinding::Ambiguous,
        examples: &[],
        samples: &[
            FormatSample::lines("hexadecimal flags", b' ', |n| {
                let flags = ["0", "1", "b", "12"][n as usize % 4];
                format!("{}.25 {} {} 8 {flags}", n * 31, n % 2, scattered(n) * 8)
            }),
            FormatSample::lines("few such flags", b' ', |n| {
                format!("{}.25 0 {} 8 {}", n * 31, scattered(n) * 8, if n == 20 { 4 } else { n % 2 })
            }),
            FormatSample::lines("flags 0 and 1", b' ', |n| format!("{}.25 0 {} 8 {}", n * 31, scattered(n) * 8, n % 2))
                .not_found(),
            FormatSample::lines("whole times", b' ', |n| format!("{} 0 {} 16 {}", n * 31, scattered(n) * 8, n % 2))
                .not_found(),
        ],
    };

    const TABLE: Option<TableUnits> = Some(TableUnits {
        time: TimeUnit::Millis,
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

impl LineFormat for Disksim {
    #[inline]
    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind> {
        let mut fields = LineFields::<BLANKS>::new(line);
        let time = fields.time("the time", TimeUnit::Millis)?;
        let device = fields.number("the device")?;
        let offset = fields.sectors("the address")?;
        let len = fields.sectors("the length")?;
        let op = match fields.text("the flags")? {
            b"0" => Op::Write,
            b"1" => Op::Read,
            text => flags(text)?,
        };
        fields.end()?;
        let volume = sink.volumes.number(device)?;
        sink.push(time, volume, op, false, offset, len)?;
        Ok(LineKind::Data)
    }
}

#[cold]
fn flags(text: &[u8]) -> ParsedLine<Op> {
    let bits = std::str::from_utf8(text).ok().filter(|t| !t.starts_with('+'));
    match bits.and_then(|t| u32::from_str_radix(t, 16).ok()) {
        Some(bits) => Ok(if bits & 1 == 1 { Op::Read } else { Op::Write }),
        None => Err(FieldFault::field("the flags", text, "a hexadecimal number")),
    }
}
