//! Buffers inside an SSD, above its flash translation layer.
//!
//! These are too hot for plans: a [`BufferPolicy`] answers each page access at once, and what must leave
//! goes into the caller's reused [`Evictions`]. Everything is statically dispatched; [`NoVeto`] and
//! [`NoDevice`] compile away.
//!
//! A policy that writes to several channels at once puts all pages of the multi-eviction into one
//! group ([`Evictions::spread`]). `GCaR` is a [`EvictionVeto`] around any buffer, which asks it at the
//! point where its own scan would choose, parks what was passed over, and takes it back upon
//! [`BufferNotice::Resume`].

mod block_buffer;
mod cave_blocks;
mod cawr_blocks;
mod error;
mod evictions;
mod foreign;
mod gate;
mod gcar;
mod layers;
mod list_buffer;
mod max_tree;
mod multi_eviction;
mod neighbours;
mod options;
mod padding;
mod page_bits;
mod page_lists;
mod parking;
mod policies;
mod queue_buffer;
mod queues;
mod registry;
mod scan_stop;
mod searched;
mod share;
mod size_set;

use destage_plan::{Element, PageNo};

pub use error::PolicyError;
pub use evictions::{EvictionGroup, EvictionKind, Evictions, FrameWait};
pub use foreign::{ChooserFailed, ForeignBuffer, ForeignPolicy, MakeChooser, PageChooser, VictimList};
pub use gcar::{GcCounters, Gcar};
pub use layers::{ComposedPolicy, LayerBase, LayerInfo};
pub use policies::policies;
pub use registry::{
    BuiltPolicy, EvictionUnit, PolicyInfo, PolicyVisitor, RegisteredPolicy, build, canonical, info, layers,
};

/// No block: what an eviction is for when no page comes in.
const NO_BLOCK: u32 = u32::MAX;

/// The size of a buffer and of the blocks it may group pages by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferConfig {
    /// Pages of data the buffer can hold, at least 1.
    pub capacity_pages: u32,
    /// Pages in a logical block; page `p` belongs to block `p / pages_per_block`.
    pub pages_per_block: u32,
    /// Elements of the device below, at least 1: those that a policy may write to, and whose
    /// collections a veto may tell apart.
    pub elements: u32,
}

/// One page access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageAccess {
    /// The page.
    pub page: PageNo,
    /// A write makes the page dirty.
    pub write: bool,
}

impl PageAccess {
    /// A read of `page`.
    pub const fn read(page: u32) -> Self {
        Self { page: PageNo(page), write: false }
    }

    /// A write of `page`.
    pub const fn write(page: u32) -> Self {
        Self { page: PageNo(page), write: true }
    }
}

/// Two blocks that lie beside each other in the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockBorder {
    /// The number of the block with the lower addresses.
    pub before: u32,
    /// The number of the block whose first page comes right after the last one of `before`.
    pub after: u32,
}

/// Says how an access ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessOutcome {
    /// The page was in the buffer.
    Hit,
    /// The page was not in the buffer and now is; a read still needs its data from flash.
    Inserted,
    /// The page was not in the buffer and is not now: the access goes to flash itself.
    Bypassed,
}

/// Lists the notices to a buffer beside accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferNotice {
    /// Garbage collection on this element has ended. Only a layer that avoids collections does
    /// anything; it tells the buffer inside what follows.
    GcEnd {
        /// The element.
        element: Element,
    },
    /// Asks to consider again the victims that an [`EvictionVeto`] passed over for this element.
    Resume {
        /// The element, as [`EvictionVeto::passes_over`] named it.
        element: Element,
    },
    /// Write back the unit (page or block) that holds this page, if it holds a dirty page; nothing
    /// happens if the page is not held.
    Destage {
        /// The page.
        page: PageNo,
        /// Keep the pages, now clean ([`EvictionKind::Clean`]), where the policy keeps clean pages;
        /// or else they leave as in an eviction.
        keep: bool,
    },
    /// The device has nothing to do.
    Idle,
    /// Write back every dirty page. A page-level policy keeps the pages, now clean, and reports
    /// them as [`EvictionKind::Clean`]; a write buffer gives its units up as in an eviction.
    Flush,
    /// The page's content is no longer needed: forget it, dirty or not. Reported as
    /// [`EvictionKind::Drop`] if it was held.
    Trim {
        /// The page.
        page: PageNo,
    },
}

/// Shows a buffer the device below it.
pub trait DeviceView {
    /// Returns the number of elements; 0 where there is no device.
    fn elements(&self) -> u32;
    /// The element that holds `page`, or would receive it.
    fn element_of(&self, page: PageNo) -> Element;
    /// The element to which `page` would be programmed: a function of its address, or `None` where
    /// each page can go to any element.
    fn destination(&self, page: PageNo) -> Option<Element>;
    /// Returns true if the element collects garbage now.
    fn collecting(&self, element: Element) -> bool;
    /// The element's free blocks.
    fn free_blocks(&self, element: Element) -> u32;
    /// Free blocks at or below which an element collects.
    fn low_watermark(&self) -> u32;
    /// Returns true if a buffer may choose the channel through which a page without a
    /// [`destination`](Self::destination) is programmed.
    fn takes_channels(&self) -> bool {
        true
    }
}

impl<T: DeviceView + ?Sized> DeviceView for &T {
    fn elements(&self) -> u32 {
        (**self).elements()
    }
    fn element_of(&self, page: PageNo) -> Element {
        (**self).element_of(page)
    }
    fn destination(&self, page: PageNo) -> Option<Element> {
        (**self).destination(page)
    }
    fn collecting(&self, element: Element) -> bool {
        (**self).collecting(element)
    }
    fn free_blocks(&self, element: Element) -> u32 {
        (**self).free_blocks(element)
    }
    fn low_watermark(&self) -> u32 {
        (**self).low_watermark()
    }
    fn takes_channels(&self) -> bool {
        (**self).takes_channels()
    }
}

/// No device below the buffer, or none that it may see.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDevice;

impl DeviceView for NoDevice {
    fn elements(&self) -> u32 {
        0
    }
    fn element_of(&self, _page: PageNo) -> Element {
        Element(0)
    }
    fn destination(&self, _page: PageNo) -> Option<Element> {
        None
    }
    fn collecting(&self, _element: Element) -> bool {
        false
    }
    fn free_blocks(&self, _element: Element) -> u32 {
        0
    }
    fn low_watermark(&self) -> u32 {
        0
    }
}

/// Names the victim that a policy is about to evict.
#[derive(Clone, Copy, Debug)]
pub enum EvictionCandidate<'a> {
    /// One page.
    Page {
        /// The page.
        page: PageNo,
        /// Is true if the victim would be programmed.
        dirty: bool,
    },
    /// All buffered pages of a block.
    Block {
        /// The block's first page.
        first: PageNo,
        /// Bit `i` of word `i / 64` says whether page `first + i` is buffered.
        cached: &'a [u64],
        /// The same of dirty pages.
        dirty: &'a [u64],
        /// The missing pages will be read and written too.
        padded: bool,
    },
}

/// Decides how a policy goes on once every possible victim has been vetoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenExhausted {
    /// Evict what it would have evicted without a veto.
    TakeBase,
    /// Evict nothing; the access bypasses the buffer.
    Bypass,
}

/// A say in each eviction, asked at the point where the policy's own scan would choose.
pub trait EvictionVeto {
    /// `false` where the veto can never object, so that its code vanishes.
    const ACTIVE: bool;
    /// The element for whose sake the policy must pass this candidate over and look on; `None` if
    /// it may leave. The objection holds until [`BufferNotice::Resume`] for that element, or until
    /// the candidate is accessed, loses a page to a trim, or is cleaned: till then the policy need
    /// not ask about it again. The number behind the last element may stand for all of them.
    fn passes_over(&mut self, candidate: EvictionCandidate<'_>) -> Option<Element>;
    /// Returns true if no page may be programmed through this channel now, for policies that choose the
    /// channel.
    fn avoids(&mut self, channel: u32) -> bool;
    /// Asked once all candidates were passed over.
    fn exhausted(&mut self) -> WhenExhausted;
}

/// Every candidate is welcome.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoVeto;

impl EvictionVeto for NoVeto {
    const ACTIVE: bool = false;
    #[inline]
    fn passes_over(&mut self, _candidate: EvictionCandidate<'_>) -> Option<Element> {
        None
    }
    #[inline]
    fn avoids(&mut self, _channel: u32) -> bool {
        false
    }
    #[inline]
    fn exhausted(&mut self) -> WhenExhausted {
        WhenExhausted::TakeBase
    }
}

/// A replacement policy over the pages of a buffer.
///
/// The order of work is that of specs §0.2: look up; on a miss that is admitted evict while nothing
/// is free; insert; apply the policy's own rules. `evict` comes before the insertion and may
/// therefore choose the block that the page belongs to.
///
/// A buffer is used with a veto from its first access on, or never: a policy need not keep for
/// [`NoVeto`] what it needs to take back in order what a veto passed over.
pub trait BufferPolicy {
    /// Makes room for the pages `0..pages`. The caller grows the page space before it names a page
    /// beyond it, in an access or in a notice.
    fn grow(&mut self, pages: u32);

    /// Reads what an access to this page looks at first, and returns anything made of it. Whoever
    /// knows the next accesses asks for some of them at once: the processor then fetches from
    /// memory for all of them together, where one access after the other would wait for each.
    #[inline]
    fn prefetch(&self, _page: PageNo) -> u32 {
        0
    }

    /// Names up to `most` pages that are likely to be the next to leave, for whoever wants to fetch
    /// ahead what that takes.
    #[inline]
    fn leaves_next(&self, _most: usize, _name: &mut impl FnMut(PageNo)) {}

    /// Returns true if the policy asks which page follows the last one of a block. Where blocks are not
    /// numbered by address, such a policy needs their borders.
    fn compares_addresses(&self) -> bool {
        false
    }

    /// Says which blocks lie beside each other. From the first call on, which comes before the
    /// first access, these and those named in earlier calls are the only ones; without a call
    /// blocks are numbered by address. The caller tells of a border before it accesses a page of
    /// the block that it numbered last, and each once.
    fn learn_borders(&mut self, borders: &[BlockBorder]) {
        let _ = borders;
    }

    /// Accesses one page. What must leave for it is appended to `out`, which the caller empties.
    fn access<D: DeviceView, V: EvictionVeto>(
        &mut self,
        access: PageAccess,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome;

    /// Gives up one victim, as for a page that is about to come in. Returns whether anything left;
    /// nothing does if the buffer is empty, or if every candidate is vetoed and the access shall
    /// bypass.
    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, device: &D, veto: &mut V, out: &mut Evictions) -> bool;

    /// Tells the buffer what happened beside accesses.
    fn notify<D: DeviceView, V: EvictionVeto>(
        &mut self,
        notice: BufferNotice,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    );

    /// Returns true if the access would let its page in, so that the page needs room: a miss that the policy
    /// admits.
    fn admits(&self, access: PageAccess) -> bool;

    /// Pages held; never more than the capacity.
    fn len(&self) -> u32;

    /// Is true if no page is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory accesses that the algorithm as published would have made (specs §5.6): one per list
    /// node, ring node or bit touched, counting lookups, moves, bit changes, hand steps and
    /// inspected candidates.
    fn memory_accesses(&self) -> u64;

    /// Returns true if the buffer wants each [`BufferNotice::GcEnd`].
    fn watches_collection(&self) -> bool {
        false
    }

    /// Returns the counts of avoided collections, if the buffer avoids any.
    fn gc_counters(&self) -> Option<GcCounters> {
        None
    }
}
