//! Changes of pages that look like those of real writes, for tests, benchmarks and simulations that
//! need lengths of deltas: how long a delta is depends on how the changed bytes lie more than on
//! how many they are.
//!
//! The patterns are those by which delta codecs are usually compared: fields and records (runs),
//! one record or the end of a log (one run), counters and pointers (words), and what is worst for
//! all of them, single bytes. The same pattern, number, page length and seed give the same changes
//! on any machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Selects the pattern of a page's changed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangePattern {
    /// Runs of 16 to 64 bytes that begin anywhere. One that comes upon another goes on behind it,
    /// and one that comes to the end of the page goes on at its start.
    Runs,
    /// One run, which lies anywhere.
    OneRun,
    /// Words of eight bytes at multiples of eight. The last of them to change may change in part.
    Words,
    /// Single bytes that lie anywhere.
    Bytes,
}

impl ChangePattern {
    /// All that there are.
    pub const ALL: [Self; 4] = [Self::Runs, Self::OneRun, Self::Words, Self::Bytes];

    /// Returns the pattern's name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs of 16 to 64 B",
            Self::OneRun => "one run",
            Self::Words => "aligned words",
            Self::Bytes => "scattered bytes",
        }
    }

    /// Makes `changes` the exclusive or of a page's old and new content: exactly `changed` of its
    /// bytes are not 0, and each of those is any other with the same probability.
    ///
    /// # Panics
    /// If more bytes shall change than there are.
    pub fn fill(self, changed: usize, seed: u64, changes: &mut [u8]) {
        assert!(changed <= changes.len(), "{changed} bytes of {} cannot change", changes.len());
        let mut random = PatternRandom(Xoshiro256PlusPlus::seed_from_u64(seed));
        changes.fill(0);
        match self {
            Self::Runs => random.runs(changed, changes),
            Self::OneRun => {
                let at = random.below(changes.len() - changed + 1);
                changes[at..at + changed].fill_with(|| random.change());
            }
            Self::Words => random.units(8, changed, changes),
            Self::Bytes => random.units(1, changed, changes),
        }
    }
}

struct PatternRandom(Xoshiro256PlusPlus);

impl PatternRandom {
    /// A number below `n`, in equal shares up to `n / 2^64`.
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.0.next_u64()) * n as u128) >> 64) as usize
    }

    /// A byte that is not 0.
    fn change(&mut self) -> u8 {
        1 + self.below(255) as u8
    }

    fn runs(&mut self, mut left: usize, changes: &mut [u8]) {
        while left > 0 {
            let mut at = self.below(changes.len());
            let len = (16 + self.below(49)).min(left);
            left -= len;
            for _ in 0..len {
                // Runs may meet: each byte changes once, so that the number of changed bytes is exact.
                while changes[at] != 0 {
                    at = (at + 1) % changes.len();
                }
                changes[at] = self.change();
            }
        }
    }

    /// Changes units of `size` bytes, every choice of them with the same probability if the last is
    /// as long as the others.
    fn units(&mut self, size: usize, mut left: usize, changes: &mut [u8]) {
        let mut bytes = changes.len();
        for unit in changes.chunks_mut(size) {
            // As many as are needed, of as many as there are still: Knuth's selection sampling.
            let (needed, units) = (left.div_ceil(size), bytes.div_ceil(size));
            bytes -= unit.len();
            // The last unit may be short, so that the others must be chosen once too few bytes are left.
            if left > bytes || self.below(units) < needed {
                let len = unit.len().min(left);
                unit[..len].fill_with(|| self.change());
                left -= len;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pattern: ChangePattern, changed: usize, seed: u64, len: usize) -> Vec<u8> {
        let mut changes = vec![7; len];
        pattern.fill(changed, seed, &mut changes);
        changes
    }

    /// Lengths of the stretches of changed bytes.
    fn stretches(changes: &[u8]) -> Vec<usize> {
        changes.split(|byte| *byte == 0).map(<[u8]>::len).filter(|len| *len > 0).collect()
    }

    #[test]
    fn as_many_bytes_change_as_are_asked_for() {
        for pattern in ChangePattern::ALL {
            for len in [0, 1, 7, 8, 64, 100, 4095, 4096_usize] {
                for changed in [0, 1, len / 10, len / 2, len.saturating_sub(1), len] {
                    for seed in 0..20 {
                        let changed = changed.min(len);
                        let changes = filled(pattern, changed, seed, len);
                        let found = changes.iter().filter(|byte| **byte != 0).count();
                        assert_eq!(found, changed, "{pattern:?} of {len}, {seed}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_changes_lie_as_the_pattern_says() {
        let mean = |pattern| {
            let all: Vec<usize> = (0..200).flat_map(|seed| stretches(&filled(pattern, 409, seed, 4096))).collect();
            all.iter().sum::<usize>() as f64 / all.len() as f64
        };
        let means = ChangePattern::ALL.map(mean);
        // Ten runs of 40 on average, of which a few touch; 51 words, of which a tenth touches.
        assert!((38.0..48.0).contains(&means[0]), "{means:?}");
        assert!((408.9..409.1).contains(&means[1]), "{means:?}");
        assert!((8.5..9.2).contains(&means[2]), "{means:?}");
        assert!((1.09..1.13).contains(&means[3]), "{means:?}");
        for seed in 0..200 {
            let words = filled(ChangePattern::Words, 408, seed, 4096);
            assert!(words.chunks(8).all(|word| word.iter().all(|b| *b == 0) || word.iter().all(|b| *b != 0)));
        }
    }

    #[test]
    fn every_place_and_every_value_comes_up() {
        for pattern in ChangePattern::ALL {
            let (mut places, mut values) = ([0_u32; 64], [0_u32; 256]);
            for seed in 0..4000 {
                for (at, byte) in filled(pattern, 16, seed, 64).into_iter().enumerate().filter(|(_, byte)| *byte != 0) {
                    places[at] += 1;
                    values[usize::from(byte)] += 1;
                }
            }
            // A run that cannot leave the page covers its ends less often.
            let least = if pattern == ChangePattern::OneRun { 50 } else { 850 };
            assert!(places.iter().all(|count| (least..1_500).contains(count)), "{pattern:?}: {places:?}");
            assert_eq!(values[0], 0);
            assert!(values[1..].iter().all(|count| (170..340).contains(count)), "{pattern:?}: {values:?}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_changes_everywhere() {
        let sums = ChangePattern::ALL.map(|pattern| {
            let changes = filled(pattern, 409, 1, 4096);
            changes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(*byte))
        });
        let expected: [u64; 4] =
            [0xd84c_6133_c852_fa5b, 0xcf6a_8059_ed71_fc18, 0x8713_2a32_6144_07d7, 0xbe3d_cdda_aa55_24fc];
        assert_eq!(sums, expected);
    }
}
