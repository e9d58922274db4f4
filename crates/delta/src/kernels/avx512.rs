//! The kernels with AVX-512: a block is a vector, whose changed words or bytes are packed and
//! spread by one instruction (VBMI2 has that for bytes).
//!
//! Unsafe code, here and in the module `avx2`, is of two kinds: vectors are loaded from and stored
//! to references to arrays of their size; and functions compiled for an instruction set are called
//! through a table that [`available`] hands out only where the processor has that set.
#![expect(unsafe_code, reason = "see above")]

use std::arch::x86_64::{
    __m512i, _mm512_cmpneq_epi8_mask, _mm512_cmpneq_epi64_mask, _mm512_loadu_si512, _mm512_maskz_compress_epi8,
    _mm512_maskz_compress_epi64, _mm512_maskz_expand_epi8, _mm512_maskz_expand_epi64, _mm512_storeu_si512,
    _mm512_test_epi8_mask, _mm512_test_epi64_mask, _mm512_xor_si512,
};

use super::{BLOCK, ChangeCounts, DeltaFunctions, PaddedBytes, blocks, portable, room, settle};

static TABLE: DeltaFunctions = DeltaFunctions {
    name: "avx512-vbmi2",
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
    let found = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("popcnt");
    found.then_some(&TABLE)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
fn load(from: &[u8; BLOCK]) -> __m512i {
    // SAFETY: the reference is to as many bytes as are read; alignment is not asked for.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
fn store(to: &mut [u8; BLOCK], vector: __m512i) {
    // SAFETY: the reference is to as many bytes as are written; alignment is not asked for.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), vector) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
fn count(base: &[u8], new: &[u8]) -> ChangeCounts {
    let done = base.len() / BLOCK * BLOCK;
    // Pages need not be whole blocks: the rest is counted in the portable way.
    let mut counts = portable::count(&base[done..], &new[done..]);
    for (old, new) in blocks(base, new) {
        let (old, new) = (load(old), load(new));
        counts.words += 8 * _mm512_cmpneq_epi64_mask(old, new).count_ones() as usize;
        counts.bytes += _mm512_cmpneq_epi8_mask(old, new).count_ones() as usize;
    }
    counts
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
fn pack_words(base: &[u8], new: &[u8], bitmap: &mut [u8], data: &mut [u8]) {
    let (mut at, mut spare) = (0, [0; BLOCK]);
    for ((old, new), bits) in blocks(base, new).zip(&mut *bitmap) {
        let changes = _mm512_xor_si512(load(old), load(new));
        *bits = _mm512_test_epi64_mask(changes, changes);
        let len = 8 * bits.count_ones() as usize;
        store(room(data, at, &mut spare), _mm512_maskz_compress_epi64(*bits, changes));
        settle(data, at, &spare, len);
        at += len;
    }
    portable::pack_words(base, new, bitmap, data, base.len() / BLOCK * BLOCK, at);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
fn pack_bytes(base: &[u8], new: &[u8], bitmap: &mut [u8], data: &mut [u8]) {
    let (mut at, mut spare) = (0, [0; BLOCK]);
    for ((old, new), bitmap) in blocks(base, new).zip(bitmap.as_chunks_mut::<8>().0) {
        let changes = _mm512_xor_si512(load(old), load(new));
        let bits = _mm512_test_epi8_mask(changes, changes);
        *bitmap = bits.to_le_bytes();
        let len = bits.count_ones() as usize;
        store(room(data, at, &mut spare), _mm512_maskz_compress_epi8(bits, changes));
        settle(data, at, &spare, len);
        at += len;
    }
    portable::pack_bytes(base, new, bitmap, data, base.len() / BLOCK * BLOCK, at);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
fn apply_words(base: &[u8], bitmap: &[u8], data: &[u8], page: &mut [u8]) -> bool {
    let ahead = PaddedBytes::new(data);
    let (mut at, mut wrong) = (0, 0);
    for ((old, new), &bits) in base.as_chunks().0.iter().zip(page.as_chunks_mut().0).zip(bitmap) {
        let len = 8 * bits.count_ones() as usize;
        if len > data.len() - at {
            return false;
        }
        let changes = _mm512_maskz_expand_epi64(bits, load(ahead.block(at)));
        // Faults are gathered without a branch and looked at once, at the end.
        wrong |= _mm512_test_epi64_mask(changes, changes) ^ bits;
        store(new, _mm512_xor_si512(load(old), changes));
        at += len;
    }
    wrong == 0 && portable::apply_words(base, bitmap, data, page, base.len() / BLOCK * BLOCK, at)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
fn apply_bytes(base: &[u8], bitmap: &[u8], data: &[u8], page: &mut [u8]) -> bool {
    let ahead = PaddedBytes::new(data);
    let (mut at, mut wrong) = (0, 0);
    for ((old, new), bits) in base.as_chunks().0.iter().zip(page.as_chunks_mut().0).zip(bitmap.as_chunks::<8>().0) {
        let bits = u64::from_le_bytes(*bits);
        let len = bits.count_ones() as usize;
        if len > data.len() - at {
            return false;
        }
        let changes = _mm512_maskz_expand_epi8(bits, load(ahead.block(at)));
        wrong |= _mm512_test_epi8_mask(changes, changes) ^ bits;
        store(new, _mm512_xor_si512(load(old), changes));
        at += len;
    }
    wrong == 0 && portable::apply_bytes(base, bitmap, data, page, base.len() / BLOCK * BLOCK, at)
}
