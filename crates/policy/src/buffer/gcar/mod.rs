//! `GCaR`, cache management that is aware of garbage collection (Wu et al., ICS 2016; specs §7): a
//! layer over any policy.
//!
//! Idea: what lies on an element that collects garbage costs a long wait, so it stays in the
//! buffer. The policy inside offers victims in its own order and those on an *avoided* element are
//! passed over; their share of the buffer grows while the collection lasts, and afterwards what was
//! passed over and is dirty is written in the background.
//!
//! Parameters: `gcar_all_gc`, `gcar_max_share`, `gcar_after`, `gcar_destage_scope`,
//! `gcar_soon_margin`, `gcar_pool`.
//!
//! Resolved (specs §7 and §10.2):
//! - An element is avoided while it collects, or (`gcar_soon_margin`) while it has at most so many
//!   free blocks more than those at which it collects. It is asked only when a victim is sought
//!   (§3.3 of the paper).
//! - A clean page is passed over as a dirty one is (Algorithm 1: a later read would meet the
//!   collection). A block is passed over if any page to be written or read for padding lies on an
//!   avoided element; its clean pages do not matter.
//! - Where every victim lies on avoided elements, in which case the paper's loops end without a
//!   victim: the victim of the policy inside (`base_victim`); or the access goes past the buffer
//!   (`bypass`); or that victim once the first collection has ended (`wait`,
//!   [`EvictionGroup::after_collection`](super::Group::after_collection)).
//! - Passed over stays passed over: a page that is written or read again meanwhile is destaged all
//!   the same, in LRU order (Fig. 4). That is the order of the last access of pages and of the last
//!   write of blocks, whatever the policy inside goes by. A block of which other pages are to go to
//!   another avoided element waits for that one too.
//! - `gcar_max_share` is a share of the capacity. While the pages of avoided elements take more, no
//!   element is avoided; every such eviction has the policy inside look again at all that was
//!   passed over, so a limit that is reached costs time.
//! - One pool for reads and writes, as in both algorithms. Two pools would be two policies and not
//!   a layer around one: `gcar_pool=split` is refused.
//!
//! Where each page can be programmed on any element ([`DeviceView::destination`] is `None`) a dirty
//! page has no place to avoid. Clean pages, and pages read for padding, go by where they are, and
//! pages leave through the elements that are not avoided, in turn, unless the policy inside chose
//! or the device chooses for itself ([`DeviceView::takes_channels`]).
//! If all are avoided nothing can leave. What is dirty is then not deferred, and takes no part in
//! `gcar_max_share`.
//!
//! What a parameter says cannot always hold, and is refused where it never does: a write buffer
//! keeps no clean pages, and where channels are chosen dirty pages have no place.
//!
//! Outside collections the layer changes nothing. Memory accesses are those of the policy inside.

mod options;
mod state;

use destage_plan::{Element, PageNo, Params};

use options::{AFTER, ALL_GC, DESTAGE_SCOPE, MAX_SHARE, POOL, SOON_MARGIN};
pub(super) use options::{GCAR, InnerPolicy};
use state::{AllGc, AvoidScope, AvoidedElements, GcarState, NONE, OfElement, UNUSED, all};

use super::{
    AccessOutcome, BlockBorder, BufferConfig, BufferNotice, BufferPolicy, DeviceView, EvictionCandidate, EvictionUnit,
    EvictionVeto, Evictions, PageAccess, PolicyError, WhenExhausted,
};

/// Counts the decisions of [`Gcar`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcCounters {
    /// Victims passed over.
    pub passed_over: u64,
    /// Dirty pages written after a collection because they, or their blocks, had been passed over
    /// during it.
    pub deferred_pages_destaged: u64,
    /// Searches in which every victim lay on an avoided element.
    pub all_avoided: u64,
}

impl GcCounters {
    /// Returns the counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            passed_over: self.passed_over - before.passed_over,
            deferred_pages_destaged: self.deferred_pages_destaged - before.deferred_pages_destaged,
            all_avoided: self.all_avoided - before.all_avoided,
        }
    }
}

/// Says which victims lie on avoided elements.
struct AvoidVeto<'a, D, V> {
    state: &'a mut GcarState,
    device: &'a D,
    outer: &'a mut V,
    /// Holds which elements are avoided, once it was asked: of one device at one time that stays so.
    avoided: Option<AvoidedElements>,
}

impl<'a, D, V> AvoidVeto<'a, D, V> {
    const fn new(state: &'a mut GcarState, device: &'a D, outer: &'a mut V) -> Self {
        Self { state, device, outer, avoided: None }
    }
}

impl<D: DeviceView, V: EvictionVeto> EvictionVeto for AvoidVeto<'_, D, V> {
    const ACTIVE: bool = true;

    #[inline]
    fn passes_over(&mut self, candidate: EvictionCandidate<'_>) -> Option<Element> {
        // The outer veto goes first: the policy inside must park the victim for whoever objects.
        if V::ACTIVE
            && let Some(element) = self.outer.passes_over(candidate)
        {
            return Some(element);
        }
        let element = self.state.objection(self.device, &candidate, &mut self.avoided)?;
        // The victim is noted here, since the scan does not come back to it.
        self.state.pass_over(self.device, &candidate, element);
        Some(element)
    }

    fn avoids(&mut self, channel: u32) -> bool {
        self.state.avoids(self.device, Element(channel)) || self.outer.avoids(channel)
    }

    fn exhausted(&mut self) -> WhenExhausted {
        self.state.exhausted = true;
        self.state.counters.all_avoided += 1;
        if self.state.all_gc == AllGc::Bypass { WhenExhausted::Bypass } else { self.outer.exhausted() }
    }
}

/// Garbage collection aware cache management around a policy.
#[derive(Clone, Debug)]
pub struct Gcar<B> {
    inner: B,
    state: GcarState,
}

impl<B: BufferPolicy> Gcar<B> {
    /// Puts the layer around `inner`, which gives up a `unit` at once.
    pub(super) fn new(
        config: BufferConfig,
        params: &Params,
        unit: EvictionUnit,
        inner: B,
    ) -> Result<Self, PolicyError> {
        params.choice(POOL.name, &[("unified", ())])?;
        let all_gc = params.choice(
            ALL_GC.name,
            &[("base_victim", AllGc::BaseVictim), ("bypass", AllGc::Bypass), ("wait", AllGc::Wait)],
        )?;
        let scope = params.choice(
            DESTAGE_SCOPE.name,
            &[
                ("deferred", AvoidScope::Deferred),
                ("all_dirty_of_chip", AvoidScope::AllDirty),
                ("none", AvoidScope::Nothing),
            ],
        )?;
        let share = params.text(MAX_SHARE.name).parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
        let share = share.ok_or_else(|| params.refuse(MAX_SHARE.name))?;
        let capacity = config.capacity_pages;
        // The quotient is rounded as the share was: 29 / 100 is 0.29, whereas 0.29 * 100 is less
        // than 29.
        let at_most = |pages: u32| f64::from(pages) / f64::from(capacity) <= share;
        let floor = (share * f64::from(capacity)).floor() as u32;
        let most_pages = if at_most(floor + 1) { floor + 1 } else { floor };
        let soon_margin = params.number(SOON_MARGIN.name, ..)?;
        let state = GcarState {
            pages_per_block: config.pages_per_block,
            pages_per_victim: match unit {
                EvictionUnit::Page => 1,
                EvictionUnit::Block => config.pages_per_block,
            },
            reads_are_uses: unit == EvictionUnit::Page,
            capacity,
            all_gc,
            keep: params.choice(AFTER.name, &[("free", false), ("keep_clean", true)])?,
            scope,
            soon_margin,
            most_pages: (share < 1.0).then_some(most_pages),
            dirty: Vec::new(),
            element_of: Vec::new(),
            victims: Vec::new(),
            elements: vec![OfElement::default(); config.elements as usize + 1],
            clock: 0,
            turn: 0,
            lifted: false,
            exhausted: false,
            counters: GcCounters::default(),
        };
        Ok(Self { inner, state })
    }

    /// Has the policy inside look again at what it passed over if the limit is reached.
    #[inline]
    fn apply_limit<D: DeviceView, V: EvictionVeto>(&mut self, device: &D, outer: &mut V, out: &mut Evictions) {
        if self.state.most_pages.is_some() && self.state.is_over_limit(device) {
            let elements = (0..self.state.elements.len() as u32).map(Element);
            elements.for_each(|element| self.resume(element, device, outer, out));
            // Without this a buffer full of pages of slow elements would serve all other pages badly.
            self.state.lifted = true;
        }
    }

    fn resume<D: DeviceView, V: EvictionVeto>(
        &mut self,
        element: Element,
        device: &D,
        outer: &mut V,
        out: &mut Evictions,
    ) {
        if self.state.elements.get_mut(element.index()).is_some_and(|own| std::mem::take(&mut own.parked)) {
            self.tell(BufferNotice::Resume { element }, device, outer, out);
        }
    }

    fn tell<D: DeviceView, V: EvictionVeto>(
        &mut self,
        notice: BufferNotice,
        device: &D,
        outer: &mut V,
        out: &mut Evictions,
    ) {
        let from = out.len();
        self.inner.notify(notice, device, &mut AvoidVeto::new(&mut self.state, device, outer), out);
        self.state.finish(device, out, from);
    }

    fn collected<D: DeviceView, V: EvictionVeto>(
        &mut self,
        element: Element,
        device: &D,
        outer: &mut V,
        out: &mut Evictions,
    ) {
        let from = out.len();
        for victim in self.state.take_deferred(device, element) {
            let first = victim * self.state.pages_per_victim;
            let mut pages = first..first + self.state.pages_per_victim;
            // The page may have been written or trimmed since it was deferred.
            if let Some(page) = pages.find(|&page| self.state.dirty[page as usize]) {
                let dirty = u64::from(self.state.victims[victim as usize].dirty);
                self.state.counters.deferred_pages_destaged += dirty;
                let keep = self.state.keep;
                self.tell(BufferNotice::Destage { page: PageNo(page), keep }, device, outer, out);
            }
        }
        // Nobody waits for deferred pages, so host requests go first.
        out.in_background(from);
        self.resume(element, device, outer, out);
        // What has no place was passed over for the sake of all elements, of which this one is free
        // now.
        self.resume(all(device), device, outer, out);
    }
}

impl<B: BufferPolicy> BufferPolicy for Gcar<B> {
    fn grow(&mut self, pages: u32) {
        self.inner.grow(pages);
        let state = &mut self.state;
        // Whole blocks, so that those of the last one can be asked about.
        let pages = pages.next_multiple_of(state.pages_per_block).max(state.dirty.len() as u32);
        state.dirty.resize(pages as usize, false);
        state.victims.resize((pages / state.pages_per_victim) as usize, UNUSED);
        if state.most_pages.is_some() {
            // The table is kept only for a limit, which alone counts pages by element.
            state.element_of.resize(pages as usize, NONE);
        }
    }

    fn compares_addresses(&self) -> bool {
        self.inner.compares_addresses()
    }

    fn learn_borders(&mut self, borders: &[BlockBorder]) {
        self.inner.learn_borders(borders);
    }

    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        self.inner.prefetch(page) ^ self.state.prefetch(page)
    }

    #[inline]
    fn leaves_next(&self, most: usize, name: &mut impl FnMut(PageNo)) {
        let mut read = 0;
        self.inner.leaves_next(most, &mut |page| {
            read ^= self.state.prefetch(page);
            name(page);
        });
        std::hint::black_box(read);
    }

    #[inline]
    fn access<D: DeviceView, V: EvictionVeto>(
        &mut self,
        access: PageAccess,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        // Only a miss into a full buffer evicts, so only there the limit can matter.
        if self.inner.len() == self.state.capacity && self.state.element_of.get(access.page.index()) == Some(&NONE) {
            self.apply_limit(device, veto, out);
        }
        let from = out.len();
        let outcome = self.inner.access(access, device, &mut AvoidVeto::new(&mut self.state, device, veto), out);
        self.state.finish(device, out, from);
        self.state.exhausted = false;
        self.state.lifted = false;
        if outcome != AccessOutcome::Bypassed {
            self.state.accessed(device, access, outcome);
        }
        outcome
    }

    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        self.apply_limit(device, veto, out);
        let from = out.len();
        let left = self.inner.evict(device, &mut AvoidVeto::new(&mut self.state, device, veto), out);
        self.state.finish(device, out, from);
        self.state.exhausted = false;
        self.state.lifted = false;
        left
    }

    fn notify<D: DeviceView, V: EvictionVeto>(
        &mut self,
        notice: BufferNotice,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) {
        match notice {
            BufferNotice::GcEnd { element } => self.collected(element, device, veto, out),
            _ => self.tell(notice, device, veto, out),
        }
    }

    fn admits(&self, access: PageAccess) -> bool {
        self.inner.admits(access)
    }

    fn len(&self) -> u32 {
        self.inner.len()
    }

    fn memory_accesses(&self) -> u64 {
        self.inner.memory_accesses()
    }

    fn watches_collection(&self) -> bool {
        true
    }

    fn gc_counters(&self) -> Option<GcCounters> {
        Some(self.state.counters)
    }
}
