//! Writes that what stands on the array takes instead of the members: with the parity of each row,
//! computed from the newest versions of its data that parity covers, so that *newest parity = parity of
//! newest data* holds at every moment and members are written one by one later (specs §8.4, §8.6); or
//! the data alone (§8.2), of which the members and the parity are [written](RaidArray::open_write_back)
//! later.

use destage_plan::{
    Buf, Claim, Class, Column, ColumnSet, Ext, Frag, NvSlot, OpId, Out, Row, Rows, Sectors, Step, StepSet,
};

use super::sources::{DepartedRow, MissingSource};
use super::versions::{ParityUpdate, RowSources, VersionSource};
use super::write::{ColumnPages, WriteExtent, WriteTask};
use super::{ArrayTask, PageVersions, ParityMethod, RaidArray, StripeSegment, WriteDuty, advance};
use crate::MAX_DEVICES;

/// Selects the pages that the array's user takes in place of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenPages {
    /// Takes the data alone. The parity stays as it is, so that the columns count as stale.
    Stored,
    /// Takes data and parity, row by row.
    Absorbed,
}

/// The pages that are taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct AbsorbedPages {
    /// The rows: one, unless they are [stored](TakenPages::Stored).
    pub rows: Rows,
    /// The columns that have a new version: data that is written, and, if it is
    /// [absorbed](TakenPages::Absorbed), all parity, be it that its member is lost.
    pub columns: ColumnSet,
    /// Is true if the data comes from the array's user, not from a fragment.
    pub from_above: bool,
    /// Is true if the pages must be durable when they are taken.
    pub fua: bool,
    pages: ColumnPages,
}

impl AbsorbedPages {
    /// The new version of a column in one of the rows.
    pub fn page(&self, column: Column, row: Row) -> Buf {
        advance(self.pages[column.index()], (row.0 - self.rows.first.0) as u16)
    }
}

impl RaidArray {
    /// The pages of the write that is being absorbed or stored.
    pub const fn absorbed(&self) -> &AbsorbedPages {
        &self.absorbed
    }

    /// Opens the operation that has what stands above take a segment of a fragment. What is stored keeps
    /// no other operation of its rows waiting but those on the same pages.
    pub fn open_taken(&mut self, frag: &Frag, seg: StripeSegment, taken: TakenPages, out: &mut Out) -> OpId {
        // A narrow claim keeps the reads for an older version's parity from delaying the host's write.
        let w = match taken {
            TakenPages::Absorbed => seg.columns | self.parity(),
            TakenPages::Stored => seg.columns,
        };
        // A page that is written in part is read before, and may have to be computed from the others.
        let r = if frag.sectors.is_some() { self.all } else { ColumnSet::EMPTY };
        let claim = Claim { stripe: seg.stripe, first: seg.first, rows: seg.rows, r, w };
        let op = out.open(Class::Write, Some(claim), Some(frag.id));
        let task = WriteTask::taken(&self.config.geometry, frag, seg, taken);
        self.set_task(op, ArrayTask::Write(task));
        op
    }

    /// Writes what is in slots of the NVRAM to consecutive pages of a column's member, from this row on, as
    /// it is and durably: what the parity covers, wherever that is. The step.
    pub fn write_slots(&mut self, op: OpId, row: Row, column: Column, slots: &[NvSlot], out: &mut Out) -> StepSet {
        let pages = slots.len();
        // The step bypasses the row cache, whose pages would then differ from the member's.
        self.row_cache.drop_rows(Rows::new(row, pages as u32));
        if self.data.contains(column) {
            self.stats.data_writes += pages as u64;
        } else {
            self.stats.parity_writes += pages as u64;
        }
        let stripe = self.config.geometry.stripe_of(row).0;
        let ext = Ext::new(self.dev(stripe, column), row.0, pages as u16);
        // FUA lets the caller free the slots right after the step: no flush has to come first.
        let step = if let [slot] = slots {
            Step::Write { ext, src: Buf::Nv(*slot), fua: true }
        } else {
            Step::WriteList { ext, srcs: out.slots(op, slots), fua: true }
        };
        out.step_placed(op, step, self.stream_of(column), StepSet::EMPTY)
    }

    /// Plans the pages of a write that is to be stored.
    pub(super) fn plan_stored(&mut self, op: OpId, what: WriteExtent, versions: &mut dyn PageVersions, out: &mut Out) {
        let task = self.write_task(op);
        // The whole batch fits one plan, since no member and no parity is read for full pages.
        (task.batch, task.departed) = (what.rows.count, Some(ParityUpdate::Stored));
        let mut pages = self.fresh(op, what);
        let mut ready = StepSet::EMPTY;
        if let Some(sectors) = what.part {
            let sources = versions.sources(what.rows.first);
            // The source must stay where it is until the merge has read it.
            versions.uses(op, what.rows.first);
            let columns = self.columns(what.stripe, what.rows);
            let row = DepartedRow { stripe: what.stripe, rows: what.rows, columns, sources: &sources };
            let Ok((_, merged)) = self.merge_part(op, what, row, sectors, &mut pages, out) else {
                self.drop_plan(op, versions, out);
                return self.fail(op, versions, out);
            };
            ready = merged;
        }
        let Self { absorbed, .. } = self;
        *absorbed = AbsorbedPages { rows: what.rows, columns: what.columns, from_above: false, fua: what.fua, pages };
        self.duties.push_back(WriteDuty::Absorb { op, after: ready });
    }

    /// Makes the page of a write that is a part of one: its newest version with what is written; that
    /// version and the steps.
    fn merge_part(
        &mut self,
        op: OpId,
        what: WriteExtent,
        row: DepartedRow<'_>,
        sectors: Sectors,
        pages: &mut ColumnPages,
        out: &mut Out,
    ) -> Result<(Buf, StepSet), MissingSource> {
        let column = what.only();
        let mut newest = [Buf::None; MAX_DEVICES];
        let read = self.gather_newest(op, row, what.columns, &mut newest, out)?;
        let dst = out.tmp(op, 1);
        let merge = Step::Merge { old: newest[column], new: pages[column], sectors, dst };
        (pages[column], self.merged) = (dst, dst);
        Ok((newest[column], read | out.step(op, merge, read)))
    }

    /// Plans the pages of the next row.
    pub(super) fn plan_absorbed(
        &mut self,
        op: OpId,
        mut what: WriteExtent,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) {
        what.rows.count = 1;
        // Of a row that may be inconsistent parity is made anew after a cut, from what its members hold;
        // what was absorbed would not fit to that.
        if !self.has_no_intent(op, what.rows.first, out) {
            return;
        }
        let sources = versions.sources(what.rows.first);
        let task = self.write_task(op);
        (task.batch, task.departed) = (1, Some(ParityUpdate::Absorbed));
        if task.is_from_above() {
            what.columns = sources.above();
            task.set_columns(what.columns);
            if what.columns.is_empty() {
                // Another operation has done it meanwhile.
                task.departed = None;
                return out.close(op);
            }
        }
        versions.uses(op, what.rows.first);
        let columns = self.columns(what.stripe, what.rows);
        let row = DepartedRow { stripe: what.stripe, rows: what.rows, columns, sources: &sources };
        // Of members that are lost as well: an older parity of theirs may be in the cache.
        let parity = self.parity();
        // First, since a plan of which a step has begun cannot be dropped.
        if !self.can_absorb(what, row, parity) {
            self.drop_plan(op, versions, out);
            return self.fail(op, versions, out);
        }
        let (mut pages, known) = self.fresh_of(op, what, row, out);
        let Ok(ready) = self.pages_to_absorb(op, what, row, parity, &mut pages, out) else {
            self.drop_plan(op, versions, out);
            return self.fail(op, versions, out);
        };
        let from_above = self.write_task(op).is_from_above();
        let columns = what.columns | parity;
        self.absorbed = AbsorbedPages { rows: what.rows, columns, from_above, fua: what.fua, pages };
        self.duties.push_back(WriteDuty::Absorb { op, after: known | ready });
    }

    /// Makes the new version of all that changes known; the steps. Parity is to cover what is written, and
    /// what it covers else: a newer version that is above all that is absorbed is not in it.
    fn pages_to_absorb(
        &mut self,
        op: OpId,
        what: WriteExtent,
        row: DepartedRow<'_>,
        parity: ColumnSet,
        pages: &mut ColumnPages,
        out: &mut Out,
    ) -> Result<StepSet, MissingSource> {
        let mut ready = StepSet::EMPTY;
        let mut old = [Buf::None; MAX_DEVICES];
        let mut unread = what.columns;
        if let Some(sectors) = what.part {
            let (newest, merged) = self.merge_part(op, what, row, sectors, pages, out)?;
            ready |= merged;
            if (row.sources.stale() & what.columns).is_empty() {
                // It is what the parity covers as well.
                old[what.only()] = newest;
                unread = ColumnSet::EMPTY;
            }
        }
        // A level without parity has nothing to keep consistent.
        if parity.is_empty() {
            return Ok(ready);
        }
        let (p, q);
        if self.modifies_absorbed(what, row, parity) {
            ready |= self.gather(op, row, unread, RowSources::covered, &mut old, out);
            ready |= self.gather(op, row, parity, RowSources::newest, &mut old, out);
            (p, q, ready) = self.modify_parity(op, what, parity, pages, &old, ready, out);
        } else {
            let others = self.data - what.columns;
            if row.missing(others, RowSources::covered).is_empty() {
                ready |= self.gather(op, row, others, RowSources::covered, &mut old, out);
            } else {
                ready |= self.gather_covered(op, row, &mut old, out)?;
            }
            // The computation takes the covered versions: newer ones above are in no parity yet.
            for column in others.iter() {
                pages[column.index()] = old[column.index()];
            }
            (p, q, ready) = self.compute_parity(op, what.stripe, parity, pages, 1, ready, out);
        }
        for column in parity.iter() {
            pages[column.index()] = if column == self.config.geometry.p_column() { p } else { q };
        }
        Ok(ready)
    }

    /// Returns true if what the parity is to cover beside what is written can be known.
    fn can_absorb(&self, what: WriteExtent, row: DepartedRow<'_>, parity: ColumnSet) -> bool {
        parity.is_empty()
            || self.modifies_absorbed(what, row, parity)
            || row.missing(self.data - what.columns, RowSources::covered).is_empty()
            || self.covered_anew(row).is_ok()
    }

    /// Returns true if parity can and shall be modified by the changes of the data.
    fn modifies_absorbed(&self, what: WriteExtent, row: DepartedRow<'_>, parity: ColumnSet) -> bool {
        // A full row needs no old page, and a torn parity has no meaning that a change could keep.
        if what.columns == self.data || row.sources.is_torn() {
            return false;
        }
        // The source of parity is the same of both kinds.
        if !row.missing(what.columns | parity, RowSources::covered).is_empty() {
            return false;
        }
        // Without all data only the modification is possible.
        if !row.missing(self.data, RowSources::covered).is_empty() {
            return true;
        }
        let read = |columns: ColumnSet| {
            columns.iter().filter(|column| row.sources.covered(*column) == VersionSource::Member).count()
        };
        let rmw = read(what.columns | parity);
        let rcw = read(self.data - what.columns) + if what.part.is_some() { read(what.columns) } else { 0 };
        match self.config.parity {
            ParityMethod::Min => rmw < rcw,
            ParityMethod::Rmw => true,
            ParityMethod::Rcw => false,
            ParityMethod::Disksim => 2 * what.columns.len() < self.data.len(),
        }
    }

    /// Fails the write: the user cannot take its pages, and no step of it is planned.
    pub fn refuse_absorbed(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        self.forget_plan(op, versions, out);
        self.fail(op, versions, out);
    }

    /// Ends the planning of a row that is absorbed: the row is done when these steps are.
    pub fn finish_absorbed(&mut self, op: OpId, done: StepSet, out: &mut Out) {
        let left = self.left(op).rows.count;
        let task = self.write_task(op);
        if left > task.batch {
            // Rows follow one another, since each has its own sources and its own slots.
            task.join = out.step_notify(op, Step::Join, done);
            return;
        }
        let pending = out.phase(op, done);
        assert!(pending, "what takes the pages is a step");
        if self.write_task(op).is_own() {
            out.close(op);
        } else {
            self.duties.push_back(WriteDuty::Finish { op, after: done, merged: Buf::None });
        }
    }
}
