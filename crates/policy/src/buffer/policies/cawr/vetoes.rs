//! What leaves CAWR under a veto. It is asked about clean pages only, and those of the cold clean
//! list that it passes over are parked: where dirty pages go is a matter of channels. Cold dirty
//! lists whose channel it avoids sit out: they are not written and no page begins one of them, but
//! a page that follows theirs joins it.

use super::Cawr;
use crate::buffer::{EvictionVeto, Evictions, WhenExhausted};

impl Cawr {
    /// Where the veto avoids the channels of all cold dirty lists with pages, or none has pages
    /// since all that is left was passed over: drops the oldest page passed over, unless the access
    /// shall bypass; returns whether something left. `None` if lists are to be written, as all are
    /// nevertheless if nothing was passed over.
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
