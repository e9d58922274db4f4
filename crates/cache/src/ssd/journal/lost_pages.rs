//! Encodes pages that were lost with a device, as slots of the NVRAM list them.
//!
//! A list is cut into chunks, each of which is a slot: its tag says which pages are the first and the last and how many
//! there are, its bytes which they are. Pages that follow each other are a run. Of each run, in ascending order, a number
//! says how many pages that are not lost lie before it (0 for the first, one fewer for each other, since there is one at
//! least), shifted by a bit that says whether it has more than one page; if so, a second one how many more than two. A
//! number is in groups of 7 bits, the lowest first, all but the last with the highest bit set (LEB128).

use std::iter::Peekable;

/// Holds a part of a list that fits into a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LostChunk {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) pages: u64,
    pub(super) bytes: Vec<u8>,
}

/// Encodes pages, which are ascending, in chunks of at most so many bytes.
pub(super) fn encode(pages: impl Iterator<Item = u64>, most: usize) -> Vec<LostChunk> {
    let (mut chunks, mut pages): (Vec<LostChunk>, _) = (Vec::new(), pages.peekable());
    while let Some((first, count)) = next_run(&mut pages) {
        let last = first + count - 1;
        if let Some(chunk) = chunks.last_mut() {
            let before = chunk.bytes.len();
            put_run(&mut chunk.bytes, first - chunk.last - 2, count);
            if chunk.bytes.len() <= most {
                (chunk.last, chunk.pages) = (last, chunk.pages + count);
                continue;
            }
            // The run that does not fit begins the next chunk, whose first page is
            // in the tag and needs no gap.
            chunk.bytes.truncate(before);
        }
        let mut bytes = Vec::new();
        put_run(&mut bytes, 0, count);
        chunks.push(LostChunk { first, last, pages: count, bytes });
    }
    chunks
}

/// Decodes the pages of a chunk, ascending; none if these are not bytes of this chunk.
pub(super) fn decode(chunk: &LostChunk) -> Option<Vec<u64>> {
    let (mut pages, mut bytes, mut next) = (Vec::new(), chunk.bytes.as_slice(), chunk.first);
    while !bytes.is_empty() {
        // Every length is checked before it is used: the bytes may be damaged, and
        // a page count of 2^60 must not allocate.
        let gap = take(&mut bytes)?;
        let count = if gap & 1 == 1 { take(&mut bytes)?.checked_add(2)? } else { 1 };
        let first = next.checked_add(gap >> 1)?;
        let end = first.checked_add(count)?;
        // The count is compared with what the tag promises before the pages are
        // made, for the same reason.
        if end - 1 > chunk.last || count > chunk.pages.checked_sub(pages.len() as u64)? {
            return None;
        }
        pages.extend(first..end);
        // There is a page between two runs.
        next = end.saturating_add(1);
    }
    // Bytes that decode to other pages than the tag names are damage, even if each
    // number is plausible.
    let is_whole = pages.first() == Some(&chunk.first) && pages.last() == Some(&chunk.last);
    (is_whole && pages.len() as u64 == chunk.pages).then_some(pages)
}

/// Takes the pages that follow each other: the first, and how many.
fn next_run(pages: &mut Peekable<impl Iterator<Item = u64>>) -> Option<(u64, u64)> {
    let first = pages.next()?;
    let mut count = 1;
    while pages.next_if_eq(&(first + count)).is_some() {
        count += 1;
    }
    Some((first, count))
}

fn put_run(bytes: &mut Vec<u8>, gap: u64, count: u64) {
    put(bytes, gap << 1 | u64::from(count > 1));
    if count > 1 {
        put(bytes, count - 2);
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    // Nine groups of 7 bits hold 63 bits. A tenth would overflow, and no page
    // number needs it.
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn decoded(chunks: &[LostChunk]) -> Option<Vec<u64>> {
        chunks.iter().map(decode).collect::<Option<Vec<_>>>().map(|all| all.concat())
    }

    #[test]
    fn pages_far_apart_take_two_bytes_and_a_run_as_many_as_its_length() {
        let sizes =
            |pages: &[u64]| encode(pages.iter().copied(), 512).iter().map(|chunk| chunk.bytes.len()).sum::<usize>();
        assert_eq!((sizes(&[]), sizes(&[1 << 40]), sizes(&[7, 9, 500])), (0, 1, 4));
        let run: Vec<u64> = (1_000..201_000).collect();
        assert_eq!(sizes(&run), 1 + 3);
        // A page in 33, as of a cache that is a tenth as large as its array and of which 30 % are dirty.
        let spread: Vec<u64> = (0..1_000_000).map(|page| page * 33).collect();
        assert_eq!(encode(spread.iter().copied(), 4096).len(), 1_000_000_usize.div_ceil(4096));
    }

    #[test]
    fn what_is_no_chunk_is_not_taken_for_one() {
        let [chunk] = &encode([3, 4, 5, 9].into_iter(), 512)[..] else { panic!("they fit into one") };
        assert_eq!((chunk.first, chunk.last, chunk.pages, &chunk.bytes[..]), (3, 9, 4, &[1, 1, 4][..]));
        let with = |change: fn(&mut LostChunk)| {
            let mut other = chunk.clone();
            change(&mut other);
            decode(&other)
        };
        assert_eq!(with(|_| ()), Some(vec![3, 4, 5, 9]));
        let changes: [fn(&mut LostChunk); 7] = [
            |chunk| chunk.bytes = vec![1, 1],
            |chunk| chunk.bytes.push(0),
            |chunk| chunk.bytes[2] |= 0x80,
            |chunk| chunk.bytes = vec![0xff; 12],
            |chunk| chunk.last += 1,
            |chunk| chunk.first -= 1,
            |chunk| chunk.pages -= 1,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert_eq!(with(change), None, "change {number}");
        }
    }

    proptest! {
        #[test]
        fn chunks_have_all_pages_and_are_no_longer_than_a_slot(
            pages in prop::collection::btree_set(prop_oneof![0..64_u64, 0..10_000_u64, 0..1_u64 << 48], 0..300),
            runs in prop::collection::vec((0..1_u64 << 40, 1..300_u64), 0..8),
            most in 24..200_usize,
        ) {
            let all: BTreeSet<u64> =
                pages.into_iter().chain(runs.into_iter().flat_map(|(first, count)| first..first + count)).collect();
            let chunks = encode(all.iter().copied(), most);
            prop_assert!(chunks.iter().all(|chunk| !chunk.bytes.is_empty() && chunk.bytes.len() <= most));
            prop_assert!(chunks.windows(2).all(|pair| pair[0].last < pair[1].first));
            prop_assert_eq!(decoded(&chunks), Some(all.into_iter().collect()));
        }

        #[test]
        fn any_bytes_are_pages_of_their_chunk_or_none(
            (first, last, pages) in (0..40_u64, 0..400_u64, 0..80_u64),
            bytes in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let chunk = LostChunk { first, last, pages, bytes };
            if let Some(pages) = decode(&chunk) {
                prop_assert!(pages.iter().all(|page| (first..=last).contains(page)));
                prop_assert!(pages.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert_eq!(pages.len() as u64, chunk.pages);
            }
        }
    }
}
