//! Carries commands out with threads: a pool for each device and one for the NVRAM.

pub(crate) mod device;
pub(crate) mod pool;
