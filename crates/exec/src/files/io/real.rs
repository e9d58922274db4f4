//! Implements the operating system with real files: nothing else in `files` touches one.

use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice, IoSliceMut, Seek, SeekFrom};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::Duration;

use rustix::fs::{
    AtFlags, FallocateFlags, OFlags, StatxFlags, fallocate, fcntl_getfl, fcntl_setfl, fstatfs, fstatvfs,
    ioctl_blksszget, statx,
};
use rustix::io::{Errno, preadv, pwritev, retry_on_intr};

use super::file::{FileIdentity, OsFile, SyncPoint};
use super::os::{OsInterface, PathPresence};
use super::ring::IoRing;
use super::uring::kernel::KernelRing;
use crate::buffer::AlignedBuffer;

/// Opens real files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealOs;

impl OsInterface for RealOs {
    fn exists(&self, path: &Path) -> io::Result<bool> {
        std::fs::exists(path)
    }

    fn is_block_device(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
    }

    fn open(&self, path: &Path, presence: PathPresence) -> io::Result<Arc<dyn OsFile>> {
        let mut options = File::options();
        options.read(true).write(true);
        match presence {
            PathPresence::There | PathPresence::Beside => &mut options,
            PathPresence::New => options.create_new(true),
            // Not truncated: the label shows first whether the file belongs to
            // somebody.
            PathPresence::Either => options.create(true).truncate(false),
        };
        // With O_EXCL the kernel refuses a block device that is mounted or that
        // another driver uses. A second opening of the same array's device was
        // checked by the first.
        if presence == PathPresence::There && self.is_block_device(path) {
            options.custom_flags(OFlags::EXCL.bits().cast_signed());
        }
        Ok(Arc::new(RealFile::from(options.open(path)?)))
    }

    fn ring(&self, operations: u32) -> io::Result<Box<dyn IoRing>> {
        Ok(Box::new(KernelRing::new(operations)?))
    }

    fn draw(&self) -> [u8; 16] {
        // Each `RandomState` has keys of its own, and the first of a thread come
        // from the system's random source.
        let [first, second] = [0, 1].map(|half: u64| RandomState::new().hash_one(half).to_le_bytes());
        std::array::from_fn(|at| if at < 8 { first[at] } else { second[at - 8] })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn sync_folder(&self, folder: &Path, _: SyncPoint) -> io::Result<()> {
        // A name is durable only after a sync of its folder; POSIX promises nothing
        // for a sync of the file alone.
        let synced = File::open(folder)?.sync_all();
        // File systems such as /proc and /dev have no names to make durable, and say so like this.
        match synced.as_ref().err().and_then(Errno::from_io_error) {
            Some(Errno::INVAL) => Ok(()),
            _ => synced,
        }
    }
}

/// Lists the file systems that never wait in a call that must not, or say that they would have to
/// (`RWF_NOWAIT`):
/// ext2 to ext4, XFS, Btrfs, F2FS, tmpfs and ramfs.
const UNBLOCKING: [u64; 6] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994, 0x8584_58F6];

/// Bounds how long a file that is let go of may take to be closed before it is left to itself.
const CLOSES: Duration = Duration::from_millis(100);

/// Reads and writes a real file, and keeps nobody waiting who lets go of it.
#[derive(Debug)]
pub struct RealFile(Option<File>);

impl From<File> for RealFile {
    fn from(file: File) -> Self {
        Self(Some(file))
    }
}

impl Deref for RealFile {
    type Target = File;

    fn deref(&self) -> &File {
        self.0.as_ref().expect("it is closed when it is dropped")
    }
}

impl Drop for RealFile {
    fn drop(&mut self) {
        // To close a file can mean to write back what the kernel has of it, or to ask the server of its file system. Where
        // that hangs, whoever gave the file up for that reason must go on.
        let (file, (sender, receiver)) = (self.0.take(), sync_channel(1));
        let closer = move || {
            drop(file);
            // Whoever waited may have gone on.
            let _ = sender.send(());
        };
        // Without a thread the file was closed here, with what was to close it.
        if Builder::new().name("destage-closes".to_owned()).spawn(closer).is_ok() {
            let _ = receiver.recv_timeout(CLOSES);
        }
    }
}

impl OsFile for RealFile {
    fn may_block(&self) -> bool {
        // Of block devices the kernel knows itself. Whose kind is not known may have to wait.
        let is_block = self.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device());
        !is_block && !fstatfs(self.as_fd()).is_ok_and(|found| UNBLOCKING.contains(&(found.f_type as u64)))
    }

    fn length(&self) -> io::Result<Option<u64>> {
        let metadata = self.metadata()?;
        Ok(metadata.is_file().then_some(metadata.len()))
    }

    fn capacity(&self) -> io::Result<Option<u64>> {
        if !self.metadata()?.file_type().is_block_device() {
            return Ok(None);
        }
        // The metadata of a block device has length 0; seeking to the end gives its
        // size.
        let mut file: &File = self;
        file.seek(SeekFrom::End(0)).map(Some)
    }

    fn block_bytes(&self) -> io::Result<Option<u64>> {
        if !self.metadata()?.file_type().is_block_device() {
            return Ok(None);
        }
        Ok(Some(ioctl_blksszget(self.as_fd())?.into()))
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        // The path does not identify a file: links and bind mounts give it several.
        let metadata = self.metadata()?;
        if metadata.file_type().is_block_device() {
            // It may have several names, each a file of its own.
            return Ok((u64::MAX, metadata.rdev()));
        }
        Ok((metadata.dev(), metadata.ino()))
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        File::try_lock(self)
    }

    fn unlock(&self) {
        // A failed unlock is harmless, since closing the file soon unlocks it too.
        drop(File::unlock(self));
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn set_direct(&self, page_bytes: u64, first: u64) -> io::Result<u64> {
        let refused = |why: String| io::Error::new(io::ErrorKind::Unsupported, why);
        let found = statx(self.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
        // Filled in since Linux 6.1; without it the trial read below decides.
        let known = found.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
        let (memory, offset) = (u64::from(found.stx_dio_mem_align), u64::from(found.stx_dio_offset_align));
        if known && offset == 0 {
            return Err(refused("its file system has no direct I/O for it".to_owned()));
        }
        if known && !page_bytes.is_multiple_of(offset) {
            return Err(refused(format!(
                "its blocks have {offset} bytes, and a page of {page_bytes} is no multiple of that"
            )));
        }
        if known && !first.is_multiple_of(offset) {
            return Err(refused(format!(
                "its blocks have {offset} bytes, and the first page at {first} begins at no multiple of that"
            )));
        }
        let align = if known && memory > 0 { memory } else { AlignedBuffer::ALIGN as u64 };
        // Buffers of the hosts are aligned to this, so a larger demand would copy
        // every page.
        if align > AlignedBuffer::ALIGN as u64 {
            return Err(refused(format!("it wants memory that is aligned to {align} bytes")));
        }
        let flags = fcntl_getfl(self.as_fd())?;
        fcntl_setfl(self.as_fd(), flags | OFlags::DIRECT)?;
        // Some systems do not say what they need, and some of these have no direct
        // I/O: one page is read to find out.
        let tried = FileExt::read_exact_at(&**self, &mut AlignedBuffer::zeroed(page_bytes as usize), first);
        if tried.as_ref().err().and_then(Errno::from_io_error) == Some(Errno::INVAL) {
            fcntl_setfl(self.as_fd(), flags)?;
            return Err(refused(format!("its file system does not read a page of {page_bytes} bytes directly")));
        }
        // Other errors show up at the first real use, with the device's name.
        Ok(align)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        File::set_len(self, bytes)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        // Without a reservation a full file system would be noticed only in the
        // middle of a journal.
        match retry_on_intr(|| fallocate(self.as_fd(), FallocateFlags::empty(), 0, bytes)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            reserved => return Ok(reserved?),
        }
        // `st_blocks` counts units of 512 bytes, whatever the file system's block
        // is.
        let (room, taken) = (fstatvfs(self.as_fd())?, self.metadata()?.blocks() * 512);
        // Some file systems report a size of 0; for them nothing can be checked.
        let fits = room.f_blocks == 0 || room.f_bavail.saturating_mul(room.f_frsize) >= bytes.saturating_sub(taken);
        if fits { Ok(()) } else { Err(Errno::NOSPC.into()) }
    }

    fn fill(&self, offset: u64, len: u64) -> io::Result<()> {
        // No file system notes the first writes of a block device, so there is
        // nothing to save later writes.
        if !self.metadata()?.is_file() {
            return Ok(());
        }
        let zeros = vec![0; len.min(1 << 20) as usize];
        for from in (0..len).step_by(1 << 20) {
            FileExt::write_all_at(&**self, &zeros[..(len - from).min(1 << 20) as usize], offset + from)?;
        }
        Ok(())
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(&**self, bytes, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(&**self, bytes, offset)
    }

    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        Ok(retry_on_intr(|| preadv(self.as_fd(), buffers, offset))?)
    }

    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        Ok(retry_on_intr(|| pwritev(self.as_fd(), buffers, offset))?)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        // KEEP_SIZE, since the length of a device's file says how many pages it
        // has.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(retry_on_intr(|| fallocate(self.as_fd(), flags, offset, len))?)
    }

    fn zero_range(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        Ok(retry_on_intr(|| fallocate(self.as_fd(), flags, offset, len))?)
    }

    fn sync_data(&self, _: SyncPoint) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&self, _: SyncPoint) -> io::Result<()> {
        File::sync_all(self)
    }
}
