//! What a harness has a recording do, and asks it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::image::FileImage;
use super::inode::{BadBytes, CrashSurvival, RecordedInode, SectorBytes};
use super::slip::ExecutorFault;
use super::state::{CrashPoint, IoFault, RecordingOs};
use crate::files::io::file::SyncPoint;

impl RecordingOs {
    /// A file that is made at this path has sectors of so many bytes, not 512.
    pub fn set_sector(&self, path: &Path, bytes: u64) {
        self.lock().sectors.insert(path.to_owned(), SectorBytes { bytes, ..SectorBytes::default() });
    }

    /// A file that is made at this path has sectors of so many bytes up to there, a multiple of 512, and of 512 behind.
    pub fn set_sector_before(&self, path: &Path, end: u64, bytes: u64) {
        self.lock().sectors.insert(path.to_owned(), SectorBytes { bytes, behind: (end, 512) });
    }

    /// Plants a fault of the executor, from now on and in what is left at any later moment.
    pub fn plant(&self, slip: Option<ExecutorFault>) {
        self.lock().slip = slip;
    }

    /// One of the coming operations that change something fails: the one after so many.
    pub fn fail_after(&self, operations: u64, fault: IoFault) {
        let mut state = self.lock();
        (state.fault, state.struck) = (Some((operations, fault)), None);
    }

    /// The next sync of this kind fails.
    pub fn fail_sync(&self, at: SyncPoint, fault: IoFault) {
        let mut state = self.lock();
        (state.failing_sync, state.struck) = (Some((at, fault)), None);
    }

    /// Whether a fault that was asked for is still to come; it does not come any more.
    pub fn take_fault(&self) -> bool {
        let mut state = self.lock();
        state.failing_sync.take().is_some() | state.fault.take().is_some()
    }

    /// The file or folder that the fault struck which was asked for last; none while that is to come. Nobody is told
    /// of a fault of a file that is broken anyway.
    pub fn struck(&self) -> Option<PathBuf> {
        self.lock().struck.clone()
    }

    /// Forgets that: what is to fail from now on is something else.
    pub fn forget_struck(&self) {
        self.lock().struck = None;
    }

    /// Keeps one of so many operations as a moment; none if 0.
    pub fn keep_moments(&self, rarity: u64) {
        self.lock().rarity = rarity;
    }

    /// Keeps both ends, of the process and of the power, before each of these operations that changes something. What
    /// happens is the same whichever they are.
    pub fn keep_ends_before(&self, operations: Range<u64>) {
        self.lock().kept = operations;
    }

    /// The moments that were kept since the last call.
    pub fn take_moments(&self) -> Vec<CrashPoint> {
        std::mem::take(&mut self.lock().moments)
    }

    /// What would be left if it all ended now, with the power or the process.
    #[must_use]
    pub fn end(&self, power: bool) -> Self {
        self.lock().end(power)
    }

    /// What is left if the power fails now, and so much survives.
    #[must_use]
    pub fn cut(&self, survival: CrashSurvival) -> Self {
        self.lock().cut(survival)
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Syncs so far, by what they were for.
    pub fn syncs(&self) -> BTreeMap<SyncPoint, u64> {
        self.lock().syncs.clone()
    }

    /// Breaks the file at this path, or mends it. Of what was not durable anything survives.
    pub fn set_broken(&self, path: &Path, broken: bool) {
        let mut state = self.lock();
        if let Some(at) = state.disk.names.get(path).copied() {
            state.disk.inodes[at].broken = broken;
        }
    }

    /// Lets bytes of the file at this path be such as cannot be read.
    pub fn spoil(&self, path: &Path, range: Range<u64>, kind: BadBytes) {
        let mut state = self.lock();
        if let Some(at) = state.disk.names.get(path).copied() {
            state.disk.inodes[at].bad.push((range, kind));
        }
    }

    /// Flips a bit of the byte at an offset of the file at this path, in all that is kept of it. Nobody hears of it.
    pub fn flip(&self, path: &Path, offset: u64, bit: u32) {
        let mut state = self.lock();
        if let Some(at) = state.disk.names.get(path).copied() {
            state.disk.inodes[at].flip(offset, bit);
        }
    }

    /// Lets the file at this path hang, or go on.
    pub fn set_hangs(&self, path: &Path, hangs: bool) {
        let mut state = self.lock();
        if let Some(at) = state.disk.names.get(path).copied() {
            state.disk.inodes[at].hangs = hangs;
        }
    }

    /// Whether a sync of the file at this path has failed: a read may show what is not durable and
    /// never will be.
    pub fn is_spoiled(&self, path: &Path) -> bool {
        let state = self.lock();
        state.disk.names.get(path).is_some_and(|at| state.disk.inodes[*at].spoiled)
    }

    /// Takes a file away, at once and for good.
    pub fn take_away(&self, path: &Path) {
        let disk = &mut self.lock().disk;
        disk.names.remove(path);
        disk.durable_names.remove(path);
    }

    /// What a read of the whole file at this path would bring.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.lock();
        state.disk.names.get(path).map(|at| state.disk.inodes[*at].content.to_vec())
    }

    /// Puts a file there, durably.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.lock();
        let sectors = state.sectors.get(path).copied().unwrap_or_default();
        let disk = &mut state.disk;
        let at = disk.inodes.len();
        disk.inodes.push(RecordedInode::new(FileImage::from(bytes), sectors));
        disk.names.insert(path.to_owned(), at);
        disk.durable_names.insert(path.to_owned(), at);
    }
}
