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

mod vetoes;

use destage_plan::{PageNo, ParamSpec, Params};

use self::vetoes::Vetoes;
use super::options::{READS, caches_reads};
use super::page_lists::PageLists;
use super::parking::Linked as _;
use super::searched::Searched;
use super::share;
use super::{
    Access, AccessOutcome, Buffer, BufferConfig, BufferNotice, DeviceView, EvictionKind, EvictionUnit, Evictions,
    PolicyError, PolicyInfo, Registered, Veto,
};

/// The one list.
const LIST: u32 = 0;

/// The mark of the searched pages that are dirty.
const DIRTY: u16 = 2;

/// The largest write cost, in reads.
const MOST_READS: u32 = 1_000_000;

/// What moves the window.
#[derive(Clone, Debug)]
struct Adaptation {
    /// Evictions in a period.
    period: u32,
    /// What the share changes by after each.
    step: u32,
    /// What a dirty victim costs, in pages read.
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

impl Adaptation {
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
pub struct Cflru {
    pages: PageLists,
    capacity: u32,
    cache_reads: bool,
    /// Pages in the window, or the capacity if there are fewer.
    window: u32,
    adaptation: Option<Adaptation>,
    /// Dirty pages.
    dirty: Searched,
    vetoes: Vetoes,
    memory_accesses: u64,
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

impl Registered for Cflru {
    const INFO: PolicyInfo = PolicyInfo {
        name: "cflru",
        title: "LRU that gives up clean pages of a window first",
        about: "LRU that spares writes: of the pages at the end of the list, the window, the least recently used \
                clean one leaves, and only if there is none the least recently used page. The window is a fixed \
                share of the buffer, or adapts to what replacements cost.",
        paper: "CFLRU, CASES 2006, as described by GCaR and LB-CLOCK",
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS, WINDOW, PERIOD, STEP, WRITE_COST],
    };

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
            pages: PageLists::new(1),
            capacity,
            cache_reads: caches_reads(params)?,
            window: share::of(share, capacity),
            adaptation: is_adaptive.then_some(Adaptation {
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
            dirty: Searched::new(LIST, DIRTY),
            vetoes: Vetoes::default(),
            memory_accesses: 0,
        })
    }
}

impl Cflru {
    /// The frame is about to leave its place.
    #[inline]
    fn leave_place(&mut self, frame: u32) {
        if self.pages.frame(frame).tag != 0 {
            self.dirty.remove(&mut self.pages, frame);
            self.vetoes.forget(&mut self.pages, frame);
        }
    }

    /// The page became clean in its place.
    fn cleaned(&mut self, frame: u32) {
        self.dirty.retreat(&mut self.pages, frame);
        self.vetoes.cleaned(&mut self.pages, frame);
    }

    /// The published search.
    #[inline]
    fn search(&mut self) -> Option<u32> {
        while self.dirty.len() < self.window {
            let Some(frame) = self.dirty.next(&self.pages) else { break };
            if !self.pages.frame(frame).dirty {
                self.memory_accesses += u64::from(self.dirty.len()) + 1;
                return Some(frame);
            }
            self.dirty.add(&mut self.pages, frame);
        }
        self.count_vain_search();
        Some(self.pages.prev(LIST)).filter(|&last| last != LIST)
    }

    /// Counts a search that went over the window in vain, and the page at the LRU end.
    #[inline]
    fn count_vain_search(&mut self) {
        self.memory_accesses += u64::from(self.window.min(self.pages.len())) + 1;
    }

    /// The frame to give up, or `None` if every page is vetoed and the access shall bypass, or none
    /// is held.
    #[inline]
    fn victim<V: Veto>(&mut self, veto: &mut V) -> Option<u32> {
        if self.pages.len() == 0 {
            return None;
        }
        if V::ACTIVE { self.victim_under(veto) } else { self.search() }
    }

    /// Takes the page of `frame` out.
    #[inline]
    fn give_up(&mut self, frame: u32, out: &mut Evictions) {
        self.leave_place(frame);
        self.pages.give_up(frame, out);
    }
}

impl Buffer for Cflru {
    fn grow(&mut self, pages: u32) {
        self.pages.grow(pages);
    }

    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        self.pages.prefetch(page)
    }

    #[inline]
    fn leaves_next(&self, most: usize, name: &mut impl FnMut(PageNo)) {
        self.pages.oldest_first(LIST).take(most).for_each(name);
    }

    #[inline]
    fn access<D: DeviceView, V: Veto>(
        &mut self,
        access: Access,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        let frame = self.pages.find(access.page);
        if let Some(adaptation) = &mut self.adaptation {
            adaptation.accesses += 1;
            adaptation.cost += u64::from(frame == 0 && !access.write);
        }
        if frame != 0 {
            self.memory_accesses += 2;
            self.leave_place(frame);
            self.pages.frame_mut(frame).dirty |= access.write;
            self.pages.move_to_front(LIST, frame);
            return AccessOutcome::Hit;
        }
        self.memory_accesses += 1;
        if !access.write && !self.cache_reads {
            return AccessOutcome::Bypassed;
        }
        if self.pages.len() == self.capacity && !self.evict(device, veto, out) {
            return AccessOutcome::Bypassed;
        }
        self.memory_accesses += 1;
        self.pages.insert(LIST, access.page, access.write);
        AccessOutcome::Inserted
    }

    #[inline]
    fn evict<D: DeviceView, V: Veto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        let Some(frame) = self.victim(veto) else { return false };
        if let Some(adaptation) = &mut self.adaptation
            && adaptation.evicted(self.pages.frame(frame).dirty)
        {
            self.window = share::of(adaptation.share, self.capacity);
        }
        self.give_up(frame, out);
        true
    }

    fn notify<D: DeviceView, V: Veto>(
        &mut self,
        notice: BufferNotice,
        _device: &D,
        _veto: &mut V,
        out: &mut Evictions,
    ) {
        match notice {
            BufferNotice::GcEnd { .. } | BufferNotice::Idle => {}
            BufferNotice::Resume { element } => self.vetoes.resume(&mut self.pages, element),
            BufferNotice::Destage { page, keep } => {
                if let Some(frame) = self.pages.dirty_frame(page) {
                    if keep {
                        self.pages.clean(frame, out);
                        self.cleaned(frame);
                    } else {
                        self.give_up(frame, out);
                    }
                }
            }
            BufferNotice::Flush => {
                let mut at = LIST;
                while let Some((frame, page)) = self.pages.next_cleaned(LIST, at) {
                    out.page(EvictionKind::Clean, page);
                    self.cleaned(frame);
                    at = frame;
                }
            }
            BufferNotice::Trim { page } => {
                if let Some(frame) = self.pages.trimmed_frame(page) {
                    self.give_up(frame, out);
                }
            }
        }
    }

    fn admits(&self, access: Access) -> bool {
        self.pages.find(access.page) == 0 && (access.write || self.cache_reads)
    }

    fn len(&self) -> u32 {
        self.pages.len()
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }
}
