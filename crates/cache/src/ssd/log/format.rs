//! Making the pages of a log anew.

use super::MetadataLog;
use super::page;
use super::shape::{LogShape, ShapeError};

/// The making of a log whose pages may hold anything, a log's earlier pages among it: on a device
/// that takes the place of another, or is used again.
///
/// All pages are written without entries. Their sequences begin more than once round behind those
/// that were in use: as long as a page of an earlier life is left, the sequences have a gap, and
/// [`LogReplay`](super::LogReplay) refuses the log instead of believing it.
#[derive(Clone, Copy, Debug)]
pub struct LogFormat {
    shape: LogShape,
    first: u64,
    sequence: u64,
}

impl LogFormat {
    /// Returns the format of the log that follows one which got as far as [`MetadataLog::next_page`] and
    /// [`MetadataLog::last_sequence`], zeros if there was none. Sequences of entries go on, since the NVRAM may have some.
    ///
    /// # Errors
    /// If there can be no log of this shape.
    pub fn after(shape: LogShape, next_page: u64, last_sequence: u64) -> Result<Self, ShapeError> {
        shape.check()?;
        let pages = u64::from(shape.pages);
        // More than one round is skipped, so any page of the earlier log that is
        // left makes a gap in the sequences. Replay refuses a log with a gap.
        Ok(Self { shape, first: (next_page + pages).next_multiple_of(pages), sequence: last_sequence })
    }

    /// The bytes of one of the log's pages, by its place, instead of what `bytes` holds.
    pub fn page(&self, slot: u32, bytes: &mut Vec<u8>) {
        debug_assert!(slot < self.shape.pages);
        // Pages without entries are enough: replay needs their sequences alone.
        page::write(self.shape.page_bytes, self.first + u64::from(slot), std::iter::empty(), bytes);
    }

    /// Returns the sequence of the next page, once all pages are durable.
    pub const fn next_page(&self) -> u64 {
        self.first + self.shape.pages as u64
    }

    /// The log, once all pages are durable.
    pub fn log(self) -> MetadataLog {
        MetadataLog::empty(self.shape, self.next_page(), self.sequence)
    }
}
