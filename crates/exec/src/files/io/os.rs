//! What the executor asks of the operating system: everything that `files` does to a file goes
//! through [`OsInterface`] and [`OsFile`]. Real files are one ([`RealOs`](crate::RealOs)), files in memory
//! of which any part can be lost another ([`RecordingOs`](crate::RecordingOs)).

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::file::{OsFile, SyncPoint};
use super::ring::IoRing;

/// Which file is meant by a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathPresence {
    /// One that is there.
    There,
    /// One that is not there, and is made.
    New,
    /// One that is there, as it is; else it is made.
    Either,
    /// One that is there, and that this process has open already: it is opened once more.
    Beside,
}

/// An operating system.
pub trait OsInterface: fmt::Debug + Send + Sync {
    /// Whether there is something at a path.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Whether there is a block device at a path.
    fn is_block_device(&self, path: &Path) -> bool;

    /// Opens a file to be read and written.
    fn open(&self, path: &Path, presence: PathPresence) -> io::Result<Arc<dyn OsFile>>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Gives a file another name, in the same folder, and takes that from the file that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_folder(&self, folder: &Path, at: SyncPoint) -> io::Result<()>;

    /// Tells whoever waits for something of a file that it goes on, though it takes long.
    fn goes_on(&self, _path: &Path) {}

    /// A number that no other array has.
    fn draw(&self) -> [u8; 16];

    /// A queue of operations on files that it opened, for about so many at a time.
    ///
    /// # Errors
    /// If it has none.
    fn ring(&self, _operations: u32) -> io::Result<Box<dyn IoRing>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether commands are carried out by the main loop itself, one after the other, when it has
    /// nothing else to do; there are no threads and no clock then.
    fn is_in_line(&self) -> bool {
        false
    }

    /// Without threads: which of so many comes next: which pool, which of its workers, how far.
    fn choose(&self, _among: usize) -> usize {
        0
    }
}
