//! Ratios and rates, which there are none of where nothing was counted.

use destage_plan::Nanos;

/// Returns `part / whole`; nothing of nothing.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Returns how many of `count` there are per second; nothing where no time passed.
pub(crate) fn per_second(count: u64, time: Nanos) -> Option<f64> {
    (time > Nanos::ZERO).then(|| count as f64 / (time.0 as f64 / 1e9))
}
