//! Buffers that begin where direct I/O wants them to.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Bytes that begin at a multiple of [`ALIGN`](Self::ALIGN). What was allocated is kept, however
/// few bytes there are later.
#[derive(Default)]
pub struct Buffer {
    /// The bytes, and before them what it takes to align them.
    raw: Vec<u8>,
    from: usize,
}

impl Buffer {
    /// Bytes to a multiple of which a buffer is aligned: what devices and file systems ask for at
    /// most.
    pub const ALIGN: usize = 4096;

    /// No bytes, and nothing allocated.
    pub const fn new() -> Self {
        Self { raw: Vec::new(), from: 0 }
    }

    /// So many zeros.
    pub fn zeroed(len: usize) -> Self {
        let mut buffer = Self::new();
        buffer.resize(len);
        buffer
    }

    /// Makes it so long, with zeros behind what it held.
    pub fn resize(&mut self, len: usize) {
        self.reserve(len);
        self.raw.resize(self.from + len, 0);
    }

    /// Takes all bytes out.
    pub fn clear(&mut self) {
        self.raw.truncate(self.from);
    }

    /// Appends bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(self.len() + bytes.len());
        self.raw.extend_from_slice(bytes);
    }

    /// Makes room for so many bytes, moving them to where they are aligned if there is none.
    fn reserve(&mut self, len: usize) {
        if self.from + len <= self.raw.capacity() {
            return;
        }
        let mut raw = Vec::<u8>::with_capacity(len.next_power_of_two() + Self::ALIGN);
        let from = raw.as_ptr().addr().wrapping_neg() % Self::ALIGN;
        raw.resize(from, 0);
        raw.extend_from_slice(self);
        *self = Self { raw, from };
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.raw[self.from..]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.raw[self.from..]
    }
}

/// Copies.
impl Clone for Buffer {
    fn clone(&self) -> Self {
        Self::from(&**self)
    }
}

/// Copies.
impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Self {
        let mut buffer = Self::new();
        buffer.extend_from_slice(bytes);
        buffer
    }
}

/// Copies: a vector is not aligned.
impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(bytes.as_slice())
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Buffer {}

impl PartialEq<Vec<u8>> for Buffer {
    fn eq(&self, other: &Vec<u8>) -> bool {
        **self == **other
    }
}

impl PartialEq<&[u8]> for Buffer {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
