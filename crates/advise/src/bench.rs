//! Runs for the search: simulations of the trace's parts, by the settings of `destage sim`.

use std::cell::Cell;

use destage_cache::host_caches;
use destage_plan::PolicySpec;
use destage_policy::buffer::{self, EvictionUnit};
use destage_report::findings::found;
use destage_report::{RankingObjective, ReportRun, RunJudge};
use destage_scenario::keys;
use destage_scenario::keys::cache::{CACHE, POLICY};
use destage_scenario::keys::host::PER_VOLUME;
use destage_scenario::keys::output::{CSV, LATENCY_LOG};
use destage_scenario::sim::{self, SimulatedRequests};
use destage_scenario::{DescribedSimulation, ScenarioSettings, simulation};
use destage_sim::experiment::{DeviceCapacity, RunProgress, RunResources};
use destage_sim::input::TouchedExtent;
use destage_sweep::{RemoteRunner, SweepGroup, elsewhere};

use crate::search::{self, PolicyComplexity, SearchedRequests};
use crate::{AdviceStage, AdviceWatch, AdviseError};

/// The share of a stretch that fills the buffer and is not measured.
const WARMUP: &str = "25%";
/// Holds figures of what nobody has listed.
const UNKNOWN: PolicyComplexity =
    PolicyComplexity { layers: usize::MAX, changes: usize::MAX, year: u16::MAX, place: usize::MAX };

/// Simulations by settings.
pub(crate) struct SimulationBench<'a> {
    /// But for policies and sizes.
    pub(crate) settings: ScenarioSettings,
    pub(crate) requests: &'a SimulatedRequests,
    pub(crate) objective: Option<RankingObjective>,
    pub(crate) resources: RunResources<'static>,
    /// In bytes, ascending.
    pub(crate) sizes: Vec<u64>,
    pub(crate) watch: &'a dyn AdviceWatch,
    /// Runs simulations elsewhere; none if they run here.
    pub(crate) on: Option<&'a dyn RemoteRunner>,
    /// Holds the pages that all requests touch, once they are known and if they decide how large devices are.
    pub(crate) extent: Cell<Option<TouchedExtent>>,
    /// Once there is a run that tells.
    pub(crate) judge: Cell<Option<RunJudge>>,
}

impl SimulationBench<'_> {
    fn settings(
        &self,
        policies: &[String],
        sizes: &[u64],
        part: SearchedRequests,
    ) -> Result<ScenarioSettings, AdviseError> {
        let mut settings = self.settings.clone();
        settings.flag(POLICY.name(), policies.to_vec())?;
        settings.flag(CACHE.name(), sizes.iter().map(u64::to_string).collect())?;
        // A stretch begins with an empty buffer, whose misses would count against large sizes.
        if part != SearchedRequests::Whole {
            settings.flag(keys::host::WARMUP.name(), vec![WARMUP.to_owned()])?;
        }
        Ok(settings)
    }

    /// Checks that a policy can be run at these sizes, as far as that is known without the trace.
    ///
    /// # Errors
    /// If the settings, or the policy at one of the sizes, are wrong.
    pub(crate) fn check(&self, policy: &str, sizes: &[u64]) -> Result<(), AdviseError> {
        let settings = self.settings(&[policy.to_owned()], sizes, SearchedRequests::Whole)?;
        // Building an array's experiment checks it.
        if let DescribedSimulation::Buffers(experiment) = simulation(&settings, self.requests)? {
            experiment.check()?;
        }
        Ok(())
    }

    /// Simulates policies at sizes over a part.
    fn simulate(
        &self,
        part: SearchedRequests,
        policies: &[String],
        sizes: &[u64],
    ) -> Result<Vec<ReportRun>, AdviseError> {
        let settings = self.settings(policies, sizes, part)?;
        let requests = match part {
            SearchedRequests::Whole => self.requests.clone(),
            SearchedRequests::Stretch { first, requests } => self.requests.part(first, requests),
        };
        self.watch.begin(AdviceStage { part, policies: policies.len(), sizes: sizes.len() });
        let runs = match self.on {
            Some(other) => self.elsewhere(other, &settings, &requests, policies)?,
            None => self.here(&settings, &requests, part)?,
        };
        // The first run tells what the objective is by default: responses with a device, hits without.
        if let Some(run) = runs.first()
            && self.judge.get().is_none()
        {
            self.judge.set(Some(RunJudge::new(run, self.objective)));
        }
        Ok(runs)
    }

    /// Has each policy simulated elsewhere, so that many are at a time.
    fn elsewhere(
        &self,
        other: &dyn RemoteRunner,
        settings: &ScenarioSettings,
        requests: &SimulatedRequests,
        policies: &[String],
    ) -> Result<Vec<ReportRun>, AdviseError> {
        let group = |policy: &String| {
            let mut settings = settings.clone();
            // A group has one policy, so as many workers as there are policies share the work.
            settings.flag(POLICY.name(), vec![policy.clone()])?;
            Ok(SweepGroup::whole(&settings, requests, &requests.name())?)
        };
        let groups = policies.iter().map(group).collect::<Result<Vec<_>, AdviseError>>()?;
        let runs = groups.iter().map(|group| group.runs() as u32).sum();
        let ended = |policies: usize| {
            let share = policies as f64 / groups.len() as f64;
            self.watch.show(RunProgress { share: Some(share), runs, ended: (0, runs), ..RunProgress::default() });
        };
        ended(0);
        let brought = elsewhere(&groups, other, &ended)?;
        Ok(brought.into_iter().flatten().collect())
    }

    /// Simulates here.
    fn here(
        &self,
        settings: &ScenarioSettings,
        requests: &SimulatedRequests,
        part: SearchedRequests,
    ) -> Result<Vec<ReportRun>, AdviseError> {
        let mut passes = 0;
        let mut open = || {
            let input = requests.open(passes);
            passes += 1;
            input
        };
        let progress = |progress| self.watch.show(progress);
        let mut simulation = simulation(settings, requests)?;
        if part == SearchedRequests::Whole {
            // The whole trace is read for its extent once, and not for each round.
            if self.extent.get().is_none() {
                self.extent.set(match &simulation {
                    DescribedSimulation::Buffers(experiment) => {
                        experiment.extent(self.resources, &mut open, &progress)?
                    }
                    DescribedSimulation::Array(experiment) => {
                        experiment.extent(self.resources, &mut open, &progress)?
                    }
                });
            }
            if let Some(extent) = self.extent.get() {
                // All rounds have devices of one size, or their costs would not compare.
                simulation.replay_mut().capacity = DeviceCapacity::Of(extent);
            }
        }
        Ok(match simulation {
            DescribedSimulation::Buffers(experiment) => {
                let report = experiment.run(self.resources, &mut open, &progress)?;
                report.results.iter().map(ReportRun::of_buffer).collect()
            }
            DescribedSimulation::Array(experiment) => {
                let report = experiment.run(self.resources, &mut open, &progress)?;
                report.results.iter().map(ReportRun::of_array).collect()
            }
        })
    }
}

impl search::RunSupplier for SimulationBench<'_> {
    type Run = ReportRun;
    type Error = AdviseError;

    fn run(
        &mut self,
        part: SearchedRequests,
        policies: &[String],
        sizes: &[usize],
        bare: Option<&str>,
    ) -> Result<Vec<ReportRun>, AdviseError> {
        let mut sizes: Vec<u64> = sizes.iter().map(|&size| self.sizes[size]).collect();
        if sizes.is_empty() {
            // The settings demand a size even of a policy that has none.
            sizes.extend(self.sizes.last());
        }
        let all: Vec<String> = policies.iter().cloned().chain(bare.map(str::to_owned)).collect();
        let runs = self.simulate(part, &all, &sizes)?;
        // Costs are matched to policies and sizes by position, so a missing run would shift all after it.
        if runs.len() != policies.len() * sizes.len() + usize::from(bare.is_some()) {
            return Err(AdviseError::Asked(
                "one policy at one size is to be one run: give one order of service, and policies that hold something"
                    .to_owned(),
            ));
        }
        Ok(runs)
    }

    fn cost(&self, run: &ReportRun) -> Option<f64> {
        self.judge.get()?.cost(run)
    }

    /// Caches of the host are of one kind.
    fn kind(&self, policy: &str) -> usize {
        // Layers come before the policy that they wrap, and that one decides which unit leaves.
        let base = policy.rsplit('+').next().and_then(|base| base.split(':').next()).unwrap_or_default();
        usize::from(buffer::info(base).is_ok_and(|info| info.unit == EvictionUnit::Block))
    }

    fn complexity(&self, policy: &str) -> PolicyComplexity {
        // A policy of unknown make counts as the most complex, so it wins no tie.
        let Ok(spec) = policy.parse::<PolicySpec>() else { return UNKNOWN };
        let mut parts = spec.name.rsplit('+');
        let base = parts.next().unwrap_or_default();
        let layers = parts.count();
        let changes = spec.given.len();
        if let Some((place, info)) = buffer::policies().iter().enumerate().find(|(_, info)| info.name == base) {
            return PolicyComplexity { layers, changes, year: info.year, place };
        }
        // Host caches are listed from simple to complex.
        match host_caches().position(|info| info.name == base) {
            Some(place) => PolicyComplexity { layers, changes, year: 0, place },
            None => PolicyComplexity { layers, changes, ..UNKNOWN },
        }
    }

    fn tells(&self, run: &ReportRun) -> bool {
        // A buffer that was never full shows nothing of its policy.
        found(std::slice::from_ref(run), None).iter().all(|found| found.kind != "never-full")
    }
}

/// The settings that say how sizes, policies and files are given to `destage sim`, and have no meaning here.
pub(crate) fn refuse(settings: &ScenarioSettings) -> Result<(), AdviseError> {
    let instead = [
        (CACHE.key(), "sizes are looked for, up to --budget"),
        (CSV.key(), "what was simulated is on the page, see --report"),
        (LATENCY_LOG.key(), "there is not one run but many: give it to the call that the advice ends with"),
        (PER_VOLUME.key(), "give it to the call that the advice ends with"),
    ];
    match instead.into_iter().find(|(key, _)| settings.is_given(key)) {
        Some((key, why)) => Err(AdviseError::Asked(format!("'{}' has no meaning here: {why}", key.name))),
        None => Ok(()),
    }
}

/// Returns the threads and the memory with which the requests are read.
///
/// # Errors
/// If the settings of either are wrong.
pub(crate) fn resources(settings: &ScenarioSettings) -> Result<RunResources<'static>, AdviseError> {
    Ok(sim::resources(settings)?)
}
