//! What is asked of an open file, and what for.

use std::fmt;
use std::fs::TryLockError;
use std::io::{self, IoSlice, IoSliceMut};

use rustix::fd::BorrowedFd;

/// What tells a file from all others: its file system and its number there.
pub type FileIdentity = (u64, u64);

/// Every place where the executor makes something durable: each says for what, so that a test can
/// leave it out and see that it is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncPoint {
    /// A flush of a device.
    Flush,
    /// A write with FUA.
    Fua,
    /// Rows are marked on a member.
    Marks,
    /// Syncs the list of pages that a member cannot keep.
    BadPages,
    /// Slots of the NVRAM were put and freed, and every acknowledged write is durable.
    Commit,
    /// As many commits as were done, before what was begun since.
    Ahead,
    /// As many as were done, before a flush or a write with FUA is answered, or a clean stop is reached.
    Answer,
    /// Intents were set or cleared.
    Intents,
    /// What is still in use of the oldest records of the NVRAM was written once more, and all before that.
    Copied,
    /// The first record is a later one: what is before it may be written over.
    Tail,
    /// What was found in the NVRAM at the start, before anything relies on it.
    OpenNvram,
    /// What was found of the intents at the start.
    OpenIntents,
    /// What was found on a device at the start.
    OpenDevice,
    /// Its marks, as a start leaves them.
    OpenMarks,
    /// The names under which files were found at the start.
    OpenFolder,
    /// The NVRAM of an array that is overwritten was emptied.
    CreateEmptied,
    /// A new device.
    CreateDevice,
    /// The new intents.
    CreateIntents,
    /// The new NVRAM.
    CreateNvram,
    /// The names of a new array's files.
    CreateFolder,
    /// Which files are the devices'.
    Roster,
    /// Makes the event count durable in the NVRAM.
    EventCount,
    /// Makes it, or what it will be, durable in every other file.
    EventCountTold,
    /// A file in the place of a device, with its label.
    ReplaceDevice,
    /// Makes a file durable that takes the place of a member with all that this one holds, with its label.
    Successor,
    /// Its name.
    ReplaceFolder,
    /// Makes what the NVRAM holds durable in its spare place, before it lies there.
    MovedNvram,
    /// Makes the name of that file durable.
    MovedFolder,
    /// Makes it durable that the NVRAM lies there.
    MovedRoster,
    /// Makes the description of an array durable, before it takes its name.
    Description,
    /// Makes its name durable, or that there is none.
    DescriptionFolder,
}

impl SyncPoint {
    /// All of them.
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

/// Names what must not be believed of the NVRAM's file, or of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UntrustedFile {
    /// A record that was written in part.
    Torn,
    /// One that lies where the next must, and was written before the last start, which has not found it.
    Stale,
    /// Stands for a file of the array that is older than the rest.
    Behind,
}

/// An open file; closed when dropped.
pub trait OsFile: fmt::Debug + Send + Sync {
    /// Returns true if whoever asks for something of it without waiting may have to wait all the same, as where a server
    /// answers for its file system. Asks the file system.
    fn may_block(&self) -> bool {
        false
    }

    /// Bytes of a regular file; none if it is something else.
    fn length(&self) -> io::Result<Option<u64>>;

    /// Bytes of a block device; none if it is something else.
    fn capacity(&self) -> io::Result<Option<u64>>;

    /// Returns the bytes that may be written, which may be some more than its length.
    fn writable_bytes(&self) -> io::Result<Option<u64>> {
        self.length()
    }

    /// Returns the bytes of a block device's logical block, of which no part alone is read or written directly, or made
    /// zeros by a command; none if it is something else.
    fn block_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Which file it is.
    fn identity(&self) -> io::Result<FileIdentity>;

    /// Takes it for this open file alone, as long as it is open.
    fn try_lock(&self) -> Result<(), TryLockError>;

    /// Lets others take it, though it may be open a little longer. Nothing more is asked of it.
    fn unlock(&self) {}

    /// Returns the descriptor by which the kernel's [`IoRing`](crate::IoRing) knows the file, if it does. It stays the same while
    /// the file is open.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Has pages of so many bytes, of which the first begins at `first`, read and written past the memory of the operating system,
    /// from now on; to a multiple of how many bytes the memory must then be aligned.
    ///
    /// # Errors
    /// Why that cannot be, in which case nothing has changed.
    fn set_direct(&self, _page_bytes: u64, _first: u64) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes it so long, with zeros behind what it held.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Takes room for the first so many bytes, so that writes of them do not fail for want of it; where the file system
    /// reserves none, makes sure that so much is free. A file that has room for as long as it is takes none.
    fn reserve(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Writes zeros over zeros, where a file system notes the first write of each place: later ones change bytes alone.
    fn fill(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Fills `bytes` from here on.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` from here on.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Fills several buffers, one behind the other, from here on. Returns how many bytes were read, which may be fewer.
    ///
    /// # Errors
    /// If none could be read. It does not say which part it is about.
    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        one_by_one(buffers.iter_mut().map(|bytes| &mut **bytes), |bytes, done| {
            self.read_exact_at(bytes, offset + done).map(|()| bytes.len())
        })
    }

    /// Writes several buffers, one behind the other, from here on. Returns how many bytes were written, which may be fewer.
    ///
    /// # Errors
    /// If none could be written. It does not say which part it is about.
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

    /// Makes its content durable.
    fn sync_data(&self, at: SyncPoint) -> io::Result<()>;

    /// Makes its content and its length durable.
    fn sync_all(&self, at: SyncPoint) -> io::Result<()>;

    /// The next sync begins now, and ends when it is asked for: what is written in between it need
    /// not cover. Only files without threads take note.
    fn sync_begins(&self) {}

    /// Which of the device's workers asks from now on. Only files without threads take note.
    fn asked_by(&self, _worker: usize) {}

    /// Whether what is asked of it now would not be answered. Only files without threads know.
    fn hangs(&self) -> bool {
        false
    }

    /// Whether a fault is planted: this is believed. Only files without threads know.
    fn believes(&self, _what: UntrustedFile) -> bool {
        false
    }

    /// Bytes of a sector, of which no part alone is read or written. Only files without threads are asked.
    fn sector(&self) -> usize {
        512
    }
}

/// Does something to one buffer after the other, told how many bytes are done, until one fails. Returns how many were done,
/// or the error of the first.
fn one_by_one<T>(
    buffers: impl Iterator<Item = T>,
    mut work: impl FnMut(T, u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    for bytes in buffers {
        match work(bytes, done as u64) {
            Ok(len) => done += len,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}
