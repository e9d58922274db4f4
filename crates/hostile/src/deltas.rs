//! Deltas: what is kept in slots and pages, and may be damaged there.

use destage_delta::{DeltaCodec, DeltaEncoder, DeltaKernels, encoded_len};

use crate::bytes::Bytes;

/// Bytes of a page at most.
const PAGE: usize = 300;

/// The length of a page, a byte that the page is filled with, then a delta of it. All instruction
/// sets say the same of it. What is accepted gives a page of which every codec makes a delta that
/// gives that page again; with a bitmap it was written in the one way there is, and the shortest
/// delta is no longer.
pub(crate) fn check(bytes: &[u8]) {
    let mut head = Bytes::new(bytes);
    let (len, fill) = (usize::from(head.u16()) % PAGE, head.u8());
    let delta = bytes.get(3..).unwrap_or_default();
    let base: Vec<u8> = (0..len).map(|at| fill ^ (at / 5) as u8).collect();
    let decoded = |kernels: DeltaKernels, delta: &[u8]| {
        let mut page = vec![0; len];
        kernels.decode(&base, delta, &mut page).map(|()| page)
    };
    let result = decoded(DeltaKernels::best(), delta);
    // An array may be served on another processor than the one that wrote it.
    for kernels in DeltaKernels::all_available() {
        assert_eq!(decoded(kernels, delta), result, "{}", kernels.name());
    }
    let page = match result {
        Ok(page) => page,
        Err(error) => {
            assert!(error.to_string().contains("byte"), "{error}");
            return;
        }
    };
    let of = |codec: DeltaCodec| delta.len() < len && delta[0] == codec.number();
    let shortest = encoded_len(&base, &page);
    // A bitmap delta has one encoding, so what is accepted cannot be longer than the shortest.
    assert!(of(DeltaCodec::Lz4) || shortest <= delta.len(), "what is read is not written longer");
    let mut again = vec![0; len];
    for kernels in DeltaKernels::all_available() {
        let written = kernels.encode(&base, &page, &mut again);
        assert_eq!(written, shortest, "{}", kernels.name());
        assert_eq!(decoded(kernels, &again[..written]).as_ref(), Ok(&page), "{}", kernels.name());
        for codec in DeltaCodec::ALL {
            let written = DeltaEncoder::new(kernels, codec).encode(&base, &page, &mut again);
            let again = &again[..written];
            assert_eq!(decoded(kernels, again).as_ref(), Ok(&page), "{} {codec:?}", kernels.name());
            assert!(codec == DeltaCodec::Lz4 || !of(codec) || again == delta, "changes are written in one way");
        }
    }
}
