//! Remembers the searched parts of a page-level policy's lists, so that a search for a victim does not look
//! at the same pages again.
//!
//! [`SearchedPart`] is the part of a list, from the least recently used end, that holds no victim. A search
//! begins after it and adds the frames that it meets. Each page is added once for each time that it comes to
//! the front of the list, or is to be considered again; so searches of any length are O(1) amortised.
//!
//! [`ParkedFrames`] has the pages that a veto passed over. Unlike those of
//! [`ParkedLists`](super::parking::Parking) they stay in their lists, for policies in which they keep
//! counting (for a window), or are moved while they are parked (by a second chance).

use destage_plan::Element;

use super::page_lists::PageLists;
use super::parking::LinkedList as _;
use super::{EvictionCandidate, EvictionVeto};
use crate::links::NodeLinks;

/// The bit of a frame's tag that says that the page is parked.
pub(super) const PARKED: u16 = 1;

/// The searched part of one list.
#[derive(Clone, Debug)]
pub(super) struct SearchedPart {
    list: u32,
    /// The most recently used frame of the part; the list's sentinel if it is empty.
    end: u32,
    len: u32,
    /// The bit that the frames of the part have in their tags.
    mark: u16,
}

impl SearchedPart {
    /// The empty part of a list. Each part of the lists of a policy has a mark of its own.
    pub(super) const fn new(list: u32, mark: u16) -> Self {
        Self { list, end: list, len: 0, mark }
    }

    /// Frames in it.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Is true if the frame is in the searched part.
    #[inline]
    pub(super) fn has(&self, pages: &PageLists, frame: u32) -> bool {
        pages.frame(frame).tag & self.mark != 0
    }

    /// The first frame behind it, or `None` if it is the whole list.
    #[inline]
    pub(super) fn next(&self, pages: &PageLists) -> Option<u32> {
        Some(pages.prev(self.end)).filter(|&frame| frame != self.list)
    }

    /// Adds the frame that [`Self::next`] told.
    #[inline]
    pub(super) fn add(&mut self, pages: &mut PageLists, frame: u32) {
        pages.frame_mut(frame).tag |= self.mark;
        self.end = frame;
        self.len += 1;
    }

    /// The frame is about to leave its place in the list.
    #[inline]
    pub(super) fn remove(&mut self, pages: &mut PageLists, frame: u32) {
        if self.has(pages, frame) {
            pages.frame_mut(frame).tag &= !self.mark;
            self.len -= 1;
            if self.end == frame {
                // The part ends at its newest frame, so it now ends at the next older one.
                self.end = pages.next(frame);
            }
        }
    }

    /// The frame is to be met again: it and all frames used more recently are behind the part.
    #[inline]
    pub(super) fn retreat(&mut self, pages: &mut PageLists, frame: u32) {
        // Everything newer than the frame is met again too: a part is a tail of its list without gaps.
        while self.has(pages, frame) {
            self.remove(pages, self.end);
        }
    }
}

/// The parked frames per element for whose sake they were passed over.
#[derive(Clone, Debug, Default)]
pub(super) struct ParkedFrames {
    /// Node `2e` is the sentinel of element `e`, node `2f + 1` is frame `f`; the first parked is at
    /// the back.
    lists: NodeLinks,
    /// One more than the number of the last element for whose sake a frame was parked.
    elements: u32,
}

impl ParkedFrames {
    /// Returns the elements for whose sake frames may be parked.
    pub(super) fn elements(&self) -> impl Iterator<Item = Element> + use<> {
        (0..self.elements).map(Element)
    }

    /// Takes in a frame that is not parked.
    fn park(&mut self, pages: &mut PageLists, element: Element, frame: u32) {
        // Sentinels have even numbers and frames odd ones, so that both can grow in one set of links.
        let (sentinel, node) = (2 * element.0, 2 * frame + 1);
        self.elements = self.elements.max(element.0 + 1);
        self.lists.grow(sentinel.max(node) + 1);
        self.lists.insert_after(sentinel, node);
        pages.frame_mut(frame).tag |= PARKED;
    }

    /// Returns true if the page may leave. A page that the veto passes over is parked; a parked page may not
    /// leave.
    #[inline]
    pub(super) fn lets_leave<V: EvictionVeto>(&mut self, pages: &mut PageLists, frame: u32, veto: &mut V) -> bool {
        let own = pages.frame(frame);
        // A parked frame is not asked about again: its element has not resumed since.
        if own.tag & PARKED != 0 {
            return false;
        }
        let objection = veto.passes_over(EvictionCandidate::Page { page: own.page(), dirty: own.dirty });
        if let Some(element) = objection {
            self.park(pages, element, frame);
        }
        objection.is_none()
    }

    /// The frame was accessed, or is given up.
    #[inline]
    pub(super) fn forget(&mut self, pages: &mut PageLists, frame: u32) {
        if pages.frame(frame).tag & PARKED != 0 {
            pages.frame_mut(frame).tag &= !PARKED;
            self.lists.unlink(2 * frame + 1);
        }
    }

    /// Takes out one of the frames parked for the element.
    pub(super) fn resume(&mut self, pages: &mut PageLists, element: Element) -> Option<u32> {
        let sentinel = 2 * element.0;
        self.lists.grow(sentinel + 1);
        let node = self.lists.prev(sentinel);
        if node == sentinel {
            return None;
        }
        self.forget(pages, node / 2);
        Some(node / 2)
    }
}
