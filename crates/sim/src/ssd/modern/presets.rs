//! Drives that can be bought, as the modern model has them, each a row of data. docs/presets.md says where each figure is
//! from, and what was fitted.

use destage_plan::{Nanos, PageGeometry};

use super::super::geometry::{CollectionPoint, PageAllocation, SsdConfig};
use super::config::ModernConfig;

const GIB: u64 = 1 << 30;
const GB: u64 = 1_000_000_000;

/// Describes a drive as the modern model has it. A die is an element.
#[derive(Clone, Copy, Debug)]
pub struct ModernDesign {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Counts the dies.
    pub dies: u32,
    /// Planes of a die that are programmed together.
    pub planes: u32,
    /// Bytes of flash.
    pub raw_bytes: u64,
    /// Bytes that hosts can address.
    pub exported_bytes: u64,
    /// Sensing a flash page.
    pub read: Nanos,
    /// Programming a word line of all planes of a die.
    pub program: Nanos,
    /// Moving a byte over the pins, in picoseconds.
    pub transfer_ps_per_byte: u64,
    /// What a write takes outside the flash.
    pub command_write: Nanos,
    /// Writes that wait for the cache inside.
    pub write_slots: u32,
    /// Erases that a block endures.
    pub endurance: u32,
    /// Commands that it takes at a time, if its interface sets a limit that matters.
    pub queue_depth: Option<u32>,
    /// Commands a second at most: the sheet's random reads.
    pub command_rate: u64,
    /// Bytes a second at most: the sheet's sequential reads; `None` where no sheet was at hand.
    pub link_rate: Option<u64>,
}

/// Sets the time of erasing a block of 400 word lines: no sheet tells how long that takes.
const ERASE: Nanos = Nanos(5_000_000);

/// Lists the drives that the modern model has.
pub const MODERN_DRIVES: &[ModernDesign] = &[
    // 512 Gbit dies of two planes, as in the classic row of the drive; 16 dies follow from the capacity. Fitted to one
    // measured number each (SSD-iq): `read` to the idle read of 64 us, `command_write` to the idle write, and `program` to
    // the steady random writes of 76,400/s; the sheet's 1,500 MB/s alone would make it 1,049 us. The link is that of the
    // 1.92 TB drive of the series.
    ModernDesign {
        name: "pm9a3",
        about: "Samsung PM9A3, 960 GB, TLC for servers: 16 dies, 13% of the flash not exported, protected cache",
        dies: 16,
        planes: 2,
        raw_bytes: 1024 * GIB,
        exported_bytes: 960 * GB,
        read: Nanos(53_600),
        program: Nanos(987_000),
        transfer_ps_per_byte: 830,
        command_write: Nanos(11_000),
        write_slots: 256,
        endurance: 7000,
        queue_depth: None,
        command_rate: 580_000,
        link_rate: Some(6_800_000_000),
    },
    // 512 Gbit dies of four planes; 32 follow from the capacity. Fitted likewise: idle read 70 us, idle write 8 us, steady
    // random writes 119,000/s.
    ModernDesign {
        name: "p5520",
        about: "Solidigm D7-P5520, 1.92 TB, TLC for servers: 32 dies, 13% of the flash not exported, protected cache",
        dies: 32,
        planes: 4,
        raw_bytes: 2048 * GIB,
        exported_bytes: 1920 * GB,
        read: Nanos(59_600),
        program: Nanos(2_606_000),
        transfer_ps_per_byte: 830,
        command_write: Nanos(8_000),
        write_slots: 256,
        endurance: 7000,
        queue_depth: None,
        command_rate: 700_000,
        link_rate: None,
    },
    // From the sheet and the flash's generation alone, as the classic row of the drive: `read` is one random read at a time
    // (45.5 us) less 7 us outside the flash and the pins, and `program` is what 32 dies of two planes take for the
    // 2,000 MB/s that are written once TurboWrite is used up.
    ModernDesign {
        name: "980pro",
        about: "Samsung 980 PRO, 1 TB, TLC for desktops: 32 dies, 9% of the flash not exported, no TurboWrite",
        dies: 32,
        planes: 2,
        raw_bytes: 1024 * GIB,
        exported_bytes: 1000 * GB,
        read: Nanos(35_100),
        program: Nanos(1_573_000),
        transfer_ps_per_byte: 833,
        command_write: Nanos(11_000),
        write_slots: 64,
        endurance: 1500,
        queue_depth: None,
        command_rate: 1_000_000,
        link_rate: Some(7_000_000_000),
    },
];

impl ModernDesign {
    /// Returns the drive of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        MODERN_DRIVES.iter().find(|drive| drive.name == name)
    }

    /// Returns the whole drive, with sectors of this size.
    pub fn config(&self, geometry: PageGeometry) -> SsdConfig {
        SsdConfig {
            elements: self.dies,
            allocation: PageAllocation::Channels,
            planes: self.planes,
            reserve_bp: ((self.raw_bytes - self.exported_bytes) * 10_000 / self.raw_bytes) as u32,
            read: self.read,
            program: self.program,
            erase: ERASE,
            transfer_ps_per_byte: self.transfer_ps_per_byte,
            collection_write_point: CollectionPoint::Own,
            endurance: self.endurance,
            queue_depth: self.queue_depth,
            modern: Some(ModernConfig {
                exported_pages: self.exported_bytes / geometry.page_bytes(),
                command_write: self.command_write,
                write_slots: self.write_slots,
                command_rate: Some(self.command_rate),
                link_rate: self.link_rate,
                ..ModernConfig::default()
            }),
            ..SsdConfig::default()
        }
    }
}
