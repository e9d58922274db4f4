//! Formats that can be written, by name, with their options.

use std::fmt;
use std::str::FromStr;

use destage_plan::Op;

use super::fit::Losses;
use super::oracle_general::{OracleGeneral, Place};
use super::{Format, disksim, fio, msr, rq_csv, spc, ssdsim};
use crate::formats::FormatId;
use crate::options::{FormatError, Options, split};

/// What there is to know about a format that can be written.
#[derive(Clone, Copy, Debug)]
pub struct ExportInfo {
    /// Which; its names are those under which it is read.
    pub id: FormatId,
    /// What it cannot hold.
    pub cannot: &'static str,
    /// Its options, each `key=values: meaning`, besides those of all formats ([`ExportInfo::COMMON`]).
    pub options: &'static [&'static str],
}

impl ExportInfo {
    /// Options that all formats have.
    pub const COMMON: &'static [&'static str] = &[
        "drop=flush+discard+read+write+fua+empty: leave these out (of writes with FUA only the FUA)",
        "widen=yes: widen ranges to the units that they touch",
        "times=raise: date requests that are dated before one in front of them like that one",
    ];
}

/// All formats that can be written besides the native one, in the order in which they are listed.
pub const EXPORTS: &[ExportInfo] = &[
    ExportInfo {
        id: FormatId::Ssdsim,
        cannot: "flushes, discards, FUA, no bytes, parts of sectors, times that run backwards, names of volumes; \
                 MQSim does not look at the volume",
        options: &[],
    },
    ExportInfo {
        id: FormatId::Disksim,
        cannot: "flushes, discards, FUA, no bytes, parts of sectors, times that run backwards, names of volumes, sectors \
                 from 2^31 on",
        options: &[],
    },
    ExportInfo {
        id: FormatId::Spc,
        cannot: "flushes, discards, FUA, offsets inside sectors, times that run backwards, names of volumes",
        options: &[],
    },
    ExportInfo {
        id: FormatId::Msr,
        cannot: "flushes, discards, FUA, times finer than 100 ns, names of volumes",
        options: &[],
    },
    ExportInfo {
        id: FormatId::RqCsv,
        cannot: "parts of sectors, times finer than 1 us, more than one volume",
        options: &["volumes=merge: lay all volumes over each other"],
    },
    ExportInfo {
        id: FormatId::Fio,
        cannot: "FUA, no bytes, requests from 4 GiB on, times finer than 1 us or that run backwards; version 2 no times",
        options: &[
            "version=3|2: of the log (default 3)",
            "names=keep: name files as the trace names its volumes; fio opens and writes such files",
            "drop=times: required for version 2, which has none",
        ],
    },
    ExportInfo {
        id: FormatId::OracleGeneral,
        cannot: "flushes, discards, FUA, no bytes, parts of pages, times finer than 1 s or that run backwards, reads and \
                 writes apart, more than one volume; each page that a request touches is one access",
        options: &[
            "op=R|W|all: which requests are accesses (required: the format does not tell them apart)",
            "unit=BYTES: the page, a power of two from 512 to 1048576 (default 4096)",
            "volumes=merge|apart: lay all volumes over each other, or begin each at another multiple of 2^40 pages",
        ],
    },
];

/// A format to write and its options: `NAME` or `NAME:key=value,...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportSpec {
    kind: Kind,
    losses: Losses,
    merge: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ssdsim,
    Disksim,
    Spc,
    Msr,
    RqCsv,
    Fio { version: u8, keep_names: bool },
    OracleGeneral { op: Option<Op>, page_bytes: u32, apart: bool },
}

/// Bytes in a page of `oracle-general` unless told otherwise.
const DEFAULT_PAGE_BYTES: u32 = 4096;

impl ExportSpec {
    /// Which format.
    pub fn id(&self) -> FormatId {
        match self.kind {
            Kind::Ssdsim => FormatId::Ssdsim,
            Kind::Disksim => FormatId::Disksim,
            Kind::Spc => FormatId::Spc,
            Kind::Msr => FormatId::Msr,
            Kind::RqCsv => FormatId::RqCsv,
            Kind::Fio { .. } => FormatId::Fio,
            Kind::OracleGeneral { .. } => FormatId::OracleGeneral,
        }
    }

    /// Whether volumes are written as numbers, whatever the trace calls them.
    pub fn numbers_volumes(&self) -> bool {
        match self.kind {
            Kind::Ssdsim | Kind::Disksim | Kind::Spc | Kind::Msr => true,
            Kind::RqCsv => false,
            Kind::Fio { keep_names, .. } => !keep_names,
            Kind::OracleGeneral { apart, .. } => apart,
        }
    }

    pub(super) fn losses(&self) -> Losses {
        let mut losses = self.losses;
        if let Kind::OracleGeneral { op: Some(op), .. } = self.kind {
            let other = if op == Op::Read { Op::Write } else { Op::Read };
            losses.kinds[other as usize] = true;
        }
        losses
    }

    pub(super) fn merges(&self) -> bool {
        self.merge
    }

    pub(super) fn format(&self) -> Box<dyn Format> {
        match self.kind {
            Kind::Ssdsim => Box::new(ssdsim::Ssdsim),
            Kind::Disksim => Box::new(disksim::Disksim),
            Kind::Spc => Box::new(spc::Spc),
            Kind::Msr => Box::new(msr::Msr),
            Kind::RqCsv => Box::new(rq_csv::RqCsv),
            Kind::Fio { version, keep_names } => Box::new(fio::Fio::new(version, keep_names)),
            Kind::OracleGeneral { page_bytes, apart, .. } => {
                let place = if apart { Place::Apart } else { Place::One };
                Box::new(OracleGeneral::new(page_bytes, place))
            }
        }
    }
}

/// What is given up, of the format `id`.
fn losses(options: &mut Options<'_>, id: FormatId) -> Result<Losses, FormatError> {
    let mut losses = Losses::default();
    if let Some(text) = options.take("drop") {
        for word in text.split('+') {
            let kind = Op::ALL.into_iter().find(|op| op.word() == word);
            match (word, kind) {
                (_, Some(op)) => losses.kinds[op as usize] = true,
                ("fua", None) => losses.fua = true,
                ("empty", None) => losses.empty = true,
                ("times", None) if id == FormatId::Fio => losses.times = true,
                _ => {
                    let times = if id == FormatId::Fio { ", times" } else { "" };
                    let expected = format!("flush, discard, read, write, fua, empty{times}, joined by +");
                    return Err(options.wrong("drop", text, &expected));
                }
            }
        }
    }
    losses.widen = options.choose("widen", false, &[("yes", true)])?;
    losses.raise = options.choose("times", false, &[("raise", true)])?;
    Ok(losses)
}

impl FromStr for ExportSpec {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let (name, rest) = split(text);
        let info = EXPORTS.iter().find(|info| info.id.is_called(name)).ok_or_else(|| {
            let names: Vec<&str> = EXPORTS.iter().map(|info| info.id.name()).collect();
            FormatError::new(format!(
                "format \"{}\" cannot be written; native and {} can",
                name.escape_debug(),
                names.join(", ")
            ))
        })?;
        let mut options = Options::parse(info.id.name(), rest)?;
        let losses = losses(&mut options, info.id)?;
        let mut merge = false;
        let kind = match info.id {
            FormatId::Ssdsim => Kind::Ssdsim,
            FormatId::Disksim => Kind::Disksim,
            FormatId::Spc => Kind::Spc,
            FormatId::Msr => Kind::Msr,
            FormatId::RqCsv => {
                merge = options.choose("volumes", false, &[("merge", true)])?;
                Kind::RqCsv
            }
            FormatId::Fio => {
                let version = options.choose("version", 3, &[("3", 3), ("2", 2)])?;
                let keep_names = options.choose("names", false, &[("keep", true)])?;
                if version != 2 && losses.times {
                    return Err(FormatError::new("format fio: only version=2 has no times; leave drop=times out"));
                }
                Kind::Fio { version, keep_names }
            }
            _ => {
                let op = options.take("op").ok_or_else(|| {
                    FormatError::new(
                        "format oracle-general does not tell reads from writes: give oracle-general:op=R, op=W or op=all",
                    )
                })?;
                let op = match op {
                    "R" => Some(Op::Read),
                    "W" => Some(Op::Write),
                    "all" => None,
                    _ => return Err(options.wrong("op", op, "R, W or all")),
                };
                let page_bytes = match options.take("unit") {
                    None => DEFAULT_PAGE_BYTES,
                    Some(text) => {
                        let page = text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
                        let page = page.filter(|n: &u32| n.is_power_of_two() && (512..=1 << 20).contains(n));
                        page.ok_or_else(|| options.wrong("unit", text, "a power of two from 512 to 1048576"))?
                    }
                };
                let apart;
                (merge, apart) =
                    options.choose("volumes", (false, false), &[("merge", (true, false)), ("apart", (false, true))])?;
                Kind::OracleGeneral { op, page_bytes, apart }
            }
        };
        options.finish(info.options.iter().chain(ExportInfo::COMMON).copied())?;
        Ok(Self { kind, losses, merge })
    }
}

impl fmt::Display for ExportSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options: Vec<String> = Vec::new();
        let mut drop: Vec<&str> =
            Op::ALL.into_iter().filter(|op| self.losses.kinds[*op as usize]).map(Op::word).collect();
        drop.extend(
            [("fua", self.losses.fua), ("empty", self.losses.empty), ("times", self.losses.times)]
                .iter()
                .filter_map(|&(word, given)| given.then_some(word)),
        );
        match self.kind {
            Kind::OracleGeneral { op, page_bytes, apart } => {
                let op = op.map_or("all", |op| if op == Op::Read { "R" } else { "W" });
                options.push(format!("op={op}"));
                if page_bytes != DEFAULT_PAGE_BYTES {
                    options.push(format!("unit={page_bytes}"));
                }
                if apart {
                    options.push("volumes=apart".to_owned());
                }
            }
            Kind::Fio { version, keep_names } => {
                if version != 3 {
                    options.push(format!("version={version}"));
                }
                if keep_names {
                    options.push("names=keep".to_owned());
                }
            }
            _ => {}
        }
        if self.merge {
            options.push("volumes=merge".to_owned());
        }
        if !drop.is_empty() {
            options.push(format!("drop={}", drop.join("+")));
        }
        if self.losses.widen {
            options.push("widen=yes".to_owned());
        }
        if self.losses.raise {
            options.push("times=raise".to_owned());
        }
        f.write_str(self.id().name())?;
        if options.is_empty() { Ok(()) } else { write!(f, ":{}", options.join(",")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        text.parse::<ExportSpec>().unwrap_err().to_string()
    }

    #[test]
    fn names_and_options_come_back() {
        for text in [
            "ssdsim",
            "disksim:drop=flush+discard+fua+empty,widen=yes,times=raise",
            "spc:drop=read",
            "msr",
            "rq-csv:volumes=merge",
            "fio:version=2,names=keep,drop=times",
            "oracle-general:op=R",
            "oracle-general:op=all,unit=512,volumes=apart",
            "oracle-general:op=W,volumes=merge",
        ] {
            assert_eq!(text.parse::<ExportSpec>().unwrap().to_string(), text);
        }
        assert_eq!("mqsim".parse::<ExportSpec>().unwrap().to_string(), "ssdsim");
    }

    #[test]
    fn wrong_formats_say_what_would_be_right() {
        assert!(wrong("tencent").starts_with("format \"tencent\" cannot be written; native and ssdsim, disksim, "));
        assert!(wrong("oracle-general").contains("give oracle-general:op=R, op=W or op=all"));
        assert!(wrong("oracle-general:op=F").contains("expected R, W or all"));
        assert!(wrong("oracle-general:op=R,unit=1000").contains("a power of two from 512 to 1048576"));
        assert!(wrong("spc:drop=flushes").contains("expected flush, discard, read, write, fua, empty, joined by +"));
        assert!(wrong("spc:drop=times").contains("expected flush"));
        assert!(wrong("spc:volumes=merge").starts_with("format spc has no option \"volumes\"; it has drop="));
        assert!(wrong("fio:drop=times").contains("only version=2 has no times"));
        assert_eq!(wrong("spc:widen"), "format spc: \"widen\" is not key=value");
        assert_eq!(wrong("spc:widen=no"), "format spc: widen is \"no\", expected yes");
        assert_eq!(wrong("spc:widen=yes,widen=yes"), "format spc: widen stands twice");
        assert_eq!(wrong("fio:version=1"), "format fio: version is \"1\", expected 3 or 2");
    }
}
