//! Counts the instructions of each workload, by callgrind; `scripts/counts` runs it and compares.

#![expect(missing_docs, reason = "the macros make public items")]

use std::hint::black_box;

use destage_counts::{
    Work, array, buffer, collecting, delta, hit, kernel, log_blocks, pipeline, plan, read, stat, tier,
};
use gungraun::Callgrind;
use gungraun::prelude::*;

/// Does the work, and hands it back, so that giving up its memory does not count.
fn done(mut work: Work) -> (u64, Work) {
    (black_box(work()), work)
}

#[library_benchmark(setup = buffer)]
#[bench::lru("lru")]
#[bench::clock("clock")]
#[bench::fab("fab")]
#[bench::bplru("bplru")]
#[bench::lb_clock("lb-clock")]
#[bench::cflru("cflru")]
#[bench::clc("clc")]
#[bench::pud_lru("pud-lru")]
fn buffers(work: Work) -> (u64, Work) {
    done(work)
}

#[library_benchmark(setup = collecting)]
#[bench::none("none")]
#[bench::lru("lru")]
#[bench::lb_clock("lb-clock")]
#[bench::gcar_lru("gcar+lru")]
#[bench::gcar_lb_clock("gcar+lb-clock")]
#[bench::gate_lru("gate+lru")]
#[bench::cawr("cawr")]
fn ssd(work: Work) -> (u64, Work) {
    done(work)
}

#[library_benchmark(setup = log_blocks)]
#[bench::bast("bast")]
#[bench::fast("fast")]
fn ftl(work: Work) -> (u64, Work) {
    done(work)
}

#[library_benchmark(setup = pipeline)]
#[bench::none("none")]
#[bench::lru("lru")]
fn sim(work: Work) -> (u64, Work) {
    done(work)
}

#[library_benchmark(setup = read)]
#[bench::native("native")]
#[bench::disksim("disksim")]
#[bench::msr("msr")]
#[bench::columns("columns")]
#[bench::oracle_general("oracle-general")]
fn traces(work: Work) -> (u64, Work) {
    done(work)
}

#[library_benchmark(setup = stat)]
#[bench::all()]
fn statistics(work: Work) -> (u64, Work) {
    done(work)
}

#[library_benchmark(setup = plan)]
#[bench::raid5_write("raid5-write")]
#[bench::raid5_read("raid5-read")]
#[bench::raid6_write("raid6-write")]
#[bench::cached_write("cached-write")]
fn plans(work: Work) -> (u64, Work) {
    done(work)
}

#[library_benchmark(setup = hit)]
#[bench::write_through("write-through")]
#[bench::kdd("kdd")]
#[bench::kdd_delta("kdd-delta")]
#[bench::wow("wow")]
fn hits(work: Work) -> (u64, Work) {
    done(work)
}

#[library_benchmark(setup = array)]
#[bench::raid5_write("none")]
#[bench::wow("wow")]
#[bench::lawc("lawc")]
fn arrays(work: Work) -> (u64, Work) {
    done(work)
}

#[library_benchmark(setup = tier)]
#[bench::write_through("write-through")]
#[bench::kdd("kdd")]
fn tiers(work: Work) -> (u64, Work) {
    done(work)
}

#[library_benchmark(setup = kernel)]
#[bench::portable("portable")]
#[bench::ssse3("ssse3")]
#[bench::avx2("avx2")]
fn kernels(work: Work) -> (u64, Work) {
    done(work)
}

#[library_benchmark(setup = delta)]
#[bench::portable("portable")]
#[bench::avx2("avx2-bmi2")]
fn deltas(work: Work) -> (u64, Work) {
    done(work)
}

library_benchmark_group!(
    name = all,
    benchmarks = [buffers, ssd, ftl, sim, traces, statistics, plans, hits, arrays, tiers, kernels, deltas]
);

/// Without a simulation of caches. Threads count from their beginning, so that the reader's work is
/// in a simulation's figure.
fn config() -> LibraryBenchmarkConfig {
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(Callgrind::with_args(["--cache-sim=no", "--toggle-collect=*thread_start*"]));
    config
}

main!(config = config(), library_benchmark_groups = all);
