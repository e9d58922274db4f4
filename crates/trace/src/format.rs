//! Declares a format: all that the rest of the program knows of it. Each format is a file in `formats/` with
//! its declaration, and a line of the list there.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::compress::TraceInput;
use crate::error::TraceError;
use crate::fields::TimeUnit;
use crate::lines::{FormatProbe, LineFormat, LineSource, probe};
use crate::options::{FormatError, FormatOptions};
use crate::source::TraceSource;

/// Decompressed bytes of a file's beginning that are looked at.
pub(crate) const HEAD: usize = 64 * 1024;

/// Says whether a file's content tells its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatFinding {
    /// Tells the format for certain.
    Certain,
    /// Fits another format as well; then the user is asked.
    Ambiguous,
    /// Tells no format: the user must name it.
    Never,
}

/// Describes a format, without a file of it.
#[derive(Clone, Copy, Debug)]
pub struct FormatInfo {
    /// Names the format in `--format`.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// Describes the format.
    pub what: &'static str,
    /// Lists the columns or fields, in order, with units.
    pub columns: &'static str,
    /// Lists the options, each `key=values: meaning`.
    pub options: &'static [&'static str],
    /// Says whether a file's content tells the format.
    pub finding: FormatFinding,
    /// Texts of `--format` that mean it with options. The first means the samples too, if the name
    /// alone means nothing.
    pub examples: &'static [&'static str],
    /// Lists sample files, at least one, for tests and fuzzing.
    pub samples: &'static [FormatSample],
}

/// Makes sample files of a format, of any length.
#[derive(Clone, Copy, Debug)]
pub struct FormatSample {
    /// Names the sample, if the format has others.
    pub name: &'static str,
    /// Is true if the content tells the format; else the user is asked.
    pub found: bool,
    /// Describes the file's content.
    pub content: FormatContent,
}

/// Describes a file's content.
#[derive(Clone, Copy, Debug)]
pub enum FormatContent {
    /// Lines.
    Lines {
        /// The first line, if it is unlike the others.
        title: Option<&'static str>,
        /// Separates columns; a blank stands for any number of blanks.
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

impl FormatSample {
    /// Lines whose columns `separator` separates.
    pub(crate) const fn lines(name: &'static str, separator: u8, line: fn(u64) -> String) -> Self {
        Self { name, found: true, content: FormatContent::Lines { title: None, separator, line } }
    }

    /// The same behind a title.
    pub(crate) const fn titled(title: &'static str, separator: u8, line: fn(u64) -> String) -> Self {
        Self { name: "", found: true, content: FormatContent::Lines { title: Some(title), separator, line } }
    }

    /// Records with fields of these lengths.
    pub(crate) const fn records(
        name: &'static str,
        fields: &'static [usize],
        records: fn(u64) -> Vec<Vec<u8>>,
    ) -> Self {
        Self { name, found: true, content: FormatContent::Records { fields, records } }
    }

    /// The same as one of which the user is asked.
    pub(crate) const fn not_found(self) -> Self {
        Self { found: false, ..self }
    }

    /// The lines with their ends, or records, of a file that has `n` besides its title.
    pub fn pieces(&self, n: u64) -> Vec<Vec<u8>> {
        match self.content {
            FormatContent::Lines { title, line, .. } => {
                let lines = title.map(str::to_owned).into_iter().chain((0..n).map(line));
                lines.map(|line| (line + "\n").into_bytes()).collect()
            }
            FormatContent::Records { records, .. } => records(n),
        }
    }
}

/// Something like random below 100,000, for the addresses of samples.
pub(crate) const fn scattered(n: u64) -> u64 {
    n * 7919 % 99_991
}

/// Recognises a format by the beginning of a file, at most [`HEAD`] bytes. `whole` is true if the beginning
/// is the whole file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FormatSign {
    /// Not at all.
    None,
    /// By lines that it reads, see [`TraceFormat::probe`].
    Lines {
        title: Option<TextTitle>,
        /// The name of a format that reads whatever this one reads, and means something else by it.
        cousin_of: Option<&'static str>,
    },
    /// By a mark, if it begins with that.
    Mark(fn(head: &[u8], whole: bool) -> Option<MarkedBytes>),
    /// By records that nothing marks, if there is any.
    Records(fn(head: &[u8]) -> Option<FormatFit>),
    /// Suspects the format, and gives the message to the user.
    Guess(fn(head: &[u8], whole: bool) -> Option<&'static str>),
}

/// The first line of a text, where it says the format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextTitle {
    pub(crate) begins: fn(text: &[u8]) -> bool,
    /// Names a text with this mark in messages.
    pub(crate) called: &'static str,
}

/// Measures the part of a file that belongs to the format whose mark begins the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkedBytes {
    /// Bytes of its beginning.
    pub(crate) bytes: usize,
    /// They are more than could stand in front of another file by mistake.
    pub(crate) proven: bool,
}

impl MarkedBytes {
    /// All that is looked at.
    pub(crate) const fn all(head: &[u8]) -> Self {
        Self { bytes: head.len(), proven: true }
    }
}

/// Measures how well the beginning of a file fits a format of records.
#[derive(Debug)]
pub(crate) struct FormatFit {
    /// Whole records that are of the format, and that are not.
    pub(crate) good: usize,
    pub(crate) bad: usize,
    /// Holds the offset of the first bad record in bytes, and the reason.
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

/// Describes the opened file.
pub(crate) struct TraceOpening<'a> {
    /// The path of a file that can also be read from its end.
    pub(crate) seekable: Option<&'a Path>,
    pub(crate) input: TraceInput,
    /// Further files, of a format that is recorded in several.
    pub(crate) others: Vec<TraceInput>,
    /// Leave out what cannot be read.
    pub(crate) lenient: bool,
}

/// A format with its options.
pub(crate) trait TraceFormat: Clone + fmt::Debug + PartialEq + Eq + Sized {
    const INFO: FormatInfo;

    const SIGN: FormatSign;

    /// Gives its units, where it is a table that others may look like.
    const TABLE: Option<TableUnits> = None;

    /// The format without options, unless it requires some.
    fn plain() -> Option<Self>;

    /// Parses what stands behind the name.
    fn parse(text: Option<&str>) -> Result<Self, FormatError> {
        let mut options = FormatOptions::parse(Self::INFO.name, text)?;
        let format = Self::take(&mut options)?;
        options.finish(Self::INFO.options.iter().copied())?;
        Ok(format)
    }

    /// Takes its options.
    fn take(_options: &mut FormatOptions<'_>) -> Result<Self, FormatError> {
        Self::plain().ok_or_else(|| FormatError::new(format!("format {} needs options", Self::INFO.name)))
    }

    /// The options that are not as without being given, as they would be given.
    fn options(&self) -> Vec<String> {
        Vec::new()
    }

    /// A source of the requests, from the beginning.
    fn open(&self, opening: TraceOpening<'_>) -> Result<Box<dyn TraceSource>, TraceError>;

    /// Measures how well the format reads whole lines (see [`probe`]); `None` for formats that are not found
    /// by their lines.
    fn probe(&self, _text: &[u8], _patient: bool) -> Option<FormatProbe> {
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

    /// Describes the first line, if the line tells the format.
    const TITLE: Option<TextTitle> = None;

    /// See [`FormatSign::Lines`].
    const COUSIN_OF: Option<&'static str> = None;

    /// Returns [`TraceFormat::TABLE`].
    const TABLE: Option<TableUnits> = None;

    type BlkparseLines: LineFormat + 'static;

    /// Takes its options.
    fn take(_options: &mut FormatOptions<'_>) -> Result<Self, FormatError> {
        Ok(Self::default())
    }

    /// The options that are not as without being given, as they would be given.
    fn options(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the parser of a file.
    fn lines(&self) -> Self::BlkparseLines;

    /// Returns the parser for a trial, which decides whether lines are of the format.
    fn trial(&self) -> Self::BlkparseLines {
        self.lines()
    }
}

impl<F: TextFormat> TraceFormat for F {
    const INFO: FormatInfo = <F as TextFormat>::INFO;

    const SIGN: FormatSign = FormatSign::Lines { title: F::TITLE, cousin_of: F::COUSIN_OF };

    const TABLE: Option<TableUnits> = F::TABLE;

    fn plain() -> Option<Self> {
        Some(F::default())
    }

    fn take(options: &mut FormatOptions<'_>) -> Result<Self, FormatError> {
        <F as TextFormat>::take(options)
    }

    fn options(&self) -> Vec<String> {
        TextFormat::options(self)
    }

    fn open(&self, opening: TraceOpening<'_>) -> Result<Box<dyn TraceSource>, TraceError> {
        Ok(Box::new(LineSource::new(self.lines(), opening.input, opening.lenient)))
    }

    fn probe(&self, text: &[u8], patient: bool) -> Option<FormatProbe> {
        Some(probe(&mut self.trial(), text, patient))
    }
}
