//! The caches of the host side, over a redundant array. Each is a pure state machine; simulator,
//! real devices and crash harness run the same one. [`host_caches`] lists them; what each decides
//! is a [`HostCache`], what they share is the [`CacheTier`].

mod counts;
mod ggc;
mod host_cache;
mod info;
mod layer;
mod none;
mod operations;
mod registry;
mod ssd;
mod sync;
mod synchroniser;
mod tier;
mod write_cache;

pub use counts::{CacheCounts, CollectionRounds};
pub use host_cache::{
    BadCachePage, HostCache, HostCacheStatus, PlannedWrite, ReadPages, RequestAdmission, StaleParity, WriteStage,
};
pub use info::{
    BuildCache, CacheFigure, CacheMedium, HostCacheError, HostCacheInfo, LayerInfo, LayerPlace, RegisteredCache,
    SynchronisedInfo, WrapCache,
};
pub use layer::{CacheLayer, LayeredCache};
pub use operations::CacheOperations;
pub use registry::{
    HostCacheSpec, all_host_caches, all_host_caches_of, host_cache, host_cache_layers, host_caches, host_caches_of,
    in_files, serve,
};
pub use ssd::log as metadata_log;
pub use tier::{CacheTier, ServedTier};
