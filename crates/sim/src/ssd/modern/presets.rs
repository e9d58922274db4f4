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
    /// Describes the drive in a line.
    pub about: &'static str,
    /// Counts the dies.
    pub dies: u32,
    /// Planes of a die that are programmed together.
    pub planes: u32,
    /// Flash pages of a word line, the bits of a cell.
    pub pages_per_word_line: u32,
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
    /// Sets the time that a write takes outside the flash.
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
        pages_per_word_line: 3,
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
        pages_per_word_line: 3,
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
        pages_per_word_line: 3,
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
    // From the sheet alone, as the classic row of the drive: `read` is one random read at a time (10,000/s: 100 us) less
    // 7 us outside the flash and the pins, `command_write` is one random write at a time (40,000/s: 25 us), `program` is
    // what 16 dies of two planes take for the 300 MB/s that are written once TurboWrite is used up. The queue is SATA's,
    // and no more writes can wait inside than it holds.
    ModernDesign {
        name: "850evo",
        about: "Samsung 850 EVO, 250 GB, TLC over SATA: 16 dies, 9% of the flash not exported, no TurboWrite",
        dies: 16,
        planes: 2,
        pages_per_word_line: 3,
        raw_bytes: 256 * GIB,
        exported_bytes: 250 * GB,
        read: Nanos(88_900),
        program: Nanos(5_243_000),
        transfer_ps_per_byte: 1000,
        command_write: Nanos(25_000),
        write_slots: 32,
        endurance: 2000,
        queue_depth: Some(32),
        command_rate: 97_000,
        link_rate: Some(540_000_000),
    },
    // From the sheet alone, as the classic row of the drive. A word line of QLC has four flash pages. `program` is set to
    // the sheet's steady random writes of 36,000/s (a unit of 128 KiB in 12.9 ms; the sheet's 1,000 MB/s in order would
    // make it 8.4 ms). `read` is a mean over the four page types, of which no sheet tells.
    ModernDesign {
        name: "p4320",
        about: "Intel D5-P4320, 7.68 TB, QLC for servers: 64 dies, 13% of the flash not exported, protected cache",
        dies: 64,
        planes: 2,
        pages_per_word_line: 4,
        raw_bytes: 8192 * GIB,
        exported_bytes: 7680 * GB,
        read: Nanos(120_000),
        program: Nanos(13_230_000),
        transfer_ps_per_byte: 1250,
        command_write: Nanos(11_000),
        write_slots: 256,
        endurance: 1600,
        queue_depth: None,
        command_rate: 427_000,
        link_rate: Some(3_200_000_000),
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
                pages_per_word_line: self.pages_per_word_line,
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
