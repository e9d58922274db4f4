//! Enters writes into the cache: into the upper layer when there is room, past it, or with parity into the
//! lower layer. The source is specs §8.0, §8.4 and §8.7.

use std::ops::Range;

use destage_plan::{Dev, DevSet, Frag, List, NvPut, OpId, Out, Step, StepSet};
use destage_raid::array::{AbsorbedPages, RaidArray, StripeSegment, TakenPages};

use super::places::{in_group, in_strip};
use super::queue::RoomNeeds;
use super::store::{MemberPlace, VersionLayer};
use super::upper::{EnteringRequest, UpperLayer};
use super::{OperationJob, WriteCache, WriteCacheTask};
use crate::CacheOperations;

/// A write that has not entered the upper layer, or not all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingWrite {
    frag: Frag,
    request: EnteringRequest,
    /// Is the index of the next segment; the next field counts the rows of it that have entered.
    seg: usize,
    rows: u32,
    /// Counts its pages that have entered: its first ones, unless rows enter.
    entered: u16,
    /// Is true if it was looked at before.
    seen: bool,
}

impl WaitingWrite {
    pub(super) const fn new(frag: Frag, request: EnteringRequest) -> Self {
        Self { frag, request, seg: 0, rows: 0, entered: 0, seen: false }
    }

    const fn pages(&self) -> Range<u64> {
        self.frag.page..self.frag.page + self.frag.pages as u64
    }

    /// Returns true if it shares a page with another request.
    pub(super) const fn overlaps(&self, other: &Frag) -> bool {
        self.frag.page < other.page + other.pages as u64 && other.page < self.frag.page + self.frag.pages as u64
    }
}

/// Pages whose content is known, or will be, that are to enter a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct EnteringPages {
    pub(super) op: OpId,
    pages: AbsorbedPages,
}

impl EnteringPages {
    /// Returns no pages of an operation, which wait for whatever they are said to need.
    #[cfg(test)]
    pub(super) fn none_of(op: OpId) -> Self {
        Self { op, pages: AbsorbedPages::default() }
    }
}

impl WriteCache {
    /// A write goes to the lower layer: each row with its parity, all of them in their queues at once
    /// (specs §8.10.3).
    pub(super) fn pass_on(
        &mut self,
        frag: &Frag,
        request: u64,
        array: &mut RaidArray,
        operations: &mut CacheOperations<WriteCacheTask>,
        out: &mut Out,
    ) {
        for seg in array.segments(frag.page, frag.pages) {
            // Row by row: each row's parity is made with its data, and a claim
            // covers one row.
            for row in 0..seg.rows {
                let seg = StripeSegment { first: seg.first + row, rows: 1, ..seg };
                let op = operations.open_taken(frag, seg, TakenPages::Absorbed, array, out);
                self.set_job(op, OperationJob::Absorb(request));
            }
        }
    }

    /// Lets writes into the upper layer that wait for room there.
    pub(super) fn let_in(
        &mut self,
        array: &mut RaidArray,
        operations: &mut CacheOperations<WriteCacheTask>,
        out: &mut Out,
    ) {
        // Looking costs a walk over the waiting writes, which are hundreds of
        // thousands in overload.
        if !std::mem::take(&mut self.look_again) || self.waiting.is_empty() {
            return;
        }
        if self.lower.is_none() {
            // In order, and as much of each as there is room for.
            while let Some(mut waiting) = self.waiting.pop_front() {
                let is_in = if self.admits_rows {
                    self.let_rows_in(&mut waiting, array, operations, out)
                } else {
                    self.let_pages_in(&mut waiting, array, operations, out)
                };
                if !is_in {
                    if self.broken || self.stuck {
                        // Room is not made any more.
                        operations.refuse(&waiting.frag, waiting.frag.pages - waiting.entered, out);
                    } else {
                        self.figures.waited += u64::from(!waiting.seen);
                        waiting.seen = true;
                        self.waiting.push_front(waiting);
                        break;
                    }
                }
                operations.entered(waiting.pages());
            }
            return;
        }
        let mut index = 0;
        // With a lower layer a write enters whole or passes, so one without room
        // need not hold up those after it.
        while index < self.waiting.len() {
            let mut waiting = self.waiting[index];
            // Writes of the same page keep their order, whatever fits first.
            let behind = self.waiting.iter().take(index).any(|earlier| earlier.overlaps(&waiting.frag));
            let enters = !behind && self.enters_whole(&waiting, array);
            let passes = !behind && !enters && self.passes(&waiting, array);
            if enters {
                let all = self.let_rows_in(&mut waiting, array, operations, out);
                debug_assert!(all, "there is room for all of it");
            } else if passes {
                // LAWC lets a burst that finds the small cache full go to the
                // members' caches at once.
                self.figures.bypassed += 1;
                self.pass_on(&waiting.frag, waiting.request.number, array, operations, out);
            } else if self.broken || self.stuck {
                // Refused rather than queued: nothing will make room, and the host
                // must hear of it.
                operations.refuse(&waiting.frag, waiting.frag.pages, out);
            } else {
                self.figures.waited += u64::from(!waiting.seen);
                self.waiting[index].seen = true;
                index += 1;
                continue;
            }
            self.waiting.remove(index);
            operations.entered(waiting.pages());
        }
    }

    /// The pages of a write, row by row.
    fn pages_of(&self, frag: &Frag, array: &RaidArray) -> impl Iterator<Item = MemberPlace> {
        array.segments(frag.page, frag.pages).flat_map(|seg| self.places(seg))
    }

    /// The pages of a segment, row by row.
    fn places(&self, seg: StripeSegment) -> impl Iterator<Item = MemberPlace> + use<> {
        let first = self.geometry.row(seg.stripe, seg.first);
        (0..u64::from(seg.rows))
            .flat_map(move |row| seg.columns.iter().map(move |column| (destage_plan::Row(first.0 + row), column)))
    }

    /// Returns true if the upper layer has room for all pages of a write.
    fn enters_whole(&self, waiting: &WaitingWrite, array: &RaidArray) -> bool {
        let Some(upper) = &self.upper else { return false };
        // With `small` at 0 % the cache has no pages at all, and every write
        // passes.
        if upper.capacity() == 0 {
            return false;
        }
        self.needed(self.pages_of(&waiting.frag, array)) <= upper.free()
    }

    /// Returns true if a write without room goes past the upper layer, which is right only if nothing there
    /// depends on it. A write that has waited does so only if there will never be room.
    fn passes(&self, waiting: &WaitingWrite, array: &RaidArray) -> bool {
        let Some(upper) = &self.upper else { return true };
        if waiting.seen && u64::from(waiting.frag.pages) <= upper.capacity() {
            return false;
        }
        !self.pages_of(&waiting.frag, array).any(|place| {
            let (group, index) = in_group(&self.geometry, place);
            upper.has(group, index)
        })
    }

    /// Lets as many pages of a write into the upper layer, in the order of addresses, as there is room for; whether these
    /// were all.
    fn let_pages_in(
        &mut self,
        waiting: &mut WaitingWrite,
        array: &mut RaidArray,
        operations: &mut CacheOperations<WriteCacheTask>,
        out: &mut Out,
    ) -> bool {
        let (frag, from) = (waiting.frag, waiting.entered);
        while waiting.entered < frag.pages {
            let place = self.place(frag.page + u64::from(waiting.entered));
            if self.needed(std::iter::once(place)) > self.upper.as_ref().map_or(0, UpperLayer::free) {
                break;
            }
            self.let_place_in(place, waiting.request);
            waiting.entered += 1;
        }
        // What has entered so far is stored at once, so that a write larger than
        // the cache flows through it.
        if waiting.entered > from {
            for seg in array.segments(frag.page + u64::from(from), waiting.entered - from) {
                // New versions of held pages take slots but no room, so one
                // operation never takes more slots than are spare.
                let most = (self.most_at_once / u64::from(seg.columns.len())).clamp(1, seg.rows.into()) as u32;
                for done in (0..seg.rows).step_by(most as usize) {
                    let taken = StripeSegment { first: seg.first + done, rows: most.min(seg.rows - done), ..seg };
                    self.open_store(&frag, taken, array, operations, out);
                }
            }
        }
        waiting.entered == frag.pages
    }

    /// Counts the pages that take room in the upper layer.
    fn needed(&self, places: impl Iterator<Item = MemberPlace>) -> u64 {
        let takes_room = |place: &MemberPlace| {
            let (group, index) = in_group(&self.geometry, *place);
            self.upper.as_ref().is_some_and(|upper| upper.takes_room(group, index))
        };
        places.filter(takes_room).count() as u64
    }

    /// Opens the operation that stores pages that were let into the upper layer.
    fn open_store(
        &mut self,
        frag: &Frag,
        taken: StripeSegment,
        array: &mut RaidArray,
        operations: &mut CacheOperations<WriteCacheTask>,
        out: &mut Out,
    ) {
        let op = operations.open_taken(frag, taken, TakenPages::Stored, array, out);
        self.set_job(op, OperationJob::Store(taken));
    }

    /// Lets as many rows of a write into the upper layer as there is room for; whether these were all.
    fn let_rows_in(
        &mut self,
        waiting: &mut WaitingWrite,
        array: &mut RaidArray,
        operations: &mut CacheOperations<WriteCacheTask>,
        out: &mut Out,
    ) -> bool {
        let frag = waiting.frag;
        for (number, seg) in array.segments(frag.page, frag.pages).enumerate().skip(waiting.seg) {
            let most = (self.most_at_once / u64::from(seg.columns.len())).max(1);
            let mut done = if number == waiting.seg { waiting.rows } else { 0 };
            while done < seg.rows {
                let mut rows = 0;
                // Rows enter together if they may, which saves operations for large
                // writes.
                while done + rows < seg.rows && u64::from(rows) < most {
                    let row = StripeSegment { first: seg.first + done + rows, rows: 1, ..seg };
                    if !self.let_row_in(row, waiting.request) {
                        break;
                    }
                    rows += 1;
                }
                if rows == 0 {
                    (waiting.seg, waiting.rows) = (number, done);
                    return false;
                }
                let taken = StripeSegment { first: seg.first + done, rows, ..seg };
                waiting.entered += taken.pages();
                self.open_store(&frag, taken, array, operations, out);
                done += rows;
            }
        }
        true
    }

    /// Lets the pages of one row into the upper layer if there is room for all.
    fn let_row_in(&mut self, row: StripeSegment, request: EnteringRequest) -> bool {
        let Some(upper) = &self.upper else { return false };
        if self.needed(self.places(row)) > upper.free() {
            return false;
        }
        for place in self.places(row) {
            self.let_place_in(place, request);
        }
        true
    }

    /// Lets a page into the upper layer, which has room for it.
    fn let_place_in(&mut self, place: MemberPlace, request: EnteringRequest) {
        let (group, index) = in_group(&self.geometry, place);
        let Some(upper) = &mut self.upper else { return };
        if upper.has_chosen() {
            // A group that was chosen already takes the page along; its members may
            // grow by that.
            upper.joins(group, in_strip(&self.geometry, place).0);
        }
        // A page counts as hit if any layer has it.
        let hit = upper.admit(group, index, request) || self.store.newest(place).is_some();
        self.counts.write_hits += u64::from(hit);
        self.counts.write_misses += u64::from(!hit);
    }

    /// Pages that were let into the upper layer will not come.
    pub(super) fn take_back(&mut self, seg: StripeSegment) {
        let places: Vec<_> = self.places(seg).collect();
        for place in places {
            let (group, index) = in_group(&self.geometry, place);
            let held = self.store.in_layer(place, VersionLayer::Upper).is_some();
            if let Some(upper) = &mut self.upper {
                upper.take_back(group, index, held);
            }
        }
        // Room that is given back may be enough for a write that waits.
        self.look_again = true;
    }

    /// The pages of a write are there after some steps, which may fail; then they wait for room.
    pub(super) fn begin_entering(
        &mut self,
        op: OpId,
        pages: &AbsorbedPages,
        after: StepSet,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Option<StepSet> {
        let entering = EnteringPages { op, pages: *pages };
        if !after.is_empty() {
            // Old versions are still being read; the join tells when the last is
            // there.
            let join = out.step_notify(op, Step::Join, after);
            self.reading.insert(op, (join, entering));
        } else if self.entering.is_empty() && self.fits(&entering, array) {
            return Some(self.commit(&entering, array, out));
        } else {
            self.is_read(&entering);
        }
        None
    }

    /// The pages are there.
    pub(super) fn is_read(&mut self, entering: &EnteringPages) {
        // Slots that were read must not be kept from those that wait for them.
        self.store.unpin_read(entering.op, entering.pages.from_above);
        let needs = self.needs_of(entering);
        self.entering.push(entering, needs);
    }

    /// Returns what pages need to enter.
    fn needs_of(&self, entering: &EnteringPages) -> RoomNeeds {
        let pages = &entering.pages;
        let stores = self.stores(entering);
        let slots = pages.columns.len() * pages.rows.count;
        let mut needs = RoomNeeds { members: DevSet::EMPTY, overwritten: DevSet::EMPTY, slots };
        let Some(lower) = &self.lower else { return needs };
        if stores {
            // Versions of a page that is written again and again are not freed before the one that is on its way
            // into the lower layer: that must not wait for slots which these have.
            needs.slots += u32::from(self.geometry.members());
            return needs;
        }
        for column in pages.columns.iter() {
            let (dev, strip, index) = in_strip(&self.geometry, (pages.rows.first, column));
            let takes_room = lower.members[dev.index()].pool.takes_room(strip, index);
            let set = if takes_room { &mut needs.members } else { &mut needs.overwritten };
            set.insert(dev);
        }
        needs
    }

    /// Has pages enter that wait for room: first fit in the order of waiting (specs §8.10.15).
    pub(super) fn enter(&mut self, array: &mut RaidArray, is_synchronised: bool, out: &mut Out) {
        if self.entering.is_empty() {
            return;
        }
        for entering in self.entering.take_eased() {
            let needs = self.needs_of(&entering);
            self.entering.change(&entering, needs);
        }
        let pools = self.lower.iter().flat_map(|lower| &lower.members).map(|member| member.pool.changes());
        // Most events make room for nobody; comparing counters is cheaper than
        // looking at the queue.
        if !self.entering.changed(pools, array.slots_left()) {
            return;
        }
        let (mut at, mut full) = (0, self.full());
        while let Some((order, entering)) = self.entering.next(at, full, array.slots_left()) {
            at = order;
            let entering = *entering;
            let needs = self.needs_of(&entering);
            if needs.may_be_met(full, array.slots_left()) {
                self.entering.remove(entering.op);
                // The pages enter in the order of waiting, but only those that fit.
                // A row must not wait for a member that it does not go to.
                let done = self.commit(&entering, array, out);
                array.finish_absorbed(entering.op, done, out);
                full = self.full();
            } else {
                // A page that it would have overwritten is under way by now.
                self.entering.change(&entering, needs);
            }
        }
        if is_synchronised {
            self.note_short();
        }
    }

    /// The members whose caches have no room.
    fn full(&self) -> DevSet {
        let members = self.lower.iter().flat_map(|lower| &lower.members).zip(0..);
        members.filter(|(member, _)| member.pool.free() == 0).map(|(_, dev)| Dev(dev)).collect()
    }

    /// Members that write together are told whether a row waits for room in them, after all has
    /// entered that can: one that came later may have taken the last of it.
    fn note_short(&mut self) {
        if self.lower.is_none() {
            return;
        }
        let full = self.full();
        let mut short = self.entering.members() & full;
        for (needs, waiting) in self.entering.by_needs().filter(|(needs, _)| needs.overwritten.meets(full)) {
            let may_be_short = needs.overwritten & full;
            // Over when nothing is left to find, which one of thousands may tell.
            for entering in waiting {
                if short.contains_all(may_be_short) {
                    break;
                }
                short |= self.needs_of(entering).members & full;
            }
        }
        let Some(lower) = &mut self.lower else { return };
        for (dev, member) in lower.members.iter_mut().enumerate() {
            let is_short = short.contains(Dev(dev as u8));
            lower.changed |= std::mem::replace(&mut member.is_short, is_short) != is_short;
        }
    }

    /// Tells members that write together that nothing waits for room in them any more.
    pub(super) fn forget_short(&mut self) {
        let Some(lower) = &mut self.lower else { return };
        for member in &mut lower.members {
            lower.changed |= std::mem::take(&mut member.is_short);
        }
    }

    /// Returns true if the pages are to enter the upper layer.
    fn stores(&self, entering: &EnteringPages) -> bool {
        matches!(self.job(entering.op), Some(OperationJob::Store(_)))
    }

    /// Returns true if there is room for the pages, and slots.
    fn fits(&self, entering: &EnteringPages, array: &RaidArray) -> bool {
        self.needs_of(entering).may_be_met(self.full(), array.slots_left())
    }

    /// Plans what puts the pages into the NVRAM, in one piece; what can be freed goes along.
    fn commit(&mut self, entering: &EnteringPages, array: &mut RaidArray, out: &mut Out) -> StepSet {
        let EnteringPages { op, pages } = *entering;
        let (layer, request) = match self.job(op) {
            Some(OperationJob::Absorb(request) | OperationJob::Row { request, .. }) => (VersionLayer::Lower, *request),
            _ => (VersionLayer::Upper, 0),
        };
        // One sequence for all pages of the commit: they become durable together.
        let seq = self.store.next_seq();
        let mut puts = std::mem::take(&mut self.spare_puts);
        for column in pages.columns.iter() {
            for row in pages.rows.iter() {
                let place = (row, column);
                // Counted in `fits`, under the same event.
                let slot = array.take_slot().expect("slots were counted");
                let data = self.geometry.data_set().contains(column);
                let copy_of =
                    if pages.from_above && data { self.store.pinned(op, place, VersionLayer::Upper) } else { None };
                if layer == VersionLayer::Lower {
                    let (dev, strip, index) = in_strip(&self.geometry, place);
                    if let Some(lower) = &mut self.lower {
                        // Parity is no data of the host, and pages from above were
                        // counted when they came.
                        let hit = lower.pool_mut(dev).admit(strip, index, request, false);
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
        // What died is freed by the same commit, which costs nothing extra.
        let mut frees = Vec::new();
        self.store.take_freeable(&mut frees);
        let list = if frees.is_empty() { List::EMPTY } else { out.slots(op, &frees) };
        if !frees.is_empty() {
            self.freeing.push((op, frees));
        }
        let list_of_puts = out.puts(op, &puts);
        puts.clear();
        self.spare_puts = puts;
        out.step(op, Step::NvCommit { puts: list_of_puts, frees: list }, StepSet::EMPTY)
    }
}
