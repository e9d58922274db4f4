//! Answers questions about a cache over its array, whichever cache it is.

use std::ops::Range;

use destage_plan::{Controller, PageRange, Row};
use destage_raid::array::{RaidArray, RowSources};

use super::CacheTier;
use crate::synchroniser::WriteSynchroniser;
use crate::{CacheCounts, CollectionRounds, HostCache, HostCacheStatus, StaleParity};

/// Serves an array through a host cache, whichever cache it is.
pub trait ServedTier: Controller + Send {
    /// Returns the array.
    fn array(&self) -> &RaidArray;
    /// Returns the status of the cache.
    fn status(&self) -> HostCacheStatus<'_>;
    /// Returns how much parity is stale.
    fn stale_parity(&self) -> StaleParity;
    /// Counts the pages that were [lost](HostCache::lost_page_count) with the cache's device.
    fn lost_page_count(&self) -> usize;
    /// Returns the pages that were [lost](HostCache::lost_pages) with the cache's device.
    fn lost_pages(&self) -> Vec<PageRange>;
    /// Returns the pages that were [passed by](HostCache::passed_pages).
    fn passed_pages(&self) -> Vec<u64>;
    /// Returns the cache's own [figures](crate::HostCacheInfo::figures), in their order.
    fn figures(&self) -> Vec<u64>;
    /// Returns the sources of the pages of a row.
    fn sources(&self, row: Row) -> RowSources;
    /// Returns true if zeros that may be holes trim whole stripes among these pages, and write nothing beside but what is
    /// left at both ends. With a member lost its zeros are written to the NVRAM, so it is not so then.
    fn trims_zeros(&self, pages: Range<u64>) -> bool;
    /// Has the members write what the cache chose together.
    fn synchronise(&mut self, synchroniser: WriteSynchroniser);

    /// Returns true if the cache is in use, with everything that it needs.
    fn is_caching(&self) -> bool {
        self.status().is_caching
    }

    /// Returns the hits and misses of the cache, if it counts them.
    fn counts(&self) -> Option<&CacheCounts> {
        self.status().counts
    }

    /// Rows whose parity does not cover the newest version of their data.
    fn stale_rows(&self) -> usize {
        self.stale_parity().stale_rows
    }

    /// Returns the free blocks at which devices are to say that they will have to collect soon, in hundredths of a
    /// percent; none if they need not.
    fn gc_warning(&self) -> Option<u32> {
        None
    }

    /// Returns how often devices were told to collect together, if they are.
    fn rounds(&self) -> Option<CollectionRounds> {
        None
    }
}

impl<C: HostCache> ServedTier for CacheTier<C> {
    fn array(&self) -> &RaidArray {
        &self.array
    }

    fn status(&self) -> HostCacheStatus<'_> {
        self.upper.cache.status()
    }

    fn stale_parity(&self) -> StaleParity {
        self.upper.cache.stale_parity()
    }

    fn lost_page_count(&self) -> usize {
        self.upper.cache.lost_page_count()
    }

    fn lost_pages(&self) -> Vec<PageRange> {
        self.upper.cache.lost_pages()
    }

    fn passed_pages(&self) -> Vec<u64> {
        self.upper.cache.passed_pages()
    }

    fn figures(&self) -> Vec<u64> {
        let mut figures = Vec::new();
        self.upper.cache.figures(&mut figures);
        figures.extend(self.upper.operations.synchroniser.iter().flat_map(WriteSynchroniser::figures));
        figures
    }

    fn sources(&self, row: Row) -> RowSources {
        self.upper.cache.sources(row)
    }

    fn trims_zeros(&self, pages: Range<u64>) -> bool {
        // Zeros of whole stripes can be trimmed; what is left at the ends is
        // written.
        let config = self.array.config();
        let stripe = u64::from(config.geometry.data_columns()) * u64::from(config.geometry.chunk_pages());
        let has_stripe = pages.start.div_ceil(stripe) < pages.end / stripe;
        has_stripe && config.trims && self.upper.cache.unmaps_zeros() && self.array.degraded().is_empty()
    }

    fn synchronise(&mut self, synchroniser: WriteSynchroniser) {
        self.upper.operations.synchroniser = Some(synchroniser);
    }
}
