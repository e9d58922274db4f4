//! Describes a step in flight.

use destage_plan::{Issue, Nanos, Step};

use super::conduct::ExecutorConduct;
use crate::bytes::SharedBuffer;

pub(super) struct InFlight {
    pub(super) issue: Issue,
    pub(super) step: Step,
    /// Numbers the steps in the order of issue.
    pub(super) number: u64,
    pub(super) due: Nanos,
    /// Counts, for a flush, the writes that it covers.
    pub(super) covers: u64,
    /// Is true if its device has failed since.
    pub(super) lost: bool,
    pub(super) conduct: ExecutorConduct,
    /// Holds the bytes that are still to be written after the controller was told that they are.
    pub(super) early: Option<SharedBuffer>,
}
