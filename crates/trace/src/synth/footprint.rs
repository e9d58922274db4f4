//! Where requests go.

use std::fmt;
use std::str::FromStr;

use super::quantity::MILLION;
use super::random::{Component, Stream};
use super::zipf::Zipf;
use super::{Share, SynthError};

/// How accesses spread over a volume's slots (pieces of `align` bytes). As text: `uniform`, `zipf:0.99`,
/// `zipf:0.99,scattered`, or `hot-cold:20,80`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Footprint {
    /// All slots alike.
    Uniform,
    /// The k-th most frequent slot has a weight of `1 / k^alpha`.
    Zipf {
        /// The exponent, 0 to 10.
        alpha: f64,
        /// The frequent slots lie all over the volume (by a permutation that depends on the seed); else in order of
        /// their frequency at its beginning.
        scattered: bool,
    },
    /// The first slots of a volume, a share of its space, get a share of the accesses; within and without all slots are
    /// alike. A volume needs 2 slots.
    HotCold {
        /// The hot share of the space, more than 0 and less than 100 %.
        space: Share,
        /// The share of the accesses that goes there.
        accesses: Share,
    },
}

const KEY: &str = "footprint";
const MAX_SLOTS: u64 = 1 << 48;

impl Footprint {
    fn check_parameters(&self) -> Result<(), SynthError> {
        match *self {
            Self::Zipf { alpha, .. } if !(0.0..=10.0).contains(&alpha) => {
                Err(SynthError::new(KEY, self, "the exponent is between 0 and 10"))
            }
            Self::HotCold { space: Share::NONE | Share::ALL, .. } => {
                Err(SynthError::new(KEY, self, "the hot share of the space is more than 0 and less than 100"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check(&self, slots: u64) -> Result<(), SynthError> {
        self.check_parameters()?;
        if slots > MAX_SLOTS {
            return Err(SynthError::new("space", format!("{slots} times align"), "at most 2^48 times align"));
        }
        if slots < 2 && matches!(self, Self::HotCold { .. }) {
            return Err(SynthError::new(KEY, self, "space must be at least 2 times align"));
        }
        Ok(())
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => write!(f, "uniform"),
            Self::Zipf { alpha, scattered } => write!(f, "zipf:{alpha}{}", if *scattered { ",scattered" } else { "" }),
            Self::HotCold { space, accesses } => write!(f, "hot-cold:{space},{accesses}"),
        }
    }
}

impl FromStr for Footprint {
    type Err = SynthError;

    fn from_str(text: &str) -> Result<Self, SynthError> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let parts: Vec<&str> = rest.split(',').map(str::trim).collect();
        let footprint = match (kind, &parts[..]) {
            ("uniform", [""]) => Some(Self::Uniform),
            ("zipf", [alpha]) => alpha.parse().ok().map(|alpha| Self::Zipf { alpha, scattered: false }),
            ("zipf", [alpha, "scattered"]) => alpha.parse().ok().map(|alpha| Self::Zipf { alpha, scattered: true }),
            ("hot-cold", [space, accesses]) => match (space.parse(), accesses.parse()) {
                (Ok(space), Ok(accesses)) => Some(Self::HotCold { space, accesses }),
                _ => None,
            },
            _ => None,
        };
        let Some(footprint) = footprint else {
            let allowed = "uniform, zipf:ALPHA, zipf:ALPHA,scattered or hot-cold:SPACE,ACCESSES (percent)";
            return Err(SynthError::new(KEY, text, allowed));
        };
        footprint.check_parameters()?;
        Ok(footprint)
    }
}

/// Gives one slot after another.
pub(super) struct Addresses {
    stream: Stream,
    slots: u64,
    kind: Kind,
}

enum Kind {
    Uniform,
    Zipf(Zipf, Option<Permutation>),
    HotCold { hot: u64, accesses: Share },
}

impl Addresses {
    /// For a footprint that [`Footprint::check`] accepts for this number of slots.
    pub(super) fn new(footprint: Footprint, slots: u64, seed: u64) -> Self {
        let kind = match footprint {
            Footprint::Uniform => Kind::Uniform,
            Footprint::Zipf { alpha, scattered } => {
                Kind::Zipf(Zipf::new(slots, alpha), scattered.then(|| Permutation::new(slots, seed)))
            }
            Footprint::HotCold { space, accesses } => {
                let exact = u128::from(slots) * u128::from(space.millionths());
                let rounded = (exact + u128::from(MILLION / 2)) / u128::from(MILLION);
                Kind::HotCold { hot: (rounded as u64).clamp(1, slots - 1), accesses }
            }
        };
        Self { stream: Stream::new(seed, Component::Address), slots, kind }
    }

    pub(super) fn draw(&mut self) -> u64 {
        match &self.kind {
            Kind::Uniform => self.stream.below(self.slots),
            Kind::Zipf(zipf, scatter) => {
                let rank = zipf.draw(&mut self.stream);
                scatter.as_ref().map_or(rank, |permutation| permutation.of(rank))
            }
            &Kind::HotCold { hot, accesses } => {
                if self.stream.happens(accesses) {
                    self.stream.below(hot)
                } else {
                    hot + self.stream.below(self.slots - hot)
                }
            }
        }
    }
}

/// A permutation of the numbers below n: a bijective hash of as many bits as n needs, repeated until its result is below
/// n (cycle walking), which takes fewer than two steps on average.
struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 4],
}

impl Permutation {
    fn new(n: u64, seed: u64) -> Self {
        let bits = (64 - (n - 1).leading_zeros()).max(1);
        let mut stream = Stream::new(seed, Component::Scatter);
        Self { n, mask: u64::MAX >> (64 - bits), shift: bits.div_ceil(2), keys: std::array::from_fn(|_| stream.next()) }
    }

    fn of(&self, rank: u64) -> u64 {
        let mut x = rank;
        loop {
            for key in self.keys {
                // Each step can be undone within the mask: adding, multiplying by an odd number, and the shift.
                x = x.wrapping_add(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprints_are_read_and_written() {
        for text in ["uniform", "zipf:0.99", "zipf:1,scattered", "hot-cold:20,80", "hot-cold:0.5,99.5"] {
            assert_eq!(text.parse::<Footprint>().unwrap().to_string(), text);
        }
        for text in
            ["", "uniform:1", "zipf", "zipf:-1", "zipf:11", "zipf:nan", "zipf:1,near", "hot-cold:0,80", "hot-cold:20"]
        {
            assert!(text.parse::<Footprint>().unwrap_err().to_string().starts_with("footprint = "), "{text}");
        }
    }

    #[test]
    fn a_permutation_hits_every_slot_once() {
        for n in (1..=130).chain([1000, 4096, 4097]) {
            let permutation = Permutation::new(n, 5);
            let mut seen = vec![false; n as usize];
            for rank in 0..n {
                assert!(!std::mem::replace(&mut seen[permutation.of(rank) as usize], true));
            }
        }
    }

    #[test]
    fn a_permutation_parts_neighbours() {
        let permutation = Permutation::new(1_000_000, 5);
        let near = (0..1000).filter(|&rank| permutation.of(rank).abs_diff(permutation.of(rank + 1)) < 1000).count();
        assert!(near < 20, "{near} of 1000 neighbours stay within a thousandth of the space");
    }
}
