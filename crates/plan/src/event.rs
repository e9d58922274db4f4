//! Lists the events that a controller is told.

use crate::{
    BadPage, Buf, CopyEnd, Dev, DevSet, DeviceChange, FragId, NvHeld, OpId, Rows, ScrubOrder, Sectors, StepNo,
    StepOutcome, StepSet, TimerId,
};

/// Names the requests that a host makes of a block device that destage serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostOp {
    /// Read a range.
    Read,
    /// Write a range.
    Write,
    /// Makes a range read as zeros, with room taken for it (`REQ_NOUNMAP`).
    WriteZeroes,
    /// Makes a range read as zeros; whole stripes may be trimmed where that reads as zeros.
    WriteZeroesUnmap,
    /// The range's content is no longer needed: each page of it keeps its content or reads as
    /// zeros.
    Discard,
    /// Make everything acknowledged so far durable.
    Flush,
}

/// A piece of a host request, as a controller is given it: whole pages inside one stripe, or a part
/// of one page. A discard, or zeros that may be unmapped, can also be several whole stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frag {
    /// Names the fragment until it is acknowledged and its operations are done.
    pub id: FragId,
    /// Names the kind of request.
    pub op: HostOp,
    /// A write that is durable when acknowledged.
    pub fua: bool,
    /// First page of the array's data.
    pub page: u64,
    /// Pages; 1 for a flush.
    pub pages: u16,
    /// The sectors asked for, if not the whole of the (single) page.
    pub sectors: Option<Sectors>,
    /// Numbers the [sequential run](crate::SequentialRuns) that a write goes on with; 0 if none is known.
    pub run: u8,
    /// Tells that it goes on with a run so long that it is to pass the cache by.
    pub bypass: bool,
}

impl Frag {
    /// The host's bytes from a page of the fragment on.
    #[inline]
    pub const fn host(&self, page: u16) -> Buf {
        Buf::Host { frag: self.id, page }
    }
}

/// Describes the remains of an earlier life of the array. There are none of an array of zeros that was just made.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The slots of the NVRAM that are in use.
    pub nv: &'a [NvHeld<'a>],
    /// Rows that may be inconsistent. None after a clean stop.
    pub intents: &'a [Rows],
    /// Devices that do not answer, or are not those of the earlier life.
    pub missing: DevSet,
    /// Devices that say when they collect garbage and can be [asked](crate::Step::Collect) to. What
    /// takes the place of one can do what that could. Others must not be asked.
    pub collectors: DevSet,
    /// Lists the pages that members could not keep in an earlier life, as far as they have that noted. None of them counts as a new
    /// error.
    pub unwritable: &'a [BadPage],
}

/// Summarises the facts that an array's controller relies on and that its members do not note themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Members that are lost or not filled.
    pub unfilled: DevSet,
    /// Is true if pages of the array are lost for good, and known to be.
    pub losses: bool,
}

/// Lists the orders that a controller takes from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Write everything back and leave no intent open, so that the next start is a clean one. Ends
    /// with [`Out::clean`](crate::Out::clean).
    Clean,
    /// Write back now what was acknowledged before this, as before a time in which devices are not
    /// to be disturbed. Requests are served meanwhile. Nothing is flushed by it. Ends with
    /// [`Out::drained`](crate::Out::drained).
    Drain,
    /// Compares rows with each other while requests are served. Each page that does not belong to the others is
    /// [reported](crate::Out::report). Ends with [`Out::scrubbed`](crate::Out::scrubbed); the next order comes after that.
    Scrub(ScrubOrder),
    /// Copies all pages of a member that answers to its successor, a file that takes its place afterwards, while requests are
    /// served. The executor gives the successor whatever is written to the member from now on. Pages that the member cannot
    /// read come from the others. Ends with [`Out::copied`](crate::Out::copied), unless the member is lost before or the order
    /// is [taken back](Self::EndCopy). One member has a successor at a time.
    Copy(Dev),
    /// Tells that there is no successor any more: it has taken the member's place, or it is dropped.
    EndCopy(CopyEnd),
    /// Flushes all devices, and leaves no intent open that can be cleared, as before a member is taken out: rows whose intent is
    /// open may be torn then, and another may have failed that nothing was asked of. Requests are served meanwhile. It has
    /// ended when nothing is under way.
    Settle,
}

/// Tells a controller what has happened. Events come one at a time, in order.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The first event of a life. The controller recovers, then says
    /// [`Out::ready`](crate::Out::ready) or [`Out::refuse`](crate::Out::refuse); fragments come
    /// only after that.
    Start(Start<'a>),
    /// A fragment of a host request.
    Submit(Frag),
    /// The operation's claim holds, or the controller asked for this event
    /// [again](crate::Out::again).
    Granted(OpId),
    /// A step that was to be told of has ended: it is done, or it failed and was
    /// [forgiven](crate::Out::forgive).
    StepDone {
        /// Whose.
        op: OpId,
        /// Names the step.
        step: StepNo,
        /// Tells how the step ended.
        outcome: StepOutcome,
    },
    /// The [first phase](crate::Out::phase) of the operation is done, and the operation is not.
    PhaseDone(OpId),
    /// Steps of the operation failed, those after them are frozen, and nothing of it is in flight
    /// any more. The controller makes a new plan after [`Out::restart`](crate::Out::restart), takes
    /// the steps for done with [`Out::forgive`](crate::Out::forgive), or gives up with
    /// [`Out::abandon`](crate::Out::abandon).
    OpStuck {
        /// Names the operation.
        op: OpId,
        /// The steps that failed.
        failed: StepSet,
        /// The devices that did not do them; none if only [decoding](crate::Step::Decode) failed.
        devs: DevSet,
    },
    /// The operation is closed and all its steps are done. Its claim is given back after this
    /// event.
    OpDone(OpId),
    /// A timer is due.
    Timer(TimerId),
    /// Something happened to a device.
    Device {
        /// Names the device.
        dev: Dev,
        /// Tells what happened to it.
        change: DeviceChange,
    },
    /// A device begins or ends a collection of garbage: what it is asked for meanwhile may wait. Only
    /// [collectors](Start::collectors) need to tell.
    DeviceGc {
        /// Names the device.
        dev: Dev,
        /// The part of it that collects, while the others go on.
        unit: u16,
        /// Is true if the collection begins.
        on: bool,
        /// Blocks that the collection reclaims; 0 if the device does not tell.
        blocks: u32,
    },
    /// A device has come near to where it has to collect.
    DeviceNearGc(Dev),
    /// An order from outside.
    Control(Control),
}
