//! Sweeps: planning them, running groups of their runs, and their rows. Who runs which group is decided in Python.

use std::collections::HashMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use destage_report::{FlatRuns, read_parquet};
use destage_sweep::{FinishedGroup, ParameterSweep, SweepDescription, SweepGroup, SweepSummary, local, run, whole};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::Table;
use crate::call::{self, StopSignal};
use crate::raised;

/// A group: a name, how many runs it has, and its text.
type Named = (String, usize, String);

/// A sweep in the making.
#[pyclass(frozen, module = "destage")]
pub(crate) struct SweepPlan(Mutex<Option<ParameterSweep>>);

impl SweepPlan {
    /// With the sweep, unless it has ended.
    fn with<T>(&self, of: impl FnOnce(&mut ParameterSweep) -> PyResult<T>) -> PyResult<T> {
        // A panic elsewhere leaves the plan whole: groups are taken and given back under the lock.
        let mut sweep = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        of(sweep.as_mut().ok_or_else(ended)?)
    }

    fn end(&self) -> PyResult<ParameterSweep> {
        // The sweep leaves the plan, so no other call can use it while it ends.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(ended)
    }
}

fn ended() -> PyErr {
    raised("this sweep has ended")
}

fn named(group: &SweepGroup) -> Named {
    (group.name(), group.runs(), group.text())
}

#[pymethods]
impl SweepPlan {
    /// Plans the sweep that a text describes, into a folder. `fetched` has the files of traces that are URLs.
    #[new]
    fn new(
        py: Python<'_>,
        text: String,
        file: PathBuf,
        out: PathBuf,
        fetched: Vec<(String, PathBuf)>,
    ) -> PyResult<Self> {
        let sweep = call::run(py, &StopSignal::default(), move || {
            let description = SweepDescription::parse(&file, &text).map_err(raised)?;
            ParameterSweep::open(&description, &fetched, &out, &|_, _| {}).map_err(raised)
        })?;
        Ok(Self(Mutex::new(Some(sweep))))
    }

    /// Different runs; of these known from before; done or failed.
    fn far(&self) -> PyResult<(usize, usize, usize)> {
        self.with(|sweep| Ok((sweep.runs(), sweep.known(), sweep.done())))
    }

    /// Returns what should be known of the folder.
    fn notes(&self) -> PyResult<Vec<String>> {
        self.with(|sweep| Ok(sweep.notes().to_vec()))
    }

    /// The next group, for so many lanes.
    fn next(&self, lanes: usize) -> PyResult<Option<Named>> {
        self.with(|sweep| Ok(sweep.next(lanes).map(|(group, _)| named(&group))))
    }

    /// Takes what `sweep_run` returned, which took so many seconds.
    fn take(&self, py: Python<'_>, rows: usize, part: Option<Vec<u8>>, failed: &str, seconds: f64) -> PyResult<()> {
        let failed = serde_json::from_str(failed).map_err(raised)?;
        // Writing a part takes time, in which other threads of Python may run.
        py.detach(|| self.with(|sweep| sweep.take(FinishedGroup { rows, part, failed }, seconds).map_err(raised)))
    }

    /// All runs of a group have no result, for this reason.
    fn lose(&self, group: &str, error: &str) -> PyResult<()> {
        let failed = SweepGroup::parse(group).map_err(raised)?.failed(error);
        self.with(|sweep| sweep.take(FinishedGroup { failed, ..FinishedGroup::default() }, 0.0).map_err(raised))
    }

    /// Writes all rows; how it went, as JSON.
    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        let sweep = self.end()?;
        let summary = call::run(py, &StopSignal::default(), move || sweep.finish().map_err(raised))?;
        json(&summary)
    }

    /// Runs all that is left on threads; `show` is called with how many runs are done, and of how many.
    fn local(&self, py: Python<'_>, threads: Option<usize>, show: Py<PyAny>) -> PyResult<String> {
        let sweep = self.end()?;
        let stop = StopSignal::default();
        let told = stop.clone();
        let summary = call::run(py, &stop, move || {
            let show = |done: usize, runs: usize| {
                // An error of showing the progress ends no sweep.
                let _ = Python::attach(|py| show.call1(py, (done, runs)).map(drop));
            };
            local(sweep, threads.and_then(NonZero::new), &told, &show).map_err(raised)
        })?;
        json(&summary)
    }
}

fn json(summary: &SweepSummary) -> PyResult<String> {
    serde_json::to_string(summary).map_err(raised)
}

/// The traces of a description that have to be fetched.
#[pyfunction]
pub(crate) fn sweep_urls(text: &str, file: &str) -> PyResult<Vec<String>> {
    let description = SweepDescription::parse(Path::new(file), text).map_err(raised)?;
    Ok(description.urls().into_iter().map(str::to_owned).collect())
}

/// Carries out a group over the trace in this file. Returns how many rows there are, these as Parquet, and as JSON the runs
/// that have none.
#[pyfunction]
#[pyo3(signature = (group, file=None))]
pub(crate) fn sweep_run<'py>(
    py: Python<'py>,
    group: &str,
    file: Option<PathBuf>,
) -> PyResult<(usize, Option<Bound<'py, PyBytes>>, String)> {
    let group = SweepGroup::parse(group).map_err(raised)?;
    let stop = StopSignal::default();
    let told = stop.clone();
    let made = call::run(py, &stop, move || {
        run(&group, file.as_deref(), None, &told).and_then(destage_sweep::GroupOutcome::made).map_err(raised)
    })?;
    let failed = serde_json::to_string(&made.failed).map_err(raised)?;
    Ok((made.rows, made.part.map(|part| PyBytes::new(py, &part)), failed))
}

/// Carries out a group whose results are wanted whole, over the trace in this file. Returns these as JSON.
#[pyfunction]
#[pyo3(signature = (group, file=None))]
pub(crate) fn whole_run(py: Python<'_>, group: &str, file: Option<PathBuf>) -> PyResult<String> {
    let group = SweepGroup::parse(group).map_err(raised)?;
    let stop = StopSignal::default();
    let told = stop.clone();
    let results = call::run(py, &stop, move || {
        let runs = whole(&group, file.as_deref(), None, &told).map_err(raised)?;
        destage_report::json(&runs).map_err(raised)
    })?;
    String::from_utf8(results).map_err(raised)
}

/// A group for each run of a group.
#[pyfunction]
pub(crate) fn sweep_split(group: &str) -> PyResult<Vec<Named>> {
    Ok(SweepGroup::parse(group).map_err(raised)?.split().iter().map(named).collect())
}

/// The rows of a sweep, with units.
#[pyfunction]
pub(crate) fn sweep_table(py: Python<'_>, path: PathBuf) -> PyResult<Table> {
    let columns = py.detach(move || {
        let content = std::fs::read(&path).map_err(|error| raised(format_args!("{}: {error}", path.display())))?;
        read_parquet(content, |_| true).map_err(|error| raised(format_args!("{}: {error}", path.display())))
    })?;
    let units: HashMap<_, _> = FlatRuns::units(true).into_iter().chain(FlatRuns::units(false)).collect();
    Table::of_columns(&columns)?.with_units(&units)
}
