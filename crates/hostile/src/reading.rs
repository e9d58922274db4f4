//! Checks the promises of every reader of traces, whatever it reads.
//!
//! - It ends, and after its end or an error there are no further requests.
//! - A batch is not larger than [`BATCH_REQUESTS`] and one.
//! - Of a foreign format every range ends below 2^64, a flush has none, and only a write is FUA. Every volume has a
//!   name, or is the only one. The times of the first batch begin at zero.
//! - How the bytes arrive, all at once or a few at a time, makes no difference.
//! - A lenient reader differs from a strict one only where the strict one fails, and names that failure first.
//! - A sample of a format with one line replaced, by whatever, is never found to be of another format.

use std::io::{Cursor, Read};
use std::sync::Arc;

use destage_plan::{Op, Request};
use destage_trace::{
    BATCH_REQUESTS, FORMATS, FormatContent, FormatFinding, FormatId, FormatSample, FormatSpec, OpenOptions,
    SkippedLines, TraceCompression, TraceSource, open_stream,
};

/// Checks all promises over `bytes`, as a trace in this format; without one it is found. Of several
/// options the length of the bytes decides, so that a seed is a trace as it comes.
pub(crate) fn check(format: Option<FormatId>, bytes: &[u8]) {
    let spec = format.map(|id| {
        let examples = id.examples();
        examples[bytes.len() % examples.len()].parse().expect("the examples of formats are well-formed")
    });
    check_as(spec, bytes);
}

/// A table after its description.
pub(crate) fn described(bytes: &[u8]) {
    let end = bytes.iter().position(|&b| b == b'\n').unwrap_or(bytes.len());
    let (description, table) = bytes.split_at(end);
    let Ok(description) = std::str::from_utf8(description) else { return };
    let Ok(format) = format!("columns:{description}").parse::<FormatSpec>() else { return };
    check_as(Some(format), table.get(1..).unwrap_or_default());
}

/// Lines of the samples that [`damaged`] damages.
const SAMPLE_LINES: u64 = 40;

/// The samples of all formats of text that content can tell, with their names. Of the three that
/// can be taken for one another there are samples that tell which they are and samples that do not.
fn samples() -> Vec<(FormatId, String, &'static FormatSample)> {
    let all = FORMATS.iter().flat_map(|&id| id.samples().map(move |(name, sample)| (id, name, sample)));
    let told = |id: FormatId| id.info().finding != FormatFinding::Never;
    // A title is the only line that tells such a format, so replacing it leaves nothing to find it by.
    let untitled = |sample: &FormatSample| matches!(sample.content, FormatContent::Lines { title: None, .. });
    all.filter(|(id, _, sample)| told(*id) && untitled(sample)).collect()
}

/// A sample's name, the end of the line, which of its lines, and what stands there instead: no
/// format but the sample's own is found. What is no name chooses a sample too.
pub(crate) fn damaged(bytes: &[u8]) {
    let end = bytes.iter().position(|&b| b == b'\n').unwrap_or(bytes.len());
    let (chosen, rest) = bytes.split_at(end);
    let [_, number, line @ ..] = rest else { return };
    let samples = samples();
    let at = samples.iter().position(|(_, name, _)| name.as_bytes() == chosen);
    let (own, _, sample) = &samples[at.unwrap_or(crc32c::crc32c(chosen) as usize % samples.len())];
    let mut pieces = sample.pieces(SAMPLE_LINES);
    let at = usize::from(*number) % pieces.len();
    pieces[at] = line.split_inclusive(|&b| b == b'\n').next().unwrap_or_default().to_vec();
    if !pieces[at].ends_with(b"\n") {
        pieces[at].push(b'\n');
    }
    let text = pieces.concat();
    let size = text.len() as u64;
    if let Ok(trace) = open_stream("trace", Box::new(Cursor::new(text)), Some(size), &OpenOptions::default()) {
        assert_eq!(trace.format(), *own, "the format that is found");
    }
}

fn check_as(format: Option<FormatSpec>, bytes: &[u8]) {
    let bytes: Arc<[u8]> = bytes.into();
    // Pieces of 1 to 7 bytes, in an order that the input decides, so a failure can be repeated.
    let pieces = crc32c::crc32c(&bytes) | 1;
    let strict = read(&bytes, 0, format.clone(), false);
    let lenient = read(&bytes, 0, format.clone(), true);
    let in_pieces = read(&bytes, pieces, format, false);

    if strict.compression == Some(TraceCompression::None) || strict.error.is_none() {
        assert_eq!(strict, in_pieces, "all at once, and in pieces");
    } else {
        // A decompressor finds damage sooner or later, depending on the pieces that it is given.
        assert!(in_pieces.error.is_some(), "fails only when read at once: {:?}", strict.error);
    }
    match (&strict.error, &lenient.error) {
        (None, _) => {
            assert_eq!(strict, lenient, "strict and lenient");
            assert_eq!(lenient.skipped, SkippedLines::default());
        }
        (Some(error), None) => {
            assert!(lenient.skipped.count > 0, "the lenient reader is silent about: {error}");
            assert_eq!(lenient.skipped.first.as_ref(), Some(error), "the first that was left out");
        }
        (Some(_), Some(_)) => {}
    }
    assert_eq!(strict.skipped, SkippedLines::default(), "a strict reader leaves nothing out");
}

/// Holds the result of reading.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// `None` where the trace could not be opened.
    compression: Option<TraceCompression>,
    requests: u64,
    /// Of all requests and latencies.
    digest: u64,
    latency_error: Option<String>,
    names: Vec<String>,
    skipped: SkippedLines,
    error: Option<String>,
}

fn read(bytes: &Arc<[u8]>, pieces: u32, format: Option<FormatSpec>, lenient: bool) -> Outcome {
    let stream = Box::new(Pieces { bytes: Arc::clone(bytes), at: 0, order: pieces });
    let options = OpenOptions { format, lenient };
    let mut outcome = Outcome::default();
    let mut trace = match open_stream("trace", stream, Some(bytes.len() as u64), &options) {
        Ok(trace) => trace,
        Err(error) => return Outcome { error: Some(error.to_string()), ..outcome },
    };
    outcome.compression = Some(trace.compression());
    let native = trace.format() == FormatId::Native;
    let (mut batch, mut latencies) = (Vec::new(), Vec::new());
    loop {
        if let Err(error) = trace.next_batch(&mut batch) {
            assert!(batch.is_empty(), "{} requests beside the error: {error}", batch.len());
            outcome.error = Some(error.to_string());
            break;
        }
        if batch.is_empty() {
            break;
        }
        assert!(batch.len() <= BATCH_REQUESTS + 1, "a batch of {}", batch.len());
        if !native {
            sound(&batch, trace.volume_names().len(), outcome.requests == 0);
        }
        outcome.digest = batch.iter().fold(outcome.digest, fold);
        outcome.requests += batch.len() as u64;
        // Latencies are asked for twice, also after a failure: the answer must not change.
        for _ in 0..2 {
            match trace.latencies(&mut latencies) {
                Ok(any) => assert_eq!(latencies.len(), if any { batch.len() } else { 0 }, "latencies of the batch"),
                Err(error) => {
                    assert!(latencies.is_empty(), "latencies beside the error: {error}");
                    assert_eq!(*outcome.latency_error.get_or_insert(error.to_string()), error.to_string());
                }
            }
        }
        outcome.digest = latencies.iter().fold(outcome.digest, |digest, latency| mix(digest, latency.0));
        let progress = trace.progress();
        assert!(progress.is_none_or(|share| (0.0..=1.0).contains(&share)), "{progress:?} of the file");
    }
    for _ in 0..2 {
        let more = trace.next_batch(&mut batch);
        assert!(batch.is_empty(), "{} requests after the end", batch.len());
        assert!(more.is_ok() || outcome.error.is_some(), "an error after the end: {more:?}");
    }
    outcome.names = trace.volume_names().to_vec();
    outcome.skipped = trace.skipped();
    outcome
}

/// Checks the requests of a foreign format.
fn sound(batch: &[Request], names: usize, first: bool) {
    for request in batch {
        let Request { offset, len, volume, op, fua, .. } = *request;
        assert!(offset.checked_add(len).is_some(), "beyond 2^64: {request:?}");
        assert!(op != Op::Flush || (offset, len) == (0, 0), "a flush with a range: {request:?}");
        assert!(!fua || op == Op::Write, "only writes are FUA: {request:?}");
        assert!((volume as usize) < names.max(1), "{names} names: {request:?}");
    }
    let earliest = batch.iter().map(|request| request.time.0).min();
    assert!(!first || earliest == Some(0), "the first batch begins at {earliest:?}");
}

fn fold(digest: u64, request: &Request) -> u64 {
    let Request { time, offset, len, volume, op, fua } = *request;
    let rest = u64::from(volume) << 3 | (op as u64) << 1 | u64::from(fua);
    [time.0, offset, len, rest].into_iter().fold(digest, mix)
}

fn mix(digest: u64, value: u64) -> u64 {
    (digest.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A stream that gives its bytes all at once, or 1 to 7 at a time.
struct Pieces {
    bytes: Arc<[u8]>,
    at: usize,
    /// State of the generator that draws the sizes; 0 for all at once.
    order: u32,
}

impl Read for Pieces {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let mut n = buf.len().min(self.bytes.len() - self.at);
        if self.order != 0 {
            self.order = self.order.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            n = n.min(1 + (self.order >> 16) as usize % 7);
        }
        buf[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
