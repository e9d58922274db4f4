//! Checksums of the pages of a cache's device: they tell that the device returns what was written to it.

use std::num::NonZeroU32;

use crate::Dev;

/// Holds the CRC-32C of a page's bytes, except that 1 stands for 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageChecksum(NonZeroU32);

impl PageChecksum {
    /// Returns the checksum of bytes with this CRC-32C.
    pub const fn of_crc(crc: u32) -> Self {
        // A table entry of 0 means "unknown", so a CRC of 0 is stored as 1. Bytes with either CRC then pass for
        // each other, which costs one of 2³² values.
        match NonZeroU32::new(crc) {
            Some(crc) => Self(crc),
            None => Self(NonZeroU32::MIN),
        }
    }

    /// Returns the checksum as a number, never 0.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Returns the checksum with this number; none for 0.
    pub const fn from_number(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

/// Keeps the checksums of what was written last to some pages of one device. It takes four bytes a page, and none of
/// memory until the first is kept.
#[derive(Clone, Debug)]
pub struct PageChecksums {
    dev: Dev,
    first: u64,
    /// Holds 0 for a page of which nothing is known.
    numbers: Vec<u32>,
}

impl PageChecksums {
    /// Creates a table without checksums for `pages` pages of a device, from page `first` on.
    pub fn new(dev: Dev, first: u64, pages: usize) -> Self {
        Self { dev, first, numbers: vec![0; pages] }
    }

    /// Returns the device.
    pub const fn dev(&self) -> Dev {
        self.dev
    }

    /// Moves the table: its first page is page `first` of the device.
    pub const fn begin_at(&mut self, first: u64) {
        self.first = first;
    }

    fn index(&self, page: u64) -> Option<usize> {
        page.checked_sub(self.first).map(|index| index as usize).filter(|index| *index < self.numbers.len())
    }

    /// Returns the checksum of a page of the device; none if it is not known.
    pub fn get(&self, page: u64) -> Option<PageChecksum> {
        PageChecksum::from_number(self.numbers[self.index(page)?])
    }

    /// Keeps the checksum of what is written to a page, or that it is not known. Pages outside of the table are ignored.
    pub fn keep(&mut self, page: u64, checksum: Option<PageChecksum>) {
        // Pages outside of the table are the cache's log, which has checksums of its own in its pages.
        if let Some(index) = self.index(page) {
            self.numbers[index] = checksum.map_or(0, PageChecksum::get);
        }
    }

    /// Forgets all checksums: another device may stand in the place of the one that was written.
    pub fn clear(&mut self) {
        // A fresh vector of zeros takes no memory until an entry is written. Overwriting the old one would touch
        // all of it.
        self.numbers = vec![0; self.numbers.len()];
    }
}
