//! Scenario files, and what they describe.

use std::path::Path;
use std::sync::Arc;

use destage_plan::{Nanos, Op, Request};
use destage_reproduce::originals::TraceCatalogue;
use destage_reproduce::paper::PaperFile;
use destage_reproduce::{report, reproduce};
use destage_scenario::keys::trace::WORKLOAD;
use destage_scenario::sim::{SIM, requests, resources};
use destage_scenario::synth::{SYNTH, level, spec};
use destage_scenario::workload::NamedWorkload;
use destage_scenario::{DescribedSimulation, simulation};
use destage_scenario::{ScenarioError, ScenarioSettings};
use destage_sim::array::{ArrayExperiment, DeviceSetup, InjectionKind};
use destage_sim::buffer::DeviceConfig;
use destage_sim::ssd::{SsdShape, StartState};
use destage_trace::{SynthTrace, TraceSource};

use crate::simulating;

/// Limits what is run of a scenario: policies times sizes, pages of a device, and bytes of a logical block.
const MOST_RUNS: usize = 4;
const MOST_PAGES: u64 = 1 << 14;
const MOST_BLOCK_BYTES: u64 = 1 << 20;
/// Overwrites of a device that is aged, in hundredths.
const MOST_OVERWRITES_PCT: u32 = 100;
/// Requests of a synthetic trace that are looked at.
const MOST_REQUESTS: usize = 1000;

/// The settings of a file, or, one to a line after the line `--set`, of a command line.
fn settings(bytes: &[u8], keys: &'static [destage_scenario::SettingKey]) -> Option<ScenarioSettings> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut settings = ScenarioSettings::new(keys);
    if let Some(pairs) = text.strip_prefix("--set\n") {
        for pair in pairs.lines() {
            if let Err(error) = settings.set(pair) {
                // A message that does not say where the slip is helps nobody.
                assert!(error.to_string().starts_with("--set"), "{error}");
                return None;
            }
        }
        return Some(settings);
    }
    match settings.read_text(Path::new("file.toml"), text) {
        Ok(()) => Some(settings),
        Err(error) => {
            assert!(error.to_string().starts_with("file.toml, line "), "{error}");
            None
        }
    }
}

/// Returns the result, if there is one. An error must have a text, which names the key.
fn named<T>(result: Result<T, ScenarioError>) -> Option<T> {
    result.inspect_err(|error| assert!(!error.to_string().is_empty())).ok()
}

/// Reads the settings of a simulation, and runs it over a few requests if it is small.
pub(crate) fn sim(bytes: &[u8]) {
    let Some(settings) = settings(bytes, SIM) else { return };
    // A name with a path could be that of a device, and opening it may do anything.
    let workload = WORKLOAD.optional_by(&settings, |name| if name.contains(['/', '.']) { Err("") } else { Ok(()) });
    if workload.is_err() {
        return;
    }
    let Some(requests) = named(requests(&settings)) else { return };
    let Some(simulation) = named(simulation(&settings, &requests)) else { return };
    if named(resources(&settings)).is_none() {
        return;
    }
    let experiment = match simulation {
        DescribedSimulation::Buffers(experiment) => experiment,
        DescribedSimulation::Array(experiment) => return array(&experiment),
    };
    let small = match &experiment.device {
        DeviceConfig::None | DeviceConfig::Analytic(_) => true,
        // Ageing writes the device several times over, which takes too long for a fuzzer.
        DeviceConfig::Ssd(_, StartState::Aged { overwrites_pct, .. }) if *overwrites_pct > MOST_OVERWRITES_PCT => false,
        DeviceConfig::Ssd(config, _) => match SsdShape::new(config.clone(), experiment.replay.geometry) {
            Ok(shape) => u64::from(shape.host_pages) <= MOST_PAGES && shape.memory_bytes() <= MOST_PAGES * 64,
            Err(_) => true,
        },
    };
    let block_bytes = experiment.replay.geometry.page_bytes() * u64::from(experiment.replay.geometry.pages_per_block());
    let runs = experiment.policies.len().saturating_mul(experiment.caches.len());
    if small && block_bytes <= MOST_BLOCK_BYTES && runs <= MOST_RUNS {
        simulating::run(&experiment, &Arc::new(a_few_requests()));
    }
}

/// Runs an experiment over an array over a few requests if it is small: settings that were accepted
/// can be run.
fn array(experiment: &ArrayExperiment) {
    let (runs, memory) = experiment.weight().expect("the settings were accepted");
    let bytes = experiment.check().expect("the settings were accepted");
    let pages = bytes / experiment.replay.geometry.page_bytes();
    // A rebuild takes as long as the array is large.
    let rebuilds = experiment.injections.iter().any(|injection| injection.kind == InjectionKind::Replace);
    let ages = |device: &DeviceSetup| {
        matches!(device, DeviceSetup::Ssd { start: StartState::Aged { .. } | StartState::Steady { .. }, .. })
    };
    let large = memory > MOST_PAGES * 64 || rebuilds && pages > MOST_PAGES;
    let aged = ages(&experiment.member) || ages(&experiment.cache_device);
    if !large && !aged && runs <= MOST_RUNS {
        simulating::run_array(experiment, &Arc::new(a_few_requests()));
    }
}

/// Some of each kind, of several sizes, near and far.
fn a_few_requests() -> Vec<Request> {
    let request = |n: u64| Request {
        time: Nanos(n * 100_000),
        offset: n * n % 37 * 4096 + n % 3 * 512,
        len: [4096, 512, 16_384, 100_000][n as usize % 4],
        volume: (n / 16) as u32,
        op: [Op::Write, Op::Read, Op::Write, Op::Write, Op::Discard, Op::Flush][n as usize % 6],
        fua: false,
    };
    let plain = |r: Request| if r.op == Op::Flush { Request { offset: 0, len: 0, ..r } } else { r };
    (0..48).map(request).map(plain).collect()
}

/// Reads the settings of a synthetic trace, and generates its beginning.
pub(crate) fn synth(bytes: &[u8]) {
    let Some(settings) = settings(bytes, SYNTH) else { return };
    named(level(&settings));
    let Some(spec) = named(spec(&settings)) else { return };
    let (space, volumes) = (spec.space, spec.volumes);
    let Ok(synth) = SynthTrace::new(spec) else { return };
    for request in beginning(synth) {
        assert!(request.offset + request.len <= space, "{request:?} in {space} B");
        assert!(request.volume < volumes.count, "{request:?} of {volumes:?}");
    }
}

/// Reads a workload file, changes it, and generates its beginning.
pub(crate) fn workload(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match NamedWorkload::parse("workload", Path::new("file.toml"), text) {
        Ok(mut workload) => {
            if let Some(mix) = named(workload.open()) {
                beginning(mix);
            }
            for change in ["seed=7", "length=500", "part.0.read=50", "align=512", "part.1.start=1us", "part.=1", "x"] {
                named(workload.set(change));
            }
            assert!(workload.changes().len() < 6, "{:?}", workload.changes());
            if let Some(mix) = named(workload.open()) {
                beginning(mix);
            }
        }
        Err(error) => assert!(error.to_string().starts_with("file.toml"), "{error}"),
    }
}

/// The first requests of a synthetic trace, in the order of time and below 2^64.
fn beginning(mut source: impl TraceSource) -> Vec<Request> {
    let mut batch = Vec::new();
    if source.next_batch(&mut batch).is_err() {
        return Vec::new();
    }
    batch.truncate(MOST_REQUESTS);
    let mut latest = Nanos::ZERO;
    for request in &batch {
        assert!(request.time >= latest, "{request:?} after {latest}");
        latest = request.time;
        assert!(request.offset.checked_add(request.len).is_some(), "{request:?}");
    }
    batch
}

/// Reads a paper, works its examples through and reports on it; its workloads are not run.
pub(crate) fn paper(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match PaperFile::parse(Path::new("file.toml"), text) {
        Ok(paper) if paper.workload.iter().all(|workload| workload.synthetic.is_none()) => {
            if let Ok(found) = reproduce::reproduce(&paper, &[], &|_, _| {}) {
                assert_eq!(report::rows(&found).len(), found.findings.len() + paper.example.len());
                assert!(report::markdown(&found).starts_with("## "));
            }
        }
        Ok(_) => {}
        Err(error) => assert!(error.to_string().starts_with("file.toml"), "{error}"),
    }
}

/// Reads what is known of traces, and asks which of them a file of the name in the first line is called after.
pub(crate) fn known_traces(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let name = text.lines().next().unwrap_or_default();
    match TraceCatalogue::parse(Path::new("file.toml"), text) {
        Ok(known) => {
            for trace in known.traces() {
                assert!(known.get(&trace.id).is_some_and(|found| known.family(found).id == known.family(trace).id));
                assert!(!trace.is_named(""), "an empty name tells nothing");
                let _ = trace.is_named(name);
            }
        }
        Err(error) => assert!(error.to_string().starts_with("file.toml"), "{error}"),
    }
}
