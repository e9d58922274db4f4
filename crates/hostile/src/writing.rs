//! Any requests at all, through the native format and back.

use destage_plan::Nanos;
use destage_trace::{LATENCY_UNKNOWN, NativeWriter};

use crate::bytes::Bytes;
use crate::sealing::{Whole, whole};

/// Requests of an input at most.
const MOST: usize = 256;
/// Volumes from here on are refused (docs/trace-format.md).
const REFUSED_VOLUMES: u32 = 1 << 20;

/// Writes requests, some of them with latencies, and volume names in pieces, and reads them.
pub(crate) fn check(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let piece = usize::from(bytes.u8()).max(1);
    let level = bytes.choice(&[1, 3, 3, 3]);
    let with_latencies = bytes.u8();
    let names: Vec<String> = (0..bytes.u8() % 8).map(|_| "v".repeat(bytes.u8().into())).collect();
    let requests = bytes.requests(MOST);
    let mut writer = NativeWriter::with_level(Vec::new(), level).expect("memory");
    let mut expected = Whole::default();
    for (number, some) in requests.chunks(piece).enumerate() {
        let latencies: Vec<Nanos> = if with_latencies >> (number % 8) & 1 == 1 {
            some.iter().map(|r| if r.fua { LATENCY_UNKNOWN } else { Nanos(r.offset) }).collect()
        } else {
            vec![LATENCY_UNKNOWN; some.len()]
        };
        let written = if latencies.iter().all(|&latency| latency == LATENCY_UNKNOWN) {
            writer.write(some)
        } else {
            writer.write_with_latencies(some, &latencies)
        };
        if let Err(error) = written {
            // The writer refuses volumes that its format cannot name, and nothing else.
            assert!(some.iter().any(|request| request.volume >= REFUSED_VOLUMES), "{error}");
            return;
        }
        expected.requests.extend(some);
        expected.latencies.extend(latencies);
        expected.names.extend(names.get(number).cloned());
        writer.volume_names(&expected.names).expect("short names");
    }
    let written = writer.finish().expect("memory");
    assert_eq!(whole(&written), Some(expected), "read again");
}
