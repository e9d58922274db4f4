//! Measures a file in one pass. The number of touched pages bounds its memory, not the number of requests.

use std::collections::BTreeMap;

use destage_plan::{Op, PageGeometry, Request, SECTOR_BYTES};
use destage_trace::{TraceSource, TraceStat, TraceSummary};
use serde::Deserialize;

/// Counts the sets of 256 pages from which on different pages are no longer counted: 120 GiB, if they lie together. A set takes some
/// 100 bytes, and twice that while tables grow, so that a file takes 32 MB at most.
const MOST_PAGE_ENTRIES: usize = 120_000;
/// Counts the first requests that are kept.
const FIRST_REQUESTS: usize = 16;
/// Bytes of a page in papers' tables.
const PAGE_BYTES: u64 = 4096;

macro_rules! measures {
    ($($variant:ident $key:literal $words:literal $kind:ident $value:expr;)+) => {
        /// Names a figure of a trace.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
        pub enum TraceMeasure {
            $(#[doc = concat!("Means the ", $words, ".")] #[serde(rename = $key)] $variant,)+
        }

        impl TraceMeasure {
            /// Returns its name in the catalogue.
            pub const fn key(self) -> &'static str {
                match self { $(Self::$variant => $key,)+ }
            }

            /// Returns what it is, for people.
            pub const fn words(self) -> &'static str {
                match self { $(Self::$variant => $words,)+ }
            }

            const fn kind(self) -> MeasureKind {
                match self { $(Self::$variant => MeasureKind::$kind,)+ }
            }

            /// Returns its value.
            pub fn of(self, summary: &TraceSummary) -> f64 {
                let value: fn(&TraceSummary) -> f64 = match self { $(Self::$variant => $value,)+ };
                value(summary)
            }
        }
    };
}

/// Tells how a figure of a piece compares with that of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeasureKind {
    /// A piece has no more of it.
    Sum,
    /// A sum of different pages, which are not counted of every file.
    Pages,
    /// A sum that converters may have changed: time.
    Time,
    /// A mean.
    Mean,
    /// A mean time.
    MeanTime,
    /// A share in percent.
    Share,
}

measures! {
    Requests "requests" "requests" Sum |s| s.data_requests() as f64;
    Reads "reads" "reads" Sum |s| s.reads as f64;
    Writes "writes" "writes" Sum |s| s.writes as f64;
    Volumes "volumes" "volumes" Sum |s| s.volumes as f64;
    Seconds "seconds" "seconds" Time |s| s.duration.as_secs_f64();
    PagesRead "pages-read" "pages of 4 KiB read" Sum |s| s.read_page_touches as f64;
    PagesWritten "pages-written" "pages of 4 KiB written" Sum |s| s.write_page_touches as f64;
    Unique "unique" "different pages of 4 KiB" Pages |s| s.unique_pages as f64;
    UniqueRead "unique-read" "different pages of 4 KiB read" Pages |s| s.unique_pages_read as f64;
    UniqueWritten "unique-written" "different pages of 4 KiB written" Pages |s| s.unique_pages_written as f64;
    ReadPercent "read-percent" "reads in percent" Share TraceSummary::read_percent;
    MeanKib "mean-kib" "KiB of a request" Mean mean_kib;
    ReadKib "read-kib" "KiB of a read" Mean TraceSummary::mean_read_kib;
    WriteKib "write-kib" "KiB of a write" Mean TraceSummary::mean_write_kib;
    IntervalMs "interval-ms" "ms between requests" MeanTime |s| s.mean_inter_arrival_ns() / 1e6;
    Writes4k "writes-4k" "writes up to 4 KiB in percent" Share |s| s.write_size_percent()[0];
    Writes16k "writes-16k" "writes over 4 up to 16 KiB in percent" Share |s| s.write_size_percent()[1];
    Writes64k "writes-64k" "writes over 16 up to 64 KiB in percent" Share |s| s.write_size_percent()[2];
    WritesAbove "writes-above" "writes above 64 KiB in percent" Share |s| s.write_size_percent()[3];
}

fn mean_kib(s: &TraceSummary) -> f64 {
    let bytes = s.read_bytes.saturating_add(s.write_bytes) as f64;
    if s.data_requests() == 0 { 0.0 } else { bytes / 1024.0 / s.data_requests() as f64 }
}

impl TraceMeasure {
    /// Returns true if a piece cannot have more of it than the whole.
    pub(super) fn is_sum(self) -> bool {
        matches!(self.kind(), MeasureKind::Sum | MeasureKind::Pages | MeasureKind::Time)
    }

    /// Returns true if it counts different pages.
    pub(super) fn counts_pages(self) -> bool {
        self.kind() == MeasureKind::Pages
    }

    /// Returns true if it is about time.
    pub(super) fn is_time(self) -> bool {
        matches!(self.kind(), MeasureKind::Time | MeasureKind::MeanTime)
    }

    /// Returns the greatest difference from a published value that is allowed: percent of it, or points of a share.
    pub(super) fn allowed(self, published: f64, within: f64) -> f64 {
        if self.kind() == MeasureKind::Share { within } else { published.abs() * within / 100.0 }
    }
}

/// Holds what was measured of a file.
#[derive(Clone, Debug)]
pub struct MeasuredTrace {
    /// Holds the statistics of everything that could be read.
    pub summary: TraceSummary,
    /// Tells whether different pages were counted.
    pub has_pages: bool,
    /// Holds the statistics of the first requests, by their number.
    pub(super) of_first: BTreeMap<u64, TraceSummary>,
    /// Lists the first requests, as the catalogue has them.
    pub(super) begins: Vec<String>,
    /// Lists the volumes' names.
    pub volumes: Vec<String>,
    /// Says why it could not be read to its end.
    pub error: Option<String>,
}

impl MeasuredTrace {
    /// Measures a trace: all of it, and each of its first `firsts` requests. Different pages are counted if `pages` says so,
    /// as long as they take little memory.
    pub(super) fn of(source: &mut dyn TraceSource, firsts: &[u64], pages: bool) -> Self {
        let geometry = PageGeometry::new(PAGE_BYTES, 64).expect("a page of 4 KiB");
        let stat = |pages: bool| {
            let mut stat = TraceStat::new(geometry);
            if !pages {
                stat.forget_pages();
            }
            stat
        };
        let (mut all, mut has_pages) = (stat(pages), pages);
        // The tables of first requests are counted in the same pass, without pages, which cost the memory.
        let mut firsts: Vec<(u64, TraceStat)> = firsts.iter().map(|&first| (first, stat(false))).collect();
        let (mut of_first, mut begins, mut error) = (BTreeMap::new(), Vec::new(), None);
        let (mut batch, mut seen) = (Vec::new(), 0_u64);
        loop {
            if let Err(reason) = source.next_batch(&mut batch) {
                // What was read before the fault still tells which trace it is.
                error = Some(reason.to_string());
                break;
            }
            if batch.is_empty() {
                break;
            }
            begins.extend(batch.iter().take(FIRST_REQUESTS - begins.len()).map(described));
            for (first, stat) in &mut firsts {
                let left = first.saturating_sub(seen).min(batch.len() as u64) as usize;
                stat.feed(&batch[..left]);
            }
            seen += batch.len() as u64;
            let (done, left): (Vec<_>, Vec<_>) = firsts.into_iter().partition(|(first, _)| *first <= seen);
            firsts = left;
            of_first.extend(done.into_iter().map(|(first, stat)| (first, stat.finish())));
            all.feed(&batch);
            if has_pages && all.page_entries() > MOST_PAGE_ENTRIES {
                // The counts of requests are worth more than those of pages, and need no memory.
                all.forget_pages();
                has_pages = false;
            }
        }
        let volumes = source.volume_names().to_vec();
        Self { summary: all.finish(), has_pages, of_first, begins, volumes, error }
    }

    /// Returns the measure of the whole file, or of its first requests; none if it was not measured.
    pub(super) fn get(&self, measure: TraceMeasure, first: Option<u64>) -> Option<f64> {
        let summary = match first {
            None => &self.summary,
            Some(first) => self.of_first.get(&first)?,
        };
        let counted = !measure.counts_pages() || (self.has_pages && first.is_none());
        counted.then(|| measure.of(summary))
    }

    /// Returns how many reads and writes were read.
    pub fn requests(&self) -> u64 {
        self.summary.data_requests()
    }
}

/// Writes a request as the catalogue has it.
fn described(request: &Request) -> String {
    let op = match request.op {
        Op::Read => 'R',
        Op::Write => 'W',
        Op::Discard => 'D',
        Op::Flush => 'F',
    };
    format!("{op} {}+{}", request.offset / SECTOR_BYTES, request.len / SECTOR_BYTES)
}
