//! Shows the warnings of results below their tables.

use std::io::{self, Write};

use destage_report::findings::found;
use destage_report::{RankingObjective, ReportRun};

use crate::screen::TerminalScreen;

/// A paragraph for each kind of finding, the gravest first, with what mends it.
pub fn text(screen: &mut TerminalScreen, runs: &[ReportRun], objective: Option<RankingObjective>) -> io::Result<()> {
    let all = found(runs, objective);
    if all.is_empty() {
        return Ok(());
    }
    writeln!(screen)?;
    for found in all {
        let which = found.which(runs).map_or_else(String::new, |which| format!(" ({which})"));
        let mend =
            found.mend.as_ref().map_or_else(String::new, |mend| format!("; try {}", mend.replace(' ', "\u{a0}")));
        let label = format!("{}  ", found.severity.word());
        screen.paragraph(&label, &format!("{}{which}: {}{mend}", found.kind, found.message))?;
    }
    Ok(())
}
