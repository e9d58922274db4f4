//! The frames of a cache device: set-associative, LRU within a set (specs §9.1). What they hold is
//! known in memory only.

use std::num::NonZeroU32;

use destage_plan::{Dev, Ext, Row};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Pages that a cache can have.
pub(crate) const MAX_PAGES: u64 = 1 << 31;

/// Bytes that a page of a cache takes: its frame, and its entry in a map that may just be growing.
pub(crate) const BYTES_PER_PAGE: u64 = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// An operation writes it.
    Filling,
    Valid,
}

/// A frame's number, which is its page on the cache device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Frame(u32);

impl Frame {
    const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy)]
struct Slot {
    page: u64,
    /// Neighbours in the set, towards the most recently used and away from it. The set's end is a
    /// slot of its own.
    newer: u32,
    older: u32,
    /// Which life of the device the content belongs to.
    life: u32,
    pins: u16,
    state: State,
}

/// Which page is in which frame.
pub(crate) struct Frames {
    dev: Dev,
    sets: u32,
    /// The frames, then the ends of the sets' lists.
    slots: Vec<Slot>,
    map: HashMap<u64, Frame, FixedState>,
    life: u32,
    enabled: bool,
}

impl Frames {
    /// The frames of a device with so many pages, at most [`MAX_PAGES`], in sets of at most `ways`.
    /// All data pages of a parity row fall into the same set.
    pub(crate) fn new(dev: Dev, pages: u64, ways: NonZeroU32) -> Self {
        debug_assert!((1..=MAX_PAGES).contains(&pages), "the registry has checked the size");
        // As many sets as it takes, of the same size: fewer pages are left over than there are
        // sets.
        let sets = (pages as u32).div_ceil(ways.get());
        let ways = pages as u32 / sets;
        let frames = sets * ways;
        let slot = Slot { page: u64::MAX, newer: 0, older: 0, life: 0, pins: 0, state: State::Free };
        let mut slots = vec![slot; frames as usize + sets as usize];
        for set in 0..sets {
            let end = frames + set;
            let mut last = end;
            for frame in set * ways..(set + 1) * ways {
                slots[last as usize].older = frame;
                slots[frame as usize].newer = last;
                last = frame;
            }
            slots[last as usize].older = end;
            slots[end as usize].newer = last;
        }
        Self { dev, sets, slots, map: HashMap::default(), life: 0, enabled: true }
    }

    pub(crate) const fn dev(&self) -> Dev {
        self.dev
    }

    pub(crate) const fn is_enabled(&self) -> bool {
        self.enabled
    }

    pub(crate) fn ext(&self, frame: Frame) -> Ext {
        Ext::new(self.dev, u64::from(frame.0), 1)
    }

    /// The frame with a page's content.
    pub(crate) fn get(&self, page: u64) -> Option<Frame> {
        self.map.get(&page).copied().filter(|frame| self.slots[frame.index()].state == State::Valid)
    }

    /// Whether a page has a frame, be it that it is still being filled.
    pub(crate) fn contains(&self, page: u64) -> bool {
        self.map.contains_key(&page)
    }

    /// An operation reads the frame; it becomes the most recently used of its set.
    pub(crate) fn pin(&mut self, frame: Frame) {
        self.slots[frame.index()].pins += 1;
        self.touch(frame);
    }

    /// A frame for a page of a row, to be written by an operation: the one that it has, else the
    /// least recently used that no operation uses.
    pub(crate) fn fill(&mut self, page: u64, row: Row) -> Option<Frame> {
        if !self.enabled {
            return None;
        }
        let frame = if let Some(frame) = self.map.get(&page) {
            let slot = &self.slots[frame.index()];
            debug_assert!(slot.state == State::Valid && slot.pins == 0, "the page's claim excludes other users");
            *frame
        } else {
            let frame = self.victim(self.set_of(row))?;
            let slot = &mut self.slots[frame.index()];
            if slot.state == State::Valid {
                self.map.remove(&slot.page);
            }
            slot.page = page;
            self.map.insert(page, frame);
            frame
        };
        let slot = &mut self.slots[frame.index()];
        (slot.state, slot.life) = (State::Filling, self.life);
        self.touch(frame);
        Some(frame)
    }

    /// The operation that used the frame is done with it.
    pub(crate) fn done(&mut self, frame: Frame) {
        let slot = &mut self.slots[frame.index()];
        match slot.state {
            State::Filling if slot.life == self.life && self.enabled => slot.state = State::Valid,
            State::Filling => self.free(frame),
            State::Valid | State::Free => {
                slot.pins -= 1;
                if slot.pins == 0 && slot.state == State::Valid && slot.life != self.life {
                    self.free(frame);
                }
            }
        }
    }

    /// The operation that was to fill the frame did not; one that read it is done with it.
    pub(crate) fn undone(&mut self, frame: Frame) {
        if self.slots[frame.index()].state == State::Filling {
            self.free(frame);
        } else {
            self.done(frame);
        }
    }

    /// A page's content in the cache is no longer what it should be.
    pub(crate) fn drop_page(&mut self, page: u64) {
        if let Some(frame) = self.get(page) {
            debug_assert!(self.slots[frame.index()].pins == 0, "the page's claim excludes other users");
            self.free(frame);
        }
    }

    /// The device is lost, with all that it held.
    pub(crate) fn lose(&mut self) {
        if !self.enabled {
            return;
        }
        self.enabled = false;
        self.life += 1;
        // In an order that does not depend on how the map lays them out.
        let mut frames: Vec<Frame> = self.map.values().copied().collect();
        frames.sort_unstable();
        for frame in frames {
            let slot = &self.slots[frame.index()];
            if slot.state == State::Valid && slot.pins == 0 {
                self.free(frame);
            } else {
                // Its operation frees it; until then nobody finds it.
                self.map.remove(&self.slots[frame.index()].page);
            }
        }
    }

    /// A device stands in the lost one's place. It is taken to be empty.
    pub(crate) fn replace(&mut self) {
        self.lose();
        self.enabled = true;
    }

    fn free(&mut self, frame: Frame) {
        let slot = &mut self.slots[frame.index()];
        slot.state = State::Free;
        let page = slot.page;
        // Since a loss the page may have another frame.
        if self.map.get(&page) == Some(&frame) {
            self.map.remove(&page);
        }
        // The end of the list is taken first.
        self.unlink(frame.0);
        let end = self.end_of(frame);
        let last = self.slots[end as usize].newer;
        self.link(frame.0, last, end);
    }

    fn set_of(&self, row: Row) -> u32 {
        // The finaliser of SplitMix64: neighbouring rows go to unrelated sets.
        let mut hash = row.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((hash ^ (hash >> 31)) % u64::from(self.sets)) as u32
    }

    fn frames(&self) -> u32 {
        self.slots.len() as u32 - self.sets
    }

    fn end_of(&self, frame: Frame) -> u32 {
        self.frames() + frame.0 / (self.frames() / self.sets)
    }

    fn victim(&self, set: u32) -> Option<Frame> {
        let end = self.frames() + set;
        let mut frame = self.slots[end as usize].newer;
        while frame != end {
            let slot = &self.slots[frame as usize];
            if slot.state != State::Filling && slot.pins == 0 {
                return Some(Frame(frame));
            }
            frame = slot.newer;
        }
        None
    }

    fn touch(&mut self, frame: Frame) {
        self.unlink(frame.0);
        let end = self.end_of(frame);
        let first = self.slots[end as usize].older;
        self.link(frame.0, end, first);
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        self.slots[newer as usize].older = older;
        self.slots[older as usize].newer = newer;
    }

    fn link(&mut self, slot: u32, newer: u32, older: u32) {
        self.slots[newer as usize].older = slot;
        self.slots[older as usize].newer = slot;
        let slot = &mut self.slots[slot as usize];
        (slot.newer, slot.older) = (newer, older);
    }
}
