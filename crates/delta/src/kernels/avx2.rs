//! The kernels with AVX2 and BMI2: words of half a block are packed and spread by a permutation
//! from a table, bytes of a word by the instructions for bits, PEXT and PDEP.
//!
//! The module `avx512` says why the unsafe code here is sound.
#![expect(unsafe_code, reason = "see above")]

use std::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_castsi256_pd, _mm256_cmpeq_epi8, _mm256_cmpeq_epi64, _mm256_loadu_si256,
    _mm256_movemask_epi8, _mm256_movemask_pd, _mm256_permutevar8x32_epi32, _mm256_setzero_si256, _mm256_storeu_si256,
    _mm256_xor_si256, _pdep_u64, _pext_u64,
};

use super::{BLOCK, ChangeCounts, DeltaFunctions, PaddedBytes, blocks, portable, room, settle};

static TABLE: DeltaFunctions = DeltaFunctions {
    name: "avx2-bmi2",
    // SAFETY: of all five: `available` hands out this table only where the instruction sets were
    // found.
    count: |base, new| unsafe { count(base, new) },
    // SAFETY: as above.
    pack_words: |base, new, bitmap, data| unsafe { pack_words(base, new, bitmap, data) },
    // SAFETY: as above.
    pack_bytes: |base, new, bitmap, data| unsafe { pack_bytes(base, new, bitmap, data) },
    // SAFETY: as above.
    apply_words: |base, bitmap, data, page| unsafe { apply_words(base, bitmap, data, page) },
    // SAFETY: as above.
    apply_bytes: |base, bitmap, data, page| unsafe { apply_bytes(base, bitmap, data, page) },
};

/// The table, if the processor has the instruction sets.
pub(super) fn available() -> Option<&'static DeltaFunctions> {
    let found =
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("popcnt");
    found.then_some(&TABLE)
}

/// Bytes of a vector: half a block.
const HALF: usize = BLOCK / 2;

/// The halves of the four words, as PERMD takes them, by which of the words are marked: those move
/// to the front.
static FRONT: [[u32; 8]; 16] = {
    let mut orders = [[0; 8]; 16];
    let mut marks = 0;
    while marks < 16 {
        let (mut word, mut to) = (0, 0);
        while word < 4 {
            if marks >> word & 1 != 0 {
                orders[marks][2 * to] = 2 * word;
                orders[marks][2 * to + 1] = 2 * word + 1;
                to += 1;
            }
            word += 1;
        }
        marks += 1;
    }
    orders
};

/// The other way: words at the front move to those that are marked.
static BACK: [[u32; 8]; 16] = {
    let mut orders = [[0; 8]; 16];
    let mut marks = 0;
    while marks < 16 {
        let (mut word, mut from) = (0, 0);
        while word < 4 {
            if marks >> word & 1 != 0 {
                orders[marks][2 * word] = 2 * from;
                orders[marks][2 * word + 1] = 2 * from + 1;
                from += 1;
            }
            word += 1;
        }
        marks += 1;
    }
    orders
};

/// All bits of the marked words.
static MARKED: [[u64; 4]; 16] = {
    let mut masks = [[0; 4]; 16];
    let mut marks = 0;
    while marks < 16 {
        let mut word = 0;
        while word < 4 {
            masks[marks][word] = if marks >> word & 1 != 0 { u64::MAX } else { 0 };
            word += 1;
        }
        marks += 1;
    }
    masks
};

/// The lowest bit of each byte.
const LOW: u64 = 0x0101_0101_0101_0101;

/// The vector in these 32 bytes.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn load<T: Copy, const N: usize>(from: &[T; N]) -> __m256i {
    const { assert!(size_of::<[T; N]>() == HALF, "as many bytes as a vector has") }
    // SAFETY: the reference is to as many bytes as are read; alignment is not asked for.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn store(to: &mut [u8; HALF], vector: __m256i) {
    // SAFETY: the reference is to as many bytes as are written; alignment is not asked for.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), vector) }
}

/// A block as two vectors.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn halves(block: &[u8; BLOCK]) -> [__m256i; 2] {
    let (halves, _) = block.as_chunks::<HALF>();
    [load(&halves[0]), load(&halves[1])]
}

/// A bit for each word that is 0.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn zero_words(vector: __m256i) -> usize {
    _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(vector, _mm256_setzero_si256()))) as usize
}

/// A bit for each byte that differs between two blocks.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn changed_bytes(old: [__m256i; 2], new: [__m256i; 2]) -> u64 {
    let same = |i: usize| _mm256_movemask_epi8(_mm256_cmpeq_epi8(old[i], new[i])).cast_unsigned();
    !(u64::from(same(0)) | u64::from(same(1)) << 32)
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
fn count(base: &[u8], new: &[u8]) -> ChangeCounts {
    let done = base.len() / BLOCK * BLOCK;
    // Pages need not be whole blocks: the rest is counted in the portable way.
    let mut counts = portable::count(&base[done..], &new[done..]);
    for (old, new) in blocks(base, new) {
        let (old, new) = (halves(old), halves(new));
        let changes = [0, 1].map(|i| _mm256_xor_si256(old[i], new[i]));
        let same = zero_words(changes[0]) | zero_words(changes[1]) << 4;
        counts.words += BLOCK - 8 * same.count_ones() as usize;
        counts.bytes += changed_bytes(old, new).count_ones() as usize;
    }
    counts
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
fn pack_words(base: &[u8], new: &[u8], bitmap: &mut [u8], data: &mut [u8]) {
    let (mut at, mut spare) = (0, [0; BLOCK]);
    for ((old, new), bits) in blocks(base, new).zip(&mut *bitmap) {
        let (old, new) = (halves(old), halves(new));
        let changes = [0, 1].map(|i| _mm256_xor_si256(old[i], new[i]));
        let marks = changes.map(|half| !zero_words(half) & 15);
        *bits = (marks[0] | marks[1] << 4) as u8;
        let packed = room(data, at, &mut spare);
        let second = 8 * marks[0].count_ones() as usize;
        for (i, to) in [0, second].into_iter().enumerate() {
            let front = _mm256_permutevar8x32_epi32(changes[i], load(&FRONT[marks[i]]));
            store(packed[to..].first_chunk_mut().expect("four words at most are before it"), front);
        }
        let len = 8 * bits.count_ones() as usize;
        // Near the end of the data the block went to `spare`, of which only these bytes count.
        settle(data, at, &spare, len);
        at += len;
    }
    portable::pack_words(base, new, bitmap, data, base.len() / BLOCK * BLOCK, at);
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
fn pack_bytes(base: &[u8], new: &[u8], bitmap: &mut [u8], data: &mut [u8]) {
    let (mut at, mut spare) = (0, [0; BLOCK]);
    for ((old, new), bitmap) in blocks(base, new).zip(bitmap.as_chunks_mut::<8>().0) {
        let bits = changed_bytes(halves(old), halves(new));
        *bitmap = bits.to_le_bytes();
        // The words of a block that did not change are passed over at once.
        if bits == 0 {
            continue;
        }
        let packed = room(data, at, &mut spare);
        let mut count = 0;
        for ((old, new), bits) in old.as_chunks().0.iter().zip(new.as_chunks().0).zip(bits.to_le_bytes()) {
            let change = u64::from_le_bytes(*old) ^ u64::from_le_bytes(*new);
            let front = _pext_u64(change, _pdep_u64(u64::from(bits), LOW) * 0xff);
            *packed[count..].first_chunk_mut().expect("seven words at most are before it") = front.to_le_bytes();
            count += bits.count_ones() as usize;
        }
        settle(data, at, &spare, count);
        at += count;
    }
    portable::pack_bytes(base, new, bitmap, data, base.len() / BLOCK * BLOCK, at);
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
fn apply_words(base: &[u8], bitmap: &[u8], data: &[u8], page: &mut [u8]) -> bool {
    let ahead = PaddedBytes::new(data);
    let (mut at, mut right) = (0, true);
    for ((old, new), &bits) in base.as_chunks().0.iter().zip(page.as_chunks_mut::<BLOCK>().0).zip(bitmap) {
        let len = 8 * bits.count_ones() as usize;
        // The bitmap comes from a medium and may ask for more than there is.
        if len > data.len() - at {
            return false;
        }
        let packed = ahead.block(at);
        let (old, (new, _)) = (halves(old), new.as_chunks_mut::<HALF>());
        let marks = [usize::from(bits & 15), usize::from(bits >> 4)];
        let second = 8 * marks[0].count_ones() as usize;
        for (i, from) in [0, second].into_iter().enumerate() {
            let front = load::<u8, HALF>(packed[from..].first_chunk().expect("four words at most are before it"));
            let spread = _mm256_permutevar8x32_epi32(front, load(&BACK[marks[i]]));
            let changes = _mm256_and_si256(spread, load(&MARKED[marks[i]]));
            right &= zero_words(changes) ^ marks[i] == 15;
            store(&mut new[i], _mm256_xor_si256(old[i], changes));
        }
        at += len;
    }
    right && portable::apply_words(base, bitmap, data, page, base.len() / BLOCK * BLOCK, at)
}

#[target_feature(enable = "avx2,bmi2,popcnt")]
fn apply_bytes(base: &[u8], bitmap: &[u8], data: &[u8], page: &mut [u8]) -> bool {
    let ahead = PaddedBytes::new(data);
    let (mut at, mut right) = (0, true);
    for ((old, new), bits) in
        base.as_chunks::<BLOCK>().0.iter().zip(page.as_chunks_mut::<BLOCK>().0).zip(bitmap.as_chunks::<8>().0)
    {
        let bits = u64::from_le_bytes(*bits);
        if bits == 0 {
            *new = *old;
            continue;
        }
        let len = bits.count_ones() as usize;
        if len > data.len() - at {
            return false;
        }
        let packed = ahead.block(at);
        let mut count = 0;
        for ((old, new), bits) in old.as_chunks().0.iter().zip(new.as_chunks_mut().0).zip(bits.to_le_bytes()) {
            let front = u64::from_le_bytes(*packed[count..].first_chunk().expect("seven words at most are before it"));
            let change = _pdep_u64(front, _pdep_u64(u64::from(bits), LOW) * 0xff);
            *new = (u64::from_le_bytes(*old) ^ change).to_le_bytes();
            count += bits.count_ones() as usize;
        }
        right &= changed_bytes(halves(old), halves(new)) == bits;
        at += len;
    }
    right && portable::apply_bytes(base, bitmap, data, page, base.len() / BLOCK * BLOCK, at)
}
