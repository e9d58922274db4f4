//! Sizes as people say them.

use destage_scenario::quantity::show_bytes;

/// Returns bytes for display in the largest binary unit, with three to four significant digits: as people say a size.
pub fn show_size(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let exact = show_bytes(bytes);
    let Some((size, unit)) = units.into_iter().find(|(size, _)| bytes >= *size) else { return exact };
    if exact.ends_with(unit) {
        return exact;
    }
    let value = bytes as f64 / size as f64;
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 1000.0) };
    let digits = format!("{value:.decimals$}");
    let digits = if decimals > 0 { digits.trim_end_matches('0').trim_end_matches('.') } else { digits.as_str() };
    format!("{digits} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_few_digits() {
        let said = [
            (683_128 << 10, "667.1 MiB"),
            (1088 << 10, "1.06 MiB"),
            (12_800 << 10, "12.5 MiB"),
            (1_048_575, "1024 KiB"),
        ];
        for (size, text) in
            said.into_iter().chain([(999, "999 B"), (64 << 20, "64 MiB"), ((100 << 20) + 4096, "100 MiB")])
        {
            assert_eq!(show_size(size), text);
        }
    }
}
