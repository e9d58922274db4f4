//! Random numbers from a seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Draws random numbers; the same ones from the same seed.
pub struct TestRng(Xoshiro256PlusPlus);

impl TestRng {
    /// Starts the sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Draws any number.
    pub fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// Draws a number in `first..=last`.
    pub fn within(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }
}
