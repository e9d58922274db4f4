//! A small paper, from its file to its report.

use std::path::{Path, PathBuf};

use destage_reproduce::paper::{self, Paper};
use destage_reproduce::report;
use destage_reproduce::reproduce::{Holds, reproduce};

const WORKLOAD: &str = r#"
about = "random pages, as the random workload of LB-CLOCK, but few"
source = "made up"
kind = "synthetic"
length = "60000"

[[part]]
sizes = "2KiB"
align = "2KiB"
space = "64MiB"
"#;

const PAPER: &str = r#"
name = "small"
title = "A small paper"
about = "About."
verdict = "Verdict."
seeds = 3
policies = ["bplru", "fab"]

[settings]
device = "analytic"
page = "2KiB"
ops = "writes"

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

# Without locality the largest block is the best victim.
[[claim]]
id = "S1"
where = "text"
workload = "Random"
metric = "evictions"
new = "fab"
than = "bplru"
caches = ["4MiB", "16MiB"]
claimed = [1, 500]

[[claim]]
id = "S2"
where = "text"
workload = "Random"
metric = "evictions"
new = "bplru"
than = "fab"
caches = ["4MiB"]
claimed = [1, 2]

[[example]]
id = "S3"
where = "specs 5.1"
about = "two blocks of two pages: the one nearer to the LRU end"
policy = "fab"
capacity = 6
pages-per-block = 4
writes = [4, 5, 8, 9, 12, 4, 16, 20]
evicts = [8, 9]
"#;

/// The paper with its workload in a folder of its own.
fn small() -> (tempfile::TempDir, Paper) {
    let folder = tempfile::tempdir().expect("a folder");
    let workload = folder.path().join("few.toml");
    std::fs::write(&workload, WORKLOAD).expect("a file");
    let text = PAPER.replace("WORKLOAD", workload.to_str().expect("UTF-8"));
    let paper = Paper::parse(Path::new("small.toml"), &text).expect("a paper");
    (folder, paper)
}

#[test]
fn claims_hold_or_do_not() {
    let (_folder, paper) = small();
    let nowhere: [PathBuf; 0] = [];
    let found = reproduce(&paper, &nowhere, &|_, _| {}).expect("it runs");
    let holds: Vec<_> =
        found.findings.iter().map(|f| (f.claim.id.as_str(), f.workload.name.as_str(), f.holds())).collect();
    assert_eq!(
        holds,
        [
            ("S1", "random", Holds::InSize),
            ("S1", "the original", Holds::NotRun),
            ("S2", "random", Holds::Not),
            ("S2", "the original", Holds::NotRun),
        ]
    );
    let samples: Vec<_> = found.findings[0].measured.iter().map(|(cache, e)| (*cache, e.samples)).collect();
    assert_eq!(samples, [(4 << 20, 3), (16 << 20, 3)]);
    assert_eq!(found.examples[0].evicted, [8, 9]);
    let markdown = report::markdown(&found);
    for part in [
        "| S1 | fab: fewer evictions than bplru, 4MiB\u{2013}16MiB | +1 to +500 % |",
        "| S3 |",
        "Verdict.",
        "nowhere.spc",
    ] {
        assert!(markdown.contains(part), "{part} is missing:\n{markdown}");
    }
    let again = reproduce(&paper, &nowhere, &|_, _| {}).expect("it runs");
    assert_eq!(report::markdown(&again), markdown, "the same bytes every time");
}

#[test]
fn throughput_needs_a_device_that_has_one() {
    let (_folder, mut paper) = small();
    paper.settings.insert("device".into(), "none".into());
    paper.claim[0].metric = paper::Metric::Throughput;
    let error = reproduce(&paper, &[], &|_, _| {}).expect_err("there is none").to_string();
    assert!(error.contains("claim S1, workload random: the results have no throughput"), "{error}");
}

#[test]
fn sizes_without_evictions_are_no_evidence() {
    let (_folder, mut paper) = small();
    paper.claim[0].caches = vec!["4MiB".into(), "256MiB".into()];
    paper.claim[1].caches = vec!["256MiB".into()];
    let found = reproduce(&paper, &[], &|_, _| {}).expect("it runs");
    assert_eq!((found.findings[0].holds(), found.findings[0].without_evictions), (Holds::InSize, 1));
    assert_eq!(found.findings[2].holds(), Holds::NothingToCompare);
}

#[test]
fn built_in_papers_can_be_read() {
    for name in paper::built_in() {
        let paper = Paper::named(name).expect(name);
        assert_eq!(paper.name, name);
        assert!(paper.seeds >= 5, "{name}");
    }
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let error = |text: &str| Paper::parse(Path::new("p.toml"), text).expect_err("it is wrong").to_string();
    let with = |from: &str, to: &str| error(&PAPER.replacen(from, to, 1));
    let cases = [
        (error("name = 1\n"), "p.toml, line 1: invalid type: integer `1`, expected a string"),
        (with("seeds = 3", "seeds = 1"), "p.toml: seeds = 1: between 2 and 1000"),
        (with("seeds = 3", "seed = 3"), "p.toml, line 6: unknown field `seed`, expected one of"),
        (
            with("metric = \"evictions\"", "metric = \"misses\""),
            "unknown variant `misses`, expected `evictions` or `throughput`",
        ),
        (with("workload = \"Random\"", "workload = \"Other\""), "p.toml: claim S1: no workload stands for \"Other\""),
        (with("new = \"fab\"", "new = \"lru\""), "p.toml: claim S1: \"lru\" is not among the policies"),
        (with("\"16MiB\"", "\"16 apples\""), "p.toml: claim S1: caches: '16 apples'"),
        (with("[1, 500]", "[500, 1]"), "p.toml: claim S1: claimed is [least, greatest], both of one sign"),
        (
            with("page = \"2KiB\"", "cache = \"1MiB\""),
            "p.toml: settings: 'cache' follows from the claims and workloads",
        ),
        (with("[\"bplru\", \"fab\"]", "[\"bplru\", \"fab\", \"fab\"]"), "p.toml: policies: \"fab\" stands twice"),
        (
            with("stands-for = [\"Random\"]\nfiles", "stands-for = [\"Other\"]\nfiles"),
            "p.toml: workload \"the original\": no claim",
        ),
        (with("16, 20]", "16, 4294967295]"), "p.toml: example S3: writes: pages are below 65536"),
        (with("synthetic = \"WORKLOAD\"", ""), "p.toml: workload \"random\": give either 'synthetic' or 'files'"),
    ];
    for (error, expected) in cases {
        assert!(error.contains(expected), "{error}\nshould contain\n{expected}");
    }
    let unknown = Paper::named("lb-clokc").expect_err("there is none").to_string();
    assert!(unknown.contains("there is no paper 'lb-clokc'") && unknown.contains("lb-clock"), "{unknown}");
}
