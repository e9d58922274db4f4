//! Devices are lost and replaced while clients go on.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Array, Draws, IoMode, PATIENCE, page};

io_mode_tests! {
    a_member_that_is_gone_is_replaced_while_clients_go_on,
    a_cache_that_is_gone_costs_nothing_and_is_replaced,
    what_cannot_be_replaced_is_named,
    nvram_and_intents_that_are_gone_cost_what_members_have_marked,
    writes_that_only_the_cache_had_are_given_up_by_order_alone,
    what_a_lost_device_had_alone_is_given_up_by_order_alone,
    a_flipped_bit_of_the_intents_costs_nothing,
    intents_that_are_lost_alone_cost_nothing,
    a_damaged_list_of_bad_pages_is_told_once,
}

const PAGES: u64 = 3 * 512;

pub(super) fn wait_for(array: &Array, state: &str) -> Value {
    wait(array, |status| status["array"]["state"] == state)
}

/// Waits until this holds of the status.
pub(super) fn wait(array: &Array, holds: impl Fn(&Value) -> bool) -> Value {
    let begin = Instant::now();
    loop {
        let status = array.status();
        if holds(&status) {
            return status;
        }
        assert!(begin.elapsed() < PATIENCE, "it does not come to that: {status}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a member that was copied to a file is that file.
pub(super) fn wait_copied(array: &Array, member: usize, path: &str) -> Value {
    wait(array, |status| {
        let device = &status["array"]["devices"][member];
        device["path"] == path && device["successor"].is_null()
    })
}

/// Fills an array, and flushes; returns the number of each page's version.
pub(super) fn fill(array: &Array, seed: u64, steps: usize) -> Vec<u64> {
    let mut client = array.client();
    let (mut draws, mut content, mut number) = (Draws(seed), vec![0; PAGES as usize], 0);
    write(&mut client, &mut draws, &mut content, &mut number, steps);
    client.flush().expect("a flush");
    content
}

/// Checks that each page is of this version.
pub(super) fn assert_holds(array: &Array, content: &[u64], when: &str) {
    let mut bytes = vec![0; PAGES as usize * 4096];
    array.client().read(0, &mut bytes).expect("a read of all");
    for (at, (found, number)) in bytes.chunks(4096).zip(content).enumerate() {
        let right = if *number == 0 { found.iter().all(|byte| *byte == 0) } else { found == page(*number) };
        assert!(right, "{when}: page {at} is not version {number}");
    }
}

fn a_member_that_is_gone_is_replaced_while_clients_go_on(io_mode: IoMode) {
    for (policy, file) in [("none", None), ("kdd", Some("fresh")), ("write-back", None)] {
        let settings: &[&str] =
            if policy == "none" { &["--policy", policy] } else { &["--policy", policy, "--cache", "1MiB"] };
        let mut array = Array::new(io_mode, settings);
        array.serve(&[]);
        let mut client = array.client();
        let mut draws = Draws(9);
        let mut content = vec![0; PAGES as usize];
        let mut number = 0;
        let mut work = |client: &mut _, steps: usize| write(client, &mut draws, &mut content, &mut number, steps);
        work(&mut client, 300);
        array.stop();
        // It is not there at the next start.
        fs::remove_file(array.file("member2")).expect("a member");
        array.serve(&[]);
        let status = wait_for(&array, "degraded");
        assert_eq!(status["array"]["devices"][2]["answers"], false, "{status}");
        let mut client = array.client();
        work(&mut client, 300);
        let fresh = file.map(|name| array.file(name).display().to_string());
        let words: Vec<&str> = ["2"].into_iter().chain(fresh.as_deref()).collect();
        let replaced = array.command("replace", &words);
        assert!(replaced.status.success(), "{policy}: {}", String::from_utf8_lossy(&replaced.stderr));
        work(&mut client, 100);
        wait_for(&array, "serving");
        drop(client);
        array.stop();
        if let Some(fresh) = &fresh {
            let text = fs::read_to_string(array.file("array.toml")).expect("a description");
            assert!(text.contains(fresh), "{text}");
        }
        // With another member gone, what the new one holds is needed.
        fs::remove_file(array.file("member0")).expect("a member");
        array.serve(&[]);
        wait_for(&array, "degraded");
        assert_holds(&array, &content, policy);
        array.stop();
    }
}

fn write(
    client: &mut destage_nbd::client::blocking::BlockingConnection<std::os::unix::net::UnixStream>,
    draws: &mut Draws,
    content: &mut [u64],
    number: &mut u64,
    steps: usize,
) {
    for _ in 0..steps {
        *number += 1;
        let at = draws.below(PAGES);
        client.write(at * 4096, &page(*number), draws.below(9) == 0).expect("a write");
        content[at as usize] = *number;
    }
}

fn a_cache_that_is_gone_costs_nothing_and_is_replaced(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "kdd", "--cache", "1MiB"]);
    array.serve(&[]);
    for number in 0..200 {
        array.client().write(number * 4096, &page(number), false).expect("a write");
    }
    array.stop();
    fs::remove_file(array.file("cache")).expect("a cache");
    array.serve(&[]);
    let status = array.status();
    assert_eq!(status["array"]["cache"]["in_use"], false, "{status}");
    let replaced = array.command("replace", &["cache"]);
    assert!(replaced.status.success(), "{}", String::from_utf8_lossy(&replaced.stderr));
    let mut client = array.client();
    for number in 0..200 {
        let mut bytes = vec![0; 4096];
        client.read(number * 4096, &mut bytes).expect("a read");
        assert!(bytes == page(number), "page {number}");
    }
    assert_eq!(array.status()["array"]["cache"]["in_use"], true);
    array.stop();
}

fn what_cannot_be_replaced_is_named(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    array.serve(&[]);
    let own = array.file("member1").display().to_string();
    for (words, part) in
        [(&["7"][..], "there are member 0, member 1"), (&["cache"], "no device"), (&["0", &own], "the same file")]
    {
        let refused = array.command("replace", words);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(part), "{words:?}: {said}");
    }
    assert_eq!(array.status()["array"]["state"], "serving");
    array.stop();
}

/// Returns the message with which `destage serve` refuses an array.
fn refused(array: &Array, words: &[&str]) -> String {
    let output = array.command("serve", words);
    assert!(!output.status.success(), "it is not served");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn nvram_and_intents_that_are_gone_cost_what_members_have_marked(io_mode: IoMode) {
    for lost in [&["nvram", "intents"][..], &["nvram", "intents", "cache"]] {
        let mut array = Array::new(io_mode, &["--policy", "kdd", "--cache", "1MiB"]);
        array.serve(&[]);
        let mut client = array.client();
        let mut draws = Draws(11);
        let (mut content, mut number) = (vec![0; PAGES as usize], 0);
        write(&mut client, &mut draws, &mut content, &mut number, 200);
        client.flush().expect("a flush");
        array.kill();
        for name in lost {
            fs::remove_file(array.file(name)).expect("a file");
        }
        array.serve(&[]);
        let mut bytes = vec![0; PAGES as usize * 4096];
        array.client().read(0, &mut bytes).expect("a read of all");
        for (at, (found, number)) in bytes.chunks(4096).zip(&content).enumerate() {
            let right = if *number == 0 { found.iter().all(|byte| *byte == 0) } else { found == page(*number) };
            assert!(right, "{lost:?}: page {at} is not version {number}");
        }
        let status = array.status();
        let told = &status["array"]["resynchronised"];
        let files = told["lost"].as_array().expect("a list").len();
        assert_eq!(files, lost.iter().filter(|name| **name != "cache").count(), "{told}");
        let (rows, of) = (told["rows"].as_u64().expect("rows"), told["of"].as_u64().expect("rows"));
        assert!(rows > 0 && rows <= of, "{told}");
        // The members had all that was answered.
        assert_eq!(told["data_lost"], false, "{told}");
        assert_eq!(status["array"]["devices"][4]["answers"], !lost.contains(&"cache"), "{status}");
        array.stop();
        // Parity is right: each member can be done without.
        fs::remove_file(array.file("member1")).expect("a member");
        array.serve(&[]);
        assert!(array.status()["array"]["resynchronised"].is_null(), "that is over");
        let mut again = vec![0; bytes.len()];
        array.client().read(0, &mut again).expect("a read of all");
        assert!(again == bytes, "{lost:?}: without a member");
        array.stop();
    }
}

fn writes_that_only_the_cache_had_are_given_up_by_order_alone(io_mode: IoMode) {
    for policy in ["write-back", "wow"] {
        let mut array = Array::new(io_mode, &["--policy", policy, "--cache", "1MiB"]);
        array.serve(&[]);
        let mut client = array.client();
        let mut draws = Draws(12);
        let (mut content, mut number) = (vec![0; PAGES as usize], 0);
        write(&mut client, &mut draws, &mut content, &mut number, 50);
        client.flush().expect("a flush");
        array.kill();
        fs::remove_file(array.file("nvram")).expect("a file");
        let why = refused(&array, &[]);
        assert!(
            why.contains("nvram") && why.contains("writes that were answered and are on no member"),
            "{policy}: {why}"
        );
        array.serve(&["--accept-losses"]);
        assert_eq!(array.status()["array"]["resynchronised"]["data_lost"], true);
        array.stop();
        let log = array.log();
        let line = log.lines().find(|line| line.contains(" warning: lost and made anew: "));
        assert!(line.is_some_and(|line| line.contains("writes that were answered may be lost with it")), "{log}");
        // After an end in order nothing is lost with them.
        fs::remove_file(array.file("nvram")).expect("a file");
        array.serve(&[]);
        let told = &array.status()["array"]["resynchronised"];
        assert_eq!((&told["rows"], &told["data_lost"]), (&Value::from(0), &Value::from(false)), "{policy}");
        array.stop();
        assert!(array.log().contains(" notice: lost and made anew: "), "{}", array.log());
    }
}

/// Loses the cache's device of write-back after a crash, and a member after a crash under writes.
fn what_a_lost_device_had_alone_is_given_up_by_order_alone(io_mode: IoMode) {
    for (policy, gone) in [("write-back", "cache"), ("kdd", "member1"), ("none", "member1")] {
        let settings: &[&str] =
            if policy == "none" { &["--policy", policy] } else { &["--policy", policy, "--cache", "1MiB"] };
        let mut array = Array::new(io_mode, settings);
        array.serve(&[]);
        let mut client = array.client();
        let mut draws = Draws(12);
        let (mut content, mut number) = (vec![0; PAGES as usize], 0);
        write(&mut client, &mut draws, &mut content, &mut number, 200);
        client.flush().expect("a flush");
        write(&mut client, &mut draws, &mut content, &mut number, 20);
        array.kill();
        fs::remove_file(array.file(gone)).expect("a file");
        let why = refused(&array, &[]);
        assert!(why.contains("--accept-losses") && why.contains("pages of the array"), "{policy}: {why}");
        array.serve(&["--accept-losses"]);
        wait_for(&array, "degraded");
        let log = array.log();
        assert!(log.contains("error: ") && log.contains("bytes of data may be lost: "), "{log}");
        let status = array.status();
        let lost = status["array"]["lost"].as_array().expect("ranges");
        assert!(!lost.is_empty(), "{policy}: {status}");
        let is_lost = |at: u64| {
            let of = |range: &Value, key: &str| range[key].as_u64().expect("bytes");
            lost.iter().any(|range| (of(range, "offset")..of(range, "offset") + of(range, "bytes")).contains(&at))
        };
        // What is not named is there. Of the cache every page may be lost.
        let mut bytes = vec![0; 4096];
        let mut client = array.client();
        for at in (0..PAGES).filter(|at| !is_lost(at * 4096)) {
            client.read(at * 4096, &mut bytes).expect("it is not lost");
            let number = content[at as usize];
            assert!(if number == 0 { bytes == [0; 4096] } else { bytes == page(number) }, "{policy}: page {at}");
        }
        array.stop();
        // It is accepted once and for all.
        array.serve(&[]);
        wait_for(&array, "degraded");
        array.stop();
    }
}

fn a_flipped_bit_of_the_intents_costs_nothing(io_mode: IoMode) {
    for (policy, size) in [("write-back", "1MiB"), ("lawc", "256KiB"), ("kdd", "1MiB")] {
        let mut array = Array::new(io_mode, &["--policy", policy, "--cache", size]);
        array.serve(&[]);
        let content = fill(&array, 13, 200);
        array.kill();
        let mut bytes = fs::read(array.file("intents")).expect("a file");
        bytes[540] ^= 1;
        fs::write(array.file("intents"), bytes).expect("a file");
        array.serve(&[]);
        wait_for(&array, "serving");
        let log = array.log();
        assert!(log.contains(" warning: ") && log.contains("rows are made consistent for it"), "{log}");
        assert_holds(&array, &content, policy);
        array.stop();
    }
}

/// Loses the file of the intents, or damages its header: the NVRAM keeps what only it has.
fn intents_that_are_lost_alone_cost_nothing(io_mode: IoMode) {
    for (policy, is_removed) in [("wow", true), ("kdd", false), ("write-back", false)] {
        let mut array = Array::new(io_mode, &["--policy", policy, "--cache", "1MiB"]);
        array.serve(&[]);
        let content = fill(&array, 17, 200);
        array.kill();
        let path = array.file("intents");
        if is_removed {
            fs::remove_file(&path).expect("a file");
        } else {
            let mut bytes = fs::read(&path).expect("a file");
            bytes[300] ^= 1;
            fs::write(&path, bytes).expect("a file");
        }
        array.serve(&[]);
        wait_for(&array, "serving");
        let log = array.log();
        assert!(log.contains(" warning: ") && log.contains("rows are made consistent for it"), "{policy}: {log}");
        assert!(array.status()["array"]["resynchronised"].is_null(), "{policy}: the NVRAM is kept");
        assert_holds(&array, &content, policy);
        array.stop();
    }
}

fn a_damaged_list_of_bad_pages_is_told_once(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    array.serve(&[]);
    let content = fill(&array, 19, 50);
    array.stop();
    let path = array.file("member1");
    let mut bytes = fs::read(&path).expect("a file");
    let places: Vec<usize> = (0..bytes.len()).step_by(512).filter(|at| bytes[*at..].starts_with(b"dstgEVNT")).collect();
    assert_eq!(places.len(), 2, "each event count has a list behind it");
    for place in places {
        bytes[place + 512 + 100] ^= 1;
    }
    fs::write(&path, bytes).expect("a file");
    for is_told in [true, false] {
        array.serve(&[]);
        wait_for(&array, "serving");
        let log = array.log();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("of pages that it cannot keep")).collect();
        assert_eq!(lines.len(), usize::from(is_told), "{log}");
        assert!(lines.iter().all(|line| line.contains(" warning: ") && line.contains("member 1: ")), "{log}");
        assert_holds(&array, &content, "without the list");
        array.stop();
    }
}
