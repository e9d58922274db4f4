//! Every refusal of a start names the way on, which is gone: the rows of "Refused starts" in docs/failures.md, each from
//! the damage to what is served afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;

use super::losses::{fill, wait};
use super::{Array, IoMode, page};

io_mode_tests! {
    writes_that_only_a_lost_nvram_had,
    writes_that_only_damaged_slots_of_the_nvram_had,
    an_nvram_without_a_header,
    writes_that_only_a_lost_cache_had,
    rows_that_were_being_written_without_a_member,
    an_older_nvram_while_a_member_is_missing,
    a_lost_nvram_while_a_member_is_missing,
    members_that_were_left_behind,
    members_of_which_older_copies_were_put_back,
    files_of_different_times,
    newer_files_that_are_moved_away,
    members_without_marks,
    an_nvram_of_an_earlier_version,
}

const PAGES: u64 = 3 * 512;

/// Returns what a command has said, without its line breaks.
fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns what `destage serve` says of an array that it refuses, which must hold this.
fn refused(array: &Array, says: &[&str]) -> String {
    // If it is served after all it ends at once.
    let output = array.command("serve", &["--run", "true"]);
    let said = told(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(says.iter().all(|part| said.contains(part)), "{says:?}: {said}");
    assert!(said.matches("critical: ").count() <= 1, "it is told once: {said}");
    said
}

/// Returns the row of a page in an array of four members and chunks of 16 pages.
fn row(at: u64) -> u64 {
    at / 48 * 16 + at % 16
}

/// Returns the pages of the array that status calls lost.
fn lost(status: &Value) -> BTreeSet<u64> {
    let ranges = status["array"]["lost"].as_array().expect("ranges");
    let of = |range: &Value, key: &str| range[key].as_u64().expect("bytes") / 4096;
    ranges.iter().flat_map(|range| of(range, "offset")..of(range, "offset") + of(range, "bytes")).collect()
}

/// Checks that each page is of one of these versions, but for those that may be anything.
fn assert_holds(array: &Array, content: &[u64], older: Option<&[u64]>, may_be_lost: impl Fn(u64) -> bool, what: &str) {
    let mut client = array.client();
    let mut bytes = vec![0; PAGES as usize * 4096];
    client.read(0, &mut bytes).expect("a read of all");
    for (at, found) in bytes.chunks(4096).enumerate().filter(|(at, _)| !may_be_lost(*at as u64)) {
        let is = |number: u64| if number == 0 { found.iter().all(|byte| *byte == 0) } else { found == page(number) };
        assert!(is(content[at]) || older.is_some_and(|older| is(older[at])), "{what}: page {at}");
    }
}

/// Writes these pages once more, with numbers from here on, and flushes.
fn write(array: &Array, content: &mut [u64], pages: impl Iterator<Item = u64>, mut number: u64) {
    let mut client = array.client();
    for at in pages {
        client.write(at * 4096, &page(number), false).expect("a write");
        content[at as usize] = number;
        number += 1;
    }
    client.flush().expect("a flush");
}

/// Returns what all files of an array hold, but for sockets.
fn contents(array: &Array) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(array.path()).expect("a folder").map(|entry| entry.expect("a file"));
    let files = entries.filter(|entry| entry.file_type().expect("a type").is_file()).map(|entry| entry.path());
    files.map(|path| (path.clone(), fs::read(&path).expect("a file"))).collect()
}

/// Puts files back as they were.
fn put_back(array: &Array, contents: &BTreeMap<PathBuf, Vec<u8>>, names: &[&str]) {
    for path in names.iter().map(|name| array.file(name)) {
        fs::write(&path, &contents[&path]).expect("a file");
    }
}

/// Makes an array that was killed with writes that a flush covers.
fn killed(io_mode: IoMode, settings: &[&str]) -> (Array, Vec<u64>) {
    let mut array = Array::new(io_mode, settings);
    array.serve(&[]);
    let content = fill(&array, 31, 200);
    array.kill();
    (array, content)
}

/// Serves it with losses accepted: parity is right afterwards, so that what was served is there without a member.
fn accept(array: &mut Array, content: &[u64], older: Option<&[u64]>, may_be_lost: impl Fn(u64) -> bool, what: &str) {
    array.serve(&["--accept-losses"]);
    wait(array, |status| status["array"]["state"] != "recovering");
    assert_holds(array, content, older, &may_be_lost, what);
    let mut before = vec![0; PAGES as usize * 4096];
    array.client().read(0, &mut before).expect("a read of all");
    array.stop();
    array.serve(&[]);
    let mut after = vec![0; before.len()];
    array.client().read(0, &mut after).expect("a read of all");
    assert!(before == after, "{what}: it stays");
    array.stop();
}

fn writes_that_only_a_lost_nvram_had(io_mode: IoMode) {
    for policy in ["write-back", "wow", "lawc"] {
        let (mut array, content) = killed(io_mode, &["--policy", policy, "--cache", "1MiB"]);
        fs::remove_file(array.file("nvram")).expect("a file");
        refused(&array, &["nvram is lost", "writes that were answered and are on no member", "--accept-losses"]);
        // Of each page the members have an older version.
        accept(&mut array, &content, Some(&[0; PAGES as usize]), |at| content[at as usize] != 0, policy);
    }
}

/// Flips bits until one hits data that only the NVRAM has: it is named, and the rest is there.
fn writes_that_only_damaged_slots_of_the_nvram_had(io_mode: IoMode) {
    // They keep all that they are given, however long it takes to kill them.
    for policy in ["wow:low=80:high=90", "stow:low=90:high=95:share=5"] {
        let (mut array, content) = killed(io_mode, &["--policy", policy, "--cache", "1MiB"]);
        let (path, whole) = (array.file("nvram"), contents(&array));
        // The newest versions, but for those written last, which look torn.
        let mut numbers: Vec<u64> = content.iter().copied().filter(|number| (1..190).contains(number)).collect();
        numbers.sort_unstable();
        let refused = numbers.into_iter().rev().find_map(|number| {
            let wanted = page(number);
            let mut bytes = whole[&path].clone();
            let at = bytes.windows(64).rposition(|bytes| bytes == &wanted[1024..1088])?;
            bytes[at] ^= 4;
            fs::write(&path, &bytes).expect("a file");
            let output = array.command("serve", &["--run", "true"]);
            if output.status.success() {
                let names = ["member0", "member1", "member2", "member3", "nvram", "intents"];
                put_back(&array, &whole, &names);
                return None;
            }
            Some((number, refused(&array, &["the NVRAM is damaged", "1 pages of the array", "--accept-losses"])))
        });
        let (number, said) = refused.unwrap_or_else(|| panic!("{policy}: the NVRAM alone has some"));
        let named = content.iter().position(|found| *found == number).expect("the page");
        assert!(said.contains(&format!("{named} to {named}")), "{policy}: page {named}: {said}");
        array.serve(&["--accept-losses"]);
        let status = wait(&array, |status| status["array"]["state"] == "serving");
        assert_eq!(lost(&status), BTreeSet::from([named as u64]), "{policy}");
        let log = array.log();
        assert!(
            log.contains("the bytes of 1 slots are damaged")
                && log.contains("4096 bytes of data may be lost: 4096 from byte"),
            "{log}"
        );
        assert_holds(&array, &content, None, |at| at == named as u64, policy);
        array.stop();
        array.serve(&[]);
        assert!(lost(&array.status()).is_empty(), "{policy}: it is accepted once and for all");
        array.stop();
        fs::remove_file(array.file("member1")).expect("a member");
        array.serve(&[]);
        assert_holds(&array, &content, None, |at| at == named as u64, "without a member");
        array.stop();
    }
}

fn an_nvram_without_a_header(io_mode: IoMode) {
    for policy in ["wow", "none"] {
        let settings: &[&str] =
            if policy == "none" { &["--policy", policy] } else { &["--policy", policy, "--cache", "1MiB"] };
        let (mut array, content) = killed(io_mode, settings);
        let path = array.file("nvram");
        let mut bytes = fs::read(&path).expect("a file");
        let last = bytes.len() - 100;
        (bytes[100], bytes[last]) = (7, 7);
        fs::write(&path, &bytes).expect("a file");
        if policy == "none" {
            // It has nothing alone: the members have marked their rows.
            array.serve(&[]);
            assert!(!array.status()["array"]["resynchronised"].is_null());
            assert_holds(&array, &content, None, |_| false, policy);
            array.stop();
        } else {
            refused(&array, &["what the NVRAM held nobody knows", "--accept-losses"]);
            accept(&mut array, &content, Some(&[0; PAGES as usize]), |at| content[at as usize] != 0, policy);
        }
    }
}

fn writes_that_only_a_lost_cache_had(io_mode: IoMode) {
    let (mut array, content) = killed(io_mode, &["--policy", "write-back", "--cache", "1MiB"]);
    fs::remove_file(array.file("cache")).expect("a file");
    refused(&array, &["the cache device is lost", "pages of the array", "--accept-losses"]);
    accept(&mut array, &content, Some(&[0; PAGES as usize]), |at| content[at as usize] != 0, "write-back");
}

fn rows_that_were_being_written_without_a_member(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    array.serve(&[]);
    let mut content = fill(&array, 32, 200);
    write(&array, &mut content, (0..8).map(|at| at * 100), 1_000);
    let mut client = array.client();
    for at in 0..40 {
        client.write(at * 4096, &page(2_000 + at), false).expect("a write");
    }
    drop(client);
    array.kill();
    fs::remove_file(array.file("member1")).expect("a member");
    refused(&array, &["may have been torn", "pages of the array", "--accept-losses"]);
    let newer: Vec<u64> = (0..PAGES).map(|at| if at < 40 { 2_000 + at } else { content[at as usize] }).collect();
    array.serve(&["--accept-losses"]);
    let named = lost(&wait(&array, |status| status["array"]["state"] == "degraded"));
    assert!((0..40).any(|at| named.contains(&at)), "{named:?}");
    assert_holds(&array, &newer, Some(&content), |at| named.contains(&at), "without a member");
    array.stop();
}

/// Makes an array without member 1, which was killed while it was written.
fn degraded(io_mode: IoMode) -> (Array, Vec<u64>, Vec<u64>, BTreeMap<PathBuf, Vec<u8>>) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    array.serve(&[]);
    let mut content = fill(&array, 33, 200);
    array.stop();
    let older = contents(&array);
    fs::remove_file(array.file("member1")).expect("a member");
    array.serve(&[]);
    let before = content.clone();
    write(&array, &mut content, 0..40, 3_000);
    array.kill();
    (array, content, before, older)
}

fn an_older_nvram_while_a_member_is_missing(io_mode: IoMode) {
    let (mut array, content, before, older) = degraded(io_mode);
    put_back(&array, &older, &["nvram"]);
    refused(&array, &["an older copy was put back", "--accept-losses"]);
    let mut seen = BTreeSet::new();
    array.serve(&["--accept-losses"]);
    seen.extend(lost(&wait(&array, |status| status["array"]["state"] == "degraded")));
    assert_holds(&array, &content, Some(&before), |at| seen.contains(&at), "without the newer NVRAM");
    assert_holds(&array, &content, None, |at| at < 48, "rows that nobody wrote");
    array.stop();
}

fn a_lost_nvram_while_a_member_is_missing(io_mode: IoMode) {
    let (mut array, content, before, _) = degraded(io_mode);
    fs::remove_file(array.file("nvram")).expect("a file");
    refused(&array, &["may have been torn", "pages of the array", "--accept-losses"]);
    array.serve(&["--accept-losses"]);
    let named = lost(&wait(&array, |status| status["array"]["state"] == "degraded"));
    assert!(!named.is_empty(), "what the member held of marked rows");
    assert_holds(&array, &content, Some(&before), |at| named.contains(&at), "without the NVRAM");
    array.stop();
    // That pages were lost is over with the next life.
    array.serve(&[]);
    array.stop();
    // In order there is nothing to be made consistent, though a member is missing.
    fs::remove_file(array.file("nvram")).expect("a file");
    array.serve(&[]);
    assert!(lost(&array.status()).is_empty());
    array.stop();
}

/// Has an array that is refused say how fresh its members are, which changes nothing; then assembles it.
fn assemble(array: &Array, says: &[&str]) -> String {
    let before = contents(array);
    let looked = array.command("assemble", &[]);
    let said = told(&looked);
    assert_eq!(looked.status.code(), Some(1), "{said}");
    assert!(said.contains("--force") && says.iter().all(|part| said.contains(part)), "{says:?}: {said}");
    assert!(before == contents(array), "nothing is changed without --force");
    let forced = array.command("assemble", &["--force"]);
    let said = told(&forced);
    assert_eq!(forced.status.code(), Some(0), "{said}");
    said
}

/// Serves what was assembled: pages of rows that were not written since are there, and so they are after a stop.
fn assembled(array: &mut Array, content: &[u64], written: impl Fn(u64) -> bool, what: &str) {
    for _ in 0..2 {
        array.serve(&[]);
        wait(array, |status| status["array"]["state"] == "degraded");
        assert_holds(array, content, None, &written, what);
        array.stop();
    }
}

/// Takes member 1 out, and loses member 2 later: member 1 is the freshest that there is.
fn members_that_were_left_behind(io_mode: IoMode) {
    for (policy, is_killed) in [("none", false), ("none", true), ("kdd", true), ("wow", true), ("write-back", false)] {
        let settings: &[&str] =
            if policy == "none" { &["--policy", policy] } else { &["--policy", policy, "--cache", "1MiB"] };
        let mut array = Array::new(io_mode, settings);
        array.serve(&[]);
        let mut content = fill(&array, 34, 200);
        assert!(array.command("flush", &[]).status.success());
        let taken_out = array.command("fail", &["1"]);
        assert!(taken_out.status.success(), "{}", String::from_utf8_lossy(&taken_out.stderr));
        write(&array, &mut content, 0..40, 4_000);
        if is_killed {
            array.kill();
        } else {
            array.stop();
        }
        let what = format!("{policy}, killed: {is_killed}");
        let aside = array.file("aside");
        fs::rename(array.file("member2"), &aside).expect("a member");
        refused(&array, &["2 members are lost", "destage assemble --force"]);
        // If it comes back nothing has to be forced.
        fs::rename(&aside, array.file("member2")).expect("a member");
        let looked = array.command("assemble", &[]);
        let said = told(&looked);
        assert!(looked.status.success() && said.contains("destage serve"), "{what}: {said}");
        fs::rename(array.file("member2"), &aside).expect("a member");
        let said = assemble(&array, &["member1: left behind", "would be believed", "member2: not usable", "costs"]);
        assert!(said.contains("member 1 is believed"), "{what}: {said}");
        assembled(&mut array, &content, |at| row(at) < 16, &what);
        // The one that was not there has missed that.
        fs::rename(&aside, array.file("member2")).expect("a member");
        array.serve(&[]);
        let status = wait(&array, |status| status["array"]["state"] == "degraded");
        assert_eq!(status["array"]["devices"][2]["answers"], false, "{what}: {status}");
        let replaced = array.command("replace", &["2"]);
        assert!(replaced.status.success(), "{what}: {}", String::from_utf8_lossy(&replaced.stderr));
        wait(&array, |status| status["array"]["state"] == "serving");
        array.stop();
        fs::remove_file(array.file("member0")).expect("a member");
        assembled(&mut array, &content, |at| row(at) < 16, &what);
    }
}

/// Puts copies of different age of two members back: the newer one is taken.
fn members_of_which_older_copies_were_put_back(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "kdd", "--cache", "1MiB"]);
    array.serve(&[]);
    let mut content = fill(&array, 35, 200);
    array.stop();
    let oldest = contents(&array);
    array.serve(&[]);
    write(&array, &mut content, 0..40, 5_000);
    array.stop();
    let older = contents(&array);
    array.serve(&[]);
    write(&array, &mut content, 48..80, 6_000);
    array.stop();
    put_back(&array, &oldest, &["member0"]);
    put_back(&array, &older, &["member3"]);
    refused(&array, &["2 members are lost", "destage assemble --force"]);
    let said = assemble(&array, &["member0: left behind 4 starts", "member3: left behind 2 starts"]);
    assert!(said.contains("member 3 is believed"), "{said}");
    assembled(&mut array, &content, |at| (16..32).contains(&row(at)), "with the newer of both");
}

/// Puts back an NVRAM, intents and one member of an earlier time than the others, of which the level has enough.
fn files_of_different_times(io_mode: IoMode) {
    for older_members in [&["member0"][..], &["member0", "member1"]] {
        let mut array = Array::new(io_mode, &["--policy", "none"]);
        array.serve(&[]);
        let mut content = fill(&array, 36, 200);
        array.stop();
        let older = contents(&array);
        array.serve(&[]);
        write(&array, &mut content, 0..40, 7_000);
        array.stop();
        let names = [&["nvram", "intents"], older_members].concat();
        put_back(&array, &older, &names);
        refused(&array, &["an older copy was put back", "destage assemble --force"]);
        if older_members.len() == 1 {
            // As many as the level needs are of one time: nothing that they have is lost.
            let forced = array.command("assemble", &["--force"]);
            let said = told(&forced);
            assert!(forced.status.success() && said.contains("made anew"), "{said}");
            assembled(&mut array, &content, |_| false, "with all that are of one time");
        } else {
            assemble(&array, &["member0: left behind 2 starts", "would be believed"]);
            assembled(&mut array, &content, |at| row(at) < 16, "with one that is older");
        }
    }
}

/// Puts back all but a member, which is moved away then: the older ones go on without it.
fn newer_files_that_are_moved_away(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    array.serve(&[]);
    let content = fill(&array, 39, 200);
    array.stop();
    let older = contents(&array);
    array.serve(&[]);
    write(&array, &mut content.clone(), 0..40, 8_000);
    array.stop();
    put_back(&array, &older, &["nvram", "intents", "member0", "member1", "member2"]);
    refused(&array, &["an older copy was put back", "destage assemble --force", "member3"]);
    fs::rename(array.file("member3"), array.file("aside")).expect("a member");
    array.serve(&[]);
    wait(&array, |status| status["array"]["state"] == "degraded");
    assert_holds(&array, &content, None, |_| false, "as it was then");
    array.stop();
}

/// Makes an array anew of what members hold, as the message says.
fn members_without_marks(io_mode: IoMode) {
    let (array, content) = {
        let mut array = Array::new(io_mode, &["--policy", "none"]);
        array.serve(&[]);
        let content = fill(&array, 37, 200);
        array.stop();
        (array, content)
    };
    for name in ["nvram", "intents"] {
        fs::remove_file(array.file(name)).expect("a file");
    }
    for number in 0..4 {
        let path = array.file(&format!("member{number}"));
        let mut bytes = fs::read(&path).expect("a member");
        for at in 0..bytes.len() - 8 {
            if bytes[at..].starts_with(b"dstgMARK") {
                bytes[at + 100] ^= 1;
            }
        }
        fs::write(&path, bytes).expect("a member");
    }
    refused(&array, &["no member has whole marks of its own", "destage create --adopt"]);
    let mut anew = Array::new(io_mode, &["--policy", "none"]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("array").display().to_string();
    let members: Vec<String> =
        (0..4).map(|number| array.file(&format!("member{number}")).display().to_string()).collect();
    let mut words = vec![
        "create",
        &path,
        "--adopt",
        "--level",
        "raid5:4",
        "--member-size",
        "2MiB",
        "--data-offset",
        "1MiB",
        "--policy",
        "none",
    ];
    words.extend(members.iter().flat_map(|member| ["--member", member]));
    // Its marks are no longer whole, and so are not taken for what must stay.
    let made = crate::binary::destage(&words);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    anew.folder = folder;
    anew.serve(&[]);
    assert_holds(&anew, &content, None, |_| false, "adopted");
    anew.stop();
}

fn an_nvram_of_an_earlier_version(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "wow", "--cache", "1MiB"]);
    array.serve(&[]);
    let content = fill(&array, 38, 200);
    // The earlier version stops it in order, too.
    array.stop();
    let path = array.file("nvram");
    let mut bytes = fs::read(&path).expect("a file");
    bytes[8] = 6;
    let crc = crc32c::crc32c(&bytes[..508]);
    bytes[508..512].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, bytes).expect("a file");
    refused(&array, &["of version 6", "destage stop", "move the file away"]);
    fs::remove_file(&path).expect("a file");
    array.serve(&[]);
    assert_holds(&array, &content, None, |_| false, "without the earlier version's");
    array.stop();
}
