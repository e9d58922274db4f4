//! What the caches on an SSD before a parity RAID share (specs §9).

mod frames;
pub mod log;
mod write_through;

pub(crate) use write_through::WriteThrough;
