//! Everything over SSDs works over drives of the modern model, which is the default, and says that it is one.

use std::fs;

use serde_json::Value;

use crate::binary::{destage, quietly};

/// Policies that leave the choice of the die to the drive.
const POLICIES: &str = "none,lru,clock,fifo,2q,arc,s3-fifo,cflru,lru-wsr,ccf-lru,ref,fab,bplru,clc,pud-lru,lb-clock,\
                        gcar+lru,gcar+clock,gcar+fifo,gcar+2q,gcar+arc,gcar+s3-fifo,gcar+cflru,gcar+lru-wsr,gcar+ccf-lru,\
                        gcar+ref,gcar+fab,gcar+bplru,gcar+clc,gcar+pud-lru,gcar+lb-clock";

const NAME: &str = "SSD pm9a3 (modern model): Samsung PM9A3, 960 GB";

/// Returns what a short run shows.
fn shown(args: &[&str]) -> String {
    quietly(&[&["sim", "--workload", "exchange", "--limit", "1500", "--progress=false"], args].concat())
}

/// Returns the first line of a table, which may go on in the next ones, as one.
fn head(text: &str) -> String {
    let end = text.find("\ntrace ").unwrap_or_else(|| panic!("no trace behind the device: {text}"));
    text[..end].split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_policy_that_leaves_the_die_to_the_drive_runs() {
    let args = ["--device", "ssd", "--policy", POLICIES, "--cache", "1MiB", "--json"];
    let runs: Value = serde_json::from_str(&shown(&args)).expect("JSON");
    let runs = runs.as_array().expect("runs");
    assert_eq!(runs.len(), POLICIES.split(',').count());
    for run in runs {
        let settings = run["settings"].as_array().expect("settings");
        let is = |name: &str, value: &str| settings.iter().any(|of| of["name"] == name && of["value"] == value);
        assert!(is("ssd.preset", "pm9a3") && is("ssd.model", "modern"), "{settings:?}");
        assert!(run["response"]["all"]["p99"].as_u64() < Some(2_000_000), "{}: {}", run["policy"], run["response"]);
    }
}

#[test]
fn drives_are_named_first_below_buffers_in_arrays_and_as_caches() {
    let buffer = head(&shown(&["--device", "ssd", "--policy", "lru", "--cache", "1MiB"]));
    assert!(buffer.starts_with(&format!("device {NAME}")), "{buffer}");
    let lawc = head(&shown(&["--device", "ssd", "--ssd.preset", "lawc", "--policy", "lru", "--cache", "1MiB"]));
    assert!(lawc.starts_with("device SSD lawc (classic model): LAWC Table 1;"), "{lawc}");
    let array = ["--array", "raid5:4", "--policy", "none,write-back,kdd,ggc+wow", "--cache", "8MiB"];
    let members = head(&shown(&[&array[..], &["--device", "ssd"]].concat()));
    assert!(members.starts_with("array raid5 left-symmetric, 4 x ") && members.contains(NAME), "{members}");
    let over_disks = head(&shown(&["--array", "raid5:4", "--policy", "none,kdd", "--cache", "8MiB"]));
    assert!(over_disks.contains("of disk") && over_disks.contains(&format!("the cache is on {NAME}")), "{over_disks}");
}

#[test]
fn pages_of_arrays_name_the_drives() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page");
    let args = ["--array", "raid5:4", "--device", "ssd", "--policy", "kdd", "--cache", "8MiB", "--report"];
    shown(&[&args[..], &[page.to_str().expect("UTF-8")]].concat());
    let html = fs::read_to_string(page.join("index.html")).expect("a page");
    assert_eq!(html.matches(NAME).count(), 2, "members and cache");
}

#[test]
fn results_of_one_model_are_not_taken_for_those_of_the_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("kept");
    let kept = kept.to_str().expect("UTF-8");
    let told = |more: &[&str]| {
        let base = ["sim", "--workload", "exchange", "--limit", "1500", "--device", "ssd", "--ssd.preset", "pm9a3"];
        let args = ["--policy", "lru", "--cache", "1MiB", "--resume", kept, "--timing"];
        let output = destage(&[&base[..], &args, more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    for (more, expected) in [
        (&["--ssd.model", "classic"][..], "1 runs;"),
        (&[], "1 runs;"),
        (&["--ssd.model", "modern"], "0 runs and 1 known"),
        (&["--ssd.model", "classic"], "0 runs and 1 known"),
    ] {
        let told = told(more);
        assert!(told.contains(expected), "{more:?}: {told}");
    }
}
