//! A simulation: what `destage sim` does, from settings to results.

use destage_report::RankingObjective;
use destage_report::results::{self, DocumentedResult, RunKind};
use destage_scenario::keys::array::ARRAY;
use destage_scenario::keys::output::OBJECTIVE;
use destage_scenario::sim::{self, SimulatedRequests};
use destage_scenario::{DescribedSimulation, ScenarioSettings};
use destage_sim::buffer::RunResult;
use destage_sim::experiment::{CharacteristicsCounter, OpenedInput, RunResources, RunSelection};
use destage_sim::measure::RequestLog;
use destage_trace::TraceError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::Table;
use crate::call::{self, StopSignal};
use crate::latencies::Latencies;
use crate::policy::{Failure, Given, foreign};
use crate::raised;
use crate::settings::{self, Scenario};

/// Simulates what the settings describe, with policies of Python's beside the built-in ones. Returns the results as `destage
/// sim --json` writes them, what became of each request if that is wanted, and the objective.
#[pyfunction]
#[pyo3(signature = (scenario, scenario_file, given, policies, latencies, columns))]
pub(crate) fn simulate(
    py: Python<'_>,
    scenario: Option<Scenario>,
    scenario_file: Option<std::path::PathBuf>,
    given: Vec<(String, Vec<String>)>,
    policies: Vec<Given>,
    latencies: bool,
    columns: Option<Vec<String>>,
) -> PyResult<(Bound<'_, PyBytes>, Option<Table>, Option<String>)> {
    let scenario = match scenario_file {
        Some(file) => Some(settings::read(&file)?),
        None => scenario,
    };
    let settings = settings::of_sim(scenario.as_ref(), given)?;
    if let Some((name, ..)) = policies.first().filter(|_| ARRAY.is_given(&settings)) {
        let what = "is a buffer inside an SSD, and with array there are caches of the host: leave array out";
        return Err(raised(format_args!("policy '{name}' {what}")));
    }
    let log = latencies.then(|| Latencies::begin(columns)).transpose()?;
    let objective = OBJECTIVE.optional_by(&settings, |text| RankingObjective::named(text).map(|_| text.to_owned()));
    let objective = objective.map_err(raised)?;
    let (stop, failure) = (StopSignal::default(), Failure::default());
    let work = Work { settings, log: log.clone(), stop: stop.clone(), failure: failure.clone(), policies };
    let in_python = !work.policies.is_empty();
    let json = call::run(py, &stop, move || {
        if in_python {
            // Python keeps the state of this thread as long as the outer call is attached. Without that it would make a
            // new one for each access.
            Python::attach(|py| py.detach(|| work.json()))
        } else {
            work.json()
        }
    });
    // An exception of a policy is the reason for which the simulation ended.
    let json = failure.take().map_or(json, Err)?;
    Ok((PyBytes::new(py, &json), log.map(|log| log.table()), objective))
}

/// Holds what a simulation needs.
struct Work {
    settings: ScenarioSettings,
    log: Option<Latencies>,
    stop: StopSignal,
    failure: Failure,
    policies: Vec<Given>,
}

impl Work {
    /// The results.
    fn json(self) -> PyResult<Vec<u8>> {
        let settings = &self.settings;
        let mut requests = sim::requests(settings).map_err(raised)?.until(self.stop.clone());
        destage_scenario::count(settings, &mut requests, &mut |_, _| {}).map_err(raised)?;
        destage_scenario::find_sizes(settings, &mut requests, &|_| {}).map_err(raised)?;
        let simulation = destage_scenario::simulation(settings, &requests).map_err(raised)?;
        let resources = RunResources { stop: Some(&self.stop), ..sim::resources(settings).map_err(raised)? };
        let counter = CharacteristicsCounter::new(simulation.replay());
        let mut passes = 0;
        let mut open = || -> Result<OpenedInput, TraceError> {
            let input = requests.open(passes)?;
            passes += 1;
            // Every pass reads the same trace, so it is counted once.
            Ok(if passes == 1 { counter.count(input) } else { input })
        };
        match simulation {
            DescribedSimulation::Buffers(mut experiment) => {
                let log = self.log.map(|log| Box::new(log) as Box<dyn RequestLog>);
                // One policy at a time has the interpreter, so passes of several threads would only wait for each
                // other.
                let one_by_one = !self.policies.is_empty() && log.is_none();
                experiment.foreign = foreign(self.policies, &self.failure, &self.stop)?;
                let results = if one_by_one {
                    let mut results = OneByOne(Vec::new());
                    experiment.sweep(resources, &mut open, &|_| {}, &mut results).map_err(raised)?;
                    results.0
                } else {
                    experiment.run_logged(resources, &mut open, &|_| {}, log).map_err(raised)?.results
                };
                written(results, settings, &requests, &experiment.caches, &counter)
            }
            DescribedSimulation::Array(experiment) => {
                if let Some((name, ..)) = self.policies.first() {
                    let what =
                        "is a buffer inside an SSD, and with array there are caches of the host: leave array out";
                    return Err(raised(format_args!("policy '{name}' {what}")));
                }
                let log = self.log.map(|log| Box::new(log) as Box<dyn RequestLog>);
                let report = experiment.run_logged(resources, &mut open, &|_| {}, log).map_err(raised)?;
                written(report.results, settings, &requests, &experiment.caches, &counter)
            }
        }
    }
}

/// Runs each in a pass of its own, which then is on this thread: policies of Python's would only wait for each other, since one
/// of them at a time has the interpreter.
struct OneByOne(Vec<RunResult>);

impl RunSelection<RunResult> for OneByOne {
    fn wants(&self, _: usize) -> bool {
        true
    }

    fn per_pass(&mut self) -> usize {
        1
    }

    fn take(&mut self, _: usize, result: RunResult) -> bool {
        self.0.push(result);
        true
    }
}

/// The results as JSON, with what is known of the trace and of the sizes of caches.
fn written<R: DocumentedResult + RunKind>(
    mut results: Vec<R>,
    settings: &ScenarioSettings,
    requests: &SimulatedRequests,
    caches: &[u64],
    counter: &CharacteristicsCounter,
) -> PyResult<Vec<u8>> {
    let sizes = requests.sizes_result(settings, caches).map_err(raised)?;
    results::complete(&mut results, Some(&counter.finish()), sizes.as_ref());
    let mut json = Vec::new();
    results::json(&mut json, &results)?;
    Ok(json)
}
