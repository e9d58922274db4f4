//! The bytes behind the names of buffers, and the steps that compute with them.

mod buffers;
mod compute;

pub use buffers::{Bytes, Handle};
pub(crate) use compute::put;
