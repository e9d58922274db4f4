//! Describes the size of a metadata log and what its entries can be about.

use super::entry::{EntryError, LogEntry, MAX_ARRAY_PAGES, MAX_DELTA_END, MAX_FRAMES};
use super::page::room;

/// Describes the size of a log and what its entries can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogShape {
    /// Bytes of a page of the log, and of a frame.
    pub page_bytes: u32,
    /// Pages of the log (specs §9.5: M).
    pub pages: u32,
    /// Pages in use that the log may have before its oldest is cleaned (specs §9.5: `usage_max`·M).
    pub usage_max: u32,
    /// Entries that are written into a page.
    pub entries: u32,
    /// Frames of the cache.
    pub frames: u32,
    /// Pages of the array.
    pub array_pages: u64,
}

/// Explains why there is no log of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// More entries a page than it has room for, or none.
    #[error("{entries} entries in a page of the metadata log: a page of {page_bytes} bytes holds 1 to {room}")]
    Entries {
        /// Counts the entries.
        entries: u32,
        /// Bytes of the page.
        page_bytes: u32,
        /// Limits the entries to what fits into a page.
        room: u32,
    },
    /// Too few pages are left for what is written again.
    #[error(
        "a metadata log of {pages} pages, of which {usage_max} may be in use: at least 1 must, and at least 2 must be left"
    )]
    Usage {
        /// Counts the pages of the log.
        pages: u32,
        /// Limits the pages that may be in use.
        usage_max: u32,
    },
    /// More entries than can be numbered.
    #[error("a metadata log of {pages} pages with {entries} entries each: it may hold fewer than 2^31")]
    Size {
        /// Pages.
        pages: u32,
        /// Entries in each.
        entries: u32,
    },
    /// More frames than an entry can name.
    #[error("a cache of {0} frames: entries of the metadata log can name {MAX_FRAMES}")]
    Frames(u32),
    /// More pages than an entry can name.
    #[error("an array of {0} pages: entries of the metadata log can name {MAX_ARRAY_PAGES}")]
    ArrayPages(u64),
}

impl LogShape {
    /// Checks that such a log can exist.
    ///
    /// # Errors
    ///
    /// If a number is out of range; the error names it and the range.
    pub fn check(&self) -> Result<(), ShapeError> {
        let Self { page_bytes, pages, usage_max, entries, frames, array_pages } = *self;
        let room = room(page_bytes);
        if !(1..=room).contains(&entries) {
            return Err(ShapeError::Entries { entries, page_bytes, room });
        }
        // Two spare pages: one that is being written and the one whose content it
        // must not destroy before (see `replay`).
        if usage_max == 0 || pages.saturating_sub(usage_max) < 2 {
            return Err(ShapeError::Usage { pages, usage_max });
        }
        // Places of entries share 32 bits with a mark that says "waits".
        if u64::from(pages) * u64::from(entries) >= 1 << 31 {
            return Err(ShapeError::Size { pages, entries });
        }
        if frames > MAX_FRAMES {
            return Err(ShapeError::Frames(frames));
        }
        if array_pages > MAX_ARRAY_PAGES {
            return Err(ShapeError::ArrayPages(array_pages));
        }
        Ok(())
    }

    /// Checks that an entry can be one of this cache's.
    ///
    /// # Errors
    ///
    /// If its frame, page or delta is outside of the cache or the array.
    pub fn admits(&self, entry: &LogEntry) -> Result<(), EntryError> {
        let delta = entry.fact.delta();
        let frames = [Some(entry.frame), delta.map(|place| place.frame)];
        if let Some(found) = frames.into_iter().flatten().find(|frame| *frame >= self.frames) {
            return Err(EntryError::Frame { found, frames: self.frames });
        }
        if let Some(found) = entry.fact.page().filter(|page| *page >= self.array_pages) {
            return Err(EntryError::Page { found, pages: self.array_pages });
        }
        let page_bytes = self.page_bytes.min(MAX_DELTA_END);
        match delta {
            Some(place) if place.end() > page_bytes => Err(EntryError::DeltaEnd { end: place.end(), page_bytes }),
            _ => Ok(()),
        }
    }

    /// The slot of the log in which the page with this sequence lies.
    pub(super) const fn slot(&self, sequence: u64) -> u32 {
        (sequence % self.pages as u64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: LogShape =
        LogShape { page_bytes: 4096, pages: 10, usage_max: 8, entries: 185, frames: 1000, array_pages: 1 << 39 };

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |shape: LogShape| shape.check().unwrap_err().to_string();
        assert_eq!(SHAPE.check(), Ok(()));
        assert_eq!(
            refused(LogShape { entries: 186, ..SHAPE }),
            "186 entries in a page of the metadata log: a page of 4096 bytes holds 1 to 185"
        );
        assert_eq!(
            refused(LogShape { entries: 1, page_bytes: 37, ..SHAPE }),
            "1 entries in a page of the metadata log: a page of 37 bytes holds 1 to 0"
        );
        for usage_max in [0, 9, 10, 11] {
            assert_eq!(
                refused(LogShape { usage_max, ..SHAPE }),
                format!(
                    "a metadata log of 10 pages, of which {usage_max} may be in use: at least 1 must, and at least 2 must be left"
                )
            );
        }
        assert_eq!(
            refused(LogShape { pages: 1 << 24, ..SHAPE }),
            "a metadata log of 16777216 pages with 185 entries each: it may hold fewer than 2^31"
        );
        assert!(refused(LogShape { frames: 1 << 31, ..SHAPE }).contains("2147483648 frames"));
        assert!(refused(LogShape { array_pages: 1 << 40, ..SHAPE }).contains("1099511627776 pages"));
    }
}
