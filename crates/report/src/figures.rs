//! The catalogue of figures: what each is called, where results have it, how it is shown, and which
//! value is better. Terminal, page, charts and claims take all of that from here.

use std::ops::Add;

pub use destage_sim::measure::{Better, Show};

use crate::ReportRun;

/// Decimals of the page.
pub(crate) const PLACES: usize = 2;

/// Where a result has a figure. The keys of a path are parted by points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At a path.
    At(&'static str),
    /// The sum of what is at these paths; what is not there counts nothing.
    Sum(&'static [&'static str]),
    /// What is at the first path without the part of it that is at the second.
    Rest(&'static str, &'static str),
    /// What is at the first path, or else nothing, as a share of what is at the second.
    Share(&'static str, &'static str),
    /// The largest of a key of the records in a list.
    Most(&'static str, &'static str),
    /// The sum of a key of the records in a list.
    Total(&'static str, &'static str),
    /// The sum of keys of an array's devices without that of the cache.
    Members(&'static [&'static str]),
    /// Pages of what is at a path in bytes.
    Pages(&'static str),
    /// A figure as a multiple of another.
    Per(&'static Figure, &'static Figure),
}

/// A figure of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Where results have it.
    pub place: Place,
    /// What stands above it.
    pub heading: &'static str,
    /// How it is shown.
    pub show: Show,
    /// Which value is better.
    pub better: Better,
    /// What it is, in a sentence.
    pub meaning: &'static str,
    /// The title of its chart, and what stands at the axis; empty if it has none.
    pub chart: [&'static str; 2],
}

impl Figure {
    /// What a run shows of it.
    pub fn of(&self, run: &ReportRun) -> Option<f64> {
        let each = |list, key: &'static str| run.list(list).iter().filter_map(move |record| record.get(key)?.as_f64());
        match self.place {
            Place::At(path) => run.number(path),
            Place::Sum(paths) => Some(paths.iter().filter_map(|path| run.number(path)).fold(0.0, f64::add)),
            Place::Rest(whole, part) => Some(run.number(whole)? - run.number(part)?),
            Place::Share(part, whole) => {
                let whole = run.number(whole).filter(|whole| *whole > 0.0)?;
                Some(run.number(part).unwrap_or(0.0) / whole)
            }
            Place::Most(list, key) => each(list, key).max_by(f64::total_cmp),
            Place::Total(list, key) => Some(each(list, key).fold(0.0, f64::add)),
            Place::Members(keys) => {
                let members = run.list("devices").iter().filter(|device| device["device"] != "cache");
                let all = members.flat_map(|device| keys.iter().filter_map(|key| device.get(key)?.as_f64()));
                Some(all.fold(0.0, f64::add))
            }
            Place::Pages(path) => Some(run.number(path)? / run.number("page_bytes").filter(|bytes| *bytes > 0.0)?),
            Place::Per(figure, unit) => Some(figure.of(run)? / unit.of(run).filter(|unit| *unit > 0.0)?),
        }
    }

    /// Its only path.
    pub(crate) const fn path(&self) -> &'static str {
        match self.place {
            Place::At(path) => path,
            _ => panic!("a figure that is made of others has no path"),
        }
    }
}

/// A row a figure: where it is, heading, format, what is better, meaning, and title and axis of its
/// chart if it has one.
macro_rules! catalogue {
    ($(
        $name:ident = $place:ident($($path:expr),+) $heading:literal $show:ident $better:ident $meaning:literal
        $([$title:literal, $axis:literal])?;
    )+) => {
        $(
            #[doc = $meaning]
            pub const $name: Figure = Figure {
                place: Place::$place($($path),+),
                heading: $heading,
                show: Show::$show,
                better: Better::$better,
                meaning: $meaning,
                chart: chart!($($title, $axis)?),
            };
        )+
        /// Every figure.
        pub const ALL: &[Figure] = &[$($name),+];
    };
}

macro_rules! chart {
    () => {
        [""; 2]
    };
    ($title:literal, $axis:literal) => {
        [$title, $axis]
    };
}

catalogue! {
    HIT_RATIO = At("hit_ratio") "hit %" Percent More "page accesses that found their page in the buffer"
        ["Hit ratio", "hits, % of page accesses"];
    EVICTIONS = At("evictions") "evictions" Count Neither "victim units (pages or blocks) during the run"
        ["Evictions", "victim units"];
    PAGES_PER_EVICTION = At("pages_per_eviction") "pages/eviction" Decimals More "mean pages of a victim unit"
        ["Pages of a victim", "pages per eviction"];
    PAGES_FLUSHED = At("dirty_pages_flushed") "pages flushed" Count Less "dirty pages written because of evictions";
    PAD_READS = At("pad_reads") "pad reads" Count Less "missing pages of victims, read so as to write whole blocks";
    CLEAN_DROPS = At("clean_drops") "clean drops" Count Neither "clean pages dropped by evictions";
    MODEL_THROUGHPUT = At("analytic.throughput") "MB/s" Rate More
        "host bytes written per second of the cost model's time"
        ["Throughput in the cost model", "host MB/s written"];
    ERASES = At("erases") "erases" Count Less "blocks erased" ["Erases", "blocks erased"];
    FLASH_READS = At("flash_reads") "pages read" Count Less "pages read for padding";
    FLASH_WRITES = At("flash_writes") "pages written" Count Less "pages programmed";
    PAGES_MOVED = At("gc_pages_moved") "pages moved" Count Less "valid pages moved by collection";
    COLLECTIONS = At("gc_invocations") "GC runs" Count Less "collections, of a log-block FTL reclaimed log blocks";
    THROUGHPUT = At("host_bytes_per_second") "MB/s" Rate More "bytes read and written by the host per second"
        ["Throughput", "host MB/s, read and written"];
    REQUEST_RATE = At("requests_per_second") "requests/s" Decimals More "requests answered per second"
        ["Requests answered", "requests per second"];
    MEAN = At("response.all.mean") "mean" Time Less "mean response time of reads and writes"
        ["Mean response time", "mean response time"];
    P50 = At("response.all.p50") "p50" Time Less "half of the reads and writes were answered within";
    P99 = At("response.all.p99") "p99" Time Less "99 % of reads and writes were answered within"
        ["99th percentile of response times", "p99"];
    P99_9 = At("response.all.p99_9") "p99.9" Time Less "99.9 % of reads and writes were answered within"
        ["99.9th percentile of response times", "p99.9"];
    P99_9_UNDELAYED = At("response.gc_undelayed.p99_9") "p99.9 not delayed" Time Neither
        "the same of those reads and writes that waited for no collection";
    DELAYED_SHARE = Share("response.gc_delayed.count", "response.all.count") "delayed %" Percent Less
        "reads and writes that waited for a collection, or for a frame that did";
    DEVIATION = At("response.all.standard_deviation") "deviation" Time Less "standard deviation of the response times of reads and writes";
    LONGEST = At("response.all.max") "longest" Time Less "longest response time of a read or write";
    MEAN_READ = At("response.read.mean") "mean read" Time Less "mean response time of reads";
    MEAN_WRITE = At("response.write.mean") "mean write" Time Less "mean response time of writes";
    WRITE_AMPLIFICATION = At("ssd.write_amplification") "write ampl." Decimals Less
        "pages programmed for the host and moved by collection, per page programmed for the host"
        ["Write amplification", "pages programmed per page of the host"];
    CV_READS = At("ssd.cv_reads_with_moves") "CV reads" Decimals Less
        "coefficient of variation of the elements' page reads, those of collection included";
    CV_WRITES = At("ssd.cv_writes") "CV writes" Decimals Less
        "coefficient of variation of the elements' page programs, those of collection included";
    CV_ERASES = At("ssd.cv_erases") "CV erases" Decimals Less "coefficient of variation of the elements' erases";
    WORST_BLOCK = At("ssd.erases_per_block_max") "worst block" Count Less
        "erases of the most erased block since the start";
    LIFETIME = At("ssd.lifetime_host_bytes") "lifetime" Bytes More
        "bytes that the host can write until the mean block is worn out, at the measured rate";
    SWITCH_MERGES = At("ssd.switch_merges") "switch merges" Count Neither
        "log blocks that held a whole block in order and took its place";
    PARTIAL_MERGES = At("ssd.partial_merges") "partial merges" Count Neither
        "log blocks that took a block's place once its other pages were copied there";
    FULL_MERGES = At("ssd.full_merges") "full merges" Count Less "blocks copied together into a clean one";
    CACHE_HIT_RATIO = At("hit_ratio") "hit %" Percent More "pages that the cache had, of those that it was asked for"
        ["Hit ratio", "hits, % of page accesses"];
    MEMBER_READS = Sum(&["traffic.data_reads", "traffic.parity_reads"]) "pages read" Count Less
        "data and parity pages read from members";
    MEMBER_WRITES = Sum(&["traffic.data_writes", "traffic.parity_writes"]) "pages written" Count Less
        "data and parity pages written to members";
    BUSIEST = Most("devices", "busy_share") "busiest %" Percent Neither
        "share of time that the busiest device was in service";
    MEAN_QUEUE = Most("devices", "mean_queue") "mean queue" Decimals Neither
        "commands outstanding on average at the device with most of them";
    COLLECTING = At("collections.overlap.mean_collecting") "collecting" Decimals More
        "members that collect, averaged over the slices of 0.1 ms in which any does";
    COLLECTING_TOGETHER = At("collections.overlap.mean_together") "in company" Decimals More
        "members that collect together with others, averaged over all slices of 0.1 ms";
    HELD_UP_SHARE = Share("collections.delayed_requests", "requests") "delayed %" Percent Less
        "requests of which a step waited for a member that collected";
    DEVICES_ERASES = Total("devices", "erases") "erases" Count Less "blocks erased, in all devices"
        ["Erases", "blocks erased, in all devices"];
    DEVICES_PROGRAMS = Total("devices", "flash_writes") "programmed" Count Less
        "pages programmed, for whatever reason, in all devices";
    DEVICES_MOVED = Total("devices", "gc_pages_moved") "moved" Count Less "valid pages moved by collections, in all devices";
    MEMBER_IOS = Sum(&["traffic.data_reads", "traffic.parity_reads", "traffic.data_writes", "traffic.parity_writes"])
        "member I/Os" Count Less "data and parity pages read from members and written to them";
    MEMBER_REQUESTS = Members(&["reads", "writes"]) "member requests" Count Less "reads and writes that members carried out";
    MEMBER_READ_REQUESTS = Members(&["reads"]) "member reads" Count Less "reads that members carried out, of however many pages";
    MEMBER_WRITE_REQUESTS = Members(&["writes"]) "member writes" Count Less "writes that members carried out, of however many pages";
    HOST_ACCESSES = Sum(&["read_requests", "write_requests"]) "reads and writes" Count Neither "reads and writes of the host";
    MEMBER_REQUESTS_PER_ACCESS = Per(&MEMBER_REQUESTS, &HOST_ACCESSES) "member requests/request" Decimals Less
        "reads and writes that members carried out per read and write of the host";
    MEMBER_READ_REQUESTS_PER_PAGE = Per(&MEMBER_READ_REQUESTS, &HOST_PAGES) "member reads/page" Decimals Less
        "reads that members carried out per page that the host wrote";
    MEMBER_WRITE_REQUESTS_PER_PAGE = Per(&MEMBER_WRITE_REQUESTS, &HOST_PAGES) "member writes/page" Decimals Less
        "writes that members carried out per page that the host wrote";
    CACHE_READ_HITS = At("cache.read_hits") "read hits" Count More "pages read that the cache had";
    CACHE_READS = Sum(&["cache.read_hits", "cache.read_misses"]) "cache reads" Count Neither "pages read, be they in the cache or not";
    CACHE_READ_HIT_RATIO = Per(&CACHE_READ_HITS, &CACHE_READS) "read hit %" Percent More "pages read that the cache had, of all pages read";
    DATA_READS = At("traffic.data_reads") "data read" Count Less "data pages read from members";
    DATA_WRITES = At("traffic.data_writes") "data written" Count Less "data pages written to members";
    PARITY_READS = At("traffic.parity_reads") "parity read" Count Less "parity pages read";
    PARITY_WRITES = At("traffic.parity_writes") "parity written" Count Less "parity pages written";
    FULL_WRITES = At("traffic.full_writes") "full" Count Neither "writes whose parity came from all data of their rows";
    RMW_WRITES = At("traffic.rmw_writes") "rmw" Count Neither "read-modify-writes";
    RCW_WRITES = At("traffic.rcw_writes") "rcw" Count Neither "reconstruct-writes";
    DATA_READS_AT_ONCE = Rest("traffic.data_reads", "traffic.late_data_reads") "data read at once" Count Less
        "data pages read from members, but for cleaning";
    PARITY_READS_AT_ONCE = Rest("traffic.parity_reads", "traffic.late_parity_reads") "parity read at once" Count Less
        "parity pages read, but for cleaning";
    PARITY_WRITES_AT_ONCE = Rest("traffic.parity_writes", "traffic.late_parity_writes") "parity written at once" Count Less
        "parity pages written, but for cleaning";
    LATE_DATA_READS = At("traffic.late_data_reads") "data read late" Count Less
        "data pages read from members to clean rows: to have parity catch up that was left behind";
    LATE_PARITY_READS = At("traffic.late_parity_reads") "parity read late" Count Less "parity pages read to clean rows";
    LATE_PARITY_WRITES = At("traffic.late_parity_writes") "parity written late" Count Less "parity pages written to clean rows";
    DELAYED_WRITES = At("traffic.delayed_writes") "delayed" Count Neither "writes whose parity was left for later";
    STALE_ROWS = At("parity_debt.rows_mean") "stale rows" Decimals Less
        "rows whose parity is behind their data, averaged over time";
    MOST_STALE_ROWS = At("parity_debt.rows_max") "most stale" Count Less "the most rows whose parity was behind their data at a time";
    STALE_AGE = At("parity_debt.mean_age") "stale for" Time Less "mean time for which the parity of a row stays behind its data";
    OWED_ROWS = At("parity_debt.rows_owed") "owed" Count Less "rows whose parity is still behind their data at the end of the run";
    CACHE_WRITES = Sum(&[
        "cache.read_fills",
        "cache.write_fills",
        "cache.delta_writes",
        "cache.meta_writes",
        "cache.clean_writes",
        "journal_writes"
    ]) "cache writes" Count Less "pages written to the cache device, for whatever reason";
    READ_FILLS = At("cache.read_fills") "fills" Count Less "pages written to the cache device after reads";
    WRITE_FILLS = At("cache.write_fills") "data" Count Less "pages written to the cache device by writes";
    DELTA_WRITES = At("cache.delta_writes") "deltas" Count Less "pages with deltas written to the cache device";
    META_WRITES = At("cache.meta_writes") "metadata" Count Less
        "pages of the journal of what is in which page, written to the cache device";
    CLEAN_WRITES = At("cache.clean_writes") "rewritten" Count Less "pages written to the cache device again when their row was cleaned";
    JOURNAL_WRITES = At("journal_writes") "journal" Count Less
        "pages written to the cache device for want of an NVRAM: the journal of what would be in it";
    CACHE_METADATA_SHARE = Per(&META_WRITES, &CACHE_WRITES) "metadata %" Percent Less
        "share of metadata in the pages written to the cache device";
    CACHE_WRITES_PER_PAGE = Per(&CACHE_WRITES, &HOST_PAGES) "cache writes/page" Decimals Less
        "pages written to the cache device per page that the host wrote";
    READ_FILLS_PER_PAGE = Per(&READ_FILLS, &HOST_PAGES) "fills/page" Decimals Less
        "pages written to the cache device after reads, per page that the host wrote";
    WRITE_FILLS_PER_PAGE = Per(&WRITE_FILLS, &HOST_PAGES) "data/page" Decimals Less
        "pages written to the cache device by writes, per page that the host wrote";
    DELTA_WRITES_PER_PAGE = Per(&DELTA_WRITES, &HOST_PAGES) "deltas/page" Decimals Less
        "pages with deltas written to the cache device, per page that the host wrote";
    META_WRITES_PER_PAGE = Per(&META_WRITES, &HOST_PAGES) "metadata/page" Decimals Less
        "pages of the journal written to the cache device, per page that the host wrote";
    CLEAN_WRITES_PER_PAGE = Per(&CLEAN_WRITES, &HOST_PAGES) "rewritten/page" Decimals Less
        "pages written to the cache device again when their row was cleaned, per page that the host wrote";
    JOURNAL_WRITES_PER_PAGE = Per(&JOURNAL_WRITES, &HOST_PAGES) "journal/page" Decimals Less
        "pages written to the cache device for want of an NVRAM, per page that the host wrote";
    CACHE_LIFETIME = At("cache_wear.lifetime") "lifetime" Years More
        "time until the cache device is worn out at the rate at which it was written"
        ["Lifetime of the cache device", "years"];
    HOST_PAGES = Pages("host_bytes_written") "host pages" Decimals Neither "pages' worth of bytes that the host wrote";
    WRITES_PER_PAGE = Per(&MEMBER_WRITES, &HOST_PAGES) "writes/page" Decimals Less
        "data and parity pages written to members per page that the host wrote";
    READS_PER_PAGE = Per(&MEMBER_READS, &HOST_PAGES) "reads/page" Decimals Less
        "data and parity pages read from members, for the host and for parity, per page that the host wrote";
    MEMBER_IOS_PER_PAGE = Per(&MEMBER_IOS, &HOST_PAGES) "I/Os/page" Decimals Less
        "data and parity pages read from members and written to them, per page that the host wrote";
    DATA_READS_PER_PAGE = Per(&DATA_READS_AT_ONCE, &HOST_PAGES) "data read/page" Decimals Less
        "data pages read from members, but for cleaning, per page that the host wrote";
    PARITY_READS_PER_PAGE = Per(&PARITY_READS_AT_ONCE, &HOST_PAGES) "parity read/page" Decimals Less
        "parity pages read, but for cleaning, per page that the host wrote";
    DATA_WRITES_PER_PAGE = Per(&DATA_WRITES, &HOST_PAGES) "data written/page" Decimals Less
        "data pages written to members per page that the host wrote";
    PARITY_WRITES_PER_PAGE = Per(&PARITY_WRITES_AT_ONCE, &HOST_PAGES) "parity written/page" Decimals Less
        "parity pages written, but for cleaning, per page that the host wrote";
    LATE_DATA_READS_PER_PAGE = Per(&LATE_DATA_READS, &HOST_PAGES) "data read late/page" Decimals Less
        "data pages read to clean rows, per page that the host wrote";
    LATE_PARITY_READS_PER_PAGE = Per(&LATE_PARITY_READS, &HOST_PAGES) "parity read late/page" Decimals Less
        "parity pages read to clean rows, per page that the host wrote";
    LATE_PARITY_WRITES_PER_PAGE = Per(&LATE_PARITY_WRITES, &HOST_PAGES) "parity written late/page" Decimals Less
        "parity pages written to clean rows, per page that the host wrote";
    PROGRAMS_PER_WRITE = Per(&DEVICES_PROGRAMS, &MEMBER_WRITES) "write ampl." Decimals Less
        "pages programmed in the devices, those moved by collections and summary pages among them, per page written to them"
        ["Write amplification", "pages programmed per page written to the devices"];
    MEMBER_FLUSHES = At("traffic.flushes") "flushes" Count Neither "flushes of the members";
    INTENTS = At("steps.intent") "intents" Count Neither "intents set or cleared";
    CLAIM_WAITS = Total("claims", "wait_time") "waited" Time Less "time that operations waited for others on their stripes";
}

#[cfg(test)]
mod tests {
    use destage_sim::array::ArrayResult;
    use destage_sim::buffer::RunResult;
    use destage_sim::measure::FieldDoc;

    use super::*;

    /// The field at a path of a result's description.
    fn find<'a>(fields: &'a [FieldDoc], path: &str) -> Option<&'a FieldDoc> {
        let (key, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
        let field = fields.iter().find(|field| field.name == key)?;
        rest.map_or(Some(field), |rest| find(field.fields, rest))
    }

    #[test]
    fn results_have_every_figure() {
        let (buffers, arrays) = (RunResult::fields(), ArrayResult::fields());
        let field = |path: &str| find(&buffers, path).or_else(|| find(&arrays, path));
        // What is made of two others has their paths.
        for figure in ALL.iter().filter(|figure| !matches!(figure.place, Place::Per(..))) {
            let paths = match figure.place {
                Place::At(path) | Place::Pages(path) => vec![path.to_owned()],
                Place::Per(..) => unreachable!("left out"),
                Place::Sum(paths) => paths.iter().map(|&path| path.to_owned()).collect(),
                Place::Rest(whole, part) => vec![whole.to_owned(), part.to_owned()],
                Place::Share(part, whole) => vec![part.to_owned(), whole.to_owned()],
                Place::Most(list, key) | Place::Total(list, key) => vec![format!("{list}.{key}")],
                Place::Members(keys) => keys.iter().map(|key| format!("devices.{key}")).collect(),
            };
            for path in paths {
                let unit = field(&path).unwrap_or_else(|| panic!("no result has {path}")).unit;
                let units: &[&str] = match (figure.place, figure.show) {
                    (Place::Pages(_), _) => &["B"],
                    (Place::Share(..), _) | (_, Show::Count | Show::Percent) => &["1"],
                    (_, Show::Time) => &["ns"],
                    (_, Show::Years) => &["years"],
                    (_, Show::Bytes) => &["B"],
                    (_, Show::Rate) => &["B/s"],
                    (_, Show::Decimals) => &["1", "1/s"],
                };
                assert!(units.contains(&unit), "{path} has the unit {unit}: {figure:?}");
            }
        }
    }
}
