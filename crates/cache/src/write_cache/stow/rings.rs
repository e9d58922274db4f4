//! STOW's two rings of groups: those of sequential writes and the others, each with its own
//! pointer, share and threshold (specs §8.3).

use destage_plan::Frag;

use super::super::pool::{PagePool, RecencyRule};
use super::super::streams::WriteStreams;
use super::super::threshold::{DestageThreshold, WHOLE};
use super::super::upper::EnteringRequest;

/// The constants of STOW.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct StowConstants {
    /// Pages of the cache.
    pub(super) capacity: u64,
    /// Pages of a group.
    pub(super) group: u64,
    /// Pages that a run has before what goes on with it is sequential.
    pub(super) run: u64,
    /// Groups of a ring that count as those destaged next.
    pub(super) margin: usize,
    /// Pages by which the share of the sequential ring changes, and between what.
    pub(super) step: u64,
    pub(super) least: u64,
    pub(super) most: u64,
    /// Groups of one ring that are destaged before the other is asked.
    pub(super) stretch: u32,
    /// Pages below the threshold down to which a ring goes on once it has begun.
    pub(super) hysteresis: u64,
}

/// A ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RingKind {
    Random,
    Sequential,
}

/// Holds what STOW has beside the ring of random groups, which is WOW's.
#[derive(Debug)]
pub(in super::super) struct StowRings {
    constants: StowConstants,
    streams: WriteStreams,
    sequential: PagePool,
    /// Pages that the sequential ring is to have.
    desired: u64,
    /// The ring that was destaged from last, and how many groups more are its turn.
    last: RingKind,
    left: u32,
    /// Is true, for each ring, if it goes on until it is far enough below its threshold.
    goes_on: [bool; 2],
}

impl StowRings {
    pub(super) fn new(constants: StowConstants, streams: WriteStreams, desired: u64) -> Self {
        Self {
            sequential: PagePool::new(constants.capacity, RecencyRule::Never),
            desired: desired.clamp(constants.least, constants.most),
            constants,
            streams,
            last: RingKind::Random,
            left: 0,
            goes_on: [false; 2],
        }
    }

    /// Pages of sequential groups.
    pub(in super::super) const fn held(&self) -> u64 {
        self.sequential.held()
    }

    /// The sequential ring.
    pub(in super::super) const fn pool(&self) -> &PagePool {
        &self.sequential
    }

    /// As [`pool`](Self::pool).
    pub(in super::super) const fn pool_mut(&mut self) -> &mut PagePool {
        &mut self.sequential
    }

    /// The sequential ring, if the group is there.
    pub(in super::super) fn with(&self, group: u64) -> Option<&PagePool> {
        Some(&self.sequential).filter(|pool| pool.holds(group))
    }

    /// As [`with`](Self::with).
    pub(in super::super) fn with_mut(&mut self, group: u64) -> Option<&mut PagePool> {
        Some(&mut self.sequential).filter(|pool| pool.holds(group))
    }

    /// A write comes; whether it is sequential. Then the groups of what makes it so are, too.
    pub(in super::super) fn is_sequential(&mut self, frag: &Frag, random: &mut PagePool) -> bool {
        let StowConstants { run, group, .. } = self.constants;
        if self.streams.note(frag.page, frag.pages.into(), frag.sectors.is_some()) < run {
            return false;
        }
        // Pages of the run that came before it was known to be one lie in earlier
        // groups; these move as well.
        let end = frag.page.div_ceil(group);
        for group in frag.page.saturating_sub(run) / group..end {
            random.hand_over(group, &mut self.sequential);
        }
        true
    }

    /// Lets a page in, into the ring of its group, or of its class if there is none; whether a
    /// version of it was held.
    pub(in super::super) fn admit(
        &mut self,
        group: u64,
        index: u32,
        request: EnteringRequest,
        random: &mut PagePool,
    ) -> bool {
        let was_sequential = self.sequential.holds(group);
        let ring = if was_sequential { &self.sequential } else { &*random };
        if ring.has(group, index) && ring.is_near(group, self.constants.margin) {
            // It would be there no more if its ring were smaller.
            let StowConstants { step, least, most, .. } = self.constants;
            self.desired = if was_sequential { self.desired + step } else { self.desired.saturating_sub(step) };
            self.desired = self.desired.clamp(least, most);
        }
        // The group may have been random until now; it moves before the page is
        // counted.
        if request.sequential {
            random.hand_over(group, &mut self.sequential);
        }
        let ring = if was_sequential || request.sequential { &mut self.sequential } else { random };
        ring.admit(group, index, request.number, request.sequential)
    }

    /// The group that is destaged next, and whether it is sequential: of the ring whose turn it is,
    /// that is of the sequential one while it has more than it is to have; of the other if that has
    /// none, or not enough.
    pub(in super::super) fn next(
        &mut self,
        random: &mut PagePool,
        threshold: &DestageThreshold,
        under_way: usize,
        at_once: bool,
    ) -> Option<(u64, bool)> {
        let desired = self.desired;
        let over = self.sequential.held() > desired;
        let turn = if self.left > 0 {
            self.last
        } else if over {
            RingKind::Sequential
        } else {
            RingKind::Random
        };
        let other = if turn == RingKind::Random { RingKind::Sequential } else { RingKind::Random };
        let StowConstants { capacity, hysteresis, stretch, .. } = self.constants;
        let [of_random, of_sequential] = &mut self.goes_on;
        let of_random = allowed(threshold, random.held(), capacity - desired, hysteresis, of_random);
        let of_sequential = allowed(threshold, self.sequential.held(), desired, hysteresis, of_sequential);
        // The other ring is asked too: one that has nothing to give must not stop
        // the cache.
        for which in [turn, other] {
            let allowed = if which == RingKind::Random { of_random } else { of_sequential };
            if under_way >= if at_once { threshold.most } else { allowed } as usize {
                continue;
            }
            let pool = if which == RingKind::Random { &mut *random } else { &mut self.sequential };
            if let Some(group) = pool.advance() {
                let left = if which == self.last && self.left > 0 { self.left } else { stretch };
                (self.last, self.left) = (which, left - 1);
                return Some((group, which == RingKind::Sequential));
            }
        }
        None
    }
}

/// Destages that may be under way if a ring has so many pages of those that it is to have: as the
/// threshold has it, and one at least once it was reached, until the ring is so many pages below
/// it.
fn allowed(threshold: &DestageThreshold, held: u64, share: u64, hysteresis: u64, goes_on: &mut bool) -> u32 {
    let allowed = threshold.allowed(held, share);
    let low = u128::from(threshold.low) * u128::from(share);
    // Hysteresis: a ring that stopped right at its threshold would be started again
    // by the next write.
    *goes_on = allowed > 0 || *goes_on && u128::from(held + hysteresis) * u128::from(WHOLE) > low;
    allowed.max(u32::from(*goes_on))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSTANTS: StowConstants = StowConstants {
        capacity: 100,
        group: 8,
        run: 4,
        margin: 2,
        step: 1,
        least: 5,
        most: 95,
        stretch: 1,
        hysteresis: 0,
    };
    const ALL: DestageThreshold = DestageThreshold { low: 0, high: 0, most: 20 };

    struct Bench {
        rings: StowRings,
        random: PagePool,
        requests: u64,
    }

    impl Bench {
        fn new(constants: StowConstants, desired: u64) -> Self {
            let rings = StowRings::new(constants, WriteStreams::new(8), desired);
            Self { rings, random: PagePool::new(constants.capacity, RecencyRule::Hit), requests: 0 }
        }

        /// Writes so many pages from one on, in one piece.
        fn write(&mut self, page: u64, pages: u64) {
            self.requests += 1;
            let frag = Frag {
                id: destage_plan::FragId::default(),
                op: destage_plan::HostOp::Write,
                fua: false,
                page,
                pages: pages as u16,
                sectors: None,
                run: 0,
                bypass: false,
            };
            let sequential = self.rings.is_sequential(&frag, &mut self.random);
            let request = EnteringRequest { number: self.requests, sequential };
            for page in page..page + pages {
                let (group, index) = (page / 8, (page % 8) as u32);
                self.rings.admit(group, index, request, &mut self.random);
                let ring = self.rings.with_mut(group).unwrap_or(&mut self.random);
                ring.came(group, index);
            }
        }

        /// Destages a group whole.
        fn destage(&mut self, threshold: &DestageThreshold) -> Option<(u64, bool)> {
            let next = self.rings.next(&mut self.random, threshold, 0, false)?;
            let ring = self.rings.with_mut(next.0).unwrap_or(&mut self.random);
            ring.depart(next.0, &mut Vec::new());
            ring.landed(next.0, false, |_| false);
            Some(next)
        }

        fn held(&self) -> (u64, u64) {
            (self.random.held(), self.rings.held())
        }
    }

    #[test]
    fn what_goes_on_with_a_run_makes_its_groups_sequential() {
        let mut bench = Bench::new(CONSTANTS, 50);
        bench.write(40, 1);
        bench.write(6, 3);
        assert_eq!(bench.held(), (4, 0), "a run of three is too short, whatever comes next");
        bench.write(9, 1);
        assert_eq!(bench.held(), (5, 0));
        bench.write(10, 1);
        assert_eq!(bench.held(), (1, 5), "four pages lie before it: in groups 0 and 1");
        bench.write(3, 1);
        assert_eq!(bench.held(), (1, 6), "what is sequential once stays so");
    }

    #[test]
    fn the_ring_above_its_share_goes_first_and_in_order_whatever_was_hit() {
        let mut bench = Bench::new(CONSTANTS, 5);
        for page in 16..32 {
            bench.write(page, 1);
        }
        bench.write(72, 2);
        bench.write(80, 2);
        bench.write(73, 1);
        bench.write(18, 1);
        assert_eq!(bench.held(), (4, 16));
        let order: Vec<_> = std::iter::from_fn(|| bench.destage(&ALL)).collect();
        // Group 9 was hit and 10 not; 2 was hit, too, which does not matter.
        assert_eq!(order, [(2, true), (3, true), (10, false), (9, false)]);
    }

    #[test]
    fn a_ring_has_its_turn_for_a_stretch() {
        let mut bench = Bench::new(StowConstants { stretch: 3, ..CONSTANTS }, 8);
        for page in 0..32 {
            bench.write(page, 1);
        }
        for group in [10, 11, 12, 13] {
            bench.write(group * 8, 1);
        }
        let order: Vec<_> = std::iter::from_fn(|| bench.destage(&ALL)).map(|(group, _)| group).collect();
        assert_eq!(order, [0, 1, 2, 10, 11, 12, 13, 3], "at 8 pages the sequential ring has what it is to have");
    }

    #[test]
    fn hits_on_what_goes_next_move_the_border() {
        let mut bench = Bench::new(StowConstants { step: 3, ..CONSTANTS }, 50);
        for page in 0..32 {
            bench.write(page, 1);
        }
        for group in [10, 11, 12] {
            bench.write(group * 8, 1);
        }
        let mut write = |page| {
            bench.write(page, 1);
            bench.rings.desired
        };
        assert_eq!(write(2), 53, "sequential");
        assert_eq!(write(24), 53, "the fourth group");
        assert_eq!(write(80), 50, "random");
        assert_eq!(write(80), 50, "its bit is set: it does not go next");
        assert_eq!(write(96), 50, "the third group");
        assert_eq!(write(89), 50, "no hit");
        assert_eq!(write(88), 50, "the group was hit before");
        let mut at_most = 0;
        for _ in 0..20 {
            at_most = write(3);
        }
        assert_eq!(at_most, 95);
    }

    #[test]
    fn a_ring_goes_on_below_its_threshold_once_it_has_begun() {
        let mut bench = Bench::new(StowConstants { hysteresis: 10, ..CONSTANTS }, 50);
        let half = DestageThreshold { low: 5_000, high: 9_000, most: 4 };
        for group in 0..24 {
            bench.write(group * 16, 1);
        }
        assert_eq!(bench.destage(&half), None, "24 of the 50 pages that are the random ring's");
        bench.write(24 * 16, 1);
        let gone = std::iter::from_fn(|| bench.destage(&half)).count();
        assert_eq!((gone, bench.held()), (10, (15, 0)));
        bench.write(25 * 16, 1);
        assert_eq!(bench.destage(&half), None, "it begins again at 25");
    }
}
