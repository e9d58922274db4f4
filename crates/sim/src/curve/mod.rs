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

/// Selects the accesses that take part, and their effects on a buffer. Beside policy and size, nothing else
/// decides about hits.
#[derive(Clone, Debug)]
pub struct CurveScope {
    /// Selects the requests; their place on a device does not matter.
    pub replay: TraceReplay,
    /// Host flushes and FUA.
    pub flush: FlushMode,
    /// Discards.
    pub trim: TrimMode,
    /// Excludes a warm-up from the counts.
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
