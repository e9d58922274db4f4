//! Files that are not the array's, or not any more, are told from those that are.

use std::fs;
use std::path::Path;

use destage_cache::ServedTier;
use destage_exec::{ExistingFiles, FileExecutor, FilesConfig, FilesError, IoBackend};
use destage_plan::{Dev, DevSet, HostOp, HostRequest};
use destage_raid::RaidLevel;
use destage_testkit::{ArraySizes, ExpectedContent, data, folder};

use crate::arrays::{Array, assert_holds, member, serve};

backend_tests! {
    a_member_of_another_length_counts_as_missing,
    an_array_that_is_described_as_something_else_is_refused,
    bytes_before_the_pages_stay_and_a_label_of_another_version_is_refused,
    members_that_changed_places_are_found_by_their_labels,
    members_that_changed_places_are_found_though_one_is_not_there,
    a_copy_in_the_place_of_another_member_is_refused,
    a_member_of_another_array_is_refused_though_the_array_has_the_same_number,
    a_file_that_was_replaced_is_not_taken_for_the_one_that_replaced_it,
    what_takes_a_members_place_is_not_it_before_the_loss_is_noted,
    a_member_that_was_away_while_the_array_went_on_has_missed_writes,
    a_file_without_a_label_counts_as_not_there,
    members_with_content_are_adopted_as_they_are,
    what_cannot_be_adopted_stays_as_it_is,
}

/// An array that holds something, stopped cleanly.
fn made(array: &Array, folder: &Path) -> ExpectedContent {
    let sizes = array.sizes();
    let mut content = ExpectedContent::new(sizes);
    let mut files = array.create(folder);
    write(&mut files, &sizes, &mut content, 1);
    drop(files.stop_clean().expect("the array stops"));
    content
}

fn write(files: &mut FileExecutor<Box<dyn ServedTier>>, sizes: &ArraySizes, content: &mut ExpectedContent, tag: u64) {
    let request = HostRequest { tag, op: HostOp::Write, offset: 0, len: sizes.pages * sizes.page, fua: false };
    let bytes = data(&request, sizes.sector);
    content.apply(&request, &bytes);
    assert!(serve(files, request, bytes).ok);
}

fn error(array: &Array, folder: &Path) -> FilesError {
    FileExecutor::open(array.controller(), array.files(folder)).expect_err("one file is not the array's")
}

fn why(files: &FileExecutor<Box<dyn ServedTier>>, dev: Dev) -> String {
    let error = files.errors().find(|(which, _)| *which == dev).expect("the device does not answer");
    error.1.to_string()
}

fn an_array_that_is_described_as_something_else_is_refused(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let folder = folder();
    let about = |text: &str| FilesConfig { about: text.to_owned(), ..array.files(folder.path()) };
    let made = "level = raid5\nchunk = 64KiB\n";
    let files = FileExecutor::create(array.controller(), about(made), ExistingFiles::Refuse).expect("an array");
    drop(files.stop_clean().expect("the array stops"));
    for (text, found, expected) in [
        ("level = raid5\nchunk = 4KiB\n", "chunk = 64KiB", "chunk = 4KiB"),
        ("level = raid6\nchunk = 64KiB\n", "level = raid5", "level = raid6"),
        ("level = raid5\n", "chunk = 64KiB", "nothing"),
        ("level = raid5\nchunk = 64KiB\npage = 4KiB\n", "nothing", "page = 4KiB"),
    ] {
        // As long as the label is, so that the files are.
        let error = FileExecutor::open(array.controller(), about(text)).expect_err("it is another array").to_string();
        let right = format!(
            "{} was made with {found}; it cannot be opened with {expected}",
            member(folder.path(), 0).display()
        );
        assert_eq!(error, right);
    }
    let files = FileExecutor::open(array.controller(), about(made)).expect("it is this array");
    assert_eq!(files.errors().count(), 0);
}

fn a_member_of_another_length_counts_as_missing(io: IoBackend) {
    for length in [-1, 1, -512, 4096, i64::MIN] {
        let array = Array::over(io, RaidLevel::Raid5, 4);
        let (folder, sizes) = (folder(), array.sizes());
        let mut files = array.create(folder.path());
        let mut content = ExpectedContent::new(sizes);
        write(&mut files, &sizes, &mut content, 1);
        drop(files.stop_clean().expect("the array stops"));
        let path = member(folder.path(), 2);
        let file = fs::OpenOptions::new().write(true).open(&path).expect("a member");
        let right = file.metadata().expect("a member").len();
        let wrong = right.checked_add_signed(length).unwrap_or(100);
        file.set_len(wrong).expect("a member");
        drop(file);
        let mut files = array.open(folder.path());
        let errors: Vec<_> = files.errors().map(|(dev, error)| (dev, error.to_string())).collect();
        let part = format!("is {wrong} bytes long; with pages of dev2 = 64 and page-bytes = 512 it must be {right}");
        assert!(matches!(&errors[..], [(Dev(2), text)] if text.contains(&part)), "{errors:?}");
        assert_holds(&mut files, &content, "without the member");
        // It has missed what came then, however long it is later.
        files.replace(Dev(2), &folder.path().join("new")).expect("a new member");
        files.settle().expect("it is filled");
        drop(files.stop_clean().expect("the array stops"));
    }
}

fn bytes_before_the_pages_stay_and_a_label_of_another_version_is_refused(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let folder = folder();
    let mut config = array.files(folder.path());
    config.devices.iter_mut().for_each(|device| device.offset = 8192);
    let mut files = FileExecutor::create(array.controller(), config.clone(), ExistingFiles::Refuse).expect("an array");
    let sizes = array.sizes();
    let mut content = ExpectedContent::new(sizes);
    write(&mut files, &sizes, &mut content, 1);
    drop(files.stop_clean().expect("the array stops"));
    let mut bytes = fs::read(member(folder.path(), 1)).expect("a member");
    assert!(bytes[..8192].iter().all(|byte| *byte == 0) && bytes[8192..].iter().any(|byte| *byte != 0));
    bytes[..8192].fill(7);
    fs::write(member(folder.path(), 1), &bytes).expect("a member");
    let mut files = FileExecutor::open(array.controller(), config.clone()).expect("nobody looks at them");
    assert_holds(&mut files, &content, "behind what is before");
    write(&mut files, &sizes, &mut content, 2);
    drop(files.stop_clean().expect("the array stops"));
    let mut bytes = fs::read(member(folder.path(), 1)).expect("a member");
    assert!(bytes[..8192].iter().all(|byte| *byte == 7), "they stay");
    let label = 8192 + array.member_pages as usize * array.page as usize;
    assert_eq!(&bytes[label..label + 8], b"dstgMEMB");
    bytes[label + 8] = 1;
    let crc = crc32c::crc32c(&bytes[label..label + 508]);
    bytes[label + 508..label + 512].copy_from_slice(&crc.to_le_bytes());
    fs::write(member(folder.path(), 1), &bytes).expect("a member");
    let error = FileExecutor::open(array.controller(), config).expect_err("it is another version").to_string();
    assert!(error.contains("the label's version") && error.contains("is 1; it must be 4"), "{error}");
}

/// Moves the file of each member to the place of another.
fn permute(folder: &Path, places: [u8; 4]) {
    let aside = |dev: u8| folder.join(format!("aside{dev}"));
    (0..4).for_each(|dev| fs::rename(member(folder, dev), aside(dev)).expect("it is there"));
    (0..).zip(places).for_each(|(dev, place)| fs::rename(aside(dev), member(folder, place)).expect("it is there"));
}

fn order(files: &FileExecutor<Box<dyn ServedTier>>, folder: &Path) -> [u8; 4] {
    let place = |dev: usize| (0..4).find(|place| files.config().devices[dev].path == member(folder, *place));
    [0, 1, 2, 3].map(|dev| place(dev).expect("a place"))
}

fn members_that_changed_places_are_found_by_their_labels(io: IoBackend) {
    for places in [[2, 1, 0, 3], [1, 2, 3, 0], [3, 2, 1, 0]] {
        let array = Array::over(io, RaidLevel::Raid5, 4);
        let (folder, sizes) = (folder(), array.sizes());
        let mut content = made(&array, folder.path());
        permute(folder.path(), places);
        let mut files = array.open(folder.path());
        assert_eq!((order(&files, folder.path()), files.errors().count()), (places, 0));
        assert_holds(&mut files, &content, "each found");
        write(&mut files, &sizes, &mut content, 2);
        drop(files.stop_clean().expect("the array stops"));
        // NVRAM and intents are lost, and each member has marks.
        fs::remove_file(folder.path().join("nvram")).expect("it is there");
        let accepted = destage_exec::AcceptedLosses { data: true, notes: true };
        let config = array.files(folder.path());
        let mut files = FileExecutor::resynchronise(array.controller(), config, accepted).expect("the array is there");
        assert_eq!((order(&files, folder.path()), files.errors().count()), (places, 0));
        assert_holds(&mut files, &content, "each found without the NVRAM");
        drop(files.stop_clean().expect("the array stops"));
        // In order again.
        permute(
            folder.path(),
            [0, 1, 2, 3].map(|at| places.iter().position(|one| *one == at).expect("it is there") as u8),
        );
        let mut files = array.open(folder.path());
        assert_eq!(order(&files, folder.path()), [0, 1, 2, 3]);
        assert_holds(&mut files, &content, "each in its place again");
    }
}

fn members_that_changed_places_are_found_though_one_is_not_there(io: IoBackend) {
    for what in ["missing", "unlabelled", "longer", "shorter"] {
        let array = Array::over(io, RaidLevel::Raid5, 4);
        let folder = folder();
        let content = made(&array, folder.path());
        permute(folder.path(), [2, 0, 1, 3]);
        // What was member 0.
        let path = member(folder.path(), 2);
        let bytes = fs::read(&path).expect("a member");
        let label = array.member_pages as usize * array.page as usize;
        match what {
            "missing" => fs::remove_file(&path),
            "unlabelled" => fs::write(&path, [&bytes[..label], &[0; 512], &bytes[label + 512..]].concat()),
            "longer" => fs::write(&path, [&bytes[..], &[0; 512]].concat()),
            _ => fs::write(&path, &bytes[..bytes.len() - 512]),
        }
        .expect("it can be changed");
        let mut files = array.open(folder.path());
        assert_eq!(order(&files, folder.path()), [2, 0, 1, 3], "{what}");
        let errors: Vec<_> = files.errors().map(|(dev, error)| (dev, error.to_string())).collect();
        let part = match what {
            "missing" => "No such file".to_owned(),
            "unlabelled" => "it has no label".to_owned(),
            "longer" => format!("is {} bytes long; with pages of dev0 = 64", bytes.len() + 512),
            _ => format!("is {} bytes long; with pages of dev0 = 64", bytes.len() - 512),
        };
        assert!(matches!(&errors[..], [(Dev(0), text)] if text.contains(&part)), "{what}: {errors:?}");
        assert_holds(&mut files, &content, what);
    }
}

fn a_copy_in_the_place_of_another_member_is_refused(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let folder = folder();
    let content = made(&array, folder.path());
    let (two, aside) = (member(folder.path(), 2), folder.path().join("aside"));
    fs::rename(&two, &aside).expect("it is there");
    fs::copy(member(folder.path(), 1), &two).expect("it can be copied");
    let expected = format!(
        "{} is member 1 of this array, or a copy of it; in its place must be member 2 (put that back, or move this file away: then it \
         counts as missing)",
        two.display()
    );
    assert_eq!(error(&array, folder.path()).to_string(), expected);
    fs::rename(&aside, &two).expect("it is there");
    assert_holds(&mut array.open(folder.path()), &content, "nothing was changed");
}

fn a_member_of_another_array_is_refused_though_the_array_has_the_same_number(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let (ours, theirs) = (folder(), folder());
    made(&array, ours.path());
    made(&array, theirs.path());
    fs::copy(member(theirs.path(), 1), member(ours.path(), 1)).expect("it can be copied");
    let message = error(&array, ours.path()).to_string();
    assert!(message.contains("dev1 is device 1 of another array; in its place must be member 1"), "{message}");
}

fn a_file_that_was_replaced_is_not_taken_for_the_one_that_replaced_it(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let folder = folder();
    let sizes = array.sizes();
    let mut content = made(&array, folder.path());
    let old = folder.path().join("old");
    fs::copy(member(folder.path(), 1), &old).expect("it can be copied");
    let mut files = array.open(folder.path());
    files.replace(Dev(1), &folder.path().join("new")).expect("it is made");
    write(&mut files, &sizes, &mut content, 2);
    files.settle().expect("it is filled");
    drop(files.stop_clean().expect("the array stops"));

    // The old one, of the right size, in the right place, with the right number.
    let mut files = array.open(folder.path());
    assert!(!files.answers(Dev(1)));
    let message = why(&files, Dev(1));
    assert!(message.contains("has missed writes: its generation is 1, that of dev1 is 5"), "{message}");
    assert_holds(&mut files, &content, "without it");
    files.replace(Dev(1), &member(folder.path(), 1)).expect("it may be filled anew");
    files.settle().expect("it is filled");
    drop(files.stop_clean().expect("the array stops"));
    let mut files = array.open(folder.path());
    assert!(files.answers(Dev(1)));
    fs::remove_file(member(folder.path(), 0)).expect("it is there");
    assert_holds(&mut files, &content, "with it");
}

fn what_takes_a_members_place_is_not_it_before_the_loss_is_noted(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let folder = folder();
    let content = made(&array, folder.path());
    let path = member(folder.path(), 1);
    let mut files = array.open(folder.path());
    files.wait_ready().expect("nothing is missing");
    fs::rename(&path, folder.path().join("aside")).expect("it is there");
    files.replace(Dev(1), &path).expect("it is made");
    assert!(files.answers(Dev(1)) && !files.is_named(Dev(1)), "the NVRAM says nothing so far");
    drop(files);

    // It is of zeros, and the NVRAM knows of no loss.
    let mut files = array.open(folder.path());
    assert!(!files.answers(Dev(1)));
    let message = why(&files, Dev(1));
    assert!(message.contains("it was never named: its generation is 5, that of dev1 is 4"), "{message}");
    assert_holds(&mut files, &content, "without it");
    files.replace(Dev(1), &path).expect("it is put in its place again");
    files.settle().expect("it is filled");
    assert!(files.is_named(Dev(1)));
    drop(files);
    let mut files = array.open(folder.path());
    assert!(files.answers(Dev(1)));
    fs::remove_file(member(folder.path(), 0)).expect("it is there");
    assert_holds(&mut files, &content, "with it");
}

fn a_member_that_was_away_while_the_array_went_on_has_missed_writes(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid6, 5);
    let folder = folder();
    let sizes = array.sizes();
    let mut content = made(&array, folder.path());
    let (path, aside) = (member(folder.path(), 3), folder.path().join("aside"));
    fs::rename(&path, &aside).expect("it is there");
    let mut files = array.open(folder.path());
    files.wait_ready().expect("one may be missing");
    write(&mut files, &sizes, &mut content, 2);
    drop(files);
    fs::rename(&aside, &path).expect("it was put aside");
    let mut files = array.open(folder.path());
    assert!(!files.answers(Dev(3)), "it answers, and is not trusted");
    let message = why(&files, Dev(3));
    assert!(message.contains("dev3") && message.contains("its generation is 1, that of dev3 is 2"), "{message}");
    assert_holds(&mut files, &content, "without it");
}

fn a_file_without_a_label_counts_as_not_there(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid1, 2);
    let folder = folder();
    let content = made(&array, folder.path());
    let path = member(folder.path(), 1);
    let mut bytes = fs::read(&path).expect("it is there");
    let label = (array.member_pages * array.page) as usize;
    for at in [label, label + 40, label + 511] {
        bytes[at] ^= 1;
        fs::write(&path, &bytes).expect("it can be written");
        let controller = array.controller();
        let mut files = FileExecutor::open(controller, array.files(folder.path())).expect("one copy is enough");
        assert!(!files.answers(Dev(1)) && why(&files, Dev(1)).contains("it has no label"), "byte {at}");
        assert_holds(&mut files, &content, "without it");
        bytes[at] ^= 1;
    }
}

/// Copies the members of an array as nobody has labelled them: their pages alone.
fn unlabelled(array: &Array, from: &Path, to: &Path) {
    let config = array.files(from);
    for (dev, device) in config.devices.iter().enumerate() {
        let mut bytes = fs::read(&device.path).expect("a member");
        bytes.truncate((device.offset + device.pages * config.shape.page_bytes()) as usize);
        fs::write(member(to, dev as u8), bytes).expect("a member");
    }
}

fn members_with_content_are_adopted_as_they_are(io: IoBackend) {
    for (level, members) in [(RaidLevel::Raid0, 3), (RaidLevel::Raid1, 3), (RaidLevel::Raid5, 4), (RaidLevel::Raid6, 5)]
    {
        let array = Array::over(io, level, members);
        let (first, second) = (folder(), folder());
        let content = made(&array, first.path());
        unlabelled(&array, first.path(), second.path());
        let adopt = |config| {
            FileExecutor::create(array.controller(), config, ExistingFiles::Adopt(DevSet::first(members.into())))
        };
        let mut files = adopt(array.files(second.path())).expect("they are adopted");
        assert_holds(&mut files, &content, "adopted");
        drop(files.stop_clean().expect("the array stops"));
        // Its parity is believed as well: one after the other is left out.
        for dev in 0..if level == RaidLevel::Raid0 { 0 } else { members } {
            let third = folder();
            unlabelled(&array, second.path(), third.path());
            drop(adopt(array.files(third.path())).expect("they are adopted").stop_clean().expect("the array stops"));
            fs::remove_file(member(third.path(), dev)).expect("a member");
            let mut files = array.open(third.path());
            assert_holds(&mut files, &content, "adopted, without a member");
        }
        // With their labels, once nobody knows the array any more; also if it is described in more words or less.
        for text in ["", &"policy = none\n".repeat(100), "level\n"] {
            for name in ["nvram", "intents"] {
                fs::remove_file(second.path().join(name)).expect("a file");
            }
            let config = FilesConfig { about: text.to_owned(), ..array.files(second.path()) };
            let mut files = adopt(config).expect("they are adopted again");
            assert_holds(&mut files, &content, "adopted again");
            drop(files.stop_clean().expect("the array stops"));
        }
    }
}

fn what_cannot_be_adopted_stays_as_it_is(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let (first, second) = (folder(), folder());
    let content = made(&array, first.path());
    unlabelled(&array, first.path(), second.path());
    let adopt =
        |devices| FileExecutor::create(array.controller(), array.files(second.path()), ExistingFiles::Adopt(devices));
    let refused = |what: &str| {
        let error = adopt(DevSet::first(4)).expect_err(what);
        assert!(!second.path().join("nvram").exists(), "{what}: nothing is made");
        error
    };
    let path = member(second.path(), 2);
    let bytes = fs::read(&path).expect("a member");
    let end = bytes.len() as u64;
    fs::remove_file(&path).expect("a member");
    assert!(matches!(refused("one is not there"), FilesError::Io { path: found, .. } if found == path));
    fs::write(&path, &bytes[1..]).expect("a member");
    assert!(
        matches!(refused("one is short"), FilesError::Room { found, end: at, .. } if found == end - 1 && at == end)
    );
    fs::write(&path, [&bytes[..], &[0; 4096]].concat()).expect("a member");
    assert!(matches!(refused("one is longer than its label"), FilesError::Room { found, .. } if found == end + 4096));
    fs::write(&path, [&bytes[..], &[0, 0, 7]].concat()).expect("a member");
    let error = refused("something is where a label goes");
    // Nobody is told to remove what may be a user's.
    assert!(matches!(&error, FilesError::LabelsPlace { at, removal: None, .. } if *at == end + 2), "{error}");
    fs::write(&path, [&bytes[..], &[0; 3]].concat()).expect("a member");
    // Who is not named must not be there, and nothing becomes of the others.
    let error = adopt(DevSet::first(3)).expect_err("member 3 is there");
    assert!(matches!(&error, FilesError::Exists(found) if *found == member(second.path(), 3)), "{error}");
    fs::write(second.path().join("intents"), "precious").expect("a file");
    assert!(matches!(refused("intents are there"), FilesError::Exists(_)));
    fs::remove_file(second.path().join("intents")).expect("a file");
    let mut files = adopt(DevSet::first(4)).expect("they are adopted");
    assert_holds(&mut files, &content, "adopted");
}
