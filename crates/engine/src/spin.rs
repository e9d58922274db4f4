//! Decides how long to poll for the next event before the thread sleeps.
//!
//! A client that sends one request at a time is back within microseconds of its answer, and waking from a sleep takes
//! longer. So the thread polls after short waits and sleeps at once after long ones. The time grows and shrinks as that
//! for which hypervisors poll before they halt a processor (KVM's `halt_poll_ns`).

use std::time::Duration;

/// Longer than this nobody looks; a wait that is longer was not worth looking for.
const LONGEST: Duration = Duration::from_micros(50);
/// Sets the time of the first poll.
const SHORTEST: Duration = Duration::from_micros(10);

/// The time to look before the next sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleSpin {
    /// Is true if another processor can cause the event. With one processor, polling would only delay it.
    wanted: bool,
    time: Duration,
}

impl IdleSpin {
    /// Does not look before it has seen short waits, nor ever with one processor.
    pub(crate) const fn new(processors: usize) -> Self {
        Self { wanted: processors > 1, time: Duration::ZERO }
    }

    /// Returns how long to poll before the next sleep.
    pub(crate) const fn time(self) -> Duration {
        self.time
    }

    /// Returns true if a wait is worth timing.
    pub(crate) const fn is_wanted(self) -> bool {
        self.wanted
    }

    /// The last wait took so long, looking and sleeping.
    pub(crate) fn waited(&mut self, time: Duration) {
        if !self.wanted {
            return;
        }
        self.time = match time <= LONGEST {
            // The present time was enough, so a longer one would only burn the processor.
            true if time <= self.time => self.time,
            true => (2 * self.time).clamp(SHORTEST, LONGEST),
            // Below the shortest time polling finds nothing: an idle service must cost nothing.
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
