//! Shows how a sweep went.

use std::io::{Result, Write};

use destage_scenario::quantity::{show_bytes, show_count};
use destage_sweep::{BestRun, SweepSummary};

use crate::screen::TerminalScreen;
use crate::table::{TextColumn, TextTable};

/// Failed runs that are named at most.
const NAMED: usize = 5;

/// Writes where the rows are, what became of runs, and which did best over each trace.
pub fn text(screen: &mut TerminalScreen, summary: &SweepSummary) -> Result<()> {
    let count = |number: usize| show_count(number as u64);
    let runs = format!("{} simulated, {} known from before", count(summary.simulated), count(summary.known));
    let mut pairs = vec![
        ("device", summary.devices.join("; ")),
        ("rows", format!("{} in {}", count(summary.rows), summary.file)),
        ("runs", runs),
    ];
    for failed in summary.failed.iter().take(NAMED) {
        pairs.push(("no result", format!("{}: {}", failed.run, failed.error)));
    }
    if summary.failed.len() > NAMED {
        pairs.push(("no result", format!("and {} more", count(summary.failed.len() - NAMED))));
    }
    screen.pairs(pairs)?;
    let Some(first) = summary.best.first() else { return Ok(()) };
    writeln!(screen)?;
    let mut keys = Vec::new();
    for (key, _) in summary.best.iter().flat_map(|run| &run.grid) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    // Runs over buffers and over arrays may be in one sweep.
    let alike = |run: &BestRun| run.objective == first.objective;
    let heading = if summary.best.iter().all(alike) { first.objective.as_str() } else { "best" };
    let mut columns = vec![TextColumn::key("trace"), TextColumn::text("policy"), TextColumn::number("cache")];
    columns.extend(keys.iter().map(|key| TextColumn::number(key)));
    columns.push(TextColumn::number(heading));
    let mut table = TextTable::new(columns);
    let mut before = None;
    for run in &summary.best {
        let trace = if before == Some(&run.trace) { String::new() } else { run.trace.clone() };
        before = Some(&run.trace);
        let mut cells = vec![trace, run.policy.clone(), run.cache_bytes.map_or_else(|| "-".to_owned(), show_bytes)];
        let value = |key: &String| run.grid.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
        cells.extend(keys.iter().map(|key| value(key).unwrap_or_else(|| "-".to_owned())));
        cells.push(run.value.clone());
        table.add(cells);
    }
    table.print(screen)
}
