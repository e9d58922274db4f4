//! Defines the operating system as the executor sees it. Everything that `files` does to a file goes through
//! [`OsInterface`] and [`OsFile`].
//!
//! Two things implement it: [`RealOs`](crate::RealOs) with real files, and [`RecordingOs`](crate::RecordingOs)
//! with files in memory of which any part can be lost.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::file::{OsFile, SyncPoint};
use super::ring::IoRing;

/// Says whether a file at a path must exist before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathPresence {
    /// Opens a file that exists.
    There,
    /// Makes a file that does not exist.
    New,
    /// Opens a file that exists as it is, or else makes it.
    Either,
    /// Opens a file once more that this process has open already.
    Beside,
}

/// Is an operating system.
pub trait OsInterface: fmt::Debug + Send + Sync {
    /// Returns true if something exists at a path.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Returns true if a block device exists at a path.
    fn is_block_device(&self, path: &Path) -> bool;

    /// Opens a file for reading and writing.
    fn open(&self, path: &Path, presence: PathPresence) -> io::Result<Arc<dyn OsFile>>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Renames a file within its folder. A file that had the new name loses it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_folder(&self, folder: &Path, at: SyncPoint) -> io::Result<()>;

    /// Reports that work on a file makes progress, though it takes long.
    fn goes_on(&self, _path: &Path) {}

    /// Draws a number that no other array has.
    fn draw(&self) -> [u8; 16];

    /// Makes a queue of operations on files that this system opened, for about so many at a time.
    ///
    /// # Errors
    /// Fails if the system has no such queue.
    fn ring(&self, _operations: u32) -> io::Result<Box<dyn IoRing>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns true if the main loop itself carries commands out, one after the other, when it has nothing else
    /// to do.
    /// There are no threads and no clock then.
    fn is_in_line(&self) -> bool {
        // A seed decides everything only where no thread and no clock takes part.
        false
    }

    /// Chooses a number below `among`, without threads: the next pool, its worker, and how far the worker goes.
    fn choose(&self, _among: usize) -> usize {
        0
    }
}
