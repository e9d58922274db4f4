//! Layers: buffers around a buffer. What each does to the policy inside is in its own file; here
//! they are listed and put together.
//!
//! A composition is behind one dynamic call per page access, so that the layers times the policies
//! need not all be compiled into every simulation.

use destage_plan::{Element, PageNo, ParamSpec, Params};

use super::cave_blocks::{self, CaveBlocks};
use super::cawr_blocks::{self, CawrBlocks};
use super::gate::{self, GatedBuffer};
use super::gcar::{GCAR, Gcar};
use super::{
    AccessOutcome, BlockBorder, BufferConfig, BufferNotice, BufferPolicy, DeviceView, EvictionCandidate, EvictionUnit,
    EvictionVeto, Evictions, GcCounters, NoVeto, PageAccess, PolicyError, WhenExhausted,
};

/// Names the policies around which a layer can be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerBase {
    /// All that hold pages.
    Any,
    /// Those that evict pages.
    Pages,
    /// Those that evict blocks.
    Blocks,
}

/// Describes a layer for `destage policies`.
#[derive(Clone, Copy, Debug)]
pub struct LayerInfo {
    /// The name before the `+`.
    pub name: &'static str,
    /// The layer in one line.
    pub title: &'static str,
    /// Describes the layer in two or three sentences.
    pub about: &'static str,
    /// Names the source.
    pub paper: &'static str,
    /// Names the policies around which the layer can be put.
    pub over: LayerBase,
    /// Selects the unit of eviction, where it differs from the policy's inside.
    pub unit: Option<EvictionUnit>,
    /// Is true if the layer chooses the channel through which each page is programmed.
    pub chooses_channels: bool,
    /// Is true if the layer avoids elements that collect garbage.
    pub avoids_collection: bool,
    /// Layers go around layers of greater depth.
    pub depth: u8,
    /// Lists the parameters.
    pub params: &'static [ParamSpec],
    /// Parameters of the policy inside that have one value only below this layer, where the policy
    /// has them.
    pub settles: &'static [(&'static str, &'static str)],
}

/// Every layer.
pub(super) const LAYERS: &[LayerInfo] = &[GCAR, gate::LAYER, cave_blocks::LAYER, cawr_blocks::LAYER];

/// A policy with layers around it.
pub struct ComposedPolicy(Box<dyn ErasedBuffer>);

impl ComposedPolicy {
    /// Puts the layers around `base`, which gives up a `unit` at once. `params` has those of each
    /// layer.
    pub(super) fn new<B: BufferPolicy + Send + 'static>(
        layers: &[&LayerInfo],
        params: &[Params],
        config: BufferConfig,
        unit: EvictionUnit,
        base: B,
    ) -> Result<Self, PolicyError> {
        // Directly around a policy GCaR is compiled with it.
        let mut pairs = layers.iter().zip(params).rev();
        let Some((layer, own)) = pairs.next() else { return Ok(Self(Box::new(base))) };
        let mut composed = Self::around(layer, own, config, unit, base)?;
        for (layer, own) in pairs {
            let unit = layers.iter().find_map(|inner| inner.unit).unwrap_or(unit);
            composed = Self::around(layer, own, config, unit, composed)?;
        }
        Ok(composed)
    }

    /// Puts one layer around `inner`.
    fn around<B: BufferPolicy + Send + 'static>(
        layer: &LayerInfo,
        params: &Params,
        config: BufferConfig,
        unit: EvictionUnit,
        inner: B,
    ) -> Result<Self, PolicyError> {
        Ok(Self(match layer.name {
            "gcar" => Box::new(Gcar::new(config, params, unit, inner)?),
            "gate" => Box::new(GatedBuffer::new(config, inner)?),
            "cave" => Box::new(CaveBlocks::new(config, params, inner)?),
            "cawr" => Box::new(CawrBlocks::new(config, inner)?),
            other => unreachable!("{other} is listed and not built"),
        }))
    }
}

/// A [`BufferPolicy`] without generic methods.
trait ErasedBuffer: Send {
    fn grow(&mut self, pages: u32);
    fn prefetch(&self, page: PageNo) -> u32;
    fn leaves_next(&self, most: usize, name: &mut dyn FnMut(PageNo));
    fn compares_addresses(&self) -> bool;
    fn learn_borders(&mut self, borders: &[BlockBorder]);
    fn access(&mut self, access: PageAccess, device: &dyn DeviceView, out: &mut Evictions) -> AccessOutcome;
    fn access_vetoed(
        &mut self,
        access: PageAccess,
        device: &dyn DeviceView,
        veto: &mut dyn ErasedVeto,
        out: &mut Evictions,
    ) -> AccessOutcome;
    fn evict(&mut self, device: &dyn DeviceView, out: &mut Evictions) -> bool;
    fn evict_vetoed(&mut self, device: &dyn DeviceView, veto: &mut dyn ErasedVeto, out: &mut Evictions) -> bool;
    fn notify(&mut self, notice: BufferNotice, device: &dyn DeviceView, out: &mut Evictions);
    fn notify_vetoed(
        &mut self,
        notice: BufferNotice,
        device: &dyn DeviceView,
        veto: &mut dyn ErasedVeto,
        out: &mut Evictions,
    );
    fn admits(&self, access: PageAccess) -> bool;
    fn len(&self) -> u32;
    fn memory_accesses(&self) -> u64;
    fn watches_collection(&self) -> bool;
    fn gc_counters(&self) -> Option<GcCounters>;
}

/// A [`EvictionVeto`] without constants.
trait ErasedVeto {
    fn passes_over(&mut self, candidate: EvictionCandidate<'_>) -> Option<Element>;
    fn avoids(&mut self, channel: u32) -> bool;
    fn exhausted(&mut self) -> WhenExhausted;
}

impl<V: EvictionVeto> ErasedVeto for V {
    fn passes_over(&mut self, candidate: EvictionCandidate<'_>) -> Option<Element> {
        EvictionVeto::passes_over(self, candidate)
    }
    fn avoids(&mut self, channel: u32) -> bool {
        EvictionVeto::avoids(self, channel)
    }
    fn exhausted(&mut self) -> WhenExhausted {
        EvictionVeto::exhausted(self)
    }
}

/// An active veto behind a pointer.
struct BoxedVeto<'a>(&'a mut dyn ErasedVeto);

impl EvictionVeto for BoxedVeto<'_> {
    const ACTIVE: bool = true;
    fn passes_over(&mut self, candidate: EvictionCandidate<'_>) -> Option<Element> {
        self.0.passes_over(candidate)
    }
    fn avoids(&mut self, channel: u32) -> bool {
        self.0.avoids(channel)
    }
    fn exhausted(&mut self) -> WhenExhausted {
        self.0.exhausted()
    }
}

impl<B: BufferPolicy + Send> ErasedBuffer for B {
    fn grow(&mut self, pages: u32) {
        BufferPolicy::grow(self, pages);
    }
    fn prefetch(&self, page: PageNo) -> u32 {
        BufferPolicy::prefetch(self, page)
    }
    fn leaves_next(&self, most: usize, mut name: &mut dyn FnMut(PageNo)) {
        BufferPolicy::leaves_next(self, most, &mut name);
    }
    fn compares_addresses(&self) -> bool {
        BufferPolicy::compares_addresses(self)
    }
    fn learn_borders(&mut self, borders: &[BlockBorder]) {
        BufferPolicy::learn_borders(self, borders);
    }
    fn access(&mut self, access: PageAccess, device: &dyn DeviceView, out: &mut Evictions) -> AccessOutcome {
        BufferPolicy::access(self, access, &device, &mut NoVeto, out)
    }
    fn access_vetoed(
        &mut self,
        access: PageAccess,
        device: &dyn DeviceView,
        veto: &mut dyn ErasedVeto,
        out: &mut Evictions,
    ) -> AccessOutcome {
        BufferPolicy::access(self, access, &device, &mut BoxedVeto(veto), out)
    }
    fn evict(&mut self, device: &dyn DeviceView, out: &mut Evictions) -> bool {
        BufferPolicy::evict(self, &device, &mut NoVeto, out)
    }
    fn evict_vetoed(&mut self, device: &dyn DeviceView, veto: &mut dyn ErasedVeto, out: &mut Evictions) -> bool {
        BufferPolicy::evict(self, &device, &mut BoxedVeto(veto), out)
    }
    fn notify(&mut self, notice: BufferNotice, device: &dyn DeviceView, out: &mut Evictions) {
        BufferPolicy::notify(self, notice, &device, &mut NoVeto, out);
    }
    fn notify_vetoed(
        &mut self,
        notice: BufferNotice,
        device: &dyn DeviceView,
        veto: &mut dyn ErasedVeto,
        out: &mut Evictions,
    ) {
        BufferPolicy::notify(self, notice, &device, &mut BoxedVeto(veto), out);
    }
    fn admits(&self, access: PageAccess) -> bool {
        BufferPolicy::admits(self, access)
    }
    fn len(&self) -> u32 {
        BufferPolicy::len(self)
    }
    fn memory_accesses(&self) -> u64 {
        BufferPolicy::memory_accesses(self)
    }
    fn watches_collection(&self) -> bool {
        BufferPolicy::watches_collection(self)
    }
    fn gc_counters(&self) -> Option<GcCounters> {
        BufferPolicy::gc_counters(self)
    }
}

impl BufferPolicy for ComposedPolicy {
    fn grow(&mut self, pages: u32) {
        self.0.grow(pages);
    }

    fn compares_addresses(&self) -> bool {
        self.0.compares_addresses()
    }

    fn learn_borders(&mut self, borders: &[BlockBorder]) {
        self.0.learn_borders(borders);
    }

    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        self.0.prefetch(page)
    }

    fn leaves_next(&self, most: usize, name: &mut impl FnMut(PageNo)) {
        self.0.leaves_next(most, name);
    }

    #[inline]
    fn access<D: DeviceView, V: EvictionVeto>(
        &mut self,
        access: PageAccess,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        // Two calls behind the trait object keep the veto's code out of the plain one.
        if V::ACTIVE { self.0.access_vetoed(access, device, veto, out) } else { self.0.access(access, device, out) }
    }

    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        if V::ACTIVE { self.0.evict_vetoed(device, veto, out) } else { self.0.evict(device, out) }
    }

    fn notify<D: DeviceView, V: EvictionVeto>(
        &mut self,
        notice: BufferNotice,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) {
        if V::ACTIVE {
            self.0.notify_vetoed(notice, device, veto, out);
        } else {
            self.0.notify(notice, device, out);
        }
    }

    fn admits(&self, access: PageAccess) -> bool {
        self.0.admits(access)
    }

    fn len(&self) -> u32 {
        self.0.len()
    }

    fn memory_accesses(&self) -> u64 {
        self.0.memory_accesses()
    }

    fn watches_collection(&self) -> bool {
        self.0.watches_collection()
    }

    fn gc_counters(&self) -> Option<GcCounters> {
        self.0.gc_counters()
    }
}
