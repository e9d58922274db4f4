//! Worked examples of BAST and FAST, what they cost against the page map, and what padding a
//! buffer's blocks gains them.

use destage_plan::{Element, Nanos, PageGeometry, PageNo, Request};
use destage_policy::buffer::{EvictionUnit, policies};
use destage_sim::buffer::{DeviceConfig, RunResult};
use destage_sim::ssd::{ElementCounters, Ftl, PageAllocation, Ssd, SsdConfig, SsdShape, StartState};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::in_memory::{experiment, run, run_one, write};
use crate::mixed::{PAGE, below};

/// An element of 16 blocks, 12 of which are exported, full at the start, without transfer times.
fn element(ftl: Ftl, log_blocks: u32, pages_per_block: u32) -> Ssd {
    let config = SsdConfig {
        ftl,
        log_blocks: Some(log_blocks),
        elements: 1,
        planes: 1,
        blocks_per_plane: 16,
        reserve_bp: 2500,
        lanes: 1,
        stride: pages_per_block,
        transfer_ps_per_byte: 0,
        summary_page: false,
        ..SsdConfig::default()
    };
    let geometry = PageGeometry::new(4096, pages_per_block.into()).expect("a geometry");
    Ssd::new(SsdShape::new(config, geometry).expect("a shape"), StartState::Full)
}

/// Switch, partial and full merges, pages copied, blocks erased.
type Did = [u64; 5];

fn did(total: &ElementCounters) -> Did {
    [total.switch_merges, total.partial_merges, total.full_merges, total.gc_pages_moved, total.erases]
}

/// A row: what is written (or trimmed, where negative), and what has happened in the end.
type Row = (&'static [i32], Did);

fn work_through(ftl: Ftl, log_blocks: u32, rows: &[Row]) {
    for (pages, expected) in rows {
        let mut ssd = element(ftl, log_blocks, 4);
        for &page in *pages {
            if page < 0 {
                ssd.trim(PageNo(page.unsigned_abs()));
            } else {
                ssd.program(Nanos::ZERO, PageNo(page.unsigned_abs()));
            }
        }
        let total = ssd.total();
        assert_eq!(did(&total), *expected, "{ftl:?} with {log_blocks} log blocks: {pages:?}");
        let writes = pages.iter().filter(|page| **page >= 0).count() as u64;
        let (moved, erases) = (expected[3], expected[4]);
        assert_eq!((total.host_programs, total.flash_writes()), (writes, writes + moved), "{pages:?}");
        // 225 µs a copy, 1.5 ms an erase, 200 µs a program, one after the other.
        let gc_time = moved * 225_000 + erases * 1_500_000;
        assert_eq!((total.gc_time, ssd.idle_at()), (Nanos(gc_time), Nanos(gc_time + writes * 200_000)), "{pages:?}");
        ssd.check().unwrap_or_else(|error| panic!("{pages:?}: {error}"));
    }
}

/// The table of specs §1.4: N = 4, L = 1, block 2 already has data.
#[test]
fn the_worked_examples_of_bast() {
    work_through(
        Ftl::Bast,
        1,
        &[
            (&[8, 9, 10, 11, 12], [1, 0, 0, 0, 1]),
            (&[8, 9, 12], [0, 1, 0, 2, 1]),
            (&[9, 8, 12], [0, 0, 1, 4, 2]),
            // Nothing is merged before a log block is needed.
            (&[8, 9, 10, 11], [0, 0, 0, 0, 0]),
            // The block's own log block is full.
            (&[8, 9, 10, 11, 8], [1, 0, 0, 0, 1]),
            (&[8, 8, 8, 8, 8], [0, 0, 1, 4, 2]),
            // Pages that were trimmed are not copied; a log block of which nothing is valid is only
            // erased.
            (&[8, 9, -11, 12], [0, 1, 0, 1, 1]),
            (&[9, 8, -8, 12], [0, 0, 1, 3, 2]),
            (&[9, 8, -9, -8, 12], [0, 0, 0, 0, 1]),
            // Page 11 was trimmed before the merge, so that its place is still erased and takes it
            // without a log block.
            (&[-11, 8, 9, 10, 12, 11], [0, 1, 0, 0, 1]),
        ],
    );
    // With two log blocks the one that was written least recently goes: block 3's, then block 2's.
    work_through(Ftl::Bast, 2, &[(&[8, 13, 9, 16], [0, 0, 1, 4, 2]), (&[8, 13, 9, 16, 20], [0, 1, 1, 6, 3])]);
}

/// N = 4, a sequential and a random log block, all blocks have data.
#[test]
fn worked_examples_of_fast() {
    work_through(
        Ftl::Fast,
        2,
        &[
            // The sequential log block: complete, in part, with page 9 from the random one.
            (&[8, 9, 10, 11, 12], [1, 0, 0, 0, 1]),
            (&[8, 9, 12], [0, 1, 0, 2, 1]),
            (&[9, 8, 12], [0, 1, 0, 3, 1]),
            // Its owner begins again, or goes on out of sequence.
            (&[8, 9, 8], [0, 1, 0, 2, 1]),
            (&[8, 9, 11], [0, 1, 0, 2, 1]),
            (&[8, 9, 9], [0, 1, 0, 2, 1]),
            // The random log block takes pages of all blocks until it is full.
            (&[9, 13, 17, 21], [0, 0, 0, 0, 0]),
            (&[9, 13, 17, 21, 10], [0, 0, 4, 16, 5]),
            (&[9, 9, 9, 9, 10], [0, 0, 1, 4, 2]),
            (&[9, 10, 13, 14, 17], [0, 0, 2, 8, 3]),
            // Block 2 owns the sequential log block, which is completed: 9 from the random one, 10
            // and 11.
            (&[9, 13, 8, 17, 21, 25], [0, 1, 3, 15, 5]),
            // 9 went along when 12 had block 2 merged, and 13 follows 12: three blocks are left in
            // the random log block.
            (&[9, 8, 12, 13, 17, 21, 25, 26], [0, 1, 3, 15, 5]),
            // Nothing is valid in the random log block, or in the sequential one.
            (&[9, 13, 17, 21, -9, -13, -17, -21, 10], [0, 0, 0, 0, 1]),
            (&[8, 9, -8, -9, 12], [0, 0, 0, 0, 1]),
            // A page whose place in the data block is erased goes there: 11, which was not copied.
            (&[-11, 8, 9, 10, 12, 11], [0, 1, 0, 0, 1]),
        ],
    );
    // Two random log blocks are reclaimed in the order in which they were begun.
    work_through(Ftl::Fast, 3, &[(&[9, 9, 9, 9, 13, 13, 13, 13, 17], [0, 0, 1, 4, 2])]);
}

/// Reads go to the newest version, and take as long as any; a merge holds up what comes after it.
#[test]
fn a_merge_keeps_its_element_busy() {
    let mut ssd = element(Ftl::Bast, 1, 4);
    let now = Nanos(1_000_000_000);
    for page in [9, 8] {
        ssd.program(Nanos::ZERO, PageNo(page));
    }
    assert_eq!(ssd.read(now, PageNo(8)), now + Nanos(25_000));
    // Full merge: 4 copies of 225 µs, 2 erases of 1.5 ms; then the program.
    assert_eq!(ssd.program(now, PageNo(12)), now + Nanos(25_000 + 900_000 + 3_000_000 + 200_000));
    let mut collecting = |at: u64| {
        ssd.set_now(now + Nanos(at));
        destage_policy::buffer::DeviceView::collecting(&ssd, Element(0))
    };
    assert_eq!([24_999, 25_000, 3_924_999, 3_925_000].map(&mut collecting), [false, true, true, false]);
    assert_eq!(ssd.first_collection_end(), Some((now + Nanos(3_925_000), Element(0))));
}

/// With channels a block follows the channel that is chosen for it, and copies cross channels.
#[test]
fn a_block_moves_to_the_channel_of_its_log_block() {
    use destage_policy::buffer::DeviceView as _;
    let config = SsdConfig {
        ftl: Ftl::Bast,
        log_blocks: Some(1),
        elements: 2,
        allocation: PageAllocation::Channels,
        planes: 1,
        blocks_per_plane: 16,
        reserve_bp: 2500,
        lanes: 1,
        transfer_ps_per_byte: 0,
        summary_page: false,
        ..SsdConfig::default()
    };
    let shape = SsdShape::new(config, PageGeometry::new(4096, 4).expect("a geometry")).expect("a shape");
    let mut ssd = Ssd::new(shape, StartState::Full);
    assert_eq!([0, 4, 8].map(|page| ssd.element_of(PageNo(page))), [0, 1, 0].map(Element));
    // Blocks 0 and 2 lie in channel 0; pages of block 0 go through channel 1, whatever is chosen
    // for the second.
    ssd.program_through(Nanos::ZERO, PageNo(1), 1);
    assert_eq!(ssd.redirected(), 0);
    ssd.program_through(Nanos::ZERO, PageNo(0), 0);
    assert_eq!(ssd.redirected(), 1);
    assert_eq!([0, 2].map(|page| ssd.element_of(PageNo(page))), [1, 0].map(Element));
    // Channel 1's only log block is needed: pages 2 and 3 are read in channel 0, which then erases
    // the old block.
    let done = ssd.program_through(Nanos::ZERO, PageNo(8), 1);
    let programs = 400_000;
    // Reads until 50 µs, while channel 1 is still programming; 2 copies inside, 2 programs, an
    // erase, and page 8.
    let merged = programs + 2 * 225_000 + 2 * 200_000 + 1_500_000;
    assert_eq!((done, ssd.busy_until(Element(0))), (Nanos(merged + 200_000), Nanos(2 * 25_000 + 1_500_000)));
    assert_eq!([0, 1, 2, 3].map(|page| ssd.element_of(PageNo(page))), [Element(1); 4]);
    let counters: Vec<_> =
        ssd.counters().map(|c| (c.gc_invocations, c.full_merges, c.gc_pages_moved, c.erases)).collect();
    assert_eq!(counters, [(0, 0, 0, 1), (1, 1, 4, 1)]);
    ssd.check().expect("the laws hold");
}

/// The acceptance of the log-block layers: for uniform single-page writes BAST erases more than
/// FAST, and FAST more than the page map.
#[test]
fn uniform_writes_erase_most_under_bast_and_least_under_the_page_map() {
    for (log_blocks, seed) in [(None, 1), (Some(8), 2), (Some(16), 3)] {
        let [bast, fast, page] = [Ftl::Bast, Ftl::Fast, Ftl::Page].map(|ftl| {
            let config = SsdConfig {
                ftl,
                log_blocks: log_blocks.filter(|_| ftl != Ftl::Page),
                elements: 2,
                planes: 1,
                blocks_per_plane: 256,
                lanes: 1,
                stride: 16,
                summary_page: false,
                ..SsdConfig::default()
            };
            let shape = SsdShape::new(config, PageGeometry::new(4096, 16).expect("a geometry")).expect("a shape");
            let mut ssd = Ssd::new(shape, StartState::Full);
            let pages = u64::from(ssd.shape().host_pages);
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            for i in 0..pages * 12 {
                ssd.program(Nanos(i), PageNo(below(&mut rng, pages) as u32));
            }
            ssd.total().erases
        });
        assert!(bast > fast && fast > page, "{log_blocks:?}: {bast}, {fast}, {page}");
    }
}

fn bast(allocation: PageAllocation) -> DeviceConfig {
    let config = SsdConfig {
        ftl: Ftl::Bast,
        log_blocks: Some(6),
        elements: 2,
        allocation,
        planes: 1,
        blocks_per_plane: 64,
        lanes: 1,
        stride: if allocation == PageAllocation::Channels { 1 } else { 16 },
        summary_page: false,
        ..SsdConfig::default()
    };
    DeviceConfig::Ssd(config, StartState::Full)
}

fn merges(r: &RunResult) -> [u64; 3] {
    let ssd = r.ssd.as_ref().expect("an SSD");
    [ssd.switch_merges, ssd.partial_merges, ssd.full_merges].map(|count| count.expect("log blocks"))
}

/// Shows the purpose of BPLRU's padding: over BAST every merge is a switch, while the same buffer without it
/// leaves full ones.
#[test]
fn padding_turns_full_merges_into_switches() {
    let geometry = PageGeometry::new(PAGE, 16).expect("a geometry");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
    let requests: Vec<Request> = (0..6_000).map(|i| write(i * 20_000, below(&mut rng, 1_600), 1)).collect();
    let policies = ["bplru", "bplru:padding=never"];
    let results = run(&experiment(&policies, &[64 * PAGE], geometry, bast(PageAllocation::Static)), &requests).results;
    let [padded, plain] = [&results[0], &results[1]];
    assert_eq!((padded.counters.evictions, padded.counters.hits), (plain.counters.evictions, plain.counters.hits));
    let (with, without) = (merges(padded), merges(plain));
    assert!(with[0] > 1_000 && with[1..] == [0, 0], "padded: {with:?}");
    assert!(without[0] == 0 && without[2] > 1_000 && without[2] > 20 * without[1], "not padded: {without:?}");
    // One erase instead of two, and no copies but those that the buffer made.
    assert_eq!(padded.flash.gc_pages_moved, Some(0));
    assert_eq!(padded.flash.erases, Some(with[0]));
    assert_eq!(plain.flash.erases, Some(without[1] + 2 * without[2]));
}

/// Layers that choose channels around block-level policies: all that CAWR sends through one channel
/// stays together.
#[test]
fn block_level_layers_run_on_log_blocks_in_channels() {
    let geometry = PageGeometry::new(PAGE, 16).expect("a geometry");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(12);
    let requests: Vec<Request> =
        (0..4_000).map(|i| write(i * 20_000, below(&mut rng, 400) * 4, 1 + below(&mut rng, 4))).collect();
    for ftl in [Ftl::Bast, Ftl::Fast] {
        let DeviceConfig::Ssd(config, start) = bast(PageAllocation::Channels) else { unreachable!("an SSD was made") };
        let device = DeviceConfig::Ssd(SsdConfig { ftl, ..config }, start);
        for layer in ["cave", "cawr", "gcar+cave", "gcar+cawr"] {
            let of_blocks = policies().iter().filter(|policy| policy.unit == EvictionUnit::Block);
            for base in of_blocks.map(|policy| policy.name).chain(["bplru:padding=never"]) {
                let policy = format!("{layer}+{base}");
                let r = run_one(&experiment(&[&policy], &[96 * PAGE], geometry, device.clone()), &requests);
                let ssd = r.ssd.as_ref().expect("an SSD");
                let [switch, partial, full] = merges(&r);
                assert!(switch + partial + full > 0, "{policy} on {ftl:?} never merged");
                let sum = |of: fn(&destage_sim::buffer::ElementResult) -> Option<u64>| {
                    ssd.elements.iter().map(|e| of(e).expect("log blocks")).sum::<u64>()
                };
                assert_eq!(
                    [switch, partial, full],
                    [sum(|e| e.switch_merges), sum(|e| e.partial_merges), sum(|e| e.full_merges)],
                    "{policy} on {ftl:?}"
                );
                let c = &r.counters;
                let left = c.dirty_pages_flushed + c.destage_pages_flushed + c.pad_reads + c.destage_pad_reads;
                assert_eq!(ssd.host_programs, left + c.bypassed_writes, "{policy} on {ftl:?}");
                assert!(ssd.redirected_programs <= ssd.host_programs, "{policy} on {ftl:?}");
            }
        }
    }
}

/// Merges are what `GCaR` avoids: it passes over blocks of an element that merges, and writes them
/// afterwards.
#[test]
fn gcar_avoids_elements_that_merge() {
    let geometry = PageGeometry::new(PAGE, 16).expect("a geometry");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(13);
    let requests: Vec<Request> = (0..4_000).map(|i| write(i * 5_000, below(&mut rng, 1_600), 1)).collect();
    for policy in ["gcar+lru", "gcar+bplru:padding=never"] {
        let r = run_one(&experiment(&[policy], &[64 * PAGE], geometry, bast(PageAllocation::Static)), &requests);
        let avoidance = r.avoidance.expect("a layer that avoids collections");
        assert!(avoidance.passed_over > 100, "{policy}: {avoidance:?}");
        assert!(avoidance.deferred_pages_destaged > 0, "{policy}: {avoidance:?}");
        assert_eq!(r.counters.destage_pages_flushed, avoidance.deferred_pages_destaged, "{policy}");
    }
}
