//! Outstanding requests of an open-loop host, and the verdict that a run is saturated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use destage_plan::Nanos;

use super::SeriesBin;

/// Why the response times of a run are no result.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "cause")]
pub enum SaturationCause {
    /// More requests were outstanding than allowed.
    Backlog {
        /// The limit that was passed.
        max_backlog: u64,
        /// When, in nanoseconds of simulated time.
        at: u64,
    },
    /// Over the last half of the run the device never caught up: the smallest backlog of each of
    /// its four quarters is above that of the one before.
    Growing {
        /// Smallest backlog in each of the four quarters.
        backlog: [u64; 4],
    },
}

/// The requests that have arrived and are not complete.
#[derive(Clone, Debug)]
pub struct RequestBacklog {
    completions: BinaryHeap<Reverse<Nanos>>,
    max: usize,
    exceeded_at: Option<Nanos>,
}

impl RequestBacklog {
    /// At most `max` requests may be outstanding.
    pub fn new(max: u64) -> Self {
        Self { completions: BinaryHeap::new(), max: max as usize, exceeded_at: None }
    }

    /// Forgets that the limit was passed: the measured part of the run begins. What is outstanding
    /// stays so, unless it was too much to be kept.
    pub fn restart(&mut self) {
        self.exceeded_at = None;
    }

    /// Takes note of a request that arrives at `now`, after those before it, and completes at
    /// `done`; returns how many were outstanding when it came. Once the limit was passed nothing
    /// more is kept, and the answer is the limit.
    #[inline]
    pub fn arrive(&mut self, now: Nanos, done: Nanos) -> u64 {
        // After the verdict nothing is counted any more, so an overloaded run stays cheap.
        if self.exceeded_at.is_some() {
            return self.max as u64;
        }
        while self.completions.peek().is_some_and(|&Reverse(earliest)| earliest <= now) {
            self.completions.pop();
        }
        let outstanding = self.completions.len();
        if outstanding >= self.max {
            self.exceeded_at = Some(now);
            // The heap may be large here; its memory is given back.
            self.completions = BinaryHeap::new();
        } else if done > now {
            self.completions.push(Reverse(done));
        }
        outstanding as u64
    }

    /// The verdict over the run's series.
    pub fn verdict(&self, bins: &[SeriesBin]) -> Option<SaturationCause> {
        if let Some(at) = self.exceeded_at {
            return Some(SaturationCause::Backlog { max_backlog: self.max as u64, at: at.0 });
        }
        growing(bins).map(|backlog| SaturationCause::Growing { backlog })
    }
}

/// A rise of the smallest backlog below this is taken for chance.
const LEAST_RISE: u64 = 64;

/// The smallest backlogs of the last half's quarters, if each is above the one before. A device
/// that keeps up empties its queue again and again, however long it gets in bursts; one that does
/// not never returns to where it was.
pub(crate) fn growing(bins: &[SeriesBin]) -> Option<[u64; 4]> {
    // The first half may still be filling buffers and says nothing about the rest.
    let half = &bins[bins.len() / 2..];
    let quarter = |i: usize| {
        let part = &half[half.len() * i / 4..half.len() * (i + 1) / 4];
        // The minimum ignores bursts: a device that keeps up empties its queue between them.
        part.iter().filter(|bin| bin.requests > 0).map(|bin| bin.backlog_min).min()
    };
    let least = [quarter(0)?, quarter(1)?, quarter(2)?, quarter(3)?];
    // Four rising quarters are needed, since a long burst alone lifts two.
    let rises = least.windows(2).all(|pair| pair[0] < pair[1]);
    (rises && least[3] >= least[0] + LEAST_RISE).then_some(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outstanding_requests_are_counted_until_too_many() {
        let mut backlog = RequestBacklog::new(3);
        assert_eq!(backlog.arrive(Nanos(0), Nanos(100)), 0);
        assert_eq!(backlog.arrive(Nanos(10), Nanos(50)), 1);
        assert_eq!(backlog.arrive(Nanos(50), Nanos(200)), 1);
        assert_eq!(backlog.arrive(Nanos(60), Nanos(60)), 2);
        assert_eq!(backlog.arrive(Nanos(70), Nanos(300)), 2);
        assert_eq!(backlog.verdict(&[]), None);
        assert_eq!(backlog.arrive(Nanos(80), Nanos(400)), 3);
        assert_eq!(backlog.verdict(&[]), Some(SaturationCause::Backlog { max_backlog: 3, at: 80 }));
    }

    #[test]
    fn a_backlog_that_only_grows_is_saturation() {
        let bins = |f: fn(u64) -> u64| -> Vec<SeriesBin> {
            (0..128).map(|i| SeriesBin { requests: 10, backlog_min: f(i), ..SeriesBin::default() }).collect()
        };
        assert!(growing(&bins(|i| 10 * i)).is_some());
        assert!(growing(&bins(|_| 5000)).is_none());
        assert!(growing(&bins(|i| if i < 100 { 10 * i } else { 0 })).is_none());
        assert!(growing(&bins(|i| i / 10)).is_none());
        // Bursts that get longer, between which the queue empties.
        assert!(growing(&bins(|i| if i % 8 == 0 { 0 } else { 100 * i })).is_none());
    }
}
