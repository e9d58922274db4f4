//! What the write caches count, beside [`CacheCounts`](crate::CacheCounts).

use crate::CacheFigure;
use crate::synchroniser::Releases;

/// What a cache counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) destages: u64,
    pub(super) destaged_pages: u64,
    pub(super) bypassed: u64,
    pub(super) waited: u64,
    pub(super) sequential: u64,
    pub(super) sequential_destages: u64,
}

/// A figure, and where its count is: with the cache or its synchroniser.
pub(super) type Counted = (CacheFigure, fn(&Figures, &Releases) -> u64);

const fn figure(name: &'static str, unit: &'static str, meaning: &'static str) -> CacheFigure {
    CacheFigure { name, unit, meaning }
}

/// What every write cache counts.
pub(super) const ALL: [Counted; 7] = [
    (figure("destages", "1", "groups and strips destaged"), |own, _| own.destages),
    (figure("destaged_pages", "pages", "data pages, and parity of IWC's, written by that"), |own, _| {
        own.destaged_pages
    }),
    (figure("together", "1", "times that all members had something to write, and wrote it together"), |_, releases| {
        releases.together
    }),
    (
        figure("timeouts", "1", "times that what was ready was written as other members were waited for too long"),
        |_, releases| releases.timeouts,
    ),
    (figure("released_full", "1", "times that what was ready was written to make room"), |_, releases| releases.full),
    (figure("bypassed", "1", "writes that went past the small cache"), |own, _| own.bypassed),
    (figure("waited", "1", "writes that waited for room in the cache that takes all data"), |own, _| own.waited),
];

/// What is counted where sequential writes are told from others.
const RUNS: [Counted; 1] = [(
    figure("sequential", "1", "pieces of writes, a stripe at most, that went on where an earlier one ended"),
    |own, _| own.sequential,
)];

/// And where these have a ring of their own.
const RINGS: [Counted; 1] =
    [(figure("sequential_destages", "1", "groups destaged from the ring of sequential ones"), |own, _| {
        own.sequential_destages
    })];

/// What is counted where members are written to together.
const SYNC: [Counted; 2] = [
    (figure("sync_waits", "1", "times that what was ready began to wait for the other members"), |_, releases| {
        releases.waits
    }),
    (figure("sync_timeout", "ns", "how long that was to be at most, summed up"), |_, releases| releases.timeout),
];

pub(super) const OF_SYNC: [Counted; 9] = joined(&[&ALL, &SYNC]);
pub(super) const OF_RUNS: [Counted; 8] = joined(&[&ALL, &RUNS]);
pub(super) const OF_RUNS_SYNC: [Counted; 10] = joined(&[&ALL, &RUNS, &SYNC]);
pub(super) const OF_RINGS: [Counted; 9] = joined(&[&ALL, &RUNS, &RINGS]);
pub(super) const OF_RINGS_SYNC: [Counted; 11] = joined(&[&ALL, &RUNS, &RINGS, &SYNC]);

/// All of these, `N` in number.
const fn joined<const N: usize>(parts: &[&[Counted]]) -> [Counted; N] {
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
pub(super) const fn names<const N: usize>(counted: &[Counted; N]) -> [CacheFigure; N] {
    let mut names = [counted[0].0; N];
    let mut i = 0;
    while i < N {
        names[i] = counted[i].0;
        i += 1;
    }
    names
}
