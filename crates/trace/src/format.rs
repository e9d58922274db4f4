//! What a format says about itself: all that the rest of the program knows of it. Each format is a
//! file in `formats/` that says it, and a line of the list there.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::compress::Input;
use crate::error::TraceError;
use crate::fields::TimeUnit;
use crate::lines::{LineFormat, LineSource, Probe, probe};
use crate::options::{FormatError, Options};
use crate::source::Source;

/// Decompressed bytes of a file's beginning that are looked at.
pub(crate) const HEAD: usize = 64 * 1024;

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
    /// Texts of `--format` that mean it with options. The first means the samples too, if the name
    /// alone means nothing.
    pub examples: &'static [&'static str],
    /// What files of it look like, at least one: for tests and fuzzing.
    pub samples: &'static [Sample],
}

/// How to make files of a format, as long as need be.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// What tells it from the format's other samples, if there are any.
    pub name: &'static str,
    /// Whether the content tells the format; else the user is asked.
    pub found: bool,
    /// What it consists of.
    pub content: Content,
}

/// What a file consists of.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// Lines.
    Lines {
        /// The first line, if it is unlike the others.
        title: Option<&'static str>,
        /// What separates columns; a blank for any number of blanks.
        separator: u8,
        /// The `n`-th of the other lines.
        line: fn(n: u64) -> String,
    },
    /// Records, or what comes before them.
    Records {
        /// The lengths of a record's fields in bytes.
        fields: &'static [usize],
        /// A file with `n` records, cut into these.
        records: fn(n: u64) -> Vec<Vec<u8>>,
    },
}

impl Sample {
    /// Lines whose columns `separator` separates.
    pub(crate) const fn lines(name: &'static str, separator: u8, line: fn(u64) -> String) -> Self {
        Self { name, found: true, content: Content::Lines { title: None, separator, line } }
    }

    /// The same behind a title.
    pub(crate) const fn titled(title: &'static str, separator: u8, line: fn(u64) -> String) -> Self {
        Self { name: "", found: true, content: Content::Lines { title: Some(title), separator, line } }
    }

    /// Records with fields of these lengths.
    pub(crate) const fn records(
        name: &'static str,
        fields: &'static [usize],
        records: fn(u64) -> Vec<Vec<u8>>,
    ) -> Self {
        Self { name, found: true, content: Content::Records { fields, records } }
    }

    /// The same as one of which the user is asked.
    pub(crate) const fn not_found(self) -> Self {
        Self { found: false, ..self }
    }

    /// The lines with their ends, or records, of a file that has `n` besides its title.
    pub fn pieces(&self, n: u64) -> Vec<Vec<u8>> {
        match self.content {
            Content::Lines { title, line, .. } => {
                let lines = title.map(str::to_owned).into_iter().chain((0..n).map(line));
                lines.map(|line| (line + "\n").into_bytes()).collect()
            }
            Content::Records { records, .. } => records(n),
        }
    }
}

/// Something like random below 100,000, for the addresses of samples.
pub(crate) const fn scattered(n: u64) -> u64 {
    n * 7919 % 99_991
}

/// How the beginning of a file, at most [`HEAD`] bytes, tells that it is of a format. `whole` says
/// that it is all of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sign {
    /// Not at all.
    None,
    /// By lines that it reads, see [`Format::probe`].
    Lines {
        title: Option<Title>,
        /// The name of a format that reads whatever this one reads, and means something else by it.
        cousin_of: Option<&'static str>,
    },
    /// By a mark, if it begins with that.
    Mark(fn(head: &[u8], whole: bool) -> Option<Held>),
    /// By records that nothing marks, if there is any.
    Records(fn(head: &[u8]) -> Option<Fit>),
    /// It only could be of the format; then this is what the user is told.
    Guess(fn(head: &[u8], whole: bool) -> Option<&'static str>),
}

/// The first line of a text, where it says the format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Title {
    pub(crate) begins: fn(text: &[u8]) -> bool,
    /// What messages call a text that has it.
    pub(crate) called: &'static str,
}

/// How much of a file that begins with a format's mark is of that format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// Bytes of its beginning.
    pub(crate) bytes: usize,
    /// They are more than could stand in front of another file by mistake.
    pub(crate) proven: bool,
}

impl Held {
    /// All that is looked at.
    pub(crate) const fn all(head: &[u8]) -> Self {
        Self { bytes: head.len(), proven: true }
    }
}

/// How well the beginning of a file fits a format of records.
#[derive(Debug)]
pub(crate) struct Fit {
    /// Whole records that are of the format, and that are not.
    pub(crate) good: usize,
    pub(crate) bad: usize,
    /// Where the first of the latter begins, in bytes, and why it is none.
    pub(crate) fault: Option<(usize, String)>,
}

/// Gives the units of a table of text, which another table with the same columns may not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableUnits {
    pub(crate) time: TimeUnit,
    /// Counts the bytes that an offset and a length count in.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Describes the table as the format `columns` has it, with TIME, OFFSET and LENGTH for the units.
    pub(crate) columns: &'static str,
    /// Tells that the clock may count from when the machine began, else it tells dates or counts from the trace's beginning.
    pub(crate) counts_from_boot: bool,
}

/// What is read.
pub(crate) struct Opening<'a> {
    /// The path of a file that can also be read from its end.
    pub(crate) seekable: Option<&'a Path>,
    pub(crate) input: Input,
    /// Further files, of a format that is recorded in several.
    pub(crate) others: Vec<Input>,
    /// Leave out what cannot be read.
    pub(crate) lenient: bool,
}

/// A format with its options.
pub(crate) trait Format: Clone + fmt::Debug + PartialEq + Eq + Sized {
    const INFO: FormatInfo;

    const SIGN: Sign;

    /// Gives its units, where it is a table that others may look like.
    const TABLE: Option<TableUnits> = None;

    /// The format without options, unless it requires some.
    fn plain() -> Option<Self>;

    /// Parses what stands behind the name.
    fn parse(text: Option<&str>) -> Result<Self, FormatError> {
        let mut options = Options::parse(Self::INFO.name, text)?;
        let format = Self::take(&mut options)?;
        options.finish(Self::INFO.options.iter().copied())?;
        Ok(format)
    }

    /// Takes its options.
    fn take(_options: &mut Options<'_>) -> Result<Self, FormatError> {
        Self::plain().ok_or_else(|| FormatError::new(format!("format {} needs options", Self::INFO.name)))
    }

    /// The options that are not as without being given, as they would be given.
    fn options(&self) -> Vec<String> {
        Vec::new()
    }

    /// A source of the requests, from the beginning.
    fn open(&self, opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError>;

    /// How well it reads whole lines (see [`probe`]); `None` for formats that are not found by
    /// their lines.
    fn probe(&self, _text: &[u8], _patient: bool) -> Option<Probe> {
        None
    }

    /// The files of a recording in this format that `path`, which is no file, stands for; none if
    /// it does not.
    fn files(_path: &Path) -> Result<Vec<PathBuf>, TraceError> {
        Ok(Vec::new())
    }

    /// Why what `path` stands for, if `recording` those files and else a file, must not be read
    /// with these options.
    fn refuse(&self, _path: &Path, _recording: Option<&[PathBuf]>) -> Option<String> {
        None
    }
}

/// A format of text with its options.
pub(crate) trait TextFormat: Clone + fmt::Debug + Default + PartialEq + Eq {
    const INFO: FormatInfo;

    /// Its first line, if that says the format.
    const TITLE: Option<Title> = None;

    /// See [`Sign::Lines`].
    const COUSIN_OF: Option<&'static str> = None;

    /// Returns [`Format::TABLE`].
    const TABLE: Option<TableUnits> = None;

    type Lines: LineFormat + 'static;

    /// Takes its options.
    fn take(_options: &mut Options<'_>) -> Result<Self, FormatError> {
        Ok(Self::default())
    }

    /// The options that are not as without being given, as they would be given.
    fn options(&self) -> Vec<String> {
        Vec::new()
    }

    /// What reads a file.
    fn lines(&self) -> Self::Lines;

    /// What reads lines only to see whether they are of the format.
    fn trial(&self) -> Self::Lines {
        self.lines()
    }
}

impl<F: TextFormat> Format for F {
    const INFO: FormatInfo = <F as TextFormat>::INFO;

    const SIGN: Sign = Sign::Lines { title: F::TITLE, cousin_of: F::COUSIN_OF };

    const TABLE: Option<TableUnits> = F::TABLE;

    fn plain() -> Option<Self> {
        Some(F::default())
    }

    fn take(options: &mut Options<'_>) -> Result<Self, FormatError> {
        <F as TextFormat>::take(options)
    }

    fn options(&self) -> Vec<String> {
        TextFormat::options(self)
    }

    fn open(&self, opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
        Ok(Box::new(LineSource::new(self.lines(), opening.input, opening.lenient)))
    }

    fn probe(&self, text: &[u8], patient: bool) -> Option<Probe> {
        Some(probe(&mut self.trial(), text, patient))
    }
}
