//! The candidates of LB-CLOCK, found without a scan of the ring.
//!
//! Candidates stand in a heap by label per size, since labels ascend clockwise from the hand;
//! entries that have become untrue are dropped when they surface.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::RingState;
use crate::buffer::block_buffer::HeldBlock;

/// A block and its place in the ring.
type RingBlock = HeldBlock<RingState>;

/// The blocks whose recency bit is 0, by size and label.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockCandidates {
    heaps: Vec<BinaryHeap<Reverse<(u64, u32)>>>,
    /// True entries per size; a heap may hold untrue ones beside them.
    live: Vec<u32>,
    /// A bit for each size that has true entries.
    sizes: Vec<u64>,
    /// Candidates, the parked ones included, which are in no heap.
    pub(super) total: u32,
}

impl BlockCandidates {
    pub(super) fn new(pages_per_block: u32) -> Self {
        let sizes = pages_per_block as usize + 1;
        Self {
            heaps: vec![BinaryHeap::new(); sizes],
            live: vec![0; sizes],
            sizes: vec![0; sizes.div_ceil(64)],
            total: 0,
        }
    }

    fn is_true(blocks: &[RingBlock], size: u32, label: u64, block: u32) -> bool {
        let HeldBlock { pages, history } = &blocks[block as usize];
        history.label == label && *pages == size && !history.recent && !history.parked
    }

    /// The block's bit is 0 now.
    #[inline]
    pub(super) fn add(&mut self, blocks: &[RingBlock], block: u32) {
        self.total += 1;
        if !blocks[block as usize].history.parked {
            self.take_in(blocks, block);
        }
    }

    /// Enters a candidate that is not, or no longer, parked.
    pub(super) fn take_in(&mut self, blocks: &[RingBlock], block: u32) {
        let HeldBlock { pages: size, history: RingState { label, .. } } = blocks[block as usize];
        let heap = &mut self.heaps[size as usize];
        // Outdated entries are swept once they outnumber the live ones, which is O(1) for each entry.
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

    /// Takes note that a candidate of this size, which is not parked, is none any longer.
    #[inline]
    pub(super) fn remove(&mut self, size: u32) {
        self.total -= 1;
        self.take_out(size);
    }

    /// Takes note that a parked candidate is none any longer.
    #[inline]
    pub(super) fn remove_parked(&mut self) {
        self.total -= 1;
    }

    /// Takes note that one entry of this size is no longer true.
    #[inline]
    pub(super) fn take_out(&mut self, size: u32) {
        let live = &mut self.live[size as usize];
        *live -= 1;
        if *live == 0 {
            self.sizes[size as usize / 64] &= !(1 << (size % 64));
            // Without live entries all the rest is outdated.
            self.heaps[size as usize].clear();
        }
    }

    /// The size of the largest candidates that are not parked.
    #[inline]
    pub(super) fn largest_size(&self) -> Option<u32> {
        let word = self.sizes.iter().rposition(|&w| w != 0)?;
        Some(word as u32 * 64 + 63 - self.sizes[word].leading_zeros())
    }

    /// Of the candidates of this size the first clockwise from the hand.
    #[inline]
    pub(super) fn first(&mut self, blocks: &[RingBlock], size: u32) -> Option<u32> {
        let heap = &mut self.heaps[size as usize];
        while let Some(&Reverse((label, block))) = heap.peek() {
            if Self::is_true(blocks, size, label, block) {
                return Some(block);
            }
            heap.pop();
        }
        None
    }

    /// Takes out what [`Self::first`] told of this size; it is parked from now on.
    pub(super) fn take_first(&mut self, size: u32) {
        self.heaps[size as usize].pop();
        self.take_out(size);
    }
}
