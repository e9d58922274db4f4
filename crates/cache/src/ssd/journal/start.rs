//! Starts a life of a cache with a journal, or of its device: reads the log, or formats a new one.

use destage_plan::{Ext, NvHeld, NvPut, NvSlot, OpId, Out, PlacementStream, Row, Rows, Step, StepNo, StepSet, Tag};
use destage_raid::Geometry;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::lost_page_list::{LossNote, LostPageList};
use super::{CacheJournal, JournalTask, KIND_ENTRY, KIND_LOST, KIND_STATE, VERSION};
use crate::ssd::behind::row_of;
use crate::ssd::frames::{FrameNo, FrameTable};
use crate::ssd::log::{FrameFact, LogEntry, LogFormat, LogReplay, MetadataLog, ReplayedLog};

/// Bytes of the number of pages in what is noted of the log.
const PAGES_BYTES: usize = 6;
/// Pages of the log that are read, or made anew, by one operation.
// Formatting takes a step for each page, of which an operation has 64.
const PAGES: u32 = 32;

/// Names what the NVRAM says of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NotedLog {
    /// Nothing: the array was just made.
    #[default]
    Nothing,
    /// Says that the log must not be believed.
    Void,
    /// Says that the log can be believed.
    Valid,
    /// Says that the log can be believed and that there may be dirty pages.
    Dirty,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StartPhase {
    /// Before the start.
    #[default]
    Before,
    /// The log is read.
    Reading,
    /// There is no device.
    Lost,
    /// There is one, on which there is to be a log.
    Renewing,
    Working,
}

/// Holds what is being noted.
struct StateNote {
    noted: NotedLog,
    losses: LossNote,
    slot: NvSlot,
    frees: Vec<NvSlot>,
}

/// Tracks how far the start, or the change of a device, has come.
#[derive(Default)]
pub(super) struct JournalStart {
    phase: StartPhase,
    noted: NotedLog,
    /// The slot that says so.
    slot: Option<NvSlot>,
    noting: Option<StateNote>,
    /// The operation under way, and the life of the device in which it began.
    op: Option<(OpId, u32)>,
    missing: bool,
    /// The device may hold anything.
    must_format: bool,
    /// Holds what the NVRAM had of the log; the next field holds rows with an open intent.
    entries: Vec<(LogEntry, NvSlot)>,
    intents: Vec<Rows>,
    replay: Option<LogReplay>,
    format: Option<LogFormat>,
    next: u32,
    read: StepSet,
    was_settled: bool,
    /// Is true if the cache may have dirty pages by its kind.
    keeps_dirty: bool,
    /// Is true if there may be dirty pages now.
    dirty: bool,
    /// Keeps the pages that were lost with a device.
    pub(super) losses: LostPageList,
    /// Counts the pages of the log that are noted as durable.
    noted_pages: u64,
    /// There were dirty pages, and none is known.
    unknown: bool,
    /// A log was read.
    has_read: bool,
}

impl JournalStart {
    /// Returns true if the next start would believe nothing that is wrong.
    pub(super) const fn is_settled(&self) -> bool {
        if self.unknown || self.keeps_dirty && !self.losses.is_settled() {
            return false;
        }
        match self.phase {
            StartPhase::Before | StartPhase::Reading => false,
            StartPhase::Lost => matches!(self.noted, NotedLog::Void),
            // Of a device that was just made nothing is believed before something is noted.
            StartPhase::Renewing => match self.noted {
                NotedLog::Nothing => !self.must_format,
                NotedLog::Void => true,
                NotedLog::Valid | NotedLog::Dirty => false,
            },
            StartPhase::Working => true,
        }
    }

    /// Returns true if the next start would believe the log of a lost device.
    pub(super) const fn is_to_be_void(&self) -> bool {
        // None of the lost log's slots is freed before it is void. Without them
        // older entries of the log would name frames by what they held before.
        matches!(self.phase, StartPhase::Lost | StartPhase::Renewing)
            && matches!(self.noted, NotedLog::Valid | NotedLog::Dirty)
    }

    /// Returns true if the NVRAM says, and goes on saying, that there may be dirty pages.
    pub(super) const fn is_noted_dirty(&self) -> bool {
        // A note under way may say something else, so the answer is no until it has
        // ended.
        self.dirty && matches!(self.noted, NotedLog::Dirty) && self.noting.is_none()
    }

    pub(super) const fn keep_dirty(&mut self) {
        self.keeps_dirty = true;
    }

    pub(super) const fn keeps_dirty(&self) -> bool {
        self.keeps_dirty
    }

    /// Returns true if the NVRAM says, and goes on saying, that there are none.
    pub(super) const fn is_noted_clean(&self) -> bool {
        !self.dirty && !matches!(self.noted, NotedLog::Dirty) && self.noting.is_none()
    }

    pub(super) const fn set_dirty(&mut self, dirty: bool) {
        self.dirty = dirty;
    }

    pub(super) fn lost_dirty(&mut self, pages: impl IntoIterator<Item = u64>) {
        self.losses.lose(pages);
        // The settled state may change with the losses. Recording it here makes
        // `take_settled` report the next change only.
        self.was_settled = self.is_settled();
    }

    pub(super) const fn take_unknown(&mut self) -> bool {
        std::mem::replace(&mut self.unknown, false)
    }

    /// Returns true if something is to be told of lost pages; of a cache without dirty ones nothing is.
    #[inline]
    pub(super) fn has_losses_due(&self) -> bool {
        self.keeps_dirty && self.losses.is_due()
    }

    /// Returns true if a list of lost pages is to be noted and can be: what the log of a lost device needed is freed.
    #[inline]
    pub(super) fn may_list(&self) -> bool {
        if !self.has_losses_due() {
            return false;
        }
        let is_void =
            matches!(self.phase, StartPhase::Lost | StartPhase::Renewing) && matches!(self.noted, NotedLog::Void);
        self.op.is_none() && (is_void || matches!(self.phase, StartPhase::Working))
    }

    pub(super) const fn take_read(&mut self) -> bool {
        std::mem::replace(&mut self.has_read, false)
    }

    /// Returns true if that it has become so was [taken](Self::take_settled).
    pub(super) const fn was_settled(&self) -> bool {
        self.was_settled
    }

    /// Returns true once after the journal became settled. A note about a lost device after its loss unsettles
    /// it again.
    pub(super) const fn take_settled(&mut self) -> bool {
        let settled = self.is_settled();
        let was_settled = std::mem::replace(&mut self.was_settled, settled);
        settled && !was_settled
    }

    /// The device is lost; slots that are not needed any more.
    pub(super) fn lose(&mut self) -> Vec<NvSlot> {
        self.must_format = true;
        (self.replay, self.format) = (None, None);
        // The array has not started yet; what the log says is decided in `started`.
        if self.phase == StartPhase::Before {
            self.missing = true;
            return Vec::new();
        }
        // The log with the dirty entries was not read to its end. What was dirty is
        // unknown, and the start must say so.
        self.unknown |= self.phase == StartPhase::Reading && self.noted == NotedLog::Dirty;
        self.phase = StartPhase::Lost;
        self.was_settled = self.is_settled();
        std::mem::take(&mut self.entries).into_iter().map(|(_, slot)| slot).collect()
    }

    pub(super) fn replaced(&mut self) {
        (self.phase, self.next, self.format) = (StartPhase::Renewing, 0, None);
        self.was_settled = self.is_settled();
    }

    /// Returns true if there is nothing to do.
    #[inline]
    pub(super) fn is_at_rest(&self) -> bool {
        self.phase == StartPhase::Working && !self.has_losses_due() && self.dirty == (self.noted == NotedLog::Dirty)
    }

    /// The operation under way.
    pub(super) fn op(&self) -> Option<OpId> {
        self.op.map(|(op, _)| op)
    }

    /// Returns what the NVRAM is to say of the log.
    fn tag(&self, noted: NotedLog, losses: LossNote) -> Tag {
        let mut tag = [0; 24];
        (tag[0], tag[1]) = (VERSION, KIND_STATE);
        tag[3] = match losses {
            LossNote::None => 0,
            LossNote::Unlisted => 1,
            LossNote::Listed => 2,
        };
        tag[2] = match noted {
            // `Nothing` is written as void: once anything is noted the array is not
            // just made any more.
            NotedLog::Nothing | NotedLog::Void => 1,
            NotedLog::Valid => 2,
            NotedLog::Dirty => 3,
        };
        tag[4..4 + PAGES_BYTES].copy_from_slice(&self.noted_pages.to_le_bytes()[..PAGES_BYTES]);
        tag
    }

    /// Returns true if the log has more pages that are durable than is noted, so many.
    #[inline]
    pub(super) fn is_behind(&self, pages: u64) -> bool {
        pages > self.noted_pages
    }

    /// Returns true if nothing else is being noted, and there is a log.
    pub(super) fn may_note_pages(&self) -> bool {
        self.op.is_none() && self.phase == StartPhase::Working
    }

    /// Notes how many pages of the log are durable, in place of the last note: the tag, and the slot that it makes needless.
    /// None if something else is being noted.
    pub(super) fn note_pages(&mut self, pages: u64, slot: NvSlot) -> Option<(Tag, NvSlot)> {
        let earlier = self.slot.filter(|_| self.may_note_pages())?;
        (self.slot, self.noted_pages) = (Some(slot), pages);
        // An update of the list is noted with the list alone.
        Some((self.tag(self.noted, self.losses.noted_before()), earlier))
    }

    fn has_intent(&self, row: Row) -> bool {
        // They are in order.
        let behind = self.intents.partition_point(|rows| rows.first <= row);
        self.intents[..behind].last().is_some_and(|rows| row < rows.end())
    }
}

impl CacheJournal {
    /// Takes a slot that was in use when this life began; whether it is its own and understood.
    pub(in crate::ssd) fn load(&mut self, held: &NvHeld<'_>) -> bool {
        let NvHeld { slot, ref tag, .. } = *held;
        // State and entries have tags alone. Bytes beside them are no format of
        // ours.
        if !held.is_empty() {
            return false;
        }
        let in_use = match tag[0] {
            // Version 1 had no count of durable pages. It is still read, so arrays
            // made by it start.
            1 => 4,
            VERSION => 4 + PAGES_BYTES,
            _ => tag.len(),
        };
        // Unused bytes must be zero, so that a later version's fields are refused
        // instead of ignored.
        if tag[1] == KIND_STATE && in_use < tag.len() && tag[in_use..].iter().all(|byte| *byte == 0) {
            let noted = match tag[2] {
                1 => NotedLog::Void,
                2 => NotedLog::Valid,
                3 if self.start.keeps_dirty => NotedLog::Dirty,
                _ => return false,
            };
            match tag[3] {
                0 => {}
                1 if self.start.keeps_dirty => self.start.losses.load_note(LossNote::Unlisted),
                2 if self.start.keeps_dirty => self.start.losses.load_note(LossNote::Listed),
                _ => return false,
            }
            let mut pages = [0; 8];
            pages[..in_use - 4].copy_from_slice(&tag[4..in_use]);
            self.start.noted_pages = u64::from_le_bytes(pages);
            self.start.noted = noted;
            // Two notes at once cannot come from this code: each frees the one
            // before in its own commit.
            return self.start.slot.replace(slot).is_none();
        }
        let Ok(entry) = LogEntry::from_tag(tag, KIND_ENTRY) else { return false };
        self.start.entries.push((entry, slot));
        true
    }

    /// Returns true if a slot with this tag is one of the journal's.
    pub(in crate::ssd) const fn is_own(tag: &Tag) -> bool {
        matches!(tag[1], KIND_ENTRY | KIND_STATE)
    }

    /// Takes a slot that was in use when this life began, if it lists lost pages of an array of so many. Returns true if it is
    /// understood.
    pub(in crate::ssd) fn load_lost(&mut self, held: &NvHeld<'_>, array_pages: u64) -> bool {
        held.tag[1] == KIND_LOST && self.start.losses.load(held, array_pages)
    }

    /// A life begins, in which the intents of these rows are open.
    pub(in crate::ssd) fn started(&mut self, intents: &[Rows], page_bytes: u32) {
        self.page_bytes = page_bytes;
        let start = &mut self.start;
        start.intents = intents.to_vec();
        start.intents.sort_unstable_by_key(|rows| rows.first);
        start.phase = match start.noted {
            // A device that is missing at the start is a lost one; its log was not
            // read and may be out of date.
            _ if start.missing => StartPhase::Lost,
            NotedLog::Valid | NotedLog::Dirty => StartPhase::Reading,
            NotedLog::Nothing | NotedLog::Void => StartPhase::Renewing,
        };
        start.losses.loaded();
        start.dirty = start.noted == NotedLog::Dirty;
        start.unknown = start.losses.are_unknown() || start.missing && start.noted == NotedLog::Dirty;
        start.must_format |= start.noted == NotedLog::Void;
        if start.phase != StartPhase::Reading {
            // Entries of a log that is not read refer to nothing.
            self.dead.extend(std::mem::take(&mut start.entries).into_iter().map(|(_, slot)| slot));
        }
    }

    /// Begins the next step on the way to a log.
    #[inline(never)]
    pub(super) fn begin(
        &mut self,
        frames: &FrameTable,
        open: &mut impl FnMut(JournalTask, &mut Out) -> OpId,
        out: &mut Out,
    ) {
        let start = &mut self.start;
        // One step of the start at a time: each note decides what the next step may
        // assume.
        if start.op.is_some() {
            return;
        }
        let (part, noting) = match (start.phase, start.noted) {
            (StartPhase::Working, NotedLog::Valid) if start.dirty => (JournalTask::Note, Some(NotedLog::Dirty)),
            (StartPhase::Working, NotedLog::Dirty) if !start.dirty => (JournalTask::Note, Some(NotedLog::Valid)),
            (StartPhase::Working, noted) | (StartPhase::Lost | StartPhase::Renewing, noted @ NotedLog::Void)
                if start.has_losses_due() =>
            {
                (JournalTask::Note, Some(noted))
            }
            (StartPhase::Before | StartPhase::Working, _) | (StartPhase::Lost, NotedLog::Void) => return,
            (StartPhase::Reading, _) => (JournalTask::Read, None),
            (StartPhase::Lost, _) | (StartPhase::Renewing, NotedLog::Valid | NotedLog::Dirty) => {
                (JournalTask::Note, Some(NotedLog::Void))
            }
            // A new device may hold an older log of the same array. It is void
            // until every page of it is overwritten.
            (StartPhase::Renewing, NotedLog::Nothing) if start.must_format => (JournalTask::Note, Some(NotedLog::Void)),
            (StartPhase::Renewing, NotedLog::Void) if start.next < self.pages => (JournalTask::Format, None),
            // What was put for an earlier device is there, or never will be.
            (StartPhase::Renewing, _) if self.commit.is_some() || self.claims.are_put() => return,
            (StartPhase::Renewing, _) => (JournalTask::Note, Some(NotedLog::Valid)),
        };
        debug_assert!(start.phase == StartPhase::Working || !frames.is_enabled(), "there is no log");
        if let Some(noting) = noting {
            // Without the reserved slot the note waits for a turn; `settle` takes a
            // slot first thing.
            let Some(slot) = self.for_note.take() else { return };
            let frees = start.slot.into_iter().chain(std::mem::take(&mut self.dead)).collect();
            start.noting = Some(StateNote { noted: noting, losses: start.losses.note(), slot, frees });
        }
        start.op = Some((open(part, out), self.life));
    }

    pub(super) fn plan_start(&mut self, op: OpId, part: JournalTask, geometry: &Geometry, out: &mut Out) -> u64 {
        let shape = self.shape(geometry);
        let (dev, pages) = (self.dev, self.pages);
        let log_pages = self.log.as_ref().map(MetadataLog::next_page);
        let start = &mut self.start;
        if let Some(StateNote { noted, losses, slot, frees }) = &start.noting {
            let format = start.format.filter(|_| *noted == NotedLog::Valid).map(|format| format.next_page());
            start.noted_pages = log_pages.or(format).unwrap_or(0);
            let mut puts = vec![NvPut::tag(*slot, start.tag(*noted, *losses))];
            let mut frees = frees.clone();
            start.losses.plan(op, &mut puts, &mut frees, out);
            let (puts, frees) = (out.puts(op, &puts), out.slots(op, &frees));
            out.step(op, Step::NvCommit { puts, frees }, StepSet::EMPTY);
            return 0;
        }
        // The device may have been lost meanwhile.
        if start.op.is_none_or(|(_, life)| life != self.life) {
            return 0;
        }
        let count = PAGES.min(pages - start.next);
        match part {
            JournalTask::Read => {
                let ext = Ext::new(dev, start.next.into(), count as u16);
                start.read = out.step_notify(op, Step::MetaRead { ext }, StepSet::EMPTY);
                0
            }
            JournalTask::Format => {
                let format = match start.format {
                    Some(format) => format,
                    None => *start.format.insert(LogFormat::after(shape, 0, 0).expect("its pages were counted")),
                };
                let mut page = Vec::new();
                for place in start.next..start.next + count {
                    format.page(place, &mut page);
                    let bytes = out.bytes(op, &page);
                    let ext = Ext::new(dev, place.into(), 1);
                    out.step_placed(
                        op,
                        Step::MetaWrite { ext, bytes, fua: true },
                        PlacementStream::Journal,
                        StepSet::EMPTY,
                    );
                }
                u64::from(count)
            }
            _ => unreachable!("nothing else belongs to a start"),
        }
    }

    /// A step that has read pages of the log is done; whether it is one.
    pub(in crate::ssd) fn has_read(&mut self, op: OpId, step: StepNo, geometry: &Geometry, out: &Out) -> bool {
        if self.start.op() != Some(op) || !self.start.read.contains(step) {
            return false;
        }
        let shape = self.shape(geometry);
        let start = &mut self.start;
        start.read = StepSet::EMPTY;
        // The device was lost while it was read; its pages must not be believed.
        if start.phase != StartPhase::Reading {
            return true;
        }
        if start.next == 0 {
            start.replay = Some(LogReplay::new(shape).expect("its pages were counted"));
        }
        let pages = out.read_bytes(op, step).chunks_exact(shape.page_bytes as usize);
        for (page, bytes) in (start.next..).zip(pages) {
            // What cannot be is not read on: the log is made anew.
            if start.replay.as_mut().is_some_and(|replay| replay.page(page, bytes).is_err()) {
                start.replay = None;
            }
        }
        start.next += PAGES.min(self.pages - start.next);
        true
    }

    pub(super) fn start_done(&mut self, op: OpId, frames: &mut FrameTable, geometry: &Geometry) -> bool {
        let shape = self.shape(geometry);
        let start = &mut self.start;
        let Some((_, life)) = start.op.take_if(|(other, _)| *other == op) else { return false };
        if let Some(StateNote { noted, losses, slot, frees }) = start.noting.take() {
            (start.noted, start.slot) = (noted, Some(slot));
            self.freed.extend(frees);
            self.freed.extend(start.losses.noted(losses));
            if noted == NotedLog::Valid && start.phase == StartPhase::Renewing && life == self.life {
                let log = start.format.take().map_or_else(|| MetadataLog::new(shape), |format| Ok(format.log()));
                // Only now may frames be used: before this note a crash would have
                // left no log that describes them.
                self.work(log.expect("its pages were counted"), frames);
            }
            return true;
        }
        if life != self.life {
            return true;
        }
        match start.phase {
            StartPhase::Reading if start.next == self.pages => {
                let entries = std::mem::take(&mut start.entries);
                let replayed = start.replay.take().and_then(|mut replay| {
                    for (entry, slot) in &entries {
                        replay.nvram(*slot, *entry).ok()?;
                    }
                    let pages = start.noted_pages;
                    // A page that was durable, and is taken for torn, is damaged: what is newer than others is gone with it.
                    replay.end().ok().filter(|replayed| replayed.log.next_page() >= pages)
                });
                if let Some(replayed) = replayed {
                    self.replayed(replayed, frames, geometry);
                } else {
                    self.dead.extend(entries.into_iter().map(|(_, slot)| slot));
                    // A damaged log costs the cache's content, not the array:
                    // members have every clean page. Dirty pages are reported as
                    // unknown.
                    (start.phase, start.next, start.must_format) = (StartPhase::Renewing, 0, true);
                    start.unknown = start.noted == NotedLog::Dirty;
                }
            }
            StartPhase::Renewing => start.next += PAGES.min(self.pages - start.next),
            _ => {}
        }
        true
    }

    /// The log is read: the cache has the pages that it names, but for those of rows whose intent is open.
    fn replayed(&mut self, replayed: ReplayedLog, frames: &mut FrameTable, geometry: &Geometry) {
        let mut entries: Vec<_> = replayed.entries().filter(|entry| entry.fact != FrameFact::Free).collect();
        // In the order in which they came.
        entries.sort_unstable_by_key(|entry| entry.sequence);
        let mut newest: HashMap<u64, u32, FixedState> = HashMap::default();
        // Two frames may name the same page after a crash between coming and
        // leaving. The entry with the larger sequence is the page.
        newest.extend(entries.iter().filter_map(|entry| Some((entry.fact.page()?, entry.frame))));
        self.dead.extend(replayed.free);
        self.work(replayed.log, frames);
        for entry in entries {
            let page = entry.fact.page().expect("it is not free");
            let row = row_of(geometry, page);
            let is_newest = newest.get(&page) == Some(&entry.frame);
            if self.start.keeps_dirty && is_newest && matches!(entry.fact, FrameFact::Dirty { .. }) {
                let (frame, checksum) = (FrameNo::new(entry.frame), entry.fact.checksum());
                // It was written since it was lost.
                self.start.losses.heal(page);
                // A dirty page that does not fit its set belongs to another
                // geometry. It cannot be written back, so the start reports unknown
                // losses.
                self.start.unknown |= !frames.adopt_dirty(frame, page, frames.set_of(row), checksum);
                continue;
            }
            // A row with an open intent may have changed on the members after the
            // page was logged, so its clean pages are dropped.
            let holds = matches!(entry.fact, FrameFact::Clean { .. }) && is_newest && !self.start.has_intent(row);
            if frames.adopt(FrameNo::new(entry.frame), page, holds.then_some(row)) {
                frames.keep_checksum(FrameNo::new(entry.frame), entry.fact.checksum());
            }
        }
        // The memory of intents is needed for replay alone.
        self.start.intents = Vec::new();
        self.start.has_read = true;
    }

    fn work(&mut self, log: MetadataLog, frames: &mut FrameTable) {
        self.log = Some(log);
        self.start.phase = StartPhase::Working;
        frames.enable();
    }
}
