//! Defines the requests that a host makes of a block device.

use std::fmt;

use crate::Nanos;

/// The kinds of request that a block trace can hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// Read `len` bytes at `offset`.
    #[default]
    Read = 0,
    /// Write `len` bytes at `offset`; durable at once if the request's `fua` is set.
    Write = 1,
    /// Make everything acknowledged so far durable. Carries no range.
    Flush = 2,
    /// The range's content is no longer needed (trim).
    Discard = 3,
}

impl Op {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Flush, Self::Discard];

    /// The kind with this number, if there is one.
    pub const fn from_u8(n: u8) -> Option<Self> {
        match n {
            0 => Some(Self::Read),
            1 => Some(Self::Write),
            2 => Some(Self::Flush),
            3 => Some(Self::Discard),
            _ => None,
        }
    }

    /// The word used in tables and in the command line's text output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// One request of a trace, exactly as recorded: byte ranges may be empty or misaligned. Times begin
/// at zero (a trace that starts at an absolute time is shifted by its reader).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Request {
    /// Arrival, nanoseconds after the beginning of the trace. Not necessarily ascending: recorders
    /// reorder.
    pub time: Nanos,
    /// First byte on the volume.
    pub offset: u64,
    /// Bytes; 0 for a flush and for the zero-length requests that some traces hold.
    pub len: u64,
    /// Numbers the trace's volume, in the order of first appearance.
    pub volume: u32,
    /// Names the kind of request.
    pub op: Op,
    /// Force unit access: the write is durable when acknowledged.
    pub fua: bool,
}
