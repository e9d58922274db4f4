//! Shapes at the limit of what is allowed, and the specification's worked example.

use proptest::prelude::*;

use super::*;

/// 55 blocks with 15 pages of data hold 825 pages, of which hosts can address the 51 logical blocks
/// of 16 that are whole.
#[test]
fn a_full_device_maps_what_hosts_can_address() {
    let full = |elements, stride, copy_back| {
        let config = SsdConfig {
            elements,
            planes: 1,
            blocks_per_plane: 65,
            reserve_bp: 1540,
            lanes: 1,
            stride,
            copy_back,
            ..SsdConfig::default()
        };
        let shape = SsdShape::new(config, PageGeometry::new(4096, 16).expect("a geometry")).expect("a shape");
        assert_eq!(shape.element_pages, 825);
        let ssd = Ssd::new(shape, StartState::Full);
        ssd.check().expect("the map and its inverse agree");
        (ssd.shape().host_pages, ssd.page_states().valid)
    };
    for copy_back in [false, true] {
        assert_eq!(full(1, 1, copy_back), (816, 816));
        assert_eq!(full(2, 1, copy_back), (1648, 1648));
        // The last 8 pages are a stride of one element and one page of the other's.
        assert_eq!(full(2, 7, copy_back), (1632, 1632));
        assert_eq!(full(2, 32, copy_back), (1600, 1600));
    }
}

/// The write that fills a block's last page of data is done when the summary behind it is.
#[test]
fn a_write_that_fills_a_block_waits_for_its_summary() {
    let config = SsdConfig { elements: 1, planes: 1, blocks_per_plane: 40, lanes: 1, ..SsdConfig::default() };
    let shape = SsdShape::new(config, PageGeometry::new(4096, 4).expect("a geometry")).expect("a shape");
    let mut ssd = Ssd::new(shape, StartState::Empty);
    let mut write = |at, page| ssd.program(Nanos(at), PageNo(page)).0;
    // A page takes 200 µs and eight sectors of 13.2 µs, the summary 200 µs and one sector.
    assert_eq!([write(0, 0), write(0, 1), write(0, 2)], [305_600, 611_200, 916_800 + 213_200]);
    assert_eq!(write(0, 3), 1_130_000 + 305_600);
    assert_eq!(ssd.total().summary_programs, 1);
}

/// One block per page, one page per element, blocks larger than a bitmap's word, many elements.
#[test]
fn odd_sizes() {
    let one = SsdConfig { elements: 1, planes: 1, lanes: 1, ..small() };
    let with = |blocks_per_plane, reserve_bp, summary_page| SsdConfig {
        blocks_per_plane,
        reserve_bp,
        summary_page,
        ..one.clone()
    };
    driven(&with(40, 1500, false), 1, StartState::Full, 20_000, 1);
    driven(&with(40, 1500, true), 2, StartState::Full, 20_000, 2);
    driven(&with(14, 4000, true), 64, StartState::Full, 20_000, 3);
    driven(&with(12, 4200, false), 100, StartState::Full, 20_000, 4);
    driven(&with(12, 4200, true), 130, StartState::Full, 20_000, 5);
    driven(&SsdConfig { elements: 7, ..with(24, 2500, true) }, 4, StartState::Full, 20_000, 6);
    driven(&SsdConfig { elements: 5, stride: 3, ..with(24, 2500, true) }, 4, StartState::Full, 20_000, 7);
}

/// Overwrites the device 20 times, with collection at its hardest, and checks the map.
fn survives(shape: &SsdShape, skewed: bool, seed: u64) -> Result<(), String> {
    let mut ssd = Ssd::new(shape.clone(), StartState::Full);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let pages = shape.host_pages;
    for i in 0..u64::from(pages) * 20 {
        // Nine of ten writes go to a tenth of the pages.
        let hot = skewed && below(&mut rng, 10) > 0;
        let page = below(&mut rng, if hot { pages.div_ceil(10) } else { pages });
        ssd.program(Nanos(i), PageNo(page));
    }
    let states = ssd.page_states();
    let config = &shape.config;
    let raw = u64::from(config.elements)
        * u64::from(config.planes)
        * u64::from(config.blocks_per_plane)
        * u64::from(shape.pages_per_block);
    if states.valid + states.free + states.invalid != raw {
        return Err(format!("{states:?} are not {raw} pages"));
    }
    if states.valid != u64::from(pages) {
        return Err(format!("{} pages are valid, {pages} can be addressed", states.valid));
    }
    ssd.check()
}

const PAGES_PER_BLOCK: [u64; 6] = [1, 2, 3, 64, 100, 256];

/// One block at a time is where free blocks are closest to running out.
fn any_batch() -> impl Strategy<Value = Quota> {
    prop_oneof![Just(Quota::Watermark), Just(Quota::Blocks(1)), (2..20_u32).prop_map(Quota::Blocks)]
}

fn any_point() -> impl Strategy<Value = CollectionPoint> {
    prop::sample::select(CollectionPoint::ALL.to_vec())
}

fn any_config() -> impl Strategy<Value = (SsdConfig, u64)> {
    let shape = (1..4_u32, 1..5_u32, 2..40_u32, 0..6000_u32, 0..3000_u32);
    let ways = (any::<[bool; 2]>(), 1..6_u32, prop::sample::select(vec![1_u32, 2, 3, 7, 64]), any::<bool>());
    (shape, ways, (any_batch(), any_point()), prop::sample::select(PAGES_PER_BLOCK.to_vec())).prop_map(
        |(
            (elements, planes, blocks_per_plane, reserve_bp, min_free_bp),
            ([copy_back, background], lanes, stride, summary_page),
            (collection_batch, collection_write_point),
            n,
        )| {
            let config = SsdConfig {
                elements,
                planes,
                // Large blocks on few planes: the number of writes grows with the device.
                blocks_per_plane: if n >= 64 { blocks_per_plane.min(16) } else { blocks_per_plane },
                reserve_bp,
                min_free_bp,
                copy_back,
                background,
                collection_batch,
                collection_write_point,
                lanes,
                stride,
                summary_page,
                ..SsdConfig::default()
            };
            (config, n)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200 * soak(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_shape_is_refused_or_works((config, n) in any_config(), skewed: bool, seed: u64) {
        let geometry = PageGeometry::new(4096, n).expect("a geometry");
        if let Ok(shape) = SsdShape::new(config, geometry) {
            let survived = survives(&shape, skewed, seed);
            prop_assert!(survived.is_ok(), "{:?}: {:?}", shape, survived);
        }
    }

    /// The smallest reserve that is allowed is enough.
    #[test]
    fn the_smallest_reserve_works((config, n) in any_config(), skewed: bool, seed: u64) {
        let geometry = PageGeometry::new(4096, n).expect("a geometry");
        let config = SsdConfig { lanes: config.lanes.min(config.planes), ..config };
        let blocks = config.blocks_per_plane;
        let shape = (0..blocks).find_map(|reserved| {
            let reserve_bp = (reserved * 10_000).div_ceil(blocks);
            SsdShape::new(SsdConfig { reserve_bp, ..config.clone() }, geometry).ok()
        });
        if let Some(shape) = shape {
            let survived = survives(&shape, skewed, seed);
            prop_assert!(survived.is_ok(), "{:?}: {:?}", shape, survived);
        }
    }

    /// Numbers far beyond any SSD are refused too, and nothing overflows on the way.
    #[test]
    fn no_numbers_make_validation_panic(
        counts in prop::array::uniform7(prop_oneof![0..5_u32, Just(4096), Just(1 << 24), any::<u32>()]),
        switches: (bool, bool, bool, bool),
        ftl in prop::sample::select(ssd::Ftl::ALL.to_vec()),
        log_blocks in prop_oneof![Just(None), (0..5_u32).prop_map(Some), any::<Option<u32>>()],
        batch in prop_oneof![Just(Quota::Watermark), any::<u32>().prop_map(Quota::Blocks), any_batch()],
        point in any_point(),
        times in prop::array::uniform4(prop_oneof![0..5_u64, any::<u64>()]),
        n in prop_oneof![Just(1_u64), Just(64), Just(65_536)],
    ) {
        let [elements, planes, blocks_per_plane, reserve_bp, min_free_bp, lanes, stride] = counts;
        let config = SsdConfig {
            ftl,
            log_blocks,
            elements,
            allocation: if switches.3 { ssd::PageAllocation::Channels } else { ssd::PageAllocation::Static },
            idle_first: switches.1,
            planes,
            blocks_per_plane,
            reserve_bp,
            kept_blocks: lanes,
            min_free_bp,
            read: Nanos(times[0]),
            program: Nanos(times[1]),
            erase: Nanos(times[2]),
            transfer_ps_per_byte: times[3],
            copy_back: switches.0,
            background: switches.2,
            collection_batch: batch,
            collection_write_point: point,
            lanes,
            stride,
            summary_page: switches.1,
            endurance: 1,
            queue_depth: log_blocks,
            modern: None,
        };
        if let Ok(shape) = SsdShape::new(config, PageGeometry::new(4096, n).expect("a geometry")) {
            prop_assert!(shape.memory_bytes() > 0);
            prop_assert!(shape.host_pages > 0 && shape.host_pages % shape.pages_per_block == 0);
        }
    }
}

/// 2^12 elements of 2^12 planes of 2^24 blocks of 2^16 pages are 2^64 pages.
#[test]
fn a_page_count_that_overflows_is_too_large() {
    let config = SsdConfig { elements: 1 << 12, planes: 1 << 12, blocks_per_plane: 1 << 24, ..SsdConfig::default() };
    let error = SsdShape::new(config, PageGeometry::new(4096, 1 << 16).expect("a geometry")).unwrap_err();
    assert!(error.to_string().contains("raw pages are more than 2^32 - 2"), "{error}");
}

/// The example of specs §1.2: blocks with 10 and 12 valid pages, no transfer: one collection of
/// 7.95 ms.
#[test]
fn worked_example() {
    let config = SsdConfig {
        elements: 1,
        planes: 1,
        blocks_per_plane: 20,
        reserve_bp: 3000,
        lanes: 1,
        transfer_ps_per_byte: 0,
        ..SsdConfig::default()
    };
    let shape = SsdShape::new(config, PageGeometry::new(4096, 64).expect("a geometry")).expect("a shape");
    assert_eq!((shape.pool_low, shape.element_pages), (1, 14 * 63));
    let mut ssd = Ssd::new(shape, StartState::Empty);
    let mut now = Nanos::ZERO;
    // 14 blocks of 63 data pages in order; 10 pages of the first stay, and 12 of the second; then a
    // few of each of the others, until the 19th block has taken a page and one block is free.
    let others = (2..14).flat_map(|block| (0..13).map(move |page| block * 63 + page));
    let writes = (0..14 * 63).chain(10..63).chain(63 + 12..2 * 63).chain(others).take(18 * 63 + 1);
    for page in writes {
        now = ssd.program(now, PageNo(page));
    }
    assert_eq!((ssd.total_free_blocks(), ssd.total().gc_invocations), (1, 0));
    let start = ssd.idle_at();
    ssd.reset_counters();
    let done = ssd.read(start, PageNo(0));
    let total = ssd.total();
    assert_eq!(total.gc_time, Nanos(7_950_000));
    assert_eq!(done, start + Nanos(7_950_000 + 25_000));
    assert_eq!((total.gc_invocations, total.erases, total.gc_pages_moved), (1, 2, 22));
    assert_eq!((total.summary_programs, total.host_programs, total.flash_reads), (0, 0, 1));
    assert_eq!(total.busy_time, Nanos(7_975_000));
    let mut collecting = |at: u64| {
        ssd.set_now(start + Nanos(at));
        ssd.collecting(Element(0))
    };
    assert_eq!([0, 7_949_999, 7_950_000].map(&mut collecting), [true, true, false]);
}
