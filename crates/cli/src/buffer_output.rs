//! Results of runs of buffers as readable tables.

use std::io::{self, Write};

use destage_scenario::quantity::{show_bytes, show_count, show_time};
use destage_sim::buffer::RunResult;
use destage_sim::measure::LatencySummary;

use crate::screen::{self, Screen};
use crate::spark;
use crate::table::{BEST, Cell, Column, Table};

/// A figure in which runs compete, less being better.
type Figure = fn(&RunResult) -> Option<f64>;

/// The results as a readable table, with what they have in common above it and the best per size below.
pub fn text(screen: &mut Screen, results: &[RunResult]) -> io::Result<()> {
    let Some(first) = results.first() else {
        return writeln!(screen, "no runs");
    };
    let input = &first.input;
    let trace = format!("{} ({}), {} requests", input.trace, input.format, show_count(input.trace_requests));
    screen.paragraph("trace     ", &trace)?;
    let c = &first.counters;
    let warmup = match first.warmup_requests {
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
    let device = match &first.ssd {
        Some(ssd) => format!(
            "ssd, {} exported of {} raw, start state {}, host {}",
            show_bytes(ssd.host_pages * first.page_bytes),
            show_bytes(ssd.raw_pages * first.page_bytes),
            first.start_state,
            first.host
        ),
        None => first.device.clone(),
    };
    screen.paragraph("device    ", &device)?;
    writeln!(screen)?;
    let (mut table, figures) = match first.device.as_str() {
        "ssd" => ssd_table(results),
        "analytic" => analytic_table(results),
        _ => (buffer_table(results), vec![("hit %", hit_ratio as Figure)]),
    };
    // Sizes compete on their own where there is something to compare at them.
    let by_size = has_rivals(results);
    let mut marked = false;
    for (heading, figure) in figures {
        let scores: Vec<_> = results.iter().map(|r| (if by_size { r.cache_bytes } else { 0 }, figure(r))).collect();
        marked |= table.mark_best(heading, &scores);
    }
    table.print(screen)?;
    if marked {
        writeln!(screen, "\n{BEST} best of {}", if by_size { "its cache size" } else { "all sizes" })?;
    }
    if results.iter().any(|r| r.saturated.is_some()) {
        let text = "requests came faster than the device served them, so response times are not meaningful.";
        writeln!(screen)?;
        screen.paragraph("saturated: ", text)?;
    }
    let runs: Vec<_> = results.iter().map(over_time).collect();
    spark::print(screen, keys(), &runs)?;
    best(screen, results)
}

/// Whether several runs have the same size.
fn has_rivals(results: &[RunResult]) -> bool {
    let mut sizes: Vec<u64> = results.iter().map(|r| r.cache_bytes).collect();
    sizes.sort_unstable();
    sizes.windows(2).any(|pair| pair[0] == pair[1])
}

fn over_time(result: &RunResult) -> spark::Run {
    let bins = result.series.bins.iter();
    let bins = bins.map(|bin| (bin.requests, bin.read_response_sum.saturating_add(bin.write_response_sum)));
    spark::Run {
        keys: vec![name(result), show_bytes(result.cache_bytes)],
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

/// A share as a percentage, or a dash.
pub fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), |r| format!("{:.2}", r * 100.0))
}

/// A number with so many decimals, or a dash.
pub fn decimals(value: Option<f64>, places: usize) -> String {
    value.map_or_else(|| "-".into(), |v| format!("{v:.places$}"))
}

/// What stands for response times that are no result.
pub fn saturated() -> Cell {
    Cell::styled("saturated", screen::DOUBTFUL)
}

fn hit_ratio(result: &RunResult) -> Option<f64> {
    result.hit_ratio.map(|ratio| -ratio)
}

fn response(result: &RunResult) -> Option<&LatencySummary> {
    result.response.as_ref()?.all.as_ref()
}

/// Throughput among the runs that the same model charges, since others cannot be compared with them.
fn throughput(result: &RunResult) -> Option<f64> {
    result.analytic.as_ref().filter(|analytic| analytic.model == "analytic")?.throughput.map(|rate| -rate)
}

fn keys() -> Vec<Column> {
    vec![Column::name("policy"), Column::key("cache")]
}

fn key_cells(result: &RunResult) -> Vec<Cell> {
    vec![name(result).into(), show_bytes(result.cache_bytes).into()]
}

fn counts<const N: usize>(row: &mut Vec<Cell>, counts: [u64; N]) {
    row.extend(counts.map(|n| Cell::from(show_count(n))));
}

fn buffer_table(results: &[RunResult]) -> Table {
    let figures = ["hit %", "evictions", "pages/eviction", "flushed", "pad reads", "clean drops"];
    let mut table = Table::new(keys().into_iter().chain(figures.map(Column::number)));
    for r in results {
        let mut row = key_cells(r);
        row.push(percent(r.hit_ratio).into());
        counts(&mut row, [r.counters.evictions]);
        row.push(decimals(r.pages_per_eviction, 2).into());
        counts(&mut row, [r.counters.dirty_pages_flushed, r.counters.pad_reads, r.counters.clean_drops]);
        table.add(row);
    }
    table
}

fn analytic_table(results: &[RunResult]) -> (Table, Vec<(&'static str, Figure)>) {
    let figures = ["hit %", "evictions", "pages/eviction"].map(Column::number);
    let costs = ["erases", "pad reads", "MB/s", "model"].map(Column::number);
    let mut table = Table::new(keys().into_iter().chain(figures).chain(costs));
    for r in results {
        let mut row = key_cells(r);
        row.push(percent(r.hit_ratio).into());
        counts(&mut row, [r.counters.evictions]);
        row.push(decimals(r.pages_per_eviction, 2).into());
        counts(&mut row, [r.flash.erases, r.flash.flash_reads].map(|n| n.unwrap_or(0)));
        row.push(decimals(r.analytic.as_ref().and_then(|a| a.throughput).map(|t| t / 1e6), 3).into());
        row.push(r.analytic.as_ref().map_or("", |a| a.model).into());
        table.add(row);
    }
    (table, vec![("hit %", hit_ratio as Figure), ("MB/s", throughput)])
}

fn ssd_table(results: &[RunResult]) -> (Table, Vec<(&'static str, Figure)>) {
    let service = ["hit %", "mean", "p50", "p99", "p99.9"].map(Column::number);
    let flash = [
        Column::number("evictions").group(),
        Column::number("pages/ev."),
        Column::number("write ampl."),
        Column::number("erases"),
        Column::number("GC runs"),
    ];
    // Merges are of log-block FTLs only.
    let merges = |r: &RunResult| {
        let ssd = r.ssd.as_ref()?;
        Some([ssd.switch_merges?, ssd.partial_merges?, ssd.full_merges?])
    };
    let kinds = [Column::number("switch").group(), Column::number("partial"), Column::number("full merges")];
    let kinds = kinds.into_iter().filter(|_| results.iter().any(|r| merges(r).is_some()));
    let mut table = Table::new(keys().into_iter().chain(service).chain(flash).chain(kinds));
    for r in results {
        let mut row = key_cells(r);
        row.push(percent(r.hit_ratio).into());
        if let Some(all) = response(r) {
            row.push(show_time(all.mean).into());
            row.extend([all.p50, all.p99, all.p99_9].map(|t| Cell::from(show_time(t as f64))));
        } else {
            row.push(if r.saturated.is_some() { saturated() } else { "-".into() });
            row.extend(["-"; 3].map(Cell::from));
        }
        counts(&mut row, [r.counters.evictions]);
        row.push(decimals(r.pages_per_eviction, 2).into());
        row.push(decimals(r.ssd.as_ref().and_then(|s| s.write_amplification), 2).into());
        counts(&mut row, [r.flash.erases, r.flash.gc_invocations].map(|n| n.unwrap_or(0)));
        if let Some(merges) = merges(r) {
            counts(&mut row, merges);
        }
        table.add(row);
    }
    let figures: Vec<(_, Figure)> = vec![
        ("hit %", hit_ratio),
        ("mean", |r| response(r).map(|all| all.mean)),
        ("p50", |r| response(r).map(|all| all.p50 as f64)),
        ("p99", |r| response(r).map(|all| all.p99 as f64)),
        ("p99.9", |r| response(r).map(|all| all.p99_9 as f64)),
        ("write ampl.", |r| r.ssd.as_ref()?.write_amplification),
        ("erases", |r| r.flash.erases.map(|n| n as f64)),
    ];
    (table, figures)
}

/// Which policy does best at each size, by the most telling figure that the device gives.
fn best(screen: &mut Screen, results: &[RunResult]) -> io::Result<()> {
    let mut sizes: Vec<u64> = Vec::new();
    for r in results {
        if !sizes.contains(&r.cache_bytes) {
            sizes.push(r.cache_bytes);
        }
    }
    if results.len() == sizes.len() {
        return Ok(());
    }
    let (what, figure): (_, Figure) = match results[0].device.as_str() {
        "ssd" => ("lowest mean response time", |r| response(r).map(|all| all.mean)),
        "analytic" => ("highest throughput among block policies", throughput),
        _ => ("highest hit ratio", hit_ratio),
    };
    writeln!(screen, "\n{what}:")?;
    let mut table = Table::new([Column::key(""), Column::text("")]);
    for size in sizes {
        let of_size = || results.iter().filter(|r| r.cache_bytes == size);
        let found = of_size().filter_map(|r| Some((figure(r)?, r))).min_by(|(a, _), (b, _)| a.total_cmp(b));
        let names = match found {
            Some((lowest, _)) => {
                let names: Vec<_> =
                    of_size().filter(|r| figure(r).is_some_and(|f| f.total_cmp(&lowest).is_eq())).map(name).collect();
                names.join(", ")
            }
            None => "no run has one".into(),
        };
        table.add([format!("  {:>8}", show_bytes(size)), names]);
    }
    table.print(screen)
}
