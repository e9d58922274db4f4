//! Sizes: how many hits a buffer of every size would have, without a run for each.

mod control;
mod found;
mod lru;
mod miniature;
mod result;
mod samplable;
mod sample;
mod sampled;
mod walk;

pub use found::{Footprint, Found, Hits, LruCurve};
pub use lru::lru;
pub use result::{CurveResult, PointResult, PolicyCurveResult};
pub use sampled::{Estimated, SampledCurve, SampledError, SampledPoint, Sampling, check, sampled};

use crate::array::ArrayExperiment;
use crate::buffer::{Experiment, FlushMode};
use crate::experiment::TraceReplay;
use crate::input::{TrimMode, Warmup};

/// What of a trace takes part, and what its requests do to a buffer: what decides about hits beside policy and size.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Which requests take part; where they lie is of no meaning.
    pub replay: TraceReplay,
    /// Host flushes and FUA.
    pub flush: FlushMode,
    /// Discards.
    pub trim: TrimMode,
    /// What is not counted.
    pub warmup: Warmup,
}

impl From<&Experiment> for Scope {
    fn from(experiment: &Experiment) -> Self {
        let Experiment { ref replay, run, .. } = *experiment;
        Self { replay: replay.clone(), flush: run.flush, trim: run.trim, warmup: run.warmup }
    }
}

impl From<&ArrayExperiment> for Scope {
    fn from(experiment: &ArrayExperiment) -> Self {
        let ArrayExperiment { ref replay, host, .. } = *experiment;
        // A cache of the host keeps what a flush has written.
        Self { replay: replay.clone(), flush: FlushMode::Ignore, trim: host.trim, warmup: host.warmup }
    }
}
