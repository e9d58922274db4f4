//! Names of files that are not UTF-8.

mod binary;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use binary::{command, quietly};

const TRACE: &str = "0,8,4096,W,0.5\n0,16,4096,R,1.5\n0,8,4096,W,2.5\n";

/// A name with a byte that is never part of UTF-8.
fn unreadable(text: &str) -> OsString {
    let mut name = OsStr::from_bytes(b"caf\xe9.").to_owned();
    name.push(text);
    name
}

/// Calls with a name in the place of `{}`: all are refused, with the argument named, or succeed.
#[test]
fn a_name_that_is_not_utf_8_is_taken_or_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("good.spc"), TRACE).unwrap();
    fs::write(folder.path().join(unreadable("spc")), TRACE).unwrap();
    let calls = [
        "sim {} --policy lru",
        "sim --trace {}",
        "sim --trace={}",
        "sim --set trace={}",
        "sim --scenario {}",
        "sim --workload {}",
        "sim good.spc --policy lru --json={}",
        "sim good.spc --policy lru --csv={}",
        "sim good.spc --policy lru --report {}",
        "trace stat {}",
        "trace head {}",
        "trace convert {} to.destage",
        "trace convert good.spc {}",
        "trace synth {}",
        "trace record /dev/null {}",
        "report {} --out page",
        "report good.spc --out {}",
        "reproduce {}",
        "reproduce gcar --traces {}",
        "man --out {}",
        "{}",
    ];
    for call in calls {
        let name = unreadable("spc");
        let words = call.split(' ').map(|word| match word.split_once("{}") {
            None => OsString::from(word),
            Some((before, _)) => {
                let mut word = OsString::from(before);
                word.push(&name);
                word
            }
        });
        let output = command(&[]).args(words).current_dir(folder.path()).output().expect("the binary starts");
        let message = String::from_utf8(output.stderr).expect("messages are UTF-8");
        assert!(!message.contains("panicked"), "{call}: {message}");
        let code = output.status.code();
        assert!(code == Some(0) || matches!(code, Some(1 | 2)) && !message.is_empty(), "{call}: {code:?} {message}");
        if call.starts_with("sim") || call.starts_with("trace convert") {
            assert_eq!(code, Some(2), "{call}: {message}");
            let named = message.contains("caf\\xe9.spc\" is not UTF-8") && message.contains("another name, or a link");
            assert!(named, "{call}: {message}");
        }
    }
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
