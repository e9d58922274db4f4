//! Distinguishes the two kinds of experiments that settings describe.

use destage_sim::array::ArrayExperiment;
use destage_sim::buffer::BufferExperiment;
use destage_sim::curve::{self, CurveScope};
use destage_sim::experiment::{ExperimentError, RunProgress, TraceReplay};
use destage_trace::TraceError;

use crate::keys::array::ARRAY;
use crate::sim::SimulatedRequests;
use crate::{ScenarioError, ScenarioSettings, array, sim};

/// Holds the experiment that settings describe.
#[derive(Clone, Debug)]
pub enum DescribedSimulation {
    /// Buffers inside an SSD.
    Buffers(Box<BufferExperiment>),
    /// Caches of the host over an array.
    Array(Box<ArrayExperiment>),
}

impl DescribedSimulation {
    /// Returns how the trace is replayed.
    pub fn replay(&self) -> &TraceReplay {
        match self {
            Self::Buffers(experiment) => &experiment.replay,
            Self::Array(experiment) => &experiment.replay,
        }
    }

    /// The same, to be changed.
    pub fn replay_mut(&mut self) -> &mut TraceReplay {
        match self {
            Self::Buffers(experiment) => &mut experiment.replay,
            Self::Array(experiment) => &mut experiment.replay,
        }
    }

    /// Returns the sizes of caches.
    pub fn caches(&self) -> &[u64] {
        match self {
            Self::Buffers(experiment) => &experiment.caches,
            Self::Array(experiment) => &experiment.caches,
        }
    }

    /// Returns the scope of the experiment: the accesses that take part in it.
    pub fn scope(&self) -> CurveScope {
        match self {
            Self::Buffers(experiment) => CurveScope::from(&**experiment),
            Self::Array(experiment) => CurveScope::from(&**experiment),
        }
    }
}

/// The experiment that the settings describe.
pub fn simulation(
    settings: &ScenarioSettings,
    requests: &SimulatedRequests,
) -> Result<DescribedSimulation, ScenarioError> {
    Ok(if ARRAY.is_given(settings) {
        DescribedSimulation::Array(Box::new(array::experiment(settings, requests)?))
    } else {
        DescribedSimulation::Buffers(Box::new(sim::experiment(settings, requests)?))
    })
}

/// Why requests could not be counted.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// The settings.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Counts the requests if the settings need to know how many there are, which takes a pass of its
/// own; `progress` is told the share of the trace and the requests read.
///
/// # Errors
/// Fails where they cannot be read, or cannot be read twice.
pub fn count(
    settings: &ScenarioSettings,
    requests: &mut SimulatedRequests,
    progress: &mut dyn FnMut(Option<f64>, u64),
) -> Result<(), CountError> {
    if requests.needs_count(settings)? {
        // What is wrong with other settings shall be known before the trace is read for its length.
        simulation(settings, &requests.of_count(0).before_sizes())?;
        requests.count(progress)?;
    }
    Ok(())
}

/// Why sizes could not be found.
#[derive(Debug, thiserror::Error)]
pub enum SizesError {
    /// The settings.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The trace.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
}

/// Looks at the trace for its footprint and LRU's curve of hits if the settings ask for sizes that depend on them, which
/// takes a pass of its own.
///
/// # Errors
/// Fails where it cannot be read, or cannot be read twice.
pub fn find_sizes(
    settings: &ScenarioSettings,
    requests: &mut SimulatedRequests,
    progress: &(dyn Fn(RunProgress) + Sync),
) -> Result<(), SizesError> {
    if requests.needs_sizes(settings)? {
        // The settings are checked before the trace is read, as far as they do not need its sizes.
        let scope = simulation(settings, &requests.before_sizes())?.scope();
        let found = curve::lru(&scope, sim::resources(settings)?, &mut || requests.open(0), progress)?;
        requests.sized(found);
    }
    Ok(())
}
