//! The caches of the host side: controllers over a redundant array. Each is a pure state machine; simulator, real devices and crash
//! harness run the same one.

mod frames;
mod none;
mod write_through;

pub use frames::{CacheConfig, CacheConfigError};
pub use none::NoCache;
pub use write_through::{CacheStats, WriteThrough, WriteThroughError};
