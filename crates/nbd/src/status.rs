//! Extents, as a chunk of the answer to a block status has them.

use crate::reply::{ReplyHead, finish_chunk};
use crate::wire::{PutNumbers, chunk};

/// A status that bytes of an export have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusExtent {
    /// Counts the bytes.
    pub length: u64,
    /// Holds the status that the context gives these bytes.
    pub flags: u32,
}

/// Limits the extents of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusLimits {
    /// Bytes that were asked for.
    pub asked: u32,
    /// Bytes to the end of the export, at least as many.
    pub to_end: u64,
    /// Extents at most.
    pub extents: u32,
    /// Nothing is told beyond what was asked for.
    pub exact: bool,
}

/// Appends a chunk of extents that follow each other: neighbours of one status as one, none that
/// is empty, nothing beyond the limits. Where the owner has nothing to say the status is 0.
pub(crate) fn status_chunk(
    out: &mut Vec<u8>,
    cookie: u64,
    context: u32,
    extents: impl IntoIterator<Item = StatusExtent>,
    limits: StatusLimits,
    last: bool,
) {
    let start = out.len();
    out.extend_from_slice(&ReplyHead::chunk(cookie, chunk::BLOCK_STATUS, last, 0));
    out.put32(context);
    let mut status = StatusChunk::new(out, limits);
    let mut now = StatusExtent { length: 0, flags: 0 };
    for extent in extents {
        // The protocol asks for merged neighbours where it can be done; one extent of look-ahead is enough for it.
        if now.length > 0 && extent.length > 0 && now.flags != extent.flags {
            status.write(now);
            now.length = 0;
        }
        if extent.length > 0 {
            now = StatusExtent { length: now.length.saturating_add(extent.length), flags: extent.flags };
        }
        if status.is_full_with(now.length) {
            break;
        }
    }
    if now.length > 0 {
        status.write(now);
    } else if status.written == 0 {
        // A chunk must have at least one extent, so bytes without any status have status 0.
        status.write(StatusExtent { length: u64::from(limits.asked), flags: 0 });
    }
    finish_chunk(out, start);
}

/// The extents of a chunk, as they are written.
struct StatusChunk<'a> {
    out: &'a mut Vec<u8>,
    /// Bytes that can be told of at most.
    most: u64,
    asked: u64,
    told: u64,
    written: u32,
    extents: u32,
}

impl<'a> StatusChunk<'a> {
    fn new(out: &'a mut Vec<u8>, limits: StatusLimits) -> Self {
        let asked = u64::from(limits.asked);
        // A length of an extent is 32 bits and should be a multiple of any block size, of which the largest is 64
        // KiB.
        let longest = limits.to_end.min(u64::from(u32::MAX) & !0xffff);
        let most = if limits.exact { asked } else { longest.max(asked) };
        Self { out, most, asked, told: 0, written: 0, extents: limits.extents }
    }

    /// Returns true if, with so many bytes more, all is told that may be.
    const fn is_full_with(&self, more: u64) -> bool {
        self.written == self.extents || self.told.saturating_add(more) >= self.asked
    }

    fn write(&mut self, extent: StatusExtent) {
        if self.is_full_with(0) {
            return;
        }
        let length = extent.length.min(self.most - self.told);
        self.out.put32(length as u32);
        self.out.put32(extent.flags);
        self.told += length;
        self.written += 1;
    }
}
