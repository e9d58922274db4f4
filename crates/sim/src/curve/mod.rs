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

pub use found::{AccessCounts, LruCurve, PageFootprint, PassFindings};
pub use lru::lru;
pub use result::{CurveResult, PointResult, PolicyCurveResult};
pub use sampled::{CurveEstimate, CurveSampling, SampledCurve, SampledError, SampledPoint, check, sampled};

use crate::array::ArrayExperiment;
use crate::buffer::{BufferExperiment, FlushMode};
use crate::experiment::TraceReplay;
use crate::input::{TrimMode, WarmupPart};

/// What of a trace takes part, and what its requests do to a buffer: what decides about hits beside policy and size.
#[derive(Clone, Debug)]
pub struct CurveScope {
    /// Which requests take part; where they lie is of no meaning.
    pub replay: TraceReplay,
    /// Host flushes and FUA.
    pub flush: FlushMode,
    /// Discards.
    pub trim: TrimMode,
    /// What is not counted.
    pub warmup: WarmupPart,
}

impl From<&BufferExperiment> for CurveScope {
    fn from(experiment: &BufferExperiment) -> Self {
        let BufferExperiment { ref replay, run, .. } = *experiment;
        Self { replay: replay.clone(), flush: run.flush, trim: run.trim, warmup: run.warmup }
    }
}

impl From<&ArrayExperiment> for CurveScope {
    fn from(experiment: &ArrayExperiment) -> Self {
        let ArrayExperiment { ref replay, host, .. } = *experiment;
        // A cache of the host keeps what a flush has written.
        Self { replay: replay.clone(), flush: FlushMode::Ignore, trim: host.trim, warmup: host.warmup }
    }
}
