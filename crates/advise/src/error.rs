//! Why there is no advice.

use destage_scenario::{CountError, ScenarioError, SizesError};
use destage_sim::array::ArrayError;
use destage_sim::buffer::SimError;
use destage_sim::experiment::ExperimentError;

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum AdviseError {
    /// The settings.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A simulation of buffers.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// A simulation over an array.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// The trace could not be counted.
    #[error(transparent)]
    Count(#[from] CountError),
    /// The trace could not be looked at.
    #[error(transparent)]
    Sizes(#[from] SizesError),
    /// The same.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// Tells that the question has no answer; the text says what would be right.
    #[error("{0}")]
    Asked(String),
    /// Somebody else who was to simulate did not.
    #[error(transparent)]
    Sweep(#[from] destage_sweep::SweepError),
}
