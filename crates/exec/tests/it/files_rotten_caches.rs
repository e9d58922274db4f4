//! Lets pages of a cache rot, or be such as cannot be read: no wrong byte is served, no parity is wrong, and what else has
//! the data serves it.

use std::path::Path;

use destage_exec::{BadBytes, IoBackend};
use destage_plan::{Dev, HostOp, HostRequest, PageFate};
use destage_raid::RaidLevel;

use crate::arrays::{Array, cache, member};
use crate::filled_array::{FOLDER, FilledArray};

backend_tests! {
    flipped_bits_of_a_cache_cost_nothing,
    what_rots_while_an_array_is_stopped_costs_nothing,
    pages_of_a_cache_that_cannot_be_read_cost_nothing,
    more_pages_than_are_allowed_cost_the_cache,
    a_dirty_page_that_rots_fails_until_it_is_written,
    a_dirty_page_that_rots_stays_lost_over_a_restart,
    a_dirty_page_that_can_be_read_again_is_written_back,
}

const CACHES: [&str; 5] = ["write-around", "write-through", "leavo", "kdd", "write-back"];
const MEMBERS: u8 = 4;
/// Names the cache's device.
const DEV: u8 = MEMBERS;
/// Counts the pages that rot, fewer than a device may have.
const ROTTEN: usize = 16;

/// Makes an array behind a cache that holds much of it, and of which some pages were changed since, a sector each.
fn cached(io: IoBackend, name: &str) -> FilledArray {
    let cached =
        Array { cache: cache(name), cache_pages: 160, hurries: false, ..Array::over(io, RaidLevel::Raid5, MEMBERS) };
    let mut filled = FilledArray::new(cached);
    filled.files.drain().expect("it is written back");
    assert!(filled.holds(), "{name}: and the cache has some of it");
    if name != "write-back" {
        change(&mut filled);
    }
    filled
}

fn change(filled: &mut FilledArray) {
    let (sector, sectors) = (filled.array.sector, filled.content.bytes().len() as u64 / filled.array.sector);
    for at in (0..sectors).step_by(37) {
        assert!(filled.write(at * sector, sector).ok);
    }
}

/// Returns some of the pages of the cache that were written.
fn written_pages(filled: &FilledArray) -> Vec<u64> {
    let checksums = filled.files.engine().controller().checksums().expect("it has a device");
    assert_eq!(checksums.dev(), Dev(DEV));
    let pages: Vec<u64> = (0..filled.array.cache_pages).filter(|page| checksums.get(*page).is_some()).collect();
    assert!(pages.len() >= ROTTEN, "{} of {} pages were written", pages.len(), filled.array.cache_pages);
    pages.iter().copied().step_by(pages.len().div_ceil(ROTTEN)).collect()
}

fn rot(filled: &FilledArray, pages: &[u64]) {
    for (page, bit) in pages.iter().zip(0..) {
        let offset = page * filled.array.page + u64::from(bit) * 29 % filled.array.page;
        filled.os.flip(&member(Path::new(FOLDER), DEV), offset, bit);
    }
}

/// Counts the reports of each fate, and returns that of dropped pages; no other is there.
fn dropped(filled: &mut FilledArray) -> usize {
    let reports = filled.reports();
    assert!(reports.iter().all(|report| report.fate == PageFate::Dropped), "{reports:?}");
    assert!(reports.iter().all(|report| report.page.dev == Dev(DEV)), "{reports:?}");
    reports.len()
}

/// Counts the rows whose parity is not that of their data.
fn inconsistent_rows(filled: &FilledArray) -> usize {
    let content = |dev| filled.os.content(&member(Path::new(FOLDER), dev)).expect("it is there");
    let members: Vec<_> = (0..MEMBERS).map(content).collect();
    let len = (filled.array.member_pages * filled.array.page) as usize;
    let sum = |at: usize| members.iter().fold(0, |sum, member| sum ^ member[at]);
    (0..len)
        .step_by(filled.array.page as usize)
        .filter(|row| (0..filled.array.page as usize).any(|at| sum(row + at) != 0))
        .count()
}

/// Stops it in order, and serves it again.
fn restart(filled: FilledArray) -> FilledArray {
    let filled = filled.restart();
    assert_eq!(inconsistent_rows(&filled), 0, "parity is that of the data after a stop in order");
    filled
}

/// Repeats the field case: a bit is flipped in pages with deltas, and in others.
fn flipped_bits_of_a_cache_cost_nothing(io: IoBackend) {
    for name in CACHES {
        let mut filled = cached(io, name);
        let pages = written_pages(&filled);
        rot(&filled, &pages);
        for round in 0..2 {
            assert!(filled.holds(), "{name}, round {round}: every byte is served");
            filled.rest();
        }
        let dropped = dropped(&mut filled);
        assert!((1..=ROTTEN).contains(&dropped), "{name}: {dropped} pages were found");
        change(&mut filled);
        let mut filled = restart(filled);
        assert!(filled.holds(), "{name}: in the next life");
    }
}

fn what_rots_while_an_array_is_stopped_costs_nothing(io: IoBackend) {
    for name in ["leavo", "kdd", "write-back"] {
        let filled = cached(io, name);
        let mut filled = restart(filled);
        assert!(filled.holds(), "{name}");
        let mut filled = restart(filled);
        let pages = written_pages(&filled);
        rot(&filled, &pages);
        assert!(filled.holds(), "{name}: every byte is served");
        filled.rest();
        assert!(dropped(&mut filled) > 0, "{name}: the log has the checksums");
    }
}

fn pages_of_a_cache_that_cannot_be_read_cost_nothing(io: IoBackend) {
    for name in CACHES {
        let mut filled = cached(io, name);
        for page in written_pages(&filled) {
            filled.spoil(DEV, page, BadBytes::UntilWritten);
        }
        assert!(filled.holds(), "{name}: every byte is served");
        filled.rest();
        assert!(dropped(&mut filled) > 0, "{name}");
        assert!(filled.files.engine().controller().is_caching(), "{name}: the cache goes on");
        let mut filled = restart(filled);
        assert!(filled.holds(), "{name}: in the next life");
    }
}

fn more_pages_than_are_allowed_cost_the_cache(io: IoBackend) {
    let mut filled = cached(io, "write-through");
    let checksums = filled.files.engine().controller().checksums().expect("it has a device");
    let pages: Vec<u64> = (0..filled.array.cache_pages).filter(|page| checksums.get(*page).is_some()).collect();
    rot(&filled, &pages);
    assert!(filled.holds());
    filled.rest();
    let reports = filled.reports();
    assert_eq!(reports.iter().filter(|report| report.fate == PageFate::TooMany).count(), 1, "{reports:?}");
    assert!(!filled.files.engine().controller().is_caching());
    let error = filled.files.errors().next().expect("it says why").1.to_string();
    assert!(error.contains("max-corrected"), "{error}");
    assert!(filled.holds());
    // Another device has not been counted against.
    filled.files.replace(Dev(DEV), Path::new("/array/new")).expect("it takes its place");
    filled.rest();
    filled.reports();
    assert!(filled.holds() && filled.files.engine().controller().is_caching());
    for page in written_pages(&filled) {
        filled.os.flip(Path::new("/array/new"), page * filled.array.page, 0);
    }
    assert!(filled.holds());
    filled.rest();
    assert!(dropped(&mut filled) > 0 && filled.files.engine().controller().is_caching(), "so few do not cost it");
}

/// Writes a page that the cache alone has then, flips a bit of it, and returns its place in the cache.
fn rot_dirty(filled: &mut FilledArray, page: u64) -> u64 {
    let before = filled.os.content(&member(Path::new(FOLDER), DEV)).expect("it is there");
    let bytes = filled.array.page;
    assert!(filled.write(page * bytes, bytes).ok);
    let after = filled.os.content(&member(Path::new(FOLDER), DEV)).expect("it is there");
    let new = &filled.content.bytes()[(page * bytes) as usize..][..bytes as usize];
    let is_there = |at: &usize| after[*at..at + bytes as usize] == *new && before[*at..at + bytes as usize] != *new;
    let at = (0..after.len()).step_by(bytes as usize).find(is_there).expect("it is in the cache");
    filled.os.flip(&member(Path::new(FOLDER), DEV), at as u64 + 100, 3);
    at as u64 / bytes
}

fn a_dirty_page_that_rots_fails_until_it_is_written(io: IoBackend) {
    let mut filled = cached(io, "write-back");
    let (page, bytes) = (17, filled.array.page);
    let place = rot_dirty(&mut filled, page);
    for _ in 0..3 {
        assert!(!filled.read(page * bytes, bytes).ok, "nobody else has it");
        assert!(filled.read((page + 1) * bytes, bytes).ok, "others are served");
        let (offset, len) = (page * bytes, filled.array.sector);
        let part = HostRequest { tag: 1 << 41, op: HostOp::Write, offset, len, fua: false };
        assert!(!filled.serve(part, vec![1; len as usize]).ok, "nor can the rest of it be known");
    }
    let reports = filled.reports();
    let named: Vec<_> = reports.iter().map(|report| (report.page.page, report.fate)).collect();
    assert_eq!(named, [(place, PageFate::DirtyLost(page))]);
    assert!(filled.write(page * bytes, bytes).ok, "all of it");
    assert!(filled.holds());
    let mut filled = restart(filled);
    assert!(filled.holds() && filled.reports().is_empty());
}

fn a_dirty_page_that_rots_stays_lost_over_a_restart(io: IoBackend) {
    let mut filled = cached(io, "write-back");
    let (page, bytes) = (17, filled.array.page);
    rot_dirty(&mut filled, page);
    assert!(!filled.read(page * bytes, bytes).ok);
    // It cannot be written back, and the stop in order does not wait for it.
    for _ in 0..2 {
        filled = restart(filled);
        assert!(!filled.read(page * bytes, bytes).ok, "nor does the next life have it");
        assert_eq!(filled.reports().len(), 1);
    }
    assert!(filled.write(page * bytes, bytes).ok);
    let mut filled = restart(filled);
    assert!(filled.holds() && filled.reports().is_empty());
}

fn a_dirty_page_that_can_be_read_again_is_written_back(io: IoBackend) {
    let mut filled = cached(io, "write-back");
    let (page, bytes) = (17, filled.array.page);
    let place = rot_dirty(&mut filled, page);
    assert!(!filled.read(page * bytes, bytes).ok);
    let filled = restart(filled);
    filled.os.flip(&member(Path::new(FOLDER), DEV), place * bytes + 100, 3);
    // The next life takes it as the log has it, and a stop in order writes it back.
    let mut filled = restart(filled);
    assert!(filled.holds() && filled.reports().is_empty());
    assert_eq!(filled.files.engine().controller().status().dirty_rows, 0);
}
