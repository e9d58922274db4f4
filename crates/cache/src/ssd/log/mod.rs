//! The metadata log: what is in which frame of a cache, kept on its SSD so that it outlives the
//! power (specs §9.5, §9.7, §9.8.16; KDD III-B, III-D).
//!
//! A [`MetadataLog`] makes bytes of pages and does nothing with them: the cache plans their writes and tells
//! how they ended. They go to the log's pages in a circle, the page with sequence *s* to place *s*
//! mod M, one at a time, each durable before the next is made.
//!
//! # What a cache does
//!
//! 1. [`next_sequence`](MetadataLog::next_sequence) when something becomes so; the entry carries it to the
//!    end of its days.
//! 2. [`put`](MetadataLog::put) when it is so: the frame's bytes are durable, and the entry is too if a slot
//!    of the NVRAM keeps it ([`LogEntry::tag`]). The commit that puts it can free the slot of the entry
//!    before it ([`supersede`](MetadataLog::supersede)).
//! 3. [`seal`](MetadataLog::seal) when the log [is full](MetadataLog::is_full) of entries that wait, or earlier.
//! 4. [`written`](MetadataLog::written) once that page is durable, or [`failed`](MetadataLog::failed).
//!
//! Slots that the log gives back are freed before the next page is sealed: an entry in the NVRAM that
//! outlived all that is newer of its frame would be believed.
//!
//! What waits and is in no slot of the NVRAM is lost when the power is; what is then known of a frame
//! is what the log had of it before, for each frame on its own. So without NVRAM a frame is used for
//! another page only once the page with the entry that freed it is written.
//!
//! # Memory
//!
//! 12 bytes a frame and 4 bytes an entry that fits into the log. What an entry that is written again
//! says, the cache tells from its own directory.

mod buffer;
mod entry;
#[cfg(test)]
mod example;
mod format;
mod page;
mod replay;
mod shape;

use destage_plan::NvSlot;

use buffer::{LogBuffer, WaitingEntry};

pub use entry::{
    DeltaPlace, ENTRY_BYTES, EntryError, FrameFact, LogEntry, MAX_ARRAY_PAGES, MAX_DELTA_END, MAX_FRAMES, SEQUENCES,
};
pub use format::LogFormat;
pub use page::{HEADER_BYTES, LogPage, PageError, room};
pub use replay::{LogReplay, ReplayError, ReplayedLog, SPARE_SEQUENCES};
pub use shape::{LogShape, ShapeError};

/// In `NewestEntry::at`: among those that wait.
const BUFFERED: u32 = 1 << 31;
/// In `NewestEntry::at`: nowhere.
const NOWHERE: u32 = u32::MAX;
/// In `MetadataLog::frames`, beside the frame: the entry says that it is free.
const FREED: u32 = 1 << 31;

/// The log has no room for entries that are not in it: once round, every page was written full of
/// entries that were in it before, and none of them was superseded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the metadata log is full: {usage_max} of its {pages} pages may be in use, with {entries} entries each, and all of them hold; it needs more pages, or fewer frames"
)]
pub struct LogFull {
    /// Pages of the log.
    pub pages: u32,
    /// Limits the pages that may be in use.
    pub usage_max: u32,
    /// Entries in a page.
    pub entries: u32,
}

/// Reports which entry of a frame is the newest, and its place.
#[derive(Clone, Copy, Debug)]
struct NewestEntry {
    /// A place in the log, or with [`BUFFERED`] a number among those that wait.
    at: u32,
    /// Is its sequence, in three parts so that the struct needs no padding.
    sequence: [u16; 3],
}

// The struct exists once for each frame of the cache, so its size is part of the
// promised memory.
const _: () = assert!(size_of::<NewestEntry>() <= 12);

/// Identifies the place of a frame's newest entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryLocation {
    Nowhere,
    Buffer(u32),
    /// A page's slot times the entries of a page, and which of its entries.
    Log(u32),
}

impl NewestEntry {
    const NOTHING: Self = Self { at: NOWHERE, sequence: [0; 3] };

    fn set(&mut self, at: EntryLocation, sequence: u64) {
        self.at = match at {
            EntryLocation::Nowhere => NOWHERE,
            EntryLocation::Buffer(number) => BUFFERED | number,
            EntryLocation::Log(place) => place,
        };
        self.sequence = [0, 16, 32].map(|shift| (sequence >> shift) as u16);
    }

    const fn at(self) -> EntryLocation {
        match self.at {
            NOWHERE => EntryLocation::Nowhere,
            at if at & BUFFERED != 0 => EntryLocation::Buffer(at & !BUFFERED),
            at => EntryLocation::Log(at),
        }
    }

    const fn sequence(self) -> u64 {
        let [low, middle, high] = self.sequence;
        low as u64 | (middle as u64) << 16 | (high as u64) << 32
    }
}

/// The metadata log of a cache.
#[derive(Debug)]
pub struct MetadataLog {
    shape: LogShape,
    /// Sequence of the oldest page that may hold what no other page does.
    head: u64,
    /// Sequence of the next page.
    tail: u64,
    /// The last that was given to an entry.
    sequence: u64,
    /// By frame.
    known: Vec<NewestEntry>,
    /// Of which frame the entries of the log's pages are.
    frames: Vec<u32>,
    /// Counts the entries of each page of the log.
    counts: Vec<u16>,
    buffer: LogBuffer,
    /// The entries of the page that is being written.
    sealed: Vec<WaitingEntry>,
    /// Pages since the last that had room for an entry that was not in the log before.
    barren: u32,
}

impl MetadataLog {
    /// The log of a new cache, whose pages are all zeros.
    pub fn new(shape: LogShape) -> Result<Self, ShapeError> {
        shape.check()?;
        Ok(Self::empty(shape, 0, 0))
    }

    /// Without a look at the shape.
    fn empty(shape: LogShape, tail: u64, sequence: u64) -> Self {
        Self {
            shape,
            // The head is the tail: a log without entries has nothing that must be
            // kept.
            head: tail,
            tail,
            sequence,
            known: vec![NewestEntry::NOTHING; shape.frames as usize],
            frames: vec![0; (shape.pages * shape.entries) as usize],
            counts: vec![0; shape.pages as usize],
            buffer: LogBuffer::new(),
            sealed: Vec::with_capacity(shape.entries as usize),
            barren: 0,
        }
    }

    /// The slots of the NVRAM that keep entries, of a log that is not used any more.
    pub fn slots(self) -> impl Iterator<Item = NvSlot> {
        let Self { sealed, buffer, .. } = self;
        sealed.into_iter().filter_map(|waiting| waiting.slot).chain(buffer.slots())
    }

    /// Returns the shape of the log.
    pub const fn shape(&self) -> &LogShape {
        &self.shape
    }

    /// The sequence of the next page: how many were written since the log was first formatted.
    pub const fn next_page(&self) -> u64 {
        self.tail
    }

    /// The sequence that was given to an entry last.
    pub const fn last_sequence(&self) -> u64 {
        self.sequence
    }

    /// Pages from the oldest that may hold what no other does to the newest.
    pub const fn usage(&self) -> u64 {
        self.tail - self.head
    }

    /// Entries that wait for a page.
    pub const fn waiting(&self) -> u32 {
        self.buffer.len()
    }

    /// A sequence for what becomes so now.
    ///
    /// # Panics
    /// After 2⁴⁸ of them. [`LogReplay`] refuses to begin a life with fewer than 2⁴⁴ left.
    pub fn next_sequence(&mut self) -> u64 {
        // Sequences are drawn when a fact becomes true, so their order is that of
        // the facts and not of the writes.
        self.sequence += 1;
        assert!(self.sequence < SEQUENCES, "sequences are used up");
        self.sequence
    }

    /// The sequence of the newest entry of a frame, if it had one.
    pub fn sequence_of(&self, frame: u32) -> Option<u64> {
        Some(self.known[frame as usize].sequence()).filter(|sequence| *sequence > 0)
    }

    /// The slot of the NVRAM that keeps the newest entry of a frame, to be freed in the commit that
    /// puts the next one. The entry is not written to the log meanwhile: [`put`](Self::put) follows
    /// once the commit is done, or [`keep`](Self::keep) if it is not. None if there is no such slot,
    /// or another commit frees it.
    pub fn supersede(&mut self, frame: u32) -> Option<NvSlot> {
        match self.known[frame as usize].at() {
            EntryLocation::Buffer(number) => self.buffer.promise(number),
            EntryLocation::Nowhere | EntryLocation::Log(_) => None,
        }
    }

    /// The commit that was to free the slot from [`supersede`](Self::supersede) failed.
    pub fn keep(&mut self, frame: u32) {
        if let EntryLocation::Buffer(number) = self.known[frame as usize].at() {
            self.buffer.keep(number);
        }
    }

    /// An entry holds from now on, and is durable in a slot of the NVRAM if there is one. It takes
    /// the place of the entry of its frame that waits, if one does. The slot that is not needed any
    /// more, if there is one: that of the older entry, or its own if a newer one is known.
    ///
    /// # Panics
    /// If the cache has no such frame, or if the slot of the older entry was to be
    /// [superseded](Self::supersede) and there is none.
    pub fn put(&mut self, entry: LogEntry, slot: Option<NvSlot>) -> Option<NvSlot> {
        debug_assert_eq!(self.shape.admits(&entry), Ok(()));
        let known = &mut self.known[entry.frame as usize];
        // A newer fact has been put already. Two commits may end in another order
        // than they began.
        if entry.sequence < known.sequence() {
            return slot;
        }
        self.sequence = self.sequence.max(entry.sequence);
        match known.at() {
            EntryLocation::Buffer(number) => {
                known.set(EntryLocation::Buffer(number), entry.sequence);
                self.buffer.replace(number, entry, slot)
            }
            EntryLocation::Nowhere | EntryLocation::Log(_) => {
                let number = self.buffer.push(WaitingEntry::new(entry, slot));
                known.set(EntryLocation::Buffer(number), entry.sequence);
                None
            }
        }
    }

    /// Returns true if enough entries wait to fill a page and none is being written.
    pub const fn is_full(&self) -> bool {
        self.sealed.is_empty() && self.buffer.ready() >= self.shape.entries
    }

    /// Makes a page of those entries that have waited longest, be they fewer than go into it; its
    /// place in the log. None if nothing can be written, or a page is.
    pub fn seal(&mut self, bytes: &mut Vec<u8>) -> Result<Option<u32>, LogFull> {
        let LogShape { page_bytes, pages, usage_max, entries, .. } = self.shape;
        // One page at a time: a page is made only when the one before is durable,
        // which is what replay relies on.
        if !self.sealed.is_empty() || self.buffer.ready() == 0 {
            return Ok(None);
        }
        // A whole round of pages that held nothing new: the log is full of facts
        // that all hold.
        if self.barren >= pages && self.buffer.again(entries as usize) == entries as usize {
            return Err(LogFull { pages, usage_max, entries });
        }
        self.buffer.take(entries as usize, &mut self.sealed);
        let slot = self.shape.slot(self.tail);
        self.counts[slot as usize] = self.sealed.len() as u16;
        for (place, WaitingEntry { entry, .. }) in (slot * entries..).zip(&self.sealed) {
            // Entries of free frames are marked, since they need not be written
            // again when their page is overwritten.
            let freed = if entry.fact == FrameFact::Free { FREED } else { 0 };
            self.frames[place as usize] = entry.frame | freed;
            // The frame's newest entry counts as logged from here on. If the write
            // fails `failed` puts it back.
            self.known[entry.frame as usize].set(EntryLocation::Log(place), entry.sequence);
        }
        page::write(page_bytes, self.tail, self.sealed.iter().map(|waiting| waiting.entry), bytes);
        Ok(Some(slot))
    }

    /// The entries of the page that is being written.
    pub fn sealed(&self) -> impl ExactSizeIterator<Item = &LogEntry> {
        self.sealed.iter().map(|waiting| &waiting.entry)
    }

    /// The page that was sealed is durable. Then pages are cleaned while more are in use than may be:
    /// what still holds in them is to be written again. `fact` tells what was put of a frame with a
    /// sequence; without a delta if that of the entry is not where it was, since a newer one is in the
    /// NVRAM. The slots that kept the entries of the page go to `free`.
    ///
    /// # Panics
    /// If no page is being written.
    pub fn written(&mut self, fact: impl FnMut(u32, u64) -> FrameFact, free: &mut Vec<NvSlot>) {
        assert!(!self.sealed.is_empty(), "no page is being written");
        let again = self.sealed.iter().filter(|waiting| waiting.again).count();
        self.barren = if again == self.shape.entries as usize { self.barren + 1 } else { 0 };
        // The page is durable now, so the NVRAM copies of its entries can go.
        free.extend(self.sealed.drain(..).filter_map(|waiting| waiting.slot));
        self.tail += 1;
        self.clean(fact);
    }

    /// The page that was sealed was not written, or only in part: its entries wait again, in front of
    /// the others. The slots of those that were superseded meanwhile go to `free`.
    ///
    /// # Panics
    /// If no page is being written.
    pub fn failed(&mut self, free: &mut Vec<NvSlot>) {
        assert!(!self.sealed.is_empty(), "no page is being written");
        let slot = self.shape.slot(self.tail);
        let first = slot * self.shape.entries;
        self.counts[slot as usize] = 0;
        // In reverse, because each is pushed to the front: they end in the order in
        // which they waited.
        for place in (first..first + self.sealed.len() as u32).rev() {
            let waiting = self.sealed.pop().expect("as many as there are places");
            let known = &mut self.known[waiting.entry.frame as usize];
            match known.at() {
                EntryLocation::Log(at) if at == place => {
                    let number = self.buffer.push_front(waiting);
                    known.set(EntryLocation::Buffer(number), waiting.entry.sequence);
                }
                EntryLocation::Buffer(newer) => {
                    // A newer entry came while the page was written. The old
                    // entry's slot is its only durable record if it has none
                    // itself.
                    free.extend(self.buffer.adopt(newer, waiting.slot));
                    if waiting.due && self.buffer.must_hurry(newer) {
                        self.buffer.hurry(newer);
                    }
                }
                EntryLocation::Nowhere | EntryLocation::Log(_) => {
                    unreachable!("what supersedes an entry that is being written waits")
                }
            }
        }
    }

    /// Cleans the oldest pages while more are in use than may be, and what must be written again
    /// fits into the next page: [`replay`] says why that suffices.
    fn clean(&mut self, mut fact: impl FnMut(u32, u64) -> FrameFact) {
        while self.usage() > u64::from(self.shape.usage_max) {
            let slot = self.shape.slot(self.head);
            let first = slot * self.shape.entries;
            let places = first..first + u32::from(self.counts[slot as usize]);
            let must = places.clone().filter(|place| self.holds(*place)).count();
            // What must be written again has to fit into one page together. The
            // rest waits until that page is written.
            if self.buffer.due() + must as u32 > self.shape.entries {
                return;
            }
            for place in places {
                let frame = self.frames[place as usize] & !FREED;
                let known = self.known[frame as usize];
                match known.at() {
                    EntryLocation::Buffer(number) if self.holds(place) => self.buffer.hurry(number),
                    EntryLocation::Log(_) if self.holds(place) => {
                        let sequence = known.sequence();
                        // The cache is asked what the frame holds, since the log
                        // keeps only place and sequence.
                        let number = self.buffer.push(WaitingEntry::again(frame, sequence, fact(frame, sequence)));
                        self.known[frame as usize].set(EntryLocation::Buffer(number), sequence);
                    }
                    // Everything older of the frame was written over before this page will be.
                    EntryLocation::Log(at) if at == place => {
                        self.known[frame as usize].set(EntryLocation::Nowhere, known.sequence());
                    }
                    EntryLocation::Nowhere | EntryLocation::Buffer(_) | EntryLocation::Log(_) => {}
                }
            }
            self.head += 1;
        }
    }

    /// Returns true if something must be written before the page with this entry can be overwritten. That is
    /// the entry itself if it is its frame's newest, or the newest one if that waits and no slot keeps it.
    fn holds(&self, place: u32) -> bool {
        let entry = self.frames[place as usize];
        // A frame without an entry is free, so losing this one changes nothing:
        // everything older of it is already gone.
        if entry & FREED != 0 {
            return false;
        }
        match self.known[entry as usize].at() {
            EntryLocation::Log(at) => at == place,
            EntryLocation::Buffer(number) => self.buffer.must_hurry(number),
            EntryLocation::Nowhere => false,
        }
    }
}
