//! Compares the rows of arrays with each other: nothing is found where nothing is wrong, whatever a cache has delayed and
//! whoever is lost; each page that differs is named, and made anew if that is ordered.

use std::path::Path;

use destage_cache::host_caches_of;
use destage_exec::IoBackend;
use destage_plan::{
    BadPage, Column, Dev, DevSet, HostOp, HostRequest, PageFate, PageReport, Row, Rows, ScrubOrder, ScrubTally,
};
use destage_raid::RaidLevel;

use crate::arrays::{Array, cache, member};
use crate::filled_array::{FOLDER, FilledArray};

backend_tests! {
    a_sound_array_has_no_mismatch_whatever_its_cache_delays,
    each_page_that_differs_is_named_and_nothing_is_changed,
    a_repair_writes_what_the_data_makes_and_makes_it_durable,
    stale_parity_is_compared_with_what_it_covers,
    a_degraded_array_is_compared_as_far_as_it_can_be,
    a_bad_page_found_by_a_scrub_is_made_anew,
    a_member_that_is_lost_meanwhile_ends_nothing,
    an_array_may_stop_while_rows_are_compared,
}

const LEVELS: [(RaidLevel, u8); 4] =
    [(RaidLevel::Raid1, 3), (RaidLevel::Raid4, 4), (RaidLevel::Raid5, 4), (RaidLevel::Raid6, 5)];

impl FilledArray {
    fn begin_scrub(&mut self, first: u64, count: u64, repairs: bool) {
        let rows = Rows::new(Row(first), count as u32);
        self.files.begin_scrub(ScrubOrder { rows, repairs }).expect("it is served");
    }

    fn scrub(&mut self, repairs: bool) -> ScrubTally {
        self.begin_scrub(0, self.array.member_pages, repairs);
        loop {
            self.files.poll().expect("it is served");
            if let Some(tally) = self.files.take_scrubbed() {
                assert!(!self.files.is_scrubbing());
                return tally;
            }
        }
    }

    /// Flips a bit of a page of a member.
    fn damage(&self, dev: Dev, row: u64) {
        self.os.flip(&member(Path::new(FOLDER), dev.0), row * self.array.page + row % self.array.page, 3);
    }

    /// Returns what the members hold.
    fn members(&self) -> Vec<Vec<u8>> {
        let len = (self.array.member_pages * self.array.page) as usize;
        let content = |dev| self.os.content(&member(Path::new(FOLDER), dev)).expect("it is there")[..len].to_vec();
        (0..self.array.members).map(content).collect()
    }

    /// Returns the member that has a column of a row.
    fn holder(&self, row: u64, column: Column) -> Dev {
        let geometry = self.array.geometry();
        geometry.device(geometry.stripe_of(Row(row)).0, column)
    }
}

fn tally(rows: u64, mismatched: u64, repaired: u64) -> ScrubTally {
    ScrubTally { rows, unchecked: 0, mismatched, repaired }
}

fn report(dev: Dev, page: u64, fate: PageFate) -> PageReport {
    PageReport { page: BadPage { dev, page }, fate }
}

fn a_sound_array_has_no_mismatch_whatever_its_cache_delays(io: IoBackend) {
    for (level, members) in LEVELS {
        for cache in host_caches_of(level) {
            let mut filled = FilledArray::new(Array { cache, cache_pages: 160, ..Array::over(io, level, members) });
            let (page, sector) = (filled.array.page, filled.array.sector);
            for at in (0..filled.array.geometry().data_pages()).step_by(3) {
                assert!(filled.write(at * page + at % 8 * sector, sector).ok);
            }
            let name = format!("{} {level}", cache.name);
            assert_eq!(filled.scrub(false), tally(filled.array.member_pages, 0, 0), "{name}");
            assert_eq!(filled.scrub(true), tally(filled.array.member_pages, 0, 0), "{name}: and a repair");
            assert_eq!(filled.reports(), [], "{name}");
            assert!(filled.holds(), "{name}");
        }
    }
}

fn each_page_that_differs_is_named_and_nothing_is_changed(io: IoBackend) {
    for (level, members) in LEVELS {
        let mut filled = FilledArray::new(Array::over(io, level, members));
        let geometry = filled.array.geometry();
        let last = Column(members - 1);
        // The last column is a copy, P or Q; the first is data, which all parity disagrees with.
        let damaged = [(0, last), (5, last), (6, last), (17, Column(0)), (63, last)];
        for (row, column) in damaged {
            filled.damage(filled.holder(row, column), row);
        }
        let before = filled.members();
        let found = filled.scrub(false);
        assert_eq!(found, tally(64, 5, 0), "{level}");
        let others = geometry.column_set() - geometry.data_set();
        let named = |(row, column): (u64, Column)| {
            let columns = if column == last { destage_plan::ColumnSet::one(last) } else { others };
            columns.iter().map(move |column| (row, column)).collect::<Vec<_>>()
        };
        let mut expected: Vec<_> = damaged.into_iter().flat_map(named).collect();
        expected.sort_unstable();
        let expected = expected.iter().map(|&(row, column)| (row, filled.holder(row, column)));
        let mut expected: Vec<_> = expected.map(|(row, dev)| report(dev, row, PageFate::Mismatched)).collect();
        let mut reports = filled.reports();
        expected.sort_by_key(|report| report.page);
        reports.sort_by_key(|report| report.page);
        assert_eq!(reports, expected, "{level}");
        assert!(filled.members() == before, "{level}: nothing is written");
        let part = Rows::new(Row(5), 12);
        filled.begin_scrub(part.first.0, part.count.into(), false);
        filled.rest();
        assert_eq!(
            filled.files.take_scrubbed(),
            Some(tally(12, 2, 0)),
            "{level}: rows beside those ordered do not count"
        );
    }
}

fn a_repair_writes_what_the_data_makes_and_makes_it_durable(io: IoBackend) {
    for (level, members) in LEVELS {
        let mut filled = FilledArray::new(Array::over(io, level, members));
        let flush = HostRequest { tag: 0, op: HostOp::Flush, offset: 0, len: 0, fua: false };
        assert!(filled.serve(flush, Vec::new()).ok, "{level}: nothing else is left to be made durable");
        let sound = filled.members();
        let last = Column(members - 1);
        for row in [1, 2, 40] {
            filled.damage(filled.holder(row, last), row);
        }
        assert_eq!(filled.scrub(true), tally(64, 3, 3), "{level}");
        let reports = filled.reports();
        assert!(reports.len() == 3 && reports.iter().all(|report| report.fate == PageFate::Rewritten), "{reports:?}");
        // What is told as repaired outlives the power.
        filled.os = filled.os.end(true);
        assert!(filled.members() == sound, "{level}: as it was");
    }
}

fn stale_parity_is_compared_with_what_it_covers(io: IoBackend) {
    for name in ["kdd", "leavo"] {
        for (level, members) in [(RaidLevel::Raid5, 4), (RaidLevel::Raid6, 5)] {
            let kept =
                Array { cache: cache(name), cache_pages: 160, hurries: false, ..Array::over(io, level, members) };
            let mut filled = FilledArray::new(kept);
            filled.files.drain().expect("it is written back");
            assert!(filled.holds());
            let (page, sector) = (filled.array.page, filled.array.sector);
            for at in (0..filled.array.geometry().data_pages()).step_by(5) {
                assert!(filled.write(at * page, sector).ok);
            }
            let stale = filled.files.engine().controller().stale_rows();
            assert!(stale >= 8, "{name} {level}: {stale} rows are behind");
            for row in 0..filled.array.member_pages {
                filled.damage(filled.holder(row, filled.array.geometry().p_column()), row);
            }
            assert_eq!(filled.scrub(false), tally(64, 64, 0), "{name} {level}");
            assert_eq!(filled.scrub(true), tally(64, 64, 64), "{name} {level}");
            assert_eq!(filled.scrub(false), tally(64, 0, 0), "{name} {level}");
            assert_eq!(filled.files.engine().controller().stale_rows(), stale, "{name} {level}: they stay behind");
            filled.os.set_broken(&member(Path::new(FOLDER), 1), true);
            assert!(filled.holds(), "{name} {level}: what is lost is computed from it");
        }
    }
}

fn a_degraded_array_is_compared_as_far_as_it_can_be(io: IoBackend) {
    for (level, members) in LEVELS {
        let mut filled = FilledArray::new(Array::over(io, level, members));
        filled.os.set_broken(&member(Path::new(FOLDER), 1), true);
        assert!(filled.write(0, filled.content.bytes().len() as u64).ok);
        filled.rest();
        assert_eq!(filled.lost(), DevSet::one(Dev(1)));
        let unchecked = if matches!(level, RaidLevel::Raid4 | RaidLevel::Raid5) { 64 } else { 0 };
        let found = filled.scrub(true);
        assert_eq!(found, ScrubTally { unchecked, ..tally(64, 0, 0) }, "{level}");
        // What P is needed for is told by it and Q together, and nothing tells which is wrong.
        let geometry = filled.array.geometry();
        let holds_data =
            |row: &u64| geometry.data_set().contains(geometry.column(geometry.stripe_of(Row(*row)).0, Dev(1)));
        let row = (0..64).find(holds_data).unwrap_or(0);
        filled.damage(filled.holder(row, Column(members - 1)), row);
        let before = filled.members();
        let found = filled.scrub(true);
        let (mismatched, repaired) = match level {
            RaidLevel::Raid1 => (1, 1),
            RaidLevel::Raid6 => (1, 0),
            _ => (0, 0),
        };
        assert_eq!(found, ScrubTally { unchecked, ..tally(64, mismatched, repaired) }, "{level}");
        assert_eq!(filled.members() == before, repaired == 0, "{level}");
    }
}

fn a_bad_page_found_by_a_scrub_is_made_anew(io: IoBackend) {
    for (level, members) in LEVELS {
        let mut filled = FilledArray::new(Array::over(io, level, members));
        let sound = filled.members();
        // Requests do not read parity, or second copies.
        let places = [3, 30].map(|row| (filled.holder(row, Column(members - 1)), row));
        for (dev, row) in places {
            filled.spoil(dev.0, row, destage_exec::BadBytes::UntilWritten);
        }
        let found = filled.scrub(false);
        assert_eq!((found.rows, found.mismatched), (64, 0), "{level}");
        filled.rest();
        let mut reports = filled.reports();
        reports.sort_by_key(|report| report.page.page);
        assert_eq!(reports, places.map(|(dev, row)| report(dev, row, PageFate::Corrected)), "{level}");
        assert_eq!(filled.scrub(false), tally(64, 0, 0), "{level}: and once more");
        assert!(filled.members() == sound, "{level}");
    }
}

fn a_member_that_is_lost_meanwhile_ends_nothing(io: IoBackend) {
    for (level, members) in LEVELS {
        let mut filled = FilledArray::new(Array::over(io, level, members));
        filled.begin_scrub(0, 64, true);
        filled.os.set_broken(&member(Path::new(FOLDER), 0), true);
        let found = loop {
            filled.files.poll().expect("it is served");
            if let Some(found) = filled.files.take_scrubbed() {
                break found;
            }
        };
        assert_eq!((found.rows, found.mismatched), (64, 0), "{level}");
        assert!(filled.holds(), "{level}");
    }
}

fn an_array_may_stop_while_rows_are_compared(io: IoBackend) {
    let mut filled = FilledArray::new(Array::over(io, RaidLevel::Raid5, 4));
    filled.damage(filled.holder(9, Column(3)), 9);
    filled.begin_scrub(0, 64, true);
    let mut again = filled.restart();
    assert_eq!(again.scrub(false), tally(64, 0, 0), "what was ordered before the stop is done");
}
