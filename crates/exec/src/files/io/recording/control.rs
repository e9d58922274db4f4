//! Controls a recording: a harness plants faults, and asks what is left.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::image::FileImage;
use super::inode::{BadBytes, CrashSurvival, RecordedInode, SectorBytes};
use super::slip::ExecutorFault;
use super::state::{CrashPoint, IoFault, RecordingOs};
use crate::files::io::file::SyncPoint;

impl RecordingOs {
    /// Gives a file that is made at this path sectors of so many bytes instead of 512.
    pub fn set_sector(&self, path: &Path, bytes: u64) {
        self.lock().sectors.insert(path.to_owned(), SectorBytes { bytes, ..SectorBytes::default() });
    }

    /// Gives a file that is made at this path sectors of `bytes` up to `end`, a multiple of 512, and of 512
    /// after it.
    pub fn set_sector_before(&self, path: &Path, end: u64, bytes: u64) {
        self.lock().sectors.insert(path.to_owned(), SectorBytes { bytes, behind: (end, 512) });
    }

    /// Plants a fault of the executor, from now on and in what is left at any later moment.
    pub fn plant(&self, slip: Option<ExecutorFault>) {
        self.lock().slip = slip;
    }

    /// Makes one of the coming operations that change something fail: the one after so many.
    pub fn fail_after(&self, operations: u64, fault: IoFault) {
        let mut state = self.lock();
        (state.fault, state.struck) = (Some((operations, fault)), None);
    }

    /// Makes the next sync of this kind fail.
    pub fn fail_sync(&self, at: SyncPoint, fault: IoFault) {
        let mut state = self.lock();
        (state.failing_sync, state.struck) = (Some((at, fault)), None);
    }

    /// Cancels a planted fault. Returns true if it had not struck.
    pub fn take_fault(&self) -> bool {
        // Both are cancelled: `|`, since `||` would leave the second one planted.
        let mut state = self.lock();
        state.failing_sync.take().is_some() | state.fault.take().is_some()
    }

    /// Returns the file or folder that the last planted fault struck; none while it is still to come.
    /// A fault of a file that is broken anyway is not reported.
    pub fn struck(&self) -> Option<PathBuf> {
        self.lock().struck.clone()
    }

    /// Forgets the struck file, before the next fault is planted.
    pub fn forget_struck(&self) {
        self.lock().struck = None;
    }

    /// Keeps one of so many operations as a moment; none if 0.
    pub fn keep_moments(&self, rarity: u64) {
        self.lock().rarity = rarity;
    }

    /// Keeps both ends, of the process and of the power, before each of these operations that changes
    /// something.
    /// The run itself does not depend on the choice.
    pub fn keep_ends_before(&self, operations: Range<u64>) {
        self.lock().kept = operations;
    }

    /// Takes the crash points that were recorded since the last call.
    pub fn take_moments(&self) -> Vec<CrashPoint> {
        std::mem::take(&mut self.lock().moments)
    }

    /// Returns what a crash would leave now, of the power or of the process.
    #[must_use]
    pub fn end(&self, power: bool) -> Self {
        self.lock().end(power)
    }

    /// Returns what a loss of power leaves now, if so much survives.
    #[must_use]
    pub fn cut(&self, survival: CrashSurvival) -> Self {
        self.lock().cut(survival)
    }

    /// Counts the operations so far.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Counts the syncs so far, by their points.
    pub fn syncs(&self) -> BTreeMap<SyncPoint, u64> {
        self.lock().syncs.clone()
    }

    /// Breaks the file at this path, or repairs it. Any part of its undurable content survives.
    pub fn set_broken(&self, path: &Path, broken: bool) {
        let mut state = self.lock();
        if let Some(at) = state.disk.names.get(path).copied() {
            state.disk.inodes[at].broken = broken;
        }
    }

    /// Makes bytes of the file at this path unreadable.
    pub fn spoil(&self, path: &Path, range: Range<u64>, kind: BadBytes) {
        let mut state = self.lock();
        if let Some(at) = state.disk.names.get(path).copied() {
            state.disk.inodes[at].bad.push((range, kind));
        }
    }

    /// Flips a bit of the byte at an offset of the file at this path, in all copies of it. Nothing reports
    /// that.
    pub fn flip(&self, path: &Path, offset: u64, bit: u32) {
        let mut state = self.lock();
        if let Some(at) = state.disk.names.get(path).copied() {
            state.disk.inodes[at].flip(offset, bit);
        }
    }

    /// Makes the file at this path hang, or answer again.
    pub fn set_hangs(&self, path: &Path, hangs: bool) {
        let mut state = self.lock();
        if let Some(at) = state.disk.names.get(path).copied() {
            state.disk.inodes[at].hangs = hangs;
        }
    }

    /// Returns true if a sync of the file at this path has failed: a read may show what never becomes durable.
    pub fn is_spoiled(&self, path: &Path) -> bool {
        let state = self.lock();
        state.disk.names.get(path).is_some_and(|at| state.disk.inodes[*at].spoiled)
    }

    /// Removes a file, at once and durably.
    pub fn take_away(&self, path: &Path) {
        let disk = &mut self.lock().disk;
        disk.names.remove(path);
        disk.durable_names.remove(path);
    }

    /// Returns the content that a read of the whole file at this path would bring.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.lock();
        state.disk.names.get(path).map(|at| state.disk.inodes[*at].content.to_vec())
    }

    /// Puts a file at this path, durably.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.lock();
        let sectors = state.sectors.get(path).copied().unwrap_or_default();
        let disk = &mut state.disk;
        let at = disk.inodes.len();
        disk.inodes.push(RecordedInode::new(FileImage::from(bytes), sectors));
        disk.names.insert(path.to_owned(), at);
        // Durable at once: a harness uses it for files that existed before the run.
        disk.durable_names.insert(path.to_owned(), at);
    }
}
