//! Counts the members that collect at the same time (LAWC's Fig. 8, specs §8.9). Time is divided into slices;
//! a slice counts every member that collects in any part of it.

use destage_plan::{DevSet, Nanos};

use super::executor::CollectionNote;
use crate::measure::record;

/// The paper's slice.
const SLICE: Nanos = Nanos(100_000);

record! {
    /// Counts the members that collect at the same time. There are two means, since the paper's two factors
    /// cannot be of one.
    pub struct OverlapResult {
        slice: u64 ["ns"] "width of a slice of time",
        by_members: Vec<u64> ["1"] "slices of served_time in which 0, 1, 2, ... members collect, be it for a part of the slice",
        mean_collecting: Option<f64> ["1"] "members that collect, averaged over the slices in which any does; null if none does"
            { figure "collecting" Decimals More "members that collect, averaged over the slices of 0.1 ms in which any does" },
        mean_together: Option<f64> ["1"] "members that collect together with others, averaged over all slices; null where no time passed"
            { figure "in company" Decimals More "members that collect together with others, averaged over all slices of 0.1 ms" },
    }
}

/// Counts slices by the number of members that collect in them.
#[derive(Clone, Debug)]
pub(super) struct CollectionOverlap {
    start: Nanos,
    /// Names the members that collect now; `touched` names those that collected in the present slice.
    active: DevSet,
    touched: DevSet,
    slice: u64,
    /// Slices before the present one.
    by_members: Vec<u64>,
}

impl CollectionOverlap {
    pub(super) fn new(members: u8) -> Self {
        Self {
            start: Nanos::ZERO,
            active: DevSet::EMPTY,
            touched: DevSet::EMPTY,
            slice: 0,
            by_members: vec![0; usize::from(members) + 1],
        }
    }

    /// Forgets everything but who collects now: the beginning of what is measured.
    pub(super) fn restart(&mut self, now: Nanos) {
        (self.start, self.slice, self.touched) = (now, 0, self.active);
        self.by_members.fill(0);
    }

    /// Time has come to here.
    fn advance(&mut self, now: Nanos) {
        let slice = now.since(self.start).0 / SLICE.0;
        if slice > self.slice {
            self.by_members[self.touched.len() as usize] += 1;
            // Slices without events are counted at once, so the cost depends on events and not on time.
            self.by_members[self.active.len() as usize] += slice - self.slice - 1;
            (self.slice, self.touched) = (slice, self.active);
        }
    }

    /// A member begins or ends to collect. Notes come in order of time.
    pub(super) fn note(&mut self, note: CollectionNote) {
        let CollectionNote { at, dev, on } = note;
        self.advance(at);
        if on {
            self.active.insert(dev);
            self.touched.insert(dev);
        } else {
            self.active.remove(dev);
            // What ends where a slice begins has no part of it.
            if at.since(self.start).0.is_multiple_of(SLICE.0) {
                self.touched.remove(dev);
            }
        }
    }

    /// Returns the overlap up to `end`.
    pub(super) fn result(mut self, end: Nanos) -> OverlapResult {
        self.advance(end);
        if !end.since(self.start).0.is_multiple_of(SLICE.0) {
            self.by_members[self.touched.len() as usize] += 1;
        }
        let weighted = |least: u64| (least..).zip(&self.by_members[least as usize..]).map(|(n, count)| n * count).sum();
        let mean = |sum: u64, of: u64| (of > 0).then(|| sum as f64 / of as f64);
        let all: u64 = self.by_members.iter().sum();
        OverlapResult {
            slice: SLICE.0,
            mean_collecting: mean(weighted(1), all - self.by_members[0]),
            mean_together: mean(if self.by_members.len() > 2 { weighted(2) } else { 0 }, all),
            by_members: self.by_members,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_plan::Dev;

    fn of(members: u8, start: u64, end: u64, intervals: &[(u8, u64, u64)]) -> OverlapResult {
        let mut overlap = CollectionOverlap::new(members);
        let mut notes: Vec<_> = intervals
            .iter()
            .flat_map(|&(dev, from, to)| [(from, dev, true), (to, dev, false)])
            // An end comes before a begin.
            .collect();
        notes.sort_unstable_by_key(|&(at, dev, on)| (at, on, dev));
        let note = |&(at, dev, on): &(u64, u8, bool)| CollectionNote { at: Nanos(at), dev: Dev(dev), on };
        let (warm_up, rest): (Vec<_>, Vec<_>) = notes.iter().partition(|note| note.0 < start);
        for at in warm_up {
            overlap.note(note(at));
        }
        overlap.restart(Nanos(start));
        for at in rest.into_iter().filter(|note| note.0 < end) {
            overlap.note(note(at));
        }
        overlap.result(Nanos(end))
    }

    /// Slice by slice, each interval looked at.
    fn naive(members: u8, start: u64, end: u64, intervals: &[(u8, u64, u64)]) -> Vec<u64> {
        let mut by_members = vec![0; usize::from(members) + 1];
        for from in (start..end).step_by(SLICE.0 as usize) {
            let to = (from + SLICE.0).min(end);
            let here = |&&(_, begin, stop): &&(u8, u64, u64)| begin < to && stop > from;
            let devs: DevSet = intervals.iter().filter(here).map(|interval| Dev(interval.0)).collect();
            by_members[devs.len() as usize] += 1;
        }
        by_members
    }

    /// The example of specs §8.8: the first collects for 7.95 ms from 5 ms on, the second as long.
    #[test]
    fn two_members_at_the_same_time() {
        let both = of(2, 0, 20_000_000, &[(0, 5_000_000, 12_950_000), (1, 5_000_000, 12_950_000)]);
        assert_eq!(both.by_members, [120, 0, 80]);
        assert_eq!((both.mean_collecting, both.mean_together), (Some(2.0), Some(0.8)));
        let apart = of(2, 0, 20_000_000, &[(0, 0, 7_950_000), (1, 8_000_000, 15_950_000)]);
        assert_eq!(apart.by_members, [40, 160, 0]);
        assert_eq!((apart.mean_collecting, apart.mean_together), (Some(1.0), Some(0.0)));
    }

    #[test]
    fn nothing_collects_and_no_time() {
        let nothing = of(3, 0, 250_000, &[]);
        assert_eq!((nothing.by_members.as_slice(), nothing.mean_collecting), (&[3, 0, 0, 0][..], None));
        assert_eq!(nothing.mean_together, Some(0.0));
        assert_eq!(of(1, 5, 5, &[]).mean_together, None);
    }

    #[test]
    fn slices_are_counted_as_if_each_were_looked_at() {
        let mut state = 1_u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for _ in 0..2_000 {
            let members = 1 + below(5) as u8;
            let mut intervals = Vec::new();
            for dev in 0..members {
                let mut at = 0;
                for _ in 0..below(5) {
                    // Often at the edges of slices.
                    let from = at + below(4) * 50_000 + below(2) * below(90_000);
                    at = from + 1 + below(6) * 50_000;
                    if below(2) == 0 {
                        at = at.next_multiple_of(100_000);
                    }
                    intervals.push((dev, from, at));
                }
            }
            let start = below(4) * 50_000;
            let end = start + below(20) * 50_000 + below(2) * below(1_000);
            let ends = intervals.iter().filter(|interval| interval.2 > interval.1).copied().collect::<Vec<_>>();
            assert_eq!(
                of(members, start, end, &ends).by_members,
                naive(members, start, end, &ends),
                "{ends:?} {start} {end}"
            );
        }
    }
}
