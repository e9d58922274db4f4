//! Binary traces: records out of a stream, and the one loop that all binary formats share.

use std::path::Path;

use destage_plan::Request;

use crate::clock::ClockWraps;
use crate::compress::TraceInput;
use crate::error::{FilePlace, TraceError};
use crate::fields::{FieldFault, ParsedLine};
use crate::sink::{ReaderProgress, RequestSink};
use crate::source::{BATCH_REQUESTS, SkippedLines, TraceSource};

/// Bytes read at once.
const CHUNK: usize = 256 * 1024;

/// A binary format: how long its records are and what it makes of one.
pub(crate) trait RecordFormat: Send {
    /// Bytes at a record's beginning that tell its length.
    const PREFIX: usize;

    /// Reads what comes before the records.
    fn header(&mut self, _bytes: &mut ByteReader) -> Result<(), TraceError> {
        Ok(())
    }

    /// The length of the record that begins with `prefix` ([`Self::PREFIX`] bytes), at least that
    /// many. A fault here is always fatal: the next record cannot be found.
    fn length(&self, prefix: &[u8]) -> ParsedLine<usize>;

    /// Parses a record and pushes its requests.
    fn parse_record(&mut self, record: &[u8], sink: &mut RequestSink<'_>) -> ParsedLine<()>;
}

/// Bytes of a stream, some at a time.
pub(crate) struct ByteReader {
    input: TraceInput,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    /// Decompressed bytes consumed.
    at: u64,
}

impl ByteReader {
    fn new(input: TraceInput) -> Self {
        Self::with_chunk(input, CHUNK)
    }

    /// One that reads `chunk` bytes at once.
    pub(crate) fn with_chunk(input: TraceInput, chunk: usize) -> Self {
        Self { input, buffer: vec![0; chunk], start: 0, end: 0, ended: false, at: 0 }
    }

    /// The file as messages call it.
    pub(crate) fn file(&self) -> &Path {
        self.input.file()
    }

    /// Returns the content of the buffer: at least `wanted` bytes unless the input ends before.
    #[inline]
    pub(crate) fn available(&mut self, wanted: usize) -> Result<&[u8], TraceError> {
        if self.end - self.start < wanted {
            self.fill(wanted)?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    #[cold]
    fn fill(&mut self, wanted: usize) -> Result<(), TraceError> {
        // A record that was cut by the chunk's end is made whole in front.
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        while self.end < wanted && !self.ended {
            let n = self.input.read_some(&mut self.buffer[self.end..])?;
            self.ended = n == 0;
            self.end += n;
        }
        Ok(())
    }

    /// Passes over bytes that were available.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.at += bytes as u64;
    }

    /// An error at the byte reached.
    #[cold]
    pub(crate) fn error(&self, reason: impl Into<String>) -> TraceError {
        TraceError::new(self.input.file(), FilePlace::Byte(self.at), reason)
    }
}

/// A binary trace as a source of requests.
pub(crate) struct RecordSource<F> {
    format: F,
    bytes: ByteReader,
    lenient: bool,
    progress: ReaderProgress,
    skipped: SkippedLines,
    begun: bool,
    done: bool,
}

impl<F: RecordFormat> RecordSource<F> {
    pub(crate) fn new(format: F, input: TraceInput, lenient: bool) -> Self {
        Self {
            format,
            bytes: ByteReader::new(input),
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
        let error = self.bytes.error(fault.into_reason());
        if !self.lenient || fatal {
            return Err(error);
        }
        self.skipped.count += 1;
        self.skipped.first.get_or_insert_with(|| error.to_string());
        Ok(())
    }

    /// Reads one record; `false` at the end.
    #[inline]
    fn next_record(&mut self, out: &mut Vec<Request>) -> Result<bool, TraceError> {
        let held = self.bytes.available(F::PREFIX)?;
        if held.is_empty() {
            return Ok(false);
        }
        let Some(prefix) = held.get(..F::PREFIX) else {
            let len = held.len();
            return self.cut(len, F::PREFIX);
        };
        let length = match self.format.length(prefix) {
            Ok(length) => length,
            // Without its length nobody knows where the next record begins, even if faults are to be left
            // out.
            Err(fault) => return Err(self.bytes.error(fault.into_reason())),
        };
        let held = self.bytes.available(length)?;
        let Some(record) = held.get(..length) else {
            let len = held.len();
            return self.cut(len, length);
        };
        let mut sink = RequestSink::new(out, &mut self.progress);
        // A record counts as a whole: a fault takes back the requests that it has given already.
        let parsed = sink.whole(|sink| self.format.parse_record(record, sink));
        if let Err(fault) = parsed {
            self.fault(fault)?;
        }
        self.bytes.consume(length);
        Ok(true)
    }

    /// The input ends inside a record.
    #[cold]
    fn cut(&mut self, held: usize, length: usize) -> Result<bool, TraceError> {
        self.fault(FieldFault::new(format!("the file ends inside a record, after {held} of its {length} bytes")))?;
        self.bytes.consume(held);
        Ok(false)
    }

    #[cold]
    fn finish(&mut self) -> Result<(), TraceError> {
        self.done = true;
        if self.progress.requests > 0 {
            return Ok(());
        }
        let reason = match &self.skipped.first {
            Some(first) => format!("none of its records can be read as this format; the first: {first}"),
            None => "holds no request".to_owned(),
        };
        Err(TraceError::new(self.bytes.input.file(), FilePlace::File, reason))
    }
}

impl<F: RecordFormat> RecordSource<F> {
    fn fill_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        if self.done {
            return Ok(());
        }
        out.reserve(BATCH_REQUESTS + 1);
        if !self.begun {
            self.begun = true;
            self.format.header(&mut self.bytes)?;
        }
        let mut more = true;
        while more && out.len() < BATCH_REQUESTS {
            more = self.next_record(out)?;
        }
        self.progress.requests += out.len() as u64;
        self.progress.settle(out);
        if more { Ok(()) } else { self.finish() }
    }
}

impl<F: RecordFormat> TraceSource for RecordSource<F> {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        out.clear();
        self.fill_batch(out).inspect_err(|_| {
            // Where the next record begins need not be known.
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

    fn skipped(&self) -> SkippedLines {
        self.skipped.clone()
    }
}
