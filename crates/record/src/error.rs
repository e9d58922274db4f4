//! Defines the errors of a recording.

use std::io;
use std::path::PathBuf;

use crate::layout::LayoutError;
use crate::page::PageFault;

/// Why a recording cannot begin or go on; each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Tells that there is no such device.
    #[error("{path}: {cause}; name a block device, lsblk lists them")]
    NoDevice {
        /// Holds the path as the user gave it.
        path: PathBuf,
        /// Holds the system's error.
        cause: io::Error,
    },
    /// The file is no block device.
    #[error("{path} is not a block device but {what}; name one such as /dev/nvme0n1, lsblk lists them{hint}")]
    NotBlockDevice {
        /// Holds the path as the user gave it.
        path: PathBuf,
        /// Says what the file is.
        what: &'static str,
        /// Suggests what else helps.
        hint: &'static str,
    },
    /// sysfs does not tell what has to be known of the device.
    #[error("{file}: {reason}; recording needs sysfs at /sys")]
    Sysfs {
        /// The file.
        file: PathBuf,
        /// Says what is wrong with the file.
        reason: String,
    },
    /// The device has no request queue, so that nothing is issued.
    #[error(
        "{device} takes what it is asked without a request queue of its own (as device mapper, MD and zram do), so \
         that nothing is ever issued to it; record what it is asked with --at queue, or a disk below it"
    )]
    NoRequests {
        /// The device.
        device: String,
    },
    /// Tells that there is no tracefs, and that it could not be mounted.
    #[error(
        "there is no tracefs at /sys/kernel/tracing or /sys/kernel/debug/tracing{tried}; mount it as root with \
         `mount -t tracefs tracefs /sys/kernel/tracing`; a kernel without CONFIG_FTRACE has none"
    )]
    NoTracefs {
        /// Says what came of mounting it.
        tried: String,
    },
    /// Not allowed.
    #[error("{path}: {cause}; recording needs root: run it with sudo (a container needs the host's tracefs, writable)")]
    NotAllowed {
        /// Names the file that was to be opened or written.
        path: PathBuf,
        /// Holds the system's error.
        cause: io::Error,
    },
    /// The kernel refuses a tracing instance.
    #[error(
        "the kernel does not give a tracing instance at {path}: {cause}; if memory is short, record with a smaller \
         --buffer"
    )]
    NoInstance {
        /// The instance's folder.
        path: PathBuf,
        /// Holds the system's error.
        cause: io::Error,
    },
    /// The kernel does not know an event.
    #[error("this kernel has no event block/{event} ({path} does not exist): it was built without block tracepoints")]
    NoEvent {
        /// Names the event.
        event: &'static str,
        /// Names the file that would describe the event.
        path: PathBuf,
    },
    /// Something else about a file of tracefs.
    #[error("{doing} {path}: {cause}")]
    Tracefs {
        /// Says what was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Holds the system's error.
        cause: io::Error,
    },
    /// The kernel describes its events in a way that is not understood.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A page of the ring buffer is malformed.
    #[error("the trace buffer of CPU {cpu}: {fault}; this kernel's ring buffer has a format that is not known")]
    Page {
        /// The CPU.
        cpu: usize,
        /// Says what is wrong with the page.
        fault: PageFault,
    },
    /// A machine whose pages cannot be read.
    #[error("recording works on little-endian machines only")]
    BigEndian,
    /// Whoever takes the requests failed.
    #[error("the requests could not be handed over")]
    Sink(#[source] io::Error),
}
