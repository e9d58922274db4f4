//! Text traces: lines out of a stream, and the one loop that all text formats share.

use std::ops::Range;

use destage_plan::{Op, Request, SECTOR_BYTES};

use crate::clock::ClockWraps;
use crate::compress::TraceInput;
use crate::error::{FilePlace, TraceError};
use crate::fields::{FieldFault, ParsedLine, all_blank};
use crate::sink::{ReaderProgress, RequestSink};
use crate::source::{BATCH_REQUESTS, SkippedLines, TraceSource};

/// Bytes that a line may have, without its end.
pub(crate) const MAX_LINE: usize = 64 * 1024;
/// Bytes read at once.
const CHUNK: usize = 256 * 1024;
/// The UTF-8 byte order mark that some Windows tools write.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Says how a line was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// A line of the format's table, whether or not it yields a request.
    Data,
    /// A line that the format has besides: a message, a summary.
    Other,
}

/// A text format: what it makes of a line.
pub(crate) trait LineFormat: Send {
    /// Lines at the beginning of the file to pass over unseen.
    fn skip_lines(&self) -> u64 {
        0
    }

    /// Returns true if the first line that is not blank is a header. A format that must have a header fails
    /// without one.
    fn header(&mut self, _line: &[u8]) -> ParsedLine<bool> {
        Ok(false)
    }

    /// Parses a line (without its end, not blank) and pushes its requests. Volumes are looked up
    /// after everything else has been parsed, so that a malformed line names none.
    fn parse_line(&mut self, line: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<LineKind>;

    /// Returns how many rows were passed over so far that are no requests.
    fn passed_over(&self) -> u64 {
        0
    }

    /// Why a trace without any request has none, where the format knows.
    fn why_none(&self) -> Option<String> {
        None
    }
}

/// Cuts a stream into lines without copying them.
struct LineReader {
    input: TraceInput,
    buffer: Vec<u8>,
    /// The bytes of `buffer` that have not been given out.
    start: usize,
    end: usize,
    ended: bool,
    /// Lines given out.
    number: u64,
}

enum NextLine {
    /// A line, without its end, as a range of the buffer.
    Line(Range<usize>),
    /// A line longer than [`MAX_LINE`], already passed over.
    TooLong,
    End,
}

impl LineReader {
    fn new(input: TraceInput) -> Self {
        Self { input, buffer: vec![0; MAX_LINE + CHUNK], start: 0, end: 0, ended: false, number: 0 }
    }

    #[inline]
    fn next(&mut self) -> Result<NextLine, TraceError> {
        if let Some(len) = memchr::memchr(b'\n', &self.buffer[self.start..self.end])
            && len <= MAX_LINE
        {
            let line = self.start..self.start + len;
            self.start += len + 1;
            self.number += 1;
            return Ok(NextLine::Line(self.without_return(line)));
        }
        self.next_slow()
    }

    #[inline]
    fn without_return(&self, line: Range<usize>) -> Range<usize> {
        match self.buffer[line.clone()] {
            [.., b'\r'] => line.start..line.end - 1,
            _ => line,
        }
    }

    /// The next line when the buffer does not hold all of it, or it is too long.
    #[inline(never)]
    fn next_slow(&mut self) -> Result<NextLine, TraceError> {
        let mut searched = 0;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.start + searched..self.end]) {
                let len = searched + at;
                let line = self.start..self.start + len;
                self.start += len + 1;
                self.number += 1;
                return Ok(if len > MAX_LINE { NextLine::TooLong } else { NextLine::Line(self.without_return(line)) });
            }
            searched = self.end - self.start;
            if searched > MAX_LINE {
                return self.pass_long_line();
            }
            if self.ended {
                if searched == 0 {
                    return Ok(NextLine::End);
                }
                let line = self.start..self.end;
                self.start = self.end;
                self.number += 1;
                return Ok(NextLine::Line(self.without_return(line)));
            }
            self.fill()?;
        }
    }

    fn pass_long_line(&mut self) -> Result<NextLine, TraceError> {
        self.number += 1;
        loop {
            match memchr::memchr(b'\n', &self.buffer[self.start..self.end]) {
                Some(at) => {
                    self.start += at + 1;
                    return Ok(NextLine::TooLong);
                }
                None if self.ended => {
                    self.start = self.end;
                    return Ok(NextLine::TooLong);
                }
                None => {
                    self.start = self.end;
                    self.fill()?;
                }
            }
        }
    }

    fn fill(&mut self) -> Result<(), TraceError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let first = self.number == 0 && self.end == 0;
        let n = self.input.read_some(&mut self.buffer[self.end..])?;
        self.ended = n == 0;
        self.end += n;
        // The look-ahead that found the format guarantees that a mark does not come in pieces.
        if first && self.buffer[..self.end].starts_with(BOM) {
            self.start = BOM.len();
        }
        Ok(())
    }
}

/// A text trace as a source of requests.
pub(crate) struct LineSource<F> {
    format: F,
    reader: LineReader,
    lenient: bool,
    progress: ReaderProgress,
    skipped: SkippedLines,
    /// Past the lines to skip and the header.
    begun: bool,
    done: bool,
}

impl<F: LineFormat> LineSource<F> {
    pub(crate) fn new(format: F, input: TraceInput, lenient: bool) -> Self {
        Self {
            format,
            reader: LineReader::new(input),
            lenient,
            progress: ReaderProgress::default(),
            skipped: SkippedLines::default(),
            begun: false,
            done: false,
        }
    }

    #[cold]
    #[inline(never)]
    fn fault(&mut self, fault: FieldFault) -> Result<(), TraceError> {
        let fatal = fault.is_fatal();
        let error = TraceError::new(self.reader.input.file(), FilePlace::Line(self.reader.number), fault.into_reason());
        if !self.lenient || fatal {
            return Err(error);
        }
        self.skipped.count += 1;
        self.skipped.first.get_or_insert_with(|| error.to_string());
        Ok(())
    }

    /// Returns true if the first line is passed over as a header, or is one of those to skip.
    #[cold]
    fn begin(&mut self, line: Range<usize>) -> Result<bool, TraceError> {
        if self.reader.number <= self.format.skip_lines() {
            return Ok(true);
        }
        let line = &self.reader.buffer[line];
        if all_blank(line) {
            return Ok(true);
        }
        self.begun = true;
        match self.format.header(line) {
            Ok(header) => Ok(header || names_columns(line)),
            Err(fault) => self.fault(fault).map(|()| true),
        }
    }

    #[cold]
    fn finish(&mut self) -> Result<(), TraceError> {
        self.done = true;
        if self.progress.requests > 0 {
            return Ok(());
        }
        let reason = match (&self.skipped.first, self.format.why_none()) {
            (_, Some(why)) => why,
            (Some(first), None) => format!("none of its lines can be read as this format; the first: {first}"),
            (None, None) => "holds no request".to_owned(),
        };
        Err(TraceError::new(self.reader.input.file(), FilePlace::File, reason))
    }
}

impl<F: LineFormat> LineSource<F> {
    fn fill_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        out.reserve(BATCH_REQUESTS + 1);
        while !self.done && out.len() < BATCH_REQUESTS {
            let range = match self.reader.next()? {
                NextLine::Line(range) => range,
                NextLine::TooLong => {
                    self.fault(FieldFault::new("the line is longer than 64 KiB, expected one request per line"))?;
                    continue;
                }
                NextLine::End => {
                    self.progress.requests += out.len() as u64;
                    self.finish()?;
                    break;
                }
            };
            if !self.begun && self.begin(range.clone())? {
                continue;
            }
            let line = &self.reader.buffer[range];
            if line.is_empty() {
                continue;
            }
            let mut sink = RequestSink::new(out, &mut self.progress);
            let parsed = sink.whole(|sink| self.format.parse_line(line, sink).map(|_| ()));
            if let Err(fault) = parsed
                && !all_blank(line)
            {
                self.fault(fault)?;
            }
        }
        if !self.done {
            self.progress.requests += out.len() as u64;
        }
        self.progress.settle(out);
        Ok(())
    }
}

impl<F: LineFormat> TraceSource for LineSource<F> {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        out.clear();
        self.fill_batch(out).inspect_err(|_| {
            // What the buffer still holds may be half a line.
            self.done = true;
            out.clear();
        })
    }

    fn volume_names(&self) -> &[String] {
        self.progress.volumes.names()
    }

    fn clock_wraps(&self) -> ClockWraps {
        self.progress.clock_wraps()
    }

    fn passed_over(&self) -> u64 {
        self.format.passed_over()
    }

    fn skipped(&self) -> SkippedLines {
        self.skipped.clone()
    }
}

/// Returns true if a first line names columns: at least three fields that all begin with letters. No table of requests
/// has a row without a number.
fn names_columns(line: &[u8]) -> bool {
    let is_separator = |b: &u8| matches!(b, b',' | b';' | b'\t' | b' ');
    let fields = || line.split(is_separator).filter(|field| !field.is_empty());
    let is_name = |field: &[u8]| field.iter().find(|b| **b != b'"').is_some_and(u8::is_ascii_alphabetic);
    fields().count() >= 3 && fields().all(is_name)
}

/// Measures how well a format reads the beginning of a text, and counts the features of its requests.
#[derive(Debug, Default)]
pub(crate) struct FormatProbe {
    /// Lines of the format's table, and lines that it cannot read.
    pub(crate) good: u64,
    pub(crate) bad: u64,
    /// The first of the latter, with their numbers and reasons.
    pub(crate) faults: Vec<(u64, String)>,
    /// Requests among the former: the first, the last, and the times of all, nanoseconds as
    /// recorded.
    pub(crate) first: Option<Request>,
    pub(crate) last: Option<Request>,
    pub(crate) times: Vec<u64>,
    /// Lists offsets and lengths of reads and writes.
    pub(crate) ranges: Vec<(u64, u64)>,
    /// The trace's name for the first request's volume.
    pub(crate) volume: Option<String>,
    /// Reads and writes.
    pub(crate) accesses: u64,
    /// Of these, how many no device would be asked for: of [`ABSURD_LEN`] or beyond
    /// [`ABSURD_OFFSET`].
    pub(crate) absurd: u64,
    /// Of these, how many are not of whole sectors.
    pub(crate) broken_sectors: u64,
}

/// Bytes of a read or write that no device takes at once: 1 GiB.
pub(crate) const ABSURD_LEN: u64 = 1 << 30;
/// A byte address that no device has: 1 EiB.
pub(crate) const ABSURD_OFFSET: u64 = 1 << 60;
/// Unreadable lines that are kept, and after which a format that reads less than half is given up.
const ENOUGH: usize = 16;

impl FormatProbe {
    fn count(&mut self, requests: &[Request]) {
        self.first = self.first.or(requests.first().copied());
        self.last = requests.last().copied().or(self.last);
        for request in requests {
            self.times.push(request.time.0);
            if matches!(request.op, Op::Read | Op::Write) {
                self.accesses += 1;
                self.ranges.push((request.offset, request.len));
                self.absurd += u64::from(request.len >= ABSURD_LEN || request.offset >= ABSURD_OFFSET);
                self.broken_sectors += u64::from(!request.len.is_multiple_of(SECTOR_BYTES));
            }
        }
    }
}

/// Reads whole lines as a format, all of them if `patient`, else until it is clear that they are
/// not of it.
pub(crate) fn probe<F: LineFormat>(format: &mut F, text: &[u8], patient: bool) -> FormatProbe {
    let mut probe = FormatProbe::default();
    let mut progress = ReaderProgress::default();
    let mut out = Vec::new();
    let mut begun = false;
    let text = text.strip_prefix(BOM).unwrap_or(text);
    for (number, line) in (1..).zip(text.split(|&b| b == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if all_blank(line) || number <= format.skip_lines() {
            continue;
        }
        let parsed = if begun {
            None
        } else {
            begun = true;
            match format.header(line) {
                Ok(true) => continue,
                Ok(false) if names_columns(line) => continue,
                Ok(false) => None,
                Err(fault) => Some(fault),
            }
        };
        out.clear();
        let mut sink = RequestSink::new(&mut out, &mut progress);
        let mut kind = LineKind::Other;
        let parsed = match parsed {
            Some(fault) => Err(fault),
            None => sink.whole(|sink| {
                kind = format.parse_line(line, sink)?;
                Ok(())
            }),
        };
        match parsed {
            Ok(()) if kind == LineKind::Data => probe.good += 1,
            Ok(()) => {}
            Err(fault) => {
                probe.bad += 1;
                let fatal = fault.is_fatal();
                if probe.faults.len() < ENOUGH {
                    probe.faults.push((number, fault.into_reason()));
                }
                if fatal || (!patient && probe.bad >= ENOUGH as u64 && probe.bad > probe.good) {
                    break;
                }
            }
        }
        if let (None, Some(first)) = (&probe.first, out.first()) {
            probe.volume = progress.volumes.names().get(first.volume as usize).cloned();
        }
        probe.count(&out);
    }
    probe
}
