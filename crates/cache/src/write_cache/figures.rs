//! Counts what the write caches do, beside [`CacheCounts`](crate::CacheCounts).

use crate::CacheFigure;
use crate::synchroniser::ReleaseCause;

/// Holds the counters of a cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteCacheFigures {
    pub(super) destages: u64,
    pub(super) destaged_pages: u64,
    pub(super) bypassed: u64,
    pub(super) waited: u64,
    pub(super) sequential: u64,
    pub(super) sequential_destages: u64,
    /// Counts the causes for which members that write together wrote: all had something, the time was up, or
    /// room was needed.
    together: u64,
    timeouts: u64,
    released_full: u64,
}

impl WriteCacheFigures {
    /// Counts a release of chosen writes by its cause.
    pub(super) const fn released(&mut self, release: ReleaseCause) {
        match release {
            ReleaseCause::Together => self.together += 1,
            ReleaseCause::Timeout => self.timeouts += 1,
            ReleaseCause::Full => self.released_full += 1,
        }
    }
}

/// A figure, and its count.
// Name and counter stand together, so a table of figures cannot get out of step
// with its counts.
pub(super) type CountedFigure = (CacheFigure, fn(&WriteCacheFigures) -> u64);

const fn figure(name: &'static str, unit: &'static str, meaning: &'static str) -> CacheFigure {
    CacheFigure { name, unit, meaning }
}

/// Lists the figures that every write cache counts.
pub(super) const ALL: [CountedFigure; 7] = [
    (figure("destages", "1", "groups and strips destaged"), |own| own.destages),
    (figure("destaged_pages", "pages", "data pages, and parity of IWC's, written by that"), |own| own.destaged_pages),
    (figure("together", "1", "times that all members had something to write, and wrote it together"), |own| {
        own.together
    }),
    (
        figure("timeouts", "1", "times that what was ready was written as other members were waited for too long"),
        |own| own.timeouts,
    ),
    (figure("released_full", "1", "times that what was ready was written to make room"), |own| own.released_full),
    (figure("bypassed", "1", "writes that went past the small cache"), |own| own.bypassed),
    (figure("waited", "1", "writes that waited for room in the cache that takes all data"), |own| own.waited),
];

/// Lists the figures of caches that tell sequential writes from others.
const RUNS: [CountedFigure; 1] = [(
    figure("sequential", "1", "pieces of writes, a stripe at most, that went on where an earlier one ended"),
    |own| own.sequential,
)];

/// And where these have a ring of their own.
const RINGS: [CountedFigure; 1] =
    [(figure("sequential_destages", "1", "groups destaged from the ring of sequential ones"), |own| {
        own.sequential_destages
    })];

pub(super) const OF_RUNS: [CountedFigure; 8] = joined(&[&ALL, &RUNS]);
pub(super) const OF_RINGS: [CountedFigure; 9] = joined(&[&ALL, &RUNS, &RINGS]);

/// All of these, `N` in number.
// Built at compile time: the registry's entries are constants.
const fn joined<const N: usize>(parts: &[&[CountedFigure]]) -> [CountedFigure; N] {
    let mut all = [ALL[0]; N];
    let (mut part, mut filled) = (0, 0);
    while part < parts.len() {
        let mut i = 0;
        while i < parts[part].len() {
            all[filled] = parts[part][i];
            (filled, i) = (filled + 1, i + 1);
        }
        part += 1;
    }
    assert!(filled == N, "as many as there are");
    all
}

/// The figures alone.
pub(super) const fn names<const N: usize>(counted: &[CountedFigure; N]) -> [CacheFigure; N] {
    let mut names = [counted[0].0; N];
    let mut i = 0;
    while i < N {
        names[i] = counted[i].0;
        i += 1;
    }
    names
}
