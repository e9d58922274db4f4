//! Writing rows of which data is lost: it is kept in the NVRAM while the rows may be torn (specs §2.1, degraded mode).

use destage_plan::{Buf, ColumnSet, HostOp, NvPut, OpId, Out, Step, StepSet};

use super::write::{ColumnPages, NOTE_SLOTS, WriteExtent};
use super::{PageVersions, RaidArray, advance};

impl RaidArray {
    /// Data of the rows is lost: reads what is needed to know all data of the rows as it will be.
    pub(super) fn read_degraded(
        &mut self,
        op: OpId,
        what: WriteExtent,
        versions: &mut dyn PageVersions,
        out: &mut Out,
    ) {
        let columns = self.columns(what.stripe, what.rows);
        let pages = what.rows.count as u16;
        let lost = self.data - columns.live;
        // A part of a page needs the rest of the page, so its column counts as unknown.
        let kept = if what.part.is_some() { ColumnSet::EMPTY } else { what.columns };
        let mut fresh = self.fresh(op, what);
        let mut old = fresh;
        let unknown = lost - kept;
        let wanted = if unknown.is_empty() { self.data - kept } else { self.data | self.equations(columns.live, lost) };
        let mut ready = StepSet::EMPTY;
        for column in (wanted & columns.live).iter() {
            old[column.index()] = out.tmp(op, pages);
            ready |= self.read_column(op, what, column, old[column.index()], StepSet::EMPTY, out);
        }
        if !unknown.is_empty() {
            // The computation needs buffers of its own: the host's pages must not be overwritten.
            lost.iter().for_each(|column| old[column.index()] = Buf::None);
            ready |= self.compute_lost(op, what.stripe, &mut old, lost, columns.live, pages, ready, out);
        }
        if let Some(sectors) = what.part {
            let column = what.only();
            let dst = out.tmp(op, 1);
            ready |= out.step(op, Step::Merge { old: old[column], new: fresh[column], sectors, dst }, ready);
            fresh[column] = dst;
        }
        for column in (self.data - what.columns).iter() {
            fresh[column.index()] = old[column.index()];
        }
        // The write stops here until all reads are done. A failed read has then changed nothing, and the
        // operation is planned anew.
        self.write_task(op).known = Some(Box::new(fresh));
        if ready.is_empty() {
            self.log_and_write(op, versions, out);
        } else {
            self.write_task(op).join = out.step_notify(op, Step::Join, ready);
        }
    }

    /// All data of the rows is known. What of it is lost is kept in the NVRAM while the rows may be
    /// torn; the parity is computed anew. Members may have been lost, or filled, since the data was
    /// read.
    pub(super) fn log_and_write(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        // The lost member may have been filled since the data was read: then nothing is logged here, and what was
        // logged of these rows before has to go first.
        if self.unlogging > 0 {
            return self.waiting.push(op);
        }
        let mut what = self.what(op);
        what.rows.count = self.write_task(op).batch;
        let columns = self.columns(what.stripe, what.rows);
        let targets = columns.live | columns.sink;
        let parity = self.parity() & targets;
        let lost = self.data - columns.live;
        let slots = (lost.len() * what.rows.count) as usize;
        // More members may have been lost since the slots were reserved, so that more pages must be logged.
        if !parity.is_empty() && self.own_slots() + self.write_task(op).reserved < slots + NOTE_SLOTS + self.reserved {
            self.reserve(op, 0);
            self.waiting.push(op);
            self.own_flush(out);
            return;
        }
        // From here on the write takes the slots themselves.
        self.reserve(op, 0);
        // All that was read, of wide rows with versions elsewhere, takes nearly as many steps as there are.
        out.renew(op);
        self.stats.degraded_writes += 1;
        self.begin_rows(op, what.rows);
        let fresh = *self.write_task(op).known.take().expect("the data was read");
        let mut ready = StepSet::EMPTY;
        if !parity.is_empty() {
            ready = self.log_lost(op, what, lost, &fresh, out);
            ready |= self.intent(op, what.rows, ready, out);
        }
        let after = if self.write_task(op).op == HostOp::Discard {
            let done = (targets & (what.columns | parity)).iter().fold(StepSet::EMPTY, |done, column| {
                done | self.write_column(op, what, column, Buf::Zero, true, ready, out)
            });
            self.after_writes(op, what, targets, true, done, out)
        } else {
            let pages = what.rows.count as u16;
            let (p, q, ready) = self.compute_parity(op, what.stripe, parity, &fresh, pages, ready, out);
            self.write_columns(op, what, targets, &fresh, p, q, ready, out)
        };
        let merged = if what.part.is_some() { fresh[what.only()] } else { Buf::None };
        self.finish_batch(op, what, after, merged, versions, out);
    }

    /// Puts the lost data pages of the rows, as they will be, into the NVRAM in place of those that
    /// they supersede; the step.
    fn log_lost(
        &mut self,
        op: OpId,
        what: WriteExtent,
        lost: ColumnSet,
        fresh: &ColumnPages,
        out: &mut Out,
    ) -> StepSet {
        let (mut puts, superseded) = (Vec::new(), self.write_task(op).freed.len());
        for column in lost.iter() {
            let dev = self.dev(what.stripe, column);
            for (index, row) in what.rows.iter().enumerate() {
                // The logged page is still right: this write does not change it.
                if !what.columns.contains(column) && self.log.get(row, dev).is_some() {
                    continue;
                }
                let slot = self.slots.alloc().expect("the caller has counted the slots");
                let (superseded, tag) = self.log.put(row, dev, slot);
                let src = advance(fresh[column.index()], index as u16);
                puts.push(NvPut::page(slot, tag, src, out.page_bytes()));
                self.write_task(op).freed.extend(superseded);
            }
        }
        if puts.is_empty() {
            return StepSet::EMPTY;
        }
        // One commit holds puts and frees, so that a crash leaves the old page or the new one.
        let puts = out.puts(op, &puts);
        let frees = out.slots(op, &self.write_task(op).freed[superseded..]);
        out.step(op, Step::NvCommit { puts, frees }, StepSet::EMPTY)
    }
}
