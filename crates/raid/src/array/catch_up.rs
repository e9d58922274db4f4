//! Parity of several rows of a stripe that is made to cover their newest data at once: each parity is read
//! once and written once, however many rows are behind (specs §9.8, whole stripes).

use destage_plan::{Buf, ColumnSet, Ext, OpId, Out, Row, Rows, Step, StepSet};

use super::sources::{DeltaPages, DepartedRow};
use super::versions::{ParityUpdate, RowSources, VersionSource};
use super::write::{ColumnPages, WriteExtent, WriteTask};
use super::{ArrayTask, PageVersions, RaidArray, StripeSegment, advance};
use crate::{MAX_DEVICES, RaidLevel};

/// Steps that the rows of one plan may take, of the 64 that an operation has: the rest are its intent,
/// reads and writes of parity, and what follows.
const STEPS: u32 = 52;

impl RaidArray {
    /// As [`open_parity_update`](Self::open_parity_update), of rows of one stripe, of which some may not be
    /// behind.
    pub fn open_parity_updates(&mut self, rows: Rows, out: &mut Out) -> OpId {
        let (stripe, first) = self.config.geometry.stripe_of(rows.first);
        let seg = StripeSegment { stripe, first, rows: rows.count, columns: ColumnSet::EMPTY };
        let op = out.open(destage_plan::Class::Parity, Some(self.claim_write(seg)), None);
        self.set_task(op, ArrayTask::Write(WriteTask::of_parity(seg)));
        op
    }

    /// Plans as many of the rows as fit; none, so that they are planned one by one, if these are fewer than
    /// two, or if a member is not live.
    pub(super) fn plan_catch_up(
        &mut self,
        op: OpId,
        mut what: WriteExtent,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) -> bool {
        let columns = self.columns(what.stripe, what.rows);
        // Lost members need a plan per row: lost data is logged row by row.
        let computes = matches!(self.config.geometry.level(), RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6);
        if !computes || columns.live != self.all {
            return false;
        }
        let (mut steps, mut count, mut behind, mut rows) = (0, 0, 0, 0);
        for row in what.rows.iter() {
            rows += 1;
            if !is_behind(row, versions) {
                continue;
            }
            steps += self.steps_to_catch_up(what, row, versions, out.page_bytes());
            if steps > STEPS {
                break;
            }
            (count, behind) = (rows, behind + 1);
        }
        // One row gains nothing: its parity is read and written once in the plan for single rows too.
        if behind < 2 {
            return false;
        }
        what.rows.count = count;
        let task = self.write_task(op);
        (task.batch, task.departed) = (count, Some(ParityUpdate::Computed));
        // The span includes rows between that are not stale, since its parity is written as a whole.
        self.begin_rows(op, what.rows);
        let parity = self.parity();
        let mut ready = self.intent(op, what.rows, StepSet::EMPTY, out);
        // What is made of all data needs no old parity.
        let needed = |index: &u32| {
            let row = Row(what.rows.first.0 + u64::from(*index));
            !is_behind(row, versions) || self.catches_up_by_changes(what, row, &versions.sources(row), out.page_bytes())
        };
        let from = (0..count).find(needed);
        let to = (0..count).rev().find(needed).map_or(0, |last| last + 1);
        let mut old: ColumnPages = [Buf::None; MAX_DEVICES];
        if let Some(from) = from {
            let first = Row(what.rows.first.0 + u64::from(from));
            let read = WriteExtent { rows: Rows::new(first, to - from), ..what };
            for column in parity.iter() {
                old[column.index()] = out.tmp(op, count as u16);
                let dst = advance(old[column.index()], from as u16);
                ready |= self.read_column(op, read, column, dst, StepSet::EMPTY, out);
            }
        }
        let (mut new, mut deltas): ([Vec<Buf>; 2], _) = Default::default();
        let mut done = ready;
        for (index, row) in (0..).zip(what.rows.iter()) {
            let mut pages = old.map(|buf| advance(buf, index));
            if is_behind(row, versions) {
                let one = WriteExtent { rows: Rows::new(row, 1), ..what };
                done |= self.catch_up(op, one, &mut pages, ready, &mut deltas, versions, out);
            }
            for (list, column) in new.iter_mut().zip(parity.iter()) {
                list.push(pages[column.index()]);
            }
        }
        let mut written = StepSet::EMPTY;
        // A list lets pages from different buffers leave as one command per parity member.
        for (list, column) in new.iter().zip(parity.iter()) {
            self.stats.parity_writes += u64::from(count);
            let ext = Ext::new(self.dev(what.stripe, column), what.rows.first.0, count as u16);
            let srcs = out.list(op, list);
            let step = Step::WriteList { ext, srcs, fua: what.fua };
            written |= out.step_placed(op, step, self.stream_of(column), done);
        }
        self.finish_batch(op, what, written, Buf::None, versions, out);
        true
    }

    /// Steps that a row takes at most.
    fn steps_to_catch_up(&self, what: WriteExtent, row: Row, versions: &dyn PageVersions, page_bytes: u32) -> u32 {
        let sources = versions.sources(row);
        // The estimate is an upper bound: an operation has 64 steps, and a plan that exceeds them cannot be
        // issued.
        let computes = if self.parity().is_single() { 1 } else { 5 };
        if !self.catches_up_by_changes(what, row, &sources, page_bytes) {
            return 3 * self.data.len() + computes;
        }
        let of_column = |column| match (sources.change(column, page_bytes), sources.covered(column)) {
            (Some(_), _) => 2,
            (None, VersionSource::Delta(_)) => 6,
            (None, _) => 5,
        };
        sources.stale().iter().map(of_column).sum::<u32>() + computes
    }

    /// Returns true if the parity of a row is modified rather than computed from all data.
    fn catches_up_by_changes(&self, what: WriteExtent, row: Row, sources: &RowSources, page_bytes: u32) -> bool {
        let rows = Rows::new(row, 1);
        let departed = DepartedRow { stripe: what.stripe, rows, columns: self.columns(what.stripe, rows), sources };
        self.modifies(WriteExtent { rows, ..what }, departed, self.parity(), page_bytes, false)
    }

    /// Makes the parity of a row, which is in `pages` as it was, what it will be; the steps.
    #[expect(clippy::too_many_arguments, reason = "a row's place, content and order are that many things")]
    fn catch_up(
        &mut self,
        op: OpId,
        what: WriteExtent,
        pages: &mut ColumnPages,
        parity_read: StepSet,
        deltas: &mut DeltaPages,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) -> StepSet {
        let (row, parity) = (what.rows.first, self.parity());
        let sources = versions.sources(row);
        versions.uses(op, row);
        let columns = self.columns(what.stripe, what.rows);
        let departed = DepartedRow { stripe: what.stripe, rows: what.rows, columns, sources: &sources };
        let mut fresh = [Buf::None; MAX_DEVICES];
        let (p, q, done);
        if self.modifies(what, departed, parity, out.page_bytes(), false) {
            self.stats.rmw_writes += 1;
            let changed = self.gather_changes(op, departed, sources.stale(), pages, &mut fresh, deltas, out);
            let update = WriteExtent { columns: sources.stale(), ..what };
            (p, q, done) = self.modify_parity(op, update, parity, &fresh, pages, parity_read | changed, out);
        } else {
            self.stats.rcw_writes += 1;
            let read = self.gather(op, departed, self.data, RowSources::newest, &mut fresh, out);
            (p, q, done) = self.compute_parity(op, what.stripe, parity, &fresh, 1, read, out);
        }
        for column in parity.iter() {
            pages[column.index()] = if column == self.config.geometry.p_column() { p } else { q };
        }
        done
    }
}

/// Is true if the parity of a row does not cover its newest data.
fn is_behind(row: Row, versions: &dyn PageVersions) -> bool {
    versions.departs(Rows::new(row, 1)) && !versions.sources(row).stale().is_empty()
}
