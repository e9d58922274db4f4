//! CLOCK over pages (LB-CLOCK §IV.A; specs §4.2).
//!
//! Idea: a ring of frames, a hand, a reference bit per frame. An access sets the bit; the hand
//! clears bits until it stands on a frame whose bit is 0, and that page leaves. The new page takes
//! its slot and the hand moves on.
//!
//! Resolved: the slots fill in order while the hand stays at slot 0; a slot emptied by a trim is
//! filled first, the last one emptied before the others. A flush goes once around from the hand.
//! Under a veto the search goes around the ring anew each time.

use destage_plan::{PageNo, Params};

use crate::buffer::options::{READS, caches_reads};
use crate::buffer::scan_stop::ScanStop;
use crate::buffer::{
    AccessOutcome, BufferConfig, BufferNotice, BufferPolicy, DeviceView, EvictionCandidate, EvictionKind, EvictionUnit,
    EvictionVeto, Evictions, PageAccess, PolicyError, PolicyInfo, RegisteredPolicy,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClockFrame {
    page: u32,
    referenced: bool,
    dirty: bool,
    held: bool,
}

/// A frame that holds no page.
const EMPTY: ClockFrame = ClockFrame { page: 0, referenced: false, dirty: false, held: false };

/// CLOCK, the second-chance approximation of LRU.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// Page → frame + 1, 0 where the page is not held.
    slot_of: Vec<u32>,
    frames: Vec<ClockFrame>,
    /// Frames emptied by a trim.
    free: Vec<u32>,
    hand: u32,
    capacity: u32,
    len: u32,
    cache_reads: bool,
    memory_accesses: u64,
}

impl RegisteredPolicy for Clock {
    const INFO: PolicyInfo = PolicyInfo {
        name: "clock",
        title: "page CLOCK with one reference bit",
        about: "Pages stand in a ring, each with a bit that an access sets. A hand goes round and clears bits until \
                it stands on a page whose bit is clear, and that page leaves: nearly LRU, without a list to be kept \
                in order at each hit.",
        paper: "Corbató 1968, as described by LB-CLOCK §IV.A",
        year: 1968,
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        Ok(Self {
            slot_of: Vec::new(),
            frames: Vec::new(),
            free: Vec::new(),
            hand: 0,
            capacity: config.capacity_pages,
            len: 0,
            cache_reads: caches_reads(params)?,
            memory_accesses: 0,
        })
    }
}

impl Clock {
    #[inline]
    fn advance(&mut self) {
        self.hand += 1;
        if self.hand as usize == self.frames.len() {
            self.hand = 0;
        }
    }

    /// Gives up the page of a frame, which holds `new` from now on.
    #[inline]
    fn replace(&mut self, at: u32, new: ClockFrame, out: &mut Evictions) {
        let victim = std::mem::replace(&mut self.frames[at as usize], new);
        self.slot_of[victim.page as usize] = 0;
        out.page(if victim.dirty { EvictionKind::Flush } else { EvictionKind::Drop }, PageNo(victim.page));
    }

    /// Gives up the page of a frame, which is free from now on.
    fn vacate(&mut self, at: u32, out: &mut Evictions) {
        self.replace(at, EMPTY, out);
        self.free.push(at);
        self.len -= 1;
    }

    /// Moves the hand to the frame to give up; `false` if every page is vetoed and the access shall
    /// bypass.
    #[inline]
    fn find_victim<V: EvictionVeto>(&mut self, veto: &mut V) -> bool {
        let Some(stop) = ScanStop::choose(veto, |veto| self.first_not_vetoed(veto)) else { return false };
        loop {
            self.memory_accesses += 1;
            let frame = &mut self.frames[self.hand as usize];
            if frame.referenced {
                frame.referenced = false;
            } else if frame.held && stop.is_at(self.hand) {
                return true;
            }
            self.advance();
        }
    }

    /// The first frame that the hand would meet with bit 0 and that is not vetoed: one whose bit is
    /// 0 now or, at its second visit, one whose bit it cleared. Looking changes nothing: the hand
    /// starts afresh if all are vetoed.
    fn first_not_vetoed<V: EvictionVeto>(&self, veto: &mut V) -> Option<u32> {
        let (behind, ahead) = self.frames.split_at(self.hand as usize);
        let turn = || (self.hand..).zip(ahead).chain((0..).zip(behind));
        [false, true].into_iter().find_map(|referenced| {
            let mut met = turn().filter(|(_, frame)| frame.referenced == referenced);
            met.find(|(_, frame)| {
                let candidate = EvictionCandidate::Page { page: PageNo(frame.page), dirty: frame.dirty };
                frame.held && veto.passes_over(candidate).is_none()
            })
            .map(|(at, _)| at)
        })
    }
}

impl BufferPolicy for Clock {
    fn grow(&mut self, pages: u32) {
        self.slot_of.resize(self.slot_of.len().max(pages as usize), 0);
    }

    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        let slot = self.slot_of[page.index()];
        self.frames.get(slot.wrapping_sub(1) as usize).map_or(0, |frame| frame.page)
    }

    #[inline]
    fn leaves_next(&self, most: usize, name: &mut impl FnMut(PageNo)) {
        let ahead = self.frames.iter().skip(self.hand as usize);
        ahead.filter(|frame| frame.held).take(most).for_each(|frame| name(PageNo(frame.page)));
    }

    #[inline]
    fn access<D: DeviceView, V: EvictionVeto>(
        &mut self,
        access: PageAccess,
        _device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        let page = access.page;
        let slot = self.slot_of[page.index()];
        if slot != 0 {
            self.memory_accesses += 2;
            let frame = &mut self.frames[slot as usize - 1];
            frame.referenced = true;
            frame.dirty |= access.write;
            return AccessOutcome::Hit;
        }
        self.memory_accesses += 1;
        if !access.write && !self.cache_reads {
            return AccessOutcome::Bypassed;
        }
        let new = ClockFrame { page: page.0, referenced: true, dirty: access.write, held: true };
        let at = if self.len < self.capacity {
            self.len += 1;
            // Vacated frames keep their place in the ring, and are filled before it grows.
            if let Some(at) = self.free.pop() {
                self.frames[at as usize] = new;
                at
            } else {
                self.frames.push(new);
                (self.frames.len() - 1) as u32
            }
        } else {
            if !self.find_victim(veto) {
                return AccessOutcome::Bypassed;
            }
            let at = self.hand;
            self.replace(at, new, out);
            self.advance();
            at
        };
        self.memory_accesses += 1;
        self.slot_of[page.index()] = at + 1;
        AccessOutcome::Inserted
    }

    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        if self.len == 0 || !self.find_victim(veto) {
            return false;
        }
        self.vacate(self.hand, out);
        self.advance();
        true
    }

    fn notify<D: DeviceView, V: EvictionVeto>(&mut self, notice: BufferNotice, _: &D, _: &mut V, out: &mut Evictions) {
        match notice {
            BufferNotice::GcEnd { .. } | BufferNotice::Resume { .. } | BufferNotice::Idle => {}
            BufferNotice::Destage { page, keep } => {
                let slot = self.slot_of[page.index()];
                if slot != 0 && self.frames[slot as usize - 1].dirty {
                    if keep {
                        self.frames[slot as usize - 1].dirty = false;
                        out.page(EvictionKind::Clean, page);
                    } else {
                        self.vacate(slot - 1, out);
                    }
                }
            }
            BufferNotice::Flush => {
                // A flush goes the way of the hand, as the pages would leave.
                let held = self.frames.len();
                for i in 0..held {
                    let frame = &mut self.frames[(self.hand as usize + i) % held];
                    if frame.held && frame.dirty {
                        frame.dirty = false;
                        out.page(EvictionKind::Clean, PageNo(frame.page));
                    }
                }
            }
            BufferNotice::Trim { page } => {
                let slot = self.slot_of[page.index()];
                if slot != 0 {
                    // What is trimmed is dropped and never written.
                    self.frames[slot as usize - 1].dirty = false;
                    self.vacate(slot - 1, out);
                }
            }
        }
    }

    fn admits(&self, access: PageAccess) -> bool {
        self.slot_of[access.page.index()] == 0 && (access.write || self.cache_reads)
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }
}
