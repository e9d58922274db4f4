//! Streams of random numbers, one for each property of a synthetic trace.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::PercentShare;
use super::quantity::MILLION;

/// Names the purpose of a stream: a constant that sets its seed apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum StreamPurpose {
    Kind = 0x6b69_6e64_0000_0001,
    Size = 0x7369_7a65_0000_0002,
    Volume = 0x766f_6c75_0000_0003,
    Sequence = 0x7365_7175_0000_0004,
    Address = 0x6164_6472_0000_0005,
    Scatter = 0x7363_6174_0000_0006,
    Arrival = 0x6172_7276_0000_0007,
}

/// A number that looks random and stands for this one: the finaliser of `SplitMix64`.
pub(super) const fn hash(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(super) struct RandomStream(Xoshiro256PlusPlus);

impl RandomStream {
    pub(super) fn new(seed: u64, component: StreamPurpose) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed ^ component as u64))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `n`, in equal shares up to `n / 2^64`.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// True in this share of the draws. What happens with a share happens with every larger one
    /// too.
    pub(super) fn happens(&mut self, share: PercentShare) -> bool {
        self.below(u64::from(MILLION)) < u64::from(share.millionths())
    }

    /// A multiple of 2^-53 in (0, 1].
    pub(super) fn unit(&mut self) -> f64 {
        // Both steps are exact.
        ((self.next() >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Nanoseconds, exponentially distributed with this mean (at most 2^53 / 40).
    pub(super) fn exponential(&mut self, mean_ns: u64) -> u64 {
        #[expect(clippy::cast_sign_loss, reason = "the logarithm is of at most 1")]
        let ns = (-libm::log(self.unit()) * mean_ns as f64 + 0.5) as u64;
        ns
    }
}
