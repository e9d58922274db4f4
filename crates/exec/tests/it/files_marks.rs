//! The files of NVRAM and intents are lost: what members have marked is made consistent, and nothing else is looked at.

use std::fs;
use std::path::Path;

use destage_cache::CacheMedium;
use destage_cache::ServedTier;
use destage_exec::{AcceptedLosses, FileExecutor, FilesError};
use destage_plan::{Dev, HostOp, HostRequest};
use destage_raid::RaidLevel;
use destage_testkit::{ArraySizes, ExpectedContent, data, folder};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::arrays::{Array, assert_holds, cache, member, reopen, serve};

const ALL: AcceptedLosses = AcceptedLosses { data: true, notes: true };

fn write(
    files: &mut FileExecutor<Box<dyn ServedTier>>,
    sizes: &ArraySizes,
    content: &mut ExpectedContent,
    pages: &[u64],
    tag: u64,
) {
    for page in pages {
        let request =
            HostRequest { tag: tag + page, op: HostOp::Write, offset: page * sizes.page, len: sizes.page, fua: true };
        let bytes = data(&request, sizes.sector);
        content.apply(&request, &bytes);
        assert!(serve(files, request, bytes).ok);
    }
}

fn lose(folder: &Path, names: &[&str]) {
    for name in names {
        fs::remove_file(folder.join(name)).expect("a file");
    }
}

fn resynchronise(
    array: &Array,
    folder: &Path,
    accepted: AcceptedLosses,
) -> Result<FileExecutor<Box<dyn ServedTier>>, FilesError> {
    // Whatever another test starts has for a moment what is open here.
    reopen(|| FileExecutor::resynchronise(array.controller(), array.files(folder), accepted))
}

#[test]
fn what_members_have_marked_is_made_consistent_and_nothing_else() {
    for names in [&["nvram", "intents"][..], &["nvram"]] {
        let array = Array::new(RaidLevel::Raid5, 4);
        let (folder, sizes) = (folder(), array.sizes());
        let mut content = ExpectedContent::new(sizes);
        let mut files = array.create(folder.path());
        write(&mut files, &sizes, &mut content, &[0, 1, 40], 100);
        drop(files.stop_clean().expect("the array stops"));
        let mut files = array.open(folder.path());
        write(&mut files, &sizes, &mut content, &[1], 200);
        drop(files);
        // What no crash does: the parity of a row that nobody has marked is wrong, and stays so.
        let path = member(folder.path(), 1);
        let mut bytes = fs::read(&path).expect("a member");
        let row = 60 * array.page as usize;
        bytes[row] ^= 1;
        fs::write(&path, &bytes).expect("a member");
        let before = fs::read(member(folder.path(), 0)).expect("a member");
        lose(folder.path(), names);
        let error = FileExecutor::open(array.controller(), array.files(folder.path())).expect_err("they are not there");
        assert!(matches!(error, FilesError::Missing(_)), "{error}");
        let mut files =
            resynchronise(&array, folder.path(), AcceptedLosses { data: true, notes: false }).expect("it goes on");
        let done = files.resynchronised().cloned().expect("they were lost");
        assert_eq!(done.lost, names.iter().map(|name| folder.path().join(name)).collect::<Vec<_>>());
        assert_eq!(
            (done.rows, done.marks, done.of, done.data_lost),
            (4, 1, 64, true),
            "of one write, one mark of four rows"
        );
        files.wait_ready().expect("it is recovered");
        assert_eq!(files.engine().controller().array().stats().recovered_rows, 4);
        drop(files.stop_clean().expect("the array stops"));
        let after = fs::read(member(folder.path(), 0)).expect("a member");
        assert_eq!(before[row..row + 512], after[row..row + 512], "a row without a mark is left as it is");
        bytes = fs::read(&path).expect("a member");
        bytes[row] ^= 1;
        fs::write(&path, &bytes).expect("a member");
        // Without each member: parity is right.
        for lost in 0..4 {
            fs::rename(member(folder.path(), lost), folder.path().join("aside")).expect("a member");
            let mut files = array.open(folder.path());
            assert_holds(&mut files, &content, "without a member");
            drop(files.stop_clean().expect("the array stops"));
            fs::remove_file(folder.path().join("aside")).expect("a member");
            let mut files = array.open(folder.path());
            files.replace(Dev(lost), &member(folder.path(), lost)).expect("a new member");
            files.settle().expect("it is filled");
            drop(files.stop_clean().expect("the array stops"));
        }
    }
}

/// Says what is done to the file of the intents.
#[derive(Clone, Copy, Debug)]
enum LostIntents {
    Removed,
    /// Gives the byte of the header that is damaged.
    Damaged(usize),
    /// Zeroes the first sector.
    Blank,
}

/// Loses the intents alone: the members have marked their rows, and the NVRAM stays.
#[test]
fn intents_that_are_lost_alone_cost_nothing_of_the_nvram() {
    let lost = [
        LostIntents::Removed,
        LostIntents::Damaged(3),
        LostIntents::Damaged(60),
        LostIntents::Damaged(509),
        LostIntents::Blank,
    ];
    for (name, how, is_clean) in ["none", "wow", "write-back", "kdd", "lawc"]
        .into_iter()
        .flat_map(|name| lost.iter().flat_map(move |how| [(name, *how, true), (name, *how, false)]))
    {
        let what = format!("{name}, {how:?}, stopped in order: {is_clean}");
        let array = match name {
            "none" => Array::new(RaidLevel::Raid5, 4),
            name => Array { cache: cache(name), cache_pages: 64, ..Array::new(RaidLevel::Raid5, 4) },
        };
        let (folder, sizes) = (folder(), array.sizes());
        let mut content = ExpectedContent::new(sizes);
        let mut files = array.create(folder.path());
        write(&mut files, &sizes, &mut content, &[0, 1, 40], 100);
        if is_clean {
            drop(files.stop_clean().expect("the array stops"));
        } else {
            drop(files);
        }
        let path = folder.path().join("intents");
        let mut bytes = fs::read(&path).expect("a file");
        match how {
            LostIntents::Removed => fs::remove_file(&path).expect("a file"),
            LostIntents::Damaged(at) => bytes[at] ^= 1,
            LostIntents::Blank => bytes[..512].fill(0),
        }
        if !matches!(how, LostIntents::Removed) {
            fs::write(&path, &bytes).expect("a file");
        }
        let mut files = resynchronise(&array, folder.path(), AcceptedLosses::default()).expect(&what);
        assert!(files.resynchronised().is_none(), "{what}: the NVRAM is kept");
        let told = files.damaged_intents().expect("it is told").clone();
        assert_eq!((told.errors.len(), told.of), (1, 64), "{what}: {told:?}");
        // A write cache may not have written to the members so far.
        assert!(told.rows == 0 || !is_clean, "{what}: {told:?}");
        assert!(told.rows > 0 || is_clean || array.cache.medium == CacheMedium::Nvram, "{what}: {told:?}");
        assert_holds(&mut files, &content, &what);
        drop(files.stop_clean().expect("the array stops"));
        let files = array.open(folder.path());
        assert!(files.damaged_intents().is_none(), "{what}: they are there again");
        drop(files.stop_clean().expect("the array stops"));
        // Parity is right.
        fs::remove_file(member(folder.path(), 1)).expect("a member");
        assert_holds(&mut array.open(folder.path()), &content, &what);
    }
}

/// Checks that an older NVRAM does not make intents that would fit it.
#[test]
fn intents_are_not_made_for_an_older_nvram() {
    let array = Array::new(RaidLevel::Raid5, 4);
    let (folder, sizes) = (folder(), array.sizes());
    let mut content = ExpectedContent::new(sizes);
    let mut files = array.create(folder.path());
    write(&mut files, &sizes, &mut content, &[0, 1, 40], 100);
    drop(files.stop_clean().expect("the array stops"));
    let old = fs::read(folder.path().join("nvram")).expect("a file");
    let mut files = array.open(folder.path());
    write(&mut files, &sizes, &mut content, &[7], 300);
    drop(files);
    fs::write(folder.path().join("nvram"), old).expect("a file");
    lose(folder.path(), &["intents"]);
    let mut files = resynchronise(&array, folder.path(), ALL).expect("it goes on without both");
    assert!(files.resynchronised().is_some() && files.damaged_intents().is_none());
    assert_holds(&mut files, &content, "without both");
}

#[test]
fn what_comes_back_after_it_was_taken_for_lost_is_refused() {
    let array = Array::new(RaidLevel::Raid5, 4);
    let (folder, sizes) = (folder(), array.sizes());
    let mut content = ExpectedContent::new(sizes);
    let mut files = array.create(folder.path());
    write(&mut files, &sizes, &mut content, &[0, 1, 40], 100);
    drop(files);
    let old = ["nvram", "intents"].map(|name| fs::read(folder.path().join(name)).expect("a file"));
    lose(folder.path(), &["nvram", "intents"]);
    let mut files = resynchronise(&array, folder.path(), ALL).expect("it goes on");
    write(&mut files, &sizes, &mut content, &[7], 300);
    drop(files.stop_clean().expect("the array stops"));
    for (epoch, back) in [(1, &["nvram", "intents"][..]), (2, &["nvram"]), (3, &["intents"])] {
        for name in back {
            fs::write(folder.path().join(name), &old[usize::from(*name == "intents")]).expect("a file");
        }
        let error = FileExecutor::open(array.controller(), array.files(folder.path())).expect_err("it is an old one");
        match &error {
            FilesError::Behind { older, .. } => assert_eq!(older.len(), 2, "{error}"),
            FilesError::Outdated { found: 0, expected, .. } => assert_eq!(*expected, epoch, "{error}"),
            _ => panic!("{error}"),
        }
        // It is as good as lost, once more.
        let mut files = resynchronise(&array, folder.path(), AcceptedLosses::default()).expect("the members have all");
        assert!(files.resynchronised().is_some());
        assert_holds(&mut files, &content, "without the old one");
        drop(files.stop_clean().expect("the array stops"));
    }
    let mut files = array.open(folder.path());
    assert!(files.resynchronised().is_none());
    assert_holds(&mut files, &content, "with the new ones");
}

#[test]
fn what_only_the_nvram_had_is_lost_by_order_alone() {
    for name in ["wow", "write-back"] {
        let array = Array { cache: cache(name), cache_pages: 64, ..Array::new(RaidLevel::Raid5, 4) };
        let (folder, sizes) = (folder(), array.sizes());
        let mut content = ExpectedContent::new(sizes);
        let mut files = array.create(folder.path());
        write(&mut files, &sizes, &mut content, &[0, 1, 40], 100);
        // In order: nothing is there that is nowhere else.
        drop(files.stop_clean().expect("the array stops"));
        lose(folder.path(), &["nvram", "intents"]);
        let mut files = resynchronise(&array, folder.path(), AcceptedLosses::default()).expect("nothing is lost");
        let done = files.resynchronised().expect("they were lost");
        assert_eq!((done.rows, done.data_lost), (0, false), "{name}");
        assert_holds(&mut files, &content, "after an end in order");
        write(&mut files, &sizes, &mut content, &[5], 200);
        drop(files);
        lose(folder.path(), &["nvram"]);
        let error = resynchronise(&array, folder.path(), AcceptedLosses::default()).expect_err("something may be lost");
        assert!(matches!(&error, FilesError::LostForGood { data: true, notes: false, .. }), "{error}");
        assert!(error.to_string().contains("writes that were answered and are on no member"), "{error}");
        assert!(!folder.path().join("nvram").exists(), "nothing is changed by that");
        let mut files = resynchronise(&array, folder.path(), ALL).expect("that is accepted");
        assert!(files.resynchronised().is_some_and(|done| done.data_lost));
        files.wait_ready().expect("it is served");
        files.stop_clean().expect("the array stops");
    }
}

#[test]
fn members_without_marks_are_refused_and_one_copy_is_enough() {
    let array = Array::new(RaidLevel::Raid5, 4);
    let (folder, sizes) = (folder(), array.sizes());
    let mut content = ExpectedContent::new(sizes);
    let mut files = array.create(folder.path());
    write(&mut files, &sizes, &mut content, &[0, 1, 40], 100);
    drop(files);
    lose(folder.path(), &["nvram", "intents"]);
    let marks = (array.member_pages * array.page) as usize + 512 + EVENT_COUNT;
    for dev in 0..4 {
        let path = member(folder.path(), dev);
        let mut bytes = fs::read(&path).expect("a member");
        assert_eq!(&bytes[marks..marks + 8], b"dstgMARK");
        bytes[marks..].fill(if dev == 2 { 0xff } else { 0 });
        if dev < 3 {
            fs::write(&path, &bytes).expect("a member");
        }
    }
    let mut files = resynchronise(&array, folder.path(), ALL).expect("one member has them");
    assert_holds(&mut files, &content, "with the marks of one member");
    drop(files);
    lose(folder.path(), &["nvram", "intents"]);
    for dev in 0..4 {
        let path = member(folder.path(), dev);
        let mut bytes = fs::read(&path).expect("a member");
        bytes[marks + 600] ^= 1;
        bytes[marks + 1024 + 600] ^= 1;
        fs::write(&path, &bytes).expect("a member");
    }
    let error = resynchronise(&array, folder.path(), ALL).expect_err("nobody knows");
    assert!(matches!(&error, FilesError::NoMarks(path) if path.ends_with("nvram")), "{error}");
    assert!(!folder.path().join("nvram").exists() && !folder.path().join("intents").exists());
}

/// The array of [`hostile`] and what it holds: files of members whose NVRAM and intents are lost, one page being marked.
fn bereft(folder: &Path) -> (Array, ExpectedContent) {
    let array = Array::new(RaidLevel::Raid5, 4);
    let (sizes, mut content) = (array.sizes(), ExpectedContent::new(array.sizes()));
    let mut files = array.create(folder);
    write(&mut files, &sizes, &mut content, &[0, 1, 40], 100);
    drop(files);
    lose(folder, &["nvram", "intents"]);
    (array, content)
}

/// Gives the offset of copy 0 of the marks in bytes.
const MARKS: usize = 64 * 512 + 512 + EVENT_COUNT;
/// Sets how long the pages of the event count are, before that.
const EVENT_COUNT: usize = 1024;
const COPY: usize = 1024;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands in place of one member's marks: those of the others are enough, or it says that it is wrong.
    #[test]
    fn whatever_a_member_says_the_others_know_better(member_number in 0..4_u8, at in 0..2 * COPY, bytes in vec(any::<u8>(), 1..600)) {
        let folder = folder();
        let (array, content) = bereft(folder.path());
        let path = member(folder.path(), member_number);
        let mut image = fs::read(&path).expect("a member");
        let end = (MARKS + at + bytes.len()).min(MARKS + 2 * COPY);
        image[MARKS + at..end].copy_from_slice(&bytes[..end - MARKS - at]);
        fs::write(&path, &image).expect("a member");
        let mut files = resynchronise(&array, folder.path(), ALL).expect("three others have them");
        prop_assert!(files.resynchronised().is_some_and(|done| done.marks == 1 || done.marks == 2));
        prop_assert_eq!(files.errors().count(), 0);
        assert_holds(&mut files, &content, "with one that is damaged");
    }

    /// Fields and bits that cannot be, with a checksum that is right, on every member: an error that names file and byte, or
    /// rows that are there.
    #[test]
    fn what_is_sealed_is_refused_by_name_or_holds(field in 8..1024_usize, value in any::<[u8; 8]>()) {
        prop_assume!(!(505..512).contains(&field));
        let folder = folder();
        let (array, _) = bereft(folder.path());
        for number in 0..4 {
            let path = member(folder.path(), number);
            let mut image = fs::read(&path).expect("a member");
            for copy in image[MARKS..MARKS + 2 * COPY].chunks_mut(COPY) {
                let end = (field + 8).min(if field < 508 { 508 } else { COPY });
                copy[field..end].copy_from_slice(&value[..end - field]);
                let crc = crc32c::crc32c_append(crc32c::crc32c(&copy[..508]), &copy[512..]);
                copy[508..512].copy_from_slice(&crc.to_le_bytes());
            }
            fs::write(&path, &image).expect("a member");
        }
        match resynchronise(&array, folder.path(), ALL) {
            Ok(files) => prop_assert!(files.resynchronised().is_some_and(|done| done.rows <= done.of)),
            Err(error @ (FilesError::Field { .. } | FilesError::Setting { .. })) => {
                prop_assert!(error.to_string().contains("dev") && error.to_string().contains("at byte"), "{}", error);
            }
            // Another array's, or of members that are none any more.
            Err(error @ (FilesError::NoMarks(_) | FilesError::Stranger { .. })) => {
                prop_assert!(!error.to_string().is_empty());
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
