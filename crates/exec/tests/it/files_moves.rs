//! The NVRAM leaves the cache's device, on which it lies, for its spare place: at errors, hangs and orders.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use destage_cache::ServedTier;
use destage_exec::{
    ExecutorFault, ExistingFiles, FileExecutor, FilesConfig, FilesError, IoBackend, IoFault, NvramPlace, SyncPoint,
};
use destage_raid::RaidLevel;
use destage_raid::array::DurabilityMode;
use destage_testkit::{ExpectedContent, TestRng, data, draw, folder};

use crate::arrays::{Array, assert_holds, cache, member, reopen, serve};
use crate::moving_array::{CACHE, CACHES, EndedMoment, MovingArray, accepted, array, check, home, open, spare};
use crate::probe::{Call, Probe};

/// Counts what was found at moments.
#[derive(Debug, Default)]
struct MomentTally {
    at_home: u64,
    moved: u64,
    made_anew: u64,
    refused: u64,
}

/// Opens what is left at a moment: whatever of the device answers.
fn look(array: &Array, ended: &EndedMoment, tally: &mut MomentTally) {
    let (name, moment, has_moved) = (array.cache.name, &ended.moment, ended.has_moved);
    for mended in [false, true] {
        let mut model = ended.model.clone();
        let left = moment.left.end(false);
        if mended {
            left.set_broken(&home(), false);
        }
        let mut files = match open(&left, array, accepted(name)) {
            Ok(files) => files,
            Err(FilesError::LostForGood { data: true, .. }) if name == "write-back" && !mended && !has_moved => {
                tally.refused += 1;
                continue;
            }
            Err(error) => panic!("{name} before operation {}: {error}", moment.operations),
        };
        match (&files.config().nvram, files.resynchronised()) {
            (NvramPlace::Behind(_), None) if !has_moved => tally.at_home += 1,
            (NvramPlace::Own(_), None) => tally.moved += 1,
            (NvramPlace::Own(_), Some(_)) if !mended && !has_moved => tally.made_anew += 1,
            (place, done) => panic!("before operation {}: {place:?}, {done:?}", moment.operations),
        }
        let is_moved = files.config().nvram == NvramPlace::Own(spare());
        match check(&mut files, &mut model, moment.power) {
            Ok(0) => {}
            // The cache is lost, and what it alone had.
            Ok(_) if name == "write-back" && is_moved => {}
            Err(FilesError::Refused(_)) if name == "write-back" && is_moved => tally.refused += 1,
            Ok(failed) => panic!("{name}: {failed} pages fail before operation {}", moment.operations),
            Err(error) => panic!("{name} before operation {}: {error}", moment.operations),
        }
    }
}

/// Breaks the device before one of its operations, at each of the first so many.
#[test]
fn a_device_that_fails_at_any_operation_costs_nothing_but_itself() {
    for name in CACHES {
        for regime in [DurabilityMode::Flush, DurabilityMode::EveryWrite] {
            let mut moved = 0;
            for begin in 0..40 {
                let mut moving = MovingArray::new(name, regime, begin);
                moving.work(begin).expect("it is served");
                if begin % 3 == 0 {
                    moving.settle().expect("it is served");
                }
                moving.os.set_broken(&home(), true);
                moving.may_fail = name == "write-back";
                moving.work(30).expect("it goes on");
                moving.settle().expect("it comes to rest");
                moved += u64::from(moving.is_moved());
                assert!(moving.files.answers(CACHE) != moving.is_moved());
                let failed = moving.check();
                assert!(failed == 0 || name == "write-back", "{name}: {failed} pages fail");
                if !moving.is_moved() {
                    continue;
                }
                let (_, error) = moving.files.errors().find(|(dev, _)| *dev == CACHE).expect("it says why");
                assert!(matches!(error, FilesError::Io { path, .. } if *path == home()), "{error}");
                // A new device, and the next life.
                moving.files.replace(CACHE, Path::new("/array/new")).expect("it can be replaced");
                moving.may_fail |= failed > 0;
                moving.work(20).expect("it is served");
                moving.settle().expect("it comes to rest");
                assert!(moving.files.answers(CACHE) && moving.files.engine().controller().is_caching());
                moving.check();
            }
            assert!(moved > 35, "{name} {regime:?}: {moved} moves");
        }
    }
}

/// Cuts the move of a device that fails after so many requests, at every operation, by the end of the process and of the power.
fn cut_at(name: &str, regime: DurabilityMode, begin: u64, slip: Option<ExecutorFault>, tally: &mut MomentTally) {
    let mut moving = MovingArray::of(array(name, regime), begin, slip);
    moving.work(begin).expect("it is served");
    let operations = moving.os.operations();
    moving.os.set_broken(&home(), true);
    moving.may_fail = name == "write-back";
    moving.os.keep_ends_before(operations..operations + 1_000);
    let (mut left, mut moved) = (40, None);
    while left > 0 && moved.is_none_or(|at| moving.os.operations() < at + 40) {
        moving.work(1).expect("it goes on");
        moved = moved.or_else(|| moving.is_moved().then(|| moving.os.operations()));
        left -= 1;
    }
    moving.os.keep_ends_before(0..0);
    for ended in std::mem::take(&mut moving.trail) {
        look(&moving.array, &ended, tally);
    }
}

/// Cuts the move, and what comes after it, where the device stays the cache's: a file that was to replace it is refused.
fn cut_kept(name: &str, begin: u64, slip: Option<ExecutorFault>) {
    let mut moving = MovingArray::of(array(name, DurabilityMode::EveryWrite), begin, slip);
    moving.work(begin).expect("it is served");
    moving.settle().expect("it comes to rest");
    let operations = moving.os.operations();
    moving.os.put(Path::new("/array/other"), &[7; 4096]);
    moving.os.keep_ends_before(operations..operations + 150);
    moving.files.replace(CACHE, Path::new("/array/other")).expect_err("it is too short");
    // Some of them precede the move, and others do not.
    moving.keep_moments(false);
    moving.work(12).expect("it is served");
    for ended in std::mem::take(&mut moving.trail) {
        look(&moving.array, &ended, &mut MomentTally::default());
    }
}

#[test]
fn a_cut_at_any_operation_of_the_move_loses_nothing() {
    for name in CACHES {
        for regime in [DurabilityMode::Flush, DurabilityMode::EveryWrite] {
            let mut tally = MomentTally::default();
            for begin in [5, 17, 33] {
                cut_at(name, regime, begin, None, &mut tally);
            }
            cut_kept(name, 20, None);
            println!("{name} {regime:?}: {tally:?}");
            assert!(tally.at_home > 20 && tally.moved > 20, "{name} {regime:?}: {tally:?}");
            assert!(tally.made_anew > 5 || name == "write-back" && tally.refused > 5, "{name} {regime:?}: {tally:?}");
        }
    }
}

/// Syncs of the move, each of which something relies on.
#[test]
fn every_sync_of_the_move_is_missed_when_it_is_left_out() {
    for point in [SyncPoint::MovedNvram, SyncPoint::MovedFolder, SyncPoint::MovedRoster] {
        let slip = Some(ExecutorFault::Missing(point));
        // What write-back notes of pages that are lost, and what kdd has staged.
        let is_found = |(name, begin): &(&str, u64)| {
            let cut = || cut_at(name, DurabilityMode::EveryWrite, *begin, slip, &mut MomentTally::default());
            let cut_kept = || cut_kept(name, *begin, slip);
            catch_unwind(AssertUnwindSafe(cut)).is_err() || catch_unwind(AssertUnwindSafe(cut_kept)).is_err()
        };
        let found = (12..30).flat_map(|begin| [("write-back", begin), ("kdd", begin)]).find(is_found);
        println!("{point:?}: {found:?}");
        assert!(found.is_some(), "nothing finds that {point:?} is left out");
    }
}

/// Has steps of the move fail: the array stops and says all that went wrong; nothing is lost with that.
#[test]
fn a_spare_place_that_cannot_be_had_stops_the_array() {
    for way in 0..5 {
        let mut moving = MovingArray::new("kdd", DurabilityMode::Flush, way);
        moving.work(25).expect("it is served");
        let says = match way {
            0 => {
                moving.os.put(&spare(), &[7; 4096]);
                "spare exists already"
            }
            1 => {
                moving.os.fail_sync(SyncPoint::CreateNvram, IoFault::NoRoom);
                "spare: cannot write it: No space left on device"
            }
            2 => {
                moving.os.fail_sync(SyncPoint::MovedNvram, IoFault::Broken);
                "spare: cannot make it durable"
            }
            3 => {
                moving.os.fail_sync(SyncPoint::MovedFolder, IoFault::Broken);
                "cannot make its names durable"
            }
            _ => {
                moving.os.fail_sync(SyncPoint::MovedRoster, IoFault::Broken);
                "intents: cannot note which files are the devices'"
            }
        };
        moving.os.set_broken(&home(), true);
        let error = moving.work(30).expect_err("there is no other place").to_string();
        assert!(error.contains(says), "{error}");
        assert_eq!(error.contains("dev4"), way != 4, "why the NVRAM had to move: {error}");
        assert!(matches!(moving.files.poll(), Err(FilesError::Stopped)));
        drop(moving.files);
        let left = moving.os.end(false);
        if way == 0 {
            assert_eq!(left.content(&spare()), Some(vec![7; 4096]), "it is somebody's");
        }
        left.set_broken(&home(), false);
        let mut files = open(&left, &moving.array, accepted("kdd")).expect("it answers again");
        assert!(files.resynchronised().is_none(), "{way}: nothing is lost");
        assert_eq!(check(&mut files, &mut moving.model, false).expect("it is served"), 0);
    }
}

/// Cuts a move short: what it has left is never taken for the NVRAM, and the next move writes over it.
#[test]
fn what_an_earlier_move_has_left_is_overwritten() {
    let mut moving = MovingArray::new("kdd", DurabilityMode::Flush, 1);
    moving.work(25).expect("it is served");
    moving.os.fail_sync(SyncPoint::MovedFolder, IoFault::Broken);
    moving.os.set_broken(&home(), true);
    moving.work(30).expect_err("there is no other place");
    let mut model = moving.model.clone();
    let left = moving.os.end(false);
    assert!(left.content(&spare()).is_some_and(|content| content.starts_with(b"dstgNVRM")));
    left.set_broken(&home(), false);
    let mut files = open(&left, &moving.array, accepted("kdd")).expect("it answers again");
    assert_eq!(check(&mut files, &mut model, false).expect("it is served"), 0);
    let mut moving = MovingArray::with(left, moving.array, files, model);
    moving.work(40).expect("it is served");
    moving.os.set_broken(&home(), true);
    moving.work(30).expect("it goes on");
    moving.settle().expect("it comes to rest");
    assert!(moving.is_moved());
    assert_eq!(moving.check(), 0);
    let left = moving.os.end(false);
    let mut files = open(&left, &moving.array, accepted("kdd")).expect("it is there");
    assert!(files.resynchronised().is_none());
    assert_eq!(check(&mut files, &mut moving.model, false).expect("it is served"), 0);
}

/// Replaces the device, or takes it out, while it answers: the NVRAM leaves it first.
#[test]
fn a_device_that_answers_is_replaced_without_the_nvram() {
    for name in CACHES {
        for takes_out in [false, true] {
            let mut moving = MovingArray::new(name, DurabilityMode::Flush, 3);
            moving.work(30).expect("it is served");
            moving.settle().expect("it comes to rest");
            moving.files.drain().expect("it is written back");
            let done = if takes_out {
                moving.files.take_out(CACHE)
            } else {
                moving.files.replace(CACHE, Path::new("/array/new"))
            };
            done.expect("the NVRAM makes way");
            assert!(moving.is_moved() && moving.files.answers(CACHE) != takes_out);
            moving.work(30).expect("it is served");
            moving.settle().expect("it comes to rest");
            assert_eq!(moving.check(), 0, "{name}");
            if takes_out {
                // Its own file, which is longer than it has to be by now.
                moving.files.replace(CACHE, &home()).expect("it can be its own");
                moving.work(30).expect("it is served");
                moving.settle().expect("it comes to rest");
                let mut files = open(&moving.os.end(false), &moving.array, accepted(name)).expect("the array is there");
                assert!(files.answers(CACHE) && files.resynchronised().is_none(), "{name}");
                assert_eq!(check(&mut files, &mut moving.model, false).expect("it is served"), 0, "{name}");
            }
        }
    }
}

/// Names a file that is refused: that changes where the NVRAM lies, and nothing else; the device stays the cache's.
#[test]
fn a_refused_replacement_costs_no_cache() {
    let mut moving = MovingArray::new("write-back", DurabilityMode::Flush, 3);
    moving.work(30).expect("it is served");
    moving.settle().expect("it comes to rest");
    moving.os.put(Path::new("/array/other"), &[7; 4096]);
    let error = moving.files.replace(CACHE, Path::new("/array/other")).expect_err("it is too short");
    assert!(matches!(error, FilesError::Size { .. }), "{error}");
    assert!(moving.is_moved() && moving.files.answers(CACHE));
    moving.work(30).expect("it is served");
    moving.settle().expect("it comes to rest");
    let mut files = open(&moving.os.end(false), &moving.array, accepted("write-back")).expect("the array is there");
    assert!(files.answers(CACHE) && files.resynchronised().is_none());
    assert_eq!(check(&mut files, &mut moving.model, false).expect("it is served"), 0, "what it alone has is there");
}

/// Has the device hang: it is lost at the limit, or kept without the NVRAM where it alone has data.
#[test]
fn a_device_that_hangs_keeps_nobody_waiting_for_the_nvram() {
    for name in CACHES {
        let hangs = Array { device_timeout: Some(Duration::from_millis(10)), ..array(name, DurabilityMode::Flush) };
        let mut moving = MovingArray::of(hangs, 5, None);
        moving.work(30).expect("it is served");
        moving.os.set_hangs(&home(), true);
        moving.may_fail = name == "write-back";
        moving.work(30).expect("it goes on");
        let is_kept = name == "write-back";
        // Without anything that is asked of it the NVRAM stays on a device that is kept.
        assert!(moving.is_moved() || is_kept, "{name}");
        assert_eq!(moving.files.answers(CACHE), is_kept, "{name}");
        if is_kept {
            assert!(moving.files.hanging().contains(CACHE), "{name}: it hangs");
            moving.os.set_hangs(&home(), false);
        }
        moving.settle().expect("it comes to rest");
        assert_eq!(moving.check(), 0, "{name}");
        let left = moving.os.end(false);
        let mut files = open(&left, &moving.array, accepted(name)).expect("the array is there");
        assert_eq!(files.answers(CACHE), is_kept, "{name}");
        assert_eq!(check(&mut files, &mut moving.model, false).expect("it is served"), 0, "{name}");
    }
}

backend_tests! {
    a_device_of_a_real_array_fails,
    a_sync_of_the_nvram_that_hangs_is_left,
}

/// Holds an array in real files, and requests.
fn fill(
    files: &mut FileExecutor<Box<dyn ServedTier>>,
    content: &mut ExpectedContent,
    array: &Array,
    seed: u64,
    requests: u64,
) {
    let (mut dice, sizes) = (TestRng::new(seed), array.sizes());
    for tag in 0..requests {
        let request = draw(&mut dice, &sizes, tag);
        if request.op != destage_plan::HostOp::Discard {
            let bytes = data(&request, sizes.sector);
            content.apply(&request, &bytes);
            assert!(serve(files, request, bytes).ok);
        }
    }
}

fn real(io: IoBackend, name: &str, folder: &Path) -> (Array, FilesConfig) {
    let array = Array { cache: cache(name), cache_pages: 64, ..Array::over(io, RaidLevel::Raid5, 4) };
    let nvram = NvramPlace::Behind(CACHE);
    let config = FilesConfig { nvram, spare_nvram: Some(folder.join("spare")), ..array.files(folder) };
    (array, config)
}

fn a_device_of_a_real_array_fails(io: IoBackend) {
    for name in ["write-through", "kdd"] {
        for breaks_after in [1, 7, 40] {
            let folder = folder();
            let (array, config) = real(io, name, folder.path());
            let mut breaks = config.clone();
            breaks.devices[4].options.breaks_after = Some(breaks_after);
            let mut files =
                FileExecutor::create(array.controller(), breaks, ExistingFiles::Refuse).expect("a new array");
            let mut content = ExpectedContent::new(array.sizes());
            fill(&mut files, &mut content, &array, 1, 150);
            assert!(!files.answers(CACHE), "{name}: it has failed");
            assert_eq!(files.config().nvram, NvramPlace::Own(folder.path().join("spare")));
            assert_holds(&mut files, &content, name);
            files.replace(CACHE, &folder.path().join("new")).expect("it can be replaced");
            fill(&mut files, &mut content, &array, 2, 80);
            drop(files);
            let mut later = config.clone();
            later.devices[4].path = folder.path().join("new");
            let opened = reopen(|| FileExecutor::open(array.controller(), later.clone()));
            let mut files = opened.expect("the array is there, though the configuration names the device");
            assert!(files.answers(CACHE));
            assert_holds(&mut files, &content, name);
        }
    }
}

/// Lets the thread that hangs go on, which changes nothing.
fn a_sync_of_the_nvram_that_hangs_is_left(io: IoBackend) {
    for call in [Call::Write, Call::Sync(SyncPoint::Ahead)] {
        let (os, folder) = (Probe::default(), folder());
        let (array, config) = real(io, "kdd", folder.path());
        let config = FilesConfig { device_timeout: Some(Duration::from_millis(250)), ..config };
        let made =
            FileExecutor::create_on(Arc::new(os.clone()), array.controller(), config.clone(), ExistingFiles::Refuse);
        let (mut files, mut content) = (made.expect("a new array"), ExpectedContent::new(array.sizes()));
        fill(&mut files, &mut content, &array, 1, 60);
        let path = member(folder.path(), 4);
        os.hang(&path, call);
        fill(&mut files, &mut content, &array, 2, 100);
        assert_eq!(files.config().nvram, NvramPlace::Own(folder.path().join("spare")), "{call:?}");
        let error = files.replace(CACHE, &path).expect_err("something may still be written there");
        assert!(matches!(error, FilesError::AtWork(_)), "{error}");
        os.release();
        fill(&mut files, &mut content, &array, 3, 60);
        assert_holds(&mut files, &content, "when it has gone on");
        drop(files);
        let opened = reopen(|| FileExecutor::open_on(Arc::new(os.clone()), array.controller(), config.clone()));
        let mut files = opened.expect("the array is there");
        assert!(files.resynchronised().is_none());
        assert_holds(&mut files, &content, "in the next life");
    }
}
