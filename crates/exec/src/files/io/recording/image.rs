//! Holds the bytes of a recorded file in pages that copies share until one of them is written: what is left at each of thousands of
//! moments costs what was written in between.

use std::sync::Arc;

const PAGE: usize = 4096;

/// Holds a file's bytes. Pages that nothing was written to are zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct FileImage {
    pages: Vec<Option<Arc<[u8; PAGE]>>>,
    len: usize,
}

impl FileImage {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Cuts it off, or adds zeros.
    pub(super) fn resize(&mut self, len: usize) {
        if len < self.len {
            // Zeroed now, so that growing again shows zeros and not the old bytes.
            self.zero(len, self.len);
        }
        self.pages.resize(len.div_ceil(PAGE), None);
        self.len = len;
    }

    /// Reads bytes; returns false if it does not have all of them.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> bool {
        let Some(end) = (offset as usize).checked_add(bytes.len()).filter(|end| *end <= self.len) else { return false };
        let mut left = bytes;
        for (page, begin, end) in parts(offset as usize, end) {
            let (part, rest) = left.split_at_mut(end - begin);
            match &self.pages[page] {
                Some(held) => part.copy_from_slice(&held[begin..end]),
                None => part.fill(0),
            }
            left = rest;
        }
        true
    }

    /// Writes bytes, and grows with them.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset as usize + bytes.len();
        if self.len < end {
            self.resize(end);
        }
        let mut left = bytes;
        for (page, begin, end) in parts(offset as usize, end) {
            let (part, rest) = left.split_at(end - begin);
            self.page(page)[begin..end].copy_from_slice(part);
            left = rest;
        }
    }

    /// Makes the bytes from here to there zeros, as far as it has them.
    pub(super) fn zero(&mut self, begin: usize, end: usize) {
        for (page, begin, end) in parts(begin, end.min(self.len)) {
            // A whole page needs no memory: absent pages read as zeros.
            if end - begin == PAGE {
                self.pages[page] = None;
            } else if self.pages[page].is_some() {
                self.page(page)[begin..end].fill(0);
            }
        }
    }

    /// Returns a byte to be changed, if it has it.
    pub(super) fn byte_mut(&mut self, offset: usize) -> Option<&mut u8> {
        (offset < self.len).then(|| &mut self.page(offset / PAGE)[offset % PAGE])
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read(0, &mut bytes);
        bytes
    }

    /// Returns a page that is no other's.
    fn page(&mut self, page: usize) -> &mut [u8; PAGE] {
        // Copies a page only if a crash point shares it.
        Arc::make_mut(self.pages[page].get_or_insert_with(|| Arc::new([0; PAGE])))
    }
}

impl From<&[u8]> for FileImage {
    fn from(bytes: &[u8]) -> Self {
        let mut image = Self::default();
        image.resize(bytes.len());
        for (at, part) in bytes.chunks(PAGE).enumerate() {
            // A large file is mostly zeros, and a page of zeros costs no memory.
            if part.iter().any(|byte| *byte != 0) {
                image.write((at * PAGE) as u64, part);
            }
        }
        image
    }
}

/// Lists the pages in which the bytes from here to there lie, and where in each.
fn parts(begin: usize, end: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (begin / PAGE..end.div_ceil(PAGE)).filter(move |_| begin < end).map(move |page| {
        let first = page * PAGE;
        (page, begin.max(first) - first, end.min(first + PAGE) - first)
    })
}
