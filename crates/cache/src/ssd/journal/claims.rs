//! Frames that operations are about to write, and of which the log has to say first that they are free.

use destage_plan::List;
use destage_plan::{Buf, NvPut, NvSlot, OpId, Out, Step, StepNo, StepSet};

use super::KIND_ENTRY;
use crate::ssd::frames::FrameNo;
use crate::ssd::log::{FrameFact, LogEntry, MetadataLog};
use crate::ssd::of;

/// Holds what an operation has claimed.
#[derive(Default)]
struct FrameClaim {
    frames: Vec<(FrameNo, NvSlot)>,
    /// Holds the entries that are being put, with the step that puts them.
    puts: Vec<(StepSet, u32, LogEntry, NvSlot)>,
}

/// By operation.
#[derive(Default)]
pub(super) struct FrameClaims {
    claims: Vec<FrameClaim>,
}

impl FrameClaims {
    pub(super) fn add(&mut self, op: OpId, frame: FrameNo, slot: NvSlot) {
        of(&mut self.claims, op).frames.push((frame, slot));
    }

    /// Plans what is claimed and not planned; the steps after which it is logged.
    pub(super) fn plan(&mut self, op: OpId, life: u32, log: &mut MetadataLog, out: &mut Out) -> StepSet {
        // One commit logs all frames of the operation, which has 64 steps for
        // everything.
        let Some(claim) = self.claims.get_mut(op.index()).filter(|claim| !claim.frames.is_empty()) else {
            return StepSet::EMPTY;
        };
        let entry = |frame: FrameNo, log: &mut MetadataLog| LogEntry {
            frame: frame.number(),
            // The sequence is drawn now, when the order of facts is decided, not
            // when the slot is written.
            sequence: log.next_sequence(),
            fact: FrameFact::Free,
        };
        let entries: Vec<_> = claim.frames.drain(..).map(|(frame, slot)| (entry(frame, log), slot)).collect();
        let put = |(entry, slot): &(LogEntry, NvSlot)| NvPut {
            slot: *slot,
            tag: entry.tag(KIND_ENTRY),
            src: Buf::None,
            len: 0,
        };
        let puts: Vec<_> = entries.iter().map(put).collect();
        let puts = out.puts(op, &puts);
        // Notified, because the journal must know which entries are durable before
        // it lets go of their intents.
        let step = out.step_notify(op, Step::NvCommit { puts, frees: List::EMPTY }, StepSet::EMPTY);
        // The life goes along: an entry for a device that is lost meanwhile must
        // free its slot and change nothing else.
        claim.puts.extend(entries.into_iter().map(|(entry, slot)| (step, life, entry, slot)));
        step
    }

    /// Plans entries of dirty pages after these steps; the step after which they are logged.
    pub(super) fn plan_dirty(
        &mut self,
        op: OpId,
        entries: Vec<(LogEntry, NvSlot)>,
        life: u32,
        after: StepSet,
        out: &mut Out,
    ) -> StepSet {
        let put = |(entry, slot): &(LogEntry, NvSlot)| NvPut {
            slot: *slot,
            tag: entry.tag(KIND_ENTRY),
            src: Buf::None,
            len: 0,
        };
        let puts: Vec<_> = entries.iter().map(put).collect();
        let puts = out.puts(op, &puts);
        let step = out.step_notify(op, Step::NvCommit { puts, frees: List::EMPTY }, after);
        of(&mut self.claims, op).puts.extend(entries.into_iter().map(|(entry, slot)| (step, life, entry, slot)));
        step
    }

    /// Returns true if any entries are being put or wait for it.
    pub(super) fn are_put(&self) -> bool {
        self.claims.iter().any(|claim| !claim.puts.is_empty())
    }

    /// A step is done: in which life of the device it was planned, and what it has put, if it is one of these.
    pub(super) fn done(&mut self, op: OpId, step: StepNo) -> Option<(u32, Vec<(LogEntry, NvSlot)>)> {
        let puts = &mut self.claims.get_mut(op.index())?.puts;
        // One step has entries of one life only, so the first tells for all.
        let life = puts.iter().find(|put| put.0.contains(step))?.1;
        let done = puts.extract_if(.., |put| put.0.contains(step));
        Some((life, done.map(|(.., entry, slot)| (entry, slot)).collect()))
    }

    /// Takes the claims of an operation that are not logged.
    pub(super) fn drop_all(&mut self, op: OpId) -> Vec<(FrameNo, NvSlot)> {
        let Some(claim) = self.claims.get_mut(op.index()) else { return Vec::new() };
        let planned = claim.puts.drain(..).map(|(.., entry, slot)| (FrameNo::new(entry.frame), slot));
        claim.frames.drain(..).chain(planned).collect()
    }
}
