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

impl Figures {
    /// What was counted of this, be it by the synchroniser.
    pub(super) fn of(&self, figure: &CacheFigure, releases: &Releases) -> u64 {
        match figure.name {
            "destages" => self.destages,
            "destaged_pages" => self.destaged_pages,
            "together" => releases.together,
            "timeouts" => releases.timeouts,
            "released_full" => releases.full,
            "bypassed" => self.bypassed,
            "waited" => self.waited,
            "sequential" => self.sequential,
            "sequential_destages" => self.sequential_destages,
            "sync_waits" => releases.waits,
            "sync_timeout" => releases.timeout,
            other => unreachable!("no write cache counts {other}"),
        }
    }
}

const DESTAGES: CacheFigure = CacheFigure { name: "destages", unit: "1", meaning: "groups and strips destaged" };

const DESTAGED_PAGES: CacheFigure =
    CacheFigure { name: "destaged_pages", unit: "pages", meaning: "data pages, and parity of IWC's, written by that" };

const TOGETHER: CacheFigure = CacheFigure {
    name: "together",
    unit: "1",
    meaning: "times that all members had something to write, and wrote it together",
};

const TIMEOUTS: CacheFigure = CacheFigure {
    name: "timeouts",
    unit: "1",
    meaning: "times that what was ready was written as other members were waited for too long",
};

const RELEASED_FULL: CacheFigure =
    CacheFigure { name: "released_full", unit: "1", meaning: "times that what was ready was written to make room" };

const BYPASSED: CacheFigure =
    CacheFigure { name: "bypassed", unit: "1", meaning: "writes that went past the small cache" };

const WAITED: CacheFigure =
    CacheFigure { name: "waited", unit: "1", meaning: "writes that waited for room in the cache that takes all data" };

const SYNC_WAITS: CacheFigure = CacheFigure {
    name: "sync_waits",
    unit: "1",
    meaning: "times that what was ready began to wait for the other members",
};

const SYNC_TIMEOUT: CacheFigure =
    CacheFigure { name: "sync_timeout", unit: "ns", meaning: "how long that was to be at most, summed up" };

const SEQUENTIAL: CacheFigure = CacheFigure {
    name: "sequential",
    unit: "1",
    meaning: "pieces of writes, a stripe at most, that went on where an earlier one ended",
};

const SEQUENTIAL_DESTAGES: CacheFigure =
    CacheFigure { name: "sequential_destages", unit: "1", meaning: "groups destaged from the ring of sequential ones" };

/// What every write cache counts.
pub(super) const ALL: &[CacheFigure] = &[DESTAGES, DESTAGED_PAGES, TOGETHER, TIMEOUTS, RELEASED_FULL, BYPASSED, WAITED];

/// With what is counted where members are written to together.
pub(super) const OF_SYNC: &[CacheFigure] =
    &[DESTAGES, DESTAGED_PAGES, TOGETHER, TIMEOUTS, RELEASED_FULL, BYPASSED, WAITED, SYNC_WAITS, SYNC_TIMEOUT];

/// With what is counted where sequential writes are told from others.
pub(super) const OF_RUNS: &[CacheFigure] =
    &[DESTAGES, DESTAGED_PAGES, TOGETHER, TIMEOUTS, RELEASED_FULL, BYPASSED, WAITED, SEQUENTIAL];

/// And where these have a ring of their own.
pub(super) const OF_RINGS: &[CacheFigure] =
    &[DESTAGES, DESTAGED_PAGES, TOGETHER, TIMEOUTS, RELEASED_FULL, BYPASSED, WAITED, SEQUENTIAL, SEQUENTIAL_DESTAGES];

/// As [`OF_RUNS`], where members are written to together.
pub(super) const OF_RUNS_SYNC: &[CacheFigure] = &[
    DESTAGES,
    DESTAGED_PAGES,
    TOGETHER,
    TIMEOUTS,
    RELEASED_FULL,
    BYPASSED,
    WAITED,
    SEQUENTIAL,
    SYNC_WAITS,
    SYNC_TIMEOUT,
];

/// As [`OF_RINGS`], where members are written to together.
pub(super) const OF_RINGS_SYNC: &[CacheFigure] = &[
    DESTAGES,
    DESTAGED_PAGES,
    TOGETHER,
    TIMEOUTS,
    RELEASED_FULL,
    BYPASSED,
    WAITED,
    SEQUENTIAL,
    SEQUENTIAL_DESTAGES,
    SYNC_WAITS,
    SYNC_TIMEOUT,
];
