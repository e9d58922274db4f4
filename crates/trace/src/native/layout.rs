//! The native format's fixed parts: file header, record header, end record (docs/trace-format.md).

use destage_plan::{Nanos, Op, Request};

use crate::format::MarkedBytes;
use crate::source::{BATCH_REQUESTS, LATENCY_UNKNOWN};

/// The first bytes of every native trace.
pub const MAGIC: [u8; 8] = *b"DSTGTRC1";

/// The only version so far.
pub(super) const VERSION: u16 = 1;

/// Bytes of the file header.
pub(super) const FILE_HEADER_BYTES: usize = 32;
/// Bytes of the header of each record.
pub(super) const RECORD_HEADER_BYTES: usize = 20;
/// Bytes of the end record's payload.
pub(super) const END_BYTES: usize = 24;
/// Bytes of a block's own header, before its column directory.
pub(super) const BLOCK_HEADER_BYTES: usize = 8;
/// Bytes of an entry of the column directory.
pub(super) const DIRECTORY_ENTRY_BYTES: usize = 8;

/// Requests in a block at most: a block is a batch.
pub(super) const MAX_BLOCK_REQUESTS: usize = BATCH_REQUESTS;
/// Columns in a block at most.
pub(super) const MAX_COLUMNS: usize = 48;
/// Payload of a record at most: what the columns of a block can need, with room for their headers.
pub(super) const MAX_PAYLOAD_BYTES: usize = 8 << 20;
/// Volume names in a file at most.
pub(super) const MAX_VOLUME_NAMES: usize = MAX_VOLUMES as usize;
/// Volumes in a file at most, a power of two: what keeps an account of each needs a bound.
pub(super) const MAX_VOLUMES: u64 = 1 << 20;
/// Bytes in a volume name at most.
pub(super) const MAX_VOLUME_NAME_BYTES: usize = 4096;
/// Bytes in all volume names together at most.
pub(super) const MAX_VOLUME_NAMES_BYTES: usize = 64 << 20;

/// In a record's flags and in a column's: a reader that does not know the kind may pass over it.
pub(super) const OPTIONAL: u32 = 1;

/// A record's kind.
pub(super) mod tag {
    /// A block of requests.
    pub(in crate::native) const BLOCK: [u8; 4] = *b"BLCK";
    /// Further volume names.
    pub(in crate::native) const NAMES: [u8; 4] = *b"NAME";
    /// The end of the trace.
    pub(in crate::native) const END: [u8; 4] = *b"DONE";
}

/// A column's id.
pub(super) mod id {
    /// [`Request::time`](destage_plan::Request::time), nanoseconds.
    pub(in crate::native) const TIME: u16 = 1;
    /// [`Request::offset`](destage_plan::Request::offset), bytes.
    pub(in crate::native) const OFFSET: u16 = 2;
    /// [`Request::len`](destage_plan::Request::len), bytes.
    pub(in crate::native) const LEN: u16 = 3;
    /// [`Request::op`](destage_plan::Request::op) and [`Request::fua`](destage_plan::Request::fua).
    pub(in crate::native) const KIND: u16 = 4;
    /// [`Request::volume`](destage_plan::Request::volume).
    pub(in crate::native) const VOLUME: u16 = 5;
    /// Tags the column of latencies, see [`latency_value`](super::latency_value); optional.
    pub(in crate::native) const LATENCY: u16 = 6;
}

/// The latency column's value: 0 if it is unknown, else the nanoseconds plus 1, so that a few
/// unknown ones do not make the column's numbers large.
pub(super) const fn latency_value(latency: Nanos) -> u64 {
    const { assert!(LATENCY_UNKNOWN.0 == u64::MAX) };
    latency.0.wrapping_add(1)
}

/// The latency of a value of the latency column.
pub(super) const fn from_latency_value(value: u64) -> Nanos {
    Nanos(value.wrapping_sub(1))
}

/// Set in a kind whose request is FUA; the bits below hold the operation's number.
const KIND_FUA: u64 = 0x80;

/// The kind column's value for a request.
pub(super) fn kind_of(request: &Request) -> u64 {
    request.op as u64 | if request.fua { KIND_FUA } else { 0 }
}

/// Is true if every one of these values is a kind.
pub(super) fn are_kinds(values: &[u64]) -> bool {
    const { assert!(Op::ALL.len() == 4) };
    // A fold without branches vectorises; a fault is so rare that finding it late costs nothing.
    values.iter().fold(0, |all, &v| all | v) & !(KIND_FUA | 3) == 0
}

/// The operation and FUA flag of a kind that [`are_kinds`] accepts.
#[inline(always)]
pub(super) fn from_kind(kind: u64) -> (Op, bool) {
    (Op::ALL[(kind & 3) as usize], kind & KIND_FUA != 0)
}

/// The file header with its checksum, and that checksum, which begins the chain.
pub(super) fn file_header() -> ([u8; FILE_HEADER_BYTES], u32) {
    let mut h = [0; FILE_HEADER_BYTES];
    h[0..8].copy_from_slice(&MAGIC);
    h[8..10].copy_from_slice(&VERSION.to_le_bytes());
    h[10..12].copy_from_slice(&(FILE_HEADER_BYTES as u16).to_le_bytes());
    // 12..16: features a reader must know, none so far. 20..28: reserved.
    h[16..20].copy_from_slice(&(MAX_BLOCK_REQUESTS as u32).to_le_bytes());
    let crc = crc32c::crc32c(&h[..28]);
    h[28..].copy_from_slice(&crc.to_le_bytes());
    (h, crc)
}

/// A whole file cut into its header and its records.
pub(crate) fn pieces(file: &[u8]) -> Vec<Vec<u8>> {
    let (header, mut rest) = file.split_at(FILE_HEADER_BYTES);
    let mut pieces = vec![header.to_vec()];
    while let Some(header) = rest.first_chunk() {
        let payload = RecordHeader::from_bytes(header).payload_bytes as usize;
        let (record, behind) = rest.split_at(RECORD_HEADER_BYTES + payload);
        pieces.push(record.to_vec());
        rest = behind;
    }
    pieces
}

/// Measures how much of the beginning of a file is of this format: a file header that its checksum confirms,
/// and the records after it, damaged or not. The last record may go on after `head`.
pub(crate) fn held(head: &[u8]) -> MarkedBytes {
    let Some(header) = head.first_chunk::<FILE_HEADER_BYTES>() else { return MarkedBytes { bytes: 0, proven: false } };
    let mut chain = u32_at(header, FILE_HEADER_BYTES - 4);
    if !header.starts_with(&MAGIC) || crc32c::crc32c(&header[..FILE_HEADER_BYTES - 4]) != chain {
        return MarkedBytes { bytes: 0, proven: false };
    }
    let mut bytes = FILE_HEADER_BYTES;
    while let Some(record) = head.get(bytes..bytes + RECORD_HEADER_BYTES) {
        let record = RecordHeader::from_bytes(record.try_into().expect("a record's header"));
        // Only what fails both is foreign: a damaged record of this format is still part of the file.
        if record.chain != chain && ![tag::BLOCK, tag::NAMES, tag::END].contains(&record.tag) {
            return MarkedBytes { bytes, proven: bytes > FILE_HEADER_BYTES };
        }
        chain = record.crc;
        bytes += RECORD_HEADER_BYTES + record.payload_bytes as usize;
    }
    MarkedBytes::all(head)
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) tag: [u8; 4],
    pub(super) flags: u32,
    pub(super) payload_bytes: u32,
    pub(super) chain: u32,
    pub(super) crc: u32,
}

impl RecordHeader {
    /// The header for a payload; `chain` is the checksum of what precedes the record.
    pub(super) fn new(tag: [u8; 4], flags: u32, payload: &[u8], chain: u32) -> Self {
        let mut header = Self { tag, flags, payload_bytes: payload.len() as u32, chain, crc: 0 };
        // The checksum covers the chain too, so that a record cannot be moved to another place.
        header.crc = header.checksum(payload);
        header
    }

    pub(super) fn to_bytes(self) -> [u8; RECORD_HEADER_BYTES] {
        let mut h = [0; RECORD_HEADER_BYTES];
        h[0..4].copy_from_slice(&self.tag);
        h[4..8].copy_from_slice(&self.flags.to_le_bytes());
        h[8..12].copy_from_slice(&self.payload_bytes.to_le_bytes());
        h[12..16].copy_from_slice(&self.chain.to_le_bytes());
        h[16..20].copy_from_slice(&self.crc.to_le_bytes());
        h
    }

    pub(super) fn from_bytes(h: &[u8; RECORD_HEADER_BYTES]) -> Self {
        Self {
            tag: [h[0], h[1], h[2], h[3]],
            flags: u32_at(h, 4),
            payload_bytes: u32_at(h, 8),
            chain: u32_at(h, 12),
            crc: u32_at(h, 16),
        }
    }

    /// CRC-32C over the header's first 16 bytes and the payload.
    pub(super) fn checksum(self, payload: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&self.to_bytes()[..16]), payload)
    }
}

/// Holds the counts of the end record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndRecord {
    pub(super) requests: u64,
    pub(super) blocks: u64,
    pub(super) volume_names: u32,
}

impl EndRecord {
    pub(super) fn to_bytes(self) -> [u8; END_BYTES] {
        let mut p = [0; END_BYTES];
        p[0..8].copy_from_slice(&self.requests.to_le_bytes());
        p[8..16].copy_from_slice(&self.blocks.to_le_bytes());
        p[16..20].copy_from_slice(&self.volume_names.to_le_bytes());
        p
    }

    pub(super) fn from_bytes(p: &[u8; END_BYTES]) -> Self {
        Self { requests: u64_at(p, 0), blocks: u64_at(p, 8), volume_names: u32_at(p, 16) }
    }
}

/// Little-endian, at a place that the caller has checked to be inside.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// As [`u16_at`].
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// As [`u16_at`].
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_with_the_most_columns_fits_the_largest_payload() {
        let column = 32 + 256 * 8 + 8 * (8 + MAX_BLOCK_REQUESTS);
        const { assert!(MAX_BLOCK_REQUESTS <= u16::MAX as usize) };
        assert!(BLOCK_HEADER_BYTES + MAX_COLUMNS * (DIRECTORY_ENTRY_BYTES + column) <= MAX_PAYLOAD_BYTES);
    }

    #[test]
    fn kinds_come_back() {
        for op in Op::ALL {
            for fua in [false, true] {
                let kind = kind_of(&Request { op, fua, ..Request::default() });
                assert!(are_kinds(&[kind]));
                assert_eq!(from_kind(kind), (op, fua));
            }
        }
        assert!(!are_kinds(&[0, 4]));
        assert!(!are_kinds(&[0x100]));
    }

    #[test]
    fn headers_come_back() {
        let h = RecordHeader::new(tag::BLOCK, OPTIONAL, b"payload", 77);
        assert_eq!(RecordHeader::from_bytes(&h.to_bytes()), h);
        assert_eq!(h.crc, h.checksum(b"payload"));
        assert_ne!(h.crc, h.checksum(b"payloae"));
        let end = EndRecord { requests: 1 << 40, blocks: 5, volume_names: 7 };
        assert_eq!(EndRecord::from_bytes(&end.to_bytes()), end);
    }
}
