//! CAWR around block-level policies (Wang et al., ETRI Journal 2015, §IV-1, a sketch there; specs
//! §6.5).
//!
//! Idea: the policy inside is the working region. Its victim blocks enter a reordering region of C
//! cold dirty lists, one for each channel: a block goes into an empty list, whose channel is then
//! the block's for good, so that a block is never spread. When no list is empty the first page of
//! each is programmed through the list's channel, all at the same time.
//!
//! Resolved: clean pages of a victim block are dropped when it enters; with them the replacement is
//! satisfied. There are no others in the reordering region, so that "if the reorder region holds
//! clean pages drop one" never applies. A page of a list is what leaves, and is the victim unit. A
//! hit on a page in a list is served there, in place. Pages of the block that come in meanwhile are
//! the working region's; if they become its victim before the list has run out they join it. A list
//! therefore holds one block, at most N pages. If the policy inside has nothing left to give before
//! all lists have pages, the first page of each list that has one leaves (specs D6). Nothing is
//! padded (`padding=never` is settled): pages leave one by one, and what would be read for them has
//! no frames. The victims are chosen before the policy inside hears of the page that comes in, so
//! that it has no block to protect (`protect_current=false` is settled), and LB-CLOCK's hand stands
//! where they left it when a block enters (`insert_anchor=current_hand`). A flush lets all blocks
//! pass through the lists. What is written back by itself goes through the channel of its block's
//! list, or through the next in turn. Lists whose channel a veto avoids sit out, neither written
//! nor begun, as in CAWR over pages.
//!
//! Memory accesses: those of the policy inside; the lookup in the reordering region; a page that
//! enters or leaves it.

use destage_plan::PageNo;

use super::layers::{LayerBase, LayerInfo};
use super::multi_eviction::{ChannelsAside, WriteChannels};
use super::page_lists::PageLists;
use super::parking::LinkedList as _;
use super::{
    AccessOutcome, BufferConfig, BufferNotice, BufferPolicy, DeviceView, EvictionKind, EvictionUnit, EvictionVeto,
    Evictions, PageAccess, PolicyError, WhenExhausted,
};

/// Describes the layer CAWR.
pub(super) const LAYER: LayerInfo = LayerInfo {
    name: "cawr",
    title: "victim blocks are written page by page, each through its own channel, several at once",
    about: "Victim blocks of the policy inside enter lists, one for each channel, and a block's channel is its own \
            for good, so that it is never spread. When no list is empty the first page of each is programmed, all at \
            the same time. Clean pages of a block are dropped when it enters.",
    paper: "CAWR, ETRI Journal 2015",
    over: LayerBase::Blocks,
    unit: Some(EvictionUnit::Page),
    chooses_channels: true,
    avoids_collection: false,
    depth: 1,
    params: &[],
    settles: &[("padding", "never"), ("insert_anchor", "current_hand"), ("protect_current", "false")],
};

/// A policy with a reordering region below it.
pub(super) struct CawrBlocks<B> {
    inner: B,
    capacity: u32,
    pages_per_block: u32,
    channels: WriteChannels,
    /// A list for each channel, the page to be written next at the back; the tag of a page is its
    /// list.
    lists: PageLists,
    /// Per list, its pages and the block they belong to.
    lengths: Vec<u32>,
    blocks: Vec<u32>,
    /// Holds the victims of the policy inside.
    victims: Evictions,
    memory_accesses: u64,
}

impl<B: BufferPolicy> CawrBlocks<B> {
    pub(super) fn new(config: BufferConfig, inner: B) -> Result<Self, PolicyError> {
        let channels = WriteChannels::new(config)?;
        Ok(Self {
            inner,
            capacity: config.capacity_pages,
            pages_per_block: config.pages_per_block,
            lists: PageLists::new(channels.count()),
            lengths: vec![0; channels.count() as usize],
            blocks: vec![0; channels.count() as usize],
            channels,
            victims: Evictions::default(),
            memory_accesses: 0,
        })
    }

    /// The list that holds pages of the block.
    #[inline]
    fn list_of(&self, block: u32) -> Option<u32> {
        (0..)
            .zip(&self.blocks)
            .zip(&self.lengths)
            .find(|((_, own), length)| **own == block && **length > 0)
            .map(|((list, _), _)| list)
    }

    /// Lets the dirty pages of a block, in ascending order, into the list of the block or an empty
    /// one; `false` if there is none.
    #[inline]
    fn enter(&mut self, pages: &[PageNo]) -> bool {
        let Some(first) = pages.first() else { return true };
        let block = first.0 / self.pages_per_block;
        let mut lists = 0..self.channels.count();
        let empty = || lists.find(|&list| self.lengths[list as usize] == 0 && self.channels.is_open(list));
        // A block of which pages still wait keeps its channel; otherwise its pages would be spread.
        let Some(list) = self.list_of(block).or_else(empty) else { return false };
        for &page in pages {
            let frame = self.lists.insert(list, page, true);
            self.lists.frame_mut(frame).tag = list as u16;
        }
        self.lengths[list as usize] += pages.len() as u32;
        self.blocks[list as usize] = block;
        self.memory_accesses += pages.len() as u64;
        true
    }

    /// Takes a page out of its list, of which it returns the number.
    #[inline]
    fn leave(&mut self, frame: u32) -> u16 {
        let list = self.lists.remove(frame).tag;
        self.lengths[usize::from(list)] -= 1;
        self.memory_accesses += 1;
        list
    }

    /// Is true if every list that takes part in a multi-eviction has a page.
    #[inline]
    fn is_complete(&self) -> bool {
        (0..).zip(&self.lengths).all(|(list, &length)| length > 0 || !self.channels.is_open(list))
    }

    /// Programs the first page of each list that has one and takes part, or does what the veto
    /// wants where no list may be written.
    fn program<V: EvictionVeto>(&mut self, veto: &mut V, out: &mut Evictions) -> bool {
        let may = (0..).zip(&self.lengths).any(|(list, &length)| length > 0 && self.channels.is_open(list));
        if self.channels.is_closed() || !may {
            if self.len() == 0 || veto.exhausted() == WhenExhausted::Bypass {
                return false;
            }
            self.channels.open_all();
        }
        self.write_heads(out)
    }

    /// Writes the first page of each list that has one and takes part; returns whether there were
    /// any.
    fn write_heads(&mut self, out: &mut Evictions) -> bool {
        let before = out.len();
        let heads = (0..self.channels.count()).filter_map(|list| {
            let any = self.lengths[list as usize] > 0 && self.channels.is_open(list);
            any.then(|| {
                let oldest = self.lists.prev(list);
                let page = self.lists.frame(oldest).page();
                (page, self.leave(oldest))
            })
        });
        out.spread_pages(EvictionKind::Flush, heads);
        out.len() > before
    }
}

impl<B: BufferPolicy> BufferPolicy for CawrBlocks<B> {
    fn grow(&mut self, pages: u32) {
        self.inner.grow(pages);
        self.lists.grow(pages);
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
        if self.lists.find(access.page) != 0 {
            return AccessOutcome::Hit;
        }
        if self.len() == self.capacity && self.inner.admits(access) && !self.evict(device, veto, out) {
            return AccessOutcome::Bypassed;
        }
        self.inner.access(access, device, &mut ChannelsAside(veto), out)
    }

    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        self.channels.look(veto);
        while !self.is_complete() {
            if self.inner.is_empty() || !self.inner.evict(device, &mut ChannelsAside(veto), &mut self.victims) {
                break;
            }
            let victims = std::mem::take(&mut self.victims);
            let before = out.len();
            for (group, pages) in victims.groups() {
                match group.kind {
                    EvictionKind::Drop => pages.iter().for_each(|&page| out.page(EvictionKind::Drop, page)),
                    _ => assert!(self.enter(pages), "a list is empty"),
                }
            }
            self.victims = victims;
            self.victims.clear();
            if out.len() > before {
                return true;
            }
        }
        self.program(veto, out)
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
            BufferNotice::GcEnd { .. } => return,
            BufferNotice::Resume { .. } | BufferNotice::Idle | BufferNotice::Flush => {}
            BufferNotice::Destage { page, .. } | BufferNotice::Trim { page } => {
                let frame = self.lists.find(page);
                if frame != 0 {
                    let channel = self.leave(frame);
                    if matches!(notice, BufferNotice::Trim { .. }) {
                        out.page(EvictionKind::Drop, page);
                    } else {
                        out.spread_pages(EvictionKind::Flush, std::iter::once((page, channel)));
                    }
                    return;
                }
            }
        }
        self.inner.notify(notice, device, &mut ChannelsAside(veto), &mut self.victims);
        let victims = std::mem::take(&mut self.victims);
        for (group, pages) in victims.groups() {
            if group.kind == EvictionKind::Drop {
                for &page in pages {
                    out.page(EvictionKind::Drop, page);
                }
            } else if notice == BufferNotice::Flush {
                // A flush can give up more blocks than there are lists: heads are written until one is
                // empty.
                while !self.enter(pages) {
                    self.write_heads(out);
                }
            } else {
                let list = self.list_of(pages[0].0 / self.pages_per_block);
                // What a host asks for is written at once, through the block's channel if it has one.
                let channel = list.map_or_else(|| self.channels.turn(), |list| list as u16);
                out.spread_pages(group.kind, pages.iter().map(|&page| (page, channel)));
            }
        }
        self.victims = victims;
        self.victims.clear();
        if notice == BufferNotice::Flush {
            while self.write_heads(out) {}
        }
    }

    fn admits(&self, access: PageAccess) -> bool {
        self.lists.find(access.page) == 0 && self.inner.admits(access)
    }

    fn len(&self) -> u32 {
        self.inner.len() + self.lists.len()
    }

    fn memory_accesses(&self) -> u64 {
        self.inner.memory_accesses() + self.memory_accesses
    }
}
