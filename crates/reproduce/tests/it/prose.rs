//! Prose that is filled with results.

use std::path::PathBuf;

use destage_reproduce::paper::{PaperFile, built_in};
use destage_reproduce::placeholders::{bare_figures, check};
use destage_reproduce::prose::fill;
use destage_reproduce::reproduce::reproduce;

use crate::small;

const WORKLOAD: &str = r#"
about = "random pages"
source = "made up"
kind = "synthetic"
length = "20000"

[[part]]
sizes = "2KiB"
align = "2KiB"
space = "64MiB"
"#;

const PAPER: &str = r#"
name = "small"
title = "A small paper"
about = "About."
verdict = "VERDICT"
seeds = 2
policies = ["bplru", "fab"]
figures = ["evictions", "throughput"]

[settings]
device = "analytic"
page = "2KiB"
ops = "writes"

[[variant]]
name = "reads, too"
settings = { ops = "all" }

[[variant]]
name = "on a disk"
settings = { ops = "all" }

[[workload]]
name = "random"
provenance = "synthetic"
stands-for = ["Random"]
synthetic = "WORKLOAD"

[[workload]]
name = "the original"
provenance = "original"
stands-for = ["Random"]
files = ["nowhere.spc"]

[[workload]]
name = "other pages"
provenance = "synthetic"
stands-for = ["Other"]
synthetic = "WORKLOAD"
set = { length = 2000 }

[[workload]]
name = "pages on a disk at night"
provenance = "synthetic"
stands-for = ["Night"]
synthetic = "WORKLOAD"
set = { length = 2000 }

[[claim]]
id = "S1"
where = "text"
workload = "Random"
metric = "evictions"
new = "fab"
than = "bplru"
caches = ["4MiB", "16MiB"]
claimed = [1, 500]
also-at = ["reads, too"]
why = ["known"]

[[claim]]
id = "S2 at night"
where = "text"
workload = "Night"
metric = "evictions"
new = "fab"
than = "bplru"
caches = ["4MiB"]
claimed = [1, 500]
at = "on a disk"
why = ["known"]

[[claim]]
id = "S3"
where = "text"
workload = "Other"
metric = "evictions"
new = "fab"
than = "bplru"
caches = ["4MiB"]
claimed = [1, 500]
why = ["known"]

[[reason]]
id = "known"
text = "Since {S1}."
"#;

fn small(verdict: &str) -> (tempfile::TempDir, Result<PaperFile, String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let paper = small::paper(folder.path(), &PAPER.replace("VERDICT", verdict), WORKLOAD);
    (folder, paper)
}

#[test]
fn braces_are_filled_with_results() {
    let verdict = "FAB {S1}, of {claimed S1}; {S1 on random}; {S1 at reads, too}; {S1 on random at reads, too}; \
                   {run evictions of fab with 16MiB on random}; {=5 ms}.";
    let (_folder, paper) = small(verdict);
    let paper = paper.expect("a paper");
    let nowhere: [PathBuf; 0] = [];
    let found = reproduce(&paper, &nowhere, &|_, _| {}).expect("it runs");
    let of = |at: &str| {
        let mut all = found.findings.iter().chain(found.also.iter().flatten());
        let finding = all.find(|f| f.at == at && f.run).expect("it was run");
        let means: Vec<_> = finding.measured.iter().map(|(_, e)| e.mean).collect();
        format!("{:.0} to {:.0} %", means[1].min(means[0]), means[0].max(means[1]))
    };
    let runs = found.results[0].of("", "fab", 16 << 20);
    let evictions = runs.iter().map(|run| run.number("evictions").expect("a number")).sum::<f64>() / 2.0;
    let (own, other) = (of(""), of("reads, too"));
    let expected = format!("FAB {own}, of 1 to 500 %; {own}; {other}; {other}; {evictions:.0}; 5 ms.");
    assert_eq!(fill(&paper.verdict, &found), expected);
    assert!(destage_reproduce::report::markdown(&found).contains(&expected), "the report has it");
    assert_eq!(bare_figures(&paper.verdict, &paper), [""; 0]);
}

#[test]
fn sentences_about_workloads_that_are_not_here_are_left_out() {
    for (verdict, expected) in [
        (
            "First. **On it {S1 on the original}.** Then 1.5 ms. Last",
            "First. Then 1.5 ms. Last (More of this needs traces that are not here.)",
        ),
        ("{S1 on the original}.", "(More of this needs traces that are not here.)"),
        (
            "All is here.\n\nOf {S1 on the original}, then\n{S1 on the original}. The end.",
            "All is here.\n\nThe end. (More of this needs traces that are not here.)",
        ),
    ] {
        let (_folder, paper) = small(&verdict.replace('\n', "\\n"));
        let paper = paper.expect("a paper");
        let found = reproduce(&paper, &[], &|_, _| {}).expect("it runs");
        assert_eq!(fill(&paper.verdict, &found), expected);
    }
}

#[test]
fn what_no_run_fills_is_refused() {
    for (verdict, part) in [
        ("{S4}", "verdict: {S4}: there is no claim \\\"S4\\\""),
        ("{S1 at writes}", "claim S1 is not tried under"),
        ("{S1 on Mars}", "there is no workload"),
        ("{S1 on other pages}", "claim S1 is not tried on \\\"other pages\\\" alone"),
        ("{claimed S9}", "there is no claim"),
        ("{run misses of fab with 4MiB on random}", "there is no metric"),
        ("{run evictions of lru with 4MiB on random}", "neither a claim nor a figure has it run"),
        ("{run evictions of fab with 8MiB on random}", "neither a claim nor a figure has it run"),
        ("{run evictions of fab with many on random}", "'many': "),
        ("{run evictions}", "a run is METRIC of POLICY with SIZE on WORKLOAD"),
        ("{S1", "a brace that is not closed"),
    ] {
        let paper = small(verdict).1.expect("a paper");
        let error = reproduce(&paper, &[], &|_, _| {}).expect_err("it is wrong").to_string();
        let part = part.replace('\\', "");
        assert!(error.contains(&part), "{error}\nshould contain\n{part}");
    }
}

#[test]
fn names_may_have_on_and_at_in_them() {
    let run = "run evictions of fab with 4MiB on pages on a disk at night at on a disk";
    for text in ["{S2 at night}", "{S2 at night on pages on a disk at night at on a disk}", &format!("{{{run}}}")] {
        let (_folder, paper) = small(text);
        let paper = paper.expect("a paper");
        check(&paper).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn figures_outside_of_braces_are_found() {
    let verdict =
        "It gains 68 %, 5.5 points and 12\u{b5}s; RAID-5 of 4 members, Table 3, 10 timestamps, {=7 %} and {S1}.";
    let (_folder, paper) = small(verdict);
    let paper = paper.expect("a paper");
    assert_eq!(bare_figures(&paper.verdict, &paper), ["68 %", "5.5 points", "12\u{b5}s"]);
}

#[test]
fn quotations_may_have_figures() {
    let (_folder, paper) = small(r#"It says \"by 68 % on {S1} or 5 %\", not 4 %."#);
    let paper = paper.expect("a paper");
    assert_eq!(bare_figures(&paper.verdict, &paper), ["4 %"]);
}

/// Checks that every figure of what is built in is a result that is filled in, a setting, or a quotation.
#[test]
fn built_in_prose_has_no_bare_figures() {
    for name in built_in() {
        let paper = PaperFile::named(name).expect("it is built in");
        check(&paper).unwrap_or_else(|error| panic!("{name}: {error}"));
        let reasons = paper.reason.iter().map(|reason| (reason.id.as_str(), reason.text.as_str()));
        for (place, text) in std::iter::once(("verdict", paper.verdict.as_str())).chain(reasons) {
            assert_eq!(bare_figures(text, &paper), [""; 0], "{name}, {place}");
        }
    }
}
