//! The SSD alone: page programs and reads per second, collection included, on LAWC's geometry, full
//! at the start.
//!
//! `program/uniform`: random writes over 99 % of the exported pages, aged until the write
//! amplification is steady (about 4.6; each host program stands for as many flash programs).
//! `program/hot`: nine of ten writes to a tenth of the pages. `program/copy-back`: as uniform, with
//! a write point per plane. `read`: random reads. `bast`, `fast`: the same random writes with the
//! whole reserve as log blocks, most of which reclaim one (BAST); `.../blocks`: whole blocks in
//! order, which switch.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use destage_plan::{Nanos, PageGeometry, PageNo};
use destage_sim::ssd::{Ftl, Ssd, SsdConfig, SsdShape, StartState};

const OPERATIONS: u64 = 100_000;
const PAGES: u64 = 435_200;

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

criterion_group!(benches, operations, merges);
criterion_main!(benches);
