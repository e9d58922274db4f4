//! Which block leaves BPLRU under a veto: the least recently used one that is not passed over.

use destage_plan::PageNo;

use super::super::{Candidate, Exhausted, Veto};
use super::Bplru;

impl Bplru {
    /// The block to give up, whose node is not `spared`; `None` if every block is vetoed and the
    /// access shall bypass.
    pub(super) fn victim_under<V: Veto>(&mut self, spared: u32, veto: &mut V) -> Option<u32> {
        let mut node = self.list.prev(0);
        while node != 0 {
            let before = self.list.prev(node);
            if node != spared {
                let block = node - 1;
                let (first, cached) = (PageNo(block * self.pages_per_block), self.cached.of(block));
                let padded = self.is_padded(block);
                let Some(element) = veto.passes_over(Candidate::Block { first, cached, dirty: cached, padded }) else {
                    return Some(block);
                };
                self.list.unlink(node);
                self.parking.park(element, node);
            }
            node = before;
        }
        let oldest = self.parking.oldest_but(spared)?;
        (veto.exhausted() == Exhausted::TakeBase).then(|| oldest - 1)
    }
}
