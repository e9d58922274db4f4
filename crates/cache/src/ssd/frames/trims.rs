//! Frames that became free, so that the device can be told that nobody needs what is in them.

use super::{FrameNo, FrameState, FrameTable};

impl FrameTable {
    /// Has what becomes free be trimmed.
    pub(crate) const fn trim_freed(&mut self) {
        self.tells_freed = true;
    }

    /// A frame became free. Nothing but a newer entry of the log says of it what it has, and nobody reads it.
    pub(super) fn note_freed(&mut self, frame: FrameNo) {
        // A lost device needs no trims, and a new one has nothing to trim.
        if self.tells_freed && self.enabled {
            self.freed.push(frame);
        }
    }

    /// Returns true if frames became free; some may have been taken since.
    #[inline]
    pub(crate) const fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Takes frames that became free and still are, at most so many; until they are [trimmed](Self::trimmed) nobody
    /// else can.
    pub(crate) fn take_freed(&mut self, most: usize, into: &mut Vec<FrameNo>) {
        while into.len() < most
            && let Some(frame) = self.freed.pop()
        {
            // It may have been taken since, or be here twice.
            if self.slots[frame.index()].state == FrameState::Free {
                self.unset_free(frame);
                self.slots[frame.index()].state = FrameState::Trimmed;
                into.push(frame);
            }
        }
    }

    /// The device was told, or is not there any more.
    pub(crate) fn trimmed(&mut self, frame: FrameNo) {
        debug_assert!(self.slots[frame.index()].state == FrameState::Trimmed, "nobody else could take it");
        self.set_free(frame);
    }
}
