//! Which page leaves LRU-WSR under a veto. The search goes twice over the list, as the scan would:
//! for pages that are clean or cold, then for those that had a second chance. Pages that are passed
//! over stay in their places.

use super::super::page_lists::PageLists;
use super::super::searched::{Parked, Searched};
use super::super::vetoed_search::VetoedSearch;
use super::super::{Exhausted, Veto};
use super::{LIST, LruWsr, is_spared};

/// What was passed over, and how far the searches have come.
#[derive(Clone, Debug)]
pub(super) struct Vetoes {
    parked: Parked,
    /// Pages that are parked, or dirty and not cold.
    first_turn: Searched,
    /// Parked pages.
    second_turn: Searched,
    /// Parked pages that a scan leaves as they are.
    settled: Searched,
}

impl Default for Vetoes {
    fn default() -> Self {
        Self {
            parked: Parked::default(),
            first_turn: Searched::new(LIST, 2),
            second_turn: Searched::new(LIST, 4),
            settled: Searched::new(LIST, 8),
        }
    }
}

impl VetoedSearch<3> for Vetoes {
    #[inline]
    fn parts(&mut self) -> (&mut Parked, [&mut Searched; 3]) {
        let Self { parked, first_turn, second_turn, settled } = self;
        (parked, [first_turn, second_turn, settled])
    }
}

impl Vetoes {
    /// The page became clean in its place.
    pub(super) fn cleaned(&mut self, pages: &mut PageLists, frame: u32) {
        self.first_turn.retreat(pages, frame);
    }
}

impl LruWsr {
    /// The frame to give up, or `None` if every page is vetoed and the access shall bypass, or none
    /// is held.
    pub(super) fn victim_under<V: Veto>(&mut self, veto: &mut V) -> Option<u32> {
        let Vetoes { parked, first_turn, second_turn, .. } = &mut self.vetoes;
        while let Some(frame) = first_turn.next(&self.pages) {
            if !is_spared(self.pages.frame(frame)) && parked.lets_leave(&mut self.pages, frame, veto) {
                self.second_chances();
                return Some(frame);
            }
            first_turn.add(&mut self.pages, frame);
        }
        while let Some(frame) = second_turn.next(&self.pages) {
            if parked.lets_leave(&mut self.pages, frame, veto) {
                self.second_chances();
                return Some(frame);
            }
            second_turn.add(&mut self.pages, frame);
        }
        if self.pages.len() == 0 || veto.exhausted() == Exhausted::Bypass {
            return None;
        }
        self.scan()
    }

    /// Gives the second chances of a scan that has gone over all of `first_turn`.
    fn second_chances(&mut self) {
        while let Some(frame) = self.vetoes.settled.next(&self.pages) {
            if !self.vetoes.first_turn.has(&self.pages, frame) {
                break;
            }
            if is_spared(self.pages.frame(frame)) {
                self.second_chance(frame);
            } else {
                self.vetoes.settled.add(&mut self.pages, frame);
            }
        }
    }
}
