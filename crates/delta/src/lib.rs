//! Deltas: what has changed from one content of a page to the next, in few bytes.
//!
//! A delta of a page is at most as long as the page, so that it fits wherever a page does:
//!
//! * If it is as long as the page, it is the new page itself, *raw*.
//! * If it is shorter, its first byte names the [`DeltaCodec`], and the rest is the exclusive or of the
//!   two contents as that codec writes it (docs/format.md). The page may have any length.
//!
//! [`encode`] counts what has changed and takes whichever is shortest of words, bytes and raw, so
//! that the length is known before anything is written; an [`DeltaEncoder`] keeps to one codec. Bytes
//! that are no delta of a page are an error that names the byte ([`decode`]). For words and bytes
//! what is written is the only way to write it, so that most damage shows.

mod bitmap;
pub mod kernels;
pub mod lengths;
mod lz4;
pub mod patterns;

use bitmap::BitmapUnit;
pub use kernels::DeltaKernels;

/// A way to write down what has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DeltaCodec {
    /// A bit for each word of eight bytes, and the words that have changed.
    Words = 1,
    /// A bit for each byte, and the bytes that have changed.
    Bytes = 2,
    /// An LZ4 block. Its length is not known before, and it can be written in many ways.
    Lz4 = 3,
}

impl DeltaCodec {
    /// All that there are.
    pub const ALL: [Self; 3] = [Self::Words, Self::Bytes, Self::Lz4];

    /// The first byte of its deltas.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the coding of the bytes after the first.
    const fn coding(self) -> DeltaCoding {
        match self {
            Self::Words => DeltaCoding::Bitmap(BitmapUnit::Word),
            Self::Bytes => DeltaCoding::Bitmap(BitmapUnit::Byte),
            Self::Lz4 => DeltaCoding::Lz4,
        }
    }
}

/// Selects the coding of the bytes after the first.
enum DeltaCoding {
    Bitmap(BitmapUnit),
    Lz4,
}

/// Why bytes are no delta of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// No codec of this number.
    #[error("the codec at byte 0 is {0}; it must be 1 (words), 2 (bytes) or 3 (LZ4)")]
    Codec(u8),
    /// Refuses a delta that ends too early or goes on too long.
    #[error("the delta ends at byte {found}; it must end at byte {expected}")]
    Length {
        /// Bytes that there are.
        found: usize,
        /// Bytes that there must be, or be at least.
        expected: usize,
    },
    /// The bitmap says that something has changed that the page does not have.
    #[error("the bitmap at byte {0} goes on behind the end of the page")]
    Bitmap(usize),
    /// A word or byte that is said to have changed has not.
    #[error("what is at byte {0} is said to have changed and has not")]
    Unchanged(usize),
    /// Behind the first byte there is no LZ4 block.
    #[error("the LZ4 block at byte 1 is none: {0}")]
    Block(&'static str),
    /// The LZ4 block is not a page.
    #[error("the LZ4 block at byte 1 holds {found} bytes; the page has {expected}")]
    Short {
        /// Bytes that it holds.
        found: usize,
        /// Bytes of a page.
        expected: usize,
    },
}

/// Bytes of the delta that [`encode`] makes of these pages.
///
/// # Panics
/// If the pages differ in length.
pub fn encoded_len(base: &[u8], new: &[u8]) -> usize {
    DeltaKernels::best().encoded_len(base, new)
}

/// Writes the delta that makes `new` of `base` to the front of `delta`, which is as long as a page;
/// its length. What is behind it in `delta` may be anything.
///
/// # Panics
/// If the lengths differ.
pub fn encode(base: &[u8], new: &[u8], delta: &mut [u8]) -> usize {
    DeltaKernels::best().encode(base, new, delta)
}

/// Makes `page` what the delta makes of `base`, whichever codec it is of. After an error `page`
/// holds anything.
///
/// # Panics
/// If the pages differ in length.
pub fn decode(base: &[u8], delta: &[u8], page: &mut [u8]) -> Result<(), DeltaError> {
    DeltaKernels::best().decode(base, delta, page)
}

impl DeltaKernels {
    /// [`encoded_len`] with this instruction set.
    ///
    /// # Panics
    /// If the pages differ in length.
    pub fn encoded_len(self, base: &[u8], new: &[u8]) -> usize {
        self.shortest(base, new).1
    }

    /// [`encode`] with this instruction set.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn encode(self, base: &[u8], new: &[u8], delta: &mut [u8]) -> usize {
        same_length(base.len(), delta.len());
        let (unit, len) = self.shortest(base, new);
        match unit {
            Some(unit) => bitmap::encode(self, unit, base, new, delta),
            None => delta.copy_from_slice(new),
        }
        len
    }

    /// The unit whose bitmap gives the shortest delta, none if that is the page itself, and the
    /// delta's length. Words, which are the quickest, are taken rather than bytes.
    fn shortest(self, base: &[u8], new: &[u8]) -> (Option<BitmapUnit>, usize) {
        let (page, counts) = (base.len(), self.count(base, new));
        [BitmapUnit::Word, BitmapUnit::Byte]
            .map(|unit| (Some(unit), bitmap::len(unit, page, counts)))
            .into_iter()
            // Only a length less than the page's tells a delta from a whole page.
            .fold((None, page), |best, other| if other.1 < best.1 { other } else { best })
    }

    /// [`decode`] with this instruction set.
    ///
    /// # Panics
    /// If the pages differ in length.
    pub fn decode(self, base: &[u8], delta: &[u8], page: &mut [u8]) -> Result<(), DeltaError> {
        same_length(base.len(), page.len());
        // A page that does not get shorter is stored as it is: its length alone tells so.
        if delta.len() == page.len() {
            page.copy_from_slice(delta);
            return Ok(());
        }
        if delta.len() > page.len() {
            return Err(DeltaError::Length { found: delta.len(), expected: page.len() });
        }
        let first = *delta.first().ok_or(DeltaError::Length { found: 0, expected: 1 })?;
        let codec = DeltaCodec::ALL.into_iter().find(|codec| codec.number() == first);
        match codec.ok_or(DeltaError::Codec(first))?.coding() {
            DeltaCoding::Bitmap(unit) => bitmap::decode(self, unit, base, delta, page),
            DeltaCoding::Lz4 => lz4::decode(base, &delta[1..], page),
        }
    }
}

/// Makes deltas of one codec, or raw ones where those would not be shorter than the page. It keeps
/// what it needs between them, so that none allocates once pages are as long as before.
#[derive(Debug)]
pub struct DeltaEncoder {
    kernels: DeltaKernels,
    codec: DeltaCodec,
    lz4: lz4::DeltaCompressor,
}

impl DeltaEncoder {
    /// Of this codec, with this instruction set.
    pub fn new(kernels: DeltaKernels, codec: DeltaCodec) -> Self {
        Self { kernels, codec, lz4: lz4::DeltaCompressor::default() }
    }

    /// As [`encode`], in this codec.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn encode(&mut self, base: &[u8], new: &[u8], delta: &mut [u8]) -> usize {
        same_length(base.len(), new.len());
        same_length(base.len(), delta.len());
        let shorter = match self.codec.coding() {
            DeltaCoding::Bitmap(unit) => {
                let len = bitmap::len(unit, base.len(), self.kernels.count(base, new));
                (len < new.len()).then(|| {
                    bitmap::encode(self.kernels, unit, base, new, delta);
                    len
                })
            }
            DeltaCoding::Lz4 => self.lz4.encode(base, new, delta),
        };
        shorter.unwrap_or_else(|| {
            delta.copy_from_slice(new);
            new.len()
        })
    }
}

/// Holds two lengths to be equal.
#[track_caller]
fn same_length(page: usize, other: usize) {
    assert!(page == other, "a page of {page} bytes with one of {other}");
}
