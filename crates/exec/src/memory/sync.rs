//! How commits of the NVRAM are done and made durable, and what is said of requests when they are.

use std::collections::VecDeque;

use destage_plan::{Buf, Controller, HostNotice, Issue, Step};

use super::executor::MemoryExecutor;

impl<C: Controller> MemoryExecutor<C> {
    /// All commits that are done are durable.
    pub(super) fn sync(&mut self) {
        if !self.pending.is_open() {
            return;
        }
        self.note(|| "the NVRAM is synced".to_owned());
        let pending = &mut self.pending;
        (pending.durable, pending.open) = (pending.done(), VecDeque::new());
        // All of them wait for no more than what is done.
        self.in_flight.extend(pending.held.drain(..).map(|(_, entry)| entry));
        pending.told.extend(pending.notices.drain(..).map(|(_, notice)| notice));
    }

    /// A commit is about to be done.
    pub(super) fn commits(&mut self, issue: Issue) {
        let Step::NvCommit { puts, frees } = *self.engine.step(issue) else { return };
        if self.pending.is_on {
            let puts = self.engine.puts(issue.op, puts).iter().map(|put| put.slot);
            let frees = self.engine.bufs(issue.op, frees).iter().map(|buf| match buf {
                Buf::Nv(slot) => *slot,
                other => panic!("{other:?} is no slot of the NVRAM"),
            });
            self.pending.open.push_back(self.bytes.nvram().undo(puts, frees));
        }
    }

    /// The next thing that is said and not held.
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
