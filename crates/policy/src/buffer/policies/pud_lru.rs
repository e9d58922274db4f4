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

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use destage_plan::{ParamSpec, Params};

use crate::buffer::block_buffer::{BlockPolicy, HeldBlock, PolicyBlocks};
use crate::buffer::max_tree::MaxTree;
use crate::buffer::options::PROTECT_CURRENT;
use crate::buffer::padding::BlockPadding;
use crate::buffer::{BufferConfig, EvictionUnit, EvictionVeto, PolicyError, PolicyInfo};
use crate::links::NodeLinks;

/// Parts of a write to which UD is rounded, as a power of two. With 12 bits every number below fits
/// for 2^49 writes, more than a year of them at 10 million a second.
const FRACTION_BITS: u32 = 12;

/// The largest threshold in page writes: no PUD comes near.
const MOST_WRITES: f64 = (1_u64 << 48) as f64;

/// The sentinel of the list of blocks that were never updated; node `block + 1` is the block.
const NEW: u32 = 0;

/// T.
#[derive(Clone, Copy, Debug)]
enum PudThreshold {
    Mean,
    /// As a [`PudRank::pud`].
    Fixed(i64),
}

impl PudThreshold {
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

/// Holds the times of a buffered block's writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UpdateHistory {
    /// The time of the last write, which is 1 or more.
    last: i64,
    /// Updates since the block entered.
    updates: i64,
    /// The sum of their distances.
    distances: i64,
    /// UD in 2^-[`FRACTION_BITS`] writes, rounded down.
    mean: i64,
    /// The value of `last` in the one entry of the heaps that stands for the block.
    entered: i64,
}

impl UpdateHistory {
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
struct PudRank {
    /// Twice the PUD in 2^-[`FRACTION_BITS`] writes; in the heaps, where all have grown alike, at
    /// time 0.
    pud: i64,
    last: Reverse<i64>,
}

impl PudRank {
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
struct PudEntry {
    rank: PudRank,
    block: u32,
}

/// The blocks that were updated, by size and rank.
///
/// A write only ever lowers a block's rank: the distance it adds moves the mean by less than the
/// clock moves `last`. So an entry may stand too high until it surfaces, and a write that adds no
/// page touches no heap. Entries of blocks that have left or changed their size are dropped when
/// they surface.
#[derive(Clone, Debug)]
struct UpdatedBlocks {
    heaps: Vec<BinaryHeap<PudEntry>>,
    /// Blocks per size; a heap may hold untrue entries beside theirs.
    live: Vec<u32>,
    /// For each size at least the PUD of its heap's top.
    tops: MaxTree,
}

impl UpdatedBlocks {
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
    fn stands(blocks: &[HeldBlock<UpdateHistory>], size: u32, entry: &PudEntry) -> bool {
        let block = &blocks[entry.block as usize];
        block.pages == size && block.history.entered == entry.rank.last.0
    }

    /// Enters a block under its present size.
    #[inline]
    fn add(&mut self, blocks: &mut [HeldBlock<UpdateHistory>], block: u32) {
        let HeldBlock { pages: size, history } = &mut blocks[block as usize];
        history.entered = history.last;
        let (size, rank) = (*size, PudRank { pud: history.key(), last: Reverse(history.last) });
        let most = 2 * self.live[size as usize] as usize + 64;
        let heap = &mut self.heaps[size as usize];
        // Outdated entries are swept once they outnumber the live ones, which is O(1) for each entry.
        if heap.len() > most {
            heap.retain(|entry| Self::stands(blocks, size, entry));
        }
        self.live[size as usize] += 1;
        self.push(size, PudEntry { rank, block });
    }

    #[inline]
    fn push(&mut self, size: u32, entry: PudEntry) {
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
    fn take(&mut self, size: u32) -> Option<PudEntry> {
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
    fn first_above(&mut self, blocks: &mut [HeldBlock<UpdateHistory>], size: u32, floor: PudRank) -> Option<PudEntry> {
        let first = loop {
            let Some(mut top) = self.heaps[size as usize].peek_mut().filter(|entry| entry.rank > floor) else {
                break None;
            };
            if !Self::stands(blocks, size, &top) {
                PeekMut::pop(top);
                continue;
            }
            let history = &mut blocks[top.block as usize].history;
            // An entry that was updated since is moved down where it is met, not at each update.
            if history.entered == history.last {
                break Some(*top);
            }
            history.entered = history.last;
            top.rank = PudRank { pud: history.key(), last: Reverse(history.last) };
        };
        self.note_top(size);
        first
    }
}

/// A block that may be evicted.
#[derive(Clone, Copy, Debug)]
struct PudChoice {
    block: u32,
    /// At the time of the eviction.
    rank: PudRank,
}

/// PUD-aware LRU.
#[derive(Clone, Debug)]
pub(super) struct PudLru {
    threshold: PudThreshold,
    /// Page writes buffered so far.
    clock: i64,
    /// The sum of all [`UpdateHistory::line`]s: of the numbers, and of the slopes.
    sum: i128,
    slope: i64,
    updated: UpdatedBlocks,
    /// The blocks that were never updated, the newest first.
    new: NodeLinks,
    /// Holds the present search's place among the new blocks, if the search has passed any.
    new_at: Option<u32>,
    /// The other blocks that it has passed: entries of the heaps, with their sizes.
    passed_over: Vec<(u32, PudEntry)>,
}

const THRESHOLD: ParamSpec = ParamSpec {
    name: "threshold",
    default: "mean",
    values: "mean, or a number of page writes from 0 to 2^48",
    unit: "page writes",
    help: "predicted update distance above which a block is infrequently updated; mean of all buffered blocks",
};

impl BlockPolicy for PudLru {
    const INFO: PolicyInfo = PolicyInfo {
        name: "pud-lru",
        title: "the largest of the blocks with a long predicted update distance",
        about: "A write buffer of logical blocks. How far apart a block's updates were and how long ago the last one \
                was predicts when the next one comes; of the blocks for which that is longer than a threshold the \
                one with the most pages leaves. The paper's text was not at hand: docs/specs says how gaps are \
                filled.",
        paper: "PUD-LRU, MASCOTS 2010",
        year: 2010,
        unit: EvictionUnit::Block,
        chooses_channels: false,
        params: &[THRESHOLD, ParamSpec { default: "never", ..BlockPadding::PARAM }, PROTECT_CURRENT],
    };

    const PADS: bool = true;

    type History = UpdateHistory;

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        Ok(Self {
            threshold: PudThreshold::parse(params.text(THRESHOLD.name)).ok_or_else(|| params.refuse(THRESHOLD.name))?,
            clock: 0,
            sum: 0,
            slope: 0,
            updated: UpdatedBlocks::new(config.pages_per_block.min(config.capacity_pages)),
            new: NodeLinks::new(1),
            new_at: None,
            passed_over: Vec::new(),
        })
    }

    fn grow(&mut self, blocks: u32) {
        self.new.grow(blocks + 1);
    }

    #[inline]
    fn note_use<V: EvictionVeto>(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32, _offset: u32, is_added: bool) {
        blocks.memory_accesses += 1;
        self.clock += 1;
        let now = self.clock;
        let HeldBlock { pages, history } = &mut blocks.blocks[block as usize];
        if is_added && *pages == 1 {
            history.last = now;
            self.new.insert_after(NEW, block + 1);
            self.count_in(history);
            return;
        }
        self.count_out(history);
        let UpdateHistory { last, updates, .. } = *history;
        history.last = now;
        history.updates = updates + 1;
        history.distances += now - last - 1;
        history.mean = (history.distances << FRACTION_BITS) / history.updates;
        self.count_in(history);
        if updates == 0 {
            self.new.unlink(block + 1);
            self.updated.add(&mut blocks.blocks, block);
        } else if is_added {
            self.updated.remove(*pages - 1);
            self.updated.add(&mut blocks.blocks, block);
        }
    }

    #[inline]
    fn note_departure(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32) {
        let HeldBlock { pages, history } = &blocks.blocks[block as usize];
        self.count_out(history);
        if history.updates == 0 {
            self.new.unlink(block + 1);
        } else {
            self.updated.remove(*pages);
        }
    }

    /// Enters the block, which has had an update, under its new size.
    fn note_trim(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32, pages_before: u32) {
        self.updated.remove(pages_before);
        self.updated.add(&mut blocks.blocks, block);
    }

    #[inline]
    fn first(&mut self, blocks: &mut PolicyBlocks<Self>) -> Option<u32> {
        if blocks.held == 0 {
            return None;
        }
        self.first_from(blocks, self.new.prev(NEW))
    }

    fn after(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32) -> Option<u32> {
        let HeldBlock { pages: size, history } = blocks.blocks[block as usize];
        if history.updates == 0 {
            self.new_at = Some(self.new.prev(block + 1));
        } else {
            let top = self.updated.take(size);
            // The entry is out only for this search: the veto may think otherwise at the next one.
            self.passed_over.extend(top.map(|entry| (size, entry)));
        }
        self.first_from(blocks, self.new_at.unwrap_or_else(|| self.new.prev(NEW)))
    }

    fn end_search(&mut self) {
        self.new_at = None;
        for (size, entry) in self.passed_over.drain(..) {
            self.updated.push(size, entry);
        }
    }

    #[inline]
    fn search_cost(&self, blocks: &PolicyBlocks<Self>) -> u64 {
        blocks.held.into()
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
    fn count_in(&mut self, history: &UpdateHistory) {
        let (number, slope) = history.line();
        // Each PUD is a line over time, so that the mean needs their sums and no pass over the blocks.
        self.sum += i128::from(number);
        self.slope += slope;
    }

    #[inline]
    fn count_out(&mut self, history: &UpdateHistory) {
        let (number, slope) = history.line();
        self.sum -= i128::from(number);
        self.slope -= slope;
    }

    /// T as a [`PudRank::pud`], rounded down, which makes no difference to a whole number that is
    /// compared with it.
    #[inline]
    fn threshold(&self, blocks: &PolicyBlocks<Self>) -> i64 {
        match self.threshold {
            PudThreshold::Fixed(pud) => pud,
            PudThreshold::Mean => {
                let sum = self.sum + ((i128::from(self.slope) * i128::from(self.now())) << FRACTION_BITS);
                // No PUD is negative, and a mean is no greater than the greatest.
                (sum as u128 / u128::from(blocks.held)) as i64
            }
        }
    }

    /// The block that was never updated at a node, unless that is the sentinel.
    #[inline]
    fn never_updated(&self, blocks: &PolicyBlocks<Self>, node: u32) -> Option<PudChoice> {
        (node != NEW).then(|| {
            let block = node - 1;
            let last = blocks.blocks[block as usize].history.last;
            let pud = (self.now() - last) << (FRACTION_BITS + 1);
            PudChoice { block, rank: PudRank { pud, last: Reverse(last) } }
        })
    }

    /// Of the updated blocks of this size the first to go, if its rank is greater than `floor`.
    #[inline]
    fn updated_above(&mut self, blocks: &mut PolicyBlocks<Self>, size: u32, floor: PudRank) -> Option<PudChoice> {
        let now = self.now();
        let PudEntry { rank, block } = self.updated.first_above(&mut blocks.blocks, size, floor.later(-now))?;
        Some(PudChoice { block, rank: rank.later(now) })
    }

    /// The first block to go: of those that were never updated only `oldest` and newer ones, of the
    /// others those in the heaps.
    #[inline]
    fn first_from(&mut self, blocks: &mut PolicyBlocks<Self>, oldest: u32) -> Option<u32> {
        self.choose_from(blocks, oldest).map(|choice| choice.block)
    }

    #[inline]
    fn choose_from(&mut self, blocks: &mut PolicyBlocks<Self>, oldest: u32) -> Option<PudChoice> {
        let floor = PudRank::above(self.threshold(blocks));
        let key = floor.later(-self.now()).pud;
        let mut end = self.updated.end();
        // Larger sizes come first, and of a size whose top is below the threshold none is looked at.
        while let Some(size) = self.updated.tops.last_above(key, end).filter(|&size| size > 1) {
            let choice = self.updated_above(blocks, size, floor);
            if choice.is_some() {
                return choice;
            }
            end = size;
        }
        let never_updated = self.never_updated(blocks, oldest).filter(|choice| choice.rank > floor);
        let floor_of_one = never_updated.map_or(floor, |choice| choice.rank);
        let choice = self.updated_above(blocks, 1, floor_of_one).or(never_updated);
        if choice.is_some() { choice } else { self.first_of_frequent(blocks, oldest) }
    }

    /// The first block to go where no block's PUD is above the threshold.
    fn first_of_frequent(&mut self, blocks: &mut PolicyBlocks<Self>, oldest: u32) -> Option<PudChoice> {
        let mut best = self.never_updated(blocks, oldest);
        // First the size that is likely to have it, so that few others come into question.
        if let Some(size) = self.updated.tops.last_greatest() {
            best = self.updated_above_best(blocks, size, best);
        }
        let mut end = self.updated.end();
        loop {
            // Of several with the same PUD the rank decides.
            let key = best.map_or(MaxTree::NOTHING, |choice| choice.rank.later(-self.now()).pud - 1);
            let Some(size) = self.updated.tops.last_above(key, end) else { return best };
            best = self.updated_above_best(blocks, size, best);
            end = size;
        }
    }

    /// Of the updated blocks of this size the first to go, if it goes before `best`.
    fn updated_above_best(
        &mut self,
        blocks: &mut PolicyBlocks<Self>,
        size: u32,
        best: Option<PudChoice>,
    ) -> Option<PudChoice> {
        // No PUD is negative.
        let floor = best.map_or(PudRank::above(-1), |choice| choice.rank);
        self.updated_above(blocks, size, floor).or(best)
    }
}

#[cfg(test)]
mod tests {
    use destage_plan::{PageNo, PolicySpec};

    use super::*;
    use crate::buffer::block_buffer::BlockBuffer;
    use crate::buffer::{
        BufferNotice, BufferPolicy as _, Evictions, NoDevice, NoVeto, PageAccess, RegisteredPolicy as _,
    };

    fn policy(threshold: &str) -> BlockBuffer<PudLru> {
        let given = vec![(THRESHOLD.name.to_owned(), threshold.to_owned())];
        let spec = PolicySpec { name: PudLru::INFO.name.into(), given };
        let params = Params::resolve(&[(PudLru::INFO.name, PudLru::INFO.params)], &spec).expect("its parameter");
        let config = BufferConfig { capacity_pages: 40, pages_per_block: 4, elements: 1 };
        let mut policy = BlockBuffer::<PudLru>::with_params(config, &params[0]).expect("a number");
        policy.grow(400);
        policy
    }

    /// Writes a page, and returns the pages that leave.
    fn write(policy: &mut BlockBuffer<PudLru>, page: u32) -> Vec<PageNo> {
        let mut out = Evictions::default();
        policy.access(PageAccess::write(page), &NoDevice, &mut NoVeto, &mut out);
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
            late.policy.clock = 1 << 48;
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
            policy.policy.clock += 1 << 48;
            // Block 3, written at 13 to 16, has four distances, three of them 0.
            assert_eq!(write(&mut policy, 12), []);
            assert_eq!(write(&mut policy, 100), [0, 1, 2, 3].map(PageNo));
            assert_eq!(policy.blocks.blocks[3].history.mean, (((1 << 48) + 24) / 4) << FRACTION_BITS);
            let exact: i128 = (0..100)
                .filter(|block| policy.blocks.pages_of(*block) > 0)
                .map(|block| i128::from(policy.blocks.blocks[block as usize].history.line().0))
                .sum();
            assert_eq!(policy.policy.sum, exact);
        }
    }

    #[test]
    fn memory_is_bounded_by_the_blocks() {
        let mut policy = policy("mean");
        for page in pages().take(200_000) {
            write(&mut policy, page);
            if policy.policy.clock % 512 == 0 {
                policy.notify(
                    BufferNotice::Trim { page: PageNo(page) },
                    &NoDevice,
                    &mut NoVeto,
                    &mut Evictions::default(),
                );
            }
            for (heap, live) in policy.policy.updated.heaps.iter().zip(&policy.policy.updated.live) {
                assert!(heap.len() <= 2 * *live as usize + 65, "{} entries for {live} blocks", heap.len());
            }
        }
    }
}
