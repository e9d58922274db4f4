//! From a file's name to its requests.

use std::io::Read;
use std::path::{Path, PathBuf};

use destage_plan::{Nanos, Request};

use crate::clock::ClockWraps;
use crate::compress::{ByteMeter, TraceCompression, TraceInput};
use crate::detect::{detect, refuse};
use crate::error::{FilePlace, TraceError};
use crate::format::{HEAD, TraceOpening};
use crate::formats::{FORMATS, FormatId, FormatSpec};
use crate::source::{SkippedLines, TraceSource};

/// Configures the opening of a trace.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The file's format; found from its content if `None`.
    pub format: Option<FormatSpec>,
    /// Leave out lines and records that cannot be read, and count them, instead of stopping there.
    /// The native format has nothing to leave out: its checksums hold or they do not.
    pub lenient: bool,
}

/// An open trace.
///
/// Times are nanoseconds after the earliest request of the first batch; a later one that its
/// recorder dated before it counts as simultaneous with it. The order is the file's. A batch that
/// ends in an error is empty, and after it there are no further requests.
pub struct TraceRequests {
    source: Box<dyn TraceSource>,
    file: PathBuf,
    /// All files that are read, if there are several.
    files: Vec<PathBuf>,
    format: FormatSpec,
    compression: TraceCompression,
    meter: ByteMeter,
}

impl TraceRequests {
    /// The file as the user named it; `standard input` for `-`.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The files that are read: one, or those of a recording of blktrace.
    pub fn files(&self) -> &[PathBuf] {
        if self.files.is_empty() { std::slice::from_ref(&self.file) } else { &self.files }
    }

    /// The format, given or found.
    pub fn format(&self) -> FormatId {
        self.format.id()
    }

    /// The format with its options, as `--format` would give it.
    pub fn format_spec(&self) -> &FormatSpec {
        &self.format
    }

    /// Returns the compression of the file.
    pub fn compression(&self) -> TraceCompression {
        self.compression
    }
}

impl std::fmt::Debug for TraceRequests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace")
            .field("file", &self.file)
            .field("format", &self.format)
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}

impl TraceSource for TraceRequests {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        self.source.next_batch(out)
    }

    fn latencies(&mut self, out: &mut Vec<Nanos>) -> Result<bool, TraceError> {
        self.source.latencies(out)
    }

    fn volume_names(&self) -> &[String] {
        self.source.volume_names()
    }

    fn clock_wraps(&self) -> ClockWraps {
        self.source.clock_wraps()
    }

    fn passed_over(&self) -> u64 {
        self.source.passed_over()
    }

    fn skipped(&self) -> SkippedLines {
        self.source.skipped()
    }

    fn len_hint(&self) -> Option<u64> {
        self.source.len_hint()
    }

    /// Share of the requests where their number is known, else of the file's (compressed) bytes.
    fn progress(&self) -> Option<f64> {
        self.source.progress().or_else(|| self.meter.share())
    }
}

/// Opens a trace file, or standard input for `-`: undoes its compression and finds its format. A
/// recording of blktrace is named without the ending of its files, `NAME` for `NAME.blktrace.0` and
/// so on, and all of them are read.
///
/// # Errors
///
/// If the file cannot be opened, is empty, or its format was not given and its content fits none or
/// more than one: the error then says what would be right. Malformed content further on is an error
/// of [`TraceSource::next_batch`].
pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<TraceRequests, TraceError> {
    let path = path.as_ref();
    if let Some(recording) = TraceFiles::named(path)? {
        return open_recording(path, recording, options);
    }
    let (input, meter) = TraceInput::open(path)?;
    // Only a plain file can be read at two places; compressed data and pipes go one way.
    let seekable = (input.compression() == TraceCompression::None && meter.size().is_some()).then_some(path);
    let trace = open_input(input, meter, seekable, options)?;
    match trace.format.refuse(path, None) {
        None => Ok(trace),
        Some(reason) => Err(TraceError::new(path, FilePlace::File, reason)),
    }
}

/// The files that [`open`] would read of this name: the one of that name (`-` is the standard
/// input), or those of a recording by blktrace.
pub fn files(path: impl AsRef<Path>) -> Vec<PathBuf> {
    let path = path.as_ref();
    match TraceFiles::named(path) {
        Ok(Some(recording)) => recording.files,
        // What is wrong with it is told when it is opened.
        Ok(None) | Err(_) => vec![path.to_owned()],
    }
}

/// Files that are one trace.
struct TraceFiles {
    /// Without options.
    format: FormatSpec,
    files: Vec<PathBuf>,
}

impl TraceFiles {
    /// The one that a path names without being a file.
    fn named(path: &Path) -> Result<Option<Self>, TraceError> {
        for id in FORMATS {
            let files = id.files(path)?;
            if let (Some(format), false) = (id.plain(), files.is_empty()) {
                return Ok(Some(Self { format, files }));
            }
        }
        Ok(None)
    }
}

/// Opens all files of a recording.
fn open_recording(path: &Path, recording: TraceFiles, options: &OpenOptions) -> Result<TraceRequests, TraceError> {
    let wrong = |reason: String| Err(TraceError::new(path, FilePlace::File, reason));
    let TraceFiles { format: plain, files } = recording;
    // The names of a recording's files tell its format, so that no content is looked at.
    let format = options.format.clone().unwrap_or_else(|| plain.clone());
    if format.id() != plain.id() {
        let first = files[0].display();
        return wrong(format!("is not a file; there is a recording of {plain} ({first}), which is not {format}"));
    }
    if let Some(reason) = format.refuse(path, Some(&files)) {
        return wrong(reason);
    }
    let (mut parts, mut meters) = (Vec::new(), Vec::new());
    for file in &files {
        let (mut input, meter) = TraceInput::open(file)?;
        // A CPU that did nothing leaves an empty file.
        if !input.look_ahead(1)?.is_empty() {
            parts.push(input);
            meters.push(meter);
        }
    }
    let mut parts = parts.into_iter();
    let Some(input) = parts.next() else { return wrong("all files of the recording are empty".to_owned()) };
    let compression = input.compression();
    let opening = TraceOpening { seekable: None, input, others: parts.collect(), lenient: options.lenient };
    let source = format.open(opening)?;
    Ok(TraceRequests { source, file: path.to_owned(), files, format, compression, meter: ByteMeter::sum(meters) })
}

/// Like [`open`], from a stream of bytes that is called `name` in messages and has `size` bytes if
/// that is known.
pub fn open_stream(
    name: impl AsRef<Path>,
    stream: Box<dyn Read + Send>,
    size: Option<u64>,
    options: &OpenOptions,
) -> Result<TraceRequests, TraceError> {
    let (input, meter) = TraceInput::new(name.as_ref(), stream, size)?;
    open_input(input, meter, None, options)
}

fn open_input(
    mut input: TraceInput,
    meter: ByteMeter,
    seekable: Option<&Path>,
    options: &OpenOptions,
) -> Result<TraceRequests, TraceError> {
    let file = input.file().to_owned();
    let compression = input.compression();
    // Detection looks at the head and takes nothing, so that a pipe can be read from its start.
    input.look_ahead(HEAD)?;
    // Records may begin like the mark of UTF-16 by chance.
    if options.format.as_ref().is_none_or(FormatSpec::is_text) {
        input.decode_utf16();
    }
    let head = input.look_ahead(HEAD)?;
    if head.is_empty() {
        return Err(TraceError::new(&file, FilePlace::File, "is empty, expected a trace"));
    }
    let format = match &options.format {
        Some(format) => match refuse(head, format) {
            None => format.clone(),
            Some(reason) => return Err(TraceError::new(&file, FilePlace::File, reason)),
        },
        None => detect(head).map_err(|reason| TraceError::new(&file, FilePlace::File, reason))?,
    };
    let source = format.open(TraceOpening { seekable, input, others: Vec::new(), lenient: options.lenient })?;
    Ok(TraceRequests { source, file, files: Vec::new(), format, compression, meter })
}
