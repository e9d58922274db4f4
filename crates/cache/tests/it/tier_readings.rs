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
        rcw_from_cache: RcwFromCache::NotMore,
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

/// Of two pages one is cached, and neither is written without its parity. By §9.2 and §9.4 the parity of the cached one is
/// left behind.
#[test]
fn one_page_that_is_missed_has_a_whole_piece_written_with_its_parity() {
    for name in ["kdd", "leavo"] {
        let counted = assert_differs(&case(name, SHAPE, 16), &reads([0]), pages(HostOp::Write, 0, 2), 0);
        assert_eq!(counted.map(|of| of.parity_writes), [2, 1], "{name}");
        assert_eq!(counted.map(|of| of.write_hits), [1, 1], "{name}");
    }
}

/// Three of four pages of a row are written, among them the one that its parity does not cover. The parity is computed, for
/// which one page is read. By §9.4 it is modified with what it covers of each page.
#[test]
fn parity_is_computed_where_all_old_pages_of_a_row_are_written() {
    for name in ["kdd", "leavo"] {
        let before = [reads([0]), vec![pages(HostOp::Write, 0, 1)]].concat();
        let shape = Shape { k: 4, m: 1, chunk: 1 };
        let counted = assert_differs(&case(name, shape, 16), &before, pages(HostOp::Write, 0, 3), 0);
        assert_eq!(counted.map(|of| [of.data_reads, of.parity_reads]), [[2, 0], [3, 2]], "{name}");
    }
}

/// A page that is cached is written after one of a row that is behind, and counts as missed: it is dropped before. By §0.1
/// and §0.3 it is a hit.
#[test]
fn a_cached_page_in_a_row_after_one_that_is_behind_counts_as_missed() {
    for name in ["kdd", "leavo"] {
        let before = [reads([2]), vec![pages(HostOp::Write, 2, 1)], reads([1])].concat();
        let counted = assert_differs(&case(name, SHAPE, 16), &before, pages(HostOp::Write, 0, 2), 0);
        assert_eq!(counted.map(|of| of.write_hits), [1, 2], "{name}");
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
