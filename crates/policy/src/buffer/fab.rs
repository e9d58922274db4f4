//! FAB, flash-aware buffer (Jo et al., TCE 2006; LB-CLOCK §III; specs §5.1).
//!
//! Idea: group pages by logical block and give up the block with the most buffered pages, of several the least
//! recently used. Large blocks cost the fewest page copies when they reach the flash.
//!
//! Resolved: any access counts as a use of the block; the block of the incoming page is not protected
//! (`protect_current`); there is no padding, as in the original; `reads=bypass` makes it the write buffer of LB-CLOCK's
//! experiments.
//!
//! A list per block size, most recently used first: an access moves its block to the front of the list for its new
//! size, so the order inside each list is the order of use and the victim is the back of the highest list.

use destage_plan::PageNo;

use super::lru::{READS, caches_reads};
use super::page_bits::PageBits;
use super::{
    Access, Buffer, BufferConfig, Candidate, DeviceView, EvictionUnit, Evictions, Exhausted, Kind, Notice, Outcome,
    ParamSpec, Params, PolicyError, PolicyInfo, Registered, Veto,
};
use crate::links::Links;

/// The parameter of the block-level policies about the block of the incoming page.
pub(super) const PROTECT_CURRENT: ParamSpec = ParamSpec {
    name: "protect_current",
    default: "false",
    values: "true, false",
    unit: "-",
    help: "whether the block of the incoming page may not be its victim (specs §0.2)",
};

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
    /// Node `size` is the sentinel of the list of blocks of that size, node `pages_per_block + 1 + block` the block.
    lists: Links,
    /// Blocks per size, and a bit for each size that has any.
    blocks_of_size: Vec<u32>,
    sizes: Vec<u64>,
    blocks: u64,
    accesses: u64,
    memory_accesses: u64,
}

impl Registered for Fab {
    const INFO: PolicyInfo = PolicyInfo {
        name: "fab",
        title: "the block with the most buffered pages",
        paper: "FAB, TCE 2006, as described by LB-CLOCK §III",
        unit: EvictionUnit::Block,
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

    /// The block to give up, or `None` if every block is vetoed and the access shall bypass.
    fn victim<V: Veto>(&mut self, current: u32, veto: &mut V) -> Option<u32> {
        self.memory_accesses += self.blocks;
        let first_block = self.pages_per_block + 1;
        let largest = self.largest_size_below(self.pages_per_block + 1);
        let base = self.lists.prev(largest) - first_block;
        // A block that is alone has no other to be spared for.
        let protect = self.protect_current && self.blocks > 1;
        if !V::ACTIVE && (!protect || base != current) {
            return Some(base);
        }
        let mut unprotected = None;
        let mut size = largest;
        while size != 0 {
            let mut node = self.lists.prev(size);
            while node != size {
                let block = node - first_block;
                if !(protect && block == current) {
                    unprotected = unprotected.or(Some(block));
                    let first = PageNo(block * self.pages_per_block);
                    let candidate = Candidate::Block { first, cached: self.cached.of(block), padded: false };
                    if !veto.passes_over(candidate) {
                        return Some(block);
                    }
                }
                node = self.lists.prev(node);
            }
            size = self.largest_size_below(size);
        }
        let base = unprotected.unwrap_or(base);
        if V::ACTIVE && veto.exhausted() == Exhausted::Bypass { None } else { Some(base) }
    }

    fn evict(&mut self, block: u32, out: &mut Evictions) {
        out.group(Kind::Flush, self.dirty.pages(block, true));
        out.group(Kind::Drop, self.cached.pages_without(&self.dirty, block));
        out.end_unit();
        self.forget(block);
    }

    fn forget(&mut self, block: u32) {
        let size = std::mem::take(&mut self.count[block as usize]);
        self.len -= size;
        self.blocks -= 1;
        self.leave_size(size);
        let node = self.node(block);
        self.lists.unlink(node);
        self.cached.clear_block(block);
        self.dirty.clear_block(block);
    }

    /// Takes one page away without a use of its block.
    fn trim(&mut self, page: PageNo, out: &mut Evictions) {
        let (block, offset) = (page.0 / self.pages_per_block, page.0 % self.pages_per_block);
        if !self.cached.get(block, offset) {
            return;
        }
        out.page(Kind::Drop, page);
        if self.count[block as usize] == 1 {
            self.forget(block);
            return;
        }
        self.cached.clear(block, offset);
        self.dirty.clear(block, offset);
        self.len -= 1;
        let size = self.count[block as usize];
        self.count[block as usize] = size - 1;
        self.leave_size(size);
        self.enter_size(size - 1);
        // The block keeps its place in the order of use among the blocks of its new size.
        let node = self.node(block);
        self.lists.unlink(node);
        let mut at = self.lists.next(size - 1);
        while at != size - 1 && self.used[(at - self.pages_per_block - 1) as usize] > self.used[block as usize] {
            at = self.lists.next(at);
        }
        self.lists.insert_before(at, node);
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
    ) -> Outcome {
        self.accesses += 1;
        self.memory_accesses += 1;
        let (block, offset) = (access.page.0 / self.pages_per_block, access.page.0 % self.pages_per_block);
        if self.cached.get(block, offset) {
            if access.write {
                self.dirty.set(block, offset);
            }
            self.touch(block, self.count[block as usize]);
            return Outcome::Hit;
        }
        if !access.write && !self.cache_reads {
            return Outcome::Bypassed;
        }
        if self.len == self.capacity {
            match self.victim(block, veto) {
                Some(victim) => self.evict(victim, out),
                None => return Outcome::Bypassed,
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
        Outcome::Inserted
    }

    fn notify<D: DeviceView, V: Veto>(&mut self, notice: Notice, _device: &D, _veto: &mut V, out: &mut Evictions) {
        match notice {
            Notice::GcEnd { .. } | Notice::Idle => {}
            Notice::Flush => {
                // Blocks leave in the order in which they would be evicted; those without a dirty page stay.
                let first_block = self.pages_per_block + 1;
                let mut size = self.largest_size_below(first_block);
                while size != 0 {
                    let mut node = self.lists.prev(size);
                    while node != size {
                        let before = self.lists.prev(node);
                        let block = node - first_block;
                        if self.dirty.of(block).iter().any(|&word| word != 0) {
                            self.evict(block, out);
                        }
                        node = before;
                    }
                    size = self.largest_size_below(size);
                }
            }
            Notice::Trim { page } => self.trim(page, out),
        }
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }
}
