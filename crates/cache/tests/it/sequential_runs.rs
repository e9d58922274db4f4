//! Sequential runs: writes of a run wait for each other until their rows are full, and long runs pass caches by.

use destage_cache::serve;
use destage_plan::{Control, HostOp};
use destage_raid::array::{ArrayConfig, ParityMethod};
use destage_raid::{Geometry, RaidLevel};

use crate::stripe_cache::StripeCacheRun;

/// Counts the pages of a stripe.
const STRIPE: u64 = 16;
/// Counts the pages of the array.
const PAGES: u64 = 64;
const PAGE: u64 = 64;

/// Makes an array of 4 stripes of 16 pages whose rows are all kept, with a cache of 24 pages.
fn bench(cache: &str) -> StripeCacheRun {
    let pages = if cache == "none" { 0 } else { 24 };
    StripeCacheRun::with_cache(cache, pages, RaidLevel::Raid5, ParityMethod::Min, 16)
}

/// Writes the whole array in order, so many pages at a time, with so many writes under way. Returns the tag of each page's write.
fn write_all(bench: &mut StripeCacheRun, pages: u64, depth: usize) -> Vec<u64> {
    let mut tags = Vec::new();
    for (number, page) in (0..PAGES).step_by(pages as usize).enumerate() {
        if number % depth == 0 {
            assert!(bench.settle(), "all is served");
        }
        let tag = bench.submit(HostOp::Write, page, pages);
        tags.extend((0..pages).map(|_| tag));
    }
    assert!(bench.settle(), "all is served");
    tags
}

/// Checks what is read of each page, and the parity of each row.
fn check(bench: &mut StripeCacheRun, tags: &[u64], pages: u64, what: &str) {
    for (page, tag) in (0..).zip(tags) {
        let first = page / pages * pages;
        let bytes = StripeCacheRun::bytes(*tag, first, pages);
        let at = ((page - first) * PAGE) as usize;
        assert_eq!(bench.read(page), bytes[at..at + PAGE as usize], "{what}: page {page}");
    }
    bench.settle();
}

#[test]
fn writes_of_a_run_that_are_under_way_together_read_nothing_but_for_the_first() {
    for (pages, depth, reads) in [
        // The first is no run yet: it reads what it does not write, and the second finds that in memory.
        (8, 8, 8),
        (4, 16, 8),
        // One after the other there is nothing to wait for: of each stripe the first reads.
        (8, 1, 4 * 8),
        (16, 4, 0),
        // What is under way does not reach to the end of the rows: 2, 1, 1 and 0 pages of each.
        (4, 2, 4 * 16),
    ] {
        let mut bench = bench("none");
        let tags = write_all(&mut bench, pages, depth);
        let stats = *bench.memory.engine().controller().array().stats();
        assert_eq!(stats.data_reads + stats.parity_reads, reads, "{pages} pages, {depth} at a time");
        check(&mut bench, &tags, pages, "in full");
        bench.check("in full");
    }
}

#[test]
fn a_run_that_ends_in_the_middle_of_its_rows_is_served() {
    let mut bench = bench("none");
    for page in (0..3 * STRIPE - 8).step_by(8) {
        bench.submit(HostOp::Write, page, 8);
    }
    assert!(bench.settle(), "the last write waits for nobody in the end");
    bench.check("half a stripe is left");
}

#[test]
fn a_run_passes_the_cache_by_from_its_cutoff_on() {
    for cache in ["write-around", "write-through", "leavo:log=20", "kdd:log=20", "write-back:log=20"] {
        let mut bench = bench(&format!("{cache}:ways=8:sequential-cutoff=512"));
        // Eight pages are read into the cache, or written there.
        bench.submit(HostOp::Write, 40, 8);
        assert!(bench.settle());
        (40..48).for_each(|page| drop(bench.read(page)));
        bench.control(Control::Drain);
        let before = bench.memory.engine().controller().counts().expect("the cache counts").bypassed;
        let tags = write_all(&mut bench, 4, 4);
        let counts = *bench.memory.engine().controller().counts().expect("the cache counts");
        // The first write alone is less than eight pages long.
        let passed = counts.bypassed - before;
        assert!((PAGES - 4 - 8..=PAGES - 4).contains(&passed), "{cache}: {passed} of {PAGES} pages");
        check(&mut bench, &tags, 4, cache);
        bench.control(Control::Clean);
        check(&mut bench, &tags, 4, cache);
        bench.check(cache);
    }
}

#[test]
fn a_run_that_passes_dirty_pages_by_writes_full_rows() {
    let mut bench = bench("write-back:log=20:ways=8:dirty-high=100:dirty-low=99:clean-after=1h:sequential-cutoff=512");
    assert!(bench.settle(), "the log is made");
    for page in [20, 25, 33, 38, 47, 50] {
        bench.submit(HostOp::Write, page, 1);
    }
    assert!(bench.settle());
    let before = *bench.memory.engine().controller().array().stats();
    let tags = write_all(&mut bench, 16, 1);
    let controller = bench.memory.engine().controller();
    let stats = *controller.array().stats();
    assert_eq!(controller.counts().expect("the cache counts").overwritten, 6);
    assert_eq!((stats.data_reads, stats.parity_reads), (before.data_reads, before.parity_reads), "nothing is read");
    check(&mut bench, &tags, 16, "over dirty pages");
    bench.control(Control::Clean);
    check(&mut bench, &tags, 16, "all on the members");
    bench.check("over dirty pages");
}

#[test]
fn a_run_that_finds_much_dirty_passes_it_by_and_has_nothing_written_back() {
    // Of the 64 frames 24 are dirty, which is less than twice `dirty-high`, or more.
    for (high, passed) in [(100, 0), (15, 24)] {
        let cache = format!(
            "write-back:log=20:ways=64:dirty-high={high}:dirty-low=0:at-once=1:clean-after=1h:sequential-cutoff=4096"
        );
        let mut bench = StripeCacheRun::with_cache(&cache, 96, RaidLevel::Raid5, ParityMethod::Min, 16);
        assert!(bench.settle(), "the log is made");
        for page in (8..56).step_by(2) {
            bench.submit(HostOp::Write, page, 1);
        }
        assert!(bench.acked(24), "all is served");
        let written_back = |bench: &StripeCacheRun| bench.memory.engine().controller().figures()[0];
        let before = written_back(&bench);
        // An eighth of the cutoff is two of them.
        let tags: Vec<u64> = (0..32).step_by(4).map(|page| bench.submit(HostOp::Write, page, 4)).collect();
        assert!(bench.settle(), "all is served");
        let counts = *bench.memory.engine().controller().counts().expect("the cache counts");
        assert_eq!(counts.bypassed, passed, "dirty-high={high}");
        assert!(
            written_back(&bench) <= before + 1,
            "dirty-high={high}: {} more than {before} pages were written back",
            written_back(&bench) - before
        );
        let tags: Vec<u64> = tags.iter().flat_map(|tag| [*tag; 4]).collect();
        check(&mut bench, &tags, 4, "much is dirty");
        bench.control(Control::Drain);
        check(&mut bench, &tags, 4, "all on the members");
        bench.check("much was dirty");
    }
}

#[test]
fn a_run_that_is_read_does_not_fill_the_cache() {
    for cache in ["write-around", "write-through", "leavo:log=20", "kdd:log=20", "write-back:log=20"] {
        let mut bench = bench(&format!("{cache}:ways=8:sequential-cutoff=512"));
        for page in 0..PAGES {
            bench.read(page);
        }
        let counts = *bench.memory.engine().controller().counts().expect("the cache counts");
        // Not all that may come in finds room.
        assert!(counts.read_fills <= 7 && counts.bypassed == PAGES - 7, "{cache}: {counts:?}");
    }
}

#[test]
fn what_is_dirty_of_a_stripe_is_written_back_together() {
    for (unit, full) in [("page", 0), ("stripe", 3)] {
        let mut bench =
            bench(&format!("write-back:log=20:ways=32:dirty-high=100:dirty-low=0:clean-after=1h:destage-unit={unit}"));
        assert!(bench.settle(), "the log is made");
        for column in [2, 0, 3, 1] {
            (0..3).rev().for_each(|row| bench.write(row, column));
        }
        bench.control(Control::Drain);
        let controller = bench.memory.engine().controller();
        assert_eq!(controller.status().dirty_rows, 0, "{unit}");
        assert_eq!(controller.array().stats().full_writes, full, "{unit}: rows that are written in full read nothing");
        bench.check(unit);
    }
}

#[test]
fn a_cutoff_below_a_page_is_refused() {
    let geometry = Geometry::new(RaidLevel::Raid5, None, 5, 4, 64).expect("a shape that can be");
    for cache in ["write-around", "write-through", "write-back", "leavo", "kdd"] {
        for (cutoff, is_right) in
            [("0", true), ("4", false), ("4095", false), ("4KiB", true), ("4MiB", true), ("x", false)]
        {
            let asked = format!("{cache}:sequential-cutoff={cutoff}");
            let made = serve(&asked, &ArrayConfig::new(geometry.clone()), 64);
            let said = made.err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(said.is_empty(), is_right, "{asked}: {said}");
            assert!(is_right || said.contains("sequential-cutoff"), "{said}");
        }
    }
}
