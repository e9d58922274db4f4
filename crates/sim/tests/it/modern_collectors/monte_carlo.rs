//! Simulates collection alone, with no times, dies, units or slices: blocks that are filled sector by sector, and one that is
//! emptied at a time, whole.

use destage_sim::ssd::VictimPolicy;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::below;

/// Sets the size of the flash that is simulated.
#[derive(Clone, Copy, Debug)]
pub struct FlashSize {
    /// Counts the sectors that are exported.
    pub exported: u32,
    /// Counts the blocks, and the sectors of each.
    pub blocks: usize,
    pub block_sectors: usize,
    /// Blocks' worth of sectors that can be written once one was emptied.
    pub kept_free: usize,
}

#[derive(Clone, Debug, Default)]
struct CarloBlock {
    /// Sectors in the order in which they were written; those that were written again since are not valid.
    sectors: Vec<u32>,
    valid: usize,
    opened: u64,
    is_full: bool,
}

/// Holds the flash, and what was copied.
pub struct CarloFlash {
    size: FlashSize,
    policy: VictimPolicy,
    /// Tells that copies fill blocks of their own.
    is_own_point: bool,
    blocks: Vec<CarloBlock>,
    /// Holds the place of each sector: a block, and its place there.
    places: Vec<(usize, usize)>,
    free: Vec<usize>,
    points: [Option<usize>; 2],
    opened: u64,
    random: Xoshiro256PlusPlus,
    pub copied: u64,
}

impl CarloFlash {
    /// Returns flash in which all exported sectors were written once, in ascending order.
    pub fn full(size: FlashSize, policy: VictimPolicy, is_own_point: bool) -> Self {
        let mut flash = Self {
            size,
            policy,
            is_own_point,
            blocks: vec![CarloBlock::default(); size.blocks],
            places: vec![(usize::MAX, 0); size.exported as usize],
            free: (0..size.blocks).rev().collect(),
            points: [None; 2],
            opened: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(99),
            copied: 0,
        };
        (0..size.exported).for_each(|sector| flash.write(sector));
        flash.copied = 0;
        flash
    }

    /// Writes a sector, and empties blocks while less than what is to be kept free is.
    pub fn write(&mut self, sector: u32) {
        self.put(sector, 0);
        while self.room() < self.size.kept_free * self.size.block_sectors {
            let Some(victim) = self.victim() else { break };
            self.empty(victim);
        }
    }

    fn room(&self) -> usize {
        let open = self.points.iter().flatten().map(|&at| self.size.block_sectors - self.blocks[at].sectors.len());
        self.free.len() * self.size.block_sectors + open.sum::<usize>()
    }

    fn put(&mut self, sector: u32, point: usize) {
        let (old, _) = self.places[sector as usize];
        if let Some(old) = self.blocks.get_mut(old) {
            old.valid -= 1;
        }
        let at = self.points[point].unwrap_or_else(|| {
            let at = self.free.pop().expect("a free block");
            self.blocks[at] = CarloBlock { opened: self.opened, ..CarloBlock::default() };
            self.opened += 1;
            at
        });
        let block = &mut self.blocks[at];
        self.places[sector as usize] = (at, block.sectors.len());
        block.sectors.push(sector);
        block.valid += 1;
        block.is_full = block.sectors.len() == self.size.block_sectors;
        self.points[point] = (!block.is_full).then_some(at);
    }

    fn empty(&mut self, victim: usize) {
        let sectors = std::mem::take(&mut self.blocks[victim].sectors);
        self.blocks[victim].is_full = false;
        for (place, &sector) in sectors.iter().enumerate() {
            if self.places[sector as usize] == (victim, place) {
                self.put(sector, usize::from(self.is_own_point));
                self.copied += 1;
            }
        }
        self.free.push(victim);
    }

    fn victim(&mut self) -> Option<usize> {
        let all = self.size.block_sectors;
        let full: Vec<usize> = (0..self.blocks.len()).filter(|&at| self.blocks[at].is_full).collect();
        let worth = |at: &usize| self.blocks[*at].valid < all;
        let best = match self.policy {
            VictimPolicy::Greedy => full.into_iter().min_by_key(|&at| self.blocks[at].valid),
            VictimPolicy::Fifo => full.into_iter().filter(worth).min_by_key(|&at| self.blocks[at].opened),
            VictimPolicy::DChoice(drawn) => {
                let among = full.len() as u32;
                let drawn = (0..drawn).map(|_| full[below(&mut self.random, among) as usize]).collect::<Vec<_>>();
                drawn.into_iter().min_by_key(|&at| self.blocks[at].valid)
            }
            VictimPolicy::CostBenefit => full.into_iter().max_by(|&a, &b| self.benefit(a).total_cmp(&self.benefit(b))),
        };
        best.filter(worth)
    }

    /// Returns what emptying a block is worth: free space by the cost of copies, times its age in blocks.
    fn benefit(&self, at: usize) -> f64 {
        let CarloBlock { valid, opened, .. } = self.blocks[at];
        let age = self.opened - opened - 1;
        (self.size.block_sectors - valid) as f64 * age as f64 / (valid + 1) as f64
    }
}
