//! Counts the room that sets have for pages that are dirty or will be.

use destage_raid::Geometry;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::dirty::place;
use crate::ssd::frames::FrameTable;

/// Counts the room of sets.
pub(super) struct SetRoom {
    /// Of each set the pages that are dirty, or wanted.
    committed: Vec<u32>,
    ways: u32,
    /// Counts, for each page, the writes that were let in and are not done.
    wanted: HashMap<u64, u32, FixedState>,
    short: Option<(u32, u32)>,
    pub(super) waited: u64,
}

impl SetRoom {
    pub(super) fn new(frames: &FrameTable) -> Self {
        let committed = vec![0; frames.sets() as usize];
        Self { committed, ways: frames.ways(), wanted: HashMap::default(), short: None, waited: 0 }
    }

    pub(super) fn is_wanted(&self, page: u64) -> bool {
        self.wanted.contains_key(&page)
    }

    pub(super) fn is_any_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// A set that a write waits for, and how many of its pages must not be dirty any more.
    pub(super) const fn short(&self) -> Option<(u32, u32)> {
        self.short
    }

    /// No write waits.
    pub(super) const fn is_enough(&mut self) {
        self.short = None;
    }

    /// A write waits for room for so many pages in a set.
    pub(super) fn is_short(&mut self, set: u32, pages: u32) {
        // As many pages must stop being dirty as the write has more than the set
        // has room.
        self.short = Some((set, pages - (self.ways - self.committed[set as usize])));
    }

    /// A page is dirty as a life begins.
    pub(super) fn commit(&mut self, set: u32) {
        self.committed[set as usize] += 1;
    }

    /// Lets a write of a page in that falls into this set, and may be dirty; whether there is room for it.
    pub(super) fn let_in(&mut self, page: u64, set: u32, is_dirty: bool) -> bool {
        // A page that is dirty or wanted has its place in the count already.
        if !is_dirty && !self.is_wanted(page) {
            let committed = &mut self.committed[set as usize];
            if *committed == self.ways {
                return false;
            }
            *committed += 1;
        }
        *self.wanted.entry(page).or_default() += 1;
        true
    }

    /// A write that was let in is done with a page, which may be dirty.
    pub(super) fn leave(&mut self, page: u64, set: u32, is_dirty: bool) {
        let count = self.wanted.get_mut(&page).expect("it was let in");
        *count -= 1;
        if *count == 0 {
            self.wanted.remove(&page);
            // A dirty page keeps its place when the write ends.
            self.committed[set as usize] -= u32::from(!is_dirty);
        }
    }

    /// A page is dirty no more.
    pub(super) fn landed(&mut self, page: u64, set: u32) {
        // A page that another write wants keeps its place too.
        self.committed[set as usize] -= u32::from(!self.is_wanted(page));
    }

    /// Nothing is dirty any more.
    pub(super) fn lose(&mut self, frames: &FrameTable, geometry: &Geometry) {
        // Writes that were let in still come, to be refused or to enter; their
        // places stay.
        self.committed.fill(0);
        for page in self.wanted.keys() {
            self.committed[place(*page, frames, geometry).2 as usize] += 1;
        }
    }
}
