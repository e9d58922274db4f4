//! Shares one ring among all devices, and gives it the commands of each.

pub(crate) mod device;
pub(crate) mod kernel;
pub(crate) mod shared;
