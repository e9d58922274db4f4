//! The NVRAM on the cache's device, behind its label, or on a block device of its own, in place of a file.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_cache::ServedTier;
use destage_exec::{
    AcceptedLosses, ExistingFiles, FileExecutor, FilesConfig, FilesError, IoFault, NvramPlace, RecordingOs, SyncPoint,
};
use destage_plan::{Dev, HostOp, HostRequest};
use destage_raid::RaidLevel;
use destage_raid::array::DurabilityMode;
use destage_testkit::{ArraySizes, ExpectedContent, TestRng, data, draw, folder};

use crate::arrays::{Array, assert_holds, cache, member, recording, reopen, serve};
use crate::loop_device::LoopDevice;
use crate::scribe::{self, Found, PAGE, PAGES, Scribe, put, request};

const CACHE: Dev = Dev(4);
const NOTHING: AcceptedLosses = AcceptedLosses { data: false, notes: false };
/// Of caches that have nothing that is on no member.
const DATA: AcceptedLosses = AcceptedLosses { data: true, notes: false };
const ALL: AcceptedLosses = AcceptedLosses { data: true, notes: true };

fn array(name: &str, regime: DurabilityMode) -> Array {
    Array { cache: cache(name), cache_pages: 64, regime, ..Array::new(RaidLevel::Raid5, 4) }
}

/// The array's files with the NVRAM on the cache's device.
fn behind(array: &Array, folder: &Path) -> FilesConfig {
    FilesConfig { nvram: NvramPlace::Behind(CACHE), ..array.files(folder) }
}

fn create(array: &Array, folder: &Path) -> FileExecutor<Box<dyn ServedTier>> {
    FileExecutor::create(array.controller(), behind(array, folder), ExistingFiles::Refuse).expect("a new array")
}

fn open(array: &Array, folder: &Path) -> Result<FileExecutor<Box<dyn ServedTier>>, FilesError> {
    FileExecutor::open(array.controller(), behind(array, folder))
}

fn resynchronise(
    array: &Array,
    config: FilesConfig,
    accepted: AcceptedLosses,
) -> Result<FileExecutor<Box<dyn ServedTier>>, FilesError> {
    FileExecutor::resynchronise(array.controller(), config, accepted)
}

/// Requests of all kinds, and what then must be there.
fn fill(
    files: &mut FileExecutor<Box<dyn ServedTier>>,
    content: &mut ExpectedContent,
    sizes: &ArraySizes,
    seed: u64,
    requests: u64,
) {
    let mut dice = TestRng::new(seed);
    for tag in 0..requests {
        let request = draw(&mut dice, sizes, tag);
        if request.op == HostOp::Discard {
            // What can be read there is another test's.
            continue;
        }
        let bytes = data(&request, sizes.sector);
        content.apply(&request, &bytes);
        assert!(serve(files, request, bytes).ok);
    }
}

/// Returns where the NVRAM begins on the array's cache device: at the next 4096 behind pages, label, which says nothing more, and
/// its event count.
fn begin(array: &Array) -> usize {
    let pages = array.device_pages()[4] * array.page;
    (pages + 512 + 2 * 512).next_multiple_of(4096) as usize
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("a file");
    change(&mut bytes);
    fs::write(path, bytes).expect("a file");
}

/// The journal of the NVRAM's steps alone, in whose place on the device the same is written as in a file of its own.
#[test]
fn a_journal_behind_the_label_is_that_of_a_file_from_byte_to_byte() {
    let folder = folder();
    let config = || FilesConfig { nvram: NvramPlace::Behind(Dev(0)), ..scribe::config(folder.path()) };
    let own = scribe::config(folder.path());
    let label_end = own.file_bytes(0);
    assert_eq!(label_end, PAGE + 512 + 2 * 512, "without an NVRAM behind it");
    let from = label_end.next_multiple_of(4096);
    let mut files =
        FileExecutor::create(Scribe::new(&Arc::default()), config(), ExistingFiles::Refuse).expect("a new array");
    // Round and round.
    for turn in 0..60 {
        for page in 0..PAGES {
            if turn > 0 {
                let freed = request(HostOp::Discard, page);
                assert!(serve(&mut files, freed, Vec::new()).ok);
            }
            put(&mut files, page, (turn + page) as u8);
        }
    }
    let [nvram, _] = files.state_traffic();
    drop(files);
    let dev = member(folder.path(), 0);
    let length = fs::metadata(&dev).expect("a file").len();
    assert_eq!(length, config().file_bytes(0));
    let ring = length - from;
    assert!(nvram.written_bytes > 5 * ring, "{} bytes of a ring of {ring} come round", nvram.written_bytes);
    assert!(!folder.path().join("nvram").exists());
    let found = Arc::new(std::sync::Mutex::new(Found::default()));
    drop(FileExecutor::open(Scribe::new(&found), config()).expect("the array is there"));
    let expected = found.lock().expect("it was told").clone();
    assert_eq!(expected.slots.len(), PAGES as usize);
    // The same bytes, in a file: those behind the journal, up to a whole 4096, are none of it.
    let bytes = fs::read(&dev).expect("a file");
    let journal = &bytes[from as usize..];
    assert_eq!(&journal[..8], b"dstgNVRM");
    fs::write(scribe::nvram(folder.path()), journal).expect("a file");
    let whole = fs::OpenOptions::new().write(true).open(&dev).expect("a file");
    whole.set_len(label_end).expect("a file");
    let error =
        FileExecutor::open(Scribe::new(&found), scribe::config(folder.path())).expect_err("the file is too long");
    let FilesError::Size { expected: wanted, .. } = error else { panic!("{error}") };
    let file = fs::OpenOptions::new().write(true).open(scribe::nvram(folder.path())).expect("a file");
    assert_eq!(wanted.next_multiple_of(4096), ring);
    file.set_len(wanted).expect("a file");
    drop(FileExecutor::open(Scribe::new(&found), scribe::config(folder.path())).expect("the array is there"));
    assert_eq!(*found.lock().expect("it was told"), expected);
}

#[test]
fn what_was_answered_is_there_after_the_process_has_ended() {
    for (name, regime) in [
        ("kdd", DurabilityMode::Flush),
        ("kdd", DurabilityMode::EveryWrite),
        ("leavo", DurabilityMode::Flush),
        ("write-back", DurabilityMode::Flush),
        ("write-back", DurabilityMode::EveryWrite),
        ("write-through", DurabilityMode::Flush),
    ] {
        let (array, folder) = (array(name, regime), folder());
        let (sizes, mut content) = (array.sizes(), ExpectedContent::new(array.sizes()));
        let mut files = create(&array, folder.path());
        assert_eq!(
            fs::metadata(member(folder.path(), 4)).expect("a file").len(),
            behind(&array, folder.path()).file_bytes(4)
        );
        for life in 0..4 {
            fill(&mut files, &mut content, &sizes, life, 80);
            if life == 2 {
                files.stop_clean().expect("it stops");
            } else {
                drop(files);
            }
            let mut config = behind(&array, folder.path());
            // Past the memory of the operating system, which the NVRAM beside it is not.
            config.devices[4].options.direct = life % 2 == 0;
            let opened = reopen(|| FileExecutor::open(array.controller(), config.clone()));
            files = opened.expect("the array is there");
            assert!(files.resynchronised().is_none());
            assert_holds(&mut files, &content, name);
        }
        files.stop_clean().expect("it stops");
    }
}

#[test]
fn a_place_that_is_none_is_refused() {
    let (array, folder) = (array("kdd", DurabilityMode::Flush), folder());
    for (dev, says) in [(Dev(3), "device of the nvram = 3"), (Dev(5), "device of the nvram = 5")] {
        let config = FilesConfig { nvram: NvramPlace::Behind(dev), ..array.files(folder.path()) };
        let error = FileExecutor::create(array.controller(), config, ExistingFiles::Refuse)
            .expect_err("it is no cache's device");
        assert!(error.to_string().contains(says), "{error}");
    }
    let config = FilesConfig { nvram: "/dev/no-such-device".into(), ..array.files(folder.path()) };
    let error =
        FileExecutor::create(array.controller(), config, ExistingFiles::Refuse).expect_err("there is no such device");
    assert!(matches!(error, FilesError::NoSuchDevice(_)), "{error}");
    // Who serves it has the array for itself, and its device stays.
    let mut files = create(&array, folder.path());
    let error = open(&array, folder.path()).expect_err("it is in use");
    assert!(matches!(error, FilesError::InUse(_)), "{error}");
    let error = files.replace(CACHE, &folder.path().join("another")).expect_err("nothing goes on without it");
    assert!(matches!(&error, FilesError::NvramThere(path) if *path == member(folder.path(), 4)), "{error}");
    assert!(files.answers(CACHE) && !folder.path().join("another").exists());
    files.replace(Dev(1), &folder.path().join("new")).expect("a member can be replaced");
    files.stop_clean().expect("it stops");
}

#[test]
fn a_damaged_one_goes_on_and_a_foreign_one_is_refused() {
    let (array, folder) = (array("kdd", DurabilityMode::Flush), folder());
    let mut files = create(&array, folder.path());
    let mut content = ExpectedContent::new(array.sizes());
    fill(&mut files, &mut content, &array.sizes(), 1, 60);
    drop(files);
    // So that records are sealed.
    drop(open(&array, folder.path()).expect("the array is there"));
    let (path, from) = (member(folder.path(), 4), begin(&array));
    let whole = fs::read(&path).expect("a file");
    assert_eq!(&whole[from..from + 8], b"dstgNVRM");
    let second = whole.chunks(512).rposition(|sector| sector.starts_with(b"dstgNVRM")).expect("a second header") * 512;
    assert!(second > from);
    // What is opened moves on: all of its files have to be put back.
    let all = fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("a file").path());
    let all: Vec<_> = all.map(|path| (fs::read(&path).expect("a file"), path)).collect();
    let put_back = || all.iter().for_each(|(bytes, path)| fs::write(path, bytes).expect("a file"));
    for (at, says) in
        [(0, "the magic"), (8, "the version"), (60, "the header's CRC-32C"), (512 + 70, "CRC-32C of a record's table")]
    {
        change(&path, |bytes| bytes[from + at] ^= 1);
        let mut files = open(&array, folder.path()).expect("one bit is not the end");
        let told = files.damaged_nvram().expect("it is told").errors.join(", ");
        assert!(told.contains(says) && told.contains("dev4"), "byte {at}: {told}");
        assert_holds(&mut files, &content, "one bit is not the end");
        drop(files);
        put_back();
    }
    // Of both headers nothing is left.
    change(&path, |bytes| [from + 60, second + 60].iter().for_each(|at| bytes[*at] ^= 1));
    let error = open(&array, folder.path()).expect_err("nobody knows what it held");
    assert!(matches!(&error, FilesError::DamagedNvram { .. }), "{error}");
    assert!(error.to_string().contains("the header's CRC-32C") && error.to_string().contains("dev4"), "{error}");
    let error = resynchronise(&array, behind(&array, folder.path()), NOTHING).expect_err("that is to be accepted");
    assert!(error.to_string().contains("--accept-losses"), "{error}");
    let mut files = resynchronise(&array, behind(&array, folder.path()), DATA).expect("kdd has nothing alone");
    assert!(files.resynchronised().is_some_and(|done| !done.is_behind));
    assert_holds(&mut files, &content, "without the NVRAM");
    drop(files);
    put_back();
    let other = destage_testkit::folder();
    drop(create(&array, other.path()));
    let foreign = fs::read(member(other.path(), 4)).expect("a file");
    change(&path, |bytes| bytes[from..].copy_from_slice(&foreign[from..]));
    let error = open(&array, folder.path()).expect_err("it is another array's");
    assert!(matches!(error, FilesError::Stranger { .. }), "{error}");
    fs::write(&path, &foreign).expect("a file");
    let error = open(&array, folder.path()).expect_err("it is another array's");
    assert!(matches!(error, FilesError::Stranger { .. }), "{error}");
    fs::write(&path, &whole[..whole.len() - 512]).expect("a file");
    let error = open(&array, folder.path()).expect_err("it is too short");
    assert!(error.to_string().contains("the NVRAM behind its label"), "{error}");
    fs::write(&path, &whole).expect("a file");
    let mut files = open(&array, folder.path()).expect("the array is there");
    assert_holds(&mut files, &content, "as it was");
}

#[test]
fn without_its_device_it_goes_on_at_another_place() {
    // Where it goes: a file, another path for the device, an empty file there, the same path.
    for way in 0..5 {
        for name in ["kdd", "leavo", "write-back"] {
            let (array, folder) = (array(name, DurabilityMode::Flush), folder());
            let mut files = create(&array, folder.path());
            let mut content = ExpectedContent::new(array.sizes());
            fill(&mut files, &mut content, &array.sizes(), 1, 60);
            // What write-back has is lost with its device unless it was written back.
            let accepted = if name == "write-back" { NOTHING } else { DATA };
            if name == "write-back" {
                files.stop_clean().expect("it stops");
            } else {
                drop(files);
            }
            let path = member(folder.path(), 4);
            fs::rename(&path, folder.path().join("gone")).expect("a file");
            let error = open(&array, folder.path()).expect_err("its NVRAM is away");
            assert!(matches!(&error, FilesError::NvramAway { path: of, .. } if *of == path), "{error}");
            let mut config = behind(&array, folder.path());
            match way {
                0 => config.nvram = folder.path().join("nvram").into(),
                1 => config.devices[4].path = folder.path().join("another"),
                2 => drop(fs::File::create(&path).expect("a file")),
                3 => {
                    // Cut short when its length was set, and its label written in part.
                    let mut bytes = vec![0; config.file_bytes(4) as usize];
                    let label = (array.device_pages()[4] * array.page) as usize;
                    bytes[label + 16..label + 40].fill(7);
                    fs::write(&path, bytes).expect("a file");
                }
                _ => {}
            }
            let mut files = resynchronise(&array, config.clone(), accepted).expect("it goes on");
            let done = files.resynchronised().expect("the NVRAM was lost");
            assert_eq!(done.lost, [config.nvram_path()], "{name}");
            assert!(done.rows < done.of, "{name}: {} of {} rows", done.rows, done.of);
            files.wait_ready().expect("it is recovered");
            assert_holds(&mut files, &content, name);
            assert_eq!(files.answers(CACHE), way != 0, "a cache's device of its own is not there");
            fill(&mut files, &mut content, &array.sizes(), 2, 60);
            drop(files);
            let mut files = FileExecutor::open(array.controller(), config.clone()).expect("the array is there");
            assert_holds(&mut files, &content, name);
            drop(files);
            // What comes back is not the array's any more.
            fs::rename(folder.path().join("gone"), &config.devices[4].path).expect("a file");
            match FileExecutor::open(array.controller(), config.clone()) {
                // The file is longer, by the NVRAM behind it.
                Ok(mut files) if way == 0 => {
                    assert!(!files.answers(CACHE), "{name}");
                    assert_holds(&mut files, &content, name);
                }
                opened => {
                    let error = opened.expect_err("the array went on without it");
                    assert!(matches!(error, FilesError::NvramAway { .. }), "{error}");
                }
            }
        }
    }
}

#[test]
fn what_only_it_had_is_lost_by_order_alone_and_nothing_is_made_for_it() {
    let (array, folder) = (array("write-back", DurabilityMode::Flush), folder());
    let mut files = create(&array, folder.path());
    let mut content = ExpectedContent::new(array.sizes());
    fill(&mut files, &mut content, &array.sizes(), 1, 60);
    drop(files);
    let path = member(folder.path(), 4);
    fs::remove_file(&path).expect("a file");
    let error = resynchronise(&array, behind(&array, folder.path()), NOTHING).expect_err("something may be lost");
    assert!(matches!(&error, FilesError::LostForGood { data: true, .. }), "{error}");
    assert!(!path.exists(), "nothing is changed by that");
    // Nor is a file overwritten that is somebody's.
    fs::write(&path, vec![7; behind(&array, folder.path()).file_bytes(4) as usize]).expect("a file");
    let error = resynchronise(&array, behind(&array, folder.path()), ALL).expect_err("it holds something");
    assert!(matches!(&error, FilesError::CarriesData { .. }), "{error}");
    fs::remove_file(&path).expect("a file");
    let nowhere = FilesConfig { nvram: NvramPlace::Behind(CACHE), ..array.files(folder.path()) };
    let mut away = nowhere.clone();
    away.devices[4].path = "/dev/no-such-device".into();
    let error = resynchronise(&array, away, ALL).expect_err("it is away");
    assert!(matches!(&error, FilesError::NvramAway { .. }), "{error}");
    let mut files = resynchronise(&array, nowhere, ALL).expect("that is accepted");
    assert!(files.resynchronised().is_some_and(|done| done.data_lost));
    files.wait_ready().expect("it is served");
    files.stop_clean().expect("it stops");
}

/// An NVRAM moves in order from its file to the cache's device and back: what is in neither is resynchronised.
#[test]
fn it_moves_between_two_ends_in_order() {
    let (array, folder) = (array("kdd", DurabilityMode::Flush), folder());
    let mut files = array.create(folder.path());
    let mut content = ExpectedContent::new(array.sizes());
    fill(&mut files, &mut content, &array.sizes(), 1, 60);
    files.stop_clean().expect("it stops");
    for (life, config) in [(2, behind(&array, folder.path())), (3, array.files(folder.path()))] {
        let mut files = resynchronise(&array, config, NOTHING).expect("it goes on");
        assert!(files.resynchronised().is_some());
        files.wait_ready().expect("it is recovered");
        assert!(files.answers(CACHE));
        assert_holds(&mut files, &content, "at another place");
        fill(&mut files, &mut content, &array.sizes(), life, 60);
        files.stop_clean().expect("it stops");
        let _ = fs::remove_file(folder.path().join("nvram"));
    }
}

/// An array without threads that was written to.
fn recorded(array: &Array) -> (RecordingOs, FileExecutor<Box<dyn ServedTier>>, ExpectedContent) {
    let os = recording();
    let config = behind(array, Path::new("/array"));
    let made = FileExecutor::create_on(Arc::new(os.clone()), array.controller(), config, ExistingFiles::Refuse);
    let (mut files, mut content) = (made.expect("a new array"), ExpectedContent::new(array.sizes()));
    for tag in 0..8 {
        let request = HostRequest { tag, op: HostOp::Write, offset: tag * 512, len: 512, fua: true };
        let bytes = data(&request, array.sector);
        content.apply(&request, &bytes);
        assert!(answer(&mut files, request, bytes).expect("it is served"));
    }
    (os, files, content)
}

fn answer(
    files: &mut FileExecutor<Box<dyn ServedTier>>,
    request: HostRequest,
    bytes: Vec<u8>,
) -> Result<bool, FilesError> {
    files.submit(request, bytes)?;
    loop {
        if let Some(completion) = files.poll()? {
            return Ok(completion.ok);
        }
    }
}

fn holds(files: &mut FileExecutor<Box<dyn ServedTier>>, content: &ExpectedContent) {
    let len = 8 * 512;
    files
        .submit(HostRequest { tag: 999, op: HostOp::Read, offset: 0, len, fua: false }, Vec::new())
        .expect("a request");
    loop {
        if let Some(completion) = files.poll().expect("it is served") {
            assert!(completion.ok && completion.bytes[..] == content.bytes()[..len as usize]);
            return;
        }
    }
}

/// Writes until it stops; over what, and that it says nothing more.
fn stops(files: &mut FileExecutor<Box<dyn ServedTier>>, array: &Array) -> FilesError {
    for tag in 100..200 {
        let offset = tag % 40 * 512;
        let request = HostRequest { tag, op: HostOp::Write, offset, len: 512, fua: tag % 3 == 0 };
        if let Err(error) = answer(files, request, data(&request, array.sector)) {
            assert!(matches!(files.poll(), Err(FilesError::Stopped)), "and answers nothing more");
            return error;
        }
    }
    panic!("it does not stop");
}

#[test]
fn what_fails_on_its_device_stops_everything() {
    let path = PathBuf::from("/array/dev4");
    for name in ["kdd", "leavo"] {
        let array = array(name, DurabilityMode::EveryWrite);
        let mut struck = 0;
        // A sync of the NVRAM or of the device failed: what the device shows is not what it has.
        for at in [SyncPoint::Commit, SyncPoint::Fua, SyncPoint::Flush] {
            let (os, mut files, content) = recorded(&array);
            os.fail_sync(at, IoFault::Broken);
            let stopped = stops_or_not(&mut files, &array, &os);
            let Some(error) = stopped else { continue };
            struck += 1;
            assert!(matches!(&error, FilesError::Io { path: of, .. } if *of == path), "{name} {at:?}: {error}");
            drop(files);
            let left = os.end(false);
            let config = || behind(&array, Path::new("/array"));
            let error =
                FileExecutor::open_on(Arc::new(left.clone()), array.controller(), config()).expect_err("it is away");
            assert!(matches!(error, FilesError::NvramAway { .. }), "{name} {at:?}: {error}");
            let again = FileExecutor::resynchronise_on(Arc::new(left), array.controller(), config(), DATA);
            let mut files = again.expect("members have all that was answered");
            holds(&mut files, &content);
        }
        assert!(struck > 0, "{name}: a sync of its device failed");
        // It did not answer, and does again.
        let (os, mut files, _) = recorded(&array);
        os.set_broken(&path, true);
        let error = stops(&mut files, &array);
        assert!(matches!(&error, FilesError::Io { path: of, .. } if *of == path), "{name}: {error}");
        drop(files);
        let left = os.end(false);
        let opened =
            || FileExecutor::open_on(Arc::new(left.clone()), array.controller(), behind(&array, Path::new("/array")));
        let error = opened().expect_err("it does not answer");
        assert!(matches!(error, FilesError::NvramAway { .. }), "{name}: {error}");
        left.set_broken(&path, false);
        let mut files = opened().expect("it answers again");
        assert!(files.resynchronised().is_none() && files.answers(CACHE));
        files.poll().expect("it is served");
    }
}

/// As [`stops`], if the fault that was asked for strikes the NVRAM's device.
fn stops_or_not(files: &mut FileExecutor<Box<dyn ServedTier>>, array: &Array, os: &RecordingOs) -> Option<FilesError> {
    for tag in 100..200 {
        let offset = tag % 40 * 512;
        let request = HostRequest { tag, op: HostOp::Write, offset, len: 512, fua: true };
        match answer(files, request, data(&request, array.sector)) {
            Ok(_) if os.struck().is_some_and(|path| path != Path::new("/array/dev4")) => return None,
            Ok(_) => {}
            Err(error) => return Some(error),
        }
    }
    os.take_fault();
    None
}

/// Fails each sync of the NVRAM's device at a start. The next start does not believe a device either that this
/// one could not make durable.
#[test]
fn a_device_that_cannot_be_made_durable_at_the_start_loses_it() {
    let array = array("kdd", DurabilityMode::Flush);
    let (os, files, content) = recorded(&array);
    drop(files);
    for (at, lost) in [(SyncPoint::OpenDevice, true), (SyncPoint::OpenNvram, false), (SyncPoint::EventCount, false)] {
        let left = os.end(false);
        let config = || behind(&array, Path::new("/array"));
        let opened = || FileExecutor::open_on(Arc::new(left.clone()), array.controller(), config());
        // Members are opened before it.
        let mut tries = 0;
        loop {
            left.fail_sync(at, IoFault::Broken);
            let opened = opened();
            tries += 1;
            match left.struck() {
                Some(path) if path == Path::new("/array/dev4") => {
                    assert!(matches!(opened, Err(FilesError::Io { .. })), "{at:?}");
                    break;
                }
                _ => assert!(tries < 8, "{at:?} never strikes it"),
            }
            drop(opened);
            left.take_fault();
            if at == SyncPoint::OpenDevice {
                return only_the_last(&array, &os, &content);
            }
        }
        match opened() {
            Ok(mut files) if !lost => holds(&mut files, &content),
            Err(FilesError::NvramAway { .. }) if lost => {}
            Ok(_) => panic!("{at:?}: it is opened"),
            Err(error) => panic!("{at:?}: {error}"),
        }
    }
}

/// The sync of the device itself fails, when those of the members were done.
fn only_the_last(array: &Array, os: &RecordingOs, content: &ExpectedContent) {
    let config = || behind(array, Path::new("/array"));
    let mut found = false;
    for operations in 0..200 {
        let left = os.end(false);
        left.fail_after(operations, IoFault::Broken);
        let opened = FileExecutor::open_on(Arc::new(left.clone()), array.controller(), config());
        let struck = left.struck();
        left.take_fault();
        drop(opened);
        if struck.is_none_or(|path| path != Path::new("/array/dev4")) {
            continue;
        }
        match FileExecutor::open_on(Arc::new(left.clone()), array.controller(), config()) {
            Ok(mut files) => holds(&mut files, content),
            Err(FilesError::NvramAway { .. }) => {
                let again = FileExecutor::resynchronise_on(Arc::new(left), array.controller(), config(), DATA);
                holds(&mut again.expect("members have all"), content);
                found = true;
            }
            Err(error) => panic!("after {operations} operations: {error}"),
        }
    }
    assert!(found, "its sync failed some time");
}

#[test]
fn block_devices_hold_it_alone_or_beside_the_cache() {
    let test = "block_devices_hold_it_alone_or_beside_the_cache";
    let (array, folder) = (array("kdd", DurabilityMode::Flush), folder());
    let Some(small) = LoopDevice::new(&folder.path().join("image0"), 4096, 512, test) else { return };
    let Some(device) = LoopDevice::new(&folder.path().join("image1"), 4 << 20, 512, test) else { return };
    for beside in [false, true] {
        let config = |device: &str| {
            let mut config = array.files(folder.path());
            config.intents = folder.path().join(format!("intents{beside}"));
            for (dev, device) in config.devices.iter_mut().enumerate() {
                device.path = folder.path().join(format!("dev{dev}.{beside}"));
                device.options.direct = true;
            }
            if beside {
                (config.nvram, config.devices[4].path) = (NvramPlace::Behind(CACHE), device.into());
            } else {
                config.nvram = device.into();
            }
            config
        };
        let error = FileExecutor::create(array.controller(), config(&small.0), ExistingFiles::Refuse)
            .expect_err("it is too small");
        assert!(matches!(error, FilesError::Size { found: 4096, .. }), "{error}");
        let make = || FileExecutor::create(array.controller(), config(&device.0), ExistingFiles::Refuse);
        let mut raw = fs::OpenOptions::new().write(true).open(&device.0).expect("a device");
        raw.write_all(&[7; 512]).expect("room");
        let error = make().expect_err("it holds something");
        assert!(matches!(error, FilesError::CarriesData { at: 0, .. }), "{error}");
        fs::write(&device.0, vec![0; 4 << 20]).expect("room");
        drop(raw);
        let mut files = make().expect("a new array");
        let mut content = ExpectedContent::new(array.sizes());
        for life in 0..3 {
            fill(&mut files, &mut content, &array.sizes(), life, 80);
            drop(files);
            let opened = reopen(|| FileExecutor::open(array.controller(), config(&device.0)));
            files = opened.expect("the array is there");
            assert_holds(&mut files, &content, "on a block device");
        }
        let error = FileExecutor::open(array.controller(), config(&device.0)).expect_err("it is in use");
        let busy = matches!(&error, FilesError::InUse(_)) || error.to_string().contains("busy");
        assert!(busy, "{error}");
        drop(files);
        // It is emptied, and so lost.
        fs::write(&device.0, vec![0; 4 << 20]).expect("room");
        let mut files = resynchronise(&array, config(&device.0), DATA).expect("it goes on");
        assert!(files.resynchronised().is_some());
        files.wait_ready().expect("it is recovered");
        assert_holds(&mut files, &content, "on an empty one");
        files.stop_clean().expect("it stops");
        // Another array is not made over it.
        let error = make().expect_err("there is one");
        assert!(matches!(error, FilesError::Exists(_)), "{error}");
        fs::write(&device.0, vec![0; 4 << 20]).expect("room");
    }
}
