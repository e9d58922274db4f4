//! The errors that the protocol knows.

use std::fmt;
use std::io;

/// Names the error of a request by the protocol's numbers, which are the same on every system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Errno {
    /// A write to an export that is read-only.
    Perm = 1,
    /// Input or output failed.
    Io = 5,
    /// Tells that there is no memory for the request.
    NoMem = 12,
    /// The request is not a valid one.
    Inval = 22,
    /// No space, also: a write beyond the end.
    NoSpc = 28,
    /// Too long for one reply.
    Overflow = 75,
    /// Zeroes cannot be written faster than data. No other request may be answered with it.
    NotSup = 95,
    /// The server is being shut down.
    Shutdown = 108,
}

impl Errno {
    /// All that there are.
    pub const ALL: [Self; 8] =
        [Self::Perm, Self::Io, Self::NoMem, Self::Inval, Self::NoSpc, Self::Overflow, Self::NotSup, Self::Shutdown];

    /// Returns the number on the wire.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The error of a number; an unknown one, and zero where an error is due, is as good as
    /// [`Inval`](Self::Inval).
    pub fn of(number: u32) -> Self {
        // The protocol asks for this: a peer may be newer and know more errors.
        Self::ALL.into_iter().find(|errno| errno.number() == number).unwrap_or(Self::Inval)
    }

    /// The name that the protocol has for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Perm => "EPERM",
            Self::Io => "EIO",
            Self::NoMem => "ENOMEM",
            Self::Inval => "EINVAL",
            Self::NoSpc => "ENOSPC",
            Self::Overflow => "EOVERFLOW",
            Self::NotSup => "ENOTSUP",
            Self::Shutdown => "ESHUTDOWN",
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Converts an error of the operating system.
///
/// Errors that the protocol does not know become [`Io`](Errno::Io). None becomes [`NotSup`](Errno::NotSup), which has a
/// meaning of its own.
impl From<&io::Error> for Errno {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Perm,
            io::ErrorKind::OutOfMemory => Self::NoMem,
            io::ErrorKind::InvalidInput => Self::Inval,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => Self::NoSpc,
            _ => Self::Io,
        }
    }
}
