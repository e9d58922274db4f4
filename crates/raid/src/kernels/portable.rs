//! The kernels without a word about instruction sets, in loops that compilers turn into vectors.
//! They also finish what other implementations leave at the end of a slice, hence `from`: the byte
//! at which to begin.
//!
//! Work goes through the destination in segments that stay in the first cache while the sources
//! pass by.

use std::ops::Range;

use super::field::double;

/// Bytes of a segment.
const SEGMENT: usize = 1024;

/// The segments of `len` bytes from byte `from` on.
fn segments(from: usize, len: usize) -> impl Iterator<Item = Range<usize>> {
    (from..len).step_by(SEGMENT).map(move |at| at..len.min(at + SEGMENT))
}

/// `dst` = XOR of N sources.
fn set<const N: usize>(dst: &mut [u8], srcs: [&[u8]; N]) {
    let len = dst.len();
    // Equal lengths, known to the compiler, remove the bounds checks and let the loop become vectors.
    let srcs = srcs.map(|src| &src[..len]);
    for i in 0..len {
        dst[i] = srcs.iter().fold(0, |sum, src| sum ^ src[i]);
    }
}

/// `dst` ^= XOR of N sources.
fn add<const N: usize>(dst: &mut [u8], srcs: [&[u8]; N]) {
    let len = dst.len();
    let srcs = srcs.map(|src| &src[..len]);
    for i in 0..len {
        dst[i] = srcs.iter().fold(dst[i], |sum, src| sum ^ src[i]);
    }
}

/// `dst` = XOR of all sources.
pub(super) fn xor(dst: &mut [u8], srcs: &[&[u8]], from: usize) {
    // Four at a time, so that the destination is seldom read and written again.
    let (head, fours) = srcs.as_rchunks::<4>();
    for range in segments(from, dst.len()) {
        let dst = &mut dst[range.clone()];
        let mut fours = fours.iter().map(|four| four.map(|src| &src[range.clone()]));
        match *head {
            [] => match fours.next() {
                None => dst.fill(0),
                Some(four) => set(dst, four),
            },
            [a] => dst.copy_from_slice(&a[range.clone()]),
            [a, b] => set(dst, [a, b].map(|src| &src[range.clone()])),
            [a, b, c, ..] => set(dst, [a, b, c].map(|src| &src[range.clone()])),
        }
        for four in fours {
            add(dst, four);
        }
    }
}

/// `dst` ^= `src`.
pub(super) fn xor_into(dst: &mut [u8], src: &[u8], from: usize) {
    add(&mut dst[from..], [&src[from..]]);
}

/// `p` = ⊕ Dᵢ and `q` = Σ gⁱ·Dᵢ, by Horner's rule from the last source down.
pub(super) fn pq(p: &mut [u8], q: &mut [u8], srcs: &[Option<&[u8]>], from: usize) {
    for range in segments(from, p.len()) {
        let (p, q) = (&mut p[range.clone()], &mut q[range.clone()]);
        p.fill(0);
        q.fill(0);
        // Horner's rule needs one doubling per source instead of a product with gⁱ.
        for src in srcs.iter().rev() {
            if let Some(src) = src {
                for ((p, q), src) in p.iter_mut().zip(&mut *q).zip(&src[range.clone()]) {
                    *p ^= src;
                    *q = double(*q) ^ src;
                }
            } else {
                for q in &mut *q {
                    *q = double(*q);
                }
            }
        }
    }
}

/// `dst` = a·`x` ⊕ b·`y`.
pub(super) fn gf(dst: &mut [u8], a: u8, x: &[u8], b: u8, y: &[u8], from: usize) {
    dst[from..].fill(0);
    gf_into(dst, a, x, from);
    gf_into(dst, b, y, from);
}

/// `dst` ^= a·`x`, as the sum of 2ⁱ·x over the bits of a.
pub(super) fn gf_into(dst: &mut [u8], a: u8, x: &[u8], from: usize) {
    for range in segments(from, dst.len()) {
        // Doubling the segment in place serves all bits of a: the source is read once.
        let mut multiple = [0; SEGMENT];
        let multiple = &mut multiple[..range.len()];
        multiple.copy_from_slice(&x[range.clone()]);
        let dst = &mut dst[range];
        let mut bits = a;
        while bits != 0 {
            if bits & 1 != 0 {
                add(dst, [multiple]);
            }
            bits >>= 1;
            for byte in &mut *multiple {
                *byte = double(*byte);
            }
        }
    }
}
