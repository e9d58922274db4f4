//! Defines a ring: a queue of operations that the operating system carries out without a thread of the executor
//! for each.
//!
//! The kernel's is one (`uring/kernel.rs`), that of a [`RecordingOs`](crate::RecordingOs) another
//! (`recording/queue.rs`).

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use rustix::fd::BorrowedFd;

use super::file::{OsFile, SyncPoint};
use crate::bytes::SharedBuffer;

/// Names an operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOp {
    /// Fills the bytes from this offset of the file on.
    Read {
        /// Is the offset in the file, in bytes.
        offset: u64,
    },
    /// Writes the bytes from this offset of the file on.
    Write {
        /// Is the offset in the file, in bytes.
        offset: u64,
    },
    /// Makes a range read as zeros without changing the length.
    PunchHole {
        /// Is the offset of the range, in bytes.
        offset: u64,
        /// Is the length of the range, in bytes.
        len: u64,
    },
    /// Makes the content durable.
    Sync(SyncPoint),
}

/// Identifies the owner of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationTag {
    /// Numbers the device.
    pub dev: u8,
    /// Numbers the file among those that the ring has served in this life.
    pub life: u32,
    /// Numbers the command of the device.
    pub command: u32,
}

/// Says how an entry goes to the system: by itself, or in one operation with its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeRole {
    /// Goes by itself, whatever lies beside it.
    Barred,
    /// Goes by itself, unless a neighbour comes along.
    Single,
    /// Begins where this one operation of so many entries does; the others follow it in the queue.
    First(u16),
    /// Goes with the entry in front of it.
    Follows,
}

/// Holds an operation, with all that it needs until it has ended.
#[derive(Debug)]
pub struct RingEntry {
    /// Says how it goes to the system.
    pub role: MergeRole,
    /// Identifies the owner of the operation.
    pub tag: OperationTag,
    /// Is the file.
    pub file: Arc<LockedFile>,
    /// Is the operation on it.
    pub operation: FileOp,
    /// Holds the bytes to write, or a buffer without other owners, to be filled.
    pub bytes: SharedBuffer,
    /// Limits the operation to these bytes of the buffer.
    pub range: Range<usize>,
}

impl RingEntry {
    /// Counts the entries that go to the system as one operation with this one, which is the first of them.
    pub const fn parts(&self) -> usize {
        match self.role {
            MergeRole::First(parts) => parts as usize,
            _ => 1,
        }
    }

    /// Returns true if it was one of several in one operation.
    pub const fn is_merged(&self) -> bool {
        matches!(self.role, MergeRole::First(_) | MergeRole::Follows)
    }
}

/// Is a file that this array has locked until nobody here writes to it any more.
#[derive(Debug)]
pub struct LockedFile {
    file: Arc<dyn OsFile>,
    may_block: bool,
}

impl LockedFile {
    /// Wraps a locked file; dropping it unlocks it. `may_block` is the value of [`OsFile::may_block`].
    pub fn new(file: Arc<dyn OsFile>, may_block: bool) -> Arc<Self> {
        Arc::new(Self { file, may_block })
    }

    /// Returns true if whoever gives a ring an operation on it may have to wait for the answer.
    pub const fn may_block(&self) -> bool {
        self.may_block
    }
}

impl Deref for LockedFile {
    type Target = dyn OsFile;

    fn deref(&self) -> &Self::Target {
        &*self.file
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // The kernel closes what was open for an operation a little after it has
        // reported the end.
        // Unlocked by hand, so that a new owner need not wait for the kernel's last
        // close.
        self.file.unlock();
    }
}

/// Pairs an ended operation with its result: of reads and writes the bytes done, which may be fewer than asked
/// for.
pub type EndedOperation = (RingEntry, io::Result<usize>);

/// Tells each part of a merged operation its own result. The bytes done, counted from the beginning, make parts
/// whole.
///
/// Nothing is known of the other parts: after an error they get that error, else they did 0 bytes.
pub fn tell_parts(
    parts: impl Iterator<Item = RingEntry>,
    result: &io::Result<usize>,
    into: &mut VecDeque<EndedOperation>,
) {
    let mut left = *result.as_ref().unwrap_or(&0);
    for part in parts {
        let len = part.range.len();
        let told = match result {
            Ok(_) if left >= len => Ok(len),
            Ok(_) => Ok(0),
            // An `io::Error` cannot be cloned, so each part gets one with the same
            // number.
            Err(error) => Err(error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)),
        };
        // After the first part that is not whole nothing is known of the rest.
        left = if matches!(told, Ok(1..)) { left - len } else { 0 };
        into.push_back((part, told));
    }
}

/// Carries operations out, in any order. It owns what it was given until the operation has ended.
pub trait IoRing: fmt::Debug + Send {
    /// Gives these to the system, in one call; those without room stay where they are.
    /// Reads, or writes, that [follow](MergeRole::Follows) each other are one operation; each ends as one of
    /// its own ([`tell_parts`]).
    ///
    /// # Errors
    /// Fails if nothing can be given to the ring any more.
    fn submit(&mut self, entries: &mut RingEntries) -> io::Result<()>;

    /// Appends those that have ended.
    fn reap(&mut self, into: &mut VecDeque<EndedOperation>);

    /// Counts the entries that have not ended.
    fn under_way(&self) -> usize;

    /// Returns true if the system has not taken all that it was given: [`submit`](Self::submit) must be called
    /// again.
    fn is_behind(&self) -> bool {
        false
    }

    /// Returns the descriptor that is readable while something can be reaped. None where nobody waits.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Counts the operations that could go on in a [`turn`](Self::turn) now. Only a ring without threads has
    /// any.
    fn ready(&self) -> usize {
        0
    }

    /// Lets one of the ready operations take one step. `choose` picks a number below its argument.
    fn turn(&mut self, _choose: &dyn Fn(usize) -> usize) {}
}

/// Holds operations on their way to a ring.
pub type RingEntries = VecDeque<RingEntry>;
