//! 2Q, the full version (Johnson and Shasha, VLDB 1994; specs §4.8).
//!
//! Idea: a page enters A1in, a FIFO queue in which further uses mean nothing, since they come from
//! what used it first. What leaves A1in is remembered in A1out; a page that comes again while it is
//! there enters Am, an LRU list. While A1in has more than Kin pages its oldest one leaves, or else the
//! least recently used one of Am, which is not remembered.
//!
//! Parameters: `in`, Kin as a percentage of the capacity (25, as the paper advises), and `out`, Kout,
//! the entries of A1out (50); `reads`.
//!
//! Resolved, where the paper is silent:
//! - Both shares are rounded down: |A1in| > Kin says the same of the whole number and of the share
//!   itself. So up to three pages Kin is 0, and A1in gives a page up whenever it has one; of one
//!   page Kout is 0 as well, and nothing is remembered.
//! - A page that comes from A1out leaves it before the victim enters, so that the victim cannot push
//!   it out. If a veto then sends the access past the buffer, it stays in A1out where it was.
//! - Where Am is to give up a page and has none, as with `in=100` or after trims, A1in does.
//! - Reads are cached by default, see [`READS`]. A read that stays out changes nothing.
//! - A page that is written back to leave goes the way of a victim: from A1in into A1out, from Am into
//!   oblivion. Trims leave nothing in A1out and take out what is there.
//! - An eviction without a page that comes in (room made for a whole request, layers) comes before the
//!   page is looked for in A1out, and may push it out.
//! - Under a veto the queue that is to give a page up goes first, then the other one, each from its
//!   oldest page on.
//!
//! Memory accesses: the lookup, which finds what A1out has; the page put at the head of a queue, or
//! moved there in Am; the victim; an entry that A1out gives up: one each. A veto adds none.

use destage_plan::{ParamSpec, Params};

use crate::buffer::options::READS;
use crate::buffer::queue_buffer::QueuePolicy;
use crate::buffer::share;
use crate::buffer::{BufferConfig, EvictionUnit, EvictionVeto, Evictions, PageAccess, PolicyError, PolicyInfo};

/// A1in, Am and A1out.
type TwoQueues = crate::buffer::queues::PageQueues<2, 3>;

/// Pages that came first.
const A1_IN: u32 = 0;
/// Pages that came again.
const AM: u32 = 1;
/// Numbers the queue of ghosts that left A1in.
const A1_OUT: u32 = 2;

/// 2Q, the full version.
#[derive(Clone, Debug)]
pub(super) struct TwoQ {
    /// Pages that A1in may keep.
    most_in: u32,
    /// Entries that A1out may have.
    most_out: u32,
}

const IN: ParamSpec = ParamSpec {
    name: "in",
    default: "25",
    values: "a percentage from 0 to 100 with up to two decimals",
    unit: "% of the capacity",
    help: "Kin: the pages that A1in keeps; the oldest beyond that leave first (25 in the paper)",
};

const OUT: ParamSpec = ParamSpec {
    name: "out",
    default: "50",
    values: "a percentage from 0 to 1000 with up to two decimals",
    unit: "% of the capacity",
    help: "Kout: the pages without data that A1out remembers (50 in the paper)",
};

impl QueuePolicy<2, 3> for TwoQ {
    const INFO: PolicyInfo = PolicyInfo {
        name: "2q",
        title: "LRU of pages that came again, FIFO of the others",
        about: "A page enters a FIFO queue, in which further uses count for nothing; what leaves the queue is \
                remembered without its data. Only a page that comes again while it is remembered enters an LRU list, \
                so that a scan passes through the queue and leaves the list alone.",
        paper: "2Q, VLDB 1994",
        year: 1994,
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS, IN, OUT],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let capacity = config.capacity_pages;
        Ok(Self {
            most_in: share::floor(params.hundredths(IN.name, ..=share::HUNDRED_PERCENT)?, capacity),
            most_out: share::floor(params.hundredths(OUT.name, ..=10 * share::HUNDRED_PERCENT)?, capacity),
        })
    }

    #[inline]
    fn order(&self, queues: &TwoQueues) -> [u32; 2] {
        if queues.len(A1_IN) > self.most_in { [A1_IN, AM] } else { [AM, A1_IN] }
    }

    #[inline]
    fn note_hit<V: EvictionVeto>(&mut self, queues: &mut TwoQueues, frame: u32) {
        if queues.queue_of(frame) == AM {
            queues.memory_accesses += 1;
            queues.put(AM, frame);
        // A hit in the first queue moves nothing: correlated uses shall not count as a second one.
        } else if V::ACTIVE {
            queues.reconsider(frame);
        }
    }

    #[inline(always)]
    fn replace(
        &mut self,
        queues: &mut TwoQueues,
        access: PageAccess,
        ghost: Option<u32>,
        victim: Option<u32>,
        out: &mut Evictions,
    ) {
        if let Some(frame) = ghost {
            queues.soil(frame, access.write);
            queues.put(AM, frame);
        } else {
            queues.insert(A1_IN, access.page, access.write);
        }
        if let Some(victim) = victim {
            self.give_up(queues, victim, out);
        }
    }

    #[inline]
    fn give_up(&mut self, queues: &mut TwoQueues, frame: u32, out: &mut Evictions) {
        let ghosts = (queues.queue_of(frame) == A1_IN && self.most_out > 0).then_some(A1_OUT);
        queues.give_up(frame, ghosts, out);
        queues.shorten(A1_OUT, self.most_out);
    }
}
