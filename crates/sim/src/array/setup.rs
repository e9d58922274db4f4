//! Describes an array and its service, and the errors that make one impossible. Errors name the settings'
//! keys.

use std::ops::Range;

use destage_cache::{CacheMedium, HostCacheError, HostCacheSpec, ServedTier, host_caches};
use destage_plan::{Dev, Nanos, PageGeometry, Row, SECTOR_BYTES, Shape, ShapeError};
use destage_raid::array::{ArrayConfig, ArrayError, DurabilityMode, ParityMethod};
use destage_raid::{ArrayGeometryError, Geometry, MAX_DEVICES, ParityLayout, RaidLevel, StripeCacheSize};

use super::device::{FixedTimes, VirtualDevice};
use super::journal::{self, JournalPlace};
use super::times::StepTimes;
use crate::disk::{DiskError, DiskProfile, DiskScheduler, SimulatedDisk};
use crate::experiment::StopSignal;
use crate::ssd::{self, Ftl, Ssd, SsdConfig, SsdShape, StartState};

/// Level, layout and size of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArraySetup {
    /// The level.
    pub level: RaidLevel,
    /// Members.
    pub members: u32,
    /// Places the parity; `None` means the level's default.
    pub layout: Option<ParityLayout>,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Bytes used of each member; `None`: all.
    pub member_bytes: Option<u64>,
}

/// Describes the model of a member or of the cache device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSetup {
    /// A mechanical disk.
    Disk {
        /// Holds the disk's parameters.
        profile: DiskProfile,
        /// Is true if the platters of all members stand alike at any time. Otherwise the members are spread
        /// evenly over a rotation.
        synchronised: bool,
    },
    /// A page-mapping SSD.
    Ssd {
        /// Holds the SSD's parameters.
        config: SsdConfig,
        /// Holds the content of the flash at first. A replacement is empty.
        start: StartState,
    },
    /// A device with constant times.
    Fixed(FixedTimes),
}

impl DeviceSetup {
    /// The word on the command line.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Disk { .. } => "disk",
            Self::Ssd { .. } => "ssd",
            Self::Fixed(_) => "fixed",
        }
    }

    /// Returns true if such a device takes discards: disks have no TRIM, and md passes them none.
    pub const fn takes_discards(&self) -> bool {
        !matches!(self, Self::Disk { .. })
    }

    /// Is true if the device can be told to collect garbage.
    pub fn is_collector(&self) -> bool {
        matches!(self, Self::Ssd { config, .. } if config.ftl == Ftl::Page)
    }
}

/// Says how the array is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayService {
    /// Selects the method of parity updates.
    pub parity: ParityMethod,
    /// Selects the durability of acknowledged writes.
    pub regime: DurabilityMode,
    /// Fragments of requests that the controller has at a time.
    pub depth: usize,
    /// Rows whose intents may be open.
    pub open_rows: usize,
    /// Sets how long after a write the array flushes on its own.
    pub idle_flush: Nanos,
    /// Stripes that a rebuild fills between two notes.
    pub rebuild_window: u32,
    /// Slots of the NVRAM.
    pub nv_slots: u32,
    /// Tells whether discards of whole rows go on to the members; none: to those that [take](DeviceSetup::takes_discards) them.
    pub passes_discards: Option<bool>,
    /// Sets what is kept in memory of recently written rows.
    pub stripe_cache: StripeCacheSize,
    /// Holds the times of steps that use no device.
    pub times: StepTimes,
    /// Sets the bytes of the cache device, beside the cache, for the journal that replaces the NVRAM; none if
    /// there is an NVRAM.
    pub journal: Option<u64>,
}

impl Default for ArrayService {
    /// As md would, with 4,096 fragments at a time.
    fn default() -> Self {
        Self {
            parity: ParityMethod::Min,
            regime: DurabilityMode::Flush,
            depth: 4096,
            open_rows: 16_384,
            idle_flush: Nanos(5_000_000_000),
            rebuild_window: 8,
            nv_slots: 1024,
            passes_discards: None,
            stripe_cache: StripeCacheSize::OFF,
            times: StepTimes::default(),
            journal: None,
        }
    }
}

/// Why an array cannot be simulated as asked. Each says which key to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// Less than a block to lay blocks out in.
    #[error(
        "lba-overflow = compact: the array holds {pages} pages, less than a block of {pages_per_block}; a larger member-size, or \
         fewer pages-per-block"
    )]
    Compact {
        /// Pages of the array.
        pages: u64,
        /// Pages of a block.
        pages_per_block: u32,
    },
    /// Tells that a stripe cache holds too few rows, or too many.
    #[error("raid.stripe-cache = {found}: {right}")]
    StripeCache {
        /// Gives the size asked for.
        found: StripeCacheSize,
        /// Says what would be right.
        right: String,
    },
    /// Too few or too many members.
    #[error("array = {level}:{members}: {level} takes between {} and {MAX_DEVICES} members", level.min_devices())]
    Members {
        /// The level asked for.
        level: RaidLevel,
        /// The members asked for.
        members: u32,
    },
    /// A layout that the level does not have.
    #[error("layout = {layout}: {level} {}", layouts(*level))]
    Layout {
        /// The level asked for.
        level: RaidLevel,
        /// The layout asked for.
        layout: ParityLayout,
    },
    /// A chunk that cannot be.
    #[error("chunk = {bytes} B is not a multiple of the page ({page} B) between 1 and 65535 pages")]
    Chunk {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes of a page.
        page: u64,
    },
    /// Nobody says how large the members are.
    #[error("member-size is missing: a fixed device is as large as that says")]
    NoMemberSize,
    /// Members too small or too large.
    #[error("member-size = {bytes} B is not between a chunk ({chunk} B) and what the {device} holds ({most} B)")]
    MemberSize {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes of a chunk.
        chunk: u64,
        /// Names the model of the members.
        device: &'static str,
        /// Bytes that it holds.
        most: u64,
    },
    /// More pages than can be numbered.
    #[error(
        "array: {pages} pages of data; up to 2^32 - 1 can be simulated; use a smaller member-size or a larger page"
    )]
    TooLarge {
        /// Pages of data.
        pages: u64,
    },
    /// The array layer refuses.
    #[error("array: {0}")]
    Array(ArrayError),
    /// Fragments cannot be made.
    #[error("page: {0}")]
    Shape(ShapeError),
    /// The disk cannot be.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The SSD cannot be.
    #[error(transparent)]
    Ssd(#[from] ssd::SsdGeometryError),
    /// A cache that is no whole number of pages, or none.
    #[error("cache = {bytes} B is not a multiple of the page ({page} B) of at least one page")]
    CachePages {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes of a page.
        page: u64,
    },
    /// A cache larger than its device.
    #[error(
        "cache = {bytes} B{}: the cache device ({device}) holds {most} B; make it larger or the cache smaller",
        journal.map_or_else(String::new, |bytes| format!(" and nvram.journal = {bytes} B"))
    )]
    CacheSize {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes of the journal beside it, if there is one.
        journal: Option<u64>,
        /// Names the model of the cache device.
        device: &'static str,
        /// Bytes that it holds.
        most: u64,
    },
    /// A journal that is too small.
    #[error(
        "nvram.journal = {bytes} B: for {rows} rows and {slots} slots (raid.nv-slots, and those of {policy}) it takes at \
         least {least} B"
    )]
    Journal {
        /// Bytes asked for.
        bytes: u64,
        /// Rows of the array.
        rows: u64,
        /// Slots.
        slots: u32,
        /// The policy.
        policy: &'static str,
        /// The least that does.
        least: u64,
    },
    /// A journal on a device that there is not.
    #[error("nvram.on = cache-device: policy = {policy} has no cache on a device; {} does", one_on_a_device())]
    NoJournal {
        /// The policy.
        policy: &'static str,
    },
    /// The cache refuses.
    #[error("cache: {0}")]
    Cache(HostCacheError),
    /// More than memory grants.
    #[error(
        "the devices and the cache of one run take about {needed} B and memory grants {granted} B; raise memory, or give \
         a smaller cache or smaller SSDs"
    )]
    Memory {
        /// Bytes that a run takes.
        needed: u64,
        /// Bytes granted.
        granted: u64,
    },
    /// A policy needs a cache.
    #[error("policy = {policy} needs a cache: give cache, and cache-device if it is no SSD")]
    NoCache {
        /// The policy.
        policy: &'static str,
    },
    /// A policy tells members what they cannot be told.
    #[error(
        "policy = {policy} has members collect garbage together, and {} cannot be told to; use device = ssd with ssd.ftl = page, \
         or policy = {}",
        if *device == "ssd" { "an SSD with log blocks".to_owned() } else { format!("a member that is a {device} device") },
        policy.split_once('+').map_or("none", |(_, cache)| cache)
    )]
    NoCollectors {
        /// The policy.
        policy: &'static str,
        /// Names the model of the members.
        device: &'static str,
    },
    /// A cache that nobody uses.
    #[error("{key} has no meaning: no policy has a cache; policy = {} has one", one_with_a_cache())]
    UnusedCache {
        /// The key.
        key: &'static str,
    },
    /// Refuses a key about a cache device where there is none.
    #[error("{key} has no meaning: no policy caches on a device; policy = {} does", one_on_a_device())]
    NoCacheDevice {
        /// The key.
        key: &'static str,
    },
    /// Devices that cannot fail or be replaced so.
    #[error("{key} = {device}@{time}: {why}")]
    Injection {
        /// `fail` or `replace`.
        key: &'static str,
        /// The device as the user names it.
        device: String,
        /// When.
        time: Nanos,
        /// Says why, and what would be right.
        why: String,
    },
    /// Something waits for ever: an error of destage's own.
    #[error("{policy}: {outstanding} requests are never answered; this is an error in destage, please report it")]
    Stalled {
        /// The policy.
        policy: &'static str,
        /// Requests without an answer.
        outstanding: u64,
    },
}

/// A policy that has a cache, for messages.
fn one_with_a_cache() -> &'static str {
    host_caches().find(|info| info.is_sized()).map_or("none", |info| info.name)
}

/// A policy that caches on a device, for messages.
fn one_on_a_device() -> &'static str {
    host_caches().find(|info| info.medium == CacheMedium::Device).map_or("none", |info| info.name)
}

fn layouts(level: RaidLevel) -> String {
    match level.layouts() {
        [] => "has no layouts; leave it out".into(),
        layouts => {
            let names: Vec<_> = layouts.iter().map(|layout| layout.name()).collect();
            format!("has {}", names.join(", "))
        }
    }
}

/// Makes devices of one kind.
pub(super) enum DeviceFactory {
    Disk { disk: SimulatedDisk, rotation: Nanos, synchronised: bool },
    Ssd { shape: SsdShape, start: StartState, aged: Option<Box<Ssd>> },
    Fixed(FixedTimes),
}

impl DeviceFactory {
    pub(super) fn new(
        setup: &DeviceSetup,
        geometry: PageGeometry,
        scheduler: DiskScheduler,
    ) -> Result<Self, SetupError> {
        Ok(match setup {
            DeviceSetup::Disk { profile, synchronised } => Self::Disk {
                disk: SimulatedDisk::new(profile, scheduler)?,
                rotation: profile.rotation,
                synchronised: *synchronised,
            },
            DeviceSetup::Ssd { config, start } => {
                Self::Ssd { shape: SsdShape::new(config.clone(), geometry)?, start: *start, aged: None }
            }
            DeviceSetup::Fixed(times) => Self::Fixed(*times),
        })
    }

    /// Ages an SSD once for all that are made, unless it is told to end.
    pub(super) fn prepare(&mut self, stop: Option<&StopSignal>) {
        if let Self::Ssd { shape, start, aged } = self
            && start.takes_long()
        {
            *aged = Some(Box::new(Ssd::new_unless(shape.clone(), *start, stop)));
        }
    }

    /// Pages that such a device holds; none if it is as large as wanted.
    pub(super) fn pages(&self, page_bytes: u64) -> Option<u64> {
        match self {
            Self::Disk { disk, .. } => Some(disk.sectors() / (page_bytes / SECTOR_BYTES)),
            Self::Ssd { shape, .. } => Some(u64::from(shape.host_pages)),
            Self::Fixed(_) => None,
        }
    }

    /// Bytes of memory that such a device takes, roughly.
    pub(super) fn memory_bytes(&self) -> u64 {
        match self {
            Self::Disk { .. } | Self::Fixed(_) => 4096,
            Self::Ssd { shape, .. } => shape.memory_bytes(),
        }
    }

    /// Device `index` of `of`, as it is at the beginning or, `fresh`, as a replacement is.
    pub(super) fn make(&self, index: u32, of: u32, pages: u64, page_bytes: u64, fresh: bool) -> VirtualDevice {
        match self {
            Self::Disk { disk, rotation, synchronised } => {
                let phase = if *synchronised { 0 } else { rotation.0 * u64::from(index) / u64::from(of.max(1)) };
                VirtualDevice::disk(disk.clone(), page_bytes, Nanos(phase))
            }
            Self::Ssd { shape, .. } if fresh => VirtualDevice::new_ssd(shape.clone(), StartState::Empty),
            Self::Ssd { aged: Some(aged), .. } => VirtualDevice::ssd(Ssd::clone(aged)),
            Self::Ssd { shape, start, aged: None } => VirtualDevice::new_ssd(shape.clone(), *start),
            Self::Fixed(times) => VirtualDevice::fixed(*times, pages),
        }
    }
}

impl ArraySetup {
    /// The array's geometry over members of so many pages at most (none: no limit).
    pub(super) fn geometry(&self, page: u64, device: &'static str, most: Option<u64>) -> Result<Geometry, SetupError> {
        let chunk_pages = self.chunk_bytes / page;
        if !self.chunk_bytes.is_multiple_of(page) || !(1..=u64::from(u16::MAX)).contains(&chunk_pages) {
            return Err(SetupError::Chunk { bytes: self.chunk_bytes, page });
        }
        let pages = match (self.member_bytes, most) {
            (Some(bytes), _) => bytes / page,
            (None, Some(most)) => most,
            (None, None) => return Err(SetupError::NoMemberSize),
        };
        let most = most.unwrap_or(destage_plan::Ext::MAX_DEVICE_PAGES);
        let member_size = || SetupError::MemberSize {
            bytes: pages.saturating_mul(page),
            chunk: self.chunk_bytes,
            device,
            most: most.saturating_mul(page),
        };
        if pages > most {
            return Err(member_size());
        }
        let made = Geometry::new(self.level, self.layout, self.members, chunk_pages as u32, pages);
        let geometry = made.map_err(|error| match error {
            ArrayGeometryError::Devices { level, devices } => SetupError::Members { level, members: devices },
            ArrayGeometryError::NoLayouts { level, layout } | ArrayGeometryError::Layout { level, layout } => {
                SetupError::Layout { level, layout }
            }
            ArrayGeometryError::Chunk => SetupError::Chunk { bytes: self.chunk_bytes, page },
            ArrayGeometryError::TooSmall { .. } => member_size(),
            ArrayGeometryError::TooLarge { member_pages, data_columns } => {
                SetupError::TooLarge { pages: member_pages.saturating_mul(u64::from(data_columns)) }
            }
        })?;
        if geometry.data_pages() >= u64::from(u32::MAX) {
            return Err(SetupError::TooLarge { pages: geometry.data_pages() });
        }
        Ok(geometry)
    }
}

/// Returns the shape by which requests to an array are split.
pub(super) fn shape(geometry: &Geometry, page: u64) -> Result<Shape, SetupError> {
    let stripe = u64::from(geometry.chunk_pages()) * u64::from(geometry.data_columns());
    Shape::new(page, SECTOR_BYTES, stripe, stripe, geometry.data_pages()).map_err(SetupError::Shape)
}

impl ArrayService {
    fn config(&self, geometry: Geometry, page_bytes: u64) -> ArrayConfig {
        let mut config = ArrayConfig::new(geometry);
        config.page_bytes = page_bytes as u32;
        config.parity = self.parity;
        config.regime = self.regime;
        config.max_open_rows = self.open_rows;
        config.idle_flush = self.idle_flush;
        config.rebuild_window = self.rebuild_window;
        config.nv_slots = self.nv_slots;
        config.trims = self.passes_discards.unwrap_or(true);
        // Who serves it says first if there can be no such cache.
        config.cached_rows = self.stripe_cache.rows(page_bytes, config.geometry.members()).unwrap_or(0);
        config
    }

    /// Makes the array with a cache of so many pages. Rebuilds fill the rows that are used, if these are listed.
    pub(super) fn serve(
        &self,
        geometry: Geometry,
        page_bytes: u64,
        cache: &HostCacheSpec,
        pages: u64,
        used_rows: Option<Vec<Range<Row>>>,
    ) -> Result<Box<dyn ServedTier>, SetupError> {
        let rows = self.stripe_cache.rows(page_bytes, geometry.members());
        rows.map_err(|right| SetupError::StripeCache { found: self.stripe_cache, right })?;
        let config = ArrayConfig { used_rows, ..self.config(geometry, page_bytes) };
        cache.build(&config, pages).map_err(SetupError::from)
    }

    /// Slots of the NVRAM that such a cache has beside the array's.
    pub(super) fn cache_slots(&self, geometry: &Geometry, page_bytes: u64, cache: &HostCacheSpec, pages: u64) -> u32 {
        cache.nv_slots(pages, &self.config(geometry.clone(), page_bytes))
    }

    /// Returns the place of the journal behind the cache on its device, or none if there is an NVRAM.
    pub(super) fn journal(
        &self,
        geometry: &Geometry,
        page_bytes: u64,
        cache: &HostCacheSpec,
        pages: u64,
    ) -> Result<Option<JournalPlace>, SetupError> {
        let Some(bytes) = self.journal else { return Ok(None) };
        let policy = cache.info().name;
        if cache.info().medium != CacheMedium::Device {
            return Err(SetupError::NoJournal { policy });
        }
        let rows = geometry.member_pages();
        let slots = self.nv_slots + self.cache_slots(geometry, page_bytes, cache, pages);
        let least = journal::least(rows, slots, page_bytes);
        if bytes / page_bytes < least {
            return Err(SetupError::Journal { bytes, rows, slots, policy, least: least * page_bytes });
        }
        let dev = Dev(geometry.members());
        Ok(Some(JournalPlace { dev, first: pages, pages: bytes / page_bytes, rows }))
    }

    /// Checks that the cache can serve the array. The check neither retains the cache nor takes memory for
    /// it.
    pub(super) fn check(
        &self,
        geometry: &Geometry,
        page_bytes: u64,
        cache: &HostCacheSpec,
        pages: u64,
    ) -> Result<(), SetupError> {
        cache.check(&self.config(geometry.clone(), page_bytes), pages).map_err(SetupError::from)
    }
}

impl From<HostCacheError> for SetupError {
    fn from(error: HostCacheError) -> Self {
        match error {
            HostCacheError::Array(error) => Self::Array(error),
            other => Self::Cache(other),
        }
    }
}
