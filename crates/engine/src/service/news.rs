//! Decides when a service looks for news of its array: at once while it is idle, now and then while requests come and go.

use std::time::{Duration, Instant};

/// Limits how late a busy service looks: no request pays for a look of its own.
pub(super) const LATEST: Duration = Duration::from_millis(10);

/// Tells when to look for news.
#[derive(Debug, Default)]
pub(super) struct NewsTimer {
    /// Notes the time of a request that began or ended in this turn.
    busy: Option<Instant>,
    /// Notes by when to look, if a look was put off.
    due: Option<Instant>,
}

impl NewsTimer {
    /// Notes a request that began or ended now.
    #[inline]
    pub(super) const fn note(&mut self, now: Instant) {
        self.busy = Some(now);
    }

    /// Returns true if the service should look in this turn.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        // An idle service looks at once: nothing else would make it look.
        let Some(now) = self.busy.take() else {
            self.due = None;
            return true;
        };
        // A busy one looks every 10 ms, so no single request pays for the comparison.
        let due = *self.due.get_or_insert_with(|| now + LATEST);
        if now < due {
            return false;
        }
        self.due = None;
        true
    }

    /// Returns how long the service may wait at most, if a look was put off.
    #[inline]
    pub(super) fn longest_wait(&self) -> Option<Duration> {
        self.due.map(|_| LATEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_service_looks_in_time_and_an_idle_one_at_once() {
        let (mut timer, begin) = (NewsTimer::default(), Instant::now());
        assert!(timer.is_due() && timer.longest_wait().is_none(), "nothing is asked for");
        let mut looks = Vec::new();
        for millisecond in 0..50 {
            timer.note(begin + Duration::from_millis(millisecond));
            if timer.is_due() {
                looks.push(millisecond);
            }
            assert_eq!(timer.longest_wait().is_none(), looks.last() == Some(&millisecond), "{millisecond}");
        }
        assert_eq!(looks, [10, 21, 32, 43]);
        assert!(timer.is_due() && timer.longest_wait().is_none(), "the look that was put off comes when it is idle");
    }
}
