//! Writes that what stands on the array takes instead of the members: the parity of each row is
//! computed from the newest versions of its data, wherever they are, so that *newest parity = parity
//! of newest data* holds at every moment and members are written one by one later (specs §8.4,
//! §8.6).

use destage_plan::{Buf, Column, ColumnSet, OpId, Out, Row, Step, StepSet};

use super::sources::{DepartedRow, Unknown};
use super::versions::{Source, Sources, Updated};
use super::write::{Pages, What};
use super::{Array, Duty, ParityMethod, Versions};
use crate::MAX_DEVICES;

/// The pages of a row that are absorbed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Absorbed {
    /// The row.
    pub row: Row,
    /// The columns that have a new version: data that is written, and all parity, be it that its member
    /// is lost.
    pub columns: ColumnSet,
    pages: Pages,
}

impl Absorbed {
    /// The new version of a column.
    pub const fn page(&self, column: Column) -> Buf {
        self.pages[column.index()]
    }
}

impl Array {
    /// The pages of the row that is being absorbed.
    pub const fn absorbed(&self) -> &Absorbed {
        &self.absorbed
    }

    /// Plans the pages of the next row.
    pub(super) fn plan_absorbed(&mut self, op: OpId, mut what: What, versions: &mut dyn Versions, out: &mut Out) {
        what.rows.count = 1;
        let task = self.write_task(op);
        (task.batch, task.departed) = (1, Some(Updated::Absorbed));
        let sources = versions.sources(what.rows.first);
        versions.uses(op, what.rows.first);
        let columns = self.columns(what.stripe, what.rows);
        let row = DepartedRow { stripe: what.stripe, rows: what.rows, columns, sources: &sources };
        // Of members that are lost as well: an older parity of theirs may be in the cache.
        let parity = self.parity();
        let mut pages = self.fresh(op, what);
        let Ok(ready) = self.pages_to_absorb(op, what, row, parity, &mut pages, out) else {
            self.drop_plan(op, versions, out);
            return self.fail(op, versions, out);
        };
        self.absorbed = Absorbed { row: what.rows.first, columns: what.columns | parity, pages };
        self.duties.push_back(Duty::Absorb { op, after: ready });
    }

    /// Makes the new version of all that changes known; the steps.
    fn pages_to_absorb(
        &mut self,
        op: OpId,
        what: What,
        row: DepartedRow<'_>,
        parity: ColumnSet,
        pages: &mut Pages,
        out: &mut Out,
    ) -> Result<StepSet, Unknown> {
        let host = *pages;
        let whole = what.columns == self.data && what.part.is_none();
        let modify = !whole && !parity.is_empty() && self.modifies_absorbed(what, row, parity);
        let mut old = [Buf::None; MAX_DEVICES];
        // What is written whole need not be known.
        let kept = if what.part.is_some() { ColumnSet::EMPTY } else { what.columns };
        let mut ready = if modify {
            self.gather(op, row, what.columns | parity, Sources::newest, &mut old, out)
        } else {
            let wanted = if parity.is_empty() { what.columns } else { self.data };
            self.gather_newest(op, row, wanted - kept, &mut old, out)?
        };
        for column in (self.data - what.columns).iter() {
            pages[column.index()] = old[column.index()];
        }
        if let Some(sectors) = what.part {
            let column = what.only();
            let dst = out.tmp(op, 1);
            ready |= out.step(op, Step::Merge { old: old[column], new: host[column], sectors, dst }, ready);
            (pages[column], self.merged) = (dst, dst);
        }
        if parity.is_empty() {
            return Ok(ready);
        }
        let (p, q, ready) = if modify {
            self.modify_parity(op, what, parity, pages, &old, ready, out)
        } else {
            self.compute_parity(op, what.stripe, parity, pages, 1, ready, out)
        };
        for column in parity.iter() {
            pages[column.index()] = if column == self.config.geometry.p_column() { p } else { q };
        }
        Ok(ready)
    }

    /// Whether parity can be modified by what changes, and is to be.
    fn modifies_absorbed(&self, what: What, row: DepartedRow<'_>, parity: ColumnSet) -> bool {
        if !row.missing(what.columns | parity, Sources::newest).is_empty() {
            return false;
        }
        if !row.missing(self.data, Sources::newest).is_empty() {
            return true;
        }
        let read =
            |columns: ColumnSet| columns.iter().filter(|column| row.sources.newest(*column) == Source::Member).count();
        let rmw = read(what.columns | parity);
        let rcw = read(self.data - what.columns) + if what.part.is_some() { read(what.columns) } else { 0 };
        match self.config.parity {
            ParityMethod::Min => rmw < rcw,
            ParityMethod::Rmw => true,
            ParityMethod::Rcw => false,
            ParityMethod::Disksim => 2 * what.columns.len() < self.data.len(),
        }
    }

    /// What takes the pages of a row that is absorbed is planned: when these steps are done, so is the
    /// row.
    pub fn finish_absorbed(&mut self, op: OpId, done: StepSet, out: &mut Out) {
        if self.what(op).rows.count > 1 {
            self.write_task(op).join = out.step_notify(op, Step::Join, done);
            return;
        }
        let pending = out.phase(op, done);
        assert!(pending, "what takes the pages is a step");
        let merged = self.merged;
        self.duties.push_back(Duty::Finish { op, after: done, merged });
    }
}
