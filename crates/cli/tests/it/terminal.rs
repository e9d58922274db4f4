//! Checks what people see: widths, colours, characters, completions and manual pages.
//!
//! The binary runs with pipes and, where it matters, on a terminal of the test's own.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;

use crate::binary::{command, quietly, refused};

/// The escape character that begins every code for a colour.
const ESCAPE: char = '\u{1b}';

fn skip(test: &str, why: &str) {
    // Past the harness's capture, so that the count of what was skipped sees it.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// A folder with a small trace of writes and reads called `small.spc`, and a paper with a claim
/// about it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut text = String::new();
    let mut x = 1_u64;
    for i in 0..3000_u64 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lba = (x >> 33) % 30_000 / 8 * 8;
        let bytes = 4096 * (1 + (x >> 20) % 8);
        let op = if x >> 60 < 4 { 'R' } else { 'W' };
        writeln!(text, "0,{lba},{bytes},{op},{}.{:06}", i / 100, i % 100 * 10_000).expect("a line");
    }
    fs::write(folder.path().join("small.spc"), text).expect("a file");
    let paper = r#"
        name = "small"
        title = "A small paper"
        about = "About."
        verdict = "Verdict."
        seeds = 2
        policies = ["bplru", "lb-clock"]
        settings = { device = "analytic", page = "4KiB" }
        [[workload]]
        name = "a workload that has a long name, and is there"
        provenance = "original"
        stands-for = ["Trace"]
        files = ["small.spc"]
        [[workload]]
        name = "a workload that has a long name, and is not there"
        provenance = "original"
        stands-for = ["Trace"]
        files = ["missing.spc"]
        [[claim]]
        id = "S1"
        where = "text"
        workload = "Trace"
        metric = "throughput"
        new = "lb-clock"
        than = "bplru"
        caches = ["1MiB", "4MiB"]
        claimed = [1, 9]
    "#;
    fs::write(folder.path().join("small.toml"), paper).expect("a file");
    folder
}

/// Returns the output of a call that must succeed, in a locale.
fn printed(folder: &Path, locale: &str, args: &[&str]) -> String {
    let output = command(args).env("LC_ALL", locale).current_dir(folder).output().expect("the binary starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// Returns what a call shows on a terminal of so many columns: standard output and standard error together, with the
/// lines' ends as in a file.
///
/// None, and a word about it, where there are no terminals.
fn shown(test: &str, call: &mut Command, columns: u16) -> Option<String> {
    let open = || -> std::io::Result<(OwnedFd, OwnedFd)> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let slave = ioctl_tiocgptpeer(&master, flags)?;
        tcsetwinsize(&slave, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
        Ok((master, slave))
    };
    let (master, slave) = match open() {
        Ok(terminal) => terminal,
        Err(error) => {
            skip(test, &format!("no terminal can be made: {error}"));
            return None;
        }
    };
    call.stdin(Stdio::null()).stdout(slave.try_clone().expect("a descriptor")).stderr(slave);
    let mut child = call.spawn().expect("the binary starts");
    // The command keeps the terminal open until it gets others.
    call.stdout(Stdio::null()).stderr(Stdio::null());
    let mut bytes = Vec::new();
    // Once nobody has the terminal open any more, reading fails.
    let _ = fs::File::from(master).read_to_end(&mut bytes);
    child.wait().expect("it ends");
    Some(String::from_utf8(bytes).expect("output is UTF-8").replace("\r\n", "\n"))
}

/// The text without codes for colours.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut parts = text.split(ESCAPE);
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    plain
}

/// Every policy, and every layer around each policy that it goes around, as `destage policies`
/// lists them.
fn specs(place: &str) -> Vec<String> {
    let all: Value = serde_json::from_str(&quietly(&["policies", "--json"])).expect("JSON");
    let all = all.as_array().expect("a list");
    let name = |policy: &Value| policy["name"].as_str().expect("a name").to_owned();
    let own = all.iter().filter(|policy| policy["place"] == place).map(name);
    let around = all.iter().filter(|policy| place == "ssd" && policy["place"] == "layer").flat_map(|layer| {
        let inside = layer["around"].as_array().expect("a list").iter();
        inside.map(|policy| format!("{}+{}", name(layer), policy.as_str().expect("a name"))).collect::<Vec<_>>()
    });
    own.chain(around).collect()
}

/// The longest names that there are, and names at which nothing is short.
const LONG: &str = "gcar+cave+bplru:padding=never:compensation=off:seq_detect=last_page_full,\
                    gcar+lb-clock:insert_anchor=current_hand:candidate_rule=all_zero:opt_preempt=false,\
                    gcar+gate+ccf-lru:new_dirty_cold=true:hot_clean=spare:gcar_all_gc=bypass:gcar_soon_margin=3";

#[test]
fn every_table_fits_80_columns_and_the_locale() {
    let folder = folder();
    let policies = specs("ssd");
    let without_layers: Vec<&str> = policies.iter().map(String::as_str).filter(|name| !name.contains('+')).collect();
    let (all, plain_ones, host) = (policies.join(","), without_layers.join(","), specs("host").join(","));
    let sim = ["sim", "--trace", "small.spc", "--limit", "1000"];
    let array = ["--array", "raid5:5", "--member-size", "64MiB", "--chunk", "64KiB", "--volumes", "merge"];
    let ssd = ["--device", "ssd", "--ssd.model", "classic", "--ssd.allocation", "channels", "--cache", "1MiB"];
    let mut calls: Vec<Vec<&str>> = vec![
        vec!["policies"],
        vec!["policies", "none"],
        vec!["policies", "gcar+cave+bplru"],
        vec!["policies", "ggc+kdd"],
        vec!["schema"],
        vec!["schema", "--array"],
        vec!["schema", "--locality"],
        vec!["schema", "--stat"],
        vec!["trace", "formats"],
        vec!["trace", "workloads"],
        vec!["trace", "stat", "small.spc", "small.spc"],
        vec!["trace", "stat", "small.spc", "--locality"],
        vec!["reproduce", "small.toml", "--traces", "."],
        [&sim[..], &["--policy", &plain_ones, "--cache", "64KiB,1MiB,512MiB"]].concat(),
        [&sim[..], &["--policy", &plain_ones, "--device", "analytic"]].concat(),
        [&sim[..], &ssd, &["--policy", &all]].concat(),
        [&sim[..], &ssd, &["--policy", LONG]].concat(),
        [&sim[..], &ssd, &["--policy", "lru,bplru", "--host", "closed:8", "--warmup", "100"]].concat(),
        // So fast that nothing keeps up.
        [&sim[..], &ssd, &["--policy", "none,bplru", "--speed", "1000", "--max-backlog", "50"]].concat(),
        [&sim[..], &array, &["--policy", &host, "--cache", "1MiB,64MiB", "--device", "disk"]].concat(),
        [
            &sim[..],
            &array,
            &["--policy", &host, "--cache", "1MiB", "--device", "fixed", "--fail", "1@1s", "--replace", "1@3s"],
        ]
        .concat(),
        [
            &sim[..],
            &array,
            &["--policy", "write-through:ways=128", "--cache", "1MiB", "--scheduler", "fcfs,clook,sstf,sptf"],
        ]
        .concat(),
    ];
    let workloads = quietly(&["trace", "workloads"]);
    let names: Vec<&str> = workloads.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"exchange"));
    calls.extend(names.iter().filter(|name| !name.is_empty()).map(|name| vec!["trace", "workloads", name]));
    for call in &calls {
        for locale in ["C.UTF-8", "C"] {
            let output = printed(folder.path(), locale, call);
            assert!(!output.trim().is_empty(), "{call:?}");
            for line in output.lines() {
                assert!(line.chars().count() <= 80, "{call:?} in {locale}: {line}\n{output}");
                assert!(locale != "C" || line.is_ascii(), "{call:?}: {line}");
                assert!(!line.contains(ESCAPE) && line.trim_end() == line, "{call:?}: {line:?}");
            }
        }
    }
}

#[test]
fn names_of_policies_are_never_cut() {
    let folder = folder();
    let device = [
        "--device",
        "ssd",
        "--ssd.model",
        "classic",
        "--ssd.allocation",
        "channels",
        "--cache",
        "1MiB",
        "--limit",
        "200",
    ];
    for spec in LONG.split(',') {
        let call = [&["sim", "--trace", "small.spc", "--policy", spec][..], &device].concat();
        let output = printed(folder.path(), "C.UTF-8", &call);
        // Its pieces stand below each other, figures beside one of them; the parameters may come in
        // another order.
        let first: Vec<&str> = output.lines().filter_map(|line| line.split(' ').next()).collect();
        let name = first.concat();
        let pieces = spec.split_inclusive('+').flat_map(|part| part.split(':'));
        for piece in pieces {
            assert!(name.contains(piece), "{piece} of {spec}:\n{output}");
        }
    }
}

#[test]
fn a_terminal_decides_the_width_and_a_pipe_does_not() {
    const TEST: &str = "a_terminal_decides_the_width_and_a_pipe_does_not";
    let folder = folder();
    let sim = ["sim", "--trace", "small.spc", "--device", "ssd", "--policy", "lru,fab", "--cache", "1MiB"];
    for args in [&sim[..], &["policies"], &["trace", "formats"]] {
        let piped = printed(folder.path(), "C.UTF-8", args);
        let on = |columns| {
            let mut call = command(args);
            shown(TEST, call.current_dir(folder.path()).env("TERM", "dumb").env("COLUMNS", "33"), columns)
        };
        // No terminal is taken to be narrower than 80 columns, nor one that does not know its
        // width.
        for columns in [80, 40, 0] {
            let Some(narrow) = on(columns) else { return };
            assert_eq!(narrow, piped, "{columns}");
        }
        let Some(wide) = on(200) else { return };
        let widest = wide.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest > 80 && widest <= 200, "{args:?}: {widest}\n{wide}");
        assert!(wide.lines().count() < piped.lines().count(), "{args:?}");
    }
}

#[test]
fn colours_are_for_terminals() {
    const TEST: &str = "colours_are_for_terminals";
    let folder = folder();
    let sim = ["sim", "--trace", "small.spc", "--device", "ssd", "--policy", "lru,fab", "--cache", "1MiB"];
    let sim = [&sim[..], &["--progress=false"]].concat();
    let wrong = ["trace", "stat", "missing.spc"];
    let help = ["trace", "--help"];
    let piped = printed(folder.path(), "C.UTF-8", &sim);
    assert!(piped.contains('*') && !piped.contains(ESCAPE), "the best are marked without colours too");
    for args in [&sim[..], &wrong, &help] {
        let on_terminal = |variables: &[(&str, &str)], more: &[&str]| {
            let mut call = command(&[args, more].concat());
            call.current_dir(folder.path()).env("TERM", "xterm-256color").envs(variables.iter().copied());
            shown(TEST, &mut call, 80)
        };
        let Some(coloured) = on_terminal(&[], &[]) else { return };
        assert!(coloured.contains(ESCAPE), "{args:?}");
        if args == sim {
            assert_eq!(plain(&coloured), piped);
        }
        let has_colours = |variables: &[(&str, &str)], more: &[&str]| {
            let text = on_terminal(variables, more).unwrap_or_default();
            assert_eq!(plain(&text), plain(&coloured), "{args:?} {variables:?} {more:?}");
            text.contains(ESCAPE)
        };
        assert!(!has_colours(&[("NO_COLOR", "1")], &[]), "{args:?}");
        assert!(has_colours(&[("NO_COLOR", "")], &[]), "{args:?}");
        assert!(!has_colours(&[("TERM", "dumb")], &[]), "{args:?}");
        assert!(!has_colours(&[("TERM", "dumb"), ("CI", "1")], &[]), "{args:?}");
        assert!(!has_colours(&[], &["--color", "never"]), "{args:?}");
        assert!(has_colours(&[("NO_COLOR", "1")], &["--color=always"]), "a flag is more than a variable: {args:?}");
    }
    let always = printed(folder.path(), "C.UTF-8", &[&sim[..], &["--color", "always"]].concat());
    assert!(always.contains(ESCAPE) && plain(&always) == piped);
    let message = refused(&["--color=always", "trace", "stat", "missing.spc"]);
    assert!(message.contains(ESCAPE) && plain(&message).starts_with("destage: missing.spc"), "{message}");
    // What can be read by programs has none.
    for form in ["--json", "--csv"] {
        assert!(!printed(folder.path(), "C.UTF-8", &[&sim[..], &["--color=always", form]].concat()).contains(ESCAPE));
    }
    let output = command(&["policies", "--color", "sometimes"]).output().expect("the binary starts");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains("auto, always, never"), "{message}");
}

#[test]
fn response_times_are_drawn_over_time() {
    let folder = folder();
    let call = |more: &[&'static str]| {
        let sim = ["sim", "--trace", "small.spc", "--policy", "lru,fab", "--cache", "1MiB", "--page", "4KiB"];
        [&sim[..], more].concat()
    };
    let blocks = |c: char| ('▁'..='█').contains(&c);
    let drawn = |text: &str| -> Vec<String> {
        let (_, chart) = text.split_once("Mean response time").unwrap_or_else(|| panic!("no chart:\n{text}"));
        let lines = chart.lines().filter(|line| line.starts_with("lru") || line.starts_with("fab"));
        lines.take(2).map(|line| line.split_whitespace().last().unwrap_or_default().to_owned()).collect()
    };
    for args in [&["--device", "ssd"][..], &["--device", "ssd", "--host", "closed:4"]] {
        let text = printed(folder.path(), "C.UTF-8", &call(args));
        let lines = drawn(&text);
        assert!(lines.len() == 2 && lines.iter().all(|line| line.chars().all(blocks)), "{text}");
        // The trace gets no easier, and so the scale is used.
        assert!(lines.concat().contains('█') && lines[0].chars().count() > 20, "{text}");
        let legend = text.split("Mean response time").nth(1).unwrap_or_default().replace('\n', " ");
        assert!(legend.contains("▁ from") && legend.contains("█ to") && legend.contains("a character"), "{text}");

        let ascii = drawn(&printed(folder.path(), "C", &call(args)));
        let heights: Vec<char> = ".:-=+*#@".chars().collect();
        let translated = |line: &String| -> String {
            line.chars().map(|c| heights[(u32::from(c) - u32::from('▁')) as usize]).collect()
        };
        assert_eq!(ascii, lines.iter().map(translated).collect::<Vec<_>>());
    }
    // Runs that are no result have a word in their place, and devices without times have nothing.
    let fast =
        printed(folder.path(), "C.UTF-8", &call(&["--device", "ssd", "--speed", "10000", "--max-backlog", "20"]));
    assert!(fast.contains("void  saturated") && !fast.contains("Mean response time"), "{fast}");
    assert!(!printed(folder.path(), "C.UTF-8", &call(&[])).contains("Mean response time"));
}

/// The names of all commands with those that they are in, such as `trace stat`, from the help.
fn commands() -> Vec<String> {
    fn add(path: &str, into: &mut Vec<String>) {
        let words: Vec<&str> = path.split(' ').filter(|word| !word.is_empty()).chain(["--help"]).collect();
        let help = quietly(&words);
        let Some((_, list)) = help.split_once("Commands:\n") else { return };
        let names = list.lines().take_while(|line| line.starts_with("  "));
        let names = names.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
        for name in names.filter(|name| *name != "help") {
            let inner = format!("{path} {name}").trim().to_owned();
            into.push(inner.clone());
            add(&inner, into);
        }
    }
    let mut all = Vec::new();
    add("", &mut all);
    assert!(all.contains(&"sim".to_owned()) && all.contains(&"trace stat".to_owned()), "{all:?}");
    all
}

/// Some values of settings.
const VALUES: [&str; 6] = ["gcar+lb-clock", "write-through", "exchange", "oracle-general", "2gb-barracuda", "honour"];

#[test]
fn completions_know_every_command() {
    let words: BTreeSet<String> =
        commands().iter().flat_map(|name| name.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = quietly(&["completions", shell]);
        for word in &words {
            assert!(script.contains(word.as_str()), "{shell}: {word}");
        }
        // clap knows no values for the two others.
        let values = if matches!(shell, "bash" | "zsh" | "fish") { &VALUES[..] } else { &[] };
        for value in values {
            assert!(script.contains(value), "{shell}: {value}");
        }
    }
}

#[test]
fn bash_completes() {
    let test = "bash_completes";
    let folder = folder();
    let script = folder.path().join("destage.bash");
    fs::write(&script, quietly(&["completions", "bash"])).expect("a file");
    let bash = |arguments: &[&str]| {
        Command::new("bash").args(["--norc", "--noprofile"]).args(arguments).current_dir(folder.path()).output()
    };
    let Ok(parsed) = bash(&["-n", "destage.bash"]) else { return skip(test, "no bash") };
    assert!(parsed.status.success() && parsed.stderr.is_empty(), "{}", String::from_utf8_lossy(&parsed.stderr));
    let suggested = |line: &str| -> Vec<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
        let call = format!(
            "source ./destage.bash; COMP_WORDS=({line}); COMP_CWORD={}; _destage destage '{last}' {before}; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.len() - 1
        );
        let output = bash(&["-c", &call]).expect("bash starts");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    };
    assert_eq!(suggested("destage sim --policy cc"), ["ccf-lru"]);
    let layered = suggested("destage sim --policy gcar+");
    assert!(layered.contains(&"gcar+lru".to_owned()) && !layered.contains(&"gcar+none".to_owned()), "{layered:?}");
    assert_eq!(suggested("destage sim --ssd.preset c"), ["cawr"]);
    assert_eq!(suggested("destage sim --workload exch"), ["exchange"]);
    assert_eq!(suggested("destage trace convert --to disk"), ["disksim"]);
    assert_eq!(suggested("destage sim --trace small.s"), ["small.spc"]);
    assert_eq!(suggested("destage trace st"), ["stat"]);
    // What is not suggested is not refused.
    let args = ["sim", "--trace", "small.spc", "--policy", "bplru:padding=never,lru", "--cache", "1MiB"];
    assert!(printed(folder.path(), "C.UTF-8", &args).contains("bplru:padding=never"));
}

#[test]
fn every_command_has_a_manual_page() {
    let test = "every_command_has_a_manual_page";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_str().expect("temporary paths are UTF-8");
    assert_eq!(quietly(&["man", "--out", path]), "");
    let mut expected: BTreeSet<String> =
        commands().iter().map(|name| format!("destage-{}.1", name.replace(' ', "-"))).collect();
    expected.insert("destage.1".into());
    let files = fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let found: BTreeSet<String> = files.map(|name| name.to_string_lossy().into_owned()).collect();
    assert_eq!(found, expected);
    for name in commands() {
        let words: Vec<&str> = std::iter::once("man").chain(name.split(' ')).collect();
        let file = folder.path().join(format!("destage-{}.1", name.replace(' ', "-")));
        assert_eq!(quietly(&words), fs::read_to_string(file).expect("a page"));
    }
    assert!(refused(&["man", "trace", "stet"]).contains("no command 'stet'; destage-trace has stat, convert"));
    assert!(refused(&["man", "--out", "/nowhere/at/all"]).contains("there is no such folder"));
    for file in &found {
        let groff = Command::new("groff").args(["-man", "-Tutf8", "-ww"]).arg(folder.path().join(file)).output();
        let Ok(groff) = groff else { return skip(test, "no groff to render the pages") };
        let warnings = String::from_utf8_lossy(&groff.stderr).into_owned();
        assert!(groff.status.success() && warnings.is_empty(), "{file}: {warnings}");
        let page = String::from_utf8_lossy(&groff.stdout).into_owned();
        assert!(page.contains(file.trim_end_matches(".1")), "{file}: {page}");
    }
}
