//! Results as a table, as JSON and as CSV.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use destage_scenario::quantity::{show_bytes, show_count, show_time};
use destage_sim::measure::FieldDoc;
use destage_sim::result::RunResult;
use serde_json::Value;

/// Opens a file for writing; `-` is the standard output.
pub fn create(path: &Path) -> Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout().lock())));
    }
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}

/// A table in the style of all of destage's output: the first columns hold text, the others numbers.
pub fn table(header: &[&str], text_columns: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if i >= text_columns {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Prints a table without blanks at the ends of lines.
pub fn print(out: &mut dyn Write, table: &Table) -> io::Result<()> {
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

/// The results as a readable table, with what they have in common above it and the best per size below.
pub fn text(out: &mut dyn Write, results: &[RunResult]) -> io::Result<()> {
    let Some(first) = results.first() else {
        return writeln!(out, "no runs");
    };
    let input = &first.input;
    writeln!(out, "trace     {} ({}), {} requests", input.trace, input.format, show_count(input.trace_requests))?;
    let c = &first.counters;
    let warmup = match first.warmup_requests {
        0 => String::new(),
        n => format!(", after {} of warm-up", show_count(n)),
    };
    writeln!(
        out,
        "measured  {} requests{warmup}: {} reads, {} writes; {} page accesses of {}, blocks of {} pages",
        show_count(c.requests),
        show_count(c.read_requests),
        show_count(c.write_requests),
        show_count(c.accesses),
        show_bytes(first.page_bytes),
        first.pages_per_block
    )?;
    match &first.ssd {
        Some(ssd) => writeln!(
            out,
            "device    ssd, {} exported of {} raw, start state {}, host {}",
            show_bytes(ssd.host_pages * first.page_bytes),
            show_bytes(ssd.raw_pages * first.page_bytes),
            first.start_state,
            first.host
        )?,
        None => writeln!(out, "device    {}", first.device)?,
    }
    writeln!(out)?;
    let table = match first.device.as_str() {
        "ssd" => ssd_table(results),
        "analytic" => analytic_table(results),
        _ => buffer_table(results),
    };
    print(out, &table)?;
    if results.iter().any(|r| r.saturated.is_some()) {
        writeln!(
            out,
            "\nsaturated: requests came faster than the device served them, so response times are no result."
        )?;
    }
    best(out, results)
}

fn name(result: &RunResult) -> String {
    let info = destage_policy::buffer::info(&result.policy);
    let changed = result.params.iter().filter(|given| {
        let default = info.as_ref().ok().and_then(|i| i.params.iter().find(|p| p.name == given.name));
        default.is_none_or(|d| d.default != given.value)
    });
    changed.fold(result.policy.clone(), |name, p| format!("{name}:{}={}", p.name, p.value))
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), |r| format!("{:.2}", r * 100.0))
}

fn decimals(value: Option<f64>, places: usize) -> String {
    value.map_or_else(|| "-".into(), |v| format!("{v:.places$}"))
}

fn buffer_columns(result: &RunResult) -> Vec<String> {
    vec![name(result), show_bytes(result.cache_bytes), percent(result.hit_ratio), show_count(result.counters.evictions)]
}

fn buffer_table(results: &[RunResult]) -> Table {
    let header = ["policy", "cache", "hit %", "evictions", "pages/eviction", "flushed", "pad reads", "clean drops"];
    let mut table = table(&header, 1);
    for r in results {
        let mut row = buffer_columns(r);
        row.push(decimals(r.pages_per_eviction, 2));
        row.extend([r.counters.dirty_pages_flushed, r.counters.pad_reads, r.counters.clean_drops].map(show_count));
        table.add_row(row);
    }
    table
}

fn analytic_table(results: &[RunResult]) -> Table {
    let header = ["policy", "cache", "hit %", "evictions", "pages/eviction", "erases", "pad reads", "MB/s", "model"];
    let mut table = table(&header, 1);
    for r in results {
        let mut row = buffer_columns(r);
        row.push(decimals(r.pages_per_eviction, 2));
        row.extend([r.flash.erases, r.flash.flash_reads].map(|n| show_count(n.unwrap_or(0))));
        row.push(decimals(r.analytic.as_ref().and_then(|a| a.throughput).map(|t| t / 1e6), 3));
        row.push(r.analytic.as_ref().map_or("", |a| a.model).into());
        table.add_row(row);
    }
    table
}

fn ssd_table(results: &[RunResult]) -> Table {
    let header = [
        "policy",
        "cache",
        "hit %",
        "evictions",
        "pages/ev.",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "write ampl.",
        "erases",
        "GC runs",
    ];
    let mut table = table(&header, 1);
    for r in results {
        let mut row = buffer_columns(r);
        row.push(decimals(r.pages_per_eviction, 2));
        let all = r.response.as_ref().and_then(|response| response.all.as_ref());
        match all {
            Some(all) => {
                row.push(show_time(all.mean));
                row.extend([all.p50, all.p99, all.p99_9].map(|t| show_time(t as f64)));
            }
            None => {
                row.extend([if r.saturated.is_some() { "saturated" } else { "-" }, "-", "-", "-"].map(String::from));
            }
        }
        row.push(decimals(r.ssd.as_ref().and_then(|s| s.write_amplification), 2));
        row.extend([r.flash.erases, r.flash.gc_invocations].map(|n| show_count(n.unwrap_or(0))));
        table.add_row(row);
    }
    table
}

/// Which policy does best at each size, by the most telling figure that the device gives.
fn best(out: &mut dyn Write, results: &[RunResult]) -> io::Result<()> {
    let mut sizes: Vec<u64> = Vec::new();
    for r in results {
        if !sizes.contains(&r.cache_bytes) {
            sizes.push(r.cache_bytes);
        }
    }
    if results.len() == sizes.len() {
        return Ok(());
    }
    // Smaller is better.
    let (what, figure): (_, fn(&RunResult) -> Option<f64>) = match results[0].device.as_str() {
        "ssd" => ("lowest mean response time", |r| r.response.as_ref()?.all.as_ref().map(|all| all.mean)),
        "analytic" => ("highest throughput among block policies", |r| {
            r.analytic.as_ref().filter(|a| a.model == "analytic")?.throughput.map(|t| -t)
        }),
        _ => ("highest hit ratio", |r| r.hit_ratio.map(|h| -h)),
    };
    writeln!(out, "\n{what}:")?;
    for size in sizes {
        let of_size = || results.iter().filter(|r| r.cache_bytes == size);
        let found = of_size().filter_map(|r| Some((figure(r)?, r))).min_by(|(a, _), (b, _)| a.total_cmp(b));
        match found {
            Some((lowest, _)) => {
                let names: Vec<_> =
                    of_size().filter(|r| figure(r).is_some_and(|f| f.total_cmp(&lowest).is_eq())).map(name).collect();
                writeln!(out, "  {:>8}  {}", show_bytes(size), names.join(", "))?;
            }
            None => writeln!(out, "  {:>8}  no run has one", show_bytes(size))?,
        }
    }
    Ok(())
}

/// The results as a JSON array with one object per run.
pub fn json(out: &mut dyn Write, results: &[RunResult]) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, results)?;
    writeln!(out)?;
    Ok(())
}

/// The scalar fields of the results as CSV: nested fields are named `outer.inner`; lists (`params` apart) are left out.
pub fn csv(out: &mut dyn Write, results: &[RunResult]) -> Result<()> {
    let mut columns = Vec::new();
    csv_columns(&mut columns, "", &RunResult::fields());
    writeln!(out, "{}", columns.join(","))?;
    for result in results {
        let value = serde_json::to_value(result)?;
        let row: Vec<_> = columns.iter().map(|column| csv_cell(&value, column)).collect();
        writeln!(out, "{}", row.join(","))?;
    }
    Ok(())
}

/// Lists of names and values, which fit into one cell.
const PAIRS: &[&str] = &["params", "settings"];
/// Fields that are lists of records and have no place in a row.
const LISTS: &[&str] = &["elements", "bins"];

fn csv_columns(columns: &mut Vec<String>, prefix: &str, fields: &[FieldDoc]) {
    for field in fields {
        let full = format!("{prefix}{}", field.name);
        if PAIRS.contains(&field.name) || field.fields.is_empty() {
            columns.push(full);
        } else if !LISTS.contains(&field.name) {
            csv_columns(columns, &format!("{full}."), field.fields);
        }
    }
}

fn csv_cell(result: &Value, column: &str) -> String {
    let value = column.split('.').try_fold(result, |value, part| value.get(part));
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => quote(text),
        Some(Value::Array(numbers)) if numbers.iter().all(Value::is_number) => {
            numbers.iter().map(Value::to_string).collect::<Vec<_>>().join(" ")
        }
        Some(Value::Array(params)) => {
            let pairs = params.iter().filter_map(|p| Some(format!("{}={}", p["name"].as_str()?, p["value"].as_str()?)));
            quote(&pairs.collect::<Vec<_>>().join(":"))
        }
        // The only object that is a single field: why a run is saturated.
        Some(Value::Object(object)) => quote(object.get("cause").and_then(Value::as_str).unwrap_or_default()),
        Some(scalar) => scalar.to_string(),
    }
}

/// Quotes a CSV cell if it needs it.
pub fn quote(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
