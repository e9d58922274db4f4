//! Figures over time in a fixed number of bins: when the run outgrows them, neighbours are merged.

use destage_plan::Nanos;

use super::record;

/// Bins kept; a series ends with between half as many and this many.
const BINS: usize = 256;
/// Width of a bin at the beginning: 2^20 ns, about a millisecond.
const FIRST_WIDTH_LOG2: u32 = 20;

record! {
    /// One span of simulated time. What a request brings is credited to the span in which it
    /// arrived, what the device does to the span of the latest arrival.
    pub struct SeriesBin {
        requests: u64 ["1"] "requests that arrived",
        host_bytes_read: u64 ["B"] "bytes asked for by reads that arrived",
        host_bytes_written: u64 ["B"] "bytes asked for by writes that arrived",
        accesses: u64 ["1"] "pages accessed",
        write_pages: u64 ["1"] "pages among them that are written",
        hits: u64 ["1"] "pages found in the buffer",
        evictions: u64 ["1"] "victim units",
        evicted_pages: u64 ["1"] "pages of these units",
        dirty_pages_flushed: u64 ["1"] "dirty pages written because of evictions",
        read_response_sum: u64 ["ns"] "sum of the response times of reads; 0 without a timed device or when saturated",
        read_response_max: u64 ["ns"] "largest of them; 0 without a timed device or when saturated",
        write_response_sum: u64 ["ns"] "sum of the response times of writes; 0 without a timed device or when saturated",
        write_response_max: u64 ["ns"] "largest of them; 0 without a timed device or when saturated",
        responses: u64 ["1"] "reads and writes that arrived and were answered, whose response times these are",
        gc_delayed: u64 ["1"] "those of them that waited for a collection; 0 when saturated",
        backlog_sum: u64 ["1"] "outstanding requests seen by each arrival, summed up; divide by requests",
        backlog_min: u64 ["1"] "fewest outstanding requests seen by an arrival; 0 where none arrived",
        flash_reads: u64 ["1"] "pages read for hosts and padding",
        host_programs: u64 ["1"] "pages programmed for hosts, padding included",
        flash_writes: u64 ["1"] "pages programmed, for whatever reason",
        erases: u64 ["1"] "blocks erased",
        gc_invocations: u64 ["1"] "collections begun",
        gc_pages_moved: u64 ["1"] "valid pages copied by collection",
        gc_time: u64 ["ns"] "time that elements spent collecting, summed up",
    }
}

impl SeriesBin {
    /// Adds a request that found `backlog` others outstanding.
    #[inline]
    pub fn arrival(&mut self, backlog: u64) {
        self.backlog_min = if self.requests == 0 { backlog } else { self.backlog_min.min(backlog) };
        self.requests += 1;
        self.backlog_sum += backlog;
    }

    /// Adds the response time of a read or write.
    #[inline]
    pub fn response(&mut self, write: bool, time: Nanos) {
        let (sum, max) = if write {
            (&mut self.write_response_sum, &mut self.write_response_max)
        } else {
            (&mut self.read_response_sum, &mut self.read_response_max)
        };
        *sum = sum.saturating_add(time.0);
        *max = time.0.max(*max);
        self.responses += 1;
    }

    /// Forgets response times, which are no result of a saturated run.
    pub fn forget_responses(&mut self) {
        self.read_response_sum = 0;
        self.read_response_max = 0;
        self.write_response_sum = 0;
        self.write_response_max = 0;
        self.gc_delayed = 0;
    }
}

/// Defines the content of a bin, which is a span of time in a series.
pub trait BinContent: Clone + Default {
    /// Takes in the next span.
    fn merge(&mut self, other: &Self);
}

impl BinContent for SeriesBin {
    fn merge(&mut self, other: &Self) {
        self.backlog_min = match (self.requests, other.requests) {
            (0, _) => other.backlog_min,
            (_, 0) => self.backlog_min,
            _ => self.backlog_min.min(other.backlog_min),
        };
        self.requests += other.requests;
        self.host_bytes_read += other.host_bytes_read;
        self.host_bytes_written += other.host_bytes_written;
        self.accesses += other.accesses;
        self.write_pages += other.write_pages;
        self.hits += other.hits;
        self.evictions += other.evictions;
        self.evicted_pages += other.evicted_pages;
        self.dirty_pages_flushed += other.dirty_pages_flushed;
        self.read_response_sum = self.read_response_sum.saturating_add(other.read_response_sum);
        self.read_response_max = self.read_response_max.max(other.read_response_max);
        self.write_response_sum = self.write_response_sum.saturating_add(other.write_response_sum);
        self.write_response_max = self.write_response_max.max(other.write_response_max);
        self.responses += other.responses;
        self.gc_delayed += other.gc_delayed;
        self.backlog_sum += other.backlog_sum;
        self.flash_reads += other.flash_reads;
        self.host_programs += other.host_programs;
        self.flash_writes += other.flash_writes;
        self.erases += other.erases;
        self.gc_invocations += other.gc_invocations;
        self.gc_pages_moved += other.gc_pages_moved;
        self.gc_time += other.gc_time;
    }
}

/// Bins over the time of a run.
#[derive(Clone, Debug)]
pub struct TimeSeries<B = SeriesBin> {
    start: Nanos,
    width_log2: u32,
    bins: Vec<B>,
}

impl<B: BinContent> TimeSeries<B> {
    /// A series that begins at `start`.
    pub fn new(start: Nanos) -> Self {
        Self { start, width_log2: FIRST_WIDTH_LOG2, bins: Vec::with_capacity(BINS) }
    }

    /// The bin of this time.
    #[inline]
    pub fn at(&mut self, time: Nanos) -> &mut B {
        let mut index = (time.since(self.start).0 >> self.width_log2) as usize;
        if index >= self.bins.len() {
            // Merging neighbours keeps the memory constant for traces of any length, and no sum is lost.
            while index >= BINS {
                self.halve();
                index /= 2;
            }
            if index >= self.bins.len() {
                self.bins.resize(index + 1, B::default());
            }
        }
        &mut self.bins[index]
    }

    /// Makes the bins twice as wide. Every request asks for its bin, few times for this.
    #[cold]
    #[inline(never)]
    fn halve(&mut self) {
        self.width_log2 += 1;
        // Widths are powers of two, so the bin of a time is a shift.
        let merged = self.bins.len().div_ceil(2);
        for i in 0..merged {
            let mut bin = self.bins[2 * i].clone();
            if let Some(second) = self.bins.get(2 * i + 1) {
                bin.merge(second);
            }
            self.bins[i] = bin;
        }
        self.bins.truncate(merged);
    }

    /// Returns the end of the bin that holds this time.
    #[inline]
    pub fn end_of_bin(&self, time: Nanos) -> Nanos {
        let index = time.since(self.start).0 >> self.width_log2;
        Nanos(self.start.0.saturating_add((index + 1) << self.width_log2))
    }

    /// Width of a bin.
    pub fn width(&self) -> Nanos {
        Nanos(1 << self.width_log2)
    }

    /// The bins from the start on.
    pub fn bins(&self) -> &[B] {
        &self.bins
    }
}

impl TimeSeries {
    /// Forgets response times, which are no result of a saturated run.
    pub fn forget_responses(&mut self) {
        self.bins.iter_mut().for_each(SeriesBin::forget_responses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_merge_and_lose_nothing() {
        let mut series = TimeSeries::<SeriesBin>::new(Nanos(1000));
        let mut requests = 0;
        for i in 0..100_000_u64 {
            let bin = series.at(Nanos(1000 + i * i * 1000));
            bin.requests += 1;
            bin.response(true, Nanos(i));
            requests += 1;
        }
        assert!(series.bins().len() <= BINS && series.bins().len() > BINS / 4);
        assert_eq!(series.bins().iter().map(|b| b.requests).sum::<u64>(), requests);
        assert_eq!(series.bins().last().unwrap().write_response_max, 99_999);
        let index = (99_999_u64 * 99_999 * 1000) / series.width().0;
        assert_eq!(series.bins().len() as u64, index + 1);
    }
}
