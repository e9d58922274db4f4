//! Arrays that something else has written: members as md leaves them, with its superblocks or without.

use std::fs;
use std::path::{Path, PathBuf};

use super::media::{CHUNK, Loops, MEMBERS, left_symmetric};
use super::{Array, Draws, binary, page, pages};

const OFFSET: usize = 1 << 20;
const MEMBER: usize = 2 << 20;
const SUPERBLOCK: usize = 4096;
/// Sets the place of a member's role in a superblock: behind its head, at the number of the device.
const ROLE: usize = 256;

/// Members of a RAID-5 that hold this, in order, without anything before the data.
fn members(data: &[u8]) -> Vec<Vec<u8>> {
    let mut members = vec![vec![0; OFFSET + MEMBER]; MEMBERS];
    for (stripe, bytes) in data.chunks(CHUNK * (MEMBERS - 1)).enumerate() {
        let at = OFFSET + stripe * CHUNK;
        let (_, parity) = left_symmetric(stripe, 0);
        for (number, chunk) in bytes.chunks(CHUNK).enumerate() {
            let (member, _) = left_symmetric(stripe, number);
            members[member][at..at + CHUNK].copy_from_slice(chunk);
            members[parity][at..at + CHUNK].iter_mut().zip(chunk).for_each(|(sum, byte)| *sum ^= byte);
        }
    }
    members
}

/// Writes numbers into a member's superblock, and its sum.
fn patch(member: &mut [u8], fields: Change<'_>) {
    patch_at(SUPERBLOCK, member, fields);
}

fn patch_at(place: usize, member: &mut [u8], fields: Change<'_>) {
    let superblock = &mut member[place..place + ROLE + 2 * MEMBERS];
    for &(at, value, bytes) in fields {
        superblock[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }
    superblock[216..220].fill(0);
    let words = superblock.chunks(4).map(|word| u64::from(u32::from_le_bytes(word.try_into().expect("four bytes"))));
    let sum: u64 = words.sum();
    superblock[216..220].copy_from_slice(&((sum as u32).wrapping_add((sum >> 32) as u32)).to_le_bytes());
}

/// Gives each member what md has on it after a stop in order, as `md_p.h` has the fields.
fn with_superblocks(mut members: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let sectors = |bytes: usize| (bytes / 512) as u64;
    for (number, member) in members.iter_mut().enumerate() {
        // Devices need not be numbered as members are.
        let device = (MEMBERS - 1 - number) as u64;
        let fields = [
            (0, 0xa92b_4efc, 4),
            (4, 1, 4),
            (16, 0x1234_5678_9abc_def0, 8),
            (24, 0xfedc_ba98_7654_3210, 8),
            (72, 5, 4),
            (76, 2, 4),
            (80, sectors(MEMBER), 8),
            (88, sectors(CHUNK), 4),
            (92, MEMBERS as u64, 4),
            (128, sectors(OFFSET), 8),
            (136, sectors(MEMBER), 8),
            (144, sectors(SUPERBLOCK), 8),
            (160, device, 4),
            (200, 17, 8),
            (208, u64::MAX, 8),
            (220, MEMBERS as u64, 4),
        ];
        patch(member, &fields);
        for role in 0..MEMBERS {
            patch(member, &[(ROLE + 2 * role, (MEMBERS - 1 - role) as u64, 2)]);
        }
    }
    members
}

/// Lists changes of a superblock: the place, the value, and its bytes.
type Change<'a> = &'a [(usize, u64, usize)];

/// Files of members, in a folder; their paths.
fn write(folder: &Path, members: &[Vec<u8>]) -> Vec<String> {
    let paths = (0..members.len()).map(|number| folder.join(format!("disk{number}")));
    let written = paths.zip(members).map(|(path, bytes)| {
        fs::write(&path, bytes).expect("a member");
        path.display().to_string()
    });
    written.collect()
}

/// `destage create --adopt` of these, with more settings.
fn adopt(array: &Array, paths: &[String], more: &[&str]) -> std::process::Output {
    let path = array.path();
    let mut args = vec!["create", &path, "--adopt"];
    args.extend(paths.iter().flat_map(|path| ["--member", path]));
    args.extend(more);
    binary::destage(&args)
}

fn empty() -> Array {
    Array { folder: tempfile::tempdir().expect("a folder"), service: None }
}

fn content() -> Vec<u8> {
    pages(0..((MEMBERS - 1) * MEMBER / 4096) as u64)
}

/// Reads everything.
fn all(array: &Array, bytes: usize) -> Vec<u8> {
    let mut client = array.client();
    let mut read = vec![0; bytes];
    for (at, bytes) in read.chunks_mut(1 << 20).enumerate() {
        client.read((at << 20) as u64, bytes).expect("a read");
    }
    read
}

#[test]
fn an_array_of_mds_is_adopted_by_its_superblocks_and_stays_one_of_mds() {
    let none = &["--policy", "none"][..];
    let kdd = &["--policy", "kdd", "--cache", "1MiB"][..];
    // Of metadata 1.2, and of 1.1, which has it at the beginning.
    for (settings, place) in [(none, SUPERBLOCK), (kdd, SUPERBLOCK), (none, 0)] {
        let mut array = empty();
        let mut data = content();
        let mut before = with_superblocks(members(&data));
        if place == 0 {
            for member in &mut before {
                member.copy_within(SUPERBLOCK..2 * SUPERBLOCK, 0);
                member[SUPERBLOCK..2 * SUPERBLOCK].fill(0);
                patch_at(0, member, &[(144, 0, 8)]);
            }
        }
        let paths = write(array.folder.path(), &before);
        // In whatever order they are given.
        let given = [2, 0, 3, 1].map(|number: usize| paths[number].clone());
        let made = adopt(&array, &given, settings);
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success() && said.contains("raid5:4"), "{said}");
        array.serve(&[]);
        assert!(all(&array, data.len()) == data, "what md wrote is there");
        let mut client = array.client();
        let mut draws = Draws(6);
        for number in 5000..5300 {
            let at = draws.below((data.len() / 4096) as u64) as usize * 4096;
            data[at..at + 4096].copy_from_slice(&page(number));
            client.write(at as u64, &page(number), false).expect("a write");
        }
        array.stop();
        let wanted = members(&data);
        for ((path, before), wanted) in paths.iter().zip(&before).zip(&wanted) {
            let after = fs::read(path).expect("a member");
            assert!(after[..OFFSET] == before[..OFFSET], "md's superblock stays on {path}");
            assert!(after[OFFSET..OFFSET + MEMBER] == wanted[OFFSET..], "{path} is as md would have it");
        }
        fs::remove_file(&paths[1]).expect("a member");
        array.serve(&[]);
        assert!(all(&array, data.len()) == data, "without a member");
    }
}

#[test]
fn members_without_superblocks_are_taken_as_they_are_given() {
    let mut array = empty();
    let data = content();
    let paths = write(array.folder.path(), &members(&data));
    let refused = adopt(&array, &paths, &[]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--level is missing"), "{refused:?}");
    let made = adopt(&array, &paths, &["--level", "raid5:4", "--member-size", "2MiB", "--data-offset", "1MiB"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    array.serve(&[]);
    assert!(all(&array, data.len()) == data);
    array.stop();
    // Whoever has lost the description adopts them again.
    fs::remove_dir_all(array.path()).expect("a folder");
    let settings = ["--level", "raid5:4", "--member-size", "2MiB", "--policy", "kdd", "--cache", "1MiB"];
    let made = adopt(&array, &paths, &settings);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    array.serve(&[]);
    assert!(all(&array, data.len()) == data);
}

#[test]
fn block_devices_are_adopted_where_they_have_room_for_a_label() {
    let test = "block_devices_are_adopted_where_they_have_room_for_a_label";
    let data = content();
    for room in [0, 64 << 10] {
        let Some(loops) = Loops::new(test, MEMBERS, (OFFSET + MEMBER + room) as u64) else { return };
        for (path, bytes) in loops.paths.iter().zip(with_superblocks(members(&data))) {
            fs::write(path, bytes).expect("a device");
        }
        let mut array = empty();
        let made = adopt(&array, &loops.paths, &[]);
        let said = String::from_utf8_lossy(&made.stderr);
        if room == 0 {
            assert!(!made.status.success() && said.contains("needs room for a label"), "{said}");
            continue;
        }
        assert!(made.status.success(), "{said}");
        array.serve(&[]);
        assert!(all(&array, data.len()) == data);
        array.stop();
    }
}

#[test]
fn what_md_has_not_left_in_order_is_refused_and_stays_as_it_is() {
    let good = with_superblocks(members(&content()));
    let changes: [(Change<'_>, &str); 14] = [
        (&[(72, 10, 4)], "the level of md's superblock is 10; it must be 5, as on"),
        (&[(76, 3, 4)], "the layout of md's superblock is 3; it must be 2, as on"),
        (&[(88, 256, 4)], "the chunk"),
        (&[(16, 1, 8)], "the first half of the uuid of md's superblock is 1; it must be 123456789abcdef0, as on"),
        (&[(24, 1, 8)], "the second half of the uuid"),
        (&[(80, 64, 8)], "the size"),
        (&[(128, 4096, 8)], "the data offset of md's superblock is 4096; it must be 2048"),
        (&[(200, 18, 8)], "the number of events of md's superblock is 18; it must be 17"),
        (&[(208, 640, 8)], "have md resync the array"),
        (&[(8, 2, 4)], "is 0x2; it must be 0: no recovery"),
        (&[(160, 4, 4)], "the number of the device of md's superblock is 4; it must be below 4"),
        (&[(ROLE + 4, 0xffff, 2)], "the role of md's superblock is that of a spare"),
        (&[(ROLE + 4, 3, 2)], "the member of md's superblock is 3"),
        (&[(220, 5000, 4)], "the length of the table of roles"),
    ];
    let check = |bytes: &[Vec<u8>], part: &str, more: &[&str]| {
        let array = empty();
        let paths = write(array.folder.path(), bytes);
        let refused = adopt(&array, &paths, more);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{part}: {said}");
        assert!(said.contains(part), "{part}: {said}");
        assert!(!array.file("array.toml").exists());
        for (path, bytes) in paths.iter().map(PathBuf::from).zip(bytes) {
            assert!(fs::read(&path).expect("a member") == *bytes, "{part}: {} is touched", path.display());
        }
    };
    for (fields, part) in changes {
        let mut bytes = good.clone();
        patch(&mut bytes[1], fields);
        check(&bytes, part, &[]);
    }
    for (fields, part) in [
        (&[(72, 10, 4)][..], "the level of md's superblock is 10; it must be 0, 1, 4, 5 or 6"),
        (&[(76, 7, 4)], "the layout of md's superblock is 7; it must be one of those that raid5 has"),
        (&[(92, 5, 4)], "the number of members of md's superblock is 5; it must be 4, as many as are given"),
        (&[(88, 0, 4)], "the chunk of md's superblock is 0"),
    ] {
        let mut bytes = good.clone();
        for member in &mut bytes {
            patch(member, fields);
        }
        check(&bytes, part, &[]);
    }
    let mut damaged = good.clone();
    damaged[2][SUPERBLOCK + 100] ^= 1;
    check(&damaged, "the checksum", &[]);
    let mut mixed = good.clone();
    mixed[3][SUPERBLOCK..SUPERBLOCK + 512].fill(0);
    check(&mixed, "they are not of one array", &[]);
    let mut longer = good.clone();
    longer[3].extend([0, 9]);
    check(&longer, "holds data at byte 3145729", &[]);
    for (more, part) in [
        (["--level", "raid5:5"], "--level raid5:5: md's superblocks say raid5:4"),
        (["--level", "raid6:4"], "--level raid6:4: md's superblocks say raid5:4"),
        (["--chunk", "32KiB"], "--chunk 32KiB: md's superblocks say 64KiB"),
        (["--layout", "right-symmetric"], "--layout right-symmetric: md's superblocks say left-symmetric"),
        (["--member-size", "1MiB"], "--member-size 1MiB: md's superblocks say 2MiB"),
        (["--data-offset", "0"], "--data-offset 0B: md's superblocks say 1MiB"),
    ] {
        check(&good, part, &more);
    }
    let array = empty();
    let nobody = adopt(&array, &[], &["--dev"]);
    assert_eq!(nobody.status.code(), Some(2), "{nobody:?}");
}

/// Checks that cache, NVRAM and intents, which are older than the members then, are not served before them.
#[test]
fn what_md_has_run_since_is_refused() {
    let data = content();
    let superblocks = with_superblocks(members(&data));
    let mut array = empty();
    let paths = write(array.folder.path(), &superblocks);
    let made = adopt(&array, &paths, &[]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    array.serve(&[]);
    array.stop();
    let put = |path: &String, beginning: &[u8]| {
        let mut bytes = fs::read(path).expect("a member");
        bytes[..OFFSET].copy_from_slice(beginning);
        fs::write(path, bytes).expect("a member");
    };
    let put_changed = |count: usize, fields: Change<'_>| {
        for (number, (path, superblock)) in paths.iter().zip(&superblocks).enumerate() {
            let mut beginning = superblock[..OFFSET].to_vec();
            if number < count {
                patch(&mut beginning, fields);
            }
            put(path, &beginning);
        }
    };
    // In the last run a member may have been away.
    for count in [4, 1] {
        put_changed(count, &[(200, 19, 8)]);
        for words in [&["--run", "true"][..], &["--run", "true", "--accept-losses"]] {
            let refused = array.command("serve", words);
            let said = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(1), "{said}");
            assert!(
                said.contains(&paths[0]) && said.contains("is 19, and was 17 when the array was taken over"),
                "{said}"
            );
            assert!(said.contains("destage create --adopt"), "{said}");
        }
    }
    // A disk that was another array's tells nothing, nor does a superblock that is damaged.
    put_changed(1, &[(16, 1, 8), (200, 19, 8)]);
    let mut beginning = superblocks[1][..OFFSET].to_vec();
    beginning[SUPERBLOCK + 100] ^= 1;
    put(&paths[1], &beginning);
    array.serve(&[]);
    assert!(all(&array, data.len()) == data, "nothing has changed");
    array.stop();
}
