//! SSDs that have a name: those of the papers, and drives that can be bought, each a row of data.
//!
//! docs/presets.md has them all in one table, with what the model reaches of each data sheet.

use destage_plan::{Nanos, PageGeometry};

use super::geometry::{PageAllocation, SsdConfig};

/// An SSD of a paper: the default but for this.
struct OfPaper {
    name: &'static str,
    about: &'static str,
    elements: u32,
    planes: u32,
    blocks_per_plane: u32,
    /// Changes the other parameters.
    change: fn(&mut SsdConfig),
}

const PAPERS: &[OfPaper] = &[
    OfPaper {
        name: "lawc",
        about: "LAWC Table 1: 4 elements x 4 planes x 512 blocks, 2 GiB at 64 pages of 4 KiB",
        elements: 4,
        planes: 4,
        blocks_per_plane: 512,
        change: |_| (),
    },
    OfPaper {
        name: "gcar",
        about: "GCaR Table 2: 7 elements x 8 planes x 1024 blocks, 14 GiB at 64 pages of 4 KiB",
        elements: 7,
        planes: 8,
        blocks_per_plane: 1024,
        change: |_| (),
    },
    // CAWR gives its SSD 4 channels and the times of its chips. Not in the paper, and chosen here: 64 pages of a
    // block, 4 GiB (specs §1.1 allows 4 to 16), the reserve of 15 % and the collection at 5 % free blocks that the
    // other papers use, no transfer time, and no summary pages, which belong to the MSR extension.
    OfPaper {
        name: "cawr",
        about: "CAWR Table 2: 4 channels x 4096 blocks, 4 GiB at 64 pages of 4 KiB, 60/800/1500 us, no transfer time",
        elements: 4,
        planes: 1,
        blocks_per_plane: 4096,
        change: |config| {
            config.allocation = PageAllocation::Channels;
            config.read = Nanos(60_000);
            config.program = Nanos(800_000);
            config.erase = Nanos(1_500_000);
            config.transfer_ps_per_byte = 0;
            config.summary_page = false;
        },
    },
    OfPaper {
        name: "80gb",
        about: "80 GB as in LB-CLOCK §V: 8 elements x 8 planes x 4768 blocks at 64 pages of 4 KiB",
        elements: 8,
        planes: 8,
        blocks_per_plane: 4768,
        change: |_| (),
    },
];

/// Holds a data sheet's figures of a drive's throughput.
#[derive(Clone, Copy, Debug)]
pub struct DataSheet {
    /// Reading 128 KiB at a time in ascending order, in MB/s (10^6 B).
    pub sequential_read: u32,
    /// Writing 128 KiB at a time in ascending order, in MB/s.
    pub sequential_write: u32,
    /// Reading 4 KiB anywhere, in requests a second.
    pub random_read: u32,
    /// Writing 4 KiB anywhere, in requests a second.
    pub random_write: u32,
    /// Sets the number of outstanding requests meanwhile.
    pub queue_depth: u32,
    /// Is true if the sheet counts random writes of a drive that had been overwritten for long, as sheets of
    /// servers' drives do. Otherwise the drive was new.
    pub steady: bool,
}

/// A drive that can be bought.
///
/// What is public of such drives is what they do, and of their flash some of what it is made of. So a row has the
/// times that its source gives; where there is none they are chosen so that the model does what the sheet says, and
/// the row tells which. An element is what can read on its own: a die, or a plane of it.
#[derive(Clone, Copy, Debug)]
pub struct DrivePreset {
    /// Names the preset on the command line.
    pub name: &'static str,
    /// Describes the preset.
    pub about: &'static str,
    /// Counts the units that read and program on their own.
    pub elements: u32,
    /// Bytes of flash.
    pub raw_bytes: u64,
    /// Bytes that hosts can address.
    pub exported_bytes: u64,
    /// Until a page's data has left the cells.
    pub read: Nanos,
    /// Programming 4 KiB: a share of the pages that an element programs together.
    pub program_4k: Nanos,
    /// Moving a byte over an element's pins, in picoseconds.
    pub transfer_ps_per_byte: u64,
    /// Erases that a block endures.
    pub endurance: u32,
    /// Commands that it takes at a time, if its interface sets a limit that matters.
    pub queue_depth: Option<u32>,
    /// Holds the figures of the data sheet.
    pub sheet: DataSheet,
}

const GIB: u64 = 1 << 30;
const GB: u64 = 1_000_000_000;

/// Erasing: no sheet tells how long a block takes, nor how large it is. 5 ms for 16 MiB are usual of stacked flash;
/// a block of the model takes its share of that, so that erasing takes as much of the time as it does there.
const ERASE: (Nanos, u64) = (Nanos(5_000_000), 16 << 20);
/// Share of blocks at which collection begins, in hundredths of a percent. Nothing is public; little, since drives
/// collect as late as they can.
const MIN_FREE_BP: u32 = 50;
/// Blocks of an element that are free or open whatever is collected: two to three free ones, since collection stops
/// above two, and the one that is being written. A drive's share of them is nothing; without them beside the reserve
/// a small one, scaled to a trace, would have much less to collect from than the drive has.
const KEPT_BLOCKS: u32 = 3;

/// Drives that can be bought.
pub const DRIVES: &[DrivePreset] = &[
    // Data sheet: Samsung's of the PM9A3, U.2, 1.92 TB (MZQL21T9HCJR). Flash: sixth generation of V-NAND, 512 Gbit
    // dies of two planes, 82 MB/s written and 1.2 Gbit/s a pin (D. Kang and others, ISSCC 2019, 13.1): a plane
    // programs 4 KiB in 100 us. 32 dies follow from the capacity. Not public: `read`, chosen so that random reads at
    // the sheet's queue depth are the sheet's (the maker says less than 45 us of the cells alone); the planes of a
    // die must read on their own, since 32 dies could not do so many; `endurance`, which is usual of such flash.
    DrivePreset {
        name: "pm9a3",
        about: "Samsung PM9A3, 1.92 TB, TLC for servers: 64 elements (planes), 13% of the flash not exported",
        elements: 64,
        raw_bytes: 2048 * GIB,
        exported_bytes: 1920 * GB,
        read: Nanos(60_000),
        program_4k: Nanos(100_000),
        transfer_ps_per_byte: 833,
        endurance: 7000,
        queue_depth: None,
        sheet: DataSheet {
            sequential_read: 6800,
            sequential_write: 2700,
            random_read: 850_000,
            random_write: 130_000,
            queue_depth: 256,
            steady: true,
        },
    },
    // Data sheet: Samsung's of the 980 PRO, 1 TB, with what it says of writes once TurboWrite is used up (2,000 MB/s)
    // and of one random read at a time (22,000 a second: 45.5 us, of which the pins take 3.5). Flash: sixth
    // generation of V-NAND, 256 Gbit dies, pins as above; 32 dies of two planes follow from the capacity. Not
    // public: `program_4k`, chosen so that writes are the 2,000 MB/s; `endurance`, which is usual of such flash. The
    // sheet's random writes are those into TurboWrite.
    DrivePreset {
        name: "980pro",
        about: "Samsung 980 PRO, 1 TB, TLC for desktops: 64 elements (planes), 9% of the flash not exported, no TurboWrite",
        elements: 64,
        raw_bytes: 1024 * GIB,
        exported_bytes: 1000 * GB,
        read: Nanos(42_000),
        program_4k: Nanos(127_500),
        transfer_ps_per_byte: 833,
        endurance: 1500,
        queue_depth: None,
        sheet: DataSheet {
            sequential_read: 7000,
            sequential_write: 2000,
            random_read: 1_000_000,
            random_write: 1_000_000,
            queue_depth: 512,
            steady: false,
        },
    },
    // Data sheet: Samsung's of the 850 EVO, 250 GB, with what it says of writes without TurboWrite (300 MB/s, 70,000
    // random writes a second) and of one random read at a time (10,000 a second: 100 us, of which the pins take 4);
    // 16 dies of 128 Gbit (AnandTech, 8 December 2014). Pins: 1 Gbit/s (J.-W. Im and others, ISSCC 2015, 7.2). Not
    // public: `program_4k`, chosen so that writes are the 300 MB/s; `endurance`, which is usual of such flash. The
    // queue is SATA's.
    DrivePreset {
        name: "850evo",
        about: "Samsung 850 EVO, 250 GB, TLC over SATA: 16 elements (dies), 9% of the flash not exported, no TurboWrite",
        elements: 16,
        raw_bytes: 256 * GIB,
        exported_bytes: 250 * GB,
        read: Nanos(96_000),
        program_4k: Nanos(214_000),
        transfer_ps_per_byte: 1000,
        endurance: 2000,
        queue_depth: Some(32),
        sheet: DataSheet {
            sequential_read: 540,
            sequential_write: 300,
            random_read: 97_000,
            random_write: 70_000,
            queue_depth: 32,
            steady: false,
        },
    },
    // Data sheet: Intel's of the D5-P4320, 7.68 TB (as told by ComputerBase, 8 August 2018): 64 dies of 1 Tbit follow
    // from the capacity, and 1,600 erases from 0.9 sequential writes of the whole drive a day over five years. Not
    // public: `read` and `program_4k`, chosen so that random reads and sequential writes are the sheet's; the pins,
    // which are those of ONFI 4 at 800 MT/s.
    DrivePreset {
        name: "p4320",
        about: "Intel D5-P4320, 7.68 TB, QLC for servers: 64 elements (dies), 13% of the flash not exported",
        elements: 64,
        raw_bytes: 8192 * GIB,
        exported_bytes: 7680 * GB,
        read: Nanos(120_000),
        program_4k: Nanos(256_000),
        transfer_ps_per_byte: 1250,
        endurance: 1600,
        queue_depth: None,
        sheet: DataSheet {
            sequential_read: 3200,
            sequential_write: 1000,
            random_read: 427_000,
            random_write: 36_000,
            queue_depth: 256,
            steady: true,
        },
    },
];

/// The names of all presets, with what each is: the papers' first.
pub fn presets() -> impl Iterator<Item = (&'static str, &'static str)> {
    let papers = PAPERS.iter().map(|paper| (paper.name, paper.about));
    papers.chain(DRIVES.iter().map(|drive| (drive.name, drive.about)))
}

/// The drive of this name.
pub fn drive(name: &str) -> Option<&'static DrivePreset> {
    DRIVES.iter().find(|drive| drive.name == name)
}

impl DrivePreset {
    /// The drive as it is, in pages and blocks of this size.
    pub fn config(&self, geometry: PageGeometry) -> SsdConfig {
        let block = geometry.page_bytes() * u64::from(geometry.pages_per_block());
        // Where blocks are larger than can be had of an element there are two, which is too few, and refused.
        let blocks = (self.raw_bytes / u64::from(self.elements) / block).max(2);
        let share_of = |time: Nanos, bytes: u64, of: u64| {
            Nanos((u128::from(time.0) * u128::from(bytes) / u128::from(of)).min(u64::MAX.into()) as u64)
        };
        SsdConfig {
            elements: self.elements,
            allocation: PageAllocation::Channels,
            idle_first: true,
            planes: 1,
            lanes: 1,
            blocks_per_plane: u32::try_from(blocks).unwrap_or(u32::MAX),
            reserve_bp: ((self.raw_bytes - self.exported_bytes) * 10_000 / self.raw_bytes) as u32,
            kept_blocks: KEPT_BLOCKS,
            min_free_bp: MIN_FREE_BP,
            read: self.read,
            program: share_of(self.program_4k, geometry.page_bytes(), 4096),
            erase: share_of(ERASE.0, block, ERASE.1),
            transfer_ps_per_byte: self.transfer_ps_per_byte,
            summary_page: false,
            endurance: self.endurance,
            queue_depth: self.queue_depth,
            ..SsdConfig::default()
        }
    }
}

impl SsdConfig {
    /// The SSD of this name. What it says of blocks is of those of this geometry; a drive's times are, too.
    pub fn preset(name: &str, geometry: PageGeometry) -> Option<Self> {
        if let Some(drive) = drive(name) {
            return Some(drive.config(geometry));
        }
        let paper = PAPERS.iter().find(|paper| paper.name == name)?;
        let &OfPaper { elements, planes, blocks_per_plane, change, .. } = paper;
        let mut config = Self { elements, planes, blocks_per_plane, lanes: planes, ..Self::default() };
        change(&mut config);
        Some(config)
    }
}
