//! States of a served array from outside: what clients and the operator see of each, and how it goes on.

use std::fs;

use super::losses::{assert_holds, fill, wait_for};
use super::{Array, IoMode, page};
use crate::loop_device::tool;
use crate::tmpfs::TmpfsDisk;

io_mode_tests! {
    requests_wait_until_a_crash_is_put_right,
    a_member_that_is_filled_is_shown_and_the_others_are_kept,
    a_failed_array_serves_what_it_has_and_is_assembled,
    an_array_without_room_stops_and_goes_on_with_room,
}

/// Loses the NVRAM of an array of which each part was written lately, so that all of it is made consistent.
fn requests_wait_until_a_crash_is_put_right(io_mode: IoMode) {
    const MEMBER: u64 = 512 << 20;
    let mut array = Array::sized(io_mode, &format!("{MEMBER}"), &["--policy", "none"]);
    array.serve(&[]);
    let mut client = array.client();
    let places = (0..3 * MEMBER).step_by(6 << 20);
    for (number, at) in places.clone().enumerate() {
        client.write(at, &page(number as u64), false).expect("a write");
    }
    client.flush().expect("a flush");
    array.kill();
    for name in ["nvram", "intents"] {
        fs::remove_file(array.file(name)).expect("a file");
    }
    array.serve(&[]);
    // It answers at once, with exit status 0, which `status` checks.
    assert_eq!(array.status()["array"]["state"], "recovering", "{}", array.log());
    let refused = array.command("scrub", &[]);
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
    let mut client = array.client();
    let mut bytes = vec![0; 4096];
    let last = 3 * MEMBER - (6 << 20);
    client.read(last, &mut bytes).expect("it waits");
    assert!(bytes == page(last / (6 << 20)), "it is right once it is answered");
    let status = wait_for(&array, "serving");
    assert!(status["array"]["resynchronised"]["rows"].as_u64() > Some(MEMBER / 4096 / 2), "{status}");
    for (number, at) in places.enumerate() {
        client.read(at, &mut bytes).expect("a read");
        assert!(bytes == page(number as u64), "page at {at}");
    }
    array.stop();
    let log = array.log();
    for part in [
        " info: the array is recovering",
        " notice: the array is serving; it was recovering",
        " notice: lost and made anew: ",
        " rows were made consistent",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

fn a_member_that_is_filled_is_shown_and_the_others_are_kept(io_mode: IoMode) {
    let mut array = Array::sized(io_mode, "512MiB", &["--policy", "none"]);
    array.serve(&[]);
    let content = fill(&array, 41, 200);
    assert!(array.command("fail", &["1"]).status.success());
    wait_for(&array, "degraded");
    let replaced = array.command("replace", &["1"]);
    assert!(replaced.status.success(), "{}", String::from_utf8_lossy(&replaced.stderr));
    // With exit status 3, which `status` checks.
    let status = wait_for(&array, "rebuilding");
    let percent = status["array"]["devices"][1]["filled_percent"].as_f64().expect("a percentage");
    assert!((0.0..100.0).contains(&percent), "{status}");
    let refused = array.command("fail", &["2"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    for part in ["member 1 is being filled", "cannot do without member 2 as well", "wait until that is done"] {
        assert!(refused.status.code() == Some(1) && said.contains(part), "{part}: {said}");
    }
    let shown = array.command("status", &[]);
    let told = String::from_utf8_lossy(&shown.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.status.code() == Some(3) && told.contains("rebuilding") && told.contains("filled to"), "{told}");
    assert_holds(&array, &content, "while it is filled");
    wait_for(&array, "serving");
    // Nothing is in the way any more.
    assert!(array.command("fail", &["2"]).status.success());
    assert_holds(&array, &content, "with the new member");
    array.stop();
    let log = array.log();
    for part in [
        " notice: the array is rebuilding; it was degraded",
        " notice: member 1 is being filled: ",
        " info: member 1 is filled to 50 %",
        " notice: member 1 is filled: ",
        " notice: the array is serving; it was rebuilding",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

/// Takes member 1 out, and later member 2 by force: the level can do without one.
fn a_failed_array_serves_what_it_has_and_is_assembled(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    array.serve(&[]);
    let content = fill(&array, 42, 300);
    assert!(array.command("fail", &["1"]).status.success());
    let mut client = array.client();
    // Member 1 misses writes of the first rows.
    for at in 0..16 {
        client.write(at * 4096, &page(9_000 + at), false).expect("a write");
    }
    client.flush().expect("a flush");
    assert!(array.command("fail", &["2", "--force"]).status.success());
    // With exit status 4, which `status` checks.
    wait_for(&array, "failed");
    let mut bytes = vec![0; 4096];
    // A chunk has 16 pages; of stripe 1 members 3, 0 and 1 have the data.
    let mut is_served = |page: u64| client.read(page * 4096, &mut bytes).is_ok();
    assert!((48..80).all(&mut is_served), "what the other members hold is served");
    assert!(!(80..96).any(&mut is_served), "what member 1 held is not");
    let refused = array.command("replace", &["1"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("nothing can fill a replacement"), "{said}");
    array.stop();
    assert!(array.log().contains(" critical: the array is failed"), "{}", array.log());
    let refused = array.command("serve", &["--run", "true"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("destage assemble --force"), "{said}");
    let looked = array.command("assemble", &[]);
    let said = String::from_utf8_lossy(&looked.stderr);
    assert!(looked.status.code() == Some(1) && said.contains("member 2"), "what it costs is told before: {said}");
    assert!(array.command("assemble", &["--force"]).status.success());
    array.serve(&[]);
    wait_for(&array, "degraded");
    let mut client = array.client();
    for (at, number) in (0..).zip(content) {
        client.read(at * 4096, &mut bytes).expect("all is served");
        let is = |number: u64| if number == 0 { bytes.iter().all(|byte| *byte == 0) } else { bytes == page(number) };
        // Of the first rows, which were written since, members are of different times.
        assert!(at < 48 || is(number), "page {at}");
    }
    array.stop();
}

/// Fills the file system that members, NVRAM and intents lie on.
fn an_array_without_room_stops_and_goes_on_with_room(io_mode: IoMode) {
    let test = "an_array_without_room_stops_and_goes_on_with_room";
    let folder = tempfile::tempdir().expect("a folder");
    let Some(disk) = TmpfsDisk::new(test, folder.path().join("array"), "size=12m") else { return };
    let mut array = Array::in_folder(folder, io_mode, "raid1:2", "16MiB", &["--policy", "none"]);
    array.serve(&["--log", "json"]);
    let mut client = array.client();
    let mut bytes = vec![0; 4096];
    let written = (0..4096).find(|number| client.write(number * 4096, &page(*number), false).is_err());
    let written = written.expect("there is not room for all");
    assert!(written > 256, "there is room for {written} pages");
    // With exit status 4, which `status` checks.
    let status = array.status();
    let why = status["array"]["state"]["stopped"].as_str().unwrap_or_else(|| panic!("{status}"));
    assert!(why.contains("cannot find room for a step: No space left on device"), "{why}");
    assert!(
        status["array"]["devices"].as_array().expect("devices").iter().all(|one| one["answers"] == true),
        "{status}"
    );
    let shown = array.command("status", &[]);
    let told = String::from_utf8_lossy(&shown.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.status.code() == Some(4) && told.contains("No space left on device"), "{told}");
    for number in 0..4 {
        assert!(client.read(number * 4096, &mut bytes).is_err(), "every request fails: page {number}");
    }
    assert!(client.write(0, &page(0), false).is_err() && client.flush().is_err());
    let stopped = array.command("stop", &[]);
    assert_eq!(stopped.status.code(), Some(1), "{}", String::from_utf8_lossy(&stopped.stderr));
    let mut service = array.service.take().expect("it was served");
    assert_eq!(service.wait().expect("it ends").code(), Some(1), "{}", array.log());
    let states = array.events("state-changed");
    let last = states.last().expect("it is told");
    assert!(last["severity"] == "critical" && last["to"]["stopped"].is_string(), "{last}");
    tool("mount", &["-o", "remount,size=64m", &disk.0.display().to_string()]).expect("it can be larger");
    array.serve(&[]);
    wait_for(&array, "serving");
    let mut client = array.client();
    for number in 0..written {
        client.read(number * 4096, &mut bytes).expect("a read");
        assert!(bytes == page(number), "page {number} of {written}");
    }
    client.write(written * 4096, &page(written), true).expect("there is room");
    drop(client);
    array.stop();
    drop(disk);
}
