//! The one source of chance: everything that a seed decides is drawn here.

use destage_exec::CutChoice;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Random numbers of one purpose.
#[derive(Clone, Debug)]
pub struct RandomDraws {
    random: Xoshiro256PlusPlus,
    cut: CutMode,
}

/// Selects how much survives a power failure of what was not flushed. Sectors that are drawn alone hardly ever lose or
/// keep much, so there are other ways.
#[derive(Clone, Copy, Debug)]
enum CutMode {
    Nothing,
    Everything,
    Pages,
    Sectors,
    /// All of some devices, nothing of the others.
    Devices(u64),
}

impl RandomDraws {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self { random: Xoshiro256PlusPlus::seed_from_u64(seed), cut: CutMode::Nothing }
    }

    /// The numbers of a part of what a seed decides, so that leaving another part out changes
    /// nothing in it.
    pub fn part(seed: u64, part: u64) -> Self {
        // Every purpose has numbers of its own: a new purpose then leaves the histories of all seeds as they were.
        Self::new(seed ^ part.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A number.
    pub fn draw(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // Multiplying keeps the high bits, without the bias of a remainder.
        ((u128::from(self.draw()) * u128::from(n)) >> 64) as u64
    }

    /// A number in a range, ends included.
    pub fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// True once in so many draws.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Draws how the next cut is to be.
    pub fn draw_cut(&mut self) -> &mut Self {
        self.cut = match self.below(8) {
            0 => CutMode::Nothing,
            1 => CutMode::Everything,
            // All or nothing of some devices is what real power failures look like: one cache survives, another
            // does not.
            2 | 3 => CutMode::Devices(self.draw()),
            4 => CutMode::Sectors,
            _ => CutMode::Pages,
        };
        self
    }
}

impl CutChoice for RandomDraws {
    fn page(&mut self, dev: usize, _: u64, all: u128) -> u128 {
        match self.cut {
            CutMode::Nothing => 0,
            CutMode::Everything => all,
            CutMode::Pages => all * u128::from(self.one_in(2)),
            CutMode::Sectors => all & (u128::from(self.draw()) << 64 | u128::from(self.draw())),
            CutMode::Devices(which) => all * u128::from(which >> dev & 1),
        }
    }

    fn nvram(&mut self, queued: usize) -> usize {
        self.below(queued as u64 + 1) as usize
    }
}
