//! Which block leaves PUD-LRU where the published victim may be protected (`protect_current`) or
//! vetoed. The search goes through the blocks anew each time.

use destage_plan::PageNo;

use super::super::{Candidate, Exhausted, Veto};
use super::{Choice, PudLru};

impl PudLru {
    /// The first block to go that is neither `spared` nor vetoed, or none if every block is vetoed
    /// and the access shall bypass. A veto is asked about the blocks in the order in which they
    /// would go.
    pub(super) fn victim_but<V: Veto>(
        &mut self,
        spared: u32,
        veto: &mut V,
        threshold: i64,
        mut oldest: u32,
    ) -> Option<u32> {
        let (mut base, mut victim) = (None, None);
        while let Some(Choice { block, size, .. }) = self.first(threshold, oldest) {
            if block != spared {
                base = base.or(Some(block));
                let first = PageNo(block * self.pages_per_block);
                let (cached, padded) = (self.cached.of(block), self.is_padded(block));
                if veto.passes_over(Candidate::Block { first, cached, dirty: cached, padded }).is_none() {
                    victim = Some(block);
                    break;
                }
            }
            match size {
                Some(size) => {
                    let top = self.updated.take(size);
                    self.passed_over.extend(top.map(|entry| (size, entry)));
                }
                None => oldest = self.new.prev(oldest),
            }
        }
        for (size, entry) in self.passed_over.drain(..) {
            self.updated.push(size, entry);
        }
        if victim.is_none() && V::ACTIVE && veto.exhausted() == Exhausted::Bypass {
            return None;
        }
        victim.or(base)
    }

    fn is_padded(&self, block: u32) -> bool {
        self.padding.applies(self.blocks[block as usize].count)
    }
}
