//! Fills [placeholders](crate::placeholders) with results.

use std::fmt::Write;

use destage_report::figures::ValueFormat;
use destage_sim::measure::MeanEstimate;

use crate::metric::ClaimMetric;
use crate::paper::PaperClaim;
use crate::placeholders::{ProsePart, parts};
use crate::reproduce::{ClaimFinding, PaperReproduction};

/// Stands for what was not measured, until its sentence is left out.
const MISSING: char = '\u{2063}';

/// Fills a text's braces with results, and leaves out sentences about workloads that are not here. A text in which something is
/// wrong stays as it is.
pub fn fill(text: &str, reproduction: &PaperReproduction<'_>) -> String {
    let Ok(parts) = parts(text, reproduction.paper) else { return text.to_owned() };
    let mut out = String::with_capacity(text.len());
    for part in parts {
        match part {
            ProsePart::Text(text) | ProsePart::Literal(text) => out.push_str(text),
            ProsePart::Claimed(claim) => out.push_str(&range(claim.claimed, claim.metric.unit())),
            ProsePart::Measured { claim, at, on } => {
                out.push_str(&finding(reproduction, claim, at, on).map_or_else(none, improvement));
            }
            ProsePart::Run { metric, policy, cache, on, at } => {
                let runs = reproduction.results[on].of(at, policy, cache);
                let values: Option<Vec<f64>> = runs.iter().map(|run| metric.of(run)).collect();
                let values = values.filter(|values| !values.is_empty());
                out.push_str(&values.map_or_else(none, |values| value(metric, MeanEstimate::of(&values).mean)));
            }
        }
    }
    whole_sentences(&out)
}

fn none() -> String {
    MISSING.to_string()
}

/// Leaves out each sentence that lacks a figure, and says so at the end of its paragraph.
fn whole_sentences(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        if !paragraph.contains(MISSING) {
            return paragraph.to_owned();
        }
        let whole: String = sentences(paragraph).filter(|sentence| !sentence.contains(MISSING)).collect();
        format!("{} (More of this needs traces that are not here.)", whole.trim_end()).trim_start().to_owned()
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Splits a paragraph behind the end of each sentence, with the space that follows.
fn sentences(paragraph: &str) -> impl Iterator<Item = &str> {
    let mut rest = paragraph;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let ends = rest.match_indices(['.', '?', '!']).map(|(at, mark)| at + mark.len());
        // Bold print may end behind the full stop.
        let ends = ends.map(|at| at + rest[at..].len() - rest[at..].trim_start_matches("**").len());
        let end = ends.filter(|at| rest[*at..].starts_with(char::is_whitespace)).map(|at| at + 1).next();
        let (sentence, left) = rest.split_at(end.unwrap_or(rest.len()));
        rest = left;
        Some(sentence)
    })
}

/// Finds what is measured of a claim.
fn finding<'a, 'b>(
    reproduction: &'a PaperReproduction<'b>,
    claim: &PaperClaim,
    at: Option<&str>,
    on: Option<&str>,
) -> Option<&'a ClaimFinding<'b>> {
    let is_own = |finding: &ClaimFinding<'_>| std::ptr::eq(finding.claim, claim);
    let nearest = reproduction.nearest().into_iter().find(|finding| is_own(finding))?;
    let is_there = |finding: &ClaimFinding<'_>| match on {
        Some(name) => finding.on.len() == 1 && finding.on[0].name == name,
        None => {
            finding.on.len() == nearest.on.len()
                && finding.on.iter().zip(&nearest.on).all(|(a, b)| std::ptr::eq(*a, *b))
        }
    };
    let all = reproduction.findings.iter().chain(reproduction.also.iter().flatten());
    all.filter(|finding| is_own(finding) && is_there(finding)).find(|finding| at.is_none_or(|at| finding.at == at))
}

/// Shows what is measured of a claim.
fn improvement(finding: &ClaimFinding<'_>) -> String {
    let means = || finding.measured.iter().map(|(_, measured)| measured.mean);
    match (means().min_by(f64::total_cmp), means().max_by(f64::total_cmp)) {
        (Some(least), Some(greatest)) => range([least, greatest], finding.claim.metric.unit()),
        _ => none(),
    }
}

fn range([least, greatest]: [f64; 2], unit: &str) -> String {
    let (least, greatest) = (short(least), short(greatest));
    if least == greatest { format!("{least} {unit}") } else { format!("{least} to {greatest} {unit}") }
}

/// Shows two digits of what is small, and no fraction of what is not.
fn short(value: f64) -> String {
    let places = usize::from(value.abs() < 9.95);
    let text = format!("{value:.places$}");
    // No "-0.0", and no fraction that says nothing.
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.replace('-', "\u{2212}") }
}

/// Shows a figure of a run in its unit.
fn value(metric: &ClaimMetric, value: f64) -> String {
    let (scale, places) = metric.scale();
    let mut out = String::new();
    let unit = match metric.show() {
        ValueFormat::Time => " ms",
        ValueFormat::Percent => " %",
        ValueFormat::Rate => " MB/s",
        ValueFormat::Count | ValueFormat::Bytes | ValueFormat::Decimals | ValueFormat::Years => "",
    };
    let _ = write!(out, "{:.places$}{unit}", value / scale);
    out
}
