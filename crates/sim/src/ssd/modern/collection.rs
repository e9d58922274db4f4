//! Collects in slices, paced by free space: so many sectors are copied for each that hosts write as keep the free space where
//! it is.

use destage_plan::{Nanos, Quota};

use super::super::clock::ElementCollection;
use super::ModernDrive;
use super::config::ModernGeometry;
use super::die::{DieOperation, OperationKind};
use super::superblocks::FilledUnit;

/// Sets the free superblocks below which collection goes on without regard to its pace.
const FORCED_BELOW: u32 = 2;

/// Holds what is known of the superblock that is being collected.
#[derive(Clone, Copy, Debug)]
struct CollectionVictim {
    superblock: u32,
    /// Holds the sectors copied for each reclaimed one: `v / (S - v)` when it was chosen.
    copies: f64,
    /// Counts the slices that were read.
    slice: u32,
    /// Sectors of it that were reclaimed so far.
    reclaimed: u64,
}

/// Tells how far collection is behind or ahead of its pace.
#[derive(Clone, Debug, Default)]
pub(super) struct CollectionPace {
    victim: Option<CollectionVictim>,
    /// Sectors that are to be copied, less those that were.
    debt: f64,
    /// Valid sectors of a slice, and how many array reads they took.
    slice: Vec<u32>,
}

/// Returns how many of the copies that keep free space where it is are due for a sector that a host wrote: more where less
/// than the target is free, none where much more is.
fn share_of(room: u64, superblock: u32, free_target: u32, gain: f64) -> f64 {
    1.0 + gain * (f64::from(free_target) - room as f64 / f64::from(superblock))
}

/// Returns the sectors that are copied for each that is reclaimed, of a superblock with so many valid ones.
fn copies_of(valid: u32, superblock: u32) -> f64 {
    f64::from(valid) / (f64::from(superblock) - f64::from(valid))
}

impl CollectionPace {
    /// Owes a share of the copies that a sector costs.
    fn owe(&mut self, share: f64) {
        if let Some(victim) = self.victim {
            self.debt += share * victim.copies;
        }
    }

    fn is_due(&self) -> bool {
        self.debt > 0.0 && self.victim.is_some()
    }
}

impl ModernDrive {
    /// Does what collection owes for a sector that a host wrote, at `now`.
    #[inline]
    pub(super) fn pace(&mut self, now: u64) {
        let ModernGeometry { superblock, ref config, .. } = self.geometry;
        let reclaimed = self.pace.victim.map_or(0, |victim| victim.reclaimed);
        let share = share_of(self.map.paced_room() + reclaimed, superblock, config.free_target, self.gain);
        if share > 0.0 {
            self.collect_share(share, now);
        }
        if self.map.free() < FORCED_BELOW {
            self.collect_forced(now);
        }
    }

    fn collect_share(&mut self, share: f64, now: u64) {
        if self.pace.victim.is_none() {
            self.choose_victim();
        }
        self.pace.owe(share);
        while self.pace.is_due() {
            self.collect_slice(now);
        }
    }

    #[cold]
    fn collect_forced(&mut self, now: u64) {
        while self.map.free() < FORCED_BELOW && self.has_victim() {
            self.collect_slice(now);
        }
    }

    /// Returns true if there is a superblock to collect, whatever it gains.
    fn has_victim(&mut self) -> bool {
        if self.pace.victim.is_none() && !self.choose_victim() {
            let any = self.chooser.choose_any(&self.map);
            self.begin_victim(any);
        }
        self.pace.victim.is_some()
    }

    fn choose_victim(&mut self) -> bool {
        let chosen = self.chooser.choose(&self.map);
        self.begin_victim(chosen)
    }

    fn begin_victim(&mut self, chosen: Option<u32>) -> bool {
        let Some(superblock) = chosen else { return false };
        let own = &mut self.map.superblocks[superblock as usize];
        own.sealed = false;
        let copies = copies_of(own.valid, self.geometry.superblock);
        self.pace.victim = Some(CollectionVictim { superblock, copies, slice: 0, reclaimed: 0 });
        true
    }

    /// Reads the valid sectors of the next slice of the victim, and puts them at collection's write point; erases the victim
    /// behind its last slice.
    fn collect_slice(&mut self, now: u64) {
        let Some(mut victim) = self.pace.victim else { return };
        let (dies, g) = (self.map.dies(), self.geometry.slice_word_lines);
        let (unit, word_lines) = (self.geometry.unit, self.geometry.word_lines);
        let (row, die) = (victim.slice / dies, victim.slice % dies);
        let lines = row * g..((row + 1) * g).min(word_lines);
        let base = victim.superblock * self.geometry.superblock;
        let mut sectors = std::mem::take(&mut self.pace.slice);
        sectors.clear();
        let mut reads = 0;
        for line in lines.clone() {
            reads += self.read_unit(victim.superblock, base + (line * dies + die) * unit, &mut sectors);
        }
        if !sectors.is_empty() {
            let takes = u64::from(reads) * self.geometry.sense + sectors.len() as u64 * self.geometry.transfer;
            self.push_collection(die, OperationKind::Slice, takes, now);
            if self.is_watched {
                self.slice_end = self.slice_end.min(now + takes);
            }
            if let Some(notices) = &mut self.notices {
                notices.expect(now, die);
            }
        }
        self.put_copies(&sectors, now);
        self.pace.debt -= sectors.len() as f64;
        self.pace.slice = sectors;
        victim.reclaimed += u64::from(lines.end - lines.start) * u64::from(unit);
        victim.slice += 1;
        self.pace.victim = Some(victim);
        if victim.slice == dies * word_lines.div_ceil(g) {
            self.end_victim(victim.superblock, now);
        }
    }

    /// Takes a unit's valid sectors, ascending; returns the array reads for them: one for each flash page of two planes that
    /// has any.
    fn read_unit(&mut self, superblock: u32, first: u32, into: &mut Vec<u32>) -> u32 {
        let q = self.geometry.sectors_per_flash_page;
        let planes = self.planes;
        let mut reads = 0;
        for flash_page in (0..self.geometry.unit).step_by((q * planes) as usize) {
            for pair in (0..planes).step_by(2) {
                let sectors = q * (planes - pair).min(2);
                let taken = self.map.take_valid(superblock, first + flash_page + pair * q, sectors, into);
                reads += u32::from(taken > 0);
            }
        }
        reads
    }

    fn end_victim(&mut self, superblock: u32, now: u64) {
        self.pace.victim = None;
        for die in 0..self.map.dies() {
            let counters = &mut self.clocks[die as usize].counters;
            counters.erases += 1;
            counters.gc_invocations += 1;
            self.push_collection(die, OperationKind::Erase, self.geometry.erase, now);
        }
        self.map.erase(superblock);
    }

    fn push_collection(&mut self, die: u32, kind: OperationKind, takes: u64, now: u64) {
        self.clocks[die as usize].counters.gc_time += Nanos(takes);
        self.push(die, DieOperation { ready: now, remaining: takes, unit: 0, frees: 0, bypassed: 0, kind });
    }

    /// Puts a sector of a host that lies nowhere.
    #[inline]
    pub(super) fn put(&mut self, sector: u32, now: u64) {
        let point = self.placement.as_ref().map_or(0, |placement| placement.point(sector, true));
        let (die, filled) = self.map.put(sector, point);
        self.clocks[die as usize].counters.host_programs += 1;
        self.program_filled(die, filled, now);
    }

    /// Puts sectors that collection read.
    fn put_copies(&mut self, mut sectors: &[u32], now: u64) {
        while !sectors.is_empty() {
            let (point, run) = match &self.placement {
                None => (usize::from(self.has_own_point), sectors.len()),
                Some(placement) => placement.copies(sectors),
            };
            let (count, (die, filled)) = self.map.put_copies(&sectors[..run], point);
            if let Some(placement) = &mut self.placement {
                placement.count_copies(&sectors[..count]);
            }
            self.clocks[die as usize].counters.gc_pages_moved += count as u64;
            self.program_filled(die, filled, now);
            sectors = &sectors[count..];
        }
    }

    /// Has a unit programmed that was filled.
    #[inline]
    fn program_filled(&mut self, die: u32, filled: Option<FilledUnit>, now: u64) {
        if let Some(FilledUnit { unit, of_hosts }) = filled {
            let (remaining, frees) = (self.geometry.program, of_hosts as u16);
            let kind = OperationKind::Program;
            self.push(die, DieOperation { ready: now, remaining, unit, frees, bypassed: 0, kind });
        }
    }

    /// Collects so many superblocks at once, or until more than the target are free; returns when all dies have done what
    /// they have to do.
    pub(crate) fn collect(&mut self, now: Nanos, quota: Quota) -> Nanos {
        let mut collected = 0;
        loop {
            let goes_on = match quota {
                Quota::Blocks(blocks) => collected < blocks,
                Quota::Watermark => self.map.free() <= self.geometry.config.free_target,
            };
            if !goes_on || !self.has_victim() {
                break;
            }
            while self.pace.victim.is_some() {
                self.collect_slice(now.0);
            }
            collected += 1;
        }
        // Each superblock is a block of every die. Whoever ordered it hears of it; what is paced is no pause, and not told.
        for (die, clock) in self.dies.iter().zip(&mut self.clocks) {
            clock.counters.ordered_erases += u64::from(collected);
            if collected > 0
                && let Some(news) = &mut clock.news
            {
                news.push(ElementCollection { start: now, end: Nanos(die.idle_at()).max(now), blocks: collected });
            }
        }
        self.idle_at().max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a number in thousandths.
    fn milli(number: f64) -> i64 {
        (number * 1000.0).round() as i64
    }

    /// The specification's worked example: 1,536 sectors, 1,162 of them valid, 3.5 superblocks of room, a target of 4.
    #[test]
    fn the_pace_is_that_of_the_worked_example() {
        let share = share_of(3 * 1536 + 768, 1536, 4, 1.0);
        assert_eq!(milli(share), 1500);
        let copies = copies_of(1162, 1536);
        assert!((copies - 3.107).abs() < 1e-3, "{copies}");
        let victim = CollectionVictim { superblock: 0, copies, slice: 0, reclaimed: 0 };
        let mut pace = CollectionPace { victim: Some(victim), ..CollectionPace::default() };
        let mut debts = Vec::new();
        for _ in 0..8 {
            pace.owe(share);
            debts.push(milli(pace.debt));
            if pace.is_due() {
                // A slice of 36 sectors.
                pace.debt -= 36.0;
            }
        }
        assert_eq!([debts[0], debts[6], debts[7]], [4660, -3377, 1283], "{debts:?}");
        assert!(debts[1..7].iter().all(|debt| *debt < 0), "{debts:?}");
    }

    #[test]
    fn much_room_owes_nothing() {
        assert!(share_of(5 * 1536, 1536, 4, 1.0) <= 0.0);
        assert_eq!(milli(share_of(4 * 1536, 1536, 4, 1.0)), 1000);
    }
}
