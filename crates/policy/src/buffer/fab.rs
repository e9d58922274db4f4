//! FAB, flash-aware buffer (Jo et al., TCE 2006; LB-CLOCK §III; specs §5.1).
//!
//! Idea: group pages by logical block and give up the block with the most buffered pages, of
//! several the least recently used. Large blocks cost the fewest page copies when they reach the
//! flash.
//!
//! Resolved: any access counts as a use of the block; the block of the incoming page is not
//! protected (`protect_current`); there is no padding, as in the original; `reads=bypass` makes it
//! the write buffer of LB-CLOCK's experiments.
//!
//! A list per block size, most recently used first: an access moves its block to the front of the
//! list for its new size, so the order inside each list is the order of use and the victim is the
//! back of the highest list. What a veto passed over stands in no list until it is taken back.

mod vetoes;

use destage_plan::{PageNo, Params};

use self::vetoes::Vetoes;
use super::options::{PROTECT_CURRENT, READS, caches_reads};
use super::page_bits::PageBits;
use super::{
    Access, AccessOutcome, Buffer, BufferConfig, BufferNotice, DeviceView, EvictionKind, EvictionUnit, Evictions,
    NO_BLOCK, PolicyError, PolicyInfo, Registered, Veto,
};
use crate::links::Links;

/// Flash-aware buffer.
#[derive(Clone, Debug)]
pub struct Fab {
    pages_per_block: u32,
    capacity: u32,
    len: u32,
    cache_reads: bool,
    protect_current: bool,
    cached: PageBits,
    dirty: PageBits,
    /// Pages buffered per block.
    count: Vec<u32>,
    /// When the block was last used, in accesses.
    used: Vec<u64>,
    /// Node `size` is the sentinel of the list of blocks of that size, node
    /// `pages_per_block + 1 + block` the block.
    lists: Links,
    /// Blocks per size, and a bit for each size that has any.
    blocks_of_size: Vec<u32>,
    sizes: Vec<u64>,
    blocks: u64,
    vetoes: Vetoes,
    accesses: u64,
    memory_accesses: u64,
}

impl Registered for Fab {
    const INFO: PolicyInfo = PolicyInfo {
        name: "fab",
        title: "the block with the most buffered pages",
        about: "Pages are grouped by logical block, and the block with the most buffered pages leaves whole, of \
                several the least recently used. Large blocks cost the fewest page copies when they reach flash.",
        paper: "FAB, TCE 2006, as described by LB-CLOCK §III",
        unit: EvictionUnit::Block,
        chooses_channels: false,
        params: &[READS, PROTECT_CURRENT],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let n = config.pages_per_block;
        Ok(Self {
            pages_per_block: n,
            capacity: config.capacity_pages,
            len: 0,
            cache_reads: caches_reads(params)?,
            protect_current: params.switch(PROTECT_CURRENT.name)?,
            cached: PageBits::new(n),
            dirty: PageBits::new(n),
            count: Vec::new(),
            used: Vec::new(),
            lists: Links::new(n + 1),
            blocks_of_size: vec![0; n as usize + 1],
            sizes: vec![0; (n as usize + 1).div_ceil(64)],
            blocks: 0,
            vetoes: Vetoes::default(),
            accesses: 0,
            memory_accesses: 0,
        })
    }
}

impl Fab {
    #[inline]
    fn node(&self, block: u32) -> u32 {
        self.pages_per_block + 1 + block
    }

    #[inline]
    fn leave_size(&mut self, size: u32) {
        let left = &mut self.blocks_of_size[size as usize];
        *left -= 1;
        if *left == 0 {
            self.sizes[size as usize / 64] &= !(1 << (size % 64));
        }
    }

    #[inline]
    fn enter_size(&mut self, size: u32) {
        self.blocks_of_size[size as usize] += 1;
        self.sizes[size as usize / 64] |= 1 << (size % 64);
    }

    /// Records a use of `block`, which holds `before` pages and now `count[block]`.
    #[inline]
    fn touch(&mut self, block: u32, before: u32) {
        self.memory_accesses += 1;
        self.take_back(block, before);
        let size = self.count[block as usize];
        self.used[block as usize] = self.accesses;
        let node = self.node(block);
        self.lists.move_after(size, node);
        if size != before {
            if before == 0 {
                self.blocks += 1;
            } else {
                self.leave_size(before);
            }
            self.enter_size(size);
        }
    }

    /// Puts a block that is in no list into that of its size, `at` being the place to begin with
    /// and no less recently used than it should be.
    fn insert_in_order(&mut self, block: u32, mut at: u32) -> u32 {
        let (size, used) = (self.count[block as usize], self.used[block as usize]);
        while at != size && self.used[(at - self.pages_per_block - 1) as usize] < used {
            at = self.lists.prev(at);
        }
        let node = self.node(block);
        self.lists.insert_after(at, node);
        at
    }

    /// The largest size below `limit` of which there are blocks, or 0.
    #[inline]
    fn largest_size_below(&self, limit: u32) -> u32 {
        let mut word = (limit / 64) as usize;
        let mut bits = if word < self.sizes.len() { self.sizes[word] & ((1 << (limit % 64)) - 1) } else { 0 };
        loop {
            if bits != 0 {
                return word as u32 * 64 + 63 - bits.leading_zeros();
            }
            if word == 0 {
                return 0;
            }
            word -= 1;
            bits = self.sizes[word];
        }
    }

    /// The block at a node of the lists, if it is none of the sentinels.
    #[inline]
    fn block_at(&self, node: u32) -> Option<u32> {
        node.checked_sub(self.pages_per_block + 1)
    }

    /// The block that would leave first.
    #[inline]
    fn first(&self) -> Option<u32> {
        self.block_at(self.lists.prev(self.largest_size_below(self.pages_per_block + 1)))
    }

    /// The block that would leave after another one.
    fn after(&self, block: u32) -> Option<u32> {
        let node = self.lists.prev(self.node(block));
        self.block_at(node).or_else(|| self.block_at(self.lists.prev(self.largest_size_below(node))))
    }

    /// The block to give up, or `None` if every block is vetoed and the access shall bypass.
    fn victim<V: Veto>(&mut self, current: u32, veto: &mut V) -> Option<u32> {
        self.memory_accesses += self.blocks;
        // A block that is alone has no other to be spared for.
        let spared = if self.protect_current && self.blocks > 1 { current } else { NO_BLOCK };
        if V::ACTIVE {
            return self.victim_under(spared, veto);
        }
        let first = self.first()?;
        if first == spared { self.after(first) } else { Some(first) }
    }

    fn give_up(&mut self, block: u32, out: &mut Evictions) {
        out.group(EvictionKind::Flush, self.dirty.pages(block, true));
        out.group(EvictionKind::Drop, self.cached.pages_without(&self.dirty, block));
        out.end_unit();
        self.forget(block);
    }

    fn forget(&mut self, block: u32) {
        let size = std::mem::take(&mut self.count[block as usize]);
        self.len -= size;
        self.blocks -= 1;
        self.take_back(block, size);
        self.leave_size(size);
        let node = self.node(block);
        self.lists.unlink(node);
        self.cached.clear_block(block);
        self.dirty.clear_block(block);
    }

    /// Writes the dirty pages of a page's block; with them it leaves, or stays with all its pages
    /// clean.
    fn destage(&mut self, page: PageNo, keep: bool, out: &mut Evictions) {
        let (block, offset) = (page.0 / self.pages_per_block, page.0 % self.pages_per_block);
        if !self.cached.get(block, offset) || self.dirty.of(block).iter().all(|&word| word == 0) {
            return;
        }
        if keep {
            out.group(EvictionKind::Clean, self.dirty.pages(block, true));
            out.end_unit();
            self.dirty.clear_block(block);
            self.take_back_in_order(block);
        } else {
            self.give_up(block, out);
        }
    }

    /// Takes one page away without a use of its block.
    fn trim(&mut self, page: PageNo, out: &mut Evictions) {
        let (block, offset) = (page.0 / self.pages_per_block, page.0 % self.pages_per_block);
        if !self.cached.get(block, offset) {
            return;
        }
        out.page(EvictionKind::Drop, page);
        if self.count[block as usize] == 1 {
            self.forget(block);
            return;
        }
        self.cached.clear(block, offset);
        self.dirty.clear(block, offset);
        self.len -= 1;
        let size = self.count[block as usize];
        self.count[block as usize] = size - 1;
        self.take_back(block, size);
        self.leave_size(size);
        self.enter_size(size - 1);
        // The block keeps its place in the order of use among the blocks of its new size.
        let node = self.node(block);
        self.lists.unlink(node);
        self.insert_in_order(block, self.lists.prev(size - 1));
    }
}

impl Buffer for Fab {
    fn grow(&mut self, pages: u32) {
        let blocks = pages.div_ceil(self.pages_per_block).max(self.count.len() as u32);
        self.cached.grow(blocks);
        self.dirty.grow(blocks);
        self.count.resize(blocks as usize, 0);
        self.used.resize(blocks as usize, 0);
        self.lists.grow(self.pages_per_block + 1 + blocks);
    }

    #[inline]
    fn access<D: DeviceView, V: Veto>(
        &mut self,
        access: Access,
        _device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        self.accesses += 1;
        self.memory_accesses += 1;
        let (block, offset) = (access.page.0 / self.pages_per_block, access.page.0 % self.pages_per_block);
        if self.cached.get(block, offset) {
            if access.write {
                self.dirty.set(block, offset);
            }
            self.touch(block, self.count[block as usize]);
            return AccessOutcome::Hit;
        }
        if !access.write && !self.cache_reads {
            return AccessOutcome::Bypassed;
        }
        if self.len == self.capacity {
            match self.victim(block, veto) {
                Some(victim) => self.give_up(victim, out),
                None => return AccessOutcome::Bypassed,
            }
        }
        self.cached.set(block, offset);
        if access.write {
            self.dirty.set(block, offset);
        }
        let before = self.count[block as usize];
        self.count[block as usize] = before + 1;
        self.len += 1;
        self.touch(block, before);
        AccessOutcome::Inserted
    }

    fn evict<D: DeviceView, V: Veto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        if self.len == 0 {
            return false;
        }
        let Some(victim) = self.victim(NO_BLOCK, veto) else { return false };
        self.give_up(victim, out);
        true
    }

    fn notify<D: DeviceView, V: Veto>(
        &mut self,
        notice: BufferNotice,
        _device: &D,
        _veto: &mut V,
        out: &mut Evictions,
    ) {
        match notice {
            BufferNotice::GcEnd { .. } | BufferNotice::Idle => {}
            BufferNotice::Resume { element } => self.resume(element),
            BufferNotice::Destage { page, keep } => self.destage(page, keep, out),
            BufferNotice::Flush => {
                // Blocks leave in the order in which they would be evicted; those without a dirty
                // page stay.
                self.resume_all();
                let first_block = self.pages_per_block + 1;
                let mut size = self.largest_size_below(first_block);
                while size != 0 {
                    let mut node = self.lists.prev(size);
                    while node != size {
                        let before = self.lists.prev(node);
                        let block = node - first_block;
                        if self.dirty.of(block).iter().any(|&word| word != 0) {
                            self.give_up(block, out);
                        }
                        node = before;
                    }
                    size = self.largest_size_below(size);
                }
            }
            BufferNotice::Trim { page } => self.trim(page, out),
        }
    }

    fn admits(&self, access: Access) -> bool {
        let (block, offset) = (access.page.0 / self.pages_per_block, access.page.0 % self.pages_per_block);
        !self.cached.get(block, offset) && (access.write || self.cache_reads)
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }
}
