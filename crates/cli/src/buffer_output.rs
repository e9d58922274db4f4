//! Results of runs of buffers as readable tables.

use std::io::{self, Write};

use destage_report::figures::{
    CLEAN_DROPS, COLLECTIONS, ERASES, EVICTIONS, FLASH_READS, HIT_RATIO, MEAN, MODEL_THROUGHPUT, P50, P99, P99_9,
    PAD_READS, PAGES_FLUSHED, PAGES_PER_EVICTION, ResultFigure, WRITE_AMPLIFICATION,
};
use destage_report::{RankingObjective, ReportRun, ssd_words};
use destage_scenario::quantity::{show_bytes, show_count};
use destage_sim::buffer::RunResult;

use crate::best_output;
use crate::findings_output;
use crate::run_table::{self, ShownFigure, shown};
use crate::screen::TerminalScreen;
use crate::spark;
use crate::table::{BEST, TextCell, TextColumn};
use crate::volume_table::{self, VolumeRows};

const HITS: &[ShownFigure] = &[
    shown(HIT_RATIO).ranked(),
    shown(EVICTIONS),
    shown(PAGES_PER_EVICTION),
    shown(PAGES_FLUSHED).named("flushed"),
    shown(PAD_READS),
    shown(CLEAN_DROPS),
];
const ANALYTIC: &[ShownFigure] = &[
    shown(HIT_RATIO).ranked(),
    shown(EVICTIONS),
    shown(PAGES_PER_EVICTION),
    shown(ERASES),
    shown(FLASH_READS).named("pad reads"),
    shown(MODEL_THROUGHPUT).places(3).ranked(),
];
const SSD: &[ShownFigure] = &[
    shown(HIT_RATIO).ranked(),
    shown(MEAN).ranked(),
    shown(P50).ranked(),
    shown(P99).ranked(),
    shown(P99_9).ranked(),
    shown(EVICTIONS).group(),
    shown(PAGES_PER_EVICTION).named("pages/ev."),
    shown(WRITE_AMPLIFICATION).ranked(),
    shown(ERASES).ranked(),
    shown(COLLECTIONS),
];

/// Writes the results as a readable table, below what they have in common, the device first, and above the best per size.
pub fn text(screen: &mut TerminalScreen, results: &[RunResult], objective: Option<RankingObjective>) -> io::Result<()> {
    let Some(first) = results.first() else {
        return writeln!(screen, "no runs");
    };
    let runs: Vec<_> = results.iter().map(ReportRun::of_buffer).collect();
    let device = match &first.ssd {
        Some(ssd) => format!(
            "{}; {} exported of {} raw, start state {}, host {}",
            ssd_words(&runs[0]),
            show_bytes(ssd.host_pages * first.page_bytes),
            show_bytes(ssd.raw_pages * first.page_bytes),
            first.start_state,
            first.context.host
        ),
        None => first.device.clone(),
    };
    screen.paragraph("device    ", &device)?;
    let input = &first.context.input;
    let trace = run_table::trace(input);
    screen.paragraph("trace     ", &trace)?;
    let c = &first.counters;
    let warmup = match first.context.warmup_requests {
        0 => String::new(),
        n => format!(", after {} of warm-up", show_count(n)),
    };
    let measured = format!(
        "{} requests{warmup}: {} reads, {} writes; {} page accesses of {}, blocks of {} pages",
        show_count(c.requests),
        show_count(c.read_requests),
        show_count(c.write_requests),
        show_count(c.accesses),
        show_bytes(first.page_bytes),
        first.pages_per_block
    );
    screen.paragraph("measured  ", &measured)?;
    if let Some(sizes) = run_table::sizes(input) {
        screen.paragraph("sizes     ", &sizes)?;
    }
    writeln!(screen)?;
    let (figures, texts): (_, &[_]) = match first.device.as_str() {
        "ssd" => (SSD, &[]),
        "analytic" => (ANALYTIC, &[("model", "analytic.model")]),
        _ => (HITS, &[]),
    };
    // Sizes compete on their own where there is something to compare at them.
    let by_size = has_rivals(results);
    let competes = |figure: &ResultFigure, run: &ReportRun| {
        let size = if by_size { run.cache().unwrap_or(0) } else { 0 };
        is_comparable(figure, run).then_some(size)
    };
    let rows = results.iter().map(key_cells);
    let figures = run_table::with_declared(figures, false);
    let (table, marked) = run_table::table(keys(), rows, &runs, &figures, texts, competes);
    table.print(screen)?;
    if marked {
        writeln!(screen, "\n{BEST} best of {}", if by_size { "its cache size" } else { "all sizes" })?;
    }
    let over_time: Vec<_> = results.iter().map(over_time).collect();
    spark::print(screen, keys(), &over_time)?;
    let names: Vec<_> = results.iter().map(name).collect();
    best_output::text(screen, &runs, &names, objective)?;
    let volumes = results
        .iter()
        .filter_map(|r| Some(VolumeRows { keys: vec![name(r), size(r)], volumes: r.volumes.as_deref()? }));
    volume_table::print(screen, &volumes.collect::<Vec<_>>())?;
    findings_output::text(screen, &runs, objective)
}

/// Returns true if several runs have the same size.
fn has_rivals(results: &[RunResult]) -> bool {
    let mut sizes: Vec<u64> = results.iter().filter_map(|r| r.cache_bytes).collect();
    sizes.sort_unstable();
    sizes.windows(2).any(|pair| pair[0] == pair[1])
}

fn over_time(result: &RunResult) -> spark::SparkLine {
    let bins = result.series.bins.iter();
    let bins = bins.map(|bin| (bin.requests, bin.read_response_sum.saturating_add(bin.write_response_sum)));
    spark::SparkLine {
        keys: vec![name(result), size(result)],
        width: result.series.width,
        bins: bins.collect(),
        without: result.saturated.is_some().then_some("saturated"),
    }
}

/// The policy with its layers, and the parameters that are not at their defaults.
fn name(result: &RunResult) -> String {
    let mut parts = result.policy.rsplit('+');
    let base = parts.next().and_then(|base| destage_policy::buffer::info(base).ok());
    let layers = destage_policy::buffer::layers();
    let around = parts.filter_map(|name| layers.iter().find(|layer| layer.name == name));
    let declared: Vec<_> = base.iter().map(|base| base.params).chain(around.map(|layer| layer.params)).collect();
    let changed = result.params.iter().filter(|given| {
        let default = declared.iter().copied().flatten().find(|p| p.name == given.name);
        default.is_none_or(|d| d.default != given.value)
    });
    changed.fold(result.policy.clone(), |name, p| format!("{name}:{}={}", p.name, p.value))
}

/// Returns true if a run's figure can be compared with others': throughput only among runs that one model charges.
fn is_comparable(figure: &ResultFigure, run: &ReportRun) -> bool {
    *figure != MODEL_THROUGHPUT || run.text("analytic.model") == "analytic"
}

fn keys() -> Vec<TextColumn> {
    vec![TextColumn::name("policy"), TextColumn::key("cache")]
}

fn key_cells(result: &RunResult) -> Vec<TextCell> {
    vec![name(result).into(), size(result).into()]
}

/// The size of the buffer.
fn size(result: &RunResult) -> String {
    result.cache_bytes.map_or_else(|| "-".to_owned(), show_bytes)
}
