//! Which page leaves S3-FIFO under a veto. The search asks about pages in the order in which the scan
//! would meet them as victims, and changes nothing: the scan starts afresh if all are vetoed.

use super::super::{Candidate, Exhausted, Veto};
use super::{MAIN, MOST_USES, S3Fifo, SMALL};

/// The page that may leave.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaver {
    /// As published: the first whose turn has come.
    First,
    /// That of this frame.
    Only(u32),
}

impl Leaver {
    /// Whether it may be the page of this frame, whose turn has come.
    #[inline]
    pub(super) fn may_be(self, frame: u32) -> bool {
        match self {
            Self::First => true,
            Self::Only(wanted) => wanted == frame,
        }
    }
}

impl S3Fifo {
    /// The page that may leave; `None` if every page is vetoed and the access shall bypass, or none is
    /// held.
    #[inline]
    pub(super) fn leaver<V: Veto>(&self, veto: &mut V) -> Option<Leaver> {
        if !V::ACTIVE {
            return Some(Leaver::First);
        }
        if self.queues.held() == 0 {
            return None;
        }
        match self.first_not_vetoed(veto) {
            Some(frame) => Some(Leaver::Only(frame)),
            None => (veto.exhausted() == Exhausted::TakeBase).then_some(Leaver::First),
        }
    }

    /// The first frame that is not vetoed. Of M the scan meets those without uses first, then those that
    /// came from S meanwhile, then those with one use, and so on.
    fn first_not_vetoed<V: Veto>(&self, veto: &mut V) -> Option<u32> {
        let mut welcome = |queue: u32, wanted: &dyn Fn(u16) -> bool| {
            let mut frames = self.queues.oldest_first(queue).filter(|&frame| wanted(self.queues.count(frame)));
            frames.find(|&frame| {
                let own = self.queues.frame(frame);
                veto.passes_over(Candidate::Page { page: own.page(), dirty: own.dirty }).is_none()
            })
        };
        let (stays, goes_on) = (|uses: u16| uses < self.uses, |uses: u16| uses >= self.uses);
        if self.small_first() {
            return welcome(SMALL, &stays)
                .or_else(|| welcome(MAIN, &|uses| uses == 0))
                .or_else(|| welcome(SMALL, &goes_on))
                .or_else(|| (1..=MOST_USES).find_map(|turn| welcome(MAIN, &|uses| uses == turn)));
        }
        (0..=MOST_USES)
            .find_map(|turn| welcome(MAIN, &|uses| uses == turn))
            .or_else(|| welcome(SMALL, &stays))
            .or_else(|| welcome(SMALL, &goes_on))
    }
}
