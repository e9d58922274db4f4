//! Arrays that are made on block devices: what these can do, how large their blocks are, and what is left of what fails.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use destage_cache::ServedTier;
use destage_exec::{ExistingFiles, FileExecutor, FilesConfig, FilesError, NvramPlace, ZeroingWatch};
use destage_plan::{Dev, HostOp};
use destage_raid::RaidLevel;
use destage_testkit::{ExpectedContent, TestRng, data, draw, folder};

use crate::arrays::{Array, assert_holds, cache, member, reopen, serve};
use crate::disks::DiskSystem;

const MEMBERS: u8 = 4;
const CACHE: u8 = MEMBERS;
const OWN: u8 = MEMBERS + 1;
const DISK: u64 = 16 << 20;
/// Lies in pages that nothing looks at before an array is made.
const DIRT: u64 = (1 << 20) + (1 << 19);

fn array() -> Array {
    Array {
        page: 4096,
        sector: 512,
        member_pages: 1024,
        cache: cache("kdd"),
        cache_pages: 64,
        ..Array::new(RaidLevel::Raid5, MEMBERS)
    }
}

/// Makes disks for an array's devices, and one for the NVRAM alone, that hold something.
fn disks(folder: &Path, block: u64) -> DiskSystem {
    let paths: Vec<PathBuf> = (0..=OWN).map(|dev| member(folder, dev)).collect();
    for path in &paths {
        let file = fs::File::create(path).expect("a file");
        file.set_len(DISK).and_then(|()| file.write_all_at(&[7; 4096], DIRT)).expect("room");
    }
    DiskSystem::new(block, paths)
}

/// Returns the array's files, all on disks but the intents.
fn config(array: &Array, folder: &Path, nvram: NvramPlace) -> FilesConfig {
    let mut config = FilesConfig { nvram, ..array.files(folder) };
    for device in &mut config.devices {
        device.options.direct = true;
    }
    config
}

fn quiet() -> ZeroingWatch {
    Box::new(|_| ControlFlow::Continue(()))
}

fn create(
    disks: &DiskSystem,
    array: &Array,
    config: FilesConfig,
    watch: ZeroingWatch,
) -> Result<FileExecutor<Box<dyn ServedTier>>, FilesError> {
    FileExecutor::create_watched_on(Arc::new(disks.clone()), array.controller(), config, ExistingFiles::Refuse, watch)
}

fn places(folder: &Path) -> [NvramPlace; 3] {
    [NvramPlace::Behind(Dev(CACHE)), member(folder, OWN).into(), folder.join("nvram").into()]
}

#[test]
fn disks_read_as_zeros_whatever_they_have_for_that() {
    // (holes, zeros by the kernel, directly)
    for (holes, ranges, direct) in
        [(true, true, true), (false, true, true), (false, false, true), (false, false, false)]
    {
        let what = format!("holes {holes}, zeros by the kernel {ranges}, directly {direct}");
        let (array, folder) = (array(), folder());
        let disks = disks(folder.path(), 512);
        (disks.state().holes, disks.state().ranges) = (holes, ranges);
        let mut config = config(&array, folder.path(), NvramPlace::Behind(Dev(CACHE)));
        config.devices.iter_mut().for_each(|device| device.options.direct = direct);
        let ends: Vec<u64> = config.devices.iter().map(|device| device.pages * array.page).collect();
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        let watch: ZeroingWatch = Box::new(move |progress| {
            let at = (progress.path.to_owned(), progress.done_bytes, progress.all_bytes);
            tell.lock().expect("nobody panics").push(at);
            ControlFlow::Continue(())
        });
        let files = create(&disks, &array, config, watch).unwrap_or_else(|error| panic!("{what}: {error}"));
        drop(files);
        for (dev, end) in (0..).zip(&ends) {
            let bytes = fs::read(member(folder.path(), dev)).expect("a disk");
            assert!(bytes[..*end as usize].iter().all(|byte| *byte == 0), "{what}: device {dev}");
        }
        let beside = fs::read(member(folder.path(), OWN)).expect("a disk");
        assert_eq!(beside[DIRT as usize], 7, "{what}: what is none of its devices is left alone");
        // A piece holds more than one of them.
        let all = ends.iter().sum();
        let done = (1..=ends.len()).map(|count| ends[..count].iter().sum());
        let expected: Vec<_> = (0..).zip(done).map(|(dev, done)| (member(folder.path(), dev), done, all)).collect();
        assert_eq!(*told.lock().expect("nobody panics"), expected, "{what}");
        let state = disks.state();
        // A write of the NVRAM's place may be as long as one of zeros.
        assert!(state.longest <= 1 << 20, "{what}: zeros take {} bytes of memory", state.longest);
        let kernel = if holes || !ranges { 0 } else { ends.len() as u64 + 1 };
        assert_eq!(state.ranges_made, kernel, "{what}: of the devices and the NVRAM's place");
        let writes = !holes && !ranges;
        let directly = if writes && direct { all } else { 0 };
        assert!((directly..directly + (1 << 20)).contains(&state.direct_bytes), "{what}: {}", state.direct_bytes);
        assert_eq!(state.unaligned, 0, "{what}");
    }
}

#[test]
fn what_disks_with_large_blocks_are_asked_is_made_of_them() {
    let (array, folder) = (array(), folder());
    for place in places(folder.path()) {
        let disks = disks(folder.path(), 4096);
        disks.state().holes = true;
        let config = || config(&array, folder.path(), place.clone());
        let mut files = create(&disks, &array, config(), quiet()).expect("a new array");
        let mut content = ExpectedContent::new(array.sizes());
        let mut dice = TestRng::new(3);
        for life in 0..3 {
            for tag in 0..200 {
                let mut request = draw(&mut dice, &array.sizes(), tag);
                if request.op == HostOp::Discard {
                    // What can be read there is another test's, and so it is written anew.
                    assert!(serve(&mut files, request, Vec::new()).ok, "{place:?}");
                    request.op = HostOp::Write;
                }
                let bytes = data(&request, array.sector);
                content.apply(&request, &bytes);
                assert!(serve(&mut files, request, bytes).ok, "{place:?}");
            }
            if life == 1 {
                files.stop_clean().expect("it stops");
            } else {
                drop(files);
            }
            let again = || FileExecutor::open_on(Arc::new(disks.clone()), array.controller(), config());
            files = reopen(again).expect("the array is there");
            assert_holds(&mut files, &content, "in another life");
        }
        assert!((0..=CACHE).all(|dev| files.is_direct(Dev(dev))), "{place:?}");
        assert!(files.errors().next().is_none(), "{place:?}");
        assert_eq!(disks.state().unaligned, 0, "{place:?}");
        drop(files);
        for path in [array.files(folder.path()).intents, folder.path().join("nvram")] {
            drop(fs::remove_file(path));
        }
    }
}

#[test]
fn pages_that_are_not_made_of_blocks_are_refused_and_nothing_is_changed() {
    let folder = folder();
    let small = Array { page: 512, sector: 64, member_pages: 1024, ..Array::new(RaidLevel::Raid5, MEMBERS) };
    let large = Array { cache: cache("none"), ..array() };
    for (array, offset, says) in [
        (small, 0, "logical blocks of 4096 bytes, and the array's pages have 512 bytes (--page)"),
        (large, 512, "logical blocks of 4096 bytes, and its pages are to begin at byte 512 (--data-offset)"),
    ] {
        let disks = disks(folder.path(), 4096);
        disks.state().holes = true;
        let before: Vec<Vec<u8>> = (0..=OWN).map(|dev| fs::read(member(folder.path(), dev)).expect("a disk")).collect();
        let mut asked = array.files(folder.path());
        asked.devices.iter_mut().for_each(|device| device.offset = offset);
        for existing in [ExistingFiles::Refuse, ExistingFiles::Adopt(destage_plan::DevSet::first(MEMBERS.into()))] {
            let config = asked.clone();
            let made = FileExecutor::create_on(Arc::new(disks.clone()), array.controller(), config, existing);
            let error = made.expect_err("it cannot be served directly");
            assert!(matches!(error, FilesError::Blocks { block: 4096, .. }), "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
        let after: Vec<Vec<u8>> = (0..=OWN).map(|dev| fs::read(member(folder.path(), dev)).expect("a disk")).collect();
        assert!(before == after, "{says}");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), usize::from(OWN) + 1, "{says}");
        // Nor does such a disk take the place of one that has smaller blocks.
        disks.state().block = 512;
        let mut files = create(&disks, &array, asked, quiet()).expect("a new array");
        disks.state().block = 4096;
        fs::write(member(folder.path(), OWN), vec![0; DISK as usize]).expect("a disk");
        let error = files.replace(Dev(1), &member(folder.path(), OWN)).expect_err("its blocks are too large");
        assert!(error.to_string().contains("logical blocks of 4096 bytes"), "{error}");
        assert!(files.errors().next().is_none(), "the member stays");
        drop(files);
        for name in ["nvram", "intents"] {
            fs::remove_file(folder.path().join(name)).expect("a file");
        }
    }
}

/// Fails every write of a disk once, and breaks off the watch at each disk: nothing is left, so the array can be made then.
#[test]
fn nothing_is_left_of_an_array_that_was_not_made() {
    let (array, folder) = (array(), folder());
    for place in places(folder.path()) {
        let config = || config(&array, folder.path(), place.clone());
        let disks = disks(folder.path(), 512);
        disks.state().ranges = true;
        let is_empty = |what: &str| {
            let left = fs::read_dir(folder.path()).expect("a folder").count();
            assert_eq!(left, usize::from(OWN) + 1, "{place:?}, {what}");
        };
        for breaks_at in 0..=CACHE {
            let at = member(folder.path(), breaks_at);
            let watch: ZeroingWatch = Box::new(move |progress| {
                let is_there = progress.path == at;
                if is_there { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let error = create(&disks, &array, config(), watch).expect_err("it is called off");
            assert!(matches!(error, FilesError::CalledOff(_)), "{error}");
            is_empty("called off");
        }
        let mut fails = 0;
        let mut files = loop {
            disks.state().fails_after = Some(fails);
            match create(&disks, &array, config(), quiet()) {
                Err(FilesError::Io { .. }) => is_empty("a write failed"),
                Err(error) => panic!("{place:?}, write {fails}: {error}"),
                // The write that fails is one of the service's.
                Ok(files) => break files,
            }
            fails += 1;
        };
        // Zeros, label and event count of each device, and of members what goes behind it, and their marks.
        assert!(fails >= 3 * u64::from(CACHE + 1) + 2 * u64::from(MEMBERS), "{place:?}: {fails}");
        // Nor of one that was served.
        disks.state().fails_after = None;
        let mut dice = TestRng::new(5);
        for tag in 0..50 {
            let request = draw(&mut dice, &array.sizes(), tag);
            let bytes = data(&request, array.sector);
            assert!(serve(&mut files, request, bytes).ok, "{place:?}");
        }
        files.stop_clean().expect("it stops");
        FileExecutor::<Box<dyn ServedTier>>::unmake(&disks, &config(), ExistingFiles::Refuse);
        is_empty("taken away");
        let files = create(&disks, &array, config(), quiet()).expect("nothing is in its way");
        drop(files);
        for name in ["nvram", "intents"] {
            drop(fs::remove_file(folder.path().join(name)));
        }
    }
}
