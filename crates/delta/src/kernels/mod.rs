//! Counting, packing and applying of changes, as fast as the processor allows.
//!
//! The same functions exist for several instruction sets. The best that the processor has is chosen
//! at the first call, and every one gives the same bytes and the same answers. All go through the
//! page in blocks of 64 bytes, which are a byte of a bitmap of words and eight of one of bytes; the
//! portable functions do what is left behind the last whole block.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use std::fmt;
use std::sync::OnceLock;

/// Bytes of a block.
const BLOCK: usize = 64;

/// Counts the changed part of a page, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangeCounts {
    /// Bytes of the words in which something has changed.
    pub(crate) words: usize,
    /// Bytes that have changed.
    pub(crate) bytes: usize,
}

/// Packs the changes between two pages of a length into a bitmap for that length, and data that are
/// at least as long as the changes.
type PackChanges = fn(&[u8], &[u8], &mut [u8], &mut [u8]);
/// Applies a bitmap and data to a page, into another of its length; whether the data are as long as
/// the bitmap says, and everything marked has changed. No bit may be set behind the page's end.
type ApplyChanges = fn(&[u8], &[u8], &[u8], &mut [u8]) -> bool;

/// The functions of one instruction set.
struct DeltaFunctions {
    name: &'static str,
    count: fn(&[u8], &[u8]) -> ChangeCounts,
    pack_words: PackChanges,
    pack_bytes: PackChanges,
    apply_words: ApplyChanges,
    apply_bytes: ApplyChanges,
}

/// Every implementation that this processor can run, the best first.
fn tables() -> impl Iterator<Item = &'static DeltaFunctions> {
    #[cfg(target_arch = "x86_64")]
    let found = [avx512::available(), avx2::available()].into_iter().flatten();
    #[cfg(not(target_arch = "x86_64"))]
    let found = std::iter::empty();
    found.chain([&portable::TABLE])
}

/// Deltas made and applied with one instruction set.
#[derive(Clone, Copy)]
pub struct DeltaKernels(&'static DeltaFunctions);

impl fmt::Debug for DeltaKernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernels").field(&self.0.name).finish()
    }
}

impl DeltaKernels {
    /// The fastest that this processor can run. It is looked for once.
    #[inline]
    pub fn best() -> Self {
        static BEST: OnceLock<&DeltaFunctions> = OnceLock::new();
        Self(BEST.get_or_init(|| tables().next().unwrap_or(&portable::TABLE)))
    }

    /// All that this processor can run, the fastest first; for tests and benchmarks.
    pub fn all_available() -> impl Iterator<Item = Self> {
        tables().map(Self)
    }

    /// The instruction set's name.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Counts the bytes and words that differ between two pages.
    pub(crate) fn count(self, base: &[u8], new: &[u8]) -> ChangeCounts {
        crate::same_length(base.len(), new.len());
        (self.0.count)(base, new)
    }

    /// Packs the changed words.
    pub(crate) fn pack_words(self, base: &[u8], new: &[u8], bitmap: &mut [u8], data: &mut [u8]) {
        (self.0.pack_words)(base, new, bitmap, data);
    }

    /// Packs the changed bytes.
    pub(crate) fn pack_bytes(self, base: &[u8], new: &[u8], bitmap: &mut [u8], data: &mut [u8]) {
        (self.0.pack_bytes)(base, new, bitmap, data);
    }

    /// Applies changed words. If they cannot be those of a page: false, and `page` is anything.
    pub(crate) fn apply_words(self, base: &[u8], bitmap: &[u8], data: &[u8], page: &mut [u8]) -> bool {
        (self.0.apply_words)(base, bitmap, data, page)
    }

    /// Applies changed bytes. If they cannot be those of a page: false, and `page` is anything.
    pub(crate) fn apply_bytes(self, base: &[u8], bitmap: &[u8], data: &[u8], page: &mut [u8]) -> bool {
        (self.0.apply_bytes)(base, bitmap, data, page)
    }
}

/// The whole blocks of two pages.
#[inline(always)]
fn blocks<'a>(base: &'a [u8], new: &'a [u8]) -> impl Iterator<Item = (&'a [u8; BLOCK], &'a [u8; BLOCK])> {
    base.as_chunks().0.iter().zip(new.as_chunks().0)
}

/// Returns the place for a block that is packed for byte `at` of the data. The place is there, if a whole
/// block fits, or else in `spare`, from which [`settle`] takes the needed bytes.
#[inline(always)]
fn room<'a>(data: &'a mut [u8], at: usize, spare: &'a mut [u8; BLOCK]) -> &'a mut [u8; BLOCK] {
    data[at..].first_chunk_mut().unwrap_or(spare)
}

/// Has the first `len` bytes of a packed block in their place.
#[inline(always)]
fn settle(data: &mut [u8], at: usize, spare: &[u8; BLOCK], len: usize) {
    if data.len() - at < BLOCK {
        data[at..at + len].copy_from_slice(&spare[..len]);
    }
}

/// Bytes that are read in blocks which may reach behind their end; there are zeros.
struct PaddedBytes<'a> {
    bytes: &'a [u8],
    /// The last block of the bytes, or all if they are fewer; then zeros.
    last: [u8; 2 * BLOCK],
    /// Holds the offset at which the last block begins.
    from: usize,
}

impl<'a> PaddedBytes<'a> {
    #[inline(always)]
    fn new(bytes: &'a [u8]) -> Self {
        let from = bytes.len().saturating_sub(BLOCK);
        let mut last = [0; 2 * BLOCK];
        last[..bytes.len() - from].copy_from_slice(&bytes[from..]);
        Self { bytes, last, from }
    }

    /// The block that begins at byte `at`, which is at most the end.
    #[inline(always)]
    fn block(&self, at: usize) -> &[u8; BLOCK] {
        let block = if at < self.from { &self.bytes[at..] } else { &self.last[at - self.from..] };
        block.first_chunk().expect("a block is left")
    }
}
