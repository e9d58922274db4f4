//! Traces from bytes to requests.

use std::io::Cursor;

use destage_plan::{PageGeometry, Request};
use destage_trace::{NativeWriter, OpenOptions, TraceExporter, TraceSource, TraceStat, open_stream};

use crate::Work;
use crate::requests::requests;

const REQUESTS: usize = 20_000;
const PAGES: u64 = 1 << 20;

/// The bytes of a native trace.
pub fn native(requests: &[Request]) -> Vec<u8> {
    let mut writer = NativeWriter::new(Vec::new()).expect("memory");
    writer.write(requests).expect("memory");
    writer.finish().expect("memory")
}

/// The bytes of a trace in the format that this names.
fn exported(format: &str, requests: &[Request]) -> Vec<u8> {
    let spec = format.parse().expect("a format that can be written");
    let mut exporter = TraceExporter::new(&spec, Vec::new(), &std::env::temp_dir()).expect("a temporary file");
    exporter.write(requests, &[]).expect("the format holds them");
    exporter.finish().expect("memory").0
}

/// Reads a trace: `native`, a format that can be written, or a table that the columns describe.
///
/// # Panics
/// If it is none of these.
pub fn read(format: &str) -> Work {
    let requests = requests(REQUESTS, |random| random.skewed(PAGES));
    let (bytes, format) = match format {
        "native" => (native(&requests), format),
        "columns" => (exported("disksim", &requests), "columns:ts=ms,dev,off=sectors,len=sectors,op(1=R)"),
        "oracle-general" => (exported("oracle-general:op=all", &requests), "oracle-general:op=W"),
        _ => (exported(format, &requests), format),
    };
    let options = OpenOptions { format: Some(format.parse().expect("a format")), lenient: false };
    let mut batch = Vec::new();
    Box::new(move || {
        let bytes = Cursor::new(bytes.clone());
        let mut trace = open_stream("memory", Box::new(bytes), None, &options).expect("a trace");
        let mut sum = 0;
        loop {
            trace.next_batch(&mut batch).expect("sound bytes");
            let Some(last) = batch.last() else { return sum };
            sum += batch.len() as u64 + last.offset;
        }
    })
}

/// The statistics of a trace, of requests in memory.
///
/// # Panics
/// Never.
pub fn stat() -> Work {
    let requests = requests(REQUESTS, |random| random.skewed(PAGES));
    let geometry = PageGeometry::new(4096, 64).expect("a geometry");
    Box::new(move || {
        let mut stat = TraceStat::new(geometry);
        stat.feed(&requests);
        stat.finish().unique_pages
    })
}
