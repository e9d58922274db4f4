//! The numbers with units in a specification: shares, sizes, times. All are read exactly, without floating point.

use std::fmt;
use std::str::FromStr;

use destage_plan::Nanos;

use super::SynthError;

/// The whole, in the unit of [`Share`].
pub(super) const MILLION: u32 = 1_000_000;

/// A share from 0 to 100 percent, in millionths. As text: percent with up to four decimals, such as `20.5`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

impl Share {
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

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000, self.0 % 10_000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{rest:04}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl FromStr for Share {
    type Err = SynthError;

    fn from_str(text: &str) -> Result<Self, SynthError> {
        decimal(text, 10_000)
            .and_then(|n| u32::try_from(n).ok())
            .and_then(Self::from_millionths)
            .ok_or_else(|| SynthError::new("share", text, "percent between 0 and 100 with up to four decimals"))
    }
}

/// A decimal number times `scale`, if that is an integer.
fn decimal(text: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let mut sum = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.bytes() {
        let digit = u64::from(digit - b'0');
        if digit != 0 && !place.is_multiple_of(10) {
            return None;
        }
        place /= 10;
        sum = sum.checked_add(digit * place)?;
    }
    Some(sum)
}

/// A number and the unit after it.
fn number_and_unit(text: &str) -> (&str, &str) {
    let unit = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    (text[..unit].trim_end(), &text[unit..])
}

/// A size in bytes: a number alone or with B, KiB, MiB, GiB or TiB. `key` is what an error calls it.
pub fn parse_bytes(key: &'static str, text: &str) -> Result<u64, SynthError> {
    let (number, unit) = number_and_unit(text);
    let scale = match unit {
        "" | "B" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        "TiB" => Some(1 << 40),
        _ => None,
    };
    scale.and_then(|scale| number.parse::<u64>().ok()?.checked_mul(scale)).ok_or_else(|| {
        SynthError::new(key, text, "a whole number of bytes, alone or with the unit B, KiB, MiB, GiB or TiB")
    })
}

/// A time with its unit: ns, us, ms, s, min or h.
pub(super) fn parse_duration(text: &str) -> Option<Nanos> {
    let (number, unit) = number_and_unit(text);
    let scale = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    decimal(number, scale).map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact() {
        for (text, millionths) in [("0", 0), ("20.5", 205_000), ("100", 1_000_000), ("0.0001", 1), ("99.9900", 999_900)]
        {
            assert_eq!(text.parse::<Share>().unwrap().millionths(), millionths);
        }
        assert_eq!("20.50".parse::<Share>().unwrap().to_string(), "20.5");
        assert_eq!(Share::ALL.to_string(), "100");
        assert_eq!(Share::from_percent(7).unwrap().to_string(), "7");
        for text in ["", "-1", "100.0001", "1.23456", "1e1", ".5", "5.", "nan", "20,5", "1 ", "99999999999999999999"] {
            let error = text.parse::<Share>().unwrap_err();
            assert!(error.to_string().contains("percent between 0 and 100"), "{error}");
        }
        assert_eq!(Share::from_millionths(1_000_001), None);
        assert_eq!(Share::from_percent(101), None);
    }

    #[test]
    fn sizes_and_times_are_exact() {
        assert_eq!(parse_bytes("align", "4096").unwrap(), 4096);
        assert_eq!(parse_bytes("align", "4KiB").unwrap(), 4096);
        assert_eq!(parse_bytes("align", "3 TiB").unwrap(), 3 << 40);
        for text in ["", "KiB", "4k", "4KB", "-4", "0.5KiB", "99999999999TiB", "4 KiB x"] {
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
