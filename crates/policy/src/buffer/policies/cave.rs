//! CAVE over CCF-LRU for a read-write buffer, as in CAWR's comparison (CAWR §V-E; CCF-LRU: specs
//! §4.5; specs §6.3).
//!
//! Idea: CCF-LRU with one more list. Dirty pages that its second chance found cold are not written
//! one by one but collected; when there are enough of them for all C channels, the C oldest are
//! programmed at the same time, one through each channel. Whether pages follow each other is
//! ignored.
//!
//! Parameters: `ccf_new_clean_to` and `ccf_new_dirty_cold`, which are CCF-LRU's `new_clean_to` and
//! `new_dirty_cold`.
//!
//! Resolved: a replacement drops the LRU page of the cold clean list if there is one; or else
//! programs C pages if so many are collected; or else goes on with CCF-LRU's scan from the LRU end
//! of the mixed list: a cold dirty page is collected, a hot dirty one becomes cold and goes to the
//! MRU end, a clean one goes to the MRU end of the cold clean list and leaves next. If the mixed
//! list is empty before C pages are collected, those that are leave (specs D6). A hit on a
//! collected page takes it back to the mixed list as hot. A flush writes the collected pages, which
//! are then cold clean, and the dirty pages of the mixed list, which keep their places, C at a
//! time. There is no limit to the pages collected except the capacity. Channels go round from page
//! to page.
//!
//! Memory accesses: the lookup, the move or insertion, each page of the mixed list that is
//! inspected, each page that leaves in a replacement.

mod vetoes;

use destage_plan::{PageNo, ParamSpec, Params};

use crate::buffer::multi_eviction::WriteChannels;
use crate::buffer::page_lists::PageLists;
use crate::buffer::parking::{LinkedList as _, ParkedLists};
use crate::buffer::{
    AccessOutcome, BufferConfig, BufferNotice, BufferPolicy, DeviceView, EvictionKind, EvictionUnit, EvictionVeto,
    Evictions, PageAccess, PolicyError, PolicyInfo, RegisteredPolicy, options,
};

const NEW_CLEAN_TO: ParamSpec = ParamSpec { name: "ccf_new_clean_to", ..options::NEW_CLEAN_TO };

const NEW_DIRTY_COLD: ParamSpec = ParamSpec {
    name: "ccf_new_dirty_cold",
    default: "false",
    values: "true, false",
    unit: "-",
    help: "whether a page that a write brings in is cold, without a second chance (specs §4.5)",
};

/// The mixed list, the cold clean list and the cold dirty pages collected, each with its number as
/// the tag.
const MIXED: u32 = 0;
const COLD_CLEAN: u32 = 1;
const COLD_DIRTY: u32 = 2;

/// CCF-LRU whose cold dirty pages leave together.
#[derive(Clone, Debug)]
pub(super) struct Cave {
    pages: PageLists,
    /// Holds the pages of the cold clean list that a veto passed over.
    parking: ParkedLists,
    channels: WriteChannels,
    /// Pages in the list of cold dirty pages.
    collected: u32,
    capacity: u32,
    new_clean_to: u32,
    new_dirty_cold: bool,
    memory_accesses: u64,
}

impl RegisteredPolicy for Cave {
    const INFO: PolicyInfo = PolicyInfo {
        name: "cave",
        title: "CCF-LRU, a cold dirty page for each channel at once",
        about: "CCF-LRU for SSDs with several channels: cold dirty pages are not written one by one but collected, \
                and when there are enough for all channels as many of the oldest are programmed at the same time, \
                one through each. Whether pages follow each other is ignored.",
        paper: "CAVE, SAC 2011, over CCF-LRU as in CAWR §V-E",
        year: 2011,
        unit: EvictionUnit::Page,
        chooses_channels: true,
        params: &[NEW_CLEAN_TO, NEW_DIRTY_COLD],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        Ok(Self {
            pages: PageLists::new(3),
            parking: ParkedLists::default(),
            channels: WriteChannels::new(config)?,
            collected: 0,
            capacity: config.capacity_pages,
            new_clean_to: params.choice(NEW_CLEAN_TO.name, &[("ccl", COLD_CLEAN), ("mixed", MIXED)])?,
            new_dirty_cold: params.switch(NEW_DIRTY_COLD.name)?,
            memory_accesses: 0,
        })
    }
}

impl Cave {
    /// Puts a held page at the MRU end of a list.
    #[inline]
    fn move_to(&mut self, list: u32, frame: u32, vetoed: bool) {
        let own = self.pages.frame_mut(frame);
        // The tag names the list that the frame leaves.
        self.collected -= u32::from(u32::from(own.tag) == COLD_DIRTY);
        self.collected += u32::from(list == COLD_DIRTY);
        own.cold = list != MIXED;
        own.tag = list as u16;
        self.pages.move_to_front(list, frame);
        if vetoed {
            self.parking.moved(frame, list == COLD_CLEAN);
        }
    }

    /// Takes a page out.
    #[inline]
    fn remove(&mut self, frame: u32) -> PageNo {
        let own = self.pages.remove(frame);
        self.parking.forget(frame);
        self.collected -= u32::from(u32::from(own.tag) == COLD_DIRTY);
        own.page()
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

    /// Programs the oldest pages collected; returns whether anything left.
    fn program<V: EvictionVeto>(&mut self, veto: &mut V, out: &mut Evictions) -> bool {
        if V::ACTIVE
            && let Some(left) = self.instead_of_programming(veto, out)
        {
            return left;
        }
        let Self { pages, channels, .. } = self;
        let width = self.collected.min(channels.width());
        self.collected -= width;
        self.memory_accesses += u64::from(width);
        let leaving = (0..width).map(|_| (pages.remove(pages.prev(COLD_DIRTY)).page(), channels.turn()));
        out.spread_pages(EvictionKind::Flush, leaving);
        width > 0
    }

    /// Writes every dirty page and keeps it.
    fn flush(&mut self, out: &mut Evictions) {
        while self.collected > 0 {
            let leaving = (0..self.collected.min(self.channels.width())).map(|_| {
                let oldest = self.pages.prev(COLD_DIRTY);
                self.pages.frame_mut(oldest).dirty = false;
                self.move_to(COLD_CLEAN, oldest, true);
                (self.pages.frame(oldest).page(), self.channels.turn())
            });
            out.spread_pages(EvictionKind::Clean, leaving);
        }
        self.channels.write_all(EvictionKind::Clean, self.pages.cleaned(MIXED), out);
    }
}

impl BufferPolicy for Cave {
    fn grow(&mut self, pages: u32) {
        self.pages.grow(pages);
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
            self.move_to(MIXED, frame, V::ACTIVE);
            return AccessOutcome::Hit;
        }
        if self.pages.len() == self.capacity && !self.evict(device, veto, out) {
            return AccessOutcome::Bypassed;
        }
        self.memory_accesses += 1;
        let frame = self.pages.insert(MIXED, access.page, access.write);
        if access.write {
            self.pages.frame_mut(frame).cold = self.new_dirty_cold;
        } else if self.new_clean_to == COLD_CLEAN {
            self.move_to(COLD_CLEAN, frame, V::ACTIVE);
        }
        AccessOutcome::Inserted
    }

    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        self.channels.look(veto);
        loop {
            if self.drop_clean(veto, out) {
                return true;
            }
            let last = self.pages.prev(MIXED);
            if self.collected >= self.channels.width() || last == MIXED {
                return self.program(veto, out);
            }
            self.memory_accesses += 1;
            let own = self.pages.frame_mut(last);
            if !own.dirty {
                self.move_to(COLD_CLEAN, last, V::ACTIVE);
            } else if own.cold {
                self.move_to(COLD_DIRTY, last, V::ACTIVE);
            } else {
                // The second chance of a hot dirty page: it leaves when it comes here again.
                own.cold = true;
                self.pages.move_to_front(MIXED, last);
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
                let (kind, channel) =
                    (if keep { EvictionKind::Clean } else { EvictionKind::Flush }, self.channels.turn());
                out.spread_pages(kind, std::iter::once((page, channel)));
                if !keep {
                    self.remove(frame);
                // A clean page must not be programmed with the collected ones.
                } else if u32::from(self.pages.frame(frame).tag) == COLD_DIRTY {
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
