//! Compares the SSD with the model: how much a collection cleans and where it puts the moved pages. Further
//! tests show the effect of each choice.

use super::*;

const BATCHES: [Quota; 4] = [Quota::Watermark, Quota::Blocks(1), Quota::Blocks(2), Quota::Blocks(7)];

/// Every batch with either write point, copy-back on and off, from two start states.
#[test]
fn every_collector_agrees_with_the_model() {
    for (i, collection_batch) in (0..).zip(BATCHES) {
        for collection_write_point in CollectionPoint::ALL {
            let aged = StartState::Aged { overwrites_pct: 150, seed: 3 };
            for (k, (config, start)) in (0..).zip([
                (SsdConfig { lanes: 2, ..small() }, aged),
                (SsdConfig { lanes: 2, ..small() }, StartState::Empty),
                (copying_back(2, 2), StartState::Full),
                (copying_back(3, 2), aged),
            ]) {
                let config = SsdConfig {
                    collection_batch,
                    collection_write_point,
                    summary_page: (i + k) % 2 == 0,
                    background: k == 2,
                    reserve_bp: 2600,
                    ..config
                };
                driven(&config, 5, start, 8_000 * soak(), i * 4 + k);
            }
        }
    }
}

/// The smallest reserve with which collection's own write point is allowed: every plane comes close to full.
#[test]
fn an_own_write_point_works_with_the_smallest_reserve() {
    for (config, pages) in [(copying_back(3, 1), 4), (copying_back(4, 3), 1), (small(), 4)] {
        for collection_batch in BATCHES {
            let config = SsdConfig {
                // 6 of a plane's 24 blocks, or 3 of each 16 of both planes.
                reserve_bp: if config.copy_back { 2500 } else { 1875 },
                min_free_bp: 0,
                summary_page: false,
                lanes: config.lanes.min(config.planes),
                collection_batch,
                collection_write_point: CollectionPoint::Own,
                ..config.clone()
            };
            let shared = SsdConfig { collection_write_point: CollectionPoint::Shared, ..config.clone() };
            driven(&config, pages, StartState::Full, 8_000 * soak(), 1);
            driven(&shared, pages, StartState::Full, 8_000 * soak(), 1);
        }
    }
}

/// One element of 40 blocks of 4 pages, 26 of them exported, which collects at one free block or none.
fn collector(collection_batch: Quota, collection_write_point: CollectionPoint) -> Ssd {
    let config = SsdConfig {
        elements: 1,
        planes: 1,
        lanes: 1,
        blocks_per_plane: 40,
        reserve_bp: 3500,
        min_free_bp: 0,
        summary_page: false,
        collection_batch,
        collection_write_point,
        ..SsdConfig::default()
    };
    let shape = SsdShape::new(config, PageGeometry::new(4096, 4).expect("a geometry")).expect("a shape");
    assert_eq!((shape.pool_low, shape.host_pages), (1, 26 * 4));
    Ssd::new(shape, StartState::Full)
}

/// Three pages of each of the first 17 blocks are overwritten, so that each victim has one valid page; the write that
/// finds one free block collects. Two victims are enough to have more than two blocks free.
#[test]
fn a_batch_is_what_one_collection_cleans() {
    let after = |batch| {
        let mut ssd = collector(batch, CollectionPoint::Shared);
        let pages = (0..17 * 4).filter(|page| page % 4 > 0);
        let mut last = ElementCounters::default();
        for page in pages.chain(80..84) {
            ssd.program(Nanos::ZERO, PageNo(page));
            last = ssd.total();
            if last.gc_invocations > 0 {
                break;
            }
        }
        (last.gc_invocations, last.erases, last.gc_pages_moved, ssd.total_free_blocks())
    };
    assert_eq!(after(Quota::Blocks(1)), (1, 1, 1, 2));
    assert_eq!(after(Quota::Blocks(2)), (1, 2, 2, 3));
    assert_eq!(after(Quota::Watermark), (1, 2, 2, 3));
    assert_eq!(after(Quota::Blocks(5)), (1, 5, 5, 5));
}

/// Survivors lie together with hosts' pages, or apart: then the same block takes those of several collections, and
/// hosts' pages go on where they were.
#[test]
fn an_own_write_point_keeps_survivors_apart() {
    let free_pages = |point| {
        let mut ssd = collector(Quota::Blocks(1), point);
        let mut pages = (0..17 * 4).filter(|page| page % 4 > 0);
        while ssd.total().gc_invocations == 0 {
            ssd.program(Nanos::ZERO, PageNo(pages.next().expect("it collects before that")));
        }
        ssd.check().expect("the map and its inverse agree");
        (ssd.total_free_blocks(), ssd.page_states().free)
    };
    // A survivor and two hosts' pages are in the active block, one page of it is free.
    assert_eq!(free_pages(CollectionPoint::Shared), (2, 2 * 4 + 1));
    // Two hosts' pages are in theirs; a block that was free has the survivor.
    assert_eq!(free_pages(CollectionPoint::Own), (1, 4 + 2 + 3));
}

/// An order says how much is to be collected, whatever the SSD's own collections clean.
#[test]
fn orders_do_not_ask_the_batch() {
    for (quota, erases) in [(Quota::Blocks(3), 3), (Quota::Watermark, 0)] {
        let mut ssd = collector(Quota::Blocks(1), CollectionPoint::Own);
        (0..8 * 4).filter(|page| page % 4 > 0).for_each(|page| _ = ssd.program(Nanos::ZERO, PageNo(page)));
        assert_eq!(ssd.total().gc_invocations, 0);
        ssd.collect(Nanos::ZERO, quota);
        assert_eq!((ssd.total().erases, ssd.total().ordered_erases), (erases, erases), "{quota:?}");
    }
}
