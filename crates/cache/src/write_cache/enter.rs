//! How writes enter the cache: into the upper layer when there is room, past it, or, with the parity of
//! their rows, into the lower one (specs §8.0, §8.4, §8.7).

use std::ops::Range;

use destage_plan::{DevSet, Frag, List, NvPut, OpId, Out, Step, StepSet};
use destage_raid::array::{Absorbed, Array, Seg, Taken};

use super::store::{Layer, Place};
use super::{Job, Own, WriteCache, in_group, in_strip};
use crate::Operations;

/// A write that has not entered the upper layer, or not all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    frag: Frag,
    request: u64,
    /// Which of its segments is next, and how many rows of it have entered.
    seg: usize,
    rows: u32,
    /// Its pages that have entered.
    entered: u16,
    /// It was looked at before.
    seen: bool,
}

impl Waiting {
    pub(super) const fn new(frag: Frag, request: u64) -> Self {
        Self { frag, request, seg: 0, rows: 0, entered: 0, seen: false }
    }

    const fn pages(&self) -> Range<u64> {
        self.frag.page..self.frag.page + self.frag.pages as u64
    }

    /// Whether it has a page of another request.
    pub(super) const fn overlaps(&self, other: &Frag) -> bool {
        self.frag.page < other.page + other.pages as u64 && other.page < self.frag.page + self.frag.pages as u64
    }
}

/// Pages whose content is known, or will be, that are to enter a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entering {
    pub(super) op: OpId,
    pages: Absorbed,
}

/// A write goes to the lower layer: each row with its parity, all of them in their queues at once
/// (specs §8.10.3).
pub(super) fn pass_on(frag: &Frag, array: &mut Array, operations: &mut Operations<Own>, out: &mut Out) {
    for seg in array.segments(frag.page, frag.pages) {
        for row in 0..seg.rows {
            let seg = Seg { first: seg.first + row, rows: 1, ..seg };
            operations.open_taken(frag, seg, Taken::Absorbed, array, out);
        }
    }
}

impl WriteCache {
    /// Lets writes into the upper layer that wait for room there.
    pub(super) fn let_in(&mut self, array: &mut Array, operations: &mut Operations<Own>, out: &mut Out) {
        if !std::mem::take(&mut self.look_again) || self.waiting.is_empty() {
            return;
        }
        if self.lower.is_none() {
            // In order, and as much of each as there is room for.
            while let Some(mut waiting) = self.waiting.pop_front() {
                if !self.let_rows_in(&mut waiting, array, operations, out) {
                    if self.broken {
                        // Room is not made any more.
                        operations.refuse(&waiting.frag, waiting.frag.pages - waiting.entered, out);
                    } else {
                        self.figures.waited += u64::from(!waiting.seen);
                        waiting.seen = true;
                        self.waiting.push_front(waiting);
                        break;
                    }
                }
                self.entered.push(waiting.pages());
            }
            return;
        }
        let mut index = 0;
        while index < self.waiting.len() {
            let mut waiting = self.waiting[index];
            let behind = self.waiting.iter().take(index).any(|earlier| earlier.overlaps(&waiting.frag));
            let enters = !behind && self.enters_whole(&waiting, array);
            let passes = !behind && !enters && self.passes(&waiting, array);
            if enters {
                let all = self.let_rows_in(&mut waiting, array, operations, out);
                debug_assert!(all, "there is room for all of it");
            } else if passes {
                self.figures.bypassed += 1;
                pass_on(&waiting.frag, array, operations, out);
            } else if self.broken {
                operations.refuse(&waiting.frag, waiting.frag.pages, out);
            } else {
                self.figures.waited += u64::from(!waiting.seen);
                self.waiting[index].seen = true;
                index += 1;
                continue;
            }
            self.waiting.remove(index);
            self.entered.push(waiting.pages());
        }
    }

    /// The pages of a write, row by row.
    fn pages_of(&self, frag: &Frag, array: &Array) -> impl Iterator<Item = Place> {
        array.segments(frag.page, frag.pages).flat_map(|seg| self.places(seg))
    }

    /// The pages of a segment, row by row.
    fn places(&self, seg: Seg) -> impl Iterator<Item = Place> + use<> {
        let first = self.geometry.row(seg.stripe, seg.first);
        (0..u64::from(seg.rows))
            .flat_map(move |row| seg.columns.iter().map(move |column| (destage_plan::Row(first.0 + row), column)))
    }

    /// Whether there is room for all pages of a write in the upper layer.
    fn enters_whole(&self, waiting: &Waiting, array: &Array) -> bool {
        let Some(upper) = &self.upper else { return false };
        if upper.pool.capacity() == 0 {
            return false;
        }
        let needed = self.pages_of(&waiting.frag, array).filter(|place| {
            let (group, index) = in_group(&self.geometry, *place);
            upper.pool.takes_room(group, index)
        });
        needed.count() as u64 <= upper.pool.free()
    }

    /// Whether a write for which there is no room goes past the upper layer: nothing there depends on it.
    /// One that waited does so only if there will never be room.
    fn passes(&self, waiting: &Waiting, array: &Array) -> bool {
        let Some(upper) = &self.upper else { return true };
        if waiting.seen && u64::from(waiting.frag.pages) <= upper.pool.capacity() {
            return false;
        }
        !self.pages_of(&waiting.frag, array).any(|place| {
            let (group, index) = in_group(&self.geometry, place);
            upper.pool.has(group, index)
        })
    }

    /// Lets as many rows of a write into the upper layer as there is room for; whether these were all.
    fn let_rows_in(
        &mut self,
        waiting: &mut Waiting,
        array: &mut Array,
        operations: &mut Operations<Own>,
        out: &mut Out,
    ) -> bool {
        let frag = waiting.frag;
        for (number, seg) in array.segments(frag.page, frag.pages).enumerate().skip(waiting.seg) {
            let done = if number == waiting.seg { waiting.rows } else { 0 };
            let mut rows = 0;
            while done + rows < seg.rows {
                let row = Seg { first: seg.first + done + rows, rows: 1, ..seg };
                if !self.let_row_in(row, waiting.request) {
                    break;
                }
                rows += 1;
            }
            if rows > 0 {
                let taken = Seg { first: seg.first + done, rows, ..seg };
                waiting.entered += taken.pages();
                let op = operations.open_taken(&frag, taken, Taken::Stored, array, out);
                self.set_job(op, Job::Store(taken));
            }
            if done + rows < seg.rows {
                (waiting.seg, waiting.rows) = (number, done + rows);
                return false;
            }
        }
        true
    }

    /// Lets the pages of one row into the upper layer if there is room for all.
    fn let_row_in(&mut self, row: Seg, request: u64) -> bool {
        let Some(upper) = &self.upper else { return false };
        let needed = self.places(row).filter(|place| {
            let (group, index) = in_group(&self.geometry, *place);
            upper.pool.takes_room(group, index)
        });
        if needed.count() as u64 > upper.pool.free() {
            return false;
        }
        for place in self.places(row) {
            let (group, index) = in_group(&self.geometry, place);
            let Some(upper) = &mut self.upper else { continue };
            let hit = upper.pool.admit(group, index, request) || self.store.newest(place).is_some();
            self.counts.write_hits += u64::from(hit);
            self.counts.write_misses += u64::from(!hit);
        }
        true
    }

    /// Pages that were let into the upper layer will not come.
    pub(super) fn take_back(&mut self, seg: Seg) {
        let places: Vec<_> = self.places(seg).collect();
        for place in places {
            let (group, index) = in_group(&self.geometry, place);
            let held = self.store.in_layer(place, Layer::Upper).is_some();
            if let Some(upper) = &mut self.upper {
                upper.pool.take_back(group, index, held);
            }
        }
        self.look_again = true;
    }

    /// The pages of a write are there after some steps, which may fail; then they wait for room.
    pub(super) fn begin_entering(
        &mut self,
        op: OpId,
        pages: &Absorbed,
        after: StepSet,
        array: &mut Array,
        out: &mut Out,
    ) -> Option<StepSet> {
        let entering = Entering { op, pages: *pages };
        if !after.is_empty() {
            let join = out.step_notify(op, Step::Join, after);
            self.reading.push((join, entering));
        } else if self.entering.is_empty() && self.fits(&entering, array).is_ok() {
            return Some(self.commit(&entering, array, out));
        } else {
            self.is_read(&entering);
        }
        None
    }

    /// The pages are there.
    pub(super) fn is_read(&mut self, entering: &Entering) {
        // Slots that were read must not be kept from those that wait for them.
        self.store.unpin_read(entering.op, entering.pages.from_above);
        self.entering.push(entering);
    }

    /// Has pages enter that wait for room: first fit in the order of waiting (specs §8.10.15).
    pub(super) fn enter(&mut self, array: &mut Array, out: &mut Out) {
        if self.entering.is_empty() {
            return;
        }
        let pools = self.lower.iter().flat_map(|lower| &lower.members).map(|member| member.pool.changes());
        let Some(mut changed) = self.entering.changed(pools, array.slots_left()) else { return };
        self.set_short(None);
        let mut index = 0;
        while let Some((entering, short)) = self.entering.get(index) {
            if !short.is_empty() && !short.meets(changed) {
                self.set_short(Some(short));
                index += 1;
                continue;
            }
            let entering = *entering;
            match self.fits(&entering, array) {
                Err(short) => {
                    self.entering.set_short(index, short);
                    index += 1;
                }
                Ok(members) => {
                    self.entering.remove(index);
                    // What is rewritten there takes no room any more.
                    changed |= members;
                    let done = self.commit(&entering, array, out);
                    array.finish_absorbed(entering.op, done, out);
                }
            }
        }
        if self.entering.is_empty() {
            self.set_short(None);
        }
    }

    /// Notes that a row waits for room of these members, or that none does.
    pub(super) fn set_short(&mut self, of: Option<DevSet>) {
        let Some(lower) = &mut self.lower else { return };
        match of {
            None => lower.members.iter_mut().for_each(|member| member.is_short = false),
            Some(of) => of.iter().for_each(|dev| lower.members[dev.index()].is_short = true),
        }
    }

    /// The members that pages go to, if there is room for them, and slots; else those that have no room,
    /// which are told so.
    fn fits(&mut self, entering: &Entering, array: &Array) -> Result<DevSet, DevSet> {
        let pages = &entering.pages;
        let has_slots = array.slots_left() >= pages.columns.len() * pages.rows.count;
        let (mut members, mut short) = (DevSet::EMPTY, DevSet::EMPTY);
        if !matches!(self.job(entering.op), Some(Job::Store(_))) {
            let row = pages.rows.first;
            for column in pages.columns.iter() {
                let (dev, strip, index) = in_strip(&self.geometry, (row, column));
                let Some(lower) = &self.lower else { continue };
                let pool = &lower.members[dev.index()].pool;
                members.insert(dev);
                if pool.free() == 0 && pool.takes_room(strip, index) {
                    short.insert(dev);
                }
            }
            self.set_short(Some(short));
        }
        if has_slots && short.is_empty() { Ok(members) } else { Err(short) }
    }

    /// Plans what puts the pages into the NVRAM, in one piece; what can be freed goes along.
    fn commit(&mut self, entering: &Entering, array: &mut Array, out: &mut Out) -> StepSet {
        let Entering { op, pages } = *entering;
        let layer = if matches!(self.job(op), Some(Job::Store(_))) { Layer::Upper } else { Layer::Lower };
        let seq = self.store.next_seq();
        let request = self.requests;
        let mut puts = Vec::with_capacity((pages.columns.len() * pages.rows.count) as usize);
        for column in pages.columns.iter() {
            for row in pages.rows.iter() {
                let place = (row, column);
                let slot = array.take_slot().expect("slots were counted");
                let data = self.geometry.data_set().contains(column);
                let copy_of = if pages.from_above && data { self.store.pinned(op, place, Layer::Upper) } else { None };
                if layer == Layer::Lower {
                    let (dev, strip, index) = in_strip(&self.geometry, place);
                    if let Some(lower) = &mut self.lower {
                        let hit = lower.members[dev.index()].pool.admit(strip, index, request);
                        if data && !pages.from_above {
                            self.counts.write_hits += u64::from(hit);
                            self.counts.write_misses += u64::from(!hit);
                        }
                    }
                }
                let tag = self.store.put(op, slot, place, layer, seq, copy_of);
                puts.push(NvPut::page(slot, tag, pages.page(column, row), out.page_bytes()));
            }
        }
        let mut frees = Vec::new();
        self.store.take_freeable(&mut frees);
        let list = if frees.is_empty() { List::EMPTY } else { out.slots(op, &frees) };
        if !frees.is_empty() {
            self.freeing.push((op, frees));
        }
        let puts = out.puts(op, &puts);
        out.step(op, Step::NvCommit { puts, frees: list }, StepSet::EMPTY)
    }
}
