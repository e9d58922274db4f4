//! Chooses CAWR's victims under a veto. CAWR asks about clean pages only, since channels decide about dirty
//! ones, and parks those of the cold clean list that the veto passes over. A cold dirty list sits out while
//! its channel is avoided: it is not written and no page begins it, but a page that follows its pages joins
//! it.

use super::Cawr;
use crate::buffer::{EvictionVeto, Evictions, WhenExhausted};

impl Cawr {
    /// Drops the oldest page passed over, where the veto avoids the channels of all cold dirty lists with
    /// pages, or all other pages were passed over. If the access shall bypass, no page is dropped. Returns
    /// whether a page left. Returns `None` if lists are to be written, as all are if no page was passed over.
    pub(super) fn instead_of_programming<V: EvictionVeto>(
        &mut self,
        veto: &mut V,
        out: &mut Evictions,
    ) -> Option<bool> {
        let mut lengths = (0..).zip(&self.lengths);
        let may = lengths.any(|(channel, &length)| length > 0 && self.channels.is_open(channel));
        if may && !self.channels.is_closed() {
            return None;
        }
        if self.pages.len() == 0 || veto.exhausted() == WhenExhausted::Bypass {
            return Some(false);
        }
        if let Some(oldest) = self.parking.oldest() {
            self.drop_page(oldest, out);
            return Some(true);
        }
        self.channels.open_all();
        None
    }
}
