//! Tables of runs, whose columns are figures of the catalogue.

use std::fmt::Write as _;

use destage_report::ReportRun;
use destage_report::figures::{BetterValue, ResultFigure, ValueFormat, declared_columns};
use destage_scenario::quantity::{show_bytes, show_count};
use destage_sim::measure::InputResult;

use crate::screen;
use crate::table::{TextCell, TextColumn, TextTable};

/// The trace and what was read of it, for the line above the tables.
pub fn trace(input: &InputResult) -> String {
    let outside = match input.outside_requests {
        0 => String::new(),
        n => format!(" behind {} left out in front of the window", show_count(n)),
    };
    format!("{} ({}), {} requests{outside}", input.trace, input.format, show_count(input.trace_requests))
}

/// Describes how the sizes of caches were chosen, if they were.
pub fn sizes(input: &InputResult) -> Option<String> {
    let sizes = input.sizes.as_ref()?;
    let chosen: Vec<_> = sizes.chosen.iter().map(|&bytes| show_bytes(bytes)).collect();
    let mut text = format!("{}: {}", sizes.asked, chosen.join(", "));
    let at =
        |bytes: Option<u64>, ratio: Option<f64>| Some(format!("{} ({:.2} % hits)", show_bytes(bytes?), 100.0 * ratio?));
    if let Some(footprint) = sizes.footprint_bytes {
        let _ = write!(text, "; the trace touches {}", show_bytes(footprint));
    }
    if let Some(knee) = at(sizes.knee_bytes, sizes.knee_hit_ratio)
        && let Some(full) = at(sizes.full_bytes, sizes.full_hit_ratio)
    {
        let _ = write!(text, ", and LRU's curve bends at {knee} and ends at {full}");
    }
    Some(text)
}

/// A figure as a table shows it.
#[derive(Clone, Copy)]
pub struct ShownFigure {
    figure: ResultFigure,
    heading: &'static str,
    places: usize,
    begins_group: bool,
    is_ranked: bool,
    is_optional: bool,
}

/// Shows a figure.
pub const fn shown(figure: ResultFigure) -> ShownFigure {
    let heading = figure.heading;
    ShownFigure { figure, heading, places: 2, begins_group: false, is_ranked: false, is_optional: false }
}

impl ShownFigure {
    /// The same under another heading.
    pub const fn named(self, heading: &'static str) -> Self {
        Self { heading, ..self }
    }

    /// The same with so many decimals.
    pub const fn places(self, places: usize) -> Self {
        Self { places, ..self }
    }

    /// The same, as the first column of a group.
    pub const fn group(self) -> Self {
        Self { begins_group: true, ..self }
    }

    /// The same with the best of all rows marked.
    pub const fn ranked(self) -> Self {
        Self { is_ranked: true, ..self }
    }

    /// The same, but left out where no run has it, or any of it.
    pub const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    fn column(&self) -> TextColumn {
        let column = TextColumn::number(self.heading);
        if self.begins_group { column.group() } else { column }
    }

    fn cell(&self, run: &ReportRun) -> TextCell {
        self.figure.of(run).map_or_else(|| "-".into(), |value| self.figure.show.text(value, self.places).into())
    }
}

/// Returns these figures, and behind them, as a group, those that are declared as columns of every table of runs over
/// arrays or of buffers.
pub fn with_declared(figures: &[ShownFigure], is_array: bool) -> Vec<ShownFigure> {
    let declared = declared_columns(is_array).iter().enumerate().map(|(at, column)| {
        let shown = shown(column.figure).named(column.short).optional();
        if at == 0 { shown.group() } else { shown }
    });
    figures.iter().copied().chain(declared).collect()
}

/// Returns the score of a run in a figure, less being better.
pub fn score(figure: &ResultFigure, run: &ReportRun) -> Option<f64> {
    let value = figure.of(run)?;
    Some(if figure.better == BetterValue::More { -value } else { value })
}

/// A row for each run: its keys, its figures, and texts of which heading and path are given.
/// `competes` says in which group a run competes for the best of a figure, if it does. Returns
/// whether any figure is marked.
pub fn table(
    keys: Vec<TextColumn>,
    rows: impl Iterator<Item = Vec<TextCell>>,
    runs: &[ReportRun],
    figures: &[ShownFigure],
    texts: &[(&str, &str)],
    competes: impl Fn(&ResultFigure, &ReportRun) -> Option<u64>,
) -> (TextTable, bool) {
    let has = |shown: &ShownFigure, run| shown.figure.of(run).is_some_and(|number| number != 0.0);
    let is_there = |shown: &&ShownFigure| !shown.is_optional || runs.iter().any(|run| has(shown, run));
    let figures: Vec<_> = figures.iter().filter(is_there).collect();
    let numbers = figures.iter().map(|shown| shown.column());
    let words = texts.iter().map(|(heading, _)| TextColumn::number(heading));
    let mut table = TextTable::new(keys.into_iter().chain(numbers).chain(words));
    for (mut row, run) in rows.zip(runs) {
        // Where response times are no result, the first of them says so.
        let doubtful = figures.iter().position(|shown| run.is_saturated() && shown.figure.show == ValueFormat::Time);
        row.extend(figures.iter().enumerate().map(|(at, shown)| match doubtful {
            Some(first) if first == at && shown.figure.of(run).is_none() => {
                TextCell::styled("saturated", screen::DOUBTFUL)
            }
            _ => shown.cell(run),
        }));
        row.extend(texts.iter().map(|(_, path)| TextCell::from(run.text(path))));
        table.add(row);
    }
    let mut marked = false;
    for shown in figures.iter().filter(|shown| shown.is_ranked) {
        let score = |run| match competes(&shown.figure, run) {
            Some(group) => (group, score(&shown.figure, run)),
            None => (0, None),
        };
        let scores: Vec<_> = runs.iter().map(score).collect();
        marked |= table.mark_best(shown.heading, &scores);
    }
    (table, marked)
}
