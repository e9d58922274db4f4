//! Lost data pages of rows that are being written, kept in the NVRAM until the rows are consistent
//! on stable storage: with them a torn row is made consistent by computing its parity anew, and the
//! lost page stays what it was.

use destage_plan::{Class, Dev, NvSlot, OpId, Out, PutList, Row, Rows, Step, StepSet, Tag};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::members::UnknownTag;
use super::{ArrayTask, RaidArray};
use crate::RaidLevel;

const VERSION: u8 = 1;
pub(super) const KIND_LOG: u8 = 2;

#[derive(Clone, Copy)]
struct ParityLogEntry {
    slot: NvSlot,
    seq: u64,
}

/// The pages that are logged, by row and member. Empty unless a member is lost.
#[derive(Default)]
pub(super) struct ParityLog {
    entries: HashMap<(Row, Dev), ParityLogEntry, FixedState>,
    seq: u64,
}

impl ParityLog {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the slot of a logged page, or none.
    pub(super) fn get(&self, row: Row, dev: Dev) -> Option<NvSlot> {
        self.entries.get(&(row, dev)).map(|entry| entry.slot)
    }

    /// Notes a page that is being put; the slot that it supersedes, and the tag to put it with.
    pub(super) fn put(&mut self, row: Row, dev: Dev, slot: NvSlot) -> (Option<NvSlot>, Tag) {
        self.seq += 1;
        let old = self.entries.insert((row, dev), ParityLogEntry { slot, seq: self.seq }).map(|old| old.slot);
        let mut tag = [0; 24];
        // The tag alone must suffice: after a crash it is all that a start knows of the slot.
        (tag[0], tag[1], tag[2]) = (VERSION, KIND_LOG, dev.0);
        tag[8..16].copy_from_slice(&row.0.to_le_bytes());
        tag[16..24].copy_from_slice(&self.seq.to_le_bytes());
        (old, tag)
    }

    /// Takes over a page logged in an earlier life; the slot that is of no use any more, if one is.
    pub(super) fn load(&mut self, slot: NvSlot, tag: &Tag, members: u8) -> Result<Option<NvSlot>, UnknownTag> {
        let u64_at = |at: usize| u64::from_le_bytes(tag[at..at + 8].try_into().expect("eight bytes"));
        if tag[0] != VERSION || tag[2] >= members {
            return Err(UnknownTag);
        }
        let entry = ParityLogEntry { slot, seq: u64_at(16) };
        // New entries must outrank every old one, or a start would take an older page for the newest.
        self.seq = self.seq.max(entry.seq);
        let key = (Row(u64_at(8)), Dev(tag[2]));
        match self.entries.get(&key) {
            Some(other) if other.seq > entry.seq => Ok(Some(slot)),
            _ => Ok(self.entries.insert(key, entry).map(|old| old.slot)),
        }
    }

    /// Forgets the page that is logged in a slot; the slot if there is one.
    pub(super) fn forget_slot(&mut self, slot: NvSlot) -> Option<NvSlot> {
        let key = self.entries.iter().find(|(_, entry)| entry.slot == slot).map(|(key, _)| *key)?;
        self.entries.remove(&key).map(|entry| entry.slot)
    }

    /// Forgets what was logged of these rows; the slots are appended to `slots`.
    pub(super) fn forget(&mut self, rows: Rows, members: u8, slots: &mut Vec<NvSlot>) {
        if self.entries.is_empty() {
            return;
        }
        for row in rows.iter() {
            slots.extend((0..members).filter_map(|dev| self.entries.remove(&(row, Dev(dev)))).map(|entry| entry.slot));
        }
    }

    /// Forgets the pages for which `keep` is false; their slots are appended to `slots`.
    pub(super) fn retain(&mut self, keep: impl Fn(Row, Dev) -> bool, slots: &mut Vec<NvSlot>) {
        self.entries.retain(|(row, dev), entry| {
            let keep = keep(*row, *dev);
            if !keep {
                slots.push(entry.slot);
            }
            keep
        });
    }
}

impl RaidArray {
    /// Is true if lost data of written rows must be logged: for levels that compute it.
    pub(super) fn needs_log(&self) -> bool {
        matches!(self.config.geometry.level(), RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6)
    }

    /// Frees the log of pages whose member holds them again. Rows at work keep theirs: it may not
    /// have been put yet. Until that is done no write is planned: one of such a row, whose intent is
    /// set already, would not log, and what is logged would tell what the page was, not what it is,
    /// should the member be lost again.
    pub(super) fn free_needless_logs(&mut self, out: &mut Out) {
        if self.log.is_empty() {
            return;
        }
        let mut slots = Vec::new();
        let (members, intents) = (&self.members, &self.intents);
        self.log.retain(|row, dev| intents.is_active(row) || !members.is_live(dev, Rows::new(row, 1)), &mut slots);
        // `begin_write` waits for this commit: a write after it must not find a page logged before it.
        self.unlogging += u32::from(!slots.is_empty());
        self.open_free(slots, true, out);
    }

    /// Frees slots of the NVRAM.
    pub(super) fn free_slots(&mut self, slots: Vec<NvSlot>, out: &mut Out) {
        self.open_free(slots, false, out);
    }

    fn open_free(&mut self, slots: Vec<NvSlot>, unlogs: bool, out: &mut Out) {
        if !slots.is_empty() {
            let op = out.open(Class::Internal, None, None);
            self.set_task(op, ArrayTask::Free { slots, unlogs });
        }
    }

    pub(super) fn plan_free(&mut self, op: OpId, out: &mut Out) {
        let Some(ArrayTask::Free { slots, .. }) = self.task(op) else { unreachable!("the operation frees slots") };
        // Slots of the row cache are memory, not NVRAM: no commit is needed to free them.
        let is_of_rows = slots.first().is_some_and(|slot| slot.is_of_row());
        let (puts, frees) = (PutList::EMPTY, out.slots(op, slots));
        let step = if is_of_rows { Step::Hold { puts, frees } } else { Step::NvCommit { puts, frees } };
        out.step(op, step, StepSet::EMPTY);
        out.close(op);
    }

    pub(super) fn free_done(&mut self, slots: Vec<NvSlot>, unlogs: bool, out: &mut Out) {
        self.unlogging -= u32::from(unlogs);
        for slot in slots {
            if slot.is_of_row() {
                self.row_cache.free_slot(slot);
            } else {
                self.slots.free(slot);
            }
        }
        self.wake(out);
    }
}
