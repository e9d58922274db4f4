//! Lets members be unable to keep some of their pages, and starts again: their lists tell of these before anybody reads them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_exec::{
    BadBytes, CrashSurvival, FileExecutor, IoBackend, RecordingOs, SuccessionPhase, SuccessorLabelling,
};
use destage_plan::{BadPage, Dev, DevSet, PageFate, PageReport};
use destage_raid::RaidLevel;

use crate::arrays::{Array, member};
use crate::filled_array::{FOLDER, FilledArray};

backend_tests! {
    a_start_knows_what_a_member_cannot_keep,
    a_page_that_can_be_kept_again_leaves_the_list,
    what_takes_a_members_place_has_an_empty_list,
    a_clean_stop_waits_for_lists,
    a_list_costs_no_member_and_takes_what_fits,
    a_damaged_list_is_told_once_and_counts_as_empty,
    a_damaged_list_is_written_anew_at_once,
    a_list_that_nobody_writes_counts_as_damaged,
    a_listed_page_that_nothing_makes_up_is_read_again,
    short_pages_have_no_room_for_a_list,
}

const PAGE: u64 = 1024;
/// Counts the rows that go into a list beside an event count: 1,024 bytes without 512 and 48.
const MOST: u64 = 58;

fn array(io: IoBackend, level: RaidLevel, members: u8) -> Array {
    Array { page: PAGE, sector: 128, ..Array::over(io, level, members) }
}

fn path(dev: u8) -> PathBuf {
    member(Path::new(FOLDER), dev)
}

fn report(dev: u8, page: u64, fate: PageFate) -> PageReport {
    PageReport { page: BadPage { dev: Dev(dev), page }, fate }
}

/// Returns the member and the row of a page of data.
fn place(filled: &FilledArray, page: u64) -> (u8, u64) {
    let geometry = filled.array.geometry();
    let place = geometry.locate(page);
    (geometry.device(place.stripe, place.column).0, geometry.row(place.stripe, place.row_in_chunk).0)
}

/// Makes an array with a page that its member cannot keep.
fn with_bad_page(array: Array, kind: BadBytes) -> (FilledArray, u8, u64) {
    // After a crash recovery would write rows that are open, and a member that fails to is lost.
    let mut filled = FilledArray::new(array).restart();
    let (dev, row) = place(&filled, 3);
    filled.spoil(dev, row, kind);
    assert!(filled.holds());
    filled.rest();
    assert_eq!(filled.reports(), [report(dev, row, PageFate::Unwritable)]);
    (filled, dev, row)
}

fn unwritable(filled: &FilledArray, dev: u8) -> u64 {
    filled.files.engine().controller().array().unwritable(Dev(dev))
}

/// Cuts the power, after which nothing is left that was not durable, and opens it again, with this page of a member as bad as it
/// was.
fn cut(filled: FilledArray, bad: Option<(u8, u64, BadBytes)>) -> FilledArray {
    let FilledArray { array, os, files, content } = filled;
    let (config, os) = (files.config().clone(), os.cut(CrashSurvival::Nothing));
    drop(files);
    if let Some((dev, row, kind)) = bad {
        os.spoil(&path(dev), row * PAGE + 128..row * PAGE + 256, kind);
    }
    let files = FileExecutor::open_on(Arc::new(os.clone()), array.controller(), config).expect("the array is there");
    let mut again = FilledArray { array, os, files, content };
    again.rest();
    again
}

/// Lets a member's bytes be good again, and opens the array after a clean stop.
fn mended(filled: FilledArray, dev: u8) -> FilledArray {
    reopened(filled, |os| os.put(&path(dev), &os.content(&path(dev)).expect("a member")))
}

fn a_start_knows_what_a_member_cannot_keep(io: IoBackend) {
    for (level, members) in [(RaidLevel::Raid1, 3), (RaidLevel::Raid5, 4), (RaidLevel::Raid6, 5)] {
        for kind in [BadBytes::Unreadable, BadBytes::Unwritable] {
            for end in ["a clean stop", "a crash", "a power failure"] {
                let (mut filled, dev, row) = with_bad_page(array(io, level, members), kind);
                // Each end and each start writes event counts beside the list.
                for life in 0..4 {
                    let what = format!("{level} {kind:?}, {end}, life {life}");
                    filled = match end {
                        "a clean stop" => filled.restart(),
                        "a crash" => filled.again(),
                        _ => cut(filled, Some((dev, row, kind))),
                    };
                    assert_eq!(filled.reports(), [report(dev, row, PageFate::Unwritable)], "{what}");
                    assert_eq!((unwritable(&filled, dev), filled.lost()), (1, DevSet::EMPTY), "{what}");
                    assert_eq!(filled.files.damaged_lists(), DevSet::EMPTY, "{what}");
                }
                assert!(filled.holds());
                filled.rest();
                assert_eq!(filled.reports(), [], "the others make it up");
            }
        }
    }
}

fn a_page_that_can_be_kept_again_leaves_the_list(io: IoBackend) {
    let (filled, dev, row) = with_bad_page(array(io, RaidLevel::Raid5, 4), BadBytes::Unwritable);
    let mut filled = mended(filled, dev);
    assert_eq!(filled.reports(), [report(dev, row, PageFate::Corrected)]);
    assert_eq!(unwritable(&filled, dev), 0);
    for power_fails in [false, true] {
        filled = if power_fails { cut(filled, None) } else { filled.restart() };
        assert_eq!(filled.reports(), [], "it is not listed any more");
    }
    assert!(filled.holds());
}

/// Has a file with all that a member holds take its place.
fn copy(filled: &mut FilledArray, dev: u8, new: &Path) {
    filled.files.begin_succession(Dev(dev), new).expect("it is copied");
    while let Some((.., phase)) = filled.files.succession() {
        match phase {
            SuccessionPhase::Copying => {}
            SuccessionPhase::Copied => filled.files.begin_hand_over(),
            SuccessionPhase::Quiet => {
                assert_eq!(filled.files.label_successor().expect("it is labelled"), SuccessorLabelling::Durable);
                filled.files.hand_over().expect("it takes its place");
                continue;
            }
        }
        filled.files.poll().expect("the array is served");
    }
}

fn what_takes_a_members_place_has_an_empty_list(io: IoBackend) {
    // Whether another of its pages is bad in the same life: then its list is written.
    for (what, has_other) in
        [("replaced", true), ("replaced", false), ("copied", true), ("copied", false), ("put back", false)]
    {
        let (mut filled, dev, row) = with_bad_page(array(io, RaidLevel::Raid6, 5), BadBytes::Unreadable);
        let file = if what == "put back" { path(dev) } else { PathBuf::from("/array/new") };
        if what == "copied" {
            copy(&mut filled, dev, &file);
        } else {
            filled.files.replace(Dev(dev), &file).expect("it takes its place");
        }
        filled.rest();
        assert_eq!((filled.lost(), filled.reports()), (DevSet::EMPTY, Vec::new()), "{what}");
        let mut expected = Vec::new();
        if has_other {
            let other = row + 1;
            filled.os.spoil(&file, other * PAGE..other * PAGE + 128, BadBytes::Unreadable);
            assert!(filled.holds());
            filled.rest();
            expected.push(report(dev, other, PageFate::Unwritable));
            assert_eq!(filled.reports(), expected, "{what}");
        }
        assert_eq!(filled.restart().reports(), expected, "{what}");
    }
}

fn a_clean_stop_waits_for_lists(io: IoBackend) {
    for turns in 0..100 {
        let mut filled = FilledArray::new(array(io, RaidLevel::Raid5, 4)).restart();
        let (dev, row) = place(&filled, 3);
        // Chance has devices go on in another order each time.
        (0..turns).for_each(|_| assert!(filled.read(40 * PAGE, PAGE).ok));
        let end = turns % 3;
        for page in row..=row + end {
            filled.spoil(dev, page, BadBytes::Unreadable);
        }
        assert!(filled.holds());
        // Repairs and writes of lists are in flight.
        let mut filled = reopened(filled, |_| {});
        let mut reports = filled.reports();
        reports.sort_by_key(|report| report.page);
        let expected: Vec<_> = (row..=row + end).map(|page| report(dev, page, PageFate::Unwritable)).collect();
        assert_eq!(reports, expected);
    }
}

fn a_list_costs_no_member_and_takes_what_fits(io: IoBackend) {
    let mut filled = FilledArray::new(array(io, RaidLevel::Raid1, 2));
    let most = u64::from(destage_raid::array::MAX_CORRECTED);
    for first in (0..filled.array.member_pages).step_by(16) {
        assert!(most >= 16, "a life may have as many errors");
        for page in first..first + 16 {
            filled.spoil(0, page, BadBytes::Unreadable);
        }
        // One by one: what follows a bad page in its chunk is read from the other copy.
        for page in first..first + 16 {
            assert!(filled.read(page * PAGE, PAGE).ok);
            filled.rest();
        }
        assert_eq!(filled.reports().len(), 16, "those of this life");
        filled = filled.restart();
        let listed = (first + 16).min(MOST);
        let expected: Vec<_> = (0..listed).map(|page| report(0, page, PageFate::Unwritable)).collect();
        let mut reports = filled.reports();
        reports.sort_by_key(|report| report.page);
        assert_eq!(reports, expected);
        assert_eq!((unwritable(&filled, 0), filled.lost()), (listed, DevSet::EMPTY));
    }
}

/// Makes an array whose member has a list that was written twice, of two pages, and stops it in order. Returns what opens it
/// again, the member, and where the copies of its list are.
fn with_two_copies(io: IoBackend) -> (FilledArray, u8, [u64; 2]) {
    let (mut filled, dev, row) = with_bad_page(array(io, RaidLevel::Raid5, 4), BadBytes::Unreadable);
    filled.spoil(dev, row + 1, BadBytes::Unreadable);
    assert!(filled.holds());
    filled.rest();
    assert_eq!(filled.reports().len(), 1);
    let held = filled.os.content(&path(dev)).expect("a member");
    let begins = (0..held.len() - 8).filter(|at| held[*at..*at + 8] == *b"dstgBADP").map(|at| at as u64);
    let [first, second] = begins.collect::<Vec<_>>()[..] else { panic!("there are two copies") };
    assert_eq!((first % PAGE, second), (512, first + PAGE), "each behind an event count");
    (filled, dev, [first, second])
}

/// Stops an array in order, changes its files, and opens it again.
fn reopened(filled: FilledArray, change: impl FnOnce(&RecordingOs)) -> FilledArray {
    let FilledArray { array, os, files, content } = filled;
    let config = files.config().clone();
    drop(files.stop_clean().expect("it stops"));
    change(&os);
    let files = FileExecutor::open_on(Arc::new(os.clone()), array.controller(), config).expect("the array is there");
    let mut again = FilledArray { array, os, files, content };
    again.rest();
    again
}

/// Checks whether a list was damaged, which costs no member, and how many pages are known; the next start finds a whole list.
fn assert_told(mut again: FilledArray, damaged: DevSet, expected: usize, what: &str) {
    assert_eq!((again.files.damaged_lists(), again.reports().len()), (damaged, expected), "{what}");
    assert_eq!(again.lost(), DevSet::EMPTY, "{what}");
    let mut again = again.restart();
    assert_eq!((again.files.damaged_lists(), again.reports().len()), (DevSet::EMPTY, expected), "{what}");
    assert!(again.holds(), "{what}");
}

fn a_damaged_list_is_told_once_and_counts_as_empty(io: IoBackend) {
    // Which copies are damaged, of two of which the second is older.
    for (copies, expected) in [(&[0][..], 1), (&[1], 2), (&[0, 1], 0)] {
        for byte in [0, 9, 12, 20, 33, 40, 44, 50, 511] {
            let (filled, dev, begins) = with_two_copies(io);
            let flip = |os: &RecordingOs| copies.iter().for_each(|copy| os.flip(&path(dev), begins[*copy] + byte, 3));
            let damaged = if copies.len() == 2 { DevSet::one(Dev(dev)) } else { DevSet::EMPTY };
            assert_told(reopened(filled, flip), damaged, expected, &format!("byte {byte} of copies {copies:?}"));
        }
    }
}

fn a_damaged_list_is_written_anew_at_once(io: IoBackend) {
    for turns in 0..40 {
        let (mut filled, dev, begins) = with_two_copies(io);
        (0..turns).for_each(|_| assert!(filled.read(40 * PAGE, PAGE).ok));
        let FilledArray { array, os, files, content } = filled;
        let config = files.config().clone();
        drop(files.stop_clean().expect("it stops"));
        for begin in begins {
            os.flip(&path(dev), begin + 50, 3);
        }
        let files =
            FileExecutor::open_on(Arc::new(os.clone()), array.controller(), config).expect("the array is there");
        // Once for what has happened, and once for what is due.
        assert!(files.hear() && files.hear() && !files.is_idle(), "the list is due");
        let mut again = FilledArray { array, os, files, content };
        again.rest();
        let again = cut(again, None);
        assert_eq!(again.files.damaged_lists(), DevSet::EMPTY, "{turns} turns");
    }
}

/// Shows that every field is checked behind a right checksum.
fn a_list_that_nobody_writes_counts_as_damaged(io: IoBackend) {
    let pages = array(io, RaidLevel::Raid5, 4).member_pages;
    let word = |value: u32| value.to_le_bytes().to_vec();
    let long = |value: u64| value.to_le_bytes().to_vec();
    let forgeries: [(&str, usize, Vec<u8>); 10] = [
        ("another magic", 0, b"dstgGOOD".to_vec()),
        ("another version", 8, word(2)),
        ("another member", 12, word(9)),
        ("another array", 16, long(0)),
        ("a write before the first", 32, long(0)),
        ("more writes than there can be", 32, long(1 << 63)),
        ("more rows than there is room for", 40, word(MOST as u32 + 1)),
        ("a row that does not exist", 56, long(pages)),
        ("a row twice", 40, [word(2), word(0), long(3), long(3)].concat()),
        ("a row behind the last", 64, long(1)),
    ];
    for (what, at, forged) in forgeries {
        let (filled, dev, begins) = with_two_copies(io);
        let forge = |os: &RecordingOs| {
            let mut bytes = os.content(&path(dev)).expect("a member");
            for begin in begins {
                let copy = &mut bytes[begin as usize..][..512];
                copy[at..at + forged.len()].copy_from_slice(&forged);
                let sum = crc32c::crc32c_append(crc32c::crc32c(&copy[..44]), &copy[48..]);
                copy[44..48].copy_from_slice(&sum.to_le_bytes());
            }
            os.put(&path(dev), &bytes);
        };
        let again = reopened(filled, forge);
        assert_told(again, DevSet::one(Dev(dev)), 0, what);
    }
    // A number that belongs into the other place.
    let (filled, dev, begins) = with_two_copies(io);
    let swap = |os: &RecordingOs| {
        let mut bytes = os.content(&path(dev)).expect("a member");
        let (first, second) = bytes[begins[0] as usize..].split_at_mut(PAGE as usize);
        first[..512].swap_with_slice(&mut second[..512]);
        os.put(&path(dev), &bytes);
    };
    let again = reopened(filled, swap);
    assert_told(again, DevSet::one(Dev(dev)), 0, "copies in each other's places");
}

/// Shows that a page is not told as lost which a member can read again.
fn a_listed_page_that_nothing_makes_up_is_read_again(io: IoBackend) {
    let (filled, dev, row) = with_bad_page(array(io, RaidLevel::Raid5, 4), BadBytes::Unreadable);
    let other = (dev + 1) % 4;
    filled.os.set_broken(&path(other), true);
    let mut filled = mended(filled, dev);
    assert_eq!(filled.lost(), DevSet::one(Dev(other)));
    assert_eq!((filled.reports(), unwritable(&filled, dev)), (Vec::new(), 0));
    assert!(filled.holds(), "the member can read it again");
    filled.rest();
    assert_eq!(filled.reports(), []);
    // It is still listed, for a life in which it can be made anew.
    let new = Path::new("/array/new");
    filled.files.replace(Dev(other), new).expect("it takes its place");
    filled.rest();
    let mut filled = filled.restart();
    assert_eq!(filled.reports(), [report(dev, row, PageFate::Corrected)]);
    assert!(filled.holds());
}

fn short_pages_have_no_room_for_a_list(io: IoBackend) {
    let short = Array { page: 512, sector: 64, ..array(io, RaidLevel::Raid5, 4) };
    let (filled, dev, row) = with_bad_page(short, BadBytes::Unreadable);
    let mut filled = filled.restart();
    assert_eq!((filled.reports(), filled.files.damaged_lists()), (Vec::new(), DevSet::EMPTY));
    assert!(filled.holds());
    filled.rest();
    assert_eq!(filled.reports(), [report(dev, row, PageFate::Unwritable)], "the next read finds it");
}
