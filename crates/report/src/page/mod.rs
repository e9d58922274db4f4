//! The page: one HTML file with everything in it.

mod advice;
mod document;
mod drawn;
mod first;
mod lanes;

use std::fmt::Write as _;

use destage_scenario::quantity::{show_count, show_time};

use crate::ReportRun;
use crate::answers::answers;
use crate::chart::{ChartForm, ReportChart, charts};
use crate::command::commands;
use crate::durability::durability;
use crate::embed;
use crate::escape::escaped;
use crate::figures::{BetterValue, ValueFormat};
use crate::group::{GroupPoint, RunGroup, circumstances};
use crate::kind::GroupKind;
use crate::ranking::RunRanking;
use crate::summary::{SummaryCell, cells, columns, shown, writes_cache_devices};

pub use advice::PageAdvice;
pub use document::{PageDocument, breakable};

/// Draws the charts; each script uses those before it.
const CHARTS: &str = concat!(
    include_str!("series.js"),
    include_str!("sweep.js"),
    include_str!("dumbbells.js"),
    include_str!("panels.js"),
    include_str!("curves.js"),
    include_str!("charts.js"),
    include_str!("sorting.js"),
);

/// The last part of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

/// Returns the page of these runs, with advice at its head if there is some.
pub(crate) fn page(runs: &[ReportRun], groups: &[RunGroup], advice: Option<&PageAdvice>) -> String {
    let mut traces: Vec<&str> = Vec::new();
    for group in groups {
        if !traces.contains(&group.trace.as_str()) {
            traces.push(&group.trace);
        }
    }
    let names: Vec<_> = traces.iter().map(|trace| file_name(trace)).collect();
    let mut body = String::new();
    if let Some(advice) = advice {
        advice.section(&mut body);
    }
    for (i, group) in groups.iter().enumerate() {
        section(&mut body, i, group, groups.len(), runs, advice);
    }
    let document = PageDocument {
        kind: "destage report",
        title: names.join(", "),
        body,
        footer: format!(
            "Simulated by destage {}; written by destage {}. <code>results.json</code> beside this page holds every figure, \
             <code>destage schema</code> explains them, and the tables are there as CSV and Parquet.",
            escaped(runs.first().map_or("", |run| run.text("destage"))),
            destage_sim::measure::VERSION,
        ),
        data: vec![("results", embed::results(runs)), ("view", embed::view(runs, groups))],
        script: CHARTS,
        style: "",
    };
    document.html()
}

fn section(
    html: &mut String,
    number: usize,
    group: &RunGroup,
    groups: usize,
    runs: &[ReportRun],
    advice: Option<&PageAdvice>,
) {
    let place = match group.kind {
        GroupKind::Ssd => "Buffers inside an SSD",
        GroupKind::Analytic => "Buffers in the cost model",
        GroupKind::Hits => "Buffers without a device",
        GroupKind::Array => "Caches in front of an array",
    };
    let _ = writeln!(html, "<section class=\"group\" id=\"group-{number}\" aria-labelledby=\"title-{number}\">");
    let heading = if groups > 1 { format!("{place}: {}", escaped(file_name(&group.trace))) } else { place.to_owned() };
    let _ = writeln!(html, "<h2 id=\"title-{number}\">{heading}</h2>");
    first::screen(html, group, runs);
    controls(html, number, group, runs, advice);
    let charts = charts(group, runs);
    let (shown, empty): (Vec<&ReportChart>, Vec<&ReportChart>) =
        charts.iter().partition(|chart| drawn::is_drawn(chart, group, runs));
    // Where there is nothing to compare, what happened over time is the picture.
    let over_time =
        shown.iter().find(|chart| chart.form == ChartForm::Time && group.points.len() == 1).map(|chart| chart.id);
    let (first, others): (Vec<&ReportChart>, Vec<&ReportChart>) = shown
        .into_iter()
        .partition(|chart| matches!(chart.form, ChartForm::Picture | ChartForm::Parts) || over_time == Some(chart.id));
    figures(html, number, "figures first", &first, &durability_of(group, runs));
    table(html, number, group, runs);
    if !others.is_empty() {
        let _ = writeln!(html, "<h3>More charts</h3>");
    }
    figures(html, number, "figures", &others, &durability_of(group, runs));
    for sentence in drawn::left_out(&empty, group, runs) {
        let _ = writeln!(html, "<p class=\"note left-out\">{}</p>", escaped(&sentence));
    }
    words(html, number, group, runs);
    lanes::section(html, number, group, runs);
    scenario(html, number, group, runs);
    html.push_str("</section>\n");
}

fn figures(html: &mut String, number: usize, class: &str, charts: &[&ReportChart], durability: &str) {
    if !charts.is_empty() {
        let _ = writeln!(html, "<div class=\"{class}\">");
        for figure in charts {
            chart(html, number, figure, durability);
        }
        html.push_str("</div>\n");
    }
}

/// The figures in sentences.
fn words(html: &mut String, number: usize, group: &RunGroup, runs: &[ReportRun]) {
    let _ = writeln!(html, "<h3 id=\"words-{number}\">In words</h3>\n<dl class=\"answers\">");
    for answer in answers(group, runs) {
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", answer.question, answer.answer);
    }
    html.push_str("</dl>\n");
}

fn table(html: &mut String, number: usize, group: &RunGroup, runs: &[ReportRun]) {
    let columns = columns(group, runs);
    let _ = write!(
        html,
        "<h3 id=\"table-{number}\">All runs</h3>\n\
         <p class=\"note\">★ marks the best of a column, a bar how large a value is. A heading sorts by its column.</p>\n\
         <div class=\"scroll all-runs\" role=\"region\" aria-labelledby=\"table-{number}\" tabindex=\"0\">\n\
         <table class=\"runs\"><thead><tr><th scope=\"col\">policy</th><th scope=\"col\">cache</th>"
    );
    for column in &columns {
        let _ =
            write!(html, "<th scope=\"col\" title=\"{}\">{}</th>", escaped(column.meaning), escaped(column.heading));
    }
    html.push_str("</tr></thead>\n");
    let rows: Vec<_> = group.points.iter().zip(cells(group, runs)).collect();
    let (late, kept): (Vec<_>, Vec<_>) = rows.iter().partition(|(point, _)| runs[point.run].is_saturated());
    if !kept.is_empty() {
        html.push_str("<tbody>\n");
        for (point, cells) in kept {
            row(html, group, runs, **point, cells);
        }
        html.push_str("</tbody>\n");
    }
    if !late.is_empty() {
        let _ = writeln!(
            html,
            "<tbody class=\"saturated\"><tr><th scope=\"rowgroup\" colspan=\"{}\"><span>Saturated, and so not compared with \
             others: these did not keep up with the requests</span></th></tr>",
            columns.len() + 2
        );
        for (point, cells) in late {
            row(html, group, runs, **point, cells);
        }
        html.push_str("</tbody>\n");
    }
    html.push_str("</table></div>\n");
    if writes_cache_devices(group.points.iter().map(|point| &runs[point.run])) {
        let durability = escaped(&durability_of(group, runs));
        let _ = writeln!(html, "<p class=\"note\">What is written to cache devices is so under {durability}.</p>");
    }
    html.push_str("<details><summary>What the columns mean</summary>\n<dl>");
    for column in columns {
        let better = match column.better {
            BetterValue::Less => " Less is better.",
            BetterValue::More => " More is better.",
            BetterValue::Neither => "",
        };
        let _ = write!(html, "<dt>{}</dt><dd>{}.{better}</dd>", escaped(column.heading), escaped(column.meaning));
    }
    html.push_str("</dl></details>\n");
}

fn row(html: &mut String, group: &RunGroup, runs: &[ReportRun], point: GroupPoint, cells: &[SummaryCell]) {
    let run = &runs[point.run];
    let _ = write!(
        html,
        "<tr><th scope=\"row\">{}</th><td class=\"size\" data-value=\"{}\">{}</td>",
        breakable(&group.labels[point.label]),
        run.cache().unwrap_or(0),
        run.cache_words()
    );
    for cell in cells {
        let class = if cell.is_best { " class=\"best\"" } else { "" };
        let value = cell.value.map_or(String::new(), |value| format!(" data-value=\"{value}\""));
        let bar = cell.share.map_or(String::new(), |share| format!(" style=\"--share:{:.0}%\"", 100.0 * share));
        let star = if cell.is_best { "<span aria-label=\"best: \">★</span> " } else { "" };
        let _ = write!(html, "<td{class}{value}{bar}>{star}{}</td>", cell.text);
    }
    html.push_str("</tr>\n");
}

/// Writes a box to tick for each of these labels.
fn choices(html: &mut String, group: &RunGroup, labels: &[usize], checked: &str) {
    for &i in labels {
        let label = escaped(&group.labels[i]);
        let _ = write!(html, "<label><input type=\"checkbox\" value=\"{i}\"{checked}> <span>{label}</span></label>");
    }
}

/// Returns the labels that charts show at first: those that advice compares, or else those of which there is more than one size,
/// with the best and what has no size. What is there at one size alone is no line. All, where that would leave fewer than two.
fn contenders(group: &RunGroup, runs: &[ReportRun], advice: Option<&PageAdvice>) -> Vec<usize> {
    let all = || (0..group.labels.len()).collect();
    let ranking = RunRanking::of(group, runs);
    let best = ranking.winners.first().into_iter().chain(&ranking.runner_up).map(|(point, _)| point.label);
    let best: Vec<usize> = best.collect();
    let sizes = |label: usize| {
        group.points.iter().filter(move |point| point.label == label).map(|point| group.sizes[point.size])
    };
    let is_one = |label: &usize| match advice {
        Some(advice) => advice.contenders.iter().any(|name| *name == group.labels[*label]),
        None => best.contains(label) || sizes(*label).count() > 1 || sizes(*label).any(|size| size.is_none()),
    };
    let shown: Vec<usize> = (0..group.labels.len()).filter(is_one).collect();
    let is_sweep = group.sizes.iter().flatten().count() > 1;
    if shown.len() < 2 || !is_sweep && advice.is_none() { all() } else { shown }
}

/// Writes the controls of the charts: one cache size, and the labels shown.
fn controls(html: &mut String, number: usize, group: &RunGroup, runs: &[ReportRun], advice: Option<&PageAdvice>) {
    let _ =
        writeln!(html, "<form class=\"controls\" data-group=\"{number}\" aria-label=\"What the charts show\" hidden>");
    if group.labels.len() > 1 {
        let contenders = contenders(group, runs, advice);
        let (shown, folded): (Vec<usize>, Vec<usize>) =
            (0..group.labels.len()).partition(|label| contenders.contains(label));
        html.push_str("<fieldset><legend>Show</legend><div>");
        choices(html, group, &shown, " checked");
        html.push_str("</div>");
        if !folded.is_empty() {
            let _ = write!(html, "<details><summary>{} more</summary><div>", folded.len());
            choices(html, group, &folded, "");
            html.push_str("</div></details>");
        }
        html.push_str("</fieldset>\n");
    }
    if group.sizes.len() > 1 {
        let _ =
            write!(html, "<label class=\"of-size\">Size <select aria-label=\"Cache size of charts that show one\">");
        let shown = embed::shown_size(group, runs);
        for (i, size) in group.size_words().iter().enumerate() {
            let selected = if i == shown { " selected" } else { "" };
            let _ = write!(html, "<option value=\"{i}\"{selected}>{size}</option>");
        }
        html.push_str("</select></label>\n");
    }
    html.push_str("</form>\n");
}

/// Returns the durability of writes, where the page shows wear of cache devices.
fn durability_of(group: &RunGroup, runs: &[ReportRun]) -> String {
    durability(&group.points.iter().map(|point| &runs[point.run]).collect::<Vec<_>>())
}

fn chart(html: &mut String, number: usize, figure: &ReportChart, durability: &str) {
    let id = format!("{number}-{}", figure.id);
    let size = if figure.is_of_one_size() { "<span class=\"size\"></span>" } else { "" };
    let _ = write!(
        html,
        "<figure data-group=\"{number}\" data-figure=\"{}\" class=\"{}\"><figcaption id=\"caption-{id}\"><strong>{}</strong>{size}",
        figure.id,
        match figure.form {
            ChartForm::Picture => "picture",
            ChartForm::Time => "panels",
            _ => "plain",
        },
        escaped(figure.title)
    );
    if !figure.note.is_empty() {
        let _ = write!(html, "<span class=\"note\">{}</span>", escaped(figure.note));
    }
    if figure.is_of_wear() {
        let _ = write!(html, "<span class=\"note\">Under {}.</span>", escaped(durability));
    }
    html.push_str(
        "</figcaption>\n<div class=\"chart\" role=\"img\"></div>\n\
         <details class=\"data\"><summary>Show data</summary><div class=\"scroll\" tabindex=\"0\"></div></details></figure>\n",
    );
}

/// Trace, settings, and how to do it again.
fn scenario(html: &mut String, number: usize, group: &RunGroup, runs: &[ReportRun]) {
    let Some(first) = group.points.first().map(|point| &runs[point.run]) else { return };
    let _ = write!(
        html,
        "<div class=\"about\">\n<section aria-labelledby=\"again-{number}\">\n\
         <h3 id=\"again-{number}\">Run it again</h3>\n"
    );
    for command in commands(group, runs) {
        let _ = writeln!(html, "<pre tabindex=\"0\"><code>{}</code></pre>", escaped(&command.line()));
        if let Some(caveat) = command.caveat {
            let _ = writeln!(html, "<p class=\"note\">{}</p>", escaped(&caveat));
        }
    }
    let _ = write!(
        html,
        "<p class=\"note\">With destage {}, from the folder in which the trace has this name. Add <code>--report=DIR</code> \
         for this page.</p></section>\n<section aria-labelledby=\"trace-{number}\"><h3 id=\"trace-{number}\">Trace</h3>\n\
         <table class=\"pairs\"><tbody>",
        escaped(first.text("destage"))
    );
    for (name, value) in trace_rows(first) {
        let _ = write!(html, "<tr><th scope=\"row\">{name}</th><td>{}</td></tr>", escaped(&value));
    }
    let _ = write!(
        html,
        "</tbody></table></section>\n<section aria-labelledby=\"settings-{number}\">\
         <h3 id=\"settings-{number}\">Scenario and start state</h3>\n<table class=\"pairs\"><tbody>"
    );
    let mut settings: Vec<(String, Vec<String>)> = Vec::new();
    for (key, value) in group.points.iter().flat_map(|point| circumstances(&runs[point.run])) {
        match settings.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) if values.contains(&value) => {}
            Some((_, values)) => values.push(value),
            None => settings.push((key, vec![value])),
        }
    }
    for (key, values) in settings {
        let _ =
            write!(html, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escaped(&key), escaped(&values.join(" or ")));
    }
    html.push_str("</tbody></table></section>\n</div>\n");
}

/// Returns the rows about a run's trace.
fn trace_rows(run: &ReportRun) -> Vec<(&'static str, String)> {
    let count = |path: &str| run.number(path).map_or("–".to_owned(), |n| show_count(n as u64));
    let of = |key: &str| run.number(&format!("input.characteristics.{key}"));
    let mut rows = vec![
        ("name", run.text("input.trace").to_owned()),
        ("format", run.text("input.format").to_owned()),
        ("requests read", count("input.trace_requests")),
        ("measured", format!("{}, after {} of warm-up", count("requests"), count("warmup_requests"))),
        ("in front of the window, left out, beyond the device, moved in time", {
            let counts = ["outside_requests", "left_out_requests", "overflowed_requests", "reversed_requests"];
            counts.map(|key| count(&format!("input.{key}"))).join(", ")
        }),
    ];
    let bytes = |key: &str| run.number(&format!("input.sizes.{key}")).map(|bytes| shown(bytes, ValueFormat::Bytes));
    if run.at("input.sizes").is_some() {
        rows.push(("sizes of caches by", run.text("input.sizes.asked").to_owned()));
        rows.extend(bytes("knee_bytes").map(|knee| ("LRU's curve of hits bends at", knee)));
        rows.extend(bytes("full_bytes").map(|full| ("and ends at", full)));
    }
    if run.at("input.characteristics").is_none() {
        return rows;
    }
    let (reads, writes) = (of("reads").unwrap_or(0.0), of("writes").unwrap_or(0.0));
    let share = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
    let whole = |value: Option<f64>| value.map_or("too many to count".to_owned(), |n| show_count(n as u64));
    let kib = |bytes: Option<f64>, n: f64| {
        bytes.filter(|_| n > 0.0).map_or("–".to_owned(), |b| format!("{:.2} KiB", b / 1024.0 / n))
    };
    rows.extend([
        ("reads", format!("{} ({:.2} % of reads and writes)", whole(of("reads")), share(reads, reads + writes))),
        ("writes", whole(of("writes"))),
        ("flushes, discards", format!("{}, {}", whole(of("flushes")), whole(of("discards")))),
        ("mean size", format!("{} read, {} write", kib(of("read_bytes"), reads), kib(of("write_bytes"), writes))),
        (
            "pages touched",
            format!("{} by reads, {} by writes", whole(of("read_page_touches")), whole(of("write_page_touches"))),
        ),
        (
            "different pages",
            format!(
                "{}: {} read, {} written",
                whole(of("unique_pages")),
                whole(of("unique_pages_read")),
                whole(of("unique_pages_written"))
            ),
        ),
    ]);
    if let Some(pages) = of("unique_pages") {
        let page = run.number("page_bytes").unwrap_or(0.0);
        rows.push(("footprint", format!("{:.1} MiB", pages * page / f64::from(1 << 20))));
    }
    let sizes: Vec<f64> =
        run.list("input.characteristics.write_sizes").iter().filter_map(serde_json::Value::as_f64).collect();
    if let [to_4, to_16, to_64, above] = sizes[..] {
        let percent = |n| format!("{:.1} %", share(n, writes));
        rows.push(("writes of up to 4, 16, 64 KiB, above", [to_4, to_16, to_64, above].map(percent).join(", ")));
    }
    let placed = reads + writes + of("discards").unwrap_or(0.0);
    rows.extend([
        ("sequential", format!("{:.2} %", share(of("sequential").unwrap_or(0.0), placed))),
        ("duration", of("duration").map_or("–".to_owned(), show_time)),
        ("volumes", whole(of("volumes"))),
        ("highest address", of("max_address").map_or("–".to_owned(), |bytes| shown(bytes, ValueFormat::Bytes))),
    ]);
    rows
}
