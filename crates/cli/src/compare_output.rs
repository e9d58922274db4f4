//! Two results side by side as a readable table.

use std::io::{self, Write};

use destage_report::figures::{BetterValue, ValueFormat};
use destage_report::{ComparedFigure, ComparedRun, RunComparison};

use crate::screen::{BAD, DOUBTFUL, GOOD, TerminalScreen};
use crate::table::{TextCell, TextColumn, TextTable};

/// Names the two results above the columns.
const SIDES: [&str; 2] = ["A", "B"];

/// The comparison of results from files of these names.
pub fn text(screen: &mut TerminalScreen, files: [&str; 2], comparison: &RunComparison) -> io::Result<()> {
    for (side, file) in SIDES.iter().zip(files) {
        screen.paragraph(&format!("{side}  "), file)?;
    }
    if !comparison.differences.is_empty() {
        writeln!(screen)?;
        let mut table =
            TextTable::new([TextColumn::word("what is not the same"), TextColumn::text("A"), TextColumn::text("B")]);
        for (key, [first, second]) in &comparison.differences {
            table.add([key, first, second]);
        }
        table.print(screen)?;
    }
    writeln!(screen)?;
    if comparison.runs.is_empty() {
        screen.paragraph("", "No run of A has policy, cache size and setting in common with one of B.")?;
    } else {
        runs(screen, &comparison.runs)?;
    }
    for (side, names) in SIDES.iter().zip(&comparison.alone).filter(|(_, names)| !names.is_empty()) {
        screen.heading(&format!("Only in {side}"), false)?;
        let mut table = TextTable::new([TextColumn::name("policy"), TextColumn::key("cache")]);
        for name in names {
            table.add([name.label(), name.size()]);
        }
        table.print(screen)?;
    }
    Ok(())
}

/// The table of those that are in both.
fn runs(screen: &mut TerminalScreen, runs: &[ComparedRun]) -> io::Result<()> {
    // What no run has is left out.
    let has = |at: usize| runs.iter().any(|run| run.figures[at].values.iter().any(Option::is_some));
    let saturated = runs.iter().any(|run| run.saturated.contains(&true));
    let is_time = |at: usize| runs[0].figures[at].figure.show == ValueFormat::Time;
    let shown: Vec<usize> = (0..runs[0].figures.len()).filter(|&at| has(at) || saturated && is_time(at)).collect();
    let columns = shown.iter().flat_map(|&at| {
        let heading = runs[0].figures[at].figure.heading;
        let [first, second] = SIDES.map(|side| TextColumn::number(&format!("{heading} {side}")));
        [first.group(), second, TextColumn::number("change")]
    });
    let mut table = TextTable::new([TextColumn::name("policy"), TextColumn::key("cache")].into_iter().chain(columns));
    for run in runs {
        let figures = shown.iter().flat_map(|&at| {
            let figure = &run.figures[at];
            [value(run, figure, 0), value(run, figure, 1), change(figure)]
        });
        let name = [run.name.label().into(), run.name.size().into()];
        table.add(name.into_iter().chain(figures).collect::<Vec<TextCell>>());
    }
    table.print(screen)
}

fn value(run: &ComparedRun, figure: &ComparedFigure, side: usize) -> TextCell {
    match figure.values[side] {
        Some(value) => figure.figure.show.text(value, 2).into(),
        None if run.saturated[side] && figure.figure.show == ValueFormat::Time => {
            TextCell::styled("saturated", DOUBTFUL)
        }
        None => "-".into(),
    }
}

/// Returns how far B is from A, and whether that is better.
fn change(figure: &ComparedFigure) -> TextCell {
    let Some(change) = figure.change() else { return "-".into() };
    if change == 0.0 {
        return "same".into();
    }
    // What is small is not shown as nothing.
    let text =
        if change.abs() < 0.0005 { format!("{:+.4} %", 100.0 * change) } else { format!("{:+.1} %", 100.0 * change) };
    match (figure.figure.better, change < 0.0) {
        (BetterValue::Less, true) | (BetterValue::More, false) => TextCell::styled(text, GOOD),
        (BetterValue::Less, false) | (BetterValue::More, true) => TextCell::styled(text, BAD),
        (BetterValue::Neither, _) => text.into(),
    }
}
