//! Implements LAWC's synchroniser: all members write what was chosen for them at the same time, so that their
//! collections begin together (specs §8.5, §8.10).
//!
//! It is a [layer](crate::LayerPlace::Beside) beside a cache, since only the cache can take what it chose back
//! into its order. The cache chooses what goes next and reports its [`ReadyWrites`]. It does so after every
//! event that may have changed them, and when the time [is over](WriteSynchroniser::is_due). It writes when the
//! synchroniser [releases](WriteSynchroniser::releases) them. Strips of members and groups of all are alike to
//! it.

mod timeout;

use destage_plan::{DevSet, Event, Nanos, Out, ParamSpec, Params, SpecError, TimerId, TimerOwner, quantity};

use timeout::{ObservedCollections, SyncTimeout};

pub(crate) const TIMEOUT: ParamSpec = ParamSpec {
    name: "timeout",
    default: "10ms",
    values: "auto, a time from 0 to 1h",
    unit: "",
    help: "how long what is ready waits for the other members; auto: as long as their collections take of late, \
           10 ms before one was announced",
};

pub(crate) const TIMER: ParamSpec = ParamSpec {
    name: "timer",
    default: "ready",
    values: "ready, release",
    unit: "",
    help: "when the time begins: when the first is ready, or at each release",
};

pub(crate) const FULL: ParamSpec = ParamSpec {
    name: "full",
    default: "release",
    values: "release, wait",
    unit: "",
    help: "whether what is ready is written at once when writes wait for the room that it takes",
};

pub(crate) const EMPTY: ParamSpec = ParamSpec {
    name: "empty",
    default: "wait",
    values: "wait, skip",
    unit: "",
    help: "whether members are waited for that nothing is cached for",
};

/// Counts the entries of [`WriteSynchroniser::figures`].
pub(crate) const FIGURES: usize = 2;

/// Goes off when what is ready waits no longer.
const WAITED: TimerId = TimerId { owner: TimerOwner::Above, number: 0 };

/// Names the moment at which the timer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimerStart {
    /// Begins when the first is ready after a release.
    FirstReady,
    /// Begins at each release, as the pseudo-code has it.
    Release,
}

/// Lists, by members, what there is to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadyWrites {
    /// Holds the members to which the chosen writes would go.
    pub(crate) chosen: DevSet,
    /// Holds the members that are still being written to.
    pub(crate) busy: DevSet,
    /// Holds the members for which there is nothing, not even a write in flight.
    pub(crate) empty: DevSet,
    /// Holds the members whose chosen writes would make room that others wait for.
    pub(crate) short: DevSet,
}

/// Names the cause of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseCause {
    /// All are ready.
    Together,
    /// The time is up.
    Timeout,
    /// A full one keeps writes waiting.
    Full,
}

/// Decides when what is ready is written.
#[derive(Clone, Debug)]
pub struct WriteSynchroniser {
    members: DevSet,
    /// Is the time that ready writes wait for the other members.
    timeout: SyncTimeout,
    begins: TimerStart,
    /// Is true if ready writes do not wait when they keep others waiting.
    on_full: bool,
    /// Members that nothing is held for are waited for as well.
    empty_blocks: bool,
    /// Is the time at which the wait is over.
    deadline: Option<Nanos>,
    /// Is the time that the timer was set to.
    timer: Option<Nanos>,
    /// Times that a time began, and how long these were in all, in nanoseconds, if nothing else came first.
    waits: u64,
    timeout_sum: u64,
}

impl WriteSynchroniser {
    /// Of these members.
    pub(crate) fn new(members: DevSet, params: &Params) -> Result<Self, SpecError> {
        const HOUR: Nanos = Nanos(3_600_000_000_000);
        let timeout = match params.text(TIMEOUT.name) {
            "auto" => SyncTimeout::Observed(ObservedCollections::default()),
            text => {
                let timeout = quantity::time(text).ok().filter(|time| *time <= HOUR);
                SyncTimeout::Fixed(timeout.ok_or_else(|| params.refuse(TIMEOUT.name))?)
            }
        };
        let begins =
            params.choice(TIMER.name, &[("ready", TimerStart::FirstReady), ("release", TimerStart::Release)])?;
        // It would go off without end.
        if timeout.now() == Nanos::ZERO && begins == TimerStart::Release {
            return Err(params.refuse(TIMER.name));
        }
        let on_full = params.choice(FULL.name, &[("release", true), ("wait", false)])?;
        let empty_blocks = params.choice(EMPTY.name, &[("wait", true), ("skip", false)])?;
        Ok(Self::of(members, timeout, begins, on_full, empty_blocks))
    }

    const fn of(members: DevSet, timeout: SyncTimeout, begins: TimerStart, on_full: bool, empty_blocks: bool) -> Self {
        let (deadline, timer) = (None, None);
        Self { members, timeout, begins, on_full, empty_blocks, deadline, timer, waits: 0, timeout_sum: 0 }
    }

    /// Returns the values of the layer's figures, in their order.
    pub(crate) const fn figures(&self) -> [u64; FIGURES] {
        [self.waits, self.timeout_sum]
    }

    /// Something happened to a device, or it announces something.
    pub(crate) fn event(&mut self, now: Nanos, event: &Event<'_>) {
        self.timeout.event(now, event);
    }

    /// Returns true if the awaited time is over.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.timer.is_some_and(|at| at <= now)
    }

    /// Returns the cause if everything chosen is written now. It is asked after every event that may change the
    /// answer, and sets the first timer above the array.
    pub(crate) fn releases(&mut self, ready: &ReadyWrites, out: &mut Out) -> Option<ReleaseCause> {
        let release = self.decide(out.now(), ready);
        // The timer is touched only if the deadline changes, so most events cost
        // nothing.
        if self.deadline != self.timer {
            self.timer = self.deadline;
            match self.timer {
                Some(at) => {
                    self.waits += 1;
                    self.timeout_sum += at.0 - out.now().0;
                    out.timer(WAITED, at);
                }
                None => out.cancel(WAITED),
            }
        }
        release
    }

    fn decide(&mut self, now: Nanos, ready: &ReadyWrites) -> Option<ReleaseCause> {
        if self.begins == TimerStart::Release && self.deadline.is_none() {
            self.deadline = Some(now + self.timeout.now());
        }
        if ready.chosen.is_empty() {
            if self.begins == TimerStart::Release && self.deadline.is_some_and(|deadline| deadline <= now) {
                // There is nothing to write: the next period begins.
                self.deadline = Some(now + self.timeout.now());
            }
            return None;
        }
        // The first that is ready starts the time: the paper's members wait from
        // the acknowledgement on (specs §8.10.20).
        let due = *self.deadline.get_or_insert(now + self.timeout.now());
        let skipped = if self.empty_blocks { DevSet::EMPTY } else { ready.empty };
        // A member that is still writing does not count as ready: its collection
        // belongs to the round before.
        let why = if (self.members - (ready.chosen - ready.busy) - skipped).is_empty() {
            ReleaseCause::Together
        } else if due <= now {
            ReleaseCause::Timeout
        } else if self.on_full && ready.chosen.meets(ready.short) {
            ReleaseCause::Full
        } else {
            return None;
        };
        self.deadline = match self.begins {
            TimerStart::FirstReady => None,
            TimerStart::Release => Some(now + self.timeout.now()),
        };
        Some(why)
    }
}

#[cfg(test)]
mod tests {
    use destage_plan::Dev;

    use super::*;

    const MS: u64 = 1_000_000;
    const NONE: DevSet = DevSet::EMPTY;

    fn set(members: &[u8]) -> DevSet {
        members.iter().copied().map(Dev).collect()
    }

    /// Of four members these are ready, and those that are neither busy nor ready have nothing.
    fn ready(chosen: &[u8], busy: &[u8]) -> ReadyWrites {
        let (chosen, busy) = (set(chosen), set(busy));
        ReadyWrites { chosen, busy, empty: DevSet::first(4) - chosen - busy, short: NONE }
    }

    fn usual() -> WriteSynchroniser {
        WriteSynchroniser::of(DevSet::first(4), SyncTimeout::Fixed(Nanos(10 * MS)), TimerStart::FirstReady, true, true)
    }

    /// Figure 5 of the paper, as the table of specs §8.5 has it; the time counts from the
    /// acknowledgement (§8.10.20).
    #[test]
    fn figure_5() {
        let mut sync = usual();
        assert_eq!(sync.decide(Nanos(0), &ready(&[0, 1, 2, 3], &[])), Some(ReleaseCause::Together));
        assert_eq!(sync.decide(Nanos(0), &ready(&[], &[0, 1, 2, 3])), None);
        let acknowledged = Nanos(MS / 5);
        assert_eq!(sync.decide(acknowledged, &ready(&[2], &[])), None);
        assert_eq!(sync.deadline, Some(Nanos(10 * MS + MS / 5)));
        assert_eq!(sync.decide(Nanos(10 * MS), &ready(&[2], &[])), None);
        assert_eq!(sync.decide(Nanos(10 * MS + MS / 5), &ready(&[2], &[])), Some(ReleaseCause::Timeout));
        assert_eq!(sync.deadline, None);
    }

    #[test]
    fn a_member_at_work_is_waited_for_until_the_time_is_up() {
        let mut sync = usual();
        let busy = ready(&[0, 2, 3], &[1]);
        assert_eq!(sync.decide(Nanos(0), &busy), None);
        assert_eq!(sync.decide(Nanos(8 * MS), &ready(&[0, 1, 2, 3], &[])), Some(ReleaseCause::Together));
        assert_eq!(sync.decide(Nanos(9 * MS), &busy), None);
        assert_eq!(sync.decide(Nanos(18 * MS), &busy), None);
        assert_eq!(sync.decide(Nanos(19 * MS), &busy), Some(ReleaseCause::Timeout));
        let chosen_for_it = ready(&[0, 1, 2, 3], &[1]);
        assert_eq!(sync.decide(Nanos(19 * MS), &chosen_for_it), None, "what went before has not ended");
    }

    #[test]
    fn without_a_timeout_nobody_waits() {
        let mut sync =
            WriteSynchroniser::of(DevSet::first(4), SyncTimeout::Fixed(Nanos(0)), TimerStart::FirstReady, false, true);
        assert_eq!(sync.decide(Nanos(5), &ready(&[0], &[2])), Some(ReleaseCause::Timeout));
        assert_eq!(sync.decide(Nanos(5), &ready(&[2], &[2])), Some(ReleaseCause::Timeout), "nor for what went before");
    }

    #[test]
    fn members_without_anything_block_only_if_they_are_to() {
        let some = ready(&[0, 2, 3], &[]);
        assert_eq!(usual().decide(Nanos(0), &some), None);
        let mut sync = WriteSynchroniser { empty_blocks: false, ..usual() };
        assert_eq!(sync.decide(Nanos(0), &some), Some(ReleaseCause::Together));
        assert_eq!(sync.decide(Nanos(0), &ready(&[0, 3], &[1])), None, "one with pages under way is not empty");
    }

    #[test]
    fn what_keeps_writes_waiting_releases_all() {
        let some = ready(&[0, 2], &[1]);
        assert_eq!(usual().decide(Nanos(0), &ReadyWrites { short: set(&[0]), ..some }), Some(ReleaseCause::Full));
        let busy = ReadyWrites { short: set(&[1]), ..some };
        assert_eq!(usual().decide(Nanos(0), &busy), None, "its own acknowledgement makes room");
        let mut literal = WriteSynchroniser { on_full: false, ..usual() };
        assert_eq!(literal.decide(Nanos(0), &ReadyWrites { short: set(&[0]), ..some }), None);
    }

    #[test]
    fn a_timer_may_run_from_release_to_release() {
        let mut sync = WriteSynchroniser::of(
            DevSet::first(4),
            SyncTimeout::Fixed(Nanos(10 * MS)),
            TimerStart::Release,
            false,
            true,
        );
        assert_eq!(sync.decide(Nanos(0), &ready(&[], &[])), None);
        assert_eq!(sync.decide(Nanos(9 * MS), &ready(&[0], &[])), None);
        assert_eq!(sync.decide(Nanos(10 * MS), &ready(&[0], &[])), Some(ReleaseCause::Timeout));
        assert_eq!(sync.deadline, Some(Nanos(20 * MS)));
        assert_eq!(sync.decide(Nanos(20 * MS), &ready(&[], &[])), None);
        assert_eq!(sync.deadline, Some(Nanos(30 * MS)));
    }
}
