//! Write-back: what is written goes to the SSD alone, and to the array when room is needed or much is dirty (WB,
//! specs §9.1, §9.8.17).
//!
//! A write is answered when its pages are durable on the SSD, or will be after a flush that the host asks for, and
//! when the metadata log or the NVRAM says that they are there: a cut costs nothing of what the SSD holds, and members
//! can be lost and filled as without a cache. The SSD's loss costs what is dirty. That is the promise of this cache,
//! and of every other that answers from a single device. What was lost so is not answered with what was there before:
//! pages that are known to be lost fail until they are written again, and where it is not known which they are, a
//! start is refused until all are [accepted](destage_raid::array::ArrayConfig::accepted_losses) as lost.
//!
//! # What is where
//!
//! The newest version of a dirty page is in its frame, and the parity of its row covers what its member has. So the
//! array serves such rows, and makes them consistent and whole, as it does those of which an
//! [upper layer](crate::write_cache) of the NVRAM has the newest versions: by their [`Sources`](destage_raid::array::Sources).
//!
//! # Who waits for whom
//!
//! * A write waits until its set has room for each of its pages, be all its other frames clean, and holds no claim
//!   meanwhile ([`enter`]). Pages that are dirty, or wanted by a write that was let in, are never more than a set has
//!   frames, so that each of them finds one: all others become clean, and leave, without regard to any write.
//! * A page that is written back has no newer version before that is done.
//! * A frame leaves once it is logged as clean ([`journal`]), or as free if its page was overwritten past the cache; a flush of
//!   the host waits for that ([`passed`]).

mod dirty;
mod enter;
mod lost_page_writes;
mod passed;
mod registered;
mod room;
mod versions;

use std::collections::VecDeque;

use destage_plan::{
    Buf, Claim, Control, DevSet, DeviceChange, Event, Frag, HostOp, NvHeld, OpId, Out, PageChecksums, PageFate,
    PageRange, Row, StepNo, StepOutcome, StepSet,
};
use destage_raid::array::{AbsorbedPages, DegradedRead, RaidArray, ReadLoss, StripeSegment};
use destage_raid::{Geometry, RaidLevel};
use foldhash::fast::FixedState;
use hashbrown::HashSet;

use super::copies::{CopyCache, WholeReader};
use super::frames::{FrameNo, FrameTable};
use super::journal::{self, CacheJournal};
use super::write_through::ThroughRule;
use crate::{
    BadCachePage, CacheOperations, HostCache, HostCacheStatus, ReadPages, RequestAdmission, StaleParity, WriteStage,
};
pub(crate) use dirty::DESTAGED_STRIPES;
use dirty::{DirtyPages, WriteBackNeed, place};
use enter::{PartialRead, PlacedPage, StoreWork, WaitingStore};
use lost_page_writes::LostPageWrites;
use passed::PassedPages;
use room::SetRoom;

/// Tells at which part of the cutoff write-backs begin to make way for a run that will pass by, and a run passes by already if
/// much is dirty.
const NEARS_CUTOFF: u64 = 8;

/// Names what an operation of the cache's own does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteBackTask {
    /// Reports what is in the cache.
    Journal(journal::JournalTask),
    /// Trims what became free.
    Trim,
    /// Makes lost pages durable that were written again.
    Renew,
}

/// The cache.
pub(crate) struct WriteBack {
    copies: CopyCache<ThroughRule>,
    dirty: DirtyPages,
    room: SetRoom,
    /// Every write is durable when it is answered.
    every_write: bool,
    /// Writes that were not let in, or not all of them.
    waiting: VecDeque<WaitingStore>,
    /// By operation.
    stores: Vec<Option<StoreWork>>,
    /// Lists to be used again.
    spare: Vec<Vec<PlacedPage>>,
    /// Parts of pages, of which the rest is being read, and pages for which there is no frame yet.
    reading: Vec<PartialRead>,
    entering: VecDeque<(OpId, AbsorbedPages)>,
    /// The frames that each operation was told of.
    named: Vec<Vec<FrameNo>>,
    /// Holds the pages of which the newest version was lost.
    lost: HashSet<u64, FixedState>,
    /// Keeps the writes that write those again past the cache that were lost with the device.
    renewals: LostPageWrites,
    lost_pages: u64,
    /// Keeps the dirty pages that writes past the cache have replaced.
    passed: PassedPages,
    /// Lists the pages that are written back, and of which the cache cannot read its copy; it is the cache's until it is told
    /// of as clean.
    unusable: HashSet<u64, FixedState>,
    /// Rows of which the parity says nothing, and of which it does again.
    torn: HashSet<Row, FixedState>,
    healed: Vec<Row>,
    /// Something was written to the device that is not durable.
    volatile: bool,
    /// Lives of the device so far.
    life: u32,
    /// Rows are made consistent no more, but by who writes them.
    is_serving: bool,
    /// A write past the cache, or a flush, waits until the loss of the device is noted.
    is_blocked: bool,
    /// Is true if everything dirty is to be written back as soon as it is known.
    drains: bool,
    /// Is true if it is to note that nothing is dirty, as soon as all is written back and flushed.
    settles: bool,
    /// Is true if more members are lost than the level can do without: nothing can be written back.
    broken: bool,
    refused: bool,
}

impl WriteBack {
    fn frames(&self) -> &FrameTable {
        &self.copies.frames
    }

    fn geometry(&self) -> &Geometry {
        &self.copies.geometry
    }

    // The constructor refuses a share of 0: dirty pages must be known after a
    // crash.
    fn journal(&self) -> &CacheJournal {
        self.copies.journal.as_deref().expect("it has a log")
    }

    fn journal_mut(&mut self) -> &mut CacheJournal {
        self.copies.journal.as_deref_mut().expect("it has a log")
    }

    fn is_caching(&self) -> bool {
        self.copies.is_caching()
    }

    fn has_parity(&self) -> bool {
        self.geometry().parity_columns() > 0
    }

    /// Returns true if the members have a page of these of which the cache cannot read its copy.
    fn has_unusable(&self, mut pages: impl Iterator<Item = u64>) -> bool {
        !self.unusable.is_empty() && pages.any(|page| self.unusable.contains(&page))
    }

    /// Forgets the copies that cannot be read and that are told of as clean.
    fn drop_unusable(&mut self) {
        let frames = &mut self.copies.frames;
        self.unusable.retain(|page| {
            // A frame that holds another page by now, or none, needs no care any
            // more.
            let Some(frame) = frames.get(*page) else { return false };
            if frames.is_clean(frame) {
                frames.forget(frame);
            }
            frames.is_landed(frame)
        });
    }

    /// Returns true if the newest version of some of these pages is lost.
    fn has_lost(&self, mut pages: impl Iterator<Item = u64>) -> bool {
        !self.lost.is_empty() && pages.any(|page| self.lost.contains(&page))
    }

    /// Returns true if a write is a part of a page whose rest was lost with the device.
    fn has_lost_rest(&self, frag: &Frag) -> bool {
        frag.sectors.is_some() && self.lost.contains(&frag.page)
    }

    /// Returns true if a write past the cache is a part of a page that an earlier unfinished write may turn out
    /// to have lost.
    fn may_lose_rest(&self, frag: &Frag) -> bool {
        frag.sectors.is_some() && self.room.is_wanted(frag.page)
    }

    /// Loses the device, and what was dirty with it. So are pages that were passed by and not flushed: a crash may take their
    /// newer versions from the members, and what was there before is older than what the device had.
    fn lose_dirty(&mut self) {
        let Self { dirty, room, copies, lost, passed, .. } = self;
        let mut pages = dirty.lose(&copies.geometry);
        pages.extend(passed.volatile());
        passed.lose();
        let known = lost.len();
        lost.extend(pages.iter().copied());
        self.lost_pages += (lost.len() - known) as u64;
        // The life is over for these pages; writes that are in flight for it end
        // without entering.
        room.lose(&copies.frames, &copies.geometry);
        // What is on its way may have come, and be answered before the next note is made.
        let on_way: Vec<u64> = self.stores.iter().flatten().flat_map(StoreWork::pages_on_way).collect();
        self.journal_mut().lost_dirty(pages.into_iter().chain(on_way));
        self.life += 1;
        // Nothing of the lost device can be flushed any more.
        self.volatile = false;
    }

    /// Takes up the dirty pages that a start has found in their frames.
    fn adopt(&mut self) {
        for set in 0..self.frames().sets() {
            let pages: Vec<u64> = self.frames().dirty_of(set).collect();
            for page in pages {
                // It was written since it was lost.
                self.lost.remove(&page);
                let (row, column, _) = place(page, self.frames(), self.geometry());
                self.dirty.came(row, column, set);
                self.room.commit(set);
            }
        }
    }

    /// Has dirty pages written back as far as they can be.
    fn write_back(&mut self, array: &mut RaidArray, out: &mut Out) {
        let short = self.copies.frames.take_short();
        if std::mem::take(&mut self.drains) {
            self.dirty.drain(&self.copies.frames);
        }
        if self.broken {
            // Write-back needs the parity of rows, which cannot be updated with so
            // many members lost.
            return self.dirty.give_up(out);
        }
        // A page that was read found no room in a set of dirty ones: the next will.
        let full = |set: &u32| self.dirty.of_set(*set) == self.frames().ways();
        let room = self.room.short().or_else(|| short.filter(full).map(|set| (set, 1)));
        let need = WriteBackNeed { all: array.is_cleaning(), room, has_passed: !self.passed.is_empty() };
        let Self { dirty, copies, room, .. } = self;
        dirty.turn(need, |page| room.is_wanted(page), &copies.frames, &copies.geometry, array, out);
    }
}

impl HostCache for WriteBack {
    type Part = WriteBackTask;

    const READ_PAGES: u16 = <CopyCache<ThroughRule> as HostCache>::READ_PAGES;

    /// Returns false: what is newer in the cache than on members stays when they are trimmed.
    fn unmaps_zeros(&self) -> bool {
        false
    }

    fn sequential_cutoff(&self) -> u64 {
        self.copies.cutoff()
    }

    fn run_grows(&mut self, pages: u64, out: &Out) -> bool {
        let cutoff = self.copies.cutoff();
        if cutoff == 0 || pages <= (cutoff / NEARS_CUTOFF).max(1) {
            return false;
        }
        self.dirty.give_way(out.now());
        // Its pages would wait for room, each for the write-back of another.
        self.dirty.is_crowded()
    }

    fn load(&mut self, held: &NvHeld<'_>, _page_bytes: u32) -> bool {
        let array_pages = self.geometry().data_pages();
        let journal = self.journal_mut();
        // Lists of lost pages name pages of the array, so their range is checked.
        if CacheJournal::is_own(&held.tag) { journal.load(held) } else { journal.load_lost(held, array_pages) }
    }

    fn device_changed(&mut self, devs: DevSet, change: DeviceChange) {
        let has_own = devs.contains(self.frames().dev());
        if change == DeviceChange::Replaced && !has_own {
            return;
        }
        // What the device held before another took its place is lost as well.
        if has_own && self.is_caching() {
            self.lose_dirty();
            self.copies.device_changed(devs, DeviceChange::Failed);
        }
        // The journal hears of all lost devices and picks its own.
        self.journal_mut().lose(devs);
        if change == DeviceChange::Replaced {
            self.copies.device_changed(devs, change);
            self.journal_mut().replaced();
        }
    }

    fn turn(&mut self, array: &mut RaidArray, operations: &mut CacheOperations<WriteBackTask>, out: &mut Out) {
        // A start that is refused notes nothing.
        self.refused |= array.is_refused();
        if !self.refused && self.journal_mut().take_unknown() {
            // Without knowing what is lost, the array must not answer: an old page
            // would look like a good one.
            self.refused = !array.accepts_loss_above(out);
            self.journal_mut().accept_loss();
            self.lost.clear();
        }
        if self.refused {
            return;
        }
        if !self.unusable.is_empty() {
            self.drop_unusable();
        }
        // Slots and intents of ended operations go back first, since this turn's
        // plans need them.
        self.journal_mut().settle(array, out);
        if array.is_ready() && !std::mem::replace(&mut self.is_serving, true) {
            // What rots is found later.
            for page in array.give_up_above(self.journal().lost_pages()) {
                self.lost.remove(&page);
                self.journal_mut().heal(page);
            }
        }
        if self.is_blocked && self.journal().is_recovered() {
            self.is_blocked = false;
            // A write or flush that had to wait for the note of a loss is planned
            // again now.
            array.try_again(self, out);
        }
        if self.is_serving {
            // Rows whose parity is right again let their intents go.
            for row in self.healed.drain(..) {
                array.let_go(row, out);
            }
            self.broken = array.is_broken();
            self.passed.forget_logged(&self.copies.frames);
            // Writes that have their content go first: they hold claims. Those that
            // are let in hold none.
            self.enter_all(array, out);
            self.let_in(array, operations, out);
            self.retract_passed(array, out);
            self.write_back(array, out);
            self.renew(operations, out);
            // The note that nothing is dirty is made only when all is written,
            // flushed and idle; until then the device is needed.
            let ends = array.is_cleaning() || self.settles && array.is_at_rest();
            if ends && self.dirty.is_empty() && self.passed.is_empty() && !self.room.is_any_wanted() {
                self.journal_mut().set_dirty(false);
                self.settles = false;
            }
        }
        let CopyCache { frames, geometry, journal, trims, .. } = &mut self.copies;
        let journal = journal.as_deref_mut().expect("it has a log");
        journal.turn(frames, geometry, out, |part, out| operations.open_own(None, WriteBackTask::Journal(part), out));
        trims.turn(frames, out, |out| operations.open_own(None, WriteBackTask::Trim, out));
        // The log can fail by itself, when it has no room; the cache is treated as
        // if its device were lost.
        if !self.is_caching() && (self.dirty.rows() > 0 || !self.passed.is_empty()) {
            // The log was given up.
            self.lose_dirty();
        }
    }

    fn event(&mut self, event: Event<'_>, array: &mut RaidArray, out: &mut Out) {
        match event {
            Event::Timer(dirty::IDLE) => self.dirty.timer(out),
            Event::Control(Control::Drain) => self.drains = true,
            // What is noted then need not be asked of the device any more, should it be taken out.
            Event::Control(Control::Settle) => self.settles = true,
            Event::Start(start) => {
                let (bytes, config) = (out.page_bytes(), array.config());
                assert_eq!(
                    config.page_bytes, bytes,
                    "the array is served with pages of other bytes than it was made for"
                );
                array.has_copies();
                self.journal_mut().started(start.intents, bytes);
                self.lost = self.journal().lost_pages().collect();
                self.lost_pages = self.lost.len() as u64;
            }
            _ => {}
        }
    }

    fn step_done(&mut self, op: OpId, step: StepNo, _: StepOutcome, out: &Out) -> bool {
        if self.is_read(op, step) || self.renewals.step_done(op, step) {
            return true;
        }
        let CopyCache { frames, geometry, journal, .. } = &mut self.copies;
        let journal = journal.as_deref_mut().expect("it has a log");
        journal.claim_done(op, step, frames) || journal.has_read(op, step, geometry, out)
    }

    fn keeps_waiting(&mut self, flush: &Frag) -> bool {
        self.passed.keeps_waiting(flush)
    }

    fn submit(
        &mut self,
        frag: &Frag,
        _: &mut RaidArray,
        operations: &mut CacheOperations<WriteBackTask>,
        out: &mut Out,
    ) -> RequestAdmission {
        if !matches!(frag.op, HostOp::Write | HostOp::WriteZeroes) {
            // A read that overtook a waiting write of its page would return the old
            // version.
            let waits = self.waiting.iter().any(|waiting| waiting.overlaps(frag));
            return if waits { RequestAdmission::Waits } else { RequestAdmission::Array };
        }
        // Only writes delay idle cleaning here; `read` does the same for reads.
        self.dirty.asked(out.now());
        if self.has_lost_rest(frag) {
            operations.refuse(frag, frag.pages, out);
            return RequestAdmission::Taken;
        }
        if !self.is_caching() && self.waiting.is_empty() && !self.may_lose_rest(frag) {
            return RequestAdmission::Array;
        }
        // Decided once, when the request comes (`Frag::bypass`): whoever plans it
        // later sees the same.
        if frag.bypass && self.may_bypass(frag) {
            return RequestAdmission::Array;
        }
        self.waiting.push_back(WaitingStore::new(*frag));
        RequestAdmission::Taken
    }

    fn read(
        &mut self,
        op: OpId,
        pages: ReadPages<'_>,
        dst: Buf,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<StepSet, DegradedRead> {
        self.dirty.asked(out.now());
        let all = || pages.first()..pages.first() + u64::from(pages.count);
        // `DegradedRead` sends the read to an operation of its own, which knows
        // lost pages one by one.
        if self.has_lost(all()) || self.has_unusable(all()) {
            return Err(DegradedRead);
        }
        self.read_copies(op, pages, dst, array, out)
    }

    fn read_segment(
        &mut self,
        op: OpId,
        frag: &Frag,
        seg: StripeSegment,
        dst: Buf,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<StepSet, ReadLoss> {
        if self.has_lost(array.pages_of(seg)) {
            return Err(ReadLoss);
        }
        let is_usable = !self.has_unusable(array.pages_of(seg));
        if is_usable && self.geometry().level() == RaidLevel::Raid1 {
            // Its pages follow each other, and none is computed.
            let first = array.pages_of(seg).next().expect("a segment has pages");
            let pages = ReadPages { frag, from: (first - frag.page) as u16, count: seg.pages() };
            return self.read_copies(op, pages, dst, array, out).map_err(|DegradedRead| ReadLoss);
        }
        if !is_usable {
            self.copies.counts.read_misses += u64::from(seg.pages());
        } else if let Some(done) = self.copies.read_cached(op, frag, seg, dst, array, &mut WholeReader, out) {
            return Ok(done);
        }
        array.plan_read_seg(op, seg, frag.page, dst, self, out)
    }

    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        array: &mut RaidArray,
        _: &mut CacheOperations<WriteBackTask>,
        out: &mut Out,
    ) -> Option<StepSet> {
        if let WriteStage::Absorbed { pages, after } = stage {
            return self.begin_entering(op, pages, after, out);
        }
        let write = stage.planned();
        if !self.is_stored(op) {
            if write.frag.op != HostOp::Discard && !write.again {
                if write.frag.bypass {
                    self.copies.bypassed(write.seg, array);
                } else {
                    array.pages_of(write.seg).for_each(|page| self.copies.count_write(page));
                }
            }
            // Dropped before the members are written: a later read must not find
            // the old copy.
            self.drop_copies(write.seg, array);
            // A write past the cache heals lost pages; it is answered only when a
            // crash could not lose them again.
            if write.frag.op != HostOp::Discard && self.renews(op, &write, array, out) {
                return None;
            }
        }
        Some(write.after)
    }

    fn write_failed(&mut self, seg: StripeSegment, array: &RaidArray) {
        self.drop_copies(seg, array);
    }

    fn plan_part(&mut self, op: OpId, part: WriteBackTask, array: &mut RaidArray, out: &mut Out) {
        match part {
            WriteBackTask::Renew => self.plan_renewal(op, array, out),
            WriteBackTask::Journal(part) => self.copies.plan_journal(op, part, out),
            WriteBackTask::Trim => self.copies.trims.plan(op, &self.copies.frames, out),
        }
    }

    fn undone(&mut self, op: OpId) {
        self.renewals.undone(op);
        self.take_back(op);
        self.copies.undone(op);
    }

    fn done(&mut self, op: OpId) {
        self.store_ends(op);
        self.renewal_done(op);
        self.copies.done(op);
        let CopyCache { frames, geometry, journal, .. } = &mut self.copies;
        let journal = journal.as_deref_mut().expect("it has a log");
        if !journal.done(op, frames, geometry) {
            self.dirty.done(op, frames, geometry);
        } else if journal.take_read() {
            // The array asks at once.
            self.adopt();
        }
    }

    /// Gives a dirty page up, which stays where it is: requests for it fail until it is written, and the log gets the checksum
    /// of what it was, so that the next life knows as well.
    fn forget_bad_page(&mut self, page: u64, _: OpId, _: Option<Claim>) -> Option<BadCachePage> {
        let frames = &mut self.copies.frames;
        let frame = frames.at(page)?;
        let page = frames.page(frame);
        // A frame that holds another page by now, or none, is no concern.
        if frames.get(page) != Some(frame) {
            return None;
        }
        let fill = frames.fill_of(frame);
        if frames.is_clean(frame) {
            frames.forget(frame);
            return Some(BadCachePage { fate: PageFate::Dropped, fill });
        }
        // The page is written back, so its member has it. Until the log says so the
        // frame cannot be dropped, but nobody may read it.
        if frames.is_landed(frame) {
            let is_new = self.unusable.insert(page);
            return is_new.then_some(BadCachePage { fate: PageFate::Dropped, fill });
        }
        if !self.lost.insert(page) {
            return None;
        }
        self.lost_pages += 1;
        let (row, column, set) = place(page, self.frames(), self.geometry());
        self.dirty.sticks(row, column, page, set);
        // The checksum in the log differs from what the frame holds, so the next
        // life finds the page damaged too.
        if let Some(came) = self.copies.frames.mark_dirty(frame) {
            self.journal_mut().mark(came);
        }
        Some(BadCachePage { fate: PageFate::DirtyLost(page), fill })
    }

    fn checksums(&self) -> Option<&PageChecksums> {
        Some(self.copies.frames.checksums())
    }

    fn checksums_mut(&mut self) -> Option<&mut PageChecksums> {
        Some(self.copies.frames.checksums_mut())
    }

    fn status(&self) -> HostCacheStatus<'_> {
        let is_recovered = self.journal().is_recovered();
        let unnoted = if is_recovered { DevSet::EMPTY } else { DevSet::one(self.frames().dev()) };
        let notes_losses = !self.lost.is_empty() || self.journal().notes_losses();
        // Without this note the device could be taken out although it has the only
        // copy of something.
        let needs_device = !self.journal().is_noted_clean();
        // Their pages would be lost as well.
        let dirty_rows = self.dirty.rows() + self.passed.volatile().count();
        HostCacheStatus { unnoted, dirty_rows, notes_losses, needs_device, ..self.copies.status() }
    }

    fn lost_page_count(&self) -> usize {
        self.journal().lost_page_count()
    }

    fn lost_pages(&self) -> Vec<PageRange> {
        PageRange::of_pages(self.journal().lost_pages())
    }

    fn passed_pages(&self) -> Vec<u64> {
        self.passed.volatile().collect()
    }

    fn stale_parity(&self) -> StaleParity {
        // Without parity no row can be stale.
        StaleParity { stale_rows: if self.has_parity() { self.dirty.rows() } else { 0 }, left_rows: 0 }
    }

    fn figures(&self, into: &mut Vec<u64>) {
        into.extend([self.dirty.written_back, self.room.waited, self.lost_pages]);
    }
}

impl WriteBack {
    /// Returns true if a write can pass the cache by: nothing of its pages is about to come in, and what is dirty of them may be
    /// [passed by](passed).
    fn may_bypass(&self, frag: &Frag) -> bool {
        let frames = self.frames();
        let is_durable = frag.fua || self.every_write;
        // A write that must be durable when answered cannot pass a dirty page: it
        // would have to wait for members, flush and log.
        let passes_dirty = !is_durable && !self.broken && self.torn.is_empty();
        let is_held = |page| match frames.get(page) {
            Some(frame) => !passes_dirty && !frames.is_clean(frame),
            None => frames.contains(page) || is_durable && self.passed.contains(page),
        };
        let is_free = |page| !is_held(page) && !self.room.is_wanted(page);
        let mut pages = frag.page..frag.page + u64::from(frag.pages);
        // A partial page may need its rest from the cache.
        frag.sectors.is_none()
            && self.lost.is_empty()
            && !self.waiting.iter().any(|waiting| waiting.overlaps(frag))
            && pages.all(is_free)
    }

    /// Reads pages from the cache, or from the array and into the cache.
    fn read_copies(
        &mut self,
        op: OpId,
        pages: ReadPages<'_>,
        dst: Buf,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<StepSet, DegradedRead> {
        let Self { copies, passed, .. } = self;
        // A page that was passed by stays out of the cache until its old entry is
        // gone from the log. Otherwise the log would name two frames.
        copies.read_by(op, pages, dst, array, &mut WholeReader, |page, _, _| !passed.contains(page), out)
    }

    /// Copies of what the members have of a segment are none any more. A discard that is left out as the cache
    /// has something newer of its rows leaves that where it is.
    fn drop_copies(&mut self, seg: StripeSegment, array: &RaidArray) {
        let frames = &mut self.copies.frames;
        for page in array.pages_of(seg) {
            if let Some(frame) = frames.get(page).filter(|frame| frames.is_clean(*frame)) {
                frames.forget(frame);
            }
        }
    }
}
