//! The results as they lie in the page: lists of like records are turned into columns, which are a
//! third as long, and series are made coarser where there are very many runs.

use std::ops::Add;

use serde_json::{Map, Value, json};

use crate::ReportRun;
use crate::chart::{ChartForm, ReportChart, charts};
use crate::figures::BetterValue;
use crate::group::{GroupPoint, RunGroup};
use crate::ranking::{RunRanking, pictured};

/// Bins of all runs' series in a page; with more, neighbours are merged, so that the page of a
/// hundred runs stays below 3 MB. Results and tables beside the page have them all.
pub(crate) const BINS: usize = 8192;
/// A series keeps at least so many.
const LEAST_BINS: usize = 16;

/// The results of all runs.
pub(crate) fn results(runs: &[ReportRun]) -> Value {
    // The runs share the bins, so that a page with many runs stays small enough to open.
    let per_run = (BINS / runs.len().max(1)).max(LEAST_BINS);
    runs.iter().map(|run| compact(&run.result, per_run)).collect()
}

/// Lists that are kept as columns.
const COLUMNS: &[&str] = &["bins", "distribution", "wear"];

fn compact(value: &Value, bins: usize) -> Value {
    match value {
        Value::Object(object) => {
            let coarser = coarser(object, bins);
            let object = coarser.as_ref().unwrap_or(object);
            let inner = |(key, value): (&String, &Value)| {
                let value = match value {
                    // As columns the names of the fields stand once, not in each of thousands of records.
                    Value::Array(records) if COLUMNS.contains(&key.as_str()) => columns(records),
                    value => compact(value, bins),
                };
                (key.clone(), value)
            };
            // Spans of collections are drawn without a script.
            Value::Object(object.iter().filter(|(key, _)| *key != "shown").map(inner).collect())
        }
        Value::Array(items) => items.iter().map(|item| compact(item, bins)).collect(),
        scalar => scalar.clone(),
    }
}

/// Records with the same keys as one object of lists.
fn columns(records: &[Value]) -> Value {
    let keys = records.first().and_then(Value::as_object).map(|first| first.keys());
    let column = |key: &String| {
        let values = records.iter().map(|record| record.get(key).cloned().unwrap_or_default());
        (key.clone(), values.collect::<Value>())
    };
    Value::Object(keys.into_iter().flatten().map(column).collect())
}

/// A series with at most so many bins, if this is one that has more.
fn coarser(series: &Map<String, Value>, most: usize) -> Option<Map<String, Value>> {
    let bins = series.get("bins")?.as_array().filter(|bins| bins.len() > most)?;
    let per = bins.len().div_ceil(most);
    let merged: Vec<Value> = bins.chunks(per).map(merged).collect();
    let mut series = series.clone();
    let width = series.get("width").and_then(Value::as_u64).unwrap_or_default();
    // The width grows with the bins, so that the page's script knows no difference.
    series.insert("width".to_owned(), json!(width.saturating_mul(per as u64)));
    series.insert("bins".to_owned(), Value::Array(merged));
    Some(series)
}

fn merged(bins: &[Value]) -> Value {
    let number = |bin: &Value, key: &str| bin.get(key).and_then(Value::as_u64).unwrap_or_default();
    let keys = bins.first().and_then(Value::as_object).map(|first| first.keys());
    let merge = |key: &String| {
        if key.ends_with("_mean") {
            let all = bins.iter().filter_map(|bin| bin.get(key)?.as_f64()).fold(0.0, f64::add);
            return (key.clone(), json!(all / bins.len() as f64));
        }
        let values = bins.iter().map(|bin| number(bin, key));
        let value = if key.ends_with("_max") {
            values.max().unwrap_or_default()
        } else if key == "backlog_min" {
            // Bins without requests have no backlog that anybody saw.
            let seen = bins.iter().filter(|bin| number(bin, "requests") > 0);
            seen.map(|bin| number(bin, key)).min().unwrap_or_default()
        } else {
            values.fold(0, u64::saturating_add)
        };
        (key.clone(), json!(value))
    };
    Value::Object(keys.into_iter().flatten().map(merge).collect())
}

/// Returns the data about the groups for the page's scripts.
pub(crate) fn view(runs: &[ReportRun], groups: &[RunGroup]) -> Value {
    let group = |group: &RunGroup| {
        let ranking = RunRanking::of(group, runs);
        let place = |point: GroupPoint| json!([point.label, point.size]);
        let saturated = group.points.iter().filter(|point| runs[point.run].is_saturated());
        json!({
            "labels": group.labels,
            "sizes": group.size_words(),
            "bytes": group.sizes,
            "points": group.points.iter().map(|p| json!([p.run, p.label, p.size])).collect::<Value>(),
            "size": shown_size(group, runs),
            "winners": ranking.winners.iter().map(|(point, _)| place(*point)).collect::<Value>(),
            "knee": ranking.knee.map(|(point, _)| place(point)),
            "saturated": saturated.map(|point| group.name(*point)).collect::<Value>(),
            "figures": charts(group, runs).iter().map(|chart| chart_of(chart, runs, group)).collect::<Value>(),
        })
    };
    groups.iter().map(group).collect()
}

/// A chart, with what of each point is not simply at a path: the figure that is pictured, or those of a stack in
/// their order, with the names of what it is made of.
fn chart_of(chart: &ReportChart, runs: &[ReportRun], group: &RunGroup) -> Value {
    let mut value = json!(chart);
    if chart.form == ChartForm::Picture {
        let objective = pictured(group, runs);
        let ranked = objective == group.objective;
        let of = |point: &GroupPoint| {
            let run = &runs[point.run];
            // A saturated run has no rank, so that its cell stays empty.
            json!(objective.of(group.kind, run).filter(|_| !(ranked && run.is_saturated())))
        };
        value["values"] = group.points.iter().map(of).collect();
        value["more"] = json!(objective.figure(group.kind).better == BetterValue::More);
    }
    if !chart.stack.is_empty() {
        let figures = |run: &ReportRun| chart.stack.iter().map(|(_, figure)| json!(figure.of(run))).collect::<Value>();
        value["names"] = chart.stack.iter().map(|(name, _)| json!(name)).collect();
        value["values"] = group.points.iter().map(|point| figures(&runs[point.run])).collect();
    }
    value
}

/// The cache size that figures of one size begin with: that of the best run if it has a cache, or else the
/// largest. What has none is shown beside any size.
pub(crate) fn shown_size(group: &RunGroup, runs: &[ReportRun]) -> usize {
    let sized = RunRanking::of(group, runs).best().filter(|best| group.sizes[best.size].is_some());
    sized.map_or(group.sizes.len().saturating_sub(1), |best| best.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarser_series_keep_sums_maxima_and_means() {
        let bin = |requests: u64, mean: f64, max: u64| json!({"requests": requests, "stale_rows_mean": mean, "stale_rows_max": max, "backlog_min": requests});
        let series = json!({"width": 8, "bins": [bin(3, 1.0, 2), bin(0, 2.5, 3), bin(4, 0.0, 0)]});
        let coarse = compact(&series, 2);
        assert_eq!(coarse["width"], 16);
        let expected = json!({
            "requests": [3, 4], "stale_rows_mean": [1.75, 0.0], "stale_rows_max": [3, 0], "backlog_min": [3, 4]
        });
        assert_eq!(coarse["bins"], expected);
    }
}
