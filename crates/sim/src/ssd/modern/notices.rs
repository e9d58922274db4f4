//! Tells of slices of collection as they begin and end, though reads that come meanwhile delay them.
//!
//! Invariants:
//! * Each die with a slice that was not told of has one entry, whose time is no later than that of its next notice: reads
//!   delay slices, and nothing advances them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use destage_plan::Nanos;

use super::ModernDrive;
use super::die::DieQueue;

/// Holds when which die may have something to tell.
#[derive(Clone, Debug)]
pub(super) struct SliceNotices {
    /// Bounds of the times from below, in ns, with the dies.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// Says for each die whether it has an entry.
    expected: Vec<bool>,
    /// Says for each die whether it was told that the first slice begins.
    begun: Vec<bool>,
}

impl SliceNotices {
    /// Expects notices of a die from `at` on, if none are expected yet.
    pub(super) fn expect(&mut self, at: u64, die: u32) {
        if !std::mem::replace(&mut self.expected[die as usize], true) {
            self.due.push(Reverse((at, die)));
        }
    }
}

impl ModernDrive {
    /// Tells of slices from now on.
    pub(in super::super) fn note_slices(&mut self) {
        let dies = self.dies.len();
        let (due, expected, begun) = (BinaryHeap::with_capacity(dies), vec![false; dies], vec![false; dies]);
        self.notices = Some(SliceNotices { due, expected, begun });
        self.dies.iter_mut().for_each(DieQueue::watch_slices);
    }

    /// Returns a time before which there is no notice of a slice; none if none is under way.
    #[inline]
    pub(in super::super) fn next_slice_notice(&self) -> Option<Nanos> {
        self.notices.as_ref()?.due.peek().map(|due| Nanos(due.0.0))
    }

    /// Takes a notice of `now`, which is the [next](Self::next_slice_notice) time: the die, and whether a slice begins there;
    /// none if reads have delayed it. A read that comes at that very time still goes before the slice.
    pub(in super::super) fn take_slice_notice(&mut self, now: Nanos) -> Option<(u32, bool)> {
        let notices = self.notices.as_mut()?;
        let Reverse((_, die)) = notices.due.pop()?;
        let index = die as usize;
        let Some((begin, end)) = self.dies[index].first_slice() else {
            notices.expected[index] = false;
            return None;
        };
        let is_begin = !notices.begun[index];
        let at = if is_begin { begin } else { end };
        if at > now.0 {
            notices.due.push(Reverse((at, die)));
            return None;
        }
        notices.begun[index] = is_begin;
        if !is_begin {
            self.occupied -= self.dies[index].forget_slice();
        }
        let notices = self.notices.as_mut()?;
        match self.dies[index].first_slice() {
            Some((begin, end)) => notices.due.push(Reverse((if is_begin { end } else { begin }, die))),
            None => notices.expected[index] = false,
        }
        Some((die, is_begin))
    }

    /// Returns the time for which the last read or write of a host waited for slices of collection.
    pub(in super::super) fn waited_for_slices(&self) -> Nanos {
        Nanos(self.waited)
    }
}
