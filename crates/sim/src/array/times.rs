//! Holds the times of steps that use no device.

use destage_plan::Nanos;

use super::journal::JournalPlace;

/// Holds the times of steps that use no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTimes {
    /// Putting a page into the NVRAM. Fewer bytes take less: what they are of a page of what it
    /// takes longer than a note.
    pub nv_write: Nanos,
    /// Reading a page from the NVRAM.
    pub nv_read: Nanos,
    /// A note in the NVRAM: a tag without a page, a slot freed, a range of rows in an intent.
    pub nv_note: Nanos,
    /// Computing a page: parity, a merge of sectors, a copy of them. One processor computes one
    /// step after the other.
    pub compute: Nanos,
    /// Pages that a command joined from several steps has at most; 1 joins none.
    pub merge_pages: u32,
    /// Places the journal that replaces the NVRAM, on a device that must not fail. Puts and notes take as
    /// long as the journal's writes; reads come from memory, and take `nv_read`.
    pub journal: Option<JournalPlace>,
}

impl Default for StepTimes {
    /// NVRAM of 1 µs a write and 0.125 µs a read; computing is free; commands of up to 128 pages
    /// are joined.
    fn default() -> Self {
        Self {
            nv_write: Nanos(1_000),
            nv_read: Nanos(125),
            nv_note: Nanos(1_000),
            compute: Nanos::ZERO,
            merge_pages: 128,
            journal: None,
        }
    }
}

impl StepTimes {
    /// Putting a tag and so many bytes into the NVRAM: from that of a note to that of a page, in
    /// proportion to the bytes.
    pub(super) const fn put(&self, bytes: u32, page_bytes: u64) -> Nanos {
        let (note, page, bytes) = (self.nv_note.0, self.nv_write.0, bytes as u64);
        let part = (page.abs_diff(note) as u128 * bytes as u128).div_ceil(page_bytes as u128) as u64;
        Nanos(if page >= note { note + part } else { note - part })
    }

    /// Fetching so many pages and bytes from the NVRAM.
    pub(super) const fn read(&self, pages: u64, bytes: u64, page_bytes: u64) -> Nanos {
        let part = (self.nv_read.0 as u128 * bytes as u128).div_ceil(page_bytes as u128) as u64;
        Nanos(self.nv_read.0 * pages + part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_takes_from_a_note_to_a_page_by_its_bytes() {
        let put = |note, page, bytes| {
            let times = StepTimes { nv_write: Nanos(page), nv_note: Nanos(note), ..StepTimes::default() };
            times.put(bytes, 4096).0
        };
        assert_eq!([0, 1, 400, 2048, 4096].map(|bytes| put(100, 4196, bytes)), [100, 101, 500, 2148, 4196]);
        assert_eq!([0, 1, 1024, 4096].map(|bytes| put(1_000, 0, bytes)), [1_000, 999, 750, 0]);
        assert_eq!([0, 77, 4096].map(|bytes| put(1_000, 1_000, bytes)), [1_000; 3]);
    }

    #[test]
    fn bytes_are_read_at_the_pace_of_pages() {
        let second = StepTimes { nv_read: Nanos(1_000_000_000), ..StepTimes::default() };
        let read = |pages, bytes| second.read(pages, bytes, 1 << 20).0;
        assert_eq!([read(1, 0), read(0, 1 << 20), read(0, 1 << 18)], [1_000_000_000, 1_000_000_000, 250_000_000]);
        assert_eq!(read(2, 1), 2_000_000_954);
        // What one commit can move at most does not overflow.
        assert_eq!(read(0, 1 << 44), 1_000_000_000 << 24);
    }
}
