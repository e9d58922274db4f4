//! Parks pages of a list policy that a veto passed over, so that a search does not meet them again until the
//! veto's reason has gone.
//!
//! Stamps keep the order: they ascend from the least to the most recently used end of a list. So a parked
//! page goes back to exactly its old place. Stamps exist only while there is a veto; a policy without one
//! pays nothing.

use std::collections::VecDeque;

use destage_plan::Element;

use super::page_lists::PageLists;
use super::{EvictionCandidate, EvictionVeto};
use crate::links::NodeLinks;

/// A circular doubly linked list over indices.
pub(super) trait LinkedList {
    /// The neighbour towards the most recently used end, or the sentinel.
    fn prev(&self, node: u32) -> u32;
    /// Puts a node that is in no list right behind `at`, towards the least recently used end.
    fn insert_after(&mut self, at: u32, node: u32);
}

impl LinkedList for NodeLinks {
    fn prev(&self, node: u32) -> u32 {
        Self::prev(self, node)
    }

    fn insert_after(&mut self, at: u32, node: u32) {
        Self::insert_after(self, at, node);
    }
}

/// The parked nodes of one list, by the element for whose sake they were passed over.
///
/// A node that is used while it is parked goes back into its list with a new stamp; its entry here
/// is outdated by that.
#[derive(Clone, Debug, Default)]
pub(super) struct ParkedLists {
    /// Node → its place in the order; 0 for nodes that have none.
    stamps: Vec<i64>,
    /// The stamps given to the most and to the least recently used end so far.
    front: i64,
    back: i64,
    elements: Vec<ParkedNodes>,
}

/// The nodes parked for one element.
#[derive(Clone, Debug)]
struct ParkedNodes {
    /// Stamp and node, the oldest first.
    nodes: VecDeque<(i64, u32)>,
    /// So many entries are looked through for outdated ones.
    purge_at: usize,
}

/// Entries that are not worth looking through.
const FEW: usize = 64;

impl Default for ParkedNodes {
    fn default() -> Self {
        Self { nodes: VecDeque::new(), purge_at: FEW }
    }
}

impl ParkedLists {
    #[inline]
    fn stamp(&mut self, node: u32, stamp: i64) {
        let node = node as usize;
        if node >= self.stamps.len() {
            // Growth by half keeps the cost per node constant.
            self.stamps.resize(node + node / 2 + 1, 0);
        }
        self.stamps[node] = stamp;
    }

    /// The node went to the most recently used end.
    #[inline]
    #[expect(clippy::wrong_self_convention, reason = "it is the node that goes there")]
    pub(super) fn to_front(&mut self, node: u32) {
        self.front += 1;
        self.stamp(node, self.front);
    }

    /// The same, of a node that was used under this veto.
    #[inline]
    pub(super) fn used<V: EvictionVeto>(&mut self, node: u32) {
        // Without a veto no node is ever parked, so no stamp is needed.
        if V::ACTIVE {
            self.to_front(node);
        }
    }

    /// The node went to the least recently used end.
    #[inline]
    #[expect(clippy::wrong_self_convention, reason = "it is the node that goes there")]
    pub(super) fn to_back(&mut self, node: u32) {
        self.back -= 1;
        self.stamp(node, self.back);
    }

    /// The node went to the most recently used end of this list (`here`), or to another list.
    #[inline]
    pub(super) fn moved(&mut self, node: u32, here: bool) {
        if here {
            self.to_front(node);
        } else {
            self.forget(node);
        }
    }

    /// The node is no longer held.
    #[inline]
    pub(super) fn forget(&mut self, node: u32) {
        if let Some(stamp) = self.stamps.get_mut(node as usize) {
            // Entries of the node are outdated from here on; they are dropped when they surface.
            *stamp = 0;
        }
    }

    /// Takes in a node that the caller has unlinked from its list.
    pub(super) fn park(&mut self, element: Element, node: u32) {
        let element = element.index();
        if element >= self.elements.len() {
            self.elements.resize(element + 1, ParkedNodes::default());
        }
        let (stamps, ParkedNodes { nodes, purge_at }) = (&self.stamps, &mut self.elements[element]);
        if nodes.len() >= *purge_at {
            nodes.retain(|&(stamp, node)| stamps[node as usize] == stamp);
            // Purging at twice the size makes it O(1) amortised.
            *purge_at = 2 * nodes.len() + FEW;
        }
        let stamp = stamps[node as usize];
        // What was taken back and is parked anew may be older than what is parked already.
        let at = nodes.iter().rposition(|&(other, _)| other < stamp).map_or(0, |at| at + 1);
        nodes.insert(at, (stamp, node));
    }

    /// Puts one node back into its place if it is parked: it is no longer what was passed over.
    /// Slow; for trims.
    pub(super) fn take_back(&mut self, node: u32, sentinel: u32, list: &mut impl LinkedList) {
        let Some(&stamp) = self.stamps.get(node as usize) else { return };
        for ParkedNodes { nodes, .. } in &mut self.elements {
            if let Ok(at) = nodes.binary_search(&(stamp, node)) {
                nodes.remove(at);
                let mut at = list.prev(sentinel);
                while at != sentinel && self.stamps[at as usize] < stamp {
                    at = list.prev(at);
                }
                list.insert_after(at, node);
                return;
            }
        }
    }

    /// Puts the nodes parked for the element back into the list of which `sentinel` is the
    /// sentinel.
    pub(super) fn resume(&mut self, element: Element, sentinel: u32, list: &mut impl LinkedList) {
        let Some(parked) = self.elements.get_mut(element.index()) else { return };
        // Both orders ascend, so one walk over the list serves all parked nodes.
        let mut at = list.prev(sentinel);
        for (stamp, node) in parked.nodes.drain(..) {
            if self.stamps[node as usize] == stamp {
                while at != sentinel && self.stamps[at as usize] < stamp {
                    at = list.prev(at);
                }
                list.insert_after(at, node);
            }
        }
    }

    /// Puts everything back.
    pub(super) fn resume_all(&mut self, sentinel: u32, list: &mut impl LinkedList) {
        (0..self.elements.len() as u32).map(Element).for_each(|element| self.resume(element, sentinel, list));
    }

    /// The least recently used of the parked nodes.
    pub(super) fn oldest(&mut self) -> Option<u32> {
        self.oldest_but(u32::MAX)
    }

    /// The least recently used of the parked nodes other than `spared`, which may be no node.
    pub(super) fn oldest_but(&mut self, spared: u32) -> Option<u32> {
        let stamps = &self.stamps;
        let stands = |&&(stamp, node): &&(i64, u32)| stamps[node as usize] == stamp;
        let oldest = self.elements.iter_mut().filter_map(|ParkedNodes { nodes, .. }| {
            while nodes.front().is_some_and(|entry| !stands(&entry)) {
                nodes.pop_front();
            }
            nodes.iter().filter(stands).find(|&&(_, node)| node != spared).copied()
        });
        oldest.min().map(|(_, node)| node)
    }

    /// The least recently used frame of a list that the veto does not pass over; those that it does
    /// are unlinked and parked.
    #[inline]
    pub(super) fn last_allowed<V: EvictionVeto>(
        &mut self,
        pages: &mut PageLists,
        list: u32,
        veto: &mut V,
    ) -> Option<u32> {
        loop {
            let last = pages.prev(list);
            if last == list {
                return None;
            }
            let own = pages.frame(last);
            let Some(element) = veto.passes_over(EvictionCandidate::Page { page: own.page(), dirty: own.dirty }) else {
                return Some(last);
            };
            pages.unlink(last);
            self.park(element, last);
        }
    }
}
