//! No file is lost: every output of every command names inputs, other outputs and what was there
//! before; runs fail, disks fill up, and signals come.

#[path = "outputs/rows.rs"]
mod rows;
#[path = "outputs/workshop.rs"]
mod workshop;

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use crate::binary;
use crate::loop_device::{Loop, tool};
use crate::tmpfs::TmpfsDisk;
use rows::{OutputKind, READ, ROWS, Row, SERVED};
use workshop::{Content, Workshop, content, last_week};

/// Standard error of a call that must fail with one message.
fn failed(output: &Output, words: &[String]) -> String {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words:?}: {message}");
    assert!(message.contains("destage: "), "{words:?}: {message}");
    message
}

/// Arguments of a command that take a value, as the help shows them, with the name of the value;
/// and its own commands.
fn arguments(command: &[&str]) -> (Vec<(String, String)>, Vec<String>) {
    let help = binary::quietly(&[command, &["--help"]].concat());
    let (mut arguments, mut commands, mut heading) = (Vec::new(), Vec::new(), "");
    for line in help.lines() {
        if line.is_empty() {
            continue;
        }
        if !line.starts_with(' ') {
            heading = line;
            continue;
        }
        let words = line.trim_start();
        let indent = line.len() - words.len();
        if heading == "Commands:" && indent == 2 {
            commands.extend(words.split(' ').next().filter(|&name| name != "help").map(str::to_owned));
        } else if heading == "Arguments:" && indent == 2 && words.starts_with(['<', '[']) {
            let end = words.find("  ").unwrap_or(words.len());
            arguments.push((words[..end].trim().to_owned(), words[..end].to_owned()));
        } else if let Some(at) = words.find("--").filter(|&at| words.starts_with('-') && at <= 4) {
            let option = &words[at..];
            let name = option.split([' ', '[', '=']).next().unwrap_or_default();
            let value =
                option[name.len()..].split(['<', '>']).nth(1).filter(|_| !option[name.len()..].starts_with("  "));
            arguments.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        }
    }
    (arguments, commands)
}

/// Whoever adds an argument that names a file says in `outputs/rows.rs` whether it is read or
/// written, and how it is tried.
#[test]
fn every_argument_that_names_a_file_is_known() {
    const PATHS: [&str; 11] =
        ["FILE", "DIR", "FOLDER", "PATH", "FROM", "TO", "OUT", "OUTPUT", "DEVICE", "DEST", "RESULT"];
    let mut found = Vec::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(command) = open.pop() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let (arguments, commands) = arguments(&words);
        open.extend(commands.into_iter().map(|inner| [command.clone(), vec![inner]].concat()));
        let names_a_file =
            |value: &str| value.split(|c: char| !c.is_ascii_alphabetic()).any(|word| PATHS.contains(&word));
        let paths = arguments.into_iter().filter(|(_, value)| names_a_file(value));
        found.extend(paths.map(|(name, _)| (command.join(" "), name)));
    }
    let known =
        ROWS.iter().map(|row| (row.command, row.argument)).chain(READ.iter().copied()).chain(SERVED.iter().copied());
    let mut known: Vec<_> = known.map(|(command, name)| (command.to_owned(), name.to_owned())).collect();
    // Of a failure, a device's number.
    found.retain(|(command, name)| {
        !["advise", "sim"].contains(&command.as_str()) || !["--fail", "--replace"].contains(&name.as_str())
    });
    found.sort();
    known.sort();
    assert_eq!(found, known);
}

/// Other names of a file: from here, from the root, through a folder's link, and of its own. Those
/// of its own are made.
fn names(shop: &Workshop, file: &str) -> Vec<String> {
    let mut names = vec![file.to_owned()];
    if !file.starts_with('/') {
        names.push(format!("./{file}"));
        names.push(shop.path(file).to_string_lossy().into_owned());
        names.push(format!("here/{file}"));
        fs::hard_link(shop.path(file), shop.path("hard")).unwrap();
        names.push("hard".to_owned());
    }
    symlink(file, shop.path("soft")).unwrap();
    symlink("here/soft", shop.path("softer")).unwrap();
    names.extend(["soft".to_owned(), "softer".to_owned()]);
    names
}

/// Calls a row with an output that must be refused, and leaves all as it is.
fn refuse(shop: &Workshop, words: &[String], why: &str) {
    let before = shop.content();
    let message = failed(&shop.run(words), words);
    assert!(message.contains(why), "{words:?}: {message}");
    assert!(before == shop.content(), "{words:?}");
}

/// A disk to record, said to be missing once.
fn disk(test: &str) -> Option<Loop> {
    Loop::new(test)
}

#[test]
fn no_output_is_an_input() {
    let disk = disk("no_output_is_an_input: trace record");
    for row in ROWS {
        for (call, inputs) in row.calls {
            for word in *inputs {
                let shop = Workshop::new(disk.as_ref().map(|disk| disk.path.as_str()));
                if !shop.has(row) {
                    continue;
                }
                let input = shop.name(word).to_owned();
                let OutputKind::Report(members) = row.kind else {
                    let why = if row.command == "trace record" { "is a block device" } else { "it is an input (" };
                    for name in names(&shop, &input) {
                        refuse(&shop, &shop.words(call, &[(row, &name)]), why);
                    }
                    continue;
                };
                for member in members {
                    let shop = Workshop::new(None);
                    for (out, link) in [("hard-out", false), ("soft-out", true)] {
                        let path = shop.path(out);
                        fs::create_dir(&path).unwrap();
                        let other = path.join(member);
                        if link {
                            symlink(Path::new("..").join(&input), other).unwrap();
                        } else {
                            fs::hard_link(shop.path(&input), other).unwrap();
                        }
                        refuse(&shop, &shop.words(call, &[(row, out)]), "it is an input (");
                    }
                    // Read from the very folder. A paper has another ending than what lies there.
                    if !call.contains(word) || *word == "{paper}" {
                        continue;
                    }
                    let inside = format!("out/{member}");
                    fs::create_dir(shop.path("out")).unwrap();
                    fs::copy(shop.path(&input), shop.path(&inside)).unwrap();
                    for out in ["out", "./out/", "here/out", shop.path("out").to_str().unwrap()] {
                        let mut words = shop.words(call, &[(row, out)]);
                        words.iter_mut().filter(|known| **known == input).for_each(|known| known.clone_from(&inside));
                        refuse(&shop, &words, "it is an input (");
                    }
                }
            }
        }
    }
}

#[test]
fn the_standard_input_is_an_input_and_the_standard_output_an_output() {
    let shop = Workshop::new(None);
    let open = |name: &str| fs::File::options().append(true).read(true).open(shop.path(name)).unwrap();
    let call = |words: &[&str], stdin: &str, stdout: Option<&str>| {
        let before = shop.content();
        let mut call = shop.signalled(words);
        call.stdin(open(stdin)).stdout(stdout.map_or(Stdio::piped(), |name| open(name).into()));
        let output = call.output().unwrap();
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let message = failed(&output, &words);
        assert!(before == shop.content(), "{words:?}");
        message
    };
    let sim = |option: &'static str| ["sim", "--trace", "-", "--cache=1MiB", "--policy=lru", option];
    for words in [&sim("--json=trace.spc")[..], &sim("--csv=here/trace.spc"), &["trace", "convert", "-", "trace.spc"]] {
        let message = call(words, "trace.spc", None);
        assert!(message.contains("it is an input (the standard input)"), "{message}");
    }
    let words = ["report", "-", "--out=out"];
    fs::create_dir(shop.path("out")).unwrap();
    fs::hard_link(shop.path("results.json"), shop.path("out/results.json")).unwrap();
    assert!(call(&words, "results.json", None).contains("it is an input (the standard input)"));
    // What is shown goes there even without being named.
    for option in ["--json", "--json=/dev/stdout", "--csv=other", "--threads=1"] {
        let message = call(&sim(option), "trace.spc", Some("trace.spc"));
        assert!(message.contains("cannot write the standard output: it is an input (the standard input)"), "{message}");
    }
    for option in ["--json=results.json", "--csv=here/results.json", "--report=out"] {
        let message = call(&sim(option), "trace.spc", Some("results.json"));
        assert!(message.contains("it is another output too (the standard output)"), "{message}");
    }
    for words in [&["--json", "--csv"], &["--json=-", "--csv=/dev/stdout"]] {
        let message = call(&[&sim("--threads=1")[..], words].concat(), "trace.spc", Some("results2.json"));
        assert!(message.contains("both go to the standard output"), "{message}");
    }
}

/// The rows whose option can stand alone, by the help: what follows after a blank may be another
/// argument.
fn standing_alone() -> Vec<&'static Row> {
    let alone = |row: &&Row| {
        let words: Vec<&str> = row.command.split(' ').chain(["--help"]).collect();
        binary::quietly(&words).contains(&format!("{}[=<", row.argument))
    };
    ROWS.iter().filter(alone).collect()
}

#[test]
fn after_a_blank_nothing_is_lost_that_is_no_earlier_result() {
    let rows = standing_alone();
    let found: Vec<_> = rows.iter().map(|row| (row.command, row.argument)).collect();
    assert_eq!(
        found,
        [("advise", "--json"), ("sim", "--json"), ("sim", "--csv"), ("sim", "--latency-log")]
            .into_iter()
            .chain([("reproduce", "--markdown")])
            .collect::<Vec<_>>()
    );
    for row in rows {
        let shop = Workshop::new(None);
        symlink("trace.spc", shop.path("link")).unwrap();
        shop.last_week(row, "old");
        let all = shop.content();
        let call = row.calls[0].0;
        let words = |out: &str, first: bool| {
            let words = shop.words(call, &[]);
            let option = [row.argument.to_owned(), out.to_owned()];
            // Before everything else, where a trace could follow, or at the end.
            let command = row.command.split(' ').count();
            if first {
                [&words[..command], &option, &words[command..]].concat()
            } else {
                [words, option.to_vec()].concat()
            }
        };
        for name in all.keys().filter(|path| all[*path].is_some()) {
            let name = name.to_str().unwrap();
            let is_earlier = row.argument == "--json" && name.starts_with("results");
            for first in [true, false] {
                if !is_earlier {
                    let message = failed(&shop.run(&words(name, first)), &words(name, first));
                    assert!(
                        message.contains(&format!("so it is kept. To write there, write {}={name}", row.argument)),
                        "{message}"
                    );
                    assert!(all == shop.content(), "{name}");
                }
            }
        }
        // What is new, what was written so before, and what only swallows.
        let fresh = |out: &str, first: bool| {
            let done = shop.run(&words(out, first));
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            done.stdout
        };
        assert!(fresh("new", true) != fresh("-", true), "the table, or the result itself");
        let written = fs::read(shop.path("new")).unwrap();
        assert!(!written.is_empty() && written == fresh("-", false));
        fs::write(shop.path("empty"), "").unwrap();
        for out in ["new", "empty"] {
            fresh(out, false);
            assert!(fs::read(shop.path(out)).unwrap() == written, "{out}");
        }
        fresh("/dev/null", true);
        // An input of that kind is one all the same.
        if row.argument == "--json" {
            let before = shop.content();
            let words: Vec<String> =
                ["sim", "--trace", "results.json", "--json", "results.json"].map(str::to_owned).to_vec();
            let message = failed(&shop.run(&words), &words);
            assert!(message.contains("results.json") && before == shop.content(), "{message}");
        }
    }
}

#[test]
fn no_two_outputs_are_one_file() {
    for first in ROWS {
        for second in ROWS.iter().filter(|row| row.command == first.command && row.argument != first.argument) {
            let why = "it is another output too (";
            let call = first.calls[0].0;
            if let OutputKind::Report(members) = first.kind {
                for member in members {
                    let shop = Workshop::new(None);
                    for (out, file) in [("new/er", "here/new/er"), ("new", "./new"), ("here/new", "new")] {
                        let file = format!("{file}/{member}");
                        let words = [(first, out), (second, &file)];
                        refuse(&shop, &shop.words(call, &words), why);
                    }
                    shop.last_week(first, "out");
                    symlink(Path::new("out").join(member), shop.path("link")).unwrap();
                    refuse(&shop, &shop.words(call, &[(first, "out"), (second, "link")]), why);
                }
            } else if second.kind == OutputKind::File {
                let shop = Workshop::new(None);
                symlink("new", shop.path("dangling")).unwrap();
                for other in ["new", "./new", "here/new", "dangling", shop.path("new").to_str().unwrap()] {
                    refuse(&shop, &shop.words(call, &[(first, "new"), (second, other)]), why);
                }
                shop.last_week(first, "old");
                for other in names(&shop, "old") {
                    refuse(&shop, &shop.words(call, &[(first, "old"), (second, &other)]), why);
                }
            }
        }
    }
}

#[test]
fn a_run_that_fails_leaves_what_was_there() {
    for row in ROWS {
        for call in row.failing {
            let shop = Workshop::new(None);
            shop.last_week(row, "out");
            for out in ["out", "new", "here/out"] {
                refuse(&shop, &shop.words(call, &[(row, out)]), "");
            }
            if matches!(row.kind, OutputKind::Report(_)) {
                refuse(&shop, &shop.words(call, &[(row, "new/and/deeper/")]), "");
            }
        }
    }
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    let test = "a_full_disk_leaves_what_was_there";
    let record = disk("a_full_disk_leaves_what_was_there: trace record");
    for row in ROWS {
        let shop = Workshop::new(record.as_ref().map(|disk| disk.path.as_str()));
        if !shop.has(row) {
            continue;
        }
        // Without room for content; what runs for minutes finds not even room for a file, before it
        // begins.
        let slow = row.command == "validate";
        let Some(disk) = TmpfsDisk::new(test, shop.path("disk"), "size=64k") else { return };
        shop.last_week(row, "disk/out");
        let mut rest = fs::File::create(disk.0.join("rest")).unwrap();
        assert!(std::io::copy(&mut std::io::repeat(1).take(1 << 20), &mut rest).is_err(), "it is full");
        if slow {
            tool("mount", &["-o", "remount,nr_inodes=3", disk.0.to_str().unwrap()]).unwrap();
        }
        let before = content(&disk.0);
        for (call, _) in row.calls {
            let words = shop.words(call, &[(row, "disk/out")]);
            let message = failed(&shop.run(&words), &words);
            assert!(
                message.contains("disk/out") || message.contains("the temporary file cannot be used in disk"),
                "{message}"
            );
            assert!(message.contains("No space left on device"), "{words:?}: {message}");
            assert!(before == content(&disk.0), "{words:?}");
        }
    }
}

/// Holds the contents that may be there after a signal.
struct Outcomes {
    before: Content,
    /// After an undisturbed call; none where that takes too long or differs from time to time.
    after: Option<Content>,
    /// Holds the duration of an undisturbed call.
    time: Duration,
}

/// The signals, by name and number.
const SIGNALS: [(&str, i32); 3] = [("TERM", 15), ("INT", 2), ("KILL", 9)];

fn send(signal: &str, child: &Child) {
    tool("kill", &["-s", signal, &child.id().to_string()]).unwrap();
}

/// Checks what a signal left in the folder; whether it came while the command ran.
fn check(
    row: &Row,
    words: &[String],
    (name, number): (&str, i32),
    status: ExitStatus,
    now: &Content,
    may: &Outcomes,
) -> bool {
    let at = format!("{words:?}, {name}: {status}");
    let by_signal = status.signal() == Some(number) || status.code() == Some(128 + number);
    assert!(by_signal || status.success(), "{at}");
    if row.command == "trace record" {
        // A recording has no other end than a signal: either there is one, or what was there.
        let out = now.get(Path::new("out")).expect("the output is there");
        assert!(name == "KILL" || now.len() == may.before.len(), "{at}: {:?}", now.keys());
        assert!(*out == may.before[Path::new("out")] || out.as_ref().is_some_and(|new| new.len() > 100), "{at}");
    } else if name == "KILL" {
        // It may leave temporary files, and some files of a folder may be new; each is whole.
        let is_whole = |(path, content): (&PathBuf, &Option<Vec<u8>>)| {
            let temporary = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".destage-"));
            temporary
                || may.before.get(path) == Some(content)
                || may.after.as_ref().is_some_and(|after| after.get(path) == Some(content))
        };
        assert!(now.iter().all(is_whole), "{at}: {:?}", now.keys());
        assert!(may.before.keys().all(|path| now.contains_key(path)), "{at}: {:?}", now.keys());
    } else {
        let is_new = may.after.as_ref() == Some(now);
        assert!(is_new || (by_signal && *now == may.before), "{at}: {:?}", now.keys());
    }
    by_signal && number != 9 && status.code().is_some()
}

#[test]
fn a_kill_at_ten_moments_leaves_what_was_there() {
    const LONGEST: Duration = Duration::from_millis(400);
    let record = disk("a_kill_at_ten_moments_leaves_what_was_there: trace record");
    let mut told = 0;
    for row in ROWS {
        let shop = Workshop::new(record.as_ref().map(|disk| disk.path.as_str()));
        if !shop.has(row) {
            continue;
        }
        let words = shop.words(row.calls[0].0, &[(row, "place/out")]);
        let place = shop.path("place");
        let afresh = || {
            let _ = fs::remove_dir_all(&place);
            fs::create_dir(&place).unwrap();
            last_week(row, &place.join("out"));
        };
        afresh();
        let before = content(&place);
        let begun = Instant::now();
        let begin = || {
            let mut call = shop.signalled(&words);
            call.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let mut child = begin();
        let status = loop {
            match child.try_wait().unwrap() {
                None if begun.elapsed() > LONGEST * 10 => break None,
                None => std::thread::sleep(Duration::from_millis(1)),
                ended => break ended,
            }
        };
        let time = begun.elapsed().min(LONGEST);
        assert!(status.is_none_or(|status| status.success()), "{words:?}");
        let after = status.map(|_| content(&place));
        if status.is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let may = Outcomes { before, after, time };
        for moment in 0..10 {
            for signal in [SIGNALS[moment as usize % 2], SIGNALS[2]] {
                afresh();
                let mut child = begin();
                std::thread::sleep(may.time * moment / 10);
                if child.try_wait().unwrap().is_none() {
                    send(signal.0, &child);
                }
                let status = child.wait().unwrap();
                told += u32::from(check(row, &words, signal, status, &content(&place), &may));
            }
        }
    }
    assert!(told > 10, "signals come while commands run");
}

/// While a command waits for its input, its temporary files are there.
#[test]
fn a_signal_removes_what_is_half_written() {
    let sim = "sim --trace - --policy lru --cache 1MiB";
    for (command, input, calls) in [
        ("sim", "trace.spc", &[sim][..]),
        ("report", "results.json", &["report -"]),
        ("trace convert", "trace.spc", &["trace convert -", "trace convert --to oracle-general:op=all -"]),
    ] {
        for row in ROWS.iter().filter(|row| row.command == command) {
            let shop = Workshop::new(None);
            shop.last_week(row, "old");
            let half = fs::read(shop.path(input)).unwrap();
            let before = shop.content();
            for (call, out) in calls.iter().flat_map(|call| [(call, "old"), (call, "new")]) {
                let deeper = matches!(row.kind, OutputKind::Report(_)).then_some("new/and/deeper");
                for ((signal, number), out) in [("HUP", 1), ("INT", 2), ("TERM", 15)]
                    .into_iter()
                    .flat_map(|signal| std::iter::once(out).chain(deeper).map(move |out| (signal, out)))
                {
                    let words = shop.words(call, &[(row, out)]);
                    let mut child = shop.signalled(&words).stdin(Stdio::piped()).spawn().unwrap();
                    let mut stdin = child.stdin.take().unwrap();
                    std::io::Write::write_all(&mut stdin, &half[..half.len() / 2]).unwrap();
                    let parts = || {
                        let now = shop.content();
                        now.keys().filter(|path| path.to_string_lossy().ends_with(".part")).count()
                    };
                    let begun = Instant::now();
                    while parts() == 0 {
                        assert!(begun.elapsed() < Duration::from_mins(1), "{words:?}: no temporary file is made");
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    send(signal, &child);
                    assert_eq!(child.wait().unwrap().code(), Some(128 + number), "{words:?}, {signal}");
                    drop(stdin);
                    assert!(before == shop.content(), "{words:?}, {signal}");
                }
            }
        }
    }
}

/// Jobs in the background and under nohup go on.
#[test]
fn a_signal_that_is_ignored_stays_so() {
    let shop = Workshop::new(None);
    let script =
        format!("trap '' HUP INT; exec {} trace synth --length 2000000 --level 19 out", env!("CARGO_BIN_EXE_destage"));
    let mut child = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(shop.path(""))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !shop.content().keys().any(|path| path.to_string_lossy().ends_with(".part")) {
        assert!(child.try_wait().unwrap().is_none(), "it runs");
        std::thread::sleep(Duration::from_millis(2));
    }
    send("HUP", &child);
    send("INT", &child);
    std::thread::sleep(Duration::from_millis(50));
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    send("TERM", &child);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(!shop.path("out").exists());
}

/// Results are there although nobody reads what is shown.
#[test]
fn files_are_complete_though_the_reader_has_gone() {
    let shop = Workshop::new(None);
    for words in [
        ["sim", "--trace=trace.spc", "--cache=1MiB", "--policy=lru", "--csv=out.csv", "--json"],
        ["sim", "--trace=trace.spc", "--cache=1MiB", "--policy=lru", "--csv=out.csv", "--json=out.json"],
    ] {
        let mut child = shop.signalled(&words).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert!(child.wait().unwrap().success());
        assert_eq!(fs::read_to_string(shop.path("out.csv")).unwrap().lines().count(), 2);
        fs::remove_file(shop.path("out.csv")).unwrap();
    }
}

/// A limit on a file's size is as a full disk is.
#[test]
fn a_file_that_may_not_grow_is_told() {
    let shop = Workshop::new(None);
    fs::write(shop.path("out"), workshop::OLD).unwrap();
    let before = shop.content();
    let script = format!("ulimit -f 8; {} trace synth --length 20000 out", env!("CARGO_BIN_EXE_destage"));
    let output = std::process::Command::new("sh").args(["-c", &script]).current_dir(shop.path("")).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && message.contains("cannot write out: File too large"), "{message}");
    assert!(before == shop.content());
}

/// Keeps what was written to a stream before, whichever way the stream is named.
#[test]
fn streams_by_name_are_written_directly() {
    let shop = Workshop::new(None);
    for (name, redirection) in
        [("/dev/stdout", ">>log"), ("/dev/stderr", "2>>log"), ("/dev/fd/3", "3>>log"), ("/proc/self/fd/3", "3>log")]
    {
        fs::write(shop.path("log"), "before\n").unwrap();
        let script = format!(
            "exec {redirection}; {} sim --trace trace.spc --cache 1MiB --policy lru --json={name} --progress=false",
            env!("CARGO_BIN_EXE_destage")
        );
        let status = std::process::Command::new("sh")
            .args(["-c", &script])
            .current_dir(shop.path(""))
            .stdout(Stdio::null())
            .status();
        assert!(status.unwrap().success(), "{name}");
        let log = fs::read_to_string(shop.path("log")).unwrap();
        let expected = fs::read_to_string(shop.path("results.json")).unwrap();
        assert!(log.contains(&expected), "{name}: {log}");
        assert_eq!(log.starts_with("before\n"), redirection.contains(">>"), "{name}: {log}");
    }
}
