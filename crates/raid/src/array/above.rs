//! Defines the user of an array, such as a host cache, and the duties that the array gives it.

use destage_plan::{Buf, Event, OpId, Out, StepSet};

use super::{PageVersions, RaidArray};

/// Lists the duties of the array's user about a write that the array plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteDuty {
    /// The last steps of a write are planned. Whatever else is wanted is appended, then the write
    /// is acknowledged after the steps in `after` and the operation closed.
    Finish {
        /// The operation.
        op: OpId,
        /// Completes the write, when these steps are done.
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
        /// Makes the pages available, when these steps are done.
        after: StepSet,
    },
    /// A write whose parity is left alone may be [prepared](super::WriteApproach::Prepared) for: what that takes is
    /// planned, now or later, then [`RaidArray::finish_prepared`] called.
    Prepare {
        /// The operation.
        op: OpId,
        /// Sets the intent of the write's rows, when these steps are done. Only the writes to members have to
        /// wait for them.
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
    /// Reports that a step appended to a write failed, after the rows were written. The operation is [given
    /// up](Out::give_up).
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

/// Uses the array: a host cache, or no more than the requests' own way.
pub trait ArrayUser {
    /// Returns the owner of pages' versions, who knows where they are.
    fn versions(&mut self) -> &mut dyn PageVersions;
    /// Handles an event that is not the array's own.
    fn event(&mut self, event: Event<'_>, array: &mut RaidArray, out: &mut Out);
    /// Does what has to be done about a write.
    fn duty(&mut self, duty: WriteDuty, array: &mut RaidArray, out: &mut Out);
}
