//! What can go wrong with a recording.

use std::io;
use std::path::PathBuf;

use crate::layout::LayoutError;
use crate::page::PageFault;

/// Why a recording cannot begin or go on; each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is no such device.
    #[error("{path}: {cause}; name a block device, lsblk lists them")]
    NoDevice {
        /// As the user named it.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The file is no block device.
    #[error("{path} is not a block device but {what}; name one such as /dev/nvme0n1, lsblk lists them{hint}")]
    NotBlockDevice {
        /// As the user named it.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// What else helps.
        hint: &'static str,
    },
    /// sysfs does not tell what has to be known of the device.
    #[error("{file}: {reason}; recording needs sysfs at /sys")]
    Sysfs {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
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
    /// There is no tracefs, and it could not be mounted.
    #[error(
        "there is no tracefs at /sys/kernel/tracing or /sys/kernel/debug/tracing{tried}; mount it as root with \
         `mount -t tracefs tracefs /sys/kernel/tracing`; a kernel without CONFIG_FTRACE has none"
    )]
    NoTracefs {
        /// What came of trying to mount it.
        tried: String,
    },
    /// Not allowed.
    #[error("{path}: {cause}; recording needs root: run it with sudo (a container needs the host's tracefs, writable)")]
    NotAllowed {
        /// What was to be opened or written.
        path: PathBuf,
        /// What the system said.
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
        /// What the system said.
        cause: io::Error,
    },
    /// The kernel does not know an event.
    #[error("this kernel has no event block/{event} ({path} does not exist): it was built without block tracepoints")]
    NoEvent {
        /// Its name.
        event: &'static str,
        /// Where it would be.
        path: PathBuf,
    },
    /// Something else about a file of tracefs.
    #[error("{doing} {path}: {cause}")]
    Tracefs {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
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
        /// What is wrong.
        fault: PageFault,
    },
    /// A machine whose pages cannot be read.
    #[error("recording works on little-endian machines only")]
    BigEndian,
    /// Whoever takes the requests failed.
    #[error("the requests could not be handed over")]
    Sink(#[source] io::Error),
}
