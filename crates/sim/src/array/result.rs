//! The result of one run over an array: everything measured, with names, units and meanings.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use destage_cache::{CacheCounts, CacheFigure, HostCacheInfo, host_caches};
use destage_plan::StepKind;
use destage_raid::array::ArrayStats;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::counters::counters;
use super::debt::ParityDebt;
use super::device::{DiskResult, FlashResult};
use super::lane::DeviceCounters;
use super::overlap::OverlapResult;
use super::streams::StreamResult;
use super::wear::CacheWear;
use crate::measure::{
    FieldDoc, LatencySummary, ParamValue, ResultVersion, RunContext, SaturationCause, SeriesBin, VolumeResult,
    WearClass, record,
};

record! {
    /// The array in force.
    pub struct ArrayShape {
        level: String ["-"] "RAID level",
        layout: Option<String> ["-"] "where parity lies; null where there is nothing to choose",
        members: u64 ["1"] "members",
        chunk_bytes: u64 ["B"] "chunk; of RAID-1 pages handled together",
        member_bytes: u64 ["B"] "size used of each member",
        capacity_bytes: u64 ["B"] "size that a host sees",
        parity: String ["-"] "how parity is updated: min, rmw, rcw or disksim",
        regime: String ["-"] "what is promised of acknowledged writes: flush (durable after a flush or with FUA) or every-write",
        nv_slots: u64 ["1"] "slots of a page each that the array has in the NVRAM",
        nvram_on: String ["-"] "where that is: nvram, or cache-device (a journal there stands in for it)",
    }
}

counters! {
    /// Requests of the measured part.
    pub struct HostCounters {
        requests ["1"] "requests of every kind",
        read_requests ["1"] "read requests",
        write_requests ["1"] "write requests",
        flush_requests ["1"] "flush requests",
        discard_requests ["1"] "discard requests",
        zero_length_requests ["1"] "reads and writes of no bytes: counted, without any effect",
        failed_requests ["1"] "requests answered with an error, since more was lost than the level can do without",
        host_bytes_read ["B"] "bytes asked for by read requests",
        host_bytes_written ["B"] "bytes asked for by write requests",
    }
}

record! {
    /// Response times from arrival (closed loop: issue) to the answer; null where there was no
    /// request, or when saturated.
    pub struct HostResponses {
        all: Option<LatencySummary> ["-"] "reads and writes" = LatencySummary,
        read: Option<LatencySummary> ["-"] "reads" = LatencySummary,
        write: Option<LatencySummary> ["-"] "writes" = LatencySummary,
        flush: Option<LatencySummary> ["-"] "flushes" = LatencySummary,
        discard: Option<LatencySummary> ["-"] "discards" = LatencySummary,
        distribution: Vec<HostResponseClass> ["-"] "reads and writes by response time, in ascending classes that are not empty" = HostResponseClass,
    }
}

record! {
    /// Reads and writes in one class of response times.
    pub struct HostResponseClass {
        up_to: u64 ["ns"] "upper end of the class, which is at most 1/16 wide; of the last the largest response time",
        reads: u64 ["1"] "reads",
        writes: u64 ["1"] "writes",
    }
}

counters! {
    /// Pages that the array moved, and how it updated parity. What is planned counts when it is
    /// planned.
    pub struct ArrayTraffic from ArrayStats {
        data_reads ["1"] "data pages read from members, for whatever reason but a rebuild"
            { figure "data read" Count Less "data pages read from members" },
        data_writes ["1"] "data pages written to members"
            { figure "data written" Count Less },
        parity_reads ["1"] "parity pages (RAID-1: further copies) read"
            { figure "parity read" Count Less "parity pages read" },
        parity_writes ["1"] "parity pages (RAID-1: further copies) written"
            { figure "parity written" Count Less "parity pages written" },
        data_trims ["1"] "data pages trimmed on members: discards of whole rows"
            { figure "data trimmed" Count Neither "data pages trimmed on members" },
        parity_trims ["1"] "parity pages (RAID-1: further copies) trimmed on members"
            { figure "parity trimmed" Count Neither "parity pages trimmed on members" },
        late_data_reads ["1"] "those of data_reads made when cleaning: for parity that was left behind to catch up"
            { figure "data read late" Count Less "data pages read from members to clean rows: to have parity catch up that was left behind" },
        late_parity_reads ["1"] "those of parity_reads made when cleaning"
            { figure "parity read late" Count Less "parity pages read to clean rows" },
        late_parity_writes ["1"] "those of parity_writes made when cleaning"
            { figure "parity written late" Count Less "parity pages written to clean rows" },
        full_writes ["1"] "writes whose parity came from all data of their rows, nothing read"
            { figure "full" Count Neither "writes whose parity came from all data of their rows" },
        rmw_writes ["1"] "read-modify-writes: what is modified is read"
            { figure "rmw" Count Neither "read-modify-writes" },
        rcw_writes ["1"] "reconstruct-writes: what is not modified is read"
            { figure "rcw" Count Neither "reconstruct-writes" },
        degraded_writes ["1"] "writes of rows of which data was lost",
        delayed_writes ["1"] "writes of data alone, whose parity was left for later"
            { figure "delayed" Count Neither "writes whose parity was left for later" },
        flushes ["1"] "flushes of the members, the host's and the array's own"
            { figure "flushes" Count Neither "flushes of the members" },
        recovered_rows ["1"] "rows made consistent after an unclean start",
        rebuilt_rows ["1"] "rows filled in on replaced members",
        rebuild_reads ["1"] "pages read from members to fill replaced ones; in neither data_reads nor parity_reads"
            { column "rebuild read" Count Less "pages read from members to fill replaced ones" },
        rebuild_writes ["1"] "pages written to replaced members to fill them; in neither data_writes nor parity_writes"
            { column "rebuild written" Count Less "pages written to replaced members to fill them" },
    }
}

counters! {
    /// Steps begun, by kind.
    pub struct StepCounts by StepKind {
        read ["1"] "reads of an extent",
        write ["1"] "writes of an extent",
        meta_write ["1"] "writes of a cache's metadata",
        meta_read ["1"] "reads of a cache's metadata",
        flush ["1"] "flushes of a device",
        trim ["1"] "trims of an extent",
        collect ["1"] "orders to a device to collect garbage",
        merge ["1"] "merges of sectors into a page",
        slice ["1"] "sectors taken out of a page",
        xor ["1"] "XORs",
        pq ["1"] "computations of P and Q",
        gf ["1"] "combinations over GF(2^8)",
        encode ["1"] "deltas made",
        decode ["1"] "deltas applied",
        pack ["1"] "pages packed from parts",
        nv_commit ["1"] "commits of slots of the NVRAM: puts and frees that take effect together",
        hold ["1"] "puts and frees of slots of memory",
        intent ["1"] "intents set or cleared"
            { figure "intents" Count Neither },
        join ["1"] "joins of other steps",
        ack ["1"] "answers to the host",
    }
}

counters! {
    /// Pages by what the cache had of them.
    pub struct CachePages from CacheCounts {
        read_hits ["1"] "pages read from the cache"
            { figure "read hits" Count More "pages read that the cache had" },
        read_misses ["1"] "pages read from the array",
        write_hits ["1"] "pages written that the cache had",
        write_misses ["1"] "pages written that the cache had not",
        read_fills ["1"] "pages written to the cache after a read"
            { figure "fills" Count Less "pages written to the cache device after reads" },
        write_fills ["1"] "pages written to the cache by a write"
            { figure "data" Count Less "pages written to the cache device by writes" },
        delta_writes ["1"] "pages with deltas written to the cache"
            { figure "deltas" Count Less "pages with deltas written to the cache device" },
        meta_writes ["1"] "pages of metadata (the journal of what is in which page) written to the cache"
            { figure "metadata" Count Less "pages of the journal of what is in which page, written to the cache device" },
        bypassed ["1"] "pages read and written past the cache, as they go on with a long sequential run",
        clean_writes ["1"] "pages written to the cache again when the parity of their row was made to catch up"
            { figure "rewritten" Count Less "pages written to the cache device again when their row was cleaned" },
    }
}

record! {
    /// Counts the work of a cache.
    pub struct CacheTraffic {
        pages: CachePages => "pages by what it had of them",
        own: OwnFigures => "what it counts of its own",
    }
}

/// The figures of one cache among those that any cache keeps account of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnFigures(Vec<(&'static str, Option<u64>)>);

impl OwnFigures {
    /// None: which there are depends on the caches, and [`ArrayResult::fields`] lists them.
    pub const FIELDS: &'static [FieldDoc] = &[];
}

impl Serialize for OwnFigures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

impl<'de> Deserialize<'de> for OwnFigures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = BTreeMap::<String, Option<u64>>::deserialize(deserializer)?;
        let of = |field: &FieldDoc| {
            given.get(field.name).map(|&figure| (field.name, figure)).ok_or_else(|| D::Error::missing_field(field.name))
        };
        CACHE_FIELDS[CachePages::FIELDS.len()..].iter().map(of).collect::<Result<_, _>>().map(Self)
    }
}

/// The pages, then what the caches count of their own, each once.
static CACHE_FIELDS: LazyLock<Vec<FieldDoc>> = LazyLock::new(|| {
    let mut all = CachePages::FIELDS.to_vec();
    for figure in host_caches().flat_map(|info| info.figures) {
        if all.iter().all(|field| field.name != figure.name) {
            let CacheFigure { name, unit, meaning } = *figure;
            all.push(FieldDoc { name, unit, meaning, fields: &[], figure: None });
        }
    }
    all
});

impl CacheTraffic {
    /// Returns the cache's counts between two moments.
    pub(super) fn between(
        info: &HostCacheInfo,
        before: Option<&CacheMoment>,
        after: Option<&CacheMoment>,
    ) -> Option<Self> {
        let (before, after) = (before?, after?);
        let of = |name: &str| {
            let at = info.figures.iter().position(|figure| figure.name == name)?;
            Some(after.figures[at] - before.figures[at])
        };
        let own = CACHE_FIELDS[CachePages::FIELDS.len()..].iter().map(|field| (field.name, of(field.name)));
        Some(Self { pages: after.pages.since(&before.pages), own: OwnFigures(own.collect()) })
    }
}

/// Holds the counts of a cache up to a moment.
#[derive(Clone)]
pub(super) struct CacheMoment {
    pub(super) pages: CachePages,
    /// In the order of the cache's [`HostCacheInfo::figures`].
    pub(super) figures: Vec<u64>,
}

counters! {
    /// The NVRAM and the processor.
    pub struct NvramTraffic {
        nvram_busy ["ns"] "time of all NVRAM steps",
        compute_busy ["ns"] "time of all computing steps",
        journal_writes ["1"] "pages written to the cache device for want of an NVRAM (nvram.on): the journal of what would be in it"
            { figure "journal" Count Less "pages written to the cache device for want of an NVRAM: the journal of what would be in it" },
    }
}

record! {
    /// Counts the waits of one class of operations for rows that others worked on.
    pub struct ClaimResult {
        class: Cow<'static, str> ["-"] "read, write, recovery, rebuild or internal",
        claims: u64 ["1"] "claims made",
        waited: u64 ["1"] "claims that had to wait",
        wait_time: u64 ["ns"] "time waited, summed up",
        longest_wait: u64 ["ns"] "the longest wait since the start, warm-up included",
    }
}

record! {
    /// Holds the figures of one device.
    pub struct DeviceResult {
        device: String ["-"] "0, 1, ... for the members, cache for the cache device",
        model: Cow<'static, str> ["-"] "disk, ssd or fixed",
        counters: DeviceCounters => "what it did",
        busy_time: u64 ["ns"] "time in service; of an SSD summed over the units that work in parallel",
        served_busy_time: u64 ["ns"] "the part of busy_time within served_time; of an SSD that of the commands completed in it",
        busy_share: Option<f64> ["1"] "served_busy_time / (served_time x units); null where no time passed",
        mean_queue: Option<f64> ["1"] "commands outstanding, averaged over served_time; null where no time passed",
        longest_queue: u64 ["1"] "most commands outstanding at a time",
        mean_residence: Option<f64> ["ns"] "residence_time / commands",
        disk: DiskResult => "what a disk did",
        flash: FlashResult => "what an SSD did",
        streams: Option<Vec<StreamResult>> ["-"] "what an SSD wrote by stream; null unless ssd.placement = streams" = StreamResult,
        wear: Option<Vec<WearClass>> ["-"] "blocks by erases since the start, warm-up included, in at most 128 classes that are not empty; null if it is not an SSD" = WearClass,
    }
}

record! {
    /// A time for which a device collected, with whichever of its elements.
    pub struct CollectionSpan {
        device: String ["-"] "0, 1, ... for the members, cache for the cache device",
        start: u64 ["ns"] "when it began, since the first measured arrival",
        end: u64 ["ns"] "when it ended",
    }
}

record! {
    /// Garbage collections of the devices.
    pub struct CollectionsResult {
        overlap: OverlapResult ["-"] "how many members collect at the same time" = OverlapResult,
        reactive_rounds: Option<u64> ["1"] "times that all members were told to collect since one had begun; null without a policy that does so",
        soft_rounds: Option<u64> ["1"] "times that they were told to since several would have had to soon; null without a policy that does so",
        proactive_rounds: Option<u64> ["1"] "times that they were told to in a quiet moment; null without a policy that does so",
        delayed_requests: Option<u64> ["1"] "requests of which a step waited for a device that collected; what waits for room in a cache does so without a step; null when saturated",
        delayed_time: Option<u64> ["ns"] "time for which they waited for it, summed up; steps that waited at the same time count once; null when saturated",
        spans: u64 ["1"] "times that a device began to collect and ended, with whichever of its elements",
        shown: Vec<CollectionSpan> ["-"] "of more than 400 spans the 400 consecutive ones that came closest together" = CollectionSpan,
    }
}

record! {
    /// A device that failed, and what followed. Times since the beginning of the simulation.
    pub struct FailureResult {
        device: String ["-"] "0, 1, ... for the members, cache for the cache device",
        failed_at: u64 ["ns"] "when it failed",
        replaced_at: Option<u64> ["ns"] "when another took its place; null if none did",
        rebuilt_at: Option<u64> ["ns"] "when the other had been filled and that was noted; null if it was not, and for the cache",
        rebuild_time: Option<u64> ["ns"] "rebuilt_at - replaced_at",
    }
}

record! {
    /// Holds the effects of failures on the measured part.
    pub struct DegradedResult {
        degraded_time: u64 ["ns"] "time with a member lost or not yet filled",
        rebuild_time: u64 ["ns"] "the part of it in which a rebuild was under way",
        healthy: Option<LatencySummary> ["-"] "reads and writes that arrived while no member was lost" = LatencySummary,
        degraded: Option<LatencySummary> ["-"] "reads and writes that arrived while a member was lost and none was being filled" = LatencySummary,
        rebuilding: Option<LatencySummary> ["-"] "reads and writes that arrived during a rebuild" = LatencySummary,
        failures: Vec<FailureResult> ["-"] "what failed" = FailureResult,
    }
}

record! {
    /// One span of simulated time. A request is credited to the span in which it arrived.
    pub struct SeriesPoint from SeriesBin {
        requests: u64 ["1"] "requests that arrived",
        host_bytes_read: u64 ["B"] "bytes asked for by reads that arrived",
        host_bytes_written: u64 ["B"] "bytes asked for by writes that arrived",
        read_response_sum: u64 ["ns"] "sum of the response times of reads; 0 when saturated",
        read_response_max: u64 ["ns"] "largest of them; 0 when saturated",
        write_response_sum: u64 ["ns"] "sum of the response times of writes; 0 when saturated",
        write_response_max: u64 ["ns"] "largest of them; 0 when saturated",
        responses: u64 ["1"] "reads and writes that arrived and were answered, whose response times these are",
        gc_delayed: u64 ["1"] "those of them of which a step waited for a device that collected; 0 when saturated",
        backlog_sum: u64 ["1"] "outstanding requests seen by each arrival, summed up; divide by requests",
        backlog_min: u64 ["1"] "fewest outstanding requests seen by an arrival; 0 where none arrived",
    }
}

record! {
    /// Figures over simulated time.
    pub struct SeriesOverTime {
        start: u64 ["ns"] "arrival of the first measured request",
        width: u64 ["ns"] "width of a bin",
        bins: Vec<SeriesPoint> ["-"] "the bins in order; half as many wide ones replace them as often as they become too many" = SeriesPoint,
    }
}

record! {
    /// The result of one run.
    pub struct ArrayResult {
        policy: Cow<'static, str> ["-"] "name of the controller, as destage policies lists it",
        params: Vec<ParamValue> ["-"] "the controller's parameters in force" = ParamValue,
        cache_bytes: Option<u64> ["B"] "size of the cache; null without one",
        scheduler: Option<Cow<'static, str>> ["-"] "order of service of the disks; null without disks",
        page_bytes: u64 ["B"] "size of a page",
        array: ArrayShape ["-"] "the array" = ArrayShape,
        device: Cow<'static, str> ["-"] "what the members are: disk, ssd or fixed",
        cache_device: Option<Cow<'static, str>> ["-"] "what the cache device is: disk, ssd or fixed; null without a cache",
        cache_nv_slots: u64 ["1"] "slots of a page each that the cache has in the NVRAM beside the array's",
        start_state: String ["-"] "what SSDs held at the start: empty, full, random:SEED, aged:TIMES:SEED or steady:SEED; none without SSDs",
        context: RunContext => "how requests came in, and what weakens the figures",
        counters: HostCounters => "requests of the host",
        served_time: u64 ["ns"] "from the first measured arrival to the last arrival or answer",
        simulated_time: u64 ["ns"] "from the first measured arrival until nothing is under way, rebuilds included",
        requests_per_second: Option<f64> ["1/s"] "(requests - failed_requests) / served_time; null where no time passed",
        host_bytes_per_second: Option<f64> ["B/s"] "(host_bytes_read + host_bytes_written) / served_time; null where no time passed or requests failed",
        mean_outstanding: Option<f64> ["1"] "requests without an answer, averaged over served_time; null where no time passed",
        saturated: Option<SaturationCause> ["-"] "null, or why the response times are not meaningful: cause = backlog or growing, with figures",
        response: Option<HostResponses> ["-"] "response times of requests that did not fail; null when saturated" = HostResponses,
        traffic: ArrayTraffic ["-"] "pages that the array moved" = ArrayTraffic,
        hit_ratio: Option<f64> ["1"] "(read_hits + write_hits) / all pages that the cache was asked for; null without a cache or accesses"
            { figure "hit %" Percent More "pages that the cache had, of those that it was asked for" ["Hit ratio", "hits, % of page accesses"] },
        cache: Option<CacheTraffic> ["-"] "the cache; null without one" = CacheTraffic,
        cache_wear: Option<CacheWear> ["-"] "how long the cache device lasts; null without one, or without cache-endurance" = CacheWear,
        parity_debt: Option<ParityDebt> ["-"] "parity that was left behind data; null without a cache that leaves it for later" = ParityDebt,
        steps: StepCounts ["-"] "steps begun, by kind" = StepCounts,
        nvram: NvramTraffic => "the NVRAM and the processor",
        open_rows: u64 ["1"] "rows whose intent was open at the end",
        claims: Vec<ClaimResult> ["-"] "waits for rows that others worked on, by class" = ClaimResult,
        devices: Vec<DeviceResult> ["-"] "the devices, members first" = DeviceResult,
        collections: Option<CollectionsResult> ["-"] "garbage collections; null without SSDs" = CollectionsResult,
        degraded: Option<DegradedResult> ["-"] "failures and what followed; null if nothing failed" = DegradedResult,
        volumes: Option<Vec<VolumeResult>> ["-"] "each volume's part, the one with most traffic first; null without per-volume" = VolumeResult,
        series: SeriesOverTime ["-"] "figures over simulated time" = SeriesOverTime,
        version: ResultVersion => "the versions",
    }
}

impl ArrayResult {
    /// Name, unit and meaning of every field, in order, with what each cache counts of its own.
    pub fn fields() -> Vec<FieldDoc> {
        let with_own = |field: &FieldDoc| match field.name {
            "cache" => FieldDoc { fields: &CACHE_FIELDS, ..*field },
            _ => *field,
        };
        Self::FIELDS.iter().map(with_own).collect()
    }
}
