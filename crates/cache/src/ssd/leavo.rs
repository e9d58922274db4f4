//! Implements `leavo`: keeps old and new pages side by side (specs §9.2). A write of a cached page goes to a
//! new frame and to its member, and the parity stays stale. The old page stays, since the parity covers it.

use std::convert::Infallible;

use destage_plan::{Buf, OpId, Out, ParamSpec, Params, PlacementStream, Step, StepSet};
use destage_raid::array::{ArrayConfig, RaidArray, VersionSource};

use super::behind::{self, ReclaimableFrames, StaleRows};
use super::copies::{CopyCache, FrameReader, WholeReader};
use super::delayed::{self, DeferredParity};
use super::frames::{FrameNo, FrameTable};
use super::keeps::{KeepRefusal, KeptWrite, KnownPage, PageHome, ParityBase};
use super::of;
use super::write_through::ThroughRule;
use crate::{CacheFigure, HostCacheError, HostCacheInfo, RegisteredCache, WriteStage};

const PARAMS: [ParamSpec; 9] = delayed::PARAMS;

const IN_PLACE: CacheFigure =
    CacheFigure { name: "in_place", unit: "pages", meaning: "newest versions written over for want of a free page" };

/// A page that an operation writes.
#[derive(Clone, Copy)]
struct PageRenewal {
    page: u64,
    /// Is the frame for the newest version; none if it overwrites the one before.
    fresh: Option<FrameNo>,
}

/// Old and new versions, side by side.
#[derive(Default)]
pub(crate) struct VersionPairs {
    /// Holds the pages that each operation writes while their parity stays stale.
    renewals: Vec<Vec<PageRenewal>>,
    /// The frames that each operation was told of.
    named: Vec<Vec<FrameNo>>,
    in_place: u64,
    no_room: u64,
}

/// The cache.
pub(crate) type Leavo = DeferredParity<VersionPairs>;

impl RegisteredCache for Leavo {
    const INFO: HostCacheInfo = HostCacheInfo {
        about: "A write of a page that the cache has goes to a new page of the SSD and to its member, while the \
                parity stays as it is; the old page is kept, since it is what the parity covers. Parity is updated \
                later, from old and new pages in the cache.",
        bytes_per_page: delayed::bytes_per_page,
        params: &PARAMS,
        // Both ways of cleaning have code of their own, so the crash harness draws
        // one for each history.
        modes: &[&[], &[(behind::CLEAN.name, "stripes")]],
        figures: &[delayed::CLEANED, IN_PLACE, delayed::NO_ROOM],
        ..delayed::info::<VersionPairs>(
            "leavo",
            "old and new versions side by side: the parity of what is written again is updated later",
            "LeavO in KDD",
        )
    };

    fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Self, HostCacheError> {
        delayed::new(pages, array, params)
    }
}

impl FrameReader for VersionPairs {
    fn read(&mut self, op: OpId, frame: FrameNo, dst: Buf, frames: &mut FrameTable, out: &mut Out) -> StepSet {
        WholeReader.read(op, frame, dst, frames, out)
    }
}

impl ParityBase for VersionPairs {
    // All work is part of a write or of cleaning; `leavo` opens no operation of its
    // own.
    type Part = Infallible;

    fn new(_: &mut FrameTable, _: u32, _: &Params) -> Result<Self, HostCacheError> {
        Ok(Self::default())
    }

    fn keep(
        &mut self,
        op: OpId,
        pages: &[KnownPage],
        copies: &mut CopyCache<ThroughRule>,
        _: &mut StaleRows,
    ) -> Result<(), KeepRefusal> {
        // None of them is to make room for another.
        let kept = || pages.iter().filter_map(|known| Some((known, known.frame?)));
        for (_, frame) in kept() {
            copies.frames.pin(frame);
        }
        let mut enough = true;
        for (known, frame) in kept() {
            let mut fresh = copies.frames.take(known.row);
            // A frame whose old page cannot be retracted from the log is as good as
            // none: writing to it would make the log lie.
            fresh.take_if(|fresh| !copies.claim(op, *fresh)).into_iter().for_each(|fresh| copies.frames.undone(fresh));
            // The version that the parity covers has to stay.
            // With a partner the newest version may be overwritten in place: the
            // covered one lies in another frame and stays.
            enough = fresh.is_some() || copies.frames.covered(frame) != frame;
            if !enough {
                break;
            }
            of(&mut self.renewals, op).push(PageRenewal { page: known.page, fresh });
        }
        for (_, frame) in kept() {
            copies.frames.done(frame);
        }
        if !enough {
            // All pages or none: a write of which only a part defers its parity
            // would need two plans.
            self.drop_work(op, copies);
            return Err(KeepRefusal::NoRoom);
        }
        Ok(())
    }

    fn count_no_room(&mut self, pages: u16) {
        self.no_room += u64::from(pages);
    }

    fn drop_work(&mut self, op: OpId, copies: &mut CopyCache<ThroughRule>) {
        for renewal in of(&mut self.renewals, op).drain(..) {
            if let Some(fresh) = renewal.fresh {
                copies.frames.undone(fresh);
            }
        }
        copies.unclaim(op);
    }

    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        copies: &mut CopyCache<ThroughRule>,
        _: &mut RaidArray,
        out: &mut Out,
    ) -> KeptWrite {
        if self.renewals.get(op.index()).is_none_or(Vec::is_empty) {
            return KeptWrite::Not;
        }
        let write = stage.planned();
        let mut after = write.after;
        let logged = copies.plan_claims(op, out);
        for renewal in &self.renewals[op.index()] {
            copies.counts.write_hits += 1;
            copies.counts.write_fills += 1;
            let frame = renewal.fresh.or_else(|| copies.frames.get(renewal.page)).expect("a stale page is found");
            let src = match write.frag.sectors {
                Some(_) => write.merged,
                None => write.frag.host((renewal.page - write.frag.page) as u16),
            };
            let step = Step::Write { ext: copies.frames.ext(frame), src, fua: false };
            after |= out.step_placed(op, step, PlacementStream::Dirty, write.after | logged);
        }
        KeptWrite::After(after)
    }

    fn plan_part(&mut self, _: OpId, part: Infallible, _: &mut CopyCache<ThroughRule>, _: &mut RaidArray, _: &mut Out) {
        match part {}
    }

    fn done(&mut self, op: OpId, copies: &mut CopyCache<ThroughRule>, _: &mut StaleRows) {
        let frames = &mut copies.frames;
        while let Some(renewal) = of(&mut self.renewals, op).pop() {
            // The device may have been lost while the write ran. Then the stale
            // page is gone and the new frame holds nothing.
            match (renewal.fresh, frames.get(renewal.page)) {
                (Some(fresh), Some(stale)) => frames.renew(stale, fresh),
                (Some(fresh), None) => frames.undone(fresh),
                (None, _) => self.in_place += 1,
            }
        }
    }

    fn owed(&self, frames: &FrameTable) -> ReclaimableFrames<'_> {
        // A stale page holds two frames here, the old and the new, of which
        // cleaning frees one and cleans the other; `of_page` counts both.
        ReclaimableFrames { all: frames.stale(), of_page: 2, packed: 0, deltas: &[] }
    }

    fn newest(&self, frame: FrameNo, frames: &FrameTable) -> VersionSource {
        VersionSource::Page(frames.ext(frame))
    }

    fn covered_source(&self, home: PageHome, frames: &FrameTable) -> VersionSource {
        match home {
            PageHome::Frame(frame) => VersionSource::Page(frames.ext(frames.covered(frame))),
            // A page without a base cannot come from `leavo` itself: a bad sector or a lost
            // device took its frame.
            PageHome::Bare(_) => VersionSource::Lost,
        }
    }

    fn uses(&mut self, op: OpId, home: PageHome, frames: &mut FrameTable) {
        let PageHome::Frame(frame) = home else { return };
        let named = of(&mut self.named, op);
        let covered = frames.covered(frame);
        for frame in [Some(frame), (covered != frame).then_some(covered)].into_iter().flatten() {
            // Hold, not pin: reads for cleaning are no use by the host and must not
            // change the LRU order.
            frames.hold(frame);
            named.push(frame);
        }
    }

    fn released(&mut self, op: OpId, frames: &mut FrameTable) {
        of(&mut self.named, op).drain(..).for_each(|frame| frames.done(frame));
    }

    fn is_kept_in(&self, home: PageHome, frame: FrameNo, frames: &FrameTable) -> bool {
        matches!(home, PageHome::Frame(newest) if frames.covered(newest) == frame)
    }

    fn covered(&mut self, home: PageHome, written: bool, frames: &mut FrameTable) {
        let PageHome::Frame(frame) = home else { return };
        // A page without a partner has only the covered version in the cache, which
        // the write or the cleaning made obsolete.
        if written || frames.covered(frame) == frame {
            frames.forget(frame);
        } else {
            frames.cover(frame);
        }
    }

    fn figures(&self, into: &mut Vec<u64>) {
        into.extend([self.in_place, self.no_room]);
    }
}
