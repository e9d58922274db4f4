//! Tracks which members can be trusted, and the note of that in the NVRAM.
//!
//! A change for the worse counts at once for reads, but no write is planned before it is noted. A change for
//! the better (rows filled in) counts only when it is noted.

use destage_plan::{Class, Dev, DevSet, List, NvPut, NvSlot, OpId, Out, PutList, Row, Rows, Step, StepSet, Tag};

use super::bad_pages::BadPages;
use super::{ArrayTask, PageVersions, RaidArray};
use crate::MAX_DEVICES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberState {
    Live,
    Lost,
    /// Holds the truth in the rows before this one; takes writes everywhere.
    Filling(Row),
}

/// A tag says what no array says.
pub(super) struct UnknownTag;

/// The states of all members.
pub(super) struct MemberStates {
    states: [MemberState; MAX_DEVICES],
    all: DevSet,
    /// Members that are not live.
    not_live: DevSet,
    /// Holds the pages of the others that cannot be read.
    pub(super) bad: BadPages,
    tolerated: u32,
    /// Holds the progress of the filling member for the next note: the rows that the member holds.
    progress: Option<FillProgress>,
    seq: u32,
    /// The slot with the newest note, if there is any: an array that never lost a member has none.
    slot: Option<NvSlot>,
    /// The states are as the note says.
    persisted: bool,
    writing: bool,
    /// The states changed while the note was being written.
    again: bool,
}

#[derive(Clone, Copy)]
struct FillProgress {
    upto: Row,
    whole: bool,
}

const VERSION: u8 = 1;
pub(super) const KIND_MEMBERS: u8 = 1;
const NOBODY: u8 = 0xff;

impl MemberStates {
    /// `members` members, of which the level can do without `tolerated`.
    pub(super) fn new(members: u8, tolerated: u8) -> Self {
        Self {
            states: [MemberState::Live; MAX_DEVICES],
            all: DevSet::first(members.into()),
            not_live: DevSet::EMPTY,
            bad: BadPages::default(),
            tolerated: u32::from(tolerated),
            progress: None,
            seq: 0,
            slot: None,
            persisted: true,
            writing: false,
            again: false,
        }
    }

    /// Returns true if every page of every member can be read.
    pub(super) fn all_live(&self) -> bool {
        self.not_live.is_empty() && self.bad.is_empty()
    }

    pub(super) const fn not_live(&self) -> DevSet {
        self.not_live
    }

    /// Is true while a note is being written.
    pub(super) const fn is_noting(&self) -> bool {
        self.writing
    }

    /// Is true if every loss is noted.
    pub(super) const fn persisted(&self) -> bool {
        self.persisted
    }

    /// Is true if the member's content of these rows is the truth. The rows are all in one stripe.
    pub(super) fn is_live(&self, dev: Dev, rows: Rows) -> bool {
        match self.states[dev.index()] {
            MemberState::Live => !self.bad.has(dev, rows),
            MemberState::Lost => false,
            MemberState::Filling(upto) => rows.end() <= upto && !self.bad.has(dev, rows),
        }
    }

    /// Is true if the member can be written, but not read, in these rows.
    pub(super) fn is_sink(&self, dev: Dev, rows: Rows) -> bool {
        match self.states[dev.index()] {
            MemberState::Live => self.bad.has(dev, rows),
            MemberState::Lost => false,
            MemberState::Filling(upto) => rows.end() > upto || self.bad.has(dev, rows),
        }
    }

    pub(super) fn is_lost(&self, dev: Dev) -> bool {
        self.states[dev.index()] == MemberState::Lost
    }

    /// The member being filled, and the first row that it does not hold yet.
    pub(super) fn filling(&self) -> Option<(Dev, Row)> {
        self.not_live.iter().find_map(|dev| match self.states[dev.index()] {
            MemberState::Filling(upto) => Some((dev, upto)),
            _ => None,
        })
    }

    /// Returns true if the level can do without this member, beside those that it does without already.
    pub(super) fn can_spare(&self, dev: Dev) -> bool {
        (self.not_live | DevSet::one(dev)).len() <= self.tolerated
    }

    /// More is lost than the level can do without.
    pub(super) fn broken(&self) -> bool {
        self.not_live.len() > self.tolerated
    }

    /// Members that take no writes.
    pub(super) fn lost(&self) -> DevSet {
        self.not_live.iter().filter(|dev| self.is_lost(*dev)).collect()
    }

    /// A member can be trusted no more; whether that is news.
    pub(super) fn lose(&mut self, dev: Dev) -> bool {
        if self.is_lost(dev) {
            return false;
        }
        if matches!(self.states[dev.index()], MemberState::Filling(_)) {
            // The next note must not say that a lost member holds rows.
            self.progress = None;
        }
        self.states[dev.index()] = MemberState::Lost;
        self.bad.forget(dev);
        self.not_live.insert(dev);
        self.persisted = false;
        true
    }

    /// Believes members that are noted as lost, and are there; the note of that is due.
    pub(super) fn revive(&mut self, devs: DevSet) {
        for dev in (devs & self.lost()).iter() {
            self.states[dev.index()] = MemberState::Live;
            self.not_live.remove(dev);
            self.persisted = false;
        }
    }

    /// A lost member is to be filled from row 0 on. It takes writes from now on.
    pub(super) fn fill(&mut self, dev: Dev) {
        self.states[dev.index()] = MemberState::Filling(Row(0));
        self.progress = Some(FillProgress { upto: Row(0), whole: false });
    }

    /// The filling member holds the rows before `upto`, durably; counts once it is noted.
    pub(super) fn filled(&mut self, upto: Row, whole: bool) {
        self.progress = Some(FillProgress { upto, whole });
    }

    fn tag(&mut self) -> Tag {
        self.seq += 1;
        let mut tag = [0; 24];
        (tag[0], tag[1]) = (VERSION, KIND_MEMBERS);
        let filling = self.filling().map(|(dev, _)| dev.0);
        let (whole, upto) = self.progress.map_or((false, Row(0)), |progress| (progress.whole, progress.upto));
        tag[2..6].copy_from_slice(&(self.lost().bits() as u32).to_le_bytes());
        tag[6] = filling.filter(|_| !whole).unwrap_or(NOBODY);
        tag[8..16].copy_from_slice(&upto.0.to_le_bytes());
        // The sequence decides between two notes, since a crash may leave the old one beside the new one.
        tag[20..24].copy_from_slice(&self.seq.to_le_bytes());
        tag
    }

    /// Takes over what a note says, if it is newer than what is known; the slot that is of no use
    /// any more.
    pub(super) fn load(&mut self, slot: NvSlot, tag: &Tag) -> Result<Option<NvSlot>, UnknownTag> {
        let u32_at = |at: usize| u32::from_le_bytes([tag[at], tag[at + 1], tag[at + 2], tag[at + 3]]);
        let lost = DevSet::from_bits(u32_at(2).into());
        let filling = (tag[6] != NOBODY).then_some(Dev(tag[6]));
        let upto = u64::from_le_bytes(tag[8..16].try_into().expect("eight bytes"));
        let known = self.all.contains_all(lost)
            && filling.is_none_or(|dev| self.all.contains(dev) && !lost.contains(dev))
            && upto <= destage_plan::Ext::MAX_DEVICE_PAGES;
        if tag[0] != VERSION || !known {
            return Err(UnknownTag);
        }
        let seq = u32_at(20);
        // A crash between put and free leaves two notes; the older one is obsolete.
        if self.slot.is_some() && seq <= self.seq {
            return Ok(Some(slot));
        }
        let older = self.slot.replace(slot);
        self.seq = seq;
        self.not_live = lost;
        self.states = [MemberState::Live; MAX_DEVICES];
        for dev in lost.iter() {
            self.states[dev.index()] = MemberState::Lost;
        }
        self.progress = None;
        if let Some(dev) = filling {
            self.states[dev.index()] = MemberState::Filling(Row(upto));
            self.not_live.insert(dev);
            self.progress = Some(FillProgress { upto: Row(upto), whole: false });
        }
        Ok(older)
    }

    /// The note that was being written is durable.
    fn noted(&mut self) {
        self.writing = false;
        // The note that became durable is outdated already, so the loss is not noted yet.
        if self.again {
            return;
        }
        self.persisted = true;
        if let (Some((dev, _)), Some(progress)) = (self.filling(), self.progress) {
            if progress.whole {
                self.states[dev.index()] = MemberState::Live;
                self.not_live.remove(dev);
                self.progress = None;
            } else {
                self.states[dev.index()] = MemberState::Filling(progress.upto);
            }
        }
    }
}

impl RaidArray {
    /// A member is lost: what it holds counts no more, even if it answers again.
    pub(super) fn lose(&mut self, dev: Dev, out: &mut Out) {
        let was_filling = self.members.filling().is_some_and(|(filling, _)| filling == dev);
        if !self.members.lose(dev) {
            return;
        }
        if was_filling {
            // Rows filled so far count no more: the device may come back with other content.
            self.rebuild.stop();
        }
        self.copy.lose(dev);
        self.dirty.remove(dev);
        // Pages of a lost member in memory are no longer what a member holds.
        self.forget_all_rows(out);
        if self.needs_log() {
            let geometry = &self.config.geometry;
            let data = |row: &Row| geometry.data_set().contains(geometry.column(geometry.stripe_of(*row).0, dev));
            // A torn row could not be restored without the lost page, so these rows are flushed at once.
            self.exposed.extend(self.intents.rows().filter(data));
        }
        self.persist(out);
    }

    /// Notes the members' states in the NVRAM.
    pub(super) fn persist(&mut self, out: &mut Out) {
        if self.members.writing {
            // One note is in flight at a time; the next one has the newest states.
            self.members.again = true;
            return;
        }
        self.members.writing = true;
        let op = out.open(Class::Internal, None, None);
        self.set_task(op, ArrayTask::Persist(None));
    }

    pub(super) fn plan_persist(&mut self, op: OpId, out: &mut Out) {
        let slot = self.slots.alloc().expect("slots for the note are kept free");
        // The old note is freed only after the new one is durable: a start must always find one.
        let old = self.members.slot.replace(slot);
        self.members.again = false;
        let tag = self.members.tag();
        let puts = out.puts(op, &[NvPut::tag(slot, tag)]);
        let put = out.step_notify(op, Step::NvCommit { puts, frees: List::EMPTY }, StepSet::EMPTY);
        if let Some(old) = old {
            let frees = out.slots(op, &[old]);
            out.step(op, Step::NvCommit { puts: PutList::EMPTY, frees }, put);
            self.set_task(op, ArrayTask::Persist(Some(old)));
        }
        out.close(op);
    }

    pub(super) fn persist_done(&mut self, versions: &mut dyn PageVersions, out: &mut Out) {
        self.members.noted();
        if self.members.again {
            self.persist(out);
            return;
        }
        let obsolete = self.members.bad.take_obsolete();
        self.free_slots(obsolete, out);
        self.free_needless_logs(out);
        self.begin_round(versions, out);
        self.wake(out);
        self.forget_exposed();
        self.flush_exposed(out);
        self.rebuild_more(out);
    }

    /// Another device, or the same one again, stands in a member's place. Whatever it holds, it is
    /// filled anew.
    pub(super) fn replaced(&mut self, dev: Dev, out: &mut Out) {
        // The device's content is unknown, even if it was a member before: it has missed writes.
        self.lose(dev, out);
        self.rebuild.wants(dev);
        if self.members.persisted {
            self.rebuild_more(out);
        }
    }
}
