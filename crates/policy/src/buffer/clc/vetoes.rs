//! Which cluster leaves CLC under a veto: the first in the order of eviction that is not passed
//! over. The search goes through the lists anew each time.

use destage_plan::PageNo;

use super::super::{Candidate, Exhausted, Veto};
use super::Clc;

impl Clc {
    /// The cluster to give up, other than `spared`; `None` if every cluster is vetoed and the
    /// access shall bypass.
    pub(super) fn victim_under<V: Veto>(&self, spared: u32, veto: &mut V) -> Option<u32> {
        let in_order = std::iter::successors(Some(self.first()), |&cluster| self.after(cluster));
        let mut unprotected = in_order.filter(|&cluster| cluster != spared).peekable();
        let published = unprotected.peek().copied();
        let allowed = unprotected.find(|&cluster| {
            let (first, cached) = (PageNo(cluster * self.pages_per_block), self.cached.of(cluster));
            let padded = self.padding.applies(self.clusters[cluster as usize].count);
            veto.passes_over(Candidate::Block { first, cached, dirty: cached, padded }).is_none()
        });
        if allowed.is_none() && veto.exhausted() == Exhausted::Bypass {
            return None;
        }
        allowed.or(published)
    }
}
