//! Where bytes lie: devices, extents of pages on them, parity rows.

use std::fmt;

/// A device that a controller uses: the members of the array from 0, then the cache devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dev(pub u8);

impl Dev {
    /// The device's place as an array index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Dev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dev{}", self.0)
    }
}

/// Consecutive pages on one device, in 8 bytes: at most 2^40 pages on a device, 2^16 − 1 of them in one extent.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ext(u64);

impl Ext {
    /// Pages that a device can have: 4 PiB of 4 KiB pages.
    pub const MAX_DEVICE_PAGES: u64 = 1 << 40;

    /// `pages` pages of `dev` from `first` on.
    #[inline]
    pub const fn new(dev: Dev, first: u64, pages: u16) -> Self {
        debug_assert!(first < Self::MAX_DEVICE_PAGES && pages > 0);
        Self((dev.0 as u64) << 56 | (pages as u64) << 40 | first)
    }

    /// The device.
    #[inline]
    pub const fn dev(self) -> Dev {
        Dev((self.0 >> 56) as u8)
    }

    /// The first page on the device.
    #[inline]
    pub const fn first(self) -> u64 {
        self.0 & (Self::MAX_DEVICE_PAGES - 1)
    }

    /// How many pages.
    #[inline]
    pub const fn pages(self) -> u16 {
        (self.0 >> 40) as u16
    }
}

impl fmt::Debug for Ext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}+{}]", self.dev(), self.first(), self.pages())
    }
}

/// Consecutive parity rows. A row is one page of every member, at the same page number, which is the row's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rows {
    /// The first row: a page number on each member.
    pub first: u64,
    /// How many rows.
    pub count: u32,
}

impl Rows {
    /// `count` rows from `first` on.
    #[inline]
    pub const fn new(first: u64, count: u32) -> Self {
        Self { first, count }
    }

    /// The rows, one by one.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = u64> {
        self.first..self.end()
    }

    /// The row after the last.
    #[inline]
    pub const fn end(self) -> u64 {
        self.first + self.count as u64
    }

    /// Whether `row` is one of them.
    #[inline]
    pub const fn contains(self, row: u64) -> bool {
        row >= self.first && row < self.end()
    }
}

/// What happened to a device, as the executor saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChange {
    /// It answers no more. Its content must not be trusted even if it answers again.
    Failed,
    /// A device stands in its place: another one, or the same one again. Nothing is known of what it holds.
    Replaced,
}
