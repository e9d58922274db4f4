//! One experiment from settings as a user would give them, and a workload.

use destage_report::kept::KeptError;
use destage_scenario::sim::{self, SIM, SimulatedRequests};
use destage_scenario::synth::{self, SYNTH};
use destage_scenario::{ScenarioError, ScenarioSettings};
use destage_sim::buffer::{RunResult, SimError};
use destage_sim::experiment::{OpenedInput, RunResources};
use destage_sweep::SweepError;
use destage_trace::{SynthError, SynthTrace, TraceError, TraceSource};

/// Why evidence could not be gathered.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// A setting or a file of ours is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Results cannot be kept.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// An experiment failed.
    #[error("{workload}: {error}")]
    Sim {
        /// The workload.
        workload: String,
        /// Why.
        error: SimError,
    },
    /// An experiment of a paper failed.
    #[error("{workload}: {error}")]
    Run {
        /// The workload.
        workload: String,
        /// Why.
        error: SweepError,
    },
}

/// Bytes of a page in all of them.
pub(crate) const PAGE: u64 = 4096;

/// Hears what is being done.
pub(crate) type StepListener<'a> = &'a (dyn Fn(&str) + Sync);

#[expect(clippy::needless_pass_by_value, reason = "numbers and texts are given as they come")]
pub(crate) fn pair(key: &'static str, value: impl ToString) -> (&'static str, String) {
    (key, value.to_string())
}

pub(crate) fn percent(deviation: f64) -> String {
    format!("{:+.2} %", deviation * 100.0)
}

/// One thread: several experiments run at a time.
pub(crate) const RESOURCES: RunResources<'static> = RunResources { threads: 1, memory_bytes: 4 << 30, stop: None };

/// Opens the requests of an experiment, anew each time.
pub(crate) type OpenRequests<'a> = &'a mut dyn FnMut() -> Result<Box<dyn TraceSource>, TraceError>;

/// The settings, and the requests as they are named: `open` opens them.
fn described(workload: &str, pairs: &[(&str, String)]) -> Result<(ScenarioSettings, SimulatedRequests), ScenarioError> {
    let mut settings = ScenarioSettings::new(SIM);
    for (key, value) in pairs {
        settings.set(&format!("{key}={value}"))?;
    }
    Ok((settings, SimulatedRequests::named(workload)))
}

fn input(open: OpenRequests<'_>) -> impl FnMut() -> Result<OpenedInput, TraceError> {
    || Ok(OpenedInput { source: open()?, format: "synthetic".into() })
}

/// Runs buffers as `pairs` of keys and values of `destage sim` describe over the requests that `open`
/// gives anew each time, on one thread; `workload` names them.
pub fn run(workload: &str, pairs: &[(&str, String)], open: OpenRequests<'_>) -> Result<Vec<RunResult>, EvidenceError> {
    let (settings, named) = described(workload, pairs)?;
    let experiment = sim::experiment(&settings, &named)?;
    let report = experiment.run(RESOURCES, &mut input(open), &|_| {});
    let report = report.map_err(|error| EvidenceError::Sim { workload: workload.into(), error })?;
    Ok(report.results)
}

/// Makes a synthetic workload from settings of `destage trace synth`.
pub(crate) fn synthetic(pairs: &[(&str, String)]) -> Result<SynthTrace, ScenarioError> {
    let mut settings = ScenarioSettings::new(SYNTH);
    for (key, value) in pairs {
        settings.set(&format!("{key}={value}"))?;
    }
    SynthTrace::new(synth::spec(&settings)?).map_err(|error: SynthError| ScenarioError::new(error))
}

/// Returns the one result of a run over such a workload.
pub(crate) fn run_synthetic(
    what: &str,
    settings: &[(&str, String)],
    workload: &[(&str, String)],
) -> Result<RunResult, EvidenceError> {
    synthetic(workload)?;
    let mut open = || -> Result<Box<dyn TraceSource>, TraceError> {
        let source = synthetic(workload).expect("it was made once already");
        Ok(Box::new(source))
    };
    Ok(run(what, settings, &mut open)?.remove(0))
}
