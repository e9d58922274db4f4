//! The steps of a write of rows of which no data is lost.

use destage_plan::{Buf, Column, ColumnSet, OpId, Out, Rows, Step, StepSet};

use super::write::{ColumnPages, WriteExtent};
use super::{ParityMethod, RaidArray, StripeColumns};
use crate::MAX_DEVICES;

impl RaidArray {
    /// RAID-1: every copy that can be written.
    pub(super) fn plan_copies(
        &mut self,
        op: OpId,
        what: WriteExtent,
        columns: StripeColumns,
        fresh: Buf,
        trim: bool,
        out: &mut Out,
    ) -> StepSet {
        let targets = columns.live | columns.sink;
        let mut ready = StepSet::EMPTY;
        // A single copy cannot differ from others, so a crash leaves nothing to reconcile.
        if targets.len() > 1 || self.has_copies {
            ready |= self.intent(op, what.rows, StepSet::EMPTY, out);
        }
        let mut page = fresh;
        if let Some(sectors) = what.part {
            let old = out.tmp(op, 1);
            let source = columns.live.lowest().expect("a copy is left");
            let read = self.read_column(op, what, source, old, StepSet::EMPTY, out);
            page = out.tmp(op, 1);
            self.merged = page;
            ready |= out.step(op, Step::Merge { old, new: fresh, sectors, dst: page }, read);
        }
        let mut done = StepSet::EMPTY;
        for column in targets.iter() {
            done |= self.write_column(op, what, column, page, trim, ready, out);
        }
        self.after_writes(op, what, targets, trim, done, out)
    }

    /// All data of the rows is live; parity may be lost.
    pub(super) fn plan_whole(
        &mut self,
        op: OpId,
        what: WriteExtent,
        columns: StripeColumns,
        mut fresh: ColumnPages,
        trim: bool,
        out: &mut Out,
    ) -> StepSet {
        let targets = columns.live | columns.sink;
        let parity = self.parity() & targets;
        let pages = what.rows.count as u16;
        let intent = self.intent_beside(op, what.rows, parity, out);
        if trim {
            // Parity of zeros is zeros: the trim of whole rows keeps them consistent without computing
            // parity.
            let done = (targets & (what.columns | parity)).iter().fold(StepSet::EMPTY, |done, column| {
                done | self.write_column(op, what, column, Buf::Zero, true, intent, out)
            });
            return self.after_writes(op, what, targets, true, done, out);
        }
        let written = what.columns.len();
        let total = self.data.len();
        let full = what.columns == self.data && what.part.is_none();
        // A parity that is being filled holds nothing to modify.
        let rmw = !parity.meets(columns.sink) && {
            let rmw = written + parity.len();
            let rcw = total - written + u32::from(what.part.is_some());
            match self.config.parity {
                ParityMethod::Min => rmw < rcw,
                ParityMethod::Rmw => true,
                ParityMethod::Rcw => false,
                ParityMethod::Disksim => 2 * written < total,
            }
        };
        let mut reads = intent;
        let mut old = [Buf::None; MAX_DEVICES];
        let modify = !parity.is_empty() && !full && rmw;
        let mut read = match (!parity.is_empty(), full, modify) {
            (false, ..) | (_, true, _) => ColumnSet::EMPTY,
            (_, _, true) => what.columns | parity,
            (_, _, false) => self.data - what.columns,
        };
        if what.part.is_some() {
            read |= what.columns;
        }
        for column in read.iter() {
            old[column.index()] = out.tmp(op, pages);
            reads |= self.read_column(op, what, column, old[column.index()], StepSet::EMPTY, out);
        }
        let mut ready = reads;
        if let Some(sectors) = what.part {
            let column = what.only();
            let dst = out.tmp(op, 1);
            ready |= out.step(op, Step::Merge { old: old[column], new: fresh[column], sectors, dst }, reads);
            (fresh[column], self.merged) = (dst, dst);
        }
        let (p, q);
        if parity.is_empty() {
            (p, q) = (Buf::None, Buf::None);
        } else if modify {
            self.stats.rmw_writes += 1;
            (p, q, ready) = self.modify_parity(op, what, parity, &fresh, &old, ready, out);
        } else {
            if full {
                self.stats.full_writes += 1;
            } else {
                self.stats.rcw_writes += 1;
            }
            for column in (self.data - what.columns).iter() {
                fresh[column.index()] = old[column.index()];
            }
            (p, q, ready) = self.compute_parity(op, what.stripe, parity, &fresh, pages, ready, out);
        }
        self.write_columns(op, what, targets, &fresh, p, q, ready, out)
    }

    /// As [`intent`](Self::intent), of rows of which these columns of parity are written: without any there is
    /// nothing that could be inconsistent, unless copies outlive a cut.
    pub(super) fn intent_beside(&mut self, op: OpId, rows: Rows, parity: ColumnSet, out: &mut Out) -> StepSet {
        if parity.is_empty() && !self.has_copies { StepSet::EMPTY } else { self.intent(op, rows, StepSet::EMPTY, out) }
    }

    /// Sets the intent of rows, if it is not set; what writes of them come after.
    pub(super) fn intent(&mut self, op: OpId, rows: Rows, after: StepSet, out: &mut Out) -> StepSet {
        let task = self.write_task(op);
        // An intent that is already durable costs no step.
        if task.finds_set {
            return after;
        }
        task.sets = true;
        let rows = out.rows(op, &[rows]);
        out.step(op, Step::Intent { rows, set: true }, after)
    }

    pub(super) fn read_column(
        &mut self,
        op: OpId,
        what: WriteExtent,
        column: Column,
        dst: Buf,
        after: StepSet,
        out: &mut Out,
    ) -> StepSet {
        self.read_rows(op, what.stripe, what.rows, column, dst, after, out)
    }

    #[expect(clippy::too_many_arguments, reason = "a page's place, content and order are that many things")]
    pub(super) fn write_column(
        &mut self,
        op: OpId,
        what: WriteExtent,
        column: Column,
        src: Buf,
        trim: bool,
        after: StepSet,
        out: &mut Out,
    ) -> StepSet {
        let pages = what.rows.count as u16;
        let ext = destage_plan::Ext::new(self.dev(what.stripe, column), what.rows.first.0, pages);
        let stats = &mut self.stats;
        let counter = match (self.data.contains(column), trim) {
            (true, false) => &mut stats.data_writes,
            (false, false) => &mut stats.parity_writes,
            (true, true) => &mut stats.data_trims,
            (false, true) => &mut stats.parity_trims,
        };
        *counter += u64::from(pages);
        let step = if trim { Step::Trim { ext } } else { Step::Write { ext, src, fua: what.fua } };
        out.step_placed(op, step, self.stream_of(column), after)
    }

    #[expect(clippy::too_many_arguments, reason = "a row's pages and their order are that many things")]
    pub(super) fn write_columns(
        &mut self,
        op: OpId,
        what: WriteExtent,
        targets: ColumnSet,
        fresh: &ColumnPages,
        p: Buf,
        q: Buf,
        after: StepSet,
        out: &mut Out,
    ) -> StepSet {
        let mut done = StepSet::EMPTY;
        for column in (targets & what.columns).iter() {
            done |= self.write_column(op, what, column, fresh[column.index()], false, after, out);
        }
        for column in (targets & self.parity()).iter() {
            let src = if column == self.config.geometry.p_column() { p } else { q };
            done |= self.write_column(op, what, column, src, false, after, out);
        }
        // Nothing to write: everything is lost but what the parity, now in the NVRAM, does not
        // need.
        self.after_writes(op, what, targets, false, if done.is_empty() { after } else { done }, out)
    }

    /// Plans the steps after the writes that must end before the acknowledgement: a trim cannot carry FUA.
    /// Returns the steps to wait for.
    pub(super) fn after_writes(
        &mut self,
        op: OpId,
        what: WriteExtent,
        targets: ColumnSet,
        trim: bool,
        done: StepSet,
        out: &mut Out,
    ) -> StepSet {
        if !trim || !what.fua {
            return done;
        }
        (targets & (what.columns | self.parity())).iter().fold(done, |after, column| {
            let dev = self.dev(what.stripe, column);
            after | out.step(op, Step::FlushDev { dev }, done)
        })
    }
}
