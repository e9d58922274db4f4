//! The upper layer: data by groups, of which the parity knows nothing. How much there is, and which group
//! goes next (specs §8.1, §8.2).

use destage_plan::Frag;

use super::pool::{Pool, Recency};
use super::stow::Rings;
use super::streams::Streams;
use super::threshold::Threshold;

/// Groups of a run that are destaged at a time below the threshold, if so many may be at all.
const OF_A_RUN: u32 = 4;

/// How WOW has runs of sequential writes go on.
#[derive(Debug)]
struct Runs {
    streams: Streams,
    /// The group that was destaged last was written sequentially, and so was whatever could have been since.
    goes_on: bool,
}

impl Runs {
    /// Groups that may be under way since they are of a run.
    fn allowed(&mut self, pool: &Pool, under_way: usize, most: u32) -> u32 {
        if self.goes_on && under_way < most as usize {
            self.goes_on = pool.next().is_none_or(|group| pool.is_sequential(group));
        }
        if self.goes_on { most } else { 0 }
    }
}

/// What becomes of sequential writes.
#[derive(Debug)]
enum Sequential {
    /// They are as others.
    Ignored,
    /// They are told from others, in one ring with these.
    Told(Runs),
    /// They have a ring of their own.
    Apart(Box<Rings>),
}

/// A request that is let in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Its number.
    pub(super) number: u64,
    /// It goes on where an earlier one ended.
    pub(super) sequential: bool,
}

/// The upper layer.
#[derive(Debug)]
pub(super) struct Upper {
    /// All groups, or those that are in no other ring.
    pool: Pool,
    threshold: Threshold,
    /// Groups that are being destaged, with how many of their operations are left.
    under_way: Vec<(u64, u32)>,
    sequential: Sequential,
}

impl Upper {
    pub(super) fn new(pages: u64, threshold: Threshold) -> Self {
        Self { pool: Pool::new(pages, Recency::Hit), threshold, under_way: Vec::new(), sequential: Sequential::Ignored }
    }

    /// Tells sequential writes from others.
    pub(super) fn with_runs(self, streams: Streams) -> Self {
        Self { sequential: Sequential::Told(Runs { streams, goes_on: false }), ..self }
    }

    /// Keeps sequential writes apart.
    pub(super) fn with_rings(self, rings: Rings) -> Self {
        Self { sequential: Sequential::Apart(Box::new(rings)), ..self }
    }

    /// A write comes; whether it is sequential.
    pub(super) fn is_sequential(&mut self, frag: &Frag) -> bool {
        match &mut self.sequential {
            Sequential::Ignored => false,
            Sequential::Told(runs) => runs.streams.note(frag.page, frag.pages.into(), frag.sectors.is_some()) > 0,
            Sequential::Apart(rings) => rings.is_sequential(frag, &mut self.pool),
        }
    }

    /// Where a group is.
    fn of(&self, group: u64) -> &Pool {
        match &self.sequential {
            Sequential::Apart(rings) => rings.with(group).unwrap_or(&self.pool),
            _ => &self.pool,
        }
    }

    fn of_mut(&mut self, group: u64) -> &mut Pool {
        match &mut self.sequential {
            Sequential::Apart(rings) => rings.with_mut(group).unwrap_or(&mut self.pool),
            _ => &mut self.pool,
        }
    }

    /// Pages that it can hold.
    pub(super) const fn capacity(&self) -> u64 {
        self.pool.capacity()
    }

    /// Pages that there is room for.
    pub(super) const fn free(&self) -> u64 {
        match &self.sequential {
            Sequential::Apart(rings) => self.pool.free().saturating_sub(rings.held()),
            _ => self.pool.free(),
        }
    }

    /// As [`Pool::has`].
    pub(super) fn has(&self, group: u64, index: u32) -> bool {
        self.of(group).has(group, index)
    }

    /// As [`Pool::takes_room`].
    pub(super) fn takes_room(&self, group: u64, index: u32) -> bool {
        self.of(group).takes_room(group, index)
    }

    /// As [`Pool::admit`].
    pub(super) fn admit(&mut self, group: u64, index: u32, request: Request) -> bool {
        match &mut self.sequential {
            Sequential::Apart(rings) => rings.admit(group, index, request, &mut self.pool),
            _ => self.pool.admit(group, index, request.number, request.sequential),
        }
    }

    /// As [`Pool::load`].
    pub(super) fn load(&mut self, group: u64, index: u32) {
        self.of_mut(group).load(group, index);
    }

    /// As [`Pool::came`].
    pub(super) fn came(&mut self, group: u64, index: u32) {
        self.of_mut(group).came(group, index);
    }

    /// As [`Pool::take_back`].
    pub(super) fn take_back(&mut self, group: u64, index: u32, is_held: bool) {
        self.of_mut(group).take_back(group, index, is_held);
    }

    /// As [`Pool::gone`].
    pub(super) fn gone(&mut self, group: u64, index: u32) {
        self.of_mut(group).gone(group, index);
    }

    /// The group that is destaged now, if one is: as many at a time as the threshold has it, or may be if it
    /// does not matter. Whether it is of the sequential ring.
    pub(super) fn next(&mut self, at_once: bool) -> Option<(u64, bool)> {
        let Self { pool, threshold, under_way, sequential } = self;
        let under_way = under_way.len();
        if let Sequential::Apart(rings) = sequential {
            return rings.next(pool, threshold, under_way, at_once);
        }
        let mut allowed = if at_once { threshold.most } else { threshold.allowed(pool.held(), pool.capacity()) };
        if allowed == 0
            && let Sequential::Told(runs) = sequential
        {
            allowed = runs.allowed(pool, under_way, threshold.most.min(OF_A_RUN));
        }
        if under_way >= allowed as usize {
            return None;
        }
        let group = pool.advance()?;
        if let Sequential::Told(runs) = sequential {
            runs.goes_on = pool.is_sequential(group);
        }
        Some((group, false))
    }

    /// The group is being destaged: its pages are under way, and appended.
    pub(super) fn depart(&mut self, group: u64, indices: &mut Vec<u32>) {
        self.of_mut(group).depart(group, indices);
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
        self.of_mut(group).landed(group, is_held);
        true
    }
}
