//! The protocol of network block devices (NBD), without any input or output of its own.
//!
//! A [`NbdServer`] is the server's side of one connection and a [`NbdClient`] the other one: state
//! machines that are handed the bytes that came in and say what they mean, and what is to be sent.
//! Sockets, threads, time-outs and the data themselves are their owner's: payloads are read into,
//! and sent from, wherever the owner has them. docs/nbd.md says what of the protocol there is.

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
pub use client::NbdClient;
pub use errno::Errno;
pub use export::{BlockSizes, CONTEXTS, ExportError, ExportFeatures, ExportList, NbdExport};
pub use reply::{ReplyHead, error_chunk};
pub use request::{NbdCommand, NbdRequest, RequestHead};
pub use server::NbdServer;
pub use session::{NbdSession, RequestRefusal};
pub use status::StatusExtent;
