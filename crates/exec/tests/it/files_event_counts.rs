//! Puts older copies of an array's own files back: they are named, and nothing of them is believed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use destage_cache::ServedTier;
use destage_exec::{AcceptedLosses, FileExecutor, FilesError};
use destage_plan::{Dev, HostOp, HostRequest, Refusal};
use destage_raid::RaidLevel;
use destage_testkit::{ArraySizes, ExpectedContent, data, folder};

use crate::arrays::{Array, assert_holds, cache, member, reopen, serve};

type FileContents = BTreeMap<String, Vec<u8>>;

fn contents(folder: &Path) -> FileContents {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| (entry.file_name().into_string().expect("a name"), fs::read(entry.path()).expect("a file")))
        .collect()
}

fn put(folder: &Path, contents: &FileContents, names: &[&str]) {
    for name in names {
        fs::write(folder.join(name), &contents[*name]).expect("a file");
    }
}

fn write(files: &mut FileExecutor<Box<dyn ServedTier>>, sizes: &ArraySizes, content: &mut ExpectedContent, tag: u64) {
    for page in 0..20 {
        let offset = page * 7 % sizes.pages * sizes.page;
        let request = HostRequest { tag: tag + page, op: HostOp::Write, offset, len: sizes.page, fua: true };
        let bytes = data(&request, sizes.sector);
        content.apply(&request, &bytes);
        assert!(serve(files, request, bytes).ok);
    }
}

/// Holds what an array's files held at one shutdown, and at the next.
struct TwoSnapshots {
    array: Array,
    folder: tempfile::TempDir,
    content: ExpectedContent,
    old: FileContents,
    new: FileContents,
}

impl TwoSnapshots {
    fn of(cache_name: &str, in_order: bool) -> Self {
        Self::around(cache_name, in_order, |_, _| {})
    }

    /// Takes them before and after a service in which that happens.
    fn around(
        cache_name: &str,
        in_order: bool,
        happens: impl FnOnce(&mut FileExecutor<Box<dyn ServedTier>>, &Path),
    ) -> Self {
        let array = Array { cache: cache(cache_name), ..Array::new(RaidLevel::Raid5, 4) };
        let (folder, sizes) = (folder(), array.sizes());
        let mut content = ExpectedContent::new(sizes);
        let mut files = array.create(folder.path());
        write(&mut files, &sizes, &mut content, 100);
        drop(files.stop_clean().expect("the array stops"));
        let old = contents(folder.path());
        let mut files = array.open(folder.path());
        happens(&mut files, folder.path());
        write(&mut files, &sizes, &mut content, 200);
        if in_order {
            drop(files.stop_clean().expect("the array stops"));
        } else {
            drop(files);
            // Who has the lock has nothing to do any more.
            drop(array.open(folder.path()));
        }
        let new = contents(folder.path());
        Self { array, folder, content, old, new }
    }

    /// Opens it with older copies of these files.
    fn open_with(&self, names: &[&str]) -> Result<FileExecutor<Box<dyn ServedTier>>, FilesError> {
        let all: Vec<&str> = self.new.keys().map(String::as_str).collect();
        put(self.folder.path(), &self.new, &all);
        put(self.folder.path(), &self.old, names);
        reopen(|| FileExecutor::open(self.array.controller(), self.array.files(self.folder.path())))
    }

    fn resynchronise(&self, data: bool) -> Result<FileExecutor<Box<dyn ServedTier>>, FilesError> {
        self.resynchronise_with(AcceptedLosses { data, notes: false })
    }

    fn resynchronise_with(&self, accepted: AcceptedLosses) -> Result<FileExecutor<Box<dyn ServedTier>>, FilesError> {
        reopen(|| FileExecutor::resynchronise(self.array.controller(), self.array.files(self.folder.path()), accepted))
    }

    /// Checks that these are named as older than those.
    fn assert_behind(&self, with: &[&str], older: &[&str], newer: &[&str]) {
        let error = self.open_with(with).err().unwrap_or_else(|| panic!("{with:?} are believed"));
        let FilesError::Behind { older: found, newer: than, .. } = &error else { panic!("{with:?}: {error}") };
        let paths = |names: &[&str]| names.iter().map(|name| self.folder.path().join(name)).collect::<Vec<_>>();
        assert_eq!((found, than), (&paths(older), &paths(newer)), "{with:?}");
        let text = error.to_string();
        assert!(text.contains("an older copy was put back"), "{text}");
    }
}

const CACHES: [&str; 5] = ["none", "write-through", "write-back", "kdd", "wow"];

#[test]
fn an_older_file_is_named_and_refused_or_counts_as_not_there() {
    for in_order in [true, false] {
        for name in CACHES {
            let array_files = TwoSnapshots::of(name, in_order);
            let has_device = array_files.new.contains_key("dev4");
            let devices: Vec<String> = (0..4 + u8::from(has_device)).map(|dev| format!("dev{dev}")).collect();
            let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
            let with_intents: Vec<&str> = ["intents"].into_iter().chain(devices.iter().copied()).collect();
            array_files.assert_behind(&["nvram"], &["nvram"], &with_intents);
            array_files.assert_behind(&["nvram", "intents"], &["nvram", "intents"], &devices);
            let nvram: Vec<&str> = ["nvram"].into_iter().chain(devices.iter().copied()).collect();
            array_files.assert_behind(&["intents"], &["intents"], &nvram);
            // All but one.
            let others: Vec<&str> = with_intents.iter().copied().filter(|name| *name != "dev1").collect();
            let older: Vec<&str> = ["nvram"].into_iter().chain(others.iter().copied()).collect();
            array_files.assert_behind(&older, &older, &["dev1"]);
            let mut files = array_files.open_with(&["dev2"]).expect("the level can do without a member");
            let errors: Vec<_> = files.errors().map(|(dev, error)| (dev, error.to_string())).collect();
            assert!(
                matches!(&errors[..], [(Dev(2), text)] if text.contains("an older copy of it was put back")),
                "{errors:?}"
            );
            // Without a member nobody knows what rows are that a crash has torn.
            match files.wait_ready() {
                Err(FilesError::Refused(why)) if !in_order => {
                    assert!(matches!(*why, Refusal::WriteHole { .. }), "{why:?}");
                }
                ready => {
                    ready.expect("it is served");
                    assert_holds(&mut files, &array_files.content, name);
                }
            }
        }
    }
}

#[test]
fn what_an_older_nvram_should_know_can_be_given_up() {
    for (name, names) in [("none", &["nvram"][..]), ("write-through", &["intents"]), ("kdd", &["nvram", "intents"])] {
        let array_files = TwoSnapshots::of(name, true);
        drop(array_files.open_with(names).expect_err("it is refused"));
        // After an end in order nothing is nowhere else.
        let mut files = array_files.resynchronise(false).expect("the members have all");
        let lost = files.resynchronised().expect("it is told").lost.clone();
        assert_eq!(lost, names.iter().map(|name| array_files.folder.path().join(name)).collect::<Vec<_>>());
        assert_holds(&mut files, &array_files.content, name);
    }
    let array_files = TwoSnapshots::of("wow", false);
    drop(array_files.open_with(&["nvram"]).expect_err("it is refused"));
    let error = array_files.resynchronise(false).expect_err("it may hold what is nowhere else");
    assert!(matches!(error, FilesError::Behind { .. }), "{error}");
    assert!(array_files.resynchronise(true).is_ok());
    // Nothing is made anew while a member is behind as well.
    drop(array_files.open_with(&["nvram", "dev1"]).expect_err("it is refused"));
    let before = contents(array_files.folder.path());
    let error = array_files.resynchronise(true).expect_err("there is no telling which is right");
    assert!(matches!(error, FilesError::Behind { members: true, .. }), "{error}");
    let after = contents(array_files.folder.path());
    for name in ["nvram", "intents"] {
        assert!(after[name] == before[name], "{name} is made anew");
    }
}

/// Checks what older intents do not know: the file that took a member's place since.
#[test]
fn older_copies_of_all_but_a_member_that_was_replaced_are_refused() {
    let snapshots = TwoSnapshots::around("none", true, |files, folder| {
        files.replace(Dev(2), &member(folder, 2)).expect("it is made anew");
        files.settle().expect("it is filled");
    });
    let others = ["nvram", "intents", "dev0", "dev1", "dev3"];
    snapshots.assert_behind(&others, &others, &["dev2"]);
    let mut files = snapshots.open_with(&[]).expect("they are of one time");
    assert_holds(&mut files, &snapshots.content, "with the newer ones");
}

/// Checks that a member which is older than the others, and no copy, is told from one.
#[test]
fn a_member_that_was_taken_out_does_not_stand_in_the_way_of_accepted_losses() {
    let snapshots = TwoSnapshots::around("none", true, |files, _| {
        files.take_out(Dev(2)).expect("the level can do without it");
    });
    let error = snapshots.open_with(&["nvram"]).expect_err("the NVRAM is older");
    assert!(matches!(error, FilesError::Behind { members: false, .. }), "{error}");
    let before = contents(snapshots.folder.path());
    let error = snapshots.resynchronise(true).expect_err("the newer NVRAM may tell what the member held");
    assert!(matches!(error, FilesError::Behind { .. }), "{error}");
    assert!(contents(snapshots.folder.path())["nvram"] == before["nvram"], "it is made anew");
    let all = AcceptedLosses { data: true, notes: true };
    let mut files = snapshots.resynchronise_with(all).expect("it goes on");
    assert!(!files.answers(Dev(2)));
    assert_holds(&mut files, &snapshots.content, "without the member");
}

#[test]
fn a_damaged_event_count_of_a_member_costs_nothing_or_is_told() {
    let array = Array { page: 4096, sector: 512, ..Array::new(RaidLevel::Raid5, 4) };
    let (folder, sizes) = (folder(), array.sizes());
    let mut content = ExpectedContent::new(sizes);
    let mut files = array.create(folder.path());
    write(&mut files, &sizes, &mut content, 100);
    drop(files.stop_clean().expect("the array stops"));
    let path = member(folder.path(), 2);
    // One of the two places at a time, and both.
    for damaged in [&[0][..], &[1], &[0, 1]] {
        let mut bytes = fs::read(&path).expect("a member");
        let places = bytes.windows(8).enumerate().filter(|(_, bytes)| *bytes == b"dstgEVNT");
        let places: Vec<_> = places.map(|(at, _)| at).collect();
        assert_eq!(places.len(), 2);
        for place in damaged {
            bytes[places[*place] + 40] ^= 4;
        }
        fs::write(&path, bytes).expect("a member");
        let mut files = array.open(folder.path());
        let errors: Vec<_> = files.errors().map(|(dev, error)| (dev, error.to_string())).collect();
        if damaged.len() < 2 {
            assert!(errors.is_empty(), "{errors:?}");
        } else {
            assert!(matches!(&errors[..], [(Dev(2), text)] if text.contains("is damaged")), "{errors:?}");
        }
        assert_holds(&mut files, &content, "with a damaged count");
        drop(files.stop_clean().expect("the array stops"));
    }
}
