//! Tells what the drive holds and is doing, and begins a run.

use destage_plan::{Nanos, PageNo, PlacementStream};

use super::super::clock::ElementClock;
use super::super::pool::PageStates;
use super::die::DieQueue;
use super::superblocks::HELD;
use super::{ModernDrive, PlacedStream};
use crate::experiment::{StopSignal, is_told};

/// Sets the sectors that are filled before it is looked whether filling is to end.
const UNTIL_LOOK: usize = 1 << 14;

impl ModernDrive {
    /// Writes every sector that hosts can address, in ascending order, unless it is told to end.
    pub(in super::super) fn fill(&mut self, stop: Option<&StopSignal>) {
        for first in (0..self.shape.host_pages).step_by(UNTIL_LOOK).take_while(|_| !is_told(stop)) {
            for sector in first..self.shape.host_pages.min(first.saturating_add(UNTIL_LOOK as u32)) {
                self.program(Nanos::ZERO, PageNo(sector));
            }
        }
    }

    /// Begins a run: times, counters and wear begin anew, and time passes from now on; what the flash holds stays, and so
    /// do the sectors that are in the cache.
    pub(in super::super) fn begin_run(&mut self) {
        self.is_timed = true;
        self.clocks.iter_mut().for_each(ElementClock::reset);
        self.map.superblocks.iter_mut().for_each(|own| own.erases = 0);
        self.front.reset();
        self.reset_streams();
        self.admitted = 0;
        self.occupied = self.map.of_hosts_in_open_units() + self.held.len() as u32;
    }

    /// Labels the writes that come from now on, if the drive heeds labels.
    #[inline]
    pub(in super::super) fn label_writes(&mut self, stream: PlacementStream) {
        if let Some(placement) = &mut self.placement {
            placement.stream = stream;
        }
    }

    /// Returns true if the drive heeds the labels of writes.
    pub(in super::super) fn has_placement(&self) -> bool {
        self.placement.is_some()
    }

    /// Returns the streams of which something was written or copied, in the order of their numbers.
    pub(in super::super) fn streams(&self) -> impl Iterator<Item = PlacedStream> {
        self.placement.iter().flat_map(|placement| placement.streams())
    }

    /// Forgets what was counted of streams.
    pub(in super::super) fn reset_streams(&mut self) {
        if let Some(placement) = &mut self.placement {
            placement.reset_counters();
        }
    }

    pub(in super::super) fn clock(&self, element: usize) -> &ElementClock {
        &self.clocks[element]
    }

    pub(in super::super) fn clock_mut(&mut self, element: usize) -> &mut ElementClock {
        &mut self.clocks[element]
    }

    /// Returns the sector's entry in the map, which an operation on it looks at first.
    #[inline]
    pub(in super::super) fn prefetch(&self, page: PageNo) -> u32 {
        self.map.physical(page.0)
    }

    /// Returns the die that holds the sector, or would receive it.
    pub(in super::super) fn element_of_page(&self, page: PageNo) -> u32 {
        let physical = self.map.physical(page.0);
        if physical < HELD { self.map.place(physical).die } else { self.map.next_die() }
    }

    /// Returns the die that the next sector of hosts goes to, whichever that is.
    pub(in super::super) fn target(&self) -> u32 {
        self.map.next_die()
    }

    /// Returns until when a die has something to do, if no further reads come.
    pub(in super::super) fn busy_until(&self, die: usize) -> Nanos {
        Nanos(self.dies[die].idle_at())
    }

    /// Returns when all dies have done what they have to do.
    pub(in super::super) fn idle_at(&self) -> Nanos {
        Nanos(self.dies.iter().map(DieQueue::idle_at).max().unwrap_or_default())
    }

    /// Returns the end of the slice of collection that is under way on the die.
    #[inline]
    pub(in super::super) fn slice_under_way(&self, die: usize, now: Nanos) -> Option<Nanos> {
        self.dies[die].slice_under_way(now.0).map(Nanos)
    }

    /// Returns the first end of the slices that are under way.
    pub(in super::super) fn first_end_under_way(&self, now: Nanos) -> Option<Nanos> {
        self.dies.iter().filter_map(|die| die.slice_under_way(now.0)).min().map(Nanos)
    }

    /// Remembers the ends of all slices until [`Self::forget_slice`].
    pub(in super::super) fn watch_slices(&mut self) {
        self.dies.iter_mut().for_each(DieQueue::watch_slices);
        self.is_watched = true;
        self.slice_end = 0;
    }

    /// Returns the first slice that has ended by `now` and was not forgotten: its end, and its die; of several that end at the
    /// same time that of the lowest die.
    #[inline]
    pub(in super::super) fn first_ended_slice(&mut self, now: Nanos) -> Option<(Nanos, u32)> {
        // Most requests ask in vain: dies are looked at only if a slice can have ended.
        if now.0 < self.slice_end { None } else { self.look_for_ended_slice(now) }
    }

    #[cold]
    fn look_for_ended_slice(&mut self, now: Nanos) -> Option<(Nanos, u32)> {
        let ends = self.dies.iter().zip(0..).filter_map(|(own, die)| own.first_slice().map(|(_, end)| (end, die)));
        let first = ends.min();
        self.slice_end = first.map_or(u64::MAX, |(end, _)| end);
        first.filter(|&(end, _)| end <= now.0).map(|(end, die)| (Nanos(end), die))
    }

    /// Forgets the die's first slice that has ended.
    pub(in super::super) fn forget_slice(&mut self, die: usize) {
        self.occupied -= self.dies[die].forget_slice();
        self.slice_end = 0;
    }

    /// Returns how many superblocks are free, each of them a block of every die.
    pub(in super::super) fn free_blocks(&self) -> u32 {
        self.map.free()
    }

    /// Returns the erases of every block since the start of the run: a superblock has one on each die.
    pub(in super::super) fn erases(&self) -> impl Iterator<Item = u32> {
        let dies = self.map.dies() as usize;
        self.map.superblocks.iter().flat_map(move |own| std::iter::repeat_n(own.erases, dies))
    }

    pub(in super::super) fn page_states(&self) -> PageStates {
        self.map.states()
    }

    /// Checks that map and inverse agree, that exactly the mapped sectors are valid, and that the cache holds what it says.
    pub(in super::super) fn check(&self) -> Result<(), String> {
        self.map.check()?;
        if let Some(&sector) = self.held.iter().find(|&&sector| self.map.physical(sector) != HELD) {
            return Err(format!("sector {sector} is held back, and mapped"));
        }
        let freeing: u32 = self.dies.iter().map(DieQueue::freeing).sum();
        let held = freeing + self.map.of_hosts_in_open_units() + self.held.len() as u32;
        if held == self.occupied {
            Ok(())
        } else {
            Err(format!("the write cache holds {held} sectors and counts {}", self.occupied))
        }
    }
}
