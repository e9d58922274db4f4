//! The disk alone: commands per second on the 1 TB profile, random reads and writes of 4 KiB all
//! over the disk.
//!
//! `fcfs/1`: one command at a time. `*/32`: always 32 commands outstanding, by each order of
//! service.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use destage_plan::Nanos;
use destage_sim::disk::{DiskCommand, DiskOp, DiskProfile, DiskScheduler, SimulatedDisk};

const COMMANDS: u64 = 100_000;

/// The disk with the places of its next commands.
struct Load {
    disk: SimulatedDisk,
    state: u64,
    now: Nanos,
    tag: u64,
}

impl Load {
    fn new(scheduler: DiskScheduler, outstanding: usize) -> Self {
        let disk = SimulatedDisk::new(&DiskProfile::tb1_7200(), scheduler).expect("a disk");
        let mut load = Self { disk, state: 88_172_645_463_325_252, now: Nanos::ZERO, tag: 0 };
        for _ in 0..outstanding {
            load.submit();
        }
        load
    }

    fn submit(&mut self) {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let random = self.state.wrapping_mul(0x2545_F491_4F6C_DD1D);
        let page = ((u128::from(random) * u128::from(self.disk.sectors() / 8)) >> 64) as u64;
        let op = if self.tag.is_multiple_of(3) { DiskOp::Write } else { DiskOp::Read };
        let command = DiskCommand { op, lbn: page * 8, sectors: 8, tag: self.tag };
        self.disk.submit(self.now, command).expect("a command on the disk");
        self.tag += 1;
    }

    fn complete(&mut self) -> u64 {
        let (now, tag) = self.disk.complete().expect("a completion");
        self.now = now;
        tag
    }
}

fn commands(c: &mut Criterion) {
    let mut group = c.benchmark_group("disk");
    group.throughput(Throughput::Elements(COMMANDS)).sample_size(20);
    let loads = DiskScheduler::ALL.map(|scheduler| (scheduler, 32));
    for (scheduler, outstanding) in std::iter::once((DiskScheduler::Fcfs, 1)).chain(loads) {
        let mut load = Load::new(scheduler, outstanding);
        group.bench_function(format!("{}/{outstanding}", scheduler.name()), |b| {
            b.iter(|| {
                let mut sum = 0_u64;
                for _ in 0..COMMANDS {
                    sum = sum.wrapping_add(load.complete());
                    load.submit();
                }
                sum
            });
        });
        let stats = load.disk.stats();
        let mean_ms = stats.busy.0 as f64 / stats.commands() as f64 / 1e6;
        eprintln!("disk/{}/{outstanding}: mean service {mean_ms:.2} ms", scheduler.name());
    }
    group.finish();
}

criterion_group!(benches, commands);
criterion_main!(benches);
