//! Which page leaves CCF-LRU under a veto. The search goes where the scan would, as often as it
//! would meet a page; pages that are passed over keep their places.

use super::super::page_lists::{Frame, PageLists};
use super::super::searched::{Parked, Searched};
use super::super::vetoed_search::VetoedSearch;
use super::super::{Exhausted, Veto};
use super::{COLD_CLEAN, CcfLru, MIXED};

/// What was passed over, and how far the searches have come.
#[derive(Clone, Debug)]
pub(super) struct Vetoes {
    parked: Parked,
    /// Parked pages of the cold clean list.
    cold_clean: Searched,
    /// Pages of the mixed list that are parked, or that a scan moves on.
    first_turn: Searched,
    /// Those that are parked or clean.
    second_turn: Searched,
    /// Those that are parked.
    last_turn: Searched,
    /// Those that are parked and that a scan leaves as they are.
    settled: Searched,
}

impl Default for Vetoes {
    fn default() -> Self {
        Self {
            parked: Parked::default(),
            cold_clean: Searched::new(COLD_CLEAN, 2),
            first_turn: Searched::new(MIXED, 4),
            second_turn: Searched::new(MIXED, 8),
            last_turn: Searched::new(MIXED, 16),
            settled: Searched::new(MIXED, 32),
        }
    }
}

impl VetoedSearch<5> for Vetoes {
    #[inline]
    fn parts(&mut self) -> (&mut Parked, [&mut Searched; 5]) {
        let Self { parked, cold_clean, first_turn, second_turn, last_turn, settled } = self;
        (parked, [cold_clean, first_turn, second_turn, last_turn, settled])
    }
}

impl Vetoes {
    /// The page became clean in its place.
    pub(super) fn cleaned(&mut self, pages: &mut PageLists, frame: u32) {
        self.first_turn.retreat(pages, frame);
    }
}

impl CcfLru {
    /// The frame to give up, or `None` if every page is vetoed and the access shall bypass, or none
    /// is held.
    pub(super) fn victim_under<V: Veto>(&mut self, veto: &mut V) -> Option<u32> {
        let Some((list, frame)) = self.search(veto) else {
            let bypass = self.pages.len() == 0 || veto.exhausted() == Exhausted::Bypass;
            return if bypass { None } else { self.scan() };
        };
        if list == MIXED {
            let &Frame { dirty, cold, .. } = self.pages.frame(frame);
            self.move_all_on();
            if !cold && !dirty && self.evict_hot_clean {
                self.move_on(frame);
            }
        }
        Some(frame)
    }

    /// What the published scan would choose if it skipped what is vetoed, and from which list;
    /// nothing is moved yet. Cold clean pages; then the mixed list, in which the scan goes on to
    /// the hot dirty pages when it has turned them cold, and then to the clean pages that it
    /// spared.
    fn search<V: Veto>(&mut self, veto: &mut V) -> Option<(u32, u32)> {
        let Vetoes { parked, cold_clean, first_turn, second_turn, last_turn, .. } = &mut self.vetoes;
        while let Some(frame) = cold_clean.next(&self.pages) {
            if parked.lets_leave(&mut self.pages, frame, veto) {
                return Some((COLD_CLEAN, frame));
            }
            cold_clean.add(&mut self.pages, frame);
        }
        while let Some(frame) = first_turn.next(&self.pages) {
            let &Frame { dirty, cold, .. } = self.pages.frame(frame);
            if (cold || !dirty && self.evict_hot_clean) && parked.lets_leave(&mut self.pages, frame, veto) {
                return Some((MIXED, frame));
            }
            first_turn.add(&mut self.pages, frame);
        }
        while let Some(frame) = second_turn.next(&self.pages) {
            if self.pages.frame(frame).dirty && parked.lets_leave(&mut self.pages, frame, veto) {
                return Some((MIXED, frame));
            }
            second_turn.add(&mut self.pages, frame);
        }
        while let Some(frame) = last_turn.next(&self.pages) {
            if parked.lets_leave(&mut self.pages, frame, veto) {
                return Some((MIXED, frame));
            }
            last_turn.add(&mut self.pages, frame);
        }
        None
    }

    /// Does what a scan does to the hot pages of `first_turn` when it has gone over all of it.
    fn move_all_on(&mut self) {
        while let Some(frame) = self.vetoes.settled.next(&self.pages) {
            if !self.vetoes.first_turn.has(&self.pages, frame) {
                break;
            }
            if self.pages.frame(frame).cold {
                self.vetoes.settled.add(&mut self.pages, frame);
            } else {
                self.move_on(frame);
            }
        }
    }
}
