//! `destage trace find` from outside.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::binary;

/// Knows one trace, of three requests.
const KNOWN: &str = r#"
[[family]]
id = "spc"
title = "SPC"
where = "a repository"
formats = ["spc"]

[[trace]]
id = "financial1"
family = "spc"
title = "Financial1"
names = ["financial1"]

[[trace.published]]
source = "a paper"
requests = 3
writes = 1
within = 0
"#;

const TRACE: &str = "0,8,4096,W,0.0\n0,16,4096,R,0.5\n1,24,4096,R,1.0\n";

fn destage(folder: &Path, args: &[&str]) -> Output {
    binary::command(args).current_dir(folder).output().expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

#[test]
fn what_lies_in_a_folder_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    fs::create_dir_all(here.join("all/deeper")).expect("folders");
    fs::write(here.join("known.toml"), KNOWN).expect("a file");
    fs::write(here.join("all/deeper/Financial1.spc"), TRACE).expect("a file");
    fs::write(here.join("all/Financial1.more.spc"), TRACE.repeat(2)).expect("a file");
    fs::write(here.join("all/other.csv"), "128166372000000000,hm,0,Read,0,512,9\n").expect("a file");
    fs::write(here.join("all/notes.txt"), "hello\n").expect("a file");
    // Both names of the command mean the same.
    for command in ["trace", "traces"] {
        let text = stdout(&destage(here, &[command, "find", "all", "--known", "known.toml"]));
        for part in [
            "Financial1.more.spc\n  looks like Financial1, but is not (spc, 6 requests)\n    \
             requests: found 6, expected 3 (a paper)\n    writes: found 2, expected 1 (a paper)\n",
            "deeper/Financial1.spc\n  whole original: Financial1 (spc, 3 requests)\n",
            "other traces: other.csv\n1 other file, which is no trace in a known format\n",
            "gcar      Financial                     Financial1  deeper/Financial1.spc\n",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
    }
    let json = stdout(&destage(here, &["traces", "find", "all", "--known", "known.toml", "--json"]));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let verdicts: Vec<(&str, &str)> = json["files"]
        .as_array()
        .expect("files")
        .iter()
        .map(|file| (file["file"].as_str().expect("a name"), file["verdict"].as_str().expect("a verdict")))
        .collect();
    assert_eq!(
        verdicts,
        [
            ("all/Financial1.more.spc", "not-it"),
            ("all/other.csv", "other-trace"),
            ("all/deeper/Financial1.spc", "whole"),
        ]
    );
    assert_eq!(json["files"][0]["off"][0]["expected"], 3.0);
    assert_eq!((&json["other_files"], &json["skipped"]), (&1.into(), &Value::Array(Vec::new())));
    let gcar = &json["papers"][0];
    assert_eq!(
        (gcar["paper"].as_str(), gcar["traces"][0]["files"][0].as_str()),
        (Some("gcar"), Some("all/deeper/Financial1.spc"))
    );
}

#[test]
fn strangers_are_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    fs::create_dir(here.join("empty")).expect("a folder");
    let text = stdout(&destage(here, &["traces", "find", "empty"]));
    assert!(text.starts_with("there is no file\n") && text.contains("published at: UMass Trace Repository"), "{text}");
    // A file alone is looked at, too.
    fs::write(here.join("hm_0.csv"), "128166372000000000,hm,0,Read,0,512,9\n").expect("a file");
    let text = stdout(&destage(here, &["traces", "find", "hm_0.csv"]));
    assert!(
        text.contains("hm_0.csv\n  looks like MSR Cambridge hm_0, but is not") || text.contains("piece of MSR"),
        "{text}"
    );
    fs::write(here.join("known.toml"), KNOWN.replace("writes = 1", "wirtes = 1")).expect("a file");
    for (args, says) in [
        (&["traces", "find", "nowhere"][..], "destage: nowhere: there is no such folder or file"),
        (&["traces", "find", "empty", "--known", "nothing.toml"], "nothing.toml"),
        (&["traces", "find", "empty", "--known", "known.toml"], "unknown variant `wirtes`"),
    ] {
        let output = destage(here, args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains(says), "{args:?}: {error}");
    }
}
