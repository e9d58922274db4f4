//! Records which page each frame of a cache holds, so that it outlives a power failure (specs §9.5, §9.7). The
//! record is the metadata [`log`](super::log) on the SSD and the entries that wait for it in the NVRAM.
//!
//! # Entries and their time
//!
//! * A page in a frame: logged some time after it came, many at once, after an SSD flush that began when they
//!   were there. If power fails before, the page is forgotten and read again.
//! * A free frame: logged before anything else is written into it ([`FrameClaims`]).
//!
//! # Invariants
//!
//! * The members also have every page that the log calls clean.
//! * Whatever changes a page on a member opens the intent of its row first. A start drops every page of a row
//!   with an open intent.
//! * An intent is [held](CacheJournal::holds) while the log names a page of its row that has left its frame. It
//!   is also held while the log of a lost device may still be believed.
//!
//! # Dirty pages
//!
//! * A dirty page is logged before its write is answered, and once it is durable in its frame. Nothing else
//!   knows that the frame has it.
//! * A start believes it whatever intents are open. So nothing may change it, and it must not leave its frame,
//!   before it is written back.
//! * Then it is logged as *clean*, once its frame is durable, and leaves as others do.
//! * Before the first dirty page the NVRAM notes that there may be some, until a clean stop has written all
//!   back. So a start without the device knows of the loss.
//!
//! # Lives of a device
//!
//! * A slot of the NVRAM says whether the log is valid.
//! * A lost device's log is noted as void before an intent is cleared.
//! * A new device's log is formatted first and noted as valid afterwards.
//! * A note of lost dirty pages stays until a start has accepted the loss.

mod claims;
mod dirty;
mod lost_page_list;
mod lost_pages;
mod share;
mod start;

use std::collections::VecDeque;

use destage_plan::{Dev, DevSet, Ext, NvPut, NvSlot, OpId, Out, PlacementStream, Row, Step, StepNo, StepSet};
use destage_raid::Geometry;
use destage_raid::array::RaidArray;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::behind::row_of;
use super::frames::{FilledFrame, FrameNo, FrameTable};
use super::log::{FrameFact, LogEntry, LogShape, MetadataLog};
use claims::FrameClaims;
pub(super) use share::{LOG, bytes_per_page, log_pages, min_pages};
use share::{entries, least};
use start::JournalStart;

/// Entries that are put at once, at most.
// A commit costs one write of the NVRAM, however many entries it has.
const PUTS: usize = 64;
/// Pages that came before the device is flushed for them, and they are told of.
// Logging late is safe: a page whose entry is lost is read again. So one flush
// serves 32 pages.
const ARRIVED: usize = 32;

/// Versions what is noted of the log; in version 1 its pages were not.
const VERSION: u8 = 2;
const KIND_ENTRY: u8 = RaidArray::kind_above(2);
const KIND_STATE: u8 = RaidArray::kind_above(3);
const KIND_LOST: u8 = RaidArray::kind_above(4);

/// Names what an operation of the journal's own does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JournalTask {
    /// Reads pages of the log.
    Read,
    /// Makes pages of the log anew.
    Format,
    /// Notes whether the log is valid.
    Note,
    /// Has the device flushed, so that what came can be told of.
    Flush,
    /// Puts entries into the NVRAM, and frees slots.
    Commit,
    /// Writes a page of the log.
    Page,
}

/// The device is being flushed for what came into it, and for what is written back and may not be durable
/// there.
struct DeviceFlush {
    op: OpId,
    life: u32,
    came: Vec<FilledFrame>,
    landed: Vec<FilledFrame>,
}

/// Entries that are being put, and slots that are being freed.
struct EntryCommit {
    op: OpId,
    life: u32,
    frames: Vec<(FrameNo, Option<u64>)>,
    landed: Vec<FilledFrame>,
    entries: Vec<(LogEntry, NvSlot)>,
    frees: Vec<NvSlot>,
}

/// The journal of a cache.
pub(crate) struct CacheJournal {
    dev: Dev,
    pages: u32,
    frames: u32,
    page_bytes: u32,
    start: JournalStart,
    log: Option<MetadataLog>,
    /// Lives of the device so far.
    life: u32,
    /// Slots that hold nothing and are not given back, those that hold what is not needed any more, and those
    /// that have been freed.
    spare: Vec<NvSlot>,
    /// One more that holds nothing, for the next note: that the log of a lost device is void frees the others.
    for_note: Option<NvSlot>,
    dead: Vec<NvSlot>,
    freed: Vec<NvSlot>,
    claims: FrameClaims,
    /// Frames that are to be logged as free, and those of them that nobody is about to.
    held: HashMap<FrameNo, Row, FixedState>,
    left: Vec<FrameNo>,
    /// Counts the held frames of each row; the next field lists rows that have none left.
    rows: HashMap<Row, u32, FixedState>,
    let_go: Vec<Row>,
    /// Pages that are written back, for which the device is to be flushed, and those that can be told of as
    /// clean, when the list of lost pages has been [told](LostPageList::number) that they are not on it.
    landed: Vec<FilledFrame>,
    tells: VecDeque<(FilledFrame, u64)>,
    /// Lists the dirty pages of which the log is to have the checksums.
    marks: Vec<FilledFrame>,
    /// Is the running flush of the device; the next field holds what the last one made durable.
    flush: Option<DeviceFlush>,
    flushed: Vec<FilledFrame>,
    commit: Option<EntryCommit>,
    /// The page of the log that is being written, and its bytes.
    page: Option<(OpId, u32)>,
    place: u32,
    bytes: Vec<u8>,
    /// All is to be told at once.
    hurries: bool,
}

/// Slots of the NVRAM that the journal of a cache of so many pages takes.
pub(super) const fn slots(pages: u64) -> u32 {
    // Half of the slots serves entries of the log. The other half holds a list of
    // lost pages, which may take a quarter, and the list that replaces it.
    if pages < 256 { 4 * pages as u32 + 16 } else { 1_040 }
}

impl CacheJournal {
    /// For these frames, with a log of so many pages.
    pub(super) fn new(frames: &FrameTable, pages: u64) -> Self {
        Self {
            dev: frames.dev(),
            pages: pages as u32,
            frames: frames.len(),
            page_bytes: 0,
            start: JournalStart::default(),
            log: None,
            life: 0,
            spare: Vec::new(),
            for_note: None,
            dead: Vec::new(),
            freed: Vec::new(),
            claims: FrameClaims::default(),
            held: HashMap::default(),
            left: Vec::new(),
            rows: HashMap::default(),
            let_go: Vec::new(),
            landed: Vec::new(),
            tells: VecDeque::new(),
            marks: Vec::new(),
            flush: None,
            flushed: Vec::new(),
            commit: None,
            page: None,
            place: 0,
            bytes: Vec::new(),
            hurries: false,
        }
    }

    fn shape(&self, geometry: &Geometry) -> LogShape {
        let Self { pages, frames, page_bytes, .. } = *self;
        // At least two pages stay out of use. So no page is overwritten that says
        // what no other page says.
        let usage_max = (u64::from(pages) * 9 / 10).clamp(1, u64::from(pages) - 2) as u32;
        let usage_max = usage_max.max(least(frames.into(), entries(page_bytes)) as u32 - 2);
        LogShape {
            page_bytes,
            pages,
            usage_max,
            entries: entries(page_bytes),
            frames,
            array_pages: geometry.data_pages(),
        }
    }

    /// Takes note of what left its frame.
    #[inline]
    fn drain(&mut self, frames: &mut FrameTable, geometry: &Geometry) {
        // Called for each event; the check stays inline and the loop out of line.
        if !frames.left().is_empty() {
            self.note_left(frames, geometry);
        }
    }

    fn note_left(&mut self, frames: &mut FrameTable, geometry: &Geometry) {
        for (frame, page) in frames.take_left() {
            let row = row_of(geometry, page);
            self.held.insert(frame, row);
            *self.rows.entry(row).or_default() += 1;
            self.left.push(frame);
        }
    }

    /// Takes note that the log durably calls a frame free.
    fn is_logged(&mut self, frame: FrameNo, frames: &mut FrameTable) {
        frames.left_is_logged(frame);
        let Some(row) = self.held.remove(&frame) else { return };
        self.left.retain(|other| *other != frame);
        let count = self.rows.get_mut(&row).expect("it is counted");
        *count -= 1;
        if *count == 0 {
            self.rows.remove(&row);
            self.let_go.push(row);
        }
    }

    /// An entry is in a slot.
    fn put(&mut self, entry: LogEntry, slot: NvSlot, life: u32) {
        match &mut self.log {
            Some(log) if life == self.life => self.dead.extend(log.put(entry, Some(slot))),
            // An entry of an earlier life says nothing of the new device. Its slot
            // is freed with the next commit.
            _ => self.dead.push(slot),
        }
    }

    /// Returns true if the operation may write a frame that it took. If the log has to say first that the frame
    /// is free, the operation gets a slot for that entry.
    pub(super) fn claim(&mut self, op: OpId, frame: FrameNo, frames: &mut FrameTable, geometry: &Geometry) -> bool {
        self.drain(frames, geometry);
        if !frames.is_left(frame) {
            return true;
        }
        // Without a slot the frame cannot be retracted, so the cache does without
        // this frame rather than wait.
        let Some(slot) = self.spare.pop() else { return false };
        self.left.retain(|other| *other != frame);
        self.claims.add(op, frame, slot);
        true
    }

    /// Returns true if any frame can be [claimed](Self::claim).
    pub(super) fn can_claim(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Plans what an operation has to log before it writes the frames that it has claimed; the steps after
    /// which it may.
    pub(super) fn plan_claims(&mut self, op: OpId, out: &mut Out) -> StepSet {
        match &mut self.log {
            Some(log) => self.claims.plan(op, self.life, log, out),
            None => StepSet::EMPTY,
        }
    }

    /// A step is done; whether it is one of these.
    pub(super) fn claim_done(&mut self, op: OpId, step: StepNo, frames: &mut FrameTable) -> bool {
        let Some((life, done)) = self.claims.done(op, step) else { return false };
        for (entry, slot) in done {
            self.put(entry, slot, life);
            if life != self.life {
                continue;
            }
            match entry.fact {
                FrameFact::Dirty { .. } => frames.dirty_is_logged(FrameNo::new(entry.frame)),
                _ => self.is_logged(FrameNo::new(entry.frame), frames),
            }
        }
        true
    }

    /// Gives up the claims of an operation that are not logged.
    pub(super) fn unclaim(&mut self, op: OpId, frames: &FrameTable) {
        for (frame, slot) in self.claims.drop_all(op) {
            self.spare.push(slot);
            if frames.is_left(frame) && self.held.contains_key(&frame) {
                self.left.push(frame);
            }
        }
    }

    /// Returns true if the intent of a row must stay open.
    pub(super) fn holds(&self, row: Row, frames: &FrameTable, geometry: &Geometry) -> bool {
        // `left` is looked at too, since frames may have left since the last drain
        // of the table.
        let left = |(_, page): &(FrameNo, u64)| row_of(geometry, *page) == row;
        !self.start.is_settled() || self.rows.contains_key(&row) || frames.left().iter().any(left)
    }

    /// Returns true if the journal lets requests be served.
    pub(super) const fn is_recovered(&self) -> bool {
        self.start.is_settled()
    }

    /// Returns true if everything is logged, in the NVRAM or on the SSD.
    pub(super) fn is_clean(&self, frames: &FrameTable) -> bool {
        let told = self.held.is_empty() && frames.left().is_empty() && frames.arrived() == 0 && self.flushed.is_empty();
        let told = told && self.landed.is_empty() && self.tells.is_empty() && self.marks.is_empty();
        let idle = self.commit.is_none() && self.flush.is_none() && self.page.is_none() && self.dead.is_empty();
        let told = told && !self.is_behind() && !self.start.has_losses_due();
        // The intents that were held until it was are let go with the next turn.
        let is_settled = self.start.is_settled() && self.start.was_settled();
        is_settled && (self.log.is_none() || told) && idle && self.let_go.is_empty()
    }

    /// Gives back what it does not need any more.
    pub(super) fn settle(&mut self, array: &mut RaidArray, out: &mut Out) {
        self.hurries = array.is_cleaning();
        // Slots are given back here, where the array is at hand, because completion
        // handlers have no access to it.
        if !self.freed.is_empty() {
            self.freed.drain(..).for_each(|slot| array.give_slot(slot, out));
        }
        if !self.let_go.is_empty() {
            self.let_go.drain(..).for_each(|row| array.let_go(row, out));
        }
        if self.start.take_settled() {
            // Recovery is over: intents that were kept only because the log might
            // be believed can go now, all at once.
            array.let_all_go(out);
        }
        // One slot is set aside for the note that voids a log. That note is what
        // frees all others, so it must never have to wait for one.
        if self.for_note.is_none() {
            self.for_note = array.take_slot();
        }
        let most = slots(self.frames.into()) as usize / 4;
        if self.start.may_list() {
            self.prepare_list(array, most);
        }
        while self.spare.len() < PUTS.min(most)
            && let Some(slot) = array.take_slot()
        {
            self.spare.push(slot);
        }
    }

    /// Prepares a list of lost pages, with slots for it.
    #[cold]
    #[inline(never)]
    fn prepare_list(&mut self, array: &mut RaidArray, most: usize) {
        let take = |slots| {
            let has_room = array.slots_left() as usize >= slots;
            (0..if has_room { slots } else { 0 }).filter_map(|_| array.take_slot()).collect()
        };
        // Twice as many are in use while one list takes the place of another; the log needs half of all.
        self.start.losses.prepare(self.page_bytes, most, take);
    }

    /// Begins what is due; operations of its own are opened by `open`.
    pub(super) fn turn(
        &mut self,
        frames: &mut FrameTable,
        geometry: &Geometry,
        out: &mut Out,
        mut open: impl FnMut(JournalTask, &mut Out) -> OpId,
    ) {
        self.drain(frames, geometry);
        if !self.start.is_at_rest() {
            self.begin(frames, &mut open, out);
        }
        if self.commit.is_none() && self.may_commit() {
            self.begin_commit(frames, &mut open, out);
        }
        if self.log.is_some() && self.flush.is_none() {
            // A clean stop has to flush what little came; normal work waits until a
            // flush is worth its cost.
            let enough = if self.hurries { 1 } else { ARRIVED.min(self.frames as usize / 4).max(1) };
            if frames.arrived() >= enough || !self.landed.is_empty() {
                let (came, landed) = (frames.take_arrived(), std::mem::take(&mut self.landed));
                self.flush = Some(DeviceFlush { op: open(JournalTask::Flush, out), life: self.life, came, landed });
            }
        }
        let freeing = self.commit.as_ref().is_some_and(|commit| !commit.frees.is_empty());
        if self.page.is_none()
            && self.dead.is_empty()
            && !freeing
            && self.log.as_ref().is_some_and(MetadataLog::is_full)
        {
            self.seal(frames, &mut open, out);
        }
    }

    /// Returns true if it is to be noted now how many pages of the log are durable.
    fn notes_pages(&self) -> bool {
        self.hurries && self.is_behind() && self.for_note.is_some() && self.start.may_note_pages()
    }

    /// Returns true if the NVRAM does not say of all pages of the log that they are durable.
    fn is_behind(&self) -> bool {
        self.log.as_ref().is_some_and(|log| self.start.is_behind(log.next_page()))
    }

    /// Returns true if there is anything to put or free.
    fn may_commit(&self) -> bool {
        let told = self.left.is_empty() && self.tells.is_empty() && self.flushed.is_empty() && self.marks.is_empty();
        if told && self.dead.is_empty() && !self.notes_pages() {
            return false;
        }
        // While a start could believe the lost log none of its slots is freed:
        // without them the log would name frames by older entries.
        !self.start.is_to_be_void()
    }

    /// Begins to put what is to be told, and to free what is not needed.
    #[inline(never)]
    fn begin_commit(
        &mut self,
        frames: &mut FrameTable,
        open: &mut impl FnMut(JournalTask, &mut Out) -> OpId,
        out: &mut Out,
    ) {
        let (mut told, mut landed) = (Vec::new(), Vec::new());
        if self.log.is_some() {
            // Some are left for operations that write frames.
            let most = PUTS.min(self.spare.len().div_ceil(2));
            // Frames that left come first, since their rows' intents are held until
            // they are logged.
            let left = self.left.len().min(most);
            told.extend(self.left.drain(..left).map(|frame| (frame, None)));
            while landed.len() < most - left
                && let Some((came, _)) = self.tells.pop_front_if(|(_, number)| self.start.losses.has_told(*number))
            {
                landed.push(came);
            }
            while told.len() + landed.len() < most
                && let Some(came) = self.flushed.pop()
            {
                told.extend(frames.log_page(came).map(|(frame, page)| (frame, Some(page))));
            }
        }
        // A commit that only frees is put off until it frees 64 slots, or until
        // slots or a page of the log are waited for.
        let many = self.hurries || self.spare.len() < PUTS / 4 || self.log.as_ref().is_none_or(MetadataLog::is_full);
        if told.is_empty()
            && landed.is_empty()
            && (self.marks.is_empty() || self.spare.is_empty())
            && (self.dead.is_empty() || !many && self.dead.len() < PUTS)
            && !self.notes_pages()
        {
            return;
        }
        let frees = std::mem::take(&mut self.dead);
        let op = open(JournalTask::Commit, out);
        self.commit = Some(EntryCommit { op, life: self.life, frames: told, landed, entries: Vec::new(), frees });
    }

    /// Makes a page of the log.
    #[inline(never)]
    fn seal(&mut self, frames: &mut FrameTable, open: &mut impl FnMut(JournalTask, &mut Out) -> OpId, out: &mut Out) {
        let Some(log) = &mut self.log else { return };
        match log.seal(&mut self.bytes) {
            Ok(Some(place)) => {
                self.place = place;
                self.page = Some((open(JournalTask::Page, out), self.life));
            }
            Ok(None) => {}
            // It has room for an entry of each frame: this does not happen. If it does, the cache is as one
            // whose log is lost.
            Err(_) => {
                self.lose(DevSet::one(self.dev));
                frames.lose();
            }
        }
    }

    /// Plans an operation of its own; the pages that it writes.
    pub(super) fn plan(
        &mut self,
        op: OpId,
        part: JournalTask,
        frames: &mut FrameTable,
        geometry: &Geometry,
        out: &mut Out,
    ) -> u64 {
        let mut pages = 0;
        match part {
            JournalTask::Commit => self.plan_commit(op, frames, out),
            JournalTask::Flush => {
                // The device may have been lost since the flush was opened. A flush
                // of the new one would vouch for pages of the old.
                if self.flush.as_ref().is_some_and(|flush| flush.life == self.life) && self.log.is_some() {
                    out.step(op, Step::FlushDev { dev: self.dev }, StepSet::EMPTY);
                }
            }
            JournalTask::Page => {
                if self.page.is_some_and(|(_, life)| life == self.life) && self.log.is_some() {
                    let bytes = out.bytes(op, &self.bytes);
                    let ext = Ext::new(self.dev, self.place.into(), 1);
                    out.step_placed(
                        op,
                        Step::MetaWrite { ext, bytes, fua: true },
                        PlacementStream::Journal,
                        StepSet::EMPTY,
                    );
                    pages = 1;
                }
            }
            JournalTask::Read | JournalTask::Format | JournalTask::Note => {
                pages = self.plan_start(op, part, geometry, out);
            }
        }
        out.close(op);
        pages
    }

    fn plan_commit(&mut self, op: OpId, frames: &mut FrameTable, out: &mut Out) {
        let Some(commit) = &mut self.commit else { unreachable!("something is being put") };
        let mut puts = Vec::new();
        if let Some(log) = self.log.as_mut().filter(|_| commit.life == self.life) {
            for (frame, page) in std::mem::take(&mut commit.frames) {
                // A page may have left meanwhile, and another one come.
                let fact = frames.fact(frame);
                // The operation was opened earlier than it is planned; only what is
                // still true is put.
                let holds = match page {
                    Some(page) => matches!(fact, FrameFact::Clean { page: now, .. } if now == page),
                    None => fact == FrameFact::Free && frames.is_left(frame),
                };
                if !holds {
                    continue;
                }
                // What was told of it as dirty since, with an earlier sequence, must hold.
                if page.is_some() && self.start.keeps_dirty() && !frames.is_clean(frame) {
                    continue;
                }
                let Some(slot) = self.spare.pop() else {
                    match page {
                        Some(_) => {}
                        None => self.left.push(frame),
                    }
                    continue;
                };
                let entry = LogEntry { frame: frame.number(), sequence: log.next_sequence(), fact };
                puts.push(NvPut::tag(slot, entry.tag(KIND_ENTRY)));
                commit.entries.push((entry, slot));
            }
            while !self.spare.is_empty()
                && let Some(came) = self.marks.pop()
            {
                let Some((frame, page)) = frames.log_marked(came) else { continue };
                let slot = self.spare.pop().expect("there are some");
                let fact = FrameFact::Dirty { page, checksum: frames.checksum(frame) };
                let entry = LogEntry { frame: frame.number(), sequence: log.next_sequence(), fact };
                puts.push(NvPut::tag(slot, entry.tag(KIND_ENTRY)));
                commit.entries.push((entry, slot));
            }
            for came in std::mem::take(&mut commit.landed) {
                // Zero is below every update's number, so the entry goes as soon as
                // there is a slot.
                if self.spare.is_empty() {
                    self.tells.push_back((came, 0));
                    continue;
                }
                // There may be a newer version meanwhile.
                let Some((frame, page)) = frames.log_landed(came) else { continue };
                let slot = self.spare.pop().expect("there are some");
                let fact = FrameFact::Clean { page, checksum: frames.checksum(frame) };
                let entry = LogEntry { frame: frame.number(), sequence: log.next_sequence(), fact };
                puts.push(NvPut::tag(slot, entry.tag(KIND_ENTRY)));
                commit.entries.push((entry, slot));
            }
        }
        // Slots that kept what is in a page are freed: without them the page has to be there.
        let pages = self.log.as_ref().map_or(0, MetadataLog::next_page);
        if self.start.is_behind(pages)
            && let Some(slot) = self.for_note
            && let Some((tag, earlier)) = self.start.note_pages(pages, slot)
        {
            self.for_note = None;
            puts.push(NvPut::tag(slot, tag));
            commit.frees.push(earlier);
        }
        let (puts, frees) = (out.puts(op, &puts), out.slots(op, &commit.frees));
        out.step(op, Step::NvCommit { puts, frees }, StepSet::EMPTY);
    }

    /// An operation of its own has ended; whether it was one.
    #[inline]
    pub(super) fn done(&mut self, op: OpId, frames: &mut FrameTable, geometry: &Geometry) -> bool {
        let is = |other: Option<OpId>| other == Some(op);
        let own = is(self.commit.as_ref().map(|commit| commit.op))
            || is(self.flush.as_ref().map(|flush| flush.op))
            || is(self.page.map(|page| page.0))
            || is(self.start.op());
        own && self.own_done(op, frames, geometry)
    }

    fn own_done(&mut self, op: OpId, frames: &mut FrameTable, geometry: &Geometry) -> bool {
        if let Some(commit) = self.commit.take_if(|commit| commit.op == op) {
            for (entry, slot) in commit.entries {
                self.put(entry, slot, commit.life);
                match entry.fact {
                    _ if commit.life != self.life => {}
                    FrameFact::Free => self.is_logged(FrameNo::new(entry.frame), frames),
                    FrameFact::Dirty { .. } => {}
                    _ if self.start.keeps_dirty() => frames.landed_is_logged(FrameNo::new(entry.frame)),
                    _ => {}
                }
            }
            self.freed.extend(commit.frees);
            return true;
        }
        if let Some(flush) = self.flush.take_if(|flush| flush.op == op) {
            if flush.life == self.life {
                self.flushed.extend(flush.came);
                // A page may be called clean only after the list of lost pages has
                // dropped it; the number says when that is.
                let number = self.start.losses.number();
                self.tells.extend(flush.landed.into_iter().map(|came| (came, number)));
            }
            return true;
        }
        if let Some((_, life)) = self.page.take_if(|page| page.0 == op) {
            if let Some(log) = self.log.as_mut().filter(|_| life == self.life) {
                // The log asks for the present facts of entries that it writes
                // again, so the directory is in memory once.
                log.written(|frame, _| frames.fact(FrameNo::new(frame)), &mut self.dead);
            }
            return true;
        }
        self.start_done(op, frames, geometry)
    }

    /// The device is lost.
    pub(super) fn lose(&mut self, devs: DevSet) {
        if !devs.contains(self.dev) {
            return;
        }
        // The life is raised first, so that everything in flight for the old device
        // is recognised when it ends.
        self.life += 1;
        // Slots that only the lost log needed can go, but not before the log is
        // noted as void (`is_to_be_void`).
        if let Some(log) = self.log.take() {
            self.dead.extend(log.slots());
        }
        self.dead.extend(self.start.lose());
        self.held.clear();
        self.rows.clear();
        self.left.clear();
        self.flushed.clear();
        self.landed.clear();
        self.tells.clear();
        self.marks.clear();
    }

    /// A device stands in the lost one's place.
    pub(super) fn replaced(&mut self) {
        self.start.replaced();
    }
}
