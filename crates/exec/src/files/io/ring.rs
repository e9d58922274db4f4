//! What the executor asks of a ring: a queue of operations that the operating system carries out by itself,
//! without a thread of the executor's for each. The kernel's is one (`uring/kernel.rs`), what a
//! [`Recording`](crate::Recording) has in place of it another (`recording/queue.rs`).

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use rustix::fd::BorrowedFd;

use super::file::{OsFile, SyncPoint};
use crate::bytes::Handle;

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
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
pub struct Tag {
    /// The device.
    pub dev: u8,
    /// Which of the files that the device had in this life.
    pub life: u32,
    /// Which of its commands.
    pub command: u32,
}

/// An operation, with all that it needs until it has ended.
#[derive(Debug)]
pub struct Entry {
    /// Whose it is.
    pub tag: Tag,
    /// The file.
    pub file: Arc<LockedFile>,
    /// What is done to it.
    pub operation: Operation,
    /// What is written, or a buffer that nobody else has, to be filled.
    pub bytes: Handle,
    /// Which of these bytes.
    pub range: Range<usize>,
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
pub type Ended = (Entry, io::Result<usize>);

/// Carries operations out, in any order. What it was given stays with it until it has ended.
pub trait Ring: fmt::Debug + Send {
    /// Gives these to the system, in one call. Those for which there is no room stay where they are.
    ///
    /// # Errors
    /// If nothing can be given to it any more.
    fn submit(&mut self, entries: &mut Entries) -> io::Result<()>;

    /// Appends those that have ended.
    fn reap(&mut self, into: &mut VecDeque<Ended>);

    /// Operations that have not ended.
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
pub type Entries = VecDeque<Entry>;
