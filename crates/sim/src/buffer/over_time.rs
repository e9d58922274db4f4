//! The figures of a run over time: differences of what is counted between the beginnings of the
//! bins.

use destage_plan::Nanos;

use super::result::{BufferCounters, SeriesResult};
use crate::measure::{SeriesBin, TimeSeries};
use crate::ssd::ElementCounters;

/// Holds the counts at the beginning of the present bin.
#[derive(Clone, Copy, Debug, Default)]
struct BinSample {
    /// Arrival at which the sample was taken, and the end of its bin.
    at: Nanos,
    bin_ends: Nanos,
    /// Requests since then, where nothing else counts them by bin.
    requests: u64,
    host_bytes_read: u64,
    host_bytes_written: u64,
    accesses: u64,
    write_pages: u64,
    hits: u64,
    evictions: u64,
    evicted_pages: u64,
    dirty_pages_flushed: u64,
    flash: ElementCounters,
}

/// The bins with what is needed to fill them.
pub(super) struct OverTime {
    series: TimeSeries,
    sample: BinSample,
}

impl OverTime {
    /// Bins from `start` on.
    pub(super) fn new(start: Nanos) -> Self {
        let series = TimeSeries::new(start);
        let sample = BinSample { at: start, bin_ends: series.end_of_bin(start), ..BinSample::default() };
        Self { series, sample }
    }

    /// Returns the end of the present bin.
    #[inline]
    pub(super) fn bin_ends(&self) -> Nanos {
        self.sample.bin_ends
    }

    /// The bin of this time.
    #[inline]
    pub(super) fn at(&mut self, time: Nanos) -> &mut SeriesBin {
        self.series.at(time)
    }

    /// The bins from the start on.
    pub(super) fn bins(&self) -> &[SeriesBin] {
        self.series.bins()
    }

    /// Counts a request that nothing else counts by bin.
    #[inline]
    pub(super) fn requested(&mut self) {
        self.sample.requests += 1;
    }

    /// Credits what was counted since the last sample to the bin in which that sample was taken,
    /// and begins the bin of the present time.
    pub(super) fn sample(&mut self, now: Nanos, c: &BufferCounters, flash: ElementCounters) {
        let before = self.sample;
        let bin = self.series.at(before.at);
        bin.requests += before.requests;
        bin.host_bytes_read += c.host_bytes_read - before.host_bytes_read;
        bin.host_bytes_written += c.host_bytes_written - before.host_bytes_written;
        bin.accesses += c.read_pages + c.write_pages - before.accesses;
        bin.write_pages += c.write_pages - before.write_pages;
        bin.hits += c.read_hits + c.write_hits - before.hits;
        bin.evictions += c.evictions - before.evictions;
        bin.evicted_pages += c.evicted_pages - before.evicted_pages;
        bin.dirty_pages_flushed += c.dirty_pages_flushed - before.dirty_pages_flushed;
        bin.flash_reads += flash.flash_reads - before.flash.flash_reads;
        bin.host_programs += flash.host_programs - before.flash.host_programs;
        bin.flash_writes += flash.flash_writes() - before.flash.flash_writes();
        bin.erases += flash.erases - before.flash.erases;
        bin.gc_invocations += flash.gc_invocations - before.flash.gc_invocations;
        bin.gc_pages_moved += flash.gc_pages_moved - before.flash.gc_pages_moved;
        bin.gc_time += flash.gc_time.since(before.flash.gc_time).0;
        self.series.at(now);
        self.sample = BinSample {
            at: now,
            bin_ends: self.series.end_of_bin(now),
            requests: 0,
            host_bytes_read: c.host_bytes_read,
            host_bytes_written: c.host_bytes_written,
            accesses: c.read_pages + c.write_pages,
            write_pages: c.write_pages,
            hits: c.read_hits + c.write_hits,
            evictions: c.evictions,
            evicted_pages: c.evicted_pages,
            dirty_pages_flushed: c.dirty_pages_flushed,
            flash,
        };
    }

    /// The bins as results hold them.
    pub(super) fn result(&self, start: Nanos) -> SeriesResult {
        SeriesResult { start: start.0, width: self.series.width().0, bins: self.series.bins().to_vec() }
    }

    /// Forgets response times, which are no result of a saturated run.
    pub(super) fn forget_responses(&mut self) {
        self.series.forget_responses();
    }
}
