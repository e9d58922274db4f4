//! Holds requests in flight, and their completions.

use destage_plan::{HostOp, Nanos};

use crate::buffer::AlignedBuffer;

/// Reports how a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestCompletion {
    /// The request's tag.
    pub tag: u64,
    /// Is true if the request was served. If false, each sector of the range is old or new.
    pub ok: bool,
    /// Of a read that was served: what it read. Else empty: the buffer that came with the request,
    /// to be used again, unless it is in use for something else that the request led to.
    pub bytes: AlignedBuffer,
}

/// A request that is under way.
pub(super) struct InFlightRequest {
    pub(super) tag: u64,
    pub(super) op: HostOp,
    pub(super) fua: bool,
    pub(super) since: Nanos,
    /// Counts the bytes of its buffer.
    pub(super) bytes: u64,
    /// Is true if it has failed though its steps are in flight.
    pub(super) is_expired: bool,
}
