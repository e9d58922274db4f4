//! UTF-16 as UTF-8.

use std::io::{self, Read};

/// Bytes that are read at once.
const CHUNK: usize = 16 * 1024;

/// Gives the order of the two bytes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

/// Returns the order that a byte order mark tells. That of UTF-32 is none of UTF-16.
pub(super) fn marked(head: &[u8]) -> Option<ByteOrder> {
    match head {
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => Some(ByteOrder::Little),
        [0xfe, 0xff, ..] => Some(ByteOrder::Big),
        _ => None,
    }
}

/// Says what is no UTF-16.
#[derive(Debug, thiserror::Error)]
#[error("invalid UTF-16 at byte {at}: {found}")]
pub(super) struct Utf16Error {
    at: u64,
    found: &'static str,
}

/// Reads UTF-16 behind its byte order mark as UTF-8.
pub(super) struct Utf16Text<R> {
    input: R,
    order: ByteOrder,
    /// Holds what was read: whole units are decoded.
    units: Vec<u8>,
    /// Holds UTF-8, and how much of it was given out.
    text: Vec<u8>,
    given: usize,
    /// Counts the bytes that were decoded, the mark too.
    at: u64,
    has_ended: bool,
    /// Holds what is to be told behind the text that was decoded.
    error: Option<Utf16Error>,
}

impl<R: Read> Utf16Text<R> {
    pub(super) fn new(input: R, order: ByteOrder) -> Self {
        Self { input, order, units: Vec::new(), text: Vec::new(), given: 0, at: 0, has_ended: false, error: None }
    }

    /// Reads more and decodes it, but for a unit or a pair of them that goes on behind it.
    fn fill(&mut self) -> io::Result<()> {
        let held = self.units.len();
        self.units.resize(held + CHUNK, 0);
        let n = self.input.read(&mut self.units[held..])?;
        self.units.truncate(held + n);
        self.has_ended = n == 0;
        self.text.clear();
        self.given = 0;
        let order = self.order;
        let unit = |pair: &[u8]| match order {
            ByteOrder::Little => u16::from_le_bytes([pair[0], pair[1]]),
            ByteOrder::Big => u16::from_be_bytes([pair[0], pair[1]]),
        };
        let mut whole = self.units.len() / 2 * 2;
        let is_first_half = |pair: &[u8]| (0xd800..0xdc00).contains(&unit(pair));
        if !self.has_ended && whole >= 2 && is_first_half(&self.units[whole - 2..whole]) {
            // The second half of the pair comes with the next bytes.
            whole -= 2;
        }
        let mut bytes = [0; 4];
        for character in char::decode_utf16(self.units[..whole].chunks_exact(2).map(unit)) {
            let Ok(character) = character else {
                self.fail("half a pair of surrogates");
                return Ok(());
            };
            // The mark stands in front.
            if self.at > 0 {
                self.text.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
            }
            self.at += 2 * character.len_utf16() as u64;
        }
        self.units.drain(..whole);
        if self.has_ended && !self.units.is_empty() {
            self.fail("a last byte alone");
        }
        Ok(())
    }

    fn fail(&mut self, found: &'static str) {
        self.has_ended = true;
        self.error = Some(Utf16Error { at: self.at, found });
    }
}

impl<R: Read> Read for Utf16Text<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.given == self.text.len() && !self.has_ended {
            self.fill()?;
        }
        if self.given == self.text.len()
            && let Some(error) = self.error.take()
        {
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        let n = buf.len().min(self.text.len() - self.given);
        buf[..n].copy_from_slice(&self.text[self.given..][..n]);
        self.given += n;
        Ok(n)
    }
}

/// Returns true if a beginning looks like UTF-16 of ASCII without a byte order mark, with an end of line: each second byte
/// is zero, and the others are text.
pub(crate) fn looks_unmarked(head: &[u8]) -> bool {
    /// Bytes that are looked at, and at least.
    const MOST: usize = 4096;
    const LEAST: usize = 16;
    let pairs = || head[..head.len().min(MOST)].chunks_exact(2);
    let is_text = |b: u8| matches!(b, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    let has_line = || pairs().any(|pair| pair.contains(&b'\n'));
    let is_all = |text: usize| pairs().all(|pair| is_text(pair[text]) && pair[1 - text] == 0);
    head.len() >= LEAST && (is_all(0) || is_all(1)) && has_line()
}
