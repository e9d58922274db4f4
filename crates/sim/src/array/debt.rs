//! Rows whose parity is behind their data, over time: how many there are, and so how long they stay
//! behind.
//!
//! They are counted between events, during which their number does not change, so that sums over time
//! are exact.

use destage_plan::Nanos;

use crate::measure::{BinContent, TimeSeries, record};

record! {
    /// A span of simulated time, and the rows whose parity was behind in it.
    pub struct DebtPoint {
        stale_rows_mean: f64 ["1"] "rows whose parity did not cover their newest data, averaged over the span, or over the part of it before simulated_time ended",
        stale_rows_max: u64 ["1"] "the most of them for any time",
    }
}

record! {
    /// Parity that was left behind data (parity debt), over `simulated_time`.
    pub struct ParityDebt {
        rows_mean: Option<f64> ["1"] "rows whose parity did not cover their newest data, averaged over simulated_time; null where no time passed"
            { figure "stale rows" Decimals Less "rows whose parity is behind their data, averaged over time" },
        rows_max: u64 ["1"] "the most of them for any time"
            { figure "most stale" Count Less "the most rows whose parity was behind their data at a time" },
        rows_left: u64 ["1"] "times that the parity of a row was left behind data that it had covered so far",
        mean_age: Option<f64> ["ns"] "time for which such a row stays so: rows_mean x simulated_time / rows_left (Little's law), which is exact if there are none at either end; null if none was left"
            { figure "stale for" Time Less "mean time for which the parity of a row stays behind its data" },
        rows_owed: u64 ["1"] "rows whose parity is still behind at the end of simulated_time: each owes an update of its parity"
            { figure "owed" Count Less "rows whose parity is still behind their data at the end of the run" },
        start: u64 ["ns"] "arrival of the first measured request",
        width: u64 ["ns"] "width of a bin",
        bins: Vec<DebtPoint> ["-"] "the bins in order, up to the end of simulated_time; half as many wide ones replace them as often as they become too many" = DebtPoint,
    }
}

/// Rows that were behind in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DebtBin {
    /// ∫ rows dt, in ns.
    row_time: u128,
    /// The most of them.
    most: u64,
}

impl DebtBin {
    fn add(&mut self, rows: u64, time: Nanos) {
        self.row_time += u128::from(rows) * u128::from(time.0);
        self.most = self.most.max(rows);
    }
}

impl BinContent for DebtBin {
    fn merge(&mut self, other: &Self) {
        self.row_time += other.row_time;
        self.most = self.most.max(other.most);
    }
}

/// The rows that are behind, and those that were.
#[derive(Clone, Debug)]
pub(super) struct StaleRowDebt {
    rows: u64,
    /// Since when there are so many, or up to when they are counted.
    since: Nanos,
    all: DebtBin,
    series: TimeSeries<DebtBin>,
}

impl StaleRowDebt {
    pub(super) fn new() -> Self {
        Self { rows: 0, since: Nanos::ZERO, all: DebtBin::default(), series: TimeSeries::new(Nanos::ZERO) }
    }

    /// Forgets what was: the beginning of what is measured.
    pub(super) fn restart(&mut self, now: Nanos) {
        (self.since, self.all, self.series) = (now, DebtBin::default(), TimeSeries::new(now));
    }

    /// So many rows are behind from now on.
    #[inline]
    pub(super) fn see(&mut self, now: Nanos, rows: u64) {
        // The number changes at events alone, so the integral over time is exact.
        if rows != self.rows {
            self.count(now);
            self.rows = rows;
        }
    }

    /// Counts up to now.
    pub(super) fn count(&mut self, now: Nanos) {
        if now <= self.since {
            return;
        }
        self.all.add(self.rows, now.since(self.since));
        // There is a bin of every moment, and bins become no wider below.
        self.series.at(Nanos(now.0 - 1));
        while self.since < now && self.rows > 0 {
            let end = self.series.end_of_bin(self.since).min(now);
            self.series.at(self.since).add(self.rows, end.since(self.since));
            self.since = end;
        }
        self.since = now;
    }

    /// Returns the parity debt from `start` to `end`, up to which it is counted. `rows_left` counts how often
    /// a row's parity became stale.
    pub(super) fn result(&self, start: Nanos, end: Nanos, rows_left: u64) -> ParityDebt {
        let (time, width) = (end.since(start).0, self.series.width().0);
        let mean = |row_time: u128, time: u64| (time > 0).then(|| row_time as f64 / time as f64);
        let bins = (0..).zip(self.series.bins()).map(|(n, bin): (u64, _)| DebtPoint {
            stale_rows_mean: mean(bin.row_time, width.min(time - n * width)).unwrap_or(0.0),
            stale_rows_max: bin.most,
        });
        ParityDebt {
            rows_mean: mean(self.all.row_time, time),
            rows_max: self.all.most,
            rows_left,
            mean_age: mean(self.all.row_time, rows_left),
            rows_owed: self.rows,
            start: start.0,
            width,
            bins: bins.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_span_has_its_rows_however_long_they_stay() {
        let mut debt = StaleRowDebt::new();
        debt.see(Nanos(5), 7);
        debt.restart(Nanos(1 << 20));
        let hour = Nanos((1 << 20) + 3_600_000_000_000);
        for (at, rows) in [(1 << 20, 7), ((1 << 20) + 300, 9), ((1 << 20) + 300, 2), (3 << 20, 0), (4 << 20, 1)] {
            debt.see(Nanos(at), rows);
        }
        debt.count(hour);
        let expected = 7 * 300 + 2 * ((2 << 20) - 300) + u128::from(hour.0 - (4 << 20));
        assert_eq!(debt.all, DebtBin { row_time: expected, most: 7 }, "9 stayed for no time");
        let bins = debt.series.bins();
        assert!((128..=256).contains(&bins.len()));
        assert_eq!(bins.iter().map(|bin| bin.row_time).sum::<u128>(), expected);
        let width = u128::from(debt.series.width().0);
        assert!(bins[1..bins.len() - 1].iter().all(|bin| *bin == DebtBin { row_time: width, most: 1 }));
        assert_eq!(bins[0].most, 7);
        let result = debt.result(Nanos(1 << 20), hour, 3);
        assert_eq!((result.rows_owed, result.rows_max, result.mean_age), (1, 7, Some(expected as f64 / 3.0)));
        assert!(result.bins[1..].iter().all(|bin| (bin.stale_rows_mean - 1.0).abs() < 1e-12), "the last, too");
    }
}
