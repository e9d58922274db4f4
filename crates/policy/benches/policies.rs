//! Accesses per second of every policy that holds pages, in steady state, on one core.
//!
//! Trace: 20 million writes, Zipf with exponent 1.0 over a million pages, drawn by the inverse of
//! the cumulative distribution with xorshift64*. *Ranks* names the pages by popularity, so that the
//! popular ones share blocks; *permuted* scatters them by a fixed bijection. Buffers hold 1 % and
//! 10 % of the pages, blocks 64 pages. One iteration is the whole trace; the buffer stays full from
//! one to the next, and the warm-up runs the trace at least once.
//!
//! `cargo bench -p destage-policy --bench policies [-- FILTER]`

use std::fs;
use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput};
use destage_plan::PolicySpec;
use destage_policy::buffer::{
    AccessOutcome, BufferConfig, BufferPolicy, BuiltPolicy, Evictions, NoDevice, NoVeto, PageAccess, PolicyVisitor,
    build, policies,
};

const PAGES: u32 = 1_000_000;
const PAGES_PER_BLOCK: u32 = 64;
const FRAMES: [u32; 2] = [10_000, 100_000];
/// Neither 2 nor 5 divides it, so multiplying by it permutes the numbers below a million.
const SCATTER: u64 = 618_033;

/// The xorshift64* generator.
struct XorShift64Star(u64);

impl XorShift64Star {
    fn next(&mut self) -> u64 {
        let mut x = self.0;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0 = x;
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from 0 to 1, 1 excluded.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// `accesses` page numbers; the most popular page is 0.
fn zipf(accesses: usize) -> Vec<u32> {
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=PAGES)
        .map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        })
        .collect();
    let mut random = XorShift64Star(0xD1B5_4A32_D192_ED03);
    (0..accesses)
        .map(|_| {
            let at = random.share() * sum;
            cumulative.partition_point(|c| *c < at) as u32
        })
        .collect()
}

/// Writes every page of the trace. Returns the hits.
#[inline(never)]
fn write_all<B: BufferPolicy>(buffer: &mut B, trace: &[u32], out: &mut Evictions) -> u64 {
    let mut hits = 0;
    for &page in trace {
        let outcome = buffer.access(PageAccess::write(page), &NoDevice, &mut NoVeto, out);
        hits += u64::from(outcome == AccessOutcome::Hit);
        if !out.is_empty() {
            out.clear();
        }
    }
    hits
}

/// Measures the policy that it is handed, with its type.
struct Measure<'a, 'c> {
    group: &'a mut BenchmarkGroup<'c, WallTime>,
    name: String,
    trace: &'a [u32],
}

impl PolicyVisitor for Measure<'_, '_> {
    type Out = ();
    fn visit<B: BufferPolicy + Send + 'static>(self, mut buffer: B, _: BuiltPolicy) {
        buffer.grow(PAGES);
        let mut out = Evictions::default();
        let mut hits = 0;
        self.group.bench_function(&self.name, |bencher| {
            bencher.iter(|| hits = black_box(write_all(&mut buffer, black_box(self.trace), &mut out)));
        });
        if hits > 0 {
            eprintln!("{}: {:.2} % hits", self.name, 100.0 * hits as f64 / self.trace.len() as f64);
        }
    }
}

fn processor() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| "processor unknown".to_owned(), |(_, name)| name.trim().to_owned())
}

fn main() {
    // As a test the benchmark only shows that it runs.
    let accesses = if std::env::args().any(|arg| arg == "--test") { 100_000 } else { 20_000_000 };
    let conditions = format!(
        "{accesses} writes, zipf 1.0 over {PAGES} pages, {PAGES_PER_BLOCK} pages per block; {}; one core",
        processor()
    );
    eprintln!("{conditions}");

    let ranks = zipf(accesses);
    let permuted = ranks.iter().map(|rank| (u64::from(*rank) * SCATTER % u64::from(PAGES)) as u32).collect();
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    for (ids, trace) in [("ranks", ranks), ("permuted", permuted)] {
        for capacity_pages in FRAMES {
            let mut group = criterion.benchmark_group(format!("{ids}/{capacity_pages}"));
            group.throughput(Throughput::Elements(trace.len() as u64));
            group.sampling_mode(SamplingMode::Flat).warm_up_time(Duration::from_millis(100));
            // `none` holds nothing: its loop is empty.
            for policy in policies().iter().filter(|policy| policy.name != "none") {
                let spec = PolicySpec { name: policy.name.into(), given: Vec::new() };
                let config = BufferConfig { capacity_pages, pages_per_block: PAGES_PER_BLOCK, elements: 1 };
                let name = policy.name.to_owned();
                build(&spec, config, Measure { group: &mut group, name, trace: &trace }).expect("defaults build");
            }
            group.finish();
        }
    }
    criterion.final_summary();
    eprintln!("{conditions}");
}
