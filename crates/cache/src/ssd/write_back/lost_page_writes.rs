//! Writes of lost pages past the cache. They are answered when the members have the pages durably and the list of lost pages,
//! which a start believes, has them no longer.

use std::collections::VecDeque;

use destage_plan::{Dev, OpId, Out, Step, StepNo, StepSet};
use destage_raid::array::RaidArray;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{WriteBack, WriteBackTask};
use crate::{CacheOperations, PlannedWrite};

/// Names a write, and the lost pages that it writes from end to end.
struct LostPageWrite {
    op: OpId,
    pages: Vec<u64>,
}

/// Keeps the writes of lost pages that are not answered.
#[derive(Default)]
pub(super) struct LostPageWrites {
    /// Holds by operation the pages, and the step that ends when the members have them.
    planned: HashMap<OpId, (Vec<u64>, StepSet), FixedState>,
    /// Holds those that the members have.
    written: Vec<LostPageWrite>,
    /// Holds those for which the members are being flushed, and the operation that does it.
    flush: Option<(OpId, Vec<LostPageWrite>)>,
    /// Holds those that are durable, each with the number of the list without its pages.
    durable: VecDeque<(LostPageWrite, u64)>,
}

impl LostPageWrites {
    /// Takes in that a step is done. Returns true if it ends what the members are asked for.
    pub(super) fn step_done(&mut self, op: OpId, step: StepNo) -> bool {
        let is_last = |(_, last): &(Vec<u64>, StepSet)| last.contains(step);
        if !self.planned.get(&op).is_some_and(is_last) {
            return false;
        }
        let (pages, _) = self.planned.remove(&op).expect("it was found");
        self.written.push(LostPageWrite { op, pages });
        true
    }

    /// Forgets an operation that will not write what it was to.
    pub(super) fn undone(&mut self, op: OpId) {
        self.planned.remove(&op);
    }

    /// Returns true if none is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.planned.is_empty() && self.written.is_empty() && self.flush.is_none() && self.durable.is_empty()
    }
}

impl WriteBack {
    /// Returns true if a write past the cache makes lost pages whole again: those that it writes from end to end.
    pub(super) fn renews(&mut self, op: OpId, write: &PlannedWrite<'_>, array: &RaidArray, out: &mut Out) -> bool {
        // A part of a page leaves the rest lost, so it heals nothing.
        if self.lost.is_empty() || write.frag.sectors.is_some() {
            return false;
        }
        let pages: Vec<u64> = array.pages_of(write.seg).filter(|page| self.lost.contains(page)).collect();
        if pages.is_empty() {
            return false;
        }
        // The join tells when the last member has the data; before that nothing may
        // be struck off the list.
        let last = out.step_notify(op, Step::Join, write.after);
        self.renewals.planned.insert(op, (pages, last));
        true
    }

    /// Has the members flushed for what was written to them, and answers what the next start knows of.
    pub(super) fn renew(&mut self, operations: &mut CacheOperations<WriteBackTask>, out: &mut Out) {
        // One flush at a time serves all writes that ended before it began.
        if self.renewals.flush.is_none() && !self.renewals.written.is_empty() {
            let written = std::mem::take(&mut self.renewals.written);
            self.renewals.flush = Some((operations.open_own(None, WriteBackTask::Renew, out), written));
        }
        let journal = self.copies.journal.as_deref().expect("it has a log");
        while let Some((LostPageWrite { op, pages }, _)) =
            // In the order of numbers: a later update of the list covers all
            // earlier ones.
            self.renewals.durable.pop_front_if(|(_, number)| journal.has_told(*number))
        {
            for page in pages {
                // Only now: reads must fail until a crash can no longer bring the
                // loss back.
                self.lost.remove(&page);
            }
            operations.finish_write(op, StepSet::EMPTY, out);
        }
    }

    /// Plans the flush of the members that answer.
    pub(super) fn plan_renewal(&self, op: OpId, array: &RaidArray, out: &mut Out) {
        // Lost members have nothing to flush; parity on the others covers them.
        for dev in (0..self.geometry().members()).map(Dev).filter(|dev| !array.is_lost(*dev)) {
            out.step(op, Step::FlushDev { dev }, StepSet::EMPTY);
        }
        out.close(op);
    }

    /// Takes that an operation has ended: what was written before it is durable, if it has flushed the members.
    pub(super) fn renewal_done(&mut self, op: OpId) {
        let Some((_, written)) = self.renewals.flush.take_if(|(flush, _)| *flush == op) else { return };
        for page in written.iter().flat_map(|renewal| &renewal.pages) {
            // The list changes in the NVRAM after the flush. In the other order a
            // crash could leave an old page that counts as good.
            self.copies.journal.as_mut().expect("it has a log").heal(*page);
        }
        let number = self.journal().healed();
        self.renewals.durable.extend(written.into_iter().map(|renewal| (renewal, number)));
    }
}
