//! Filling a member that was replaced, stripe by stripe in windows: a window counts when it is
//! durable and noted, so that a cut costs no more than a window, and no row is trusted to the new
//! member sooner. Until then writes keep what was filled in true.

use std::ops::Range;

use destage_plan::{BadPage, Buf, Claim, Class, Column, ColumnSet, Dev, DevSet, OpId, Out, Row, Rows, StepSet};

use super::sources::{DepartedRow, MissingSource};
use super::{ArrayTask, PageVersions, RaidArray, RowSources, VersionSource};
use crate::{MAX_DEVICES, RaidLevel};

/// Operations that fill rows at the same time, and the most rows of each: what they read is held in
/// memory.
const CONCURRENT: u32 = 4;
/// Writes of the rows wait for that long.
const ROWS: u32 = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RebuildPhase {
    #[default]
    Idle,
    /// Rows from `next` to `end` are left of the window.
    Window { next: Row, end: Row },
    /// The window is made durable.
    Flushing { op: OpId, end: Row },
    /// Notes the progress of the rebuild.
    Noting,
}

/// Tracks the filling of a member.
#[derive(Default)]
pub(super) struct MemberRebuild {
    wanted: Vec<Dev>,
    phase: RebuildPhase,
    active: u32,
    /// A row cannot be filled in, since what it needs is lost: no row counts as filled until a row of
    /// which pages are elsewhere was written.
    halted: bool,
}

impl MemberRebuild {
    pub(super) fn is_active(&self) -> bool {
        self.phase != RebuildPhase::Idle || !self.wanted.is_empty()
    }

    /// A lost member has been replaced.
    pub(super) fn wants(&mut self, dev: Dev) {
        self.halted = false;
        if !self.wanted.contains(&dev) {
            self.wanted.push(dev);
        }
    }

    /// A row may have become one that can be filled in.
    pub(super) fn go_on(&mut self) {
        self.halted = false;
    }

    /// The member being filled is lost.
    pub(super) fn stop(&mut self) {
        self.phase = RebuildPhase::Idle;
    }
}

impl RaidArray {
    /// Goes on with the filling of a member, if there is one to be filled.
    pub(super) fn rebuild_more(&mut self, out: &mut Out) {
        // No write may rely on the loss before it is noted, and a rebuild writes.
        if !self.ready || !self.members.persisted() || self.cleaning || self.rebuild.halted {
            return;
        }
        if self.rebuild.phase == RebuildPhase::Noting {
            if self.members.is_noting() {
                return;
            }
            self.rebuild.phase = RebuildPhase::Idle;
        }
        if self.members.not_live().is_empty() || self.members.broken() {
            return;
        }
        let end_of_members = Row(self.config.geometry.member_pages());
        let chunk = u64::from(self.config.geometry.chunk_pages());
        if self.rebuild.phase == RebuildPhase::Idle && self.rebuild.active == 0 {
            if let Some((_, upto)) = self.members.filling() {
                // Rows that are not used are passed over: a window that begins behind the last one is empty, and ends the rebuild.
                let next = self.used_from(upto).map_or(end_of_members, |rows| rows.start);
                // A window bounds the work that a crash repeats; each window costs a round of flushes and a
                // note.
                let end = Row(next.0 + u64::from(self.config.rebuild_window) * chunk).min(end_of_members);
                self.rebuild.phase = RebuildPhase::Window { next, end };
            } else {
                let lost = self.members.lost();
                self.rebuild.wanted.retain(|dev| lost.contains(*dev));
                if self.rebuild.wanted.is_empty() {
                    return;
                }
                let dev = self.rebuild.wanted.remove(0);
                // The note comes before the first window: rows count as filled only under a note that names
                // the member.
                self.members.fill(dev);
                self.rebuild.phase = RebuildPhase::Noting;
                self.persist(out);
                return;
            }
        }
        let RebuildPhase::Window { mut next, end } = self.rebuild.phase else { return };
        while next < end && self.rebuild.active < CONCURRENT {
            let Some(used) = self.used_from(next).filter(|rows| rows.start < end) else {
                next = end;
                break;
            };
            let (stripe, first) = self.config.geometry.stripe_of(used.start);
            let left = used.end.0 - used.start.0;
            let rows = Rows::new(used.start, left.min((chunk as u32 - first).min(ROWS).into()) as u32);
            next = rows.end();
            self.rebuild.active += 1;
            // Reads go on, also those that compute what is being filled in: the member is read only
            // where it has been filled. Writes conflict with what is read.
            let claim = Claim { stripe, first, rows: rows.count, r: self.all, w: ColumnSet::EMPTY };
            let op = out.open(Class::Rebuild, Some(claim), None);
            self.set_task(op, ArrayTask::Rebuild(rows));
        }
        self.rebuild.phase = RebuildPhase::Window { next, end };
        if next == end && self.rebuild.active == 0 {
            // Rows count as filled only when they are durable and noted, in this order.
            let op = self.open_flush(None, out);
            self.rebuild.phase = RebuildPhase::Flushing { op, end };
        }
    }

    /// Returns the first rows from `from` on that hold data.
    fn used_from(&self, from: Row) -> Option<Range<Row>> {
        let end = Row(self.config.geometry.member_pages());
        let all = || (from < end).then_some(from..end);
        let Some(used) = &self.config.used_rows else { return all() };
        let at = used.partition_point(|rows| rows.end <= from);
        used.get(at).map(|rows| rows.start.max(from)..rows.end)
    }

    /// Returns which part of the rows that hold data the member being filled holds, if there is one.
    pub fn filled_share(&self) -> Option<f64> {
        let (_, upto) = self.members.filling()?;
        let end = Row(self.config.geometry.member_pages());
        let all = Row(0)..end;
        let used = self.config.used_rows.as_deref().unwrap_or(std::slice::from_ref(&all));
        let before =
            |limit: Row| -> u64 { used.iter().map(|rows| rows.end.min(limit).0.saturating_sub(rows.start.0)).sum() };
        Some(before(upto) as f64 / before(end).max(1) as f64)
    }

    /// A flush is done; if it was that of a window, the window counts as soon as it is noted.
    pub(super) fn window_flushed(&mut self, flush: OpId, out: &mut Out) {
        if let RebuildPhase::Flushing { op, end } = self.rebuild.phase
            && op == flush
        {
            self.rebuild.phase = RebuildPhase::Noting;
            self.members.filled(end, end.0 == self.config.geometry.member_pages());
            self.persist(out);
        }
    }

    #[cold]
    pub(super) fn plan_rebuild(&mut self, op: OpId, rows: Rows, versions: &mut dyn PageVersions, out: &mut Out) {
        let before = self.stats;
        self.fill_rows(op, rows, versions, out);
        self.stats.was_rebuild(&before);
    }

    fn fill_rows(&mut self, op: OpId, rows: Rows, versions: &mut dyn PageVersions, out: &mut Out) {
        if !self.members.persisted() {
            self.waiting.push(op);
            return;
        }
        let departs = versions.departs(rows);
        if (departs || self.members.bad.meets(rows)) && rows.count > 1 {
            return self.rebuild_by_rows(op, rows, out);
        }
        let geometry = &self.config.geometry;
        let stripe = geometry.stripe_of(rows.first).0;
        let columns = self.columns(stripe, rows);
        let lost_all = self.all - columns.live;
        let filling = self.members.filling().filter(|(dev, _)| self.members.is_sink(*dev, rows));
        let too_many = lost_all.len() > u32::from(geometry.parity_columns());
        let Some((dev, _)) = filling else {
            // The member was lost again.
            return out.close(op);
        };
        let column = geometry.column(stripe, dev);
        let unreadable = self.members.bad.members(rows) - DevSet::one(dev);
        match self.page_anew(op, rows, column, versions, out) {
            Ok((src, ready)) => {
                self.write_rows(op, stripe, rows, column, src, ready, out);
            }
            // The row alone is lost, as far as that can be noted.
            Err(MissingSource) if !unreadable.is_empty() && self.may_miss_more() => {
                versions.released(op);
                if !self.leave_missing(op, BadPage { dev, page: rows.first.0 }, out) {
                    self.waiting.push(op);
                    self.own_flush(out);
                    return;
                }
            }
            // Another was lost, so that nothing can be computed.
            Err(MissingSource) if too_many && unreadable.is_empty() => {}
            Err(MissingSource) => {
                self.rebuild.halted = true;
                self.rebuild.stop();
            }
        }
        out.close(op);
    }

    /// Makes the pages of a member known from those of the others, as it should have them: the rows are one, or do not
    /// depart. Where they are, after which steps.
    pub(super) fn page_anew(
        &mut self,
        op: OpId,
        rows: Rows,
        column: Column,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) -> Result<(Buf, StepSet), MissingSource> {
        let geometry = &self.config.geometry;
        let stripe = geometry.stripe_of(rows.first).0;
        let columns = self.columns(stripe, rows);
        let lost_all = self.all - columns.live;
        let pages = rows.count as u16;
        if versions.departs(rows) && self.needs_log() {
            let sources = versions.sources(rows.first);
            let row = DepartedRow { stripe, rows, columns, sources: &sources };
            versions.uses(op, rows.first);
            return self.departed_anew(op, row, column, out);
        }
        if lost_all.len() > u32::from(geometry.parity_columns()) {
            return Err(MissingSource);
        }
        if geometry.level() == RaidLevel::Raid1 {
            let page = out.tmp(op, pages);
            let source = columns.live.lowest().ok_or(MissingSource)?;
            let read = self.read_rows(op, stripe, rows, source, page, StepSet::EMPTY, out);
            return Ok((page, read));
        }
        let lost = self.data & lost_all;
        let mut old = [Buf::None; MAX_DEVICES];
        let mut ready = StepSet::EMPTY;
        let wanted = if lost.is_empty() { self.data } else { self.data | self.equations(columns.live, lost) };
        for column in (wanted & columns.live).iter() {
            old[column.index()] = out.tmp(op, pages);
            ready |= self.read_rows(op, stripe, rows, column, old[column.index()], StepSet::EMPTY, out);
        }
        if !lost.is_empty() {
            ready |= self.compute_lost(op, stripe, &mut old, lost, columns.live, pages, ready, out);
        }
        let src = if self.data.contains(column) {
            old[column.index()]
        } else {
            let (p, q, computed) = self.compute_parity(op, stripe, ColumnSet::one(column), &old, pages, ready, out);
            ready = computed;
            if column == self.config.geometry.p_column() { p } else { q }
        };
        Ok((src, ready))
    }

    /// Rows that have each their own sources are filled in one by one.
    fn rebuild_by_rows(&mut self, op: OpId, rows: Rows, out: &mut Out) {
        let (stripe, first) = self.config.geometry.stripe_of(rows.first);
        for (row, first) in rows.iter().zip(first..) {
            self.rebuild.active += 1;
            let claim = Claim { stripe, first, rows: 1, r: self.all, w: ColumnSet::EMPTY };
            let part = out.open(Class::Rebuild, Some(claim), None);
            self.set_task(part, ArrayTask::Rebuild(Rows::new(row, 1)));
        }
        // The operation has no rows any more; its parts count them.
        self.set_task(op, ArrayTask::Rebuild(Rows::new(rows.first, 0)));
        out.close(op);
    }

    /// As [`page_anew`](Self::page_anew), of a row whose pages are not all on their members. A data page becomes the version that its
    /// member is to have: the newest, unless the parity does not cover that and the member had the one
    /// that it covers, or will have: versions in the NVRAM come to their members with their parity, and the
    /// one below may be on its way there already, and be nowhere else when it has arrived. Parity becomes
    /// what other parity is: that of the versions which are covered.
    fn departed_anew(
        &mut self,
        op: OpId,
        row: DepartedRow<'_>,
        column: Column,
        out: &mut Out,
    ) -> Result<(Buf, StepSet), MissingSource> {
        let mut pages = [Buf::None; MAX_DEVICES];
        Ok(if self.data.contains(column) {
            let newest = row.sources.newest(column);
            let alone = ColumnSet::one(column);
            let ready = match row.sources.covered(column) {
                VersionSource::Member if newest != VersionSource::Member => {
                    self.gather_covered(op, row, &mut pages, out)?
                }
                VersionSource::Page(_) | VersionSource::Nv(_) if matches!(newest, VersionSource::Nv(_)) => {
                    self.gather(op, row, alone, RowSources::covered, &mut pages, out)
                }
                _ => self.gather_newest(op, row, alone, &mut pages, out)?,
            };
            (pages[column.index()], ready)
        } else {
            let ready = if row.sources.is_torn() {
                self.gather_newest(op, row, self.data, &mut pages, out)?
            } else {
                self.gather_covered(op, row, &mut pages, out)?
            };
            let parity = ColumnSet::one(column);
            let (p, q, ready) = self.compute_parity(op, row.stripe, parity, &pages, 1, ready, out);
            (if column == self.config.geometry.p_column() { p } else { q }, ready)
        })
    }

    #[cold]
    pub(super) fn rebuild_done(&mut self, rows: Rows, out: &mut Out) {
        self.rebuild.active -= 1;
        self.repair_missing(rows, out);
        if self.members.filling().is_some_and(|(dev, _)| self.members.is_sink(dev, rows)) {
            self.stats.rebuilt_rows += u64::from(rows.count);
        }
        self.dirty |= self.config.geometry.member_set() - self.members.lost();
        self.rebuild_more(out);
    }
}
