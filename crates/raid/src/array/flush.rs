//! Making writes durable, and clearing the intents of rows that have become consistent on stable
//! storage.
//!
//! A *round* flushes every member that was written since the last one. One round is under way at a
//! time, and whoever asks meanwhile shares the next one: so a round has nothing to make durable but
//! what was done before it began, and what came before it is durable already.

use destage_plan::{Class, FragId, NvSlot, OpId, Out, PutList, Row, Rows, Step, StepSet};

use super::{ArrayTask, PageVersions, RaidArray};

/// A flush: the host's, or the array's own.
pub(super) struct FlushTask {
    frag: Option<FragId>,
}

impl FlushTask {
    pub(super) const fn new(frag: Option<FragId>) -> Self {
        Self { frag }
    }
}

/// The round that is under way, and the one that gathers.
#[derive(Default)]
pub(super) struct FlushRounds {
    /// Flushes that are opened and not granted yet.
    opened: u32,
    /// Those that the next round is for.
    gathered: Vec<OpId>,
    /// Those that the round under way is for, if one is; its steps are the first one's.
    round: Vec<OpId>,
    /// Numbers the round.
    generation: u64,
    /// Is true while the round makes everything durable that was acknowledged.
    ok: bool,
    /// Tells which intents are cleared when it is done.
    clearance: IntentClearance,
    /// Numbers the first flush that began after the timer went off last.
    timer_generation: u64,
}

/// Tells which of the intents that can be cleared are.
#[derive(Clone, Copy, Default)]
enum IntentClearance {
    /// Clears as many as keeps writes from waiting for room.
    #[default]
    Crowded,
    /// Clears those of rows that were not written since the flush of this generation began.
    Before(u64),
    /// Clears all.
    All,
}

impl FlushRounds {
    /// Is true if a flush is requested that is not done.
    pub(super) const fn is_under_way(&self) -> bool {
        self.opened > 0 || !self.gathered.is_empty() || !self.round.is_empty()
    }

    pub(super) const fn opens(&mut self) {
        self.opened += 1;
    }
}

impl RaidArray {
    /// Flushes, unless a flush is under way already; what that leaves comes to the same question
    /// when it is done.
    pub(super) fn own_flush(&mut self, out: &mut Out) {
        if self.intents.has_idle() && !self.flushes.is_under_way() {
            self.open_flush(None, out);
        }
    }

    /// Sees to it that rows with an open intent are flushed if nothing else flushes them.
    pub(super) fn flush_when_idle(&mut self, out: &mut Out) {
        if !self.idle_timer {
            self.idle_timer = true;
            // The timer bounds the time for which an idle array has open intents, and so the work of an
            // unclean start.
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
        if !self.flushes.is_under_way() && self.clearing == 0 {
            self.wake(out);
        }
    }

    pub(super) fn plan_flush(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        // A flush that comes during a round joins the next one: the current one may have begun before the
        // newest writes ended.
        if self.flushes.round.first() != Some(&op) {
            self.flushes.opened -= 1;
            self.flushes.gathered.push(op);
            return self.begin_round(versions, out);
        }
        // A device was lost meanwhile: the round goes on when that is noted.
        if !self.members.persisted() || !versions.may_flush() {
            self.waiting.push(op);
        } else if self.members.broken() {
            self.flushes.ok = false;
            // The answer is an error, since acknowledged writes may be lost.
            out.restart(op);
            self.answer_flush(op, StepSet::EMPTY, out);
        } else {
            out.forgive(op);
        }
    }

    /// Begins a round for the flushes that have gathered, unless one is under way.
    pub(super) fn begin_round(&mut self, versions: &mut dyn PageVersions, out: &mut Out) {
        let flushes = &mut self.flushes;
        if !flushes.round.is_empty() || !self.members.persisted() {
            return;
        }
        if flushes.gathered.is_empty() || !versions.may_flush() {
            return;
        }
        let Some(&op) = flushes.gathered.first() else { return };
        std::mem::swap(&mut flushes.gathered, &mut flushes.round);
        (flushes.generation, flushes.ok) = (self.intents.flush_begins(), !self.members.broken());
        // The cache's device takes part in the round: what a flush promises may be there alone.
        self.dirty |= versions.unflushed();
        // Members written from now on belong to the next round.
        let devs = std::mem::take(&mut self.dirty) - self.members.lost();
        let done =
            devs.iter().fold(StepSet::EMPTY, |done, dev| done | out.step(op, Step::FlushDev { dev }, StepSet::EMPTY));
        self.stats.flushes += 1;
        self.answer_flush(op, done, out);
    }

    /// Acknowledges a flush after these steps, if it is the host's, and closes.
    fn answer_flush(&mut self, op: OpId, after: StepSet, out: &mut Out) {
        let Some(&mut ArrayTask::Flush(FlushTask { frag })) = self.task(op) else {
            unreachable!("the operation is a flush")
        };
        if let Some(frag) = frag {
            out.step(op, Step::Ack { frag, pages: 1, ok: self.flushes.ok }, after);
        }
        out.close(op);
    }

    pub(super) fn flush_done(&mut self, op: OpId, versions: &mut dyn PageVersions, out: &mut Out) {
        self.window_flushed(op, out);
        self.scrub_flushed(op, out);
        if self.flushes.round.first() == Some(&op) {
            self.round_done(versions, out);
        }
    }

    fn round_done(&mut self, versions: &mut dyn PageVersions, out: &mut Out) {
        let mut round = std::mem::take(&mut self.flushes.round);
        // The first operation of the round had the steps; the others only wait for them.
        for op in round.drain(..).skip(1) {
            self.answer_flush(op, StepSet::EMPTY, out);
        }
        self.flushes.round = round;
        // The user hears of it first: whether it still holds a row's intent may depend on the flush.
        versions.flushed(self.flushes.ok);
        self.intents.flushed(self.flushes.generation, |row| versions.holds(row));
        self.begin_round(versions, out);
        let rows = self.rows_to_clear();
        if rows.is_empty() {
            self.cleared(out);
        } else {
            let clear = out.open(Class::Internal, None, None);
            self.set_task(clear, ArrayTask::Clear { rows, slots: Vec::new() });
            self.clearing += 1;
        }
    }

    /// Returns the rows whose intent is not kept any longer. All that can be cleared are when the array
    /// stops or has just started, or has lost a member: an open intent is then all that a
    /// start would be refused over. Else half of what may be open is kept, so that rows that are
    /// written and flushed again and again find theirs set, and no write waits for room.
    fn rows_to_clear(&mut self) -> Vec<Rows> {
        let most = self.config.max_open_rows;
        let clearance = std::mem::take(&mut self.flushes.clearance);
        // With a member lost, open intents are all that a start would be refused over, so none stays open.
        let safe = self.members.not_live().is_empty() && self.repairs == 0 && self.exposed.is_empty();
        let mut rows = Vec::new();
        let all = matches!(clearance, IntentClearance::All) || self.cleaning || !self.ready || !safe;
        if all {
            self.intents.clear(0, &mut rows);
            return rows;
        }
        // Clearing begins at three quarters, so that writes seldom wait; half remain for rows that are
        // written again.
        if self.intents.len() >= most - most / 4 {
            self.intents.clear(most / 2, &mut rows);
        }
        if let IntentClearance::Before(generation) = clearance {
            self.intents.clear_before(generation, &mut rows);
        }
        rows
    }

    /// Clears, as the timer has gone off, the intents of rows that were not written since it did the last time, as md's bitmap does:
    /// an intent that is needed again and again would be set anew each time.
    pub(super) fn timer_went_off(&mut self, out: &mut Out) {
        self.idle_timer = false;
        if self.intents.has_idle() && !matches!(self.flushes.clearance, IntentClearance::All) {
            self.flushes.clearance = IntentClearance::Before(self.flushes.timer_generation);
        }
        // An intent is cleared only if its row was left alone between two timers, so rows in use keep
        // theirs.
        self.flushes.timer_generation = self.intents.next_generation();
        self.own_flush(out);
    }

    /// Leaves no intent open that can be cleared, since somebody waits for that.
    pub(super) fn clear_intents(&mut self, out: &mut Out) {
        self.clear_all_idle();
        self.own_flush(out);
    }

    fn clear_all_idle(&mut self) {
        if self.intents.has_idle() {
            self.flushes.clearance = IntentClearance::All;
        }
    }

    /// Clears intents, then frees what was logged of the rows: an open intent must find its log. Both are issued
    /// at once, since the NVRAM does things in order: an intent that is set anew must not find what was logged
    /// before, which a member that has been filled meanwhile may have a newer version of.
    pub(super) fn plan_clear(&mut self, op: OpId, out: &mut Out) {
        let Some(ArrayTask::Clear { rows, .. }) = self.task(op) else { unreachable!("the operation clears intents") };
        let rows = std::mem::take(rows);
        // Rows that were begun again meanwhile have issued their intent already, and this would
        // take it away.
        let rows = self.still_closed(rows);
        let list = out.rows(op, &rows);
        out.step(op, Step::Intent { rows: list, set: false }, StepSet::EMPTY);
        let mut slots = Vec::new();
        for rows in &rows {
            self.log.forget(*rows, self.config.geometry.members(), &mut slots);
        }
        if !slots.is_empty() {
            let frees = out.slots(op, &slots);
            out.step(op, Step::NvCommit { puts: PutList::EMPTY, frees }, StepSet::EMPTY);
        }
        if let Some(ArrayTask::Clear { slots: kept, .. }) = self.task(op) {
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
        if self.intents.has_idle() {
            self.flush_when_idle(out);
        }
        self.rebuild_more(out);
    }

    /// The intent of a row that was [held](PageVersions::holds) need not stay for the sake of what stands
    /// above: it is cleared after the next flush.
    pub fn let_go(&mut self, row: Row, out: &mut Out) {
        self.intents.let_go(row);
        if self.ready && self.exposed.is_empty() {
            self.flush_when_idle(out);
        } else {
            self.hurry_flush(out);
        }
    }

    /// Flushes rows that were let go as soon as can be: recovery waits for that, or a member's loss exposes them.
    #[cold]
    fn hurry_flush(&mut self, out: &mut Out) {
        if !self.ready {
            self.own_flush(out);
        }
        self.flush_exposed(out);
        self.flush_when_idle(out);
    }

    /// As [`let_go`](Self::let_go), of all rows.
    pub fn let_all_go(&mut self, out: &mut Out) {
        let rows: Vec<Row> = self.intents.rows().collect();
        for row in rows {
            self.let_go(row, out);
        }
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

    /// Flushes all members, and leaves no intent open that can be cleared.
    pub(super) fn settle(&mut self, out: &mut Out) {
        self.clear_all_idle();
        // One that has failed without being asked for anything is found before another is taken out.
        self.dirty |= self.config.geometry.member_set();
        // A flush that is under way may have begun before it failed.
        if self.flushes.gathered.is_empty() {
            self.open_flush(None, out);
        }
    }

    /// Says that the array is clean, if that was ordered and is so. What stands above has it looked at after
    /// every event, when it has done what is due.
    pub fn try_clean(&mut self, versions: &dyn PageVersions, out: &mut Out) {
        // Each of these can still write to members or open intents.
        if !self.cleaning || !self.ready || self.clearing > 0 || self.repairs > 0 || self.is_scrubbing() {
            return;
        }
        if self.flushes.is_under_way() {
            return;
        }
        if self.intents.is_at_rest() && self.dirty.is_empty() && versions.is_clean() {
            self.cleaning = false;
            out.clean();
        } else if self.intents.has_idle() || !self.dirty.is_empty() {
            self.open_flush(None, out);
        }
    }
}
