//! Merges: how a log block is reclaimed, and what that costs each element.
//!
//! What belongs to the reclaiming of one log block is one collection of each element that takes
//! part, and is counted where that log block is. With channels a page may be copied from one
//! element to another. What an element reads for others comes first; an element that receives pages
//! goes on when all of these have been read. An old block is erased behind what its element does
//! otherwise, not when the last copy elsewhere is programmed: an element serves operations in order
//! and cannot do something else in between.

use destage_plan::Nanos;

use super::{LogBlock, LogBlocks, NONE, UNMAPPED};
use crate::ssd::ElementCollection;

/// Collects the work of the current collection for each element.
#[derive(Clone, Debug)]
pub(super) struct MergeWork {
    shares: Vec<ElementShare>,
    /// Elements with a share.
    touched: Vec<u32>,
}

/// Holds the work of the current collection for one element.
#[derive(Clone, Copy, Debug, Default)]
struct ElementShare {
    takes_part: bool,
    /// Pages that are read for other elements.
    reads: u32,
    /// Pages come from other elements.
    receives: bool,
    /// Copies, programs and erases.
    time: Nanos,
    start: Nanos,
}

impl MergeWork {
    pub(super) fn new(elements: u32) -> Self {
        Self {
            shares: vec![ElementShare::default(); elements as usize],
            touched: Vec::with_capacity(elements as usize),
        }
    }

    #[inline]
    fn of(&mut self, element: u32) -> &mut ElementShare {
        let share = &mut self.shares[element as usize];
        if !share.takes_part {
            share.takes_part = true;
            self.touched.push(element);
        }
        share
    }
}

impl LogBlocks {
    /// Reclaims a log block that is a block's own: switch, partial or full merge, or nothing but an
    /// erase where none of its pages is valid.
    pub(super) fn reclaim_own(&mut self, now: Nanos, log: u32) {
        let element = self.flash.element_of(log);
        let LogBlock { owner, in_order, .. } = self.logs[log as usize];
        self.let_go(log);
        // Nothing valid is left to copy.
        if !self.flash.pages(log).any(|(page, held)| self.map[held as usize] == page) {
            self.erase(log);
        } else if in_order {
            self.promote(log);
        } else {
            self.merge_fully(owner, element);
            self.erase(log);
        }
        self.finish(now, element);
    }

    /// The log block is its owner's no more, nor waits to be reclaimed.
    pub(super) fn let_go(&mut self, log: u32) {
        let element = self.flash.element_of(log);
        self.own_log[self.logs[log as usize].owner as usize] = NONE;
        if self.sequential[element as usize] == log {
            self.sequential[element as usize] = NONE;
        } else {
            self.queues.remove(element, log);
        }
    }

    /// Switch or partial merge: a log block that holds the first pages of its owner in order
    /// receives the newest versions of those that it lacks, and takes the data block's place.
    pub(super) fn promote(&mut self, log: u32) {
        let LogBlock { owner, written, .. } = self.logs[log as usize];
        let counters = &mut self.clocks[self.flash.element_of(log) as usize].counters;
        if written == self.shape.pages_per_block {
            counters.switch_merges += 1;
        } else {
            counters.partial_merges += 1;
        }
        self.copy_from(owner, written, log);
        // The log block itself becomes the data block, so a switch copies nothing.
        let old = std::mem::replace(&mut self.data[owner as usize], log);
        self.erase(old);
    }

    /// Full merge: the newest version of every page of the block is copied into a free block of
    /// this element, which takes the data block's place.
    pub(super) fn merge_fully(&mut self, block: u32, element: u32) {
        self.clocks[element as usize].counters.full_merges += 1;
        let new = self.flash.take(element);
        self.copy_from(block, 0, new);
        let old = std::mem::replace(&mut self.data[block as usize], new);
        self.erase(old);
    }

    /// Copies the pages of a block from this offset on, each to its place. A page that was trimmed
    /// or never written leaves its place erased.
    fn copy_from(&mut self, block: u32, offset: u32, to: u32) {
        let n = self.shape.pages_per_block;
        let (to_element, to_plane) = (self.flash.element_of(to), self.flash.plane_of(to));
        let (mut inside, mut across, mut received) = (0, 0, 0);
        for offset in offset..n {
            let logical = block * n + offset;
            let from = self.map[logical as usize];
            if from == UNMAPPED {
                continue;
            }
            let from = self.flash.block_of(from);
            if self.flash.plane_of(from) == to_plane {
                inside += 1;
            } else {
                let element = self.flash.element_of(from);
                if element == to_element {
                    across += 1;
                } else {
                    // A copy between elements is a read here and a program there; neither knows the other's
                    // pages.
                    self.work.of(element).reads += 1;
                    received += 1;
                }
            }
            let page = self.flash.page(to, offset);
            self.flash.program(page, logical);
            self.map[logical as usize] = page;
        }
        if inside + across + received == 0 {
            return;
        }
        let cost = &self.cost;
        let time = cost.copy_inside.0 * inside + cost.copy_across.0 * across + cost.program.0 * received;
        let share = self.work.of(to_element);
        share.time += Nanos(time);
        share.receives |= received > 0;
        self.clocks[to_element as usize].counters.gc_pages_moved += inside + across + received;
    }

    pub(super) fn erase(&mut self, block: u32) {
        let element = self.flash.element_of(block);
        self.flash.erase(block);
        self.clocks[element as usize].counters.erases += 1;
        self.work.of(element).time += self.shape.config.erase;
    }

    /// Charges the elements with what was done; the log block that was reclaimed was in element
    /// `at`.
    pub(super) fn finish(&mut self, now: Nanos, at: u32) {
        let reading = |share: &ElementShare| Nanos(self.cost.read.0 * u64::from(share.reads));
        let mut all_read = now;
        for &element in &self.work.touched {
            let (share, clock) = (&mut self.work.shares[element as usize], &mut self.clocks[element as usize]);
            // All reads for others are charged before any program, since an element programs what others
            // have read.
            share.start = clock.busy_until().max(now);
            if share.reads > 0 {
                all_read = all_read.max(clock.occupy(0, now, reading(share)));
            }
        }
        for element in self.work.touched.drain(..) {
            let share = std::mem::take(&mut self.work.shares[element as usize]);
            // The reclaimed block counts once, where it was.
            let blocks = u32::from(element == at);
            let clock = &mut self.clocks[element as usize];
            let end = clock.occupy(0, if share.receives { all_read } else { now }, share.time);
            clock.collects(now, ElementCollection { start: share.start, end, blocks });
            clock.counters.gc_time += reading(&share) + share.time;
        }
        self.clocks[at as usize].counters.gc_invocations += 1;
    }
}
