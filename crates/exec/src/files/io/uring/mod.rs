//! The ring that all devices share, and what gives it the commands of each.

pub(crate) mod device;
pub(crate) mod kernel;
pub(crate) mod shared;
