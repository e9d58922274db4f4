//! Smallest cases in which the caches on an SSD do not do what the specs say (`Reading` of the naive model). Each has a
//! request of several pages, or of a part of one; `docs/specs/tier.md` lists them.

use destage_plan::HostOp;
use destage_testkit::TestRng;

use crate::tier_beside::{Case, PAGE, Pair, Request, SECTOR};
use crate::tier_model::counters::Counters;
use crate::tier_model::params::{Params, Reading, Shape};

/// RAID-5 of four data columns and two rows a stripe: page 0 to 7 are the first two rows, column by column.
const SHAPE: Shape = Shape { k: 4, m: 1, chunk: 2 };

/// A cache of so many pages in one set.
fn case(name: &'static str, shape: Shape, pages: u64) -> Case {
    let params = Params {
        stale_visible: true,
        associativity: pages,
        page_bytes: PAGE as u32,
        delta_max: PAGE as u32,
        log_pages: 1 << 12,
        pages,
        ..Params::new(shape, pages)
    };
    let cache = format!("{name}:ways={pages}");
    Case { name, cache, params, stripes: 4, reads: 0 }
}

fn reads(pages: impl IntoIterator<Item = u64>) -> Vec<Request> {
    pages.into_iter().map(|page| Request::page(HostOp::Read, page)).collect()
}

/// Pages one after the other.
const fn pages(op: HostOp, first: u64, count: u64) -> Request {
    Request { op, offset: first * PAGE, len: count * PAGE }
}

/// Serves requests of single pages and then one more. Checks that the cache does as it is built, and that it departs from
/// the specs in the last. Returns what is counted as it is built, and by the specs.
fn assert_differs(case: &Case, before: &[Request], last: Request, seed: u64) -> [Counters; 2] {
    [Reading::AsBuilt, Reading::Paper].map(|reading| {
        let mut case = case.clone();
        case.params.reading = reading;
        let (mut pair, mut dice) = (Pair::new(&case), TestRng::new(seed));
        for &request in before {
            assert_eq!(pair.serve(request, &mut dice), Ok(()), "{}", case.cache);
        }
        let served = pair.serve(last, &mut dice);
        assert_eq!(served.is_ok(), reading == Reading::AsBuilt, "{} as {reading:?}: {served:?}", case.cache);
        pair.counters()
    })
}

/// Page 0 has been evicted, and page 1 is next. Page 1 is found before page 0 takes its slot. By §0.1 pages are looked up
/// one after the other.
#[test]
fn hits_of_a_read_are_looked_up_before_its_misses() {
    for name in ["write-around", "write-through"] {
        let counted = assert_differs(&case(name, SHAPE, 12), &reads(0..=12), pages(HostOp::Read, 0, 2), 0);
        assert_eq!(counted.map(|of| of.read_hits), [1, 0], "{name}");
    }
}

/// A sector of a cached page is written. What else the page holds is read from its member. By §0.1 it is read on a miss
/// alone.
#[test]
fn the_rest_of_a_cached_page_is_read_from_its_member() {
    for name in ["write-around", "write-through"] {
        let sector = Request { op: HostOp::Write, offset: 0, len: SECTOR };
        let shape = Shape { k: 2, m: 1, chunk: 1 };
        let counted = assert_differs(&case(name, shape, 16), &reads([0]), sector, 0);
        assert_eq!(counted.map(|of| of.data_reads), [3, 2], "{name}");
    }
}
