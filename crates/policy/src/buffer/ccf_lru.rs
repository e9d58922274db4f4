//! CCF-LRU, cold-clean-first LRU (Li et al., TCE 2009; CAWR §II; specs §4.5).
//!
//! Idea: clean pages leave before dirty ones and cold before hot ones, hot being what was used
//! again or is dirty and has not had its second chance. Pages read once stand in a list of their
//! own, the cold clean list, and leave first. If it is empty the mixed list is scanned from its LRU
//! end: a cold page leaves, a hot dirty one becomes cold and goes to the front, a hot clean one
//! becomes cold and goes to the cold clean list. Any hit makes a page hot, at the front of the
//! mixed list.
//!
//! Parameters: `new_clean_to`, where a page enters by a read: the cold clean list (`ccl`), or as a
//! hot page the mixed list (`mixed`), as CAWR lets it enter the working list (specs §10.7 D12);
//! `new_dirty_cold`, whether a page enters cold by a write (no, so that each dirty page gets its
//! second chance, as CAWR describes); `hot_clean`, what becomes of a hot clean page that the scan
//! meets: it leaves at once, as the first of the cold clean list (`evict`), or the scan goes on to
//! a dirty victim and the page leaves at a later eviction (`spare`); `reads`. Public
//! implementations differ in both; the defaults are those of the specification.
//!
//! Resolved: where `spare` leaves nothing in the mixed list the cold clean list is taken. A page
//! that becomes clean in its place (by a flush) stays there, hot or cold as it was. Under a veto
//! what is passed over keeps its place, and the pages that the scan meets on its way to the victim
//! become cold and are moved, vetoed or not; if all are passed over none is.
//!
//! Memory accesses: the lookup and the page put at the front, one each; for a victim every page
//! inspected, itself included, and again those that the scan moves. A veto adds none.
//!
//! A page becomes cold once between uses, so a victim is found in O(1) amortised.

mod vetoes;

use destage_plan::{PageNo, ParamSpec, Params};

use self::vetoes::Vetoes;
use super::options::{NEW_CLEAN_TO, READS, caches_reads};
use super::page_lists::{Frame, PageLists};
use super::parking::Linked as _;
use super::vetoed_search::VetoedSearch as _;
use super::{
    Access, AccessOutcome, Buffer, BufferConfig, BufferNotice, DeviceView, EvictionUnit, Evictions, PolicyError,
    PolicyInfo, Registered, Veto,
};

/// The mixed list.
const MIXED: u32 = 0;
/// The cold clean list.
const COLD_CLEAN: u32 = 1;

/// Cold-clean-first LRU.
#[derive(Clone, Debug)]
pub struct CcfLru {
    pages: PageLists,
    capacity: u32,
    cache_reads: bool,
    new_clean_to: u32,
    new_dirty_cold: bool,
    evict_hot_clean: bool,
    vetoes: Vetoes,
    memory_accesses: u64,
}

const NEW_DIRTY_COLD: ParamSpec = ParamSpec {
    name: "new_dirty_cold",
    default: "false",
    values: "true, false",
    unit: "-",
    help: "whether a written page enters cold, that is without a second chance; public implementations differ",
};

const HOT_CLEAN: ParamSpec = ParamSpec {
    name: "hot_clean",
    default: "evict",
    values: "evict, spare",
    unit: "-",
    help: "whether a hot clean page met by the scan leaves at once or only becomes cold; public implementations differ",
};

impl Registered for CcfLru {
    const INFO: PolicyInfo = PolicyInfo {
        name: "ccf-lru",
        title: "cold clean pages first, then cold dirty ones",
        about: "Pages that were read once stand in a list of their own and leave first. The others are scanned from \
                the end of an LRU list: a cold page leaves, a hot dirty one becomes cold and gets a second chance, \
                and a hot clean one joins those that leave first.",
        paper: "CCF-LRU, TCE 2009, as described by CAWR §II",
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS, NEW_CLEAN_TO, NEW_DIRTY_COLD, HOT_CLEAN],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        Ok(Self {
            pages: PageLists::new(2),
            capacity: config.capacity_pages,
            cache_reads: caches_reads(params)?,
            new_clean_to: params.choice(NEW_CLEAN_TO.name, &[("ccl", COLD_CLEAN), ("mixed", MIXED)])?,
            new_dirty_cold: params.switch(NEW_DIRTY_COLD.name)?,
            evict_hot_clean: params.choice(HOT_CLEAN.name, &[("evict", true), ("spare", false)])?,
            vetoes: Vetoes::default(),
            memory_accesses: 0,
        })
    }
}

impl CcfLru {
    /// A hot page of the mixed list becomes cold.
    #[inline]
    fn move_on(&mut self, frame: u32) {
        self.memory_accesses += 2;
        self.vetoes.leave_place(&mut self.pages, frame);
        let own = self.pages.frame_mut(frame);
        own.cold = true;
        let list = if own.dirty { MIXED } else { COLD_CLEAN };
        self.pages.move_to_front(list, frame);
    }

    /// The published scan.
    #[inline]
    fn scan(&mut self) -> Option<u32> {
        let first = self.pages.prev(COLD_CLEAN);
        if first != COLD_CLEAN {
            return Some(first);
        }
        loop {
            let last = self.pages.prev(MIXED);
            if last == MIXED {
                // What the scan moved there, if anything.
                return Some(self.pages.prev(COLD_CLEAN)).filter(|&first| first != COLD_CLEAN);
            }
            let &Frame { dirty, cold, .. } = self.pages.frame(last);
            if cold {
                return Some(last);
            }
            self.move_on(last);
            if !dirty && self.evict_hot_clean {
                return Some(last);
            }
        }
    }

    /// The frame to give up, or `None` if every page is vetoed and the access shall bypass, or none
    /// is held.
    #[inline]
    fn victim<V: Veto>(&mut self, veto: &mut V) -> Option<u32> {
        if V::ACTIVE { self.victim_under(veto) } else { self.scan() }
    }

    /// Takes the page of `frame` out.
    #[inline]
    fn give_up(&mut self, frame: u32, out: &mut Evictions) {
        self.vetoes.forget(&mut self.pages, frame);
        self.pages.give_up(frame, out);
    }
}

impl Buffer for CcfLru {
    fn grow(&mut self, pages: u32) {
        self.pages.grow(pages);
    }

    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        self.pages.prefetch(page)
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
            self.vetoes.forget(&mut self.pages, frame);
            let own = self.pages.frame_mut(frame);
            own.dirty |= access.write;
            own.cold = false;
            self.pages.move_to_front(MIXED, frame);
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
        let list = if access.write { MIXED } else { self.new_clean_to };
        let frame = self.pages.insert(list, access.page, access.write);
        self.pages.frame_mut(frame).cold = if access.write { self.new_dirty_cold } else { list == COLD_CLEAN };
        AccessOutcome::Inserted
    }

    #[inline]
    fn evict<D: DeviceView, V: Veto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        let Some(frame) = self.victim(veto) else { return false };
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
            BufferNotice::Resume { element } => self.vetoes.resume(&mut self.pages, element),
            BufferNotice::Destage { page, keep } => {
                if let Some(frame) = self.pages.dirty_frame(page) {
                    if keep {
                        self.pages.clean(frame, out);
                        self.vetoes.cleaned(&mut self.pages, frame);
                    } else {
                        self.give_up(frame, out);
                    }
                }
            }
            BufferNotice::Flush => {
                // All dirty pages are in the mixed list.
                let Self { pages, vetoes, .. } = self;
                pages.clean_all(MIXED, out, |pages, frame| vetoes.cleaned(pages, frame));
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
