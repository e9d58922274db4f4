//! Lengths of deltas where there are no bytes to make them of: by a distribution, as KDD's paper has
//! it (section IV-A; specs §9.4, §9.8.9), or of changes that lie as those of real writes do.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::encoded_len;
use crate::patterns::ChangePattern;

/// No delta is shorter, whatever the distribution says, in bytes.
const SHORTEST: u64 = 16;

/// Chooses the lengths of deltas. Shares are in hundredths of a percent of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeltaLengthRule {
    /// All are as long.
    Fixed {
        /// Sets the length.
        share: u32,
    },
    /// A normal distribution. What is shorter than 16 bytes or longer than a page is cut to that.
    Gaussian {
        /// Sets the mean length.
        mean: u32,
        /// Sets the standard deviation of the length.
        deviation: u32,
    },
    /// Takes the length that the shortest codec gives for generated changes.
    Changes {
        /// Selects the pattern of the changed bytes.
        pattern: ChangePattern,
        /// Sets the share of changed bytes.
        changed: u32,
    },
}

/// Hundredths of a percent in a whole.
const WHOLE: u32 = 10_000;

impl Default for DeltaLengthRule {
    /// As KDD's paper has it in the middle: a quarter of a page, and a quarter of that as deviation.
    fn default() -> Self {
        Self::Gaussian { mean: WHOLE / 4, deviation: WHOLE / 16 }
    }
}

/// Lengths of deltas, each a function of a seed, its page and its version.
#[derive(Clone, Debug)]
pub struct DrawnLengths {
    lengths: DeltaLengthRule,
    seed: u64,
    page_bytes: u32,
    /// A page of zeros and one of changes.
    zeros: Vec<u8>,
    changes: Vec<u8>,
}

impl DrawnLengths {
    /// For pages of so many bytes.
    ///
    /// # Panics
    /// If a share is more than a page.
    pub fn new(lengths: DeltaLengthRule, seed: u64, page_bytes: u32) -> Self {
        let (DeltaLengthRule::Fixed { share }
        | DeltaLengthRule::Gaussian { mean: share, .. }
        | DeltaLengthRule::Changes { changed: share, .. }) = lengths;
        assert!(share <= WHOLE, "{share} hundredths of a percent of a page");
        let page = if matches!(lengths, DeltaLengthRule::Changes { .. }) { page_bytes as usize } else { 0 };
        Self { lengths, seed, page_bytes, zeros: vec![0; page], changes: vec![0; page] }
    }

    /// The length in bytes of the delta of a page that had so many before, at most a page.
    pub fn of(&mut self, page: u64, version: u32) -> u32 {
        let bytes = |share: u32| u64::from(self.page_bytes) * u64::from(share) / u64::from(WHOLE);
        // Pages and versions are small, and neighbours are to have nothing in common.
        let seed = self.seed
            ^ page.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ u64::from(version).wrapping_mul(0xd1b5_4a32_d192_ed03).rotate_left(32);
        let length = match self.lengths {
            DeltaLengthRule::Fixed { share } => bytes(share),
            DeltaLengthRule::Gaussian { mean, deviation } => {
                // A generator for each version makes the length independent of the order of the questions.
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                // The sum of twelve numbers below 2^16 is as good as normal, of mean 6·2^16 and deviation 2^16.
                let four = |draw: u64| (0..4).map(|i| i64::from((draw >> (16 * i)) as u16)).sum::<i64>();
                let sum: i64 = (0..3).map(|_| four(random.next_u64())).sum();
                let share = (i64::from(mean) << 16) + (sum - (6 << 16)) * i64::from(deviation);
                // All is in integers, so that lengths are the same on every machine.
                let share = share.clamp(0, i64::from(WHOLE) << 16) as u64;
                (u128::from(self.page_bytes) * u128::from(share) / u128::from(u64::from(WHOLE) << 16)) as u64
            }
            DeltaLengthRule::Changes { pattern, changed } => {
                // Against zeros the changes are the new page, so that no base has to be made up.
                pattern.fill(bytes(changed) as usize, seed, &mut self.changes);
                encoded_len(&self.zeros, &self.changes) as u64
            }
        };
        length.clamp(SHORTEST.min(self.page_bytes.into()), self.page_bytes.into()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u32 = 4096;

    fn drawn(lengths: DeltaLengthRule) -> DrawnLengths {
        DrawnLengths::new(lengths, 7, PAGE)
    }

    fn mean_and_deviation(lengths: DeltaLengthRule) -> (f64, f64) {
        let mut drawn = drawn(lengths);
        let all: Vec<_> = (0..20_000).map(|n| f64::from(drawn.of(n % 100, (n / 100) as u32))).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|length| (length - mean).powi(2)).sum::<f64>() / all.len() as f64;
        (mean / f64::from(PAGE), variance.sqrt() / f64::from(PAGE))
    }

    #[test]
    fn lengths_have_the_distribution_that_is_asked_for() {
        for (mean, deviation) in [(2_500, 625), (5_000, 500), (1_200, 0)] {
            let found = mean_and_deviation(DeltaLengthRule::Gaussian { mean, deviation });
            let near = |found: f64, asked: u32| (found - f64::from(asked) / f64::from(WHOLE)).abs() < 0.002;
            assert!(near(found.0, mean) && near(found.1, deviation), "{mean}, {deviation}: {found:?}");
        }
        // Much of a distribution that is wider than its mean is high is cut.
        let mut wide = drawn(DeltaLengthRule::Gaussian { mean: 1_200, deviation: 5_000 });
        let all: Vec<_> = (0..2_000).map(|page| wide.of(page, 0)).collect();
        assert_eq!((all.iter().min(), all.iter().max()), (Some(&16), Some(&PAGE)));
    }

    #[test]
    fn changes_are_as_long_as_codecs_make_them() {
        // The table of docs/benchmarks.md.
        for (pattern, ratio) in [
            (ChangePattern::Runs, 0.132),
            (ChangePattern::OneRun, 0.117),
            (ChangePattern::Words, 0.117),
            (ChangePattern::Bytes, 0.225),
        ] {
            let (mean, _) = mean_and_deviation(DeltaLengthRule::Changes { pattern, changed: 1_000 });
            assert!((mean - ratio).abs() < 0.003, "{}: {mean}", pattern.name());
        }
        assert_eq!(drawn(DeltaLengthRule::Changes { pattern: ChangePattern::Bytes, changed: WHOLE }).of(1, 2), PAGE);
    }

    #[test]
    fn a_length_is_that_of_its_seed_page_and_version() {
        let of = |seed, page, version| DrawnLengths::new(DeltaLengthRule::default(), seed, PAGE).of(page, version);
        let all = [of(1, 2, 3), of(1, 2, 4), of(1, 3, 3), of(2, 2, 3)];
        let mut again = DrawnLengths::new(DeltaLengthRule::default(), 1, PAGE);
        assert_eq!([again.of(3, 3), again.of(2, 4), again.of(2, 3)], [all[2], all[1], all[0]]);
        assert!((0..4).all(|i| (0..i).all(|j| all[i] != all[j])), "{all:?}");
        assert_eq!(drawn(DeltaLengthRule::Fixed { share: 1_250 }).of(1, 2), 512);
    }
}
