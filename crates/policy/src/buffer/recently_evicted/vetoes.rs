//! Which page leaves REF under a veto: those of victim blocks are asked about, with
//! `most_pages_in_vw` all pages of the window block by block, then all pages from the LRU end on,
//! those beyond the window too. Pages that are passed over stay in their places and count for the
//! window.

use destage_plan::Element;

use super::super::page_lists::PageLists;
use super::super::searched::{PARKED, Parked, Searched};
use super::super::{Exhausted, Veto};
use super::{LIST, RecentlyEvicted};

/// What was passed over, and how far the search has come.
#[derive(Clone, Debug)]
pub(super) struct Vetoes {
    parked: Parked,
    /// Parked pages.
    any: Searched,
}

impl Default for Vetoes {
    fn default() -> Self {
        Self { parked: Parked::default(), any: Searched::new(LIST, 4) }
    }
}

impl Vetoes {
    /// The frame is about to leave its place, used or given up.
    #[inline]
    pub(super) fn forget(&mut self, pages: &mut PageLists, frame: u32) {
        self.any.remove(pages, frame);
        self.parked.forget(pages, frame);
    }

    /// Considers again what was passed over for the element.
    pub(super) fn resume(&mut self, pages: &mut PageLists, element: Element) {
        while let Some(frame) = self.parked.resume(pages, element) {
            self.any.retreat(pages, frame);
        }
    }
}

impl RecentlyEvicted {
    /// The frame to give up, and whether its block becomes a victim block; `None` if every page is
    /// vetoed and the access shall bypass, or none is held.
    pub(super) fn victim_under<V: Veto>(&mut self, veto: &mut V) -> Option<(u32, bool)> {
        while let Some(frame) = self.of_victim_blocks(|block| self.oldest_not_parked(block)) {
            if self.vetoes.parked.lets_leave(&mut self.pages, frame, veto) {
                return Some((frame, false));
            }
        }
        while let Some(frame) = self.of_largest_blocks() {
            if self.vetoes.parked.lets_leave(&mut self.pages, frame, veto) {
                return Some((frame, true));
            }
        }
        let Vetoes { parked, any } = &mut self.vetoes;
        while let Some(frame) = any.next(&self.pages) {
            if parked.lets_leave(&mut self.pages, frame, veto) {
                return Some((frame, true));
            }
            any.add(&mut self.pages, frame);
        }
        if self.pages.len() == 0 || veto.exhausted() == Exhausted::Bypass {
            return None;
        }
        self.search()
    }

    /// Of the block's pages in the window that are not parked the one nearest the LRU end, 0 if
    /// there is none.
    fn oldest_not_parked(&self, block: u32) -> u32 {
        let mut frame = self.blocks[block as usize].oldest;
        while frame != 0 && self.pages.frame(frame).tag & PARKED != 0 {
            frame = self.seats[frame as usize].newer;
        }
        frame
    }

    /// The first page that is not parked of the blocks in the order in which they become victim
    /// blocks.
    fn of_largest_blocks(&self) -> Option<u32> {
        let mut oldest = self.sizes.as_ref()?.blocks().map(|block| self.oldest_not_parked(block));
        oldest.find(|&frame| frame != 0)
    }
}
