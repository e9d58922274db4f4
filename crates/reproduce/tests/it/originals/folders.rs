//! Whole folders, and papers over what lies in them.

use destage_reproduce::originals::{FOLDERS_DEEP, FoundTraces, PaperNeeds, search};
use destage_reproduce::paper::PaperFile;
use destage_reproduce::reproduce::{ReproduceOptions, reproduce_with};

use super::*;

#[test]
fn folders_are_walked_once_whatever_lies_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("b/Financial.spc")).expect("a folder named like a trace");
    fs::write(at("b/Financial.spc/hm_0.csv"), msr("hm", 400, 400, 4096)).expect("a file");
    fs::write(at("a.spc"), spc(0, 300)).expect("a file");
    fs::write(at("notes.txt"), "hello\n").expect("a file");
    std::os::unix::fs::symlink(folder.path(), at("b/loop")).expect("a link");
    std::os::unix::fs::symlink("nowhere", at("b/broken")).expect("a link");
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");
    let deep = (0..FOLDERS_DEEP + 3).fold(at("deep"), |path, _| path.join("d"));
    fs::create_dir_all(&deep).expect("folders");
    fs::write(deep.join("fin.spc"), spc(0, 300)).expect("a file");
    let found = search(&catalogue(), None, folder.path(), &|_| {});
    let files: Vec<(String, &str)> = found
        .files
        .iter()
        .map(|file| {
            let path = file.path.strip_prefix(folder.path()).expect("within").display().to_string();
            (path, file.verdict.key())
        })
        .collect();
    assert_eq!(files, [("a.spc".into(), "whole"), ("b/Financial.spc/hm_0.csv".into(), "whole")]);
    assert_eq!(found.others, 1);
    let mut said: Vec<&str> = found.skipped.iter().map(|text| text.rsplit(": ").next().unwrap_or_default()).collect();
    said.sort_unstable();
    assert_eq!(
        said,
        ["No such file or directory (os error 2)", "is neither a file nor a folder", "lies more than 16 folders deep"]
    );
    assert_eq!(found.of("fin").expect("it is here").path, at("a.spc"));
    assert!(found.of("mail").is_none() && search(&catalogue(), None, &at("nowhere"), &|_| {}).skipped.len() == 1);
}

#[test]
fn what_is_not_wanted_is_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("hm_0.csv"), msr("hm", 400, 400, 4096)).expect("a file");
    fs::write(folder.path().join("fin.spc"), spc(0, 300)).expect("a file");
    let wanted = std::collections::BTreeSet::from(["fin".to_owned()]);
    let found = search(&catalogue(), Some(&wanted), folder.path(), &|_| {});
    let requests: Vec<Option<u64>> = found.files.iter().map(|file| file.requests).collect();
    assert_eq!(requests, [Some(300), None]);
}

const PAPER: &str = r#"
name = "small"
title = "A small paper"
about = "About."
verdict = "Verdict."
seeds = 2
policies = ["bplru", "fab"]

[settings]
device = "analytic"
page = "4KiB"

[[workload]]
name = "the original"
provenance = "original"
stands-for = ["Fin"]
trace = "fin"
files = ["Fin.spc"]

[[workload]]
name = "the volume"
provenance = "original"
stands-for = ["Hm0"]
trace = "hm_0"

[[claim]]
id = "S1"
where = "text"
workload = "Fin"
metric = "evictions"
new = "fab"
than = "bplru"
caches = ["64KiB"]
claimed = [1, 500]

[[claim]]
id = "S2"
where = "text"
workload = "Hm0"
metric = "evictions"
new = "fab"
than = "bplru"
caches = ["64KiB"]
claimed = [1, 500]
"#;

/// Returns which claims of the paper were tried with what lies in a folder.
fn tried(folder: &Path) -> Vec<(String, bool)> {
    let papers = [PaperFile::parse(Path::new("small.toml"), PAPER).expect("a paper")];
    let folders = [folder.to_owned()];
    let found = FoundTraces::for_papers(&catalogue(), &papers, &folders, &|_| {});
    let options =
        ReproduceOptions { folders: &folders, found: Some(&found), quick: false, kept: None, on: None, watch: &() };
    let done = reproduce_with(&papers[0], options).expect("it runs");
    done.findings.iter().map(|finding| (finding.claim.id.clone(), finding.run)).collect()
}

#[test]
fn papers_run_over_what_is_recognised() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let is = |fin: bool, hm: bool| vec![("S1".to_owned(), fin), ("S2".to_owned(), hm)];
    assert_eq!(tried(folder.path()), is(false, false));
    // Neither name is one that the paper gives, and one lies deeper.
    fs::create_dir(at("deeper")).expect("a folder");
    fs::write(at("deeper/oltp.trace"), mqsim(300)).expect("a file");
    fs::write(at("week.csv"), msr("hm", 400, 400, 4096)).expect("a file");
    assert_eq!(tried(folder.path()), is(true, true));
    // A piece is no original, nor is what only has the name; the paper's own name does not help it.
    fs::write(at("week.csv"), msr("hm", 200, 400, 4096)).expect("a file");
    fs::remove_file(at("deeper/oltp.trace")).expect("it is there");
    fs::write(at("Fin.spc"), spc(20, 300)).expect("a file");
    assert_eq!(tried(folder.path()), is(false, false));
    // Nor its beginning.
    fs::write(at("Fin.spc"), spc(0, 150)).expect("a file");
    assert_eq!(tried(folder.path()), is(false, false));
    fs::write(at("Fin.spc"), spc(0, 300)).expect("a file");
    assert_eq!(tried(folder.path()), is(true, false));
    let found = search(&catalogue(), None, folder.path(), &|_| {});
    let needs =
        PaperNeeds::of(&PaperFile::parse(Path::new("small.toml"), PAPER).expect("a paper"), &catalogue(), &found);
    let files: Vec<(&str, usize)> =
        needs.traces.iter().map(|needed| (needed.title.as_str(), needed.files.len())).collect();
    assert_eq!(files, [("Fin", 1), ("hm_0", 0)]);
    assert_eq!(needs.traces[1].published_at, "another repository");
}
