//! Checks the places of data on members, and block devices as members.

use std::fs;
use std::process::Command;

use super::losses::wait_copied;
use super::{Array, Draws, IoMode, binary, page, pages};

io_mode_tests! {
    data_and_parity_lie_where_md_has_them,
    an_array_is_made_over_the_one_that_is_named,
}

pub const CHUNK: usize = 64 << 10;
pub const MEMBERS: usize = 4;

/// The member that has a stripe's chunk of data of this number, and that with its parity: left-symmetric, as md's
/// documentation draws it.
pub fn left_symmetric(stripe: usize, number: usize) -> (usize, usize) {
    let parity = MEMBERS - 1 - stripe % MEMBERS;
    ((parity + 1 + number) % MEMBERS, parity)
}

fn data_and_parity_lie_where_md_has_them(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "none"]);
    // What is there before the pages stays as it is.
    let offset = 1 << 20;
    for member in 0..MEMBERS {
        let mut bytes = fs::read(array.file(&format!("member{member}"))).expect("a member");
        assert!(bytes[..offset + (2 << 20)].iter().all(|byte| *byte == 0));
        bytes[4096..8192].copy_from_slice(&page(900 + member as u64));
        fs::write(array.file(&format!("member{member}")), bytes).expect("a member");
    }
    array.serve(&[]);
    let mut client = array.client();
    let data = pages(0..3 * 512);
    for (at, bytes) in data.chunks(1 << 20).enumerate() {
        client.write((at << 20) as u64, bytes, false).expect("a write");
    }
    // Pages in no order, so that parity is updated in every way.
    let mut data = data;
    let mut draws = Draws(5);
    for number in 2000..2300 {
        let at = draws.below(3 * 512) as usize * 4096;
        data[at..at + 4096].copy_from_slice(&page(number));
        client.write(at as u64, &page(number), false).expect("a write");
    }
    array.stop();
    let members: Vec<Vec<u8>> =
        (0..MEMBERS).map(|member| fs::read(array.file(&format!("member{member}"))).expect("a member")).collect();
    for (stripe, bytes) in data.chunks(CHUNK * (MEMBERS - 1)).enumerate() {
        let place = offset + stripe * CHUNK..offset + (stripe + 1) * CHUNK;
        let mut sum = vec![0; CHUNK];
        for (number, chunk) in bytes.chunks(CHUNK).enumerate() {
            let (member, _) = left_symmetric(stripe, number);
            assert!(members[member][place.clone()] == *chunk, "chunk {number} of stripe {stripe} on member {member}");
            sum.iter_mut().zip(chunk).for_each(|(sum, byte)| *sum ^= byte);
        }
        let (_, parity) = left_symmetric(stripe, 0);
        assert!(members[parity][place] == sum, "the parity of stripe {stripe} on member {parity}");
    }
    for (number, member) in members.iter().enumerate() {
        assert!(member[4096..8192] == page(900 + number as u64), "what is before the pages stays");
    }
}

/// Loop devices over files of this size, detached when dropped.
pub struct Loops {
    pub paths: Vec<String>,
    folder: tempfile::TempDir,
}

impl Loops {
    /// So many; none where this machine gives none, which is said.
    pub fn new(test: &str, count: usize, bytes: u64) -> Option<Self> {
        Self::with_blocks(test, count, bytes, 512)
    }

    /// Makes so many, with logical blocks of so many bytes; none where this machine gives none, which is said.
    pub fn with_blocks(test: &str, count: usize, bytes: u64, block: u32) -> Option<Self> {
        let block = block.to_string();
        let folder = tempfile::tempdir().expect("a folder");
        let mut loops = Self { paths: Vec::new(), folder };
        for number in 0..count {
            let image = loops.folder.path().join(number.to_string());
            fs::File::create(&image).and_then(|file| file.set_len(bytes)).expect("a file");
            let made = Command::new("losetup").args(["--find", "--show", "--sector-size", &block]).arg(&image).output();
            match made {
                Ok(made) if made.status.success() => {
                    loops.paths.push(String::from_utf8_lossy(&made.stdout).trim().to_owned());
                }
                _ => {
                    eprintln_past_capture(&format!("SKIPPED: {test}: no loop devices with blocks of {block} bytes"));
                    return None;
                }
            }
        }
        Some(loops)
    }
}

fn eprintln_past_capture(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

impl Drop for Loops {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = Command::new("losetup").args(["--detach", path]).status();
        }
    }
}

#[test]
fn block_devices_are_members_and_keep_what_they_hold() {
    let test = "block_devices_are_members_and_keep_what_they_hold";
    let Some(loops) = Loops::new(test, 5, 128 << 20) else { return };
    let mut array = Array { folder: tempfile::tempdir().expect("a folder"), service: None };
    let path = array.path();
    let mut args =
        vec!["create", &path, "--level", "raid5:3", "--member-size", "6MiB", "--policy", "kdd", "--cache", "4MiB"];
    args.extend(loops.paths[..3].iter().flat_map(|path| ["--member", path]));
    args.extend(["--cache-device", &loops.paths[3]]);
    // One of them holds something.
    fs::write(&loops.paths[1], page(5)).expect("a device");
    let refused = binary::destage(&args);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains(&format!("{} holds data", loops.paths[1])), "{said}");
    fs::write(&loops.paths[1], vec![0; 4096]).expect("a device");
    assert!(!fs::exists(&path).expect("a folder"), "nothing is left of what was refused");
    let made = binary::destage(&args);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    array.serve(&[]);
    let mut client = array.client();
    for number in 0..200 {
        client.write(number % 90 * 7 * 4096, &page(number), false).expect("a write");
    }
    client.flush().expect("a flush");
    array.kill();
    array.serve(&[]);
    let mut client = array.client();
    for number in 110..200 {
        let mut bytes = vec![0; 4096];
        client.read(number % 90 * 7 * 4096, &mut bytes).expect("a read");
        assert!(bytes == page(number), "page {number}");
    }
    // What holds something else does not take the place of a member.
    fs::write(&loops.paths[4], page(6)).expect("a device");
    let foreign = array.command("replace", &["1", &loops.paths[4]]);
    let said = String::from_utf8_lossy(&foreign.stderr);
    assert!(!foreign.status.success() && said.contains("holds data at byte 2"), "{said}");
    fs::write(&loops.paths[4], vec![0; 4096]).expect("a device");
    let empty = array.command("replace", &["1", &loops.paths[4]]);
    assert!(empty.status.success(), "{}", String::from_utf8_lossy(&empty.stderr));
    wait_copied(&array, 1, &loops.paths[4]);
    array.stop();
    // What has been a member before does, whatever it holds.
    array.serve(&[]);
    let again = array.command("replace", &["1", &loops.paths[1]]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    wait_copied(&array, 1, &loops.paths[1]);
    array.stop();
    // Made once, they are not taken for another array.
    fs::remove_dir_all(&path).expect("a folder");
    let refused = binary::destage(&args);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("holds data"), "{said}");
}

/// Arguments that make an array over loop devices: the members, and the cache's device.
fn over<'a>(path: &'a str, loops: &'a Loops, more: &[&'a str]) -> Vec<&'a str> {
    let (cache, members) = loops.paths.split_last().expect("there are some");
    let mut args = vec!["create", path, "--level", "raid5:3", "--policy", "kdd", "--cache", "4MiB"];
    args.extend(members.iter().flat_map(|path| ["--member", path]));
    args.extend(["--cache-device", cache]);
    args.extend(more);
    args
}

#[test]
fn disks_with_large_blocks_are_used_directly_or_refused() {
    let test = "disks_with_large_blocks_are_used_directly_or_refused";
    let Some(loops) = Loops::with_blocks(test, 4, 128 << 20, 4096) else { return };
    let mut array = Array { folder: tempfile::tempdir().expect("a folder"), service: None };
    let path = array.path();
    for (more, says) in [
        (&["--member-size", "6MiB", "--page", "512B"][..], "the array's pages have 512 bytes (--page)"),
        (&["--member-size", "6MiB", "--data-offset", "512B"], "its pages are to begin at byte 512 (--data-offset)"),
    ] {
        let refused = binary::destage(&over(&path, &loops, more));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(says) && said.contains("of 4096 bytes"), "{said}");
        assert!(!fs::exists(&path).expect("a folder"), "nothing is left of what was refused");
        for device in &loops.paths {
            let bytes = fs::read(device).expect("a device");
            assert!(bytes == vec![0; bytes.len()], "{device} is as it was");
        }
    }
    let made = binary::destage(&over(&path, &loops, &["--member-size", "6MiB"]));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for life in 0..2 {
        array.serve(&[]);
        let status = array.status();
        for device in status["array"]["devices"].as_array().expect("devices") {
            assert_eq!(device["direct"], true, "life {life}: {device}");
        }
        let mut client = array.client();
        for number in 0..300 {
            // Sectors, too, which are parts of blocks.
            let (at, len) = (number * 37 % 2500 * 512, 512 << (number % 5));
            client.write(at, &page(number)[..len.min(4096)], number % 7 == 0).expect("a write");
            let mut bytes = vec![0; len.min(4096)];
            client.read(at, &mut bytes).expect("a read");
            assert!(bytes == page(number)[..len.min(4096)], "life {life}: write {number}");
        }
        let status = array.status();
        assert_eq!(status["array"]["state"], "serving", "{status}");
        if life == 0 {
            array.kill();
        }
    }
    array.stop();
}

#[test]
fn files_and_labels_go_if_the_description_cannot_be_written() {
    let test = "files_and_labels_go_if_the_description_cannot_be_written";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("array");
    let in_the_way = path.join("array.toml.new");
    fs::create_dir_all(&in_the_way).expect("a folder");
    let name = path.to_str().expect("a name in ASCII");
    let refused = binary::destage(&["create", name, "--dev"]);
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
    let left = || fs::read_dir(&path).expect("a folder").count();
    assert_eq!(left(), 1, "nothing but what was there is left");
    let Some(loops) = Loops::new(test, 4, 128 << 20) else { return };
    let args = over(name, &loops, &["--member-size", "6MiB"]);
    let refused = binary::destage(&args);
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
    assert_eq!(left(), 1, "nothing but what was there is left");
    fs::remove_dir(&in_the_way).expect("a folder");
    let made = binary::destage(&args);
    assert!(made.status.success(), "devices hold nothing: {}", String::from_utf8_lossy(&made.stderr));
}

/// Devices are so large that to make them read as zeros takes longer than it takes until the signal comes.
#[test]
fn an_interrupted_creation_leaves_nothing() {
    let test = "an_interrupted_creation_leaves_nothing";
    let Some(loops) = Loops::new(test, 4, 8 << 40) else { return };
    let array = Array { folder: tempfile::tempdir().expect("a folder"), service: None };
    let path = array.path();
    let args = over(&path, &loops, &["--member-size", "7TiB"]);
    let mut child = binary::signalled(&args).spawn().expect("it can be run");
    while !fs::exists(&path).expect("a folder") {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let ended = child.wait().expect("it ends");
    assert_eq!(ended.code(), Some(130), "as by SIGINT");
    assert!(!fs::exists(&path).expect("a folder"), "nothing is left of it");
    let made = binary::destage(&over(&path, &loops, &["--member-size", "6MiB"]));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// The array is given up whose UUID is named, and nothing else: with a dirty cache, and on block devices in another shape.
fn an_array_is_made_over_the_one_that_is_named(io_mode: IoMode) {
    let mut array = Array::new(io_mode, &["--policy", "write-back", "--cache", "1MiB"]);
    let create = |path: &str, more: &[&str]| {
        let made = binary::destage(&[&["create", path, "--level", "raid5:3", "--member-size", "1MiB"], more].concat());
        (made.status.success(), String::from_utf8_lossy(&made.stderr).into_owned())
    };
    let (path, description) = (array.path(), array.file("array.toml"));
    let uuid = |at: &std::path::Path| {
        let text = fs::read_to_string(at).expect("a description");
        text.split('"').nth(1).expect("the uuid comes first").to_owned()
    };
    let old = uuid(&description);
    array.serve(&[]);
    array.client().write(0, &page(1), true).expect("a write");
    let refused = create(&path, &["--overwrite", &old]);
    assert!(!refused.0 && refused.1.contains("is in use"), "{refused:?}");
    array.kill();
    let before: Vec<_> =
        ["member0", "cache", "nvram", "array.toml"].map(|name| fs::read(array.file(name)).expect("a file")).into();
    let other = old.replace(|digit: char| digit.is_ascii_digit(), "a");
    for (more, says) in [
        (&[][..], "exists already"),
        (&["--overwrite", &other], "describes the array"),
        (&["--overwrite", "it"], "--overwrite"),
        (&["--overwrite", &old, "--policy", "kdd"], "kdd needs size"),
        (&["--overwrite", &old, "--adopt", "--member", "a"], "--adopt"),
        (&["--overwrite", &old, "--member", "a", "--member", "a", "--member", "b"], "are the same file"),
    ] {
        let refused = create(&path, more);
        assert!(!refused.0 && refused.1.contains(says), "{more:?}: {refused:?}");
    }
    fs::rename(array.file("member1"), array.file("away")).expect("a member");
    fs::write(array.file("member1"), page(7)).expect("a file");
    let refused = create(&path, &["--overwrite", &old]);
    assert!(!refused.0 && refused.1.contains("member1 is no part of the array"), "{refused:?}");
    fs::rename(array.file("away"), array.file("member1")).expect("a member");
    let after: Vec<_> =
        ["member0", "cache", "nvram", "array.toml"].map(|name| fs::read(array.file(name)).expect("a file")).into();
    assert!(before == after, "nothing is changed by what is refused");
    let made = create(&path, &["--overwrite", &old]);
    assert!(made.0, "{made:?}");
    assert!(!array.file("cache").exists() && !array.file("member3").exists(), "what was the old one's is gone");
    assert_ne!(uuid(&description), old);
    array.serve(&[]);
    let mut bytes = vec![1; 4096];
    array.client().read(0, &mut bytes).expect("a read");
    assert!(bytes == [0; 4096], "it holds nothing");
    array.stop();
    let Some(loops) = Loops::new("an_array_is_made_over_the_one_that_is_named", 6, 128 << 20) else { return };
    let mut array = Array { folder: tempfile::tempdir().expect("a folder"), service: None };
    let (path, description) = (array.path(), array.file("array.toml"));
    let members: Vec<&str> = loops.paths[..3].iter().flat_map(|path| ["--member", path]).collect();
    let kdd = ["--policy", "kdd", "--cache", "1MiB", "--cache-device", &loops.paths[3]];
    let made = create(&path, &[&members[..], &kdd, &["--nvram", &loops.paths[4]]].concat());
    assert!(made.0, "{made:?}");
    array.serve(&[]);
    array.client().write(0, &page(1), true).expect("a write");
    array.kill();
    let old = uuid(&description);
    fs::write(&loops.paths[5], page(5)).expect("a device");
    let larger = ["--overwrite", &old, "--member-size", "2MiB", "--policy", "lawc", "--cache", "1MiB"];
    let make = |nvram: &str| {
        let more = [&members[..], &larger, &["--nvram", nvram]].concat();
        let made = binary::destage(&[&["create", &path, "--level", "raid5:3"], &more[..]].concat());
        (made.status.success(), String::from_utf8_lossy(&made.stderr).into_owned())
    };
    let made = make(&loops.paths[4]);
    assert!(made.0, "{made:?}");
    array.serve(&[]);
    let status = array.status();
    assert_eq!(status["array"]["nvram"]["path"], loops.paths[4], "{status}");
    array.client().read(0, &mut bytes).expect("a read");
    assert!(bytes == [0; 4096], "it holds nothing");
    array.stop();
    // The one that it does not use any more is left as it is, and belongs to no array; what is refused takes nothing away.
    let old = uuid(&description);
    let taken = create(&path, &[&members[..], &kdd, &["--overwrite", &old]].concat());
    assert!(!taken.0 && taken.1.contains("holds data"), "{taken:?}");
    array.serve(&[]);
    array.stop();
}
