//! The page's table: a row per run, a column per figure, the best of each column marked.

use destage_scenario::quantity::{show_count, show_time};

use crate::Run;
use crate::group::{Group, Kind};

/// Which of two values is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
    Neither,
}

/// How a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    Count,
    Time,
    Percent,
    Decimals,
    /// Bytes in decimal units.
    Bytes,
    /// Bytes per second, as MB/s.
    Rate,
}

/// A column of figures.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) head: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) show: Show,
    pub(crate) better: Better,
    pub(crate) value: fn(&Run) -> Option<f64>,
}

/// A value in words.
pub(crate) fn shown(value: f64, show: Show) -> String {
    match show {
        Show::Count => show_count(value as u64),
        Show::Time => show_time(value),
        Show::Percent => format!("{:.2}", value * 100.0),
        Show::Decimals => format!("{value:.2}"),
        Show::Rate => format!("{:.2}", value / 1e6),
        Show::Bytes => {
            let units = [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
            let fitting = units.iter().find(|(size, _)| value >= *size);
            fitting.map_or_else(|| format!("{value:.0} B"), |(size, unit)| format!("{:.1} {unit}", value / size))
        }
    }
}

/// The share of reads and writes that waited for a collection.
pub(crate) fn delayed_share(run: &Run) -> Option<f64> {
    let all = run.number("response.all.count").filter(|count| *count > 0.0)?;
    Some(run.number("response.gc_delayed.count").unwrap_or(0.0) / all)
}

/// The largest of a figure of an array's devices.
pub(crate) fn most(run: &Run, key: &str) -> Option<f64> {
    run.list("devices").iter().filter_map(|device| device.get(key)?.as_f64()).max_by(f64::total_cmp)
}

macro_rules! figures {
    ($($head:literal $show:ident $better:ident $meaning:literal $value:expr;)+) => {
        &[$(Figure { head: $head, meaning: $meaning, show: Show::$show, better: Better::$better, value: $value }),+]
    };
}

const HITS: &[Figure] = figures! {
    "hit %" Percent More "page accesses that found their page in the buffer" |r| r.number("hit_ratio");
    "evictions" Count Neither "victim units (pages or blocks) during the run" |r| r.number("evictions");
    "pages/eviction" Decimals More "mean pages of a victim unit" |r| r.number("pages_per_eviction");
    "pages flushed" Count Less "dirty pages written because of evictions" |r| r.number("dirty_pages_flushed");
    "pad reads" Count Less "missing pages of victims, read so as to write whole blocks" |r| r.number("pad_reads");
    "clean drops" Count Neither "clean pages dropped by evictions" |r| r.number("clean_drops");
};

const ANALYTIC: &[Figure] = figures! {
    "hit %" Percent More "page accesses that found their page in the buffer" |r| r.number("hit_ratio");
    "evictions" Count Neither "victim units (pages or blocks) during the run" |r| r.number("evictions");
    "pages/eviction" Decimals More "mean pages of a victim unit" |r| r.number("pages_per_eviction");
    "MB/s" Rate More "host bytes written per second of the cost model's time" |r| r.number("analytic.throughput");
    "erases" Count Less "blocks erased" |r| r.number("erases");
    "pages read" Count Less "pages read for padding" |r| r.number("flash_reads");
    "pages written" Count Less "pages programmed" |r| r.number("flash_writes");
};

const SSD: &[Figure] = figures! {
    "hit %" Percent More "page accesses that found their page in the buffer" |r| r.number("hit_ratio");
    "evictions" Count Neither "victim units (pages or blocks) during the run" |r| r.number("evictions");
    "MB/s" Rate More "bytes read and written by the host per second" |r| r.number("host_bytes_per_second");
    "mean" Time Less "mean response time of reads and writes" |r| r.number("response.all.mean");
    "p99" Time Less "99 % of reads and writes were answered within" |r| r.number("response.all.p99");
    "p99.9" Time Less "99.9 % of reads and writes were answered within" |r| r.number("response.all.p99_9");
    "p99.9 not delayed" Time Neither "the same of those reads and writes that waited for no collection"
        |r| r.number("response.gc_undelayed.p99_9");
    "delayed %" Percent Less "reads and writes that waited for a collection, or for a frame that did" delayed_share;
    "write ampl." Decimals Less "pages programmed for the host and moved by collection, per page programmed for the host"
        |r| r.number("ssd.write_amplification");
    "erases" Count Less "blocks erased" |r| r.number("erases");
    "worst block" Count Less "erases of the most erased block since the start" |r| r.number("ssd.erases_per_block_max");
    "lifetime" Bytes More "bytes that the host can write until the mean block is worn out, at the measured rate"
        |r| r.number("ssd.lifetime_host_bytes");
};

/// Beside those, of SSDs with a log-block FTL.
const MERGES: &[Figure] = figures! {
    "switch merges" Count Neither "log blocks that held a whole block in order and took its place" |r| r.number("ssd.switch_merges");
    "partial merges" Count Neither "log blocks that took a block's place once its other pages were copied there"
        |r| r.number("ssd.partial_merges");
    "full merges" Count Less "blocks copied together into a clean one" |r| r.number("ssd.full_merges");
};

const ARRAY: &[Figure] = figures! {
    "hit %" Percent More "pages that the cache had, of those that it was asked for" |r| r.number("hit_ratio");
    "requests/s" Decimals More "requests answered per second" |r| r.number("requests_per_second");
    "MB/s" Rate More "bytes read and written by the host per second" |r| r.number("host_bytes_per_second");
    "mean" Time Less "mean response time of reads and writes" |r| r.number("response.all.mean");
    "p99" Time Less "99 % of reads and writes were answered within" |r| r.number("response.all.p99");
    "p99.9" Time Less "99.9 % of reads and writes were answered within" |r| r.number("response.all.p99_9");
    "mean read" Time Less "mean response time of reads" |r| r.number("response.read.mean");
    "mean write" Time Less "mean response time of writes" |r| r.number("response.write.mean");
    "pages read" Count Less "data and parity pages read from members"
        |r| Some(r.number("traffic.data_reads")? + r.number("traffic.parity_reads")?);
    "pages written" Count Less "data and parity pages written to members"
        |r| Some(r.number("traffic.data_writes")? + r.number("traffic.parity_writes")?);
    "busiest %" Percent Neither "share of time that the busiest device was in service" |r| most(r, "busy_share");
    "longest queue" Decimals Neither "mean commands outstanding at the device with most of them" |r| most(r, "mean_queue");
};

/// The columns of a group's table.
pub(crate) fn columns(group: &Group, runs: &[Run]) -> Vec<&'static Figure> {
    let all = match group.kind {
        Kind::Hits => HITS,
        Kind::Analytic => ANALYTIC,
        Kind::Ssd => SSD,
        Kind::Array => ARRAY,
    };
    let has_merges = |figure: &Figure| group.points.iter().any(|point| (figure.value)(&runs[point.run]).is_some());
    all.iter().chain(MERGES.iter().filter(|figure| has_merges(figure))).collect()
}

/// A cell: what is shown, and whether it is the best of its column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) value: Option<f64>,
    pub(crate) is_best: bool,
}

/// The cells of a group, a row per point.
pub(crate) fn cells(group: &Group, runs: &[Run]) -> Vec<Vec<Cell>> {
    let figures = columns(group, runs);
    // Without a buffer nothing is hit or evicted, which is neither good nor bad.
    let value = |figure: &Figure, run: &Run| match figure.head {
        "hit %" | "evictions" if run.text("policy") == "none" => None,
        _ => (figure.value)(run),
    };
    let best: Vec<Option<f64>> = figures
        .iter()
        .map(|figure| {
            let values = group.points.iter().filter_map(|point| value(figure, &runs[point.run]));
            let best = match figure.better {
                Better::Less => values.clone().min_by(f64::total_cmp),
                Better::More => values.clone().max_by(f64::total_cmp),
                Better::Neither => None,
            };
            // What most runs share distinguishes none of them.
            best.filter(|best| 2 * values.filter(|value| value.total_cmp(best).is_eq()).count() <= group.points.len())
        })
        .collect();
    let row = |run: &Run| {
        let cell = |(figure, best): (&Figure, &Option<f64>)| {
            let value = value(figure, run);
            let is_best = group.points.len() > 1 && value.is_some() && value == *best;
            let text = match value {
                Some(value) => shown(value, figure.show),
                None if figure.show == Show::Time && run.is_saturated() => "saturated".to_owned(),
                None => "–".to_owned(),
            };
            Cell { text, value, is_best }
        };
        figures.iter().copied().zip(&best).map(cell).collect()
    };
    group.points.iter().map(|point| row(&runs[point.run])).collect()
}
