//! Some runs of an experiment give the results that all of them together give, in whatever passes; and runs of different
//! experiments with the same identity give the same result.

use std::fmt::Debug;
use std::sync::Arc;

use destage_plan::{Nanos, PageGeometry, Request};
use destage_raid::RaidLevel;
use destage_sim::array::{ArrayExperiment, ArrayResult, DeviceSetup};
use destage_sim::buffer::{AdmissionOrder, AnalyticConfig, BufferExperiment, DeviceConfig, RunResult};
use destage_sim::experiment::{DeviceCapacity, OpenedInput, RunProgress, RunResources, RunSelection};
use destage_sim::ssd::{SsdConfig, StartState};

use crate::arrays;
use crate::in_memory::{self, InMemory};
use crate::mixed::{PAGE, mixed};

const RESOURCES: RunResources<'static> = RunResources { threads: 2, memory_bytes: 1 << 30, stop: None };

/// Some runs, a few in each pass, and at most so many results.
struct Part<R> {
    wanted: Vec<usize>,
    per_pass: usize,
    most: usize,
    taken: Vec<(usize, R)>,
}

impl<R> RunSelection<R> for Part<R> {
    fn wants(&self, run: usize) -> bool {
        self.wanted.contains(&run)
    }

    fn per_pass(&mut self) -> usize {
        self.per_pass
    }

    fn take(&mut self, run: usize, result: R) -> bool {
        self.taken.push((run, result));
        self.taken.len() < self.most
    }
}

/// Checks parts of a sweep with so many requests and these results; `sweep` carries one out and says how many requests it
/// read.
fn parts<R: Clone + PartialEq + Debug>(all: &[R], requests: u64, sweep: impl Fn(&mut Part<R>) -> u64) {
    let runs = all.len();
    let choices = [(0..runs).collect(), (0..runs).step_by(3).collect(), (1..runs).collect(), vec![runs - 1], vec![]];
    for wanted in choices {
        for (per_pass, most) in [(1, runs), (2, runs), (runs, runs), (2, 3)] {
            let mut part = Part { wanted: wanted.clone(), per_pass, most, taken: Vec::new() };
            let read = sweep(&mut part);
            let expected: Vec<_> = wanted.iter().take(most).map(|&run| (run, all[run].clone())).collect();
            assert_eq!(part.taken, expected, "{wanted:?} by {per_pass}");
            assert_eq!(read, requests * expected.len().div_ceil(per_pass) as u64, "{wanted:?} by {per_pass}");
        }
    }
}

fn sweep_buffers(
    experiment: &BufferExperiment,
    requests: &Arc<Vec<Request>>,
    part: &mut dyn RunSelection<RunResult>,
) -> u64 {
    let mut open = || Ok(OpenedInput { source: Box::new(InMemory::new(requests)), format: "memory".into() });
    experiment.sweep(RESOURCES, &mut open, &|_| {}, part).expect("it works")
}

fn sweep_arrays(
    experiment: &ArrayExperiment,
    requests: &Arc<Vec<Request>>,
    part: &mut dyn RunSelection<ArrayResult>,
) -> u64 {
    let mut open = || Ok(OpenedInput { source: Box::new(InMemory::new(requests)), format: "memory".into() });
    experiment.sweep(RESOURCES, &mut open, &|_| {}, part).expect("it works")
}

fn buffers(device: DeviceConfig) -> BufferExperiment {
    let geometry = PageGeometry::new(PAGE, 16).expect("a geometry");
    let policies = ["none", "lru", "fab", "lb-clock", "lru:reads=bypass"];
    in_memory::experiment(&policies, &[32 * PAGE, 256 * PAGE], geometry, device)
}

fn ssd() -> SsdConfig {
    SsdConfig { elements: 2, planes: 2, blocks_per_plane: 64, reserve_bp: 2000, lanes: 2, ..SsdConfig::default() }
}

fn devices() -> [DeviceConfig; 4] {
    [
        DeviceConfig::None,
        DeviceConfig::Analytic(AnalyticConfig::default()),
        DeviceConfig::Ssd(ssd(), StartState::Full),
        DeviceConfig::Ssd(ssd(), StartState::Aged { overwrites_pct: 150, seed: 3 }),
    ]
}

/// Caches over SSDs that are as large as it takes.
fn fitted() -> ArrayExperiment {
    let mut experiment = arrays::experiment(RaidLevel::Raid5, 4, &["none", "write-through", "kdd"]);
    experiment.member = DeviceSetup::Ssd { config: arrays::small_ssd(), start: StartState::Full };
    experiment.array.member_bytes = None;
    experiment.replay.capacity = DeviceCapacity::Fit;
    experiment.caches = vec![64 * PAGE, 512 * PAGE];
    experiment
}

#[test]
fn some_runs_are_as_among_all() {
    let requests = Arc::new(mixed(5, 2_000, 3_000, Nanos(3_000_000)));
    for device in devices() {
        let experiment = buffers(device);
        let all = in_memory::run(&experiment, &requests).results;
        assert_eq!(all.len(), 9);
        parts(&all, 3_000, |part| sweep_buffers(&experiment, &requests, part));
    }
    let experiment = fitted();
    let all = arrays::run(&experiment, &requests);
    assert_eq!(all.len(), 5);
    parts(&all, 3_000, |part| sweep_arrays(&experiment, &requests, part));
}

#[test]
fn what_decides_about_a_buffer_is_its_identity() {
    let requests = Arc::new(mixed(6, 2_000, 3_000, Nanos(3_000_000)));
    let mut distinct = std::collections::BTreeSet::new();
    for (device, admission) in devices()
        .into_iter()
        .flat_map(|device| [AdmissionOrder::Page, AdmissionOrder::Request].map(|a| (device.clone(), a)))
    {
        let mut experiment = buffers(device);
        experiment.run.admission = admission;
        let (all, identities) = (in_memory::run(&experiment, &requests).results, experiment.identities());
        assert_eq!(identities.len(), all.len());
        distinct.extend(identities.iter().cloned());
        for policy in &experiment.policies {
            // Other sizes, another order: the size that is there too has the same identity and result.
            let caches = vec![512 * PAGE, 256 * PAGE];
            let other = BufferExperiment { policies: vec![policy.clone()], caches, ..experiment.clone() };
            let results = in_memory::run(&other, &requests).results;
            let same: Vec<_> = other.identities().into_iter().zip(results).collect();
            let known = same.iter().filter_map(|(identity, result)| {
                Some((identities.iter().position(|known| known == identity)?, result))
            });
            let known: Vec<_> = known.collect();
            assert_eq!(known.len(), 1, "{policy:?}");
            assert!(known.iter().all(|&(run, result)| &all[run] == result), "{policy:?}");
        }
    }
    assert_eq!(distinct.len(), 4 * 2 * 9, "no two runs have the same");
}

#[test]
fn what_decides_about_an_array_is_its_identity() {
    let requests = mixed(7, 2_000, 2_000, Nanos(3_000_000));
    let identities = |experiment: &ArrayExperiment| experiment.identities().expect("it can be run");
    let fitted = fitted();
    let given = arrays::experiment(RaidLevel::Raid5, 4, &["none", "kdd"]);
    let given = ArrayExperiment { caches: fitted.caches.clone(), ..given };
    for experiment in [&fitted, &given] {
        let (all, known) = (arrays::run(experiment, &requests), identities(experiment));
        assert_eq!(all.len(), known.len());
        for caches in [vec![64 * PAGE], vec![512 * PAGE, 128 * PAGE]] {
            let other = ArrayExperiment { caches: caches.clone(), ..experiment.clone() };
            for (identity, result) in identities(&other).into_iter().zip(arrays::run(&other, &requests)) {
                let same = known.iter().position(|known| *known == identity);
                assert!(same.is_none_or(|run| all[run] == result), "{result:?}");
                // A cache device that fits has room for the largest cache, and is another without it.
                let fits_other = experiment.replay.capacity == DeviceCapacity::Fit && caches.len() == 1;
                let is_known = result.cache_bytes.is_none_or(|bytes| bytes != 128 * PAGE && !fits_other);
                assert_eq!(same.is_some(), is_known, "{} at {:?}", result.policy, result.cache_bytes);
            }
        }
    }
}

#[test]
fn progress_ends_with_all_that_was_wanted() {
    let requests = Arc::new(mixed(8, 2_000, 3_000, Nanos(3_000_000)));
    let last = std::sync::Mutex::new(RunProgress::default());
    let mut open = || Ok(OpenedInput { source: Box::new(InMemory::new(&requests)), format: "memory".into() });
    let mut part = Part { wanted: vec![0, 2, 3, 5, 6], per_pass: 3, most: 9, taken: Vec::new() };
    let show = |progress| *last.lock().expect("it is whole") = progress;
    buffers(DeviceConfig::None).sweep(RESOURCES, &mut open, &show, &mut part).expect("it works");
    let last = last.into_inner().expect("it is whole");
    assert_eq!((last.ended, last.runs, last.simulated), ((3, 5), 2, 5 * 3_000));
}
