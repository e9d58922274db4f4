//! Checks that the operator hears of events: by the log, the exit status of `destage status`, and a program.

use std::fs;
use std::time::{Duration, Instant};

use destage_engine::ArrayState;
use serde_json::Value;

use super::losses::{wait, wait_for};
use super::{Array, IoMode, page};

io_mode_tests! {
    what_is_lost_at_the_start_is_told,
    what_is_lost_while_it_is_served_is_told,
    what_is_told_is_json_if_that_is_asked_for,
    a_program_is_run_for_what_whoever_runs_it_should_know,
    a_program_that_is_behind_holds_nothing_up,
}

fn filled(io_mode: IoMode, settings: &[&str]) -> Array {
    let mut array = Array::new(io_mode, settings);
    array.serve(&[]);
    let mut client = array.client();
    for number in 0..300 {
        client.write(number * 4096, &page(number), false).expect("a write");
    }
    drop(client);
    array.stop();
    array
}

fn what_is_lost_at_the_start_is_told(io_mode: IoMode) {
    for (device, how, why) in [
        ("member1", "gone", "No such file"),
        ("cache", "gone", "No such file"),
        (
            "member1",
            "short",
            "is 3162112 bytes long; with 1048576 bytes before its pages, pages of dev1 = 512 and page-bytes = 4096 it must be 3166208",
        ),
        ("cache", "long", "is 1064960 bytes long; with pages of dev4 = 256 and page-bytes = 4096 it must be 1060864"),
        ("member1", "unlabelled", "it has no label"),
        ("member1", "older", "its event count is 4, that of the array 6: an older copy of it was put back"),
        ("cache", "older", "its event count is 4, that of the array 6: an older copy of it was put back"),
    ] {
        let mut array = filled(io_mode, &["--policy", "kdd", "--cache", "1MiB"]);
        let path = array.file(device);
        let older = fs::read(&path).expect("a file");
        array.serve(&[]);
        assert!(!array.log().contains("lost"), "{}", array.log());
        let status = wait_for(&array, "serving");
        assert!(status["array"]["devices"].as_array().expect("devices").iter().all(|one| one["error"].is_null()));
        array.stop();
        let bytes = fs::read(&path).expect("a file");
        match how {
            "gone" => fs::remove_file(&path),
            "short" => fs::write(&path, &bytes[..bytes.len() - 4096]),
            "long" => fs::write(&path, [&bytes[..], &[0; 4096]].concat()),
            "older" => fs::write(&path, older),
            _ => {
                let label = (1 << 20) + (2 << 20);
                fs::write(&path, [&bytes[..label], &[0; 4096], &bytes[label + 4096..]].concat())
            }
        }
        .expect("it can be changed");
        array.serve(&[]);
        // `status` checks the exit status, which is 3.
        wait_for(&array, "degraded");
        let log = array.log();
        let line = log.lines().find(|line| line.contains("is lost")).unwrap_or_else(|| panic!("{log}"));
        for part in [" error: ", &path.display().to_string(), why] {
            assert!(line.contains(part), "{device} {how}: {part}: {log}");
        }
        assert!(log.contains(" warning: the array is degraded"), "{log}");
        let mut bytes = vec![0; 4096];
        let mut client = array.client();
        for number in 0..300 {
            client.read(number * 4096, &mut bytes).expect("the others have it");
            assert!(bytes == page(number), "{device} {how}: page {number}");
        }
        drop(client);
        array.stop();
    }
}

fn what_is_lost_while_it_is_served_is_told(io_mode: IoMode) {
    let mut array = filled(io_mode, &["--policy", "none"]);
    array.serve(&["--log-level", "debug"]);
    let mut client = array.client();
    let cut = |name: &str| {
        let file = fs::File::options().write(true).open(array.file(name)).expect("a member");
        file.set_len(4096).expect("it can be cut");
    };
    let mut bytes = vec![0; 1 << 20];
    cut("member1");
    client.read(0, &mut bytes).expect("the others know");
    wait_for(&array, "degraded");
    cut("member3");
    client.read(0, &mut bytes).expect_err("two are more than the level can do without");
    let status = wait_for(&array, "failed");
    assert_eq!(array.command("status", &[]).status.code(), Some(4), "{status}");
    let text = String::from_utf8_lossy(&array.command("status", &[]).stdout).into_owned();
    assert!(text.contains("failed: more members are lost"), "{text}");
    let log = array.log();
    for part in ["member 1 is lost", "degraded; it was serving", "member 3 is lost", "critical: the array is failed"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    drop(client);
    wait(&array, |status| status["clients"]["now"] == 0);
    let log = array.log();
    assert!(log.contains("debug: a client has come") && log.contains("debug: a client is lost: "), "{log}");
    array.client().goodbye().expect("it says goodbye");
    wait(&array, |status| status["clients"]["now"] == 0);
    assert!(array.log().contains("debug: a client has gone; there are 0"), "{}", array.log());
    array.kill();
}

fn what_is_told_is_json_if_that_is_asked_for(io_mode: IoMode) {
    let mut array = filled(io_mode, &["--policy", "none"]);
    fs::remove_file(array.file("member2")).expect("a member");
    array.serve(&["--log", "json"]);
    wait_for(&array, "degraded");
    let refused = array.command("replace", &["1"]);
    assert_eq!(refused.status.code(), Some(1));
    let replaced = array.command("replace", &["2"]);
    assert!(replaced.status.success(), "{}", String::from_utf8_lossy(&replaced.stderr));
    wait_for(&array, "serving");
    array.stop();
    let lines: Vec<Value> = array.log().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told: Vec<&str> = lines.iter().map(|line| line["event"].as_str().expect("a name")).collect();
    let must: &[&str] = &[
        "started",
        "device-lost",
        "state-changed",
        "ordered",
        "device-replaced",
        "rebuild-started",
        "rebuild-finished",
        "state-changed",
        "stopping",
    ];
    let mut rest = told.iter();
    for name in must {
        assert!(rest.any(|one| one == name), "{name} is not told in this order: {told:?}");
    }
    for line in &lines {
        let whole = ["time", "severity", "text"].iter().all(|key| line[key].is_string());
        assert!(whole, "{line}");
    }
    let refused = lines.iter().find(|line| line["event"] == "ordered").expect("it was ordered");
    assert_eq!(refused["order"], "replace 1");
    assert!(refused["refused"].as_str().is_some_and(|why| why.contains("member 2 is lost")), "{refused}");
}

fn a_program_is_run_for_what_whoever_runs_it_should_know(io_mode: IoMode) {
    let mut array = filled(io_mode, &["--policy", "kdd", "--cache", "1MiB"]);
    let (heard, text) = (array.file("heard"), fs::read_to_string(array.file("array.toml")).expect("a description"));
    let command = format!("echo $DESTAGE_EVENT $DESTAGE_SEVERITY $DESTAGE_DEVICE >> {}; exit 3", heard.display());
    let serve = text.replace("[serve]", &format!("[serve]\non-event = \"{command}\""));
    assert_ne!(serve, text);
    fs::write(array.file("array.toml"), serve).expect("a description");
    fs::remove_file(array.file("member1")).expect("a member");
    array.serve(&[]);
    wait_for(&array, "degraded");
    array.command("replace", &["1"]);
    wait(&array, |status| status["array"]["state"] == "serving");
    array.stop();
    let heard = fs::read_to_string(heard).expect("it has run");
    for line in ["device-lost error member 1", "state-changed warning", "rebuild-finished notice member 1"] {
        assert!(heard.lines().any(|one| one.trim() == line), "{line}: {heard}");
    }
    assert!(!heard.contains("stopping"), "that is no news: {heard}");
    assert!(array.log().contains("on-event: echo") && array.log().contains("exit status: 3"), "{}", array.log());
}

/// Has more happen than a program can be told of, which is at work until the end.
fn a_program_that_is_behind_holds_nothing_up(io_mode: IoMode) {
    let mut array = filled(io_mode, &["--policy", "none"]);
    let text = fs::read_to_string(array.file("array.toml")).expect("a description");
    let serve = text.replace("[serve]", "[serve]\non-event = \"exec sleep 20\"");
    fs::write(array.file("array.toml"), serve).expect("a description");
    array.serve(&["--log", "json"]);
    // The state at the start is the first; it is at work on that, and 64 wait.
    for _ in 0..66 {
        assert!(array.command("flush", &[]).status.success());
    }
    assert_eq!(array.status()["array"]["state"], "serving");
    assert_eq!(array.events("ordered").len(), 66, "all are in the log");
    let failed = array.events("program-failed");
    let why = failed.first().and_then(|event| event["why"].as_str()).unwrap_or_default();
    assert!(why.contains("it is behind, and is not told that ordered: flush"), "{failed:?}");
    assert!((1..=2).contains(&failed.len()), "it is told of all others: {failed:?}");
    let begin = Instant::now();
    array.stop();
    assert!(begin.elapsed() < Duration::from_secs(15), "the end does not wait for it: {:?}", begin.elapsed());
    let failed = array.events("program-failed");
    let why = failed.last().and_then(|event| event["why"].as_str());
    assert_eq!(why, Some("it is still at work, and is left to itself"));
}

/// Checks that docs/failures.md names every event, and every state with its exit status.
#[test]
fn what_can_happen_is_described() {
    let text = include_str!("../../../../../docs/failures.md");
    let code = include_str!("../../../../engine/src/event.rs");
    let names = code.split("pub const fn name").nth(1).and_then(|code| code.split("\n    }\n").next()).expect("a list");
    let names: Vec<&str> = names.split('"').skip(1).step_by(2).collect();
    assert_eq!(names.len(), 37, "{names:?}");
    for name in names {
        assert!(text.contains(&format!("`{name}`")), "{name}");
    }
    let states = [
        (ArrayState::Recovering, 0),
        (ArrayState::Serving, 0),
        (ArrayState::Degraded, 3),
        (ArrayState::Rebuilding, 3),
        (ArrayState::Failed, 4),
        (ArrayState::Hanging, 4),
        (ArrayState::Stopped(String::new()), 4),
    ];
    for (state, code) in states {
        assert_eq!(state.exit_status(), code);
        let name = state.to_string();
        let row = format!("| `{}` | {code} |", name.trim_end_matches(": "));
        assert!(text.contains(&row), "{row}");
    }
}
