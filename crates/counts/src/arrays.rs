//! The host side: plans, arrays in simulated time, kernels.

use destage_cache::{ServedTier, serve};
use destage_plan::{
    Controller, Dev, DevSet, Engine, HostNotice, HostOp, HostRequest, Nanos, PageGeometry, SECTOR_BYTES, Shape, Start,
    Step, StepOutcome,
};
use destage_raid::array::ArrayConfig;
use destage_raid::kernels::ParityKernels;
use destage_raid::{Geometry, RaidLevel};
use destage_sim::array::{FixedTimes, StepTimes, VirtualDevice, VirtualExecutor};
use destage_sim::ssd::{SsdShape, StartState};

use crate::Work;
use crate::experiments::small;
use crate::requests::{PAGE, Random};

const REQUESTS: u64 = 5_000;
const MEMBER_PAGES: u64 = 1 << 20;

/// RAID-5 over five members, or RAID-6 over six.
fn config(level: RaidLevel) -> ArrayConfig {
    let members = if level == RaidLevel::Raid6 { 6 } else { 5 };
    ArrayConfig::new(Geometry::new(level, None, members, 16, MEMBER_PAGES).expect("an array"))
}

fn shape(config: &ArrayConfig) -> Shape {
    let geometry = &config.geometry;
    let stripe = u64::from(geometry.data_columns()) * u64::from(geometry.chunk_pages());
    Shape::new(PAGE, SECTOR_BYTES, stripe, stripe, geometry.data_pages()).expect("a shape")
}

/// Random requests of a page, and a flush after every 64, over an executor that does nothing.
fn planned<C: Controller + 'static>(config: &ArrayConfig, controller: C, op: HostOp, space: u64) -> Work {
    let mut engine = Engine::new(controller, shape(config), 64);
    engine.start(
        Nanos(0),
        Start { nv: &[], intents: &[], missing: DevSet::EMPTY, collectors: DevSet::EMPTY, unwritable: &[] },
    );
    let mut random = Random::new();
    Box::new(move || {
        let mut steps = 0;
        for tag in 0..REQUESTS {
            let request = HostRequest { tag, op, offset: random.below(space) * PAGE, len: PAGE, fua: false };
            // Hosts flush too, and flushes let intents end.
            let flush = HostRequest { op: HostOp::Flush, offset: 0, len: 0, ..request };
            for request in [Some(request), (tag % 64 == 63).then_some(flush)].into_iter().flatten() {
                engine.submit(Nanos(0), request).expect("a range on the array");
                while let Some(issue) = engine.next_issue() {
                    engine.complete(Nanos(0), issue, StepOutcome::Ok);
                    steps += 1;
                }
                while engine.next_notice().is_some() {}
            }
        }
        steps
    })
}

/// Builds plans: `raid5-write`, `raid5-read`, `raid6-write`, `kept-write` of rows that are in the stripe cache, or `cached-write`
/// through the write-through cache.
///
/// # Panics
/// If the name is another.
pub fn plan(name: &str) -> Work {
    let space = 1 << 16;
    let plain = |level, op| {
        let config = config(level);
        planned(&config, serve("none", &config, 0).expect("an array"), op, space)
    };
    match name {
        "raid5-write" => plain(RaidLevel::Raid5, HostOp::Write),
        "raid5-read" => plain(RaidLevel::Raid5, HostOp::Read),
        "raid6-write" => plain(RaidLevel::Raid6, HostOp::Write),
        "kept-write" => {
            let config = ArrayConfig { cached_rows: 256, ..config(RaidLevel::Raid5) };
            planned(&config, serve("none", &config, 0).expect("an array"), HostOp::Write, 256 * 4)
        }
        "cached-write" => {
            let config = config(RaidLevel::Raid5);
            let controller = serve("write-through", &config, space).expect("a cache");
            planned(&config, controller, HostOp::Write, space / 2)
        }
        _ => panic!("{name} is no plan"),
    }
}

/// Reads of a page that the cache has, over an executor that does nothing: `write-through`, `kdd`, whose pages are as they
/// came in, `kdd-delta`, whose pages have deltas, or `wow`, which has them in the NVRAM.
///
/// # Panics
/// If the name is another.
pub fn hit(name: &str) -> Work {
    let (cache, written) = match name {
        "write-through" | "kdd" => (name, false),
        "kdd-delta" => ("kdd", true),
        "wow" => ("wow:low=80:high=90", true),
        _ => panic!("{name} is no hit"),
    };
    let (config, pages) = (config(RaidLevel::Raid5), 1 << 11);
    let mut engine = Engine::new(serve(cache, &config, pages).expect("a cache"), shape(&config), 64);
    engine.start(
        Nanos(0),
        Start { nv: &[], intents: &[], missing: DevSet::EMPTY, collectors: DevSet::EMPTY, unwritable: &[] },
    );
    let mut run = move |op, page| {
        let request = HostRequest { tag: 0, op, offset: page * PAGE, len: PAGE, fua: false };
        engine.submit(Nanos(0), request).expect("a range on the array");
        while let Some(issue) = engine.next_issue() {
            let makes_delta = matches!(engine.step(issue), Step::Encode { .. });
            let outcome = if makes_delta { StepOutcome::Length(400) } else { StepOutcome::Ok };
            engine.complete(Nanos(0), issue, outcome);
        }
        while engine.next_notice().is_some() {}
        let counts = engine.controller().counts();
        counts.map_or(0, |counts| counts.read_hits)
    };
    for page in 0..pages / 2 {
        run(HostOp::Write, page);
        run(HostOp::Read, page);
    }
    // Of more kdd makes up for the parity, and gives them up.
    let read = if written { pages / 8 } else { pages / 2 };
    for page in (0..read).filter(|_| written) {
        run(HostOp::Write, page);
    }
    let mut random = Random::new();
    let before = run(HostOp::Read, 0);
    Box::new(move || {
        let mut hits = 0;
        (0..REQUESTS).for_each(|_| hits = run(HostOp::Read, random.below(read)));
        // A workload that does not do what its name says would count something else unnoticed.
        assert_eq!(hits - before, REQUESTS, "all are hits");
        hits
    })
}

/// A closed loop of requests of a page, 32 outstanding.
struct Loop {
    executor: VirtualExecutor<Box<dyn ServedTier>>,
    /// Returns the next request and its offset in bytes.
    next: Box<dyn FnMut() -> (HostOp, u64)>,
    submitted: u64,
}

impl Loop {
    fn new(executor: VirtualExecutor<Box<dyn ServedTier>>, next: impl FnMut() -> (HostOp, u64) + 'static) -> Self {
        let mut requests = Self { executor, next: Box::new(next), submitted: 0 };
        (0..32).for_each(|_| requests.submit());
        requests
    }

    fn submit(&mut self) {
        let (op, page) = (self.next)();
        let request = HostRequest { tag: self.submitted, op, offset: page * PAGE, len: PAGE, fua: false };
        self.executor.submit(self.executor.now(), request).expect("a range on the array");
        self.submitted += 1;
    }

    /// Until so many are answered.
    fn play(&mut self, requests: u64) {
        let mut acknowledged = 0;
        while acknowledged < requests {
            while let Some(notice) = self.executor.next_notice() {
                if let HostNotice::Acked { .. } = notice {
                    acknowledged += 1;
                    self.submit();
                }
            }
            assert!(self.executor.step(), "something is under way");
        }
    }
}

const CONSTANT: FixedTimes =
    FixedTimes { read: Nanos(100_000), write: Nanos(100_000), other: Nanos(0), page: Nanos(0) };

/// Random writes of a page to RAID-5 in simulated time, 32 outstanding: `none`, over members of constant
/// latency; or a write cache of 40 pages, over small SSDs, which have to collect.
///
/// # Panics
/// If there is no such cache.
pub fn array(cache: &str) -> Work {
    let mut config = config(RaidLevel::Raid5);
    let device = if cache == "none" {
        VirtualDevice::fixed(CONSTANT, MEMBER_PAGES)
    } else {
        let geometry = PageGeometry::new(PAGE, 64).expect("a geometry");
        VirtualDevice::new_ssd(SsdShape::new(small(), geometry).expect("a shape"), StartState::Full)
    };
    let pages = device.pages() / 16 * 16;
    config.geometry = Geometry::new(RaidLevel::Raid5, None, 5, 16, pages).expect("an array");
    let (shape, pages) = (shape(&config), config.geometry.data_pages());
    let devices = (0..5).map(|_| device.clone()).collect();
    let controller = serve(cache, &config, if cache == "none" { 0 } else { 40 }).expect("an array");
    let executor = VirtualExecutor::new(controller, shape, 4096, devices, StepTimes::default());
    let mut random = Random::new();
    let mut requests = Loop::new(executor, move || (HostOp::Write, random.below(pages)));
    let collects = cache != "none";
    Box::new(move || {
        requests.play(REQUESTS);
        let executor = &requests.executor;
        let collections: u64 = (0..5).map(|dev| executor.model_counts(Dev(dev)).flash.gc_invocations).sum();
        assert!(!collects || collections > 50, "{collections} collections are no test of them");
        executor.now().0
    })
}

/// Writes of a stripe's length, all asked for at once, to RAID-5 over small SSDs with this write cache of 40 pages: all but the
/// first wait for room, page by page.
///
/// # Panics
/// If there is no such cache.
pub fn overload(cache: &str) -> Work {
    const WRITES: u64 = 400;
    let mut config = config(RaidLevel::Raid5);
    let geometry = PageGeometry::new(PAGE, 64).expect("a geometry");
    let device = VirtualDevice::new_ssd(SsdShape::new(small(), geometry).expect("a shape"), StartState::Full);
    config.geometry = Geometry::new(RaidLevel::Raid5, None, 5, 16, device.pages() / 16 * 16).expect("an array");
    let (shape, pages) = (shape(&config), config.geometry.data_pages());
    let controller = serve(cache, &config, 40).expect("an array");
    let mut executor = VirtualExecutor::new(controller, shape, 4096, vec![device; 5], StepTimes::default());
    let mut random = Random::new();
    Box::new(move || {
        for tag in 0..WRITES {
            let offset = random.below(pages - 64) * PAGE;
            let request = HostRequest { tag, op: HostOp::Write, offset, len: 64 * PAGE, fua: false };
            executor.submit(executor.now(), request).expect("a range on the array");
        }
        let mut acknowledged = 0;
        while acknowledged < WRITES {
            while let Some(notice) = executor.next_notice() {
                acknowledged += u64::from(matches!(notice, HostNotice::Acked { .. }));
            }
            assert!(executor.step(), "something is under way");
        }
        executor.now().0
    })
}

/// Requests of a page, half of them reads, to RAID-5 behind a cache on an SSD that has four of five pages when
/// it is asked, in simulated time, 32 outstanding; all devices are of constant latency.
///
/// # Panics
/// If there is no such cache.
pub fn tier(cache: &str) -> Work {
    let (space, pages) = (1 << 12, 1 << 11);
    let config = config(RaidLevel::Raid5);
    let controller = serve(cache, &config, pages).expect("a cache");
    let mut devices = vec![VirtualDevice::fixed(CONSTANT, MEMBER_PAGES); 5];
    devices.push(VirtualDevice::fixed(CONSTANT, pages));
    let executor = VirtualExecutor::new(controller, shape(&config), 4096, devices, StepTimes::default());
    let mut random = Random::new();
    let mut requests = Loop::new(executor, move || {
        let op = if random.below(2) == 0 { HostOp::Read } else { HostOp::Write };
        (op, random.skewed(space))
    });
    // The cache is filled before counting begins.
    requests.play(2 * REQUESTS);
    Box::new(move || {
        let counts = |requests: &Loop| *requests.executor.controller().counts().expect("it has a device");
        let before = counts(&requests);
        requests.play(REQUESTS);
        let now = counts(&requests);
        let hits = now.read_hits + now.write_hits - before.read_hits - before.write_hits;
        assert!(hits > REQUESTS * 7 / 10, "{hits} hits of {REQUESTS}");
        requests.executor.now().0
    })
}

/// XOR, P+Q and two factors over blocks of a page, by the kernels of this instruction set; the best
/// ones that all processors in use have are `avx2`.
///
/// # Panics
/// If the processor lacks it.
pub fn kernel(set: &str) -> Work {
    const BLOCK: usize = PAGE as usize;
    let kernels =
        ParityKernels::all_available().find(|(name, _)| *name == set).expect("an instruction set that is there").1;
    let mut random = Random::new();
    let blocks: Vec<Vec<u8>> = (0..8).map(|_| (0..BLOCK).map(|_| random.below(256) as u8).collect()).collect();
    let (mut p, mut q) = (vec![0; BLOCK], vec![0; BLOCK]);
    Box::new(move || {
        let sources: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
        let present: Vec<Option<&[u8]>> = sources.iter().copied().map(Some).collect();
        let mut sum = 0;
        for factor in 0..64 {
            kernels.xor(&mut p, &sources);
            sum += u64::from(p[0]);
            kernels.pq(&mut p, &mut q, &present);
            sum += u64::from(q[0]);
            kernels.gf(&mut p, factor, sources[0], 0x47, sources[1]);
            sum += u64::from(p[0]);
        }
        sum
    })
}
