//! How long it is worth while to look for the next event again and again before sleeping.
//!
//! A client that sends its next request when it has the answer to the last is back within microseconds, and waking from a
//! sleep takes longer than that. So after waits that were short there is looking before sleeping, and after long ones
//! there is not: the time grows and shrinks as that for which hypervisors poll before they halt a processor.

use std::time::Duration;

/// Longer than this nobody looks; a wait that is longer was not worth looking for.
const LONGEST: Duration = Duration::from_micros(50);
/// For how long it is looked at first.
const SHORTEST: Duration = Duration::from_micros(10);

/// The time to look before the next sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleSpin {
    /// Whether another processor can make happen what is looked for.
    wanted: bool,
    time: Duration,
}

impl IdleSpin {
    /// Does not look before it has seen short waits, nor ever with one processor.
    pub(crate) const fn new(processors: usize) -> Self {
        Self { wanted: processors > 1, time: Duration::ZERO }
    }

    /// How long to look before the next sleep.
    pub(crate) const fn time(self) -> Duration {
        self.time
    }

    /// Whether a wait is worth timing.
    pub(crate) const fn is_wanted(self) -> bool {
        self.wanted
    }

    /// The last wait took so long, looking and sleeping.
    pub(crate) fn waited(&mut self, time: Duration) {
        if !self.wanted {
            return;
        }
        self.time = match time <= LONGEST {
            true if time <= self.time => self.time,
            true => (2 * self.time).clamp(SHORTEST, LONGEST),
            false if self.time <= SHORTEST => Duration::ZERO,
            false => self.time / 2,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn short_waits_are_looked_for_and_long_ones_are_not() {
        let mut spin = IdleSpin::new(2);
        assert_eq!(spin.time(), Duration::ZERO, "nothing is known yet");
        let mut after = |time| {
            spin.waited(time);
            spin.time()
        };
        assert_eq!([12, 12, 12, 12].map(|n| after(micros(n))), [10, 20, 20, 20].map(micros));
        assert_eq!([45, 45, 45].map(|n| after(micros(n))), [40, 50, 50].map(micros), "as long as the waits are");
        assert_eq!(
            [300, 300, 300, 300].map(|n| after(micros(n))),
            [25_000, 12_500, 6_250, 0].map(Duration::from_nanos)
        );
        assert_eq!(after(Duration::from_secs(1)), Duration::ZERO, "an idle service costs nothing");
    }

    #[test]
    fn one_processor_has_nobody_to_look_for() {
        let mut spin = IdleSpin::new(1);
        spin.waited(micros(5));
        assert!(!spin.is_wanted() && spin.time() == Duration::ZERO);
    }
}
