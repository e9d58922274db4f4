//! The lists of a set, each from the page that was not used for longest to the one that was used last.

use super::{FrameNo, FrameState, FrameTable, ListLinks, WayNo};

/// The lists of a set.
#[derive(Clone, Copy)]
pub(super) enum SetList {
    Clean,
    Stale,
}

/// A place in the lists of a set: a frame, or the end of a list, which is behind the page that was used last and
/// before the one that was not used for longest.
type ListPosition = WayNo;

impl FrameTable {
    /// The end of a list of a set.
    const fn end(&self, list: SetList) -> ListPosition {
        // The ends of the lists are numbered after the frames, so that a list is
        // circular and no link needs a case of its own.
        WayNo::at(self.ways + list as u32)
    }

    fn links(&self, set: u32, place: ListPosition) -> &ListLinks {
        match place.number().checked_sub(self.ways) {
            None => &self.slots[(set * self.ways + place.number()) as usize].links,
            Some(end) => &self.ends[set as usize][end as usize],
        }
    }

    fn links_mut(&mut self, set: u32, place: ListPosition) -> &mut ListLinks {
        match place.number().checked_sub(self.ways) {
            None => &mut self.slots[(set * self.ways + place.number()) as usize].links,
            Some(end) => &mut self.ends[set as usize][end as usize],
        }
    }

    /// The frames of a list of a set, the one that was not used for longest first.
    pub(super) fn of_list(&self, set: u32, list: SetList) -> impl Iterator<Item = FrameNo> {
        let (end, base) = (self.end(list), set * self.ways);
        let mut at = end;
        std::iter::from_fn(move || {
            at = self.links(set, at).newer;
            (at != end).then(|| FrameNo(at.of(base)))
        })
    }

    pub(super) fn victim(&self, set: u32) -> Option<FrameNo> {
        // Pinned frames stay on the list, so that a use needs no relinking; the
        // scan passes them.
        self.of_list(set, SetList::Clean).find(|frame| self.slots[frame.index()].pins == 0)
    }

    /// The frame is the most recently used of its set.
    pub(crate) fn touch(&mut self, frame: FrameNo) {
        let list = match self.slots[frame.index()].state {
            FrameState::Clean => SetList::Clean,
            FrameState::Stale => SetList::Stale,
            FrameState::Free
            | FrameState::Filling
            | FrameState::Landed
            | FrameState::Covered
            | FrameState::Kept
            | FrameState::Doomed
            | FrameState::Leaving
            | FrameState::Trimmed => return,
        };
        self.unlink(frame);
        self.link(frame, list);
    }

    pub(super) fn unlink(&mut self, frame: FrameNo) {
        let (set, ListLinks { newer, older }) = (self.set(frame), self.slots[frame.index()].links);
        self.links_mut(set, newer).older = older;
        self.links_mut(set, older).newer = newer;
    }

    /// The frame is the most recently used one of its list.
    pub(super) fn link(&mut self, frame: FrameNo, list: SetList) {
        // One counter for all sets lets pages of different sets be compared by age;
        // write-back needs that.
        self.uses = self.uses.wrapping_add(1);
        self.slots[frame.index()].used = self.uses;
        self.insert_behind(frame, self.end(list));
    }

    /// A clean frame that is in no list leaves before all others.
    pub(super) fn make_oldest(&mut self, frame: FrameNo) {
        let (set, end) = (self.set(frame), self.end(SetList::Clean));
        let oldest = self.links(set, end).newer;
        self.slots[frame.index()].used = if oldest == end {
            // As long ago as the count can tell.
            // Half the range back: the comparison of wrapping counts still sees it
            // as older than any other.
            self.uses.wrapping_sub(i32::MAX.cast_unsigned())
        } else {
            self.slots[oldest.of(set * self.ways) as usize].used
        };
        self.insert_behind(frame, oldest);
    }

    /// A clean frame that is in no list leaves when it would if it had been in it since it was used last.
    pub(super) fn insert_by_use(&mut self, frame: FrameNo) {
        // A page that was stale keeps the age it had. Cleaning is no use of the
        // page and must not save it from eviction.
        let used = self.slots[frame.index()].used;
        // The count may have begun anew in between.
        let is_older = |other: &FrameNo| self.slots[other.index()].used.wrapping_sub(used).cast_signed() < 0;
        let newer = self.of_list(self.set(frame), SetList::Clean).find(|other| !is_older(other));
        let newer = newer.map_or(self.end(SetList::Clean), |newer| self.way(newer));
        self.insert_behind(frame, newer);
    }

    /// A frame that is in no list is the next older one of a place.
    fn insert_behind(&mut self, frame: FrameNo, newer: ListPosition) {
        let (set, way) = (self.set(frame), self.way(frame));
        let older = std::mem::replace(&mut self.links_mut(set, newer).older, way);
        self.links_mut(set, older).newer = way;
        self.slots[frame.index()].links = ListLinks { newer, older };
    }
}
