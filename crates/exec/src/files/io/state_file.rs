//! Writes a file of an array's state, its NVRAM or its intents, past the page cache once that is asked for.
//!
//! Through the page cache each sync writes whole pages of 4 KiB, however little of them changed. Direct I/O
//! writes whole blocks of the device: 512 bytes, the unit of the state, or 4096.
//! A partial write of a block reads its rest first, unless that block was written last, as in a
//! journal. A block is written as a whole or not at all, and the rest of it keeps its bytes.

use std::fs::TryLockError;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::file::{FileIdentity, OsFile, SyncPoint, UntrustedFile};
use crate::buffer::AlignedBuffer;
use crate::files::layout::sectors::SECTOR;

/// Reads and writes any bytes of a file of the state.
#[derive(Debug)]
pub(crate) struct StateFile {
    file: Arc<dyn OsFile>,
    direct: Mutex<DirectBlocks>,
    /// Counts the bytes that were written, in whole blocks if the file is direct.
    written: AtomicU64,
}

/// Holds what direct I/O of the file needs.
#[derive(Debug, Default)]
struct DirectBlocks {
    /// Bytes of a block; 0 while the file goes through the page cache.
    block: usize,
    /// Holds whole blocks as they are read or will be written.
    image: AlignedBuffer,
    /// Keeps the block that was written last, and its offset.
    last: Vec<u8>,
    last_at: Option<u64>,
}

impl StateFile {
    /// Lists the sizes of blocks that are tried, in bytes: the formats of the state have units of the first
    /// one.
    const BLOCKS: [usize; 2] = [SECTOR, AlignedBuffer::ALIGN];

    /// Wraps an open file, which goes through the page cache until it is told [otherwise](OsFile::set_direct).
    pub(crate) fn new(file: Arc<dyn OsFile>) -> Self {
        Self { file, direct: Mutex::default(), written: AtomicU64::new(0) }
    }

    /// Returns the bytes that were given to the file to write, in whole blocks of it while it was direct.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn blocks(&self) -> MutexGuard<'_, DirectBlocks> {
        // After a panic the image is filled anew anyway, but the last block may
        // differ from the file.
        self.direct.lock().unwrap_or_else(|poisoned| {
            let mut blocks = PoisonError::into_inner(poisoned);
            blocks.last_at = None;
            blocks
        })
    }
}

impl DirectBlocks {
    /// Makes the image the blocks that contain a range of bytes. Returns their offset, and the range in the
    /// image.
    fn turn_to(&mut self, offset: u64, len: usize) -> (u64, std::ops::Range<usize>) {
        let block = self.block as u64;
        let from = offset - offset % block;
        let end = (offset + len as u64).next_multiple_of(block);
        self.image.clear();
        self.image.resize((end - from) as usize);
        let at = (offset - from) as usize;
        (from, at..at + len)
    }

    /// Reads a block of the image that is written in part, unless it is the one that was written last.
    fn fill(&mut self, file: &dyn OsFile, from: u64, at: usize) -> io::Result<()> {
        let block = &mut self.image[at..at + self.block];
        if self.last_at == Some(from + at as u64) {
            block.copy_from_slice(&self.last);
            return Ok(());
        }
        file.read_exact_at(block, from + at as u64)
    }

    fn write(&mut self, file: &dyn OsFile, bytes: &[u8], offset: u64) -> io::Result<u64> {
        let (from, range) = self.turn_to(offset, bytes.len());
        let last = self.image.len() - self.block;
        // Only the first and the last block can be partial; those between are
        // overwritten as wholes.
        if range.start > 0 {
            self.fill(file, from, 0)?;
        }
        // A single block was filled above already, unless the range begins with it.
        if range.end < self.image.len() && (last > 0 || range.start == 0) {
            self.fill(file, from, last)?;
        }
        self.image[range].copy_from_slice(bytes);
        // If this fails nobody knows what the block holds, so it must be read
        // again.
        self.last_at = None;
        file.write_all_at(&self.image, from)?;
        self.last.clear();
        self.last.extend_from_slice(&self.image[last..]);
        self.last_at = Some(from + last as u64);
        Ok(self.image.len() as u64)
    }
}

impl OsFile for StateFile {
    fn may_block(&self) -> bool {
        self.file.may_block()
    }

    fn length(&self) -> io::Result<Option<u64>> {
        self.file.length()
    }

    fn capacity(&self) -> io::Result<Option<u64>> {
        self.file.capacity()
    }

    fn writable_bytes(&self) -> io::Result<Option<u64>> {
        self.file.writable_bytes()
    }

    fn block_bytes(&self) -> io::Result<Option<u64>> {
        self.file.block_bytes()
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

    /// Switches the file to direct I/O, in the smallest blocks that the device has.
    /// Ignores both arguments: the file reads and writes whole blocks, whatever is asked for.
    fn set_direct(&self, _page_bytes: u64, _first: u64) -> io::Result<u64> {
        let mut blocks = self.blocks();
        let bytes = self.file.writable_bytes()?.unwrap_or_default();
        let mut refused = io::Error::from(io::ErrorKind::Unsupported);
        let least = self.file.block_bytes()?.unwrap_or_default();
        // The smallest that the device takes: a sync of one sector then writes 512
        // bytes and not 4096.
        for block in Self::BLOCKS.into_iter().filter(|block| *block as u64 >= least) {
            // A file that ends inside a block could not be read to its end.
            if !bytes.is_multiple_of(block as u64) {
                let why = format!("its {bytes} bytes are no multiple of the device's blocks of {block}");
                refused = io::Error::new(io::ErrorKind::Unsupported, why);
                continue;
            }
            match self.file.set_direct(block as u64, 0) {
                Ok(align) => {
                    blocks.block = block;
                    return Ok(align);
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.file.reserve(bytes)
    }

    fn fill(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.fill(offset, len)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let mut blocks = self.blocks();
        if blocks.block == 0 || bytes.is_empty() {
            drop(blocks);
            return self.file.read_exact_at(bytes, offset);
        }
        let (from, range) = blocks.turn_to(offset, bytes.len());
        self.file.read_exact_at(&mut blocks.image, from)?;
        bytes.copy_from_slice(&blocks.image[range]);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut blocks = self.blocks();
        let written = if blocks.block == 0 || bytes.is_empty() {
            drop(blocks);
            self.file.write_all_at(bytes, offset).map(|()| bytes.len() as u64)
        } else {
            blocks.write(&*self.file, bytes, offset)
        };
        self.written.fetch_add(written?, Ordering::Relaxed);
        Ok(())
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        // The hole may include the last block, whose copy would bring the old bytes
        // back.
        self.blocks().last_at = None;
        self.file.punch_hole(offset, len)
    }

    fn zero_range(&self, offset: u64, len: u64) -> io::Result<()> {
        // As above: the copy may be older than the zeros.
        self.blocks().last_at = None;
        self.file.zero_range(offset, len)
    }

    fn sync_data(&self, at: SyncPoint) -> io::Result<()> {
        self.file.sync_data(at)
    }

    fn sync_all(&self, at: SyncPoint) -> io::Result<()> {
        self.file.sync_all(at)
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
        self.file.sector()
    }
}
