//! The frames of a cache device: set-associative, LRU within a set (specs §9.1). What they hold is known in memory only.

use destage_plan::{Dev, Ext, Row};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// A cache device in front of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// The device.
    pub dev: Dev,
    /// Pages that it caches.
    pub pages: u64,
    /// The most pages of a set. All data pages of a parity row fall into the same set.
    pub ways: u32,
}

impl CacheConfig {
    /// Pages of a set unless told otherwise, as `EnhanceIO` has it.
    pub const WAYS: u32 = 512;

    /// Pages that a cache can have.
    pub const MAX_PAGES: u64 = 1 << 31;
}

/// Why there can be no such cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheConfigError {
    /// No pages, or more than can be told apart.
    #[error("a cache of {0} pages: it must hold between 1 and {max}", max = CacheConfig::MAX_PAGES)]
    Pages(u64),
    /// A device that masks of devices have no bit for.
    #[error("device {0} cannot be a cache: devices are numbered below 64")]
    Device(u8),
    /// Sets of no pages.
    #[error("the sets of a cache must hold at least one page")]
    Ways,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// An operation writes it.
    Filling,
    Valid,
}

/// A frame's number, which is its page on the cache device.
pub(crate) type Frame = u32;

#[derive(Clone, Copy)]
struct Slot {
    page: u64,
    /// Neighbours in the set, towards the most recently used and away from it. The set's end is a slot of its own.
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
    pub(crate) fn new(config: CacheConfig) -> Result<Self, CacheConfigError> {
        if config.pages == 0 || config.pages > CacheConfig::MAX_PAGES {
            return Err(CacheConfigError::Pages(config.pages));
        }
        if config.dev.0 >= 64 {
            return Err(CacheConfigError::Device(config.dev.0));
        }
        if config.ways == 0 {
            return Err(CacheConfigError::Ways);
        }
        // As many sets as it takes, of the same size: fewer pages are left over than there are sets.
        let sets = (config.pages as u32).div_ceil(config.ways);
        let ways = config.pages as u32 / sets;
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
        Ok(Self { dev: config.dev, sets, slots, map: HashMap::default(), life: 0, enabled: true })
    }

    pub(crate) const fn dev(&self) -> Dev {
        self.dev
    }

    pub(crate) const fn is_enabled(&self) -> bool {
        self.enabled
    }

    pub(crate) fn ext(&self, frame: Frame) -> Ext {
        Ext::new(self.dev, u64::from(frame), 1)
    }

    /// The frame with a page's content.
    pub(crate) fn get(&self, page: u64) -> Option<Frame> {
        self.map.get(&page).copied().filter(|frame| self.slots[*frame as usize].state == State::Valid)
    }

    /// Whether a page has a frame, be it that it is still being filled.
    pub(crate) fn contains(&self, page: u64) -> bool {
        self.map.contains_key(&page)
    }

    /// An operation reads the frame; it becomes the most recently used of its set.
    pub(crate) fn pin(&mut self, frame: Frame) {
        self.slots[frame as usize].pins += 1;
        self.touch(frame);
    }

    /// A frame for a page of a row, to be written by an operation: the one that it has, else the least recently used that no operation uses.
    pub(crate) fn fill(&mut self, page: u64, row: Row) -> Option<Frame> {
        if !self.enabled {
            return None;
        }
        let frame = if let Some(frame) = self.map.get(&page) {
            let slot = &self.slots[*frame as usize];
            debug_assert!(slot.state == State::Valid && slot.pins == 0, "the page's claim excludes other users");
            *frame
        } else {
            let frame = self.victim(self.set_of(row))?;
            let slot = &mut self.slots[frame as usize];
            if slot.state == State::Valid {
                self.map.remove(&slot.page);
            }
            slot.page = page;
            self.map.insert(page, frame);
            frame
        };
        let slot = &mut self.slots[frame as usize];
        (slot.state, slot.life) = (State::Filling, self.life);
        self.touch(frame);
        Some(frame)
    }

    /// The operation that used the frame is done with it.
    pub(crate) fn done(&mut self, frame: Frame) {
        let slot = &mut self.slots[frame as usize];
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
        if self.slots[frame as usize].state == State::Filling {
            self.free(frame);
        } else {
            self.done(frame);
        }
    }

    /// A page's content in the cache is no longer what it should be.
    pub(crate) fn drop_page(&mut self, page: u64) {
        if let Some(frame) = self.get(page) {
            debug_assert!(self.slots[frame as usize].pins == 0, "the page's claim excludes other users");
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
            let slot = &self.slots[frame as usize];
            if slot.state == State::Valid && slot.pins == 0 {
                self.free(frame);
            } else {
                // Its operation frees it; until then nobody finds it.
                self.map.remove(&self.slots[frame as usize].page);
            }
        }
    }

    /// A device stands in the lost one's place. It is taken to be empty.
    pub(crate) fn replace(&mut self) {
        self.lose();
        self.enabled = true;
    }

    fn free(&mut self, frame: Frame) {
        let slot = &mut self.slots[frame as usize];
        slot.state = State::Free;
        let page = slot.page;
        // Since a loss the page may have another frame.
        if self.map.get(&page) == Some(&frame) {
            self.map.remove(&page);
        }
        // The end of the list is taken first.
        self.unlink(frame);
        let end = self.end_of(frame);
        let last = self.slots[end as usize].newer;
        self.link(frame, last, end);
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
        self.frames() + frame / (self.frames() / self.sets)
    }

    fn victim(&self, set: u32) -> Option<Frame> {
        let end = self.frames() + set;
        let mut frame = self.slots[end as usize].newer;
        while frame != end {
            let slot = &self.slots[frame as usize];
            if slot.state != State::Filling && slot.pins == 0 {
                return Some(frame);
            }
            frame = slot.newer;
        }
        None
    }

    fn touch(&mut self, frame: Frame) {
        self.unlink(frame);
        let end = self.end_of(frame);
        let first = self.slots[end as usize].older;
        self.link(frame, end, first);
    }

    fn unlink(&mut self, frame: Frame) {
        let Slot { newer, older, .. } = self.slots[frame as usize];
        self.slots[newer as usize].older = older;
        self.slots[older as usize].newer = newer;
    }

    fn link(&mut self, frame: Frame, newer: u32, older: u32) {
        self.slots[newer as usize].older = frame;
        self.slots[older as usize].newer = frame;
        let slot = &mut self.slots[frame as usize];
        (slot.newer, slot.older) = (newer, older);
    }
}
