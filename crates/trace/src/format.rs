//! The formats by name: what they are, and how a user says which one a file has.

use std::fmt;
use std::str::FromStr;

use destage_plan::Op;

use crate::formats::block_events::{DEFAULT_EVENT, EVENTS};
use crate::formats::columns::Table;
use crate::formats::fio::Wait;
use crate::options::{FormatError, Options, split};

/// The formats that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FormatId {
    /// The compact native format.
    Native,
    /// MSR Cambridge CSV.
    Msr,
    /// SYSTOR '17 CSV.
    Systor,
    /// Recordings of `block_rq_issue`.
    RqCsv,
    /// Tencent Cloud Block Storage CSV.
    Tencent,
    /// Alibaba Cloud block traces CSV.
    Alibaba,
    /// `UMass` and the Storage Performance Council.
    Spc,
    /// `DiskSim` ASCII.
    Disksim,
    /// `SSDsim` and `MQSim`.
    Ssdsim,
    /// The byte-addressed cousin of `DiskSim` ASCII.
    MsrCut,
    /// Windows `DiskMon` logs.
    Diskmon,
    /// `WiscSee` event files.
    Wiscsee,
    /// blkparse's default text output.
    Blkparse,
    /// blktrace's binary records.
    Blktrace,
    /// fio I/O logs.
    Fio,
    /// `CloudPhysics` virtual SCSI records.
    Vscsi,
    /// HP SRT records.
    Srt,
    /// libCacheSim's `oracleGeneral` records.
    OracleGeneral,
    /// A table described by its columns.
    Columns,
}

/// Whether a file's content tells that it is of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It does.
    Certain,
    /// It can fit another format too; then the user is asked.
    Ambiguous,
    /// It does not: the format must be named.
    Never,
}

/// What there is to know about a format before a file of it is read.
#[derive(Clone, Copy, Debug)]
pub struct FormatInfo {
    /// Which.
    pub id: FormatId,
    /// Its name in `--format`.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// What it is.
    pub what: &'static str,
    /// Its columns or fields, in order, with units.
    pub columns: &'static str,
    /// Its options, each `key=values: meaning`.
    pub options: &'static [&'static str],
    /// Whether a file's content tells it.
    pub finding: Finding,
}

/// All formats, in the order in which they are listed.
pub const FORMATS: &[FormatInfo] = &[
    FormatInfo {
        id: FormatId::Native,
        name: "native",
        aliases: &["destage"],
        what: "destage's own compact format, binary",
        columns: "see docs/trace-format.md",
        options: &[],
        finding: Finding::Certain,
    },
    FormatInfo {
        id: FormatId::Msr,
        name: "msr",
        aliases: &["msr-cambridge"],
        what: "MSR Cambridge servers, CSV",
        columns: "filetime (100 ns),host,disk,Read|Write,offset (B),size (B),response",
        options: &[],
        finding: Finding::Certain,
    },
    FormatInfo {
        id: FormatId::Systor,
        name: "systor",
        aliases: &["systor17"],
        what: "SYSTOR '17 virtual desktops, CSV, with or without its header",
        columns: "time (s),response,R|W,LUN,offset (B),size (B)",
        options: &[],
        finding: Finding::Certain,
    },
    FormatInfo {
        id: FormatId::RqCsv,
        name: "rq-csv",
        aliases: &[],
        what: "recordings of the kernel's block_rq_issue tracepoint, CSV",
        columns: "time (us),R|W|WF|F|D,address (512 B),length (512 B)",
        options: &[],
        finding: Finding::Certain,
    },
    FormatInfo {
        id: FormatId::Tencent,
        name: "tencent",
        aliases: &["tencent-cbs"],
        what: "Tencent Cloud Block Storage, CSV",
        columns: "time (s),offset (512 B),size (512 B),0 read|1 write,volume",
        options: &[],
        finding: Finding::Certain,
    },
    FormatInfo {
        id: FormatId::Alibaba,
        name: "alibaba",
        aliases: &[],
        what: "Alibaba Cloud block traces of 2020, CSV",
        columns: "device,R|W,offset (B),length (B),time (us)",
        options: &[],
        finding: Finding::Certain,
    },
    FormatInfo {
        id: FormatId::Spc,
        name: "spc",
        aliases: &["umass"],
        what: "Storage Performance Council, as in the UMass repository (Financial, WebSearch)",
        columns: "ASU,LBA (512 B),size (B),r|w,time (s)[,...]",
        options: &[],
        finding: Finding::Certain,
    },
    FormatInfo {
        id: FormatId::Disksim,
        name: "disksim",
        aliases: &["disksim-ascii"],
        what: "DiskSim ASCII",
        columns: "time (ms) device address (512 B) length (512 B) flags (hex, bit 0 = read)",
        options: &[],
        finding: Finding::Ambiguous,
    },
    FormatInfo {
        id: FormatId::Ssdsim,
        name: "ssdsim",
        aliases: &["mqsim"],
        what: "SSDsim and MQSim",
        columns: "time (ns) device address (512 B) length (512 B) 1 read|0 write",
        options: &[],
        finding: Finding::Ambiguous,
    },
    FormatInfo {
        id: FormatId::MsrCut,
        name: "msr-cut",
        aliases: &["ms-bytes"],
        what: "pieces of MSR Cambridge and Alibaba traces prepared for replay",
        columns: "time (ms) device offset (B) length (B) 1 read|0 write",
        options: &[],
        finding: Finding::Ambiguous,
    },
    FormatInfo {
        id: FormatId::Diskmon,
        name: "diskmon",
        aliases: &[],
        what: "logs of the Windows tool DiskMon",
        columns: "sequence, time (s), duration, disk, Read|Write, sector (512 B), length (512 B); tabs",
        options: &[],
        finding: Finding::Certain,
    },
    FormatInfo {
        id: FormatId::Wiscsee,
        name: "wiscsee",
        aliases: &[],
        what: "WiscSee event files; only issues (D) are requests",
        columns: "process D|C read|write|discard|flush offset (B) size (B) time (s) wait sync",
        options: &[],
        finding: Finding::Certain,
    },
    FormatInfo {
        id: FormatId::Blkparse,
        name: "blkparse",
        aliases: &[],
        what: "the default text output of blkparse",
        columns: "major,minor cpu sequence time (s) process action RWBS sector + sectors [process]",
        options: &["event=D|Q|G|I|C: the action whose lines are requests (default D, issue to the device)"],
        finding: Finding::Certain,
    },
    FormatInfo {
        id: FormatId::Blktrace,
        name: "blktrace",
        aliases: &[],
        what: "blktrace's records, versions 7 and 8, binary; NAME reads all of NAME.blktrace.0, NAME.blktrace.1, ...",
        columns: "magic sequence time (ns) sector (512 B) bytes action process device cpu error pdu_len",
        options: &[
            "event=D|Q|G|I|C: the action whose records are requests (default D, issue to the device)",
            "cpus=one: read the one CPU's file NAME.blktrace.N though the recording has others",
        ],
        finding: Finding::Certain,
    },
    FormatInfo {
        id: FormatId::Fio,
        name: "fio",
        aliases: &["fio-iolog"],
        what: "fio I/O logs, versions 2 and 3; the file is the volume",
        columns: "[time (us)] file action [offset (B) length (B)]",
        options: &["wait=us|ms: what a version 2 wait means; required if the log has any"],
        finding: Finding::Certain,
    },
    FormatInfo {
        id: FormatId::Vscsi,
        name: "vscsi",
        aliases: &["cloudphysics"],
        what: "CloudPhysics virtual SCSI records, versions 1 and 2, binary",
        columns: "serial, length (B), segments, SCSI code, version, address (512 B), time (us)",
        options: &[],
        finding: Finding::Certain,
    },
    FormatInfo {
        id: FormatId::Srt,
        name: "srt",
        aliases: &["hp-srt"],
        what: "HP SRT records (Cello, Snake, hplajw), binary",
        columns: "size id sec usec start stop bytes block device driver cylinder flags info queue",
        options: &["unit=BYTES: size of a block (default: the sectorsize in the header)"],
        finding: Finding::Certain,
    },
    FormatInfo {
        id: FormatId::OracleGeneral,
        name: "oracle-general",
        aliases: &["oracleGeneral"],
        what: "libCacheSim's oracleGeneral records, binary",
        columns: "time (s), object, size (B), next access",
        options: &[
            "op=R|W: what the accesses are (required: the format does not say)",
            "unit=BYTES: object n begins at byte n times this (default 4096)",
        ],
        finding: Finding::Never,
    },
    FormatInfo {
        id: FormatId::Columns,
        name: "columns",
        aliases: &[],
        what: "any other table of text, described column by column",
        columns: "as described: columns:ts=ms,dev,off=bytes,len=bytes,op(1=R)",
        options: &[
            "ts=s|ms|us|ns|filetime, dev, off=UNIT, len=UNIT, op, op(VALUE=KIND,...), _: the columns in order",
            "op=KIND, sep=comma|tab|semicolon|blanks, skip=LINES: settings",
        ],
        finding: Finding::Never,
    },
];

impl FormatId {
    /// What there is to know about the format.
    pub fn info(self) -> &'static FormatInfo {
        FORMATS.iter().find(|info| info.id == self).expect("every format is listed")
    }

    /// Its name in `--format`.
    pub fn name(self) -> &'static str {
        self.info().name
    }
}

impl fmt::Display for FormatId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A format and its options: `NAME` or `NAME:key=value,...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatSpec(pub(crate) Kind);

/// The formats with their options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Native,
    Msr,
    Systor,
    RqCsv,
    Tencent,
    Alibaba,
    Spc,
    Disksim,
    Ssdsim,
    MsrCut,
    Diskmon,
    Wiscsee,
    Blkparse { event: u8 },
    Blktrace { event: u8, one_cpu: bool },
    Fio { wait: Option<Wait> },
    Vscsi,
    Srt { unit: Option<u32> },
    OracleGeneral { op: Op, unit: u32 },
    Columns(Table),
}

/// Bytes per object unless told otherwise: a page.
const DEFAULT_OBJECT_BYTES: u32 = 4096;

impl FormatSpec {
    /// Which format.
    pub fn id(&self) -> FormatId {
        match self.0 {
            Kind::Native => FormatId::Native,
            Kind::Msr => FormatId::Msr,
            Kind::Systor => FormatId::Systor,
            Kind::RqCsv => FormatId::RqCsv,
            Kind::Tencent => FormatId::Tencent,
            Kind::Alibaba => FormatId::Alibaba,
            Kind::Spc => FormatId::Spc,
            Kind::Disksim => FormatId::Disksim,
            Kind::Ssdsim => FormatId::Ssdsim,
            Kind::MsrCut => FormatId::MsrCut,
            Kind::Diskmon => FormatId::Diskmon,
            Kind::Wiscsee => FormatId::Wiscsee,
            Kind::Blkparse { .. } => FormatId::Blkparse,
            Kind::Blktrace { .. } => FormatId::Blktrace,
            Kind::Fio { .. } => FormatId::Fio,
            Kind::Vscsi => FormatId::Vscsi,
            Kind::Srt { .. } => FormatId::Srt,
            Kind::OracleGeneral { .. } => FormatId::OracleGeneral,
            Kind::Columns(_) => FormatId::Columns,
        }
    }

    /// The format without options, unless it requires some.
    pub(crate) fn plain(id: FormatId) -> Option<Self> {
        Some(Self(match id {
            FormatId::Native => Kind::Native,
            FormatId::Msr => Kind::Msr,
            FormatId::Systor => Kind::Systor,
            FormatId::RqCsv => Kind::RqCsv,
            FormatId::Tencent => Kind::Tencent,
            FormatId::Alibaba => Kind::Alibaba,
            FormatId::Spc => Kind::Spc,
            FormatId::Disksim => Kind::Disksim,
            FormatId::Ssdsim => Kind::Ssdsim,
            FormatId::MsrCut => Kind::MsrCut,
            FormatId::Diskmon => Kind::Diskmon,
            FormatId::Wiscsee => Kind::Wiscsee,
            FormatId::Blkparse => Kind::Blkparse { event: DEFAULT_EVENT },
            FormatId::Blktrace => Kind::Blktrace { event: DEFAULT_EVENT, one_cpu: false },
            FormatId::Fio => Kind::Fio { wait: None },
            FormatId::Vscsi => Kind::Vscsi,
            FormatId::Srt => Kind::Srt { unit: None },
            FormatId::OracleGeneral | FormatId::Columns => return None,
        }))
    }
}

/// The action that is a request, of blktrace's formats.
fn event(options: &mut Options<'_>) -> Result<u8, FormatError> {
    let Some(text) = options.take("event") else { return Ok(DEFAULT_EVENT) };
    match text.as_bytes() {
        &[event] if EVENTS.contains(&event) => Ok(event),
        _ => Err(options.wrong("event", text, "D, Q, G, I or C")),
    }
}

impl FromStr for FormatSpec {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let (name, rest) = split(text);
        let info = FORMATS.iter().find(|info| info.name == name || info.aliases.contains(&name)).ok_or_else(|| {
            let names: Vec<&str> = FORMATS.iter().map(|info| info.name).collect();
            FormatError::new(format!("there is no format \"{}\"; known are {}", name.escape_debug(), names.join(", ")))
        })?;
        if info.id == FormatId::Columns {
            let description = rest.ok_or_else(|| {
                FormatError::new("format columns: describe them, such as columns:ts=ms,dev,off=bytes,len=bytes,op(1=R)")
            })?;
            let table = Table::parse(description).map_err(|e| FormatError::new(format!("format columns: {e}")))?;
            return Ok(Self(Kind::Columns(table)));
        }
        let mut options = Options::parse(info.name, rest)?;
        let kind = match info.id {
            FormatId::Blkparse => Kind::Blkparse { event: event(&mut options)? },
            FormatId::Blktrace => {
                let event = event(&mut options)?;
                let one_cpu = options.choose("cpus", false, &[("one", true)])?;
                Kind::Blktrace { event, one_cpu }
            }
            FormatId::Fio => {
                let waits = [("us", Some(Wait::RelativeMicros)), ("ms", Some(Wait::AbsoluteMillis))];
                let wait = options.choose("wait", None, &waits)?;
                Kind::Fio { wait }
            }
            FormatId::Srt => Kind::Srt { unit: options.bytes("unit")? },
            FormatId::OracleGeneral => {
                let op = match options.take("op") {
                    Some("R") => Op::Read,
                    Some("W") => Op::Write,
                    Some(text) => return Err(options.wrong("op", text, "R or W")),
                    None => {
                        return Err(FormatError::new(
                            "format oracle-general does not say whether its accesses read or write: give \
                             oracle-general:op=R or oracle-general:op=W",
                        ));
                    }
                };
                Kind::OracleGeneral { op, unit: options.bytes("unit")?.unwrap_or(DEFAULT_OBJECT_BYTES) }
            }
            id => match Self::plain(id) {
                Some(spec) => spec.0,
                None => return Err(FormatError::new(format!("format {name} needs options"))),
            },
        };
        options.finish(info.options.iter().copied())?;
        Ok(Self(kind))
    }
}

impl fmt::Display for FormatSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.id().name();
        match &self.0 {
            Kind::Blkparse { event } if *event != DEFAULT_EVENT => write!(f, "{name}:event={}", char::from(*event)),
            Kind::Blktrace { event, one_cpu } => {
                let event = (*event != DEFAULT_EVENT).then(|| format!("event={}", char::from(*event)));
                let options: Vec<String> = event.into_iter().chain(one_cpu.then(|| "cpus=one".to_owned())).collect();
                if options.is_empty() { f.write_str(name) } else { write!(f, "{name}:{}", options.join(",")) }
            }
            Kind::Fio { wait: Some(Wait::RelativeMicros) } => write!(f, "{name}:wait=us"),
            Kind::Fio { wait: Some(Wait::AbsoluteMillis) } => write!(f, "{name}:wait=ms"),
            Kind::Srt { unit: Some(unit) } => write!(f, "{name}:unit={unit}"),
            Kind::OracleGeneral { op, unit } => {
                write!(f, "{name}:op={}", if *op == Op::Read { 'R' } else { 'W' })?;
                if *unit == DEFAULT_OBJECT_BYTES { Ok(()) } else { write!(f, ",unit={unit}") }
            }
            Kind::Columns(table) => write!(f, "{name}:{table}"),
            _ => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        text.parse::<FormatSpec>().unwrap_err().to_string()
    }

    #[test]
    fn names_are_unique_and_come_back() {
        let mut names: Vec<&str> = FORMATS.iter().flat_map(|i| i.aliases.iter().copied().chain([i.name])).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for info in FORMATS {
            assert_eq!(info.id.info().name, info.name);
            if let Some(spec) = FormatSpec::plain(info.id) {
                assert_eq!(spec.to_string(), info.name);
                for name in info.aliases.iter().chain([&info.name]) {
                    assert_eq!(name.parse(), Ok(spec.clone()));
                }
            }
        }
        for text in [
            "blkparse:event=Q",
            "blktrace:event=C",
            "blktrace:event=G,cpus=one",
            "blktrace:cpus=one",
            "fio:wait=us",
            "fio:wait=ms",
            "srt:unit=1024",
            "oracle-general:op=R",
            "oracle-general:op=W,unit=512",
            "columns:ts=ms,dev,off=bytes,len=bytes,op(1=R)",
        ] {
            assert_eq!(text.parse::<FormatSpec>().unwrap().to_string(), text);
        }
        assert_eq!("blkparse:event=D".parse::<FormatSpec>().unwrap().to_string(), "blkparse");
    }

    #[test]
    fn wrong_formats_say_what_would_be_right() {
        assert!(wrong("mrs").starts_with("there is no format \"mrs\"; known are native, msr, "));
        assert_eq!(wrong("msr:unit=1"), "format msr has no option \"unit\"; it has none");
        assert!(wrong("blkparse:events=D").contains("it has event=D|Q|G|I|C"));
        assert_eq!(wrong("blkparse:event=M"), "format blkparse: event is \"M\", expected D, Q, G, I or C");
        assert_eq!(wrong("blkparse:D"), "format blkparse: \"D\" is not key=value");
        assert_eq!(wrong("srt:unit=1,unit=2"), "format srt: unit stands twice");
        assert!(wrong("srt:unit=0").contains("between 1 and 4294967295"));
        assert!(wrong("srt:unit=+1").contains("between 1 and 4294967295"));
        assert!(wrong("oracle-general").contains("give oracle-general:op=R or oracle-general:op=W"));
        assert!(wrong("oracle-general:op=F").contains("expected R or W"));
        assert!(wrong("columns").contains("describe them"));
        assert!(wrong("columns:off=bytes").starts_with("format columns: there is no column len"));
        assert!(wrong("fio:wait=s").contains("expected us or ms"));
    }
}
