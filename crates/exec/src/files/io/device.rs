//! Chooses who serves a device: threads of its own, or the main loop by the ring that all such devices share.
//!
//! An enum and no `dyn` trait: several of these calls are made for each command.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::backend::CommandBackend;
use super::command::{DeviceCommand, EndedCommand};
use super::file::OsFile;
use super::merge::MergeCounts;
use super::os::OsInterface;
use super::patience::patiently;
use super::port::LoopWakeup;
use super::ring::LockedFile;
use super::threads::device::DeviceFile;
use super::threads::pool::WorkerPool;
use super::uring::device::UringDevice;
use super::uring::shared::SharedRing;
use crate::files::config::{FilesConfig, IoBackend};
use crate::files::error::FilesError;

/// Serves a device.
pub(crate) enum DeviceBackend {
    Threads(WorkerPool<DeviceFile>),
    Uring(UringDevice),
}

impl CommandBackend for DeviceBackend {
    type Command = DeviceCommand;
    type Done = EndedCommand;

    fn has_room(&self) -> bool {
        match self {
            Self::Threads(pool) => pool.has_room(),
            Self::Uring(ring) => ring.has_room(),
        }
    }

    fn is_busy(&self) -> bool {
        match self {
            Self::Threads(pool) => pool.is_busy(),
            Self::Uring(ring) => ring.is_busy(),
        }
    }

    fn is_silent(&self) -> bool {
        match self {
            Self::Threads(pool) => pool.is_silent(),
            Self::Uring(ring) => ring.is_silent(),
        }
    }

    fn send(&mut self, command: DeviceCommand) {
        match self {
            Self::Threads(pool) => pool.send(command),
            Self::Uring(ring) => ring.send(command),
        }
    }

    fn stuck(&self) -> Duration {
        match self {
            Self::Threads(pool) => pool.stuck(),
            Self::Uring(ring) => ring.stuck(),
        }
    }

    fn ready(&self) -> usize {
        match self {
            Self::Threads(pool) => pool.ready(),
            Self::Uring(ring) => ring.ready(),
        }
    }

    fn turn(&mut self, choose: impl Fn(usize) -> usize) {
        match self {
            Self::Threads(pool) => pool.turn(choose),
            Self::Uring(ring) => ring.turn(choose),
        }
    }

    fn results(&mut self, into: &mut VecDeque<EndedCommand>) {
        match self {
            Self::Threads(pool) => pool.results(into),
            Self::Uring(ring) => ring.results(into),
        }
    }

    fn close(&mut self) -> VecDeque<DeviceCommand> {
        match self {
            Self::Threads(pool) => pool.close(),
            Self::Uring(ring) => ring.close(),
        }
    }

    fn end(&mut self, until: Instant, keep: Option<&Arc<dyn OsFile>>) {
        match self {
            Self::Threads(pool) => pool.end(until, keep),
            Self::Uring(ring) => ring.end(until, keep),
        }
    }
}

impl DeviceBackend {
    /// Returns the device's access to the ring, if it is one for this file of the device.
    pub(crate) fn uring(&mut self, life: u32) -> Option<&mut UringDevice> {
        match self {
            // A result may come after a replacement: the number tells the new file
            // from the old one.
            Self::Uring(ring) => Some(ring).filter(|ring| ring.life() == life),
            Self::Threads(_) => None,
        }
    }

    /// Returns true if the main loop has work for the device that nothing wakes it for.
    pub(crate) fn stirs(&self) -> bool {
        matches!(self, Self::Uring(ring) if ring.stirs())
    }

    /// Counts the operations that a ring has in flight for the device, with the number of its file.
    pub(crate) fn left_to_ring(&self) -> Option<(u32, usize)> {
        match self {
            Self::Uring(ring) => Some((ring.life(), ring.left_to_ring())),
            Self::Threads(_) => None,
        }
    }

    /// Gives the ring what the device has for it.
    /// Returns the counts of merged commands, and of parts that are asked for again by themselves.
    pub(crate) fn hand_over(&mut self, ring: &mut SharedRing) -> [MergeCounts; 2] {
        match self {
            Self::Uring(device) => [ring.take_from(device.outgoing()), device.take_parted()],
            Self::Threads(_) => [MergeCounts::default(); 2],
        }
    }
}

/// Starts the ring. The second value says why there is none though one was wanted.
pub(crate) fn start_ring(
    os: &dyn OsInterface,
    config: &FilesConfig,
    wakeup: &LoopWakeup,
) -> Result<(Option<SharedRing>, Option<io::Error>), FilesError> {
    if config.io == IoBackend::Threads {
        return Ok((None, None));
    }
    // Every device may have `depth` commands in flight; the kernel takes 32,768
    // entries at most (`IORING_MAX_ENTRIES`).
    let operations = config.depth.saturating_mul(config.devices.len() + 1).min(1 << 15) as u32;
    match (os.ring(operations).and_then(|ring| SharedRing::new(ring, wakeup)), config.io) {
        (Ok(ring), _) => Ok((Some(ring), None)),
        // A ring that was asked for by name must not be replaced silently.
        (Err(why), IoBackend::Ring) => Err(FilesError::NoRing(why)),
        (Err(why), _) => Ok((None, Some(why))),
    }
}

/// Starts to serve a device: by the ring, if there is one and the device has no artificial delay; else by
/// threads.
/// Without threads the main loop itself serves it.
pub(crate) fn start_device(
    os: &Arc<dyn OsInterface>,
    config: &FilesConfig,
    dev: usize,
    file: Arc<dyn OsFile>,
    wakeup: &Arc<LoopWakeup>,
    ring: Option<&mut SharedRing>,
) -> Result<DeviceBackend, FilesError> {
    let (options, path) = (config.devices[dev].options, &config.devices[dev].path);
    // A delayed device sleeps before each command, which the main loop must not do.
    if let Some(ring) = ring.filter(|_| options.delay.is_zero()) {
        // Asking a file system that hangs could block, so the question runs on a
        // thread that can be given up.
        let asked = Arc::clone(&file);
        let may_block = patiently(os, path, config.patience, move |_| Ok(asked.may_block()))?;
        let file = LockedFile::new(file, may_block);
        let device = UringDevice::new(file, (dev as u8, ring.next_life()), options, config.depth);
        return Ok(DeviceBackend::Uring(device));
    }
    let workers = DeviceFile::all(file, options, config.depth);
    if os.is_in_line() {
        return Ok(DeviceBackend::Threads(WorkerPool::in_line(config.depth, workers)));
    }
    let pool = WorkerPool::start(&format!("destage-dev{dev}"), config.depth, wakeup, workers);
    pool.map(DeviceBackend::Threads).map_err(FilesError::io(path, "start its thread"))
}
