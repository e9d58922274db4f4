//! One experiment from settings as a user would give them, and a workload.

use destage_scenario::sim::{self, Requests, SIM};
use destage_scenario::{ScenarioError, Settings};
use destage_sim::buffer::{RunResult, SimError};
use destage_sim::experiment::{Input, Resources};
use destage_trace::{OpenOptions, Source, TraceError};

/// Why evidence could not be gathered.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// A setting or a file of ours is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// An experiment failed.
    #[error("{workload}: {error}")]
    Sim {
        /// The workload.
        workload: String,
        /// Why.
        error: SimError,
    },
}

/// Bytes of a page in all of them.
pub(crate) const PAGE: u64 = 4096;

/// Hears what is being done.
pub(crate) type Step<'a> = &'a (dyn Fn(&str) + Sync);

#[expect(clippy::needless_pass_by_value, reason = "numbers and texts are given as they come")]
pub(crate) fn pair(key: &'static str, value: impl ToString) -> (&'static str, String) {
    (key, value.to_string())
}

pub(crate) fn percent(deviation: f64) -> String {
    format!("{:+.2} %", deviation * 100.0)
}

/// Runs what `pairs` of keys and values of `destage sim` describe over the requests that `open`
/// gives anew each time, on one thread; `workload` names them.
pub fn run(
    workload: &str,
    pairs: &[(&str, String)],
    open: &mut dyn FnMut() -> Result<Box<dyn Source>, TraceError>,
) -> Result<Vec<RunResult>, EvidenceError> {
    let mut settings = Settings::new(SIM);
    for (key, value) in pairs {
        settings.set(&format!("{key}={value}"))?;
    }
    // Only its name is looked at: `open` opens it.
    let named = Requests::File { file: workload.into(), options: OpenOptions::default() };
    let experiment = sim::experiment(&settings, &named)?;
    let resources = Resources { threads: 1, memory_bytes: 4 << 30 };
    let mut open = || Ok(Input { source: open()?, format: "synthetic".into() });
    let report = experiment.run(resources, &mut open, &|_| {});
    let report = report.map_err(|error| EvidenceError::Sim { workload: workload.into(), error })?;
    Ok(report.results)
}
