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

mod passed_over;

use destage_plan::{Element, Params};

use self::passed_over::PassedOver;
use crate::buffer::block_buffer::{BlockPolicy, HeldBlock, PolicyBlocks};
use crate::buffer::options::{PROTECT_CURRENT, READS};
use crate::buffer::{BufferConfig, EvictionUnit, EvictionVeto, PolicyError, PolicyInfo};
use crate::links::NodeLinks;

/// Flash-aware buffer.
#[derive(Clone, Debug)]
pub(super) struct Fab {
    pages_per_block: u32,
    /// Node `size` is the sentinel of the list of blocks of that size, node
    /// `pages_per_block + 1 + block` the block.
    lists: NodeLinks,
    /// Blocks per size, and a bit for each size that has any.
    blocks_of_size: Vec<u32>,
    sizes: Vec<u64>,
    passed_over: PassedOver,
    uses: u64,
}

impl BlockPolicy for Fab {
    const INFO: PolicyInfo = PolicyInfo {
        name: "fab",
        title: "the block with the most buffered pages",
        about: "Pages are grouped by logical block, and the block with the most buffered pages leaves whole, of \
                several the least recently used. Large blocks cost the fewest page copies when they reach flash.",
        paper: "FAB, TCE 2006, as described by LB-CLOCK §III",
        year: 2006,
        unit: EvictionUnit::Block,
        chooses_channels: false,
        params: &[READS, PROTECT_CURRENT],
    };

    const KEEPS_CLEAN: bool = true;

    /// Holds the number of the block's last use, in uses of any block.
    type History = u64;

    fn with_params(config: BufferConfig, _params: &Params) -> Result<Self, PolicyError> {
        let n = config.pages_per_block;
        Ok(Self {
            pages_per_block: n,
            lists: NodeLinks::new(n + 1),
            blocks_of_size: vec![0; n as usize + 1],
            sizes: vec![0; (n as usize + 1).div_ceil(64)],
            passed_over: PassedOver::default(),
            uses: 0,
        })
    }

    fn grow(&mut self, blocks: u32) {
        self.lists.grow(self.pages_per_block + 1 + blocks);
    }

    #[inline(always)]
    fn note_use<V: EvictionVeto>(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32, _offset: u32, is_added: bool) {
        blocks.memory_accesses += 1;
        let size = blocks.pages_of(block);
        if self.passed_over.unpark(block) {
            self.enter_size(size - u32::from(is_added));
        }
        self.uses += 1;
        blocks.blocks[block as usize].history = self.uses;
        self.lists.move_after(size, self.node(block));
        if is_added {
            if size > 1 {
                self.leave_size(size - 1);
            }
            self.enter_size(size);
        }
    }

    #[inline]
    fn note_departure(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32) {
        let size = blocks.pages_of(block);
        self.take_back(block, size);
        self.leave_size(size);
        self.lists.unlink(self.node(block));
    }

    /// Keeps the block's place in the order of use among the blocks of its new size.
    fn note_trim(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32, pages_before: u32) {
        let size = pages_before - 1;
        self.take_back(block, pages_before);
        self.leave_size(pages_before);
        self.enter_size(size);
        self.lists.unlink(self.node(block));
        self.insert_in_order(blocks, block, self.lists.prev(size));
    }

    fn note_cleaned(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32) {
        self.take_back_in_order(blocks, block);
    }

    #[inline]
    fn first(&mut self, _blocks: &mut PolicyBlocks<Self>) -> Option<u32> {
        self.block_at(self.lists.prev(self.largest_size_below(self.pages_per_block + 1)))
    }

    fn after(&mut self, _blocks: &mut PolicyBlocks<Self>, block: u32) -> Option<u32> {
        let node = self.lists.prev(self.node(block));
        self.block_at(node).or_else(|| self.block_at(self.lists.prev(self.largest_size_below(node))))
    }

    #[inline]
    fn search_cost(&self, blocks: &PolicyBlocks<Self>) -> u64 {
        blocks.held.into()
    }

    fn pass_over(&mut self, blocks: &mut PolicyBlocks<Self>, element: Element, block: u32) {
        self.lists.unlink(self.node(block));
        self.leave_size(blocks.pages_of(block));
        self.passed_over.park(&blocks.blocks, element, block);
    }

    fn base(&mut self, blocks: &mut PolicyBlocks<Self>, spared: u32, _asked: Option<u32>) -> Option<u32> {
        self.passed_over.first_but(&blocks.blocks, spared)
    }

    fn resume(&mut self, blocks: &mut PolicyBlocks<Self>, element: Element) {
        let resumed = self.passed_over.resume(&blocks.blocks, element);
        let (mut list, mut at) = (0, 0);
        for &(_, block) in &resumed {
            let size = blocks.pages_of(block);
            if size != list {
                (list, at) = (size, self.lists.prev(size));
            }
            self.enter_size(size);
            at = self.insert_in_order(blocks, block, at);
        }
        self.passed_over.reuse(element, resumed);
    }

    fn resume_all(&mut self, blocks: &mut PolicyBlocks<Self>) {
        self.passed_over.elements().for_each(|element| self.resume(blocks, element));
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
        // The bitmap of sizes makes the largest block a matter of a few words.
        self.blocks_of_size[size as usize] += 1;
        self.sizes[size as usize / 64] |= 1 << (size % 64);
    }

    /// Puts a block that is in no list into that of its size, `at` being the place to begin with
    /// and no less recently used than it should be.
    fn insert_in_order(&mut self, blocks: &PolicyBlocks<Self>, block: u32, mut at: u32) -> u32 {
        let HeldBlock { pages: size, history: used } = blocks.blocks[block as usize];
        // Blocks come back near the old end of a list, where few are older.
        while at != size && blocks.blocks[(at - self.pages_per_block - 1) as usize].history < used {
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

    /// Takes back a block of `size` pages if it is parked; the caller gives it its place, or
    /// forgets it.
    #[inline]
    fn take_back(&mut self, block: u32, size: u32) {
        if self.passed_over.unpark(block) {
            self.enter_size(size);
        }
    }

    /// Puts a block back into its place if it is parked: it is no longer what was passed over.
    fn take_back_in_order(&mut self, blocks: &PolicyBlocks<Self>, block: u32) {
        if self.passed_over.unpark(block) {
            let size = blocks.pages_of(block);
            self.enter_size(size);
            self.insert_in_order(blocks, block, self.lists.prev(size));
        }
    }
}
