//! A block device and what sysfs tells of it.

use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::RecordError;
use crate::pairing::{RecordedMoments, RecordedView};

/// Folders that a chain of devices may be deep: more is a loop in sysfs.
const MAX_DEPTH: u32 = 64;

/// A block device that exists: a disk or a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedDevice {
    /// Holds the device's name in the kernel, such as `nvme0n1p2`.
    pub name: String,
    /// `major << 20 | minor`, as in the kernel's events.
    pub dev: u32,
    /// The same of the disk, which is the device itself or the one that it is a partition of.
    pub disk: u32,
    /// The device's sectors of 512 B on the disk.
    pub sectors: Range<u64>,
    /// The same number of each of the disk's partitions.
    partitions: Vec<u32>,
    /// Is true of a partition.
    is_partition: bool,
    /// Is true if the disk has a request queue.
    has_requests: bool,
    write_back: bool,
    fua: bool,
    zoned: bool,
}

/// The kernel's number inside, of a number as files have it (glibc's `makedev`).
fn kernel_dev(rdev: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    // Events carry the kernel's inner numbers, which pack major and minor differently from those of files.
    major << 20 | (minor & 0xf_ffff)
}

fn sysfs_folder(dev: u32) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", dev >> 20, dev & 0xf_ffff))
}

fn sysfs_error(file: &Path, reason: impl Into<String>) -> RecordError {
    RecordError::Sysfs { file: file.to_owned(), reason: reason.into() }
}

fn read(file: &Path) -> Result<String, RecordError> {
    fs::read_to_string(file).map(|text| text.trim().to_owned()).map_err(|error| sysfs_error(file, error.to_string()))
}

fn number(file: &Path) -> Result<u64, RecordError> {
    let text = read(file)?;
    text.parse().map_err(|_| sysfs_error(file, format!("holds {text:?}, expected a number")))
}

/// The `major:minor` that a file of sysfs holds.
fn dev_of(file: &Path) -> Result<u32, RecordError> {
    let text = read(file)?;
    parse_dev(&text).ok_or_else(|| sysfs_error(file, format!("holds {text:?}, expected major:minor")))
}

fn parse_dev(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

/// The folders inside a folder, in order.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

impl RecordedDevice {
    /// Looks a device up by its path.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let missing = |cause| RecordError::NoDevice { path: path.to_owned(), cause };
        let metadata = fs::metadata(path).map_err(missing)?;
        let kind = metadata.file_type();
        if !kind.is_block_device() {
            let what = match () {
                () if kind.is_dir() => "a folder",
                () if kind.is_char_device() => "a character device",
                () if kind.is_file() => "a file",
                () => "something else",
            };
            let hint = if kind.is_dir() {
                "; findmnt shows the device of a mounted folder"
            } else if kind.is_file() {
                "; `losetup --find --show FILE` makes one of a file"
            } else {
                ""
            };
            return Err(RecordError::NotBlockDevice { path: path.to_owned(), what, hint });
        }
        Self::from_dev(kernel_dev(metadata.rdev()))
    }

    fn from_dev(dev: u32) -> Result<Self, RecordError> {
        let link = sysfs_folder(dev);
        let folder = fs::canonicalize(&link).map_err(|error| sysfs_error(&link, error.to_string()))?;
        let name = |folder: &Path| folder.file_name().map(|name| name.to_string_lossy().into_owned());
        // A partition's folder lies within its disk's, and only partitions have this file.
        let is_partition = folder.join("partition").exists();
        let start = if is_partition { number(&folder.join("start"))? } else { 0 };
        let size = number(&folder.join("size"))?;
        let disk_folder = if is_partition { folder.parent().unwrap_or(&folder) } else { &folder };
        let disk = if is_partition { dev_of(&disk_folder.join("dev"))? } else { dev };
        let partitions = folders(disk_folder).into_iter().filter(|sub| sub.join("partition").exists());
        let queue = disk_folder.join("queue");
        let is = |file: &str, value: &str| fs::read_to_string(queue.join(file)).is_ok_and(|text| text.trim() == value);
        Ok(Self {
            name: name(&folder).ok_or_else(|| sysfs_error(&folder, "has no name"))?,
            dev,
            disk,
            sectors: start..start.saturating_add(size),
            partitions: partitions.map(|sub| dev_of(&sub.join("dev"))).collect::<Result<_, _>>()?,
            is_partition,
            // Only devices with a request queue of their own have this folder: md and device mapper have none.
            has_requests: disk_folder.join("mq").is_dir(),
            write_back: is("write_cache", "write back"),
            fua: is("fua", "1"),
            zoned: queue.join("zoned").exists() && !is("zoned", "none"),
        })
    }

    /// Returns true if the disk has a request queue; without one there is no [`RecordedMoments::Issue`].
    #[must_use]
    pub const fn has_requests(&self) -> bool {
        self.has_requests
    }

    /// Returns how the requests of the device are recorded.
    #[must_use]
    pub fn view(&self, at: RecordedMoments) -> RecordedView {
        RecordedView {
            at,
            part: self.is_partition.then(|| self.sectors.clone()),
            flushes: self.write_back && self.has_requests,
            fua: self.fua,
            zoned: self.zoned,
        }
    }

    /// The numbers that events of what is issued to the disk carry, and those of what it and its
    /// parts are asked.
    pub(crate) fn event_devs(&self) -> (Vec<u32>, Vec<u32>) {
        // Events of what a partition is asked may carry its own number or its disk's.
        let asked = if self.is_partition { vec![self.disk, self.dev] } else { vec![self.disk] };
        let partitions = if self.is_partition { &[][..] } else { &self.partitions };
        (vec![self.disk], [&asked[..], partitions].concat())
    }

    /// Returns true if what is written to `file` (which exists) ends up on this device.
    ///
    /// It follows the file system's device, its partition's disk, the disks below that, and the files behind loop
    /// devices.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn holds(&self, file: &Path) -> Result<bool, RecordError> {
        let metadata = fs::metadata(file).map_err(|cause| RecordError::NoDevice { path: file.to_owned(), cause })?;
        Ok(self.holds_open(&metadata))
    }

    /// The same of an open file.
    #[must_use]
    pub fn holds_open(&self, file: &fs::Metadata) -> bool {
        device_of(kernel_dev(file.dev())).is_some_and(|dev| self.is_below(dev, MAX_DEPTH))
    }

    /// Returns true if `dev` is this device or rests on it.
    fn is_below(&self, dev: u32, depth: u32) -> bool {
        // A chain that deep is a loop in sysfs. Refusing beats a recording that writes to its own device without
        // end.
        if dev == self.dev || depth == 0 {
            return true;
        }
        let Ok(folder) = fs::canonicalize(sysfs_folder(dev)) else { return false };
        let mut below: Vec<u32> = vec![];
        if folder.join("partition").exists() {
            below.extend(folder.parent().and_then(|disk| dev_of(&disk.join("dev")).ok()));
        }
        // In `slaves` the kernel lists the devices that md or device mapper lies on.
        below.extend(folders(&folder.join("slaves")).iter().filter_map(|slave| dev_of(&slave.join("dev")).ok()));
        // A loop device lies on a file, and so on the device of that file.
        let backing = fs::read_to_string(folder.join("loop/backing_file")).ok();
        let behind = backing.and_then(|file| fs::metadata(file.trim_end()).ok());
        below.extend(behind.and_then(|metadata| device_of(kernel_dev(metadata.dev()))));
        below.into_iter().any(|dev| self.is_below(dev, depth - 1))
    }
}

/// The block device of a file system by the number that its files have: file systems with several
/// devices (btrfs) have numbers of their own, and the mount table tells the device.
fn device_of(dev: u32) -> Option<u32> {
    // A major number of 0 means that the file system has made the number up.
    if dev >> 20 != 0 {
        return Some(dev);
    }
    let number = format!("{}:{}", dev >> 20, dev & 0xf_ffff);
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let source = mounts.lines().find_map(|line| source_of(line, &number))?;
    let metadata = fs::metadata(source).ok()?;
    metadata.file_type().is_block_device().then(|| kernel_dev(metadata.rdev()))
}

/// The source of a line of mountinfo whose number is this.
fn source_of<'a>(line: &'a str, number: &str) -> Option<&'a OsStr> {
    let (left, right) = line.split_once(" - ")?;
    (left.split(' ').nth(2)? == number).then_some(())?;
    right.split(' ').nth(1).map(OsStr::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_devices_are_the_kernels() {
        assert_eq!(parse_dev("7:0"), Some(7 << 20));
        assert_eq!(parse_dev("259:3"), Some(259 << 20 | 3));
        assert_eq!(parse_dev("7"), None);
        assert_eq!(parse_dev("7:x"), None);
        assert_eq!(parse_dev("4096:0"), None);
        assert_eq!(kernel_dev(rustix::fs::makedev(259, 70_000)), (259 << 20) + 70_000);
    }

    #[test]
    fn what_is_no_device_is_said() {
        let error = |path: &str| RecordedDevice::open(Path::new(path)).unwrap_err().to_string();
        assert!(error("/dev/null").contains("not a block device but a character device"));
        assert!(error("/").contains("a folder"));
        assert!(error("/nowhere/at/all").contains("lsblk"));
        assert!(error("/proc/self/status").contains("losetup"));
    }

    #[test]
    fn the_mount_table_tells_the_source() {
        let line = "36 35 0:31 /sub /mnt rw,noatime master:1 - btrfs /dev/sda2 rw,subvol=/sub";
        assert_eq!(source_of(line, "0:31"), Some(OsStr::new("/dev/sda2")));
        assert_eq!(source_of(line, "0:3"), None);
        assert_eq!(source_of("", "0:3"), None);
    }
}
