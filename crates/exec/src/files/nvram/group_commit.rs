//! Commits of the NVRAM that are done and not durable, where not every acknowledged write is to be durable.
//!
//! A commit is done when its record is written, so that the end of the process alone costs none. It is durable before
//! anything that was begun since can be: a step that changes a device or makes it durable waits for a sync if it was
//! issued after a commit that is not covered by one, and so does what intents say, which steps are the store's anyway;
//! reads do not. The same sync is waited for by the answer of a flush and of a write with FUA, by a clean stop, and by
//! the name of a file that took a device's place. So whatever is left after a loss of power is what could be left if
//! commits that are not durable had not ended yet, but for what hosts were told that is not covered.
//!
//! Every answer, also of a read, waits until the commits of the start are durable. A device that the start missed may be
//! back after a power failure, and must not contradict what was answered without it.
//!
//! One sync covers all that was done before it ends, for whomever. If nobody waits there is one after a while. A flush
//! waits for what was done when an answer was given last: no host can know of more. Where a flush has followed each write
//! for some time the sync begins with the answer of the write, and not when the flush comes. And where a step of a device
//! has waited for each commit for some time, commits are synced as they are written: to wait gathers nothing there.

use destage_plan::{Condition, Nanos};

use crate::files::io::file::SyncPoint;

/// After so much time what was done is made durable though nobody waits for it.
// An array that is left alone is durable after a second.
const LONGEST: Nanos = Nanos(1_000_000_000);

/// So many flushes that followed a write each, in a row, have one expected after the next write.
// After four such pairs a flush is taken to follow, and its sync begins with the
// write's answer.
const HABIT: u32 = 4;

/// So many syncs that steps waited for and that covered a single commit each, in a row, have commits synced at once.
// Waiting for others gathers nothing if eight syncs in a row covered one commit
// each.
const ALONE: u32 = 8;
/// So many are. Then a few are not, to see whether more of them gather by now.
const AT_ONCE: u32 = 64;

/// Tracks what is done, what is durable, and when a sync is due.
#[derive(Debug, Default)]
pub(crate) struct GroupCommit {
    /// Commits that are done.
    done: u64,
    /// Of these the first are durable.
    durable: u64,
    /// Those that were done when an answer was given last.
    acknowledged: u64,
    /// Counts the commits that were done when the controller became ready.
    of_start: Option<u64>,
    /// Writes that were answered since the last flush.
    unflushed: u32,
    /// Flushes in a row that followed a single write each.
    habit: u32,
    /// A step waits for a sync.
    is_step_blocked: bool,
    /// Syncs in a row that steps waited for and that covered a single commit each.
    alone: u32,
    /// So many commits more are synced at once.
    at_once: u32,
    /// A sync is wanted.
    wanted: Option<SyncPoint>,
    /// One is under way.
    is_syncing: bool,
    /// Holds the condition of the array when it was looked at last.
    condition: Condition,
    /// Is the time at which the first commit was done that is not durable.
    since: Option<Nanos>,
    /// A clean stop, with the commits done when it was due.
    clean: Option<u64>,
}

impl GroupCommit {
    /// A commit is done, and not durable.
    pub(crate) fn commit(&mut self, now: Nanos) {
        self.done += 1;
        self.since.get_or_insert(now);
    }

    /// Returns true if there are commits that are not durable.
    pub(crate) const fn is_open(&self) -> bool {
        self.done > self.durable
    }

    /// All that is done by now is to be durable; what waits for it, by number.
    pub(crate) fn want_sync(&mut self, at: SyncPoint) -> u64 {
        // The first wish names the sync point, so the recording can tell what the
        // sync was for.
        self.wanted.get_or_insert(at);
        self.done
    }

    /// Returns true if the next commit is to be durable when it is done.
    pub(crate) fn commits_at_once(&mut self) -> bool {
        let left = self.at_once;
        // Counted down, so that batching is tried again after a while.
        self.at_once = left.saturating_sub(1);
        left > 0
    }

    /// The sync has ended.
    pub(crate) fn synced(&mut self) {
        self.is_syncing = false;
        // Only syncs that a step waited for count: others would have come anyway.
        if std::mem::take(&mut self.is_step_blocked) && self.is_open() {
            self.alone = if self.done - self.durable == 1 { self.alone + 1 } else { 0 };
            if self.alone >= ALONE {
                // Two more alone are enough next time, so the habit is re-learned
                // soon.
                (self.alone, self.at_once) = (ALONE - 2, AT_ONCE);
            }
        }
    }

    /// A step waits for all that is done by now to be durable; what it waits for, by number.
    pub(crate) fn block_step(&mut self) -> u64 {
        self.is_step_blocked = true;
        self.want_sync(SyncPoint::Ahead)
    }

    /// An answer that waited is given.
    pub(crate) const fn acknowledge_blocked(&mut self) {
        // What was done until now is what a host may have been told; a flush covers
        // exactly this.
        self.acknowledged = self.done;
    }

    /// An answer is given: of a write, which a flush may follow, or of anything else.
    pub(crate) fn acknowledge(&mut self, is_write: bool) {
        self.acknowledged = self.done;
        if is_write {
            self.unflushed = self.unflushed.saturating_add(1);
            // Several writes before a flush would share its sync, so nothing is
            // begun for one of them.
            if self.unflushed > 1 {
                self.habit = 0;
            } else if self.habit >= HABIT && self.is_open() {
                self.want_sync(SyncPoint::Ahead);
            }
        }
    }

    /// A flush is to be answered; what its answer waits for, by number. `last` is what the last answer waits for that was
    /// not given: answers stay in order, too.
    pub(crate) fn flush(&mut self, last: Option<u64>) -> u64 {
        if self.unflushed > 0 {
            self.habit = if self.unflushed == 1 { self.habit.saturating_add(1) } else { 0 };
            self.unflushed = 0;
        }
        // A flush does not wait for commits that no answer relied on, such as those
        // of a cache on its own.
        last.map_or(self.acknowledged, |last| last.max(self.acknowledged))
    }

    /// Records the commits of the start: the controller is ready.
    pub(crate) fn ready(&mut self) {
        // Only the first time counts: a controller becomes ready once in a life.
        self.of_start.get_or_insert(self.done);
    }

    /// Returns how many commits must be durable before anything is answered: those of the start.
    pub(crate) fn of_start(&self) -> u64 {
        // Before the controller is ready every commit is one of the start.
        self.of_start.unwrap_or(self.done)
    }

    /// Commits that are done.
    pub(crate) const fn done(&self) -> u64 {
        self.done
    }

    /// Returns true if so many commits are durable.
    pub(crate) const fn is_durable(&self, until: u64) -> bool {
        until <= self.durable
    }

    /// This is how the array is, as its controller has it.
    pub(crate) fn note(&mut self, condition: Condition) {
        if self.condition != condition {
            self.condition = condition;
            if self.is_open() {
                // Who is told that a member is filled may take away another.
                self.want_sync(SyncPoint::Ahead);
            }
        }
    }

    /// Begins the sync that is wanted, if none is under way.
    pub(crate) const fn begin_sync(&mut self) -> Option<SyncPoint> {
        // One sync at a time covers all that was done before it ended.
        if self.is_syncing {
            return None;
        }
        let wanted = self.wanted.take();
        self.is_syncing = wanted.is_some();
        wanted
    }

    /// All commits that are done are durable; how many they are.
    pub(crate) const fn all_durable(&mut self) -> u64 {
        (self.durable, self.wanted, self.since) = (self.done, None, None);
        self.durable
    }

    /// Returns true once when the clean stop is reached.
    pub(crate) fn take_clean(&mut self) -> bool {
        self.clean.take_if(|until| *until <= self.durable).is_some()
    }

    /// Returns the time at which a sync is due for which nobody waits.
    pub(crate) fn due(&self) -> Option<Nanos> {
        // With a sync wanted or in flight the time is decided already.
        self.since.filter(|_| self.wanted.is_none() && !self.is_syncing).map(|since| since + LONGEST)
    }

    /// The clean stop is reached when all that is done is durable.
    pub(crate) fn stop(&mut self) {
        self.clean = Some(self.want_sync(SyncPoint::Answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has a step wait for so many commits, again and again. Returns how many of the rounds had one of them synced at once.
    fn rounds_at_once(rounds: u32, commits: u64) -> u32 {
        let mut group = GroupCommit::default();
        let mut at_once = 0;
        for _ in 0..rounds {
            let is_at_once = (0..commits).fold(false, |any, _| {
                group.commit(Nanos(0));
                group.commits_at_once() || any
            });
            if is_at_once {
                at_once += 1;
                group.all_durable();
                continue;
            }
            group.block_step();
            assert_eq!(group.begin_sync(), Some(SyncPoint::Ahead));
            group.synced();
            group.all_durable();
        }
        at_once
    }

    #[test]
    fn commits_that_steps_wait_for_one_by_one_are_synced_at_once() {
        assert_eq!(rounds_at_once(ALONE, 1), 0);
        assert_eq!(rounds_at_once(20, 1), 20 - ALONE, "of the last commits each");
        // Then it is looked at again whether more of them gather.
        let again = rounds_at_once(ALONE + AT_ONCE + 10, 1);
        assert!((AT_ONCE..AT_ONCE + 10).contains(&again), "{again}");
        assert_eq!(rounds_at_once(200, 2), 0, "these gather");
    }
}
