//! Making writes durable, and clearing the intents of rows that have become consistent on stable
//! storage.

use destage_plan::{Class, DevSet, FragId, NvSlot, OpId, Out, PutList, Row, Rows, Step, StepSet};

use super::{Array, Task, Versions};

/// A flush: the host's, or the array's own.
pub(super) struct FlushTask {
    frag: Option<FragId>,
    generation: u64,
    planned: bool,
}

impl FlushTask {
    pub(super) const fn new(frag: Option<FragId>) -> Self {
        Self { frag, generation: 0, planned: false }
    }
}

impl Array {
    /// Flushes, unless a flush is under way already; what that leaves comes to the same question
    /// when it is done.
    pub(super) fn own_flush(&mut self, out: &mut Out) {
        if self.intents.ended() > 0 && self.flushing.is_empty() && self.flushes_opened == 0 {
            self.open_flush(None, out);
        }
    }

    /// Sees to it that rows with an open intent are flushed if nothing else flushes them.
    pub(super) fn flush_when_idle(&mut self, out: &mut Out) {
        if !self.idle_timer {
            self.idle_timer = true;
            let at = out.now() + self.config.idle_flush;
            out.timer(super::IDLE_TIMER, at);
        }
    }

    /// A write has ended. Those that wait for slots or for fewer open intents go on after a flush,
    /// all together, rather than being asked after every write; at once only if there is nothing to
    /// flush.
    pub(super) fn let_waiting_go_on(&mut self, out: &mut Out) {
        if self.waiting.is_empty() {
            return;
        }
        self.own_flush(out);
        if self.flushing.is_empty() && self.flushes_opened == 0 && self.clearing == 0 {
            self.wake(out);
        }
    }

    pub(super) fn plan_flush(&mut self, op: OpId, versions: &mut dyn Versions, out: &mut Out) {
        if !self.members.persisted() {
            self.waiting.push(op);
            return;
        }
        let broken = self.members.broken();
        let Some(Task::Flush(task)) = self.tasks[op.index()].as_mut() else { unreachable!("the operation is a flush") };
        let frag = task.frag;
        if task.planned {
            // A member was lost meanwhile, and that is noted.
            if !broken {
                return out.forgive(op);
            }
            out.restart(op);
            if let Some(frag) = frag {
                out.step(op, Step::Ack { frag, pages: 1, ok: false }, StepSet::EMPTY);
            }
            return out.close(op);
        }
        self.dirty |= versions.unflushed();
        // What a flush in flight was to make durable is not durable yet, and this one may be done
        // before it.
        let devs = self.flushing.iter().fold(self.dirty, |devs, flushing| devs | flushing.1) - self.members.lost();
        self.dirty = DevSet::EMPTY;
        self.flushes_opened -= 1;
        self.flushing.push((op, devs));
        (task.generation, task.planned) = (self.intents.flush_begins(), true);
        let mut done = StepSet::EMPTY;
        for dev in devs.iter() {
            done |= out.step(op, Step::FlushDev { dev }, StepSet::EMPTY);
        }
        if let Some(frag) = frag {
            out.step(op, Step::Ack { frag, pages: 1, ok: !broken }, done);
        }
        self.stats.flushes += 1;
        out.close(op);
    }

    pub(super) fn flush_done(&mut self, op: OpId, task: &FlushTask, versions: &mut dyn Versions, out: &mut Out) {
        self.flushing.retain(|flushing| flushing.0 != op);
        let mut rows = Vec::new();
        self.intents.flushed(task.generation, |row| versions.holds(row), &mut rows);
        self.window_flushed(op, out);
        if rows.is_empty() {
            self.cleared(out);
        } else {
            let clear = out.open(Class::Internal, None, None);
            self.set_task(clear, Task::Clear { rows, slots: Vec::new() });
            self.clearing += 1;
        }
    }

    /// Clears intents, then frees what was logged of the rows: an open intent must find its log.
    pub(super) fn plan_clear(&mut self, op: OpId, out: &mut Out) {
        let Some(Task::Clear { rows, .. }) = self.task(op) else { unreachable!("the operation clears intents") };
        let rows = std::mem::take(rows);
        // Rows that were begun again meanwhile have issued their intent already, and this would
        // take it away.
        let rows = self.still_closed(rows);
        let list = out.rows(op, &rows);
        let clear = out.step(op, Step::Intent { rows: list, set: false }, StepSet::EMPTY);
        let mut slots = Vec::new();
        for rows in &rows {
            self.log.forget(*rows, self.config.geometry.members(), &mut slots);
        }
        if !slots.is_empty() {
            let frees = out.slots(op, &slots);
            out.step(op, Step::NvCommit { puts: PutList::EMPTY, frees }, clear);
        }
        if let Some(Task::Clear { slots: kept, .. }) = self.task(op) {
            *kept = slots;
        }
        out.close(op);
    }

    fn still_closed(&self, rows: Vec<Rows>) -> Vec<Rows> {
        if rows.iter().all(|rows| rows.iter().all(|row| !self.intents.contains(row))) {
            return rows;
        }
        let closed = rows.iter().flat_map(|rows| rows.iter()).filter(|row| !self.intents.contains(*row));
        closed.map(|row| Rows::new(row, 1)).collect()
    }

    pub(super) fn clear_done(&mut self, slots: Vec<NvSlot>, out: &mut Out) {
        self.clearing -= 1;
        for slot in slots {
            self.slots.free(slot);
        }
        self.cleared(out);
    }

    /// Intents are cleared, as far as a flush allowed.
    fn cleared(&mut self, out: &mut Out) {
        self.forget_exposed();
        self.flush_exposed(out);
        self.wake(out);
        // Rows that were written while the flush was under way: the timer may have gone off then.
        if self.intents.ended() > 0 {
            self.flush_when_idle(out);
        }
        self.rebuild_more(out);
    }

    /// The intent of a row that was [held](Versions::holds) need not stay for the sake of what stands
    /// above: it is cleared after the next flush.
    pub fn let_go(&mut self, row: Row, out: &mut Out) {
        self.intents.let_go(row);
        self.flush_when_idle(out);
    }

    /// Drops what is no longer exposed: rows whose intent is cleared, and rows of which nothing is
    /// lost that is not logged.
    pub(super) fn forget_exposed(&mut self) {
        // An intent that is being cleared is still open in the NVRAM, and what a row at work logs
        // may not be there yet.
        if self.clearing == 0 && !self.exposed.is_empty() {
            let mut exposed = std::mem::take(&mut self.exposed);
            exposed.retain(|row| self.intents.is_active(*row) || self.intents.contains(*row) && self.has_hole(*row));
            self.exposed = exposed;
        }
    }

    /// Flushes what is exposed as soon as nothing is at work on it.
    pub(super) fn flush_exposed(&mut self, out: &mut Out) {
        let intents = &self.intents;
        if !self.exposed.is_empty()
            && self.members.persisted()
            && self.exposed.iter().all(|row| !intents.is_active(*row))
        {
            self.own_flush(out);
        }
    }

    /// Says that the array is clean, if that was ordered and is so.
    pub(super) fn try_clean(&mut self, versions: &dyn Versions, out: &mut Out) {
        if !self.cleaning || !self.ready || self.clearing > 0 {
            return;
        }
        if !self.flushing.is_empty() || self.flushes_opened > 0 {
            return;
        }
        if self.intents.is_at_rest() && self.dirty.is_empty() && versions.is_clean() {
            self.cleaning = false;
            out.clean();
        } else if self.intents.ended() > 0 || !self.dirty.is_empty() {
            self.open_flush(None, out);
        }
    }
}
