//! What leaves CAVE under a veto. It is asked about clean pages only, and those of the cold clean
//! list that it passes over are parked: where dirty pages go is a matter of channels. Those that it
//! avoids are skipped, and so many fewer pages are enough.

use super::Cave;
use crate::buffer::{EvictionVeto, Evictions, WhenExhausted};

impl Cave {
    /// Where the veto avoids all channels, or nothing is collected since all that is left was
    /// passed over: drops the oldest page passed over, unless the access shall bypass; returns
    /// whether something left. `None` if the pages collected are to leave, as they do all the same
    /// if nothing was passed over.
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
        let oldest = self.parking.oldest()?;
        self.drop_page(oldest, out);
        Some(true)
    }
}
