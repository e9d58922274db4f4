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

use destage_plan::PageGeometry;

use crate::array::ArrayExperiment;
use crate::buffer::{Experiment, FlushMode};
use crate::input::{Ops, Speed, TrimMode, Volumes, Warmup};

/// What of a trace takes part, and what its requests do to a buffer: what decides about hits beside policy and size.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The trace as the user named it, for errors and results.
    pub trace: String,
    /// Page and block size.
    pub geometry: PageGeometry,
    /// Operations that take part.
    pub ops: Ops,
    /// Volumes that take part.
    pub volumes: Volumes,
    /// How much faster the trace is played, which a warm-up's time goes by.
    pub speed: Speed,
    /// At most so many requests are read.
    pub limit: Option<u64>,
    /// Host flushes and FUA.
    pub flush: FlushMode,
    /// Discards.
    pub trim: TrimMode,
    /// What is not counted.
    pub warmup: Warmup,
}

impl From<&Experiment> for Scope {
    fn from(experiment: &Experiment) -> Self {
        let Experiment { geometry, ops, volumes, speed, limit, run, .. } = *experiment;
        let trace = experiment.trace.clone();
        Self { trace, geometry, ops, volumes, speed, limit, flush: run.flush, trim: run.trim, warmup: run.warmup }
    }
}

impl From<&ArrayExperiment> for Scope {
    fn from(experiment: &ArrayExperiment) -> Self {
        let ArrayExperiment { geometry, ops, volumes, speed, limit, host, .. } = *experiment;
        Self {
            trace: experiment.trace.clone(),
            geometry,
            ops,
            volumes,
            speed,
            limit,
            // A cache of the host keeps what a flush has written.
            flush: FlushMode::Ignore,
            trim: host.trim,
            warmup: host.warmup,
        }
    }
}
