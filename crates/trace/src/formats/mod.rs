//! The formats that can be read: one file for each, whose head shows the layout of its fields, and
//! one list of them.
//!
//! To add a format, write its file and add it to the modules and to the list below. A format of
//! text is a type that implements [`TextFormat`](crate::format::TextFormat), what there is to know
//! about it, and [`LineFormat`](crate::lines::LineFormat), what it makes of a line; any other one
//! implements [`TraceFormat`] itself, with the help of [`RecordFormat`](crate::records::RecordFormat) if
//! it has records. Nothing else need know of it: names and options, detection, lists and
//! completions, and the tests and fuzzing over all formats go through the list.

mod alibaba;
mod biosnoop;
mod blkparse;
mod blktrace;
mod block_events;
mod columns;
mod diskmon;
mod disksim;
mod etw;
mod fio;
mod ftrace;
mod lcs;
mod msr;
mod msr_cut;
mod native;
mod oracle_general;
mod row_kinds;
mod row_values;
mod rq_csv;
mod spc;
mod srt;
mod ssdsim;
mod systor;
mod tencent;
mod vscsi;
mod wiscsee;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use destage_plan::names::nearest;

use crate::error::TraceError;
use crate::format::{FormatInfo, FormatSample, FormatSign, TableUnits, TraceFormat, TraceOpening};
use crate::lines::FormatProbe;
use crate::options::{FormatError, split};
use crate::source::TraceSource;

macro_rules! formats {
    ($($module:ident::$format:ident,)+) => {
        /// A format that can be read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FormatId {
            $(#[doc = concat!("See `formats/", stringify!($module), "`.")] $format,)+
        }

        /// All formats, in the order in which they are listed.
        pub const FORMATS: &[FormatId] = &[$(FormatId::$format),+];

        /// A format with its options.
        #[derive(Clone, Debug, PartialEq, Eq)]
        enum AnyFormat {
            $($format($module::$format),)+
        }

        impl FormatId {
            /// Returns the description of the format.
            pub fn info(self) -> &'static FormatInfo {
                match self {
                    $(Self::$format => const { &<$module::$format as TraceFormat>::INFO },)+
                }
            }

            /// Returns the sign by which a file's content tells the format.
            pub(crate) fn sign(self) -> FormatSign {
                match self {
                    $(Self::$format => <$module::$format as TraceFormat>::SIGN,)+
                }
            }

            /// Gives the units of a table that others may look like.
            pub(crate) fn table(self) -> Option<TableUnits> {
                match self {
                    $(Self::$format => <$module::$format as TraceFormat>::TABLE,)+
                }
            }

            /// The format without options, unless it requires some.
            pub(crate) fn plain(self) -> Option<FormatSpec> {
                Some(FormatSpec(match self {
                    $(Self::$format => AnyFormat::$format(<$module::$format as TraceFormat>::plain()?),)+
                }))
            }

            /// The format with the options that stand behind its name.
            fn parse(self, options: Option<&str>) -> Result<FormatSpec, FormatError> {
                Ok(FormatSpec(match self {
                    $(Self::$format => AnyFormat::$format(<$module::$format as TraceFormat>::parse(options)?),)+
                }))
            }

            /// The files of a recording in this format that `path`, which is no file, stands for.
            pub(crate) fn files(self, path: &Path) -> Result<Vec<PathBuf>, TraceError> {
                match self {
                    $(Self::$format => <$module::$format as TraceFormat>::files(path),)+
                }
            }
        }

        impl FormatSpec {
            /// Returns the format.
            pub fn id(&self) -> FormatId {
                match &self.0 {
                    $(AnyFormat::$format(_) => FormatId::$format,)+
                }
            }

            fn options(&self) -> Vec<String> {
                match &self.0 {
                    $(AnyFormat::$format(format) => TraceFormat::options(format),)+
                }
            }

            /// A source of the requests, from the beginning.
            pub(crate) fn open(&self, opening: TraceOpening<'_>) -> Result<Box<dyn TraceSource>, TraceError> {
                match &self.0 {
                    $(AnyFormat::$format(format) => format.open(opening),)+
                }
            }

            /// Measures how well a format of text reads whole lines; `None` for others.
            pub(crate) fn probe(&self, text: &[u8], patient: bool) -> Option<FormatProbe> {
                match &self.0 {
                    $(AnyFormat::$format(format) => format.probe(text, patient),)+
                }
            }

            /// Why what `path` stands for must not be read as this, see [`TraceFormat::refuse`].
            pub(crate) fn refuse(&self, path: &Path, recording: Option<&[PathBuf]>) -> Option<String> {
                match &self.0 {
                    $(AnyFormat::$format(format) => format.refuse(path, recording),)+
                }
            }
        }
    };
}

formats! {
    native::Native,
    msr::Msr,
    systor::Systor,
    rq_csv::RqCsv,
    tencent::Tencent,
    alibaba::Alibaba,
    spc::Spc,
    disksim::Disksim,
    ssdsim::Ssdsim,
    msr_cut::MsrCut,
    diskmon::Diskmon,
    etw::Etw,
    wiscsee::Wiscsee,
    blkparse::Blkparse,
    blktrace::Blktrace,
    ftrace::Ftrace,
    biosnoop::Biosnoop,
    fio::Fio,
    vscsi::Vscsi,
    srt::Srt,
    lcs::Lcs,
    oracle_general::OracleGeneral,
    columns::Columns,
}

impl FormatId {
    /// Returns the format's name in `--format`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Is true if the format has this name, or an alias of it.
    pub fn is_called(self, name: &str) -> bool {
        let info = self.info();
        info.name == name || info.aliases.contains(&name)
    }

    /// Texts of `--format` that mean it, with and without options; the first also means its
    /// samples.
    pub fn examples(self) -> Vec<&'static str> {
        let plain = self.plain().map(|_| self.name());
        plain.into_iter().chain(self.info().examples.iter().copied()).collect()
    }

    /// Returns the samples, with names that are unique over all formats.
    pub fn samples(self) -> impl Iterator<Item = (String, &'static FormatSample)> {
        self.info().samples.iter().map(move |sample| match sample.name {
            "" => (self.name().to_owned(), sample),
            name => (format!("{self}, {name}"), sample),
        })
    }
}

impl fmt::Display for FormatId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The names of all formats, for messages.
pub(crate) fn names() -> String {
    FORMATS.iter().map(|id| id.name()).collect::<Vec<_>>().join(", ")
}

/// The one of some formats that may be meant by a name that is none.
pub(crate) fn suggestion(name: &str, formats: impl Iterator<Item = FormatId>) -> String {
    let names = formats.flat_map(|id| id.info().aliases.iter().copied().chain([id.name()]));
    nearest(name, names).map_or_else(String::new, |near| format!("did you mean {near}? "))
}

/// A format and its options: `NAME` or `NAME:key=value,...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatSpec(AnyFormat);

impl FormatSpec {
    /// Returns true if files of the format are text.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.id().sign(), FormatSign::Lines { .. }) || self.id() == FormatId::Columns
    }
}

impl FromStr for FormatSpec {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let (name, options) = split(text);
        let id = FORMATS.iter().find(|id| id.is_called(name)).ok_or_else(|| {
            let near = suggestion(name, FORMATS.iter().copied());
            FormatError::new(format!("there is no format \"{}\"; {near}known are {}", name.escape_debug(), names()))
        })?;
        id.parse(options)
    }
}

impl fmt::Display for FormatSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id().name())?;
        let options = self.options();
        if options.is_empty() { Ok(()) } else { write!(f, ":{}", options.join(",")) }
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
        let mut names: Vec<&str> =
            FORMATS.iter().flat_map(|id| id.info().aliases.iter().copied().chain([id.name()])).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        for id in FORMATS {
            let info = id.info();
            if let Some(spec) = id.plain() {
                assert_eq!(spec.id(), *id);
                assert_eq!(spec.to_string(), info.name);
                for name in info.aliases.iter().chain([&info.name]) {
                    assert_eq!(name.parse(), Ok(spec.clone()));
                }
            }
            assert!(!id.examples().is_empty() && !info.samples.is_empty(), "{id}");
            for text in id.examples() {
                let spec = text.parse::<FormatSpec>().unwrap();
                assert_eq!((spec.id(), spec.to_string().as_str()), (*id, text));
            }
        }
        for text in ["blktrace:event=G,cpus=one", "blktrace:cpus=one"] {
            assert_eq!(text.parse::<FormatSpec>().unwrap().to_string(), text);
        }
        let samples = FORMATS.iter().flat_map(|id| id.samples());
        let mut samples: Vec<String> = samples.map(|(name, _)| name).collect();
        let all = samples.len();
        samples.sort_unstable();
        samples.dedup();
        assert_eq!(samples.len(), all);
        assert_eq!("blkparse:event=D".parse::<FormatSpec>().unwrap().to_string(), "blkparse");
    }

    #[test]
    fn wrong_formats_say_what_would_be_right() {
        assert!(wrong("mrs").starts_with("there is no format \"mrs\"; did you mean msr? known are native, msr, "));
        assert_eq!(wrong("msr:unit=1"), "format msr has no option \"unit\"; it has none");
        assert!(wrong("blkparse:events=D").contains("it has event=D|Q|G|I|C"));
        assert_eq!(wrong("blkparse:event=M"), "format blkparse: event is \"M\", expected D, Q, G, I or C");
        assert_eq!(wrong("blkparse:D"), "format blkparse: \"D\" is not key=value");
        assert_eq!(wrong("srt:unit=1,unit=2"), "format srt: unit is given twice");
        assert!(wrong("srt:unit=0").contains("between 1 and 4294967295"));
        assert!(wrong("srt:unit=+1").contains("between 1 and 4294967295"));
        assert!(wrong("oracle-general").contains("give oracle-general:op=R or oracle-general:op=W"));
        assert!(wrong("oracle-general:op=F").contains("expected R or W"));
        assert!(wrong("columns").contains("describe them"));
        assert!(wrong("columns:off=bytes").starts_with("format columns: there is no column len"));
        assert!(wrong("fio:wait=s").contains("expected us or ms"));
    }
}
