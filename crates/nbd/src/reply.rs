//! The bytes of replies in the transmission phase.
//!
//! A [`ReplyHead`] precedes a payload that it does not hold: whoever sends the reply sends the payload
//! from where it lies. What has no fixed length (texts) is appended to a buffer, which
//! can be used again.

use std::fmt::{self, Write as _};
use std::ops::Deref;

use crate::errno::Errno;
use crate::wire::{CHUNK_MAGIC, PutNumbers, SIMPLE_REPLY_MAGIC, STRING_BYTES, chunk};

/// Bytes of the longest head: that of a hole.
const LONGEST: usize = 32;
/// Bytes of a chunk before its payload.
const CHUNK_BYTES: usize = 20;

/// Holds the head of a payload, or a whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    bytes: [u8; LONGEST],
    len: u8,
}

impl Deref for ReplyHead {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl ReplyHead {
    const fn new() -> Self {
        Self { bytes: [0; LONGEST], len: 0 }
    }

    fn put(mut self, part: &[u8]) -> Self {
        let from = usize::from(self.len);
        self.bytes[from..from + part.len()].copy_from_slice(part);
        self.len += part.len() as u8;
        self
    }

    /// A simple reply, successful where there is no error; after a read its bytes follow.
    #[inline]
    pub fn simple(cookie: u64, error: Option<Errno>) -> Self {
        let error = error.map_or(0, Errno::number);
        Self::new().put(&SIMPLE_REPLY_MAGIC.to_be_bytes()).put(&error.to_be_bytes()).put(&cookie.to_be_bytes())
    }

    pub(crate) fn chunk(cookie: u64, kind: u16, last: bool, payload: u32) -> Self {
        let flags = if last { chunk::DONE } else { 0 };
        Self::new()
            .put(&CHUNK_MAGIC.to_be_bytes())
            .put(&flags.to_be_bytes())
            .put(&kind.to_be_bytes())
            .put(&cookie.to_be_bytes())
            .put(&payload.to_be_bytes())
    }

    /// The chunk that ends a reply and says nothing else.
    pub fn end(cookie: u64) -> Self {
        Self::chunk(cookie, chunk::NONE, true, 0)
    }

    /// A chunk of `length` bytes of the export, which follow.
    #[inline]
    pub fn data(cookie: u64, offset: u64, length: u32, last: bool) -> Self {
        Self::chunk(cookie, chunk::OFFSET_DATA, last, length.saturating_add(8)).put(&offset.to_be_bytes())
    }

    /// A chunk that says that bytes are zeroes.
    pub fn hole(cookie: u64, offset: u64, length: u32, last: bool) -> Self {
        Self::chunk(cookie, chunk::OFFSET_HOLE, last, 12).put(&offset.to_be_bytes()).put(&length.to_be_bytes())
    }
}

/// Appends a chunk that says what went wrong, and where if `offset` says that. Of the text 4096
/// bytes are sent.
pub fn error_chunk(
    out: &mut Vec<u8>,
    cookie: u64,
    errno: Errno,
    text: &dyn fmt::Display,
    offset: Option<u64>,
    last: bool,
) {
    let start = out.len();
    let kind = if offset.is_some() { chunk::ERROR_OFFSET } else { chunk::ERROR };
    out.extend_from_slice(&ReplyHead::chunk(cookie, kind, last, 0));
    out.put32(errno.number());
    // The length is filled in once the text is written: measuring it first would format it twice.
    out.put16(0);
    let text_start = out.len();
    // Writing into memory cannot fail. A `Display` that fails by itself ends its text there.
    let _ = write!(BoundedText { out, from: text_start }, "{text}");
    let text_len = out.len() - text_start;
    out[text_start - 2..text_start].copy_from_slice(&(text_len as u16).to_be_bytes());
    if let Some(offset) = offset {
        out.put64(offset);
    }
    finish_chunk(out, start);
}

/// Puts the length of the payload into the head of the chunk that begins at `start` and ends with
/// `out`.
pub(crate) fn finish_chunk(out: &mut [u8], start: usize) {
    let payload = (out.len() - start - CHUNK_BYTES) as u32;
    out[start + CHUNK_BYTES - 4..start + CHUNK_BYTES].copy_from_slice(&payload.to_be_bytes());
}

/// A text that ends with the last character that has room.
struct BoundedText<'a> {
    out: &'a mut Vec<u8>,
    from: usize,
}

impl fmt::Write for BoundedText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = STRING_BYTES - (self.out.len() - self.from);
        let end = text.floor_char_boundary(room);
        // A string of the protocol has no NUL.
        self.out.extend(text.as_bytes()[..end].iter().map(|&byte| if byte == 0 { b' ' } else { byte }));
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}
