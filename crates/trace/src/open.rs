//! From a file's name to its requests.

use std::io::Read;
use std::path::{Path, PathBuf};

use destage_plan::{Nanos, Request};

use crate::compress::{Compression, Input, Meter};
use crate::detect::{HEAD, detect};
use crate::error::{Place, TraceError};
use crate::format::{FormatId, FormatSpec, Kind};
use crate::formats::alibaba::Alibaba;
use crate::formats::blkparse::Blkparse;
use crate::formats::blktrace::{self, BlktraceSource, Recording};
use crate::formats::block_events::DEFAULT_EVENT;
use crate::formats::columns::Columns;
use crate::formats::diskmon::Diskmon;
use crate::formats::disksim::Disksim;
use crate::formats::fio::Fio;
use crate::formats::msr::Msr;
use crate::formats::msr_cut::MsrCut;
use crate::formats::oracle_general::OracleGeneral;
use crate::formats::rq_csv::RqCsv;
use crate::formats::spc::Spc;
use crate::formats::srt::Srt;
use crate::formats::ssdsim::Ssdsim;
use crate::formats::systor::Systor;
use crate::formats::tencent::Tencent;
use crate::formats::vscsi::{Fit, Vscsi};
use crate::formats::wiscsee::Wiscsee;
use crate::lines::{LineFormat, LineSource, Probe, probe};
use crate::native::NativeReader;
use crate::records::RecordSource;
use crate::source::{Skipped, Source};

/// How to open a trace.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The file's format; found from its content if `None`.
    pub format: Option<FormatSpec>,
    /// Leave out lines and records that cannot be read, and count them, instead of stopping there. The native format
    /// has nothing to leave out: its checksums hold or they do not.
    pub lenient: bool,
}

/// An open trace.
///
/// Times are nanoseconds after the earliest request of the first batch; a later one that its recorder dated before it
/// counts as simultaneous with it. The order is the file's. A batch that ends in an error is empty, and after
/// it there are no further requests.
pub struct Trace {
    source: Box<dyn Source>,
    file: PathBuf,
    /// All files that are read, if there are several.
    files: Vec<PathBuf>,
    format: FormatSpec,
    compression: Compression,
    meter: Meter,
}

impl Trace {
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

    /// How the file is compressed.
    pub fn compression(&self) -> Compression {
        self.compression
    }
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace")
            .field("file", &self.file)
            .field("format", &self.format)
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}

impl Source for Trace {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        self.source.next_batch(out)
    }

    fn latencies(&mut self, out: &mut Vec<Nanos>) -> Result<bool, TraceError> {
        self.source.latencies(out)
    }

    fn volume_names(&self) -> &[String] {
        self.source.volume_names()
    }

    fn skipped(&self) -> Skipped {
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

/// Opens a trace file, or standard input for `-`: undoes its compression and finds its format. A recording of blktrace is
/// named without the ending of its files, `NAME` for `NAME.blktrace.0` and so on, and all of them are read.
///
/// # Errors
///
/// If the file cannot be opened, is empty, or its format was not given and its content fits none or more than one: the
/// error then says what would be right. Malformed content further on is an error of [`Source::next_batch`].
pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Trace, TraceError> {
    let path = path.as_ref();
    if let Some(recording) = Recording::named(path)? {
        return open_recording(path, &recording, options);
    }
    let (input, meter) = Input::open(path)?;
    // A native file can be looked at from its end, a stream cannot.
    let seekable = (input.compression() == Compression::None && meter.size().is_some()).then_some(path);
    let trace = open_input(input, meter, seekable, options)?;
    if matches!(trace.format.0, Kind::Blktrace { one_cpu: false, .. })
        && let Some((name, others)) = blktrace::other_parts(path)
    {
        let reason = format!(
            "is one CPU's file of a recording that has {} more; give {} to read all of them, or --format \
             blktrace:cpus=one to read this one alone",
            others.len(),
            name.display()
        );
        return Err(TraceError::new(path, Place::File, reason));
    }
    Ok(trace)
}

/// The files that [`open`] would read of this name: the one of that name (`-` is the standard input), or those of a
/// recording by blktrace.
pub fn files(path: impl AsRef<Path>) -> Vec<PathBuf> {
    let path = path.as_ref();
    match Recording::named(path) {
        Ok(Some(recording)) => recording.files,
        // What is wrong with it is told when it is opened.
        Ok(None) | Err(_) => vec![path.to_owned()],
    }
}

/// Opens all files of a recording by blktrace.
fn open_recording(path: &Path, recording: &Recording, options: &OpenOptions) -> Result<Trace, TraceError> {
    let wrong = |reason: String| Err(TraceError::new(path, Place::File, reason));
    let format = options.format.clone().unwrap_or(FormatSpec(Kind::Blktrace { event: DEFAULT_EVENT, one_cpu: false }));
    let event = match format.0 {
        Kind::Blktrace { event, one_cpu: false } => event,
        Kind::Blktrace { .. } => {
            return wrong(format!(
                "is a whole recording; give one CPU's file, such as {}",
                recording.files[0].display()
            ));
        }
        _ => {
            let first = recording.files[0].display();
            return wrong(format!("is no file; there is a recording of blktrace ({first}), which is not {format}"));
        }
    };
    let (mut parts, mut meters) = (Vec::new(), Vec::new());
    for file in &recording.files {
        let (mut input, meter) = Input::open(file)?;
        // A CPU that did nothing leaves an empty file.
        if !input.look_ahead(1)?.is_empty() {
            parts.push(input);
            meters.push(meter);
        }
    }
    let Some(first) = parts.first() else { return wrong("all files of the recording are empty".to_owned()) };
    let compression = first.compression();
    let source = Box::new(BlktraceSource::new(event, parts, options.lenient));
    let files = recording.files.clone();
    Ok(Trace { source, file: path.to_owned(), files, format, compression, meter: Meter::sum(meters) })
}

/// Like [`open`], from a stream of bytes that is called `name` in messages and has `size` bytes if that is known.
pub fn open_stream(
    name: impl AsRef<Path>,
    stream: Box<dyn Read + Send>,
    size: Option<u64>,
    options: &OpenOptions,
) -> Result<Trace, TraceError> {
    let (input, meter) = Input::new(name.as_ref(), stream, size)?;
    open_input(input, meter, None, options)
}

fn open_input(
    mut input: Input,
    meter: Meter,
    seekable: Option<&Path>,
    options: &OpenOptions,
) -> Result<Trace, TraceError> {
    let file = input.file().to_owned();
    let compression = input.compression();
    let head = input.look_ahead(HEAD)?;
    if head.is_empty() {
        return Err(TraceError::new(&file, Place::File, "is empty, expected a trace"));
    }
    let format = match &options.format {
        Some(format) => format.clone(),
        None => detect(head).map_err(|reason| TraceError::new(&file, Place::File, reason))?,
    };
    let source = match (seekable, &format.0) {
        (Some(path), Kind::Native) => Box::new(NativeReader::open_file(path)?),
        _ => source(&file, &format, input, options.lenient)?,
    };
    Ok(Trace { source, file, files: Vec::new(), format, compression, meter })
}

/// Evaluates `$body` with `$format` bound to the text format of `$kind`, or `$other` if it is none. A described
/// table needs the `$head` of the file to find its separator; `$failed` turns its reason into the caller's error.
macro_rules! with_line_format {
    ($kind:expr, $head:expr, $format:ident => $body:expr, failed: $failed:expr, other: $other:expr) => {{
        macro_rules! run {
            ($value:expr) => {{
                let $format = $value;
                $body
            }};
        }
        match $kind {
            Kind::Msr => run!(Msr),
            Kind::Systor => run!(Systor),
            Kind::RqCsv => run!(RqCsv),
            Kind::Tencent => run!(Tencent),
            Kind::Alibaba => run!(Alibaba),
            Kind::Spc => run!(Spc),
            Kind::Disksim => run!(Disksim),
            Kind::Ssdsim => run!(Ssdsim),
            Kind::MsrCut => run!(MsrCut),
            Kind::Diskmon => run!(Diskmon),
            Kind::Wiscsee => run!(Wiscsee::default()),
            Kind::Blkparse { event } => run!(Blkparse::new(*event)),
            Kind::Fio { wait } => run!(Fio::new(*wait)),
            Kind::Columns(table) => match table.separator($head) {
                Ok(b',') => run!(Columns::<b','>::new(table.clone())),
                Ok(b'\t') => run!(Columns::<b'\t'>::new(table.clone())),
                Ok(b';') => run!(Columns::<b';'>::new(table.clone())),
                Ok(_) => run!(Columns::<b' '>::new(table.clone())),
                Err(reason) => $failed(reason),
            },
            Kind::Native | Kind::Blktrace { .. } | Kind::Vscsi | Kind::Srt { .. } | Kind::OracleGeneral { .. } => {
                $other
            }
        }
    }};
}

fn source(file: &Path, format: &FormatSpec, mut input: Input, lenient: bool) -> Result<Box<dyn Source>, TraceError> {
    fn lines<F: LineFormat + 'static>(format: F, input: Input, lenient: bool) -> Box<dyn Source> {
        Box::new(LineSource::new(format, input, lenient))
    }
    let failed = |reason: String| Err(TraceError::new(file, Place::File, reason));
    let head = input.look_ahead(HEAD)?.to_vec();
    with_line_format!(
        &format.0,
        &head,
        f => Ok(lines(f, input, lenient)),
        failed: failed,
        other: match format.0 {
            Kind::Vscsi => match Vscsi::fitting(&head) {
                Some(Fit { layout, .. }) => Ok(Box::new(RecordSource::new(layout, input, lenient))),
                None => failed("the first record has no vscsi version, expected 1 (32-byte records) or 2 (40)".into()),
            },
            Kind::Blktrace { event, .. } => Ok(Box::new(BlktraceSource::new(event, vec![input], lenient))),
            Kind::Srt { unit } => Ok(Box::new(RecordSource::new(Srt::new(unit), input, lenient))),
            Kind::OracleGeneral { op, unit } => {
                Ok(Box::new(RecordSource::new(OracleGeneral::new(op, unit), input, lenient)))
            }
            _ => Ok(Box::new(NativeReader::open(file, Box::new(input))?)),
        }
    )
}

/// How well a text format reads whole lines (see [`probe`]); `None` for formats that are not text.
pub(crate) fn probe_text(format: &FormatSpec, text: &[u8], patient: bool) -> Option<Probe> {
    with_line_format!(
        &format.0,
        text,
        f => Some(probe(&mut { f }, text, patient)),
        failed: |_| None,
        other: None
    )
}
