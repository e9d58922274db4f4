//! Estimates how long something still takes, from its recent pace.

use std::time::Duration;

/// Shares done are looked at this far apart, at least.
const APART: Duration = Duration::from_secs(1);
/// Sets the seconds after which progress counts little; as things take longer, half of the time so far.
const REMEMBERED: f64 = 30.0;

/// Measures how fast something goes. Times are since its beginning, so it is a function of its inputs alone.
#[derive(Clone, Debug, Default)]
pub struct ProgressPace {
    at: Duration,
    share: f64,
    /// Share done in a second, smoothed.
    rate: Option<f64>,
}

impl ProgressPace {
    /// So much of it, from 0 to 1, was done at this time. Less than before means that something else has begun.
    pub fn reach(&mut self, at: Duration, share: f64) {
        // Another pass has begun, whose pace need not be that of the last.
        if share < self.share {
            *self = Self { at, share, rate: None };
            return;
        }
        let passed = at.saturating_sub(self.at);
        if passed < APART || share <= self.share && self.rate.is_none() {
            return;
        }
        let passed = passed.as_secs_f64();
        let now = (share - self.share) / passed;
        let rate = self.rate.map_or(now, |rate| {
            // Runs end in steps, so a short memory would jump; half of the elapsed time grows with the steps.
            let memory = REMEMBERED.max(at.as_secs_f64() / 2.0);
            rate + (now - rate) * passed / (passed + memory)
        });
        *self = Self { at, share, rate: Some(rate) };
    }

    /// Returns how long it takes from this time on, if that can be told.
    pub fn left(&self, now: Duration) -> Option<Duration> {
        let rate = self.rate.filter(|&rate| rate > 0.0)?;
        let left = Duration::try_from_secs_f64((1.0 - self.share).max(0.0) / rate).ok()?;
        // Between two reports the time goes by, and so must the estimate.
        Some(left.saturating_sub(now.saturating_sub(self.at)))
    }

    /// The same in words, as coarse as it is sure.
    pub fn words(&self, now: Duration) -> String {
        let Some(left) = self.left(now) else { return "time left unknown".to_owned() };
        let seconds = left.as_secs_f64();
        match seconds {
            ..90.0 => format!("about {:.0} s left", (seconds / 5.0).ceil() * 5.0),
            ..5400.0 => format!("about {:.0} min left", seconds / 60.0),
            _ => format!("about {:.1} h left", seconds / 3600.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_steady_pace_tells_the_time_exactly() {
        let mut pace = ProgressPace::default();
        assert_eq!((pace.left(s(5)), pace.words(s(5)).as_str()), (None, "time left unknown"));
        for second in 0..=250 {
            pace.reach(s(second), second as f64 / 1000.0);
        }
        let left = pace.left(s(250)).expect("it has gone on");
        assert!((left.as_secs_f64() - 750.0).abs() < 1e-6, "{left:?}");
        assert_eq!(pace.words(s(250)), "about 12 min left");
        // While nothing is told, the time goes by.
        assert_eq!(pace.left(s(300)).map(|left| left.as_secs_f64().round()), Some(700.0));
        assert_eq!(pace.left(s(5000)), Some(s(0)));
        for (share, words) in [(0.95, "about 50 s left"), (0.999, "about 5 s left"), (1.0, "about 0 s left")] {
            let pace = ProgressPace { at: s(0), share, rate: Some(1e-3) };
            assert_eq!(pace.words(s(0)), words);
        }
        assert_eq!(ProgressPace { at: s(0), share: 0.0, rate: Some(1e-4) }.words(s(0)), "about 2.8 h left");
    }

    #[test]
    fn a_stop_and_steps_move_it_little() {
        // Steps of a hundredth every ten seconds, as runs end: 1,000 s altogether.
        let mut pace = ProgressPace::default();
        let mut worst = 0.0_f64;
        for second in 0..900_u64 {
            pace.reach(s(second), (second / 10) as f64 / 100.0);
            if second >= 300 {
                let left = pace.left(s(second)).expect("it has gone on").as_secs_f64();
                worst = worst.max((left - (1000 - second) as f64).abs() / (1000 - second) as f64);
            }
        }
        assert!(worst < 0.15, "{worst}");
    }

    #[test]
    fn what_slows_down_is_noticed_and_what_begins_anew_forgets() {
        let mut pace = ProgressPace::default();
        for second in 0..=100 {
            pace.reach(s(second), second as f64 / 200.0);
        }
        assert_eq!(pace.left(s(100)).map(|left| left.as_secs_f64().round()), Some(100.0));
        for second in 101..=400 {
            pace.reach(s(second), 0.5 + (second - 100) as f64 / 2000.0);
        }
        // At a tenth of the speed 700 s are left; at the old one 70.
        let left = pace.left(s(400)).expect("it has gone on").as_secs_f64();
        assert!((350.0..700.0).contains(&left), "{left}");
        pace.reach(s(401), 0.0);
        assert_eq!(pace.left(s(402)), None);
    }
}
