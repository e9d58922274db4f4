//! Lets members be unable to read some of their bytes: the others answer for them, the pages are made anew and reported, and
//! no member is lost.

use std::path::Path;
use std::time::{Duration, Instant};

use destage_exec::{BadBytes, IoBackend};
use destage_plan::{BadPage, Dev, DevSet, PageFate, PageReport, Row};
use destage_raid::RaidLevel;

use crate::arrays::{Array, cache, member};
use crate::filled_array::{FOLDER, FilledArray};

backend_tests! {
    two_bad_sectors_in_different_rows_cost_nothing,
    a_page_that_cannot_be_kept_costs_no_member,
    more_pages_than_are_allowed_cost_the_member,
    a_page_that_nothing_makes_up_fails_alone_until_it_is_written,
    a_row_with_too_many_bad_pages_loses_no_member_and_comes_to_rest,
    a_row_that_cannot_be_written_back_keeps_no_other_waiting,
    a_bad_page_is_found_in_a_long_read,
    a_write_that_fails_costs_the_member,
    a_rebuild_that_meets_a_bad_page_loses_its_row_alone,
    without_redundancy_a_bad_page_costs_itself_alone,
}

/// Lists the levels with redundancy, each with a number of members.
const LEVELS: [(RaidLevel, u8); 4] =
    [(RaidLevel::Raid1, 3), (RaidLevel::Raid4, 4), (RaidLevel::Raid5, 4), (RaidLevel::Raid6, 5)];

fn report(dev: u8, page: u64, fate: PageFate) -> PageReport {
    PageReport { page: BadPage { dev: Dev(dev), page }, fate }
}

/// Repeats the field case: a bad sector on each of several members, in different rows.
fn two_bad_sectors_in_different_rows_cost_nothing(io: IoBackend) {
    for (level, members) in LEVELS {
        let mut filled = FilledArray::new(Array::over(io, level, members));
        let geometry = filled.array.geometry();
        let spoiled = [(0, 20), (1, 5), (2, 40)];
        for (dev, page) in spoiled {
            filled.spoil(dev, page, BadBytes::UntilWritten);
        }
        assert!(filled.holds(), "{level}: every byte is served");
        filled.rest();
        // Nobody reads parity or the second copies here, and so nobody finds their bad sectors.
        let is_read = |(dev, page): &(u8, u64)| {
            let column = geometry.column(geometry.stripe_of(Row(*page)).0, Dev(*dev));
            if level == RaidLevel::Raid1 { *dev == 0 } else { geometry.data_set().contains(column) }
        };
        let found = spoiled.into_iter().filter(is_read);
        let expected: Vec<_> = found.map(|(dev, page)| report(dev, page, PageFate::Corrected)).collect();
        let mut reports = filled.reports();
        reports.sort_by_key(|report| report.page);
        assert_eq!(reports, expected, "{level}");
        assert_eq!((filled.corrected(), filled.lost()), (reports.len() as u64, DevSet::EMPTY), "{level}");
        assert!(filled.holds(), "{level}: and once more");
        assert_eq!(filled.reports(), [], "{level}: nothing is left to be made anew");
    }
}

fn a_page_that_cannot_be_kept_costs_no_member(io: IoBackend) {
    for kind in [BadBytes::Unreadable, BadBytes::Unwritable] {
        let mut filled = FilledArray::new(Array::over(io, RaidLevel::Raid6, 5));
        let [(dev, page), _] = data_pages(&filled);
        filled.spoil(dev, page, kind);
        assert!(filled.holds(), "{kind:?}");
        filled.rest();
        assert_eq!(filled.reports(), [report(dev, page, PageFate::Unwritable)], "{kind:?}");
        assert_eq!(filled.lost(), DevSet::EMPTY, "{kind:?}");
        assert_eq!(filled.files.engine().controller().array().unwritable(Dev(dev)), 1);
        assert!(filled.holds(), "{kind:?}: the others make it up");
        assert_eq!(filled.reports(), [], "{kind:?}: it is told of once");
    }
}

/// Returns two pages of data in different rows, of different members.
fn data_pages(filled: &FilledArray) -> [(u8, u64); 2] {
    let geometry = filled.array.geometry();
    [3, 30].map(|page| {
        let place = geometry.locate(page);
        (geometry.device(place.stripe, place.column).0, geometry.row(place.stripe, place.row_in_chunk).0)
    })
}

fn more_pages_than_are_allowed_cost_the_member(io: IoBackend) {
    let mut filled = FilledArray::new(Array::over(io, RaidLevel::Raid4, 4));
    let most = u64::from(destage_raid::array::MAX_CORRECTED);
    for page in 0..=most {
        filled.spoil(1, 2 * page, BadBytes::UntilWritten);
    }
    assert!(filled.holds());
    filled.rest();
    let reports = filled.reports();
    assert_eq!(reports.iter().filter(|report| report.fate == PageFate::TooMany).count(), 1, "{reports:?}");
    assert!(filled.corrected() <= most && filled.lost() == DevSet::one(Dev(1)));
    let error = filled.files.errors().next().expect("it says why").1.to_string();
    assert!(error.contains("max-corrected"), "{error}");
    assert!(filled.holds());
}

fn a_page_that_nothing_makes_up_fails_alone_until_it_is_written(io: IoBackend) {
    let mut filled = FilledArray::new(Array::over(io, RaidLevel::Raid5, 4));
    let [(dev, row), _] = data_pages(&filled);
    let geometry = filled.array.geometry();
    let other = geometry.device(geometry.locate(3).stripe, geometry.p_column()).0;
    filled.os.set_broken(&member(Path::new(FOLDER), other), true);
    assert!(filled.write(0, filled.array.page * 64).ok);
    filled.rest();
    filled.reports();
    assert_eq!(filled.lost(), DevSet::one(Dev(other)));
    filled.spoil(dev, row, BadBytes::UntilWritten);
    let page = filled.array.page;
    for _ in 0..3 * destage_raid::array::MAX_CORRECTED {
        assert!(!filled.read(3 * page, page).ok, "nobody can know it");
        filled.rest();
    }
    assert_eq!(filled.reports(), [report(dev, row, PageFate::Lost)]);
    assert_eq!(filled.lost(), DevSet::one(Dev(other)), "no member is lost with it");
    assert!(filled.read(0, page).ok && filled.read(20 * page, page).ok, "pages of other rows are served");
    assert!(filled.write(3 * page, page).ok, "without parity what is written needs no reading");
    filled.rest();
    let found = filled.read(3 * page, page);
    assert!(found.ok && found.bytes[..] == filled.content.bytes()[3 * page as usize..4 * page as usize]);
}

/// Has one bad page more in a row than the level makes up, all on members that answer otherwise.
fn a_row_with_too_many_bad_pages_loses_no_member_and_comes_to_rest(io: IoBackend) {
    for (level, members) in LEVELS {
        let mut filled = FilledArray::new(Array::over(io, level, members));
        let geometry = filled.array.geometry();
        let (page, place) = (filled.array.page, geometry.locate(3));
        let row = geometry.row(place.stripe, place.row_in_chunk).0;
        let parities = u32::from(geometry.parity_columns());
        let spare = if level == RaidLevel::Raid1 { u32::from(members) - 1 } else { parities };
        let devs: Vec<u8> = (0..=spare as u8).collect();
        for dev in &devs {
            filled.spoil(*dev, row, BadBytes::UntilWritten);
        }
        assert!(!filled.holds(), "{level}: nobody can know it");
        // What is done on the side ends.
        let begin = Instant::now();
        while !filled.files.is_idle() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{level}: it does not come to rest");
            filled.files.poll().expect("the array is served");
        }
        let mut reports = filled.reports();
        reports.sort_by_key(|report| report.page.dev);
        let expected: Vec<_> = devs.iter().map(|dev| report(*dev, row, PageFate::Lost)).collect();
        assert_eq!(reports, expected, "{level}: each once");
        assert_eq!(filled.lost(), DevSet::EMPTY, "{level}");
        // A write of all data of the row needs nothing of it.
        let len = filled.content.bytes().len() as u64;
        assert!(filled.write(0, len.min(64 * page)).ok, "{level}");
        filled.rest();
        assert!(filled.holds(), "{level}");
        assert_eq!(filled.reports(), [], "{level}");
    }
}

/// Has a write cache hold a page of a row that needs another one, which nobody can read.
fn a_row_that_cannot_be_written_back_keeps_no_other_waiting(io: IoBackend) {
    for policy in ["wow", "stow", "lawc", "sync+wow"] {
        let array = Array { cache: cache(policy), cache_pages: 64, ..Array::over(io, RaidLevel::Raid5, 4) };
        let mut filled = FilledArray::new(array).restart();
        let geometry = filled.array.geometry();
        let (page, place) = (filled.array.page, geometry.locate(3));
        let row = geometry.row(place.stripe, place.row_in_chunk);
        let of_row: Vec<u64> = (0..64)
            .filter(|page| {
                let place = geometry.locate(*page);
                geometry.row(place.stripe, place.row_in_chunk) == row
            })
            .collect();
        let [own, other, _] = of_row[..] else { panic!("{of_row:?} are the pages of the row") };
        for page in [own, other] {
            filled.spoil(geometry.device(place.stripe, geometry.locate(page).column).0, row.0, BadBytes::UntilWritten);
        }
        let pages = filled.content.bytes().len() as u64 / page;
        let holds_but = |filled: &mut FilledArray, lost: Option<u64>, what: &str| {
            for at in 0..pages {
                let found = filled.read(at * page, page);
                let expected = &filled.content.bytes()[(at * page) as usize..][..page as usize];
                let is_held = found.ok && found.bytes[..] == *expected;
                assert_eq!(is_held, lost != Some(at), "{policy}: page {at} {what}");
            }
        };
        assert!(filled.write(own * page, page).ok, "{policy}");
        for round in 0..4 {
            for at in (0..pages).filter(|at| !of_row.contains(at)) {
                assert!(filled.write(at * page, page).ok, "{policy}: page {at} in round {round}");
            }
        }
        holds_but(&mut filled, Some(other), "beside it");
        // It is stopped all the same, and has the page still.
        let mut filled = filled.restart();
        holds_but(&mut filled, Some(other), "at the next start");
        // What the row lacked comes.
        assert!(filled.write(other * page, page).ok, "{policy}");
        let mut filled = filled.restart();
        holds_but(&mut filled, None, "made good");
        assert_eq!(filled.lost(), DevSet::EMPTY, "{policy}");
        filled.os.set_broken(&member(Path::new(FOLDER), 3), true);
        let mut filled = filled.restart();
        holds_but(&mut filled, None, "without another member");
    }
}

fn a_bad_page_is_found_in_a_long_read(io: IoBackend) {
    let mut filled = FilledArray::new(Array::over(io, RaidLevel::Raid4, 4));
    // The last of a chunk, the first, and both of two neighbours.
    let spoiled = [(0, 3), (1, 4), (2, 9), (2, 10)];
    for (dev, page) in spoiled {
        filled.spoil(dev, page, BadBytes::UntilWritten);
    }
    assert!(filled.holds());
    filled.rest();
    let mut found: Vec<_> = filled.reports().iter().map(|report| (report.page.dev.0, report.page.page)).collect();
    found.sort_unstable();
    assert_eq!(found, spoiled, "these and no others are made anew");
}

/// Shows that errors of writes are as serious as ever.
fn a_write_that_fails_costs_the_member(io: IoBackend) {
    let mut filled = FilledArray::new(Array::over(io, RaidLevel::Raid5, 4));
    let [(dev, row), _] = data_pages(&filled);
    filled.spoil(dev, row, BadBytes::Unwritable);
    let page = filled.array.page;
    assert!(filled.write(3 * page, page).ok && filled.write(3 * page, page).ok);
    filled.rest();
    assert_eq!(filled.lost(), DevSet::one(Dev(dev)));
    assert!(filled.holds());
}

/// Shows that a rebuild loses the rows alone that it cannot compute, until they are written from end to end.
fn a_rebuild_that_meets_a_bad_page_loses_its_row_alone(io: IoBackend) {
    let mut filled = FilledArray::new(Array::over(io, RaidLevel::Raid5, 4));
    let (page, geometry) = (filled.array.page, filled.array.geometry());
    let [(dev, row), _] = data_pages(&filled);
    let place = geometry.locate(3);
    // Two other columns of the row, both of data.
    let others = geometry.data_set().iter().filter(|column| *column != place.column).collect::<Vec<_>>();
    let other = geometry.device(place.stripe, others[0]).0;
    filled.os.spoil(&member(Path::new(FOLDER), other), row * page..row * page + 64, BadBytes::UntilWritten);
    filled.files.replace(Dev(dev), Path::new("/array/new")).expect("it takes its place");
    filled.rest();
    assert_eq!(filled.lost(), DevSet::EMPTY, "it is filled");
    let reports = filled.reports();
    assert!(reports.contains(&report(dev, row, PageFate::Missing)), "{reports:?}");
    let of_other = geometry.page_of(destage_raid::PagePlace { column: others[0], ..place });
    for life in 0..2 {
        for at in 0..filled.array.sizes().pages {
            let found = filled.read(at * page, page);
            let bytes = &filled.content.bytes()[(at * page) as usize..][..page as usize];
            assert!(found.ok != (at == 3 || at == of_other), "life {life}: page {at}");
            assert!(!found.ok || *found.bytes == *bytes, "life {life}: page {at}");
        }
        filled.rest();
        if life == 0 {
            filled = filled.again();
        }
    }
    // The whole stripe: all rows, all columns.
    let stripe = filled.array.sizes().stripe;
    assert!(filled.write(3 / stripe * stripe * page, stripe * page).ok);
    filled.rest();
    assert!(filled.holds() && filled.files.engine().controller().array().missing().next().is_none());
    let free = filled.files.engine().controller().array().unreadable();
    assert_eq!(free, [], "nothing is left of it");
}

fn without_redundancy_a_bad_page_costs_itself_alone(io: IoBackend) {
    let mut filled = FilledArray::new(Array::over(io, RaidLevel::Raid0, 3));
    let [(dev, row), _] = data_pages(&filled);
    filled.spoil(dev, row, BadBytes::UntilWritten);
    let page = filled.array.page;
    for _ in 0..3 * destage_raid::array::MAX_CORRECTED {
        assert!(!filled.read(3 * page, page).ok);
    }
    assert!(!filled.write(3 * page, filled.array.sector).ok, "the rest of the page would be unknown");
    let array = filled.files.engine().controller().array();
    assert!(filled.lost() == DevSet::EMPTY && !array.is_broken());
    assert!(filled.read(4 * page, page).ok && filled.write(2 * page, 2 * page).ok);
    filled.rest();
    assert!(filled.holds());
}
