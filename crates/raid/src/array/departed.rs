//! Writing rows of which the newest versions, or those that the parity covers, are not all on the
//! members; leaving the parity as it is; making it cover what it was left behind of (specs §9.4,
//! §9.6).

use destage_plan::{Buf, Claim, Class, ColumnSet, HostOp, OpId, Out, Row, Rows, Sectors, Step, StepSet};

use super::absorbed::TakenPages;
use super::sources::{DeltaPages, DepartedRow};
use super::versions::{ParityUpdate, RowSources, VersionSource};
use super::write::{ColumnPages, NOTE_SLOTS, WriteExtent, WriteTask};
use super::{ArrayTask, PageVersions, ParityMethod, RaidArray, StripeSegment, WriteDuty};
use crate::{MAX_DEVICES, RaidLevel};

impl RaidArray {
    /// Opens the operation that makes the parity of a row cover the newest version of its data, if
    /// it does not. What becomes of it is [told](PageVersions::written).
    pub fn open_parity_update(&mut self, row: Row, out: &mut Out) -> OpId {
        self.open_parity_updates(Rows::new(row, 1), out)
    }

    /// Opens the operation that writes the newest versions of a row that are in the NVRAM and that the
    /// parity does not cover to their members, durably, and makes the parity cover them. What becomes
    /// of them is [told](PageVersions::written). It does not claim their columns: newer versions may come
    /// meanwhile.
    pub fn open_write_back(&mut self, row: Row, out: &mut Out) -> OpId {
        self.open_of_above(row, None, out)
    }

    /// Opens the operation that does as [`open_write_back`](Self::open_write_back), of the pages of these columns, wherever above
    /// they are; and of all that are of the row while data of it is lost, as its parity is computed from the newest of all then. Until it is
    /// done no page of the row has a newer version.
    pub fn open_write_back_of(&mut self, row: Row, columns: ColumnSet, out: &mut Out) -> OpId {
        let (stripe, first) = self.config.geometry.stripe_of(row);
        let seg = StripeSegment { stripe, first, rows: 1, columns };
        let claim = Claim { stripe, first, rows: 1, r: self.data, w: self.parity() };
        let op = out.open(Class::Destage, Some(claim), None);
        self.set_task(op, ArrayTask::Write(WriteTask::of_above(seg, None)));
        op
    }

    /// Opens the operation that has what is above [absorb](super::WriteDuty::Absorb) the newest versions of a
    /// row that are in the NVRAM and that the parity does not cover. As of a
    /// [write-back](Self::open_write_back), newer ones may come meanwhile.
    pub fn open_absorb(&mut self, row: Row, out: &mut Out) -> OpId {
        self.open_of_above(row, Some(TakenPages::Absorbed), out)
    }

    fn open_of_above(&mut self, row: Row, taken: Option<TakenPages>, out: &mut Out) -> OpId {
        let (stripe, first) = self.config.geometry.stripe_of(row);
        let seg = StripeSegment { stripe, first, rows: 1, columns: ColumnSet::EMPTY };
        // The claim leaves the data columns out: newer versions of the pages may enter above meanwhile.
        let claim = Claim { stripe, first, rows: 1, r: ColumnSet::EMPTY, w: self.parity() };
        let op = out.open(Class::Destage, Some(claim), None);
        self.set_task(op, ArrayTask::Write(WriteTask::of_above(seg, taken)));
        op
    }

    /// Plans the rows up to the next that departs from its members, or that one.
    pub(super) fn begin_departed(
        &mut self,
        op: OpId,
        mut what: WriteExtent,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) {
        // A row that is written whole needs nothing of what it held, wherever that is.
        if self.plan_full_rows(op, what, versions, out) {
            return;
        }
        let departs = |row: &Row| versions.departs(Rows::new(*row, 1));
        // Rows on their members share one plan; each departed row has its own sources and needs its own.
        let plain = what.rows.iter().take_while(|row| !departs(row)).count();
        if plain > 0 {
            if !self.write_task(op).is_own() {
                what.rows.count = plain as u32;
                return self.begin_plain(op, what, versions, out);
            }
            // Between those that are behind, or another operation has done it meanwhile.
            let is_all = plain as u32 == what.rows.count;
            self.write_task(op).done += plain as u32;
            if self.write_task(op).is_done() {
                return out.close(op);
            }
            what = self.what(op);
            if is_all {
                // What is left cannot be treated alike.
                return self.begin_departed(op, what, versions, out);
            }
        }
        let catches_up = self.write_task(op).is_own() && !self.write_task(op).is_from_above();
        if what.rows.count > 1 && catches_up && self.plan_catch_up(op, what, versions, out) {
            return;
        }
        what.rows.count = 1;
        self.write_task(op).batch = 1;
        let sources = versions.sources(what.rows.first);
        if self.write_task(op).is_own() && sources.stale().is_empty() {
            return out.close(op);
        }
        let columns = self.columns(what.stripe, what.rows);
        let row = DepartedRow { stripe: what.stripe, rows: what.rows, columns, sources: &sources };
        if self.write_task(op).is_from_above() {
            let asked = if self.write_task(op).is_of_segment() { what.columns } else { self.data };
            what.columns = self.above_of(asked, row);
            if what.columns.is_empty() {
                // Another operation has written it.
                return out.close(op);
            }
            self.write_task(op).set_columns(what.columns);
        }
        // Levels without computed parity lose the rest of a page with its only copy.
        let is_known = self.needs_log()
            || what.part.is_none()
            || row.sources.newest(what.columns.lowest().expect("a part of a page has a column"))
                != VersionSource::Member
            || !self.is_unknown(what, columns);
        if !is_known {
            return self.fail(op, versions, out);
        }
        versions.uses(op, what.rows.first);
        self.write_task(op).departed = Some(ParityUpdate::Computed);
        // All data becomes known and logged first. The parity computed from it leaves no column stale.
        if self.needs_log() && !self.data_is_live(row) {
            return self.gather_degraded(op, what, row, versions, out);
        }
        self.plan_departed(op, what, row, versions, out);
    }

    /// Plans rows all of whose data is written, past what stands above, alone or with others that wait for this one: nothing
    /// of what was there is needed. Returns false if they are not.
    fn plan_full_rows(&mut self, op: OpId, what: WriteExtent, versions: &mut dyn PageVersions, out: &mut Out) -> bool {
        let task = self.write_task(op);
        // Newer versions above are obsolete once the row is written whole, so their places do not matter.
        let passes = task.bypass || task.is_full;
        if !passes || task.op == HostOp::Discard || what.part.is_some() || !self.keeps_rows(what.rows) {
            return false;
        }
        let Some((what, after)) = self.plan_cached(op, what, true, versions, out) else { return false };
        self.write_task(op).departed = Some(ParityUpdate::Computed);
        self.finish_batch(op, what, after, self.merged, versions, out);
        true
    }

    /// Returns the columns of a row to write back from above the members: those asked for. All of them are
    /// written where parity is computed from the newest version of every column.
    fn above_of(&self, asked: ColumnSet, row: DepartedRow<'_>) -> ColumnSet {
        let above = row.sources.above();
        let all = self.needs_log() && (!self.data_is_live(row) || row.sources.is_torn());
        if all { above } else { above & asked }
    }

    /// The pages that are written, by column: the host's, or those that are above; the steps after which they
    /// are there.
    pub(super) fn fresh_of(
        &mut self,
        op: OpId,
        what: WriteExtent,
        row: DepartedRow<'_>,
        out: &mut Out,
    ) -> (ColumnPages, StepSet) {
        let mut fresh = self.fresh(op, what);
        let mut known = StepSet::EMPTY;
        if self.write_task(op).is_from_above() {
            known = self.gather(op, row, what.columns, RowSources::newest, &mut fresh, out);
        }
        (fresh, known)
    }

    /// Is true if the members of all data columns can be read.
    fn data_is_live(&self, row: DepartedRow<'_>) -> bool {
        row.columns.live.contains_all(self.data)
    }

    /// All data of the row is live.
    fn plan_departed(
        &mut self,
        op: OpId,
        what: WriteExtent,
        row: DepartedRow<'_>,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) {
        self.begin_rows(op, what.rows);
        let (mut fresh, known) = self.fresh_of(op, what, row, out);
        let targets = row.columns.live | row.columns.sink;
        let parity = self.parity() & targets;
        let trim = self.write_task(op).op == HostOp::Discard;
        let ready = self.intent_beside(op, what.rows, parity, out);
        if trim {
            let done = (targets & (what.columns | parity)).iter().fold(StepSet::EMPTY, |done, column| {
                done | self.write_column(op, what, column, Buf::Zero, true, ready, out)
            });
            let after = self.after_writes(op, what, targets, true, done, out);
            return self.finish_batch(op, what, after, Buf::None, versions, out);
        }
        let mut ready = ready | known;
        if let Some(sectors) = what.part {
            ready |= self.merge_newest(op, what, row, sectors, &mut fresh, ready, out);
        }
        if self.config.geometry.level() == RaidLevel::Raid1 {
            let done = targets.iter().fold(StepSet::EMPTY, |done, column| {
                done | self.write_column(op, what, column, fresh[0], false, ready, out)
            });
            let after = self.after_writes(op, what, targets, false, done, out);
            return self.finish_batch(op, what, after, self.merged, versions, out);
        }
        let (p, q);
        let update = if what.columns.is_empty() { row.sources.stale() } else { what.columns };
        // What else is above stays there, and the parity goes on to cover what the members have.
        let beside = self.write_task(op).is_from_above() && !row.sources.is_torn();
        if parity.is_empty() {
            (p, q) = (Buf::None, Buf::None);
        } else if self.modifies(what, row, parity, out.page_bytes(), beside) {
            self.stats.rmw_writes += 1;
            if !row.sources.stale().is_empty() && !update.contains_all(row.sources.stale()) {
                // The columns outside the update stay stale: the parity covers their old versions still.
                self.write_task(op).departed = Some(ParityUpdate::Modified);
            }
            let mut old = [Buf::None; MAX_DEVICES];
            ready |= self.gather_changes(
                op,
                row,
                update - what.columns,
                &mut old,
                &mut fresh,
                &mut DeltaPages::default(),
                out,
            );
            ready |= self.gather(op, row, update & what.columns, RowSources::covered, &mut old, out);
            ready |= self.gather(op, row, parity, RowSources::newest, &mut old, out);
            let modified = WriteExtent { columns: update, ..what };
            (p, q, ready) = self.modify_parity(op, modified, parity, &fresh, &old, ready, out);
        } else {
            if what.columns == self.data && what.part.is_none() {
                self.stats.full_writes += 1;
            } else {
                self.stats.rcw_writes += 1;
            }
            let others = if beside { RowSources::covered } else { RowSources::newest };
            if beside && !what.columns.contains_all(row.sources.stale()) {
                self.write_task(op).departed = Some(ParityUpdate::Modified);
            }
            ready |= self.gather(op, row, self.data - what.columns, others, &mut fresh, out);
            (p, q, ready) = self.compute_parity(op, what.stripe, parity, &fresh, 1, ready, out);
        }
        let after = self.write_columns(op, what, targets, &fresh, p, q, ready, out);
        self.finish_batch(op, what, after, self.merged, versions, out);
    }

    /// Makes the page of a write that is a part of one: its newest version with what is written; the
    /// steps.
    #[expect(clippy::too_many_arguments, reason = "a page's place, content and order are that many things")]
    fn merge_newest(
        &mut self,
        op: OpId,
        what: WriteExtent,
        row: DepartedRow<'_>,
        sectors: Sectors,
        fresh: &mut ColumnPages,
        after: StepSet,
        out: &mut Out,
    ) -> StepSet {
        let mut newest = [Buf::None; MAX_DEVICES];
        let column = what.only();
        let read = after | self.gather(op, row, what.columns, RowSources::newest, &mut newest, out);
        let dst = out.tmp(op, 1);
        let merge = Step::Merge { old: newest[column], new: fresh[column], sectors, dst };
        (fresh[column], self.merged) = (dst, dst);
        read | out.step(op, merge, read)
    }

    /// Returns true if parity is modified by the changes, rather than computed from all data. Parity must be
    /// modified while columns are stale that are not written. Computed parity would cover their newest
    /// version, and a later update would add their retained changes once more. An exception are stale columns
    /// whose covered version is `beside` the written data, on their members.
    pub(super) fn modifies(
        &self,
        what: WriteExtent,
        row: DepartedRow<'_>,
        parity: ColumnSet,
        page_bytes: u32,
        beside: bool,
    ) -> bool {
        let stale = row.sources.stale();
        // A parity that is being filled holds nothing to modify.
        if parity.meets(row.columns.sink) || row.sources.is_torn() || what.columns == self.data && what.part.is_none() {
            return false;
        }
        let from_members = |columns: ColumnSet, source: fn(&RowSources, _) -> VersionSource| {
            columns.iter().filter(|column| source(row.sources, *column) == VersionSource::Member).count()
        };
        let update = if what.columns.is_empty() { stale } else { what.columns };
        if update.iter().any(|column| matches!(row.sources.covered(column), VersionSource::Parity(_))) {
            return false;
        }
        if what.columns.is_empty() {
            // What fewer member pages are read for, and of equal numbers what the deltas are enough for (specs §9.6).
            let whole = stale.iter().filter(|column| row.sources.change(*column, page_bytes).is_none());
            let rmw = from_members(whole.collect(), RowSources::newest) + from_members(parity, RowSources::newest);
            return rmw <= from_members(self.data, RowSources::newest);
        }
        let others = if beside { RowSources::covered } else { RowSources::newest };
        let rmw = from_members(what.columns, RowSources::covered) + from_members(parity, RowSources::newest);
        let rcw = from_members(self.data - what.columns, others) + usize::from(what.part.is_some());
        !beside && !what.columns.contains_all(stale)
            || match self.config.parity {
                ParityMethod::Min => rmw < rcw,
                ParityMethod::Rmw => true,
                ParityMethod::Rcw => false,
                ParityMethod::Disksim => 2 * what.columns.len() < self.data.len(),
            }
    }

    /// Data of the row is lost: makes all of it known as it will be. Parity is computed from that, so
    /// that nothing stays stale.
    fn gather_degraded(
        &mut self,
        op: OpId,
        what: WriteExtent,
        row: DepartedRow<'_>,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) {
        let lost = self.data - row.columns.live;
        // Slots for notes stay free: the states of the members must always find one.
        let room = self.own_slots().saturating_sub(NOTE_SLOTS + self.reserved) as u32;
        if room < lost.len() {
            versions.released(op);
            self.write_task(op).departed = None;
            self.waiting.push(op);
            // A flush lets intents of idle rows end, and with them their entries of the log.
            self.own_flush(out);
            return;
        }
        // Slots are reserved before the reads, or two degraded writes could each take the other's last
        // slot.
        self.reserve(op, lost.len() as usize);
        let mut fresh = self.fresh(op, what);
        // `gather_newest` overwrites the column of a part of a page, which the merge still needs.
        let host = fresh;
        let kept = if what.part.is_some() { ColumnSet::EMPTY } else { what.columns };
        // First, since a plan of which a step has begun cannot be dropped.
        let Ok(mut ready) = self.gather_newest(op, row, self.data - kept, &mut fresh, out) else {
            self.drop_plan(op, versions, out);
            return self.fail(op, versions, out);
        };
        if self.write_task(op).is_from_above() {
            ready |= self.gather(op, row, what.columns, RowSources::newest, &mut fresh, out);
        }
        if let Some(sectors) = what.part {
            let column = what.only();
            let dst = out.tmp(op, 1);
            ready |= out.step(op, Step::Merge { old: fresh[column], new: host[column], sectors, dst }, ready);
            fresh[column] = dst;
        }
        self.write_task(op).known = Some(Box::new(fresh));
        if ready.is_empty() {
            self.log_and_write(op, versions, out);
        } else {
            self.write_task(op).join = out.step_notify(op, Step::Join, ready);
        }
    }

    /// Writes data and leaves the parity as it is. All members are live.
    pub(super) fn plan_delayed(
        &mut self,
        op: OpId,
        mut what: WriteExtent,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) {
        let last = self.take_rewrites(op, &mut what, out);
        let task = self.write_task(op);
        (task.batch, task.departed) = (what.rows.count, Some(ParityUpdate::Delayed));
        self.begin_rows(op, what.rows);
        let mut fresh = self.fresh(last, what);
        let mut ready = self.intent(op, what.rows, StepSet::EMPTY, out);
        if let Some(sectors) = what.part {
            let sources = versions.sources(what.rows.first);
            let columns = self.columns(what.stripe, what.rows);
            let row = DepartedRow { stripe: what.stripe, rows: what.rows, columns, sources: &sources };
            versions.uses(op, what.rows.first);
            ready |= self.merge_newest(op, what, row, sectors, &mut fresh, ready, out);
        }
        // No parity step follows: the cache holds the version that the parity covers.
        self.stats.delayed_writes += 1;
        let after = self.write_columns(op, what, what.columns, &fresh, Buf::None, Buf::None, ready, out);
        self.finish_batch(op, what, after, self.merged, versions, out);
    }

    /// Has what stands above prepare for data to be written and the parity left as it is. All members are
    /// live.
    #[cold]
    pub(super) fn plan_prepared(&mut self, op: OpId, what: WriteExtent, out: &mut Out) {
        debug_assert!(what.columns.is_single(), "of two columns one may be written when the other's member is lost");
        let task = self.write_task(op);
        (task.batch, task.departed) = (what.rows.count, Some(ParityUpdate::Delayed));
        self.begin_rows(op, what.rows);
        let after = self.intent(op, what.rows, StepSet::EMPTY, out);
        self.duties.push_back(WriteDuty::Prepare { op, after });
    }

    /// Plans the write of the data, after the user has prepared for it in the steps `after`. For a write
    /// smaller than a page, `merged` holds the page as it will be.
    pub fn finish_prepared(&mut self, op: OpId, merged: Buf, after: StepSet, out: &mut Out) {
        let mut what = self.left(op);
        what.rows.count = self.write_task(op).batch;
        let mut fresh = self.fresh(op, what);
        if what.part.is_some() {
            fresh[what.only()] = merged;
        }
        self.stats.delayed_writes += 1;
        let done = self.write_columns(op, what, what.columns, &fresh, Buf::None, Buf::None, after, out);
        let pending = out.phase(op, done);
        assert!(pending, "the data is written by a step");
        self.duties.push_back(WriteDuty::Finish { op, after: done, merged });
    }
}
