//! An operating system whose files are memory, and whose ring does what it is given at once.

use std::collections::{HashMap, VecDeque};
use std::fs::TryLockError;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use destage_exec::{
    EndedOperation, FileIdentity, FileOp, IoRing, OsFile, OsInterface, PathPresence, RingEntries, SyncPoint,
};

/// Files in memory.
#[derive(Debug, Default)]
pub struct MemoryOs {
    files: Mutex<HashMap<PathBuf, Arc<MemoryFile>>>,
}

#[derive(Debug)]
struct MemoryFile {
    number: u64,
    bytes: Mutex<Vec<u8>>,
}

impl MemoryFile {
    /// Does something with the bytes from here on, which are there.
    fn at(&self, offset: u64, len: usize, with: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let place = offset as usize..offset as usize + len;
        with(bytes.get_mut(place).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl OsInterface for MemoryOs {
    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.files.lock().unwrap_or_else(PoisonError::into_inner).contains_key(path))
    }

    fn is_block_device(&self, _: &Path) -> bool {
        false
    }

    fn open(&self, path: &Path, presence: PathPresence) -> io::Result<Arc<dyn OsFile>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let number = files.len() as u64;
        match (files.get(path), presence) {
            (Some(_), PathPresence::New) => Err(io::ErrorKind::AlreadyExists.into()),
            (None, PathPresence::There) => Err(io::ErrorKind::NotFound.into()),
            (Some(file), _) => Ok(Arc::clone(file) as _),
            (None, _) => {
                let file = Arc::new(MemoryFile { number, bytes: Mutex::default() });
                files.insert(path.to_owned(), Arc::clone(&file));
                Ok(file)
            }
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
        removed.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn sync_folder(&self, _: &Path, _: SyncPoint) -> io::Result<()> {
        Ok(())
    }

    fn draw(&self) -> [u8; 16] {
        [7; 16]
    }

    fn ring(&self, _: u32) -> io::Result<Box<dyn IoRing>> {
        Ok(Box::new(MemoryRing::default()))
    }
}

impl OsFile for MemoryFile {
    fn length(&self) -> io::Result<Option<u64>> {
        Ok(Some(self.bytes.lock().unwrap_or_else(PoisonError::into_inner).len() as u64))
    }

    fn capacity(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        Ok((0, self.number))
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).resize(bytes as usize, 0);
        Ok(())
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.at(offset, bytes.len(), |found| bytes.copy_from_slice(found))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset as usize + bytes.len();
        let mut found = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() < end {
            found.resize(end, 0);
        }
        found[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.at(offset, len as usize, |found| found.fill(0))
    }

    fn sync_data(&self, _: SyncPoint) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self, _: SyncPoint) -> io::Result<()> {
        Ok(())
    }
}

/// Operations that were done and not fetched.
#[derive(Debug, Default)]
struct MemoryRing {
    ended: VecDeque<EndedOperation>,
}

impl IoRing for MemoryRing {
    fn submit(&mut self, entries: &mut RingEntries) -> io::Result<()> {
        for mut entry in entries.drain(..) {
            let len = entry.range.len();
            let done = match entry.operation {
                FileOp::Read { offset } => {
                    let bytes = Arc::get_mut(&mut entry.bytes).expect("nobody else has what is to be filled");
                    entry.file.read_exact_at(&mut bytes[entry.range.clone()], offset).map(|()| len)
                }
                FileOp::Write { offset } => {
                    entry.file.write_all_at(&entry.bytes[entry.range.clone()], offset).map(|()| len)
                }
                FileOp::PunchHole { offset, len } => entry.file.punch_hole(offset, len).map(|()| 0),
                FileOp::Sync(at) => entry.file.sync_data(at).map(|()| 0),
            };
            self.ended.push_back((entry, done));
        }
        Ok(())
    }

    fn reap(&mut self, into: &mut VecDeque<EndedOperation>) {
        into.append(&mut self.ended);
    }

    fn under_way(&self) -> usize {
        self.ended.len()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
