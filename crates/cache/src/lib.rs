//! The caches of the host side, over a redundant array. Each is a pure state machine; simulator,
//! real devices and crash harness run the same one. [`host_caches`] lists them; what each decides
//! is a [`HostCache`], what they share is the [`Tier`].

mod counts;
mod frames;
mod none;
mod registry;
mod tier;
mod write_through;

pub use counts::CacheCounts;
pub use registry::{
    Build, CacheFigure, HostCacheError, HostCacheInfo, HostCacheSpec, Medium, Registered, host_caches, serve,
};
pub use tier::{HostCache, Operations, Pages, Served, Tier, Write};
