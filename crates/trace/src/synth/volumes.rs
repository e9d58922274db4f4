//! Draws the volumes of requests.

use std::fmt;
use std::str::FromStr;

use super::random::RandomStream;
use super::{PercentShare, SynthError};

/// The volumes of a trace. As text: `4` (equal shares) or `4:50` (half of the requests on volume
/// 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynthVolumes {
    /// Counts the volumes, 1 to 65,536.
    pub count: u32,
    /// The share of volume 0; the others have equal shares of the rest. `None`: all have equal
    /// shares.
    pub first: Option<PercentShare>,
}

const KEY: &str = "volumes";

impl SynthVolumes {
    /// One volume.
    pub const ONE: Self = Self { count: 1, first: None };

    pub(super) fn check(&self) -> Result<(), SynthError> {
        if !(1..=1 << 16).contains(&self.count) {
            return Err(SynthError::new(KEY, self, "between 1 and 65536 volumes"));
        }
        if self.count == 1 && self.first.is_some_and(|share| share != PercentShare::ALL) {
            return Err(SynthError::new(KEY, self, "the only volume gets 100 %"));
        }
        Ok(())
    }

    pub(super) fn draw(&self, stream: &mut RandomStream) -> u32 {
        let count = u64::from(self.count);
        match self.first {
            _ if count == 1 => 0,
            None => stream.below(count) as u32,
            Some(share) if stream.happens(share) => 0,
            Some(_) => 1 + stream.below(count - 1) as u32,
        }
    }
}

impl fmt::Display for SynthVolumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first {
            Some(share) => write!(f, "{}:{share}", self.count),
            None => write!(f, "{}", self.count),
        }
    }
}

impl FromStr for SynthVolumes {
    type Err = SynthError;

    fn from_str(text: &str) -> Result<Self, SynthError> {
        let error = || SynthError::new(KEY, text, "COUNT or COUNT:SHARE, the share of volume 0 in percent");
        let (count, first) = match text.split_once(':') {
            Some((count, share)) => (count, Some(share.parse().map_err(|_| error())?)),
            None => (text, None),
        };
        let volumes = Self { count: count.parse().map_err(|_| error())?, first };
        volumes.check()?;
        Ok(volumes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_read() {
        assert_eq!("1".parse(), Ok(SynthVolumes::ONE));
        assert_eq!("4:50".parse(), Ok(SynthVolumes { count: 4, first: PercentShare::from_percent(50) }));
        assert_eq!("4:50".parse::<SynthVolumes>().unwrap().to_string(), "4:50");
        for text in ["", "0", "65537", "1:50", "4:101", "4:", "x"] {
            assert!(text.parse::<SynthVolumes>().unwrap_err().to_string().starts_with("volumes = "), "{text}");
        }
    }
}
