//! Measures the memory that a cache takes for each page of its SSD. It is the peak of what an array with the
//! cache allocates, minus the peak of an array without one.
//!
//! The test is a program of its own, because it replaces the allocator.

use destage_cache::{HostCacheSpec, ServedTier, serve};
use destage_plan::{DevSet, Engine, HostOp, HostRequest, Nanos, Shape, Start, Status, Step, StepOutcome};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, RaidLevel};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const PAGE: u64 = 4096;
/// Pages of the cache: just more than a table of a power of two of them has room for, where tables are at
/// their emptiest.
const PAGES: u64 = 30_000;

/// An executor that does nothing.
fn run(engine: &mut Engine<Box<dyn ServedTier>>, zeros: &[u8]) {
    while let Some(issue) = engine.next_issue() {
        let outcome = match *engine.step(issue) {
            Step::Encode { .. } => StepOutcome::Length(PAGE as u32 / 4),
            Step::MetaRead { ext } => {
                let bytes = usize::from(ext.pages()) * PAGE as usize;
                engine.read(issue, &zeros[..bytes]);
                StepOutcome::Ok
            }
            _ => StepOutcome::Ok,
        };
        engine.complete(Nanos(0), issue, outcome);
    }
    while engine.next_notice().is_some() {}
}

/// Serves an array with a cache of so many pages.
fn work(cache: &str, pages: u64) {
    let config = ArrayConfig::new(Geometry::new(RaidLevel::Raid5, None, 5, 16, 1 << 16).unwrap());
    let zeros = vec![0; 1 << 20];
    let shape = Shape::new(PAGE, 512, 64, 64, config.geometry.data_pages()).unwrap();
    let mut engine = Engine::new(serve(cache, &config, pages).unwrap(), shape, 64);
    engine.start(
        Nanos(0),
        Start { nv: &[], intents: &[], missing: DevSet::EMPTY, collectors: DevSet::EMPTY, unwritable: &[] },
    );
    run(&mut engine, &zeros);
    assert_eq!(engine.status(), Status::Ready);
    // Nine of ten requests go to half as many pages again as the cache has, the others anywhere.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for tag in 0..8 * PAGES {
        let space = if random.next_u64() % 10 < 9 { PAGES * 3 / 2 } else { config.geometry.data_pages() };
        let op = if random.next_u64() % 2 == 0 { HostOp::Read } else { HostOp::Write };
        let offset = random.next_u64() % space * PAGE;
        engine.submit(Nanos(0), HostRequest { tag, op, offset, len: PAGE, fua: false }).unwrap();
        run(&mut engine, &zeros);
        if tag % 256 == 255 {
            engine.submit(Nanos(0), HostRequest { tag, op: HostOp::Flush, offset: 0, len: 0, fua: false }).unwrap();
            run(&mut engine, &zeros);
        }
    }
}

/// Bytes that an array with a cache of so many pages allocates: the most at any time.
fn bytes(cache: &str, pages: u64) -> u64 {
    allocation_counter::measure(|| work(cache, pages)).bytes_max
}

#[test]
fn a_page_of_the_cache_takes_few_bytes_and_no_more_than_is_said() {
    let without = bytes("none", 0);
    for (cache, most) in [("write-around", 32), ("write-through", 32), ("write-back", 92), ("leavo", 76), ("kdd", 87)] {
        let of_page = (bytes(cache, PAGES) - without).div_ceil(PAGES);
        let said = cache.parse::<HostCacheSpec>().unwrap().bytes_per_page();
        println!("{cache}: {of_page} bytes a page, at most {said} are said");
        assert!(of_page <= most && of_page <= said, "{cache}: {of_page} bytes a page, not {most} and {said}");
    }
}
