//! Names the places of bytes: devices, extents of pages on them, stripes and parity rows.

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

/// Consecutive pages on one device, in 8 bytes: at most 2^40 pages on a device, 2^16 − 1 of them in
/// one extent.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ext(u64);

impl Ext {
    /// Pages that a device can have: 4 PiB of 4 KiB pages.
    pub const MAX_DEVICE_PAGES: u64 = 1 << 40;

    /// `pages` pages of `dev` from `first` on.
    #[inline]
    pub const fn new(dev: Dev, first: u64, pages: u16) -> Self {
        debug_assert!(first < Self::MAX_DEVICE_PAGES && pages > 0);
        // Plans hold tables of steps: packing an extent into 8 bytes keeps a step at 48.
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

    /// Returns the number of pages.
    #[inline]
    pub const fn pages(self) -> u16 {
        (self.0 >> 40) as u16
    }
}

impl Ext {
    /// The rows that an extent of a member lies in.
    #[inline]
    pub const fn rows(self) -> Rows {
        Rows::new(Row(self.first()), self.pages() as u32)
    }
}

impl fmt::Debug for Ext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}+{}]", self.dev(), self.first(), self.pages())
    }
}

/// A stripe: one chunk of every member, at the same chunk number, which is the stripe's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stripe(pub u64);

/// A parity row: one page of every member, at the same page number, which is the row's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(pub u64);

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The part that a device plays in a stripe: the data columns from 0, then the parity columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column(pub u8);

impl Column {
    /// The column's place as an array index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Consecutive parity rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rows {
    /// The first row.
    pub first: Row,
    /// Counts the rows.
    pub count: u32,
}

impl Rows {
    /// `count` rows from `first` on.
    #[inline]
    pub const fn new(first: Row, count: u32) -> Self {
        Self { first, count }
    }

    /// The rows, one by one.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Row> {
        (self.first.0..self.end().0).map(Row)
    }

    /// The row after the last.
    #[inline]
    pub const fn end(self) -> Row {
        Row(self.first.0 + self.count as u64)
    }

    /// Returns true if `row` is one of them.
    #[inline]
    pub const fn contains(self, row: Row) -> bool {
        row.0 >= self.first.0 && row.0 < self.end().0
    }
}

/// Limits the garbage that a device is asked to collect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Each unit of it up to so many blocks.
    Blocks(u32),
    /// Each unit of it until more blocks are free than one above its low watermark.
    Watermark,
}

/// Tells a controller of a change of a device, as the executor saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChange {
    /// Tells that the device no longer answers. Its content must not be trusted even if it answers again.
    Failed,
    /// A device stands in its place: another one, or the same one again. Nothing is known of what
    /// it holds.
    Replaced,
}
