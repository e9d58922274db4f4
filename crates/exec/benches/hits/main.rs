//! Measures what a hit costs. 4 KiB at a random place that the cache has are read with one request at a time,
//! from the request to its answer.
//!
//! * `plan`: controller, claims, plan and dispatch, over an executor that does nothing. Caches have 64 MiB, or
//!   4 GiB with a directory larger than the processor's caches.
//! * `whole`: the executor that the service has, over files that are memory, so that a read of a device is a
//!   copy of 4 KiB. The cache has 64 MiB.
//!
//! Half of the cache's pages come in and are read. Of dirty pages it is an eighth: with more of them `kdd`
//! updates the parity and gives them up. Before the measurement the benchmark checks that no hit asks a member,
//! and prints the steps of one.
//!
//! `cargo bench -p destage-exec --bench hits [-- FILTER]`

mod memory;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use destage_cache::{HostCacheSpec, ServedTier};
use destage_exec::{AlignedBuffer, DeviceConfig, DeviceOptions, ExistingFiles, FileExecutor, FilesConfig, IoBackend};
use destage_plan::{DevSet, Engine, HostOp, HostRequest, Nanos, Shape, Start, Step, StepOutcome};
use destage_raid::array::ArrayConfig;
use destage_raid::{Geometry, RaidLevel};
use memory::MemoryOs;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rustix::time::{ClockId, clock_gettime};

const PAGE: u64 = 4096;
const MEMBERS: u32 = 5;
/// Pages of a chunk.
const CHUNK: u32 = 16;
/// 64 MiB.
const SMALL: u64 = 1 << 14;
/// 4 GiB.
const LARGE: u64 = 1 << 20;
/// Bytes of a page that another write of it changes.
const CHANGED: usize = 400;

/// A cache, and what its pages have seen before they are read.
struct Case {
    name: &'static str,
    policy: &'static str,
    /// Is true if the pages that are read were written after they had come in.
    written: bool,
}

const CASES: [Case; 7] = [
    Case { name: "write-through", policy: "write-through", written: false },
    Case { name: "write-back/clean", policy: "write-back", written: false },
    Case { name: "write-back/dirty", policy: "write-back", written: true },
    Case { name: "leavo/new", policy: "leavo", written: true },
    Case { name: "kdd/base", policy: "kdd", written: false },
    Case { name: "kdd/delta", policy: "kdd", written: true },
    Case { name: "wow", policy: "wow:low=80:high=90", written: true },
];

struct Setup {
    config: ArrayConfig,
    policy: HostCacheSpec,
    shape: Shape,
    cache: u64,
}

impl Setup {
    fn new(case: &Case, cache: u64) -> Self {
        let geometry = Geometry::new(RaidLevel::Raid5, None, MEMBERS, CHUNK, 2 * cache).expect("an array");
        let stripe = u64::from(CHUNK) * u64::from(geometry.data_columns());
        let shape = Shape::new(PAGE, 512, stripe, stripe, geometry.data_pages()).expect("a shape");
        let config = ArrayConfig { page_bytes: PAGE as u32, ..ArrayConfig::new(geometry) };
        Self { config, policy: case.policy.parse().expect("there is one"), shape, cache }
    }

    fn controller(&self) -> Box<dyn ServedTier> {
        self.policy.build(&self.config, self.cache).expect("a cache over an array")
    }
}

/// Names the steps that no hit may cause.
const MEMBERS_STEPS: &str = "of members";

/// Something that serves requests, one at a time.
trait Host {
    fn serve(&mut self, op: HostOp, page: u64);

    /// Makes the host count what it does, or stop counting: counting takes time.
    fn attend(&mut self, _attends: bool) {}

    /// Counts what was done so far, by its name.
    fn done(&self) -> BTreeMap<String, u64>;
}

/// Plans alone.
struct Plan {
    engine: Engine<Box<dyn ServedTier>>,
    steps: BTreeMap<String, u64>,
    attends: bool,
}

impl Plan {
    fn new(setup: &Setup) -> Self {
        let mut engine = Engine::new(setup.controller(), setup.shape, 64);
        engine.start(
            Nanos(0),
            Start { nv: &[], intents: &[], missing: DevSet::EMPTY, collectors: DevSet::EMPTY, unwritable: &[] },
        );
        Self { engine, steps: BTreeMap::new(), attends: false }
    }
}

impl Host for Plan {
    fn serve(&mut self, op: HostOp, page: u64) {
        let request = HostRequest { tag: 0, op, offset: page * PAGE, len: PAGE, fua: false };
        self.engine.submit(Nanos(0), request).expect("in range");
        while let Some(issue) = self.engine.next_issue() {
            let step = black_box(self.engine.step(issue));
            let outcome =
                if let Step::Encode { .. } = step { StepOutcome::Length(CHANGED as u32) } else { StepOutcome::Ok };
            if self.attends {
                let member = step.dev().is_some_and(|dev| u32::from(dev.0) < MEMBERS);
                let name = if member { MEMBERS_STEPS.to_owned() } else { format!("{:?}", step.kind()) };
                *self.steps.entry(name).or_default() += 1;
            }
            self.engine.complete(Nanos(0), issue, outcome);
        }
        while self.engine.next_notice().is_some() {}
    }

    fn attend(&mut self, attends: bool) {
        self.attends = attends;
    }

    fn done(&self) -> BTreeMap<String, u64> {
        self.steps.clone()
    }
}

/// The service's executor over memory.
struct Whole {
    files: FileExecutor<Box<dyn ServedTier>>,
    buffer: AlignedBuffer,
    versions: u64,
}

impl Whole {
    fn new(setup: &Setup) -> Self {
        let options = DeviceOptions::default();
        let path = |dev| PathBuf::from(format!("device{dev}"));
        let pages = setup.config.geometry.member_pages();
        let mut devices: Vec<_> =
            (0..MEMBERS).map(|dev| DeviceConfig { path: path(dev), offset: 0, pages, options }).collect();
        for pages in setup.policy.info().devices(setup.cache) {
            devices.push(DeviceConfig { path: path(MEMBERS), offset: 0, pages, options });
        }
        let config = FilesConfig {
            array: 1,
            about: String::new(),
            shape: setup.shape,
            depth: 256,
            devices,
            every_write: false,
            nvram: "nvram".into(),
            spare_nvram: None,
            nv_slots: setup.config.nv_slots + setup.policy.nv_slots(setup.cache, &setup.config),
            intents: "intents".into(),
            rows: pages,
            members: MEMBERS as usize,
            rows_per_mark: 16,
            idle_marks: 64,
            io: IoBackend::Ring,
            patience: FilesConfig::PATIENCE,
            device_timeout: None,
        };
        let files =
            FileExecutor::create_on(Arc::new(MemoryOs::default()), setup.controller(), config, ExistingFiles::Refuse);
        Self { files: files.expect("an array in memory"), buffer: AlignedBuffer::zeroed(PAGE as usize), versions: 0 }
    }

    /// Another version of a page: as the one before, but for some bytes in a row.
    fn write(&mut self, page: u64) {
        self.versions += 1;
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(page);
        self.buffer.chunks_exact_mut(8).for_each(|bytes| bytes.copy_from_slice(&dice.next_u64().to_le_bytes()));
        let from = dice.next_u64() as usize % (PAGE as usize - CHANGED);
        self.buffer[from..from + CHANGED].fill(self.versions as u8);
    }
}

impl Host for Whole {
    fn serve(&mut self, op: HostOp, page: u64) {
        if op == HostOp::Write {
            self.write(page);
        }
        let request = HostRequest { tag: page, op, offset: page * PAGE, len: PAGE, fua: false };
        self.files.submit(request, std::mem::take(&mut self.buffer)).expect("in range");
        let mut completion = self.files.poll().expect("it is served");
        if completion.is_none() {
            completion = self.files.wait().expect("it is served");
        }
        let completion = completion.expect("it is under way");
        assert!(completion.ok && completion.tag == page, "page {page} is served");
        self.buffer = completion.bytes;
        self.buffer.resize(PAGE as usize);
    }

    fn done(&self) -> BTreeMap<String, u64> {
        let mut done = BTreeMap::from([("bytes copied".to_owned(), self.files.copied())]);
        for (traffic, dev) in self.files.traffic().zip(0_u32..) {
            let all = traffic.reads + traffic.writes + traffic.trims + traffic.flushes;
            *done.entry(if dev < MEMBERS { MEMBERS_STEPS } else { "Read" }.to_owned()).or_default() += all;
        }
        done
    }
}

/// Has the cache hold pages as the case has them; how many.
fn prepare(host: &mut impl Host, case: &Case, cache: u64) -> u64 {
    for page in 0..cache / 2 {
        host.serve(HostOp::Write, page);
        host.serve(HostOp::Read, page);
    }
    if !case.written {
        return cache / 2;
    }
    (0..cache / 8).for_each(|page| host.serve(HostOp::Write, page));
    cache / 8
}

/// Has random ones of these pages read.
fn read(host: &mut impl Host, dice: &mut Xoshiro256PlusPlus, pages: u64, count: u64) {
    for _ in 0..count {
        host.serve(HostOp::Read, dice.next_u64() % pages);
    }
}

/// Sees to it that what is measured are hits, and says what one takes.
fn look(name: &str, host: &mut impl Host, dice: &mut Xoshiro256PlusPlus, pages: u64) {
    let before = host.done();
    read(host, dice, pages, 10_000);
    let taken = host.done().into_iter().map(|(what, all)| {
        let each = (all - before.get(&what).copied().unwrap_or(0)) as f64 / 10_000.0;
        assert!(what != MEMBERS_STEPS || each == 0.0, "{name}: a hit asks members {each} times");
        format!("{what} {each:.2}")
    });
    println!("{name}: each hit: {}", taken.collect::<Vec<_>>().join(", "));
}

/// Measures the processor time of hits on this thread, since others may be at work on the machine.
fn measure<H: Host>(criterion: &mut Criterion, name: &str, case: &Case, cache: u64, host: impl Fn(&Setup) -> H) {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(1));
    let mut made = None;
    group.bench_function(case.name, |bencher| {
        let (host, dice, pages) = made.get_or_insert_with(|| {
            let mut host = host(&Setup::new(case, cache));
            let mut dice = Xoshiro256PlusPlus::seed_from_u64(1);
            let pages = prepare(&mut host, case, cache);
            host.attend(true);
            look(&format!("{name}/{}", case.name), &mut host, &mut dice, pages);
            host.attend(false);
            (host, dice, pages)
        });
        bencher.iter_custom(|count| {
            let begin = on_processor();
            read(host, dice, *pages, count);
            on_processor().saturating_sub(begin)
        });
    });
    group.finish();
}

fn on_processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for case in &CASES {
        measure(&mut criterion, "plan/64MiB", case, SMALL, Plan::new);
        measure(&mut criterion, "whole/64MiB", case, SMALL, Whole::new);
        measure(&mut criterion, "plan/4GiB", case, LARGE, Plan::new);
    }
    criterion.final_summary();
}
