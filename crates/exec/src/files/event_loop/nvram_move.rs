//! Keeps how far the NVRAM has left the device that it lies on.

use destage_plan::Issue;

use crate::files::error::FilesError;

/// Says why the NVRAM leaves its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MoveReason {
    /// Has the device replaced, or taken out.
    Ordered,
    /// Reports that something takes too long.
    Hangs,
    /// Reports that an operation of the device failed.
    Failed,
    /// Reports that a sync did, and so what the device has is not what the next start would read.
    Spoiled,
}

/// Reports how far the NVRAM has left its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MovePhase {
    /// Waits for changes that the store has under way.
    Waiting,
    /// Leaves the store, which hangs.
    Abandoned,
    /// Has it in its spare place, which the marks are to say.
    Moved,
}

/// Holds what waits until the NVRAM lies in its spare place.
pub(super) struct NvramMove {
    pub(super) phase: MovePhase,
    pub(super) reason: MoveReason,
    /// Says what failed, as the device's error.
    pub(super) why: Option<FilesError>,
    /// Lists steps of the device that failed.
    pub(super) steps: Vec<Issue>,
    /// Lists changes of the store that are to be made anew, in order.
    pub(super) changes: Vec<Issue>,
}
