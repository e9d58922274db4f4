//! Comparing the pages of rows with each other: parity with what it covers, copies with copies. Rows may be served, behind
//! with their parity or degraded meanwhile. What is left to compare of them is compared.
//!
//! A repair takes the data for right, as md does, and the first copy: nothing tells which page of a row is the wrong one.
//! A repair needs no intent: until parity is written the row is as inconsistent as it was found.

use destage_plan::{
    BadPage, Buf, Claim, Class, ColumnSet, OpId, Out, PageFate, PageReport, Row, Rows, ScrubOrder, ScrubTally, Step,
    StepOutcome, StepSet, Stripe,
};

use super::sources::DepartedRow;
use super::versions::{RowSources, VersionSource};
use super::write::ColumnPages;
use super::{ArrayTask, PageVersions, RaidArray};
use crate::{MAX_DEVICES, RaidLevel};

/// Limits the operations that compare rows at the same time: what they read is held in memory.
const CONCURRENT: u32 = 4;
/// Limits the rows of each: an outcome has a bit for each of them, and writes of the rows wait for that long.
const ROWS: u32 = 64;

/// Tells how far an order to compare rows has come.
#[derive(Default)]
pub(super) struct ScrubRun {
    order: Option<ScrubOrder>,
    /// Names the first row that no operation has been opened for.
    next: Row,
    active: u32,
    /// Says whether something was written since the last flush of this order.
    has_written: bool,
    /// Names the flush under way that makes it durable.
    flush: Option<OpId>,
    tally: ScrubTally,
}

/// Tells how far the comparison of some rows has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScrubStage {
    Opened,
    /// Reads data, and computes what the compared columns should be.
    Computing,
    Comparing,
    Rewriting,
}

/// Compares some rows of a stripe.
pub(super) struct ScrubTask {
    rows: Rows,
    stage: ScrubStage,
    /// Lists the columns to be compared.
    columns: ColumnSet,
    /// Holds what they should be.
    expected: ColumnPages,
    /// Names where they are, if not on their members.
    sources: Option<Box<RowSources>>,
    /// Lists those of them that are compared.
    compared: ColumnSet,
    /// Holds a bit for each row of each of them that differs.
    differing: [u64; MAX_DEVICES],
    /// Says whether all data was read, and nothing computed of it.
    is_whole: bool,
}

impl ScrubTask {
    fn new(rows: Rows) -> Self {
        Self {
            rows,
            stage: ScrubStage::Opened,
            columns: ColumnSet::EMPTY,
            expected: [Buf::None; MAX_DEVICES],
            sources: None,
            compared: ColumnSet::EMPTY,
            differing: [0; MAX_DEVICES],
            is_whole: false,
        }
    }

    /// Returns the columns that differ in some row.
    fn mismatched(&self) -> ColumnSet {
        self.columns.iter().filter(|column| self.differing[column.index()] != 0).collect()
    }
}

impl RaidArray {
    /// Begins to compare rows.
    pub(super) fn begin_scrub(&mut self, order: ScrubOrder, out: &mut Out) {
        debug_assert!(self.scrub.order.is_none(), "an order comes after the last one is done");
        self.scrub = ScrubRun { order: Some(order), next: order.rows.first, ..ScrubRun::default() };
        self.scrub_more(out);
    }

    /// Returns true while rows are being compared.
    pub(super) const fn is_scrubbing(&self) -> bool {
        self.scrub.order.is_some()
    }

    fn scrub_more(&mut self, out: &mut Out) {
        let Some(order) = self.scrub.order else { return };
        let chunk = self.config.geometry.chunk_pages();
        let end = order.rows.end().min(Row(self.config.geometry.member_pages()));
        while self.scrub.next < end && self.scrub.active < CONCURRENT {
            let (_, first) = self.config.geometry.stripe_of(self.scrub.next);
            let left = (end.0 - self.scrub.next.0).min(u64::from(ROWS)) as u32;
            // An operation stays within one stripe: columns change their members from stripe to stripe.
            let rows = Rows::new(self.scrub.next, (chunk - first).min(left));
            self.scrub.next = rows.end();
            self.open_scrub(rows, order, out);
        }
        if self.scrub.next < end || self.scrub.active > 0 || self.scrub.flush.is_some() {
            return;
        }
        // An order is done when its repairs are durable.
        if std::mem::take(&mut self.scrub.has_written) {
            self.scrub.flush = Some(self.open_flush(None, out));
            return;
        }
        self.scrub.order = None;
        out.scrubbed(self.scrub.tally);
    }

    /// Opens the comparison of rows of one stripe. Reads of the host go on meanwhile; a repair keeps those away that read
    /// what it writes.
    fn open_scrub(&mut self, rows: Rows, order: ScrubOrder, out: &mut Out) {
        let (stripe, first) = self.config.geometry.stripe_of(rows.first);
        // A scrub without repairs claims no writes, so reads of hosts go on beside it.
        let w = match self.config.geometry.level() {
            _ if !order.repairs => ColumnSet::EMPTY,
            RaidLevel::Raid1 => self.all,
            _ => self.parity(),
        };
        let claim = Claim { stripe, first, rows: rows.count, r: self.all, w };
        let op = out.open(Class::Rebuild, Some(claim), None);
        self.set_task(op, ArrayTask::Scrub(Box::new(ScrubTask::new(rows))));
        self.scrub.active += 1;
    }

    fn scrub_task(&mut self, op: OpId) -> &mut ScrubTask {
        match self.task(op) {
            Some(ArrayTask::Scrub(task)) => task,
            _ => unreachable!("the operation compares rows"),
        }
    }

    /// Goes on when what the last order has written is durable.
    pub(super) fn scrub_flushed(&mut self, flush: OpId, out: &mut Out) {
        if self.scrub.flush == Some(flush) {
            self.scrub.flush = None;
            self.scrub_more(out);
        }
    }

    /// Plans to read what is compared, and to compute what it should be.
    #[cold]
    pub(super) fn plan_scrub(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        if !self.members.persisted() {
            self.waiting.push(op);
            return;
        }
        let rows = self.scrub_task(op).rows;
        // Rows with sources of their own cannot be read together.
        if rows.count > 1 && (versions.departs(rows) || self.members.bad.meets(rows)) {
            return self.scrub_by_rows(op, rows, out);
        }
        let stripe = self.config.geometry.stripe_of(rows.first).0;
        let mut task = ScrubTask::new(rows);
        let planned = if self.config.geometry.level() == RaidLevel::Raid1 {
            self.plan_copy_check(op, stripe, &mut task, versions, out)
        } else {
            self.plan_parity_check(op, stripe, &mut task, versions, out)
        };
        if let Some(ready) = planned {
            task.stage = ScrubStage::Computing;
            out.step_notify(op, Step::Join, ready);
        } else {
            // What cannot be compared is counted, so that a scrub without mismatches does not promise too
            // much.
            self.scrub.tally.unchecked += u64::from(rows.count);
            out.close(op);
        }
        *self.scrub_task(op) = task;
    }

    /// Opens a comparison for each of the rows, which differ in what is to be read of them.
    fn scrub_by_rows(&mut self, op: OpId, rows: Rows, out: &mut Out) {
        let Some(order) = self.scrub.order else { unreachable!("rows are compared for an order") };
        for row in rows.iter() {
            self.open_scrub(Rows::new(row, 1), order, out);
        }
        self.scrub_task(op).rows.count = 0;
        out.close(op);
    }

    /// Plans to read all copies, if there are some to be compared.
    fn plan_copy_check(
        &mut self,
        op: OpId,
        stripe: Stripe,
        task: &mut ScrubTask,
        versions: &dyn PageVersions,
        out: &mut Out,
    ) -> Option<StepSet> {
        let rows = task.rows;
        let columns = self.columns(stripe, rows);
        let first = columns.live.lowest()?;
        task.columns = columns.live - ColumnSet::one(first);
        let are_on_members = !versions.departs(rows) || {
            let sources = versions.sources(rows.first);
            self.data.iter().all(|column| sources.covered(column) == VersionSource::Member)
        };
        if task.columns.is_empty() || !are_on_members {
            return None;
        }
        let page = out.tmp(op, rows.count as u16);
        task.columns.iter().for_each(|column| task.expected[column.index()] = page);
        task.is_whole = true;
        Some(self.read_rows(op, stripe, rows, first, page, StepSet::EMPTY, out))
    }

    /// Plans to compute the parity of what it covers, as far as there is parity that is not needed to make up for lost data.
    fn plan_parity_check(
        &mut self,
        op: OpId,
        stripe: Stripe,
        task: &mut ScrubTask,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) -> Option<StepSet> {
        let rows = task.rows;
        let columns = self.columns(stripe, rows);
        let sources = if versions.departs(rows) { versions.sources(rows.first) } else { RowSources::default() };
        let row = DepartedRow { stripe, rows, columns, sources: &sources };
        let unknown = row.missing(self.data, RowSources::covered);
        let live = self.parity() - row.missing(self.parity(), RowSources::newest);
        let equations = if unknown.is_empty() { ColumnSet::EMPTY } else { self.equations(live, unknown) };
        // More is lost than the parity can make up, so no expected page is known.
        if unknown.len() > equations.len() {
            return None;
        }
        // A parity that was used to compute lost data agrees by construction.
        task.columns = live - equations;
        task.is_whole = unknown.is_empty();
        let has_no_parity = self.parity().is_empty();
        if task.columns.is_empty() && !has_no_parity {
            return None;
        }
        let mut pages: ColumnPages = [Buf::None; MAX_DEVICES];
        let mut ready = if versions.departs(rows) {
            versions.uses(op, rows.first);
            self.gather_covered(op, row, &mut pages, out).ok()?
        } else {
            self.read_all(op, row, unknown, equations, &mut pages, out)
        };
        let (p, q, computed) = self.compute_parity(op, stripe, task.columns, &pages, rows.count as u16, ready, out);
        ready |= computed;
        let geometry = &self.config.geometry;
        for (column, buf) in [(geometry.p_column(), p), (geometry.q_column(), q)] {
            if task.columns.contains(column) {
                task.expected[column.index()] = buf;
            }
        }
        task.sources = versions.departs(rows).then(|| Box::new(sources));
        Some(ready)
    }

    /// Reads all data of rows that are on their members, and computes what is lost of it.
    fn read_all(
        &mut self,
        op: OpId,
        row: DepartedRow<'_>,
        unknown: ColumnSet,
        equations: ColumnSet,
        pages: &mut ColumnPages,
        out: &mut Out,
    ) -> StepSet {
        let DepartedRow { stripe, rows, columns, .. } = row;
        let mut ready = StepSet::EMPTY;
        for column in ((self.data - unknown) | equations).iter() {
            pages[column.index()] = out.tmp(op, rows.count as u16);
            ready |= self.read_rows(op, stripe, rows, column, pages[column.index()], StepSet::EMPTY, out);
        }
        if !unknown.is_empty() {
            ready |= self.compute_lost(op, stripe, pages, unknown, columns.live, rows.count as u16, ready, out);
        }
        ready
    }

    /// Plans what follows when everything is computed, or a column compared.
    #[cold]
    pub(super) fn scrub_goes_on(&mut self, op: OpId, outcome: StepOutcome, out: &mut Out) {
        match self.scrub_task(op).stage {
            ScrubStage::Computing => self.compare_rows(op, out),
            ScrubStage::Comparing => {
                let task = self.scrub_task(op);
                let column = (task.columns - task.compared).lowest().expect("a column was being compared");
                task.compared.insert(column);
                if let StepOutcome::Differing(rows) = outcome {
                    task.differing[column.index()] = rows;
                }
                if task.compared == task.columns {
                    self.rewrite_mismatched(op, out);
                }
            }
            ScrubStage::Opened | ScrubStage::Rewriting => {}
        }
    }

    /// Plans to read the columns in question, and to compare them with what they should be, one after the other.
    fn compare_rows(&mut self, op: OpId, out: &mut Out) {
        // What was computed may have taken nearly all steps that an operation has.
        out.renew(op);
        let rows = self.scrub_task(op).rows;
        let stripe = self.config.geometry.stripe_of(rows.first).0;
        // Another device may have taken a member's place meanwhile.
        let live = self.columns(stripe, rows);
        let task = self.scrub_task(op);
        task.stage = ScrubStage::Comparing;
        task.columns = task.columns & live.live;
        let (columns, expected) = (task.columns, task.expected);
        let sources = task.sources.take();
        let mut pages: ColumnPages = [Buf::None; MAX_DEVICES];
        let mut after = StepSet::EMPTY;
        if let Some(sources) = &sources {
            let row = DepartedRow { stripe, rows, columns: live, sources };
            after |= self.gather(op, row, columns, RowSources::newest, &mut pages, out);
        } else {
            for column in columns.iter() {
                pages[column.index()] = out.tmp(op, rows.count as u16);
                after |= self.read_rows(op, stripe, rows, column, pages[column.index()], StepSet::EMPTY, out);
            }
        }
        for column in columns.iter() {
            let (a, b) = (expected[column.index()], pages[column.index()]);
            // Comparisons follow one another, so that the next outcome belongs to the lowest column left.
            after = out.step_notify(op, Step::Compare { a, b, pages: rows.count as u16 }, after);
        }
        // Rows above which nothing is written are written where they belong.
        self.scrub_task(op).sources = sources;
        if columns.is_empty() {
            out.close(op);
        }
    }

    /// Plans to write the columns that differ, if that was ordered and their content is known from data alone.
    fn rewrite_mismatched(&mut self, op: OpId, out: &mut Out) {
        let repairs = self.scrub.order.is_some_and(|order| order.repairs);
        let rows = self.scrub_task(op).rows;
        let stripe = self.config.geometry.stripe_of(rows.first).0;
        let live = self.columns(stripe, rows).live;
        let task = self.scrub_task(op);
        let (mismatched, expected) = (task.mismatched(), task.expected);
        let can_be_written = |column| {
            let is_on_member =
                task.sources.as_ref().is_none_or(|sources| sources.newest(column) == VersionSource::Member);
            is_on_member && live.contains(column)
        };
        // Only data that was read is taken for right; computed data may carry the error itself.
        if repairs && task.is_whole && !mismatched.is_empty() && mismatched.iter().all(can_be_written) {
            task.stage = ScrubStage::Rewriting;
            out.renew(op);
            for column in mismatched.iter() {
                self.write_rows(op, stripe, rows, column, expected[column.index()], StepSet::EMPTY, out);
            }
        }
        out.close(op);
    }

    /// Begins again without the members and pages that failed: nothing that it reads was changed by what it wrote.
    #[cold]
    pub(super) fn scrub_stuck(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        versions.released(op);
        out.restart(op);
        let task = self.scrub_task(op);
        *task = ScrubTask::new(task.rows);
        out.again(op);
    }

    /// Counts and reports what was found.
    #[cold]
    pub(super) fn scrub_done(&mut self, op: OpId, task: &ScrubTask, versions: &mut dyn PageVersions, out: &mut Out) {
        versions.released(op);
        self.scrub.active -= 1;
        let rows = task.rows;
        let is_rewritten = task.stage == ScrubStage::Rewriting;
        let fate = if is_rewritten { PageFate::Rewritten } else { PageFate::Mismatched };
        let stripe = self.config.geometry.stripe_of(rows.first).0;
        let mut mismatched = 0;
        for column in task.mismatched().iter() {
            let (dev, differing) = (self.dev(stripe, column), task.differing[column.index()]);
            mismatched |= differing;
            for row in rows.iter().zip(0..).filter(|(_, bit)| differing >> bit & 1 == 1).map(|(row, _)| row) {
                // Its members do not hold what was kept of it.
                self.row_cache.drop_rows(Rows::new(row, 1));
                out.report(PageReport { page: BadPage { dev, page: row.0 }, fate });
            }
            if is_rewritten {
                self.dirty.insert(dev);
                self.scrub.has_written = true;
            }
        }
        let tally = &mut self.scrub.tally;
        tally.rows += u64::from(rows.count);
        tally.mismatched += u64::from(mismatched.count_ones());
        tally.repaired += u64::from(if is_rewritten { mismatched.count_ones() } else { 0 });
        self.scrub_more(out);
    }
}
