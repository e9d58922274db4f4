//! Shows which runs do best, a line for each size of the cache.

use std::io::{self, Write};

use destage_report::{RankingObjective, ReportRun, bests};
use destage_scenario::quantity::show_bytes;

use crate::screen::TerminalScreen;
use crate::table::{TextColumn, TextTable};

/// Writes which of the runs, named alike, do best at each size. Writes nothing where no size has several runs.
pub fn text(
    screen: &mut TerminalScreen,
    runs: &[ReportRun],
    names: &[String],
    objective: Option<RankingObjective>,
) -> io::Result<()> {
    let bests = bests(runs, objective);
    if bests.by_size.iter().all(|best| best.rivals < 2) {
        return Ok(());
    }
    writeln!(screen, "\n{}:", bests.what)?;
    let mut table = TextTable::new([TextColumn::key(""), TextColumn::text("")]);
    for best in bests.by_size {
        let size = best.size.map_or_else(|| "-".to_owned(), show_bytes);
        let mut listed: Vec<&str> = Vec::new();
        for &run in &best.runs {
            if !listed.contains(&names[run].as_str()) {
                listed.push(&names[run]);
            }
        }
        let listed = match &listed[..] {
            [] => "no run has one".to_owned(),
            [one] => (*one).to_owned(),
            all => format!("{} (a tie)", all.join(", ")),
        };
        table.add([format!("  {size:>8}"), listed]);
    }
    table.print(screen)
}
