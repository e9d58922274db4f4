//! An experiment of a sweep, ready to be run.

use destage_report::ReportRun;
use destage_report::kept::{self, ResultKey, Sha256Hash};
use destage_report::results::{RunKind, complete};
use destage_scenario::sim::{self, SimulatedRequests};
use destage_scenario::{DescribedSimulation, ScenarioSettings};
use destage_sim::array::{ArrayError, SetupError};
use destage_sim::buffer::SimError;
use destage_sim::experiment::{
    CharacteristicsCounter, ExperimentError, OpenedInput, RunResources, RunSelection, StopSignal,
};
use destage_trace::TraceError;
use serde::{Deserialize, Serialize};

use crate::{SweepError, held, program, traces};

/// Selects the requests of a trace that an experiment is over, beside its settings.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TracePart {
    /// Only so many, from one on.
    pub(crate) part: Option<(u64, u64)>,
    /// Counts the trace's requests, where settings ask for a share of them.
    pub(crate) counted: Option<u64>,
}

impl TracePart {
    pub(crate) fn requests(self, requests: SimulatedRequests) -> SimulatedRequests {
        match self {
            Self { part: Some((first, many)), .. } => requests.part(first, many),
            Self { counted: Some(count), .. } => requests.of_count(count),
            Self { .. } => requests,
        }
    }
}

/// Says whether results include the trace's characteristics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceCounting {
    Yes,
    No,
}

/// An experiment that could begin, and what its runs are told apart by.
pub(crate) struct PreparedExperiment {
    pub(crate) requests: SimulatedRequests,
    simulation: DescribedSimulation,
    /// Identifies the content of the requests.
    content: String,
    identities: Vec<String>,
    files: Vec<(String, String)>,
}

impl PreparedExperiment {
    /// The experiment that these settings describe, over these requests of a trace that is called so.
    ///
    /// # Errors
    /// Fails where they describe none that could begin, or a file cannot be read.
    pub(crate) fn new(settings: &ScenarioSettings, of: TracePart, name: &str) -> Result<Self, SweepError> {
        let requests = of.requests(sim::requests(settings)?);
        let files = traces::contents(&requests.files())?;
        let mut simulation = destage_scenario::simulation(settings, &requests)?;
        // What a trace is called decides about no result.
        simulation.replay_mut().trace.clear();
        let identities = match &simulation {
            DescribedSimulation::Buffers(experiment) => {
                experiment.check().map_err(SweepError::new)?;
                experiment.identities()
            }
            DescribedSimulation::Array(experiment) => {
                experiment.check().map_err(SweepError::new)?;
                experiment.identities().map_err(SweepError::new)?
            }
        };
        name.clone_into(&mut simulation.replay_mut().trace);
        let content = format!("{} {files:?}", requests.identity());
        Ok(Self { requests, simulation, content, identities, files })
    }

    /// Keys of its runs, in the order of results.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut of_all = ResultKey::of(&Sha256Hash::default());
        // The program stands for all defaults and all code, so no key can outlive a change of either.
        of_all.part(program());
        of_all.part("sweep");
        of_all.part(self.requests.identity());
        for (name, content) in &self.files {
            of_all.part(name);
            of_all.part(content);
        }
        let key = |identity: &String| {
            let mut key = of_all.clone();
            key.part(identity);
            kept::hex(&key.hash())
        };
        self.identities.iter().map(key).collect()
    }

    /// Returns a name for each run, for people.
    pub(crate) fn names(&self) -> Result<Vec<String>, SweepError> {
        match &self.simulation {
            DescribedSimulation::Buffers(experiment) => Ok(experiment.names()),
            DescribedSimulation::Array(experiment) => experiment.names().map_err(SweepError::new),
        }
    }

    /// Carries out these runs; what has been found before an error is in `found` all the same.
    pub(crate) fn run(
        &self,
        wanted: &[usize],
        resources: RunResources<'_>,
        counting: TraceCounting,
        stop: &StopSignal,
        found: &mut Vec<(usize, ReportRun)>,
    ) -> Result<(), FailedPreparation> {
        let replay = self.simulation.replay();
        let of_trace = format!("{} {:?} {:?}", self.content, replay.geometry, replay.limit);
        let counter = (counting == TraceCounting::Yes && held::like(&of_trace, None).is_none())
            .then(|| CharacteristicsCounter::new(replay));
        let mut passes = 0;
        let mut open = || -> Result<OpenedInput, TraceError> {
            let input = stop.input(held::open(&self.requests, &self.content, passes)?);
            passes += 1;
            Ok(match &counter {
                Some(counter) if passes == 1 => counter.count(input),
                _ => input,
            })
        };
        // The first pass counts the characteristics on the way, so that they cost no pass of their own.
        let like = || match counting {
            TraceCounting::Yes => held::like(&of_trace, counter.as_ref().map(CharacteristicsCounter::finish).as_ref()),
            TraceCounting::No => None,
        };
        match &self.simulation {
            DescribedSimulation::Buffers(experiment) => {
                let mut taken = TakenResults { wanted, results: Vec::new() };
                let done = experiment.sweep(resources, &mut open, &|_| {}, &mut taken);
                taken.give(&like, ReportRun::of_buffer, found);
                done.map(drop).map_err(FailedPreparation::from)
            }
            DescribedSimulation::Array(experiment) => {
                let mut taken = TakenResults { wanted, results: Vec::new() };
                let done = experiment.sweep(resources, &mut open, &|_| {}, &mut taken);
                taken.give(&like, ReportRun::of_array, found);
                done.map(drop).map_err(FailedPreparation::from)
            }
        }
    }
}

/// Why runs have no results.
pub(crate) struct FailedPreparation {
    pub(crate) error: SweepError,
    /// Memory that a device takes, if that is it.
    pub(crate) needed: Option<u64>,
}

impl From<SimError> for FailedPreparation {
    fn from(error: SimError) -> Self {
        let needed = if let SimError::Memory { needed, .. } = error { Some(needed) } else { None };
        let of_trace = matches!(error, SimError::Experiment(ExperimentError::Trace(_)));
        Self { error: SweepError { of_trace, ..SweepError::new(error) }, needed }
    }
}

impl From<ArrayError> for FailedPreparation {
    fn from(error: ArrayError) -> Self {
        let needed = if let ArrayError::Setup(SetupError::Memory { needed, .. }) = error { Some(needed) } else { None };
        let of_trace = matches!(error, ArrayError::Experiment(ExperimentError::Trace(_)));
        Self { error: SweepError { of_trace, ..SweepError::new(error) }, needed }
    }
}

/// Results of the runs that are wanted.
struct TakenResults<'a, R> {
    wanted: &'a [usize],
    results: Vec<(usize, R)>,
}

impl<R: RunKind> TakenResults<'_, R> {
    fn give(
        self,
        like: &dyn Fn() -> Option<destage_sim::measure::TraceCharacteristics>,
        run: fn(&R) -> ReportRun,
        found: &mut Vec<(usize, ReportRun)>,
    ) {
        if self.results.is_empty() {
            return;
        }
        let like = like();
        for (number, mut result) in self.results {
            complete(std::slice::from_mut(&mut result), like.as_ref(), None);
            found.push((number, run(&result)));
        }
    }
}

impl<R> RunSelection<R> for TakenResults<'_, R> {
    fn wants(&self, run: usize) -> bool {
        self.wanted.contains(&run)
    }

    fn per_pass(&mut self) -> usize {
        usize::MAX
    }

    fn take(&mut self, run: usize, result: R) -> bool {
        self.results.push((run, result));
        true
    }
}
