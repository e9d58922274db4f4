//! Advice: what `destage advise` does, from settings to the advice and the runs that it rests on.

use std::path::PathBuf;

use destage_advise::{Advised, Budget, Stage, Watch};
use destage_scenario::keys::cache::CACHE;
use destage_scenario::keys::output::OBJECTIVE;
use destage_scenario::sim;
use destage_sim::experiment::Progress;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::{self, Stop};
use crate::raised;
use crate::settings::{self, Scenario};

/// Shows nothing: a call is silent until it returns.
struct SilentWatch;

impl Watch for SilentWatch {
    fn begin(&self, _: Stage) {}

    fn show(&self, _: Progress) {}
}

/// Advises a policy and a size. Returns the advice and its runs as JSON, and the objective if one was given.
#[pyfunction]
#[pyo3(signature = (scenario, scenario_file, given, budget))]
pub(crate) fn advise(
    py: Python<'_>,
    scenario: Option<Scenario>,
    scenario_file: Option<PathBuf>,
    given: Vec<(String, Vec<String>)>,
    budget: Option<String>,
) -> PyResult<(String, Bound<'_, PyBytes>, Option<String>)> {
    let scenario = match scenario_file {
        Some(file) => Some(settings::read(&file)?),
        None => scenario,
    };
    let settings = settings::of_sim(scenario.as_ref(), given)?;
    if settings.is_given(&CACHE.key()) {
        return Err(raised("cache: sizes are looked for, up to budget"));
    }
    let budget = budget.map(|text| {
        let size = text.parse::<Budget>();
        size.map_err(|right| raised(format_args!("budget={text}: {right}")))
    });
    let budget = budget.transpose()?;
    let objective = OBJECTIVE.optional(&settings).map_err(raised)?;
    let stop = Stop::default();
    let told = stop.clone();
    let (advice, runs) = call::run(py, &stop, move || {
        let requests = sim::requests(&settings).map_err(raised)?.until(told);
        let advised = destage_advise::advise(settings, requests, budget, None, &SilentWatch);
        // What the command line says of its option is true of the argument.
        let advised = advised.map_err(|error| raised(error.to_string().replace("--budget", "budget")))?;
        let Advised { advice, runs, .. } = advised;
        Ok((serde_json::to_string(&advice).map_err(raised)?, destage_report::json(&runs).map_err(raised)?))
    })?;
    Ok((advice, PyBytes::new(py, &runs), objective))
}
