//! Encodes the answers to requests, in whichever form the client understands.

use std::fmt;

use crate::errno::Errno;
use crate::reply::{ReplyHead, error_chunk};
use crate::request::{NbdCommand, NbdRequest};
use crate::session::NbdSession;
use crate::status::{StatusExtent, StatusLimits, status_chunk};
use crate::wire::EXTENTS;

impl NbdSession {
    /// The reply to a request that succeeded and gives nothing back: any but a read or a block
    /// status.
    ///
    /// # Panics
    /// For these two.
    #[inline]
    pub fn done(&self, request: &NbdRequest) -> ReplyHead {
        let gives = matches!(request.command, NbdCommand::Read { .. } | NbdCommand::BlockStatus { .. });
        assert!(!gives, "a {} is answered with what it asked for", request.command.name());
        // The protocol allows a simple reply to any request but a read or a block status even if replies are
        // structured: it is shorter by 4 bytes.
        ReplyHead::simple(request.cookie, None)
    }

    /// Appends the reply to a request that failed, nothing of which was answered before: an error
    /// with, if replies are structured, a text for people, and where it went wrong if that is known.
    pub fn fail(
        &self,
        request: &NbdRequest,
        errno: Errno,
        text: &dyn fmt::Display,
        at: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        // An offset outside of the request would be a protocol error of ours.
        let inside = at.filter(|at| (request.offset..request.end()).contains(at));
        self.fail_cookie(request.cookie, errno, text, inside, out);
    }

    pub(crate) fn fail_cookie(
        &self,
        cookie: u64,
        errno: Errno,
        text: &dyn fmt::Display,
        at: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        if self.structured {
            error_chunk(out, cookie, errno, text, at, true);
        } else {
            out.extend_from_slice(&ReplyHead::simple(cookie, Some(errno)));
        }
    }

    /// Appends what one of the chosen [`contexts`](Self::contexts) says of the bytes that a block
    /// status asked for: consecutive extents from its offset on. Neighbours of one status become
    /// one; what is beyond what the client may be told is left out, and where nothing is said the
    /// status is 0. Each context has its turn; `last` ends the reply.
    ///
    /// # Panics
    /// If the request is no block status, or the context was not chosen.
    pub fn status(
        &self,
        request: &NbdRequest,
        context: usize,
        extents: impl IntoIterator<Item = StatusExtent>,
        last: bool,
        out: &mut Vec<u8>,
    ) {
        let NbdCommand::BlockStatus { one } = request.command else {
            panic!("a {} is not answered with extents", request.command.name());
        };
        assert!(self.contexts().any(|chosen| chosen == context), "context {context} was not chosen");
        let limits = StatusLimits {
            asked: request.length,
            to_end: self.size - request.offset,
            // A client may refuse a chunk that is longer than the maximum payload.
            extents: if one { 1 } else { EXTENTS.min(self.blocks.maximum / 8) },
            exact: one,
        };
        status_chunk(out, request.cookie, context_id(context), extents, limits, last);
    }
}

/// Returns the number that names a context while the connection lasts, from 1 on.
pub(crate) const fn context_id(number: usize) -> u32 {
    // Numbers begin at 1, since listing uses 0 for contexts that are not chosen.
    number as u32 + 1
}

/// The reply to a read, piece by piece from its first byte to its last.
#[derive(Clone, Copy, Debug)]
pub struct ReadReply {
    cookie: u64,
    begin: u64,
    at: u64,
    end: u64,
    structured: bool,
    whole: bool,
}

impl ReadReply {
    /// The reply to `request`.
    ///
    /// # Panics
    /// If that is no read.
    #[inline]
    pub fn new(session: &NbdSession, request: &NbdRequest) -> Self {
        let NbdCommand::Read { whole } = request.command else {
            panic!("a {} is not answered with bytes", request.command.name());
        };
        let (begin, end) = (request.offset, request.end());
        Self { cookie: request.cookie, begin, at: begin, end, structured: session.structured, whole }
    }

    /// Bytes that are still to be answered.
    pub const fn left(&self) -> u32 {
        (self.end - self.at) as u32
    }

    /// Returns true if the reply may come in several pieces. Otherwise the first piece has all that is
    /// [`left`](Self::left).
    pub const fn splits(&self) -> bool {
        // A simple reply has one head, and the flag DF asks for one chunk.
        self.structured && !self.whole
    }

    /// Returns true if the next so many bytes can be answered as a [`hole`](Self::hole).
    pub const fn takes_hole(&self, length: u32) -> bool {
        self.structured && (!self.whole || length == self.left())
    }

    fn next(&mut self, length: u32) -> (u64, bool) {
        let fits = 0 < length && length <= self.left() && (self.splits() || length == self.left());
        assert!(fits, "a piece of {length} bytes where {} are left", self.left());
        let offset = self.at;
        self.at += u64::from(length);
        (offset, self.at == self.end)
    }

    /// Returns the head of the next `length` bytes, which have to follow it.
    ///
    /// # Panics
    /// If `length` is 0, more than is left, or less and there can be only one piece.
    #[inline]
    pub fn data(&mut self, length: u32) -> ReplyHead {
        let (offset, last) = self.next(length);
        if self.structured {
            ReplyHead::data(self.cookie, offset, length, last)
        } else {
            ReplyHead::simple(self.cookie, None)
        }
    }

    /// Returns the reply that the next `length` bytes are zeroes; no payload follows.
    ///
    /// # Panics
    /// As [`data`](Self::data), and where a hole is not [taken](Self::takes_hole).
    pub fn hole(&mut self, length: u32) -> ReplyHead {
        assert!(self.takes_hole(length), "a hole that the client would not understand");
        let (offset, last) = self.next(length);
        ReplyHead::hole(self.cookie, offset, length, last)
    }

    /// Appends that the rest cannot be read; the pieces so far are valid.
    ///
    /// # Panics
    /// If nothing is left.
    pub fn fail(self, errno: Errno, text: &dyn fmt::Display, out: &mut Vec<u8>) {
        assert!(self.at < self.end, "the reply is complete");
        if self.structured {
            // An offset tells the client that the pieces before it are valid.
            let at = (self.at > self.begin).then_some(self.at);
            error_chunk(out, self.cookie, errno, text, at, true);
        } else {
            out.extend_from_slice(&ReplyHead::simple(self.cookie, Some(errno)));
        }
    }
}
