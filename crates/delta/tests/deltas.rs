//! What a delta is: it gives back the page, is as short as can be, and is told from anything else.

use destage_delta::{DeltaError, WORDS, decode, encode, encoded_len};
use proptest::prelude::*;

/// A page, and the same with some stretches of it overwritten.
fn pages() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let lengths = prop_oneof![Just(4096_usize), Just(64), 0..200_usize];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), 1..40_usize, any::<u8>()), 0..12);
    (lengths.prop_flat_map(|len| prop::collection::vec(any::<u8>(), len)), changes).prop_map(|(base, changes)| {
        let mut new = base.clone();
        for (at, len, byte) in changes.into_iter().filter(|_| !base.is_empty()) {
            let at = at.index(new.len());
            let end = (at + len).min(new.len());
            new[at..end].fill(byte);
        }
        (base, new)
    })
}

/// How long the shorter of the two ways is, counted word by word.
fn shortest(base: &[u8], new: &[u8]) -> usize {
    let mut len = 1 + base.len().div_ceil(64);
    for at in (0..base.len()).step_by(8) {
        let end = (at + 8).min(base.len());
        len += if base[at..end] == new[at..end] { 0 } else { end - at };
    }
    len.min(base.len())
}

fn decoded(base: &[u8], delta: &[u8]) -> Result<Vec<u8>, DeltaError> {
    let mut page = vec![0xee; base.len()];
    decode(base, delta, &mut page).map(|()| page)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_delta_gives_back_the_page_in_the_bytes_that_were_told((base, new) in pages()) {
        let mut delta = vec![7; 3];
        let len = encode(&base, &new, &mut delta);
        prop_assert_eq!((delta.len() - 3, encoded_len(&base, &new)), (len, len));
        prop_assert_eq!(len, shortest(&base, &new));
        prop_assert_eq!(&delta[..3], [7; 3]);
        prop_assert_eq!(decoded(&base, &delta[3..]), Ok(new));
    }

    #[test]
    fn a_delta_that_is_cut_or_longer_is_none((base, new) in pages(), cut in any::<prop::sample::Index>(), more in 1..9_usize) {
        let mut delta = Vec::new();
        let len = encode(&base, &new, &mut delta);
        // Of a raw page anything may be left.
        if len < base.len() {
            prop_assert!(decoded(&base, &delta[..cut.index(len)]).is_err());
        }
        delta.resize(len + more, 1);
        // As long as a page it is one.
        prop_assert_eq!(decoded(&base, &delta).is_ok(), delta.len() == base.len());
    }

    #[test]
    fn whatever_is_taken_for_changed_words_is_what_would_be_written(
        (base, new) in pages(),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let mut delta = Vec::new();
        let len = encode(&base, &new, &mut delta);
        if len > 0 && len < base.len() {
            delta[at.index(len)] ^= 1 << bit;
            if let Ok(page) = decoded(&base, &delta) {
                let mut again = Vec::new();
                encode(&base, &page, &mut again);
                prop_assert_eq!(again, delta);
            }
        }
    }
}

#[test]
fn errors_name_the_byte() {
    // Nine words, of which the last has two bytes.
    let base = [0x55; 66];
    let bitmap = |low: u8, high: u8| vec![WORDS, low, high];
    let with = |mut delta: Vec<u8>, words: &[u8]| {
        delta.extend_from_slice(words);
        delta
    };
    assert_eq!(decoded(&base, &[]), Err(DeltaError::Length { found: 0, expected: 1 }));
    assert_eq!(decoded(&base, &[9, 0, 0]), Err(DeltaError::Codec(9)));
    assert_eq!(decoded(&base, &[WORDS, 0]), Err(DeltaError::Length { found: 2, expected: 3 }));
    assert_eq!(decoded(&base, &bitmap(0, 2)), Err(DeltaError::Bitmap(2)));
    assert_eq!(decoded(&base, &with(bitmap(1, 0), &[1; 7])), Err(DeltaError::Length { found: 10, expected: 11 }));
    assert_eq!(decoded(&base, &with(bitmap(0, 1), &[1; 3])), Err(DeltaError::Length { found: 6, expected: 5 }));
    assert_eq!(decoded(&base, &with(bitmap(2, 1), &[[1; 8], [0; 8]].concat())), Err(DeltaError::Unchanged(11)));
    assert_eq!(decoded(&base, &[0; 67]), Err(DeltaError::Length { found: 67, expected: 66 }));
    assert_eq!(decoded(&base, &bitmap(0, 0)), Ok(base.to_vec()));
    let changed = decoded(&base, &with(bitmap(0, 1), &[0x0f, 0xf0])).expect("it is one");
    assert_eq!((&changed[..64], &changed[64..]), (&base[..64], &[0x5a, 0xa5][..]));
    let error = DeltaError::Unchanged(11).to_string();
    assert_eq!(error, "the word at byte 11 is said to have changed and has not");
}
