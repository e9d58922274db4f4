//! How far the life of a controller has come, and why it does not start.

use crate::{DevSet, LostPages, Row};

/// How far a life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Recovery is under way.
    Starting,
    /// Requests are served.
    Ready,
    /// The controller does not start.
    Refused(Refusal),
}

/// Why a controller does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Rows were being written when the power failed, and a member that holds data of theirs is
    /// lost, so that this data cannot be computed.
    WriteHole {
        /// The first such row.
        row: Row,
        /// How many there are.
        rows: u64,
        /// Names the pages of the array that are lost with them.
        lost: LostPages,
    },
    /// More members are lost than the level can do without.
    MembersLost {
        /// How many.
        lost: u32,
        /// How many may be.
        tolerated: u32,
    },
    /// A cache is lost that has, or had, newer versions of pages than the members.
    CacheLost {
        /// The pages of the array that may be.
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
