//! Maps packed deltas (DEZ, specs §9.3).
//!
//! It counts the deltas in each page of deltas that are still needed, and finds the delta of each old page. For
//! pages of which the cache has only a delta it counts the writes.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::super::frames::{FrameNo, FrameTable};
use super::DeltaKey;

/// The place of a delta in a page of deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedDelta {
    pub(super) page: FrameNo,
    pub(super) offset: u32,
    pub(super) len: u32,
}

/// The place in eight bytes.
#[derive(Clone, Copy)]
struct ZoneEntry {
    page: u32,
    offset: u16,
    /// Less one: a delta may be as long as a page.
    len: u16,
}

/// Bytes for each page of the cache.
pub(super) const BYTES_PER_PAGE: u64 = 10;

/// Bytes for each page of the cache that it takes that the parity may cover what is made with a delta.
pub(super) const BYTES_MADE: u64 = 10;

// No frame has this number: a cache has at most 2^31.
const NOWHERE: ZoneEntry = ZoneEntry { page: u32::MAX, offset: 0, len: 0 };

/// A page of which the cache has a delta and nothing else.
#[derive(Clone, Copy)]
struct DeltaOnlyPage {
    /// Is the place of the delta, if it is packed.
    place: ZoneEntry,
    /// Writes of the page since it came.
    writes: u32,
    /// The last of them is done: until then the member may hold any part of it.
    written: bool,
}

/// The zone.
pub(super) struct DeltaZone {
    /// By the frame with the old page.
    places: Vec<ZoneEntry>,
    /// By frame, where the delta is with which what the parity covers is made of what is there, if pages are kept so.
    covered: Vec<ZoneEntry>,
    /// By page.
    bare: HashMap<u64, DeltaOnlyPage, FixedState>,
    /// Of each page of deltas those that are needed, and those of them whose pages the parity does not cover yet.
    valid: Vec<u16>,
    late: Vec<u16>,
    /// Of each set the pages of deltas.
    of_set: Vec<u32>,
    pages: u32,
    /// Those that cleaning may free: all but those of whose deltas the parity covers all pages.
    owed_of_set: Vec<u32>,
    owed: u32,
    /// The page that deltas are being packed into, if the parity covers all their pages.
    settled: Option<FrameNo>,
    /// Frames of a set.
    ways: u32,
}

impl DeltaZone {
    /// For these frames; whether the parity may cover what is made with a delta.
    pub(super) fn new(frames: &FrameTable, makes: bool) -> Self {
        let count = frames.len() as usize;
        let of_set = vec![0; frames.sets() as usize];
        Self {
            places: vec![NOWHERE; count],
            // Only where the parity may cover made pages; other caches save the
            // memory.
            covered: vec![NOWHERE; if makes { count } else { 0 }],
            bare: HashMap::default(),
            valid: vec![0; count],
            late: vec![0; if makes { count } else { 0 }],
            owed_of_set: of_set.clone(),
            of_set,
            pages: 0,
            owed: 0,
            settled: None,
            ways: frames.ways(),
        }
    }

    /// Returns true if the parity may cover pages that are made with a delta.
    pub(super) const fn makes(&self) -> bool {
        !self.covered.is_empty()
    }

    /// Pages of deltas.
    pub(super) const fn pages(&self) -> u32 {
        self.pages
    }

    /// Pages of deltas that cleaning may free.
    pub(super) const fn owed(&self) -> u32 {
        self.owed
    }

    /// Of each set these pages.
    pub(super) fn owed_of_sets(&self) -> &[u32] {
        &self.owed_of_set
    }

    /// Pages of which there is nothing but a delta.
    pub(super) fn bare(&self) -> usize {
        self.bare.len()
    }

    /// Returns how often a page with only a delta has been written; 0 if there is none.
    pub(super) fn writes(&self, page: u64) -> u32 {
        self.bare.get(&page).map_or(0, |bare| bare.writes)
    }

    /// A page is being written, and there is nothing of it but a delta.
    pub(super) fn is_bare(&mut self, page: u64, writes: u32) {
        let bare = self.bare.entry(page).or_insert(DeltaOnlyPage { place: NOWHERE, writes, written: false });
        (bare.writes, bare.written) = (writes, false);
    }

    /// Notes that a page is on its member of which the zone has nothing but a delta, or nothing at all.
    pub(super) fn written(&mut self, page: u64) {
        self.bare.get_mut(&page).into_iter().for_each(|bare| bare.written = true);
    }

    /// Returns true if the page has only a delta and is on its member.
    pub(super) fn is_written(&self, page: u64) -> bool {
        self.bare.get(&page).is_some_and(|bare| bare.written)
    }

    /// Of a page there is no delta any more, or its base is there, too.
    pub(super) fn is_not_bare(&mut self, page: u64) {
        let bare = self.bare.remove(&page);
        debug_assert!(bare.is_none_or(|bare| bare.place.page == NOWHERE.page), "its delta was dropped");
    }

    fn entry(&mut self, key: DeltaKey) -> Option<&mut ZoneEntry> {
        match key {
            DeltaKey::Frame(base) => Some(&mut self.places[base.index()]),
            DeltaKey::Covered(base) => self.covered.get_mut(base.index()),
            DeltaKey::Page(page) => self.bare.get_mut(&page).map(|bare| &mut bare.place),
        }
    }

    /// Returns the place of a packed delta.
    pub(super) fn get(&self, key: DeltaKey) -> Option<PackedDelta> {
        let entry = match key {
            DeltaKey::Frame(base) => self.places[base.index()],
            DeltaKey::Covered(base) => *self.covered.get(base.index())?,
            DeltaKey::Page(page) => self.bare.get(&page)?.place,
        };
        let packed =
            PackedDelta { page: FrameNo::new(entry.page), offset: entry.offset.into(), len: u32::from(entry.len) + 1 };
        (entry.page != NOWHERE.page).then_some(packed)
    }

    /// A frame for a page of deltas: in the set that has fewest of them and can spare one.
    // Pages of deltas are spread over the sets. A set full of them could hold no
    // pages of its own.
    pub(super) fn take(&mut self, frames: &mut FrameTable) -> Option<FrameNo> {
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
        self.owed_of_set[set as usize] += 1;
        (self.pages, self.owed) = (self.pages + 1, self.owed + 1);
        Some(frame)
    }

    /// A page of deltas is not needed any more, or was not written.
    pub(super) fn give(&mut self, page: FrameNo, frames: &mut FrameTable) {
        let set = frames.set(page) as usize;
        self.of_set[set] -= 1;
        self.owed_of_set[set] -= 1;
        (self.pages, self.owed) = (self.pages - 1, self.owed - 1);
        frames.discard(page);
    }

    /// A delta lies there.
    pub(super) fn put(&mut self, key: DeltaKey, packed: PackedDelta) {
        self.restore(key, packed);
        self.recount(packed.page, 1, i16::from(!matches!(key, DeltaKey::Covered(_))));
    }

    /// The parity covers from now on what is made with a delta.
    pub(super) fn cover(&mut self, base: FrameNo) {
        // The delta stays where it is and changes its meaning only, so nothing is
        // written.
        if let Some(packed) = self.part(DeltaKey::Frame(base)) {
            self.restore(DeltaKey::Covered(base), packed);
            self.recount(packed.page, 0, -1);
        }
    }

    /// So many more deltas of a page are needed, and so many more of these are late.
    fn recount(&mut self, page: FrameNo, valid: i16, late: i16) {
        self.change(page, |zone| {
            let index = page.index();
            // `wrapping_add_signed` takes a delta both ways; the counts never wrap,
            // since each delta is counted once.
            zone.valid[index] = zone.valid[index].wrapping_add_signed(valid);
            if let Some(all) = zone.late.get_mut(index) {
                *all = all.wrapping_add_signed(late);
            }
        });
    }

    /// Deltas are being packed into a page, and the parity covers all their pages; or that is done.
    pub(super) fn settle(&mut self, page: FrameNo, settled: bool) {
        self.change(page, |zone| zone.settled = settled.then_some(page));
    }

    fn change(&mut self, page: FrameNo, how: impl FnOnce(&mut Self)) {
        let was_owed = self.is_owed(page);
        how(self);
        let (is_owed, set) = (self.is_owed(page), (page.number() / self.ways) as usize);
        self.owed = self.owed + u32::from(is_owed) - u32::from(was_owed);
        self.owed_of_set[set] = self.owed_of_set[set] + u32::from(is_owed) - u32::from(was_owed);
    }

    /// Returns true if cleaning may free a page of deltas.
    fn is_owed(&self, page: FrameNo) -> bool {
        // Without the count of late deltas every page of deltas is reclaimable:
        // cleaning makes all of its deltas useless.
        let late = || self.late.get(page.index()).is_none_or(|late| *late > 0);
        late() || self.is_unused(page) && self.settled != Some(page)
    }

    /// Returns true if nothing in a page of deltas is needed.
    pub(super) fn is_unused(&self, page: FrameNo) -> bool {
        self.valid[page.index()] == 0
    }

    /// A delta is not needed any more.
    pub(super) fn drop_delta(&mut self, key: DeltaKey, frames: &mut FrameTable) {
        if let Some(packed) = self.part(key) {
            self.release_of(packed, i16::from(!matches!(key, DeltaKey::Covered(_))), frames);
        }
    }

    /// A delta is not found any more, and stays where it is until it is [released](Self::release).
    pub(super) fn part(&mut self, key: DeltaKey) -> Option<PackedDelta> {
        let packed = self.get(key)?;
        *self.entry(key).expect("it was just found") = NOWHERE;
        Some(packed)
    }

    /// A delta that was [parted](Self::part) with is found again.
    pub(super) fn restore(&mut self, key: DeltaKey, packed: PackedDelta) {
        let (offset, len) = (packed.offset as u16, (packed.len - 1) as u16);
        let entry = self.entry(key).expect("a page with nothing but a delta is known");
        *entry = ZoneEntry { page: packed.page.number(), offset, len };
    }

    /// A delta that nobody finds, and whose page the parity does not cover, is not needed any more.
    pub(super) fn release(&mut self, packed: PackedDelta, frames: &mut FrameTable) {
        self.release_of(packed, 1, frames);
    }

    fn release_of(&mut self, packed: PackedDelta, late: i16, frames: &mut FrameTable) {
        self.recount(packed.page, -1, -late);
        // A page of deltas is freed by its last delta; there is no collector that
        // moves live ones.
        if self.is_unused(packed.page) {
            self.give(packed.page, frames);
        }
    }

    /// The device is lost. What is being written is given back by its operation.
    pub(super) fn lose(&mut self, frames: &mut FrameTable) {
        for index in 0..self.places.len() {
            self.drop_delta(DeltaKey::Frame(FrameNo::new(index as u32)), frames);
            self.drop_delta(DeltaKey::Covered(FrameNo::new(index as u32)), frames);
        }
        let mut pages: Vec<u64> = self.bare.keys().copied().collect();
        // In an order that does not depend on how the table lays them out.
        pages.sort_unstable();
        for page in pages {
            self.drop_delta(DeltaKey::Page(page), frames);
            self.is_not_bare(page);
        }
    }
}
