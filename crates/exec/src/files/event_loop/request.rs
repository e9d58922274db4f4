//! Requests that are in flight, and what became of them.

use destage_plan::{HostOp, Nanos};

use crate::buffer::AlignedBuffer;

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestCompletion {
    /// The request's tag.
    pub tag: u64,
    /// Whether it was served; if not, nothing is known of the range's content beyond its being old
    /// or new sector by sector.
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
    /// Tells that it has failed though its steps are in flight.
    pub(super) is_expired: bool,
}
