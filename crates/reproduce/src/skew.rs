//! Measures write amplification under skew, by what a collection cleans and where it puts valid pages, beside greedy collection as
//! others simulated it.

use std::fmt::Write;

use destage_sim::measure::MeanEstimate;

use crate::parallel;
use crate::run::{EvidenceError, PAGE, StepListener, pair, percent, run_synthetic};

/// Bounds the deviation from the others' figures. How many blocks they are of, and of how many pages, is not told, and
/// moves the amplification under skew by some percent.
const TOLERANCE: f64 = 0.03;
const PAGES_PER_BLOCK: u32 = 256;
/// Leaves one block of 1,024 free when collection begins, four of 4,096.
const MIN_FREE: &str = "0.1%";

/// Describes a collector by its two settings, with what others found for each footprint.
struct SkewCollector {
    about: &'static str,
    batch: &'static str,
    write_point: &'static str,
    /// Lists figures of independent simulations, in the order of [`FOOTPRINTS`].
    others: [&'static [f64]; 3],
}

const FOOTPRINTS: [&str; 3] = ["uniform", "zipf:0.8,scattered", "zipf:1.0,scattered"];

/// Lists figures of greedy collection of uniform writes: alike whatever the batch and the write point.
const UNIFORM: &[f64] = &[4.12, 4.14];

const COLLECTORS: [SkewCollector; 3] = [
    SkewCollector { about: "default", batch: "watermark", write_point: "shared", others: [UNIFORM, &[], &[]] },
    SkewCollector {
        about: "one block at a time, one write point",
        batch: "1",
        write_point: "shared",
        others: [UNIFORM, &[5.20, 5.23], &[6.29, 6.33]],
    },
    SkewCollector {
        about: "one block at a time, a write point of its own",
        batch: "1",
        write_point: "own",
        others: [UNIFORM, &[4.45], &[4.53]],
    },
];

/// Holds how much is simulated for each figure.
#[derive(Clone, Copy)]
pub(crate) struct SkewEffort {
    /// Counts erase blocks.
    pub(crate) blocks: u32,
    /// Counts overwrites of the exported size that are measured; as many are not, before.
    pub(crate) overwrites: u64,
    /// Counts independent runs.
    pub(crate) seeds: u64,
}

fn measured(effort: SkewEffort, collector: &SkewCollector, footprint: &str) -> Result<MeanEstimate, EvidenceError> {
    let host_pages = u64::from(effort.blocks) * 7 / 8 * u64::from(PAGES_PER_BLOCK);
    // The warm-up is as long as what is measured: a device that begins full has to reach its steady state.
    let writes = host_pages * effort.overwrites;
    let seeds: Vec<u64> = (1..=effort.seeds).collect();
    let figures = parallel::map(&seeds, |&seed| {
        let settings = [
            pair("policy", "none"),
            pair("cache", PAGE),
            pair("pages-per-block", PAGES_PER_BLOCK),
            pair("device", "ssd"),
            pair("ssd.model", "classic"),
            pair("host", "closed:1"),
            pair("start", "full"),
            pair("warmup", writes),
            pair("ssd.elements", 1),
            pair("ssd.planes", 1),
            pair("ssd.blocks-per-plane", effort.blocks),
            pair("ssd.summary-page", false),
            pair("ssd.min-free", MIN_FREE),
            pair("ssd.reserve", "12.5%"),
            pair("ssd.collection-batch", collector.batch),
            pair("ssd.collection-write-point", collector.write_point),
        ];
        let workload = [
            pair("length", writes * 2),
            pair("arrivals", "closed"),
            pair("footprint", footprint),
            pair("space", host_pages * PAGE),
            pair("seed", seed),
        ];
        let ssd = run_synthetic("skewed writes", &settings, &workload)?.ssd.expect("an SSD");
        assert_eq!(ssd.host_pages, host_pages, "the device exports what was asked for");
        Ok::<_, EvidenceError>(ssd.collection_amplification.expect("writes"))
    })?;
    Ok(MeanEstimate::of(&figures))
}

/// Returns the table, and adds a line to `failures` for each figure that is out of bounds.
pub(crate) fn skew(
    effort: SkewEffort,
    step: StepListener,
    failures: &mut Vec<String>,
) -> Result<String, EvidenceError> {
    let mut out = format!(
        "\n## Write amplification under skew\n\n\
         Writes of single pages, scattered over the addresses, to a device of {} blocks of {PAGES_PER_BLOCK} pages that exports 87.5 % \
         of them and begins full; measured over {n} overwrites after {n} that are not, {} seeds. Collection begins at {MIN_FREE} \
         free blocks. How much a collection cleans (`ssd.collection-batch`), and whether what it moves goes behind hosts' pages \
         (`ssd.collection-write-point`), hardly matters to uniform writes and much to skewed ones. The default is the MSR SSD \
         extension's: it cleans several blocks in a run, whose valid pages fill blocks by themselves, so it comes close to a write \
         point of its own. Others: greedy collection of one block at a time by two independent simulations with one write \
         point, and a Monte Carlo with two. The deviation from their mean must be {:.0} % at most.\n\n\
         | addresses | collection | batch | write point | measured | others | deviation |\n\
         |---|---|---|---|--:|--:|--:|\n",
        effort.blocks,
        effort.seeds,
        TOLERANCE * 100.0,
        n = effort.overwrites,
    );
    for (i, footprint) in FOOTPRINTS.into_iter().enumerate() {
        for collector in &COLLECTORS {
            let SkewCollector { about, batch, write_point, others } = collector;
            step(&format!("write amplification under skew: {footprint}, {about}"));
            let found = measured(effort, collector, footprint)?;
            let addresses = footprint.replace(':', " ").replace(",scattered", "");
            let _ = write!(
                out,
                "| {addresses} | {about} | `{batch}` | `{write_point}` | {:.4} ± {:.4} |",
                found.mean, found.half_width
            );
            let others = others[i];
            if others.is_empty() {
                out.push_str(" | |\n");
                continue;
            }
            // The others differ among themselves, so that none of them is taken for the truth.
            let mean = others.iter().sum::<f64>() / others.len() as f64;
            let deviation = found.mean / mean - 1.0;
            let figures: Vec<String> = others.iter().map(|figure| format!("{figure:.2}")).collect();
            let _ = writeln!(out, " {} | {} |", figures.join("; "), percent(deviation));
            if deviation.abs() > TOLERANCE {
                failures.push(format!("write amplification, {addresses}, {about}: {}", percent(deviation)));
            }
        }
    }
    Ok(out)
}
