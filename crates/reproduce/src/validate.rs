//! `destage validate`: the simulator against theory, against conservation laws, and beside other
//! simulators.
//!
//! Everything is simulated anew, from fixed seeds, so the text is the same bytes every time and on
//! every machine. It holds no speeds.

use std::fmt::Write;

use crate::drives;
use crate::parallel;
use destage_policy::buffer::policies;
use destage_sim::buffer::RunResult;
use destage_sim::measure::MeanEstimate;
use destage_trace::{TraceError, TraceSource};

pub use crate::drives::{DRAWINGS, DriveEffort};
use crate::peers;
use crate::run::{EvidenceError, PAGE, StepListener, pair, percent, run, run_synthetic, synthetic};
use crate::skew::{SkewEffort, skew};
use crate::theory::{greedy_write_amplification, greedy_write_amplification_of_large_blocks, md1_wait};

/// Sets the size of the validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidationEffort {
    /// Erase blocks of the device whose write amplification is measured.
    pub blocks: u32,
    /// Sets how many times the device is overwritten while it is measured. The device is aged by as many
    /// overwrites before.
    pub overwrites: u64,
    /// Independent runs per figure.
    pub seeds: u64,
    /// Counts independent runs per figure under skew.
    pub skew_seeds: u64,
    /// Requests of a run of the queue.
    pub queue_requests: u64,
    /// Independent runs of the queue.
    pub queue_seeds: u64,
    /// How much drives that were measured are simulated.
    pub drives: DriveEffort,
}

impl ValidationEffort {
    /// Sets the effort of docs/validation.md.
    pub const FULL: Self = Self {
        blocks: 4096,
        overwrites: 10,
        seeds: 5,
        skew_seeds: 3,
        queue_requests: 1_000_000,
        queue_seeds: 20,
        drives: DriveEffort { shrunk: 0, milliseconds: 20_000, overwrites: 10 },
    };
}

/// Holds the result of a validation.
pub struct ValidationReport {
    /// As Markdown.
    pub markdown: String,
    /// Holds the [`DRAWINGS`] that it shows, which are SVG.
    pub drawings: Vec<String>,
    /// The checks that failed, one line each.
    pub failures: Vec<String>,
}

/// The deviation from theory that is allowed.
const TOLERANCE: f64 = 0.02;

/// Checks everything; `step` hears what is being done. As many runs at a time as the current rayon
/// pool has threads.
pub fn validate(effort: ValidationEffort, step: StepListener) -> Result<ValidationReport, EvidenceError> {
    let mut failures = Vec::new();
    let mut out = String::new();
    let under_skew = SkewEffort { blocks: effort.blocks, overwrites: effort.overwrites, seeds: effort.skew_seeds };
    let drives = drives::compare(effort.drives, step)?;
    failures.extend(drives.failures);
    let parts = [
        "# Validation: destage against theory, conservation laws and other simulators\n\n\
         Written by `make validate` (`destage validate`), from fixed seeds: the same bytes on every run and machine. Speeds are in \
         benchmarks.md. ± is the half width of the 95 % confidence interval (Student's t over independent seeds).\n"
            .to_owned(),
        write_amplification(effort, step, &mut failures)?,
        skew(under_skew, step, &mut failures)?,
        queue(effort, step, &mut failures)?,
        laws(step, &mut failures)?,
        drives.markdown,
        peers::compare(step)?,
    ];
    for part in parts {
        out.push_str(&part);
    }
    let _ = match failures.len() {
        0 => write!(out, "\n## Verdict\n\nEvery check holds.\n"),
        n => write!(out, "\n## Verdict\n\n{n} checks fail:\n\n- {}\n", failures.join("\n- ")),
    };
    Ok(ValidationReport { markdown: out, drawings: drives.drawings, failures })
}

/// A cell of the table of write amplifications.
struct AmplificationCell {
    pages: u32,
    nominal: f64,
    rho: f64,
    measured: MeanEstimate,
}

/// Blocks at or below which the device of [`write_amplification`] collects, in hundredths of a
/// percent.
const MIN_FREE_BP: u32 = 50;

fn amplification(effort: ValidationEffort, pages: u32, nominal: f64) -> Result<AmplificationCell, EvidenceError> {
    let blocks = f64::from(effort.blocks);
    // Between one and two blocks beyond the threshold are free on average; the exact figure is
    // measured.
    let free = (blocks * f64::from(MIN_FREE_BP) / 1e4).floor() + 1.5;
    let reserved = (blocks - nominal * (blocks - free)).round();
    let reserve_bp = (reserved * 1e4 / blocks).ceil();
    let host_pages = u64::from(effort.blocks - (reserve_bp * blocks / 1e4).floor() as u32) * u64::from(pages);
    let seeds: Vec<u64> = (1..=effort.seeds).collect();
    let runs: Vec<(f64, f64)> = parallel::map(&seeds, |&seed| {
        let settings = [
            pair("policy", "none"),
            pair("cache", PAGE),
            pair("pages-per-block", pages),
            pair("device", "ssd"),
            pair("ssd.model", "classic"),
            pair("host", "closed:1"),
            pair("start", format!("aged:{}:{}", effort.overwrites, 1000 + seed)),
            pair("ssd.elements", 1),
            pair("ssd.planes", 1),
            pair("ssd.blocks-per-plane", effort.blocks),
            pair("ssd.summary-page", false),
            pair("ssd.min-free", format!("{}%", f64::from(MIN_FREE_BP) / 100.0)),
            pair("ssd.reserve", format!("{}%", reserve_bp / 100.0)),
        ];
        let workload = [
            pair("length", host_pages * effort.overwrites),
            pair("arrivals", "closed"),
            pair("space", host_pages * PAGE),
            pair("seed", seed),
        ];
        let result = run_synthetic("uniform random writes", &settings, &workload)?;
        let ssd = result.ssd.expect("an SSD");
        assert_eq!(ssd.host_pages, host_pages, "the device exports what was asked for");
        let rho = host_pages as f64 / ((blocks - ssd.mean_free_blocks) * f64::from(pages));
        Ok::<_, EvidenceError>((rho, ssd.collection_amplification.expect("writes")))
    })?;
    let (rhos, measured): (Vec<f64>, Vec<f64>) = runs.into_iter().unzip();
    Ok(AmplificationCell { pages, nominal, rho: MeanEstimate::of(&rhos).mean, measured: MeanEstimate::of(&measured) })
}

fn write_amplification(
    effort: ValidationEffort,
    step: StepListener,
    failures: &mut Vec<String>,
) -> Result<String, EvidenceError> {
    let mut out = format!(
        "\n## Write amplification of greedy cleaning\n\n\
         Uniform random writes of single pages to a device of {} blocks that is full and was aged by {n} random overwrites; \
         measured over {n} more, {} seeds. ρ = mapped pages / ((blocks - mean free blocks) · data pages per block), with the mean of \
         free blocks as measured. Theory: the mean-field model of Van Houdt (SIGMETRICS 2013) in its greedy limit. The \
         measured figures lie a little above it everywhere because the block that is being written is neither free nor complete, \
         and the theory counts it among the complete ones. The last column is the limit for very large blocks (Xiang and Kurkoski \
         2011), for comparison: it is not expected to be met.\n\n\
         | pages per block | ρ | exact ρ | theory | measured | deviation | large blocks |\n\
         |--:|--:|--:|--:|--:|--:|--:|\n",
        effort.blocks,
        effort.seeds,
        n = effort.overwrites,
    );
    for nominal in [0.70, 0.80, 0.88, 0.93] {
        for pages in [32, 64, 256] {
            step(&format!("write amplification: {pages} pages per block, ρ = {nominal:.2}"));
            let cell = amplification(effort, pages, nominal)?;
            let theory = greedy_write_amplification(cell.pages, cell.rho);
            let deviation = cell.measured.mean / theory - 1.0;
            let _ = writeln!(
                out,
                "| {} | {:.2} | {:.5} | {theory:.4} | {:.4} ± {:.4} | {} | {:.4} |",
                cell.pages,
                cell.nominal,
                cell.rho,
                cell.measured.mean,
                cell.measured.half_width,
                percent(deviation),
                greedy_write_amplification_of_large_blocks(cell.rho),
            );
            if deviation.abs() > TOLERANCE {
                failures.push(format!("write amplification, {pages} pages, ρ {nominal}: {}", percent(deviation)));
            }
        }
    }
    Ok(out)
}

fn queue(effort: ValidationEffort, step: StepListener, failures: &mut Vec<String>) -> Result<String, EvidenceError> {
    // 25 us, and eight sectors of 528 B at 25 ns a byte.
    const SERVICE: f64 = 130_600.0;
    let mut out = format!(
        "\n## Waiting: one element as an M/D/1 queue\n\n\
         Reads of single pages from one element arrive as a Poisson process; each takes {} µs (read and transfer). {} runs of \
         {} requests per load, after 10,000 that are not measured. Theory: Pollaczek and Khinchine. The utilisation law says that the \
         element is busy for the share of time that is the load.\n\n\
         | load | theory: mean wait, µs | measured | deviation | busy |\n|--:|--:|--:|--:|--:|\n",
        SERVICE / 1e3,
        effort.queue_seeds,
        effort.queue_requests,
    );
    for load in [0.3, 0.6, 0.9] {
        step(&format!("M/D/1 at a load of {load}"));
        let interval = (SERVICE / load).round();
        let load = SERVICE / interval;
        let seeds: Vec<u64> = (1..=effort.queue_seeds).collect();
        let runs: Vec<(f64, f64)> = parallel::map(&seeds, |&seed| {
            let settings = [
                pair("policy", "none"),
                pair("cache", PAGE),
                pair("device", "ssd"),
                pair("ssd.model", "classic"),
                pair("start", "full"),
                pair("buffer-latency", "0ns"),
                pair("warmup", 10_000),
                pair("ssd.elements", 1),
                pair("ssd.planes", 1),
                pair("ssd.blocks-per-plane", 256),
            ];
            let workload = [
                pair("length", effort.queue_requests + 10_000),
                pair("arrivals", format!("poisson:{interval}ns")),
                pair("read", 100),
                pair("space", "32MiB"),
                pair("seed", seed),
            ];
            let result = run_synthetic("random reads", &settings, &workload)?;
            let busy: u64 = result.ssd.iter().flat_map(|ssd| &ssd.elements).map(|e| e.busy_time).sum();
            let all = result.response.and_then(|r| r.all).expect("the queue is stable");
            Ok::<_, EvidenceError>((all.mean - SERVICE, busy as f64 / result.simulated_time as f64))
        })?;
        let (waits, busy): (Vec<f64>, Vec<f64>) = runs.into_iter().unzip();
        let (wait, busy) = (MeanEstimate::of(&waits), MeanEstimate::of(&busy));
        let theory = md1_wait(SERVICE, load);
        let deviation = wait.mean / theory - 1.0;
        let _ = writeln!(
            out,
            "| {load:.4} | {:.3} | {:.3} ± {:.3} | {} | {:.4} ± {:.4} |",
            theory / 1e3,
            wait.mean / 1e3,
            wait.half_width / 1e3,
            percent(deviation),
            busy.mean,
            busy.half_width
        );
        if deviation.abs() > TOLERANCE {
            failures.push(format!("M/D/1 at {load:.4}: {}", percent(deviation)));
        }
        if (busy.mean / load - 1.0).abs() > TOLERANCE {
            failures.push(format!("utilisation at {load:.4}: {:.4}", busy.mean));
        }
    }
    Ok(out)
}

/// A law: its name, and its two sides for a result.
type ConservationLaw = (&'static str, fn(&RunResult) -> (u64, u64));

const LAWS: &[ConservationLaw] = &[
    ("requests simulated = requests read", |r| {
        (r.counters.requests, r.context.input.trace_requests - r.context.input.left_out_requests)
    }),
    ("accesses = hits + misses", |r| (r.counters.accesses, r.counters.hits + r.counters.misses)),
    ("pages written by the host = write hits + insertions + bypasses", |r| {
        let c = &r.counters;
        (c.write_pages, c.write_hits + c.write_insertions + c.bypassed_writes)
    }),
    ("insertions = pages destaged by evictions and by the final drain", |r| {
        let c = &r.counters;
        (c.write_insertions, c.dirty_pages_flushed + c.flush_pages_flushed + c.drain_pages_flushed)
    }),
    ("programs for the host = pages destaged + padding + bypasses", |r| {
        let c = &r.counters;
        let host = r.ssd.as_ref().map_or(0, |ssd| ssd.host_programs);
        (host, c.dirty_pages_flushed + c.pad_reads + c.bypassed_writes)
    }),
    ("flash writes = programs for the host + pages moved + summaries", |r| {
        let ssd = r.ssd.as_ref();
        let (host, summaries) = ssd.map_or((0, 0), |ssd| (ssd.host_programs, ssd.summary_programs));
        (r.flash.flash_writes.unwrap_or(0), host + r.flash.gc_pages_moved.unwrap_or(0) + summaries)
    }),
    ("flash reads = padding that is mapped", |r| {
        let unmapped = r.ssd.as_ref().map_or(0, |ssd| ssd.unmapped_reads);
        (r.flash.flash_reads.unwrap_or(0) + unmapped, r.counters.pad_reads + r.counters.bypassed_reads)
    }),
    ("each element's share adds up: flash writes", |r| {
        let elements = r.ssd.iter().flat_map(|ssd| &ssd.elements);
        (r.flash.flash_writes.unwrap_or(0), elements.map(|e| e.flash_writes).sum())
    }),
    ("each element's share adds up: erases", |r| {
        let elements = r.ssd.iter().flat_map(|ssd| &ssd.elements);
        (r.flash.erases.unwrap_or(0), elements.map(|e| e.erases).sum())
    }),
];

fn laws(step: StepListener, failures: &mut Vec<String>) -> Result<String, EvidenceError> {
    step("conservation laws");
    let names = |chooses: bool| {
        let named = policies().iter().filter(|policy| policy.chooses_channels == chooses);
        named.map(|policy| policy.name).collect::<Vec<_>>().join(",")
    };
    let settings = |policies: String, allocation: &str| {
        [
            pair("policy", policies),
            pair("ssd.allocation", allocation),
            pair("cache", "1MiB,16MiB"),
            pair("device", "ssd"),
            pair("ssd.model", "classic"),
            pair("ops", "writes"),
            pair("ssd.elements", 2),
            pair("ssd.planes", 2),
            pair("ssd.blocks-per-plane", 512),
        ]
    };
    let workload = [
        pair("length", 400_000),
        pair("sizes", "4KiB:60,8KiB:20,64KiB:20"),
        pair("sequential", 30),
        pair("read", 10),
        pair("footprint", "zipf:0.9,scattered"),
        pair("space", "384MiB"),
        pair("arrivals", "poisson:10ms"),
    ];
    synthetic(&workload)?;
    let mut open =
        || -> Result<Box<dyn TraceSource>, TraceError> { Ok(Box::new(synthetic(&workload).expect("made once"))) };
    let mut results = run("mixed writes", &settings(names(false), "static"), &mut open)?;
    results.extend(run("mixed writes", &settings(names(true), "channels"), &mut open)?);
    let mut out = format!(
        "\n## Conservation\n\n\
         {} runs (every policy with buffers of 1 and 16 MiB over an SSD that is full at the start, and that has channels where \
         the policy chooses them; 400,000 requests, writes only, a Zipf footprint with sequential runs). Each law must hold exactly in each run.\n\n\
         | law | runs in which it holds | sum of its sides over the runs |\n|---|--:|--:|\n",
        results.len(),
    );
    for (name, sides) in LAWS {
        let both: Vec<(u64, u64)> = results.iter().map(sides).collect();
        let holds = both.iter().filter(|(a, b)| a == b).count();
        let sum = |side: fn(&(u64, u64)) -> u64| both.iter().map(side).sum::<u64>();
        let _ = writeln!(out, "| {name} | {holds} of {} | {} = {} |", both.len(), sum(|s| s.0), sum(|s| s.1));
        if holds < both.len() {
            failures.push(format!("{name}: holds in {holds} of {} runs", both.len()));
        }
    }
    Ok(out)
}
