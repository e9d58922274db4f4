//! A disk in memory, which has only what was written to it.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use destage_nbd::wire::allocation;
use destage_nbd::{BlockSizes, ExportFeatures, NbdExport, StatusExtent};

/// Bytes of a block: what is allocated at a time.
pub const BLOCK: usize = 4096;

type Block = Option<Box<[u8; BLOCK]>>;

/// Holds the blocks, and which of them were written since the last flush.
struct Blocks {
    all: Vec<Block>,
    dirty: Vec<bool>,
}

/// A disk. Threads may share it: each request is carried out as a whole.
pub struct Disk {
    blocks: RwLock<Blocks>,
    features: ExportFeatures,
    sizes: BlockSizes,
}

impl Disk {
    /// One of so many blocks, all of them empty.
    pub fn new(blocks: usize, features: ExportFeatures, sizes: BlockSizes) -> Self {
        let all = (0..blocks).map(|_| None).collect();
        Self { blocks: RwLock::new(Blocks { all, dirty: vec![false; blocks] }), features, sizes }
    }

    /// Returns all features beside reading and writing.
    pub const fn everything() -> ExportFeatures {
        ExportFeatures {
            read_only: false,
            flush: true,
            fua: true,
            rotational: false,
            trim: true,
            write_zeroes: true,
            fast_zero: true,
            multi_conn: true,
            cache: true,
        }
    }

    /// Returns the export that serves the disk under this name.
    pub fn export(&self, name: &str) -> NbdExport {
        NbdExport {
            description: "in memory".to_owned(),
            features: self.features,
            blocks: self.sizes,
            contexts: vec!["base:allocation".to_owned(), "destage:dirty".to_owned()],
            ..NbdExport::new(name, (self.shared().all.len() * BLOCK) as u64)
        }
    }

    // A thread that panicked was not changing anything half.
    fn shared(&self) -> RwLockReadGuard<'_, Blocks> {
        self.blocks.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> RwLockWriteGuard<'_, Blocks> {
        self.blocks.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends what is there, block by block: bytes, or how many zeroes.
    pub fn read(&self, offset: u64, length: u32, mut each: impl FnMut(Result<&[u8], u32>)) {
        let blocks = self.shared();
        for (at, range) in parts(offset, length) {
            match &blocks.all[at] {
                Some(block) => each(Ok(&block[range])),
                None => each(Err(range.len() as u32)),
            }
        }
    }

    /// Writes these bytes.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let mut blocks = self.alone();
        let mut rest = bytes;
        for (at, range) in parts(offset, bytes.len() as u32) {
            let (now, later) = rest.split_at(range.len());
            blocks.all[at].get_or_insert_with(|| Box::new([0; BLOCK]))[range].copy_from_slice(now);
            blocks.dirty[at] = true;
            rest = later;
        }
    }

    /// Makes bytes zeroes; whole blocks are given back, unless they have to be kept.
    pub fn zero(&self, offset: u64, length: u32, keep: bool) {
        let mut blocks = self.alone();
        for (at, range) in parts(offset, length) {
            let whole = range.len() == BLOCK;
            match &mut blocks.all[at] {
                Some(block) if keep || !whole => block[range].fill(0),
                block if keep => *block = Some(Box::new([0; BLOCK])),
                block if whole => *block = None,
                _ => {}
            }
            blocks.dirty[at] = true;
        }
    }

    /// Nothing is dirty any more.
    pub fn flush(&self) {
        self.alone().dirty.fill(false);
    }

    /// Returns the status of some bytes in a context: which blocks are allocated, or dirty.
    pub fn status(&self, context: usize, offset: u64, length: u32) -> Vec<StatusExtent> {
        let blocks = self.shared();
        let flags = |at: usize| match context {
            0 if blocks.all[at].is_none() => allocation::HOLE | allocation::ZERO,
            0 => 0,
            _ => u32::from(blocks.dirty[at]),
        };
        parts(offset, length).map(|(at, range)| StatusExtent { length: range.len() as u64, flags: flags(at) }).collect()
    }
}

/// The blocks in a range, with what of each is in it.
fn parts(offset: u64, length: u32) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
    let (mut at, end) = (offset as usize, offset as usize + length as usize);
    std::iter::from_fn(move || {
        let inside = at % BLOCK;
        let now = (BLOCK - inside).min(end - at);
        let part = (at / BLOCK, inside..inside + now);
        at += now;
        (now > 0).then_some(part)
    })
}
