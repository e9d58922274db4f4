//! `destage reproduce` from outside: a small paper over a trace that `destage` makes itself.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::binary;
use crate::html;

/// Names the files of every report.
const FILES: [&str; 5] = ["claims.csv", "claims.parquet", "figures.csv", "figures.parquet", "index.html"];

const PAPER: &str = r#"
name = "small"
title = "A small paper"
about = "About."
verdict = "Verdict."
seeds = 2
policies = ["bplru", "lb-clock"]

[settings]
device = "analytic"
page = "4KiB"

[[workload]]
name = "made up"
provenance = "original"
stands-for = ["Trace"]
files = ["missing.spc", "made-up.destage"]

[[claim]]
id = "S1"
where = "text"
workload = "Trace"
metric = "throughput"
new = "lb-clock"
than = "bplru"
caches = ["1MiB", "4MiB"]
claimed = [1, 9]
why = ["made-up"]

[[reason]]
id = "made-up"
text = "Nobody claims it."

[[figure]]
where = "Fig. 1"
title = "Evictions"
workload = "Trace"
metric = "evictions"
caches = ["1MiB", "4MiB"]
lines = ["bplru", "lb-clock"]
"#;

fn destage(folder: &Path, args: &[&str]) -> Output {
    binary::command(args).current_dir(folder).output().expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

#[test]
fn a_paper_of_ones_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    fs::write(here.join("small.toml"), PAPER).expect("a file");

    // Without the trace the claim is listed as not run.
    let table = stdout(&destage(here, &["reproduce", "small.toml"]));
    assert!(table.contains("not run: no such trace here"), "{table}");

    fs::create_dir(here.join("originals")).expect("a folder");
    let made = destage(
        here,
        &[
            "trace",
            "synth",
            "originals/made-up.destage",
            "--length=20000",
            "--footprint=hot-cold:20,80",
            "--space=64MiB",
        ],
    );
    stdout(&made);
    let call = ["reproduce", "small.toml", "--traces", "originals", "--markdown=report.md", "--summary", "summary.md"];
    let table = stdout(&destage(here, &call));
    let row = table.lines().find(|line| line.starts_with("S1")).expect("a row");
    assert!(row.contains("more throughput than bplru, 1MiB\u{2013}4MiB") && row.contains("+1 to +9 %"), "{row}");
    assert!(!row.contains("not run"), "{row}");
    let report = fs::read_to_string(here.join("report.md")).expect("a report");
    assert!(report.contains("### Claims") && report.contains("| the paper's own trace | 1 |"), "{report}");

    // A page with the score, and why it is what it is.
    let summary = fs::read_to_string(here.join("summary.md")).expect("a summary");
    assert!(summary.lines().any(|line| line.starts_with("| small | 1 |")), "{summary}");
    let is_whole = summary.contains("* **in size**: S1");
    assert_eq!(summary.contains("Nobody claims it."), !is_whole, "{summary}");
    for part in ["claims (", "Verdict.", "A small paper"] {
        assert!(summary.contains(part), "{part} is missing:\n{summary}");
    }
    assert!(summary.lines().count() < 30, "{summary}");

    // The same bytes with any number of threads, and on the standard output.
    let again =
        stdout(&destage(here, &["reproduce", "small.toml", "--traces", "originals", "--markdown", "--threads", "1"]));
    assert_eq!(again, report);
}

/// Caches of the host over an array, at another level in a variant, and told to wait for nothing in another.
#[test]
fn a_paper_about_an_array() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let about_buffers = r#"policies = ["bplru", "lb-clock"]

[settings]
device = "analytic"
page = "4KiB"
"#;
    let about_arrays = r#"policies = ["wow", "sync+iwc"]

[settings]
array = "raid0:4"
chunk = "16KiB"
device = "fixed"
member-size = "64MiB"

[[variant]]
name = "RAID-5"
settings = { array = "raid5:5" }

[[variant]]
name = "RAID-5, at once"
settings = { array = "raid5:5" }
run-as = { "sync+iwc" = "sync+iwc:timeout=0" }
"#;
    let paper = PAPER
        .replace(about_buffers, about_arrays)
        .replace("files = [\"missing.spc\", \"made-up.destage\"]", "synthetic = \"random\"\nset = { length = 2_000 }")
        .replace(
            "metric = \"throughput\"",
            "metric = \"write-response\"\nat = \"RAID-5\"\nalso-at = [\"RAID-5, at once\"]",
        )
        .replace("metric = \"evictions\"", "metric = \"deviation\"")
        .replace("new = \"lb-clock\"", "new = \"sync+iwc\"")
        .replace("than = \"bplru\"", "than = \"wow\"")
        .replace("[\"bplru\", \"lb-clock\"]", "[\"wow\", \"sync+iwc\"]")
        .replace("[\"1MiB\", \"4MiB\"]", "[\"256KiB\", \"1MiB\"]");
    fs::write(here.join("small.toml"), paper).expect("a file");
    let table = stdout(&destage(here, &["reproduce", "small.toml", "--markdown=report.md"]));
    let row = table.lines().find(|line| line.starts_with("S1")).expect("a row");
    assert!(row.contains("sync+iwc (RAID-5): lower mean response of writes than wow (RAID-5)"), "{row}");
    assert!(!row.contains("not run"), "{row}");
    let report = fs::read_to_string(here.join("report.md")).expect("a report");
    assert!(report.contains("RAID-5, at once"), "{report}");
}

#[test]
fn a_page_of_ones_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let synthetic = PAPER
        .replace("files = [\"missing.spc\", \"made-up.destage\"]", "synthetic = \"random\"\nset = { length = 20_000 }");
    fs::write(here.join("small.toml"), synthetic).expect("a file");
    let written = |out: &str, threads: &str| {
        stdout(&destage(here, &["reproduce", "small.toml", "--report", out, "--threads", threads]));
        let entries = fs::read_dir(here.join(out)).expect("a folder");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        assert_eq!(names, FILES);
        names.iter().map(|name| fs::read(here.join(out).join(name)).expect("a file")).collect::<Vec<_>>()
    };
    let (once, again) = (written("out", "1"), written("again", "2"));
    assert!(once == again, "the same bytes with any number of threads");
    let page = fs::read_to_string(here.join("out/index.html")).expect("a page");
    html::inert(&page);
    let html = scraper::Html::parse_document(&page);
    assert_eq!((html::all(&html, "figure[data-panel]").len(), html::all(&html, "table.claims tbody tr").len()), (1, 1));
    let figures = String::from_utf8(once[2].clone()).expect("UTF-8");
    assert_eq!(figures.lines().count(), 1 + 4, "{figures}");
}

/// Resumes an interrupted reproduction with the same bytes: a part of the kept results is taken away, and one entry
/// damaged.
#[test]
fn what_was_interrupted_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let synthetic = PAPER
        .replace("files = [\"missing.spc\", \"made-up.destage\"]", "synthetic = \"random\"\nset = { length = 20_000 }");
    fs::write(here.join("small.toml"), synthetic).expect("a file");
    let markdown = |more: &[&str]| destage(here, &[&["reproduce", "small.toml", "--markdown"], more].concat());
    let at_once = stdout(&markdown(&[]));
    let quiet = |output: &Output| output.stderr.is_empty();
    for _ in 0..2 {
        let resumed = markdown(&["--resume", "kept"]);
        assert!(quiet(&resumed) && stdout(&resumed) == at_once, "{resumed:?}");
    }
    let mut entries: Vec<_> =
        fs::read_dir(here.join("kept")).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    assert_eq!(entries.len(), 2, "one for each seed");
    fs::remove_file(&entries[0]).expect("an entry");
    assert!(quiet(&markdown(&["--resume", "kept"])));
    fs::write(&entries[1], "precious").expect("an entry");
    let resumed = markdown(&["--resume", "kept"]);
    let note = String::from_utf8_lossy(&resumed.stderr).into_owned();
    let name = entries[1].file_name().expect("a name").to_string_lossy().into_owned();
    assert!(note.starts_with("note: ") && note.contains(&name) && note.contains("it is run again"), "{note}");
    assert_eq!(stdout(&resumed), at_once);
    assert!(quiet(&markdown(&["--resume", "kept"])));
    let wrong = markdown(&["--resume", "small.toml"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("small.toml: cannot be made"), "{wrong:?}");
}

#[test]
fn a_quick_look_says_so_everywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let synthetic = PAPER
        .replace("files = [\"missing.spc\", \"made-up.destage\"]", "synthetic = \"random\"\nset = { length = 80_000 }");
    fs::write(here.join("small.toml"), synthetic).expect("a file");
    let call = ["reproduce", "small.toml", "--quick", "--markdown=quick.md", "--report", "page"];
    let table = stdout(&destage(here, &call));
    assert!(table.starts_with("A quick look: two seeds"), "{table}");
    let markdown = fs::read_to_string(here.join("quick.md")).expect("a report");
    assert_eq!(markdown.matches("**A quick look: two seeds").count(), 2, "at the top, and of the paper: {markdown}");
    let page = fs::read_to_string(here.join("page/index.html")).expect("a page");
    html::inert(&page);
    let html = scraper::Html::parse_document(&page);
    assert_eq!(html::all(&html, "p.quick").len(), 1);
    assert!(page.contains("measures: a quick look"));
}

#[test]
fn a_run_that_fails_leaves_the_old_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let synthetic = PAPER.replace("files = [\"missing.spc\", \"made-up.destage\"]", "synthetic = \"nowhere.toml\"");
    fs::write(here.join("small.toml"), synthetic).expect("a file");
    fs::write(here.join("report.md"), "precious").expect("a file");
    let output = destage(here, &["reproduce", "small.toml", "--markdown=report.md"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && message.contains("nowhere.toml: cannot be read"), "{message}");
    assert_eq!(fs::read_to_string(here.join("report.md")).expect("the old report"), "precious");
    assert_eq!(fs::read_dir(here).expect("a folder").count(), 2, "nothing else is left");

    // Where the report cannot be written, nothing is simulated first.
    let output = destage(here, &["validate", "--out", "nowhere/report.md"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && message.contains("nowhere/report.md"), "{message}");
    assert!(!message.contains("validate: "), "{message}");
}

#[test]
fn what_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    for (args, expected) in [
        (&["reproduce", "lb-clokc"][..], "there is no paper 'lb-clokc'"),
        (&["reproduce", "lb-clock", "--traces", "nowhere"], "--traces nowhere: there is no such folder"),
        (&["reproduce", "nowhere.toml"], "nowhere.toml: cannot be read"),
    ] {
        let output = destage(folder.path(), args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && message.contains(expected), "{message}");
    }
}

#[test]
fn a_paper_without_claims_shows_its_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let paper = PAPER.split("[[workload]]").next().expect("settings").replace("seeds", "caches = [\"1MiB\"]\nseeds");
    let workload = "[[workload]]\nname = \"made here\"\nprovenance = \"synthetic\"\nstands-for = [\"Any\"]\n\
                    synthetic = \"random\"\nset = { length = 2_000 }\n";
    fs::write(folder.path().join("figures.toml"), paper + workload).expect("a file");
    let shown = stdout(&destage(folder.path(), &["reproduce", "figures.toml"]));
    for part in ["made here", "Verdict.", "1 MiB", "lb-clock: evictions", "\u{b1}"] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}
