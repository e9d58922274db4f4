//! The shape and the times of an SSD, and what makes a shape impossible (specs §1.1–1.2).

use destage_plan::{Nanos, PageGeometry, Quota};

use super::geometry_error::SsdGeometryError;
use super::modern::{ModernConfig, ModernGeometry};

/// Selects the element in which a host page is programmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageAllocation {
    /// A function of its address: pages are striped over the elements (specs §1.2).
    #[default]
    Static,
    /// Any: each element is a channel with its own write point, and who writes chooses, or else the
    /// elements take turns (specs §1.3).
    Channels,
}

impl PageAllocation {
    /// The word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Channels => "channels",
        }
    }
}

/// Says where collection puts the valid pages that it moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CollectionPoint {
    /// Puts them at the write point of hosts, behind their pages.
    #[default]
    Shared,
    /// Puts them at a write point of its own in each pool (in other simulators a write frontier or pointer of collection).
    Own,
}

impl CollectionPoint {
    /// Lists both.
    pub const ALL: [Self; 2] = [Self::Shared, Self::Own];

    /// Returns the word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Own => "own",
        }
    }
}

/// The flash translation layer: how logical pages are mapped to flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ftl {
    /// Each page anywhere (specs §1.2).
    #[default]
    Page,
    /// Blocks in place, and a log block for each of a few (specs §1.4).
    Bast,
    /// Blocks in place, one log block for sequential writes and a few for all others (specs §1.4).
    Fast,
}

impl Ftl {
    /// Every layer.
    pub const ALL: [Self; 3] = [Self::Page, Self::Bast, Self::Fast];

    /// The word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Bast => "bast",
            Self::Fast => "fast",
        }
    }

    /// The fewest log blocks that an element can do with.
    const fn fewest_log_blocks(self) -> u64 {
        match self {
            Self::Page => 0,
            Self::Bast => 1,
            Self::Fast => 2,
        }
    }
}

/// Describes the parts of an SSD and their speeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdConfig {
    /// Selects the translation of pages.
    pub ftl: Ftl,
    /// Log blocks of an element, the sequential one of FAST included; `None` for all blocks of the
    /// reserve but one, which merges need.
    pub log_blocks: Option<u32>,
    /// Elements (packages), or channels: each serves one operation at a time.
    pub elements: u32,
    /// Selects the element in which a host page is programmed.
    pub allocation: PageAllocation,
    /// With channels: pages whose channel nobody chooses go to the one that is idle first, and not in turn.
    pub idle_first: bool,
    /// Planes in an element.
    pub planes: u32,
    /// Erase blocks in a plane.
    pub blocks_per_plane: u32,
    /// Share of each plane's blocks that is not exported, in hundredths of a percent.
    pub reserve_bp: u32,
    /// Blocks of each plane that are not exported beside that share.
    pub kept_blocks: u32,
    /// Share of free blocks at or below which an element (with copy-back: a plane) collects, in
    /// hundredths of a percent.
    pub min_free_bp: u32,
    /// Reading a page into the element's register.
    pub read: Nanos,
    /// Programming a page from the register.
    pub program: Nanos,
    /// Erasing a block.
    pub erase: Nanos,
    /// Moving a byte over the element's pins, in picoseconds; a sector moves 528 bytes (specs
    /// §1.1).
    pub transfer_ps_per_byte: u64,
    /// Valid pages are copied inside their plane, planes work in parallel, and each plane has its
    /// own write point.
    pub copy_back: bool,
    /// Collection begins when the element runs low, not when the next operation finds it so.
    pub background: bool,
    /// Says how much each collection cleans that the SSD begins itself. With copy-back each parallel unit cleans so
    /// many blocks of one plane, and one block with [`Quota::Watermark`].
    pub collection_batch: Quota,
    /// Says where collection puts the pages that it moves.
    pub collection_write_point: CollectionPoint,
    /// With copy-back: how many planes of an element can work at the same time.
    pub lanes: u32,
    /// Consecutive pages that lie on the same element.
    pub stride: u32,
    /// The last page of each block holds a summary and no data.
    pub summary_page: bool,
    /// Erases that a block endures.
    pub endurance: u32,
    /// Commands that the device takes at a time; the others wait in the host, in order. `None` for
    /// all that come.
    pub queue_depth: Option<u32>,
    /// Adds the settings of the modern model of a drive; `None` selects the classic model, that of the
    /// papers. The modern model uses none of the fields above that [`ModernConfig`] does not name.
    pub modern: Option<ModernConfig>,
}

impl Default for SsdConfig {
    /// LAWC's SSD (Table 1) with the transfer time of the MSR sample configuration.
    fn default() -> Self {
        Self {
            ftl: Ftl::Page,
            log_blocks: None,
            elements: 4,
            allocation: PageAllocation::Static,
            idle_first: false,
            planes: 4,
            blocks_per_plane: 512,
            reserve_bp: 1500,
            kept_blocks: 0,
            min_free_bp: 500,
            read: Nanos(25_000),
            program: Nanos(200_000),
            erase: Nanos(1_500_000),
            transfer_ps_per_byte: 25_000,
            copy_back: false,
            background: false,
            collection_batch: Quota::Watermark,
            collection_write_point: CollectionPoint::Shared,
            lanes: 4,
            stride: 1,
            summary_page: true,
            endurance: 100_000,
            queue_depth: None,
            modern: None,
        }
    }
}

/// Commands that an SSD may take at a time: as many as `NVMe` allows a queue.
const DEEPEST_QUEUE: u64 = 65_536;

impl SsdConfig {
    /// The same with as many blocks in each plane as it takes to export so many pages at least.
    ///
    /// # Errors
    /// If there is no such SSD: what [`SsdShape::new`] says of the smallest that would export them.
    pub fn with_pages(mut self, pages: u64, geometry: PageGeometry) -> Result<Self, SsdGeometryError> {
        if let Some(modern) = self.modern.take() {
            let exported_pages = ModernGeometry::pages_to_fit(&self, &modern, pages, geometry);
            self.modern = Some(ModernConfig { exported_pages, ..modern });
            return SsdShape::new(self, geometry).map(|shape| shape.config);
        }
        let exports = |blocks| {
            let shape = SsdShape::new(Self { blocks_per_plane: blocks, ..self.clone() }, geometry);
            shape.map(|shape| u64::from(shape.host_pages) >= pages)
        };
        // Shares of few blocks are rounded: what is found has enough, and one with a block fewer has not.
        let (mut few, mut many) = (1, 2);
        let mut before = None;
        loop {
            match exports(many) {
                Ok(true) => break,
                Ok(false) => before = None,
                Err(error @ (SsdGeometryError::TooLarge { .. } | SsdGeometryError::Range { .. })) => {
                    return Err(before.unwrap_or(error));
                }
                // There may be no room to collect because it is so small.
                Err(error) => before = Some(error),
            }
            (few, many) = (many, many * 2);
        }
        while many - few > 1 {
            let middle = few.midpoint(many);
            if exports(middle).unwrap_or(false) { many = middle } else { few = middle }
        }
        self.blocks_per_plane = many;
        Ok(self)
    }
}

/// Erase blocks that a plane can have.
const MAX_BLOCKS_PER_PLANE: u32 = 1 << 24;
/// The longest operation of a chip: a second.
const LONGEST_OPERATION: Nanos = Nanos(1_000_000_000);
/// The slowest transfer: a byte in a microsecond.
const SLOWEST_TRANSFER_PS: u64 = 1_000_000;

/// An [`SsdConfig`] with everything derived from it.
#[derive(Clone, Debug)]
pub struct SsdShape {
    /// Holds the configuration that the shape derives from.
    pub config: SsdConfig,
    /// Pages in an erase block.
    pub pages_per_block: u32,
    /// Pages of an erase block that hold data.
    pub data_pages: u32,
    /// Write pools of an element: one, or one per plane with copy-back.
    pub pools: u32,
    /// Erase blocks in a pool.
    pub pool_blocks: u32,
    /// Blocks of a pool that are free in a full device.
    pub pool_reserved: u32,
    /// A pool with this many free blocks or fewer is collected. With log blocks: what a full
    /// element has free once it has to reclaim one to begin another.
    pub pool_low: u32,
    /// Log blocks of an element; none under the page map.
    pub log_blocks: u32,
    /// Pages of flash in an element.
    pub raw_pages: u32,
    /// Pages that an element exports.
    pub element_pages: u32,
    /// Valid pages that a channel takes at most: with as many it can still collect, or merge.
    pub channel_pages: u32,
    /// Pages that hosts can address: whole logical blocks.
    pub host_pages: u32,
    /// Moving a page over the element's pins.
    pub transfer: Nanos,
    /// Moving one sector over the element's pins.
    pub transfer_sector: Nanos,
    /// Holds the derived sizes of the modern model, if it is one. A pool's blocks are then superblocks'
    /// shares of a die, and its low watermark is the free space that pacing maintains.
    pub modern: Option<Box<ModernGeometry>>,
}

/// Returns a collection's batch as users write it.
fn batch_word(batch: Quota) -> String {
    match batch {
        Quota::Watermark => "watermark".to_owned(),
        Quota::Blocks(blocks) => blocks.to_string(),
    }
}

/// A share in hundredths of a percent, rounded down.
const fn share(of: u64, bp: u32) -> u64 {
    of * bp as u64 / 10_000
}

/// The threshold below which a pool of the page map is collected, and the free blocks that it needs
/// for that.
fn room_to_collect(
    c: &SsdConfig,
    blocks: u64,
    reserved: u64,
    scope: &'static str,
) -> Result<(u64, u64), SsdGeometryError> {
    if let Some(log_blocks) = c.log_blocks {
        return Err(SsdGeometryError::LogBlocksOfPageMap { log_blocks });
    }
    // Copying the valid pages of a victim may take one free block before it gives one back.
    let low = share(blocks, c.min_free_bp).max(1);
    // Collection stops above low + 1 free blocks and holds one more as write point; with fewer than
    // that many blocks' worth of slack every block could be fully valid, and copying would free
    // nothing. A write point of collection's own holds another block.
    let needed = low + 4 + u64::from(c.collection_write_point == CollectionPoint::Own);
    if reserved < needed {
        return Err(SsdGeometryError::NoRoomToCollect { reserved, blocks, scope, low, needed });
    }
    Ok((low, needed))
}

/// The log blocks of an element.
fn room_for_log_blocks(
    c: &SsdConfig,
    pages_per_block: u32,
    blocks: u64,
    reserved: u64,
) -> Result<u64, SsdGeometryError> {
    let ftl = c.ftl.word();
    let switch = |is_on: bool| (is_on.to_string(), "false");
    let batch = (batch_word(c.collection_batch), "watermark");
    let point = (c.collection_write_point.word().to_owned(), "shared");
    let page_map_only = [
        ("copy-back", switch(c.copy_back), "merges bring pages into order, wherever they were"),
        ("background", switch(c.background), "log blocks are merged when a write needs one"),
        ("summary-page", switch(c.summary_page), "a block in place has no page left for a summary"),
        ("idle-first", switch(c.idle_first), "a page goes where its block is written"),
        ("collection-batch", batch, "log blocks are merged one at a time, when a write needs one"),
        ("collection-write-point", point, "merges copy a block's pages into a block of their own"),
    ];
    for (key, (value, instead), why) in page_map_only {
        if value != instead {
            return Err(SsdGeometryError::NotWithLogBlocks { key, value, instead, ftl, why });
        }
    }
    if c.allocation == PageAllocation::Static && !c.stride.is_multiple_of(pages_per_block) {
        return Err(SsdGeometryError::StrideOfLogBlocks { stride: c.stride, pages_per_block, ftl });
    }
    let (fewest, most) = (c.ftl.fewest_log_blocks(), reserved.saturating_sub(1));
    if most < fewest {
        return Err(SsdGeometryError::NoRoomForLogBlocks { reserved, blocks, needed: fewest + 1, ftl });
    }
    let log_blocks = c.log_blocks.map_or(most, u64::from);
    if (fewest..=most).contains(&log_blocks) {
        Ok(log_blocks)
    } else {
        Err(SsdGeometryError::LogBlocks { log_blocks, fewest, most, ftl })
    }
}

impl SsdShape {
    /// Derives the shape and checks that it can work.
    pub fn new(config: SsdConfig, geometry: PageGeometry) -> Result<Self, SsdGeometryError> {
        if let Some(modern) = &config.modern {
            let modern = ModernGeometry::new(&config, modern, geometry)?;
            return Ok(Self::of_modern(config, modern, geometry));
        }
        let c = &config;
        let n = geometry.pages_per_block();
        let range = |key, value: u32, min: u64, max: u64| {
            let value = u64::from(value);
            if (min..=max).contains(&value) { Ok(()) } else { Err(SsdGeometryError::Range { key, value, min, max }) }
        };
        range("elements", c.elements, 1, 4096)?;
        range("planes", c.planes, 1, 4096)?;
        range("blocks-per-plane", c.blocks_per_plane, 2, MAX_BLOCKS_PER_PLANE.into())?;
        range("reserve", c.reserve_bp / 100, 0, 95)?;
        range("min-free", c.min_free_bp / 100, 0, 95)?;
        range("stride", c.stride, 1, 1 << 20)?;
        range("parallel-units", c.lanes, 1, u64::from(c.planes))?;
        range("endurance", c.endurance, 1, u64::from(u32::MAX))?;
        range("queue-depth", c.queue_depth.unwrap_or(1), 1, DEEPEST_QUEUE)?;
        if let Quota::Blocks(blocks) = c.collection_batch {
            range("collection-batch", blocks, 1, MAX_BLOCKS_PER_PLANE.into())?;
        }
        // Sums of times stay in range, whatever a run is made of.
        let bounded = |key, value, max| {
            if value <= max { Ok(()) } else { Err(SsdGeometryError::Range { key, value, min: 0, max }) }
        };
        bounded("read (in ns)", c.read.0, LONGEST_OPERATION.0)?;
        bounded("program (in ns)", c.program.0, LONGEST_OPERATION.0)?;
        bounded("erase (in ns)", c.erase.0, LONGEST_OPERATION.0)?;
        bounded("transfer (in ps/B)", c.transfer_ps_per_byte, SLOWEST_TRANSFER_PS)?;
        if c.summary_page && n < 2 {
            return Err(SsdGeometryError::Range {
                key: "summary-page with pages-per-block",
                value: n.into(),
                min: 2,
                max: 65_536,
            });
        }
        if c.allocation == PageAllocation::Channels && c.copy_back {
            return Err(SsdGeometryError::CopyBackInChannels);
        }
        if c.allocation == PageAllocation::Static && c.idle_first {
            return Err(SsdGeometryError::IdleFirstWithoutChannels);
        }
        if c.allocation == PageAllocation::Channels && c.stride != 1 {
            return Err(SsdGeometryError::StrideOfChannels { stride: c.stride });
        }
        let blocks = u64::from(c.planes) * u64::from(c.blocks_per_plane);
        // The largest counts allowed make 2^64 pages.
        let raw = (u64::from(c.elements) * blocks).saturating_mul(u64::from(n));
        if raw > u64::from(u32::MAX) - 1 {
            return Err(SsdGeometryError::TooLarge { pages: raw });
        }
        let data_pages = n - u32::from(c.summary_page);
        let plane_reserved = share(c.blocks_per_plane.into(), c.reserve_bp) + u64::from(c.kept_blocks);
        let plane_reserved = plane_reserved.min(c.blocks_per_plane.into());
        let (pools, pool_blocks, pool_reserved, scope) = if c.copy_back {
            (c.planes, u64::from(c.blocks_per_plane), plane_reserved, "a plane")
        } else {
            (1, blocks, plane_reserved * u64::from(c.planes), "an element")
        };
        let (pool_low, log_blocks, least_free) = if c.ftl == Ftl::Page {
            let (low, needed) = room_to_collect(c, pool_blocks, pool_reserved, scope)?;
            (low, 0, needed)
        } else {
            let log_blocks = room_for_log_blocks(c, n, pool_blocks, pool_reserved)?;
            (pool_reserved - log_blocks, log_blocks, 1)
        };
        let element_pages =
            (u64::from(c.blocks_per_plane) - plane_reserved) * u64::from(c.planes) * u64::from(data_pages);
        let host_pages = element_pages / u64::from(c.stride) * u64::from(c.stride) * u64::from(c.elements);
        let host_pages = host_pages / u64::from(n) * u64::from(n);
        if host_pages == 0 {
            return Err(SsdGeometryError::NothingExported);
        }
        let transfer = |sectors: u64| Nanos(sectors * 528 * c.transfer_ps_per_byte / 1000);
        Ok(Self {
            pages_per_block: n,
            data_pages,
            pools,
            pool_blocks: pool_blocks as u32,
            pool_reserved: pool_reserved as u32,
            pool_low: pool_low as u32,
            log_blocks: log_blocks as u32,
            raw_pages: (blocks * u64::from(n)) as u32,
            element_pages: element_pages as u32,
            channel_pages: ((pool_blocks - least_free) * u64::from(data_pages)) as u32,
            host_pages: host_pages as u32,
            transfer: transfer(geometry.page_bytes() / 512),
            transfer_sector: transfer(1),
            modern: None,
            config,
        })
    }

    /// Returns the shape of a modern drive.
    fn of_modern(config: SsdConfig, modern: ModernGeometry, geometry: PageGeometry) -> Self {
        let per_block = u64::from(geometry.pages_per_block());
        let host_pages = (modern.config.exported_pages / per_block * per_block) as u32;
        let block = modern.superblock / config.elements;
        let transfer = Nanos(modern.transfer);
        Self {
            pages_per_block: block,
            data_pages: block,
            pools: 1,
            pool_blocks: modern.superblocks,
            pool_reserved: modern.superblocks - host_pages.div_ceil(modern.superblock),
            pool_low: modern.config.free_target,
            log_blocks: 0,
            raw_pages: block * modern.superblocks,
            element_pages: host_pages.div_ceil(config.elements),
            channel_pages: block * modern.superblocks,
            host_pages,
            transfer,
            transfer_sector: transfer,
            modern: Some(Box::new(modern)),
            config,
        }
    }

    /// Bytes of memory that a simulated device of this shape takes, roughly.
    pub fn memory_bytes(&self) -> u64 {
        let c = &self.config;
        if let Some(modern) = &self.modern {
            return modern.memory_bytes(self.host_pages, c.elements);
        }
        let blocks = u64::from(c.elements) * u64::from(c.planes) * u64::from(c.blocks_per_plane);
        let raw = blocks * u64::from(self.pages_per_block);
        if c.ftl != Ftl::Page {
            // Map and inverse; erases, state as a log block and place in a queue of each block;
            // data and log block of each logical one; a set of free blocks.
            let logical = u64::from(self.host_pages / self.pages_per_block);
            return raw * 4 + u64::from(self.host_pages) * 4 + blocks * 24 + logical * 8 + blocks.div_ceil(64) * 8;
        }
        // Map and inverse; valid bits; counters of each block; a set of blocks per number of valid
        // pages.
        let sets = (u64::from(self.data_pages) + 2) * blocks.div_ceil(64) * 8;
        raw * 4 + u64::from(self.element_pages) * u64::from(c.elements) * 4 + raw.div_ceil(64) * 8 + blocks * 12 + sets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages_of_4k() -> PageGeometry {
        PageGeometry::new(4096, 64).unwrap()
    }

    #[test]
    fn the_papers_sizes_come_out() {
        let lawc = SsdShape::new(SsdConfig::default(), pages_of_4k()).unwrap();
        assert_eq!((lawc.pool_reserved, lawc.pool_low), (304, 102));
        assert_eq!(lawc.element_pages * 4, 439_488);
        assert_eq!(lawc.host_pages, 439_488);
        assert_eq!(lawc.transfer, Nanos(105_600));
        let gcar = SsdShape::new(SsdConfig::preset("gcar", pages_of_4k()).unwrap(), pages_of_4k()).unwrap();
        assert_eq!((gcar.pool_reserved, gcar.pool_low), (1224, 409));
        let exported_gib = f64::from(gcar.element_pages) * 7.0 * 4096.0 / f64::from(1 << 30);
        assert!((exported_gib - 11.72).abs() < 0.01, "{exported_gib}");
        let cawr = SsdShape::new(SsdConfig::preset("cawr", pages_of_4k()).unwrap(), pages_of_4k()).unwrap();
        assert_eq!(u64::from(cawr.raw_pages) * 4 * 4096, 4 << 30);
        assert_eq!((cawr.pool_reserved, cawr.pool_low), (614, 204));
        assert_eq!((cawr.element_pages, cawr.channel_pages), (3482 * 64, (4096 - 208) * 64));
        assert_eq!((cawr.transfer, cawr.transfer_sector), (Nanos::ZERO, Nanos::ZERO));
    }

    #[test]
    fn impossible_shapes_say_what_to_change() {
        let message = |change: fn(&mut SsdConfig)| {
            let mut config = SsdConfig::default();
            change(&mut config);
            SsdShape::new(config, pages_of_4k()).unwrap_err().to_string()
        };
        assert!(message(|c| c.elements = 0).contains("ssd.elements = 0"));
        assert!(message(|c| c.reserve_bp = 500).contains("raise ssd.reserve"));
        assert!(message(|c| c.blocks_per_plane = 1 << 24).contains("raw pages"));
        assert!(
            message(|c| c.erase = Nanos(2_000_000_000)).contains("ssd.erase (in ns) = 2000000000 is not between 0")
        );
        assert!(message(|c| c.transfer_ps_per_byte = u64::MAX).contains("and 1000000"));
        assert!(message(|c| c.lanes = 5).contains("ssd.parallel-units = 5"));
        let none = message(|c| c.collection_batch = Quota::Blocks(0));
        assert!(none.contains("ssd.collection-batch = 0 is not between 1 and"), "{none}");
        let copying = |c: &mut SsdConfig| {
            c.allocation = PageAllocation::Channels;
            c.copy_back = true;
        };
        assert!(message(copying).contains("ssd.copy-back = true") && message(copying).contains("choose one"));
        let striped = |c: &mut SsdConfig| {
            c.allocation = PageAllocation::Channels;
            c.stride = 64;
        };
        assert!(message(striped).contains("ssd.stride = 64 has no meaning with ssd.allocation = channels"));
        assert!(
            message(|c| c.idle_first = true)
                .contains("ssd.idle-first = true has no meaning with ssd.allocation = static")
        );
    }

    /// Begins collection at 102 of 2,048 blocks, which needs four more; a write point of collection's own is another.
    #[test]
    fn a_write_point_of_collections_own_needs_a_block() {
        let works = |kept_blocks, collection_write_point| {
            let config = SsdConfig {
                planes: 1,
                blocks_per_plane: 2048,
                lanes: 1,
                reserve_bp: 0,
                kept_blocks,
                collection_write_point,
                ..SsdConfig::default()
            };
            SsdShape::new(config, pages_of_4k()).map(|shape| shape.pool_low).map_err(|error| error.to_string())
        };
        assert_eq!(works(106, CollectionPoint::Shared), Ok(102));
        assert_eq!(works(107, CollectionPoint::Own), Ok(102));
        let refused = works(106, CollectionPoint::Own).unwrap_err();
        assert!(refused.contains("collection needs at least 107 reserved blocks"), "{refused}");
        assert!(works(105, CollectionPoint::Shared).is_err());
    }

    #[test]
    fn a_size_is_made_of_blocks() {
        let config = |change: fn(&mut SsdConfig)| {
            let mut config = SsdConfig::default();
            change(&mut config);
            config
        };
        let exported = |config: SsdConfig| SsdShape::new(config, pages_of_4k()).unwrap().host_pages;
        for pages in [1, 20_000, 439_488, 439_489, 131_072 * 8] {
            let sized = SsdConfig::default().with_pages(pages, pages_of_4k()).unwrap();
            assert!(u64::from(exported(sized.clone())) >= pages, "{pages}: {sized:?}");
            let fewer = SsdConfig { blocks_per_plane: sized.blocks_per_plane - 1, ..sized.clone() };
            let smaller = SsdShape::new(fewer, pages_of_4k()).map_or(0, |shape| u64::from(shape.host_pages));
            assert!(smaller < pages, "{pages}: one block fewer has {smaller}");
            assert_eq!(SsdConfig { blocks_per_plane: 512, ..sized }, SsdConfig::default(), "nothing else changes");
        }
        assert_eq!(SsdConfig::default().with_pages(439_488, pages_of_4k()).unwrap(), SsdConfig::default());
        let refused = |pages, change| config(change).with_pages(pages, pages_of_4k()).unwrap_err().to_string();
        assert!(refused(1 << 33, |_| ()).contains("raw pages are more than"));
        assert!(refused(1, |c| c.reserve_bp = 100).contains("raise ssd.reserve"));
        assert!(refused(1, |c| c.elements = 0).contains("ssd.elements = 0"));
        assert!(refused(1, |c| (c.ftl, c.log_blocks) = (Ftl::Page, Some(3))).contains("ssd.log-blocks = 3"));
    }

    fn log_blocks(change: impl Fn(&mut SsdConfig)) -> Result<SsdShape, SsdGeometryError> {
        let mut config = SsdConfig { ftl: Ftl::Bast, stride: 64, summary_page: false, ..SsdConfig::default() };
        change(&mut config);
        SsdShape::new(config, pages_of_4k())
    }

    #[test]
    fn log_blocks_are_part_of_the_reserve() {
        // 304 of 2,048 blocks are reserved, as under the page map, but no page of the others is a
        // summary.
        let shape = log_blocks(|_| ()).unwrap();
        assert_eq!((shape.log_blocks, shape.pool_low, shape.data_pages), (303, 1, 64));
        assert_eq!((shape.element_pages, shape.host_pages), (1744 * 64, 4 * 1744 * 64));
        let shape = log_blocks(|c| (c.ftl, c.log_blocks, c.stride) = (Ftl::Fast, Some(2), 128)).unwrap();
        assert_eq!((shape.log_blocks, shape.pool_low), (2, 302));
        let shape = log_blocks(|c| (c.allocation, c.stride) = (PageAllocation::Channels, 1)).unwrap();
        assert_eq!((shape.log_blocks, shape.host_pages), (303, 4 * 1744 * 64));
        let page = SsdShape::new(SsdConfig::default(), pages_of_4k()).unwrap();
        assert_eq!(page.log_blocks, 0);
    }

    #[test]
    fn log_blocks_without_room_or_sense_say_what_to_change() {
        let message = |change: fn(&mut SsdConfig)| log_blocks(change).unwrap_err().to_string();
        assert!(message(|c| c.log_blocks = Some(304)).contains("ssd.log-blocks = 304 is not between 1 and 303"));
        assert!(message(|c| c.log_blocks = Some(0)).contains("ssd.log-blocks = 0 is not between 1 and 303"));
        let fast = message(|c| (c.ftl, c.log_blocks) = (Ftl::Fast, Some(1)));
        assert!(fast.contains("= 1 is not between 2 and 303: ssd.ftl = fast needs 2"), "{fast}");
        let small = message(|c| c.reserve_bp = 0);
        assert!(small.contains("keeps 0 of 2048 blocks") && small.contains("raise ssd.reserve"), "{small}");
        for (key, set) in [
            ("copy-back", (|c| c.copy_back = true) as fn(&mut SsdConfig)),
            ("background", |c| c.background = true),
            ("summary-page", |c| c.summary_page = true),
            ("idle-first", |c| (c.allocation, c.stride, c.idle_first) = (PageAllocation::Channels, 1, true)),
        ] {
            let message = message(set);
            assert!(message.contains(&format!("ssd.{key} = true has no meaning with ssd.ftl = bast")), "{message}");
            assert!(message.ends_with("; set it to false"), "{message}");
        }
        let batch = message(|c| c.collection_batch = Quota::Blocks(1));
        assert!(batch.contains("ssd.collection-batch = 1 has no meaning with ssd.ftl = bast"), "{batch}");
        assert!(batch.ends_with("; set it to watermark"), "{batch}");
        let point = message(|c| c.collection_write_point = CollectionPoint::Own);
        assert!(point.contains("ssd.collection-write-point = own has no meaning with ssd.ftl = bast"), "{point}");
        assert!(point.ends_with("; set it to shared"), "{point}");
        let stride = message(|c| c.stride = 96);
        assert!(stride.contains("ssd.stride = 96") && stride.contains("multiple of pages-per-block"), "{stride}");
        let page = message(|c| (c.ftl, c.log_blocks) = (Ftl::Page, Some(3)));
        assert!(page.contains("ssd.log-blocks = 3 has no meaning with ssd.ftl = page"), "{page}");
    }
}
