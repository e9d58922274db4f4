//! The operating system that there is: nothing else in `files` touches a real file.

use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice, IoSliceMut, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

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

/// Real files.
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
            // Not truncated before it is known to be nobody's.
            PathPresence::Either => options.create(true).truncate(false),
        };
        // A block device that is mounted, or in use by another driver, is not opened. Who has it open has seen to that.
        if presence == PathPresence::There && self.is_block_device(path) {
            options.custom_flags(OFlags::EXCL.bits().cast_signed());
        }
        Ok(Arc::new(options.open(path)?))
    }

    fn ring(&self, operations: u32) -> io::Result<Box<dyn IoRing>> {
        Ok(Box::new(KernelRing::new(operations)?))
    }

    fn draw(&self) -> [u8; 16] {
        // Each has keys of its own, of which the first are the system's.
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
        let synced = File::open(folder)?.sync_all();
        // File systems such as /proc and /dev have no names to make durable, and say so like this.
        match synced.as_ref().err().and_then(Errno::from_io_error) {
            Some(Errno::INVAL) => Ok(()),
            _ => synced,
        }
    }
}

/// Lists file systems that do what is asked of them without waiting, or say that they would have to wait (`RWF_NOWAIT`):
/// ext2 to ext4, XFS, Btrfs, F2FS, tmpfs and ramfs.
const UNBLOCKING: [u64; 6] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994, 0x8584_58F6];

impl OsFile for File {
    fn may_block(&self) -> bool {
        // Of block devices the kernel knows itself. Whose kind is not known may have to wait.
        let is_block = self.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device());
        !is_block && !fstatfs(self).is_ok_and(|found| UNBLOCKING.contains(&(found.f_type as u64)))
    }

    fn length(&self) -> io::Result<Option<u64>> {
        let metadata = self.metadata()?;
        Ok(metadata.is_file().then_some(metadata.len()))
    }

    fn capacity(&self) -> io::Result<Option<u64>> {
        if !self.metadata()?.file_type().is_block_device() {
            return Ok(None);
        }
        let mut file = self;
        file.seek(SeekFrom::End(0)).map(Some)
    }

    fn block_bytes(&self) -> io::Result<Option<u64>> {
        if !self.metadata()?.file_type().is_block_device() {
            return Ok(None);
        }
        Ok(Some(ioctl_blksszget(self)?.into()))
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        let metadata = self.metadata()?;
        if metadata.file_type().is_block_device() {
            // It may have several names, each a file of its own.
            return Ok((u64::MAX, metadata.rdev()));
        }
        Ok((metadata.dev(), metadata.ino()))
    }

    fn try_lock(&self) -> Result<(), TryLockError> {
        Self::try_lock(self)
    }

    fn unlock(&self) {
        // Whoever cannot unlock it closes it soon.
        drop(Self::unlock(self));
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn set_direct(&self, page_bytes: u64, first: u64) -> io::Result<u64> {
        let refused = |why: String| io::Error::new(io::ErrorKind::Unsupported, why);
        let found = statx(self.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
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
        if align > AlignedBuffer::ALIGN as u64 {
            return Err(refused(format!("it wants memory that is aligned to {align} bytes")));
        }
        let flags = fcntl_getfl(self)?;
        fcntl_setfl(self, flags | OFlags::DIRECT)?;
        // Not every system says what it wants, and not every one that says nothing has it.
        let tried = FileExt::read_exact_at(self, &mut AlignedBuffer::zeroed(page_bytes as usize), first);
        if tried.as_ref().err().and_then(Errno::from_io_error) == Some(Errno::INVAL) {
            fcntl_setfl(self, flags)?;
            return Err(refused(format!("its file system does not read a page of {page_bytes} bytes directly")));
        }
        // Whatever else is wrong is found when it is used.
        Ok(align)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        Self::set_len(self, bytes)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        match retry_on_intr(|| fallocate(self.as_fd(), FallocateFlags::empty(), 0, bytes)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            reserved => return Ok(reserved?),
        }
        let (room, taken) = (fstatvfs(self.as_fd())?, self.metadata()?.blocks() * 512);
        // Not every file system says how large it is.
        let fits = room.f_blocks == 0 || room.f_bavail.saturating_mul(room.f_frsize) >= bytes.saturating_sub(taken);
        if fits { Ok(()) } else { Err(Errno::NOSPC.into()) }
    }

    fn fill(&self, offset: u64, len: u64) -> io::Result<()> {
        if !self.metadata()?.is_file() {
            return Ok(());
        }
        let zeros = vec![0; len.min(1 << 20) as usize];
        for from in (0..len).step_by(1 << 20) {
            FileExt::write_all_at(self, &zeros[..(len - from).min(1 << 20) as usize], offset + from)?;
        }
        Ok(())
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        Ok(retry_on_intr(|| preadv(self, buffers, offset))?)
    }

    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        Ok(retry_on_intr(|| pwritev(self, buffers, offset))?)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(retry_on_intr(|| fallocate(self.as_fd(), flags, offset, len))?)
    }

    fn zero_range(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        Ok(retry_on_intr(|| fallocate(self.as_fd(), flags, offset, len))?)
    }

    fn sync_data(&self, _: SyncPoint) -> io::Result<()> {
        Self::sync_data(self)
    }

    fn sync_all(&self, _: SyncPoint) -> io::Result<()> {
        Self::sync_all(self)
    }
}
