//! The simulated executor: requests of 4 KiB to RAID-5 over five members, closed loop, 32
//! outstanding, no cache.
//!
//! `write/fixed`, `read/fixed`: members of constant latency, so that what is left is planning,
//! claims and events. `write/disk`: disks of 1 TB with C-LOOK. `stripe/fixed`: writes of whole
//! stripes of 64 pages.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use destage_cache::{ServedTier, serve};
use destage_plan::{HostNotice, HostOp, HostRequest, Nanos, SECTOR_BYTES, Shape};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, RaidLevel};
use destage_sim::array::{FixedTimes, StepTimes, VirtualDevice, VirtualExecutor};
use destage_sim::disk::{DiskProfile, DiskScheduler, SimulatedDisk};

const PAGE: u64 = 4096;
const REQUESTS: u64 = 20_000;
const OUTSTANDING: u64 = 32;
const MEMBER_PAGES: u64 = 1 << 22;

/// An array with the places of its next requests.
struct Load {
    executor: VirtualExecutor<Box<dyn ServedTier>>,
    op: HostOp,
    pages: u64,
    places: u64,
    state: u64,
    tag: u64,
}

impl Load {
    fn new(on_disks: bool, op: HostOp, pages: u64) -> Self {
        let geometry = Geometry::new(RaidLevel::Raid5, None, 5, 16, MEMBER_PAGES).expect("an array");
        let shape = Shape::new(PAGE, SECTOR_BYTES, 64, 64, geometry.data_pages()).expect("a shape");
        let places = geometry.data_pages() / pages;
        let controller = serve("none", &ArrayConfig::new(geometry), 0).expect("an array");
        let disk = SimulatedDisk::new(&DiskProfile::tb1_7200(), DiskScheduler::CLook).expect("a disk");
        let times = FixedTimes { read: Nanos(100_000), write: Nanos(100_000), ..FixedTimes::default() };
        let device = |_| {
            if on_disks {
                VirtualDevice::disk(disk.clone(), PAGE, Nanos::ZERO)
            } else {
                VirtualDevice::fixed(times, MEMBER_PAGES)
            }
        };
        let devices = (0..5).map(device).collect();
        let executor = VirtualExecutor::new(controller, shape, 4096, devices, StepTimes::default());
        let mut load = Self { executor, op, pages, places, state: 88_172_645_463_325_252, tag: 0 };
        (0..OUTSTANDING).for_each(|_| load.submit());
        load
    }

    fn submit(&mut self) {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let random = self.state.wrapping_mul(0x2545_F491_4F6C_DD1D);
        let place = ((u128::from(random) * u128::from(self.places)) >> 64) as u64;
        let bytes = self.pages * PAGE;
        let request = HostRequest { tag: self.tag, op: self.op, offset: place * bytes, len: bytes, fua: false };
        self.tag += 1;
        self.executor.submit(self.executor.now(), request).expect("a range on the array");
    }

    /// Serves so many requests, each followed by another.
    fn serve(&mut self, requests: u64) {
        let mut left = requests;
        while left > 0 {
            while let Some(notice) = self.executor.next_notice() {
                if let HostNotice::Acked { ok, .. } = notice {
                    assert!(ok, "requests are served");
                    left = left.saturating_sub(1);
                    self.submit();
                }
            }
            assert!(self.executor.step(), "something is under way");
        }
    }
}

fn requests(c: &mut Criterion) {
    let mut group = c.benchmark_group("array");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(20);
    let loads = [
        ("write/fixed", false, HostOp::Write, 1),
        ("read/fixed", false, HostOp::Read, 1),
        ("stripe/fixed", false, HostOp::Write, 64),
        ("write/disk", true, HostOp::Write, 1),
    ];
    for (name, on_disks, op, pages) in loads {
        let mut load = Load::new(on_disks, op, pages);
        load.serve(REQUESTS);
        group.bench_function(name, |b| b.iter(|| load.serve(REQUESTS)));
    }
    group.finish();
}

criterion_group!(benches, requests);
criterion_main!(benches);
