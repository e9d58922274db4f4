//! The kernels byte by byte from tables, slow and plain: what every other implementation must
//! equal. For harnesses.
//!
//! Lengths are taken from the destination; a shorter source panics.

use super::field::{mul, pow2};

/// `dst` = XOR of all sources; zeros if there are none.
pub fn xor(dst: &mut [u8], srcs: &[&[u8]]) {
    for (i, out) in dst.iter_mut().enumerate() {
        *out = srcs.iter().fold(0, |sum, src| sum ^ src[i]);
    }
}

/// `dst` ^= `src`.
pub fn xor_into(dst: &mut [u8], src: &[u8]) {
    for (i, out) in dst.iter_mut().enumerate() {
        *out ^= src[i];
    }
}

/// `p` = ⊕ Dᵢ and `q` = Σ gⁱ·Dᵢ, where i is the index in `srcs` and `None` is a page of zeros.
pub fn pq(p: &mut [u8], q: &mut [u8], srcs: &[Option<&[u8]>]) {
    for (i, (p, q)) in p.iter_mut().zip(q).enumerate() {
        (*p, *q) = (0, 0);
        for (exponent, src) in (0..).zip(srcs) {
            let Some(src) = src else { continue };
            *p ^= src[i];
            *q ^= mul(pow2(exponent), src[i]);
        }
    }
}

/// `dst` = a·`x` ⊕ b·`y`.
pub fn gf(dst: &mut [u8], a: u8, x: &[u8], b: u8, y: &[u8]) {
    for (i, out) in dst.iter_mut().enumerate() {
        *out = mul(a, x[i]) ^ mul(b, y[i]);
    }
}

/// `dst` ^= a·`x`.
pub fn gf_into(dst: &mut [u8], a: u8, x: &[u8]) {
    for (i, out) in dst.iter_mut().enumerate() {
        *out ^= mul(a, x[i]);
    }
}
