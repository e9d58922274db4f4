//! The staging buffer: deltas in the NVRAM that are not packed into a page of the cache yet (specs
//! §9.4). While some are packed, those that come are staged beside them.

use std::collections::VecDeque;

use destage_plan::NvSlot;

use super::DeltaKey;

/// A delta in the NVRAM.
#[derive(Clone, Copy, Debug)]
pub(super) struct StagedDelta {
    /// Of what.
    pub(super) key: DeltaKey,
    pub(super) slot: NvSlot,
    /// Bytes.
    pub(super) len: u32,
    /// Is true once the delta is in its slot.
    pub(super) settled: bool,
}

/// A delta that is being packed.
#[derive(Clone, Copy, Debug)]
pub(super) struct SealedDelta {
    pub(super) staged: StagedDelta,
    /// A newer one has come meanwhile, or the page is new without it.
    pub(super) superseded: bool,
}

/// The buffer.
pub(super) struct StagingBuffer {
    /// Pages of bytes that are staged before some are packed.
    pages: u32,
    /// Deltas likewise.
    most: usize,
    open: VecDeque<StagedDelta>,
    bytes: u64,
    sealed: Vec<SealedDelta>,
}

impl StagingBuffer {
    pub(super) const fn new(pages: u32, most: usize) -> Self {
        Self { pages, most, open: VecDeque::new(), bytes: 0, sealed: Vec::new() }
    }

    /// The delta of a page.
    pub(super) fn get(&self, key: DeltaKey) -> Option<&StagedDelta> {
        // A superseded delta is still in its slot, but nobody may find it.
        let sealed = self.sealed.iter().filter(|sealed| !sealed.superseded).map(|sealed| &sealed.staged);
        self.open.iter().chain(sealed).find(|staged| staged.key == key)
    }

    /// Returns true if there is room for a delta, with pages of so many bytes.
    pub(super) fn has_room(&self, len: u32, page: u32) -> bool {
        let capacity = u64::from(self.pages) * u64::from(page);
        // The number is bounded as well as the bytes: every delta takes a slot,
        // however short it is.
        self.bytes + u64::from(len) <= capacity && self.open.len() < self.most
    }

    pub(super) fn put(&mut self, staged: StagedDelta) {
        self.bytes += u64::from(staged.len);
        self.open.push_back(staged);
    }

    /// The delta of a page is in its slot.
    pub(super) fn settle(&mut self, slot: NvSlot) {
        if let Some(staged) = self.open.iter_mut().find(|staged| staged.slot == slot) {
            staged.settled = true;
        }
    }

    /// Bytes that are staged.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// By what the deltas are found that are in the NVRAM and needed.
    pub(super) fn keys(&self) -> impl Iterator<Item = DeltaKey> {
        let sealed = self.sealed.iter().filter(|sealed| !sealed.superseded).map(|sealed| &sealed.staged);
        self.open.iter().chain(sealed).map(|staged| staged.key)
    }

    /// A delta is found by something else from now on.
    pub(super) fn rename(&mut self, from: DeltaKey, to: DeltaKey) {
        let sealed = self.sealed.iter_mut().filter(|sealed| !sealed.superseded).map(|sealed| &mut sealed.staged);
        let found = self.open.iter_mut().chain(sealed).find(|staged| staged.key == from);
        if let Some(staged) = found {
            staged.key = to;
        }
    }

    /// The delta of a page is not needed any more; its slot, unless it is being packed.
    pub(super) fn take(&mut self, key: DeltaKey) -> Option<NvSlot> {
        if let Some(at) = self.open.iter().position(|staged| staged.key == key) {
            let staged = self.open.remove(at).expect("it is there");
            self.bytes -= u64::from(staged.len);
            return Some(staged.slot);
        }
        let mut sealed = self.sealed.iter_mut().filter(|sealed| sealed.staged.key == key);
        // Its bytes are on their way into the page. It is only marked, and its slot
        // is freed with the others.
        if let Some(sealed) = sealed.find(|sealed| !sealed.superseded) {
            sealed.superseded = true;
        }
        None
    }

    /// Begins to pack the oldest deltas that fit a page of so many bytes; whether there are any.
    pub(super) fn seal(&mut self, page: u32) -> bool {
        debug_assert!(self.sealed.is_empty(), "they are packed one page after the other");
        let mut bytes = 0;
        // The oldest leave first, so that no delta stays staged for ever.
        while let Some(staged) = self.open.front().filter(|staged| staged.settled && bytes + staged.len <= page) {
            bytes += staged.len;
            self.sealed.push(SealedDelta { staged: *staged, superseded: false });
            self.open.pop_front();
        }
        self.bytes -= u64::from(bytes);
        bytes > 0
    }

    /// Returns true if the oldest delta is in its slot and none are being packed.
    pub(super) fn can_seal(&self) -> bool {
        self.sealed.is_empty() && self.open.front().is_some_and(|staged| staged.settled)
    }

    /// Returns the deltas that are being packed, in their order in the page.
    pub(super) fn sealed(&self) -> &[SealedDelta] {
        &self.sealed
    }

    /// Takes the deltas that were being packed, whether or not that succeeded.
    pub(super) fn unseal(&mut self) -> Vec<SealedDelta> {
        std::mem::take(&mut self.sealed)
    }

    /// Nothing is staged any more; the slots, but for those of what is being packed.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = NvSlot> {
        // The slots of sealed deltas are read by the packing operation until that
        // ends.
        self.bytes = 0;
        self.sealed.iter_mut().for_each(|sealed| sealed.superseded = true);
        std::mem::take(&mut self.open).into_iter().map(|staged| staged.slot)
    }
}
