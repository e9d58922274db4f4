//! Smallest cases in which the caches on an SSD do not do what the specs say (`SpecReading` of the naive model). Each has a
//! request of several pages, or of a part of one; `docs/specs/tier.md` lists them.

use destage_plan::HostOp;
use destage_testkit::TestRng;

use crate::spec_reading::SpecReading;
use crate::tier_beside::{Case, DrawnRequest, PAGE, Pair, SECTOR};
use crate::tier_model::counters::Counters;
use crate::tier_model::params::{Params, RcwFromCache, Shape};

/// Describes a RAID-5 of four data columns and two rows a stripe: pages 0 to 7 are the first two rows, column by column.
const SHAPE: Shape = Shape { k: 4, m: 1, chunk: 2 };

/// Returns a cache of so many pages in one set, with far thresholds of cleaning.
fn case(name: &'static str, shape: Shape, pages: u64) -> Case {
    let params = Params {
        stale_visible: true,
        associativity: pages,
        page_bytes: PAGE as u32,
        delta_max: PAGE as u32,
        log_pages: 1 << 12,
        dirty_high: 70,
        dirty_low: 10,
        rcw_from_cache: RcwFromCache::Fewer,
        admit_forgets: true,
        few_bare: true,
        bypass_full: true,
        pages,
        ..Params::new(shape, pages)
    };
    let mut cache = format!("{name}:ways={pages}");
    if matches!(name, "leavo" | "kdd") {
        cache.push_str(":dirty-high=70:dirty-low=10:set-low=30:clean-after=1h:log=0");
    }
    if name == "kdd" {
        cache.push_str(":reclaim=free");
    }
    Case { name, cache, params, stripes: 4, reads: 0 }
}

fn reads(pages: impl IntoIterator<Item = u64>) -> Vec<DrawnRequest> {
    pages.into_iter().map(|page| DrawnRequest::page(HostOp::Read, page)).collect()
}

/// Returns a request of pages one after the other.
const fn pages(op: HostOp, first: u64, count: u64) -> DrawnRequest {
    DrawnRequest { op, offset: first * PAGE, len: count * PAGE }
}

/// Serves requests of single pages and then one more. Checks that the cache does as it is built, and that it departs from
/// the specs in the last. Returns what is counted as it is built, and by the specs.
fn assert_differs(case: &Case, before: &[DrawnRequest], last: DrawnRequest, seed: u64) -> [Counters; 2] {
    [SpecReading::AsBuilt, SpecReading::Paper].map(|reading| {
        let mut case = case.clone();
        case.params.reading = reading;
        let (mut pair, mut dice) = (Pair::new(&case), TestRng::new(seed));
        for &request in before {
            assert_eq!(pair.serve(request, &mut dice), Ok(()), "{}", case.cache);
        }
        let served = pair.serve(last, &mut dice);
        assert_eq!(served.is_ok(), reading == SpecReading::AsBuilt, "{} as {reading:?}: {served:?}", case.cache);
        pair.counters()
    })
}

/// Serves requests as [`assert_differs`] does. Checks that the cache does as it is built and as the specs say.
fn assert_same(case: &Case, before: &[DrawnRequest], last: DrawnRequest) -> Counters {
    let [as_built, paper] = [SpecReading::AsBuilt, SpecReading::Paper].map(|reading| {
        let mut case = case.clone();
        case.params.reading = reading;
        let (mut pair, mut dice) = (Pair::new(&case), TestRng::new(0));
        for &request in before.iter().chain([&last]) {
            assert_eq!(pair.serve(request, &mut dice), Ok(()), "{} as {reading:?}", case.cache);
        }
        pair.counters()
    });
    assert_eq!(as_built, paper, "{}", case.cache);
    as_built
}

/// Checks a piece of two pages of which one is cached. Its parity is left behind (§9.2, §9.4), and that of the other is not.
#[test]
fn each_page_of_a_piece_is_a_hit_or_a_miss() {
    for name in ["kdd", "leavo"] {
        let counted = assert_same(&case(name, SHAPE, 16), &reads([0]), pages(HostOp::Write, 0, 2));
        assert_eq!((counted.write_hits, counted.parity_writes), (1, 1), "{name}");
    }
}

/// Checks a piece the row of whose first page is behind, and the page is missed. The second is cached, and a hit.
#[test]
fn a_page_after_one_of_a_row_that_is_behind_is_a_hit() {
    for name in ["kdd", "leavo"] {
        let before = [reads([2]), vec![pages(HostOp::Write, 2, 1)], reads([1])].concat();
        let counted = assert_same(&case(name, SHAPE, 16), &before, pages(HostOp::Write, 0, 2));
        assert_eq!(counted.write_hits, 2, "{name}");
    }
}

/// Checks two missed pages of a row that is behind: its parity is read once for both. By §0.1 it is read for each.
#[test]
fn pages_of_a_row_that_are_missed_are_written_together() {
    for name in ["kdd", "leavo"] {
        let before = [reads([0]), vec![pages(HostOp::Write, 0, 1)]].concat();
        let shape = Shape { k: 4, m: 1, chunk: 1 };
        let counted = assert_differs(&case(name, shape, 16), &before, pages(HostOp::Write, 0, 3), 0);
        assert_eq!(counted.map(|of| [of.data_reads, of.parity_reads]), [[3, 1], [3, 2]], "{name}");
    }
}

/// Checks two rows that are written whole, each with one page that is cached and one that is not. They are written with their parity, and
/// nothing is read (§9.8.18); since the first is behind, what is cached of the second is dropped before. By §0.1 both
/// cached pages are hits.
#[test]
fn cached_pages_of_rows_that_are_written_whole_are_hits_only_if_all_are_cached() {
    for name in ["kdd", "leavo"] {
        let before = [reads([0]), vec![pages(HostOp::Write, 0, 1)], reads([1])].concat();
        let shape = Shape { k: 2, m: 1, chunk: 2 };
        let counted = assert_differs(&case(name, shape, 16), &before, pages(HostOp::Write, 0, 4), 0);
        assert_eq!(counted.map(|of| of.write_hits), [1, 3], "{name}");
    }
}

/// The first delta of a piece is packed alone, as the others are not in the NVRAM so far. By §9.4 all that is staged is
/// packed.
#[test]
fn a_piece_packs_its_first_delta_alone() {
    let counted = assert_differs(&case("kdd", SHAPE, 64), &reads(0..8), pages(HostOp::Write, 0, 8), 0);
    assert_eq!(counted.map(|of| of.deltas), [2, 1]);
}

/// Page 0 has been evicted, and page 1 is next. Page 1 is found before page 0 takes its slot. By §0.1 pages are looked up
/// one after the other.
#[test]
fn hits_of_a_read_are_looked_up_before_its_misses() {
    for name in ["write-around", "write-through", "leavo", "kdd"] {
        let counted = assert_differs(&case(name, SHAPE, 12), &reads(0..=12), pages(HostOp::Read, 0, 2), 0);
        assert_eq!(counted.map(|of| of.read_hits), [1, 0], "{name}");
    }
}

/// A sector of a cached page is written. What else the page holds is read from its member. By §0.1 it is read on a miss
/// alone.
#[test]
fn the_rest_of_a_cached_page_is_read_from_its_member() {
    for name in ["write-around", "write-through"] {
        let sector = DrawnRequest { op: HostOp::Write, offset: 0, len: SECTOR };
        let shape = Shape { k: 2, m: 1, chunk: 1 };
        let counted = assert_differs(&case(name, shape, 16), &reads([0]), sector, 0);
        assert_eq!(counted.map(|of| of.data_reads), [3, 2], "{name}");
    }
}
