//! What a policy remembers of a search under a veto that goes over its lists several times, for
//! other pages each time.
//!
//! For each time there is a [`Searched`] part of a list. A page that leaves its place leaves all of
//! them, and one that was passed over and may leave again is to be met every time.

use destage_plan::Element;

use super::page_lists::PageLists;
use super::searched::{Parked, Searched};

/// What was passed over, and how far the search has come in each of `N` parts.
pub(super) trait VetoedSearch<const N: usize> {
    /// The pages passed over, and the searched parts.
    fn parts(&mut self) -> (&mut Parked, [&mut Searched; N]);

    /// The frame is about to leave its place; if it was passed over, it still is.
    #[inline]
    fn leave_place(&mut self, pages: &mut PageLists, frame: u32) {
        if pages.frame(frame).tag != 0 {
            for part in self.parts().1 {
                part.remove(pages, frame);
            }
        }
    }

    /// The frame is about to leave its place, used or given up.
    #[inline]
    fn forget(&mut self, pages: &mut PageLists, frame: u32) {
        if pages.frame(frame).tag != 0 {
            self.leave_place(pages, frame);
            self.parts().0.forget(pages, frame);
        }
    }

    /// Considers again what was passed over for the element.
    fn resume(&mut self, pages: &mut PageLists, element: Element) {
        let (parked, mut parts) = self.parts();
        while let Some(frame) = parked.resume(pages, element) {
            for part in &mut parts {
                part.retreat(pages, frame);
            }
        }
    }
}
