//! How a cache keeps what the parity covers of a page beside what is newer: what tells those apart that
//! [leave parity for later](super::delayed).

use destage_plan::{Column, Frag, NvHeld, OpId, Out, Params, Row, StepNo, StepOutcome, StepSet};
use destage_raid::array::{Array, Source};

use super::behind::{Behind, Owed};
use super::copies::{Copies, FrameReader};
use super::frames::{Frame, Frames};
use super::journal;
use super::write_through::Through;
use crate::{HostCacheError, Operations, Write};

/// Pages of a write whose parity is left behind, at most.
pub(super) const MOST_PAGES: usize = 16;

/// A page that is written, with the frame that the cache finds it by if there is one.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(super) row: Row,
    pub(super) column: Column,
    pub(super) page: u64,
    pub(super) frame: Option<Frame>,
}

/// What operations of the cache's own, and parts of writes, are for.
#[derive(Clone, Copy)]
pub(crate) enum Part<K> {
    /// Writes pages of a fragment to the cache.
    Fill(Frag),
    /// Tells what is in the cache.
    Journal(journal::Part),
    /// Trims what became free.
    Trim,
    /// What the way in which versions are kept needs.
    Kept(K),
}

impl<K> From<Frag> for Part<K> {
    fn from(frag: Frag) -> Self {
        Self::Fill(frag)
    }
}

/// How what the parity covers of a page is kept beside what is newer.
pub(crate) trait Keeps: FrameReader + Send + Sized + 'static {
    /// What operations of its own are for.
    type Part: Copy + Send;

    /// Pages of a write that may be kept so, at most [`MOST_PAGES`]: an operation has 64 steps.
    const MAX_DELAYED: usize;

    /// Whether what the parity covers of pages that are in no frame can be kept, too: then what is needed for
    /// that is [prepared](Self::prepare) before they are written.
    fn prepares(&self) -> bool {
        false
    }

    /// For a cache of these frames, over an array of so many data columns.
    fn new(frames: &mut Frames, columns: u32, params: &Params) -> Result<Self, HostCacheError>;

    /// Of an earlier life: whether the slot is one of its own.
    fn load(&mut self, held: &NvHeld) -> bool {
        let _ = held;
        false
    }

    /// Has what is written of these pages kept beside what the parity covers, if there is room; whether
    /// there is. All are in frames unless it [prepares](Self::prepares).
    fn keep(&mut self, op: OpId, pages: &[Known], copies: &mut Copies<Through>, behind: &mut Behind) -> bool;

    /// What was to be kept will not come about.
    fn drop_work(&mut self, op: OpId, copies: &mut Copies<Through>);

    /// Whether something of what an operation writes is [kept](Self::keep).
    fn has_work(&self, op: OpId) -> bool;

    /// Plans how that comes into the cache; the steps after which it is there, or nothing if
    /// [`Operations::finish_write`] is called later.
    fn write(&mut self, op: OpId, write: &Write<'_>, copies: &mut Copies<Through>, out: &mut Out) -> Option<StepSet>;

    /// Plans what has to be done before pages of which some are in no frame are written, after which
    /// [`Array::finish_prepared`] is called, now or later.
    fn prepare(
        &mut self,
        op: OpId,
        frag: &Frag,
        intent: StepSet,
        copies: &mut Copies<Through>,
        array: &mut Array,
        out: &mut Out,
    ) {
        let _ = (op, frag, intent, copies, array, out);
        unreachable!("a cache that prepares says how")
    }

    /// Whether a page that is written with its parity comes into a frame, or stays in the one that it has.
    fn admits(&mut self, page: u64, frames: &Frames) -> bool {
        let _ = (page, frames);
        true
    }

    /// Whether pages that are read come into frames.
    fn admits_reads(&self) -> bool {
        true
    }

    /// Plans an operation of its own.
    fn plan_part(&mut self, op: OpId, part: Self::Part, copies: &mut Copies<Through>, array: &mut Array, out: &mut Out);

    /// A step that it asked to be told of is done; whether it was one.
    fn step_done(&mut self, op: OpId, step: StepNo, outcome: StepOutcome) -> bool {
        let _ = (op, step, outcome);
        false
    }

    /// The members have what is written.
    fn written(&mut self, op: OpId) {
        let _ = op;
    }

    /// An operation has ended as it was planned.
    fn done(&mut self, op: OpId, copies: &mut Copies<Through>, behind: &mut Behind);

    /// Begins what is due.
    fn turn(
        &mut self,
        copies: &mut Copies<Through>,
        behind: &Behind,
        array: &mut Array,
        operations: &mut Operations<Part<Self::Part>>,
        out: &mut Out,
    ) {
        let _ = (copies, behind, array, operations, out);
    }

    /// Where what the parity covers is of a stale page.
    fn covered_in(&self, frame: Frame, frames: &Frames) -> Source {
        Source::Page(frames.ext(frames.covered(frame)))
    }

    /// So many pages of a row, the stale ones among them, may be made of a page and a delta when all of the row are
    /// read: what else is so is taken from its member.
    fn most_made(&self) -> u32 {
        u32::MAX
    }

    /// Frames that are owed.
    fn owed(&self, frames: &Frames) -> Owed<'_>;

    /// Where the newest version of a page is.
    fn newest(&self, frame: Frame, frames: &Frames) -> Source;

    /// An operation reads all versions of a page.
    fn uses(&mut self, op: OpId, frame: Frame, frames: &mut Frames);

    /// Where what the parity covers is of a stale page that is in no frame.
    fn covered_of(&self, page: u64, frames: &Frames) -> Source {
        let _ = (page, frames);
        Source::Lost
    }

    /// An operation reads all there is of a stale page that is in no frame.
    fn uses_of(&mut self, op: OpId, page: u64, frames: &mut Frames) {
        let _ = (op, page, frames);
    }

    /// An operation reads nothing any more.
    fn released(&mut self, op: OpId, frames: &mut Frames);

    /// The parity covers the newest version of a page, which has just been written if `written`.
    fn covered(&mut self, frame: Frame, written: bool, frames: &mut Frames);

    /// The parity covers the newest version of a page that was stale and in no frame.
    fn covered_without(&mut self, page: u64, frames: &mut Frames) {
        let _ = (page, frames);
    }

    /// The device is lost, with all that it held.
    fn lose(&mut self, frames: &mut Frames) {
        let _ = frames;
    }

    /// Whether nothing is left to be done.
    fn is_clean(&self) -> bool {
        true
    }

    /// What was counted, after [`CLEANED`](super::delayed::CLEANED).
    fn figures(&self, into: &mut Vec<u64>);
}
