//! Defines layers around a cache with its array, such as [GGC](crate::ggc) or a planted fault.
//!
//! A [`CacheLayer`] implements only what it changes. [`LayeredCache`] is the one place that forwards everything
//! else, so a new controller method is forwarded once for all layers.

use std::ops::Range;

use destage_plan::{Condition, Controller, Dev, DevSet, Event, Out, PageChecksums, PageRange, Row};
use destage_raid::array::{RaidArray, RowSources};

use crate::synchroniser::WriteSynchroniser;
use crate::{CollectionRounds, HostCacheStatus, ServedTier, StaleParity};

/// Changes how a cache with its array, `inner`, works. A provided method is what it is without the layer.
pub trait CacheLayer: Send {
    /// Handles an event in place of `inner`, which handles no event but by this layer.
    fn handle(&mut self, event: Event<'_>, inner: &mut dyn ServedTier, out: &mut Out);

    /// Returns the devices of which a start would believe what they held before they failed.
    fn unnoted(&self, inner: &dyn ServedTier) -> DevSet {
        inner.unnoted()
    }

    /// Returns the free blocks at which devices warn, as [`ServedTier::gc_warning`].
    fn gc_warning(&self, inner: &dyn ServedTier) -> Option<u32> {
        inner.gc_warning()
    }

    /// Returns how often devices were told to collect together, as [`ServedTier::rounds`].
    fn rounds(&self, inner: &dyn ServedTier) -> Option<CollectionRounds> {
        inner.rounds()
    }
}

/// A cache with its array in a layer.
pub struct LayeredCache<L> {
    layer: L,
    // Boxed: a layer costs one virtual call per event, and only arrays with a layer
    // pay for it.
    inner: Box<dyn ServedTier>,
}

impl<L: CacheLayer> LayeredCache<L> {
    /// Puts a layer around a cache.
    pub const fn new(layer: L, inner: Box<dyn ServedTier>) -> Self {
        Self { layer, inner }
    }
}

impl<L: CacheLayer> Controller for LayeredCache<L> {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        self.layer.handle(event, &mut *self.inner, out);
    }

    fn unnoted(&self) -> DevSet {
        self.layer.unnoted(&*self.inner)
    }

    fn condition(&self) -> Condition {
        self.inner.condition()
    }

    fn can_spare(&self, dev: Dev) -> bool {
        self.inner.can_spare(dev)
    }

    fn checksums(&self) -> Option<&PageChecksums> {
        self.inner.checksums()
    }

    fn checksums_mut(&mut self) -> Option<&mut PageChecksums> {
        self.inner.checksums_mut()
    }
}

impl<L: CacheLayer> ServedTier for LayeredCache<L> {
    fn array(&self) -> &RaidArray {
        self.inner.array()
    }

    fn status(&self) -> HostCacheStatus<'_> {
        self.inner.status()
    }

    fn stale_parity(&self) -> StaleParity {
        self.inner.stale_parity()
    }

    fn lost_page_count(&self) -> usize {
        self.inner.lost_page_count()
    }

    fn lost_pages(&self) -> Vec<PageRange> {
        self.inner.lost_pages()
    }

    fn passed_pages(&self) -> Vec<u64> {
        self.inner.passed_pages()
    }

    fn figures(&self) -> Vec<u64> {
        self.inner.figures()
    }

    fn sources(&self, row: Row) -> RowSources {
        self.inner.sources(row)
    }

    fn trims_zeros(&self, pages: Range<u64>) -> bool {
        self.inner.trims_zeros(pages)
    }

    fn synchronise(&mut self, synchroniser: WriteSynchroniser) {
        self.inner.synchronise(synchroniser);
    }

    fn gc_warning(&self) -> Option<u32> {
        self.layer.gc_warning(&*self.inner)
    }

    fn rounds(&self) -> Option<CollectionRounds> {
        self.layer.rounds(&*self.inner)
    }
}
