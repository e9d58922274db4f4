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

use destage_plan::Params;

use crate::buffer::options::READS;
use crate::buffer::queue_buffer::QueuePolicy;
use crate::buffer::queues::PageQueues;
use crate::buffer::{BufferConfig, EvictionUnit, EvictionVeto, Evictions, PageAccess, PolicyError, PolicyInfo};

/// The one queue.
const QUEUE: u32 = 0;

/// First in, first out.
#[derive(Clone, Debug)]
pub(super) struct Fifo;

impl QueuePolicy<1, 1> for Fifo {
    const INFO: PolicyInfo = PolicyInfo {
        name: "fifo",
        title: "page that came first",
        about: "Pages leave in the order in which they came in, however often they are used in between. What another \
                policy gains by looking at uses is what it gains over this one.",
        paper: "baseline of S3-FIFO, SOSP 2023",
        year: 1966,
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS],
    };

    fn with_params(_config: BufferConfig, _params: &Params) -> Result<Self, PolicyError> {
        Ok(Self)
    }

    #[inline]
    fn order(&self, _queues: &PageQueues<1, 1>) -> [u32; 1] {
        [QUEUE]
    }

    #[inline]
    fn note_hit<V: EvictionVeto>(&mut self, queues: &mut PageQueues<1, 1>, frame: u32) {
        if V::ACTIVE {
            queues.reconsider(frame);
        }
    }

    #[inline(always)]
    fn replace(
        &mut self,
        queues: &mut PageQueues<1, 1>,
        access: PageAccess,
        _ghost: Option<u32>,
        victim: Option<u32>,
        out: &mut Evictions,
    ) {
        if let Some(victim) = victim {
            self.give_up(queues, victim, out);
        }
        queues.insert(QUEUE, access.page, access.write);
    }

    #[inline]
    fn give_up(&mut self, queues: &mut PageQueues<1, 1>, frame: u32, out: &mut Evictions) {
        queues.give_up(frame, None, out);
    }
}
