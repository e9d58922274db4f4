//! Tests that an interrupted evaluation goes on and writes the same bytes as in one go, and that a quick look
//! says that it is one.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use destage_report::kept::ResultCache;
use destage_report::{ReportRun, json, read};
use destage_reproduce::page::PaperPages;
use destage_reproduce::paper::PaperFile;
use destage_reproduce::report;
use destage_reproduce::reproduce::{PaperReproduction, ReproduceOptions, reproduce_with};
use destage_reproduce::watch::{PaperWatch, RunInfo};
use destage_sim::experiment::StopSignal;
use destage_sweep::{RemoteRunner, SweepError, SweepGroup, whole};
use tempfile::TempDir;

use crate::small;

const WORKLOAD: &str = r#"
about = "Random writes"
source = "here"
kind = "synthetic"
length = 8000

[[part]]
read = 10
space = "64MiB"
sizes = "4KiB:2,8KiB:1,64KiB:1"
"#;

/// Buffers over an SSD with response times, that is with figures that are no whole numbers, and caches over an array.
const PAPER: &str = r#"
name = "small"
title = "A small paper"
about = "About."
verdict = "Verdict."
seeds = 3
policies = ["lru", "fab"]
caches = ["1MiB", "4MiB"]
figures = ["response", "p999", "hit-ratio", "cv-writes"]

[settings]
device = "ssd"
"ssd.preset" = "lawc"
"ssd.blocks-per-plane" = 64
warmup = 800

[[workload]]
name = "random"
provenance = "synthetic"
stands-for = ["Random"]
synthetic = "WORKLOAD"

[[workload]]
name = "recorded"
provenance = "recording"
stands-for = ["Recorded"]
files = ["recorded.csv"]
format = "columns:ts=us,op,off=sectors,len=sectors"

[[claim]]
id = "S1"
where = "text"
workload = ["Random"]
metric = "write-response"
new = "fab"
than = "lru"
caches = ["1MiB", "4MiB"]
claimed = [1, 500]
"#;

/// A folder with the paper's workload and trace, and a program.
struct Here {
    folder: TempDir,
    paper: PaperFile,
}

/// Hears what was known and what was noted.
#[derive(Default)]
struct Heard {
    known: Mutex<Vec<bool>>,
    notes: Mutex<Vec<String>>,
}

impl PaperWatch for Heard {
    fn ends(&self, _: &RunInfo<'_>, known: bool) {
        self.known.lock().unwrap().push(known);
    }

    fn note(&self, text: &str) {
        self.notes.lock().unwrap().push(text.to_owned());
    }
}

impl Heard {
    /// Runs that were known, and others.
    fn counts(&self) -> (usize, usize) {
        let known = self.known.lock().unwrap();
        let count = known.iter().filter(|known| **known).count();
        (count, known.len() - count)
    }
}

impl Here {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let line =
            |i: u64| format!("{},{},{},8\n", i * 500, if i.is_multiple_of(3) { "R" } else { "W" }, i * i % 30_000 * 8);
        let lines = (0..4000).map(line).collect::<Vec<_>>().concat();
        fs::write(folder.path().join("recorded.csv"), lines).expect("a file");
        fs::write(folder.path().join("program"), "a program").expect("a file");
        let paper = small::paper(folder.path(), PAPER, WORKLOAD).expect("a paper");
        Self { folder, paper }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, paper: &PaperFile, kept: Option<&ResultCache>, quick: bool) -> (Heard, Vec<Vec<u8>>) {
        let heard = Heard::default();
        let folders = [self.folder.path().to_owned()];
        let options = ReproduceOptions { folders: &folders, found: None, quick, kept, on: None, watch: &heard };
        let found = reproduce_with(paper, options).expect("it runs");
        (heard, bytes(&found))
    }

    /// The same with results kept in this folder.
    fn resumed(&self, paper: &PaperFile) -> (Heard, Vec<Vec<u8>>) {
        let kept = ResultCache::open(&self.path("kept"), &self.path("program")).expect("a folder");
        self.run(paper, Some(&kept), false)
    }

    fn entries(&self) -> Vec<PathBuf> {
        let mut entries: Vec<_> =
            fs::read_dir(self.path("kept")).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
        entries.sort();
        entries
    }
}

/// All that is written of it.
fn bytes(found: &PaperReproduction<'_>) -> Vec<Vec<u8>> {
    let mut pages = PaperPages::default();
    pages.add(found);
    let files = pages.files().expect("a page").into_iter().map(|(_, content)| content);
    std::iter::once(report::markdown(found).into_bytes()).chain(files).collect()
}

#[test]
fn what_was_interrupted_goes_on_with_the_same_bytes() {
    let here = Here::new();
    let (heard, at_once) = here.run(&here.paper, None, false);
    let runs = heard.counts().1;
    assert_eq!((heard.counts(), runs), ((0, runs), 4), "three seeds and a recording");
    let (heard, first) = here.resumed(&here.paper);
    assert_eq!((heard.counts(), first == at_once), ((0, runs), true));
    assert_eq!(here.entries().len(), runs, "an entry for each, and nothing else");
    let (heard, again) = here.resumed(&here.paper);
    assert_eq!((heard.counts(), again == at_once), ((runs, 0), true));
    fs::remove_file(&here.entries()[1]).expect("it is there");
    let (heard, went_on) = here.resumed(&here.paper);
    assert_eq!((heard.counts(), went_on == at_once), ((runs - 1, 1), true));
    assert!(heard.notes.lock().unwrap().is_empty());
}

#[test]
fn an_entry_that_was_changed_is_named_and_run_again() {
    let here = Here::new();
    let (_, at_once) = here.resumed(&here.paper);
    let entries = here.entries();
    let whole = fs::read(&entries[0]).expect("an entry");
    let mut flipped = whole.clone();
    let digit = flipped.iter().rposition(u8::is_ascii_digit).expect("a figure");
    flipped[digit] = if flipped[digit] == b'1' { b'2' } else { b'1' };
    let other = fs::read(&entries[1]).expect("an entry");
    let cases: [(&str, &[u8], &str); 6] = [
        ("a figure", &flipped, "changed since"),
        ("a piece", &whole[..whole.len() / 2], "changed since"),
        ("the beginning", &whole[..40], "another's name"),
        ("nothing", b"", "begins otherwise"),
        ("another's", &other, "another's name"),
        ("foreign", b"{\"precious\": true}", "begins otherwise"),
    ];
    for (what, content, why) in cases {
        fs::write(&entries[0], content).expect("an entry");
        let (heard, found) = here.resumed(&here.paper);
        let notes = heard.notes.lock().unwrap().clone();
        let [note] = &notes[..] else { panic!("{what}: {notes:?}") };
        let name = entries[0].display().to_string();
        assert!(note.starts_with(&name) && note.contains(why) && note.contains("run again"), "{what}: {note}");
        assert!(heard.counts().1 == 1 && found == at_once, "{what}");
        assert!(fs::read(&entries[0]).expect("an entry") == whole, "{what}: it is as it was");
    }
}

#[test]
fn whatever_decides_about_results_is_part_of_the_name() {
    let here = Here::new();
    here.resumed(&here.paper);
    let anew = |paper: &PaperFile| here.resumed(paper).0.counts();
    assert_eq!(anew(&here.paper), (4, 0));
    let mut other = here.paper.clone();
    other.settings.insert("warmup".into(), 801.into());
    assert_eq!(anew(&other), (0, 4), "a setting");
    let mut other = here.paper.clone();
    other.workload[0].set.insert("length".into(), 8001.into());
    assert_eq!(anew(&other), (1, 3), "the length of one workload");
    let recorded = here.path("recorded.csv");
    let mut lines = fs::read_to_string(&recorded).expect("a trace");
    lines.replace_range(..1, "1");
    fs::write(&recorded, lines).expect("a trace");
    assert_eq!(anew(&here.paper), (3, 1), "what a trace holds");
    fs::write(here.path("few.toml"), WORKLOAD.replace("read = 10", "read = 11")).expect("a workload");
    assert_eq!(anew(&here.paper), (1, 3), "what a workload's file says");
    fs::write(here.path("program"), "another program").expect("a file");
    assert_eq!(anew(&here.paper), (0, 4), "the program");

    let error = ResultCache::open(&recorded, &here.path("program")).expect_err("it is a file").to_string();
    assert!(error.contains("recorded.csv: cannot be made"), "{error}");
}

#[test]
fn a_quick_look_is_an_eighth_and_says_so() {
    let here = Here::new();
    let heard = Heard::default();
    let folders = [here.folder.path().to_owned()];
    let options = ReproduceOptions { folders: &folders, found: None, quick: true, kept: None, on: None, watch: &heard };
    let found = reproduce_with(&here.paper, options).expect("it runs");
    assert_eq!(heard.counts(), (0, 3), "two seeds and a recording");
    for (results, requests) in found.results.iter().zip([8000.0 / 8.0, 4000.0 / 8.0]) {
        let runs = results.of("", "lru", 1 << 20);
        assert!(!runs.is_empty());
        for run in runs {
            assert_eq!(run.number("warmup_requests"), Some(100.0));
            assert_eq!(run.number("input.trace_requests"), Some(requests));
        }
    }
    let written = bytes(&found);
    let (_, whole) = here.run(&here.paper, None, false);
    for (quick, whole) in written.iter().zip(&whole).take(2) {
        let says = |text: &[u8]| String::from_utf8_lossy(text).contains("A quick look: two seeds");
        assert!(says(quick) && !says(whole));
    }
}

/// Another program on this machine.
struct Other;

impl RemoteRunner for Other {
    fn whole(&self, group: &SweepGroup) -> Result<Vec<ReportRun>, SweepError> {
        let runs = whole(&SweepGroup::parse(&group.text())?, None, None, &StopSignal::default())?;
        read("it", &json(&runs).map_err(SweepError::new)?).map_err(SweepError::new)
    }
}

#[test]
fn what_is_run_elsewhere_has_the_same_bytes() {
    let here = Here::new();
    let heard = Heard::default();
    let folders = [here.folder.path().to_owned()];
    let options =
        ReproduceOptions { folders: &folders, found: None, quick: false, kept: None, on: Some(&Other), watch: &heard };
    let found = reproduce_with(&here.paper, options).expect("it runs");
    assert_eq!(bytes(&found), here.run(&here.paper, None, false).1);
}
