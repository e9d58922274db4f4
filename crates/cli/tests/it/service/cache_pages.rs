//! Pages of the cache's device that are not what was written there, or that it cannot read, while an array is served.

use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::losses::{assert_holds, fill, wait, wait_for};
use super::{Array, IoMode, page};

io_mode_tests! {
    pages_that_rot_are_dropped_and_told,
    a_dirty_page_that_rots_fails_until_it_is_written,
    too_many_pages_cost_the_cache_and_not_the_nvram_on_its_device,
    a_cache_that_fails_costs_what_it_alone_had,
}

/// Names a cache that writes back by order alone.
const LAZY: &str = "write-back:clean-after=1h:dirty-high=100:dirty-low=100";

/// Counts the bytes of the cache's pages, before its label and whatever else lies on its device.
const CACHE: usize = 1 << 20;

/// Flips a bit of each place of the cache's pages that holds a version of a page; returns how many there were.
fn rot(array: &Array, numbers: impl Iterator<Item = u64>) -> usize {
    let path = array.file("cache");
    let bytes = fs::read(&path).expect("the cache");
    let file = fs::File::options().write(true).open(&path).expect("the cache");
    let versions: HashSet<Vec<u8>> = numbers.map(page).collect();
    let held = bytes[..CACHE].chunks(4096).enumerate().filter(|(_, found)| versions.contains(*found));
    let places: Vec<u64> = held.map(|(at, _)| at as u64 * 4096 + 100).collect();
    for at in &places {
        file.write_all_at(&[!bytes[*at as usize]], *at).expect("it can be written");
    }
    file.sync_all().expect("it is there");
    places.len()
}

fn pages_that_rot_are_dropped_and_told(io_mode: IoMode) {
    for policy in ["write-through", "kdd", "leavo"] {
        let mut array = Array::new(io_mode, &["--policy", policy, "--cache", "1MiB"]);
        array.serve(&["--log", "json"]);
        let content = fill(&array, 51, 200);
        let newest = content.iter().copied().filter(|number| *number > 188);
        let rotten = rot(&array, newest);
        assert!((5..20).contains(&rotten), "{policy}: {rotten} pages rot");
        assert_holds(&array, &content, policy);
        // Whoever reads them again has them from the members.
        assert_holds(&array, &content, policy);
        let status = array.status();
        assert_eq!((&status["array"]["state"], &status["array"]["cache"]["in_use"]), (&"serving".into(), &true.into()));
        assert_eq!(status["array"]["lost"].as_array().map(Vec::len), Some(0), "{status}");
        array.stop();
        let told = array.events("cache-page-dropped");
        assert!((1..=rotten).contains(&told.len()), "{policy}: {}", array.log());
        let path = array.file("cache").display().to_string();
        let is_right = |event: &serde_json::Value| {
            event["severity"] == "warning" && event["path"] == path.as_str() && event["bytes"] == 4096
        };
        assert!(told.iter().all(is_right), "{policy}: {told:?}");
        array.serve(&[]);
        assert_holds(&array, &content, policy);
        array.stop();
    }
}

fn a_dirty_page_that_rots_fails_until_it_is_written(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", LAZY, "--cache", "1MiB"]);
    array.serve(&["--log", "json"]);
    let mut client = array.client();
    for at in 0..40 {
        client.write(at * 4096, &page(1_000 + at), true).expect("a write");
    }
    assert_eq!(rot(&array, [1_007].into_iter()), 1);
    let mut bytes = vec![0; 4096];
    for life in 0..2 {
        let mut client = array.client();
        for at in 0..40 {
            let is_read = client.read(at * 4096, &mut bytes).is_ok();
            assert!(is_read == (at != 7) && (!is_read || bytes == page(1_000 + at)), "life {life}: page {at}");
        }
        assert!(client.write(7 * 4096, &[1; 512], false).is_err(), "nobody knows the rest of it");
        drop(client);
        // It keeps no other from being written back.
        array.stop();
        let told = array.events("dirty-page-lost");
        assert_eq!(told.len(), 1, "life {life}: {}", array.log());
        assert_eq!(told[0]["severity"], "error");
        assert_eq!((&told[0]["lost"]["offset"], &told[0]["lost"]["bytes"]), (&(7 * 4096).into(), &4096.into()));
        array.serve(&["--log", "json"]);
    }
    let mut client = array.client();
    client.write(7 * 4096, &page(2_007), true).expect("all of it");
    client.read(7 * 4096, &mut bytes).expect("it is there again");
    assert!(bytes == page(2_007));
    drop(client);
    array.stop();
    fs::remove_file(array.file("cache")).expect("the cache");
    array.serve(&[]);
    let mut client = array.client();
    for at in 0..40 {
        client.read(at * 4096, &mut bytes).expect("the members have all");
        assert!(bytes == page(if at == 7 { 2_007 } else { 1_000 + at }), "page {at}");
    }
    array.stop();
}

fn too_many_pages_cost_the_cache_and_not_the_nvram_on_its_device(io_mode: IoMode) {
    for (place, settings) in [("a file", &[][..]), ("cache-device", &["--nvram", "cache-device"])] {
        let mut array = Array::new(io_mode, &[&["--policy", "kdd", "--cache", "1MiB"], settings].concat());
        let text = fs::read_to_string(array.file("array.toml")).expect("a description");
        let strict = text.replace("max-corrected = 20", "max-corrected = 0");
        assert_ne!(strict, text);
        fs::write(array.file("array.toml"), strict).expect("a description");
        array.serve(&["--log", "json"]);
        let content = fill(&array, 52, 200);
        assert!(rot(&array, content.iter().copied().filter(|number| *number > 0)) > 0);
        assert_holds(&array, &content, place);
        let status = wait(&array, |status| status["array"]["cache"]["in_use"] == false);
        assert_eq!(status["array"]["state"], "degraded", "{place}: {status}");
        assert_holds(&array, &content, place);
        let mut client = array.client();
        client.write(0, &page(content[0].max(1)), true).expect("it goes on");
        drop(client);
        array.stop();
        let lost = array.events("device-lost");
        let why = lost[0]["why"].as_str().expect("a reason");
        assert!(lost.len() == 1 && lost[0]["device"] == "cache" && why.contains("max-corrected allows"), "{lost:?}");
        assert_eq!(why.contains("the NVRAM on it goes on"), place == "cache-device", "{why}");
        array.serve(&[]);
        wait_for(&array, if place == "cache-device" { "serving" } else { "degraded" });
        array.stop();
    }
}

/// Cuts the cache's file short while it is served, so that reads of it fail as of a device that is gone, be it that the NVRAM
/// lies on it.
fn a_cache_that_fails_costs_what_it_alone_had(io_mode: IoMode) {
    let on_cache: &[&str] = &["--nvram", "cache-device"];
    for (policy, place) in [(LAZY, &[][..]), ("kdd", &[]), ("leavo", &[]), (LAZY, on_cache), ("kdd", on_cache)] {
        let mut array = Array::new(io_mode, &[&["--policy", policy, "--cache", "1MiB"], place].concat());
        array.serve(&["--log", "json"]);
        let mut client = array.client();
        for at in 0..20 {
            client.write(at * 4096, &page(3_000 + at), false).expect("a write");
        }
        assert!(array.command("flush", &[]).status.success());
        for at in 10..30 {
            client.write(at * 4096, &page(4_000 + at), true).expect("a write");
        }
        let file = fs::File::options().write(true).open(array.file("cache")).expect("the cache");
        file.set_len(4096).expect("it can be cut");
        let (mut bytes, mut bytes_of_two) = (vec![0; 4096], vec![0; 8192]);
        let mut read = |array: &Array, lost: Range<u64>, when: &str| {
            let mut client = array.client();
            for at in (0..30).filter(|at| when.is_empty() || !(12..14).contains(at)) {
                let wanted = page(if at < 10 { 3_000 } else { 4_000 } + at);
                let is_read = client.read(at * 4096, &mut bytes).is_ok();
                let is_lost = policy == LAZY && lost.contains(&at);
                assert!(is_read != is_lost && (!is_read || bytes == wanted), "{policy}: page {at} {when}");
            }
        };
        // Whatever finds it out.
        let _ = client.read(29 * 4096, &mut [0; 4096]);
        wait(&array, |status| status["array"]["cache"]["in_use"] == false);
        read(&array, 10..30, "");
        for at in (10..30).filter(|at| !(12..14).contains(at)) {
            client.write(at * 4096, &page(4_000 + at), true).expect("it is written anew");
        }
        read(&array, 12..14, "");
        let status = array.status();
        assert_eq!(status["array"]["state"], "degraded", "{status}");
        let figures = status["array"]["cache"]["figures"].as_array().expect("figures");
        let lost = figures.iter().find(|figure| figure["name"] == "lost").map(|figure| figure["value"].as_f64());
        assert_eq!(lost, (policy == LAZY).then_some(Some(20.0)), "{policy}: {figures:?}");
        drop(client);
        array.stop();
        assert_eq!(array.events("device-lost").len(), 1, "{policy}: {}", array.log());
        assert_eq!(array.events("nvram-moved").len(), usize::from(!place.is_empty()), "{policy}: {}", array.log());
        let told: Vec<_> = array.events("cache-data-lost").iter().map(|event| event["bytes"].clone()).collect();
        assert_eq!(told, if policy == LAZY { vec![20 * 4096] } else { vec![] }, "{policy}: {}", array.log());
        if policy == LAZY {
            // Which pages were lost is known after an end of either kind.
            for is_killed in [true, false] {
                array.serve(&["--log", "json"]);
                read(&array, 12..14, "");
                let told = array.events("cache-data-lost").pop().expect("it is told at each start");
                assert_eq!(told["ranges"], serde_json::json!([{ "offset": 12 * 4096, "bytes": 2 * 4096 }]), "{told}");
                if is_killed { array.kill() } else { array.stop() }
            }
            // Who accepts the loss has what the members have.
            array.serve(&["--log", "json", "--accept-losses"]);
            read(&array, 0..0, "but for those that were not written anew");
            array.client().read(12 * 4096, &mut bytes_of_two).expect("it is given up");
            assert_eq!(bytes_of_two, [page(3_012), page(3_013)].concat());
            array.stop();
            let given_up = array.events("data-lost").pop().expect("it is told");
            assert_eq!(
                given_up["ranges"],
                serde_json::json!([{ "offset": 12 * 4096, "bytes": 2 * 4096 }]),
                "{given_up}"
            );
        }
        fs::remove_file(array.file("member1")).expect("a member");
        array.serve(&[]);
        let but = if policy == LAZY { "but for those that were not written anew" } else { "" };
        read(&array, 0..0, but);
        array.stop();
    }
}
