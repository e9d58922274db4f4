//! Measures the cost of planning a request, from its arrival to its acknowledgement. The executor does nothing;
//! claims, intents and flushes are included.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use destage_plan::{Controller, DevSet, Engine, HostOp, HostRequest, Nanos, Shape, Start, StepOutcome};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, RaidLevel};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const REQUESTS: u64 = 10_000;

fn engine<C: Controller>(config: &ArrayConfig, controller: C, depth: usize) -> Engine<C> {
    let geometry = &config.geometry;
    let stripe = u64::from(geometry.data_columns()) * u64::from(geometry.chunk_pages());
    let shape = Shape::new(4096, 512, stripe, stripe, geometry.data_pages()).unwrap();
    let mut engine = Engine::new(controller, shape, depth);
    engine.start(
        Nanos(0),
        Start { nv: &[], intents: &[], missing: DevSet::EMPTY, collectors: DevSet::EMPTY, unwritable: &[] },
    );
    engine
}

fn run<C: Controller>(engine: &mut Engine<C>, request: HostRequest) {
    engine.submit(Nanos(0), request).unwrap();
    while let Some(issue) = engine.next_issue() {
        black_box(engine.step(issue));
        engine.complete(Nanos(0), issue, StepOutcome::Ok);
    }
    while engine.next_notice().is_some() {}
}

fn serve<C: Controller>(engine: &mut Engine<C>, random: &mut Xoshiro256PlusPlus, op: HostOp, pages: u64, space: u64) {
    for request in 0..REQUESTS {
        let offset = random.next_u64() % (space / pages) * pages * 4096;
        run(engine, HostRequest { tag: request, op, offset, len: pages * 4096, fua: false });
        if request % 64 == 63 {
            run(engine, HostRequest { tag: request, op: HostOp::Flush, offset: 0, len: 0, fua: false });
        }
    }
}

/// All requests at once.
fn crowd<C: Controller>(engine: &mut Engine<C>, random: &mut Xoshiro256PlusPlus, space: u64) {
    for tag in 0..REQUESTS {
        let offset = random.next_u64() % space * 4096;
        engine.submit(Nanos(0), HostRequest { tag, op: HostOp::Write, offset, len: 4096, fua: false }).unwrap();
    }
    while let Some(issue) = engine.next_issue() {
        engine.complete(Nanos(0), issue, StepOutcome::Ok);
    }
    while engine.next_notice().is_some() {}
}

fn planner(c: &mut Criterion) {
    let mut group = c.benchmark_group("planner");
    group.throughput(Throughput::Elements(REQUESTS));
    let space = 1 << 20;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for (name, level, members) in
        [("raid5", RaidLevel::Raid5, 5), ("raid6", RaidLevel::Raid6, 6), ("raid1", RaidLevel::Raid1, 2)]
    {
        let config = ArrayConfig::new(Geometry::new(level, None, members, 16, 1 << 20).unwrap());
        let mut plain = engine(&config, destage_cache::serve("none", &config, 0).unwrap(), 64);
        group.bench_function(format!("none/{name}/write-1"), |b| {
            b.iter(|| serve(&mut plain, &mut random, HostOp::Write, 1, space));
        });
        group.bench_function(format!("none/{name}/read-1"), |b| {
            b.iter(|| serve(&mut plain, &mut random, HostOp::Read, 1, space));
        });
        if level == RaidLevel::Raid5 {
            // Thousands wait for intents to be cleared.
            let tight = ArrayConfig { max_open_rows: 64, ..config.clone() };
            let mut throttled = engine(&tight, destage_cache::serve("none", &tight, 0).unwrap(), 4096);
            group.bench_function(format!("none/{name}/write-1-throttled"), |b| {
                b.iter(|| crowd(&mut throttled, &mut random, space));
            });
            group.bench_function(format!("none/{name}/write-full-stripe"), |b| {
                b.iter(|| serve(&mut plain, &mut random, HostOp::Write, 64, space));
            });
            let mut cached = engine(&config, destage_cache::serve("write-through", &config, space).unwrap(), 64);
            group.bench_function(format!("write-through/{name}/write-1"), |b| {
                b.iter(|| serve(&mut cached, &mut random, HostOp::Write, 1, space / 2));
            });
            group.bench_function(format!("write-through/{name}/read-1"), |b| {
                b.iter(|| serve(&mut cached, &mut random, HostOp::Read, 1, space / 2));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, planner);
criterion_main!(benches);
