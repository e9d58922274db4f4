//! Gives the driver's control device its commands.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::UblkError;
use crate::abi::{
    ADD_DEV, ControlCommand, DEL_DEV, DEL_DEV_ASYNC, DeviceInfo, DeviceParams, END_USER_RECOVERY, F_UNPRIVILEGED_DEV,
    GET_DEV_INFO2, GET_FEATURES, GET_PARAMS, SET_PARAMS, START_DEV, START_USER_RECOVERY, STOP_DEV,
};
use crate::kernel::ControlRing;

/// Has the driver give the new device any number.
const ANY: u32 = u32::MAX;

/// Asks the driver about devices.
#[derive(Debug)]
pub(crate) struct ControlDevice {
    ring: ControlRing,
}

/// Returns the file by which a device's server has its requests.
pub(crate) fn request_path(device: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkc{device}"))
}

impl ControlDevice {
    pub(crate) fn open() -> Result<Self, UblkError> {
        let path = PathBuf::from("/dev/ublk-control");
        let file: File =
            OpenOptions::new().read(true).write(true).open(&path).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => UblkError::NoDriver(path.clone()),
                _ => UblkError::NotAllowed { path: path.clone(), source },
            })?;
        let ring = ControlRing::new(file).map_err(UblkError::of("make an io_uring for the driver's commands"))?;
        Ok(Self { ring })
    }

    /// Gives a command about a device. Its path goes along where the driver wants to see that the user may use it.
    fn command(&mut self, number: u32, device: u32, data: u64, shows_path: bool, bytes: &mut [u8]) -> io::Result<()> {
        let path = request_path(device);
        let path: Vec<u8> = if shows_path { [path.as_os_str().as_bytes(), &[0]].concat() } else { Vec::new() };
        let command = ControlCommand { device, buffer: (0, 0), data, path_len: path.len() as u16 };
        let all = self.ring.command(number, command, [&path, &*bytes].concat())?;
        bytes.copy_from_slice(&all[path.len()..]);
        Ok(())
    }

    /// Returns what the driver can do.
    pub(crate) fn features(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.command(GET_FEATURES, ANY, 0, false, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Returns what a device is.
    pub(crate) fn info(&mut self, device: u32) -> io::Result<DeviceInfo> {
        let mut bytes = [0; DeviceInfo::BYTES];
        self.command(GET_DEV_INFO2, device, 0, true, &mut bytes)?;
        Ok(DeviceInfo::decode(&bytes))
    }

    /// Adds a device, of a number that may be chosen; returns what it has become.
    pub(crate) fn add(&mut self, device: Option<u32>, info: DeviceInfo) -> io::Result<DeviceInfo> {
        let device = device.unwrap_or(ANY);
        let mut bytes = DeviceInfo { device, ..info }.encode();
        self.command(ADD_DEV, device, 0, false, &mut bytes)?;
        Ok(DeviceInfo::decode(&bytes))
    }

    pub(crate) fn set_params(&mut self, info: &DeviceInfo, params: &DeviceParams) -> io::Result<()> {
        self.about(SET_PARAMS, info, 0, &mut params.encode())
    }

    pub(crate) fn params(&mut self, info: &DeviceInfo) -> io::Result<DeviceParams> {
        let mut bytes = [0; DeviceParams::BYTES];
        // The driver reads here how many bytes it may fill.
        bytes[..4].copy_from_slice(&(DeviceParams::BYTES as u32).to_ne_bytes());
        self.about(GET_PARAMS, info, 0, &mut bytes)?;
        Ok(DeviceParams::decode(&bytes))
    }

    /// Has the block device appear, served by this process. The kernel reads from it meanwhile.
    pub(crate) fn start(&mut self, info: &DeviceInfo) -> io::Result<()> {
        self.about(START_DEV, info, std::process::id().into(), &mut [])
    }

    /// Has the block device disappear. What was not answered is answered first, and nothing comes after.
    pub(crate) fn stop(&mut self, info: &DeviceInfo) -> io::Result<()> {
        self.about(STOP_DEV, info, 0, &mut [])
    }

    /// Removes the device, of which nobody has the requests' file open. A program that has the block device open keeps its
    /// number until it closes it: that is not waited for, but on kernels before 6.9, which do.
    pub(crate) fn delete(&mut self, info: &DeviceInfo) -> io::Result<()> {
        match self.about(DEL_DEV_ASYNC, info, 0, &mut []) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) => {
                self.about(DEL_DEV, info, 0, &mut [])
            }
            deleted => deleted,
        }
    }

    /// Lets this process take over a device that waits for a server.
    pub(crate) fn start_recovery(&mut self, info: &DeviceInfo) -> io::Result<()> {
        self.about(START_USER_RECOVERY, info, 0, &mut [])
    }

    /// Has the device go on, served by this process.
    pub(crate) fn end_recovery(&mut self, info: &DeviceInfo) -> io::Result<()> {
        self.about(END_USER_RECOVERY, info, std::process::id().into(), &mut [])
    }

    fn about(&mut self, number: u32, info: &DeviceInfo, data: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.command(number, info.device, data, info.features & F_UNPRIVILEGED_DEV != 0, bytes)
    }
}

/// Returns the numbers of the devices that there are.
pub(crate) fn devices() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(Path::new("/sys/class/ublk-char")) else { return Vec::new() };
    let number = |name: &str| name.strip_prefix("ublkc")?.parse().ok();
    let mut all: Vec<u32> = entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect();
    // A folder lists its entries in any order, and a search should find the same device each time.
    all.sort_unstable();
    all
}
