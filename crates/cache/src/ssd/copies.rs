//! Caches of copies: their loss, at any moment, costs nothing but speed (WT and WA, specs §9.1).
//!
//! Whether a page is a hit is decided when the operation's claim holds. A write goes to the array
//! and, if the cache keeps what is written, to the cache at the same time, and is acknowledged when
//! both are done; a read that misses is acknowledged when it was read, and written to the cache
//! afterwards.

mod params;

use std::marker::PhantomData;

use destage_plan::{
    Buf, Claim, Column, ColumnSet, Dev, DevSet, DeviceChange, Frag, HostOp, OpId, Out, PageChecksums, PageFate, Params,
    PlacementStream, Row, Rows, Step, StepSet,
};
use destage_raid::Geometry;
use destage_raid::array::{ArrayConfig, DegradedRead, PageVersions, RaidArray, ReadLoss, StripeSegment};

use super::behind::page_of;
use super::frames::{BYTES_PER_PAGE, FilledFrame, FrameNo, FrameTable, MAX_ARRAY_PAGES, MAX_PAGES, MAX_WAYS};
use super::journal::{self, CacheJournal};
use super::of;
use super::trims::{FrameTrims, TRIM};
use crate::{
    BadCachePage, CacheCounts, CacheMedium, CacheOperations, HostCache, HostCacheError, HostCacheInfo, HostCacheStatus,
    PlannedWrite, ReadPages, RegisteredCache, WriteStage,
};

pub(crate) use params::LONG_CUTOFF;
use params::cutoff_pages;
pub(super) use params::{SEQUENTIAL_CUTOFF, WAYS};

/// Pages that one operation looks up: it has 64 steps, and a page may take a read and a write.
const READ_PAGES: u16 = 16;
/// Pages that one operation writes to the cache.
const FILL_PAGES: usize = 32;

/// Reads the newest version of a page through the frame by which the page is found.
pub(crate) trait FrameReader {
    /// Plans the read; the steps after which the page is in `dst`.
    fn read(&mut self, op: OpId, frame: FrameNo, dst: Buf, frames: &mut FrameTable, out: &mut Out) -> StepSet;
}

/// Reads a page that is stored in its frame as a whole.
pub(super) struct WholeReader;

impl FrameReader for WholeReader {
    fn read(&mut self, op: OpId, frame: FrameNo, dst: Buf, frames: &mut FrameTable, out: &mut Out) -> StepSet {
        // A copy needs no claim of its own: the operation's claim on the row keeps
        // writers of the page away.
        out.step(op, Step::Read { ext: frames.ext(frame), dst }, StepSet::EMPTY)
    }
}

/// Decides what a cache does with pages that are written.
pub trait WriteAdmission: Send + 'static {
    /// Is true if the cache keeps written pages; if false, it drops an older copy.
    const KEPT: bool;
    /// Name, title and paper of the cache.
    const NAMES: [&'static str; 3];
    /// Describes the cache for the help in one paragraph.
    const ABOUT: &'static str;
}

/// A cache of copies.
pub struct CopyCache<W> {
    pub(super) frames: FrameTable,
    pub(super) geometry: Geometry,
    /// The frames that each operation uses, with the page of its fragment that is written to each.
    used: Vec<Vec<(FrameNo, u16)>>,
    /// Lists what the read that is being planned fills: the frame, the source buffer, and the steps after which
    /// that holds the page.
    filling: Vec<(FrameNo, Buf, StepSet)>,
    pub(super) journal: Option<Box<CacheJournal>>,
    /// Of which write an operation fills frames, and what writes have filled that are under way: it is told
    /// when the members have it as well.
    parts: Vec<Option<OpId>>,
    written: Vec<Vec<FilledFrame>>,
    pub(super) trims: FrameTrims,
    /// Counts the pages of a sequential run from which on it passes the cache by; 0 if none does.
    cutoff: u64,
    pub(super) counts: CacheCounts,
    writes: PhantomData<W>,
}

/// Names what an operation of the cache's own, or a part of a write, does.
#[derive(Clone, Copy, Debug)]
pub enum CopyCacheTask {
    /// Writes pages of the fragment to the cache.
    Fill(Frag),
    /// Trims what became free.
    Trim,
}

impl From<Frag> for CopyCacheTask {
    fn from(frag: Frag) -> Self {
        Self::Fill(frag)
    }
}

impl<W: WriteAdmission> RegisteredCache for CopyCache<W> {
    const INFO: HostCacheInfo = HostCacheInfo {
        // Static text, because the registry lists caches without building one.
        about: W::ABOUT,
        medium: CacheMedium::Device,
        max_pages: MAX_PAGES,
        bytes_per_page: |_| BYTES_PER_PAGE,
        params: &[WAYS, SEQUENTIAL_CUTOFF, TRIM],
        // Two sets, so that both lookup and eviction matter.
        small: |pages| vec![(WAYS.name, (pages / 2).max(1).to_string())],
        ..HostCacheInfo::new::<Self>(W::NAMES[0], W::NAMES[1], W::NAMES[2])
    };

    fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Self, HostCacheError> {
        Self::with_log(pages, 0, array, params)
    }
}

impl<W: WriteAdmission> CopyCache<W> {
    /// A cache on a device of so many pages, of which the first so many are its metadata log.
    pub(super) fn with_log(pages: u64, log: u64, array: &ArrayConfig, params: &Params) -> Result<Self, HostCacheError> {
        let ways = params.number(WAYS.name, 1..=MAX_WAYS)?;
        let geometry = array.geometry.clone();
        let array_pages = geometry.data_pages();
        if array_pages > MAX_ARRAY_PAGES {
            return Err(HostCacheError::ArrayPages { pages: array_pages, max: MAX_ARRAY_PAGES });
        }
        let mut frames = FrameTable::new(Dev(geometry.members()), pages - log, ways, geometry.clone());
        // Without a log the cache starts empty after every restart. `write-through`
        // and `write-around` accept that: their loss costs only speed.
        let journal = (log > 0).then(|| {
            frames.log_from(log);
            Box::new(CacheJournal::new(&frames, log))
        });
        let trims = FrameTrims::new(&mut frames, params)?;
        let cutoff = cutoff_pages(array.page_bytes, params)?;
        Ok(Self {
            frames,
            geometry,
            used: Vec::new(),
            filling: Vec::new(),
            journal,
            parts: Vec::new(),
            written: Vec::new(),
            trims,
            cutoff,
            counts: CacheCounts::default(),
            writes: PhantomData,
        })
    }

    /// Returns true if the operation can write a frame that it took, once its [log entries](Self::plan_claims)
    /// are logged.
    pub(super) fn claim(&mut self, op: OpId, frame: FrameNo) -> bool {
        let Self { frames, geometry, journal, .. } = self;
        // Without a journal nothing outlives a power failure, so any frame may be
        // overwritten at once.
        journal.as_mut().is_none_or(|journal| journal.claim(op, frame, frames, geometry))
    }

    /// Returns true if any frame that can be taken can be [claimed](Self::claim) as well.
    pub(super) fn can_claim(&self) -> bool {
        self.journal.as_ref().is_none_or(|journal| journal.can_claim())
    }

    /// Plans what an operation has to log before it writes frames; the steps after which it may.
    pub(super) fn plan_claims(&mut self, op: OpId, out: &mut Out) -> StepSet {
        self.journal.as_mut().map_or(StepSet::EMPTY, |journal| journal.plan_claims(op, out))
    }

    /// Returns the source of the newest version of a page.
    pub(super) fn unclaim(&mut self, op: OpId) {
        if let Some(journal) = &mut self.journal {
            journal.unclaim(op, &self.frames);
        }
    }

    /// Plans an operation of the journal's own.
    pub(super) fn plan_journal(&mut self, op: OpId, part: journal::JournalTask, out: &mut Out) {
        let journal = self.journal.as_mut().expect("its journal has opened the operation");
        self.counts.meta_writes += journal.plan(op, part, &mut self.frames, &self.geometry, out);
    }

    /// Returns true if the cache's device is there.
    pub(super) fn is_caching(&self) -> bool {
        self.frames.is_enabled()
    }

    pub(super) fn row(&self, page: u64) -> Row {
        let place = self.geometry.locate(page);
        self.geometry.row(place.stripe, place.row_in_chunk)
    }

    fn uses(&mut self, op: OpId, frame: FrameNo, page: u16) {
        if self.used.len() <= op.index() {
            self.used.resize_with(op.index() + 1, Vec::new);
        }
        self.used[op.index()].push((frame, page));
    }

    /// Plans the read of a page that the cache has.
    fn hit(
        &mut self,
        op: OpId,
        frame: FrameNo,
        page: u16,
        dst: Buf,
        reader: &mut impl FrameReader,
        out: &mut Out,
    ) -> StepSet {
        // The pin keeps the frame from eviction until the read ends; other
        // operations may take frames of the set meanwhile.
        self.frames.pin(frame);
        self.uses(op, frame, page);
        self.counts.read_hits += 1;
        reader.read(op, frame, dst, &mut self.frames, out)
    }

    /// Pages are written by an operation that is planned anew, or gone on with: the cache may have them
    /// already as they will be, and that is not what the parity covers.
    pub(super) fn distrust(&mut self, rows: Rows, columns: ColumnSet) {
        for (row, column) in rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column))) {
            let page = page_of(&self.geometry, row, column);
            // A stale page stays: dropping it would lose the version that the
            // parity covers, and with it the cheap update.
            if !self.is_stale(page) {
                self.frames.drop_page(page);
            }
        }
    }

    /// Pages are about to be written, row by row: the intent of a row may be cleared before what the cache has
    /// of it is written anew, so that the log is not to say any more that it has it.
    pub(super) fn take_back(&mut self, rows: Rows, columns: ColumnSet) {
        // Only a log can outlive a crash and be believed about an outdated page.
        if self.journal.is_none() {
            return;
        }
        for (row, column) in rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column))) {
            if let Some(frame) = self.frames.get(page_of(&self.geometry, row, column)) {
                self.frames.take_back(frame);
            }
        }
    }

    fn fill_after_read(
        &mut self,
        op: OpId,
        frag: &Frag,
        page: u16,
        src: Buf,
        after: StepSet,
        may_fill: impl Fn(u64, Row, Column) -> bool,
    ) {
        let lpn = frag.page + u64::from(page);
        // Another read may be filling it.
        if self.frames.contains(lpn) {
            return;
        }
        let place = self.geometry.locate(lpn);
        let row = self.geometry.row(place.stripe, place.row_in_chunk);
        if !may_fill(lpn, row, place.column) {
            return;
        }
        // A full set costs the fill, never the read: the page was read from the
        // members anyway.
        if let Some(frame) = self.frames.fill(lpn, row) {
            if self.claim(op, frame) {
                self.uses(op, frame, page);
                self.filling.push((frame, src, after));
            } else {
                // The log still names the frame's old page and no NVRAM slot is
                // spare to retract that. Overwriting it would make the log lie
                // after a crash.
                self.frames.undone(frame);
            }
        }
    }

    /// Plans what is filled after a read.
    fn plan_filling(&mut self, op: OpId, out: &mut Out) {
        if self.filling.is_empty() {
            return;
        }
        let logged = self.plan_claims(op, out);
        for (frame, src, after) in self.filling.drain(..) {
            self.counts.read_fills += 1;
            let step = Step::Write { ext: self.frames.ext(frame), src, fua: false };
            out.step_placed(op, step, PlacementStream::Clean, after | logged);
        }
    }

    /// Opens operations that write the pages of a segment to the cache.
    fn fill_after_write<P: Copy + From<Frag>>(
        &mut self,
        op: OpId,
        write: PlannedWrite<'_>,
        array: &RaidArray,
        operations: &mut CacheOperations<P>,
        mut admits: impl FnMut(u64, &FrameTable) -> bool,
        out: &mut Out,
    ) {
        let mut filling: Option<OpId> = None;
        for page in array.pages_of(write.seg) {
            self.count_write(page);
            // What the parity is behind of goes when it is written.
            if self.is_stale(page) || !admits(page, &self.frames) {
                continue;
            }
            let Some(frame) = self.frames.fill(page, self.row(page)) else { continue };
            let part = match filling {
                // Longer segments are spread over several operations, since one has
                // 64 steps.
                Some(part) if self.used.get(part.index()).is_none_or(|used| used.len() < FILL_PAGES) => part,
                _ => operations.open_part(op, (*write.frag).into(), out),
            };
            filling = Some(part);
            // Writes are told of only when the members have the data too. So the
            // part has to find its write again.
            if self.journal.is_some() {
                *of(&mut self.parts, part) = Some(op);
            }
            // The claim is made now, while the frame is known to be taken;
            // `plan_fills` only plans what was claimed.
            if self.claim(part, frame) {
                self.counts.write_fills += 1;
                self.uses(part, frame, (page - write.frag.page) as u16);
            } else {
                self.frames.undone(frame);
            }
        }
    }

    /// Plans the part of a write that writes its pages to the cache.
    pub(super) fn plan_fills(&mut self, op: OpId, frag: Frag, out: &mut Out) {
        let logged = self.plan_claims(op, out);
        for (frame, page) in self.used.get(op.index()).into_iter().flatten() {
            // The source is the host's own buffer. The write is answered only after
            // this operation ends, so the buffer stays valid.
            let step = Step::Write { ext: self.frames.ext(*frame), src: frag.host(*page), fua: false };
            out.step_placed(op, step, PlacementStream::Dirty, logged);
        }
        out.close(op);
    }

    pub(super) fn count_write(&mut self, page: u64) {
        if self.frames.contains(page) {
            self.counts.write_hits += 1;
        } else {
            self.counts.write_misses += 1;
        }
    }

    fn is_stale(&self, page: u64) -> bool {
        self.frames.get(page).is_some_and(|frame| self.frames.is_stale(frame))
    }

    /// The cache no longer has what the array holds of the segment, unless the parity is behind of that.
    fn drop_pages(&mut self, seg: StripeSegment, array: &RaidArray) {
        for page in array.pages_of(seg) {
            if !self.is_stale(page) {
                self.frames.drop_page(page);
            }
        }
    }

    /// Plans the read of a segment from the cache, if all of it is there; the steps.
    #[expect(clippy::too_many_arguments, reason = "a read's place and destination are that many things")]
    pub(super) fn read_cached(
        &mut self,
        op: OpId,
        frag: &Frag,
        seg: StripeSegment,
        dst: Buf,
        array: &RaidArray,
        reader: &mut impl FrameReader,
        out: &mut Out,
    ) -> Option<StepSet> {
        let count = seg.pages();
        let cached = |page| self.frames.get(page).is_some();
        // The limit keeps the operation below its 64 steps; longer segments are
        // read from the array, whose steps read runs.
        if count > READ_PAGES || !array.pages_of(seg).all(cached) {
            self.counts.read_misses += u64::from(count);
            return None;
        }
        let pages = ReadPages { frag, from: 0, count };
        let mut done = StepSet::EMPTY;
        for page in array.pages_of(seg) {
            let frame = self.frames.get(page).expect("all pages are cached");
            let offset = (page - frag.page) as u16;
            done |= self.hit(op, frame, offset, pages.in_fragment(dst, offset), reader, out);
        }
        Some(done)
    }

    /// Reads what the cache has from it, the rest from the array and, where it may, into the cache.
    #[expect(clippy::too_many_arguments, reason = "a read's place and destination are that many things")]
    pub(super) fn read_by(
        &mut self,
        op: OpId,
        pages: ReadPages<'_>,
        dst: Buf,
        array: &mut RaidArray,
        reader: &mut impl FrameReader,
        may_fill: impl Fn(u64, Row, Column) -> bool,
        out: &mut Out,
    ) -> Result<StepSet, DegradedRead> {
        let count = usize::from(pages.count);
        // Hits are pinned before misses look for frames: theirs are not to be taken.
        let mut hits = [None; READ_PAGES as usize];
        for (hit, page) in hits[..count].iter_mut().zip(pages.first()..) {
            *hit = self.frames.get(page);
        }
        let runs = || hits[..count].chunk_by(|a, b| a.is_some() == b.is_some());
        let mut page = pages.first();
        for run in runs() {
            // The check runs before any step is planned. A degraded member needs an
            // operation of another kind, and a plan that is half made cannot be
            // taken back.
            if run[0].is_none() {
                array.check_whole(page, run.len() as u16)?;
            }
            page += run.len() as u64;
        }
        // A sequential run would evict pages that are read again for pages that are
        // not (the cutoff of EnhanceIO and bcache).
        let fills = !pages.frag.bypass;
        let mut done = StepSet::EMPTY;
        for (hit, page) in hits[..count].iter().zip(pages.from..) {
            if let Some(frame) = *hit {
                done |= self.hit(op, frame, page, pages.in_fragment(dst, page), reader, out);
            }
        }
        let mut page = pages.from;
        for run in runs() {
            let len = run.len() as u16;
            if run[0].is_none() {
                let at = |page| pages.in_fragment(dst, page);
                let read = array.plan_read(op, pages.frag.page + u64::from(page), len, at(page), out)?;
                if fills {
                    for page in page..page + len {
                        self.fill_after_read(op, pages.frag, page, at(page), read, &may_fill);
                    }
                } else {
                    self.counts.bypassed += u64::from(len);
                }
                self.counts.read_misses += u64::from(len);
                done |= read;
            }
            page += len;
        }
        self.plan_filling(op, out);
        Ok(done)
    }

    /// Plans what becomes of what is written with its parity; the steps after which that is done. Pages come into
    /// the cache, or stay there, if they are admitted.
    pub(super) fn write_with<P: Copy + From<Frag>>(
        &mut self,
        op: OpId,
        write: PlannedWrite<'_>,
        array: &mut RaidArray,
        operations: &mut CacheOperations<P>,
        mut admits: impl FnMut(u64, &FrameTable) -> bool,
        out: &mut Out,
    ) -> StepSet {
        let frag = write.frag;
        let mut after = write.after;
        // A trim changes what the members return, so a copy would be wrong
        // afterwards.
        if frag.op != HostOp::Write {
            self.drop_pages(write.seg, array);
        } else if frag.bypass && frag.sectors.is_none() {
            // Counters must not depend on how often an operation is planned anew.
            if !write.again {
                self.bypassed(write.seg, array);
            }
            self.drop_pages(write.seg, array);
        } else if !W::KEPT {
            if !write.again {
                array.pages_of(write.seg).for_each(|page| self.count_write(page));
            }
            self.drop_pages(write.seg, array);
        } else if frag.sectors.is_some() {
            // An earlier plan may have had a frame.
            self.release(op, FrameTable::undone);
            self.unclaim(op);
            self.count_write(frag.page);
            if self.is_stale(frag.page) || !admits(frag.page, &self.frames) {
                return after;
            }
            if let Some(frame) = self.frames.fill(frag.page, self.row(frag.page)) {
                if !self.claim(op, frame) {
                    self.frames.undone(frame);
                    return after;
                }
                self.uses(op, frame, 0);
                self.counts.write_fills += 1;
                let logged = self.plan_claims(op, out);
                let step = Step::Write { ext: self.frames.ext(frame), src: write.merged, fua: false };
                after |= out.step_placed(op, step, PlacementStream::Dirty, after | logged);
            }
        } else if !write.again {
            // A plan that is made again must not fill: some of its parts may have
            // run already, and the parity may cover another version.
            self.fill_after_write(op, write, array, operations, admits, out);
        }
        after
    }

    /// Counts what is written past the cache.
    pub(super) fn bypassed(&mut self, seg: StripeSegment, array: &RaidArray) {
        array.pages_of(seg).for_each(|page| self.count_write(page));
        self.counts.bypassed += u64::from(seg.pages());
    }

    /// Returns true if the cache has nothing of these pages, so that members can be written without it.
    pub(super) fn has_none(&self, rows: Rows, columns: ColumnSet) -> bool {
        let pages = rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column)));
        pages.into_iter().all(|(row, column)| !self.frames.contains(page_of(&self.geometry, row, column)))
    }

    /// Returns the pages of a sequential run from which on it passes the cache by; 0 if none does.
    pub(super) const fn cutoff(&self) -> u64 {
        self.cutoff
    }

    fn release(&mut self, op: OpId, how: impl Fn(&mut FrameTable, FrameNo)) {
        if let Some(used) = self.used.get_mut(op.index()) {
            used.drain(..).for_each(|(frame, _)| how(&mut self.frames, frame));
        }
    }
}

/// Answers the array for a cache that holds only copies of what the members have.
impl<W: WriteAdmission> PageVersions for CopyCache<W> {
    /// Whatever is carried out with another is put into the cache when its turn comes; until then there is no copy.
    fn may_fold(&self, _: Rows, _: ColumnSet) -> bool {
        true
    }

    fn may_pass(&self) -> bool {
        true
    }

    fn passes(&mut self, rows: Rows, columns: ColumnSet) {
        self.distrust(rows, columns);
    }
}

impl<W: WriteAdmission> HostCache for CopyCache<W> {
    type Part = CopyCacheTask;

    const READ_PAGES: u16 = READ_PAGES;

    fn sequential_cutoff(&self) -> u64 {
        self.cutoff
    }

    fn device_changed(&mut self, devs: DevSet, change: DeviceChange) {
        if devs.contains(self.frames.dev()) {
            match change {
                DeviceChange::Failed => self.frames.lose(),
                DeviceChange::Replaced => self.frames.replace(),
            }
        }
    }

    fn turn(&mut self, _: &mut RaidArray, operations: &mut CacheOperations<CopyCacheTask>, out: &mut Out) {
        // A trim is opened at most once at a time, which batches what becomes free
        // under load.
        self.trims.turn(&mut self.frames, out, |out| operations.open_own(None, CopyCacheTask::Trim, out));
    }

    fn read(
        &mut self,
        op: OpId,
        pages: ReadPages<'_>,
        dst: Buf,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<StepSet, DegradedRead> {
        self.read_by(op, pages, dst, array, &mut WholeReader, |_, _, _| true, out)
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
        match self.read_cached(op, frag, seg, dst, array, &mut WholeReader, out) {
            Some(done) => Ok(done),
            None => array.plan_read_seg(op, seg, frag.page, dst, self, out),
        }
    }

    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        array: &mut RaidArray,
        operations: &mut CacheOperations<CopyCacheTask>,
        out: &mut Out,
    ) -> Option<StepSet> {
        Some(self.write_with(op, stage.planned(), array, operations, |_, _| true, out))
    }

    fn write_failed(&mut self, seg: StripeSegment, array: &RaidArray) {
        self.drop_pages(seg, array);
    }

    fn plan_part(&mut self, op: OpId, part: CopyCacheTask, _: &mut RaidArray, out: &mut Out) {
        match part {
            CopyCacheTask::Fill(frag) => self.plan_fills(op, frag, out),
            CopyCacheTask::Trim => self.trims.plan(op, &self.frames, out),
        }
    }

    fn undone(&mut self, op: OpId) {
        self.release(op, FrameTable::undone);
        // The part's write is not done; nothing of it may be told to the log.
        if let Some(part) = self.parts.get_mut(op.index()) {
            *part = None;
        }
        self.unclaim(op);
    }

    fn done(&mut self, op: OpId) {
        if self.trims.done(op, &mut self.frames) {
            return;
        }
        if self.journal.is_none() {
            return self.release(op, FrameTable::done);
        }
        // Fills that belong to a write are held back until the write itself is
        // done. The log must not name a version that the members may lack.
        let parent = self.parts.get_mut(op.index()).and_then(Option::take);
        for (frame, _) in of(&mut self.used, op).drain(..) {
            if !self.frames.is_filling(frame) {
                self.frames.done(frame);
                continue;
            }
            self.frames.done(frame);
            match (parent, self.frames.came(frame)) {
                (Some(parent), Some(came)) => of(&mut self.written, parent).push(came),
                (None, Some(came)) => self.frames.arrives(came),
                _ => {}
            }
        }
        of(&mut self.written, op).drain(..).for_each(|came| self.frames.arrives(came));
    }

    fn forget_bad_page(&mut self, page: u64, _: OpId, _: Option<Claim>) -> Option<BadCachePage> {
        let frame = self.frames.at(page)?;
        // A bad sector under a page that was evicted meanwhile concerns nobody;
        // only the page's current frame counts.
        let is_there = self.frames.get(self.frames.page(frame)) == Some(frame);
        is_there.then(|| {
            let fill = self.frames.fill_of(frame);
            self.frames.forget(frame);
            // The members have every page, so dropping the frame repairs the error
            // completely.
            BadCachePage { fate: PageFate::Dropped, fill }
        })
    }

    fn checksums(&self) -> Option<&PageChecksums> {
        Some(self.frames.checksums())
    }

    fn checksums_mut(&mut self) -> Option<&mut PageChecksums> {
        Some(self.frames.checksums_mut())
    }

    fn status(&self) -> HostCacheStatus<'_> {
        HostCacheStatus { is_caching: self.is_caching(), counts: Some(&self.counts), ..HostCacheStatus::default() }
    }
}
