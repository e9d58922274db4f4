//! LRU over pages (specs §4.1).
//!
//! Idea: one list from most to least recently used; a hit moves the page to the front, the last
//! page leaves. A clean page leaves at no cost, a dirty one is written.
//!
//! Resolved: reads are cached by default, as in every read-write buffer of the papers;
//! `reads=bypass` makes a write buffer, in which a read hit still counts as a use.

use destage_plan::{PageNo, Params};

use super::options::{READS, caches_reads};
use super::page_lists::PageLists;
use super::parking::Parking;
use super::{
    Access, AccessOutcome, Buffer, BufferConfig, BufferNotice, DeviceView, EvictionUnit, Evictions, PolicyError,
    PolicyInfo, Registered, Veto,
};

/// The one list.
const LIST: u32 = 0;

/// Least recently used.
#[derive(Clone, Debug)]
pub struct Lru {
    pages: PageLists,
    /// What a veto passed over.
    parking: Parking,
    capacity: u32,
    cache_reads: bool,
    memory_accesses: u64,
}

impl Registered for Lru {
    const INFO: PolicyInfo = PolicyInfo {
        name: "lru",
        title: "least recently used page",
        about: "All pages stand in one list in the order of their last use, and the page at its end leaves. A clean \
                page leaves at no cost, a dirty one is written to flash.",
        paper: "baseline of GCaR and CAWR",
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        Ok(Self {
            pages: PageLists::new(1),
            parking: Parking::default(),
            capacity: config.capacity_pages,
            cache_reads: caches_reads(params)?,
            memory_accesses: 0,
        })
    }
}

impl Lru {
    /// Takes the page of `frame` out.
    #[inline]
    fn give_up(&mut self, frame: u32, out: &mut Evictions) {
        self.parking.forget(frame);
        self.pages.give_up(frame, out);
    }
}

impl Buffer for Lru {
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
        if frame != 0 {
            self.memory_accesses += 2;
            self.pages.frame_mut(frame).dirty |= access.write;
            self.pages.move_to_front(LIST, frame);
            self.parking.used::<V>(frame);
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
        let frame = self.pages.insert(LIST, access.page, access.write);
        self.parking.used::<V>(frame);
        AccessOutcome::Inserted
    }

    #[inline]
    fn evict<D: DeviceView, V: Veto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        let Some(frame) = self.parking.victim(&mut self.pages, LIST, veto) else { return false };
        self.memory_accesses += 1;
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
            BufferNotice::Resume { element } => self.parking.resume(element, LIST, &mut self.pages),
            BufferNotice::Destage { page, keep } => {
                if let Some(frame) = self.pages.dirty_frame(page) {
                    if keep {
                        self.pages.clean(frame, out);
                    } else {
                        self.give_up(frame, out);
                    }
                }
            }
            BufferNotice::Flush => {
                self.parking.resume_all(LIST, &mut self.pages);
                self.pages.clean_all(LIST, out, |_, _| {});
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
