//! Keeps the marks of rows that may be inconsistent, which every member holds itself. They are what is left
//! when the NVRAM or the intents are lost.
//!
//! A mark stands for some rows that follow each other.
//!
//! * A mark is durable on every member that answers before the intent of one of its rows is. So it is durable
//!   before anything of that row is written.
//! * Marks are never fewer than intents.
//! * A mark is cleared late: when more marks than [`FilesConfig::idle_marks`] have no open row, many are
//!   cleared at a time. So rows that are written again and again cost nothing, also where each write ends
//!   before the next.
//!
//! Beside the marks are the other things that only the NVRAM and the intents know. These are: which file is
//! which device's, which members are not filled, and whether the NVRAM has the only copy of something.
//!
//! Each member has two copies, which are written in turn, each time as a whole. A torn write costs the copy
//! that nobody relies on any more. All members are written the same, with one sequence number; the next write
//! begins when all of them have ended. So the copy with the largest number on any member of the array says
//! everything that counts.

use std::sync::Arc;

use destage_plan::{Condition, Dev, DevSet, Rows};

use super::config::FilesConfig;
use super::config::MAX_DEVICES;
use super::layout::bitmap::{BitmapHead, BitmapLayout, encode};
use crate::buffer::AlignedBuffer;
use crate::bytes::SharedBuffer;
use crate::nvram::RowSet;

/// Counts the clearings of intents until a mark goes whose rows were all closed at the first of them.
const LINGERS: u32 = 2;

/// Holds the marks of an array that is served.
pub(super) struct WriteIntentBitmap {
    layout: BitmapLayout,
    /// Names the members that have marks; without members there are none.
    members: DevSet,
    /// Numbers the last write that was begun.
    sequence: u64,
    /// Holds the content to be written next.
    wanted: BitmapContent,
    /// Holds the content that is durable on all members that answer.
    durable: BitmapContent,
    /// Holds the content that is being written.
    sent: BitmapContent,
    /// Names the members at which the write has not ended, and below those of them that were not given it so
    /// far.
    under_way: DevSet,
    waiting: DevSet,
    /// Is true if something must be written as soon as possible.
    is_due: bool,
    /// Counts, for each mark, the intents of its rows that were asked for and are not durable so far.
    held: Vec<u32>,
    /// Records, for each mark, when its last row was opened, in clearings of intents.
    opened: Vec<u32>,
    clears: u32,
    /// Lists the marks that had no open row when that was checked, each once.
    idle: Vec<u32>,
    /// Is true for a mark in that list.
    is_idle: Vec<bool>,
    /// Limits the list.
    most_idle: usize,
    bytes: SharedBuffer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct BitmapContent {
    head: BitmapHead,
    bits: Vec<u8>,
}

impl BitmapContent {
    fn has(&self, mark: usize) -> bool {
        self.bits[mark / 8] >> (mark % 8) & 1 != 0
    }

    fn set(&mut self, mark: usize, to: bool) {
        let bit = 1 << (mark % 8);
        if to {
            self.bits[mark / 8] |= bit;
        } else {
            self.bits[mark / 8] &= !bit;
        }
    }
}

impl WriteIntentBitmap {
    /// Makes the marks that a start writes: those of these rows, after the write with this number, which is
    /// still to come.
    pub(super) fn new(config: &FilesConfig, head: &BitmapHead, open: &RowSet, sequence: u64) -> Self {
        let layout = config.bitmap_layout();
        let marks = layout.marks() as usize;
        let mut wanted = BitmapContent { head: *head, bits: vec![0; marks.div_ceil(8)] };
        for rows in open.ranges() {
            layout.of(rows).for_each(|mark| wanted.set(mark, true));
        }
        // Marks that a start finds are idle too, so they go when there are many.
        let is_idle: Vec<bool> = (0..marks).map(|mark| wanted.has(mark)).collect();
        Self {
            layout,
            members: DevSet::first(config.members as u32),
            sequence,
            durable: wanted.clone(),
            sent: wanted.clone(),
            wanted,
            under_way: DevSet::EMPTY,
            waiting: DevSet::EMPTY,
            is_due: false,
            held: vec![0; marks],
            opened: vec![0; marks],
            clears: 0,
            idle: (0..marks as u32).filter(|mark| is_idle[*mark as usize]).collect(),
            is_idle,
            most_idle: config.idle_marks as usize,
            bytes: Arc::new(AlignedBuffer::zeroed(layout.copy as usize)),
        }
    }

    /// Encodes the write that a start makes of the marks, before anything is served.
    pub(super) fn first_write(&self) -> AlignedBuffer {
        let mut copy = AlignedBuffer::zeroed(self.layout.copy as usize);
        encode(self.layout, self.sequence, &self.durable.head, &self.durable.bits, &mut copy);
        copy
    }

    /// Returns the offset of the last write that was begun, in bytes from the first copy.
    pub(super) fn place(&self) -> u64 {
        // The copies alternate, so a torn write leaves the copy before it.
        self.sequence % 2 * u64::from(self.layout.copy)
    }

    /// Returns true if the array has marks.
    const fn is_on(&self) -> bool {
        !self.members.is_empty()
    }

    /// Records which files are the devices'.
    pub(super) fn name(&mut self, generations: &[u32; MAX_DEVICES]) {
        self.wanted.head.generations = *generations;
        self.is_due |= self.is_on();
    }

    /// Notes that the NVRAM that counts is of this epoch.
    pub(super) fn begin_epoch(&mut self, epoch: u32) {
        self.wanted.head.epoch = epoch;
        self.is_due |= self.is_on();
    }

    /// Records the condition of the array, as its controller reports it.
    pub(super) fn note(&mut self, condition: Condition) {
        if self.wanted.head.condition != condition {
            self.wanted.head.condition = condition;
            self.is_due |= self.is_on();
        }
    }

    /// Marks rows whose intents are asked for.
    pub(super) fn open(&mut self, rows: Rows) {
        for mark in self.layout.of(rows) {
            // The count keeps the mark while an intent is asked for and not
            // durable, whatever the open rows are.
            self.held[mark] += 1;
            self.opened[mark] = self.clears;
            if !self.wanted.has(mark) {
                self.wanted.set(mark, true);
                self.is_due |= self.is_on();
            }
        }
    }

    /// Notes that the intents of these rows are durable.
    pub(super) fn opened(&mut self, rows: Rows) {
        self.layout.of(rows).for_each(|mark| self.held[mark] -= 1);
    }

    /// Notes that intents were cleared; those of `open` are still open.
    pub(super) fn closed(&mut self, cleared: &[Rows], open: &RowSet) {
        // Wrapping: only differences of a few clearings matter.
        self.clears = self.clears.wrapping_add(1);
        for mark in cleared.iter().flat_map(|rows| self.layout.of(*rows)) {
            if !self.is_idle[mark] && !open.holds_any(self.layout.rows_of(mark as u64)) {
                self.is_idle[mark] = true;
                self.idle.push(mark as u32);
            }
        }
        if self.idle.len() > self.most_idle {
            self.take_back(open);
        }
    }

    /// Clears marks that have no open row now, nor had one lately.
    fn take_back(&mut self, open: &RowSet) {
        let (mut idle, mut gone) = (std::mem::take(&mut self.idle), 0);
        idle.retain(|&mark| {
            let at = mark as usize;
            let is_idle = self.held[at] == 0 && !open.holds_any(self.layout.rows_of(mark.into()));
            // A mark of a row that was opened lately stays: the row is likely to be
            // written again.
            let stays = is_idle && self.clears.wrapping_sub(self.opened[at]) < LINGERS;
            if is_idle && !stays {
                self.wanted.set(at, false);
                gone += 1;
            }
            self.is_idle[at] = stays;
            stays
        });
        self.idle = idle;
        self.is_due |= gone > 0 && self.is_on();
    }

    /// Clears all marks after a clean stop; `holds` says whether the NVRAM still has the only copy of
    /// something.
    pub(super) fn end(&mut self, holds: bool) {
        self.wanted.bits.fill(0);
        self.wanted.head.holds = holds;
        // A clean stop that changes nothing needs no write.
        self.is_due = self.is_on() && self.wanted != self.durable;
    }

    /// Returns true if a write is running, or must be made.
    pub(super) const fn is_busy(&self) -> bool {
        self.is_due || !self.under_way.is_empty()
    }

    /// Returns true if a write must be made, and can be begun.
    pub(super) const fn can_begin(&self) -> bool {
        self.is_due && self.under_way.is_empty()
    }

    /// Returns the members that are lost or not filled as the marks say: those that are durable, or those that
    /// are being written.
    pub(super) fn unfilled(&self) -> DevSet {
        // Either may be found after a crash, so a member counts as lost if one of
        // both says so.
        self.durable.head.condition.unfilled | self.sent.head.condition.unfilled
    }

    /// Returns true if everything beside the marks is durable.
    pub(super) fn is_noted(&self) -> bool {
        !self.is_on() || self.durable.head == self.wanted.head
    }

    /// Returns true if the marks of these rows are durable, and stay.
    pub(super) fn cover(&self, rows: &[Rows]) -> bool {
        let writes = !self.under_way.is_empty();
        // A mark that the running write clears is gone as soon as one member has
        // it.
        let is_there = |mark| self.durable.has(mark) && (!writes || self.sent.has(mark));
        !self.is_on() || rows.iter().all(|rows| self.layout.of(*rows).all(is_there))
    }

    /// Begins a write to the members among these, if one is due and none is running.
    pub(super) fn begin(&mut self, answering: DevSet) {
        if !self.is_due || !self.under_way.is_empty() {
            return;
        }
        self.is_due = false;
        self.sequence += 1;
        self.sent.clone_from(&self.wanted);
        if Arc::get_mut(&mut self.bytes).is_none() {
            // A hanging device still holds the previous bytes, and may read them at
            // any time.
            self.bytes = Arc::new(AlignedBuffer::zeroed(self.layout.copy as usize));
        }
        let bytes = Arc::get_mut(&mut self.bytes).expect("nobody else has them");
        encode(self.layout, self.sequence, &self.sent.head, &self.sent.bits, bytes);
        self.under_way = self.members & answering;
        self.waiting = self.under_way;
        // Without an answering member there is nobody to wait for.
        self.settle();
    }

    /// Returns the devices that were not given the running write.
    pub(super) const fn waiting(&self) -> DevSet {
        self.waiting
    }

    /// Returns the bytes of the write for a device that waits for them.
    pub(super) fn give(&mut self, dev: Dev) -> SharedBuffer {
        self.waiting.remove(dev);
        Arc::clone(&self.bytes)
    }

    /// Notes that the write has ended at a device, or never will.
    pub(super) fn ended(&mut self, dev: Dev) {
        if self.under_way.contains(dev) {
            self.under_way.remove(dev);
            self.waiting.remove(dev);
            self.settle();
        }
    }

    fn settle(&mut self) {
        if self.under_way.is_empty() {
            self.durable.clone_from(&self.sent);
        }
    }
}
