//! LRU-WSR, LRU with write sequence reordering (Jung et al., TCE 2008; specs §4.4).
//!
//! Idea: LRU in which a dirty page gets a second chance before it is written. The page at the LRU
//! end leaves if it is clean, or dirty and marked as cold; a dirty page that is not cold is marked
//! and goes to the front. A hit takes the mark away.
//!
//! Resolved: a page that became clean in its place (by a flush) leaves as any clean page, marked or
//! not. Reads are cached by default, see [`READS`]. Under a veto a page that is passed over stays
//! where it is, and dirty pages in front of the victim get their second chances; if all are passed
//! over no page gets one.
//!
//! Memory accesses: the lookup, and the page that is moved to the front with its mark, one each;
//! for a victim every page inspected, itself included, and again those that get their second
//! chance. A veto adds none.
//!
//! Each page gets one second chance between uses, so a victim is found in O(1) amortised. Under a
//! veto the search goes twice over the list, as the scan would: for pages that are clean or cold,
//! then for those that had a second chance.

mod vetoes;

use destage_plan::{PageNo, Params};

use self::vetoes::Vetoes;
use super::options::{READS, caches_reads};
use super::page_lists::{Frame, PageLists};
use super::parking::Linked as _;
use super::vetoed_search::VetoedSearch as _;
use super::{
    Access, AccessOutcome, Buffer, BufferConfig, BufferNotice, DeviceView, EvictionUnit, Evictions, PolicyError,
    PolicyInfo, Registered, Veto,
};

/// The one list.
const LIST: u32 = 0;

/// LRU with write sequence reordering.
#[derive(Clone, Debug)]
pub struct LruWsr {
    pages: PageLists,
    capacity: u32,
    cache_reads: bool,
    vetoes: Vetoes,
    memory_accesses: u64,
}

impl Registered for LruWsr {
    const INFO: PolicyInfo = PolicyInfo {
        name: "lru-wsr",
        title: "LRU with a second chance for dirty pages",
        about: "LRU in which a dirty page gets a second chance before it is written: when its turn comes it is \
                marked as cold and goes to the front, and it leaves when its turn comes again without a hit in \
                between. Clean pages leave at once.",
        paper: "LRU-WSR, TCE 2008, as described by CAWR §II",
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        Ok(Self {
            pages: PageLists::new(1),
            capacity: config.capacity_pages,
            cache_reads: caches_reads(params)?,
            vetoes: Vetoes::default(),
            memory_accesses: 0,
        })
    }
}

/// Whether the scan gives the page a second chance.
#[inline]
fn is_spared(frame: &Frame) -> bool {
    frame.dirty && !frame.cold
}

impl LruWsr {
    #[inline]
    fn second_chance(&mut self, frame: u32) {
        self.memory_accesses += 2;
        self.vetoes.leave_place(&mut self.pages, frame);
        self.pages.frame_mut(frame).cold = true;
        self.pages.move_to_front(LIST, frame);
    }

    /// The published scan.
    #[inline]
    fn scan(&mut self) -> Option<u32> {
        loop {
            let last = self.pages.prev(LIST);
            if last == LIST {
                return None;
            }
            if !is_spared(self.pages.frame(last)) {
                return Some(last);
            }
            self.second_chance(last);
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

impl Buffer for LruWsr {
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
            self.vetoes.forget(&mut self.pages, frame);
            let own = self.pages.frame_mut(frame);
            own.dirty |= access.write;
            own.cold = false;
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
                let Self { pages, vetoes, .. } = self;
                pages.clean_all(LIST, out, |pages, frame| vetoes.cleaned(pages, frame));
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
