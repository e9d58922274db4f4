//! Makes, finds, starts, stops and removes devices.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::abi::{
    ATTR_FUA, ATTR_READ_ONLY, ATTR_VOLATILE_CACHE, DeviceInfo, DeviceParams, F_NEED_GET_DATA, F_UNPRIVILEGED_DEV,
    F_USER_RECOVERY, F_USER_RECOVERY_REISSUE, MAX_DEPTH, STATE_LIVE, STATE_QUIESCED,
};
use crate::control::{ControlDevice, devices, request_path};
use crate::kernel::{RequestRing, RingOfRequests};
use crate::{RequestQueue, UblkError};

/// Limits how long the files of a new device, and the end of its last server, are waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Limits how long a device is waited for whose server has died: the kernel looks every 30 s if all tags were in flight.
const LONG_PATIENCE: Duration = Duration::from_secs(45);
/// Sets how often these are looked at.
const PACE: Duration = Duration::from_millis(10);
/// Limits the bytes of a request.
const LONGEST: u32 = 1 << 20;
/// Limits the sectors of a trim, or of zeros: 1 GiB.
const LONGEST_TRIM: u32 = 1 << 21;
/// Has requests begin and end at sectors of 512 bytes, and says that 4 KiB are better.
const SECTOR_SHIFT: u8 = 9;
// A write of a part of a page has the array read the rest of the page first. Pages are 4 KiB unless an array says
// otherwise.
const BLOCK_SHIFT: u8 = 12;

/// Says what is to be served.
#[derive(Clone, Copy, Debug)]
pub struct DeviceOffer {
    /// Names the device, if it matters.
    pub device: Option<u32>,
    /// Tells it from all others, also when its server has died.
    pub identity: u64,
    /// Counts its bytes.
    pub bytes: u64,
    /// Lets nobody write.
    pub read_only: bool,
    /// Counts the requests that it has at a time at most.
    pub depth: u16,
}

impl DeviceOffer {
    fn params(&self) -> DeviceParams {
        let read_only = if self.read_only { ATTR_READ_ONLY } else { 0 };
        DeviceParams {
            // The kernel sends flushes and FUA only to a device that claims a volatile cache.
            attributes: ATTR_VOLATILE_CACHE | ATTR_FUA | read_only,
            sector_shift: SECTOR_SHIFT,
            block_shift: BLOCK_SHIFT,
            longest: LONGEST / 512,
            sectors: self.bytes / 512,
            // A device that nobody may write must not offer trims.
            longest_trim: if self.read_only { 0 } else { LONGEST_TRIM },
        }
    }
}

/// Says what a device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// Is served by a process.
    Served,
    /// Has requests wait until it is served again.
    Waiting,
    /// Was never started, or is stopped.
    Stopped,
}

/// Names a device that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundDevice {
    /// Is its number.
    pub device: u32,
    /// Says what it does.
    pub state: DeviceState,
    /// Names the process that serves it, or served it last.
    pub pid: i32,
}

impl FoundDevice {
    fn of(info: &DeviceInfo) -> Self {
        let state = match info.state {
            STATE_LIVE => DeviceState::Served,
            STATE_QUIESCED => DeviceState::Waiting,
            _ => DeviceState::Stopped,
        };
        Self { device: info.device, state, pid: info.pid }
    }
}

/// Returns the device of this identity, if there is one that this user may see.
///
/// # Errors
/// If there is no driver, or this user may not ask it.
pub fn find_device(identity: u64) -> Result<Option<FoundDevice>, UblkError> {
    let found = find(&mut ControlDevice::open()?, identity)?;
    Ok(found.as_ref().map(FoundDevice::of))
}

/// Looks for the device. Those that go meanwhile, that this user may not see, or that another user without privileges has made, are
/// none.
fn find(control: &mut ControlDevice, identity: u64) -> Result<Option<DeviceInfo>, UblkError> {
    let user = rustix::process::geteuid().as_raw();
    for device in devices() {
        match control.info(device) {
            Ok(info) if info.identity != identity => {}
            // Anybody could have chosen the identity.
            Ok(info) if info.features & F_UNPRIVILEGED_DEV != 0 && info.owner != user => {}
            Ok(info) => return Ok(Some(info)),
            // The list of numbers is older than these answers, so a device may have gone meanwhile.
            Err(error) if is_temporary(&error) || Errno::from_io_error(&error) == Some(Errno::NODEV) => {}
            Err(source) => {
                return Err(UblkError::Io { what: format!("ask the driver about /dev/ublkb{device}"), source });
            }
        }
    }
    Ok(None)
}

/// Is a block device that this process serves.
#[derive(Debug)]
pub struct UblkDevice {
    control: ControlDevice,
    info: DeviceInfo,
    /// Says that requests wait for it from before.
    resumes: bool,
}

impl UblkDevice {
    /// Makes a device, or takes over the one of the same identity that waits for a server. Its requests come by the queue, which is this thread's, once
    /// it is [started](Self::start).
    ///
    /// # Errors
    /// If there is no driver or it is too old, this user may not use it, the number is taken, or the device that waits is of another size.
    pub fn open(offer: &DeviceOffer) -> Result<(Self, RequestQueue), UblkError> {
        let mut control = ControlDevice::open()?;
        let features = control.features().map_err(|_| UblkError::TooOld("the command GET_FEATURES"))?;
        // Without this feature each tag would need a buffer for the longest request from the beginning on.
        if features & F_NEED_GET_DATA == 0 {
            return Err(UblkError::TooOld("UBLK_F_NEED_GET_DATA"));
        }
        let found = settled(&mut control, offer.identity)?;
        // The device that waits may hold requests of its users, so a new one must not take its place.
        if let (Some(asked), Some(info)) = (offer.device, found)
            && asked != info.device
        {
            return Err(UblkError::Elsewhere { asked, found: info.device });
        }
        match found {
            Some(info) if info.state == STATE_QUIESCED => Self::resume(control, info, offer),
            _ => Self::make(control, features, offer),
        }
    }

    fn make(mut control: ControlDevice, features: u64, offer: &DeviceOffer) -> Result<(Self, RequestQueue), UblkError> {
        // With recovery the device outlives a server that dies. With reissue the driver sends what was in flight
        // again.
        let wanted = F_NEED_GET_DATA | F_USER_RECOVERY | F_USER_RECOVERY_REISSUE;
        let is_root = rustix::process::geteuid().is_root();
        let unprivileged = if is_root { 0 } else { F_UNPRIVILEGED_DEV };
        let info = DeviceInfo {
            depth: offer.depth.clamp(1, MAX_DEPTH),
            longest: LONGEST,
            // A driver without recovery still serves: its device then ends with the server (`outlives_server`).
            features: wanted & features | unprivileged,
            identity: offer.identity,
            ..DeviceInfo::default()
        };
        let info =
            control.add(offer.device, info).map_err(|source| match (Errno::from_io_error(&source), offer.device) {
                (Some(Errno::EXIST), Some(device)) => {
                    let pid = control.info(device).map_or(0, |info| info.pid);
                    UblkError::Taken { device, pid }
                }
                _ => UblkError::Io { what: "add a device to the ublk driver".to_owned(), source },
            })?;
        let mut made = Self { control, info, resumes: false };
        let queue = made.prepare(offer);
        if queue.is_err() {
            // Nothing is left behind; that it may not be removed either is not what is wrong.
            drop(made.remove());
        }
        Ok((made, queue?))
    }

    fn prepare(&mut self, offer: &DeviceOffer) -> Result<RequestQueue, UblkError> {
        // The driver lets a user set anything only once udev has given him this file.
        let file = self.open_requests()?;
        let set = self.control.set_params(&self.info, &offer.params());
        set.map_err(UblkError::of(format!("set the size of {}", self.path().display())))?;
        let ring = RequestRing::ring(self.info.depth);
        let ring = ring.map_err(UblkError::of(format!("serve the requests of {}", self.path().display())))?;
        self.queue(ring, file, offer.bytes)
    }

    fn resume(
        mut control: ControlDevice,
        info: DeviceInfo,
        offer: &DeviceOffer,
    ) -> Result<(Self, RequestQueue), UblkError> {
        let device = info.device;
        let what = format!("take over /dev/ublkb{device}");
        let params = control.params(&info).map_err(UblkError::of(what.clone()))?;
        let wanted = offer.params();
        // File systems on the device rely on its size and attributes, so a device that waits is never changed.
        if params != wanted {
            let what = if params.sectors == wanted.sectors {
                "is offered in another way (--read-only, or another version of destage)".to_owned()
            } else {
                format!("has {} sectors and not {}", params.sectors, wanted.sectors)
            };
            return Err(UblkError::Differs { device, what });
        }
        // From the next command on only a server that takes all requests helps: what can fail goes before it.
        let ring = RequestRing::ring(info.depth).map_err(UblkError::of(what.clone()))?;
        // Its last server may hold its file for a moment yet.
        match retry(|| control.start_recovery(&info), Errno::BUSY) {
            // A server that began to take it over has died since: the driver goes on from there.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {}
            begun => begun.map_err(UblkError::of(what))?,
        }
        let taken = Self { control, info, resumes: true };
        let file = taken.open_requests()?;
        let queue = taken.queue(ring, file, offer.bytes)?;
        Ok((taken, queue))
    }

    fn open_requests(&self) -> Result<File, UblkError> {
        let path = request_path(self.info.device);
        open_request_file(&path).map_err(UblkError::of(format!("open {}", path.display())))
    }

    fn queue(&self, ring: RingOfRequests, file: File, bytes: u64) -> Result<RequestQueue, UblkError> {
        let what = || format!("serve the requests of {}", self.path().display());
        let ring = RequestRing::new(ring, file, self.info.depth).map_err(UblkError::of(what()))?;
        RequestQueue::new(Box::new(ring), bytes).map_err(UblkError::of(what()))
    }

    /// Returns its number.
    pub const fn number(&self) -> u32 {
        self.info.device
    }

    /// Returns the block device.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{}", self.info.device))
    }

    /// Returns true if it goes on after its server ended, rather than being new.
    pub const fn resumes(&self) -> bool {
        self.resumes
    }

    /// Returns true if it waits for another server when this process ends without stopping it.
    pub const fn outlives_server(&self) -> bool {
        self.info.features & F_USER_RECOVERY != 0
    }

    /// Has the block device appear, or go on. This waits for the kernel, which reads from it meanwhile: requests have to be answered by another thread.
    ///
    /// # Errors
    /// If the driver does not do it.
    pub fn start(&mut self) -> Result<(), UblkError> {
        let started = if self.resumes { self.control.end_recovery(&self.info) } else { self.control.start(&self.info) };
        started.map_err(UblkError::of(format!("start {}", self.path().display())))?;
        // Who is told that it is there finds it, and udev takes a moment.
        let path = self.path();
        let begin = Instant::now();
        while !path.exists() && begin.elapsed() < PATIENCE {
            std::thread::sleep(PACE);
        }
        Ok(())
    }

    /// Has the block device disappear, unless somebody uses it: what the kernel's memory has of it is written first. Requests have to be answered by another
    /// thread meanwhile. Then the queue is over, and the device is to be [removed](Self::remove).
    ///
    /// # Errors
    /// [`UblkError::InUse`] if it is mounted or held; else if the driver does not do it, or what it has cannot be written.
    pub fn stop(&mut self) -> Result<(), UblkError> {
        let held = self.hold()?;
        // The kernel's memory may have newer bytes than the array, and would be lost with the device.
        held.sync_all()
            .map_err(UblkError::of(format!("write out what the kernel has of {}", self.path().display())))?;
        // Held on to, so that nobody mounts it now.
        let stopped = self.control.stop(&self.info);
        drop(held);
        stopped.map_err(UblkError::of(format!("stop {}", self.path().display())))
    }

    /// Opens it as nobody else can at the same time.
    fn hold(&self) -> Result<File, UblkError> {
        let (path, begin) = (self.path(), Instant::now());
        loop {
            // `O_EXCL` without `O_CREAT` fails on a block device that is mounted or so opened by another (open(2)).
            let opened = OpenOptions::new().read(true).custom_flags(OFlags::EXCL.bits().cast_signed()).open(&path);
            match opened {
                Ok(file) => return Ok(file),
                // A look of udev's or mount's own is over soon.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) && begin.elapsed() < PACE * 20 => {
                    std::thread::sleep(PACE);
                }
                Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => {
                    return Err(UblkError::InUse(self.info.device));
                }
                Err(source) => return Err(UblkError::Io { what: format!("open {}", path.display()), source }),
            }
        }
    }

    /// Removes the device, whose queue is closed.
    ///
    /// # Errors
    /// If the driver does not do it.
    pub fn remove(&mut self) -> Result<(), UblkError> {
        let removed = self.control.delete(&self.info);
        removed.map_err(UblkError::of(format!("remove {}", self.path().display())))
    }

    /// Removes the device of this identity that waits for a server: what waits for it fails. Returns it, if there is one.
    ///
    /// # Errors
    /// If there is no driver, it is served, or the driver does not do it.
    pub fn discard(identity: u64) -> Result<Option<FoundDevice>, UblkError> {
        let mut control = ControlDevice::open()?;
        let Some(info) = settled(&mut control, identity)? else { return Ok(None) };
        let mut device = Self { control, info, resumes: true };
        device.remove()?;
        Ok(Some(FoundDevice::of(&info)))
    }
}

/// Looks for a device of this identity. One whose server is dying is waited for, and one that was never started is removed.
fn settled(control: &mut ControlDevice, identity: u64) -> Result<Option<DeviceInfo>, UblkError> {
    let begin = Instant::now();
    loop {
        match find(control, identity)? {
            Some(info) if info.state == STATE_LIVE => {
                // A server that runs may never end, so little time is given. The kernel notices a dead one in its
                // own time.
                let patience = if is_running(info.pid) { PATIENCE } else { LONG_PATIENCE };
                if begin.elapsed() >= patience {
                    return Err(UblkError::Served { device: info.device, pid: info.pid });
                }
            }
            // A device that was never started, or is stopped, has no requests that could be lost with it.
            Some(info) if info.state != STATE_QUIESCED => {
                if begin.elapsed() >= PATIENCE {
                    return Err(UblkError::Held(info.device));
                }
                let removed = control.delete(&info);
                removed.map_err(UblkError::of(format!("remove /dev/ublkb{}, which was stopped", info.device)))?;
            }
            found => return Ok(found),
        }
        std::thread::sleep(PACE);
    }
}

/// Returns true if there is such a process.
fn is_running(pid: i32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid);
    // A process of another user answers `EPERM`, and exists all the same.
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}

/// Opens the file of a device's requests, which may be made, and given to this user, in a moment only.
fn open_request_file(path: &std::path::Path) -> io::Result<File> {
    let begin = Instant::now();
    loop {
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if is_temporary(&error) && begin.elapsed() < PATIENCE => std::thread::sleep(PACE),
            opened => return opened,
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::ACCESS | Errno::PERM | Errno::BUSY))
}

/// Tries again while there is this error.
fn retry(mut call: impl FnMut() -> io::Result<()>, while_error: Errno) -> io::Result<()> {
    let begin = Instant::now();
    loop {
        match call() {
            Err(error) if Errno::from_io_error(&error) == Some(while_error) && begin.elapsed() < PATIENCE => {
                std::thread::sleep(PACE);
            }
            done => return done,
        }
    }
}
