//! Tries what may take a device's place, and what becomes of an array when it cannot.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_cache::ServedTier;
use destage_exec::{ExistingFiles, FileExecutor, FilesError, IoBackend, IoFault, RecordingOs, RequestCompletion};
use destage_plan::{Dev, DevSet, HostOp, HostRequest};
use destage_raid::RaidLevel;
use destage_testkit::{ExpectedContent, data, folder};

use crate::arrays::{Array, assert_holds, member, recording};

backend_tests! {
    a_file_that_holds_something_takes_no_devices_place,
    a_file_that_another_serves_takes_no_devices_place,
}

/// Writes all of an array.
fn fill(files: &mut FileExecutor<Box<dyn ServedTier>>, array: &Array) -> ExpectedContent {
    let sizes = array.sizes();
    let mut content = ExpectedContent::new(sizes);
    let len = sizes.stripe * sizes.page;
    for (tag, offset) in (0..sizes.pages * sizes.page).step_by(len as usize).enumerate() {
        let request = HostRequest { tag: tag as u64, op: HostOp::Write, offset, len, fua: false };
        let bytes = data(&request, sizes.sector);
        content.apply(&request, &bytes);
        assert!(answer(files, request, bytes).ok);
    }
    content
}

/// Serves one request; of a recording time goes on by what is done alone.
fn answer(files: &mut FileExecutor<Box<dyn ServedTier>>, request: HostRequest, data: Vec<u8>) -> RequestCompletion {
    files.submit(request, data).expect("a request in range");
    loop {
        if let Some(completion) = files.poll().expect("the array is served") {
            return completion;
        }
    }
}

/// Checks that a refusal costs no member, though whatever is there may be overwritten.
fn a_file_that_another_serves_takes_no_devices_place(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let (ours, theirs) = (folder(), folder());
    let _others = array.create(theirs.path());
    let mut files = array.create(ours.path());
    let content = fill(&mut files, &array);
    let error = files.replace_over(Dev(2), &member(theirs.path(), 2)).expect_err("it is in use");
    assert!(matches!(error, FilesError::InUse(_)), "{error}");
    assert!(files.answers(Dev(2)), "the member is still the array's");
    assert_holds(&mut files, &content, "after a refusal");
}

/// Checks that an array in a recording holds what it must.
fn assert_recorded(files: &mut FileExecutor<Box<dyn ServedTier>>, content: &ExpectedContent, when: &str) {
    let len = files.engine().shape().bytes();
    let read = answer(files, HostRequest { tag: u64::MAX, op: HostOp::Read, offset: 0, len, fua: false }, Vec::new());
    assert!(read.ok && read.bytes[..] == *content.bytes(), "{when}");
}

fn a_file_that_holds_something_takes_no_devices_place(io: IoBackend) {
    let array = Array::over(io, RaidLevel::Raid5, 4);
    let (ours, theirs) = (folder(), folder());
    drop(array.create(theirs.path()).stop_clean().expect("the array stops"));
    let mut files = array.create(ours.path());
    let content = fill(&mut files, &array);
    let bytes = fs::metadata(member(ours.path(), 2)).expect("a member").len() as usize;
    let file = |name: &str, content: Vec<u8>| {
        let path = ours.path().join(name);
        fs::write(&path, content).expect("a file");
        path
    };
    let mut one_byte = vec![0; bytes];
    one_byte[bytes / 2] = 1;
    let ours_copied = fs::read(member(ours.path(), 1)).expect("a member");
    let refused = [
        (file("user", b"precious".iter().copied().cycle().take(bytes).collect()), "holds data at byte 0; if nobody"),
        (file("sparse", one_byte), "holds data at byte 18"),
        (member(theirs.path(), 2), "is device 2 of another array; in its place must be a file that holds nothing"),
        (file("copy", ours_copied), "is member 1 of this array; in its place must be a file that holds nothing"),
    ];
    for (path, part) in &refused {
        let before = fs::read(path).expect("a file");
        let error = files.replace(Dev(2), path).expect_err("it holds something").to_string();
        assert!(error.starts_with(&path.display().to_string()) && error.contains(part), "{error}");
        assert!(fs::read(path).expect("a file") == before, "{part}: it holds what it held");
        assert!(files.answers(Dev(2)), "{part}: the member is still the array's");
    }
    assert_holds(&mut files, &content, "after refusals");
    // In a large file data may lie anywhere.
    let large = Array { member_pages: 16_384, ..array };
    let wide = folder();
    let mut apart = large.create(wide.path());
    let path = wide.path().join("user");
    let mut bytes_of_user = fs::read(member(wide.path(), 0)).expect("a member");
    bytes_of_user.fill(0);
    bytes_of_user[3 << 20..4 << 20].fill(b'x');
    fs::write(&path, bytes_of_user).expect("a file");
    let error = apart.replace(Dev(2), &path).expect_err("it holds something").to_string();
    assert!(error.contains("holds data at byte 3"), "{error}");
    // What was this member of the array before may be, and what nobody needs.
    let zeros = file("zeros", vec![0; bytes]);
    let mut before = member(ours.path(), 2);
    for path in [zeros, before.clone(), refused[0].0.clone(), before.clone()] {
        if path == refused[0].0 {
            files.replace_over(Dev(2), &path).expect("it is given up");
        } else {
            files.replace(Dev(2), &path).expect("nobody needs it");
        }
        files.settle().expect("it is filled");
        before = path;
    }
    assert_eq!(files.engine().controller().array().degraded(), DevSet::EMPTY);
    assert_eq!(files.config().devices[2].path, before);
    assert_holds(&mut files, &content, "with another member");
}

/// An array in a recording that is full, and what it holds.
fn recorded(array: &Array) -> (RecordingOs, FileExecutor<Box<dyn ServedTier>>, ExpectedContent) {
    let os = recording();
    let files = FileExecutor::create_on(
        Arc::new(os.clone()),
        array.controller(),
        array.files(Path::new("/array")),
        ExistingFiles::Refuse,
    );
    let mut files = files.expect("a new array");
    let content = fill(&mut files, array);
    (os, files, content)
}

/// Lets an array come to rest, or to a fault of another file than this one; time goes on by what is done alone.
fn rest(os: &RecordingOs, files: &mut FileExecutor<Box<dyn ServedTier>>, new: &Path) -> Result<(), FilesError> {
    while !files.is_idle() || files.engine().controller().array().is_rebuilding() {
        if os.struck().is_some_and(|struck| struck != new) {
            break;
        }
        files.poll()?;
    }
    Ok(())
}

#[test]
fn without_room_for_all_of_it_nothing_is_given_up() {
    let array = Array::new(RaidLevel::Raid5, 4);
    let (os, mut files, content) = recorded(&array);
    let new = Path::new("/array/new");
    rest(&os, &mut files, new).expect("it comes to rest");
    let mut refused = 0;
    loop {
        os.fail_after(refused, IoFault::NoRoom);
        let replaced = files.replace(Dev(1), new);
        // From here on the old file is none of the array's.
        if !files.answers(Dev(1)) || os.struck().is_none_or(|struck| struck != new) {
            break;
        }
        let error = replaced.expect_err("there is no room");
        assert!(matches!(&error, FilesError::Io { path, .. } if path == new), "{error}");
        assert!(os.content(new).is_none_or(|content| content.is_empty()), "the room is given back");
        refused += 1;
    }
    assert!(refused > 2, "room is looked for first");
    drop(files);
    os.take_fault();
    let files = FileExecutor::open_on(Arc::new(os.clone()), array.controller(), array.files(Path::new("/array")));
    assert_recorded(&mut files.expect("the array is there"), &content, "in the end");
}

#[test]
fn a_device_without_room_to_be_filled_fails_alone() {
    let array = Array { member_pages: 256, ..Array::new(RaidLevel::Raid5, 4) };
    let new = Path::new("/array/new");
    let mut alone = 0;
    for operations in 0.. {
        let (os, mut files, content) = recorded(&array);
        files.replace(Dev(1), new).expect("there is room");
        os.fail_after(operations, IoFault::NoRoom);
        let settled = rest(&os, &mut files, new);
        if os.take_fault() {
            assert!(operations > 8, "it is filled by more operations than these");
            break;
        }
        if os.struck().is_some_and(|struck| struck != new) {
            // Of files that hold what is nowhere else.
            continue;
        }
        if let Err(error) = settled {
            // Once it is filled it is a member as the others are, which costs none over that.
            assert!(files.engine().controller().array().degraded().is_empty(), "{error}");
            continue;
        }
        alone += 1;
        assert!(!files.answers(Dev(1)));
        let why = files.errors().map(|(dev, error)| (dev, error.to_string())).next().expect("why it does not answer");
        assert!(why.0 == Dev(1) && why.1.contains("No space left"), "{why:?}");
        assert_recorded(&mut files, &content, "without the one that had no room");
        drop(files.stop_clean().expect("the array stops"));
        let mut config = array.files(Path::new("/array"));
        config.devices[1].path = new.to_owned();
        let files = FileExecutor::open_on(Arc::new(os.clone()), array.controller(), config);
        let mut files = files.expect("the next start does without it");
        assert!(!files.answers(Dev(1)));
        files.replace(Dev(1), new).expect("there is room again");
        rest(&os, &mut files, new).expect("it is filled");
        assert_recorded(&mut files, &content, "with room");
    }
    assert!(alone > 0, "some of the operations are its own");
}

/// Returns the members that are lost or not filled by the newest marks on any member, durable or not.
fn unfilled_by_marks(os: &RecordingOs, paths: &[PathBuf]) -> DevSet {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let mut newest = (0, 0);
    for content in paths.iter().filter_map(|path| os.content(path)) {
        for copy in content.chunks(512).filter(|copy| copy.starts_with(b"dstgMARK")) {
            newest = newest.max((number(&copy[32..40]), number(&copy[64..72])));
        }
    }
    DevSet::from_bits(newest.1)
}

#[test]
fn members_that_marks_may_call_unfilled_are_told_before() {
    let array = Array { member_pages: 256, ..Array::new(RaidLevel::Raid5, 4) };
    let (os, mut files, _) = recorded(&array);
    let (new, mut told_first, mut found) = (Path::new("/array/new"), 0, 0);
    rest(&os, &mut files, new).expect("it comes to rest");
    files.replace(Dev(1), new).expect("there is room");
    let paths: Vec<PathBuf> = files.config().devices[..4].iter().map(|device| device.path.clone()).collect();
    while !files.is_idle() || files.engine().controller().array().is_rebuilding() {
        files.poll().expect("it is served");
        // While they are being written a start may find them, or those before.
        let (marked, told) = (unfilled_by_marks(&os, &paths), files.marked_unfilled());
        assert!(told.contains_all(marked), "{marked:?} by the marks, of which {told:?} are told");
        found += u32::from(!marked.is_empty());
        told_first += u32::from(marked.is_empty() && !told.is_empty());
    }
    assert!(found > 0 && told_first > 0, "it is told before ({told_first}) it is found ({found})");
    assert!(unfilled_by_marks(&os, &paths).is_empty() && files.marked_unfilled().is_empty());
}
