//! An open file of a recording.

use std::fs::TryLockError;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use super::inode::{FileChange, RecordedInode};
use super::slip::{ExecutorFault, part};
use super::state::{LastingFault, OperationPosition, RecordingOs, RecordingState};
use crate::files::io::file::{FileIdentity, OsFile, SyncPoint, UntrustedFile};

/// Is an open file of a recording.
#[derive(Debug)]
pub(super) struct RecordedFile {
    pub(super) os: RecordingOs,
    pub(super) inode: usize,
    pub(super) handle: u64,
    /// Counts the failed syncs that this handle knows of, if another handle opened the file before and syncs it
    /// for itself.
    pub(super) beside: Option<AtomicU64>,
}

/// Numbers the worker of a second handle.
const BESIDE: usize = usize::MAX;

impl RecordedFile {
    /// Does something to the file if it answers.
    fn operation<T>(
        &self,
        needs_room: bool,
        changes: bool,
        work: impl FnOnce(&mut RecordedInode) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.os.lock();
        // The operation is counted even if the file is broken, so that numbers of
        // operations do not depend on faults.
        let begun = state.begin(needs_room, changes, OperationPosition::File(self.inode));
        let inode = &mut state.disk.inodes[self.inode];
        if inode.broken {
            return Err(Errno::IO.into());
        }
        begun?;
        work(inode)
    }

    /// Changes the file, as [`operation`](Self::operation) does.
    fn change(&self, change: FileChange) -> io::Result<()> {
        let done = self.operation(true, true, |inode| {
            let worker = inode.worker;
            // A write of the second handle must not count as one of the device's
            // worker, whose sync may miss it.
            if self.beside.is_some() {
                inode.worker = BESIDE;
            }
            let changed = inode.change(change);
            inode.worker = worker;
            changed
        });
        let slip = self.os.lock().slip;
        // A planted fault turns the error into a success here, since the executor
        // itself has no code for it.
        done.or_else(|error| if slip.is_some_and(|slip| slip.misses(&error)) { Ok(()) } else { Err(error) })
    }

    /// Counts the bytes that are read, written or made zeros of these.
    fn part(&self, offset: u64, len: usize, of: ExecutorFault) -> usize {
        let state = &mut *self.os.lock();
        let sector = state.disk.inodes[self.inode].sectors.at(offset);
        if state.slip == Some(of) { part(offset, len, sector, &mut *state.chance) } else { len }
    }

    /// Does several parts in order, and tells `work` which, how many bytes and from where, until one fails.
    ///
    /// It may stop at any sector, and bytes done before an error may be reported or not. A fault that strikes
    /// one of several parts strikes it again when it is tried alone.
    fn vectored(
        &self,
        lens: impl ExactSizeIterator<Item = usize> + Clone,
        offset: u64,
        mut work: impl FnMut(usize, usize, u64) -> io::Result<()>,
    ) -> io::Result<usize> {
        let total = lens.clone().sum();
        let cut = {
            let state = &mut *self.os.lock();
            let sector = state.disk.inodes[self.inode].sectors.at(offset);
            // A real system may stop at any sector too, so every caller must
            // continue a short operation.
            part(offset, total, sector, &mut *state.chance)
        };
        let mut done = 0;
        for (number, len) in lens.enumerate() {
            let (len, at) = (len.min(cut - done), offset + done as u64);
            if len == 0 {
                break;
            }
            let fault = self.os.lock().fault.map(|(_, fault)| fault);
            let worked = work(number, len, at);
            let state = &mut *self.os.lock();
            if let Err(error) = worked {
                // Kept for the retry: else the part's own error would never be
                // seen.
                if let Some(fault) = fault.filter(|_| state.fault.is_none()) {
                    state.lasting = Some(LastingFault { file: self.inode, offset: at, fault });
                }
                let is_told =
                    state.slip != Some(ExecutorFault::MergedShort) && (done == 0 || state.chance.below(2) == 0);
                // Linux reports a short count if bytes were done before the error;
                // direct I/O may report the error alone.
                return if is_told { Err(error) } else { Ok(Self::told(state, done, total)) };
            }
            done += len;
        }
        let state = &mut *self.os.lock();
        Ok(Self::told(state, done, total))
    }

    /// Returns how many bytes are reported as done.
    fn told(state: &RecordingState, done: usize, total: usize) -> usize {
        if state.slip == Some(ExecutorFault::MergedShort) { total } else { done }
    }

    fn sync(&self, at: SyncPoint, lengths: bool) -> io::Result<()> {
        let Some(known) = &self.beside else { return self.sync_alone(at, lengths) };
        // The other's sync may be under way, and has begun when it has.
        let set = |worker, begun: Option<usize>| {
            let inode = &mut self.os.lock().disk.inodes[self.inode];
            let begun = begun.map(|begun| begun.min(inode.pending.len()));
            (std::mem::replace(&mut inode.worker, worker), std::mem::replace(&mut inode.sync_begun, begun))
        };
        let (worker, begun) = set(BESIDE, None);
        let synced = self.sync_alone(at, lengths);
        set(worker, begun);
        let state = self.os.lock();
        // Each who has it open is told once of a sync that failed.
        let failed = state.disk.inodes[self.inode].failed_syncs;
        let is_news = known.swap(failed, Ordering::Relaxed) < failed;
        if is_news && synced.is_ok() && state.slip != Some(ExecutorFault::Unheard(at)) {
            Err(Errno::IO.into())
        } else {
            synced
        }
    }

    fn sync_alone(&self, at: SyncPoint, lengths: bool) -> io::Result<()> {
        let mut state = self.os.lock();
        // Counted before it can fail, since a failed sync was asked for as well.
        *state.syncs.entry(at).or_default() += 1;
        let mut begun = state.begin(true, true, OperationPosition::File(self.inode));
        let broken = state.disk.inodes[self.inode].broken;
        if !broken && let Some((_, fault)) = state.failing_sync.take_if(|failing| failing.0 == at) {
            state.strike(OperationPosition::File(self.inode));
            begun = Err(fault.errno().into());
        }
        if broken || begun.is_err() {
            let RecordingState { disk, chance, debts, .. } = &mut *state;
            // What was late from an earlier sync is decided by the failure too.
            debts.retain(|debt| !debt.is_of(self.inode));
            disk.inodes[self.inode].spoil(&mut **chance);
            let unheard = state.slip == Some(ExecutorFault::Unheard(at));
            return if unheard { Ok(()) } else { Err(begun.err().unwrap_or_else(|| Errno::IO.into())) };
        }
        state.sync(self.inode, at, lengths);
        Ok(())
    }
}

impl OsFile for RecordedFile {
    fn length(&self) -> io::Result<Option<u64>> {
        self.operation(false, false, |inode| Ok(Some(inode.content.len() as u64)))
    }

    fn capacity(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        Ok((0, self.inode as u64))
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        let mut state = self.os.lock();
        match &mut state.disk.inodes[self.inode].locked_by {
            Some(other) if *other != self.handle => Err(TryLockError::WouldBlock),
            free => {
                *free = Some(self.handle);
                Ok(())
            }
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.change(FileChange::SetLen(bytes))
    }

    fn reserve(&self, _bytes: u64) -> io::Result<()> {
        self.operation(true, true, |_| Ok(()))
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let len = self.part(offset, bytes.len(), ExecutorFault::ShortRead);
        let bytes = &mut bytes[..len];
        let read = self.operation(false, false, |inode| {
            // The whole read fails, as a disk's does, though only some of the bytes
            // are bad.
            if inode.is_bad(offset, bytes.len()) {
                return Err(Errno::IO.into());
            }
            if inode.content.read(offset, bytes) { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
        });
        // Wrong bytes and no error: the harness must notice that.
        if read.is_err() && self.os.lock().slip == Some(ExecutorFault::UnheardRead) {
            bytes.fill(0);
            return Ok(());
        }
        read
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // Before the bytes are shortened: the part must fail again, whatever is done of it.
        if let Some(fault) = self.os.lock().take_lasting(self.inode, offset) {
            return Err(fault.errno().into());
        }
        let len = self.part(offset, bytes.len(), ExecutorFault::ShortWrite);
        self.change(FileChange::Write { offset, bytes: bytes[..len].into() })
    }

    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let lens: Vec<_> = buffers.iter().map(|bytes| bytes.len()).collect();
        self.vectored(lens.into_iter(), offset, |number, len, at| self.read_exact_at(&mut buffers[number][..len], at))
    }

    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let lens = buffers.iter().map(|bytes| bytes.len());
        self.vectored(lens, offset, |number, len, at| self.write_all_at(&buffers[number][..len], at))
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let len = self.part(offset, len as usize, ExecutorFault::ShortHole) as u64;
        self.change(FileChange::Punch { offset, len })
    }

    fn sync_data(&self, at: SyncPoint) -> io::Result<()> {
        self.sync(at, false)
    }

    fn sync_all(&self, at: SyncPoint) -> io::Result<()> {
        self.sync(at, true)
    }

    fn sync_begins(&self) {
        let inode = &mut self.os.lock().disk.inodes[self.inode];
        // What is pending beyond here may be written while the sync runs, and need
        // not be covered.
        inode.sync_begun = Some(inode.pending.len());
    }

    fn asked_by(&self, worker: usize) {
        self.os.lock().disk.inodes[self.inode].worker = worker;
    }

    fn hangs(&self) -> bool {
        self.os.lock().disk.inodes[self.inode].hangs
    }

    fn believes(&self, what: UntrustedFile) -> bool {
        self.os.lock().slip == Some(ExecutorFault::Believes(what))
    }

    fn sector(&self) -> usize {
        self.os.lock().disk.inodes[self.inode].sectors.bytes as usize
    }
}

impl Drop for RecordedFile {
    fn drop(&mut self) {
        let mut state = self.os.lock();
        let lock = &mut state.disk.inodes[self.inode].locked_by;
        // Locks belong to the open file, as `flock` does, so they end with it.
        if *lock == Some(self.handle) {
            *lock = None;
        }
    }
}
