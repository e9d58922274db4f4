//! Describes what a history tries: a host cache over an array of some shape.
//!
//! Arrays are so small that everything happens soon: rows meet, logs wrap, and rebuilds end within one history.

use destage_cache::{HostCacheInfo, HostCacheSpec, ServedTier};
use destage_plan::{Nanos, Shape};
use destage_raid::array::{ArrayConfig, DurabilityMode, MAX_PARITY_MEMBERS, ParityMethod};
use destage_raid::{Geometry, RaidLevel};

use crate::RandomDraws;
use crate::model::SECTOR;

/// Bytes of a page of the harness.
pub const PAGE: usize = 64;
/// Sectors of a page of the harness.
pub const PAGE_SECTORS: u64 = (PAGE / SECTOR) as u64;

/// The shape of what is tried.
#[derive(Clone, Debug)]
pub struct CrashCell {
    /// The array.
    pub geometry: Geometry,
    /// Sets when acknowledged writes are durable.
    pub regime: DurabilityMode,
    /// Sets how parity is updated.
    pub parity: ParityMethod,
    /// Rows with an open intent before the array flushes on its own.
    pub max_open_rows: usize,
    /// Slots of the NVRAM.
    pub nv_slots: u32,
    /// Is true if discards are passed on to the devices.
    pub trims: bool,
    /// Time without a flush before the array flushes on its own.
    pub idle_flush: Nanos,
    /// Stripes between two notes of a rebuild.
    pub rebuild_window: u32,
    /// Fragments at a time.
    pub depth: usize,
    /// Most pages of a fragment.
    pub max_pages: u64,
    /// Pages of the cache, if it has a size.
    pub cache_pages: u64,
    /// The cache's mode, by number around.
    pub mode: usize,
    /// Is true if the cache trims pages that it does not need, if it can.
    pub cache_trims: bool,
    /// Counts the rows of which pages are kept in memory.
    pub cached_rows: u32,
    /// Counts the bytes of a sequential run from which on it passes the cache by; 0 if none does.
    pub cutoff: u64,
}

impl CrashCell {
    /// A shape drawn at random; of this level if one is given. With numbers of their own for that,
    /// so that other shapes stay what they are, one array with parity in forty is about as `wide`
    /// as arrays can be.
    pub fn draw(dice: &mut RandomDraws, level: Option<RaidLevel>, wide: Option<RandomDraws>) -> Self {
        let level = level.unwrap_or_else(|| dice.pick(&RaidLevel::ALL));
        let mut members = match level {
            RaidLevel::Raid0 => dice.within(1, 4),
            RaidLevel::Raid1 => dice.within(2, 3),
            RaidLevel::Raid4 | RaidLevel::Raid5 => dice.within(3, 6),
            RaidLevel::Raid6 => dice.within(4, 7),
        } as u32;
        // Wide arrays are rare, since each of their histories takes as long as many small ones.
        if matches!(level, RaidLevel::Raid4 | RaidLevel::Raid5 | RaidLevel::Raid6)
            && let Some(mut wide) = wide
            && wide.one_in(40)
        {
            // The dice of the shape are drawn either way, so a seed keeps its shape when the width changes.
            members = wide.within(20, u64::from(MAX_PARITY_MEMBERS)) as u32;
        }
        let layouts = level.layouts();
        let layout = (!layouts.is_empty()).then(|| dice.pick(layouts));
        let chunk = dice.within(1, 4) as u32;
        let member_pages = u64::from(chunk) * dice.within(4, 32 / u64::from(chunk)).min(8);
        let geometry =
            Geometry::new(level, layout, members, chunk, member_pages).expect("the shape is one of those that can be");
        Self {
            // Each option is drawn whether or not it applies, so seeds that once found a fault stay the same
            // histories.
            regime: if dice.one_in(4) { DurabilityMode::EveryWrite } else { DurabilityMode::Flush },
            parity: dice.pick(&[
                ParityMethod::Min,
                ParityMethod::Min,
                ParityMethod::Rmw,
                ParityMethod::Rcw,
                ParityMethod::Disksim,
            ]),
            // Few open rows make intents be cleared in the middle of work; a thousand never.
            max_open_rows: dice.pick(&[1, 2, 4, 16, 1000]),
            nv_slots: dice.pick(&[ArrayConfig::MIN_NV_SLOTS, 24, 64]),
            trims: !dice.one_in(4),
            // A timer that fires at once meets everything else; one of seconds hardly ever fires within a history.
            idle_flush: Nanos(dice.pick(&[20_000, 200_000, 5_000_000_000])),
            rebuild_window: dice.within(1, 4) as u32,
            depth: dice.pick(&[1, 2, 4, 8, 16]),
            max_pages: dice.pick(&[1, 4, 32_768]),
            cache_pages: dice.pick(&[2, 4, 8, 16]),
            mode: 0,
            cache_trims: false,
            cached_rows: 0,
            cutoff: 0,
            geometry,
        }
    }

    /// The shape of a seed, for the harness of `Memory`.
    pub fn of_seed(seed: u64, dice: &mut RandomDraws, level: Option<RaidLevel>) -> Self {
        let drawn = Self::draw(dice, level, Some(RandomDraws::part(seed, u64::MAX - 5)));
        Self {
            mode: Self::mode_of(seed),
            cache_trims: Self::cache_trims_of(seed),
            cached_rows: Self::cached_rows_of(seed),
            cutoff: Self::cutoff_of(seed),
            ..drawn
        }
    }

    /// Counts the rows that the array of a seed keeps in memory, with numbers of its own for that: one array in three keeps a
    /// row or two of each set.
    pub fn cached_rows_of(seed: u64) -> u32 {
        let mut dice = RandomDraws::part(seed, u64::MAX - 12);
        let is_one = dice.one_in(3) || Self::has_runs(seed) && dice.one_in(2);
        if is_one { ArrayConfig::ROW_UNIT * dice.within(1, 2) as u32 } else { 0 }
    }

    /// Returns true if the history of a seed has sequential runs, with numbers of its own for that: one in three.
    pub fn has_runs(seed: u64) -> bool {
        RandomDraws::part(seed, u64::MAX - 14).one_in(3)
    }

    /// Returns where sequential runs begin to pass the cache of a seed by, with numbers of its own for that: in two of three
    /// arrays with [runs](Self::has_runs) after a few pages.
    pub fn cutoff_of(seed: u64) -> u64 {
        let mut dice = RandomDraws::part(seed, u64::MAX - 13);
        if Self::has_runs(seed) && !dice.one_in(3) { PAGE as u64 * dice.within(2, 6) } else { 0 }
    }

    /// The mode of a seed, with numbers of its own for that.
    pub fn mode_of(seed: u64) -> usize {
        RandomDraws::part(seed, u64::MAX - 8).below(1 << 16) as usize
    }

    /// Returns true if the cache trims in the history of a seed.
    ///
    /// A thousand of each four thousand seeds trim. None of them is a seed that found something before caches could
    /// trim.
    pub const fn cache_trims_of(seed: u64) -> bool {
        seed / 1_000 % 4 == 2
    }

    /// Returns how requests are split.
    pub fn shape(&self) -> Shape {
        let stripe = u64::from(self.geometry.chunk_pages()) * u64::from(self.geometry.data_columns());
        Shape::new(PAGE as u64, SECTOR as u64, stripe, self.max_pages, self.geometry.data_pages())
            .expect("a tiny array can be addressed")
    }

    /// Returns the settings of the array.
    pub fn array(&self) -> ArrayConfig {
        ArrayConfig {
            page_bytes: PAGE as u32,
            regime: self.regime,
            parity: self.parity,
            max_open_rows: self.max_open_rows,
            nv_slots: self.nv_slots,
            trims: self.trims,
            idle_flush: self.idle_flush,
            rebuild_window: self.rebuild_window,
            // No member is given up for bad pages, or histories with spoiled pages would end early.
            max_corrected: u32::MAX,
            cached_rows: self.cached_rows,
            ..ArrayConfig::new(self.geometry.clone())
        }
    }

    /// Such an array with this cache.
    pub fn build(&self, cache: &'static HostCacheInfo) -> Box<dyn ServedTier> {
        self.build_with(cache, &self.array())
    }

    /// Such an array, served so, with this cache.
    pub(crate) fn build_with(&self, cache: &'static HostCacheInfo, array: &ArrayConfig) -> Box<dyn ServedTier> {
        let built = self.spec(cache).build(array, self.pages_of(cache));
        built.expect("the shape is one that can be served")
    }

    fn spec(&self, cache: &'static HostCacheInfo) -> HostCacheSpec {
        HostCacheSpec::small(cache, self.cache_pages, self.mode, self.cache_trims, self.cutoff)
    }

    /// Slots of the NVRAM that this cache has beside the array's.
    pub(crate) fn nv_slots_of(&self, cache: &'static HostCacheInfo) -> u32 {
        self.spec(cache).nv_slots(self.pages_of(cache), &self.array())
    }

    /// Pages of this cache.
    pub fn pages_of(&self, cache: &'static HostCacheInfo) -> u64 {
        let least = self.spec(cache).min_pages(&self.array());
        // A log takes pages of its own: beside it the cache gets as many as without one.
        if cache.delays_parity || cache.holds_dirty {
            self.cache_pages + least - 1
        } else {
            self.cache_pages.max(least)
        }
    }

    /// Members that can be lost.
    pub fn tolerated(&self) -> u32 {
        if self.geometry.level() == RaidLevel::Raid0 { 0 } else { u32::from(self.geometry.parity_columns()) }
    }

    /// Sectors that a host can address.
    pub fn sectors(&self) -> u64 {
        self.geometry.data_pages() * PAGE_SECTORS
    }

    /// Returns true if zeros that the host writes may be trimmed.
    pub(crate) const fn zeros_unmap(&self) -> bool {
        self.mode.is_multiple_of(2)
    }

    /// Returns true if every acknowledged write is durable.
    pub fn every_write(&self) -> bool {
        self.regime == DurabilityMode::EveryWrite
    }
}
