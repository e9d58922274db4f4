//! Keeps the bytes behind the names of buffers, and carries out the steps that compute with them.

mod buffers;
pub(crate) mod checksum;
mod compute;
mod spare;

pub use buffers::BufferTable;
pub(crate) use compute::put;
pub use spare::SharedBuffer;
