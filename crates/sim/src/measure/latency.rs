//! Response times: exact mean, deviation and maximum, and percentiles to three significant digits.

use std::collections::BTreeMap;

use destage_plan::Nanos;
use hdrhistogram::Histogram;

use super::record;

/// Response times of one kind of request.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    histogram: Histogram<u64>,
    sum: u128,
    sum_of_squares: u128,
    max: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::with_digits(3)
    }
}

record! {
    /// Response times of one kind of request.
    pub struct LatencySummary {
        count: u64 ["1"] "requests measured",
        mean: f64 ["ns"] "arithmetic mean",
        standard_deviation: f64 ["ns"] "population standard deviation",
        p50: u64 ["ns"] "median; percentiles have three significant digits and name the upper end of their class",
        p90: u64 ["ns"] "90th percentile",
        p95: u64 ["ns"] "95th percentile",
        p99: u64 ["ns"] "99th percentile",
        p99_9: u64 ["ns"] "99.9th percentile",
        p99_99: u64 ["ns"] "99.99th percentile",
        max: u64 ["ns"] "maximum",
    }
}

impl LatencyHistogram {
    /// No response time yet; percentiles will have so many significant digits, 2 to 5, and take ten
    /// times the memory for each more.
    pub(super) fn with_digits(digits: u8) -> Self {
        let histogram = Histogram::new(digits).expect("up to five significant digits are among those allowed");
        Self { histogram, sum: 0, sum_of_squares: 0, max: 0 }
    }

    /// Adds one response time.
    #[inline]
    pub fn record(&mut self, time: Nanos) {
        let nanos = time.0;
        self.sum += u128::from(nanos);
        self.sum_of_squares += u128::from(nanos) * u128::from(nanos);
        self.max = self.max.max(nanos);
        self.histogram.record(nanos).expect("the histogram grows by itself");
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        self.max = self.max.max(other.max);
        self.histogram.add(&other.histogram).expect("histograms that grow by themselves can be added");
    }

    /// Response times.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Sum of all response times.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The figures; `None` where nothing was recorded.
    pub fn summary(&self) -> Option<LatencySummary> {
        let count = self.histogram.len();
        if count == 0 {
            return None;
        }
        let n = count as f64;
        let mean = self.sum as f64 / n;
        // n·Σx² − (Σx)² is exact in integers where it fits, so equal times give a deviation of
        // exactly zero.
        let spread = u128::from(count)
            .checked_mul(self.sum_of_squares)
            .zip(self.sum.checked_mul(self.sum))
            .map_or_else(|| self.sum_of_squares as f64 / n - mean * mean, |(a, b)| (a - b) as f64 / (n * n));
        // A class may end above the longest time that was seen.
        let at = |quantile| self.histogram.value_at_quantile(quantile).min(self.max);
        Some(LatencySummary {
            count,
            mean,
            standard_deviation: spread.max(0.0).sqrt(),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: self.max,
        })
    }
}

/// Classes of response times between a power of two and the next; each is at most 1/16 wide.
const CLASSES_LOG2: u32 = 4;

/// Counts the response times of each kind by class. A class is named by its upper end in nanoseconds, the
/// last one by the largest response time. Empty classes are left out; each doubling has at most 16.
pub fn distribution<const KINDS: usize>(kinds: [&LatencyHistogram; KINDS]) -> Vec<(u64, [u64; KINDS])> {
    let mut classes: BTreeMap<u64, [u64; KINDS]> = BTreeMap::new();
    for (kind, latency) in kinds.iter().enumerate() {
        for step in latency.histogram.iter_recorded() {
            // The histogram is at least as fine, and its classes end where these do.
            let value = step.value_iterated_to();
            let width = value.checked_ilog2().unwrap_or(0).saturating_sub(CLASSES_LOG2);
            classes.entry(value | ((1 << width) - 1)).or_insert([0; KINDS])[kind] += step.count_since_last_iteration();
        }
    }
    let max = kinds.iter().map(|latency| latency.max).max().unwrap_or(0);
    classes.into_iter().map(|(up_to, counts)| (up_to.min(max), counts)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_a_known_sample() {
        let mut latency = LatencyHistogram::default();
        assert_eq!(latency.summary(), None);
        for nanos in 1..=1000 {
            latency.record(Nanos(nanos));
        }
        let s = latency.summary().unwrap();
        assert_eq!((s.count, s.p50, s.p99, s.p99_9, s.max), (1000, 500, 990, 999, 1000));
        assert!((s.mean - 500.5).abs() < 1e-9);
        assert!((s.standard_deviation - 288.675).abs() < 0.001);
    }

    #[test]
    fn classes_hold_every_response_time_once() {
        let (mut even, mut odd) = (LatencyHistogram::default(), LatencyHistogram::default());
        let times: Vec<u64> = (0..5000).map(|i: u64| i * i * 37 + i % 7).collect();
        for (i, &time) in times.iter().enumerate() {
            if i % 2 == 0 { &mut even } else { &mut odd }.record(Nanos(time));
        }
        let classes = distribution([&even, &odd]);
        assert_eq!(classes.last().unwrap().0, *times.iter().max().unwrap());
        let mut from = 0;
        for &(up_to, [evens, odds]) in &classes {
            let within = |i: usize| (from..=up_to).contains(&times[i]);
            let count = |parity| (0..times.len()).filter(|i| i % 2 == parity && within(*i)).count() as u64;
            assert_eq!([evens, odds], [count(0), count(1)], "from {from} to {up_to}");
            assert!(evens + odds > 0);
            from = up_to + 1;
        }
        assert!((16 * 5..=16 * 31).contains(&classes.len()), "{}", classes.len());
        assert_eq!(distribution([&LatencyHistogram::default()]), []);
    }

    #[test]
    fn equal_times_have_no_deviation() {
        let mut latency = LatencyHistogram::default();
        for _ in 0..1000 {
            latency.record(Nanos(7_777_777_777));
        }
        let s = latency.summary().unwrap();
        assert_eq!(s.standard_deviation.to_bits(), 0);
        assert_eq!((s.p50, s.p99_99, s.max), (7_777_777_777, 7_777_777_777, 7_777_777_777));
    }
}
