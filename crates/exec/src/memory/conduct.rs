//! Whether the executor does what it is told.

use destage_plan::{Issue, Step};

/// Whether the executor does what it is told. All but [`Honest`](Self::Honest) are faults that a
/// harness plants in order to see whether it finds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutorConduct {
    /// It does.
    #[default]
    Honest,
    /// It says that it did, and did nothing.
    Omit,
    /// It says that a write is done when it is issued, and does it later.
    Early,
    /// It begins a step before the commits of the NVRAM are durable that were done when that was issued.
    Ahead,
    /// It writes, but leaves in the volatile cache what was to be durable.
    Volatile,
}

/// What is asked before each step is issued.
pub type StepTamper = Box<dyn FnMut(Issue, &Step) -> ExecutorConduct + Send>;
