//! Checks which requests of a trace `destage sim` simulates.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::binary::{command, destage, quietly, refused};

/// Requests a second apart, some of which have the same time, as lines of an SPC trace from `from`
/// on; times begin at 0.
fn lines(range: std::ops::Range<u64>) -> String {
    let mut text = String::new();
    let mut x = 1_u64;
    let when = |i: u64| i / 2 * 2;
    for i in 0..range.end {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if i >= range.start {
            let (lba, bytes) = ((x >> 33) % 8_000, 512 * (1 + (x >> 20) % 40));
            let op = if x >> 60 < 6 { 'R' } else { 'W' };
            writeln!(text, "0,{lba},{bytes},{op},{}.5", when(i) - when(range.start)).unwrap();
        }
    }
    text
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

const BUFFERS: &[&str] = &["--policy", "lru,fab", "--cache", "1MiB", "--device", "ssd", "--ssd.preset", "lawc"];
const ARRAY: &[&str] = &["--array", "raid5:3", "--device", "fixed", "--member-size", "16MiB", "--policy", "none"];

/// The results, without what says which part of which trace they are of.
fn results(json: &str) -> (Vec<Value>, Vec<u64>) {
    let mut runs: Vec<Value> = serde_json::from_str(json).unwrap();
    let mut outside = Vec::new();
    for run in &mut runs {
        run.as_object_mut().unwrap().remove("settings");
        // What mends a finding depends on the settings.
        for finding in run["findings"].as_array_mut().unwrap() {
            finding.as_object_mut().unwrap().remove("mend");
        }
        let input = run["input"].as_object_mut().unwrap();
        input.remove("trace");
        outside.push(input.insert("outside_requests".to_owned(), Value::Null).unwrap().as_u64().unwrap());
    }
    (runs, outside)
}

fn piped(trace: &Path, args: &[&str]) -> String {
    let mut call = command(&[&["sim", "--trace", "-"], args].concat());
    let call = call.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = call.spawn().expect("the binary starts");
    let mut pipe = child.stdin.take().unwrap();
    let bytes = fs::read(trace).unwrap();
    // Nobody reads behind the window.
    let _ = pipe.write_all(&bytes);
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_window_has_the_results_of_a_trace_that_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    let whole = write(folder.path(), "whole.spc", &lines(0..2_000));
    // Pairs of requests, each two seconds after the one before.
    let windows: [(&[&str], std::ops::Range<u64>); 5] = [
        (&["--skip", "500"], 500..2_000),
        (&["--from", "400s", "--to", "1200s"], 400..1_200),
        (&["--from", "399.5s", "--to", "20min", "--limit", "300", "--warmup", "50"], 400..700),
        (&["--skip", "410", "--from", "401s", "--set", "to=1000s", "--warmup", "60s"], 410..1_000),
        (&["--limit", "77"], 0..77),
    ];
    for sort in [BUFFERS, ARRAY] {
        for (window, range) in &windows {
            let begin = range.start;
            let cut = write(folder.path(), "cut.spc", &lines(range.clone()));
            let warmup: Vec<_> = window.iter().skip_while(|word| **word != "--warmup").copied().collect();
            let by_hand = quietly(&[&["sim", "--trace", text(&cut), "--json"], sort, &warmup].concat());
            let args = [sort, window, &["--json"]].concat();
            let by_window = quietly(&[&["sim", "--trace", text(&whole)], &args[..]].concat());
            let ((hand, none), (found, outside)) = (results(&by_hand), results(&by_window));
            assert_eq!(hand, found, "{window:?}");
            assert!(none.iter().all(|&n| n == 0) && outside.iter().all(|&n| n == begin), "{outside:?}");
            assert_eq!(results(&piped(&whole, &args)), (found, outside), "{window:?}");
        }
    }
}

#[test]
fn the_window_stands_in_settings_tables_and_scenarios() {
    let folder = tempfile::tempdir().unwrap();
    let whole = write(folder.path(), "whole.spc", &lines(0..200));
    let scenario =
        "trace = \"whole.spc\"\npolicy = \"lru\"\ncache = \"1MiB\"\nskip = 20\nfrom = \"30s\"\nto = \"2min\"\n";
    let scenario = write(folder.path(), "window.toml", scenario);
    let by_file = quietly(&["sim", "--scenario", text(&scenario), "--json"]);
    let flags = ["--skip", "20", "--from", "30s", "--to", "2min", "--policy", "lru", "--cache", "1MiB"];
    let by_flags = quietly(&[&["sim", "--trace", text(&whole), "--json"][..], &flags].concat());
    assert_eq!(results(&by_file), results(&by_flags));
    let runs: Vec<Value> = serde_json::from_str(&by_file).unwrap();
    let settings = runs[0]["settings"].to_string();
    for setting in ["\"skip\",\"value\":\"20\"", "\"from\",\"value\":\"30s\"", "\"to\",\"value\":\"2min\""] {
        assert!(settings.contains(setting), "{settings}");
    }
    assert_eq!((runs[0]["input"]["trace_requests"].as_u64(), runs[0]["requests"].as_u64()), (Some(90), Some(90)));
    let table = quietly(&["sim", "--scenario", text(&scenario)]);
    let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(table.contains("90 requests behind 30 left out in front of the window"), "{table}");
    // A workload has windows, too.
    let json = quietly(&["sim", "--workload", "random", "--skip", "10", "--limit", "100", "--policy", "lru", "--json"]);
    let runs: Vec<Value> = serde_json::from_str(&json).unwrap();
    let counts = ["trace_requests", "outside_requests"].map(|count| runs[0]["input"][count].as_u64());
    assert_eq!(counts, [Some(100), Some(10)]);
}

#[test]
fn a_window_without_requests_is_an_error_that_tells_how_long_the_trace_is() {
    let folder = tempfile::tempdir().unwrap();
    let whole = write(folder.path(), "whole.spc", &lines(0..200));
    let sim = |args: &[&str]| refused(&[&["sim", "--trace", text(&whole)], BUFFERS, args].concat());
    let message = sim(&["--skip", "1000"]);
    let wanted = "whole.spc: no request lies in the window (skip = 1,000): the trace has 200 requests in 198.0 s";
    assert!(message.contains(wanted), "{message}");
    let message = sim(&["--from", "1h"]);
    assert!(message.contains("(from = 3600 s): the trace has 200 requests in 198.0 s"), "{message}");
    let message = sim(&["--from", "10.1s", "--to", "10.2s"]);
    assert!(message.contains("the trace has 200 requests in 198.0 s"), "{message}");
    let message = sim(&["--from", "1h", "--to", "10min"]);
    assert!(message.contains("the window ends before it begins"), "{message}");
    let message = sim(&["--from", "10"]);
    assert!(message.contains("--from = '10': a time with its unit"), "{message}");
    let output = destage(&[&["sim", "--trace", text(&whole), "--skip", "1000"], ARRAY].concat());
    assert_eq!(output.status.code(), Some(1));
    let stdin = File::open(&whole).unwrap();
    let mut call = command(&[&["sim", "--trace", "-", "--from", "1h"], ARRAY].concat());
    let output = call.stdin(stdin).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains("200 requests in 198.0 s"), "{message}");
}

#[test]
fn a_warm_up_in_percent_is_one_of_the_window() {
    let folder = tempfile::tempdir().unwrap();
    let whole = write(folder.path(), "whole.spc", &lines(0..1_000));
    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for sort in [BUFFERS, ARRAY] {
        let sim = |args: &[&str]| quietly(&[&["sim", "--trace", text(&whole), "--json"], sort, args].concat());
        let window = ["--skip", "100", "--limit", "400"];
        for (share, requests) in [("20%", "80"), ("0.13%", "0"), ("33.33 %", "133")] {
            let (by_share, by_number) = (
                sim(&[&window[..], &["--warmup", share]].concat()),
                sim(&[&window[..], &["--warmup", requests]].concat()),
            );
            assert_eq!(results(&by_share), results(&by_number), "{share}");
            let runs: Vec<Value> = serde_json::from_str(&by_share).unwrap();
            assert_eq!(runs[0]["warmup_requests"].to_string(), requests);
            let setting = format!("{{\"name\":\"warmup\",\"value\":\"{share}\"}}");
            assert!(runs[0]["settings"].to_string().contains(&setting), "{}", runs[0]["settings"]);
        }
        let refuse =
            |trace: &str, share: &str| refused(&[&["sim", "--trace", trace, "--warmup", share], sort].concat());
        let message = refuse(text(&whole), "100%");
        assert!(message.contains("the trace ends within it, after 1000 requests"), "{message}");
        assert!(refuse(text(&whole), "101%").contains("between 0% and 100%"));
        let message = refuse("-", "20%");
        assert!(message.contains("standard input: warmup: a share") && message.contains("give a file"), "{message}");
        let message = refuse(text(&fifo), "20%");
        assert!(message.contains("fifo: warmup: a share"), "{message}");
    }
    // Workloads are counted as well.
    let random = |warmup| {
        let args = ["--workload", "random", "--limit", "200", "--policy", "lru", "--warmup", warmup];
        results(&quietly(&[&["sim", "--json"][..], &args].concat()))
    };
    assert_eq!(random("25%"), random("50"));
}

#[test]
fn a_trace_that_comes_several_times_has_the_results_of_a_long_one() {
    let folder = tempfile::tempdir().unwrap();
    let times = [0, 3, 6, 9_u64];
    let of = |passes: u64| {
        let all = (0..passes).flat_map(|pass| times.iter().enumerate().map(move |(n, time)| (n, pass * 12 + time)));
        all.fold(String::new(), |mut text, (n, time)| {
            writeln!(text, "0,{},8192,{},{time}", 8 * n, if n == 1 { "R" } else { "W" }).unwrap();
            text
        })
    };
    let once = write(folder.path(), "once.spc", &of(1));
    let long = write(folder.path(), "long.spc", &of(5));
    let around = write(folder.path(), "around.spc", &format!("0,80,512,W,0\n{}0,8,512,W,100\n", of(1)));
    for sort in [BUFFERS, ARRAY] {
        let sim = |trace: &Path, args: &[&str]| {
            quietly(&[&["sim", "--trace", text(trace), "--json", "--warmup", "6"], sort, args].concat())
        };
        let (by_hand, _) = results(&sim(&long, &[]));
        let (repeated, outside) = results(&sim(&once, &["--repeat", "5"]));
        assert_eq!(by_hand, repeated);
        assert!(outside.iter().all(|&n| n == 0));
        let window = ["--skip", "1", "--limit", "4", "--set", "repeat=5"];
        let (repeated, outside) = results(&sim(&around, &window));
        assert_eq!(by_hand, repeated);
        assert!(outside.iter().all(|&n| n == 5), "{outside:?}");
        let counts = (&repeated[0]["input"]["trace_requests"], &repeated[0]["requests"]);
        assert_eq!(counts, (&20.into(), &14.into()));
        let refuse = |args: &[&str]| refused(&[&["sim"], sort, args].concat());
        let message = refuse(&["--trace", "-", "--repeat", "2"]);
        assert!(message.contains("standard input: repeat: a pipe can be read only once"), "{message}");
        assert!(refuse(&["--trace", text(&once), "--repeat", "0"]).contains("a whole number of at least 1"));
        // One time of the window is the warm-up.
        let warm = |warmup| {
            let args = ["--trace", text(&once), "--repeat", "3", "--warmup", warmup, "--json"];
            results(&quietly(&[&["sim"], sort, &args].concat()))
        };
        assert_eq!(warm("100%"), warm("4"));
        // More passes than one, since not all devices have room at a time.
        if sort == BUFFERS {
            let memory = ["--repeat", "3", "--memory", "80MiB"];
            assert_eq!(sim(&once, &memory), sim(&once, &["--repeat", "3"]));
        }
    }
    let random = |args: &[&str]| {
        let all = ["sim", "--workload", "random", "--limit", "50", "--policy", "lru", "--json"];
        let runs: Vec<Value> = serde_json::from_str(&quietly(&[&all, args].concat())).unwrap();
        runs[0]["requests"].as_u64()
    };
    assert_eq!(random(&["--repeat", "7"]), Some(350));
}

#[test]
fn a_trace_needs_no_flag() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write(folder.path(), "whole.spc", &lines(0..100));
    let trace = text(&trace);
    let flag = quietly(&[&["sim", "--trace", trace, "--json"], BUFFERS].concat());
    assert_eq!(quietly(&[&["sim", trace, "--json"], BUFFERS].concat()), flag);
    assert_eq!(quietly(&[&["sim", "--json"], BUFFERS, &[trace]].concat()), flag);
    // As any flag, it overrides what a scenario says.
    let scenario = write(folder.path(), "other.toml", "trace = \"absent\"\n");
    assert_eq!(quietly(&[&["sim", "--json", "--scenario", text(&scenario)], BUFFERS, &[trace]].concat()), flag);
    let both = destage(&["sim", trace, "--trace", trace]);
    let message = String::from_utf8(both.stderr).unwrap();
    assert!(both.status.code() == Some(2) && message.contains("cannot be used with"), "{message}");
    assert_eq!(destage(&["sim", trace, trace]).status.code(), Some(2));
    assert!(refused(&["sim", trace, "--workload", "random"]).contains("'trace' and 'workload' are both given"));
}
