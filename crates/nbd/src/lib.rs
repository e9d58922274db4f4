//! The protocol of network block devices (NBD), without any input or output of its own.

mod errno;
mod export;
mod request;
mod session;
pub mod wire;

pub use errno::Errno;
pub use export::{BlockSizes, CONTEXTS, Export, ExportError, Exports, Features};
pub use request::{Command, Request, RequestHead};
pub use session::{Refusal, Session};
