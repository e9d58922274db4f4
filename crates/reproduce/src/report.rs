//! A reproduction as Markdown and as the rows of a table.

use std::fmt::Write;

use destage_scenario::quantity::show_bytes;

use destage_report::ReportRun;
use destage_sim::measure::MeanEstimate;

use crate::counted::CountedPeer;
use crate::grade::{self, ClaimGrade};
use crate::metric::ClaimMetric;
use crate::paper::{PaperFile, WorkloadProvenance};
use crate::prose;
use crate::reasons::reasons;
use crate::reproduce::{ClaimFinding, PaperReproduction};
use crate::score::GradeCounts;
use crate::several;
pub(crate) use crate::wording::{claimed, measured, number, verdict, what, workloads};

/// Figures of a buffer size in one row, at most; else each policy has its own.
const WIDE: usize = 8;

/// The columns of [`rows`].
pub const COLUMNS: [&str; 6] = ["claim", "what", "claimed", "measured", "workload", "holds"];

/// The columns of [`values`].
pub(crate) const VALUE_COLUMNS: [&str; 8] =
    ["id", "where", "workload", "policy", "what", "published", "measured", "holds"];

/// Holds the note that marks a quick look wherever its results are.
pub const QUICK: &str = "A quick look: two seeds, and an eighth of the workloads' lengths and of warm-ups. Buffers are less \
                         full and intervals wider than in the evaluation proper, so claims may hold or fail for that alone.";

/// Every claim on every workload, a row each.
pub fn rows(reproduction: &PaperReproduction) -> Vec<[String; 6]> {
    let claims = reproduction.findings.iter().map(|finding| {
        [number(finding), what(finding), claimed(finding), measured(finding), workloads(finding), verdict(finding)]
    });
    let examples = reproduction.examples.iter().map(|found| {
        let example = found.example;
        let holds = if found.holds() { "yes" } else { "no" };
        [
            example.id.clone(),
            example.about.clone(),
            found.expected(),
            found.found(),
            example.place.clone(),
            holds.into(),
        ]
    });
    claims.chain(examples).collect()
}

/// The whole reproduction as Markdown.
pub fn markdown(reproduction: &PaperReproduction) -> String {
    let paper = reproduction.paper;
    let mut out = format!("## {}\n\n{}\n\n", paper.name, paper.title);
    if reproduction.quick {
        let _ = writeln!(out, "**{QUICK}**\n");
    }
    let _ = writeln!(out, "{}", paper.about.trim());
    if !paper.claim.is_empty() {
        out.push_str("\n### Claims\n\n");
        table(&mut out, &COLUMNS, &rows(reproduction));
        if let Some((heads, rows)) = other_assumptions(reproduction) {
            out.push_str(
                "\n### The same under other assumptions\n\nAn asterisk: the claim holds in sign; two: within a factor of two, or as alike.\n\n",
            );
            table(&mut out, &heads, &rows);
        }
        out.push_str("\n### How many hold\n\nOf the paper's claims, each on the workload nearest to its own; then of all that was tried.\n\n");
        let heads = ["of", "claims"].into_iter().chain(ClaimGrade::ALL.map(ClaimGrade::label));
        table(&mut out, &heads.collect::<Vec<_>>(), &tally(reproduction));
        let reasons = reasons(reproduction);
        if !reasons.is_empty() {
            out.push_str("\n### Why the others do not\n\nOn the workloads nearest to the paper's.\n\n");
            for (claims, reason) in reasons {
                let _ = writeln!(out, "* **{claims}**: {}", reason.replace('\n', " "));
            }
        }
    }
    if !paper.value.is_empty() {
        out.push_str("\n### Figures that the paper prints\n\n");
        table(&mut out, &VALUE_COLUMNS, &values(reproduction));
    }
    let _ = write!(
        out,
        "\n### What holds, what does not, and why\n\n{}\n",
        prose::fill(paper.verdict.trim(), reproduction)
    );
    out.push_str("\n### All figures\n");
    for (number, (workload, results)) in paper.workload.iter().zip(&reproduction.results).enumerate() {
        let _ = write!(out, "\n**{}** ({})", workload.name, workload.provenance.label());
        if results.is_empty() {
            let _ = match &workload.trace {
                Some(trace) if workload.files.is_empty() => {
                    writeln!(out, ": not run; no file was recognised as it ({trace})")
                }
                _ => writeln!(out, ": not run; none of {} was found", workload.files.join(", ")),
            };
            continue;
        }
        out.push('\n');
        for variant in std::iter::once("").chain(paper.variant.iter().map(|variant| variant.name.as_str())) {
            figures(&mut out, reproduction, number, variant);
        }
    }
    out
}

/// Claims that were tried under further variants, if any were: headings and rows of what is
/// measured under each, with an asterisk where the claim holds in sign, two where in size too.
pub(crate) fn other_assumptions<'a>(reproduction: &PaperReproduction<'a>) -> Option<(Vec<&'a str>, Vec<Vec<String>>)> {
    let names = reproduction.paper.variant.iter().map(|variant| variant.name.as_str());
    let tried = |name: &str| reproduction.also.iter().flatten().any(|finding| finding.at == name);
    let names: Vec<&str> = names.filter(|name| tried(name)).collect();
    if names.is_empty() {
        return None;
    }
    let heads = ["claim", "workload", "claimed", "as above"].into_iter().chain(names.iter().copied()).collect();
    let both = reproduction.findings.iter().zip(&reproduction.also);
    let rows = both.filter(|(finding, also)| finding.run && !also.is_empty()).map(|(finding, also)| {
        let first = [finding.claim.id.clone(), workloads(finding), claimed(finding), marked(finding)];
        let others = names.iter().map(|name| also.iter().find(|f| f.at == *name).map_or_else(String::new, marked));
        first.into_iter().chain(others).collect::<Vec<_>>()
    });
    Some((heads, rows.collect()))
}

/// Returns the measured improvement, marked by how far the claim holds.
fn marked(finding: &ClaimFinding) -> String {
    match finding.grade() {
        ClaimGrade::Size | ClaimGrade::Double | ClaimGrade::Alike => format!("{} **", measured(finding)),
        ClaimGrade::Sign | ClaimGrade::Claimed => format!("{} *", measured(finding)),
        ClaimGrade::Untried => verdict(finding),
        ClaimGrade::Part | ClaimGrade::Not | ClaimGrade::Undecided => measured(finding),
    }
}

/// Counts grades: of the paper's claims, and of all that was tried by kind of workload.
fn tally(reproduction: &PaperReproduction) -> Vec<Vec<String>> {
    let row = |of: &str, counts: &GradeCounts| {
        let each = ClaimGrade::ALL.map(|grade| counts.of(grade).to_string());
        [of.to_owned(), counts.all().to_string()].into_iter().chain(each).collect()
    };
    let mut rows = vec![row("the paper", &GradeCounts::of_claims(&reproduction.nearest()))];
    for kind in WorkloadProvenance::ALL {
        let of_kind = reproduction.findings.iter().filter(|f| f.on.iter().all(|w| w.provenance == kind));
        let counts: GradeCounts = of_kind.map(ClaimFinding::grade).collect();
        if counts.all() > 0 {
            rows.push(row(kind.label(), &counts));
        }
    }
    rows
}

/// A mean with its interval, in the metric's unit; of some seeds' results, if they all show it.
fn cell(metric: &ClaimMetric, results: &[ReportRun]) -> String {
    let (unit, places) = metric.scale();
    let values: Option<Vec<f64>> = results.iter().map(|run| metric.of(run)).collect();
    match values.filter(|values| !values.is_empty()).map(|values| MeanEstimate::of(&values)) {
        None if results.iter().any(ReportRun::is_saturated) => "saturated".to_owned(),
        None => "\u{2013}".to_owned(),
        Some(e) if e.samples == 1 => format!("{:.places$}", e.mean / unit),
        Some(e) => format!("{:.places$} ± {:.places$}", e.mean / unit, e.half_width / unit),
    }
}

/// Grades a figure that the paper prints.
fn graded(metric: &ClaimMetric, published: f64, results: &[ReportRun]) -> String {
    let values: Option<Vec<f64>> = results.iter().map(|run| metric.of(run)).collect();
    let measured = values.filter(|values| !values.is_empty()).map(|values| MeanEstimate::of(&values));
    measured.map_or(ClaimGrade::Untried, |e| grade::of_figure(metric, published, &e)).label().to_owned()
}

/// Returns rows that put the paper's printed values beside the measured ones, for each workload that stands
/// for the paper's.
pub(crate) fn values(reproduction: &PaperReproduction) -> Vec<[String; 8]> {
    let paper = reproduction.paper;
    let mut rows = Vec::new();
    for value in &paper.value {
        for (workload, results) in paper.workload.iter().zip(&reproduction.results) {
            if results.is_empty() || !workload.stands_for.contains(&value.workload) {
                continue;
            }
            let bytes = several::bytes(std::slice::from_ref(&value.cache)).next().unwrap_or_default();
            let found = results.of(&value.at, &value.policy, bytes);
            for (&metric, published) in value.metrics.iter().zip(&value.published) {
                rows.push([
                    value.id.clone(),
                    value.place.clone(),
                    workload.name.clone(),
                    format!("{}, {}", value.policy, value.cache),
                    metric.heading.to_owned(),
                    published.to_string(),
                    cell(metric, found),
                    graded(metric, *published, found),
                ]);
            }
        }
    }
    rows
}

/// The figures of every policy at every size under a variant.
fn figures(out: &mut String, reproduction: &PaperReproduction, workload: usize, variant: &str) {
    let (paper, results) = (reproduction.paper, &reproduction.results[workload]);
    let (run, caches) = results.under(variant);
    if caches.is_empty() {
        return;
    }
    if variant.is_empty() {
        out.push('\n');
    } else {
        let _ = write!(out, "\n*{variant}*\n\n");
    }
    let policies: Vec<&String> = paper.policies.iter().filter(|policy| run.contains(&policy.as_str())).collect();
    let counted = counted(paper, workload, variant).next().is_some();
    if policies.len() * paper.figures.len() <= WIDE && !counted {
        let headings = paper.figures.iter().flat_map(|metric| policies.iter().map(move |p| (metric, p)));
        let header: Vec<String> = std::iter::once("buffer".to_owned())
            .chain(headings.map(|(metric, policy)| format!("{policy}: {}", metric.heading)))
            .collect();
        let rows = caches.into_iter().map(|cache| {
            let cells = paper.figures.iter().flat_map(|&metric| policies.iter().map(move |p| (metric, p)));
            let cells = cells.map(|(metric, policy)| cell(metric, results.of(variant, policy, cache)));
            std::iter::once(show_bytes(cache)).chain(cells).collect::<Vec<_>>()
        });
        table(out, &header, &rows.collect::<Vec<_>>());
        return;
    }
    let (header, rows) = by_policy(reproduction, workload, variant);
    table(out, &header, &rows);
}

/// Lists the published counts of other implementations for a workload and a variant.
fn counted<'a>(paper: &'a PaperFile, workload: usize, variant: &'a str) -> impl Iterator<Item = &'a CountedPeer> {
    let workload = &paper.workload[workload];
    paper.counted.iter().filter(move |counted| counted.at == variant && workload.stands_for.contains(&counted.workload))
}

/// The figures under a variant, headings and rows: a row for each policy at each size, and for what others were
/// counted to do at it.
pub(crate) fn by_policy(
    reproduction: &PaperReproduction,
    workload: usize,
    variant: &str,
) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let (paper, results) = (reproduction.paper, &reproduction.results[workload]);
    let header = ["buffer", "policy"].into_iter().chain(paper.figures.iter().map(|metric| metric.heading)).collect();
    let (run, caches) = results.under(variant);
    let mut rows = Vec::new();
    for cache in caches {
        let size = || show_bytes(cache);
        for policy in paper.policies.iter().filter(|policy| run.contains(&policy.as_str())) {
            let cells = paper.figures.iter().map(|&metric| cell(metric, results.of(variant, policy, cache)));
            rows.push([size(), policy.clone()].into_iter().chain(cells).collect());
        }
        for other in counted(paper, workload, variant).filter(|other| other.cache_bytes() == Some(cache)) {
            let cells = paper.figures.iter().map(|&metric| other.cell(metric).unwrap_or("\u{2013}").to_owned());
            rows.push([size(), other.name.clone()].into_iter().chain(cells).collect());
        }
    }
    (header, rows)
}

/// The workloads and variants under which others were counted.
pub(crate) fn with_others<'a>(reproduction: &'a PaperReproduction<'_>) -> impl Iterator<Item = (usize, &'a str)> {
    let paper = reproduction.paper;
    let variants = move || std::iter::once("").chain(paper.variant.iter().map(|variant| variant.name.as_str()));
    let all = (0..paper.workload.len()).flat_map(move |workload| variants().map(move |variant| (workload, variant)));
    all.filter(move |(workload, variant)| counted(paper, *workload, variant).next().is_some())
}

/// A table in Markdown; columns of figures are the reader's to recognise.
pub(crate) fn table<R: AsRef<[S]>, S: AsRef<str>, H: AsRef<str>>(out: &mut String, header: &[H], rows: &[R]) {
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        out.push('|');
        for cell in cells {
            let _ = write!(out, " {} |", cell.replace('|', "\\|").replace('*', "\\*"));
        }
        out.push('\n');
    };
    line(&mut header.iter().map(AsRef::as_ref));
    line(&mut header.iter().map(|_| "---"));
    for row in rows {
        line(&mut row.as_ref().iter().map(AsRef::as_ref));
    }
}
