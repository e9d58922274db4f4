//! Checks that writes of one page that wait for each other are carried out as one by caches that leave parity as it is.

use destage_plan::{Control, HostOp};
use destage_raid::RaidLevel;
use destage_raid::array::ParityMethod;

use crate::stripe_cache::{NothingUnflushed, PAGE, StripeCacheRun, written};

/// Names caches that write a page that changes wholly to its member and to their device.
const CACHES: [&str; 2] = ["kdd:ways=16", "leavo:ways=16"];

/// Makes an array with a row in its cache.
fn with_row(cache: &str) -> StripeCacheRun {
    let mut bench = StripeCacheRun::with_cache(cache, 64, RaidLevel::Raid5, ParityMethod::Min, 16);
    (0..4).for_each(|column| bench.write(0, column));
    bench
}

/// Counts the pages that are written while the cache has them.
fn hits(bench: &StripeCacheRun) -> u64 {
    bench.memory.engine().controller().counts().expect("a cache counts").write_hits
}

#[test]
fn waiting_writes_of_a_page_are_carried_out_as_one() {
    for cache in CACHES {
        let mut bench = with_row(cache);
        let before = (written(&bench), hits(&bench));
        let page = StripeCacheRun::page(0, 1);
        let other = bench.submit(HostOp::Write, StripeCacheRun::page(0, 2), 1);
        let tags: Vec<u64> = (0..5).map(|_| bench.submit(HostOp::Write, page, 1)).collect();
        assert!(bench.settle(), "{cache}: all writes are served");
        // The first of another page, then those of the page as one.
        assert_eq!(written(&bench) - before.0, 2 * 2, "{cache}");
        assert_eq!(hits(&bench) - before.1, 6, "{cache}: each hits");
        assert_eq!(bench.read(page), StripeCacheRun::bytes(tags[4], page, 1), "{cache}");
        let page = StripeCacheRun::page(0, 2);
        assert_eq!(bench.read(page), StripeCacheRun::bytes(other, page, 1), "{cache}");
        bench.control(Control::Drain);
        bench.check(cache);
    }
}

#[test]
fn a_write_of_another_page_parts_them() {
    for cache in CACHES {
        let mut bench = with_row(cache);
        let before = written(&bench);
        for column in [1, 1, 1, 2, 1, 1] {
            bench.submit(HostOp::Write, StripeCacheRun::page(0, column), 1);
        }
        assert!(bench.settle(), "{cache}: all writes are served");
        // One alone, two as one, the other page, and two as one.
        assert_eq!(written(&bench) - before, 4 * 2, "{cache}");
        bench.control(Control::Drain);
        bench.check(cache);
    }
}

#[test]
fn writes_that_are_carried_out_as_one_are_as_durable_as_one_of_them_asks() {
    for cache in CACHES {
        let mut bench = with_row(cache);
        let page = StripeCacheRun::page(0, 1);
        let tags = [false, false, true, false].map(|fua| bench.submit_fua(HostOp::Write, page, 1, fua));
        assert!(bench.settle(), "{cache}: all writes are served");
        let image = bench.memory.cut(&mut NothingUnflushed).disks[bench.member(0, 1).index()].image.clone();
        assert_eq!(image[..PAGE as usize], StripeCacheRun::bytes(tags[3], page, 1), "{cache}");
    }
}

#[test]
fn parts_of_pages_and_zeros_are_written_one_by_one() {
    for cache in CACHES {
        let mut bench = with_row(cache);
        let page = StripeCacheRun::page(0, 1);
        let first = bench.submit(HostOp::Write, page, 1);
        bench.submit(HostOp::WriteZeroes, page, 1);
        assert!(bench.settle(), "{cache}: both are served");
        assert_eq!(bench.read(page), vec![0; PAGE as usize], "{cache}: not the bytes of {first}");
        bench.submit(HostOp::Write, page, 1);
        bench.submit(HostOp::Write, page, 1);
        bench.submit(HostOp::WriteZeroes, page, 1);
        let last = bench.submit(HostOp::Write, page, 1);
        assert!(bench.settle(), "{cache}: all are served");
        assert_eq!(bench.read(page), StripeCacheRun::bytes(last, page, 1), "{cache}");
        bench.control(Control::Drain);
        bench.check(cache);
    }
}
