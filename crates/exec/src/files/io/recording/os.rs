//! Implements the operating system of a recording.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::io::Errno;

use super::file::RecordedFile;
use super::image::FileImage;
use super::inode::RecordedInode;
use super::queue::OperationQueue;
use super::slip::ExecutorFault;
use super::state::{OperationPosition, RecordedDisk, RecordingOs};
use crate::files::io::file::{OsFile, SyncPoint};
use crate::files::io::os::{OsInterface, PathPresence};
use crate::files::io::ring::IoRing;

impl OsInterface for RecordingOs {
    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.lock().disk.names.contains_key(path))
    }

    fn is_block_device(&self, _: &Path) -> bool {
        false
    }

    fn open(&self, path: &Path, presence: PathPresence) -> io::Result<Arc<dyn OsFile>> {
        let mut state = self.lock();
        let there = state.disk.names.get(path).copied();
        // Only an opening that makes a file changes something, and needs room.
        state.begin(
            there.is_none(),
            there.is_none() && matches!(presence, PathPresence::New | PathPresence::Either),
            OperationPosition::Path(path),
        )?;
        let inode = match (there, presence) {
            (Some(_), PathPresence::New) => return Err(Errno::EXIST.into()),
            (None, PathPresence::There | PathPresence::Beside) => return Err(Errno::NOENT.into()),
            (Some(inode), _) => inode,
            (None, _) => {
                let sectors = state.sectors.get(path).copied().unwrap_or_default();
                let inode = state.disk.inodes.len();
                state.disk.inodes.push(RecordedInode::new(FileImage::default(), sectors));
                state.disk.names.insert(path.to_owned(), inode);
                inode
            }
        };
        if state.disk.inodes[inode].broken {
            return Err(Errno::IO.into());
        }
        state.handles += 1;
        let handle = state.handles;
        let beside = (presence == PathPresence::Beside).then(|| AtomicU64::new(state.disk.inodes[inode].failed_syncs));
        drop(state);
        Ok(Arc::new(RecordedFile { os: self.clone(), inode, handle, beside }))
    }

    fn draw(&self) -> [u8; 16] {
        // Unique, since no two arrays are made after the same number of operations.
        // The factor is 2^64 divided by the golden ratio, which spreads the bits.
        let operations = self.lock().operations.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        u128::from(operations).to_le_bytes()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.begin(false, true, OperationPosition::Path(path))?;
        // A removed name comes back after a crash, until its folder is synced.
        state.disk.names.remove(path).map(|_| ()).ok_or_else(|| Errno::NOENT.into())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.begin(true, true, OperationPosition::Path(to))?;
        let inode = state.disk.names.remove(from).ok_or(Errno::NOENT)?;
        state.disk.names.insert(to.to_owned(), inode);
        Ok(())
    }

    fn sync_folder(&self, folder: &Path, at: SyncPoint) -> io::Result<()> {
        let mut state = self.lock();
        *state.syncs.entry(at).or_default() += 1;
        let mut begun = state.begin(false, true, OperationPosition::Path(folder));
        if let Some((_, fault)) = state.failing_sync.take_if(|failing| failing.0 == at) {
            state.strike(OperationPosition::Path(folder));
            begun = Err(fault.errno().into());
        }
        match state.slip {
            Some(ExecutorFault::Missing(missing)) if missing == at => return Ok(()),
            Some(ExecutorFault::Unheard(unheard)) if unheard == at && begun.is_err() => return Ok(()),
            _ => begun?,
        }
        let RecordedDisk { names, durable_names, .. } = &mut state.disk;
        let inside = |path: &PathBuf| path.parent() == Some(folder);
        // Names outside of the folder stay as they were: one sync covers one
        // folder.
        durable_names.retain(|path, _| !inside(path) || names.contains_key(path));
        durable_names.extend(names.iter().filter(|(path, _)| inside(path)).map(|(path, at)| (path.clone(), *at)));
        Ok(())
    }

    fn ring(&self, _operations: u32) -> io::Result<Box<dyn IoRing>> {
        Ok(Box::new(OperationQueue::of(self.clone())))
    }

    fn is_in_line(&self) -> bool {
        true
    }

    fn choose(&self, among: usize) -> usize {
        self.lock().chance.below(among as u64) as usize
    }
}
