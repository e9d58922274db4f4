//! Plans a write whose parity stays stale: its members are written, and the delta goes to the staging buffer
//! (specs §9.4).
//!
//! Invariants:
//!
//! * The delta of a cached page is staged when the member is written, not before. A crash before that leaves a
//!   row with an open intent, whose parity is recomputed from the members.
//! * A page that is not cached is [read from its member](DeferredWrites::prepare) first. Its delta is staged,
//!   and its old version written to a frame if it gets one, before the member is written. Otherwise the version
//!   that the parity covers would be nowhere.
//! * A delta that does not fit waits until others are packed, with its claim held. Nothing that packing needs
//!   waits for a claim.

use std::collections::VecDeque;

use destage_plan::{
    Buf, Column, Frag, List, NvPut, NvSlot, NvSlots, OpId, Out, PlacementStream, PutList, Row, Step, StepNo,
    StepOutcome, StepSet,
};
use destage_raid::array::RaidArray;

use super::super::behind::StaleRows;
use super::super::copies::CopyCache;
use super::super::frames::{FrameNo, FrameTable};
use super::super::of;
use super::super::write_through::ThroughRule;
use super::DeltaKey;
use super::deltas::DeltaStore;
use super::hit::{BasePage, DeltaDestination, WriteHit, encode, nth, read_base, tag};
use super::staging::StagedDelta;
use super::zone::PackedDelta;

/// A write whose parity is left.
#[derive(Default)]
pub(super) struct DeferredWrite {
    hits: Vec<WriteHit>,
    /// Is set for a write that is prepared for: the data is written once all is planned, after these steps. A
    /// partial write then writes this merged page.
    prepared: Option<(StepSet, Buf)>,
    /// Is true once the write's rows are on their members.
    pub(super) written: bool,
    /// A set that had no room for a page of it.
    pub(super) short: Option<u32>,
    done: StepSet,
    /// All is planned.
    planned: bool,
}

/// Names the next thing to plan for a write.
pub(super) enum NextPlan {
    /// Ends the write after these steps.
    End(OpId, StepSet),
    /// Does this before the write's data is written, with this merged page if only a part of a page is written.
    Before(OpId, Buf, StepSet),
}

/// All of them.
#[derive(Default)]
pub(super) struct DeferredWrites {
    works: Vec<DeferredWrite>,
    /// Those that are not planned to their end, in order.
    // In order, so that no write waits for ever after later ones.
    waiting: VecDeque<OpId>,
    /// Is true if a write has changed since they were last planned.
    changed: bool,
    /// The first that can be planned had no room in the staging buffer then, for this one of its pages.
    stuck: Option<(OpId, usize)>,
    /// Pages of writes that are under way, and of these that come into frames.
    pages: u32,
    coming: u32,
    /// The slots that deltas are staged in, if these are not the NVRAM's.
    memory: Option<NvSlots>,
    /// Slots that are freed with what is put: not free before.
    // A slot is free only when the commit that frees it is durable. Until then a
    // crash would find the old delta in it.
    freeing: Vec<(OpId, StepSet, NvSlot)>,
    /// Slots that are free.
    freed: Vec<NvSlot>,
    sequence: u64,
    pub(super) staged: u64,
    pub(super) staged_bytes: u64,
    pub(super) raw: u64,
    pub(super) bare: u64,
}

/// Names the reason why a write waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitReason {
    /// Of room in the staging buffer: what is in it must be packed.
    Staging,
    /// Of slots of the NVRAM, some of which may be freed.
    Slots,
    /// Of a free page of the cache.
    Pages,
}

impl DeferredWrites {
    pub(super) fn work(&mut self, op: OpId) -> &mut DeferredWrite {
        self.changed = true;
        of(&mut self.works, op)
    }

    pub(super) fn has_work(&self, op: OpId) -> bool {
        self.works.get(op.index()).is_some_and(|work| !work.hits.is_empty())
    }

    /// Returns true if a write is prepared for, so that nothing is left to do when its data is written.
    pub(super) fn is_prepared(&self, op: OpId) -> bool {
        self.works.get(op.index()).is_some_and(|work| work.prepared.is_some())
    }

    /// Pages of the cache that writes under way may take.
    pub(super) const fn pages(&self) -> u32 {
        self.pages + self.coming
    }

    /// Pages of writes that are under way.
    pub(super) const fn written(&self) -> u32 {
        self.pages
    }

    /// A write has these pages.
    pub(super) fn open(&mut self, op: OpId, hits: impl Iterator<Item = WriteHit>) {
        let work = of(&mut self.works, op);
        debug_assert!(work.hits.is_empty(), "what was planned before is dropped");
        work.hits.extend(hits);
        self.pages += work.hits.len() as u32;
        self.coming += work.hits.iter().filter(|hit| matches!(hit.base, BasePage::Coming(_))).count() as u32;
    }

    /// Gives up what was planned for a write.
    pub(super) fn drop_work(&mut self, op: OpId, copies: &mut CopyCache<ThroughRule>, deltas: &mut DeltaStore) {
        let Some(work) = self.works.get_mut(op.index()).filter(|work| !work.hits.is_empty()) else { return };
        for hit in &work.hits {
            if let DeltaDestination::Raw { page, .. } = hit.kept {
                // Nothing names the page of a raw delta yet, so it can be given
                // back at once.
                deltas.zone.give(page, &mut copies.frames);
            }
            hit.is_in_doubt(&mut copies.frames, deltas);
        }
        copies.unclaim(op);
        self.end(op);
    }

    /// Nothing of what a write uses is needed any more: it is written, or its plan is dropped, and then nothing
    /// more is planned of that.
    pub(super) fn released(&mut self, op: OpId) {
        if self.works.get(op.index()).is_some_and(|work| work.prepared.is_some() && !work.written) {
            self.changed = true;
            // A plan that was dropped after its preparation must not go on to write
            // the members.
            self.waiting.retain(|other| *other != op);
        }
    }

    /// Nothing more is to be done for a write.
    fn end(&mut self, op: OpId) {
        self.changed = true;
        self.stuck.take_if(|(stuck, _)| *stuck == op);
        let work = of(&mut self.works, op);
        self.pages -= work.hits.len() as u32;
        self.coming -= work.hits.iter().filter(|hit| matches!(hit.base, BasePage::Coming(_))).count() as u32;
        work.hits.clear();
        let waits = std::mem::take(&mut work.written) || work.prepared.is_some();
        (work.prepared, work.short, work.done, work.planned) = (None, None, StepSet::EMPTY, false);
        if waits || !self.waiting.is_empty() {
            self.waiting.retain(|other| *other != op);
        }
    }

    /// Plans the encoding of all pages of a write, which are in frames and whose bytes are told by page.
    pub(super) fn encode(
        &mut self,
        op: OpId,
        new: impl Fn(u64) -> (Buf, StepSet),
        copies: &mut CopyCache<ThroughRule>,
        out: &mut Out,
    ) {
        for hit in &mut of(&mut self.works, op).hits {
            copies.counts.write_hits += 1;
            let (old, read) = read_base(op, hit, copies, out);
            let (new, there) = new(hit.page);
            encode(op, hit, (old, read), (new, there), out);
        }
        // The rest waits for the lengths of the deltas, which the encoding tells.
        self.waits(op);
    }

    /// The rest of a write is planned when it can be.
    fn waits(&mut self, op: OpId) {
        self.changed = true;
        self.waiting.push_back(op);
    }

    /// Has deltas staged in so many slots of memory, or in the NVRAM.
    pub(super) fn staged_in(memory: Option<u32>) -> Self {
        Self { memory: memory.map(NvSlots::in_memory), ..Self::default() }
    }

    /// Gives back the slots that are free.
    pub(super) fn give_slots(&mut self, array: &mut RaidArray, out: &mut Out) {
        while let Some(slot) = self.freed.pop() {
            match &mut self.memory {
                Some(slots) if slot.is_in_memory() => slots.free(slot),
                _ => array.give_slot(slot, out),
            }
        }
    }

    /// Plans what has to be done before a write whose pages are not all in frames: reads those that are not
    /// from their member, has those that are admitted written to their frames as they were, and all encoded.
    #[expect(clippy::too_many_arguments, reason = "a write and what it changes are that many things")]
    pub(super) fn prepare(
        &mut self,
        op: OpId,
        frag: &Frag,
        intent: StepSet,
        copies: &mut CopyCache<ThroughRule>,
        deltas: &mut DeltaStore,
        array: &mut RaidArray,
        out: &mut Out,
    ) {
        let work = of(&mut self.works, op);
        // One commit logs the frames of all pages.
        let logged = copies.plan_claims(op, out);
        let (mut merged, mut run) = (Buf::None, 0..0);
        let mut read = (Buf::None, StepSet::EMPTY);
        for index in 0..work.hits.len() {
            let hit = work.hits[index];
            let host = frag.host((hit.page - frag.page) as u16);
            if let BasePage::Frame(_) = hit.base {
                copies.counts.write_hits += 1;
                let old = read_base(op, &hit, copies, out);
                encode(op, &mut work.hits[index], old, (host, StepSet::EMPTY), out);
                continue;
            }
            copies.counts.write_misses += 1;
            // Neighbouring missing pages share one read, which saves steps.
            if !run.contains(&index) {
                let missing = |hit: &&WriteHit| !matches!(hit.base, BasePage::Frame(_));
                run = index..index + work.hits[index..].iter().take_while(missing).count();
                let pages = run.len() as u16;
                let dst = out.tmp(op, pages);
                let done = array.plan_read(op, hit.page, pages, dst, out);
                // `may_delay` was checked when the approach was chosen, under the
                // same claim.
                read = (dst, done.expect("parity is left alone only while all members are live"));
            }
            let newest = (nth(read.0, (index - run.start) as u16), read.1);
            let old = deltas.take_back(op, hit.page, newest, &mut copies.frames, out);
            // The old delta is parted with, not dropped: if this write fails it has
            // to be found again.
            work.hits[index].before = deltas.zone.part(DeltaKey::Page(hit.page));
            let new = match frag.sectors {
                Some(sectors) => {
                    merged = out.tmp(op, 1);
                    // The merge takes the newest version. The encoding takes the
                    // covered one, so the delta spans both writes.
                    let merge = Step::Merge { old: newest.0, new: host, sectors, dst: merged };
                    (merged, out.step(op, merge, newest.1))
                }
                None => (host, StepSet::EMPTY),
            };
            if let BasePage::Coming(frame) = hit.base {
                copies.counts.write_fills += 1;
                // FUA is not needed: after a power failure the row has an open
                // intent and its cached pages are dropped.
                let step = Step::Write { ext: copies.frames.ext(frame), src: old.0, fua: false };
                work.done |= out.step_placed(op, step, PlacementStream::Clean, old.1 | logged);
            }
            encode(op, &mut work.hits[index], old, new, out);
        }
        work.prepared = Some((intent, merged));
        self.waits(op);
    }

    /// Returns the pages of a write.
    pub(super) fn pages_of(&self, op: OpId) -> Vec<(Row, Column)> {
        self.works
            .get(op.index())
            .map_or_else(Vec::new, |work| work.hits.iter().map(|hit| (hit.row, hit.column)).collect())
    }

    /// Returns true if a write under way has parted with a delta of its page that is in this frame.
    pub(super) fn is_parted_in(&self, page: u64, frame: FrameNo) -> bool {
        let hits = self.works.iter().flat_map(|work| &work.hits).filter(|hit| hit.page == page);
        hits.filter_map(|hit| hit.before).any(|before| before.page == frame)
    }

    /// The device is lost, and the deltas with it that writes under way have parted with: none is found again.
    pub(super) fn lose(&mut self, frames: &mut FrameTable, deltas: &mut DeltaStore) {
        // There is nothing that it would be staged for.
        self.stuck = None;
        self.changed = true;
        for before in self.works.iter_mut().flat_map(|work| &mut work.hits).filter_map(|hit| hit.before.take()) {
            deltas.zone.release(before, frames);
        }
    }

    /// These slots are free.
    pub(super) fn are_free(&mut self, slots: Vec<NvSlot>) {
        self.freed.extend(slots);
    }

    /// A step is done; whether it is one of these.
    pub(super) fn step_done(&mut self, op: OpId, step: StepNo, outcome: StepOutcome, deltas: &mut DeltaStore) -> bool {
        let Some(work) = self.works.get_mut(op.index()) else { return false };
        for hit in &mut work.hits {
            if hit.encode.contains(step) {
                if let StepOutcome::Length(len) = outcome {
                    self.changed = true;
                    hit.len = Some(len);
                }
                return true;
            }
            if let DeltaDestination::Staged { slot, put } = hit.kept
                && put.contains(step)
            {
                deltas.staging.settle(slot);
                let freed = self.freeing.extract_if(.., |(of, with, _)| *of == op && *with == put);
                self.freed.extend(freed.map(|(.., slot)| slot));
                return true;
            }
        }
        false
    }

    /// Plans what can be; what that is, or why the first write that waits does.
    #[inline]
    pub(super) fn plan_next(
        &mut self,
        copies: &mut CopyCache<ThroughRule>,
        deltas: &mut DeltaStore,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<Option<NextPlan>, WaitReason> {
        match self.stuck {
            None if !self.changed => Ok(None),
            // Called for every event: without a change, and with the first write
            // still short of room, there is nothing to try.
            Some(stuck) if !self.changed && self.has_no_room(stuck, deltas, out) => Err(WaitReason::Staging),
            _ => self.plan_first(copies, deltas, array, out),
        }
    }

    /// Returns true if the staging buffer has no room for a page's delta.
    fn has_no_room(&self, (op, index): (OpId, usize), deltas: &DeltaStore, out: &Out) -> bool {
        let len = self.works[op.index()].hits[index].len;
        len.is_some_and(|len| !deltas.staging.has_room(len, out.page_bytes()))
    }

    #[inline(never)]
    fn plan_first(
        &mut self,
        copies: &mut CopyCache<ThroughRule>,
        deltas: &mut DeltaStore,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<Option<NextPlan>, WaitReason> {
        let ready = |work: &DeferredWrite| {
            (work.written || work.prepared.is_some()) && work.hits.iter().all(|hit| hit.len.is_some())
        };
        // The first that is ready, not the first: a delta whose length is not known
        // yet must not hold up the others.
        let Some(at) = self.waiting.iter().position(|op| ready(&self.works[op.index()])) else {
            (self.changed, self.stuck) = (false, None);
            return Ok(None);
        };
        let op = self.waiting[at];
        // Room for this delta is tried first, so that smaller ones after it cannot
        // starve it.
        if let Some(stuck) = self.stuck.filter(|(stuck, _)| *stuck == op)
            && self.has_no_room(stuck, deltas, out)
        {
            self.changed = false;
            return Err(WaitReason::Staging);
        }
        (self.changed, self.stuck) = (true, None);
        for index in 0..self.works[op.index()].hits.len() {
            let hit = self.works[op.index()].hits[index];
            if matches!(hit.kept, DeltaDestination::Undecided) {
                let (kept, after) = match self.keep(op, hit, copies, deltas, array, out) {
                    Ok(kept) => kept,
                    Err(short) => {
                        // Room in staging comes back only by packing, so the next
                        // call returns early until something changes.
                        if short == WaitReason::Staging {
                            (self.changed, self.stuck) = (false, Some((op, index)));
                        }
                        return Err(short);
                    }
                };
                let work = &mut self.works[op.index()];
                work.hits[index].kept = kept;
                work.done |= after;
            }
        }
        // All that they need is logged in one step: an operation has 64 of them.
        let logged = copies.plan_claims(op, out);
        let work = &mut self.works[op.index()];
        // A page whose base was lost with the device while its delta was encoded is
        // left out.
        for hit in &work.hits {
            if let DeltaDestination::Raw { page, .. } = hit.kept
                && hit.is_there(&copies.frames)
            {
                work.done |= write_raw(op, hit, page, logged, copies, out);
            }
        }
        self.waiting.remove(at);
        work.planned = true;
        Ok(Some(match work.prepared {
            Some((intent, merged)) => NextPlan::Before(op, merged, work.done | intent),
            None => NextPlan::End(op, work.done),
        }))
    }

    /// Finds where a delta goes, and plans its way if that is the staging buffer; the steps after which it is there.
    fn keep(
        &mut self,
        op: OpId,
        hit: WriteHit,
        copies: &mut CopyCache<ThroughRule>,
        deltas: &mut DeltaStore,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<(DeltaDestination, StepSet), WaitReason> {
        let frames = &mut copies.frames;
        // A write goes on when the device is lost: the member has the data, and its
        // parity is recomputed.
        if !hit.is_there(frames) {
            return Ok((DeltaDestination::Nowhere, StepSet::EMPTY));
        }
        let len = hit.len.expect("it is encoded");
        let is_raw = len >= out.page_bytes();
        // The one before leaves first; what may be needed again when the new one is there.
        if matches!(hit.base, BasePage::Frame(_)) || !is_raw {
            deltas.drop_delta(hit.base.before(hit.page), frames);
        }
        if let BasePage::Nowhere { writes } = hit.base {
            deltas.zone.is_bare(hit.page, writes);
        }
        if is_raw {
            let page = deltas.zone.take(frames).ok_or(WaitReason::Pages)?;
            // The frame's old page cannot be retracted from the log now; another
            // slot will be spare later.
            if !copies.claim(op, page) {
                deltas.zone.give(page, &mut copies.frames);
                return Err(WaitReason::Slots);
            }
            self.raw += 1;
            copies.counts.delta_writes += 1;
            return Ok((DeltaDestination::Raw { page, len }, StepSet::EMPTY));
        }
        if !deltas.staging.has_room(len, out.page_bytes()) {
            return Err(WaitReason::Staging);
        }
        let slot = match &mut self.memory {
            Some(slots) => slots.alloc(),
            None => array.take_slot(),
        };
        let slot = slot.ok_or(WaitReason::Slots)?;
        self.sequence += 1;
        let put = NvPut { slot, tag: tag(hit.page, len, self.sequence), src: hit.delta, len };
        let mut freed = Vec::new();
        // Dead slots are freed by the same commit that puts the delta, which costs
        // nothing extra.
        deltas.take_dead(slot.is_in_memory(), &mut freed);
        let (puts, frees) = (out.puts(op, &[put]), out.slots(op, &freed));
        let put = out.step_notify(op, change(slot.is_in_memory(), puts, frees), StepSet::EMPTY);
        self.freeing.extend(freed.into_iter().map(|slot| (op, put, slot)));
        // Found from now on, though not in its slot yet: reads of it are planned
        // after this commit.
        deltas.staging.put(StagedDelta { key: hit.key(), slot, len, settled: false });
        self.staged += 1;
        self.staged_bytes += u64::from(len);
        Ok((DeltaDestination::Staged { slot, put }, put))
    }

    /// All that was planned of a write is done.
    pub(super) fn done(
        &mut self,
        op: OpId,
        copies: &mut CopyCache<ThroughRule>,
        deltas: &mut DeltaStore,
        behind: &mut StaleRows,
    ) {
        let Some(work) = self.works.get_mut(op.index()).filter(|work| !work.hits.is_empty()) else { return };
        if !work.planned {
            return self.drop_work(op, copies, deltas);
        }
        let frames = &mut copies.frames;
        behind.are_short(work.short);
        for hit in &work.hits {
            // A new delta is in place, so the one it replaces can go; before that a
            // failure would need it.
            let there = hit.is_there(frames);
            hit.before.into_iter().for_each(|before| deltas.zone.release(before, frames));
            if let DeltaDestination::Raw { page, len } = hit.kept {
                // Without a base the raw delta stayed beside the old one until
                // now.
                if !matches!(hit.base, BasePage::Frame(_)) {
                    deltas.drop_delta(DeltaKey::Page(hit.page), frames);
                }
                if there && frames.keep(page) {
                    deltas.zone.put(hit.key(), PackedDelta { page, offset: 0, len });
                } else {
                    deltas.zone.give(page, frames);
                }
            }
            match hit.base {
                BasePage::Frame(_) => {}
                BasePage::Coming(frame) => {
                    // From here on the frame's base is found, and the page no
                    // longer depends on its delta alone.
                    deltas.zone.is_not_bare(hit.page);
                    if frames.comes_stale(frame) {
                        behind.has_frame(hit.row, hit.column, frames);
                    } else {
                        deltas.drop_delta(hit.key(), frames);
                    }
                }
                BasePage::Nowhere { .. } => {
                    deltas.zone.written(hit.page);
                    self.bare += 1;
                }
            }
        }
        self.end(op);
    }
}

/// Plans the write of a delta as long as a page to its own, after these steps; the steps after which it is there.
fn write_raw(
    op: OpId,
    hit: &WriteHit,
    page: FrameNo,
    logged: StepSet,
    copies: &CopyCache<ThroughRule>,
    out: &mut Out,
) -> StepSet {
    let (src, ready) = match hit.base {
        // With the base at hand a raw delta is the new page itself.
        BasePage::Frame(_) | BasePage::Coming(_) => (hit.delta, logged),
        // Alone, the new page would not tell what it was.
        BasePage::Nowhere { .. } => {
            let (srcs, dst) = (out.list(op, &[hit.old, hit.new]), out.tmp(op, 1));
            (dst, logged | out.step(op, Step::Xor { srcs, pages: 1, dst }, StepSet::EMPTY))
        }
    };
    let step = Step::Write { ext: copies.frames.ext(page), src, fua: false };
    out.step_placed(op, step, PlacementStream::Delta, ready)
}

/// The step that changes slots of memory, or of the NVRAM.
pub(super) const fn change(in_memory: bool, puts: PutList, frees: List) -> Step {
    if in_memory { Step::Hold { puts, frees } } else { Step::NvCommit { puts, frees } }
}
