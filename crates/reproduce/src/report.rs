//! A reproduction as Markdown and as the rows of a table.

use std::fmt::Write;

use destage_scenario::quantity::show_bytes;

use crate::paper::{Metric, Provenance};
use crate::reproduce::{Finding, Holds, Reproduction, Results, value_of};
use crate::stats::Estimate;

/// The columns of [`rows`].
pub const COLUMNS: [&str; 6] = ["claim", "what", "claimed", "measured", "workload", "holds"];

/// Every claim on every workload, a row each.
pub fn rows(reproduction: &Reproduction) -> Vec<[String; 6]> {
    let claims = reproduction.findings.iter().map(|finding| {
        [
            finding.claim.id.clone(),
            what(finding),
            claimed(finding),
            measured(finding),
            finding.workload.name.clone(),
            verdict(finding),
        ]
    });
    let examples = reproduction.examples.iter().map(|found| {
        let (example, evicted) = (found.example, &found.evicted);
        let holds = if *evicted == example.evicts { "yes" } else { "no" };
        [
            example.id.clone(),
            example.about.clone(),
            format!("evicts {:?}", example.evicts),
            format!("evicts {evicted:?}"),
            example.place.clone(),
            holds.into(),
        ]
    });
    claims.chain(examples).collect()
}

fn what(finding: &Finding) -> String {
    let claim = finding.claim;
    let sizes = match (claim.caches.first(), claim.caches.last()) {
        (Some(first), Some(last)) if first != last => format!("{first}\u{2013}{last}"),
        (Some(only), _) => only.clone(),
        _ => String::new(),
    };
    let metric = match claim.metric {
        _ if claim.sign() != 0 => claim.metric.label(),
        Metric::Evictions => "as many evictions",
        Metric::Throughput => "as much throughput",
    };
    let preposition = if claim.sign() == 0 { "as" } else { "than" };
    format!("{}: {metric} {preposition} {}, {sizes}", claim.new, claim.than)
}

fn points(x: f64) -> String {
    // No "-0.0".
    let x = if x.abs() < 0.05 { 0.0 } else { x };
    format!("{x:+.1}")
}

fn claimed(finding: &Finding) -> String {
    match finding.claim.claimed {
        [0.0, 0.0] => "equal".into(),
        [a, b] if (a - b).abs() < 1e-9 => format!("{a:+} %"),
        [a, b] => format!("{a:+} to {b:+} %"),
    }
}

fn estimate(e: &Estimate) -> String {
    match e.samples {
        1 => points(e.mean),
        _ => format!("{} ± {:.1}", points(e.mean), e.half_width),
    }
}

/// The least and the greatest improvement over the sizes.
fn measured(finding: &Finding) -> String {
    let by_mean = |a: &&(u64, Estimate), b: &&(u64, Estimate)| a.1.mean.total_cmp(&b.1.mean);
    let (Some(least), Some(greatest)) =
        (finding.measured.iter().min_by(by_mean), finding.measured.iter().max_by(by_mean))
    else {
        return "\u{2013}".into();
    };
    if finding.measured.len() == 1 {
        return format!("{} %", estimate(&least.1));
    }
    format!("{} to {} %", estimate(&least.1), estimate(&greatest.1))
}

fn verdict(finding: &Finding) -> String {
    let all = finding.measured.len();
    let beyond = match finding.without_evictions {
        0 => String::new(),
        n => format!(" (at {n} more nothing is evicted)"),
    };
    match finding.holds() {
        Holds::NotRun => "not run: no such trace here".into(),
        Holds::NothingToCompare => "nothing is evicted".into(),
        // Two that are alike have no size beside that.
        Holds::InSize if finding.claim.sign() == 0 => format!("yes{beyond}"),
        Holds::InSize => format!("in size{beyond}"),
        Holds::InSign => format!("in sign{beyond}"),
        Holds::InPart => format!("in sign at {} of {all} sizes{beyond}", finding.signs),
        Holds::Not => format!("no{beyond}"),
    }
}

/// The whole reproduction as Markdown.
pub fn markdown(reproduction: &Reproduction) -> String {
    let paper = reproduction.paper;
    let mut out = format!("## {}\n\n{}\n\n{}\n", paper.name, paper.title, paper.about.trim());
    out.push_str("\n### Claims\n\n");
    table(&mut out, &COLUMNS, &rows(reproduction));
    out.push_str("\n### How many hold\n\n");
    table(
        &mut out,
        &[
            "on",
            "claims tried",
            "hold in size",
            "in sign only",
            "in sign at some sizes",
            "not",
            "not here, or no evictions",
        ],
        &tally(reproduction),
    );
    let _ = write!(out, "\n### What holds, what does not, and why\n\n{}\n", paper.verdict.trim());
    out.push_str("\n### All figures\n");
    for (workload, results) in paper.workload.iter().zip(&reproduction.results) {
        let _ = write!(out, "\n**{}** ({})", workload.name, workload.provenance.label());
        if results.is_empty() {
            let _ = writeln!(out, ": not run; none of {} was found", workload.files.join(", "));
            continue;
        }
        out.push_str("\n\n");
        figures(&mut out, reproduction, results);
    }
    out
}

/// How the claims fare by kind of workload.
fn tally(reproduction: &Reproduction) -> Vec<[String; 7]> {
    let kinds =
        [Provenance::Original, Provenance::Synthetic, Provenance::StandIn, Provenance::Real, Provenance::Recording];
    let count = |kind: Provenance, holds: Option<Holds>| {
        let of_kind = reproduction.findings.iter().filter(|f| f.workload.provenance == kind);
        of_kind.filter(|f| holds.is_none_or(|holds| f.holds() == holds)).count()
    };
    let rows = kinds.into_iter().filter(|&kind| count(kind, None) > 0).map(|kind| {
        let not_run = count(kind, Some(Holds::NotRun)) + count(kind, Some(Holds::NothingToCompare));
        [
            kind.label().to_owned(),
            (count(kind, None) - not_run).to_string(),
            count(kind, Some(Holds::InSize)).to_string(),
            count(kind, Some(Holds::InSign)).to_string(),
            count(kind, Some(Holds::InPart)).to_string(),
            count(kind, Some(Holds::Not)).to_string(),
            not_run.to_string(),
        ]
    });
    rows.collect()
}

/// Evictions and throughput of every policy at every size.
fn figures(out: &mut String, reproduction: &Reproduction, results: &Results) {
    let policies = &reproduction.paper.policies;
    let header: Vec<String> = std::iter::once("buffer".to_owned())
        .chain(policies.iter().map(|policy| format!("{policy}: evictions")))
        .chain(policies.iter().map(|policy| format!("{policy}: MB/s")))
        .collect();
    let rows: Vec<Vec<String>> = results
        .caches()
        .into_iter()
        .map(|cache| {
            let cell = |policy: &str, metric, unit: f64, places: usize| {
                let values: Option<Vec<f64>> = results.of(policy, cache).iter().map(|r| value_of(metric, r)).collect();
                match values.map(|values| Estimate::of(&values)) {
                    None => "\u{2013}".to_owned(),
                    Some(e) if e.samples == 1 => format!("{:.places$}", e.mean / unit),
                    Some(e) => format!("{:.places$} ± {:.places$}", e.mean / unit, e.half_width / unit),
                }
            };
            let mut row = vec![show_bytes(cache)];
            row.extend(policies.iter().map(|policy| cell(policy, Metric::Evictions, 1.0, 0)));
            row.extend(policies.iter().map(|policy| cell(policy, Metric::Throughput, 1e6, 3)));
            row
        })
        .collect();
    table(out, &header, &rows);
}

/// A table in Markdown; columns of figures are the reader's to recognise.
fn table<R: AsRef<[S]>, S: AsRef<str>, H: AsRef<str>>(out: &mut String, header: &[H], rows: &[R]) {
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        out.push('|');
        for cell in cells {
            let _ = write!(out, " {} |", cell.replace('|', "\\|"));
        }
        out.push('\n');
    };
    line(&mut header.iter().map(AsRef::as_ref));
    line(&mut header.iter().map(|_| "---"));
    for row in rows {
        line(&mut row.as_ref().iter().map(AsRef::as_ref));
    }
}
