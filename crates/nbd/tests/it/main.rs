//! The protocol: messages, negotiation, and clients and servers together.

mod common;

mod client;
mod contexts;
mod exports;
mod negotiation;
mod peers;
mod replies;
mod requests;
mod together;
