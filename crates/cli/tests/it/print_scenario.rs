//! `destage sim --print-scenario`: what it prints is a scenario file of the same simulation.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::binary::{command, quietly, refused};

/// A folder with a trace, a workload and a scenario that names the trace beside it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut text = String::new();
    for i in 0..2000_u64 {
        let lba = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 46 << 3;
        let op = if i % 5 == 0 { 'R' } else { 'W' };
        writeln!(text, "0,{lba},{},{op},{}.{:03}000", 512 * (1 + i % 40), i / 100, i % 100 * 10).expect("a line");
    }
    fs::write(folder.path().join("a \"trace\".spc"), text).expect("a file");
    let workload = "about = \"A\"\nsource = \"B\"\nkind = \"synthetic\"\nlength = 2000\n[[part]]\nspace = \"64MiB\"\n";
    fs::write(folder.path().join("mine.toml"), workload).expect("a file");
    fs::create_dir(folder.path().join("scenarios")).expect("a folder");
    let scenario = "trace = \"../a \\\"trace\\\".spc\"\npolicy = [\"fab\", \"bplru:padding=never\"]\ncache = [\"1MiB\"]\n\
                    device = \"ssd\"\nssd = { model = \"classic\", elements = 2, copy-back = true, transfer = 2.5 }\n";
    fs::write(folder.path().join("scenarios/own.toml"), scenario).expect("a file");
    folder
}

/// Standard output of a call in a folder that must succeed.
fn printed(folder: &Path, args: &[&str]) -> String {
    let output = command(args).current_dir(folder).output().expect("the binary starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// Results without what a file is called.
fn results(folder: &Path, args: &[&str]) -> Vec<Value> {
    let json = printed(folder, &[&["sim", "--json"], args].concat());
    let mut runs: Vec<Value> = serde_json::from_str(&json).expect("an array");
    for run in &mut runs {
        let name = Path::new(run["input"]["trace"].as_str().expect("a name")).file_name().expect("a name");
        let name = name.to_string_lossy().into_owned();
        run["input"]["trace"] = name.into();
    }
    runs
}

const TRACE: &str = "a \"trace\".spc";

/// Calls of all kinds.
const CALLS: &[&[&str]] = &[
    &["--trace", TRACE],
    &["--trace", TRACE, "--policy", "lru,gcar+lb-clock:opt_preempt=false", "--cache", "1m,64KiB", "--device", "ssd"],
    &["--trace", TRACE, "--device", "analytic", "--policy", "bplru", "--analytic.read", "26us", "--ops", "writes"],
    &["--trace", TRACE, "--device", "ssd", "--ssd.preset", "gcar", "--start", "full", "--lba-overflow", "compact"],
    &["--trace", TRACE, "--device", "ssd", "--ssd.preset", "pm9a3", "--policy", "lru", "--cache", "1MiB"],
    &[
        "--trace",
        TRACE,
        "--device",
        "ssd",
        "--ssd.model",
        "classic",
        "--ssd.collection-batch",
        "2",
        "--ssd.collection-write-point",
        "own",
    ],
    &[
        "--trace",
        TRACE,
        "--device",
        "ssd",
        "--ssd.model",
        "classic",
        "--ssd.ftl",
        "bast",
        "--policy",
        "fab",
        "--warmup",
        "20%",
        "--drain",
    ],
    &["--trace", TRACE, "--device", "ssd", "--ssd.capacity", "1GiB", "--policy", "lru", "--host", "closed:4"],
    &["--scenario", "scenarios/own.toml", "--from", "1s", "--limit", "900", "--set", "warmup=10"],
    &["--workload", "financial1", "--workload-set", "length=500", "--policy", "lru", "--repeat", "2"],
    &["--workload", "mine.toml", "--policy", "clock", "--speed", "1.5"],
    &["--trace", TRACE, "--array", "raid5:3", "--limit", "300"],
    &["--trace", TRACE, "--array", "raid6:5", "--policy", "none,kdd:log=0", "--cache", "4MiB", "--fail", "1@1s"],
    &["--trace", TRACE, "--array", "raid5:3", "--policy", "ggc+wow", "--cache", "1MiB", "--device", "ssd"],
    &["--trace", TRACE, "--array", "raid0:3", "--policy", "none", "--disk.seek", "2ms", "--scheduler", "fcfs,sstf"],
];

#[test]
fn what_is_printed_describes_the_same_simulation() {
    for call in CALLS {
        let folder = folder();
        let at = folder.path();
        let scenario = printed(at, &[&["sim", "--print-scenario"], *call].concat());
        // It may lie anywhere.
        fs::create_dir(at.join("elsewhere")).expect("a folder");
        fs::write(at.join("elsewhere/printed.toml"), &scenario).expect("a file");
        let read = ["--scenario", "elsewhere/printed.toml"];
        let again = printed(at, &[&["sim", "--print-scenario"], &read[..]].concat());
        assert_eq!(again, scenario, "{call:?}");
        assert_eq!(results(at, &read), results(at, call), "{call:?}\n{scenario}");
        // What was given stands there, and what decides nothing does not.
        assert!(scenario.contains("\npage = \"4KiB\"\n") && !scenario.contains("json"), "{scenario}");
    }
}

/// Checks that commented settings, which follow from others, are simulated as well.
#[test]
fn what_stands_in_comments_holds() {
    for call in CALLS {
        let folder = folder();
        let at = folder.path();
        let scenario = printed(at, &[&["sim", "--print-scenario"], *call].concat());
        let mut whole = scenario.replace("\n# ", "\n");
        assert!(whole.starts_with(&scenario[..5]) && whole.len() < scenario.len(), "something follows: {scenario}");
        if scenario.contains("\n# blocks-per-plane") && !scenario.contains("capacity") {
            // It is as large as the preset says.
            whole = whole.replace("[ssd]\n", "[ssd]\ncapacity = \"preset\"\n");
        }
        let fits = whole.contains("capacity = \"fit\"");
        assert!(!fits || !whole.contains("blocks-per-plane") && !whole.contains("lba-overflow"), "{whole}");
        if scenario.contains("capacity = \"1GiB\"") && scenario.contains("\n# blocks-per-plane") {
            whole = whole.replace("capacity = \"1GiB\"", "capacity = \"preset\"");
        }
        fs::write(at.join("whole.toml"), &whole).expect("a file");
        // But for the settings as they were given.
        let bare = |mut runs: Vec<Value>| {
            for run in &mut runs {
                run["settings"] = Value::Null;
            }
            runs
        };
        assert_eq!(bare(results(at, &["--scenario", "whole.toml"])), bare(results(at, call)), "{call:?}\n{whole}");
    }
}

#[test]
fn what_is_wrong_is_refused_all_the_same() {
    let folder = folder();
    let at = |args: &[&str]| {
        let output = command(&[&["sim", "--print-scenario"], args].concat()).current_dir(folder.path()).output();
        let output = output.expect("the binary starts");
        assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{args:?}");
        String::from_utf8(output.stderr).expect("messages are UTF-8")
    };
    assert!(refused(&["sim", "--print-scenario"]).contains("which trace? give --trace FILE"));
    for (args, message) in [
        (&["--trace", "nowhere.spc"][..], "nowhere.spc"),
        (&["--trace", TRACE, "--policy", "lirs"], "'lirs' is not known"),
        (&["--trace", TRACE, "--policy", "gcar+fab+lru"], "there is no layer 'fab'"),
        (&["--trace", TRACE, "--policy", "fab:padding=always"], "no parameter 'padding'"),
        (&["--trace", TRACE, "--policy", "cawr", "--device", "ssd"], "set ssd.model = classic (--ssd.model classic)"),
        (
            &["--trace", TRACE, "--policy", "cawr", "--device", "ssd", "--ssd.model", "classic"],
            "set ssd.allocation = channels",
        ),
        (&["--trace", TRACE, "--cache", "100"], "is not a multiple of the page"),
        (
            &[
                "--trace",
                TRACE,
                "--device",
                "ssd",
                "--ssd.model",
                "classic",
                "--ssd.reserve",
                "5%",
                "--ssd.capacity",
                "1GiB",
            ],
            "raise ssd.reserve",
        ),
        (&["--trace", TRACE, "--ssd.planes", "4"], "'ssd.planes' has no meaning for device = none"),
        (&["--trace", TRACE, "--array", "raid5:2", "--policy", "none"], "raid5"),
        (&["--trace", TRACE, "--array", "raid5:3", "--policy", "lru"], "a buffer inside an SSD"),
        (&["--scenario", "mine.toml"], "there is no key"),
    ] {
        let refusal = at(args);
        assert!(refusal.contains(message), "{args:?}: {refusal}");
    }
}

/// The demonstration's own scenario, and a trace from a pipe.
#[test]
fn scenarios_that_are_there_are_printed() {
    let checkout = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    for name in ["scenarios/demo.toml", "scenarios/raid5.toml"] {
        let path = checkout.join(name);
        let path = path.to_str().expect("paths here are UTF-8");
        let scenario = quietly(&["sim", "--scenario", path, "--print-scenario"]);
        assert!(scenario.lines().count() > 20, "{scenario}");
    }
    let pipe = quietly(&["sim", "--trace", "-", "--format", "spc", "--policy", "lru", "--print-scenario"]);
    assert!(pipe.starts_with("trace = \"-\"\nformat = \"spc\"\n"), "{pipe}");
}
