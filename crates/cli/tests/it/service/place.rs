//! Where the NVRAM lies: on the cache's device, or in a file or on a block device of its own.

use std::fs;

use super::media::Loops;
use super::{Array, Draws, IoMode, binary, page};

io_mode_tests! {
    on_the_cache_device_it_outlives_the_service,
    without_its_device_the_array_goes_on_with_another_or_a_file,
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
    // Without it nothing is served, so it cannot be replaced meanwhile.
    let refused = array.command("replace", &["cache"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("the NVRAM lies on it"), "{said}");
    array.kill();
    array.serve(&[]);
    assert!(array.status()["array"]["resynchronised"].is_null());
    assert_holds(&array, &content);
    array.stop();
    // It ends with the command, perhaps before anybody could connect.
    let served = array.command("serve", &["--run", "true"]);
    assert!(served.status.success(), "{}", String::from_utf8_lossy(&served.stderr));
}

fn without_its_device_the_array_goes_on_with_another_or_a_file(io_mode: IoMode) {
    for (from, to) in [("device = \"cache\"", "device = \"other\""), ("on = \"cache-device\"", "slots = \"journal\"")] {
        let mut array = Array::new(io_mode, &ON_CACHE);
        array.serve(&[]);
        let content = write(&array, 2, 1);
        array.kill();
        fs::remove_file(array.file("cache")).expect("a file");
        let text = fs::read_to_string(array.file("array.toml")).expect("a description");
        // Where a device would be no file is made in its place.
        fs::write(array.file("array.toml"), text.replace("device = \"cache\"", "device = \"/dev/no-such-device\""))
            .expect("a description");
        let refused = array.command("serve", &["--run", "true"]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("another place for the NVRAM"), "{said}");
        assert!(text.contains(from), "{text}");
        fs::write(array.file("array.toml"), text.replace(from, to)).expect("a description");
        array.serve(&[]);
        let status = array.status();
        let lost = &status["array"]["resynchronised"]["lost"];
        assert_eq!(lost.as_array().map(Vec::len), Some(1), "{status}");
        assert_holds(&array, &content);
        array.kill();
        array.serve(&[]);
        assert!(array.status()["array"]["resynchronised"].is_null());
        assert_holds(&array, &content);
        array.stop();
    }
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
