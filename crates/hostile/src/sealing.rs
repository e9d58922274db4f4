//! Native traces whose checksums and counts are put right first, so that what lies behind them is
//! reached (docs/trace-format.md).

use destage_plan::{Nanos, Request};
use destage_trace::{FormatId, LATENCY_UNKNOWN, NativeReader, NativeWriter, TraceSource};

use crate::reading;

const FILE_HEADER_BYTES: usize = 32;
const RECORD_HEADER_BYTES: usize = 20;
/// Writing costs fifty times what reading does: one trace in so many is written again.
const WRITTEN_AGAIN: u32 = 64;

/// Reads a trace in every way, and now and then writes what was read and reads it again.
pub(crate) fn check(bytes: &[u8]) {
    let sealed = seal(bytes);
    reading::check(Some(FormatId::Native), &sealed);
    // Chosen by the bytes, so an input that fails fails again.
    if crc32c::crc32c(bytes).is_multiple_of(WRITTEN_AGAIN) {
        written_again(&sealed);
    }
}

/// Puts the checksums of the file header and of the records right, how the records are chained, and
/// what the end record counts.
fn seal(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() < FILE_HEADER_BYTES {
        return bytes;
    }
    let mut chain = crc32c::crc32c(&bytes[..28]);
    bytes[28..32].copy_from_slice(&chain.to_le_bytes());
    let (mut requests, mut blocks, mut names) = (0_u64, 0_u64, 0_u32);
    let mut at = FILE_HEADER_BYTES;
    while let Some(header) = bytes.get_mut(at..at + RECORD_HEADER_BYTES) {
        header[12..16].copy_from_slice(&chain.to_le_bytes());
        let payload = u32_at(header, 8) as usize;
        let begin = at + RECORD_HEADER_BYTES;
        // A record that ends beyond the file is left as it is: readers must find that out.
        let Some(end) = begin.checked_add(payload).filter(|&end| end <= bytes.len()) else { break };
        match &bytes[at..at + 4] {
            b"BLCK" if payload >= 4 => {
                requests = requests.wrapping_add(u32_at(&bytes, begin).into());
                blocks += 1;
            }
            b"NAME" => names += names_in(&bytes[begin..end]),
            b"DONE" if payload >= 20 => {
                bytes[begin..begin + 8].copy_from_slice(&requests.to_le_bytes());
                bytes[begin + 8..begin + 16].copy_from_slice(&blocks.to_le_bytes());
                bytes[begin + 16..begin + 20].copy_from_slice(&names.to_le_bytes());
            }
            _ => {}
        }
        chain = crc32c::crc32c_append(crc32c::crc32c(&bytes[at..at + 16]), &bytes[begin..end]);
        bytes[at + 16..at + 20].copy_from_slice(&chain.to_le_bytes());
        at = end;
    }
    bytes
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Volume names in a record of them.
fn names_in(mut payload: &[u8]) -> u32 {
    let mut names = 0;
    while let [low, high, rest @ ..] = payload {
        names += 1;
        payload = rest.get(usize::from(u16::from_le_bytes([*low, *high]))..).unwrap_or_default();
    }
    names
}

/// A native trace in memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) requests: Vec<Request>,
    /// One for each request; unknown where the trace has none.
    pub(crate) latencies: Vec<Nanos>,
    pub(crate) names: Vec<String>,
}

/// Reads a native trace, if it is whole.
pub(crate) fn whole(bytes: &[u8]) -> Option<Whole> {
    let mut reader = NativeReader::open("trace".as_ref(), Box::new(std::io::Cursor::new(bytes.to_vec()))).ok()?;
    let (mut batch, mut latencies, mut whole) = (Vec::new(), Vec::new(), Whole::default());
    loop {
        reader.next_batch(&mut batch).ok()?;
        if batch.is_empty() {
            whole.names = reader.volume_names().to_vec();
            return Some(whole);
        }
        reader.latencies(&mut latencies).ok()?;
        whole.requests.append(&mut batch);
        whole.latencies.append(&mut latencies);
        whole.latencies.resize(whole.requests.len(), LATENCY_UNKNOWN);
    }
}

fn written_again(bytes: &[u8]) {
    let Some(read) = whole(bytes) else { return };
    let mut writer = NativeWriter::new(Vec::new()).expect("memory");
    writer.volume_names(&read.names).expect("names that were read can be written");
    writer.write_with_latencies(&read.requests, &read.latencies).expect("requests that were read can be written");
    let written = writer.finish().expect("memory");
    assert_eq!(whole(&written), Some(read), "written again");
}
