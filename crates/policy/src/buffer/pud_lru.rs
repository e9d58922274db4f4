//! PUD-LRU, LRU by predicted average update distance (Hu et al., MASCOTS 2010; specs §5.4).
//!
//! Idea: a write buffer of logical blocks for log-block FTLs. A block's predicted update distance
//! (PUD) is the mean of how far apart its updates were and how long ago the last one was. Blocks
//! with a PUD above a threshold T are updated infrequently (IUG), the others frequently (FUG). The
//! victim is the largest block of the IUG.
//!
//! Parameters: `threshold`, T in page writes (`mean`: the mean PUD of all buffered blocks);
//! `padding` (`never`); `protect_current`.
//!
//! Resolved, with low to medium confidence, since only the abstract and a student's code were at
//! hand. The clock counts the page writes that were buffered, and an eviction takes place at the
//! time of the write that needs the room. Any write to a buffered block is an update of it, its
//! distance is the number of writes in between, and UD is the mean distance since the block
//! entered. PUD = (UD + RD) / 2 with RD the time since the last write, or RD for a block that was
//! never updated. *UD is rounded down to a 4096th of a write*, which is part of the algorithm here:
//! PUDs, their sum and the comparison with their mean are then exact, in integers. The IUG goes by
//! size, then by larger PUD, then by LRU; with the IUG empty, or vetoed altogether, blocks go by
//! larger PUD, then by LRU. A read of a buffered page is served and changes nothing, other reads go
//! to flash. A trim is no update. A flush gives the blocks up as evictions one after the other
//! would, T being that of the blocks left.
//!
//! Under a veto the search goes through the blocks anew each time.
//!
//! Memory accesses: the lookup and the block that is written, one each; for a victim every buffered
//! block, whose PUD must be known.
//!
//! The PUDs of the blocks that were updated all grow by half a write per write, so the order among
//! them changes only where a block is written; and a block that was never updated has one page, and
//! such blocks are in order of entry. So there is a heap per size of the former and a list of the
//! latter, the sum of all PUDs is kept as a number and a slope, and a victim is found at the tops
//! of the heaps, from the largest size down.

mod vetoes;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use destage_plan::{ParamSpec, Params};

use super::max_tree::MaxTree;
use super::options::PROTECT_CURRENT;
use super::padding::Padding;
use super::page_bits::PageBits;
use super::{
    Access, AccessOutcome, Buffer, BufferConfig, BufferNotice, DeviceView, EvictionKind, EvictionUnit, Evictions,
    NO_BLOCK, PolicyError, PolicyInfo, Registered, Veto,
};
use crate::links::Links;

/// Parts of a write to which UD is rounded, as a power of two. With 12 bits every number below fits
/// for 2^49 writes, more than a year of them at 10 million a second.
const FRACTION_BITS: u32 = 12;

/// The largest threshold in page writes: no PUD comes near.
const MOST_WRITES: f64 = (1_u64 << 48) as f64;

/// The sentinel of the list of blocks that were never updated; node `block + 1` is the block.
const NEW: u32 = 0;

/// T.
#[derive(Clone, Copy, Debug)]
enum Threshold {
    Mean,
    /// As a [`Rank::pud`].
    Fixed(i64),
}

impl Threshold {
    fn parse(text: &str) -> Option<Self> {
        if text == "mean" {
            return Some(Self::Mean);
        }
        let writes = text.parse::<f64>().ok().filter(|t| (0.0..=MOST_WRITES).contains(t))?;
        // PUDs are whole numbers of this unit: one above the threshold is above what is left of it
        // when rounded down.
        Some(Self::Fixed((writes * f64::from(2 << FRACTION_BITS)).floor() as i64))
    }
}

/// A buffered block's history.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// The time of the last write, which is 1 or more.
    last: i64,
    /// Updates since the block entered.
    updates: i64,
    /// The sum of their distances.
    distances: i64,
    /// UD in 2^-[`FRACTION_BITS`] writes, rounded down.
    mean: i64,
    /// Pages buffered; 0 for a block that is not in the buffer.
    count: u32,
    /// The value of `last` in the one entry of the heaps that stands for the block.
    entered: i64,
}

impl Block {
    /// Twice the PUD at time 0, in 2^-[`FRACTION_BITS`] writes, of a block that was updated.
    #[inline]
    fn key(&self) -> i64 {
        self.mean - (self.last << FRACTION_BITS)
    }

    /// Twice its PUD at time 0, in the same unit, and how much that grows per unit of time.
    #[inline]
    fn line(&self) -> (i64, i64) {
        if self.updates == 0 { (-(self.last << (FRACTION_BITS + 1)), 2) } else { (self.key(), 1) }
    }
}

/// The order of victims of the same size: by PUD, then by LRU. The greatest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Twice the PUD in 2^-[`FRACTION_BITS`] writes; in the heaps, where all have grown alike, at
    /// time 0.
    pud: i64,
    last: Reverse<i64>,
}

impl Rank {
    /// Less than that of any block with a greater PUD, and not of any other.
    const fn above(pud: i64) -> Self {
        Self { pud, last: Reverse(0) }
    }

    /// The rank at a later time of one in the heaps, or the other way round for a negative time.
    #[inline]
    const fn later(self, time: i64) -> Self {
        Self { pud: self.pud + (time << FRACTION_BITS), last: self.last }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    rank: Rank,
    block: u32,
}

/// The blocks that were updated, by size and rank.
///
/// A write only ever lowers a block's rank: the distance it adds moves the mean by less than the
/// clock moves `last`. So an entry may stand too high until it surfaces, and a write that adds no
/// page touches no heap. Entries of blocks that have left or changed their size are dropped when
/// they surface.
#[derive(Clone, Debug)]
struct Updated {
    heaps: Vec<BinaryHeap<Entry>>,
    /// Blocks per size; a heap may hold untrue entries beside theirs.
    live: Vec<u32>,
    /// For each size at least the PUD of its heap's top.
    tops: MaxTree,
}

impl Updated {
    fn new(largest: u32) -> Self {
        let sizes = largest as usize + 1;
        Self { heaps: vec![BinaryHeap::new(); sizes], live: vec![0; sizes], tops: MaxTree::new(largest + 1) }
    }

    /// One more than the largest size.
    #[inline]
    fn end(&self) -> u32 {
        self.heaps.len() as u32
    }

    #[inline]
    fn stands(blocks: &[Block], size: u32, entry: &Entry) -> bool {
        let block = &blocks[entry.block as usize];
        block.count == size && block.entered == entry.rank.last.0
    }

    /// Enters a block under its present size.
    #[inline]
    fn add(&mut self, blocks: &mut [Block], block: u32) {
        let b = &mut blocks[block as usize];
        b.entered = b.last;
        let (size, rank) = (b.count, Rank { pud: b.key(), last: Reverse(b.last) });
        let most = 2 * self.live[size as usize] as usize + 64;
        let heap = &mut self.heaps[size as usize];
        if heap.len() > most {
            heap.retain(|entry| Self::stands(blocks, size, entry));
        }
        self.live[size as usize] += 1;
        self.push(size, Entry { rank, block });
    }

    #[inline]
    fn push(&mut self, size: u32, entry: Entry) {
        self.heaps[size as usize].push(entry);
        if entry.rank.pud > self.tops.get(size) {
            self.tops.set(size, entry.rank.pud);
        }
    }

    /// Takes note that a block of this size has left, or no longer has it.
    #[inline]
    fn remove(&mut self, size: u32) {
        let live = &mut self.live[size as usize];
        *live -= 1;
        if *live == 0 {
            self.heaps[size as usize].clear();
            self.tops.set(size, MaxTree::NOTHING);
        }
    }

    /// Takes away the top of the heap of this size, which is to be pushed again.
    fn take(&mut self, size: u32) -> Option<Entry> {
        let top = self.heaps[size as usize].pop();
        self.note_top(size);
        top
    }

    #[inline]
    fn note_top(&mut self, size: u32) {
        let top = self.heaps[size as usize].peek();
        self.tops.set(size, top.map_or(MaxTree::NOTHING, |entry| entry.rank.pud));
    }

    /// The block of this size with the greatest rank, if that is greater than `floor`.
    fn first_above(&mut self, blocks: &mut [Block], size: u32, floor: Rank) -> Option<Entry> {
        let first = loop {
            let Some(mut top) = self.heaps[size as usize].peek_mut().filter(|entry| entry.rank > floor) else {
                break None;
            };
            if !Self::stands(blocks, size, &top) {
                PeekMut::pop(top);
                continue;
            }
            let block = &mut blocks[top.block as usize];
            if block.entered == block.last {
                break Some(*top);
            }
            block.entered = block.last;
            top.rank = Rank { pud: block.key(), last: Reverse(block.last) };
        };
        self.note_top(size);
        first
    }
}

/// A block that may be evicted.
#[derive(Clone, Copy, Debug)]
struct Choice {
    block: u32,
    /// At the time of the eviction.
    rank: Rank,
    /// The heap that it is at the top of, or `None` for one that was never updated.
    size: Option<u32>,
}

/// PUD-aware LRU.
#[derive(Clone, Debug)]
pub struct PudLru {
    pages_per_block: u32,
    capacity: u32,
    len: u32,
    threshold: Threshold,
    /// Blocks with at least this many pages are padded.
    padding: Padding,
    protect_current: bool,
    cached: PageBits,
    blocks: Vec<Block>,
    /// Blocks buffered.
    buffered: u32,
    /// Page writes buffered so far.
    clock: i64,
    /// The sum of all [`Block::line`]s: of the numbers, and of the slopes.
    sum: i128,
    slope: i64,
    updated: Updated,
    /// The blocks that were never updated, the newest first.
    new: Links,
    /// Entries passed over in the present search, with their sizes.
    passed_over: Vec<(u32, Entry)>,
    memory_accesses: u64,
}

const THRESHOLD: ParamSpec = ParamSpec {
    name: "threshold",
    default: "mean",
    values: "mean, or a number of page writes from 0 to 2^48",
    unit: "page writes",
    help: "predicted update distance above which a block is infrequently updated; mean of all buffered blocks",
};

impl Registered for PudLru {
    const INFO: PolicyInfo = PolicyInfo {
        name: "pud-lru",
        title: "the largest of the blocks with a long predicted update distance",
        about: "A write buffer of logical blocks. How far apart a block's updates were and how long ago the last one \
                was predicts when the next one comes; of the blocks for which that is longer than a threshold the \
                one with the most pages leaves. The paper's text was not at hand: docs/specs says how gaps are \
                filled.",
        paper: "PUD-LRU, MASCOTS 2010",
        unit: EvictionUnit::Block,
        chooses_channels: false,
        params: &[THRESHOLD, ParamSpec { default: "never", ..Padding::PARAM }, PROTECT_CURRENT],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let n = config.pages_per_block;
        Ok(Self {
            pages_per_block: n,
            capacity: config.capacity_pages,
            len: 0,
            threshold: Threshold::parse(params.text(THRESHOLD.name)).ok_or_else(|| params.refuse(THRESHOLD.name))?,
            padding: Padding::of(n, params)?,
            protect_current: params.switch(PROTECT_CURRENT.name)?,
            cached: PageBits::new(n),
            blocks: Vec::new(),
            buffered: 0,
            clock: 0,
            sum: 0,
            slope: 0,
            updated: Updated::new(n.min(config.capacity_pages)),
            new: Links::new(1),
            passed_over: Vec::new(),
            memory_accesses: 0,
        })
    }
}

impl PudLru {
    /// The time of the write that comes now.
    #[inline]
    fn now(&self) -> i64 {
        self.clock + 1
    }

    /// Takes a block's PUD into the sum of all, or out of it.
    #[inline]
    fn count_in(&mut self, block: u32) {
        let (number, slope) = self.blocks[block as usize].line();
        self.sum += i128::from(number);
        self.slope += slope;
    }

    #[inline]
    fn count_out(&mut self, block: u32) {
        let (number, slope) = self.blocks[block as usize].line();
        self.sum -= i128::from(number);
        self.slope -= slope;
    }

    /// T as a [`Rank::pud`], rounded down, which makes no difference to a whole number that is
    /// compared with it.
    #[inline]
    fn threshold(&self) -> i64 {
        match self.threshold {
            Threshold::Fixed(pud) => pud,
            Threshold::Mean => {
                let sum = self.sum + ((i128::from(self.slope) * i128::from(self.now())) << FRACTION_BITS);
                // No PUD is negative, and a mean is no greater than the greatest.
                (sum as u128 / u128::from(self.buffered)) as i64
            }
        }
    }

    /// The block that was never updated at `node`, unless that is the sentinel.
    #[inline]
    fn new_at(&self, node: u32) -> Option<Choice> {
        (node != NEW).then(|| {
            let block = node - 1;
            let last = self.blocks[block as usize].last;
            let pud = (self.now() - last) << (FRACTION_BITS + 1);
            Choice { block, rank: Rank { pud, last: Reverse(last) }, size: None }
        })
    }

    /// Of the updated blocks of this size the first to go, if its rank is greater than `floor`.
    #[inline]
    fn updated_above(&mut self, size: u32, floor: Rank) -> Option<Choice> {
        let now = self.now();
        let Entry { rank, block } = self.updated.first_above(&mut self.blocks, size, floor.later(-now))?;
        Some(Choice { block, rank: rank.later(now), size: Some(size) })
    }

    /// The first block to go: of those that were never updated only `oldest` and newer ones, of the
    /// others those in the heaps.
    #[inline]
    fn first(&mut self, threshold: i64, oldest: u32) -> Option<Choice> {
        let floor = Rank::above(threshold);
        let key = floor.later(-self.now()).pud;
        let mut end = self.updated.end();
        while let Some(size) = self.updated.tops.last_above(key, end).filter(|&size| size > 1) {
            let choice = self.updated_above(size, floor);
            if choice.is_some() {
                return choice;
            }
            end = size;
        }
        let never_updated = self.new_at(oldest).filter(|choice| choice.rank > floor);
        let choice = self.updated_above(1, never_updated.map_or(floor, |choice| choice.rank)).or(never_updated);
        if choice.is_some() { choice } else { self.first_of_frequent(oldest) }
    }

    /// The first block to go where no block's PUD is above the threshold.
    fn first_of_frequent(&mut self, oldest: u32) -> Option<Choice> {
        let mut best = self.new_at(oldest);
        // First the size that is likely to have it, so that few others come into question.
        if let Some(size) = self.updated.tops.last_greatest() {
            best = self.updated_above_best(size, best);
        }
        let mut end = self.updated.end();
        loop {
            // Of several with the same PUD the rank decides.
            let key = best.map_or(MaxTree::NOTHING, |choice| choice.rank.later(-self.now()).pud - 1);
            let Some(size) = self.updated.tops.last_above(key, end) else { return best };
            best = self.updated_above_best(size, best);
            end = size;
        }
    }

    /// Of the updated blocks of this size the first to go, if it goes before `best`.
    fn updated_above_best(&mut self, size: u32, best: Option<Choice>) -> Option<Choice> {
        // No PUD is negative.
        let floor = best.map_or(Rank::above(-1), |choice| choice.rank);
        self.updated_above(size, floor).or(best)
    }

    /// The block to give up, or `None` if every block is vetoed and the access shall bypass.
    #[inline]
    fn victim<V: Veto>(&mut self, current: u32, veto: &mut V) -> Option<u32> {
        self.memory_accesses += u64::from(self.buffered);
        let threshold = self.threshold();
        // A block that is alone has no other to be spared for.
        let spared = if self.protect_current && self.buffered > 1 { current } else { NO_BLOCK };
        let oldest = self.new.prev(NEW);
        if V::ACTIVE || spared != NO_BLOCK {
            return self.victim_but(spared, veto, threshold, oldest);
        }
        self.first(threshold, oldest).map(|choice| choice.block)
    }

    fn give_up(&mut self, block: u32, out: &mut Evictions) {
        self.padding.write_out(self.blocks[block as usize].count, &self.cached, block, out);
        self.forget(block);
    }

    fn forget(&mut self, block: u32) {
        self.count_out(block);
        let Block { count, updates, .. } = std::mem::take(&mut self.blocks[block as usize]);
        self.len -= count;
        self.buffered -= 1;
        self.cached.clear_block(block);
        if updates == 0 {
            self.new.unlink(block + 1);
        } else {
            self.updated.remove(count);
        }
    }

    /// Notes a write to `block`, of a page that is `added` to it or was there.
    #[inline]
    fn write(&mut self, block: u32, added: bool) {
        self.memory_accesses += 1;
        self.clock += 1;
        let now = self.clock;
        let Block { last, updates, distances, count, .. } = self.blocks[block as usize];
        if count == 0 {
            self.blocks[block as usize] = Block { last: now, count: 1, ..Block::default() };
            self.buffered += 1;
            self.new.insert_after(NEW, block + 1);
            self.count_in(block);
            return;
        }
        self.count_out(block);
        let b = &mut self.blocks[block as usize];
        b.last = now;
        b.updates = updates + 1;
        b.distances = distances + (now - last - 1);
        b.mean = (b.distances << FRACTION_BITS) / b.updates;
        b.count = count + u32::from(added);
        self.count_in(block);
        if updates == 0 {
            self.new.unlink(block + 1);
            self.updated.add(&mut self.blocks, block);
        } else if added {
            self.updated.remove(count);
            self.updated.add(&mut self.blocks, block);
        }
    }
}

impl Buffer for PudLru {
    fn grow(&mut self, pages: u32) {
        let blocks = pages.div_ceil(self.pages_per_block).max(self.blocks.len() as u32);
        self.cached.grow(blocks);
        self.blocks.resize(blocks as usize, Block::default());
        self.new.grow(blocks + 1);
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
            return if held { AccessOutcome::Hit } else { AccessOutcome::Bypassed };
        }
        if held {
            self.write(block, false);
            return AccessOutcome::Hit;
        }
        if self.len == self.capacity {
            match self.victim(block, veto) {
                Some(victim) => self.give_up(victim, out),
                None => return AccessOutcome::Bypassed,
            }
        }
        self.cached.set(block, offset);
        self.len += 1;
        self.write(block, true);
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
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
            BufferNotice::Destage { page, .. } => {
                let (block, offset) = (page.0 / self.pages_per_block, page.0 % self.pages_per_block);
                if self.cached.get(block, offset) {
                    self.give_up(block, out);
                }
            }
            BufferNotice::Flush => {
                while self.buffered > 0 {
                    let (threshold, oldest) = (self.threshold(), self.new.prev(NEW));
                    let Some(choice) = self.first(threshold, oldest) else { break };
                    self.give_up(choice.block, out);
                }
            }
            BufferNotice::Trim { page } => {
                let (block, offset) = (page.0 / self.pages_per_block, page.0 % self.pages_per_block);
                if !self.cached.get(block, offset) {
                    return;
                }
                out.page(EvictionKind::Drop, page);
                let count = self.blocks[block as usize].count;
                if count == 1 {
                    self.forget(block);
                    return;
                }
                self.cached.clear(block, offset);
                self.len -= 1;
                self.blocks[block as usize].count = count - 1;
                self.updated.remove(count);
                self.updated.add(&mut self.blocks, block);
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

#[cfg(test)]
mod tests {
    use destage_plan::{PageNo, PolicySpec};

    use super::super::{NoDevice, NoVeto};
    use super::*;

    fn policy(threshold: &str) -> PudLru {
        let given = vec![(THRESHOLD.name.to_owned(), threshold.to_owned())];
        let spec = PolicySpec { name: PudLru::INFO.name.into(), given };
        let params = Params::resolve(&[(PudLru::INFO.name, PudLru::INFO.params)], &spec).expect("its parameter");
        let config = BufferConfig { capacity_pages: 40, pages_per_block: 4, elements: 1 };
        let mut policy = PudLru::with_params(config, &params[0]).expect("a number");
        policy.grow(400);
        policy
    }

    /// What leaves for a write.
    fn write(policy: &mut PudLru, page: u32) -> Vec<PageNo> {
        let mut out = Evictions::default();
        policy.access(Access::write(page), &NoDevice, &mut NoVeto, &mut out);
        out.groups().flat_map(|(_, pages)| pages.to_vec()).collect()
    }

    fn pages() -> impl Iterator<Item = u32> {
        std::iter::successors(Some(1_u32), |x| Some(x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)))
            .map(|x| (x >> 16) % 20 * ((x >> 8) % 20))
    }

    /// Only differences of times matter, however late it is.
    #[test]
    fn it_does_the_same_after_2_to_the_48_writes() {
        for threshold in ["mean", "3.5", "100"] {
            let (mut early, mut late) = (policy(threshold), policy(threshold));
            late.clock = 1 << 48;
            for page in pages().take(5000) {
                assert_eq!(write(&mut early, page), write(&mut late, page));
            }
        }
    }

    /// Distances as long as the longest trace neither wrap nor disturb the sum.
    #[test]
    fn distances_of_2_to_the_48_writes_are_counted() {
        for threshold in ["mean", "281474976710656"] {
            let mut policy = policy(threshold);
            for page in 0..40 {
                assert_eq!(write(&mut policy, page), []);
            }
            policy.clock += 1 << 48;
            // Block 3, written at 13 to 16, has four distances, three of them 0.
            assert_eq!(write(&mut policy, 12), []);
            assert_eq!(write(&mut policy, 100), [0, 1, 2, 3].map(PageNo));
            assert_eq!(policy.blocks[3].mean, (((1 << 48) + 24) / 4) << FRACTION_BITS);
            let exact: i128 = (0..100)
                .filter(|block| policy.blocks[*block].count > 0)
                .map(|block| i128::from(policy.blocks[block].line().0))
                .sum();
            assert_eq!(policy.sum, exact);
        }
    }

    #[test]
    fn memory_is_bounded_by_the_blocks() {
        let mut policy = policy("mean");
        for page in pages().take(200_000) {
            write(&mut policy, page);
            if policy.clock % 512 == 0 {
                policy.notify(
                    BufferNotice::Trim { page: PageNo(page) },
                    &NoDevice,
                    &mut NoVeto,
                    &mut Evictions::default(),
                );
            }
            for (heap, live) in policy.updated.heaps.iter().zip(&policy.updated.live) {
                assert!(heap.len() <= 2 * *live as usize + 65, "{} entries for {live} blocks", heap.len());
            }
        }
    }
}
