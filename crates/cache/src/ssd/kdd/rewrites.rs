//! Writes pages whose parity was updated to their frames as they are now (scheme 1 of specs §9.6).
//!
//! Invariants:
//!
//! * Until the write is done the page consists of its base and a delta, and is clean. It is read so, may be
//!   evicted, and a newer delta refers to the same base.
//! * The operation's claim keeps others from writing the page, and nobody reads the frame: it is *filled*, and
//!   the member has the page.
//! * A page that cannot be rewritten at once is freed, so nothing waits for a rewrite.

use std::collections::VecDeque;

use destage_plan::{Claim, ColumnSet, OpId, Out, PlacementStream, Step};
use destage_raid::Geometry;

use super::super::copies::{CopyCache, FrameReader};
use super::super::frames::{FrameNo, FrameTable};
use super::super::keeps;
use super::super::write_through::ThroughRule;
use super::deltas::DeltaStore;
use super::{DeltaKey, KddTask};
use crate::CacheOperations;

/// Pages that are written at the same time.
// Rewrites run beside host requests, so they are few at a time.
const CONCURRENT: usize = 8;

/// A page that is being written.
struct PageRewrite {
    op: OpId,
    page: u64,
    /// Is the frame, from the moment it is being written.
    frame: Option<FrameNo>,
}

/// Those that are to be written, in order, and those that are being.
#[derive(Default)]
pub(super) struct RewriteQueue {
    due: VecDeque<u64>,
    works: Vec<PageRewrite>,
}

impl RewriteQueue {
    /// A page is made of what its frame has and a delta, and is to be written there.
    pub(super) fn add(&mut self, page: u64) {
        self.due.push_back(page);
    }

    /// Returns true if nothing is queued or running.
    pub(super) fn is_idle(&self) -> bool {
        self.due.is_empty() && self.works.is_empty()
    }

    /// Pages that are to be written, which will not be.
    pub(super) fn give_up(&mut self) -> VecDeque<u64> {
        std::mem::take(&mut self.due)
    }

    /// Begins what is due.
    pub(super) fn begin(
        &mut self,
        frames: &FrameTable,
        geometry: &Geometry,
        deltas: &DeltaStore,
        operations: &mut CacheOperations<keeps::DeferredTask<KddTask>>,
        out: &mut Out,
    ) {
        while self.works.len() < CONCURRENT
            && let Some(page) = self.due.pop_front()
        {
            // It was evicted, or written again, since it was queued.
            if made_in(page, frames, deltas).is_none() {
                continue;
            }
            let place = geometry.locate(page);
            // A read claim: it excludes writers of the page, and other readers need
            // not wait.
            let (r, w) = (ColumnSet::one(place.column), ColumnSet::EMPTY);
            let claim = Claim { stripe: place.stripe, first: place.row_in_chunk, rows: 1, r, w };
            let op = operations.open_own(Some(claim), keeps::DeferredTask::Kept(KddTask::Rewrite), out);
            self.works.push(PageRewrite { op, page, frame: None });
        }
    }

    /// Plans the writing of a page, or gives it up.
    pub(super) fn plan(
        &mut self,
        op: OpId,
        copies: &mut CopyCache<ThroughRule>,
        deltas: &mut DeltaStore,
        out: &mut Out,
    ) {
        let work = self.works.iter_mut().find(|work| work.op == op).expect("it was begun");
        if let Some(frame) = made_in(work.page, &copies.frames, deltas) {
            if !copies.frames.rewrite(frame) {
                free(frame, &mut copies.frames, deltas);
            } else if copies.claim(op, frame) {
                work.frame = Some(frame);
                let (page, logged) = (out.tmp(op, 1), copies.plan_claims(op, out));
                let made = deltas.read(op, frame, page, &mut copies.frames, out);
                // No FUA: the member has the page, so losing this write costs a
                // read.
                let step = Step::Write { ext: copies.frames.ext(frame), src: page, fua: false };
                out.step_placed(op, step, PlacementStream::Clean, made | logged);
                copies.counts.clean_writes += 1;
            } else {
                // The log cannot be told now. The page is dropped instead of
                // waiting for a slot.
                deltas.drop_delta(DeltaKey::Covered(frame), &mut copies.frames);
                copies.frames.undone(frame);
            }
        }
        out.close(op);
    }

    /// Gives up what was planned for an operation, which is planned anew or ends.
    pub(super) fn drop_work(&mut self, op: OpId, frames: &mut FrameTable, deltas: &mut DeltaStore) {
        let work = self.works.iter_mut().find(|work| work.op == op);
        if let Some(frame) = work.and_then(|work| work.frame.take()) {
            deltas.drop_delta(DeltaKey::Covered(frame), frames);
            frames.undone(frame);
        }
    }

    /// An operation has ended; whether it was one of these.
    pub(super) fn done(&mut self, op: OpId, frames: &mut FrameTable, deltas: &mut DeltaStore) -> bool {
        let Some(at) = self.works.iter().position(|work| work.op == op) else { return false };
        if let Some(frame) = self.works.swap_remove(at).frame {
            deltas.drop_delta(DeltaKey::Covered(frame), frames);
            frames.rewritten(frame);
        }
        true
    }
}

/// The frame of a page that is made of what is in it and a delta, and is clean.
fn made_in(page: u64, frames: &FrameTable, deltas: &DeltaStore) -> Option<FrameNo> {
    let is_made = |frame: &FrameNo| frames.is_clean(*frame) && deltas.get(DeltaKey::Covered(*frame), frames).is_some();
    frames.get(page).filter(is_made)
}

/// A page that is made of what is in its frame and a delta is not kept.
pub(super) fn free(frame: FrameNo, frames: &mut FrameTable, deltas: &mut DeltaStore) {
    deltas.drop_delta(DeltaKey::Covered(frame), frames);
    frames.forget(frame);
}
