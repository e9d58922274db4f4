//! Reads and writes the values that settings of several owners have.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use destage_plan::Nanos;

use crate::path_text;
use crate::quantity as q;

type ParsedValue<T> = Result<T, String>;

/// The longest step of a device, of the NVRAM or of the processor: a second, so that sums of them
/// stay in range.
const LONGEST_STEP: Nanos = Nanos(1_000_000_000);
/// The same of what is counted per page.
const LONGEST_PAGE: Nanos = Nanos(10_000_000);

/// Takes the text of a file's name.
#[expect(clippy::unnecessary_wraps, reason = "settings are read by functions of this type")]
pub(crate) fn path(text: &str) -> ParsedValue<PathBuf> {
    Ok(path_text::path(text))
}

/// Takes what the type reads itself.
pub(crate) fn parsed<T: FromStr<Err: fmt::Display>>(text: &str) -> ParsedValue<T> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// Takes one of some words.
pub(crate) fn word<T: Copy>(text: &str, choices: &[(&str, T)]) -> ParsedValue<T> {
    choices.iter().find(|(word, _)| *word == text).map(|&(_, choice)| choice).ok_or_else(|| {
        let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
        format!("one of {}", words.join(", "))
    })
}

/// Takes a number of at least 1.
pub(crate) fn positive(text: &str) -> ParsedValue<u64> {
    q::count(text).ok().filter(|&n| n > 0).ok_or_else(|| "a whole number of at least 1".into())
}

/// Takes a number with up to three decimals, in thousandths.
pub(crate) fn thousandths(text: &str) -> ParsedValue<u64> {
    q::decimal(text, 1000)
}

/// Takes how long a step may last.
pub(crate) fn step_time(text: &str) -> ParsedValue<Nanos> {
    bounded(text, LONGEST_STEP)
}

/// Takes how long a page may last.
pub(crate) fn page_time(text: &str) -> ParsedValue<Nanos> {
    bounded(text, LONGEST_PAGE)
}

fn bounded(text: &str, most: Nanos) -> ParsedValue<Nanos> {
    match q::time(text) {
        Ok(time) if time > most => Err(format!("at most {}", q::show_time(most.0 as f64))),
        time => time,
    }
}

/// Writes a time exactly.
pub(crate) fn time_text(Nanos(ns): Nanos) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let fitting = units.iter().find(|(unit, _)| ns > 0 && ns.is_multiple_of(*unit));
    fitting.map_or_else(|| format!("{ns}ns"), |(unit, name)| format!("{}{name}", ns / unit))
}

/// Writes a number of hundredths, or of other parts of one, with decimals.
pub(crate) fn decimal_text(value: u64, hundred: u64) -> String {
    let text = format!("{}.{:0width$}", value / hundred, value % hundred, width = hundred.ilog10() as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_exactly() {
        assert_eq!(
            [0, 125, 1_000, 1_500_000, 8_333_333, 2_000_000_000].map(|ns| time_text(Nanos(ns))),
            ["0ns", "125ns", "1us", "1500us", "8333333ns", "2s"]
        );
        assert_eq!(
            [(1_500, 100), (1_525, 100), (1_250, 1_000), (0, 100)].map(|(v, h)| decimal_text(v, h)),
            ["15", "15.25", "1.25", "0"]
        );
    }
}
