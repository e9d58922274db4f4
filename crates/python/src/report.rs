//! Results as tables and as a page.

use destage_report::{RankingObjective, RunsReport};
use pyo3::prelude::*;

use crate::arrow::Table;
use crate::raised;

/// The report of results as `destage sim --json` writes them.
fn report(json: &[u8], objective: Option<&str>) -> PyResult<RunsReport> {
    let report = RunsReport::new(destage_report::read("results", json).map_err(raised)?);
    let objective = objective.map(RankingObjective::named).transpose();
    let objective = objective.map_err(|right| raised(format_args!("objective: expected {right}")))?;
    Ok(match objective {
        Some(objective) => report.ranked_by(objective),
        None => report,
    })
}

/// The report's tables by name.
#[pyfunction]
#[pyo3(signature = (json, objective=None))]
pub(crate) fn tables(json: &[u8], objective: Option<&str>) -> PyResult<Vec<(&'static str, Table)>> {
    let tables = report(json, objective)?.tables();
    tables.iter().map(|table| Ok((table.name, Table::of_columns(&table.columns)?))).collect()
}

/// The report's page, in one file that loads nothing.
#[pyfunction]
#[pyo3(signature = (json, objective=None))]
pub(crate) fn page(py: Python<'_>, json: &[u8], objective: Option<&str>) -> PyResult<String> {
    let report = report(json, objective)?;
    // A page of many runs takes time to draw, in which other threads of Python may run.
    Ok(py.detach(|| report.page()))
}
