//! Rows of which too many members cannot read their page: what caches do that have something for them, and how far a rebuild
//! goes that meets many of them.

use std::path::Path;
use std::sync::Arc;

use destage_cache::host_caches;
use destage_exec::{AcceptedLosses, BadBytes, FileExecutor, FilesError, IoBackend};
use destage_plan::{Dev, DevSet, HostOp, HostRequest, Refusal, Status};
use destage_raid::RaidLevel;
use destage_testkit::{TestRng, data};

use crate::arrays::{Array, cache, member};
use crate::filled_array::{FOLDER, FilledArray};

backend_tests! {
    write_back_keeps_the_page_of_such_a_row_alone,
    every_cache_goes_on_beside_such_a_row,
    a_rebuild_waits_once_so_many_pages_are_noted_as_missing,
    notes_of_missing_pages_are_given_up_by_order_alone,
}

const MEMBERS: u8 = 4;
/// Names a page that is written when the others of its row cannot be read.
const PAGE: u64 = 3;

/// Returns the pages of data in the row of [`PAGE`].
fn row(filled: &FilledArray) -> Vec<u64> {
    let geometry = filled.array.geometry();
    let row = |page| {
        let place = geometry.locate(page);
        geometry.row(place.stripe, place.row_in_chunk)
    };
    (0..filled.array.sizes().pages).filter(|page| row(*page) == row(PAGE)).collect()
}

/// Spoils the parity of the row of [`PAGE`], and a page of data beside it: nothing tells what its parity is to be then.
fn spoil_row(filled: &FilledArray, kind: BadBytes) {
    let geometry = filled.array.geometry();
    let place = geometry.locate(PAGE);
    let row = geometry.row(place.stripe, place.row_in_chunk);
    let other = geometry.data_set().iter().find(|column| *column != place.column).expect("there are three");
    for column in [geometry.p_column(), other] {
        filled.spoil(geometry.device(place.stripe, column).0, row.0, kind);
    }
}

/// Polls until nothing more is done.
fn go_on(filled: &mut FilledArray) {
    let mut idle = 0;
    while idle < 100 {
        filled.files.poll().expect("it is served");
        idle = if filled.files.is_idle() { idle + 1 } else { 0 };
    }
}

fn write_back_keeps_the_page_of_such_a_row_alone(io: IoBackend) {
    let cached = Array {
        cache: cache("write-back"),
        cache_pages: 160,
        hurries: false,
        ..Array::over(io, RaidLevel::Raid5, MEMBERS)
    };
    let mut filled = FilledArray::new(cached);
    filled.files.drain().expect("it is written back");
    let bytes = filled.array.page;
    for page in [PAGE, 40, 60, 80] {
        assert!(filled.write(page * bytes, bytes).ok);
    }
    spoil_row(&filled, BadBytes::UntilWritten);
    let dirty = |filled: &FilledArray| filled.files.engine().controller().status().dirty_rows;
    for _ in 0..2 {
        filled.files.begin_drain().expect("it is served");
        go_on(&mut filled);
        assert!(!filled.files.is_draining(), "an order to write back ends");
        assert_eq!(dirty(&filled), 1, "all others are written back");
        let read = filled.read(PAGE * bytes, bytes);
        assert!(read.ok && *read.bytes == filled.content.bytes()[(PAGE * bytes) as usize..][..bytes as usize]);
    }
    assert_eq!(filled.lost(), DevSet::EMPTY);
    // It is stopped all the same, and has the page still.
    let mut filled = filled.restart();
    assert!(filled.read(PAGE * bytes, bytes).ok && dirty(&filled) == 1);
    // A write that leaves nothing of the row to be read makes it good.
    for page in row(&filled) {
        assert!(filled.write(page * bytes, bytes).ok);
    }
    filled.files.drain().expect("it is written back");
    assert_eq!(dirty(&filled), 0);
    let mut filled = filled.restart();
    assert!(filled.holds());
    filled.os.set_broken(&member(Path::new(FOLDER), 3), true);
    assert!(filled.holds(), "its parity is right");
}

/// Writes parts and wholes of such a row and of others beside it, over every cache, and reads them.
fn every_cache_goes_on_beside_such_a_row(io: IoBackend) {
    let mut refused = 0;
    for cache in host_caches().filter(|cache| (cache.serves)(RaidLevel::Raid5)) {
        for seed in 0..12 {
            let cached =
                Array { cache, cache_pages: 64, hurries: seed % 2 == 0, ..Array::over(io, RaidLevel::Raid5, MEMBERS) };
            let mut filled = FilledArray::new(cached);
            let (bytes, sector, pages) = (filled.array.page, filled.array.sector, filled.array.sizes().pages);
            let (of_row, mut dice) = (row(&filled), TestRng::new(seed));
            // Some of its pages are in the cache by then.
            for page in &of_row {
                assert!(filled.read(page * bytes, bytes).ok, "{}", cache.name);
            }
            for page in of_row.iter().filter(|_| seed % 3 == 0) {
                assert!(filled.write(page * bytes, sector).ok, "{}", cache.name);
            }
            spoil_row(&filled, if seed % 4 < 2 { BadBytes::UntilWritten } else { BadBytes::Unreadable });
            for tag in 0..60 {
                let is_of_row = dice.below(2) == 0;
                let page = if is_of_row { of_row[dice.below(3) as usize] } else { dice.below(pages) };
                let len = if dice.below(2) == 0 { sector } else { bytes };
                let request = HostRequest {
                    tag: 1 << 20 | tag,
                    op: HostOp::Write,
                    offset: page * bytes,
                    len,
                    fua: dice.below(3) == 0,
                };
                let written = data(&request, sector);
                let completion = filled.serve(request, written.clone());
                if completion.ok {
                    filled.content.apply(&request, &written);
                }
                assert!(completion.ok || of_row.contains(&page), "{}, {seed}: page {page}", cache.name);
                if dice.below(4) == 0 {
                    filled.files.begin_drain().expect("it is served");
                }
                if dice.below(8) == 0 {
                    go_on(&mut filled);
                }
            }
            go_on(&mut filled);
            let mut filled = filled.restart();
            if let Status::Refused(refusal) = filled.files.status() {
                // Its parity was left behind when the array was stopped, and so the row counts as one that was being written.
                let Refusal::WriteHole { lost, rows: 1, .. } = refusal else {
                    panic!("{}, {seed}: {refusal:?}", cache.name)
                };
                assert!(lost.named().iter().all(|range| range.pages == 1 && of_row.contains(&range.first)), "{lost:?}");
                refused += 1;
                continue;
            }
            for page in (0..pages).filter(|page| !of_row.contains(page)) {
                let read = filled.read(page * bytes, bytes);
                let expected = &filled.content.bytes()[(page * bytes) as usize..][..bytes as usize];
                assert!(read.ok && *read.bytes == *expected, "{}, {seed}: page {page}", cache.name);
            }
        }
    }
    assert!(refused < 4, "{refused} starts were refused");
}

/// Spoils pages of more rows than notes of missing pages may take of the NVRAM, and has another member filled.
fn noted(io: IoBackend) -> FilledArray {
    let mut filled = FilledArray::new(Array::over(io, RaidLevel::Raid5, MEMBERS));
    for row in 0..20 {
        filled.spoil(1, 3 * row, BadBytes::UntilWritten);
    }
    filled.files.replace(Dev(0), Path::new("/array/new")).expect("it takes its place");
    go_on(&mut filled);
    filled
}

fn missing(filled: &FilledArray) -> usize {
    filled.files.engine().controller().array().missing().count()
}

fn a_rebuild_waits_once_so_many_pages_are_noted_as_missing(io: IoBackend) {
    let mut filled = noted(io);
    let quarter = filled.array.config().nv_slots as usize / 4;
    assert_eq!(missing(&filled), quarter, "a quarter of the slots");
    let is_rebuilding = |filled: &FilledArray| filled.files.engine().controller().array().is_rebuilding();
    assert!(is_rebuilding(&filled), "it waits");
    // Rows that are written from end to end need no note any more.
    let (stripe, page) = (filled.array.sizes().stripe, filled.array.page);
    assert!(filled.write(0, 3 * stripe * page).ok);
    go_on(&mut filled);
    assert!(!is_rebuilding(&filled) && filled.lost() == DevSet::EMPTY, "it goes on");
    assert!((1..=quarter).contains(&missing(&filled)), "{}", missing(&filled));
    let pages = filled.array.sizes().pages;
    assert!(filled.write(0, pages * page).ok);
    go_on(&mut filled);
    assert!(filled.holds() && missing(&filled) == 0);
}

fn notes_of_missing_pages_are_given_up_by_order_alone(io: IoBackend) {
    let filled = noted(io);
    let config = filled.files.config().clone();
    let FilledArray { array, os, files, .. } = filled;
    drop(files);
    os.take_away(Path::new("/array/nvram"));
    let resynchronise =
        |accepted| FileExecutor::resynchronise_on(Arc::new(os.clone()), array.controller(), config.clone(), accepted);
    let error =
        resynchronise(AcceptedLosses { data: true, notes: false }).expect_err("what is lost is noted there alone");
    assert!(matches!(&error, FilesError::LostForGood { notes: true, .. }), "{error}");
    assert!(error.to_string().contains("accept-losses"), "{error}");
    assert!(os.content(Path::new("/array/nvram")).is_none(), "nothing is made for it");
    // With them it is lost which rows are filled: what the member held of marked rows is named.
    let files = resynchronise(AcceptedLosses { data: true, notes: true }).expect("that is accepted");
    assert!(matches!(files.status(), Status::Refused(Refusal::WriteHole { .. })), "{:?}", files.status());
}
