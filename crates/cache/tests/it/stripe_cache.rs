//! Checks that what is kept in memory of recently written rows is never older than what the members hold: each way in which rows change
//! otherwise makes it forgotten.

use destage_cache::{ServedTier, serve};
use destage_exec::{CrashRemains, CutChoice, MemoryExecutor, NextStep, NoCheck};
use destage_plan::{
    BadPage, Column, Control, Dev, HostNotice, HostOp, HostRequest, Nanos, Row, Rows, ScrubOrder, Shape, StepKind,
    Stripe,
};
use destage_raid::array::{ArrayConfig, ParityMethod};
use destage_raid::{Geometry, RaidLevel};

pub const PAGE: u64 = 64;
/// Counts the pages of a row.
const DATA: u64 = 4;
/// Counts the steps after which nothing is waited for any more.
const PATIENCE: u64 = 10_000;

/// Loses what was not flushed.
pub struct NothingUnflushed;

impl CutChoice for NothingUnflushed {
    fn page(&mut self, _: usize, _: u64, _: u128) -> u128 {
        0
    }

    fn nvram(&mut self, _: usize) -> usize {
        0
    }
}

/// Drives an array of 16 rows of four pages and parity, each of which is kept in memory.
pub struct StripeCacheRun {
    pub memory: MemoryExecutor<Box<dyn ServedTier>>,
    pub geometry: Geometry,
    tags: u64,
}

impl StripeCacheRun {
    fn new(level: RaidLevel, parity: ParityMethod, rows: u32) -> Self {
        Self::with_cache("none", 0, level, parity, rows)
    }

    /// Makes one with a cache of so many pages.
    pub fn with_cache(cache: &str, pages: u64, level: RaidLevel, parity: ParityMethod, rows: u32) -> Self {
        let members = DATA as u32 + if level == RaidLevel::Raid6 { 2 } else { 1 };
        let geometry = Geometry::new(level, None, members, 4, 16).expect("a shape that can be");
        let config = ArrayConfig {
            idle_flush: Nanos(1 << 60),
            page_bytes: PAGE as u32,
            cached_rows: rows,
            parity,
            ..ArrayConfig::new(geometry.clone())
        };
        let controller = serve(cache, &config, pages).expect("an array");
        let shape = Shape::new(PAGE, 16, 4 * DATA, 4 * DATA, geometry.data_pages()).expect("a tiny array");
        let bytes = (geometry.member_pages() * PAGE) as usize;
        let devices = (0..members).map(|_| bytes).chain((pages > 0).then_some((pages * PAGE) as usize));
        let memory = MemoryExecutor::start(controller, CrashRemains::fresh(devices), shape, 64);
        Self { memory, geometry, tags: 0 }
    }

    /// Returns the page of a column of a row.
    pub fn page(row: u64, column: u64) -> u64 {
        row / 4 * 4 * DATA + column * 4 + row % 4
    }

    /// Returns the member that has a column of a row.
    pub fn member(&self, row: u64, column: u8) -> Dev {
        self.geometry.device(Stripe(row / 4), Column(column))
    }

    pub fn submit(&mut self, op: HostOp, page: u64, pages: u64) -> u64 {
        self.submit_fua(op, page, pages, false)
    }

    /// Returns what a request writes.
    pub fn bytes(tag: u64, page: u64, pages: u64) -> Vec<u8> {
        (0..pages * PAGE).map(|at| (at * 7 + tag * 31 + page) as u8).collect()
    }

    /// Submits a request that may have to be durable when it is answered.
    pub fn submit_fua(&mut self, op: HostOp, page: u64, pages: u64, fua: bool) -> u64 {
        self.tags += 1;
        let tag = self.tags;
        let request = HostRequest { tag, op, offset: page * PAGE, len: pages * PAGE, fua };
        let bytes = Self::bytes(tag, page, pages);
        self.memory.submit(request, if op == HostOp::Write { &bytes } else { &[] }).expect("a request in range");
        tag
    }

    /// Has everything done that can be; whether all that was answered was served.
    pub fn settle(&mut self) -> bool {
        let mut is_ok = true;
        for _ in 0..PATIENCE {
            while let Some(notice) = self.memory.next_notice() {
                if let HostNotice::Acked { ok, .. } = notice {
                    is_ok &= ok;
                }
            }
            if self.memory.is_idle() {
                return is_ok;
            }
            self.memory.run(NextStep::Oldest, &NoCheck).expect("the controller goes on");
        }
        panic!("it never ends");
    }

    /// Goes on until so many requests are answered. Returns true if all of them were served.
    pub fn acked(&mut self, mut count: usize) -> bool {
        let mut is_ok = true;
        for _ in 0..PATIENCE {
            while let Some(notice) = self.memory.next_notice() {
                if let HostNotice::Acked { ok, .. } = notice {
                    (is_ok, count) = (is_ok && ok, count - 1);
                }
            }
            if count == 0 {
                return is_ok;
            }
            self.memory.run(NextStep::Oldest, &NoCheck).expect("the controller goes on");
        }
        panic!("some are never answered");
    }

    pub fn write(&mut self, row: u64, column: u64) {
        self.submit(HostOp::Write, Self::page(row, column), 1);
        assert!(self.settle(), "the write is served");
    }

    pub fn read(&mut self, page: u64) -> Vec<u8> {
        let tag = self.submit(HostOp::Read, page, 1);
        for _ in 0..PATIENCE {
            while let Some(notice) = self.memory.next_notice() {
                if let HostNotice::Acked { tag: of, ok } = notice
                    && of == tag
                {
                    assert!(ok, "page {page} can be read");
                    return self.memory.request_bytes(tag).to_vec();
                }
            }
            self.memory.run(NextStep::Oldest, &NoCheck).expect("the controller goes on");
        }
        panic!("page {page} is never read");
    }

    /// Checks that each row's parity is the sum of its data.
    pub fn check(&mut self, what: &str) {
        let p = self.geometry.p_column();
        for row in 0..self.geometry.member_pages() {
            let mut sum = vec![0; PAGE as usize];
            for column in 0..DATA {
                let page = self.read(Self::page(row, column));
                sum.iter_mut().zip(&page).for_each(|(sum, byte)| *sum ^= byte);
            }
            self.settle();
            let parity = self.memory.view().page(self.member(row, p.0), row).expect("the member answers").to_vec();
            assert_eq!(sum, parity, "{what}: row {row}");
        }
    }

    fn kept(&self) -> usize {
        self.memory.engine().controller().array().kept_pages()
    }

    /// Counts the pages that members have read.
    pub fn reads(&self) -> u64 {
        self.memory.engine().out().counts()[StepKind::Read as usize]
    }

    pub fn control(&mut self, control: Control) {
        self.memory.control(control);
        self.settle();
    }
}

#[test]
fn what_was_read_or_written_for_a_row_is_not_read_again() {
    let mut bench = StripeCacheRun::new(RaidLevel::Raid5, ParityMethod::Min, 16);
    // Of four columns the old page and the old parity are read.
    bench.write(0, 0);
    // Then the old page alone; of as many either way what is not written, which is column 3.
    for (row, column, reads) in [(0, 0, 0), (0, 1, 1), (0, 2, 1), (0, 1, 0), (1, 3, 2), (0, 3, 0), (1, 3, 0)] {
        let before = bench.reads();
        bench.write(row, column);
        assert_eq!(bench.reads() - before, reads, "column {column} of row {row}");
    }
    bench.check("after all writes");
    assert_eq!(bench.kept(), 5 + 2);
}

#[test]
fn parity_fits_data_whatever_is_written_in_which_way() {
    for level in [RaidLevel::Raid4, RaidLevel::Raid5, RaidLevel::Raid6] {
        for method in ParityMethod::ALL {
            for rows in [8, 16] {
                let mut bench = StripeCacheRun::new(level, method, rows);
                let mut at = 1_u64;
                for round in 0..400 {
                    at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let page = (at >> 33) % bench.geometry.data_pages();
                    let pages = 1 + (at >> 20) % 12;
                    let op = match at >> 50 & 15 {
                        0 => HostOp::WriteZeroes,
                        1 => HostOp::Discard,
                        2 => HostOp::WriteZeroesUnmap,
                        _ => HostOp::Write,
                    };
                    bench.submit(op, page, pages.min(bench.geometry.data_pages() - page));
                    // Several at a time.
                    if round % 5 == 0 {
                        assert!(bench.settle());
                    }
                }
                bench.settle();
                bench.check(&format!("{level}, {method:?}, {rows} rows"));
                assert!(bench.memory.engine().controller().array().stats().cached_reads > 0);
            }
        }
    }
}

#[test]
fn a_trimmed_row_is_forgotten() {
    let mut bench = StripeCacheRun::new(RaidLevel::Raid5, ParityMethod::Rmw, 16);
    bench.write(0, 0);
    bench.submit(HostOp::Discard, 0, 4 * DATA);
    bench.settle();
    assert_eq!(bench.kept(), 0);
    bench.write(0, 0);
    bench.check("after a discard");
}

#[test]
fn a_lost_member_makes_everything_forgotten() {
    let mut bench = StripeCacheRun::new(RaidLevel::Raid5, ParityMethod::Rmw, 16);
    (0..16).for_each(|row| bench.write(row, row % DATA));
    assert_eq!(bench.kept(), 32);
    let lost = bench.member(0, 1);
    bench.memory.fail(lost, &mut NothingUnflushed);
    bench.memory.announce_all();
    bench.settle();
    assert_eq!(bench.kept(), 0);
    (0..16).for_each(|row| bench.write(row, (row + 1) % DATA));
    assert_eq!(bench.kept(), 0, "nothing is kept while a member is lost");
    bench.memory.replace(lost, destage_exec::ReplacementContent::Zeros);
    bench.settle();
    (0..16).for_each(|row| bench.write(row, row % DATA));
    bench.check("after a rebuild");
    assert_eq!(bench.kept(), 32);
}

#[test]
fn what_a_write_held_as_a_member_failed_is_forgotten() {
    for step in 0..12 {
        for column in 0..=DATA as u8 {
            let mut bench = StripeCacheRun::new(RaidLevel::Raid5, ParityMethod::Rmw, 16);
            bench.write(0, 0);
            let lost = bench.member(0, column);
            bench.submit(HostOp::Write, StripeCacheRun::page(0, 0), 1);
            for _ in 0..step {
                if bench.memory.runnable() > 0 {
                    bench.memory.run(NextStep::Oldest, &NoCheck).expect("the controller goes on");
                }
            }
            bench.memory.fail(lost, &mut NothingUnflushed);
            bench.memory.announce_all();
            bench.settle();
            assert_eq!(bench.kept(), 0, "member {lost} fails after {step} steps");
            bench.memory.replace(lost, destage_exec::ReplacementContent::Zeros);
            bench.settle();
            bench.write(0, 0);
            bench.check("after a rebuild");
        }
    }
}

#[test]
fn a_row_with_a_page_made_anew_is_forgotten() {
    let mut bench = StripeCacheRun::new(RaidLevel::Raid5, ParityMethod::Rmw, 16);
    bench.write(0, 0);
    bench.write(1, 0);
    let bad = BadPage { dev: bench.member(0, 0), page: 0 };
    bench.memory.spoil(bad, false);
    bench.read(StripeCacheRun::page(0, 0));
    bench.settle();
    assert_eq!(bench.kept(), 2, "the other row is kept");
    bench.write(0, 0);
    bench.check("after a page was made anew");
}

#[test]
fn a_row_that_a_scrub_finds_inconsistent_is_forgotten() {
    for repairs in [false, true] {
        let mut bench = StripeCacheRun::new(RaidLevel::Raid5, ParityMethod::Rmw, 16);
        (0..2).for_each(|column| bench.write(0, column));
        bench.write(1, 0);
        // What is flushed can rot.
        bench.tags += 1;
        let flush = HostRequest { tag: bench.tags, op: HostOp::Flush, offset: 0, len: 0, fua: false };
        bench.memory.submit(flush, &[]).expect("a flush");
        bench.settle();
        let rotten = BadPage { dev: bench.member(0, 1), page: 0 };
        assert!(bench.memory.rot(rotten, 5), "the page was written and flushed");
        bench.control(Control::Scrub(ScrubOrder { rows: Rows::new(Row(0), 4), repairs }));
        // Rows are rewritten together.
        assert_eq!(bench.kept(), if repairs { 0 } else { 2 }, "the other row is kept if nothing is rewritten");
        bench.write(0, 0);
        if repairs {
            bench.check("after a scrub that repairs");
        }
    }
}

#[test]
fn what_is_carried_out_with_another_write_is_as_durable_as_was_asked_for() {
    let mut bench = StripeCacheRun::new(RaidLevel::Raid5, ParityMethod::Min, 16);
    // The first holds the row, the second takes the others along.
    let writes = [(0, false), (1, false), (2, true), (3, false)];
    let tags = writes.map(|(column, fua)| bench.submit_fua(HostOp::Write, StripeCacheRun::page(0, column), 1, fua));
    assert!(bench.settle());
    assert_eq!(bench.memory.engine().out().counts()[StepKind::Write as usize], 2 + 4);
    let image = bench.memory.cut(&mut NothingUnflushed).disks[bench.member(0, 2).index()].image.clone();
    assert_eq!(image[..PAGE as usize], StripeCacheRun::bytes(tags[2], StripeCacheRun::page(0, 2), 1));
    // A flush covers the members of all of them, as if each had been alone.
    bench.tags += 1;
    let flush = HostRequest { tag: bench.tags, op: HostOp::Flush, offset: 0, len: 0, fua: false };
    bench.memory.submit(flush, &[]).expect("a flush");
    bench.settle();
    let remains = bench.memory.cut(&mut NothingUnflushed);
    for (tag, (column, _)) in tags.into_iter().zip(writes) {
        let image = &remains.disks[bench.member(0, column as u8).index()].image;
        assert_eq!(
            image[..PAGE as usize],
            StripeCacheRun::bytes(tag, StripeCacheRun::page(0, column), 1),
            "column {column}"
        );
    }
    bench.check("after all of them");
}

/// Counts the writes of all devices.
pub fn written(bench: &StripeCacheRun) -> u64 {
    bench.memory.engine().out().counts()[StepKind::Write as usize]
}

#[test]
fn waiting_writes_of_cached_pages_are_carried_out_as_one() {
    let mut bench = StripeCacheRun::with_cache("write-through:ways=16", 32, RaidLevel::Raid5, ParityMethod::Min, 16);
    (0..DATA).for_each(|column| bench.write(0, column));
    let before = (written(&bench), bench.reads());
    // The first goes ahead alone; the others wait for it, two of them for the same page.
    let tags: Vec<(u64, u64)> = [0, 1, 2, 1, 3]
        .into_iter()
        .map(|column| (column, bench.submit(HostOp::Write, StripeCacheRun::page(0, column), 1)))
        .collect();
    assert!(bench.settle(), "all writes are served");
    // A page and the parity; then three pages and the parity; and each write's page in the cache.
    assert_eq!(written(&bench) - before.0, 2 + 4 + 5);
    let newest = |column: u64| tags.iter().rev().find(|(of, _)| *of == column).expect("it was written").1;
    for column in 0..DATA {
        let page = StripeCacheRun::page(0, column);
        assert_eq!(bench.read(page), StripeCacheRun::bytes(newest(column), page, 1), "column {column}");
    }
    assert_eq!(bench.reads() - before.1, DATA, "all pages are read from the cache, and nothing else is");
    bench.check("after all writes");
}

/// Checks that writes which fill a row together pass the cache's copies of it by, also those that are carried out with another.
#[test]
fn copies_of_a_row_that_is_filled_are_forgotten() {
    for cache in ["write-through:ways=16", "write-around:ways=16", "write-back:ways=16", "kdd:ways=16", "leavo:ways=16"]
    {
        let mut bench = StripeCacheRun::with_cache(cache, 64, RaidLevel::Raid5, ParityMethod::Min, 16);
        (0..DATA).for_each(|column| bench.write(1, column));
        bench.control(Control::Drain);
        assert!(bench.settle(), "{cache}: all is on the members");
        // Read twice, so that whatever is to be cached is.
        for _ in 0..2 {
            (0..DATA).for_each(|column| _ = bench.read(StripeCacheRun::page(1, column)));
        }
        // The first goes ahead alone; the others wait for it, and fill the row.
        bench.submit(HostOp::Write, StripeCacheRun::page(1, 0), 1);
        let tags: Vec<u64> =
            (0..DATA).map(|column| bench.submit(HostOp::Write, StripeCacheRun::page(1, column), 1)).collect();
        assert!(bench.settle(), "{cache}: all writes are served");
        for (column, &tag) in (0..DATA).zip(&tags) {
            let page = StripeCacheRun::page(1, column);
            assert_eq!(bench.read(page), StripeCacheRun::bytes(tag, page, 1), "{cache}: column {column}");
        }
        bench.control(Control::Drain);
        bench.check(cache);
    }
}
