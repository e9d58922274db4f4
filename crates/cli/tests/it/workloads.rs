//! Workloads from outside: listed, made up, changed and simulated.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::binary::{destage, refused};

fn stdout(args: &[&str]) -> String {
    let output = destage(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

#[test]
fn workloads_are_listed_and_explained() {
    let list = stdout(&["trace", "workloads"]);
    for name in ["exchange", "hpc", "financial1", "web-download", "random"] {
        assert!(list.contains(name), "{name}");
    }
    let one = stdout(&["trace", "workloads", "exchange"]);
    assert!(one.starts_with("exchange (stand-in)\n") && one.contains("LAWC, Table 3"), "{one}");
    assert!(refused(&["trace", "workloads", "exchnge"]).contains("there is no workload 'exchnge'"));
}

#[test]
fn a_workload_simulates_like_its_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("exchange.destage");
    stdout(&["trace", "synth", text(&trace), "--workload", "exchange", "--length", "20000"]);
    let results = |input: &[&str]| -> Vec<Value> {
        let mut args = vec!["sim", "--policy", "lru", "--cache", "1MiB", "--json"];
        args.extend(input);
        serde_json::from_str(&stdout(&args)).expect("results are JSON")
    };
    let mut of_file = results(&["--trace", text(&trace)]);
    let mut of_workload = results(&["--workload", "exchange", "--workload-set", "length=20000"]);
    assert_eq!(of_workload[0]["input"]["trace"], "exchange");
    assert_eq!(of_workload[0]["input"]["format"], "workload");
    let settings = of_workload[0]["settings"].as_array().unwrap();
    assert!(settings.contains(&serde_json::json!({"name": "workload-set", "value": "length=20000"})));
    assert!(!settings.iter().any(|setting| setting["name"] == "lenient"), "it has no meaning here");
    for results in [&mut of_file, &mut of_workload] {
        let result = results[0].as_object_mut().unwrap();
        assert!(result.remove("settings").is_some());
        for key in ["trace", "format"] {
            assert!(result["input"].as_object_mut().unwrap().remove(key).is_some(), "{key}");
        }
    }
    assert_eq!(of_file, of_workload);
}

#[test]
fn a_scenario_file_names_a_workload_beside_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    file("mine.toml", "about = 'a'\nsource = 's'\nkind = 'synthetic'\nlength = 1000\n[[part]]\nspace = '1MiB'\n");
    let run = |scenario: &str| stdout(&["sim", "--scenario", text(&file("scenario.toml", scenario))]);
    assert!(run("workload = 'mine.toml'\npolicy = 'lru'\ncache = '1MiB'\n").contains("mine.toml"));
    let built_in = "workload = 'hpc'\nworkload-set = 'length=50 sizes=4KiB'\npolicy = 'lru'\ncache = '1MiB'\n";
    assert!(run(built_in).contains("hpc"));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    for (args, says) in [
        (&["sim", "--workload", "hpc", "--trace", "x"][..], "'trace' and 'workload' are both given"),
        (&["sim", "--workload", "hpc", "--format", "spc"], "'format' has no meaning for a workload"),
        (&["sim", "--workload-set", "read=5"], "'workload-set' needs a workload"),
        (&["sim", "--workload", "hpc", "--workload-set", "read=500"], "read = '500'"),
        (&["sim"], "give --trace FILE or --workload NAME"),
        (&["trace", "synth", "/dev/null", "--workload", "exchange", "--read", "5"], "there are 2 parts; say which"),
    ] {
        let message = refused(args);
        assert!(message.contains(says), "{message}\nshould say\n{says}");
    }
}
