//! Checks that `destage replace` costs no data, whatever is typed.

use std::fs;
use std::time::{Duration, Instant};

use destage_nbd::client::blocking::BlockingConnection;

use super::losses::{assert_holds, fill, wait, wait_copied, wait_for};
use super::{Array, IoMode, PATIENCE, page};
use crate::tmpfs::TmpfsDisk;

io_mode_tests! {
    a_member_that_the_level_needs_is_not_replaced,
    a_member_that_answers_is_copied_and_stays_in_its_place,
    a_member_of_an_array_without_redundancy_is_copied,
    orders_while_a_member_is_copied,
    a_file_that_holds_something_is_not_overwritten,
    the_place_of_a_lost_member_is_no_other_s,
    a_dirty_cache_is_written_back_before_it_is_replaced,
    a_replacement_without_room_costs_nothing,
    a_cache_is_detached_and_attached,
    a_member_is_taken_out_by_order,
    members_are_found_in_whatever_order_they_are_named,
}

/// Rotates the members that the description names, as after a change of device names.
fn rotate_members(array: &Array) {
    let text = fs::read_to_string(array.file("array.toml")).expect("a description");
    let mut description: toml::Table = toml::from_str(&text).expect("a description");
    let members = description["array"]["members"].as_array_mut().expect("members");
    members.rotate_left(1);
    fs::write(array.file("array.toml"), toml::to_string(&description).expect("a description")).expect("a description");
}

fn members_are_found_in_whatever_order_they_are_named(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "kdd", "--cache", "1MiB"]);
    array.serve(&[]);
    let content = fill(&array, 3, 300);
    array.stop();
    rotate_members(&array);
    array.serve(&[]);
    wait_for(&array, "serving");
    let path = |name: &str| array.file(name).display().to_string();
    let status = array.status();
    for number in 0..4 {
        assert_eq!(status["array"]["devices"][number]["path"], path(&format!("member{number}")), "{status}");
    }
    let named = format!("in another order than array.toml has them: member 0 is {}, member 1 is", path("member0"));
    assert!(array.log().contains(&named), "{}", array.log());
    assert_holds(&array, &content, "named in another order");
    // The description gets the new file, and the others in their places.
    let replaced = array.command("replace", &["1", &path("new")]);
    assert!(replaced.status.success(), "{}", String::from_utf8_lossy(&replaced.stderr));
    wait_copied(&array, 1, &path("new"));
    array.stop();
    let text = fs::read_to_string(array.file("array.toml")).expect("a description");
    let description: toml::Table = toml::from_str(&text).expect("a description");
    let members = description["array"]["members"].as_array().expect("members");
    let names: Vec<&str> = members.iter().map(|name| name.as_str().expect("a name")).collect();
    assert!(matches!(names[..], ["member0", new, "member2", "member3"] if new.ends_with("new")), "{names:?}");
    array.serve(&[]);
    wait_for(&array, "serving");
    assert!(!array.log().contains("in another order"), "{}", array.log());
    fs::remove_file(array.file("member0")).expect("a member");
    assert_holds(&array, &content, "with the new member");
    array.stop();
}

/// Returns what is said of an order that is not carried out.
fn refused(array: &Array, words: &[&str]) -> String {
    let output = array.command("replace", words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
    said
}

fn a_member_that_the_level_needs_is_not_replaced(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "kdd", "--cache", "1MiB"]);
    array.serve(&[]);
    let content = fill(&array, 3, 300);
    let fresh = array.file("fresh").display().to_string();
    let said = refused(&array, &["2"]);
    assert!(said.contains("member 2 answers and is whole") && said.contains("name the file"), "{said}");
    array.stop();
    fs::remove_file(array.file("member1")).expect("a member");
    array.serve(&[]);
    wait_for(&array, "degraded");
    let said = refused(&array, &["2"]);
    for part in ["member 1 is lost, and raid5:4 cannot do without member 2", "replace member 1 first", "--force"] {
        assert!(said.contains(part), "{said}");
    }
    assert_holds(&array, &content, "after a refusal");
    // By another file it is replaced all the same, since it is copied.
    let copied = array.file("copied").display().to_string();
    assert!(array.command("replace", &["2", &copied]).status.success());
    let status = wait_copied(&array, 2, &copied);
    assert_eq!(status["array"]["state"], "degraded", "{status}");
    assert_holds(&array, &content, "with a copied member");
    let replaced = array.command("replace", &["1", &fresh]);
    let told = String::from_utf8_lossy(&replaced.stderr);
    assert!(replaced.status.success() && told.contains("member 1 by") && told.contains("fresh"), "{told}");
    wait_for(&array, "serving");
    let other = array.file("other").display().to_string();
    let replaced = array.command("replace", &["member 2", &other]);
    assert!(replaced.status.success(), "{}", String::from_utf8_lossy(&replaced.stderr));
    wait_copied(&array, 2, &other);
    array.stop();
    fs::remove_file(array.file("member0")).expect("a member");
    array.serve(&[]);
    assert_holds(&array, &content, "with two others, and without a third");
    // Whoever wants to lose data may.
    let forced = array.command("replace", &["2", "--force"]);
    assert!(forced.status.success(), "{}", String::from_utf8_lossy(&forced.stderr));
    let said = refused(&array, &["0"]);
    assert!(said.contains("cannot do without them: nothing can fill a replacement"), "{said}");
    array.kill();
}

fn a_member_that_answers_is_copied_and_stays_in_its_place(io_mode: IoMode) {
    let mut array = Array::sized(io_mode, "128MiB", &["--policy", "kdd", "--cache", "1MiB"]);
    array.serve(&[]);
    let content = fill(&array, 3, 300);
    let (fresh, old) = (array.file("fresh").display().to_string(), array.file("member1").display().to_string());
    let mut client = array.client();
    let replaced = array.command("replace", &["1", &fresh]);
    let told = String::from_utf8_lossy(&replaced.stderr);
    for part in ["copying", "member 1 to", "goes on in its place", "destage status"] {
        assert!(replaced.status.success() && told.contains(part), "{part}: {told}");
    }
    let status = array.status();
    let device = &status["array"]["devices"][1];
    assert_eq!((&status["array"]["state"], &device["path"]), (&"serving".into(), &old.as_str().into()), "{status}");
    assert_eq!(device["successor"]["path"], fresh.as_str(), "{status}");
    let percent = device["successor"]["filled_percent"].as_f64().expect("a percentage");
    assert!((0.0..100.0).contains(&percent), "{percent}");
    let shown = array.command("status", &[]);
    let said = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.code() == Some(0) && said.contains("copied to"), "{said}");
    rewrite(&mut client, &content);
    let status = wait_copied(&array, 1, &fresh);
    assert_eq!(status["array"]["state"], "serving", "{status}");
    assert_holds(&array, &content, "with the new member");
    for part in ["member 1 is being filled: ", "member 1 is filled to 50 %", "member 1 is filled: ", "now"] {
        assert!(array.log().contains(part), "{part}: {}", array.log());
    }
    assert!(!array.log().contains("degraded"), "{}", array.log());
    drop(client);
    array.stop();
    fs::remove_file(array.file("member0")).expect("a member");
    array.serve(&[]);
    wait_for(&array, "degraded");
    assert_holds(&array, &content, "without another member");
    // The old file is no member any more.
    array.stop();
    let text = fs::read_to_string(array.file("array.toml")).expect("a description");
    fs::write(array.file("array.toml"), text.replace(&fresh, "member1")).expect("a description");
    let refused = array.command("serve", &[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("2 members are lost"), "{said}");
}

fn a_member_of_an_array_without_redundancy_is_copied(io_mode: IoMode) {
    let mut array = Array::of_level(io_mode, "raid0:4", "2MiB", &["--policy", "none"]);
    array.serve(&[]);
    let content = fill(&array, 3, 300);
    let fresh = array.file("fresh").display().to_string();
    assert!(array.command("replace", &["2", &fresh]).status.success());
    wait_copied(&array, 2, &fresh);
    assert_holds(&array, &content, "with the new member");
    fs::remove_file(array.file("member2")).expect("the old file");
    array.kill();
    array.serve(&[]);
    assert_eq!(array.status()["array"]["state"], "serving");
    assert_holds(&array, &content, "at the next start");
    array.stop();
}

fn orders_while_a_member_is_copied(io_mode: IoMode) {
    let mut array = Array::sized(io_mode, "512MiB", &["--policy", "kdd", "--cache", "1MiB"]);
    array.serve(&[]);
    let content = fill(&array, 3, 300);
    let file = |name: &str| array.file(name).display().to_string();
    let order = |words: &[&str]| array.command(words[0], &words[1..]);
    let carry_out = |words: &[&str]| {
        let done = order(words);
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    carry_out(&["replace", "1", &file("fresh")]);
    carry_out(&["fail", "1"]);
    wait_for(&array, "degraded");
    // It is taken out when the array has come to rest: a copy that has ended by then has had its place.
    let log = array.log();
    let is_dropped = log.contains("fresh does not take the place of member 1: ") && log.contains("taken out by order");
    assert!(is_dropped || log.contains("member 1 is filled: "), "{log}");
    // What was given a part of it is filled from the others.
    carry_out(&["replace", "1", &file("fresh")]);
    wait_for(&array, "serving");
    assert_holds(&array, &content, "filled from the others");
    // An order may come when the copying has just ended.
    let is_refused = (0..10).any(|attempt| {
        let (one, other) = (file(&format!("one{attempt}")), file(&format!("other{attempt}")));
        carry_out(&["replace", "2", &one]);
        let said = order(&["replace", "3", &other]);
        let is_refused = !said.status.success();
        let why = String::from_utf8_lossy(&said.stderr);
        let parts = ["member 2 is being copied to", "one member is copied at a time"];
        assert!(!is_refused || parts.iter().all(|part| why.contains(part)), "{why}");
        carry_out(&["scrub", "--rate", "off"]);
        wait_copied(&array, 2, &one);
        if !is_refused {
            wait_copied(&array, 3, &other);
        }
        is_refused
    });
    assert!(is_refused, "one member is copied at a time: {}", array.log());
    carry_out(&["replace", "2", &file("again")]);
    carry_out(&["detach"]);
    wait_copied(&array, 2, &file("again"));
    carry_out(&["attach"]);
    carry_out(&["replace", "3", &file("last")]);
    array.stop();
    let log = array.log();
    let is_dropped = log.contains("last does not take the place of member 3: the array is stopped");
    assert!(is_dropped || log.contains("member 3 is filled: "), "{log}");
    array.serve(&[]);
    assert_eq!(array.status()["array"]["state"], "serving");
    if is_dropped {
        // The same order once more does it, though the file holds a part of the member.
        let last = array.file("last").display().to_string();
        assert!(array.command("replace", &["3", &last]).status.success());
        wait_copied(&array, 3, &last);
    }
    assert_holds(&array, &content, "with three new members");
    array.stop();
}

fn a_file_that_holds_something_is_not_overwritten(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "kdd", "--cache", "1MiB"]);
    let mut other = Array::new(io_mode, &["--policy", "kdd", "--cache", "1MiB"]);
    other.serve(&[]);
    let theirs = fill(&other, 9, 200);
    other.stop();
    array.serve(&[]);
    let content = fill(&array, 3, 200);
    let user = array.file("user");
    let bytes = fs::metadata(array.file("member2")).expect("a member").len() as usize;
    fs::write(&user, b"precious".repeat(bytes / 8)).expect("a file");
    for (path, part) in [(&user, "holds data at byte 0"), (&other.file("member2"), "is device 2 of another array")] {
        let before = fs::read(path).expect("a file");
        let said = refused(&array, &["2", &path.display().to_string()]);
        assert!(said.contains(part) && said.contains("--force"), "{said}");
        assert!(fs::read(path).expect("a file") == before, "{part}: it is as it was");
    }
    assert_eq!(array.status()["array"]["state"], "serving");
    other.serve(&[]);
    assert_holds(&other, &theirs, "the other array");
    other.stop();
    let forced = array.command("replace", &["2", &user.display().to_string(), "--force"]);
    assert!(forced.status.success(), "{}", String::from_utf8_lossy(&forced.stderr));
    wait_copied(&array, 2, &user.display().to_string());
    assert_holds(&array, &content, "with a file that was given up");
    array.stop();
}

/// Types another member's number with a lost member's file, which is not there, or is there and empty.
fn the_place_of_a_lost_member_is_no_other_s(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &[]);
    array.serve(&[]);
    let content = fill(&array, 4, 200);
    array.stop();
    let place = array.file("member3");
    let named = place.display().to_string();
    fs::rename(&place, array.file("dead")).expect("a member");
    array.serve(&[]);
    let blank = || fs::File::create(&place).and_then(|file| file.set_len(fs::metadata(array.file("dead"))?.len()));
    for is_there in [false, true] {
        if is_there {
            blank().expect("a file");
        }
        for force in [&[][..], &["--force"]] {
            let words = [&["2", &named][..], force].concat();
            let said = refused(&array, &words);
            assert!(said.contains("is the place of member 3 of this array") && !said.contains("--force"), "{said}");
            assert_eq!(place.exists(), is_there, "it leaves what it found");
        }
    }
    let replaced = array.command("replace", &["3", &named]);
    assert!(replaced.status.success(), "{}", String::from_utf8_lossy(&replaced.stderr));
    assert_holds(&array, &content, "with a new member 3");
    array.stop();
    array.serve(&[]);
    assert_holds(&array, &content, "once more");
    array.stop();
}

fn a_dirty_cache_is_written_back_before_it_is_replaced(io_mode: IoMode) {
    for policy in ["write-back", "leavo", "kdd", "write-through"] {
        let mut array = Array::new(io_mode, &["--policy", policy, "--cache", "1MiB"]);
        array.serve(&[]);
        let content = fill(&array, 5, 200);
        let fresh = array.file("fresh").display().to_string();
        // Clients go on meanwhile.
        let mut client = array.client();
        let done = std::thread::scope(|scope| {
            let order = scope.spawn(|| array.command("replace", &["cache", &fresh]));
            let (mut longest, begin) = (Duration::ZERO, Instant::now());
            while !order.is_finished() {
                assert!(begin.elapsed() < PATIENCE, "{policy}: it is not replaced");
                longest = longest.max(rewrite(&mut client, &content));
            }
            assert!(longest < PATIENCE / 4, "{policy}: a write waited for {longest:?}");
            order.join().expect("it is ordered")
        });
        assert!(done.status.success(), "{policy}: {}", String::from_utf8_lossy(&done.stderr));
        // What it knows of its new device is written there first.
        let status = wait(&array, |status| status["array"]["cache"]["in_use"] == true);
        assert_eq!(status["array"]["devices"][4]["path"], fresh.as_str(), "{status}");
        assert_eq!(status["array"]["lost"].as_array().map(Vec::len), Some(0), "{status}");
        assert_holds(&array, &content, policy);
        array.stop();
        array.serve(&[]);
        assert_holds(&array, &content, policy);
        array.stop();
    }
}

fn a_cache_is_detached_and_attached(io_mode: IoMode) {
    for policy in ["write-back", "leavo", "kdd", "write-through"] {
        let mut array = Array::new(io_mode, &["--policy", policy, "--cache", "1MiB"]);
        array.serve(&[]);
        let content = fill(&array, 5, 200);
        let mut client = array.client();
        let done = std::thread::scope(|scope| {
            let order = scope.spawn(|| array.command("detach", &[]));
            while !order.is_finished() {
                rewrite(&mut client, &content);
            }
            order.join().expect("it is ordered")
        });
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && told.contains("destage attach"), "{policy}: {told}");
        let status = wait_for(&array, "degraded");
        assert_eq!(status["array"]["devices"][4]["error"].as_str().map(|why| why.contains("by order")), Some(true));
        assert_eq!(status["array"]["lost"].as_array().map(Vec::len), Some(0), "{status}");
        let again = array.command("detach", &[]);
        let said = String::from_utf8_lossy(&again.stderr);
        assert!(again.status.code() == Some(1) && said.contains("cache is lost already"), "{policy}: {said}");
        assert_holds(&array, &content, policy);
        // Whatever its file held is old from now on.
        array.kill();
        array.serve(&[]);
        assert_holds(&array, &content, policy);
        let fresh = array.file("fresh").display().to_string();
        let attached = array.command("attach", &[&fresh]);
        assert!(attached.status.success(), "{policy}: {}", String::from_utf8_lossy(&attached.stderr));
        wait(&array, |status| status["array"]["cache"]["in_use"] == true);
        let again = array.command("attach", &[]);
        let said = String::from_utf8_lossy(&again.stderr);
        assert!(again.status.code() == Some(1) && said.contains("the cache is in use"), "{policy}: {said}");
        assert_holds(&array, &content, policy);
        array.stop();
        array.serve(&[]);
        assert_holds(&array, &content, policy);
        array.stop();
    }
}

fn a_member_is_taken_out_by_order(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "kdd", "--cache", "1MiB"]);
    array.serve(&[]);
    let content = fill(&array, 3, 300);
    let failed = array.command("fail", &["2"]);
    let told = String::from_utf8_lossy(&failed.stderr);
    assert!(failed.status.success() && told.contains("member 2; destage replace"), "{told}");
    wait_for(&array, "degraded");
    let fail = |words: &[&str], part: &str| {
        let refused = array.command("fail", words);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(1) && said.contains(part), "{words:?}: {said}");
    };
    fail(&["2"], "member 2 is lost already");
    fail(&["1"], "member 2 is lost, and raid5:4 cannot do without member 1 as well");
    fail(&["1"], "(--force takes it out all the same)");
    fail(&["7"], "there is no device \"7\"");
    assert_holds(&array, &content, "without a member");
    array.kill();
    array.serve(&[]);
    assert_holds(&array, &content, "at the next start");
    assert_eq!(array.status()["array"]["state"], "degraded", "its file has missed writes");
    let replaced = array.command("replace", &["2"]);
    assert!(replaced.status.success(), "{}", String::from_utf8_lossy(&replaced.stderr));
    wait_for(&array, "serving");
    assert_holds(&array, &content, "filled again");
    array.stop();
}

/// Writes some pages once more as they are; returns the longest time that one of them took.
fn rewrite(client: &mut BlockingConnection<std::os::unix::net::UnixStream>, content: &[u64]) -> Duration {
    let written = content.iter().zip(0..).filter(|(number, _)| **number > 0).take(20);
    let times = written.map(|(number, at)| {
        let begin = Instant::now();
        client.write(at * 4096, &page(*number), false).expect("a write");
        begin.elapsed()
    });
    times.max().unwrap_or_default()
}

fn a_replacement_without_room_costs_nothing(io_mode: IoMode) {
    let test = "a_replacement_without_room_costs_nothing";
    let mut array = Array::new(io_mode, &["--policy", "kdd", "--cache", "1MiB"]);
    array.serve(&[]);
    let content = fill(&array, 7, 200);
    let Some(full) = TmpfsDisk::new(test, array.file("full"), "size=1m") else { return };
    let new = full.0.join("new");
    let said = refused(&array, &["2", &new.display().to_string()]);
    assert!(said.contains("cannot find room for all that it will hold: No space left on device"), "{said}");
    assert!(!new.exists(), "the room is given back");
    assert_eq!(array.status()["array"]["state"], "serving");
    assert_holds(&array, &content, "after a refusal");
    array.stop();
    array.serve(&[]);
    assert_holds(&array, &content, "at the next start");
    array.stop();
}
