//! Outstanding requests of an open-loop host, and the verdict that a run is saturated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use destage_plan::Nanos;

use super::SeriesBin;

/// Why the response times of a run are no result.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "cause")]
pub enum Saturation {
    /// More requests were outstanding than allowed.
    Backlog {
        /// The limit that was passed.
        max_backlog: u64,
        /// When, in nanoseconds of simulated time.
        at: u64,
    },
    /// The mean backlog rose through all four quarters of the last half of the run.
    Growing {
        /// Mean backlog in each of the four quarters, rounded down.
        backlog: [u64; 4],
    },
}

/// The requests that have arrived and are not complete.
#[derive(Clone, Debug)]
pub struct Backlog {
    completions: BinaryHeap<Reverse<Nanos>>,
    max: usize,
    exceeded_at: Option<Nanos>,
}

impl Backlog {
    /// At most `max` requests may be outstanding.
    pub fn new(max: u64) -> Self {
        Self { completions: BinaryHeap::new(), max: max as usize, exceeded_at: None }
    }

    /// Takes note of a request that arrives at `now`, after those before it, and completes at `done`; returns how many
    /// were outstanding when it came. Once the limit was passed nothing more is kept, and the answer is the limit.
    #[inline]
    pub fn arrive(&mut self, now: Nanos, done: Nanos) -> u64 {
        if self.exceeded_at.is_some() {
            return self.max as u64;
        }
        while self.completions.peek().is_some_and(|&Reverse(earliest)| earliest <= now) {
            self.completions.pop();
        }
        let outstanding = self.completions.len();
        if outstanding >= self.max {
            self.exceeded_at = Some(now);
            self.completions = BinaryHeap::new();
        } else if done > now {
            self.completions.push(Reverse(done));
        }
        outstanding as u64
    }

    /// The verdict over the run's series.
    pub fn verdict(&self, bins: &[SeriesBin]) -> Option<Saturation> {
        if let Some(at) = self.exceeded_at {
            return Some(Saturation::Backlog { max_backlog: self.max as u64, at: at.0 });
        }
        growing(bins).map(|backlog| Saturation::Growing { backlog })
    }
}

/// The mean backlogs of the last half's quarters, if each is above the one before and the rise is more than a burst:
/// by at least a half and by 64 requests from the first to the last.
fn growing(bins: &[SeriesBin]) -> Option<[u64; 4]> {
    let half = &bins[bins.len() / 2..];
    if half.len() < 4 {
        return None;
    }
    let quarter = |i: usize| {
        let part = &half[half.len() * i / 4..half.len() * (i + 1) / 4];
        let requests: u64 = part.iter().map(|b| b.requests).sum();
        part.iter().map(|b| b.backlog_sum).sum::<u64>().checked_div(requests).unwrap_or(0)
    };
    let means = [quarter(0), quarter(1), quarter(2), quarter(3)];
    let rises = means.windows(2).all(|pair| pair[0] < pair[1]);
    (rises && means[3] >= means[0] + 64 && means[3] >= means[0] + means[0] / 2).then_some(means)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outstanding_requests_are_counted_until_too_many() {
        let mut backlog = Backlog::new(3);
        assert_eq!(backlog.arrive(Nanos(0), Nanos(100)), 0);
        assert_eq!(backlog.arrive(Nanos(10), Nanos(50)), 1);
        assert_eq!(backlog.arrive(Nanos(50), Nanos(200)), 1);
        assert_eq!(backlog.arrive(Nanos(60), Nanos(60)), 2);
        assert_eq!(backlog.arrive(Nanos(70), Nanos(300)), 2);
        assert_eq!(backlog.verdict(&[]), None);
        assert_eq!(backlog.arrive(Nanos(80), Nanos(400)), 3);
        assert_eq!(backlog.verdict(&[]), Some(Saturation::Backlog { max_backlog: 3, at: 80 }));
    }

    #[test]
    fn a_backlog_that_only_grows_is_saturation() {
        let bins = |f: fn(u64) -> u64| -> Vec<SeriesBin> {
            (0..128).map(|i| SeriesBin { requests: 10, backlog_sum: 10 * f(i), ..SeriesBin::default() }).collect()
        };
        assert!(growing(&bins(|i| 10 * i)).is_some());
        assert!(growing(&bins(|_| 5000)).is_none());
        assert!(growing(&bins(|i| if i < 100 { 10 * i } else { 0 })).is_none());
        assert!(growing(&bins(|i| i / 10)).is_none());
    }
}
