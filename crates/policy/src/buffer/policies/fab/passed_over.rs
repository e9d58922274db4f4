//! The blocks of FAB that a veto passed over. They stand in no list (they are *parked*) until they
//! are used, or lose a page, or [`BufferNotice::Resume`](crate::buffer::BufferNotice::Resume) comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use destage_plan::Element;

use crate::buffer::block_buffer::HeldBlock;

/// The blocks that a veto passed over.
#[derive(Clone, Debug, Default)]
pub(super) struct PassedOver {
    /// Block → it stands here and in no list.
    is_parked: Vec<bool>,
    /// Counts the parked blocks.
    blocks: u32,
    /// Per element the blocks and when they were last used; entries of blocks that were used since
    /// are outdated.
    elements: Vec<Vec<(u64, u32)>>,
    /// All in the order in which they would leave, the first at the top; entries may be outdated
    /// here too.
    order: BinaryHeap<(u32, Reverse<u64>, u32)>,
}

impl PassedOver {
    /// Returns the elements for whose sake blocks may be parked.
    pub(super) fn elements(&self) -> impl Iterator<Item = Element> + use<> {
        (0..self.elements.len() as u32).map(Element)
    }

    /// Returns true if an entry of the order is not outdated.
    fn stands(&self, held: &[HeldBlock<u64>], &(size, Reverse(used), block): &(u32, Reverse<u64>, u32)) -> bool {
        let HeldBlock { pages, history } = held[block as usize];
        self.is_parked[block as usize] && history == used && pages == size
    }

    /// Parks a block that the caller has taken out of its list.
    pub(super) fn park(&mut self, held: &[HeldBlock<u64>], element: Element, block: u32) {
        let HeldBlock { pages: size, history: used } = held[block as usize];
        if element.index() >= self.elements.len() {
            self.elements.resize(element.index() + 1, Vec::new());
        }
        if self.is_parked.len() < held.len() {
            self.is_parked.resize(held.len(), false);
        }
        // Outdated entries are swept once they outnumber the parked blocks, which is O(1) for each entry.
        let most = 2 * self.blocks as usize + 64;
        let Self { is_parked, elements, .. } = self;
        let of_element = &mut elements[element.index()];
        if of_element.len() > most {
            of_element.retain(|&(used, block)| is_parked[block as usize] && held[block as usize].history == used);
            of_element.sort_unstable();
            of_element.dedup();
        }
        if self.order.len() > most {
            let mut entries = std::mem::take(&mut self.order).into_vec();
            entries.retain(|entry| self.stands(held, entry));
            entries.sort_unstable();
            entries.dedup();
            self.order = entries.into();
        }
        self.is_parked[block as usize] = true;
        self.blocks += 1;
        self.elements[element.index()].push((used, block));
        self.order.push((size, Reverse(used), block));
    }

    /// Takes note that a block is no longer parked, and returns whether it was.
    #[inline]
    pub(super) fn unpark(&mut self, block: u32) -> bool {
        let is_parked = self.blocks > 0 && std::mem::take(&mut self.is_parked[block as usize]);
        self.blocks -= u32::from(is_parked);
        is_parked
    }

    /// Takes out what was passed over for the element, by size and use, each with its last use.
    pub(super) fn resume(&mut self, held: &[HeldBlock<u64>], element: Element) -> Vec<(u64, u32)> {
        let mut entries = self.elements.get_mut(element.index()).map(std::mem::take).unwrap_or_default();
        // Sorted by size and use the caller can put each list's blocks back in one walk.
        entries.sort_unstable_by_key(|&(used, block)| (held[block as usize].pages, used));
        entries.retain(|&(used, block)| held[block as usize].history == used && self.unpark(block));
        entries
    }

    /// Reuses the memory of what [`Self::resume`] returned.
    pub(super) fn reuse(&mut self, element: Element, mut entries: Vec<(u64, u32)>) {
        if let Some(of_element) = self.elements.get_mut(element.index()) {
            entries.clear();
            *of_element = entries;
        }
    }

    /// Returns the first of the parked blocks other than `spared` to leave.
    pub(super) fn first_but(&mut self, held: &[HeldBlock<u64>], spared: u32) -> Option<u32> {
        let mut put_aside = None;
        while let Some(entry) = self.order.peek() {
            let stands = self.stands(held, entry);
            if stands && entry.2 != spared {
                break;
            }
            let top = self.order.pop();
            if stands {
                put_aside = top;
            }
        }
        let first = self.order.peek().map(|&(_, _, block)| block);
        // The spared block is spared for this eviction alone.
        self.order.extend(put_aside);
        first
    }
}
