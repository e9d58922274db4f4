//! Unit newtypes: no bare integer crosses a crate boundary where two kinds could be confused.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Bytes in a sector, the unit in which most traces give addresses.
pub const SECTOR_BYTES: u64 = 512;

/// A time or a span of time in integer nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The beginning of every trace and of every simulation.
    pub const ZERO: Self = Self(0);

    /// `self - earlier`, or zero when `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The span in seconds, for display.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Nanos {
    type Output = Self;
    #[inline]
    fn add(self, rhs: Self) -> Self {
        Self(self.0 + rhs.0)
    }
}

impl AddAssign for Nanos {
    #[inline]
    fn add_assign(&mut self, rhs: Self) {
        self.0 += rhs.0;
    }
}

impl Sub for Nanos {
    type Output = Self;
    #[inline]
    fn sub(self, rhs: Self) -> Self {
        Self(self.0 - rhs.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}

/// A logical page of the cache's dense page space: small integers without large gaps, so that
/// per-page state is a flat array. `PageNo / pages_per_block` is the page's [`BlockNo`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNo(pub u32);

impl PageNo {
    /// The page's place as an array index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A logical block: as many consecutive logical pages as an erase block holds (specs §0.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockNo(pub u32);

impl BlockNo {
    /// The block's place as an array index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An element of an SSD: a flash package, or a channel where the device is driven by channels
/// (specs §1.3). Each is busy, collects garbage and runs out of free blocks apart from the others.
/// Elements are numbered from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Element(pub u32);

impl Element {
    /// The element's place as an array index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
