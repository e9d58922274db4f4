//! Where CLOCK's hand stops under a veto. The search goes around the ring anew each time.

use destage_plan::PageNo;

use super::super::{Candidate, Exhausted, Veto};
use super::Clock;

/// Where the hand stops.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// As published: at the first frame with bit 0.
    First,
    /// At this frame, as soon as its bit is 0.
    At(u32),
}

impl Stop {
    /// Whether it may be here, at a frame with bit 0.
    #[inline]
    pub(super) fn is_at(self, frame: u32) -> bool {
        match self {
            Self::First => true,
            Self::At(wanted) => wanted == frame,
        }
    }
}

impl Clock {
    /// Where the hand stops; `None` if every page is vetoed and the access shall bypass.
    #[inline]
    pub(super) fn where_to_stop<V: Veto>(&self, veto: &mut V) -> Option<Stop> {
        if !V::ACTIVE {
            return Some(Stop::First);
        }
        match self.first_not_vetoed(veto) {
            Some(frame) => Some(Stop::At(frame)),
            None => (veto.exhausted() == Exhausted::TakeBase).then_some(Stop::First),
        }
    }

    /// The first frame that the hand would meet with bit 0 and that is not vetoed: one whose bit is
    /// 0 now or, at its second visit, one whose bit it cleared. Looking changes nothing: the hand
    /// starts afresh if all are vetoed.
    fn first_not_vetoed<V: Veto>(&self, veto: &mut V) -> Option<u32> {
        let (behind, ahead) = self.frames.split_at(self.hand as usize);
        let turn = || (self.hand..).zip(ahead).chain((0..).zip(behind));
        [false, true].into_iter().find_map(|referenced| {
            let mut met = turn().filter(|(_, frame)| frame.referenced == referenced);
            met.find(|(_, frame)| {
                let candidate = Candidate::Page { page: PageNo(frame.page), dirty: frame.dirty };
                frame.held && veto.passes_over(candidate).is_none()
            })
            .map(|(at, _)| at)
        })
    }
}
