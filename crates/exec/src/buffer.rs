//! Aligns buffers as direct I/O needs them.

use std::collections::TryReserveError;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Holds bytes that begin at a multiple of [`ALIGN`](Self::ALIGN). It never gives allocated room back, however
/// few bytes there are later.
#[derive(Default)]
pub struct AlignedBuffer {
    /// Holds the bytes, and before them those that align them.
    raw: Vec<u8>,
    from: usize,
}

impl AlignedBuffer {
    /// Sets the alignment of a buffer in bytes: the most that devices and file systems ask for.
    pub const ALIGN: usize = 4096;
    /// Sets the bytes up to which powers of two are allocated, for a buffer to serve again.
    const ROUNDED: usize = 1 << 20;

    /// Makes an empty buffer without an allocation.
    pub const fn new() -> Self {
        Self { raw: Vec::new(), from: 0 }
    }

    /// Makes a buffer of so many zeros.
    pub fn zeroed(len: usize) -> Self {
        let mut buffer = Self::new();
        buffer.resize(len);
        buffer
    }

    /// Returns the bytes that [`try_resize`](Self::try_resize) allocates for so many where nothing is allocated yet: of long
    /// ones no more than it takes.
    pub const fn footprint(len: usize) -> usize {
        let room = match len {
            0..Self::ALIGN => Self::ALIGN,
            // Powers of two, so that a buffer fits the next request of its size
            // class again.
            Self::ALIGN..=Self::ROUNDED => len.next_power_of_two(),
            _ => len.next_multiple_of(Self::ALIGN),
        };
        // A vector may begin anywhere, so up to one alignment more is needed.
        room + Self::ALIGN
    }

    /// Returns the bytes that are allocated.
    pub const fn capacity(&self) -> usize {
        self.raw.capacity()
    }

    /// Sets the length, with zeros after the content, as [`resize`](Self::resize) does; or leaves the buffer
    /// unchanged.
    ///
    /// # Errors
    /// Fails if the system has no memory for it.
    pub fn try_resize(&mut self, len: usize) -> Result<(), TryReserveError> {
        // A new vector and no growth in place: growing may move the bytes to
        // another alignment.
        if self.from + len > self.raw.capacity() {
            let mut raw = Vec::new();
            raw.try_reserve_exact(Self::footprint(len))?;
            self.move_to(raw);
        }
        self.raw.resize(self.from + len, 0);
        Ok(())
    }

    /// Sets the length, with zeros after the previous content.
    pub fn resize(&mut self, len: usize) {
        self.reserve(len);
        self.raw.resize(self.from + len, 0);
    }

    /// Removes all bytes.
    pub fn clear(&mut self) {
        self.raw.truncate(self.from);
    }

    /// Appends bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(self.len() + bytes.len());
        self.raw.extend_from_slice(bytes);
    }

    /// Makes room for so many bytes in all; moves them to an aligned place if there is too little.
    pub(crate) fn reserve(&mut self, len: usize) {
        if self.from + len <= self.raw.capacity() {
            return;
        }
        self.move_to(Vec::with_capacity(len.next_power_of_two() + Self::ALIGN));
    }

    /// Moves the bytes to where there is room for them.
    fn move_to(&mut self, mut raw: Vec<u8>) {
        // `Vec` promises no alignment, so the first bytes are skipped.
        let from = raw.as_ptr().addr().wrapping_neg() % Self::ALIGN;
        raw.resize(from, 0);
        raw.extend_from_slice(self);
        *self = Self { raw, from };
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.raw[self.from..]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.raw[self.from..]
    }
}

/// Copies.
impl Clone for AlignedBuffer {
    fn clone(&self) -> Self {
        Self::from(&**self)
    }
}

/// Copies.
impl From<&[u8]> for AlignedBuffer {
    fn from(bytes: &[u8]) -> Self {
        let mut buffer = Self::new();
        buffer.extend_from_slice(bytes);
        buffer
    }
}

/// Copies the bytes: a vector is not aligned.
impl From<Vec<u8>> for AlignedBuffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(bytes.as_slice())
    }
}

impl PartialEq for AlignedBuffer {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for AlignedBuffer {}

impl PartialEq<Vec<u8>> for AlignedBuffer {
    fn eq(&self, other: &Vec<u8>) -> bool {
        **self == **other
    }
}

impl PartialEq<&[u8]> for AlignedBuffer {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
