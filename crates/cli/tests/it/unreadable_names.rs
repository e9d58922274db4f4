//! Names of files that are not UTF-8.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::binary::{command, quietly};

const TRACE: &str = "0,8,4096,W,0.5\n0,16,4096,R,1.5\n0,8,4096,W,2.5\n";

/// A name with a byte that is never part of UTF-8.
fn unreadable(text: &str) -> OsString {
    let mut name = OsStr::from_bytes(b"caf\xe9.").to_owned();
    name.push(text);
    name
}

/// Calls with the name of a file, and of another, in the places of `{}` and `{new}`: each does what it would with any name.
#[test]
fn a_name_that_is_not_utf_8_is_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let inside = |name: &OsStr| folder.path().join(name);
    fs::write(inside(OsStr::new("good.spc")), TRACE).unwrap();
    fs::write(inside(&unreadable("spc")), TRACE).unwrap();
    fs::create_dir(inside(&unreadable("man"))).unwrap();
    let settings = "trace = 'caf\\xe9.spc'\npolicy = \"lru\"\ncache = \"1MiB\"\n";
    fs::write(inside(&unreadable("toml")), settings).unwrap();
    let grid = "traces = [\"caf\\\\xe9.s*\"]\n[grid]\npolicy = \"lru\"\ncache = \"1MiB\"\n";
    fs::write(inside(&unreadable("grid")), grid).unwrap();
    let calls = [
        "sim {}.spc --policy lru",
        "sim --trace {}.spc",
        "sim --trace={}.spc --resume {new}.d",
        "sim --set trace=caf\\xe9.spc",
        "sim --set trace='caf\\xe9.spc'",
        "sim --scenario {}.toml",
        "sim good.spc --policy lru --cache 1MiB --json={new}.json",
        "sim good.spc --policy lru --cache 1MiB --csv {new}.csv",
        "sim good.spc --policy lru --cache 1MiB --latency-log={new}.log.csv",
        "sim good.spc --policy lru --cache 1MiB --report {new}.page",
        "sweep {}.grid --out {new}.rows",
        "advise {}.spc --budget 1MiB --report {new}.advice",
        "trace stat {}.spc",
        "trace head {}.spc",
        "trace mrc {}.spc",
        "trace convert {}.spc to.destage",
        "trace convert good.spc {new}.destage",
        "trace convert {}.spc {new}.msr --to msr",
        "trace synth {new}.synth --length 100",
        "report {new}.json --out {new}.again",
        "man --out {new}.man",
    ];
    for call in calls {
        let new = call
            .split_once("{new}")
            .map(|(_, end)| unreadable(end.split(' ').next().unwrap_or("").trim_start_matches('.')));
        let output = command(&[]).args(call.split(' ').map(named)).current_dir(folder.path()).output().unwrap();
        let message = String::from_utf8(output.stderr).expect("messages are UTF-8");
        // No shell takes these quotes away.
        let refused = call.contains('\'');
        assert_eq!(output.status.success(), !refused, "{call}: {message}");
        assert!(!message.contains("panicked"), "{call}: {message}");
        if !refused {
            assert!(new.is_none_or(|new| inside(&new).exists()), "{call}: {message}");
        }
    }
}

/// Gives a file by the text that names it in messages.
#[test]
fn the_text_of_a_name_leads_back_to_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(unreadable("spc")), TRACE).unwrap();
    // Looks like such a text, and is a name of its own.
    fs::write(folder.path().join(r"caf\xe9.spc"), "0,8,4096,W,0.5\n").unwrap();
    let run = |words: &[OsString]| {
        let output = command(&[]).args(words).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("results are UTF-8")
    };
    let words = |text: &str| text.split(' ').map(named).collect::<Vec<_>>();
    for (name, text, requests) in
        [(unreadable("spc"), r"caf\xe9.spc", 3), (r"caf\xe9.spc".into(), r"caf\x5cxe9.spc", 1)]
    {
        let mut sim = words("sim --policy lru --cache 1MiB --json --trace");
        sim.push(name.clone());
        let json: serde_json::Value = serde_json::from_str(&run(&sim)).unwrap();
        let input = &json[0]["input"];
        assert_eq!((&input["trace"], &input["trace_requests"]), (&text.into(), &requests.into()), "{input}");
        // The scenario that is printed is of the same trace, wherever it lies.
        let mut print = words("sim --policy lru --cache 1MiB --print-scenario");
        print.push(name);
        let elsewhere = tempfile::tempdir().unwrap();
        let scenario = elsewhere.path().join("printed.toml");
        fs::write(&scenario, run(&print)).unwrap();
        let again: serde_json::Value =
            serde_json::from_str(&run(&["sim".into(), "--scenario".into(), scenario.into(), "--json".into()])).unwrap();
        assert_eq!(again[0]["input"]["trace_requests"], requests);
    }
}

/// An array, its members and its socket; and an export of which the name has what a URI may not have.
#[test]
fn an_array_may_lie_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let run = |call: &str| {
        let output = command(&[]).args(call.split(' ').map(named)).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{call}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let files = "--member {}.0 --member {}.1 --member {}.2 --member {}.3 --cache-device {}.cache";
    run(&format!(
        "create --dev {{}}.array {files} --level raid5:4 --member-size 4MiB --policy write-back --cache 1MiB"
    ));
    let text = fs::read_to_string(folder.path().join(unreadable("array")).join("array.toml")).unwrap();
    assert!(text.contains(r"caf\xe9.cache'"), "{text}");
    assert!(folder.path().join(unreadable("3")).exists());
    // The shell puts the words together.
    let uri = run("serve {}.array --socket {}.s --name a&b/%c --run printf${IFS}%s${IFS}$uri");
    assert_eq!(uri, "nbd+unix:///a%26b/%25c?socket=caf%E9.s");
    let ask =
        format!("serve {{}}.array --run {}${{IFS}}status${{IFS}}*.array${{IFS}}--json", env!("CARGO_BIN_EXE_destage"));
    let status: serde_json::Value = serde_json::from_str(&run(&ask)).unwrap();
    assert!(status["array"]["devices"][4]["path"].as_str().unwrap().ends_with(r"/caf\xe9.cache"), "{status}");
}

/// Names the argument, with what would be right, where no file is named.
#[test]
fn text_that_is_not_utf_8_is_refused() {
    for call in ["sim good.spc --policy {}", "sim --set trace={}", "trace convert a b --to {}", "policies {}"] {
        let output = command(&[]).args(call.split(' ').map(named)).output().unwrap();
        let message = String::from_utf8(output.stderr).expect("messages are UTF-8");
        assert_eq!(output.status.code(), Some(2), "{call}: {message}");
        let told = message.contains(r#"caf\xe9." is not UTF-8"#) && message.contains(r"write a file's name with \xHH");
        assert!(told, "{call}: {message}");
    }
}

/// A word of a call, with the name in its place.
fn named(word: &str) -> OsString {
    let Some((before, after)) = word.split_once("{}").or_else(|| word.split_once("{new}")) else {
        return word.into();
    };
    let mut whole = OsString::from(before);
    whole.push(unreadable(after.trim_start_matches('.')));
    whole
}

#[test]
fn a_folder_may_have_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join(unreadable("d"));
    fs::create_dir(&inside).unwrap();
    fs::write(inside.join("good.spc"), TRACE).unwrap();
    fs::write(inside.join("sim.toml"), "trace = \"good.spc\"\npolicy = \"lru\"\ncache = \"1MiB\"\n").unwrap();
    let call = ["sim", "--scenario", "sim.toml", "--json=out.json", "--csv=out.csv", "--report", "page"];
    let output = command(&call).current_dir(&inside).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for file in ["out.json", "out.csv", "page/index.html"] {
        assert!(inside.join(file).exists(), "{file}");
    }
    // A link with a readable name leads to what has none.
    let link = folder.path().join("link.spc");
    let target = folder.path().join(unreadable("spc"));
    fs::write(&target, TRACE).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert!(quietly(&["trace", "head", text(&link)]).starts_with("time_ns,"));
    assert!(quietly(&["sim", text(&link), "--policy", "lru", "--cache", "1MiB"]).contains("3 requests"));
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}
