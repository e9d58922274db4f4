//! The protocol of network block devices (NBD), without any input or output of its own.

mod errno;
pub mod wire;

pub use errno::Errno;
