//! Orders a scrub, and counts its findings.

use crate::Rows;

/// Orders a controller to compare the pages of rows with each other: parity with its data, copies with copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubOrder {
    /// Names the rows.
    pub rows: Rows,
    /// Says whether pages that differ are made anew: parity from its data, copies from the first of them.
    pub repairs: bool,
}

/// Counts the rows that a scrub has compared, by what it found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubTally {
    /// Counts all rows that were looked at.
    pub rows: u64,
    /// Counts those of which too much is missing to compare anything.
    pub unchecked: u64,
    /// Counts those whose pages do not belong together.
    pub mismatched: u64,
    /// Counts those of the mismatched rows that were made consistent again, durably.
    pub repaired: u64,
}

impl ScrubTally {
    /// Adds what was found of other rows.
    pub const fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.unchecked += other.unchecked;
        self.mismatched += other.mismatched;
        self.repaired += other.repaired;
    }
}
