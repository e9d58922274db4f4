//! The protocol of network block devices (NBD), without any input or output of its own.

mod answer;
pub mod client;
mod errno;
mod export;
mod gather;
mod reply;
mod request;
pub mod server;
mod session;
mod status;
pub mod wire;

pub use answer::ReadReply;
pub use client::Client;
pub use errno::Errno;
pub use export::{BlockSizes, CONTEXTS, Export, ExportError, Exports, Features};
pub use reply::{Head, error_chunk};
pub use request::{Command, Request, RequestHead};
pub use server::Server;
pub use session::{Refusal, Session};
pub use status::Extent;
