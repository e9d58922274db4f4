//! Keeps buffers to lend them again.

use std::sync::Arc;

use crate::buffer::AlignedBuffer;

/// Shares a buffer among several owners. A sole owner may change it.
pub type SharedBuffer = Arc<AlignedBuffer>;

/// Keeps buffers without other owners, by size.
///
/// A buffer that is read into takes the place of a client's, and goes where that one came from. So each must be
/// lent for the size that it has room for. With long ones in the places of short ones both sides would allocate
/// for ever, and keep what they cannot use.
#[derive(Default)]
pub(super) struct SpareBuffers {
    /// Lists handles without a buffer.
    empty: Vec<SharedBuffer>,
    /// Lists those that have room for powers of two, from 1 byte on.
    sized: Vec<SizeList>,
}

/// Lists buffers of one size.
#[derive(Default)]
struct SizeList {
    handles: Vec<SharedBuffer>,
    /// Counts those that were there all the time since others were [dropped](SpareBuffers::drop_idle).
    idle: usize,
}

impl SizeList {
    fn take(&mut self) -> Option<SharedBuffer> {
        let handle = self.handles.pop();
        self.idle = self.idle.min(self.handles.len());
        handle
    }
}

impl SpareBuffers {
    /// Takes a handle without a buffer.
    pub(super) fn take_empty(&mut self) -> SharedBuffer {
        self.empty.pop().unwrap_or_default()
    }

    /// Keeps a handle whose buffer was taken away.
    pub(super) fn keep_empty(&mut self, handle: SharedBuffer) {
        self.empty.push(handle);
    }

    /// Takes a buffer with room for so many bytes and less than twice as many, whatever and however many it holds.
    pub(super) fn take(&mut self, len: usize) -> SharedBuffer {
        if len == 0 {
            return self.take_empty();
        }
        // Size class n holds room for 2^n bytes, so it fits lengths above half of
        // that.
        let size = len.next_power_of_two().ilog2() as usize;
        self.sized.get_mut(size).and_then(SizeList::take).unwrap_or_else(|| self.take_empty())
    }

    /// Keeps a buffer that nobody else has.
    pub(super) fn keep(&mut self, handle: SharedBuffer) {
        // The room without the bytes for alignment tells the class.
        let Some(size) = handle.capacity().saturating_sub(AlignedBuffer::ALIGN).checked_ilog2() else {
            return self.keep_empty(handle);
        };
        let size = size as usize;
        if size >= self.sized.len() {
            self.sized.resize_with(size + 1, SizeList::default);
        }
        self.sized[size].handles.push(handle);
    }

    /// Counts the bytes of the buffers.
    pub(super) fn bytes(&self) -> usize {
        self.sized.iter().flat_map(|list| &list.handles).map(|handle| handle.capacity()).sum()
    }

    /// Drops the buffers that nobody took since the last time.
    pub(super) fn drop_idle(&mut self) {
        for list in &mut self.sized {
            // A buffer that lay idle through a whole period is more than the load
            // needs.
            list.handles.truncate(list.handles.len() - list.idle);
            list.idle = list.handles.len();
        }
    }
}
