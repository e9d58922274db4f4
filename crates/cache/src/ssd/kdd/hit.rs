//! Describes a page that is written while its parity stays stale: the place of its old version, and the
//! destination of its delta.

use destage_plan::{Buf, Column, NvSlot, OpId, Out, Row, Step, StepSet, Tag};
use destage_raid::array::RaidArray;

use super::super::copies::CopyCache;
use super::super::frames::{FrameNo, FrameTable};
use super::super::write_through::ThroughRule;
use super::DeltaKey;
use super::deltas::DeltaStore;
use super::zone::PackedDelta;

const VERSION: u8 = 1;
const KIND: u8 = RaidArray::kind_above(1);

/// The tag of a staged delta: format, kind; its length; the page; a sequence.
pub(super) fn tag(page: u64, len: u32, sequence: u64) -> Tag {
    let mut tag = [0; 24];
    (tag[0], tag[1]) = (VERSION, KIND);
    tag[4..8].copy_from_slice(&len.to_le_bytes());
    tag[8..16].copy_from_slice(&page.to_le_bytes());
    // A restart ignores the sequence: no staged delta of an earlier life is used.
    tag[16..24].copy_from_slice(&sequence.to_le_bytes());
    tag
}

/// Bytes of the delta that was staged in a slot, if that is what its tag says.
pub(super) fn staged(tag: &Tag) -> Option<u32> {
    (tag[0] == VERSION && tag[1] == KIND).then(|| u32::from_le_bytes([tag[4], tag[5], tag[6], tag[7]]))
}

/// Identifies the place of the old version of a page that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BasePage {
    /// In this frame.
    Frame(FrameNo),
    /// Fills this frame with the old version.
    Coming(FrameNo),
    /// Nowhere: its delta alone is kept. So often it has been written then.
    Nowhere { writes: u32 },
}

impl BasePage {
    /// By what the delta is found that there was before.
    pub(super) const fn before(self, page: u64) -> DeltaKey {
        match self {
            Self::Frame(frame) => DeltaKey::Frame(frame),
            // A page that is only now coming into a frame may have had a delta of
            // its own before.
            Self::Coming(_) | Self::Nowhere { .. } => DeltaKey::Page(page),
        }
    }
}

/// A page that is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteHit {
    pub(super) row: Row,
    pub(super) column: Column,
    pub(super) page: u64,
    pub(super) base: BasePage,
    /// The packed delta that the page as it was is made with.
    pub(super) before: Option<PackedDelta>,
    /// The page as it was, as it will be, and their delta.
    pub(super) old: Buf,
    pub(super) new: Buf,
    pub(super) delta: Buf,
    /// The step that tells how long the delta is, and how long it is.
    pub(super) encode: StepSet,
    pub(super) len: Option<u32>,
    pub(super) kept: DeltaDestination,
}

/// Names the destination of a delta.
#[derive(Clone, Copy, Debug)]
pub(super) enum DeltaDestination {
    Undecided,
    Staged {
        slot: NvSlot,
        put: StepSet,
    },
    /// Gets a page of its own, since it is as long as a page.
    Raw {
        page: FrameNo,
        len: u32,
    },
    /// The device was lost meanwhile.
    Nowhere,
}

impl WriteHit {
    pub(super) const fn new(row: Row, column: Column, page: u64, base: BasePage) -> Self {
        Self {
            row,
            column,
            page,
            base,
            before: None,
            old: Buf::None,
            new: Buf::None,
            delta: Buf::None,
            encode: StepSet::EMPTY,
            len: None,
            kept: DeltaDestination::Undecided,
        }
    }

    /// By what its delta is found.
    pub(super) const fn key(&self) -> DeltaKey {
        match self.base {
            BasePage::Frame(frame) | BasePage::Coming(frame) => DeltaKey::Frame(frame),
            BasePage::Nowhere { .. } => DeltaKey::Page(self.page),
        }
    }

    /// Returns true if the delta can be kept, since what it belongs to has not been lost.
    pub(super) fn is_there(&self, frames: &FrameTable) -> bool {
        match self.base {
            BasePage::Frame(frame) => frames.get(self.page) == Some(frame) && frames.is_stale(frame),
            BasePage::Coming(frame) => frames.is_coming(frame),
            BasePage::Nowhere { .. } => frames.is_enabled(),
        }
    }
}

impl WriteHit {
    /// Handles a hit whose member may or may not have been written. If the page was in no frame, the parity
    /// alone has the version that it covers. If the member is lost, the delta makes the newest version from
    /// that.
    pub(super) fn is_in_doubt(&self, frames: &mut FrameTable, deltas: &mut DeltaStore) {
        let (page, writes) = (DeltaKey::Page(self.page), deltas.zone.writes(self.page));
        // The old version is in its frame, where the parity's version stays found.
        if let BasePage::Frame(_) = self.base {
            return;
        }
        deltas.zone.is_bare(self.page, writes);
        if let BasePage::Coming(frame) = self.base {
            deltas.staging.rename(DeltaKey::Frame(frame), page);
            let packed = deltas.zone.part(DeltaKey::Frame(frame));
            if let Some(packed) = packed {
                deltas.zone.restore(page, packed);
            }
            frames.undone(frame);
        }
        if let Some(before) = self.before {
            // A new delta is staged already and takes the place of the old one.
            // Otherwise the old one is needed again.
            match self.kept {
                DeltaDestination::Staged { .. } => deltas.zone.release(before, frames),
                _ => deltas.zone.restore(page, before),
            }
        }
    }
}

/// Plans the read of a page as it was from its frame.
pub(super) fn read_base(op: OpId, hit: &WriteHit, copies: &CopyCache<ThroughRule>, out: &mut Out) -> (Buf, StepSet) {
    let BasePage::Frame(frame) = hit.base else { unreachable!("it is in a frame") };
    let dst = out.tmp(op, 1);
    (dst, out.step(op, Step::Read { ext: copies.frames.ext(frame), dst }, StepSet::EMPTY))
}

/// Plans the encoding of a page.
pub(super) fn encode(op: OpId, hit: &mut WriteHit, old: (Buf, StepSet), new: (Buf, StepSet), out: &mut Out) {
    (hit.old, hit.new, hit.delta) = (old.0, new.0, out.tmp(op, 1));
    // The executor gives the length of the encoded delta, so the controller plans
    // without seeing bytes.
    let step = Step::Encode { base: old.0, new: new.0, dst: hit.delta, page: hit.page };
    hit.encode = out.step_notify(op, step, old.1 | new.1);
}

/// A page of a buffer of several.
pub(super) fn nth(buf: Buf, index: u16) -> Buf {
    match buf {
        Buf::Tmp { id, page } => Buf::Tmp { id, page: page + index },
        other => other,
    }
}
