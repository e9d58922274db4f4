//! Arrays for tests, small and otherwise as a user gets them by default.

use std::sync::Arc;

use destage_delta::lengths::DeltaLengthRule;
use destage_plan::{
    Controller, Dev, HostNotice, HostOp, HostRequest, Nanos, Op, PageGeometry, Request, SECTOR_BYTES, Shape,
};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, RaidLevel};
use destage_sim::array::{
    ArrayError, ArrayExperiment, ArrayHost, ArrayReport, ArrayResult, ArrayService, ArraySetup, DeviceInjection,
    DeviceSetup, FixedTimes, InjectionKind, VirtualExecutor,
};
use destage_sim::disk::{DiskProfile, DiskScheduler, SimulatedDisk};
use destage_sim::experiment::{OpenedInput, RunResources, TraceReplay};
use destage_sim::input::HostModel;
use destage_sim::ssd::{SsdConfig, SsdShape, StartState};

use crate::in_memory;

pub(crate) const PAGE: u64 = 4096;

/// A geometry with chunks of so many pages.
pub(crate) fn geometry(level: RaidLevel, members: u32, chunk_pages: u32, member_pages: u64) -> Geometry {
    Geometry::new(level, None, members, chunk_pages, member_pages).expect("an array")
}

pub(crate) fn shape(geometry: &Geometry) -> Shape {
    let stripe = u64::from(geometry.chunk_pages()) * u64::from(geometry.data_columns());
    Shape::new(PAGE, SECTOR_BYTES, stripe, stripe, geometry.data_pages()).expect("a shape")
}

pub(crate) fn config(geometry: &Geometry) -> ArrayConfig {
    ArrayConfig::new(geometry.clone())
}

/// A disk of 1 TB.
pub(crate) fn disk(scheduler: DiskScheduler) -> SimulatedDisk {
    SimulatedDisk::new(&DiskProfile::tb1_7200(), scheduler).expect("a disk")
}

/// A small SSD: 2 elements of 64 blocks.
pub(crate) fn small_ssd() -> SsdConfig {
    SsdConfig { elements: 2, planes: 1, blocks_per_plane: 64, lanes: 1, reserve_bp: 2000, ..SsdConfig::default() }
}

pub(crate) fn ssd_shape(config: SsdConfig) -> SsdShape {
    SsdShape::new(config, PageGeometry::new(PAGE, 64).expect("pages")).expect("an SSD")
}

pub(crate) fn host(tag: u64, op: HostOp, page: u64, pages: u64) -> HostRequest {
    HostRequest { tag, op, offset: page * PAGE, len: pages * PAGE, fua: false }
}

/// Submits a request at a time, after everything that happens until then.
pub(crate) fn submit_at<C: Controller>(executor: &mut VirtualExecutor<C>, at: Nanos, request: HostRequest) {
    while executor.next_event().is_some_and(|(next, _)| next <= at) {
        executor.step();
    }
    executor.submit(at, request).expect("a range on the array");
}

/// Lets events happen until the request is answered; when that was.
pub(crate) fn answered<C: Controller>(executor: &mut VirtualExecutor<C>, tag: u64) -> Nanos {
    loop {
        while let Some(notice) = executor.next_notice() {
            if let HostNotice::Acked { tag: of, ok } = notice {
                assert!(ok, "request {of} is served");
                if of == tag {
                    return executor.now();
                }
            }
        }
        assert!(executor.step(), "request {tag} is answered some time");
    }
}

/// An experiment over members with constant times, without a cache.
pub(crate) fn experiment(level: RaidLevel, members: u32, policies: &[&str]) -> ArrayExperiment {
    let times = FixedTimes { read: Nanos(100_000), write: Nanos(150_000), other: Nanos(50_000), page: Nanos(2_000) };
    let has_cache = policies.iter().any(|policy| policy.starts_with("write-through"));
    ArrayExperiment {
        array: ArraySetup { level, members, layout: None, chunk_bytes: 4 * PAGE, member_bytes: Some(1024 * PAGE) },
        policies: policies.iter().map(|spec| spec.parse().expect(spec)).collect(),
        caches: if has_cache { vec![256 * PAGE] } else { Vec::new() },
        member: DeviceSetup::Fixed(times),
        drive_cache: None,
        cache_device: DeviceSetup::Ssd { config: small_ssd(), start: StartState::Full },
        cache_endurance: None,
        deltas: DeltaLengthRule::default(),
        delta_seed: 1,
        schedulers: vec![DiskScheduler::CLook],
        service: ArrayService::default(),
        injections: Vec::new(),
        replay: TraceReplay::whole("requests", PageGeometry::new(PAGE, 64).expect("pages")),
        host: ArrayHost { host: HostModel::Open, max_backlog: 10_000, ..ArrayHost::default() },
    }
}

/// Disks for members.
pub(crate) fn disks() -> DeviceSetup {
    DeviceSetup::Disk { profile: DiskProfile::tb1_7200(), synchronised: false }
}

pub(crate) fn fail(dev: u8, at: Nanos) -> DeviceInjection {
    DeviceInjection { at, dev: Dev(dev), kind: InjectionKind::Fail }
}

pub(crate) fn replace(dev: u8, at: Nanos) -> DeviceInjection {
    DeviceInjection { at, dev: Dev(dev), kind: InjectionKind::Replace }
}

pub(crate) fn try_run(
    experiment: &ArrayExperiment,
    threads: usize,
    requests: &[Request],
) -> Result<ArrayReport, ArrayError> {
    let requests = Arc::new(requests.to_vec());
    let mut open =
        || Ok(OpenedInput { source: Box::new(in_memory::InMemory::new(&requests)), format: "memory".into() });
    experiment.run(RunResources { threads, memory_bytes: 1 << 30, stop: None }, &mut open, &|_| {})
}

pub(crate) fn run(experiment: &ArrayExperiment, requests: &[Request]) -> Vec<ArrayResult> {
    try_run(experiment, 1, requests).expect("the experiment is sound").results
}

pub(crate) fn run_one(experiment: &ArrayExperiment, requests: &[Request]) -> ArrayResult {
    let mut results = run(experiment, requests);
    assert_eq!(results.len(), 1);
    results.remove(0)
}

/// Numbers that look random.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)) * u128::from(bound)) >> 64) as u64
    }
}

/// Requests of all kinds, some of parts of pages and some beyond the array, `gap` ns apart on
/// average.
pub(crate) fn mixed(seed: u64, count: u64, pages: u64, gap: u64) -> Vec<Request> {
    let mut random = Random::new(seed);
    let mut time = 0;
    let request = |_| {
        time += random.below(2 * gap);
        let op = match random.below(100) {
            0..=39 => Op::Read,
            40..=91 => Op::Write,
            92..=95 => Op::Flush,
            _ => Op::Discard,
        };
        let (offset, len) = match (op, random.below(4)) {
            (Op::Flush, _) => (0, 0),
            (_, 0) => (random.below(pages * 8) * 512, (1 + random.below(40)) * 512),
            (_, 1) => (random.below(pages) * PAGE, (1 + random.below(64)) * PAGE),
            _ => (random.below(pages) * PAGE, PAGE),
        };
        Request { time: Nanos(time), offset, len, volume: 0, op, fua: random.below(8) == 0 }
    };
    (0..count).map(request).collect()
}
