//! Chooses LB-CLOCK's victim where the published one is protected (`protect_current`) or vetoed.
//!
//! The search goes on where the hand would: through the candidates, through the blocks reset in this round,
//! and through those that the hand would reset in a whole turn. A block that a veto passed over is *parked*
//! until it is written, or loses a page, or [`BufferNotice::Resume`](crate::buffer::BufferNotice::Resume)
//! comes. Each set bit is in one of two logs, so that no scan is needed for the blocks after the candidates
//! either.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use destage_plan::Element;

use super::{LbClock, RingState};
use crate::buffer::block_buffer::{HeldBlock, PolicyBlocks};
use crate::buffer::{EvictionVeto, WhenExhausted};

/// Holds the further state of a policy under a veto.
#[derive(Clone, Debug, Default)]
pub(super) struct VetoedBlocks {
    /// The parked blocks by element. Those that are not parked any longer may still be there.
    elements: Vec<Vec<u32>>,
    /// The parked candidates, by size and label, the first to leave at the top; with untrue ones.
    order: BinaryHeap<(u32, Reverse<u64>, u32)>,
    /// The blocks whose recency bit is set: those that are not parked, and those that are; with
    /// untrue ones.
    set: Vec<u32>,
    set_parked: Vec<u32>,
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

impl VetoedBlocks {
    /// The bit of the block was cleared.
    #[inline]
    pub(super) fn note_cleared(&mut self, blocks: &[HeldBlock<RingState>], block: u32) {
        let HeldBlock { pages, history: RingState { label, parked, .. } } = blocks[block as usize];
        if parked {
            self.order.push((pages, Reverse(label), block));
        }
    }

    /// A block whose bit is set is no longer parked.
    pub(super) fn note_unparked(&mut self, block: u32) {
        self.set.push(block);
    }
}

impl LbClock {
    /// Keeps a block aside that is no candidate, or one that is and that the caller has taken from
    /// its heap.
    fn park(&mut self, blocks: &mut PolicyBlocks<Self>, element: Element, block: u32) {
        let VetoedBlocks { elements, order, set_parked, .. } = &mut self.vetoes;
        let most = 2 * blocks.held as usize + 64;
        let blocks = &mut blocks.blocks;
        blocks[block as usize].history.parked = true;
        let HeldBlock { pages, history: RingState { label, recent, .. } } = blocks[block as usize];
        if element.index() >= elements.len() {
            elements.resize(element.index() + 1, Vec::new());
        }
        let of_element = &mut elements[element.index()];
        of_element.push(block);
        keep_true(of_element, most, |&block| blocks[block as usize].history.parked);
        if recent {
            set_parked.push(block);
            keep_true(set_parked, most, |&block| {
                let RingState { recent, parked, .. } = blocks[block as usize].history;
                recent && parked
            });
        } else {
            order.push((pages, Reverse(label), block));
            if order.len() > most {
                let mut entries = std::mem::take(order).into_vec();
                keep_true(&mut entries, most, |entry| Self::is_parked_candidate(blocks, entry));
                *order = entries.into();
            }
        }
    }

    fn is_parked_candidate(
        blocks: &[HeldBlock<RingState>],
        &(size, Reverse(label), block): &(u32, Reverse<u64>, u32),
    ) -> bool {
        let HeldBlock { pages, history } = &blocks[block as usize];
        history.parked && !history.recent && *pages == size && history.label == label
    }

    /// Takes back a block that is in the ring, if it was kept aside: something is about to happen
    /// to it.
    #[inline]
    pub(super) fn reconsider(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32) {
        if blocks.blocks[block as usize].history.parked {
            self.unpark(blocks, block);
        }
    }

    pub(super) fn unpark(&mut self, blocks: &mut PolicyBlocks<Self>, block: u32) {
        let b = &mut blocks.blocks[block as usize].history;
        b.parked = false;
        if b.recent {
            self.vetoes.set.push(block);
        } else {
            self.candidates.take_in(&blocks.blocks, block);
        }
    }

    /// Considers again what was passed over for the element.
    pub(super) fn resume_parked(&mut self, blocks: &mut PolicyBlocks<Self>, element: Element) {
        let Some(of_element) = self.vetoes.elements.get_mut(element.index()) else { return };
        let mut resumed = std::mem::take(of_element);
        resumed.drain(..).for_each(|block| self.reconsider(blocks, block));
        self.vetoes.elements[element.index()] = resumed;
    }

    /// Takes note that the block's bit is set.
    #[inline]
    pub(super) fn note_set<V: EvictionVeto>(&mut self, blocks: &PolicyBlocks<Self>, block: u32) {
        if !V::ACTIVE {
            return;
        }
        let set = &mut self.vetoes.set;
        set.push(block);
        keep_true(set, 2 * blocks.held as usize + 64, |&block| {
            let RingState { recent, parked, .. } = blocks.blocks[block as usize].history;
            recent && !parked
        });
    }

    /// The largest candidate that is neither `spared` nor vetoed. A veto is asked about the
    /// candidates in the order in which they would be chosen.
    fn choose<V: EvictionVeto>(&mut self, blocks: &mut PolicyBlocks<Self>, spared: u32, veto: &mut V) -> Option<u32> {
        blocks.memory_accesses += u64::from(self.candidates.total);
        let mut put_back = None;
        let mut found = None;
        while let Some(size) = self.candidates.largest_size() {
            let Some(block) = self.candidates.first(&blocks.blocks, size) else { break };
            if block == spared {
                // For the present search it is as if it were kept aside.
                blocks.blocks[block as usize].history.parked = true;
                self.candidates.take_out(size);
                put_back = Some(block);
                continue;
            }
            let Some(element) = blocks.objection(false, block, veto) else {
                found = Some(block);
                break;
            };
            self.candidates.take_first(size);
            self.park(blocks, element, block);
        }
        if let Some(block) = put_back {
            blocks.blocks[block as usize].history.parked = false;
            self.candidates.take_in(&blocks.blocks, block);
        }
        found
    }

    /// Looks on where every candidate is protected or vetoed: among the blocks just reset, then
    /// among those that the hand would reset if it went on for a whole turn. The blocks just reset
    /// become candidates.
    #[cold]
    fn look_on<V: EvictionVeto>(&mut self, blocks: &mut PolicyBlocks<Self>, spared: u32, veto: &mut V) -> Option<u32> {
        let mut just_reset = self.reset.clone();
        let still_set = blocks.held - self.candidates.total - just_reset.len() as u32;
        blocks.memory_accesses += just_reset.len() as u64;
        self.admit_reset_blocks(blocks);
        just_reset.retain(|&block| block != spared && !blocks.blocks[block as usize].history.parked);
        Self::sort_as_chosen(blocks, &mut just_reset);
        for &block in &just_reset {
            let Some(element) = blocks.objection(false, block, veto) else { return Some(block) };
            self.candidates.take_out(blocks.pages_of(block));
            self.park(blocks, element, block);
        }
        // The published hand would visit these blocks if it went on.
        blocks.memory_accesses += u64::from(still_set);
        if !V::ACTIVE {
            // Nothing was noted; only where a block is protected does it come to this.
            let is_set = |&block: &u32| block != spared && blocks.blocks[block as usize].history.recent;
            let most = self.clockwise(blocks).filter(is_set).max_by_key(|&block| {
                let HeldBlock { pages, history } = &blocks.blocks[block as usize];
                (*pages, Reverse(history.label))
            });
            return most;
        }
        // Under a veto the log has all blocks whose bit is set, so that the ring is not walked.
        let mut set = std::mem::take(&mut self.vetoes.set);
        set.retain(|&block| {
            blocks.blocks[block as usize].history.recent && !blocks.blocks[block as usize].history.parked
        });
        Self::sort_as_chosen(blocks, &mut set);
        set.dedup();
        let asked = set.iter().position(|&block| {
            block != spared
                && match blocks.objection(false, block, veto) {
                    None => true,
                    Some(element) => {
                        self.park(blocks, element, block);
                        false
                    }
                }
        });
        let found = asked.map(|at| set[at]);
        self.vetoes.set = set;
        found
    }

    fn sort_as_chosen(blocks: &PolicyBlocks<Self>, list: &mut [u32]) {
        list.sort_unstable_by_key(|&block| {
            let HeldBlock { pages, history } = &blocks.blocks[block as usize];
            (Reverse(*pages), history.label)
        });
    }

    /// Of the blocks other than `spared`, all of which are parked, the one that would have left
    /// without a veto. `reset` are those that were reset in the present round and were no
    /// candidates in it.
    fn first_parked_but(&mut self, blocks: &PolicyBlocks<Self>, spared: u32, reset: &[u32]) -> Option<u32> {
        let mut put_aside = Vec::new();
        let mut first = None;
        while let Some(&entry) = self.vetoes.order.peek() {
            if Self::is_parked_candidate(&blocks.blocks, &entry) {
                if entry.2 != spared && !reset.contains(&entry.2) {
                    first = Some(entry.2);
                    break;
                }
                // Entries that only this search must not take stay for later ones.
                put_aside.push(entry);
            }
            self.vetoes.order.pop();
        }
        self.vetoes.order.extend(put_aside);
        if first.is_some() {
            return first;
        }
        let set = self.clockwise(blocks).filter(|&block| blocks.blocks[block as usize].history.recent);
        let mut rest: Vec<u32> = if reset.iter().all(|&block| block == spared) { set.collect() } else { reset.into() };
        rest.retain(|&block| block != spared);
        Self::sort_as_chosen(blocks, &mut rest);
        rest.first().copied()
    }

    /// Turns the hand once around, back to where it stands.
    #[cold]
    fn reset_all<V: EvictionVeto>(&mut self, blocks: &mut PolicyBlocks<Self>) {
        blocks.memory_accesses += u64::from(blocks.held);
        let VetoedBlocks { set, set_parked, .. } = &mut self.vetoes;
        let (mut set, mut set_parked) = (std::mem::take(set), std::mem::take(set_parked));
        if !V::ACTIVE {
            set.extend(self.clockwise(blocks));
        }
        for block in set.drain(..).chain(set_parked.drain(..)) {
            let b = &mut blocks.blocks[block as usize].history;
            if std::mem::take(&mut b.recent) {
                self.become_candidate(blocks, block);
            }
        }
        (self.vetoes.set, self.vetoes.set_parked) = (set, set_parked);
    }

    /// The victim other than `spared` after the hand has turned; `None` if every block is vetoed
    /// and the access shall bypass. If it is one that the hand would reach with its bit set, the
    /// hand goes on for a whole turn.
    pub(super) fn victim_but<V: EvictionVeto>(
        &mut self,
        blocks: &mut PolicyBlocks<Self>,
        spared: u32,
        veto: &mut V,
    ) -> Option<u32> {
        let victim = self.look_for_victim(blocks, spared, veto)?;
        if blocks.blocks[victim as usize].history.recent {
            self.reset_all::<V>(blocks);
        }
        Some(victim)
    }

    fn look_for_victim<V: EvictionVeto>(
        &mut self,
        blocks: &mut PolicyBlocks<Self>,
        spared: u32,
        veto: &mut V,
    ) -> Option<u32> {
        if let Some(victim) = self.choose(blocks, spared, veto) {
            self.admit_reset_blocks(blocks);
            return Some(victim);
        }
        // `look_on` empties the list, and the last resort has to know what was in it.
        let reset = self.reset.clone();
        if let Some(victim) = self.look_on(blocks, spared, veto) {
            return Some(victim);
        }
        (veto.exhausted() == WhenExhausted::TakeBase).then(|| self.first_parked_but(blocks, spared, &reset)).flatten()
    }
}
