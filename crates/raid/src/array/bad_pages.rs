//! Lists the pages that members cannot read, though they answer otherwise: latent sector errors.
//!
//! The array treats such a page like one of a member that is being filled: it writes the page and does not read it. The
//! other members answer for it, and writes keep the row consistent. The [repair](super::repair) makes the page anew. If
//! the member cannot keep it, the page stays on the list for the rest of this life. A member with more such pages than
//! [`max_corrected`](super::ArrayConfig::max_corrected) allows counts as lost, as with md.
//!
//! An unreadable page needs no note: every write of its row writes the page as well, so the member either holds the right
//! bytes or cannot read them. Pages that a member cannot keep are noted all the same, by the executor and on the member
//! itself, for the next life to know before somebody reads them. That life takes them for unreadable once it is ready, and
//! makes them anew. Until then recovery asks the member, which may be able to read them again.
//!
//! A *missing* page is one that a rebuild could not fill in, since too many other members cannot read theirs. Its member
//! would return what was there before. So the NVRAM notes it before the rebuild goes on, until the page is made.

use std::collections::{BTreeMap, BTreeSet};

use destage_plan::{
    BadPage, Dev, DevSet, Ext, List, NvPut, NvSlot, OpId, Out, PageFate, PageReport, Row, Rows, Step, StepSet, Tag,
};

use super::RaidArray;
use super::members::UnknownTag;
use super::read_errors::ReadErrorCount;
use super::write::NOTE_SLOTS;
use crate::MAX_DEVICES;

/// Limits the pages of a member on the list, and the pages that were reported as lost.
const MAX_LISTED: usize = 1 << 10;
/// Marks the tags of notes of missing pages.
pub(super) const KIND_MISSING: u8 = 3;
const VERSION: u8 = 1;
/// Divides the slots of the NVRAM: so many of them may note missing pages.
const MISSING_SHARE: u32 = 4;

/// Says what the array does about a page on the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadPageState {
    /// Waits to be made anew.
    Unreadable,
    /// Was made anew, and its member cannot keep it: the others answer for it.
    Unwritable,
    /// No other member makes it up. It leaves the list once no page of its row waits to be made anew.
    Lost,
    /// Needs to be made when that is possible: its member does not hold it, as this slot notes.
    Missing(NvSlot),
}

/// Lists the pages, and counts how often each member had one.
#[derive(Default)]
pub(super) struct BadPages {
    pages: BTreeMap<(Row, Dev), BadPageState>,
    /// Lists the pages that no other member makes up and that were reported. The array asks their member anew each time.
    reported: BTreeSet<(Row, Dev)>,
    counts: [ReadErrorCount; MAX_DEVICES],
    /// Lists the slots that note missing pages of lost members. They are freed once that loss is noted.
    obsolete: Vec<NvSlot>,
    /// Lists the pages that members could not keep in an earlier life, until the array is ready.
    noted: Vec<BadPage>,
}

const fn key(page: BadPage) -> (Row, Dev) {
    (Row(page.page), page.dev)
}

const fn named(&(row, dev): &(Row, Dev)) -> BadPage {
    BadPage { dev, page: row.0 }
}

impl BadPages {
    /// Returns true if no page is listed.
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Returns true if a write changes nothing about any page.
    pub(super) fn is_quiet(&self) -> bool {
        self.pages.is_empty() && self.reported.is_empty()
    }

    /// Returns all pages, ascending by row.
    pub(super) fn all(&self) -> impl Iterator<Item = BadPage> {
        self.pages.keys().map(named)
    }

    /// Returns the state of a page; none if it is not listed.
    pub(super) fn state(&self, page: BadPage) -> Option<BadPageState> {
        self.pages.get(&key(page)).copied()
    }

    fn of_rows(&self, rows: Rows) -> impl Iterator<Item = BadPage> {
        self.pages.range((rows.first, Dev(0))..(rows.end(), Dev(0))).map(|(page, _)| named(page))
    }

    /// Returns true if a page of this member in these rows is listed.
    pub(super) fn has(&self, dev: Dev, rows: Rows) -> bool {
        self.of_rows(rows).any(|page| page.dev == dev)
    }

    /// Returns the members with a listed page in these rows.
    pub(super) fn members(&self, rows: Rows) -> DevSet {
        self.of_rows(rows).map(|page| page.dev).collect()
    }

    /// Returns true if a page in these rows is listed.
    pub(super) fn meets(&self, rows: Rows) -> bool {
        !self.is_empty() && self.of_rows(rows).next().is_some()
    }

    /// Returns the first of these rows that one plan can treat alike: those before a row with a listed page, or that row.
    pub(super) fn alike(&self, rows: Rows) -> Rows {
        match self.of_rows(rows).next().map(|page| page.page - rows.first.0) {
            Some(0) => Rows::new(rows.first, 1),
            Some(before) => Rows::new(rows.first, before as u32),
            None => rows,
        }
    }

    /// Returns the missing pages, ascending by row.
    pub(super) fn missing(&self) -> impl Iterator<Item = BadPage> {
        let missing = self.pages.iter().filter(|(_, state)| matches!(state, BadPageState::Missing(_)));
        missing.map(|(page, _)| named(page))
    }

    /// Returns the missing pages of these rows.
    pub(super) fn missing_of(&self, rows: Rows) -> Vec<BadPage> {
        let is_missing = |page: &BadPage| matches!(self.state(*page), Some(BadPageState::Missing(_)));
        self.of_rows(rows).filter(is_missing).collect()
    }

    /// Takes a page off the list, which its member holds now, and returns true if it was there.
    pub(super) fn remove(&mut self, page: BadPage) -> bool {
        self.reported.remove(&key(page));
        self.pages.remove(&key(page)).is_some()
    }

    /// Notes which pages members could not keep in an earlier life.
    pub(super) fn note_earlier(&mut self, pages: &[BadPage]) {
        self.noted = pages.to_vec();
    }

    /// Notes that the member cannot keep a page, and returns true if that is news.
    pub(super) fn give_up(&mut self, page: BadPage) -> bool {
        let state = self.pages.get_mut(&key(page)).filter(|state| **state == BadPageState::Unreadable);
        state.map(|state| *state = BadPageState::Unwritable).is_some()
    }

    /// Notes that no other member makes up a page, and returns true if that is news. The list keeps it for long only if it is
    /// missing.
    pub(super) fn note_lost(&mut self, page: BadPage) -> bool {
        if let Some(state) = self.pages.get_mut(&key(page)).filter(|state| **state == BadPageState::Unreadable) {
            *state = BadPageState::Lost;
        }
        // Forgetting reports costs no data: a lost page is reported once more at its next read.
        if self.reported.len() >= MAX_LISTED {
            self.reported.clear();
        }
        self.reported.insert(key(page))
    }

    /// Takes the lost pages of a row off the list, so that their members are asked anew, unless another page of it waits to be
    /// made anew.
    pub(super) fn ask_anew(&mut self, row: Row) {
        // The repair of the other page would read these, list them again and have them repaired, which would read the other
        // page: without end.
        let waits = |page: BadPage| self.state(page) == Some(BadPageState::Unreadable);
        let is_waited_for = self.of_rows(Rows::new(row, 1)).any(waits);
        if !is_waited_for {
            self.pages.retain(|page, state| page.0 != row || *state != BadPageState::Lost);
        }
    }

    /// Forgets that pages of these rows are lost and were reported, unless they are still listed: a write may have made them
    /// good.
    pub(super) fn note_written(&mut self, rows: Rows) {
        let is_written = |row: Row| (rows.first..rows.end()).contains(&row);
        self.pages.retain(|page, state| !is_written(page.0) || *state != BadPageState::Lost);
        let pages = &self.pages;
        self.reported.retain(|page| pages.contains_key(page) || !is_written(page.0));
    }

    /// Forgets all pages of a member that is lost.
    pub(super) fn forget(&mut self, dev: Dev) {
        for (_, state) in self.pages.extract_if(.., |page, _| page.1 == dev) {
            // The slot must outlive the crash until the member's loss is noted: before that a start would
            // trust the member.
            if let BadPageState::Missing(slot) = state {
                self.obsolete.push(slot);
            }
        }
        self.reported.retain(|page| page.1 != dev);
        self.counts[dev.index()] = ReadErrorCount::default();
    }

    /// Forgets what a member could not read, since another device that holds all of it has taken its place. Missing pages it
    /// does not hold either.
    pub(super) fn renew(&mut self, dev: Dev) {
        self.pages.retain(|page, state| page.1 != dev || matches!(state, BadPageState::Missing(_)));
        self.reported.retain(|page| page.1 != dev || self.pages.contains_key(page));
        self.counts[dev.index()] = ReadErrorCount::default();
    }

    /// Takes the slots that nobody needs once every loss is noted.
    pub(super) fn take_obsolete(&mut self) -> Vec<NvSlot> {
        std::mem::take(&mut self.obsolete)
    }

    /// Returns true if another page of a member can be listed, and none has to be forgotten for it.
    fn has_room(&self, dev: Dev) -> bool {
        self.pages.keys().filter(|page| page.1 == dev).count() < MAX_LISTED
    }

    /// Makes room for another page of a member, and returns true if there is some. A page that its member cannot keep may be
    /// forgotten: the next read finds it again.
    fn make_room(&mut self, dev: Dev) -> bool {
        if self.has_room(dev) {
            return true;
        }
        let mut of_member = self.pages.iter().filter(|(page, _)| page.1 == dev);
        let unwritable = of_member.find(|(_, state)| **state == BadPageState::Unwritable).map(|(page, _)| *page);
        unwritable.is_some_and(|page| self.pages.remove(&page).is_some())
    }

    /// Lists the missing page that an earlier life noted, and returns the slot that another note makes needless.
    ///
    /// # Errors
    /// If no array writes such a tag.
    pub(super) fn load(&mut self, slot: NvSlot, tag: &Tag, members: u8) -> Result<Option<NvSlot>, UnknownTag> {
        let row = Row(u64::from_le_bytes(tag[8..16].try_into().expect("eight bytes")));
        if tag[0] != VERSION || tag[2] >= members || row.0 >= Ext::MAX_DEVICE_PAGES {
            return Err(UnknownTag);
        }
        let earlier = self.pages.insert((row, Dev(tag[2])), BadPageState::Missing(slot));
        Ok(if let Some(BadPageState::Missing(slot)) = earlier { Some(slot) } else { None })
    }
}

impl RaidArray {
    /// Returns the pages that members cannot read or do not hold.
    pub fn unreadable(&self) -> Vec<BadPage> {
        self.members.bad.all().collect()
    }

    /// Counts the pages of a member that it could not keep when they were made anew.
    pub fn unwritable(&self, dev: Dev) -> u64 {
        let is_unwritable = |page: &BadPage| self.members.bad.state(*page) == Some(BadPageState::Unwritable);
        self.members.bad.all().filter(|page| page.dev == dev).filter(is_unwritable).count() as u64
    }

    /// Returns the pages that members do not hold, since a rebuild could not fill them in.
    pub fn missing(&self) -> impl Iterator<Item = BadPage> {
        self.members.bad.missing()
    }

    /// Takes in why an operation is stuck, before the operation is planned anew: members that did not do what they were
    /// asked, and pages that they could not read.
    #[cold]
    pub fn stuck(&mut self, op: OpId, devs: DevSet, out: &mut Out) {
        self.lose_all(devs, out);
        let members = self.config.geometry.member_set();
        let pages: Vec<_> = out.unreadable(op).iter().copied().filter(|page| members.contains(page.dev)).collect();
        for page in pages {
            self.list_unreadable(page, out);
        }
        self.flush_exposed(out);
    }

    fn list_unreadable(&mut self, page: BadPage, out: &mut Out) {
        let dev = page.dev;
        if self.members.is_lost(dev) || self.members.bad.state(page).is_some() {
            return;
        }
        let bad = &mut self.members.bad;
        // A lost page that clients ask for again and again counts once. The array keeps a member that it cannot spare.
        let errors = if bad.reported.contains(&key(page)) { 0 } else { bad.counts[dev.index()].count(out.now()) };
        // Dropping a member that the level cannot spare would cost all data to save one page.
        let is_too_many = errors > self.config.max_corrected && self.members.can_spare(dev);
        if is_too_many || !self.members.bad.make_room(dev) {
            // The report comes first, so that a log tells why the member was lost.
            out.report(PageReport { page, fate: PageFate::TooMany });
            return self.lose(dev, out);
        }
        self.members.bad.pages.insert(key(page), BadPageState::Unreadable);
        self.expose(page);
        // Recovery makes the rows consistent first; a repair before that could take a torn row for right.
        if self.ready {
            self.open_repair(page, out);
        }
    }

    /// Lists the pages that members could not keep in an earlier life, and opens their repairs. They count as no errors: a
    /// start costs no member.
    pub(super) fn list_noted(&mut self, out: &mut Out) {
        let geometry = &self.config.geometry;
        let (members, pages) = (geometry.member_set(), geometry.member_pages());
        for page in std::mem::take(&mut self.members.bad.noted) {
            let is_of_array = members.contains(page.dev) && page.page < pages;
            // A page that is listed is known better; what a member does not hold is filled in.
            if is_of_array
                && self.members.is_live(page.dev, Rows::new(Row(page.page), 1))
                && self.members.bad.has_room(page.dev)
            {
                self.members.bad.pages.insert(key(page), BadPageState::Unreadable);
                self.expose(page);
                self.open_noted_repair(page, out);
            }
        }
        self.flush_exposed(out);
    }

    /// Returns true if the NVRAM may note another missing page, now or later.
    pub(super) fn may_miss_more(&self) -> bool {
        (self.members.bad.missing().count() as u32) < self.config.nv_slots / MISSING_SHARE
    }

    /// Leaves a page of a member that is being filled missing, and plans the note of it. Returns false if no slot is free
    /// now.
    pub(super) fn leave_missing(&mut self, op: OpId, page: BadPage, out: &mut Out) -> bool {
        if let Some(BadPageState::Missing(_)) = self.members.bad.state(page) {
            return true;
        }
        // The note of the members' states must always find a slot, or a loss could not be noted.
        if self.own_slots().saturating_sub(NOTE_SLOTS + self.reserved) == 0 {
            return false;
        }
        let slot = self.slots.alloc().expect("there is room");
        let mut tag = [0; 24];
        (tag[0], tag[1], tag[2]) = (VERSION, KIND_MISSING, page.dev.0);
        tag[8..16].copy_from_slice(&page.page.to_le_bytes());
        let puts = out.puts(op, &[NvPut::tag(slot, tag)]);
        out.step(op, Step::NvCommit { puts, frees: List::EMPTY }, StepSet::EMPTY);
        let bad = &mut self.members.bad;
        bad.pages.insert(key(page), BadPageState::Missing(slot));
        // The rebuild reports the page here, so that the failing reads of hosts do not report it again.
        bad.reported.insert(key(page));
        out.report(PageReport { page, fate: PageFate::Missing });
        self.expose(page);
        true
    }

    /// Exposes the row of a lost page of data, if its intent is open: a cut could cost the page until that is cleared.
    fn expose(&mut self, BadPage { dev, page }: BadPage) {
        let (geometry, row) = (&self.config.geometry, Row(page));
        let is_data = geometry.data_set().contains(geometry.column(geometry.stripe_of(row).0, dev));
        // Parity is computed anew after a crash, so only a data page can be lost this way.
        if self.needs_log() && is_data && self.intents.contains(row) {
            self.exposed.push(row);
        }
    }
}
