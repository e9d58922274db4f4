//! The page of a small paper: its charts, how its claims fare, and what is wrong with figures.

use std::path::{Path, PathBuf};

use destage_reproduce::grade::ClaimGrade;
use destage_reproduce::metric::ClaimMetric;
use destage_reproduce::page::PaperPages;
use destage_reproduce::panel::panels;
use destage_reproduce::paper::{self, PaperFile};
use destage_reproduce::reasons::reasons;
use destage_reproduce::reproduce::{ClaimFinding, reproduce};

const PAPER: &str = r#"
name = "small"
title = "A *small* paper <script>alert(1)</script>"
about = "About."
verdict = "Verdict."
seeds = 2
policies = ["bplru", "fab"]

[settings]
device = "analytic"
page = "2KiB"
ops = "writes"

[[variant]]
name = "small blocks"
settings = { pages-per-block = 16 }

[[workload]]
name = "random & made"
provenance = "synthetic"
stands-for = ["Random"]
synthetic = "random"
set = { length = 20_000, space = "64MiB" }

[[workload]]
name = "the original"
provenance = "original"
stands-for = ["Random"]
files = ["nowhere.spc"]

[[reason]]
id = "sooner"
text = "The **larger** block leaves first."

[[figure]]
where = "Fig. 1"
title = "Evictions against the buffer size"
workload = "Random"
metric = "evictions"
caches = ["1MiB", "4MiB"]
lines = ["bplru", { name = "FAB, small blocks", policy = "fab", at = "small blocks" }]

[[figure]]
where = "Fig. 2"
title = "Relative to BPLRU"
workload = "Random"
metric = "evictions"
along = "workloads"
caches = ["4MiB"]
lines = ["bplru", "fab", { name = "fab, 1 MiB", policy = "fab", cache = "1MiB" }]
relative-to = { policy = "bplru" }

[[figure]]
where = "Fig. 3"
title = "Blocks"
workload = "Random"
metric = "throughput"
along = "variants"
variants = [{ name = "64", at = "" }, { name = "16", at = "small blocks" }]
caches = ["4MiB"]
lines = ["fab"]
relative-to = { policy = "fab", at = "" }

[[figure]]
where = "Fig. 4"
title = "Response times, which this device has not"
workload = "Random"
metric = "response"
along = "policies"
caches = ["1MiB", "4MiB"]
lines = ["bplru", "fab"]

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
new = "bplru"
than = "fab"
caches = ["4MiB"]
claimed = [1, 2]
why = ["sooner"]

[[claim]]
id = "S3"
where = "text"
workload = "Random"
metric = "evictions"
new = "fab"
than = "bplru"
caches = ["1MiB"]
claimed = [5000, 6000]
"#;

fn small() -> PaperFile {
    PaperFile::parse(Path::new("small.toml"), PAPER).expect("a paper")
}

const NOWHERE: [PathBuf; 0] = [];

#[test]
fn charts_show_what_was_run() {
    let paper = small();
    let found = reproduce(&paper, &NOWHERE, &|_, _| {}).expect("it runs");
    let charts: Vec<_> = paper.figure.iter().map(|figure| panels(figure, &found)).collect();
    // Only one of the two workloads is here.
    assert!(charts.iter().all(|panels| panels.len() == 1));

    let value = |at: &str, policy: &str, cache: u64, metric: &str| {
        let runs = found.results[0].of(at, policy, cache);
        assert_eq!(runs.len(), 2, "{at}, {policy}, {cache}: one for each seed");
        runs.iter()
            .map(|run| ClaimMetric::named(metric).expect("a metric").of(run).expect("a value"))
            .collect::<Vec<_>>()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let near = |e: &Option<destage_sim::measure::MeanEstimate>, expected: f64| {
        let e = e.as_ref().expect("a value");
        assert!((e.mean - expected).abs() <= 1e-9 * expected.abs() && e.samples == 2, "{e:?}, not {expected}");
    };

    let panel = &charts[0][0];
    assert_eq!(panel.workload.map(|(name, _)| name), Some("random & made"));
    assert_eq!(panel.steps, ["1 MiB", "4 MiB"]);
    assert_eq!(panel.lines[1].0, "FAB, small blocks");
    for (i, cache) in [1 << 20, 4 << 20].into_iter().enumerate() {
        near(&panel.lines[0].1[i], mean(&value("", "bplru", cache, "evictions")));
        near(&panel.lines[1].1[i], mean(&value("small blocks", "fab", cache, "evictions")));
    }

    // Relative values are compared seed by seed, with the reference at the bar's own size.
    let panel = &charts[1][0];
    assert_eq!(panel.steps, ["random & made"]);
    near(&panel.lines[0].1[0], 1.0);
    for (line, cache) in [(1, 4 << 20), (2, 1 << 20)] {
        let (own, base) = (value("", "fab", cache, "evictions"), value("", "bplru", cache, "evictions"));
        let ratios: Vec<f64> = own.iter().zip(&base).map(|(own, base)| own / base).collect();
        near(&panel.lines[line].1[0], mean(&ratios));
    }

    let panel = &charts[2][0];
    assert_eq!(panel.steps, ["64", "16"]);
    near(&panel.lines[0].1[0], 1.0);
    assert!((panel.lines[0].1[1].expect("a value").mean - 1.0).abs() > 0.01, "blocks of another size change something");

    let panel = &charts[3][0];
    assert_eq!((panel.steps.as_slice(), panel.lines[1].0.as_str()), (&["bplru".into(), "fab".into()][..], "4 MiB"));
    assert!(panel.lines.iter().all(|(_, values)| values == &[None, None]), "there are no response times");
}

#[test]
fn claims_that_fail_have_their_reasons() {
    let paper = small();
    let found = reproduce(&paper, &NOWHERE, &|_, _| {}).expect("it runs");
    let grades: Vec<_> = found.nearest().into_iter().map(ClaimFinding::grade).collect();
    assert_eq!(
        grades,
        [ClaimGrade::Size, ClaimGrade::Not, ClaimGrade::Sign],
        "the original is not here, so the synthetic one counts"
    );
    let reasons = reasons(&found);
    let of = |id: &str, text: &str| (id.to_owned(), text.to_owned());
    assert_eq!(reasons, [of("S2", "The **larger** block leaves first."), of("S3", "No reason is given.")]);
}

#[test]
fn the_page_says_all_of_it_and_only_as_text() {
    let paper = small();
    let found = reproduce(&paper, &NOWHERE, &|_, _| {}).expect("it runs");
    let mut pages = PaperPages::default();
    pages.add(&found);
    let files = pages.clone().files().expect("files");
    let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["index.html", "claims.csv", "claims.parquet", "figures.csv", "figures.parquet"]);
    let page = String::from_utf8(files[0].1.clone()).expect("UTF-8");
    for part in [
        "<td>3</td><td>1</td><td>1</td><td>0</td><td>0</td><td>1</td><td>0</td>",
        "<p class=\"big\">2 of 3</p>",
        "<p class=\"big\">1 of 3</p>",
        "<a href=\"#verdict-small\">what holds</a>, <a href=\"#reasons-small\">why not</a>, <a href=\"#claims-small\">claims</a>, \
         <a href=\"#figures-small\">figures</a>",
        "<td class=\"pair\" data-head=\"claimed\">+1 to +500 %</td><td class=\"pair\" data-head=\"measured\"><strong>",
        "Why 2 of 3 do not hold as claimed",
        "<dt>S2</dt><dd><p>The <strong>larger</strong> block leaves first.</p>",
        "<dt>S3</dt><dd><p>No reason is given.</p>",
        "random &amp; made",
        "A <em>small</em> paper &lt;script&gt;alert(1)&lt;/script&gt;",
        "claimed +1 to +500 %; measured ",
        "data-panel=\"3\"",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part} is missing"));
    let order = ["overview", "contents", "verdict-small", "reasons-small", "claims-small", "figures-small"];
    let places = order.map(|id| at(&format!(" id=\"{id}\"")));
    assert!(places.is_sorted(), "what holds and why comes first: {places:?}");
    assert!(!page.contains("<script>alert"), "text of a paper's file became a script");
    let claims = String::from_utf8(files[1].1.clone()).expect("UTF-8");
    let figures = String::from_utf8(files[3].1.clone()).expect("UTF-8");
    // Three claims on two workloads; two lines at two sizes, three bars, a line at two variants,
    // two bars at two policies.
    assert_eq!((claims.lines().count(), figures.lines().count()), (1 + 6, 1 + 4 + 3 + 2 + 4));
    assert!(figures.contains("small,Fig. 4,mean ms,random & made,fab,4 MiB,,,"), "{figures}");

    let mut again = PaperPages::default();
    again.add(&reproduce(&paper, &NOWHERE, &|_, _| {}).expect("it runs"));
    assert!(again.files().expect("files") == files, "the same bytes every time");
}

#[test]
fn figures_of_what_is_not_there_are_refused() {
    for (from, to, expected) in [
        ("policy = \"fab\", at = \"small blocks\"", "policy = \"lru\"", "figure Fig. 1: there is no policy \"lru\""),
        (
            "policy = \"fab\", at = \"small blocks\"",
            "policy = \"fab\", at = \"x\"",
            "figure Fig. 1: there is no variant \"x\"",
        ),
        (
            "policy = \"fab\", cache = \"1MiB\"",
            "policy = \"fab\", cache = \"1 elephant\"",
            "figure Fig. 2: cache '1 elephant'",
        ),
        (
            "title = \"Blocks\"\nworkload = \"Random\"",
            "title = \"Blocks\"\nworkload = \"R\"",
            "there is no workload that stands for \"R\"",
        ),
        ("lines = [\"fab\"]", "lines = []", "workload, caches and lines name at least one"),
        ("along = \"variants\"", "along = \"workloads\"", "'variants' are for along = \"variants\""),
        ("along = \"policies\"", "along = \"workloads\"", "'caches' is a single one"),
        (
            "caches = [\"1MiB\", \"4MiB\"]\nlines = [\"bplru\", { name",
            "caches = [\"1MiB\"]\nlines = [\"bplru\", { cache = \"1MiB\", name",
            "a line has none of its own",
        ),
        ("why = [\"sooner\"]", "why = [\"later\"]", "claim S2: why: there is no reason \"later\""),
        ("why = [\"sooner\"]", "", "reason \"sooner\": no claim names it"),
    ] {
        assert!(PAPER.contains(from), "{from}");
        let error =
            PaperFile::parse(Path::new("wrong.toml"), &PAPER.replacen(from, to, 1)).expect_err(expected).to_string();
        assert!(error.contains(expected) && error.contains("wrong.toml"), "{error}");
    }
}

#[test]
fn the_papers_that_are_built_in_have_figures_and_reasons() {
    for name in paper::built_in() {
        let paper = PaperFile::named(name).expect("a paper");
        assert!(!paper.figure.is_empty(), "{name}");
        assert_eq!(paper.claim.is_empty(), paper.reason.is_empty(), "{name}");
    }
}
