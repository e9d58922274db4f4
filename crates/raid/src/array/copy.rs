//! Copies a member that answers to its successor, a file that takes its place afterwards.
//!
//! The executor gives the successor whatever is written to the member, so all that is left to do is to copy each page once.
//! The claim keeps writes of the rows away meanwhile, and the executor those that need none. Nothing is noted: until the
//! successor has taken its place, it is no device of the array.

use destage_plan::{
    BadPage, Buf, Claim, Class, ColumnSet, CopyEnd, CopyOutcome, Dev, Ext, OpId, Out, Row, Rows, Step, StepSet,
};

use super::bad_pages::BadPageState;
use super::{ArrayTask, PageVersions, RaidArray};

/// Limits the operations that copy rows at the same time: what they read is held in memory.
const CONCURRENT: u32 = 4;
/// Limits the rows of each: writes of them wait for that long.
const ROWS: u32 = 64;

/// Tells how far a member is copied.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CopyRun {
    dev: Option<Dev>,
    /// Counts the orders: an operation of an earlier one copies nothing any more.
    number: u32,
    /// Names the first row that no operation has been opened for.
    next: Row,
    active: u32,
    /// Counts the rows that are copied.
    copied: u64,
    /// Names the member of which all rows are.
    whole: Option<Dev>,
}

impl CopyRun {
    /// Ends the copying of a member that is lost.
    pub(super) fn lose(&mut self, dev: Dev) {
        // A lost member misses writes, so its copy is no copy of the array's content any more.
        self.dev.take_if(|copied| *copied == dev);
        self.whole.take_if(|copied| *copied == dev);
    }
}

/// Copies rows of one stripe.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyTask {
    rows: Rows,
    /// Numbers the order.
    number: u32,
}

impl RaidArray {
    /// Returns the member that is being copied to its successor, and how many of its rows are.
    pub fn copying(&self) -> Option<(Dev, u64)> {
        self.copy.dev.map(|dev| (dev, self.copy.copied))
    }

    /// Begins to copy a member.
    pub(super) fn begin_copy(&mut self, dev: Dev, out: &mut Out) {
        debug_assert!(self.ready && self.copy.dev.is_none(), "an order comes after the last one has ended");
        // Operations of an earlier order may still wait for their claims; the number tells them apart.
        let number = self.copy.number.wrapping_add(1);
        self.copy = CopyRun { dev: (!self.members.is_lost(dev)).then_some(dev), number, ..CopyRun::default() };
        self.copy_more(out);
    }

    /// Ends the copying: the successor has taken the member's place, or there is none.
    pub(super) fn end_copy(&mut self, how: CopyEnd, out: &mut Out) {
        let dev = self.copy.dev.take().or(self.copy.whole.take());
        if let (CopyEnd::Succeeded, Some(dev)) = (how, dev) {
            // What the old one could not read the new one can.
            self.members.bad.renew(dev);
            self.wake(out);
        }
    }

    fn copy_more(&mut self, out: &mut Out) {
        // A clean stop need not wait: until the successor takes the place it is no device of the array.
        let Some(dev) = self.copy.dev.filter(|_| !self.cleaning) else { return };
        let chunk = self.config.geometry.chunk_pages();
        let end = Row(self.config.geometry.member_pages());
        while self.copy.next < end && self.copy.active < CONCURRENT {
            // A claim covers rows of one stripe.
            let (_, first) = self.config.geometry.stripe_of(self.copy.next);
            let left = (end.0 - self.copy.next.0).min(u64::from(ROWS)) as u32;
            let rows = Rows::new(self.copy.next, (chunk - first).min(left));
            self.copy.next = rows.end();
            self.open_copy(rows, out);
        }
        if self.copy.next == end && self.copy.active == 0 {
            (self.copy.dev, self.copy.whole) = (None, Some(dev));
            out.copied(CopyOutcome::Whole);
        }
    }

    /// Opens the copying of rows of one stripe. Reads go on meanwhile; writes conflict with what is read.
    fn open_copy(&mut self, rows: Rows, out: &mut Out) {
        let (stripe, first) = self.config.geometry.stripe_of(rows.first);
        let claim = Claim { stripe, first, rows: rows.count, r: self.all, w: ColumnSet::EMPTY };
        let op = out.open(Class::Rebuild, Some(claim), None);
        self.set_task(op, ArrayTask::Copy(CopyTask { rows, number: self.copy.number }));
        self.copy.active += 1;
    }

    /// Plans to copy rows: from the member, or a page that it cannot read from the others.
    #[cold]
    pub(super) fn plan_copy(&mut self, op: OpId, task: CopyTask, versions: &mut dyn PageVersions, out: &mut Out) {
        let Some(dev) = self.copy.dev.filter(|_| self.copy.number == task.number) else { return out.close(op) };
        if !self.members.persisted() {
            self.waiting.push(op);
            return;
        }
        let rows = task.rows;
        if self.members.is_live(dev, rows) {
            let ext = Ext::new(dev, rows.first.0, rows.count as u16);
            // The executor copies the bytes itself, so no buffer of the plan holds them.
            out.step(op, Step::Duplicate { ext, src: Buf::None }, StepSet::EMPTY);
            return out.close(op);
        }
        // Single rows confine a bad page: the other rows are copied from the member.
        if rows.count > 1 {
            rows.iter().for_each(|row| self.open_copy(Rows::new(row, 1), out));
            self.set_task(op, ArrayTask::Copy(CopyTask { rows: Rows::new(rows.first, 0), ..task }));
            return out.close(op);
        }
        let page = BadPage { dev, page: rows.first.0 };
        if matches!(self.members.bad.state(page), Some(BadPageState::Missing(_))) {
            // The note of it holds of the successor as well.
            return out.close(op);
        }
        let stripe = self.config.geometry.stripe_of(rows.first).0;
        let column = self.config.geometry.column(stripe, dev);
        if let Ok((src, ready)) = self.page_anew(op, rows, column, versions, out) {
            let ext = Ext::new(dev, page.page, 1);
            out.step(op, Step::Duplicate { ext, src }, ready);
        } else {
            versions.released(op);
            out.restart(op);
            // Nobody gives the page up: its member may read it at another try, or it is written.
            self.copy.dev = None;
            out.copied(CopyOutcome::Unreadable(page));
        }
        out.close(op);
    }

    #[cold]
    pub(super) fn copy_done(&mut self, op: OpId, task: CopyTask, versions: &mut dyn PageVersions, out: &mut Out) {
        versions.released(op);
        if task.number == self.copy.number {
            self.copy.active -= 1;
            self.copy.copied += u64::from(task.rows.count);
            self.copy_more(out);
        }
    }
}
