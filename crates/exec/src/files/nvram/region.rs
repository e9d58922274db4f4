//! The NVRAM where it is not in a regular file of its own: behind the label of a cache's device, or on a block device.
//!
//! Neither has a length that could be set, so what is zeros counts as empty: without a header there is no NVRAM, and
//! behind it zeros are no records.
//!
//! A cache's device is opened once more for it. So the NVRAM may go through the page cache, in whose pages nothing else of
//! the device lies, while the device itself is used past it, or the other way round; and a sync that failed is told here
//! as well, whoever asked for it. The lock is that of the device.

use std::fs::TryLockError;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::files::config::FilesConfig;
use crate::files::error::FilesError;
use crate::files::io::file::{FileIdentity, OsFile, SyncPoint, UntrustedFile};
use crate::files::io::metadata::{OPEN, capacity, identity};
use crate::files::io::os::{OsInterface, PathPresence};
use crate::files::io::zeros::make_zeros;
use crate::files::layout::sectors::SECTOR;

/// A part of a file as a file of its own.
#[derive(Debug)]
pub(crate) struct FileRegion {
    file: Arc<dyn OsFile>,
    /// Bounds its bytes in the file, with the unused bytes after them.
    place: Range<u64>,
    length: u64,
    /// Is true if the file holds nothing else of the array.
    is_whole: bool,
    spoiled: AtomicBool,
}

impl FileRegion {
    /// The NVRAM behind the label of a cache's device, which is open.
    pub(crate) fn behind(
        os: &dyn OsInterface,
        config: &FilesConfig,
        place: Range<u64>,
        device: &dyn OsFile,
    ) -> Result<Arc<Self>, FilesError> {
        let path = config.nvram_path();
        // Opened a second time, so that direct I/O of the device does not decide
        // how the NVRAM is written.
        let file = os.open(path, PathPresence::Beside).map_err(FilesError::io(path, OPEN))?;
        // The path may name another device by now.
        if identity(&*file, path)? != identity(device, path)? {
            let other = io::Error::other("there is another file now");
            return Err(FilesError::io(path, OPEN)(other));
        }
        let length = config.journal_layout().bytes();
        Ok(Arc::new(Self { file, place, length, is_whole: false, spoiled: AtomicBool::new(false) }))
    }

    /// The NVRAM in a file of its own: a regular one as it is, of a block device the beginning.
    pub(crate) fn whole(
        file: Arc<dyn OsFile>,
        config: &FilesConfig,
        path: &Path,
    ) -> Result<Arc<dyn OsFile>, FilesError> {
        // A regular file needs nothing of this.
        let Some(capacity) = capacity(&*file, path)? else { return Ok(file) };
        let length = config.journal_layout().bytes();
        if capacity < length {
            return Err(FilesError::Size {
                path: path.to_owned(),
                found: capacity,
                expected: length,
                settings: config.nvram_settings(),
            });
        }
        // Up to a whole page, so that nobody else's bytes are in a page of the
        // cache.
        let end = length.next_multiple_of(config.grain()).min(capacity);
        Ok(Arc::new(Self { file, place: 0..end, length, is_whole: true, spoiled: AtomicBool::new(false) }))
    }

    /// Returns true if a sync of it has failed. Anything that was written to the device before may be gone
    /// then.
    pub(crate) fn is_spoiled(&self) -> bool {
        self.spoiled.load(Ordering::Relaxed)
    }

    fn note(&self, synced: io::Result<()>) -> io::Result<()> {
        if synced.is_err() {
            // Noted for good: a later sync that succeeds says nothing of what an
            // earlier one lost.
            self.spoiled.store(true, Ordering::Relaxed);
        }
        synced
    }

    fn make_zeros(&self) -> io::Result<()> {
        // Through the memory of the operating system, as all that is asked of the NVRAM.
        make_zeros(&*self.file, self.place.clone(), || Ok(None), &mut |_| ControlFlow::Continue(()))
    }
}

impl OsFile for FileRegion {
    fn length(&self) -> io::Result<Option<u64>> {
        Ok(Some(self.length))
    }

    fn capacity(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    fn writable_bytes(&self) -> io::Result<Option<u64>> {
        Ok(Some(self.place.end - self.place.start))
    }

    fn block_bytes(&self) -> io::Result<Option<u64>> {
        self.file.block_bytes()
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        self.file.identity()
    }

    fn set_direct(&self, page_bytes: u64, first: u64) -> io::Result<u64> {
        self.file.set_direct(page_bytes, self.place.start + first)
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        // The device itself is locked already; a second lock of the same file would
        // conflict with it.
        if self.is_whole { self.file.try_lock() } else { Ok(()) }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        // Making the first sector zeros removes the header, which is what counts as
        // empty.
        if bytes == 0 { self.file.write_all_at(&[0; SECTOR], self.place.start) } else { self.make_zeros() }
    }

    fn fill(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.fill(self.place.start + offset, len)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, self.place.start + offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, self.place.start + offset)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.punch_hole(self.place.start + offset, len)
    }

    fn zero_range(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.zero_range(self.place.start + offset, len)
    }

    fn sync_data(&self, at: SyncPoint) -> io::Result<()> {
        self.note(self.file.sync_data(at))
    }

    fn sync_all(&self, at: SyncPoint) -> io::Result<()> {
        self.note(self.file.sync_all(at))
    }

    fn sync_begins(&self) {
        self.file.sync_begins();
    }

    fn hangs(&self) -> bool {
        self.file.hangs()
    }

    fn believes(&self, what: UntrustedFile) -> bool {
        self.file.believes(what)
    }

    fn sector(&self) -> usize {
        SECTOR
    }
}
