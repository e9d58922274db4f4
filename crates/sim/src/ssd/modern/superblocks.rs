//! Knows where sectors lie: the map and its inverse, superblocks with their valid sectors, and write points.

use super::super::divisor::FastDivisor;
use super::super::element::UNMAPPED;
use super::super::pool::PageStates;
use super::config::ModernGeometry;

/// Marks a sector that the write cache holds back, and that lies nowhere in the flash.
pub(super) const HELD: u32 = UNMAPPED - 1;
/// Marks a write point that has no superblock.
const NO_SUPERBLOCK: u32 = u32::MAX;

/// Holds what is known of a superblock.
#[derive(Clone, Copy, Debug)]
pub(super) struct SuperblockState {
    /// Sectors that hold valid data.
    pub(super) valid: u32,
    /// How many superblocks were opened before it; meaningful while it is not free.
    pub(super) opened: u32,
    pub(super) erases: u32,
    /// Full, and not being collected.
    pub(super) sealed: bool,
}

/// Tells where sectors are put next.
#[derive(Clone, Copy, Debug)]
pub(super) struct WritePoint {
    superblock: u32,
    /// Next sector of it.
    position: u32,
    /// Sectors of the open unit, and those of them that hosts wrote.
    in_unit: u32,
    of_hosts: u32,
    /// The open unit's die.
    die: u32,
}

/// Describes a unit that was filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilledUnit {
    /// The unit by the drive's number.
    pub(super) unit: u32,
    /// Sectors of it that hosts wrote, and that the cache holds until it is programmed.
    pub(super) of_hosts: u32,
}

/// Tells where in the flash a sector lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectorPlace {
    /// The unit by the drive's number.
    pub(super) unit: u32,
    pub(super) die: u32,
    pub(super) plane: u32,
    /// The flash page by the drive's number.
    pub(super) flash_page: u32,
}

/// Holds the drive's map.
#[derive(Clone, Debug)]
pub(super) struct SuperblockMap {
    sectors_per_superblock: u32,
    unit: u32,
    dies: u32,
    by_superblock: FastDivisor,
    by_unit: FastDivisor,
    by_die: FastDivisor,
    by_flash_page: FastDivisor,
    by_plane: FastDivisor,
    /// Sector → physical sector, [`UNMAPPED`] or [`HELD`].
    map: Vec<u32>,
    /// Physical sector → sector; meaningful where the physical sector is valid.
    holds: Vec<u32>,
    /// Which physical sectors are valid: bit `p % 64` of word `p / 64`.
    valid: Vec<u64>,
    pub(super) superblocks: Vec<SuperblockState>,
    /// Free superblocks; the last one is taken first.
    free: Vec<u32>,
    opened: u32,
    /// Lists the write points of hosts, then collection's own if it has any.
    points: Vec<WritePoint>,
    /// Counts the write points with a superblock, and the sectors that are left in these.
    open_points: u32,
    unwritten: u64,
}

impl SuperblockMap {
    /// Returns erased flash of this geometry, with so many write points.
    pub(super) fn new(geometry: &ModernGeometry, dies: u32, planes: u32, host_pages: u32, points: u32) -> Self {
        let ModernGeometry { superblock, superblocks, unit, sectors_per_flash_page, .. } = *geometry;
        let sectors = superblock as usize * superblocks as usize;
        let closed = WritePoint { superblock: NO_SUPERBLOCK, position: 0, in_unit: 0, of_hosts: 0, die: 0 };
        Self {
            sectors_per_superblock: superblock,
            unit,
            dies,
            by_superblock: FastDivisor::new(superblock),
            by_unit: FastDivisor::new(unit),
            by_die: FastDivisor::new(dies),
            by_flash_page: FastDivisor::new(sectors_per_flash_page),
            by_plane: FastDivisor::new(planes),
            map: vec![UNMAPPED; host_pages as usize],
            holds: vec![UNMAPPED; sectors],
            valid: vec![0; sectors.div_ceil(64) + 1],
            superblocks: vec![SuperblockState { valid: 0, opened: 0, erases: 0, sealed: false }; superblocks as usize],
            free: (0..superblocks).rev().collect(),
            opened: 0,
            points: vec![closed; points as usize],
            open_points: 0,
            unwritten: 0,
        }
    }

    /// Returns where a sector is: a physical sector, [`UNMAPPED`] or [`HELD`].
    #[inline]
    pub(super) fn physical(&self, sector: u32) -> u32 {
        self.map[sector as usize]
    }

    /// Says that a sector lies nowhere in the flash: `as_what` is [`UNMAPPED`] or [`HELD`].
    #[inline]
    pub(super) fn unmap(&mut self, sector: u32, as_what: u32) {
        let old = std::mem::replace(&mut self.map[sector as usize], as_what);
        if old < HELD {
            self.valid[old as usize / 64] &= !(1 << (old % 64));
            self.superblocks[self.by_superblock.divide(old).0 as usize].valid -= 1;
        }
    }

    /// Puts a sector of a host that lies nowhere at a write point; returns its die, and its unit if that is full now.
    #[inline]
    pub(super) fn put(&mut self, sector: u32, point: usize) -> (u32, Option<FilledUnit>) {
        if self.points[point].superblock == NO_SUPERBLOCK {
            self.open(point);
        }
        let at = &mut self.points[point];
        let physical = at.superblock * self.sectors_per_superblock + at.position;
        at.position += 1;
        at.in_unit += 1;
        at.of_hosts += 1;
        self.unwritten -= 1;
        let (superblock, die, is_unit_full) = (at.superblock, at.die, at.in_unit == self.unit);
        self.map[sector as usize] = physical;
        self.holds[physical as usize] = sector;
        self.valid[physical as usize / 64] |= 1 << (physical % 64);
        self.superblocks[superblock as usize].valid += 1;
        (die, is_unit_full.then(|| self.fill_unit(point, physical)))
    }

    /// Puts sectors that collection read at a write point, as many as its unit has room for; returns how many, and the rest
    /// as [`Self::put`] does. Copies are most of what is put, and come many at a time.
    #[inline]
    pub(super) fn put_copies(&mut self, sectors: &[u32], point: usize) -> (usize, (u32, Option<FilledUnit>)) {
        if self.points[point].superblock == NO_SUPERBLOCK {
            self.open(point);
        }
        let at = &mut self.points[point];
        let first = at.superblock * self.sectors_per_superblock + at.position;
        let sectors = &sectors[..sectors.len().min((self.unit - at.in_unit) as usize)];
        let count = sectors.len() as u32;
        at.position += count;
        at.in_unit += count;
        self.unwritten -= u64::from(count);
        let (superblock, die, is_unit_full) = (at.superblock, at.die, at.in_unit == self.unit);
        self.holds[first as usize..(first + count) as usize].copy_from_slice(sectors);
        for (physical, &sector) in (first..).zip(sectors) {
            self.map[sector as usize] = physical;
        }
        self.set_valid(first, count);
        self.superblocks[superblock as usize].valid += count;
        (sectors.len(), (die, is_unit_full.then(|| self.fill_unit(point, first + count - 1))))
    }

    /// Marks physical sectors as valid.
    #[inline]
    fn set_valid(&mut self, mut first: u32, mut count: u32) {
        while count > 0 {
            let (word, shift) = (first as usize / 64, first % 64);
            let some = count.min(64 - shift);
            self.valid[word] |= u64::MAX >> (64 - some) << shift;
            (first, count) = (first + some, count - some);
        }
    }

    #[cold]
    fn open(&mut self, point: usize) {
        let superblock = self.free.pop().expect("pacing keeps a superblock free");
        self.superblocks[superblock as usize].opened = self.opened;
        self.opened += 1;
        self.points[point] = WritePoint { superblock, position: 0, in_unit: 0, of_hosts: 0, die: 0 };
        self.open_points += 1;
        self.unwritten += u64::from(self.sectors_per_superblock);
    }

    fn fill_unit(&mut self, point: usize, last: u32) -> FilledUnit {
        let (unit, _) = self.by_unit.divide(last);
        let at = &mut self.points[point];
        let of_hosts = std::mem::take(&mut at.of_hosts);
        at.in_unit = 0;
        at.die = if at.die + 1 == self.dies { 0 } else { at.die + 1 };
        if at.position == self.sectors_per_superblock {
            self.superblocks[at.superblock as usize].sealed = true;
            at.superblock = NO_SUPERBLOCK;
            at.position = 0;
            self.open_points -= 1;
        }
        FilledUnit { unit, of_hosts }
    }

    /// Returns the place of a physical sector. Superblocks are whole rows of units, so a unit's die follows from its number.
    #[inline]
    pub(super) fn place(&self, physical: u32) -> SectorPlace {
        let (unit, in_unit) = self.by_unit.divide(physical);
        let (_, die) = self.by_die.divide(unit);
        let (flash_page, _) = self.by_flash_page.divide(in_unit);
        let (_, plane) = self.by_plane.divide(flash_page);
        SectorPlace { unit, die, plane, flash_page: self.by_flash_page.divide(physical).0 }
    }

    /// Returns true if the physical sector's unit is still being filled.
    #[inline]
    pub(super) fn is_open_unit(&self, physical: u32) -> bool {
        self.points.iter().any(|at| {
            let base = at.superblock.wrapping_mul(self.sectors_per_superblock);
            let end = base.wrapping_add(at.position);
            at.superblock != NO_SUPERBLOCK && physical < end && physical >= end - at.in_unit
        })
    }

    /// Returns the die that the next sector of hosts goes to, of a write without a label.
    pub(super) fn next_die(&self) -> u32 {
        // A superblock ends with the last die, so that the next one begins with the first.
        self.points[0].die
    }

    /// Takes the valid sectors of a flash page of one or two planes out of the superblock that is being collected.
    pub(super) fn take_valid(&mut self, superblock: u32, first: u32, sectors: u32, into: &mut Vec<u32>) -> u32 {
        let (word, shift) = (first as usize / 64, first % 64);
        let both = u128::from(self.valid[word]) | u128::from(self.valid[word + 1]) << 64;
        let mask = u64::MAX >> (64 - sectors);
        let bits = (both >> shift) as u64 & mask;
        let cleared = !(u128::from(bits) << shift);
        self.valid[word] &= cleared as u64;
        self.valid[word + 1] &= (cleared >> 64) as u64;
        let count = bits.count_ones();
        self.superblocks[superblock as usize].valid -= count;
        let mut left = bits;
        while left != 0 {
            into.push(self.holds[(first + left.trailing_zeros()) as usize]);
            left &= left - 1;
        }
        count
    }

    /// Erases a superblock without valid sectors.
    pub(super) fn erase(&mut self, superblock: u32) {
        self.superblocks[superblock as usize].erases += 1;
        self.free.push(superblock);
    }

    /// Returns how many superblocks are free.
    #[inline]
    pub(super) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Returns how many superblocks were opened so far.
    pub(super) fn opened(&self) -> u32 {
        self.opened
    }

    /// Returns how many sectors can be put before another superblock is collected: in free superblocks and at write points.
    #[inline]
    pub(super) fn room(&self) -> u64 {
        self.free.len() as u64 * u64::from(self.sectors_per_superblock) + self.unwritten
    }

    /// Returns the room that pacing counts on. Each write point beyond two has half a superblock left on average, which serves
    /// its own stream alone.
    #[inline]
    pub(super) fn paced_room(&self) -> u64 {
        let bound = u64::from(self.open_points.saturating_sub(2)) * u64::from(self.sectors_per_superblock) / 2;
        self.room().saturating_sub(bound)
    }

    /// Returns how many sectors of open units hosts wrote.
    pub(super) fn of_hosts_in_open_units(&self) -> u32 {
        self.points.iter().map(|at| at.of_hosts).sum()
    }

    /// Returns how many dies there are.
    pub(super) fn dies(&self) -> u32 {
        self.dies
    }

    /// Returns how many physical sectors are valid, can be written, or are outdated.
    pub(super) fn states(&self) -> PageStates {
        let valid = self.superblocks.iter().map(|own| u64::from(own.valid)).sum();
        let all = self.superblocks.len() as u64 * u64::from(self.sectors_per_superblock);
        let free = self.room();
        PageStates { valid, free, invalid: all - valid - free }
    }

    /// Checks that map and inverse agree, and that exactly the mapped physical sectors are valid.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut mapped = vec![0; self.superblocks.len()];
        for (sector, &physical) in (0_u32..).zip(&self.map).filter(|(_, physical)| **physical < HELD) {
            let holds = self.holds[physical as usize];
            if holds != sector {
                return Err(format!("sector {sector} is mapped to {physical}, which holds {holds}"));
            }
            if self.valid[physical as usize / 64] >> (physical % 64) & 1 == 0 {
                return Err(format!("sector {sector} is mapped to {physical}, which is not valid"));
            }
            mapped[self.by_superblock.divide(physical).0 as usize] += 1;
        }
        for (number, (own, mapped)) in self.superblocks.iter().zip(&mapped).enumerate() {
            if own.valid != *mapped {
                return Err(format!("superblock {number}: {mapped} sectors are mapped and {} are valid", own.valid));
            }
        }
        let (bits, mapped) = (self.valid.iter().map(|word| u64::from(word.count_ones())).sum::<u64>(), mapped.iter());
        let mapped: u64 = mapped.map(|mapped| u64::from(*mapped)).sum();
        if bits == mapped { Ok(()) } else { Err(format!("{mapped} sectors are mapped and {bits} are valid")) }
    }
}
