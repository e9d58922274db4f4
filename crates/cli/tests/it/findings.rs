//! Runs made to be weak: what is found of each, and that the settings which are named mend it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::binary::{destage, quietly};

/// A run that has nothing that is weak about it, but for what a test changes.
const SOUND: [&str; 12] = [
    "--policy",
    "lru",
    "--cache",
    "256KiB",
    "--device",
    "ssd",
    "--ssd.model",
    "classic",
    "--host",
    "closed:8",
    "--warmup",
    "50%",
];

fn trace(folder: &Path, settings: &str) -> PathBuf {
    let path = folder.join("made.destage");
    let mut arguments = vec!["trace", "synth", path.to_str().expect("temporary paths are UTF-8")];
    let sound = "--length 30000 --space 64MiB --sizes 4KiB:1 --read 20 --arrivals constant:5ms";
    let given: Vec<_> = settings.split_whitespace().collect();
    arguments.extend(changed(&sound.split_whitespace().collect::<Vec<_>>(), &given));
    assert!(destage(&arguments).status.success(), "{arguments:?}");
    path
}

/// The settings with those of `changes` in place of what they had.
fn changed<'a>(settings: &[&'a str], changes: &[&'a str]) -> Vec<&'a str> {
    let kept = settings.chunks(2).filter(|pair| changes.iter().all(|change| change != &pair[0]));
    kept.flatten().chain(changes).copied().collect()
}

/// Returns the warnings of the only run: kinds, severities, messages and what mends them.
fn findings(trace: &Path, settings: &[&str]) -> Vec<[String; 4]> {
    let mut arguments = vec!["sim", "--trace", trace.to_str().expect("temporary paths are UTF-8"), "--json"];
    arguments.extend(settings);
    let results: Value = serde_json::from_str(&quietly(&arguments)).expect("JSON");
    let found = results[0]["findings"].as_array().expect("a list").iter();
    found
        .map(|finding| {
            ["kind", "severity", "message", "mend"].map(|key| finding[key].as_str().unwrap_or_default().to_owned())
        })
        .collect()
}

/// Simulates what `requests` and `settings` make weak, demands that it is found and said in words with `says` in them,
/// and that it is gone with the settings that are told to mend it.
#[track_caller]
fn weak(requests: &str, settings: &str, kind: &str, severity: &str, says: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = trace(folder.path(), requests);
    let settings: Vec<_> = settings.split_whitespace().collect();
    let settings = changed(&SOUND, &settings);
    let found = findings(&trace, &settings);
    let Some([_, how, message, mend]) = found.iter().find(|finding| finding[0] == kind) else {
        panic!("{kind} was not found, but {found:?}");
    };
    assert_eq!(how, severity, "{message}");
    assert!(message.contains(says), "{message}");
    if mend.is_empty() {
        return;
    }
    let mends: Vec<_> = mend.split_whitespace().collect();
    let after = findings(&trace, &changed(&settings, &mends));
    assert!(after.iter().all(|finding| finding[0] != kind), "after {mend}: {after:?}");
}

#[test]
fn a_sound_run_has_no_findings() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = trace(folder.path(), "");
    assert_eq!(findings(&trace, &SOUND), [] as [[String; 4]; 0]);
    let modern = SOUND.map(|argument| if argument == "classic" { "modern" } else { argument });
    assert_eq!(findings(&trace, &modern), [] as [[String; 4]; 0]);
}

#[test]
fn requests_that_come_too_fast() {
    weak("--arrivals poisson:10us", "--host open", "saturated", "void", "response times are no result");
}

#[test]
fn a_tail_of_few_requests() {
    weak("--length 4000 --read 50", "", "few-requests", "weak", "the 2 slowest requests of 2,000");
    weak("", "--limit 3000", "few-requests", "weak", "the slowest request of 1,500");
}

#[test]
fn a_buffer_that_is_filling() {
    weak("--read 0", "--cache 32MiB --warmup 0", "cold", "weak", "filling for the first 3");
}

#[test]
fn a_buffer_that_is_never_full() {
    weak("--read 0", "--cache 256MiB", "never-full", "weak", "the buffer of 256 MiB was never full");
}

#[test]
fn an_ssd_that_does_not_collect() {
    weak("--length 6000 --space 256MiB", "--start empty", "no-collection", "weak", "it started empty");
    weak("--length 200", "", "few-collections", "weak", "a matter of chance");
    let nothing = "nothing was written to flash while it was measured";
    weak("--read 100", "", "no-collection", "weak", nothing);
}

#[test]
fn a_start_that_is_not_steady() {
    weak("--read 0 --length 40000", "--start empty --warmup 0", "unsteady", "weak", "took 1.0");
}

#[test]
fn reads_of_what_was_never_written() {
    weak("--read 50 --length 20000", "--start empty --warmup 0", "unmapped-reads", "weak", "had never been written");
}

#[test]
fn addresses_beyond_the_device() {
    weak("--space 8GiB", "--ssd.capacity preset", "wrapped", "weak", "were wrapped to its size");
    weak(
        "--space 8GiB",
        "--ssd.capacity preset --lba-overflow filter --warmup 0",
        "left-out",
        "weak",
        "and were left out",
    );
    weak("--space 512GiB --length 2000", "", "compacted", "note", "side by side");
}

#[test]
fn a_trace_of_which_nothing_takes_part() {
    weak("--read 100", "--ops writes --warmup 0", "nothing", "void", "see ops and volumes");
}

#[test]
fn a_trace_with_bad_lines_and_out_of_order() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("bad.spc");
    fs::write(&path, "0,0,4096,W,0.0\n0,8,4096,W,2.0\n0,16,4096,W,1.0\nthis is none\n0,24,4096,W,3.0\n")
        .expect("a file");
    let found = findings(&path, &["--lenient=true", "--format", "spc", "--policy", "lru", "--cache", "4KiB"]);
    let kinds: Vec<_> = found.iter().map(|[kind, severity, ..]| (kind.as_str(), severity.as_str())).collect();
    assert_eq!(kinds, [("reversed", "note"), ("skipped", "weak"), ("cold", "weak")], "{found:?}");
    assert!(found[1][2].contains("1 lines or records were skipped; the first: ") && found[1][2].contains("line 4"));
}

/// The same of a cache over an array.
#[track_caller]
fn weak_array(requests: &str, settings: &str, kind: &str, severity: &str, says: &str) {
    let common = "--policy none --device ssd --ssd.model classic --array raid5:4 --host closed:8 --cache";
    let common = format!("{common} 1MiB {settings}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = trace(folder.path(), requests);
    let mut given: Vec<&str> = Vec::new();
    for pair in common.split_whitespace().collect::<Vec<_>>().chunks(2) {
        given = changed(&given, pair);
    }
    if given.contains(&"none") {
        given = given.chunks(2).filter(|pair| pair[0] != "--cache").flatten().copied().collect();
    }
    let found = findings(&trace, &given);
    let Some([_, how, message, mend]) = found.iter().find(|finding| finding[0] == kind) else {
        panic!("{kind} was not found, but {found:?}");
    };
    assert_eq!(how, severity, "{message}");
    assert!(message.contains(says), "{message}");
    if !mend.is_empty() {
        let mends: Vec<_> = mend.split_whitespace().collect();
        let after = findings(&trace, &changed(&given, &mends));
        assert!(after.iter().all(|finding| finding[0] != kind), "after {mend}: {after:?}");
    }
}

#[test]
fn arrays_that_say_less_than_they_seem_to() {
    weak_array("--arrivals poisson:1us", "--host open", "saturated", "void", "response times are no result");
    weak_array("--length 3000", "", "few-requests", "weak", "the 3 slowest requests of 3,000");
    weak_array("--length 3000", "--start empty", "no-collection", "weak", "left out");
    weak_array("--length 12000", "--array raid0:4 --fail 1@100ms", "failed-requests", "weak", "raid0 can do without");
    weak_array("--length 3000", "--policy leavo --cache 32MiB", "parity-owed", "weak", "is still owed at the end");
}
