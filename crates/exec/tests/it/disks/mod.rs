//! Block devices that need no root: files that are asked as the kernel lets disks be asked.

use std::collections::BTreeSet;
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use destage_exec::{FileIdentity, OsFile, OsInterface, PathPresence, RealOs, SyncPoint};
use rustix::io::Errno;

/// Says what disks can do, and counts what they were asked for.
#[derive(Debug, Default)]
pub struct DiskState {
    /// Names the files that are disks.
    pub paths: BTreeSet<PathBuf>,
    /// Gives the bytes of a logical block.
    pub block: u64,
    /// Is true if they make holes.
    pub holes: bool,
    /// Is true if the kernel writes zeros to them.
    pub ranges: bool,
    /// Gives how many writes, also of zeros, go well before one fails.
    pub fails_after: Option<u64>,
    /// Counts the writes of zeros by the kernel.
    pub ranges_made: u64,
    /// Counts bytes that were written directly.
    pub direct_bytes: u64,
    /// Gives the bytes of the longest write.
    pub longest: usize,
    /// Counts what was asked for directly, or by commands, and is not made of blocks.
    pub unaligned: u64,
}

/// Imitates an operating system with such disks. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct DiskSystem(Arc<Mutex<DiskState>>);

impl DiskSystem {
    /// Makes disks of these files, with blocks of so many bytes.
    pub fn new(block: u64, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let state = DiskState { block, paths: paths.into_iter().collect(), ..DiskState::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Returns what they can do, to be changed, and what they were asked for.
    pub fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().expect("nobody panics with it")
    }
}

impl OsInterface for DiskSystem {
    fn exists(&self, path: &Path) -> io::Result<bool> {
        RealOs.exists(path)
    }

    fn is_block_device(&self, path: &Path) -> bool {
        self.state().paths.contains(path)
    }

    fn open(&self, path: &Path, presence: PathPresence) -> io::Result<Arc<dyn OsFile>> {
        let (file, is_disk) = (RealOs.open(path, presence)?, self.is_block_device(path));
        Ok(Arc::new(DiskFile { disks: self.clone(), file, is_disk, is_direct: AtomicBool::new(false) }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        assert!(!self.is_block_device(path), "{} is removed", path.display());
        RealOs.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealOs.rename(from, to)
    }

    fn sync_folder(&self, folder: &Path, at: SyncPoint) -> io::Result<()> {
        RealOs.sync_folder(folder, at)
    }

    fn draw(&self) -> [u8; 16] {
        RealOs.draw()
    }
}

#[derive(Debug)]
struct DiskFile {
    disks: DiskSystem,
    file: Arc<dyn OsFile>,
    is_disk: bool,
    is_direct: AtomicBool,
}

impl DiskFile {
    /// Looks at a read or a write.
    fn pass(&self, offset: u64, len: usize) -> io::Result<()> {
        if self.is_direct.load(Ordering::Relaxed) { self.blocks(offset, len as u64) } else { Ok(()) }
    }

    /// Refuses what is not made of blocks, as the kernel does.
    fn blocks(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut state = self.disks.state();
        if offset.is_multiple_of(state.block) && len.is_multiple_of(state.block) {
            return Ok(());
        }
        state.unaligned += 1;
        Err(Errno::INVAL.into())
    }

    /// Fails a write if it is its turn.
    fn change(&self) -> io::Result<()> {
        let state = &mut *self.disks.state();
        match &mut state.fails_after {
            Some(0) => {
                state.fails_after = None;
                Err(Errno::IO.into())
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl OsFile for DiskFile {
    fn length(&self) -> io::Result<Option<u64>> {
        if self.is_disk { Ok(None) } else { self.file.length() }
    }

    fn capacity(&self) -> io::Result<Option<u64>> {
        if self.is_disk { self.file.length() } else { Ok(None) }
    }

    fn block_bytes(&self) -> io::Result<Option<u64>> {
        Ok(self.is_disk.then(|| self.disks.state().block))
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        self.file.identity()
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        self.file.try_lock()
    }

    fn unlock(&self) {
        self.file.unlock();
    }

    fn set_direct(&self, page_bytes: u64, first: u64) -> io::Result<u64> {
        if !self.is_disk {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.blocks(first, page_bytes)?;
        self.is_direct.store(true, Ordering::Relaxed);
        Ok(4096)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        if self.is_disk { Err(Errno::INVAL.into()) } else { self.file.set_len(bytes) }
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.file.reserve(bytes)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.pass(offset, bytes.len())?;
        self.file.read_exact_at(bytes, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.pass(offset, bytes.len())?;
        if self.is_disk {
            self.change()?;
            let mut state = self.disks.state();
            state.longest = state.longest.max(bytes.len());
            if self.is_direct.load(Ordering::Relaxed) {
                state.direct_bytes += bytes.len() as u64;
            }
        }
        self.file.write_all_at(bytes, offset)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        if self.is_disk {
            self.blocks(offset, len)?;
            if !self.disks.state().holes {
                return Err(Errno::OPNOTSUPP.into());
            }
            self.change()?;
        }
        self.file.punch_hole(offset, len)
    }

    fn zero_range(&self, offset: u64, len: u64) -> io::Result<()> {
        self.blocks(offset, len)?;
        if !self.disks.state().ranges {
            return Err(Errno::OPNOTSUPP.into());
        }
        self.change()?;
        self.disks.state().ranges_made += 1;
        self.file.punch_hole(offset, len)
    }

    fn sync_data(&self, at: SyncPoint) -> io::Result<()> {
        self.file.sync_data(at)
    }

    fn sync_all(&self, at: SyncPoint) -> io::Result<()> {
        self.file.sync_all(at)
    }
}
