//! Linear-threshold destaging: the fuller the cache, the more is destaged at a time (Varma & Jacobson;
//! specs §8.1).

/// Decides how much is destaged at each occupancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DestageThreshold {
    /// Below this occupancy nothing is, in hundredths of a percent.
    pub(super) low: u32,
    /// From this on as much as may be, in hundredths of a percent.
    pub(super) high: u32,
    /// Destages under way at most.
    pub(super) most: u32,
}

/// The whole of an occupancy.
pub(super) const WHOLE: u32 = 10_000;

impl DestageThreshold {
    /// Destages that may be under way if so many pages of so many are held.
    pub(super) fn allowed(&self, held: u64, capacity: u64) -> u32 {
        // In 128 bits, since products of pages, shares and counts may not fit into
        // 64.
        let (held, capacity) = (u128::from(held) * u128::from(WHOLE), u128::from(capacity));
        let (low, high) = (u128::from(self.low) * capacity, u128::from(self.high) * capacity);
        if held < low {
            0
        } else if held >= high {
            self.most
        } else {
            // Rounded up, so that at least one goes once the threshold is reached.
            // Floating point gives another number here (specs §8.10.6).
            let part = (u128::from(self.most) * (held - low)).div_ceil(high - low) as u32;
            part.max(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_specs_8_1() {
        let threshold = DestageThreshold { low: 8_000, high: 9_000, most: 20 };
        assert_eq!([79, 80, 85, 90].map(|held| threshold.allowed(held, 100)), [0, 1, 10, 20]);
    }

    /// 54 of 72 pages with 0.7 and 0.9: doubles say 6 (specs §8.10.6).
    #[test]
    fn fractions_are_exact() {
        let threshold = DestageThreshold { low: 7_000, high: 9_000, most: 20 };
        assert_eq!(threshold.allowed(54, 72), 5);
    }

    #[test]
    fn at_no_threshold_everything_goes_at_once() {
        let threshold = DestageThreshold { low: 0, high: 0, most: 3 };
        assert_eq!([0, 1, 100].map(|held| threshold.allowed(held, 100)), [3; 3]);
    }
}
