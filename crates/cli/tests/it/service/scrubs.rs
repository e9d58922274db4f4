//! Compares the rows of served arrays: what `destage scrub` says, where it ends, and how it goes on.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::losses::wait;
use super::{ARRAYS, Array, IoMode, binary, page};

io_mode_tests! {
    a_sound_array_has_no_mismatch_beside_writes,
    what_is_wrong_is_named_and_is_right_after_a_repair,
    a_scrub_that_is_ended_says_how_to_go_on,
    a_scrub_ends_with_the_service,
    what_cannot_be_scrubbed_is_refused,
}

/// Counts the bytes of a member before its first row.
const OFFSET: u64 = 1 << 20;

/// Begins to scrub.
fn begin(array: &Array, more: &[&str]) -> Child {
    let mut command = binary::signalled(&[&["scrub", &array.path()], more].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
}

fn scrub(array: &Array, more: &[&str]) -> (Option<i32>, Value) {
    let output = array.command("scrub", &[more, &["--json", "--rate", "off"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {said}")))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn flip(array: &Array, member: u32, at: u64) {
    let path = array.file(&format!("member{member}"));
    let byte = fs::read(&path).expect("a member")[at as usize];
    let mut file = fs::File::options().write(true).open(path).expect("a member");
    file.seek(SeekFrom::Start(at)).expect("it is there");
    file.write_all(&[!byte]).expect("it can be written");
    file.sync_all().expect("it is there");
}

/// Arrays that keep rows in memory: eight, and as many as 64 MiB are.
const WITH_STRIPE_CACHES: [&[&str]; 3] = [
    &["--policy", "none", "--stripe-cache", "8rows"],
    &["--policy", "none", "--stripe-cache", "64MiB"],
    &["--policy", "kdd", "--cache", "1MiB", "--stripe-cache", "1MiB"],
];

fn a_sound_array_has_no_mismatch_beside_writes(io_mode: IoMode) {
    for settings in ARRAYS.into_iter().chain(WITH_STRIPE_CACHES) {
        let mut array = Array::new(io_mode, settings);
        array.serve(&[]);
        let running = begin(&array, &["--rate", "64MiB", "--json"]);
        let mut client = array.client();
        for number in 0..400_u64 {
            client.write(number * 7919 % 1500 * 4096, &page(number), number % 3 == 0).expect("a write");
        }
        let output = running.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{settings:?}: {}", text(&output));
        let (code, found) = scrub(&array, &[]);
        assert_eq!((code, &found["mismatched_rows"]), (Some(0), &Value::from(0)), "{settings:?}: {found}");
        assert_eq!(found["rows"], 512, "{settings:?}: {found}");
        assert_eq!(array.status()["array"]["scrub"], found, "{settings:?}");
        array.stop();
    }
}

fn what_is_wrong_is_named_and_is_right_after_a_repair(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    array.serve(&["--log", "json"]);
    let mut client = array.client();
    (0..200).for_each(|number| client.write(number * 4096, &page(number), false).expect("a write"));
    client.flush().expect("a flush");
    // Of these rows members 3 and 2 have the parity, and member 0 data.
    for (member, row) in [(3, 0), (3, 1), (2, 20), (0, 40)] {
        flip(&array, member, OFFSET + row * 4096 + 77);
    }
    let (code, found) = scrub(&array, &[]);
    assert_eq!((code, &found["mismatched_rows"]), (Some(3), &Value::from(4)), "{found}");
    assert_eq!(scrub(&array, &[]).0, Some(3), "nothing was changed");
    let (code, found) = scrub(&array, &["--repair"]);
    let rows = ["rows", "mismatched_rows", "repaired_rows", "unchecked_rows"].map(|key| found[key].as_u64());
    assert_eq!((code, rows), (Some(0), [512, 4, 4, 0].map(Some)), "{found}");
    let (code, found) = scrub(&array, &[]);
    assert_eq!((code, &found["mismatched_rows"]), (Some(0), &Value::from(0)), "{found}");
    let mut bytes = vec![0; 4096];
    for number in 0..200 {
        client.read(number * 4096, &mut bytes).expect("a read");
        // Stripe 2 begins with page 96; its third chunk is on member 0. The parity was made to fit what is there now.
        assert_eq!(bytes == page(number), number != 136, "page {number}");
    }
    array.stop();
    let log: Vec<Value> = array.log().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told: Vec<_> = log.iter().filter(|event| event["event"] == "rows-mismatched").collect();
    // Neighbouring rows are one range.
    assert_eq!(told.len(), 9, "{told:#?}");
    let first: Vec<_> = told[..3].iter().map(|event| (&event["offset"], &event["bytes"])).collect();
    assert!(told[..6].iter().all(|event| event["severity"] == "error" && event["repaired"] == false), "{told:#?}");
    assert!(told[6..].iter().all(|event| event["severity"] == "warning" && event["repaired"] == true), "{told:#?}");
    for (offset, bytes) in [(0, 8192), (20 * 4096, 4096), (40 * 4096, 4096)] {
        assert!(first.contains(&(&Value::from(OFFSET + offset), &Value::from(bytes))), "{offset}: {first:?}");
    }
    let data = told.iter().find(|event| event["bytes"] == 8192).expect("a range")["data"].as_array().expect("a list");
    assert_eq!(data.len(), 3, "{data:?}");
    let ends: Vec<_> =
        log.iter().filter(|event| event["event"] == "scrub-ended").map(|event| &event["severity"]).collect();
    assert_eq!(ends, ["warning", "warning", "notice", "notice"]);
}

fn a_scrub_that_is_ended_says_how_to_go_on(io_mode: IoMode) {
    let mut array = Array::sized(io_mode, "8MiB", &["--policy", "none"]);
    array.serve(&[]);
    let running = begin(&array, &["--rate", "1MiB"]);
    let status = wait(&array, |status| status["array"]["scrub"]["position_bytes"].as_u64() >= Some(2 << 20));
    assert_eq!(status["array"]["scrub"]["state"], "running");
    let second = array.command("scrub", &[]);
    assert!(
        second.status.code() == Some(1) && text(&second).contains("another scrub is under way"),
        "{}",
        text(&second)
    );
    kill_process(Pid::from_child(&running), Signal::INT).expect("it is there");
    let output = running.wait_with_output().expect("it ends");
    let said = text(&output);
    let from = said.split("--from ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_else(|| panic!("{said}"));
    assert!(output.status.code() == Some(130) && said.contains(" goes on"), "{said}");
    let status = wait(&array, |status| status["array"]["scrub"]["state"] != "running");
    assert_eq!(status["array"]["scrub"]["state"]["stopped"], "whoever ordered it has gone");
    let (code, found) = scrub(&array, &["--from", from]);
    let left = (8 << 20) - from.parse::<u64>().expect("a number");
    assert_eq!((code, found["rows"].as_u64()), (Some(0), Some(left / 4096)), "{found}");
    assert!(left < 8 << 20, "it did not begin again");
    array.stop();
    let log = array.log();
    for part in [
        " notice: rows are being compared: scrub --rate 1MiB",
        &format!(" notice: rows are being compared from byte {from} of each member on: "),
        " info: rows are compared to 20 %, byte ",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

fn a_scrub_ends_with_the_service(io_mode: IoMode) {
    for is_killed in [false, true] {
        let mut array = Array::sized(io_mode, "8MiB", &["--policy", "none"]);
        array.serve(&[]);
        let running = begin(&array, &["--rate", "1MiB"]);
        wait(&array, |status| status["array"]["scrub"]["position_bytes"].as_u64() >= Some(2 << 20));
        std::thread::sleep(Duration::from_millis(600));
        if is_killed {
            array.kill();
        } else {
            array.stop();
        }
        let output = running.wait_with_output().expect("it ends");
        let said = text(&output);
        assert!(output.status.code() == Some(1) && said.contains("--from ") && said.contains(" goes on"), "{said}");
        assert!(is_killed || said.contains("the service has ended;"), "{said}");
    }
}

fn what_cannot_be_scrubbed_is_refused(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    let refused = |array: &Array, more: &[&str], why: &str| {
        let output = array.command("scrub", more);
        assert!(output.status.code() == Some(1) && text(&output).contains(why), "{more:?}: {}", text(&output));
    };
    refused(&array, &[], "nobody serves");
    array.serve(&[]);
    refused(&array, &["--rate", "200"], "--rate 200: at least 1MiB a second, or off");
    refused(&array, &["--rate", "fast"], "--rate fast: ");
    refused(&array, &["--from", "2MiB"], "each member has 2097152 bytes");
    refused(&array, &["--from", "end"], "--from end: ");
    // Rows of which too much is lost cannot be compared.
    fs::File::options().write(true).open(array.file("member1")).and_then(|file| file.set_len(4096)).expect("it is cut");
    let (code, found) = scrub(&array, &[]);
    assert_eq!(
        (code, &found["rows"], &found["mismatched_rows"]),
        (Some(3), &Value::from(512), &Value::from(0)),
        "{found}"
    );
    assert!(found["unchecked_rows"].as_u64() > Some(300), "{found}");
    array.stop();
}
