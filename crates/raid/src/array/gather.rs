//! Has writes of a sequential run wait for those that fill their rows, so that parity is computed without reading anything,
//! as md delays stripes of which it would have to read.
//!
//! A write waits only while others of its run are open whose stripes lie before its own, so that nobody waits in a circle; it
//! waits once, and only if what is open of the run reaches to the end of its rows.

use destage_plan::{ColumnSet, HostOp, OpId, Out, Rows, Stripe};

use super::write::{WriteExtent, WriteTask};
use super::{ArrayTask, PageVersions, RaidArray};

/// Describes a write of a sequential run that is not done.
#[derive(Clone, Copy)]
struct OpenWrite {
    op: OpId,
    run: u8,
    stripe: Stripe,
    pages: u16,
}

/// Lists the writes of sequential runs.
#[derive(Default)]
pub(super) struct RunWrites {
    open: Vec<OpenWrite>,
    /// Names those that wait, with their runs and stripes.
    waiting: Vec<(OpId, u8, Stripe)>,
}

impl RunWrites {
    /// Returns true if a write of the run is open in a stripe before this one.
    fn is_behind(&self, run: u8, stripe: Stripe) -> bool {
        self.open.iter().any(|write| write.run == run && write.stripe < stripe)
    }

    /// Counts the pages of the run's writes that are open.
    fn open_pages(&self, run: u8) -> u64 {
        self.open.iter().filter(|write| write.run == run).map(|write| u64::from(write.pages)).sum()
    }
}

impl RaidArray {
    /// Returns true if writes of sequential runs may wait for each other.
    pub const fn gathers_runs(&self) -> bool {
        self.config.kept_rows() > 0
    }

    /// Notes that a write of a run is opened, and has those tried again that wait for the rest of their rows in its stripe.
    pub(super) fn run_goes_on(&mut self, op: OpId, run: u8, stripe: Stripe, pages: u16, out: &mut Out) {
        self.run_writes.open.push(OpenWrite { op, run, stripe, pages });
        self.run_writes.waiting.retain(|(op, _, of)| {
            // A further write of the same row may complete it, so that those that wait look again.
            let wakes = *of == stripe;
            if wakes {
                out.again(*op);
            }
            !wakes
        });
    }

    /// Notes that a write of a run is done, and lets those go on that have nothing to wait for any more.
    pub(super) fn run_write_ends(&mut self, op: OpId, out: &mut Out) {
        self.run_writes.open.retain(|write| write.op != op);
        let mut waiting = std::mem::take(&mut self.run_writes.waiting);
        waiting.retain(|&(op, run, stripe)| {
            let waits = self.run_writes.is_behind(run, stripe);
            if !waits {
                // It waits once: the run has passed, and nothing more is coming for its row.
                self.write_task(op).has_gathered = true;
                out.again(op);
            }
            waits
        });
        self.run_writes.waiting = waiting;
    }

    /// Returns true if a write is to wait for others of its run, and notes that it does; else notes whether its rows are full
    /// with those that wait for it.
    pub(super) fn waits_for_run(
        &mut self,
        op: OpId,
        what: WriteExtent,
        versions: &dyn PageVersions,
        out: &Out,
    ) -> bool {
        let task = self.write_task(op);
        let (run, has_gathered) = (task.run, task.has_gathered);
        if run == 0 || task.op != HostOp::Write || what.part.is_some() || task.done > 0 || !self.keeps_rows(what.rows) {
            return false;
        }
        let columns = self.columns_in_full(op, what, versions, out);
        // A full row needs no wait: its parity comes from the written pages alone.
        let is_full = columns == self.data;
        self.write_task(op).is_full = is_full;
        if is_full {
            return false;
        }
        let (lowest, highest) = (what.columns.lowest(), columns.iter().last());
        let missing = (self.data - columns).iter().last().filter(|last| Some(*last) > highest);
        let (Some(last), Some(first)) = (missing, lowest) else {
            // The end of the rows has come.
            return false;
        };
        // What the run has from the write's first page to the end of its rows.
        let reach = (last.index() - first.index()) as u32 * self.config.geometry.chunk_pages() + what.rows.count;
        let writes = &self.run_writes;
        let waits = !has_gathered
            && !what.fua
            && versions.may_pass()
            // Only writes to earlier stripes are waited for, so no two writes can wait for each other.
            && writes.is_behind(run, what.stripe)
            // Without enough open pages the rest of the row may never come.
            && writes.open_pages(run) >= u64::from(reach);
        if waits {
            self.run_writes.waiting.push((op, run, what.stripe));
        }
        waits
    }

    /// Returns the columns that a write has with those that can be carried out with it if that fills the rows.
    fn columns_in_full(&self, op: OpId, what: WriteExtent, versions: &dyn PageVersions, out: &Out) -> ColumnSet {
        let mut columns = what.columns;
        self.each_follower(op, what.rows, true, versions, out, |_, others| columns |= others);
        columns
    }

    /// Offers the writes of the same rows, whole, that wait for this one alone and may be carried out with it, with their
    /// columns: also those of which something is above that can be passed by, where that fills the rows.
    pub(super) fn each_follower(
        &self,
        op: OpId,
        rows: Rows,
        is_full: bool,
        versions: &dyn PageVersions,
        out: &Out,
        mut taken: impl FnMut(OpId, ColumnSet),
    ) {
        let mut written = self.task_of(op).map_or(ColumnSet::EMPTY, |task| task.asks().0);
        self.each_waiting(op, rows, out, |other, task| {
            let columns = task.asks().0;
            // The copy of a page must not be of the first of two that write it.
            let is_alone = !self.has_copies || !written.meets(columns);
            let passes = task.bypass || is_full && versions.may_pass();
            if !is_alone || !passes && !versions.may_fold(rows, columns) {
                return false;
            }
            written |= columns;
            taken(other, columns);
            true
        });
    }

    /// Offers the writes of the same rows, whole, that wait for this one alone and for such as were taken before.
    pub(super) fn each_waiting(
        &self,
        op: OpId,
        rows: Rows,
        out: &Out,
        mut taken: impl FnMut(OpId, &WriteTask) -> bool,
    ) {
        // Of what is planned in parts others would be told too early.
        let Some(first) = self.task_of(op).filter(|task| task.rows() == rows.count) else { return };
        out.followers(op, |other| self.task_of(other).is_some_and(|task| task.foldable(first) && taken(other, task)));
    }

    /// Returns the task of a write; none if the operation is not one.
    pub(super) fn task_of(&self, op: OpId) -> Option<&WriteTask> {
        match self.tasks.get(op.index())?.as_ref()? {
            ArrayTask::Write(task) => Some(task),
            _ => None,
        }
    }
}
