//! Tests that published counts of other implementations stand beside the measured figures.

use std::path::Path;

use destage_reproduce::page::PaperPages;
use destage_reproduce::paper::PaperFile;
use destage_reproduce::report;
use destage_reproduce::reproduce::reproduce;

const PAPER: &str = r#"
name = "counted"
title = "Beside others"
about = "About."
verdict = "Verdict."
seeds = 2
caches = ["64KiB", "1MiB"]
policies = ["none", "write-back"]
figures = ["cache-writes-per-page", "member-requests", "read-hit-ratio"]

[settings]
array = "raid5:3"
device = "fixed"
cache-device = "fixed"
member-size = "16MiB"
host = "closed:1"

[[variant]]
name = "paid"
settings = { drain = true }
policies = ["write-back"]

[[workload]]
name = "pages"
provenance = "synthetic"
stands-for = ["Pages"]
synthetic = "fio-zipf"
set = { length = "500", space = "8MiB" }

[[counted]]
name = "somebody's cache"
workload = "Pages"
cache = "1MiB"
figures = { cache-writes-per-page = "1.20", read-hit-ratio = "64" }

[[counted]]
name = "somebody's cache"
workload = "Pages"
at = "paid"
cache = "1MiB"
figures = { member-requests = "0" }
"#;

#[test]
fn others_stand_below_ours_of_the_same_workload_variant_and_size() {
    let paper = PaperFile::parse(Path::new("counted.toml"), PAPER).expect("a paper");
    let found = reproduce(&paper, &[], &|_, _| {}).expect("it runs");
    let markdown = report::markdown(&found);
    let (own, paid) = markdown.split_once("*paid*").expect("a variant");
    assert!(own.contains("| buffer | policy | cache writes/page | member requests/request | read hits % |"), "{own}");
    let names = |text: &str| -> Vec<String> {
        let rows = text.lines().filter(|line| line.contains(" KiB |") || line.contains(" MiB |"));
        rows.map(|row| row.split('|').skip(1).take(2).map(str::trim).collect::<Vec<_>>().join(" ")).collect()
    };
    let expected = ["64 KiB none", "64 KiB write-back", "1 MiB none", "1 MiB write-back", "1 MiB somebody's cache"];
    assert_eq!(names(own), expected);
    assert_eq!(names(paid), ["64 KiB write-back", "1 MiB write-back", "1 MiB somebody's cache"]);
    // As they were noted, and only what was.
    assert!(own.contains("| 1 MiB | somebody's cache | 1.20 | \u{2013} | 64 |"), "{own}");
    assert!(paid.contains("| 1 MiB | somebody's cache | \u{2013} | 0 | \u{2013} |"), "{paid}");
    let mut pages = PaperPages::default();
    pages.add(&found);
    let (_, page) = &pages.files().expect("a page")[0];
    let page = String::from_utf8_lossy(page);
    for part in ["Beside what others were counted to do", "<h4>pages</h4>", "<h4>pages, paid</h4>", "<td>1.20</td>"] {
        assert!(page.contains(part), "{part} is missing");
    }
}

/// Requests to members, by hand: of a page alone in its row of two the old data and parity, or the rest of the row, is read,
/// and both are written.
#[test]
fn requests_are_counted_as_members_see_them() {
    let paper = PaperFile::parse(Path::new("counted.toml"), PAPER).expect("a paper");
    let found = reproduce(&paper, &[], &|_, _| {}).expect("it runs");
    let of = |variant: &str, policy: &str, name: &str| {
        let metric = destage_reproduce::metric::ClaimMetric::named(name).expect("a metric");
        metric.of(&found.results[0].of(variant, policy, 1 << 20)[0]).unwrap_or_else(|| panic!("{name} of {policy}"))
    };
    for (name, expected) in [("member-reads", 1.0), ("member-writes", 2.0), ("member-requests", 3.0)] {
        let found = of("", "none", name);
        assert!((found - expected).abs() < 1e-9, "{name}: {found}");
    }
    // A page that is written again while it is dirty is written back once.
    let (owing, paid) = (of("", "write-back", "member-requests"), of("paid", "write-back", "member-requests"));
    assert!(owing < paid && paid < 3.0, "{owing}, {paid}");
    assert!(of("paid", "write-back", "member-writes") < 2.0);
}

#[test]
fn what_is_counted_of_nothing_that_is_shown_is_refused() {
    for (from, to, expected) in [
        ("workload = \"Pages\"\nat", "workload = \"Others\"\nat", "no workload stands for \"Others\""),
        ("at = \"paid\"", "at = \"owed\"", "there is no variant \"owed\""),
        ("member-requests = \"0\"", "member-writes = \"0\"", "\"member-writes\" is not among the figures"),
        ("\"1.20\"", "\"about 1\"", "cache-writes-per-page = \"about 1\" is not a number"),
        ("cache = \"1MiB\"", "cache = \"a lot\"", "cache 'a lot'"),
    ] {
        assert!(PAPER.contains(from), "{from}");
        let error =
            PaperFile::parse(Path::new("counted.toml"), &PAPER.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains("counted \"somebody's cache\"") && error.contains(expected), "{error}");
    }
}
