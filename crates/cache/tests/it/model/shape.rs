//! Describes the arrays, requests and settings that the model knows.

use super::Stow;
use crate::spec_reading::SpecReading;

/// An array: RAID-0, RAID-4, left-symmetric RAID-5 or RAID-6 (specs §2).
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub level: u8,
    pub members: usize,
    pub chunk: u64,
}

impl Shape {
    pub fn parity(&self) -> usize {
        match self.level {
            0 => 0,
            6 => 2,
            _ => 1,
        }
    }

    pub fn data(&self) -> usize {
        self.members - self.parity()
    }

    /// Row and column of a page; the columns of parity come after those of data.
    pub fn cell(&self, page: u64) -> Cell {
        let (chunk, data) = (page / self.chunk, self.data() as u64);
        (chunk / data * self.chunk + page % self.chunk, (chunk % data) as usize)
    }

    /// The member of a column in a stripe.
    pub fn member(&self, stripe: u64, column: usize) -> usize {
        let (n, k) = (self.members, self.data());
        let p = n - 1 - (stripe % n as u64) as usize;
        match self.level {
            0 | 4 => column,
            5 if column == k => p,
            5 => (p + 1 + column) % n,
            // P, Q and then the data.
            _ if column >= k => (p + column - k) % n,
            _ => (p + 2 + column) % n,
        }
    }
}

/// Row and column.
pub type Cell = (u64, usize);

/// Names a way to make parity (specs §2.1, §8.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Takes the way that reads less, and reconstruction if both are equal.
    #[default]
    Min,
    /// From the old data and parity, unless all data is written.
    Rmw,
    /// From all data.
    Rcw,
}

/// Holds the options of the caches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub reading: SpecReading,
    /// Pages of the upper layer; none if there is no such layer.
    pub upper: Option<usize>,
    /// Pages of each member's cache; none if there is no lower layer.
    pub each: Option<usize>,
    /// In percent.
    pub low: u64,
    pub high: u64,
    pub groups: u64,
    /// Runs of writes that are kept in mind; 0 if sequential writes are as others.
    pub runs: usize,
    /// Sequential writes have a ring of their own.
    pub stow: Option<Stow>,
    pub recency_on_insert: bool,
    pub method: Method,
    pub sync: bool,
    pub timeout: u64,
    /// The timeout is what collections take of late, and `timeout` what it is before one was seen.
    pub auto: bool,
    pub since_first_ready: bool,
    pub on_full: bool,
    pub empty_blocks: bool,
    /// Has WOW and STOW admit a row at a time, and not a page.
    pub admits_rows: bool,
}

/// A piece of a request in one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frag {
    pub request: u64,
    pub reads: bool,
    pub page: u64,
    pub pages: u64,
    /// Is true if it is smaller than its one page.
    pub part: bool,
}

impl Frag {
    pub fn overlaps(&self, other: &Self) -> bool {
        self.page < other.page + other.pages && other.page < self.page + self.pages
    }
}
