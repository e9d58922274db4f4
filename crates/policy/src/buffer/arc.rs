//! ARC, the adaptive replacement cache (Megiddo and Modha, FAST 2003, Fig. 4; specs §4.9).
//!
//! Idea: pages used once are in T1, pages used more than once in T2, each from most to least
//! recently used; what leaves them is remembered in B1 and B2. A miss in B1 says that T1 should have
//! been larger and raises its target size p, by |B2|/|B1| pages but at least by one; a miss in B2
//! lowers it, likewise. The least recently used page of T1 leaves if T1 is above its target, or at
//! its target for a page of B2, or else that of T2. T1 and B1 together have at most as many entries
//! as the buffer has pages, all four twice as many.
//!
//! Resolved, where the paper is silent:
//! - p is a number with decimals, in double precision, as the quotients demand; it begins at 0.
//! - Reads are cached by default, see [`READS`]. A read that stays out changes nothing, nor does an
//!   access that a veto sends past the buffer: p and the ghosts are as before.
//! - A miss while frames are free (in the paper only at the start, here after trims as well) evicts
//!   nothing, and is otherwise treated as any miss.
//! - An eviction without a page that comes in (write-backs, room made for a whole request, layers) is
//!   one for a page in neither B1 nor B2. Where T1 is not above its target and T2 is empty, as there
//!   can happen, T1's page leaves.
//! - A page that is written back to leave becomes a ghost as a victim does; if it comes again before
//!   the device has it, that is a miss in B1 or B2 as any. Trims leave no ghosts and forget them.
//! - Buffers of one and two pages follow the same rules: of one page T1 leaves no ghost, since its
//!   entry is the one that makes room, and T2 leaves one.
//! - Under a veto the list that is to give a page up goes first, then the other one, each from its
//!   least recently used page on.
//!
//! Memory accesses: the lookup, which finds ghosts too; the page put at the front of a list; the victim;
//! a ghost that is forgotten for room: one each. A veto adds none.

use destage_plan::{PageNo, Params};

use super::options::{READS, caches_reads};
use super::queues::{Found, Queues};
use super::{
    Access, AccessOutcome, Buffer, BufferConfig, BufferNotice, DeviceView, EvictionUnit, Evictions, PolicyError,
    PolicyInfo, Registered, Veto,
};

/// Pages used once.
const T1: u32 = 0;
/// Pages used more than once.
const T2: u32 = 1;
/// What left T1.
const B1: u32 = 2;
/// What left T2.
const B2: u32 = 3;

/// The adaptive replacement cache.
#[derive(Clone, Debug)]
pub struct Arc {
    queues: Queues<2, 4>,
    capacity: u32,
    cache_reads: bool,
    /// What T1 should have, p in the paper.
    target: f64,
    memory_accesses: u64,
}

impl Registered for Arc {
    const INFO: PolicyInfo = PolicyInfo {
        name: "arc",
        title: "pages used once and used again, in adapting shares",
        about: "Pages used once and pages used again have an LRU list each, and what leaves the lists is remembered \
                without its data. A miss on a page that is remembered says which of the two lists was too short, and \
                moves the border between them.",
        paper: "ARC, FAST 2003",
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        Ok(Self {
            queues: Queues::new(),
            capacity: config.capacity_pages,
            cache_reads: caches_reads(params)?,
            target: 0.0,
            memory_accesses: 0,
        })
    }
}

impl Arc {
    /// The target after a miss in this list of ghosts.
    #[inline]
    fn adapted(&self, ghosts: u32) -> f64 {
        let [of_t1, of_t2] = [B1, B2].map(|list| f64::from(self.queues.len(list)));
        if ghosts == B1 {
            (self.target + (of_t2 / of_t1).max(1.0)).min(f64::from(self.capacity))
        } else {
            (self.target - (of_t1 / of_t2).max(1.0)).max(0.0)
        }
    }

    /// The lists in the order in which they give up a page for one that is in B2 or not.
    #[inline]
    fn order(&self, target: f64, in_b2: bool) -> [u32; 2] {
        let len = f64::from(self.queues.len(T1));
        if len > target || in_b2 && len >= target { [T1, T2] } else { [T2, T1] }
    }

    /// Gives up the page of a frame, which is remembered.
    #[inline]
    fn give_up(&mut self, frame: u32, out: &mut Evictions) {
        let ghosts = if self.queues.queue_of(frame) == T1 { B1 } else { B2 };
        self.queues.give_up(frame, Some(ghosts), out);
    }

    /// Makes room among the ghosts for the entry of a page that is in no list.
    #[inline]
    fn forget_for_one(&mut self) {
        let [t1, t2, b1, b2] = [T1, T2, B1, B2].map(|list| u64::from(self.queues.len(list)));
        let capacity = u64::from(self.capacity);
        let full = if t1 + b1 >= capacity {
            B1
        } else if t1 + t2 + b1 + b2 >= 2 * capacity {
            B2
        } else {
            return;
        };
        self.memory_accesses += u64::from(self.queues.shorten(full, self.queues.len(full) - 1));
    }
}

impl Buffer for Arc {
    fn grow(&mut self, pages: u32) {
        self.queues.grow(pages);
    }

    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        self.queues.prefetch(page)
    }

    #[inline]
    fn leaves_next(&self, most: usize, name: &mut impl FnMut(PageNo)) {
        self.queues.pages(self.order(self.target, false)).take(most).for_each(name);
    }

    #[inline]
    fn access<D: DeviceView, V: Veto>(
        &mut self,
        access: Access,
        _device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        self.memory_accesses += 1;
        let found = self.queues.find(access.page);
        if let Found::Held(frame) = found {
            self.memory_accesses += 1;
            self.queues.soil(frame, access.write);
            self.queues.put(T2, frame);
            return AccessOutcome::Hit;
        }
        if !access.write && !self.cache_reads {
            return AccessOutcome::Bypassed;
        }
        let ghosts = if let Found::Ghost(frame) = found { Some(self.queues.queue_of(frame)) } else { None };
        let target = ghosts.map_or(self.target, |ghosts| self.adapted(ghosts));
        if self.queues.held() == self.capacity {
            let order = self.order(target, ghosts == Some(B2));
            let Some(victim) = self.queues.victim(order, veto) else { return AccessOutcome::Bypassed };
            self.memory_accesses += 1;
            self.give_up(victim, out);
        }
        self.target = target;
        if let Found::Ghost(frame) = found {
            self.queues.soil(frame, access.write);
            self.queues.put(T2, frame);
        } else {
            self.forget_for_one();
            self.queues.insert(T1, access.page, access.write);
        }
        self.memory_accesses += 1;
        AccessOutcome::Inserted
    }

    #[inline]
    fn evict<D: DeviceView, V: Veto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        let order = self.order(self.target, false);
        let Some(frame) = self.queues.victim(order, veto) else { return false };
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
        if let Some(frame) = self.queues.notify(notice, out) {
            self.give_up(frame, out);
        }
    }

    fn admits(&self, access: Access) -> bool {
        !self.queues.is_held(access.page) && (access.write || self.cache_reads)
    }

    fn len(&self) -> u32 {
        self.queues.held()
    }

    fn memory_accesses(&self) -> u64 {
        self.memory_accesses
    }
}
