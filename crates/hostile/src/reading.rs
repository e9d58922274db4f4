//! What every reader of traces promises, whatever it reads.
//!
//! - It ends, and after its end or an error there are no further requests.
//! - A batch is not larger than [`BATCH_REQUESTS`] and one.
//! - Of a foreign format every range ends below 2^64, a flush has none, only a write is FUA, every volume has a name,
//!   or is the only one, and the times of the first batch begin at zero.
//! - How the bytes arrive, all at once or a few at a time, makes no difference.
//! - A lenient reader differs from a strict one only where the strict one fails, and names that failure first.
//! - A sample of a format with one line replaced, by whatever, is never found to be of another format.

use std::io::{Cursor, Read};
use std::sync::Arc;

use destage_plan::{Op, Request};
use destage_trace::{BATCH_REQUESTS, Compression, FormatId, FormatSpec, OpenOptions, Skipped, Source, open_stream};

/// Checks all promises over `bytes`. Of several formats the length of the bytes decides, so that a seed is a trace as it
/// comes.
pub(crate) fn check(formats: &[&str], bytes: &[u8]) {
    let format = match formats {
        [] => None,
        _ => Some(formats[bytes.len() % formats.len()].parse().expect("the formats of targets are well-formed")),
    };
    check_as(format, bytes);
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

/// How line `n` of a sample looks.
type SampleLine = fn(u64) -> String;

/// Formats of text, each with what makes a line of its sample. Of the three that can be taken for one another there are
/// samples that tell which they are and samples that do not.
const SAMPLES: [(FormatId, SampleLine); 15] = [
    (FormatId::Msr, |n| format!("{},h,{},Read,{},4096,9", 128_000_000_000_000_000 + n * 20_000, n % 2, n * 8192)),
    (FormatId::Systor, |n| format!("14500000{n:02}.5,0.001,R,{},{},512", n % 3, n * 8192)),
    (FormatId::RqCsv, |n| format!("{},{},{},8", n * 700, ["R", "W", "WF", "D"][n as usize % 4], n * 64)),
    (FormatId::Tencent, |n| format!("{},{},64,{},7", 1_540_000_000 + n / 9, n * 128, n % 2)),
    (FormatId::Alibaba, |n| format!("{},W,{},4096,{}", n % 3, n * 8192, 1_580_000_000_000_000 + n * 350)),
    (FormatId::Spc, |n| format!("{},{},1536,r,0.{:06}", n % 3, n * 64, n * 20_011)),
    (FormatId::Disksim, |n| format!("{}.25 0 {} 8 {}", n * 31, n * 64, ["0", "1", "b", "12"][n as usize % 4])),
    (FormatId::Disksim, |n| format!("{} 0 {} 8 {}", n * 31, n * 64, n % 2)),
    (FormatId::Ssdsim, |n| format!("{} 0 {} 16 {}", n * 26_000_000, n * 64, n % 2)),
    (FormatId::Ssdsim, |n| format!("{} 0 {} 16 {}", n * 26, n * 64, n % 2)),
    (FormatId::MsrCut, |n| format!("{}.5 0 {} 4096 {}", n * 24, n * 8192, n % 2)),
    (FormatId::MsrCut, |n| format!("{} 0 {} 4096 {}", n * 24, n * 8192, n % 2)),
    (FormatId::Diskmon, |n| format!("{n}\t{}.5\t0.1\t0\tRead\t{}\t16", n / 3, n * 64)),
    (FormatId::Wiscsee, |n| format!("100 D write {} 4096 {}.25 0.1 True", n * 8192, n / 4)),
    (FormatId::Blkparse, |n| format!("8,0 1 {n} 0.{n:09} 500 D WS {} + 8 [sync]", n * 64)),
];

/// Which sample, which of its lines, and what stands there instead: no format but the sample's own is found.
pub(crate) fn damaged(bytes: &[u8]) {
    let &[sample, number, ref line @ ..] = bytes else { return };
    let (own, sample) = SAMPLES[usize::from(sample) % SAMPLES.len()];
    let line = line.split(|&b| b == b'\n').next().unwrap_or_default();
    let mut text = Vec::new();
    for n in 0..SAMPLE_LINES {
        if n == u64::from(number) % SAMPLE_LINES {
            text.extend_from_slice(line);
        } else {
            text.extend(sample(n).bytes());
        }
        text.push(b'\n');
    }
    let size = text.len() as u64;
    if let Ok(trace) = open_stream("trace", Box::new(Cursor::new(text)), Some(size), &OpenOptions::default()) {
        assert_eq!(trace.format(), own, "the format that is found");
    }
}

fn check_as(format: Option<FormatSpec>, bytes: &[u8]) {
    let bytes: Arc<[u8]> = bytes.into();
    // Pieces of 1 to 7 bytes, in an order that differs from input to input.
    let pieces = crc32c::crc32c(&bytes) | 1;
    let strict = read(&bytes, 0, format.clone(), false);
    let lenient = read(&bytes, 0, format.clone(), true);
    let in_pieces = read(&bytes, pieces, format, false);

    if strict.compression == Some(Compression::None) || strict.error.is_none() {
        assert_eq!(strict, in_pieces, "all at once, and in pieces");
    } else {
        // How far a decompressor comes before it finds the damage depends on the pieces.
        assert!(in_pieces.error.is_some(), "fails only when read at once: {:?}", strict.error);
    }
    match (&strict.error, &lenient.error) {
        (None, _) => {
            assert_eq!(strict, lenient, "strict and lenient");
            assert_eq!(lenient.skipped, Skipped::default());
        }
        (Some(error), None) => {
            assert!(lenient.skipped.count > 0, "the lenient reader is silent about: {error}");
            assert_eq!(lenient.skipped.first.as_ref(), Some(error), "the first that was left out");
        }
        (Some(_), Some(_)) => {}
    }
    assert_eq!(strict.skipped, Skipped::default(), "a strict reader leaves nothing out");
}

/// What reading came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// `None` where the trace could not be opened.
    compression: Option<Compression>,
    requests: u64,
    /// Of all requests and latencies.
    digest: u64,
    latency_error: Option<String>,
    names: Vec<String>,
    skipped: Skipped,
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
        // They are asked for after a failure too, and are the same each time.
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

/// What a foreign format's requests are like.
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
