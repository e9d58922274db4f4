//! The tables beside the page: `claims` and `figures`.

use destage_report::{ResultColumn, ResultTable, TableCell};
use destage_sim::measure::MeanEstimate;

use crate::figure::PaperFigure;
use crate::panel::{self, FigurePanel};
use crate::report::{verdict, what, workloads};
use crate::reproduce::ClaimFinding;

/// The rows of a table in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct DataRows(Vec<Vec<TableCell>>);

/// The columns of the table of claims: name and whether it is text.
pub(super) const CLAIMS: [(&str, bool); 17] = [
    ("paper", true),
    ("claim", true),
    ("reading_of", true),
    ("part_of", true),
    ("where", true),
    ("what", true),
    ("assumption", true),
    ("workload", true),
    ("kind", true),
    ("claimed_from", false),
    ("claimed_to", false),
    ("measured_least", false),
    ("measured_greatest", false),
    ("half_width_of_95_percent", false),
    ("seeds", false),
    ("grade", true),
    ("holds", true),
];

/// The columns of the table of what the figures show.
pub(super) const FIGURES: [(&str, bool); 9] = [
    ("paper", true),
    ("figure", true),
    ("shows", true),
    ("workload", true),
    ("at", true),
    ("line", true),
    ("mean", false),
    ("half_width_of_95_percent", false),
    ("seeds", false),
];

impl DataRows {
    pub(super) fn extend(&mut self, rows: impl IntoIterator<Item = Vec<TableCell>>) {
        self.0.extend(rows);
    }

    pub(super) fn table(self, name: &'static str, columns: &[(&str, bool)]) -> ResultTable {
        let mut columns: Vec<ResultColumn> = columns
            .iter()
            .map(|&(name, is_text)| ResultColumn {
                name: name.to_owned(),
                is_text,
                cells: Vec::with_capacity(self.0.len()),
            })
            .collect();
        for row in self.0 {
            columns.iter_mut().zip(row).for_each(|(column, cell)| column.cells.push(cell));
        }
        ResultTable { name, columns }
    }
}

fn text(text: &str) -> TableCell {
    TableCell::Text(text.to_owned())
}

/// A row for each point of a chart.
pub(super) fn figure_rows(paper: &str, figure: &PaperFigure, panel: &FigurePanel<'_>) -> Vec<Vec<TableCell>> {
    let mut rows = Vec::new();
    for (line, values) in &panel.lines {
        for (step, value) in panel.steps.iter().zip(values) {
            let (workload, at) = match panel.workload {
                Some((workload, _)) => (workload, step.as_str()),
                None => (step.as_str(), ""),
            };
            let float =
                |of: fn(&MeanEstimate) -> f64| value.as_ref().map_or(TableCell::Null, |e| TableCell::Float(of(e)));
            rows.push(vec![
                text(paper),
                text(&figure.place),
                text(&panel::axis(figure)),
                text(workload),
                text(at),
                text(line),
                float(|e| e.mean),
                float(|e| e.half_width),
                value.as_ref().map_or(TableCell::Null, |e| TableCell::Integer(e.samples as u64)),
            ]);
        }
    }
    rows
}

/// A claim's row.
pub(super) fn claim_row(paper: &str, finding: &ClaimFinding<'_>) -> Vec<TableCell> {
    let means = finding.measured.iter().map(|(_, e)| e.mean);
    let float = |x: Option<f64>| x.map_or(TableCell::Null, TableCell::Float);
    let seeds = finding.measured.iter().map(|(_, e)| e.samples).max();
    let kind = finding.on.first().map_or("", |workload| workload.provenance.label());
    vec![
        text(paper),
        text(&finding.claim.id),
        finding.claim.reading_of.as_deref().map_or(TableCell::Null, text),
        finding.claim.part_of.as_deref().map_or(TableCell::Null, text),
        text(&finding.claim.place),
        text(&what(finding)),
        text(finding.at),
        text(&workloads(finding)),
        text(kind),
        TableCell::Float(finding.claim.claimed[0]),
        TableCell::Float(finding.claim.claimed[1]),
        float(means.clone().min_by(f64::total_cmp)),
        float(means.max_by(f64::total_cmp)),
        float(finding.measured.iter().map(|(_, e)| e.half_width).max_by(f64::total_cmp)),
        seeds.map_or(TableCell::Null, |seeds| TableCell::Integer(seeds as u64)),
        text(finding.grade().label()),
        text(&verdict(finding)),
    ]
}
