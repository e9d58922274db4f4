//! Keeps the purpose of every operation above an array.

use std::ops::Range;

use destage_plan::{Claim, Class, Frag, OpId, Out, Step, StepSet};
use destage_raid::array::{RaidArray, StripeSegment, TakenPages};

use crate::synchroniser::WriteSynchroniser;

/// Tells the purpose of an operation.
#[derive(Clone, Copy)]
pub(crate) enum OperationWork<T> {
    /// Reads pages of a fragment, from this one on.
    Read { frag: Frag, from: u16, pages: u16 },
    /// Reads a segment of a fragment.
    ReadSeg { frag: Frag, seg: StripeSegment },
    /// Writes a segment. `left` of its parts are not done: its own steps, and the operations that
    /// were opened for it.
    Write { frag: Frag, seg: StripeSegment, left: u32, ok: bool },
    /// Pages of which nothing is done.
    Skip { frag: Frag, pages: u16, ok: bool },
    /// A part of a write.
    Part { part: T, parent: OpId },
    /// The cache's own.
    Own { part: T },
}

/// Keeps the purpose of every operation above an array, and the synchroniser that some of them wait for.
pub struct CacheOperations<T> {
    pub(crate) works: Vec<Option<OperationWork<T>>>,
    /// Pages of writes that blocked other requests until now.
    pub(crate) entered: Vec<Range<u64>>,
    /// Decides when the cache writes the pages it chose, if the cache does not decide alone.
    pub(crate) synchroniser: Option<WriteSynchroniser>,
}

impl<T: Copy> CacheOperations<T> {
    /// Opens an operation that does a part of a write, which is acknowledged no sooner than all its
    /// parts are done. It may use the fragment's bytes.
    pub fn open_part(&mut self, parent: OpId, part: T, out: &mut Out) -> OpId {
        let Some(Some(OperationWork::Write { frag, left, .. })) = self.works.get_mut(parent.index()) else {
            unreachable!("only writes have parts")
        };
        // The write's own steps count as one part from the first part on.
        *left = (*left).max(1) + 1;
        let frag = frag.id;
        let op = out.open(Class::Internal, None, Some(frag));
        self.set(op, OperationWork::Part { part, parent });
        op
    }

    /// Plans the end of a write whose cache's part could not be [planned](crate::HostCache::write) at once: it
    /// is done after these steps.
    pub fn finish_write(&mut self, op: OpId, after: StepSet, out: &mut Out) {
        let Some(Some(OperationWork::Write { left, .. })) = self.works.get(op.index()) else {
            unreachable!("the operation is a write")
        };
        debug_assert!(*left > 0, "its own steps are counted");
        // The join notifies the tier when the cache's part is done, so that the
        // write is acknowledged then.
        out.step_notify(op, Step::Join, after);
    }

    /// Opens the operation that writes a segment of a fragment to the array.
    pub fn open_write(&mut self, frag: &Frag, seg: StripeSegment, array: &mut RaidArray, out: &mut Out) -> OpId {
        let op = array.open_write(frag, seg, out);
        self.set(op, OperationWork::Write { frag: *frag, seg, left: 0, ok: true });
        op
    }

    /// Opens an operation that writes a part of the segment of a write, which is split, behind that one or behind another that
    /// does a part of it.
    pub(crate) fn open_write_behind(
        &mut self,
        behind: OpId,
        frag: &Frag,
        part: StripeSegment,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> OpId {
        let op = array.open_write_behind(behind, frag, part, out);
        self.set(op, OperationWork::Write { frag: *frag, seg: part, left: 0, ok: true });
        op
    }

    /// Opens the operation that has the cache take a segment of a fragment.
    pub fn open_taken(
        &mut self,
        frag: &Frag,
        seg: StripeSegment,
        taken: TakenPages,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> OpId {
        let op = array.open_taken(frag, seg, taken, out);
        self.set(op, OperationWork::Write { frag: *frag, seg, left: 0, ok: true });
        op
    }

    /// Lets requests go that waited for a write of these pages, which was let in or refused.
    pub fn entered(&mut self, pages: Range<u64>) {
        self.entered.push(pages);
    }

    /// Answers pages of a fragment as failed: they cannot be taken.
    pub fn refuse(&mut self, frag: &Frag, pages: u16, out: &mut Out) {
        // An operation of its own, because acknowledgements are steps: the host
        // hears of the failure in the usual way.
        let op = out.open(Class::Internal, None, Some(frag.id));
        self.set(op, OperationWork::Skip { frag: *frag, pages, ok: false });
    }

    /// Opens an operation of the cache's own. It is [planned](crate::HostCache::plan_part) as parts of writes
    /// are, and anew if a device fails meanwhile.
    pub fn open_own(&mut self, claim: Option<Claim>, part: T, out: &mut Out) -> OpId {
        let op = out.open(Class::Destage, claim, None);
        self.set(op, OperationWork::Own { part });
        op
    }

    pub(crate) fn set(&mut self, op: OpId, work: OperationWork<T>) {
        // Operation numbers are dense, so a vector serves as the map.
        if self.works.len() <= op.index() {
            self.works.resize(op.index() + 1, None);
        }
        self.works[op.index()] = Some(work);
    }

    pub(crate) fn get(&self, op: OpId) -> &OperationWork<T> {
        self.works[op.index()].as_ref().expect("the operation is known")
    }

    /// Forgets an operation that has ended. Returns the write that it was a part of, if any.
    pub(crate) fn end(&mut self, op: OpId) -> Option<OpId> {
        let work = self.works.get_mut(op.index())?;
        let parent = match work {
            Some(OperationWork::Part { parent, .. }) => Some(*parent),
            _ => None,
        };
        *work = None;
        parent
    }
}
