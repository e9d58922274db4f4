//! Draws the sizes of requests.

use std::str::FromStr;

use super::random::RandomStream;
use super::{SynthError, parse_bytes};

/// Sizes and their weights. As text: `4KiB:70,8KiB:20,64KiB:10`; a single size needs no weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeMix {
    /// Bytes (1 to 4 GiB) and weight (at least 1) of each; 1 to 1,024 sizes.
    pub weights: Vec<(u64, u32)>,
}

const KEY: &str = "sizes";

impl SizeMix {
    /// Always this many bytes.
    pub fn fixed(bytes: u64) -> Self {
        Self { weights: vec![(bytes, 1)] }
    }

    pub(super) fn check(&self) -> Result<(), SynthError> {
        if !(1..=1024).contains(&self.weights.len()) {
            return Err(SynthError::new(KEY, format!("{} sizes", self.weights.len()), "between 1 and 1024 sizes"));
        }
        for &(bytes, weight) in &self.weights {
            if !(1..=1 << 32).contains(&bytes) {
                return Err(SynthError::new(KEY, bytes, "a size is between 1 B and 4 GiB"));
            }
            if weight == 0 {
                return Err(SynthError::new(KEY, format!("{bytes}:0"), "a weight is at least 1"));
            }
        }
        Ok(())
    }

    /// The largest size.
    pub(super) fn largest(&self) -> u64 {
        self.weights.iter().map(|&(bytes, _)| bytes).max().unwrap_or(0)
    }

    pub(super) fn draw(&self, stream: &mut RandomStream) -> u64 {
        let total = self.weights.iter().map(|&(_, weight)| u64::from(weight)).sum();
        let mut left = stream.below(total);
        for &(bytes, weight) in &self.weights {
            if left < u64::from(weight) {
                return bytes;
            }
            left -= u64::from(weight);
        }
        unreachable!("a draw is below the sum of the weights")
    }
}

impl FromStr for SizeMix {
    type Err = SynthError;

    fn from_str(text: &str) -> Result<Self, SynthError> {
        let mut weights = vec![];
        for part in text.split(',') {
            let weight_error = || SynthError::new(KEY, part, "SIZE:WEIGHT, the weight a whole number of at least 1");
            let (bytes, weight) = match part.split_once(':') {
                Some((bytes, weight)) => (bytes, weight.trim().parse().map_err(|_| weight_error())?),
                None if text.contains(',') => return Err(weight_error()),
                None => (part, 1),
            };
            weights.push((parse_bytes(KEY, bytes.trim())?, weight));
        }
        let mix = Self { weights };
        mix.check()?;
        Ok(mix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read() {
        let mix: SizeMix = "4KiB:70,8KiB:20, 64KiB:10".parse().unwrap();
        assert_eq!(mix.weights, [(4096, 70), (8192, 20), (65_536, 10)]);
        assert_eq!(mix.largest(), 65_536);
        assert_eq!("512".parse::<SizeMix>().unwrap(), SizeMix::fixed(512));
    }

    #[test]
    fn bad_mixes_are_named() {
        for (text, says) in [
            ("", "a number of bytes"),
            ("4KiB,8KiB", "SIZE:WEIGHT"),
            ("4KiB:70,8KiB:x", "SIZE:WEIGHT"),
            ("4KiB:70,8KiB:0", "weight is at least 1"),
            ("4XB:1", "a number of bytes"),
            ("0:1", "between 1 B and 4 GiB"),
            ("5GiB:1", "between 1 B and 4 GiB"),
            ("4KiB:1,", "SIZE:WEIGHT"),
        ] {
            let error = text.parse::<SizeMix>().unwrap_err().to_string();
            assert!(error.starts_with("sizes = ") && error.contains(says), "{text}: {error}");
        }
        assert!(SizeMix { weights: vec![] }.check().is_err());
        assert!(SizeMix { weights: vec![(1, 1); 1025] }.check().is_err());
    }
}
