//! Reading the native format.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use destage_plan::{Nanos, Request};

use super::column::{COLUMNS, ColumnFault, DecodedColumn, PlaneDecoder};
use super::layout::{
    BLOCK_HEADER_BYTES, DIRECTORY_ENTRY_BYTES, END_BYTES, EndRecord, FILE_HEADER_BYTES, MAGIC, MAX_BLOCK_REQUESTS,
    MAX_COLUMNS, MAX_PAYLOAD_BYTES, MAX_VOLUME_NAME_BYTES, MAX_VOLUME_NAMES, MAX_VOLUME_NAMES_BYTES, MAX_VOLUMES,
    OPTIONAL, RECORD_HEADER_BYTES, RecordHeader, VERSION, are_kinds, from_kind, from_latency_value, id, tag, u16_at,
    u32_at,
};
use crate::error::{FilePlace, TraceError};
use crate::source::TraceSource;

/// Requests that are put together at a time, few enough for their columns to stay in the
/// first-level cache.
const CHUNK: usize = 256;

/// Reads a native trace from a stream.
pub struct NativeReader {
    file: PathBuf,
    input: Box<dyn Read + Send>,
    /// Bytes of the input that lie behind.
    at: u64,
    chain: u32,
    payload: Vec<u8>,
    /// Holds the offset of the payload in the file; the next field is the offset of the last block's latency
    /// column within the payload, if there is one.
    payload_at: u64,
    latencies: Option<Range<usize>>,
    /// Requests in the last block.
    last: usize,
    decoder: PlaneDecoder,
    names: Vec<String>,
    names_bytes: usize,
    /// Requests in a block at most, as the file header says.
    block_requests: usize,
    requests: u64,
    blocks: u64,
    /// Requests in the whole trace, if the end record could be seen beforehand.
    total: Option<u64>,
    state: ReaderState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReaderState {
    Reading,
    Ended,
    /// An error has been reported.
    Failed,
}

impl NativeReader {
    /// Begins to read `input`; `file` is its name in errors. Reads the file header.
    pub fn open(file: &Path, input: Box<dyn Read + Send>) -> Result<Self, TraceError> {
        let start = |e| TraceError::io(file, FilePlace::File, "preparing to decompress", e);
        let mut reader = Self {
            file: file.to_owned(),
            input,
            at: 0,
            chain: 0,
            payload: vec![],
            payload_at: 0,
            latencies: None,
            last: 0,
            decoder: PlaneDecoder::new().map_err(start)?,
            names: vec![],
            names_bytes: 0,
            block_requests: 0,
            requests: 0,
            blocks: 0,
            total: None,
            state: ReaderState::Reading,
        };
        reader.read_file_header()?;
        Ok(reader)
    }

    /// Opens a file. Of a regular file the end record is read first, so that the number of requests
    /// is known from the beginning and a truncated file is refused at once; anything else is read
    /// as a stream.
    pub fn open_file(path: &Path) -> Result<Self, TraceError> {
        let io = |doing: &'static str| move |e| TraceError::io(path, FilePlace::File, doing, e);
        let mut input = File::open(path).map_err(io("opening"))?;
        let metadata = input.metadata().map_err(io("looking at the file"))?;
        // The end of a pipe cannot be looked at first.
        if !metadata.is_file() {
            return Self::open(path, Box::new(input));
        }
        let mut total = None;
        let bytes = metadata.len();
        let tail_bytes = (RECORD_HEADER_BYTES + END_BYTES) as u64;
        if bytes >= FILE_HEADER_BYTES as u64 + tail_bytes {
            let mut tail = [0; RECORD_HEADER_BYTES + END_BYTES];
            input.seek(SeekFrom::End(-tail_bytes.cast_signed())).map_err(io("looking for the end record"))?;
            input.read_exact(&mut tail).map_err(io("looking for the end record"))?;
            input.seek(SeekFrom::Start(0)).map_err(io("going back to the beginning"))?;
            total = end_of(&tail).map(|end| end.requests);
        }
        // What is wrong at the beginning (another format, another version) says more than what is
        // missing at the end.
        let mut reader = Self::open(path, Box::new(input))?;
        if total.is_none() {
            let reason = "the file does not end with an end record: it is truncated, or its writer was not finished";
            return Err(TraceError::new(path, FilePlace::Byte(bytes), reason));
        }
        reader.total = total;
        Ok(reader)
    }

    fn fault(&self, at: u64, reason: impl Into<String>) -> TraceError {
        TraceError::new(&self.file, FilePlace::Byte(at), reason)
    }

    /// Fills `into` from the input; `what` begins at byte `start`.
    fn fill(
        file: &Path,
        input: &mut dyn Read,
        at: &mut u64,
        into: &mut [u8],
        what: &str,
        start: u64,
    ) -> Result<(), TraceError> {
        let mut done = 0;
        while done < into.len() {
            match input.read(&mut into[done..]) {
                Ok(0) => {
                    let reason = format!("the input ends inside {what} that begins at byte {start}: it is truncated");
                    return Err(TraceError::new(file, FilePlace::Byte(*at), reason));
                }
                Ok(n) => {
                    done += n;
                    *at += n as u64;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(TraceError::io(file, FilePlace::Byte(*at), "reading", e)),
            }
        }
        Ok(())
    }

    fn read_file_header(&mut self) -> Result<(), TraceError> {
        let mut h = [0; FILE_HEADER_BYTES];
        Self::fill(&self.file, &mut self.input, &mut self.at, &mut h, "the file header", 0)?;
        // What the file is comes before whether it is whole: another version may have another header.
        if h[..8] != MAGIC {
            return Err(self.fault(0, "not a native trace: it does not begin with DSTGTRC1"));
        }
        let version = u16_at(&h, 8);
        if version != VERSION {
            return Err(self.fault(8, format!("version {version} of the native format; version {VERSION} is known")));
        }
        self.chain = crc32c::crc32c(&h[..28]);
        if u32_at(&h, 28) != self.chain {
            return Err(self.fault(28, "the file header's checksum does not match: the header is damaged"));
        }
        let bytes = u16_at(&h, 10);
        if usize::from(bytes) != FILE_HEADER_BYTES {
            return Err(
                self.fault(10, format!("a file header of {bytes} B; version {VERSION} has {FILE_HEADER_BYTES} B"))
            );
        }
        let features = u32_at(&h, 12);
        if features != 0 {
            return Err(self.fault(12, format!("the file needs features {features:#x}; none is known")));
        }
        let requests = u32_at(&h, 16);
        if requests == 0 || requests as usize > MAX_BLOCK_REQUESTS {
            return Err(
                self.fault(16, format!("blocks of up to {requests} requests; 1 to {MAX_BLOCK_REQUESTS} can be read"))
            );
        }
        if h[20..28] != [0; 8] {
            return Err(self.fault(20, "reserved bytes of the file header are not zero"));
        }
        self.block_requests = requests as usize;
        Ok(())
    }

    /// Reads records until a block is decoded into `out` or the end record is found.
    fn read_block(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        loop {
            let start = self.at;
            let mut h = [0; RECORD_HEADER_BYTES];
            Self::fill(&self.file, &mut self.input, &mut self.at, &mut h, "a record", start)?;
            let header = RecordHeader::from_bytes(&h);
            let bytes = header.payload_bytes as usize;
            // The bound is checked before memory is taken: the header is not proven yet.
            if bytes > MAX_PAYLOAD_BYTES {
                let reason = format!("a record of {bytes} B; at most {MAX_PAYLOAD_BYTES} B are allowed: it is damaged");
                return Err(self.fault(start + 8, reason));
            }
            if self.payload.len() < bytes {
                self.payload.resize(bytes, 0);
            }
            let payload = &mut self.payload[..bytes];
            Self::fill(&self.file, &mut self.input, &mut self.at, payload, "a record", start)?;
            // Damage is told before order: a damaged record has no chain to compare.
            if header.checksum(payload) != header.crc {
                return Err(self.fault(start, "the record's checksum does not match: it is damaged"));
            }
            if header.chain != self.chain {
                let reason = "the record does not follow the one before it: records are missing or in another order";
                return Err(self.fault(start + 12, reason));
            }
            self.chain = header.crc;
            if header.flags & !OPTIONAL != 0 {
                return Err(self.fault(start + 4, "reserved flags of the record are set"));
            }

            let inside = start + RECORD_HEADER_BYTES as u64;
            self.payload_at = inside;
            let result = match header.tag {
                tag::BLOCK => self.decode_block(bytes, out),
                tag::NAMES => self.add_names(bytes),
                tag::END => self.check_end(bytes),
                // Later versions may add records that earlier readers can do without.
                _ if header.flags & OPTIONAL != 0 => Ok(()),
                other => {
                    let reason =
                        format!("record kind {:?} is unknown and not optional", String::from_utf8_lossy(&other));
                    return Err(self.fault(start, reason));
                }
            };
            result.map_err(|f| self.fault(inside + f.at as u64, f.reason))?;
            if header.tag == tag::END {
                self.state = ReaderState::Ended;
                return self.expect_nothing();
            }
            if header.tag == tag::BLOCK {
                return Ok(());
            }
        }
    }

    fn decode_block(&mut self, bytes: usize, out: &mut Vec<Request>) -> Result<(), ColumnFault> {
        let payload = &self.payload[..bytes];
        if bytes < BLOCK_HEADER_BYTES {
            return Err(ColumnFault::new(
                0,
                format!("a block of {bytes} B; its header alone has {BLOCK_HEADER_BYTES} B"),
            ));
        }
        let n = u32_at(payload, 0) as usize;
        if !(1..=self.block_requests).contains(&n) {
            return Err(ColumnFault::new(
                0,
                format!("a block of {n} requests; 1 to {} are allowed", self.block_requests),
            ));
        }
        let columns = usize::from(u16_at(payload, 4));
        if columns > MAX_COLUMNS {
            return Err(ColumnFault::new(
                4,
                format!("a block of {columns} columns; at most {MAX_COLUMNS} are allowed"),
            ));
        }
        if u16_at(payload, 6) != 0 {
            return Err(ColumnFault::new(6, "reserved bytes of the block's header are not zero"));
        }
        let mut data = BLOCK_HEADER_BYTES + columns * DIRECTORY_ENTRY_BYTES;
        if bytes < data {
            return Err(ColumnFault::new(
                4,
                format!("a block of {bytes} B; {columns} columns need {data} B for their directory"),
            ));
        }

        let ids = [id::LEN, id::TIME, id::OFFSET, id::KIND, id::VOLUME];
        let mut found = [const { None }; COLUMNS];
        let mut latencies = None;
        for entry in (BLOCK_HEADER_BYTES..data).step_by(DIRECTORY_ENTRY_BYTES) {
            let column = u16_at(payload, entry);
            let flags = u32::from(u16_at(payload, entry + 2));
            if flags & !OPTIONAL != 0 {
                return Err(ColumnFault::new(entry + 2, format!("reserved flags of column {column} are set")));
            }
            let size = u32_at(payload, entry + 4) as usize;
            let Some(end) = data.checked_add(size).filter(|&end| end <= bytes) else {
                let reason = format!("column {column} has {size} B where the block has {} B left", bytes - data);
                return Err(ColumnFault::new(entry + 4, reason));
            };
            match ids.iter().position(|&id| id == column) {
                Some(place) if found[place].is_some() => {
                    return Err(ColumnFault::new(entry, format!("column {column} occurs twice")));
                }
                Some(place) => found[place] = Some(data..end),
                None if column == id::LATENCY && latencies.is_some() => {
                    return Err(ColumnFault::new(entry, format!("column {column} occurs twice")));
                }
                None if column == id::LATENCY => latencies = Some(data..end),
                None if flags & OPTIONAL != 0 => {}
                None => return Err(ColumnFault::new(entry, format!("column {column} is unknown and not optional"))),
            }
            data = end;
        }
        if data != bytes {
            return Err(ColumnFault::new(data, format!("{} B after the block's last column", bytes - data)));
        }

        let starts = found.clone().map(|range| range.map_or(0, |range| range.start));
        // The columns share one room for as much as a block can have, so that no file makes it grow.
        let mut room = self.decoder.room();
        let mut open = |place: usize| {
            let Some(range) = found[place].clone() else {
                return Err(ColumnFault::new(4, format!("column {} is missing", ids[place])));
            };
            let inside =
                |f: ColumnFault| ColumnFault::new(starts[place] + f.at, format!("column {}: {}", ids[place], f.reason));
            DecodedColumn::open(&payload[range], n, ids[place], &mut room).map_err(inside)
        };
        let mut columns = [open(0)?, open(1)?, open(2)?, open(3)?, open(4)?];
        let mut values = [[0; CHUNK]; COLUMNS];
        out.reserve(n);
        for start in (0..n).step_by(CHUNK) {
            let m = CHUNK.min(n - start);
            // Lengths come first, since offsets may be predicted from them.
            let (lengths, others) = values.split_at_mut(1);
            columns[0].next(start, &[], &mut lengths[0][..m]);
            for (column, values) in columns[1..].iter_mut().zip(others) {
                column.next(start, &lengths[0][..m], &mut values[..m]);
            }
            let [len, time, offset, kind, volume] = values.each_ref().map(|values| &values[..m]);
            if !are_kinds(kind) || volume.iter().fold(0, |all, v| all | v) >= MAX_VOLUMES {
                let place = if are_kinds(kind) { 4 } else { 3 };
                let reason = format!("column {} holds a value that it cannot have", ids[place]);
                return Err(ColumnFault::new(starts[place], reason));
            }
            let values = time.iter().zip(offset).zip(len).zip(kind).zip(volume);
            out.extend(values.map(|((((&time, &offset), &len), &kind), &volume)| {
                let (op, fua) = from_kind(kind);
                Request { time: Nanos(time), offset, len, volume: volume as u32, op, fua }
            }));
        }
        // Latencies are decoded only for those who ask.
        self.latencies = latencies;
        self.last = n;
        self.requests += n as u64;
        self.blocks += 1;
        Ok(())
    }

    /// Decodes the last block's latency column, whose bytes the payload still holds.
    fn decode_latencies(&mut self, column: Range<usize>, out: &mut Vec<Nanos>) -> Result<(), ColumnFault> {
        let start = column.start;
        let inside = |f: ColumnFault| ColumnFault::new(start + f.at, format!("column {}: {}", id::LATENCY, f.reason));
        let bytes = &self.payload[column];
        let mut column =
            DecodedColumn::open(bytes, self.last, id::LATENCY, &mut self.decoder.room()).map_err(inside)?;
        let mut values = [0; CHUNK];
        for start in (0..self.last).step_by(CHUNK) {
            let values = &mut values[..CHUNK.min(self.last - start)];
            column.next(start, &[], values);
            out.extend(values.iter().copied().map(from_latency_value));
        }
        Ok(())
    }

    fn add_names(&mut self, bytes: usize) -> Result<(), ColumnFault> {
        let payload = &self.payload[..bytes];
        let mut at = 0;
        while at < bytes {
            let name = payload.get(at..at + 2).map(|b| usize::from(u16_at(b, 0)));
            let Some(name) = name.and_then(|len| payload.get(at + 2..at + 2 + len)) else {
                return Err(ColumnFault::new(at, "a volume name runs past its record"));
            };
            if name.len() > MAX_VOLUME_NAME_BYTES {
                let reason = format!("a volume name of {} B; at most {MAX_VOLUME_NAME_BYTES} B", name.len());
                return Err(ColumnFault::new(at, reason));
            }
            self.names_bytes += name.len();
            if self.names.len() == MAX_VOLUME_NAMES || self.names_bytes > MAX_VOLUME_NAMES_BYTES {
                let reason = format!("more than {MAX_VOLUME_NAMES} volume names or {MAX_VOLUME_NAMES_BYTES} B of them");
                return Err(ColumnFault::new(at, reason));
            }
            let Ok(text) = std::str::from_utf8(name) else {
                return Err(ColumnFault::new(at + 2, "a volume name is not UTF-8"));
            };
            self.names.push(text.to_owned());
            at += 2 + name.len();
        }
        Ok(())
    }

    fn check_end(&self, bytes: usize) -> Result<(), ColumnFault> {
        let Ok(end) = <&[u8; END_BYTES]>::try_from(&self.payload[..bytes]) else {
            return Err(ColumnFault::new(0, format!("an end record of {bytes} B; it has {END_BYTES} B")));
        };
        if end[20..] != [0; 4] {
            return Err(ColumnFault::new(20, "reserved bytes of the end record are not zero"));
        }
        let end = EndRecord::from_bytes(end);
        let found = EndRecord { requests: self.requests, blocks: self.blocks, volume_names: self.names.len() as u32 };
        if end != found {
            let reason = format!(
                "the end record counts {} requests, {} blocks and {} volume names, but {}, {} and {} came",
                end.requests, end.blocks, end.volume_names, found.requests, found.blocks, found.volume_names
            );
            return Err(ColumnFault::new(0, reason));
        }
        Ok(())
    }

    /// Nothing may follow the end record.
    fn expect_nothing(&mut self) -> Result<(), TraceError> {
        loop {
            match self.input.read(&mut [0]) {
                Ok(0) => return Ok(()),
                Ok(_) => return Err(self.fault(self.at, "bytes after the end record")),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(TraceError::io(&self.file, FilePlace::Byte(self.at), "reading", e)),
            }
        }
    }
}

/// The end record, if these are its bytes.
fn end_of(tail: &[u8; RECORD_HEADER_BYTES + END_BYTES]) -> Option<EndRecord> {
    let header = RecordHeader::from_bytes(tail.first_chunk()?);
    let payload = tail.last_chunk::<END_BYTES>()?;
    let fits = header.tag == tag::END && header.payload_bytes as usize == END_BYTES;
    (fits && header.checksum(payload) == header.crc).then(|| EndRecord::from_bytes(payload))
}

impl TraceSource for NativeReader {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        out.clear();
        self.latencies = None;
        match self.state {
            ReaderState::Reading => {}
            ReaderState::Ended => return Ok(()),
            ReaderState::Failed => return Err(self.fault(self.at, "reading has already failed")),
        }
        let result = self.read_block(out);
        if result.is_err() {
            // What was decoded before the fault is not handed out as if it were a whole block.
            self.state = ReaderState::Failed;
            out.clear();
        }
        result
    }

    fn latencies(&mut self, out: &mut Vec<Nanos>) -> Result<bool, TraceError> {
        out.clear();
        let Some(column) = self.latencies.clone() else { return Ok(false) };
        self.decode_latencies(column, out).map_err(|f| {
            out.clear();
            self.fault(self.payload_at + f.at as u64, f.reason)
        })?;
        Ok(true)
    }

    fn volume_names(&self) -> &[String] {
        &self.names
    }

    fn len_hint(&self) -> Option<u64> {
        self.total
    }

    fn progress(&self) -> Option<f64> {
        self.total.map(|total| if total == 0 { 1.0 } else { (self.requests as f64 / total as f64).min(1.0) })
    }
}
