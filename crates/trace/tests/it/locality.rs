//! Reuse distances and fills of blocks against a naive model that keeps its LRU lists as lists, and
//! a worked example.

use std::collections::BTreeSet;

use destage_plan::PageGeometry;
use destage_trace::{
    BlockFill, LOCALITY_FILL_CLASSES, LOCALITY_LISTS, LocalityCollector, LocalityOf, LocalitySummary, Nanos, Op,
    Request, ReuseCounts,
};
use proptest::prelude::*;

const PAGE: u64 = 4096;
const BLOCK: u64 = 64 * PAGE;

fn request(op: Op, volume: u32, offset: u64, len: u64) -> Request {
    Request { time: Nanos(0), offset, len, volume, op, fua: false }
}

fn locality(of: LocalityOf, requests: &[Request]) -> LocalitySummary {
    let mut locality = LocalityCollector::new(PageGeometry::new(PAGE, 64).unwrap(), of);
    let (a, b) = requests.split_at(requests.len() / 3);
    locality.feed(a).unwrap();
    locality.feed(b).unwrap();
    locality.finish()
}

fn pieces(r: &Request, size: u64) -> impl Iterator<Item = (u32, u64)> + use<> {
    let (volume, end) = (r.volume, if r.len == 0 { 0 } else { (r.offset + r.len - 1) / size + 1 });
    (r.offset / size..end).map(move |piece| (volume, piece))
}

/// Distances by a list with the latest touched first.
fn reuse(touched: impl Iterator<Item = (u32, u64)>) -> ReuseCounts {
    let (mut list, mut reuse) = (vec![], ReuseCounts::default());
    for piece in touched {
        reuse.touches += 1;
        if let Some(distance) = list.iter().position(|&held| held == piece) {
            list.remove(distance);
            let class = (0..32).find(|&k| distance < 1 << k).unwrap();
            reuse.distances.resize(reuse.distances.len().max(class + 1), 0);
            reuse.distances[class] += 1;
        } else {
            reuse.first += 1;
        }
        list.insert(0, piece);
    }
    reuse
}

/// Holds a block, its touched pages, and the number of touches.
type Held = ((u32, u64), BTreeSet<u64>, u64);

/// Stays in a real list of so many blocks.
fn fill(list_blocks: u32, requests: &[&Request]) -> BlockFill {
    let mut list: Vec<Held> = vec![];
    let mut fill = BlockFill::default();
    let end = |fill: &mut BlockFill, (_, pages, touches): Held| {
        fill.stays += 1;
        fill.pages += pages.len() as u64;
        fill.touches += touches;
        let class = LOCALITY_FILL_CLASSES.iter().position(|&bound| pages.len() <= bound as usize);
        fill.classes[class.unwrap()] += 1;
    };
    for r in requests {
        for block in pieces(r, BLOCK) {
            let place = list.iter().position(|held| held.0 == block);
            let mut held = place.map_or_else(|| (block, BTreeSet::new(), 0), |place| list.remove(place));
            held.1.extend(pieces(r, PAGE).map(|(_, page)| page).filter(|page| page / 64 == block.1));
            held.2 += 1;
            list.insert(0, held);
            if list.len() > list_blocks as usize {
                let last = list.pop().unwrap();
                end(&mut fill, last);
            }
        }
    }
    for held in list {
        end(&mut fill, held);
    }
    fill
}

fn model(of: LocalityOf, requests: &[Request]) -> LocalitySummary {
    let counts = |r: &&Request| match r.op {
        Op::Write => of != LocalityOf::Reads,
        Op::Read => of != LocalityOf::Writes,
        Op::Flush | Op::Discard => false,
    };
    let requests: Vec<&Request> = requests.iter().filter(counts).collect();
    LocalitySummary {
        pages: reuse(requests.iter().flat_map(|r| pieces(r, PAGE))),
        blocks: reuse(requests.iter().flat_map(|r| pieces(r, BLOCK))),
        fills: LOCALITY_LISTS.map(|list| fill(list, &requests)),
        long_requests: 0,
    }
}

fn any_request() -> impl Strategy<Value = Request> {
    // Near places, so that blocks leave short lists and come back, and far ones.
    let offset = prop_oneof![0..40 * BLOCK, (0..40_u64).prop_map(|n| n * BLOCK), Just(1 << 50)];
    let len = prop_oneof![0..3 * PAGE, 0..2 * BLOCK, Just(BLOCK)];
    (offset, len, 0..2_u32, 0..4_usize).prop_map(|(offset, len, volume, op)| request(Op::ALL[op], volume, offset, len))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn locality_is_that_of_the_model(requests in prop::collection::vec(any_request(), 0..300)) {
        for of in [LocalityOf::Writes, LocalityOf::Reads, LocalityOf::Both] {
            prop_assert_eq!(locality(of, &requests), model(of, &requests));
        }
    }
}

/// Twenty thousand touches: moments are numbered anew many times, while there are few pages and
/// while they grow.
#[test]
fn a_long_trace_is_that_of_the_model() {
    let mut x = 1_u64;
    let mut draw = |n: u64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % n
    };
    let requests: Vec<Request> = (0..20_000_u64)
        .map(|i| {
            let block = if draw(4) == 0 { draw(1 + i / 20) } else { draw(3) * 7 };
            request(Op::Write, 0, block * BLOCK + draw(64) * PAGE, PAGE)
        })
        .collect();
    let summary = locality(LocalityOf::Writes, &requests);
    assert!(summary.pages.first > 4000 && summary.blocks.first > 800, "{summary:?}");
    assert_eq!(summary, model(LocalityOf::Writes, &requests));
}

#[test]
fn a_worked_example() {
    let write = |block: u64, page: u64, pages: u64| request(Op::Write, 0, block * BLOCK + page * PAGE, pages * PAGE);
    // Pages 0 and 1 of block 0, then five other blocks whole, page 1 of block 0, and it again.
    let mut requests = vec![write(0, 0, 2)];
    requests.extend((1..6).map(|block| write(block, 0, 64)));
    requests.extend([write(0, 1, 1), write(0, 1, 1), request(Op::Read, 0, 0, 64 * PAGE)]);
    let summary = locality(LocalityOf::Writes, &requests);
    // Page 1 comes back after 320 other pages, then at once.
    let mut distances = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(summary.pages, ReuseCounts { touches: 324, first: 322, distances: distances.clone() });
    // Its block after 5 others, then at once.
    distances.truncate(3);
    distances.push(1);
    assert_eq!(summary.blocks, ReuseCounts { touches: 8, first: 6, distances });
    assert_eq!([2, 3].map(|k| summary.blocks.hit_percent(k).to_string()), ["12.5", "25"]);
    // A list of 4 has lost block 0 meanwhile, one of 16 has not.
    let of_4 = BlockFill { stays: 7, pages: 323, touches: 8, classes: [1, 1, 0, 0, 0, 0, 0, 5] };
    let of_16 = BlockFill { stays: 6, pages: 322, touches: 8, classes: [0, 1, 0, 0, 0, 0, 0, 5] };
    assert_eq!(summary.fills[..2], [of_4, of_16]);
    assert_eq!([of_4.mean_pages(), of_4.mean_touches()].map(|mean| format!("{mean:.3}")), ["46.143", "1.143"]);
}

#[test]
fn long_requests_are_left_out_and_counted() {
    let summary = locality(LocalityOf::Writes, &[request(Op::Write, 0, 0, PAGE << 16), request(Op::Write, 0, 0, PAGE)]);
    assert_eq!((summary.long_requests, summary.pages.touches, summary.pages.first), (1, 1, 1));
}
