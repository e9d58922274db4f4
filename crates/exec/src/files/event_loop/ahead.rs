//! Commits of the NVRAM that are done and not durable, where not every acknowledged write is to be durable.
//!
//! A commit is done when its record is written, so that the end of the process alone costs none. It is durable before
//! anything that was begun since can be: a step that changes a device or makes it durable waits for a sync if it was
//! issued after a commit that is not covered by one, and so does what intents say, which steps are the store's anyway;
//! reads do not. The same sync is waited for by the answer of a flush and of a write with FUA, by a clean stop, and by
//! the name of a file that took a device's place. So whatever is left after a loss of power is what could be left if
//! commits that are not durable had not ended yet, but for what hosts were told that is not covered.
//!
//! One sync covers all that was done before it ends, for whomever. If nobody waits there is one after a while. A flush
//! waits for what was done when an answer was given last: no host can know of more. Where a flush has followed each write
//! for some time the sync begins with the answer of the write, and not when the flush comes. And where a step of a device
//! has waited for each commit for some time, commits are synced as they are written: to wait gathers nothing there.

use std::collections::VecDeque;

use destage_plan::{Condition, Controller, Dev, HostOp, Issue, Nanos, Step};

use super::executor::{Completion, Files, Request};
use crate::files::error::FilesError;
use crate::files::io::backend::Backend;
use crate::files::io::device::Serves;
use crate::files::io::file::SyncPoint;
use crate::files::nvram::store::{Change, Command};

/// After so much time what was done is made durable though nobody waits for it.
const LONGEST: Nanos = Nanos(1_000_000_000);

/// So many flushes that followed a write each, in a row, have one expected after the next write.
const HABIT: u32 = 4;

/// So many syncs that steps waited for and that covered a single commit each, in a row, have commits synced at once.
const ALONE: u32 = 8;
/// So many are. Then a few are not, to see whether more of them gather by now.
const AT_ONCE: u32 = 64;

/// What is done, what is durable, and who waits for that.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Commits that are done.
    done: u64,
    /// Of these the first are durable.
    durable: u64,
    /// Those that were done when an answer was given last.
    told: u64,
    /// Writes that were answered since the last flush.
    unflushed: u32,
    /// Flushes in a row that followed a single write each.
    habit: u32,
    /// A step waits for a sync.
    holds: bool,
    /// Syncs in a row that steps waited for and that covered a single commit each.
    alone: u32,
    /// So many commits more are synced at once.
    at_once: u32,
    /// A sync is wanted.
    wanted: Option<SyncPoint>,
    /// One is under way.
    under_way: bool,
    /// How the array was when that was looked at last.
    condition: Condition,
    /// When the first commit was done that is not durable.
    since: Option<Nanos>,
    /// Answers, with the commits done when they were due.
    answers: VecDeque<(u64, Completion)>,
    /// A clean stop, likewise.
    clean: Option<u64>,
}

impl Ahead {
    /// A commit is done, and not durable.
    pub(super) fn commit(&mut self, now: Nanos) {
        self.done += 1;
        self.since.get_or_insert(now);
    }

    /// Whether there are commits that are not durable.
    pub(super) const fn is_open(&self) -> bool {
        self.done > self.durable
    }

    /// All that is done by now is to be durable; what waits for it, by number.
    pub(super) fn wait(&mut self, at: SyncPoint) -> u64 {
        self.wanted.get_or_insert(at);
        self.done
    }

    /// Whether the next commit is to be durable when it is done.
    pub(super) fn commits_at_once(&mut self) -> bool {
        let left = self.at_once;
        self.at_once = left.saturating_sub(1);
        left > 0
    }

    /// The sync has ended.
    pub(super) fn synced(&mut self) {
        self.under_way = false;
        if std::mem::take(&mut self.holds) && self.is_open() {
            self.alone = if self.done - self.durable == 1 { self.alone + 1 } else { 0 };
            if self.alone >= ALONE {
                (self.alone, self.at_once) = (ALONE - 2, AT_ONCE);
            }
        }
    }

    /// An answer is given: of a write, which a flush may follow, or of anything else.
    fn tells(&mut self, is_write: bool) {
        self.told = self.done;
        if is_write {
            self.unflushed = self.unflushed.saturating_add(1);
            if self.unflushed > 1 {
                self.habit = 0;
            } else if self.habit >= HABIT && self.is_open() {
                self.wait(SyncPoint::Ahead);
            }
        }
    }

    /// A flush is to be answered.
    fn flushes(&mut self) {
        if self.unflushed > 0 {
            self.habit = if self.unflushed == 1 { self.habit.saturating_add(1) } else { 0 };
            self.unflushed = 0;
        }
    }

    /// When a sync is due for which nobody waits.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.since.filter(|_| self.wanted.is_none() && !self.under_way).map(|since| since + LONGEST)
    }

    /// The clean stop is reached when all that is done is durable.
    pub(super) fn stop(&mut self) {
        self.clean = Some(self.wait(SyncPoint::Answer));
    }
}

/// Whether a step has an effect that a loss of power leaves.
const fn lasts(step: &Step) -> bool {
    !matches!(step, Step::Read { .. } | Step::MetaRead { .. })
}

impl<C: Controller> Files<C> {
    /// Whether all that the controller was told to be done of the NVRAM is durable. If it is not, it will be soon after a
    /// member's loss or filling was noted, and a second later at the latest.
    pub const fn is_durable(&self) -> bool {
        !self.ahead.is_open()
    }

    /// Has a step wait if commits that were done before it was issued are not durable; whether it does.
    pub(super) fn holds_back(&mut self, dev: Dev, issue: Issue) -> bool {
        let waits = self.ahead.is_open() && lasts(self.engine.step(issue));
        if waits {
            self.ahead.holds = true;
            let until = self.ahead.wait(SyncPoint::Ahead);
            self.devices[dev.index()].held.push_back((until, issue));
        }
        waits
    }

    /// Answers a request, at once or when what it tells of is durable.
    pub(super) fn tell(&mut self, request: &Request, completion: Completion) {
        let ahead = &mut self.ahead;
        let until = match request.op {
            HostOp::Flush => {
                ahead.flushes();
                // Answers stay in order, too.
                ahead.answers.back().map_or(ahead.told, |answer| answer.0.max(ahead.told))
            }
            HostOp::Read => 0,
            _ if request.fua => ahead.done,
            _ => 0,
        };
        if until > ahead.durable && completion.ok {
            ahead.wait(SyncPoint::Answer);
            ahead.answers.push_back((until, completion));
        } else {
            ahead.tells(!matches!(request.op, HostOp::Read | HostOp::Flush));
            self.unanswered -= 1;
            self.completions.push_back(completion);
        }
    }

    /// Gives the store the sync that is wanted, or that is due.
    pub(super) fn send_sync(&mut self) {
        let condition = self.engine.controller().condition();
        if self.ahead.condition != condition {
            self.ahead.condition = condition;
            if self.ahead.is_open() {
                // Who is told that a member is filled may take away another.
                self.ahead.wait(SyncPoint::Ahead);
            }
        }
        if self.ahead.due().is_some_and(|due| due <= self.now()) {
            self.ahead.wait(SyncPoint::Ahead);
        }
        if self.ahead.under_way || !self.store.has_room() {
            return;
        }
        if let Some(at) = self.ahead.wanted.take() {
            self.ahead.under_way = true;
            let (lists, bytes) = (self.spare_lists.pop().unwrap_or_default(), self.bytes.lend(0));
            self.store.send(Command { issue: None, change: Change::Sync(at), bytes, lists, is_covered: false });
        }
    }

    /// All commits that are told as done are durable: what waits for that goes on.
    pub(super) fn covered(&mut self) -> Result<(), FilesError> {
        let ahead = &mut self.ahead;
        (ahead.durable, ahead.wanted, ahead.since) = (ahead.done, None, None);
        let durable = ahead.durable;
        while let Some((_, completion)) = self.ahead.answers.pop_front_if(|answer| answer.0 <= durable) {
            self.ahead.told = self.ahead.done;
            self.unanswered -= 1;
            self.completions.push_back(completion);
        }
        if self.ahead.clean.take_if(|until| *until <= durable).is_some() {
            self.clean = true;
        }
        for dev in (0..self.devices.len()).map(|dev| Dev(dev as u8)) {
            while let Some((_, issue)) = self.devices[dev.index()].held.pop_front_if(|held| held.0 <= durable) {
                self.begin_held(dev, issue);
            }
        }
        self.go_on()
    }

    /// A step of a device that answers, for which nothing has to be made durable any more, begins or waits for room.
    pub(super) fn begin_held(&mut self, dev: Dev, issue: Issue) {
        if self.devices[dev.index()].lane.as_ref().is_some_and(Serves::has_room) {
            self.send_device(dev, issue);
        } else {
            self.devices[dev.index()].backlog.push_back(issue);
        }
    }

    /// When something is due by time alone.
    pub(super) fn next_timer(&self) -> Option<Nanos> {
        self.engine.next_timer().into_iter().chain(self.ahead.due()).min()
    }
}
