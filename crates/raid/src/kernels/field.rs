//! GF(2⁸) over 0x11D with generator g = 2, and what it takes to recover data from P and Q.
//!
//! Let X and Y be pages of data with exponents x and y, as
//! [`Geometry::exponent`](crate::Geometry::exponent) gives them, and P′ and Q′ the parities of the
//! data that is left, lost pages counting as zero.
//!
//! | lost | recovery |
//! |---|---|
//! | X, perhaps Q | X = P ⊕ P′ |
//! | X and P | X = c·(Q ⊕ Q′) with c = [`by_q`]`(x)` |
//! | X and Y | X = a·(P ⊕ P′) ⊕ b·(Q ⊕ Q′) with (a, b) = [`by_p_and_q`]`(x, y)`; Y = P ⊕ P′ ⊕ X |

/// The field's polynomial without x⁸.
pub(super) const POLYNOMIAL: u8 = 0x1D;

/// 2·a.
pub(super) const fn double(a: u8) -> u8 {
    // The highest bit, spread over the byte: loops over this become vectors.
    (a << 1) ^ ((a.cast_signed() >> 7).cast_unsigned() & POLYNOMIAL)
}

/// gⁱ; the powers repeat after 255.
const POWERS: [u8; 255] = {
    let mut powers = [1; 255];
    let mut i = 1;
    while i < 255 {
        powers[i] = double(powers[i - 1]);
        i += 1;
    }
    powers
};

/// i of gⁱ; that of 0 means nothing.
const LOGS: [u8; 256] = {
    let mut logs = [0; 256];
    let mut i = 0;
    while i < 255 {
        logs[POWERS[i] as usize] = i as u8;
        i += 1;
    }
    logs
};

/// a·b.
#[inline]
pub const fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    POWERS[(LOGS[a as usize] as usize + LOGS[b as usize] as usize) % 255]
}

/// 1/a.
///
/// # Panics
/// If a is 0, which has no inverse.
#[inline]
pub const fn inv(a: u8) -> u8 {
    assert!(a != 0, "0 has no inverse");
    POWERS[(255 - LOGS[a as usize] as usize) % 255]
}

/// gⁱ.
#[inline]
pub const fn pow2(i: u32) -> u8 {
    POWERS[(i % 255) as usize]
}

/// The coefficient g⁻ˣ that makes the page X of Q ⊕ Q′ when P is lost too.
#[inline]
pub const fn by_q(x: u32) -> u8 {
    inv(pow2(x))
}

/// The coefficients (a, b) that make the page X of P ⊕ P′ and Q ⊕ Q′ when the page Y is lost too.
///
/// P ⊕ P′ = X ⊕ Y and Q ⊕ Q′ = gˣ·X ⊕ gʸ·Y, so gʸ·(P ⊕ P′) ⊕ (Q ⊕ Q′) = (gˣ ⊕ gʸ)·X, hence
/// a = gʸ⁻ˣ / (gʸ⁻ˣ ⊕ 1) and b = g⁻ˣ / (gʸ⁻ˣ ⊕ 1).
///
/// # Panics
/// If x = y, or they differ by a multiple of 255: such pages cannot be told apart.
#[inline]
pub const fn by_p_and_q(x: u32, y: u32) -> (u8, u8) {
    let ratio = mul(pow2(y), by_q(x));
    assert!(ratio != 1, "two pages with the same exponent");
    let divisor = inv(ratio ^ 1);
    (mul(ratio, divisor), mul(by_q(x), divisor))
}
