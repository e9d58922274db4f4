//! Tests that a delta gives back the page, is as short as can be, is told from anything else, and is the same
//! on any processor. A model that works unit by unit gives the expected bytes.

use destage_delta::patterns::ChangePattern;
use destage_delta::{DeltaCodec, DeltaEncoder, DeltaError, DeltaKernels, decode, encode, encoded_len};
use proptest::prelude::*;

/// Bytes of what a bit stands for.
fn unit(codec: DeltaCodec) -> usize {
    match codec {
        DeltaCodec::Words => 8,
        DeltaCodec::Bytes => 1,
        DeltaCodec::Lz4 => panic!("LZ4 has no bitmap"),
    }
}

/// The delta of a codec with a bitmap, made bit by bit, be it longer than the page.
fn model(codec: DeltaCodec, base: &[u8], new: &[u8]) -> Vec<u8> {
    let mut delta = vec![codec.number()];
    delta.resize(1 + base.len().div_ceil(unit(codec)).div_ceil(8), 0);
    for (index, (old, new)) in base.chunks(unit(codec)).zip(new.chunks(unit(codec))).enumerate() {
        if old != new {
            delta[1 + index / 8] |= 1 << (index % 8);
            delta.extend(old.iter().zip(new).map(|(old, new)| old ^ new));
        }
    }
    delta
}

/// Returns the result of a codec with a bitmap, or the page where that is no longer.
fn model_or_raw(codec: DeltaCodec, base: &[u8], new: &[u8]) -> Vec<u8> {
    let delta = model(codec, base, new);
    if delta.len() < new.len() { delta } else { new.to_vec() }
}

/// The shortest.
fn shortest(base: &[u8], new: &[u8]) -> Vec<u8> {
    let [words, bytes] = [DeltaCodec::Words, DeltaCodec::Bytes].map(|codec| model_or_raw(codec, base, new));
    if bytes.len() < words.len() { bytes } else { words }
}

/// A delta, with what is around it guarded.
fn encoded(base: &[u8], new: &[u8], encode: impl FnOnce(&[u8], &[u8], &mut [u8]) -> usize) -> Vec<u8> {
    let mut room = vec![0xc3; base.len() + 128];
    let len = encode(base, new, &mut room[64..64 + base.len()]);
    assert!(room[..64].iter().chain(&room[64 + base.len()..]).all(|byte| *byte == 0xc3));
    room[64..64 + len].to_vec()
}

fn decoded(kernels: DeltaKernels, base: &[u8], delta: &[u8]) -> Result<Vec<u8>, DeltaError> {
    let mut page = vec![0xee; base.len()];
    kernels.decode(base, delta, &mut page).map(|()| page)
}

/// Every instruction set in every codec, against the model.
fn check(base: &[u8], new: &[u8]) {
    let expected = shortest(base, new);
    assert_eq!(encoded_len(base, new), expected.len());
    for kernels in DeltaKernels::all_available() {
        let what = |codec| format!("{codec:?} with {}: {} B\n{base:?}\n{new:?}", kernels.name(), base.len());
        assert_eq!(kernels.encoded_len(base, new), expected.len(), "{}", what(None));
        let delta = encoded(base, new, |base, new, delta| kernels.encode(base, new, delta));
        assert_eq!(delta, expected, "{}", what(None));
        for codec in DeltaCodec::ALL {
            let mut encoder = DeltaEncoder::new(kernels, codec);
            let delta = encoded(base, new, |base, new, delta| encoder.encode(base, new, delta));
            if codec != DeltaCodec::Lz4 {
                assert_eq!(delta, model_or_raw(codec, base, new), "{}", what(Some(codec)));
            }
            assert!(delta.len() == new.len() || delta[0] == codec.number(), "{}", what(Some(codec)));
            assert!(delta.len() <= new.len(), "{}", what(Some(codec)));
            assert_eq!(decoded(kernels, base, &delta).as_deref(), Ok(new), "{}", what(Some(codec)));
        }
    }
}

/// A page and the same with changes.
fn changed(pattern: ChangePattern, changed: usize, seed: u64, len: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut base, mut new) = (vec![0; len], vec![0; len]);
    ChangePattern::OneRun.fill(len, !seed, &mut base);
    pattern.fill(changed, seed, &mut new);
    new.iter_mut().zip(&base).for_each(|(new, old)| *new ^= old);
    (base, new)
}

#[test]
fn pages_of_every_length_are_right() {
    for len in 0..600 {
        for (seed, pattern) in ChangePattern::ALL.into_iter().enumerate() {
            for share in [0, 1, 12, 50, 80, 100] {
                let (base, new) = changed(pattern, len * share / 100, (len * 4 + seed) as u64, len);
                check(&base, &new);
            }
        }
    }
}

#[test]
fn there_is_always_a_portable_implementation_and_the_best_is_the_first() {
    let names: Vec<_> = DeltaKernels::all_available().map(DeltaKernels::name).collect();
    assert_eq!(names.last(), Some(&"portable"));
    assert_eq!(names.first(), Some(&DeltaKernels::best().name()));
}

#[test]
fn lengths_are_those_of_the_format() {
    // A page of 4 KiB has 512 words; 409 bytes are a tenth of it.
    let len = |pattern, share: usize| {
        let (base, new) = changed(pattern, 4096 * share / 100, 7, 4096);
        (encoded_len(&base, &new), shortest(&base, &new)[0])
    };
    assert_eq!(len(ChangePattern::Words, 10), (1 + 64 + 52 * 8, 1));
    assert_eq!(len(ChangePattern::Bytes, 10), (1 + 512 + 409, 2));
    assert_eq!(len(ChangePattern::Bytes, 87), (1 + 512 + 3563, 2));
    assert_eq!(len(ChangePattern::Bytes, 88).0, 4096, "a page whose delta does not pay is raw");
    assert_eq!(len(ChangePattern::OneRun, 100).0, 4096);
    assert_eq!(len(ChangePattern::OneRun, 0), (1 + 64, 1));
}

/// Lengths of pages: that of real ones, that of the crash harness, and any.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![Just(4096_usize), Just(64), 0..200_usize, 3900..4300_usize]
}

/// A page, and the same with changes that lie somehow.
fn pages() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let patterns = (lengths(), prop::sample::select(&ChangePattern::ALL), 0..=100_usize, any::<u64>());
    let patterns = patterns.prop_map(|(len, pattern, share, seed)| changed(pattern, len * share / 100, seed, len));
    // Overwritten with the same byte again and again, which LZ4 sees and a page may have already.
    let stretches = prop::collection::vec((any::<prop::sample::Index>(), 1..400_usize, any::<u8>()), 0..12);
    let stretches = (lengths(), any::<u8>(), stretches).prop_map(|(len, fill, stretches)| {
        let base = vec![fill; len];
        let mut new = base.clone();
        for (at, count, byte) in stretches.into_iter().filter(|_| len > 0) {
            let at = at.index(len);
            let end = (at + count).min(len);
            new[at..end].fill(byte);
        }
        (base, new)
    });
    prop_oneof![3 => patterns, 1 => stretches]
}

fn cases() -> ProptestConfig {
    let cases = if std::env::var_os("DESTAGE_SOAK").is_some() { 20_000 } else { 300 };
    // Some tests reject every fifth case.
    ProptestConfig { cases, max_global_rejects: cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_delta_is_what_the_model_says_and_gives_back_the_page((base, new) in pages()) {
        check(&base, &new);
    }

    #[test]
    fn a_delta_that_is_cut_or_longer_is_none(
        (base, new) in pages(),
        codec in prop::sample::select(&DeltaCodec::ALL),
        cut in any::<prop::sample::Index>(),
        more in prop::collection::vec(any::<u8>(), 1..90),
    ) {
        let mut delta = vec![0; base.len()];
        let len = DeltaEncoder::new(DeltaKernels::best(), codec).encode(&base, &new, &mut delta);
        delta.truncate(len);
        for kernels in DeltaKernels::all_available() {
            // Of a raw page anything may be left.
            if len < base.len() {
                let cut = decoded(kernels, &base, &delta[..cut.index(len)]);
                prop_assert!(cut.is_err(), "{:?}", cut);
            }
            let longer = [&delta[..], &more].concat();
            // As long as a page it is one.
            prop_assert_eq!(decoded(kernels, &base, &longer).is_ok(), longer.len() == base.len());
        }
    }

    /// Damage of a bitmap or of what follows it is an error, the same from all, or what would be
    /// written of another page.
    #[test]
    fn whatever_is_taken_for_a_bitmap_is_what_would_be_written(
        (base, new) in pages(),
        codec in prop::sample::select(&[DeltaCodec::Words, DeltaCodec::Bytes]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut delta = model(codec, &base, &new);
        prop_assume!(delta.len() < base.len());
        for (at, byte) in damage {
            // The codec's number is left.
            let at = 1 + at.index(delta.len() - 1);
            delta[at] = if byte < 128 { delta[at] ^ 1 << (byte % 8) } else { byte };
        }
        let results: Vec<_> = DeltaKernels::all_available().map(|kernels| decoded(kernels, &base, &delta)).collect();
        prop_assert!(results.windows(2).all(|two| two[0] == two[1]), "{:?}", results);
        if let Ok(page) = &results[0] {
            prop_assert_eq!(model(codec, &base, page), delta);
        }
    }

    #[test]
    fn any_bytes_are_a_page_or_an_error(
        base in lengths().prop_flat_map(|len| prop::collection::vec(any::<u8>(), len)),
        first in 0..5_u8,
        rest in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..4200),
    ) {
        let delta = [&[first], &rest[..]].concat();
        let results: Vec<_> = DeltaKernels::all_available().map(|kernels| decoded(kernels, &base, &delta)).collect();
        prop_assert!(results.windows(2).all(|two| two[0] == two[1]), "{:?}", results);
        prop_assert!(results[0].is_err() || delta.len() <= base.len());
    }
}

/// The error that all instruction sets agree on.
#[track_caller]
fn error(base: &[u8], delta: &[u8]) -> DeltaError {
    let errors: Vec<_> =
        DeltaKernels::all_available().map(|kernels| decoded(kernels, base, delta).expect_err("it is none")).collect();
    assert!(errors.windows(2).all(|two| two[0] == two[1]), "{errors:?}");
    errors[0]
}

#[test]
fn errors_name_the_byte() {
    // Nine words, of which the last has two bytes.
    let base = [0x55; 66];
    assert_eq!(error(&base, &[]), DeltaError::Length { found: 0, expected: 1 });
    assert_eq!(error(&base, &[9, 0, 0]), DeltaError::Codec(9));
    assert_eq!(error(&base, &[0; 67]), DeltaError::Length { found: 67, expected: 66 });

    let words = |low: u8, high: u8, data: &[u8]| [&[DeltaCodec::Words.number(), low, high], data].concat();
    assert_eq!(error(&base, &[DeltaCodec::Words.number(), 0]), DeltaError::Length { found: 2, expected: 3 });
    assert_eq!(error(&base, &words(0, 2, &[])), DeltaError::Bitmap(2));
    assert_eq!(error(&base, &words(1, 0, &[1; 7])), DeltaError::Length { found: 10, expected: 11 });
    assert_eq!(error(&base, &words(0, 1, &[1; 3])), DeltaError::Length { found: 6, expected: 5 });
    assert_eq!(error(&base, &words(6, 0, &[[1; 8], [0; 8]].concat())), DeltaError::Unchanged(11));
    assert_eq!(error(&base, &words(1, 1, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0])), DeltaError::Unchanged(11));

    let bytes = |marks: &[(usize, u8)], data: &[u8]| {
        let mut delta = vec![DeltaCodec::Bytes.number(), 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for (at, bits) in marks {
            delta[1 + at] = *bits;
        }
        [&delta, data].concat()
    };
    assert_eq!(error(&base, &bytes(&[], &[])[..9]), DeltaError::Length { found: 9, expected: 10 });
    assert_eq!(error(&base, &bytes(&[(8, 4)], &[])), DeltaError::Bitmap(9));
    assert_eq!(error(&base, &bytes(&[(0, 5)], &[1])), DeltaError::Length { found: 11, expected: 12 });
    assert_eq!(error(&base, &bytes(&[(7, 5), (8, 3)], &[1, 2, 3, 0])), DeltaError::Unchanged(13));
    assert_eq!(error(&base, &bytes(&[(7, 5), (8, 3)], &[1, 0, 3, 4])), DeltaError::Unchanged(11));

    let block = |bytes: &[u8]| [&[DeltaCodec::Lz4.number()], bytes].concat();
    // Two literals, then 66 bytes more from two before; no end; nothing before; four bytes alone.
    assert_eq!(error(&base, &block(&[0x2f, 1, 2, 2, 0, 47])), DeltaError::Block("it holds more bytes than a page"));
    assert_eq!(error(&base, &block(&[])), DeltaError::Block("it ends where another byte must follow"));
    assert_eq!(error(&base, &block(&[0x50, 1])), DeltaError::Block("it ends within bytes that stand for themselves"));
    assert_eq!(error(&base, &block(&[0x10, 1, 2, 0])), DeltaError::Block("it repeats bytes from before the page"));
    assert_eq!(error(&base, &block(&[0x40, 1, 2, 3, 4])), DeltaError::Short { found: 4, expected: 66 });

    assert_eq!(DeltaError::Unchanged(11).to_string(), "what is at byte 11 is said to have changed and has not");
    let short = DeltaError::Short { found: 4, expected: 66 }.to_string();
    assert_eq!(short, "the LZ4 block at byte 1 holds 4 bytes; the page has 66");
}

#[test]
fn small_deltas_are_those_worked_out_by_hand() {
    let base = [0x55; 66];
    let mut new = base;
    new[64..].copy_from_slice(&[0x5a, 0xa5]);
    assert_eq!(decode_best(&base, &[1, 0, 1, 0x0f, 0xf0]), new);
    assert_eq!(decode_best(&base, &[2, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0x0f, 0xf0]), new);
    // 57 zeros by repeating one, then the last nine bytes.
    assert_eq!(decode_best(&base, &[3, 0x1f, 0, 1, 0, 37, 0x90, 0, 0, 0, 0, 0, 0, 0, 0x0f, 0xf0]), new);
    assert_eq!(decode_best(&base, &new), new);
    assert_eq!(decode_best(&base, &[1, 0, 0]), base);
    let mut delta = [0; 66];
    assert_eq!(encode(&base, &new, &mut delta), 5);
    assert_eq!(delta[..5], [1, 0, 1, 0x0f, 0xf0]);
}

fn decode_best(base: &[u8; 66], delta: &[u8]) -> [u8; 66] {
    let mut page = [0; 66];
    decode(base, delta, &mut page).expect("it is one");
    page
}

#[test]
fn pages_of_different_lengths_are_named() {
    let complaint = |run: fn() -> usize| {
        let cause = std::panic::catch_unwind(run).expect_err("the lengths differ");
        cause.downcast_ref::<String>().cloned().unwrap_or_default()
    };
    let calls: [fn() -> usize; 5] = [
        || encoded_len(&[0; 16], &[0; 15]),
        || encode(&[0; 16], &[0; 15], &mut [0; 16]),
        || encode(&[0; 16], &[0; 16], &mut [0; 15]),
        || DeltaEncoder::new(DeltaKernels::best(), DeltaCodec::Lz4).encode(&[0; 16], &[0; 15], &mut [0; 16]),
        || decode(&[0; 16], &[0; 16], &mut [0; 15]).map_or(0, |()| 1),
    ];
    for call in calls {
        assert_eq!(complaint(call), "a page of 16 bytes with one of 15");
    }
}
