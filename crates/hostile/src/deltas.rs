//! Deltas: what is kept in slots and pages, and may be damaged there.

use destage_delta::{decode, encode, encoded_len};

use crate::bytes::Bytes;

/// Bytes of a page at most.
const PAGE: usize = 300;

/// The length of a page, a byte that the page is filled with, then a delta of it. What is accepted
/// gives a page of which a delta can be made that is no longer, and gives that page again.
pub(crate) fn check(bytes: &[u8]) {
    let mut head = Bytes::new(bytes);
    let (len, fill) = (usize::from(head.u16()) % PAGE, head.u8());
    let delta = bytes.get(3..).unwrap_or_default();
    let base: Vec<u8> = (0..len).map(|at| fill ^ (at / 5) as u8).collect();
    let mut page = vec![0; len];
    if let Err(error) = decode(&base, delta, &mut page) {
        assert!(!error.to_string().is_empty());
        return;
    }
    let mut again = Vec::new();
    let written = encode(&base, &page, &mut again);
    assert_eq!((again.len(), encoded_len(&base, &page)), (written, written));
    assert!(written <= delta.len(), "what is read is not written longer");
    assert!(delta.len() == len || again == delta, "changed words are written in one way");
    let mut same = vec![0; len];
    decode(&base, &again, &mut same).expect("what was written");
    assert_eq!(same, page);
}
