//! What stands on the array, and what the array has it do.

use destage_plan::{Buf, Event, OpId, Out, StepSet};

use super::{PageVersions, RaidArray};

/// What has to be done about a write that the array plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteDuty {
    /// The last steps of a write are planned. Whatever else is wanted is appended, then the write
    /// is acknowledged after the steps in `after` and the operation closed.
    Finish {
        /// The operation.
        op: OpId,
        /// When these are done, so is the write.
        after: StepSet,
        /// Of a write smaller than a page: the page as it will be, when the steps in `after` are
        /// done.
        merged: Buf,
    },
    /// A row of a write that is to be [absorbed](super::WriteApproach::Absorbed), or all of one that is to be
    /// [stored](super::TakenPages::Stored), is planned as far as its [pages](RaidArray::absorbed) are concerned,
    /// which are there after these steps. What takes them is planned, now or later, then
    /// [`RaidArray::finish_absorbed`] called.
    Absorb {
        /// The operation.
        op: OpId,
        /// When these are done, the pages are there.
        after: StepSet,
    },
    /// A write whose parity is left alone may be [prepared](super::WriteApproach::Prepared) for: what that takes is
    /// planned, now or later, then [`RaidArray::finish_prepared`] called.
    Prepare {
        /// The operation.
        op: OpId,
        /// When these are done, the intent of its rows is set: nothing has to wait for them but what is
        /// written.
        after: StepSet,
    },
    /// Tells that a write is [split](super::WriteApproach::Split): operations are [opened](RaidArray::open_write_behind) behind it that write
    /// all of its pages, one behind the other. It has no steps, and is closed.
    Split {
        /// The operation.
        op: OpId,
    },
    /// A write cannot be done: more is lost than the level can do without. The operation has no
    /// steps; it is acknowledged as failed, and closed.
    Fail {
        /// The operation.
        op: OpId,
    },
    /// What was appended to a write failed, after the rows were written. The operation is
    /// [given up](Out::give_up).
    Stuck {
        /// The operation.
        op: OpId,
    },
    /// A write has ended.
    Ended {
        /// The operation.
        op: OpId,
    },
}

/// What stands on the array: a host cache, or nothing but the requests' own way.
pub trait ArrayUser {
    /// What knows where versions of pages are.
    fn versions(&mut self) -> &mut dyn PageVersions;
    /// Handles an event that is not the array's own.
    fn event(&mut self, event: Event<'_>, array: &mut RaidArray, out: &mut Out);
    /// Does what has to be done about a write.
    fn duty(&mut self, duty: WriteDuty, array: &mut RaidArray, out: &mut Out);
}
