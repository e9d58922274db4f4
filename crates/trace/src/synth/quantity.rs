//! The numbers with units in a specification: shares, sizes, times.

use std::fmt;
use std::str::FromStr;

use destage_plan::{Nanos, quantity};

use super::SynthError;

/// The whole, in the unit of [`PercentShare`].
pub(super) const MILLION: u32 = 1_000_000;

/// A share from 0 to 100 percent, in millionths. As text: percent with up to four decimals, such as
/// `20.5`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PercentShare(u32);

impl PercentShare {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Everything.
    pub const ALL: Self = Self(MILLION);

    /// So many millionths, at most a million.
    pub const fn from_millionths(n: u32) -> Option<Self> {
        if n <= MILLION { Some(Self(n)) } else { None }
    }

    /// So many whole percent, at most 100.
    pub const fn from_percent(n: u32) -> Option<Self> {
        if n <= 100 { Some(Self(n * 10_000)) } else { None }
    }

    /// The share in millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }
}

impl fmt::Display for PercentShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000, self.0 % 10_000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{rest:04}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl FromStr for PercentShare {
    type Err = SynthError;

    fn from_str(text: &str) -> Result<Self, SynthError> {
        quantity::decimal(text, 10_000)
            .ok()
            .and_then(|n| u32::try_from(n).ok())
            .and_then(Self::from_millionths)
            .ok_or_else(|| SynthError::new("share", text, "percent between 0 and 100 with up to four decimals"))
    }
}

/// A size in bytes, such as 4096 or 4KiB. `key` is what an error calls it.
pub fn parse_bytes(key: &'static str, text: &str) -> Result<u64, SynthError> {
    quantity::bytes(text).map_err(|right| SynthError::new(key, text, right))
}

/// A time with its unit: ns, us, ms, s, min or h.
pub(super) fn parse_duration(text: &str) -> Option<Nanos> {
    quantity::time(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact() {
        for (text, millionths) in [("0", 0), ("20.5", 205_000), ("100", 1_000_000), ("0.0001", 1), ("99.9900", 999_900)]
        {
            assert_eq!(text.parse::<PercentShare>().unwrap().millionths(), millionths);
        }
        assert_eq!("20.50".parse::<PercentShare>().unwrap().to_string(), "20.5");
        assert_eq!(PercentShare::ALL.to_string(), "100");
        assert_eq!(PercentShare::from_percent(7).unwrap().to_string(), "7");
        for text in ["", "-1", "100.0001", "1.23456", "1e1", ".5", "5.", "nan", "20,5", "99999999999999999999"] {
            let error = text.parse::<PercentShare>().unwrap_err();
            assert!(error.to_string().contains("percent between 0 and 100"), "{error}");
        }
        assert_eq!(PercentShare::from_millionths(1_000_001), None);
        assert_eq!(PercentShare::from_percent(101), None);
    }

    #[test]
    fn sizes_and_times_are_exact() {
        assert_eq!(parse_bytes("align", "4096").unwrap(), 4096);
        assert_eq!(parse_bytes("align", "4KiB").unwrap(), 4096);
        assert_eq!(parse_bytes("align", "3 TiB").unwrap(), 3 << 40);
        assert_eq!(parse_bytes("align", "0.5KiB").unwrap(), 512);
        for text in ["", "KiB", "4XB", "-4", "0.3B", "99999999999TiB", "4 KiB x"] {
            let error = parse_bytes("align", text).unwrap_err();
            assert!(error.to_string().starts_with("align = "), "{error}");
        }
        assert_eq!(parse_duration("1.5us"), Some(Nanos(1500)));
        assert_eq!(parse_duration("0.25 ms"), Some(Nanos(250_000)));
        assert_eq!(parse_duration("2h"), Some(Nanos(7_200_000_000_000)));
        assert_eq!(parse_duration("7ns"), Some(Nanos(7)));
        for text in ["", "7", "0.5ns", "1.2345us", "1d", "99999999999h", "ms"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
