//! The catalogue of figures: what each is called, where results have it, how it is shown, and which
//! value is better. Terminal, page, charts and claims take all of that from here. A figure that is a
//! field of a result is declared there, with `record!`, and only named here where something refers
//! to it; what is made of several fields is declared here.

use std::ops::Add;
use std::sync::LazyLock;

use destage_sim::array::ArrayResult;
use destage_sim::buffer::RunResult;
pub use destage_sim::measure::{BetterValue, ValueFormat};
use destage_sim::measure::{FieldDoc, FigureDoc};

use crate::ReportRun;
use crate::results::is_list;

/// Decimals of the page.
pub(crate) const PLACES: usize = 2;

/// Says where a result has a figure. Points part the keys of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigurePlace {
    /// At a path.
    At(&'static str),
    /// The sum of what is at these paths; what is not there counts nothing.
    Sum(&'static [&'static str]),
    /// Subtracts the value at the second path from that at the first.
    Rest(&'static str, &'static str),
    /// Divides the value at the first path, or zero, by that at the second.
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
    Per(&'static ResultFigure, &'static ResultFigure),
}

/// A figure of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultFigure {
    /// Says where results have the figure.
    pub place: FigurePlace,
    /// Heads the figure's column.
    pub heading: &'static str,
    /// Selects the format of values.
    pub show: ValueFormat,
    /// Says which value is better.
    pub better: BetterValue,
    /// Explains the figure, in a sentence.
    pub meaning: &'static str,
    /// The title of its chart, and what stands at the axis; empty if it has none.
    pub chart: [&'static str; 2],
}

impl ResultFigure {
    /// Returns the figure's value in a run, or none.
    pub fn of(&self, run: &ReportRun) -> Option<f64> {
        let each = |list, key: &'static str| run.list(list).iter().filter_map(move |record| record.get(key)?.as_f64());
        match self.place {
            FigurePlace::At(path) => run.number(path),
            // A count that a run does not have adds nothing to the sum.
            FigurePlace::Sum(paths) => Some(paths.iter().filter_map(|path| run.number(path)).fold(0.0, f64::add)),
            FigurePlace::Rest(whole, part) => Some(run.number(whole)? - run.number(part)?),
            FigurePlace::Share(part, whole) => {
                let whole = run.number(whole).filter(|whole| *whole > 0.0)?;
                Some(run.number(part).unwrap_or(0.0) / whole)
            }
            FigurePlace::Most(list, key) => each(list, key).max_by(f64::total_cmp),
            FigurePlace::Total(list, key) => Some(each(list, key).fold(0.0, f64::add)),
            FigurePlace::Members(keys) => {
                // The cache device is none of the array's, and its traffic has figures of its own.
                let members = run.list("devices").iter().filter(|device| device["device"] != "cache");
                let all = members.flat_map(|device| keys.iter().filter_map(|key| device.get(key)?.as_f64()));
                Some(all.fold(0.0, f64::add))
            }
            FigurePlace::Pages(path) => {
                Some(run.number(path)? / run.number("page_bytes").filter(|bytes| *bytes > 0.0)?)
            }
            FigurePlace::Per(figure, unit) => Some(figure.of(run)? / unit.of(run).filter(|unit| *unit > 0.0)?),
        }
    }

    /// Returns the figure as which a field is declared that is at `place`.
    const fn declared(figure: FigureDoc, place: FigurePlace) -> Self {
        let FigureDoc { heading, show, better, meaning, chart, .. } = figure;
        Self { place, heading, show, better, meaning, chart }
    }

    /// Returns the figure as which the field at `path` is declared.
    const fn of_field(fields: &[FieldDoc], path: &'static str) -> Self {
        match field(fields, path.as_bytes()).figure {
            Some(figure) => Self::declared(figure, FigurePlace::At(path)),
            // The function runs at compile time, so a wrong path stops the build and not a user.
            None => panic!("the field is no figure"),
        }
    }

    /// Returns the only path of the figure.
    ///
    /// # Panics
    /// Panics for a figure that is computed from others.
    pub(crate) const fn path(&self) -> &'static str {
        match self.place {
            FigurePlace::At(path) => path,
            _ => panic!("a figure that is made of others has no path"),
        }
    }
}

/// Returns the field at `path` among `fields`.
const fn field<'a>(fields: &'a [FieldDoc], path: &[u8]) -> &'a FieldDoc {
    let mut end = 0;
    while end < path.len() && path[end] != b'.' {
        end += 1;
    }
    let mut at = 0;
    // An unknown field runs past the end, which the compiler reports as an error.
    while !is_same(fields[at].name.as_bytes(), path.split_at(end).0) {
        at += 1;
    }
    if end == path.len() { &fields[at] } else { field(fields[at].fields, path.split_at(end + 1).1) }
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// A figure for which tables have a column without naming it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeclaredColumn {
    /// The figure.
    pub figure: ResultFigure,
    /// Heads the figure's column on a terminal.
    pub short: &'static str,
}

/// Returns the columns with which every table of runs ends, over arrays or of buffers, in the order of the fields.
pub fn declared_columns(is_array: bool) -> &'static [DeclaredColumn] {
    static OF_BUFFERS: LazyLock<Vec<DeclaredColumn>> = LazyLock::new(|| columns_of(RunResult::FIELDS));
    static OF_ARRAYS: LazyLock<Vec<DeclaredColumn>> = LazyLock::new(|| columns_of(ArrayResult::FIELDS));
    if is_array { &OF_ARRAYS } else { &OF_BUFFERS }
}

/// Returns the columns that `fields` declare. Their paths live as long as the program.
fn columns_of(fields: &[FieldDoc]) -> Vec<DeclaredColumn> {
    fn add(columns: &mut Vec<DeclaredColumn>, prefix: &str, list: Option<&'static str>, fields: &[FieldDoc]) {
        for field in fields {
            let path = format!("{prefix}{}", field.name);
            if let Some(figure) = field.figure.filter(|figure| figure.is_column) {
                let place = match list {
                    None => FigurePlace::At(path.clone().leak()),
                    Some(list) => {
                        assert!(
                            prefix.is_empty(),
                            "{list}: {path} is in no record of the list itself, so it has no sum"
                        );
                        FigurePlace::Total(list, field.name)
                    }
                };
                columns.push(DeclaredColumn { figure: ResultFigure::declared(figure, place), short: figure.short });
            }
            if field.fields.is_empty() {
                continue;
            }
            if is_list(field) && list.is_none() {
                add(columns, "", Some(path.leak()), field.fields);
            } else {
                add(columns, &format!("{path}."), list, field.fields);
            }
        }
    }
    let mut columns = Vec::new();
    add(&mut columns, "", None, fields);
    columns
}

/// A row a figure: of which result and at which path, if it is declared with a field; or where it is, heading, format,
/// what is better, meaning, and title and axis of its chart if it has one.
macro_rules! catalogue {
    ($(
        $name:ident
        $(of $result:ident $field:literal)?
        $(
            = $place:ident($($path:expr),+) $heading:literal $show:ident $better:ident $meaning:literal
            $([$title:literal, $axis:literal])?
        )?;
    )+) => {
        $(
            $(#[doc = concat!("Names the figure that is declared with the field `", $field, "`.")])?
            $(#[doc = $meaning])?
            pub const $name: ResultFigure =
                $(ResultFigure::of_field($result::FIELDS, $field))?
                $(ResultFigure {
                    place: FigurePlace::$place($($path),+),
                    heading: $heading,
                    show: ValueFormat::$show,
                    better: BetterValue::$better,
                    meaning: $meaning,
                    chart: chart!($($title, $axis)?),
                })?;
        )+
        /// Every figure.
        pub const ALL: &[ResultFigure] = &[$($name),+];
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
    HIT_RATIO of RunResult "hit_ratio";
    EVICTIONS of RunResult "evictions";
    PAGES_PER_EVICTION of RunResult "pages_per_eviction";
    PAGES_FLUSHED of RunResult "dirty_pages_flushed";
    PAD_READS of RunResult "pad_reads";
    CLEAN_DROPS of RunResult "clean_drops";
    MODEL_THROUGHPUT of RunResult "analytic.throughput";
    ERASES of RunResult "erases";
    FLASH_READS of RunResult "flash_reads";
    FLASH_WRITES of RunResult "flash_writes";
    PAGES_MOVED of RunResult "gc_pages_moved";
    COLLECTIONS of RunResult "gc_invocations";
    COLLECTIONS_PER_REQUEST = Share("gc_invocations", "requests") "collections/request" Decimals Less "collections per request of the host";
    THROUGHPUT of RunResult "host_bytes_per_second";
    REQUEST_RATE of RunResult "requests_per_second";
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
    WRITE_AMPLIFICATION of RunResult "ssd.write_amplification";
    CV_READS of RunResult "ssd.cv_reads_with_moves";
    CV_WRITES of RunResult "ssd.cv_writes";
    CV_ERASES of RunResult "ssd.cv_erases";
    WORST_BLOCK of RunResult "ssd.erases_per_block_max";
    LIFETIME of RunResult "ssd.lifetime_host_bytes";
    CACHE_HIT_RATIO of ArrayResult "hit_ratio";
    MEMBER_READS = Sum(&["traffic.data_reads", "traffic.parity_reads"]) "pages read" Count Less
        "data and parity pages read from members";
    MEMBER_WRITES = Sum(&["traffic.data_writes", "traffic.parity_writes"]) "pages written" Count Less
        "data and parity pages written to members";
    ALL_MEMBER_WRITES = Sum(&["traffic.data_writes", "traffic.parity_writes", "traffic.rebuild_writes"]) "all pages written" Count Less
        "pages written to members, those of rebuilds among them";
    BUSIEST = Most("devices", "busy_share") "busiest %" Percent Neither
        "share of time that the busiest device was in service";
    MEAN_QUEUE = Most("devices", "mean_queue") "mean queue" Decimals Neither
        "commands outstanding on average at the device with most of them";
    COLLECTING of ArrayResult "collections.overlap.mean_collecting";
    COLLECTING_TOGETHER of ArrayResult "collections.overlap.mean_together";
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
    CACHE_READ_HITS of ArrayResult "cache.read_hits";
    CACHE_READS = Sum(&["cache.read_hits", "cache.read_misses"]) "cache reads" Count Neither "pages read, be they in the cache or not";
    CACHE_READ_HIT_RATIO = Per(&CACHE_READ_HITS, &CACHE_READS) "read hit %" Percent More "pages read that the cache had, of all pages read";
    DATA_READS of ArrayResult "traffic.data_reads";
    DATA_WRITES of ArrayResult "traffic.data_writes";
    PARITY_READS of ArrayResult "traffic.parity_reads";
    PARITY_WRITES of ArrayResult "traffic.parity_writes";
    FULL_WRITES of ArrayResult "traffic.full_writes";
    RMW_WRITES of ArrayResult "traffic.rmw_writes";
    RCW_WRITES of ArrayResult "traffic.rcw_writes";
    DATA_READS_AT_ONCE = Rest("traffic.data_reads", "traffic.late_data_reads") "data read at once" Count Less
        "data pages read from members, but for cleaning";
    PARITY_READS_AT_ONCE = Rest("traffic.parity_reads", "traffic.late_parity_reads") "parity read at once" Count Less
        "parity pages read, but for cleaning";
    PARITY_WRITES_AT_ONCE = Rest("traffic.parity_writes", "traffic.late_parity_writes") "parity written at once" Count Less
        "parity pages written, but for cleaning";
    LATE_DATA_READS of ArrayResult "traffic.late_data_reads";
    LATE_PARITY_READS of ArrayResult "traffic.late_parity_reads";
    LATE_PARITY_WRITES of ArrayResult "traffic.late_parity_writes";
    DELAYED_WRITES of ArrayResult "traffic.delayed_writes";
    STALE_ROWS of ArrayResult "parity_debt.rows_mean";
    MOST_STALE_ROWS of ArrayResult "parity_debt.rows_max";
    STALE_AGE of ArrayResult "parity_debt.mean_age";
    OWED_ROWS of ArrayResult "parity_debt.rows_owed";
    CACHE_WRITES = Sum(&[
        "cache.read_fills",
        "cache.write_fills",
        "cache.delta_writes",
        "cache.meta_writes",
        "cache.clean_writes",
        "journal_writes"
    ]) "cache writes" Count Less "pages written to the cache device, for whatever reason";
    READ_FILLS of ArrayResult "cache.read_fills";
    WRITE_FILLS of ArrayResult "cache.write_fills";
    DELTA_WRITES of ArrayResult "cache.delta_writes";
    META_WRITES of ArrayResult "cache.meta_writes";
    CLEAN_WRITES of ArrayResult "cache.clean_writes";
    JOURNAL_WRITES of ArrayResult "journal_writes";
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
    CACHE_LIFETIME of ArrayResult "cache_wear.lifetime";
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
    PROGRAMS_PER_WRITE = Per(&DEVICES_PROGRAMS, &ALL_MEMBER_WRITES) "programs/write" Decimals Less
        "pages programmed in the devices, those moved by collections and summary pages among them, per page written to the members";
    PROGRAMS_PER_PAGE = Per(&DEVICES_PROGRAMS, &HOST_PAGES) "write ampl." Decimals Less
        "flash pages programmed in all devices, for whatever reason, for each page that the host wrote"
        ["Write amplification", "pages programmed per page that the host wrote"];
    MEMBER_FLUSHES of ArrayResult "traffic.flushes";
    INTENTS of ArrayResult "steps.intent";
    CLAIM_WAITS = Total("claims", "wait_time") "waited" Time Less "time that operations waited for others on their stripes";
}

#[cfg(test)]
mod tests {
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
        let columns = [false, true].into_iter().flat_map(declared_columns).map(|column| &column.figure);
        for figure in ALL.iter().chain(columns).filter(|figure| !matches!(figure.place, FigurePlace::Per(..))) {
            let paths = match figure.place {
                FigurePlace::At(path) | FigurePlace::Pages(path) => vec![path.to_owned()],
                FigurePlace::Per(..) => unreachable!("left out"),
                FigurePlace::Sum(paths) => paths.iter().map(|&path| path.to_owned()).collect(),
                FigurePlace::Rest(whole, part) => vec![whole.to_owned(), part.to_owned()],
                FigurePlace::Share(part, whole) => vec![part.to_owned(), whole.to_owned()],
                FigurePlace::Most(list, key) | FigurePlace::Total(list, key) => vec![format!("{list}.{key}")],
                FigurePlace::Members(keys) => keys.iter().map(|key| format!("devices.{key}")).collect(),
            };
            for path in paths {
                let unit = field(&path).unwrap_or_else(|| panic!("no result has {path}")).unit;
                let units: &[&str] = match (figure.place, figure.show) {
                    (FigurePlace::Pages(_), _) => &["B"],
                    (FigurePlace::Share(..), _) | (_, ValueFormat::Count | ValueFormat::Percent) => &["1"],
                    (_, ValueFormat::Time) => &["ns"],
                    (_, ValueFormat::Years) => &["years"],
                    (_, ValueFormat::Bytes) => &["B"],
                    (_, ValueFormat::Rate) => &["B/s"],
                    (_, ValueFormat::Decimals) => &["1", "1/s"],
                };
                assert!(units.contains(&unit), "{path} has the unit {unit}: {figure:?}");
            }
        }
    }

    #[test]
    fn columns_are_declared_with_fields() {
        let mut places: Vec<_> = declared_columns(false).iter().map(|column| column.figure.place).collect();
        places.retain(|place| matches!(place, FigurePlace::At(path) if path.starts_with("ssd.")));
        assert_eq!(places, ["ssd.switch_merges", "ssd.partial_merges", "ssd.full_merges"].map(FigurePlace::At));
        let figure = find(RunResult::FIELDS, "ssd.switch_merges").and_then(|field| field.figure);
        let of = |name, fields, figure| FieldDoc { name, unit: "1", meaning: "", fields, figure };
        let counted: &[FieldDoc] = vec![of("hidden", &[], None), of("seen", &[], figure)].leak();
        let columns = columns_of(&[of("seen", &[], figure), of("within", counted, None), of("devices", counted, None)]);
        let places: Vec<_> = columns.iter().map(|column| column.figure.place).collect();
        assert_eq!(
            places,
            [FigurePlace::At("seen"), FigurePlace::At("within.seen"), FigurePlace::Total("devices", "seen")]
        );
        assert_eq!((columns[0].short, columns[0].figure.heading), ("switch", "switch merges"));
    }
}
