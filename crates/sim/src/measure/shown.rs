//! Formats figures of results for people.

use destage_plan::quantity::{show_count, show_time};

/// Says which of two values is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BetterValue {
    /// The smaller.
    Less,
    /// The larger.
    More,
    /// Neither of them.
    Neither,
}

/// Chooses the format of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueFormat {
    /// A whole number.
    Count,
    /// A time; the value is in ns.
    Time,
    /// A share, as a percentage.
    Percent,
    /// A number with decimals.
    Decimals,
    /// Bytes in decimal units.
    Bytes,
    /// Bytes per second, as MB/s.
    Rate,
    /// A time in years, which may be days or hours.
    Years,
}

impl ValueFormat {
    /// Returns the word that the page's scripts use.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Time => "time",
            Self::Percent => "percent",
            Self::Decimals => "decimal",
            Self::Bytes => "bytes",
            Self::Rate => "rate",
            Self::Years => "years",
        }
    }

    /// Returns the format of that word.
    pub fn by_word(word: &str) -> Option<Self> {
        let all = [Self::Count, Self::Time, Self::Percent, Self::Decimals, Self::Bytes, Self::Rate, Self::Years];
        all.into_iter().find(|show| show.word() == word)
    }

    /// Formats a value; `places` are the decimals of values that are neither counts, times nor sizes.
    pub fn text(self, value: f64, places: usize) -> String {
        match self {
            Self::Count => show_count(value as u64),
            Self::Time => show_time(value),
            Self::Percent => format!("{:.places$}", value * 100.0),
            Self::Decimals => format!("{value:.places$}"),
            Self::Rate => format!("{:.places$}", value / 1e6),
            Self::Years => {
                let units = [(365.0 * 24.0, "years"), (24.0, "days")];
                let hours = value * units[0].0;
                let fitting = units.iter().find(|(unit, _)| hours >= *unit);
                let (number, unit) = fitting.map_or((hours, "hours"), |(unit, name)| (hours / unit, name));
                let number = if number < 1000.0 { format!("{number:.1}") } else { show_count(number as u64) };
                format!("{number} {unit}")
            }
            Self::Bytes => {
                let units = [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
                let fitting = units.iter().find(|(size, _)| value >= *size);
                fitting.map_or_else(|| format!("{value:.0} B"), |(size, unit)| format!("{:.1} {unit}", value / size))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_shown_in_the_unit_that_fits() {
        let shown = [2e4 / 8760.0, 12_345.6, 0.25, 1.0 / 8760.0].map(|years| ValueFormat::Years.text(years, 2));
        assert_eq!(shown, ["2.3 years", "12,345 years", "91.2 days", "1.0 hours"]);
    }

    #[test]
    fn sizes_are_shown_in_decimal_units() {
        let shown = [999.0, 1500.0, 2.5e15].map(|bytes| ValueFormat::Bytes.text(bytes, 2));
        assert_eq!(shown, ["999 B", "1.5 kB", "2.5 PB"]);
    }
}
