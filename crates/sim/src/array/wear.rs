//! Estimates the lifetime of a cache device.

use crate::measure::record;

record! {
    /// Wear of the cache device, at the rate at which it was written from the first measured arrival to
    /// the last answer.
    pub struct CacheWear {
        endurance_bytes: u64 ["B"] "bytes that can be written to the cache device until it is worn out: the setting cache-endurance",
        worn_bytes: u64 ["B"] "bytes of that used up in served_time: of an ssd the pages programmed, those moved by its collections among them; of other devices the pages written",
        lifetime: Option<f64> ["years"] "years of 365 days until all of it is used up at that rate; null if none was used up"
            { figure "lifetime" Years More "time until the cache device is worn out at the rate at which it was written" ["Lifetime of the cache device", "years"] },
    }
}

/// Nanoseconds of a year.
const YEAR: f64 = 365.0 * 24.0 * 3600.0 * 1e9;

impl CacheWear {
    /// Of a device that can take so many bytes and took some in so many ns.
    pub(super) fn of(endurance_bytes: u64, worn_bytes: u64, time: u64) -> Self {
        let times = (worn_bytes > 0).then(|| endurance_bytes as f64 / worn_bytes as f64);
        Self { endurance_bytes, worn_bytes, lifetime: times.map(|times| times * time as f64 / YEAR) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_is_written_once_a_day_lasts_as_its_data_sheet_says() {
        // 1.6 TB, 3 drive writes a day for 5 years: 8,760 TB.
        let (capacity, day) = (1_600_000_000_000_u64, 86_400_000_000_000);
        let endurance = 3 * capacity * 365 * 5;
        let lifetime = |bytes| CacheWear::of(endurance, bytes, day).lifetime.expect("some was written");
        assert!((lifetime(3 * capacity) - 5.0).abs() < 1e-9);
        assert!((lifetime(capacity) - 15.0).abs() < 1e-9);
        assert_eq!(CacheWear::of(endurance, 0, day).lifetime, None);
    }
}
