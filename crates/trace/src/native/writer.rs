//! Writing the native format.

use std::io::{self, Write};

use destage_plan::{Nanos, Request};

use super::column::ColumnEncoder;
use super::layout::{
    EndRecord, MAX_BLOCK_REQUESTS, MAX_PAYLOAD_BYTES, MAX_VOLUME_NAME_BYTES, MAX_VOLUME_NAMES, MAX_VOLUME_NAMES_BYTES,
    MAX_VOLUMES, OPTIONAL, RecordHeader, file_header, id, kind_of, latency_value, tag,
};
use crate::source::LATENCY_UNKNOWN;

/// The zstd level that [`NativeWriter::new`] uses.
pub const DEFAULT_LEVEL: i32 = 3;

/// Writes a native trace to anything that takes bytes, a pipe too. A trace without
/// [`finish`](Self::finish) has no end record, and a reader calls it truncated.
pub struct NativeWriter<W: Write> {
    out: W,
    encoder: ColumnEncoder,
    /// Requests that do not yet fill a block.
    pending: Vec<Request>,
    /// Values of the latency column of the first of them; empty if none has been given.
    latencies: Vec<u64>,
    columns: [Vec<u64>; 5],
    payload: Vec<u8>,
    column: Vec<u8>,
    names: Vec<String>,
    names_bytes: usize,
    chain: u32,
    requests: u64,
    blocks: u64,
}

impl<W: Write> NativeWriter<W> {
    /// Begins a trace with compression level [`DEFAULT_LEVEL`].
    pub fn new(out: W) -> io::Result<Self> {
        Self::with_level(out, DEFAULT_LEVEL)
    }

    /// Begins a trace with a zstd level.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a level that zstd does not have; what `out` reports.
    pub fn with_level(mut out: W, level: i32) -> io::Result<Self> {
        let levels = zstd::compression_level_range();
        if !levels.contains(&level) {
            let (low, high) = (levels.start(), levels.end());
            return Err(invalid(format!("compression level {level} is not between {low} and {high}")));
        }
        let encoder = ColumnEncoder::new(level)?;
        let (header, chain) = file_header();
        out.write_all(&header)?;
        Ok(Self {
            out,
            encoder,
            pending: Vec::with_capacity(MAX_BLOCK_REQUESTS),
            latencies: vec![],
            columns: std::array::from_fn(|_| Vec::with_capacity(MAX_BLOCK_REQUESTS)),
            payload: vec![],
            column: vec![],
            names: vec![],
            names_bytes: 0,
            chain,
            requests: 0,
            blocks: 0,
        })
    }

    /// Adds requests to the trace.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a volume from 2^20 on; what the output reports.
    pub fn write(&mut self, mut requests: &[Request]) -> io::Result<()> {
        if let Some(request) = requests.iter().find(|r| u64::from(r.volume) >= MAX_VOLUMES) {
            let reason = format!("a request of volume {}; at most {MAX_VOLUMES} volumes can be stored", request.volume);
            return Err(invalid(reason));
        }
        self.requests += requests.len() as u64;
        while !requests.is_empty() {
            // A whole block need not be gathered first; but latencies, if there are any, are those
            // of `pending`.
            if self.pending.is_empty() && self.latencies.is_empty() && requests.len() >= MAX_BLOCK_REQUESTS {
                let (block, rest) = requests.split_at(MAX_BLOCK_REQUESTS);
                self.put_block(block)?;
                requests = rest;
                continue;
            }
            let (now, rest) = requests.split_at(requests.len().min(MAX_BLOCK_REQUESTS - self.pending.len()));
            self.pending.extend_from_slice(now);
            requests = rest;
            if self.pending.len() == MAX_BLOCK_REQUESTS {
                self.put_pending()?;
            }
        }
        Ok(())
    }

    /// Adds requests and how long each took: nanoseconds from arrival to completion,
    /// [`LATENCY_UNKNOWN`] where that is not known. Blocks without any request that came this way
    /// have no latency column.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if there are not as many latencies as requests; what the
    /// output reports.
    pub fn write_with_latencies(&mut self, mut requests: &[Request], mut latencies: &[Nanos]) -> io::Result<()> {
        if requests.len() != latencies.len() {
            return Err(invalid(format!("{} latencies for {} requests", latencies.len(), requests.len())));
        }
        while !requests.is_empty() {
            let now = requests.len().min(MAX_BLOCK_REQUESTS - self.pending.len());
            // Requests that came without latencies before, into the same block, have unknown ones.
            self.latencies.resize(self.pending.len(), latency_value(LATENCY_UNKNOWN));
            self.latencies.extend(latencies[..now].iter().copied().map(latency_value));
            self.write(&requests[..now])?;
            (requests, latencies) = (&requests[now..], &latencies[now..]);
        }
        Ok(())
    }

    /// Gives the names of the trace's volumes, all that are known by now; those given before come
    /// first again. Call it as often as a source learns of more.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if names given before have changed, for a name of more than
    /// 4,096 bytes, for more than 1,048,576 names and for more than 64 MiB of them.
    pub fn volume_names(&mut self, names: &[String]) -> io::Result<()> {
        let old = self.names.len();
        // Requests that are written already refer to those names by number.
        if names.len() < old || names[..old] != self.names[..] {
            return Err(invalid("the volume names given before are not the first of those given now".to_owned()));
        }
        if names.len() > MAX_VOLUME_NAMES {
            return Err(invalid(format!("{} volume names; at most {MAX_VOLUME_NAMES} can be stored", names.len())));
        }
        if let Some(name) = names[old..].iter().find(|name| name.len() > MAX_VOLUME_NAME_BYTES) {
            return Err(invalid(format!("a volume name of {} B; at most {MAX_VOLUME_NAME_BYTES} B", name.len())));
        }
        let bytes = names[old..].iter().fold(self.names_bytes, |sum, name| sum.saturating_add(name.len()));
        if bytes > MAX_VOLUME_NAMES_BYTES {
            return Err(invalid(format!(
                "volume names of {bytes} B; at most {MAX_VOLUME_NAMES_BYTES} B can be stored"
            )));
        }
        self.names_bytes = bytes;
        let mut new = names[old..].iter().peekable();
        while new.peek().is_some() {
            self.payload.clear();
            while let Some(name) = new.next_if(|name| self.payload.len() + 2 + name.len() <= MAX_PAYLOAD_BYTES) {
                self.payload.extend_from_slice(&(name.len() as u16).to_le_bytes());
                self.payload.extend_from_slice(name.as_bytes());
                self.names.push(name.clone());
            }
            self.put_record(tag::NAMES)?;
        }
        Ok(())
    }

    /// Writes what is left and the end record, flushes, and gives the output back.
    pub fn finish(mut self) -> io::Result<W> {
        self.put_pending()?;
        let end = EndRecord { requests: self.requests, blocks: self.blocks, volume_names: self.names.len() as u32 };
        self.payload.clear();
        self.payload.extend_from_slice(&end.to_bytes());
        self.put_record(tag::END)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn put_pending(&mut self) -> io::Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        if !pending.is_empty() {
            self.put_block(&pending)?;
            pending.clear();
        }
        self.pending = pending;
        Ok(())
    }

    fn put_block(&mut self, block: &[Request]) -> io::Result<()> {
        let fields: [fn(&Request) -> u64; 5] =
            [|r| r.len, |r| r.time.0, |r| r.offset, kind_of, |r| u64::from(r.volume)];
        for (column, field) in self.columns.iter_mut().zip(fields) {
            column.clear();
            column.extend(block.iter().map(field));
        }
        // Lengths come before offsets, which may be predicted from them.
        let ids = [(id::LEN, 0), (id::TIME, 0), (id::OFFSET, 0), (id::KIND, 0), (id::VOLUME, 0)];
        let latency = (!self.latencies.is_empty()).then(|| {
            self.latencies.resize(block.len(), latency_value(LATENCY_UNKNOWN));
            ((id::LATENCY, OPTIONAL as u16), &self.latencies)
        });
        self.payload.clear();
        self.payload.extend_from_slice(&(block.len() as u32).to_le_bytes());
        self.payload.extend_from_slice(&((ids.len() + usize::from(latency.is_some())) as u16).to_le_bytes());
        self.payload.extend_from_slice(&[0; 2]);
        self.column.clear();
        for ((id, flags), values) in ids.into_iter().zip(&self.columns).chain(latency) {
            let start = self.column.len();
            self.encoder.encode(id, values, &self.columns[0], &mut self.column)?;
            self.payload.extend_from_slice(&id.to_le_bytes());
            self.payload.extend_from_slice(&flags.to_le_bytes());
            self.payload.extend_from_slice(&((self.column.len() - start) as u32).to_le_bytes());
        }
        self.payload.extend_from_slice(&self.column);
        self.latencies.clear();
        self.blocks += 1;
        self.put_record(tag::BLOCK)
    }

    fn put_record(&mut self, tag: [u8; 4]) -> io::Result<()> {
        let header = RecordHeader::new(tag, 0, &self.payload, self.chain);
        self.chain = header.crc;
        self.out.write_all(&header.to_bytes())?;
        self.out.write_all(&self.payload)
    }
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}
