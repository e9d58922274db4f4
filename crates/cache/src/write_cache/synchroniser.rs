//! LAWC's synchroniser: the caches of the members write their next strips together, so that their
//! collections of garbage begin together (specs §8.5, §8.10).

use destage_plan::Nanos;

/// When the timer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// When the first cache is ready after a release.
    FirstReady,
    /// At each release: the pseudo-code, literally.
    Release,
}

/// The state of one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CacheState {
    /// It has found its next strip, and its member has none under way.
    pub(super) ready: bool,
    /// It holds nothing, not even what is under way.
    pub(super) empty: bool,
    /// It is full, and a row waits for room in it.
    pub(super) is_short: bool,
}

/// Why caches write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// All are ready.
    Together,
    /// The time is up.
    Timeout,
    /// A full one keeps writes waiting.
    Full,
}

/// Decides when ready caches write.
#[derive(Clone, Debug)]
pub(super) struct Synchroniser {
    /// Ready caches wait for the others that long.
    pub(super) timeout: Nanos,
    pub(super) begins: Begins,
    /// Ready caches do not wait for the others if a full one is among them that keeps writes waiting.
    pub(super) on_full: bool,
    /// Caches that hold nothing are waited for as well.
    pub(super) empty_blocks: bool,
    /// When the time is up.
    deadline: Option<Nanos>,
}

impl Synchroniser {
    pub(super) const fn new(timeout: Nanos, begins: Begins, on_full: bool, empty_blocks: bool) -> Self {
        Self { timeout, begins, on_full, empty_blocks, deadline: None }
    }

    /// When to look again, whatever happens.
    pub(super) const fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }

    /// Whether the ready caches write now.
    pub(super) fn decide(&mut self, now: Nanos, caches: &[CacheState]) -> Option<Release> {
        let ready = caches.iter().filter(|cache| cache.ready).count();
        if self.begins == Begins::Release && self.deadline.is_none() {
            self.deadline = Some(now + self.timeout);
        }
        if ready == 0 {
            if self.begins == Begins::Release && self.deadline.is_some_and(|deadline| deadline <= now) {
                // There is nothing to write: the next period begins.
                self.deadline = Some(now + self.timeout);
            }
            return None;
        }
        let due = *self.deadline.get_or_insert(now + self.timeout);
        let waits_for = |cache: &CacheState| !cache.ready && (self.empty_blocks || !cache.empty);
        let why = if !caches.iter().any(waits_for) {
            Release::Together
        } else if due <= now {
            Release::Timeout
        } else if self.on_full && caches.iter().any(|cache| cache.ready && cache.is_short) {
            Release::Full
        } else {
            return None;
        };
        self.deadline = match self.begins {
            Begins::FirstReady => None,
            Begins::Release => Some(now + self.timeout),
        };
        Some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: CacheState = CacheState { ready: true, empty: false, is_short: false };
    const BUSY: CacheState = CacheState { ready: false, empty: false, is_short: false };
    const EMPTY: CacheState = CacheState { ready: false, empty: true, is_short: false };
    const MS: u64 = 1_000_000;

    fn usual() -> Synchroniser {
        Synchroniser::new(Nanos(10 * MS), Begins::FirstReady, true, true)
    }

    /// Figure 5 of the paper, as the table of specs §8.5 has it; the time counts from the
    /// acknowledgement (§8.10.20).
    #[test]
    fn figure_5() {
        let mut sync = usual();
        assert_eq!(sync.decide(Nanos(0), &[READY; 4]), Some(Release::Together));
        assert_eq!(sync.decide(Nanos(0), &[BUSY; 4]), None);
        let acknowledged = Nanos(MS / 5);
        assert_eq!(sync.decide(acknowledged, &[EMPTY, EMPTY, READY, EMPTY]), None);
        assert_eq!(sync.deadline(), Some(Nanos(10 * MS + MS / 5)));
        assert_eq!(sync.decide(Nanos(10 * MS), &[EMPTY, EMPTY, READY, EMPTY]), None);
        assert_eq!(sync.decide(Nanos(10 * MS + MS / 5), &[EMPTY, EMPTY, READY, EMPTY]), Some(Release::Timeout));
        assert_eq!(sync.deadline(), None);
    }

    #[test]
    fn a_member_at_work_is_waited_for_until_the_time_is_up() {
        let mut sync = usual();
        let states = [READY, BUSY, READY, READY];
        assert_eq!(sync.decide(Nanos(0), &states), None);
        assert_eq!(sync.decide(Nanos(8 * MS), &[READY; 4]), Some(Release::Together));
        assert_eq!(sync.decide(Nanos(9 * MS), &states), None);
        assert_eq!(sync.decide(Nanos(18 * MS), &states), None);
        assert_eq!(sync.decide(Nanos(19 * MS), &states), Some(Release::Timeout));
    }

    #[test]
    fn without_a_timeout_nobody_waits() {
        let mut sync = Synchroniser::new(Nanos(0), Begins::FirstReady, false, true);
        assert_eq!(sync.decide(Nanos(5), &[READY, EMPTY, BUSY]), Some(Release::Timeout));
    }

    #[test]
    fn empty_caches_block_only_if_they_are_to() {
        let states = [READY, EMPTY, READY];
        assert_eq!(usual().decide(Nanos(0), &states), None);
        let mut sync = Synchroniser { empty_blocks: false, ..usual() };
        assert_eq!(sync.decide(Nanos(0), &states), Some(Release::Together));
        assert_eq!(sync.decide(Nanos(0), &[READY, BUSY, EMPTY]), None, "one with pages under way is not empty");
    }

    #[test]
    fn a_full_cache_that_is_ready_releases_all() {
        let short = CacheState { is_short: true, ..READY };
        let busy = CacheState { is_short: true, ..BUSY };
        assert_eq!(usual().decide(Nanos(0), &[short, EMPTY]), Some(Release::Full));
        assert_eq!(usual().decide(Nanos(0), &[READY, busy]), None, "its own acknowledgement makes room");
        let mut literal = Synchroniser { on_full: false, ..usual() };
        assert_eq!(literal.decide(Nanos(0), &[short, EMPTY]), None);
    }

    #[test]
    fn a_timer_may_run_from_release_to_release() {
        let mut sync = Synchroniser::new(Nanos(10 * MS), Begins::Release, false, true);
        assert_eq!(sync.decide(Nanos(0), &[EMPTY; 2]), None);
        assert_eq!(sync.decide(Nanos(9 * MS), &[READY, EMPTY]), None);
        assert_eq!(sync.decide(Nanos(10 * MS), &[READY, EMPTY]), Some(Release::Timeout));
        assert_eq!(sync.deadline(), Some(Nanos(20 * MS)));
        assert_eq!(sync.decide(Nanos(20 * MS), &[EMPTY; 2]), None);
        assert_eq!(sync.deadline(), Some(Nanos(30 * MS)));
    }
}
