//! Reads: each page from where its newest version is.

use destage_plan::{Buf, Frag, NvSlot, OpId, Out, Step, StepSet};
use destage_raid::array::{DegradedRead, RaidArray, ReadLoss, StripeSegment};

use super::WriteCache;
use crate::ReadPages;

impl WriteCache {
    /// Plans the read of a segment of which pages are computed, or of which there are too many pieces for one operation.
    pub(super) fn plan_read_segment(
        &mut self,
        op: OpId,
        frag: &Frag,
        seg: StripeSegment,
        dst: Buf,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<StepSet, ReadLoss> {
        let pages = array.pages_of(seg);
        let hits = pages.filter(|page| self.store.newest(self.place(*page)).is_some()).count() as u64;
        // The array asks the cache for the sources, so pages in the NVRAM are read
        // from there within its plan.
        let done = array.plan_read_seg(op, seg, frag.page, dst, self, out)?;
        self.counts.read_hits += hits;
        self.counts.read_misses += u64::from(seg.pages()) - hits;
        Ok(done)
    }

    /// Plans the read of pages, each from where its newest version is.
    pub(super) fn plan_read(
        &mut self,
        op: OpId,
        pages: ReadPages<'_>,
        dst: Buf,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<StepSet, DegradedRead> {
        /// An operation has 64 steps; every run of pages may take one for each column that it lies in.
        const STEPS: usize = 40;
        let mut runs: Vec<(u16, u16, Option<NvSlot>)> = Vec::new();
        for page in pages.from..pages.from + pages.count {
            // An empty cache costs reads one comparison.
            let slot = if self.store.is_empty() {
                None
            } else {
                self.store.newest(self.place(pages.frag.page + u64::from(page)))
            };
            match runs.last_mut() {
                // Pages on members are read in runs; each page of the NVRAM has a
                // slot of its own.
                Some((_, count, None)) if slot.is_none() => *count += 1,
                _ => runs.push((page, 1, slot)),
            }
        }
        let from_members = || runs.iter().filter(|run| run.2.is_none());
        if runs.len() > 1 {
            // Too many pieces for one operation: the read is split into segments.
            if runs.len() + usize::from(self.geometry.data_columns()) > STEPS {
                return Err(DegradedRead);
            }
            // Checked before any step is planned, since a plan that is half made
            // cannot be taken back.
            from_members()
                .try_for_each(|&(page, count, _)| array.check_whole(pages.frag.page + u64::from(page), count))?;
        }
        let mut done = StepSet::EMPTY;
        for &(page, count, slot) in &runs {
            let to = pages.in_fragment(dst, page);
            done |= match slot {
                Some(slot) => {
                    self.store.pin(op, slot);
                    let srcs = out.list(op, &[Buf::Nv(slot)]);
                    // An XOR of one source is the copy; steps need no kind of their
                    // own for it.
                    out.step(op, Step::Xor { srcs, pages: 1, dst: to }, StepSet::EMPTY)
                }
                None => array.plan_read(op, pages.frag.page + u64::from(page), count, to, out)?,
            };
        }
        let misses: u16 = from_members().map(|run| run.1).sum();
        self.counts.read_misses += u64::from(misses);
        self.counts.read_hits += u64::from(pages.count - misses);
        Ok(done)
    }
}
