//! The frames of a cache device: set-associative, LRU within a set (specs §9.1). What they hold is
//! known in memory, and told to the metadata log if one is kept ([`logged`]).
//!
//! A page that the cache has is found by the frame with its newest version. If the parity of its row
//! does not cover that version, the one that it covers is in the frame's *partner*, and the two are one
//! page: they are used and freed together, and evicted never (`LeavO`, specs §9.2).

mod dirty;
mod index;
mod lists;
mod logged;
mod stale;
mod trims;

use destage_plan::{Dev, Ext, PageChecksum, PageChecksums, Row};
use destage_raid::Geometry;

pub(crate) use dirty::DirtyCause;
use index::FrameIndex;
use lists::SetList;
pub(crate) use logged::FilledFrame;
use logged::{LoggedState, UnreportedFills};

/// Pages that a cache can have.
pub(crate) const MAX_PAGES: u64 = 1 << 31;

/// Frames that a set can have: their numbers and those of the ends of its lists take two bytes.
pub(crate) const MAX_WAYS: u32 = 1 << 15;

/// Pages that an array in front of which a cache stands can have, as many as its log can name.
pub(crate) const MAX_ARRAY_PAGES: u64 = crate::ssd::log::MAX_ARRAY_PAGES;

const _: () = assert!(MAX_ARRAY_PAGES < 1 << 40, "its number takes five bytes");

/// Bytes that a page of a cache takes: its frame, where it is found, and its checksum.
pub(crate) const BYTES_PER_PAGE: u64 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameState {
    Free,
    /// An operation writes it.
    Filling,
    /// The newest version of a page, which the parity covers.
    Clean,
    /// The newest version of a page, or none is newer in the cache, and the parity covers another. It is
    /// *dirty* if its member has not got it either.
    Stale,
    /// A page that was dirty, and is written back; clean as soon as the log says so.
    Landed,
    /// Holds the version that the parity covers of a page whose newest version is in the partner.
    Covered,
    /// Something else than a page.
    Kept,
    /// Free as soon as no operation uses it.
    Doomed,
    /// Free as soon as the log says so.
    Leaving,
    /// Free as soon as the device is told that it is.
    Trimmed,
}

/// A frame's number, which is its page on the cache device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FrameNo(u32);

impl FrameNo {
    pub(super) const fn new(number: u32) -> Self {
        Self(number)
    }

    pub(super) const fn number(self) -> u32 {
        self.0
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a frame in its set, or of the end of a list of the set.
#[derive(Clone, Copy, PartialEq, Eq)]
struct WayNo(u16);

impl WayNo {
    const NONE: Self = Self(u16::MAX);

    const fn at(number: u32) -> Self {
        Self(number as u16)
    }

    /// Of a frame in the set whose first is `base`.
    const fn new(base: u32, frame: u32) -> Self {
        Self::at(frame - base)
    }

    const fn number(self) -> u32 {
        self.0 as u32
    }

    /// The frame, in the set whose first is `base`.
    const fn of(self, base: u32) -> u32 {
        base + self.number()
    }
}

/// Neighbours in a list, towards the most recently used and away from it.
#[derive(Clone, Copy)]
struct ListLinks {
    newer: WayNo,
    older: WayNo,
}

/// The number of a page, or that there is none.
#[derive(Clone, Copy)]
// Five bytes instead of eight keep `FrameSlot` at 24 bytes, which a cache holds for
// each of its pages.
struct PageNumber([u8; 5]);

impl PageNumber {
    // The largest number is no page: the cache refuses arrays that would need it.
    const NONE: Self = Self::new(MAX_ARRAY_PAGES);

    const fn new(page: u64) -> Self {
        Self(*page.to_le_bytes().first_chunk().expect("eight bytes are more than five"))
    }

    #[inline]
    fn get(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..5].copy_from_slice(&self.0);
        u64::from_le_bytes(bytes)
    }
}

#[derive(Clone, Copy)]
struct FrameSlot {
    page: PageNumber,
    state: FrameState,
    logged: LoggedState,
    links: ListLinks,
    partner: WayNo,
    pins: u16,
    /// The count of fills when it was filled last.
    fill: u32,
    /// Is the count of uses when it was used last.
    used: u32,
}

const _: () = assert!(size_of::<FrameSlot>() == 24);

/// Maps pages to frames.
pub(crate) struct FrameTable {
    dev: Dev,
    /// The first page of the device that is a frame.
    first: u64,
    sets: u32,
    /// Frames of a set.
    ways: u32,
    slots: Vec<FrameSlot>,
    /// Of each set those of its lists.
    ends: Vec<[ListLinks; 2]>,
    /// A bit for each frame that is free.
    free: Vec<u64>,
    index: FrameIndex,
    geometry: Geometry,
    /// Frames that operations began to fill so far, modulo 2^32, and how many when the device was lost last.
    fills: u32,
    lost: u32,
    enabled: bool,
    /// Frames with versions of pages that the parity is behind of.
    stale: u32,
    /// Holds the facts about frames that are not logged yet, if there is a log.
    untold: Option<UnreportedFills>,
    /// Uses of frames so far, modulo 2^32.
    uses: u32,
    /// The last set in which a frame was looked for, and none was to be had.
    short: Option<u32>,
    /// Frames that do not hold any more what they did, if that is asked for.
    shed: Option<Vec<FrameNo>>,
    /// Is true if the device is to be told which frames became free; the next field lists them.
    tells_freed: bool,
    freed: Vec<FrameNo>,
    /// Keeps the checksums of what was written to the frames.
    checksums: PageChecksums,
}

impl FrameTable {
    /// The frames of a device with so many pages, at most [`MAX_PAGES`], in sets of at most `ways`, at most
    /// [`MAX_WAYS`]. All data pages of a parity row of the array before which it stands, of at most
    /// [`MAX_ARRAY_PAGES`], fall into the same set.
    pub(crate) fn new(dev: Dev, pages: u64, ways: u32, geometry: Geometry) -> Self {
        debug_assert!((1..=MAX_PAGES).contains(&pages), "the registry has checked the size");
        debug_assert!((1..=MAX_WAYS).contains(&ways) && geometry.data_pages() <= MAX_ARRAY_PAGES, "so has the cache");
        // As many sets as it takes, of the same size: fewer pages are left over than there are
        // sets.
        let sets = (pages as u32).div_ceil(ways);
        let ways = pages as u32 / sets;
        let frames = sets * ways;
        let slot = FrameSlot {
            page: PageNumber::NONE,
            state: FrameState::Free,
            logged: LoggedState::Nothing,
            links: ListLinks { newer: WayNo::NONE, older: WayNo::NONE },
            partner: WayNo::NONE,
            pins: 0,
            fill: 0,
            used: 0,
        };
        let empty = [ways, ways + 1].map(WayNo::at).map(|end| ListLinks { newer: end, older: end });
        let mut free = vec![u64::MAX; frames.div_ceil(64) as usize];
        if !frames.is_multiple_of(64) {
            free[frames as usize / 64] = (1 << (frames % 64)) - 1;
        }
        Self {
            dev,
            // The first pages of the device may belong to the metadata log;
            // `log_from` moves the frames after it.
            first: 0,
            sets,
            ways,
            slots: vec![slot; frames as usize],
            ends: vec![empty; sets as usize],
            free,
            index: FrameIndex::new(frames, ways),
            geometry,
            fills: 0,
            lost: 0,
            enabled: true,
            stale: 0,
            untold: None,
            uses: 0,
            short: None,
            shed: None,
            tells_freed: false,
            freed: Vec::new(),
            checksums: PageChecksums::new(dev, 0, frames as usize),
        }
    }

    /// Has the frames begin at a page of the device, and what they hold be logged. They cannot be used before
    /// they are [enabled](Self::enable).
    pub(crate) fn log_from(&mut self, first: u64) {
        // With a log the frames are unusable until it is replayed or made anew. An
        // entry that was never retracted could name an overwritten frame.
        (self.first, self.untold, self.enabled) = (first, Some(UnreportedFills::default()), false);
        self.checksums.begin_at(first);
    }

    /// The log is there.
    pub(crate) const fn enable(&mut self) {
        self.enabled = true;
    }

    pub(crate) const fn dev(&self) -> Dev {
        self.dev
    }

    pub(crate) const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Frames that there are.
    pub(crate) const fn len(&self) -> u32 {
        self.sets * self.ways
    }

    /// Frames of a set.
    pub(crate) const fn ways(&self) -> u32 {
        self.ways
    }

    /// Sets.
    pub(crate) const fn sets(&self) -> u32 {
        self.sets
    }

    /// Frames with versions of pages that the parity is behind of.
    pub(crate) const fn stale(&self) -> u32 {
        self.stale
    }

    /// Returns the checksums of what was written to the frames.
    pub(crate) const fn checksums(&self) -> &PageChecksums {
        &self.checksums
    }

    /// Returns these checksums, to change them.
    pub(crate) const fn checksums_mut(&mut self) -> &mut PageChecksums {
        &mut self.checksums
    }

    /// Returns the checksum of what was written to a frame last; none if it is not known.
    pub(crate) fn checksum(&self, frame: FrameNo) -> Option<PageChecksum> {
        self.checksums.get(self.first + u64::from(frame.0))
    }

    /// Keeps the checksum that the log has of a frame.
    pub(crate) fn keep_checksum(&mut self, frame: FrameNo, checksum: Option<PageChecksum>) {
        self.checksums.keep(self.first + u64::from(frame.0), checksum);
    }

    /// Returns how many frames had been begun to be filled when this one was the last time, modulo 2^32.
    pub(crate) fn fill_of(&self, frame: FrameNo) -> u32 {
        self.slots[frame.index()].fill
    }

    /// Returns the frame that is a page of the device.
    pub(crate) fn at(&self, page: u64) -> Option<FrameNo> {
        page.checked_sub(self.first).filter(|frame| *frame < self.len().into()).map(|frame| FrameNo(frame as u32))
    }

    pub(crate) fn ext(&self, frame: FrameNo) -> Ext {
        Ext::new(self.dev, self.first + u64::from(frame.0), 1)
    }

    /// The frame with a page's newest content.
    pub(crate) fn get(&self, page: u64) -> Option<FrameNo> {
        // A frame that is being filled has no content yet. A reader that found it
        // would read the previous page.
        self.find(page).filter(|frame| self.slots[frame.index()].state != FrameState::Filling)
    }

    /// Returns true if a page has a frame, even one that is still being filled.
    pub(crate) fn contains(&self, page: u64) -> bool {
        self.find(page).is_some()
    }

    fn find(&self, page: u64) -> Option<FrameNo> {
        let place = self.geometry.locate(page);
        let base = self.set_of(self.geometry.row(place.stripe, place.row_in_chunk)) * self.ways;
        let has = |frame| self.slots[frame as usize].page.get() == page;
        self.index.find(base, page, has).map(FrameNo)
    }

    /// An operation uses the frame; it becomes the most recently used of its set.
    pub(crate) fn pin(&mut self, frame: FrameNo) {
        self.hold(frame);
        self.touch(frame);
    }

    /// An operation uses the frame.
    pub(crate) fn hold(&mut self, frame: FrameNo) {
        self.slots[frame.index()].pins += 1;
    }

    /// A frame for a page of a row, to be written by an operation: the one that it has, unless an
    /// operation uses that, else a [fresh](Self::take) one. The page must not be stale.
    pub(crate) fn fill(&mut self, page: u64, row: Row) -> Option<FrameNo> {
        // A missing device costs speed, never an error: all pages come from the
        // members.
        if !self.enabled {
            return None;
        }
        if let Some(frame) = self.find(page) {
            let slot = &mut self.slots[frame.index()];
            debug_assert!(slot.state == FrameState::Clean, "the page's claim excludes others that fill it");
            // An operation that reads the frame must not see it change. The page
            // gets another frame, and the pinned one is freed when the reader ends.
            if slot.pins == 0 {
                slot.state = FrameState::Filling;
                self.begin_fill(frame);
                self.unlink(frame);
                self.leaves(frame);
                self.sheds(frame);
                return Some(frame);
            }
            self.forget(frame);
        }
        let frame = self.take(row)?;
        self.slots[frame.index()].page = PageNumber::new(page);
        self.insert(frame);
        Some(frame)
    }

    /// A frame for a page of a row that is found by none so far, to be written by an operation: the first
    /// that is free, or that of the least recently used clean page that no operation uses.
    pub(crate) fn take(&mut self, row: Row) -> Option<FrameNo> {
        self.take_in(self.set_of(row))
    }

    /// As [`take`](Self::take), in a set.
    pub(crate) fn take_in(&mut self, set: u32) -> Option<FrameNo> {
        if !self.enabled {
            return None;
        }
        let Some(frame) = self.first_free(set).or_else(|| self.evict(set)) else {
            // Cleaning looks at this: only a set that could not give a frame needs
            // to be cleaned before the thresholds say so.
            self.short = Some(set);
            return None;
        };
        self.unset_free(frame);
        self.begin_fill(frame);
        let slot = &mut self.slots[frame.index()];
        (slot.state, slot.page) = (FrameState::Filling, PageNumber::NONE);
        Some(frame)
    }

    fn begin_fill(&mut self, frame: FrameNo) {
        self.fills = self.fills.wrapping_add(1);
        self.slots[frame.index()].fill = self.fills;
    }

    /// Returns true if what was written into a frame since its last fill began is on the device.
    fn is_there(&self, frame: FrameNo) -> bool {
        // The count may have begun anew in between.
        self.enabled && self.slots[frame.index()].fill.wrapping_sub(self.lost).cast_signed() > 0
    }

    /// The last set in which there was no frame to be taken since this was asked last.
    pub(crate) const fn take_short(&mut self) -> Option<u32> {
        self.short.take()
    }

    /// Returns true if a frame can be [taken](Self::take_in) in a set.
    pub(crate) fn can_spare(&self, set: u32) -> bool {
        self.enabled && (self.first_free(set).is_some() || self.victim(set).is_some())
    }

    /// A frame that was taken has something else than a page from now on, which is found by nobody and stays
    /// until it is [discarded](Self::discard); unless the device was lost meanwhile.
    pub(crate) fn keep(&mut self, frame: FrameNo) -> bool {
        // A device that was lost and replaced while the operation ran has other
        // content in this frame.
        let there = self.is_there(frame);
        if there {
            self.slots[frame.index()].state = FrameState::Kept;
        }
        there
    }

    /// Returns true if an operation fills the frame.
    pub(crate) fn is_filling(&self, frame: FrameNo) -> bool {
        self.slots[frame.index()].state == FrameState::Filling
    }

    /// The operation that used the frame is done with it. One that was filled has the page's newest
    /// version from now on, and the parity covers that.
    pub(crate) fn done(&mut self, frame: FrameNo) {
        if self.slots[frame.index()].state == FrameState::Filling {
            if self.is_there(frame) {
                self.slots[frame.index()].state = FrameState::Clean;
                self.link(frame, SetList::Clean);
            } else {
                self.release(frame);
            }
            return;
        }
        let slot = &mut self.slots[frame.index()];
        slot.pins -= 1;
        if slot.pins == 0 && slot.state == FrameState::Doomed {
            self.release(frame);
        }
    }

    /// The operation that was to fill the frame did not; one that used it is done with it.
    // The operation may have named one frame as source and another as target; its
    // end does not say which.
    pub(crate) fn undone(&mut self, frame: FrameNo) {
        if self.slots[frame.index()].state == FrameState::Filling {
            self.release(frame);
        } else {
            self.done(frame);
        }
    }

    /// Stops using what the cache has of a page, which is found by this frame.
    pub(crate) fn forget(&mut self, frame: FrameNo) {
        self.sheds(frame);
        let FrameSlot { state, partner, .. } = self.slots[frame.index()];
        self.remove(frame);
        if state != FrameState::Landed {
            self.unlink(frame);
        }
        if state == FrameState::Stale {
            self.stale -= 1;
        }
        self.slots[frame.index()].partner = WayNo::NONE;
        // Both frames of a pair go together: the covered version is of no use
        // without the newest.
        if partner != WayNo::NONE {
            self.stale -= 1;
            self.discard(self.neighbour(frame, partner));
        }
        self.discard(frame);
    }

    /// A page's content in the cache is no longer what it should be. The page must not be stale.
    pub(crate) fn drop_page(&mut self, page: u64) {
        if let Some(frame) = self.get(page) {
            self.forget(frame);
        }
    }

    /// The device is lost, with all that it held.
    pub(crate) fn lose(&mut self) {
        if !self.enabled {
            return;
        }
        self.enabled = false;
        // Fills that began before this moment are not on the new device. The count
        // tells them from later ones without a list of them.
        self.lost = self.fills;
        self.freed.clear();
        self.lose_log();
        for index in 0..self.len() {
            if matches!(self.slots[index as usize].state, FrameState::Clean | FrameState::Stale | FrameState::Landed) {
                self.forget(FrameNo(index));
            }
        }
        // What is being filled is freed by its operation; until then nobody finds it.
        self.index.clear();
        debug_assert_eq!(self.stale, 0, "stale pages are found by their frames");
    }

    /// A device stands in the lost one's place. It is taken to be empty, and not used before there is a log
    /// on it, if one is kept.
    pub(crate) fn replace(&mut self) {
        self.lose();
        // Checksums belong to the old device's bytes. Comparing the new device with
        // them would report rot.
        self.checksums.clear();
        // Without a log a fresh device can be used at once: it is empty, and
        // nothing is remembered of it.
        self.enabled = self.untold.is_none();
    }

    /// Nobody finds the frame any more; it is free unless an operation uses it.
    pub(crate) fn discard(&mut self, frame: FrameNo) {
        self.leaves(frame);
        // A reader may still need the bytes. The frame becomes free when the last
        // of them ends.
        if self.slots[frame.index()].pins > 0 {
            self.slots[frame.index()].state = FrameState::Doomed;
        } else {
            self.release(frame);
        }
    }

    /// The frame is free, or will be when the log says so.
    fn release(&mut self, frame: FrameNo) {
        let FrameSlot { state, .. } = self.slots[frame.index()];
        if state == FrameState::Clean {
            self.unlink(frame);
        }
        if matches!(state, FrameState::Clean | FrameState::Filling) {
            self.remove(frame);
        }
        // The log still names the old page. Until it is retracted the frame must
        // stay unused, or a crash would revive the entry for other bytes.
        if self.slots[frame.index()].logged == LoggedState::Left {
            self.slots[frame.index()].state = FrameState::Leaving;
        } else {
            self.set_free(frame);
            // One that was taken in vain is as it was: a write that takes some again and again until there are
            // enough would have them trimmed each time, and never find enough.
            if state != FrameState::Filling {
                self.note_freed(frame);
            }
        }
    }

    fn set_free(&mut self, frame: FrameNo) {
        self.slots[frame.index()].state = FrameState::Free;
        self.free[frame.index() / 64] |= 1 << (frame.0 % 64);
    }

    fn unset_free(&mut self, frame: FrameNo) {
        self.free[frame.index() / 64] &= !(1 << (frame.0 % 64));
    }

    fn insert(&mut self, frame: FrameNo) {
        let page = self.slots[frame.index()].page.get();
        self.index.insert(self.base(frame), page, frame.0);
    }

    /// The page is no longer found by this frame, if it was: since a loss it may have another.
    fn remove(&mut self, frame: FrameNo) {
        let page = self.slots[frame.index()].page.get();
        self.index.remove(self.base(frame), page, frame.0);
    }

    /// The set that all data pages of a row fall into.
    pub(crate) fn set_of(&self, row: Row) -> u32 {
        // Multiplied by 2⁶⁴ over the golden ratio, neighbouring rows go to unrelated sets (specs §9.8.13).
        let hash = row.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (hash % u64::from(self.sets)) as u32
    }

    /// The set of a frame.
    pub(crate) const fn set(&self, frame: FrameNo) -> u32 {
        frame.0 / self.ways
    }

    /// The first frame of a frame's set.
    const fn base(&self, frame: FrameNo) -> u32 {
        self.set(frame) * self.ways
    }

    /// A frame's number in its set.
    const fn way(&self, frame: FrameNo) -> WayNo {
        WayNo::new(self.base(frame), frame.0)
    }

    /// A frame of the set of another.
    const fn neighbour(&self, of: FrameNo, way: WayNo) -> FrameNo {
        FrameNo(way.of(self.base(of)))
    }

    fn first_free(&self, set: u32) -> Option<FrameNo> {
        let (first, end) = (set * self.ways, (set + 1) * self.ways);
        let mut at = first;
        while at < end {
            let rest = self.free[at as usize / 64] >> (at % 64);
            if rest != 0 {
                let frame = at + rest.trailing_zeros();
                return (frame < end).then_some(FrameNo(frame));
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Frees the frame of the least recently used clean page of a set that no operation uses.
    fn evict(&mut self, set: u32) -> Option<FrameNo> {
        // Only clean pages are candidates. Stale and dirty ones hold the only copy
        // of something.
        let frame = self.victim(set)?;
        self.unlink(frame);
        self.remove(frame);
        self.leaves(frame);
        self.sheds(frame);
        Some(frame)
    }
}
