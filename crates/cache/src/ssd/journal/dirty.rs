//! Logs dirty pages, and notes that there may be some.

use destage_plan::{OpId, Out, StepSet};

use super::{CacheJournal, PUTS, slots};
use crate::ssd::frames::{FilledFrame, FrameNo};
use crate::ssd::log::{FrameFact, LogEntry};

impl CacheJournal {
    /// The cache may have dirty pages.
    pub(in crate::ssd) const fn keep_dirty(&mut self) {
        self.start.keep_dirty();
    }

    /// Returns true if the NVRAM says, and will go on saying, that nothing is dirty.
    pub(in crate::ssd) const fn is_noted_clean(&self) -> bool {
        self.start.is_noted_clean()
    }

    /// Returns true if so many entries can be put, some of them of dirty pages.
    pub(in crate::ssd) const fn can_soil(&self, entries: usize) -> bool {
        // A dirty entry before the note would be lost silently with the device: a
        // start without it would not know that anything was dirty.
        self.start.is_noted_dirty() && self.spare.len() >= entries
    }

    /// Entries that an operation may put beside its own work, whatever else goes on, in the end.
    pub(in crate::ssd) const fn most_at_once(&self) -> usize {
        let most = slots(self.frames as u64) as usize / 4;
        if most < PUTS { most } else { PUTS }
    }

    /// Sets whether there may be dirty pages. The NVRAM notes it before any of them is logged.
    pub(in crate::ssd) const fn set_dirty(&mut self, dirty: bool) {
        self.start.set_dirty(dirty);
    }

    /// Dirty pages were lost with the device.
    pub(in crate::ssd) fn lost_dirty(&mut self, pages: impl IntoIterator<Item = u64>) {
        self.start.lost_dirty(pages);
    }

    /// Takes a page off the list of those that were lost: it is written again, or was not lost.
    pub(in crate::ssd) fn heal(&mut self, page: u64) {
        self.start.losses.heal(page);
    }

    /// Returns the number by which [`has_told`](Self::has_told) knows the pages that are off the list now.
    pub(in crate::ssd) fn healed(&self) -> u64 {
        self.start.losses.number()
    }

    /// Returns true if the next start knows that these pages are not lost.
    pub(in crate::ssd) const fn has_told(&self, number: u64) -> bool {
        self.start.losses.has_told(number)
    }

    /// Counts the pages that are lost.
    pub(in crate::ssd) fn lost_page_count(&self) -> usize {
        self.start.losses.len()
    }

    /// Returns the pages that are lost.
    pub(in crate::ssd) fn lost_pages(&self) -> impl Iterator<Item = u64> {
        self.start.losses.pages()
    }

    /// Returns true if the NVRAM says that dirty pages were lost, or is about to.
    pub(in crate::ssd) fn notes_losses(&self) -> bool {
        self.start.losses.is_any()
    }

    /// Returns true once after it turned out that there were dirty pages and none of them is known.
    pub(in crate::ssd) const fn take_unknown(&mut self) -> bool {
        self.start.take_unknown()
    }

    /// Accepts the loss of pages, so that it need not be noted any more.
    pub(in crate::ssd) fn accept_loss(&mut self) {
        self.dead.extend(self.start.losses.accept());
    }

    /// Returns true once after a log was read into the frames.
    pub(in crate::ssd) const fn take_read(&mut self) -> bool {
        self.start.take_read()
    }

    /// Plans the entries of dirty pages that an operation brings, after these steps; the steps after which
    /// they are told of. There must be [slots](Self::can_soil).
    pub(in crate::ssd) fn plan_dirty(
        &mut self,
        op: OpId,
        pages: impl Iterator<Item = (FrameNo, u64)>,
        after: StepSet,
        out: &mut Out,
    ) -> StepSet {
        let Some(log) = &mut self.log else { return after };
        let mut entries = Vec::new();
        for (frame, page) in pages {
            let slot = self.spare.pop().expect("the slots were counted");
            // The checksum is not known yet: the executor fills it in as it writes.
            let fact = FrameFact::Dirty { page, checksum: None };
            entries.push((LogEntry { frame: frame.number(), sequence: log.next_sequence(), fact }, slot));
        }
        if entries.is_empty() { after } else { self.claims.plan_dirty(op, entries, self.life, after, out) }
    }

    /// Has the log keep the checksum of what should be in the frame of a dirty page, which is not what is there.
    pub(in crate::ssd) fn mark(&mut self, came: FilledFrame) {
        self.marks.push(came);
    }

    /// A dirty page is written back. What is in its frame is durable, or has to be made so before that is told.
    pub(in crate::ssd) fn landed(&mut self, came: FilledFrame, durable: bool) {
        if durable {
            // The list of lost pages must forget this page first. Otherwise a crash
            // could leave it both clean and lost.
            self.tells.push_back((came, self.start.losses.number()));
        } else {
            // The write-back read the frame, but what is in the frame may still be
            // in the device's volatile cache.
            self.landed.push(came);
        }
    }
}
