//! Trimming what the frames of a cache held: an SSD that knows which of its pages nobody needs has more room to
//! collect garbage in, and copies fewer pages.
//!
//! It is done by operations of the cache's own, one at a time, so that under load each of them has many frames, and
//! a frame is not taken before it is done: a trim has no order to a write beside it.

use destage_plan::{Ext, OpId, Out, ParamSpec, Params, SpecError, Step, StepSet};

use super::frames::{FrameNo, FrameTable};

/// Frames of an operation, at most: it has 64 steps, and they may be all apart.
const MOST: usize = 64;

pub(crate) const TRIM: ParamSpec = ParamSpec {
    name: "trim",
    default: "off",
    values: "off or on",
    unit: "-",
    help: "whether the cache device is told which of its pages nobody needs any more; those that are written again are taken first",
};

/// Frames that are being trimmed.
#[derive(Debug, Default)]
pub(super) struct FrameTrims {
    op: Option<OpId>,
    frames: Vec<FrameNo>,
}

impl FrameTrims {
    /// Those of a cache with these parameters, if it is to.
    pub(super) fn new(frames: &mut FrameTable, params: &Params) -> Result<Self, SpecError> {
        if params.choice(TRIM.name, &[("off", false), ("on", true)])? {
            frames.trim_freed();
        }
        Ok(Self::default())
    }

    /// Begins to trim what has become free.
    #[inline]
    pub(super) fn turn(&mut self, frames: &mut FrameTable, out: &mut Out, open: impl FnOnce(&mut Out) -> OpId) {
        if frames.has_freed() && self.op.is_none() && frames.is_enabled() {
            self.begin(frames, out, open);
        }
    }

    #[cold]
    fn begin(&mut self, frames: &mut FrameTable, out: &mut Out, open: impl FnOnce(&mut Out) -> OpId) {
        frames.take_freed(MOST, &mut self.frames);
        if !self.frames.is_empty() {
            // Ascending frames merge into runs, and each run is one command.
            self.frames.sort_unstable();
            self.op = Some(open(out));
        }
    }

    /// Plans the operation; what is there anew if it fails is not the device that had the pages.
    pub(super) fn plan(&self, op: OpId, frames: &FrameTable, out: &mut Out) {
        debug_assert_eq!(self.op, Some(op), "there is one at a time");
        // A replaced device never had these pages; trimming them could only discard
        // new data.
        if frames.is_enabled() {
            for run in self.frames.chunk_by(|a, b| a.number() + 1 == b.number()) {
                let first = frames.ext(run[0]);
                let ext = Ext::new(first.dev(), first.first(), run.len() as u16);
                out.step(op, Step::Trim { ext }, StepSet::EMPTY);
            }
        }
        // The operation always ends, even without steps, so that its frames come
        // back.
        out.close(op);
    }

    /// An operation has ended; whether it was this one.
    #[inline]
    pub(super) fn done(&mut self, op: OpId, frames: &mut FrameTable) -> bool {
        let own = self.op == Some(op);
        if own {
            self.op = None;
            self.frames.drain(..).for_each(|frame| frames.trimmed(frame));
        }
        own
    }
}
