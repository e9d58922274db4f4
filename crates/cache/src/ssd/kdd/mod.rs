//! Implements KDD: keeps the old version of a rewritten page and a delta to the new one. The parity, which
//! covers the old version, is updated later (specs §9.3, §9.4). Deltas are staged in the NVRAM and packed into
//! pages of the cache.

mod deltas;
mod ghosts;
mod hit;
mod hits;
mod params;
mod rewrites;
mod staging;
mod zone;

use destage_plan::{
    Buf, Column, ColumnSet, List, NvHeld, NvSlot, OpId, Out, ParamSpec, Params, PlacementStream, PutList, Row, Span,
    Step, StepNo, StepOutcome, StepSet,
};
use destage_raid::array::{ArrayConfig, RaidArray, VersionSource};

use self::deltas::DeltaStore;
use self::ghosts::GhostList;
use self::hit::{BasePage, WriteHit};
use self::hits::{DeferredWrites, NextPlan, WaitReason};
pub(crate) use self::params::IN_MEMORY as STAGED_IN_MEMORY;
use self::params::{
    ADMIT, MISSES, MODES, MissPolicy, NEVER, RECLAIM, ReclaimPolicy, STAGED_IN, bytes_per_page, in_memory,
};
use self::rewrites::{RewriteQueue, free};
use self::staging::{SealedDelta, StagingBuffer};
use self::zone::{DeltaZone, PackedDelta};
use super::behind::{ReclaimableFrames, StaleRows};
use super::copies::{CopyCache, FrameReader};
use super::delayed::{self, DeferredParity};
use super::frames::{FrameNo, FrameTable};
use super::journal;
use super::keeps::{self, KeepRefusal, KeepsRules, KeptWrite, KnownPage, PageHome, ParityBase};
use super::write_through::ThroughRule;
use crate::{CacheFigure, CacheOperations, HostCacheError, HostCacheInfo, RegisteredCache, WriteStage};

/// Pages of a row that are kept with deltas: what reads all of them has 64 steps.
const MAX_OLD: u32 = 10;
/// Likewise where the parity may cover what is made with a delta as well, so that both versions are, of which each takes
/// three steps; and such pages, with those that are clean.
const MAX_TWICE: u32 = 6;
const MAX_MADE: u32 = 8;
/// Limits the columns of a row, together with its pages that are made of a delta, where the parity may cover
/// such pages.
const MAX_READ: u32 = 26;
/// Pages of a write that is [prepared](DeferredWrites::prepare) for, which takes up to eight steps for each.
const MAX_PREPARED: usize = 6;
/// Deltas that are staged before some are packed. No delta is longer than a page, so more pages would never be filled.
const MAX_STAGED: u64 = 512;
/// Dead slots that are freed without anything being put.
// A commit that only frees is worth its write when it frees many.
const MANY_DEAD: usize = 64;

const STAGING: ParamSpec = ParamSpec {
    name: "staging",
    default: "1",
    values: "1 to 512",
    unit: "pages",
    help: "pages of the NVRAM in which deltas are staged before some are packed into a page of the cache; no more than \
           512 deltas are",
};

const PARAMS: [ParamSpec; 14] = {
    let [ways, high, low, set_low, idle, clean, log, cutoff, trim] = delayed::PARAMS;
    [ways, STAGING, STAGED_IN, MISSES, ADMIT, high, low, set_low, idle, clean, RECLAIM, log, cutoff, trim]
};

const STAGED: CacheFigure = CacheFigure { name: "staged", unit: "1", meaning: "deltas staged" };
const STAGED_BYTES: CacheFigure = CacheFigure { name: "staged_bytes", unit: "B", meaning: "bytes of these" };
const RAW: CacheFigure =
    CacheFigure { name: "raw", unit: "pages", meaning: "deltas that were no shorter than a page, and got one each" };
const COMMITS: CacheFigure =
    CacheFigure { name: "delta_pages", unit: "pages", meaning: "pages that deltas were packed into" };
const BARE: CacheFigure =
    CacheFigure { name: "bare", unit: "pages", meaning: "pages written of which the delta alone was kept" };

/// Deltas that a cache of so many pages stages before some are packed: each of another page, which is in it or has
/// nothing but its delta.
const fn most_staged(pages: u64) -> u64 {
    // A page has at most one staged delta, and a cache of n pages knows at most n
    // pages in frames and n without.
    if 2 * pages < MAX_STAGED { 2 * pages } else { MAX_STAGED }
}

/// Slots: for what is staged, what is being packed, and what is not freed yet.
const fn slots(pages: u64) -> u32 {
    // Three times: staged, being packed, and freed but not durably so.
    3 * most_staged(pages) as u32
}

/// Names what an operation of its own does.
#[derive(Clone, Copy)]
pub(crate) enum KddTask {
    /// Packs deltas into a page.
    Commit,
    /// Frees slots of the NVRAM.
    Free,
    /// Writes a page to its frame as it is.
    Rewrite,
}

/// Identifies a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeltaKey {
    /// The frame with the page as it was: what is newest.
    Frame(FrameNo),
    /// Identifies the delta to the version that the parity covers, by the same frame, if that version is made
    /// with one.
    Covered(FrameNo),
    /// The page, if it is in no frame.
    Page(u64),
}

/// Pages as they were, with what has changed of them.
pub(crate) struct PageChanges {
    misses: MissPolicy,
    /// Pages that may be admitted when they are written again with their parity.
    ghosts: Option<GhostList>,
    reclaim: ReclaimPolicy,
    /// Pages of a row that may be kept with deltas, and those that may be made of one when all of the row are read.
    most_old: u32,
    most_made: u32,
    deltas: DeltaStore,
    hits: DeferredWrites,
    rewrites: RewriteQueue,
    /// Is true while nothing is retained that a stop would make useless.
    stops: bool,
    /// The page that deltas are being packed into, and by whom.
    commit: Option<(OpId, FrameNo)>,
    /// Slots that are being freed, and by whom.
    free: Option<(OpId, Vec<NvSlot>)>,
    commits: u64,
    no_room: u64,
}

/// The cache.
pub(crate) type Kdd = DeferredParity<PageChanges>;

impl RegisteredCache for Kdd {
    const INFO: HostCacheInfo = HostCacheInfo {
        about: "A write of a page that the cache has goes to its member without parity; on the SSD the page stays as \
                it was, with what has changed as a compressed delta. Deltas are staged in the NVRAM and packed into \
                pages of the SSD, and parity is updated later from them.",
        bytes_per_page,
        nv_slots: |pages, _, params| {
            // Deltas in memory take no NVRAM slots, so a small NVRAM can serve a
            // large cache.
            let staged = if in_memory(params).is_ok_and(|it| it) { 0 } else { slots(pages) };
            staged + journal::slots(pages)
        },
        makes_deltas: true,
        modes: MODES,
        params: &PARAMS,
        figures: &[delayed::CLEANED, STAGED, STAGED_BYTES, RAW, COMMITS, BARE, delayed::NO_ROOM],
        ..delayed::info::<PageChanges>(
            "kdd",
            "pages as they were, with compressed deltas: the parity of what is written again is updated later",
            "KDD",
        )
    };

    fn new(pages: u64, array: &ArrayConfig, params: &Params) -> Result<Self, HostCacheError> {
        delayed::new(pages, array, params)
    }
}

impl PageChanges {
    /// Plans writes that wait, and has deltas packed if they wait for that.
    fn turn_writes(
        &mut self,
        copies: &mut CopyCache<ThroughRule>,
        array: &mut RaidArray,
        operations: &mut CacheOperations<keeps::DeferredTask<KddTask>>,
        out: &mut Out,
    ) -> Option<WaitReason> {
        loop {
            let short = self.go_on(copies, array, operations, out);
            if !matches!(short, Some(WaitReason::Staging | WaitReason::Slots))
                || self.commit.is_some()
                || !self.deltas.staging.can_seal()
                || !copies.can_claim()
            {
                return short;
            }
            let Some(page) = self.deltas.zone.take(&mut copies.frames) else { return short };
            // What left for that may have had a delta among those that are staged.
            if self.deltas.shed(&mut copies.frames) {
                self.deltas.zone.give(page, &mut copies.frames);
                continue;
            }
            self.deltas.staging.seal(out.page_bytes());
            let settled = |sealed: &SealedDelta| matches!(sealed.staged.key, DeltaKey::Covered(_));
            self.deltas.zone.settle(page, self.deltas.staging.sealed().iter().all(settled));
            let commit = operations.open_own(None, keeps::DeferredTask::Kept(KddTask::Commit), out);
            // The check of `can_claim` above guarantees a slot.
            copies.claim(commit, page);
            self.commit = Some((commit, page));
            self.commits += 1;
            return short;
        }
    }

    /// All is to be clean: nothing is to be left in the NVRAM, and what is known in memory alone is of no use later.
    fn stop(&mut self, frames: &mut FrameTable) {
        // Clean pages that are made with a delta are known in memory alone. After a
        // restart they would be lost anyway, so a stop frees them.
        let made = |page| frames.get(page).filter(|frame| frames.is_clean(*frame));
        let mut left: Vec<FrameNo> = self.rewrites.give_up().into_iter().filter_map(made).collect();
        left.extend(self.deltas.staging.keys().filter_map(|key| match key {
            DeltaKey::Covered(frame) if frames.is_clean(frame) => Some(frame),
            _ => None,
        }));
        // A frame may be in both lists. Sorting makes the order of frees
        // independent of theirs.
        left.sort_unstable();
        left.dedup();
        for frame in left {
            free(frame, frames, &mut self.deltas);
        }
    }

    /// Plans writes that wait, and what they wait for.
    fn go_on(
        &mut self,
        copies: &mut CopyCache<ThroughRule>,
        array: &mut RaidArray,
        operations: &mut CacheOperations<keeps::DeferredTask<KddTask>>,
        out: &mut Out,
    ) -> Option<WaitReason> {
        // Slots go back before writes are planned, so that these can take them.
        self.hits.give_slots(array, out);
        loop {
            match self.hits.plan_next(copies, &mut self.deltas, array, out) {
                Ok(Some(NextPlan::End(op, after))) => operations.finish_write(op, after, out),
                Ok(Some(NextPlan::Before(op, merged, after))) => array.finish_prepared(op, merged, after, out),
                Ok(None) => return None,
                Err(short) => return Some(short),
            }
        }
    }

    /// Packs what is sealed, and writes it.
    fn plan_commit(&self, op: OpId, copies: &mut CopyCache<ThroughRule>, out: &mut Out) {
        let Some((_, page)) = self.commit else { unreachable!("deltas are being packed") };
        let spans: Vec<Span> = self
            .deltas
            .staging
            .sealed()
            .iter()
            .map(|sealed| Span { buf: Buf::Nv(sealed.staged.slot), offset: 0, len: sealed.staged.len })
            .collect();
        let (parts, dst) = (out.spans(op, &spans), out.tmp(op, 1));
        let packed = out.step(op, Step::Pack { parts, dst }, StepSet::EMPTY);
        let logged = copies.plan_claims(op, out);
        // If the device is lost meanwhile the page is not written; `committed`
        // gives the deltas up.
        if copies.frames.is_enabled() {
            copies.counts.delta_writes += 1;
            let step = Step::Write { ext: copies.frames.ext(page), src: dst, fua: false };
            out.step_placed(op, step, PlacementStream::Delta, packed | logged);
        }
        out.close(op);
    }

    /// Records that the sealed deltas are packed, unless the device was lost.
    fn committed(&mut self, page: FrameNo, frames: &mut FrameTable) {
        let kept = frames.keep(page);
        let mut offset = 0;
        for sealed in self.deltas.staging.unseal() {
            let len = sealed.staged.len;
            // A newer delta came while this one was packed, so these bytes are dead
            // already.
            if kept && !sealed.superseded {
                self.deltas.zone.put(sealed.staged.key, PackedDelta { page, offset, len });
            }
            self.deltas.bury(sealed.staged.slot);
            offset += len;
        }
        self.deltas.zone.settle(page, false);
        // Every delta in the page may have been superseded while it was written.
        if self.deltas.zone.is_unused(page) {
            self.deltas.zone.give(page, frames);
        }
    }
}

impl FrameReader for PageChanges {
    fn read(&mut self, op: OpId, frame: FrameNo, dst: Buf, frames: &mut FrameTable, out: &mut Out) -> StepSet {
        self.deltas.read(op, frame, dst, frames, out)
    }
}

impl ParityBase for PageChanges {
    type Part = KddTask;

    fn new(frames: &mut FrameTable, columns: u32, params: &Params) -> Result<Self, HostCacheError> {
        // The smaller of both bounds decides: slots are reserved for this many.
        let most = most_staged(frames.len().into()) as usize;
        let staging = StagingBuffer::new(params.number(STAGING.name, 1..=MAX_STAGED as u32)?, most);
        let reclaim = ReclaimPolicy::new(params)?;
        let makes = reclaim != ReclaimPolicy::Free;
        let (most_old, most_made) = if makes {
            // Frames that lose their content take deltas of clean pages along, so
            // the table has to report them.
            frames.note_shed();
            // Reading all of a row must stay within 64 steps even if each made page
            // takes three of them.
            let most = MAX_READ.saturating_sub(columns).clamp(1, MAX_MADE);
            (most.min(MAX_TWICE), most)
        } else {
            (MAX_OLD, u32::MAX)
        };
        let deltas = DeltaStore::new(staging, DeltaZone::new(frames, makes));
        let misses = MissPolicy::new(params)?;
        // With `misses=delay` the zone counts the writes of pages in no frame
        // itself.
        let ghosts = (misses.admit > 1 && !misses.delayed).then(|| GhostList::new(frames.len(), misses.admit));
        Ok(Self {
            misses,
            ghosts,
            reclaim,
            most_old,
            most_made,
            deltas,
            hits: DeferredWrites::staged_in(in_memory(params)?.then(|| slots(frames.len().into()))),
            rewrites: RewriteQueue::default(),
            stops: false,
            commit: None,
            free: None,
            commits: 0,
            no_room: 0,
        })
    }

    /// Nothing is known of the page that it belongs to.
    fn load(&mut self, held: &NvHeld<'_>) -> bool {
        // Deltas of an earlier life are useless: intents of their rows are open, so
        // the parity is recomputed and the pages are dropped.
        let known = hit::staged(&held.tag) == Some(held.len());
        if known {
            self.deltas.bury(held.slot);
        }
        known
    }

    fn rules(&self) -> KeepsRules {
        KeepsRules {
            prepares: self.misses.delayed,
            admits_reads: self.misses.admit != NEVER,
            most_made: self.most_made,
        }
    }

    fn keep(
        &mut self,
        op: OpId,
        pages: &[KnownPage],
        copies: &mut CopyCache<ThroughRule>,
        behind: &mut StaleRows,
    ) -> Result<(), KeepRefusal> {
        // Evictions since the last event may have dropped deltas and made room.
        self.deltas.shed(&mut copies.frames);
        let frames = &copies.frames;
        for known in pages {
            let old = behind.get(known.row).map_or(ColumnSet::EMPTY, |stale| stale.columns);
            let others = pages.iter().filter(|other| other.row == known.row && !old.contains(other.column)).count();
            // Cleaning reads all deltas of a row in one operation, so the row takes
            // no more than that has steps for.
            if !old.contains(known.column) && old.len() + others as u32 > self.most_old {
                return Err(KeepRefusal::AsItIs);
            }
        }
        let zone = &self.deltas.zone;
        let missing = || pages.iter().filter(|known| known.frame.is_none());
        if missing().next().is_some() && pages.len() > MAX_PREPARED {
            return Err(KeepRefusal::AsItIs);
        }
        let is_stale = |frame: Option<FrameNo>| frame.is_some_and(|frame| frames.is_stale(frame));
        let clean = pages.iter().filter(|known| !is_stale(known.frame)).count() as u32;
        // Each may need a page for itself, and what is staged already one before.
        let needed = clean + self.hits.pages() + pages.len() as u32 + 1;
        // As many pages have nothing but a delta as can be in the cache.
        let bare = zone.bare() + missing().filter(|known| zone.writes(known.page) == 0).count();
        let room = frames.len() - (frames.stale() + zone.pages()) >= needed;
        if !room || missing().next().is_some() && bare > frames.len() as usize {
            return Err(KeepRefusal::NoRoom);
        }
        // Whether there is room for a page counts when it is written.
        behind.are_short(copies.frames.take_short());
        // None of them is to make room for another.
        let frames = || pages.iter().filter_map(|known| known.frame);
        frames().for_each(|frame| copies.frames.hold(frame));
        let (zone, misses) = (&self.deltas.zone, self.misses);
        let base = |known: &KnownPage| {
            if let Some(frame) = known.frame {
                return BasePage::Frame(frame);
            }
            let writes = zone.writes(known.page) + 1;
            // Pages that are written often enough get a frame; one that is written
            // once costs only its delta.
            if writes >= misses.admit
                && let Some(frame) = copies.frames.fill(known.page, known.row)
            {
                if copies.claim(op, frame) {
                    return BasePage::Coming(frame);
                }
                // Without an entry slot the page stays without a frame, which is
                // always correct.
                copies.frames.undone(frame);
            }
            BasePage::Nowhere { writes }
        };
        self.hits.open(
            op,
            pages
                .iter()
                .map(base)
                .zip(pages)
                .map(|(base, known)| WriteHit::new(known.row, known.column, known.page, base)),
        );
        frames().for_each(|frame| copies.frames.done(frame));
        // The fills above may have evicted pages with deltas.
        self.deltas.shed(&mut copies.frames);
        self.hits.work(op).short = copies.frames.take_short();
        Ok(())
    }

    fn count_no_room(&mut self, pages: u16) {
        self.no_room += u64::from(pages);
    }

    fn admits(&mut self, page: u64, frames: &FrameTable) -> bool {
        frames.contains(page)
            || match &mut self.ghosts {
                Some(ghosts) => ghosts.admits(page),
                // A write with parity counts like one with a delta: both are writes
                // of a page that is not in the cache.
                None => self.deltas.zone.writes(page) + 1 >= self.misses.admit,
            }
    }

    fn drop_work(&mut self, op: OpId, copies: &mut CopyCache<ThroughRule>) {
        self.rewrites.drop_work(op, &mut copies.frames, &mut self.deltas);
        self.hits.drop_work(op, copies, &mut self.deltas);
    }

    fn unwritten(&mut self, page: u64) {
        self.deltas.zone.written(page);
    }

    /// Takes three steps for each page, one for each column, of which a row has no more than [`MAX_OLD`], and one that
    /// logs what all of them need: at most 59 of 64.
    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        copies: &mut CopyCache<ThroughRule>,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> KeptWrite {
        if let WriteStage::Prepared { frag, intent } = stage {
            self.hits.prepare(op, frag, intent, copies, &mut self.deltas, array, out);
            return KeptWrite::Later;
        }
        if !self.hits.has_work(op) {
            return KeptWrite::Not;
        }
        let write = stage.planned();
        if self.hits.is_prepared(op) {
            // Everything was done before the member was written.
            return KeptWrite::After(write.after);
        }
        let new = |page| match write.frag.sectors {
            Some(_) => (write.merged, write.after),
            None => (write.frag.host((page - write.frag.page) as u16), StepSet::EMPTY),
        };
        self.hits.encode(op, new, copies, out);
        // The end of the write is planned when the lengths of its deltas are known.
        KeptWrite::Later
    }

    fn plan_part(
        &mut self,
        op: OpId,
        part: KddTask,
        copies: &mut CopyCache<ThroughRule>,
        _: &mut RaidArray,
        out: &mut Out,
    ) {
        match part {
            KddTask::Commit => self.plan_commit(op, copies, out),
            KddTask::Rewrite => self.rewrites.plan(op, copies, &mut self.deltas, out),
            KddTask::Free => {
                let (_, slots) = self.free.as_ref().expect("slots are being freed");
                let in_memory = slots[0].is_in_memory();
                let frees: List = out.slots(op, slots);
                out.step(op, hits::change(in_memory, PutList::EMPTY, frees), StepSet::EMPTY);
                out.close(op);
            }
        }
    }

    fn step_done(&mut self, op: OpId, step: StepNo, outcome: StepOutcome) -> bool {
        self.hits.step_done(op, step, outcome, &mut self.deltas)
    }

    fn written(&mut self, op: OpId) {
        self.hits.work(op).written = true;
    }

    fn done(&mut self, op: OpId, copies: &mut CopyCache<ThroughRule>, behind: &mut StaleRows) {
        if let Some((_, page)) = self.commit.take_if(|(commit, _)| *commit == op) {
            self.committed(page, &mut copies.frames);
        } else if let Some((_, slots)) = self.free.take_if(|(free, _)| *free == op) {
            self.hits.are_free(slots);
        } else if !self.rewrites.done(op, &mut copies.frames, &mut self.deltas) {
            self.hits.done(op, copies, &mut self.deltas, behind);
        }
    }

    fn turn(
        &mut self,
        copies: &mut CopyCache<ThroughRule>,
        behind: &StaleRows,
        array: &mut RaidArray,
        operations: &mut CacheOperations<keeps::DeferredTask<KddTask>>,
        out: &mut Out,
    ) {
        if self.reclaim != ReclaimPolicy::Free {
            self.deltas.shed(&mut copies.frames);
            self.stops = array.is_cleaning();
            // While the array becomes clean, pages made with deltas are given up
            // when their parity covers them.
            if self.stops && behind.is_clean() {
                self.stop(&mut copies.frames);
            }
            self.rewrites.begin(&copies.frames, &copies.geometry, &self.deltas, operations, out);
        }
        let short = self.turn_writes(copies, array, operations, out);
        let dead = self.deltas.dead();
        // A commit of its own is only for slots that somebody waits for, for many,
        // or for an array that is to become idle.
        let due = short == Some(WaitReason::Slots) || dead >= MANY_DEAD || behind.is_clean();
        if dead > 0 && due && self.free.is_none() && array.is_ready() {
            let mut slots = Vec::new();
            // An earlier life may have left some in the NVRAM.
            self.deltas.take_dead(self.deltas.dead_in_memory(), &mut slots);
            if !slots.is_empty() {
                self.free = Some((operations.open_own(None, keeps::DeferredTask::Kept(KddTask::Free), out), slots));
            }
        }
    }

    fn owed(&self, frames: &FrameTable) -> ReclaimableFrames<'_> {
        let zone = &self.deltas.zone;
        // A write counts when it is done: its delta is to find room before what it makes due begins.
        let all = (frames.stale() + zone.owed()).saturating_sub(self.hits.written());
        // Each stale page owns one frame here, its base; deltas share pages, which
        // `packed` counts.
        ReclaimableFrames { all, of_page: 1, packed: zone.owed(), deltas: zone.owed_of_sets() }
    }

    fn newest(&self, frame: FrameNo, frames: &FrameTable) -> VersionSource {
        self.deltas.newest(frame, frames)
    }

    fn covered_source(&self, home: PageHome, frames: &FrameTable) -> VersionSource {
        match home {
            PageHome::Frame(frame) => self.deltas.covered_in(frame, frames),
            PageHome::Bare(page) => self.deltas.covered(page, frames),
        }
    }

    fn uses(&mut self, op: OpId, home: PageHome, frames: &mut FrameTable) {
        let key = match home {
            PageHome::Frame(frame) => DeltaKey::Frame(frame),
            PageHome::Bare(page) => DeltaKey::Page(page),
        };
        self.deltas.uses(op, key, frames);
    }

    fn released(&mut self, op: OpId, frames: &mut FrameTable) {
        self.hits.released(op);
        self.deltas.released(op, frames);
    }

    fn covered(&mut self, home: PageHome, written: bool, frames: &mut FrameTable) {
        let frame = match home {
            PageHome::Frame(frame) => frame,
            PageHome::Bare(page) => {
                self.deltas.drop_delta(DeltaKey::Page(page), frames);
                return self.deltas.zone.is_not_bare(page);
            }
        };
        // A page that was just written is newer than its base and delta, which are
        // of no use any more.
        let stays = self.reclaim != ReclaimPolicy::Free && !written && !self.stops;
        if stays && self.deltas.cover(frame, frames) {
            frames.cover_made(frame);
            if self.reclaim == ReclaimPolicy::Rewrite {
                self.rewrites.add(frames.page(frame));
            }
            return;
        }
        // What the page was and what has changed is not needed any more.
        self.deltas.drop_delta(DeltaKey::Frame(frame), frames);
        free(frame, frames, &mut self.deltas);
    }

    fn written_by(&self, op: OpId) -> Vec<(Row, Column)> {
        self.hits.pages_of(op)
    }

    fn is_kept_in(&self, home: PageHome, frame: FrameNo, _: &FrameTable) -> bool {
        let is_packed_in = |key| self.deltas.zone.get(key).is_some_and(|packed| packed.page == frame);
        match home {
            PageHome::Frame(base) => is_packed_in(DeltaKey::Frame(base)) || is_packed_in(DeltaKey::Covered(base)),
            PageHome::Bare(page) => is_packed_in(DeltaKey::Page(page)) || self.hits.is_parted_in(page, frame),
        }
    }

    fn forget(&mut self, home: PageHome, frames: &mut FrameTable) {
        match home {
            PageHome::Frame(base) => {
                self.deltas.drop_delta(DeltaKey::Frame(base), frames);
                self.deltas.drop_delta(DeltaKey::Covered(base), frames);
            }
            PageHome::Bare(page) => self.deltas.drop_delta(DeltaKey::Page(page), frames),
        }
    }

    fn lose(&mut self, frames: &mut FrameTable) {
        self.hits.lose(frames, &mut self.deltas);
        self.deltas.lose(frames);
    }

    fn is_clean(&self) -> bool {
        // Clean pages that need a staged delta keep the NVRAM in use; a stop waits
        // until they are gone.
        let made = self.reclaim != ReclaimPolicy::Free
            && !(self.commit.is_none()
                && self.rewrites.is_idle()
                && self.deltas.staging.keys().all(|key| !matches!(key, DeltaKey::Covered(_))));
        self.deltas.dead() == 0 && self.free.is_none() && !made
    }

    fn figures(&self, into: &mut Vec<u64>) {
        let hits = &self.hits;
        into.extend([hits.staged, hits.staged_bytes, hits.raw, self.commits, hits.bare, self.no_room]);
    }
}
