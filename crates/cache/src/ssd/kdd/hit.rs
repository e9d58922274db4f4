//! A write of pages that the cache has: their members are written, the parity is left as it is, and
//! what has changed goes to the staging buffer (specs §9.4).
//!
//! What is staged is staged when the member is written, not before: until then a cut leaves a row whose
//! intent is open, and whose parity is made anew from what the members hold. A delta that does not fit waits
//! until others are packed, with its claim held; nothing that packing needs waits for a claim.

use std::collections::VecDeque;

use destage_plan::{Buf, NvPut, NvSlot, OpId, Out, Step, StepNo, StepOutcome, StepSet, Tag};
use destage_raid::array::Array;

use super::super::copies::Copies;
use super::super::frames::Frame;
use super::super::of;
use super::super::write_through::Through;
use super::deltas::Deltas;
use super::staging::Staged;
use super::zone::Packed;

const VERSION: u8 = 1;
const KIND: u8 = Array::kind_above(1);

/// The tag of a staged delta: format, kind; its length; the page; a sequence.
fn tag(page: u64, len: u32, sequence: u64) -> Tag {
    let mut tag = [0; 24];
    (tag[0], tag[1]) = (VERSION, KIND);
    tag[4..8].copy_from_slice(&len.to_le_bytes());
    tag[8..16].copy_from_slice(&page.to_le_bytes());
    tag[16..24].copy_from_slice(&sequence.to_le_bytes());
    tag
}

/// Whether a slot has a delta that was staged.
pub(super) const fn is_staged(tag: &Tag) -> bool {
    tag[0] == VERSION && tag[1] == KIND
}

/// A page that is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) page: u64,
    /// It is kept in this frame as it was.
    pub(super) base: Frame,
    delta: Buf,
    /// The step that tells how long the delta is, and how long it is.
    encode: StepSet,
    len: Option<u32>,
    kept: Kept,
}

/// Where a delta goes.
#[derive(Clone, Copy, Debug)]
enum Kept {
    Undecided,
    Staged {
        slot: NvSlot,
        put: StepSet,
    },
    /// It is as long as a page, and has one of its own.
    Raw {
        page: Frame,
        len: u32,
    },
    /// The device was lost meanwhile.
    Nowhere,
}

impl Hit {
    pub(super) const fn new(page: u64, base: Frame) -> Self {
        Self { page, base, delta: Buf::None, encode: StepSet::EMPTY, len: None, kept: Kept::Undecided }
    }
}

/// A write of pages that the cache has.
#[derive(Default)]
pub(super) struct Work {
    pub(super) hits: Vec<Hit>,
    /// Its rows are written.
    pub(super) written: bool,
    done: StepSet,
    /// All is planned.
    planned: bool,
}

/// All of them.
#[derive(Default)]
pub(super) struct Hits {
    works: Vec<Work>,
    /// Those that are not planned to their end, in order.
    waiting: VecDeque<OpId>,
    /// Pages of writes that are under way.
    pages: u32,
    /// Slots that are freed with what is put: not free before.
    freeing: Vec<(OpId, StepSet, NvSlot)>,
    /// Slots that are free.
    pub(super) freed: Vec<NvSlot>,
    sequence: u64,
    pub(super) staged: u64,
    pub(super) staged_bytes: u64,
    pub(super) raw: u64,
}

/// Why a write waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Short {
    /// Of room in the staging buffer: what is in it must be packed.
    Staging,
    /// Of slots of the NVRAM, some of which may be freed.
    Slots,
    /// Of a free page of the cache.
    Pages,
}

impl Hits {
    pub(super) fn work(&mut self, op: OpId) -> &mut Work {
        of(&mut self.works, op)
    }

    pub(super) fn has_work(&self, op: OpId) -> bool {
        self.works.get(op.index()).is_some_and(|work| !work.hits.is_empty())
    }

    /// Pages of writes that are under way.
    pub(super) const fn pages(&self) -> u32 {
        self.pages
    }

    /// A write has these pages, which the cache has.
    pub(super) fn open(&mut self, op: OpId, hits: impl Iterator<Item = Hit>) {
        let work = of(&mut self.works, op);
        work.hits.extend(hits);
        self.pages += work.hits.len() as u32;
    }

    /// What was planned will not come about, or has.
    pub(super) fn drop_work(&mut self, op: OpId, copies: &mut Copies<Through>, deltas: &mut Deltas) {
        let work = of(&mut self.works, op);
        self.pages -= work.hits.len() as u32;
        for hit in work.hits.drain(..) {
            if let Kept::Raw { page, .. } = hit.kept {
                deltas.zone.give(page, &mut copies.frames);
            }
        }
        let was_written = std::mem::take(&mut work.written);
        (work.done, work.planned) = (StepSet::EMPTY, false);
        if was_written || !self.waiting.is_empty() {
            self.waiting.retain(|other| *other != op);
        }
    }

    /// Plans the encoding of all pages, whose bytes are told by page.
    pub(super) fn encode(
        &mut self,
        op: OpId,
        new: impl Fn(u64) -> (Buf, StepSet),
        copies: &Copies<Through>,
        out: &mut Out,
    ) {
        for hit in &mut of(&mut self.works, op).hits {
            let (base, delta) = (out.tmp(op, 1), out.tmp(op, 1));
            let (new, there) = new(hit.page);
            let read = Step::Read { ext: copies.frames.ext(hit.base), dst: base };
            let read = out.step(op, read, StepSet::EMPTY);
            let encode = Step::Encode { base, new, dst: delta, page: hit.page };
            (hit.delta, hit.encode) = (delta, out.step_notify(op, encode, read | there));
        }
        self.waiting.push_back(op);
    }

    /// A step is done; whether it is one of these.
    pub(super) fn step_done(&mut self, op: OpId, step: StepNo, outcome: StepOutcome, deltas: &mut Deltas) -> bool {
        let Some(work) = self.works.get_mut(op.index()) else { return false };
        for hit in &mut work.hits {
            if hit.encode.contains(step) {
                if let StepOutcome::Length(len) = outcome {
                    hit.len = Some(len);
                }
                return true;
            }
            if let Kept::Staged { slot, put } = hit.kept
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

    /// Plans what can be; the write whose end is planned, with what it is done after, or why the first that
    /// waits does.
    pub(super) fn plan_next(
        &mut self,
        copies: &mut Copies<Through>,
        deltas: &mut Deltas,
        array: &mut Array,
        out: &mut Out,
    ) -> Result<Option<(OpId, StepSet)>, Short> {
        let ready = |work: &Work| work.written && work.hits.iter().all(|hit| hit.len.is_some());
        let Some(at) = self.waiting.iter().position(|op| ready(&self.works[op.index()])) else { return Ok(None) };
        let op = self.waiting[at];
        for index in 0..self.works[op.index()].hits.len() {
            let hit = self.works[op.index()].hits[index];
            if matches!(hit.kept, Kept::Undecided) {
                let (kept, after) = self.keep(op, hit, copies, deltas, array, out)?;
                let work = &mut self.works[op.index()];
                work.hits[index].kept = kept;
                work.done |= after;
            }
        }
        self.waiting.remove(at);
        let work = &mut self.works[op.index()];
        work.planned = true;
        Ok(Some((op, work.done)))
    }

    /// Plans where a delta goes; the steps after which it is there.
    fn keep(
        &mut self,
        op: OpId,
        hit: Hit,
        copies: &mut Copies<Through>,
        deltas: &mut Deltas,
        array: &mut Array,
        out: &mut Out,
    ) -> Result<(Kept, StepSet), Short> {
        let frames = &mut copies.frames;
        if frames.get(hit.page) != Some(hit.base) || !frames.is_stale(hit.base) {
            return Ok((Kept::Nowhere, StepSet::EMPTY));
        }
        // The one before leaves first.
        deltas.drop_delta(hit.base, frames);
        let len = hit.len.expect("it is encoded");
        if len >= out.page_bytes() {
            let page = deltas.zone.take(frames).ok_or(Short::Pages)?;
            if !copies.claim(op, page) {
                deltas.zone.give(page, &mut copies.frames);
                return Err(Short::Slots);
            }
            let logged = copies.plan_claims(op, out);
            self.raw += 1;
            copies.counts.delta_writes += 1;
            let step = Step::Write { ext: copies.frames.ext(page), src: hit.delta, fua: false };
            return Ok((Kept::Raw { page, len }, out.step(op, step, logged)));
        }
        if !deltas.staging.has_room(len, out.page_bytes()) {
            return Err(Short::Staging);
        }
        let slot = array.take_slot().ok_or(Short::Slots)?;
        self.sequence += 1;
        let put = NvPut { slot, tag: tag(hit.page, len, self.sequence), src: hit.delta, len };
        let mut freed = Vec::new();
        deltas.take_dead(&mut freed);
        let (puts, frees) = (out.puts(op, &[put]), out.slots(op, &freed));
        let put = out.step_notify(op, Step::NvCommit { puts, frees }, StepSet::EMPTY);
        self.freeing.extend(freed.into_iter().map(|slot| (op, put, slot)));
        deltas.staging.put(Staged { base: hit.base, slot, len, settled: false });
        self.staged += 1;
        self.staged_bytes += u64::from(len);
        Ok((Kept::Staged { slot, put }, put))
    }

    /// All that was planned of a write is done.
    pub(super) fn done(&mut self, op: OpId, copies: &mut Copies<Through>, deltas: &mut Deltas) {
        let Some(work) = self.works.get_mut(op.index()) else { return };
        if work.planned {
            for hit in &mut work.hits {
                if let Kept::Raw { page, len } = std::mem::replace(&mut hit.kept, Kept::Nowhere) {
                    let frames = &mut copies.frames;
                    if frames.get(hit.page) == Some(hit.base) && frames.is_stale(hit.base) && frames.keep(page) {
                        deltas.zone.put(hit.base, Packed { page, offset: 0, len });
                    } else {
                        deltas.zone.give(page, frames);
                    }
                }
            }
        }
        self.drop_work(op, copies, deltas);
    }
}
