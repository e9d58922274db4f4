//! Plants faults of the executor: steps that it does not carry out as it is told.

use destage_plan::{Issue, Step};

/// Says how the executor carries a step out. All but [`Honest`](Self::Honest) are faults that a harness plants
/// to see whether it finds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutorConduct {
    /// Carries the step out.
    #[default]
    Honest,
    /// Reports the step as done, and does nothing.
    Omit,
    /// Reports a write as done when it is issued, and does it later.
    Early,
    /// Begins a step before the commits of the NVRAM are durable that were done when it was issued.
    Ahead,
    /// Writes, but leaves in the volatile cache what was to be durable.
    Volatile,
}

/// Chooses the conduct for each step before it is issued.
pub type StepTamper = Box<dyn FnMut(Issue, &Step) -> ExecutorConduct + Send>;
