//! Which of the two kinds of experiment settings describe.

use destage_sim::array::ArrayExperiment;
use destage_sim::buffer::Experiment;

use crate::sim::Requests;
use crate::{ScenarioError, Settings, array, sim};

/// What the settings describe.
#[derive(Clone, Debug)]
pub enum Simulation {
    /// Buffers inside an SSD.
    Buffers(Box<Experiment>),
    /// Caches of the host over an array.
    Array(Box<ArrayExperiment>),
}

/// The experiment that the settings describe.
pub fn simulation(settings: &Settings, requests: &Requests) -> Result<Simulation, ScenarioError> {
    Ok(if settings.is_given("array") {
        Simulation::Array(Box::new(array::experiment(settings, requests)?))
    } else {
        Simulation::Buffers(Box::new(sim::experiment(settings, requests)?))
    })
}
