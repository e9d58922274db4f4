//! Contains the caches on an SSD in front of a parity RAID, and what they share (specs §9).

mod behind;
mod copies;
mod delayed;
mod frames;
mod journal;
mod kdd;
mod keeps;
mod leavo;
pub mod log;
mod parts;
mod trims;
mod write_around;
mod write_back;
mod write_through;

use destage_plan::OpId;

pub(crate) use behind::CLEANED_STRIPES;
pub(crate) use copies::LONG_CUTOFF;
pub(crate) use kdd::{Kdd, STAGED_IN_MEMORY};
pub(crate) use leavo::Leavo;
pub(crate) use trims::TRIM;
pub(crate) use write_around::WriteAround;
pub(crate) use write_back::{DESTAGED_STRIPES, WriteBack};
pub(crate) use write_through::WriteThrough;

/// An entry of a table by operations.
fn of<T: Default>(table: &mut Vec<T>, op: OpId) -> &mut T {
    // Tables by operation grow on demand. Operation numbers are dense and used
    // again, so a table stays as small as the most that run at once.
    if table.len() <= op.index() {
        table.resize_with(op.index() + 1, T::default);
    }
    &mut table[op.index()]
}
