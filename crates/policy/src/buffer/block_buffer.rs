//! The skeleton of policies that give up logical blocks.
//!
//! A policy is a [`BlockPolicy`]: what its paper decides. [`BlockBuffer`] does what all of them do
//! alike: lookup, admission, counting, padding, write-backs, trims, and the search under a veto.
//!
//! Under a veto the search goes through the blocks in the order in which they would leave. A policy
//! may take what is passed over aside ([`BlockPolicy::pass_over`]), so that the next search need not
//! meet it again.

use destage_plan::{Element, PageNo, Params};

use super::options::{PROTECT_CURRENT, caches_reads};
use super::padding::BlockPadding;
use super::page_bits::PageBits;
use super::{
    AccessOutcome, BufferConfig, BufferNotice, BufferPolicy, DeviceView, EvictionCandidate, EvictionKind, EvictionVeto,
    Evictions, NO_BLOCK, PageAccess, PolicyError, PolicyInfo, RegisteredPolicy, WhenExhausted,
};

/// Decides as a published algorithm does which block leaves.
pub(super) trait BlockPolicy: Sized + Send + 'static {
    /// Describes the policy. Its parameters include [`PROTECT_CURRENT`], those of a read-write
    /// buffer [`READS`](super::options::READS) too, and [`BlockPadding::PARAM`] if it [pads](Self::PADS).
    const INFO: PolicyInfo;

    /// Is true for a read-write buffer, which keeps clean pages and in which reads are uses. A write
    /// buffer serves reads of its pages, and other reads go past it.
    const KEEPS_CLEAN: bool = false;

    /// Is true for a write buffer that can pad its victims.
    const PADS: bool = false;

    /// Holds what the policy knows of each block; it is the default again when the block has left.
    type History: Clone + std::fmt::Debug + Default + Send;

    /// Builds the policy; `params` holds every parameter that `INFO` declares.
    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError>;

    /// Makes room for the blocks `0..blocks`.
    fn grow(&mut self, blocks: u32);

    /// Takes note of a use of the page at `offset` of a block, which has just been added to it or was
    /// there.
    fn note_use<V: EvictionVeto>(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32, offset: u32, is_added: bool);

    /// Takes note of a read of a page that a write buffer holds.
    #[inline]
    fn note_read<V: EvictionVeto>(&mut self, _blocks: &mut PolicyBlocks<Self>, _block: u32) {}

    /// Takes note that a block is about to leave.
    fn note_departure(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32);

    /// Takes note that a block, which held `pages_before` pages, has lost one to a trim.
    fn note_trim(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32, pages_before: u32);

    /// Takes note that all pages of a block are clean now.
    fn note_cleaned(&mut self, _blocks: &mut PolicyBlocks<Self>, _block: u32) {}

    /// Returns the block that leaves first, if any is held.
    fn first(&mut self, blocks: &mut PolicyBlocks<Self>) -> Option<u32>;

    /// Returns the block that leaves after the one at which a search stands. A policy with a
    /// [`Self::victim`] of its own need not say it.
    #[inline]
    fn after(&mut self, _blocks: &mut PolicyBlocks<Self>, _block: u32) -> Option<u32> {
        None
    }

    /// Ends a search that called [`Self::after`].
    #[inline]
    fn end_search(&mut self) {}

    /// Returns the memory accesses of the published search for a victim.
    #[inline]
    fn search_cost(&self, _blocks: &PolicyBlocks<Self>) -> u64 {
        1
    }

    /// Takes aside a block that a veto passed over for the sake of an element.
    #[inline]
    fn pass_over(&mut self, _blocks: &mut PolicyBlocks<Self>, _element: Element, _block: u32) {}

    /// Returns the block other than `spared` that leaves where a veto passed over all. `asked` is the
    /// first that the veto was asked about in this search.
    #[inline]
    fn base(&mut self, _blocks: &mut PolicyBlocks<Self>, _spared: u32, asked: Option<u32>) -> Option<u32> {
        asked
    }

    /// Considers again what was passed over for an element.
    fn resume(&mut self, _blocks: &mut PolicyBlocks<Self>, _element: Element) {}

    /// Considers again everything that was passed over.
    fn resume_all(&mut self, _blocks: &mut PolicyBlocks<Self>) {}

    /// Chooses the block to give up for a page of `current`, or `None` if every block is vetoed and
    /// the access shall bypass.
    #[inline(always)]
    fn victim<V: EvictionVeto>(&mut self, blocks: &mut PolicyBlocks<Self>, current: u32, veto: &mut V) -> Option<u32> {
        blocks.memory_accesses += self.search_cost(blocks);
        let spared = blocks.spared(current);
        // Without either the first block is the answer, and no search is compiled into the plain policy.
        if V::ACTIVE || spared != NO_BLOCK {
            return search(self, blocks, spared, veto);
        }
        self.first(blocks)
    }
}

/// Searches for the first block to leave that is neither `spared` nor vetoed.
fn search<P: BlockPolicy, V: EvictionVeto>(
    policy: &mut P,
    blocks: &mut PolicyBlocks<P>,
    spared: u32,
    veto: &mut V,
) -> Option<u32> {
    let (mut asked, mut victim) = (None, None);
    let mut next = policy.first(blocks);
    while let Some(block) = next {
        let mut objection = None;
        if block != spared {
            // The block the policy would take unasked is what it falls back to.
            asked = asked.or(Some(block));
            objection = blocks.objection(P::KEEPS_CLEAN, block, veto);
            if objection.is_none() {
                victim = Some(block);
                break;
            }
        }
        // The next block is found before this one is passed over, which may unlink it.
        next = policy.after(blocks, block);
        if let Some(element) = objection {
            policy.pass_over(blocks, element, block);
        }
    }
    policy.end_search();
    if victim.is_some() {
        return victim;
    }
    let base = policy.base(blocks, spared, asked)?;
    (veto.exhausted() == WhenExhausted::TakeBase).then_some(base)
}

/// A block, and what its policy knows of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldBlock<H> {
    /// Pages held.
    pub(super) pages: u32,
    pub(super) history: H,
}

/// The blocks of a policy.
pub(super) type PolicyBlocks<P> = BufferedBlocks<<P as BlockPolicy>::History>;

/// The pages of a policy, by block.
#[derive(Clone, Debug)]
pub(super) struct BufferedBlocks<H> {
    pub(super) pages_per_block: u32,
    capacity: u32,
    /// Pages held, and blocks with any.
    pages: u32,
    pub(super) held: u32,
    cached: PageBits,
    /// The dirty pages of a read-write buffer; a write buffer has no others.
    dirty: PageBits,
    pub(super) blocks: Vec<HeldBlock<H>>,
    padding: BlockPadding,
    is_current_protected: bool,
    /// Memory accesses of the published algorithm; [`BlockBuffer`] counts lookups.
    pub(super) memory_accesses: u64,
}

impl<H: Clone + Default> BufferedBlocks<H> {
    /// Returns the block that is spared when a victim is chosen for a page of `current`, or
    /// [`NO_BLOCK`]: a block that is alone has no other to be spared for.
    #[inline]
    pub(super) fn spared(&self, current: u32) -> u32 {
        if self.is_current_protected && self.held > 1 { current } else { NO_BLOCK }
    }

    /// Returns the number of pages that a block holds.
    #[inline]
    pub(super) fn pages_of(&self, block: u32) -> u32 {
        self.blocks[block as usize].pages
    }

    /// Returns the element for whose sake a veto passes a block over. In a write buffer (not
    /// `keeps_clean`) all pages are dirty.
    #[inline]
    pub(super) fn objection<V: EvictionVeto>(&self, keeps_clean: bool, block: u32, veto: &mut V) -> Option<Element> {
        let cached = self.cached.of(block);
        veto.passes_over(EvictionCandidate::Block {
            first: PageNo(block * self.pages_per_block),
            cached,
            // A write buffer holds nothing but dirty pages, and keeps no second bitmap for them.
            dirty: if keeps_clean { self.dirty.of(block) } else { cached },
            padded: self.padding.applies(self.pages_of(block)),
        })
    }

    #[inline]
    fn place_of(&self, page: PageNo) -> (u32, u32) {
        (page.0 / self.pages_per_block, page.0 % self.pages_per_block)
    }

    #[inline]
    fn is_held(&self, page: PageNo) -> bool {
        let (block, offset) = self.place_of(page);
        self.cached.get(block, offset)
    }
}

/// A policy that gives up logical blocks.
#[derive(Clone, Debug)]
pub(super) struct BlockBuffer<P: BlockPolicy> {
    pub(super) blocks: PolicyBlocks<P>,
    is_caching_reads: bool,
    pub(super) policy: P,
}

impl<P: BlockPolicy> RegisteredPolicy for BlockBuffer<P> {
    const INFO: PolicyInfo = P::INFO;

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let n = config.pages_per_block;
        Ok(Self {
            blocks: BufferedBlocks {
                pages_per_block: n,
                capacity: config.capacity_pages,
                pages: 0,
                held: 0,
                cached: PageBits::new(n),
                dirty: PageBits::new(n),
                blocks: Vec::new(),
                padding: if P::PADS { BlockPadding::of(n, params)? } else { BlockPadding::never(n) },
                is_current_protected: params.switch(PROTECT_CURRENT.name)?,
                memory_accesses: 0,
            },
            is_caching_reads: P::KEEPS_CLEAN && caches_reads(params)?,
            policy: P::with_params(config, params)?,
        })
    }
}

impl<P: BlockPolicy> BlockBuffer<P> {
    fn give_up(&mut self, block: u32, out: &mut Evictions) {
        let BufferedBlocks { cached, dirty, padding, .. } = &self.blocks;
        if P::KEEPS_CLEAN {
            // Pages that are flushed and dropped from one block are one eviction: only the last group ends
            // the unit.
            out.group(EvictionKind::Flush, dirty.pages(block, true));
            out.group(EvictionKind::Drop, cached.pages_without(dirty, block));
            out.end_unit();
        } else if P::PADS {
            padding.write_out(self.blocks.pages_of(block), cached, block, out);
        } else {
            out.group(EvictionKind::Flush, cached.pages(block, true));
            out.end_unit();
        }
        self.forget(block);
    }

    fn forget(&mut self, block: u32) {
        self.policy.note_departure(&mut self.blocks, block);
        let blocks = &mut self.blocks;
        // The history is forgotten with the block: one that comes back starts anew.
        blocks.pages -= std::mem::take(&mut blocks.blocks[block as usize]).pages;
        blocks.held -= 1;
        blocks.cached.clear_block(block);
        if P::KEEPS_CLEAN {
            blocks.dirty.clear_block(block);
        }
    }

    /// Writes the dirty pages of a page's block; with them it leaves, or stays with all its pages
    /// clean.
    fn destage(&mut self, page: PageNo, keep: bool, out: &mut Evictions) {
        let (block, _) = self.blocks.place_of(page);
        if !self.blocks.is_held(page) || !self.has_dirty(block) {
            return;
        }
        if keep && P::KEEPS_CLEAN {
            out.group(EvictionKind::Clean, self.blocks.dirty.pages(block, true));
            out.end_unit();
            self.blocks.dirty.clear_block(block);
            self.policy.note_cleaned(&mut self.blocks, block);
        } else {
            self.give_up(block, out);
        }
    }

    fn has_dirty(&self, block: u32) -> bool {
        !P::KEEPS_CLEAN || self.blocks.dirty.of(block).iter().any(|&word| word != 0)
    }

    /// Gives up the blocks with dirty pages in the order in which they would be evicted. The others
    /// stay.
    fn flush(&mut self, out: &mut Evictions) {
        // A flush takes all blocks in the policy's order, also those that were passed over.
        self.policy.resume_all(&mut self.blocks);
        let mut next = self.policy.first(&mut self.blocks);
        while let Some(block) = next {
            if !P::KEEPS_CLEAN {
                self.give_up(block, out);
                next = self.policy.first(&mut self.blocks);
                continue;
            }
            next = self.policy.after(&mut self.blocks, block);
            if self.has_dirty(block) {
                self.give_up(block, out);
            }
        }
    }

    /// Takes one page away without a use of its block.
    fn trim(&mut self, page: PageNo, out: &mut Evictions) {
        if !self.blocks.is_held(page) {
            return;
        }
        out.page(EvictionKind::Drop, page);
        let (block, offset) = self.blocks.place_of(page);
        let blocks = &mut self.blocks;
        let pages_before = blocks.pages_of(block);
        // Without its last page the block leaves the policy, and is not told to it as a smaller one.
        if pages_before == 1 {
            self.forget(block);
            return;
        }
        blocks.cached.clear(block, offset);
        if P::KEEPS_CLEAN {
            blocks.dirty.clear(block, offset);
        }
        blocks.pages -= 1;
        blocks.blocks[block as usize].pages -= 1;
        self.policy.note_trim(blocks, block, pages_before);
    }
}

impl<P: BlockPolicy> BufferPolicy for BlockBuffer<P> {
    fn grow(&mut self, pages: u32) {
        let blocks = &mut self.blocks;
        let count = pages.div_ceil(blocks.pages_per_block).max(blocks.blocks.len() as u32);
        blocks.cached.grow(count);
        if P::KEEPS_CLEAN {
            blocks.dirty.grow(count);
        }
        blocks.blocks.resize(count as usize, HeldBlock::default());
        self.policy.grow(count);
    }

    #[inline]
    fn access<D: DeviceView, V: EvictionVeto>(
        &mut self,
        access: PageAccess,
        _device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        self.blocks.memory_accesses += 1;
        let (block, offset) = self.blocks.place_of(access.page);
        let is_held = self.blocks.cached.get(block, offset);
        // A write buffer serves reads of what it holds, but takes none in.
        if !access.write && !P::KEEPS_CLEAN {
            if !is_held {
                return AccessOutcome::Bypassed;
            }
            self.policy.note_read::<V>(&mut self.blocks, block);
            return AccessOutcome::Hit;
        }
        if !is_held {
            if !access.write && !self.is_caching_reads {
                return AccessOutcome::Bypassed;
            }
            if self.blocks.pages == self.blocks.capacity {
                // The victim leaves before the page is counted in, so that the policy chooses among what
                // was held before.
                match self.policy.victim(&mut self.blocks, block, veto) {
                    Some(victim) => self.give_up(victim, out),
                    None => return AccessOutcome::Bypassed,
                }
            }
            self.blocks.cached.set(block, offset);
            self.blocks.pages += 1;
            let pages = &mut self.blocks.blocks[block as usize].pages;
            if *pages == 0 {
                self.blocks.held += 1;
            }
            *pages += 1;
        }
        if P::KEEPS_CLEAN && access.write {
            self.blocks.dirty.set(block, offset);
        }
        self.policy.note_use::<V>(&mut self.blocks, block, offset, !is_held);
        if is_held { AccessOutcome::Hit } else { AccessOutcome::Inserted }
    }

    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        if self.blocks.pages == 0 {
            return false;
        }
        let Some(victim) = self.policy.victim(&mut self.blocks, NO_BLOCK, veto) else { return false };
        self.give_up(victim, out);
        true
    }

    fn notify<D: DeviceView, V: EvictionVeto>(&mut self, notice: BufferNotice, _: &D, _: &mut V, out: &mut Evictions) {
        match notice {
            BufferNotice::GcEnd { .. } | BufferNotice::Idle => {}
            BufferNotice::Resume { element } => self.policy.resume(&mut self.blocks, element),
            BufferNotice::Destage { page, keep } => self.destage(page, keep, out),
            BufferNotice::Flush => self.flush(out),
            BufferNotice::Trim { page } => self.trim(page, out),
        }
    }

    fn admits(&self, access: PageAccess) -> bool {
        !self.blocks.is_held(access.page) && (access.write || self.is_caching_reads)
    }

    fn len(&self) -> u32 {
        self.blocks.pages
    }

    fn memory_accesses(&self) -> u64 {
        self.blocks.memory_accesses
    }
}
