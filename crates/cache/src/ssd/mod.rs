//! What the caches on an SSD before a parity RAID share (specs §9).

pub mod log;
