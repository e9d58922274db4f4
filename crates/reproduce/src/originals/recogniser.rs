//! Recognises the trace in one file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use destage_trace::{
    FilePlace, FormatFinding, FormatId, FormatSpec, OpenOptions, TraceError, TraceRequests, TraceSource,
};

use super::catalogue::{KnownTrace, TraceCatalogue};
use super::judge::{TraceLikeness, judge};
use super::measure::MeasuredTrace;
use super::verdict::TraceVerdict;

/// Tells what was found out about a file.
#[derive(Clone, Debug)]
pub struct FoundFile {
    /// Holds its path.
    pub path: PathBuf,
    /// Holds its format, if it could be read.
    pub format: Option<FormatSpec>,
    /// Counts its reads and writes, if they were counted.
    pub requests: Option<u64>,
    /// Says what it is.
    pub verdict: TraceVerdict,
}

/// Recognises files by a catalogue.
#[derive(Clone, Copy, Debug)]
pub struct TraceRecogniser<'a> {
    catalogue: &'a TraceCatalogue,
    /// Names the traces that are looked for; none means all.
    wanted: Option<&'a BTreeSet<String>>,
}

/// Holds a way to read a file.
struct FileReading<'a> {
    format: FormatSpec,
    trace: TraceRequests,
    /// Lists the traces that go round in this format.
    candidates: Vec<&'a KnownTrace>,
}

impl<'a> TraceRecogniser<'a> {
    /// Recognises all traces of a catalogue, or those that are wanted.
    pub const fn new(catalogue: &'a TraceCatalogue, wanted: Option<&'a BTreeSet<String>>) -> Self {
        Self { catalogue, wanted }
    }

    /// Reads a file and says what it is. A file that can only be traces that are not wanted is not read.
    pub fn look(&self, path: &Path) -> FoundFile {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let named: Vec<&KnownTrace> = self.catalogue.traces().iter().filter(|trace| trace.is_named(&name)).collect();
        let found = |format, requests, verdict| FoundFile { path: path.to_owned(), format, requests, verdict };
        let readings = match self.readings(path, &named) {
            Ok(readings) => readings,
            Err(TraceError { place, reason, .. }) => {
                let like = named.iter().find(|trace| !trace.is_piece()).or(named.first()).map(|trace| trace.id.clone());
                let verdict = match (place, like) {
                    // What cannot be decompressed is no question of formats.
                    (FilePlace::Byte(_) | FilePlace::Line(_), trace) => TraceVerdict::Damaged { trace, error: reason },
                    (FilePlace::File, Some(trace)) => {
                        TraceVerdict::NotIt { trace, reason: Some(reason), off: Vec::new() }
                    }
                    (FilePlace::File, None) => TraceVerdict::NoTrace { reason },
                };
                return found(None, None, verdict);
            }
        };
        let mut best: Option<FoundFile> = None;
        for reading in readings {
            let format = reading.format.clone();
            let (verdict, requests) = self.judge(reading, &named);
            // The reading that says most wins: formats that share columns all read the file.
            if best.as_ref().is_none_or(|best| best.verdict.rank() < verdict.rank()) {
                best = Some(found(Some(format), requests, verdict));
            }
        }
        best.expect("a file that can be read has a reading")
    }

    /// Opens a file in each format that it may be meant in.
    fn readings(&self, path: &Path, named: &[&'a KnownTrace]) -> Result<Vec<FileReading<'a>>, TraceError> {
        let reading = |format: FormatSpec, trace: TraceRequests| {
            let candidates = self.catalogue.traces().iter().filter(|known| known.specs.contains(&format)).collect();
            FileReading { format, trace, candidates }
        };
        let open = |format: Option<FormatSpec>| destage_trace::open(path, &OpenOptions { format, lenient: false });
        let error = match open(None) {
            Ok(trace) => return Ok(vec![reading(trace.format_spec().clone(), trace)]),
            // A fault at a line or a byte is one of the content, and no other format would read it.
            Err(error) if error.place != FilePlace::File => return Err(error),
            Err(error) => error,
        };
        // The content does not decide: the formats that it never tells are tried, first of those traces that the name tells.
        let mut tried: Vec<&FormatSpec> = Vec::new();
        let mut readings = Vec::new();
        for known in named.iter().copied().chain(self.catalogue.traces()) {
            for format in &known.specs {
                if tried.contains(&format) || format.id().info().finding == FormatFinding::Certain {
                    continue;
                }
                tried.push(format);
                // The first batch shows whether the format reads it; the file is opened again to judge it
                // whole.
                let first = open(Some(format.clone())).and_then(|mut trace| trace.next_batch(&mut Vec::new()));
                if let (Ok(()), Ok(trace)) = (first, open(Some(format.clone()))) {
                    readings.push(reading(format.clone(), trace));
                }
            }
        }
        if readings.is_empty() { Err(error) } else { Ok(readings) }
    }

    /// Measures a file, if it may be a trace that is looked for, and judges it.
    fn judge(&self, reading: FileReading<'a>, named: &[&'a KnownTrace]) -> (TraceVerdict, Option<u64>) {
        let FileReading { format, mut trace, candidates } = reading;
        let is_named = |known: &KnownTrace| named.iter().any(|named| named.id == known.id);
        if candidates.is_empty() {
            let verdict = match named.first() {
                None => TraceVerdict::OtherTrace,
                Some(known) => wrong_format(known, &format),
            };
            return (verdict, None);
        }
        let wanted = |known: &KnownTrace| self.wanted.is_none_or(|wanted| wanted.contains(&known.id));
        // What has no name of its own may be any of them.
        if !named.is_empty() && !named.iter().any(|known| wanted(known)) {
            return (TraceVerdict::OtherTrace, None);
        }
        let tables = || candidates.iter().flat_map(|known| &known.published);
        let firsts: BTreeSet<u64> = tables().filter_map(|table| table.first).collect();
        let firsts: Vec<u64> = firsts.into_iter().collect();
        let measured = MeasuredTrace::of(&mut trace, &firsts, true);
        let has_names = matches!(format.id(), FormatId::Msr | FormatId::Native);
        let verdicts = candidates.iter().filter_map(|known| {
            let volumes = has_names && !known.volumes.is_empty();
            let like = TraceLikeness {
                is_named: is_named(known),
                has_volumes: volumes.then(|| measured.volumes == known.volumes),
                is_converted: known.specs[0] != format && format.id() != FormatId::Native,
            };
            judge(known, &measured, like)
        });
        // Of two that say as much the first: originals stand before their pieces.
        let best = verdicts.reduce(|best, other| if other.rank() > best.rank() { other } else { best });
        let best = best.map(|verdict| self.with_share(verdict, &measured));
        let verdict = best.unwrap_or_else(|| match (&measured.error, named.first()) {
            (_, Some(known)) => wrong_format(known, &format),
            (Some(error), None) => TraceVerdict::Damaged { trace: None, error: error.clone() },
            (None, None) => TraceVerdict::OtherTrace,
        });
        (verdict, Some(measured.requests()))
    }

    /// Adds which share of its original a known piece is.
    fn with_share(&self, verdict: TraceVerdict, measured: &MeasuredTrace) -> TraceVerdict {
        let TraceVerdict::KnownPiece { trace, .. } = verdict else { return verdict };
        let of = self.catalogue.get(&trace).and_then(|piece| self.catalogue.get(piece.piece_of.as_ref()?));
        let share = of.and_then(KnownTrace::requests).map(|all| measured.requests() as f64 / all);
        TraceVerdict::KnownPiece { trace, share }
    }
}

/// Says that a file named like a trace is in a format in which it does not go round.
fn wrong_format(known: &KnownTrace, format: &FormatSpec) -> TraceVerdict {
    let formats: Vec<&str> = known.specs.iter().map(|spec| spec.id().name()).collect();
    let reason = format!("its format: found {format}, expected {}", formats.join(", "));
    TraceVerdict::NotIt { trace: known.id.clone(), reason: Some(reason), off: Vec::new() }
}
