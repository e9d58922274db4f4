//! Collects the requests of a generator, computes their fingerprint, and checks whether a count fits a
//! probability.

use destage_trace::{BATCH_REQUESTS, Request, TraceSource};

/// All requests of a source.
pub(crate) fn all(source: &mut dyn TraceSource) -> Vec<Request> {
    let (mut all, mut batch) = (vec![], vec![]);
    loop {
        source.next_batch(&mut batch).unwrap();
        assert!(batch.len() <= BATCH_REQUESTS);
        if batch.is_empty() {
            return all;
        }
        all.extend_from_slice(&batch);
    }
}

/// CRC-32C over every field, little-endian.
pub(crate) fn crc(requests: &[Request]) -> u32 {
    requests.iter().fold(0, |crc, r| {
        let mut bytes = vec![];
        bytes.extend(r.time.0.to_le_bytes());
        bytes.extend(r.offset.to_le_bytes());
        bytes.extend(r.len.to_le_bytes());
        bytes.extend(r.volume.to_le_bytes());
        bytes.extend([r.op as u8, u8::from(r.fua)]);
        crc32c::crc32c_append(crc, &bytes)
    })
}

/// Asserts that a count of `n` draws fits a probability.
#[track_caller]
pub(crate) fn assert_share(count: usize, n: usize, probability: f64) {
    let expected = probability * n as f64;
    let sigma = (expected * (1.0 - probability)).sqrt();
    assert!((count as f64 - expected).abs() <= 4.5 * sigma + 1e-9, "{count} of {n}, expected {expected} +- {sigma}");
}
