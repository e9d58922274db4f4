//! Finding what holds, after a start, from the pages of the log and the entries in the NVRAM.
//!
//! Of each frame the entry with the largest sequence holds, be it in the log or in the NVRAM, and in
//! whichever page; of two with the same sequence that of the newer page.
//!
//! # Why all pages can be believed
//!
//! The log keeps no head and no tail on the SSD. Let *t* be the sequence of the next page, and M the
//! log's pages.
//!
//! * *Order.* A page is made once the one before it is durable, at the place of page *t* − M. So
//!   pages are written over in the order of their age, and those that can be read are *t* − M + 1 to
//!   *t* − 1 without a gap, and at the place of *t* what its write has left: *t* − M, nothing, or *t*
//!   itself. Anything else was not left by this log, and is an [error](ReplayError). The one page
//!   that cannot be read is taken for the one that was being written. If it was the newest, written
//!   to its end and damaged since, this cannot be told, and what it said is not known.
//! * *Nothing old comes back.* Let *e* be an entry that can be read, and *f* a newer one of its frame
//!   that came into the log. An entry is written again only while it is its frame's newest, so all
//!   pages with *e* are older than the first with *f*, and are written over before it is. So *f*
//!   can be read as well, or what followed it. That is why entries of free frames need not be written
//!   again. Slots of the NVRAM with older entries are freed before the next page is sealed.
//! * *Nothing that holds is lost.* When a page is durable and more than `usage_max` are in use, the
//!   oldest is cleaned: what holds in it, and no slot of the NVRAM keeps, is due. What is due is in
//!   the next page: it goes first, and pages are cleaned only while all that is due fits into one.
//!   One can always be cleaned, since nothing is due at that moment: all that was is in the page. So
//!   at most `usage_max` pages are in use when page *t* is sealed, and what is due comes from page
//!   *t* − `usage_max` − 1. The write of page *t* destroys page *t* − M, which is older, as `usage_max`
//!   ≤ M − 2: whatever held in it is durable in a page between. A page that fails and is made again is
//!   no different: its place was lost already, and what it had waits again.
//! * *Again after a cut*, with any `usage_max`. The oldest page with entries that hold and are nowhere
//!   else is *t* − M + 1. Cleaning it, and those behind it while what is due fits into a page, leaves at
//!   most M − 2 pages in use, and each page that is written later cleans at least one. So for a while more
//!   than `usage_max` may be in use, never more than M − 2.

use destage_plan::NvSlot;

use super::buffer::WaitingEntry;
use super::entry::{ENTRY_BYTES, EntryError, LogEntry, SEQUENCES};
use super::page::{LogPage, PageError};
use super::shape::{LogShape, ShapeError};
use super::{EntryLocation, FREED, FrameFact, MetadataLog};

/// Sequences that are kept for the life that a replay begins.
pub const SPARE_SEQUENCES: u64 = 1 << 44;

/// Explains why the pages that a start found are not those of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// There is no log of this shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// There is no such page, or its bytes are not as many as a page has.
    #[error("page {page} of the metadata log was given with {bytes} bytes; there are {pages} pages of {page_bytes}")]
    Given {
        /// Is the number of the page.
        page: u32,
        /// Counts its bytes.
        bytes: usize,
        /// Pages of the log.
        pages: u32,
        /// Bytes of each.
        page_bytes: u32,
    },
    /// A page was not looked at.
    #[error("page {0} of the metadata log was not read")]
    Missing(u32),
    /// A page cannot be read, and its write was not cut.
    #[error("page {page} of the metadata log: {error}")]
    Page {
        /// Is the number of the page.
        page: u32,
        /// Reports why it cannot be read.
        error: PageError,
    },
    /// A page is not the one that must be there.
    #[error(
        "page {page} of the metadata log has sequence {found}; it must have {expected}, since the newest has {newest}"
    )]
    Sequence {
        /// Is the number of the page.
        page: u32,
        /// Is its sequence.
        found: u64,
        /// Is the sequence that must be there.
        expected: u64,
        /// The largest in the log.
        newest: u64,
    },
    /// A page belongs elsewhere: the log was made with another number of pages.
    #[error("page {page} of the metadata log has sequence {sequence}, which belongs into page {slot} of {pages}")]
    Place {
        /// Is the number of the page.
        page: u32,
        /// Is its sequence.
        sequence: u64,
        /// Is the page in which it belongs.
        slot: u32,
        /// Pages of the log.
        pages: u32,
    },
    /// A page has more entries than this log writes into one.
    #[error("page {page} of the metadata log has {found} entries; it is to have at most {entries}")]
    Entries {
        /// Is the number of the page.
        page: u32,
        /// Counts its entries.
        found: u32,
        /// Limits the entries of a page.
        entries: u32,
    },
    /// An entry of a whole page cannot be one of this cache.
    #[error("entry {index} in page {page} of the metadata log: {error}")]
    Entry {
        /// The page's number.
        page: u32,
        /// Is the index of the entry in its page.
        index: u32,
        /// Reports why it cannot be one.
        error: EntryError,
    },
    /// An entry in the NVRAM cannot be one of this cache.
    #[error("the entry in slot {slot} of the NVRAM: {error}")]
    Nvram {
        /// The slot's number.
        slot: u32,
        /// Reports why it cannot be one.
        error: EntryError,
    },
    /// A sequence that no log comes to.
    #[error("sequence {found} is in use; the last are kept for the next life, from {limit} on")]
    Sequences {
        /// The sequence.
        found: u64,
        /// The first that is kept.
        limit: u64,
    },
}

/// Reports what was found of a page.
#[derive(Clone, Copy, Debug)]
enum LogPageState {
    No,
    Whole(u64),
    Torn(PageError),
}

/// A replay that is under way: every [`page`](Self::page) of the log and the entries in the
/// [`nvram`](Self::nvram), in any order, then the [`end`](Self::end).
#[derive(Debug)]
pub struct LogReplay {
    log: MetadataLog,
    seen: Vec<LogPageState>,
    /// By frame: the bytes of its newest entry, zeros if there is none.
    newest: Vec<[u8; ENTRY_BYTES]>,
    kept: Vec<(LogEntry, NvSlot)>,
}

/// Holds the result of a replay.
#[derive(Debug)]
pub struct ReplayedLog {
    /// The log, which goes on.
    pub log: MetadataLog,
    /// Slots of the NVRAM whose entries are superseded or in the log. They are freed before a page is
    /// sealed.
    pub free: Vec<NvSlot>,
    /// The page that cannot be read, and why. It is the one after the newest: its write was cut.
    pub torn: Option<(u32, PageError)>,
    newest: Vec<[u8; ENTRY_BYTES]>,
}

impl ReplayedLog {
    /// The newest entry of each frame that has one, in the order of the frames. A frame without is
    /// free, as is one whose entry says so.
    pub fn entries(&self) -> impl Iterator<Item = LogEntry> {
        // Zeros are no entry.
        self.newest.iter().filter_map(|bytes| LogEntry::decode(bytes).ok())
    }
}

impl LogReplay {
    /// Begins one.
    pub fn new(shape: LogShape) -> Result<Self, ReplayError> {
        shape.check()?;
        Ok(Self {
            log: MetadataLog::empty(shape, 0, 0),
            seen: vec![LogPageState::No; shape.pages as usize],
            newest: vec![[0; ENTRY_BYTES]; shape.frames as usize],
            kept: Vec::new(),
        })
    }

    /// Takes the bytes of a page of the log.
    ///
    /// # Errors
    ///
    /// If no log of this shape and cache can have left these bytes. A page that may be torn is judged in
    /// [`end`](Self::end).
    pub fn page(&mut self, page: u32, bytes: &[u8]) -> Result<(), ReplayError> {
        let LogShape { page_bytes, pages, entries, .. } = self.log.shape;
        if page >= pages || bytes.len() != page_bytes as usize {
            return Err(ReplayError::Given { page, bytes: bytes.len(), pages, page_bytes });
        }
        let read = match LogPage::read(bytes) {
            Ok(read) => read,
            // Torn pages are remembered and judged together: one of them may be the
            // page that was being written, two cannot.
            Err(error) if error.may_be_torn() => {
                self.seen[page as usize] = LogPageState::Torn(error);
                return Ok(());
            }
            Err(error) => return Err(ReplayError::Page { page, error }),
        };
        let sequence = read.sequence();
        // The last sequences are kept for the life that begins.
        in_range(sequence)?;
        let slot = self.log.shape.slot(sequence);
        // A page at another place means another number of pages: the log was made
        // with another configuration.
        if slot != page {
            return Err(ReplayError::Place { page, sequence, slot, pages });
        }
        if read.count() > entries {
            return Err(ReplayError::Entries { page, found: read.count(), entries });
        }
        self.seen[page as usize] = LogPageState::Whole(sequence);
        self.log.counts[page as usize] = read.count() as u16;
        for (index, entry) in (0..).zip(read.entries()) {
            let wrong = |error| ReplayError::Entry { page, index, error };
            let entry = entry.map_err(wrong)?;
            self.log.shape.admits(&entry).map_err(wrong)?;
            in_range(entry.sequence)?;
            let freed = if entry.fact == FrameFact::Free { FREED } else { 0 };
            let place = page * entries + index;
            self.log.frames[place as usize] = entry.frame | freed;
            // Pages may be read in any order, so the newest entry is found by
            // sequences alone.
            if self.is_newest(&entry, sequence) {
                self.log.known[entry.frame as usize].set(EntryLocation::Log(place), entry.sequence);
                self.newest[entry.frame as usize] = entry.encode();
            }
        }
        Ok(())
    }

    /// An entry that is in a slot of the NVRAM ([`LogEntry::from_tag`]).
    pub fn nvram(&mut self, slot: NvSlot, entry: LogEntry) -> Result<(), ReplayError> {
        self.log.shape.admits(&entry).map_err(|error| ReplayError::Nvram { slot: slot.index, error })?;
        in_range(entry.sequence)?;
        self.kept.push((entry, slot));
        Ok(())
    }

    /// Ends the replay once all pages and slots were given.
    ///
    /// # Errors
    ///
    /// If the pages are not what one log leaves.
    pub fn end(mut self) -> Result<ReplayedLog, ReplayError> {
        let torn = self.ends()?;
        let mut free = Vec::new();
        // The oldest first, as it waited.
        self.kept.sort_by_key(|(entry, slot)| (entry.sequence, slot.index));
        for &(entry, slot) in &self.kept {
            let known = &mut self.log.known[entry.frame as usize];
            // The log has it already: the power failed after the page was durable
            // and before the slot was freed.
            if entry.sequence <= known.sequence() {
                free.push(slot);
                continue;
            }
            self.newest[entry.frame as usize] = entry.encode();
            if let EntryLocation::Buffer(number) = known.at() {
                known.set(EntryLocation::Buffer(number), entry.sequence);
                free.extend(self.log.buffer.replace(number, entry, Some(slot)));
            } else {
                let number = self.log.buffer.push(WaitingEntry::new(entry, Some(slot)));
                known.set(EntryLocation::Buffer(number), entry.sequence);
            }
        }
        let newest = &self.newest;
        // Cleaning at once makes room for the first page: after a crash more than
        // `usage_max` may be in use.
        self.log.clean(|frame, _| LogEntry::decode(&newest[frame as usize]).expect("it was read before").fact);
        Ok(ReplayedLog { log: self.log, free, torn, newest: self.newest })
    }

    /// Finds the end of the log and returns the torn page, if one is.
    ///
    /// # Errors
    ///
    /// If a page is missing, or is not the one that must be there.
    fn ends(&mut self) -> Result<Option<(u32, PageError)>, ReplayError> {
        let pages = u64::from(self.log.shape.pages);
        let whole = self
            .seen
            .iter()
            .filter_map(|seen| if let LogPageState::Whole(sequence) = seen { Some(*sequence) } else { None });
        let newest = whole.max();
        let tail = newest.map_or(0, |newest| newest + 1);
        let mut torn = None;
        for (page, seen) in (0..).zip(&self.seen) {
            // The page that is there, or once was: the newest that belongs here and is below the tail.
            // Sequences and places fix each other, so one number tells which page
            // must be here.
            let behind = (tail + pages - 1 - u64::from(page)) % pages + 1;
            match (*seen, tail.checked_sub(behind)) {
                (LogPageState::No, _) => return Err(ReplayError::Missing(page)),
                (LogPageState::Whole(found), Some(expected)) if found == expected => {}
                (LogPageState::Whole(found), expected) => {
                    let (expected, newest) = (expected.unwrap_or(u64::from(page)), tail - 1);
                    return Err(ReplayError::Sequence { page, found, expected, newest });
                }
                // Before the first round is over, places that were never written
                // are blank.
                (LogPageState::Torn(PageError::Blank), None) => {}
                // Only the place of the next page may be torn. A torn page
                // elsewhere was durable once and is damaged.
                (LogPageState::Torn(error), _) if behind == pages => torn = Some((page, error)),
                (LogPageState::Torn(error), _) => return Err(ReplayError::Page { page, error }),
            }
        }
        // Everything is taken to be in use; cleaning finds out what still holds.
        (self.log.head, self.log.tail) = (tail.saturating_sub(pages), tail);
        self.log.sequence = self.newest_sequence();
        Ok(torn)
    }

    fn newest_sequence(&self) -> u64 {
        let logged = self.log.known.iter().map(|known| known.sequence());
        logged.chain(self.kept.iter().map(|(entry, _)| entry.sequence)).max().unwrap_or(0)
    }

    /// Returns true if an entry in a page with this sequence is newer than what was found of its frame.
    fn is_newest(&self, entry: &LogEntry, sequence: u64) -> bool {
        let known = self.log.known[entry.frame as usize];
        match known.at() {
            EntryLocation::Log(place) if entry.sequence == known.sequence() => {
                let page = place / self.log.shape.entries;
                matches!(self.seen[page as usize], LogPageState::Whole(other) if other < sequence)
            }
            _ => entry.sequence > known.sequence(),
        }
    }
}

fn in_range(found: u64) -> Result<(), ReplayError> {
    let limit = SEQUENCES - SPARE_SEQUENCES;
    if found < limit { Ok(()) } else { Err(ReplayError::Sequences { found, limit }) }
}
