//! Where packed deltas are: of each page of deltas how many are still needed, of each old page where its
//! delta lies (DEZ, specs §9.3).

use super::super::frames::{Frame, Frames};

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

/// The zone.
pub(super) struct Zone {
    /// By the frame with the old page.
    places: Vec<Entry>,
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
        Self { places: vec![NOWHERE; count], valid: vec![0; count], of_set, pages: 0 }
    }

    /// Pages of deltas.
    pub(super) const fn pages(&self) -> u32 {
        self.pages
    }

    /// Of each set the pages of deltas.
    pub(super) fn of_sets(&self) -> &[u32] {
        &self.of_set
    }

    /// Where the delta of an old page is.
    pub(super) fn get(&self, base: Frame) -> Option<Packed> {
        let entry = self.places[base.index()];
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

    /// The delta of an old page lies there.
    pub(super) fn put(&mut self, base: Frame, packed: Packed) {
        let (offset, len) = (packed.offset as u16, (packed.len - 1) as u16);
        self.places[base.index()] = Entry { page: packed.page.number(), offset, len };
        self.valid[packed.page.index()] += 1;
    }

    /// Whether nothing of a page of deltas is needed.
    pub(super) fn is_unused(&self, page: Frame) -> bool {
        self.valid[page.index()] == 0
    }

    /// The delta of an old page is not needed any more.
    pub(super) fn drop_delta(&mut self, base: Frame, frames: &mut Frames) {
        let Some(packed) = self.get(base) else { return };
        self.places[base.index()] = NOWHERE;
        self.valid[packed.page.index()] -= 1;
        if self.is_unused(packed.page) {
            self.give(packed.page, frames);
        }
    }

    /// The device is lost. What is being written is given back by its operation.
    pub(super) fn lose(&mut self, frames: &mut Frames) {
        for index in 0..self.places.len() {
            self.drop_delta(Frame::new(index as u32), frames);
        }
    }
}
