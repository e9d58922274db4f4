//! Loads drives alone as measurements of real ones do.

mod latency;
mod throughput;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

pub use latency::{LoadFigures, OfferedLoad, ResponseTimes};
pub use throughput::{WriteDraw, most_writes};

/// Draws an index below `bound`.
fn below(random: &mut Xoshiro256PlusPlus, bound: u32) -> u32 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u32
}

/// Draws a number in (0, 1].
fn unit(random: &mut Xoshiro256PlusPlus) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}
