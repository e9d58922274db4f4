//! Sizes, times, shares and factors as people write them, in settings, specifications and scenarios
//! alike. Everything is exact: a value that is no whole number of the smallest unit is refused.

use crate::Nanos;

/// Splits `12.5MiB` into (125, 1, "MiB"): digits without the point, how many stood behind it, and
/// the unit.
fn split(text: &str) -> Option<(u64, u32, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
        return None;
    }
    // Binary floating point cannot hold most decimals, so digits and places are kept apart.
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, fraction.len() as u32, unit.trim()))
}

/// `digits / 10^places * factor`, if that is a whole number.
fn scale(digits: u64, places: u32, factor: u64) -> Option<u64> {
    // The product may not fit in 64 bits where the quotient does.
    let product = u128::from(digits) * u128::from(factor);
    let divisor = 10_u128.checked_pow(places)?;
    (product % divisor == 0).then(|| u64::try_from(product / divisor).ok()).flatten()
}

/// A number of bytes: `4096`, `4KiB`, `1.5 MiB`, `80GB`. Capitals do not matter: `K`, `M`, `G`, `T`
/// and the same with `iB` are powers of 1024, with `B` alone powers of 1000.
pub fn bytes(text: &str) -> Result<u64, String> {
    let parsed = split(text).and_then(|(digits, places, unit)| {
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return None,
        };
        scale(digits, places, factor)
    });
    parsed.ok_or_else(|| "a number of bytes such as 4096, 4KiB, 8MiB or 80GB".into())
}

/// A time: `200us`, `1.5ms`, `60s`, `2h`, `0`.
pub fn time(text: &str) -> Result<Nanos, String> {
    let parsed = split(text).and_then(|(digits, places, unit)| {
        let factor = match unit {
            "" if digits == 0 => 1,
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        // Times are compared with sums of others: keep them far from the end of the range.
        scale(digits, places, factor).filter(|&ns| ns < u64::MAX / 4).map(Nanos)
    });
    parsed.ok_or_else(|| "a time with its unit, such as 25us, 1.5ms, 60s or 2h".into())
}

/// A share in hundredths of a percent: `15%`, `15`, `0.5%`.
pub fn basis_points(text: &str) -> Result<u32, String> {
    let parsed = split(text).and_then(|(digits, places, unit)| {
        if !matches!(unit, "" | "%") {
            return None;
        }
        scale(digits, places, 100).filter(|&bp| bp <= 10_000).map(|bp| bp as u32)
    });
    parsed.ok_or_else(|| "a share between 0% and 100% with at most two decimals".into())
}

/// A decimal number times `factor`, such as nanoseconds in picoseconds.
pub fn decimal(text: &str, factor: u64) -> Result<u64, String> {
    let parsed = split(text).filter(|(_, _, unit)| unit.is_empty());
    parsed
        .and_then(|(digits, places, _)| scale(digits, places, factor))
        .ok_or_else(|| "a number with at most three decimals".into())
}

/// A positive factor as a fraction: `2`, `0.25`.
pub fn factor(text: &str) -> Result<(u64, u64), String> {
    let parsed = split(text).filter(|&(digits, places, unit)| unit.is_empty() && digits > 0 && places <= 9);
    parsed
        .map(|(digits, places, _)| (digits, 10_u64.pow(places)))
        .ok_or_else(|| "a number above 0 such as 2 or 0.25".into())
}

/// A whole number.
pub fn count(text: &str) -> Result<u64, String> {
    let parsed = split(text).filter(|&(_, places, unit)| places == 0 && unit.is_empty());
    parsed.map(|(digits, _, _)| digits).ok_or_else(|| "a whole number".into())
}

/// A whole number below 2^32.
pub fn count32(text: &str) -> Result<u32, String> {
    count(text).ok().and_then(|n| u32::try_from(n).ok()).ok_or_else(|| "a whole number below 2^32".into())
}

/// A switch.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" | "yes" => Ok(true),
        "false" | "off" | "no" => Ok(false),
        _ => Err("true or false".into()),
    }
}

/// Returns bytes for display, exactly: in the largest binary unit of which they are a whole number of hundredths.
pub fn show_bytes(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let shown = units.iter().filter(|(size, _)| bytes >= *size).find_map(|(size, unit)| {
        let hundredths = u128::from(bytes) * 100;
        let (whole, rest) = (bytes / size, hundredths / u128::from(*size) % 100);
        match (hundredths.is_multiple_of(u128::from(*size)), rest) {
            (false, _) => None,
            (true, 0) => Some(format!("{whole} {unit}")),
            (true, tenths) if tenths.is_multiple_of(10) => Some(format!("{whole}.{} {unit}", tenths / 10)),
            (true, hundredths) => Some(format!("{whole}.{hundredths:02} {unit}")),
        }
    });
    shown.unwrap_or_else(|| format!("{bytes} B"))
}

/// A device's capacity for display: as [`show_bytes`] where that is a short number, in decimal units where it is not, as
/// drives are sold.
pub fn show_capacity(bytes: u64) -> String {
    let exact = show_bytes(bytes);
    if exact.find(' ').is_some_and(|digits| digits <= 4) {
        return exact;
    }
    let (value, unit) = match bytes as f64 {
        bytes if bytes < 1e6 => (bytes / 1e3, "kB"),
        bytes if bytes < 1e9 => (bytes / 1e6, "MB"),
        bytes if bytes < 1e12 => (bytes / 1e9, "GB"),
        bytes => (bytes / 1e12, "TB"),
    };
    format!("{value:.decimals$} {unit}", decimals = if value < 10.0 { 3 } else { 1 })
}

/// Nanoseconds for display, with four significant digits.
pub fn show_time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let decimals = match value {
        v if v >= 1000.0 || unit == "ns" => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$} {unit}")
}

/// A count with a comma every three digits.
pub fn show_count(n: u64) -> String {
    let digits = n.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact_or_refused() {
        assert_eq!(bytes("4KiB"), Ok(4096));
        assert_eq!(bytes("1.5 MiB"), Ok(3 << 19));
        assert_eq!(bytes("80GB"), Ok(80_000_000_000));
        assert_eq!(bytes("1_048_576"), Ok(1 << 20));
        let alike =
            [("64k", "64KiB"), ("512mb", "512MB"), ("1gb", "1GB"), ("1g", "1GiB"), ("2 tib", "2T"), ("8b", "8")];
        for (one, other) in alike {
            assert_eq!(bytes(one), bytes(other), "{one}");
        }
        assert_eq!((bytes("1gb"), bytes("1g"), bytes("1Kb")), (Ok(1_000_000_000), Ok(1 << 30), Ok(1000)));
        for wrong in ["", "MiB", "4XB", "1.", "0.3B", "1.2.3K", "-4", "99999999999999999999"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(time("1.5ms"), Ok(Nanos(1_500_000)));
        assert_eq!(time("0"), Ok(Nanos(0)));
        assert!(time("25").is_err());
        assert!(time("0.5ns").is_err());
        assert_eq!(basis_points("15%"), Ok(1500));
        assert_eq!(basis_points("0.25%"), Ok(25));
        assert!(basis_points("101%").is_err());
        assert_eq!(decimal("2.5", 1000), Ok(2500));
        assert_eq!(factor("0.25"), Ok((25, 100)));
        assert!(factor("0").is_err());
        let shown = [(3 << 19, "1.5 MiB"), (12_800 << 10, "12.5 MiB"), (5 << 18, "1.25 MiB"), (1088 << 10, "1088 KiB")];
        for (size, text) in
            shown.into_iter().chain([(4096, "4 KiB"), (1_000, "1000 B"), (0, "0 B"), (1 << 40, "1 TiB")])
        {
            assert_eq!((show_bytes(size).as_str(), bytes(text)), (text, Ok(size)));
        }
        assert_eq!(show_capacity(8 << 30), "8 GiB");
        assert_eq!(show_capacity(1_007_104_960 << 10), "1.031 TB");
        assert_eq!(show_capacity(73_407_865_856), "73.4 GB");
        assert_eq!(show_time(1_234_567.0), "1.235 ms");
        assert_eq!(show_count(1_234_567), "1,234,567");
    }
}
