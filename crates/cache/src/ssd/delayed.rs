//! Implements what all caches share that defer parity (specs §9.2 to §9.4). A write of cached pages goes to the
//! members without parity, and to the cache. The cache keeps the version that the parity covers beside the
//! newer one; a [`ParityBase`] says how.
//!
//! Invariants:
//!
//! * A [`journal`] lets pages that the members also have outlive a power failure.
//! * Every row with stale parity has an open intent.
//! * After a crash recovery recomputes the parity of such rows from the members, and the start drops their
//!   pages.

use destage_plan::{
    Buf, Claim, Column, ColumnSet, Control, DevSet, DeviceChange, Event, Frag, HostOp, NvHeld, OpId, Out,
    PageChecksums, PageFate, ParamSpec, Params, Row, Rows, StepNo, StepOutcome, StepSet,
};
use destage_raid::RaidLevel;
use destage_raid::array::{
    ArrayConfig, DegradedRead, PageVersions, ParityUpdate, RaidArray, ReadLoss, RowSources, StripeSegment,
    VersionSource, WriteApproach,
};

use super::behind::{self, StaleRows, page_of};
use super::copies::{CopyCache, SEQUENTIAL_CUTOFF, WAYS};
use super::frames::{BYTES_PER_PAGE, FrameTable, MAX_PAGES};
use super::journal::{self, CacheJournal};
use super::keeps::{DeferredTask, KeepRefusal, KeptWrite, KnownPage, MOST_PAGES, PageHome, ParityBase};
use super::of;
use super::parts::WriteParts;
use super::trims::TRIM;
use super::write_through::ThroughRule;
use crate::{
    BadCachePage, CacheFigure, CacheMedium, CacheOperations, HostCache, HostCacheError, HostCacheInfo, HostCacheStatus,
    ReadPages, RegisteredCache, StaleParity, WriteStage,
};

/// Lists the parameters that all of these caches take.
pub(super) const PARAMS: [ParamSpec; 9] = [
    WAYS,
    behind::HIGH,
    behind::LOW,
    behind::SET_LOW,
    behind::IDLE_AFTER,
    behind::CLEAN,
    journal::LOG,
    SEQUENTIAL_CUTOFF,
    TRIM,
];

pub(super) const CLEANED: CacheFigure =
    CacheFigure { name: "cleaned_rows", unit: "rows", meaning: "times that the parity of a row was made to catch up" };
pub(super) const NO_ROOM: CacheFigure = CacheFigure {
    name: "no_room",
    unit: "pages",
    meaning: "pages that were in the cache and were written with their parity, for want of a free page",
};

/// A cache that leaves parity for later.
pub(crate) struct DeferredParity<K> {
    copies: CopyCache<ThroughRule>,
    behind: StaleRows,
    kept: K,
    /// Tells of each operation how it has been planned before.
    planned: Vec<EarlierPlan>,
    parts: WriteParts,
}

/// Says how a write has been planned before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EarlierPlan {
    /// Reports that it has not.
    #[default]
    None,
    /// Reports that it has, and does not fill the cache.
    Asked,
    /// Reports that it, or parts of it, may fill the cache: with its parity.
    Fills,
}

/// Bytes of memory for each page of the cache, without what tells them apart.
pub(super) fn bytes_per_page(params: &Params) -> u64 {
    BYTES_PER_PAGE + journal::bytes_per_page(params) + behind::bytes_per_page(behind::HIGH, params)
}

/// Returns the registry entry that all of these caches share; the caller adds its own fields.
pub(super) const fn info<K: ParityBase>(name: &'static str, title: &'static str, paper: &'static str) -> HostCacheInfo
where
    DeferredParity<K>: RegisteredCache,
{
    HostCacheInfo {
        medium: CacheMedium::Device,
        serves: |level| matches!(level, RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6),
        min_pages: |array, params| journal::min_pages(array.page_bytes, params),
        max_pages: MAX_PAGES,
        nv_slots: |pages, _, _| journal::slots(pages),
        delays_parity: true,
        // The synchroniser delays writes of data to members; here nothing of that
        // kind is left to be delayed.
        synchronised: Err("what it leaves for later is parity, which is updated row by row"),
        // Two sets, so that both lookup and eviction matter, and rows that are cleaned soon.
        small: |pages| {
            let idle = (behind::IDLE_AFTER.name, "2ms".to_owned());
            vec![(WAYS.name, (pages / 2).max(1).to_string()), (behind::HIGH.name, "60".to_owned()), idle]
        },
        ..HostCacheInfo::new::<DeferredParity<K>>(name, title, paper)
    }
}

/// Makes one.
pub(super) fn new<K: ParityBase>(
    pages: u64,
    array: &ArrayConfig,
    params: &Params,
) -> Result<DeferredParity<K>, HostCacheError> {
    let log = journal::log_pages(pages, array.page_bytes, params)?;
    // The log takes the first pages of the device, so frames begin after it.
    let mut copies = CopyCache::with_log(pages, log, array, params)?;
    let kept = K::new(&mut copies.frames, array.geometry.data_columns().into(), params)?;
    // Only a `ParityBase` that prepares can keep a delta of a page that is in no
    // frame. Then sets' lists cannot find all stale rows.
    let behind = StaleRows::new(&copies.frames, kept.rules().prepares, params)?;
    Ok(DeferredParity { copies, behind, kept, planned: Vec::new(), parts: WriteParts::default() })
}

impl<K: ParityBase> DeferredParity<K> {
    fn is_caching(&self) -> bool {
        self.copies.is_caching()
    }

    fn journal(&self) -> Option<&CacheJournal> {
        self.copies.journal.as_deref()
    }

    /// Forgets all that it has of a page, of which its member has the newest version.
    fn lose_page(&mut self, row: Row, column: Column) {
        let Self { copies: CopyCache { frames, geometry, .. }, behind, kept, .. } = self;
        let page = page_of(geometry, row, column);
        let frame = frames.get(page);
        // The row is marked before the frame is given back: after that nobody could
        // tell which version the parity covers.
        behind.lose_page(row, column, frames);
        kept.forget(frame.map_or(PageHome::Bare(page), PageHome::Frame), frames);
        if let Some(frame) = frame {
            frames.forget(frame);
        }
    }

    /// Has what is written of these pages kept beside what the parity covers, if the cache has all of them, or
    /// can do without, and there is room: how it is written then.
    fn keep(&mut self, op: OpId, rows: Rows, columns: ColumnSet) -> Result<WriteApproach, KeepRefusal> {
        let Self { copies, behind, kept, .. } = self;
        let nothing = KnownPage { row: Row(0), column: Column(0), page: 0, frame: None };
        let mut pages = [nothing; MOST_PAGES];
        let (mut count, mut approach) = (0, WriteApproach::Delayed);
        // Nothing is changed before all pages have passed: a refusal must leave no
        // page half kept.
        for (row, column) in rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column))) {
            let page = page_of(&copies.geometry, row, column);
            let frame = copies.frames.get(page);
            if frame.is_none() {
                // Until the parity is made of data again, a delta is of no use.
                if behind.is_lost(row, column) {
                    return Err(KeepRefusal::AsItIs);
                }
                if !kept.rules().prepares || !columns.is_single() {
                    return Err(KeepRefusal::AsItIs);
                }
                approach = WriteApproach::Prepared;
            }
            pages[count] = KnownPage { row, column, page, frame };
            count += 1;
        }
        let pages = &pages[..count];
        // From here on nothing fails, so the frames and rows below change together.
        kept.keep(op, pages, copies, behind)?;
        for known in pages {
            if let Some(frame) = known.frame {
                // A page that is stale already keeps the version that the parity
                // covers. A second write replaces only the newest version.
                if !copies.frames.is_stale(frame) {
                    copies.frames.leave_behind(frame);
                }
                copies.frames.touch(frame);
            }
            behind.leave(known.row, known.column, known.frame.is_some(), &copies.frames);
        }
        Ok(approach)
    }
}

impl<K: ParityBase> PageVersions for DeferredParity<K> {
    fn approach(&mut self, op: OpId, host: HostOp, seg: StripeSegment, rows: Rows, may_delay: bool) -> WriteApproach {
        // The array may plan the same write several times. What an earlier plan
        // reserved is given back first.
        self.kept.drop_work(op, &mut self.copies);
        let planned = of(&mut self.planned, op);
        let earlier = *planned;
        if earlier == EarlierPlan::None {
            *planned = EarlierPlan::Asked;
        } else {
            // A member may have got a part of the earlier plan. So a copy in the
            // cache may be newer or older than what the parity covers.
            self.copies.distrust(rows, seg.columns);
        }
        let few = seg.rows * seg.columns.len() <= MOST_PAGES as u32;
        // What fills the cache would be taken for what the parity covers.
        let is_first = earlier != EarlierPlan::Fills && rows.count == seg.rows;
        // `may_delay` is false in a degraded array: with a lost member stale parity
        // would leave data that nothing makes up.
        if may_delay && host == HostOp::Write && is_first && self.is_caching() {
            let refused = if few { self.keep(op, rows, seg.columns) } else { Err(KeepRefusal::AsItIs) };
            let why = match refused {
                Ok(approach) => return approach,
                Err(why) => why,
            };
            // What was planned before is not cut anew: some of it may be written.
            if earlier == EarlierPlan::None && self.parts.split(op, seg, &self.copies) {
                return WriteApproach::Split;
            }
            // Only a lack of room makes cleaning urgent. Cleaning does nothing for
            // pages that are not cached at all.
            if why == KeepRefusal::NoRoom {
                self.kept.count_no_room(seg.pages());
                self.behind.are_short(Some(self.copies.frames.set_of(rows.first)));
            }
        }
        let departs = self.departs(rows);
        // Then it is written in pieces.
        if rows.count > 1 && (departs || !may_delay) {
            // A write in pieces may end one row, and clear its intent, before
            // another row's pages are in the cache. The log must not name the old
            // pages at that moment.
            self.copies.take_back(rows, seg.columns);
        }
        if departs { WriteApproach::Departed } else { WriteApproach::Plain }
    }

    fn may_fold(&self, rows: Rows, columns: ColumnSet) -> bool {
        // A cache that prepares has to act before its members are written. Folded
        // writes are planned once for all, without that.
        !self.kept.rules().prepares && self.copies.has_none(rows, columns)
    }

    fn may_pass(&self) -> bool {
        true
    }

    fn passes(&mut self, rows: Rows, columns: ColumnSet) {
        self.copies.distrust(rows, columns);
    }

    fn departs(&self, rows: Rows) -> bool {
        self.behind.departs(rows)
    }

    fn sources(&self, row: Row) -> RowSources {
        let mut sources = RowSources::default();
        // Rows that are not stale take the array's default: members for data, and
        // parity that covers them.
        let Some(stale) = self.behind.get(row) else { return sources };
        let (frames, geometry) = (&self.copies.frames, &self.copies.geometry);
        let mut made = stale.columns.len();
        // Copies of what is on the members, too: with all of a row in the cache no member is read.
        for column in geometry.data_set().iter() {
            let page = page_of(geometry, row, column);
            let frame = frames.get(page);
            // Until the first newer version is in the cache, the member may hold any part of it.
            if let Some(frame) = frame {
                let newest = self.kept.newest(frame, frames);
                // Each page that is made of a base and a delta takes two reads and
                // a decode. So `most_made` keeps the operation within its 64 steps.
                let is_made = matches!(newest, VersionSource::Delta(_)) && !stale.columns.contains(column);
                made += u32::from(is_made);
                if !is_made || made <= self.kept.rules().most_made {
                    sources.set_newest(column, newest);
                }
            }
            if stale.columns.contains(column) {
                let covered = if stale.lost.contains(column) {
                    VersionSource::Lost
                } else {
                    self.kept.covered_source(frame.map_or(PageHome::Bare(page), PageHome::Frame), frames)
                };
                sources.set_stale(column, covered);
            }
        }
        sources
    }

    fn uses(&mut self, op: OpId, row: Row) {
        let Some(stale) = self.behind.get(row) else { return };
        let CopyCache { frames, geometry, .. } = &mut self.copies;
        for column in geometry.data_set().iter() {
            let page = page_of(geometry, row, column);
            match frames.get(page) {
                Some(frame) => self.kept.uses(op, PageHome::Frame(frame), frames),
                None if stale.columns.contains(column) => self.kept.uses(op, PageHome::Bare(page), frames),
                None => {}
            }
        }
    }

    fn released(&mut self, op: OpId) {
        self.kept.released(op, &mut self.copies.frames);
    }

    fn unwritten(&mut self, op: OpId, rows: Rows, columns: ColumnSet) {
        self.kept.drop_work(op, &mut self.copies);
        for (row, column) in rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column))) {
            self.kept.unwritten(page_of(&self.copies.geometry, row, column));
        }
    }

    fn written(&mut self, op: OpId, rows: Rows, columns: ColumnSet, updated: ParityUpdate) {
        if updated == ParityUpdate::Delayed {
            self.kept.written(op);
        }
        let CopyCache { frames, geometry, .. } = &mut self.copies;
        for row in rows.iter() {
            let covered = self.behind.written(row, columns, updated, frames);
            for column in covered.iter() {
                let page = page_of(geometry, row, column);
                let frame = frames.get(page).filter(|frame| frames.is_stale(*frame));
                let home = frame.map_or(PageHome::Bare(page), PageHome::Frame);
                self.kept.covered(home, columns.contains(column), frames);
            }
        }
    }

    fn holds(&self, row: Row) -> bool {
        let CopyCache { frames, geometry, .. } = &self.copies;
        // A stale row needs its open intent: it is the only thing that tells
        // recovery after a crash to recompute this parity.
        self.behind.get(row).is_some() || self.journal().is_some_and(|journal| journal.holds(row, frames, geometry))
    }

    fn is_recovered(&self) -> bool {
        // A log that is still being read may name pages that the members have
        // newer. Serving before it is replayed would read the old ones.
        self.journal().is_none_or(CacheJournal::is_recovered)
    }

    fn is_clean(&self) -> bool {
        let told = self.journal().is_none_or(|journal| journal.is_clean(&self.copies.frames));
        self.behind.is_clean() && self.kept.is_clean() && told
    }
}

impl<K: ParityBase> HostCache for DeferredParity<K> {
    type Part = DeferredTask<K::Part>;

    const READ_PAGES: u16 = <CopyCache<ThroughRule> as HostCache>::READ_PAGES;

    fn sequential_cutoff(&self) -> u64 {
        self.copies.cutoff()
    }

    fn load(&mut self, held: &NvHeld<'_>, _page_bytes: u32) -> bool {
        match &mut self.copies.journal {
            Some(journal) if CacheJournal::is_own(&held.tag) => journal.load(held),
            // The tag's kind decides whose slot it is. Two owners never use the
            // same kind.
            _ => self.kept.load(held),
        }
    }

    fn device_changed(&mut self, devs: DevSet, change: DeviceChange) {
        let has_own = devs.contains(self.copies.frames.dev());
        if change == DeviceChange::Replaced && !has_own {
            return;
        }
        // What the device held before another took its place is lost as well.
        if has_own && self.is_caching() {
            // The order matters: staged deltas name frames, so they are dropped
            // while the table still knows these.
            self.kept.lose(&mut self.copies.frames);
            self.copies.device_changed(devs, DeviceChange::Failed);
            self.behind.lose_covered();
        }
        if let Some(journal) = &mut self.copies.journal {
            journal.lose(devs);
        }
        if !devs.is_empty() {
            // Cleaning begins at once with any lost device: stale parity protects
            // nothing, and a second loss would lose data.
            self.behind.hurry();
        }
        if change == DeviceChange::Replaced {
            self.copies.device_changed(devs, change);
            if let Some(journal) = &mut self.copies.journal {
                journal.replaced();
            }
        }
    }

    fn turn(&mut self, array: &mut RaidArray, operations: &mut CacheOperations<DeferredTask<K::Part>>, out: &mut Out) {
        // Slots and intents that earlier events released go back first, so that
        // this turn's operations find them.
        if let Some(journal) = &mut self.copies.journal {
            journal.settle(array, out);
        }
        self.kept.turn(&mut self.copies, &self.behind, array, operations, out);
        self.behind.are_short(self.copies.frames.take_short());
        let CopyCache { frames, geometry, .. } = &self.copies;
        self.behind.turn(frames, self.kept.owed(frames), geometry, array, out);
        let CopyCache { frames, geometry, journal, trims, .. } = &mut self.copies;
        if let Some(journal) = journal {
            journal
                .turn(frames, geometry, out, |part, out| operations.open_own(None, DeferredTask::Journal(part), out));
        }
        trims.turn(frames, out, |out| operations.open_own(None, DeferredTask::Trim, out));
    }

    fn event(&mut self, event: Event<'_>, array: &mut RaidArray, out: &mut Out) {
        match event {
            Event::Timer(behind::IDLE) => self.behind.timer(out),
            Event::Start(start) => {
                if let Some(journal) = &mut self.copies.journal {
                    let (bytes, config) = (out.page_bytes(), array.config());
                    assert_eq!(
                        config.page_bytes, bytes,
                        "the array is served with pages of other bytes than it was made for"
                    );
                    // Without this the array clears intents as soon as members are
                    // written. An array with copies keeps them for rows that the
                    // log still names.
                    array.has_copies();
                    journal.started(start.intents, bytes);
                }
            }
            Event::Control(control) => {
                if control == Control::Drain {
                    self.behind.drain();
                }
                self.behind.hurry();
            }
            _ => {}
        }
    }

    fn step_done(&mut self, op: OpId, step: StepNo, outcome: StepOutcome, out: &Out) -> bool {
        let CopyCache { frames, geometry, journal, .. } = &mut self.copies;
        if let Some(journal) = journal
            && (journal.claim_done(op, step, frames) || journal.has_read(op, step, geometry, out))
        {
            return true;
        }
        self.kept.step_done(op, step, outcome)
    }

    fn read(
        &mut self,
        op: OpId,
        pages: ReadPages<'_>,
        dst: Buf,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<StepSet, DegradedRead> {
        self.behind.asked(out.now());
        let Self { copies, behind, kept, .. } = self;
        let admits = kept.rules().admits_reads;
        // A stale page that is in no frame has its covered version elsewhere. A
        // fill would be taken for that version.
        copies.read_by(op, pages, dst, array, kept, |_, row, column| admits && !behind.is_stale(row, column), out)
    }

    fn read_segment(
        &mut self,
        op: OpId,
        frag: &Frag,
        seg: StripeSegment,
        dst: Buf,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<StepSet, ReadLoss> {
        match self.copies.read_cached(op, frag, seg, dst, array, &mut self.kept, out) {
            Some(done) => Ok(done),
            None => array.plan_read_seg(op, seg, frag.page, dst, self, out),
        }
    }

    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        array: &mut RaidArray,
        operations: &mut CacheOperations<DeferredTask<K::Part>>,
        out: &mut Out,
    ) -> Option<StepSet> {
        self.behind.asked(out.now());
        let Self { copies, kept, .. } = self;
        match kept.write(op, stage, copies, array, out) {
            KeptWrite::After(done) => Some(done),
            KeptWrite::Later => None,
            KeptWrite::Not => {
                // The parity is updated with this write. A plan that is made again
                // must not take the fill for the covered version.
                *of(&mut self.planned, op) = EarlierPlan::Fills;
                let admits = |page, frames: &FrameTable| kept.admits(page, frames);
                Some(copies.write_with(op, stage.planned(), array, operations, admits, out))
            }
        }
    }

    fn next_part(&mut self, op: OpId) -> Option<StripeSegment> {
        self.parts.next(op)
    }

    fn count_rewritten(&mut self, pages: u16) {
        self.copies.counts.write_hits += u64::from(pages);
    }

    fn write_failed(&mut self, seg: StripeSegment, array: &RaidArray) {
        self.copies.write_failed(seg, array);
    }

    fn plan_part(&mut self, op: OpId, part: Self::Part, array: &mut RaidArray, out: &mut Out) {
        match part {
            DeferredTask::Fill(frag) => self.copies.plan_fills(op, frag, out),
            DeferredTask::Journal(part) => self.copies.plan_journal(op, part, out),
            DeferredTask::Trim => self.copies.trims.plan(op, &self.copies.frames, out),
            DeferredTask::Kept(part) => self.kept.plan_part(op, part, &mut self.copies, array, out),
        }
    }

    fn undone(&mut self, op: OpId) {
        self.kept.drop_work(op, &mut self.copies);
        self.copies.undone(op);
    }

    fn done(&mut self, op: OpId) {
        // The number of an operation is used again; its next user starts without a
        // history.
        *of(&mut self.planned, op) = EarlierPlan::None;
        self.copies.done(op);
        let CopyCache { frames, geometry, journal, .. } = &mut self.copies;
        if journal.as_mut().is_some_and(|journal| journal.done(op, frames, geometry)) {
            return;
        }
        if !self.behind.done(op, &self.copies.frames) {
            self.kept.done(op, &mut self.copies, &mut self.behind);
        }
    }

    /// Forgets pages of which members have the newest version. What the parity covers of stale ones is lost, so it is made of
    /// all data of their rows again.
    fn forget_bad_page(&mut self, page: u64, op: OpId, claim: Option<Claim>) -> Option<BadCachePage> {
        let Self { copies: CopyCache { frames, geometry, .. }, kept, .. } = self;
        let (bad, claim) = (frames.at(page)?, claim?);
        let rows = Rows::new(geometry.row(claim.stripe, claim.first), claim.rows);
        let columns = geometry.data_set() & (claim.r | claim.w);
        let is_bad = |&(row, column): &(Row, Column)| {
            let page = page_of(geometry, row, column);
            let frame = frames.get(page);
            frame == Some(bad) || kept.is_kept_in(frame.map_or(PageHome::Bare(page), PageHome::Frame), bad, frames)
        };
        let pages = rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column)));
        let lost: Vec<_> = pages.filter(is_bad).collect();
        if lost.is_empty() {
            return None;
        }
        let fill = frames.fill_of(bad);
        // If members have what an operation writes, nothing that was planned to be kept of it comes about.
        // Members have the newest version of every page. A delta without its base
        // is useless, so all that belongs to the page goes.
        let written = self.kept.written_by(op);
        lost.into_iter().chain(written).for_each(|(row, column)| self.lose_page(row, column));
        Some(BadCachePage { fate: PageFate::Dropped, fill })
    }

    fn checksums(&self) -> Option<&PageChecksums> {
        Some(self.copies.frames.checksums())
    }

    fn checksums_mut(&mut self) -> Option<&mut PageChecksums> {
        Some(self.copies.frames.checksums_mut())
    }

    fn status(&self) -> HostCacheStatus<'_> {
        let is_believed = self.journal().is_some_and(|journal| !journal.is_recovered());
        // Until the note is durable a start would believe the lost log. The
        // executor waits for that before it forgets the device.
        let unnoted = if is_believed { DevSet::one(self.copies.frames.dev()) } else { DevSet::EMPTY };
        HostCacheStatus { unnoted, ..self.copies.status() }
    }

    fn stale_parity(&self) -> StaleParity {
        StaleParity { stale_rows: self.behind.len(), left_rows: self.behind.left_rows }
    }

    fn figures(&self, into: &mut Vec<u64>) {
        into.push(self.behind.updated_rows);
        self.kept.figures(into);
    }
}
