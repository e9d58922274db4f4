//! The upper layer: data by groups, of which the parity knows nothing. How much there is, and which group
//! goes next (specs §8.1, §8.2).

use super::pool::{Pool, Recency};
use super::threshold::Threshold;

/// The upper layer.
#[derive(Debug)]
pub(super) struct Upper {
    pool: Pool,
    threshold: Threshold,
    /// Groups that are being destaged, with how many of their operations are left.
    under_way: Vec<(u64, u32)>,
}

impl Upper {
    pub(super) fn new(pages: u64, threshold: Threshold) -> Self {
        Self { pool: Pool::new(pages, Recency::Hit), threshold, under_way: Vec::new() }
    }

    /// Pages that it can hold.
    pub(super) const fn capacity(&self) -> u64 {
        self.pool.capacity()
    }

    /// Pages that there is room for.
    pub(super) const fn free(&self) -> u64 {
        self.pool.free()
    }

    /// As [`Pool::has`].
    pub(super) fn has(&self, group: u64, index: u32) -> bool {
        self.pool.has(group, index)
    }

    /// As [`Pool::takes_room`].
    pub(super) fn takes_room(&self, group: u64, index: u32) -> bool {
        self.pool.takes_room(group, index)
    }

    /// As [`Pool::admit`].
    pub(super) fn admit(&mut self, group: u64, index: u32, request: u64) -> bool {
        self.pool.admit(group, index, request)
    }

    /// As [`Pool::load`].
    pub(super) fn load(&mut self, group: u64, index: u32) {
        self.pool.load(group, index);
    }

    /// As [`Pool::came`].
    pub(super) fn came(&mut self, group: u64, index: u32) {
        self.pool.came(group, index);
    }

    /// As [`Pool::take_back`].
    pub(super) fn take_back(&mut self, group: u64, index: u32, is_held: bool) {
        self.pool.take_back(group, index, is_held);
    }

    /// As [`Pool::gone`].
    pub(super) fn gone(&mut self, group: u64, index: u32) {
        self.pool.gone(group, index);
    }

    /// The group that is destaged now, if one is: as many at a time as the threshold has it, or may be if it
    /// does not matter.
    pub(super) fn next(&mut self, at_once: bool) -> Option<u64> {
        let Self { pool, threshold, under_way } = self;
        let allowed = if at_once { threshold.most } else { threshold.allowed(pool.held(), pool.capacity()) };
        if under_way.len() >= allowed as usize {
            return None;
        }
        pool.advance()
    }

    /// The group is being destaged: its pages are under way, and appended.
    pub(super) fn depart(&mut self, group: u64, indices: &mut Vec<u32>) {
        self.pool.depart(group, indices);
    }

    /// So many operations destage the group.
    pub(super) fn departed(&mut self, group: u64, parts: u32) {
        self.under_way.push((group, parts));
    }

    /// One of the operations that destage a group is done; whether it was the last. `is_held` is that of
    /// [`Pool::landed`].
    pub(super) fn part_done(&mut self, group: u64, is_held: impl Fn(u32) -> bool) -> bool {
        let Some(at) = self.under_way.iter().position(|(other, _)| *other == group) else { return false };
        self.under_way[at].1 -= 1;
        if self.under_way[at].1 > 0 {
            return false;
        }
        self.under_way.swap_remove(at);
        self.pool.landed(group, is_held);
        true
    }
}
