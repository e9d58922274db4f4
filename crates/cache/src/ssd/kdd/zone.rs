//! Where packed deltas are: of each page of deltas how many are still needed, of each old page where its
//! delta lies (DEZ, specs §9.3). Of a page that the cache has a delta of and nothing else it is known how
//! often it has been written.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::super::frames::{Frame, Frames};
use super::Key;

/// The place of a delta in a page of deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) page: Frame,
    pub(super) offset: u32,
    pub(super) len: u32,
}

/// The place in eight bytes.
#[derive(Clone, Copy)]
struct Entry {
    page: u32,
    offset: u16,
    /// Less one: a delta may be as long as a page.
    len: u16,
}

const NOWHERE: Entry = Entry { page: u32::MAX, offset: 0, len: 0 };

/// A page of which the cache has a delta and nothing else.
#[derive(Clone, Copy)]
struct Bare {
    /// Where the delta is packed, if it is.
    place: Entry,
    /// Writes of the page since it came.
    writes: u32,
    /// The last of them is done: until then the member may hold any part of it.
    written: bool,
}

/// The zone.
pub(super) struct Zone {
    /// By the frame with the old page.
    places: Vec<Entry>,
    /// By page.
    bare: HashMap<u64, Bare, FixedState>,
    /// Of each page of deltas those that are needed.
    valid: Vec<u16>,
    /// Of each set the pages of deltas.
    of_set: Vec<u32>,
    pages: u32,
}

impl Zone {
    pub(super) fn new(frames: &Frames) -> Self {
        let count = frames.len() as usize;
        let of_set = vec![0; frames.sets() as usize];
        let (places, valid, bare) = (vec![NOWHERE; count], vec![0; count], HashMap::default());
        Self { places, bare, valid, of_set, pages: 0 }
    }

    /// Pages of deltas.
    pub(super) const fn pages(&self) -> u32 {
        self.pages
    }

    /// Of each set the pages of deltas.
    pub(super) fn of_sets(&self) -> &[u32] {
        &self.of_set
    }

    /// Pages of which there is nothing but a delta.
    pub(super) fn bare(&self) -> usize {
        self.bare.len()
    }

    /// How often a page has been written of which there is nothing but a delta; not at all if there is none.
    pub(super) fn writes(&self, page: u64) -> u32 {
        self.bare.get(&page).map_or(0, |bare| bare.writes)
    }

    /// A page is being written, and there is nothing of it but a delta.
    pub(super) fn is_bare(&mut self, page: u64, writes: u32) {
        let bare = self.bare.entry(page).or_insert(Bare { place: NOWHERE, writes, written: false });
        (bare.writes, bare.written) = (writes, false);
    }

    /// A page of which there is nothing but a delta is written.
    pub(super) fn written(&mut self, page: u64) {
        self.bare.get_mut(&page).into_iter().for_each(|bare| bare.written = true);
    }

    /// Whether there is nothing of a page but a delta, and the page is written.
    pub(super) fn is_written(&self, page: u64) -> bool {
        self.bare.get(&page).is_some_and(|bare| bare.written)
    }

    /// Of a page there is no delta any more, or its base is there, too.
    pub(super) fn is_not_bare(&mut self, page: u64) {
        let bare = self.bare.remove(&page);
        debug_assert!(bare.is_none_or(|bare| bare.place.page == NOWHERE.page), "its delta was dropped");
    }

    fn entry(&mut self, key: Key) -> Option<&mut Entry> {
        match key {
            Key::Frame(base) => Some(&mut self.places[base.index()]),
            Key::Page(page) => self.bare.get_mut(&page).map(|bare| &mut bare.place),
        }
    }

    /// Where a delta is.
    pub(super) fn get(&self, key: Key) -> Option<Packed> {
        let entry = match key {
            Key::Frame(base) => self.places[base.index()],
            Key::Page(page) => self.bare.get(&page)?.place,
        };
        let packed =
            Packed { page: Frame::new(entry.page), offset: entry.offset.into(), len: u32::from(entry.len) + 1 };
        (entry.page != NOWHERE.page).then_some(packed)
    }

    /// A frame for a page of deltas: in the set that has fewest of them and can spare one.
    pub(super) fn take(&mut self, frames: &mut Frames) -> Option<Frame> {
        let mut best: Option<u32> = None;
        for (set, count) in (0..).zip(&self.of_set) {
            let fewer = best.is_none_or(|best| *count < self.of_set[best as usize]);
            if fewer && frames.can_spare(set) {
                best = Some(set);
            }
        }
        let set = best?;
        let frame = frames.take_in(set)?;
        self.of_set[set as usize] += 1;
        self.pages += 1;
        Some(frame)
    }

    /// A page of deltas is not needed any more, or was not written.
    pub(super) fn give(&mut self, page: Frame, frames: &mut Frames) {
        self.of_set[frames.set(page) as usize] -= 1;
        self.pages -= 1;
        frames.discard(page);
    }

    /// A delta lies there.
    pub(super) fn put(&mut self, key: Key, packed: Packed) {
        self.restore(key, packed);
        self.valid[packed.page.index()] += 1;
    }

    /// Whether nothing of a page of deltas is needed.
    pub(super) fn is_unused(&self, page: Frame) -> bool {
        self.valid[page.index()] == 0
    }

    /// A delta is not needed any more.
    pub(super) fn drop_delta(&mut self, key: Key, frames: &mut Frames) {
        if let Some(packed) = self.part(key) {
            self.release(packed, frames);
        }
    }

    /// A delta is not found any more, and stays where it is until it is [released](Self::release).
    pub(super) fn part(&mut self, key: Key) -> Option<Packed> {
        let packed = self.get(key)?;
        *self.entry(key).expect("it was just found") = NOWHERE;
        Some(packed)
    }

    /// A delta that was [parted](Self::part) with is found again.
    pub(super) fn restore(&mut self, key: Key, packed: Packed) {
        let (offset, len) = (packed.offset as u16, (packed.len - 1) as u16);
        let entry = self.entry(key).expect("a page with nothing but a delta is known");
        *entry = Entry { page: packed.page.number(), offset, len };
    }

    /// A delta that nobody finds is not needed any more.
    pub(super) fn release(&mut self, packed: Packed, frames: &mut Frames) {
        self.valid[packed.page.index()] -= 1;
        if self.is_unused(packed.page) {
            self.give(packed.page, frames);
        }
    }

    /// The device is lost. What is being written is given back by its operation.
    pub(super) fn lose(&mut self, frames: &mut Frames) {
        for index in 0..self.places.len() {
            self.drop_delta(Key::Frame(Frame::new(index as u32)), frames);
        }
        let mut pages: Vec<u64> = self.bare.keys().copied().collect();
        // In an order that does not depend on how the table lays them out.
        pages.sort_unstable();
        for page in pages {
            self.drop_delta(Key::Page(page), frames);
            self.is_not_bare(page);
        }
    }
}
