//! Tells the array which versions are not on members, and takes in what becomes of them.

use destage_plan::{ColumnSet, DevSet, HostOp, OpId, Row, Rows};
use destage_raid::array::{PageVersions, ParityUpdate, RowSources, StripeSegment, VersionSource, WriteApproach};

use super::WriteBack;
use super::dirty::place;
use crate::ssd::behind::page_of;
use crate::ssd::copies::CopyCache;
use crate::ssd::of;

impl WriteBack {
    /// Returns true if the cache has, or is about to have, something of a row that a discard must not touch.
    fn has_dirty(&self, row: Row) -> bool {
        let (frames, geometry) = (self.frames(), self.geometry());
        geometry.data_set().iter().any(|column| {
            let page = page_of(geometry, row, column);
            self.room.is_wanted(page) || frames.get(page).is_some_and(|frame| !frames.is_clean(frame))
        })
    }

    /// Forgets the copies of pages that members have, too.
    fn drop_clean(&mut self, rows: Rows, columns: ColumnSet) {
        let CopyCache { frames, geometry, .. } = &mut self.copies;
        for (row, column) in rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column))) {
            let frame = frames.get(page_of(geometry, row, column));
            if let Some(frame) = frame.filter(|frame| frames.is_clean(*frame)) {
                frames.forget(frame);
            }
        }
    }

    /// Takes that members have newer versions of pages than the cache.
    fn pass_by(&mut self, rows: Rows, columns: ColumnSet) {
        for (row, column) in rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column))) {
            let (frames, geometry) = (&mut self.copies.frames, &self.copies.geometry);
            let page = page_of(geometry, row, column);
            let Some(frame) = frames.get(page) else { continue };
            let set = frames.set_of(row);
            if frames.pass_by(frame) {
                self.passed.add(page, frame);
            }
            if self.dirty.passed(row, column, page, set) {
                self.room.landed(page, set);
                self.copies.counts.overwritten += 1;
                // It could not be read.
                self.lost.remove(&page);
            }
        }
    }

    /// A member has the version of a page that is in its frame.
    fn lands(&mut self, page: u64) {
        // Only a page that was dirty changes here; members also get pages that
        // bypass the cache.
        let (row, column, set) = place(page, self.frames(), self.geometry());
        if !self.dirty.landed(row, column, page, set) {
            return;
        }
        self.room.landed(page, set);
        let frames = &mut self.copies.frames;
        let came = frames.land(frames.get(page).expect("a dirty page is in its frame"));
        // In mode `every write` each write is FUA, so what is in the frame is
        // durable already.
        let durable = self.every_write;
        self.journal_mut().landed(came, durable);
    }
}

impl PageVersions for WriteBack {
    fn approach(&mut self, _: OpId, host: HostOp, seg: StripeSegment, rows: Rows, _: bool) -> WriteApproach {
        if !self.is_recovered() {
            // Another life would believe what the device that is lost has of these pages.
            self.is_blocked = true;
            return WriteApproach::Waits;
        }
        // After a crash the dirty version would be believed, and the discarded
        // zeros forgotten.
        if host == HostOp::Discard && rows.iter().any(|row| self.has_dirty(row)) {
            return WriteApproach::Skipped;
        }
        let is_torn = !self.torn.is_empty() && rows.iter().any(|row| self.torn.contains(&row));
        if host == HostOp::Discard {
            return if is_torn { WriteApproach::Departed } else { WriteApproach::Plain };
        }
        // It may be written in pieces, and the intents of one cleared before the next.
        self.drop_clean(rows, seg.columns);
        // What is dirty of other columns is none of the parity's business, which goes on to cover what the members have.
        match (is_torn, self.dirty.departs(rows)) {
            (false, _) => WriteApproach::Overwriting,
            (true, false) => WriteApproach::Departed,
            // Parity would be made of the newest version of all, and what is dirty count as written back.
            (true, true) => WriteApproach::Refused,
        }
    }

    fn may_fold(&self, rows: Rows, columns: ColumnSet) -> bool {
        // A folded write is planned with others; that is safe only if the cache has
        // nothing of its pages and nothing is lost.
        self.is_caching() && self.lost.is_empty() && self.copies.has_none(rows, columns)
    }

    fn may_pass(&self) -> bool {
        // What is dirty of such a write is passed by.
        true
    }

    fn passes(&mut self, rows: Rows, columns: ColumnSet) {
        self.drop_clean(rows, columns);
    }

    fn departs(&self, rows: Rows) -> bool {
        self.dirty.departs(rows) || !self.torn.is_empty() && rows.iter().any(|row| self.torn.contains(&row))
    }

    fn sources(&self, row: Row) -> RowSources {
        let mut sources = RowSources::default();
        let (frames, geometry) = (self.frames(), self.geometry());
        for column in self.dirty.of_row(row).iter() {
            let page = page_of(geometry, row, column);
            let frame = frames.get(page).expect("a dirty page is in its frame");
            let is_lost = !self.lost.is_empty() && self.lost.contains(&page);
            sources
                .set_newest(column, if is_lost { VersionSource::Lost } else { VersionSource::Page(frames.ext(frame)) });
            // The parity covers what the member has, so the member is the covered
            // version.
            sources.set_stale(column, VersionSource::Member);
        }
        // After a torn update the parity covers nothing; rows are then made
        // consistent from their data.
        if self.torn.contains(&row) {
            for column in geometry.data_set().iter() {
                sources.set_stale(column, VersionSource::Lost);
            }
        }
        sources
    }

    fn uses(&mut self, op: OpId, row: Row) {
        let columns = self.dirty.of_row(row);
        let (frames, geometry) = (&mut self.copies.frames, &self.copies.geometry);
        for column in columns.iter() {
            let frame = frames.get(page_of(geometry, row, column)).expect("a dirty page is in its frame");
            // Held, so that the frame stays as it is while the array reads from it.
            frames.hold(frame);
            of(&mut self.named, op).push(frame);
        }
    }

    fn released(&mut self, op: OpId) {
        if let Some(named) = self.named.get_mut(op.index()) {
            named.drain(..).for_each(|frame| self.copies.frames.done(frame));
        }
        self.forget_entering(op);
    }

    fn written(&mut self, op: OpId, rows: Rows, columns: ColumnSet, updated: ParityUpdate) {
        match updated {
            ParityUpdate::Stored => self.stored(op),
            ParityUpdate::Overwritten => self.pass_by(rows, columns),
            ParityUpdate::Modified | ParityUpdate::Computed => {
                if updated == ParityUpdate::Computed && !self.torn.is_empty() {
                    // The row's parity was computed from all its data, so it is
                    // right again.
                    self.healed.extend(rows.iter().filter(|row| self.torn.remove(row)));
                }
                let back = self.dirty.writes_back(op);
                for (row, column) in rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column))) {
                    let page = page_of(self.geometry(), row, column);
                    // What is dirty is newer than what anybody else writes: that it landed would lose it.
                    assert!(
                        back || !self.is_serving || !self.dirty.of_row(row).contains(column),
                        "no write passes a dirty page by"
                    );
                    self.lands(page);
                    if back {
                        // The device was lost when it was read already.
                        self.lost.remove(&page);
                        self.journal_mut().heal(page);
                    }
                }
            }
            ParityUpdate::Torn => {
                // Without parity there is nothing to be torn.
                if self.has_parity() {
                    self.torn.extend(rows.iter());
                }
            }
            // What is dirty stays where it is, and others are written back.
            ParityUpdate::Lost => self.dirty.cannot_go(op, &self.copies.geometry),
            ParityUpdate::Delayed | ParityUpdate::Absorbed => unreachable!("nothing is written so"),
        }
    }

    fn holds(&self, row: Row) -> bool {
        self.torn.contains(&row) || self.journal().holds(row, self.frames(), self.geometry())
    }

    fn flushed(&mut self, is_whole: bool) {
        self.passed.flushed(is_whole, &mut self.copies.frames);
    }

    fn unflushed(&mut self) -> DevSet {
        // Called exactly when a round begins, which is what separates pages that it
        // covers from later ones.
        self.passed.flush_begins();
        if std::mem::take(&mut self.volatile) { DevSet::one(self.frames().dev()) } else { DevSet::EMPTY }
    }

    fn may_flush(&mut self) -> bool {
        // What was to be made durable may be lost, and an older version where it was; another life would believe that.
        let may = self.is_recovered();
        // The array tries again when the loss is noted (`is_blocked`).
        self.is_blocked |= !may;
        may
    }

    fn is_recovered(&self) -> bool {
        self.journal().is_recovered()
    }

    fn is_clean(&self) -> bool {
        // With more lost than the level can do without what is dirty stays where it is.
        // Three ways to be clean: all written, all that is left stuck, or nothing
        // can be written at all.
        let written = self.dirty.is_empty() && self.journal().is_noted_clean()
            || self.dirty.is_stuck() && !self.dirty.is_empty()
            || self.broken && self.dirty.is_at_rest();
        let entered =
            self.renewals.is_empty() && self.waiting.is_empty() && self.entering.is_empty() && self.reading.is_empty();
        written && entered && (self.passed.is_at_rest() || self.broken) && self.journal().is_clean(self.frames())
    }
}
