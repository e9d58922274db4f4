//! Decides which charts have data, and writes a sentence for those without.

use serde_json::Value;

use crate::ReportRun;
use crate::answers::list;
use crate::chart::{ChartForm, ReportChart};
use crate::figures::{COLLECTIONS, ValueFormat};
use crate::group::RunGroup;
use crate::ranking::pictured;
use crate::summary::{shown, writes_cache_devices};

/// Charts that tell of collection.
const OF_COLLECTION: [&str; 7] = ["gc-tail", "gc-time", "delayed-time", "wa", "wa-time", "erases", "wear"];

/// Is true if any run has a value other than zero for a chart.
pub(super) fn is_drawn(figure: &ReportChart, group: &RunGroup, runs: &[ReportRun]) -> bool {
    let mut all = group.points.iter().map(|point| &runs[point.run]);
    match figure.form {
        // A run alone has nothing to be compared with, and its figures are in the table.
        ChartForm::Picture | ChartForm::Sweep if group.points.len() == 1 => false,
        ChartForm::Picture => all.any(|run| pictured(group, runs).of(group.kind, run).is_some()),
        ChartForm::Sweep => {
            // Erases and amplification of runs without a collection are those of no run.
            let of_nothing = OF_COLLECTION.contains(&figure.id) && collects_nowhere(group, runs);
            !of_nothing
                && all.any(|run| value(figure, run).is_some_and(|value| value != 0.0))
                && same(figure, group, runs).is_none()
        }
        // One part alone is nothing to compare.
        ChartForm::Parts => {
            let none = figure.id == "gc-tail" && collects_nowhere(group, runs);
            !none && all.any(|run| figure.paths.iter().filter(|(_, path)| run.number(path).is_some()).count() > 1)
        }
        ChartForm::Stack => writes_cache_devices(all),
        ChartForm::Cdf | ChartForm::Tail => all.any(|run| !run.list("response.distribution").is_empty()),
        ChartForm::Time => all.any(|run| figure.paths.iter().any(|(series, what)| has_series(run, series, what))),
        ChartForm::Wear => all.any(|run| {
            let erased = |class: &Value| class.get("to").and_then(Value::as_f64).is_some_and(|erases| erases > 0.0);
            let of_device =
                |device: &Value| device.get("wear").and_then(Value::as_array).is_some_and(|all| all.iter().any(erased));
            run.list("ssd.wear").iter().any(erased) || run.list("devices").iter().any(of_device)
        }),
    }
}

/// Returns a run's value in a sweep.
fn value(figure: &ReportChart, run: &ReportRun) -> Option<f64> {
    figure.paths.first().and_then(|(_, path)| run.number(path))
}

/// Limits the share by which equal values of several runs may differ.
const SAME: f64 = 0.005;

fn same(figure: &ReportChart, group: &RunGroup, runs: &[ReportRun]) -> Option<f64> {
    let all: Vec<f64> = group.points.iter().filter_map(|point| value(figure, &runs[point.run])).collect();
    let least = all.iter().copied().min_by(f64::total_cmp)?;
    let most = all.iter().copied().max_by(f64::total_cmp)?;
    (all.len() > 1 && all.len() == group.points.len() && least > 0.0 && most <= least * (1.0 + SAME)).then_some(most)
}

/// Is true if any span of a run's series has a value for the chart.
fn has_series(run: &ReportRun, series: &str, what: &str) -> bool {
    let keys: &[&str] = match what {
        "mean" | "max" | "delayed" if run.is_saturated() => return false,
        "mean" | "max" => &["responses"],
        "queue" => &["backlog_sum"],
        "gc" => &["gc_time"],
        "delayed" => &["gc_delayed"],
        // It is 1 throughout where nothing is moved.
        "wa" => &["gc_pages_moved"],
        "hits" => &["hits"],
        "evictions" => &["evictions"],
        "debt" => &["stale_rows_max"],
        _ => &["host_bytes_read", "host_bytes_written"],
    };
    let some =
        |bin: &Value| keys.iter().any(|key| bin.get(key).and_then(Value::as_f64).is_some_and(|value| value > 0.0));
    run.list(&format!("{series}.bins")).iter().any(some)
}

/// Is true if runs count collections, and none had any.
fn collects_nowhere(group: &RunGroup, runs: &[ReportRun]) -> bool {
    let of = |point: &crate::group::GroupPoint| COLLECTIONS.of(&runs[point.run]);
    group.points.iter().any(|point| of(point).is_some())
        && group.points.iter().all(|point| of(point).unwrap_or(0.0) == 0.0)
}

/// Why some charts are not there.
pub(super) fn left_out(empty: &[&ReportChart], group: &RunGroup, runs: &[ReportRun]) -> Vec<String> {
    let without = collects_nowhere(group, runs);
    let is_alone = group.points.len() == 1;
    let empty = empty.iter().filter(|chart| !(is_alone && matches!(chart.form, ChartForm::Picture | ChartForm::Sweep)));
    let (collection, others): (Vec<&ReportChart>, Vec<&ReportChart>) =
        empty.partition(|chart| without && OF_COLLECTION.contains(&chart.id));
    let titles = |charts: &[&ReportChart]| {
        let titles: Vec<String> = charts.iter().map(|chart| format!("“{}”", chart.title)).collect();
        list(&titles)
    };
    let mut all = Vec::new();
    if !collection.is_empty() {
        all.push(format!("No run had collection: there is nothing to draw for {}.", titles(&collection)));
    }
    let (alike, others): (Vec<&ReportChart>, Vec<&ReportChart>) =
        others.into_iter().partition(|chart| chart.form == ChartForm::Sweep && same(chart, group, runs).is_some());
    let told = |chart: &ReportChart| {
        let value = same(chart, group, runs).unwrap_or_default();
        let text = ValueFormat::by_word(chart.show).map_or(String::new(), |show| shown(value, show));
        let unit = match chart.show {
            "percent" => " %",
            "rate" => " MB/s",
            _ => "",
        };
        format!("{} ({text}{unit})", lower(chart.title))
    };
    if !alike.is_empty() {
        let titles: Vec<String> = alike.into_iter().map(told).collect();
        all.push(format!("The same in all runs, and so not drawn: {}.", list(&titles)));
    }
    if !others.is_empty() {
        all.push(format!("No run has anything to draw for {}.", titles(&others)));
    }
    all
}

/// A title within a sentence.
fn lower(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}
