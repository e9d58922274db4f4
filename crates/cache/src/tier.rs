//! A host cache over its array: the controller that every executor drives. What all caches share is
//! written here once: which operations serve a fragment, what happens when steps of theirs fail,
//! when a fragment is acknowledged.

use std::ops::Range;

use destage_plan::{
    Buf, Claim, Class, Condition, Control, Controller, DevSet, DeviceChange, Event, Frag, HostOp, NvHeld, OpId, Out,
    Row, Step, StepNo, StepOutcome, StepSet,
};
use destage_raid::array::{Above, Absorbed, Array, Degraded, Duty, Lost, Seg, Sources, Taken, Versions};

use crate::synchroniser::Synchroniser;
use crate::{CacheCounts, Rounds};

/// What a host cache decides, over what every cache shares ([`Tier`]). What a method does unless a
/// cache has it otherwise is what an array without a cache does. Where versions of pages are, if not
/// on the members, it says as [`Versions`].
pub trait HostCache: Versions + Send + 'static {
    /// What a part of a write is for.
    type Part: Copy + Send;

    /// Pages that one operation of a read looks up at most: it has 64 steps.
    const READ_PAGES: u16 = u16::MAX;

    /// Devices answer no more, at the start or from now on, or one stands in the place of another, of which nothing
    /// is known. Members among them are the array's concern.
    fn device_changed(&mut self, devs: DevSet, change: DeviceChange) {
        let _ = (devs, change);
    }

    /// An event was handled, by whomever: what is due is begun (specs §8.10.7).
    fn turn(&mut self, array: &mut Array, operations: &mut Operations<Self::Part>, out: &mut Out) {
        let _ = (array, operations, out);
    }

    /// Takes a slot of the NVRAM that was in use when this life began, by its tag; whether it is its
    /// own and understood, and has as many bytes as that takes. If not, the start is refused.
    fn load(&mut self, held: &NvHeld, page_bytes: u32) -> bool {
        let _ = (held, page_bytes);
        false
    }

    /// Lets a read, write or discard in, or not. If it takes a write, it opens the operations that have it
    /// [take](Operations::open_taken) all of its pages, now or later. A read or discard of pages of a write that has
    /// not [entered](Operations::entered) waits, and is submitted again when that has.
    fn submit(
        &mut self,
        frag: &Frag,
        array: &mut Array,
        operations: &mut Operations<Self::Part>,
        out: &mut Out,
    ) -> RequestAdmission {
        let _ = (frag, array, operations, out);
        RequestAdmission::Array
    }

    /// A step that it asked to be told of is done; whether it was one.
    fn step_done(&mut self, op: OpId, step: StepNo, outcome: StepOutcome, out: &Out) -> bool {
        let _ = (op, step, outcome, out);
        false
    }

    /// Plans the read of some pages of a fragment; the steps after which they are in `dst`. Plans
    /// nothing if it fails: the pages are then read segment by segment.
    fn read(
        &mut self,
        op: OpId,
        pages: Pages<'_>,
        dst: Buf,
        array: &mut Array,
        out: &mut Out,
    ) -> Result<StepSet, Degraded> {
        array.plan_read(op, pages.first(), pages.count, pages.in_fragment(dst, pages.from), out)
    }

    /// Plans the read of a segment of an array that has lost a member; the steps after which its
    /// pages are in `dst`, which is for the fragment from its first page on.
    fn read_segment(
        &mut self,
        op: OpId,
        frag: &Frag,
        seg: Seg,
        dst: Buf,
        array: &mut Array,
        out: &mut Out,
    ) -> Result<StepSet, Lost>
    where
        Self: Sized,
    {
        array.plan_read_seg(op, seg, frag.page, dst, self, out)
    }

    /// Plans the cache's part in a write, which is as far as `stage` says; the steps after which the operation has
    /// done that. None if it has to know more before all is planned: it calls what the [stage](WriteStage) names then.
    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        array: &mut Array,
        operations: &mut Operations<Self::Part>,
        out: &mut Out,
    ) -> Option<StepSet> {
        let _ = (op, array, operations, out);
        Some(stage.planned().after)
    }

    /// A write has failed: nothing is known of what the array holds of the segment beyond its being
    /// old or new sector by sector.
    fn write_failed(&mut self, seg: Seg, array: &Array) {
        let _ = (seg, array);
    }

    /// Plans a part of a write, or an [operation of its own](Operations::open_own).
    fn plan_part(&mut self, op: OpId, part: Self::Part, array: &mut Array, out: &mut Out) {
        let _ = (part, array);
        out.close(op);
    }

    /// Something happened that is nobody's operation: a life begins, a timer of its own is due, a
    /// device changed, an order came from outside. If that is to [drain](Control::Drain), what was answered so far is
    /// written back to the members at once, and [`Out::drained`] says when it is there, or what can be of it: a cache
    /// that holds copies alone says so now.
    fn event(&mut self, event: Event<'_>, array: &mut Array, out: &mut Out) {
        let _ = array;
        if let Event::Control(Control::Drain) = event {
            out.drained();
        }
    }

    /// What is planned of the operation will not come about. Either it is planned anew or it ends.
    fn undone(&mut self, op: OpId) {
        let _ = op;
    }

    /// All steps of the operation are done.
    fn done(&mut self, op: OpId) {
        let _ = op;
    }

    /// Returns how the cache is now. It is asked after every event.
    fn status(&self) -> HostCacheStatus<'_> {
        HostCacheStatus::default()
    }

    /// Returns how far parity is behind what the cache was given.
    fn stale_parity(&self) -> StaleParity {
        StaleParity::default()
    }

    /// The cache's own [figures](crate::HostCacheInfo::figures), in their order.
    fn figures(&self, into: &mut Vec<u64>) {
        let _ = into;
    }
}

/// How a cache is at some moment.
#[derive(Clone, Copy, Debug)]
pub struct HostCacheStatus<'a> {
    /// It is in use: what it needs is there.
    pub is_caching: bool,
    /// Devices of its own that failed, and of which a start would believe what they held.
    pub unnoted: DevSet,
    /// It keeps a note of pages that were lost with a device of its own.
    pub notes_losses: bool,
    /// What it had, if it keeps account of that.
    pub counts: Option<&'a CacheCounts>,
}

impl Default for HostCacheStatus<'_> {
    /// In use, without anything that could be lost or counted.
    fn default() -> Self {
        Self { is_caching: true, unnoted: DevSet::EMPTY, notes_losses: false, counts: None }
    }
}

/// How far parity is behind data.
#[derive(Clone, Copy, Debug, Default)]
pub struct StaleParity {
    /// Rows whose parity does not cover the newest version of their data.
    pub stale_rows: usize,
    /// How often a cache that [delays parity](crate::HostCacheInfo::delays_parity) left that of a row behind data that
    /// it had covered so far.
    pub left_rows: u64,
}

/// Some pages of a fragment that are read.
#[derive(Clone, Copy, Debug)]
pub struct Pages<'a> {
    /// The fragment.
    pub frag: &'a Frag,
    /// The first of them, in the fragment.
    pub from: u16,
    /// How many.
    pub count: u16,
}

impl Pages<'_> {
    /// The first of them, in the array.
    pub const fn first(&self) -> u64 {
        self.frag.page + self.from as u64
    }

    /// Where a page of the fragment goes, if `dst` is for the fragment from its first page on. A
    /// fragment that is a part of a page has only the one.
    pub const fn in_fragment(&self, dst: Buf, page: u16) -> Buf {
        match dst {
            Buf::Host { frag, page: first } => Buf::Host { frag, page: first + page },
            other => other,
        }
    }
}

/// Who plans a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestAdmission {
    /// The array, and the cache when it is [read](HostCache::read) or [written](HostCache::write).
    Array,
    /// The cache, which takes the write.
    Taken,
    /// Nobody yet: it waits for an earlier write.
    Waits,
}

/// How far a write is when the cache plans its part.
#[derive(Clone, Copy, Debug)]
pub enum WriteStage<'a> {
    /// The array's part is planned. The cache's is planned in the same operation, or in
    /// [parts](Operations::open_part) of it; if not at once, it calls [`Operations::finish_write`].
    Planned(Write<'a>),
    /// What is [absorbed](destage_raid::array::Approach::Absorbed) or [taken](Taken) is there after the steps `after`,
    /// and the cache takes it. If not at once, it calls [`Array::finish_absorbed`], unless the operation is planned
    /// anew before.
    Absorbed {
        /// The pages.
        pages: &'a Absorbed,
        /// When these are done, the pages are there.
        after: StepSet,
    },
    /// A write whose parity is left alone is to be [prepared](destage_raid::array::Approach::Prepared) for. The cache
    /// calls [`Array::finish_prepared`], now or later, unless the operation is planned anew before.
    Prepared {
        /// The fragment.
        frag: &'a Frag,
        /// When these are done, the rows' intent is set.
        intent: StepSet,
    },
}

impl<'a> WriteStage<'a> {
    /// Returns the write whose part on the array is planned. Of a cache that neither absorbs nor prepares there is no
    /// other stage.
    pub fn planned(self) -> Write<'a> {
        let Self::Planned(write) = self else { unreachable!("a cache that absorbs or prepares says how") };
        write
    }
}

/// A write whose part on the array is planned.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The fragment.
    pub frag: &'a Frag,
    /// What of it.
    pub seg: Seg,
    /// When these are done, so is the array's part.
    pub after: StepSet,
    /// Of a write smaller than a page: the page as it will be, after these steps.
    pub merged: Buf,
    /// Whether parts of it were opened already: it is planned anew, since a member was lost.
    pub again: bool,
}

/// What an operation is for.
#[derive(Clone, Copy)]
enum Work<T> {
    /// Reads pages of a fragment, from this one on.
    Read { frag: Frag, from: u16, pages: u16 },
    /// Reads a segment of a fragment.
    ReadSeg { frag: Frag, seg: Seg },
    /// Writes a segment. `left` of its parts are not done: its own steps, and the operations that
    /// were opened for it.
    Write { frag: Frag, seg: Seg, left: u32, ok: bool },
    /// Pages of which nothing is done.
    Skip { frag: Frag, pages: u16, ok: bool },
    /// A part of a write.
    Part { part: T, parent: OpId },
    /// The cache's own.
    Own { part: T },
}

/// What the operations above an array are for, and who says when some of them begin.
pub struct Operations<T> {
    works: Vec<Option<Work<T>>>,
    /// Pages of writes that held others back and do so no longer.
    entered: Vec<Range<u64>>,
    /// Says when what the cache chose is written, if the cache is not to say so alone.
    pub(crate) synchroniser: Option<Synchroniser>,
}

impl<T: Copy> Operations<T> {
    /// Opens an operation that does a part of a write, which is acknowledged no sooner than all its
    /// parts are done. It may use the fragment's bytes.
    pub fn open_part(&mut self, parent: OpId, part: T, out: &mut Out) -> OpId {
        let Some(Some(Work::Write { frag, left, .. })) = self.works.get_mut(parent.index()) else {
            unreachable!("only writes have parts")
        };
        *left = (*left).max(1) + 1;
        let frag = frag.id;
        let op = out.open(Class::Internal, None, Some(frag));
        self.set(op, Work::Part { part, parent });
        op
    }

    /// Plans the end of a write whose cache's part could not be [planned](HostCache::write) at once: it
    /// is done after these steps.
    pub fn finish_write(&mut self, op: OpId, after: StepSet, out: &mut Out) {
        let Some(Some(Work::Write { left, .. })) = self.works.get(op.index()) else {
            unreachable!("the operation is a write")
        };
        debug_assert!(*left > 0, "its own steps are counted");
        out.step_notify(op, Step::Join, after);
    }

    /// Opens the operation that writes a segment of a fragment to the array.
    pub fn open_write(&mut self, frag: &Frag, seg: Seg, array: &mut Array, out: &mut Out) -> OpId {
        let op = array.open_write(frag, seg, out);
        self.set(op, Work::Write { frag: *frag, seg, left: 0, ok: true });
        op
    }

    /// Opens the operation that has the cache take a segment of a fragment.
    pub fn open_taken(&mut self, frag: &Frag, seg: Seg, taken: Taken, array: &mut Array, out: &mut Out) -> OpId {
        let op = array.open_taken(frag, seg, taken, out);
        self.set(op, Work::Write { frag: *frag, seg, left: 0, ok: true });
        op
    }

    /// Lets requests go that waited for a write of these pages, which was let in or refused.
    pub fn entered(&mut self, pages: Range<u64>) {
        self.entered.push(pages);
    }

    /// Answers pages of a fragment as failed: they cannot be taken.
    pub fn refuse(&mut self, frag: &Frag, pages: u16, out: &mut Out) {
        let op = out.open(Class::Internal, None, Some(frag.id));
        self.set(op, Work::Skip { frag: *frag, pages, ok: false });
    }

    /// Opens an operation of the cache's own. It is [planned](HostCache::plan_part) as parts of writes
    /// are, and anew if a device fails meanwhile.
    pub fn open_own(&mut self, claim: Option<Claim>, part: T, out: &mut Out) -> OpId {
        let op = out.open(Class::Destage, claim, None);
        self.set(op, Work::Own { part });
        op
    }

    fn set(&mut self, op: OpId, work: Work<T>) {
        if self.works.len() <= op.index() {
            self.works.resize(op.index() + 1, None);
        }
        self.works[op.index()] = Some(work);
    }

    fn get(&self, op: OpId) -> &Work<T> {
        self.works[op.index()].as_ref().expect("the operation is known")
    }

    /// The operation has ended; of which write it was a part, if it was one.
    fn end(&mut self, op: OpId) -> Option<OpId> {
        let work = self.works.get_mut(op.index())?;
        let parent = match work {
            Some(Work::Part { parent, .. }) => Some(*parent),
            _ => None,
        };
        *work = None;
        parent
    }
}

/// A host cache over its array.
pub struct Tier<C: HostCache> {
    array: Array,
    upper: Upper<C>,
}

/// What stands on the array.
struct Upper<C: HostCache> {
    cache: C,
    operations: Operations<C::Part>,
    /// Requests behind writes that wait, in order: those on the same pages take effect in the order in
    /// which they were submitted.
    held: Vec<Frag>,
}

/// A host cache over its array, whichever cache it is.
pub trait Served: Controller + Send {
    /// The array.
    fn array(&self) -> &Array;
    /// How the cache is.
    fn status(&self) -> HostCacheStatus<'_>;
    /// How far parity is behind data.
    fn stale_parity(&self) -> StaleParity;
    /// The cache's own [figures](crate::HostCacheInfo::figures), in their order.
    fn figures(&self) -> Vec<u64>;
    /// Where the pages of a row are.
    fn sources(&self, row: Row) -> Sources;
    /// Has the members write what the cache chose together.
    fn synchronise(&mut self, synchroniser: Synchroniser);

    /// Whether the cache is in use: what it needs is there.
    fn is_caching(&self) -> bool {
        self.status().is_caching
    }

    /// What the cache had, if it keeps account of that.
    fn counts(&self) -> Option<&CacheCounts> {
        self.status().counts
    }

    /// Rows whose parity does not cover the newest version of their data.
    fn stale_rows(&self) -> usize {
        self.stale_parity().stale_rows
    }

    /// Free blocks at which devices are to say that they will have to collect soon, in hundredths of a
    /// percent; none if they need not.
    fn gc_warning(&self) -> Option<u32> {
        None
    }

    /// How often devices were told to collect together, if they are.
    fn rounds(&self) -> Option<Rounds> {
        None
    }
}

impl<C: HostCache> Tier<C> {
    /// Serves the array with this cache.
    pub const fn new(array: Array, cache: C) -> Self {
        let upper = Upper {
            cache,
            operations: Operations { works: Vec::new(), entered: Vec::new(), synchroniser: None },
            held: Vec::new(),
        };
        Self { array, upper }
    }
}

impl<C: HostCache> Served for Tier<C> {
    fn array(&self) -> &Array {
        &self.array
    }

    fn status(&self) -> HostCacheStatus<'_> {
        self.upper.cache.status()
    }

    fn stale_parity(&self) -> StaleParity {
        self.upper.cache.stale_parity()
    }

    fn figures(&self) -> Vec<u64> {
        let mut figures = Vec::new();
        self.upper.cache.figures(&mut figures);
        figures.extend(self.upper.operations.synchroniser.iter().flat_map(Synchroniser::figures));
        figures
    }

    fn sources(&self, row: Row) -> Sources {
        self.upper.cache.sources(row)
    }

    fn synchronise(&mut self, synchroniser: Synchroniser) {
        self.upper.operations.synchroniser = Some(synchroniser);
    }
}

impl<C: HostCache> Controller for Tier<C> {
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
        self.array.handle(event, &mut self.upper, out);
        if self.array.is_refused() {
            // What was found changes by nothing that the cache would do with it.
            return;
        }
        self.upper.cache.turn(&mut self.array, &mut self.upper.operations, out);
        // Writes among what is let go enter now, if there is room: nothing else may happen for long.
        while self.upper.let_go(&mut self.array, out) {
            self.upper.cache.turn(&mut self.array, &mut self.upper.operations, out);
        }
        self.array.do_duties(&mut self.upper, out);
        if self.array.is_cleaning() {
            self.array.try_clean(&self.upper.cache, out);
        }
    }

    fn unnoted(&self) -> DevSet {
        self.array.unnoted() | self.upper.cache.status().unnoted
    }

    fn condition(&self) -> Condition {
        let losses = !self.array.lost().is_empty() || self.upper.cache.status().notes_losses;
        Condition { unfilled: self.array.degraded(), losses }
    }
}

impl<C: HostCache> Above for Upper<C> {
    fn versions(&mut self) -> &mut dyn Versions {
        &mut self.cache
    }

    fn event(&mut self, event: Event<'_>, array: &mut Array, out: &mut Out) {
        match event {
            Event::Submit(frag) => {
                if self.is_behind(&frag, self.held.len()) || !self.submit(&frag, array, out) {
                    self.held.push(frag);
                }
            }
            Event::Granted(op) => self.granted(op, array, out),
            Event::StepDone { op, step, outcome } if self.cache.step_done(op, step, outcome, out) => {}
            // The steps of a write that has parts.
            Event::StepDone { op, .. } => self.part_done(op, array, out),
            Event::OpStuck { op, devs, .. } => {
                array.lose_all(devs, out);
                self.cache.undone(op);
                self.cache.released(op);
                if out.failed_decode(op) {
                    self.undecodable(op, out);
                } else if let Work::Part { .. } = self.operations.get(op) {
                    out.abandon(op);
                } else if let Work::Own { .. } = self.operations.get(op) {
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
                let mut above = start.nv.iter().filter(|held| Array::is_above(&held.tag));
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

    fn duty(&mut self, duty: Duty, array: &mut Array, out: &mut Out) {
        match duty {
            Duty::Finish { op, after, merged } => self.finish_write(op, after, merged, array, out),
            Duty::Absorb { op, after } => {
                let pages = *array.absorbed();
                let stage = WriteStage::Absorbed { pages: &pages, after };
                if let Some(done) = self.cache.write(op, stage, array, &mut self.operations, out) {
                    array.finish_absorbed(op, done, out);
                }
            }
            Duty::Prepare { op, after } => self.prepare(op, after, array, out),
            Duty::Fail { op } => {
                self.cache.undone(op);
                self.set_write(op, |left, _| (left.max(1), false));
                self.part_done(op, array, out);
            }
            Duty::Stuck { op } => {
                self.cache.undone(op);
                if out.give_up(op) {
                    self.part_done(op, array, out);
                }
            }
            Duty::Ended { op } => {
                self.cache.done(op);
                self.operations.end(op);
            }
        }
    }
}

impl<C: HostCache> Upper<C> {
    /// Something happened that is nobody's operation.
    fn pass_on(&mut self, event: Event<'_>, array: &mut Array, out: &mut Out) {
        if let Some(synchroniser) = &mut self.operations.synchroniser {
            synchroniser.event(out.now(), &event);
        }
        self.cache.event(event, array, out);
    }

    #[cold]
    fn prepare(&mut self, op: OpId, intent: StepSet, array: &mut Array, out: &mut Out) {
        let Work::Write { frag, .. } = *self.operations.get(op) else { unreachable!("the operation is a write") };
        let stage = WriteStage::Prepared { frag: &frag, intent };
        let done = self.cache.write(op, stage, array, &mut self.operations, out);
        debug_assert!(done.is_none(), "the cache says to the array what it has prepared");
    }

    /// Whether a request has to wait for an earlier one on the same pages, of those that are held the first
    /// `behind`.
    #[inline]
    fn is_behind(&self, frag: &Frag, behind: usize) -> bool {
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
    fn let_go(&mut self, array: &mut Array, out: &mut Out) -> bool {
        if self.operations.entered.is_empty() {
            return false;
        }
        if self.held.is_empty() {
            self.operations.entered.clear();
            return false;
        }
        self.let_held_go(array, out)
    }

    #[cold]
    fn let_held_go(&mut self, array: &mut Array, out: &mut Out) -> bool {
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

    /// Submits a request, unless the cache has it wait; whether it does not.
    #[inline]
    fn submit(&mut self, frag: &Frag, array: &mut Array, out: &mut Out) -> bool {
        if frag.op == HostOp::Flush {
            array.open_flush(Some(frag), out);
            return true;
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
                    let pages = (frag.pages - from).min(C::READ_PAGES);
                    let claim = array.claim_read(frag.page + u64::from(from), pages);
                    let op = out.open(Class::Read, Some(claim), Some(frag.id));
                    self.operations.set(op, Work::Read { frag: *frag, from, pages });
                    from += pages;
                }
            }
            HostOp::Write | HostOp::WriteZeroes | HostOp::Discard => {
                let mut skipped = 0;
                for seg in array.segments(frag.page, frag.pages) {
                    if frag.op == HostOp::Discard && !array.can_trim(seg) {
                        skipped += seg.pages();
                        continue;
                    }
                    self.operations.open_write(frag, seg, array, out);
                }
                if skipped > 0 {
                    let op = out.open(Class::Internal, None, Some(frag.id));
                    self.operations.set(op, Work::Skip { frag: *frag, pages: skipped, ok: true });
                }
            }
        }
        true
    }

    fn granted(&mut self, op: OpId, array: &mut Array, out: &mut Out) {
        match *self.operations.get(op) {
            Work::Read { frag, from, pages: count } => {
                let dst = destination(op, &frag, out);
                let pages = Pages { frag: &frag, from, count };
                if let Ok(done) = self.cache.read(op, pages, dst, array, out) {
                    return finish_read(op, &frag, dst, count, done, out);
                }
                for seg in array.segments(pages.first(), count) {
                    let claim = array.claim_read_seg(seg);
                    let part = out.open(Class::Read, Some(claim), Some(frag.id));
                    self.operations.set(part, Work::ReadSeg { frag, seg });
                }
                out.close(op);
            }
            Work::ReadSeg { frag, seg } if array.is_read_by_rows(seg, &self.cache) => {
                for row in 0..seg.rows {
                    let seg = Seg { first: seg.first + row, rows: 1, ..seg };
                    let claim = array.claim_read_seg(seg);
                    let part = out.open(Class::Read, Some(claim), Some(frag.id));
                    self.operations.set(part, Work::ReadSeg { frag, seg });
                }
                out.close(op);
            }
            Work::ReadSeg { frag, seg } => {
                let dst = destination(op, &frag, out);
                match self.cache.read_segment(op, &frag, seg, dst, array, out) {
                    Ok(done) => finish_read(op, &frag, dst, seg.pages(), done, out),
                    Err(Lost) => acknowledge(op, &frag, seg.pages(), false, StepSet::EMPTY, out),
                }
            }
            Work::Skip { frag, pages, ok } => acknowledge(op, &frag, pages, ok, StepSet::EMPTY, out),
            Work::Part { part, .. } | Work::Own { part } => self.cache.plan_part(op, part, array, out),
            Work::Write { .. } => unreachable!("the array plans writes"),
        }
    }

    /// Bytes of the cache cannot be decoded: what needs them fails, and is not tried again.
    fn undecodable(&mut self, op: OpId, out: &mut Out) {
        match *self.operations.get(op) {
            Work::Read { frag, pages, .. } => {
                out.restart(op);
                acknowledge(op, &frag, pages, false, StepSet::EMPTY, out);
            }
            Work::ReadSeg { frag, seg } => {
                out.restart(op);
                acknowledge(op, &frag, seg.pages(), false, StepSet::EMPTY, out);
            }
            Work::Part { parent, .. } => {
                self.set_write(parent, |left, _| (left, false));
                out.abandon(op);
            }
            Work::Own { .. } => out.abandon(op),
            Work::Write { .. } | Work::Skip { .. } => {
                unreachable!("the array has writes, and the rest decodes nothing")
            }
        }
    }

    /// The array's part of a write is planned: the cache's is added.
    fn finish_write(&mut self, op: OpId, after: StepSet, merged: Buf, array: &mut Array, out: &mut Out) {
        let Work::Write { frag, seg, left, .. } = *self.operations.get(op) else {
            unreachable!("the operation is a write")
        };
        let write = Write { frag: &frag, seg, after, merged, again: left > 0 };
        let stage = WriteStage::Planned(write);
        let Some(after) = self.cache.write(op, stage, array, &mut self.operations, out) else {
            return self.set_write(op, |left, ok| (left.max(1), ok));
        };
        match self.operations.get(op) {
            Work::Write { left, .. } if *left > 1 => {
                out.step_notify(op, Step::Join, after);
            }
            _ => acknowledge(op, &frag, seg.pages(), true, after, out),
        }
    }

    /// One of the parts of a write is done.
    fn part_done(&mut self, op: OpId, array: &Array, out: &mut Out) {
        self.set_write(op, |left, ok| (left - 1, ok));
        if let Work::Write { frag, seg, left: 0, ok } = *self.operations.get(op) {
            if !ok {
                self.cache.write_failed(seg, array);
            }
            acknowledge(op, &frag, seg.pages(), ok, StepSet::EMPTY, out);
        }
    }

    fn set_write(&mut self, op: OpId, to: impl Fn(u32, bool) -> (u32, bool)) {
        let Some(Some(Work::Write { left, ok, .. })) = self.operations.works.get_mut(op.index()) else {
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

/// Where the pages of a read go: to the host, or where the sectors are taken from that it asked
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
