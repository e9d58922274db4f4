//! Tells how far the life of a controller has come, and why it does not start.

use crate::{DevSet, LostPages, Row};

/// Tells how far a life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Recovery is under way.
    Starting,
    /// Requests are served.
    Ready,
    /// The controller does not start.
    Refused(Refusal),
}

/// Tells why a controller does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Rows were being written when the power failed, and a member that holds data of theirs is
    /// lost, so that this data cannot be computed.
    WriteHole {
        /// Names the first such row.
        row: Row,
        /// Counts such rows.
        rows: u64,
        /// Names the pages of the array that are lost with them.
        lost: LostPages,
    },
    /// More members are lost than the level can do without.
    MembersLost {
        /// Counts the members that are lost.
        lost: u32,
        /// Counts those that may be lost.
        tolerated: u32,
    },
    /// A cache is lost that has, or had, newer versions of pages than the members.
    CacheLost {
        /// Names the pages of the array that may be lost with it.
        lost: LostPages,
    },
    /// Slots of the NVRAM are damaged that had newer versions of pages than the members.
    NvramDamaged {
        /// Names the pages of the array that are lost with them.
        lost: LostPages,
    },
    /// The NVRAM holds what this version did not write.
    Nvram,
    /// These devices are to be told to collect garbage, and cannot be.
    NoCollectors(DevSet),
}
