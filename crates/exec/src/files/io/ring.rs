//! What the executor asks of a ring: a queue of operations that the operating system carries out by itself,
//! without a thread of the executor's for each. The kernel's is one (`uring/kernel.rs`), what a
//! [`RecordingOs`](crate::RecordingOs) has in place of it another (`recording/queue.rs`).

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use rustix::fd::BorrowedFd;

use super::file::{OsFile, SyncPoint};
use crate::bytes::SharedBuffer;

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOp {
    /// Fills the bytes from here on.
    Read {
        /// Where, in bytes.
        offset: u64,
    },
    /// Writes the bytes from here on.
    Write {
        /// Where, in bytes.
        offset: u64,
    },
    /// Makes a range read as zeros without changing the length.
    PunchHole {
        /// Where it begins, in bytes.
        offset: u64,
        /// Its bytes.
        len: u64,
    },
    /// Makes the content durable.
    Sync(SyncPoint),
}

/// Whose an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationTag {
    /// The device.
    pub dev: u8,
    /// Which of the files that the device had in this life.
    pub life: u32,
    /// Which of its commands.
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

/// An operation, with all that it needs until it has ended.
#[derive(Debug)]
pub struct RingEntry {
    /// Says how it goes to the system.
    pub role: MergeRole,
    /// Whose it is.
    pub tag: OperationTag,
    /// The file.
    pub file: Arc<LockedFile>,
    /// What is done to it.
    pub operation: FileOp,
    /// What is written, or a buffer that nobody else has, to be filled.
    pub bytes: SharedBuffer,
    /// Which of these bytes.
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

/// A file that this array has for itself until nobody here writes to it any more.
#[derive(Debug)]
pub struct LockedFile {
    file: Arc<dyn OsFile>,
    may_block: bool,
}

impl LockedFile {
    /// Takes it; its lock is given back when it is dropped. `may_block` says what [`OsFile::may_block`] does.
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
        // The kernel closes what was open for an operation a little after it has told of the end.
        self.file.unlock();
    }
}

/// An operation that has ended: of reads and writes how many bytes they did, which may be fewer than they were
/// asked for.
pub type EndedOperation = (RingEntry, io::Result<usize>);

/// Tells each part of a merged operation its own result. The bytes that were done from its beginning on make parts whole.
/// Of the others nothing is known: after an error they have that error, else they did no bytes.
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
            Err(error) => Err(error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)),
        };
        left = if matches!(told, Ok(1..)) { left - len } else { 0 };
        into.push_back((part, told));
    }
}

/// Carries operations out, in any order. What it was given stays with it until it has ended.
pub trait IoRing: fmt::Debug + Send {
    /// Gives these to the system, in one call. Those for which there is no room stay where they are. Reads, or writes, that
    /// [follow](MergeRole::Follows) each other are one operation; each ends as one of its own
    /// ([`tell_parts`]).
    ///
    /// # Errors
    /// If nothing can be given to it any more.
    fn submit(&mut self, entries: &mut RingEntries) -> io::Result<()>;

    /// Appends those that have ended.
    fn reap(&mut self, into: &mut VecDeque<EndedOperation>);

    /// Counts the entries that have not ended.
    fn under_way(&self) -> usize;

    /// Whether the system has not taken all that it was given: [`submit`](Self::submit) is to be called again.
    fn is_behind(&self) -> bool {
        false
    }

    /// What is readable while there is something to be reaped. None where nobody waits.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Without threads: operations that could go on in a [`turn`](Self::turn) now.
    fn ready(&self) -> usize {
        0
    }

    /// Without threads: one of those that are ready goes on a little. `choose` says which of so many.
    fn turn(&mut self, _choose: &dyn Fn(usize) -> usize) {}
}

/// Operations on their way to a ring.
pub type RingEntries = VecDeque<RingEntry>;
