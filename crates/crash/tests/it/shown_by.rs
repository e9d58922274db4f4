//! Chooses the seeds at which a planted fault is looked for first.

use std::ops::Range;

use crate::share::is_soak;

/// Returns the seeds at which to look for a fault: those that have shown it before, and then all. The soak looks from the
/// first seed on, and so measures how many seeds a fault takes.
pub fn seeds<T: PartialEq>(shown_by: &[(T, u64)], fault: &T, all: Range<u64>) -> impl Iterator<Item = u64> + use<T> {
    let known = shown_by.iter().filter(|(of, seed)| !is_soak() && of == fault && all.contains(seed));
    let known: Vec<u64> = known.map(|(_, seed)| *seed).collect();
    known.into_iter().chain(all)
}
