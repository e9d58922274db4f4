//! Defines the contract of a host cache: the decisions that each cache makes for itself.

use destage_plan::{
    Buf, Claim, Control, DevSet, DeviceChange, Event, Frag, NvHeld, OpId, Out, PageChecksums, PageFate, PageRange,
    StepNo, StepOutcome, StepSet,
};
use destage_raid::array::{AbsorbedPages, DegradedRead, PageVersions, RaidArray, ReadLoss, StripeSegment};

use crate::CacheCounts;
use crate::CacheOperations;

/// Decides for one host cache; [`CacheTier`](crate::CacheTier) does the work that all caches share. Each provided method does
/// what an array without a cache does. A cache whose page versions are not all on the members reports their places
/// as [`PageVersions`].
pub trait HostCache: PageVersions + Send + 'static {
    /// Identifies the purpose of one part of a write.
    type Part: Copy + Send;

    /// Limits the pages that one operation of a read looks up: an operation has at most 64 steps.
    const READ_PAGES: u16 = u16::MAX;

    /// Returns true if a trim of whole stripes leaves nothing of them in the cache: they read as zeros then.
    fn unmaps_zeros(&self) -> bool {
        true
    }

    /// Returns the pages of a sequential run from which on its requests [pass the cache by](Frag::bypass); 0 if none do.
    fn sequential_cutoff(&self) -> u64 {
        0
    }

    /// Handles devices that failed, at the start or now, or that were replaced by devices of unknown content. The array
    /// itself handles the members among them.
    fn device_changed(&mut self, devs: DevSet, change: DeviceChange) {
        let _ = (devs, change);
    }

    /// Begins whatever is due, after every event (specs §8.10.7).
    fn turn(&mut self, array: &mut RaidArray, operations: &mut CacheOperations<Self::Part>, out: &mut Out) {
        let _ = (array, operations, out);
    }

    /// Takes a slot of the NVRAM that was in use when this life began, by its tag. Returns true if the slot is this
    /// cache's own, is understood and has the expected number of bytes; otherwise the start is refused.
    fn load(&mut self, held: &NvHeld<'_>, page_bytes: u32) -> bool {
        let _ = (held, page_bytes);
        false
    }

    /// Decides who plans a read, write or discard. A cache that takes a write opens the operations that
    /// [take](CacheOperations::open_taken) all of its pages, now or later. Reads and discards of pages of a write that has
    /// not [entered](CacheOperations::entered) wait, and are submitted again when it has.
    fn submit(
        &mut self,
        frag: &Frag,
        array: &mut RaidArray,
        operations: &mut CacheOperations<Self::Part>,
        out: &mut Out,
    ) -> RequestAdmission {
        let _ = (frag, array, operations, out);
        RequestAdmission::Array
    }

    /// Takes that a write begins a sequential run or goes on with one, which has so many pages then. Returns true if it passes
    /// the cache by though the run is shorter than the [cutoff](Self::sequential_cutoff).
    fn run_grows(&mut self, pages: u64, out: &Out) -> bool {
        let _ = (pages, out);
        false
    }

    /// Returns true if a flush of the host waits for what this cache has to do before. The cache opens it then.
    fn keeps_waiting(&mut self, flush: &Frag) -> bool {
        let _ = flush;
        false
    }

    /// Handles the end of a step that this cache asked to be notified of. Returns true if the step was one of those.
    fn step_done(&mut self, op: OpId, step: StepNo, outcome: StepOutcome, out: &Out) -> bool {
        let _ = (op, step, outcome, out);
        false
    }

    /// Plans the read of some pages of a fragment. Returns the steps after which the pages are in `dst`.
    ///
    /// # Errors
    /// If the array is degraded: nothing is planned, and the pages are read segment by segment.
    fn read(
        &mut self,
        op: OpId,
        pages: ReadPages<'_>,
        dst: Buf,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<StepSet, DegradedRead> {
        array.plan_read(op, pages.first(), pages.count, pages.in_fragment(dst, pages.from), out)
    }

    /// Plans the read of a segment of an array that has lost a member. Returns the steps after which the segment's
    /// pages are in `dst`, which holds the fragment from its first page on.
    ///
    /// # Errors
    /// If too many members are lost for the segment to be computed.
    fn read_segment(
        &mut self,
        op: OpId,
        frag: &Frag,
        seg: StripeSegment,
        dst: Buf,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> Result<StepSet, ReadLoss>
    where
        Self: Sized,
    {
        array.plan_read_seg(op, seg, frag.page, dst, self, out)
    }

    /// Plans the cache's part in a write that has come to `stage`. Returns the steps after which that part is done, or
    /// `None` if the cache cannot plan all of it yet: it then calls the method that the [stage](WriteStage) names.
    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        array: &mut RaidArray,
        operations: &mut CacheOperations<Self::Part>,
        out: &mut Out,
    ) -> Option<StepSet> {
        let _ = (op, array, operations, out);
        Some(stage.planned().after)
    }

    /// Takes the next part of a write that is [split](destage_raid::array::WriteApproach::Split), if one is left.
    fn next_part(&mut self, op: OpId) -> Option<StripeSegment> {
        let _ = op;
        None
    }

    /// Counts pages of a write that another write of the same pages has written for it.
    fn count_rewritten(&mut self, pages: u16) {
        let _ = pages;
    }

    /// Handles a failed write: each sector of the segment on the array is either old or new.
    fn write_failed(&mut self, seg: StripeSegment, array: &RaidArray) {
        let _ = (seg, array);
    }

    /// Plans a part of a write, or an [operation of its own](CacheOperations::open_own).
    fn plan_part(&mut self, op: OpId, part: Self::Part, array: &mut RaidArray, out: &mut Out) {
        let _ = (part, array);
        out.close(op);
    }

    /// Handles an event that belongs to no operation: the begin of a life, a timer of this cache, a changed device, or
    /// a command from outside. On [`Control::Drain`] the cache writes all acknowledged data back to the members and
    /// calls [`Out::drained`] when it has; a cache that holds only copies calls it at once.
    fn event(&mut self, event: Event<'_>, array: &mut RaidArray, out: &mut Out) {
        let _ = array;
        if let Event::Control(Control::Drain) = event {
            out.drained();
        }
    }

    /// Forgets the steps planned for the operation, which will not run. The operation is planned anew or ends.
    fn undone(&mut self, op: OpId) {
        let _ = op;
    }

    /// Handles the end of all steps of the operation.
    fn done(&mut self, op: OpId) {
        let _ = op;
    }

    /// Returns the cache's present status; called after every event.
    fn status(&self) -> HostCacheStatus<'_> {
        HostCacheStatus::default()
    }

    /// Counts the pages that were lost with the cache's device, and were not written since.
    fn lost_page_count(&self) -> usize {
        0
    }

    /// Returns these pages, ascending: requests for them fail until they are written.
    fn lost_pages(&self) -> Vec<PageRange> {
        Vec::new()
    }

    /// Returns the pages that writes past this cache have overwritten and that would be lost with its device all the same: the
    /// members may not have them durably.
    fn passed_pages(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Returns how much parity is stale.
    fn stale_parity(&self) -> StaleParity {
        StaleParity::default()
    }

    /// Returns the checksums that this cache keeps of the pages of its device.
    fn checksums(&self) -> Option<&PageChecksums> {
        None
    }

    /// Returns these checksums, to change them.
    fn checksums_mut(&mut self) -> Option<&mut PageChecksums> {
        None
    }

    /// Forgets what it holds in a page of its device that cannot be read, or is not what was written there, as far as the
    /// operation with this claim reads it. Returns what became of that; none if the operation needs nothing of it any
    /// more.
    fn forget_bad_page(&mut self, page: u64, op: OpId, claim: Option<Claim>) -> Option<BadCachePage> {
        let _ = (page, op, claim);
        None
    }

    /// Appends the cache's own [figures](crate::HostCacheInfo::figures), in their order.
    fn figures(&self, into: &mut Vec<u64>) {
        let _ = into;
    }
}

/// Reports what became of a page of a cache's device that cannot be read, or is not what was written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCachePage {
    /// Says what became of it.
    pub fate: PageFate,
    /// Counts the fills of frames when that of the page began: of one fill a page is reported once.
    pub fill: u32,
}

/// Reports the status of a cache.
#[derive(Clone, Copy, Debug)]
pub struct HostCacheStatus<'a> {
    /// The cache is in use: its device or NVRAM is there.
    pub is_caching: bool,
    /// Failed devices of the cache whose content a start would still trust.
    pub unnoted: DevSet,
    /// Counts the rows of which the cache's device alone has the newest version of a page.
    pub dirty_rows: usize,
    /// The cache keeps a record of pages that were lost with its device.
    pub notes_losses: bool,
    /// Is true if a start without the cache's device would be refused, for all that is noted.
    pub needs_device: bool,
    /// Hits and misses, if the cache counts them.
    pub counts: Option<&'a CacheCounts>,
}

impl Default for HostCacheStatus<'_> {
    /// Returns the status of a cache that is in use and has nothing to lose or to count.
    fn default() -> Self {
        Self {
            is_caching: true,
            unnoted: DevSet::EMPTY,
            dirty_rows: 0,
            notes_losses: false,
            needs_device: false,
            counts: None,
        }
    }
}

/// Counts the rows whose parity is stale.
#[derive(Clone, Copy, Debug, Default)]
pub struct StaleParity {
    /// Rows whose parity does not cover the newest version of their data.
    pub stale_rows: usize,
    /// Times that a cache that [delays parity](crate::HostCacheInfo::delays_parity) made the parity of a row stale.
    pub left_rows: u64,
}

/// Selects pages of a fragment that is read.
#[derive(Clone, Copy, Debug)]
pub struct ReadPages<'a> {
    /// The fragment.
    pub frag: &'a Frag,
    /// First page, counted within the fragment.
    pub from: u16,
    /// Number of pages.
    pub count: u16,
}

impl ReadPages<'_> {
    /// Returns the first page, counted within the array.
    pub const fn first(&self) -> u64 {
        self.frag.page + self.from as u64
    }

    /// Returns the buffer of a page of the fragment, where `dst` holds the fragment from its first page on. A fragment
    /// that is a part of a page has only that page.
    pub const fn in_fragment(&self, dst: Buf, page: u16) -> Buf {
        match dst {
            Buf::Host { frag, page: first } => Buf::Host { frag, page: first + page },
            other => other,
        }
    }
}

/// Names the planner of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestAdmission {
    /// The array, and the cache when it is [read](HostCache::read) or [written](HostCache::write).
    Array,
    /// The cache, which takes the write.
    Taken,
    /// None yet: the request waits for an earlier write.
    Waits,
}

/// Tells the cache how far a write has come when the cache plans its part.
#[derive(Clone, Copy, Debug)]
pub enum WriteStage<'a> {
    /// The array's part is planned. The cache's is planned in the same operation, or in
    /// [parts](CacheOperations::open_part) of it; if not at once, it calls [`CacheOperations::finish_write`].
    Planned(PlannedWrite<'a>),
    /// The pages that the cache [absorbs](destage_raid::array::WriteApproach::Absorbed) or
    /// [takes](destage_raid::array::TakenPages) are ready after the steps `after`. A cache that cannot plan this at once
    /// calls [`RaidArray::finish_absorbed`] later, unless the operation is planned anew before.
    Absorbed {
        /// The pages.
        pages: &'a AbsorbedPages,
        /// Steps after which the pages are ready.
        after: StepSet,
    },
    /// A write whose parity is left alone is to be [prepared](destage_raid::array::WriteApproach::Prepared) for. The cache
    /// calls [`RaidArray::finish_prepared`], now or later, unless the operation is planned anew before.
    Prepared {
        /// The fragment.
        frag: &'a Frag,
        /// Steps after which the rows' intent is set.
        intent: StepSet,
    },
}

impl<'a> WriteStage<'a> {
    /// Returns the write whose part on the array is planned. Of a cache that neither absorbs nor prepares there is no
    /// other stage.
    pub fn planned(self) -> PlannedWrite<'a> {
        let Self::Planned(write) = self else { unreachable!("a cache that absorbs or prepares says how") };
        write
    }
}

/// A write whose part on the array is planned.
#[derive(Clone, Copy, Debug)]
pub struct PlannedWrite<'a> {
    /// The fragment.
    pub frag: &'a Frag,
    /// The segment of it that is written.
    pub seg: StripeSegment,
    /// Steps after which the array's part is done.
    pub after: StepSet,
    /// Of a write smaller than a page: the page as it will be, after these steps.
    pub merged: Buf,
    /// Parts of it were opened already: it is planned anew because a member was lost.
    pub again: bool,
}
