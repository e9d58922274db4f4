//! An element (a flash package) of the page-mapping SSD. A pool is the blocks behind a write point of
//! hosts: the whole element, or with copy-back one of its planes. A lane is what the element can do
//! at a time: with copy-back as many planes can work at once as it has lanes.
//!
//! The page map is the SSD's: with channels a page can move from one element to another.

use destage_plan::{Nanos, Quota};

use super::clock::{ElementClock, ElementCollection};
use super::cost::CollectionCost;
use super::divisor::FastDivisor;
use super::geometry::{CollectionPoint, SsdShape};
use super::pool::{BlockPool, PageStates};

/// A logical page without a place.
pub(super) const UNMAPPED: u32 = u32::MAX;

/// Holds the content and the state of one element.
#[derive(Clone, Debug)]
pub(super) struct ElementState {
    cost: CollectionCost,
    pages_per_block: FastDivisor,
    pool_blocks: FastDivisor,
    /// The SSD's number of this element's first physical page.
    base: u32,
    /// Physical page of the element → logical page, that is the entry of the SSD's map; meaningful
    /// where the physical page is valid.
    holds: Vec<u32>,
    pools: Vec<BlockPool>,
    /// Until when each lane is busy. Several pools can share a lane, and then take turns.
    pub(super) clock: ElementClock,
    /// With several pools: where the search for the emptiest begins, and where each lane's turn
    /// stands.
    next_pool: u32,
    lane_turn: Vec<u32>,
}

impl ElementState {
    /// Element `number`, with all blocks clean.
    pub(super) fn empty(shape: &SsdShape, number: u32) -> Self {
        let lanes = if shape.config.copy_back { shape.config.lanes } else { 1 };
        let blocks = shape.pools as usize * shape.pool_blocks as usize;
        let own_point = shape.config.collection_write_point == CollectionPoint::Own;
        let pool = BlockPool::new(shape.pool_blocks, shape.pages_per_block, shape.data_pages, own_point);
        Self {
            cost: CollectionCost::of(shape),
            pages_per_block: FastDivisor::new(shape.pages_per_block),
            pool_blocks: FastDivisor::new(shape.pool_blocks),
            base: number * shape.raw_pages,
            holds: vec![UNMAPPED; blocks * shape.pages_per_block as usize],
            pools: vec![pool; shape.pools as usize],
            clock: ElementClock::new(lanes),
            next_pool: 0,
            lane_turn: (0..lanes).collect(),
        }
    }

    /// Maps the entries that `entries` yields in ascending order, each pool's share of what the
    /// element exports into that pool, which leaves the reserved blocks free.
    pub(super) fn fill(&mut self, shape: &SsdShape, map: &mut [u32], mut entries: impl ExactSizeIterator<Item = u32>) {
        // Planes are filled alike, so that each keeps its share of the reserve.
        let per_pool = shape.element_pages.div_ceil(shape.pools);
        let (mut at, end) = (0, entries.len() as u32);
        while at < end {
            let pool = at / per_pool;
            let left_for_pool = (per_pool - at % per_pool).min(end - at);
            let run = self.pools[pool as usize].program_run(left_for_pool);
            let first = Self::physical(shape, pool as usize, run.block, run.page);
            for (ppn, entry) in (first..first + run.pages).zip(entries.by_ref()) {
                map[entry as usize] = self.base + ppn;
                self.holds[ppn as usize] = entry;
            }
            at += run.pages;
        }
    }

    /// Forgets times, counters and wear, not what the flash holds: the start of a run.
    pub(super) fn begin_run(&mut self) {
        self.clock.reset();
        for pool in &mut self.pools {
            pool.reset_wear();
        }
    }

    #[inline]
    fn lane_of(&self, pool: usize) -> usize {
        if self.clock.lanes() == 1 { 0 } else { pool % self.clock.lanes() }
    }

    #[inline]
    fn physical(shape: &SsdShape, pool: usize, block: u32, page: u32) -> u32 {
        (pool as u32 * shape.pool_blocks + block) * shape.pages_per_block + page
    }

    /// Returns the place of a physical page: pool, block in the pool, page in the block.
    #[inline]
    fn locate(&self, ppn: u32) -> (usize, u32, u32) {
        let (block, page) = self.pages_per_block.divide(ppn);
        if self.pools.len() == 1 {
            return (0, block, page);
        }
        let (pool, block) = self.pool_blocks.divide(block);
        (pool as usize, block, page)
    }

    /// The physical page, by the SSD's number, is outdated.
    #[inline(always)]
    pub(super) fn invalidate(&mut self, ppn: u32) {
        let (pool, block, page) = self.locate(ppn - self.base);
        self.pools[pool].invalidate(block, page);
    }

    /// Programs `entry` at the pool's write point; returns whether that filled the block.
    #[inline(always)]
    fn place(&mut self, shape: &SsdShape, map: &mut [u32], pool: usize, entry: u32) -> bool {
        let at = self.pools[pool].program();
        let ppn = Self::physical(shape, pool, at.block, at.page);
        map[entry as usize] = self.base + ppn;
        self.holds[ppn as usize] = entry;
        at.sealed
    }

    /// The pool that receives the next host page: with several the one with the most free blocks,
    /// in turn. `None` if no pool has room.
    #[inline(always)]
    fn pool_for_write(&mut self) -> Option<usize> {
        let pools = self.pools.len() as u32;
        // Without copy-back an element is one pool, and this is asked for every page.
        if pools == 1 {
            return Some(0);
        }
        let best = (0..pools)
            .map(|i| (self.next_pool + i) % pools)
            .filter(|&p| self.pools[p as usize].has_room())
            .reduce(|best, p| {
                let more = self.pools[p as usize].free_blocks() > self.pools[best as usize].free_blocks();
                if more { p } else { best }
            })?;
        self.next_pool = (best + 1) % pools;
        Some(best as usize)
    }

    /// Collects until a pool has room for a host's page, and chooses that one. With write points of their own for
    /// collection, what it gains in several planes may lie in its active blocks, where hosts' pages do not go.
    #[cold]
    fn collect_for_room(&mut self, shape: &SsdShape, map: &mut [u32], now: Nanos) -> usize {
        loop {
            let before = self.clock.counters.erases;
            self.collect_planes(shape, map, now, self.next_pool as usize);
            if let Some(pool) = self.pool_for_write() {
                return pool;
            }
            assert!(self.clock.counters.erases > before, "the reserve keeps some pool from being full");
        }
    }

    /// Reads the page of the SSD's number `ppn`, or [`UNMAPPED`]; returns when its data is there.
    #[inline]
    pub(super) fn read(&mut self, shape: &SsdShape, map: &mut [u32], now: Nanos, ppn: u32) -> Nanos {
        if ppn == UNMAPPED {
            // A page that was never written has no flash page to read; the count shows how often that
            // happens.
            self.clock.counters.unmapped_reads += 1;
            return now;
        }
        let (pool, _, _) = self.locate(ppn - self.base);
        // Collection comes before the operation that finds too few free blocks, even a read: operations
        // keep their order.
        self.collect_if_due(shape, map, now, pool);
        self.clock.counters.flash_reads += 1;
        self.occupy(pool, now, self.cost.read)
    }

    /// Chooses the pool for a page that is about to be programmed, and collects if that is due.
    #[inline(always)]
    pub(super) fn make_room(&mut self, shape: &SsdShape, map: &mut [u32], now: Nanos) -> usize {
        let pool = match self.pool_for_write() {
            Some(pool) => pool,
            None => self.collect_for_room(shape, map, now),
        };
        self.collect_if_due(shape, map, now, pool);
        pool
    }

    /// Programs a page, whose old copy was invalidated, into the pool that [`Self::make_room`]
    /// chose; returns when it is done.
    #[inline(always)]
    pub(super) fn program(&mut self, shape: &SsdShape, map: &mut [u32], now: Nanos, pool: usize, entry: u32) -> Nanos {
        let sealed = self.place(shape, map, pool, entry);
        self.clock.counters.host_programs += 1;
        let mut done = self.occupy(pool, now, self.cost.program);
        if sealed && shape.config.summary_page {
            // The summary is part of the write that fills the block.
            self.clock.counters.summary_programs += 1;
            done = self.occupy(pool, now, self.cost.summary);
        }
        if shape.config.background {
            // The collection begins as soon as the element has done what it has to do, not when the
            // next host operation is waiting.
            self.collect_if_due(shape, map, now, pool);
        }
        done
    }

    #[inline]
    fn occupy(&mut self, pool: usize, now: Nanos, time: Nanos) -> Nanos {
        let lane = self.lane_of(pool);
        self.clock.occupy(lane, now, time)
    }

    /// Collects before an operation of this pool is issued, if its free blocks have come down to
    /// the threshold.
    #[inline(always)]
    fn collect_if_due(&mut self, shape: &SsdShape, map: &mut [u32], now: Nanos, pool: usize) {
        if self.pools[pool].free_blocks() <= shape.pool_low {
            if shape.config.copy_back {
                self.collect_planes(shape, map, now, pool);
            } else {
                self.collect_element(shape, map, now);
            }
        }
    }

    /// Cleans one block after the other, copy-back off: as many as the settings say, or until more than `low + 1`
    /// are free. The element does nothing else meanwhile.
    #[cold]
    fn collect_element(&mut self, shape: &SsdShape, map: &mut [u32], now: Nanos) {
        self.collect_one_by_one(shape, map, now, shape.config.collection_batch);
    }

    fn collect_one_by_one(&mut self, shape: &SsdShape, map: &mut [u32], now: Nanos, quota: Quota) {
        let (mut time, mut cleaned) = (Nanos::ZERO, 0);
        loop {
            let goes_on = match quota {
                Quota::Blocks(blocks) => cleaned < blocks,
                Quota::Watermark => self.pools[0].free_blocks() <= shape.pool_low + 1,
            };
            if !goes_on {
                break;
            }
            let Some(cost) = self.clean_one(shape, map, 0) else { break };
            time += cost;
            cleaned += 1;
        }
        self.collected(now, time, cleaned);
    }

    /// Collects because it is told to, as much as can be gained; returns when everything that the element has
    /// to do is done.
    pub(super) fn collect(&mut self, shape: &SsdShape, map: &mut [u32], now: Nanos, quota: Quota) -> Nanos {
        let before = self.clock.counters.erases;
        if self.clock.lanes() == 1 && self.pools.len() == 1 {
            self.collect_one_by_one(shape, map, now, quota);
        } else {
            self.collect_by_lanes(shape, map, now, quota);
        }
        self.clock.counters.ordered_erases += self.clock.counters.erases - before;
        self.clock.busy_until().max(now)
    }

    /// Copy-back on: lanes in turn, and each lane's planes in turn, as long as one can gain something.
    fn collect_by_lanes(&mut self, shape: &SsdShape, map: &mut [u32], now: Nanos, quota: Quota) {
        let lanes = self.clock.lanes();
        let mut times = vec![Nanos::ZERO; lanes];
        let (mut cleaned, mut lane, mut idle) = (0, 0, 0);
        while idle < lanes && quota != Quota::Blocks(cleaned) {
            let cost = self.clean_next_plane(shape, map, lane, quota);
            times[lane] += cost.unwrap_or_default();
            cleaned += u32::from(cost.is_some());
            idle = if cost.is_some() { 0 } else { idle + 1 };
            lane = (lane + 1) % lanes;
        }
        self.collected(now, times.into_iter().max().unwrap_or_default(), cleaned);
    }

    fn clean_next_plane(&mut self, shape: &SsdShape, map: &mut [u32], lane: usize, quota: Quota) -> Option<Nanos> {
        let lanes = self.clock.lanes() as u32;
        for _ in 0..shape.pools.div_ceil(lanes) {
            let here = self.lane_turn[lane];
            self.lane_turn[lane] = if here + lanes < shape.pools { here + lanes } else { lane as u32 };
            let wanted = quota != Quota::Watermark || self.pools[here as usize].free_blocks() <= shape.pool_low;
            if here < shape.pools
                && wanted
                && let Some(cost) = self.clean_one(shape, map, here as usize)
            {
                return Some(cost);
            }
        }
        None
    }

    /// Cleans one plane of every lane that is due, copy-back on, the lane's planes in turn: as many of its blocks as
    /// the settings say, or one. The element does nothing else until the slowest lane is done.
    #[cold]
    fn collect_planes(&mut self, shape: &SsdShape, map: &mut [u32], now: Nanos, due: usize) {
        let lanes = self.clock.lanes() as u32;
        let (mut slowest, mut cleaned) = (Nanos::ZERO, 0);
        for lane in 0..lanes {
            let turns = shape.pools.div_ceil(lanes);
            let mut plane = self.lane_turn[lane as usize];
            if self.lane_of(due) == lane as usize {
                plane = due as u32;
            }
            for _ in 0..turns {
                let here = plane;
                plane = if plane + lanes < shape.pools { plane + lanes } else { lane };
                if self.pools[here as usize].free_blocks() <= shape.pool_low
                    && let Some((cost, blocks)) = self.clean_batch(shape, map, here as usize)
                {
                    slowest = slowest.max(cost);
                    cleaned += blocks;
                    break;
                }
            }
            self.lane_turn[lane as usize] = plane;
        }
        self.collected(now, slowest, cleaned);
    }

    /// Cleans a plane's batch; returns the time and the blocks cleaned, or `None` if no block gains anything.
    fn clean_batch(&mut self, shape: &SsdShape, map: &mut [u32], pool: usize) -> Option<(Nanos, u32)> {
        let most = match shape.config.collection_batch {
            Quota::Blocks(blocks) => blocks,
            Quota::Watermark => 1,
        };
        let (mut time, mut cleaned) = (self.clean_one(shape, map, pool)?, 1);
        while cleaned < most
            && let Some(cost) = self.clean_one(shape, map, pool)
        {
            time += cost;
            cleaned += 1;
        }
        Some((time, cleaned))
    }

    /// So many blocks were cleaned in this time, during which the element does nothing else.
    fn collected(&mut self, now: Nanos, time: Nanos, blocks: u32) {
        if blocks == 0 {
            return;
        }
        // A collection occupies all lanes until the slowest is done.
        let start = self.clock.occupy_all(now, time);
        self.clock.counters.gc_invocations += 1;
        self.clock.counters.gc_time += time;
        self.clock.collects(now, ElementCollection { start, end: start + time, blocks });
    }

    /// Moves the valid pages of the pool's best victim and erases it; returns the time it takes.
    fn clean_one(&mut self, shape: &SsdShape, map: &mut [u32], pool: usize) -> Option<Nanos> {
        let (c, cost, blocks) = (&shape.config, self.cost, &mut self.pools[pool]);
        let victim = blocks.take_victim()?;
        let plane_of = |block: u32| block / c.blocks_per_plane;
        let victims_first = Self::physical(shape, pool, victim, 0);
        let mut time = c.erase;
        let (mut left, mut from) = (blocks.valid_pages(victim), 0);
        self.clock.counters.gc_pages_moved += u64::from(left);
        blocks.switch_write_point();
        while left > 0 {
            let run = blocks.program_run(left);
            let first = Self::physical(shape, pool, run.block, run.page);
            for ppn in first..first + run.pages {
                let page = blocks.valid_from(victim, from).expect("as many pages as are valid");
                from = page + 1;
                let entry = self.holds[(victims_first + page) as usize];
                map[entry as usize] = self.base + ppn;
                self.holds[ppn as usize] = entry;
            }
            // A copy inside a plane saves the transfer over the pins.
            let inside = c.copy_back || plane_of(run.block) == plane_of(victim);
            let copy = if inside { cost.copy_inside } else { cost.copy_across };
            time += Nanos(copy.0 * u64::from(run.pages));
            if run.sealed && c.summary_page {
                self.clock.counters.summary_programs += 1;
                time += cost.summary;
            }
            left -= run.pages;
        }
        blocks.switch_write_point();
        blocks.erase(victim);
        self.clock.counters.erases += 1;
        Some(time)
    }

    /// Free blocks of the element.
    pub(super) fn free_blocks(&self) -> u32 {
        self.pools.iter().map(BlockPool::free_blocks).sum()
    }

    /// Erases of every block, in order.
    pub(super) fn erases(&self) -> impl Iterator<Item = u32> {
        self.pools.iter().flat_map(BlockPool::erases)
    }

    pub(super) fn page_states(&self) -> PageStates {
        self.pools.iter().map(BlockPool::page_states).fold(PageStates::default(), PageStates::plus)
    }

    /// Checks that the element's physical page, by the SSD's number, holds this entry of the map and is
    /// valid.
    pub(super) fn check(&self, entry: u32, ppn: u32) -> Result<(), String> {
        let own = ppn - self.base;
        let holds = self.holds[own as usize];
        if holds != entry {
            return Err(format!("page {entry} is mapped to {ppn}, which holds {holds}"));
        }
        let (pool, block, page) = self.locate(own);
        if self.pools[pool].is_valid(block, page) {
            Ok(())
        } else {
            Err(format!("page {entry} is mapped to {ppn}, which is not valid"))
        }
    }
}
