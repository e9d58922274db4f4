//! Checks the places of the NVRAM: on the cache's device, or in a file or on a block device of its own.

use std::fs;

use super::losses::wait_for;
use super::media::Loops;
use super::{Array, Draws, IoMode, binary, page};

io_mode_tests! {
    on_the_cache_device_it_outlives_the_service,
    without_its_device_the_array_goes_on_with_a_file,
    a_description_that_cannot_be_written_keeps_nothing_from_going_on,
    a_place_that_cannot_be_is_named,
    block_devices_have_it,
}

const ON_CACHE: [&str; 6] = ["--policy", "kdd", "--cache", "1MiB", "--nvram", "cache-device"];

/// Writes versions of pages; of each what was written last is returned.
fn write(array: &Array, seed: u64, first: u64) -> Vec<u64> {
    let (mut client, mut draws, mut content) = (array.client(), Draws(seed), vec![0; 512]);
    for number in first..first + 300 {
        let at = draws.below(512);
        client.write(at * 4096, &page(number), number % 16 == 0).expect("a write");
        content[at as usize] = number;
    }
    client.flush().expect("a flush");
    content
}

fn assert_holds(array: &Array, content: &[u64]) {
    let mut bytes = vec![0; content.len() * 4096];
    array.client().read(0, &mut bytes).expect("a read of all");
    for (at, (found, number)) in bytes.chunks(4096).zip(content).enumerate() {
        assert!(*number == 0 || found == page(*number), "page {at} is not version {number}");
    }
}

fn on_the_cache_device_it_outlives_the_service(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &ON_CACHE);
    assert!(!array.file("nvram").exists());
    let text = fs::read_to_string(array.file("array.toml")).expect("a description");
    assert!(text.contains("[nvram]\non = \"cache-device\"\nintents = \"intents\"\n"), "{text}");
    array.serve(&[]);
    let content = write(&array, 1, 1);
    let status = array.status();
    let (nvram, cache) = (&status["array"]["nvram"], &status["array"]["devices"][4]);
    assert_eq!((&nvram["on"], &nvram["path"]), (&"cache".into(), &cache["path"]), "{status}");
    assert!(status["array"]["intents"]["on"].is_null());
    let told = String::from_utf8(array.command("status", &[]).stdout).expect("text");
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    let bytes = |of: &serde_json::Value| of["written_bytes"].as_u64().expect("a count") as f64;
    let asked = status["requests"]["writes"]["bytes"].as_u64().expect("a count") as f64;
    // Rows are cleaned meanwhile, which is more each time.
    let figure = |before: &str| -> f64 {
        let (_, behind) = told.split_once(before).unwrap_or_else(|| panic!("no {before}: {told}"));
        let digits = behind.split(|of: char| of != '.' && !of.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok()).expect("a number")
    };
    let (cache, nvram) = (bytes(cache) / asked, bytes(nvram) / asked);
    let (worn, of_them) = (figure(", cache "), figure(", of which the nvram "));
    assert!(nvram > 0.0 && worn > cache + nvram - 0.01 && of_them > nvram - 0.01 && worn > of_them, "{told}");
    assert!(told.contains("on the device of the cache"), "{told}");
    array.kill();
    array.serve(&[]);
    assert!(array.status()["array"]["resynchronised"].is_null());
    assert_holds(&array, &content);
    // Before it is replaced the NVRAM leaves it.
    let replaced = array.command("replace", &["cache", &array.file("other").display().to_string()]);
    assert!(replaced.status.success(), "{}", String::from_utf8_lossy(&replaced.stderr));
    assert_moved(&array);
    assert_holds(&array, &content);
    array.kill();
    array.serve(&[]);
    wait_for(&array, "serving");
    assert!(array.status()["array"]["resynchronised"].is_null());
    assert_holds(&array, &content);
    array.stop();
    // It ends with the command, perhaps before anybody could connect.
    let served = array.command("serve", &["--run", "true"]);
    assert!(served.status.success(), "{}", String::from_utf8_lossy(&served.stderr));
}

/// Checks that the NVRAM lies in its spare place, and that everybody says so.
fn assert_moved(array: &Array) {
    let status = array.status();
    let (nvram, spare) = (&status["array"]["nvram"], array.file("nvram"));
    assert!(nvram["on"].is_null() && nvram["path"] == spare.display().to_string(), "{status}");
    let text = fs::read_to_string(array.file("array.toml")).expect("a description");
    assert!(text.contains("[nvram]\nslots = \"nvram\"\nintents = \"intents\"\n"), "{text}");
    let told = String::from_utf8(array.command("status", &[]).stdout).expect("text");
    assert!(told.contains(&spare.display().to_string()) && !told.contains("on the device of the cache"), "{told}");
}

/// Starts without the device, and without one that is named in its place: the NVRAM goes on in its spare place.
fn without_its_device_the_array_goes_on_with_a_file(io_mode: IoMode) {
    for named in ["cache", "other", "/dev/no-such-device"] {
        let mut array = Array::new(io_mode, &ON_CACHE);
        array.serve(&[]);
        let content = write(&array, 2, 1);
        array.kill();
        let gone = array.file("gone");
        fs::rename(array.file("cache"), &gone).expect("a file");
        let text = fs::read_to_string(array.file("array.toml")).expect("a description");
        fs::write(array.file("array.toml"), text.replace("device = \"cache\"", &format!("device = {named:?}")))
            .expect("a description");
        array.serve(&["--log", "json"]);
        wait_for(&array, "degraded");
        let status = array.status();
        let lost = &status["array"]["resynchronised"]["lost"];
        assert_eq!(lost.as_array().map(Vec::len), Some(1), "{status}");
        assert!(
            status["array"]["state"] == "degraded" && status["array"]["devices"][4]["answers"] == false,
            "{status}"
        );
        assert_moved(&array);
        assert_holds(&array, &content);
        let events = array.events("nvram-moved");
        let is_named = |event: &serde_json::Value| event["path"] == array.file("nvram").display().to_string();
        assert!(events.len() == 1 && is_named(&events[0]) && events[0]["unnamed"].is_null(), "{events:?}");
        assert!(array.events("resynchronised").len() == 1 && array.events("device-lost").len() == 1, "{}", array.log());
        // What comes back has missed writes.
        let other = array.file("another").display().to_string();
        assert!(array.command("replace", &["cache", &other]).status.success());
        let content =
            write(&array, 3, 1_000).into_iter().zip(content).map(|(new, old)| new.max(old)).collect::<Vec<_>>();
        array.kill();
        array.serve(&[]);
        wait_for(&array, "serving");
        assert!(array.status()["array"]["resynchronised"].is_null());
        assert_holds(&array, &content);
        array.stop();
    }
}

/// Moves the NVRAM when the description cannot be changed: the next start finds it all the same.
fn a_description_that_cannot_be_written_keeps_nothing_from_going_on(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &ON_CACHE);
    array.serve(&["--log", "json"]);
    let content = write(&array, 4, 1);
    let text = fs::read_to_string(array.file("array.toml")).expect("a description");
    // Where the new one is to be written.
    fs::create_dir(array.file("array.toml.new")).expect("a folder");
    assert!(array.command("detach", &[]).status.success());
    let told = array.events("nvram-moved");
    assert!(told.len() == 1 && told[0]["unnamed"].as_str().is_some_and(|why| why.contains("array.toml")), "{told:?}");
    assert_eq!(fs::read_to_string(array.file("array.toml")).expect("a description"), text);
    assert_holds(&array, &content);
    array.kill();
    fs::remove_dir(array.file("array.toml.new")).expect("a folder");
    array.serve(&[]);
    assert!(array.status()["array"]["resynchronised"].is_null());
    assert_moved(&array);
    assert_holds(&array, &content);
    array.stop();
}

fn a_place_that_cannot_be_is_named(io_mode: IoMode) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("array").display().to_string();
    let args = ["create", &path, "--level", "raid5:3", "--member-size", "1MiB", "--nvram", "cache-device"];
    let refused = binary::destage(&args);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("on = \"cache-device\" in [nvram]: none has no device"),
        "{said}"
    );
    let array = Array::new(io_mode, &ON_CACHE);
    let text = fs::read_to_string(array.file("array.toml")).expect("a description");
    for (place, says) in [
        ("on = \"cache-device\"\nslots = \"nvram\"", "on and slots in [nvram]"),
        ("slots = \"nvram\"\nspare = \"other\"", "spare in [nvram] is where"),
        ("on = \"member\"", "unknown variant `member`, expected `cache-device`"),
        ("at = \"cache-device\"", "unknown field `at`"),
    ] {
        fs::write(array.file("array.toml"), text.replace("on = \"cache-device\"", place)).expect("a description");
        let refused = array.command("serve", &["--run", "true"]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(says), "{place}: {said}");
    }
}

/// Behind a cache on a block device the NVRAM is there as well if nothing else is said; it can have one of its own.
fn block_devices_have_it(io_mode: IoMode) {
    let Some(loops) = Loops::new("block_devices_have_it", 2, 128 << 20) else { return };
    let more = ["--policy", "kdd", "--cache", "1MiB", "--cache-device", &loops.paths[0]];
    for own in [false, true] {
        let nvram = ["--nvram", &loops.paths[1]];
        let mut array = Array::new(io_mode, &[&more[..], if own { &nvram } else { &[] }].concat());
        array.serve(&[]);
        let content = write(&array, 3, 1);
        let at = array.status()["array"]["nvram"].clone();
        let expected = if own { (loops.paths[1].as_str(), None) } else { (loops.paths[0].as_str(), Some("cache")) };
        assert_eq!((at["path"].as_str(), at["on"].as_str()), (Some(expected.0), expected.1));
        assert!(!array.file("nvram").exists());
        array.kill();
        array.serve(&[]);
        assert!(array.status()["array"]["resynchronised"].is_null());
        assert_holds(&array, &content);
        array.stop();
        for path in &loops.paths {
            fs::write(path, vec![0; 128 << 20]).expect("a device");
        }
    }
}
