//! Advice: what `destage advise` does, from settings to the advice and the runs that it rests on.

use std::path::PathBuf;

use destage_advise::{AdviceStage, AdviceWatch, AdvisedRuns, CacheBudgets, SizeBudget};
use destage_scenario::keys::cache::CACHE;
use destage_scenario::keys::output::OBJECTIVE;
use destage_scenario::sim;
use destage_sim::experiment::RunProgress;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::{self, StopSignal};
use crate::raised;
use crate::settings::{self, Scenario};

/// Shows nothing: a call is silent until it returns.
struct SilentWatch;

impl AdviceWatch for SilentWatch {
    fn begin(&self, _: AdviceStage) {}

    fn show(&self, _: RunProgress) {}
}

/// Advises a policy and a size. Returns the advice and its runs as JSON, and the objective if one was given.
#[pyfunction]
#[pyo3(signature = (scenario, scenario_file, given, budget, nvram_budget))]
pub(crate) fn advise(
    py: Python<'_>,
    scenario: Option<Scenario>,
    scenario_file: Option<PathBuf>,
    given: Vec<(String, Vec<String>)>,
    budget: Option<String>,
    nvram_budget: Option<String>,
) -> PyResult<(String, Bound<'_, PyBytes>, Option<String>)> {
    let scenario = match scenario_file {
        Some(file) => Some(settings::read(&file)?),
        None => scenario,
    };
    let settings = settings::of_sim(scenario.as_ref(), given)?;
    if settings.is_given(&CACHE.key()) {
        return Err(raised("cache: sizes are looked for, up to budget"));
    }
    let of = |name: &str, text: Option<String>| {
        let size =
            text.map(|text| text.parse::<SizeBudget>().map_err(|right| raised(format_args!("{name}={text}: {right}"))));
        size.transpose()
    };
    let budgets = CacheBudgets { size: of("budget", budget)?, nvram: of("nvram_budget", nvram_budget)? };
    let objective = OBJECTIVE.optional(&settings).map_err(raised)?;
    let stop = StopSignal::default();
    let told = stop.clone();
    let (advice, runs) = call::run(py, &stop, move || {
        // The requests carry the signal to stop, since they are read in every round.
        let requests = sim::requests(&settings).map_err(raised)?.until(told);
        let advised = destage_advise::advise(settings, requests, budgets, None, &SilentWatch);
        // What the command line says of its options is true of the arguments.
        let of_arguments = |text: String| text.replace("--nvram-budget", "nvram_budget").replace("--budget", "budget");
        let advised = advised.map_err(|error| raised(of_arguments(error.to_string())))?;
        let AdvisedRuns { advice, runs, .. } = advised;
        Ok((serde_json::to_string(&advice).map_err(raised)?, destage_report::json(&runs).map_err(raised)?))
    })?;
    Ok((advice, PyBytes::new(py, &runs), objective))
}
