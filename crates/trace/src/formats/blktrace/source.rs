//! The records of all parts of a recording as one source, in the order of their times.
//!
//! The parts are merged by the times of their next records. A part can be out of order itself: the
//! stream that `blktrace -o -` writes holds the buffers of one CPU after the other. So requests
//! wait in a window of fixed size, out of which the earliest goes first. blkparse does both too,
//! with a window of its own.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use destage_plan::{Op, Request};

use super::super::block_events;
use super::{Blktrace, BlktraceParser, MAX_HEADER, RecordLayout};
use crate::clock::ClockWraps;
use crate::compress::TraceInput;
use crate::error::{FilePlace, TraceError};
use crate::fields::FieldFault;
use crate::format::TraceFormat;
use crate::records::ByteReader;
use crate::sink::{ReaderProgress, RequestSink};
use crate::source::{BATCH_REQUESTS, SkippedLines, TraceSource};

/// Requests that wait at most: blktrace's buffers hold 512 KiB for each CPU, which is 10,922
/// records.
const WINDOW: usize = 1 << 16;
/// Bytes read at once, of all parts together, and of each at least.
const CHUNKS: usize = 8 << 20;
const MIN_CHUNK: usize = 16 << 10;
const MAX_CHUNK: usize = 256 << 10;

/// A request that waits for earlier ones.
#[derive(Clone, Copy, Debug)]
struct HeldRequest {
    time: u64,
    /// Requests before it, in the order of reading: ties stay in this order.
    order: u64,
    device: u32,
    op: Op,
    fua: bool,
    offset: u64,
    len: u64,
}

impl HeldRequest {
    fn key(&self) -> (u64, u64) {
        (self.time, self.order)
    }
}

impl PartialEq for HeldRequest {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for HeldRequest {}

impl PartialOrd for HeldRequest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for HeldRequest {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// A recording's parts as a source of requests.
pub(super) struct BlktraceSource {
    parser: BlktraceParser,
    parts: Vec<ByteReader>,
    /// Parts that have a next record, by its time; ties by number.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    waiting: BinaryHeap<Reverse<HeldRequest>>,
    order: u64,
    lenient: bool,
    progress: ReaderProgress,
    skipped: SkippedLines,
    begun: bool,
    done: bool,
}

impl BlktraceSource {
    /// Reads `event` out of parts, of which there is at least one.
    pub(super) fn new(event: u8, parts: Vec<TraceInput>, lenient: bool) -> Self {
        let chunk = (CHUNKS / parts.len().max(1)).clamp(MIN_CHUNK, MAX_CHUNK);
        Self {
            parser: BlktraceParser::new(event),
            parts: parts.into_iter().map(|input| ByteReader::with_chunk(input, chunk)).collect(),
            next: BinaryHeap::new(),
            waiting: BinaryHeap::new(),
            order: 0,
            lenient,
            progress: ReaderProgress::default(),
            skipped: SkippedLines::default(),
            begun: false,
            done: false,
        }
    }

    #[cold]
    fn fault(&mut self, part: usize, fault: FieldFault) -> Result<(), TraceError> {
        let fatal = fault.is_fatal();
        let error = self.parts[part].error(fault.into_reason());
        if !self.lenient || fatal {
            return Err(error);
        }
        self.skipped.count += 1;
        self.skipped.first.get_or_insert_with(|| error.to_string());
        Ok(())
    }

    /// Finds a part's next record and puts the part into line.
    fn look(&mut self, part: usize) -> Result<(), TraceError> {
        let bytes = &mut self.parts[part];
        let held = bytes.available(MAX_HEADER)?;
        if held.is_empty() {
            return Ok(());
        }
        let Some(first) = held.first_chunk() else {
            let held = held.len();
            return self.cut(part, held, 48);
        };
        let layout = match RecordLayout::of(*first) {
            Ok(layout) => layout,
            Err(fault) => return self.fault(part, fault),
        };
        if held.len() < layout.header_bytes() {
            let held = held.len();
            return self.cut(part, held, layout.header_bytes());
        }
        let time = layout.time(held);
        self.next.push(Reverse((time, part)));
        Ok(())
    }

    /// A part ends inside a record.
    #[cold]
    fn cut(&mut self, part: usize, held: usize, length: usize) -> Result<(), TraceError> {
        self.fault(
            part,
            FieldFault::new(format!("the file ends inside a record, after {held} of its {length} bytes")),
        )?;
        self.parts[part].consume(held);
        Ok(())
    }

    /// Takes the record that is next in time.
    fn take(&mut self, part: usize) -> Result<(), TraceError> {
        let held = self.parts[part].available(MAX_HEADER)?;
        let first = *held.first_chunk().expect("a record was found here");
        let layout = match RecordLayout::of(first) {
            Ok(layout) => layout,
            Err(fault) => return self.fault(part, fault),
        };
        let length = layout.record_bytes(held);
        let event = self.parser.event(layout, held);
        let held = self.parts[part].available(length)?.len();
        if held < length {
            return self.cut(part, held, length);
        }
        match event {
            Ok(None) => {}
            Ok(Some(event)) => {
                for (op, fua, offset, len) in event.asked.requests(event.range) {
                    let (time, device, order) = (event.time, event.device, self.order);
                    self.waiting.push(Reverse(HeldRequest { time, order, device, op, fua, offset, len }));
                    self.order += 1;
                }
            }
            Err(fault) => self.fault(part, fault)?,
        }
        self.parts[part].consume(length);
        self.look(part)
    }

    fn fill_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        if self.done {
            return Ok(());
        }
        out.reserve(BATCH_REQUESTS);
        if !self.begun {
            self.begun = true;
            (0..self.parts.len()).try_for_each(|part| self.look(part))?;
        }
        while out.len() < BATCH_REQUESTS {
            while self.waiting.len() < WINDOW
                && let Some(Reverse((_, part))) = self.next.pop()
            {
                self.take(part)?;
            }
            let Some(Reverse(request)) = self.waiting.pop() else {
                self.done = true;
                break;
            };
            let HeldRequest { time, device, op, fua, offset, len, .. } = request;
            let mut sink = RequestSink::new(out, &mut self.progress);
            let pushed = block_events::volume(&mut sink, u64::from(device >> 20), u64::from(device & 0xf_ffff))
                .and_then(|volume| sink.push(time, volume, op, fua, offset, len));
            if let Err(fault) = pushed {
                return Err(TraceError::new(self.parts[0].file(), FilePlace::File, fault.into_reason()));
            }
        }
        self.progress.requests += out.len() as u64;
        self.progress.settle(out);
        if self.done && self.progress.requests == 0 {
            return Err(self.nothing());
        }
        Ok(())
    }

    #[cold]
    fn nothing(&self) -> TraceError {
        let reason = match (self.parser.seen.why_none(Blktrace::INFO.name, self.parser.event), &self.skipped.first) {
            (Some(why), _) => why,
            (None, Some(first)) => format!("none of its records can be read as this format; the first: {first}"),
            (None, None) => "holds no request".to_owned(),
        };
        TraceError::new(self.parts[0].file(), FilePlace::File, reason)
    }
}

impl TraceSource for BlktraceSource {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        out.clear();
        self.fill_batch(out).inspect_err(|_| {
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
