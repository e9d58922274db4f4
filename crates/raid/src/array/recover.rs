//! The beginning of a life: what the NVRAM says, and making rows consistent whose intent is open.

use std::collections::{BTreeSet, VecDeque};

use destage_plan::{
    Buf, Claim, Class, Column, ColumnSet, Ext, LostPages, NvHeld, NvSlot, OpId, Out, PageRange, Refusal, Row, Rows,
    Start, Step, StepSet, Stripe,
};

use super::members::UnknownTag;
use super::sources::DepartedRow;
use super::versions::{ParityUpdate, RowSources, VersionSource};
use super::{ArrayTask, PageVersions, RaidArray, bad_pages, log, members};
use crate::{MAX_DEVICES, RaidLevel};

/// Operations that make rows consistent at the same time, and the most rows of each: what they read
/// is held in memory.
const CONCURRENT: u32 = 8;
const ROWS: u32 = 256;

/// Tracks the rows that recovery has yet to make consistent.
#[derive(Default)]
pub(super) struct RowRecovery {
    todo: VecDeque<Rows>,
    /// Holds the rows of which what stands above [says](RaidArray::recover_above) that they are not consistent, while no intent
    /// does.
    above: BTreeSet<Row>,
    active: u32,
    refused: bool,
    /// Rows that cannot be made consistent were looked for.
    checked: bool,
}

impl RowRecovery {
    /// Puts rows at the head of what is left, one by one.
    fn divide(&mut self, rows: Rows) {
        for row in (rows.first.0..rows.end().0).rev() {
            self.todo.push_front(Rows::new(Row(row), 1));
        }
    }
}

impl RaidArray {
    #[cold]
    pub(super) fn start(&mut self, start: Start<'_>, out: &mut Out) {
        let count = self.config.geometry.members();
        let mut stale: Vec<NvSlot> = Vec::new();
        let page_bytes = out.page_bytes();
        for held @ NvHeld { slot, tag, .. } in start.nv {
            let loaded = match tag[1] {
                // Two entries in one slot, or a slot beyond the last, cannot be this array's.
                _ if !self.slots.occupy(*slot) => Err(UnknownTag),
                // What stands above takes it, or refuses.
                _ if Self::is_above(tag) && self.share.used < self.share.slots => {
                    self.share.used += 1;
                    Ok(None)
                }
                members::KIND_MEMBERS if held.is_empty() => self.members.load(*slot, tag),
                bad_pages::KIND_MISSING if held.is_empty() => self.members.bad.load(*slot, tag, count),
                log::KIND_LOG if held.len() == page_bytes => self.log.load(*slot, tag, count),
                _ => Err(UnknownTag),
            };
            match loaded {
                Ok(superseded) => stale.extend(superseded),
                Err(UnknownTag) => return self.refuse(Refusal::Nvram, out),
            }
        }
        // A damaged page that was logged is no more than one that was not: a row that needs it has a hole. It had to be
        // loaded for those before it to count no more.
        let damaged = start.nv.iter().filter(|held| held.is_damaged && held.tag[1] == log::KIND_LOG);
        for NvHeld { slot, .. } in damaged {
            stale.extend(self.log.forget_slot(*slot));
        }
        for dev in self.members.lost().iter() {
            self.members.bad.forget(dev);
        }
        stale.extend(self.members.bad.take_obsolete());
        self.members.bad.note_earlier(start.unwritable);
        // Losses found at the start are noted later: a refused start must change nothing.
        for dev in (start.missing & self.config.geometry.member_set()).iter() {
            self.members.lose(dev);
        }
        // The user's order to believe members takes effect only where the start would be refused otherwise.
        if self.members.broken() {
            self.members.revive(self.config.revived - start.missing);
        }
        if self.members.broken() {
            return self.refuse_broken(out);
        }
        for rows in start.intents {
            self.queue_recovery(*rows);
        }
        let intents = &self.intents;
        // Without an open intent the row is consistent, and the logged page may be older than the member's.
        self.log.retain(|row, _| intents.contains(row), &mut stale);
        self.free_slots(stale, out);
    }

    /// Looks whether all rows can be made consistent, before anything is changed; whether they can.
    fn check_recovery(&mut self, versions: &dyn PageVersions, out: &mut Out) -> bool {
        self.recovery.checked = true;
        let todo = self.recovery.todo.make_contiguous().to_vec();
        if let Some(refusal) = self.check_holes(&todo, versions) {
            self.refuse(refusal, out);
            return false;
        }
        if !self.members.persisted() {
            self.persist(out);
        }
        true
    }

    /// Divides rows as they will be recovered: by stripe, and one by one where a lost page is taken
    /// from the NVRAM.
    fn queue_recovery(&mut self, rows: Rows) {
        let geometry = &self.config.geometry;
        let mut row = rows.first;
        let end = rows.end().min(Row(geometry.member_pages()));
        while row < end {
            let (stripe, in_chunk) = geometry.stripe_of(row);
            // The bound on rows is a bound on memory: an operation holds all pages of its rows.
            let left = u64::from((geometry.chunk_pages() - in_chunk).min(ROWS));
            let chunk = Rows::new(row, left.min(end.0 - row.0) as u32);
            let lost = self.data - self.columns(stripe, chunk).live;
            let whole = lost.is_empty() || !self.needs_log();
            self.intents.begin(chunk);
            if whole {
                self.recovery.todo.push_back(chunk);
            } else {
                self.recovery.todo.extend(chunk.iter().map(|row| Rows::new(row, 1)));
            }
            row = chunk.end();
        }
    }

    /// Refuses the start: the array's user found in the NVRAM an entry that it did not write.
    pub fn refuse_nvram(&mut self, out: &mut Out) {
        self.refuse(Refusal::Nvram, out);
    }

    /// Has rows made consistent whose parity covers what stands above has lost. What it has of them in the NVRAM has to
    /// stay until the array is [ready](Self::is_ready): after a crash it is what says that they are not consistent.
    pub fn recover_above(&mut self, rows: impl Iterator<Item = Row>) {
        if self.recovery.refused {
            return;
        }
        for row in rows {
            if !self.intents.contains(row) {
                self.queue_recovery(Rows::new(row, 1));
                self.recovery.above.insert(row);
            }
        }
    }

    /// Loses these pages, of which what stands above had newer versions than the members: the start is refused unless they
    /// are [accepted](super::ArrayConfig::accepted_losses) as lost.
    pub fn lose_above(&mut self, pages: Vec<u64>, out: &mut Out) {
        if pages.is_empty() || self.recovery.refused {
            return;
        }
        let lost = PageRange::of_pages(pages);
        let accepted = &self.config.accepted_losses;
        let is_accepted = |page| accepted.iter().any(|range| range.contains(page));
        let refused = lost.iter().any(|range| !(range.first..range.end()).all(is_accepted));
        if refused {
            let lost = LostPages::new(&lost);
            self.refuse(Refusal::NvramDamaged { lost }, out);
        }
        self.lost.extend(lost);
    }

    /// Gives up those of these pages, which what stands above lost in an earlier life, that are
    /// [accepted](super::ArrayConfig::accepted_losses) as lost, and returns them: they are what the members have.
    pub fn give_up_above(&mut self, pages: impl Iterator<Item = u64>) -> Vec<u64> {
        let accepted = &self.config.accepted_losses;
        if accepted.is_empty() {
            return Vec::new();
        }
        let given_up: Vec<u64> = pages.filter(|page| accepted.iter().any(|range| range.contains(*page))).collect();
        self.lost.extend(PageRange::of_pages(given_up.iter().copied()));
        given_up
    }

    /// Handles the loss of newest versions that the array's user cannot name. The start is refused unless
    /// every page is [accepted](super::ArrayConfig::accepted_losses) as lost. Returns true if the start goes
    /// on.
    pub fn accepts_loss_above(&mut self, out: &mut Out) -> bool {
        let all = PageRange { first: 0, pages: self.config.geometry.data_pages() };
        // Only the union of the ranges counts, so they are walked in order.
        let mut accepted = self.config.accepted_losses.clone();
        accepted.sort_unstable_by_key(|range| range.first);
        let end = accepted.iter().fold(0, |end, range| if range.first <= end { range.end().max(end) } else { end });
        self.lost = vec![all];
        if end < all.end() {
            self.refuse(Refusal::CacheLost { lost: LostPages::new(&self.lost) }, out);
        }
        end >= all.end()
    }

    /// Is true if the start is refused.
    pub const fn is_refused(&self) -> bool {
        self.recovery.refused
    }

    /// Refuses the start, for the first reason that there is.
    fn refuse(&mut self, why: Refusal, out: &mut Out) {
        if !std::mem::replace(&mut self.recovery.refused, true) {
            // A refused start writes nothing more.
            self.recovery.todo.clear();
            out.refuse(why);
        }
    }

    fn refuse_broken(&mut self, out: &mut Out) {
        let tolerated = u32::from(self.config.geometry.parity_columns());
        let lost = self.members.not_live().len();
        self.refuse(Refusal::MembersLost { lost, tolerated }, out);
    }

    /// Goes on with recovery; says so when it is finished.
    pub(super) fn recover_more(&mut self, versions: &mut dyn PageVersions, out: &mut Out) {
        if self.ready || self.recovery.refused || !versions.is_recovered() {
            return;
        }
        // All rows are checked before the first is written, so that a refused start leaves the array
        // unchanged.
        if !self.recovery.checked && !self.check_recovery(versions, out) {
            return;
        }
        if !self.members.persisted() {
            return;
        }
        while self.recovery.active < CONCURRENT {
            let Some(rows) = self.recovery.todo.pop_front() else { break };
            if rows.count > 1 && (versions.departs(rows) || self.members.bad.meets(rows)) {
                self.recovery.divide(rows);
                continue;
            }
            self.recovery.active += 1;
            let (stripe, first) = self.config.geometry.stripe_of(rows.first);
            // No request is served before recovery ends, so the widest claim delays nobody.
            let claim = Claim { stripe, first, rows: rows.count, r: self.all, w: self.all };
            let op = out.open(Class::Recovery, Some(claim), None);
            self.set_task(op, ArrayTask::Recover(rows, ColumnSet::EMPTY));
        }
        if self.recovery.active > 0 || self.flushes.is_under_way() || self.clearing > 0 {
            return;
        }
        // Requests wait until recovery is durable and its intents are cleared; a flush is due before that.
        if self.intents.is_at_rest() {
            self.ready = true;
            out.ready();
            self.repair_all(out);
            self.list_noted(out);
            self.rebuild_more(out);
        } else {
            self.open_flush(None, out);
        }
    }

    #[cold]
    pub(super) fn plan_recover(&mut self, op: OpId, rows: Rows, versions: &mut dyn PageVersions, out: &mut Out) {
        if !self.members.persisted() {
            self.waiting.push(op);
            return;
        }
        // What an earlier plan was to write back, this one need not.
        self.set_task(op, ArrayTask::Recover(rows, ColumnSet::EMPTY));
        let geometry = &self.config.geometry;
        let stripe = geometry.stripe_of(rows.first).0;
        let columns = self.columns(stripe, rows);
        let targets = columns.live | columns.sink;
        if self.members.broken() {
            self.refuse_broken(out);
            return out.close(op);
        }
        let pages = rows.count as u16;
        if geometry.level() == RaidLevel::Raid1 {
            // If no copy of these rows can be read they are as they are.
            let Some(source) = columns.live.lowest() else { return out.close(op) };
            // Nobody can tell which copy is newer after a crash. Any of them is right for writes that were
            // not acknowledged.
            let others = targets - ColumnSet::one(source);
            if !others.is_empty() {
                let page = out.tmp(op, pages);
                let read = self.read_rows(op, stripe, rows, source, page, StepSet::EMPTY, out);
                for column in others.iter() {
                    self.write_rows(op, stripe, rows, column, page, read, out);
                }
            }
            return out.close(op);
        }
        let lost = self.data - columns.live;
        let parity = self.parity() & targets;
        if parity.is_empty() {
            return out.close(op);
        }
        let departs = versions.departs(rows);
        let mut back = ColumnSet::EMPTY;
        let refusal = if !lost.is_empty() && rows.count > 1 {
            Some(self.refuse_rows(rows, lost))
        } else {
            self.check_holes(&[rows], versions)
        };
        if let Some(refusal) = refusal {
            self.refuse(refusal, out);
            return out.close(op);
        }
        let hole = self.hole_of(rows.first, versions) & lost;
        let mut data = [Buf::None; MAX_DEVICES];
        let mut reads = StepSet::EMPTY;
        let above = if departs {
            let sources = versions.sources(rows.first);
            let elsewhere = |column: &Column| {
                matches!(
                    sources.newest(*column),
                    VersionSource::Page(_) | VersionSource::Nv(_) | VersionSource::Delta(_)
                )
            };
            let above = self.data.iter().filter(elsewhere).collect();
            let row = DepartedRow { stripe, rows, columns, sources: &sources };
            // Of a member that is lost, or not filled yet, the parity alone tells the page, so that its slot is kept:
            // the parity is not durable before the next flush, and what such a member holds nobody believes.
            back = sources.above() & columns.live;
            versions.uses(op, rows.first);
            reads = self.gather(op, row, above, RowSources::newest, &mut data, out);
            above
        } else {
            ColumnSet::EMPTY
        };
        // What was accepted as lost, and can be computed from nothing, becomes zeros.
        let is_computed = hole.len() <= (columns.live & self.parity()).len();
        let equations =
            if hole.is_empty() || !is_computed { ColumnSet::EMPTY } else { self.equations(columns.live, hole) };
        for column in ((self.data - hole - above) | equations).iter() {
            data[column.index()] = if lost.contains(column) {
                let slot = self.log.get(rows.first, self.dev(stripe, column)).expect("the row has no hole");
                Buf::Nv(slot)
            } else {
                let page = out.tmp(op, pages);
                reads |= self.read_rows(op, stripe, rows, column, page, StepSet::EMPTY, out);
                page
            };
        }
        if !is_computed {
            hole.iter().for_each(|column| data[column.index()] = Buf::Zero);
        } else if !hole.is_empty() {
            reads |= self.compute_lost(op, stripe, &mut data, hole, columns.live, pages, reads, out);
        }
        let (p, q, ready) = self.compute_parity(op, stripe, parity, &data, pages, reads, out);
        for column in parity.iter() {
            let src = if column == self.config.geometry.p_column() { p } else { q };
            self.write_rows(op, stripe, rows, column, src, ready, out);
        }
        // What could not be read is what the parity covers from now on, and not what it may have been before the cut: its
        // member has to have that, should it be able to read the page again.
        for column in (lost & columns.sink).iter() {
            self.write_rows(op, stripe, rows, column, data[column.index()], ready, out);
        }
        // The parity covers them from now on: their members must have them, or nobody would know after
        // another cut that it does.
        for column in back.iter() {
            let ext = Ext::new(self.dev(stripe, column), rows.first.0, 1);
            self.stats.data_writes += 1;
            let step = Step::Write { ext, src: data[column.index()], fua: true };
            out.step_placed(op, step, self.stream_of(column), ready);
        }
        self.set_task(op, ArrayTask::Recover(rows, back));
        out.close(op);
    }

    /// Begins again: what it reads is not changed by what it wrote. Rows of which a page cannot be read are left to
    /// operations of their own.
    #[cold]
    pub(super) fn recover_stuck(&mut self, op: OpId, rows: Rows, versions: &mut dyn PageVersions, out: &mut Out) {
        versions.released(op);
        out.restart(op);
        if rows.count > 1 && self.members.bad.meets(rows) {
            self.recovery.divide(rows);
            self.set_task(op, ArrayTask::Recover(Rows::new(rows.first, 0), ColumnSet::EMPTY));
            out.close(op);
        } else {
            out.again(op);
        }
    }

    #[cold]
    pub(super) fn recover_done(&mut self, op: OpId, rows: Rows, back: ColumnSet, versions: &mut dyn PageVersions) {
        self.recovery.active -= 1;
        if rows.count == 0 {
            return;
        }
        if self.recovery.refused {
            // Nothing may have been written: the next start finds all as this one did.
            return versions.released(op);
        }
        versions.written(op, rows, back, ParityUpdate::Computed);
        versions.released(op);
        self.stats.recovered_rows += u64::from(rows.count);
        // Rows named by the user alone have no intent in the NVRAM that would have to be cleared.
        let is_set = !self.recovery.above.remove(&rows.first);
        self.intents.end(rows, is_set);
        self.dirty |= self.config.geometry.member_set() - self.members.lost();
    }

    /// Writes rows of one column.
    #[expect(clippy::too_many_arguments, reason = "a page's place, content and order are that many things")]
    pub(super) fn write_rows(
        &mut self,
        op: OpId,
        stripe: Stripe,
        rows: Rows,
        column: Column,
        src: Buf,
        after: StepSet,
        out: &mut Out,
    ) -> StepSet {
        self.row_cache.drop_rows(rows);
        if self.data.contains(column) {
            self.stats.data_writes += u64::from(rows.count);
        } else {
            self.stats.parity_writes += u64::from(rows.count);
        }
        let ext = destage_plan::Ext::new(self.dev(stripe, column), rows.first.0, rows.count as u16);
        out.step_placed(op, Step::Write { ext, src, fua: false }, self.stream_of(column), after)
    }
}
