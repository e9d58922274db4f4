//! A small paper, from its file to its report.

use std::path::{Path, PathBuf};

use destage_reproduce::grade::ClaimGrade;
use destage_reproduce::metric::ClaimMetric;
use destage_reproduce::paper::{self, PaperFile};
use destage_reproduce::placeholders;
use destage_reproduce::report;
use destage_reproduce::reproduce::reproduce;

use crate::small;

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
requests = "W4 W5 W8 W9 W12 W4 W16 W20"
buffer = { capacity = 6, pages-per-block = 4, evicts = [8, 9] }
"#;

/// The paper with its workload in a folder of its own.
fn small() -> (tempfile::TempDir, PaperFile) {
    let folder = tempfile::tempdir().expect("a folder");
    let paper = small::paper(folder.path(), PAPER, WORKLOAD).expect("a paper");
    (folder, paper)
}

#[test]
fn claims_hold_or_do_not() {
    let (_folder, paper) = small();
    let nowhere: [PathBuf; 0] = [];
    let found = reproduce(&paper, &nowhere, &|_, _| {}).expect("it runs");
    let holds: Vec<_> =
        found.findings.iter().map(|f| (f.claim.id.as_str(), f.on[0].name.as_str(), f.grade())).collect();
    assert_eq!(
        holds,
        [
            ("S1", "random", ClaimGrade::Size),
            ("S1", "the original", ClaimGrade::Untried),
            ("S2", "random", ClaimGrade::Not),
            ("S2", "the original", ClaimGrade::Untried),
        ]
    );
    let samples: Vec<_> = found.findings[0].measured.iter().map(|(cache, e)| (*cache, e.samples)).collect();
    assert_eq!(samples, [(4 << 20, 3), (16 << 20, 3)]);
    let example = &found.examples[0];
    assert_eq!((example.holds(), example.found()), (true, "evicts [8, 9]".to_owned()));
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
    paper.claim[0].metric = ClaimMetric::named("throughput").expect("a metric");
    let error = reproduce(&paper, &[], &|_, _| {}).expect_err("there is none").to_string();
    assert!(error.contains("claim S1, workload random: the results have no throughput"), "{error}");
}

#[test]
fn sizes_without_evictions_are_no_evidence() {
    let (_folder, mut paper) = small();
    paper.claim[0].caches = vec!["4MiB".into(), "256MiB".into()];
    paper.claim[1].caches = vec!["256MiB".into()];
    let found = reproduce(&paper, &[], &|_, _| {}).expect("it runs");
    // One of two sizes is missing: it holds in part.
    assert_eq!((found.findings[0].grade(), found.findings[0].without_evictions), (ClaimGrade::Part, 1));
    assert_eq!(found.findings[0].grades, [ClaimGrade::Size]);
    assert_eq!(found.findings[2].grade(), ClaimGrade::Untried);
}

/// Over a small SSD, with everything that a claim can say.
const TIMED: &str = r#"
name = "timed"
title = "A paper with response times"
about = "About."
verdict = "Verdict."
seeds = 3
policies = ["none", "lru", "fab"]
figures = ["response", "p999", "hit-ratio", "gc-runs", "erases", "cv-writes"]

[settings]
device = "ssd"
"ssd.model" = "classic"
start = "full"
page = "4KiB"
"ssd.blocks-per-plane" = 128

[[variant]]
name = "slow"
settings = { "ssd.program" = "800us" }

[[variant]]
name = "large"
workload = { sizes = "64KiB" }

[[workload]]
name = "random"
provenance = "synthetic"
stands-for = ["A", "B"]
synthetic = "WORKLOAD"

[[workload]]
name = "once more"
provenance = "synthetic"
stands-for = ["C"]
synthetic = "WORKLOAD"

[[workload]]
name = "the original of C"
provenance = "original"
stands-for = ["C"]
files = ["nowhere.spc"]

[[value]]
id = "T0"
where = "Table 1"
workload = "A"
policy = "lru"
cache = "1MiB"
metrics = ["response", "cv-erases"]
published = [0.25, 0.01]

CLAIMS
"#;

fn timed(claims: &str) -> (tempfile::TempDir, Result<PaperFile, String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let workload = WORKLOAD.replace("2KiB", "8KiB").replace("[[part]]", "[[part]]\narrivals = \"poisson:4ms\"");
    let workload = workload.replace("60000", "20000");
    let paper = small::paper(folder.path(), &TIMED.replace("CLAIMS", claims), &workload);
    (folder, paper)
}

/// A claim over 1 and 2 MiB.
fn claim(id: &str, workload: &str, metric: &str, new: &str, than: &str, claimed: &str, more: &str) -> String {
    format!(
        "[[claim]]\nid = \"{id}\"\nwhere = \"text\"\nworkload = {workload}\nmetric = \"{metric}\"\nnew = {new}\n\
         than = {than}\ncaches = [\"1MiB\", \"2MiB\"]\nclaimed = {claimed}\n{more}\n"
    )
}

#[test]
fn claims_about_means_variants_growth_and_sizes() {
    let lru = r#""lru""#;
    let both = r#"["lru", "fab"]"#;
    let claims = [
        claim("mean", r#"["A", "C"]"#, "response", both, r#"["none", "none"]"#, "[1, 99]", "over = \"mean\""),
        claim("best", r#""A""#, "response", lru, r#""none""#, "[1, 99]", "over = \"best\""),
        claim("slow", r#""A""#, "response", lru, lru, "[-1, -900]", "at = \"slow\"\nthan-at = \"\"\nsign-only = true"),
        claim("growth", r#""A""#, "response", lru, lru, "[0, 0]", "at = \"slow\"\nrelative-to = \"slow\""),
        claim("large", r#""A""#, "response", lru, lru, "[-1, -900]", "at = \"large\"\nthan-at = \"\""),
        claim("same", r#""A""#, "hit-ratio", lru, lru, "[0, 0]", "than-caches = [\"1MiB\", \"2MiB\"]"),
        claim("larger", r#""A""#, "hit-ratio", lru, lru, "[0, 9]", "than-caches = [\"512KiB\", \"1MiB\"]"),
    ];
    let (_folder, paper) = timed(&claims.join("\n"));
    let paper = paper.expect("a paper");
    let found = reproduce(&paper, &[], &|_, _| {}).expect("it runs");
    let of = |id: &str| found.findings.iter().filter(|f| f.claim.id == id).collect::<Vec<_>>();
    let mean = of("mean");
    // Of originals there is only one of the two: no mean over them.
    assert_eq!(mean.len(), 1);
    assert_eq!((mean[0].on.len(), mean[0].measured.len()), (2, 1));
    // The mean of one pair on one workload at one size lies between the others', and the best is
    // the best of them.
    let value = |policy: &str, cache: u64, results: usize| {
        let all = found.results[results].of("", policy, cache).iter();
        all.map(|r| r.number("response.all.mean").unwrap()).collect::<Vec<_>>()
    };
    let mut by_hand = Vec::new();
    for seed in 0..3 {
        let mut sum = 0.0;
        for results in [0, 1] {
            for policy in ["lru", "fab"] {
                for cache in [1 << 20, 2 << 20] {
                    let none = value("none", cache, results)[seed];
                    sum += (none - value(policy, cache, results)[seed]) / none * 100.0;
                }
            }
        }
        by_hand.push(sum / 8.0);
    }
    assert!((mean[0].measured[0].1.mean - by_hand.iter().sum::<f64>() / 3.0).abs() < 1e-9, "{by_hand:?}");
    let best = of("best");
    assert_eq!(best[0].measured.len(), 1);
    for id in ["slow", "growth", "large", "same", "larger"] {
        assert!(
            matches!(
                of(id)[0].grade(),
                ClaimGrade::Size | ClaimGrade::Double | ClaimGrade::Alike | ClaimGrade::Claimed
            ),
            "{id}: {:?}",
            of(id)[0]
        );
    }
    assert_eq!(of("slow")[0].grade(), ClaimGrade::Claimed, "a claim about the sign alone has no size");
    let markdown = report::markdown(&found);
    for part in [
        "| mean | lru, fab: lower mean response than none, none, mean over 1MiB\u{2013}2MiB | +1 to +99 % |",
        "| the paper's synthetic workload, 2 workloads |",
        "| slow | lru (slow): lower mean response than lru, 1MiB\u{2013}2MiB | worse |",
        "each relative to slow",
        "1MiB\u{2013}2MiB against 512KiB\u{2013}1MiB",
        "points |",
        "### Figures that the paper prints",
        "| T0 | Table 1 | random | lru, 1MiB | mean ms | 0.25 | ",
        "| published | measured | holds |",
        "| buffer | policy | mean ms | p99.9 ms | hits % | collections | erases | CV writes |",
        "*slow*",
        "*large*",
    ] {
        assert!(markdown.contains(part), "{part} is missing:\n{markdown}");
    }
}

/// A claim that is tried under further variants, workloads of other lengths and settings, and a
/// policy in another's place.
#[test]
fn claims_tried_under_other_assumptions() {
    let text = claim(
        "tried",
        r#"["A", "C"]"#,
        "response",
        r#""lru""#,
        r#""none""#,
        "[1, 99]",
        "also-caches = [\"2MiB\"]\nalso-at = [\"slow\", \"as fab\"]",
    );
    let more = "[[variant]]\nname = \"as fab\"\nrun-as = { lru = \"fab:protect_current=true\" }\n\n";
    let (_folder, paper) = timed(&format!("{more}{text}"));
    let mut paper = paper.expect("a paper");
    let number = |value: i64| toml::Value::Integer(value);
    paper.workload[1].set.insert("length".into(), number(7_000));
    paper.workload[1].settings.insert("ssd.blocks-per-plane".into(), number(256));
    let found = reproduce(&paper, &[], &|_, _| {}).expect("it runs");
    // The sizes of the claim under its own variant, fewer under the others.
    let sizes =
        |of: &destage_reproduce::reproduce::ClaimFinding| of.measured.iter().map(|(c, _)| *c).collect::<Vec<_>>();
    assert_eq!(sizes(&found.findings[0]), [1 << 20, 1 << 20, 2 << 20, 2 << 20], "on two workloads");
    let also = &found.also[0];
    assert_eq!(
        also.iter().map(|f| (f.at, sizes(f))).collect::<Vec<_>>(),
        [("slow", vec![2 << 20, 2 << 20]), ("as fab", vec![2 << 20, 2 << 20])]
    );
    let (a, c) = (&found.results[0], &found.results[1]);
    assert_eq!(a.under("as fab"), (vec!["lru", "none"], vec![2 << 20]));
    let run = |results: &destage_reproduce::reproduce::WorkloadResults, variant: &str| {
        results
            .of(variant, "lru", 2 << 20)
            .iter()
            .map(|r| (r.text("policy").to_owned(), r.number("requests")))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(a, "as fab"), vec![("fab".to_owned(), Some(2e4)); 3]);
    assert_eq!((run(a, ""), run(c, "slow")), (vec![("lru".into(), Some(2e4)); 3], vec![("lru".into(), Some(7e3)); 3]));
    let blocks = |results: &destage_reproduce::reproduce::WorkloadResults| {
        results.of("", "lru", 2 << 20)[0].number("ssd.host_pages")
    };
    assert!(blocks(c) > blocks(a), "the workload has settings of its own");
    let markdown = report::markdown(&found);
    for part in ["### The same under other assumptions", "| claim | workload | claimed | as above | slow | as fab |"] {
        assert!(markdown.contains(part), "{part} is missing:\n{markdown}");
    }
}

#[test]
fn what_a_claim_cannot_say() {
    let error = |claims: &str| timed(claims).1.expect_err("it is wrong");
    let with =
        |workload: &str, new: &str, more: &str| claim("X", workload, "response", new, r#""lru""#, "[1, 2]", more);
    for (claims, part) in [
        (with(r#"["A", "C"]"#, r#""lru""#, "at = \"fast\""), "claim X: there is no variant \"fast\""),
        (with(r#"["A", "C"]"#, r#""lru""#, "relative-to = \"fast\""), "there is no variant \"fast\""),
        (with(r#"["A", "C", "D"]"#, r#""lru""#, ""), "no workload stands for \"D\""),
        (with(r#"["A", "C"]"#, r#"["lru", "fab"]"#, ""), "than names as many policies as new"),
        (with(r#"["A", "C"]"#, r#""lru""#, "than-caches = [\"1MiB\"]"), "than-caches has as many sizes as caches"),
        (with(r#"["A", "C"]"#, r#""arc""#, ""), "\"arc\" is not among the policies"),
        (with(r#"["A", "C"]"#, r#""lru""#, "also-at = [\"fast\"]"), "there is no variant \"fast\""),
        (
            with(r#"["A", "C"]"#, r#""lru""#, "also-at = [\"slow\", \"slow\"]"),
            "also-at names variants other than 'at', each once",
        ),
        (
            with(r#"["A", "C"]"#, r#""lru""#, "at = \"slow\"\nalso-at = [\"slow\"]"),
            "also-at names variants other than 'at'",
        ),
        (
            with(r#"["A", "C"]"#, r#""lru""#, "than-at = \"slow\"\nalso-at = [\"large\"]"),
            "goes with neither than-at nor",
        ),
        (
            with(r#"["A", "C"]"#, r#""lru""#, "also-caches = [\"1MiB\"]"),
            "also-caches are some of the sizes for also-at",
        ),
        (
            with(r#"["A", "C"]"#, r#""lru""#, "also-at = [\"slow\"]\nalso-caches = [\"4MiB\"]"),
            "also-caches: 4MiB is not among the caches",
        ),
        (
            with(r#"["A", "C"]"#, r#""lru""#, "alike = 8.19"),
            "claim X: alike is for claims of likeness, claimed = [0, 0], and is more than 0",
        ),
        (
            with(r#"["A", "C"]"#, r#""lru""#, "reading-of = \"Y\""),
            "reading-of names a claim that is no other reading itself",
        ),
        (
            with(r#"["A", "C"]"#, r#""lru""#, "reading-of = \"X\""),
            "reading-of names a claim that is no other reading itself",
        ),
    ] {
        let found = error(&claims);
        assert!(found.contains(part), "{found}\nshould contain\n{part}");
    }
}

/// Over an array, without a cache and with one.
const OF_ARRAY: &str = r#"
name = "array"
title = "A paper about an array"
about = "About."
verdict = "Verdict."
seeds = 2
caches = ["64KiB", "1MiB"]
policies = ["none", "wow:groups=4"]
figures = ["response", "held-up", "array-writes", "array-reads", "array-amplification", "array-erases"]

[settings]
array = "raid5:3"
device = "ssd"
"ssd.model" = "classic"
start = "empty"
"ssd.blocks-per-plane" = 128
"ssd.summary-page" = false

[[workload]]
name = "pages"
provenance = "synthetic"
stands-for = ["Pages"]
synthetic = "WORKLOAD"
"#;

#[test]
fn what_has_no_cache_stands_beside_every_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let workload = WORKLOAD.replace("2KiB", "4KiB").replace("[[part]]", "[[part]]\narrivals = \"poisson:4ms\"");
    let paper = small::paper(folder.path(), OF_ARRAY, &workload.replace("60000", "2000")).expect("a paper");
    let found = reproduce(&paper, &[], &|_, _| {}).expect("it runs");
    let of = |policy, cache| found.results[0].of("", policy, cache);
    let [small, large] = [64 << 10, 1 << 20];
    assert_eq!((of("none", small).len(), of("none", small)), (2, of("none", large)));
    assert_ne!(of("wow:groups=4", small), of("wow:groups=4", large));
    // A page of a row of two: its data and the parity are written; the other page is read. Nothing is
    // collected yet.
    for (metric, expected) in [
        ("held-up", 0.0),
        ("array-writes", 2.0),
        ("array-reads", 1.0),
        ("array-amplification", 1.0),
        ("array-erases", 0.0),
    ] {
        let metric = ClaimMetric::named(metric).expect("a metric");
        let values: Vec<_> = of("none", small).iter().map(|run| metric.of(run)).collect();
        assert_eq!(values, [Some(expected); 2], "{metric}");
    }
}

#[test]
fn built_in_papers_can_be_read() {
    for name in paper::built_in() {
        let paper = PaperFile::named(name).expect(name);
        assert_eq!(paper.name, name);
        placeholders::check(&paper).expect(name);
        // Of whole traces of millions of requests two seeds hardly differ; of what is shorter there are more.
        let least = if name == "kdd" { 2 } else { 3 };
        assert!(paper.seeds >= least, "{name}: an interval over fewer says nothing");
    }
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let error = |text: &str| PaperFile::parse(Path::new("p.toml"), text).expect_err("it is wrong").to_string();
    let with = |from: &str, to: &str| error(&PAPER.replacen(from, to, 1));
    let cases = [
        (error("name = 1\n"), "p.toml, line 1: invalid type: integer `1`, expected a string"),
        (with("seeds = 3", "seeds = 1"), "p.toml: seeds = 1: between 2 and 1000"),
        (with("seeds = 3", "seed = 3"), "p.toml, line 6: unknown field `seed`, expected one of"),
        (
            with("metric = \"evictions\"", "metric = \"misses\""),
            "there is no metric \"misses\"; use evictions, throughput, response",
        ),
        (with("workload = \"Random\"", "workload = \"Other\""), "p.toml: claim S1: no workload stands for \"Other\""),
        (with("new = \"fab\"", "new = \"lru\""), "p.toml: claim S1: \"lru\" is not among the policies"),
        (with("\"16MiB\"", "\"16 apples\""), "p.toml: claim S1: caches: '16 apples'"),
        (with("[1, 500]", "[500, 1]"), "p.toml: claim S1: claimed is [least, greatest], both of one sign"),
        (
            with("page = \"2KiB\"", "cache = \"1MiB\""),
            "p.toml: settings: 'cache' follows from the claims and workloads",
        ),
        (with("[\"bplru\", \"fab\"]", "[\"bplru\", \"fab\", \"fab\"]"), "p.toml: policies: \"fab\" is given twice"),
        (
            with("stands-for = [\"Random\"]\nfiles", "stands-for = [\"Other\"]\nfiles"),
            "p.toml: workload \"the original\": neither a claim nor a figure",
        ),
        (
            with("W16 W20", "W16 W4294967295"),
            "p.toml: example S3: requests: 'W4294967295' is no request: expected R or W and a page, or several as in W0-3, below 65536",
        ),
        (with("W16 W20", "W16 W20-19"), "'W20-19' is no request"),
        (with("W16 W20", "W16 X20"), "'X20' is no request"),
        (with("W4 W5 W8 W9 W12 W4 W16 W20", ""), "example S3: requests: there is none"),
        (with("capacity = 6", "capacity = 0"), "example S3: capacity and pages-per-block: expected 1 to 65536"),
        (with("capacity = 6", "capacity = 6, elements = 65"), "example S3: elements: expected 1 to 64"),
        (
            with("buffer = { capacity = 6, pages-per-block = 4, evicts = [8, 9] }", ""),
            "example S3: expected either 'buffer' or 'array'",
        ),
        (
            with("synthetic = \"WORKLOAD\"", ""),
            "p.toml: workload \"random\": give either 'synthetic' or 'files' or 'trace'",
        ),
    ];
    for (error, expected) in cases {
        assert!(error.contains(expected), "{error}\nshould contain\n{expected}");
    }
    let unknown = PaperFile::named("lb-clokc").expect_err("there is none").to_string();
    assert!(unknown.contains("there is no paper 'lb-clokc'") && unknown.contains("lb-clock"), "{unknown}");
}
