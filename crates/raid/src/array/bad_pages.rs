//! Pages that members cannot read, though they answer otherwise: what the commonest fault of disks leaves.
//!
//! Such a page is taken for one of a member that is being filled: it is written, not read. So what is asked for is
//! computed from the others, and writes of the row stay right. The page itself is made anew from the others, written,
//! and read again. If it cannot be read even then it stays on the list for the rest of this life. A member that has more
//! of them than the [configuration](super::ArrayConfig::max_corrected) allows counts as lost, as md has it.
//!
//! Nothing durable is needed for that: the page is written like any other, so that it holds what it should or cannot be
//! read. A start finds it as this life did.
//!
//! A page that a rebuild cannot fill in, since too many others of its row cannot be read, is *missing*. Its member could
//! read it, and would give what was there before. So that is noted in the NVRAM before the rebuild goes on, and stays so
//! until the row has been written, or can be read again, so that the page can be made.

use std::collections::{BTreeMap, BTreeSet};

use destage_plan::{
    BadPage, Buf, Claim, Class, Dev, DevSet, Ext, List, Nanos, NvPut, NvSlot, OpId, Out, PageFate, PageReport, PutList,
    Row, Rows, Step, StepSet, Tag,
};

use super::members::Unknown;
use super::write::NOTE_SLOTS;
use super::{Array, Task, Versions};
use crate::MAX_DEVICES;

/// Halves the count of a member's errors when it has passed without another, as md's does.
const HALF_LIFE: Nanos = Nanos(3_600_000_000_000);

/// Counts the pages that a member could not read.
#[derive(Clone, Copy, Default)]
struct ErrorCount {
    errors: u32,
    last: Nanos,
}

impl ErrorCount {
    /// Counts one more; how many there are.
    fn count(&mut self, now: Nanos) -> u32 {
        let halvings = now.0.saturating_sub(self.last.0) / HALF_LIFE.0;
        self.errors = self.errors.checked_shr(halvings.min(32) as u32).unwrap_or(0) + 1;
        self.last = now;
        self.errors
    }
}

/// Limits the pages of a member that are on the list.
const MOST: usize = 1 << 10;

pub(super) const KIND_MISSING: u8 = 3;
const VERSION: u8 = 1;
/// Divides the slots of the NVRAM: so many of them may note missing pages.
const MISSING_SHARE: u32 = 4;

/// Says what is done about a page on the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is to be made anew.
    Found,
    /// It was, and cannot be read.
    Unwritable,
    /// Its member has something else there, as is noted in this slot. It is made when that can be.
    Missing(NvSlot),
}

/// Holds the pages that cannot be read, and how often each member had one.
#[derive(Default)]
pub(super) struct BadPages {
    pages: BTreeMap<(Row, Dev), State>,
    /// Lists those that nothing makes up, which were told of: whoever asks has the member asked anew.
    told: BTreeSet<(Row, Dev)>,
    counts: [ErrorCount; MAX_DEVICES],
    /// Lists the slots of pages that were missing of members that are lost: not free before that is noted.
    obsolete: Vec<NvSlot>,
}

impl BadPages {
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Returns true if there is nothing to be done about rows that are written.
    pub(super) fn is_quiet(&self) -> bool {
        self.pages.is_empty() && self.told.is_empty()
    }

    fn of_rows(&self, rows: Rows) -> impl Iterator<Item = (Row, Dev)> {
        self.pages.range((rows.first, Dev(0))..(rows.end(), Dev(0))).map(|(page, _)| *page)
    }

    /// Returns true if a member cannot read its page of one of these rows.
    pub(super) fn has(&self, dev: Dev, rows: Rows) -> bool {
        self.of_rows(rows).any(|page| page.1 == dev)
    }

    /// Returns the members that cannot read their page of one of these rows.
    pub(super) fn of(&self, rows: Rows) -> DevSet {
        self.of_rows(rows).map(|page| page.1).collect()
    }

    /// Returns true if a page of these rows cannot be read.
    pub(super) fn meets(&self, rows: Rows) -> bool {
        !self.is_empty() && self.of_rows(rows).next().is_some()
    }

    /// Returns the first of these rows that can be treated alike: until one of which a page cannot be read, or that one.
    pub(super) fn alike(&self, rows: Rows) -> Rows {
        match self.of_rows(rows).next() {
            Some((row, _)) if row == rows.first => Rows::new(row, 1),
            Some((row, _)) => Rows::new(rows.first, (row.0 - rows.first.0) as u32),
            None => rows,
        }
    }

    /// Forgets the pages of a member that is lost.
    pub(super) fn forget(&mut self, dev: Dev) {
        for (_, state) in self.pages.extract_if(.., |page, _| page.1 == dev) {
            if let State::Missing(slot) = state {
                self.obsolete.push(slot);
            }
        }
        self.told.retain(|page| page.1 != dev);
        self.counts[dev.index()] = ErrorCount::default();
    }

    /// Takes the slots that are of no use any more once every loss is noted.
    pub(super) fn take_obsolete(&mut self) -> Vec<NvSlot> {
        std::mem::take(&mut self.obsolete)
    }

    /// Takes over that a page is missing, as an earlier life has noted; the slot that is of no use, if it is not.
    pub(super) fn load(&mut self, slot: NvSlot, tag: &Tag, members: u8) -> Result<Option<NvSlot>, Unknown> {
        let row = Row(u64::from_le_bytes(tag[8..16].try_into().expect("eight bytes")));
        if tag[0] != VERSION || tag[2] >= members || row.0 >= Ext::MAX_DEVICE_PAGES {
            return Err(Unknown);
        }
        let earlier = self.pages.insert((row, Dev(tag[2])), State::Missing(slot));
        Ok(earlier.and_then(|state| if let State::Missing(slot) = state { Some(slot) } else { None }))
    }

    /// Makes room for another page of a member on the list; whether there is some. One that was given up can be forgotten:
    /// it is found again.
    fn has_room(&mut self, dev: Dev) -> bool {
        if self.pages.keys().filter(|page| page.1 == dev).count() < MOST {
            return true;
        }
        let given_up = self.pages.iter().find(|(page, state)| page.1 == dev && **state == State::Unwritable);
        let given_up = given_up.map(|(page, _)| *page);
        given_up.is_some_and(|page| self.pages.remove(&page).is_some())
    }

    fn missing(&self) -> impl Iterator<Item = BadPage> {
        let missing = self.pages.iter().filter(|(_, state)| matches!(state, State::Missing(_)));
        missing.map(|((row, dev), _)| BadPage { dev: *dev, page: row.0 })
    }
}

/// Names a page that is made anew.
#[derive(Clone, Copy)]
pub(super) struct Repair {
    row: Row,
    dev: Dev,
    stage: Stage,
}

/// Says how far the making of a page has come.
#[derive(Clone, Copy)]
enum Stage {
    /// Nothing is planned, or it is given up.
    Opened,
    /// It is being made known, in this buffer.
    Known(Buf),
    /// It is being written, read and flushed.
    Written,
    /// The note that it was missing is being freed.
    Freed(NvSlot),
}

impl Array {
    /// Pages that members cannot read.
    pub fn unreadable(&self) -> Vec<BadPage> {
        self.members.bad.pages.keys().map(|(row, dev)| BadPage { dev: *dev, page: row.0 }).collect()
    }

    /// Counts the pages of a member that could not be read when they had been made anew and written.
    pub fn unwritable(&self, dev: Dev) -> u64 {
        let pages = self.members.bad.pages.iter();
        pages.filter(|(page, state)| page.1 == dev && **state == State::Unwritable).count() as u64
    }

    /// Pages that members do not hold, since they could not be filled in.
    pub fn missing(&self) -> impl Iterator<Item = BadPage> {
        self.members.bad.missing()
    }

    /// Whether another page can be noted as missing, now or later.
    pub(super) fn may_miss_more(&self) -> bool {
        (self.members.bad.missing().count() as u32) < self.config.nv_slots / MISSING_SHARE
    }

    /// Leaves a page of a member that is being filled missing, which is noted with the operation; whether there is room
    /// for the note now.
    pub(super) fn leave_missing(&mut self, op: OpId, row: Row, dev: Dev, out: &mut Out) -> bool {
        if let Some(State::Missing(_)) = self.members.bad.pages.get(&(row, dev)) {
            return true;
        }
        if self.own_slots().saturating_sub(NOTE_SLOTS + self.reserved) == 0 {
            return false;
        }
        let slot = self.slots.alloc().expect("there is room");
        let mut tag = [0; 24];
        (tag[0], tag[1], tag[2]) = (VERSION, KIND_MISSING, dev.0);
        tag[8..16].copy_from_slice(&row.0.to_le_bytes());
        let puts = out.puts(op, &[NvPut::tag(slot, tag)]);
        out.step(op, Step::NvCommit { puts, frees: List::EMPTY }, StepSet::EMPTY);
        self.members.bad.pages.insert((row, dev), State::Missing(slot));
        self.members.bad.told.insert((row, dev));
        out.report(PageReport { page: BadPage { dev, page: row.0 }, fate: PageFate::Missing });
        self.expose(row, dev);
        true
    }

    /// Rows were written, or filled in: what is missing of them can perhaps be made, and what could not be read may be
    /// told of anew.
    pub(super) fn retry_missing(&mut self, rows: Rows, out: &mut Out) {
        let BadPages { pages, told, .. } = &mut self.members.bad;
        if !told.is_empty() {
            told.retain(|page| pages.contains_key(page) || !(rows.first..rows.end()).contains(&page.0));
        }
        if pages.is_empty() {
            return;
        }
        let is_missing = |page: &(Row, Dev)| matches!(self.members.bad.pages.get(page), Some(State::Missing(_)));
        let pages: Vec<_> = self.members.bad.of_rows(rows).filter(is_missing).collect();
        for (row, dev) in pages {
            self.open_repair(row, dev, out);
        }
    }

    /// A page of a row is lost: if the row's intent is open, a cut could cost it.
    fn expose(&mut self, row: Row, dev: Dev) {
        let geometry = &self.config.geometry;
        let is_data = geometry.data_set().contains(geometry.column(geometry.stripe_of(row).0, dev));
        if self.needs_log() && is_data && self.intents.contains(row) {
            self.exposed.push(row);
        }
    }

    /// Hears what kept an operation from going on, before that is planned anew: members that did not do what they were
    /// asked, and pages that they could not read.
    #[cold]
    pub fn stuck(&mut self, op: OpId, devs: DevSet, out: &mut Out) {
        self.lose_all(devs, out);
        let members = self.config.geometry.member_set();
        let pages: Vec<_> = out.unreadable(op).iter().copied().filter(|page| members.contains(page.dev)).collect();
        for BadPage { dev, page } in pages {
            self.note_unreadable(Row(page), dev, out);
        }
        self.flush_exposed(out);
    }

    fn note_unreadable(&mut self, row: Row, dev: Dev, out: &mut Out) {
        if self.members.is_lost(dev) || self.members.bad.pages.contains_key(&(row, dev)) {
            return;
        }
        let bad = &mut self.members.bad;
        // One that is asked for again and again counts once. A member that cannot be spared gives what it has.
        let errors = if bad.told.contains(&(row, dev)) { 0 } else { bad.counts[dev.index()].count(out.now()) };
        let is_too_many = errors > self.config.max_corrected && self.members.can_spare(dev);
        if is_too_many || !self.members.bad.has_room(dev) {
            out.report(PageReport { page: BadPage { dev, page: row.0 }, fate: PageFate::TooMany });
            return self.lose(dev, out);
        }
        self.members.bad.pages.insert((row, dev), State::Found);
        self.expose(row, dev);
        if self.ready {
            self.open_repair(row, dev, out);
        }
    }

    fn open_repair(&mut self, row: Row, dev: Dev, out: &mut Out) {
        let (stripe, first) = self.config.geometry.stripe_of(row);
        let claim = Claim { stripe, first, rows: 1, r: self.all, w: self.all };
        let op = out.open(Class::Rebuild, Some(claim), None);
        self.set_task(op, Task::Repair(Repair { row, dev, stage: Stage::Opened }));
        self.repairs += 1;
    }

    /// Makes the pages anew that could not be read before requests were served.
    pub(super) fn repair_all(&mut self, out: &mut Out) {
        let pages: Vec<_> = self.members.bad.pages.keys().copied().collect();
        for (row, dev) in pages {
            self.open_repair(row, dev, out);
        }
    }

    #[cold]
    pub(super) fn plan_repair(&mut self, op: OpId, repair: Repair, versions: &mut dyn Versions, out: &mut Out) {
        if !self.members.persisted() {
            self.waiting.push(op);
            return;
        }
        let Repair { row, dev, .. } = repair;
        let is_missing = match self.members.bad.pages.get(&(row, dev)) {
            Some(State::Found) => false,
            Some(State::Missing(_)) => true,
            // The member was lost meanwhile, or the page is given up.
            Some(State::Unwritable) | None => return out.close(op),
        };
        let rows = Rows::new(row, 1);
        let stripe = self.config.geometry.stripe_of(row).0;
        let column = self.config.geometry.column(stripe, dev);
        let Ok((src, ready)) = self.page_anew(op, rows, column, versions, out) else {
            let bad = &mut self.members.bad;
            if !is_missing {
                bad.pages.remove(&(row, dev));
            }
            if bad.told.len() >= MOST {
                bad.told.clear();
            }
            if bad.told.insert((row, dev)) {
                let fate = if is_missing { PageFate::Missing } else { PageFate::Lost };
                out.report(PageReport { page: BadPage { dev, page: row.0 }, fate });
            }
            versions.released(op);
            out.restart(op);
            return out.close(op);
        };
        self.set_task(op, Task::Repair(Repair { stage: Stage::Known(src), ..repair }));
        out.step_notify(op, Step::Join, ready);
    }

    /// What the operation waited for is done: the page is known, or written and flushed.
    #[cold]
    pub(super) fn repair_goes_on(&mut self, op: OpId, repair: Repair, out: &mut Out) {
        let Repair { row, dev, stage } = repair;
        let page = (row, dev);
        match (stage, self.members.bad.pages.get(&page)) {
            (Stage::Known(src), Some(_)) => {
                // To make it known may have taken nearly all steps that there are.
                out.renew(op);
                self.set_task(op, Task::Repair(Repair { stage: Stage::Written, ..repair }));
                out.attempt(op);
                let ext = Ext::new(dev, row.0, 1);
                let written = out.step(op, Step::Write { ext, src, fua: false }, StepSet::EMPTY);
                let dst = out.tmp(op, 1);
                let read = out.step(op, Step::Read { ext, dst }, written);
                // What is logged of the row is not needed any more then.
                out.step_notify(op, Step::FlushDev { dev }, read);
            }
            (Stage::Written, Some(&State::Missing(slot))) => {
                // The member holds it, durably. Nobody else frees the note of it from now on.
                self.members.bad.pages.remove(&page);
                self.set_task(op, Task::Repair(Repair { stage: Stage::Freed(slot), ..repair }));
                let frees = out.slots(op, &[slot]);
                out.step(op, Step::NvCommit { puts: PutList::EMPTY, frees }, StepSet::EMPTY);
                out.close(op);
            }
            // That is all; or the member was lost meanwhile.
            _ => out.close(op),
        }
    }

    #[cold]
    pub(super) fn repair_stuck(&mut self, op: OpId, repair: Repair, versions: &mut dyn Versions, out: &mut Out) {
        let own = BadPage { dev: repair.dev, page: repair.row.0 };
        let gives_up = out.unreadable(op).contains(&own);
        if gives_up {
            let state = self.members.bad.pages.get_mut(&(repair.row, repair.dev));
            if let Some(state @ State::Found) = state {
                *state = State::Unwritable;
                out.report(PageReport { page: own, fate: PageFate::Unwritable });
            }
        }
        versions.released(op);
        out.restart(op);
        self.set_task(op, Task::Repair(Repair { stage: Stage::Opened, ..repair }));
        if gives_up {
            out.close(op);
        } else {
            out.again(op);
        }
    }

    #[cold]
    pub(super) fn repair_done(&mut self, op: OpId, repair: Repair, versions: &mut dyn Versions, out: &mut Out) {
        self.repairs -= 1;
        versions.released(op);
        let Repair { row, dev, stage } = repair;
        let is_made = match stage {
            Stage::Opened | Stage::Known(_) => false,
            Stage::Written => self.members.bad.pages.remove(&(row, dev)).is_some(),
            Stage::Freed(slot) => {
                self.slots.free(slot);
                true
            }
        };
        if is_made {
            self.members.bad.told.remove(&(row, dev));
            self.stats.corrected_pages += 1;
            out.report(PageReport { page: BadPage { dev, page: row.0 }, fate: PageFate::Corrected });
        }
        self.free_needless_logs(out);
        self.forget_exposed();
        if is_made {
            self.rebuild.go_on();
        }
        self.rebuild_more(out);
        self.wake(out);
    }
}
