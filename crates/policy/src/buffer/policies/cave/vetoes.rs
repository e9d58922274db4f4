//! Chooses CAVE's victims under a veto. CAVE asks about clean pages only, since channels decide about dirty
//! ones, and parks those of the cold clean list that the veto passes over. Avoided channels are skipped, and
//! fewer pages are enough by as many.

use super::Cave;
use crate::buffer::{EvictionVeto, Evictions, WhenExhausted};

impl Cave {
    /// Drops the oldest page passed over, where the veto avoids all channels or all other pages were passed
    /// over. If the access shall bypass, no page is dropped. Returns whether a page left. Returns `None` if
    /// the collected pages are to leave, as they also do if no page was passed over.
    pub(super) fn instead_of_programming<V: EvictionVeto>(
        &mut self,
        veto: &mut V,
        out: &mut Evictions,
    ) -> Option<bool> {
        if self.collected > 0 && !self.channels.is_closed() {
            return None;
        }
        if self.pages.len() == 0 || veto.exhausted() == WhenExhausted::Bypass {
            return Some(false);
        }
        // What is left to leave is a parked page: it is clean, and costs no program.
        let oldest = self.parking.oldest()?;
        self.drop_page(oldest, out);
        Some(true)
    }
}
