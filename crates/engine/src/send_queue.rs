//! Queues the replies to a client until its socket takes them.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;

use destage_exec::AlignedBuffer;
use destage_nbd::ReplyHead;

use crate::socket::ClientStream;

/// Parts that are sent in one call.
const SLICES: usize = 64;
/// Limits the bytes of texts that are kept to be used again.
const SPARE: usize = 16 << 10;
/// Payloads of at most so many bytes are copied beside their heads: a part more costs the kernel more than
/// that.
const COPIED: usize = 512;

/// Replies in the order in which they are to be sent.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    parts: VecDeque<SendPart>,
    /// Bytes of the first part that have been sent.
    sent: usize,
    /// Bytes that have not.
    left: usize,
    /// Counts the bytes that are allocated for parts not yet sent as a whole.
    held: usize,
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
}

#[derive(Debug)]
enum SendPart {
    /// Heads, errors, and what else is short.
    Text(Vec<u8>),
    /// Holds the data of a read, and which part of it is sent.
    Payload(AlignedBuffer, Range<usize>),
}

impl SendPart {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            Self::Payload(buffer, range) => &buffer[range.clone()],
        }
    }
}

impl SendQueue {
    /// Bytes that have not been sent.
    pub(crate) const fn left(&self) -> usize {
        self.left
    }

    /// Returns the bytes that are held until they have been sent, be some of them on their way.
    pub(crate) const fn held(&self) -> usize {
        self.held
    }

    /// Puts text, which `write` appends, behind what there is.
    pub(crate) fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        // Neighbouring texts share a part, so a pipeline of small replies leaves in one system call.
        if !matches!(self.parts.back(), Some(SendPart::Text(_))) {
            let text = self.spare.pop().unwrap_or_default();
            self.spare_bytes -= text.capacity();
            self.held += text.capacity();
            self.parts.push_back(SendPart::Text(text));
        }
        let Some(SendPart::Text(text)) = self.parts.back_mut() else { return };
        let (before, allocated) = (text.len(), text.capacity());
        write(text);
        self.left += text.len() - before;
        self.held += text.capacity() - allocated;
    }

    /// Puts the head of a reply behind what there is.
    pub(crate) fn head(&mut self, head: &ReplyHead) {
        self.text(|text| text.extend_from_slice(head));
    }

    /// Puts a payload behind what there is; the buffer, if it is not needed for that.
    pub(crate) fn payload(&mut self, buffer: AlignedBuffer, range: Range<usize>) -> Option<AlignedBuffer> {
        // A copy of so few bytes costs less than one more entry of a vectored write.
        if range.len() <= COPIED {
            self.text(|text| text.extend_from_slice(&buffer[range]));
            return Some(buffer);
        }
        self.left += range.len();
        self.held += buffer.capacity();
        self.parts.push_back(SendPart::Payload(buffer, range));
        None
    }

    /// Sends what there is room for; buffers that are sent are handed to `spare`. Whether all is sent.
    pub(crate) fn send(&mut self, stream: &mut ClientStream, mut spare: impl FnMut(AlignedBuffer)) -> io::Result<bool> {
        while self.left > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = 0;
            for (slice, part) in slices.iter_mut().zip(&self.parts) {
                *slice = IoSlice::new(&part.bytes()[if count == 0 { self.sent } else { 0 }..]);
                count += 1;
            }
            let wanted: usize = slices[..count].iter().map(|slice| slice.len()).sum();
            let Some(sent) = stream.send(&slices[..count])? else { return Ok(false) };
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.forget(sent, &mut spare);
            // A short write means that the socket is full: the service waits for room instead of asking again.
            if sent < wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn forget(&mut self, sent: usize, spare: &mut impl FnMut(AlignedBuffer)) {
        self.left -= sent;
        self.sent += sent;
        while let Some(len) = self.parts.front().map(|part| part.bytes().len()).filter(|len| *len <= self.sent) {
            self.sent -= len;
            match self.parts.pop_front() {
                Some(SendPart::Text(mut text)) => {
                    text.clear();
                    self.held -= text.capacity();
                    // Texts are reused, since each reply would otherwise allocate; the limit keeps one burst from
                    // staying for ever.
                    if self.spare_bytes + text.capacity() <= SPARE {
                        self.spare_bytes += text.capacity();
                        self.spare.push(text);
                    }
                }
                Some(SendPart::Payload(buffer, _)) => {
                    self.held -= buffer.capacity();
                    spare(buffer);
                }
                None => {}
            }
        }
    }
}
