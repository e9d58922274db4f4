//! The controllers that are tried.

use destage_cache::{CacheConfig, NoCache, WriteThrough};
use destage_plan::Dev;
use destage_raid::array::{Array, ArrayConfig};

use crate::{Cell, Subject};

/// An array without a cache.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Subject for Plain {
    type Controller = NoCache;

    fn name(&self) -> &'static str {
        "none"
    }

    fn build(&self, _: &Cell, config: ArrayConfig) -> NoCache {
        NoCache::new(config).expect("the shape is one that can be served")
    }

    fn array<'c>(&self, controller: &'c NoCache) -> &'c Array {
        controller.array()
    }

    fn cache_devices(&self, _: &Cell) -> Vec<u64> {
        Vec::new()
    }
}

/// An array behind a write-through cache.
#[derive(Clone, Copy, Debug)]
pub struct Through;

impl Subject for Through {
    type Controller = WriteThrough;

    fn name(&self) -> &'static str {
        "write-through"
    }

    fn build(&self, cell: &Cell, config: ArrayConfig) -> WriteThrough {
        let dev = Dev(cell.geometry.members());
        // Two sets, so that both lookup and eviction matter.
        let cache = CacheConfig { dev, pages: cell.cache_pages, ways: (cell.cache_pages / 2).max(1) as u32 };
        WriteThrough::new(config, cache).expect("the shape is one that can be served")
    }

    fn array<'c>(&self, controller: &'c WriteThrough) -> &'c Array {
        controller.array()
    }

    fn cache_devices(&self, cell: &Cell) -> Vec<u64> {
        vec![cell.cache_pages]
    }
}
