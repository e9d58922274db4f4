//! Defines an open file and the names of its syncs.

use std::fmt;
use std::fs::TryLockError;
use std::io::{self, IoSlice, IoSliceMut};

use rustix::fd::BorrowedFd;

/// Identifies a file: the number of its file system and its number there.
pub type FileIdentity = (u64, u64);

/// Names every place where the executor makes something durable.
/// A test leaves out one at a time and demands that the omission is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncPoint {
    /// Flushes a device, as a request asks.
    Flush,
    /// Makes a write with FUA durable.
    Fua,
    /// Makes the marks of rows on a member durable.
    Marks,
    /// Syncs the list of pages that a member cannot keep.
    BadPages,
    /// Makes puts and frees of the NVRAM's slots durable, where every acknowledged write must be.
    Commit,
    /// Makes the commits durable that were done, before a step begins that relies on them.
    Ahead,
    /// Makes the commits durable that were done, before a flush or a write with FUA is answered, or a clean
    /// stop ends.
    Answer,
    /// Makes set or cleared intents durable.
    Intents,
    /// Makes the copies of the oldest records of the NVRAM durable that are still in use, and everything before
    /// them.
    Copied,
    /// Makes a later first record durable: the place before it may be overwritten afterwards.
    Tail,
    /// Makes the NVRAM durable as a start found it, before anything relies on it.
    OpenNvram,
    /// Makes the intents durable as a start found them.
    OpenIntents,
    /// Makes a device durable as a start found it.
    OpenDevice,
    /// Makes the marks durable that a start writes.
    OpenMarks,
    /// Makes the names durable under which a start found the files.
    OpenFolder,
    /// Makes the emptied NVRAM of an array durable that is overwritten.
    CreateEmptied,
    /// Makes a new device durable.
    CreateDevice,
    /// Makes the new intents durable.
    CreateIntents,
    /// Makes the new NVRAM durable.
    CreateNvram,
    /// Makes the names of a new array's files durable.
    CreateFolder,
    /// Makes the list durable that says which file is which device's.
    Roster,
    /// Makes the event count durable in the NVRAM.
    EventCount,
    /// Makes the event count, or its next value, durable in every other file.
    EventCountTold,
    /// Makes a file with its label durable that takes the place of a device.
    ReplaceDevice,
    /// Makes a file durable that takes the place of a member with all that this one holds, with its label.
    Successor,
    /// Makes the name of that file durable.
    ReplaceFolder,
    /// Makes the NVRAM's content durable in its spare place, before the roster names that place.
    MovedNvram,
    /// Makes the name of that file durable.
    MovedFolder,
    /// Makes the roster durable that names the NVRAM's new place.
    MovedRoster,
    /// Makes the description of an array durable, before it takes its name.
    Description,
    /// Makes the description's name durable, or its absence.
    DescriptionFolder,
}

impl SyncPoint {
    /// Lists all of them, for tests that leave out one at a time.
    pub const ALL: [Self; 31] = [
        Self::Flush,
        Self::Fua,
        Self::Marks,
        Self::BadPages,
        Self::Commit,
        Self::Ahead,
        Self::Answer,
        Self::Intents,
        Self::Copied,
        Self::Tail,
        Self::OpenNvram,
        Self::OpenIntents,
        Self::OpenDevice,
        Self::OpenMarks,
        Self::OpenFolder,
        Self::CreateEmptied,
        Self::CreateDevice,
        Self::CreateIntents,
        Self::CreateNvram,
        Self::CreateFolder,
        Self::Roster,
        Self::EventCount,
        Self::EventCountTold,
        Self::ReplaceDevice,
        Self::Successor,
        Self::ReplaceFolder,
        Self::MovedNvram,
        Self::MovedFolder,
        Self::MovedRoster,
        Self::Description,
        Self::DescriptionFolder,
    ];
}

/// Names the records and files that must not be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UntrustedFile {
    /// Stands for a record that was written in part.
    Torn,
    /// Stands for a record at the place of the next one that an earlier opening wrote and the last start has
    /// not found.
    Stale,
    /// Stands for a file of the array that is older than the rest.
    Behind,
}

/// Reads and writes an open file, and closes it when dropped.
pub trait OsFile: fmt::Debug + Send + Sync {
    /// Returns true if a call that must not wait may wait all the same, as where a server answers for the file
    /// system.
    /// Asks the file system.
    fn may_block(&self) -> bool {
        // Files in memory never wait; the real ones ask their file system.
        false
    }

    /// Returns the bytes of a regular file; none if it is something else.
    fn length(&self) -> io::Result<Option<u64>>;

    /// Returns the bytes of a block device; none if it is something else.
    fn capacity(&self) -> io::Result<Option<u64>>;

    /// Returns the bytes that may be written, which may be more than the length.
    fn writable_bytes(&self) -> io::Result<Option<u64>> {
        self.length()
    }

    /// Returns the bytes of a block device's logical block; none if it is something else.
    /// No part of a block alone is read or written directly, or made zeros by a command.
    fn block_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Identifies the file.
    fn identity(&self) -> io::Result<FileIdentity>;

    /// Locks the file for this handle alone, as long as it is open.
    fn try_lock(&self) -> Result<(), TryLockError>;

    /// Unlocks the file, though the handle may stay open a little longer. Nothing more is asked of it.
    fn unlock(&self) {}

    /// Returns the descriptor by which the kernel's [`IoRing`](crate::IoRing) knows the file, if it does.
    /// It stays the same while the file is open.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Switches the file to direct I/O, for pages of so many bytes of which the first begins at `first`.
    /// Returns the number of bytes to a multiple of which memory must then be aligned.
    ///
    /// # Errors
    /// Returns why that cannot be; nothing has changed then.
    fn set_direct(&self, _page_bytes: u64, _first: u64) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Sets the length, with zeros after the previous content.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Reserves room for the first so many bytes, so that writes of them do not fail for want of room.
    /// Where the file system reserves none, checks that so much is free. A file needs no room beyond what it
    /// has already.
    fn reserve(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Writes zeros over zeros, where a file system records the first write of each place: later ones change
    /// bytes alone.
    fn fill(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Fills `bytes` from this offset on.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` from this offset on.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Fills several buffers in order, from this offset on. Returns the bytes read, which may be fewer.
    ///
    /// # Errors
    /// Fails if no byte could be read. The error does not say which part it is about.
    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        one_by_one(buffers.iter_mut().map(|bytes| &mut **bytes), |bytes, done| {
            self.read_exact_at(bytes, offset + done).map(|()| bytes.len())
        })
    }

    /// Writes several buffers in order, from this offset on. Returns the bytes written, which may be fewer.
    ///
    /// # Errors
    /// Fails if no byte could be written. The error does not say which part it is about.
    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        one_by_one(buffers.iter().map(|bytes| &**bytes), |bytes, done| {
            self.write_all_at(bytes, offset + done).map(|()| bytes.len())
        })
    }

    /// Makes a range read as zeros without changing the length.
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Makes a range of a block device read as zeros: the kernel writes them where the device has no command for that.
    fn zero_range(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes the content durable.
    fn sync_data(&self, at: SyncPoint) -> io::Result<()>;

    /// Makes the content and the length durable.
    fn sync_all(&self, at: SyncPoint) -> io::Result<()>;

    /// Marks the beginning of the next sync, which ends when it is asked for: it need not cover later writes.
    /// Only files without threads take note.
    fn sync_begins(&self) {}

    /// Names the device's worker that asks from now on. Only files without threads take note.
    fn asked_by(&self, _worker: usize) {}

    /// Returns true if a call would not be answered now. Only files without threads know.
    fn hangs(&self) -> bool {
        false
    }

    /// Returns true if a planted fault makes the executor believe such a record or file. Only files without
    /// threads know.
    fn believes(&self, _what: UntrustedFile) -> bool {
        false
    }

    /// Returns the bytes of a sector, of which no part alone is read or written. Only files without threads are
    /// asked.
    fn sector(&self) -> usize {
        // The sector of most devices, and the unit of the executor's own formats.
        512
    }
}

/// Applies `work` to one buffer after the other until one fails, and tells it how many bytes are done.
/// Returns the bytes done, or the error of the first buffer.
fn one_by_one<T>(
    buffers: impl Iterator<Item = T>,
    mut work: impl FnMut(T, u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    for bytes in buffers {
        match work(bytes, done as u64) {
            Ok(len) => done += len,
            // A short count says where it stopped; the caller asks for the rest by
            // itself and gets that part's own error.
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}
