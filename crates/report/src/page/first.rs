//! Writes the first part of a group: its runs, the warnings, and the outcome.

use std::fmt::Write as _;

use destage_scenario::quantity::{show_capacity, show_count, show_time};

use super::{breakable, file_name};
use crate::ReportRun;
use crate::cards::{capital, cards};
use crate::device::{setting, ssd_words};
use crate::escape::escaped;
use crate::figures::ValueFormat;
use crate::findings::{WarningGravity, found};
use crate::group::RunGroup;
use crate::ranking::RunRanking;
use crate::summary::shown;

/// Strip of trust, findings and cards.
pub(super) fn screen(html: &mut String, group: &RunGroup, runs: &[ReportRun]) {
    strip(html, group, runs);
    notes(html, group, runs);
    // Whether what the cards say rests on less than it seems to.
    let best = RunRanking::of(group, runs).best().map(|best| &runs[best.run]);
    let is_weak =
        found(best.as_slice(), Some(group.objective)).iter().any(|finding| finding.severity != WarningGravity::Note);
    let _ = writeln!(html, "<div class=\"cards{}\">", if is_weak { " weak" } else { "" });
    for card in cards(group, runs) {
        let _ = writeln!(
            html,
            "<div class=\"card\"><h3>{}</h3><p class=\"big\">{}</p><p>{}</p></div>",
            card.title,
            breakable(&card.number),
            escaped(&card.sentence)
        );
    }
    html.push_str("</div>\n");
}

/// Returns the text that all runs of a group share, or the different ones.
fn each(group: &RunGroup, runs: &[ReportRun], tell: impl Fn(&ReportRun) -> String) -> String {
    let mut all: Vec<String> = Vec::new();
    for point in &group.points {
        let told = tell(&runs[point.run]);
        if !told.is_empty() && !all.contains(&told) {
            all.push(told);
        }
    }
    match all.len() {
        0..=3 => all.join(" or "),
        many => format!("{many} different ones"),
    }
}

/// Trace, device and host.
fn strip(html: &mut String, group: &RunGroup, runs: &[ReportRun]) {
    let trace = |run: &ReportRun| {
        let mut told = vec![file_name(run.text("input.trace")).to_owned()];
        let of = |path: &str| run.number(path).filter(|number| *number > 0.0);
        told.extend(of("requests").map(|requests| format!("{} requests", show_count(requests as u64))));
        told.extend(of("warmup_requests").map(|requests| format!("after {} of warm-up", show_count(requests as u64))));
        told.extend(of("input.characteristics.duration").map(|span| format!("over {}", span_words(span))));
        told.join(", ")
    };
    html.push_str("<dl class=\"trust\">");
    for (name, told) in [
        ("Trace", each(group, runs, trace)),
        ("Device", each(group, runs, device)),
        ("Cache on", each(group, runs, cache_device)),
        ("Start", each(group, runs, start)),
        ("Host", each(group, runs, host)),
    ] {
        if !told.is_empty() {
            let _ = write!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&told));
        }
    }
    html.push_str("</dl>\n");
}

/// A span of a trace, in units that people count in.
fn span_words(ns: f64) -> String {
    let seconds = ns / 1e9;
    match seconds {
        s if s < 120.0 => show_time(ns),
        s if s < 2.0 * 3600.0 => format!("{:.1} min", s / 60.0),
        s if s < 48.0 * 3600.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

fn device(run: &ReportRun) -> String {
    let bytes = |path: &str| run.at(path).and_then(serde_json::Value::as_u64);
    if run.is_array {
        let members = bytes("array.members").unwrap_or_default();
        let size = bytes("array.member_bytes").map_or(String::new(), |size| format!(" of {}", show_capacity(size)));
        return format!(
            "{} over {members} members{size}: {}",
            run.text("array.level"),
            kind_words(run, run.text("device"))
        );
    }
    match run.text("device") {
        "ssd" => {
            let mut told = vec![ssd_words(run)];
            let of = |path: &str| Some(shown(run.number(path)? * run.number("page_bytes")?, ValueFormat::Bytes));
            told.extend(of("ssd.host_pages").map(|bytes| format!("{bytes} for the host")));
            told.extend(of("ssd.raw_pages").map(|bytes| format!("{bytes} of flash")));
            told.join(", ")
        }
        "analytic" => "LB-CLOCK's cost model".to_owned(),
        "none" => "none: hits and evictions only".to_owned(),
        other => other.to_owned(),
    }
}

fn cache_device(run: &ReportRun) -> String {
    let is_cached = run.is_array && run.text("policy") != "none" && run.cache().is_some();
    if is_cached { kind_words(run, run.text("cache_device")) } else { String::new() }
}

/// Returns a kind of device, of an SSD which one.
fn kind_words(run: &ReportRun, kind: &str) -> String {
    if kind == "ssd" { ssd_words(run) } else { kind.to_owned() }
}

fn start(run: &ReportRun) -> String {
    let state = run.text("start_state");
    let (kind, _) = state.split_once(':').unwrap_or((state, ""));
    let words = match kind {
        "full" => "full, never overwritten",
        "empty" => "empty",
        "random" => "full, written in random order",
        "aged" => "aged by random overwrites",
        "steady" => "steady",
        "" | "none" => return String::new(),
        _ => state,
    };
    match run.number("ssd.start_write_amplification") {
        Some(amplification) => format!("{words} (write amplification {amplification:.1})"),
        None => words.to_owned(),
    }
}

fn host(run: &ReportRun) -> String {
    let speed = setting(run, "speed");
    match run.text("host") {
        "open" if speed.is_empty() || speed == "1" => "open loop: requests come when the trace says".to_owned(),
        "open" => format!("open loop: requests come at {speed} times the trace's speed"),
        host => match host.split_once(':') {
            Some(("closed", depth)) => format!("closed loop: {depth} requests outstanding"),
            Some(("bounded", depth)) => {
                format!("bounded queue: requests come when the trace says, which waits while {depth} are outstanding")
            }
            _ => host.to_owned(),
        },
    }
}

/// Writes the warnings about the figures.
fn notes(html: &mut String, group: &RunGroup, runs: &[ReportRun]) {
    let runs: Vec<&ReportRun> = group.points.iter().map(|point| &runs[point.run]).collect();
    let all = found(&runs, Some(group.objective));
    if all.is_empty() {
        return;
    }
    html.push_str("<ul class=\"findings\">");
    for finding in all {
        let (sign, word) = match finding.severity {
            WarningGravity::Void => ("✕", "no result"),
            WarningGravity::Weak => ("!", "weak"),
            WarningGravity::Note => ("i", "note"),
        };
        let which = finding.which(&runs).map_or(String::new(), |which| format!(": {which}"));
        let message = capital(finding.message.trim_end_matches('.'));
        let _ = write!(
            html,
            "<li class=\"{}\"><span class=\"sign\" aria-hidden=\"true\">{sign}</span><span><strong>{}{}</strong> \
             <span class=\"severity\">{word}</span> {}.",
            finding.severity.word(),
            escaped(&finding.kind),
            escaped(&which),
            escaped(&message),
        );
        if let Some(mend) = finding.mend {
            let _ = write!(html, " <span class=\"mend\">Try <code>{}</code>.</span>", escaped(&mend));
        }
        html.push_str("</span></li>");
    }
    html.push_str("</ul>\n");
}
