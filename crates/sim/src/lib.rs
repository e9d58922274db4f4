//! The simulator: virtual time, devices, hosts and measurements.

pub mod array;
pub mod buffer;
pub mod curve;
pub mod disk;
pub mod drive_load;
pub mod experiment;
pub mod input;
pub mod measure;
pub mod ssd;
