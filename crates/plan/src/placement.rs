//! Streams of writes: which writes to a device are alike in how long their pages live.

/// Names the stream of a write to a device, which a device with `NVMe`'s Flexible Data Placement (TP4146) keeps apart from others
/// by the placement identifier of the write command. Executors without such a device ignore it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PlacementStream {
    /// Marks a write without a placement identifier.
    #[default]
    Unlabelled,
    /// Holds the journal and other metadata of a cache.
    Journal,
    /// Holds deltas of pages.
    Delta,
    /// Holds pages that a cache took from writes of hosts: of a write-back cache those that are on no member.
    Dirty,
    /// Holds pages that a cache copied from members, or wrote again when their row was cleaned.
    Clean,
    /// Holds data pages of members.
    Data,
    /// Holds parity pages of members.
    Parity,
}

impl PlacementStream {
    /// Lists all streams, in the order of their numbers.
    pub const ALL: [Self; 7] =
        [Self::Unlabelled, Self::Journal, Self::Delta, Self::Dirty, Self::Clean, Self::Data, Self::Parity];

    /// Returns the word in results.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unlabelled => "unlabelled",
            Self::Journal => "journal",
            Self::Delta => "delta",
            Self::Dirty => "dirty",
            Self::Clean => "clean",
            Self::Data => "data",
            Self::Parity => "parity",
        }
    }

    /// Returns the stream's place as an array index.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}
