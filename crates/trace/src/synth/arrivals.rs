//! Draws the arrivals of requests.

use std::fmt;
use std::str::FromStr;

use destage_plan::Nanos;

use super::SynthError;
use super::quantity::parse_duration;
use super::random::{RandomStream, StreamPurpose};

/// The arrival process. The first request arrives at 0. As text: `closed`, `constant:100us`,
/// `poisson:100us`, or `on-off:10us,5ms,20ms`. Every time is between 1 ns and 24 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalProcess {
    /// All at 0: the host issues the next when it may.
    Closed,
    /// At equal intervals.
    Constant(Nanos),
    /// At exponentially distributed intervals with this mean.
    Poisson(Nanos),
    /// Bursts: an interrupted Poisson process. During an on period requests arrive at exponential
    /// intervals, during an off period none do, and the periods' lengths are exponential too.
    OnOff {
        /// Mean interval during an on period.
        interval: Nanos,
        /// Mean length of an on period, at least the interval.
        on: Nanos,
        /// Mean length of an off period.
        off: Nanos,
    },
}

const KEY: &str = "arrivals";
const LONGEST: Nanos = Nanos(24 * 3_600_000_000_000);

impl ArrivalProcess {
    pub(super) fn check(&self) -> Result<(), SynthError> {
        let times = match *self {
            Self::Closed => return Ok(()),
            Self::Constant(t) | Self::Poisson(t) => [t, t, t],
            Self::OnOff { interval, on, off } => [interval, on, off],
        };
        if times.iter().any(|t| !(Nanos(1)..=LONGEST).contains(t)) {
            return Err(SynthError::new(KEY, self, "every time is between 1 ns and 24 h"));
        }
        if times[1] < times[0] {
            return Err(SynthError::new(KEY, self, "the mean on period is at least the interval inside it"));
        }
        Ok(())
    }
}

impl fmt::Display for ArrivalProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => write!(f, "closed"),
            Self::Constant(t) => write!(f, "constant:{}ns", t.0),
            Self::Poisson(t) => write!(f, "poisson:{}ns", t.0),
            Self::OnOff { interval, on, off } => write!(f, "on-off:{}ns,{}ns,{}ns", interval.0, on.0, off.0),
        }
    }
}

impl FromStr for ArrivalProcess {
    type Err = SynthError;

    fn from_str(text: &str) -> Result<Self, SynthError> {
        let (kind, times) = text.split_once(':').unwrap_or((text, ""));
        let times: Option<Vec<Nanos>> =
            times.split(',').filter(|t| !t.is_empty()).map(|t| parse_duration(t.trim())).collect();
        let arrivals = match (kind, times.as_deref()) {
            ("closed", Some([])) => Self::Closed,
            ("constant", Some(&[t])) => Self::Constant(t),
            ("poisson", Some(&[t])) => Self::Poisson(t),
            ("on-off", Some(&[interval, on, off])) => Self::OnOff { interval, on, off },
            _ => {
                let allowed =
                    "closed, constant:TIME, poisson:TIME or on-off:INTERVAL,ON,OFF, times such as 100us or 1.5ms";
                return Err(SynthError::new(KEY, text, allowed));
            }
        };
        arrivals.check()?;
        Ok(arrivals)
    }
}

/// Gives one arrival after another.
pub(super) struct ArrivalClock {
    arrivals: ArrivalProcess,
    stream: RandomStream,
    now: u64,
    started: bool,
    /// Holds the rest of the on period, in nanoseconds.
    on_left: u64,
}

impl ArrivalClock {
    pub(super) fn new(arrivals: ArrivalProcess, seed: u64) -> Self {
        let mut stream = RandomStream::new(seed, StreamPurpose::Arrival);
        let on_left = if let ArrivalProcess::OnOff { on, .. } = arrivals { stream.exponential(on.0) } else { 0 };
        Self { arrivals, stream, now: 0, started: false, on_left }
    }

    /// The last arrival.
    pub(super) fn now(&self) -> Nanos {
        Nanos(self.now)
    }

    /// The next arrival; `None` if it does not fit 64 bits.
    pub(super) fn next(&mut self) -> Option<Nanos> {
        // The first request arrives at once: times count from it.
        if !std::mem::replace(&mut self.started, true) {
            return Some(Nanos::ZERO);
        }
        let mut step = match self.arrivals {
            ArrivalProcess::Closed => 0,
            ArrivalProcess::Constant(t) => t.0,
            ArrivalProcess::Poisson(t) => self.stream.exponential(t.0),
            ArrivalProcess::OnOff { interval, .. } => self.stream.exponential(interval.0),
        };
        if let ArrivalProcess::OnOff { on, off, .. } = self.arrivals {
            // An exponential interval has no memory: what an off period cuts in two may go on after
            // it.
            let mut in_period = step;
            while in_period > self.on_left {
                in_period -= self.on_left;
                step = step.checked_add(self.stream.exponential(off.0))?;
                self.on_left = self.stream.exponential(on.0);
            }
            self.on_left -= in_period;
        }
        self.now = self.now.checked_add(step)?;
        Some(self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_read_and_written() {
        for text in ["closed", "constant:100ns", "poisson:1500ns", "on-off:10ns,500ns,20000ns"] {
            assert_eq!(text.parse::<ArrivalProcess>().unwrap().to_string(), text);
        }
        assert_eq!(
            "on-off:10us,5ms,0.02s".parse(),
            Ok(ArrivalProcess::OnOff { interval: Nanos(10_000), on: Nanos(5_000_000), off: Nanos(20_000_000) })
        );
        for text in
            ["", "closed:1s", "constant", "constant:5", "poisson:0ns", "poisson:25h", "on-off:1s,2s", "burst:1s"]
        {
            assert!(text.parse::<ArrivalProcess>().unwrap_err().to_string().starts_with("arrivals = "), "{text}");
        }
        let error = "on-off:10us,5us,1ms".parse::<ArrivalProcess>().unwrap_err().to_string();
        assert!(error.contains("at least the interval"), "{error}");
    }

    #[test]
    fn time_that_does_not_fit_ends_the_clock() {
        let mut clock = ArrivalClock::new(ArrivalProcess::Constant(LONGEST), 0);
        clock.now = u64::MAX - LONGEST.0 - 1;
        assert_eq!(clock.next(), Some(Nanos::ZERO));
        assert_eq!(clock.next(), Some(Nanos(u64::MAX - 1)));
        assert_eq!(clock.next(), None);
    }
}
