//! The page's table: a row per run, a column per figure, the best of each column marked.

use crate::ReportRun;
use crate::figures::{
    BUSIEST, BetterValue, CACHE_HIT_RATIO, CACHE_LIFETIME, CACHE_WRITES, CACHE_WRITES_PER_PAGE, CLEAN_DROPS,
    DELAYED_SHARE, ERASES, EVICTIONS, FLASH_READS, FLASH_WRITES, HIT_RATIO, LIFETIME, MEAN, MEAN_QUEUE, MEAN_READ,
    MEAN_WRITE, MEMBER_IOS_PER_PAGE, MEMBER_READS, MEMBER_WRITES, MODEL_THROUGHPUT, OWED_ROWS, P99, P99_9,
    P99_9_UNDELAYED, PAD_READS, PAGES_FLUSHED, PAGES_PER_EVICTION, PLACES, REQUEST_RATE, ResultFigure, STALE_AGE,
    STALE_ROWS, THROUGHPUT, ValueFormat, WORST_BLOCK, WRITE_AMPLIFICATION, declared_columns,
};
use crate::group::RunGroup;
use crate::judge::TIE;
use crate::kind::GroupKind;

const HITS: &[ResultFigure] = &[HIT_RATIO, EVICTIONS, PAGES_PER_EVICTION, PAGES_FLUSHED, PAD_READS, CLEAN_DROPS];
const ANALYTIC: &[ResultFigure] =
    &[HIT_RATIO, EVICTIONS, PAGES_PER_EVICTION, MODEL_THROUGHPUT, ERASES, FLASH_READS, FLASH_WRITES];
const SSD: &[ResultFigure] = &[
    HIT_RATIO,
    EVICTIONS,
    THROUGHPUT,
    MEAN,
    P99,
    P99_9,
    P99_9_UNDELAYED,
    DELAYED_SHARE,
    WRITE_AMPLIFICATION,
    ERASES,
    WORST_BLOCK,
    LIFETIME,
];
const ARRAY: &[ResultFigure] = &[
    CACHE_HIT_RATIO,
    REQUEST_RATE,
    THROUGHPUT,
    MEAN,
    P99,
    P99_9,
    MEAN_READ,
    MEAN_WRITE,
    MEMBER_READS,
    MEMBER_WRITES,
    BUSIEST,
    MEAN_QUEUE,
];
/// Beside those, of caches on a device.
const CACHES: &[ResultFigure] =
    &[CACHE_WRITES_PER_PAGE, MEMBER_IOS_PER_PAGE, STALE_ROWS, STALE_AGE, OWED_ROWS, CACHE_LIFETIME];

/// A value in words.
pub(crate) fn shown(value: f64, show: ValueFormat) -> String {
    show.text(value, PLACES)
}

/// Is true if any cache wrote to a device of its own.
pub(crate) fn writes_cache_devices<'a>(mut runs: impl Iterator<Item = &'a ReportRun>) -> bool {
    runs.any(|run| CACHE_WRITES.of(run).is_some_and(|pages| pages > 0.0))
}

/// The columns of a group's table.
pub(crate) fn columns(group: &RunGroup, runs: &[ReportRun]) -> Vec<&'static ResultFigure> {
    let all = match group.kind {
        GroupKind::Hits => HITS,
        GroupKind::Analytic => ANALYTIC,
        GroupKind::Ssd => SSD,
        GroupKind::Array => ARRAY,
    };
    let runs = || group.points.iter().map(|point| &runs[point.run]);
    let caches = if group.kind == GroupKind::Array && writes_cache_devices(runs()) { CACHES } else { &[] };
    let has = |figure: &&ResultFigure| runs().any(|run| figure.of(run).is_some());
    let declared = declared_columns(group.kind == GroupKind::Array).iter().map(|column| &column.figure);
    all.iter().chain(caches.iter().chain(declared).filter(has)).collect()
}

/// A cell: what is shown, and whether it is the best of its column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SummaryCell {
    pub(crate) text: String,
    pub(crate) value: Option<f64>,
    pub(crate) is_best: bool,
    /// The value as a share of the column's largest, where more or less of it is better.
    pub(crate) share: Option<f64>,
}

/// Is true if a value is as good as the best of its column.
fn ties(value: f64, best: f64) -> bool {
    (value - best).abs() <= TIE * best.abs()
}

/// The cells of a group, a row per point.
pub(crate) fn cells(group: &RunGroup, runs: &[ReportRun]) -> Vec<Vec<SummaryCell>> {
    let figures = columns(group, runs);
    // Without a buffer nothing is hit, evicted or written to it, which is neither good nor bad.
    let value = |figure: &ResultFigure, run: &ReportRun| {
        let is_of_buffer = [HIT_RATIO, CACHE_HIT_RATIO, EVICTIONS, CACHE_WRITES_PER_PAGE].contains(figure);
        if is_of_buffer && run.text("policy") == "none" { None } else { figure.of(run) }
    };
    // What could not keep up is no better than what could, whatever it shows.
    let of_column = |figure: &'static ResultFigure| {
        let kept_up = group.points.iter().map(|point| &runs[point.run]).filter(|run| !run.is_saturated());
        kept_up.filter_map(move |run| value(figure, run))
    };
    let best: Vec<Option<f64>> = figures
        .iter()
        .map(|figure| {
            let values = of_column(figure);
            let best = match figure.better {
                BetterValue::Less => values.clone().min_by(f64::total_cmp),
                BetterValue::More => values.clone().max_by(f64::total_cmp),
                BetterValue::Neither => None,
            };
            // What most runs share distinguishes none of them.
            best.filter(|best| 2 * values.filter(|value| ties(*value, *best)).count() <= group.points.len())
        })
        .collect();
    let largest = |figure: &&'static ResultFigure| {
        let values = of_column(figure).filter(|_| figure.better != BetterValue::Neither);
        values.max_by(f64::total_cmp).filter(|largest| *largest > 0.0)
    };
    let largest: Vec<Option<f64>> = figures.iter().map(largest).collect();
    let row = |run: &ReportRun| {
        let cell = |((figure, best), largest): ((&ResultFigure, &Option<f64>), &Option<f64>)| {
            let value = value(figure, run);
            let is_best = group.points.len() > 1
                && !run.is_saturated()
                && value.zip(*best).is_some_and(|(value, best)| ties(value, best));
            let share = value.zip(*largest).map(|(value, largest)| (value / largest).clamp(0.0, 1.0));
            let text = match value {
                Some(value) => shown(value, figure.show),
                None if figure.show == ValueFormat::Time && run.is_saturated() => "saturated".to_owned(),
                None => "–".to_owned(),
            };
            SummaryCell { text, value, is_best, share: share.filter(|_| group.points.len() > 1) }
        };
        figures.iter().copied().zip(&best).zip(&largest).map(cell).collect()
    };
    group.points.iter().map(|point| row(&runs[point.run])).collect()
}
