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

use destage_plan::Params;

use crate::buffer::options::READS;
use crate::buffer::queue_buffer::QueuePolicy;
use crate::buffer::{BufferConfig, EvictionUnit, EvictionVeto, Evictions, PageAccess, PolicyError, PolicyInfo};

/// T1, T2, B1 and B2.
type ArcQueues = crate::buffer::queues::PageQueues<2, 4>;

/// Pages used once.
const T1: u32 = 0;
/// Pages used more than once.
const T2: u32 = 1;
/// Numbers the list of ghosts that left T1.
const B1: u32 = 2;
/// Numbers the list of ghosts that left T2.
const B2: u32 = 3;

/// The adaptive replacement cache.
#[derive(Clone, Debug)]
pub(super) struct Arc {
    capacity: u32,
    /// Holds the target size of T1 in pages, p in the paper.
    target: f64,
}

impl QueuePolicy<2, 4> for Arc {
    const INFO: PolicyInfo = PolicyInfo {
        name: "arc",
        title: "pages used once and used again, in adapting shares",
        about: "Pages used once and pages used again have an LRU list each, and what leaves the lists is remembered \
                without its data. A miss on a page that is remembered says which of the two lists was too short, and \
                moves the border between them.",
        paper: "ARC, FAST 2003",
        year: 2003,
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS],
    };

    fn with_params(config: BufferConfig, _params: &Params) -> Result<Self, PolicyError> {
        Ok(Self { capacity: config.capacity_pages, target: 0.0 })
    }

    #[inline]
    fn order(&self, queues: &ArcQueues) -> [u32; 2] {
        order(queues, self.target, false)
    }

    #[inline]
    fn note_hit<V: EvictionVeto>(&mut self, queues: &mut ArcQueues, frame: u32) {
        queues.memory_accesses += 1;
        queues.put(T2, frame);
    }

    #[inline]
    fn victim<V: EvictionVeto>(&mut self, queues: &mut ArcQueues, ghost: Option<u32>, veto: &mut V) -> Option<u32> {
        // The victim depends on the ghost, since the target is moved before one is chosen.
        let in_b2 = ghost.is_some_and(|ghost| queues.queue_of(ghost) == B2);
        queues.victim(order(queues, self.target_after(queues, ghost), in_b2), veto)
    }

    #[inline(always)]
    fn replace(
        &mut self,
        queues: &mut ArcQueues,
        access: PageAccess,
        ghost: Option<u32>,
        victim: Option<u32>,
        out: &mut Evictions,
    ) {
        // The target moves only with a page that enters: one that bypasses teaches nothing.
        self.target = self.target_after(queues, ghost);
        if let Some(victim) = victim {
            self.give_up(queues, victim, out);
        }
        if let Some(frame) = ghost {
            queues.soil(frame, access.write);
            queues.put(T2, frame);
        } else {
            self.forget_for_one(queues);
            queues.insert(T1, access.page, access.write);
        }
    }

    /// Remembers the page.
    #[inline]
    fn give_up(&mut self, queues: &mut ArcQueues, frame: u32, out: &mut Evictions) {
        let ghosts = if queues.queue_of(frame) == T1 { B1 } else { B2 };
        queues.give_up(frame, Some(ghosts), out);
    }
}

/// Returns the lists in the order in which they give up a page for one that is in B2 or not.
#[inline]
fn order(queues: &ArcQueues, target: f64, in_b2: bool) -> [u32; 2] {
    let len = f64::from(queues.len(T1));
    if len > target || in_b2 && len >= target { [T1, T2] } else { [T2, T1] }
}

impl Arc {
    /// Returns the target after a miss on a page whose ghost is `ghost`, if it has one.
    #[inline]
    fn target_after(&self, queues: &ArcQueues, ghost: Option<u32>) -> f64 {
        let Some(ghost) = ghost else { return self.target };
        let [of_t1, of_t2] = [B1, B2].map(|list| f64::from(queues.len(list)));
        if queues.queue_of(ghost) == B1 {
            (self.target + (of_t2 / of_t1).max(1.0)).min(f64::from(self.capacity))
        } else {
            (self.target - (of_t1 / of_t2).max(1.0)).max(0.0)
        }
    }

    /// Makes room among the ghosts for the entry of a page that is in no list.
    #[inline]
    fn forget_for_one(&self, queues: &mut ArcQueues) {
        let [t1, t2, b1, b2] = [T1, T2, B1, B2].map(|list| u64::from(queues.len(list)));
        let capacity = u64::from(self.capacity);
        // The lists are shortened before the page comes, so that their bounds always hold.
        let full = if t1 + b1 >= capacity {
            B1
        } else if t1 + t2 + b1 + b2 >= 2 * capacity {
            B2
        } else {
            return;
        };
        queues.shorten(full, queues.len(full) - 1);
    }
}
