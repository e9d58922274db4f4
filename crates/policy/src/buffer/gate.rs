//! The gating buffer (Chang, Huang and Wen, `ESTIMedia` 2011, as CAWR §III describes it; specs
//! §6.2), around page-level policies.
//!
//! Idea: dirty pages that the policy inside evicts collect in a small FIFO gate with a slot for
//! each of C channels. When all slots are filled the C pages are programmed at the same time, one
//! through each channel. Whether pages belong together is ignored.
//!
//! Resolved, since only the abstract was at hand: the gate is part of the buffer's capacity, so
//! that a replacement is over only once a frame is free: the policy inside gives up victims until
//! one of them is clean, which passes at once, or until the gate opens. A page in the gate still
//! hits and is updated in place; the policy inside sees nothing of it. Slots are given out in
//! round-robin order, counted on from one opening to the next. An incomplete gate is written upon a
//! flush, or if the policy inside has nothing left to give, as it is where the capacity is below C.
//! Pages that a flush has the policy inside write are written C at a time, too. Channels that a
//! veto avoids have no slots.
//!
//! Memory accesses: those of the policy inside; the lookup in the gate; a page that enters or
//! leaves it.

use destage_plan::PageNo;

use super::layers::{LayerBase, LayerInfo};
use super::multi_eviction::{ChannelsAside, WriteChannels};
use super::page_lists::PageLists;
use super::parking::LinkedList as _;
use super::{
    AccessOutcome, BufferConfig, BufferNotice, BufferPolicy, DeviceView, EvictionKind, EvictionVeto, Evictions,
    PageAccess, PolicyError,
};

/// Describes the gate.
pub(super) const LAYER: LayerInfo = LayerInfo {
    name: "gate",
    title: "dirty victims wait until there is one for each channel",
    about: "Dirty victims of the policy inside wait in a gate with a slot for each channel. When all slots are \
            filled the pages are programmed at the same time, one through each channel. The gate is part of the \
            buffer's capacity, and pages in it are still hit.",
    paper: "gating buffer, ESTIMedia 2011, as described by CAWR §III",
    over: LayerBase::Pages,
    unit: None,
    chooses_channels: true,
    avoids_collection: false,
    depth: 1,
    params: &[],
    settles: &[],
};

/// The pages in the gate, the oldest at the back.
const GATE: u32 = 0;

/// A policy with a gate below it.
pub(super) struct GatedBuffer<B> {
    inner: B,
    capacity: u32,
    channels: WriteChannels,
    slots: PageLists,
    /// Holds the victims of the policy inside.
    victims: Evictions,
    memory_accesses: u64,
}

impl<B: BufferPolicy> GatedBuffer<B> {
    pub(super) fn new(config: BufferConfig, inner: B) -> Result<Self, PolicyError> {
        Ok(Self {
            inner,
            capacity: config.capacity_pages,
            channels: WriteChannels::new(config)?,
            slots: PageLists::new(1),
            victims: Evictions::default(),
            memory_accesses: 0,
        })
    }

    /// Programs the oldest pages of the gate, as many as a multi-eviction is wide; returns whether
    /// there were any.
    fn open(&mut self, out: &mut Evictions) -> bool {
        let Self { slots, channels, .. } = self;
        let pages = slots.len().min(channels.width());
        self.memory_accesses += u64::from(pages);
        let leaving = (0..pages).map(|_| (slots.remove(slots.prev(GATE)).page(), channels.turn()));
        out.spread_pages(EvictionKind::Flush, leaving);
        pages > 0
    }

    /// Lets the dirty pages that the policy inside gave up into the gate, and the clean ones go;
    /// returns whether there were any of these.
    #[inline]
    fn take_in(&mut self, out: &mut Evictions) -> bool {
        let mut freed = false;
        for (group, pages) in self.victims.groups() {
            for &page in pages {
                if group.kind == EvictionKind::Drop {
                    out.page(EvictionKind::Drop, page);
                    freed = true;
                } else {
                    self.slots.insert(GATE, page, true);
                    self.memory_accesses += 1;
                }
            }
        }
        self.victims.clear();
        freed
    }
}

impl<B: BufferPolicy> BufferPolicy for GatedBuffer<B> {
    fn grow(&mut self, pages: u32) {
        self.inner.grow(pages);
        self.slots.grow(pages);
    }

    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        self.inner.prefetch(page)
    }

    #[inline]
    fn access<D: DeviceView, V: EvictionVeto>(
        &mut self,
        access: PageAccess,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        self.memory_accesses += 1;
        // A page in the gate is hit there and not told to the policy, which has given it up.
        if self.slots.find(access.page) != 0 {
            return AccessOutcome::Hit;
        }
        if self.len() == self.capacity && self.inner.admits(access) && !self.evict(device, veto, out) {
            return AccessOutcome::Bypassed;
        }
        self.inner.access(access, device, &mut ChannelsAside(veto), out)
    }

    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        self.channels.look(veto);
        while self.slots.len() < self.channels.width() {
            if self.inner.is_empty() || !self.inner.evict(device, &mut ChannelsAside(veto), &mut self.victims) {
                break;
            }
            // A clean victim has freed a frame already: dirty ones may wait on.
            if self.take_in(out) {
                return true;
            }
        }
        self.slots.len() > 0 && self.channels.permits(veto) && self.open(out)
    }

    fn notify<D: DeviceView, V: EvictionVeto>(
        &mut self,
        notice: BufferNotice,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) {
        self.channels.open_all();
        match notice {
            // Nothing inside acts on it: base policies ignore it, and GCaR goes outside.
            BufferNotice::GcEnd { .. } => return,
            BufferNotice::Resume { .. } | BufferNotice::Idle => {}
            BufferNotice::Flush => while self.open(out) {},
            BufferNotice::Destage { page, .. } | BufferNotice::Trim { page } => {
                let frame = self.slots.find(page);
                if frame != 0 {
                    self.slots.remove(frame);
                    self.memory_accesses += 1;
                    if matches!(notice, BufferNotice::Trim { .. }) {
                        out.page(EvictionKind::Drop, page);
                    } else {
                        self.channels.write_all(EvictionKind::Flush, std::iter::once(page), out);
                    }
                    return;
                }
            }
        }
        self.inner.notify(notice, device, &mut ChannelsAside(veto), &mut self.victims);
        let of = |kind| self.victims.groups().filter(move |(group, _)| group.kind == kind).flat_map(|(_, pages)| pages);
        // Only evictions for room go through the gate; what a notice asks for is written at once.
        of(EvictionKind::Drop).for_each(|&page| out.page(EvictionKind::Drop, page));
        for kind in [EvictionKind::Flush, EvictionKind::Clean] {
            self.channels.write_all(kind, of(kind).copied(), out);
        }
        self.victims.clear();
    }

    fn admits(&self, access: PageAccess) -> bool {
        self.slots.find(access.page) == 0 && self.inner.admits(access)
    }

    fn len(&self) -> u32 {
        self.inner.len() + self.slots.len()
    }

    fn memory_accesses(&self) -> u64 {
        self.inner.memory_accesses() + self.memory_accesses
    }
}
