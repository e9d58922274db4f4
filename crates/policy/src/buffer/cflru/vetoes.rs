//! Which page leaves CFLRU under a veto: the clean pages of the window are asked about, then all
//! pages from the LRU end on, those beyond the window too. Pages that are passed over stay in their
//! places.

use destage_plan::Element;

use super::super::page_lists::PageLists;
use super::super::searched::{Parked, Searched};
use super::super::{Exhausted, Veto};
use super::{Cflru, LIST};

/// What was passed over, and how far the searches have come.
#[derive(Clone, Debug)]
pub(super) struct Vetoes {
    parked: Parked,
    /// Pages that are dirty or parked.
    clean_first: Searched,
    /// Parked pages.
    any: Searched,
}

impl Default for Vetoes {
    fn default() -> Self {
        // The mark 2 is that of the published search.
        Self { parked: Parked::default(), clean_first: Searched::new(LIST, 4), any: Searched::new(LIST, 8) }
    }
}

impl Vetoes {
    /// The frame is about to leave its place, used or given up.
    #[inline]
    pub(super) fn forget(&mut self, pages: &mut PageLists, frame: u32) {
        // The published search has taken its own mark away.
        if pages.frame(frame).tag != 0 {
            self.clean_first.remove(pages, frame);
            self.any.remove(pages, frame);
            self.parked.forget(pages, frame);
        }
    }

    /// The page became clean in its place.
    pub(super) fn cleaned(&mut self, pages: &mut PageLists, frame: u32) {
        self.clean_first.retreat(pages, frame);
    }

    /// Considers again what was passed over for the element.
    pub(super) fn resume(&mut self, pages: &mut PageLists, element: Element) {
        while let Some(frame) = self.parked.resume(pages, element) {
            // A dirty page is none that the search for clean ones is to meet again.
            if !pages.frame(frame).dirty {
                self.clean_first.retreat(pages, frame);
            }
            self.any.retreat(pages, frame);
        }
    }
}

impl Cflru {
    /// The frame to give up, of at least one; `None` if every page is vetoed and the access shall
    /// bypass.
    pub(super) fn victim_under<V: Veto>(&mut self, veto: &mut V) -> Option<u32> {
        let Vetoes { parked, clean_first, any } = &mut self.vetoes;
        while clean_first.len() < self.window {
            let Some(frame) = clean_first.next(&self.pages) else { break };
            if !self.pages.frame(frame).dirty && parked.lets_leave(&mut self.pages, frame, veto) {
                self.memory_accesses += u64::from(clean_first.len()) + 1;
                return Some(frame);
            }
            clean_first.add(&mut self.pages, frame);
        }
        while let Some(frame) = any.next(&self.pages) {
            if parked.lets_leave(&mut self.pages, frame, veto) {
                self.count_vain_search();
                return Some(frame);
            }
            any.add(&mut self.pages, frame);
        }
        if veto.exhausted() == Exhausted::Bypass { None } else { self.search() }
    }
}
