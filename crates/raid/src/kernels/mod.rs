//! XOR and P+Q parity over bytes, as fast as the processor allows.
//!
//! P is the XOR of all data, Q is Σ gⁱ·Dᵢ in GF(2⁸) with g = 2 over the polynomial 0x11D (H. P.
//! Anvin, The mathematics of RAID-6). The same functions exist for several instruction sets; the
//! best that the processor has is chosen at the first call, and every one gives the same bytes as
//! [`reference`](mod@reference).
//!
//! Slices can have any length. Slices of one call must be equally long: they are pages of one row,
//! and anything else is a programming error, which panics.

pub mod field;
mod portable;
pub mod reference;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::fmt;
use std::sync::OnceLock;

/// The data of a row by exponent; `None` is a page of zeros.
type SyndromeSources<'a> = [Option<&'a [u8]>];

/// The functions of one instruction set. They rely on lengths being equal.
struct ParityFunctions {
    name: &'static str,
    xor: fn(&mut [u8], &[&[u8]]),
    xor_into: fn(&mut [u8], &[u8]),
    pq: fn(&mut [u8], &mut [u8], &SyndromeSources<'_>),
    gf: fn(&mut [u8], u8, &[u8], u8, &[u8]),
    gf_into: fn(&mut [u8], u8, &[u8]),
}

static PORTABLE: ParityFunctions = ParityFunctions {
    name: "portable",
    xor: |dst, srcs| portable::xor(dst, srcs, 0),
    xor_into: |dst, src| portable::xor_into(dst, src, 0),
    pq: |p, q, srcs| portable::pq(p, q, srcs, 0),
    gf: |dst, a, x, b, y| portable::gf(dst, a, x, b, y, 0),
    gf_into: |dst, a, x| portable::gf_into(dst, a, x, 0),
};

/// Every implementation that this processor can run, the best first.
fn tables() -> impl Iterator<Item = &'static ParityFunctions> {
    #[cfg(target_arch = "x86_64")]
    let found = x86::available();
    #[cfg(not(target_arch = "x86_64"))]
    let found = std::iter::empty();
    found.chain([&PORTABLE])
}

/// Parity computed with one instruction set.
#[derive(Clone, Copy)]
pub struct ParityKernels(&'static ParityFunctions);

impl fmt::Debug for ParityKernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernels").field(&self.0.name).finish()
    }
}

impl ParityKernels {
    /// The fastest that this processor can run. It is looked for once.
    #[inline]
    pub fn best() -> Self {
        // The processor's features do not change while the program runs, so one look is enough.
        static BEST: OnceLock<&ParityFunctions> = OnceLock::new();
        Self(BEST.get_or_init(|| tables().next().unwrap_or(&PORTABLE)))
    }

    /// All that this processor can run with their names, the fastest first; for tests and
    /// benchmarks.
    pub fn all_available() -> impl Iterator<Item = (&'static str, Self)> {
        tables().map(|table| (table.name, Self(table)))
    }

    /// The instruction set's name.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// `dst` = XOR of all sources; zeros if there are none.
    ///
    /// # Panics
    /// If a source is not as long as `dst`.
    #[inline]
    pub fn xor(self, dst: &mut [u8], srcs: &[&[u8]]) {
        for src in srcs {
            same_length("xor", dst.len(), src.len());
        }
        (self.0.xor)(dst, srcs);
    }

    /// `dst` ^= `src`.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn xor_into(self, dst: &mut [u8], src: &[u8]) {
        same_length("xor_into", dst.len(), src.len());
        (self.0.xor_into)(dst, src);
    }

    /// `p` = ⊕ Dᵢ and `q` = Σ gⁱ·Dᵢ, where i is the index in `srcs` and `None` is a page of zeros.
    ///
    /// # Panics
    /// If `q` or a source is not as long as `p`.
    #[inline]
    pub fn pq(self, p: &mut [u8], q: &mut [u8], srcs: &[Option<&[u8]>]) {
        same_length("pq", p.len(), q.len());
        for src in srcs.iter().flatten() {
            same_length("pq", p.len(), src.len());
        }
        (self.0.pq)(p, q, srcs);
    }

    /// `dst` = a·`x` ⊕ b·`y`.
    ///
    /// # Panics
    /// If `x` or `y` is not as long as `dst`.
    #[inline]
    pub fn gf(self, dst: &mut [u8], a: u8, x: &[u8], b: u8, y: &[u8]) {
        same_length("gf", dst.len(), x.len());
        same_length("gf", dst.len(), y.len());
        (self.0.gf)(dst, a, x, b, y);
    }

    /// `dst` ^= a·`x`.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn gf_into(self, dst: &mut [u8], a: u8, x: &[u8]) {
        same_length("gf_into", dst.len(), x.len());
        (self.0.gf_into)(dst, a, x);
    }
}

#[inline]
fn same_length(what: &str, expected: usize, len: usize) {
    // The check is here, once per call: the kernels' loops rely on it and check nothing.
    assert!(len == expected, "{what}: a source of {len} bytes with a destination of {expected}");
}

/// [`ParityKernels::xor`] of the best implementation.
#[inline]
pub fn xor(dst: &mut [u8], srcs: &[&[u8]]) {
    ParityKernels::best().xor(dst, srcs);
}

/// [`ParityKernels::xor_into`] of the best implementation.
#[inline]
pub fn xor_into(dst: &mut [u8], src: &[u8]) {
    ParityKernels::best().xor_into(dst, src);
}

/// [`ParityKernels::pq`] of the best implementation.
#[inline]
pub fn pq(p: &mut [u8], q: &mut [u8], srcs: &[Option<&[u8]>]) {
    ParityKernels::best().pq(p, q, srcs);
}

/// [`ParityKernels::gf`] of the best implementation.
#[inline]
pub fn gf(dst: &mut [u8], a: u8, x: &[u8], b: u8, y: &[u8]) {
    ParityKernels::best().gf(dst, a, x, b, y);
}

/// [`ParityKernels::gf_into`] of the best implementation.
#[inline]
pub fn gf_into(dst: &mut [u8], a: u8, x: &[u8]) {
    ParityKernels::best().gf_into(dst, a, x);
}
