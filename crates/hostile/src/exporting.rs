//! Any requests at all, through the exports to other formats.
//!
//! What a format cannot hold is refused or counted, and what was written can be read again as that
//! format.

use destage_plan::Request;
use destage_trace::{ExportSpec, FormatId, FormatSpec, OpenOptions, TraceExporter, TraceSource, open_stream};

use crate::bytes::Bytes;

/// Requests of an input at most.
const MOST: usize = 128;
/// Bytes of a request at most, unless it has so many that any format refuses it or holds it in one
/// record: each page may become a record.
const MOST_BYTES: u64 = 256 << 10;
const REFUSED_BYTES: u64 = 1 << 43;
/// Volumes at most.
const MOST_VOLUMES: u32 = 1 << 22;

/// A format with its options, the end of the line, and requests.
pub(crate) fn check(bytes: &[u8]) {
    let end = bytes.iter().position(|&b| b == b'\n').unwrap_or(bytes.len());
    let (spec, rest) = bytes.split_at(end);
    let Ok(text) = std::str::from_utf8(spec) else { return };
    let spec = match text.parse::<ExportSpec>() {
        Ok(spec) => spec,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let mut bytes = Bytes::new(rest.get(1..).unwrap_or_default());
    let names: Vec<String> =
        (0..bytes.u8() % 4).map(|_| char::from(bytes.u8()).to_string().repeat(usize::from(bytes.u8() & 3))).collect();
    let mut requests = bytes.requests(MOST);
    for request in &mut requests {
        // Lengths are cut, since a record per page of an exabyte would fill the disk; longest ones stay, to be
        // refused.
        if request.len < REFUSED_BYTES {
            request.len = request.len.min(MOST_BYTES);
        }
        request.volume %= MOST_VOLUMES;
        // fio's log begins a microsecond late, and times at the end of the range cannot be read from it.
        request.time.0 /= 2;
    }
    let mut exporter =
        TraceExporter::new(&spec, Vec::new(), &std::env::temp_dir()).expect("a place for temporary files");
    for some in requests.chunks(16) {
        if let Err(error) = exporter.write(some, &names) {
            assert!(!error.to_string().is_empty());
            return;
        }
    }
    let Ok((written, report)) = exporter.finish() else { return };
    assert_eq!(report.read, requests.len() as u64);
    assert_eq!(report.written + report.left_out.iter().sum::<u64>(), report.read, "{report:?}");
    assert!(report.records >= report.written, "{report:?}");
    let records = read(spec.id(), &written).len() as u64;
    // Reading back counts the records that other tools would see.
    assert_eq!(records, report.records, "{report:?}: {}", written.escape_ascii());
}

/// Reads what was written.
fn read(id: FormatId, written: &[u8]) -> Vec<Request> {
    let format: FormatSpec = match id {
        // Volumes that are kept apart have addresses beyond 2^64 bytes, if objects are taken for pages.
        FormatId::OracleGeneral => "oracle-general:op=R,unit=1".parse(),
        _ => id.name().parse(),
    }
    .expect("a format that was written");
    let options = OpenOptions { format: Some(format), lenient: false };
    let shown = || written.escape_ascii();
    let mut trace = open_stream("written", Box::new(std::io::Cursor::new(written.to_vec())), None, &options)
        .unwrap_or_else(|error| panic!("{error}: {}", shown()));
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        trace.next_batch(&mut batch).unwrap_or_else(|error| panic!("{error}: {}", shown()));
        if batch.is_empty() {
            return all;
        }
        all.append(&mut batch);
    }
}
