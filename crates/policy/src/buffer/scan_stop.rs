//! Stops a scan that changes the frames it meets, under a veto. The policy first looks for a frame that may
//! leave, in the scan's order; then the scan goes on to that frame.

use super::{EvictionVeto, WhenExhausted};

/// The frame at which a scan may stop.
#[derive(Clone, Copy, Debug)]
pub(super) enum ScanStop {
    /// As published: the first whose turn has come.
    First,
    /// This one, as soon as its turn has come.
    At(u32),
}

impl ScanStop {
    /// Returns where the scan may stop, `first_allowed` being the first frame that the veto does not
    /// pass over; `None` if every page is vetoed and the access shall bypass.
    #[inline]
    pub(super) fn choose<V: EvictionVeto>(
        veto: &mut V,
        first_allowed: impl FnOnce(&mut V) -> Option<u32>,
    ) -> Option<Self> {
        if !V::ACTIVE {
            return Some(Self::First);
        }
        match first_allowed(veto) {
            Some(frame) => Some(Self::At(frame)),
            None => (veto.exhausted() == WhenExhausted::TakeBase).then_some(Self::First),
        }
    }

    /// Returns true if the scan may stop at a frame whose turn has come.
    #[inline]
    pub(super) fn is_at(self, frame: u32) -> bool {
        match self {
            Self::First => true,
            Self::At(wanted) => wanted == frame,
        }
    }
}
