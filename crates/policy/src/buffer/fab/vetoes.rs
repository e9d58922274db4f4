//! Which block leaves FAB under a veto: the first in the order of eviction that is not passed over.
//! What is passed over stands in no list (it is *parked*) until it is used, or loses a page, or
//! [`BufferNotice::Resume`](super::BufferNotice::Resume) comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use destage_plan::{Element, PageNo};

use super::super::{Candidate, Exhausted, Veto};
use super::Fab;

/// The blocks that a veto passed over.
#[derive(Clone, Debug, Default)]
pub(super) struct Vetoes {
    /// Block → it stands here and in no list.
    is_parked: Vec<bool>,
    /// How many do.
    blocks: u32,
    /// Per element the blocks and when they were last used; entries of blocks that were used since
    /// are outdated.
    elements: Vec<Vec<(u64, u32)>>,
    /// All in the order in which they would leave, the first at the top; entries may be outdated
    /// here too.
    order: BinaryHeap<(u32, Reverse<u64>, u32)>,
}

impl Fab {
    /// The block to give up, other than `spared`; `None` if every block is vetoed and the access
    /// shall bypass.
    pub(super) fn victim_under<V: Veto>(&mut self, spared: u32, veto: &mut V) -> Option<u32> {
        let mut next = self.first();
        while let Some(block) = next {
            next = self.after(block);
            if block != spared {
                let first = PageNo(block * self.pages_per_block);
                let (cached, dirty) = (self.cached.of(block), self.dirty.of(block));
                let Some(element) = veto.passes_over(Candidate::Block { first, cached, dirty, padded: false }) else {
                    return Some(block);
                };
                self.park(element, block);
            }
        }
        let base = self.first_parked_but(spared)?;
        (veto.exhausted() == Exhausted::TakeBase).then_some(base)
    }

    /// Takes a block out of its list because of the element.
    fn park(&mut self, element: Element, block: u32) {
        let (size, used) = (self.count[block as usize], self.used[block as usize]);
        let node = self.node(block);
        self.lists.unlink(node);
        self.leave_size(size);
        let (count, last_use) = (&self.count, &self.used);
        let Vetoes { is_parked, blocks, elements, order } = &mut self.vetoes;
        if element.index() >= elements.len() {
            elements.resize(element.index() + 1, Vec::new());
        }
        if is_parked.len() < count.len() {
            is_parked.resize(count.len(), false);
        }
        let most = 2 * *blocks as usize + 64;
        let of_element = &mut elements[element.index()];
        if of_element.len() > most {
            of_element.retain(|&(used, block)| is_parked[block as usize] && last_use[block as usize] == used);
            of_element.sort_unstable();
            of_element.dedup();
        }
        if order.len() > most {
            let stands = |&(size, Reverse(used), block): &(u32, Reverse<u64>, u32)| {
                is_parked[block as usize] && last_use[block as usize] == used && count[block as usize] == size
            };
            let mut entries = std::mem::take(order).into_vec();
            entries.retain(stands);
            entries.sort_unstable();
            entries.dedup();
            *order = entries.into();
        }
        is_parked[block as usize] = true;
        *blocks += 1;
        of_element.push((used, block));
        order.push((size, Reverse(used), block));
    }

    /// Takes back a block of `size` pages if it is parked; the caller gives it its place, or
    /// forgets it.
    #[inline]
    pub(super) fn take_back(&mut self, block: u32, size: u32) {
        if self.unpark(block) {
            self.enter_size(size);
        }
    }

    /// Puts a block back into its place if it is parked: it is no longer what was passed over.
    pub(super) fn take_back_in_order(&mut self, block: u32) {
        if self.unpark(block) {
            let size = self.count[block as usize];
            self.enter_size(size);
            self.insert_in_order(block, self.lists.prev(size));
        }
    }

    /// Takes note that a block is no longer parked, if it was.
    #[inline]
    fn unpark(&mut self, block: u32) -> bool {
        let is_parked = self.vetoes.blocks > 0 && std::mem::take(&mut self.vetoes.is_parked[block as usize]);
        self.vetoes.blocks -= u32::from(is_parked);
        is_parked
    }

    /// Considers again what was passed over for the element.
    pub(super) fn resume(&mut self, element: Element) {
        let Some(of_element) = self.vetoes.elements.get_mut(element.index()) else { return };
        let mut entries = std::mem::take(of_element);
        entries.sort_unstable_by_key(|&(used, block)| (self.count[block as usize], used));
        let (mut list, mut at) = (0, 0);
        for (used, block) in entries.drain(..) {
            if self.used[block as usize] == used && self.unpark(block) {
                let size = self.count[block as usize];
                if size != list {
                    (list, at) = (size, self.lists.prev(size));
                }
                self.enter_size(size);
                at = self.insert_in_order(block, at);
            }
        }
        self.vetoes.elements[element.index()] = entries;
    }

    /// Considers everything again.
    pub(super) fn resume_all(&mut self) {
        (0..self.vetoes.elements.len() as u32).map(Element).for_each(|element| self.resume(element));
    }

    /// Of the parked blocks other than `spared` the first to leave.
    fn first_parked_but(&mut self, spared: u32) -> Option<u32> {
        let mut put_aside = None;
        while let Some(&(size, Reverse(used), block)) = self.vetoes.order.peek() {
            let at = block as usize;
            let stands = self.vetoes.is_parked[at] && self.used[at] == used && self.count[at] == size;
            if stands && block != spared {
                break;
            }
            let top = self.vetoes.order.pop();
            if stands {
                put_aside = top;
            }
        }
        let first = self.vetoes.order.peek().map(|&(_, _, block)| block);
        self.vetoes.order.extend(put_aside);
        first
    }
}
