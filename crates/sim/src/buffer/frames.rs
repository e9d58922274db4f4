//! The buffer's frames over time: which are free, and from when on the pages in the others can be
//! used.

use std::collections::VecDeque;

use destage_plan::{Nanos, PageNo};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::done::DoneTime;

/// Holds the times at which frames can be used. A miss takes a free frame, or else the frame whose eviction
/// was decided first.
#[derive(Debug)]
pub(super) struct FrameTimes {
    /// Free now.
    ready: u32,
    /// Free from a time on.
    pending: VecDeque<(DoneTime, u32)>,
    /// From when on the pages can be used that were let in before their frame was free, or before
    /// their data had come from flash. Those whose time has passed may still be here.
    usable_from: HashMap<PageNo, DoneTime, FixedState>,
    /// No time in `usable_from` is later: from then on all of it has passed.
    latest: Nanos,
}

impl FrameTimes {
    /// So many free frames.
    pub(super) fn new(frames: u32) -> Self {
        // A fixed seed keeps runs reproducible.
        let usable_from = HashMap::with_hasher(FixedState::with_seed(0));
        Self { ready: frames, pending: VecDeque::new(), usable_from, latest: Nanos::ZERO }
    }

    /// Is true if there is a frame to take.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.ready > 0 || !self.pending.is_empty()
    }

    /// Takes a frame; returns from when on it can be used.
    #[inline]
    pub(super) fn take(&mut self) -> DoneTime {
        if self.ready > 0 {
            self.ready -= 1;
            return DoneTime::default();
        }
        // The order is that of the decisions, not of the times: a frame is given to one page after the
        // other.
        let (at, frames) = self.pending.front_mut().expect("a buffer inserts only into a free frame");
        let at = *at;
        *frames -= 1;
        if *frames == 0 {
            self.pending.pop_front();
        }
        at
    }

    /// Gives frames back that are free from `at` on.
    #[inline]
    pub(super) fn give_back(&mut self, now: Nanos, at: DoneTime, frames: u32) {
        if at.at <= now {
            self.ready += frames;
        } else {
            self.pending.push_back((at, frames));
        }
    }

    /// The page that was just let in can be used from `at` on.
    #[inline]
    pub(super) fn let_in(&mut self, now: Nanos, at: DoneTime, page: PageNo) {
        if at.at > now {
            if self.latest <= now {
                // One comparison replaces the removal of every entry: all times have passed.
                self.usable_from.clear();
            }
            self.latest = self.latest.max(at.at);
            self.usable_from.insert(page, at);
        }
    }

    /// From when on a page that is held can be used.
    #[inline]
    pub(super) fn usable_from(&mut self, now: Nanos, page: PageNo) -> DoneTime {
        if self.latest <= now {
            return DoneTime::undelayed(now);
        }
        match self.usable_from.get(&page) {
            Some(&at) if at.at > now => at,
            Some(_) => {
                self.usable_from.remove(&page);
                DoneTime::undelayed(now)
            }
            None => DoneTime::undelayed(now),
        }
    }

    /// From when on a page that leaves can be used; it is forgotten here.
    #[inline]
    pub(super) fn leave(&mut self, now: Nanos, page: PageNo) -> DoneTime {
        if self.latest <= now {
            return DoneTime::undelayed(now);
        }
        self.usable_from.remove(&page).map_or(DoneTime::undelayed(now), |at| at.not_before(now))
    }
}
