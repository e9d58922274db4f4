//! The number of histories that a test looks at. The shares of the soak are chosen by what each takes.

use std::ops::Range;

/// Returns the number that an environment variable has, if it is set.
pub fn number_of(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is \"{text}\"; expected a number")))
}

/// Returns true in the soak.
pub fn is_soak() -> bool {
    number_of("DESTAGE_SOAK").is_some_and(|times| times > 0)
}

/// Returns the share of `make test`, or that of the soak, as many times as `DESTAGE_SOAK` says.
pub fn share_of(test: u64, soak: u64) -> u64 {
    match number_of("DESTAGE_SOAK") {
        None | Some(0) => test,
        Some(times) => soak * times,
    }
}

/// Keeps one of so many cells, beginning with this one; in the soak all. Tests of the same cells begin with different ones.
pub fn in_turn<T>(cells: impl Iterator<Item = T>, first: usize, of: usize) -> impl Iterator<Item = T> {
    let (first, of) = if is_soak() { (0, 1) } else { (first, of) };
    cells.skip(first).step_by(of)
}

/// Returns `CRASH_SEEDS` seeds from `CRASH_FROM` on, or the [share](share_of) from 0 on.
pub fn seeds_of(test: u64, soak: u64) -> Range<u64> {
    seeds_from(0, test, soak)
}

/// Returns seeds as [`seeds_of`] does, from this one on unless `CRASH_FROM` is set.
pub fn seeds_from(first: u64, test: u64, soak: u64) -> Range<u64> {
    let from = number_of("CRASH_FROM").unwrap_or(first);
    from..from + number_of("CRASH_SEEDS").unwrap_or_else(|| share_of(test, soak))
}
