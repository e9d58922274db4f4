//! BPLRU, block padding LRU (Kim and Ahn, FAST 2008; LB-CLOCK §III; specs §5.2).
//!
//! Idea: a write buffer in LRU order of logical blocks. The victim is padded: its missing pages are
//! read and the whole block is written in order, so that a log-block FTL can switch instead of
//! merge. A block written completely and in order is unlikely to be written again soon and becomes
//! the next victim at once (LRU compensation).
//!
//! Resolved: a read of a buffered page is served and moves nothing, other reads go to flash; a
//! sequence is the offsets 0, 1, …, N−1 each written exactly once and in order since the block
//! entered (`seq_detect=ordered`), or, as LB-CLOCK describes it, a write to the last page while all
//! others are buffered (`last_page_full`). A trim breaks a sequence.

use destage_plan::{Element, ParamSpec, Params};

use crate::buffer::block_buffer::{BlockPolicy, PolicyBlocks};
use crate::buffer::options::PROTECT_CURRENT;
use crate::buffer::padding::BlockPadding;
use crate::buffer::parking::ParkedLists;
use crate::buffer::{BufferConfig, EvictionUnit, EvictionVeto, PolicyError, PolicyInfo};
use crate::links::NodeLinks;

/// The sentinel of the list; node `block + 1` is the block.
const LIST: u32 = 0;

/// Marks a block whose sequence of writes is broken.
const BROKEN: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LruCompensation {
    Off,
    Ordered,
    LastPageFull,
}

/// Block padding LRU.
#[derive(Clone, Debug)]
pub(super) struct Bplru {
    pages_per_block: u32,
    compensation: LruCompensation,
    /// Most recently used first.
    list: NodeLinks,
    /// Holds the blocks that a veto passed over.
    parking: ParkedLists,
}

const COMPENSATION: ParamSpec = ParamSpec {
    name: "compensation",
    default: "on",
    values: "on, off",
    unit: "-",
    help: "whether a block written completely and in order becomes the next victim",
};

const SEQ_DETECT: ParamSpec = ParamSpec {
    name: "seq_detect",
    default: "ordered",
    values: "ordered, last_page_full",
    unit: "-",
    help: "how such a block is recognised",
};

impl BlockPolicy for Bplru {
    const INFO: PolicyInfo = PolicyInfo {
        name: "bplru",
        title: "least recently used block, padded",
        about: "A write buffer in LRU order of logical blocks. The victim's missing pages are read and the block is \
                written whole and in order (padding), so that log-block FTLs switch instead of merge. A block that \
                was written completely and in order leaves next, since it is unlikely to be written again soon.",
        paper: "BPLRU, FAST 2008, as described by LB-CLOCK §III",
        year: 2008,
        unit: EvictionUnit::Block,
        chooses_channels: false,
        params: &[BlockPadding::PARAM, COMPENSATION, SEQ_DETECT, PROTECT_CURRENT],
    };

    const PADS: bool = true;

    /// Offsets 0..k were each written once and in order, and nothing else was: k, or [`BROKEN`].
    type History = u32;

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let detect = params.choice(
            SEQ_DETECT.name,
            &[("ordered", LruCompensation::Ordered), ("last_page_full", LruCompensation::LastPageFull)],
        )?;
        Ok(Self {
            pages_per_block: config.pages_per_block,
            compensation: if params.switch(COMPENSATION.name)? { detect } else { LruCompensation::Off },
            list: NodeLinks::new(1),
            parking: ParkedLists::default(),
        })
    }

    fn grow(&mut self, blocks: u32) {
        self.list.grow(blocks + 1);
    }

    #[inline(always)]
    fn note_use<V: EvictionVeto>(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32, offset: u32, _is_added: bool) {
        blocks.memory_accesses += 1;
        let node = block + 1;
        if self.completes_sequence(blocks, block, offset) {
            self.list.unlink(node);
            self.list.insert_before(LIST, node);
            if V::ACTIVE {
                self.parking.to_back(node);
            }
        } else {
            self.list.move_after(LIST, node);
            self.parking.used::<V>(node);
        }
    }

    #[inline]
    fn note_departure(&mut self, _blocks: &mut PolicyBlocks<Self>, block: u32) {
        self.list.unlink(block + 1);
        self.parking.forget(block + 1);
    }

    fn note_trim(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32, _pages_before: u32) {
        // A block with a gap is not written whole, whatever was written before.
        blocks.blocks[block as usize].history = BROKEN;
        self.parking.take_back(block + 1, LIST, &mut self.list);
    }

    #[inline]
    fn first(&mut self, _blocks: &mut PolicyBlocks<Self>) -> Option<u32> {
        self.list.prev(LIST).checked_sub(1)
    }

    #[inline]
    fn after(&mut self, _blocks: &mut PolicyBlocks<Self>, block: u32) -> Option<u32> {
        self.list.prev(block + 1).checked_sub(1)
    }

    fn pass_over(&mut self, _blocks: &mut PolicyBlocks<Self>, element: Element, block: u32) {
        self.list.unlink(block + 1);
        self.parking.park(element, block + 1);
    }

    fn base(&mut self, _blocks: &mut PolicyBlocks<Self>, spared: u32, _asked: Option<u32>) -> Option<u32> {
        // For no block this is the sentinel, which is never parked.
        self.parking.oldest_but(spared.wrapping_add(1)).map(|node| node - 1)
    }

    fn resume(&mut self, _blocks: &mut PolicyBlocks<Self>, element: Element) {
        self.parking.resume(element, LIST, &mut self.list);
    }

    fn resume_all(&mut self, _blocks: &mut PolicyBlocks<Self>) {
        self.parking.resume_all(LIST, &mut self.list);
    }
}

impl Bplru {
    /// Returns true if this write completes a block that is unlikely to be written again.
    #[inline]
    fn completes_sequence(&self, blocks: &mut PolicyBlocks<Self>, block: u32, offset: u32) -> bool {
        let own = &mut blocks.blocks[block as usize];
        match self.compensation {
            LruCompensation::Off => false,
            LruCompensation::LastPageFull => offset == self.pages_per_block - 1 && own.pages == self.pages_per_block,
            LruCompensation::Ordered => {
                let sequence = &mut own.history;
                // One page out of order breaks the sequence until the block has left.
                *sequence = if *sequence == offset { offset + 1 } else { BROKEN };
                *sequence == self.pages_per_block
            }
        }
    }
}
