//! Exit statuses are what the help says, every command's help and manual page end with examples,
//! and the examples that can be tried work.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use destage_engine::ArrayState;

use crate::binary::{command, quietly, signalled};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");

/// The statuses that a text explains: those that begin its lines, each with an explanation.
fn explained(text: &str) -> BTreeSet<i32> {
    let lines = text.lines().filter_map(|line| line.trim_start().split_once(' '));
    lines.filter(|(_, meaning)| !meaning.trim().is_empty()).filter_map(|(status, _)| status.parse().ok()).collect()
}

fn code(args: &[&str]) -> Option<i32> {
    command(args).stdin(Stdio::null()).output().expect("the binary starts").status.code()
}

#[test]
fn the_help_explains_each_exit_status() {
    let mut seen = BTreeSet::new();
    let mut is = |status: Option<i32>, wanted: i32, of: &str| {
        assert_eq!(status, Some(wanted), "{of}");
        seen.insert(wanted);
    };
    for done in [&["policies", "lru"][..], &["--help"], &["--version"], &["sim", "--help"], &["help", "trace"]] {
        is(code(done), 0, &done.join(" "));
    }
    for failing in [&["policies", "tape"][..], &["sim", "--trace", "nowhere"], &["sim"], &["trace", "stat", "nowhere"]]
    {
        is(code(failing), 1, &failing.join(" "));
    }
    let misspelt: [&[&str]; 7] = [
        &[],
        &["trace"],
        &["polices"],
        &["sim", "--polcy", "lru"],
        &["trace", "stat"],
        &["report", "x.json"],
        &["trace", "head", "x", "-n", "many"],
    ];
    for wrong in misspelt {
        is(code(wrong), 2, &wrong.join(" "));
    }
    let no_text = command(&["policies"]).arg(std::ffi::OsStr::from_bytes(b"\xff")).output().expect("the binary starts");
    is(no_text.status.code(), 2, "what is not UTF-8");
    for (signal, status) in [("HUP", 129), ("INT", 130), ("TERM", 143)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut call = signalled(&["sim", "--trace", "-", "--format", "spc", "--csv=out.csv"]);
        let mut child = call.current_dir(folder.path()).stdin(Stdio::piped()).spawn().expect("the binary starts");
        while fs::read_dir(folder.path()).expect("a folder").next().is_none() {
            assert!(child.try_wait().expect("a child").is_none(), "it waits for its input");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().expect("kill starts");
        assert!(sent.success());
        // To wait for it would close it, which may come before the signal.
        let _input = child.stdin.take();
        is(child.wait().expect("a child").code(), status, signal);
        assert!(fs::read_dir(folder.path()).expect("a folder").next().is_none(), "{signal}: nothing is left");
    }
    // Those of `destage status` are seen by the tests of the service.
    seen.extend([ArrayState::Degraded, ArrayState::Failed].map(|state| i32::from(state.exit_status())));
    let help = quietly(&["--help"]);
    let (_, statuses) = help.split_once("Exit status:\n").expect("a section");
    assert_eq!(explained(statuses), seen, "{help}");
    for page in [&["man"][..], &["man", "sim"], &["man", "trace", "convert"]] {
        let page = quietly(page);
        let (_, statuses) = page.split_once(".SH \"EXIT STATUS\"\n").expect("a section");
        let bold = statuses.lines().filter_map(|line| line.strip_prefix("\\fB")?.strip_suffix("\\fR"));
        assert_eq!(bold.filter_map(|status| status.parse().ok()).collect::<BTreeSet<i32>>(), seen, "{page}");
    }
    let readme = fs::read_to_string(README).expect("it is there");
    let (_, section) = readme.split_once("**Exit status.** ").expect("a section");
    let section = section.split("\n\n").next().unwrap_or_default();
    let numbers = section.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
    assert_eq!(numbers.collect::<BTreeSet<i32>>(), seen, "{section}");
}

/// Lets commands fail by errors of each layer whose text has that of their cause.
#[test]
fn the_cause_of_an_error_is_told_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = |args: &[&str]| {
        let output = command(args).current_dir(folder.path()).output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        String::from_utf8_lossy(&output.stderr).trim_end().to_owned()
    };
    let small = ["--level", "raid5:3", "--member-size", "1MiB"];
    let made = command(&["create", "array"]).args(small).current_dir(folder.path()).output();
    assert!(made.expect("the binary starts").status.success());
    fs::write(folder.path().join("file"), "").expect("a file");
    let failing: [(&[&str], &str); 6] = [
        (&["serve", "nowhere"], "destage: nowhere: No such file or directory (os error 2)"),
        (&["serve", "file"], "destage: file: "),
        (
            &["serve", "array", "--control", "nowhere/c", "--run", "true"],
            "destage: cannot take orders at nowhere/c: cannot make the control socket: No such file or directory (os error 2)",
        ),
        (
            &["serve", "array", "--socket", "nowhere/c", "--run", "true"],
            "destage: cannot listen at nowhere/c: No such file or directory (os error 2)",
        ),
        (
            &["create", "other", "--adopt", "--member", "nowhere", "--member", "array/member1"],
            "destage: nowhere: cannot read md's superblock: No such file or directory (os error 2)",
        ),
        (&["sim", "--trace", "nowhere"], "destage: nowhere: cannot be opened: No such file or directory (os error 2)"),
    ];
    for (args, wanted) in failing {
        let said = said(args);
        assert!(said.starts_with(wanted), "{args:?}: {said}");
        assert!(!said[wanted.len()..].contains("os error"), "{args:?}: {said}");
    }
    // Of the executor: a member's file cannot be made.
    let mut create = vec!["create", "third"];
    create.extend(small);
    create.extend(["--member", "nowhere/a", "--member", "nowhere/b", "--member", "nowhere/c"]);
    let said = said(&create);
    assert_eq!(said.matches("os error 2").count(), 1, "{said}");
}

/// Every command's words, from the help.
fn commands(at: &str, into: &mut Vec<String>) {
    into.push(at.to_owned());
    let words: Vec<&str> = at.split_whitespace().chain(["--help"]).collect();
    let help = quietly(&words);
    let Some((_, list)) = help.split_once("Commands:\n") else { return };
    let names = list.lines().take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
    for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        commands(format!("{at} {name}").trim(), into);
    }
}

/// The examples at the end of a command's help.
fn examples(at: &str) -> Vec<String> {
    let words: Vec<&str> = at.split_whitespace().chain(["--help"]).collect();
    let help = quietly(&words);
    let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{at}: no examples\n{help}"));
    let examples = examples.split("\n\n").next().unwrap_or_default();
    let lines = examples.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    lines.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn help_and_manual_pages_show_examples() {
    let mut all = Vec::new();
    commands("", &mut all);
    assert!(all.len() > 15, "{all:?}");
    for at in &all {
        let examples = examples(at);
        assert!((2..=4).contains(&examples.len()), "{at}: {examples:?}");
        let words: Vec<&str> = std::iter::once("man").chain(at.split_whitespace()).collect();
        let page = quietly(&words).replace("\\-", "-").replace("\\(aq", "'");
        let (_, section) = page.split_once(".SH EXAMPLES\n").expect("a section");
        for example in &examples {
            assert!(section.contains(example.as_str()), "{at}: {example}\n{section}");
        }
    }
}

/// Tries the examples: those of `sim` name settings that hold, and those that only look at something work.
#[test]
fn examples_that_can_be_tried_work() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let line = |i: u32| format!("  8,0    1 {i:8} {}.{:09} 1 D  WS {} + 8 [x]\n", i / 100, i, i % 150 * 8);
    fs::write(folder.path().join("mine.blkparse"), (1..200).map(line).collect::<String>()).expect("a file");
    let mut tried = 0;
    for (at, more) in [
        ("sim", Some("--print-scenario")),
        ("", None),
        ("policies", None),
        ("schema", None),
        ("trace stat", None),
        ("trace head", None),
        ("trace workloads", None),
        ("trace formats", None),
        ("trace convert", None),
        ("trace synth", None),
        ("completions", None),
        ("man", None),
    ] {
        for example in examples(at) {
            let call = example.split([' ', '\n']).take_while(|word| *word != "|" && !word.starts_with('>'));
            let mut words: Vec<&str> = call.collect();
            // Files that are not here, and what writes elsewhere.
            let absent =
                words.iter().any(|word| word.contains(".csv") || word.starts_with('~') || word.ends_with(".destage"));
            if words.first() != Some(&"destage") || absent && !example.contains("mine.blkparse") && at != "trace synth"
            {
                continue;
            }
            words.extend(more.filter(|more| !words.contains(more)));
            if words.contains(&"sim") && more.is_none() {
                words.push("--print-scenario");
            }
            let output = command(&words[1..]).current_dir(folder.path()).output().expect("the binary starts");
            assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
            assert!(!output.stdout.is_empty() || matches!(at, "trace convert" | "trace synth"), "{example}");
            tried += 1;
        }
    }
    assert!(tried > 20, "only {tried}");
}

/// Makes the arrays of the examples of `create`, but for what takes over one of md's, and serves them.
#[test]
fn examples_of_create_make_arrays() {
    let mut tried = 0;
    for example in examples("create").iter().filter(|example| !example.contains("--adopt")) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let words: Vec<&str> = example.split_whitespace().skip(1).collect();
        let output = command(&words).current_dir(folder.path()).output().expect("the binary starts");
        assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
        let served = ["serve", "array", "--run", "true"];
        let output = command(&served).current_dir(folder.path()).output().expect("the binary starts");
        assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
        tried += 1;
    }
    assert_eq!(tried, 3);
}

#[test]
fn creating_what_its_file_system_has_no_room_for_is_warned_of() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let room = rustix::fs::statvfs(folder.path()).expect("a file system");
    let gib = (room.f_bavail * room.f_frsize) >> 30;
    // Four members, each with about as much as there is.
    for (size, warns) in [(format!("{}GiB", gib + 1), true), ("64MiB".to_owned(), false)] {
        let words = ["create", &size, "--level", "raid5:4", "--member-size", &size];
        let output = command(&words).current_dir(folder.path()).output().expect("the binary starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.contains("warning: the files may come to take"), warns, "{said}");
    }
}
