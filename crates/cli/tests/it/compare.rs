//! `destage report A.json B.json --compare`: two results side by side, on the terminal and as JSON.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::binary::command;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut text = String::new();
    for i in 0..3000_u64 {
        let lba = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 49 << 3;
        let op = if i % 5 == 0 { 'R' } else { 'W' };
        writeln!(text, "0,{lba},{},{op},{}.{:03}000", 4096 * (1 + i % 4), i / 100, i % 100 * 10).expect("a line");
    }
    fs::write(folder.path().join("t.spc"), text).expect("a file");
    folder
}

/// Returns the output of a call in a folder.
fn printed(folder: &Path, args: &[&str]) -> String {
    let output = command(args).current_dir(folder).output().expect("the binary starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// Simulates into a file; returns what is in it.
fn simulate(folder: &Path, file: &str, args: &[&str]) -> Vec<Value> {
    let to = format!("--json={file}");
    printed(folder, &[&["sim", "t.spc", "--cache", "64KiB,1MiB", &to], args].concat());
    serde_json::from_slice(&fs::read(folder.join(file)).expect("results")).expect("JSON")
}

fn compared(folder: &Path) -> Value {
    serde_json::from_str(&printed(folder, &["report", "a.json", "b.json", "--compare", "--json"])).expect("JSON")
}

/// The number at a path of a result.
fn at(run: &Value, path: &str) -> Option<f64> {
    path.split('.').try_fold(run, |value, key| value.get(key))?.as_f64()
}

const FIGURES: [(&str, &str); 5] = [
    ("mean_response", "response.all.mean"),
    ("p99_9_response", "response.all.p99_9"),
    ("hit_ratio", "hit_ratio"),
    ("write_amplification", "ssd.write_amplification"),
    ("erases", "erases"),
];

#[test]
fn runs_with_the_same_policy_and_size_stand_side_by_side() {
    let folder = folder();
    let path = folder.path();
    let a = simulate(path, "a.json", &["--device", "ssd", "--policy", "lru,fab,gcar+lru:reads=bypass"]);
    let b = simulate(
        path,
        "b.json",
        &["--device", "ssd", "--policy", "clock,gcar+lru:reads=bypass,lru", "--host", "closed:4"],
    );
    let both = compared(path);
    assert_eq!(both["differences"], json!({"host": ["open", "closed:4"]}));
    assert_eq!(both["files"], json!(["a.json", "b.json"]));
    let runs = both["runs"].as_array().expect("a list");
    let names: Vec<_> = runs.iter().map(|run| (run["policy"].as_str().expect("a name"), &run["cache_bytes"])).collect();
    let (small, large) = (json!(65_536), json!(1_048_576));
    let layered = "gcar+lru:reads=bypass";
    assert_eq!(names, [("lru", &small), ("lru", &large), (layered, &small), (layered, &large)]);
    for run in runs {
        let own = |all: &[Value]| {
            let name = run["policy"].as_str().expect("a name").split(':').next().map(str::to_owned);
            let same = |of: &&Value| {
                of["policy"].as_str().map(str::to_owned) == name && of["cache_bytes"] == run["cache_bytes"]
            };
            all.iter().find(same).expect("its run").clone()
        };
        let (first, second) = (own(&a), own(&b));
        for (name, path) in FIGURES {
            let [one, other] = [&first, &second].map(|run| at(run, path).unwrap_or_else(|| panic!("{path} in {run}")));
            assert_eq!([&run[name]["first"], &run[name]["second"]], [&json!(one), &json!(other)], "{name}");
            let change = run[name]["change"].as_f64();
            let expected =
                if other - one == 0.0 { Some(0.0) } else { Some((other - one) / one).filter(|_| one != 0.0) };
            assert_eq!(change, expected, "{name}: {run}");
        }
        assert_eq!(run["saturated"], json!({"first": false, "second": false}));
    }
    assert!(runs.iter().any(|run| run["mean_response"]["change"].as_f64().is_some_and(|change| change != 0.0)));
    let alone = |side: &str| -> Vec<&str> {
        both[side].as_array().expect("a list").iter().filter_map(|run| run["policy"].as_str()).collect()
    };
    assert_eq!([alone("only_first"), alone("only_second")], [vec!["fab", "fab"], vec!["clock", "clock"]]);

    let shown = printed(path, &["report", "a.json", "b.json", "--compare"]);
    assert!(shown.lines().all(|line| line.chars().count() <= 80 && line.trim_end() == line), "{shown}");
    for part in ["A  a.json", "B  b.json", "host ", "closed:4", "mean A", "erases B", "Only in A", "Only in B", "same"]
    {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    // A result beside itself.
    let same = printed(path, &["report", "a.json", "a.json", "--compare"]);
    assert!(!same.contains(" +") && !same.contains("-0."), "{same}");
    assert!(!same.contains("not the same") && !same.contains("Only in") && same.contains("same"), "{same}");
}

#[test]
fn settings_that_runs_of_a_policy_differ_in_have_to_be_the_same() {
    let folder = folder();
    let path = folder.path();
    let array = |file: &str, more: &[&str]| {
        simulate(path, file, &[&["--array", "raid5:3", "--policy", "none,wow", "--limit", "300"], more].concat())
    };
    array("a.json", &["--scheduler", "clook,sstf", "--chunk", "16KiB"]);
    let b = array("b.json", &["--scheduler", "sstf,fcfs"]);
    let both = compared(path);
    assert_eq!(both["differences"], json!({"chunk": ["16KiB", "64KiB"]}));
    let runs = both["runs"].as_array().expect("a list");
    // None once, and the cache at two sizes, of the one order that both have.
    let sstf = json!({"scheduler": "sstf"});
    assert!(runs.len() == 3 && runs.iter().all(|run| run["setting"] == sstf), "{both}");
    let second = b.iter().find(|run| run["policy"] == "none" && run["scheduler"] == "sstf").expect("its run");
    assert_eq!(runs[0]["mean_response"]["second"].as_f64(), at(second, "response.all.mean"));
    let orders = |side: &str| -> Vec<&Value> {
        both[side].as_array().expect("a list").iter().map(|run| &run["setting"]["scheduler"]).collect()
    };
    assert!(orders("only_first").iter().all(|order| **order == "clook") && orders("only_first").len() == 3, "{both}");
    assert!(orders("only_second").iter().all(|order| **order == "fcfs") && orders("only_second").len() == 3, "{both}");
    let shown = printed(path, &["report", "a.json", "b.json", "--compare"]);
    assert!(shown.contains("none (scheduler") && shown.contains("chunk"), "{shown}");

    // Members of another kind: erases of one alone, and what a policy has of its own stays with it.
    array("a.json", &[]);
    array("b.json", &["--device", "ssd"]);
    let both = compared(path);
    assert_eq!(both["runs"].as_array().map(Vec::len), Some(3), "{both}");
    assert_eq!(both["differences"]["device"], json!(["disk", "ssd"]));
    assert_eq!([&both["only_first"], &both["only_second"]], [&json!([]), &json!([])]);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let folder = folder();
    let path = folder.path();
    simulate(path, "a.json", &["--policy", "lru"]);
    simulate(path, "b.json", &["--array", "raid5:3", "--policy", "none,wow", "--limit", "100"]);
    let code = |args: &[&str]| {
        let output = command(args).current_dir(path).output().expect("the binary starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for files in [&["a.json"][..], &["a.json", "a.json", "b.json"]] {
        let (status, message) = code(&[&["report"], files, &["--compare"]].concat());
        assert!(status == Some(1) && message.contains("--compare puts two results side by side"), "{message}");
    }
    assert_eq!(code(&["report", "a.json", "t.spc", "--compare"]).0, Some(1));
    assert_eq!(code(&["report", "a.json", "b.json", "--compare", "--out", "page"]).0, Some(2));
    assert_eq!(code(&["report", "a.json", "b.json", "--json"]).0, Some(2));
    assert!(!path.join("page").exists());
    // Runs of another kind have nothing in common.
    let both = compared(path);
    assert_eq!(both["runs"], json!([]), "{both}");
    assert!(printed(path, &["report", "a.json", "b.json", "--compare"]).contains("No run of A has policy"));
}
