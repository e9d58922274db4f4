//! Puts what became of a claim into words.

use std::fmt::Write;

use destage_sim::measure::MeanEstimate;

use crate::grade::ClaimGrade;
use crate::paper::ClaimOver;
use crate::reproduce::ClaimFinding;

/// Returns the claim's number, and of which claim it is another reading or a part.
pub(crate) fn number(finding: &ClaimFinding) -> String {
    let claim = finding.claim;
    let of = match (&claim.reading_of, &claim.part_of) {
        (Some(main), _) => format!(" (another reading of {main})"),
        (None, Some(whole)) => format!(" (a part of {whole})"),
        (None, None) => String::new(),
    };
    format!("{}{of}", claim.id)
}

/// Names the workload, or what several have in common.
pub(crate) fn workloads(finding: &ClaimFinding) -> String {
    match finding.on.as_slice() {
        [only] => only.name.clone(),
        several => format!("{}, {} workloads", several[0].provenance.label(), several.len()),
    }
}

pub(crate) fn what(finding: &ClaimFinding) -> String {
    let claim = finding.claim;
    let range = |caches: &[String]| match (caches.first(), caches.last()) {
        (Some(first), Some(last)) if first != last => format!("{first}\u{2013}{last}"),
        (Some(only), _) => only.clone(),
        _ => String::new(),
    };
    let sizes = match (&claim.than_caches, claim.over) {
        (Some(than), _) => format!("{} against {}", range(&claim.caches), range(than)),
        (None, ClaimOver::Each) => range(&claim.caches),
        (None, ClaimOver::Mean) => format!("mean over {}", range(&claim.caches)),
        (None, ClaimOver::Averages) => format!("averages over {}", range(&claim.caches)),
        (None, ClaimOver::Best) => format!("best of {}", range(&claim.caches)),
    };
    let metric = if claim.sign() == 0 { claim.metric.alike } else { claim.metric.better };
    let preposition = if claim.sign() == 0 { "as" } else { "than" };
    let under = |variant: &str| if variant.is_empty() { String::new() } else { format!(" ({variant})") };
    let relative = claim.relative_to.as_ref().map_or_else(String::new, |v| format!(", each relative to {v}"));
    let (new, than) = (claim.new.text(), claim.than.text());
    let (at, than_at) = (under(finding.at), under(claim.than_at(finding.at)));
    let other = claim.than_workload.as_ref().map_or_else(String::new, |name| format!(" on {name}"));
    format!("{new}{at}: {metric} {preposition} {than}{than_at}{other}, {sizes}{relative}")
}

fn points(x: f64) -> String {
    // No "-0.0".
    let x = if x.abs() < 0.05 { 0.0 } else { x };
    format!("{x:+.1}")
}

/// Returns the unit of improvements.
pub(crate) fn unit(finding: &ClaimFinding) -> &'static str {
    finding.claim.metric.unit()
}

pub(crate) fn claimed(finding: &ClaimFinding) -> String {
    let unit = unit(finding);
    match finding.claim.claimed {
        [0.0, 0.0] if finding.claim.at_most.is_some() => {
            format!("at most {} {unit}", finding.claim.at_most.unwrap_or_default())
        }
        [0.0, 0.0] => format!("alike within {} {unit}", finding.claim.likeness()),
        [_, b] if finding.claim.sign_only => if b > 0.0 { "better" } else { "worse" }.into(),
        [a, b] if (a - b).abs() < 1e-9 => format!("{a:+} {unit}"),
        [a, b] => format!("{a:+} to {b:+} {unit}"),
    }
}

fn estimate(e: &MeanEstimate) -> String {
    match e.samples {
        1 => points(e.mean),
        _ => format!("{} ± {:.1}", points(e.mean), e.half_width),
    }
}

/// Returns the least and the greatest improvement over the sizes.
pub(crate) fn measured(finding: &ClaimFinding) -> String {
    let by_mean = |a: &&(u64, MeanEstimate), b: &&(u64, MeanEstimate)| a.1.mean.total_cmp(&b.1.mean);
    let (Some(least), Some(greatest)) =
        (finding.measured.iter().min_by(by_mean), finding.measured.iter().max_by(by_mean))
    else {
        return "\u{2013}".into();
    };
    let unit = unit(finding);
    if finding.measured.len() == 1 {
        return format!("{} {unit}", estimate(&least.1));
    }
    format!("{} to {} {unit}", estimate(&least.1), estimate(&greatest.1))
}

pub(crate) fn verdict(finding: &ClaimFinding) -> String {
    let saturated = finding.saturated;
    let mut beyond = String::new();
    for (count, what) in [
        (finding.without_evictions, "nothing is evicted"),
        (saturated.new, "the first is saturated"),
        (saturated.than, "the second is saturated"),
        (saturated.both, "both are, or what is compared is, saturated"),
        (finding.without_base, "only one of them does it at all"),
    ] {
        if count > 0 {
            let _ = write!(beyond, " (in {count} {what})");
        }
    }
    match finding.grade() {
        ClaimGrade::Untried if !finding.run => "not run: no such trace here".into(),
        ClaimGrade::Untried if saturated.all() > 0 => "saturated".into(),
        ClaimGrade::Untried if finding.without_base > 0 => "only one of them does it at all".into(),
        ClaimGrade::Untried => "nothing is evicted".into(),
        ClaimGrade::Part => {
            let held = finding.grades.iter().filter(|grade| grade.is_in_sign()).count();
            format!("in part: in sign in {held} of {} comparisons{beyond}", finding.grades.len() + finding.missing())
        }
        ClaimGrade::Undecided => {
            let needed = finding
                .seeds_needed()
                .map(|seeds| format!(": about {seeds} seeds of {} requests would tell", thousands(finding.requests)));
            let one = || finding.measured.iter().any(|(_, e)| e.samples == 1);
            let needed =
                needed.unwrap_or_else(|| if one() { ": one run does not tell".to_owned() } else { String::new() });
            format!("undecided{needed}{beyond}")
        }
        grade => format!("{}{beyond}", grade.label()),
    }
}

/// Returns a number with commas between thousands.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join(",")
}
