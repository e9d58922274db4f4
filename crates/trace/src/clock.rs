//! Clocks of 31 or 32 bits, which begin anew at 0 when they are full.
//!
//! A time that goes back by a power of two of the clock's unit, to within a short gap, is a clock that wrapped; what
//! follows lies that much later. All else that goes back (recorders that reorder, logs one behind the other, a clock
//! that was set) stays as it is: whoever reads the requests is told by how much.

use std::fmt;

use destage_plan::quantity::show_time;
use destage_plan::{Nanos, Request};

/// Lists the units in which clocks count: their nanoseconds and names.
const UNITS: [(u64, &str); 4] = [(1, "ns"), (100, "ticks of 100 ns"), (1_000, "us"), (1_000_000, "ms")];
const BITS: [u32; 2] = [31, 32];
/// Bounds the gap around a wrap: this part of the clock's period.
const GAP_PART: u64 = 64;
/// Bounds it as well: so many times the longest gap before it.
const GAP_TIMES: u64 = 16;

/// Counts how often the clock of a trace wrapped, with what was added to times for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockWraps {
    /// Counts how often it began anew.
    pub count: u64,
    /// Numbers the request, from 1, that is the first after a wrap.
    pub first_request: u64,
    bits: u32,
    unit: usize,
}

impl ClockWraps {
    /// Returns the time that the clock takes to begin anew.
    pub fn period(&self) -> Nanos {
        Nanos(UNITS[self.unit].0 << self.bits)
    }
}

impl fmt::Display for ClockWraps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = if self.count == 1 { "once".to_owned() } else { format!("{} times", self.count) };
        let (period, unit) = (show_time(self.period().0 as f64), UNITS[self.unit].1);
        write!(
            f,
            "the clock wrapped {times} after 2^{} {unit} ({period}), first at request {}",
            self.bits, self.first_request
        )
    }
}

/// Follows the times of a trace.
#[derive(Debug, Default)]
pub(crate) struct TraceClock {
    wraps: ClockWraps,
    /// Gives the period, once it wrapped, and what is added to times.
    period: u64,
    added: u64,
    /// Gives the time of the request before, and the latest.
    previous: u64,
    latest: u64,
    longest_gap: u64,
    /// Gives the earliest time as recorded: a clock that begins anew is there again, or earlier.
    earliest: u64,
    requests: u64,
}

impl TraceClock {
    pub(crate) const fn wraps(&self) -> ClockWraps {
        self.wraps
    }

    /// Makes times go on where the clock began anew. Times are as recorded.
    #[inline]
    pub(crate) fn follow(&mut self, requests: &mut [Request]) {
        if let (0, Some(first)) = (self.requests, requests.first()) {
            (self.previous, self.latest, self.earliest) = (first.time.0, first.time.0, first.time.0);
        }
        let mut at = 0;
        // Most traces never wrap: what is in order is gone over without being changed.
        while self.added == 0 {
            at += self.in_order(&requests[at..]);
            let Some(next) = requests.get_mut(at) else { return };
            self.follow_one(next);
            at += 1;
        }
        requests[at..].iter_mut().for_each(|request| self.follow_one(request));
    }

    /// Follows the times of the first requests up to one that is earlier than the one before it, and counts them: they stay
    /// as they are where no clock began anew before.
    fn in_order(&mut self, requests: &[Request]) -> usize {
        let (mut previous, mut longest_gap) = (self.previous, self.longest_gap);
        let is_in_order = |request: &&Request| {
            let time = request.time.0;
            let is_later = time >= previous;
            if is_later {
                (longest_gap, previous) = (longest_gap.max(time - previous), time);
            }
            is_later
        };
        let count = requests.iter().take_while(is_in_order).count();
        // The fields are kept in locals meanwhile, so that the loop writes no memory.
        (self.previous, self.longest_gap, self.latest) = (previous, longest_gap, self.latest.max(previous));
        self.requests += count as u64;
        count
    }

    fn follow_one(&mut self, request: &mut Request) {
        self.requests += 1;
        let mut time = request.time.0.saturating_add(self.added);
        if time < self.previous || self.added > 0 && time - self.previous > self.period / 2 {
            match self.jump(time) {
                Ok(after) => time = after,
                Err(straggler) => {
                    request.time = Nanos(straggler);
                    return;
                }
            }
        }
        self.longest_gap = self.longest_gap.max(time.saturating_sub(self.previous));
        self.previous = time;
        self.latest = self.latest.max(time);
        request.time = Nanos(time);
    }

    /// Returns what a time that jumped is; an error is that of a request recorded before a wrap and told behind it.
    #[cold]
    fn jump(&mut self, time: u64) -> Result<u64, u64> {
        if time > self.previous {
            let before = time - self.period;
            return if self.latest.abs_diff(before) <= self.period / GAP_PART { Err(before) } else { Ok(time) };
        }
        let back = self.previous - time;
        let recorded = time - self.added;
        let earliest = self.earliest;
        self.earliest = earliest.min(recorded);
        let clocks = (0..UNITS.len()).flat_map(|unit| BITS.map(|bits| ClockWraps { bits, unit, ..self.wraps }));
        for clock in clocks {
            let period = clock.period().0;
            let known = self.period == 0 || self.period == period;
            let gap = period.checked_sub(back).filter(|gap| *gap <= period / GAP_PART);
            let is_latest = self.latest - self.previous <= period / GAP_PART;
            let begins = recorded.saturating_sub(earliest) <= period / GAP_PART;
            // Requests out of order show some of these signs too, so that all are asked for.
            if known && is_latest && begins && gap.is_some_and(|gap| gap <= self.longest_gap.saturating_mul(GAP_TIMES))
            {
                if self.wraps.count == 0 {
                    self.wraps = ClockWraps { first_request: self.requests, ..clock };
                }
                self.wraps.count += 1;
                self.period = period;
                self.added = self.added.saturating_add(period);
                return Ok(time.saturating_add(period));
            }
        }
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use destage_plan::Op;

    use super::*;

    /// Returns what becomes of these times, and what is told of the clock.
    fn follow(times: impl IntoIterator<Item = u64>) -> (Vec<u64>, ClockWraps) {
        let request = |time| Request { time: Nanos(time), offset: 0, len: 512, volume: 0, op: Op::Read, fua: false };
        let mut requests: Vec<Request> = times.into_iter().map(request).collect();
        let mut clock = TraceClock::default();
        // In batches of odd sizes: a wrap may lie between two.
        for batch in requests.chunks_mut(7) {
            clock.follow(batch);
        }
        (requests.iter().map(|request| request.time.0).collect(), clock.wraps())
    }

    #[test]
    fn clocks_of_every_unit_and_width_go_on() {
        for (unit, name) in UNITS {
            for bits in BITS {
                let period = unit << bits;
                let step = period / 1000;
                let start = period - 7 * step;
                let right: Vec<u64> = (0..2_500).map(|n| start + n * step).collect();
                let (times, wraps) = follow(right.iter().map(|time| time % period));
                assert_eq!(times, right, "2^{bits} {name}");
                assert_eq!(
                    (wraps.count, wraps.first_request, wraps.period()),
                    (3, 8, Nanos(period)),
                    "2^{bits} {name}"
                );
                assert!(wraps.to_string().contains(&format!("3 times after 2^{bits} {name} (")), "{wraps}");
                // What the clock counts from does not matter, nor a request that is told late.
                let (times, _) = follow(right.iter().map(|time| 1_600_000_000_000_000_000 + time % period));
                assert!(times.iter().zip(&right).all(|(time, at)| time - at == times[0] - right[0]));
                let mut late = right.clone();
                late.swap(6, 8);
                let (times, wraps) = follow(late.iter().map(|time| time % period));
                assert_eq!((times, wraps.count), (late, 3), "2^{bits} {name}");
            }
        }
    }

    #[test]
    fn what_is_no_wrap_stays() {
        const SECOND: u64 = 1_000_000_000;
        let log = |from: u64, seconds: u64| (0..seconds * 100).map(move |n| from + n * SECOND / 100);
        // A log behind another, of any length but that of a clock; the second goes through every distance from the first.
        for seconds in [3, 10, 300, 3_600] {
            let times: Vec<u64> = log(5, seconds).chain(log(0, 2 * seconds)).collect();
            assert_eq!(follow(times.clone()), (times, ClockWraps::default()), "{seconds}");
        }
        // A clock set back by an hour, requests told late, and one time that is wrong.
        let set: Vec<u64> = log(7_200 * SECOND, 60).chain(log(3_660 * SECOND, 60)).collect();
        assert_eq!(follow(set.clone()), (set, ClockWraps::default()));
        let late: Vec<u64> = log(0, 60).map(|time| if time % 7 == 0 { time / 2 } else { time }).collect();
        assert_eq!(follow(late.clone()), (late, ClockWraps::default()));
        // A pause around the wrap that is far longer than any before could be anything.
        let pause: Vec<u64> = vec![4_290_000_000_000, 4_290_000_000_001, 20_000_000_000];
        assert_eq!(follow(pause.clone()), (pause, ClockWraps::default()));
        assert_eq!(follow([]), (vec![], ClockWraps::default()));
    }
}
