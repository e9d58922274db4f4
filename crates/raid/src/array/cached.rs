//! Writing rows of which pages are [in memory](super::row_cache): read is only what is not there, by the rule of md's stripe
//! cache. All members answer and can be read.

use destage_plan::{Buf, Column, ColumnSet, NvPut, NvSlot, OpId, Out, Row, Rows, Step, StepSet};

use super::row_cache::{HeldRows, RowPlace};
use super::write::{ColumnPages, WriteExtent};
use super::{PageVersions, ParityMethod, RaidArray, advance};
use crate::MAX_DEVICES;

/// Limits the steps of a plan of rows that are not treated alike, of the 64 that an operation has: others are for what stands
/// above.
const STEPS: u32 = 40;

/// Groups rows that one step can compute the parity of.
struct RowGroup {
    /// Counts the rows of the plan before it.
    from: u32,
    count: u32,
    place: RowPlace,
    /// Holds the columns that are read.
    read: ColumnSet,
    /// Holds the columns whose kept pages the parity is computed from.
    kept: ColumnSet,
    /// Tells that the parity is modified by what changes, and not computed from all data.
    modifies: bool,
}

/// Tells how the parity of a row is made.
struct RowMethod {
    read: ColumnSet,
    kept: ColumnSet,
    modifies: bool,
}

/// Names so many rows of a plan, from one of them on.
fn rows_from(what: WriteExtent, from: u32, count: u32) -> Rows {
    Rows::new(Row(what.rows.first.0 + u64::from(from)), count)
}

/// Counts the rows of all groups.
fn count_of(groups: &[RowGroup]) -> u32 {
    groups.last().map_or(0, |last| last.from + last.count)
}

impl RaidArray {
    /// Returns true if rows can be written with regard to what is kept of them.
    #[inline]
    pub(super) fn keeps_rows(&self, rows: Rows) -> bool {
        self.row_cache.is_on() && self.is_all_live(rows)
    }

    /// Plans to write as many of the rows as fit, and returns them with the last steps. Writes that wait for this one alone are
    /// carried out with it where that may be. Returns nothing if the first row cannot be kept, or where all rows are to be
    /// written in full and not all can be.
    #[inline(never)]
    pub(super) fn plan_cached(
        &mut self,
        op: OpId,
        asked: WriteExtent,
        is_full: bool,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) -> Option<(WriteExtent, StepSet)> {
        let mut held = self.row_cache.begin();
        let mut what = asked;
        let is_full = is_full || self.write_task(op).is_full;
        self.find_followers(op, &mut what, &mut held, is_full, versions, out);
        let mut groups = self.group_rows(what, &mut held);
        if !held.folded.is_empty() && count_of(&groups) < what.rows.count {
            // Only as a whole.
            held.folded.clear();
            what = asked;
            while !held.places.is_empty() {
                self.row_cache.let_go(&mut held);
            }
            groups = self.group_rows(what, &mut held);
        }
        // A full write may read nothing: where rows depart, the members' pages are not the newest.
        if groups.is_empty() || is_full && (what.columns != self.data || count_of(&groups) < what.rows.count) {
            held.folded.clear();
            self.row_cache.keep(held, true);
            return None;
        }
        // The user forgets its copies first: they would be older than the members afterwards.
        for &other in &held.folded {
            versions.passes(what.rows, self.write_task(other).asks().0);
        }
        what.rows.count = count_of(&groups);
        self.write_task(op).batch = what.rows.count;
        // The end of the write marks these members dirty too; the folded writes have no steps of their own.
        held.folded_columns = what.columns - asked.columns;
        self.begin_intents(op, what.rows);
        let mut fresh = self.fresh(op, asked);
        for &other in &held.folded {
            let columns = self.write_task(other).asks().0;
            let pages = self.fresh(other, WriteExtent { columns, ..what });
            columns.iter().for_each(|column| fresh[column.index()] = pages[column.index()]);
        }
        let parity = self.parity();
        let intent = self.intent_beside(op, what.rows, parity, out);
        let (read, mut ready) = self.read_groups(op, what, &groups, out);
        ready |= intent;
        if let Some(sectors) = what.part {
            let column = what.only();
            let old = self.page_of(&groups[0], column, &read);
            let dst = out.tmp(op, 1);
            ready |= out.step(op, Step::Merge { old, new: fresh[column], sectors, dst }, ready);
            (fresh[column], self.merged) = (dst, dst);
        }
        let pages = what.rows.count as u16;
        // One buffer for all rows lets the parity leave as one command per member.
        let p = out.tmp(op, pages);
        let q = if parity.is_single() { Buf::None } else { out.tmp(op, pages) };
        let mut computed = ready;
        for group in &groups {
            computed |= self.compute_group(op, what, group, (&fresh, &read), (p, q), ready, out);
        }
        let written = self.write_columns(op, what, self.all, &fresh, p, q, computed, out);
        // Behind the writes, so that they need not wait until it is copied.
        for column in parity.iter() {
            fresh[column.index()] = if column == self.config.geometry.p_column() { p } else { q };
        }
        self.put_rows(op, what, &groups, (&fresh, &read), &mut held, computed, out);
        let put = held.put;
        self.write_task(op).held = Some(held);
        Some((what, written | put))
    }

    /// Finds the writes of the same rows that wait for this one alone, and widens it by what they write. Of a page that
    /// several write the last is written.
    fn find_followers(
        &mut self,
        op: OpId,
        what: &mut WriteExtent,
        held: &mut HeldRows,
        is_full: bool,
        versions: &dyn PageVersions,
        out: &Out,
    ) {
        self.each_follower(op, what.rows, is_full, versions, out, |other, columns| {
            what.columns |= columns;
            held.folded.push(other);
        });
        self.take_durability(what, &held.folded);
    }

    /// Holds rows, and divides them into such that are treated alike.
    fn group_rows(&mut self, what: WriteExtent, held: &mut HeldRows) -> Vec<RowGroup> {
        let parity = self.parity();
        // The intent, a merge, the step that puts what is kept, and the writes.
        let mut steps = 3 + what.columns.len() + parity.len();
        let mut groups: Vec<RowGroup> = Vec::with_capacity(1);
        for (from, row) in (0..).zip(what.rows.iter()) {
            let Some(place) = self.row_cache.hold(row, held) else { break };
            let RowMethod { read, kept, modifies } = self.method_of(what, self.row_cache.valid(place));
            // Rows with retained pages stay apart: their slots are scattered, so one step cannot name
            // several of them.
            if let Some(group) = groups.last_mut()
                && (group.read, group.modifies) == (read, modifies)
                && (group.kept | kept).is_empty()
            {
                group.count += 1;
                continue;
            }
            // A modified Q takes two syndromes, an exclusive or, and the step of P.
            steps += read.len() + if parity.is_single() || !modifies { 1 } else { 4 };
            // `STEPS` leaves room for the user above. A first group that needs more still fits an
            // operation's 64 steps.
            if steps > STEPS && !groups.is_empty() {
                self.row_cache.let_go(held);
                break;
            }
            groups.push(RowGroup { from, count: 1, place, read, kept, modifies });
        }
        groups
    }

    /// Chooses how the parity of a row is made of which the pages of these columns are kept.
    fn method_of(&self, what: WriteExtent, valid: ColumnSet) -> RowMethod {
        let part = if what.part.is_some() { what.columns } else { ColumnSet::EMPTY };
        let changed = what.columns | self.parity();
        let others = (self.data - what.columns) | part;
        let (rmw, rcw) = (changed - valid, others - valid);
        // Pages in memory cost no read, so they change which method reads less, as in md.
        let is_full = others.is_empty();
        let modifies = !is_full
            && match self.config.parity {
                ParityMethod::Min => rmw.len() < rcw.len(),
                ParityMethod::Rmw => true,
                ParityMethod::Rcw => false,
                ParityMethod::Disksim => 2 * what.columns.len() < self.data.len(),
            };
        if modifies {
            RowMethod { read: rmw, kept: changed & valid, modifies }
        } else {
            RowMethod { read: rcw, kept: others & valid, modifies }
        }
    }

    /// Reads what is missing, neighbours at a time: where it is, by column from the plan's first row on, and the steps.
    fn read_groups(
        &mut self,
        op: OpId,
        what: WriteExtent,
        groups: &[RowGroup],
        out: &mut Out,
    ) -> (ColumnPages, StepSet) {
        let mut pages = [Buf::None; MAX_DEVICES];
        let mut ready = StepSet::EMPTY;
        let read = groups.iter().fold(ColumnSet::EMPTY, |all, group| all | group.read);
        for column in read.iter() {
            let page = out.tmp(op, what.rows.count as u16);
            pages[column.index()] = page;
            let mut rest = groups;
            while let Some(first) = rest.iter().position(|group| group.read.contains(column)) {
                let count = rest[first..].iter().take_while(|group| group.read.contains(column)).count();
                let (from, last) = (rest[first].from, &rest[first + count - 1]);
                let rows = rows_from(what, from, last.from + last.count - from);
                let dst = advance(page, from as u16);
                ready |= self.read_rows(op, what.stripe, rows, column, dst, StepSet::EMPTY, out);
                rest = &rest[first + count..];
            }
        }
        (pages, ready)
    }

    /// Names the pages of a column as they were, of the group's rows.
    fn page_of(&self, group: &RowGroup, column: usize, read: &ColumnPages) -> Buf {
        let column = Column(column as u8);
        if group.read.contains(column) {
            advance(read[column.index()], group.from as u16)
        } else {
            Buf::Nv(self.row_cache.page(group.place, column))
        }
    }

    /// Computes the parity of a group's rows; the steps.
    #[expect(clippy::too_many_arguments, reason = "a row's pages and their order are that many things")]
    fn compute_group(
        &mut self,
        op: OpId,
        what: WriteExtent,
        group: &RowGroup,
        (fresh, read): (&ColumnPages, &ColumnPages),
        (p, q): (Buf, Buf),
        ready: StepSet,
        out: &mut Out,
    ) -> StepSet {
        let from = group.from as u16;
        let what = WriteExtent { rows: rows_from(what, group.from, group.count), ..what };
        let (p, q) = (advance(p, from), advance(q, from));
        let (mut new, mut old) = ([Buf::None; MAX_DEVICES], [Buf::None; MAX_DEVICES]);
        what.columns.iter().for_each(|column| new[column.index()] = advance(fresh[column.index()], from));
        for column in (group.read | group.kept).iter() {
            old[column.index()] = self.page_of(group, column.index(), read);
        }
        // The count shows what the cache saves: each of these pages would be a read without it.
        self.stats.cached_reads += u64::from(group.kept.len() * group.count);
        let pages = group.count as u16;
        if group.modifies {
            self.stats.rmw_writes += 1;
            return self.modify_parity_in(op, what, self.parity(), &new, &old, Some((p, q)), ready, out).2;
        }
        if what.columns == self.data && what.part.is_none() {
            self.stats.full_writes += 1;
        } else {
            self.stats.rcw_writes += 1;
        }
        (self.data - what.columns).iter().for_each(|column| new[column.index()] = old[column.index()]);
        self.syndromes(op, what.stripe, &new, self.data, pages, p, q, ready, out)
    }

    /// Keeps what was read and what is written, in place of what was kept of it.
    #[expect(clippy::too_many_arguments, reason = "a row's pages and their order are that many things")]
    fn put_rows(
        &mut self,
        op: OpId,
        what: WriteExtent,
        groups: &[RowGroup],
        (fresh, read): (&ColumnPages, &ColumnPages),
        held: &mut HeldRows,
        after: StepSet,
        out: &mut Out,
    ) {
        let written = what.columns | self.parity();
        let mut puts = std::mem::take(&mut self.row_puts);
        for group in groups {
            for index in group.from..group.from + group.count {
                let place = held.places[index as usize];
                for column in (written | group.read).iter() {
                    let pages = if written.contains(column) { fresh } else { read };
                    let slot: NvSlot = self.row_cache.replace(held, place, column);
                    let src = advance(pages[column.index()], index as u16);
                    puts.push(NvPut::page(slot, [0; 24], src, out.page_bytes()));
                }
            }
        }
        let list = out.puts(op, &puts);
        puts.clear();
        self.row_puts = puts;
        let frees = out.slots(op, self.row_cache.frees(held));
        held.put = out.step(op, Step::Hold { puts: list, frees }, after);
    }

    /// Keeps the rows of a write whose steps are all done.
    #[inline]
    pub(super) fn keep_rows(&mut self, op: OpId) {
        if self.row_cache.is_on() {
            self.keep_held_rows(op);
        }
    }

    #[inline(never)]
    fn keep_held_rows(&mut self, op: OpId) {
        let Some(held) = self.write_task(op).held.take() else { return };
        let what = self.left(op);
        let rows = Rows::new(what.rows.first, self.write_task(op).batch);
        // A page is retained only if its member holds it; a lost member holds nothing that counts.
        let is_right = self.is_all_live(rows);
        for &other in &held.folded {
            let task = self.write_task(other);
            // The folded operation finds its rows done when it is granted, and only answers.
            (task.is_carried, task.is_rewritten, task.batch) = (true, held.are_rewrites, rows.count);
        }
        self.row_cache.keep(held, is_right);
    }

    /// Forgets the rows of a write that is planned anew: what of it was written nobody knows.
    #[inline]
    pub(super) fn forget_rows(&mut self, op: OpId, out: &Out) {
        if self.row_cache.is_on() {
            self.forget_held_rows(op, out);
        }
    }

    #[inline(never)]
    fn forget_held_rows(&mut self, op: OpId, out: &Out) {
        if let Some(held) = self.write_task(op).held.take() {
            // Before the put the executor knows nothing of the new slots, after it nothing of the replaced
            // ones.
            let has_put = out.is_done(op, held.put);
            self.row_cache.forget(held, has_put);
        }
    }

    /// Forgets all rows: a member does not hold what it should any more.
    pub(super) fn forget_all_rows(&mut self, out: &mut Out) {
        let slots = self.row_cache.clear();
        self.free_slots(slots, out);
    }

    /// Counts the pages of rows that are in memory.
    pub fn kept_pages(&self) -> usize {
        self.row_cache.kept()
    }
}
