//! Models a device with a volatile cache: its durable content, and the later writes that may be lost.

use std::collections::{BTreeMap, BTreeSet};

use destage_plan::Ext;

use crate::bytes::put;

/// Holds the content of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskImage {
    /// Holds its bytes.
    pub image: Vec<u8>,
    /// Is true if it answers.
    pub answers: bool,
    /// Lists the pages that it cannot read.
    pub unreadable: BTreeSet<u64>,
    /// Lists the pages that have a bit flipped, with the number of that bit.
    pub rotten: BTreeMap<u64, u32>,
}

impl DiskImage {
    /// Makes a device of zeros.
    pub fn zeros(bytes: usize) -> Self {
        Self { image: vec![0; bytes], answers: true, unreadable: BTreeSet::new(), rotten: BTreeMap::new() }
    }
}

/// Describes the device that stands in place of a failed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacementContent {
    /// Is a new device that holds zeros.
    Zeros,
    /// Is a new device that holds the remains of another use, derived from this number.
    Garbage(u64),
    /// Is the device itself, with its content at the time of its failure.
    Stale,
}

/// Decides what a loss of power leaves.
pub trait CutChoice {
    /// Chooses the sectors in the mask `all` of a page that are on the device after a crash. The page was written
    /// and not flushed, or is being written.
    ///
    /// Pages come in the order in which the device would apply them.
    fn page(&mut self, dev: usize, page: u64, all: u128) -> u128;
    /// Chooses how many of the `queued` steps of the NVRAM took effect, in order. These steps are done and not
    /// durable, or in flight.
    fn nvram(&mut self, queued: usize) -> usize;
}

/// Is a page that was written and not flushed.
#[derive(Clone, Copy, Debug)]
struct UnflushedPage {
    page: u64,
    /// Numbers the write among those of the device.
    number: u64,
}

/// Is a device of the in-memory executor.
#[derive(Clone, Debug)]
pub(crate) struct MemoryDevice {
    page_bytes: usize,
    sectors: u32,
    durable: Vec<u8>,
    /// Holds the content that reads see: the durable image with the pending writes.
    now: Vec<u8>,
    pending: Vec<UnflushedPage>,
    /// Holds a page for each of `pending`.
    bytes: Vec<u8>,
    written: u64,
    answers: bool,
    /// Lists the pages that cannot be read now, and those that could not be after a loss of power.
    unreadable: BTreeSet<u64>,
    durably_unreadable: BTreeSet<u64>,
    /// Lists the pages that cannot be read even when they are written.
    broken: BTreeSet<u64>,
    /// Lists the pages that have a bit flipped since they were written, with the number of that bit.
    rotten: BTreeMap<u64, u32>,
}

impl MemoryDevice {
    pub(crate) fn new(disk: DiskImage, page_bytes: usize, sectors: u32) -> Self {
        let DiskImage { image, answers, unreadable, rotten } = disk;
        Self {
            page_bytes,
            sectors,
            durable: image.clone(),
            now: image,
            pending: Vec::new(),
            bytes: Vec::new(),
            written: 0,
            answers,
            durably_unreadable: unreadable.clone(),
            unreadable,
            broken: BTreeSet::new(),
            rotten,
        }
    }

    /// Flips a bit of a page, unless it has one flipped, or a write of it is not flushed. Returns true if it did.
    pub(crate) fn rot(&mut self, page: u64, bit: u32) -> bool {
        // The bytes of a pending write have no flip, so a flush would undo it
        // unnoticed.
        let rots = !self.rotten.contains_key(&page) && self.pending.iter().all(|pending| pending.page != page);
        if rots {
            let bit = bit % (8 * self.page_bytes as u32);
            self.flip(page, bit);
            self.rotten.insert(page, bit);
        }
        rots
    }

    fn flip(&mut self, page: u64, bit: u32) {
        let byte = page as usize * self.page_bytes + bit as usize / 8;
        // Both images: rot sits on the medium, and no flush changes it.
        self.now[byte] ^= 1 << (bit % 8);
        self.durable[byte] ^= 1 << (bit % 8);
    }

    /// Flips back what was flipped.
    pub(crate) fn heal(&mut self) {
        for (page, bit) in std::mem::take(&mut self.rotten) {
            self.flip(page, bit);
        }
    }

    /// Returns true if a page has a bit flipped.
    pub(crate) fn is_rotten(&self, page: u64) -> bool {
        self.rotten.contains_key(&page)
    }

    /// Makes a page unreadable until it is written; for ever if it is `broken`.
    pub(crate) fn spoil(&mut self, page: u64, broken: bool) {
        self.unreadable.insert(page);
        self.durably_unreadable.insert(page);
        if broken {
            self.broken.insert(page);
        }
    }

    /// Makes a page readable again, with its content.
    pub(crate) fn recall(&mut self, page: u64) {
        self.unreadable.remove(&page);
        self.durably_unreadable.remove(&page);
        self.broken.remove(&page);
    }

    /// Returns the pages that cannot be read.
    pub(crate) const fn unreadable(&self) -> &BTreeSet<u64> {
        &self.unreadable
    }

    /// Returns the first page of an extent that cannot be read.
    pub(crate) fn unreadable_in(&self, ext: Ext) -> Option<u64> {
        self.unreadable.range(ext.first()..ext.first() + u64::from(ext.pages())).next().copied()
    }

    pub(crate) const fn answers(&self) -> bool {
        self.answers
    }

    /// Counts the writes done so far: a flush that begins now covers them.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn page(&self, page: u64) -> &[u8] {
        let from = page as usize * self.page_bytes;
        &self.now[from..from + self.page_bytes]
    }

    pub(crate) fn read(&self, ext: Ext) -> &[u8] {
        let from = ext.first() as usize * self.page_bytes;
        let len = usize::from(ext.pages()) * self.page_bytes;
        assert!(from + len <= self.now.len(), "{ext:?} is beyond the device's end");
        &self.now[from..from + len]
    }

    /// Writes an extent; zeros if there are no bytes.
    pub(crate) fn write(&mut self, ext: Ext, bytes: Option<&[u8]>, fua: bool) {
        let from = ext.first() as usize * self.page_bytes;
        let len = usize::from(ext.pages()) * self.page_bytes;
        assert!(from + len <= self.now.len(), "{ext:?} is beyond the device's end");
        let first = ext.first();
        // Flipped back in the durable image too, which a write without FUA does not
        // touch.
        if !self.rotten.is_empty() {
            for page in first..first + u64::from(ext.pages()) {
                if let Some(bit) = self.rotten.remove(&page) {
                    self.flip(page, bit);
                }
            }
        }
        put(&mut self.now[from..from + len], bytes);
        if !self.unreadable.is_empty() {
            let pages = first..first + u64::from(ext.pages());
            self.unreadable.retain(|page| !pages.contains(page) || self.broken.contains(page));
        }
        if fua {
            // A write with FUA is durable by itself; earlier writes to other pages
            // stay volatile.
            put(&mut self.durable[from..from + len], bytes);
            if !self.durably_unreadable.is_empty() {
                let pages = first..first + u64::from(ext.pages());
                self.durably_unreadable.retain(|page| !pages.contains(page) || self.broken.contains(page));
            }
            // Newer than the pending writes of these pages: a later flush must not
            // bring those back.
            self.forget(|pending| (first..first + u64::from(ext.pages())).contains(&pending.page));
        } else {
            self.written += 1;
            for page in 0..u64::from(ext.pages()) {
                self.pending.push(UnflushedPage { page: ext.first() + page, number: self.written });
            }
            self.bytes.extend_from_slice(&self.now[from..from + len]);
        }
    }

    /// Makes the first `covered` writes durable.
    pub(crate) fn flush(&mut self, covered: u64) {
        for (pending, bytes) in self.pending.iter().zip(self.bytes.chunks_exact(self.page_bytes)) {
            if pending.number <= covered {
                // In the order of the writes: a page may be pending twice.
                let from = pending.page as usize * self.page_bytes;
                self.durable[from..from + self.page_bytes].copy_from_slice(bytes);
                if !self.durably_unreadable.is_empty() && !self.broken.contains(&pending.page) {
                    self.durably_unreadable.remove(&pending.page);
                }
            }
        }
        self.forget(|pending| pending.number <= covered);
    }

    fn forget(&mut self, which: impl Fn(&UnflushedPage) -> bool) {
        let size = self.page_bytes;
        let mut kept = 0;
        for at in 0..self.pending.len() {
            if !which(&self.pending[at]) {
                self.pending[kept] = self.pending[at];
                self.bytes.copy_within(at * size..(at + 1) * size, kept * size);
                kept += 1;
            }
        }
        self.pending.truncate(kept);
        self.bytes.truncate(kept * size);
    }

    /// Returns true if a loss of power could leave another page than the one that reads see.
    pub(crate) fn is_open(&self, page: u64) -> bool {
        let pending = self.pending.iter().zip(self.bytes.chunks_exact(self.page_bytes));
        pending.filter(|(pending, _)| pending.page == page).any(|(_, bytes)| self.changes(page, Some(bytes)))
    }

    /// Returns true if these bytes, or zeros, differ from the durable content of the page.
    pub(crate) fn changes(&self, page: u64, bytes: Option<&[u8]>) -> bool {
        let durable = &self.durable[page as usize * self.page_bytes..][..self.page_bytes];
        bytes.map_or_else(|| durable.iter().any(|byte| *byte != 0), |bytes| bytes != durable)
    }

    /// Returns the content of the device after a loss of power while `in_flight` was being written.
    pub(crate) fn cut<'a>(
        &self,
        dev: usize,
        in_flight: impl Iterator<Item = (Ext, Option<&'a [u8]>)>,
        choice: &mut impl CutChoice,
    ) -> DiskImage {
        let image = self.durable.clone();
        let (unreadable, rotten) = (self.durably_unreadable.clone(), self.rotten.clone());
        let mut disk = DiskImage { image, answers: self.answers, unreadable, rotten };
        for (pending, bytes) in self.pending.iter().zip(self.bytes.chunks_exact(self.page_bytes)) {
            self.tear(&mut disk, dev, pending.page, Some(bytes), choice);
        }
        for (ext, bytes) in in_flight {
            for page in 0..usize::from(ext.pages()) {
                let bytes = bytes.map(|bytes| &bytes[page * self.page_bytes..][..self.page_bytes]);
                self.tear(&mut disk, dev, ext.first() + page as u64, bytes, choice);
            }
        }
        disk
    }

    fn tear(&self, disk: &mut DiskImage, dev: usize, page: u64, bytes: Option<&[u8]>, choice: &mut impl CutChoice) {
        // At most 128 sectors a page fit the mask.
        let all = u128::MAX >> (128 - self.sectors);
        let survive = choice.page(dev, page, all);
        // A page that is written even in part has new bytes on the medium.
        if survive != 0
            && let Some(bit) = disk.rotten.remove(&page)
        {
            disk.image[page as usize * self.page_bytes + bit as usize / 8] ^= 1 << (bit % 8);
        }
        // A part of a page does not repair an unreadable one: the disk would need
        // the old rest.
        if survive == all && !self.broken.contains(&page) {
            disk.unreadable.remove(&page);
        }
        let image = &mut disk.image;
        let size = self.page_bytes / self.sectors as usize;
        for sector in (0..self.sectors as usize).filter(|sector| survive >> sector & 1 != 0) {
            let from = page as usize * self.page_bytes + sector * size;
            put(&mut image[from..from + size], bytes.map(|bytes| &bytes[sector * size..(sector + 1) * size]));
        }
    }

    /// Fails the device: it answers no more, and holds what it would hold after a loss of power.
    pub(crate) fn fail(&mut self, image: Vec<u8>) {
        self.now.copy_from_slice(&image);
        self.durable = image;
        self.unreadable.clear();
        self.durably_unreadable.clear();
        self.broken.clear();
        self.pending.clear();
        self.bytes.clear();
        self.answers = false;
    }

    /// Puts another device, or the same again, in its place.
    pub(crate) fn replace(&mut self, content: ReplacementContent) {
        // A replaced medium has none of the old one's rot.
        if !matches!(content, ReplacementContent::Stale) {
            self.rotten.clear();
        }
        match content {
            ReplacementContent::Zeros => self.durable.fill(0),
            ReplacementContent::Garbage(mut number) => {
                for bytes in self.durable.chunks_mut(8) {
                    // The multiplier of Knuth's MMIX generator.
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    bytes.copy_from_slice(&(number ^ (number >> 29)).to_le_bytes()[..bytes.len()]);
                }
            }
            ReplacementContent::Stale => {}
        }
        self.now.copy_from_slice(&self.durable);
        self.answers = true;
    }
}
