//! Replaces an NVRAM, where there is none, by a journal on the cache device, after the cached pages.
//!
//! * A step that changes the NVRAM is done when the journal has it. Steps that come during the write of a
//!   page wait, and share the next pages.
//! * The journal's pages form a ring. Before a write reaches a page that is half the ring old, the journal
//!   repeats all that still holds: slots with their bytes, and rows with an open intent.
//! * Open intents are repeated one by one or as a map of all rows, whichever is shorter.
//! * Memory holds the same content, so only a start reads the journal.

use destage_plan::{Buf, Controller, Dev, Engine, Issue, Step};
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};

/// Bytes of a page that are none of its records': magic, number, checksum.
const HEAD: u64 = 32;
/// Bytes of a record beside what it holds.
const RECORD: u64 = 8;
/// Of a slot that is put, beside its bytes: slot, tag, length, checksum.
const PUT: u64 = 40;
/// Of a slot that is freed.
const FREE: u64 = 8;
/// Of a range of rows.
const ROWS: u64 = 16;

/// Holds the journal's place on the cache device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalPlace {
    /// The device.
    pub dev: Dev,
    /// Holds the journal's first page on the cache device.
    pub first: u64,
    /// Pages, at least two.
    pub pages: u64,
    /// Rows of the array.
    pub rows: u64,
}

/// A write of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JournalAppend {
    /// The first of the steps that it is for, which stands for all of them.
    pub(super) head: Issue,
    pub(super) first: u64,
    pub(super) pages: u32,
}

/// The journal.
pub(super) struct IntentJournal {
    place: JournalPlace,
    page_bytes: u64,
    /// The next page to be written, from the first.
    at: u64,
    /// Pages written since all that holds was, or was so first.
    since: u64,
    /// Steps that wait, and the bytes of their records.
    waiting: Vec<Issue>,
    bytes: u64,
    /// Steps that are being written, and in how many pages.
    under_way: Vec<Issue>,
    pages: u64,
    rows: HashSet<u64, FixedState>,
    slots: HashMap<u32, u32, FixedState>,
    /// Bytes of all slots in use.
    held: u64,
    written: u64,
}

impl IntentJournal {
    pub(super) fn new(place: JournalPlace, page_bytes: u64) -> Self {
        Self {
            place,
            page_bytes,
            at: 0,
            since: 0,
            waiting: Vec::new(),
            bytes: 0,
            under_way: Vec::new(),
            pages: 0,
            rows: HashSet::default(),
            slots: HashMap::default(),
            held: 0,
            written: 0,
        }
    }

    /// Pages written so far.
    pub(super) const fn written(&self) -> u64 {
        self.written
    }

    pub(super) const fn dev(&self) -> Dev {
        self.place.dev
    }

    /// Takes a step that changes the NVRAM; the write that begins, if none is under way.
    pub(super) fn take<C: Controller>(&mut self, engine: &Engine<C>, issue: Issue) -> Option<JournalAppend> {
        self.bytes += RECORD;
        match *engine.step(issue) {
            Step::NvCommit { puts, frees } => {
                for put in engine.puts(issue.op, puts) {
                    self.bytes += PUT + u64::from(put.len);
                    self.held += PUT + u64::from(put.len);
                    self.slots.insert(put.slot.index, put.len);
                }
                for buf in engine.bufs(issue.op, frees) {
                    let Buf::Nv(slot) = buf else { unreachable!("slots are freed") };
                    self.bytes += FREE;
                    let len = self.slots.remove(&slot.index).expect("it was put");
                    self.held -= PUT + u64::from(len);
                }
            }
            Step::Intent { rows, set } => {
                for rows in engine.rows(issue.op, rows) {
                    self.bytes += ROWS;
                    for row in rows.iter() {
                        if set {
                            self.rows.insert(row.0)
                        } else {
                            self.rows.remove(&row.0)
                        };
                    }
                }
            }
            ref other => unreachable!("{other:?} does not change the NVRAM"),
        }
        self.waiting.push(issue);
        self.next()
    }

    /// The write that has this step for its head is done: the steps that are, and the next write.
    pub(super) fn done(&mut self, head: Issue, done: &mut Vec<Issue>) -> Option<JournalAppend> {
        debug_assert_eq!(self.under_way.first(), Some(&head), "one write is under way at a time");
        done.append(&mut self.under_way);
        self.written += std::mem::take(&mut self.pages);
        self.next()
    }

    fn next(&mut self) -> Option<JournalAppend> {
        // One write is in flight at a time, and the steps that come meanwhile share the next: group commit.
        if !self.under_way.is_empty() || self.waiting.is_empty() {
            return None;
        }
        std::mem::swap(&mut self.under_way, &mut self.waiting);
        let room = self.page_bytes - HEAD;
        let mut pages = std::mem::take(&mut self.bytes).div_ceil(room);
        // All that still counts lies within the latest half, so the other half can be overwritten.
        if self.since + pages > self.place.pages / 2 {
            pages += self.holds().div_ceil(room);
            self.since = 0;
        }
        self.since += pages;
        self.pages = pages;
        // A write does not wrap, so that it stays one command; the pages at the end are skipped.
        if self.at + pages > self.place.pages {
            self.at = 0;
        }
        let first = self.place.first + self.at;
        self.at += pages;
        Some(JournalAppend { head: self.under_way[0], first, pages: pages as u32 })
    }

    /// Bytes of all that holds.
    fn holds(&self) -> u64 {
        // Many open rows are shorter as a map of all rows, a bit each.
        self.held + (self.rows.len() as u64 * ROWS).min(self.place.rows.div_ceil(8))
    }
}

/// Pages that it needs at least for so many rows and slots: half of it has room for all that can hold, and some for
/// what changes meanwhile.
pub(super) fn least(rows: u64, slots: u32, page_bytes: u64) -> u64 {
    let holds = u64::from(slots) * (PUT + page_bytes) + rows.div_ceil(8);
    2 * holds.div_ceil(page_bytes - HEAD) + 16
}
