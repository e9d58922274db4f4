//! FIFO over pages (specs §4.7).
//!
//! Idea: one queue; a page enters at its head and leaves at its tail, however often it is used
//! between.
//!
//! Resolved: reads are cached by default, see [`READS`]. A page that becomes clean in its place (by a
//! flush) stays there. Under a veto the oldest page that is not vetoed leaves; those passed over keep
//! their places.
//!
//! Memory accesses: the lookup, the page put at the head and the victim, one each. A veto adds none.

use destage_plan::{PageNo, Params};

use super::options::{READS, caches_reads};
use super::queues::{Found, Queues};
use super::{
    Access, AccessOutcome, Buffer, BufferConfig, BufferNotice, DeviceView, EvictionUnit, Evictions, PolicyError,
    PolicyInfo, Registered, Veto,
};

/// The one queue.
const QUEUE: u32 = 0;

/// First in, first out.
#[derive(Clone, Debug)]
pub struct Fifo {
    queues: Queues<1, 1>,
    capacity: u32,
    cache_reads: bool,
    memory_accesses: u64,
}

impl Registered for Fifo {
    const INFO: PolicyInfo = PolicyInfo {
        name: "fifo",
        title: "page that came first",
        about: "Pages leave in the order in which they came in, however often they are used in between. What another \
                policy gains by looking at uses is what it gains over this one.",
        paper: "baseline of S3-FIFO, SOSP 2023",
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        Ok(Self {
            queues: Queues::new(),
            capacity: config.capacity_pages,
            cache_reads: caches_reads(params)?,
            memory_accesses: 0,
        })
    }
}

impl Buffer for Fifo {
    fn grow(&mut self, pages: u32) {
        self.queues.grow(pages);
    }

    #[inline]
    fn prefetch(&self, page: PageNo) -> u32 {
        self.queues.prefetch(page)
    }

    #[inline]
    fn leaves_next(&self, most: usize, name: &mut impl FnMut(PageNo)) {
        self.queues.pages([QUEUE]).take(most).for_each(name);
    }

    #[inline]
    fn access<D: DeviceView, V: Veto>(
        &mut self,
        access: Access,
        device: &D,
        veto: &mut V,
        out: &mut Evictions,
    ) -> AccessOutcome {
        self.memory_accesses += 1;
        if let Found::Held(frame) = self.queues.find(access.page) {
            self.queues.soil(frame, access.write);
            if V::ACTIVE {
                self.queues.reconsider(frame);
            }
            return AccessOutcome::Hit;
        }
        if !access.write && !self.cache_reads {
            return AccessOutcome::Bypassed;
        }
        if self.queues.held() == self.capacity && !self.evict(device, veto, out) {
            return AccessOutcome::Bypassed;
        }
        self.memory_accesses += 1;
        self.queues.insert(QUEUE, access.page, access.write);
        AccessOutcome::Inserted
    }

    #[inline]
    fn evict<D: DeviceView, V: Veto>(&mut self, _device: &D, veto: &mut V, out: &mut Evictions) -> bool {
        let Some(frame) = self.queues.victim([QUEUE], veto) else { return false };
        self.memory_accesses += 1;
        self.queues.give_up(frame, None, out);
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
            self.queues.give_up(frame, None, out);
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
