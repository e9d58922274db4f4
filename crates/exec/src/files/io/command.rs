//! What a device's file is asked for, whoever asks the operating system for it.

use std::io;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use destage_plan::Issue;
use rustix::io::Errno;

use super::file::OsFile;
use crate::buffer::AlignedBuffer;
use crate::bytes::SharedBuffer;

/// What is to be done. Offsets and lengths are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceAction {
    /// Fills the bytes of the command from here on.
    Read { offset: u64 },
    /// Writes the bytes of the command to here.
    Write { offset: u64, fua: bool },
    /// Writes them, durably: marks of rows.
    Mark { offset: u64 },
    /// Writes them, durably: the list of pages that the device cannot keep.
    List { offset: u64 },
    /// Makes this range read as zeros.
    Trim { offset: u64, len: u64 },
    /// Makes what was written durable.
    Flush,
}

impl DeviceAction {
    /// What is tried, as errors call it.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::Read { .. } => "read from it",
            Self::Write { .. } => "write to it",
            Self::Mark { .. } => "mark rows on it",
            Self::List { .. } => "list bad pages on it",
            Self::Trim { .. } => "trim it",
            Self::Flush => "make it durable",
        }
    }
}

/// A step on the device with its bytes.
#[derive(Debug)]
pub(crate) struct DeviceCommand {
    /// Whose it is; none if it is the executor's own.
    pub(crate) issue: Option<Issue>,
    pub(crate) work: DeviceAction,
    /// What is written, or a buffer that nobody else has, to be filled.
    pub(crate) bytes: SharedBuffer,
    /// Which of these bytes.
    pub(crate) range: Range<usize>,
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    pub(crate) source: io::Error,
    /// There was no room, and nothing is lost but what this command was to write. Not so if making
    /// it durable failed, for whatever reason: what was written before may be gone then, and a
    /// later success would say nothing of it.
    pub(crate) no_room: bool,
}

/// A command that is done, and how it ended.
pub(crate) type EndedCommand = (DeviceCommand, Result<(), CommandFailure>);

/// Zeros that are written at a time where the file system makes no holes.
pub(crate) static ZEROS: LazyLock<SharedBuffer> = LazyLock::new(|| Arc::new(AlignedBuffer::zeroed(64 << 10)));

/// Writes zeros to a range of a file where no hole can be made.
pub(crate) fn write_zeros(file: &dyn OsFile, Range { mut start, end }: Range<u64>) -> io::Result<()> {
    while start < end {
        let zeros = &ZEROS[..(end - start).min(ZEROS.len() as u64) as usize];
        file.write_all_at(zeros, start)?;
        start += zeros.len() as u64;
    }
    Ok(())
}

pub(crate) fn failed(source: io::Error) -> CommandFailure {
    CommandFailure { source, no_room: false }
}

pub(crate) fn not_written(source: io::Error) -> CommandFailure {
    let no_room = matches!(Errno::from_io_error(&source), Some(Errno::NOSPC | Errno::DQUOT));
    CommandFailure { source, no_room }
}
