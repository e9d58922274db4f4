//! Lets writes into the cache when their sets have room, and gives them frames when their claims hold and their
//! content is known.

use std::ops::Range;

use super::dirty::place;
use super::{WriteBack, WriteBackTask};
use crate::CacheOperations;
use crate::ssd::behind::page_of;
use crate::ssd::copies::CopyCache;
use crate::ssd::frames::{DirtyCause, FrameNo};
use crate::ssd::of;
use destage_plan::{Column, Frag, OpId, Out, PlacementStream, Row, Rows, Step, StepNo, StepSet};
use destage_raid::array::{AbsorbedPages, RaidArray, StripeSegment, TakenPages};

/// Pages that one operation writes at most: it has 64 steps.
const PAGES: usize = 16;

/// A write that was not let in, or not all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingStore {
    frag: Frag,
    /// Counts the pieces that were let in; the next field counts their pages.
    pieces: usize,
    pages: u16,
    /// Is true if it was looked at before.
    seen: bool,
}

impl WaitingStore {
    pub(super) const fn new(frag: Frag) -> Self {
        Self { frag, pieces: 0, pages: 0, seen: false }
    }

    const fn range(&self) -> Range<u64> {
        self.frag.page..self.frag.page + self.frag.pages as u64
    }

    /// Returns true if it shares a page with another request.
    pub(super) const fn overlaps(&self, other: &Frag) -> bool {
        self.frag.page < other.page + other.pages as u64 && other.page < self.frag.page + self.frag.pages as u64
    }
}

/// A part of a page, of which the rest is being read.
pub(super) struct PartialRead {
    op: OpId,
    join: StepSet,
    pages: AbsorbedPages,
}

/// A page that an operation writes into a frame.
pub(super) struct PlacedPage {
    page: u64,
    frame: FrameNo,
    /// Is true if the frame was taken for this operation.
    taken: bool,
    soiling: DirtyCause,
}

/// Holds what an operation writes.
pub(super) struct StoreWork {
    seg: StripeSegment,
    /// Is true if it writes whole pages.
    whole: bool,
    /// The life of the device in which it was let in: it enters no other one.
    life: u32,
    pages: Vec<PlacedPage>,
    /// Is true if the write is in flight and will not be durable in the device when it ends.
    volatile: bool,
}

impl StoreWork {
    /// Returns the pages that are on their way into the device.
    pub(super) fn pages_on_way(&self) -> impl Iterator<Item = u64> {
        self.pages.iter().map(|placed| placed.page)
    }
}

/// The pieces of a segment that are let in one after the other: rows, or parts of one.
fn pieces(seg: StripeSegment, most: u32) -> impl Iterator<Item = StripeSegment> {
    let columns = seg.columns.len();
    let (rows, parts) = ((most / columns).max(1), columns.div_ceil(most));
    (0..seg.rows.div_ceil(rows) * parts).map(move |piece| {
        let (row, column) = (piece / parts * rows, piece % parts * most);
        let columns = seg.columns.iter().skip(column as usize).take(most as usize).collect();
        StripeSegment { first: seg.first + row, rows: rows.min(seg.rows - row), columns, ..seg }
    })
}

/// Returns the rows and columns of pages, row by row.
fn places(absorbed: &AbsorbedPages) -> impl Iterator<Item = (Row, Column)> + use<> {
    let columns = absorbed.columns;
    absorbed.rows.iter().flat_map(move |row| columns.iter().map(move |column| (row, column)))
}

impl WriteBack {
    /// Pages of a write that are let in together at most: each may take two entries.
    fn most_together(&self) -> u32 {
        // Two entries a page: one that makes the old page free or dirty, one that
        // names the new version.
        PAGES.min(self.frames().ways() as usize).min(self.journal().most_at_once() / 4).max(1) as u32
    }

    /// Lets writes in as far as there is room, in order; past the cache if there is no device.
    pub(super) fn let_in(
        &mut self,
        array: &mut RaidArray,
        operations: &mut CacheOperations<WriteBackTask>,
        out: &mut Out,
    ) {
        // The wish for room is computed anew at every turn, so a set that is not
        // waited for any more is not written back.
        self.room.is_enough();
        while let Some(mut waiting) = self.waiting.pop_front() {
            let (frag, most) = (waiting.frag, self.most_together());
            if self.has_lost_rest(&frag) {
                // It came before that was known.
                operations.refuse(&frag, frag.pages, out);
                operations.entered(waiting.range());
                continue;
            }
            // Without the device the write would go to the members. If an
            // unfinished write turns out lost, the rest of this page would be too.
            if !self.is_caching() && self.may_lose_rest(&frag) {
                self.waiting.push_front(waiting);
                return;
            }
            let pieces = array.segments(frag.page, frag.pages).flat_map(|seg| pieces(seg, most));
            let mut pieces = pieces.skip(waiting.pieces);
            let mut never = false;
            let stuck = pieces.any(|seg| {
                if !self.is_caching() {
                    operations.open_write(&frag, seg, array, out);
                } else if let Err((set, lacking)) = self.let_piece_in(seg, array) {
                    let stuck = self.dirty.stuck_in(set, self.frames(), self.geometry());
                    // A set full of pages that cannot be written back would keep
                    // the write waiting for ever.
                    never = stuck + lacking > self.frames().ways();
                    return true;
                } else {
                    // Room first, claim afterwards: a write that waits for room
                    // must not hold what write-back needs (see the module's head).
                    let op = operations.open_taken(&frag, seg, TakenPages::Stored, array, out);
                    let whole = frag.sectors.is_none();
                    // The life goes along: if the device is replaced before the
                    // write enters, its pages are not what the new one may believe.
                    let store = StoreWork { seg, whole, life: self.life, pages: Vec::new(), volatile: false };
                    *of(&mut self.stores, op) = Some(store);
                }
                waiting.pieces += 1;
                waiting.pages += seg.pages();
                false
            });
            if stuck && (self.broken || never) {
                // Room is not made any more.
                operations.refuse(&frag, frag.pages - waiting.pages, out);
            } else if stuck {
                // Counted once for each request, however often it is looked at.
                self.room.waited += u64::from(!waiting.seen);
                waiting.seen = true;
                // It stays first, and those after it wait too, so writes of the
                // same page keep their order.
                self.waiting.push_front(waiting);
                return;
            }
            operations.entered(waiting.range());
        }
    }

    /// Lets the pages of a piece in if there is room for all.
    ///
    /// # Errors
    /// The set that has no room, and for how many of the pages.
    fn let_piece_in(&mut self, seg: StripeSegment, array: &RaidArray) -> Result<(), (u32, u32)> {
        let mut entered = Vec::new();
        for page in array.pages_of(seg) {
            let (row, column, set) = place(page, self.frames(), self.geometry());
            let is_dirty = self.dirty.of_row(row).contains(column);
            if self.room.let_in(page, set, is_dirty) {
                entered.push((page, set, is_dirty));
                continue;
            }
            // All pages or none: half a piece would hold room that another write
            // could use.
            for (page, set, is_dirty) in entered {
                self.room.leave(page, set, is_dirty);
            }
            let lacking = array.pages_of(seg).filter(|page| {
                let (row, column, other) = place(*page, self.frames(), self.geometry());
                other == set && !self.room.is_wanted(*page) && !self.dirty.of_row(row).contains(column)
            });
            let lacking = lacking.count() as u32;
            self.room.is_short(set, lacking);
            return Err((set, lacking));
        }
        Ok(())
    }

    /// Pages are to come into the cache, and will be known after these steps; the steps after which they are
    /// there, if that can be said already.
    pub(super) fn begin_entering(
        &mut self,
        op: OpId,
        pages: &AbsorbedPages,
        after: StepSet,
        out: &mut Out,
    ) -> Option<StepSet> {
        if !after.is_empty() {
            // A join gives one event for reads of several members; the write enters
            // when the last has ended.
            let join = out.step_notify(op, Step::Join, after);
            self.reading.push(PartialRead { op, join, pages: *pages });
            return None;
        }
        let may = self.entering.is_empty() && self.can_enter(op);
        let done = if may { self.enter(op, pages, out) } else { None };
        if done.is_none() {
            // First in, first out; only a write that overtakes nobody enters at
            // once.
            self.entering.push_back((op, *pages));
        }
        done
    }

    /// A step is done; whether it has read the rest of a page that is written in part.
    pub(super) fn is_read(&mut self, op: OpId, step: StepNo) -> bool {
        let Some(at) = self.reading.iter().position(|read| read.op == op && read.join.contains(step)) else {
            return false;
        };
        let PartialRead { op, pages, .. } = self.reading.swap_remove(at);
        self.entering.push_back((op, pages));
        true
    }

    /// The operation is planned anew, or is no more.
    // Its buffers are released with the plan, so nothing of it may enter any more.
    pub(super) fn forget_entering(&mut self, op: OpId) {
        self.reading.retain(|read| read.op != op);
        self.entering.retain(|(other, _)| *other != op);
    }

    /// Returns true if the device is there for which an operation was let in, and what it leaves of a page is not lost. What it
    /// writes would be taken for newer in another one than what has been written past the cache since, and the rest of a
    /// page for what was lost.
    fn can_enter(&self, op: OpId) -> bool {
        let store = self.stores[op.index()].as_ref().expect("it stores something");
        let seg = store.seg;
        let rows = Rows::new(self.geometry().row(seg.stripe, seg.first), seg.rows);
        let pages = rows.iter().flat_map(|row| seg.columns.iter().map(move |column| (row, column)));
        let mut pages = pages.map(|(row, column)| page_of(self.geometry(), row, column));
        // What was passed by stays so where flushes fail.
        let stays_out = |page| !store.whole && self.lost.contains(&page) || self.broken && self.passed.contains(page);
        // The sets are empty in nearly all lives, so the pages are checked only if
        // they are not.
        let is_any_out = !self.lost.is_empty() || self.broken;
        self.is_caching() && store.life == self.life && !(is_any_out && pages.any(stays_out))
    }

    /// Gives frames to what is known, as far as there are any now. Without its device it fails.
    pub(super) fn enter_all(&mut self, array: &mut RaidArray, out: &mut Out) {
        for _ in 0..self.entering.len() {
            let Some((op, pages)) = self.entering.pop_front() else { return };
            if !self.can_enter(op) {
                array.refuse_absorbed(op, self, out);
            } else if let Some(done) = self.enter(op, &pages, out) {
                array.finish_absorbed(op, done, out);
            } else {
                // Those after it are tried all the same: they may need other sets.
                self.entering.push_back((op, pages));
            }
        }
    }

    /// Plans how pages come into their frames; the steps after which they are there. None if there is no frame
    /// for one of them now, or no slot for what is to be told.
    fn enter(&mut self, op: OpId, absorbed: &AbsorbedPages, out: &mut Out) -> Option<StepSet> {
        let count = absorbed.rows.count * absorbed.columns.len();
        // Room for the entries is checked first: nothing can be taken back once
        // frames are dirtied.
        if !self.journal().can_soil(2 * count as usize) {
            // The NVRAM has to note that there may be dirty pages before the first
            // entry; this asks for the note.
            self.journal_mut().set_dirty(true);
            return None;
        }
        let mut pages = self.spare.pop().unwrap_or_default();
        if !self.find_frames(op, absorbed, &mut pages) {
            pages.clear();
            self.spare.push(pages);
            return None;
        }
        let freed = self.copies.plan_claims(op, out);
        let CopyCache { frames, counts, journal, .. } = &mut self.copies;
        let journal = journal.as_deref_mut().expect("it has a log");
        let of = |soiling| pages.iter().filter(move |page| page.soiling == soiling).map(|page| (page.frame, page.page));
        // Logged before the write: until then the frame's old bytes are right as
        // well, since both versions are the page's.
        let told = journal.plan_dirty(op, of(DirtyCause::Told), StepSet::EMPTY, out);
        let (mut done, mut came) = (StepSet::EMPTY, StepSet::EMPTY);
        for (page, (row, column)) in pages.iter().zip(places(absorbed)) {
            let (ext, src) = (frames.ext(page.frame), absorbed.page(column, row));
            let (fua, after, written) = match page.soiling {
                DirtyCause::Again => (absorbed.fua, StepSet::EMPTY, &mut done),
                DirtyCause::Told => (absorbed.fua, told, &mut done),
                DirtyCause::Fresh => (true, freed, &mut came),
            };
            *written |= out.step_placed(op, Step::Write { ext, src, fua }, PlacementStream::Dirty, after);
            counts.write_hits += u64::from(!page.taken);
            counts.write_misses += u64::from(page.taken);
            counts.write_fills += 1;
        }
        if !came.is_empty() {
            // All fresh pages of the operation share one commit after their writes.
            done |= journal.plan_dirty(op, of(DirtyCause::Fresh), came, out);
        }
        let store = self.stores[op.index()].as_mut().expect("it stores something");
        (store.pages, store.volatile) = (pages, !absorbed.fua);
        Some(done)
    }

    /// Finds frames for pages: those that they are in, or others; whether there are enough.
    fn find_frames(&mut self, op: OpId, absorbed: &AbsorbedPages, pages: &mut Vec<PlacedPage>) -> bool {
        let Self { copies, passed, .. } = self;
        for (row, column) in places(absorbed) {
            let page = page_of(&copies.geometry, row, column);
            let found = copies.frames.get(page);
            // None of them is to make room for another.
            if let Some(frame) = found {
                copies.frames.hold(frame);
            }
            // The real number is set below, when it is known that all pages find
            // one.
            let frame = found.unwrap_or(FrameNo::new(0));
            pages.push(PlacedPage { page, frame, taken: found.is_none(), soiling: DirtyCause::Fresh });
        }
        let mut taken = 0;
        let enough = pages.iter_mut().zip(places(absorbed)).filter(|(page, _)| page.taken).all(|(page, (row, _))| {
            // A read that is not done may be filling it, or the log say of another frame that it is dirty there.
            let is_elsewhere = copies.frames.contains(page.page) || passed.contains(page.page);
            let frame = if is_elsewhere { None } else { copies.frames.take(row) };
            let Some(frame) = frame else { return false };
            if !copies.claim(op, frame) {
                copies.frames.undone(frame);
                return false;
            }
            // The page is known to the frame at once, so that the log's entry can
            // name it.
            copies.frames.take_for(frame, page.page);
            (page.frame, taken) = (frame, taken + 1);
            true
        });
        for page in pages.iter().filter(|page| !page.taken) {
            copies.frames.done(page.frame);
        }
        if !enough {
            // Frames and slots go back before the write waits: whoever holds them
            // while waiting can deadlock with another that does.
            pages.iter().filter(|page| page.taken).take(taken).for_each(|page| copies.frames.undone(page.frame));
            copies.unclaim(op);
            return false;
        }
        // Dirtying cannot be undone, so it comes last, when every page has its
        // frame.
        for page in pages.iter_mut().filter(|page| !page.taken) {
            page.soiling = copies.frames.soil(page.frame);
        }
        true
    }

    /// Returns true if an operation stores pages in the cache.
    pub(super) fn is_stored(&self, op: OpId) -> bool {
        self.stores.get(op.index()).is_some_and(Option::is_some)
    }

    /// Records that what an operation has written is in its frames and logged.
    pub(super) fn stored(&mut self, op: OpId) {
        let store = of(&mut self.stores, op).as_mut().expect("it stores something");
        let (mut pages, life, whole) = (std::mem::take(&mut store.pages), store.life, store.whole);
        let again = |page: &PlacedPage| page.soiling != DirtyCause::Fresh;
        // A volatile write in place leaves an old log entry that is right and bytes
        // that may not be durable. The next flush has to reach the device.
        self.volatile |= store.volatile && life == self.life && pages.iter().any(again);
        for PlacedPage { page, frame, taken, .. } in pages.drain(..) {
            if life != self.life {
                // The device was lost meanwhile, and this with it.
                if taken {
                    self.copies.frames.undone(frame);
                }
                self.lost_pages += u64::from(self.lost.insert(page));
                self.journal_mut().lost_dirty([page]);
                continue;
            }
            if taken {
                self.copies.frames.soiled(frame);
            }
            // A whole page makes a lost one good. A part of one would leave the
            // rest unknown.
            if whole && !self.lost.is_empty() {
                self.lost.remove(&page);
                self.journal_mut().heal(page);
            }
            if !self.unusable.is_empty() {
                // The new version is in the frame, so the unreadable one is gone.
                self.unusable.remove(&page);
            }
            let (row, column, set) = place(page, self.frames(), self.geometry());
            // What could not be written back before may be possible now.
            self.dirty.may_go(row, column, page, set);
            self.dirty.came(row, column, set);
        }
        self.spare.push(pages);
    }

    /// Gives up what an operation was to write.
    pub(super) fn take_back(&mut self, op: OpId) {
        let Some(store) = self.stores.get_mut(op.index()).and_then(Option::as_mut) else { return };
        let is_of_earlier_life = store.life != self.life;
        for page in std::mem::take(&mut store.pages) {
            // What is in place of an earlier version fails with the device alone, which takes all frames along.
            if page.taken {
                self.copies.frames.undone(page.frame);
            }
            // It did not come, so that nothing of it was lost.
            if is_of_earlier_life && !self.lost.contains(&page.page) {
                self.journal_mut().heal(page.page);
            }
        }
        self.copies.unclaim(op);
        self.store_ends(op);
    }

    /// An operation that stored pages, or was to, has ended.
    pub(super) fn store_ends(&mut self, op: OpId) {
        let Some(store) = self.stores.get_mut(op.index()).and_then(Option::take) else { return };
        let rows = Rows::new(self.geometry().row(store.seg.stripe, store.seg.first), store.seg.rows);
        for (row, column) in rows.iter().flat_map(|row| store.seg.columns.iter().map(move |column| (row, column))) {
            let page = page_of(self.geometry(), row, column);
            let set = self.frames().set_of(row);
            let is_dirty = self.dirty.of_row(row).contains(column);
            // Room is held until here: the page is dirty now, or never came.
            self.room.leave(page, set, is_dirty);
        }
    }
}
