//! Write caches in the NVRAM of the controller (specs §8): writes are answered when they are in the
//! NVRAM, and reach the members later, in an order and at a pace that suits these.
//!
//! One cache has up to two layers, each of which can be alone.
//!
//! * The *upper* layer holds data by groups, a group to a stripe. Parity knows nothing of it. A group is
//!   destaged to the members together with its parity, or, if there is a lower layer, into that. Alone
//!   it is [WOW](wow), or [STOW](stow).
//! * The *lower* layer holds data and parity by strips, each member's in a pool of its own. Parity is
//!   made when data enters, so that strips are destaged one by one and without regard to each other:
//!   [IWC](iwc), or all at a time where a [synchroniser](crate::synchroniser) has them wait.
//!
//! Both together are [LAWC](lawc).
//!
//! What is where is the [store]'s knowledge; how much there is, and what goes next, the
//! [pools](pool)'.

mod destage;
mod drain;
mod enter;
mod figures;
mod iwc;
mod lawc;
mod options;
mod outdated;
mod places;
mod pool;
mod queue;
mod read;
mod registered;
mod ring;
mod store;
mod stow;
mod streams;
mod threshold;
mod upper;
mod versions;
mod wow;

use std::collections::VecDeque;

use destage_plan::{
    Buf, Control, Dev, Event, Frag, HostOp, NvHeld, NvPut, NvSlot, OpId, Out, Row, StepNo, StepOutcome, StepSet,
};
use destage_raid::Geometry;
use destage_raid::array::{ArrayConfig, DegradedRead, RaidArray, ReadLoss, StripeSegment};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};

use crate::{
    CacheCounts, CacheOperations, HostCache, HostCacheStatus, ReadPages, RequestAdmission, StaleParity, WriteStage,
};
use drain::DrainMark;
use enter::{EnteringPages, WaitingWrite};
use figures::{CountedFigure, WriteCacheFigures};
use outdated::OutdatedVersions;
use places::{in_group, in_strip};
use pool::PagePool;
use queue::WaitQueue;
use store::{DamagedVersions, MemberPlace, VersionLayer, VersionStore};
use upper::{EnteringRequest, UpperLayer};

pub use iwc::IWC;
pub use lawc::LAWC;
pub use stow::STOW;
pub use wow::WOW;

/// Names what an operation of the cache's own does.
#[derive(Clone, Copy, Debug)]
pub enum WriteCacheTask {
    /// Writing pages to a member, without regard to parity.
    Direct,
    /// Freeing slots of the NVRAM.
    Free,
}

/// Identifies the owner of pages that are destaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageOwner {
    /// A group of the upper layer.
    Group(u64),
    /// A strip of a member.
    Strip(Dev, u64),
}

/// Names what an operation does.
#[derive(Clone, Debug)]
enum OperationJob {
    /// Stores pages of a request.
    Store(StripeSegment),
    /// Has the lower layer absorb pages of this request.
    Absorb(u64),
    /// Destages a row of this group, which counts as a request of its own.
    Row { group: u64, request: u64 },
    /// Writes these pages of a layer to their member.
    Direct { owner: PageOwner, layer: VersionLayer, places: Vec<MemberPlace> },
    /// Frees slots.
    Free(Vec<NvSlot>),
}

/// The part of the lower layer that belongs to a member.
#[derive(Debug)]
struct MemberStrips {
    pool: PagePool,
    /// The strip that is written next.
    candidate: Option<u64>,
    /// The one that is being written.
    under_way: Option<u64>,
    /// A row waits for room.
    is_short: bool,
}

/// The lower layer.
#[derive(Debug)]
struct LowerLayer {
    members: Vec<MemberStrips>,
    /// Something has changed since it was decided what is written.
    changed: bool,
}

impl LowerLayer {
    /// A member's pool, to be changed.
    // Marked on every change, so that `destage_strips` can skip events that changed
    // nothing.
    fn pool_mut(&mut self, dev: Dev) -> &mut PagePool {
        self.changed = true;
        &mut self.members[dev.index()].pool
    }
}

/// A write cache of one or two layers.
pub struct WriteCache {
    geometry: Geometry,
    store: VersionStore,
    upper: Option<UpperLayer>,
    lower: Option<LowerLayer>,
    /// Writes that have not entered, or not all of them.
    waiting: VecDeque<WaitingWrite>,
    /// Pages that enter the upper layer in one piece at most. New versions of pages that are held take slots
    /// but no room, and their rows cannot be destaged while they wait for these: there must be that many
    /// when everything else is full.
    most_at_once: u64,
    /// Has the pages of a row enter the upper layer together.
    admits_rows: bool,
    /// A group has left the upper layer, or a write came: waiting ones are looked at again.
    look_again: bool,
    /// Pages of which the old versions are being read.
    reading: HashMap<OpId, (StepSet, EnteringPages), FixedState>,
    /// Pages that wait for room or slots.
    entering: WaitQueue,
    jobs: Vec<Option<OperationJob>>,
    /// Slots that operations free beside what they put.
    freeing: Vec<(OpId, Vec<NvSlot>)>,
    /// An operation frees slots that nothing was put beside.
    is_freeing: bool,
    /// Slots that are free as soon as the array can be told.
    given: Vec<NvSlot>,
    /// More is lost than the level can do without: rows cannot be written with their parity.
    broken: bool,
    /// Rows of which the parity says nothing.
    torn: HashSet<Row, FixedState>,
    /// Holds versions that say of rows what is not so any more.
    outdated: OutdatedVersions,
    /// Lists rows whose intent need not stay any more.
    healed: Vec<Row>,
    /// Nothing makes room, though no more is lost than the level can do without: too much is lost of every row that is
    /// held.
    stuck: bool,
    requests: u64,
    cleaning: bool,
    /// Marks the versions that leave whatever the thresholds say.
    drain: Option<DrainMark>,
    counts: CacheCounts,
    figures: WriteCacheFigures,
    /// Lists the figures that this cache reports.
    counted: &'static [CountedFigure],
    /// Lists to be used again.
    spare_puts: Vec<NvPut>,
    spare_places: Vec<(MemberPlace, VersionLayer)>,
}

impl WriteCache {
    /// The cache of these layers, which counts this.
    fn new(
        counted: &'static [CountedFigure],
        array: &ArrayConfig,
        upper: Option<UpperLayer>,
        lower: Option<LowerLayer>,
    ) -> Self {
        let geometry = array.geometry.clone();
        Self {
            store: VersionStore::new(geometry.members()),
            geometry,
            upper,
            lower,
            waiting: VecDeque::new(),
            // Set by `serve`, which knows how many slots are spare.
            most_at_once: u64::MAX,
            admits_rows: false,
            look_again: false,
            reading: HashMap::default(),
            entering: WaitQueue::new(),
            jobs: Vec::new(),
            freeing: Vec::new(),
            is_freeing: false,
            given: Vec::new(),
            broken: false,
            torn: HashSet::default(),
            outdated: OutdatedVersions::default(),
            healed: Vec::new(),
            stuck: false,
            requests: 0,
            cleaning: false,
            drain: None,
            counts: CacheCounts::default(),
            figures: WriteCacheFigures::default(),
            counted,
            spare_puts: Vec::new(),
            spare_places: Vec::new(),
        }
    }

    /// Has the pages of a row enter the upper layer together, or page by page.
    fn admitting(self, rows: bool) -> Self {
        Self { admits_rows: rows, ..self }
    }

    fn has_parity(&self) -> bool {
        self.geometry.parity_columns() > 0
    }

    fn place(&self, page: u64) -> MemberPlace {
        let place = self.geometry.locate(page);
        (self.geometry.row(place.stripe, place.row_in_chunk), place.column)
    }

    /// Returns the page of the array at a place that holds data.
    fn page(&self, (row, column): MemberPlace) -> u64 {
        let (stripe, row_in_chunk) = self.geometry.stripe_of(row);
        self.geometry.page_of(destage_raid::PagePlace { stripe, row_in_chunk, column })
    }

    fn set_job(&mut self, op: OpId, job: OperationJob) {
        if self.jobs.len() <= op.index() {
            self.jobs.resize(op.index() + 1, None);
        }
        self.jobs[op.index()] = Some(job);
    }

    fn job(&self, op: OpId) -> Option<&OperationJob> {
        self.jobs.get(op.index()).and_then(Option::as_ref)
    }

    fn take_job(&mut self, op: OpId) -> Option<OperationJob> {
        self.jobs.get_mut(op.index()).and_then(Option::take)
    }

    /// A version that was let in is in the NVRAM.
    fn came(&mut self, place: MemberPlace, layer: VersionLayer) {
        match layer {
            VersionLayer::Upper => {
                let (group, index) = in_group(&self.geometry, place);
                if let Some(upper) = &mut self.upper {
                    upper.came(group, index);
                }
            }
            VersionLayer::Lower => {
                let (dev, strip, index) = in_strip(&self.geometry, place);
                if let Some(lower) = &mut self.lower {
                    lower.pool_mut(dev).came(strip, index);
                }
            }
        }
    }

    /// Takes in that the slots an operation frees are free.
    fn freed(&mut self, op: OpId) {
        while let Some(at) = self.freeing.iter().position(|(other, _)| *other == op) {
            let (_, slots) = self.freeing.remove(at);
            self.are_free(slots);
        }
    }

    /// Takes in slots that are free, and lists the rows that were held for them.
    fn are_free(&mut self, mut slots: Vec<NvSlot>) {
        if !self.outdated.is_empty() {
            // A row's intent was held as long as a start could have believed its
            // outdated versions; freeing the last one ends that.
            self.healed.extend(slots.iter().filter_map(|slot| self.outdated.take(*slot)));
        }
        self.given.append(&mut slots);
    }

    /// A version is on its member: pools that hold it without destaging it do so no longer.
    fn on_member(&mut self, place: MemberPlace, slot: NvSlot) {
        self.figures.destaged_pages += 1;
        // A version that went to its member directly may be held by the other layer
        // too; both let go of it.
        for layer in self.store.written(slot) {
            match (layer, &mut self.upper, &mut self.lower) {
                (VersionLayer::Upper, Some(upper), _) => {
                    let (group, index) = in_group(&self.geometry, place);
                    upper.gone(group, index);
                }
                (VersionLayer::Lower, _, Some(lower)) => {
                    let (dev, strip, index) = in_strip(&self.geometry, place);
                    lower.pool_mut(dev).gone(strip, index);
                }
                _ => {}
            }
        }
    }
}

impl HostCache for WriteCache {
    type Part = WriteCacheTask;

    /// Returns false: what is newer in the cache than on members stays when they are trimmed.
    fn unmaps_zeros(&self) -> bool {
        false
    }

    fn load(&mut self, held: &NvHeld<'_>, page_bytes: u32) -> bool {
        let (upper, lower) = (self.upper.is_some(), self.lower.is_some());
        // A slot of another size was written by another configuration.
        held.len() == page_bytes && self.store.load(held, upper, lower, self.geometry.member_pages())
    }

    fn submit(
        &mut self,
        frag: &Frag,
        array: &mut RaidArray,
        operations: &mut CacheOperations<WriteCacheTask>,
        out: &mut Out,
    ) -> RequestAdmission {
        if !matches!(frag.op, HostOp::Write | HostOp::WriteZeroes) {
            // A read that overtook a waiting write of its page would return the old
            // version.
            let waits = self.waiting.iter().any(|waiting| waiting.overlaps(frag));
            return if waits { RequestAdmission::Waits } else { RequestAdmission::Array };
        }
        self.requests += 1;
        let request = self.requests;
        if let Some(upper) = &mut self.upper {
            let sequential = upper.is_sequential(frag);
            // Counted when the request comes, once: it may be looked at many times.
            self.figures.sequential += u64::from(sequential);
            self.waiting.push_back(WaitingWrite::new(*frag, EnteringRequest { number: request, sequential }));
            self.look_again = true;
        } else {
            // The lower layer has no waiting room of its own: pages wait in claims
            // and in `entering`.
            self.pass_on(frag, request, array, operations, out);
        }
        RequestAdmission::Taken
    }

    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        array: &mut RaidArray,
        _: &mut CacheOperations<WriteCacheTask>,
        out: &mut Out,
    ) -> Option<StepSet> {
        match stage {
            WriteStage::Absorbed { pages, after } => self.begin_entering(op, pages, after, array, out),
            // A discard.
            _ => Some(stage.planned().after),
        }
    }

    fn step_done(&mut self, op: OpId, step: StepNo, _: StepOutcome, _: &Out) -> bool {
        let is_read = self.reading.get(&op).is_some_and(|(join, _)| join.contains(step));
        if is_read && let Some((_, entering)) = self.reading.remove(&op) {
            self.is_read(&entering);
        }
        is_read
    }

    fn read(
        &mut self,
        op: OpId,
        pages: ReadPages<'_>,
        dst: Buf,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<StepSet, DegradedRead> {
        self.plan_read(op, pages, dst, array, out)
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
        self.plan_read_segment(op, frag, seg, dst, array, out)
    }

    fn event(&mut self, event: Event<'_>, array: &mut RaidArray, out: &mut Out) {
        match event {
            Event::Start(_) => self.begin(array, out),
            Event::Control(Control::Clean) => {
                self.cleaning = true;
                // What could not be written may be possible now, and a stop must
                // not end without trying.
                self.try_again();
            }
            Event::Control(Control::Drain) => {
                self.drain = Some(DrainMark::of(self.store.last_seq()));
                self.try_again();
            }
            _ => {}
        }
    }

    fn turn(&mut self, array: &mut RaidArray, operations: &mut CacheOperations<WriteCacheTask>, out: &mut Out) {
        // Slots and intents go back here, because completion handlers cannot reach
        // the array.
        for slot in std::mem::take(&mut self.given) {
            array.give_slot(slot, out);
        }
        for row in self.healed.drain(..) {
            array.let_go(row, out);
        }
        if !array.is_ready() {
            // Else their rows would be open to a cut when requests come, and what is lost with a member then.
            if self.outdated.are_free_to_go() {
                self.free(operations, out);
            }
            return;
        }
        // Recovery has made the rows of damaged versions consistent, so these may
        // be freed.
        self.store.end_damaged();
        let broken = self.has_parity() && array.is_broken();
        let was_broken = std::mem::replace(&mut self.broken, broken);
        // A member came back: groups that were given up are worth another attempt.
        if was_broken && !broken {
            self.try_again();
        }
        let stuck = self.has_only_parked();
        self.look_again |= was_broken != broken || std::mem::replace(&mut self.stuck, stuck) != stuck;
        // Pages that have their content go before new writes: they hold claims.
        self.enter(array, operations.synchroniser.is_some(), out);
        self.let_in(array, operations, out);
        self.destage(array, operations, out);
        self.free(operations, out);
        if self.drain.is_some() && self.is_drained() {
            out.drained();
        }
    }

    fn plan_part(&mut self, op: OpId, own: WriteCacheTask, array: &mut RaidArray, out: &mut Out) {
        match own {
            WriteCacheTask::Direct => self.plan_direct(op, array, out),
            WriteCacheTask::Free => self.plan_free(op, out),
        }
    }

    fn undone(&mut self, op: OpId) {
        // A write that is planned anew may take another way, so its room goes back.
        if let Some(&OperationJob::Store(seg)) = self.job(op) {
            self.take_back(seg);
            self.take_job(op);
        }
    }

    fn done(&mut self, op: OpId) {
        match self.take_job(op) {
            None | Some(OperationJob::Store(_) | OperationJob::Absorb(_)) => {}
            Some(OperationJob::Row { group, .. }) => self.part_of_group_done(group),
            Some(OperationJob::Direct { owner, layer, places }) => self.direct_done(op, owner, layer, &places),
            Some(OperationJob::Free(slots)) => {
                self.is_freeing = false;
                self.are_free(slots);
            }
        }
    }

    fn status(&self) -> HostCacheStatus<'_> {
        HostCacheStatus { counts: Some(&self.counts), ..HostCacheStatus::default() }
    }

    fn stale_parity(&self) -> StaleParity {
        StaleParity { stale_rows: if self.has_parity() { self.store.uncovered_rows() } else { 0 }, left_rows: 0 }
    }

    fn figures(&self, into: &mut Vec<u64>) {
        into.extend(self.counted.iter().map(|(_, count)| count(&self.figures)));
    }
}

impl WriteCache {
    /// Has all groups that could not be written tried again, once: what they lacked may be there.
    fn try_again(&mut self) {
        self.upper.iter_mut().for_each(UpperLayer::try_again);
    }

    /// Returns true if everything held belongs to groups that cannot be written, and nothing is under way.
    fn has_only_parked(&self) -> bool {
        let Some(upper) = self.upper.as_ref().filter(|upper| upper.parked() > 0) else { return false };
        let is_empty_below = self.lower.iter().flat_map(|lower| &lower.members).all(|member| member.pool.is_empty());
        upper.has_only_parked() && is_empty_below && self.jobs.iter().all(Option::is_none)
    }

    /// Begins a life: finds out what an earlier one left, and what of it is lost with damaged slots.
    fn begin(&mut self, array: &mut RaidArray, out: &mut Out) {
        let mut pages = Vec::new();
        let DamagedVersions { lost, rows } = self.store.begin(|place, layer| pages.push((place, layer)));
        let is_data = |place: &&MemberPlace| self.geometry.data_set().contains(place.1);
        let mut lost: Vec<u64> = lost.iter().filter(is_data).map(|place| self.page(*place)).collect();
        lost.sort_unstable();
        // The array lists lost pages, since requests for them must fail in every
        // layer.
        array.lose_above(lost, out);
        // Rows whose parity covered a damaged version are recomputed before
        // requests come.
        array.recover_above(rows.into_iter());
        for (place, layer) in pages {
            let (group, in_group) = in_group(&self.geometry, place);
            let (dev, strip, in_strip) = in_strip(&self.geometry, place);
            match (layer, &mut self.upper, &mut self.lower) {
                (VersionLayer::Upper, Some(upper), _) => upper.load(group, in_group),
                (VersionLayer::Lower, _, Some(lower)) => lower.pool_mut(dev).load(strip, in_strip),
                _ => unreachable!("a layer that there is not is refused"),
            }
        }
    }
}
