//! Describes the commands to a device's file, whoever asks the operating system for them.

use std::io;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use destage_plan::Issue;
use rustix::io::Errno;

use super::file::OsFile;
use crate::buffer::AlignedBuffer;
use crate::bytes::SharedBuffer;

/// Names an action on a file. Offsets and lengths are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceAction {
    /// Fills the bytes of the command, from this offset of the file on.
    Read { offset: u64 },
    /// Writes the bytes of the command at this offset.
    Write { offset: u64, fua: bool },
    /// Writes the bytes durably: marks of rows.
    Mark { offset: u64 },
    /// Writes the bytes durably: the list of pages that the device cannot keep.
    List { offset: u64 },
    /// Makes this range read as zeros.
    Trim { offset: u64, len: u64 },
    /// Makes everything durable that was written before.
    Flush,
}

impl DeviceAction {
    /// Returns the words for the action in an error message.
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

/// Holds an action on the device, with its bytes.
#[derive(Debug)]
pub(crate) struct DeviceCommand {
    /// Names the step that the command belongs to; none if it is the executor's own.
    pub(crate) issue: Option<Issue>,
    pub(crate) work: DeviceAction,
    /// Holds the bytes to write, or a buffer without other owners, to be filled.
    pub(crate) bytes: SharedBuffer,
    /// Limits the command to these bytes of the buffer.
    pub(crate) range: Range<usize>,
}

/// Describes why a command failed.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    pub(crate) source: io::Error,
    /// Is true if there was no room, so that only this command's own bytes are lost.
    /// Is false if a sync failed, whatever the reason: earlier writes may be lost then, and a later success
    /// would say nothing of them.
    pub(crate) no_room: bool,
}

/// Pairs a command that has ended with its result.
pub(crate) type EndedCommand = (DeviceCommand, Result<(), CommandFailure>);

/// Holds the zeros of one write, for file systems that make no holes.
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
    // Only a write that finds no room stops the executor instead of failing the
    // device.
    CommandFailure { source, no_room: false }
}

pub(crate) fn not_written(source: io::Error) -> CommandFailure {
    // A quota that is used up is a full file system too: both end when somebody
    // makes room.
    let no_room = matches!(Errno::from_io_error(&source), Some(Errno::NOSPC | Errno::DQUOT));
    CommandFailure { source, no_room }
}
