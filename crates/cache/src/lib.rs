//! The caches of the host side, over a redundant array. Each is a pure state machine; simulator,
//! real devices and crash harness run the same one. [`host_caches`] lists them; what each decides
//! is a [`HostCache`], what they share is the [`Tier`].

mod counts;
mod frames;
mod info;
mod none;
mod registry;
mod tier;
mod write_cache;
mod write_through;

pub use counts::CacheCounts;
pub use info::{Build, CacheFigure, HostCacheError, HostCacheInfo, Medium, Registered};
pub use registry::{HostCacheSpec, host_caches, host_caches_of, serve};
pub use tier::{HostCache, Operations, Pages, Served, Tier, Write};
