//! The kernels without a word about instruction sets, in words of 64 bits. What branches by what has
//! changed does so once in a block, not in each word.
//!
//! They also finish what other implementations leave: all begin `done` bytes into the page, which
//! are whole blocks, and `at` bytes into the data.

use super::{BLOCK, ChangeCounts, DeltaFunctions, PaddedBytes, blocks, room, settle};

pub(super) static TABLE: DeltaFunctions = DeltaFunctions {
    name: "portable",
    count,
    pack_words: |base, new, bitmap, data| pack_words(base, new, bitmap, data, 0, 0),
    pack_bytes: |base, new, bitmap, data| pack_bytes(base, new, bitmap, data, 0, 0),
    apply_words: |base, bitmap, data, page| apply_words(base, bitmap, data, page, 0, 0),
    apply_bytes: |base, bitmap, data, page| apply_bytes(base, bitmap, data, page, 0, 0),
};

/// Bytes of a word.
const WORD: usize = 8;
/// The lowest bit of each byte.
const LOW: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each byte.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The words of a block, each with its first byte lowest.
#[inline(always)]
fn words(block: &[u8; BLOCK]) -> [u64; BLOCK / WORD] {
    let (words, _) = block.as_chunks();
    std::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

/// The exclusive or of two blocks.
#[inline(always)]
fn changes(base: &[u8; BLOCK], new: &[u8; BLOCK]) -> [u64; BLOCK / WORD] {
    let (base, new) = (words(base), words(new));
    std::array::from_fn(|i| base[i] ^ new[i])
}

/// The highest bit of each byte of the word that is not 0.
#[inline(always)]
const fn marks(word: u64) -> u64 {
    (((word & !HIGH) + !HIGH) | word) & HIGH
}

/// The places of the bits that are set, from the lowest on.
#[inline(always)]
fn places(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (bits != 0).then_some(bits.trailing_zeros() as usize % BLOCK);
        bits &= bits.wrapping_sub(1);
        place
    })
}

/// Counts the bytes and words that differ between two pages.
pub(super) fn count(base: &[u8], new: &[u8]) -> ChangeCounts {
    let mut counts = ChangeCounts { words: 0, bytes: 0 };
    let done = base.len() / BLOCK * BLOCK;
    for (old, new) in blocks(base, new) {
        let changes = changes(old, new);
        counts.words += WORD * changes.iter().map(|word| usize::from(*word != 0)).sum::<usize>();
        // At most eight in each byte of the sum, at most 64 in all.
        let sum: u64 = changes.iter().map(|word| marks(*word) >> 7).sum();
        counts.bytes += (sum.wrapping_mul(LOW) >> 56) as usize;
    }
    for (old, new) in base[done..].chunks(WORD).zip(new[done..].chunks(WORD)) {
        counts.words += if old == new { 0 } else { old.len() };
        counts.bytes += old.iter().zip(new).filter(|(old, new)| old != new).count();
    }
    counts
}

/// Packs the changed words.
pub(super) fn pack_words(base: &[u8], new: &[u8], bitmap: &mut [u8], data: &mut [u8], done: usize, mut at: usize) {
    let (base, new, bitmap) = (&base[done..], &new[done..], &mut bitmap[done / BLOCK..]);
    let mut spare = [0; BLOCK];
    for ((old, new), bits) in blocks(base, new).zip(&mut *bitmap) {
        *bits = 0;
        if old == new {
            continue;
        }
        let (slots, _) = room(data, at, &mut spare).as_chunks_mut();
        let mut count = 0;
        for (bit, change) in changes(old, new).into_iter().enumerate() {
            let changed = change != 0;
            slots[count % 8] = change.to_le_bytes();
            *bits |= u8::from(changed) << bit;
            count += usize::from(changed);
        }
        settle(data, at, &spare, WORD * count);
        at += WORD * count;
    }
    rest::<WORD>(base, new, bitmap, data, at);
}

/// Packs the changed bytes.
pub(super) fn pack_bytes(base: &[u8], new: &[u8], bitmap: &mut [u8], data: &mut [u8], done: usize, mut at: usize) {
    let (base, new, bitmap) = (&base[done..], &new[done..], &mut bitmap[done / WORD..]);
    let mut spare = [0; BLOCK];
    for ((old, new), bitmap) in blocks(base, new).zip(bitmap.as_chunks_mut::<8>().0) {
        *bitmap = [0; 8];
        if old == new {
            continue;
        }
        let changes = changes(old, new);
        for (bits, change) in bitmap.iter_mut().zip(changes) {
            // The marks of the eight bytes, one beside the other in the highest byte.
            *bits = ((marks(change) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
        }
        let changes = changes.map(u64::to_le_bytes);
        let packed = room(data, at, &mut spare);
        let mut count = 0;
        for place in places(u64::from_le_bytes(*bitmap)) {
            packed[count % BLOCK] = changes.as_flattened()[place];
            count += 1;
        }
        settle(data, at, &spare, count);
        at += count;
    }
    rest::<1>(base, new, bitmap, data, at);
}

/// Packs the changed units of what is behind the last whole block.
fn rest<const UNIT: usize>(base: &[u8], new: &[u8], bitmap: &mut [u8], data: &mut [u8], mut at: usize) {
    let done = base.len() / BLOCK * BLOCK;
    let bitmap = &mut bitmap[done / UNIT / 8..];
    bitmap.fill(0);
    for (index, (old, new)) in base[done..].chunks(UNIT).zip(new[done..].chunks(UNIT)).enumerate() {
        if old != new {
            bitmap[index / 8] |= 1 << (index % 8);
            let changes = old.iter().zip(new).map(|(old, new)| old ^ new);
            data[at..].iter_mut().zip(changes).for_each(|(to, change)| *to = change);
            at += old.len();
        }
    }
}

/// Applies changed words.
pub(super) fn apply_words(
    base: &[u8],
    bitmap: &[u8],
    data: &[u8],
    page: &mut [u8],
    done: usize,
    mut at: usize,
) -> bool {
    let (base, page, bitmap) = (&base[done..], &mut page[done..], &bitmap[done / BLOCK..]);
    let ahead = PaddedBytes::new(data);
    let mut right = true;
    for ((old, new), &bits) in base.as_chunks().0.iter().zip(page.as_chunks_mut().0).zip(bitmap) {
        if bits == 0 {
            *new = *old;
            continue;
        }
        let len = WORD * bits.count_ones() as usize;
        if len > data.len() - at {
            return false;
        }
        let packed = words(ahead.block(at));
        let mut count = 0;
        for (bit, (word, to)) in words(old).into_iter().zip(new.as_chunks_mut().0).enumerate() {
            let changed = bits >> bit & 1;
            let change = packed[count % 8] & u64::from(changed).wrapping_neg();
            right &= (change != 0) == (changed != 0);
            *to = (word ^ change).to_le_bytes();
            count += usize::from(changed);
        }
        at += len;
    }
    right && apply_rest::<WORD>(base, bitmap, data, page, at)
}

/// Applies changed bytes.
pub(super) fn apply_bytes(
    base: &[u8],
    bitmap: &[u8],
    data: &[u8],
    page: &mut [u8],
    done: usize,
    mut at: usize,
) -> bool {
    let (base, page, bitmap) = (&base[done..], &mut page[done..], &bitmap[done / WORD..]);
    let ahead = PaddedBytes::new(data);
    let mut right = true;
    for ((old, new), bits) in
        base.as_chunks::<BLOCK>().0.iter().zip(page.as_chunks_mut::<BLOCK>().0).zip(bitmap.as_chunks::<8>().0)
    {
        *new = *old;
        let bits = u64::from_le_bytes(*bits);
        if bits == 0 {
            continue;
        }
        let len = bits.count_ones() as usize;
        if len > data.len() - at {
            return false;
        }
        let packed = ahead.block(at);
        for (place, change) in places(bits).zip(packed) {
            right &= *change != 0;
            new[place] ^= change;
        }
        at += len;
    }
    right && apply_rest::<1>(base, bitmap, data, page, at)
}

/// Applies the changed units of what is behind the last whole block; then no data may be left.
fn apply_rest<const UNIT: usize>(base: &[u8], bitmap: &[u8], data: &[u8], page: &mut [u8], mut at: usize) -> bool {
    let done = base.len() / BLOCK * BLOCK;
    let bitmap = &bitmap[done / UNIT / 8..];
    for (index, (old, new)) in base[done..].chunks(UNIT).zip(page[done..].chunks_mut(UNIT)).enumerate() {
        new.copy_from_slice(old);
        if bitmap[index / 8] >> (index % 8) & 1 == 0 {
            continue;
        }
        let Some(changes) = data.get(at..at + new.len()) else { return false };
        if changes.iter().all(|change| *change == 0) {
            return false;
        }
        new.iter_mut().zip(changes).for_each(|(byte, change)| *byte ^= change);
        at += new.len();
    }
    at == data.len()
}
