//! Buffers inside an SSD, above its flash translation layer.
//!
//! These are too hot for plans: a [`Buffer`] answers each page access at once, and what must leave goes into the
//! caller's reused [`Evictions`]. Everything is statically dispatched; [`NoVeto`] and [`NoDevice`] compile away.
//!
//! How later policies fit: a multi-channel policy (CAVE, CAWR) writes one group per channel with `Wait::All`; `GCaR` is a
//! [`Veto`] around any buffer, which asks it at the point where its own scan would choose, and hears of the end of a
//! collection through [`Notice::GcEnd`].

mod bplru;
mod bypass;
mod clc;
mod clock;
mod evictions;
mod fab;
mod lb_clock;
mod lru;
mod max_tree;
mod padding;
mod page_bits;
mod params;
mod pud_lru;
mod registry;
mod size_set;

use destage_plan::PageNo;

pub use bplru::Bplru;
pub use bypass::Bypass;
pub use clc::Clc;
pub use clock::Clock;
pub use evictions::{Evictions, Group, Kind, Wait};
pub use fab::Fab;
pub use lb_clock::LbClock;
pub use lru::Lru;
pub use params::{ParamSpec, Params, PolicyError, PolicySpec};
pub use pud_lru::PudLru;
pub use registry::{EvictionUnit, PolicyInfo, Registered, Visitor, build, info, policies};

/// The size of a buffer and of the blocks it may group pages by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferConfig {
    /// Pages of data the buffer can hold, at least 1.
    pub capacity_pages: u32,
    /// Pages in a logical block; page `p` belongs to block `p / pages_per_block`.
    pub pages_per_block: u32,
}

/// One page access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The page.
    pub page: PageNo,
    /// A write makes the page dirty.
    pub write: bool,
}

impl Access {
    /// A read of `page`.
    pub const fn read(page: u32) -> Self {
        Self { page: PageNo(page), write: false }
    }

    /// A write of `page`.
    pub const fn write(page: u32) -> Self {
        Self { page: PageNo(page), write: true }
    }
}

/// What became of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The page was in the buffer.
    Hit,
    /// The page was not in the buffer and now is; a read still needs its data from flash.
    Inserted,
    /// The page was not in the buffer and is not now: the access goes to flash itself.
    Bypassed,
}

/// What the buffer is told beside accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Garbage collection on this element or channel has ended.
    GcEnd {
        /// Element or channel number, as [`DeviceView::unit_of`] counts them.
        unit: u32,
    },
    /// The device has nothing to do.
    Idle,
    /// Write back every dirty page. A page-level policy keeps the pages, now clean, and reports them as
    /// [`Kind::Clean`]; a write buffer gives its units up as in an eviction.
    Flush,
    /// The page's content is no longer needed: forget it, dirty or not. Reported as [`Kind::Drop`] if it was held.
    Trim {
        /// The page.
        page: PageNo,
    },
}

/// What a buffer may see of the device below it.
pub trait DeviceView {
    /// Elements (or channels) that collect garbage independently; 0 where there is no device.
    fn units(&self) -> u32;
    /// The unit that holds `page`, or would receive it.
    fn unit_of(&self, page: PageNo) -> u32;
    /// Whether the unit is collecting garbage now.
    fn collecting(&self, unit: u32) -> bool;
    /// The unit's free blocks.
    fn free_blocks(&self, unit: u32) -> u32;
}

/// No device below the buffer, or none that it may see.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDevice;

impl DeviceView for NoDevice {
    fn units(&self) -> u32 {
        0
    }
    fn unit_of(&self, _page: PageNo) -> u32 {
        0
    }
    fn collecting(&self, _unit: u32) -> bool {
        false
    }
    fn free_blocks(&self, _unit: u32) -> u32 {
        0
    }
}

/// What a policy is about to evict.
#[derive(Clone, Copy, Debug)]
pub enum Candidate<'a> {
    /// One page.
    Page(PageNo),
    /// All buffered pages of a block.
    Block {
        /// The block's first page.
        first: PageNo,
        /// Bit `i` of word `i / 64` says whether page `first + i` is buffered.
        cached: &'a [u64],
        /// The missing pages will be read and written too.
        padded: bool,
    },
}

/// What a policy does once every unit it could evict has been vetoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// Evict what it would have evicted without a veto.
    TakeBase,
    /// Evict nothing; the access bypasses the buffer.
    Bypass,
}

/// A say in each eviction, asked at the point where the policy's own scan would choose.
pub trait Veto {
    /// `false` where the veto can never object, so that its code vanishes.
    const ACTIVE: bool;
    /// Whether the policy must pass this candidate over and look on.
    fn passes_over(&mut self, candidate: Candidate<'_>) -> bool;
    /// Asked once all candidates were passed over.
    fn exhausted(&mut self) -> Exhausted;
}

/// Every candidate is welcome.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoVeto;

impl Veto for NoVeto {
    const ACTIVE: bool = false;
    #[inline]
    fn passes_over(&mut self, _candidate: Candidate<'_>) -> bool {
        false
    }
    #[inline]
    fn exhausted(&mut self) -> Exhausted {
        Exhausted::TakeBase
    }
}

/// A replacement policy over the pages of a buffer.
///
/// The order of work is that of specs §0.2: look up; on a miss that is admitted evict while nothing is free; insert;
/// apply the policy's own rules. `evict` comes before the insertion and may therefore choose the block that the page
/// belongs to.
pub trait Buffer {
    /// Makes room for the pages `0..pages`. The caller grows the page space before it names a page beyond it, in an access
    /// or in a notice.
    fn grow(&mut self, pages: u32);

    /// Accesses one page. What must leave for it is appended to `out`, which the caller empties.
    fn access<D: DeviceView, V: Veto>(
        &mut self,
        access: Access,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> Outcome;

    /// Tells the buffer what happened beside accesses.
    fn notify<D: DeviceView, V: Veto>(&mut self, notice: Notice, device: &D, veto: &mut V, out: &mut Evictions);

    /// Pages held; never more than the capacity.
    fn len(&self) -> u32;

    /// Whether nothing is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory accesses that the algorithm as published would have made (specs §5.6): one per list node, ring node or
    /// bit touched, counting lookups, moves, bit changes, hand steps and inspected candidates.
    fn memory_accesses(&self) -> u64;
}
