//! The result of one run: everything measured, with names, units and meanings.

use std::borrow::Cow;

use destage_policy::buffer::GcCounters;

use crate::measure::{
    FieldDoc, LatencySummary, ParamValue, ResultVersion, RunContext, SaturationCause, SeriesBin, VolumeResult,
    WearClass, record,
};

record! {
    /// Counters of the buffer over the measured part of a run (specs §0.3).
    pub struct BufferCounters {
        requests: u64 ["1"] "requests of every kind",
        read_requests: u64 ["1"] "read requests",
        write_requests: u64 ["1"] "write requests",
        flush_requests: u64 ["1"] "flush requests",
        discard_requests: u64 ["1"] "discard requests",
        zero_length_requests: u64 ["1"] "reads and writes of no bytes: counted, without any effect",
        host_bytes_read: u64 ["B"] "bytes asked for by read requests",
        host_bytes_written: u64 ["B"] "bytes asked for by write requests",
        accesses: u64 ["1"] "page accesses: read_pages + write_pages",
        read_pages: u64 ["1"] "page accesses of read requests",
        write_pages: u64 ["1"] "page accesses of write requests",
        hits: u64 ["1"] "page accesses that found their page in the buffer: read_hits + write_hits",
        read_hits: u64 ["1"] "read page accesses that hit",
        write_hits: u64 ["1"] "write page accesses that hit",
        misses: u64 ["1"] "page accesses that did not hit: accesses - hits",
        bypassed_reads: u64 ["1"] "read misses that did not enter the buffer",
        bypassed_writes: u64 ["1"] "writes that went past the buffer to the device",
        write_insertions: u64 ["1"] "write misses that entered the buffer, dirty",
        evictions: u64 ["1"] "victim units (pages or blocks) during the run"
            { figure "evictions" Count Neither ["Evictions", "victim units"] },
        evicted_pages: u64 ["1"] "pages of these units",
        eviction_sizes: Vec<u64> ["1"] "units by size: entry i counts those of more than 2^(i-1) and at most 2^i pages",
        dirty_pages_flushed: u64 ["1"] "dirty pages written because of evictions during the run"
            { figure "pages flushed" Count Less "dirty pages written because of evictions" },
        pad_reads: u64 ["1"] "missing pages of victims, read so as to write whole blocks, during the run (analytic: of every victim)"
            { figure "pad reads" Count Less "missing pages of victims, read so as to write whole blocks" },
        clean_drops: u64 ["1"] "clean pages dropped by evictions during the run"
            { figure "clean drops" Count Neither "clean pages dropped by evictions" },
        trimmed_pages: u64 ["1"] "buffered pages forgotten because of a discard or overwritten past the buffer",
        flush_evictions: u64 ["1"] "units written because of host flushes",
        flush_pages_flushed: u64 ["1"] "dirty pages written because of host flushes",
        flush_pad_reads: u64 ["1"] "missing pages read because of host flushes",
        destage_evictions: u64 ["1"] "units written because the collection ended during which they were held back",
        destage_pages_flushed: u64 ["1"] "dirty pages written because a collection ended",
        destage_pad_reads: u64 ["1"] "missing pages read because a collection ended",
        drain_evictions: u64 ["1"] "units written by the final drain",
        drain_pages_flushed: u64 ["1"] "dirty pages written by the final drain",
        drain_pad_reads: u64 ["1"] "missing pages read by the final drain",
        memory_accesses: u64 ["1"] "list or ring nodes and bits that the algorithm as published touches (specs §5.6)",
    }
}

record! {
    /// Counts the work of the device over the measured part of a run; null where there is no flash. The
    /// analytic model counts run and final drain together, the SSD without the drain.
    pub struct FlashCounters {
        flash_reads: Option<u64> ["1"] "pages read for hosts and padding"
            { figure "pages read" Count Less "pages read for padding" },
        flash_writes: Option<u64> ["1"] "pages programmed: for hosts and padding, moved by collection, and summaries"
            { figure "pages written" Count Less "pages programmed" },
        erases: Option<u64> ["1"] "blocks erased"
            { figure "erases" Count Less ["Erases", "blocks erased"] },
        gc_invocations: Option<u64> ["1"] "collections, of a log-block FTL reclaimed log blocks; null under the analytic model"
            { figure "GC runs" Count Less "collections, of a log-block FTL reclaimed log blocks" },
        gc_pages_moved: Option<u64> ["1"] "valid pages copied by collections and merges; null under the analytic model"
            { figure "pages moved" Count Less "valid pages moved by collection" },
        gc_time: Option<u64> ["ns"] "time that elements spent collecting, summed up; null under the analytic model",
    }
}

record! {
    /// Counts the work of one element of the SSD over the measured part of a run.
    pub struct ElementResult {
        flash_reads: u64 ["1"] "pages read for hosts and padding",
        flash_writes: u64 ["1"] "pages programmed: for hosts and padding, moved, and summaries",
        erases: u64 ["1"] "blocks erased",
        gc_invocations: u64 ["1"] "collections, of a log-block FTL reclaimed log blocks",
        gc_pages_moved: u64 ["1"] "valid pages copied by collections and merges, counted where they were programmed",
        gc_time: u64 ["ns"] "time spent collecting and merging",
        switch_merges: Option<u64> ["1"] "merges by switching to a complete log block; null with ssd.ftl = page",
        partial_merges: Option<u64> ["1"] "merges by completing a log block in order with copies; null with ssd.ftl = page",
        full_merges: Option<u64> ["1"] "merges by copying a block into a clean one; null with ssd.ftl = page",
        busy_time: u64 ["ns"] "time spent on anything, summed over the parallel units; a collection occupies all of them",
    }
}

record! {
    /// The SSD over the measured part of a run, beside [`FlashCounters`]; the final drain is not
    /// part of it.
    pub struct SsdResult {
        host_pages: u64 ["1"] "pages that hosts can address",
        raw_pages: u64 ["1"] "pages of flash",
        start_overwrites: Option<f64> ["1"] "how many times its exported size was overwritten until it was steady; null with another start state than steady",
        start_write_amplification_before: Option<f64> ["1"] "write amplification of the last window but one of these overwrites, summaries apart; null with another start state than steady",
        start_write_amplification: Option<f64> ["1"] "the same of the last window; the device is steady if they agree within 1 %",
        host_programs: u64 ["1"] "pages programmed for hosts, padding included",
        summary_programs: u64 ["1"] "summary pages programmed",
        redirected_programs: u64 ["1"] "pages whose channel had no room for them and that went to the next one, or, under a log-block FTL, to where their block was being written; ssd.allocation = channels",
        unmapped_reads: u64 ["1"] "reads of pages that were never written: no flash operation",
        log_blocks: Option<u64> ["1"] "log blocks of all elements; null with ssd.ftl = page",
        switch_merges: Option<u64> ["1"] "merges in which a log block held a whole block in order and took the data block's place; null with ssd.ftl = page"
            { column "switch merges" / "switch" Count Neither "log blocks that held a whole block in order and took its place" },
        partial_merges: Option<u64> ["1"] "merges in which a log block held a block's first pages in order, and took its place once the others were copied; null with ssd.ftl = page"
            { column "partial merges" / "partial" Count Neither "log blocks that took a block's place once its other pages were copied there" },
        full_merges: Option<u64> ["1"] "merges in which a block was copied into a clean one; null with ssd.ftl = page"
            { column "full merges" Count Less "blocks copied together into a clean one" },
        write_amplification: Option<f64> ["1"] "flash_writes / write_pages: flash pages programmed, for whatever reason, for each page that the host wrote; padding is not the host's, and below 1 the buffer absorbs more than collection adds"
            { figure "write ampl." Decimals Less "flash pages programmed, for whatever reason, for each page that the host wrote" ["Write amplification", "pages programmed per page that the host wrote"] },
        collection_amplification: Option<f64> ["1"] "(host_programs + gc_pages_moved) / host_programs: what collection makes of each page that leaves the buffer, padding included; summaries apart",
        mean_free_blocks: f64 ["1"] "free blocks of the device, averaged over the arrivals",
        erases_per_block_mean: f64 ["1"] "erases per block since the start, warm-up included",
        erases_per_block_max: u64 ["1"] "erases of the most erased block since the start, warm-up included"
            { figure "worst block" Count Less "erases of the most erased block since the start" },
        lifetime_host_bytes: Option<f64> ["B"] "host bytes until the mean block has its endurance used up, at the measured rate"
            { figure "lifetime" Bytes More "bytes that the host can write until the mean block is worn out, at the measured rate" },
        cv_reads: Option<f64> ["1"] "coefficient of variation of flash_reads over the elements (population)",
        cv_reads_with_moves: Option<f64> ["1"] "coefficient of variation of flash_reads + gc_pages_moved over the elements"
            { figure "CV reads" Decimals Less "coefficient of variation of the elements' page reads, those of collection included" },
        cv_writes: Option<f64> ["1"] "coefficient of variation of flash_writes, moved pages included, over the elements"
            { figure "CV writes" Decimals Less "coefficient of variation of the elements' page programs, those of collection included" },
        cv_erases: Option<f64> ["1"] "coefficient of variation of erases over the elements"
            { figure "CV erases" Decimals Less "coefficient of variation of the elements' erases" },
        wear: Vec<WearClass> ["-"] "blocks by erases since the start, warm-up included, in at most 128 classes that are not empty" = WearClass,
        elements: Vec<ElementResult> ["-"] "each element's share" = ElementResult,
    }
}

record! {
    /// Counts the decisions of `GCaR` over the measured part of a run (specs §7).
    pub struct AvoidanceResult from GcCounters {
        passed_over: u64 ["1"] "victims passed over because their element was avoided",
        deferred_pages_destaged: u64 ["1"] "dirty pages written after a collection because they had been passed over during it",
        all_avoided: u64 ["1"] "searches in which every victim lay on an avoided element",
    }
}

record! {
    /// LB-CLOCK's analytic cost model over run and final drain (specs §5.7).
    pub struct AnalyticResult {
        model: Cow<'static, str> ["-"] "analytic: whole padded blocks; analytic-page: single dirty pages and no erase",
        time: f64 ["ns"] "erases, pad reads, programs and memory accesses together",
        throughput: Option<f64> ["B/s"] "host bytes written / time"
            { figure "MB/s" Rate More "host bytes written per second of the cost model's time" ["Throughput in the cost model", "host MB/s written"] },
    }
}

record! {
    /// Response times; absent where the device has no time or the run is saturated.
    pub struct ResponseResult {
        all: Option<LatencySummary> ["-"] "reads and writes" = LatencySummary,
        read: Option<LatencySummary> ["-"] "reads" = LatencySummary,
        write: Option<LatencySummary> ["-"] "writes" = LatencySummary,
        gc_delayed: Option<LatencySummary> ["-"] "reads and writes whose last page waited for a collection, or for a frame that did" = LatencySummary,
        gc_undelayed: Option<LatencySummary> ["-"] "reads and writes whose last page waited for none" = LatencySummary,
        distribution: Vec<ResponseClass> ["-"] "reads and writes by response time, in ascending classes that are not empty" = ResponseClass,
    }
}

record! {
    /// Reads and writes in one class of response times.
    pub struct ResponseClass {
        up_to: u64 ["ns"] "upper end of the class, which is at most 1/16 wide; of the last the largest response time",
        reads: u64 ["1"] "reads",
        writes: u64 ["1"] "writes",
        gc_delayed: u64 ["1"] "reads and writes whose last page waited for a collection, or for a frame that did",
    }
}

record! {
    /// Figures over simulated time.
    pub struct SeriesResult {
        start: u64 ["ns"] "arrival of the first measured request",
        width: u64 ["ns"] "width of a bin",
        bins: Vec<SeriesBin> ["-"] "the bins in order; half as many wide ones replace them as often as they become too many" = SeriesBin,
    }
}

record! {
    /// The result of one run.
    pub struct RunResult {
        policy: String ["-"] "name of the policy, as destage policies lists it, with its layers",
        params: Vec<ParamValue> ["-"] "the policy's parameters in force" = ParamValue,
        cache_bytes: Option<u64> ["B"] "size of the buffer, in data held; null for none, which holds nothing",
        page_bytes: u64 ["B"] "size of a page",
        pages_per_block: u32 ["1"] "pages of a logical block and of an erase block",
        device: String ["-"] "none, analytic or ssd",
        start_state: String ["-"] "what the flash held at the start: empty, full, random:SEED, aged:TIMES:SEED or steady:SEED; none without flash",
        context: RunContext => "how requests came in, and what weakens the figures",
        counters: BufferCounters => "what the buffer did",
        flash: FlashCounters => "what the flash did",
        hit_ratio: Option<f64> ["1"] "hits / accesses; null without accesses"
            { figure "hit %" Percent More "page accesses that found their page in the buffer" ["Hit ratio", "hits, % of page accesses"] },
        pages_per_eviction: Option<f64> ["1"] "mean pages of a victim unit during the run; null without evictions"
            { figure "pages/eviction" Decimals More "mean pages of a victim unit" ["Pages of a victim", "pages per eviction"] },
        simulated_time: u64 ["ns"] "from the first measured arrival to the last arrival or completion",
        requests_per_second: Option<f64> ["1/s"] "requests / simulated_time; null where no time passed"
            { figure "requests/s" Decimals More "requests answered per second" ["Requests answered", "requests per second"] },
        host_bytes_per_second: Option<f64> ["B/s"] "(host_bytes_read + host_bytes_written) / simulated_time; null where no time passed"
            { figure "MB/s" Rate More "bytes read and written by the host per second" ["Throughput", "host MB/s, read and written"] },
        stall_time: Option<u64> ["ns"] "time that accesses waited for a free frame, summed up; null without a timed device",
        saturated: Option<SaturationCause> ["-"] "null, or why the response times are not meaningful: cause = backlog or growing, with figures",
        response: Option<ResponseResult> ["-"] "response times; null without a timed device or when saturated" = ResponseResult,
        ssd: Option<SsdResult> ["-"] "the SSD; null for other devices" = SsdResult,
        avoidance: Option<AvoidanceResult> ["-"] "what gcar did; null without it" = AvoidanceResult,
        analytic: Option<AnalyticResult> ["-"] "LB-CLOCK's cost model; null for other devices" = AnalyticResult,
        volumes: Option<Vec<VolumeResult>> ["-"] "each volume's part, the one with most traffic first; null without per-volume" = VolumeResult,
        series: SeriesResult ["-"] "figures over simulated time (trace time without a timed device)" = SeriesResult,
        version: ResultVersion => "the versions",
    }
}

impl RunResult {
    /// Name, unit and meaning of every field, in order.
    pub fn fields() -> Vec<FieldDoc> {
        Self::FIELDS.to_vec()
    }
}
