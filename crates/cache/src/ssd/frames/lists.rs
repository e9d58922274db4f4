//! The lists of a set, each from the page that was not used for longest to the one that was used last.

use super::{Frame, Frames, Slot, State};

/// The lists of a set.
#[derive(Clone, Copy)]
pub(super) enum List {
    Clean,
    Stale,
}

impl Frames {
    pub(super) fn end(&self, set: u32, list: List) -> u32 {
        self.len() + 2 * set + list as u32
    }

    pub(super) fn end_of(&self, frame: Frame, list: List) -> u32 {
        self.end(frame.0 / self.ways, list)
    }

    pub(super) fn victim(&self, set: u32) -> Option<Frame> {
        let end = self.end(set, List::Clean);
        let mut frame = self.slots[end as usize].newer;
        while frame != end {
            let slot = &self.slots[frame as usize];
            if slot.pins == 0 {
                return Some(Frame(frame));
            }
            frame = slot.newer;
        }
        None
    }

    /// The frame is the most recently used of its set.
    pub(crate) fn touch(&mut self, frame: Frame) {
        let list = match self.slots[frame.index()].state {
            State::Clean => List::Clean,
            State::Stale => List::Stale,
            State::Free
            | State::Filling
            | State::Landed
            | State::Covered
            | State::Kept
            | State::Doomed
            | State::Leaving
            | State::Trimmed => return,
        };
        self.unlink(frame.0);
        self.link(frame, list);
    }

    pub(super) fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        self.slots[newer as usize].older = older;
        self.slots[older as usize].newer = newer;
    }

    /// The frame is the most recently used one of its list.
    pub(super) fn link(&mut self, frame: Frame, list: List) {
        let end = self.end_of(frame, list);
        let first = self.slots[end as usize].older;
        self.uses = self.uses.wrapping_add(1);
        self.slots[frame.index()].used = self.uses;
        self.insert_between(frame.0, end, first);
    }

    /// A clean frame that is in no list leaves before all others.
    pub(super) fn make_oldest(&mut self, frame: Frame) {
        let end = self.end_of(frame, List::Clean);
        let oldest = self.slots[end as usize].newer;
        self.slots[frame.index()].used = self.slots[oldest as usize].used;
        self.insert_between(frame.0, oldest, end);
    }

    pub(super) fn insert_between(&mut self, slot: u32, newer: u32, older: u32) {
        self.slots[newer as usize].older = slot;
        self.slots[older as usize].newer = slot;
        let slot = &mut self.slots[slot as usize];
        (slot.newer, slot.older) = (newer, older);
    }
}
