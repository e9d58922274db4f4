//! Requests per second from requests in memory to results, one run at a time.
//!
//! The reader works in a thread beside the simulation, so the figure for one core needs the process
//! on one: `taskset -c 0 cargo bench -p destage-sim --bench end_to_end`.
//!
//! `rw80/…`: a million random writes and 250,000 reads of 4 KiB over 99 % of LAWC's SSD, full at
//! the start, response times with percentiles; the aim is 6 M requests/s with a write amplification
//! of at least 4. `collecting/…`: the same requests through 16 MiB of every policy and layer over
//! the same SSD (those that choose channels over channels), `GCaR` around each; the aim is 2 M
//! requests/s of the slowest. Padding is left out there, since random pages make it program 64 for
//! one, and measured on its own. `80gb/…`: the same requests spread over 80 GB of flash, with and
//! without the time that it takes to fill it. `zipf/…`: no device; 20 million writes of 4 KiB, Zipf
//! with exponent 1 over a million pages, through LRU.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use destage_plan::{Nanos, Op, PageGeometry, Request};
use destage_policy::buffer::policies;
use destage_sim::buffer::{BufferExperiment, DeviceConfig, RunConfig, RunResult};
use destage_sim::experiment::{OpenedInput, RunResources, TraceReplay};
use destage_sim::ssd::{PageAllocation, SsdConfig, SsdShape, StartState};
use destage_trace::{BATCH_REQUESTS, Rw80, TraceError, TraceSource};

const PAGE: u64 = 4096;

/// xorshift64*, as the generator of the peers' Zipf trace.
struct Xorshift(u64);

impl Xorshift {
    /// A number from 0 to below 1.
    fn share(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A write of a page.
fn write(micros: u64, page: u64) -> Request {
    Request { time: Nanos(micros * 1000), offset: page * PAGE, len: PAGE, volume: 0, op: Op::Write, fua: false }
}

/// Page numbers from 1 on, Zipf with exponent 1 over a million.
fn zipf(requests: usize) -> Vec<u32> {
    let mut random = Xorshift(0xD1B5_4A32_D192_ED03);
    let mut sum = 0.0;
    let shares: Vec<f64> = (1..=1_000_000)
        .map(|i| {
            sum += 1.0 / f64::from(i);
            sum
        })
        .collect();
    (0..requests)
        .map(|_| {
            let at = random.share() * sum;
            shares.partition_point(|&share| share < at) as u32 + 1
        })
        .collect()
}

/// Requests that are made one by one out of something in memory.
struct Made<T> {
    from: Arc<Vec<T>>,
    next: usize,
    make: fn(&T) -> Request,
}

impl<T: Send + Sync> TraceSource for Made<T> {
    fn next_batch(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        let end = self.from.len().min(self.next + BATCH_REQUESTS);
        out.clear();
        out.extend(self.from[self.next..end].iter().map(self.make));
        self.next = end;
        Ok(())
    }
}

fn run<T: Send + Sync + 'static>(
    experiment: &BufferExperiment,
    from: &Arc<Vec<T>>,
    make: fn(&T) -> Request,
) -> RunResult {
    let mut open = || {
        let source = Box::new(Made { from: Arc::clone(from), next: 0, make });
        Ok(OpenedInput { source, format: "memory".into() })
    };
    let resources = RunResources { threads: 1, memory_bytes: 1 << 30, stop: None };
    experiment.run(resources, &mut open, &|_| {}).expect("the experiment is sound").results.remove(0)
}

fn experiment(policy: &str, cache: u64, device: DeviceConfig) -> BufferExperiment {
    BufferExperiment {
        policies: vec![policy.parse().expect("a policy")],
        foreign: Vec::new(),
        caches: vec![cache],
        device,
        replay: TraceReplay::whole("bench", PageGeometry::new(PAGE, 64).expect("a geometry")),
        run: RunConfig { max_backlog: 10_000, buffer_latency: Nanos(1_000), drain: true, ..RunConfig::default() },
    }
}

fn lawc_and_80gb(c: &mut Criterion) {
    let requests = Arc::new(Rw80::new().collect::<Vec<_>>());
    let mut group = c.benchmark_group("rw80");
    group.throughput(Throughput::Elements(requests.len() as u64)).sample_size(10);
    group.measurement_time(Duration::from_secs(8));
    for (policy, least_amplification) in [("none", 4.0), ("lru", 4.0)] {
        let experiment = experiment(policy, 16 << 20, DeviceConfig::Ssd(SsdConfig::default(), StartState::Full));
        let r = run(&experiment, &requests, |r| *r);
        let (ssd, response) = (r.ssd.expect("an SSD"), r.response.expect("response times").all.expect("requests"));
        let amplification = ssd.collection_amplification.expect("programs");
        eprintln!(
            "rw80/{policy}: collection amplification {amplification:.4} ({:.4} programs a page of the host), {} pages moved in {} \
             collections, mean response {:.3} ms, p99.9 {:.3} ms",
            ssd.write_amplification.expect("programs"),
            r.flash.gc_pages_moved.expect("an SSD"),
            r.flash.gc_invocations.expect("an SSD"),
            response.mean / 1e6,
            response.p99_9 as f64 / 1e6,
        );
        assert!(amplification >= least_amplification, "{amplification} is no test of collection");
        group.bench_function(policy, |b| b.iter(|| run(&experiment, &requests, |r| *r)));
    }
    group.finish();

    let geometry = PageGeometry::new(PAGE, 64).expect("a geometry");
    let config = SsdConfig::preset("80gb", geometry).expect("a preset");
    let shape = SsdShape::new(config.clone(), geometry).expect("a shape");
    let spread = |r: &Request| {
        let page = (u128::from(r.offset / PAGE) * u128::from(shape.host_pages) / u128::from(Rw80::PAGES)) as u64;
        Request { offset: page * PAGE, ..*r }
    };
    let spread: Arc<Vec<Request>> = Arc::new(requests.iter().map(spread).collect());
    let nothing = Arc::new(Vec::<Request>::new());
    let mut group = c.benchmark_group("80gb");
    group.throughput(Throughput::Elements(spread.len() as u64)).sample_size(10);
    group.measurement_time(Duration::from_secs(8));
    for policy in ["none", "lru"] {
        let experiment = experiment(policy, 16 << 20, DeviceConfig::Ssd(config.clone(), StartState::Full));
        group.bench_function(policy, |b| b.iter(|| run(&experiment, &spread, |r| *r)));
    }
    let experiment = experiment("none", 16 << 20, DeviceConfig::Ssd(config, StartState::Full));
    group.throughput(Throughput::Elements(1));
    group.bench_function("filling", |b| b.iter(|| run(&experiment, &nothing, |r| *r)));
    group.finish();
}

fn no_device(c: &mut Criterion) {
    const REQUESTS: usize = 20_000_000;
    let pages = OnceCell::new();
    let mut group = c.benchmark_group("zipf");
    group.throughput(Throughput::Elements(REQUESTS as u64)).sample_size(10);
    group.measurement_time(Duration::from_secs(20));
    for (name, cache) in [("lru/4096", 4096), ("lru/100000", 100_000)] {
        let experiment = experiment("lru", cache * PAGE, DeviceConfig::None);
        let make = |page: &u32| write(0, u64::from(*page));
        let checked = OnceCell::new();
        group.bench_function(name, |b| {
            let pages = pages.get_or_init(|| Arc::new(zipf(REQUESTS)));
            checked.get_or_init(|| {
                let misses = 1.0 - run(&experiment, pages, make).hit_ratio.expect("accesses");
                eprintln!("zipf/{name}: miss ratio {misses:.4}");
                // What another simulator finds for the same requests.
                assert!(cache != 100_000 || (misses - 0.2219).abs() < 0.00005, "{misses}");
            });
            b.iter(|| run(&experiment, pages, make));
        });
    }
    group.finish();
}

/// Measures compositions of layers and policies: all policies, each layer, and `GCaR` around them.
fn collecting(c: &mut Criterion) {
    const CHANNELS: [&str; 5] = ["gate+lru", "cave", "cawr", "cave+lb-clock", "cawr+lb-clock"];
    let requests = Arc::new(Rw80::new().collect::<Vec<_>>());
    let mut group = c.benchmark_group("collecting");
    group.throughput(Throughput::Elements(requests.len() as u64)).sample_size(10);
    group.measurement_time(Duration::from_secs(4)).warm_up_time(Duration::from_millis(500));
    let by_address = policies().iter().filter(|policy| policy.name != "none" && !policy.chooses_channels);
    let by_address = by_address.map(|policy| policy.name).chain(["bplru:padding=never"]);
    let by_address = by_address.map(|policy| (policy, PageAllocation::Static));
    for (policy, allocation) in by_address.chain(CHANNELS.map(|policy| (policy, PageAllocation::Channels))) {
        let config = SsdConfig { allocation, ..SsdConfig::default() };
        for policy in [policy.to_owned(), format!("gcar+{policy}")] {
            let device = DeviceConfig::Ssd(config.clone(), StartState::Full);
            let experiment = experiment(&policy, 16 << 20, device);
            group.bench_function(&policy, |b| {
                let collections = run(&experiment, &requests, |r| *r).flash.gc_invocations.expect("an SSD");
                assert!(collections > 1_000, "{policy}: {collections} collections are no test of them");
                b.iter(|| run(&experiment, &requests, |r| *r));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, lawc_and_80gb, collecting, no_device);
criterion_main!(benches);
