//! Measures how unevenly something is spread.

/// Population standard deviation / mean; `None` where the mean is zero.
pub fn variation(values: impl Iterator<Item = u64> + Clone) -> Option<f64> {
    let n = values.clone().count() as f64;
    let mean = values.clone().sum::<u64>() as f64 / n;
    if mean == 0.0 || mean.is_nan() {
        return None;
    }
    let variance = values.map(|v| (v as f64 - mean) * (v as f64 - mean)).sum::<f64>() / n;
    Some(variance.sqrt() / mean)
}
