//! What lies where on members, and block devices as members.

use std::fs;
use std::process::Command;

use super::{Array, Draws, binary, page};

pub const CHUNK: usize = 64 << 10;
pub const MEMBERS: usize = 4;

/// The member that has a stripe's chunk of data of this number, and that with its parity: left-symmetric, as md's
/// documentation draws it.
pub fn left_symmetric(stripe: usize, number: usize) -> (usize, usize) {
    let parity = MEMBERS - 1 - stripe % MEMBERS;
    ((parity + 1 + number) % MEMBERS, parity)
}

#[test]
fn data_and_parity_lie_where_md_has_them() {
    let mut array = Array::new(&["--policy", "none"]);
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
    let data: Vec<u8> = (0..3 * 512).flat_map(page).collect();
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
        let folder = tempfile::tempdir().expect("a folder");
        let mut loops = Self { paths: Vec::new(), folder };
        for number in 0..count {
            let image = loops.folder.path().join(number.to_string());
            fs::File::create(&image).and_then(|file| file.set_len(bytes)).expect("a file");
            let made = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
            match made {
                Ok(made) if made.status.success() => {
                    loops.paths.push(String::from_utf8_lossy(&made.stdout).trim().to_owned());
                }
                _ => {
                    eprintln_past_capture(&format!("SKIPPED: {test}: no loop devices"));
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
    fs::remove_dir_all(&path).expect("a folder");
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
    array.stop();
    // What has been a member before does, whatever it holds.
    array.serve(&[]);
    let again = array.command("replace", &["1", &loops.paths[1]]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    array.stop();
    // Made once, they are not taken for another array.
    fs::remove_dir_all(&path).expect("a folder");
    let refused = binary::destage(&args);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("holds data"), "{said}");
}
