//! A search through what a paper leaves open.

use std::path::PathBuf;
use std::sync::Mutex;

use destage_report::kept::ResultCache;
use destage_reproduce::grade::ClaimGrade;
use destage_reproduce::paper::{PaperFile, built_in};
use destage_reproduce::reproduce::ReproduceOptions;
use destage_reproduce::search::{markdown, search};
use destage_reproduce::watch::{PaperWatch, RunInfo};
use tempfile::TempDir;

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

/// Holds a paper whose two claims contradict each other, until FAB stands in the place of BPLRU; and that needs reads.
const PAPER: &str = r#"
name = "open"
title = "A paper that leaves things open"
about = "About."
verdict = "FAB {S1}."
seeds = 2
policies = ["bplru", "fab"]

[settings]
device = "analytic"
page = "2KiB"
ops = "writes"

[[assumption]]
name = "what BPLRU is"
key = "policy bplru"
values = ["bplru", "fab"]

[[assumption]]
name = "how far addresses spread"
key = "workload space"
values = ["64MiB", "32MiB"]
on = ["random"]

[[assumption]]
name = "reads"
key = "ops"
values = ["writes", "all"]

[[workload]]
name = "random"
provenance = "synthetic"
stands-for = ["Random"]
synthetic = "WORKLOAD"

[[claim]]
id = "S1"
where = "text"
workload = "Random"
metric = "evictions"
new = "fab"
than = "bplru"
caches = ["4MiB"]
claimed = [1, 500]

[[claim]]
id = "S2"
where = "text"
workload = "Random"
metric = "evictions"
new = "fab"
than = "bplru"
caches = ["4MiB"]
claimed = [0, 0]

[[claim]]
id = "S3"
where = "text"
workload = "Random"
metric = "evictions"
new = "bplru"
than = "fab"
caches = ["4MiB"]
claimed = [0, 0]
"#;

fn open(text: &str) -> (TempDir, Result<PaperFile, String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let paper = small::paper(folder.path(), text, WORKLOAD);
    (folder, paper)
}

/// Counts runs that were known, and others.
#[derive(Default)]
struct CountedEnds(Mutex<[usize; 2]>);

impl PaperWatch for CountedEnds {
    fn ends(&self, _: &RunInfo<'_>, known: bool) {
        self.0.lock().expect("nobody panics")[usize::from(known)] += 1;
    }
}

#[test]
fn the_assumption_that_turns_most_claims_is_found_and_a_search_goes_on() {
    let (folder, paper) = open(PAPER);
    let paper = paper.expect("a paper");
    let nowhere: [PathBuf; 0] = [];
    let program = folder.path().join("program");
    std::fs::write(&program, "a program").expect("a file");
    let kept = ResultCache::open(&folder.path().join("kept"), &program).expect("a folder");
    let run = || {
        let watch = CountedEnds::default();
        let options = ReproduceOptions {
            folders: &nowhere,
            found: None,
            quick: false,
            kept: Some(&kept),
            on: None,
            watch: &watch,
        };
        let found = search(&paper, options, &|_, _| {}).expect("it runs");
        (found, watch.0.into_inner().expect("nobody panics"))
    };
    let (found, ends) = run();
    // Some assumptions change nothing that is run; what they share is known.
    assert!(ends[0] > 0);
    assert_eq!(
        found.own.grades.iter().map(|(_, grade)| *grade).collect::<Vec<_>>(),
        [ClaimGrade::Size, ClaimGrade::Not, ClaimGrade::Not]
    );
    assert_eq!((found.own.score(), found.best.score()), ((1, 1), (2, 2)));
    assert_eq!(found.best.values, [1, 0, 0], "nothing that helps no claim is changed");
    assert_eq!(found.neighbours.len(), 3);
    let text = markdown(&paper, &found);
    for part in [
        "As in the paper's file: 1 of 3 claims borne out, 1 in sign. Best together: 2 of 3 claims borne out, 2 in sign (what BPLRU is: fab).",
        "| what BPLRU is: fab | 2 | 2 | S1 (in size \u{2192} no), S2 (no \u{2192} alike or within bounds, as claimed), S3 (",
        "| how far addresses spread: 32MiB | ",
        "| reads: all | 1 | 1 | none |",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    let (again, ends) = run();
    assert_eq!((ends[0], markdown(&paper, &again) == text), (0, true), "nothing is run again");
}

#[test]
fn assumptions_that_are_wrong_are_refused() {
    for (from, to, says) in [
        ("key = \"ops\"", "key = \"cache\"", "assumption \"reads\": key: 'cache' follows from"),
        ("key = \"policy bplru\"", "key = \"policy lru\"", "\"lru\" is not among the policies"),
        ("values = [\"writes\", \"all\"]", "values = [\"writes\"]", "values: expected two or more"),
        ("values = [\"bplru\", \"fab\"]", "values = [1, 2]", "values: expected names of policies"),
        ("on = [\"random\"]", "on = [\"Mars\"]", "on: there is no workload \"Mars\""),
        ("name = \"reads\"", "name = \"what BPLRU is\"", "is given twice"),
    ] {
        assert!(PAPER.contains(from), "{from}");
        let error = open(&PAPER.replacen(from, to, 1)).1.expect_err("it is wrong");
        assert!(error.contains(says), "{to}: {error}");
    }
}

#[test]
fn papers_say_what_they_leave_open() {
    for name in built_in().filter(|name| !PaperFile::named(name).expect("built in").claim.is_empty()) {
        let paper = PaperFile::named(name).expect("it is built in");
        assert!(!paper.assumption.is_empty(), "{name}");
    }
}
