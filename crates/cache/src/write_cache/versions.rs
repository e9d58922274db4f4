//! Tells the array which versions are not on members, and takes in what becomes of them.

use destage_plan::{ColumnSet, HostOp, OpId, Row, Rows};
use destage_raid::array::{PageVersions, ParityUpdate, RowSources, StripeSegment, VersionSource, WriteApproach};

use super::places::in_strip;
use super::store::VersionLayer;
use super::{OperationJob, WriteCache};

impl PageVersions for WriteCache {
    fn approach(&mut self, _: OpId, host: HostOp, _: StripeSegment, rows: Rows, _: bool) -> WriteApproach {
        debug_assert_eq!(host, HostOp::Discard, "writes are taken");
        // What is in the NVRAM, be it of no use any more, could come back after a cut, while the parity is
        // that of zeros.
        if rows.iter().any(|row| self.store.has(row)) { WriteApproach::Skipped } else { WriteApproach::Plain }
    }

    fn departs(&self, rows: Rows) -> bool {
        // A torn row is not consistent without the cache's sources, even if the
        // NVRAM has nothing of it.
        self.store.departs(rows) || !self.torn.is_empty() && rows.iter().any(|row| self.torn.contains(&row))
    }

    fn sources(&self, row: Row) -> RowSources {
        let mut sources = self.store.sources(row);
        if self.torn.contains(&row) {
            // After a torn update the parity covers nothing, so the row is
            // recomputed from its data.
            for column in self.geometry.data_set().iter() {
                sources.set_stale(column, VersionSource::Lost);
            }
        }
        sources
    }

    fn uses(&mut self, op: OpId, row: Row) {
        self.store.pin_row(op, row);
    }

    fn released(&mut self, op: OpId) {
        self.store.unpin(op);
        self.reading.remove(&op);
        self.entering.remove(op);
        // A row that was dropped may have been what a member was short for.
        if self.entering.is_empty() {
            self.forget_short();
        }
    }

    fn written(&mut self, op: OpId, rows: Rows, columns: ColumnSet, updated: ParityUpdate) {
        match updated {
            ParityUpdate::Absorbed | ParityUpdate::Stored => {
                let mut came = std::mem::take(&mut self.spare_places);
                // Asked before the puts are done: afterwards nothing tells which
                // versions have moved.
                let drains = self.drain.as_ref().is_some_and(|drain| self.store.moves(op, drain.upto));
                self.store.put_done(op, |place, layer| came.push((place, layer)));
                if drains {
                    self.drains(&came);
                }
                for (place, layer) in came.drain(..) {
                    self.came(place, layer);
                }
                self.spare_places = came;
                self.freed(op);
            }
            ParityUpdate::Modified | ParityUpdate::Computed => {
                // The parity was computed from all data of the row, so it is right
                // again.
                if updated == ParityUpdate::Computed && !self.torn.is_empty() {
                    self.healed.extend(rows.iter().filter(|row| self.torn.remove(row)));
                }
                for place in rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column))) {
                    if let Some(slot) = self.store.pinned(op, place, VersionLayer::Upper) {
                        self.on_member(place, slot);
                    }
                }
                // The members have a parity now that is newer than the one in the
                // lower layer.
                if updated == ParityUpdate::Computed && self.lower.is_some() {
                    rows.iter().for_each(|row| self.outdate_covered(row));
                }
            }
            ParityUpdate::Torn => self.torn.extend(rows.iter()),
            // They stay where they are.
            ParityUpdate::Lost => {
                if let Some(&OperationJob::Row { group, .. }) = self.job(op) {
                    self.upper.iter_mut().for_each(|upper| upper.give_up(group));
                }
            }
            ParityUpdate::Delayed | ParityUpdate::Overwritten => {
                unreachable!("parity is never left alone by what is written to the members")
            }
        }
    }

    fn holds(&self, row: Row) -> bool {
        // A start would make the outdated parity, or the data under it, the newest
        // version of the row.
        self.torn.contains(&row) || self.outdated.holds(row)
    }

    fn is_recovered(&self) -> bool {
        // The array becomes ready only when no start could be misled by versions
        // that can be freed.
        !self.outdated.are_free_to_go() && self.healed.is_empty()
    }

    fn is_clean(&self) -> bool {
        // With more lost than the level can do without what is held stays where it is.
        let is_empty = self.store.is_empty()
            || self.broken && self.jobs.iter().all(Option::is_none)
            || self.has_only_parked() && !self.store.has_dead();
        let is_told = self.outdated.is_empty() && self.healed.is_empty();
        is_empty && is_told && self.waiting.is_empty() && self.freeing.is_empty() && !self.is_freeing
    }
}

impl WriteCache {
    /// Outdates what the lower layer has of a row's parity, and of its data below newer versions: the members have a parity
    /// now that covers the newest data. The row is held until the NVRAM has none of it, since a start would believe it.
    #[cold]
    fn outdate_covered(&mut self, row: Row) {
        for column in self.store.present(row).iter() {
            let place = (row, column);
            let is_covered =
                self.geometry.data_set().contains(column) && self.store.in_layer(place, VersionLayer::Upper).is_none();
            if is_covered || !self.store.outdate(place) {
                continue;
            }
            let (dev, strip, index) = in_strip(&self.geometry, place);
            if let Some(lower) = &mut self.lower {
                lower.pool_mut(dev).gone(strip, index);
            }
        }
        self.outdated.add(row, self.store.dead_of(row));
    }
}
