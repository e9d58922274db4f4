//! The protocol of network block devices (NBD), without any input or output of its own.

mod errno;
mod export;
pub mod wire;

pub use errno::Errno;
pub use export::{BlockSizes, CONTEXTS, Export, ExportError, Exports, Features};
