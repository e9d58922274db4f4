//! S3-FIFO (Yang et al., SOSP 2023, Algorithm 1; specs §4.10).
//!
//! Idea: three FIFO queues. A page enters S, which is small; when its turn to leave comes it goes to M
//! if it was used more than once meanwhile, and else leaves and is remembered in G. A page that comes
//! again while G has it enters M. There a page whose turn comes is put back at the head as often as it
//! was used, up to three times, and then leaves for good. S gives up pages while it has its share of
//! the buffer, M otherwise.
//!
//! Parameters: `small`, the share of S (10), and `ghost`, the entries of G (90, as many as M has
//! pages), both percentages of the capacity; `uses`, the uses in S after which a page goes to M (2,
//! more than one); `reads`.
//!
//! Resolved, where the paper is silent or says two things:
//! - Where M is full its Algorithm 1 has M give up a page for one that comes from S, and goes on until
//!   S has given one up as well, so that several pages can leave for one. Here, as in the authors' own
//!   simulator, one page leaves: M may be above its share by what came from S, and S below, until M's
//!   turn comes. If all pages of S go to M, M gives one up.
//! - The share of S is rounded up, since S gives up pages from |S| ≥ 0.1 · capacity on; G's is rounded
//!   down, which by default leaves it as many entries as M has pages. So up to ten pages S has one, and
//!   of one page M has none and G is empty.
//! - A page that comes from G leaves it before the victim enters, so that the victim cannot push it
//!   out. If a veto then sends the access past the buffer, it stays in G where it was.
//! - Where S has its share and no page (`small=0`) M gives up a page; where M is to and has none, as can
//!   be after trims, S does.
//! - Reads are cached by default, see [`READS`]. A read that stays out changes nothing.
//! - A page that is written back to leave goes the way of a victim: from S into G, however often it was
//!   used, from M into oblivion. Trims leave nothing in G and take out what is there.
//! - An eviction without a page that comes in (room made for a whole request, layers) comes before the
//!   page is looked for in G, and may push it out.
//! - Under a veto pages that are passed over keep their places, and those that the scan meets on its way
//!   to the victim are moved as published; if the queue that is to give a page up has none that may
//!   leave, the other one does. If all are passed over none is moved. The search goes over the queues
//!   anew each time.
//!
//! Memory accesses: the lookup, which finds what G has; the uses that a hit counts up, and the page put at
//! the head of a queue; for a victim every page inspected, itself included, those moved once more, and
//! its own move; an entry that G gives up: one each.

use destage_plan::{ParamSpec, Params};

use crate::buffer::options::READS;
use crate::buffer::queue_buffer::QueuePolicy;
use crate::buffer::scan_stop::ScanStop;
use crate::buffer::share;
use crate::buffer::{
    BufferConfig, EvictionCandidate, EvictionUnit, EvictionVeto, Evictions, PageAccess, PolicyError, PolicyInfo,
};

/// S, M and G. The number kept with a page is its uses.
type S3Queues = crate::buffer::queues::PageQueues<2, 3>;

/// Pages that came first.
const SMALL: u32 = 0;
/// Pages that were used again.
const MAIN: u32 = 1;
/// Numbers the queue of ghosts that left the small queue.
const GHOST: u32 = 2;

/// The most uses that are counted.
const MOST_USES: u16 = 3;

/// Three FIFO queues, of which one is small and one of ghosts.
#[derive(Clone, Debug)]
pub(super) struct S3Fifo {
    /// Pages from which on S gives them up.
    small: u32,
    /// Entries that G may have.
    most_ghosts: u32,
    /// Uses from which on a page goes from S to M.
    uses: u16,
}

const SMALL_SHARE: ParamSpec = ParamSpec {
    name: "small",
    default: "10",
    values: "a percentage from 0 to 100 with up to two decimals",
    unit: "% of the capacity",
    help: "the share of the small queue, from which on it gives up pages (10 in the paper)",
};

const GHOSTS: ParamSpec = ParamSpec {
    name: "ghost",
    default: "90",
    values: "a percentage from 0 to 1000 with up to two decimals",
    unit: "% of the capacity",
    help: "the pages without data that are remembered (in the paper as many as the main queue has, 90)",
};

const USES: ParamSpec = ParamSpec {
    name: "uses",
    default: "2",
    values: "a number of uses from 1 to 3",
    unit: "uses",
    help: "the uses in the small queue after which a page goes to the main queue (more than one in the paper)",
};

impl QueuePolicy<2, 3> for S3Fifo {
    const INFO: PolicyInfo = PolicyInfo {
        name: "s3-fifo",
        title: "small FIFO of new pages, FIFO with reinsertion of used ones",
        about: "New pages enter a small FIFO queue. When its turn to leave comes a page that was used often enough \
                goes to the main queue, and others leave and are remembered, so that they enter the main queue if \
                they come again. There a page is put back at the head as often as it was used, up to three times.",
        paper: "S3-FIFO, SOSP 2023",
        year: 2023,
        unit: EvictionUnit::Page,
        chooses_channels: false,
        params: &[READS, SMALL_SHARE, GHOSTS, USES],
    };

    fn with_params(config: BufferConfig, params: &Params) -> Result<Self, PolicyError> {
        let capacity = config.capacity_pages;
        Ok(Self {
            small: share::ceil(params.hundredths(SMALL_SHARE.name, ..=share::HUNDRED_PERCENT)?, capacity),
            most_ghosts: share::floor(params.hundredths(GHOSTS.name, ..=10 * share::HUNDRED_PERCENT)?, capacity),
            uses: params.number(USES.name, 1..=MOST_USES)?,
        })
    }

    #[inline]
    fn order(&self, queues: &S3Queues) -> [u32; 2] {
        if self.small_first(queues) { [SMALL, MAIN] } else { [MAIN, SMALL] }
    }

    #[inline]
    fn note_hit<V: EvictionVeto>(&mut self, queues: &mut S3Queues, frame: u32) {
        queues.memory_accesses += 1;
        queues.set_count(frame, (queues.count(frame) + 1).min(MOST_USES));
    }

    #[inline]
    fn victim<V: EvictionVeto>(&mut self, queues: &mut S3Queues, _ghost: Option<u32>, veto: &mut V) -> Option<u32> {
        if queues.held() == 0 {
            return None;
        }
        let stop = ScanStop::choose(veto, |veto| self.first_not_vetoed(queues, veto))?;
        self.scan(queues, stop)
    }

    #[inline(always)]
    fn replace(
        &mut self,
        queues: &mut S3Queues,
        access: PageAccess,
        ghost: Option<u32>,
        victim: Option<u32>,
        out: &mut Evictions,
    ) {
        if let Some(frame) = ghost {
            queues.soil(frame, access.write);
            // A page that comes back starts without uses: those of before have let it leave.
            queues.set_count(frame, 0);
            queues.put(MAIN, frame);
        } else {
            queues.insert(SMALL, access.page, access.write);
        }
        if let Some(victim) = victim {
            self.give_up(queues, victim, out);
        }
    }

    #[inline]
    fn give_up(&mut self, queues: &mut S3Queues, frame: u32, out: &mut Evictions) {
        let ghosts = (queues.queue_of(frame) == SMALL && self.most_ghosts > 0).then_some(GHOST);
        queues.give_up(frame, ghosts, out);
        queues.shorten(GHOST, self.most_ghosts);
    }
}

impl S3Fifo {
    /// Is true if S gives up the next page.
    #[inline]
    fn small_first(&self, queues: &S3Queues) -> bool {
        let (small, main) = (queues.len(SMALL), queues.len(MAIN));
        small > 0 && small >= self.small || main == 0
    }

    /// Goes over S from its tail to the page that leaves, and moves the others that go to M.
    #[inline]
    fn scan_small(&self, queues: &mut S3Queues, stop: ScanStop) -> Option<u32> {
        let mut at = queues.oldest(SMALL);
        while let Some(frame) = at {
            // The next one is found first, since the frame may move to the other queue.
            at = queues.newer(SMALL, frame);
            queues.memory_accesses += 1;
            if queues.count(frame) >= self.uses {
                queues.memory_accesses += 1;
                queues.set_count(frame, 0);
                queues.put(MAIN, frame);
            } else if stop.is_at(frame) {
                return Some(frame);
            }
        }
        None
    }

    /// Goes over M from its tail to the page that leaves, and puts the others that were used back at
    /// the head.
    #[inline]
    fn scan_main(queues: &mut S3Queues, stop: ScanStop) -> Option<u32> {
        let mut at = queues.oldest(MAIN);
        while let Some(frame) = at {
            queues.memory_accesses += 1;
            let uses = queues.count(frame);
            if uses > 0 {
                queues.memory_accesses += 1;
                queues.set_count(frame, uses - 1);
                // What is put back may be the next that comes.
                let newer = queues.newer(MAIN, frame);
                queues.put(MAIN, frame);
                at = newer.or(Some(frame));
            } else if stop.is_at(frame) {
                return Some(frame);
            } else {
                at = queues.newer(MAIN, frame);
            }
        }
        None
    }

    /// Goes over the queues to the page that leaves, `None` if none is held.
    #[inline]
    fn scan(&self, queues: &mut S3Queues, stop: ScanStop) -> Option<u32> {
        let small_first = self.small_first(queues);
        if small_first && let Some(frame) = self.scan_small(queues, stop) {
            return Some(frame);
        }
        let main = Self::scan_main(queues, stop);
        if main.is_some() || small_first {
            return main;
        }
        // The second look at the main queue finds what the small one has sent there.
        self.scan_small(queues, stop).or_else(|| Self::scan_main(queues, stop))
    }

    /// The first frame that is not vetoed. Of M the scan meets those without uses first, then those that
    /// came from S meanwhile, then those with one use, and so on.
    fn first_not_vetoed<V: EvictionVeto>(&self, queues: &S3Queues, veto: &mut V) -> Option<u32> {
        let mut welcome = |queue: u32, wanted: &dyn Fn(u16) -> bool| {
            let mut frames = queues.oldest_first(queue).filter(|&frame| wanted(queues.count(frame)));
            frames.find(|&frame| {
                let own = queues.frame(frame);
                veto.passes_over(EvictionCandidate::Page { page: own.page(), dirty: own.dirty }).is_none()
            })
        };
        let (stays, goes_on) = (|uses: u16| uses < self.uses, |uses: u16| uses >= self.uses);
        if self.small_first(queues) {
            return welcome(SMALL, &stays)
                .or_else(|| welcome(MAIN, &|uses| uses == 0))
                .or_else(|| welcome(SMALL, &goes_on))
                .or_else(|| (1..=MOST_USES).find_map(|turn| welcome(MAIN, &|uses| uses == turn)));
        }
        (0..=MOST_USES)
            .find_map(|turn| welcome(MAIN, &|uses| uses == turn))
            .or_else(|| welcome(SMALL, &stays))
            .or_else(|| welcome(SMALL, &goes_on))
    }
}
