//! What a host cache decides, and what it is asked and tells for that.

use destage_plan::{Buf, Control, DevSet, DeviceChange, Event, Frag, NvHeld, OpId, Out, StepNo, StepOutcome, StepSet};
use destage_raid::array::{Absorbed, Array, Degraded, Lost, Seg, Versions};

use crate::CacheCounts;
use crate::Operations;

/// What a host cache decides, over what every cache shares ([`Tier`](crate::Tier)). What a method does unless a
/// cache has it otherwise is what an array without a cache does. Where versions of pages are, if not
/// on the members, it says as [`Versions`].
pub trait HostCache: Versions + Send + 'static {
    /// What a part of a write is for.
    type Part: Copy + Send;

    /// Pages that one operation of a read looks up at most: it has 64 steps.
    const READ_PAGES: u16 = u16::MAX;

    /// Devices answer no more, at the start or from now on, or one stands in the place of another, of which nothing
    /// is known. Members among them are the array's concern.
    fn device_changed(&mut self, devs: DevSet, change: DeviceChange) {
        let _ = (devs, change);
    }

    /// An event was handled, by whomever: what is due is begun (specs §8.10.7).
    fn turn(&mut self, array: &mut Array, operations: &mut Operations<Self::Part>, out: &mut Out) {
        let _ = (array, operations, out);
    }

    /// Takes a slot of the NVRAM that was in use when this life began, by its tag; whether it is its
    /// own and understood, and has as many bytes as that takes. If not, the start is refused.
    fn load(&mut self, held: &NvHeld, page_bytes: u32) -> bool {
        let _ = (held, page_bytes);
        false
    }

    /// Lets a read, write or discard in, or not. If it takes a write, it opens the operations that have it
    /// [take](Operations::open_taken) all of its pages, now or later. A read or discard of pages of a write that has
    /// not [entered](Operations::entered) waits, and is submitted again when that has.
    fn submit(
        &mut self,
        frag: &Frag,
        array: &mut Array,
        operations: &mut Operations<Self::Part>,
        out: &mut Out,
    ) -> RequestAdmission {
        let _ = (frag, array, operations, out);
        RequestAdmission::Array
    }

    /// A step that it asked to be told of is done; whether it was one.
    fn step_done(&mut self, op: OpId, step: StepNo, outcome: StepOutcome, out: &Out) -> bool {
        let _ = (op, step, outcome, out);
        false
    }

    /// Plans the read of some pages of a fragment; the steps after which they are in `dst`. Plans
    /// nothing if it fails: the pages are then read segment by segment.
    fn read(
        &mut self,
        op: OpId,
        pages: Pages<'_>,
        dst: Buf,
        array: &mut Array,
        out: &mut Out,
    ) -> Result<StepSet, Degraded> {
        array.plan_read(op, pages.first(), pages.count, pages.in_fragment(dst, pages.from), out)
    }

    /// Plans the read of a segment of an array that has lost a member; the steps after which its
    /// pages are in `dst`, which is for the fragment from its first page on.
    fn read_segment(
        &mut self,
        op: OpId,
        frag: &Frag,
        seg: Seg,
        dst: Buf,
        array: &mut Array,
        out: &mut Out,
    ) -> Result<StepSet, Lost>
    where
        Self: Sized,
    {
        array.plan_read_seg(op, seg, frag.page, dst, self, out)
    }

    /// Plans the cache's part in a write, which is as far as `stage` says; the steps after which the operation has
    /// done that. None if it has to know more before all is planned: it calls what the [stage](WriteStage) names then.
    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        array: &mut Array,
        operations: &mut Operations<Self::Part>,
        out: &mut Out,
    ) -> Option<StepSet> {
        let _ = (op, array, operations, out);
        Some(stage.planned().after)
    }

    /// A write has failed: nothing is known of what the array holds of the segment beyond its being
    /// old or new sector by sector.
    fn write_failed(&mut self, seg: Seg, array: &Array) {
        let _ = (seg, array);
    }

    /// Plans a part of a write, or an [operation of its own](Operations::open_own).
    fn plan_part(&mut self, op: OpId, part: Self::Part, array: &mut Array, out: &mut Out) {
        let _ = (part, array);
        out.close(op);
    }

    /// Something happened that is nobody's operation: a life begins, a timer of its own is due, a
    /// device changed, an order came from outside. If that is to [drain](Control::Drain), what was answered so far is
    /// written back to the members at once, and [`Out::drained`] says when it is there, or what can be of it: a cache
    /// that holds copies alone says so now.
    fn event(&mut self, event: Event<'_>, array: &mut Array, out: &mut Out) {
        let _ = array;
        if let Event::Control(Control::Drain) = event {
            out.drained();
        }
    }

    /// What is planned of the operation will not come about. Either it is planned anew or it ends.
    fn undone(&mut self, op: OpId) {
        let _ = op;
    }

    /// All steps of the operation are done.
    fn done(&mut self, op: OpId) {
        let _ = op;
    }

    /// Returns how the cache is now. It is asked after every event.
    fn status(&self) -> HostCacheStatus<'_> {
        HostCacheStatus::default()
    }

    /// Returns how far parity is behind what the cache was given.
    fn stale_parity(&self) -> StaleParity {
        StaleParity::default()
    }

    /// The cache's own [figures](crate::HostCacheInfo::figures), in their order.
    fn figures(&self, into: &mut Vec<u64>) {
        let _ = into;
    }
}

/// How a cache is at some moment.
#[derive(Clone, Copy, Debug)]
pub struct HostCacheStatus<'a> {
    /// It is in use: what it needs is there.
    pub is_caching: bool,
    /// Devices of its own that failed, and of which a start would believe what they held.
    pub unnoted: DevSet,
    /// It keeps a note of pages that were lost with a device of its own.
    pub notes_losses: bool,
    /// What it had, if it keeps account of that.
    pub counts: Option<&'a CacheCounts>,
}

impl Default for HostCacheStatus<'_> {
    /// In use, without anything that could be lost or counted.
    fn default() -> Self {
        Self { is_caching: true, unnoted: DevSet::EMPTY, notes_losses: false, counts: None }
    }
}

/// How far parity is behind data.
#[derive(Clone, Copy, Debug, Default)]
pub struct StaleParity {
    /// Rows whose parity does not cover the newest version of their data.
    pub stale_rows: usize,
    /// How often a cache that [delays parity](crate::HostCacheInfo::delays_parity) left that of a row behind data that
    /// it had covered so far.
    pub left_rows: u64,
}

/// Some pages of a fragment that are read.
#[derive(Clone, Copy, Debug)]
pub struct Pages<'a> {
    /// The fragment.
    pub frag: &'a Frag,
    /// The first of them, in the fragment.
    pub from: u16,
    /// How many.
    pub count: u16,
}

impl Pages<'_> {
    /// The first of them, in the array.
    pub const fn first(&self) -> u64 {
        self.frag.page + self.from as u64
    }

    /// Where a page of the fragment goes, if `dst` is for the fragment from its first page on. A
    /// fragment that is a part of a page has only the one.
    pub const fn in_fragment(&self, dst: Buf, page: u16) -> Buf {
        match dst {
            Buf::Host { frag, page: first } => Buf::Host { frag, page: first + page },
            other => other,
        }
    }
}

/// Who plans a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestAdmission {
    /// The array, and the cache when it is [read](HostCache::read) or [written](HostCache::write).
    Array,
    /// The cache, which takes the write.
    Taken,
    /// Nobody yet: it waits for an earlier write.
    Waits,
}

/// How far a write is when the cache plans its part.
#[derive(Clone, Copy, Debug)]
pub enum WriteStage<'a> {
    /// The array's part is planned. The cache's is planned in the same operation, or in
    /// [parts](Operations::open_part) of it; if not at once, it calls [`Operations::finish_write`].
    Planned(Write<'a>),
    /// What is [absorbed](destage_raid::array::Approach::Absorbed) or [taken](destage_raid::array::Taken) is there after the steps `after`,
    /// and the cache takes it. If not at once, it calls [`Array::finish_absorbed`], unless the operation is planned
    /// anew before.
    Absorbed {
        /// The pages.
        pages: &'a Absorbed,
        /// When these are done, the pages are there.
        after: StepSet,
    },
    /// A write whose parity is left alone is to be [prepared](destage_raid::array::Approach::Prepared) for. The cache
    /// calls [`Array::finish_prepared`], now or later, unless the operation is planned anew before.
    Prepared {
        /// The fragment.
        frag: &'a Frag,
        /// When these are done, the rows' intent is set.
        intent: StepSet,
    },
}

impl<'a> WriteStage<'a> {
    /// Returns the write whose part on the array is planned. Of a cache that neither absorbs nor prepares there is no
    /// other stage.
    pub fn planned(self) -> Write<'a> {
        let Self::Planned(write) = self else { unreachable!("a cache that absorbs or prepares says how") };
        write
    }
}

/// A write whose part on the array is planned.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The fragment.
    pub frag: &'a Frag,
    /// What of it.
    pub seg: Seg,
    /// When these are done, so is the array's part.
    pub after: StepSet,
    /// Of a write smaller than a page: the page as it will be, after these steps.
    pub merged: Buf,
    /// Whether parts of it were opened already: it is planned anew, since a member was lost.
    pub again: bool,
}
