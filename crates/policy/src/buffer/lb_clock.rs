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
//! label per size; entries that have become untrue are dropped when they surface. What a veto passed over is kept aside
//! until it is written, or loses a page, or [`Notice::Resume`] comes; a bit that is set is then in one of two logs, so
//! that the blocks behind the candidates are found without a scan too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use destage_plan::{PageNo, ParamSpec, Params};

use super::options::PROTECT_CURRENT;
use super::page_bits::PageBits;
use super::{
    Access, Buffer, BufferConfig, Candidate, DeviceView, EvictionUnit, Evictions, Exhausted, Kind, NO_BLOCK, Notice,
    Outcome, PolicyError, PolicyInfo, Registered, Veto,
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
    passed_over: PassedOver,
    memory_accesses: u64,
}

/// What there is to know beside where a veto has its say.
#[derive(Clone, Debug, Default)]
struct PassedOver {
    /// The parked blocks by unit. Those that are not parked any longer may still be there.
    units: Vec<Vec<u32>>,
    /// The parked candidates, by size and label, the first to leave at the top; with untrue ones.
    order: BinaryHeap<(u32, Reverse<u64>, u32)>,
    /// The blocks whose recency bit is set: those that are not parked, and those that are; with untrue ones.
    set: Vec<u32>,
    set_parked: Vec<u32>,
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
    /// Candidates, the parked ones included, which are in no heap.
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
        b.label == label && b.count == size && !b.recent && !b.parked
    }

    /// The block's bit is 0 now.
    #[inline]
    fn add(&mut self, blocks: &[Block], block: u32) {
        self.total += 1;
        if !blocks[block as usize].parked {
            self.take_in(blocks, block);
        }
    }

    fn take_in(&mut self, blocks: &[Block], block: u32) {
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
        self.sizes[size as usize / 64] |= 1 << (size % 64);
    }

    /// Takes note that a candidate of this size is none any longer.
    #[inline]
    fn remove(&mut self, size: u32, parked: bool) {
        self.total -= 1;
        if !parked {
            self.take_out(size);
        }
    }

    /// Takes note that one entry of this size is no longer true.
    #[inline]
    fn take_out(&mut self, size: u32) {
        let live = &mut self.live[size as usize];
        *live -= 1;
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
            passed_over: PassedOver::default(),
            memory_accesses: 0,
        })
    }
}

/// Drops what is not true any longer, and doubles, from a list of more than `most` entries.
#[inline]
fn keep_true<T: Ord>(entries: &mut Vec<T>, most: usize, is_true: impl Fn(&T) -> bool) {
    if entries.len() > most {
        entries.retain(is_true);
        entries.sort_unstable();
        entries.dedup();
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
        let mut reset = std::mem::take(&mut self.reset);
        reset.drain(..).for_each(|block| self.become_candidate(block));
        self.reset = reset;
    }

    /// The bit of the block was cleared.
    #[inline]
    fn become_candidate(&mut self, block: u32) {
        self.candidates.add(&self.blocks, block);
        let Block { label, count, parked, .. } = self.blocks[block as usize];
        if parked {
            self.passed_over.order.push((count, Reverse(label), block));
        }
    }

    /// The unit for whose sake a veto passes `block` over.
    #[inline]
    fn objection<V: Veto>(&self, block: u32, veto: &mut V) -> Option<u32> {
        let first = PageNo(block * self.pages_per_block);
        let cached = self.cached.of(block);
        veto.passes_over(Candidate::Block { first, cached, dirty: cached, padded: false })
    }

    /// Keeps a block aside that is no candidate, or one that is and that the caller has taken from its heap.
    fn park(&mut self, unit: u32, block: u32) {
        let PassedOver { units, order, set_parked, .. } = &mut self.passed_over;
        let blocks = &mut self.blocks;
        blocks[block as usize].parked = true;
        let Block { label, count, recent, .. } = blocks[block as usize];
        if unit as usize >= units.len() {
            units.resize(unit as usize + 1, Vec::new());
        }
        let most = 2 * self.ring_len as usize + 64;
        let of_unit = &mut units[unit as usize];
        of_unit.push(block);
        keep_true(of_unit, most, |&block| blocks[block as usize].parked);
        if recent {
            set_parked.push(block);
            keep_true(set_parked, most, |&block| blocks[block as usize].recent && blocks[block as usize].parked);
        } else {
            order.push((count, Reverse(label), block));
            if order.len() > most {
                let mut entries = std::mem::take(order).into_vec();
                keep_true(&mut entries, most, |entry| Self::is_parked_candidate(blocks, entry));
                *order = entries.into();
            }
        }
    }

    fn is_parked_candidate(blocks: &[Block], &(size, Reverse(label), block): &(u32, Reverse<u64>, u32)) -> bool {
        let b = &blocks[block as usize];
        b.parked && !b.recent && b.count == size && b.label == label
    }

    /// Takes back a block that is in the ring, if it was kept aside.
    fn unpark(&mut self, block: u32) {
        let b = &mut self.blocks[block as usize];
        if std::mem::take(&mut b.parked) {
            if b.recent {
                self.passed_over.set.push(block);
            } else {
                self.candidates.take_in(&self.blocks, block);
            }
        }
    }

    fn resume(&mut self, unit: u32) {
        let Some(of_unit) = self.passed_over.units.get_mut(unit as usize) else { return };
        let mut resumed = std::mem::take(of_unit);
        resumed.drain(..).for_each(|block| self.unpark(block));
        self.passed_over.units[unit as usize] = resumed;
    }

    /// Takes note that the block's bit is set.
    #[inline]
    fn note_set(&mut self, block: u32) {
        let (set, blocks) = (&mut self.passed_over.set, &self.blocks);
        set.push(block);
        keep_true(set, 2 * self.ring_len as usize + 64, |&block| {
            blocks[block as usize].recent && !blocks[block as usize].parked
        });
    }

    /// The largest candidate that is neither `spared` nor vetoed. A veto is asked about the candidates in the order in
    /// which they would be chosen.
    fn choose<V: Veto>(&mut self, spared: u32, veto: &mut V) -> Option<u32> {
        self.memory_accesses += u64::from(self.candidates.total);
        let mut put_back = None;
        let mut found = None;
        while let Some(size) = self.candidates.largest_size() {
            let Some(block) = self.candidates.first(&self.blocks, size) else { break };
            if block == spared {
                // For the present search it is as if it were kept aside.
                self.blocks[block as usize].parked = true;
                self.candidates.take_out(size);
                put_back = Some(block);
                continue;
            }
            let Some(unit) = self.objection(block, veto) else {
                found = Some(block);
                break;
            };
            self.candidates.heaps[size as usize].pop();
            self.candidates.take_out(size);
            self.park(unit, block);
        }
        if let Some(block) = put_back {
            self.blocks[block as usize].parked = false;
            self.candidates.take_in(&self.blocks, block);
        }
        found
    }

    /// Looks on where every candidate is protected or vetoed: among the blocks just reset, then among those that the
    /// hand would reset if it went on for a whole turn. The blocks just reset become candidates.
    #[cold]
    fn look_on<V: Veto>(&mut self, spared: u32, veto: &mut V) -> Option<u32> {
        let mut just_reset = self.reset.clone();
        let still_set = self.ring_len - self.candidates.total - just_reset.len() as u32;
        self.memory_accesses += just_reset.len() as u64;
        self.admit_reset_blocks();
        just_reset.retain(|&block| block != spared && !self.blocks[block as usize].parked);
        self.sort_as_chosen(&mut just_reset);
        for &block in &just_reset {
            let Some(unit) = self.objection(block, veto) else { return Some(block) };
            self.candidates.take_out(self.blocks[block as usize].count);
            self.park(unit, block);
        }
        self.memory_accesses += u64::from(still_set);
        if !V::ACTIVE {
            // Nothing was noted; only where a block is protected does it come to this.
            let is_set = |&block: &u32| block != spared && self.blocks[block as usize].recent;
            let most = self.clockwise().filter(is_set).max_by_key(|&block| {
                let Block { label, count, .. } = self.blocks[block as usize];
                (count, Reverse(label))
            });
            return most;
        }
        let mut set = std::mem::take(&mut self.passed_over.set);
        set.retain(|&block| self.blocks[block as usize].recent && !self.blocks[block as usize].parked);
        self.sort_as_chosen(&mut set);
        set.dedup();
        let asked = set.iter().position(|&block| {
            block != spared
                && match self.objection(block, veto) {
                    None => true,
                    Some(unit) => {
                        self.park(unit, block);
                        false
                    }
                }
        });
        let found = asked.map(|at| set[at]);
        self.passed_over.set = set;
        found
    }

    fn sort_as_chosen(&self, blocks: &mut [u32]) {
        blocks.sort_unstable_by_key(|&block| {
            let Block { label, count, .. } = self.blocks[block as usize];
            (Reverse(count), label)
        });
    }

    /// Of the blocks other than `spared`, all of which are parked, the one that would have left without a veto. `reset`
    /// are those that were reset in the present round and were no candidates in it.
    fn first_parked_but(&mut self, spared: u32, reset: &[u32]) -> Option<u32> {
        let mut put_aside = Vec::new();
        let mut first = None;
        while let Some(&entry) = self.passed_over.order.peek() {
            if Self::is_parked_candidate(&self.blocks, &entry) {
                if entry.2 != spared && !reset.contains(&entry.2) {
                    first = Some(entry.2);
                    break;
                }
                put_aside.push(entry);
            }
            self.passed_over.order.pop();
        }
        self.passed_over.order.extend(put_aside);
        if first.is_some() {
            return first;
        }
        let set = self.clockwise().filter(|&block| self.blocks[block as usize].recent);
        let mut rest: Vec<u32> = if reset.iter().all(|&block| block == spared) { set.collect() } else { reset.into() };
        rest.retain(|&block| block != spared);
        self.sort_as_chosen(&mut rest);
        rest.first().copied()
    }

    /// The blocks from the one under the hand on.
    fn clockwise(&self) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(self.hand), |&block| Some(self.ring.next(block))).take(self.ring_len as usize)
    }

    /// Turns the hand once around, back to where it stands.
    #[cold]
    fn reset_all<V: Veto>(&mut self) {
        self.memory_accesses += u64::from(self.ring_len);
        let PassedOver { set, set_parked, .. } = &mut self.passed_over;
        let (mut set, mut set_parked) = (std::mem::take(set), std::mem::take(set_parked));
        if !V::ACTIVE {
            set.extend(self.clockwise());
        }
        for block in set.drain(..).chain(set_parked.drain(..)) {
            let b = &mut self.blocks[block as usize];
            if std::mem::take(&mut b.recent) {
                self.become_candidate(block);
            }
        }
        (self.passed_over.set, self.passed_over.set_parked) = (set, set_parked);
    }

    /// The largest candidate.
    #[inline]
    fn choose_first(&mut self) -> Option<u32> {
        self.memory_accesses += u64::from(self.candidates.total);
        let largest = self.candidates.largest_size()?;
        self.candidates.first(&self.blocks, largest)
    }

    /// The victim other than `spared` after the hand has turned; `None` if every block is vetoed and the access shall
    /// bypass.
    fn look_for_victim<V: Veto>(&mut self, spared: u32, veto: &mut V) -> Option<u32> {
        if let Some(victim) = self.choose(spared, veto) {
            self.admit_reset_blocks();
            return Some(victim);
        }
        let reset = self.reset.clone();
        if let Some(victim) = self.look_on(spared, veto) {
            return Some(victim);
        }
        (veto.exhausted() == Exhausted::TakeBase).then(|| self.first_parked_but(spared, &reset)).flatten()
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
        // A block that is alone has no other to be spared for.
        let spared = if self.protect_current && self.ring_len > 1 { current } else { NO_BLOCK };
        let victim = if !V::ACTIVE && spared == NO_BLOCK {
            let victim = self.choose_first();
            self.admit_reset_blocks();
            victim
        } else {
            self.look_for_victim(spared, veto)
        };
        let victim = victim?;
        if self.blocks[victim as usize].recent {
            self.reset_all::<V>();
        }
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
    fn enter(&mut self, block: u32, entry: Entry) {
        if self.ring_len == 0 {
            self.hand = block;
        } else {
            self.ring.insert_before(entry.before, block);
        }
        self.ring_len += 1;
        self.blocks[block as usize] = Block { label: entry.label, count: 0, recent: true, parked: false };
        self.memory_accesses += 1;
    }

    fn give_up(&mut self, block: u32, out: &mut Evictions) {
        out.group(Kind::Flush, self.cached.pages(block, true));
        out.end_unit();
        self.forget(block);
    }

    fn forget(&mut self, block: u32) {
        let Block { count, recent, parked, .. } = std::mem::take(&mut self.blocks[block as usize]);
        if !recent {
            self.candidates.remove(count, parked);
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

    /// Sets the recency bit of a block in the ring. Returns whether it is to be noted as one whose bit is set.
    #[inline]
    fn set_bit(&mut self, block: u32) -> bool {
        self.memory_accesses += 1;
        let b = &mut self.blocks[block as usize];
        let parked = std::mem::take(&mut b.parked);
        if !b.recent {
            b.recent = true;
            let size = b.count;
            self.candidates.remove(size, parked);
            return true;
        }
        parked
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
                let is_new = self.set_bit(block);
                if V::ACTIVE && is_new {
                    self.note_set(block);
                }
            }
            return if held { Outcome::Hit } else { Outcome::Bypassed };
        }
        let is_new = if held {
            self.set_bit(block)
        } else {
            let entry = if self.len < self.capacity {
                None
            } else {
                match self.make_room(block, veto, out) {
                    Some(entry) => Some(entry),
                    None => return Outcome::Bypassed,
                }
            };
            let is_new = if self.blocks[block as usize].count == 0 {
                let entry = entry.unwrap_or_else(|| self.entry_behind_all());
                self.enter(block, entry);
                true
            } else {
                self.set_bit(block)
            };
            self.cached.set(block, offset);
            self.blocks[block as usize].count += 1;
            self.len += 1;
            is_new
        };
        if offset == self.pages_per_block - 1 {
            self.check_last_page(block);
        }
        if V::ACTIVE && is_new && self.blocks[block as usize].recent {
            self.note_set(block);
        }
        if held { Outcome::Hit } else { Outcome::Inserted }
    }

    fn evict<D: DeviceView, V: Veto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        self.ring_len > 0 && self.make_room(NO_BLOCK, veto, out).is_some()
    }

    fn notify<D: DeviceView, V: Veto>(&mut self, notice: Notice, _device: &D, _veto: &mut V, out: &mut Evictions) {
        match notice {
            Notice::GcEnd { .. } | Notice::Idle => {}
            Notice::Resume { unit } => self.resume(unit),
            Notice::Destage { page, .. } => {
                let (block, offset) = (page.0 / self.pages_per_block, page.0 % self.pages_per_block);
                if self.cached.get(block, offset) {
                    self.give_up(block, out);
                }
            }
            Notice::Flush => {
                while self.ring_len > 0 {
                    self.give_up(self.hand, out);
                }
            }
            Notice::Trim { page } => {
                let (block, offset) = (page.0 / self.pages_per_block, page.0 % self.pages_per_block);
                if !self.cached.get(block, offset) {
                    return;
                }
                out.page(Kind::Drop, page);
                self.unpark(block);
                let Block { count, recent, .. } = self.blocks[block as usize];
                if count == 1 {
                    self.forget(block);
                    return;
                }
                self.cached.clear(block, offset);
                self.len -= 1;
                if !recent {
                    self.candidates.remove(count, false);
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
