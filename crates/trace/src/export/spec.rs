//! Describes a format that can be written, and such a format with its options.

use std::fmt;
use std::str::FromStr;

use destage_plan::Op;

use super::exporter::FormatWriter;
use super::fit::UserLosses;
use super::{AnyWriter, EXPORTS};
use crate::formats::{FormatId, suggestion};
use crate::options::{FormatError, FormatOptions, split};

/// Describes a format that can be written.
#[derive(Clone, Copy, Debug)]
pub struct ExportInfo {
    /// Which; its names are those under which it is read.
    pub id: FormatId,
    /// Describes the parts of a trace that the format cannot hold.
    pub cannot: &'static str,
    /// Lists the format's options, each `key=values: meaning`, besides those of all formats
    /// ([`ExportInfo::COMMON`]).
    pub options: &'static [&'static str],
    /// Times may have to be given up too (`drop=times`).
    pub(super) timeless: bool,
}

impl ExportInfo {
    /// Options that all formats have.
    pub const COMMON: &'static [&'static str] = &[
        "drop=flush+discard+read+write+fua+empty: leave these out (of writes with FUA only the FUA)",
        "widen=yes: widen ranges to the units that they touch",
        "times=raise: date requests that are dated before one in front of them like that one",
    ];
}

/// A format that can be written, with its own options.
pub(super) trait ExportFormat: Clone + fmt::Debug + PartialEq + Eq {
    const INFO: ExportInfo;

    /// Takes its own options. It may add to what is given up.
    fn take(options: &mut FormatOptions<'_>, losses: &mut UserLosses) -> Result<Self, FormatError>;

    /// The options that are not as without being given, as they would be given.
    fn options(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns true if volumes are written as numbers, whatever the trace calls them.
    fn numbers_volumes(&self) -> bool {
        true
    }

    /// Returns true if all volumes are laid over each other.
    fn merges_volumes(&self) -> bool {
        false
    }

    fn writer(&self) -> Box<dyn FormatWriter>;
}

/// A format to write and its options: `NAME` or `NAME:key=value,...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportSpec {
    format: AnyWriter,
    /// As given.
    losses: UserLosses,
    /// With what the format's own options mean besides.
    all_losses: UserLosses,
}

impl ExportSpec {
    /// Returns the format.
    pub fn id(&self) -> FormatId {
        self.format.info().id
    }

    /// Returns true if volumes are written as numbers, whatever the trace calls them.
    pub fn numbers_volumes(&self) -> bool {
        self.format.numbers_volumes()
    }

    /// Returns the losses that the user accepts, without those that the format's own options imply.
    pub(super) fn given_losses(&self) -> UserLosses {
        self.losses
    }

    /// The same format with other losses.
    pub(super) fn with_losses(&self, losses: UserLosses) -> Self {
        Self { losses, ..self.clone() }
    }

    pub(super) fn all_losses(&self) -> UserLosses {
        self.all_losses
    }

    pub(super) fn merges_volumes(&self) -> bool {
        self.format.merges_volumes()
    }

    pub(super) fn writer(&self) -> Box<dyn FormatWriter> {
        self.format.writer()
    }
}

/// Reads the losses that the user accepts from the options.
///
/// # Errors
/// Refuses a word that names no loss.
fn losses(options: &mut FormatOptions<'_>, info: &ExportInfo) -> Result<UserLosses, FormatError> {
    let mut losses = UserLosses::default();
    if let Some(text) = options.take("drop") {
        for word in text.split('+') {
            let kind = Op::ALL.into_iter().find(|op| op.word() == word);
            match (word, kind) {
                (_, Some(op)) => losses.kinds[op as usize] = true,
                ("fua", None) => losses.fua = true,
                ("empty", None) => losses.empty = true,
                ("times", None) if info.timeless => losses.times = true,
                _ => {
                    let times = if info.timeless { ", times" } else { "" };
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
            let near = suggestion(name, [FormatId::Native].into_iter().chain(EXPORTS.iter().map(|info| info.id)));
            FormatError::new(format!(
                "format \"{}\" cannot be written; {near}native and {} can",
                name.escape_debug(),
                names.join(", ")
            ))
        })?;
        let mut options = FormatOptions::parse(info.id.name(), rest)?;
        let losses = losses(&mut options, info)?;
        let mut all_losses = losses;
        let format = AnyWriter::take(info.id, &mut options, &mut all_losses)?;
        options.finish(info.options.iter().chain(ExportInfo::COMMON).copied())?;
        Ok(Self { format, losses, all_losses })
    }
}

impl fmt::Display for ExportSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = self.format.options();
        let mut drop: Vec<&str> =
            Op::ALL.into_iter().filter(|op| self.losses.kinds[*op as usize]).map(Op::word).collect();
        drop.extend(
            [("fua", self.losses.fua), ("empty", self.losses.empty), ("times", self.losses.times)]
                .iter()
                .filter_map(|&(word, given)| given.then_some(word)),
        );
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
        assert_eq!(wrong("spc:widen=yes,widen=yes"), "format spc: widen is given twice");
        assert_eq!(wrong("fio:version=1"), "format fio: version is \"1\", expected 3 or 2");
    }
}
