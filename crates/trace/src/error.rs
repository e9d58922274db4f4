//! Defines the errors of traces: the fault, its place, and what would be right.

use std::fmt;
use std::path::{Path, PathBuf};

/// Places an error within a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePlace {
    /// A line, counted from 1, of the decompressed text.
    Line(u64),
    /// A byte, counted from 0, of the decompressed data.
    Byte(u64),
    /// The file as a whole.
    File,
}

/// An error in a trace or in how it was asked for: file, place, and reason (which says what would
/// be right).
#[derive(Debug)]
pub struct TraceError {
    /// The file as the user named it.
    pub file: PathBuf,
    /// Places the error within the file.
    pub place: FilePlace,
    /// Names the fault and what would be right, without a final stop.
    pub reason: String,
}

impl TraceError {
    /// An error with a reason of our own.
    pub fn new(file: &Path, place: FilePlace, reason: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place, reason: reason.into() }
    }

    /// An error that the operating system or a decompressor reported.
    #[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
    pub fn io(file: &Path, place: FilePlace, doing: &str, error: std::io::Error) -> Self {
        Self::new(file, place, format!("{doing}: {error}"))
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        match self.place {
            FilePlace::Line(n) => write!(f, ", line {n}")?,
            FilePlace::Byte(n) => write!(f, ", byte {n}")?,
            FilePlace::File => {}
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for TraceError {}
