//! Finds the frame of a set that holds a page.
//!
//! Each set has hash chains within itself. Two bytes a frame link to the next frame of its chain, and two bytes
//! a chain name its first frame.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use super::WayNo;

/// The chains of all sets.
pub(super) struct FrameIndex {
    /// Frames of a set, and chains.
    ways: u32,
    hasher: FixedState,
    /// By set and chain.
    first: Vec<WayNo>,
    /// By frame.
    next: Vec<WayNo>,
}

impl FrameIndex {
    /// For so many frames in sets of so many, none of which is found.
    pub(super) fn new(frames: u32, ways: u32) -> Self {
        let none = vec![WayNo::NONE; frames as usize];
        Self { ways, hasher: FixedState::default(), first: none.clone(), next: none }
    }

    fn chain(&self, base: u32, page: u64) -> usize {
        // The high half of the hash picks the chain by multiplication, which costs
        // no division and works for any number of ways.
        let hash = self.hasher.hash_one(page) >> 32;
        base as usize + ((hash * u64::from(self.ways)) >> 32) as usize
    }

    /// The frame of the set whose first frame is `base` that has a page, of those that are found by it.
    #[inline]
    pub(super) fn find(&self, base: u32, page: u64, has: impl Fn(u32) -> bool) -> Option<u32> {
        let mut way = self.first[self.chain(base, page)];
        while way != WayNo::NONE {
            let frame = way.of(base);
            if has(frame) {
                return Some(frame);
            }
            way = self.next[frame as usize];
        }
        None
    }

    /// A page is found by a frame from now on, which is not found by another.
    pub(super) fn insert(&mut self, base: u32, page: u64, frame: u32) {
        let chain = self.chain(base, page);
        self.next[frame as usize] = std::mem::replace(&mut self.first[chain], WayNo::new(base, frame));
    }

    /// A page is not found by a frame any more, if it was.
    pub(super) fn remove(&mut self, base: u32, page: u64, frame: u32) {
        let (chain, gone) = (self.chain(base, page), WayNo::new(base, frame));
        // A frame that is not in its chain is ignored: after a device loss the
        // chains are cleared while operations still hold frames.
        let behind = self.next[frame as usize];
        if self.first[chain] == gone {
            self.first[chain] = behind;
            return;
        }
        let mut way = self.first[chain];
        while way != WayNo::NONE {
            let at = way.of(base) as usize;
            way = self.next[at];
            if way == gone {
                self.next[at] = behind;
            }
        }
    }

    /// No page is found any more.
    pub(super) fn clear(&mut self) {
        // Links of frames are left as they are: nothing reaches them any more, and
        // an insert overwrites its own.
        self.first.fill(WayNo::NONE);
    }
}
