//! Holds the settings of the modern drive, and what follows from them.

use destage_plan::{Nanos, PageGeometry};

use super::super::geometry::{CollectionPoint, SsdConfig};
use super::super::geometry_error::SsdGeometryError;
use super::placement::{HandleIsolation, PlacementConfig, write_points};

/// Counts the bytes of a flash page, the unit of sensing.
pub(super) const FLASH_PAGE_BYTES: u64 = 16 << 10;
/// Limits the bytes of a page of the map from below.
const LEAST_PAGE_BYTES: u64 = 512;
/// Limits the flash pages of a word line of one plane, one for each bit of a cell.
const MOST_PAGES_PER_WORD_LINE: u32 = 5;
/// Counts the word lines of the block whose erase takes [`SsdConfig::erase`]; other blocks take their share of it.
const WORD_LINES_OF_ERASE: u64 = 400;
/// Limits the word lines that a block gets unless told otherwise.
const MOST_WORD_LINES: u64 = 400;
/// Sets the superblocks that a drive has at least, where blocks may be as small as that takes.
const USUAL_SUPERBLOCKS: u64 = 256;
/// Sets the superblocks of a drive that fits its trace at least; with fewer, write points and the block being collected are too
/// large a share of it.
const LEAST_SUPERBLOCKS: u64 = 64;
/// Sets the superblocks' worth of sectors that hosts can never fill, of a drive with two write points; each further one adds one.
/// With as many, some sealed superblock holds an outdated sector whenever fewer than two are free (two write points, the superblock
/// being collected, and one that is free).
const LEAST_SPARE: u64 = 5;
/// Limits the word lines of a block.
const MAX_WORD_LINES: u64 = 1 << 12;
/// Limits the planes of a die.
pub(super) const MAX_PLANES: u32 = 16;
/// Limits a step of a drive, in nanoseconds.
const LONGEST_STEP_NS: u64 = 1_000_000_000;
/// Limits the protected cache, in bytes.
const LARGEST_CACHE: u64 = 1 << 40;

/// Chooses the superblock that is collected next, among those that are full and not fully valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VictimPolicy {
    /// Takes the one with the fewest valid sectors.
    #[default]
    Greedy,
    /// Takes the one that was opened first.
    Fifo,
    /// Takes the one with the fewest valid sectors of so many drawn at random.
    DChoice(u32),
    /// Takes the one with the largest `(S - v) · age / (v + 1)`: `v` valid sectors of `S`, and `age` in superblocks opened
    /// since (Rosenblum and Ousterhout's LFS cleaner, with sectors for utilisation).
    CostBenefit,
}

impl VictimPolicy {
    /// The most superblocks that [`Self::DChoice`] can draw.
    pub const MOST_CHOICES: u32 = 1000;
}

impl std::fmt::Display for VictimPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Greedy => f.write_str("greedy"),
            Self::Fifo => f.write_str("fifo"),
            Self::DChoice(choices) => write!(f, "d-choice:{choices}"),
            Self::CostBenefit => f.write_str("cost-benefit"),
        }
    }
}

/// Holds what the modern drive has beside an [`SsdConfig`], of which it uses `elements` (dies), `planes`, `reserve_bp`,
/// `read`, `program` (a unit), `erase` (a block of 400 word lines), `transfer_ps_per_byte`, `collection_write_point`,
/// `endurance` and `queue_depth`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModernConfig {
    /// Pages that hosts can address, rounded down to whole logical blocks.
    pub exported_pages: u64,
    /// Flash pages of a word line of one plane, which are programmed at once: the bits of a cell (3 for TLC, 4 for QLC).
    pub pages_per_word_line: u32,
    /// Word lines of a block; `None` for as many as leave some 256 superblocks.
    pub word_lines: Option<u32>,
    /// From the arrival of a read until a program or an erase has been suspended for it.
    pub suspend: Nanos,
    /// Host reads that go before one program or erase at most.
    pub bypass: u16,
    /// Array reads of two planes each that one slice of collection consists of.
    pub slice_reads: u32,
    /// Bytes of the protected write cache.
    pub write_cache_bytes: u64,
    /// Bytes of it that are kept back so that overwrites meet them.
    pub write_hold_bytes: u64,
    /// Writes that wait for the cache inside the drive.
    pub write_slots: u32,
    /// Sets the time that a read takes outside the flash.
    pub command_read: Nanos,
    /// Sets the time that a write takes outside the flash.
    pub command_write: Nanos,
    /// Sets the time that a read takes which the cache answers.
    pub command_hit: Nanos,
    /// Commands a second at most; `None` for no limit.
    pub command_rate: Option<u64>,
    /// Bytes a second at most; `None` for no limit.
    pub link_rate: Option<u64>,
    /// Chooses what is collected.
    pub victim: VictimPolicy,
    /// Free superblocks that collection is paced to keep.
    pub free_target: u32,
    /// Gain of the pacing per superblock, in thousandths.
    pub pace_gain_milli: u64,
    /// Flexible data placement; `None`: labels of writes are ignored.
    pub placement: Option<PlacementConfig>,
}

impl Default for ModernConfig {
    /// Returns those of a Samsung PM9A3 of 960 GB, but for its size and for what its cache holds back.
    fn default() -> Self {
        Self {
            exported_pages: 0,
            pages_per_word_line: 3,
            word_lines: None,
            suspend: Nanos(60_000),
            bypass: 16,
            slice_reads: 6,
            write_cache_bytes: 4 << 20,
            write_hold_bytes: 0,
            write_slots: 256,
            command_read: Nanos(7_000),
            command_write: Nanos(11_000),
            command_hit: Nanos(14_000),
            command_rate: Some(580_000),
            link_rate: Some(6_800_000_000),
            victim: VictimPolicy::Greedy,
            free_target: 4,
            pace_gain_milli: 1000,
            placement: None,
        }
    }
}

/// Holds what follows from a modern drive's settings: sizes in sectors (pages of the map), times in nanoseconds.
#[derive(Clone, Debug)]
pub struct ModernGeometry {
    /// The settings.
    pub config: ModernConfig,
    /// Sectors of a flash page.
    pub sectors_per_flash_page: u32,
    /// Sectors of a unit: one word line on all planes of a die, programmed by one command.
    pub unit: u32,
    /// Word lines of a block.
    pub word_lines: u32,
    /// Word lines of a die that one slice of collection reads.
    pub slice_word_lines: u32,
    /// Sectors of a superblock: one block of every plane of every die.
    pub superblock: u32,
    /// Superblocks.
    pub superblocks: u32,
    /// Sectors that the protected cache holds.
    pub cache_sectors: u32,
    /// Sectors of it that are held back.
    pub held_sectors: u32,
    /// Sensing a flash page.
    pub sense: u64,
    /// Moving a sector over the pins.
    pub transfer: u64,
    /// Programming a unit.
    pub program: u64,
    /// Erasing a superblock's blocks of one die.
    pub erase: u64,
    /// Time that a command takes of the interface at least.
    pub command_gap: u64,
    /// Time that a sector takes of the interface.
    pub link_sector: u64,
}

impl ModernConfig {
    /// Returns an error if a setting is out of range.
    fn check(&self, ssd: &SsdConfig, geometry: PageGeometry) -> Result<(), SsdGeometryError> {
        let range = |key, value: u64, min, max| {
            if (min..=max).contains(&value) { Ok(()) } else { Err(SsdGeometryError::Range { key, value, min, max }) }
        };
        range("elements", ssd.elements.into(), 1, 4096)?;
        range("planes", ssd.planes.into(), 1, MAX_PLANES.into())?;
        range("reserve", u64::from(ssd.reserve_bp) / 100, 0, 95)?;
        range("endurance", ssd.endurance.into(), 1, u32::MAX.into())?;
        range("queue-depth", ssd.queue_depth.unwrap_or(1).into(), 1, 65_536)?;
        range("transfer (in ps/B)", ssd.transfer_ps_per_byte, 0, 1_000_000)?;
        range("pages-per-word-line", self.pages_per_word_line.into(), 1, MOST_PAGES_PER_WORD_LINE.into())?;
        range("word-lines", self.word_lines.unwrap_or(1).into(), 1, MAX_WORD_LINES)?;
        range("slice", self.slice_reads.into(), 1, 1 << 16)?;
        range("write-slots", self.write_slots.into(), 1, 65_536)?;
        range("command-rate", self.command_rate.unwrap_or(1), 1, 1_000_000_000)?;
        range("link (in B/s)", self.link_rate.unwrap_or(1_000_000), 1_000_000, 1 << 50)?;
        range("free-target", self.free_target.into(), 2, 256)?;
        range("pace-gain (in thousandths)", self.pace_gain_milli, 1, 1_000_000)?;
        range("write-cache (in bytes)", self.write_cache_bytes, 0, LARGEST_CACHE)?;
        range("write-hold (in bytes)", self.write_hold_bytes, 0, LARGEST_CACHE)?;
        let bytes = geometry.page_bytes();
        if !(LEAST_PAGE_BYTES..=FLASH_PAGE_BYTES).contains(&bytes) {
            let (least, most) = (LEAST_PAGE_BYTES, FLASH_PAGE_BYTES);
            return Err(SsdGeometryError::PageOfModern { bytes, least, most });
        }
        if let VictimPolicy::DChoice(choices) = self.victim {
            range("gc = d-choice", choices.into(), 1, VictimPolicy::MOST_CHOICES.into())?;
        }
        if let Some(placement) = self.placement {
            range("placement-handles", placement.handles.into(), 1, PlacementConfig::MOST_HANDLES.into())?;
            if placement.isolation == HandleIsolation::Initially
                && ssd.collection_write_point == CollectionPoint::Shared
            {
                return Err(SsdGeometryError::IsolationOfShared);
            }
        }
        let steps = [
            ("read (in ns)", ssd.read),
            ("program (in ns)", ssd.program),
            ("erase (in ns)", ssd.erase),
            ("suspend (in ns)", self.suspend),
            ("command-read (in ns)", self.command_read),
            ("command-write (in ns)", self.command_write),
            ("command-hit (in ns)", self.command_hit),
        ];
        for (key, time) in steps {
            range(key, time.0, 0, LONGEST_STEP_NS)?;
        }
        Ok(())
    }
}

/// Superblocks that it takes to export so many sectors, without those that are kept free beside.
fn superblocks_for(sectors: u64, reserve_bp: u32, superblock: u64) -> u64 {
    let kept = u128::from(10_000 - reserve_bp.min(9_999));
    let raw = (u128::from(sectors) * 10_000).div_ceil(kept);
    raw.div_ceil(superblock.into()).min(u64::MAX.into()) as u64
}

impl ModernGeometry {
    /// Derives the geometry and checks that it can work.
    pub(in super::super) fn new(
        ssd: &SsdConfig,
        c: &ModernConfig,
        page: PageGeometry,
    ) -> Result<Self, SsdGeometryError> {
        c.check(ssd, page)?;
        let per_block = u64::from(page.pages_per_block());
        let sectors = c.exported_pages / per_block * per_block;
        if sectors == 0 {
            return Err(SsdGeometryError::NothingExported);
        }
        let q = (FLASH_PAGE_BYTES / page.page_bytes()) as u32;
        let unit = c.pages_per_word_line * ssd.planes * q;
        let row = u64::from(ssd.elements) * u64::from(unit);
        let unit_reads = c.pages_per_word_line * ssd.planes.div_ceil(2);
        let slice_word_lines = (c.slice_reads / unit_reads).max(1);
        let usual = (sectors / (USUAL_SUPERBLOCKS * row)).min(MOST_WORD_LINES).max(slice_word_lines.into());
        let word_lines = c.word_lines.map_or(usual.min(MAX_WORD_LINES), u64::from);
        let superblock = row * word_lines;
        let superblocks = superblocks_for(sectors, ssd.reserve_bp, superblock).saturating_add(c.free_target.into());
        let raw = superblock.saturating_mul(superblocks);
        if raw > u64::from(u32::MAX) - 1 {
            return Err(SsdGeometryError::TooLarge { pages: raw });
        }
        let [host_points, points] = write_points(ssd, c.placement).map(u64::from);
        let least_spare = LEAST_SPARE + points.saturating_sub(2);
        if raw - sectors < least_spare * superblock {
            return Err(SsdGeometryError::NoSpareSuperblocks {
                spare: (raw - sectors) / superblock,
                superblocks,
                needed: least_spare,
            });
        }
        let (cache, held) = (c.write_cache_bytes / page.page_bytes(), c.write_hold_bytes / page.page_bytes());
        if held > sectors / 2 {
            let bytes_of = |sectors: u64| sectors.saturating_mul(page.page_bytes());
            return Err(SsdGeometryError::WriteHold {
                bytes: c.write_hold_bytes,
                exported: bytes_of(sectors),
                most: bytes_of(sectors / 2),
            });
        }
        // A unit of each write point of hosts may be open, and one more is programmed.
        let units = 1 + host_points;
        let least = units * u64::from(unit) + held;
        if cache < least {
            return Err(SsdGeometryError::WriteCache {
                bytes: c.write_cache_bytes,
                least: least * page.page_bytes(),
                units,
                unit_bytes: u64::from(unit) * page.page_bytes(),
                held_bytes: held * page.page_bytes(),
            });
        }
        let seconds = 1_000_000_000_u128;
        Ok(Self {
            sectors_per_flash_page: q,
            unit,
            word_lines: word_lines as u32,
            slice_word_lines,
            superblock: superblock as u32,
            superblocks: superblocks as u32,
            cache_sectors: cache.min(u32::MAX.into()) as u32,
            held_sectors: held.min(u32::MAX.into()) as u32,
            sense: ssd.read.0,
            transfer: (page.page_bytes() * ssd.transfer_ps_per_byte + 500) / 1000,
            program: ssd.program.0,
            erase: ssd.erase.0 * word_lines / WORD_LINES_OF_ERASE,
            command_gap: c.command_rate.map_or(0, |rate| seconds.div_ceil(rate.into()) as u64),
            link_sector: c
                .link_rate
                .map_or(0, |rate| (u128::from(page.page_bytes()) * seconds).div_ceil(rate.into()) as u64),
            config: c.clone(),
        })
    }

    /// Returns how many pages a drive exports at least that fits a trace of `pages`: as many, or what 64 superblocks of the
    /// smallest useful blocks hold.
    pub(in super::super) fn pages_to_fit(ssd: &SsdConfig, c: &ModernConfig, pages: u64, page: PageGeometry) -> u64 {
        let per_block = u64::from(page.pages_per_block());
        let q = (FLASH_PAGE_BYTES / page.page_bytes()).max(1);
        let planes = u64::from(ssd.planes);
        let pages_per_word_line = u64::from(c.pages_per_word_line.max(1));
        let reads = pages_per_word_line.saturating_mul(planes.div_ceil(2).max(1));
        let word_lines = c.word_lines.map_or_else(|| (u64::from(c.slice_reads) / reads).max(1), u64::from);
        // Settings are not checked yet: what is out of all proportion is refused when they are.
        let factors = [ssd.elements.into(), pages_per_word_line, planes, q, word_lines];
        let superblock = factors.into_iter().fold(1, u64::saturating_mul);
        let filled = LEAST_SUPERBLOCKS.saturating_sub(c.free_target.into()).saturating_mul(superblock);
        let exported = filled.saturating_mul(u64::from(10_000 - ssd.reserve_bp.min(10_000))) / 10_000;
        let least = exported / per_block * per_block;
        pages.max(least).div_ceil(per_block).saturating_mul(per_block)
    }

    /// Returns the bytes of memory that a drive of so many exported sectors takes, roughly.
    pub(in super::super) fn memory_bytes(&self, host_pages: u32, elements: u32) -> u64 {
        let raw = u64::from(self.superblock) * u64::from(self.superblocks);
        // Map and inverse; valid bits; superblocks; dies with their queues; slots; what is held; streams of sectors.
        let held = u64::from(self.held_sectors) * 4;
        let dies = u64::from(elements) * 1024;
        let streams = self.config.placement.map_or(0, |_| u64::from(host_pages));
        raw * 4
            + u64::from(host_pages) * 4
            + raw.div_ceil(64) * 8
            + u64::from(self.superblocks) * 16
            + dies
            + u64::from(self.config.write_slots) * 8
            + held
            + streams
    }
}
