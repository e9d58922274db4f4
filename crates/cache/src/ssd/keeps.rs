//! Defines how a cache keeps the version that the parity covers beside the newer one. This is where the caches
//! that [defer parity](super::delayed) differ.

use destage_plan::{Column, Frag, NvHeld, OpId, Out, Params, Row, StepNo, StepOutcome, StepSet};
use destage_raid::array::{RaidArray, VersionSource};

use super::behind::{ReclaimableFrames, StaleRows};
use super::copies::{CopyCache, FrameReader};
use super::frames::{FrameNo, FrameTable};
use super::journal;
use super::write_through::ThroughRule;
use crate::{CacheOperations, HostCacheError, WriteStage};

/// Pages of a write whose parity is left behind, at most: an operation has 64 steps.
// A page may take up to four steps: a read, an encode, an NVRAM put and a write.
pub(super) const MOST_PAGES: usize = 16;

/// A page that is written, with the frame that the cache finds it by if there is one.
#[derive(Clone, Copy)]
pub(crate) struct KnownPage {
    pub(super) row: Row,
    pub(super) column: Column,
    pub(super) page: u64,
    pub(super) frame: Option<FrameNo>,
}

/// Names what an operation of the cache's own, or a part of a write, does.
#[derive(Clone, Copy)]
pub(crate) enum DeferredTask<K> {
    /// Writes pages of a fragment to the cache.
    Fill(Frag),
    /// Reports what is in the cache.
    Journal(journal::JournalTask),
    /// Trims what became free.
    Trim,
    /// Does work of the [`ParityBase`].
    Kept(K),
}

impl<K> From<Frag> for DeferredTask<K> {
    fn from(frag: Frag) -> Self {
        Self::Fill(frag)
    }
}

/// Identifies how the cache holds a page.
#[derive(Clone, Copy)]
pub(crate) enum PageHome {
    /// By this frame.
    Frame(FrameNo),
    /// In no frame: a stale page of which it has something else.
    Bare(u64),
}

/// Describes what a [`ParityBase`] can do.
#[derive(Clone, Copy)]
pub(crate) struct KeepsRules {
    /// Is true if the version that the parity covers can be kept for pages in no frame as well. Such writes are
    /// [prepared](WriteStage::Prepared) before the members are written.
    pub(super) prepares: bool,
    /// Pages that are read come into frames.
    pub(super) admits_reads: bool,
    /// So many pages of a row, the stale ones among them, may be made of a page and a delta when all of the row are
    /// read: what else is so is taken from its member.
    pub(super) most_made: u32,
}

impl Default for KeepsRules {
    fn default() -> Self {
        // The defaults are those of `leavo`, which keeps whole pages side by side.
        Self { prepares: false, admits_reads: true, most_made: u32::MAX }
    }
}

/// Reports what is planned for a write whose parity may stay stale.
pub(crate) enum KeptWrite {
    /// Nothing: it is not kept.
    Not,
    /// Enters the cache after these steps.
    After(StepSet),
    /// Not all yet: what its [stage](WriteStage) names is called later.
    Later,
}

/// Says why the parity of pages that are written is not left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepRefusal {
    /// Reports that the cache has no room for them.
    NoRoom,
    /// Reports that some are not in the cache, or that they are too many for one operation or one row.
    AsItIs,
}

/// Keeps the version that the parity covers of a page beside the newer one.
pub(crate) trait ParityBase: FrameReader + Send + Sized + 'static {
    /// Names what an operation of its own does.
    type Part: Copy + Send;

    /// For a cache of these frames, over an array of so many data columns.
    fn new(frames: &mut FrameTable, columns: u32, params: &Params) -> Result<Self, HostCacheError>;

    /// Returns what this implementation can do.
    fn rules(&self) -> KeepsRules {
        KeepsRules::default()
    }

    /// Of an earlier life: whether the slot is one of its own.
    fn load(&mut self, held: &NvHeld<'_>) -> bool {
        let _ = held;
        false
    }

    /// Has what is written of these pages kept beside what the parity covers. All are in frames unless it
    /// [prepares](KeepsRules::prepares).
    ///
    /// # Errors
    /// If there is no room for all of them, or they cannot be kept: nothing is then. They may be tried anew one by one.
    fn keep(
        &mut self,
        op: OpId,
        pages: &[KnownPage],
        copies: &mut CopyCache<ThroughRule>,
        behind: &mut StaleRows,
    ) -> Result<(), KeepRefusal>;

    /// Counts pages that are written with their parity for want of room.
    fn count_no_room(&mut self, pages: u16);

    /// Gives up what an operation was to keep.
    fn drop_work(&mut self, op: OpId, copies: &mut CopyCache<ThroughRule>);

    /// Notes that a planned write did not reach a page's member, after [`drop_work`](Self::drop_work).
    fn unwritten(&mut self, page: u64) {
        let _ = page;
    }

    /// Plans how what is [kept](Self::keep) of a write comes into the cache, or what has to be done before it is
    /// written.
    fn write(
        &mut self,
        op: OpId,
        stage: WriteStage<'_>,
        copies: &mut CopyCache<ThroughRule>,
        array: &mut RaidArray,
        out: &mut Out,
    ) -> KeptWrite;

    /// Returns true if a page that is written with its parity enters a frame, or stays in its own.
    fn admits(&mut self, page: u64, frames: &FrameTable) -> bool {
        let _ = (page, frames);
        true
    }

    /// Plans an operation of its own.
    fn plan_part(
        &mut self,
        op: OpId,
        part: Self::Part,
        copies: &mut CopyCache<ThroughRule>,
        array: &mut RaidArray,
        out: &mut Out,
    );

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
    fn done(&mut self, op: OpId, copies: &mut CopyCache<ThroughRule>, behind: &mut StaleRows);

    /// Begins what is due.
    fn turn(
        &mut self,
        copies: &mut CopyCache<ThroughRule>,
        behind: &StaleRows,
        array: &mut RaidArray,
        operations: &mut CacheOperations<DeferredTask<Self::Part>>,
        out: &mut Out,
    ) {
        let _ = (copies, behind, array, operations, out);
    }

    /// Frames that are owed.
    fn owed(&self, frames: &FrameTable) -> ReclaimableFrames<'_>;

    /// Returns the source of the newest version of a page.
    fn newest(&self, frame: FrameNo, frames: &FrameTable) -> VersionSource;

    /// Returns the source of the version that the parity covers of a stale page.
    fn covered_source(&self, home: PageHome, frames: &FrameTable) -> VersionSource;

    /// An operation reads all versions of a page.
    fn uses(&mut self, op: OpId, home: PageHome, frames: &mut FrameTable);

    /// An operation reads nothing any more.
    fn released(&mut self, op: OpId, frames: &mut FrameTable);

    /// The parity covers the newest version of a page that was stale, which has just been written if `written`.
    fn covered(&mut self, home: PageHome, written: bool, frames: &mut FrameTable);

    /// Returns the pages that an operation writes, and of which it is to keep what the parity covers.
    fn written_by(&self, op: OpId) -> Vec<(Row, Column)> {
        let _ = op;
        Vec::new()
    }

    /// Returns true if it keeps something of a page in this frame, besides what the page is found by.
    fn is_kept_in(&self, home: PageHome, frame: FrameNo, frames: &FrameTable) -> bool;

    /// Forgets what it keeps of a page, besides what is in the frame that the page is found by, and beside that.
    fn forget(&mut self, home: PageHome, frames: &mut FrameTable) {
        let _ = (home, frames);
    }

    /// The device is lost, with all that it held.
    fn lose(&mut self, frames: &mut FrameTable) {
        let _ = frames;
    }

    /// Returns true if no work is left.
    fn is_clean(&self) -> bool {
        true
    }

    /// Appends its counters, after [`CLEANED`](super::delayed::CLEANED).
    fn figures(&self, into: &mut Vec<u64>);
}
