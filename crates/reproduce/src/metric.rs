//! Lists the metrics that claims are about: figures of the catalogue, and the words in which papers compare
//! them.

use std::fmt;

use destage_report::ReportRun;
use destage_report::figures::{self, FigurePlace, ResultFigure, ValueFormat};
use serde::de::{Deserialize, Deserializer, Error};

/// By how much one run is better than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImprovementKind {
    /// `other / new - 1`: how many more the other has.
    Excess,
    /// `new / other - 1`.
    Gain,
    /// `(other - new) / other`.
    Saving,
    /// `new - other`, in percentage points.
    Points,
}

/// Tells how finely a figure can be told apart, and what counts as alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricResolution {
    /// Counts something: evictions, erases, pages.
    Count,
    /// Is a mean of times, or a rate.
    Mean,
    /// Is decided by few requests: a percentile far out, the longest of all, a deviation.
    Tail,
    /// Is a share, in points.
    Share,
}

/// Describes a metric of claims.
#[derive(Debug)]
pub struct ClaimMetric {
    /// As papers' data name it.
    name: &'static str,
    /// Points to the catalogue's figure, which finds the value in results and formats it.
    figure: &'static ResultFigure,
    /// The heading of a column, with the unit.
    pub heading: &'static str,
    /// In words, as the title of an axis of relative values.
    pub words: &'static str,
    /// The better value, in a claim.
    pub better: &'static str,
    /// In a claim that two are alike: as ... as.
    pub alike: &'static str,
    improvement: ImprovementKind,
    resolution: MetricResolution,
}

macro_rules! metrics {
    ($($name:literal = $figure:ident $heading:literal $words:literal $better:literal $alike:literal $improvement:ident $resolution:ident;)+) => {
        /// All that claims can be about.
        static METRICS: &[ClaimMetric] = &[$(ClaimMetric {
            name: $name,
            figure: &figures::$figure,
            heading: $heading,
            words: $words,
            better: $better,
            alike: $alike,
            improvement: ImprovementKind::$improvement,
            resolution: MetricResolution::$resolution,
        }),+];
    };
}

// Improvements as specs §0.4 counts them.
metrics! {
    "evictions" = EVICTIONS "evictions" "evictions" "fewer evictions" "as many evictions" Excess Count;
    "throughput" = MODEL_THROUGHPUT "MB/s" "throughput" "more throughput" "as much throughput" Gain Mean;
    "response" = MEAN "mean ms" "mean response" "lower mean response" "as long a mean response" Saving Mean;
    "p99" = P99 "p99 ms" "p99 of responses" "lower p99" "p99 ms" Saving Tail;
    "p999" = P99_9 "p99.9 ms" "p99.9 of responses" "lower p99.9" "p99.9 ms" Saving Tail;
    "hit-ratio" = HIT_RATIO "hits %" "hit ratio" "higher hit ratio" "as high a hit ratio" Points Share;
    "gc-runs" = COLLECTIONS "collections" "collections" "fewer collections" "as many collections" Saving Count;
    "gc-per-request" = COLLECTIONS_PER_REQUEST "collections/request" "collections per request" "fewer collections per request" "as many collections per request" Saving Count;
    "migrations" = PAGES_MOVED "pages moved" "pages moved" "fewer pages moved" "as many pages moved" Saving Count;
    "erases" = ERASES "erases" "erases" "fewer erases" "as many erases" Saving Count;
    "cv-reads" = CV_READS "CV reads" "variation of reads" "more even reads" "as even reads" Saving Tail;
    "cv-writes" = CV_WRITES "CV writes" "variation of writes" "more even writes" "as even writes" Saving Tail;
    "deviation" = DEVIATION "s.d. ms" "deviation of responses" "lower deviation" "as large a deviation" Saving Tail;
    "max" = LONGEST "max ms" "longest response" "lower maximum" "as long a maximum" Saving Tail;
    "read-response" = MEAN_READ "mean read ms" "mean response of reads" "lower mean response of reads" "as long a mean response of reads" Saving Mean;
    "write-response" = MEAN_WRITE "mean write ms" "mean response of writes" "lower mean response of writes" "as long a mean response of writes" Saving Mean;
    "bytes-per-second" = THROUGHPUT "MB/s" "bytes per second" "more bytes per second" "as many bytes per second" Gain Mean;
    "collecting-together" = COLLECTING "SSDs collecting" "SSDs that collect at a time" "more collect at a time" "as many collect at a time" Gain Tail;
    "collecting-in-company" = COLLECTING_TOGETHER "SSDs in company" "SSDs that collect with others" "more collect with others" "as many collect with others" Gain Tail;
    "held-up" = HELD_UP_SHARE "held up %" "requests held up by collections" "fewer requests held up" "as many requests held up" Saving Tail;
    "array-writes" = WRITES_PER_PAGE "writes/page" "pages written to members per page" "fewer pages written" "as many pages written" Saving Count;
    "array-reads" = READS_PER_PAGE "reads/page" "pages read from members per page" "fewer pages read" "as many pages read" Saving Count;
    "array-amplification" = PROGRAMS_PER_WRITE "write ampl." "write amplification of the members" "less amplification" "as much amplification" Saving Count;
    "array-erases" = DEVICES_ERASES "erases" "erases of all members" "fewer erases" "as many erases" Saving Count;
    "cache-writes" = CACHE_WRITES "cache writes" "pages written to the cache" "fewer pages written to the cache" "as many pages written to the cache" Saving Count;
    "cache-writes-per-page" = CACHE_WRITES_PER_PAGE "cache writes/page" "pages written to the cache per page" "fewer pages written to the cache" "as many pages written to the cache" Saving Count;
    "cache-metadata" = CACHE_METADATA_SHARE "metadata %" "share of metadata in what is written to the cache" "more metadata" "as much metadata" Points Share;
    "member-requests" = MEMBER_REQUESTS_PER_ACCESS "member requests/request" "requests to members per request" "fewer requests to members" "as many requests to members" Saving Count;
    "member-reads" = MEMBER_READ_REQUESTS_PER_PAGE "member reads/page" "reads of members per page" "fewer reads of members" "as many reads of members" Saving Count;
    "member-writes" = MEMBER_WRITE_REQUESTS_PER_PAGE "member writes/page" "writes to members per page" "fewer writes to members" "as many writes to members" Saving Count;
    "read-hit-ratio" = CACHE_READ_HIT_RATIO "read hits %" "hit ratio of reads" "higher hit ratio of reads" "as high a hit ratio of reads" Points Share;
    "cv-erases" = CV_ERASES "CV erases" "variation of erases" "more even erases" "as even erases" Saving Tail;
}

impl ClaimMetric {
    /// The metric of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// Returns the metric's value in a run, or none if the run has none. Times are in ns, shares from 0 to 1.
    pub fn of(&self, run: &ReportRun) -> Option<f64> {
        self.figure.of(run)
    }

    /// Returns how a value is shown.
    pub const fn show(&self) -> ValueFormat {
        self.figure.show
    }

    /// Returns the divisor that gives the heading's unit, and the number of decimals.
    pub const fn scale(&self) -> (f64, usize) {
        match self.figure.show {
            ValueFormat::Count | ValueFormat::Bytes => (1.0, 0),
            ValueFormat::Time | ValueFormat::Rate => (1e6, 3),
            ValueFormat::Percent => (0.01, 2),
            ValueFormat::Decimals | ValueFormat::Years => (1.0, 4),
        }
    }

    /// By how many of [`ClaimMetric::unit`] `new` is better than `than` (specs §0.4); two that do
    /// nothing at all are alike.
    pub fn improvement(&self, new: f64, than: f64) -> f64 {
        // Nothing divided by nothing is no improvement, and not a figure that is missing.
        if (new - than).abs() < f64::EPSILON {
            return 0.0;
        }
        match self.improvement {
            ImprovementKind::Excess => (than / new - 1.0) * 100.0,
            ImprovementKind::Gain => (new / than - 1.0) * 100.0,
            ImprovementKind::Points => (new - than) * 100.0,
            ImprovementKind::Saving => (than - new) / than * 100.0,
        }
    }

    /// Returns by how many percent the worse of two has more than the better, of an improvement and with its sign: 50 % saved are
    /// 100 % more, 90 % are 900; all that there is saved is infinitely more. Points stay points.
    pub fn excess(&self, improvement: f64) -> f64 {
        let share = improvement / 100.0;
        match self.improvement {
            ImprovementKind::Saving if share >= 1.0 => f64::INFINITY,
            ImprovementKind::Saving if share > 0.0 => 100.0 * share / (1.0 - share),
            ImprovementKind::Excess | ImprovementKind::Gain if share <= -1.0 => f64::NEG_INFINITY,
            ImprovementKind::Excess | ImprovementKind::Gain if share < 0.0 => 100.0 * share / (1.0 + share),
            _ => improvement,
        }
    }

    /// Returns the half width that a single run counts with, which has no interval of its own: half of what is alike, in the unit of
    /// improvements.
    pub const fn single_run(&self) -> f64 {
        self.likeness() / 2.0
    }

    /// Returns the greatest difference between two that are alike and have these values, in the unit of improvements. Shares differ
    /// by a tenth of the greater one at most: where hardly anything is hit, a point is no likeness that could fail.
    pub fn likeness_of(&self, new: f64, than: f64) -> f64 {
        match self.resolution {
            MetricResolution::Share => self.likeness().min(10.0 * new.abs().max(than.abs())),
            MetricResolution::Count | MetricResolution::Mean | MetricResolution::Tail => self.likeness(),
        }
    }

    /// Returns true if a run that is saturated is worse by this figure than any that is not: it has times that grow without bounds.
    pub const fn is_timing(&self) -> bool {
        matches!(self.figure.show, ValueFormat::Time | ValueFormat::Rate)
    }

    /// The unit of improvements.
    pub fn unit(&self) -> &'static str {
        if self.improvement == ImprovementKind::Points { "points" } else { "%" }
    }

    /// Returns the least difference that is one, in the unit of improvements.
    pub const fn noise(&self) -> f64 {
        match self.resolution {
            MetricResolution::Count => 0.1,
            MetricResolution::Mean => 0.5,
            MetricResolution::Tail => 2.0,
            MetricResolution::Share => 0.05,
        }
    }

    /// Returns the greatest difference between two that are alike, in the unit of improvements.
    pub const fn likeness(&self) -> f64 {
        match self.resolution {
            MetricResolution::Count => 2.0,
            MetricResolution::Mean => 5.0,
            MetricResolution::Tail => 10.0,
            MetricResolution::Share => 1.0,
        }
    }

    /// The device without which results do not have it.
    pub fn device(&self) -> &'static str {
        match self.figure.place {
            FigurePlace::At(path) if path.starts_with("analytic.") => "analytic",
            _ => "ssd",
        }
    }
}

impl fmt::Display for ClaimMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<'de> Deserialize<'de> for &'static ClaimMetric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        ClaimMetric::named(&name).ok_or_else(|| {
            let names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
            D::Error::custom(format_args!("there is no metric \"{name}\"; use {}", names.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn improvements_as_the_paper_counts_them() {
        let named = |name| ClaimMetric::named(name).expect("a metric");
        // 64 % fewer evictions than a scheme with 1.64 times as many; 522 % more throughput.
        assert!((named("evictions").improvement(100.0, 164.0) - 64.0).abs() < 1e-9);
        assert!((named("throughput").improvement(6.22, 1.0) - 522.0).abs() < 1e-9);
        assert!(named("evictions").improvement(0.0, 0.0).abs() < 1e-9);
    }
}
