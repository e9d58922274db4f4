//! Does commits of the NVRAM, makes them durable, and releases the notices that waited for that.

use std::collections::VecDeque;

use destage_plan::{Buf, Controller, HostNotice, Issue, Step};

use super::executor::MemoryExecutor;

impl<C: Controller> MemoryExecutor<C> {
    /// Makes all commits durable that are done.
    pub(super) fn sync(&mut self) {
        if !self.pending.is_open() {
            return;
        }
        self.note(|| "the NVRAM is synced".to_owned());
        let pending = &mut self.pending;
        (pending.durable, pending.open) = (pending.done(), VecDeque::new());
        // Held steps and notices wait for no later commit than those done now.
        self.in_flight.extend(pending.held.drain(..).map(|(_, entry)| entry));
        pending.told.extend(pending.notices.drain(..).map(|(_, notice)| notice));
    }

    /// Records a commit that is about to be done.
    pub(super) fn commits(&mut self, issue: Issue) {
        let Step::NvCommit { puts, frees } = *self.engine.step(issue) else { return };
        // Without the option a commit is durable at once, and nothing can undo it.
        if self.pending.is_on {
            let puts = self.engine.puts(issue.op, puts).iter().map(|put| put.slot);
            let frees = self.engine.bufs(issue.op, frees).iter().map(|buf| match buf {
                Buf::Nv(slot) => *slot,
                other => panic!("{other:?} is no slot of the NVRAM"),
            });
            self.pending.open.push_back(self.bytes.nvram().undo(puts, frees));
        }
    }

    /// Returns the next notice that is not held.
    pub(super) fn say(&mut self) -> Option<HostNotice> {
        loop {
            if let Some(told) = self.pending.told.pop_front() {
                return Some(told);
            }
            let notice = self.engine.next_notice()?;
            if !self.pending.holds_notice(notice) {
                return Some(notice);
            }
        }
    }
}
