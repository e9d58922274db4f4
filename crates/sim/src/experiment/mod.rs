//! Experiments: many runs over one trace, which is read once for all of them that memory has room
//! for.

mod characteristics;
mod error;
mod extent;
mod findings;
mod pass;
mod passes;
mod replay;
mod stop;
mod sweep;

pub use characteristics::CharacteristicsCounter;
pub use error::ExperimentError;
pub use extent::DeviceCapacity;
pub(crate) use findings::{few_requests, replay_delayed, saturated};
pub(crate) use pass::{ConsumeFeeds, PassEnd, look};
pub(crate) use passes::{ExperimentRuns, TraceReading, carry_out};
pub use replay::TraceReplay;
pub use stop::StopSignal;
pub(crate) use stop::is_told;
pub use sweep::RunSelection;

use destage_trace::{TraceError, TraceSource};

/// Limits the resources of an experiment; without influence on its results.
#[derive(Clone, Copy, Debug)]
pub struct RunResources<'a> {
    /// Threads that simulate.
    pub threads: usize,
    /// Memory for the devices simulated at a time, more of which mean that the trace is read again;
    /// without devices, for the tables of the pages that the trace touches.
    pub memory_bytes: u64,
    /// Stops the experiment early, if somebody asks for it.
    pub stop: Option<&'a StopSignal>,
}

/// Reports the progress of an experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunProgress {
    /// Runs that have ended in passes over the trace before this one, and how many there will be in all.
    pub ended: (u32, u32),
    /// Share of the trace read in this pass, where that is known.
    pub share: Option<f64>,
    /// Requests read in this pass.
    pub requests: u64,
    /// Runs of this pass.
    pub runs: u32,
    /// Requests simulated in all passes, counted once for each run.
    pub simulated: u64,
    /// Tells which part of the rows rebuilds have filled, of all runs of this pass together, once nothing else is left to do.
    pub rebuilt: Option<f64>,
}

/// Opens the trace anew for each pass.
pub type OpenTrace<'a> = dyn FnMut() -> Result<OpenedInput, TraceError> + 'a;

/// Hears now and then how far an experiment is.
pub type ShowProgress<'a> = dyn Fn(RunProgress) + Sync + 'a;

/// An opened trace.
pub struct OpenedInput {
    /// The requests.
    pub source: Box<dyn TraceSource>,
    /// The format, for the results.
    pub format: String,
}
