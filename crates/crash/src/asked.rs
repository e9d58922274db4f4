//! A request of the harness that is not answered.

use std::ops::Range;

use destage_plan::HostOp;

use crate::cell::PAGE_SECTORS;
use crate::model::ModelChange;

/// Describes a request that is not answered, with its time of submission in the model.
pub(crate) struct AskedRequests {
    pub(crate) tag: u64,
    pub(crate) op: HostOp,
    pub(crate) sector: u64,
    pub(crate) sectors: u64,
    pub(crate) fua: bool,
    pub(crate) submitted: u64,
    /// Is true if the request may be answered as failed, since its data may be lost.
    pub(crate) may_fail: bool,
}

impl AskedRequests {
    /// The pages that it is about.
    pub(crate) fn pages(&self) -> Range<u64> {
        self.sector / PAGE_SECTORS..(self.sector + self.sectors).div_ceil(PAGE_SECTORS)
    }

    /// Returns true if it writes, be it zeros.
    pub(crate) const fn writes(&self) -> bool {
        matches!(self.op, HostOp::Write | HostOp::WriteZeroes | HostOp::WriteZeroesUnmap)
    }

    /// Returns the change that the request makes to sectors, if any.
    pub(crate) const fn change(&self) -> Option<ModelChange> {
        match self.op {
            HostOp::Write => Some(ModelChange::Write),
            HostOp::WriteZeroes | HostOp::WriteZeroesUnmap => Some(ModelChange::Zero),
            HostOp::Discard => Some(ModelChange::Discard),
            HostOp::Read | HostOp::Flush => None,
        }
    }
}
