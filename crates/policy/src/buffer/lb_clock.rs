//! LB-CLOCK, large block CLOCK (Debnath et al., 2010; specs §5.5).
//!
//! Idea: a CLOCK over logical blocks. The hand clears recency bits until it meets a block whose bit was 0 before; of all
//! blocks whose bit was 0 before this round the one with the most pages leaves. A block whose last page is written is
//! offered as a victim at once when it is full, or larger than the previous victim.
//!
//! Resolved (specs §10.5): the blocks reset in this very round are no candidates unless the hand made a whole turn
//! (`candidate_rule`, Fig. 2 of the paper); ties go to the first block clockwise from the hand; a new block enters right
//! before the block the hand pointed at when the access began (`insert_anchor`); the previous victim's size before
//! there was one is N (`prev_init`); a read sets no bit (`read_sets_bit`) and read misses are not cached. A flush gives
//! the blocks up clockwise from the hand and is no eviction for `prev`; a trim leaves the block where it is.
//!
//! The victim is found without a scan of the ring: every block carries a label, and the labels ascend clockwise from the
//! hand, because the hand gives each block that it passes the next higher one. Blocks with bit 0 stand in a heap by
//! label per size; entries that have become untrue are dropped when they surface.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use destage_plan::PageNo;

use super::fab::PROTECT_CURRENT;
use super::page_bits::PageBits;
use super::{
    Access, Buffer, BufferConfig, Candidate, DeviceView, EvictionUnit, Evictions, Exhausted, Kind, Notice, Outcome,
    ParamSpec, Params, PolicyError, PolicyInfo, Registered, Veto,
};
use crate::links::Links;

const NO_BLOCK: u32 = u32::MAX;

/// A block's place and state in the ring.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Ascends clockwise from the hand; 0 for a block that is not in the ring.
    label: u64,
    /// Pages buffered.
    count: u32,
    /// The recency bit.
    recent: bool,
}

/// Large block CLOCK.
#[derive(Clone, Debug)]
pub struct LbClock {
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
    /// Candidates passed over in the present search.
    passed_over: Vec<Reverse<(u64, u32)>>,
    memory_accesses: u64,
}

/// Where a block enters the ring.
#[derive(Clone, Copy, Debug)]
struct Entry {
    before: u32,
    label: u64,
}

/// The blocks whose recency bit is 0, by size and label.
#[derive(Clone, Debug, Default)]
struct Candidates {
    heaps: Vec<BinaryHeap<Reverse<(u64, u32)>>>,
    /// True entries per size; a heap may hold untrue ones beside them.
    live: Vec<u32>,
    /// A bit for each size that has true entries.
    sizes: Vec<u64>,
    total: u32,
}

impl Candidates {
    fn new(pages_per_block: u32) -> Self {
        let sizes = pages_per_block as usize + 1;
        Self {
            heaps: vec![BinaryHeap::new(); sizes],
            live: vec![0; sizes],
            sizes: vec![0; sizes.div_ceil(64)],
            total: 0,
        }
    }

    fn is_true(blocks: &[Block], size: u32, label: u64, block: u32) -> bool {
        let b = &blocks[block as usize];
        b.label == label && b.count == size && !b.recent
    }

    #[inline]
    fn add(&mut self, blocks: &[Block], block: u32) {
        let Block { label, count: size, .. } = blocks[block as usize];
        let heap = &mut self.heaps[size as usize];
        if heap.len() > 2 * self.live[size as usize] as usize + 64 {
            let mut entries = std::mem::take(heap).into_vec();
            entries.retain(|&Reverse((label, block))| Self::is_true(blocks, size, label, block));
            entries.sort_unstable();
            entries.dedup();
            *heap = entries.into();
        }
        heap.push(Reverse((label, block)));
        self.live[size as usize] += 1;
        self.total += 1;
        self.sizes[size as usize / 64] |= 1 << (size % 64);
    }

    /// Takes note that one entry of this size is no longer true.
    #[inline]
    fn remove(&mut self, size: u32) {
        let live = &mut self.live[size as usize];
        *live -= 1;
        self.total -= 1;
        if *live == 0 {
            self.sizes[size as usize / 64] &= !(1 << (size % 64));
            self.heaps[size as usize].clear();
        }
    }

    #[inline]
    fn largest_size(&self) -> Option<u32> {
        let word = self.sizes.iter().rposition(|&w| w != 0)?;
        Some(word as u32 * 64 + 63 - self.sizes[word].leading_zeros())
    }

    /// Of the candidates of this size the first clockwise from the hand.
    #[inline]
    fn first(&mut self, blocks: &[Block], size: u32) -> Option<u32> {
        let heap = &mut self.heaps[size as usize];
        while let Some(&Reverse((label, block))) = heap.peek() {
            if Self::is_true(blocks, size, label, block) {
                return Some(block);
            }
            heap.pop();
        }
        None
    }
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
        paper: "LB-CLOCK, 2010",
        unit: EvictionUnit::Block,
        params: &[OPT_PREEMPT, OPT_SEQ, INSERT_ANCHOR, CANDIDATE_RULE, PREV_INIT, READ_SETS_BIT, PROTECT_CURRENT],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let n = config.pages_per_block;
        let previous = match params.text(PREV_INIT.name) {
            "block" => n,
            pages => pages.parse().map_err(|_| params.refuse(PREV_INIT.name))?,
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
            passed_over: Vec::new(),
            memory_accesses: 0,
        })
    }
}

impl LbClock {
    fn label(&mut self) -> u64 {
        self.next_label += 1;
        self.next_label - 1
    }

    /// Clears bits until the hand stands on a block whose bit was 0 before the round, or has made a whole turn.
    /// The blocks passed are in `self.reset` and not yet candidates.
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
        for &block in &self.reset {
            self.candidates.add(&self.blocks, block);
        }
        self.reset.clear();
    }

    /// Whether `block` may leave for a page of `current`. The first one that would without a veto is noted in `base`.
    #[inline]
    fn may_leave<V: Veto>(&self, block: u32, current: u32, veto: &mut V, base: &mut Option<u32>) -> bool {
        // A block that is alone has no other to be spared for.
        if self.protect_current && block == current && self.ring_len > 1 {
            return false;
        }
        base.get_or_insert(block);
        let first = PageNo(block * self.pages_per_block);
        !veto.passes_over(Candidate::Block { first, cached: self.cached.of(block), padded: false })
    }

    /// The largest candidate that is neither protected nor vetoed. A veto is asked about the candidates in the order
    /// in which they would be chosen.
    fn choose<V: Veto>(&mut self, current: u32, veto: &mut V, base: &mut Option<u32>) -> Option<u32> {
        self.memory_accesses += u64::from(self.candidates.total);
        let largest = self.candidates.largest_size()?;
        if !V::ACTIVE && !self.protect_current {
            return self.candidates.first(&self.blocks, largest);
        }
        for size in (1..=largest).rev() {
            let mut found = None;
            while let Some(block) = self.candidates.first(&self.blocks, size) {
                let entry = self.candidates.heaps[size as usize].pop();
                if self.passed_over.last() == entry.as_ref() {
                    continue;
                }
                self.passed_over.extend(entry);
                if self.may_leave(block, current, veto, base) {
                    found = Some(block);
                    break;
                }
            }
            self.candidates.heaps[size as usize].extend(self.passed_over.drain(..));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Looks on where every candidate is protected or vetoed: among the blocks just reset, then among those that the
    /// hand would reset if it went on for a whole turn.
    #[cold]
    fn look_on<V: Veto>(&mut self, current: u32, veto: &mut V, base: &mut Option<u32>) -> Option<u32> {
        let just_reset = self.reset.clone();
        let still_set = self.clockwise().filter(|&block| self.blocks[block as usize].recent).collect();
        for mut next_in_line in [just_reset, still_set] {
            self.memory_accesses += next_in_line.len() as u64;
            next_in_line.sort_by_key(|&block| Reverse(self.blocks[block as usize].count));
            if let Some(block) = next_in_line.into_iter().find(|&block| self.may_leave(block, current, veto, base)) {
                return Some(block);
            }
        }
        None
    }

    /// The blocks from the one under the hand on.
    fn clockwise(&self) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(self.hand), |&block| Some(self.ring.next(block))).take(self.ring_len as usize)
    }

    /// Turns the hand once around, back to where it stands.
    #[cold]
    fn reset_all(&mut self) {
        self.memory_accesses += u64::from(self.ring_len);
        let still_set: Vec<_> = self.clockwise().filter(|&block| self.blocks[block as usize].recent).collect();
        for block in still_set {
            self.blocks[block as usize].recent = false;
            self.candidates.add(&self.blocks, block);
        }
    }

    /// Evicts one block for a page of `current` and says where `current`'s block enters the ring if it is not in it;
    /// `None` if every block is vetoed and the access shall bypass.
    fn make_room<V: Veto>(&mut self, current: u32, veto: &mut V, out: &mut Evictions) -> Option<Entry> {
        // The label of a block between those the hand has not reached and those it is about to pass.
        let before_passed = self.label();
        let mut anchor = self.hand;
        self.turn();
        if self.reset.len() as u32 == self.ring_len || self.candidates_include_reset {
            self.admit_reset_blocks();
        }
        let mut base = None;
        let mut victim = self.choose(current, veto, &mut base);
        if victim.is_none() {
            victim = self.look_on(current, veto, &mut base);
        }
        self.admit_reset_blocks();
        if victim.is_none() {
            if V::ACTIVE && veto.exhausted() == Exhausted::Bypass {
                return None;
            }
            victim = base;
        }
        let victim = victim.expect("a ring has a block that is not protected");
        if self.blocks[victim as usize].recent {
            self.reset_all();
        }
        self.previous = self.blocks[victim as usize].count;
        if victim == anchor {
            anchor = self.ring.next(anchor);
        }
        self.evict(victim, out);
        let before = if self.anchor_is_initial_hand && self.ring_len > 0 { anchor } else { self.hand };
        Some(if before == self.hand { self.entry_behind_all() } else { Entry { before, label: before_passed } })
    }

    /// Right before the hand: the last block that it will reach.
    #[inline]
    fn entry_behind_all(&mut self) -> Entry {
        Entry { before: self.hand, label: self.label() }
    }

    #[inline]
    fn enter(&mut self, block: u32, entry: Entry) {
        if self.ring_len == 0 {
            self.hand = block;
        } else {
            self.ring.insert_before(entry.before, block);
        }
        self.ring_len += 1;
        self.blocks[block as usize] = Block { label: entry.label, count: 0, recent: true };
        self.memory_accesses += 1;
    }

    fn evict(&mut self, block: u32, out: &mut Evictions) {
        out.group(Kind::Flush, self.cached.pages(block, true));
        out.end_unit();
        self.forget(block);
    }

    fn forget(&mut self, block: u32) {
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
    fn set_bit(&mut self, block: u32) {
        self.memory_accesses += 1;
        let b = &mut self.blocks[block as usize];
        if !b.recent {
            b.recent = true;
            let size = b.count;
            self.candidates.remove(size);
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
    ) -> Outcome {
        self.memory_accesses += 1;
        let (block, offset) = (access.page.0 / self.pages_per_block, access.page.0 % self.pages_per_block);
        let held = self.cached.get(block, offset);
        if !access.write {
            if held && self.read_sets_bit {
                self.set_bit(block);
            }
            return if held { Outcome::Hit } else { Outcome::Bypassed };
        }
        if held {
            self.set_bit(block);
        } else {
            let entry = if self.len < self.capacity {
                None
            } else {
                match self.make_room(block, veto, out) {
                    Some(entry) => Some(entry),
                    None => return Outcome::Bypassed,
                }
            };
            if self.blocks[block as usize].count == 0 {
                let entry = entry.unwrap_or_else(|| self.entry_behind_all());
                self.enter(block, entry);
            } else {
                self.set_bit(block);
            }
            self.cached.set(block, offset);
            self.blocks[block as usize].count += 1;
            self.len += 1;
        }
        if offset == self.pages_per_block - 1 {
            self.check_last_page(block);
        }
        if held { Outcome::Hit } else { Outcome::Inserted }
    }

    fn notify<D: DeviceView, V: Veto>(&mut self, notice: Notice, _device: &D, _veto: &mut V, out: &mut Evictions) {
        match notice {
            Notice::GcEnd { .. } | Notice::Idle => {}
            Notice::Flush => {
                while self.ring_len > 0 {
                    self.evict(self.hand, out);
                }
            }
            Notice::Trim { page } => {
                let (block, offset) = (page.0 / self.pages_per_block, page.0 % self.pages_per_block);
                if !self.cached.get(block, offset) {
                    return;
                }
                out.page(Kind::Drop, page);
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

    fn len(&self) -> u32 {
        self.len
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }
}
