//! Defines why there is no device.

use std::io;
use std::path::PathBuf;

/// Tells why a block device cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// Tells that the driver is not there.
    #[error("{} does not exist: the kernel has to be Linux 6.5 or later with the module ublk_drv (modprobe ublk_drv)", .0.display())]
    NoDriver(PathBuf),
    /// Tells that this user may not ask the driver.
    #[error("{} cannot be opened: {source}; root may, and others if a rule of udev's lets them", path.display())]
    NotAllowed {
        /// Names the control device.
        path: PathBuf,
        /// Says why not.
        source: io::Error,
    },
    /// Tells that the driver lacks something.
    #[error("the kernel's ublk driver is too old: {0} is missing; Linux 6.5 and later have it")]
    TooOld(&'static str),
    /// Tells that another device has the number.
    #[error("/dev/ublkb{device} is another device{}: choose another number, or none", served_by(*pid))]
    Taken {
        /// Names the device.
        device: u32,
        /// Names the process that serves it, if it is known.
        pid: i32,
    },
    /// Tells that the array has a device of another number, which waits for it.
    #[error("/dev/ublkb{found} waits for this array already; ask for that number, or for none, instead of {asked}")]
    Elsewhere {
        /// Names the device that was asked for.
        asked: u32,
        /// Names the one that waits.
        found: u32,
    },
    /// Tells that the device still belongs to a process.
    #[error("/dev/ublkb{device} is still served by process {pid}")]
    Served {
        /// Names the device.
        device: u32,
        /// Names the process.
        pid: i32,
    },
    /// Tells that a device which is stopped has not gone.
    #[error("/dev/ublkb{0} is stopped, and another program still has it open")]
    Held(u32),
    /// Tells that the device which waits is none for this array.
    #[error("/dev/ublkb{device} waits for this array, but {what}; destage stop --discard-device gives it up")]
    Differs {
        /// Names the device.
        device: u32,
        /// Says in what.
        what: String,
    },
    /// Tells that somebody uses the device.
    #[error("/dev/ublkb{0} is in use: it is mounted, or another program holds it")]
    InUse(u32),
    /// Tells that a call failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// Says what was tried.
        what: String,
        /// Says why it failed.
        source: io::Error,
    },
}

fn served_by(pid: i32) -> String {
    if pid > 0 { format!(", served by process {pid}") } else { String::new() }
}

impl UblkError {
    /// Returns what makes an error of a call.
    pub(crate) fn of(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
