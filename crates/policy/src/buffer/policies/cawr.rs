//! CAWR, channel-aware write reordering, over pages (Wang et al., ETRI Journal 2015, §IV; specs
//! §6.4).
//!
//! Idea: the working list gives hot dirty pages a second chance; what leaves it is reordered before
//! it is written. Clean pages go to the cold clean list and leave first. Cold dirty pages are put
//! into one of C cold dirty lists, one for each channel: behind the page that they follow, or else
//! into an empty list. When no list is empty the LRU page of each is programmed through the list's
//! channel, all at the same time: pages that follow each other end in one channel, and all channels
//! are busy.
//!
//! Parameters: `cdl_max`, the most pages in a cold dirty list (4, the paper's example; 4 to 16 in
//! the paper); `cawr_seq`, what following means: the page after the MRU one of the list (`tail`), a
//! neighbour of any page of the list (`any`), both of which satisfy Fig. 4 and go by addresses,
//! whatever the numbers of blocks ("without designating the block borders"), or being of the same
//! logical block (`same_block`, the paper's rule for FTLs that map blocks); `cawr_new_clean_to`,
//! where read misses enter: the working list (`wl`), or the cold clean list (`ccl`) as in CCF-LRU;
//! `wait`, whether the frames of a multi-eviction are free together (`all`) or each with its own
//! page (`any`).
//!
//! Resolved: a hit on a page of the cold lists takes it back to the working list as hot. A page
//! that may join no list ends the scan, which then finds no list empty; the scan goes on as long as
//! pages find a place, even if no list is empty meanwhile: that is what Algorithms 1 and 2 do, as
//! is that a clean page may be dropped as soon as it comes up, even if it is the newest. If the
//! working list is empty and some cold dirty lists are, too, Algorithm 2 would not end; then the
//! LRU page of each list that has one leaves (specs D6). A flush writes the cold dirty lists, whose
//! pages are then cold clean, and the dirty pages of the working list, which keep their places, C
//! at a time in LRU order through channels in turn.
//!
//! Memory accesses: the lookup, the move or insertion, each page of the working list that is
//! inspected, each cold dirty list that a page is compared with, each page that leaves in a
//! replacement.

mod vetoes;

use destage_plan::{PageNo, ParamSpec, Params};

use crate::buffer::multi_eviction::WriteChannels;
use crate::buffer::neighbours::AddressOrder;
use crate::buffer::page_lists::PageLists;
use crate::buffer::parking::{LinkedList as _, ParkedLists};
use crate::buffer::{
    AccessOutcome, BlockBorder, BufferConfig, BufferNotice, BufferPolicy, DeviceView, EvictionKind, EvictionUnit,
    EvictionVeto, Evictions, FrameWait, PageAccess, PolicyError, PolicyInfo, RegisteredPolicy,
};

const CDL_MAX: ParamSpec = ParamSpec {
    name: "cdl_max",
    default: "4",
    values: "a number of pages, at least 1 (4 to 16 in the paper)",
    unit: "pages",
    help: "the most pages in a cold dirty list (specs D1)",
};

const SEQ: ParamSpec = ParamSpec {
    name: "cawr_seq",
    default: "tail",
    values: "tail, any, same_block",
    unit: "-",
    help: "which pages a page follows: the last of a list, a neighbour in it, one of its logical block (specs D3)",
};

const NEW_CLEAN_TO: ParamSpec = ParamSpec {
    name: "cawr_new_clean_to",
    default: "wl",
    values: "wl, ccl",
    unit: "-",
    help: "whether a read miss enters the working list or the cold clean list (specs D5)",
};

const WAIT: ParamSpec = ParamSpec {
    name: "wait",
    default: "all",
    values: "all, any",
    unit: "-",
    help: "whether frames become free once all pages written together are programmed, or each with its own (specs §6.4)",
};

/// The working list and the cold clean list; behind them come the cold dirty lists. The tag of a
/// page is its list.
const WORKING: u32 = 0;
const COLD_CLEAN: u32 = 1;
const FIRST_COLD_DIRTY: u32 = 2;

#[derive(Clone, Copy, Debug)]
enum NextChannel {
    Tail,
    Any,
    SameBlock,
}

/// Channel-aware write reordering.
#[derive(Clone, Debug)]
pub(super) struct Cawr {
    pages: PageLists,
    /// Holds the pages of the cold clean list that a veto passed over.
    parking: ParkedLists,
    channels: WriteChannels,
    neighbours: AddressOrder,
    /// Pages in the cold dirty list of each channel.
    lengths: Vec<u32>,
    capacity: u32,
    pages_per_block: u32,
    cdl_max: u32,
    follows: NextChannel,
    new_clean_to: u32,
    wait: FrameWait,
    memory_accesses: u64,
}

impl RegisteredPolicy for Cawr {
    const INFO: PolicyInfo = PolicyInfo {
        name: "cawr",
        title: "cold dirty pages reordered, a run of pages for each channel",
        about: "Hot dirty pages get a second chance; cold ones are sorted into a list for each channel, behind the \
                page that they follow or else into an empty list. When no list is empty the oldest page of each is \
                programmed, all at the same time: pages that follow each other end in one channel, and all channels \
                are busy. Clean pages leave first.",
        paper: "CAWR, ETRI Journal 2015",
        year: 2015,
        unit: EvictionUnit::Page,
        chooses_channels: true,
        params: &[CDL_MAX, SEQ, NEW_CLEAN_TO, WAIT],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let follows = [("tail", NextChannel::Tail), ("any", NextChannel::Any), ("same_block", NextChannel::SameBlock)];
        let channels = WriteChannels::new(config)?;
        Ok(Self {
            pages: PageLists::new(FIRST_COLD_DIRTY + channels.count()),
            parking: ParkedLists::default(),
            lengths: vec![0; channels.count() as usize],
            channels,
            neighbours: AddressOrder::new(config.pages_per_block),
            capacity: config.capacity_pages,
            pages_per_block: config.pages_per_block,
            cdl_max: params.number(CDL_MAX.name, 1..)?,
            follows: params.choice(SEQ.name, &follows)?,
            new_clean_to: params.choice(NEW_CLEAN_TO.name, &[("wl", WORKING), ("ccl", COLD_CLEAN)])?,
            wait: params.choice(WAIT.name, &[("all", FrameWait::All), ("any", FrameWait::Any)])?,
            memory_accesses: 0,
        })
    }
}

impl Cawr {
    /// The channel of the cold dirty list that holds a page.
    #[inline]
    fn channel_of(&self, frame: u32) -> Option<u32> {
        u32::from(self.pages.frame(frame).tag).checked_sub(FIRST_COLD_DIRTY)
    }

    /// Counts a page out of its list.
    #[inline]
    fn leave(&mut self, frame: u32) {
        if let Some(channel) = self.channel_of(frame) {
            self.lengths[channel as usize] -= 1;
        }
    }

    /// Puts a held page at the MRU end of a list.
    #[inline]
    fn move_to(&mut self, list: u32, frame: u32, vetoed: bool) {
        self.leave(frame);
        if let Some(channel) = list.checked_sub(FIRST_COLD_DIRTY) {
            self.lengths[channel as usize] += 1;
        }
        let own = self.pages.frame_mut(frame);
        own.cold = list != WORKING;
        own.tag = list as u16;
        self.pages.move_to_front(list, frame);
        if vetoed {
            self.parking.moved(frame, list == COLD_CLEAN);
        }
    }

    /// Takes a page out.
    #[inline]
    fn remove(&mut self, frame: u32) -> PageNo {
        self.leave(frame);
        self.parking.forget(frame);
        self.pages.remove(frame).page()
    }

    /// Drops a page in a replacement.
    #[inline]
    fn drop_page(&mut self, frame: u32, out: &mut Evictions) {
        self.memory_accesses += 1;
        let page = self.remove(frame);
        out.page(EvictionKind::Drop, page);
    }

    /// Drops the LRU page of the cold clean list that may leave; returns whether there was one.
    #[inline]
    fn drop_clean<V: EvictionVeto>(&mut self, veto: &mut V, out: &mut Evictions) -> bool {
        let allowed = self.parking.last_allowed(&mut self.pages, COLD_CLEAN, veto);
        if let Some(frame) = allowed {
            self.drop_page(frame, out);
        }
        allowed.is_some()
    }

    /// Is true if the page would continue the sequence of a list that is not empty; `before` is the page
    /// before it by address.
    #[inline]
    fn is_sequence(&self, page: u32, before: Option<u32>, channel: u32) -> bool {
        let list = FIRST_COLD_DIRTY + channel;
        let mut at = self.pages.next(list);
        let tail = self.pages.frame(at).page;
        match self.follows {
            NextChannel::Tail => before == Some(tail),
            NextChannel::SameBlock => page / self.pages_per_block == tail / self.pages_per_block,
            NextChannel::Any => loop {
                let other = self.pages.frame(at).page;
                if before == Some(other) || self.neighbours.before(other) == Some(page) {
                    return true;
                }
                at = self.pages.next(at);
                if at == list {
                    return false;
                }
            },
        }
    }

    /// Puts a cold dirty page of the working list into a cold dirty list; `false` if it has no
    /// place (Algorithm 1).
    #[inline]
    fn enter_cold_dirty<V: EvictionVeto>(&mut self, frame: u32) -> bool {
        let page = self.pages.frame(frame).page;
        let before = self.neighbours.before(page);
        let channels = self.channels.count();
        let mut place = None;
        for channel in 0..channels {
            self.memory_accesses += 1;
            let length = self.lengths[channel as usize];
            if length > 0 && length < self.cdl_max && self.is_sequence(page, before, channel) {
                place = Some(channel);
                break;
            }
        }
        if place.is_none() {
            for channel in 0..channels {
                self.memory_accesses += 1;
                if self.lengths[channel as usize] == 0 && self.channels.is_open(channel) {
                    place = Some(channel);
                    break;
                }
            }
        }
        if let Some(channel) = place {
            self.move_to(FIRST_COLD_DIRTY + channel, frame, V::ACTIVE);
        }
        place.is_some()
    }

    /// Is true if every list that takes part in a multi-eviction has a page.
    #[inline]
    fn is_complete(&self) -> bool {
        (0..).zip(&self.lengths).all(|(channel, &length)| length > 0 || !self.channels.is_open(channel))
    }

    /// Programs the LRU pages of the cold dirty lists; returns whether anything left.
    fn program<V: EvictionVeto>(&mut self, veto: &mut V, out: &mut Evictions) -> bool {
        if V::ACTIVE
            && let Some(left) = self.instead_of_programming(veto, out)
        {
            return left;
        }
        let from = out.len();
        let written = self.write_heads(EvictionKind::Flush, out);
        self.memory_accesses += u64::from(written);
        out.wait_for(from, self.wait);
        written > 0
    }

    /// Writes the LRU page of each cold dirty list that is not empty and takes part; returns how
    /// many there were.
    fn write_heads(&mut self, kind: EvictionKind, out: &mut Evictions) -> u32 {
        let mut written = 0;
        let heads = (0..self.channels.count()).filter_map(|channel| {
            if self.lengths[channel as usize] == 0 || !self.channels.is_open(channel) {
                return None;
            }
            written += 1;
            let oldest = self.pages.prev(FIRST_COLD_DIRTY + channel);
            let page = self.pages.frame(oldest).page();
            if kind == EvictionKind::Clean {
                self.pages.frame_mut(oldest).dirty = false;
                self.move_to(COLD_CLEAN, oldest, true);
            } else {
                self.remove(oldest);
            }
            Some((page, channel as u16))
        });
        out.spread_pages(kind, heads);
        written
    }

    /// Writes every dirty page and keeps it.
    fn flush(&mut self, out: &mut Evictions) {
        while self.write_heads(EvictionKind::Clean, out) > 0 {}
        self.channels.write_all(EvictionKind::Clean, self.pages.cleaned(WORKING), out);
    }
}

impl BufferPolicy for Cawr {
    fn grow(&mut self, pages: u32) {
        self.pages.grow(pages);
    }

    fn compares_addresses(&self) -> bool {
        true
    }

    fn learn_borders(&mut self, borders: &[BlockBorder]) {
        self.neighbours.learn(borders);
    }

    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        self.pages.prefetch(page)
    }

    #[inline]
    fn access<D: DeviceView, V: EvictionVeto>(
        &mut self,
        access: PageAccess,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        let frame = self.pages.find(access.page);
        self.memory_accesses += 1;
        if frame != 0 {
            self.memory_accesses += 1;
            self.pages.frame_mut(frame).dirty |= access.write;
            self.move_to(WORKING, frame, V::ACTIVE);
            return AccessOutcome::Hit;
        }
        if self.pages.len() == self.capacity && !self.evict(device, veto, out) {
            return AccessOutcome::Bypassed;
        }
        self.memory_accesses += 1;
        let frame = self.pages.insert(WORKING, access.page, access.write);
        if !access.write && self.new_clean_to == COLD_CLEAN {
            self.move_to(COLD_CLEAN, frame, V::ACTIVE);
        }
        AccessOutcome::Inserted
    }

    /// Algorithm 2.
    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        self.channels.look(veto);
        loop {
            if self.drop_clean(veto, out) {
                return true;
            }
            if self.is_complete() {
                return self.program(veto, out);
            }
            let mut last = self.pages.prev(WORKING);
            while last != WORKING && self.pages.frame(last).dirty {
                self.memory_accesses += 1;
                if !self.pages.frame(last).cold {
                    self.pages.frame_mut(last).cold = true;
                    self.pages.move_to_front(WORKING, last);
                } else if !self.enter_cold_dirty::<V>(last) {
                    break;
                }
                last = self.pages.prev(WORKING);
            }
            if last == WORKING {
                return self.program(veto, out);
            }
            if !self.pages.frame(last).dirty {
                self.memory_accesses += 1;
                self.move_to(COLD_CLEAN, last, V::ACTIVE);
            }
        }
    }

    fn notify<D: DeviceView, V: EvictionVeto>(&mut self, notice: BufferNotice, _: &D, _: &mut V, out: &mut Evictions) {
        self.channels.open_all();
        match notice {
            BufferNotice::GcEnd { .. } | BufferNotice::Idle => {}
            BufferNotice::Resume { element } => self.parking.resume(element, COLD_CLEAN, &mut self.pages),
            BufferNotice::Flush => self.flush(out),
            BufferNotice::Destage { page, keep } => {
                let frame = self.pages.find(page);
                if frame == 0 || !self.pages.frame(frame).dirty {
                    return;
                }
                self.pages.frame_mut(frame).dirty = false;
                let of_list = self.channel_of(frame);
                let channel = of_list.map_or_else(|| self.channels.turn(), |channel| channel as u16);
                let kind = if keep { EvictionKind::Clean } else { EvictionKind::Flush };
                out.spread_pages(kind, std::iter::once((page, channel)));
                if !keep {
                    self.remove(frame);
                } else if of_list.is_some() {
                    self.move_to(COLD_CLEAN, frame, true);
                }
            }
            BufferNotice::Trim { page } => {
                let frame = self.pages.find(page);
                if frame != 0 {
                    let page = self.remove(frame);
                    out.page(EvictionKind::Drop, page);
                }
            }
        }
    }

    fn admits(&self, access: PageAccess) -> bool {
        self.pages.find(access.page) == 0
    }

    fn len(&self) -> u32 {
        self.pages.len()
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }
}
