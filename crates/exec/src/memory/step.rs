//! A step in flight.

use destage_plan::{Issue, Nanos, Step};

use super::conduct::ExecutorConduct;
use crate::bytes::SharedBuffer;

pub(super) struct InFlight {
    pub(super) issue: Issue,
    pub(super) step: Step,
    /// The order of issue.
    pub(super) number: u64,
    pub(super) due: Nanos,
    /// For a flush: the writes that it covers.
    pub(super) covers: u64,
    /// Its device failed since.
    pub(super) lost: bool,
    pub(super) conduct: ExecutorConduct,
    /// The controller was told already; the bytes that are still to be written.
    pub(super) early: Option<SharedBuffer>,
}
