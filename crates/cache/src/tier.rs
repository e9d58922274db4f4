//! Puts a host cache over its array, as the controller that every executor drives. It does once what all caches
//! share: it opens the operations of a fragment, handles failures of their steps, and acknowledges the
//! fragment.

mod served;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use destage_plan::{
    BadPage, Buf, Class, Condition, Controller, Dev, DevSet, DeviceChange, Event, Frag, HostOp, OpId, Out,
    PageChecksums, PageFate, PageReport, SequentialRuns, Step, StepSet,
};
use destage_raid::array::{ArrayUser, PageVersions, RaidArray, ReadErrorCount, ReadLoss, StripeSegment, WriteDuty};

use crate::operations::{CacheOperations, OperationWork};
use crate::{BadCachePage, HostCache, PlannedWrite, ReadPages, RequestAdmission, WriteStage};

pub use served::ServedTier;

/// Limits the pages of the cache's device that are remembered as reported.
// Forgetting what was reported costs a repeated report at most.
const MAX_REPORTED: usize = 1 << 10;

/// A host cache over its array.
pub struct CacheTier<C: HostCache> {
    array: RaidArray,
    upper: CacheAbove<C>,
}

/// Holds what stands on the array.
struct CacheAbove<C: HostCache> {
    cache: C,
    operations: CacheOperations<C::Part>,
    /// Requests behind writes that wait, in order: those on the same pages take effect in the order in
    /// which they were submitted.
    held: Vec<Frag>,
    /// Counts the pages that the cache's device could not read.
    errors: ReadErrorCount,
    /// Lists those that were reported, with the fills of their frames.
    reported: BTreeMap<u64, u32>,
    /// Lists the operations that were told of a page of that device of which the cache has nothing for them any more.
    told: Vec<(OpId, u64)>,
    /// Follows sequential runs, if the cache or the array treats them otherwise than other requests.
    runs: Option<Box<SequentialRuns>>,
}

impl<C: HostCache> CacheTier<C> {
    /// Serves the array with this cache.
    pub fn new(array: RaidArray, cache: C) -> Self {
        // Following runs costs a lookup per request, so it is done only if somebody
        // asks for it.
        let runs = (cache.sequential_cutoff() > 0 || array.gathers_runs()).then(Box::default);
        let upper = CacheAbove {
            cache,
            operations: CacheOperations { works: Vec::new(), entered: Vec::new(), synchroniser: None },
            held: Vec::new(),
            errors: ReadErrorCount::default(),
            reported: BTreeMap::new(),
            told: Vec::new(),
            runs,
        };
        Self { array, upper }
    }
}

impl<C: HostCache> Controller for CacheTier<C> {
    fn handle(&mut self, event: Event<'_>, out: &mut Out) {
        // The cache knows of a loss before anything is planned anew because of it.
        let lost = match event {
            Event::OpStuck { devs, .. } => Some(devs),
            Event::Start(start) => Some(start.missing),
            Event::Device { dev, change: DeviceChange::Failed } => Some(DevSet::one(dev)),
            _ => None,
        };
        if let Some(devs) = lost {
            self.upper.cache.device_changed(devs, DeviceChange::Failed);
        }
        match event {
            Event::OpStuck { op, .. } => self.upper.forget_bad_pages(op, self.array.config().max_corrected, out),
            // The list of told pages names operations, whose numbers are used
            // again.
            Event::OpDone(op) => self.upper.has_ended(op),
            Event::Device { dev, .. } => self.upper.forget_errors(dev),
            _ => {}
        }
        self.array.handle(event, &mut self.upper, out);
        if self.array.is_refused() {
            // What was found changes by nothing that the cache would do with it.
            return;
        }
        // Called after every event (specs §8.10.7), so a cache cannot miss the
        // moment at which something became possible.
        self.upper.cache.turn(&mut self.array, &mut self.upper.operations, out);
        // Writes among what is let go enter now, if there is room: nothing else may happen for long.
        while self.upper.let_go(&mut self.array, out) {
            self.upper.cache.turn(&mut self.array, &mut self.upper.operations, out);
        }
        self.array.do_duties(&mut self.upper, out);
        // A clean stop is tried at each event, since nothing says which one was the
        // last it waited for.
        if self.array.is_cleaning() {
            self.array.try_clean(&self.upper.cache, out);
        }
    }

    fn unnoted(&self) -> DevSet {
        self.array.unnoted() | self.upper.cache.status().unnoted
    }

    fn checksums(&self) -> Option<&PageChecksums> {
        self.upper.cache.checksums()
    }

    fn checksums_mut(&mut self) -> Option<&mut PageChecksums> {
        self.upper.cache.checksums_mut()
    }

    fn can_spare(&self, dev: Dev) -> bool {
        let (cache, array) = (&self.upper.cache, &self.array);
        let (status, has_stale_rows) = (cache.status(), cache.stale_parity().stale_rows > 0);
        if !array.is_ready() {
            // Rows that were being written may be torn, and only parity or the cache tells what they hold.
            return false;
        }
        if array.config().geometry.member_set().contains(dev) {
            // The cache covers stale parity while it is in use.
            return array.can_spare(dev) && (status.is_caching || !has_stale_rows);
        }
        // With a member lost, stale parity needs the cache's device: only it has
        // what the parity covers.
        status.dirty_rows == 0 && (!has_stale_rows || array.degraded().is_empty())
    }

    fn condition(&self) -> Condition {
        let is_missing = self.array.missing().next().is_some();
        let losses = is_missing || !self.array.lost().is_empty() || self.upper.cache.status().notes_losses;
        Condition { unfilled: self.array.degraded(), losses }
    }
}

impl<C: HostCache> ArrayUser for CacheAbove<C> {
    fn versions(&mut self) -> &mut dyn PageVersions {
        &mut self.cache
    }

    fn event(&mut self, event: Event<'_>, array: &mut RaidArray, out: &mut Out) {
        match event {
            Event::Submit(frag) if frag.op == HostOp::WriteZeroesUnmap => self.take_unmap(&frag, array, out),
            Event::Submit(mut frag) => {
                self.find_run(&mut frag, out);
                self.take(&frag, array, out);
            }
            Event::Granted(op) => self.granted(op, array, out),
            Event::StepDone { op, step, outcome } if self.cache.step_done(op, step, outcome, out) => {}
            // The steps of a write that has parts.
            Event::StepDone { op, .. } => self.part_done(op, array, out),
            Event::OpStuck { op, devs, .. } => {
                array.stuck(op, devs, out);
                self.cache.undone(op);
                self.cache.released(op);
                // Trying again would read the same bytes. What cannot be decoded
                // fails, and nobody gets wrong data.
                if out.failed_decode(op) {
                    self.undecodable(op, out);
                } else if let OperationWork::Part { .. } = self.operations.get(op) {
                    // A part only fills the cache; the write does not need it.
                    out.abandon(op);
                } else if let OperationWork::Own { .. } = self.operations.get(op) {
                    // Operations of the cache's own always have to be done, so they
                    // are planned anew.
                    out.restart(op);
                    out.again(op);
                } else if !out.failed_read(op) {
                    // The pages were read, and acknowledged; what failed would have filled the
                    // cache.
                    out.forgive(op);
                } else {
                    out.restart(op);
                    out.again(op);
                }
            }
            Event::OpDone(op) => {
                self.cache.done(op);
                self.cache.released(op);
                if let Some(parent) = self.operations.end(op) {
                    self.part_done(parent, array, out);
                }
            }
            Event::Device { dev, change: DeviceChange::Replaced } => {
                self.cache.device_changed(DevSet::one(dev), DeviceChange::Replaced);
                self.pass_on(event, array, out);
            }
            Event::Start(start) => {
                // Slots of kinds above the array's belong to the cache. One that it
                // does not know would be lost silently.
                let mut above = start.nv.iter().filter(|held| RaidArray::is_above(&held.tag));
                if !above.all(|held| self.cache.load(held, out.page_bytes())) {
                    array.refuse_nvram(out);
                }
                if !array.is_refused() {
                    self.pass_on(event, array, out);
                }
            }
            Event::Timer(_)
            | Event::Device { .. }
            | Event::DeviceGc { .. }
            | Event::DeviceNearGc(_)
            | Event::Control(_) => self.pass_on(event, array, out),
            Event::PhaseDone(_) => {}
        }
    }

    fn duty(&mut self, duty: WriteDuty, array: &mut RaidArray, out: &mut Out) {
        match duty {
            WriteDuty::Finish { op, after, merged } => self.finish_write(op, after, merged, array, out),
            WriteDuty::Absorb { op, after } => {
                let pages = *array.absorbed();
                let stage = WriteStage::Absorbed { pages: &pages, after };
                if let Some(done) = self.cache.write(op, stage, array, &mut self.operations, out) {
                    array.finish_absorbed(op, done, out);
                }
            }
            WriteDuty::Prepare { op, after } => self.prepare(op, after, array, out),
            WriteDuty::Split { op } => self.split_write(op, array, out),
            WriteDuty::Fail { op } => {
                self.cache.undone(op);
                // At least one part is counted, so that `part_done` ends the write
                // exactly once.
                self.set_write(op, |left, _| (left.max(1), false));
                self.part_done(op, array, out);
            }
            WriteDuty::Stuck { op } => {
                self.cache.undone(op);
                if out.give_up(op) {
                    self.part_done(op, array, out);
                }
            }
            WriteDuty::Ended { op } => {
                self.cache.done(op);
                self.operations.end(op);
            }
        }
    }
}

impl<C: HostCache> CacheAbove<C> {
    /// Has the cache forget what an operation could not read of its device, before the operation is planned anew. With more
    /// such pages than are allowed the device is lost, unless it alone has data; and if the operation reads a page again of
    /// which the cache has nothing for it.
    #[cold]
    fn forget_bad_pages(&mut self, op: OpId, max_corrected: u32, out: &mut Out) {
        let Some(checksums) = self.cache.checksums() else { return };
        let dev = checksums.dev();
        // Several steps may have read one of them.
        let bad: BTreeSet<_> = out.unreadable(op).iter().copied().filter(|page| page.dev == dev).collect();
        for page in bad {
            let Some(BadCachePage { fate, fill }) = self.cache.forget_bad_page(page.page, op, out.claim(op)) else {
                // The operation was told already and read the page again all the
                // same: it cannot do without it, and would try for ever.
                if self.told.contains(&(op, page.page)) {
                    return self.give_up(page, out);
                }
                self.told.push((op, page.page));
                continue;
            };
            if self.reported.len() >= MAX_REPORTED {
                self.reported.clear();
            }
            // Many pages may have a delta in one.
            if self.reported.insert(page.page, fill) == Some(fill) && fate == PageFate::Dropped {
                continue;
            }
            out.report(PageReport { page, fate });
            // A device with dirty pages is never given up for read errors: it has
            // the only copy of other pages.
            if self.errors.count(out.now()) > max_corrected && self.cache.status().dirty_rows == 0 {
                return self.give_up(page, out);
            }
        }
    }

    /// Gives the cache's device up for a page.
    fn give_up(&mut self, page: BadPage, out: &mut Out) {
        out.report(PageReport { page, fate: PageFate::TooMany });
        self.cache.device_changed(DevSet::one(page.dev), DeviceChange::Failed);
    }

    /// Forgets what was counted of the cache's device if it is this one: it fails, or another takes its place.
    fn forget_errors(&mut self, dev: Dev) {
        if self.cache.checksums().is_some_and(|checksums| checksums.dev() == dev) {
            self.errors = ReadErrorCount::default();
            self.reported.clear();
            self.told.clear();
        }
    }

    #[inline]
    fn has_ended(&mut self, op: OpId) {
        if !self.told.is_empty() {
            self.told.retain(|(other, _)| *other != op);
        }
    }

    /// Something happened that is nobody's operation.
    fn pass_on(&mut self, event: Event<'_>, array: &mut RaidArray, out: &mut Out) {
        if let Some(synchroniser) = &mut self.operations.synchroniser {
            synchroniser.event(out.now(), &event);
        }
        self.cache.event(event, array, out);
    }

    /// Has other operations write the pages of this one.
    fn split_write(&mut self, op: OpId, array: &mut RaidArray, out: &mut Out) {
        let OperationWork::Write { frag, .. } = *self.operations.get(op) else {
            unreachable!("the operation is a write")
        };
        // Chained one after the other, so parts of one write keep their order.
        let mut behind = op;
        while let Some(part) = self.cache.next_part(op) {
            behind = self.operations.open_write_behind(behind, &frag, part, array, out);
        }
        // The operation itself does nothing more; its parts acknowledge their own
        // pages.
        out.close(op);
    }

    #[cold]
    fn prepare(&mut self, op: OpId, intent: StepSet, array: &mut RaidArray, out: &mut Out) {
        let OperationWork::Write { frag, .. } = *self.operations.get(op) else {
            unreachable!("the operation is a write")
        };
        let stage = WriteStage::Prepared { frag: &frag, intent };
        let done = self.cache.write(op, stage, array, &mut self.operations, out);
        debug_assert!(done.is_none(), "the cache says to the array what it has prepared");
    }

    /// Returns true if a request has to wait for an earlier one on the same pages, among the first `behind`
    /// that are held.
    #[inline]
    fn is_behind(&self, frag: &Frag, behind: usize) -> bool {
        // Flushes wait for no page.
        frag.op != HostOp::Flush && behind > 0 && self.overlaps_held(frag, behind)
    }

    #[cold]
    fn overlaps_held(&self, frag: &Frag, behind: usize) -> bool {
        let reads = |frag: &Frag| frag.op == HostOp::Read;
        let pages = pages_of(frag);
        self.held[..behind].iter().any(|other| overlap(&pages, &pages_of(other)) && !(reads(frag) && reads(other)))
    }

    /// Submits what waits for no write any more, in order; whether there was any.
    #[inline]
    fn let_go(&mut self, array: &mut RaidArray, out: &mut Out) -> bool {
        if self.operations.entered.is_empty() {
            return false;
        }
        if self.held.is_empty() {
            // Nobody waits, so what entered is of no interest.
            self.operations.entered.clear();
            return false;
        }
        self.let_held_go(array, out)
    }

    #[cold]
    fn let_held_go(&mut self, array: &mut RaidArray, out: &mut Out) -> bool {
        let mut free = std::mem::take(&mut self.operations.entered);
        let before = self.held.len();
        let mut index = 0;
        while let Some(&frag) = self.held.get(index) {
            let pages = pages_of(&frag);
            let may_go = free.iter().any(|free| overlap(free, &pages)) && !self.is_behind(&frag, index);
            if may_go && self.submit(&frag, array, out) {
                self.held.remove(index);
                // Others may have waited for this one.
                free.push(pages);
            } else {
                index += 1;
            }
        }
        self.held.len() < before
    }

    /// Finds out whether a request goes on with a sequential run.
    #[inline]
    fn find_run(&mut self, frag: &mut Frag, out: &Out) {
        if let Some(runs) = &mut self.runs
            && matches!(frag.op, HostOp::Read | HostOp::Write | HostOp::WriteZeroes)
        {
            let (place, cutoff) = (runs.note(frag.page, frag.pages.into()), self.cache.sequential_cutoff());
            // Only writes have a run number: the array gathers writes of one run.
            frag.run = if frag.op == HostOp::Write { place.number } else { 0 };
            frag.bypass = cutoff > 0 && place.pages >= cutoff;
            if frag.op != HostOp::Read {
                frag.bypass |= self.cache.run_grows(place.pages, out);
            }
        }
    }

    /// Submits a request, or holds it behind others.
    #[inline]
    fn take(&mut self, frag: &Frag, array: &mut RaidArray, out: &mut Out) {
        if self.is_behind(frag, self.held.len()) || !self.submit(frag, array, out) {
            self.held.push(*frag);
        }
    }

    /// Takes zeros that may be unmapped, stripe by stripe if they are written all the same.
    #[cold]
    fn take_unmap(&mut self, frag: &Frag, array: &mut RaidArray, out: &mut Out) {
        let config = array.config();
        let stripe = u32::from(config.geometry.data_columns()) * config.geometry.chunk_pages();
        if u32::from(frag.pages) <= stripe || config.trims && self.cache.unmaps_zeros() {
            return self.take(frag, array, out);
        }
        for first in (0..frag.pages).step_by(stripe as usize) {
            let page = frag.page + u64::from(first);
            self.take(&Frag { page, pages: stripe as u16, ..*frag }, array, out);
        }
    }

    /// Submits zeros that may be unmapped: whole stripes are trimmed where that leaves nothing of them in the cache. To the
    /// cache they are zeros. Returns false if the cache has them wait.
    #[cold]
    fn submit_unmap(&mut self, frag: &Frag, array: &mut RaidArray, out: &mut Out) -> bool {
        let zeros = Frag { op: HostOp::WriteZeroes, ..*frag };
        // A cache with newer data in the NVRAM takes zeros as an ordinary write; a
        // trim would go past that data.
        if frag.sectors.is_some() || !self.cache.unmaps_zeros() {
            return self.submit(&zeros, array, out);
        }
        match self.cache.submit(&zeros, array, &mut self.operations, out) {
            RequestAdmission::Array => {}
            RequestAdmission::Taken => return true,
            RequestAdmission::Waits => return false,
        }
        let trim = Frag { op: HostOp::Discard, ..*frag };
        for seg in array.segments(frag.page, frag.pages) {
            // Parity of zeros is zeros, so segments with all columns of their rows
            // can be trimmed, and no others.
            self.operations.open_write(if array.can_trim(seg) { &trim } else { &zeros }, seg, array, out);
        }
        true
    }

    /// Submits a request, unless the cache has it wait; whether it does not.
    #[inline]
    fn submit(&mut self, frag: &Frag, array: &mut RaidArray, out: &mut Out) -> bool {
        if frag.op == HostOp::Flush {
            if !self.cache.keeps_waiting(frag) {
                array.open_flush(Some(frag), out);
            }
            return true;
        }
        if frag.op == HostOp::WriteZeroesUnmap {
            return self.submit_unmap(frag, array, out);
        }
        match self.cache.submit(frag, array, &mut self.operations, out) {
            RequestAdmission::Array => {}
            RequestAdmission::Taken => return true,
            RequestAdmission::Waits => return false,
        }
        match frag.op {
            HostOp::Flush => unreachable!("the array has flushes"),
            HostOp::Read => {
                let mut from = 0;
                while from < frag.pages {
                    // An operation has 64 steps, and a cache says how many pages it
                    // can look up within them.
                    let pages = (frag.pages - from).min(C::READ_PAGES);
                    let claim = array.claim_read(frag.page + u64::from(from), pages);
                    let op = out.open(Class::Read, Some(claim), Some(frag.id));
                    self.operations.set(op, OperationWork::Read { frag: *frag, from, pages });
                    from += pages;
                }
            }
            HostOp::WriteZeroesUnmap => unreachable!("these are submitted as zeros"),
            HostOp::Write | HostOp::WriteZeroes | HostOp::Discard => {
                let mut skipped = 0;
                for seg in array.segments(frag.page, frag.pages) {
                    if frag.op == HostOp::Discard && !array.can_trim(seg) {
                        // A discard that cannot be done is no error: the host is
                        // told that it is done, as devices do.
                        skipped += seg.pages();
                        continue;
                    }
                    self.operations.open_write(frag, seg, array, out);
                }
                if skipped > 0 {
                    let op = out.open(Class::Internal, None, Some(frag.id));
                    self.operations.set(op, OperationWork::Skip { frag: *frag, pages: skipped, ok: true });
                }
            }
        }
        true
    }

    fn granted(&mut self, op: OpId, array: &mut RaidArray, out: &mut Out) {
        match *self.operations.get(op) {
            OperationWork::Read { frag, from, pages: count } => {
                let dst = destination(op, &frag, out);
                let pages = ReadPages { frag: &frag, from, count };
                if let Ok(done) = self.cache.read(op, pages, dst, array, out) {
                    return finish_read(op, &frag, dst, count, done, out);
                }
                // Degraded reads are planned segment by segment, since each needs
                // the claims of other columns.
                for seg in array.segments(pages.first(), count) {
                    let claim = array.claim_read_seg(seg);
                    let part = out.open(Class::Read, Some(claim), Some(frag.id));
                    self.operations.set(part, OperationWork::ReadSeg { frag, seg });
                }
                out.close(op);
            }
            // Rows with sources in the cache may need many steps each, so they are
            // read one by one.
            OperationWork::ReadSeg { frag, seg } if array.is_read_by_rows(seg, &self.cache) => {
                for row in 0..seg.rows {
                    let seg = StripeSegment { first: seg.first + row, rows: 1, ..seg };
                    let claim = array.claim_read_seg(seg);
                    let part = out.open(Class::Read, Some(claim), Some(frag.id));
                    self.operations.set(part, OperationWork::ReadSeg { frag, seg });
                }
                out.close(op);
            }
            OperationWork::ReadSeg { frag, seg } => {
                let dst = destination(op, &frag, out);
                match self.cache.read_segment(op, &frag, seg, dst, array, out) {
                    Ok(done) => finish_read(op, &frag, dst, seg.pages(), done, out),
                    Err(ReadLoss) => acknowledge(op, &frag, seg.pages(), false, StepSet::EMPTY, out),
                }
            }
            OperationWork::Skip { frag, pages, ok } => acknowledge(op, &frag, pages, ok, StepSet::EMPTY, out),
            OperationWork::Part { part, .. } | OperationWork::Own { part } => {
                self.cache.plan_part(op, part, array, out);
            }
            OperationWork::Write { .. } => unreachable!("the array plans writes"),
        }
    }

    /// Bytes of the cache cannot be decoded: what needs them fails, and is not tried again.
    fn undecodable(&mut self, op: OpId, out: &mut Out) {
        match *self.operations.get(op) {
            OperationWork::Read { frag, pages, .. } => {
                // Earlier steps of the plan are dropped: a part of the data must
                // not be handed out.
                out.restart(op);
                acknowledge(op, &frag, pages, false, StepSet::EMPTY, out);
            }
            OperationWork::ReadSeg { frag, seg } => {
                out.restart(op);
                acknowledge(op, &frag, seg.pages(), false, StepSet::EMPTY, out);
            }
            OperationWork::Part { parent, .. } => {
                self.set_write(parent, |left, _| (left, false));
                out.abandon(op);
            }
            OperationWork::Own { .. } => out.abandon(op),
            OperationWork::Write { .. } | OperationWork::Skip { .. } => {
                unreachable!("the array has writes, and the rest decodes nothing")
            }
        }
    }

    /// The array's part of a write is planned: the cache's is added.
    fn finish_write(&mut self, op: OpId, after: StepSet, merged: Buf, array: &mut RaidArray, out: &mut Out) {
        let OperationWork::Write { frag, seg, left, .. } = *self.operations.get(op) else {
            unreachable!("the operation is a write")
        };
        if array.is_rewritten(op) {
            self.cache.count_rewritten(seg.pages());
            return acknowledge(op, &frag, seg.pages(), true, after, out);
        }
        let last = array.last_rewrite(op);
        let bytes = if last == op { frag } else { self.written_fragment(last) };
        let write = PlannedWrite { frag: &bytes, seg, after, merged, again: left > 0 };
        let stage = WriteStage::Planned(write);
        let Some(after) = self.cache.write(op, stage, array, &mut self.operations, out) else {
            return self.set_write(op, |left, ok| (left.max(1), ok));
        };
        match self.operations.get(op) {
            OperationWork::Write { left, .. } if *left > 1 => {
                out.step_notify(op, Step::Join, after);
            }
            _ => acknowledge(op, &frag, seg.pages(), true, after, out),
        }
    }

    /// Returns the fragment that an operation writes.
    fn written_fragment(&self, op: OpId) -> Frag {
        let OperationWork::Write { frag, .. } = *self.operations.get(op) else {
            unreachable!("the operation is a write")
        };
        frag
    }

    /// One of the parts of a write is done.
    fn part_done(&mut self, op: OpId, array: &RaidArray, out: &mut Out) {
        self.set_write(op, |left, ok| (left - 1, ok));
        if let OperationWork::Write { frag, seg, left: 0, ok } = *self.operations.get(op) {
            if !ok {
                // Each sector is old or new now, so no copy of it can be trusted.
                self.cache.write_failed(seg, array);
            }
            acknowledge(op, &frag, seg.pages(), ok, StepSet::EMPTY, out);
        }
    }

    fn set_write(&mut self, op: OpId, to: impl Fn(u32, bool) -> (u32, bool)) {
        let Some(Some(OperationWork::Write { left, ok, .. })) = self.operations.works.get_mut(op.index()) else {
            unreachable!("the operation is a write")
        };
        (*left, *ok) = to(*left, *ok);
    }
}

fn pages_of(frag: &Frag) -> Range<u64> {
    frag.page..frag.page + u64::from(frag.pages)
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Returns the buffer for the pages of a read: the host's, or a temporary one if only some sectors were asked
/// for.
fn destination(op: OpId, frag: &Frag, out: &mut Out) -> Buf {
    if frag.sectors.is_some() { out.tmp(op, 1) } else { frag.host(0) }
}

/// Hands the sectors of a page out if only some were asked for, acknowledges, and closes.
fn finish_read(op: OpId, frag: &Frag, page: Buf, pages: u16, done: StepSet, out: &mut Out) {
    let done = match frag.sectors {
        Some(sectors) => out.step(op, Step::Slice { src: page, sectors, dst: frag.host(0) }, done),
        None => done,
    };
    acknowledge(op, frag, pages, true, done, out);
}

/// Acknowledges pages after the steps in `after`, and closes.
fn acknowledge(op: OpId, frag: &Frag, pages: u16, ok: bool, after: StepSet, out: &mut Out) {
    out.step(op, Step::Ack { frag: frag.id, pages, ok }, after);
    out.close(op);
}
