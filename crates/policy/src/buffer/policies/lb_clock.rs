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
//! one ([`Candidates`]). What leaves in its place where it is protected or vetoed is in
//! `vetoes.rs`.

mod candidates;
mod vetoes;

use destage_plan::{ParamSpec, Params};

use self::candidates::Candidates;
use self::vetoes::Vetoes;
use crate::buffer::options::PROTECT_CURRENT;
use crate::buffer::page_bits::PageBits;
use crate::buffer::{
    Access, AccessOutcome, Buffer, BufferConfig, BufferNotice, DeviceView, EvictionKind, EvictionUnit, Evictions,
    NO_BLOCK, PolicyError, PolicyInfo, Registered, Veto,
};
use crate::links::Links;

/// A block's place and state in the ring.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Ascends clockwise from the hand; 0 for a block that is not in the ring.
    label: u64,
    /// Pages buffered.
    count: u32,
    /// The recency bit.
    recent: bool,
    /// A veto passed it over, and nothing has happened to it since.
    parked: bool,
}

/// Large block CLOCK.
#[derive(Clone, Debug)]
pub(super) struct LbClock {
    pages_per_block: u32,
    capacity: u32,
    len: u32,
    preempt: bool,
    sequential: bool,
    anchor_is_initial_hand: bool,
    candidates_include_reset: bool,
    read_sets_bit: bool,
    protect_current: bool,
    /// Pages of the block evicted last.
    previous: u32,
    cached: PageBits,
    blocks: Vec<Block>,
    ring: Links,
    hand: u32,
    ring_len: u32,
    next_label: u64,
    candidates: Candidates,
    /// Blocks that the hand reset in the present round.
    reset: Vec<u32>,
    vetoes: Vetoes,
    memory_accesses: u64,
}

/// Where a block enters the ring.
#[derive(Clone, Copy, Debug)]
struct Entry {
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

impl Registered for LbClock {
    const INFO: PolicyInfo = PolicyInfo {
        name: "lb-clock",
        title: "block CLOCK that gives up the largest block not recently written",
        about: "A write buffer of logical blocks in a ring, each with a bit that a write sets. A hand clears bits \
                until it meets a block whose bit was clear, and of all blocks whose bit was clear before this round \
                the one with the most pages leaves. A block whose last page is written is offered as a victim at \
                once when it is full, or larger than the previous victim.",
        paper: "LB-CLOCK, 2010",
        unit: EvictionUnit::Block,
        chooses_channels: false,
        params: &[OPT_PREEMPT, OPT_SEQ, INSERT_ANCHOR, CANDIDATE_RULE, PREV_INIT, READ_SETS_BIT, PROTECT_CURRENT],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let n = config.pages_per_block;
        let previous = match params.text(PREV_INIT.name) {
            "block" => n,
            _ => params.number(PREV_INIT.name, ..)?,
        };
        Ok(Self {
            pages_per_block: n,
            capacity: config.capacity_pages,
            len: 0,
            preempt: params.switch(OPT_PREEMPT.name)?,
            sequential: params.switch(OPT_SEQ.name)?,
            anchor_is_initial_hand: params
                .choice(INSERT_ANCHOR.name, &[("initial_hand", true), ("current_hand", false)])?,
            candidates_include_reset: params
                .choice(CANDIDATE_RULE.name, &[("prior_zero", false), ("all_zero", true)])?,
            read_sets_bit: params.switch(READ_SETS_BIT.name)?,
            protect_current: params.switch(PROTECT_CURRENT.name)?,
            previous,
            cached: PageBits::new(n),
            blocks: Vec::new(),
            ring: Links::default(),
            hand: NO_BLOCK,
            ring_len: 0,
            next_label: 1,
            candidates: Candidates::new(n),
            reset: Vec::new(),
            vetoes: Vetoes::default(),
            memory_accesses: 0,
        })
    }
}

impl LbClock {
    fn label(&mut self) -> u64 {
        self.next_label += 1;
        self.next_label - 1
    }

    /// Clears bits until the hand stands on a block whose bit was 0 before the round, or has made a
    /// whole turn. The blocks passed are in `self.reset` and not yet candidates.
    fn turn(&mut self) {
        debug_assert!(self.reset.is_empty());
        while self.blocks[self.hand as usize].recent {
            self.memory_accesses += 1;
            let label = self.label();
            let block = &mut self.blocks[self.hand as usize];
            block.recent = false;
            block.label = label;
            self.reset.push(self.hand);
            self.hand = self.ring.next(self.hand);
        }
    }

    fn admit_reset_blocks(&mut self) {
        let mut reset = std::mem::take(&mut self.reset);
        reset.drain(..).for_each(|block| self.become_candidate(block));
        self.reset = reset;
    }

    /// The blocks from the one under the hand on.
    fn clockwise(&self) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(self.hand), |&block| Some(self.ring.next(block))).take(self.ring_len as usize)
    }

    /// The bit of the block was cleared.
    #[inline]
    fn become_candidate(&mut self, block: u32) {
        self.candidates.add(&self.blocks, block);
        self.vetoes.note_cleared(&self.blocks, block);
    }

    /// The victim of the paper: the largest candidate. The blocks just reset are candidates from
    /// then on.
    #[inline]
    fn largest_candidate(&mut self) -> Option<u32> {
        self.memory_accesses += u64::from(self.candidates.total);
        let largest = self.candidates.largest_size();
        let victim = largest.and_then(|size| self.candidates.first(&self.blocks, size));
        self.admit_reset_blocks();
        victim
    }

    /// Evicts one block for a page of `current` and says where `current`'s block enters the ring if
    /// it is not in it; `None` if every block is vetoed and the access shall bypass.
    fn make_room<V: Veto>(&mut self, current: u32, veto: &mut V, out: &mut Evictions) -> Option<Entry> {
        // The label of a block between those the hand has not reached and those it is about to
        // pass.
        let before_passed = self.label();
        let mut anchor = self.hand;
        self.turn();
        if self.reset.len() as u32 == self.ring_len || self.candidates_include_reset {
            self.admit_reset_blocks();
        }
        // A block that is alone has no other to be spared for.
        let spared = if self.protect_current && self.ring_len > 1 { current } else { NO_BLOCK };
        let victim =
            if !V::ACTIVE && spared == NO_BLOCK { self.largest_candidate() } else { self.victim_but(spared, veto) }?;
        self.previous = self.blocks[victim as usize].count;
        if victim == anchor {
            anchor = self.ring.next(anchor);
        }
        self.give_up(victim, out);
        let before = if self.anchor_is_initial_hand && self.ring_len > 0 { anchor } else { self.hand };
        Some(if before == self.hand { self.entry_behind_all() } else { Entry { before, label: before_passed } })
    }

    /// Right before the hand: the last block that it will reach.
    #[inline]
    fn entry_behind_all(&mut self) -> Entry {
        Entry { before: self.hand, label: self.label() }
    }

    #[inline]
    fn enter<V: Veto>(&mut self, block: u32, entry: Entry) {
        if self.ring_len == 0 {
            self.hand = block;
        } else {
            self.ring.insert_before(entry.before, block);
        }
        self.ring_len += 1;
        self.blocks[block as usize] = Block { label: entry.label, count: 0, recent: true, parked: false };
        self.note_set::<V>(block);
        self.memory_accesses += 1;
    }

    fn give_up(&mut self, block: u32, out: &mut Evictions) {
        out.group(EvictionKind::Flush, self.cached.pages(block, true));
        out.end_unit();
        self.forget(block);
    }

    fn forget(&mut self, block: u32) {
        self.reconsider(block);
        let Block { count, recent, .. } = std::mem::take(&mut self.blocks[block as usize]);
        if !recent {
            self.candidates.remove(count);
        }
        self.len -= count;
        self.cached.clear_block(block);
        self.ring_len -= 1;
        if self.ring_len == 0 {
            self.hand = NO_BLOCK;
        } else if self.hand == block {
            self.hand = self.ring.next(block);
        }
        self.ring.unlink(block);
    }

    /// Sets the recency bit of a block in the ring.
    #[inline]
    fn set_bit<V: Veto>(&mut self, block: u32) {
        self.memory_accesses += 1;
        if V::ACTIVE {
            self.reconsider(block);
        }
        let b = &mut self.blocks[block as usize];
        if !b.recent {
            b.recent = true;
            self.candidates.remove(b.count);
            self.note_set::<V>(block);
        }
    }

    /// Clears the recency bit of a block whose last page was written, if the optimisations say so.
    #[inline]
    fn check_last_page(&mut self, block: u32) {
        let count = self.blocks[block as usize].count;
        let full = count == self.pages_per_block;
        if (full && (self.preempt || self.sequential)) || (self.preempt && count > self.previous) {
            self.memory_accesses += 1;
            self.blocks[block as usize].recent = false;
            self.candidates.add(&self.blocks, block);
        }
    }
}

impl Buffer for LbClock {
    fn grow(&mut self, pages: u32) {
        let blocks = pages.div_ceil(self.pages_per_block).max(self.blocks.len() as u32);
        self.cached.grow(blocks);
        self.blocks.resize(blocks as usize, Block::default());
        self.ring.grow(blocks);
    }

    #[inline]
    fn access<D: DeviceView, V: Veto>(
        &mut self,
        access: Access,
        _device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        self.memory_accesses += 1;
        let (block, offset) = (access.page.0 / self.pages_per_block, access.page.0 % self.pages_per_block);
        let held = self.cached.get(block, offset);
        if !access.write {
            if held && self.read_sets_bit {
                self.set_bit::<V>(block);
            }
            return if held { AccessOutcome::Hit } else { AccessOutcome::Bypassed };
        }
        if held {
            self.set_bit::<V>(block);
        } else {
            let entry = if self.len < self.capacity {
                None
            } else {
                match self.make_room(block, veto, out) {
                    Some(entry) => Some(entry),
                    None => return AccessOutcome::Bypassed,
                }
            };
            if self.blocks[block as usize].count == 0 {
                let entry = entry.unwrap_or_else(|| self.entry_behind_all());
                self.enter::<V>(block, entry);
            } else {
                self.set_bit::<V>(block);
            }
            self.cached.set(block, offset);
            self.blocks[block as usize].count += 1;
            self.len += 1;
        }
        if offset == self.pages_per_block - 1 {
            self.check_last_page(block);
        }
        if held { AccessOutcome::Hit } else { AccessOutcome::Inserted }
    }

    fn evict<D: DeviceView, V: Veto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        self.ring_len > 0 && self.make_room(NO_BLOCK, veto, out).is_some()
    }

    fn notify<D: DeviceView, V: Veto>(&mut self, notice: BufferNotice, _: &D, _: &mut V, out: &mut Evictions) {
        match notice {
            BufferNotice::GcEnd { .. } | BufferNotice::Idle => {}
            BufferNotice::Resume { element } => self.resume(element),
            BufferNotice::Destage { page, .. } => {
                let (block, offset) = (page.0 / self.pages_per_block, page.0 % self.pages_per_block);
                if self.cached.get(block, offset) {
                    self.give_up(block, out);
                }
            }
            BufferNotice::Flush => {
                while self.ring_len > 0 {
                    self.give_up(self.hand, out);
                }
            }
            BufferNotice::Trim { page } => {
                let (block, offset) = (page.0 / self.pages_per_block, page.0 % self.pages_per_block);
                if !self.cached.get(block, offset) {
                    return;
                }
                out.page(EvictionKind::Drop, page);
                self.reconsider(block);
                let Block { count, recent, .. } = self.blocks[block as usize];
                if count == 1 {
                    self.forget(block);
                    return;
                }
                self.cached.clear(block, offset);
                self.len -= 1;
                if !recent {
                    self.candidates.remove(count);
                }
                self.blocks[block as usize].count = count - 1;
                if !recent {
                    self.candidates.add(&self.blocks, block);
                }
            }
        }
    }

    fn admits(&self, access: Access) -> bool {
        access.write && !self.cached.get(access.page.0 / self.pages_per_block, access.page.0 % self.pages_per_block)
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }
}
