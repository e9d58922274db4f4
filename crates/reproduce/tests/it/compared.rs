//! Tests what a claim is compared over: sizes, workloads, pairs, seeds, and runs that a device cannot keep up with.

use std::path::PathBuf;
use std::sync::Mutex;

use destage_reproduce::grade::ClaimGrade;
use destage_reproduce::paper::PaperFile;
use destage_reproduce::reproduce::{PaperReproduction, ReproduceOptions, SaturatedCounts, reproduce, reproduce_with};
use destage_reproduce::score::{GradeCounts, counted};
use destage_reproduce::watch::PaperWatch;
use tempfile::TempDir;

use crate::small;

const WORKLOAD: &str = r#"
about = "random pages"
source = "made up"
kind = "synthetic"
length = "8000"

[[part]]
sizes = "8KiB"
space = "64MiB"
arrivals = "poisson:4ms"
"#;

const PAPER: &str = r#"
name = "compared"
title = "A paper with response times"
about = "About."
verdict = "Verdict."
seeds = 2
policies = ["none", "lru", "fab"]
figures = ["response"]

[settings]
device = "ssd"
"ssd.model" = "classic"
start = "full"
page = "4KiB"
max-backlog = "1000"
"ssd.blocks-per-plane" = 128

[[variant]]
name = "slow"
settings = { "ssd.program" = "800us" }

[[variant]]
name = "other lru"
run-as = { lru = "fab" }

[[variant]]
name = "the same"

[[variant]]
name = "overload"
workload = { arrivals = "poisson:1us" }

[[workload]]
name = "random"
provenance = "synthetic"
stands-for = ["A"]
synthetic = "WORKLOAD"

[[workload]]
name = "small requests"
provenance = "synthetic"
stands-for = ["B"]
synthetic = "WORKLOAD"
set = { sizes = "4KiB" }

[[value]]
id = "V"
where = "text"
workload = "B"
policy = "lru"
cache = "1MiB"
metrics = ["response"]
published = [1.0]

CLAIMS
"#;

const NOWHERE: [PathBuf; 0] = [];

/// Returns a paper with claims, each with an id and what differs from this: LRU answers sooner than no buffer does.
fn paper(claims: &[(&str, &str)]) -> (TempDir, Result<PaperFile, String>) {
    let claim = |(id, differs): &(&str, &str)| {
        let mut keys = vec![
            ("where", "\"text\""),
            ("workload", "\"A\""),
            ("metric", "\"response\""),
            ("new", "\"lru\""),
            ("than", "\"none\""),
            ("caches", "[\"1MiB\"]"),
            ("claimed", "[1, 99]"),
        ];
        for line in differs.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (key, value) = line.split_once(" = ").expect("a key and a value");
            keys.retain(|(other, _)| *other != key);
            keys.push((key, value));
        }
        let keys: Vec<_> = keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let keys = keys.join("\n");
        format!("[[claim]]\nid = \"{id}\"\n{keys}\n")
    };
    let folder = tempfile::tempdir().expect("a folder");
    let claims: String = claims.iter().map(claim).collect();
    let paper = small::paper(folder.path(), &PAPER.replace("CLAIMS", &claims), WORKLOAD);
    (folder, paper)
}

fn grade_of(found: &PaperReproduction<'_>, id: &str) -> ClaimGrade {
    found.findings.iter().find(|finding| finding.claim.id == id).expect("the claim").grade()
}

#[test]
fn the_worst_workload_and_pair_decide() {
    let (_folder, paper) = paper(&[
        ("each", "workload = [\"A\", \"B\"]\nnew = [\"lru\", \"none\"]\nthan = [\"none\", \"lru\"]"),
        ("alike", "new = [\"lru\", \"none\"]\nthan = [\"none\", \"lru\"]\nclaimed = [0, 0]"),
        ("mean", "workload = [\"A\", \"B\"]\nover = \"mean\""),
        ("averages", "workload = [\"A\", \"B\"]\nover = \"averages\""),
    ]);
    let paper = paper.expect("a paper");
    let found = reproduce(&paper, &NOWHERE, &|_, _| {}).expect("it runs");
    let of = |id: &str| found.findings.iter().find(|finding| finding.claim.id == id).expect("the claim");
    let each = of("each");
    assert_eq!((each.measured.len(), each.grades.len(), each.grade()), (4, 4, ClaimGrade::Part));
    // In the mean of signed differences they would be nearly alike.
    assert_eq!((of("alike").measured.len(), of("alike").grade().is_in_sign()), (2, false));
    let response = |workload: usize, policy: &str, seed: usize| {
        found.results[workload].of("", policy, 1 << 20)[seed].number("response.all.mean").expect("a mean")
    };
    let by_hand = |of: &dyn Fn(usize) -> f64| f64::midpoint(of(0), of(1));
    let mean = by_hand(&|seed| {
        let saved = |workload| 100.0 * (1.0 - response(workload, "lru", seed) / response(workload, "none", seed));
        f64::midpoint(saved(0), saved(1))
    });
    let averages = by_hand(&|seed| {
        let sum = |policy| response(0, policy, seed) + response(1, policy, seed);
        100.0 * (1.0 - sum("lru") / sum("none"))
    });
    assert!((of("mean").measured[0].1.mean - mean).abs() < 1e-9);
    assert!((of("averages").measured[0].1.mean - averages).abs() < 1e-9);
    assert!((mean - averages).abs() > 1e-9, "they are two things");
}

#[test]
fn who_is_saturated_alone_is_worse() {
    let (_folder, paper) = paper(&[
        ("new", "than = \"lru\"\nat = \"overload\"\nthan-at = \"\""),
        ("than", "than = \"lru\"\nthan-at = \"overload\""),
        ("worse", "than = \"lru\"\nat = \"overload\"\nthan-at = \"\"\nclaimed = [-1, -99]"),
        ("alike", "than = \"lru\"\nthan-at = \"overload\"\nclaimed = [0, 0]"),
        ("sign", "than = \"lru\"\nthan-at = \"overload\"\nsign-only = true"),
        ("mean", "than = \"lru\"\nthan-at = \"overload\"\nover = \"mean\""),
        ("best", "than = \"lru\"\nthan-at = \"overload\"\nover = \"best\""),
        ("both", "at = \"overload\""),
        ("counts", "than = \"lru\"\nat = \"overload\"\nthan-at = \"\"\nmetric = \"erases\""),
    ]);
    let paper = paper.expect("a paper");
    let found = reproduce(&paper, &NOWHERE, &|_, _| {}).expect("it runs");
    for (id, expected) in [
        ("new", ClaimGrade::Not),
        ("than", ClaimGrade::Sign),
        ("worse", ClaimGrade::Sign),
        ("alike", ClaimGrade::Not),
        ("sign", ClaimGrade::Claimed),
        ("mean", ClaimGrade::Sign),
        ("best", ClaimGrade::Sign),
        ("both", ClaimGrade::Untried),
        ("counts", ClaimGrade::Untried),
    ] {
        assert_eq!(grade_of(&found, id), expected, "{id}");
    }
    let of = |id: &str| found.findings.iter().find(|finding| finding.claim.id == id).expect("the claim").saturated;
    assert_eq!(of("new"), SaturatedCounts { new: 1, than: 0, both: 0 });
    assert_eq!(of("both").all(), 1);
}

#[test]
fn a_claim_may_have_more_seeds_than_its_paper() {
    let (_folder, paper) = paper(&[("many", "seeds = 5"), ("few", "new = \"fab\"")]);
    let paper = paper.expect("a paper");
    let found = reproduce(&paper, &NOWHERE, &|_, _| {}).expect("it runs");
    let samples = found.findings.iter().map(|finding| finding.measured[0].1.samples);
    assert_eq!(samples.collect::<Vec<_>>(), [5, 2]);
    let runs = |policy: &str| found.results[0].of("", policy, 1 << 20).len();
    assert_eq!((runs("lru"), runs("none"), runs("fab")), (5, 5, 2));
}

#[test]
fn a_claim_may_be_about_two_workloads() {
    let (_folder, paper) =
        paper(&[("two", "than-workload = \"B\"\nthan = \"lru\"\nclaimed = [-1, -1]\nsign-only = true")]);
    let paper = paper.expect("a paper");
    let found = reproduce(&paper, &NOWHERE, &|_, _| {}).expect("it runs");
    let finding = &found.findings[0];
    // Requests of 8 KiB take longer than such of 4.
    assert_eq!((finding.on.len(), finding.measured.len(), finding.grade()), (2, 1, ClaimGrade::Claimed));
    let mean = |workload: usize, seed: usize| {
        found.results[workload].of("", "lru", 1 << 20)[seed].number("response.all.mean").expect("a mean")
    };
    let by_hand = (0..2).map(|seed| 50.0 * (1.0 - mean(0, seed) / mean(1, seed))).sum::<f64>();
    assert!((finding.measured[0].1.mean - by_hand).abs() < 1e-9);
    let error = self::paper(&[("two", "than-workload = \"Mars\"")]).1.expect_err("there is none");
    assert!(error.contains("no workload stands for \"Mars\""), "{error}");
}

/// Counts runs.
#[derive(Default)]
struct CountedRuns(Mutex<u64>);

impl PaperWatch for CountedRuns {
    fn planned(&self, _: usize, weight: u64, _: &[&str]) {
        *self.0.lock().expect("nobody panics") = weight;
    }
}

#[test]
fn what_another_variant_runs_already_is_not_run_again() {
    let (_folder, paper) = paper(&[("C", "also-at = [\"other lru\", \"slow\", \"the same\"]")]);
    let paper = paper.expect("a paper");
    let runs = CountedRuns::default();
    let options = ReproduceOptions { folders: &NOWHERE, found: None, quick: false, kept: None, on: None, watch: &runs };
    let found = reproduce_with(&paper, options).expect("it runs");
    // Three policies for the figures on two workloads, and two where programming is slow; two seeds.
    assert_eq!(*runs.0.lock().expect("nobody panics"), 2 * (2 * 3 + 2));
    let response = |variant: &str, policy: &str| {
        let runs = found.results[0].of(variant, policy, 1 << 20).iter();
        runs.map(|run| run.number("response.all.mean").expect("a mean")).collect::<Vec<_>>()
    };
    assert_eq!(response("other lru", "none"), response("", "none"));
    assert_eq!(response("other lru", "lru"), response("", "fab"), "another runs in its place");
    assert_eq!(response("the same", "lru"), response("", "lru"));
    assert_ne!(response("slow", "lru"), response("", "lru"));
    assert_eq!(found.also[0].iter().map(|also| also.measured.len()).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn parts_of_one_sentence_count_once() {
    let (_folder, paper) = paper(&[
        ("P1", "part-of = \"P\"\nthan = \"lru\"\nthan-at = \"slow\""),
        ("other", ""),
        ("P2", "part-of = \"P\"\nthan = \"lru\"\nat = \"slow\"\nthan-at = \"\""),
        ("reading", "reading-of = \"other\"\nnew = \"none\"\nthan = \"lru\""),
    ]);
    let paper = paper.expect("a paper");
    let found = reproduce(&paper, &NOWHERE, &|_, _| {}).expect("it runs");
    let nearest = found.nearest();
    let counted = counted(&nearest);
    assert_eq!(counted.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ["P", "other"]);
    assert_eq!(counted[0].1, ClaimGrade::Part, "one part holds and the other does not");
    assert_eq!(GradeCounts::of_claims(&nearest).all(), 2);
}

#[test]
fn what_cannot_be_claimed_is_refused() {
    for (differs, part) in [
        ("claimed = [0, 0]\nover = \"mean\"", "leave 'over' out"),
        ("at-most = 5", "at-most is for bounds"),
        ("claimed = [0, 0]\nat-most = 5\nalike = 3", "at-most is for bounds"),
        ("seeds = 1", "seeds: between the paper's 2 and 1000"),
        ("part-of = \"other\"", "part-of names what no claim is called"),
        ("reading-of = \"other\"\npart-of = \"P\"", "not for other readings"),
    ] {
        let error = paper(&[("other", ""), ("C", differs)]).1.expect_err("it is wrong");
        assert!(error.contains("claim C") && error.contains(part), "{error}\nshould contain\n{part}");
    }
}
