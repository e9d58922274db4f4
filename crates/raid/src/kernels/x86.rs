//! The kernels with the vectors of x86-64: SSSE3, AVX2 and AVX-512, the last two also with GFNI.
//!
//! Doubling is a shift and a conditional XOR. A product with a constant is two look-ups of half a
//! byte, or with GFNI one multiplication by an 8 × 8 matrix of bits.
//!
//! Only this file holds unsafe code, of two kinds: vectors are loaded from and stored to references
//! to arrays of their size; and functions compiled for an instruction set are called through tables
//! that [`available`] hands out only where the processor has that set.
#![expect(unsafe_code, reason = "see above")]
#![allow(clippy::wildcard_imports, reason = "each instruction set's module needs a dozen intrinsics")]

use std::arch::x86_64::*;

use super::field::{POLYNOMIAL, mul};
use super::{ParityFunctions, portable};

/// The products of a constant with 0 to 15, and with 16 times those, for each constant.
static NIBBLES: [[[u8; 16]; 2]; 256] = {
    let mut products = [[[0; 16]; 2]; 256];
    let mut a = 0;
    while a < 256 {
        let mut n = 0;
        while n < 16 {
            products[a][0][n] = mul(a as u8, n as u8);
            products[a][1][n] = mul(a as u8, (n as u8) << 4);
            n += 1;
        }
        a += 1;
    }
    products
};

/// The matrix of each constant, as GF2P8AFFINEQB takes it: byte 7 − i says which bits of x make bit
/// i of the product.
static MATRICES: [u64; 256] = {
    let mut matrices = [0; 256];
    let mut a = 0;
    while a < 256 {
        let mut bit = 0;
        while bit < 8 {
            let mut from = 0;
            while from < 8 {
                if mul(a as u8, 1 << from) >> bit & 1 != 0 {
                    matrices[a] |= 1 << (8 * (7 - bit) + from);
                }
                from += 1;
            }
            bit += 1;
        }
        a += 1;
    }
    matrices
};

/// The bytes from `at` on as an array.
#[inline(always)]
fn block<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    bytes[at..].first_chunk().expect("lengths are equal")
}

/// The bytes from `at` on as an array.
#[inline(always)]
fn block_mut<const N: usize>(bytes: &mut [u8], at: usize) -> &mut [u8; N] {
    bytes[at..].first_chunk_mut().expect("lengths are equal")
}

/// Loading and storing vectors of `$bytes` bytes, for an instruction set.
macro_rules! memory {
    ($features:literal, $vector:ty, $bytes:literal, $load:ident, $store:ident) => {
        const WIDTH: usize = $bytes;
        type Vector = $vector;

        #[inline]
        #[target_feature(enable = $features)]
        fn load(from: &[u8; WIDTH]) -> Vector {
            // SAFETY: the reference is to as many bytes as are read; alignment is not asked for.
            unsafe { $load(from.as_ptr().cast()) }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn store(to: &mut [u8; WIDTH], vector: Vector) {
            // SAFETY: the reference is to as many bytes as are written; alignment is not asked for.
            unsafe { $store(to.as_mut_ptr().cast(), vector) }
        }
    };
}

/// The kernels of an instruction set, and their table, from `load`, `store`, `zero`, `add`,
/// `double`, `constant` and `times`. Each step handles `$unroll` vectors, so that several sums are
/// under way at once.
macro_rules! kernels {
    ($name:literal, $features:literal, $unroll:literal) => {
        const UNROLL: usize = $unroll;
        const BLOCK: usize = UNROLL * WIDTH;

        #[inline]
        #[target_feature(enable = $features)]
        fn load_all(bytes: &[u8], at: usize) -> [Vector; UNROLL] {
            let (vectors, _) = block::<BLOCK>(bytes, at).as_chunks::<WIDTH>();
            let mut all = [zero(); UNROLL];
            for i in 0..UNROLL {
                all[i] = load(&vectors[i]);
            }
            all
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn store_all(bytes: &mut [u8], at: usize, all: [Vector; UNROLL]) {
            let (vectors, _) = block_mut::<BLOCK>(bytes, at).as_chunks_mut::<WIDTH>();
            for i in 0..UNROLL {
                store(&mut vectors[i], all[i]);
            }
        }

        #[target_feature(enable = $features)]
        fn xor(dst: &mut [u8], srcs: &[&[u8]]) {
            let mut at = 0;
            if let [first, rest @ ..] = srcs {
                while dst.len() - at >= BLOCK {
                    let mut sum = load_all(first, at);
                    for src in rest {
                        let data = load_all(src, at);
                        for i in 0..UNROLL {
                            sum[i] = add(sum[i], data[i]);
                        }
                    }
                    store_all(dst, at, sum);
                    at += BLOCK;
                }
            }
            portable::xor(dst, srcs, at);
        }

        #[target_feature(enable = $features)]
        fn xor_into(dst: &mut [u8], src: &[u8]) {
            let mut at = 0;
            while dst.len() - at >= BLOCK {
                let mut sum = load_all(dst, at);
                let data = load_all(src, at);
                for i in 0..UNROLL {
                    sum[i] = add(sum[i], data[i]);
                }
                store_all(dst, at, sum);
                at += BLOCK;
            }
            portable::xor_into(dst, src, at);
        }

        #[target_feature(enable = $features)]
        fn pq(p: &mut [u8], q: &mut [u8], srcs: &[Option<&[u8]>]) {
            let mut at = 0;
            // What is above the last page is zero: Horner's rule begins there.
            let last = srcs.iter().rposition(Option::is_some);
            if let Some((Some(last), rest)) = last.map(|last| (srcs[last], &srcs[..last])) {
                while p.len() - at >= BLOCK {
                    let mut sum = load_all(last, at);
                    let mut syndrome = sum;
                    for src in rest.iter().rev() {
                        if let Some(src) = src {
                            let data = load_all(src, at);
                            for i in 0..UNROLL {
                                sum[i] = add(sum[i], data[i]);
                                syndrome[i] = add(double(syndrome[i]), data[i]);
                            }
                        } else {
                            for i in 0..UNROLL {
                                syndrome[i] = double(syndrome[i]);
                            }
                        }
                    }
                    store_all(p, at, sum);
                    store_all(q, at, syndrome);
                    at += BLOCK;
                }
            }
            portable::pq(p, q, srcs, at);
        }

        #[target_feature(enable = $features)]
        fn gf(dst: &mut [u8], a: u8, x: &[u8], b: u8, y: &[u8]) {
            let (by_a, by_b) = (constant(a), constant(b));
            let mut at = 0;
            while dst.len() - at >= BLOCK {
                let mut sum = load_all(x, at);
                let data = load_all(y, at);
                for i in 0..UNROLL {
                    sum[i] = add(times(by_a, sum[i]), times(by_b, data[i]));
                }
                store_all(dst, at, sum);
                at += BLOCK;
            }
            portable::gf(dst, a, x, b, y, at);
        }

        #[target_feature(enable = $features)]
        fn gf_into(dst: &mut [u8], a: u8, x: &[u8]) {
            let by_a = constant(a);
            let mut at = 0;
            while dst.len() - at >= BLOCK {
                let mut sum = load_all(dst, at);
                let data = load_all(x, at);
                for i in 0..UNROLL {
                    sum[i] = add(sum[i], times(by_a, data[i]));
                }
                store_all(dst, at, sum);
                at += BLOCK;
            }
            portable::gf_into(dst, a, x, at);
        }

        /// Only for processors that have the instruction set.
        pub(super) static TABLE: ParityFunctions = ParityFunctions {
            name: $name,
            // SAFETY: of all five: `available` hands out this table only where the instruction set
            // was found.
            xor: |dst, srcs| unsafe { xor(dst, srcs) },
            // SAFETY: as above.
            xor_into: |dst, src| unsafe { xor_into(dst, src) },
            // SAFETY: as above.
            pq: |p, q, srcs| unsafe { pq(p, q, srcs) },
            // SAFETY: as above.
            gf: |dst, a, x, b, y| unsafe { gf(dst, a, x, b, y) },
            // SAFETY: as above.
            gf_into: |dst, a, x| unsafe { gf_into(dst, a, x) },
        };
    };
}

/// Products by matrices, for an instruction set with GFNI.
macro_rules! matrices {
    ($features:literal, $spread:ident, $multiply:ident) => {
        #[inline]
        #[target_feature(enable = $features)]
        fn constant(a: u8) -> Vector {
            $spread(MATRICES[a as usize].cast_signed())
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn times(constant: Vector, x: Vector) -> Vector {
            $multiply::<0>(x, constant)
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn double(x: Vector) -> Vector {
            times(constant(2), x)
        }
    };
}

/// Products by look-ups, for an instruction set with byte shuffles. `$spread` repeats 16 bytes over
/// a vector.
macro_rules! lookups {
    ($features:literal, $spread:ident, $set:ident, $and:ident, $shift:ident, $shuffle:ident) => {
        #[inline]
        #[target_feature(enable = $features)]
        fn constant(a: u8) -> [Vector; 2] {
            let [low, high] = &NIBBLES[a as usize];
            // SAFETY: the references are to 16 bytes; alignment is not asked for.
            let tables = unsafe { [_mm_loadu_si128(low.as_ptr().cast()), _mm_loadu_si128(high.as_ptr().cast())] };
            [$spread(tables[0]), $spread(tables[1])]
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn times(constant: [Vector; 2], x: Vector) -> Vector {
            let nibble = $set(0x0F);
            let low = $shuffle(constant[0], $and(x, nibble));
            let high = $shuffle(constant[1], $and($shift::<4>(x), nibble));
            add(low, high)
        }
    };
}

/// `zero` and `add` (XOR).
macro_rules! sums {
    ($features:literal, $zero:ident, $xor:ident) => {
        #[inline]
        #[target_feature(enable = $features)]
        fn zero() -> Vector {
            $zero()
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn add(x: Vector, y: Vector) -> Vector {
            $xor(x, y)
        }
    };
}

mod ssse3 {
    use super::*;
    memory!("ssse3", __m128i, 16, _mm_loadu_si128, _mm_storeu_si128);
    sums!("ssse3", _mm_setzero_si128, _mm_xor_si128);
    lookups!("ssse3", itself, _mm_set1_epi8, _mm_and_si128, _mm_srli_epi16, _mm_shuffle_epi8);
    kernels!("ssse3", "ssse3", 4);

    #[inline]
    #[target_feature(enable = "ssse3")]
    fn itself(x: __m128i) -> __m128i {
        x
    }

    #[inline]
    #[target_feature(enable = "ssse3")]
    fn double(x: __m128i) -> __m128i {
        let carry = _mm_and_si128(_mm_cmpgt_epi8(zero(), x), _mm_set1_epi8(POLYNOMIAL.cast_signed()));
        _mm_xor_si128(_mm_add_epi8(x, x), carry)
    }
}

mod avx2 {
    use super::*;
    memory!("avx2", __m256i, 32, _mm256_loadu_si256, _mm256_storeu_si256);
    sums!("avx2", _mm256_setzero_si256, _mm256_xor_si256);
    lookups!(
        "avx2",
        _mm256_broadcastsi128_si256,
        _mm256_set1_epi8,
        _mm256_and_si256,
        _mm256_srli_epi16,
        _mm256_shuffle_epi8
    );
    kernels!("avx2", "avx2", 4);

    #[inline]
    #[target_feature(enable = "avx2")]
    fn double(x: __m256i) -> __m256i {
        let carry = _mm256_and_si256(_mm256_cmpgt_epi8(zero(), x), _mm256_set1_epi8(POLYNOMIAL.cast_signed()));
        _mm256_xor_si256(_mm256_add_epi8(x, x), carry)
    }
}

mod avx2_gfni {
    use super::*;
    memory!("avx2,gfni", __m256i, 32, _mm256_loadu_si256, _mm256_storeu_si256);
    sums!("avx2,gfni", _mm256_setzero_si256, _mm256_xor_si256);
    matrices!("avx2,gfni", _mm256_set1_epi64x, _mm256_gf2p8affine_epi64_epi8);
    kernels!("avx2-gfni", "avx2,gfni", 4);
}

mod avx512 {
    use super::*;
    memory!("avx512f,avx512bw", __m512i, 64, _mm512_loadu_si512, _mm512_storeu_si512);
    sums!("avx512f,avx512bw", _mm512_setzero_si512, _mm512_xor_si512);
    lookups!(
        "avx512f,avx512bw",
        _mm512_broadcast_i32x4,
        _mm512_set1_epi8,
        _mm512_and_si512,
        _mm512_srli_epi16,
        _mm512_shuffle_epi8
    );
    kernels!("avx512", "avx512f,avx512bw", 4);

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn double(x: __m512i) -> __m512i {
        let carry = _mm512_maskz_mov_epi8(_mm512_movepi8_mask(x), _mm512_set1_epi8(POLYNOMIAL.cast_signed()));
        _mm512_xor_si512(_mm512_add_epi8(x, x), carry)
    }
}

mod avx512_gfni {
    use super::*;
    memory!("avx512f,avx512bw,gfni", __m512i, 64, _mm512_loadu_si512, _mm512_storeu_si512);
    sums!("avx512f,avx512bw,gfni", _mm512_setzero_si512, _mm512_xor_si512);
    matrices!("avx512f,avx512bw,gfni", _mm512_set1_epi64, _mm512_gf2p8affine_epi64_epi8);
    kernels!("avx512-gfni", "avx512f,avx512bw,gfni", 4);
}

/// The tables of the instruction sets that this processor has, the fastest first.
pub(super) fn available() -> impl Iterator<Item = &'static ParityFunctions> {
    let avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    let avx2 = is_x86_feature_detected!("avx2");
    let gfni = is_x86_feature_detected!("gfni");
    let tables = [
        (avx512 && gfni, &avx512_gfni::TABLE),
        (avx512, &avx512::TABLE),
        (avx2 && gfni, &avx2_gfni::TABLE),
        (avx2, &avx2::TABLE),
        (is_x86_feature_detected!("ssse3"), &ssse3::TABLE),
    ];
    tables.into_iter().filter_map(|(found, table)| found.then_some(table))
}
