//! LB-CLOCK, large block CLOCK (Debnath et al., 2010; specs §5.5).
//!
//! Idea: a CLOCK over logical blocks. The hand clears recency bits until it meets a block whose bit
//! was 0 before; of all blocks whose bit was 0 before this round the one with the most pages
//! leaves. A block whose last page is written is offered as a victim at once when it is full, or
//! larger than the previous victim.
//!
//! Resolved (specs §10.5): the blocks reset in this very round are no candidates unless the hand
//! made a whole turn (`candidate_rule`, Fig. 2 of the paper); ties go to the first block clockwise
//! from the hand; a new block enters right before the block the hand pointed at when the access
//! began (`insert_anchor`); the previous victim's size before there was one is N (`prev_init`); a
//! read sets no bit (`read_sets_bit`) and read misses are not cached. A flush gives the blocks up
//! clockwise from the hand and is no eviction for `prev`; a trim leaves the block where it is.
//!
//! The victim is found without a scan of the ring: every block carries a label, and the labels
//! ascend clockwise from the hand, because the hand gives each block that it passes the next higher
//! one ([`BlockCandidates`]). What leaves in its place where it is protected or vetoed is in
//! `vetoes.rs`.

mod candidates;
mod vetoes;

use destage_plan::{Element, ParamSpec, Params};

use self::candidates::BlockCandidates;
use self::vetoes::VetoedBlocks;
use crate::buffer::block_buffer::{BlockPolicy, HeldBlock, PolicyBlocks};
use crate::buffer::options::PROTECT_CURRENT;
use crate::buffer::{BufferConfig, EvictionUnit, EvictionVeto, NO_BLOCK, PolicyError, PolicyInfo};
use crate::links::NodeLinks;

/// A block's place and state in the ring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RingState {
    /// Ascends clockwise from the hand; 0 for a block that is not in the ring.
    label: u64,
    /// The recency bit.
    recent: bool,
    /// A veto passed it over, and nothing has happened to it since.
    parked: bool,
}

/// Large block CLOCK.
#[derive(Clone, Debug)]
pub(super) struct LbClock {
    pages_per_block: u32,
    preempt: bool,
    sequential: bool,
    anchor_is_initial_hand: bool,
    candidates_include_reset: bool,
    read_sets_bit: bool,
    /// Pages of the block evicted last.
    previous: u32,
    ring: NodeLinks,
    hand: u32,
    /// Holds the place where the block of the incoming page enters the ring, if the eviction for that page
    /// sets one.
    entry: Option<RingEntryPoint>,
    next_label: u64,
    candidates: BlockCandidates,
    /// Blocks that the hand reset in the present round.
    reset: Vec<u32>,
    vetoes: VetoedBlocks,
}

/// Names the place where a block enters the ring.
#[derive(Clone, Copy, Debug)]
struct RingEntryPoint {
    before: u32,
    label: u64,
}

const OPT_PREEMPT: ParamSpec = ParamSpec {
    name: "opt_preempt",
    default: "true",
    values: "true, false",
    unit: "-",
    help: "preemptive victim candidate selection (paper §IV.D.1)",
};
const OPT_SEQ: ParamSpec = ParamSpec {
    name: "opt_seq",
    default: "true",
    values: "true, false",
    unit: "-",
    help: "sequential write detection (paper §IV.D.2); implied by opt_preempt",
};
const INSERT_ANCHOR: ParamSpec = ParamSpec {
    name: "insert_anchor",
    default: "initial_hand",
    values: "initial_hand, current_hand",
    unit: "-",
    help: "a new block enters right before the hand as it was when the access began, or as it is after the eviction",
};
const CANDIDATE_RULE: ParamSpec = ParamSpec {
    name: "candidate_rule",
    default: "prior_zero",
    values: "prior_zero, all_zero",
    unit: "-",
    help: "whether blocks reset in the present round are candidates too (all_zero)",
};
const PREV_INIT: ParamSpec = ParamSpec {
    name: "prev_init",
    default: "block",
    values: "block (N), or a number of pages",
    unit: "pages",
    help: "size of the previous victim before there was one",
};
const READ_SETS_BIT: ParamSpec = ParamSpec {
    name: "read_sets_bit",
    default: "false",
    values: "true, false",
    unit: "-",
    help: "whether a read of a buffered page sets its block's recency bit",
};

impl BlockPolicy for LbClock {
    const INFO: PolicyInfo = PolicyInfo {
        name: "lb-clock",
        title: "block CLOCK that gives up the largest block not recently written",
        about: "A write buffer of logical blocks in a ring, each with a bit that a write sets. A hand clears bits \
                until it meets a block whose bit was clear, and of all blocks whose bit was clear before this round \
                the one with the most pages leaves. A block whose last page is written is offered as a victim at \
                once when it is full, or larger than the previous victim.",
        paper: "LB-CLOCK, 2010",
        year: 2010,
        unit: EvictionUnit::Block,
        chooses_channels: false,
        params: &[OPT_PREEMPT, OPT_SEQ, INSERT_ANCHOR, CANDIDATE_RULE, PREV_INIT, READ_SETS_BIT, PROTECT_CURRENT],
    };

    type History = RingState;

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let n = config.pages_per_block;
        let previous = match params.text(PREV_INIT.name) {
            "block" => n,
            _ => params.number(PREV_INIT.name, ..)?,
        };
        Ok(Self {
            pages_per_block: n,
            preempt: params.switch(OPT_PREEMPT.name)?,
            sequential: params.switch(OPT_SEQ.name)?,
            anchor_is_initial_hand: params
                .choice(INSERT_ANCHOR.name, &[("initial_hand", true), ("current_hand", false)])?,
            candidates_include_reset: params
                .choice(CANDIDATE_RULE.name, &[("prior_zero", false), ("all_zero", true)])?,
            read_sets_bit: params.switch(READ_SETS_BIT.name)?,
            previous,
            ring: NodeLinks::default(),
            hand: NO_BLOCK,
            entry: None,
            next_label: 1,
            candidates: BlockCandidates::new(n),
            reset: Vec::new(),
            vetoes: VetoedBlocks::default(),
        })
    }

    fn grow(&mut self, blocks: u32) {
        self.ring.grow(blocks);
    }

    #[inline(always)]
    fn note_use<V: EvictionVeto>(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32, offset: u32, is_added: bool) {
        if is_added && blocks.pages_of(block) == 1 {
            self.enter::<V>(blocks, block);
        } else {
            self.set_bit::<V>(blocks, block, is_added);
        }
        if offset == self.pages_per_block - 1 {
            self.check_last_page(blocks, block);
        }
    }

    #[inline]
    fn note_read<V: EvictionVeto>(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32) {
        if self.read_sets_bit {
            self.set_bit::<V>(blocks, block, false);
        }
    }

    #[inline]
    fn note_departure(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32) {
        self.reconsider(blocks, block);
        let HeldBlock { pages, history: RingState { recent, .. } } = blocks.blocks[block as usize];
        if !recent {
            self.candidates.remove(pages);
        }
        if blocks.held == 1 {
            self.hand = NO_BLOCK;
        } else if self.hand == block {
            self.hand = self.ring.next(block);
        }
        self.ring.unlink(block);
    }

    /// Leaves the block where it is.
    fn note_trim(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32, pages_before: u32) {
        let RingState { recent, parked, .. } = blocks.blocks[block as usize].history;
        if parked {
            self.unpark(blocks, block);
        } else if !recent {
            self.candidates.remove(pages_before);
            self.candidates.add(&blocks.blocks, block);
        }
    }

    fn resume(&mut self, blocks: &mut PolicyBlocks<Self>, element: Element) {
        self.resume_parked(blocks, element);
    }

    /// Returns the block under the hand, which a flush gives up.
    fn first(&mut self, blocks: &mut PolicyBlocks<Self>) -> Option<u32> {
        (blocks.held > 0).then_some(self.hand)
    }

    /// Turns the hand, and notes where the block of `current` enters the ring if it is not in it.
    fn victim<V: EvictionVeto>(&mut self, blocks: &mut PolicyBlocks<Self>, current: u32, veto: &mut V) -> Option<u32> {
        // The label of a block between those the hand has not reached and those it is about to
        // pass.
        let label = self.label();
        let mut before = self.hand;
        self.turn(blocks);
        // After a whole turn no block had a clear bit before, and the reset ones are all there is to choose
        // from.
        if self.reset.len() as u32 == blocks.held || self.candidates_include_reset {
            self.admit_reset_blocks(blocks);
        }
        let spared = blocks.spared(current);
        let victim = if !V::ACTIVE && spared == NO_BLOCK {
            self.largest_candidate(blocks)
        } else {
            self.victim_but(blocks, spared, veto)
        }?;
        self.previous = blocks.pages_of(victim);
        // The entry point must outlive the eviction that comes before the entry.
        if victim == before {
            before = self.ring.next(before);
        }
        // Of a block in the ring only the bit is set, unless it is the victim.
        let is_entering = current != NO_BLOCK && (current == victim || blocks.pages_of(current) == 0);
        let is_anchored = self.anchor_is_initial_hand && is_entering && blocks.held > 1;
        self.entry = is_anchored.then_some(RingEntryPoint { before, label });
        Some(victim)
    }
}

impl LbClock {
    fn label(&mut self) -> u64 {
        self.next_label += 1;
        self.next_label - 1
    }

    /// Clears bits until the hand stands on a block whose bit was 0 before the round, or has made a
    /// whole turn. The blocks passed are in `self.reset` and not yet candidates.
    fn turn(&mut self, blocks: &mut PolicyBlocks<Self>) {
        debug_assert!(self.reset.is_empty());
        // Labels are handed out as the hand passes, so that they ascend from the hand round the ring.
        while blocks.blocks[self.hand as usize].history.recent {
            blocks.memory_accesses += 1;
            let label = self.label();
            let block = &mut blocks.blocks[self.hand as usize].history;
            block.recent = false;
            block.label = label;
            self.reset.push(self.hand);
            self.hand = self.ring.next(self.hand);
        }
    }

    fn admit_reset_blocks(&mut self, blocks: &PolicyBlocks<Self>) {
        let mut reset = std::mem::take(&mut self.reset);
        reset.drain(..).for_each(|block| self.become_candidate(blocks, block));
        self.reset = reset;
    }

    /// The blocks from the one under the hand on.
    fn clockwise(&self, blocks: &PolicyBlocks<Self>) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(self.hand), |&block| Some(self.ring.next(block))).take(blocks.held as usize)
    }

    /// The bit of the block was cleared.
    #[inline]
    fn become_candidate(&mut self, blocks: &PolicyBlocks<Self>, block: u32) {
        self.candidates.add(&blocks.blocks, block);
        self.vetoes.note_cleared(&blocks.blocks, block);
    }

    /// The victim of the paper: the largest candidate. The blocks just reset are candidates from
    /// then on.
    #[inline]
    fn largest_candidate(&mut self, blocks: &mut PolicyBlocks<Self>) -> Option<u32> {
        // The published search visits each candidate; the heaps only spare this program that.
        blocks.memory_accesses += u64::from(self.candidates.total);
        let largest = self.candidates.largest_size();
        let victim = largest.and_then(|size| self.candidates.first(&blocks.blocks, size));
        self.admit_reset_blocks(blocks);
        victim
    }

    /// Enters a new block where the eviction for it said, or right before the hand: as the last block
    /// that it will reach.
    #[inline]
    fn enter<V: EvictionVeto>(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32) {
        // Right before the hand a new block is the last that it will reach, and needs a fresh label.
        let anchored = self.entry.take().filter(|entry| entry.before != self.hand);
        let RingEntryPoint { before, label } =
            anchored.unwrap_or_else(|| RingEntryPoint { before: self.hand, label: self.label() });
        if blocks.held == 1 {
            self.hand = block;
        } else {
            self.ring.insert_before(before, block);
        }
        blocks.blocks[block as usize].history = RingState { label, recent: true, parked: false };
        self.note_set::<V>(blocks, block);
        blocks.memory_accesses += 1;
    }

    /// Sets the recency bit of a block in the ring, to which a page has just been added or not.
    #[inline]
    fn set_bit<V: EvictionVeto>(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32, is_added: bool) {
        blocks.memory_accesses += 1;
        let HeldBlock { pages, history: own } = &mut blocks.blocks[block as usize];
        let was_parked = V::ACTIVE && std::mem::take(&mut own.parked);
        if own.recent {
            if was_parked {
                self.vetoes.note_unparked(block);
            }
            return;
        }
        own.recent = true;
        if was_parked {
            self.candidates.remove_parked();
        } else {
            // The candidate was counted with the size that it had before the page came.
            self.candidates.remove(*pages - u32::from(is_added));
        }
        self.note_set::<V>(blocks, block);
    }

    /// Clears the recency bit of a block whose last page was written, if the optimisations say so.
    #[inline]
    fn check_last_page(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32) {
        let count = blocks.pages_of(block);
        let full = count == self.pages_per_block;
        if (full && (self.preempt || self.sequential)) || (self.preempt && count > self.previous) {
            blocks.memory_accesses += 1;
            blocks.blocks[block as usize].history.recent = false;
            self.candidates.add(&blocks.blocks, block);
        }
    }
}
