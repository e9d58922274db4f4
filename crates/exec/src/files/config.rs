//! Which files an array consists of.

use std::path::{Path, PathBuf};
use std::time::Duration;

use destage_plan::{Dev, DevSet, Ext, Shape};

use super::error::FilesError;

/// An array in files, and how it is served.
#[derive(Clone, Debug)]
pub struct FilesConfig {
    /// What the caller's arrays are, line by line: each device's label says it, and who opens the array
    /// must say the same.
    pub about: String,
    /// A number that tells the caller's arrays apart. The NVRAM and the intents say it, so that
    /// those of another array are not taken for it.
    pub array: u64,
    /// How requests are split.
    pub shape: Shape,
    /// Fragments that the controller is given at a time, and commands that each device is
    /// given at a time.
    pub depth: usize,
    /// The members of the array from 0, then the cache devices.
    pub devices: Vec<DeviceConfig>,
    /// Whether every acknowledged write is durable. Else those are that a flush or FUA covers, and changes of the NVRAM
    /// that are done are made durable together, when something relies on that.
    pub every_write: bool,
    /// Where the NVRAM lies.
    pub nvram: NvramPlace,
    /// Names the file that the NVRAM goes to when the device that it lies on is lost. None: the executor stops then.
    pub spare_nvram: Option<PathBuf>,
    /// Slots of the NVRAM, as many as the controller was told.
    pub nv_slots: u32,
    /// File of the intents.
    pub intents: PathBuf,
    /// Rows that can have an intent: pages of a member.
    pub rows: u64,
    /// Members, the first of the devices, which say themselves which rows may be inconsistent; 0 if none is to.
    pub members: usize,
    /// Rows that are marked there together, at least: of large members more.
    pub rows_per_mark: u32,
    /// Marks that may stay though none of their rows is open: as many are made consistent for nothing after the loss of
    /// the NVRAM, and rows that are written again meanwhile cost no write of marks.
    pub idle_marks: u32,
    /// Who asks the operating system for what devices do.
    pub io: IoBackend,
    /// How long a file may keep opening, replacing, stopping and dropping waiting before it is said
    /// to hang: [`PATIENCE`](Self::PATIENCE), if in doubt. Much longer than a sync takes, for which
    /// a slow device may need long.
    pub patience: Duration,
    /// Limits how long a command of a device, or a change of the NVRAM or the intents, may take: [`DEVICE_TIMEOUT`](Self::DEVICE_TIMEOUT),
    /// if in doubt. A device that takes longer is failed as by an error, if nothing is lost with it. None: as long as it takes.
    pub device_timeout: Option<Duration>,
}

/// Where the NVRAM lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NvramPlace {
    /// In a file of its own, or at the beginning of a block device of its own.
    Own(PathBuf),
    /// On this device, a cache's, behind its label.
    Behind(Dev),
}

impl From<PathBuf> for NvramPlace {
    fn from(path: PathBuf) -> Self {
        Self::Own(path)
    }
}

impl From<&str> for NvramPlace {
    fn from(path: &str) -> Self {
        Self::Own(path.into())
    }
}

/// Who asks the operating system for what devices do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoBackend {
    /// A ring where there is one, else threads.
    #[default]
    Auto,
    /// The main loop, which gives operations to a ring, `io_uring` on Linux, and takes what has ended from there.
    Ring,
    /// Threads, some for each device, each of which waits for one operation.
    Threads,
}

/// A device's file.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// The file: its pages, behind them a label that says whose they are, and a member's marks.
    pub path: PathBuf,
    /// Bytes before the first page, which are left as they are.
    pub offset: u64,
    /// Pages.
    pub pages: u64,
    /// How it is served.
    pub options: DeviceOptions,
}

/// How a device is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Commands that are carried out at the same time, from 1 to 16, each by a thread; not more
    /// than [`FilesConfig::depth`]. A ring is given all that there are.
    pub workers: u8,
    /// Whether it is read and written past the memory of the operating system where that can be
    /// ([`FileExecutor::buffered`](crate::FileExecutor::buffered)).
    pub direct: bool,
    /// Time by which each of its steps begins later: a slow device, for tests. It is served by threads, which can sleep.
    pub delay: Duration,
    /// Steps after which it answers with errors only: a device that breaks, for tests. What
    /// replaces it does not break.
    pub breaks_after: Option<u64>,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self { workers: 4, direct: false, delay: Duration::ZERO, breaks_after: None }
    }
}

/// Tells [`FileExecutor::create`](crate::FileExecutor::create) what to do about files that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingFiles {
    /// Nothing is made if one does.
    Refuse,
    /// They are made anew; what they hold is lost.
    Overwrite,
    /// These devices must be there and hold what the array holds, parity included: nothing of it is changed or looked
    /// at, and a label is written behind it. If anything else exists nothing is made.
    Adopt(DevSet),
    /// These devices are parts of an array that is [given up](crate::FileExecutor::check_given_up), and so is the block device for the NVRAM
    /// alone if there is one: what they hold is lost. If anything else exists nothing is made.
    GiveUp {
        /// The devices.
        devices: DevSet,
        /// Whether the NVRAM's own block device is such a part.
        nvram: bool,
    },
}

impl ExistingFiles {
    /// Whether this device keeps what it holds.
    pub(super) const fn keeps(self, dev: usize) -> bool {
        matches!(self, Self::Adopt(devices) if devices.contains(Dev(dev as u8)))
    }

    /// Whether what this device holds may be lost.
    pub(super) fn loses(self, dev: usize) -> bool {
        match self {
            Self::Overwrite => true,
            Self::GiveUp { devices, .. } => devices.contains(Dev(dev as u8)),
            Self::Refuse | Self::Adopt(_) => false,
        }
    }

    /// Whether what the NVRAM's own block device holds may be lost.
    pub(super) const fn loses_nvram(self) -> bool {
        matches!(self, Self::Overwrite | Self::GiveUp { nvram: true, .. })
    }
}

/// What may be lost with the NVRAM and the intents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedLosses {
    /// Writes that were answered and are on no member. A cache that never has such loses none.
    pub data: bool,
    /// Which pages of the array were lost before.
    pub notes: bool,
}

/// Devices that an array can have: the controllers keep sets of them in 64 bits.
pub(super) const MAX_DEVICES: usize = 64;
/// Bytes of [`FilesConfig::about`] at most.
pub(super) const MAX_ABOUT_BYTES: u64 = 1 << 16;
/// Bytes of a page at most.
const MAX_PAGE_BYTES: u64 = 1 << 20;

/// Bytes before a device's pages at most.
const MAX_OFFSET: u64 = 1 << 40;

/// Commands of a device that are carried out at the same time, at most.
const MAX_WORKERS: u64 = 16;

/// Slots of the NVRAM at most: of 4 KiB they are 64 GiB.
const MAX_NV_SLOTS: u64 = 1 << 24;

impl FilesConfig {
    /// What disks are given by an operating system before it gives them up.
    pub const PATIENCE: Duration = Duration::from_secs(30);

    /// Sets as much as the kernel gives a disk for a command (`/sys/block/*/device/timeout`).
    pub const DEVICE_TIMEOUT: Duration = Duration::from_secs(30);

    /// Returns how long a file may keep a change of the array waiting that can be given up.
    pub(super) fn time_limit(&self) -> Duration {
        self.device_timeout.map_or(self.patience, |limit| limit.min(self.patience))
    }

    pub(super) fn check(&self) -> Result<(), FilesError> {
        let limit = |key: &str, found, range: std::ops::RangeInclusive<u64>, expected| {
            if range.contains(&found) {
                Ok(())
            } else {
                Err(FilesError::Config { key: key.to_owned(), found, expected })
            }
        };
        limit("depth", self.depth as u64, 1..=65_536, "it must be between 1 and 65,536")?;
        limit("devices", self.devices.len() as u64, 1..=MAX_DEVICES as u64, "there must be between 1 and 64")?;
        limit("page-bytes", self.shape.page_bytes(), 1..=MAX_PAGE_BYTES, "it must be at most 1,048,576")?;
        limit("bytes of about", self.about.len() as u64, 0..=MAX_ABOUT_BYTES, "it must be at most 65,536")?;
        limit("nv-slots", self.nv_slots.into(), 0..=MAX_NV_SLOTS, "it must be at most 16,777,216")?;
        limit("rows", self.rows, 0..=Ext::MAX_DEVICE_PAGES, "it must be at most 2^40")?;
        let devices = self.devices.len() as u64;
        limit("members", self.members as u64, 0..=devices, "there are no more than devices")?;
        limit("rows-per-mark", self.rows_per_mark.into(), 1..=1 << 30, "it must be between 1 and 2^30")?;
        for (device, dev) in self.devices.iter().zip(0..) {
            let key = format!("pages of {}", Dev(dev));
            limit(&key, device.pages, 1..=Ext::MAX_DEVICE_PAGES, "it must be between 1 and 2^40")?;
            let key_of_offset = format!("offset of {}", Dev(dev));
            limit(&key_of_offset, device.offset, 0..=MAX_OFFSET, "it must be at most 2^40")?;
            let (key, workers) = (format!("workers of {}", Dev(dev)), device.options.workers.into());
            limit(&key, workers, 1..=MAX_WORKERS, "it must be between 1 and 16")?;
        }
        if let NvramPlace::Behind(dev) = self.nvram {
            let caches = self.members as u64..=devices.saturating_sub(1);
            limit(
                "device of the nvram",
                dev.index() as u64,
                caches,
                "it must be a cache's device, behind the members",
            )?;
        }
        Ok(())
    }

    /// The device that the NVRAM lies on, if it lies on one of the array's.
    pub(super) const fn home(&self) -> Option<usize> {
        match self.nvram {
            NvramPlace::Own(_) => None,
            NvramPlace::Behind(dev) => Some(dev.index()),
        }
    }

    /// Where a device's pages end.
    pub(super) fn pages_end(&self, dev: usize) -> u64 {
        self.devices[dev].offset + self.devices[dev].pages * self.shape.page_bytes()
    }

    /// The settings from which a device's size follows, and what they say.
    pub(super) fn size_settings(&self, dev: usize) -> String {
        let (DeviceConfig { offset, pages, .. }, page_bytes) = (&self.devices[dev], self.shape.page_bytes());
        let before = if *offset > 0 { format!("{offset} bytes before its pages, ") } else { String::new() };
        let behind = if self.home() == Some(dev) {
            format!(", and the NVRAM behind its label, of nv-slots = {}", self.nv_slots)
        } else {
            String::new()
        };
        format!("{before}pages of {} = {pages} and page-bytes = {page_bytes}{behind}", Dev(dev as u8))
    }

    /// The settings from which the NVRAM's size follows, and what they say.
    pub(super) fn nvram_settings(&self) -> String {
        format!("nv-slots = {} and page-bytes = {}", self.nv_slots, self.shape.page_bytes())
    }

    /// The file that the NVRAM is in.
    pub fn nvram_path(&self) -> &Path {
        match &self.nvram {
            NvramPlace::Own(path) => path,
            NvramPlace::Behind(dev) => &self.devices[dev.index()].path,
        }
    }

    /// Returns the file that the NVRAM goes to, if it lies on a device and may leave that.
    pub(super) fn spare(&self) -> Option<&Path> {
        self.home().and(self.spare_nvram.as_deref())
    }

    /// Returns the configuration with the NVRAM in a file of its own.
    pub(super) fn with_nvram_in(&self, path: &Path) -> Self {
        Self { nvram: NvramPlace::Own(path.to_owned()), ..self.clone() }
    }

    /// Returns true if devices are to be read and written past the page cache, and so the state.
    pub fn is_direct(&self) -> bool {
        self.devices.iter().any(|device| device.options.direct)
    }

    /// That file if it is the NVRAM's own.
    pub(super) fn own_nvram(&self) -> Option<&Path> {
        match &self.nvram {
            NvramPlace::Own(path) => Some(path),
            NvramPlace::Behind(_) => None,
        }
    }
}
