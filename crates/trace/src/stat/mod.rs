//! Statistics of a trace: what a table of traces in a paper shows, and what else decides whether a
//! trace suits a cache.
//!
//! Definitions: a page is a page-sized piece of one volume; a request touches every page that its
//! range overlaps (specs §0.1), so an empty range touches none. Memory is proportional to the pages
//! touched (two bits each, in chunks of 256), never to the requests.

mod locality;
mod pages;
mod recency;
mod volumes;

use std::fmt;

use destage_plan::{Nanos, Op, PageGeometry, Request, SECTOR_BYTES};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

pub use locality::{
    BlockFill, LOCALITY_BLOCK_PAGES, LOCALITY_FILL_CLASSES, LOCALITY_LISTS, LocalityCollector, LocalityOf,
    LocalitySummary, ReuseCounts, TooManyPages,
};
use pages::{AccessDirection, PageSet};
pub use recency::{RECENCY_MOST, RecencyStack};
pub use volumes::{VolumeStat, VolumeTraffic};

/// Upper bounds, in bytes and inclusive, of the first three classes of
/// [`TraceSummary::write_sizes`].
pub const WRITE_SIZE_CLASSES: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];

/// Collects the statistics of a trace.
pub struct TraceStat {
    geometry: PageGeometry,
    pages: PageSet,
    /// Pages are no longer counted.
    no_pages: bool,
    /// Of each volume but the present one, where its last request with a place ended, if there was
    /// one.
    ends: HashMap<u32, Option<u64>, FixedState>,
    /// The volume of the latest request, and the same of it; most requests are for the volume of
    /// the one before.
    present: Option<(u32, Option<u64>)>,
    first: Nanos,
    last: Nanos,
    sum: TraceSummary,
}

/// The statistics of a trace. A sum that does not fit is `u64::MAX`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceSummary {
    /// Bytes in a page, as asked for.
    pub page_bytes: u64,
    /// All requests: reads, writes, flushes and discards.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Requests with force unit access set.
    pub fua: u64,
    /// Reads, writes and discards of zero bytes.
    pub zero_length: u64,
    /// Reads, writes and discards whose offset or length is not a multiple of 512 B.
    pub sector_misaligned: u64,
    /// Reads, writes and discards whose offset or length is not a multiple of the page size.
    pub page_misaligned: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Bytes discarded.
    pub discard_bytes: u64,
    /// Pages that reads touch, each as often as it is touched.
    pub read_page_touches: u64,
    /// Pages that writes touch, each as often as it is touched.
    pub write_page_touches: u64,
    /// Different pages that are read or written.
    pub unique_pages: u64,
    /// Different pages that are read.
    pub unique_pages_read: u64,
    /// Different pages that are written.
    pub unique_pages_written: u64,
    /// Writes of up to 4 KiB, over 4 to 16 KiB, over 16 to 64 KiB, over 64 KiB
    /// ([`WRITE_SIZE_CLASSES`]).
    pub write_sizes: [u64; 4],
    /// From the earliest arrival to the latest.
    pub duration: Nanos,
    /// Requests that arrive before the request in front of them.
    pub time_reversals: u64,
    /// Gives the most that one of these is earlier.
    pub longest_reversal: Nanos,
    /// Different volumes.
    pub volumes: u64,
    /// The byte after the highest one that a read, write or discard covers, on any volume: the
    /// least size of device that holds each volume.
    pub max_address: u64,
    /// Reads, writes and discards that begin where the one before them on the same volume ended, of
    /// whatever kind it was.
    pub sequential: u64,
}

impl TraceStat {
    /// Statistics in pages of this geometry; its blocks do not matter.
    pub fn new(geometry: PageGeometry) -> Self {
        Self {
            geometry,
            pages: PageSet::default(),
            no_pages: false,
            ends: HashMap::default(),
            present: None,
            first: Nanos(u64::MAX),
            last: Nanos::ZERO,
            sum: TraceSummary { page_bytes: geometry.page_bytes(), ..TraceSummary::default() },
        }
    }

    /// Counts the trace's next requests.
    pub fn feed(&mut self, requests: &[Request]) {
        for request in requests {
            self.count(request);
        }
    }

    fn count(&mut self, request: &Request) {
        let Request { time, offset, len, volume, op, fua } = *request;
        let s = &mut self.sum;
        s.requests += 1;
        s.fua += u64::from(fua);
        if time < self.last {
            s.time_reversals += 1;
            s.longest_reversal = s.longest_reversal.max(self.last.since(time));
        }
        self.first = self.first.min(time);
        self.last = self.last.max(time);
        let end = match &mut self.present {
            // Requests of one volume come in runs, which saves the table's look-up.
            Some((present, end)) if *present == volume => end,
            other => {
                if let Some((before, end)) = other.take() {
                    self.ends.insert(before, end);
                }
                &mut other.insert((volume, self.ends.get(&volume).copied().flatten())).1
            }
        };
        if op == Op::Flush {
            s.flushes += 1;
            return;
        }

        let stop = offset.saturating_add(len);
        s.sequential += u64::from(*end == Some(offset));
        *end = Some(stop);
        s.zero_length += u64::from(len == 0);
        s.sector_misaligned += u64::from((offset | len) % SECTOR_BYTES != 0);
        s.page_misaligned += u64::from((offset | len) & (s.page_bytes - 1) != 0);
        s.max_address = s.max_address.max(stop);
        let (direction, touches) = match op {
            Op::Read => {
                s.reads += 1;
                s.read_bytes = s.read_bytes.saturating_add(len);
                (AccessDirection::Read, &mut s.read_page_touches)
            }
            Op::Write => {
                s.writes += 1;
                s.write_bytes = s.write_bytes.saturating_add(len);
                s.write_sizes[WRITE_SIZE_CLASSES.partition_point(|&bound| bound < len)] += 1;
                (AccessDirection::Write, &mut s.write_page_touches)
            }
            Op::Discard | Op::Flush => {
                s.discards += 1;
                s.discard_bytes = s.discard_bytes.saturating_add(len);
                return;
            }
        };
        let split = self.geometry.split(offset, len);
        *touches = touches.saturating_add(split.pages);
        if !self.no_pages {
            self.pages.touch(volume, split.first, split.pages, direction);
        }
    }

    /// Entries of the set of pages, of some 100 B each; all else takes little, a few bytes for each
    /// volume apart.
    pub fn page_entries(&self) -> usize {
        self.pages.entries()
    }

    /// Gives up counting different pages, which then are 0, and frees what that took.
    pub fn forget_pages(&mut self) {
        self.pages = PageSet::default();
        self.no_pages = true;
    }

    /// The statistics of everything fed.
    pub fn finish(self) -> TraceSummary {
        let mut s = self.sum;
        s.duration = self.last.since(self.first);
        // The last volume of the trace was not put back into the table.
        let present = self.present.is_some_and(|(volume, _)| !self.ends.contains_key(&volume));
        s.volumes = self.ends.len() as u64 + u64::from(present);
        [s.unique_pages, s.unique_pages_read, s.unique_pages_written] = self.pages.count();
        s
    }
}

/// `part` of `whole` in percent; 0 of nothing.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Mean of `n` values in KiB; 0 of nothing.
fn mean_kib(bytes: u64, n: u64) -> f64 {
    if n == 0 { 0.0 } else { bytes as f64 / 1024.0 / n as f64 }
}

impl TraceSummary {
    /// Reads and writes: what the tables of papers call requests, since few traces hold anything
    /// else.
    pub fn data_requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// Reads in percent of the reads and writes.
    pub fn read_percent(&self) -> f64 {
        percent(self.reads, self.data_requests())
    }

    /// Mean size of a read in KiB.
    pub fn mean_read_kib(&self) -> f64 {
        mean_kib(self.read_bytes, self.reads)
    }

    /// Mean size of a write in KiB.
    pub fn mean_write_kib(&self) -> f64 {
        mean_kib(self.write_bytes, self.writes)
    }

    /// The classes of [`write_sizes`](Self::write_sizes) in percent of the writes.
    pub fn write_size_percent(&self) -> [f64; 4] {
        self.write_sizes.map(|n| percent(n, self.writes))
    }

    /// Mean time between two arrivals in nanoseconds; 0 for fewer than two requests.
    pub fn mean_inter_arrival_ns(&self) -> f64 {
        if self.requests < 2 { 0.0 } else { self.duration.0 as f64 / (self.requests - 1) as f64 }
    }

    /// Bytes of all pages that are read or written.
    pub fn footprint_bytes(&self) -> u64 {
        self.unique_pages.saturating_mul(self.page_bytes)
    }

    /// Sequential requests in percent of the reads, writes and discards.
    pub fn sequential_percent(&self) -> f64 {
        percent(self.sequential, self.data_requests() + self.discards)
    }
}

impl fmt::Display for TraceSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "requests              {}", self.requests)?;
        writeln!(f, "reads                 {} ({:.2} % of reads and writes)", self.reads, self.read_percent())?;
        writeln!(f, "writes                {}", self.writes)?;
        writeln!(f, "flushes               {}", self.flushes)?;
        writeln!(f, "discards              {}", self.discards)?;
        writeln!(f, "FUA                   {}", self.fua)?;
        writeln!(f, "zero length           {}", self.zero_length)?;
        writeln!(f, "not sector-aligned    {}", self.sector_misaligned)?;
        writeln!(f, "not page-aligned      {}", self.page_misaligned)?;
        writeln!(f, "page                  {} B", self.page_bytes)?;
        writeln!(f, "page touches          {} read, {} write", self.read_page_touches, self.write_page_touches)?;
        let (all, read, written) = (self.unique_pages, self.unique_pages_read, self.unique_pages_written);
        writeln!(f, "unique pages          {all}: {read} read, {written} written")?;
        writeln!(f, "footprint             {} B", self.footprint_bytes())?;
        writeln!(
            f,
            "mean size             {:.2} KiB read, {:.2} KiB write",
            self.mean_read_kib(),
            self.mean_write_kib()
        )?;
        let [to_4, to_16, to_64, above] = self.write_size_percent().map(|share| format!("{share:.1} %"));
        writeln!(f, "write sizes           <= 4 KiB {to_4}, <= 16 KiB {to_16}, <= 64 KiB {to_64}, above {above}")?;
        writeln!(f, "duration              {:.3} s", self.duration.as_secs_f64())?;
        writeln!(f, "mean inter-arrival    {:.3} us", self.mean_inter_arrival_ns() / 1e3)?;
        writeln!(f, "time reversals        {}", self.time_reversals)?;
        writeln!(f, "volumes               {}", self.volumes)?;
        writeln!(f, "highest address       {} B", self.max_address)?;
        write!(f, "sequential            {} ({:.2} %)", self.sequential, self.sequential_percent())
    }
}
