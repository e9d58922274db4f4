//! One column of a block: a prediction, what remains of each value, and its byte planes
//! (docs/trace-format.md).
//!
//! A value is predicted (not at all, from the value before it, or from the end of the request
//! before it), the remainder is divided by the greatest common divisor of the block's remainders,
//! and byte k of every quotient goes to plane k. Values in which few distinct ones occur may go
//! through a dictionary instead. The writer takes the way whose planes have the least order-0
//! entropy.

mod decoder;
mod encoder;

pub(super) use decoder::{ColumnFault, DecodedColumn, PlaneDecoder};
pub(super) use encoder::ColumnEncoder;

/// Bytes before a column's dictionary.
const HEADER_BYTES: usize = 32;
/// Bytes of a plane's entry.
const PLANE_ENTRY_BYTES: usize = 8;
/// Entries in a dictionary at most, so that an index is one plane.
const MAX_DICTIONARY: usize = 256;
/// Columns that a block is decoded from: the fields of a request, operation and FUA in one.
pub(super) const COLUMNS: usize = 5;

/// Maps a value's quotient `q` to the value (docs/trace-format.md has the numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum ColumnEncoding {
    /// `base + unit * q`
    Frame = 0,
    /// previous value `+ base + unit * q`
    Delta = 1,
    /// previous value `+ unit * zigzag(q)`
    Zigzag = 2,
    /// previous value `+` previous length `+ unit * zigzag(q)`; of the offset column only
    AfterEnd = 3,
    /// entry `q` of the dictionary
    Dictionary = 4,
}

impl ColumnEncoding {
    const fn from_u8(n: u8) -> Option<Self> {
        match n {
            0 => Some(Self::Frame),
            1 => Some(Self::Delta),
            2 => Some(Self::Zigzag),
            3 => Some(Self::AfterEnd),
            4 => Some(Self::Dictionary),
            _ => None,
        }
    }
}

/// Names the forms in which a plane is stored.
mod form {
    /// One byte, which every value has.
    pub(super) const REPEATED: u8 = 0;
    /// A byte per value.
    pub(super) const STORED: u8 = 1;
    /// A zstd frame that holds a byte per value.
    pub(super) const ZSTD: u8 = 2;
}

/// Planes that a quotient this large needs.
const fn planes_for(max: u64) -> usize {
    (64 - max.leading_zeros()).div_ceil(8) as usize
}
