//! Describes the files that an array consists of.

use std::path::{Path, PathBuf};
use std::time::Duration;

use destage_plan::{Dev, DevSet, Ext, Shape};

use super::error::FilesError;

/// Describes an array in files, and how it is served.
#[derive(Clone, Debug)]
pub struct FilesConfig {
    /// Describes the caller's array, line by line. Each device's label holds it, and whoever opens the array
    /// must say the same.
    pub about: String,
    /// Identifies the caller's array. The NVRAM and the intents hold it, so that those of another array are not
    /// taken for its own.
    pub array: u64,
    /// Gives the shape by which requests are split.
    pub shape: Shape,
    /// Limits the fragments that the controller is given at a time, and the commands of each device at a time.
    pub depth: usize,
    /// Lists the members of the array from 0, then the cache devices.
    pub devices: Vec<DeviceConfig>,
    /// Is true if every acknowledged write is durable. Else only those are that a flush or FUA covers.
    /// Changes of the NVRAM are then made durable together, when something relies on them.
    pub every_write: bool,
    /// Gives the place of the NVRAM.
    pub nvram: NvramPlace,
    /// Names the file that the NVRAM goes to when the device that it lies on is lost. None: the executor stops then.
    pub spare_nvram: Option<PathBuf>,
    /// Counts the slots of the NVRAM, as the controller was told.
    pub nv_slots: u32,
    /// Names the file of the intents.
    pub intents: PathBuf,
    /// Counts the rows that can have an intent: pages of a member.
    pub rows: u64,
    /// Counts the members, the first of the devices, that hold marks of rows that may be inconsistent; 0 if
    /// none does.
    pub members: usize,
    /// Sets the rows that share a mark, at least: of large members more.
    pub rows_per_mark: u32,
    /// Limits the marks that may stay though none of their rows is open.
    /// After a loss of the NVRAM as many are made consistent for nothing; until then, rows that are written
    /// again cost no write of marks.
    pub idle_marks: u32,
    /// Chooses who asks the operating system for the commands of devices.
    pub io: IoBackend,
    /// Limits how long a file may delay opening, replacing, stopping and dropping before it counts as hanging.
    /// [`PATIENCE`](Self::PATIENCE) is the usual value: much longer than a sync takes, for which a slow device
    /// may need long.
    pub patience: Duration,
    /// Limits how long a command of a device, or a change of the NVRAM or the intents, may take: [`DEVICE_TIMEOUT`](Self::DEVICE_TIMEOUT),
    /// if in doubt. A device that takes longer is failed as by an error, if nothing is lost with it. None: as long as it takes.
    pub device_timeout: Option<Duration>,
}

/// Names the place of the NVRAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NvramPlace {
    /// Puts it in a file of its own, or at the beginning of a block device of its own.
    Own(PathBuf),
    /// Puts it on this device, a cache's, after its label.
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

/// Chooses who asks the operating system for the commands of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoBackend {
    /// Uses a ring where there is one, else threads.
    #[default]
    Auto,
    /// Uses a ring, `io_uring` on Linux: the main loop gives it operations and takes those that have ended.
    Ring,
    /// Uses threads, some for each device, each of which waits for one operation.
    Threads,
}

/// Describes a device's file.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Names the file. It holds the pages, then a label that says whose they are, and a member's marks.
    pub path: PathBuf,
    /// Counts the bytes before the first page, which stay as they are.
    pub offset: u64,
    /// Counts the pages.
    pub pages: u64,
    /// Holds the options by which the device is served.
    pub options: DeviceOptions,
}

/// Holds the options by which a device is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Limits the commands that run at the same time, from 1 to 16, each by a thread; not more than
    /// [`FilesConfig::depth`].
    /// A ring is given all that there are.
    pub workers: u8,
    /// Is true if the device is read and written past the page cache where that is possible
    /// ([`FileExecutor::buffered`](crate::FileExecutor::buffered)).
    pub direct: bool,
    /// Delays the beginning of each step, as a slow device would, for tests. Only threads can sleep, so they
    /// serve such a device.
    pub delay: Duration,
    /// Limits the steps before the device answers with errors only, as a broken one does, for tests. Its
    /// replacement does not break.
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
    /// Makes nothing if one exists.
    Refuse,
    /// Makes them anew; their content is lost.
    Overwrite,
    /// Requires these devices to be there with the content of the array, parity included. It is neither changed
    /// nor checked, and a label is written after it. If anything else exists nothing is made.
    Adopt(DevSet),
    /// Takes these devices as parts of an array that is [given up](crate::FileExecutor::check_given_up), and
    /// the NVRAM's own block device if there is one. Their content is lost. If anything else exists nothing is
    /// made.
    GiveUp {
        /// Names the devices.
        devices: DevSet,
        /// Is true if the NVRAM's own block device is such a part.
        nvram: bool,
    },
}

impl ExistingFiles {
    /// Returns true if this device keeps its content.
    pub(super) const fn keeps(self, dev: usize) -> bool {
        matches!(self, Self::Adopt(devices) if devices.contains(Dev(dev as u8)))
    }

    /// Returns true if the content of this device may be lost.
    pub(super) fn loses(self, dev: usize) -> bool {
        match self {
            Self::Overwrite => true,
            Self::GiveUp { devices, .. } => devices.contains(Dev(dev as u8)),
            Self::Refuse | Self::Adopt(_) => false,
        }
    }

    /// Returns true if the content of the NVRAM's own block device may be lost.
    pub(super) const fn loses_nvram(self) -> bool {
        matches!(self, Self::Overwrite | Self::GiveUp { nvram: true, .. })
    }
}

/// Names the losses that are accepted with the NVRAM and the intents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedLosses {
    /// Accepts the loss of answered writes that are on no member. A cache that never has such writes loses
    /// none.
    pub data: bool,
    /// Accepts the loss of the note which pages were lost before.
    pub notes: bool,
}

/// Limits the devices of an array: the controllers keep sets of them in 64 bits.
pub(super) const MAX_DEVICES: usize = 64;
/// Limits the bytes of [`FilesConfig::about`].
pub(super) const MAX_ABOUT_BYTES: u64 = 1 << 16;
/// Limits the bytes of a page.
const MAX_PAGE_BYTES: u64 = 1 << 20;

/// Limits the bytes before a device's pages.
const MAX_OFFSET: u64 = 1 << 40;

/// Limits the commands of a device that run at the same time.
const MAX_WORKERS: u64 = 16;

/// Limits the slots of the NVRAM: of 4 KiB they are 64 GiB.
const MAX_NV_SLOTS: u64 = 1 << 24;

impl FilesConfig {
    /// Gives a file as long as an operating system gives a disk before it gives up.
    pub const PATIENCE: Duration = Duration::from_secs(30);

    /// Sets as much as the kernel gives a disk for a command (`/sys/block/*/device/timeout`).
    pub const DEVICE_TIMEOUT: Duration = Duration::from_secs(30);

    /// Returns how long a file may keep a change of the array waiting that can be given up.
    pub(super) fn time_limit(&self) -> Duration {
        self.device_timeout.map_or(self.patience, |limit| limit.min(self.patience))
    }

    pub(super) fn check(&self) -> Result<(), FilesError> {
        // Checked here once, so that no later product of two settings can overflow.
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

    /// Returns the device of the array that the NVRAM lies on; none if it lies elsewhere.
    pub(super) const fn home(&self) -> Option<usize> {
        match self.nvram {
            NvramPlace::Own(_) => None,
            NvramPlace::Behind(dev) => Some(dev.index()),
        }
    }

    /// Returns the offset at which a device's pages end, in bytes.
    pub(super) fn pages_end(&self, dev: usize) -> u64 {
        self.devices[dev].offset + self.devices[dev].pages * self.shape.page_bytes()
    }

    /// Names the settings from which a device's size follows, with their values.
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

    /// Names the settings from which the NVRAM's size follows, with their values.
    pub(super) fn nvram_settings(&self) -> String {
        format!("nv-slots = {} and page-bytes = {}", self.nv_slots, self.shape.page_bytes())
    }

    /// Returns the file that the NVRAM is in.
    pub fn nvram_path(&self) -> &Path {
        match &self.nvram {
            NvramPlace::Own(path) => path,
            NvramPlace::Behind(dev) => &self.devices[dev.index()].path,
        }
    }

    /// Returns the file that the NVRAM goes to, if it lies on a device and may leave that.
    pub(super) fn spare(&self) -> Option<&Path> {
        // An NVRAM in a file of its own stops the executor when that file fails. A
        // spare place is only for one on a device.
        self.home().and(self.spare_nvram.as_deref())
    }

    /// Returns the configuration with the NVRAM in a file of its own.
    pub(super) fn with_nvram_in(&self, path: &Path) -> Self {
        Self { nvram: NvramPlace::Own(path.to_owned()), ..self.clone() }
    }

    /// Returns true if devices are to be read and written past the page cache, and so the state.
    pub fn is_direct(&self) -> bool {
        // The state follows the devices: through the page cache each of its syncs
        // would write whole pages of 4 KiB.
        self.devices.iter().any(|device| device.options.direct)
    }

    /// Returns the NVRAM's file if it has one of its own.
    pub(super) fn own_nvram(&self) -> Option<&Path> {
        match &self.nvram {
            NvramPlace::Own(path) => Some(path),
            NvramPlace::Behind(_) => None,
        }
    }
}
