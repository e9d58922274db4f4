//! Runs fio's jobs on the modern model of a drive.

use anyhow::{Context, Result};
use destage_scenario::ScenarioSettings;
use destage_scenario::sim::{self, SIM, SimulatedRequests};
use destage_scenario::synth::{self, SYNTH};
use destage_sim::buffer::RunResult;
use destage_sim::experiment::{OpenedInput, RunResources};
use destage_sim::measure::LatencySummary;
use destage_trace::{SynthTrace, TraceError, TraceSource};

use super::fio::{MeasuredJob, MeasuredResponse};

/// Counts the bytes of a request.
const PAGE: u64 = 4096;
/// Sets the requests of a job without writes, or whose writes are seldom.
const IDLE_REQUESTS: u64 = 10_000;
/// Sets the requests of a job that makes the drive collect.
const REQUESTS: u64 = 400_000;
/// Limits the memory of a run, in bytes.
const MEMORY: u64 = 4 << 30;

/// Tells how requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestArrivals {
    /// Sends a request as soon as fewer than the job's depth are outstanding.
    Closed,
    /// Sends requests at a rate, as a Poisson process.
    Open,
}

/// Holds what a job measures on the model, with the write amplification of the run.
#[derive(Clone, Debug)]
pub struct ModelledJob {
    /// Reads.
    pub reads: Option<MeasuredResponse>,
    /// Writes.
    pub writes: Option<MeasuredResponse>,
    /// Returns the programmed sectors for each that was written; 1 if none was.
    pub amplification: f64,
}

/// Runs a job on a drive of these settings, of which so many bytes are simulated. Returns no figures where the drive cannot
/// keep up with the job.
///
/// # Errors
/// If the settings describe no drive.
pub fn run(
    drive: &[(&str, String)],
    bytes: u64,
    job: &MeasuredJob,
    arrivals: RequestArrivals,
) -> Result<Option<ModelledJob>> {
    let (reads, writes) = (job.reads.map_or(0.0, |reads| reads.rate), job.writes.map_or(0.0, |writes| writes.rate));
    let (process, host) = match arrivals {
        RequestArrivals::Closed => ("closed".to_owned(), format!("closed:{}", job.depth)),
        RequestArrivals::Open => (format!("poisson:{:.0}ns", 1e9 / (reads + writes)), "open".to_owned()),
    };
    let is_idle = writes == 0.0 || job.depth == 1;
    let length = if is_idle { IDLE_REQUESTS } else { REQUESTS };
    let mut settings = ScenarioSettings::new(SIM);
    let fixed = [
        ("policy", "none".to_owned()),
        ("cache", PAGE.to_string()),
        ("page", PAGE.to_string()),
        ("device", "ssd".to_owned()),
        ("ssd.capacity", bytes.to_string()),
        ("start", "steady".to_owned()),
        ("warmup", "20%".to_owned()),
        ("host", host),
    ];
    for (key, value) in fixed.iter().chain(drive) {
        settings.set(&format!("{key}={value}"))?;
    }
    let mut workload = ScenarioSettings::new(SYNTH);
    for (key, value) in [
        ("length", length.to_string()),
        ("arrivals", process),
        ("space", bytes.to_string()),
        ("read", format!("{:.3}", 100.0 * reads / (reads + writes))),
    ] {
        workload.set(&format!("{key}={value}"))?;
    }
    let spec = synth::spec(&workload)?;
    let mut open = || -> Result<OpenedInput, TraceError> {
        let source: Box<dyn TraceSource> = Box::new(SynthTrace::new(spec.clone()).expect("it was made once already"));
        Ok(OpenedInput { source, format: "synthetic".into() })
    };
    SynthTrace::new(spec.clone()).with_context(|| format!("job '{}'", job.name))?;
    let experiment = sim::experiment(&settings, &SimulatedRequests::named(&job.name).of_count(length))?;
    let resources = RunResources { threads: 1, memory_bytes: MEMORY, stop: None };
    let mut report = experiment.run(resources, &mut open, &|_| {})?;
    Ok(figures(&report.results.remove(0)))
}

/// Returns the figures of a run, unless it is saturated.
fn figures(run: &RunResult) -> Option<ModelledJob> {
    let response = run.response.as_ref()?;
    let seconds = run.simulated_time as f64 / 1e9;
    let of = |summary: Option<&LatencySummary>, count: u64| {
        summary.map(|times| MeasuredResponse {
            rate: count as f64 / seconds,
            p50: times.p50 as f64,
            p99: times.p99 as f64,
        })
    };
    Some(ModelledJob {
        reads: of(response.read.as_ref(), run.counters.read_requests),
        writes: of(response.write.as_ref(), run.counters.write_requests),
        amplification: run.ssd.as_ref().and_then(|ssd| ssd.collection_amplification).unwrap_or(1.0),
    })
}
