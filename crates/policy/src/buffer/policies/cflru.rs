//! CFLRU, clean-first LRU (Park et al., CASES 2006; LB-CLOCK §III; specs §4.3).
//!
//! Idea: of the pages at the LRU end, the window, the clean ones leave first, since they need no
//! write: the victim is the least recently used clean page of the window, or the least recently
//! used page if the window has no clean one.
//!
//! Parameters: `window`, the window as a share of the capacity (0.5), rounded up to pages, or
//! `adaptive`: the share begins at 0.5 and after every `period` evictions moves on by `step`, in
//! the same direction as before if the cost of replacement per access was not above that of the
//! period before, in the other one if it was. The cost is one for each page that had to be read
//! from flash and `write_cost` for each dirty victim; `reads`.
//!
//! Resolved, since the original says of its window only that it follows the hits in the working
//! region: the share first grows and stays between 0 and 1; costs are compared per access, because
//! a period of evictions has as many misses whatever the window, but not as many accesses;
//! `write_cost` is 8, as 200 µs to 25 µs in `GCaR`'s Table 2; a period is as many evictions as the
//! buffer has pages, so that a change can show its effect. Write-backs and trims are no evictions.
//! LB-CLOCK's "when all the pages in the eviction region are clean, the victim is selected in LRU
//! order" says the same as this rule. Under a veto pages that are passed over still count for the
//! window; once its clean pages are vetoed all pages are candidates from the LRU end on, those
//! beyond the window too.
//!
//! Memory accesses: the lookup and the move to the front, one each; for a victim every page that a
//! search for a clean one inspects, itself included, and where it finds none the page at the LRU
//! end. A veto adds none.
//!
//! The search does not go over the window each time: the dirty pages at the LRU end, which it met
//! before, are known and counted, and it begins behind them, so that it is O(1) amortised.

use destage_plan::{ParamSpec, Params};

use crate::buffer::list_buffer::{BufferedPages, ListPolicy, OWN_MARK, RECENT};
use crate::buffer::options::READS;
use crate::buffer::page_lists::{ListFrame, PageLists};
use crate::buffer::searched::SearchedPart;
use crate::buffer::share;
use crate::buffer::{BufferConfig, EvictionUnit, PageAccess, PolicyError, PolicyInfo};

/// The turns of a search under a veto: for clean pages of the window, and for any page.
const OF_CLEAN: usize = 0;

/// The largest write cost, in reads.
const MOST_READS: u32 = 1_000_000;

/// Adapts the window to the cost of evictions.
#[derive(Clone, Debug)]
struct WindowAdaptation {
    /// Evictions in a period.
    period: u32,
    /// Sets the change of the share after each period.
    step: u32,
    /// Sets the cost of a dirty victim, in pages read.
    write_cost: u64,
    /// The share now.
    share: u32,
    grows: bool,
    evictions: u32,
    /// Of this period.
    cost: u64,
    accesses: u64,
    /// Cost and accesses of the last period.
    last: Option<(u64, u64)>,
}

impl WindowAdaptation {
    /// Counts an eviction; returns whether the share has changed.
    fn evicted(&mut self, dirty: bool) -> bool {
        self.cost += if dirty { self.write_cost } else { 0 };
        self.evictions += 1;
        if self.evictions < self.period {
            return false;
        }
        if let Some((cost, accesses)) = self.last {
            let (now, before) =
                (u128::from(self.cost) * u128::from(accesses), u128::from(cost) * u128::from(self.accesses));
            // The fractions are compared by products, so that the direction is exact.
            self.grows ^= now > before;
        }
        self.last = Some((self.cost, self.accesses));
        (self.evictions, self.cost, self.accesses) = (0, 0, 0);
        self.share =
            if self.grows { (self.share + self.step).min(share::WHOLE) } else { self.share.saturating_sub(self.step) };
        true
    }
}

/// Clean-first LRU.
#[derive(Clone, Debug)]
pub(super) struct Cflru {
    capacity: u32,
    /// Pages in the window, or the capacity if there are fewer.
    window: u32,
    adaptation: Option<WindowAdaptation>,
    /// Dirty pages that the published search has met.
    dirty: SearchedPart,
}

const WINDOW: ParamSpec = ParamSpec {
    name: "window",
    default: "0.5",
    values: "a share of the capacity from 0 to 1 with up to six decimals, or adaptive",
    unit: "share of the capacity",
    help: "the pages at the LRU end of which clean ones leave first",
};

const PERIOD: ParamSpec = ParamSpec {
    name: "period",
    default: "capacity",
    values: "capacity, or a number of evictions from 1",
    unit: "evictions",
    help: "after how many evictions an adaptive window moves",
};

const STEP: ParamSpec = ParamSpec {
    name: "step",
    default: "0.05",
    values: "a share of the capacity from 0 to 1 with up to six decimals",
    unit: "share of the capacity",
    help: "how far an adaptive window moves",
};

const WRITE_COST: ParamSpec = ParamSpec {
    name: "write_cost",
    default: "8",
    values: "a number of reads from 0 to 1000000",
    unit: "reads",
    help: "what writing a page costs for an adaptive window (GCaR's Table 2: 200 µs to 25 µs)",
};

impl ListPolicy for Cflru {
    const INFO: PolicyInfo = PolicyInfo {
        name: "cflru",
        title: "LRU that gives up clean pages of a window first",
        about: "LRU that spares writes: of the pages at the end of the list, the window, the least recently used \
                clean one leaves, and only if there is none the least recently used page. The window is a fixed \
                share of the buffer, or adapts to what replacements cost.",
        paper: "CFLRU, CASES 2006, as described by GCaR and LB-CLOCK",
        year: 2006,
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS, WINDOW, PERIOD, STEP, WRITE_COST],
    };

    const TURNS: &'static [u32] = &[RECENT, RECENT];

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let capacity = config.capacity_pages;
        let period = match params.text(PERIOD.name) {
            "capacity" => capacity,
            _ => params.number(PERIOD.name, 1..)?,
        };
        let step = share::parse(params.text(STEP.name)).ok_or_else(|| params.refuse(STEP.name))?;
        let write_cost = params.number(WRITE_COST.name, ..=MOST_READS)?;
        let (is_adaptive, share) = match params.text(WINDOW.name) {
            "adaptive" => (true, share::WHOLE / 2),
            text => (false, share::parse(text).ok_or_else(|| params.refuse(WINDOW.name))?),
        };
        Ok(Self {
            capacity,
            window: share::of(share, capacity),
            adaptation: is_adaptive.then_some(WindowAdaptation {
                period,
                step,
                write_cost: write_cost.into(),
                share,
                grows: true,
                evictions: 0,
                cost: 0,
                accesses: 0,
                last: None,
            }),
            dirty: SearchedPart::new(RECENT, OWN_MARK),
        })
    }

    #[inline]
    fn note_access(&mut self, access: PageAccess, is_hit: bool) {
        if let Some(adaptation) = &mut self.adaptation {
            adaptation.accesses += 1;
            // A read miss costs a read of flash, which is the unit of the cost.
            adaptation.cost += u64::from(!is_hit && !access.write);
        }
    }

    #[inline]
    fn leave_place(&mut self, lists: &mut PageLists, frame: u32) {
        self.dirty.remove(lists, frame);
    }

    fn cleaned(&mut self, lists: &mut PageLists, frame: u32) {
        self.dirty.retreat(lists, frame);
    }

    #[inline]
    fn published_victim(&mut self, pages: &mut BufferedPages) -> Option<u32> {
        while self.dirty.len() < self.window {
            let Some(frame) = self.dirty.next(&pages.lists) else { break };
            if !pages.lists.frame(frame).dirty {
                // The published search visits the dirty pages as well.
                pages.memory_accesses += u64::from(self.dirty.len()) + 1;
                return Some(frame);
            }
            // Dirty pages of the window are met once, not at each eviction.
            self.dirty.add(&mut pages.lists, frame);
        }
        let last = pages.lists.least_recent(RECENT)?;
        self.count_vain_search(pages);
        Some(last)
    }

    #[inline]
    fn note_eviction(&mut self, pages: &mut BufferedPages, frame: u32) {
        if let Some(adaptation) = &mut self.adaptation
            && adaptation.evicted(pages.lists.frame(frame).dirty)
        {
            self.window = share::of(adaptation.share, self.capacity);
        }
    }

    #[inline]
    fn may_leave(&self, turn: usize, frame: &ListFrame) -> bool {
        turn != OF_CLEAN || !frame.dirty
    }

    #[inline]
    fn reach(&self, turn: usize) -> u32 {
        if turn == OF_CLEAN { self.window } else { u32::MAX }
    }

    #[inline]
    fn chosen(&mut self, pages: &mut BufferedPages, turn: usize, _frame: u32) {
        if turn == OF_CLEAN {
            pages.memory_accesses += u64::from(pages.passed(OF_CLEAN)) + 1;
        } else {
            self.count_vain_search(pages);
        }
    }
}

impl Cflru {
    /// Counts a search that went over the window in vain, and the page at the LRU end.
    #[inline]
    fn count_vain_search(&self, pages: &mut BufferedPages) {
        pages.memory_accesses += u64::from(self.window.min(pages.lists.len())) + 1;
    }
}
