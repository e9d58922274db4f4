//! The SSD alone: page programs and reads per second, collection included, on LAWC's geometry, full
//! at the start.
//!
//! `program/uniform`: random writes over 99 % of the exported pages, aged until the write
//! amplification is steady (about 4.6; each host program stands for as many flash programs).
//! `program/hot`: nine of ten writes to a tenth of the pages. `program/copy-back`: as uniform, with
//! a write point per plane. `read`: random reads. `bast`, `fast`: the same random writes with the
//! whole reserve as log blocks, most of which reclaim one (BAST); `.../blocks`: whole blocks in
//! order, which switch. `modern/...`: a PM9A3 of the modern model, 2 GiB, steady: writes at 20,000 a second (write amplification
//! about 4.1), reads alone, nine reads to a write at 100,000 a second, and `modern/lru`: random writes through an LRU buffer of 1 %
//! to one of which so much is spare that its write amplification is about 3.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use destage_plan::{Nanos, PageGeometry, PageNo, Request};
use destage_sim::buffer::{BufferExperiment, DeviceConfig};
use destage_sim::ssd::{Ftl, ModernDesign, Ssd, SsdConfig, SsdShape, StartState};

#[path = "../tests/it/in_memory/mod.rs"]
mod in_memory;

const OPERATIONS: u64 = 100_000;
const PAGES: u64 = 435_200;
/// Pages of the modern drive: 2 GiB.
const MODERN_PAGES: u64 = 1 << 19;

struct Pages {
    state: u64,
    hot: bool,
}

impl Pages {
    fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let random = self.state.wrapping_mul(0x2545_F491_4F6C_DD1D);
        ((u128::from(random) * u128::from(bound)) >> 64) as u64
    }

    fn next(&mut self) -> PageNo {
        let hot = self.hot && self.below(10) > 0;
        PageNo(self.below(if hot { PAGES / 10 } else { PAGES }) as u32)
    }
}

fn lawc(copy_back: bool) -> Ssd {
    let config = SsdConfig { copy_back, ..SsdConfig::default() };
    let geometry = PageGeometry::new(4096, 64).expect("a geometry");
    let start = StartState::Aged { overwrites_pct: 300, seed: 1 };
    Ssd::new(SsdShape::new(config, geometry).expect("a shape"), start)
}

fn log_blocks(ftl: Ftl) -> Ssd {
    let config = SsdConfig { ftl, stride: 64, summary_page: false, ..SsdConfig::default() };
    let geometry = PageGeometry::new(4096, 64).expect("a geometry");
    let start = StartState::Aged { overwrites_pct: 50, seed: 1 };
    Ssd::new(SsdShape::new(config, geometry).expect("a shape"), start)
}

fn merges(c: &mut Criterion) {
    let mut group = c.benchmark_group("ssd");
    group.throughput(Throughput::Elements(OPERATIONS)).sample_size(20);
    for (name, ftl, run) in
        [("bast", Ftl::Bast, 1), ("bast/blocks", Ftl::Bast, 64), ("fast", Ftl::Fast, 1), ("fast/blocks", Ftl::Fast, 64)]
    {
        let mut ssd = log_blocks(ftl);
        let mut pages = Pages { state: 88_172_645_463_325_252, hot: false };
        let mut now = Nanos::ZERO;
        group.bench_function(name, |b| {
            b.iter(|| {
                for _ in 0..OPERATIONS / run {
                    let first = pages.next().0 / run as u32 * run as u32;
                    for page in first..first + run as u32 {
                        now += Nanos(500_000);
                        ssd.program(now, PageNo(page));
                    }
                }
            });
        });
        let total = ssd.total();
        let amplification = (total.host_programs + total.gc_pages_moved) as f64 / total.host_programs as f64;
        eprintln!("ssd/{name}: write amplification {amplification:.3}");
    }
    group.finish();
}

fn operations(c: &mut Criterion) {
    let mut group = c.benchmark_group("ssd");
    group.throughput(Throughput::Elements(OPERATIONS)).sample_size(20);
    for (name, hot, copy_back) in
        [("program/uniform", false, false), ("program/hot", true, false), ("program/copy-back", false, true)]
    {
        let mut ssd = lawc(copy_back);
        let mut pages = Pages { state: 88_172_645_463_325_252, hot };
        let mut now = Nanos::ZERO;
        group.bench_function(name, |b| {
            b.iter(|| {
                for _ in 0..OPERATIONS {
                    now += Nanos(500_000);
                    ssd.program(now, pages.next());
                }
            });
        });
        let total = ssd.total();
        let amplification = (total.host_programs + total.gc_pages_moved) as f64 / total.host_programs as f64;
        eprintln!("ssd/{name}: write amplification {amplification:.3}");
    }
    let mut ssd = lawc(false);
    let mut pages = Pages { state: 88_172_645_463_325_252, hot: false };
    group.bench_function("read", |b| {
        b.iter(|| (0..OPERATIONS).map(|i| ssd.read(Nanos(i), pages.next()).0).fold(0, u64::wrapping_add));
    });
    group.finish();
}

/// A PM9A3 of the modern model with 2 GiB, of whose flash so many hundredths of a percent are not exported.
fn pm9a3(reserve_bp: u32) -> SsdConfig {
    let geometry = PageGeometry::new(4096, 64).expect("a geometry");
    let drive = ModernDesign::named("pm9a3").expect("a preset").config(geometry);
    SsdConfig { reserve_bp, ..drive }.with_pages(MODERN_PAGES, geometry).expect("a drive")
}

fn modern(c: &mut Criterion) {
    let mut group = c.benchmark_group("ssd");
    group.throughput(Throughput::Elements(OPERATIONS)).sample_size(20);
    let geometry = PageGeometry::new(4096, 64).expect("a geometry");
    let steady = Ssd::new(SsdShape::new(pm9a3(1268), geometry).expect("a shape"), StartState::Steady { seed: 1 });
    for (name, interval, writes) in
        [("modern/program", 50_000, 10), ("modern/read", 10_000, 0), ("modern/mixed", 10_000, 1)]
    {
        let (mut ssd, mut now) = (steady.clone(), Nanos::ZERO);
        let mut pages = Pages { state: 88_172_645_463_325_252, hot: false };
        group.bench_function(name, |b| {
            b.iter(|| {
                for i in 0..OPERATIONS {
                    now += Nanos(interval);
                    let page = PageNo(pages.below(MODERN_PAGES) as u32);
                    if i % 10 < writes {
                        ssd.program(now, page)
                    } else {
                        ssd.read(now, page)
                    };
                }
            });
        });
        let total = ssd.total();
        if total.host_programs > 0 {
            let amplification = (total.host_programs + total.gc_pages_moved) as f64 / total.host_programs as f64;
            eprintln!("ssd/{name}: write amplification {amplification:.3}");
        }
    }
    group.finish();
}

/// The same behind a buffer, as `destage sim` runs it.
fn modern_behind_lru(c: &mut Criterion) {
    const REQUESTS: u64 = 1_000_000;
    let geometry = PageGeometry::new(4096, 64).expect("a geometry");
    let mut pages = Pages { state: 88_172_645_463_325_252, hot: false };
    let requests: Vec<Request> =
        (0..REQUESTS).map(|i| in_memory::write(i * 30, pages.below(MODERN_PAGES), 1)).collect();
    let device = DeviceConfig::Ssd(pm9a3(1730), StartState::Steady { seed: 1 });
    let experiment: BufferExperiment = in_memory::experiment(&["lru"], &[MODERN_PAGES / 100 * 4096], geometry, device);
    let mut group = c.benchmark_group("ssd");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    let run = in_memory::run_one(&experiment, &requests);
    eprintln!("ssd/modern/lru: write amplification {:?}", run.ssd.expect("an SSD").collection_amplification);
    // Until the drive is steady takes as long with one request.
    let time = |requests: &[Request]| {
        let begin = Instant::now();
        std::hint::black_box(in_memory::run_one(&experiment, requests));
        begin.elapsed()
    };
    group.bench_function("modern/lru", |b| {
        b.iter_custom(|count| {
            (0..count).map(|_| time(&requests).saturating_sub(time(&requests[..1]))).sum::<Duration>()
        });
    });
    group.finish();
}

criterion_group!(benches, operations, merges, modern, modern_behind_lru);
criterion_main!(benches);
