//! The skeleton of page-level policies over [`PageQueues`], which remember pages that they gave up.
//!
//! A policy is a [`QueuePolicy`]: what its paper decides. [`QueueBuffer`] does what all of them do
//! alike: lookup, admission, counting and notices.

use destage_plan::{PageNo, Params};

use super::options::caches_reads;
use super::queues::{PageQueues, QueuePlace};
use super::{
    AccessOutcome, BufferConfig, BufferNotice, BufferPolicy, DeviceView, EvictionVeto, Evictions, PageAccess,
    PolicyError, PolicyInfo, RegisteredPolicy,
};

/// Decides as a published algorithm does which queue a page enters, and which one gives one up.
pub(super) trait QueuePolicy<const HELD: usize, const ALL: usize>: Sized + Send + 'static {
    /// Describes the policy. Its parameters begin with [`READS`](super::options::READS).
    const INFO: PolicyInfo;

    /// Builds the policy; `params` holds every parameter that `INFO` declares.
    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError>;

    /// Returns the queues in the order in which they give up a page for one that is not remembered.
    fn order(&self, queues: &PageQueues<HELD, ALL>) -> [u32; HELD];

    /// Takes note that the page of a frame is used again.
    fn note_hit<V: EvictionVeto>(&mut self, queues: &mut PageQueues<HELD, ALL>, frame: u32);

    /// Chooses the frame to give up for a page whose ghost is `ghost`, if it has one; returns `None`
    /// if every page is vetoed and the access shall bypass, or none is held.
    #[inline]
    fn victim<V: EvictionVeto>(
        &mut self,
        queues: &mut PageQueues<HELD, ALL>,
        _ghost: Option<u32>,
        veto: &mut V,
    ) -> Option<u32> {
        queues.victim(self.order(queues), veto)
    }

    /// Lets a page in and gives up the victim, in the order that the algorithm needs.
    fn replace(
        &mut self,
        queues: &mut PageQueues<HELD, ALL>,
        access: PageAccess,
        ghost: Option<u32>,
        victim: Option<u32>,
        out: &mut Evictions,
    );

    /// Gives up the page of a frame, and may remember it.
    fn give_up(&mut self, queues: &mut PageQueues<HELD, ALL>, frame: u32, out: &mut Evictions);
}

/// A page-level policy over queues, of which the first `HELD` of `ALL` hold pages.
#[derive(Clone, Debug)]
pub(super) struct QueueBuffer<P, const HELD: usize, const ALL: usize> {
    queues: PageQueues<HELD, ALL>,
    capacity: u32,
    is_caching_reads: bool,
    policy: P,
}

impl<P: QueuePolicy<HELD, ALL>, const HELD: usize, const ALL: usize> RegisteredPolicy for QueueBuffer<P, HELD, ALL> {
    const INFO: PolicyInfo = P::INFO;

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        Ok(Self {
            queues: PageQueues::new(),
            capacity: config.capacity_pages,
            is_caching_reads: caches_reads(params)?,
            policy: P::with_params(config, params)?,
        })
    }
}

impl<P: QueuePolicy<HELD, ALL>, const HELD: usize, const ALL: usize> BufferPolicy for QueueBuffer<P, HELD, ALL> {
    fn grow(&mut self, pages: u32) {
        self.queues.grow(pages);
    }

    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        self.queues.prefetch(page)
    }

    #[inline]
    fn leaves_next(&self, most: usize, name: &mut impl FnMut(PageNo)) {
        self.queues.pages(self.policy.order(&self.queues)).take(most).for_each(name);
    }

    #[inline]
    fn access<D: DeviceView, V: EvictionVeto>(
        &mut self,
        access: PageAccess,
        _device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        let Self { queues, policy, .. } = self;
        queues.memory_accesses += 1;
        let ghost = match queues.find(access.page) {
            QueuePlace::Held(frame) => {
                queues.soil(frame, access.write);
                policy.note_hit::<V>(queues, frame);
                return AccessOutcome::Hit;
            }
            QueuePlace::Ghost(frame) => Some(frame),
            QueuePlace::Nowhere => None,
        };
        if !access.write && !self.is_caching_reads {
            return AccessOutcome::Bypassed;
        }
        let mut victim = None;
        if queues.held() == self.capacity {
            // The victim is chosen before anything changes: without one the access bypasses and leaves no
            // trace.
            victim = policy.victim(queues, ghost, veto);
            if victim.is_none() {
                return AccessOutcome::Bypassed;
            }
            queues.memory_accesses += 1;
        }
        queues.memory_accesses += 1;
        policy.replace(queues, access, ghost, victim, out);
        AccessOutcome::Inserted
    }

    #[inline]
    fn evict<D: DeviceView, V: EvictionVeto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        let Some(frame) = self.policy.victim(&mut self.queues, None, veto) else { return false };
        self.queues.memory_accesses += 1;
        self.policy.give_up(&mut self.queues, frame, out);
        true
    }

    fn notify<D: DeviceView, V: EvictionVeto>(&mut self, notice: BufferNotice, _: &D, _: &mut V, out: &mut Evictions) {
        if let Some(frame) = self.queues.notify(notice, out) {
            self.policy.give_up(&mut self.queues, frame, out);
        }
    }

    fn admits(&self, access: PageAccess) -> bool {
        !self.queues.is_held(access.page) && (access.write || self.is_caching_reads)
    }

    fn len(&self) -> u32 {
        self.queues.held()
    }

    fn memory_accesses(&self) -> u64 {
        self.queues.memory_accesses
    }
}
